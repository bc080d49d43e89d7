//! How a command ends.

use core::fmt::{self, Display};
use std::io::Write as _;
use std::path::Path;

use owo_colors::OwoColorize as _;

/// What a command found out; its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All held.
    Held,
    /// A property failed, or what was asked for did not happen.
    Failed,
    /// What a command that was run has ended with.
    Code(u8),
}

impl Verdict {
    /// The verdict on something that should be so.
    pub fn of(held: bool) -> Self {
        if held { Self::Held } else { Self::Failed }
    }
}

/// Why a command could not do what it was asked for; nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    sentence: String,
    hint: Option<String>,
}

impl Failure {
    /// What is wrong, in one sentence.
    pub fn new(sentence: impl Display) -> Self {
        Self { sentence: one_line(&sentence.to_string()), hint: None }
    }

    /// What is wrong with a file.
    pub fn file(verb: &str, path: &Path, error: &std::io::Error) -> Self {
        let text = error.to_string();
        let why = text.split(" (os error").next().unwrap_or(&text);
        Self::new(format!("cannot {verb} '{}': {why}", path.display()))
    }

    /// What to do about it.
    pub fn hint(mut self, hint: impl Display) -> Self {
        self.hint = Some(crate::program::renamed(&one_line(&hint.to_string())));
        self
    }

    /// What to do about it, if anything is known.
    #[cfg(feature = "laboratory")]
    pub fn what_to_do(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Says it on standard error.
    pub fn print(&self) {
        let mut err = anstream::stderr().lock();
        // There is nobody left to tell if this fails too.
        let _ = writeln!(err, "{} {}", "error:".red().bold(), self.sentence);
        if let Some(hint) = &self.hint {
            let _ = writeln!(err, "{} {hint}", "hint:".cyan());
        }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

/// One line, whatever was typed or read: a control character could redraw the terminal, and one that is not seen, or turns
/// the direction of writing, could make a name look like another.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_control() => line.push(' '),
            c if is_invisible(c) => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
    line
}

/// The format characters of Unicode, and its separators of lines and paragraphs.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{890}'..='\u{891}'
            | '\u{8e2}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{110bd}'
            | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0001}'
            | '\u{e0020}'..='\u{e007f}'
    )
}

/// The name that was perhaps meant.
#[cfg(feature = "laboratory")]
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let close = known.into_iter().map(|other| (strsim::jaro_winkler(&name, &other.to_lowercase()), other));
    close
        .filter(|(similarity, _)| *similarity > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        for (text, line) in [
            ("a\nb\u{1b}[2J", "a b [2J"),
            ("evil\u{202e}gpj", "evil\\u{202e}gpj"),
            ("a\u{200b}b\u{2066}c\u{2028}", "a\\u{200b}b\\u{2066}c\\u{2028}"),
            ("naïve, e\u{301}, 日本 'x' \\ \"", "naïve, e\u{301}, 日本 'x' \\ \""),
        ] {
            assert_eq!(one_line(text), line);
        }
    }
}
