//! FloodSet: everyone tells everyone what it has heard, for f + 1 rounds.
//!
//! Lynch: *Distributed Algorithms*, Morgan Kaufmann, 1996, section 6.2. Whoever proposes tells all others its vote. In every
//! round each process passes on the votes that it has heard of since the last one. After f + 1 rounds all have heard of the
//! same votes, and decide by the same rule: the smallest value, or the one that most have voted for.
//!
//! ```text
//!   p1: 1        p2: 2        p3: 3
//!    ● ── 1 ────▶ │            │
//!    ✗            ● ── 2 ────▶ │      round 1: p1 dies before it tells p3
//!                 │ ◀──── 3 ── ●
//!    ─────────────┼────────────┼───
//!                 ● ── 1, 3 ─▶ │      round 2: p2 passes the vote of p1 on
//!                 │ ◀──── 2 ── ●
//!                 decides 1    decides 1
//! ```
//!
//! **Why f + 1**: in one of these rounds nobody crashes, and after it all know the same. With f rounds a vote that goes from
//! one process to the next, each of which dies in telling it, may reach one process only.
//!
//! **Rounds** are timers, each as long as a message takes to go and an answer to come back. Nobody has to begin at the same
//! moment as the others: the first message that a process hears begins its first round, so that all rounds of those who are
//! up begin within one transmission of each other. Whoever is woken in this way has no vote of its own.
//!
//! **Cost**: at most (f + 1)n(n − 1), and n(n − 1) at the least.
//!
//! **Assumes** reliable channels, known bounds on transmission and processing, and at most f crashes. A process that comes back
//! takes no part any more.
//!
//! **Caveats**: more crashes, a lost message, or one that is slower than the bound can make processes decide differently, and
//! nothing tells them so.

use alloc::collections::BTreeMap;

use conclave_core::{
    After, Boot, Effects, Incarnation, Input, Members, Message, NodeId, Phase, Protocol, Timing,
};
use serde::{Deserialize, Serialize};

use super::{AnyConfig, Consensus, Event, FAMILY, Needs, Propose};
use crate::{
    About, Algorithm, Channels, Formula, STRANGER, Setting, SettingError, Settings, Synchrony, Topology,
    Values,
};

/// The votes of these processes.
type Votes = BTreeMap<NodeId, u64>;

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FloodSet {
    id: NodeId,
    members: Members,
    config: FloodSetConfig,
    timing: Timing,
    stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Nobody has proposed anything yet, as far as is known here.
    Idle,
    Flooding {
        /// The present round, from 1 on.
        round: u32,
        /// All votes that are known.
        votes: Votes,
        /// Those that were learnt in this round.
        news: Votes,
    },
    Decided,
    /// It has crashed before, and takes no part.
    Returned,
}

/// Settings of [`FloodSet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FloodSetConfig {
    /// How many processes may crash.
    pub f: u32,
    /// What is decided.
    pub rule: Rule,
    mutation: Option<Mutation>,
}

/// What is decided when all know the same votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The smallest value.
    Min,
    /// The value that most have voted for; of several the smallest.
    Majority,
}

impl FloodSetConfig {
    fn rounds(&self) -> u32 {
        match self.mutation {
            Some(Mutation::OneRoundLess) => self.f.max(1),
            Some(Mutation::NoRelay | Mutation::Sum) | None => self.f + 1,
        }
    }

    fn decide(&self, votes: &Votes) -> u64 {
        if self.mutation == Some(Mutation::Sum) {
            return votes.values().fold(0, |sum, value| sum.saturating_add(*value));
        }
        match self.rule {
            Rule::Min => votes.values().copied().min().unwrap_or(0),
            Rule::Majority => most_frequent(votes),
        }
    }
}

/// The value that most have voted for; of several the smallest.
fn most_frequent(votes: &Votes) -> u64 {
    let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
    for value in votes.values() {
        *counts.entry(*value).or_default() += 1;
    }
    // Of equal counts the last wins: the smallest value, from the largest on.
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map_or(0, |(value, _)| value)
}

mutants! {
    enum Mutation {
        OneRoundLess {
            name: "one-round-less", breaks: "AGREEMENT", nodes: 3, trigger: CrashInside,
            change: "f rounds instead of f + 1",
        }
        NoRelay {
            name: "no-relay", breaks: "AGREEMENT", nodes: 3, trigger: CrashInside,
            change: "votes of others are not passed on",
        }
        Sum {
            name: "sum", breaks: "VALIDITY", nodes: 2, trigger: Schedule,
            change: "the sum of all votes is decided, which nobody may have proposed",
        }
    }
}

/// The votes that the sender has heard of since its last round.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FloodMessage {
    /// Who voted for what.
    Votes {
        /// By process.
        votes: Votes,
    },
}

impl Message for FloodMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Votes)
    }
}

/// The timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FloodTimer {
    /// The round is over.
    Round,
}

