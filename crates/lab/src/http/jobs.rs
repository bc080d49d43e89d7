//! Searches and comparisons: work that takes long, and belongs to whoever listens to it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use conclave_sim::wanted;
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Site;
use super::answer::{Failed, Json, Path, json as answer};
use crate::recipe::or_default;
use crate::{Code, Lab, Options, Problem, Searched};

/// A job goes on for so long without a listener.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often listeners hear how far a job is.
const BEAT: Duration = Duration::from_millis(100);
/// So many jobs that are over are remembered.
const MOST_KEPT: usize = 50;

pub fn routes() -> Router<Site> {
    Router::new()
        .route("/checks", post(check))
        .route("/compares", post(compare))
        .route("/jobs/{id}", get(last).delete(stop))
        .route("/jobs/{id}/events", get(events))
}

/// All jobs of a lab.
#[derive(Default)]
pub struct Jobs {
    known: Mutex<BTreeMap<u64, Arc<Job>>>,
    next: AtomicU64,
}

/// What a job has said last.
#[derive(Clone, Debug)]
struct Told {
    event: &'static str,
    data: Value,
}

impl Told {
    fn is_last(&self) -> bool {
        self.event != "progress"
    }
}

struct Job {
    name: String,
    told: watch::Sender<Told>,
    stopped: Arc<AtomicBool>,
    listeners: AtomicUsize,
}

impl Job {
    /// Says how far it is; whether to go on is the answer.
    fn progress(&self, mut data: Value) -> bool {
        data["job"] = self.name.as_str().into();
        self.told.send_replace(Told { event: "progress", data });
        !self.stopped.load(Ordering::Relaxed)
    }

    fn end(&self, done: Result<Value, Problem>) {
        let (event, mut data) = match done {
            _ if self.stopped.load(Ordering::Relaxed) => ("stopped", json!({})),
            Ok(data) => ("done", data),
            Err(problem) => ("failed", problem.json()),
        };
        data["job"] = self.name.as_str().into();
        self.told.send_replace(Told { event, data });
    }
}

impl Jobs {
    fn find(&self, name: &str) -> Result<Arc<Job>, Problem> {
        let number = name.strip_prefix('j').and_then(|number| number.parse().ok());
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let job = number.and_then(|number: u64| known.get(&number).cloned());
        job.ok_or_else(|| Problem::new(Code::Gone, format!("there is no job '{name}' any more")))
    }

    /// Starts a job on a thread of its own. Must be called where there is a runtime.
    fn start(
        &self,
        kind: &'static str,
        lab: Arc<Lab>,
        work: impl FnOnce(&Lab, &mut dyn FnMut(Value) -> bool) -> Result<Value, Problem> + Send + 'static,
    ) -> Result<Response, Problem> {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let name = format!("j{number}");
        let first = Told { event: "progress", data: json!({ "job": name }) };
        let job = Arc::new(Job {
            name: name.clone(),
            told: watch::Sender::new(first),
            stopped: Arc::default(),
            listeners: AtomicUsize::new(0),
        });
        self.admit(number, &job, lab.limits.jobs)?;
        tokio::spawn(leave_alone(Arc::clone(&job), Duration::from_secs(lab.limits.job_seconds)));
        let worker = Arc::clone(&job);
        std::thread::spawn(move || {
            let mut last = Instant::now();
            let mut watch = |data| {
                if last.elapsed() < BEAT {
                    return !worker.stopped.load(Ordering::Relaxed);
                }
                last = Instant::now();
                worker.progress(data)
            };
            let stopped = Arc::clone(&worker.stopped);
            let work = || wanted::unless(stopped, || work(&lab, &mut watch));
            let done = catch_unwind(AssertUnwindSafe(work));
            let fault = || Problem::new(Code::Internal, "a fault of the program: this could not be done");
            let done = done.unwrap_or_else(|_| Ok(Err(fault())));
            worker.end(done.unwrap_or_else(|_| Err(Problem::refused("it was stopped"))));
        });
        Ok(answer(&json!({ "job": name, "kind": kind })))
    }

    fn admit(&self, number: u64, job: &Arc<Job>, most: usize) -> Result<(), Problem> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let running = known.values().filter(|job| !job.told.borrow().is_last()).count();
        if running >= most {
            return Err(Problem::new(
                Code::Busy,
                format!("{running} searches and comparisons are under way"),
            )
            .hint("stop one of them, or wait"));
        }
        while known.len() >= MOST_KEPT {
            let Some(over) = known.iter().find(|(_, job)| job.told.borrow().is_last()).map(|(at, _)| *at)
            else {
                break;
            };
            known.remove(&over);
        }
        known.insert(number, Arc::clone(job));
        Ok(())
    }
}

