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
//! **Assumes** nothing about time. Any order of messages is safe; the counts need channels that keep it.
//!
//! **Crashes** were not the authors' concern. Here a process that learns of one while it takes part, or that has lost
//! its leader, starts again in the next round; see [`ring`](super::ring) for rounds, laps and new successors. A name
//! whose owner is dead ends before the owner's place, and who finds it there starts again, too.
//!
//! **Retirement**: a process that no longer wants to lead passes everything on. If it led or took part, it sends
//! `Retire`, which acts like the name below all others: the first that may lead replaces it by its own.
//!
//! **Caveats**: every process that is told of the leader's crash starts. That is the expensive case of all starting
//! at once, and more if the news of the crash is slow.

use alloc::vec::Vec;

use conclave_core::{Boot, Counter, Effects, Input, Members, Message, NodeId, Phase, Protocol};
use serde::{Deserialize, Serialize};

use super::ring::{Age, ROUND, Ring, Round, visit_round};
use super::{Election, Event, RING, Request, Tally, Weights, phase};
use crate::{
    About, Algorithm, Channels, Family, Formula, Mutant, SettingError, Settings, Synchrony, Topology,
};

/// A process of Chang and Roberts' algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChangRoberts {
    ring: Ring,
    config: ChangRobertsConfig,
    round: Round,
    state: State,
    /// This is not the first life of the process.
    is_back: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    /// No election has come by yet.
    Idle,
    /// Takes part: its own name, or a larger one that it passed on, is under way.
    Participant,
    /// Knows the outcome.
    Settled { leader: NodeId },
    /// Knows the outcome: nobody here may lead.
    Vacant,
}

/// Settings of [`ChangRoberts`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChangRobertsConfig {
    weights: Weights,
    broken: Option<Broken>,
}

/// The broken twins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Broken {
    PassSmaller,
    SwallowLarger,
    EndlessNews,
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
}

use ChangRobertsMessage as Msg;

impl Message for ChangRobertsMessage {
    fn kind(&self) -> &'static str {
        match self {
            Msg::Election { .. } => "Election",
            Msg::Elected { .. } => "Elected",
            Msg::Retire { .. } => "Retire",
        }
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            Msg::Election { round, .. } | Msg::Retire { round, .. } => visit_round(round, visit),
            Msg::Elected { round, .. } => visit(Counter::exact(ROUND, round)),
        }
    }
}

impl ChangRobertsMessage {
    /// Whose lap it is.
    fn owner(&self) -> NodeId {
        match self {
            Msg::Election { uid, .. } | Msg::Elected { uid, .. } | Msg::Retire { uid, .. } => *uid,
        }
    }
}

impl Protocol for ChangRoberts {
    type Config = ChangRobertsConfig;
    type Message = ChangRobertsMessage;
    type Request = Request;
    type Event = Event;
    type Timer = ();
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        let round = Round::new(boot.life);
        Self {
            ring: Ring::new(&boot),
            config: boot.config.clone(),
            round,
            state: State::Idle,
            is_back: round.known().is_none(),
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Receive { from, .. } if !self.ring.is_peer(from) => {
                out.reject(from, "only the other members may send");
            }
            Input::Receive { from, message } if !self.ring.members().contains(message.owner()) => {
                out.reject(from, "only members stand for election");
            }
            Input::Receive { message: Msg::Election { uid, round }, .. } => self.on_election(uid, round, out),
            Input::Receive { message: Msg::Elected { uid, round }, .. } => self.on_elected(uid, round, out),
            Input::Receive { message: Msg::Retire { uid, round }, .. } => self.on_retire(uid, round, out),
            // A process that comes back has forgotten who leads, and may be the one who should.
            Input::Start if self.is_back => self.start(out),
            Input::Start => {}
            Input::Request(Request::Start) => match self.state {
                State::Participant => {}
                State::Idle | State::Settled { .. } | State::Vacant => self.start(out),
            },
            Input::Request(Request::Retire) => self.retire(out),
            Input::PeerDown { peer, .. } => self.on_peer_down(peer, out),
            Input::PeerUp { peer, .. } => {
                if self.ring.readmit(peer) {
                    self.greet(out);
                }
            }
            Input::Expire(()) => {}
        }
    }

    fn phase(&self) -> Phase {
        phase(self.ring.id(), self.leaders(), self.is_participant())
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        visit(self.round.counter());
    }
}

