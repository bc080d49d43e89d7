//! Total order by proposals, as in ISIS: every member proposes a number for a post, and the largest counts.
//!
//! ```text
//!   p1 sends m1            p2                        p3
//!    │ ─ Data ────────────▶│                         │
//!    │ ─ Data ──────────────────────────────────────▶│
//!    │ ◀───── Propose 2 ───│ holds m1 back as 2.2    │
//!    │ ◀─────────────────────────────── Propose 1 ───│ holds m1 back as 1.3
//!    │ ─ Agree 2.2 ───────▶│                         │
//!    │ ─ Agree 2.2 ─────────────────────────────────▶│
//! ```
//!
//! A member proposes a number larger than all that it has seen. The sender takes the largest proposal, where the id of the
//! proposer breaks a tie, and tells everyone. A member delivers the post with the smallest number once that number is
//! agreed: what is still open can only get a larger one than was proposed here.
//!
//! **Cost**: Data, Propose and Agree for every other member: 3(n − 1).
//!
//! **Assumes** reliable channels of any order, and a failure detector that tells the sender not to wait for the dead.
//!
//! **Caveats**: a post whose sender died before all had heard the number stays open, and whatever got a larger number
//! waits behind it: no order is broken, and nothing more is delivered. [`views`](super::views) goes on.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use conclave_core::{
    Boot, Counter, Effects, Input, Members, Message, NodeId, NodeSet, Phase, Protocol, Space,
};
use serde::{Deserialize, Serialize};

use super::family::{EVERYONE, Multicast, everyone};
use super::ledger::{Promises, Survives};
use super::roster::{Roster, Word};
use super::{AnyConfig, Event, FAMILY, Id, Post, Request};
use crate::{About, Formula, STRANGER, SettingError, Settings};

/// A process that multicasts as in ISIS.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Isis {
    config: IsisConfig,
    members: Members,
    roster: Roster,
    /// The largest number that was proposed or agreed here.
    largest: u64,
    /// What is not delivered yet.
    queue: BTreeMap<Id, Waiting>,
    /// Our own posts whose number is open.
    open: BTreeMap<Id, Ballot>,
}

/// Settings of [`Isis`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IsisConfig {
    /// Whether everyone is a member at first.
    pub everyone: bool,
    mutation: Option<Mutation>,
}

impl IsisConfig {
    /// A group of all, as it is to be embedded.
    #[must_use]
    pub fn everyone() -> Self {
        Self { everyone: true, mutation: None }
    }
}

/// A number of a post: proposed by this process, which breaks ties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rank {
    /// The number.
    pub number: u64,
    /// Who proposed it.
    pub proposer: NodeId,
}

/// A post that is held back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    rank: Rank,
    is_agreed: bool,
    text: String,
}

/// The proposals for a post of our own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Ballot {
    /// Whom we sent it to.
    voters: NodeSet,
    /// Who has not proposed yet.
    missing: NodeSet,
    /// The largest proposal so far.
    largest: Rank,
}

mutants! {
    pub enum Mutation {
        /// The sender agrees on the first proposal.
        FirstProposal {
            name: "first-proposal", breaks: "TOTAL", nodes: 3, trigger: Schedule,
            change: "the sender takes the first proposal that arrives, and not the largest of all",
        }
        /// A post is delivered as soon as its number is agreed.
        NoWait {
            name: "no-wait", breaks: "TOTAL", nodes: 3, trigger: Schedule,
            change: "a post is delivered when its number is agreed, though one with a smaller number is open",
        }
        /// Equal numbers are not told apart.
        NoTieBreak {
            name: "no-tie-break", breaks: "TOTAL", nodes: 3, trigger: Schedule,
            change: "each member puts its own id behind a number: equal numbers are ordered differently",
        }
    }
}

/// What the processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum IsisMessage {
    /// A post, and a question for its number.
    Data {
        /// Which.
        id: Id,
        /// What it says.
        text: String,
    },
    /// A number for a post; 0 of one who is no member.
    Propose {
        /// The post.
        id: Id,
        /// The number.
        number: u64,
    },
    /// The number of a post.
    Agree {
        /// The post.
        id: Id,
        /// The largest that was proposed.
        rank: Rank,
    },
    /// About who is in the group.
    Group(Word),
}

use IsisMessage as Msg;

