//! Chang and Roberts: the largest name survives a lap of the ring.
//!
//! Chang, Roberts: *An improved algorithm for decentralized extrema-finding in circular configurations of
//! processes*, CACM 22(5), 1979; after Le Lann: *Distributed systems – towards a formal approach*, IFIP 1977.
//!
//! Whoever starts sends its own name to its successor. A process passes on a larger name than its own; a smaller one it
//! replaces by its own, or swallows if its own is under way already. The one name that comes back to its owner is
//! the largest. A second lap tells everyone.
//!
//! ```text
//!   p2 starts    p2 ──2──▶ p4 ──4──▶ p1 ──4──▶ p3 ──4──▶ p2 ──4──▶ p4     p4 sees its own name: it has won
//!                          p4 ──▶ Elected 4 ──▶ p1 ──▶ p3 ──▶ p2 ──▶ p4
//! ```
//!
//! **Cost**: one starter, d places before the largest: exactly 2n + d messages, one after the other: d to wake the
//! largest, n for its name, n for the news. That is 2n at best and 3n − 1 at worst. If all start at once, each name
//! travels to the first larger one: between 2n − 1 and n(n + 1)/2 for the names, about n ln n on average.
//!
//! **Without participant states** (`participants=off`), the form in which the algorithm is often introduced: a smaller name is
//! replaced by one's own every time, and swallowed never. Every start then goes all the way by itself, 2n + d messages,
//! however many others are under way: the names of all but the first call are what participant states save.
//!
//! **Assumes** nothing about time. Any order of messages is safe; the counts need channels that keep it.
//!
//! **Crashes** were not the authors' concern. Here a process that learns of one while it takes part, or that has lost
//! its leader, starts again in the next round; see [`ring`](super::ring) for rounds, laps and new successors. A name
//! whose owner is dead ends before the owner's place, and who finds it there starts again, too.
//!
//! With `handoff=acked` the dead are found without a detector, and only who stood before one of them starts again; see
//! [`handoff`](super::handoff).
//!
//! **Retirement**: a process that no longer wants to lead passes everything on. If it led or took part, it sends
//! `Retire`, which acts like the name below all others: the first that may lead replaces it by its own.
//!
//! **Caveats**: every process that is told of the leader's crash starts. That is the expensive case of all starting
//! at once, and more if the news of the crash is slow.

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

/// A process of Chang and Roberts' algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChangRoberts {
    ring: Ring,
    config: ChangRobertsConfig,
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
    /// Takes part: its own name is under way, or a larger one that it passed on.
    Participant {
        /// It has passed on a larger name, and does not win this round even if its own comes back: whoever is larger
        /// may have come up behind its name.
        beaten: bool,
    },
    /// Knows the outcome.
    Settled { leader: NodeId },
    /// May not lead, and has asked the others to elect somebody. Perhaps nobody may lead.
    Vacant,
}

/// Settings of [`ChangRoberts`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChangRobertsConfig {
    weights: Weights,
    /// Whether who takes part swallows smaller names, since its own is under way already.
    swallows: bool,
    is_acked: bool,
    mutation: Option<Mutation>,
}

/// What the processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ChangRobertsMessage {
    /// This one wants to lead.
    Election {
        /// Its name.
        uid: NodeId,
        /// The round; none if the sender is back from a crash and does not know it.
        round: Option<u64>,
    },
    /// This one leads.
    Elected {
        /// Its name.
        uid: NodeId,
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

use ChangRobertsMessage as Msg;

impl Message for ChangRobertsMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Election, Elected, Retire, Ack, CheckIn)
    }

    fn is_overhead(&self) -> bool {
        matches!(self, Msg::Ack(_) | Msg::CheckIn)
    }

    fn visit_counters(&mut self, _from: NodeId, _members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            Msg::Election { round, .. } | Msg::Retire { round, .. } => visit_round(round, visit),
            Msg::Elected { round, .. } => visit(Counter::exact(ROUND, round)),
            Msg::Ack(receipt) => visit_round(&mut receipt.round, visit),
            Msg::CheckIn => {}
        }
    }
}

impl Handed for ChangRobertsMessage {
    fn receipt(&self) -> Option<Receipt> {
        match *self {
            Msg::Election { uid: owner, round } | Msg::Retire { uid: owner, round } => {
                Some(Receipt { owner, round })
            }
            Msg::Elected { uid: owner, round } => Some(Receipt { owner, round: Some(round) }),
            Msg::Ack(_) | Msg::CheckIn => None,
        }
    }

    signals!(Election, Elected, Retire);
}

