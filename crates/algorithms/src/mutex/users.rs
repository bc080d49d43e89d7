//! The users of locks in a simulated run: they ask, stay inside for a while, and ask again.

use alloc::vec;
use alloc::vec::Vec;

use conclave_core::Process;

use super::{Event, Locks, Request};
use crate::demand::Load;
use crate::span::Span;
use crate::workload::{Agenda, Workload};

/// Applications that want into critical sections, a given number of times each.
#[derive(Clone, Debug)]
pub struct Entries {
    load: Load,
    think: Span,
    hold: Span,
    give_up: Option<Span>,
    n: usize,
    /// By process and lock.
    users: Vec<User>,
    /// Under a light load: the users that are idle and have entries left.
    ready: Vec<usize>,
    /// How many users ask, wait or are inside.
    busy: usize,
    /// How many entries are not over yet.
    open: u64,
    /// Whether anybody ever wanted to leave the group; most runs need not look any further.
    has_leavers: bool,
    /// By process: whether it wants to leave the group.
    leaving: Vec<Leaving>,
    /// How many processes that are up want to leave and have not been let go.
    leavers: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    /// It stays.
    No,
    /// It will ask as soon as it is neither waiting nor inside.
    Soon,
    /// It has asked.
    Asked,
    /// It has been answered.
    Answered,
}

