//! The named timers of a process.

use core::time::Duration;
use std::collections::BTreeMap;

use conclave_core::After;
use tokio::time::Instant;

/// At most one timer per name, each with the moment at which it runs out.
#[derive(Debug)]
pub struct Timers<T> {
    armed: BTreeMap<T, Instant>,
}

impl<T: Clone + Ord> Timers<T> {
    /// None is armed.
    #[must_use]
    pub fn new() -> Self {
        Self { armed: BTreeMap::new() }
    }

    /// Arms a timer; one of the same name that is still armed is replaced.
    pub fn arm(&mut self, timer: T, after: After, now: Instant) {
        self.armed.insert(timer, now + draw(after));
    }

    /// Stops a timer.
    pub fn disarm(&mut self, timer: &T) {
        self.armed.remove(timer);
    }

    /// When the next one runs out.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.armed.values().min().copied()
    }

    /// Takes the one that ran out first, if any has.
    pub fn expire(&mut self, now: Instant) -> Option<T> {
        let (timer, _) = self.armed.iter().filter(|(_, at)| **at <= now).min_by_key(|(_, at)| **at)?;
        let timer = timer.clone();
        self.armed.remove(&timer);
        Some(timer)
    }
}

/// A moment of the range.
fn draw(after: After) -> Duration {
    let width = after.max.saturating_sub(after.min);
    if width.is_zero() { after.min } else { after.min + width.mul_f64(fraction()) }
}

/// A number between 0 and 1 that nobody can foresee: two nodes that start together must not stay in step.
pub(crate) fn fraction() -> f64 {
    // Without randomness timers still run out, only less spread.
    let bits = getrandom::u64().unwrap_or(u64::MAX / 2);
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_earliest_runs_out_first_and_only_once() {
        let mut timers = Timers::new();
        let start = Instant::now();
        timers.arm("b", After::exactly(MS * 20), start);
        timers.arm("a", After::exactly(MS * 30), start);
        timers.arm("c", After::exactly(MS * 40), start);
        timers.disarm(&"c");
        assert_eq!(timers.next(), Some(start + MS * 20));
        assert_eq!(timers.expire(start + MS * 10), None);
        assert_eq!(timers.expire(start + MS * 99), Some("b"));
        assert_eq!(timers.expire(start + MS * 99), Some("a"));
        assert_eq!(timers.expire(start + MS * 99), None);
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn arming_again_replaces() {
        let mut timers = Timers::new();
        let start = Instant::now();
        timers.arm("a", After::exactly(MS), start);
        timers.arm("a", After::exactly(MS * 50), start);
        assert_eq!(timers.next(), Some(start + MS * 50));
    }

    #[test]
    fn moments_are_drawn_from_the_range_and_differ() {
        let range = After::between(MS * 10, MS * 20);
        let drawn: Vec<Duration> = (0..100).map(|_| draw(range)).collect();
        assert!(drawn.iter().all(|span| (range.min..=range.max).contains(span)));
        assert!(drawn.iter().any(|span| *span != drawn[0]));
    }
}
