//! Judges, meters, users and desks of an algorithm whose types are erased.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::marker::PhantomData;
use core::mem::swap;

use conclave_core::{
    Disturbance, Incarnation, Input, Moment, NodeId, Observer, Process, Protocol, Shown, Transit,
};

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
    fn clock(&mut self, at: &Moment, process: Process, shown: Shown) {
        self.inner.clock(at, process, shown);
    }

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

    /// Prepares the agenda that the users write on.
    fn lend(&mut self, agenda: &mut Agenda<Erased>) {
        self.agenda.now = agenda.now;
        swap(&mut self.agenda.rng, &mut agenda.rng);
    }

    /// Copies what they wrote.
    fn collect(&mut self, agenda: &mut Agenda<Erased>) {
        swap(&mut self.agenda.rng, &mut agenda.rng);
        for item in self.agenda.items.drain(..) {
            agenda.items.push(match item {
                Item::Ask { time, process, request, ticket } => {
                    Item::Ask { time, process, request: erase::<F>(request), ticket }
                }
                Item::Call { time, process, request } => {
                    Item::Call { time, process, request: erase::<F>(request) }
                }
                Item::Depart(process) => Item::Depart(process),
            });
        }
    }
}

fn erase<F: Family>(request: <F::Protocol as Protocol>::Request) -> ErasedRequest {
    ErasedRequest { value: Arc::new(request), language: language::<F>() }
}

impl<F: Family> Workload<Erased> for Asking<F> {
    fn begin(&mut self, agenda: &mut Agenda<Erased>) {
        self.lend(agenda);
        self.users.begin(&mut self.agenda);
        self.collect(agenda);
    }

    fn told(&mut self, process: Process, event: &ErasedEvent, agenda: &mut Agenda<Erased>) {
        self.lend(agenda);
        self.users.told(process, typed(&*event.value), &mut self.agenda);
        self.collect(agenda);
    }

    fn stands(&self, process: Process, request: &ErasedRequest, ticket: u64) -> bool {
        self.users.stands(process, typed(&*request.value), ticket)
    }

    fn handled(&mut self, process: Process, request: &ErasedRequest, agenda: &mut Agenda<Erased>) {
        self.lend(agenda);
        self.users.handled(process, typed(&*request.value), &mut self.agenda);
        self.collect(agenda);
    }

    fn quiet(&mut self, agenda: &mut Agenda<Erased>) {
        self.lend(agenda);
        self.users.quiet(&mut self.agenda);
        self.collect(agenda);
    }

    fn crashed(&mut self, process: Process) {
        self.users.crashed(process);
    }

    fn restarted(&mut self, process: Process, agenda: &mut Agenda<Erased>) {
        self.lend(agenda);
        self.users.restarted(process, &mut self.agenda);
        self.collect(agenda);
    }

    fn joined(&mut self, process: Process, agenda: &mut Agenda<Erased>) {
        self.lend(agenda);
        self.users.joined(process, &mut self.agenda);
        self.collect(agenda);
    }

    fn leave(&mut self, process: Process, agenda: &mut Agenda<Erased>) {
        self.lend(agenda);
        self.users.leave(process, &mut self.agenda);
        self.collect(agenda);
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
}

/// Copies what a desk decided.
fn pass_on<F: Family>(deeds: Vec<Deed<F::Protocol>>, out: &mut Vec<Deed<Erased>>) {
    for deed in deeds {
        out.push(match deed {
            Deed::Ask(request) => Deed::Ask(erase::<F>(request)),
            Deed::Tell(client, word) => Deed::Tell(client, word),
        });
    }
}

impl<F: Family> Desk<Erased> for Serving<F> {
    fn wish(&mut self, client: Client, wish: Wish, out: &mut Vec<Deed<Erased>>) {
        let mut deeds = Vec::new();
        self.desk.wish(client, wish, &mut deeds);
        pass_on::<F>(deeds, out);
    }

    fn gone(&mut self, client: Client, out: &mut Vec<Deed<Erased>>) {
        let mut deeds = Vec::new();
        self.desk.gone(client, &mut deeds);
        pass_on::<F>(deeds, out);
    }

    fn told(&mut self, event: ErasedEvent, out: &mut Vec<Deed<Erased>>) {
        let event = typed::<<F::Protocol as Protocol>::Event>(&*event.value).clone();
        let mut deeds = Vec::new();
        self.desk.told(event, &mut deeds);
        pass_on::<F>(deeds, out);
    }

    fn standing(&self) -> Standing {
        self.desk.standing()
    }
}
