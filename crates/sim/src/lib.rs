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
pub mod faults;
pub mod metrics;
mod mutual;
mod queue;
pub mod recorder;
mod report;
pub mod rng;
mod script;
mod shrink;
pub mod span;
pub mod stage;
pub mod timed;
pub mod workload;
pub mod world;

pub use mutual::{Outcome, Plan, simulate, simulate_setup};
pub use report::{PerEntry, Property, Report, Summary, load_word};
pub use script::{Difference, PlayError, Played, commands_of, play};
pub use shrink::shrink;
