//! What people see.

mod report;
mod searched;
mod term;

pub use report::{Sheet, grouped, judged, violated};
pub use searched::{Searched, compared, replayable, size};
pub use term::{Progress, indented, notice, show, show_json, show_to_reader, terminal_width};
