//! Test-and-set with bounded waiting.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::{Atomics, Lock, Real, Word};

/// Who leaves hands the lock over to the next who waits, in cyclic order.
#[derive(Debug)]
pub struct WaitingArray<A: Atomics = Real> {
    lock: A::Word,
    waiting: Box<[A::Word]>,
}

impl<A: Atomics> Lock for WaitingArray<A> {
    fn new(threads: usize) -> Self {
        Self { lock: A::Word::new(0), waiting: A::words(threads) }
    }

    fn enter(&self, me: usize) {
        self.waiting[me].store(1, Relaxed);
        // Either it is handed over, or it is free.
        A::wait_until(|| self.waiting[me].load(Acquire) == 0 || self.lock.swap(1, Acquire) == 0);
        self.waiting[me].store(0, Relaxed);
    }

    fn leave(&self, me: usize) {
        let n = self.waiting.len();
        let next = (1..n).map(|step| (me + step) % n).find(|other| self.waiting[*other].load(Relaxed) == 1);
        match next {
            // The lock stays set: nobody else may find it free.
            Some(next) => self.waiting[next].store(0, Release),
            None => self.lock.store(0, Release),
        }
    }
}
