//! How far numbers that only grow can be moved down.

use alloc::vec::Vec;

use crate::{Counter, Role, Space};

/// For each space of counters, its smallest exact number: all of the space may be moved down together, until that is 1.
///
/// First every counter of a state is [met](Self::meet), then every one is [lowered](Self::lower). Whoever only compares
/// and increments cannot tell the difference; a number that serves as a bound and has fallen behind is raised to just
/// below the smallest exact one, which no comparison can tell either.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Floors {
    smallest: Vec<(Space, u64)>,
}

impl Floors {
    /// Takes note of a counter.
    pub fn meet(&mut self, counter: &Counter<'_>) {
        if counter.role == Role::Exact {
            self.note(counter.space, *counter.value);
        }
    }

    /// Takes note of what was met elsewhere.
    pub fn merge(&mut self, other: &Self) {
        for (space, smallest) in &other.smallest {
            self.note(*space, *smallest);
        }
    }

    fn note(&mut self, space: Space, value: u64) {
        match self.smallest.iter_mut().find(|(other, _)| *other == space) {
            Some((_, smallest)) => *smallest = value.min(*smallest),
            None => self.smallest.push((space, value)),
        }
    }

    fn floor(&self, space: Space) -> u64 {
        let found = self.smallest.iter().find(|(other, _)| *other == space);
        found.map_or(0, |(_, smallest)| smallest.saturating_sub(1))
    }

    /// Whether nothing can be moved.
    #[must_use]
    pub fn is_level(&self) -> bool {
        self.smallest.iter().all(|(_, smallest)| *smallest <= 1)
    }

    /// Moves a counter down.
    pub fn lower(&self, counter: Counter<'_>) {
        *counter.value = counter.value.saturating_sub(self.floor(counter.space));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeId;

    #[test]
    fn a_space_moves_down_as_a_whole_and_bounds_do_not_hold_it() {
        let (clock, other) = (Space::shared("clock"), Space::of("clock", NodeId(2)));
        let (mut a, mut b, mut late, mut elsewhere) = (7, 9, 2, 3);
        let mut floors = Floors::default();
        floors.meet(&Counter::exact(clock, &mut a));
        floors.meet(&Counter::exact(clock, &mut b));
        floors.meet(&Counter::bound(clock, &mut late));
        floors.meet(&Counter::exact(other, &mut elsewhere));
        assert!(!floors.is_level());
        floors.lower(Counter::exact(clock, &mut a));
        floors.lower(Counter::exact(clock, &mut b));
        floors.lower(Counter::bound(clock, &mut late));
        floors.lower(Counter::exact(other, &mut elsewhere));
        assert_eq!((a, b, late, elsewhere), (1, 3, 0, 1));
    }

    #[test]
    fn what_begins_at_zero_stays() {
        let (mut a, mut b) = (0, 5);
        let mut floors = Floors::default();
        floors.meet(&Counter::exact(Space::shared("x"), &mut a));
        floors.meet(&Counter::exact(Space::shared("x"), &mut b));
        assert!(floors.is_level());
        floors.lower(Counter::exact(Space::shared("x"), &mut b));
        assert_eq!(b, 5);
    }
}
