//! What the applications of a run ask for, and when.

use conclave_algorithms::mutex::{self, Load, Locks};
use conclave_core::{Process, Protocol};

use crate::rng::Rng;
use crate::span::Span;

/// The applications: they ask, are told, and ask again.
pub trait Workload<P: Protocol> {
    /// The run begins.
    fn begin(&mut self, agenda: &mut Agenda<P>);
    /// A process told its application something.
    fn told(&mut self, process: Process, event: &P::Event, agenda: &mut Agenda<P>);
    /// A request that was on the agenda has been handled.
    fn handled(&mut self, process: Process, request: &P::Request, agenda: &mut Agenda<P>);
    /// No message travels and nothing is on the agenda.
    fn quiet(&mut self, agenda: &mut Agenda<P>);
    /// A process crashed: what it asked for is gone.
    fn crashed(&mut self, process: Process);
    /// A process is up again.
    fn restarted(&mut self, process: Process, agenda: &mut Agenda<P>);
    /// Whether nothing more will be asked for and everything was given.
    fn is_done(&self) -> bool;
    /// Whether an application waits for an answer that nobody else is keeping it from.
    fn is_waiting(&self) -> bool;
}

/// Where a workload writes what shall be asked for, and when.
#[derive(Debug)]
pub struct Agenda<P: Protocol> {
    /// The time.
    pub now: u64,
    /// The randomness of the workload; delays draw from another stream.
    pub rng: Rng,
    pub(crate) asks: Vec<(u64, usize, P::Request)>,
}

impl<P: Protocol> Agenda<P> {
    /// An empty one.
    #[must_use]
    pub fn new(rng: Rng) -> Self {
        Self { now: 0, rng, asks: Vec::new() }
    }

    /// The application of the process at this place shall ask for this, so long from now.
    pub fn ask_after(&mut self, span: u64, process: usize, request: P::Request) {
        self.asks.push((self.now.saturating_add(span), process, request));
    }
}

/// Applications that want into critical sections, a given number of times each.
#[derive(Clone, Debug)]
pub struct Entries {
    load: Load,
    think: Span,
    hold: Span,
    n: usize,
    /// By process and lock.
    users: Vec<User>,
    /// Under a light load: the users that are idle and have entries left.
    ready: Vec<usize>,
    /// How many users ask, wait or are inside.
    busy: usize,
    /// How many entries are not over yet.
    open: u64,
}

#[derive(Clone, Debug)]
struct User {
    /// Entries not asked for yet.
    left: u64,
    /// When the next of them arrives, under an open load; it waits its turn if the user is busy then.
    arrival: u64,
    state: Using,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Using {
    /// Nothing asked for.
    Idle,
    /// About to ask.
    Planned,
    /// Waiting for the grant.
    Waiting,
    /// Inside.
    Inside,
    /// Its process is down.
    Down,
}

impl Entries {
    /// Every one of `n` processes enters each of `locks` this many times.
    #[must_use]
    pub fn new(n: usize, locks: usize, entries: u64, load: Load, think: Span, hold: Span) -> Self {
        let user = User { left: entries, arrival: 0, state: Using::Idle };
        Self {
            load,
            think,
            hold,
            n,
            users: vec![user; n * locks],
            ready: Vec::new(),
            busy: 0,
            open: entries * (n * locks) as u64,
        }
    }

    fn place(&self, process: usize, lock: usize) -> usize {
        lock * self.n + process
    }

    /// Asks for the next entry of a user after this time.
    fn ask<P: Locks>(&mut self, place: usize, after: u64, agenda: &mut Agenda<P>) {
        let user = &mut self.users[place];
        debug_assert!(user.state == Using::Idle, "a user asks for one entry at a time");
        user.left -= 1;
        user.state = Using::Planned;
        self.busy += 1;
        agenda.ask_after(after, place % self.n, P::ask(place / self.n, mutex::Request::Acquire));
    }

    /// An entry is over.
    fn finish<P: Locks>(&mut self, place: usize, agenda: &mut Agenda<P>) {
        self.users[place].state = Using::Idle;
        self.open -= 1;
        self.busy -= 1;
        self.next(place, agenda);
    }

