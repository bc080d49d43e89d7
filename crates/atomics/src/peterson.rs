//! Peterson's algorithm for two threads.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::{Atomics, Lock, Real, Word};

/// Raise a flag, let the other go first, and wait while it wants in and it is our turn to wait.
///
/// Of two who write the turn one is second, and has to see the flag of the first. A plain store and a load after it may change
/// places on a real machine. A swap may not: it reads what the first has written, and with it all that it did before.
#[derive(Debug)]
pub struct Peterson<A: Atomics = Real> {
    flag: [A::Word; 2],
    /// Who has to wait.
    turn: A::Word,
}

impl<A: Atomics> Lock for Peterson<A> {
    fn new(threads: usize) -> Self {
        assert!(threads <= 2, "Peterson's algorithm is for two");
        Self { flag: [A::Word::new(0), A::Word::new(0)], turn: A::Word::new(0) }
    }

    fn enter(&self, me: usize) {
        let (mine, other) = (me as u32, &self.flag[1 - me]);
        self.flag[me].store(1, Relaxed);
        self.turn.swap(mine, AcqRel);
        A::wait_until(|| other.load(Acquire) == 0 || self.turn.load(Acquire) != mine);
    }

    fn leave(&self, me: usize) {
        self.flag[me].store(0, Release);
    }
}