impl Protocol for ChangRoberts {
    type Config = ChangRobertsConfig;
    type Message = ChangRobertsMessage;
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
        let is_eligible = self.ring.is_eligible();
        match self.state {
            State::Idle | State::Participant { beaten: true } => {}
            State::Participant { beaten: false } => {
                assert!(is_eligible, "only who may lead stands for election");
            }
            State::Settled { leader } => {
                assert!(self.ring.members().contains(leader), "a member leads");
                assert!(is_eligible || leader != self.ring.id(), "who has retired does not lead");
                assert!(self.round.known().is_some(), "an election that is over has a number");
            }
            State::Vacant => assert!(!is_eligible, "who may lead does not leave it to others"),
        }
    }
}

impl OnRing for ChangRoberts {
    seated!();

    fn is_back(&self) -> bool {
        self.is_back
    }

    fn objection(&self, message: &Msg) -> Option<&'static str> {
        let owner = message.receipt().map(|receipt| receipt.owner);
        (!owner.is_some_and(|owner| self.ring.members().contains(owner)))
            .then_some("only members stand for election")
    }

    fn receive(&mut self, message: Msg, out: &mut impl Effects<Self>) {
        match message {
            Msg::Election { uid, round } => self.on_election(uid, round, out),
            Msg::Elected { uid, round } => self.on_elected(uid, round, out),
            Msg::Retire { uid, round } => self.on_retire(uid, round, out),
            Msg::Ack(_) | Msg::CheckIn => {}
        }
    }

    fn on_call(&mut self, out: &mut impl Effects<Self>) {
        match self.state {
            _ if !self.config.swallows => self.call(out),
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
            State::Settled { leader } if leader == self.ring.id() => self.start(out),
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
            State::Settled { leader } if self.ring.is_down(leader) => self.start(out),
            State::Settled { .. } if has_new_successor => self.greet(out),
            State::Idle | State::Settled { .. } => {}
        }
    }

    fn on_peer_up(&mut self, peer: NodeId, out: &mut impl Effects<Self>) {
        if !self.ring.readmit(peer) {
            return;
        }
        self.handoff.forget_taken();
        match self.state {
            // What went past the peer may be lost behind it, where we no longer hear of it.
            State::Participant { .. } if self.config.is_acked => self.start(out),
            _ => self.greet(out),
        }
    }

    fn lose(&mut self, peer: NodeId, unsent: Vec<Msg>, out: &mut impl Effects<Self>) {
        let has_taken = self.handoff.has_taken() || unsent.is_empty();
        let has_new_successor = self.ring.bypass(peer);
        if has_new_successor {
            self.handoff.forget_taken();
        }
        match self.state {
            // It may have died with what it had taken.
            State::Participant { .. } | State::Vacant if has_new_successor && has_taken => self.start(out),
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
            State::Idle | State::Participant { .. } | State::Settled { .. } | State::Vacant => {
                unsent.into_iter().for_each(|message| self.send_again(message, out));
            }
        }
    }
}

impl ChangRoberts {
    /// Without participant states: one more call in the round that we are in. Calls do not disturb each other, and the
    /// next round is only for what a crash has interrupted.
    fn call(&mut self, out: &mut impl Effects<Self>) {
        if self.round.known() == Some(0) {
            self.round.advance();
        }
        self.compete_again(out);
    }

    /// Sends our name although it may be under way already. Who was beaten stays beaten, and who knows the outcome of this
    /// round knows it.
    fn compete_again(&mut self, out: &mut impl Effects<Self>) {
        let before = self.state.clone();
        self.compete(out);
        let stays = matches!(before, State::Participant { beaten: true } | State::Settled { .. });
        if stays && self.ring.successor().is_some() {
            self.state = before;
        }
    }

    /// Stands for election in the round that we are in, or asks the next one to.
    fn compete(&mut self, out: &mut impl Effects<Self>) {
        let (uid, round) = (self.ring.id(), self.round.known());
        self.state =
            if self.ring.is_eligible() { State::Participant { beaten: false } } else { State::Vacant };
        match (self.ring.successor(), self.ring.is_eligible()) {
            (Some(next), true) => self.handoff.send(next, Msg::Election { uid, round }, out),
            (Some(next), false) => self.handoff.send(next, Msg::Retire { uid, round }, out),
            (None, true) => self.become_leader(out),
            (None, false) => {}
        }
    }

