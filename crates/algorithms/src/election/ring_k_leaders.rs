//! The ring election for several leaders.
//!
//! The list-carrying ring election ([`RingList`](super::RingList)) with a confirming and a committing lap, in the spirit
//! of Skeen: *Nonblocking commit protocols*, SIGMOD 1981.
//!
//! A first lap gathers the names of all who are alive, as for one leader. The starter picks the k highest. Between the laps
//! one of them may die, so a second lap asks everyone who is still there; only if all the chosen ones have seen it, a third
//! one puts them into office. Otherwise the starter begins again.
//!
//! ```text
//!   p3 ── Election 3 ──▶ p5 ── 3,5 ──▶ p1 ── 3,5,1 ──▶ p4 ── 3,5,1,4 ──▶ p3
//!   p3 ── Choose 5,4 by 3 ──▶ p5 ──▶ p1 ──▶ p4 ── Choose 5,4 by 3,5,1,4 ──▶ p3      both are among them
//!   p3 ── Commit 5,4 ──▶ p5 ──▶ p1 ──▶ p4 ──▶ p3
//! ```
//!
//! Without the third lap (`commit=no`) everyone believes the second one: it is cheaper, and after a crash there may for a
//! while be leaders whom the starter is about to replace. If fewer than k are alive, all of them lead.
//!
//! **Cost**: 3n messages for every starter, 2n without the third lap; as many again for an attempt that fails.
//!
//! **Assumes** nothing about time or the order of messages.
//!
//! **Crashes**: see [`ring`](super::ring). A process whose successor dies sends its last message again, past the dead one; if
//! several starters are under way, it starts the next round instead. If the starter is dead, the last process before it
//! finishes the election in its place. The confirming lap notices the death of a chosen one, the committing lap does so at
//! the process before it. Who ought to be among the leaders and is not starts again. With `handoff=acked` no detector is
//! needed; see [`handoff`](super::handoff).
//!
//! **Caveats**: the confirmation shows that the leaders were alive, not that they are. Two starters of the same round commit
//! independently; in the midst of crashes and recoveries they may differ, until the next round.

use alloc::vec::Vec;

use conclave_core::{Boot, Counter, Effects, Input, Members, Message, NodeId, Phase, Protocol};
use serde::{Deserialize, Serialize};

use super::handoff::{HANDOFF, Handed, Handoff, Receipt, RingTimer, signals, with_lost_tries};
use super::on_ring::{self, OnRing, seated};
use super::ring::{Age, ROUND, Ring, Round, visit_round};
use super::{Election, Event, RING, Request, Tally, Weights, phase};
use crate::{
    About, Algorithm, Channels, Formula, Setting, SettingError, Settings, Synchrony, Topology, Values,
};

/// A process of the ring election for several leaders.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RingKLeaders {
    ring: Ring,
    config: RingKLeadersConfig,
    round: Round,
    state: State,
    handoff: Handoff<Msg>,
    /// How far this process has got as the initiator of this round.
    stage: Stage,
    /// What it sent last in this round: lost, if the successor dies with it.
    last: Option<Msg>,
    /// More than one initiator is under way in this round.
    crowded: bool,
    /// This is not the first life of the process.
    is_back: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    /// No election has come by yet.
    Idle,
    /// Waits for a result.
    Participant,
    /// Knows the outcome.
    Settled { leaders: Vec<NodeId> },
    /// May not lead, and has asked the others to elect somebody. Perhaps nobody may lead.
    Vacant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Its list is not back.
    Open,
    /// It has chosen.
    Choosing,
    /// Its choice is confirmed.
    Done,
}

/// Settings of [`RingKLeaders`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RingKLeadersConfig {
    weights: Weights,
    is_acked: bool,
    /// How many shall lead.
    k: usize,
    /// Whether a third lap puts them into office.
    commits: bool,
    mutation: Option<Mutation>,
}

