//! The words that a lock is made of: those of the machine, or those of a checker.

use std::sync::atomic::{AtomicU32, Ordering, fence};

/// A word that several threads access at a time.
pub trait Word: Send + Sync {
    /// A word with this value.
    fn new(value: u32) -> Self;
    /// Reads it.
    fn load(&self, order: Ordering) -> u32;
    /// Writes it.
    fn store(&self, value: u32, order: Ordering);
    /// Writes it, and returns what it was.
    fn swap(&self, value: u32, order: Ordering) -> u32;
    /// Writes it if it is what is expected; says whether it was.
    fn compare_and_swap(&self, expected: u32, value: u32, order: Ordering) -> bool;
    /// Adds 1, and returns what it was. After the largest number comes 0.
    fn fetch_and_add(&self, order: Ordering) -> u32;
}

/// Where words come from.
pub trait Atomics {
    /// Its words.
    type Word: Word;
    /// Orders what was written before it against what is read after it, among all threads that do the same.
    fn fence();
    /// Called between two looks at a word that has to change; how many there have been already.
    fn pause(looks: u32);

    /// As many words that are 0.
    fn words(count: usize) -> Box<[Self::Word]> {
        (0..count).map(|_| Self::Word::new(0)).collect()
    }

    /// Looks until something is true.
    fn wait_until(is_true: impl Fn() -> bool) {
        let mut looks = 0;
        while !is_true() {
            Self::pause(looks);
            looks = looks.saturating_add(1);
        }
    }
}

/// The atomics of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Real;

/// Looks after which a thread lets others run: whoever is inside may be waiting for this processor.
const PATIENCE: u32 = 64;

impl Atomics for Real {
    type Word = AtomicU32;

    fn fence() {
        fence(Ordering::SeqCst);
    }

    fn pause(looks: u32) {
        if looks < PATIENCE {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

impl Word for AtomicU32 {
    fn new(value: u32) -> Self {
        Self::new(value)
    }

    fn load(&self, order: Ordering) -> u32 {
        self.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.store(value, order);
    }

    fn swap(&self, value: u32, order: Ordering) -> u32 {
        self.swap(value, order)
    }

    fn compare_and_swap(&self, expected: u32, value: u32, order: Ordering) -> bool {
        self.compare_exchange(expected, value, order, Ordering::Relaxed).is_ok()
    }

    fn fetch_and_add(&self, order: Ordering) -> u32 {
        self.fetch_add(1, order)
    }
}
