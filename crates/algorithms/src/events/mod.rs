//! Plain events: processes that do something by themselves, send messages, and receive them, and stamp each event.
//!
//! Lamport, *Time, clocks, and the ordering of events in a distributed system*, CACM 21(7), 1978; Fidge (1988) and Mattern
//! (1989) for vectors.
//!
//! There is nothing to agree on: this is for looking at the order of events. Each process keeps a Lamport clock and a vector
//! clock, and tells what both show at every event.
//!
//! ```text
//!   p1 ──●─────●──────────────────────     a 1 (1,0,0)   b 2 (2,0,0)
//!        a     b ╲
//!   p2 ───────────●─────●─────────────     c 3 (2,1,0)   d 4 (2,2,0)
//!                 c     d ╲
//!   p3 ──●─────────────────●──────────     e 1 (0,0,1)   f 5 (2,2,2)
//!        e                 f
//! ```
//!
//! **Lamport**: a local event or a send moves the clock on by one; a receipt moves it behind both its own value and that of
//! the message. If one event happened before another, its stamp is smaller. The converse does not hold: e is stamped 1 and b
//! is stamped 2, and neither can know of the other.
//!
//! **Vectors**: an entry counts the events of one process. A receipt takes the larger of both in every entry. One event
//! happened before another exactly if its vector is smaller.
//!
//! **Cost**: one message per send; a vector has n entries.
//!
//! **Caveats**: nothing is saved. A process that comes back counts from the beginning, and the laws do not hold any more.

use alloc::vec::Vec;

use conclave_core::{
    Boot, Effects, Input, LamportClock, Members, Message, NodeId, Phase, Protocol, VectorClock,
};
use serde::{Deserialize, Serialize};

use crate::{About, Algorithm, STRANGER, SettingError, Settings};

mod family;

pub(crate) use family::visit_any;
pub use family::{Causes, FAMILY, Happening, Of, Stamping, Visitor, all, visit};

/// A process that stamps its events.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Events {
    id: NodeId,
    place: usize,
    members: Members,
    mutation: Option<Mutation>,
    lamport: LamportClock,
    vector: Vec<u64>,
    /// How many messages we have sent.
    sent: u64,
}

mutants! {
    pub enum Mutation {
        /// A receipt does not look at the stamp of the message.
        NoMax {
            name: "no-max", breaks: "LC", nodes: 2, trigger: Schedule,
            change: "a receipt moves the Lamport clock on by one, whatever the message says",
        }
        /// A receipt does not look at the vector of the message.
        NoMerge {
            name: "no-merge", breaks: "VC", nodes: 2, trigger: Schedule,
            change: "a receipt does not take over what the message knows",
        }
    }
}

/// What the application may let happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Request {
    /// Something that nobody else hears of.
    Local,
    /// A message to this process; to the next one if none is named.
    Send(Option<NodeId>),
}

/// What everyone does in a search.
impl Default for Request {
    fn default() -> Self {
        Self::Send(None)
    }
}

/// An event, and what the clocks showed at it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stamped {
    /// What happened.
    pub what: What,
    /// The Lamport clock.
    pub lamport: u64,
    /// The vector clock, by place.
    pub vector: Vec<u64>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum What {
    /// Nothing that concerns others.
    Local,
    /// A message was sent to this process; it is the sender's message of this number.
    Sent(NodeId, u64),
    /// A message of this process was received, with its number.
    Received(NodeId, u64),
}

/// A message: nothing but its stamps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Note {
    /// The number of the message at its sender, by which it is known.
    pub number: u64,
    /// What the sender's Lamport clock showed.
    pub lamport: u64,
    /// What its vector clock showed.
    pub vector: Vec<u64>,
}

impl Message for Note {
    fn kind(&self) -> &'static str {
        "Note"
    }
}

impl Protocol for Events {
    type Config = Option<Mutation>;
    type Message = Note;
    type Request = Request;
    type Event = Stamped;
    type Timer = ();
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        Self {
            id: boot.id,
            place: boot.members.position(boot.id).unwrap_or_default(),
            members: boot.members.clone(),
            mutation: *boot.config,
            lamport: LamportClock::default(),
            vector: alloc::vec![0; boot.members.len()],
            sent: 0,
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Receive { from, .. } if !self.members.has_other(self.id, from) => {
                out.reject(from, STRANGER);
            }
            Input::Receive { from, message } if message.vector.len() != self.members.len() => {
                out.reject(from, "a vector has an entry for each member");
            }
            Input::Receive { from, message } => self.receive(from, &message, out),
            Input::Request(Request::Local) => {
                self.tick();
                out.emit(self.stamped(What::Local));
            }
            Input::Request(Request::Send(to)) => self.send(to, out),
            Input::Start | Input::Expire(()) | Input::PeerDown { .. } | Input::PeerUp { .. } => {}
        }
    }

    fn phase(&self) -> Phase {
        Phase::IDLE
    }

    fn assert_invariants(&self) {
        assert_eq!(self.vector.len(), self.members.len(), "a vector has an entry for each member");
    }
}

impl Events {
    /// To the next of the members if nobody is named; nothing happens if there is nobody else.
    fn send(&mut self, to: Option<NodeId>, out: &mut impl Effects<Self>) {
        let next = self.members.at((self.place + 1) % self.members.len());
        let to = to.unwrap_or(next);
        if !self.members.has_other(self.id, to) {
            return;
        }
        self.tick();
        self.sent += 1;
        let (number, lamport, vector) = (self.sent, self.lamport.time(), self.vector.clone());
        out.send(to, Note { number, lamport, vector });
        out.emit(self.stamped(What::Sent(to, number)));
    }

    fn receive(&mut self, from: NodeId, note: &Note, out: &mut impl Effects<Self>) {
        match self.mutation {
            Some(Mutation::NoMax) => drop(self.lamport.tick()),
            Some(Mutation::NoMerge) | None => drop(self.lamport.receive(note.lamport)),
        }
        if self.mutation != Some(Mutation::NoMerge) {
            let theirs = VectorClock::from(note.vector.clone());
            let mut clock = VectorClock::from(core::mem::take(&mut self.vector));
            clock.merge(&theirs);
            self.vector = clock.entries().to_vec();
        }
        self.vector[self.place] = self.vector[self.place].saturating_add(1);
        out.emit(self.stamped(What::Received(from, note.number)));
    }

    /// A local event or a send.
    fn tick(&mut self) {
        self.lamport.tick();
        self.vector[self.place] = self.vector[self.place].saturating_add(1);
    }

    fn stamped(&self, what: What) -> Stamped {
        Stamped { what, lamport: self.lamport.time(), vector: self.vector.clone() }
    }
}

impl Algorithm for Events {
    const ABOUT: About = About {
        name: "events",
        title: "Events and their stamps",
        paper: "Lamport, Time, clocks, and the ordering of events in a distributed system, CACM 21(7) (1978)",
        idea: "local events, sends and receipts with their stamps",
        cost: "1 per send",
        faults: "lost and doubled messages",
        mutants: Mutation::TABLE,
        ..About::of("events", FAMILY)
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<Option<Mutation>, SettingError> {
        Ok(Mutation::of(settings))
    }
}
