//! The ring election in which everyone keeps a list of the active ones.
//!
//! Le Lann: *Distributed systems – towards a formal approach*, IFIP 1977.
//!
//! Every process sends its own name round the ring once and writes down all names that come by. On a ring that keeps the
//! order of messages its own name comes back last: then the list is complete, and everyone picks the same leader from it.
//!
//! ```text
//!   p2 finds that p4 and p1 are gone        active
//!   p2 ──elect 2──▶ p3                      p2: 2
//!                   p3 ──elect 3, elect 2──▶ p2      p3: 2, 3
//!   p2 ──elect 3──▶ p3                      p2: 2, 3; its own name is back: p3 leads
//! ```
//!
//! The order in the second line is essential: a process that hears of an election first sends its own name and then
//! passes on the one that it heard. Otherwise that one would be back at its owner before all names have been there.
//!
//! Nobody has to be told the result. A process that has decided tells its successor nevertheless, in case that one could
//! not find out for itself; the news dies where it is known.
//!
//! **Cost**: n² `Elect`, a lap for each name, however many start; and n `Elected`. The starter knows the leader after n
//! message delays, the last one after 2n − 1.
//!
//! **Assumes** channels that keep the order of messages, and nothing about time.
//!
//! **Crashes**: see [`ring`](super::ring). Who learns of a crash while it takes part starts again in the next round. A
//! process that has retired passes names on and adds none; it learns the result from its predecessor. With `handoff=acked` the
//! dead are found without a detector, and only who stood before one of them starts again; see
//! [`handoff`](super::handoff).
//!
//! **Caveats**: the price of deciding for oneself is a number of messages that grows with the square of n, even if just one
//! process starts. While a crash is not yet known to all, messages can overtake each other past the dead
//! process, and a list may lack a name: two may then announce different leaders in the same round, until the news of the
//! higher one, or the next round, corrects that.

use alloc::vec::Vec;

use conclave_core::{
    Boot, Counter, Effects, Incarnation, Input, Members, Message, NodeId, NodeSet, Phase, Protocol,
};
use serde::{Deserialize, Serialize};

use super::handoff::{HANDOFF, Handed, Handoff, Receipt, RingTimer, signals, with_lost_tries};
use super::on_ring::{self, OnRing, seated};
use super::ring::{Age, ROUND, Ring, Round, visit_round};
use super::{Election, Event, RING, Request, Tally, Weights, phase};
use crate::{About, Algorithm, Channels, Formula, SettingError, Settings, Synchrony, Topology};

/// A process of the ring election with active lists.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RingActiveList {
    ring: Ring,
    config: RingActiveListConfig,
    round: Round,
    state: State,
    handoff: Handoff<Msg>,
    /// The names that came by in this round, and our own.
    active: NodeSet,
    /// Which life of the process this is.
    life: Incarnation,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    /// No election has come by yet.
    Idle,
    /// Its own name is under way.
    Participant,
    /// Knows the outcome.
    Settled { leader: NodeId },
    /// May not lead, and has asked the others to elect somebody. Perhaps nobody may lead.
    Vacant,
}

/// Settings of [`RingActiveList`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RingActiveListConfig {
    weights: Weights,
    is_acked: bool,
    mutation: Option<Mutation>,
}

/// What the processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RingActiveListMessage {
    /// This one is active.
    Elect {
        /// Its name.
        uid: NodeId,
        /// The round; none if the sender is back from a crash and does not know it.
        round: Option<u64>,
        /// In which of its lives it was sent: a name that comes back to a later life finds no list there.
        life: Incarnation,
    },
    /// This one leads.
    Elected {
        /// Its name.
        leader: NodeId,
        /// The round in which it won.
        round: u64,
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

use RingActiveListMessage as Msg;

impl Message for RingActiveListMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Elect, Elected, Retire, Ack, CheckIn)
    }

    fn is_overhead(&self) -> bool {
        matches!(self, Msg::Ack(_) | Msg::CheckIn)
    }

    fn visit_counters(&mut self, _from: NodeId, _members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            Msg::Elect { round, .. } | Msg::Retire { round, .. } => visit_round(round, visit),
            Msg::Elected { round, .. } => visit(Counter::exact(ROUND, round)),
            Msg::Ack(receipt) => visit_round(&mut receipt.round, visit),
            Msg::CheckIn => {}
        }
    }
}