/// What the processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RingKLeadersMessage {
    /// These are alive, as far as the list has come.
    Election {
        /// Who started it.
        initiator: NodeId,
        /// The round; none if the initiator is back from a crash and does not know it.
        round: Option<u64>,
        /// Who has seen it, the initiator first.
        list: Vec<NodeId>,
    },
    /// These shall lead, if they are still there.
    Choose {
        /// Who chose them.
        initiator: NodeId,
        /// The round.
        round: u64,
        /// The chosen ones, the highest first.
        leaders: Vec<NodeId>,
        /// Who has seen it, the initiator first.
        list: Vec<NodeId>,
    },
    /// They lead.
    Commit {
        /// Who says so.
        initiator: NodeId,
        /// The round.
        round: u64,
        /// The leaders, the highest first.
        leaders: Vec<NodeId>,
    },
    /// The result once more, for a new successor; passed on for as long as it is news.
    Inform {
        /// As in the result.
        round: u64,
        /// As in the result.
        leaders: Vec<NodeId>,
    },
    /// Elect somebody, but not me.
    Retire {
        /// Who does not want to lead.
        uid: NodeId,
        /// As in an election.
        round: Option<u64>,
    },
    /// I have what you sent. With `handoff=acked` only.
    Ack(Receipt),
    /// I am back. With `handoff=acked` only.
    CheckIn,
}

use RingKLeadersMessage as Msg;

impl Message for RingKLeadersMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Election, Choose, Commit, Inform, Retire, Ack, CheckIn)
    }

    fn is_overhead(&self) -> bool {
        matches!(self, Msg::Ack(_) | Msg::CheckIn)
    }

    fn visit_counters(&mut self, _from: NodeId, _members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        self.visit_rounds(visit);
    }
}

impl RingKLeadersMessage {
    fn visit_rounds(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            Msg::Election { round, .. } | Msg::Retire { round, .. } => visit_round(round, visit),
            Msg::Choose { round, .. } | Msg::Commit { round, .. } | Msg::Inform { round, .. } => {
                visit(Counter::exact(ROUND, round));
            }
            Msg::Ack(receipt) => visit_round(&mut receipt.round, visit),
            Msg::CheckIn => {}
        }
    }

    /// Whose lap it is; nobody's if it only goes as far as it is news.
    fn owner(&self) -> Option<NodeId> {
        match self {
            Msg::Election { initiator, .. }
            | Msg::Choose { initiator, .. }
            | Msg::Commit { initiator, .. } => Some(*initiator),
            Msg::Retire { uid, .. } => Some(*uid),
            Msg::Inform { .. } | Msg::Ack(_) | Msg::CheckIn => None,
        }
    }
}

impl Handed for RingKLeadersMessage {
    fn receipt(&self) -> Option<Receipt> {
        match self {
            Msg::Election { initiator, round, .. } => Some(Receipt { owner: *initiator, round: *round }),
            Msg::Retire { uid, round } => Some(Receipt { owner: *uid, round: *round }),
            Msg::Choose { initiator, round, .. } | Msg::Commit { initiator, round, .. } => {
                Some(Receipt { owner: *initiator, round: Some(*round) })
            }
            Msg::Inform { leaders, round } => {
                leaders.first().map(|leader| Receipt { owner: *leader, round: Some(*round) })
            }
            Msg::Ack(_) | Msg::CheckIn => None,
        }
    }

    signals!(Election, Choose, Commit, Inform, Retire);
}

impl Protocol for RingKLeaders {
    type Config = RingKLeadersConfig;
    type Message = RingKLeadersMessage;
    type Request = Request;
    type Event = Event;
    type Timer = RingTimer;
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        let round = Round::new(boot.life);
        Self {
            ring: Ring::new(&boot),
            config: boot.config.clone(),
            round,
            state: State::Idle,
            handoff: Handoff::new(&boot, boot.config.is_acked),
            stage: Stage::Open,
            last: None,
            crowded: false,
            is_back: round.known().is_none(),
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        on_ring::handle(self, input, out);
    }

