//! What people see of runs and searches.

mod progress;
mod report;
mod searched;

pub use crate::output::{notice, quoted, show, show_json, terminal_width};
pub use progress::Progress;
pub use report::{Sheet, grouped, judged, violated};
pub use searched::{Searched, compared, replayable, size};

/// How many columns a text takes; its colours take none.
fn columns(text: &str) -> usize {
    anstream::adapter::strip_str(text).to_string().chars().count()
}

/// A command to be copied, after a label; where it does not fit, it goes on before an option, as a shell takes it.
pub fn typed(label: &str, command: &str) -> String {
    let room = terminal_width().map_or(usize::MAX, |width| width.saturating_sub(2));
    let mut text = label.to_owned();
    let mut used = columns(label);
    for (at, part) in command.split(" --").enumerate() {
        let part = if at == 0 { part.to_owned() } else { format!(" --{part}") };
        if at > 0 && used + columns(&part) > room {
            text += &format!(" \\\n   {part}");
            used = 3 + columns(&part);
        } else {
            text += &part;
            used += columns(&part);
        }
    }
    text + "\n"
}

/// A text after a label; where it does not fit, it goes on below itself.
pub fn indented(label: &str, text: &str) -> String {
    let indent = label.chars().count();
    let room = terminal_width().map_or(usize::MAX, |width| width.saturating_sub(indent).max(20));
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && columns(line) + 1 + columns(word) > room {
            lines.push(word.to_owned());
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    format!("{label}{}\n", lines.join(&format!("\n{:indent$}", "")))
}
