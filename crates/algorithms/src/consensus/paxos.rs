//! Paxos, for one value: a majority promises, a majority accepts, and what it has accepted is decided.
//!
//! Lamport: *The part-time parliament*, ACM TOCS 16(2), 1998. Every process is an acceptor; whoever is asked to propose is a
//! proposer, too. A proposer begins a ballot with a number of its own (`Prepare`). An acceptor promises to take part in no
//! earlier one, and tells what it has accepted last (`Promise`). With promises of a majority the proposer proposes the value of
//! the latest ballot that it was told of, or its own if there is none (`Accept`). When a majority has accepted, the value is
//! decided, and all are told (`Decide`).
//!
//! ```text
//!   p1: 3          p2             p3
//!    │ ─ Prepare 1p1 ▶ ─────────▶ │
//!    │ ◀ Promise ────┤◀───────────┤
//!    │ ─ Accept 3 ───▶ ─────────▶ │
//!    │ ◀ Accepted ───┤◀───────────┤
//!    │ ─ Decide 3 ───▶ ─────────▶ │
//! ```
//!
//! **Agreement**: a later ballot has the promise of one acceptor at least of any majority, and so learns what may have been
//! decided before. Promises and accepted values are saved before they are told; an acceptor that forgot them could help to
//! decide a second time.
//!
//! **Two proposers** can outbid each other again and again. Whoever is refused (`Nack`) or reaches no majority waits for a
//! while that is drawn from a range which grows with every ballot, and begins another one. After `ballots` of them it gives up.
//! No algorithm can promise more without relying on time (Fischer, Lynch and Paterson 1985).
//!
//! **Cost**: 5(n − 1) with one proposer: 2(n − 1) to prepare, 2(n − 1) to accept, n − 1 to tell.
//!
//! **Assumes** nothing for agreement, validity and integrity: messages may be late, lost, doubled and overtake each other, and
//! processes may crash and come back with what they saved. It terminates if a majority is up, messages arrive, and crashes
//! are reported: whoever has learnt the decision from a process that is reported down tells the others again.
//!
//! **Caveats**: a proposal is not saved. It is gone with a crash of its process, unless somebody has accepted it.

use conclave_core::{After, Boot, Effects, Input, Members, NodeId, NodeSet, Phase, Protocol, Timing};
use serde::{Deserialize, Serialize};

use super::synod::{Group, Mutation, Step, Synod, SynodMessage as Msg};
use super::{AnyConfig, Consensus, Event, FAMILY, Needs, Propose};
use crate::recovery::ballot::Acceptor;
use crate::{
    About, Algorithm, Channels, Formula, STRANGER, Setting, SettingError, Settings, Synchrony, Topology,
    Values,
};

/// A process: acceptor, proposer and learner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Paxos {
    id: NodeId,
    members: Members,
    config: PaxosConfig,
    timing: Timing,
    /// Who is reported down.
    down: NodeSet,
    stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Open {
        synod: Synod<u64>,
        /// What our application proposes, and how many ballots it took so far.
        proposal: Option<(u64, u32)>,
    },
    Decided {
        value: u64,
        /// Who told us. If it dies, it may not have told the others.
        told_by: Option<NodeId>,
    },
}

/// Settings of [`Paxos`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PaxosConfig {
    /// After how many ballots a proposer gives up.
    pub ballots: u32,
    pub(super) mutation: Option<Mutation>,
}

/// What a process saves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PaxosDurable {
    /// What it has promised and accepted.
    Open(Acceptor<u64>),
    /// What is decided.
    Decided(u64),
}

/// The timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PaxosTimer {
    /// Our ballot has come to nothing.
    Retry,
}

impl Protocol for Paxos {
    type Config = PaxosConfig;
    type Message = Msg<u64>;
    type Request = Propose;
    type Event = Event;
    type Timer = PaxosTimer;
    type Durable = PaxosDurable;

