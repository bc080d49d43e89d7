//! Tickets, as at a counter.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::{Atomics, Lock, Real, Word};

/// Take a ticket; wait until it is served. Tickets begin again after the largest number, which harms nobody as long as there
/// are fewer threads than numbers.
#[derive(Debug)]
pub struct Ticket<A: Atomics = Real> {
    next: A::Word,
    serving: A::Word,
}

impl<A: Atomics> Lock for Ticket<A> {
    fn new(_threads: usize) -> Self {
        Self { next: A::Word::new(0), serving: A::Word::new(0) }
    }

    fn enter(&self, _me: usize) {
        let ticket = self.next.fetch_and_add(Relaxed);
        A::wait_until(|| self.serving.load(Acquire) == ticket);
    }

    /// Only who is inside writes what is served.
    fn leave(&self, _me: usize) {
        self.serving.store(self.serving.load(Relaxed).wrapping_add(1), Release);
    }
}
