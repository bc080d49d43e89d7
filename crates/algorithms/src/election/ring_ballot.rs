//! Election by ballot: the travelling list carries votes.
//!
//! The list-carrying ring election ([`RingList`](super::RingList)) with weighted voting in the manner of Gifford:
//! *Weighted voting for replicated data*, SOSP 1979.
//!
//! The one with the highest priority need not be the one whom the others want. Here everyone adds a ballot to the list:
//! its name, its weight, and whom it prefers. When the list is back, it holds the ballots of all who are alive. The
//! starter adds up the weights; the candidate with the largest sum leads, of two equal ones the larger name.
//!
//! ```text
//!   weights 1:5, all others 1     p1 prefers p2, p2 and p3 prefer p3, p4 and p5 prefer p5
//!   ballots  1→2  2→3  3→3  4→5  5→5         p2 has 5, p3 has 2, p5 has 2: p2 leads
//! ```
//!
//! A vote for somebody who has no ballot on the list, because it is dead or has retired, counts for the next preference
//! of the voter, which is the voter itself.
//!
//! **Cost**: 2n messages for every starter, as without votes. Several starters count the same ballots.
//!
//! **Assumes** nothing about time or the order of messages.
//!
//! **Crashes** and recoveries are handled as in the election without votes. A process that hears of a result without
//! its own ballot starts again, since its vote may change the result; so does one that loses a voter without whom another
//! would lead. With `handoff=acked` no detector is needed; see [`handoff`](super::handoff).
//!
//! **Caveats**: those of the election without votes. The ballots are not secret, and everyone counts its own weight as it
//! likes: this is cooperation, not democracy.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;

use conclave_core::{Boot, Counter, Effects, Input, Members, Message, NodeId, Phase, Protocol};
use serde::{Deserialize, Serialize};

use super::handoff::{HANDOFF, Handed, Handoff, Receipt, RingTimer, signals, with_lost_tries};
use super::on_ring::{self, OnRing, seated};
use super::ring::{Age, ROUND, Ring, Round, visit_round};
use super::{Election, Event, RING, Request, Tally, Weights, phase};
use crate::{
    About, Algorithm, Channels, Formula, Setting, SettingError, Settings, Synchrony, Topology, Values,
};

/// A process of the ring election by ballot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RingBallot {
    ring: Ring,
    config: RingBallotConfig,
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
    Participant,
    /// Knows the outcome.
    Settled {
        leader: NodeId,
        /// The ballots that made it so.
        ballots: Vec<Ballot>,
    },
    /// May not lead, and has asked the others to elect somebody. Perhaps nobody may lead.
    Vacant,
}

/// Settings of [`RingBallot`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RingBallotConfig {
    weights: Weights,
    is_acked: bool,
    /// Whom each process prefers, if not itself.
    prefers: Option<Arc<BTreeMap<NodeId, NodeId>>>,
    mutation: Option<Mutation>,
}

/// One vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ballot {
    /// Whose it is.
    pub voter: NodeId,
    /// How much it counts.
    pub weight: u64,
    /// For whom; for the voter itself if that one cannot be elected.
    pub prefers: NodeId,
}