impl ChangRoberts {
    fn start(&mut self, out: &mut impl Effects<Self>) {
        self.round.advance();
        self.compete(out);
    }

    /// Stands for election in the round that we are in, or asks the next one to.
    fn compete(&mut self, out: &mut impl Effects<Self>) {
        let (uid, round) = (self.ring.id(), self.round.known());
        self.state = State::Participant;
        match (self.ring.successor(), self.ring.is_eligible()) {
            (Some(next), true) => out.send(next, Msg::Election { uid, round }),
            (Some(next), false) => out.send(next, Msg::Retire { uid, round }),
            (None, true) => self.become_leader(out),
            (None, false) => self.state = State::Vacant,
        }
    }

    fn on_election(&mut self, uid: NodeId, round: Option<u64>, out: &mut impl Effects<Self>) {
        let Some(round) = self.join(round) else { return };
        let me = self.ring.id();
        if uid == me {
            // Retired since we sent it: our `Retire` is under way behind it.
            if self.ring.is_eligible() {
                self.become_leader(out);
            }
            return;
        }
        let was_participant = self.is_participant();
        if !self.ring.is_eligible() || self.config.weights.key(uid) > self.config.weights.key(me) {
            if was_participant && self.config.broken == Some(Broken::SwallowLarger) {
                return;
            }
            self.state = State::Participant;
            match self.ring.onward(uid) {
                Some(next) => out.send(next, Msg::Election { uid, round }),
                // The owner is dead, and those before us have let its name beat theirs.
                None => self.start(out),
            }
        } else if !was_participant {
            self.compete(out);
        } else if self.config.broken == Some(Broken::PassSmaller)
            && let Some(next) = self.ring.onward(uid)
        {
            out.send(next, Msg::Election { uid, round });
        }
    }

    fn on_elected(&mut self, uid: NodeId, round: u64, out: &mut impl Effects<Self>) {
        if self.config.broken == Some(Broken::EndlessNews)
            && let (State::Settled { .. }, Some(next)) = (&self.state, self.ring.successor())
        {
            out.send(next, Msg::Elected { uid, round });
        }
        // The lap is over; or it is about an earlier life of ours, of which we know nothing.
        if uid == self.ring.id() {
            return;
        }
        if self.join(Some(round)).is_none() {
            return;
        }
        let overruled =
            self.ring.is_eligible() && self.config.weights.key(self.ring.id()) > self.config.weights.key(uid);
        match self.ring.onward(uid) {
            Some(next) if !overruled => {
                self.settle(uid, out);
                out.send(next, Msg::Elected { uid, round });
            }
            // It won without us, or it is dead: not our leader.
            Some(_) | None => self.start(out),
        }
    }

    /// A name below all others.
    fn on_retire(&mut self, uid: NodeId, round: Option<u64>, out: &mut impl Effects<Self>) {
        let Some(round) = self.join(round) else { return };
        if uid == self.ring.id() {
            // It has been round and found nobody; unless we take part for another reason by now.
            self.state = State::Vacant;
        } else if !self.ring.is_eligible() {
            self.state = State::Participant;
            match self.ring.onward(uid) {
                Some(next) => out.send(next, Msg::Retire { uid, round }),
                None => self.state = State::Vacant,
            }
        } else if !self.is_participant() {
            self.compete(out);
        }
    }

    fn on_peer_down(&mut self, peer: NodeId, out: &mut impl Effects<Self>) {
        let has_new_successor = self.ring.bypass(peer);
        match self.state {
            // The peer may have died with the message that we wait for.
            State::Participant => self.start(out),
            State::Settled { leader } if leader == peer => self.start(out),
            State::Settled { .. } if has_new_successor => self.greet(out),
            State::Idle | State::Settled { .. } | State::Vacant => {}
        }
    }

    /// Tells a new successor who leads.
    fn greet(&mut self, out: &mut impl Effects<Self>) {
        match self.state {
            State::Settled { leader: uid } => {
                if let Some(next) = self.ring.onward(uid) {
                    out.send(next, Msg::Elected { uid, round: self.round.number() });
                }
            }
            State::Vacant => self.start(out),
            State::Idle | State::Participant => {}
        }
    }

