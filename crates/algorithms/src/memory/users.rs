//! The users of a simulated run: they go in, stay for a while, go out, and come again.

use alloc::vec::Vec;

use conclave_core::{NodeId, Process};

use crate::span::Span;
use crate::workload::{Agenda, Workload};

use super::machine::{Event, MEMORY, Machine, Request};

/// Applications that go in a given number of times each.
#[derive(Clone, Debug)]
pub struct VisitsPlanned {
    think: Span,
    hold: Span,
    /// By place.
    users: Vec<User>,
}

#[derive(Clone, Copy, Debug)]
struct User {
    /// Entries that are not over yet.
    left: u64,
    state: Using,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Using {
    Outside,
    Waiting,
    Inside,
    Leaving,
    Down,
}

impl VisitsPlanned {
    /// Everyone but the memory goes in this many times.
    pub fn new(members: &[NodeId], entries: u64, think: Span, hold: Span) -> Self {
        let left = |id: &NodeId| if *id == MEMORY { 0 } else { entries };
        let users = members.iter().map(|id| User { left: left(id), state: Using::Outside }).collect();
        Self { think, hold, users }
    }

    fn next(&mut self, place: usize, agenda: &mut Agenda<Machine>) {
        let user = &mut self.users[place];
        if user.left > 0 && user.state == Using::Outside {
            let think = self.think.draw(&mut *agenda.rng);
            agenda.ask_after(think, place, Request::Acquire, 0);
        }
    }
}

impl Workload<Machine> for VisitsPlanned {
    fn begin(&mut self, agenda: &mut Agenda<Machine>) {
        for place in 0..self.users.len() {
            self.next(place, agenda);
        }
    }

    fn told(&mut self, process: Process, event: &Event, agenda: &mut Agenda<Machine>) {
        let place = process.index();
        match event {
            Event::Entered => {
                self.users[place].state = Using::Inside;
                let hold = self.hold.draw(&mut *agenda.rng);
                agenda.ask_after(hold, place, Request::Release, 0);
            }
            Event::Exited => {
                let user = &mut self.users[place];
                *user = User { left: user.left.saturating_sub(1), state: Using::Outside };
                self.next(place, agenda);
            }
            Event::Refused(_) => {}
        }
    }

    fn handled(&mut self, process: Process, request: &Request, _agenda: &mut Agenda<Machine>) {
        let user = &mut self.users[process.index()];
        match (request, user.state) {
            // It may have got in, or out, while that was handled.
            (Request::Acquire, Using::Outside) => user.state = Using::Waiting,
            (Request::Release, Using::Inside) => user.state = Using::Leaving,
            _ => {}
        }
    }

    fn quiet(&mut self, _agenda: &mut Agenda<Machine>) {}

    fn crashed(&mut self, process: Process) {
        self.users[process.index()].state = Using::Down;
    }

    fn restarted(&mut self, process: Process, agenda: &mut Agenda<Machine>) {
        self.users[process.index()].state = Using::Outside;
        self.next(process.index(), agenda);
    }

    fn is_done(&self) -> bool {
        self.users.iter().all(|user| user.left == 0 || user.state == Using::Down)
    }

    fn is_waiting(&self) -> bool {
        let any = |state| self.users.iter().any(|user| user.state == state);
        any(Using::Waiting) && !any(Using::Inside)
    }
}
