//! The exhaustive checker: every schedule and every failure within budgets.

mod action;
mod check;
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
mod subject;

pub use check::{CheckError, MOST_PROCESSES, Options, check, check_election, check_lock};
pub use model::Budgets;
pub use refute::attempts;
pub use report::{Counterexample, Overtaking, Property, Report};
pub use search::{Limits, Progress, Stopped};
pub use subject::Entries;
