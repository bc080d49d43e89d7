//! The clock that a process shows: its own, corrected, and never set back.

use conclave_core::Reading;
use serde::{Deserialize, Serialize};

/// A correction of the clock that a process has.
///
/// A clock that is behind is set forward at once. One that is ahead must not be set back: what happened would seem to
/// happen again. It goes more slowly until time has caught up with it.
///
/// ```text
///   shows │            ╱╱  the clock, slowed down: what it is ahead melts away
///         │        ╱╱  ╱
///         │    ╱╱  ╱      the time that it is to agree with
///         │╱╱  ╱
///         └───────────────▶ time
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SoftClock {
    /// The reading at which it was corrected last.
    since: Reading,
    /// How far it was ahead of that reading then, in nanoseconds.
    ahead: i64,
    /// How much of this it is to lose.
    excess: i64,
    /// How much it loses in a second, in millionths.
    slew: u32,
}

const MILLION: i128 = 1_000_000;

/// A difference of readings need not fit.
fn narrow(nanos: i128) -> i64 {
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

impl SoftClock {
    /// A clock that was never corrected, and loses at most so many millionths of a second in a second.
    ///
    /// # Panics
    /// If it would stand still or go back.
    #[must_use]
    pub fn new(slew: u32) -> Self {
        assert!(slew < 1_000_000, "a clock that is slowed down goes on");
        Self { since: Reading::ZERO, ahead: 0, excess: 0, slew }
    }

    /// What it shows when the clock of the process shows this.
    #[must_use]
    pub fn at(&self, reading: Reading) -> Reading {
        reading.shifted(self.ahead.saturating_sub(self.lost(reading)))
    }

    /// What it would show if it had lost already all that it is ahead: the time that it is to agree with.
    #[must_use]
    pub fn target(&self, reading: Reading) -> Reading {
        reading.shifted(self.ahead.saturating_sub(self.excess))
    }

    /// From now on it agrees with this time: at once if it is behind, and as soon as it can if it is ahead.
    pub fn agree_with(&mut self, target: Reading, reading: Reading) {
        let shown = self.at(reading);
        let excess = shown.since(target).max(0);
        self.set(shown.max(target), excess, reading);
    }

    /// Shows this at once, even if it has shown more before. Only mutants do that.
    pub(super) fn jump_to(&mut self, target: Reading, reading: Reading) {
        self.set(target, 0, reading);
    }

    fn set(&mut self, shown: Reading, excess: i64, reading: Reading) {
        (self.since, self.ahead, self.excess) = (reading, shown.since(reading), excess);
    }

    fn lost(&self, reading: Reading) -> i64 {
        let elapsed = i128::from(reading.since(self.since).max(0));
        narrow(elapsed * i128::from(self.slew) / MILLION).min(self.excess)
    }
}

/// How far a clock may drift from true time while others look away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Drift {
    /// In millionths.
    pub ppm: u32,
}

impl Drift {
    /// How far two clocks can have moved apart after so many nanoseconds, rounded up.
    #[must_use]
    pub fn apart(self, nanos: i64) -> i64 {
        let apart = 2 * i128::from(self.ppm) * i128::from(nanos.max(0));
        narrow((apart + MILLION - 1) / MILLION)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_behind_is_set_forward_and_what_is_ahead_melts_away() {
        let mut clock = SoftClock::new(500_000);
        clock.agree_with(Reading(1_010), Reading(1_000));
        assert_eq!((clock.at(Reading(1_000)), clock.at(Reading(1_100))), (Reading(1_010), Reading(1_110)));
        clock.agree_with(Reading(1_100), Reading(1_100));
        // Ten ahead: at half speed it takes twenty.
        let shown = [1_100, 1_110, 1_120, 1_130].map(|reading| clock.at(Reading(reading)).0);
        assert_eq!(shown, [1_110, 1_115, 1_120, 1_130]);
        assert_eq!(clock.target(Reading(1_100)), Reading(1_100));
    }

    proptest! {
        #[test]
        fn it_never_goes_back(
            slew in 0..1_000_000u32,
            steps in prop::collection::vec((0..5_000i64, -(1i64 << 61)..1i64 << 61, 0..5_000i64), 1..20),
        ) {
            let (mut clock, mut now, mut shown) = (SoftClock::new(slew), Reading::ZERO, Reading(i64::MIN));
            for (pause, target, rest) in steps {
                now = now.shifted(pause);
                prop_assert!(clock.at(now) >= shown);
                let before = clock.at(now);
                clock.agree_with(Reading(target), now);
                prop_assert!(clock.at(now) >= before && clock.target(now) == Reading(target));
                now = now.shifted(rest);
                shown = clock.at(now);
                prop_assert!(shown >= before);
            }
        }
    }
}
