//! The layers that need no agreement: plain sending, passing on, and two ways to hold back what comes too early.
//!
//! ```text
//!   send ──▶ name it ──▶ to every other member ─ ─ ▶ first copy? ──▶ pass it on ──▶ hold back ──▶ deliver
//!                    └──▶ ourselves, if we are a member ───────────────────────────▶
//! ```
//!
//! [`basic`](super::basic) has neither of the steps between arrival and delivery, [`reliable`](super::reliable) passes on, and
//! [`fifo`](super::fifo) and [`causal`](super::causal) hold back, over either of the two.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use conclave_core::{Boot, Effects, Input, Members, Message, NodeId, Phase, Protocol};
use serde::{Deserialize, Serialize};

use super::roster::{Roster, Word};
use super::{Event, Id, Post, Request, Source};
use crate::STRANGER;

/// A process that multicasts by layers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layered {
    config: LayeredConfig,
    members: Members,
    roster: Roster,
    /// What came before we were a member.
    early: Vec<Letter>,
    /// Where copies are expected and order is not: what has arrived.
    seen: BTreeMap<Source, Seen>,
    /// Where there is an order: how many posts of each sender need not be waited for any more.
    past: BTreeMap<Source, u64>,
    /// What came too early.
    held: BTreeMap<Id, Letter>,
}

/// The posts of one sender that have arrived: all up to a number, and some beyond.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Seen {
    all: u64,
    beyond: BTreeSet<u64>,
}

impl Seen {
    /// Says whether it is new.
    fn insert(&mut self, number: u64) -> bool {
        if number <= self.all || !self.beyond.insert(number) {
            return false;
        }
        while self.beyond.remove(&self.all.saturating_add(1)) {
            self.all += 1;
        }
        true
    }
}

/// What a layered multicast is made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LayeredConfig {
    /// Whether everyone is a member at first.
    pub everyone: bool,
    /// Whether members pass on what they receive.
    pub relays: bool,
    /// What is held back.
    pub order: Order,
    /// What is broken on purpose.
    pub mutation: Option<Mutation>,
}

impl LayeredConfig {
    /// Basic multicast in a group of all, as it is to be embedded.
    #[must_use]
    pub fn basic() -> Self {
        Self { everyone: true, relays: false, order: Order::Arrival, mutation: None }
    }

    /// Reliable multicast in a group of all, as it is to be embedded.
    #[must_use]
    pub fn reliable() -> Self {
        Self { relays: true, ..Self::basic() }
    }
}

/// In which order posts are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// As they come.
    Arrival,
    /// Those of one sender as they were sent.
    Fifo,
    /// What the sender knew first.
    Causal,
}

mutants! {
    pub enum Mutation {
        /// A member that sends does not deliver what it sent.
        ForgetOwn {
            name: "forget-own", breaks: "VALIDITY", nodes: 2, trigger: Schedule,
            change: "a member does not deliver what it has sent itself",
        }
        /// The last member is not sent anything.
        SkipLast {
            name: "skip-last", breaks: "AGREEMENT", nodes: 3, trigger: Schedule,
            change: "the last of the other members is not sent to",
        }
        /// Nothing is passed on.
        NoRelay {
            name: "no-relay", breaks: "AGREEMENT", nodes: 3, trigger: Crash,
            change: "what arrives is not passed on: a sender that dies half-way leaves some without it",
        }
        /// Every copy is delivered.
        CountCopies {
            name: "count-copies", breaks: "INTEGRITY", nodes: 3, trigger: Schedule,
            change: "every copy that is passed on is delivered, and not only the first",
        }
        /// Posts are delivered as they come.
        NoHold {
            name: "no-hold", breaks: "FIFO", nodes: 2, trigger: Schedule,
            change: "a post that overtook an earlier one is delivered at once",
        }
        /// What was overtaken is thrown away.
        DropOvertaken {
            name: "drop-overtaken", breaks: "FIFO", nodes: 2, trigger: Schedule,
            change: "a post that was overtaken is thrown away, and not waited for",
        }
        /// Only posts of the same sender are waited for.
        OwnEntryOnly {
            name: "own-entry-only", breaks: "CAUSAL", nodes: 3, trigger: Schedule,
            change: "only earlier posts of the same sender are waited for, not what it had delivered",
        }
        /// Stamps do not tell what the sender had delivered.
        BlankStamp {
            name: "blank-stamp", breaks: "CAUSAL", nodes: 3, trigger: Schedule,
            change: "the stamp does not tell what its sender had delivered before",
        }
    }
}

