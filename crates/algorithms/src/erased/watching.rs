//! Judges, meters, users and desks of an algorithm whose types are erased.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use core::marker::PhantomData;
use core::mem::swap;

use conclave_core::{Disturbance, Incarnation, Input, Moment, NodeId, Observer, Process, Protocol, Transit};

use super::{Erased, ErasedEvent, ErasedMessage, ErasedRequest, language, typed};
use crate::desk::{Client, Deed, Desk, Standing, Wish};
use crate::family::{Family, Meter};
use crate::measure::{Measured, Ran};
use crate::span::Draw;
use crate::workload::{Agenda, Item, Workload};
use crate::{Ending, Judge, Judgement, Violation};

/// Judges a run of any algorithm.
pub trait ErasedJudge: Judge<Erased> + Any + Send {
    /// Another one that has seen the same.
    fn copy(&self) -> Box<dyn ErasedJudge>;
}

impl Clone for Box<dyn ErasedJudge> {
    fn clone(&self) -> Self {
        (**self).copy()
    }
}

/// Measures a run of any algorithm.
pub trait ErasedMeter: Observer<Erased> {
    /// What came out. The judge is that of the same run.
    fn measured(&self, judge: &dyn ErasedJudge, ran: &Ran<'_>) -> Measured;
}

/// An observer of a typed run that watches an erased one.
pub(super) struct Watching<F, O> {
    inner: O,
    family: PhantomData<fn() -> F>,
}

impl<F, O> Watching<F, O> {
    pub fn new(inner: O) -> Self {
        Self { inner, family: PhantomData }
    }
}

impl<F: Family, O: Observer<F::Protocol>> Observer<Erased> for Watching<F, O> {
    fn input(&mut self, at: &Moment, process: Process, input: &Input<Erased>) {
        self.inner.input(at, process, &super::lower(input.clone()));
    }

    fn send(&mut self, at: &Moment, transit: &Transit, message: &ErasedMessage) {
        self.inner.send(at, transit, typed(&*message.value));
    }

    fn deliver(&mut self, at: &Moment, transit: &Transit, message: &ErasedMessage) {
        self.inner.deliver(at, transit, typed(&*message.value));
    }

    fn drop(&mut self, at: &Moment, transit: &Transit, message: &ErasedMessage) {
        self.inner.drop(at, transit, typed(&*message.value));
    }

    fn duplicate(&mut self, at: &Moment, transit: &Transit, copy: &Transit) {
        self.inner.duplicate(at, transit, copy);
    }

    fn emit(&mut self, at: &Moment, process: Process, event: &ErasedEvent) {
        self.inner.emit(at, process, typed(&*event.value));
    }

    fn reject(&mut self, at: &Moment, process: Process, from: NodeId, why: &'static str) {
        self.inner.reject(at, process, from, why);
    }

    fn invariant(&mut self, at: &Moment, process: Process, why: &str) {
        self.inner.invariant(at, process, why);
    }

    fn handled(&mut self, at: &Moment, process: Process, state: &Erased) {
        self.inner.handled(at, process, typed(&*state.value));
    }

    fn interrupt(&mut self, at: &Moment, process: Process, after: u32) {
        self.inner.interrupt(at, process, after);
    }

    fn crash(&mut self, at: &Moment, process: Process) {
        self.inner.crash(at, process);
    }

    fn restart(&mut self, at: &Moment, process: Process, life: Incarnation, durable: bool) {
        self.inner.restart(at, process, life, durable);
    }

    fn disturb(&mut self, at: &Moment, what: &Disturbance) {
        self.inner.disturb(at, what);
    }
}

impl<F: Family> Judge<Erased> for Watching<F, F::Judge> {
    fn violation(&self) -> Option<&Violation> {
        self.inner.violation()
    }

    fn end(&mut self, step: u64, ending: Ending) {
        self.inner.end(step, ending);
    }

    fn judgements(&self) -> Vec<Judgement> {
        self.inner.judgements()
    }
}

impl<F: Family> ErasedJudge for Watching<F, F::Judge> {
    fn copy(&self) -> Box<dyn ErasedJudge> {
        Box::new(Self::new(self.inner.clone()))
    }
}

impl<F: Family> ErasedMeter for Watching<F, F::Meter> {
    fn measured(&self, judge: &dyn ErasedJudge, ran: &Ran<'_>) -> Measured {
        self.inner.measured(&typed::<Watching<F, F::Judge>>(judge).inner, ran)
    }
}

/// The users of a typed run, in an erased one.
pub(super) struct Asking<F: Family> {
    users: F::Users,
    /// What they write on; emptied after every call.
    agenda: Agenda<F::Protocol>,
}

/// Stands where the randomness of a run is while nobody draws.
struct Nowhere;

impl Draw for Nowhere {
    fn any(&mut self) -> u64 {
        0
    }
}

impl<F: Family> Asking<F> {
    pub fn new(users: F::Users) -> Self {
        Self { users, agenda: Agenda::new(Nowhere) }
    }

