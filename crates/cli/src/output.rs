//! The terminal: what goes there, and how wide it is.

use std::io::{self, IsTerminal as _, Write as _};

use owo_colors::OwoColorize as _;
use serde::Serialize;

use crate::failure::{Failure, one_line};

/// The width of a terminal that does not know its own.
const USUAL_WIDTH: usize = 80;

/// Prints, in colour only where colour is wanted. A reader that has seen enough and left is no failure.
pub fn show(text: &str) -> Result<(), Failure> {
    show_to_reader(text).map(drop)
}

/// The same for what has no end of its own; says whether there is still a reader.
pub fn show_to_reader(text: &str) -> Result<bool, Failure> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(format!("cannot write to standard output: {error}"))),
    }
}

/// Prints one line of JSON.
pub fn show_json(value: &impl Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string(value).map_err(Failure::new)?;
    show(&format!("{line}\n"))
}

/// Says something beside the result, in one line.
pub fn notice(word: &str, text: &str) {
    // A reader that is gone misses nothing that matters.
    let _ = writeln!(anstream::stderr().lock(), "{} {}", format!("{word}:").yellow(), one_line(text));
}

/// The width to keep to: that of the terminal, or the usual one where nobody has given it a size; `COLUMNS` where the output
/// goes elsewhere; else there is none.
pub fn terminal_width() -> Option<usize> {
    let out = io::stdout();
    let width = if out.is_terminal() {
        let size = terminal_size::terminal_size_of(out);
        Some(size.map_or(USUAL_WIDTH, |(terminal_size::Width(width), _)| usize::from(width)))
    } else {
        std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok())
    };
    width.map(|width| width.clamp(40, 1_000))
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,=@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
