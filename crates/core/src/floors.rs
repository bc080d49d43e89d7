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
    spaces: Vec<(Space, Extent)>,
}

/// What was met of one space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Extent {
    smallest_exact: Option<u64>,
    largest_bound: u64,
}

impl Extent {
    /// How far the space can be moved down. A bound is compared with exact numbers only; where there are none, only the
    /// largest counts.
    fn floor(self) -> u64 {
        self.smallest_exact.unwrap_or(self.largest_bound).saturating_sub(1)
    }

    fn widen(&mut self, other: Self) {
        self.smallest_exact = match (self.smallest_exact, other.smallest_exact) {
            (Some(mine), Some(theirs)) => Some(mine.min(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
        self.largest_bound = self.largest_bound.max(other.largest_bound);
    }
}

impl Floors {
    /// Takes note of a counter.
    pub fn meet(&mut self, counter: &Counter<'_>) {
        let met = match counter.role {
            Role::Exact => Extent { smallest_exact: Some(*counter.value), largest_bound: 0 },
            Role::Bound => Extent { smallest_exact: None, largest_bound: *counter.value },
        };
        self.note(counter.space, met);
    }

    /// Takes note of what was met elsewhere.
    pub fn merge(&mut self, other: &Self) {
        for (space, extent) in &other.spaces {
            self.note(*space, *extent);
        }
    }

    fn note(&mut self, space: Space, met: Extent) {
        match self.spaces.iter_mut().find(|(other, _)| *other == space) {
            Some((_, extent)) => extent.widen(met),
            None => self.spaces.push((space, met)),
        }
    }

    fn floor(&self, space: Space) -> u64 {
        let found = self.spaces.iter().find(|(other, _)| *other == space);
        found.map_or(0, |(_, extent)| extent.floor())
    }

    /// Whether nothing can be moved.
    #[must_use]
    pub fn is_level(&self) -> bool {
        self.spaces.iter().all(|(_, extent)| extent.floor() == 0)
    }

    /// Moves a counter down.
    pub fn lower(&self, counter: &mut Counter<'_>) {
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
        floors.lower(&mut Counter::exact(clock, &mut a));
        floors.lower(&mut Counter::exact(clock, &mut b));
        floors.lower(&mut Counter::bound(clock, &mut late));
        floors.lower(&mut Counter::exact(other, &mut elsewhere));
        assert_eq!((a, b, late, elsewhere), (1, 3, 0, 1));
    }

    #[test]
    fn what_begins_at_zero_stays() {
        let (mut a, mut b) = (0, 5);
        let mut floors = Floors::default();
        floors.meet(&Counter::exact(Space::shared("x"), &mut a));
        floors.meet(&Counter::exact(Space::shared("x"), &mut b));
        assert!(floors.is_level());
        floors.lower(&mut Counter::exact(Space::shared("x"), &mut b));
        assert_eq!(b, 5);
    }
}