    fn phase(&self) -> Phase {
        phase(self.ring.id(), self.leaders(), self.is_participant())
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        visit(self.round.counter());
        self.handoff.visit_counters(self.ring.id(), self.ring.members(), visit);
        if let Some(last) = &mut self.last {
            last.visit_rounds(visit);
        }
    }

    fn assert_invariants(&self) {
        if self.config.mutation.is_some() {
            return;
        }

        self.ring.assert_invariants();
        self.handoff.assert_invariants(self.ring.id());
        let (me, is_eligible) = (self.ring.id(), self.ring.is_eligible());
        assert!(!self.crowded || self.last.is_some(), "who saw two initiators has sent something");
        match &self.state {
            State::Idle => assert!(self.last.is_none(), "before an election nothing was sent"),
            State::Participant => {}
            State::Settled { leaders } => {
                assert!((1..=self.config.k).contains(&leaders.len()), "as many lead as shall, or fewer");
                assert!(self.ring.is_list(leaders.iter().copied()), "members lead, each once");
                // Without the third lap a choice is taken on before it is known to stand.
                assert!(
                    is_eligible || !leaders.contains(&me) || !self.config.commits,
                    "who has retired does not lead"
                );
                assert!(self.round.known().is_some(), "an election that is over has a number");
            }
            State::Vacant => assert!(!is_eligible, "who may lead does not leave it to others"),
        }
    }
}

impl OnRing for RingKLeaders {
    seated!();

    fn is_back(&self) -> bool {
        self.is_back
    }