impl Protocol for FloodSet {
    type Config = FloodSetConfig;
    type Message = FloodMessage;
    type Request = Propose;
    type Event = Event;
    type Timer = FloodTimer;
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        let stage = if boot.life == Incarnation::FIRST { Stage::Idle } else { Stage::Returned };
        Self { id: boot.id, members: boot.members.clone(), config: *boot.config, timing: boot.timing, stage }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Receive { from, .. } if !self.members.has_other(self.id, from) => {
                out.reject(from, STRANGER);
            }
            Input::Receive { from, message: FloodMessage::Votes { votes } } => {
                self.on_votes(from, votes, out);
            }
            // Who was woken by another's vote proposes too late: its vote might reach some and not all.
            Input::Request(propose) => {
                if self.stage == Stage::Idle {
                    self.begin([(self.id, propose.value(self.id))].into(), out);
                }
            }
            Input::Expire(FloodTimer::Round) => self.on_round(out),
            // Nobody relies on a failure detector.
            Input::Start | Input::PeerDown { .. } | Input::PeerUp { .. } => {}
        }
    }

    fn phase(&self) -> Phase {
        match self.stage {
            Stage::Flooding { .. } => Phase::WAITING,
            Stage::Idle | Stage::Decided | Stage::Returned => Phase::IDLE,
        }
    }

    fn assert_invariants(&self) {
        let Stage::Flooding { round, votes, news } = &self.stage else { return };
        assert!((1..=self.config.rounds()).contains(round), "there are f + 1 rounds");
        assert!(!votes.is_empty(), "nobody begins without a vote");
        assert!(news.iter().all(|(id, value)| votes.get(id) == Some(value)), "what is new is known");
    }
}

impl FloodSet {
    fn on_votes(&mut self, from: NodeId, mut heard: Votes, out: &mut impl Effects<Self>) {
        if heard.is_empty() || heard.keys().any(|id| !self.members.contains(*id)) {
            return out.reject(from, "votes are those of members, and there is one at least");
        }
        match &mut self.stage {
            Stage::Idle => self.begin(heard, out),
            Stage::Flooding { votes, news, .. } => {
                heard.retain(|id, _| !votes.contains_key(id));
                votes.extend(&heard);
                news.extend(heard);
            }
            // A later vote comes from beyond the last round, where the bounds were broken.
            Stage::Decided | Stage::Returned => {}
        }
    }

    /// The first round begins, with our own vote or with those that woke us.
    fn begin(&mut self, votes: Votes, out: &mut impl Effects<Self>) {
        self.tell(&votes, out);
        self.stage = Stage::Flooding { round: 1, votes, news: Votes::new() };
        out.arm(FloodTimer::Round, self.round());
    }

    fn on_round(&mut self, out: &mut impl Effects<Self>) {
        let Stage::Flooding { round, votes, news } = &mut self.stage else { return };
        if *round == self.config.rounds() {
            let value = self.config.decide(votes);
            self.stage = Stage::Decided;
            return out.emit(Event::Decided(value));
        }
        *round += 1;
        let news = core::mem::take(news);
        if !news.is_empty() && self.config.mutation != Some(Mutation::NoRelay) {
            self.tell(&news, out);
        }
        out.arm(FloodTimer::Round, self.round());
    }

    fn tell(&self, votes: &Votes, out: &mut impl Effects<Self>) {
        out.send_all(self.members.others(self.id), &FloodMessage::Votes { votes: votes.clone() });
    }

    /// Others may begin a round one transmission later, and what they send then takes another.
    fn round(&self) -> After {
        After::exactly(self.timing.answer_timeout())
    }
}

impl Algorithm for FloodSet {
    const ABOUT: About = About {
        name: "flood-set",
        title: "FloodSet",
        paper: "Lynch, Distributed Algorithms, Morgan Kaufmann (1996), section 6.2",
        idea: "everyone passes on all votes, for f + 1 rounds",
        family: FAMILY,
        channels: Channels::Any,
        synchrony: Synchrony::Synchronous,
        topology: Topology::Complete,
        cost: "at most (f + 1)n(n − 1)",
        faults: "up to f crashes, also inside a step",
        settings: &[
            Setting {
                key: "f",
                values: Values::Number(0, 100),
                default: "1",
                unsafe_values: &[],
                help: "how many processes may crash: there are f + 1 rounds",
            },
            Setting {
                key: "rule",
                values: Values::OneOf(&["min", "majority"]),
                default: "min",
                unsafe_values: &[],
                help: "which of the votes is decided: the smallest, or the most frequent",
            },
        ],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<FloodSetConfig, SettingError> {
        Ok(FloodSetConfig {
            f: settings.number("f") as u32,
            rule: if settings.get("rule") == "majority" { Rule::Majority } else { Rule::Min },
            mutation: Mutation::of(settings),
        })
    }
}

impl Consensus for FloodSet {
    fn any(config: FloodSetConfig) -> AnyConfig {
        AnyConfig::FloodSet(config)
    }

    fn needs(config: &FloodSetConfig) -> Needs {
        Needs { most_crashes: Some(config.f), majority: false, returns: false, is_log: false }
    }

    fn formula(config: &FloodSetConfig, members: &Members, proposals: u64) -> Formula {
        let n = members.len() as u64;
        let round = n * (n - 1);
        let low = if proposals == 0 { 0 } else { round };
        Formula::between("at most (f + 1)n(n − 1)", low, (u64::from(config.f) + 1) * round)
    }
}