impl Handed for RingActiveListMessage {
    fn receipt(&self) -> Option<Receipt> {
        match *self {
            Msg::Elect { uid: owner, round, .. } | Msg::Retire { uid: owner, round } => {
                Some(Receipt { owner, round })
            }
            Msg::Elected { leader: owner, round } => Some(Receipt { owner, round: Some(round) }),
            Msg::Ack(_) | Msg::CheckIn => None,
        }
    }

    signals!(Elect, Elected, Retire);
}

impl Protocol for RingActiveList {
    type Config = RingActiveListConfig;
    type Message = RingActiveListMessage;
    type Request = Request;
    type Event = Event;
    type Timer = RingTimer;
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        Self {
            ring: Ring::new(&boot),
            config: boot.config.clone(),
            round: Round::new(boot.life),
            state: State::Idle,
            handoff: Handoff::new(&boot, boot.config.is_acked),
            active: NodeSet::new(),
            life: boot.life,
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
        assert!(self.ring.is_list(self.active.iter()), "members are active");
        match self.state {
            State::Idle => assert!(self.active.is_empty(), "before an election nobody was met"),
            State::Participant => {
                assert!(!is_eligible || self.active.contains(me), "who stands for election is on its list");
            }
            State::Settled { leader } => {
                assert!(self.ring.members().contains(leader), "a member leads");
                assert!(is_eligible || leader != me, "who has retired does not lead");
                assert!(self.round.known().is_some(), "an election that is over has a number");
            }
            State::Vacant => assert!(!is_eligible, "who may lead does not leave it to others"),
        }
    }
}

impl OnRing for RingActiveList {
    seated!();

    fn is_back(&self) -> bool {
        self.life > Incarnation::FIRST
    }

