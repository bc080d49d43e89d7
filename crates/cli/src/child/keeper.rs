//! The keeper: the parent of a command, which ends it in time whatever happens to the runner.
//!
//! It does nothing else: it has one thread, no runtime, and prints nothing, so that nothing can hold it up. It is in a
//! process group of its own and blocks every signal that can be blocked, so that neither the terminal nor a `kill` of
//! the job reaches it. It is a child subreaper: whatever the command starts stays below it, also what calls `setsid` or
//! lets its parent end. It counts on CLOCK_BOOTTIME, which goes on while the machine sleeps.
//!
//! Caveats: a keeper that is killed or stopped itself keeps nothing (the kernel kills the command with it, the runner
//! what else it finds), and what another program starts on the command's behalf, such as a service manager, is not below
//! it. A process of another user, by `sudo` for instance, is not the keeper's to kill.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::time::Duration;

use nix::libc::O_NONBLOCK;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::{set_child_subreaper, set_name};
use nix::sys::signal::Signal;
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::unistd::{Pid, getpgid};
use rustix::io::{FdFlags, fcntl_setfd};

use super::boot::Boot;
use super::frames::{Deadlines, Event, Order, Stop, take_frames};
use super::mutant::{self, Mutant};
use super::signals::{Mask, block};
use super::tree::{self, Reaped};
use super::{EXECUTABLE, START, reopen};

/// Between two attempts to kill what is left, at first and at last.
const PAUSE_FIRST: Duration = Duration::from_millis(1);
const PAUSE_LAST: Duration = Duration::from_millis(50);
/// How late a mutant is.
const LATE: Duration = Duration::from_secs(3);

/// What the runner says to the keeper that it starts.
pub struct Instructions {
    /// The ends of the pipes, as inherited.
    pub orders: i32,
    pub events: i32,
    /// The process group for the command; 0 for one of its own.
    pub group: i32,
    /// What the runner has blocked.
    pub blocked: Mask,
    /// Whether to be done when the command is, whatever it left behind.
    pub releases_on_exit: bool,
    /// What to keep open until then, as inherited: nothing is done with it.
    pub holds: i32,
}

impl Instructions {
    const COUNT: usize = 6;

    /// For the command line.
    pub fn words(&self) -> [String; Self::COUNT] {
        let Self { orders, events, group, blocked, releases_on_exit, holds } = self;
        [
            orders.to_string(),
            events.to_string(),
            group.to_string(),
            blocked.0.to_string(),
            releases_on_exit.to_string(),
            holds.to_string(),
        ]
    }

    fn parse(words: &[OsString]) -> Option<Self> {
        let [orders, events, group, blocked, releases_on_exit, holds] = words else { return None };
        let number = |word: &OsStr| word.to_str()?.parse().ok();
        Some(Self {
            orders: number(orders)?,
            events: number(events)?,
            group: number(group)?,
            blocked: Mask(blocked.to_str()?.parse().ok()?),
            releases_on_exit: releases_on_exit.to_str()?.parse().ok()?,
            holds: number(holds)?,
        })
    }
}

