//! Observers of the inner protocol.

use alloc::collections::BTreeSet;
use core::marker::PhantomData;

use conclave_core::{
    Disturbance, Incarnation, Input, Moment, NodeId, Observer, Process, Protocol, Shown, Transit,
};

use super::Lens;

/// An observer of the inner protocol, which sees of a run of the outer one what belongs to it.
pub struct Seen<L, O> {
    pub(crate) inner: O,
    /// Whether the input that is being handled is one of the inner protocol.
    is_inner: bool,
    /// The messages in flight that are not.
    foreign: BTreeSet<u64>,
    lens: PhantomData<fn() -> L>,
}

impl<L, O> Seen<L, O> {
    /// Has seen nothing yet.
    #[must_use]
    pub fn new(inner: O) -> Self {
        Self { inner, is_inner: false, foreign: BTreeSet::new(), lens: PhantomData }
    }
}

impl<L, O: Clone> Clone for Seen<L, O> {
    fn clone(&self) -> Self {
        let Self { inner, is_inner, foreign, lens } = self;
        Self { inner: inner.clone(), is_inner: *is_inner, foreign: foreign.clone(), lens: *lens }
    }
}

impl<L: Lens, O: Observer<L::Inner>> Observer<L::Outer> for Seen<L, O> {
    fn clock(&mut self, at: &Moment, process: Process, shown: Shown) {
        self.inner.clock(at, process, shown);
    }

    fn input(&mut self, at: &Moment, process: Process, input: &Input<L::Outer>) {
        let input = L::input(input);
        self.is_inner = input.is_some();
        if let Some(input) = input {
            self.inner.input(at, process, &input);
        }
    }

    fn send(&mut self, at: &Moment, transit: &Transit, message: &<L::Outer as Protocol>::Message) {
        match L::message(message) {
            Some(message) => self.inner.send(at, transit, message),
            None => {
                self.foreign.insert(transit.serial);
            }
        }
    }

    fn deliver(&mut self, at: &Moment, transit: &Transit, message: &<L::Outer as Protocol>::Message) {
        match L::message(message) {
            Some(message) => self.inner.deliver(at, transit, message),
            None => {
                self.foreign.remove(&transit.serial);
            }
        }
    }

    fn drop(&mut self, at: &Moment, transit: &Transit, message: &<L::Outer as Protocol>::Message) {
        match L::message(message) {
            Some(message) => self.inner.drop(at, transit, message),
            None => {
                self.foreign.remove(&transit.serial);
            }
        }
    }

    fn duplicate(&mut self, at: &Moment, transit: &Transit, copy: &Transit) {
        if self.foreign.contains(&transit.serial) {
            self.foreign.insert(copy.serial);
        } else {
            self.inner.duplicate(at, transit, copy);
        }
    }

    fn emit(&mut self, at: &Moment, process: Process, event: &<L::Outer as Protocol>::Event) {
        if let Some(event) = L::event(event) {
            self.inner.emit(at, process, event);
        }
    }

    fn reject(&mut self, at: &Moment, process: Process, from: NodeId, why: &'static str) {
        self.inner.reject(at, process, from, why);
    }

    fn invariant(&mut self, at: &Moment, process: Process, why: &str) {
        self.inner.invariant(at, process, why);
    }

    fn handled(&mut self, at: &Moment, process: Process, state: &L::Outer) {
        if core::mem::take(&mut self.is_inner) {
            self.inner.handled(at, process, L::state(state));
        }
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
