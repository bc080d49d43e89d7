//! A counting semaphore that serves in the order of arrival.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::{Atomics, Lock, Real, Word};

/// P takes a ticket and waits until it is among those let in; V lets one more in.
#[derive(Debug)]
pub struct Semaphore<A: Atomics = Real> {
    /// How many P there were.
    taken: A::Word,
    /// How many of them may go on.
    allowed: A::Word,
}

impl<A: Atomics> Semaphore<A> {
    /// One that lets this many in at a time.
    #[must_use]
    pub fn with_places(places: u32) -> Self {
        Self { taken: A::Word::new(0), allowed: A::Word::new(places) }
    }

    /// Takes a place, and waits if there is none.
    pub fn p(&self) {
        let ticket = self.taken.fetch_and_add(Relaxed);
        // As signed numbers, so that it does not matter when they begin again.
        A::wait_until(|| self.allowed.load(Acquire).wrapping_sub(ticket) as i32 > 0);
    }

    /// Gives a place back.
    pub fn v(&self) {
        self.allowed.fetch_and_add(Release);
    }
}

/// With one place it is a lock.
impl<A: Atomics> Lock for Semaphore<A> {
    fn new(_threads: usize) -> Self {
        Self::with_places(1)
    }

    fn enter(&self, _me: usize) {
        self.p();
    }

    fn leave(&self, _me: usize) {
        self.v();
    }
}
