//! An election in a group that changes: processes join, leave, and change their weight between elections.
//!
//! Any election can run so. The group is what everyone has heard of it: who has joined, who has left, who weighs how much. Each
//! of these is told to all, in any order, and only ever added; so all who have heard the same see the same group, and two who
//! have not will. With every change the election begins anew among those who are there now. The leader stays in office until
//! the next election, unless it has left.
//!
//! ```text
//!   p9 ──●── Join to all ──▶ p1 ── Welcome: the group, and who leads ──▶ p9        p9 follows, and calls nobody
//!                            p2, p3, p4 the same
//!   p1 ── start ──▶ an election among p1, p2, p9, p3, p4
//! ```
//!
//! A message of the election carries the number of changes that its sender knew of. One from an older group counts for
//! nothing, and its sender is told what it has missed; one from a group of which we have not heard yet waits until we have
//! asked its sender.
//! Who took part in an election when the group changed calls for another.
//!
//! On a ring a newcomer stands where the setting `after` says, or at the end, and takes part in the next election. A newcomer to the
//! bully calls one at once, like a process that comes back.
//!
//! **Assumes** reliable channels. Two changes at once are fine; a change in the middle of an election costs another election.
//!
//! **Caveats**: a process that crashes and comes back has forgotten the changes, and learns them from the first answer to what
//! it says. Whether a newcomer may join is not asked: this is a laboratory, not a membership service.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use conclave_core::{
    Boot, Counter, Effect, Effects, Incarnation, Input, Members, Message, NodeId, Phase, Protocol, Through,
    Timing, erased,
};
use serde::{Deserialize, Serialize};

use super::{Election, Event, Request, Tally, phase};
use crate::{About, Algorithm, Formula, Setting, SettingError, Settings, Values};

/// Whether the group may change.
pub const GROUP: Setting = Setting {
    key: "group",
    values: Values::OneOf(&["auto", "fixed", "changing"]),
    default: "auto",
    unsafe_values: &[],
    help: "whether processes may join, leave and change their weight; auto: if anything of that is planned",
};

/// Where newcomers stand on a ring.
pub const AFTER: Setting = Setting {
    key: "after",
    values: Values::Numbers,
    default: "end",
    unsafe_values: &[],
    help: "after whom on the ring a process that joins stands, newcomer:process; who is not named stands at the end",
};

/// As many messages of a group that we have not heard of are kept.
const EARLY: usize = 1_000;

/// A process of an election in a group that changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Changing<A: Election> {
    id: NodeId,
    founders: Members,
    config: ChangingConfig<A::Config>,
    timing: Timing,
    life: Incarnation,
    group: Group,
    stand: Stand<A>,
    /// Who leads, as we were last told: the election forgets it when the group changes.
    leaders: Vec<NodeId>,
    /// Who is suspected.
    down: BTreeMap<NodeId, Incarnation>,
    retired: bool,
    armed: Vec<A::Timer>,
    /// Messages of groups that we have not heard of yet.
    early: Vec<(NodeId, u64, A::Message)>,
    saved: Option<A::Durable>,
}

/// Whether a process is one of the group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stand<A> {
    /// Has asked to be let in.
    Outside,
    /// Takes part.
    Inside(A),
    /// Has left.
    Gone,
}

/// What is known of the group beyond its founders.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Group {
    /// Who has joined, in ascending order.
    pub joined: Vec<NodeId>,
    /// Who has left, in ascending order.
    pub left: Vec<NodeId>,
    /// Who has changed its weight, how often, and to what, in ascending order.
    pub weights: Vec<(NodeId, u64, u64)>,
}

/// Settings of [`Changing`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChangingConfig<C> {
    election: C,
    /// After whom newcomers stand.
    after: BTreeMap<NodeId, u64>,
}

/// What the processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ChangingMessage<M> {
    /// Of the election.
    Part {
        /// How many changes of the group its sender knew of.
        changes: u64,
        /// What it says.
        message: M,
    },
    /// I take part from now on, or still do; what have I missed?
    Join(Group),
    /// This is the group.
    Welcome {
        /// As far as I know it.
        group: Group,
        /// Who leads.
        leaders: Vec<NodeId>,
    },
    /// I take part no longer.
    Leave(Group),
    /// I weigh more, or less.
    Reweigh(Group),
}

use ChangingMessage as Msg;

