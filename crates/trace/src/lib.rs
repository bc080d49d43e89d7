//! The one record of a run, whoever drove it: simulator, checker, live network or lab.
//!
//! A [`Trace`] is a header and a list of [`Record`]s. It is written and read as JSON Lines, drawn as SVG, and exported
//! for other tools.

mod record;

pub use record::{Carried, Header, Record, Trace, What};