#[derive(Clone, Debug)]
struct User {
    /// Entries not asked for yet. What the entry under way asks for has this number as its ticket.
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
    /// Its process is down, or has not joined yet, or has left.
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
            give_up: None,
            n,
            users: vec![user; n * locks],
            ready: Vec::new(),
            busy: 0,
            open: entries * (n * locks) as u64,
            has_leavers: false,
            leaving: vec![Leaving::No; n],
            leavers: 0,
        }
    }

    /// Who waits for so long gives up, and is done with that entry.
    #[must_use]
    pub fn giving_up_after(self, give_up: Option<Span>) -> Self {
        Self { give_up, ..self }
    }

    /// The processes from this place on are not there until they join.
    #[must_use]
    pub fn joined_by(mut self, first: usize) -> Self {
        for (_, user) in self.users.iter_mut().enumerate().filter(|(place, _)| place % self.n >= first) {
            user.state = Using::Down;
            self.open -= user.left;
        }
        self
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
        let ticket = user.left;
        agenda.ask_after(after, place % self.n, P::ask(place / self.n, Request::Acquire), ticket);
    }

    /// Who waits will give up in the end, if nobody has let it in by then.
    fn maybe_plan_to_give_up<P: Locks>(&self, place: usize, agenda: &mut Agenda<P>) {
        if let Some(give_up) = self.give_up {
            let (after, ticket) = (give_up.draw(&mut *agenda.rng), self.users[place].left);
            agenda.ask_after(after, place % self.n, P::ask(place / self.n, Request::Cancel), ticket);
        }
    }

    /// An entry is over.
    fn finish<P: Locks>(&mut self, place: usize, agenda: &mut Agenda<P>) {
        self.users[place].state = Using::Idle;
        self.open -= 1;
        self.busy -= 1;
        self.next(place, agenda);
        if self.has_leavers {
            self.maybe_ask_to_leave(place % self.n, agenda);
        }
    }

    fn next<P: Locks>(&mut self, place: usize, agenda: &mut Agenda<P>) {
        if self.left(place) == 0 || self.users[place].state != Using::Idle {
            return;
        }
        let think = self.think.draw(&mut *agenda.rng);
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

    /// How many entries a user will still ask for: none once its process wants to leave.
    fn left(&self, place: usize) -> u64 {
        let leaves = self.has_leavers && self.leaving[place % self.n] != Leaving::No;
        if leaves { 0 } else { self.users[place].left }
    }

    /// The users at a process.
    fn places(&self, process: usize) -> impl Iterator<Item = usize> + use<> {
        (process..self.users.len()).step_by(self.n)
    }

    /// The applications of a process that has come up go on, or begin.
    fn come_up<P: Locks>(&mut self, process: usize, agenda: &mut Agenda<P>) {
        for place in self.places(process) {
            self.users[place].state = Using::Idle;
            self.open += self.left(place);
            self.next(place, agenda);
        }
        self.leavers += usize::from(self.leaving[process] == Leaving::Soon);
        self.maybe_ask_to_leave(process, agenda);
    }

    /// The applications of a process end. What was under way is lost and does not come again; the rest waits for a
    /// restart that may never come.
    fn go_down(&mut self, process: usize) {
        self.ready.retain(|place| place % self.n != process);
        for place in self.places(process) {
            let busy = !matches!(self.users[place].state, Using::Idle | Using::Down);
            self.busy -= usize::from(busy);
            self.open -= self.left(place) + u64::from(busy);
            self.users[place].state = Using::Down;
        }
        self.leavers -= usize::from(matches!(self.leaving[process], Leaving::Soon | Leaving::Asked));
    }

    fn maybe_ask_to_leave<P: Locks>(&mut self, process: usize, agenda: &mut Agenda<P>) {
        let is_idle = |place: usize| self.users[place].state == Using::Idle;
        if self.leaving[process] == Leaving::Soon && self.places(process).all(is_idle) {
            self.leaving[process] = Leaving::Asked;
            agenda.ask_after(0, process, P::ask(0, Request::Leave), 0);
        }
    }

    /// A process that asked to leave has its answer.
    fn answered(&mut self, process: usize) {
        if matches!(self.leaving[process], Leaving::Soon | Leaving::Asked) {
            self.leavers -= 1;
        }
        self.leaving[process] = Leaving::Answered;
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
            Event::Granted { .. } => {
                self.users[place].state = Using::Inside;
                let hold = self.hold.draw(&mut *agenda.rng);
                let ticket = self.users[place].left;
                agenda.ask_after(hold, process.index(), P::ask(lock, Request::Release), ticket);
            }
            // Whatever it was doing in there is void; it does not come again.
            Event::Lost { .. } if self.users[place].state == Using::Inside => {
                self.finish(place, agenda);
            }
            Event::Lost { .. } => {}
            Event::Left => {
                self.go_down(process.index());
                self.has_leavers = true;
                self.leaving[process.index()] = Leaving::Answered;
                agenda.depart(process.index());
            }
            // It stays, and asks for nothing more.
            Event::Refused(Request::Leave) => self.answered(process.index()),
            Event::Refused(request) => {
                debug_assert!(false, "{} refused {request:?} of a well-behaved application", process.id);
            }
        }
    }

    /// An entry that was lost, or dropped because its process wants to leave, asks for nothing more: neither in its own
    /// name nor in that of a later one.
    fn stands(&self, process: Process, request: &P::Request, ticket: u64) -> bool {
        let (lock, request) = P::asked(request);
        let user = &self.users[self.place(process.index(), lock)];
        match request {
            Request::Acquire => user.state == Using::Planned && user.left == ticket,
            Request::Release => user.state == Using::Inside && user.left == ticket,
            Request::Leave => self.leaving[process.index()] == Leaving::Asked,
            Request::Cancel => user.state == Using::Waiting && user.left == ticket,
        }
    }

    fn handled(&mut self, process: Process, request: &P::Request, agenda: &mut Agenda<P>) {
        let (lock, request) = P::asked(request);
        let place = self.place(process.index(), lock);
        let user = &mut self.users[place];
        match (request, user.state) {
            // An uncontended request may have been granted while it was handled.
            (Request::Acquire, Using::Planned) => {
                user.state = Using::Waiting;
                self.maybe_plan_to_give_up(place, agenda);
            }
            (Request::Cancel, Using::Waiting) => self.finish(place, agenda),
            (Request::Release, Using::Inside) => self.finish(place, agenda),
            _ => {}
        }
    }

    fn quiet(&mut self, agenda: &mut Agenda<P>) {
        if self.busy == 0 && !self.ready.is_empty() {
            let chosen = agenda.rng.below(self.ready.len() as u64) as usize;
            let place = self.ready.swap_remove(chosen);
            let think = self.think.draw(&mut *agenda.rng);
            self.ask(place, think, agenda);
        }
    }

    fn crashed(&mut self, process: Process) {
        self.go_down(process.index());
        let leaving = &mut self.leaving[process.index()];
        if *leaving == Leaving::Asked {
            *leaving = Leaving::Soon;
        }
    }

    fn restarted(&mut self, process: Process, agenda: &mut Agenda<P>) {
        self.come_up(process.index(), agenda);
    }

    fn joined(&mut self, process: Process, agenda: &mut Agenda<P>) {
        for place in self.places(process.index()) {
            self.users[place].arrival = agenda.now;
        }
        self.come_up(process.index(), agenda);
    }

    fn leave(&mut self, process: Process, agenda: &mut Agenda<P>) {
        let process = process.index();
        if self.leaving[process] != Leaving::No {
            return;
        }
        self.ready.retain(|place| place % self.n != process);
        let mut is_up = false;
        for place in self.places(process) {
            let user = &mut self.users[place];
            if user.state != Using::Down {
                is_up = true;
                self.open -= user.left;
            }
            // It was about to ask for another entry, and does not.
            if user.state == Using::Planned {
                user.state = Using::Idle;
                self.open -= 1;
                self.busy -= 1;
            }
        }
        self.has_leavers = true;
        self.leaving[process] = Leaving::Soon;
        self.leavers += usize::from(is_up);
        self.maybe_ask_to_leave(process, agenda);
    }

    fn is_done(&self) -> bool {
        self.open == 0 && self.leavers == 0
    }

    fn is_waiting(&self) -> bool {
        let waits = |lock: &[User]| {
            let any = |state| lock.iter().any(|user| user.state == state);
            any(Using::Waiting) && !any(Using::Inside)
        };
        self.users.chunks(self.n).any(waits) || self.leaving.contains(&Leaving::Asked)
    }
}