impl Message for IsisMessage {
    fn kind(&self) -> &'static str {
        match self {
            Self::Data { .. } => "Data",
            Self::Propose { .. } => "Propose",
            Self::Agree { .. } => "Agree",
            Self::Group(word) => word.kind(),
        }
    }

    fn envelopes(&self) -> u32 {
        u32::from(matches!(self, Self::Group(_)))
    }

    fn visit_counters(&mut self, _from: NodeId, _members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            Self::Data { id, .. } => visit(id.counter()),
            Self::Propose { id, number } => {
                visit(id.counter());
                visit(Counter::exact(RANK, number));
            }
            Self::Agree { id, rank } => {
                visit(id.counter());
                visit(rank.counter());
            }
            Self::Group(_) => {}
        }
    }
}

/// What posts are ordered by.
const RANK: Space = Space::shared("rank");

impl Rank {
    fn counter(&mut self) -> Counter<'_> {
        Counter::exact(RANK, &mut self.number)
    }
}

impl Protocol for Isis {
    type Config = IsisConfig;
    type Message = IsisMessage;
    type Request = Request;
    type Event = Event;
    type Timer = ();
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        Self {
            config: boot.config.clone(),
            members: boot.members.clone(),
            roster: Roster::new(&boot, boot.config.everyone),
            largest: 0,
            queue: BTreeMap::new(),
            open: BTreeMap::new(),
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Receive { from, .. } if !self.members.has_other(self.id(), from) => {
                out.reject(from, STRANGER);
            }
            Input::Receive { from, message: Msg::Data { id, text } } => {
                let number = self.propose(id, text);
                out.send(from, Msg::Propose { id, number });
            }
            Input::Receive { from, message: Msg::Propose { id, number } } => {
                self.on_propose(from, id, number, out);
            }
            Input::Receive { message: Msg::Agree { id, rank }, .. } => self.on_agree(id, rank, out),
            Input::Receive { from, message: Msg::Group(word) } => {
                self.roster.hear(from, word, |to, word| out.send(to, Msg::Group(word)));
                self.maybe_enter(out);
            }
            Input::Request(Request::Join) => {
                self.roster.join(|to, word| out.send(to, Msg::Group(word)));
                self.maybe_enter(out);
            }
            Input::Request(Request::Leave) => {
                self.roster.leave(|to, word| out.send(to, Msg::Group(word)));
                self.queue.clear();
            }
            Input::Request(Request::Send(text)) => self.on_send(text, out),
            Input::PeerDown { peer, life } => {
                self.roster.on_peer_down(peer, life);
                self.stop_waiting_for(peer, out);
                self.maybe_enter(out);
            }
            Input::PeerUp { peer, life } => self.roster.on_peer_up(peer, life),
            Input::Start | Input::Expire(()) => {}
        }
    }

    fn phase(&self) -> Phase {
        if self.roster.is_joining() || !self.queue.is_empty() { Phase::WAITING } else { Phase::IDLE }
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        visit(Counter::exact(RANK, &mut self.largest));
        visit(self.roster.counter());
        self.queue = core::mem::take(&mut self.queue)
            .into_iter()
            .map(|(mut id, mut waiting)| {
                visit(id.counter());
                visit(waiting.rank.counter());
                (id, waiting)
            })
            .collect();
        self.open = core::mem::take(&mut self.open)
            .into_iter()
            .map(|(mut id, mut ballot)| {
                visit(id.counter());
                visit(ballot.largest.counter());
                (id, ballot)
            })
            .collect();
    }

    fn assert_invariants(&self) {
        assert!(
            self.roster.is_inside() || self.roster.is_joining() || self.queue.is_empty(),
            "who is no member holds nothing back"
        );
        assert!(
            self.open.values().all(|ballot| !ballot.missing.is_empty()),
            "what all have proposed is agreed"
        );
    }
}

impl Isis {
    fn id(&self) -> NodeId {
        self.roster.source().process
    }

    fn broken(&self, mutation: Mutation) -> bool {
        self.config.mutation == Some(mutation)
    }

    fn maybe_enter(&mut self, out: &mut impl Effects<Self>) {
        if self.roster.maybe_enter() {
            out.emit(Event::Joined);
            self.deliver(out);
        }
    }

    fn on_send(&mut self, text: String, out: &mut impl Effects<Self>) {
        let id = self.roster.name();
        let voters: NodeSet = self.roster.others().collect();
        out.send_all(voters.iter(), &Msg::Data { id, text: text.clone() });
        let number = self.propose(id, text);
        let largest = Rank { number, proposer: self.id() };
        let missing = voters.iter().filter(|voter| !self.roster.is_down(*voter)).collect();
        self.open.insert(id, Ballot { voters, missing, largest });
        self.maybe_agree(id, out);
    }