    fn objection(&self, message: &Msg) -> Option<&'static str> {
        let me = self.ring.id();
        let is_list = |ids: &[NodeId]| self.ring.is_list(ids.iter().copied());
        let is_lap = |initiator: &NodeId, list: &[NodeId]| {
            list.first() == Some(initiator) && is_list(list) && (*initiator == me || !list.contains(&me))
        };
        let may_lead = |leaders: &[NodeId]| (1..=self.config.k).contains(&leaders.len()) && is_list(leaders);
        let fits = match message {
            Msg::Election { initiator, list, .. } => is_lap(initiator, list),
            Msg::Choose { initiator, leaders, list, .. } => is_lap(initiator, list) && may_lead(leaders),
            Msg::Commit { initiator, leaders, .. } => is_list(&[*initiator]) && may_lead(leaders),
            Msg::Inform { leaders, .. } => may_lead(leaders),
            Msg::Retire { uid, .. } => is_list(&[*uid]),
            Msg::Ack(_) | Msg::CheckIn => true,
        };
        (!fits).then_some(
            "lists name members, each once, the starter first; leaders are at most as many as wanted",
        )
    }

    fn receive(&mut self, message: Msg, out: &mut impl Effects<Self>) {
        match message {
            Msg::Election { initiator, round, list } => {
                if let Some(round) = self.join(round) {
                    self.on_election(initiator, round, list, out);
                }
            }
            Msg::Choose { initiator, round, leaders, list } => {
                if self.join(Some(round)).is_some() {
                    self.on_choose(initiator, leaders, list, out);
                }
            }
            // The lap is over; or it is about an earlier life of ours, of which we know nothing.
            Msg::Commit { initiator, .. } if initiator == self.ring.id() => {}
            Msg::Commit { initiator, round, leaders } => {
                if self.join(Some(round)).is_some() && self.accept(&leaders, out) {
                    self.pass_on(Msg::Commit { initiator, round, leaders }, out);
                }
            }
            Msg::Inform { round, leaders } => {
                let is_news = self.join(Some(round)).is_some() && self.leaders() != leaders;
                if is_news
                    && self.accept(&leaders, out)
                    && self.leaders() == leaders
                    && let Some(next) = self.ring.successor()
                {
                    self.handoff.send(next, Msg::Inform { round, leaders }, out);
                }
            }
            Msg::Retire { uid, round } => {
                if let Some(round) = self.join(round) {
                    self.on_retire(uid, round, out);
                }
            }
            Msg::Ack(_) | Msg::CheckIn => {}
        }
    }

    fn on_call(&mut self, out: &mut impl Effects<Self>) {
        match self.state {
            State::Participant => {}
            State::Idle | State::Settled { .. } | State::Vacant => self.start(out),
        }
    }

    fn start(&mut self, out: &mut impl Effects<Self>) {
        self.round.advance();
        self.handoff.forget_taken();
        self.compete(out);
    }

    fn retire(&mut self, out: &mut impl Effects<Self>) {
        self.ring.retire();
        match &self.state {
            State::Settled { leaders } if leaders.contains(&self.ring.id()) => self.start(out),
            State::Participant => self.start(out),
            State::Idle | State::Settled { .. } | State::Vacant => {}
        }
    }

    fn on_peer_down(&mut self, peer: NodeId, out: &mut impl Effects<Self>) {
        if self.config.is_acked {
            let unsent = self.handoff.give_up(peer, self.round, out);
            return self.lose(peer, unsent, out);
        }
        let has_new_successor = self.ring.bypass(peer);
        match &self.state {
            State::Vacant => self.start(out),
            State::Settled { leaders } if leaders.iter().any(|leader| self.ring.is_down(*leader)) => {
                self.start(out);
            }
            State::Participant if has_new_successor => self.send_again(out),
            State::Settled { .. } if has_new_successor => self.greet_and_finish(out),
            State::Idle | State::Participant | State::Settled { .. } => {}
        }
    }

    fn on_peer_up(&mut self, peer: NodeId, out: &mut impl Effects<Self>) {
        let has_new_successor = self.ring.readmit(peer);
        if has_new_successor {
            self.handoff.forget_taken();
        }
        match self.state {
            // Lists of this round that went past the peer must not meet with some that did not.
            State::Participant => self.start(out),
            State::Settled { .. } | State::Vacant if has_new_successor => self.greet(out),
            State::Idle | State::Settled { .. } | State::Vacant => {}
        }
    }

    fn lose(&mut self, peer: NodeId, unsent: Vec<Msg>, out: &mut impl Effects<Self>) {
        let has_taken = self.handoff.has_taken() || unsent.is_empty();
        let has_new_successor = self.ring.bypass(peer);
        if has_new_successor {
            self.handoff.forget_taken();
        }
        let is_before = |leader: &NodeId| {
            self.ring.is_down(*leader) && (has_new_successor || self.ring.is_before_dead(*leader))
        };
        match &self.state {
            State::Vacant if has_new_successor && has_taken => self.start(out),
            // It may have died with what it had taken.
            State::Participant if has_new_successor && has_taken => self.send_again(out),
            // One is enough to call for other leaders, the last before a dead one.
            State::Settled { leaders } if leaders.iter().any(is_before) => self.start(out),
            State::Settled { .. } if has_new_successor && unsent.is_empty() => self.greet_and_finish(out),
            // A lap that ends before the dead does not reach the new successor; the news must.
            State::Settled { .. } if has_new_successor => {
                let ends =
                    |message: &Msg| message.owner().is_some_and(|owner| self.ring.onward(owner).is_none());
                if unsent.iter().all(ends) {
                    self.greet(out);
                }
                self.send_all_again(unsent, out);
            }
            State::Idle | State::Participant | State::Settled { .. } | State::Vacant => {
                self.send_all_again(unsent, out);
            }
        }
    }
}

impl RingKLeaders {
    /// Sends a list round in the round that we are in, or asks the next one to.
    fn compete(&mut self, out: &mut impl Effects<Self>) {
        let (me, round) = (self.ring.id(), self.round.known());
        self.clear();
        self.state = if self.ring.is_eligible() { State::Participant } else { State::Vacant };
        match (self.ring.successor(), self.ring.is_eligible()) {
            (Some(_), true) => self.pass_on(Msg::Election { initiator: me, round, list: [me].into() }, out),
            (Some(_), false) => self.pass_on(Msg::Retire { uid: me, round }, out),
            (None, true) => self.choose([me].into(), out),
            (None, false) => {}
        }
    }

