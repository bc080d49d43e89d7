//! What people see.

mod report;
mod term;

pub use report::{Sheet, grouped, judged, violated};
pub use term::{Progress, indented, notice, show, show_json, terminal_width};
