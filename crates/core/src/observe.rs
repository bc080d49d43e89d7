//! What an observer of a run is told.
//!
//! Properties, metrics, recorders and digests are all observers. They see what the driver sees: inputs, effects,
//! messages, and the views (phase, leader) of the process that has just moved; never the inside of an algorithm.

use crate::{Deviation, Incarnation, Input, NodeId, Protocol, Shown};

/// A process as a driver knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Its name.
    pub id: NodeId,
    /// Its place in [`Members`](crate::Members).
    pub place: u32,
}

impl Process {
    /// The process of this name at this place.
    #[inline]
    #[must_use]
    pub fn new(id: NodeId, index: usize) -> Self {
        Self { id, place: index as u32 }
    }

    /// Its place in [`Members`](crate::Members), for tables.
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        self.place as usize
    }
}

/// When and why something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Time in microseconds since the run began.
    pub time: u64,
    /// How many inputs had been handled before.
    pub step: u64,
    /// The chain of messages that led here.
    pub chain: Chain,
}

/// A chain of messages, each sent while the one before was handled.
///
/// The root is an input that no message caused: a request, a timer, a suspicion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// The step at which the chain began.
    pub root: u64,
    /// How many messages are behind us.
    pub hops: u32,
}

/// A message in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transit {
    /// Who sent it.
    pub from: Process,
    /// Who is to receive it.
    pub to: Process,
    /// The number of this copy of it; never used again.
    pub serial: u64,
    /// A small number that no other message on the way has; free again afterwards. For tables.
    pub slot: u32,
}

/// A disturbance of the world in which the processes live, other than a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// A process does nothing until it is resumed; what it is sent waits.
    Pause(Process),
    /// It goes on.
    Resume(Process),
    /// A process that was not there from the beginning comes up; it is yet to handle [`Input::Start`].
    Join(Process),
    /// Messages between some processes are lost or held, as the text says: `"1,2/3"`.
    Cut(alloc::string::String),
    /// A cut is over.
    Heal(alloc::string::String),
    /// The clock of a process was set, and deviates so from now on.
    Clock(Process, Deviation),
}

/// Watches a run. Every method may be left out.
pub trait Observer<P: Protocol> {
    /// What the clock of a process shows in its next step; [`input`](Self::input) follows. Only of processes that read
    /// their clocks.
    fn clock(&mut self, _at: &Moment, _process: Process, _shown: Shown) {}

    /// A process is about to handle an input.
    fn input(&mut self, _at: &Moment, _process: Process, _input: &Input<P>) {}

    /// A process sent a message.
    fn send(&mut self, _at: &Moment, _transit: &Transit, _message: &P::Message) {}

    /// A message is about to be handed to its receiver; [`input`](Self::input) follows.
    fn deliver(&mut self, _at: &Moment, _transit: &Transit, _message: &P::Message) {}

    /// A message is lost: by the network, or because its receiver is down.
    fn drop(&mut self, _at: &Moment, _transit: &Transit, _message: &P::Message) {}

    /// The network made a copy of a message on the way; both are delivered or dropped on their own.
    fn duplicate(&mut self, _at: &Moment, _transit: &Transit, _copy: &Transit) {}

    /// A process told its application something.
    fn emit(&mut self, _at: &Moment, _process: Process, _event: &P::Event) {}

