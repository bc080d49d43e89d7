//! The exhaustive checker: every schedule and every failure within budgets.

mod action;
mod alone;
mod check;
mod coverage;
mod effect;
mod explore;
mod future;
mod graph;
mod intern;
mod lead;
mod model;
mod normal;
mod path;
mod reduce;
mod refute;
mod rehearse;
mod report;
mod search;
mod space;
mod sweep;

pub use check::{CheckError, MOST_PROCESSES, Options, check, check_algorithm};
pub use conclave_algorithms::application::AskBudget;
pub use model::Budgets;
pub use refute::attempts;
pub use report::{Counterexample, Coverage, Overtaking, Property, Report};
pub use search::{Limits, Progress, Stopped};
pub use sweep::{LONG, Swept, Trial, sweep};