/// What the processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LayeredMessage {
    /// A post for the group.
    Data {
        /// Which.
        id: Id,
        /// What it says.
        text: alloc::string::String,
    },
    /// A post that comes after others.
    Stamped {
        /// Which.
        id: Id,
        /// What it says.
        text: alloc::string::String,
        /// The last of each other sender that has to be delivered before.
        after: Vec<Id>,
    },
    /// About who is in the group.
    Group(Word),
}

impl Message for LayeredMessage {
    fn kind(&self) -> &'static str {
        match self {
            Self::Data { .. } => "Data",
            Self::Stamped { .. } => "Stamped",
            Self::Group(word) => word.kind(),
        }
    }

    fn envelopes(&self) -> u32 {
        u32::from(matches!(self, Self::Group(_)))
    }
}

/// A post with what has to come before it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Letter {
    post: Post,
    after: Vec<Id>,
}

impl Letter {
    fn message(&self, order: Order) -> LayeredMessage {
        let Post { id, text } = self.post.clone();
        match order {
            Order::Arrival | Order::Fifo => LayeredMessage::Data { id, text },
            Order::Causal => LayeredMessage::Stamped { id, text, after: self.after.clone() },
        }
    }
}

impl Protocol for Layered {
    type Config = LayeredConfig;
    type Message = LayeredMessage;
    type Request = Request;
    type Event = Event;
    type Timer = ();
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        Self {
            config: boot.config.clone(),
            members: boot.members.clone(),
            roster: Roster::new(&boot, boot.config.everyone),
            early: Vec::new(),
            seen: BTreeMap::new(),
            past: BTreeMap::new(),
            held: BTreeMap::new(),
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Receive { from, .. } if !self.members.has_other(self.roster.source().process, from) => {
                out.reject(from, STRANGER);
            }
            Input::Receive { message: LayeredMessage::Data { id, text }, .. } => {
                self.on_letter(Letter { post: Post { id, text }, after: Vec::new() }, out);
            }
            Input::Receive { message: LayeredMessage::Stamped { id, text, after }, .. } => {
                self.on_letter(Letter { post: Post { id, text }, after }, out);
            }
            Input::Receive { from, message: LayeredMessage::Group(word) } => self.on_word(from, word, out),
            Input::Request(Request::Join) => self.on_join(out),
            Input::Request(Request::Leave) => self.on_leave(out),
            Input::Request(Request::Send(text)) => self.on_send(text, out),
            Input::PeerDown { peer, life } => {
                self.roster.on_peer_down(peer, life);
                self.maybe_enter(out);
            }
            Input::PeerUp { peer, life } => self.roster.on_peer_up(peer, life),
            // Whoever comes back is no member until it joins.
            Input::Start | Input::Expire(()) => {}
        }
    }

    fn phase(&self) -> Phase {
        if self.roster.is_joining() || !self.held.is_empty() { Phase::WAITING } else { Phase::IDLE }
    }

    fn assert_invariants(&self) {
        assert!(
            self.roster.is_inside() || self.held.is_empty(),
            "who is no member holds nothing back for delivery"
        );
        assert!(
            self.roster.is_joining() || self.early.is_empty(),
            "only who is joining has posts that came before it was a member"
        );
        assert!(
            self.config.mutation.is_some() || !self.held.values().any(|letter| self.is_ready(letter)),
            "what can be delivered is not held back"
        );
    }
}

impl Layered {
    fn broken(&self, mutation: Mutation) -> bool {
        self.config.mutation == Some(mutation)
    }

    fn on_join(&mut self, out: &mut impl Effects<Self>) {
        if self.roster.is_inside() || self.roster.is_joining() {
            return;
        }
        // What we sent as an outsider is behind us.
        self.skip(self.roster.last());
        self.roster.join(|to, word| out.send(to, LayeredMessage::Group(word)));
        self.maybe_enter(out);
    }

    fn on_leave(&mut self, out: &mut impl Effects<Self>) {
        self.roster.leave(|to, word| out.send(to, LayeredMessage::Group(word)));
        self.held.clear();
        self.early.clear();
    }

    fn on_word(&mut self, from: NodeId, word: Word, out: &mut impl Effects<Self>) {
        let last = self.roster.hear(from, word, |to, word| out.send(to, LayeredMessage::Group(word)));
        if let Some(last) = last {
            self.skip(last);
            self.maybe_enter(out);
        }
    }

