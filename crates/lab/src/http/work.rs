//! Work that takes time: on threads of its own, and not too much at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use conclave_sim::wanted;
use tokio::sync::Semaphore;

use crate::{Code, Problem};

/// How much time something takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Little: it never waits for what takes long.
    Light,
    /// Much: one after the other.
    Heavy,
}

/// Who works, and who waits.
pub struct Work {
    light: Arc<Semaphore>,
    heavy: Arc<Semaphore>,
    waiting: AtomicUsize,
    most: Duration,
}

/// No page asks so much at once.
const MOST_WAITING: usize = 64;

impl Work {
    pub fn new(seconds: u64) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            light: Arc::new(Semaphore::new(cores.max(2))),
            heavy: Arc::new(Semaphore::new((cores - 1).max(1))),
            waiting: AtomicUsize::new(0),
            most: Duration::from_secs(seconds),
        }
    }

    /// Does something on a thread where it may take its time.
    pub async fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let _waiting = Waiting::among(&self.waiting)?;
        let asking = Asking::default();
        let given_up = Arc::clone(&asking.given_up);
        let lane = match lane {
            Lane::Light => Arc::clone(&self.light),
            Lane::Heavy => Arc::clone(&self.heavy),
        };
        let done = tokio::time::timeout(self.most, async move {
            let permit = lane.acquire_owned().await.map_err(|_| internal())?;
            let thread = tokio::task::spawn_blocking(move || {
                // Also of those that are given up nobody takes the place before they have noticed.
                let _permit = permit;
                wanted::unless(given_up, work).unwrap_or_else(|_| Err(internal()))
            });
            thread.await.map_err(|_| internal())?
        });
        done.await.unwrap_or_else(|_| {
            Err(Problem::new(Code::Timeout, format!("it takes longer than {} s", self.most.as_secs()))
                .hint("use a smaller run, or the command line"))
        })
    }
}

fn internal() -> Problem {
    Problem::new(Code::Internal, "a fault of the program: this could not be done")
        .hint("the lab goes on; its terminal says more")
}

/// Somebody who wants an answer, until the time is up or nobody listens any more.
#[derive(Default)]
struct Asking {
    given_up: Arc<AtomicBool>,
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.given_up.store(true, Ordering::Relaxed);
    }
}

/// Somebody who waits for an answer.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn among(all: &'a AtomicUsize) -> Result<Self, Problem> {
        let before = all.fetch_add(1, Ordering::Relaxed);
        let waiting = Self(all);
        match before < MOST_WAITING {
            true => Ok(waiting),
            false => Err(Problem::new(Code::Busy, "too much is asked at once").hint("ask again in a moment")),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
