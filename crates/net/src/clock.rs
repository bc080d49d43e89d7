//! The clock that a process reads.
//!
//! It counts from a zero that all processes of a group share, goes on with the machine, also while that is suspended, and
//! never steps: a machine whose clock is set while a process runs does not disturb it. It can be made wrong on purpose, to
//! see what comes of it.

use std::time::{Duration, SystemTime};

use conclave_core::{Deviation, Shown};

/// What the clock of a process counts from, and how wrong it is.
#[derive(Clone, Copy, Debug)]
pub struct ClockConfig {
    /// Its zero, the same for all processes of a group.
    pub zero: SystemTime,
    /// How it deviates, from the start of the process on.
    pub deviation: Deviation,
}

impl Default for ClockConfig {
    fn default() -> Self {
        Self { zero: SystemTime::UNIX_EPOCH, deviation: Deviation::default() }
    }
}

/// The time since the machine was started, its sleep included (CLOCK_BOOTTIME).
#[must_use]
pub fn boot_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let part = |number: i64| u64::try_from(number).unwrap_or_default();
    Duration::from_secs(part(now.tv_sec)) + Duration::from_nanos(part(now.tv_nsec))
}

/// A clock that runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Duration,
    /// The true time at the start, in microseconds.
    start_us: u64,
    deviation: Deviation,
}

impl Clock {
    pub fn start(config: &ClockConfig) -> Self {
        let (start, wall) = same_moment();
        let since = wall.duration_since(config.zero).unwrap_or_default();
        Self { start, start_us: micros(since), deviation: config.deviation }
    }

    /// Microseconds since its zero, as the machine has it.
    pub fn truth(&self) -> u64 {
        self.start_us.saturating_add(micros(boot_time().saturating_sub(self.start)))
    }

    /// What it shows.
    pub fn read(&self) -> Shown {
        let truth = self.truth();
        Shown { truth, ahead: self.deviation.after(truth - self.start_us) }
    }
}

/// The two clocks of the machine, read at one moment: of several tries the one with the least time between them.
fn same_moment() -> (Duration, SystemTime) {
    let read = || {
        let before = boot_time();
        let wall = SystemTime::now();
        (boot_time().saturating_sub(before), before, wall)
    };
    let (_, start, wall) = (0..8).map(|_| read()).min().expect("there are some tries");
    (start, wall)
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_as_wrong_as_it_is_told() {
        let zero = SystemTime::now() - Duration::from_secs(5);
        let deviation = Deviation { offset: -20_000_000, drift: 500_000_000 };
        let clock = Clock::start(&ClockConfig { zero, deviation });
        let shown = clock.read();
        assert!(shown.truth >= 5_000_000 && shown.truth <= clock.truth());
        assert_eq!(shown.ahead, deviation.after(shown.truth - clock.start_us));
        let right = Clock::start(&ClockConfig { zero, ..ClockConfig::default() }).read();
        assert_eq!(right.ahead, 0);
    }
}
