//! What people see of runs and searches.

mod progress;
mod report;
mod searched;
pub mod stepped;

pub use crate::output::{notice, quoted, show, show_json, show_to_reader, terminal_width};
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

/// A word that is longer than a line goes on after a comma.
fn pieces(word: &str, room: usize) -> impl Iterator<Item = &str> {
    let mut rest = word;
    core::iter::from_fn(move || {
        let fits = |end: &usize| columns(&rest[..*end]) <= room;
        let ends = rest.match_indices(',').map(|(at, _)| at + 1).filter(|end| *end < rest.len());
        let end = if columns(rest) > room { ends.take_while(fits).last() } else { None };
        let (piece, left) = rest.split_at(end.unwrap_or(rest.len()));
        rest = left;
        (!piece.is_empty()).then_some(piece)
    })
}

/// A text after a label; where it does not fit, it goes on below itself.
pub fn indented(label: &str, text: &str) -> String {
    let indent = label.chars().count();
    let room = terminal_width().map_or(usize::MAX, |width| width.saturating_sub(indent).max(20));
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        let mut pieces = pieces(word, room);
        if line.trim().is_empty() || columns(line) + 1 + columns(word) <= room {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(pieces.next().unwrap_or_default());
        }
        lines.extend(pieces.map(str::to_owned));
    }
    format!("{label}{}\n", lines.join(&format!("\n{:indent$}", "")))
}
