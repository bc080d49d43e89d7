//! Signals that arrive at the runner.

use std::fs;
use std::io;

use nix::libc::SI_KERNEL;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use tokio::io::unix::AsyncFd;

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
    arriving: AsyncFd<SignalFd>,
    blocked: Mask,
}

impl Signals {
    /// Listens from now on. Threads that were started before would still be ended by a signal.
    pub fn listen() -> Result<Self, Failure> {
        Self::try_listen().map_err(|error| Failure::new(format!("cannot listen for signals: {error}")))
    }

    fn try_listen() -> io::Result<Self> {
        let ignored = Mask::ignored();
        let (set, blocked) = block(HEARD.into_iter().filter(|signal| ignored.0 & Mask::bit(*signal) == 0))?;
        let arriving = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { arriving: AsyncFd::register(arriving)?, blocked })
    }

    /// What a process that is started from here has to unblock.
    pub fn blocked(&self) -> Mask {
        self.blocked
    }

    /// The next one.
    pub async fn next(&mut self) -> Arrived {
        loop {
            let Ok(mut ready) = self.arriving.readable().await else { return std::future::pending().await };
            if let Ok(Some(arrived)) = ready.get_inner().read_signal() {
                let signal =
                    i32::try_from(arrived.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
                let Some(signal) = signal else { continue };
                return Arrived { signal, is_from_terminal: arrived.ssi_code == SI_KERNEL };
            }
            ready.clear_ready();
        }
    }

    /// Stops this process as the terminal's Ctrl-Z would have done; returns when it goes on.
    pub fn stop_here() {
        let stop: SigSet = [Signal::SIGTSTP].into_iter().collect();
        let _ = raise(Signal::SIGTSTP);
        // Here it stops.
        let _ = stop.thread_unblock();
        let _ = stop.thread_block();
    }
}
