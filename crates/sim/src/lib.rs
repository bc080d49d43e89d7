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
pub mod clocks;
pub mod digest;
pub mod examples;
pub mod faults;
pub mod metrics;
mod plan;
mod queue;
pub mod recorder;
mod report;
pub mod rng;
mod run;
mod script;
pub mod scripted;
mod shrink;
pub mod span;
pub mod step;
pub mod timed;
pub mod wanted;
pub mod world;

pub use plan::Plan;
pub use report::{FormulaReport, Property, Report, Unasked};
pub use run::{Outcome, expected_messages, expected_messages_of, simulate, simulate_setup};
pub use script::{Difference, PlayError, Played, play, play_algorithm};
pub use shrink::{shrink, shrink_algorithm};
