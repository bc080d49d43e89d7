//! Signals that arrive at the runner.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::libc::SI_KERNEL;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use nix::unistd::{getpid, getsid};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use super::tree;
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

/// A signal, and whether the command has it as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Which.
    pub signal: Signal,
    /// Sent to the whole process group, which the command is in once it has started: Ctrl-C and its like.
    pub is_for_group: bool,
}

impl Arrived {
    fn from_kernel(info: &siginfo) -> Option<Self> {
        let signal = Signal::try_from(i32::try_from(info.ssi_signo).ok()?).ok()?;
        let is_for_group = match signal {
            // A terminal that hangs up tells the leader of its session, and nobody else.
            Signal::SIGHUP => info.ssi_code == SI_KERNEL && !leads_session(),
            // Editors stop their whole group when somebody types Ctrl-Z.
            Signal::SIGTSTP => info.ssi_code == SI_KERNEL || tree::is_below(info.ssi_pid),
            _ => info.ssi_code == SI_KERNEL,
        };
        Some(Self { signal, is_for_group })
    }
}

fn leads_session() -> bool {
    getsid(None).is_ok_and(|leader| leader == getpid())
}

/// The signals that arrive here, from the moment at which this is made: none of them ends this process any more. What
/// was ignored before stays ignored.
pub struct Signals {
    source: Arc<Source>,
    blocked: Mask,
    /// Replaces an inherited "ignore", with which the kernel would not say how a child ended. What is started from here has
    /// the default.
    _children: tokio::signal::unix::Signal,
}

impl Signals {
    /// Listens from now on, inside a runtime. Threads that were started before would still be ended by a signal.
    pub fn listen() -> Result<Self, Failure> {
        Self::try_listen().map_err(|error| Failure::new(format!("cannot listen for signals: {error}")))
    }

    fn try_listen() -> io::Result<Self> {
        let ignored = Mask::ignored();
        let is_heard = |signal: &Signal| ignored.0 & Mask::bit(*signal) == 0;
        let (set, heard) = block(HEARD.into_iter().filter(is_heard))?;
        let (_, stops) = block(STOPS)?;
        let pending = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let watched = pending.as_fd().try_clone_to_owned()?;
        let arrived = Mutex::new(Arrivals { pending, read: VecDeque::new() });
        let source = Arc::new(Source { arrived, bell: Notify::new() });
        let rung = Arc::clone(&source);
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || rung.watch(&watched))?;
        Ok(Self { source, blocked: heard.and(stops), _children: signal(SignalKind::child())? })
    }

    /// What a process that is started from here has to unblock.
    pub fn blocked(&self) -> Mask {
        self.blocked
    }

    /// The next one. It may be dropped and asked for again.
    pub async fn next(&mut self) -> Arrived {
        loop {
            if let Some(arrived) = self.take() {
                return arrived;
            }
            self.source.bell.notified().await;
        }
    }

    /// The next one of those that were sent before now.
    pub fn take(&self) -> Option<Arrived> {
        self.source.read().read.pop_front()
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

/// Where signals come from.
struct Source {
    arrived: Mutex<Arrivals>,
    /// Rings when there are some.
    bell: Notify,
}

struct Arrivals {
    pending: SignalFd,
    read: VecDeque<Arrived>,
}

impl Source {
    /// Reads whatever has arrived. Nothing is in flight between the kernel and the queue while nobody is in here.
    fn read(&self) -> MutexGuard<'_, Arrivals> {
        let mut arrivals = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        while let Ok(Some(info)) = arrivals.pending.read_signal() {
            arrivals.read.extend(Arrived::from_kernel(&info));
        }
        arrivals
    }

    /// Rings the bell, for as long as this process lives.
    fn watch(&self, pending: &OwnedFd) {
        loop {
            let _ = poll(&mut [PollFd::new(pending.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE);
            drop(self.read());
            self.bell.notify_one();
        }
    }
}
