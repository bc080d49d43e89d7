//! Applications and ledgers of an algorithm whose types are erased: what a search needs beyond a run.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::{Debug, Formatter};
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

use conclave_core::{Counter, Incarnation, Input, NodeId, Shown};

use super::{Erased, ErasedEvent, ErasedMessage, ErasedRequest, language, lower, typed};
use crate::application::{App, Ask, AskBudget};
use crate::dynamic::{Value, transparent};
use crate::family::{Family, RequestOf};
use crate::{Breach, Ledger};

/// A value of a family: it compares and prints like the value, whatever the family.
pub(super) struct OfFamily<F, T> {
    value: T,
    family: PhantomData<fn() -> F>,
}

impl<F, T: Clone> Clone for OfFamily<F, T> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), family: PhantomData }
    }
}

impl<F, T: PartialEq> PartialEq for OfFamily<F, T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<F, T: Eq> Eq for OfFamily<F, T> {}

impl<F, T: Hash> Hash for OfFamily<F, T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

impl<F, T: Debug> Debug for OfFamily<F, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        self.value.fmt(f)
    }
}

/// The application of a process of any algorithm, in a search.
pub struct ErasedApp {
    value: Box<dyn Applying>,
}

/// What a checker judges any algorithm by.
pub struct ErasedLedger {
    value: Box<dyn Judging>,
}

trait Applying: Value {
    fn copy(&self) -> Box<dyn Applying>;
    fn asks(&self) -> Vec<Ask<ErasedRequest>>;
    fn asked(&mut self, request: &ErasedRequest);
    fn refill(&mut self, budget: AskBudget);
    fn hear(&mut self, event: &ErasedEvent);
    fn crashed(&mut self);
    fn phase(&self) -> u8;
    fn is_waiting(&self) -> bool;
    fn is_inside(&self) -> bool;
}

impl<F: Family> Applying for OfFamily<F, F::App> {
    fn copy(&self) -> Box<dyn Applying> {
        Box::new(self.clone())
    }

    fn asks(&self) -> Vec<Ask<ErasedRequest>> {
        let erase = |Ask { request, is_fair, is_cancel }: Ask<RequestOf<F>>| Ask {
            request: ErasedRequest { value: Arc::new(request), language: language::<F>() },
            is_fair,
            is_cancel,
        };
        self.value.asks().into_iter().map(erase).collect()
    }

    fn asked(&mut self, request: &ErasedRequest) {
        self.value.asked(typed(&*request.value));
    }

    fn refill(&mut self, budget: AskBudget) {
        self.value.refill(budget);
    }

    fn hear(&mut self, event: &ErasedEvent) {
        self.value.hear(typed(&*event.value));
    }

    fn crashed(&mut self) {
        self.value.crashed();
    }

    fn phase(&self) -> u8 {
        self.value.phase()
    }

    fn is_waiting(&self) -> bool {
        self.value.is_waiting()
    }

    fn is_inside(&self) -> bool {
        self.value.is_inside()
    }
}

impl ErasedApp {
    pub(super) fn new<F: Family>(budget: AskBudget) -> Self {
        Self { value: Box::new(OfFamily::<F, F::App> { value: F::App::new(budget), family: PhantomData }) }
    }

    /// What it may ask now.
    #[must_use]
    pub fn asks(&self) -> Vec<Ask<ErasedRequest>> {
        self.value.asks()
    }

    /// It has asked.
    pub fn asked(&mut self, request: &ErasedRequest) {
        self.value.asked(request);
    }

    /// From now on it has this budget.
    pub fn refill(&mut self, budget: AskBudget) {
        self.value.refill(budget);
    }

    /// It was told something.
    pub fn hear(&mut self, event: &ErasedEvent) {
        self.value.hear(event);
    }

    /// Its process crashed.
    pub fn crashed(&mut self) {
        self.value.crashed();
    }

    /// What it is doing, roughly.
    #[must_use]
    pub fn phase(&self) -> u8 {
        self.value.phase()
    }

    /// Whether it waits for its turn.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.value.is_waiting()
    }

    /// Whether it has what only one may have.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.value.is_inside()
    }
}

/// The methods of [`Ledger`] without its types.
trait Judging: Value {
    fn copy(&self) -> Box<dyn Judging>;
    fn process(&self, place: usize) -> NodeId;
    fn clock(&mut self, place: usize, shown: Shown);
    fn promises(&self, property: &str) -> bool;
    fn input(&mut self, place: usize, input: &Input<Erased>);
    fn announce(&mut self, place: usize, from: NodeId, message: &ErasedMessage);
    fn sent(&mut self, from: usize, to: usize, message: &ErasedMessage);
    fn known(&mut self, place: usize);
    fn follows(&mut self, place: usize, others: u64);
    fn emit(&mut self, place: usize, event: &ErasedEvent, breaches: &mut Vec<Breach>);
    fn handled(&mut self, place: usize, state: &Erased, breaches: &mut Vec<Breach>);
    fn reject(&mut self, place: usize, from: NodeId, why: &'static str, breaches: &mut Vec<Breach>);
    fn invariant(&mut self, place: usize, why: &str, breaches: &mut Vec<Breach>);
    fn crash(&mut self, place: usize);
    fn restart(&mut self, place: usize, life: Incarnation);
    fn forget(&mut self, place: usize);
    fn disturb(&mut self);
    fn unheard(&mut self);
    fn quiet(&self, breaches: &mut Vec<Breach>);
    fn excuses(&self) -> bool;
    fn overtaking(&self) -> u64;
    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>));
}