    fn on_election(&mut self, uid: NodeId, round: Option<u64>, out: &mut impl Effects<Self>) {
        // Without participant states the outcome of one call does not end the others.
        let joined = if self.config.swallows { self.join_open(round) } else { self.join(round) };
        let Some(round) = joined else { return };
        let me = self.ring.id();
        if uid == me {
            let is_beaten = self.state == (State::Participant { beaten: true })
                && self.config.mutation != Some(Mutation::PassSmaller);
            match self.ring.is_eligible() {
                true if is_beaten || self.follows_above(me) => {}
                true => self.become_leader(out),
                // We have retired since we sent it; the others let it beat theirs and wait.
                false => self.start(out),
            }
            return;
        }
        let was_participant = self.is_participant();
        if !self.ring.is_eligible() || self.config.weights.key(uid) > self.config.weights.key(me) {
            if was_participant && self.config.mutation == Some(Mutation::SwallowLarger) {
                return;
            }
            if !self.follows_above(uid) && self.leaders() != [uid] {
                self.state = State::Participant { beaten: true };
            }
            self.pass_on(uid, round, out);
        } else if !self.config.swallows {
            self.compete_again(out);
        } else if !was_participant {
            self.compete(out);
        } else if self.config.mutation == Some(Mutation::PassSmaller)
            && let Some(next) = self.ring.onward(uid)
        {
            self.handoff.send(next, Msg::Election { uid, round }, out);
        }
    }

    /// Whether we know a leader of this round that is above this process.
    fn follows_above(&self, id: NodeId) -> bool {
        let key = |id| self.config.weights.key(id);
        matches!(self.state, State::Settled { leader } if key(leader) > key(id))
    }

    /// Passes a name on.
    fn pass_on(&mut self, uid: NodeId, round: Option<u64>, out: &mut impl Effects<Self>) {
        match self.ring.onward(uid) {
            Some(next) => self.handoff.send(next, Msg::Election { uid, round }, out),
            // The owner is dead, and those before us have let its name beat theirs. Or we are alone.
            None => self.start(out),
        }
    }

    fn on_elected(&mut self, uid: NodeId, round: u64, out: &mut impl Effects<Self>) {
        if self.config.mutation == Some(Mutation::EndlessNews)
            && let (State::Settled { .. }, Some(next)) = (&self.state, self.ring.successor())
        {
            self.handoff.send(next, Msg::Elected { uid, round }, out);
        }
        // The lap is over; or it is about an earlier life of ours, of which we know nothing.
        if uid == self.ring.id() {
            return;
        }
        if self.join(Some(round)).is_none() {
            return;
        }
        let key = |id| self.config.weights.key(id);
        // Two of the same round were alone, each on its side of a wrong suspicion: the higher one prevails.
        if let State::Settled { leader } = self.state
            && key(uid) <= key(leader)
        {
            // Without participant states the news of each call goes all the way.
            if leader == uid
                && !self.config.swallows
                && let Some(next) = self.ring.onward(uid)
            {
                self.handoff.send(next, Msg::Elected { uid, round }, out);
            }
            return;
        }
        let overruled = self.ring.is_eligible() && key(self.ring.id()) > key(uid);
        match self.ring.onward(uid) {
            Some(next) if !overruled => {
                self.settle(uid, out);
                self.handoff.send(next, Msg::Elected { uid, round }, out);
            }
            // It won without us, or it is dead: not our leader.
            Some(_) | None => self.start(out),
        }
    }

    /// A name below all others.
    fn on_retire(&mut self, uid: NodeId, round: Option<u64>, out: &mut impl Effects<Self>) {
        let Some(round) = self.join_open(round) else { return };
        if self.is_participant() || uid == self.ring.id() {
            return;
        }
        if self.ring.is_eligible() {
            return self.compete(out);
        }
        self.state = State::Vacant;
        if let Some(next) = self.ring.onward(uid) {
            self.handoff.send(next, Msg::Retire { uid, round }, out);
        }
    }

    fn send_again(&mut self, message: Msg, out: &mut impl Effects<Self>) {
        match message {
            Msg::Election { uid, round } => self.pass_on(uid, round, out),
            Msg::Elected { uid, .. } | Msg::Retire { uid, .. } => {
                if let Some(next) = self.ring.onward(uid) {
                    self.handoff.send(next, message, out);
                }
            }
            Msg::Ack(_) | Msg::CheckIn => {}
        }
    }