/// What the processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RingBallotMessage {
    /// The ballots, as far as the list has come.
    Election {
        /// Who started it.
        initiator: NodeId,
        /// The round; none if the initiator is back from a crash and does not know it.
        round: Option<u64>,
        /// The ballots so far, the initiator's first.
        ballots: Vec<Ballot>,
    },
    /// The result.
    Coordinator {
        /// Who finished the election.
        initiator: NodeId,
        /// Its round.
        round: u64,
        /// Who leads.
        leader: NodeId,
        /// The ballots that made it so.
        ballots: Vec<Ballot>,
    },
    /// The result once more, for a new successor; passed on for as long as it is news.
    Inform {
        /// As in the result.
        round: u64,
        /// As in the result.
        leader: NodeId,
        /// As in the result.
        ballots: Vec<Ballot>,
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

use RingBallotMessage as Msg;

impl Message for RingBallotMessage {
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

impl Handed for RingBallotMessage {
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

impl Protocol for RingBallot {
    type Config = RingBallotConfig;
    type Message = RingBallotMessage;
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
            State::Idle | State::Participant => {}
            State::Settled { leader, ballots } => {
                let voters = ballots.iter().map(|ballot| ballot.voter);
                assert!(self.ring.is_list(voters), "members vote, each once");
                assert!(holds(ballots, *leader), "a leader is one of those who voted");
                assert!(!is_eligible || holds(ballots, me), "who may lead follows only if it has voted");
                assert!(is_eligible || *leader != me, "who has retired does not lead");
                assert!(self.round.known().is_some(), "an election that is over has a number");
            }
            State::Vacant => assert!(!is_eligible, "who may lead does not leave it to others"),
        }
    }
}

impl OnRing for RingBallot {
    seated!();

    fn is_back(&self) -> bool {
        self.is_back
    }

    fn objection(&self, message: &Msg) -> Option<&'static str> {
        let me = self.ring.id();
        let is_list = |ballots: &[Ballot]| self.ring.is_list(ballots.iter().map(|ballot| ballot.voter));
        match message {
            Msg::Election { initiator, ballots, .. } => {
                let fits = ballots.first().is_some_and(|first| first.voter == *initiator) && is_list(ballots);
                let is_new = *initiator == me || !holds(ballots, me);
                (!fits || !is_new).then_some("members vote, each once, the starter first")
            }
            Msg::Coordinator { initiator, leader, ballots, .. } => {
                let fits = self.ring.members().contains(*initiator) && holds(ballots, *leader);
                (!fits || !is_list(ballots)).then_some("a leader is chosen by ballots of members")
            }
            Msg::Inform { leader, ballots, .. } => (!holds(ballots, *leader) || !is_list(ballots))
                .then_some("a leader is chosen by ballots of members"),
            Msg::Retire { uid, .. } => (!self.ring.members().contains(*uid)).then_some("only members retire"),
            Msg::Ack(_) | Msg::CheckIn => None,
        }
    }

    fn receive(&mut self, message: Msg, out: &mut impl Effects<Self>) {
        match message {
            Msg::Election { initiator, round, ballots } => {
                if let Some(round) = self.join(round) {
                    self.on_election(initiator, round, ballots, out);
                }
            }
            // The lap is over; or it is about an earlier life of ours, of which we know nothing.
            Msg::Coordinator { initiator, .. } if initiator == self.ring.id() => {}
            Msg::Coordinator { initiator, round, leader, ballots } => {
                if self.join(Some(round)).is_some()
                    && self.accept(leader, &ballots, out)
                    && let Some(next) = self.ring.onward(initiator)
                {
                    self.handoff.send(next, Msg::Coordinator { initiator, round, leader, ballots }, out);
                }
            }
            Msg::Inform { round, leader, ballots } => {
                let is_news = self.join(Some(round)).is_some() && self.leaders() != [leader];
                if is_news
                    && self.accept(leader, &ballots, out)
                    && self.leaders() == [leader]
                    && let Some(next) = self.ring.successor()
                {
                    self.handoff.send(next, Msg::Inform { round, leader, ballots }, out);
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
            // Who may not be elected has no vote either, and ours may have made the difference.
            State::Participant | State::Settled { .. } => self.start(out),
            State::Idle | State::Vacant => {}
        }
    }

    fn on_peer_down(&mut self, peer: NodeId, out: &mut impl Effects<Self>) {
        if self.config.is_acked {
            let unsent = self.handoff.give_up(peer, self.round, out);
            return self.lose(peer, unsent, out);
        }
        let has_new_successor = self.ring.bypass(peer);
        match &self.state {
            // The peer may have died with the message that we wait for.
            State::Participant | State::Vacant => self.start(out),
            // The votes of the dead count no longer, nor do those for them.
            State::Settled { leader, ballots } if self.recount(ballots) != Some(*leader) => self.start(out),
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
        match &self.state {
            // It may have died with what it had taken.
            State::Participant | State::Vacant if has_new_successor && has_taken => self.start(out),
            // One is enough to call for another leader, the last before it.
            State::Settled { leader, ballots }
                if self.recount(ballots) != Some(*leader)
                    && (has_new_successor || self.is_before_a_dead_voter(ballots)) =>
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
                unsent.into_iter().for_each(|message| self.send_again(message, out));
            }
        }
    }
}

impl RingBallot {
    /// Sends a list of ballots round in the round that we are in, or asks the next one to.
    fn compete(&mut self, out: &mut impl Effects<Self>) {
        let (me, round) = (self.ring.id(), self.round.known());
        let is_eligible = self.ring.is_eligible();
        self.state = if is_eligible { State::Participant } else { State::Vacant };
        let ballots = [self.config.ballot(me)].into();
        match (self.ring.successor(), is_eligible) {
            (Some(next), true) => {
                self.handoff.send(next, Msg::Election { initiator: me, round, ballots }, out);
            }
            (Some(next), false) => self.handoff.send(next, Msg::Retire { uid: me, round }, out),
            (None, true) => self.finish(ballots, out),
            (None, false) => {}
        }
    }

    fn on_election(
        &mut self,
        initiator: NodeId,
        round: Option<u64>,
        mut ballots: Vec<Ballot>,
        out: &mut impl Effects<Self>,
    ) {
        let me = self.ring.id();
        if initiator == me {
            return self.finish(ballots, out);
        }
        if let State::Idle | State::Vacant = self.state {
            self.state = State::Participant;
        }
        if self.ring.is_eligible() {
            ballots.push(self.config.ballot(me));
        }
        self.pass_on(initiator, round, ballots, out);
    }

    /// Passes a list on.
    fn pass_on(
        &mut self,
        initiator: NodeId,
        round: Option<u64>,
        mut ballots: Vec<Ballot>,
        out: &mut impl Effects<Self>,
    ) {
        match self.ring.onward(initiator) {
            Some(next) => self.handoff.send(next, Msg::Election { initiator, round, ballots }, out),
            None if initiator == self.ring.id() => self.finish(ballots, out),
            // The initiator is dead, and the list complete. In a round of its own: should the initiator be back, it
            // may find another result in this one.
            None => {
                ballots.retain(|ballot| ballot.voter != initiator);
                self.round.advance();
                self.handoff.forget_taken();
                self.state = State::Participant;
                self.finish(ballots, out);
            }
        }
    }

    /// Everyone has voted: counts, and tells everyone.
    fn finish(&mut self, mut ballots: Vec<Ballot>, out: &mut impl Effects<Self>) {
        let me = self.ring.id();
        ballots.retain(|ballot| ballot.voter != me || self.ring.is_eligible());
        let Some(leader) = self.config.count(&ballots) else {
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
        self.settle(leader, &ballots, out);
        if let Some(next) = self.ring.successor() {
            let round = self.round.number();
            self.handoff.send(next, Msg::Coordinator { initiator: me, round, leader, ballots }, out);
        }
    }

    /// Takes on a leader; starts an election instead if this one was held without us, or made us leader too late.
    fn accept(&mut self, leader: NodeId, ballots: &[Ballot], out: &mut impl Effects<Self>) -> bool {
        let me = self.ring.id();
        let is_slighted =
            self.ring.is_eligible() && !holds(ballots, me) || !self.ring.is_eligible() && leader == me;
        // Acked, the result may come when all else is known; the last process before a dead leader is the one to call.
        let is_late = self.config.is_acked && self.ring.is_before_dead(leader);
        if is_slighted || is_late {
            self.start(out);
            return false;
        }
        self.settle(leader, ballots, out);
        true
    }

    fn settle(&mut self, leader: NodeId, ballots: &[Ballot], out: &mut impl Effects<Self>) {
        let key = |id| self.config.weights.key(id);
        match &self.state {
            // Two of the same round can differ only in whom they met; the higher one prevails.
            State::Settled { leader: known, .. } if key(leader) <= key(*known) => {}
            State::Idle | State::Participant | State::Settled { .. } | State::Vacant => {
                self.state = State::Settled { leader, ballots: ballots.to_vec() };
                out.emit(Event::Elected { leaders: [leader].into(), term: 0 });
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
        let next = match message {
            Msg::Election { initiator, round, ballots } => {
                return self.pass_on(initiator, round, ballots, out);
            }
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
            State::Settled { leader, ballots } => {
                if let Some(next) = self.ring.successor() {
                    let (round, leader, ballots) = (self.round.number(), *leader, ballots.clone());
                    self.handoff.send(next, Msg::Inform { round, leader, ballots }, out);
                }
            }
            State::Vacant => self.start(out),
            State::Idle | State::Participant => {}
        }
    }

    fn is_before_a_dead_voter(&self, ballots: &[Ballot]) -> bool {
        ballots.iter().any(|ballot| self.ring.is_before_dead(ballot.voter))
    }

    /// Who would lead by the ballots of those who are not down.
    fn recount(&self, ballots: &[Ballot]) -> Option<NodeId> {
        let valid = ballots.iter().copied().filter(|ballot| !self.ring.is_down(ballot.voter));
        self.config.count(&valid.collect::<Vec<_>>())
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
}

fn holds(ballots: &[Ballot], voter: NodeId) -> bool {
    ballots.iter().any(|ballot| ballot.voter == voter)
}

impl RingBallotConfig {
    fn ballot(&self, voter: NodeId) -> Ballot {
        let (weight, _) = self.weights.key(voter);
        let prefers = self.prefers.as_ref().and_then(|prefers| prefers.get(&voter).copied());
        Ballot { voter, weight, prefers: prefers.unwrap_or(voter) }
    }

    /// Who has the largest sum; of two equal ones, the larger.
    fn count(&self, ballots: &[Ballot]) -> Option<NodeId> {
        let counted = match self.mutation {
            Some(Mutation::ForgetLast) if ballots.len() > 1 => &ballots[..ballots.len() - 1],
            Some(Mutation::ForgetLast | Mutation::TieToLower) | None => ballots,
        };
        let mut sums: BTreeMap<NodeId, u64> = ballots.iter().map(|ballot| (ballot.voter, 0)).collect();
        for ballot in counted {
            let candidate = if sums.contains_key(&ballot.prefers) { ballot.prefers } else { ballot.voter };
            let sum = sums.entry(candidate).or_default();
            // A peer may give itself any weight.
            *sum = sum.saturating_add(ballot.weight);
        }
        let sums = sums.into_iter().map(|(candidate, sum)| (sum, candidate));
        let best = match self.mutation {
            Some(Mutation::TieToLower) => sums.max_by_key(|(sum, candidate)| (*sum, Reverse(*candidate))),
            Some(Mutation::ForgetLast) | None => sums.max(),
        };
        best.map(|(_, candidate)| candidate)
    }
}

mutants! {
    enum Mutation {
        ForgetLast {
            name: "forget-last", breaks: "E5", nodes: 3, trigger: Schedule,
            change: "the last ballot is not counted",
        }
        TieToLower {
            name: "tie-to-lower", breaks: "E5", nodes: 3, trigger: Schedule,
            change: "of two candidates with equal sums the lower one leads",
        }
    }
}

impl Algorithm for RingBallot {
    const ABOUT: About = About {
        name: "ring-ballot",
        title: "Ring election by ballot",
        paper: "Le Lann: Distributed systems – towards a formal approach, IFIP Congress, 1977; with the weighted votes of \
                Gifford: Weighted voting for replicated data, SOSP, 1979",
        idea: "a list goes round and gathers votes; the starter counts",
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
                key: "prefers",
                values: Values::Numbers,
                default: "self",
                unsafe_values: &[],
                help: "for whom each process votes, voter:candidate; who is not named votes for itself",
            },
        ],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, members: &Members) -> Result<Self::Config, SettingError> {
        let mut prefers = BTreeMap::new();
        for (voter, candidate) in settings.numbers("prefers") {
            let candidate = u32::try_from(candidate).ok().map(NodeId).filter(|id| members.contains(*id));
            let Some(candidate) = candidate else {
                return Err(SettingError::Unfit(format!("{voter} prefers somebody who is not a member")));
            };
            prefers.insert(voter, candidate);
        }
        Ok(RingBallotConfig {
            weights: Weights::read(settings),
            is_acked: settings.get(HANDOFF.key) == "acked",
            prefers: (!prefers.is_empty()).then(|| Arc::new(prefers)),
            mutation: Mutation::of(settings),
        })
    }
}

impl Election for RingBallot {
    fn leaders(&self) -> &[NodeId] {
        match &self.state {
            State::Settled { leader, .. } => core::slice::from_ref(leader),
            State::Idle | State::Participant | State::Vacant => &[],
        }
    }

    fn is_participant(&self) -> bool {
        matches!(self.state, State::Participant)
    }

    fn reweigh(config: &mut Self::Config, id: NodeId, weight: u64) {
        config.weights.set(id, weight);
    }

    fn winners(config: &Self::Config, _members: &Members, eligible: &[NodeId]) -> Vec<NodeId> {
        // The ideal, whatever a mutant makes of it.
        let config = RingBallotConfig { mutation: None, ..config.clone() };
        let ballots: Vec<_> = eligible.iter().map(|id| config.ballot(*id)).collect();
        config.count(&ballots).into_iter().collect()
    }

    fn formula(config: &Self::Config, members: &Members, tally: &Tally<'_>) -> Formula {
        let m = tally.live(members);
        let all = 2 * m * tally.starters.len() as u64;
        if tally.recovered.is_some() {
            return Formula { text: "2n per starter, and a second election", low: all, high: None };
        }
        if m <= 1 {
            return Formula::exactly("0", 0);
        }
        let starters = tally.starters.len() as u64;
        let text = tally.words("2n per starter", "2l per starter, l alive");
        with_lost_tries(Formula::exactly(text, all), config.is_acked, tally, starters)
    }
}

#[cfg(test)]
mod tests;
