//! Service time, as a leader counts it.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, SystemTime};

use conclave_service::Millis;
use tokio::time::Instant;

use crate::mutant::{self, Mutant};

/// A clock that never goes back. Its zero means nothing.
pub trait Clock: Send + Sync + 'static {
    /// The time since its zero.
    fn now(&self) -> Duration;
}

/// The clock of the machine, which wall-clock jumps do not touch.
pub struct Monotonic {
    zero: Instant,
}

impl Default for Monotonic {
    fn default() -> Self {
        Self { zero: Instant::now() }
    }
}

impl Clock for Monotonic {
    fn now(&self) -> Duration {
        self.zero.elapsed()
    }
}

/// The longest step of service time. A leader looks at the clock far more often, unless it was stopped itself, and then
/// the words of its clients were stopped with it.
pub const LONGEST_STEP: Duration = Duration::from_millis(250);

/// The time of day. It may be wrong and go back: leases do not depend on it, only the numbers at which tokens begin.
pub trait Wall: Send + Sync + 'static {
    /// The time since the beginning of 1970.
    fn since_1970(&self) -> Duration;
}

/// The time of day as this machine has it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemWall;

impl Wall for SystemWall {
    fn since_1970(&self) -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }
}

/// Service time goes on from where the last leader's ended, at the speed of this machine's clock, and stands still while
/// the leader does. So a lease may last longer than its time to live, never shorter.
///
/// It belongs to a term. Whoever asks says which, so that a new leadership cannot go on with the reading of an earlier one:
/// that one may have counted on while it was cut off, when the time of its successor stood still.
pub struct ServiceClock {
    clock: Box<dyn Clock>,
    last: Mutex<Reading>,
}

#[derive(Clone, Copy, Default)]
struct Reading {
    term: u64,
    at: Duration,
    service: Duration,
}

impl ServiceClock {
    pub fn new(clock: Box<dyn Clock>) -> Self {
        Self { clock, last: Mutex::default() }
    }

    /// The service time, as the leader of a term counts it: no less than what has been applied already, which is where a
    /// term begins.
    pub fn now(&self, term: u64, applied: Millis) -> Millis {
        let at = self.clock.now();
        if mutant::is(Mutant::OwnClock) {
            return Millis::try_from(at.as_millis()).unwrap_or(Millis::MAX).max(applied);
        }
        let applied = Duration::from_millis(applied);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if term < last.term {
            // Somebody looked who leads, and another leadership has begun since: its reading stays as it is.
            return Millis::try_from(applied.as_millis()).unwrap_or(Millis::MAX);
        }
        if term > last.term && !mutant::is(Mutant::KeepsClock) {
            *last = Reading { term, at, service: applied };
        }
        let hurry = if mutant::is(Mutant::HurriesTime) { 2 } else { 1 };
        let step = at.saturating_sub(last.at).min(LONGEST_STEP) * hurry;
        let service = (last.service + step).max(applied);
        *last = Reading { term, at, service };
        Millis::try_from(service.as_millis()).unwrap_or(Millis::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::mutant::tests::assert_caught;

    struct Hand(Arc<AtomicU64>);

    impl Clock for Hand {
        fn now(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::Relaxed))
        }
    }

    fn clock(at: u64) -> (ServiceClock, impl Fn(u64)) {
        let hand = Arc::new(AtomicU64::new(at));
        let clock = ServiceClock::new(Box::new(Hand(Arc::clone(&hand))));
        let wait = move |millis| {
            hand.fetch_add(millis, Ordering::Relaxed);
        };
        (clock, wait)
    }

    #[test]
    fn it_goes_on_where_the_last_leader_stopped() {
        let (clock, wait) = clock(7_000);
        assert_eq!(clock.now(3, 100), 100);
        wait(40);
        assert_eq!(clock.now(3, 100), 140);
        assert_eq!(clock.now(3, 150), 150, "what is applied already counts");
    }

    #[test]
    fn a_leader_that_was_stopped_does_not_count_the_time() {
        let (clock, wait) = clock(0);
        assert_eq!(clock.now(1, 0), 0);
        wait(10_000);
        assert_eq!(clock.now(1, 0), 250);
        wait(10);
        assert_eq!(clock.now(1, 0), 260);
    }

    #[test]
    fn another_term_begins_with_what_was_applied_whoever_asks_first() {
        let (clock, wait) = clock(5_000);
        assert_eq!(clock.now(3, 1_000), 1_000);
        // It is cut off, and counts on while it believes that it leads.
        for _ in 0..50 {
            wait(100);
            clock.now(3, 1_000);
        }
        assert_eq!(clock.now(3, 1_000), 6_000);
        // Its successor's time stood still during the election. Then it leads again.
        assert_eq!(clock.now(5, 1_200), 1_200, "leases would have ended early");
        wait(10);
        assert_eq!(clock.now(5, 1_200), 1_210);
        assert_eq!(clock.now(3, 1_205), 1_205, "who asks for a leadership that is over");
        assert_eq!(clock.now(5, 1_205), 1_210, "leaves the present one alone");
    }

    #[test]
    fn that_a_term_begins_anew_is_tested() {
        let test = "front::clock::tests::another_term_begins_with_what_was_applied_whoever_asks_first";
        assert_caught(test, Mutant::KeepsClock, "leases would have ended early");
    }
}
