//! How long a leader that lost waits before it campaigns again.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// After the first loss.
const FIRST: Duration = Duration::from_millis(400);
/// After many in a row.
const LONGEST: Duration = Duration::from_secs(30);
/// A term that lasted as long as this, and as three times its TTL, starts the count again: one that ends with its first lease
/// has hardly led.
const LASTING: Duration = Duration::from_secs(60);
/// While no node answers. It does not grow: nothing was run, and each attempt looks for a node for a while by itself.
const UNANSWERED: Duration = Duration::from_secs(1);

/// The terms so far.
#[derive(Debug, Default)]
pub struct Terms {
    /// How many short ones there were in a row.
    short: u32,
}

impl Terms {
    /// How long to wait after a term that was lost, with the chance of this time.
    pub fn after_loss(&mut self, lasted: Duration, ttl: Duration, chance: f64) -> Duration {
        if lasted >= LASTING.max(ttl * 3) {
            self.short = 0;
        }
        let doubled = FIRST.saturating_mul(1_u32.checked_shl(self.short).unwrap_or(u32::MAX));
        self.short = self.short.saturating_add(1);
        jittered(doubled.min(LONGEST), chance)
    }

    /// How long to wait where no node answers.
    pub fn unanswered(chance: f64) -> Duration {
        jittered(UNANSWERED, chance)
    }
}

/// Between one half and the whole of it, so that those who lost together do not come back together.
fn jittered(pause: Duration, chance: f64) -> Duration {
    pause.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
}

/// A number from 0 to 1, another one each time.
pub fn chance() -> f64 {
    RandomState::new().hash_one(0) as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    #[test]
    fn pauses_grow_to_a_bound_and_shrink_after_a_term_that_lasted() {
        let mut terms = Terms::default();
        let short = Duration::from_secs(9);
        let pauses: Vec<u128> = (0..9).map(|_| terms.after_loss(short, TTL, 1.0).as_millis()).collect();
        assert_eq!(pauses, [400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
        assert_eq!(terms.after_loss(LASTING, TTL, 1.0), FIRST);
        assert_eq!(terms.after_loss(short, TTL, 1.0), FIRST * 2);
        // A minute is less than three leases here.
        assert_eq!(terms.after_loss(LASTING, LASTING, 1.0), FIRST * 4);
        for _ in 0..100 {
            assert!(terms.after_loss(short, TTL, 1.0) <= LONGEST);
        }
        assert_eq!(Terms { short: u32::MAX }.after_loss(short, TTL, 1.0), LONGEST);
    }

    #[test]
    fn pauses_differ_within_a_half() {
        let pause = |chance| Terms::default().after_loss(Duration::ZERO, TTL, chance);
        assert_eq!((pause(0.0), pause(0.5)), (FIRST / 2, FIRST.mul_f64(0.75)));
        assert!((0..100).map(|_| chance()).all(|chance| (0.0..=1.0).contains(&chance)));
        assert_ne!(chance(), chance());
        assert!(Terms::unanswered(0.0) >= UNANSWERED / 2);
    }
}
