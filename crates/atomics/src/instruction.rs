//! Spinning on one instruction. Whoever reads 0 is inside; nobody remembers who has tried in vain.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::{Atomics, Lock, Real, Word};

/// Test-and-set: writes 1 until it was 0.
#[derive(Debug)]
pub struct TestAndSet<A: Atomics = Real> {
    lock: A::Word,
}

impl<A: Atomics> Lock for TestAndSet<A> {
    fn new(_threads: usize) -> Self {
        Self { lock: A::Word::new(0) }
    }

    fn enter(&self, _me: usize) {
        A::wait_until(|| self.lock.swap(1, Acquire) == 0);
    }

    fn leave(&self, _me: usize) {
        self.lock.store(0, Release);
    }
}

/// Test and test-and-set: only reads while somebody is inside, which leaves the word in the caches of all who wait.
#[derive(Debug)]
pub struct TestAndTestAndSet<A: Atomics = Real> {
    held: A::Word,
}

impl<A: Atomics> Lock for TestAndTestAndSet<A> {
    fn new(_threads: usize) -> Self {
        Self { held: A::Word::new(0) }
    }

    fn enter(&self, _me: usize) {
        A::wait_until(|| self.held.load(Relaxed) == 0 && self.held.swap(1, Acquire) == 0);
    }

    fn leave(&self, _me: usize) {
        self.held.store(0, Release);
    }
}

/// Swap: exchanges a key that is 1 for the lock, until the key is 0.
#[derive(Debug)]
pub struct Swap<A: Atomics = Real> {
    lock: A::Word,
}

impl<A: Atomics> Lock for Swap<A> {
    fn new(_threads: usize) -> Self {
        Self { lock: A::Word::new(0) }
    }

    fn enter(&self, _me: usize) {
        let mut looks = 0;
        let mut key = 1;
        loop {
            key = self.lock.swap(key, Acquire);
            if key == 0 {
                return;
            }
            A::pause(looks);
            looks = looks.saturating_add(1);
        }
    }

    fn leave(&self, _me: usize) {
        self.lock.store(0, Release);
    }
}

/// Compare-and-swap: writes 1 where there is a 0.
#[derive(Debug)]
pub struct CompareAndSwap<A: Atomics = Real> {
    lock: A::Word,
}

impl<A: Atomics> Lock for CompareAndSwap<A> {
    fn new(_threads: usize) -> Self {
        Self { lock: A::Word::new(0) }
    }

    fn enter(&self, _me: usize) {
        A::wait_until(|| self.lock.compare_and_swap(0, 1, Acquire));
    }

    fn leave(&self, _me: usize) {
        self.lock.store(0, Release);
    }
}