impl<M: Message> Message for ChangingMessage<M> {
    fn kind(&self) -> &'static str {
        match self {
            Self::Part { message, .. } => message.kind(),
            Self::Join(_) => "Join",
            Self::Welcome { .. } => "Welcome",
            Self::Leave(_) => "Leave",
            Self::Reweigh(_) => "Reweigh",
        }
    }

    fn is_overhead(&self) -> bool {
        match self {
            Self::Part { message, .. } => message.is_overhead(),
            Self::Join(_) | Self::Welcome { .. } | Self::Leave(_) | Self::Reweigh(_) => true,
        }
    }

    fn envelopes(&self) -> u32 {
        match self {
            Self::Part { message, .. } => 1 + message.envelopes(),
            Self::Join(_) | Self::Welcome { .. } | Self::Leave(_) | Self::Reweigh(_) => 0,
        }
    }

    /// The group in which it is said, by the number of its changes.
    fn postmark(&self) -> String {
        match self {
            Self::Part { changes, message } => format!("{}@{changes}", message.postmark()),
            Self::Join(_) | Self::Welcome { .. } | Self::Leave(_) | Self::Reweigh(_) => String::new(),
        }
    }

    fn visit_counters(&mut self, from: NodeId, members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            Self::Part { message, .. } => message.visit_counters(from, members, visit),
            Self::Join(_) | Self::Welcome { .. } | Self::Leave(_) | Self::Reweigh(_) => {}
        }
    }
}

impl Group {
    /// How many changes these are.
    fn changes(&self) -> u64 {
        let weights = self.weights.iter().fold(0, |sum: u64, (_, times, _)| sum.saturating_add(*times));
        weights.saturating_add((self.joined.len() + self.left.len()) as u64)
    }

    /// Adds what somebody else knows.
    fn merge(&mut self, other: &Self) {
        other.joined.iter().for_each(|id| insert(&mut self.joined, *id));
        other.left.iter().for_each(|id| insert(&mut self.left, *id));
        for (id, times, weight) in &other.weights {
            match self.weights.binary_search_by_key(id, |(id, ..)| *id) {
                Ok(place) if (*times, *weight) > (self.weights[place].1, self.weights[place].2) => {
                    self.weights[place] = (*id, *times, *weight);
                }
                Ok(_) => {}
                Err(place) => self.weights.insert(place, (*id, *times, *weight)),
            }
        }
    }

    /// Who takes part: the founders in their order, and each newcomer at its place; whoever has left is left out.
    fn members(&self, founders: &Members, after: &BTreeMap<NodeId, u64>) -> Members {
        let mut ring: Vec<NodeId> = founders.iter().collect();
        for id in self.joined.iter().filter(|id| !founders.contains(**id)) {
            let before = after.get(id).and_then(|before| u32::try_from(*before).ok()).map(NodeId);
            let place = before.and_then(|before| ring.iter().position(|other| *other == before));
            ring.insert(place.map_or(ring.len(), |place| place + 1), *id);
        }
        ring.retain(|id| self.left.binary_search(id).is_err());
        Members::listed(ring)
    }
}

fn insert(sorted: &mut Vec<NodeId>, id: NodeId) {
    if let Err(place) = sorted.binary_search(&id) {
        sorted.insert(place, id);
    }
}

impl<A: Election> Protocol for Changing<A> {
    type Config = ChangingConfig<A::Config>;
    type Message = ChangingMessage<A::Message>;
    type Request = Request;
    type Event = Event;
    type Timer = A::Timer;
    type Durable = A::Durable;

    fn boot(boot: Boot<'_, Self>) -> Self {
        let mut process = Self {
            id: boot.id,
            founders: boot.members.clone(),
            config: boot.config.clone(),
            timing: boot.timing,
            life: boot.life,
            group: Group::default(),
            stand: Stand::Outside,
            leaders: Vec::new(),
            down: BTreeMap::new(),
            retired: false,
            armed: Vec::new(),
            early: Vec::new(),
            saved: boot.saved,
        };
        if process.founders.contains(process.id) {
            process.stand = Stand::Inside(process.election());
        }
        process
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        let out = &mut erased(out);
        match input {
            Input::Start if self.is_inside() => self.elect(Input::Start, out),
            Input::Start => {
                insert(&mut self.group.joined, self.id);
                out.send_all(self.founders.iter(), &Msg::Join(self.group.clone()));
            }
            Input::Receive { .. } if matches!(self.stand, Stand::Gone) => {}
            Input::Receive { from, message } => self.receive(from, message, out),
            Input::Expire(timer) => {
                self.armed.retain(|armed| *armed != timer);
                self.elect(Input::Expire(timer), out);
            }
            Input::Request(Request::Leave) => self.leave(out),
            Input::Request(Request::Reweigh(weight)) => self.reweigh(weight, out),
            Input::Request(request) => {
                self.retired |= request == Request::Retire;
                self.elect(Input::Request(request), out);
            }
            Input::PeerDown { peer, life } => {
                self.down.insert(peer, life);
                self.elect(Input::PeerDown { peer, life }, out);
                self.maybe_replace(peer, out);
            }
            Input::PeerUp { peer, life } => {
                self.down.remove(&peer);
                self.elect(Input::PeerUp { peer, life }, out);
            }
        }
    }