    fn objection(&self, message: &Msg) -> Option<&'static str> {
        let owner = message.receipt().map(|receipt| receipt.owner);
        (!owner.is_some_and(|owner| self.ring.members().contains(owner)))
            .then_some("only members stand for election")
    }

    fn receive(&mut self, message: Msg, out: &mut impl Effects<Self>) {
        match message {
            Msg::Elect { uid, life, .. } if uid == self.ring.id() && life != self.life => {}
            Msg::Elect { uid, round, life } => {
                if let Some(round) = self.join(round) {
                    self.on_elect(uid, life, round, out);
                }
            }
            Msg::Elected { leader, round } => {
                if self.join(Some(round)).is_some() {
                    self.on_elected(leader, out);
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
        match self.state {
            State::Settled { leader } if leader == self.ring.id() => self.start(out),
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
        self.active.remove(peer);
        match self.state {
            // The peer may have died with the message that we wait for.
            State::Participant | State::Vacant => self.start(out),
            State::Settled { leader } if self.ring.is_down(leader) => self.start(out),
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
            // Names of this round that went past the peer must not meet with some that did not.
            State::Participant => self.start(out),
            State::Settled { .. } | State::Vacant if has_new_successor => self.greet(out),
            State::Idle | State::Settled { .. } | State::Vacant => {}
        }
    }

    fn lose(&mut self, peer: NodeId, unsent: Vec<Msg>, out: &mut impl Effects<Self>) {
        let has_taken = self.handoff.has_taken() || unsent.is_empty();
        let has_new_successor = self.ring.bypass(peer);
        // Whatever is said of us, we are here.
        if peer != self.ring.id() {
            self.active.remove(peer);
        }
        if has_new_successor {
            self.handoff.forget_taken();
        }
        match self.state {
            // It may have died with what it had taken.
            State::Participant | State::Vacant if has_new_successor && has_taken => self.start(out),
            // One is enough to call for another leader, the last before it.
            State::Settled { leader }
                if self.ring.is_down(leader) && (has_new_successor || self.ring.is_before_dead(leader)) =>
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
            State::Idle | State::Participant | State::Settled { .. } | State::Vacant => {
                for message in unsent {
                    self.send_again(message, out);
                }
            }
        }
    }
}

impl RingActiveList {
    /// Sends our name round in the round that we are in, or asks the next one to.
    fn compete(&mut self, out: &mut impl Effects<Self>) {
        let (me, round) = (self.ring.id(), self.round.known());
        self.active.clear();
        match (self.ring.successor(), self.ring.is_eligible()) {
            (next, true) => {
                self.state = State::Participant;
                self.active.insert(me);
                match next {
                    Some(next) => {
                        self.handoff.send(next, Msg::Elect { uid: me, round, life: self.life }, out);
                    }
                    None => self.decide(out),
                }
            }
            (next, false) => {
                self.state = State::Vacant;
                if let Some(next) = next {
                    self.handoff.send(next, Msg::Retire { uid: me, round }, out);
                }
            }
        }
    }

    fn on_elect(&mut self, uid: NodeId, life: Incarnation, round: Option<u64>, out: &mut impl Effects<Self>) {
        let me = self.ring.id();
        if uid == me {
            return match (&self.state, self.ring.is_eligible()) {
                (State::Settled { .. }, _) => {}
                (State::Participant, true) => self.decide(out),
                // It is in a round that we have just learnt of: begin a list.
                (State::Idle | State::Vacant, true) => self.compete(out),
                // We have retired since we sent it.
                (State::Idle | State::Participant | State::Vacant, false) => self.start(out),
            };
        }
        // The owner is dead and would be next: its name is on lists where it does not belong.
        if self.ring.onward(uid).is_none() {
            return self.start(out);
        }
        let own_name_last = self.config.mutation == Some(Mutation::OwnNameLast);
        let is_first = matches!(self.state, State::Idle | State::Vacant);
        if is_first {
            self.state = State::Participant;
            self.active.clear();
        }
        let own = is_first && self.ring.is_eligible();
        if own {
            self.active.insert(me);
        }
        self.active.insert(uid);
        if own && !own_name_last {
            self.pass_on(me, self.life, round, out);
        }
        self.pass_on(uid, life, round, out);
        if own && own_name_last {
            self.pass_on(me, self.life, round, out);
        }
        if self.config.mutation == Some(Mutation::ElectEarly) && self.state == State::Participant {
            self.decide(out);
        }
    }

    /// Sends a name on; the name of a dead process ends before its place.
    fn pass_on(&mut self, uid: NodeId, life: Incarnation, round: Option<u64>, out: &mut impl Effects<Self>) {
        if let Some(next) = self.ring.onward(uid) {
            self.handoff.send(next, Msg::Elect { uid, round, life }, out);
        }
    }

    /// Our name is back: the list is complete.
    fn decide(&mut self, out: &mut impl Effects<Self>) {
        debug_assert!(self.state == State::Participant, "an election is decided once");
        self.active.insert(self.ring.id());
        self.round.settle();
        // A leader that has died since is not announced: whoever stood before it starts again when it hears of that.
        let leader = self.config.weights.highest(self.active.iter());
        if let Some(leader) = leader.filter(|leader| !self.ring.is_down(*leader)) {
            self.settle(leader, out);
        } else if self.config.is_acked {
            // It may be that nobody else hears of it.
            self.start(out);
        }
    }

    /// Takes on a leader and tells the successor.
    fn settle(&mut self, leader: NodeId, out: &mut impl Effects<Self>) {
        let round = self.round.number();
        self.state = State::Settled { leader };
        out.emit(Event::Elected { leaders: [leader].into(), term: 0 });
        if let Some(next) = self.ring.onward(leader) {
            self.handoff.send(next, Msg::Elected { leader, round }, out);
        }
    }

    fn on_elected(&mut self, leader: NodeId, out: &mut impl Effects<Self>) {
        let key = |id| self.config.weights.key(id);
        let me = self.ring.id();
        let is_overruled = self.ring.is_eligible() && key(me) > key(leader);
        let is_late = self.ring.is_before_dead(leader) || (leader == me && !self.ring.is_eligible());
        match self.state {
            // Two of the same round can differ only in whom they met; the higher one prevails.
            State::Settled { leader: known } if key(leader) <= key(known) => {}
            // It won without us, or is dead, or has retired: not our leader.
            State::Idle | State::Participant | State::Settled { .. } | State::Vacant
                if is_overruled || is_late =>
            {
                self.start(out);
            }
            State::Idle | State::Participant | State::Settled { .. } | State::Vacant => {
                self.settle(leader, out);
            }
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
                if let Some(next) = self.ring.onward(uid) {
                    self.handoff.send(next, Msg::Retire { uid, round }, out);
                }
            }
        }
    }

    fn send_again(&mut self, message: Msg, out: &mut impl Effects<Self>) {
        let Some(Receipt { owner, round }) = message.receipt() else { return };
        match self.ring.onward(owner) {
            Some(next) => self.handoff.send(next, message, out),
            // The owner is dead, and its name on lists where it does not belong; or we are alone. Once is enough.
            None if matches!(message, Msg::Elect { .. }) && round == self.round.known() => self.start(out),
            None => {}
        }
    }

    /// Tells a new successor who leads.
    fn greet(&mut self, out: &mut impl Effects<Self>) {
        match self.state {
            State::Settled { leader } => {
                if let Some(next) = self.ring.onward(leader) {
                    self.handoff.send(next, Msg::Elected { leader, round: self.round.number() }, out);
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
                self.state = State::Idle;
                self.active.clear();
            }
        }
        Some(round)
    }

    /// Who was active in the last election, as far as this process has noticed.
    #[must_use]
    pub fn active(&self) -> &NodeSet {
        &self.active
    }
}

mutants! {
    enum Mutation {
        ElectEarly {
            name: "elect-early", breaks: "E1", nodes: 3, trigger: Schedule,
            change: "a process decides when the first name comes by, not when its own is back",
        }
        OwnNameLast {
            name: "own-name-last", breaks: "E1", nodes: 3, trigger: Schedule,
            change: "the name that wakes a process goes on before its own, and is back before all have been heard",
        }
    }
}

impl Algorithm for RingActiveList {
    const ABOUT: About = About {
        name: "ring-active-list",
        title: "Ring election with active lists",
        paper: "Le Lann: Distributed systems – towards a formal approach, IFIP Congress, 1977",
        idea: "every name goes round once; then each decides by itself",
        family: crate::election::FAMILY,
        channels: Channels::Fifo,
        synchrony: Synchrony::Asynchronous,
        topology: Topology::Ring,
        cost: "n^2+n, however many start",
        faults: "crashes: the ring closes over the dead, who takes part starts again",
        settings: &[Weights::SETTING, RING, HANDOFF],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<Self::Config, SettingError> {
        Ok(RingActiveListConfig {
            weights: Weights::read(settings),
            is_acked: settings.get(HANDOFF.key) == "acked",
            mutation: Mutation::of(settings),
        })
    }
}

impl Election for RingActiveList {
    fn leaders(&self) -> &[NodeId] {
        match &self.state {
            State::Settled { leader } => core::slice::from_ref(leader),
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
        config.weights.highest(eligible.iter().copied()).into_iter().collect()
    }

    fn formula(config: &Self::Config, members: &Members, tally: &Tally<'_>) -> Formula {
        let m = tally.live(members);
        if tally.starters.is_empty() && tally.recovered.is_none() || m <= 1 {
            return Formula::exactly("0", 0);
        }
        if tally.recovered.is_some() {
            return Formula { text: "n^2+n, and a second election", low: m * m + m, high: None };
        }
        let text = tally.words("n^2+n", "l^2+l, l alive");
        with_lost_tries(Formula::exactly(text, m * m + m), config.is_acked, tally, m)
    }
}

#[cfg(test)]
mod tests;