    fn boot(boot: Boot<'_, Self>) -> Self {
        let stage = match boot.saved {
            None => Stage::open(Acceptor::default()),
            Some(PaxosDurable::Open(acceptor)) => Stage::open(acceptor),
            Some(PaxosDurable::Decided(value)) => Stage::Decided { value, told_by: None },
        };
        let (members, down) = (boot.members.clone(), NodeSet::new());
        Self { id: boot.id, members, config: *boot.config, timing: boot.timing, down, stage }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Receive { from, .. } if !self.members.has_other(self.id, from) => {
                out.reject(from, STRANGER);
            }
            Input::Receive { from, message } => match message.breach(&self.members) {
                Some(why) => out.reject(from, why),
                None => self.receive(from, message, out),
            },
            Input::Request(propose) => {
                if let Stage::Open { proposal: proposal @ None, .. } = &mut self.stage {
                    *proposal = Some((propose.value(self.id), 0));
                    self.begin(out);
                }
            }
            Input::Expire(PaxosTimer::Retry) => self.begin(out),
            Input::PeerDown { peer, .. } => {
                self.down.insert(peer);
                self.maybe_relay(out);
            }
            // Whoever comes back may have missed the decision.
            Input::PeerUp { peer, .. } => {
                self.down.remove(peer);
                if let Stage::Decided { value, .. } = self.stage {
                    out.send(peer, Msg::Decide { value });
                }
            }
            // Our last life may have crashed before it told anybody.
            Input::Start => {
                if let Stage::Decided { value, .. } = self.stage {
                    out.emit(Event::Decided(value));
                    self.tell(value, out);
                }
            }
        }
    }

    fn phase(&self) -> Phase {
        match self.stage {
            Stage::Open { proposal: Some(_), .. } => Phase::WAITING,
            Stage::Open { proposal: None, .. } | Stage::Decided { .. } => Phase::IDLE,
        }
    }

    fn assert_invariants(&self) {
        if let Stage::Open { synod, proposal } = &self.stage {
            assert!(proposal.is_some() || !synod.is_proposing(), "a ballot is for a proposal");
            synod.assert_invariants();
        }
    }
}

impl Stage {
    fn open(acceptor: Acceptor<u64>) -> Self {
        Self::Open { synod: Synod::new(acceptor), proposal: None }
    }
}

impl Paxos {
    fn receive(&mut self, from: NodeId, message: Msg<u64>, out: &mut impl Effects<Self>) {
        let group = self.config.group(self.id, &self.members);
        match &mut self.stage {
            Stage::Open { synod, .. } => {
                let step = synod.receive(from, message, group);
                self.carry_out(from, step, out);
            }
            // Whoever still asks is told; nothing else can be of interest.
            Stage::Decided { value, .. } => match message {
                Msg::Prepare { .. } | Msg::Accept { .. } => out.send(from, Msg::Decide { value: *value }),
                Msg::Promise { .. } | Msg::Accepted { .. } | Msg::Nack { .. } | Msg::Decide { .. } => {}
            },
        }
    }

    /// Begins the next ballot, or gives up.
    fn begin(&mut self, out: &mut impl Effects<Self>) {
        let group = self.config.group(self.id, &self.members);
        let Stage::Open { synod, proposal } = &mut self.stage else { return };
        let Some((value, ballots)) = proposal else { return };
        let is_over = *ballots == self.config.ballots;
        let step = if is_over { Step::Nothing } else { synod.begin(*value, group) };
        if step == Step::Nothing {
            synod.abandon();
            *proposal = None;
            return out.emit(Event::GaveUp);
        }
        *ballots += 1;
        out.arm(PaxosTimer::Retry, patience(self.timing, *ballots));
        self.carry_out(self.id, step, out);
    }

