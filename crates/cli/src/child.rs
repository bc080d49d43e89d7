//! A command that runs while something is held, and ends with it.
//!
//! ```text
//!   shell
//!     └ runner    renews the lease, sends deadlines          process group of the job
//!         └ keeper    ends everything below it in time       a process group of its own
//!             └ command   and whatever it starts             process group of the job
//! ```
//!
//! The command stays in the process group of the runner, as if the shell had started it: Ctrl-C and Ctrl-Z reach both,
//! `fg` and `bg` continue both, a background job does not touch the terminal, and a pipeline is one job. The keeper is
//! outside of it, and no signal of the job reaches it.
//!
//! The process that becomes the command first waits in its group, with all signals blocked, until the runner has forwarded
//! what arrived before: what is sent to the job while it starts is heard once, and not lost.
//!
//! Whenever the lease is renewed the runner tells the keeper, over a pipe, until when the command may run. When that time
//! passes, or the pipe ends because the runner died, the keeper sends SIGTERM and then SIGKILL to everything below it,
//! until nothing is left. So the command ends in time also if the runner is killed, stopped or blocked.

mod boot;
mod frames;
mod keeper;
pub mod mutant;
mod signals;
mod start;
mod tree;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, close, getpgid, getpgrp, tcgetpgrp};
use rustix::io::{FdFlags, fcntl_setfd, ioctl_fionbio};
use tokio::net::unix::pipe;

pub use boot::Boot;
pub use frames::{Deadlines, Event, Stop};
use frames::{Order, take_frames};
use keeper::Instructions;
use mutant::Mutant;
pub use signals::{Arrived, Mask, Signals};
use tree::Reaped;

/// This program, even if it has been replaced meanwhile.
const EXECUTABLE: &str = "/proc/self/exe";
/// The hidden subcommand that keeps a command.
const KEEP: &str = "__keep";
/// The hidden subcommand that becomes a command.
const START: &str = "__start";
/// In place of the number of a file that is to be held open, if there is none.
const NOTHING: i32 = -1;
/// How long to try to end what a dead keeper left behind.
const LAST_EFFORT: Duration = Duration::from_secs(2);

/// Runs a hidden subcommand, if this process was started as one.
pub fn run_hidden() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let subcommand = words.next()?;
    let words: Vec<OsString> = words.collect();
    if subcommand == KEEP {
        return Some(keeper::run(&words));
    }
    if subcommand == START {
        let [keeper, entrance, blocked, held, command @ ..] = words.as_slice() else {
            return Some(ExitCode::FAILURE);
        };
        let keeper = keeper.to_str()?.parse().ok()?;
        let entrance = entrance.to_str()?.parse().ok()?;
        let blocked = Mask(blocked.to_str()?.parse().ok()?);
        let held = held.to_str()?.parse().ok()?;
        return Some(start::run(keeper, entrance, blocked, held, command));
    }
    None
}

/// The keeper ended before what it kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeeperDied;

/// How a command is run.
pub struct Plan<'a> {
    /// The command and its arguments.
    pub command: &'a [OsString],
    /// Additions to its environment.
    pub variables: &'a [(&'static str, String)],
    /// What the runner has blocked, and the command must not.
    pub blocked: Mask,
    /// Until when it may run, for now.
    pub deadlines: Deadlines,
    /// Whether what it leaves behind when it ends is let go.
    pub releases_on_exit: bool,
    /// Whether it is a job of its own without a terminal, input and output.
    pub is_detached: bool,
    /// What stays open as long as anything of it may run, whatever becomes of the runner: a connection that holds a lock.
    pub holds: Option<OwnedFd>,
}

/// A command that runs, and everything it started.
pub struct Group {
    keeper: Child,
    orders: Option<io::PipeWriter>,
    events: pipe::Receiver,
    read: Vec<u8>,
    told: VecDeque<Event>,
    is_detached: bool,
    /// What is to be forwarded as soon as there is a command; nothing is kept any more when it has begun.
    early: Option<Vec<Signal>>,
}

impl Group {
    /// Starts a command below a keeper.
    pub fn start(plan: &Plan<'_>) -> io::Result<Self> {
        // If the keeper dies, what it kept comes here.
        set_child_subreaper(true)?;
        let (orders_out, orders) = io::pipe()?;
        let (events, events_in) = io::pipe()?;
        fcntl_setfd(&orders_out, FdFlags::empty())?;
        fcntl_setfd(&events_in, FdFlags::empty())?;
        // A keeper that does not read is not waited for.
        ioctl_fionbio(&orders, true)?;
        if let Some(held) = &plan.holds {
            fcntl_setfd(held, FdFlags::empty())?;
        }
        let instructions = Instructions {
            orders: orders_out.as_raw_fd(),
            events: events_in.as_raw_fd(),
            group: if plan.is_detached { 0 } else { getpgrp().as_raw() },
            blocked: plan.blocked,
            releases_on_exit: plan.releases_on_exit,
            holds: plan.holds.as_ref().map_or(NOTHING, AsRawFd::as_raw_fd),
        };
        let mut command = Command::new(EXECUTABLE);
        command.arg0("conclave").arg(KEEP).args(instructions.words()).args(plan.command).process_group(0);
        command.envs(plan.variables.iter().map(|(key, value)| (key, value)));
        if plan.is_detached {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        }
        let keeper = command.spawn()?;
        let events = pipe::Receiver::from_owned_fd(OwnedFd::from(events))?;
        let mut group = Self {
            keeper,
            orders: Some(orders),
            events,
            read: Vec::new(),
            told: VecDeque::new(),
            is_detached: plan.is_detached,
            early: Some(Vec::new()),
        };
        group.set_deadlines(plan.deadlines);
        Ok(group)
    }

