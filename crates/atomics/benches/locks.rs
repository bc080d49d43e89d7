//! How long an entry takes under each lock, by how many threads, beside the mutexes that programs use; then how even they
//! share.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use conclave_atomics::{
    Bakery, CompareAndSwap, Lock, Mcs, Monitor, Peterson, Region, Semaphore, Swap, TestAndSet,
    TestAndTestAndSet, Ticket, WaitingArray,
};
use criterion::{BenchmarkId, Criterion, criterion_group};

/// What a benchmark does with one lock after the other.
trait Bench {
    fn lock<L: Locked>(&mut self, name: &str, most_threads: usize);
}

/// A lock, ours or another's, that guards a counter.
trait Locked: Sync {
    fn new(threads: usize) -> Self;
    fn add(&self, me: usize);
}

struct Ours<L>(L, AtomicU64);

impl<L: Lock + Sync> Locked for Ours<L> {
    fn new(threads: usize) -> Self {
        Self(L::new(threads), AtomicU64::new(0))
    }

    fn add(&self, me: usize) {
        self.0.with(me, || self.1.store(self.1.load(Relaxed) + 1, Relaxed));
    }
}

impl Locked for std::sync::Mutex<u64> {
    fn new(_threads: usize) -> Self {
        Self::new(0)
    }

    fn add(&self, _me: usize) {
        *self.lock().expect("nobody panics") += 1;
    }
}

impl Locked for parking_lot::Mutex<u64> {
    fn new(_threads: usize) -> Self {
        Self::new(0)
    }

    fn add(&self, _me: usize) {
        *self.lock() += 1;
    }
}

fn all(bench: &mut impl Bench) {
    const ANY: usize = usize::MAX;
    bench.lock::<std::sync::Mutex<u64>>("std", ANY);
    bench.lock::<parking_lot::Mutex<u64>>("parking_lot", ANY);
    bench.lock::<Ours<TestAndSet>>("test-and-set", ANY);
    bench.lock::<Ours<TestAndTestAndSet>>("flag", ANY);
    bench.lock::<Ours<Swap>>("swap", ANY);
    bench.lock::<Ours<CompareAndSwap>>("compare-and-swap", ANY);
    bench.lock::<Ours<Peterson>>("peterson", 2);
    bench.lock::<Ours<Bakery>>("bakery", ANY);
    bench.lock::<Ours<WaitingArray>>("waiting-array", ANY);
    bench.lock::<Ours<Ticket>>("ticket", ANY);
    bench.lock::<Ours<Mcs>>("mcs", ANY);
    bench.lock::<Ours<Semaphore>>("semaphore", ANY);
    bench.lock::<Ours<Region<bool>>>("critical-region", ANY);
    bench.lock::<Ours<Monitor>>("monitor", ANY);
}

const THREADS: [usize; 3] = [1, 2, 4];

/// How long this many entries of each thread take, from the first that begins to the last that ends.
fn contended<L: Locked>(threads: usize, entries: u64) -> Duration {
    let (lock, start) = (L::new(threads), Barrier::new(threads));
    let add_all = |me: usize| {
        start.wait();
        let begin = Instant::now();
        (0..entries).for_each(|_| black_box(&lock).add(me));
        (begin, Instant::now())
    };
    let add_all = &add_all;
    std::thread::scope(|scope| {
        let spawned: Vec<_> = (0..threads).map(|me| scope.spawn(move || add_all(me))).collect();
        let times: Vec<_> = spawned.into_iter().map(|one| one.join().expect("it does not panic")).collect();
        let begin = times.iter().map(|(begin, _)| *begin).min();
        let end = times.iter().map(|(_, end)| *end).max();
        end.zip(begin).map_or(Duration::ZERO, |(end, begin)| end - begin)
    })
}

struct Throughput<'a>(&'a mut Criterion);

impl Bench for Throughput<'_> {
    fn lock<L: Locked>(&mut self, name: &str, most_threads: usize) {
        let mut group = self.0.benchmark_group("entry");
        group
            .sample_size(10)
            .measurement_time(Duration::from_millis(500))
            .warm_up_time(Duration::from_millis(100));
        for threads in THREADS.into_iter().filter(|threads| *threads <= most_threads) {
            group.bench_function(BenchmarkId::new(name, threads), |bencher| {
                bencher.iter_custom(|entries| contended::<L>(threads, entries.div_ceil(threads as u64)));
            });
        }
    }
}

struct Fairness;

/// How long threads compete when it is measured how even they share.
const SHARING: Duration = Duration::from_millis(300);

impl Bench for Fairness {
    fn lock<L: Locked>(&mut self, name: &str, most_threads: usize) {
        let threads = most_threads.min(4);
        let (lock, is_over) = (L::new(threads), AtomicBool::new(false));
        let entries: Vec<AtomicU32> = (0..threads).map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for (me, mine) in entries.iter().enumerate() {
                let (lock, is_over) = (&lock, &is_over);
                scope.spawn(move || {
                    while !is_over.load(Relaxed) {
                        lock.add(me);
                        mine.fetch_add(1, Relaxed);
                    }
                });
            }
            std::thread::sleep(SHARING);
            is_over.store(true, Relaxed);
        });
        let entries: Vec<u32> = entries.into_iter().map(AtomicU32::into_inner).collect();
        let (least, most) = (entries.iter().min().copied(), entries.iter().max().copied());
        let share = f64::from(least.unwrap_or(0)) / f64::from(most.unwrap_or(1).max(1));
        println!("{name:<17} {threads} threads  least/most entries {share:>5.2}  {entries:?}");
    }
}

fn throughput(criterion: &mut Criterion) {
    all(&mut Throughput(criterion));
}

criterion_group!(benches, throughput);

fn main() {
    benches();
    println!("\nfairness: entries of each thread in {} ms", SHARING.as_millis());
    all(&mut Fairness);
}