    fn on_election(
        &mut self,
        initiator: NodeId,
        round: Option<u64>,
        mut list: Vec<NodeId>,
        out: &mut impl Effects<Self>,
    ) {
        let me = self.ring.id();
        if initiator == me {
            // A list that was sent past a dead process may come back twice.
            if self.stage == Stage::Open {
                self.choose(list, out);
            }
            return;
        }
        if let State::Idle | State::Vacant = self.state {
            self.state = State::Participant;
        }
        if self.ring.is_eligible() {
            list.push(me);
        }
        self.pass_on(Msg::Election { initiator, round, list }, out);
    }

    /// The list has been everywhere: picks the leaders and asks everyone.
    fn choose(&mut self, mut list: Vec<NodeId>, out: &mut impl Effects<Self>) {
        let me = self.ring.id();
        list.retain(|id| *id != me || self.ring.is_eligible());
        let leaders = self.config.highest(&list);
        if leaders.is_empty() {
            return self.start(out);
        }
        self.round.settle();
        self.stage = Stage::Choosing;
        if let State::Idle | State::Vacant = self.state {
            self.state = State::Participant;
        }
        let (round, list) = (self.round.number(), [me].into());
        match self.ring.successor() {
            Some(_) => self.pass_on(Msg::Choose { initiator: me, round, leaders, list }, out),
            None => self.conclude(leaders, &[me], out),
        }
    }

    fn on_choose(
        &mut self,
        initiator: NodeId,
        leaders: Vec<NodeId>,
        mut list: Vec<NodeId>,
        out: &mut impl Effects<Self>,
    ) {
        let me = self.ring.id();
        if initiator == me {
            if self.stage != Stage::Done {
                self.conclude(leaders, &list, out);
            }
            return;
        }
        if self.is_slighted(&leaders) {
            return self.start(out);
        }
        if !self.config.commits {
            self.settle(&leaders, out);
        } else if let State::Idle | State::Vacant = self.state {
            self.state = State::Participant;
        }
        if self.ring.is_eligible() {
            list.push(me);
        }
        let round = self.round.number();
        self.pass_on(Msg::Choose { initiator, round, leaders, list }, out);
    }

    /// Everyone who is there has seen the choice.
    fn conclude(&mut self, leaders: Vec<NodeId>, list: &[NodeId], out: &mut impl Effects<Self>) {
        if !leaders.iter().all(|leader| list.contains(leader)) {
            return self.start(out);
        }
        self.stage = Stage::Done;
        let is_known = self.config.mutation == Some(Mutation::NoCommit) || !self.config.commits;
        if self.accept(&leaders, out) && !is_known && self.ring.successor().is_some() {
            let (initiator, round) = (self.ring.id(), self.round.number());
            self.pass_on(Msg::Commit { initiator, round, leaders }, out);
        }
    }

    /// Takes on the leaders, or starts an election instead.
    fn accept(&mut self, leaders: &[NodeId], out: &mut impl Effects<Self>) -> bool {
        let me = self.ring.id();
        let is_late = leaders
            .iter()
            .any(|leader| self.ring.is_before_dead(*leader) || (*leader == me && !self.ring.is_eligible()));
        if is_late || self.is_slighted(leaders) {
            self.start(out);
            return false;
        }
        self.settle(leaders, out);
        true
    }

    fn settle(&mut self, leaders: &[NodeId], out: &mut impl Effects<Self>) {
        match &self.state {
            // Two of the same round can differ only in whom they met; the higher ones prevail.
            State::Settled { leaders: known } if self.config.keys(leaders) <= self.config.keys(known) => {}
            State::Idle | State::Participant | State::Settled { .. } | State::Vacant => {
                self.state = State::Settled { leaders: leaders.to_vec() };
                out.emit(Event::Elected { leaders: leaders.to_vec(), term: 0 });
            }
        }
    }

