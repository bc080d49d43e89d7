//! The deterministic simulator: seed in, report and trace out.
//!
//! ```text
//!   Plan ──▶ Run (queue, network, faults, applications) ──▶ World (processes, one step at a time)
//!                                                              │
//!                                    Observers: properties, metrics, digest, recorder ──▶ Report, Trace
//! ```
//!
//! The same seed gives the same run on every machine: integers only, one thread, no iteration over anything whose
//! order is not fixed.

pub mod channels;
pub mod digest;
mod electing;
pub mod family;
pub mod faults;
mod locking;
pub mod metrics;
pub mod outages;
mod plan;
mod queue;
pub mod recorder;
mod report;
pub mod rng;
mod run;
mod script;
mod shrink;
pub mod span;
pub mod stage;
pub mod timed;
pub mod workload;
pub mod world;

pub use locking::simulate;
pub use plan::{Plan, Starter};
pub use report::{
    ElectionReport, FormulaReport, LockReport, OutageReport, Part, Property, Report, Summary, load_word,
};
pub use run::{Outcome, expected_messages, simulate_election, simulate_lock, simulate_setup};
pub use script::{Difference, PlayError, Played, play};
pub use shrink::shrink;