    fn retire(&mut self, out: &mut impl Effects<Self>) {
        self.ring.retire();
        match self.state {
            State::Settled { leader } if leader == self.ring.id() => self.start(out),
            State::Participant => self.start(out),
            State::Idle | State::Settled { .. } | State::Vacant => {}
        }
    }

    /// Takes note of the round of a message. Gives the round in which the message is to be handled, nothing if it has
    /// come too late to be of use.
    #[allow(clippy::option_option, reason = "a round that nobody knows is a round, too")]
    fn join(&mut self, message: Option<u64>) -> Option<Option<u64>> {
        let round = self.round.of(message, self.is_participant());
        match (self.round.compare(round), &self.state) {
            (Age::Old, _) | (Age::Current, State::Settled { .. }) => return None,
            (Age::Current, State::Idle | State::Participant | State::Vacant) => {}
            (Age::New, _) => {
                self.round.enter(round);
                self.state = State::Idle;
            }
        }
        Some(round)
    }

    fn become_leader(&mut self, out: &mut impl Effects<Self>) {
        self.round.settle();
        let (uid, round) = (self.ring.id(), self.round.number());
        self.settle(uid, out);
        if let Some(next) = self.ring.successor() {
            out.send(next, Msg::Elected { uid, round });
        }
    }

    fn settle(&mut self, leader: NodeId, out: &mut impl Effects<Self>) {
        self.state = State::Settled { leader };
        out.emit(Event::Elected { leaders: [leader].into(), term: self.round.number() });
    }
}

impl Algorithm for ChangRoberts {
    const ABOUT: About = About {
        name: "chang-roberts",
        title: "Chang–Roberts",
        paper: "Chang, Roberts: An improved algorithm for decentralized extrema-finding in circular configurations \
                of processes, CACM 22(5), 1979",
        idea: "names go round the ring, larger ones swallow smaller ones; whose name comes back leads",
        family: Family::Election,
        channels: Channels::Fifo,
        synchrony: Synchrony::Asynchronous,
        topology: Topology::Ring,
        cost: "2n+d for one starter d places before the largest; 3n-1 to n(n+1)/2+n if all start",
        faults: "crashes: the ring closes over the dead, who takes part starts again",
        settings: &[Weights::SETTING, RING],
        mutants: &[
            Mutant {
                name: "pass-smaller",
                breaks: "E1",
                nodes: 4,
                change: "who takes part passes smaller names on instead of swallowing them: several come back",
            },
            Mutant {
                name: "swallow-larger",
                breaks: "E2",
                nodes: 4,
                change: "who takes part swallows larger names, too: none comes back",
            },
            Mutant {
                name: "endless-news",
                breaks: "END",
                nodes: 3,
                change: "the news of the leader is passed on by those who know it already, for ever",
            },
        ],
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<Self::Config, SettingError> {
        Ok(ChangRobertsConfig {
            weights: Weights::read(settings),
            broken: settings.mutant().map(|name| match name {
                "pass-smaller" => Broken::PassSmaller,
                "swallow-larger" => Broken::SwallowLarger,
                _ => Broken::EndlessNews,
            }),
        })
    }
}

impl Election for ChangRoberts {
    fn leaders(&self) -> &[NodeId] {
        match &self.state {
            State::Settled { leader } => core::slice::from_ref(leader),
            State::Idle | State::Participant | State::Vacant => &[],
        }
    }

    fn is_participant(&self) -> bool {
        self.state == State::Participant
    }

    fn term(&self) -> u64 {
        self.round.number()
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
        match tally.starters {
            _ if m <= 1 => Formula::exactly("0", 0),
            [] => Formula::exactly("0", 0),
            [starter] => {
                let live = || members.after(*starter).filter(|id| !tally.absent.contains(id));
                let largest = config.weights.highest(live().chain([*starter]));
                let d = live().position(|id| Some(id) == largest).map_or(0, |place| place as u64 + 1);
                Formula::exactly("2n+d", 2 * m + d)
            }
            starters if starters.len() as u64 == m => {
                Formula::between("3n-1 to n(n+1)/2+n", 3 * m - 1, all)
            }
            _ => Formula::between("2n to n(n+1)/2+n", 2 * m, all),
        }
    }
}
