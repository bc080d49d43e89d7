//! Threads of the machine add to a counter under each lock: n threads, k additions each, n·k in all.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use conclave_atomics::{
    Bakery, CompareAndSwap, Lock, Mcs, Monitor, Peterson, Region, Semaphore, Swap, TestAndSet,
    TestAndTestAndSet, Ticket, WaitingArray,
};

const TIMES: u32 = 500;

/// Each addition is a read and a write that order nothing, so that two threads inside lose some.
fn counts<L: Lock + Sync>(threads: usize) {
    let (lock, counter) = (L::new(threads), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for me in 0..threads {
            let (lock, counter) = (&lock, &counter);
            scope.spawn(move || {
                for _ in 0..TIMES {
                    lock.with(me, || counter.store(counter.load(Relaxed) + 1, Relaxed));
                }
            });
        }
    });
    assert_eq!(counter.into_inner(), threads as u32 * TIMES, "{}", std::any::type_name::<L>());
}

#[test]
fn book_tv_h3_a_counter_under_each_lock_counts_everything() {
    counts::<Peterson>(2);
    for threads in [1, 2, 4] {
        counts::<TestAndSet>(threads);
        counts::<TestAndTestAndSet>(threads);
        counts::<Swap>(threads);
        counts::<CompareAndSwap>(threads);
        counts::<Bakery>(threads);
        counts::<WaitingArray>(threads);
        counts::<Ticket>(threads);
        counts::<Mcs>(threads);
        counts::<Semaphore>(threads);
        counts::<Region<bool>>(threads);
        counts::<Monitor>(threads);
    }
}

/// Two of five are inside, and never three.
#[test]
fn book_tv_h3_a_semaphore_with_two_places() {
    let (semaphore, inside, most) = (Semaphore::with_places(2), AtomicU32::new(0), AtomicU32::new(0));
    let semaphore: &Semaphore = &semaphore;
    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                for _ in 0..500 {
                    semaphore.p();
                    most.fetch_max(inside.fetch_add(1, Relaxed) + 1, Relaxed);
                    std::thread::yield_now();
                    inside.fetch_sub(1, Relaxed);
                    semaphore.v();
                }
            });
        }
    });
    assert!((1..=2).contains(&most.into_inner()), "two at a time, and all went through");
    assert_eq!(inside.into_inner(), 0);
}

/// It begins only when its condition is true, whenever that is.
#[test]
fn a_region_waits_for_its_condition() {
    let region = Region::over(0);
    std::thread::scope(|scope| {
        let consumer = scope.spawn(|| region.when(|items| *items == 3, core::mem::take));
        for _ in 0..3 {
            region.when(|_| true, |items| *items += 1);
        }
        assert_eq!(consumer.join().expect("it does not panic"), 3);
    });
}
