//! Users and desks of the inner protocol.

use alloc::vec::Vec;
use core::mem::swap;

use conclave_core::{Process, Protocol};

use super::Lens;
use crate::desk::{Client, Deed, Desk, Standing, Wish};
use crate::span::Draw;
use crate::workload::{Agenda, Item, Workload};

/// The users of the inner protocol, in a run of the outer one.
pub struct Used<L: Lens, U> {
    pub(crate) users: U,
    /// What they write on; emptied after every call.
    agenda: Agenda<L::Inner>,
}

/// Stands where the randomness of a run is while nobody draws.
struct Nowhere;

impl Draw for Nowhere {
    fn any(&mut self) -> u64 {
        0
    }
}

impl<L: Lens, U> Used<L, U> {
    /// They have not begun.
    #[must_use]
    pub fn new(users: U) -> Self {
        Self { users, agenda: Agenda::new(Nowhere) }
    }

    /// Lets them write on an agenda of their own, and copies what they wrote.
    fn lend(&mut self, agenda: &mut Agenda<L::Outer>, write: impl FnOnce(&mut U, &mut Agenda<L::Inner>)) {
        self.agenda.now = agenda.now;
        swap(&mut self.agenda.rng, &mut agenda.rng);
        write(&mut self.users, &mut self.agenda);
        swap(&mut self.agenda.rng, &mut agenda.rng);
        agenda.items.extend(self.agenda.items.drain(..).map(|item| match item {
            Item::Ask { time, process, request, ticket } => {
                Item::Ask { time, process, request: L::ask(request), ticket }
            }
            Item::Call { time, process, request } => Item::Call { time, process, request: L::ask(request) },
            Item::Depart(process) => Item::Depart(process),
        }));
    }
}

impl<L: Lens, U: Workload<L::Inner>> Workload<L::Outer> for Used<L, U> {
    fn begin(&mut self, agenda: &mut Agenda<L::Outer>) {
        self.lend(agenda, Workload::begin);
    }

    fn told(
        &mut self,
        process: Process,
        event: &<L::Outer as Protocol>::Event,
        agenda: &mut Agenda<L::Outer>,
    ) {
        if let Some(event) = L::event(event) {
            self.lend(agenda, |users, agenda| users.told(process, event, agenda));
        }
    }

    fn stands(&self, process: Process, request: &<L::Outer as Protocol>::Request, ticket: u64) -> bool {
        L::asked(request).is_none_or(|request| self.users.stands(process, request, ticket))
    }

    fn handled(
        &mut self,
        process: Process,
        request: &<L::Outer as Protocol>::Request,
        agenda: &mut Agenda<L::Outer>,
    ) {
        if let Some(request) = L::asked(request) {
            self.lend(agenda, |users, agenda| users.handled(process, request, agenda));
        }
    }

    fn quiet(&mut self, agenda: &mut Agenda<L::Outer>) {
        self.lend(agenda, Workload::quiet);
    }

    fn crashed(&mut self, process: Process) {
        self.users.crashed(process);
    }

    fn restarted(&mut self, process: Process, agenda: &mut Agenda<L::Outer>) {
        self.lend(agenda, |users, agenda| users.restarted(process, agenda));
    }

    fn joined(&mut self, process: Process, agenda: &mut Agenda<L::Outer>) {
        self.lend(agenda, |users, agenda| users.joined(process, agenda));
    }

    fn leave(&mut self, process: Process, agenda: &mut Agenda<L::Outer>) {
        self.lend(agenda, |users, agenda| users.leave(process, agenda));
    }

    fn is_done(&self) -> bool {
        self.users.is_done()
    }

    fn is_waiting(&self) -> bool {
        self.users.is_waiting()
    }
}

/// A desk of the inner protocol, at a process of the outer one.
pub struct Serving<L, D> {
    desk: D,
    lens: core::marker::PhantomData<fn() -> L>,
}

impl<L: Lens, D: Desk<L::Inner>> Serving<L, D> {
    /// Serves from now on.
    #[must_use]
    pub fn new(desk: D) -> Self {
        Self { desk, lens: core::marker::PhantomData }
    }

    /// Copies what the desk decided.
    fn lend(&mut self, out: &mut Vec<Deed<L::Outer>>, decide: impl FnOnce(&mut D, &mut Vec<Deed<L::Inner>>)) {
        let mut deeds = Vec::new();
        decide(&mut self.desk, &mut deeds);
        out.extend(deeds.into_iter().map(|deed| match deed {
            Deed::Ask(request) => Deed::Ask(L::ask(request)),
            Deed::Tell(client, word) => Deed::Tell(client, word),
        }));
    }
}

impl<L: Lens, D: Desk<L::Inner>> Desk<L::Outer> for Serving<L, D> {
    fn wish(&mut self, client: Client, wish: Wish, out: &mut Vec<Deed<L::Outer>>) {
        self.lend(out, |desk, deeds| desk.wish(client, wish, deeds));
    }

    fn gone(&mut self, client: Client, out: &mut Vec<Deed<L::Outer>>) {
        self.lend(out, |desk, deeds| desk.gone(client, deeds));
    }

    fn told(&mut self, event: <L::Outer as Protocol>::Event, out: &mut Vec<Deed<L::Outer>>) {
        if let Some(event) = L::event(&event) {
            self.lend(out, |desk, deeds| desk.told(event.clone(), deeds));
        }
    }

    fn standing(&self) -> Standing {
        self.desk.standing()
    }
}