    /// Says until when the command may run.
    pub fn set_deadlines(&mut self, deadlines: Deadlines) {
        self.order(Order::Deadlines(deadlines));
    }

    /// Passes a signal on to the command and to what it started in the same process group. What was sent to the whole
    /// group they have already, if the command was in it by then.
    pub fn forward(&mut self, arrived: Arrived) {
        match &mut self.early {
            Some(_) if mutant::is(Mutant::ForgetsEarlySignals) => {}
            Some(early) => early.push(arrived.signal),
            None if arrived.is_for_group => {}
            None => self.order(Order::Forward(arrived.signal)),
        }
    }

    /// Lets the command begin, after [`Event::Ready`]. Whatever arrived up to now is forwarded first: what was sent to the
    /// whole group meanwhile is pending at the command, and does not count twice.
    pub fn begin(&mut self, signals: &Signals) {
        while let Some(arrived) = signals.take() {
            self.forward(arrived);
        }
        for signal in self.early.take().unwrap_or_default() {
            self.order(Order::Forward(signal));
        }
        self.order(Order::Begin);
    }

    /// Stops this process with its command, so that the shell takes the terminal back. The command goes on when this
    /// process does.
    pub fn stop_with(&mut self, stop: Stop, signals: &Signals) {
        // What stopped the command may have been sent here as well; it must not stop the command again.
        while let Some(arrived) = signals.take() {
            if arrived.signal != Signal::SIGTSTP {
                self.forward(arrived);
            }
        }
        // SIGSTOP cannot be taken back, and would stop a process that no shell looks after for good.
        let signal = if stop.signal == Signal::SIGSTOP { Signal::SIGTSTP } else { stop.signal };
        Signals::stop_here(signal, || tree::is_stopped(stop.pid));
        self.order(Order::Resume(stop));
    }

    fn order(&mut self, order: Order) {
        // A keeper that is gone tells so by the end of its events. One that does not read goes by the deadlines it has,
        // which are earlier.
        let _ = self.orders.as_mut().map(|orders| orders.write(&order.encode()));
    }

    /// Ends whatever still runs, and returns when it is over.
    #[cfg_attr(not(feature = "service"), expect(dead_code, reason = "the laboratory ends with its keeper"))]
    pub async fn close(mut self) {
        drop(self.orders.take());
        while self.next().await.is_ok() {}
        // It closed its end by ending.
        let _ = self.keeper.wait();
    }

    /// What happens next. It may be dropped and asked for again.
    pub async fn next(&mut self) -> Result<Event, KeeperDied> {
        loop {
            match self.told.pop_front() {
                Some(Event::Ready) if self.is_detached => {
                    self.early = None;
                    self.order(Order::Begin);
                }
                Some(Event::Stopped(stop)) if stop.signal == Signal::SIGSTOP && !self.is_for_job(stop) => {}
                Some(event) => return Ok(event),
                None => self.listen().await?,
            }
        }
    }

    /// Waits for events.
    async fn listen(&mut self) -> Result<(), KeeperDied> {
        let mut bytes = [0; 1_024];
        self.events.readable().await.map_err(|_| KeeperDied)?;
        match self.events.try_read(&mut bytes) {
            Ok(0) => return Err(KeeperDied),
            Ok(count) => {
                self.read.extend(bytes.get(..count).unwrap_or_default());
                self.told.extend(take_frames(&mut self.read).into_iter().filter_map(Event::decode));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return Err(KeeperDied),
        }
        Ok(())
    }

    /// Whether SIGSTOP stopped the whole job. Who sends it to a command means that command alone, unless it has the terminal:
    /// then only the shell can help, which looks at the runner.
    fn is_for_job(&self, stop: Stop) -> bool {
        let foreground = File::open("/dev/tty").ok().and_then(|terminal| tcgetpgrp(terminal).ok());
        let is_in_front = |group| group == getpgrp() || getpgid(Some(Pid::from_raw(stop.pid))) == Ok(group);
        !self.is_detached && foreground.is_some_and(is_in_front)
    }
}

/// The end of a pipe that was inherited by its number, as a file; the command does not inherit it.
fn reopen(number: i32, options: &OpenOptions) -> io::Result<File> {
    let file = options.open(format!("/proc/self/fd/{number}"))?;
    close(number)?;
    Ok(file)
}

/// Kills whatever is below this process, the keeper included: what it kept comes here when it dies. Says whether nothing
/// is left.
pub fn end_everything() -> bool {
    let give_up = Instant::now() + LAST_EFFORT;
    while Instant::now() < give_up {
        tree::kill_found();
        match tree::reap() {
            Reaped::Ended(..) | Reaped::Stopped(..) => {}
            Reaped::Running => std::thread::sleep(Duration::from_millis(2)),
            Reaped::Nobody => return true,
        }
    }
    false
}
