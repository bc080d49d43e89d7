//! The terminal: what goes there, how wide it is, what happens on it while something takes long.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use owo_colors::OwoColorize as _;
use serde::Serialize;

use crate::failure::{Failure, one_line};

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

/// The width of the terminal, if the output goes to one.
pub fn terminal_width() -> Option<usize> {
    let (terminal_size::Width(width), _) = terminal_size::terminal_size_of(io::stdout())?;
    Some(usize::from(width).max(40))
}

/// A text after a label; where it does not fit, it goes on below itself.
pub fn indented(label: &str, text: &str) -> String {
    let indent = label.chars().count();
    let room = terminal_width().map_or(usize::MAX, |width| width.saturating_sub(indent).max(20));
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
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

/// A line on a terminal that says how far something is; there is none in a pipe, nor for what is quick.
pub struct Progress(Option<(Sender<()>, JoinHandle<()>)>);

impl Progress {
    const PATIENCE: Duration = Duration::from_millis(700);
    const BEAT: Duration = Duration::from_millis(200);

    /// Shows `text` of the time that has passed, until it is dropped.
    pub fn start(text: impl Fn(Duration) -> String + Send + 'static) -> Self {
        if !io::stderr().is_terminal() {
            return Self(None);
        }
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let begin = Instant::now();
            let mut wait = Self::PATIENCE;
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let _ = write!(io::stderr(), "\r\x1b[K{}", text(begin.elapsed()));
                wait = Self::BEAT;
            }
            if wait == Self::BEAT {
                let _ = write!(io::stderr(), "\r\x1b[K");
            }
        });
        Self(Some((stop, thread)))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.0.take() {
            drop(stop);
            // It writes to a terminal and does nothing else; if that failed, the result is still worth showing.
            let _ = thread.join();
        }
    }
}
