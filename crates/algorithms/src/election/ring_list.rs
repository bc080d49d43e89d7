//! The ring election whose message carries the list of those it has met.
//!
//! The form in which textbooks teach elections on a ring (Tanenbaum, van Steen: *Distributed systems*, section on
//! election algorithms), after Le Lann: *Distributed systems – towards a formal approach*, IFIP 1977.
//!
//! Whoever starts sends a list with its own name in it. Everyone adds its name and passes the list on. When the list is
//! back, it names all who are alive; the starter picks the highest and sends the result round once more.
//!
//! ```text
//!   p3 starts    p3 ──3──▶ p5 ──3,5──▶ p1 ──3,5,1──▶ p3
//!                p3 ──▶ Coordinator 5 ──▶ p1 ──▶ ... ──▶ p3          p3 stops it
//! ```
//!
//! Several may start at once. Their lists go round independently, come back with the same names in another order, and
//! give the same result; that costs messages and nothing else. With `suppress=yes` a process that has started ignores
//! the lists of starters with lower priority than its own.
//!
//! **Cost**: 2n messages for every starter, one after the other. In contrast to Chang and Roberts' algorithm
//! everyone learns who else is alive.
//!
//! **Assumes** nothing about time or the order of messages.
//!
//! **Crashes**: see [`ring`](super::ring). If the starter is dead, the last process before it finds the list complete and
//! finishes the election in its place. If a process learns of a crash while it takes part, the list may have been lost:
//! it starts again in the next round. A process that hears of a leader elected without it starts, too.
//! With `handoff=acked` the dead are found without a detector, and only who stood before one of them starts again; see
//! [`handoff`](super::handoff).
//!
//! **Caveats**: the rounds are no terms. Two starters of the same round decide independently, and in the midst of crashes
//! and recoveries they may decide differently, until the next round. A leader that dies while its result goes round is announced
//! nevertheless, until its crash is reported.

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

/// A process of the ring election with a travelling list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RingList {
    ring: Ring,
    config: RingListConfig,
    round: Round,
    state: State,
    handoff: Handoff<Msg>,
    /// This is not the first life of the process.
    is_back: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    /// No election has come by yet.
    Idle,
    /// Waits for a result.
    Participant {
        /// Has sent a list of its own in this round.
        started: bool,
    },
    /// Knows the outcome.
    Settled {
        leader: NodeId,
        /// Everyone who was alive and could be elected.
        active: Vec<NodeId>,
    },
    /// May not lead, and has asked the others to elect somebody. Perhaps nobody may lead.
    Vacant,
}

/// Settings of [`RingList`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RingListConfig {
    weights: Weights,
    is_acked: bool,
    /// Whether a starter ignores the lists of lower starters.
    suppresses: bool,
    mutation: Option<Mutation>,
}

/// What the processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RingListMessage {
    /// These are alive, as far as the list has come.
    Election {
        /// Who started it.
        initiator: NodeId,
        /// The round; none if the initiator is back from a crash and does not know it.
        round: Option<u64>,
        /// Who has seen it, the initiator first.
        list: Vec<NodeId>,
    },
    /// The result.
    Coordinator {
        /// Who finished the election.
        initiator: NodeId,
        /// Its round.
        round: u64,
        /// Who leads.
        leader: NodeId,
        /// Among whom it was chosen.
        list: Vec<NodeId>,
    },
    /// The result once more, for a new successor; passed on for as long as it is news.
    Inform {
        /// As in the result.
        round: u64,
        /// As in the result.
        leader: NodeId,
        /// As in the result.
        list: Vec<NodeId>,
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

use RingListMessage as Msg;

impl Message for RingListMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Election, Coordinator, Inform, Retire, Ack, CheckIn)
    }

    fn is_overhead(&self) -> bool {
        matches!(self, Msg::Ack(_) | Msg::CheckIn)
    }

    fn visit_counters(&mut self, _from: NodeId, _members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            Msg::Election { round, .. } | Msg::Retire { round, .. } => visit_round(round, visit),
            Msg::Coordinator { round, .. } | Msg::Inform { round, .. } => visit(Counter::exact(ROUND, round)),
            Msg::Ack(receipt) => visit_round(&mut receipt.round, visit),
            Msg::CheckIn => {}
        }
    }
}

