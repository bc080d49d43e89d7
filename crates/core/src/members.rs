//! Who takes part.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use crate::{NodeId, NodeSet};

/// All processes of a group in their order on the ring, as a shared handle.
///
/// A clone costs a counter, so that a million processes can each keep one. Everything about the neighbourhood
/// (successor, rank, who else there is) is worked out from the order on demand and stored nowhere twice.
#[derive(Clone)]
pub struct Members {
    order: Arc<Order>,
}

enum Order {
    /// `first, first + 1, ...`: the usual case needs no table.
    Range { first: u32, len: u32 },
    /// Any order of any ids, with the place of each.
    Listed { ring: Box<[NodeId]>, places: Places },
}

/// Where each id stands in the list.
enum Places {
    /// By id, where the ids are dense enough for a table.
    Table(Box<[u32]>),
    /// Ids in ascending order with their places, to be searched.
    Sorted(Box<[(NodeId, u32)]>),
}

const ABSENT: u32 = u32::MAX;

impl Members {
    /// Processes `1, 2, ..., n`.
    #[must_use]
    pub fn numbered(n: u32) -> Self {
        Self { order: Arc::new(Order::Range { first: 1, len: n }) }
    }

    /// The given processes, in this order on the ring.
    ///
    /// # Panics
    /// If an id is given twice.
    #[must_use]
    pub fn listed(ring: impl Into<Vec<NodeId>>) -> Self {
        let ring: Box<[NodeId]> = ring.into().into_boxed_slice();
        let in_order = ring.windows(2).all(|pair| pair[0].0.checked_add(1) == Some(pair[1].0));
        if let (true, Some(first)) = (in_order, ring.first()) {
            return Self { order: Arc::new(Order::Range { first: first.0, len: ring.len() as u32 }) };
        }
        let places = Places::of(&ring).unwrap_or_else(|twice| panic!("{twice} is listed twice"));
        Self { order: Arc::new(Order::Listed { ring, places }) }
    }

    /// How many there are.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        match &*self.order {
            Order::Range { len, .. } => *len as usize,
            Order::Listed { ring, .. } => ring.len(),
        }
    }

    /// Whether there is nobody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether `id` is one of them.
    #[inline]
    #[must_use]
    pub fn contains(&self, id: NodeId) -> bool {
        self.position(id).is_some()
    }

    /// The place of `id` on the ring, counted from 0.
    #[inline]
    #[must_use]
    pub fn position(&self, id: NodeId) -> Option<usize> {
        match &*self.order {
            Order::Range { first, len } => {
                let place = id.0.wrapping_sub(*first);
                (place < *len).then_some(place as usize)
            }
            Order::Listed { places, .. } => places.find(id),
        }
    }

    /// Who stands at a place of the ring, counted from 0.
    ///
    /// # Panics
    /// If there is no such place.
    #[inline]
    #[must_use]
    pub fn at(&self, position: usize) -> NodeId {
        match &*self.order {
            Order::Range { first, len } => {
                assert!(position < *len as usize, "place {position} is beyond a ring of {len}");
                NodeId(first + position as u32)
            }
            Order::Listed { ring, .. } => ring[position],
        }
    }

    /// Whether `other` is one of them, and not `id` itself: somebody who may send to `id`.
    #[inline]
    #[must_use]
    pub fn has_other(&self, id: NodeId, other: NodeId) -> bool {
        other != id && self.contains(other)
    }

    /// Whether these are members, each listed once.
    #[must_use]
    pub fn has_each_once(&self, ids: impl IntoIterator<Item = NodeId>) -> bool {
        let mut seen = NodeSet::new();
        ids.into_iter().all(|id| self.contains(id) && seen.insert(id))
    }

    /// Everyone, in ring order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = NodeId> + '_ {
        (0..self.len()).map(|place| self.at(place))
    }

    /// Everyone but `id`, in ring order.
    pub fn others(&self, id: NodeId) -> impl DoubleEndedIterator<Item = NodeId> + '_ {
        self.iter().filter(move |other| *other != id)
    }

    /// Everyone but `id`, beginning with its successor and going round.
    pub fn after(&self, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let start = self.position(id).map_or(0, |place| place + 1);
        let len = self.len();
        (0..len).map(move |step| self.at((start + step) % len)).filter(move |other| *other != id)
    }

    /// The largest id.
    #[must_use]
    pub fn max(&self) -> Option<NodeId> {
        match &*self.order {
            Order::Range { first, len } => len.checked_sub(1).map(|last| NodeId(first + last)),
            Order::Listed { ring, .. } => ring.iter().copied().max(),
        }
    }

    /// The smallest id.
    #[must_use]
    pub fn min(&self) -> Option<NodeId> {
        match &*self.order {
            Order::Range { first, len } => (*len > 0).then_some(NodeId(*first)),
            Order::Listed { ring, .. } => ring.iter().copied().min(),
        }
    }
}