    fn phase(&self) -> Phase {
        phase(self.id, &self.leaders, self.is_participant())
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        if let Stand::Inside(election) = &mut self.stand {
            election.visit_counters(visit);
        }
    }

    fn assert_invariants(&self) {
        if let Stand::Inside(election) = &self.stand {
            assert!(self.members().contains(self.id), "who takes part is one of the group");
            election.assert_invariants();
        }
        assert!(self.early.len() <= EARLY, "only so much is kept for later");
    }
}

impl<A: Election> Changing<A> {
    fn is_inside(&self) -> bool {
        matches!(self.stand, Stand::Inside(_))
    }

    fn members(&self) -> Members {
        self.group.members(&self.founders, &self.config.after)
    }

    /// An election among those who are there now, with their weights of now.
    fn election(&self) -> A {
        let mut config = self.config.election.clone();
        for (id, _, weight) in &self.group.weights {
            A::reweigh(&mut config, *id, *weight);
        }
        A::boot(Boot {
            id: self.id,
            members: &self.members(),
            config: &config,
            timing: self.timing,
            life: self.life,
            saved: self.saved.clone(),
        })
    }

    fn receive(&mut self, from: NodeId, message: Msg<A::Message>, out: &mut impl Effects<Self>) {
        match message {
            Msg::Join(group) => {
                self.learn(&group, out);
                if self.is_inside() {
                    self.welcome(from, out);
                }
            }
            Msg::Leave(group) | Msg::Reweigh(group) => self.learn(&group, out),
            Msg::Welcome { group, leaders } => self.on_welcome(&group, leaders, out),
            Msg::Part { changes, message } => match changes.cmp(&self.group.changes()) {
                core::cmp::Ordering::Equal => {
                    if self.members().contains(from) {
                        self.elect(Input::Receive { from, message }, out);
                    }
                }
                // It does not know yet what has changed. Who has left is told nothing.
                core::cmp::Ordering::Less => {
                    if self.is_inside() && self.members().contains(from) {
                        self.welcome(from, out);
                    }
                }
                // We have missed something, perhaps because whoever told of it did not know of us: ask.
                core::cmp::Ordering::Greater => {
                    out.send(from, Msg::Join(self.group.clone()));
                    if self.early.len() < EARLY {
                        self.early.push((from, changes, message));
                    }
                }
            },
        }
    }

    fn welcome(&self, to: NodeId, out: &mut impl Effects<Self>) {
        let (group, leaders) = (self.group.clone(), self.leaders.clone());
        out.send(to, Msg::Welcome { group, leaders });
    }

    fn on_welcome(&mut self, group: &Group, leaders: Vec<NodeId>, out: &mut impl Effects<Self>) {
        let is_newcomer = matches!(self.stand, Stand::Outside);
        if is_newcomer {
            // Other newcomers do not know of us yet.
            let others = group.joined.iter().copied().filter(|id| *id != self.id && !group.left.contains(id));
            self.group.merge(group);
            out.send_all(others, &Msg::Join(self.group.clone()));
            self.stand = Stand::Inside(self.election());
            self.begin_anew(false, out);
        } else {
            self.learn(group, out);
        }
        if is_newcomer && A::NEWCOMERS_CALL {
            return self.elect(Input::Request(Request::Start), out);
        }
        let here = |leader: &NodeId| self.members().contains(*leader);
        let is_news = self.leaders.is_empty() && !leaders.is_empty() && !self.is_participant();
        if is_news && leaders.iter().all(here) {
            self.leaders.clone_from(&leaders);
            out.emit(Event::Elected { leaders, term: 0 });
        }
    }

    /// Takes note of changes; with any that is new the election begins anew.
    fn learn(&mut self, group: &Group, out: &mut impl Effects<Self>) {
        let (before, ring) = (self.group.changes(), self.members());
        self.group.merge(group);
        if self.group.changes() == before || !self.is_inside() {
            return;
        }
        let leader_left = self.leaders.iter().find(|leader| group.left.contains(leader)).copied();
        if leader_left.is_some() {
            self.leaders.clear();
        }
        let calls = leader_left.is_some_and(|leader| self.is_next(leader, &ring));
        self.begin_anew(calls, out);
    }

