//! Time that goes on while the machine sleeps.
//!
//! A lease runs out at the service whether this machine is awake or not. So what a client counts on is measured on a clock
//! that counts suspended time, `CLOCK_BOOTTIME` on Linux. Timers of the runtime stand still meanwhile and come late; that
//! is why whoever relies on a lease looks at this clock instead of waiting to be told.

use std::ops::Add;
use std::time::Duration;

/// A point in time on a clock that goes on while the machine sleeps: how long after the machine started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// The latest one.
    pub const MAX: Self = Self(Duration::MAX);

    /// The moment so long after the machine started.
    #[must_use]
    pub const fn after_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// How long after the machine started it is.
    #[must_use]
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// How long after another moment it is; zero if it is not.
    #[must_use]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment so long before, or the first one.
    #[must_use]
    pub const fn saturating_sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(span))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }
}

/// Where a client reads the time by which its leases run out.
pub trait Clock: Send + Sync {
    /// What time it is. Never goes back.
    fn now(&self) -> Moment;
}

/// The clock of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[cfg(target_os = "linux")]
impl Clock for SystemClock {
    fn now(&self) -> Moment {
        use nix::time::{ClockId, clock_gettime};
        // Every kernel that runs this has both clocks.
        let time =
            clock_gettime(ClockId::CLOCK_BOOTTIME).or_else(|_| clock_gettime(ClockId::CLOCK_MONOTONIC));
        Moment(time.map_or(Duration::MAX, Duration::from))
    }
}

#[cfg(not(target_os = "linux"))]
impl Clock for SystemClock {
    fn now(&self) -> Moment {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        Moment(START.get_or_init(std::time::Instant::now).elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_the_machine_goes_on() {
        let before = SystemClock.now();
        std::thread::sleep(Duration::from_millis(2));
        let span = SystemClock.now().saturating_duration_since(before);
        assert!(span >= Duration::from_millis(2) && before > Moment::after_start(Duration::ZERO), "{span:?}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn it_counts_from_the_start_of_the_machine() {
        let text = std::fs::read_to_string("/proc/uptime").expect("it is there");
        let uptime: f64 = text.split(' ').next().and_then(|word| word.parse().ok()).expect("a number");
        let now = SystemClock.now().since_start().as_secs_f64();
        assert!((now - uptime).abs() < 5.0, "{now} s instead of {uptime} s");
    }
}
