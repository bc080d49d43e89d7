//! What happens on a terminal while something takes long.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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
                let _ = write!(io::stderr(), "\r\x1b[K{}", fitting(&text(begin.elapsed())));
                wait = Self::BEAT;
            }
            if wait == Self::BEAT {
                let _ = write!(io::stderr(), "\r\x1b[K");
            }
        });
        Self(Some((stop, thread)))
    }
}

/// As much of a line as fits: one that is broken cannot be written over.
fn fitting(line: &str) -> String {
    let width = terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| usize::from(width.0));
    line.chars().take(width.saturating_sub(1)).collect()
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
