//! Total order by Lamport's stamps: posts are delivered in the order of their stamps, once nobody can send an earlier one.
//!
//! ```text
//!   p1 sends m1            p2                        p3
//!    │ ─ Data{1} ─────────▶│                         │
//!    │ ─ Data{1} ───────────────────────────────────▶│
//!    │ ◀───────── Ack{2} ──│ ─────────────── Ack{2} ▶│
//!    │ ◀────────────────────────────────── Ack{2} ───│
//!                          │ ◀─────────────── Ack{2} │    p2 has heard of all after stamp 1: it delivers m1
//! ```
//!
//! Channels keep their order, and clocks only grow. Who has heard from everyone after a stamp has all posts up to it. The id
//! of the sender breaks ties.
//!
//! **Cost**: n − 1 messages of the sender, and n − 1 acknowledgements of each other process: n(n − 1).
//!
//! **Assumes** reliable FIFO channels, and that nobody crashes.
//!
//! **Caveats**: everybody is heard, members or not; the group only says who delivers, and to join or leave costs nothing. A
//! single process that is down stops all: whatever it sent last, some may have got and others not, and nobody can tell. A
//! process that comes back takes no part, because its clock would begin anew.

use alloc::collections::BTreeMap;
use alloc::string::String;

use conclave_core::{
    Boot, Counter, Effects, Incarnation, Input, Members, Message, NodeId, Phase, Protocol, Space,
};
use serde::{Deserialize, Serialize};

use super::family::{EVERYONE, Multicast, everyone};
use super::ledger::{Promises, Survives};
use super::{AnyConfig, Event, FAMILY, Id, Post, Request, Source};
use crate::{About, Channels, Formula, STRANGER, SettingError, Settings};

/// A process that orders posts by Lamport's stamps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LamportStamps {
    source: Source,
    config: LamportStampsConfig,
    members: Members,
    is_inside: bool,
    clock: u64,
    sent: u64,
    /// What is not delivered yet, in the order of delivery.
    queue: BTreeMap<(u64, Id), String>,
    /// The latest stamp of each other process.
    heard: BTreeMap<NodeId, u64>,
}

/// Settings of [`LamportStamps`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LamportStampsConfig {
    /// Whether everyone is a member at first.
    pub everyone: bool,
    mutation: Option<Mutation>,
}

impl LamportStampsConfig {
    /// A group of all, as it is to be embedded.
    #[must_use]
    pub fn everyone() -> Self {
        Self { everyone: true, mutation: None }
    }
}

mutants! {
    pub enum Mutation {
        /// Posts are delivered without waiting for the others.
        NoAcks {
            name: "no-acks", breaks: "TOTAL", nodes: 2, trigger: Schedule,
            change: "a post is delivered before everyone has been heard after its stamp",
        }
        /// Posts are delivered when one other has been heard.
        OneIsEnough {
            name: "one-is-enough", breaks: "TOTAL", nodes: 3, trigger: Schedule,
            change: "a post is delivered when one other process has been heard after its stamp, or has sent it",
        }
    }
}

/// What the processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LamportStampsMessage {
    /// A post.
    Data {
        /// Which.
        id: Id,
        /// The clock of its sender.
        stamp: u64,
        /// What it says.
        text: String,
    },
    /// I have seen a post, and my clock is beyond its stamp.
    Ack {
        /// My clock.
        stamp: u64,
    },
}

use LamportStampsMessage as Msg;

impl Message for LamportStampsMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Data, Ack)
    }

    fn visit_counters(&mut self, _from: NodeId, _members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            Self::Data { id, stamp, .. } => {
                visit(id.counter());
                visit(Counter::exact(CLOCK, stamp));
            }
            Self::Ack { stamp } => visit(Counter::exact(CLOCK, stamp)),
        }
    }
}

const CLOCK: Space = Space::shared("clock");

