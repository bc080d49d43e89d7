//! What the runner says on standard error, from a thread of its own: a pipe that nobody reads holds up the thread, and
//! neither renewals nor the end of the command.

use std::cell::RefCell;
use std::io::IsTerminal as _;
use std::sync::mpsc::{self, SyncSender};
use std::time::Duration;

use super::args::RunArgs;
use crate::child::mutant::{self, Mutant};
use crate::failure::Failure;
use crate::output;

/// How much may wait to be printed. More is left out.
const ROOM: usize = 64;
/// How long to wait for the printing before this process ends or stops.
const FLUSH: Duration = Duration::from_millis(250);

enum Line {
    Note(String),
    Error(Failure),
    /// Says when everything before it is printed.
    Printed(SyncSender<()>),
}

/// Prints without waiting for it.
pub struct Voice {
    lines: SyncSender<Line>,
    is_quiet: bool,
    is_verbose: bool,
    is_terminal: bool,
    outage: Outage,
}

impl Voice {
    /// Begins to print. Signals are listened for before, so that the thread has them blocked.
    pub fn start(args: &RunArgs) -> Result<Self, Failure> {
        let (lines, printed) = mpsc::sync_channel(ROOM);
        std::thread::Builder::new()
            .name("voice".to_owned())
            .spawn(move || printed.into_iter().for_each(Line::print))
            .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
        let is_terminal = std::io::stderr().is_terminal();
        let (is_quiet, is_verbose) = (args.quiet, args.verbose);
        Ok(Self { lines, is_quiet, is_verbose, is_terminal, outage: Outage::default() })
    }

    fn say(&self, line: Line) {
        if mutant::is(Mutant::SpeaksItself) {
            return line.print();
        }
        // With no room left, nobody reads it.
        drop(self.lines.try_send(line));
    }

    /// What ended the command, or kept it from being run.
    pub fn error(&self, failure: Failure) {
        self.say(Line::Error(failure));
    }

    /// Why the service does not answer: said once, and again when the reason changes.
    pub fn unanswered(&self, failure: Failure) {
        match self.outage.is_news(&failure) {
            true => self.error(failure),
            false => self.detail(format!("still: {failure}")),
        }
    }

    /// The service answers; somebody who was told otherwise wants to know.
    pub fn answered(&self) {
        if self.outage.ends() {
            self.note("the service answers again");
        }
    }

    /// Whether it was told that the service does not answer.
    pub fn is_unanswered(&self) -> bool {
        self.outage.0.borrow().is_some()
    }

    /// What everybody should know who did not ask for silence.
    pub fn note(&self, text: impl Into<String>) {
        if !self.is_quiet {
            self.say(Line::Note(text.into()));
        }
    }

    /// Whether somebody looks on, or wants to know.
    pub fn is_watched(&self) -> bool {
        self.is_verbose || self.is_terminal && !self.is_quiet
    }

    /// What a person at a terminal wants to know.
    pub fn remark(&self, text: impl Into<String>) {
        if self.is_watched() {
            self.note(text);
        }
    }

    /// What only those want to know who asked.
    pub fn detail(&self, text: impl Into<String>) {
        if self.is_verbose {
            self.note(text);
        }
    }

    /// Waits for the printing, but not for long.
    pub fn flush(&self) {
        let (done, printed) = mpsc::sync_channel(1);
        if self.lines.try_send(Line::Printed(done)).is_ok() {
            // A reader that is slow or gone is not waited for.
            let _ = printed.recv_timeout(FLUSH);
        }
    }
}

/// Why the service does not answer, as it was told last.
#[derive(Default)]
struct Outage(RefCell<Option<Failure>>);

impl Outage {
    /// Takes note of a reason, and says whether it is another one than before.
    fn is_news(&self, failure: &Failure) -> bool {
        self.0.replace(Some(failure.clone())).as_ref() != Some(failure)
    }

    /// Whether there was one until now.
    fn ends(&self) -> bool {
        self.0.take().is_some()
    }
}

impl Line {
    fn print(self) {
        match self {
            Self::Note(text) => output::notice("note", &text),
            Self::Error(failure) => failure.print(),
            Self::Printed(done) => drop(done.send(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_told_once_and_again_when_it_changes() {
        let (refused, silent) = (Failure::new("connection refused"), Failure::new("it does not answer"));
        let outage = Outage::default();
        assert!(!outage.ends());
        assert!(outage.is_news(&refused));
        assert!(!outage.is_news(&refused));
        assert!(outage.is_news(&silent), "another reason");
        assert!(!outage.is_news(&silent));
        assert!(outage.ends() && !outage.ends());
        assert!(outage.is_news(&silent), "another outage");
    }
}