impl Handed for RingListMessage {
    fn receipt(&self) -> Option<Receipt> {
        match *self {
            Msg::Election { initiator: owner, round, .. } | Msg::Retire { uid: owner, round } => {
                Some(Receipt { owner, round })
            }
            Msg::Coordinator { initiator: owner, round, .. } | Msg::Inform { leader: owner, round, .. } => {
                Some(Receipt { owner, round: Some(round) })
            }
            Msg::Ack(_) | Msg::CheckIn => None,
        }
    }

    signals!(Election, Coordinator, Inform, Retire);
}

impl Protocol for RingList {
    type Config = RingListConfig;
    type Message = RingListMessage;
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
    }

    fn assert_invariants(&self) {
        if self.config.mutation.is_some() {
            return;
        }

        self.ring.assert_invariants();
        self.handoff.assert_invariants(self.ring.id());
        let (me, is_eligible) = (self.ring.id(), self.ring.is_eligible());
        match &self.state {
            State::Idle | State::Participant { .. } => {}
            State::Settled { leader, active } => {
                assert!(self.ring.is_list(active.iter().copied()), "a list names members, each once");
                assert!(active.contains(leader), "a leader is chosen from a list");
                assert!(!is_eligible || active.contains(&me), "who may lead follows only if it was asked");
                assert!(is_eligible || *leader != me, "who has retired does not lead");
                assert!(self.round.known().is_some(), "an election that is over has a number");
            }
            State::Vacant => assert!(!is_eligible, "who may lead does not leave it to others"),
        }
    }
}

impl OnRing for RingList {
    seated!();

    fn is_back(&self) -> bool {
        self.is_back
    }