    /// Holds the next election among those who are there now; at once if one was under way.
    fn begin_anew(&mut self, calls: bool, out: &mut impl Effects<Self>) {
        let calls = calls || self.is_participant();
        self.armed.drain(..).for_each(|timer| out.disarm(timer));
        self.stand = Stand::Inside(self.election());
        let members = self.members();
        for (peer, life) in self.down.clone() {
            if members.contains(peer) {
                self.elect(Input::PeerDown { peer, life }, out);
            }
        }
        if self.retired {
            self.elect(Input::Request(Request::Retire), out);
        }
        if calls {
            self.elect(Input::Request(Request::Start), out);
        }
        let now = self.group.changes();
        let early = core::mem::take(&mut self.early);
        for (from, changes, message) in early {
            if changes == now && members.contains(from) {
                self.elect(Input::Receive { from, message }, out);
            } else if changes > now {
                self.early.push((from, changes, message));
            }
        }
    }

    /// The election forgets the leader when the group changes: we remember, and see to it that another is elected.
    fn maybe_replace(&mut self, peer: NodeId, out: &mut impl Effects<Self>) {
        let Stand::Inside(election) = &self.stand else { return };
        let forgot = election.leaders().is_empty() && !election.is_participant();
        let members = self.members();
        if forgot && self.leaders.contains(&peer) && self.is_next(peer, &members) {
            self.elect(Input::Request(Request::Start), out);
        }
    }

    /// Whether we are the first after a process of those who are still there.
    fn is_next(&self, id: NodeId, ring: &Members) -> bool {
        let members = self.members();
        let present = |next: &NodeId| members.contains(*next) && !self.down.contains_key(next);
        ring.after(id).find(present) == Some(self.id)
    }

    fn leave(&mut self, out: &mut impl Effects<Self>) {
        if !self.is_inside() {
            return;
        }
        let members = self.members();
        insert(&mut self.group.left, self.id);
        out.send_all(members.others(self.id), &Msg::Leave(self.group.clone()));
        self.armed.drain(..).for_each(|timer| out.disarm(timer));
        self.leaders.clear();
        self.early.clear();
        self.stand = Stand::Gone;
    }

    fn reweigh(&mut self, weight: u64, out: &mut impl Effects<Self>) {
        if !self.is_inside() {
            return;
        }
        let known = self.group.weights.iter().find(|(id, ..)| *id == self.id);
        let times = known.map_or(0, |(_, times, _)| *times).saturating_add(1);
        let change = Group { weights: [(self.id, times, weight)].into(), ..Group::default() };
        self.group.merge(&change);
        out.send_all(self.members().others(self.id), &Msg::Reweigh(self.group.clone()));
        self.begin_anew(false, out);
    }

    /// Hands the election an input.
    fn elect(&mut self, input: Input<A>, out: &mut impl Effects<Self>) {
        let changes = self.group.changes();
        let Stand::Inside(election) = &mut self.stand else { return };
        let (armed, leaders, saved, now) = (&mut self.armed, &mut self.leaders, &mut self.saved, out.now());
        let lift = |effect: Effect<A>| match effect {
            Effect::Save(durable) => {
                *saved = Some(durable.clone());
                out.save(durable);
            }
            Effect::Send { to, message } => out.send(to, Msg::Part { changes, message }),
            Effect::Arm { timer, after } => {
                armed.retain(|other| *other != timer);
                armed.push(timer.clone());
                out.arm(timer, after);
            }
            Effect::Disarm(timer) => {
                armed.retain(|other| *other != timer);
                out.disarm(timer);
            }
            Effect::Emit(Event::Elected { leaders: elected, term }) => {
                leaders.clone_from(&elected);
                out.emit(Event::Elected { leaders: elected, term });
            }
            Effect::Reject { from, why } => out.reject(from, why),
        };
        election.handle(input, &mut erased(&mut Through::new(now, lift)));
    }
}

impl<A: Election> Algorithm for Changing<A> {
    const ABOUT: About = A::ABOUT;

    fn configure(settings: &Settings, members: &Members) -> Result<Self::Config, SettingError> {
        Ok(ChangingConfig { election: A::configure(settings, members)?, after: settings.numbers(AFTER.key) })
    }
}

impl<A: Election> Election for Changing<A> {
    const CHANGES: bool = true;

    fn leaders(&self) -> &[NodeId] {
        if self.is_participant() { &[] } else { &self.leaders }
    }

    fn is_participant(&self) -> bool {
        matches!(&self.stand, Stand::Inside(election) if election.is_participant())
    }

    fn winners(config: &Self::Config, members: &Members, eligible: &[NodeId]) -> Vec<NodeId> {
        A::winners(&config.election, members, eligible)
    }

    fn reweigh(config: &mut Self::Config, id: NodeId, weight: u64) {
        A::reweigh(&mut config.election, id, weight);
    }

    fn formula(_config: &Self::Config, _members: &Members, _tally: &Tally<'_>) -> Formula {
        Formula { text: "none for a group that changes", low: 0, high: None }
    }
}
