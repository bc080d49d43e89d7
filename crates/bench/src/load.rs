//! Clients that take and give back locks as fast as they are let, and what that amounts to.
//!
//! The loop is closed: a client asks for the next thing when it has the last. Clients connect before the clock starts,
//! what happens in the warm-up is not counted, and a cycle belongs to the moment at which it ended. Everything runs on
//! one thread, since servers and generator share the machine.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use tokio::task::JoinSet;

use crate::histogram::Histogram;
use crate::room::{Room, Violation};
use crate::target::{Client, Target, TargetError};

/// How long a client that failed to connect waits before it tries again.
const RETRY: Duration = Duration::from_millis(50);
/// How long a contended name is held during the warm-up.
const HOLD: Duration = Duration::from_millis(2);
/// How long a cycle that is under way at the end may still take.
const GRACE: Duration = Duration::from_secs(30);

/// Who takes which name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// Every client takes and releases a name of its own; the latency is that of a whole cycle.
    Uncontended,
    /// All clients want one name; the latency is the time from one's release to the next one's grant.
    Handoff,
}

/// A load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Who takes which name.
    pub shape: Shape,
    /// How many clients.
    pub clients: usize,
    /// How long they run before the clock starts.
    pub warmup: Duration,
    /// How long they run then.
    pub measured: Duration,
}

/// What came of a load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// When the measured time began, in milliseconds since 1970: what is counted from outside is cut by it.
    pub started_unix_ms: u64,
    /// How long that was.
    pub seconds: f64,
    /// Acquired and released.
    pub cycles: u64,
    /// Cycles per second.
    pub per_second: f64,
    /// The latency that half of the cycles did not exceed, in microseconds.
    pub median_us: f64,
    /// The same for nine in ten.
    pub p90_us: f64,
    /// The same for ninety-nine in a hundred.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
    /// How often a client failed and had to connect again, warm-up included.
    pub errors: u64,
    /// What the first of them was.
    pub first_error: Option<String>,
    /// How often the lock did not exclude, or a token did not grow.
    pub violations: u64,
    /// What the first of them was.
    pub first_violation: Option<String>,
    /// The share of one core that the generator itself took.
    pub generator_cpu: f64,
}

/// Puts the load on a target.
pub async fn measure(target: &Arc<dyn Target>, load: Load) -> Result<Run, TargetError> {
    let mut clients = Vec::with_capacity(load.clients);
    for _ in 0..load.clients {
        clients.push(target.client().await?);
    }
    let course = Arc::new(Course::new(Arc::clone(target), load));
    let mut workers = JoinSet::new();
    for (number, client) in clients.into_iter().enumerate() {
        workers.spawn(work(Arc::clone(&course), number, client));
    }
    tokio::time::sleep_until(course.from.into()).await;
    let (started, cpu) = (SystemTime::now(), cpu_time());
    tokio::time::sleep_until(course.until.into()).await;
    let cpu = cpu_time().saturating_sub(cpu);
    finish(&mut workers, &course).await;
    Ok(course.result(started, cpu))
}

/// Lets all workers come to an end; one that does not is an error.
async fn finish(workers: &mut JoinSet<()>, course: &Course) {
    let all = async { while workers.join_next().await.is_some() {} };
    if tokio::time::timeout_at((course.until + GRACE).into(), all).await.is_err() {
        course.failed(&TargetError::Late(GRACE.as_millis()));
        workers.shutdown().await;
    }
}

/// The processor time that this process has used.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
}

/// What the workers of one load share.
struct Course {
    target: Arc<dyn Target>,
    load: Load,
    /// Makes the names of this load differ from those of every other.
    stamp: u128,
    from: Instant,
    until: Instant,
    tally: Mutex<Tally>,
    /// The room behind the one name of a hand-off.
    common: Arc<Mutex<Room>>,
}

/// What they have counted.
#[derive(Default)]
struct Tally {
    latency: Histogram,
    errors: u64,
    first_error: Option<String>,
    violations: u64,
    first_violation: Option<String>,
}

impl Course {
    fn new(target: Arc<dyn Target>, load: Load) -> Self {
        let from = Instant::now() + load.warmup;
        let stamp = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let until = from + load.measured;
        Self { target, load, stamp, from, until, tally: Mutex::default(), common: Arc::default() }
    }