/// Stops a job that nobody has listened to for a while, or that takes too long.
async fn leave_alone(job: Arc<Job>, most: Duration) {
    let mut told = job.told.subscribe();
    let started = Instant::now();
    let mut heard = Instant::now();
    loop {
        // It says something several times a second, so that this is looked at soon enough.
        let changed = tokio::time::timeout(Duration::from_secs(1), told.changed()).await;
        if told.borrow_and_update().is_last() {
            return;
        }
        if job.listeners.load(Ordering::Relaxed) > 0 {
            heard = Instant::now();
        }
        if heard.elapsed() > PATIENCE || started.elapsed() > most {
            job.stopped.store(true, Ordering::Relaxed);
        }
        if matches!(changed, Ok(Err(_))) {
            return;
        }
    }
}

async fn last(State(site): State<Site>, Path(id): Path<String>) -> Result<Response, Failed> {
    let job = site.jobs.find(&id)?;
    let Told { event, mut data } = job.told.borrow().clone();
    data["event"] = event.into();
    Ok(answer(&data))
}

async fn stop(State(site): State<Site>, Path(id): Path<String>) -> Result<Response, Failed> {
    let job = site.jobs.find(&id)?;
    job.stopped.store(true, Ordering::Relaxed);
    Ok(answer(&json!({ "job": job.name })))
}

async fn events(State(site): State<Site>, Path(id): Path<String>) -> Result<Response, Failed> {
    let job = site.jobs.find(&id)?;
    let listening = Listening::to(job);
    let told = stream::unfold(listening, |mut listening| async move {
        let event = listening.next().await?;
        Some((Ok::<_, Infallible>(event), listening))
    });
    Ok(Sse::new(told).keep_alive(KeepAlive::default()).into_response())
}

/// Somebody who listens to a job.
struct Listening {
    job: Arc<Job>,
    told: watch::Receiver<Told>,
    is_first: bool,
    is_over: bool,
}

impl Listening {
    fn to(job: Arc<Job>) -> Self {
        job.listeners.fetch_add(1, Ordering::Relaxed);
        let told = job.told.subscribe();
        Self { job, told, is_first: true, is_over: false }
    }

    async fn next(&mut self) -> Option<Event> {
        if self.is_over || (!self.is_first && self.told.changed().await.is_err()) {
            return None;
        }
        self.is_first = false;
        let told = self.told.borrow_and_update().clone();
        self.is_over = told.is_last();
        Some(Event::default().event(told.event).data(told.data.to_string()))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.job.listeners.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Check {
    algorithm: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    options: Options,
    run: Option<String>,
    at: Option<usize>,
}

async fn check(State(site): State<Site>, Json(wanted): Json<Check>) -> Result<Response, Failed> {
    let Check { algorithm, options, run, at } = wanted;
    let from = match (&algorithm, run) {
        (None, Some(run)) => {
            let run = site.lab.find(&run)?;
            let at = at.unwrap_or(run.steps());
            if at > run.steps() {
                let last = run.steps();
                return Err(
                    Problem::refused(format!("there is no moment {at}; they go from 0 to {last}")).into()
                );
            }
            Some((run, at))
        }
        (Some(algorithm), None) if at.is_none() => {
            site.lab.about(algorithm)?;
            None
        }
        _ => {
            return Err(Problem::malformed(
                "a search has an algorithm, or a run and a moment, one of the two",
            )
            .into());
        }
    };
    let started = site.jobs.start("check", Arc::clone(&site.lab), move |lab, watch| {
        let algorithm =
            algorithm.or_else(|| from.as_ref().map(|(run, _)| run.about.name.to_owned())).unwrap_or_default();
        let from = from.as_ref().map(|(run, at)| (&**run, *at));
        let Searched { outcome, report, counterexample } =
            lab.bench.check(&algorithm, &options, from, &lab.limits, watch)?;
        let run = counterexample.map(|(script, after)| lab.counterexample(&script, after)).transpose()?;
        Ok(json!({ "outcome": outcome, "report": report, "run": run.map(|run| run.summary()) }))
    });
    Ok(started?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Compare {
    algorithms: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    options: Options,
}

async fn compare(State(site): State<Site>, Json(wanted): Json<Compare>) -> Result<Response, Failed> {
    let Compare { algorithms, options } = wanted;
    let started = site.jobs.start("compare", Arc::clone(&site.lab), move |lab, watch| {
        lab.bench.compare(&algorithms, &options, watch)
    });
    Ok(started?)
}