impl Places {
    /// Fails with an id that is listed twice.
    fn of(ring: &[NodeId]) -> Result<Self, NodeId> {
        let room = ring.iter().map(|id| id.0 as usize + 1).max().unwrap_or(0);
        if room <= 4 * ring.len() + 64 {
            let mut table = vec![ABSENT; room].into_boxed_slice();
            for (place, id) in ring.iter().enumerate() {
                let entry = &mut table[id.0 as usize];
                if *entry != ABSENT {
                    return Err(*id);
                }
                *entry = place as u32;
            }
            return Ok(Self::Table(table));
        }
        let mut sorted: Vec<_> = ring.iter().enumerate().map(|(place, id)| (*id, place as u32)).collect();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(pair[0].0),
            None => Ok(Self::Sorted(sorted.into_boxed_slice())),
        }
    }

    fn find(&self, id: NodeId) -> Option<usize> {
        match self {
            Self::Table(table) => {
                table.get(id.0 as usize).filter(|place| **place != ABSENT).map(|place| *place as usize)
            }
            Self::Sorted(sorted) => {
                let found = sorted.binary_search_by_key(&id, |(id, _)| *id).ok()?;
                Some(sorted[found].1 as usize)
            }
        }
    }
}

impl PartialEq for Members {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.order, &other.order) || (self.len() == other.len() && self.iter().eq(other.iter()))
    }
}

impl Eq for Members {}

impl Hash for Members {
    /// Hashes little: within a run nearly all values are the same one, and equality tells the rest apart.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len().hash(state);
    }
}

impl core::fmt::Debug for Members {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match &*self.order {
            Order::Range { first, len } => write!(f, "{}..+{len}", NodeId(*first)),
            Order::Listed { ring, .. } => f.debug_list().entries(ring.iter()).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Place and id are each other's inverse, for dense ids, sparse ids and plain ranges.
        #[test]
        fn places_and_ids_agree(ids in prop::collection::hash_set(0u32..500, 1..40), sparse in any::<bool>()) {
            let ring: Vec<_> = ids.into_iter().map(|id| NodeId(if sparse { id * 1_000 } else { id })).collect();
            let members = Members::listed(ring.clone());
            prop_assert_eq!(members.len(), ring.len());
            prop_assert!(members.iter().eq(ring.iter().copied()));
            for (place, id) in ring.iter().enumerate() {
                prop_assert_eq!(members.position(*id), Some(place));
                prop_assert_eq!(members.at(place), *id);
                let round: Vec<_> = members.after(*id).collect();
                prop_assert_eq!(round.len(), ring.len() - 1);
                prop_assert_eq!(round.first().copied(), (ring.len() > 1).then(|| ring[(place + 1) % ring.len()]));
            }
            prop_assert_eq!(members.position(NodeId(999_999)), None);
            prop_assert_eq!(members.max(), ring.iter().copied().max());
            prop_assert_eq!(members.min(), ring.iter().copied().min());
        }
    }

    #[test]
    fn a_listed_range_equals_a_numbered_one() {
        let listed = Members::listed([NodeId(1), NodeId(2), NodeId(3)]);
        assert_eq!(listed, Members::numbered(3));
        assert_ne!(Members::listed([NodeId(2), NodeId(1), NodeId(3)]), Members::numbered(3));
    }

    /// By the table of dense ids and by the list of sparse ones.
    #[test]
    fn an_id_listed_twice_is_found() {
        for other in [1, 1_000_000] {
            let twice = [7, other, 7].map(NodeId);
            assert_eq!(Places::of(&twice).err(), Some(NodeId(7)));
            assert!(Places::of(&twice[..2]).is_ok());
        }
    }
}