    fn carry_out(&mut self, from: NodeId, step: Step<u64>, out: &mut impl Effects<Self>) {
        match step {
            // When our time is over, the next ballot begins.
            Step::Nothing | Step::Outbid => {}
            Step::Refuse(message) => out.send(from, message),
            Step::Yield(message) => {
                self.save(out);
                out.send(from, message);
            }
            Step::Broadcast(message) => {
                self.save(out);
                out.send_all(self.members.others(self.id), &message);
            }
            Step::Chosen(value) => {
                self.decide(value, None, out);
                self.tell(value, out);
            }
            Step::Told(value) => {
                self.decide(value, Some(from), out);
                self.maybe_relay(out);
            }
        }
    }

    fn decide(&mut self, value: u64, told_by: Option<NodeId>, out: &mut impl Effects<Self>) {
        self.stage = Stage::Decided { value, told_by };
        self.save(out);
        out.disarm(PaxosTimer::Retry);
        out.emit(Event::Decided(value));
    }

    fn tell(&self, value: u64, out: &mut impl Effects<Self>) {
        out.send_all(self.members.others(self.id), &Msg::Decide { value });
    }

    /// Tells all others in place of somebody who may have died before it could.
    fn maybe_relay(&mut self, out: &mut impl Effects<Self>) {
        if let Stage::Decided { value, told_by } = &mut self.stage
            && told_by.is_some_and(|peer| self.down.contains(peer))
        {
            *told_by = None;
            let value = *value;
            self.tell(value, out);
        }
    }

    fn save(&self, out: &mut impl Effects<Self>) {
        if self.config.mutation != Some(Mutation::NoStableStorage) {
            out.save(match &self.stage {
                Stage::Open { synod, .. } => PaxosDurable::Open(synod.acceptor.clone()),
                Stage::Decided { value, .. } => PaxosDurable::Decided(*value),
            });
        }
    }
}

/// How long a ballot may take: two round trips at the least, and longer with each that came to nothing.
pub(super) fn patience(timing: Timing, ballots: u32) -> After {
    let round_trips = timing.answer_timeout() * 2;
    After::between(round_trips, round_trips.saturating_mul(ballots.saturating_add(1)))
}

impl PaxosConfig {
    /// When to give up, for every algorithm that holds ballots.
    pub(super) const BALLOTS: Setting = Setting {
        key: "ballots",
        values: Values::Number(1, 1_000_000),
        default: "10",
        unsafe_values: &[],
        help: "after how many ballots for a value a proposer gives up",
    };

    pub(super) fn read(settings: &Settings) -> Self {
        let ballots = settings.number(Self::BALLOTS.key) as u32;
        Self { ballots, mutation: Mutation::of(settings) }
    }

    pub(super) fn group(self, me: NodeId, members: &Members) -> Group<'_> {
        Group { me, members, mutation: self.mutation }
    }
}

impl Algorithm for Paxos {
    const ABOUT: About = About {
        name: "paxos",
        title: "Paxos",
        paper: "Lamport, The part-time parliament, ACM TOCS 16(2), 1998",
        idea: "a majority promises, a majority accepts: it is decided",
        family: FAMILY,
        channels: Channels::Any,
        synchrony: Synchrony::Asynchronous,
        topology: Topology::Complete,
        cost: "5(n − 1) with one proposer",
        faults: "crashes and restarts while a majority is up; loss and wrong suspicions never break agreement",
        settings: &[PaxosConfig::BALLOTS],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<PaxosConfig, SettingError> {
        Ok(PaxosConfig::read(settings))
    }
}

impl Consensus for Paxos {
    fn any(config: PaxosConfig) -> AnyConfig {
        AnyConfig::Paxos(config)
    }

    fn needs(_config: &PaxosConfig) -> Needs {
        Needs { most_crashes: None, majority: true, returns: true, is_log: false }
    }

    fn formula(_config: &PaxosConfig, members: &Members, proposals: u64) -> Formula {
        let one = 5 * (members.len() as u64 - 1);
        match proposals {
            0 => Formula::exactly("nothing is proposed", 0),
            1 => Formula::exactly("5(n − 1) with one proposer", one),
            _ => Formula { text: "5(n − 1) with one proposer", low: 0, high: None },
        }
    }
}