    /// Holds a post back under a number larger than all that were seen here. Who is no member has no say.
    fn propose(&mut self, id: Id, text: String) -> u64 {
        if !self.roster.is_inside() && !self.roster.is_joining() {
            return 0;
        }
        self.largest = self.largest.saturating_add(1);
        let rank = Rank { number: self.largest, proposer: self.id() };
        self.queue.insert(id, Waiting { rank, is_agreed: false, text });
        self.largest
    }

    fn on_propose(&mut self, from: NodeId, id: Id, number: u64, out: &mut impl Effects<Self>) {
        let hurries = self.broken(Mutation::FirstProposal);
        let Some(ballot) = self.open.get_mut(&id) else { return };
        if !ballot.missing.remove(from) {
            return;
        }
        ballot.largest = ballot.largest.max(Rank { number, proposer: from });
        if hurries {
            ballot.missing.clear();
        }
        self.maybe_agree(id, out);
    }

    /// The dead propose nothing more.
    fn stop_waiting_for(&mut self, peer: NodeId, out: &mut impl Effects<Self>) {
        let waited: Vec<Id> = self
            .open
            .iter_mut()
            .filter_map(|(id, ballot)| ballot.missing.remove(peer).then_some(*id))
            .collect();
        waited.into_iter().for_each(|id| self.maybe_agree(id, out));
    }

    fn maybe_agree(&mut self, id: Id, out: &mut impl Effects<Self>) {
        let is_over = self.open.get(&id).is_some_and(|ballot| ballot.missing.is_empty());
        if is_over && let Some(Ballot { voters, largest: rank, .. }) = self.open.remove(&id) {
            out.send_all(voters.iter(), &Msg::Agree { id, rank });
            self.on_agree(id, rank, out);
        }
    }

    fn on_agree(&mut self, id: Id, rank: Rank, out: &mut impl Effects<Self>) {
        let (own, confuses) = (self.id(), self.broken(Mutation::NoTieBreak));
        self.largest = self.largest.max(rank.number);
        let Some(waiting) = self.queue.get_mut(&id) else { return };
        let proposer = if confuses && id.source.process != own { own } else { rank.proposer };
        *waiting = Waiting {
            rank: Rank { proposer, ..rank },
            is_agreed: true,
            text: core::mem::take(&mut waiting.text),
        };
        self.deliver(out);
    }

    /// Delivers as long as the smallest number is agreed.
    fn deliver(&mut self, out: &mut impl Effects<Self>) {
        while self.roster.is_inside()
            && let Some(id) = self.first()
            && let Some(Waiting { text, .. }) = self.queue.remove(&id)
        {
            out.emit(Event::Delivered(Post { id, text }));
        }
    }

    /// The post with the smallest number, if that is agreed.
    fn first(&self) -> Option<Id> {
        let candidates =
            || self.queue.iter().filter(|(_, waiting)| !self.broken(Mutation::NoWait) || waiting.is_agreed);
        let (id, waiting) = candidates().min_by_key(|(id, waiting)| (waiting.rank, **id))?;
        waiting.is_agreed.then_some(*id)
    }
}

impl Multicast for super::family::Isis {
    const ABOUT: About = About {
        name: "isis",
        title: "Total order by proposals (ISIS)",
        paper: "Birman and Joseph, Reliable communication in the presence of failures, ACM TOCS 5(1) (1987)",
        idea: "each member proposes a number, the largest counts",
        cost: "3(n − 1)",
        faults: "crashes of members that have nothing under way; others stop the group, and break no order",
        settings: &[EVERYONE],
        mutants: Mutation::TABLE,
        ..About::of("isis", FAMILY)
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<AnyConfig, SettingError> {
        Ok(AnyConfig::Isis(IsisConfig { everyone: everyone(settings), mutation: Mutation::of(settings) }))
    }

    fn promises(_settings: &Settings) -> Promises {
        Promises { total: true, trusts: true, once: false, ..Promises::plain(Survives::SilentCrashes) }
    }

    fn formula(_settings: &Settings, n: u64) -> Formula {
        Formula::exactly("3(n − 1)", 3 * (n - 1))
    }
}