    /// Posts up to this one are not for us: nothing waits for them.
    fn skip(&mut self, last: Id) {
        if self.config.order != Order::Arrival {
            self.past.insert(last.source, last.number);
        }
    }

    fn maybe_enter(&mut self, out: &mut impl Effects<Self>) {
        if self.roster.maybe_enter() {
            out.emit(Event::Joined);
            for letter in core::mem::take(&mut self.early) {
                self.take(letter, out);
            }
        }
    }

    fn on_send(&mut self, text: alloc::string::String, out: &mut impl Effects<Self>) {
        let id = self.roster.name();
        let letter = Letter { post: Post { id, text }, after: self.known() };
        self.send(&letter, out);
        if !self.broken(Mutation::ForgetOwn) {
            self.on_letter(letter, out);
        }
    }

    /// The last post of each other sender that we have delivered.
    fn known(&self) -> Vec<Id> {
        if self.config.order != Order::Causal || self.broken(Mutation::BlankStamp) {
            return Vec::new();
        }
        let own = self.roster.source();
        let others = self.past.iter().filter(|(source, number)| **source != own && **number > 0);
        others.map(|(source, number)| source.post(*number)).collect()
    }

    /// To every other member, one after the other.
    fn send(&self, letter: &Letter, out: &mut impl Effects<Self>) {
        let mut to: Vec<NodeId> = self.roster.others().collect();
        if self.broken(Mutation::SkipLast) {
            to.pop();
        }
        out.send_all(to, &letter.message(self.config.order));
    }

    fn on_letter(&mut self, letter: Letter, out: &mut impl Effects<Self>) {
        if self.roster.is_joining() {
            self.early.push(letter);
        } else if self.roster.is_inside() {
            self.take(letter, out);
        }
    }

    fn take(&mut self, letter: Letter, out: &mut impl Effects<Self>) {
        let Id { source, .. } = letter.post.id;
        if self.roster.is_past(source) {
            return;
        }
        let is_new = self.is_new(&letter);
        if is_new && self.config.relays && source != self.roster.source() && !self.broken(Mutation::NoRelay) {
            self.send(&letter, out);
        }
        if is_new || self.broken(Mutation::CountCopies) {
            self.deliver_in_order(letter, out);
        }
    }

    /// Whether it is the first copy. Plain sending makes no copies, and does not look.
    fn is_new(&mut self, letter: &Letter) -> bool {
        let Id { source, number } = letter.post.id;
        match self.config.order {
            Order::Arrival if !self.config.relays => true,
            // Without order nothing else tells copies.
            _ if self.broken(Mutation::NoHold) => self.seen.entry(source).or_default().insert(number),
            Order::Arrival => self.seen.entry(source).or_default().insert(number),
            Order::Fifo | Order::Causal => {
                number > self.past(source) && !self.held.contains_key(&letter.post.id)
            }
        }
    }

    fn past(&self, source: Source) -> u64 {
        self.past.get(&source).copied().unwrap_or(0)
    }

    fn deliver_in_order(&mut self, letter: Letter, out: &mut impl Effects<Self>) {
        if self.config.order == Order::Arrival {
            return out.emit(Event::Delivered(letter.post));
        }
        if self.broken(Mutation::NoHold) || self.broken(Mutation::DropOvertaken) {
            return self.deliver(letter, out);
        }
        self.held.insert(letter.post.id, letter);
        while let Some(id) =
            self.held.values().find(|letter| self.is_ready(letter)).map(|letter| letter.post.id)
            && let Some(letter) = self.held.remove(&id)
        {
            self.deliver(letter, out);
        }
    }

    fn deliver(&mut self, letter: Letter, out: &mut impl Effects<Self>) {
        let Id { source, number } = letter.post.id;
        if !self.broken(Mutation::NoHold) {
            self.past.insert(source, number);
        }
        out.emit(Event::Delivered(letter.post));
    }

    /// Whether nothing that must come before it is missing.
    fn is_ready(&self, letter: &Letter) -> bool {
        let Id { source, number } = letter.post.id;
        let is_there = |id: &Id| id.number <= self.past(id.source) || self.roster.is_past(id.source);
        let is_next = number <= self.past(source).saturating_add(1);
        is_next && (self.broken(Mutation::OwnEntryOnly) || letter.after.iter().all(is_there))
    }
}
