//! How a run is judged, whatever the family.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use conclave_core::{Counter, Incarnation, Input, NodeId, Observer, Protocol, Shown};

/// An observer that judges the properties of a family.
pub trait Judge<P: Protocol>: Observer<P> {
    /// The first promise that was broken.
    fn violation(&self) -> Option<&Violation>;

    /// The run is over.
    fn end(&mut self, step: u64, ending: Ending);

    /// What became of every property.
    fn judgements(&self) -> Vec<Judgement>;
}

impl<P: Protocol, J: Judge<P> + ?Sized> Judge<P> for Box<J> {
    fn violation(&self) -> Option<&Violation> {
        (**self).violation()
    }

    fn end(&mut self, step: u64, ending: Ending) {
        (**self).end(step, ending);
    }

    fn judgements(&self) -> Vec<Judgement> {
        (**self).judgements()
    }
}

/// What has to be remembered of a run in order to judge it: small and comparable, so that a checker can make it part
/// of its states.
///
/// Nothing in it counts from the beginning of the run or tells the time, so that the same situation is the same value
/// however it came about. A driver names processes by their place in [`Members`](conclave_core::Members).
pub trait Ledger<P: Protocol> {
    /// The process at a place.
    fn process(&self, place: usize) -> NodeId;

    /// What the clock of a process shows in the step that it is about to take; of processes that read their clocks.
    fn clock(&mut self, _place: usize, _shown: Shown) {}

    /// Whether the algorithm promises a property at all, as far as is known by now: what it does not promise is never
    /// reported as if it were.
    fn promises(&self, _property: &str) -> bool {
        true
    }

    /// Whether it does not look for a property at all, since the algorithm never promises it and states would be more.
    fn leaves_out(&self, _property: &str) -> bool {
        false
    }

    /// A process is about to handle an input.
    fn input(&mut self, place: usize, input: &Input<P>);

    /// A message was sent while the process handled a request of its application.
    fn announce(&mut self, _place: usize, _from: NodeId, _message: &P::Message) {}

    /// A process sent a message; of processes by their places.
    fn sent(&mut self, _from: usize, _to: usize, _message: &P::Message) {}

    /// All that a process sent in making its request has arrived.
    fn known(&mut self, _place: usize) {}

    /// The request of this process was made in knowledge of the present requests of those processes, a bit per place.
    fn follows(&mut self, _place: usize, _others: u64) {}

    /// A process told its application something; what that breaks is added to `breaches`.
    fn emit(&mut self, place: usize, event: &P::Event, breaches: &mut Vec<Breach>);

    /// A process has handled its input; what its state breaks is added to `breaches`.
    fn handled(&mut self, _place: usize, _state: &P, _breaches: &mut Vec<Breach>) {}

    /// A process accused a peer of breaking the protocol.
    fn reject(&mut self, place: usize, from: NodeId, why: &'static str, breaches: &mut Vec<Breach>) {
        let detail = format!("{} rejected a message of {from}: {why}", self.process(place));
        breaches.push(Breach { property: "PROTOCOL", detail, promised: true });
    }

    /// A process is in a state in which it must never be.
    fn invariant(&mut self, place: usize, why: &str, breaches: &mut Vec<Breach>) {
        breaches.push(Breach::of_invariant(self.process(place), why));
    }

    /// A process crashed.
    fn crash(&mut self, place: usize);

    /// A process is up again, or for the first time if it was not there from the beginning.
    fn restart(&mut self, place: usize, life: Incarnation);

    /// A process that is about to come back has lost what it had saved.
    fn forget(&mut self, _place: usize) {}

    /// The network lost a message to somebody who is up, or doubled one.
    fn disturb(&mut self);

    /// A process that crashes does so inside a step, or loses what it had sent last: perhaps nobody, or not everybody, has
    /// heard of what it had begun.
    fn unheard(&mut self) {}

    /// Nothing moves any more: what is broken by that.
    fn quiet(&self, breaches: &mut Vec<Breach>);

    /// Whether something has happened after which nothing is promised of runs without end.
    fn excuses(&self) -> bool {
        false
    }

    /// The most entries by others that a request which now waits has had to see since it became known; 0 where it
    /// means nothing. The largest value over all states is the overtaking of the algorithm.
    fn overtaking(&self) -> u64 {
        0
    }