/// A ledger of a family.
pub(super) type Keeping<F> = OfFamily<F, <F as Family>::Ledger>;

impl<F: Family> Keeping<F> {
    pub fn boxed(ledger: F::Ledger) -> ErasedLedger {
        ErasedLedger { value: Box::new(Self { value: ledger, family: PhantomData }) }
    }
}

impl<F: Family> Judging for Keeping<F> {
    fn copy(&self) -> Box<dyn Judging> {
        Box::new(self.clone())
    }

    fn process(&self, place: usize) -> NodeId {
        self.value.process(place)
    }

    fn clock(&mut self, place: usize, shown: Shown) {
        self.value.clock(place, shown);
    }

    fn promises(&self, property: &str) -> bool {
        self.value.promises(property)
    }

    fn input(&mut self, place: usize, input: &Input<Erased>) {
        self.value.input(place, &lower(input.clone()));
    }

    fn announce(&mut self, place: usize, from: NodeId, message: &ErasedMessage) {
        self.value.announce(place, from, typed(&*message.value));
    }

    fn sent(&mut self, from: usize, to: usize, message: &ErasedMessage) {
        self.value.sent(from, to, typed(&*message.value));
    }

    fn known(&mut self, place: usize) {
        self.value.known(place);
    }

    fn follows(&mut self, place: usize, others: u64) {
        self.value.follows(place, others);
    }

    fn emit(&mut self, place: usize, event: &ErasedEvent, breaches: &mut Vec<Breach>) {
        self.value.emit(place, typed(&*event.value), breaches);
    }

    fn handled(&mut self, place: usize, state: &Erased, breaches: &mut Vec<Breach>) {
        self.value.handled(place, typed(&*state.value), breaches);
    }

    fn reject(&mut self, place: usize, from: NodeId, why: &'static str, breaches: &mut Vec<Breach>) {
        self.value.reject(place, from, why, breaches);
    }

    fn invariant(&mut self, place: usize, why: &str, breaches: &mut Vec<Breach>) {
        self.value.invariant(place, why, breaches);
    }

    fn crash(&mut self, place: usize) {
        self.value.crash(place);
    }

    fn restart(&mut self, place: usize, life: Incarnation) {
        self.value.restart(place, life);
    }

    fn forget(&mut self, place: usize) {
        self.value.forget(place);
    }

    fn disturb(&mut self) {
        self.value.disturb();
    }

    fn unheard(&mut self) {
        self.value.unheard();
    }

    fn quiet(&self, breaches: &mut Vec<Breach>) {
        self.value.quiet(breaches);
    }

    fn excuses(&self) -> bool {
        self.value.excuses()
    }

    fn overtaking(&self) -> u64 {
        self.value.overtaking()
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        self.value.visit_counters(visit);
    }
}

impl Ledger<Erased> for ErasedLedger {
    fn process(&self, place: usize) -> NodeId {
        self.value.process(place)
    }

    fn clock(&mut self, place: usize, shown: Shown) {
        self.value.clock(place, shown);
    }

    fn promises(&self, property: &str) -> bool {
        self.value.promises(property)
    }

    fn input(&mut self, place: usize, input: &Input<Erased>) {
        self.value.input(place, input);
    }

    fn announce(&mut self, place: usize, from: NodeId, message: &ErasedMessage) {
        self.value.announce(place, from, message);
    }

    fn sent(&mut self, from: usize, to: usize, message: &ErasedMessage) {
        self.value.sent(from, to, message);
    }

    fn known(&mut self, place: usize) {
        self.value.known(place);
    }

    fn follows(&mut self, place: usize, others: u64) {
        self.value.follows(place, others);
    }

    fn emit(&mut self, place: usize, event: &ErasedEvent, breaches: &mut Vec<Breach>) {
        self.value.emit(place, event, breaches);
    }

    fn handled(&mut self, place: usize, state: &Erased, breaches: &mut Vec<Breach>) {
        self.value.handled(place, state, breaches);
    }

    fn reject(&mut self, place: usize, from: NodeId, why: &'static str, breaches: &mut Vec<Breach>) {
        self.value.reject(place, from, why, breaches);
    }

    fn invariant(&mut self, place: usize, why: &str, breaches: &mut Vec<Breach>) {
        self.value.invariant(place, why, breaches);
    }

    fn crash(&mut self, place: usize) {
        self.value.crash(place);
    }

    fn restart(&mut self, place: usize, life: Incarnation) {
        self.value.restart(place, life);
    }

    fn forget(&mut self, place: usize) {
        self.value.forget(place);
    }

    fn disturb(&mut self) {
        self.value.disturb();
    }

    fn unheard(&mut self) {
        self.value.unheard();
    }

    fn quiet(&self, breaches: &mut Vec<Breach>) {
        self.value.quiet(breaches);
    }

    fn excuses(&self) -> bool {
        self.value.excuses()
    }

    fn overtaking(&self) -> u64 {
        self.value.overtaking()
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        self.value.visit_counters(visit);
    }
}

impl Clone for ErasedApp {
    fn clone(&self) -> Self {
        Self { value: self.value.copy() }
    }
}

impl Clone for ErasedLedger {
    fn clone(&self) -> Self {
        Self { value: self.value.copy() }
    }
}

transparent!(ErasedApp, ErasedLedger);
