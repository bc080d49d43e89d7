//! The locks of shared-memory textbooks over the atomics of a real machine.
//!
//! The same locks as in `conclave_algorithms::memory`, where a checker goes through all orders of their accesses. There a memory
//! carries out one access after the other. Here a compiler and a processor reorder accesses unless they are told not to, and
//! each access says what it needs: `Acquire` on the way in, `Release` on the way out, a fence where a write must be seen before
//! a later read.
//!
//! | lock | made of | bounded waiting |
//! |---|---|---|
//! | [`TestAndSet`], [`TestAndTestAndSet`], [`Swap`], [`CompareAndSwap`] | one instruction | no |
//! | [`Peterson`] | swap, loads and stores; two threads | yes |
//! | [`Bakery`] | loads, stores and fences | yes |
//! | [`WaitingArray`] | compare-and-swap, and an array | yes |
//! | [`Ticket`], [`Semaphore`] | fetch-and-add | yes, FIFO |
//! | [`Mcs`] | swap and compare-and-swap; indices instead of pointers | yes, FIFO |
//! | [`Region`], [`Monitor`] | `std::sync::Mutex` and `Condvar` | as they |
//!
//! All but the last two are generic over [`Atomics`], so that a test can put loom's atomics in their place. Threads are numbered
//! from 0, and each passes its own number. Interrupts are missing: a program in user space cannot switch them off.
//!
//! ```
//! use conclave_atomics::{Lock, Ticket};
//! use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
//!
//! let (lock, counter): (Ticket, _) = (Ticket::new(2), AtomicU32::new(0));
//! std::thread::scope(|scope| {
//!     for me in 0..2 {
//!         let (lock, counter) = (&lock, &counter);
//!         scope.spawn(move || {
//!             for _ in 0..100 {
//!                 // Two accesses: without the lock, additions would be lost.
//!                 lock.with(me, || counter.store(counter.load(Relaxed) + 1, Relaxed));
//!             }
//!         });
//!     }
//! });
//! assert_eq!(counter.into_inner(), 200);
//! ```
//!
//! They guard no data and need no `unsafe`. What programs should use is `std::sync::Mutex`, which sleeps instead of spinning:
//! `docs/atomics.md` has the figures.

mod atomics;
mod bakery;
mod instruction;
mod mcs;
mod monitor;
mod peterson;
mod semaphore;
mod ticket;
mod waiting_array;

pub use atomics::{Atomics, Real, Word};
pub use bakery::Bakery;
pub use instruction::{CompareAndSwap, Swap, TestAndSet, TestAndTestAndSet};
pub use mcs::Mcs;
pub use monitor::{Monitor, Region};
pub use peterson::Peterson;
pub use semaphore::Semaphore;
pub use ticket::Ticket;
pub use waiting_array::WaitingArray;

/// A lock for a fixed number of threads.
pub trait Lock {
    /// One for this many threads.
    ///
    /// # Panics
    /// If it cannot have as many.
    fn new(threads: usize) -> Self;

    /// Waits until this thread is inside.
    fn enter(&self, me: usize);

    /// Lets another thread in.
    fn leave(&self, me: usize);

    /// Does something inside.
    fn with<T>(&self, me: usize, inside: impl FnOnce() -> T) -> T {
        self.enter(me);
        let result = inside();
        self.leave(me);
        result
    }
}
