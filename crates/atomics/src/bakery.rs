//! Lamport's bakery.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::{Atomics, Lock, Real, Word};

/// Take a number that is larger than all; the smallest goes first.
///
/// Each of its two waits is a store followed by loads of what others store: without a fence between them, two threads could
/// each miss what the other has written.
#[derive(Debug)]
pub struct Bakery<A: Atomics = Real> {
    choosing: Box<[A::Word]>,
    /// 0 for who does not compete.
    number: Box<[A::Word]>,
}

impl<A: Atomics> Bakery<A> {
    fn take_number(&self, me: usize) -> u32 {
        self.choosing[me].store(1, Relaxed);
        A::fence();
        let largest = self.number.iter().map(|number| number.load(Relaxed)).max().unwrap_or(0);
        let mine = largest.checked_add(1).expect("numbers begin again when nobody competes");
        self.number[me].store(mine, Relaxed);
        self.choosing[me].store(0, Release);
        mine
    }

    fn goes_first(&self, other: usize, mine: (u32, usize)) -> bool {
        let theirs = self.number[other].load(Acquire);
        theirs != 0 && (theirs, other) < mine
    }
}

impl<A: Atomics> Lock for Bakery<A> {
    fn new(threads: usize) -> Self {
        Self { choosing: A::words(threads), number: A::words(threads) }
    }

    fn enter(&self, me: usize) {
        let mine = (self.take_number(me), me);
        A::fence();
        for other in (0..self.number.len()).filter(|other| *other != me) {
            A::wait_until(|| self.choosing[other].load(Acquire) == 0);
            A::wait_until(|| !self.goes_first(other, mine));
        }
    }

    fn leave(&self, me: usize) {
        self.number[me].store(0, Release);
    }
}
