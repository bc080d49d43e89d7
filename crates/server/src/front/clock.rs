//! Service time, as a leader counts it.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

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

/// Service time goes on from where the last leader's ended, at the speed of this machine's clock, and stands still while
/// the leader does. So a lease may last longer than its time to live, never shorter.
pub struct ServiceClock {
    clock: Box<dyn Clock>,
    last: Mutex<Reading>,
}

#[derive(Clone, Copy, Default)]
struct Reading {
    at: Duration,
    service: Duration,
}

impl ServiceClock {
    pub fn new(clock: Box<dyn Clock>) -> Self {
        Self { clock, last: Mutex::default() }
    }

    /// Begins anew at this service time.
    pub fn start_at(&self, service: Millis) {
        let at = self.clock.now();
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) =
            Reading { at, service: Duration::from_millis(service) };
    }

    /// The service time, which is no less than what has been applied already.
    pub fn now(&self, applied: Millis) -> Millis {
        let at = self.clock.now();
        if mutant::is(Mutant::OwnClock) {
            return Millis::try_from(at.as_millis()).unwrap_or(Millis::MAX).max(applied);
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let step = at.saturating_sub(last.at).min(LONGEST_STEP);
        let service = (last.service + step).max(Duration::from_millis(applied));
        *last = Reading { at, service };
        Millis::try_from(service.as_millis()).unwrap_or(Millis::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    struct Hand(Arc<AtomicU64>);

    impl Clock for Hand {
        fn now(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn it_goes_on_where_the_last_leader_stopped() {
        let hand = Arc::new(AtomicU64::new(7_000));
        let clock = ServiceClock::new(Box::new(Hand(Arc::clone(&hand))));
        clock.start_at(100);
        hand.fetch_add(40, Ordering::Relaxed);
        assert_eq!(clock.now(100), 140);
        assert_eq!(clock.now(150), 150, "what is applied already counts");
    }

    #[test]
    fn a_leader_that_was_stopped_does_not_count_the_time() {
        let hand = Arc::new(AtomicU64::new(0));
        let clock = ServiceClock::new(Box::new(Hand(Arc::clone(&hand))));
        clock.start_at(0);
        hand.fetch_add(10_000, Ordering::Relaxed);
        assert_eq!(clock.now(0), 250);
        hand.fetch_add(10, Ordering::Relaxed);
        assert_eq!(clock.now(0), 260);
    }
}