impl Protocol for LamportStamps {
    type Config = LamportStampsConfig;
    type Message = LamportStampsMessage;
    type Request = Request;
    type Event = Event;
    type Timer = ();
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        Self {
            source: Source { process: boot.id, life: boot.life },
            config: boot.config.clone(),
            members: boot.members.clone(),
            is_inside: boot.config.everyone && boot.life == Incarnation::FIRST,
            clock: 0,
            sent: 0,
            queue: BTreeMap::new(),
            heard: BTreeMap::new(),
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Receive { from, .. } if !self.members.has_other(self.source.process, from) => {
                out.reject(from, STRANGER);
            }
            // A later life takes no part.
            Input::Receive { .. } | Input::Request(_) if self.source.life != Incarnation::FIRST => {}
            Input::Receive { from, message: Msg::Data { id, stamp, text } } => {
                if id.source != (Source { process: from, life: Incarnation::FIRST }) {
                    return out.reject(from, "a post is named after its sender");
                }
                self.hear(from, stamp);
                self.queue.insert((stamp, id), text);
                out.send_all(self.members.others(self.source.process), &Msg::Ack { stamp: self.clock });
                self.deliver(out);
            }
            Input::Receive { from, message: Msg::Ack { stamp } } => {
                self.hear(from, stamp);
                self.deliver(out);
            }
            Input::Request(Request::Join) => {
                if !core::mem::replace(&mut self.is_inside, true) {
                    out.emit(Event::Joined);
                }
            }
            Input::Request(Request::Leave) => self.is_inside = false,
            Input::Request(Request::Send(text)) => self.on_send(text, out),
            // Those who are down are waited for: what they sent last may still arrive.
            Input::PeerDown { .. } | Input::PeerUp { .. } | Input::Start | Input::Expire(()) => {}
        }
    }

    fn phase(&self) -> Phase {
        if self.queue.is_empty() { Phase::IDLE } else { Phase::WAITING }
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        visit(Counter::exact(CLOCK, &mut self.clock));
        visit(self.source.counter(&mut self.sent));
        self.queue = core::mem::take(&mut self.queue)
            .into_iter()
            .map(|((mut stamp, mut id), text)| {
                visit(Counter::exact(CLOCK, &mut stamp));
                visit(id.counter());
                ((stamp, id), text)
            })
            .collect();
        for heard in self.heard.values_mut() {
            visit(Counter::bound(CLOCK, heard));
        }
    }

    fn assert_invariants(&self) {
        let is_due = self.queue.first_key_value().is_some_and(|((stamp, id), _)| self.is_due(*stamp, *id));
        assert!(!is_due, "what can be delivered is not held back");
    }
}

impl LamportStamps {
    fn broken(&self, mutation: Mutation) -> bool {
        self.config.mutation == Some(mutation)
    }

    fn on_send(&mut self, text: String, out: &mut impl Effects<Self>) {
        self.clock = self.clock.saturating_add(1);
        self.sent += 1;
        let (id, stamp) = (self.source.post(self.sent), self.clock);
        let data = Msg::Data { id, stamp, text: text.clone() };
        out.send_all(self.members.others(self.source.process), &data);
        self.queue.insert((stamp, id), text);
        self.deliver(out);
    }

    /// The clock goes beyond a stamp that arrives.
    fn hear(&mut self, from: NodeId, stamp: u64) {
        let heard = self.heard.entry(from).or_default();
        *heard = stamp.max(*heard);
        let later = self.clock.max(stamp);
        self.clock = later.saturating_add(1);
    }

    /// Delivers as long as nobody can send anything earlier. Who is no member passes over it.
    fn deliver(&mut self, out: &mut impl Effects<Self>) {
        while let Some(first) = self.queue.first_entry() {
            let (stamp, id) = *first.key();
            if !self.is_due(stamp, id) {
                break;
            }
            if let Some((_, text)) = self.queue.pop_first()
                && self.is_inside
            {
                out.emit(Event::Delivered(Post { id, text }));
            }
        }
    }

    /// Whether everyone but its sender has been heard after this stamp. The sender itself has: by the post.
    fn is_due(&self, stamp: u64, id: Id) -> bool {
        let is_later = |other: NodeId| {
            other == id.source.process
                || self.heard.get(&other).is_some_and(|heard| (*heard, other) > (stamp, id.source.process))
        };
        let mut others = self.members.others(self.source.process);
        match self.broken(Mutation::OneIsEnough) {
            true => others.any(is_later),
            false => self.broken(Mutation::NoAcks) || others.all(is_later),
        }
    }
}

impl Multicast for super::family::LamportStamps {
    const ABOUT: About = About {
        name: "lamport-stamps",
        title: "Total order by Lamport's stamps",
        paper: "Lamport, Time, clocks, and the ordering of events in a distributed system, CACM 21(7) (1978)",
        idea: "a post waits until everyone was heard after its stamp",
        channels: Channels::Fifo,
        cost: "n(n − 1)",
        faults: "none: a process that is down stops the group, and breaks no order",
        settings: &[EVERYONE],
        mutants: Mutation::TABLE,
        ..About::of("lamport-stamps", FAMILY)
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<AnyConfig, SettingError> {
        Ok(AnyConfig::LamportStamps(LamportStampsConfig {
            everyone: everyone(settings),
            mutation: Mutation::of(settings),
        }))
    }

    fn promises(_settings: &Settings) -> Promises {
        Promises { total: true, fifo: true, causal: true, once: false, ..Promises::plain(Survives::Nothing) }
    }

    fn formula(_settings: &Settings, n: u64) -> Formula {
        Formula::exactly("n(n − 1)", n * (n - 1))
    }
}
