//! What a process that does not recover makes of the lives of others.

use alloc::collections::BTreeMap;

use conclave_core::{Incarnation, NodeId};

/// Where a life begins to count its requests: above all that an earlier life can have reached, so that nothing of the
/// dead is taken for something of the living.
pub(super) fn numbers_before(life: Incarnation) -> u64 {
    u64::from(life.0.saturating_sub(1)) << LIFE_BITS
}

/// A number without the life that it was counted in.
pub(super) fn within_life(number: u64) -> u64 {
    number & ((1 << LIFE_BITS) - 1)
}

/// A life has room for so many numbers, as a power of two.
const LIFE_BITS: u32 = 32;

/// The peers that are believed dead, each with the life that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Down(BTreeMap<NodeId, Incarnation>);

impl Down {
    pub fn contains(&self, peer: NodeId) -> bool {
        self.0.contains_key(&peer)
    }

    /// A life has ended.
    pub fn end(&mut self, peer: NodeId, life: Incarnation) {
        let last = self.0.entry(peer).or_insert(life);
        *last = life.max(*last);
    }

    /// A life goes on, or a later one has begun; says whether it is a later one.
    pub fn rise(&mut self, peer: NodeId, life: Incarnation) -> bool {
        let Some(last) = self.0.get(&peer).copied().filter(|last| life >= *last) else { return false };
        self.0.remove(&peer);
        life > last
    }

    /// A request with this number has arrived. One that the dead cannot have sent shows that a later life has begun;
    /// says whether it does.
    pub fn hear(&mut self, peer: NodeId, number: u64) -> bool {
        let later = self.0.get(&peer).is_some_and(|last| number > u64::from(last.0) << LIFE_BITS);
        if later {
            self.0.remove(&peer);
        }
        later
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: NodeId = NodeId(7);

    fn after_the_end_of(life: u32) -> Down {
        let mut down = Down::default();
        down.end(PEER, Incarnation(life));
        assert!(down.contains(PEER));
        down
    }

    #[test]
    fn a_life_comes_back_if_it_was_suspected_wrongly_and_the_next_one_begins() {
        for (life, up, new) in [(1, false, false), (2, true, false), (3, true, true)] {
            let mut down = after_the_end_of(2);
            assert_eq!(down.rise(PEER, Incarnation(life)), new, "life {life}");
            assert_eq!(down.contains(PEER), !up, "life {life}");
        }
    }

    /// What the old life sent may arrive after its end.
    #[test]
    fn the_words_of_the_dead_do_not_wake_them() {
        for ended in [1, 2, u32::MAX] {
            let first_words = |life: u64| ((life - 1) << LIFE_BITS) + 1;
            let mut down = after_the_end_of(ended);
            assert!(!down.hear(PEER, first_words(u64::from(ended))), "life {ended}");
            assert!(down.contains(PEER), "life {ended}");
            if ended < u32::MAX {
                assert!(down.hear(PEER, first_words(u64::from(ended) + 1)), "life {ended}");
                assert!(!down.contains(PEER), "life {ended}");
            }
        }
    }

    #[test]
    fn numbers_of_a_life() {
        assert_eq!(numbers_before(Incarnation::FIRST), 0);
        let number = numbers_before(Incarnation(3)) + 5;
        assert!(number > numbers_before(Incarnation(2)) + u64::from(u32::MAX));
        assert_eq!(within_life(number), 5);
    }
}