    /// Whether we ought to be among the leaders and are not.
    fn is_slighted(&self, leaders: &[NodeId]) -> bool {
        let me = self.ring.id();
        let key = |id| self.config.weights.key(id);
        let has_room = leaders.len() < self.config.k || leaders.iter().any(|leader| key(*leader) < key(me));
        self.ring.is_eligible()
            && has_room
            && !leaders.contains(&me)
            && self.config.mutation != Some(Mutation::LowestLead)
    }

    /// Sends a message on along its lap, or does what is left to do if its owner is dead and would be next.
    fn pass_on(&mut self, message: Msg, out: &mut impl Effects<Self>) {
        let Some(owner) = message.owner() else { return };
        if let Some(next) = self.ring.onward(owner) {
            self.crowded |= self.last.as_ref().is_some_and(|last| last.owner() != Some(owner));
            self.last = Some(message.clone());
            return self.handoff.send(next, message, out);
        }
        match message {
            // In a round of its own: should the initiator be back, it may find another result in this one.
            Msg::Election { mut list, .. } => {
                list.retain(|id| *id != owner);
                self.round.advance();
                self.handoff.forget_taken();
                self.clear();
                self.state = State::Participant;
                self.choose(list, out);
            }
            Msg::Choose { leaders, mut list, .. } => {
                list.retain(|id| *id != owner);
                self.conclude(leaders, &list, out);
            }
            Msg::Commit { .. } | Msg::Inform { .. } | Msg::Retire { .. } | Msg::Ack(_) | Msg::CheckIn => {}
        }
    }

    /// Somebody who may lead starts; the others pass it on.
    fn on_retire(&mut self, uid: NodeId, round: Option<u64>, out: &mut impl Effects<Self>) {
        match self.state {
            State::Participant | State::Settled { .. } => {}
            State::Idle | State::Vacant if uid == self.ring.id() => {}
            State::Idle | State::Vacant if self.ring.is_eligible() => self.compete(out),
            State::Idle | State::Vacant => {
                self.state = State::Vacant;
                self.pass_on(Msg::Retire { uid, round }, out);
            }
        }
    }

    fn send_all_again(&mut self, unsent: Vec<Msg>, out: &mut impl Effects<Self>) {
        for message in unsent {
            match message {
                Msg::Inform { .. } => {
                    if let Some(next) = self.ring.successor() {
                        self.handoff.send(next, message, out);
                    }
                }
                _ => self.pass_on(message, out),
            }
        }
    }

    /// The successor may have died with our last message.
    fn send_again(&mut self, out: &mut impl Effects<Self>) {
        match self.last.take() {
            Some(last) if !self.crowded => self.pass_on(last, out),
            Some(_) | None => self.start(out),
        }
    }

    /// Tells a new successor who leads. Without the third lap the initiator still waits for the second one.
    fn greet_and_finish(&mut self, out: &mut impl Effects<Self>) {
        if matches!(self.last, Some(Msg::Choose { .. })) && !self.config.commits {
            self.send_again(out);
        }
        self.greet(out);
    }

    /// Tells a new successor who leads.
    fn greet(&mut self, out: &mut impl Effects<Self>) {
        match &self.state {
            State::Settled { leaders } => {
                if let Some(next) = self.ring.successor() {
                    let (round, leaders) = (self.round.number(), leaders.clone());
                    self.handoff.send(next, Msg::Inform { round, leaders }, out);
                }
            }
            State::Vacant => self.start(out),
            State::Idle | State::Participant => {}
        }
    }

    /// Takes note of the round of a message. Gives the round in which the message is to be handled, nothing if it has
    /// come too late to be of use.
    #[allow(clippy::option_option, reason = "a round that nobody knows is a round, too")]
    fn join(&mut self, message: Option<u64>) -> Option<Option<u64>> {
        let round = self.round.of(message);
        match self.round.compare(round) {
            Age::Old => return None,
            Age::Current => {}
            Age::New => {
                self.round.enter(round);
                self.handoff.forget_taken();
                self.clear();
                self.state = State::Idle;
            }
        }
        Some(round)
    }

    /// Forgets what was done in an earlier round.
    fn clear(&mut self) {
        self.stage = Stage::Open;
        self.last = None;
        self.crowded = false;
    }
}