    /// The situations that a search should meet, at most 16.
    fn sights(&self) -> &'static [Sight] {
        &[]
    }

    /// Which of its [`sights`](Self::sights) hold now, a bit each.
    fn sees(&self) -> u16 {
        0
    }

    /// Visits every number of it that only grows, in the spaces of the algorithm; see [`Protocol::visit_counters`].
    fn visit_counters(&mut self, _visit: &mut dyn FnMut(Counter<'_>)) {}
}

/// Two ledgers of one run: of a layer, and of what it stands around. What every ledger can tell is told by the second.
impl<P: Protocol, A: Ledger<P>, B: Ledger<P>> Ledger<P> for (A, B) {
    fn process(&self, place: usize) -> NodeId {
        self.1.process(place)
    }

    fn clock(&mut self, place: usize, shown: Shown) {
        self.0.clock(place, shown);
        self.1.clock(place, shown);
    }

    fn promises(&self, property: &str) -> bool {
        self.0.promises(property) && self.1.promises(property)
    }

    fn leaves_out(&self, property: &str) -> bool {
        self.0.leaves_out(property) || self.1.leaves_out(property)
    }

    fn input(&mut self, place: usize, input: &Input<P>) {
        self.0.input(place, input);
        self.1.input(place, input);
    }

    fn announce(&mut self, place: usize, from: NodeId, message: &P::Message) {
        self.0.announce(place, from, message);
        self.1.announce(place, from, message);
    }

    fn sent(&mut self, from: usize, to: usize, message: &P::Message) {
        self.0.sent(from, to, message);
        self.1.sent(from, to, message);
    }

    fn known(&mut self, place: usize) {
        self.0.known(place);
        self.1.known(place);
    }

    fn follows(&mut self, place: usize, others: u64) {
        self.0.follows(place, others);
        self.1.follows(place, others);
    }

    fn emit(&mut self, place: usize, event: &P::Event, breaches: &mut Vec<Breach>) {
        self.0.emit(place, event, breaches);
        self.1.emit(place, event, breaches);
    }

    fn handled(&mut self, place: usize, state: &P, breaches: &mut Vec<Breach>) {
        self.0.handled(place, state, breaches);
        self.1.handled(place, state, breaches);
    }

    fn reject(&mut self, place: usize, from: NodeId, why: &'static str, breaches: &mut Vec<Breach>) {
        self.1.reject(place, from, why, breaches);
    }

    fn invariant(&mut self, place: usize, why: &str, breaches: &mut Vec<Breach>) {
        self.1.invariant(place, why, breaches);
    }

    fn crash(&mut self, place: usize) {
        self.0.crash(place);
        self.1.crash(place);
    }

    fn restart(&mut self, place: usize, life: Incarnation) {
        self.0.restart(place, life);
        self.1.restart(place, life);
    }

    fn forget(&mut self, place: usize) {
        self.0.forget(place);
        self.1.forget(place);
    }

    fn disturb(&mut self) {
        self.0.disturb();
        self.1.disturb();
    }

    fn unheard(&mut self) {
        self.0.unheard();
        self.1.unheard();
    }

    fn quiet(&self, breaches: &mut Vec<Breach>) {
        self.0.quiet(breaches);
        self.1.quiet(breaches);
    }

    fn excuses(&self) -> bool {
        self.0.excuses() || self.1.excuses()
    }

    fn overtaking(&self) -> u64 {
        self.1.overtaking()
    }

    fn sights(&self) -> &'static [Sight] {
        self.1.sights()
    }

    fn sees(&self) -> u16 {
        self.1.sees()
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        self.0.visit_counters(visit);
        self.1.visit_counters(visit);
    }
}

/// A situation that a search should meet: if it never does, its verdict says less than it seems to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// It, in a few words.
    pub what: &'static str,
    /// Whether it can be met only after a failure.
    pub after_failures: bool,
}

impl Sight {
    /// One that every search should meet.
    #[must_use]
    pub const fn always(what: &'static str) -> Self {
        Self { what, after_failures: false }
    }

    /// One that a search with failures should meet.
    #[must_use]
    pub const fn after_failures(what: &'static str) -> Self {
        Self { what, after_failures: true }
    }
}

/// A property that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The property's code, `"ME1"`.
    pub property: &'static str,
    /// What happened, in a sentence.
    pub detail: String,
    /// Whether the algorithm promised it in these circumstances: then the breach is a violation.
    pub promised: bool,
}

impl Breach {
    /// A process is in a state in which it must never be, whatever was promised.
    pub(crate) fn of_invariant(process: NodeId, why: &str) -> Self {
        Self { property: "INV", detail: format!("{process}: {why}"), promised: true }
    }
}

/// A promise that was broken, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The property's code, `"ME1"`.
    pub property: &'static str,
    /// What happened, in a sentence.
    pub detail: String,
    /// At which step of the run.
    pub step: u64,
}

/// What it takes to judge a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropertyKind {
    /// A single state or step breaks it.
    Safety,
    /// It compares the order of events: a search judges it only if it is told to keep that order.
    Order,
    /// It speaks of time, which only a simulated run has.
    Time,
    /// Only a run without end breaks it.
    Liveness,
    /// It speaks of the resource behind a lock, and can be broken only where living processes are suspected.
    Resource,
    /// It counts tokens. Once the network has made copies of messages, a state does not say which are tokens.
    Tokens,
}

/// What became of one property in one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Its code, `"ME1"`.
    pub property: &'static str,
    /// What it takes to judge it.
    pub kind: PropertyKind,
    /// Its claim in a few words.
    pub claim: &'static str,
    /// Whether the algorithm promises it.
    pub promised: bool,
    /// What was found.
    pub finding: Finding,
}

/// Why a run that ended without starvation does not show that there is none: whoever asks last is served by those who have
/// stopped asking.
pub(crate) const ENDS: &str = "held in this run, but a run that ends cannot show that nobody starves";

/// What a run showed of a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It held, with a note where there is something to say.
    Held(String),
    /// It did not.
    Broken(String),
    /// The run could not tell.
    Open(String),
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Nothing is left to happen: no message travels, no timer runs, no request is to come.
    Quiet,
    /// The run was stopped in the middle.
    Stopped,
    /// The run was given all the time that it could need, without faults, and did not come to rest.
    OutOfTime,
    /// The run repeats forever: everything is as it was at an earlier step, but for numbers that only grow.
    Endless {
        /// That step.
        since: u64,
    },
}
