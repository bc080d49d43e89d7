//! The lab: runs of the algorithms on a page, behind a small API.
//!
//! ```text
//!   page ── JSON, event streams ──▶ http ──▶ Lab ──▶ Run ── moments, order, cuts, forks
//!                                             │
//!                                             └──▶ Bench: options, algorithms, files (the command line)
//! ```
//!
//! A run is a value: a recipe makes it, and the same recipe makes the same run. What the lab keeps is a cache. `docs/lab-api.md`
//! describes the API.

mod alone;
mod bench;
mod fork;
mod http;
mod keep;
mod lab;
pub mod lessons;
mod live;
mod moment;
mod problem;
mod recipe;
mod run;

use std::path::PathBuf;

pub use bench::{Bench, Options, Recorded, Searched, Simulated};
pub use http::Listening;
pub use lab::Lab;
pub use problem::{Code, Problem};
pub use recipe::Recipe;
pub use run::Run;

/// What a request may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the body of a request.
    pub body_bytes: usize,
    /// Processes of a run.
    pub processes: usize,
    /// Events of a run.
    pub events: usize,
    /// Events in one answer.
    pub page: usize,
    /// Seconds that a request may take.
    pub seconds: u64,
    /// Searches and comparisons at once.
    pub jobs: usize,
    /// Seconds that one of them may take.
    pub job_seconds: u64,
    /// Bytes that a search may take.
    pub job_bytes: usize,
    /// Live clusters at once.
    pub clusters: usize,
    /// Processes of one of them.
    pub cluster_processes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 1 << 20,
            processes: 1_000,
            events: 200_000,
            page: 20_000,
            seconds: 30,
            jobs: 4,
            job_seconds: 600,
            job_bytes: 1 << 30,
            clusters: 2,
            cluster_processes: 9,
        }
    }
}

/// How a lab is served.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Where it listens: `127.0.0.1:7480`.
    pub listen: String,
    /// The folder of the page, in place of what the program carries.
    pub web: Option<PathBuf>,
    /// What a request may take.
    pub limits: Limits,
}
