//! A command that runs while something is held: in a process group of its own, so that nothing it started outlives the
//! lock unseen.

use std::ffi::OsString;
use std::io::{IsTerminal as _, stdin};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::{Pid, tcsetpgrp};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::failure::Failure;

/// The command cannot be run.
const NOT_RUNNABLE: u8 = 126;
/// There is no such command.
const NO_COMMAND: u8 = 127;

/// The signals that are meant for the command.
const FORWARDED: [(i32, Signal); 6] = [
    (2, Signal::SIGINT),
    (15, Signal::SIGTERM),
    (1, Signal::SIGHUP),
    (3, Signal::SIGQUIT),
    (10, Signal::SIGUSR1),
    (12, Signal::SIGUSR2),
];

/// The signals that arrive here, from the moment at which this is made: none of them ends this process any more.
pub struct Signals(mpsc::UnboundedReceiver<Signal>);

impl Signals {
    /// Listens from now on.
    pub fn listen() -> Result<Self, Failure> {
        let (out, signals) = mpsc::unbounded_channel();
        for (number, meant) in FORWARDED {
            let mut arriving = signal(SignalKind::from_raw(number))
                .map_err(|error| Failure::new(format!("signals cannot be heard: {error}")))?;
            let out = out.clone();
            tokio::spawn(async move {
                while arriving.recv().await.is_some() {
                    if out.send(meant).is_err() {
                        return;
                    }
                }
            });
        }
        Ok(Self(signals))
    }

    /// The next one.
    pub async fn next(&mut self) -> Signal {
        match self.0.recv().await {
            Some(signal) => signal,
            // The tasks that listen never end by themselves.
            None => std::future::pending().await,
        }
    }
}

/// A command that runs.
pub struct Group {
    child: Child,
    leader: Pid,
    /// Whose turn it is on the terminal afterwards.
    terminal: Option<Pid>,
}

impl Group {
    /// Starts a command with these additions to its environment.
    ///
    /// # Errors
    /// With the exit code, as shells have it, when why it cannot be run has been said.
    pub fn start(command: &[OsString], variables: &[(&str, String)]) -> Result<Self, u8> {
        Self::spawn(command, variables).map_err(|error| {
            let program = command.first().map(|program| program.display().to_string()).unwrap_or_default();
            Failure::new(format!("'{program}' cannot be run: {error}")).print();
            if error.kind() == std::io::ErrorKind::NotFound { NO_COMMAND } else { NOT_RUNNABLE }
        })
    }

    fn spawn(command: &[OsString], variables: &[(&str, String)]) -> std::io::Result<Self> {
        let [program, rest @ ..] = command else {
            return Err(std::io::Error::new(std::io::ErrorKind::NotFound, "there is no command"));
        };
        let child = Command::new(program)
            .args(rest)
            .envs(variables.iter().map(|(key, value)| (*key, value.as_str())))
            .process_group(0)
            .spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or_default();
        let mut group = Self { child, leader: Pid::from_raw(id), terminal: None };
        group.take_terminal();
        Ok(group)
    }

    /// A group that is not in the foreground may not read from the terminal, and does not hear Ctrl-C.
    fn take_terminal(&mut self) {
        if !stdin().is_terminal() {
            return;
        }
        self.terminal = Some(nix::unistd::getpgrp());
        give_terminal(self.leader);
        // It may have tried to read already, and been stopped for it.
        self.tell(Signal::SIGCONT);
    }

    /// Waits for the end of the command.
    pub async fn wait(&mut self) -> u8 {
        self.child.wait().await.map_or(1, code)
    }

    /// Sends a signal to the command and everything it started.
    pub fn tell(&self, signal: Signal) {
        if self.leader.as_raw() > 0 {
            // Whoever has ended already needs no signal.
            let _ = killpg(self.leader, signal);
        }
    }

    /// Ends the command: by a word, and at this time by force.
    pub async fn end(&mut self, until: Instant) {
        self.tell(Signal::SIGTERM);
        // What it started may live on when it is gone itself.
        let _ = tokio::time::timeout_at(until, self.wait()).await;
        self.tell(Signal::SIGKILL);
        self.wait().await;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.terminal {
            give_terminal(group);
        }
    }
}

/// Puts a process group in the foreground of the terminal, even from the background.
fn give_terminal(group: Pid) {
    let mut blocked = SigSet::empty();
    blocked.add(Signal::SIGTTOU);
    let is_blocked = blocked.thread_block().is_ok();
    // A terminal that is gone belongs to nobody.
    let _ = tcsetpgrp(stdin(), group);
    if is_blocked {
        let _ = blocked.thread_unblock();
    }
}

/// The exit code that stands for an end.
fn code(status: ExitStatus) -> u8 {
    let signalled = || status.signal().map_or(1, |signal| 128 + signal);
    u8::try_from(status.code().unwrap_or_else(signalled)).unwrap_or(1)
}