impl RingKLeadersConfig {
    /// The k highest, the highest first.
    fn highest(&self, list: &[NodeId]) -> Vec<NodeId> {
        let mut list = list.to_vec();
        list.sort_unstable_by_key(|id| self.weights.key(*id));
        if self.mutation != Some(Mutation::LowestLead) {
            list.reverse();
        }
        list.truncate(self.k);
        list
    }

    fn keys(&self, leaders: &[NodeId]) -> Vec<(u64, NodeId)> {
        leaders.iter().map(|leader| self.weights.key(*leader)).collect()
    }
}

mutants! {
    enum Mutation {
        LowestLead {
            name: "lowest-lead", breaks: "E5", nodes: 4, trigger: Schedule,
            change: "the lowest of the list are chosen, and nobody objects",
        }
        NoCommit {
            name: "no-commit", breaks: "E2", nodes: 3, trigger: Schedule,
            change: "the starter does not tell the others that their choice is confirmed",
        }
    }
}

impl Algorithm for RingKLeaders {
    const ABOUT: About = About {
        name: "ring-k-leaders",
        title: "Ring election for k leaders",
        paper: "Le Lann: Distributed systems – towards a formal approach, IFIP Congress, 1977; with the phases of Skeen: \
                Nonblocking commit protocols, SIGMOD, 1981",
        idea: "three laps: gather names, confirm the k highest, tell",
        family: crate::election::FAMILY,
        channels: Channels::Any,
        synchrony: Synchrony::Asynchronous,
        topology: Topology::Ring,
        cost: "3n for every starter, 2n without the committing lap; again if a chosen one dies",
        faults: "crashes: the ring closes over the dead, a choice that is not confirmed is made again",
        settings: &[
            Weights::SETTING,
            RING,
            HANDOFF,
            Setting {
                key: "k",
                values: Values::Number(1, 64),
                default: "2",
                unsafe_values: &[],
                help: "how many lead; all, if fewer are alive",
            },
            Setting {
                key: "commit",
                values: Values::OneOf(&["yes", "no"]),
                default: "yes",
                unsafe_values: &[],
                help: "whether the leaders wait for a third lap before they lead",
            },
        ],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<Self::Config, SettingError> {
        Ok(RingKLeadersConfig {
            weights: Weights::read(settings),
            is_acked: settings.get(HANDOFF.key) == "acked",
            k: settings.number("k") as usize,
            commits: settings.get("commit") == "yes",
            mutation: Mutation::of(settings),
        })
    }
}

impl Election for RingKLeaders {
    fn leaders(&self) -> &[NodeId] {
        match &self.state {
            State::Settled { leaders } => leaders,
            State::Idle | State::Participant | State::Vacant => &[],
        }
    }

    fn is_participant(&self) -> bool {
        self.state == State::Participant
    }

    fn reweigh(config: &mut Self::Config, id: NodeId, weight: u64) {
        config.weights.set(id, weight);
    }

    fn winners(config: &Self::Config, _members: &Members, eligible: &[NodeId]) -> Vec<NodeId> {
        // The ideal, whatever a mutant makes of it.
        RingKLeadersConfig { mutation: None, ..config.clone() }.highest(eligible)
    }

    fn formula(config: &Self::Config, members: &Members, tally: &Tally<'_>) -> Formula {
        let m = tally.live(members);
        let (laps, text) = match config.commits {
            true => (3, tally.words("3n per starter", "3l per starter, l alive")),
            false => (2, tally.words("2n per starter", "2l per starter, l alive")),
        };
        let all = laps * m * tally.starters.len() as u64;
        if tally.recovered.is_some() {
            return Formula { text: "as many per starter, and a second election", low: all, high: None };
        }
        if m <= 1 {
            return Formula::exactly("0", 0);
        }
        with_lost_tries(Formula::exactly(text, all), config.is_acked, tally, tally.starters.len() as u64)
    }
}

#[cfg(test)]
mod tests;
