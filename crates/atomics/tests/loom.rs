//! All interleavings of two threads, with all that the memory model allows, by loom. What loom finds fault with is a panic.
//!
//! A counter is read and written inside in two accesses that order nothing by themselves. If two are inside, or if who comes
//! in does not see what who left has written, an addition is lost.
//!
//! Loom takes `SeqCst` loads and stores for `AcqRel`, which is weaker than they are; fences it takes for what they are. So the locks use
//! fences.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{self, Relaxed};

use conclave_atomics::{
    Atomics, Bakery, CompareAndSwap, Lock, Mcs, Peterson, Semaphore, Swap, TestAndSet, TestAndTestAndSet,
    Ticket, WaitingArray, Word,
};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, fence};
use loom::thread;

/// The atomics of loom, with the orders that a lock asks for.
struct Loom;

/// The same, with no order at all: the mutant of every lock.
struct Unordered;

/// The same without fences.
struct Unfenced;

/// A word of loom; `RELAXED` ones forget the order that they are asked for.
struct LoomWord<const RELAXED: bool>(AtomicU32);

impl<const RELAXED: bool> LoomWord<RELAXED> {
    fn order(order: Ordering) -> Ordering {
        if RELAXED { Relaxed } else { order }
    }
}

impl<const RELAXED: bool> Word for LoomWord<RELAXED> {
    fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }

    fn load(&self, order: Ordering) -> u32 {
        self.0.load(Self::order(order))
    }

    /// As a swap, so that every later swap sees it. A plain store loom lets be overtaken by the swaps of a thread that spins,
    /// without end, which no machine does. Later loads may miss it, as they may miss a store.
    fn store(&self, value: u32, order: Ordering) {
        self.0.swap(value, Self::order(order));
    }

    fn swap(&self, value: u32, order: Ordering) -> u32 {
        self.0.swap(value, Self::order(order))
    }

    fn compare_and_swap(&self, expected: u32, value: u32, order: Ordering) -> bool {
        self.0.compare_exchange(expected, value, Self::order(order), Relaxed).is_ok()
    }

    fn fetch_and_add(&self, order: Ordering) -> u32 {
        self.0.fetch_add(1, Self::order(order))
    }
}

impl Atomics for Loom {
    type Word = LoomWord<false>;

    fn fence() {
        fence(Ordering::SeqCst);
    }

    fn pause(_looks: u32) {
        thread::yield_now();
    }
}

impl Atomics for Unordered {
    type Word = LoomWord<true>;

    fn fence() {}

    fn pause(_looks: u32) {
        thread::yield_now();
    }
}

impl Atomics for Unfenced {
    type Word = LoomWord<false>;

    fn fence() {}

    fn pause(_looks: u32) {
        thread::yield_now();
    }
}

/// The first try of every textbook: the flag is tested in one access and set in another.
struct Naive {
    held: AtomicU32,
}

impl Lock for Naive {
    fn new(_threads: usize) -> Self {
        Self { held: AtomicU32::new(0) }
    }

    fn enter(&self, _me: usize) {
        Loom::wait_until(|| self.held.load(Ordering::Acquire) == 0);
        self.held.store(1, Ordering::Release);
    }

    fn leave(&self, _me: usize) {
        self.held.store(0, Ordering::Release);
    }
}

/// Two threads add 1 to a counter, each this many times, in every way.
fn count<L: Lock + Send + Sync + 'static>(times: [u32; 2]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let shared = Arc::new((L::new(2), AtomicU32::new(0)));
        let add = move |shared: &(L, AtomicU32), me: usize| {
            for _ in 0..times[me] {
                shared.0.with(me, || shared.1.store(shared.1.load(Relaxed) + 1, Relaxed));
            }
        };
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || add(&shared, 1))
        };
        add(&shared, 0);
        other.join().expect("it does not panic");
        assert_eq!(shared.1.load(Relaxed), times[0] + times[1], "an addition is lost");
    });
}

/// Whether loom finds a run in which an addition is lost.
fn is_caught<L: Lock + Send + Sync + 'static>() -> bool {
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| count::<L>([2, 1]))) else { return false };
    let text = panic.downcast_ref::<String>().map_or("", String::as_str);
    assert!(text.contains("an addition is lost"), "loom gave up: {text}");
    true
}

/// Each lock as it is, and without any order.
macro_rules! locks {
    ($($name:ident: $lock:ident),+ $(,)?) => {
        mod every_lock_keeps_two_threads_apart {
            $(#[test]
            fn $name() {
                super::count::<super::$lock<super::Loom>>([2, 1]);
            })+
        }

        mod without_acquire_and_release_it_is_caught {
            $(#[test]
            fn $name() {
                assert!(super::is_caught::<super::$lock<super::Unordered>>());
            })+
        }
    };
}

locks! {
    test_and_set: TestAndSet,
    flag: TestAndTestAndSet,
    swap: Swap,
    compare_and_swap: CompareAndSwap,
    peterson: Peterson,
    bakery: Bakery,
    waiting_array: WaitingArray,
    ticket: Ticket,
    mcs: Mcs,
    semaphore: Semaphore,
}

#[test]
fn without_its_fences_the_bakery_is_caught() {
    assert!(is_caught::<Bakery<Unfenced>>());
}

#[test]
fn the_naive_flag_is_caught() {
    assert!(is_caught::<Naive>());
}
