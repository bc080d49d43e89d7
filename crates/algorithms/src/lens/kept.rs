//! Ledgers of the inner protocol.

use alloc::vec::Vec;
use core::fmt::{Debug, Formatter};
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::ops::DerefMut;

use conclave_core::{Counter, Incarnation, Input, NodeId, Protocol, Shown};

use super::Lens;
use crate::judge::{Breach, Ledger, Sight};

/// A ledger of the inner protocol, behind a pointer, which notes of a run of the outer one what belongs to it.
pub struct Kept<L, K> {
    inner: K,
    /// Whether the input that is being handled is one of the inner protocol.
    is_inner: bool,
    lens: PhantomData<fn() -> L>,
}

impl<L, K> Kept<L, K> {
    /// Goes on with this ledger.
    #[must_use]
    pub fn new(inner: K) -> Self {
        Self { inner, is_inner: false, lens: PhantomData }
    }
}

impl<L, K: Clone> Clone for Kept<L, K> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), ..*self }
    }
}

impl<L, K: PartialEq> PartialEq for Kept<L, K> {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner && self.is_inner == other.is_inner
    }
}

impl<L, K: Eq> Eq for Kept<L, K> {}

impl<L, K: Hash> Hash for Kept<L, K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
        self.is_inner.hash(state);
    }
}

/// Like the ledger inside.
impl<L, K: Debug> Debug for Kept<L, K> {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        self.inner.fmt(f)
    }
}

impl<L: Lens, K: DerefMut<Target: Ledger<L::Inner>>> Ledger<L::Outer> for Kept<L, K> {
    fn process(&self, place: usize) -> NodeId {
        self.inner.process(place)
    }

    fn clock(&mut self, place: usize, shown: Shown) {
        self.inner.clock(place, shown);
    }

    fn promises(&self, property: &str) -> bool {
        self.inner.promises(property)
    }

    fn leaves_out(&self, property: &str) -> bool {
        self.inner.leaves_out(property)
    }

    fn input(&mut self, place: usize, input: &Input<L::Outer>) {
        let input = L::input(input);
        self.is_inner = input.is_some();
        if let Some(input) = input {
            self.inner.input(place, &input);
        }
    }

    fn announce(&mut self, place: usize, from: NodeId, message: &<L::Outer as Protocol>::Message) {
        if let Some(message) = L::message(message) {
            self.inner.announce(place, from, message);
        }
    }

    fn sent(&mut self, from: usize, to: usize, message: &<L::Outer as Protocol>::Message) {
        if let Some(message) = L::message(message) {
            self.inner.sent(from, to, message);
        }
    }

    fn known(&mut self, place: usize) {
        self.inner.known(place);
    }

    fn follows(&mut self, place: usize, others: u64) {
        self.inner.follows(place, others);
    }

    fn emit(&mut self, place: usize, event: &<L::Outer as Protocol>::Event, breaches: &mut Vec<Breach>) {
        if let Some(event) = L::event(event) {
            self.inner.emit(place, event, breaches);
        }
    }

    fn handled(&mut self, place: usize, state: &L::Outer, breaches: &mut Vec<Breach>) {
        if core::mem::take(&mut self.is_inner) {
            self.inner.handled(place, L::state(state), breaches);
        }
    }

    fn reject(&mut self, place: usize, from: NodeId, why: &'static str, breaches: &mut Vec<Breach>) {
        self.inner.reject(place, from, why, breaches);
    }

    fn invariant(&mut self, place: usize, why: &str, breaches: &mut Vec<Breach>) {
        self.inner.invariant(place, why, breaches);
    }

    fn crash(&mut self, place: usize) {
        self.inner.crash(place);
    }

    fn restart(&mut self, place: usize, life: Incarnation) {
        self.inner.restart(place, life);
    }

    fn forget(&mut self, place: usize) {
        self.inner.forget(place);
    }

    fn disturb(&mut self) {
        self.inner.disturb();
    }

    fn unheard(&mut self) {
        self.inner.unheard();
    }

    fn quiet(&self, breaches: &mut Vec<Breach>) {
        self.inner.quiet(breaches);
    }

    fn excuses(&self) -> bool {
        self.inner.excuses()
    }

    fn overtaking(&self) -> u64 {
        self.inner.overtaking()
    }

    fn sights(&self) -> &'static [Sight] {
        self.inner.sights()
    }

    fn sees(&self) -> u16 {
        self.inner.sees()
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        self.inner.visit_counters(visit);
    }
}