    /// Tells a new successor who leads.
    fn greet(&mut self, out: &mut impl Effects<Self>) {
        match self.state {
            State::Settled { leader: uid } => {
                if let Some(next) = self.ring.onward(uid) {
                    self.handoff.send(next, Msg::Elected { uid, round: self.round.number() }, out);
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

    /// The same for messages that are of no use either if the outcome of their round is known.
    #[allow(clippy::option_option, reason = "a round that nobody knows is a round, too")]
    fn join_open(&mut self, message: Option<u64>) -> Option<Option<u64>> {
        self.join(message).filter(|_| !matches!(self.state, State::Settled { .. }))
    }

    fn become_leader(&mut self, out: &mut impl Effects<Self>) {
        debug_assert!(self.ring.is_eligible(), "who has retired does not lead");
        debug_assert!(
            !matches!(self.state, State::Settled { .. }) || !self.config.swallows,
            "an election is won once"
        );
        self.round.settle();
        let (uid, round) = (self.ring.id(), self.round.number());
        self.settle(uid, out);
        if let Some(next) = self.ring.successor() {
            self.handoff.send(next, Msg::Elected { uid, round }, out);
        }
    }

    fn settle(&mut self, leader: NodeId, out: &mut impl Effects<Self>) {
        if self.state == (State::Settled { leader }) {
            return;
        }
        self.state = State::Settled { leader };
        out.emit(Event::Elected { leaders: [leader].into(), term: 0 });
    }
}

mutants! {
    enum Mutation {
        PassSmaller {
            name: "pass-smaller", breaks: "E1", nodes: 4, trigger: Schedule,
            change: "who takes part passes smaller names on instead of swallowing them: several come back",
        }
        SwallowLarger {
            name: "swallow-larger", breaks: "E2", nodes: 4, trigger: Schedule,
            change: "who takes part swallows larger names, too: none comes back",
        }
        EndlessNews {
            name: "endless-news", breaks: "END", nodes: 3, trigger: Schedule,
            change: "the news of the leader is passed on by those who know it already, forever",
        }
    }
}

impl Algorithm for ChangRoberts {
    const ABOUT: About = About {
        name: "chang-roberts",
        title: "Chang–Roberts",
        paper: "Chang, Roberts: An improved algorithm for decentralized extrema-finding in circular configurations \
                of processes, CACM 22(5), 1979",
        idea: "only the largest name gets round; its owner leads",
        family: crate::election::FAMILY,
        channels: Channels::Fifo,
        synchrony: Synchrony::Asynchronous,
        topology: Topology::Ring,
        cost: "2n+d for one starter d places before the largest; 3n-1 to n(n+1)/2+n if all start",
        faults: "crashes: the ring closes over the dead, who takes part starts again",
        settings: &[
            Weights::SETTING,
            RING,
            HANDOFF,
            Setting {
                key: "participants",
                values: Values::OneOf(&["on", "off"]),
                default: "on",
                unsafe_values: &[],
                help: "whether a process that takes part swallows smaller names, or replaces each by its own again",
            },
        ],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<Self::Config, SettingError> {
        Ok(ChangRobertsConfig {
            weights: Weights::read(settings),
            swallows: settings.get("participants") == "on",
            is_acked: settings.get(HANDOFF.key) == "acked",
            mutation: Mutation::of(settings),
        })
    }
}

impl Election for ChangRoberts {
    fn leaders(&self) -> &[NodeId] {
        match &self.state {
            State::Settled { leader } => core::slice::from_ref(leader),
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
        let m = tally.live(members);
        let all = m * (m + 1) / 2 + m;
        if tally.recovered.is_some() {
            return Formula { text: "2n+d, and a second election", low: 2 * m, high: None };
        }
        let alone = |starter: NodeId| {
            let live = || members.after(starter).filter(|id| !tally.absent.contains(id));
            let largest = config.weights.highest(live().chain([starter]));
            2 * m + live().position(|id| Some(id) == largest).map_or(0, |place| place as u64 + 1)
        };
        let formula = match tally.starters {
            _ if m <= 1 => Formula::exactly("0", 0),
            [] => Formula::exactly("0", 0),
            [starter] => Formula::exactly(tally.words("2n+d", "2l+d, l alive"), alone(*starter)),
            starters if !config.swallows => {
                Formula::exactly("2n+d for each starter", starters.iter().map(|id| alone(*id)).sum())
            }
            starters if starters.len() as u64 == m => {
                let text = tally.words("3n-1 to n(n+1)/2+n", "3l-1 to l(l+1)/2+l, l alive");
                Formula::between(text, 3 * m - 1, all)
            }
            _ => Formula::between(tally.words("2n to n(n+1)/2+n", "2l to l(l+1)/2+l, l alive"), 2 * m, all),
        };
        with_lost_tries(formula, config.is_acked, tally, tally.starters.len() as u64)
    }
}

#[cfg(test)]
mod tests;