    /// Where a client works. After a failure it moves to a new name of its own, since its lost session may hold the old
    /// one for a while.
    fn place(&self, number: usize, life: usize) -> Place {
        match self.load.shape {
            Shape::Uncontended => {
                Place { name: format!("bench-{}-{number}-{life}", self.stamp), room: Arc::default() }
            }
            Shape::Handoff => Place { name: format!("bench-{}", self.stamp), room: Arc::clone(&self.common) },
        }
    }

    fn over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Stays inside for a moment, so that a second holder would be seen: long enough for any grant in flight during the
    /// warm-up, and only until everyone else has had a turn once the clock runs. A name of one's own has no other.
    async fn hold(&self) {
        if self.load.shape == Shape::Uncontended {
            return;
        }
        if Instant::now() < self.from {
            tokio::time::sleep(HOLD).await;
        } else {
            tokio::task::yield_now().await;
        }
    }

    fn count(&self, latency: Duration) {
        let now = Instant::now();
        if (self.from..self.until).contains(&now) {
            lock(&self.tally).latency.record(latency);
        }
    }

    fn failed(&self, error: &TargetError) {
        let tally = &mut *lock(&self.tally);
        tally.errors += 1;
        tally.first_error.get_or_insert_with(|| error.to_string());
    }

    fn violated(&self, violation: &Violation) {
        let tally = &mut *lock(&self.tally);
        tally.violations += 1;
        tally.first_violation.get_or_insert_with(|| violation.to_string());
    }

    fn result(&self, started: SystemTime, cpu: Duration) -> Run {
        let tally = lock(&self.tally);
        let started = started.duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = self.load.measured.as_secs_f64();
        let cycles = tally.latency.total();
        let micros = |duration: Duration| duration.as_nanos() as f64 / 1000.0;
        Run {
            started_unix_ms: u64::try_from(started.as_millis()).unwrap_or(u64::MAX),
            seconds,
            cycles,
            per_second: cycles as f64 / seconds,
            median_us: micros(tally.latency.quantile(0.5)),
            p90_us: micros(tally.latency.quantile(0.9)),
            p99_us: micros(tally.latency.quantile(0.99)),
            max_us: micros(tally.latency.max()),
            errors: tally.errors,
            first_error: tally.first_error.clone(),
            violations: tally.violations,
            first_violation: tally.first_violation.clone(),
            generator_cpu: cpu.as_secs_f64() / seconds,
        }
    }
}

/// A name and what it protects.
struct Place {
    name: String,
    room: Arc<Mutex<Room>>,
}

/// What a panicking thread has left half done cannot be here: every critical section is a single update.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn work(course: Arc<Course>, number: usize, mut client: Box<dyn Client>) {
    let mut life = 0;
    let mut place = course.place(number, life);
    while !course.over() {
        if let Err(error) = cycle(&course, &place, client.as_mut()).await {
            course.failed(&error);
            life += 1;
            place = course.place(number, life);
            match reconnect(&course).await {
                Some(fresh) => client = fresh,
                None => return,
            }
        }
    }
    if let Err(error) = client.close().await {
        course.failed(&error);
    }
}

async fn cycle(course: &Course, place: &Place, client: &mut dyn Client) -> Result<(), TargetError> {
    let begun = Instant::now();
    let token = client.acquire(&place.name).await?;
    let entered = lock(&place.room).enter(token);
    let since_last = entered.unwrap_or_else(|violation| {
        course.violated(&violation);
        None
    });
    course.hold().await;
    lock(&place.room).leave();
    // A hand-off has happened when the grant is there; the release belongs to the next one.
    if course.load.shape == Shape::Handoff
        && let Some(latency) = since_last
    {
        course.count(latency);
    }
    client.release().await?;
    if course.load.shape == Shape::Uncontended {
        course.count(begun.elapsed());
    }
    Ok(())
}

/// A new client, as soon as one can be had before the end.
async fn reconnect(course: &Course) -> Option<Box<dyn Client>> {
    while !course.over() {
        match course.target.client().await {
            Ok(client) => return Some(client),
            Err(error) => course.failed(&error),
        }
        tokio::time::sleep(RETRY).await;
    }
    None
}