    fn objection(&self, message: &Msg) -> Option<&'static str> {
        let me = self.ring.id();
        match message {
            Msg::Election { initiator, list, .. } => {
                let fits = list.first() == Some(initiator) && self.ring.is_list(list.iter().copied());
                let is_new = *initiator == me || !list.contains(&me);
                (!fits || !is_new).then_some("a list names members, each once, its starter first")
            }
            Msg::Coordinator { initiator, leader, list, .. } => {
                let fits = self.ring.members().contains(*initiator) && list.contains(leader);
                (!fits || !self.ring.is_list(list.iter().copied()))
                    .then_some("a leader is chosen from a list of members")
            }
            Msg::Inform { leader, list, .. } => (!list.contains(leader)
                || !self.ring.is_list(list.iter().copied()))
            .then_some("a leader is chosen from a list of members"),
            Msg::Retire { uid, .. } => (!self.ring.members().contains(*uid)).then_some("only members retire"),
            Msg::Ack(_) | Msg::CheckIn => None,
        }
    }

    fn receive(&mut self, message: Msg, out: &mut impl Effects<Self>) {
        match message {
            Msg::Election { initiator, round, list } => {
                if let Some(round) = self.join(round) {
                    self.on_election(initiator, round, list, out);
                }
            }
            // The lap is over; or it is about an earlier life of ours, of which we know nothing.
            Msg::Coordinator { initiator, .. } if initiator == self.ring.id() => {}
            Msg::Coordinator { initiator, round, leader, list } => {
                if self.join(Some(round)).is_some()
                    && self.accept(leader, &list, out)
                    && let Some(next) = self.ring.onward(initiator)
                {
                    self.handoff.send(next, Msg::Coordinator { initiator, round, leader, list }, out);
                }
            }
            Msg::Inform { round, leader, list } => {
                let is_news = self.join(Some(round)).is_some() && self.leaders() != [leader];
                if is_news
                    && self.accept(leader, &list, out)
                    && self.leaders() == [leader]
                    && let Some(next) = self.ring.successor()
                {
                    self.handoff.send(next, Msg::Inform { round, leader, list }, out);
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
            State::Participant { .. } => {}
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
        match self.state {
            State::Settled { leader, .. } if leader == self.ring.id() => self.start(out),
            State::Participant { .. } => self.start(out),
            State::Idle | State::Settled { .. } | State::Vacant => {}
        }
    }

    fn on_peer_down(&mut self, peer: NodeId, out: &mut impl Effects<Self>) {
        if self.config.is_acked {
            let unsent = self.handoff.give_up(peer, self.round, out);
            return self.lose(peer, unsent, out);
        }
        let has_new_successor = self.ring.bypass(peer);
        match self.state {
            // The peer may have died with the message that we wait for.
            State::Participant { .. } | State::Vacant => self.start(out),
            State::Settled { leader, .. } if self.ring.is_down(leader) => self.start(out),
            State::Settled { .. } if has_new_successor => self.greet(out),
            State::Idle | State::Settled { .. } => {}
        }
    }

    fn on_peer_up(&mut self, peer: NodeId, out: &mut impl Effects<Self>) {
        let has_new_successor = self.ring.readmit(peer);
        if has_new_successor {
            self.handoff.forget_taken();
        }
        match self.state {
            // Lists of this round that went past the peer must not meet with some that did not.
            State::Participant { .. } => self.start(out),
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
        match &self.state {
            // It may have died with what it had taken.
            State::Participant { .. } | State::Vacant if has_new_successor && has_taken => self.start(out),
            // One is enough to call for another leader, the last before it.
            State::Settled { leader, .. }
                if self.ring.is_down(*leader) && (has_new_successor || self.ring.is_before_dead(*leader)) =>
            {
                self.start(out);
            }
            // A lap that ends before the dead does not reach the new successor; the news must.
            State::Settled { .. } if has_new_successor => {
                let ends =
                    |message: &Msg| message.receipt().is_none_or(|r| self.ring.onward(r.owner).is_none());
                if unsent.iter().all(ends) {
                    self.greet(out);
                }
                unsent.into_iter().for_each(|message| self.send_again(message, out));
            }
            State::Idle | State::Participant { .. } | State::Settled { .. } | State::Vacant => {
                unsent.into_iter().for_each(|message| self.send_again(message, out));
            }
        }
    }
}

impl RingList {
    /// Sends a list round in the round that we are in, or asks the next one to.
    fn compete(&mut self, out: &mut impl Effects<Self>) {
        let (me, round) = (self.ring.id(), self.round.known());
        let is_eligible = self.ring.is_eligible();
        self.state = if is_eligible { State::Participant { started: true } } else { State::Vacant };
        match (self.ring.successor(), is_eligible) {
            (Some(next), true) => {
                let list = [me].into();
                self.handoff.send(next, Msg::Election { initiator: me, round, list }, out);
            }
            (Some(next), false) => self.handoff.send(next, Msg::Retire { uid: me, round }, out),
            (None, true) => self.finish([me].into(), out),
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
            return self.finish(list, out);
        }
        let key = |id| self.config.weights.key(id);
        if self.state == (State::Participant { started: true }) {
            let suppressed = self.config.suppresses && key(initiator) < key(me);
            if suppressed || self.config.mutation == Some(Mutation::StarterSwallows) {
                return;
            }
        }
        if let State::Idle | State::Vacant = self.state {
            self.state = State::Participant { started: false };
        }
        if self.ring.is_eligible() {
            list.push(me);
        }
        self.pass_on(initiator, round, list, out);
    }

    /// Passes a list on.
    fn pass_on(
        &mut self,
        initiator: NodeId,
        round: Option<u64>,
        mut list: Vec<NodeId>,
        out: &mut impl Effects<Self>,
    ) {
        match self.ring.onward(initiator) {
            Some(next) => self.handoff.send(next, Msg::Election { initiator, round, list }, out),
            None if initiator == self.ring.id() => self.finish(list, out),
            // The initiator is dead, and the list complete. In a round of its own: should the initiator be back, it
            // may find another result in this one.
            None => {
                list.retain(|id| *id != initiator);
                self.round.advance();
                self.handoff.forget_taken();
                self.state = State::Participant { started: true };
                self.finish(list, out);
            }
        }
    }

    /// The list has been everywhere: picks the leader and tells everyone.
    fn finish(&mut self, mut list: Vec<NodeId>, out: &mut impl Effects<Self>) {
        let me = self.ring.id();
        list.retain(|id| *id != me || self.ring.is_eligible());
        let Some(leader) = self.config.choose(&list) else {
            return self.start(out);
        };
        // It has died since the list came by: whoever stood before it starts again when it hears of that.
        if self.ring.is_down(leader) {
            // Acked, it may be that nobody else hears of it.
            if self.config.is_acked {
                self.start(out);
            }
            return;
        }
        self.round.settle();
        self.settle(leader, &list, out);
        if let Some(next) = self.ring.successor() {
            let round = self.round.number();
            self.handoff.send(next, Msg::Coordinator { initiator: me, round, leader, list }, out);
        }
    }

    /// Takes on a leader; starts an election instead if this one was held without us, or made us leader too late.
    fn accept(&mut self, leader: NodeId, list: &[NodeId], out: &mut impl Effects<Self>) -> bool {
        let me = self.ring.id();
        let is_slighted =
            self.ring.is_eligible() && !list.contains(&me) || !self.ring.is_eligible() && leader == me;
        // Acked, the result may come when all else is known; the last process before a dead leader is the one to call.
        let is_late = self.config.is_acked && self.ring.is_before_dead(leader);
        if is_slighted || is_late {
            self.start(out);
            return false;
        }
        self.settle(leader, list, out);
        true
    }

    fn settle(&mut self, leader: NodeId, list: &[NodeId], out: &mut impl Effects<Self>) {
        let key = |id| self.config.weights.key(id);
        match &self.state {
            // Two of the same round can differ only in whom they met; the higher one prevails.
            State::Settled { leader: known, .. } if key(leader) <= key(*known) => {}
            State::Idle | State::Participant { .. } | State::Settled { .. } | State::Vacant => {
                self.state = State::Settled { leader, active: list.to_vec() };
                out.emit(Event::Elected { leaders: [leader].into(), term: 0 });
            }
        }
    }

    /// Somebody who may lead starts; the others pass it on.
    fn on_retire(&mut self, uid: NodeId, round: Option<u64>, out: &mut impl Effects<Self>) {
        match self.state {
            State::Participant { .. } | State::Settled { .. } => {}
            State::Idle | State::Vacant if uid == self.ring.id() => {}
            State::Idle | State::Vacant if self.ring.is_eligible() => self.compete(out),
            State::Idle | State::Vacant => {
                self.state = State::Vacant;
                if let Some(next) = self.ring.onward(uid) {
                    self.handoff.send(next, Msg::Retire { uid, round }, out);
                }
            }
        }
    }

    fn send_again(&mut self, message: Msg, out: &mut impl Effects<Self>) {
        let next = match message {
            Msg::Election { initiator, round, list } => return self.pass_on(initiator, round, list, out),
            Msg::Coordinator { initiator: owner, .. } | Msg::Retire { uid: owner, .. } => {
                self.ring.onward(owner)
            }
            Msg::Inform { .. } => self.ring.successor(),
            Msg::Ack(_) | Msg::CheckIn => None,
        };
        if let Some(next) = next {
            self.handoff.send(next, message, out);
        }
    }

    /// Tells a new successor who leads.
    fn greet(&mut self, out: &mut impl Effects<Self>) {
        match &self.state {
            State::Settled { leader, active } => {
                if let Some(next) = self.ring.successor() {
                    let (round, leader, list) = (self.round.number(), *leader, active.clone());
                    self.handoff.send(next, Msg::Inform { round, leader, list }, out);
                }
            }
            State::Vacant => self.start(out),
            State::Idle | State::Participant { .. } => {}
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
                self.state = State::Idle;
            }
        }
        Some(round)
    }

    /// Everyone who was alive when the leader was elected and could have been elected, as this process was told.
    #[must_use]
    pub fn active(&self) -> &[NodeId] {
        match &self.state {
            State::Settled { active, .. } => active,
            State::Idle | State::Participant { .. } | State::Vacant => &[],
        }
    }
}

impl RingListConfig {
    fn choose(&self, list: &[NodeId]) -> Option<NodeId> {
        match self.mutation {
            Some(Mutation::MinWins) => list.iter().copied().min_by_key(|id| self.weights.key(*id)),
            Some(Mutation::ForgetLast) if list.len() > 1 => {
                self.weights.highest(list[..list.len() - 1].iter().copied())
            }
            Some(Mutation::ForgetLast | Mutation::StarterSwallows) | None => {
                self.weights.highest(list.iter().copied())
            }
        }
    }
}

mutants! {
    enum Mutation {
        MinWins {
            name: "min-wins", breaks: "E5", nodes: 3, trigger: Schedule,
            change: "the lowest of the list is chosen",
        }
        ForgetLast {
            name: "forget-last", breaks: "E5", nodes: 3, trigger: Schedule,
            change: "the last of the list is not considered",
        }
        StarterSwallows {
            name: "starter-swallows", breaks: "E2", nodes: 3, trigger: Schedule,
            change: "a process that has started ignores all other lists: two starters wait forever",
        }
    }
}

impl Algorithm for RingList {
    const ABOUT: About = About {
        name: "ring-list",
        title: "Ring election with a list",
        paper: "Le Lann: Distributed systems – towards a formal approach, IFIP Congress, 1977; the form of the textbooks",
        idea: "a list gathers all names; the starter takes the highest",
        family: crate::election::FAMILY,
        channels: Channels::Any,
        synchrony: Synchrony::Asynchronous,
        topology: Topology::Ring,
        cost: "2n for every starter",
        faults: "crashes: the ring closes over the dead, who takes part starts again",
        settings: &[
            Weights::SETTING,
            RING,
            HANDOFF,
            Setting {
                key: "suppress",
                values: Values::OneOf(&["no", "yes"]),
                default: "no",
                unsafe_values: &[],
                help: "whether a process that has started ignores the lists of starters below it",
            },
        ],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<Self::Config, SettingError> {
        Ok(RingListConfig {
            weights: Weights::read(settings),
            is_acked: settings.get(HANDOFF.key) == "acked",
            suppresses: settings.get("suppress") == "yes",
            mutation: Mutation::of(settings),
        })
    }
}

impl Election for RingList {
    fn leaders(&self) -> &[NodeId] {
        match &self.state {
            State::Settled { leader, .. } => core::slice::from_ref(leader),
            State::Idle | State::Participant { .. } | State::Vacant => &[],
        }
    }

    fn is_participant(&self) -> bool {
        matches!(self.state, State::Participant { .. })
    }

    fn reweigh(config: &mut Self::Config, id: NodeId, weight: u64) {
        config.weights.set(id, weight);
    }

    fn winners(config: &Self::Config, _members: &Members, eligible: &[NodeId]) -> Vec<NodeId> {
        config.weights.highest(eligible.iter().copied()).into_iter().collect()
    }

    fn formula(config: &Self::Config, members: &Members, tally: &Tally<'_>) -> Formula {
        let (m, starters) = (tally.live(members), tally.starters.len() as u64);
        let all = 2 * m * starters;
        let formula = match starters {
            _ if tally.recovered.is_some() => {
                Formula { text: "2n per starter, and a second election", low: all, high: None }
            }
            _ if m <= 1 => Formula::exactly("0", 0),
            2.. if config.suppresses => Formula::between("2n to 2n per starter", 2 * m, all),
            _ => Formula::exactly(tally.words("2n per starter", "2l per starter, l alive"), all),
        };
        with_lost_tries(formula, config.is_acked, tally, starters)
    }
}

#[cfg(test)]
mod tests;
