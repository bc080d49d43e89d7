//! The names of processes, and sets of them.

use alloc::vec::Vec;
use core::fmt::{Debug, Display, Formatter};

use serde::{Deserialize, Serialize};

/// The name of a process: unique, and ordered like the number that it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u32);

impl Display for NodeId {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        write!(f, "p{}", self.0)
    }
}

impl Debug for NodeId {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        Display::fmt(self, f)
    }
}

/// `3` or `p3`, and nothing else that a number parser might take.
impl core::str::FromStr for NodeId {
    type Err = NotAProcess;

    fn from_str(text: &str) -> Result<Self, NotAProcess> {
        let digits = text.strip_prefix('p').unwrap_or(text);
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|_| plain).map(Self).ok_or(NotAProcess)
    }
}

/// A text that does not name a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAProcess;

/// A set of processes as bits: small, ordered, hashable, of any size.
///
/// Ids below 64 live inside the value, so that the sets of small groups never touch the heap. Equal sets are equal
/// values: words that would be zero at the end are not kept.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeSet {
    low: u64,
    high: Vec<u64>,
}

impl NodeSet {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { low: 0, high: Vec::new() }
    }

    /// Whether nobody is in it.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.low == 0 && self.high.is_empty()
    }

    /// How many are in it.
    #[must_use]
    pub fn len(&self) -> usize {
        let high: u32 = self.high.iter().map(|word| word.count_ones()).sum();
        (self.low.count_ones() + high) as usize
    }

    /// Whether `id` is in it.
    #[inline]
    #[must_use]
    pub fn contains(&self, id: NodeId) -> bool {
        match place(id) {
            (None, bit) => self.low & bit != 0,
            (Some(word), bit) => self.high.get(word).is_some_and(|w| w & bit != 0),
        }
    }

    /// Puts `id` in; says whether it was not there before.
    #[inline]
    pub fn insert(&mut self, id: NodeId) -> bool {
        let (slot, bit) = match place(id) {
            (None, bit) => (&mut self.low, bit),
            (Some(word), bit) => {
                if self.high.len() <= word {
                    self.high.resize(word + 1, 0);
                }
                (&mut self.high[word], bit)
            }
        };
        let new = *slot & bit == 0;
        *slot |= bit;
        new
    }

    /// Takes `id` out; says whether it was there.
    #[inline]
    pub fn remove(&mut self, id: NodeId) -> bool {
        let (slot, bit) = match place(id) {
            (None, bit) => (&mut self.low, bit),
            (Some(word), bit) => match self.high.get_mut(word) {
                Some(slot) => (slot, bit),
                None => return false,
            },
        };
        let was_there = *slot & bit != 0;
        *slot &= !bit;
        while self.high.last() == Some(&0) {
            self.high.pop();
        }
        was_there
    }

    /// Takes everyone out, keeping the room.
    pub fn clear(&mut self) {
        self.low = 0;
        self.high.clear();
    }

    /// Whether everyone of `self` is in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.low & !other.low == 0
            && self.high.len() <= other.high.len()
            && self.high.iter().zip(&other.high).all(|(mine, theirs)| mine & !theirs == 0)
    }

    /// Whether somebody is in both.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        self.low & other.low != 0
            || self.high.iter().zip(&other.high).any(|(mine, theirs)| mine & theirs != 0)
    }

    /// Its members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        core::iter::once(&self.low)
            .chain(&self.high)
            .enumerate()
            .flat_map(|(word, bits)| Bits(*bits).map(move |bit| NodeId(word as u32 * 64 + bit)))
    }
}

/// Which word of `high` (or `low`) a process belongs to, and its bit there.
fn place(id: NodeId) -> (Option<usize>, u64) {
    ((id.0 as usize / 64).checked_sub(1), 1 << (id.0 % 64))
}

/// The places of the ones in a word.
struct Bits(u64);

impl Iterator for Bits {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let bit = self.0.trailing_zeros();
        (self.0 != 0).then(|| {
            self.0 &= self.0 - 1;
            bit
        })
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(ids: I) -> Self {
        let mut set = Self::new();
        set.extend(ids);
        set
    }
}

impl Extend<NodeId> for NodeSet {
    fn extend<I: IntoIterator<Item = NodeId>>(&mut self, ids: I) {
        for id in ids {
            self.insert(id);
        }
    }
}

impl Debug for NodeSet {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    #[test]
    fn names_of_processes() {
        for id in ["0", "7", "p7", "4294967295"] {
            assert!(id.parse::<NodeId>().is_ok(), "{id}");
        }
        for wrong in ["", "p", "+1", "-1", "q1", "pp1", " 1", "4294967296"] {
            assert_eq!(wrong.parse::<NodeId>(), Err(NotAProcess), "{wrong}");
        }
    }

    proptest! {
        /// A `NodeSet` behaves as an ordinary ordered set does, whatever is put in and taken out.
        #[test]
        fn agrees_with_an_ordinary_set(steps in prop::collection::vec((any::<bool>(), 0u32..200), 0..200)) {
            let (mut ours, mut plain) = (NodeSet::new(), BTreeSet::new());
            for (insert, id) in steps {
                let id = NodeId(id);
                if insert {
                    prop_assert_eq!(ours.insert(id), plain.insert(id));
                } else {
                    prop_assert_eq!(ours.remove(id), plain.remove(&id));
                }
                prop_assert_eq!(ours.len(), plain.len());
                prop_assert_eq!(ours.is_empty(), plain.is_empty());
            }
            prop_assert!(ours.iter().eq(plain.iter().copied()));
            // However a set came about, equal sets are equal values.
            prop_assert_eq!(&ours, &plain.iter().copied().collect::<NodeSet>());
        }

        #[test]
        fn subset_and_intersection(a in prop::collection::btree_set(0u32..150, 0..20),
                                   b in prop::collection::btree_set(0u32..150, 0..20)) {
            let set = |ids: &BTreeSet<u32>| ids.iter().map(|id| NodeId(*id)).collect::<NodeSet>();
            prop_assert_eq!(set(&a).is_subset(&set(&b)), a.is_subset(&b));
            prop_assert_eq!(set(&a).intersects(&set(&b)), !a.is_disjoint(&b));
        }
    }
}
