//! The queue lock of Mellor-Crummey and Scott.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::{Atomics, Lock, Real, Word};

/// A queue in which each thread waits on a word of its own. Where the paper has pointers, this has thread numbers plus 1.
#[derive(Debug)]
pub struct Mcs<A: Atomics = Real> {
    /// Who came last; 0 if the queue is empty.
    tail: A::Word,
    /// Who comes after each; 0 if that is not known yet.
    link: Box<[A::Word]>,
    /// Whether each has to wait.
    blocked: Box<[A::Word]>,
}

impl<A: Atomics> Lock for Mcs<A> {
    fn new(threads: usize) -> Self {
        Self { tail: A::Word::new(0), link: A::words(threads), blocked: A::words(threads) }
    }

    fn enter(&self, me: usize) {
        let mine = me as u32 + 1;
        self.link[me].store(0, Relaxed);
        // It releases the link above to whoever comes next, and acquires what the last one did if the queue is empty.
        let before = self.tail.swap(mine, AcqRel);
        if before != 0 {
            self.blocked[me].store(1, Relaxed);
            self.link[before as usize - 1].store(mine, Release);
            A::wait_until(|| self.blocked[me].load(Acquire) == 0);
        }
    }

    fn leave(&self, me: usize) {
        let mine = me as u32 + 1;
        if self.link[me].load(Acquire) == 0 {
            if self.tail.compare_and_swap(mine, 0, Release) {
                return;
            }
            // Somebody is in the queue, and cannot be found yet.
            A::wait_until(|| self.link[me].load(Acquire) != 0);
        }
        let next = self.link[me].load(Acquire);
        self.blocked[next as usize - 1].store(0, Release);
    }
}
