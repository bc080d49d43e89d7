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

use super::handoff::{HANDOFF, Handed, Handoff, Receipt, RingTimer, with_lost_tries};
use super::ring::{Age, ROUND, Ring, Round, visit_round};
use super::{Election, Event, RING, Request, Tally, Weights, phase};
use crate::{
    About, Algorithm, Channels, Formula, STRANGER, Setting, SettingError, Settings, Synchrony, Topology,
    Values,
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

    fn ack(receipt: Receipt) -> Self {
        Msg::Ack(receipt)
    }
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
        match input {
            Input::Receive { from, .. } if !self.ring.is_peer(from) => {
                out.reject(from, STRANGER);
            }
            Input::Receive { from, message: Msg::Ack(_) | Msg::CheckIn } if !self.config.is_acked => {
                out.reject(from, "on this ring nothing is acknowledged");
            }
            Input::Receive { from, message: Msg::Ack(receipt) } => {
                if self.handoff.on_ack(from, receipt, out) {
                    self.on_peer_up(from, out);
                }
            }
            Input::Receive { from, message: Msg::CheckIn } => self.on_check_in(from, out),
            Input::Receive { from, message } => {
                let receipt = message.receipt();
                if !receipt.is_some_and(|receipt| self.ring.members().contains(receipt.owner)) {
                    return out.reject(from, "only members stand for election");
                }
                self.receive(&message, out);
                self.handoff.acknowledge(from, receipt, out);
            }
            // A process that comes back has forgotten who leads, and may be the one who should.
            Input::Start if self.is_back => {
                if self.config.is_acked {
                    out.send_all(self.ring.members().others(self.ring.id()), &Msg::CheckIn);
                }
                self.start(out);
            }
            Input::Start => {}
            Input::Request(Request::Start) => match self.state {
                _ if !self.config.swallows => self.call(out),
                State::Participant { .. } => {}
                State::Idle | State::Settled { .. } | State::Vacant => self.start(out),
            },
            Input::Request(Request::Retire) => self.retire(out),
            // The group is fixed.
            Input::Request(Request::Leave | Request::Reweigh(_)) => {}
            Input::PeerDown { peer, .. } => self.on_peer_down(peer, out),
            Input::PeerUp { peer, .. } => self.on_peer_up(peer, out),
            Input::Expire(RingTimer::Handoff) => {
                if let Some((peer, unsent)) = self.handoff.silence(self.round, out) {
                    self.lose(peer, unsent, out);
                }
            }
        }
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

impl ChangRoberts {
    fn receive(&mut self, message: &Msg, out: &mut impl Effects<Self>) {
        match *message {
            Msg::Election { uid, round } => self.on_election(uid, round, out),
            Msg::Elected { uid, round } => self.on_elected(uid, round, out),
            Msg::Retire { uid, round } => self.on_retire(uid, round, out),
            Msg::Ack(_) | Msg::CheckIn => {}
        }
    }

    fn start(&mut self, out: &mut impl Effects<Self>) {
        self.round.advance();
        self.handoff.forget_taken();
        self.compete(out);
    }

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

    /// Acked: bypasses a process that is dead, and sends on what it has not acknowledged.
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

    /// A process is back from a crash. Of its last life nobody may have told us.
    fn on_check_in(&mut self, from: NodeId, out: &mut impl Effects<Self>) {
        if !self.ring.is_down(from) {
            self.on_peer_down(from, out);
        }
        self.on_peer_up(from, out);
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

    fn retire(&mut self, out: &mut impl Effects<Self>) {
        self.ring.retire();
        match self.state {
            State::Settled { leader } if leader == self.ring.id() => self.start(out),
            State::Participant { .. } => self.start(out),
            State::Idle | State::Settled { .. } | State::Vacant => {}
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
            [starter] => Formula::exactly("2n+d", alone(*starter)),
            starters if !config.swallows => {
                Formula::exactly("2n+d for each starter", starters.iter().map(|id| alone(*id)).sum())
            }
            starters if starters.len() as u64 == m => Formula::between("3n-1 to n(n+1)/2+n", 3 * m - 1, all),
            _ => Formula::between("2n to n(n+1)/2+n", 2 * m, all),
        };
        with_lost_tries(formula, config.is_acked, tally, tally.starters.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::trials::{self, Weather, config, ring};
    use crate::testing::World;

    /// What went over the wire: the names, and behind them the news.
    fn run(ids: &[u32], starters: &[u32]) -> (World<ChangRoberts>, Vec<u32>, Vec<u32>) {
        run_with(&[], ids, starters)
    }

    fn run_with(
        given: &[(&str, &str)],
        ids: &[u32],
        starters: &[u32],
    ) -> (World<ChangRoberts>, Vec<u32>, Vec<u32>) {
        let members = ring(ids);
        let config = config::<ChangRoberts>(given, None, &members);
        let mut world = World::<ChangRoberts>::new(members, &config, ());
        for id in starters {
            world.request(*id, Request::Start);
        }
        world.drain();
        let of = |wanted: &str| -> Vec<u32> {
            let sent = world.sent.iter().filter(|(_, _, message)| message.kind() == wanted);
            sent.filter_map(|(_, _, message)| message.receipt()).map(|receipt| receipt.owner.0).collect()
        };
        let (names, news) = (of("Election"), of("Elected"));
        (world, names, news)
    }

    /// The worked example TV-CR8: eight processes start at once; each name travels to the first larger one.
    #[test]
    fn book_tv_cr8_each_name_travels_to_the_first_larger_one() {
        let ids = [3, 7, 2, 8, 5, 1, 6, 4];
        let (world, names, news) = run(&ids, &ids);
        let hops = |id| names.iter().filter(|name| **name == id).count();
        assert_eq!(ids.map(hops), [1, 2, 1, 8, 2, 1, 3, 2]);
        assert_eq!(news, [8; 8]);
        assert_eq!(world.sent.len(), 28);
        assert!(world.processes.iter().all(|process| process.leaders() == [NodeId(8)]));
    }

    /// The worked example V-CR3: without participant states every call costs what it would cost alone.
    #[test]
    fn book_v_cr3_what_participant_states_save() {
        let ring = [3, 7, 2, 8, 5, 1, 6, 4];
        let five = [1, 2, 3, 4, 5];
        type Case<'a> = (&'a [u32], &'a [u32], [usize; 2], [usize; 2]);
        let cases: [Case<'_>; 4] = [
            (&ring, &ring, [20, 8], [92, 64]),
            (&five, &[1, 2], [9, 5], [17, 10]),
            (&five, &five, [9, 5], [35, 25]),
            (&five, &[2], [8, 5], [8, 5]),
        ];
        for (ids, starters, on, off) in cases {
            for (participants, expected) in [("on", on), ("off", off)] {
                let (world, names, news) = run_with(&[("participants", participants)], ids, starters);
                assert_eq!([names.len(), news.len()], expected, "{ids:?} from {starters:?}, {participants}");
                let largest = ids.iter().max().copied();
                assert!(
                    world.processes.iter().all(|process| process.leaders().first().map(|id| id.0) == largest)
                );
            }
        }
    }

    /// The worked example TV-CR1: p17 starts, p24 and p28 replace the name in flight.
    #[test]
    fn book_tv_cr1_one_starter() {
        let (world, names, news) = run(&[3, 17, 4, 24, 9, 1, 15, 28], &[17]);
        assert_eq!(names, [17, 17, 24, 24, 24, 24, 28, 28, 28, 28, 28, 28, 28, 28]);
        assert_eq!(news, [28; 8]);
        assert_eq!(world.sent.len(), 2 * 8 + 6);
    }

    /// The worked example TV-CR2: the cost depends on how far the largest is.
    #[test]
    fn book_tv_cr2_best_and_worst_start() {
        for (starter, messages) in [(5, 10), (1, 14), (4, 11)] {
            assert_eq!(run(&[1, 2, 3, 4, 5], &[starter]).0.sent.len(), messages);
        }
    }

    /// The worked example TV-W1 with priorities: the heaviest leads.
    #[test]
    fn book_tv_w1_the_heaviest_leads() {
        let members = Members::numbered(5);
        let config = config::<ChangRoberts>(&[("weights", "1:5,2:1,3:1,4:1,5:1")], None, &members);
        let mut world = World::<ChangRoberts>::new(members, &config, ());
        world.request(4, Request::Start);
        world.drain();
        assert_eq!(world.sent.len(), 2 * 5 + 2, "p1 is two places behind p4");
        assert!(world.processes.iter().all(|process| process.leaders() == [NodeId(1)]));
    }

    #[test]
    fn weights_come_before_names() {
        trials::keeps_its_formula::<ChangRoberts>(&[("weights", "1:5,2:3")]);
    }

    #[test]
    fn keeps_its_formula() {
        trials::keeps_its_formula::<ChangRoberts>(&[]);
        trials::keeps_its_formula::<ChangRoberts>(&[("participants", "off")]);
    }

    #[test]
    fn mutants_are_caught() {
        trials::mutants_are_caught::<ChangRoberts>();
    }

    #[test]
    fn a_crash_at_any_moment() {
        trials::weathers::<ChangRoberts>(Weather::CRASH, &[], 4_000);
        trials::weathers::<ChangRoberts>(Weather::CRASH, &[("participants", "off")], 4_000);
    }

    #[test]
    fn acknowledged_it_goes_on_past_the_dead() {
        let acked = &[("handoff", "acked")];
        trials::keeps_its_formula::<ChangRoberts>(acked);
        trials::finds_the_dead_by_itself::<ChangRoberts>(acked, 4_000);
        trials::weathers::<ChangRoberts>(Weather::CRASH, acked, 4_000);
        trials::weathers::<ChangRoberts>(Weather::STORM.tentative(), acked, 10_000);
        trials::weathers::<ChangRoberts>(Weather::DOUBT, acked, 10_000);
    }

    #[test]
    fn wrong_suspicions_are_got_over() {
        trials::weathers::<ChangRoberts>(Weather::DOUBT, &[], 20_000);
    }

    #[test]
    fn a_storm_of_crashes_restarts_and_retirements() {
        trials::weathers::<ChangRoberts>(Weather::STORM.tentative(), &[], 10_000);
        trials::weathers::<ChangRoberts>(Weather::STORM.tentative(), &[("participants", "off")], 10_000);
    }

    #[test]
    fn strangers_are_rejected() {
        let members = Members::numbered(3);
        let mut world = World::<ChangRoberts>::numbered(3, &config::<ChangRoberts>(&[], None, &members));
        let message = |uid| Msg::Election { uid: NodeId(uid), round: Some(u64::MAX) };
        for (from, uid) in [(1, 2), (9, 2), (2, 9)] {
            world.input(NodeId(1), Input::Receive { from: NodeId(from), message: message(uid) });
        }
        assert_eq!(world.rejects.len(), 3);
        // The largest number there is does no harm.
        world.input(NodeId(1), Input::Receive { from: NodeId(2), message: message(2) });
        world.input(NodeId(1), Input::PeerDown { peer: NodeId(2), life: conclave_core::Incarnation::FIRST });
        world.drain();
    }
}