    /// Lets the users write on an agenda of their own, and copies what they wrote.
    fn write(
        &mut self,
        agenda: &mut Agenda<Erased>,
        call: impl FnOnce(&mut F::Users, &mut Agenda<F::Protocol>),
    ) {
        self.agenda.now = agenda.now;
        swap(&mut self.agenda.rng, &mut agenda.rng);
        call(&mut self.users, &mut self.agenda);
        swap(&mut self.agenda.rng, &mut agenda.rng);
        agenda.items.extend(self.agenda.items.drain(..).map(|item| match item {
            Item::Ask { time, process, request, ticket } => {
                Item::Ask { time, process, request: erase::<F>(request), ticket }
            }
            Item::Depart(process) => Item::Depart(process),
        }));
    }
}

fn erase<F: Family>(request: <F::Protocol as Protocol>::Request) -> ErasedRequest {
    ErasedRequest { value: alloc::sync::Arc::new(request), language: language::<F>() }
}

impl<F: Family> Workload<Erased> for Asking<F> {
    fn begin(&mut self, agenda: &mut Agenda<Erased>) {
        self.write(agenda, |users, agenda| users.begin(agenda));
    }

    fn told(&mut self, process: Process, event: &ErasedEvent, agenda: &mut Agenda<Erased>) {
        self.write(agenda, |users, agenda| users.told(process, typed(&*event.value), agenda));
    }

    fn stands(&self, process: Process, request: &ErasedRequest, ticket: u64) -> bool {
        self.users.stands(process, typed(&*request.value), ticket)
    }

    fn handled(&mut self, process: Process, request: &ErasedRequest, agenda: &mut Agenda<Erased>) {
        self.write(agenda, |users, agenda| users.handled(process, typed(&*request.value), agenda));
    }

    fn quiet(&mut self, agenda: &mut Agenda<Erased>) {
        self.write(agenda, |users, agenda| users.quiet(agenda));
    }

    fn crashed(&mut self, process: Process) {
        self.users.crashed(process);
    }

    fn restarted(&mut self, process: Process, agenda: &mut Agenda<Erased>) {
        self.write(agenda, |users, agenda| users.restarted(process, agenda));
    }

    fn joined(&mut self, process: Process, agenda: &mut Agenda<Erased>) {
        self.write(agenda, |users, agenda| users.joined(process, agenda));
    }

    fn leave(&mut self, process: Process, agenda: &mut Agenda<Erased>) {
        self.write(agenda, |users, agenda| users.leave(process, agenda));
    }

    fn is_done(&self) -> bool {
        self.users.is_done()
    }

    fn is_waiting(&self) -> bool {
        self.users.is_waiting()
    }
}

/// A typed desk, for a live process of an erased algorithm.
pub(super) struct Serving<F: Family> {
    desk: F::Desk,
}

impl<F: Family> Serving<F> {
    pub fn new(desk: F::Desk) -> Self {
        Self { desk }
    }

    /// Lets the desk decide, and copies what it decided.
    fn decide(
        &mut self,
        out: &mut Vec<Deed<Erased>>,
        call: impl FnOnce(&mut F::Desk, &mut Vec<Deed<F::Protocol>>),
    ) {
        let mut deeds = Vec::new();
        call(&mut self.desk, &mut deeds);
        out.extend(deeds.into_iter().map(|deed| match deed {
            Deed::Ask(request) => Deed::Ask(erase::<F>(request)),
            Deed::Tell(client, word) => Deed::Tell(client, word),
        }));
    }
}

impl<F: Family> Desk<Erased> for Serving<F> {
    fn wish(&mut self, client: Client, wish: Wish, out: &mut Vec<Deed<Erased>>) {
        self.decide(out, |desk, out| desk.wish(client, wish, out));
    }

    fn gone(&mut self, client: Client, out: &mut Vec<Deed<Erased>>) {
        self.decide(out, |desk, out| desk.gone(client, out));
    }

    fn told(&mut self, event: ErasedEvent, out: &mut Vec<Deed<Erased>>) {
        let event = typed::<<F::Protocol as Protocol>::Event>(&*event.value).clone();
        self.decide(out, |desk, out| desk.told(event, out));
    }

    fn standing(&self) -> Standing {
        self.desk.standing()
    }
}