    /// A process accused a peer of breaking the protocol.
    fn reject(&mut self, _at: &Moment, _process: Process, _from: NodeId, _why: &'static str) {}

    /// A process is in a state in which it must never be; see [`Protocol::assert_invariants`]. Only where that is
    /// looked at.
    fn invariant(&mut self, _at: &Moment, _process: Process, _why: &str) {}

    /// A process has handled its input, and all its effects have been seen. Of its state, only the views that its
    /// family declares are anyone's business.
    fn handled(&mut self, _at: &Moment, _process: Process, _state: &P) {}

    /// A process crashed inside the step that it has just taken: of the effects of that step, timers aside, only this
    /// many were carried out. [`crash`](Self::crash) follows.
    fn interrupt(&mut self, _at: &Moment, _process: Process, _after: u32) {}

    /// A process crashed.
    fn crash(&mut self, _at: &Moment, _process: Process) {}

    /// A process is up again; it is yet to handle [`Input::Start`].
    fn restart(&mut self, _at: &Moment, _process: Process, _life: Incarnation, _durable: bool) {}

    /// The world changed around the processes.
    fn disturb(&mut self, _at: &Moment, _what: &Disturbance) {}
}

/// Nobody watches.
impl<P: Protocol> Observer<P> for () {}

impl<P: Protocol, A: Observer<P>, B: Observer<P>> Observer<P> for (A, B) {
    #[inline(always)]
    fn clock(&mut self, at: &Moment, process: Process, shown: Shown) {
        self.0.clock(at, process, shown);
        self.1.clock(at, process, shown);
    }
    #[inline(always)]
    fn input(&mut self, at: &Moment, process: Process, input: &Input<P>) {
        self.0.input(at, process, input);
        self.1.input(at, process, input);
    }
    #[inline(always)]
    fn send(&mut self, at: &Moment, transit: &Transit, message: &P::Message) {
        self.0.send(at, transit, message);
        self.1.send(at, transit, message);
    }
    #[inline(always)]
    fn deliver(&mut self, at: &Moment, transit: &Transit, message: &P::Message) {
        self.0.deliver(at, transit, message);
        self.1.deliver(at, transit, message);
    }
    fn drop(&mut self, at: &Moment, transit: &Transit, message: &P::Message) {
        self.0.drop(at, transit, message);
        self.1.drop(at, transit, message);
    }
    fn duplicate(&mut self, at: &Moment, transit: &Transit, copy: &Transit) {
        self.0.duplicate(at, transit, copy);
        self.1.duplicate(at, transit, copy);
    }
    #[inline(always)]
    fn emit(&mut self, at: &Moment, process: Process, event: &P::Event) {
        self.0.emit(at, process, event);
        self.1.emit(at, process, event);
    }
    fn reject(&mut self, at: &Moment, process: Process, from: NodeId, why: &'static str) {
        self.0.reject(at, process, from, why);
        self.1.reject(at, process, from, why);
    }
    fn invariant(&mut self, at: &Moment, process: Process, why: &str) {
        self.0.invariant(at, process, why);
        self.1.invariant(at, process, why);
    }
    #[inline(always)]
    fn handled(&mut self, at: &Moment, process: Process, state: &P) {
        self.0.handled(at, process, state);
        self.1.handled(at, process, state);
    }
    fn interrupt(&mut self, at: &Moment, process: Process, after: u32) {
        self.0.interrupt(at, process, after);
        self.1.interrupt(at, process, after);
    }
    fn crash(&mut self, at: &Moment, process: Process) {
        self.0.crash(at, process);
        self.1.crash(at, process);
    }
    fn restart(&mut self, at: &Moment, process: Process, life: Incarnation, durable: bool) {
        self.0.restart(at, process, life, durable);
        self.1.restart(at, process, life, durable);
    }
    fn disturb(&mut self, at: &Moment, what: &Disturbance) {
        self.0.disturb(at, what);
        self.1.disturb(at, what);
    }
}

/// Somebody watches, or nobody: told at run time, so that the code of a run is there once and not twice.
impl<P: Protocol, O: Observer<P>> Observer<P> for Option<O> {
    #[inline(always)]
    fn clock(&mut self, at: &Moment, process: Process, shown: Shown) {
        if let Some(observer) = self {
            observer.clock(at, process, shown);
        }
    }
    #[inline(always)]
    fn input(&mut self, at: &Moment, process: Process, input: &Input<P>) {
        if let Some(observer) = self {
            observer.input(at, process, input);
        }
    }
    #[inline(always)]
    fn send(&mut self, at: &Moment, transit: &Transit, message: &P::Message) {
        if let Some(observer) = self {
            observer.send(at, transit, message);
        }
    }
    #[inline(always)]
    fn deliver(&mut self, at: &Moment, transit: &Transit, message: &P::Message) {
        if let Some(observer) = self {
            observer.deliver(at, transit, message);
        }
    }
    fn drop(&mut self, at: &Moment, transit: &Transit, message: &P::Message) {
        if let Some(observer) = self {
            observer.drop(at, transit, message);
        }
    }
    fn duplicate(&mut self, at: &Moment, transit: &Transit, copy: &Transit) {
        if let Some(observer) = self {
            observer.duplicate(at, transit, copy);
        }
    }
    #[inline(always)]
    fn emit(&mut self, at: &Moment, process: Process, event: &P::Event) {
        if let Some(observer) = self {
            observer.emit(at, process, event);
        }
    }
    fn reject(&mut self, at: &Moment, process: Process, from: NodeId, why: &'static str) {
        if let Some(observer) = self {
            observer.reject(at, process, from, why);
        }
    }
    fn invariant(&mut self, at: &Moment, process: Process, why: &str) {
        if let Some(observer) = self {
            observer.invariant(at, process, why);
        }
    }
    #[inline(always)]
    fn handled(&mut self, at: &Moment, process: Process, state: &P) {
        if let Some(observer) = self {
            observer.handled(at, process, state);
        }
    }
    fn interrupt(&mut self, at: &Moment, process: Process, after: u32) {
        if let Some(observer) = self {
            observer.interrupt(at, process, after);
        }
    }
    fn crash(&mut self, at: &Moment, process: Process) {
        if let Some(observer) = self {
            observer.crash(at, process);
        }
    }
    fn restart(&mut self, at: &Moment, process: Process, life: Incarnation, durable: bool) {
        if let Some(observer) = self {
            observer.restart(at, process, life, durable);
        }
    }
    fn disturb(&mut self, at: &Moment, what: &Disturbance) {
        if let Some(observer) = self {
            observer.disturb(at, what);
        }
    }
}

/// Somebody watches whose type is erased.
impl<P: Protocol, O: Observer<P> + ?Sized> Observer<P> for alloc::boxed::Box<O> {
    fn clock(&mut self, at: &Moment, process: Process, shown: Shown) {
        (**self).clock(at, process, shown);
    }
    fn input(&mut self, at: &Moment, process: Process, input: &Input<P>) {
        (**self).input(at, process, input);
    }
    fn send(&mut self, at: &Moment, transit: &Transit, message: &P::Message) {
        (**self).send(at, transit, message);
    }
    fn deliver(&mut self, at: &Moment, transit: &Transit, message: &P::Message) {
        (**self).deliver(at, transit, message);
    }
    fn drop(&mut self, at: &Moment, transit: &Transit, message: &P::Message) {
        (**self).drop(at, transit, message);
    }
    fn duplicate(&mut self, at: &Moment, transit: &Transit, copy: &Transit) {
        (**self).duplicate(at, transit, copy);
    }
    fn emit(&mut self, at: &Moment, process: Process, event: &P::Event) {
        (**self).emit(at, process, event);
    }
    fn reject(&mut self, at: &Moment, process: Process, from: NodeId, why: &'static str) {
        (**self).reject(at, process, from, why);
    }
    fn invariant(&mut self, at: &Moment, process: Process, why: &str) {
        (**self).invariant(at, process, why);
    }
    fn handled(&mut self, at: &Moment, process: Process, state: &P) {
        (**self).handled(at, process, state);
    }
    fn interrupt(&mut self, at: &Moment, process: Process, after: u32) {
        (**self).interrupt(at, process, after);
    }
    fn crash(&mut self, at: &Moment, process: Process) {
        (**self).crash(at, process);
    }
    fn restart(&mut self, at: &Moment, process: Process, life: Incarnation, durable: bool) {
        (**self).restart(at, process, life, durable);
    }
    fn disturb(&mut self, at: &Moment, what: &Disturbance) {
        (**self).disturb(at, what);
    }
}