/// Keeps a command, by the words that follow the hidden subcommand.
pub fn run(words: &[OsString]) -> ExitCode {
    let Some((instructions, command)) = words.split_at_checked(Instructions::COUNT) else {
        return ExitCode::FAILURE;
    };
    let Some(instructions) = Instructions::parse(instructions) else { return ExitCode::FAILURE };
    // Without a word before it ends, the runner takes the keeper for dead.
    match Keeper::prepare(&instructions).and_then(|mut keeper| keeper.keep(command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

struct Keeper {
    orders: File,
    events: File,
    signals: SignalFd,
    timer: TimerFd,
    group: i32,
    blocked: Mask,
    releases_on_exit: bool,
    holds: i32,
    read: Vec<u8>,
    has_runner: bool,
    /// Holds the process that becomes the command back until it may.
    gate: Option<PipeWriter>,
    /// The command; 0 before it is started.
    child: i32,
    /// Whether only what the command left behind is kept.
    has_ended: bool,
    is_done: bool,
    stops: u64,
    deadlines: Option<Deadlines>,
    is_ending: bool,
    pause: Duration,
}

impl Keeper {
    fn prepare(instructions: &Instructions) -> io::Result<Self> {
        let _ = set_name(c"conclave-keeper");
        let all = Signal::iterator().filter(|signal| {
            use Signal::{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGSTOP, SIGTRAP};
            !matches!(signal, SIGABRT | SIGBUS | SIGFPE | SIGILL | SIGKILL | SIGSEGV | SIGSTOP | SIGTRAP)
        });
        let (set, blocked) = block(all)?;
        set_child_subreaper(true)?;
        let timer =
            TimerFd::new(ClockId::CLOCK_BOOTTIME, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
        Ok(Self {
            orders: reopen(instructions.orders, OpenOptions::new().read(true).custom_flags(O_NONBLOCK))?,
            events: reopen(instructions.events, OpenOptions::new().write(true).custom_flags(O_NONBLOCK))?,
            signals: SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?,
            timer,
            group: instructions.group,
            blocked: instructions.blocked.and(blocked),
            releases_on_exit: instructions.releases_on_exit,
            holds: instructions.holds,
            read: Vec::new(),
            has_runner: true,
            gate: None,
            child: 0,
            has_ended: false,
            is_done: false,
            stops: 0,
            deadlines: None,
            is_ending: false,
            pause: PAUSE_FIRST,
        })
    }

    /// Starts the command, and returns when nothing of it is left to be kept.
    fn keep(&mut self, command: &[OsString]) -> io::Result<()> {
        // Nothing runs before there is a time by which it must be over.
        while self.has_runner && self.deadlines.is_none() {
            self.wait()?;
        }
        self.act();
        if self.is_ending || !self.has_runner {
            self.report(Event::Gone);
            return Ok(());
        }
        if let Err(error) = self.start(command) {
            self.report(Event::NotStarted { errno: error.raw_os_error().unwrap_or_default() });
            return Ok(());
        }
        self.report(Event::Ready);
        self.look_at_children();
        while !self.is_done {
            self.act();
            self.wait()?;
            self.look_at_children();
        }
        self.report(Event::Gone);
        Ok(())
    }

    /// Starts the process that becomes the command. It has all signals blocked until it may begin, so that what arrives
    /// meanwhile from several sides counts once, and is not lost.
    fn start(&mut self, command: &[OsString]) -> io::Result<()> {
        let (entrance, gate) = io::pipe()?;
        fcntl_setfd(&entrance, FdFlags::empty())?;
        let words = [Pid::this().as_raw(), entrance.as_raw_fd()].map(|number| number.to_string());
        let child = Command::new(EXECUTABLE)
            .arg0("conclave")
            .arg(START)
            .args(words)
            .arg(self.blocked.0.to_string())
            .arg(self.holds.to_string())
            .args(command)
            .process_group(self.group)
            .spawn()?;
        self.gate = Some(gate);
        self.child = i32::try_from(child.id()).unwrap_or_default();
        self.group = self.present_group().as_raw();
        Ok(())
    }

    /// The process group of the command, which may have made one of its own, as interactive shells do.
    fn present_group(&self) -> Pid {
        getpgid(Some(Pid::from_raw(self.child))).unwrap_or(Pid::from_raw(self.group))
    }

    /// Buries whoever ended, and takes note of a stop. Without children nothing is left to be kept.
    fn look_at_children(&mut self) {
        loop {
            match tree::reap() {
                Reaped::Ended(pid, code) if pid == self.child => {
                    self.has_ended = true;
                    self.report(Event::Ended { code, left: tree::count() });
                    let is_released = self.releases_on_exit || mutant::is(Mutant::ForgetsTheRest);
                    self.is_done = is_released && !self.is_ending;
                }
                Reaped::Ended(..) => {}
                Reaped::Stopped(pid, signal) if pid == self.child || self.has_ended => {
                    self.on_stop(pid, signal);
                }
                Reaped::Stopped(..) => {}
                Reaped::Running => return,
                Reaped::Nobody => {
                    self.is_done = true;
                    return;
                }
            }
        }
    }

    fn on_stop(&mut self, pid: i32, signal: i32) {
        if let Ok(signal) = Signal::try_from(signal) {
            self.stops += 1;
            self.report(Event::Stopped(Stop { pid, signal, count: self.stops }));
        }
    }

    /// Does what the deadlines demand, when all orders that have arrived were read: after a stop of the keeper there may be
    /// many, and only the newest counts. An end that has begun is not called off: the command was told.
    fn act(&mut self) {
        let Some(deadlines) = self.deadlines else { return };
        let now = if mutant::is(Mutant::EndsLate) { Boot::now().before(LATE) } else { Boot::now() };
        if !self.is_ending && now >= deadlines.tell_at {
            self.is_ending = true;
            // What has not begun does not begin any more.
            self.gate = None;
            tree::tell(Signal::SIGTERM, None);
            self.report(Event::Ending);
        }
        if now >= deadlines.kill_at {
            tree::kill_found();
        }
    }

    /// When to look again at the latest.
    fn next_look(&mut self) -> Option<Boot> {
        let deadlines = self.deadlines?;
        let now = Boot::now();
        if now >= deadlines.kill_at {
            let next = now.after(self.pause);
            self.pause = (self.pause * 2).min(PAUSE_LAST);
            return Some(next);
        }
        Some(if self.is_ending { deadlines.kill_at } else { deadlines.tell_at.min(deadlines.kill_at) })
    }

    /// Waits for an order, for the end of a child, or for a deadline.
    fn wait(&mut self) -> io::Result<()> {
        if let Some(next) = self.next_look() {
            let expiration = Expiration::OneShot(TimeSpec::from(next.elapsed_since_boot()));
            self.timer.set(expiration, TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
        }
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut sources = vec![readable(self.signals.as_fd()), readable(self.timer.as_fd())];
        if self.has_runner {
            sources.push(readable(self.orders.as_fd()));
        }
        match poll(&mut sources, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        // Children are looked at after every wait; the other signals are not meant for the keeper.
        while let Ok(Some(_)) = self.signals.read_signal() {}
        if self.has_runner {
            self.read_orders();
        }
        Ok(())
    }

    fn read_orders(&mut self) {
        let mut bytes = [0; 4_096];
        loop {
            match self.orders.read(&mut bytes) {
                Ok(0) => return self.on_runner_gone(),
                Ok(count) => self.read.extend(bytes.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.on_runner_gone(),
            }
        }
        // What an order means depends on whether the command has ended, or was stopped again.
        if self.child != 0 {
            self.look_at_children();
        }
        for order in take_frames(&mut self.read).into_iter().filter_map(Order::decode) {
            match order {
                Order::Deadlines(deadlines) => {
                    self.on_deadlines(deadlines);
                    if mutant::is(Mutant::ActsOnOldNews) {
                        self.act();
                    }
                }
                Order::Forward(signal) => self.tell(signal),
                Order::Resume(stop) => self.on_resume(stop),
                Order::Begin => self.open_gate(),
            }
        }
    }

    /// Sends a signal to the command's process group, as far as it is below. What the command left behind may be in other
    /// groups, and has nobody else to be told by.
    fn tell(&self, signal: Signal) {
        tree::tell(signal, (!self.has_ended).then(|| self.present_group()));
    }

    /// Continues the command, unless whoever continued the runner has continued both: by now it may have stopped again, and
    /// then waits for somebody else.
    fn on_resume(&mut self, stop: Stop) {
        let is_stopped = tree::is_stopped(stop.pid);
        // Another stop would be noted here.
        self.look_at_children();
        if is_stopped && stop.count == self.stops {
            self.tell(Signal::SIGCONT);
        }
    }

    fn open_gate(&mut self) {
        // Whoever does not wait there any more has ended.
        let _ = self.gate.take().map(|mut gate| gate.write(&[0]));
    }

    fn on_deadlines(&mut self, mut new: Deadlines) {
        if self.is_ending {
            new.kill_at = self.deadlines.map_or(new.kill_at, |old| old.kill_at.min(new.kill_at));
        }
        self.deadlines = Some(new);
    }

    /// Nobody renews the lease any more: what runs is told to end now, and has the usual time for it, but no longer than
    /// the lease.
    fn on_runner_gone(&mut self) {
        self.has_runner = false;
        let Some(Deadlines { tell_at, kill_at }) = self.deadlines else { return };
        let now = Boot::now();
        let grace = kill_at.since(tell_at);
        self.on_deadlines(Deadlines { tell_at: now.min(tell_at), kill_at: kill_at.min(now.after(grace)) });
    }

    fn report(&mut self, event: Event) {
        // A runner that is gone, or that reads nothing, is not waited for.
        let _ = self.events.write(&event.encode());
    }
}