    fn next<P: Locks>(&mut self, place: usize, agenda: &mut Agenda<P>) {
        if self.users[place].left == 0 || self.users[place].state != Using::Idle {
            return;
        }
        let think = self.think.draw(&mut agenda.rng);
        match self.load {
            Load::Light => self.ready.push(place),
            Load::Saturated => self.ask(place, think, agenda),
            Load::Open => {
                let user = &mut self.users[place];
                user.arrival = user.arrival.saturating_add(think);
                let after = user.arrival.saturating_sub(agenda.now);
                self.ask(place, after, agenda);
            }
        }
    }
}

impl<P: Locks> Workload<P> for Entries {
    fn begin(&mut self, agenda: &mut Agenda<P>) {
        for place in 0..self.users.len() {
            self.next(place, agenda);
        }
        if self.load == Load::Light {
            Workload::<P>::quiet(self, agenda);
        }
    }

    fn told(&mut self, process: Process, event: &P::Event, agenda: &mut Agenda<P>) {
        let (lock, event) = P::told(event);
        let place = self.place(process.index(), lock);
        match event {
            mutex::Event::Granted { .. } => {
                self.users[place].state = Using::Inside;
                let hold = self.hold.draw(&mut agenda.rng);
                agenda.ask_after(hold, process.index(), P::ask(lock, mutex::Request::Release));
            }
            // Whatever it was doing in there is void; it does not come again.
            mutex::Event::Lost { .. } if self.users[place].state == Using::Inside => {
                self.finish(place, agenda);
            }
            mutex::Event::Lost { .. } | mutex::Event::Left => {}
            mutex::Event::Refused(request) => {
                debug_assert!(false, "{} refused {request:?} of a well-behaved application", process.id);
            }
        }
    }

    fn handled(&mut self, process: Process, request: &P::Request, agenda: &mut Agenda<P>) {
        let (lock, request) = P::asked(request);
        let place = self.place(process.index(), lock);
        let user = &mut self.users[place];
        match (request, user.state) {
            // An uncontended request may have been granted while it was handled.
            (mutex::Request::Acquire, Using::Planned) => user.state = Using::Waiting,
            (mutex::Request::Release, Using::Inside) => self.finish(place, agenda),
            _ => {}
        }
    }

    fn quiet(&mut self, agenda: &mut Agenda<P>) {
        if self.busy == 0 && !self.ready.is_empty() {
            let chosen = agenda.rng.below(self.ready.len() as u64) as usize;
            let place = self.ready.swap_remove(chosen);
            let think = self.think.draw(&mut agenda.rng);
            self.ask(place, think, agenda);
        }
    }

    fn crashed(&mut self, process: Process) {
        self.ready.retain(|place| place % self.n != process.index());
        for user in self.users.iter_mut().skip(process.index()).step_by(self.n) {
            // What was under way is lost and does not come again; the rest waits for a restart that may never come.
            let busy = !matches!(user.state, Using::Idle | Using::Down);
            self.busy -= usize::from(busy);
            self.open -= user.left + u64::from(busy);
            user.state = Using::Down;
        }
    }

    fn restarted(&mut self, process: Process, agenda: &mut Agenda<P>) {
        for place in (process.index()..self.users.len()).step_by(self.n) {
            self.users[place].state = Using::Idle;
            self.open += self.users[place].left;
            self.next(place, agenda);
        }
    }

    fn is_done(&self) -> bool {
        self.open == 0
    }

    fn is_waiting(&self) -> bool {
        self.users.chunks(self.n).any(|lock| {
            let any = |state| lock.iter().any(|user| user.state == state);
            any(Using::Waiting) && !any(Using::Inside)
        })
    }
}

/// Applications that ask for what is planned, when it is planned, and for nothing more.
#[derive(Clone, Debug)]
pub struct Calls<R> {
    calls: Vec<(u64, usize, R)>,
}

impl<R> Calls<R> {
    /// When, which process, what.
    #[must_use]
    pub fn new(calls: Vec<(u64, usize, R)>) -> Self {
        Self { calls }
    }
}

impl<P: Protocol> Workload<P> for Calls<P::Request> {
    fn begin(&mut self, agenda: &mut Agenda<P>) {
        for (time, process, request) in self.calls.drain(..) {
            agenda.ask_after(time, process, request);
        }
    }

    fn told(&mut self, _process: Process, _event: &P::Event, _agenda: &mut Agenda<P>) {}

    fn handled(&mut self, _process: Process, _request: &P::Request, _agenda: &mut Agenda<P>) {}

    fn quiet(&mut self, _agenda: &mut Agenda<P>) {}

    fn crashed(&mut self, _process: Process) {}

    fn restarted(&mut self, _process: Process, _agenda: &mut Agenda<P>) {}

    /// The calls of a process that is down are lost: what is over is told by the queue alone.
    fn is_done(&self) -> bool {
        true
    }

    fn is_waiting(&self) -> bool {
        true
    }
}
