//! Signals that arrive at the runner.

use std::fs;
use std::io;

use nix::libc::SI_KERNEL;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use tokio::sync::mpsc;

use crate::failure::Failure;

/// The signals that are meant for the command, and the one that stops a job.
const HEARD: [Signal; 7] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
];

/// The signals that stop a job. What the terminal stops is the command; the runner follows.
const STOPS: [Signal; 2] = [Signal::SIGTTIN, Signal::SIGTTOU];

/// Signals by their numbers, one bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask(pub u64);

impl Mask {
    fn bit(signal: Signal) -> u64 {
        1 << (signal as u32 - 1)
    }

    /// Those of a set.
    pub fn of(set: &SigSet) -> Self {
        Self(set.iter().map(Self::bit).fold(0, |mask, bit| mask | bit))
    }

    /// All of both.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// As a set.
    pub fn to_set(self) -> SigSet {
        Signal::iterator().filter(|signal| self.0 & Self::bit(*signal) != 0).collect()
    }

    /// The signals that this process ignores: `nohup` and shells without job control start their commands so.
    fn ignored() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        Self(mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0))
    }
}

/// Blocks signals in this thread, and in those it starts later; gives the ones that were not blocked before.
pub fn block(signals: impl IntoIterator<Item = Signal>) -> nix::Result<(SigSet, Mask)> {
    let set: SigSet = signals.into_iter().collect();
    let before = set.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    Ok((set, Mask(Mask::of(&set).0 & !Mask::of(&before).0)))
}

/// A signal, and whether the terminal sent it. What the terminal sends, it sends to the whole process group, and the
/// command is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Which.
    pub signal: Signal,
    /// Ctrl-C and its like.
    pub is_from_terminal: bool,
}

/// The signals that arrive here, from the moment at which this is made: none of them ends this process any more. What
/// was ignored before stays ignored.
pub struct Signals {
    arriving: mpsc::UnboundedReceiver<Arrived>,
    blocked: Mask,
}

impl Signals {
    /// Listens from now on. Threads that were started before would still be ended by a signal.
    pub fn listen() -> Result<Self, Failure> {
        Self::try_listen().map_err(|error| Failure::new(format!("cannot listen for signals: {error}")))
    }

    fn try_listen() -> io::Result<Self> {
        let ignored = Mask::ignored();
        let is_heard = |signal: &Signal| ignored.0 & Mask::bit(*signal) == 0;
        let (set, heard) = block(HEARD.into_iter().filter(is_heard))?;
        let (_, stops) = block(STOPS)?;
        let signals = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC)?;
        let (out, arriving) = mpsc::unbounded_channel();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || pass_on(&signals, &out))?;
        Ok(Self { arriving, blocked: heard.and(stops) })
    }

    /// What a process that is started from here has to unblock.
    pub fn blocked(&self) -> Mask {
        self.blocked
    }

    /// The next one.
    pub async fn next(&mut self) -> Arrived {
        match self.arriving.recv().await {
            Some(arrived) => arrived,
            // The thread that reads them never ends by itself.
            None => std::future::pending().await,
        }
    }

    /// Stops this process, as this signal of the terminal would have done, if that is still wanted; returns when it goes
    /// on.
    pub fn stop_here(signal: Signal, is_wanted: impl FnOnce() -> bool) {
        let stop: SigSet = [signal].into_iter().collect();
        let _ = raise(signal);
        // A SIGCONT that arrives from here on takes the pending stop away, as does this one.
        if !is_wanted() {
            let _ = raise(Signal::SIGCONT);
        }
        // Here it stops.
        let _ = stop.thread_unblock();
        let _ = stop.thread_block();
    }
}

/// Reads signals for as long as somebody wants them.
fn pass_on(signals: &SignalFd, out: &mpsc::UnboundedSender<Arrived>) {
    while let Ok(arrived) = signals.read_signal() {
        let Some(arrived) = arrived else { continue };
        let signal = i32::try_from(arrived.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
        let Some(signal) = signal else { continue };
        if out.send(Arrived { signal, is_from_terminal: arrived.ssi_code == SI_KERNEL }).is_err() {
            return;
        }
    }
}
