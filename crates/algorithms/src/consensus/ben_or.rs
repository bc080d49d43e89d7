//! Ben-Or: where the votes are split, everyone draws lots, until enough draw the same.
//!
//! Ben-Or: *Another advantage of free choice: completely asynchronous agreement protocols*, PODC 1983. Every process has an
//! estimate, at first the value that it proposes. In each round it tells all its estimate (`Report`) and waits for the reports
//! of a majority, its own among them. If more than half of all have reported the same value, it proposes that, else nothing (`Proposal`), and again
//! waits for a majority:
//!
//! - f + 1 proposals of a value: it is decided, where f is as many as may crash;
//! - one at least: it is the new estimate;
//! - none: the new estimate is drawn.
//!
//! ```text
//!   p1: 1          p2: 2          p3: 1
//!    │ ── Report 1 ─▶ ◀─ Report 1 ─ │     p1 hears 1 and 1, p2 and p3 hear 1 and 2
//!    │ ── Proposal 1 ▶              │     p2 and p3 propose nothing
//!    │                ◀ Proposal - ─│     p2 hears 1 and nothing: its estimate is 1 now
//!    │ ◀───────────── Proposal - ───│     p3 hears nothing from p2 and nothing from itself: it draws
//! ```
//!
//! **Agreement**: two majorities share a process, so in a round only one value is proposed. If it is decided, f + 1 have proposed
//! it, and whoever waits for all but f hears of it: all have the same estimate, and decide it in the next round.
//!
//! **Lots**: a process has no randomness of its own. It sets a timer for each value that it may draw, all from the same range, and
//! takes the first that expires: the driver draws, from its seed, by trying all, or by the randomness of the machine. The values
//! are those that were reported in the round; any two processes have one in common, and the value that somebody proposes is
//! among those of everyone.
//!
//! **Cost**: 2n(n − 1) for each round, and n(n − 1) to tell the decision: who hears of it passes it on.
//!
//! **Assumes** reliable channels of any order, and a majority that stays up. It relies on no time and no failure detector. A
//! process that comes back takes no part any more.
//!
//! **Caveats**: with bad luck it takes another round, and another. That this goes on forever has probability zero; no algorithm can do
//! better (Fischer, Lynch and Paterson 1985). After `rounds` a process gives up here.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use conclave_core::{
    After, Boot, Effects, Incarnation, Input, Members, Message, NodeId, Phase, Protocol, Timing,
};
use serde::{Deserialize, Serialize};

use super::{AnyConfig, Consensus, Event, FAMILY, Needs, Propose};
use crate::{
    About, Algorithm, Channels, Formula, STRANGER, Setting, SettingError, Settings, Synchrony, Topology,
    Values,
};

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BenOr {
    id: NodeId,
    members: Members,
    config: BenOrConfig,
    timing: Timing,
    stage: Stage,
    /// What was said in this round and in later ones.
    heard: BTreeMap<Step, Votes>,
}

/// What these processes have said in one step; a proposal of nothing is nothing.
type Votes = BTreeMap<NodeId, Option<u64>>;

/// Half a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Step {
    /// From 1 on.
    round: u32,
    half: Half,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Half {
    Reports,
    Proposals,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Nobody has proposed anything yet, as far as is known here.
    Idle,
    /// For this step we wait until a majority has spoken.
    Voting(Step),
    /// The estimate for the next round is one of these.
    Drawing {
        round: u32,
        lots: BTreeSet<u64>,
    },
    Decided,
    /// It has tried for long enough.
    GaveUp,
    /// It has crashed before, and takes no part.
    Returned,
}

/// Settings of [`BenOr`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BenOrConfig {
    /// After how many rounds a process gives up.
    pub rounds: u32,
    mutation: Option<Mutation>,
}

mutants! {
    enum Mutation {
        OneStep {
            name: "one-step", breaks: "AGREEMENT", nodes: 3, trigger: Schedule,
            change: "what more than half have reported is decided, and not only proposed",
        }
        OwnCoin {
            name: "own-coin", breaks: "VALIDITY", nodes: 2, trigger: Schedule,
            change: "the sum of the reported values is drawn, which nobody may have proposed",
        }
        NoRelay {
            name: "no-relay", breaks: "TERMINATION", nodes: 3, trigger: CrashInside,
            change: "who is told of a decision does not pass it on",
        }
    }
}

/// What the processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BenOrMessage {
    /// This is my estimate.
    Report {
        /// In this round.
        round: u32,
        /// The estimate.
        value: u64,
    },
    /// More than half have reported this, as far as I have heard.
    Proposal {
        /// In this round.
        round: u32,
        /// The value, if there is one.
        value: Option<u64>,
    },
    /// It is decided.
    Decide {
        /// The value.
        value: u64,
    },
}

use BenOrMessage as Msg;

impl Message for BenOrMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Report, Proposal, Decide)
    }
}

/// The timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BenOrTimer {
    /// The first of these that expires is the lot that is drawn.
    Lot(u64),
}

impl Protocol for BenOr {
    type Config = BenOrConfig;
    type Message = BenOrMessage;
    type Request = Propose;
    type Event = Event;
    type Timer = BenOrTimer;
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        let stage = if boot.life == Incarnation::FIRST { Stage::Idle } else { Stage::Returned };
        let (id, members, heard) = (boot.id, boot.members.clone(), BTreeMap::new());
        Self { id, members, config: *boot.config, timing: boot.timing, stage, heard }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Receive { from, .. } if !self.members.has_other(self.id, from) => {
                out.reject(from, STRANGER);
            }
            Input::Receive { from, message: Msg::Report { round, value } } => {
                self.on_vote(from, Step { round, half: Half::Reports }, Some(value), out);
            }
            Input::Receive { from, message: Msg::Proposal { round, value } } => {
                self.on_vote(from, Step { round, half: Half::Proposals }, value, out);
            }
            Input::Receive { message: Msg::Decide { value }, .. } => self.on_decide(value, out),
            Input::Request(propose) => {
                if self.stage == Stage::Idle {
                    self.report(1, propose.value(self.id), out);
                    self.go_on(out);
                }
            }
            Input::Expire(BenOrTimer::Lot(value)) => self.on_lot(value, out),
            // Nobody relies on a failure detector.
            Input::Start | Input::PeerDown { .. } | Input::PeerUp { .. } => {}
        }
    }

    fn phase(&self) -> Phase {
        match self.stage {
            Stage::Voting(_) | Stage::Drawing { .. } => Phase::WAITING,
            Stage::Idle | Stage::Decided | Stage::GaveUp | Stage::Returned => Phase::IDLE,
        }
    }

    fn assert_invariants(&self) {
        match &self.stage {
            Stage::Voting(step) => {
                assert!(
                    (1..=self.config.rounds).contains(&step.round),
                    "nobody goes on after the last round"
                );
                let is_spoken = self.heard.get(step).is_some_and(|votes| votes.contains_key(&self.id));
                assert!(is_spoken, "who waits for the others has spoken itself");
                assert!(
                    self.heard.keys().all(|other| other.round >= step.round),
                    "rounds that are over are forgotten"
                );
            }
            Stage::Drawing { lots, .. } => assert!(lots.len() > 1, "a single value is not drawn"),
            Stage::Idle => {}
            Stage::Decided | Stage::GaveUp | Stage::Returned => {
                assert!(self.heard.is_empty(), "who takes no part keeps no votes");
            }
        }
    }
}

impl BenOr {
    fn broken(&self, mutation: Mutation) -> bool {
        self.config.mutation == Some(mutation)
    }

    /// More than half of all. All but those who may crash are as many.
    fn majority(&self) -> usize {
        self.members.len() / 2 + 1
    }

    /// How many processes may crash.
    fn most_crashes(&self) -> usize {
        self.members.len().saturating_sub(1) / 2
    }

    fn on_vote(&mut self, from: NodeId, step: Step, value: Option<u64>, out: &mut impl Effects<Self>) {
        if !(1..=self.config.rounds).contains(&step.round) {
            return out.reject(from, "there are only so many rounds");
        }
        let present = match &self.stage {
            Stage::Idle => Step { round: 1, half: Half::Reports },
            Stage::Voting(step) => *step,
            Stage::Drawing { round, .. } => Step { round: round + 1, half: Half::Reports },
            Stage::Decided | Stage::GaveUp | Stage::Returned => return,
        };
        if step < present {
            return;
        }
        // What was said first stays.
        self.heard.entry(step).or_default().entry(from).or_insert(value);
        // Who has no value of its own takes the first that it hears of.
        if let (Stage::Idle, Some(value)) = (&self.stage, value) {
            self.report(1, value, out);
        }
        self.go_on(out);
    }

    /// Goes on as long as a majority has spoken in the present step.
    fn go_on(&mut self, out: &mut impl Effects<Self>) {
        while let Stage::Voting(step) = self.stage
            && let Some(votes) = self.heard.get(&step)
            && votes.len() >= self.majority()
        {
            let favourite = favourite(votes);
            match step.half {
                Half::Reports => self.end_reports(step.round, favourite, out),
                Half::Proposals => self.end_proposals(step.round, favourite, out),
            }
        }
    }

    fn end_reports(&mut self, round: u32, favourite: Option<(u64, usize)>, out: &mut impl Effects<Self>) {
        let chosen = favourite.filter(|(_, count)| *count >= self.majority()).map(|(value, _)| value);
        match chosen {
            Some(value) if self.broken(Mutation::OneStep) => self.decide(value, out),
            _ => {
                out.send_all(self.members.others(self.id), &Msg::Proposal { round, value: chosen });
                self.speak(Step { round, half: Half::Proposals }, chosen);
            }
        }
    }

    fn end_proposals(&mut self, round: u32, favourite: Option<(u64, usize)>, out: &mut impl Effects<Self>) {
        match favourite {
            Some((value, count)) if count > self.most_crashes() => self.decide(value, out),
            Some((value, _)) => self.report(round + 1, value, out),
            None => self.draw(round, out),
        }
    }

    /// Begins a round with this estimate, or gives up.
    fn report(&mut self, round: u32, value: u64, out: &mut impl Effects<Self>) {
        if round > self.config.rounds {
            self.stage = Stage::GaveUp;
            self.heard.clear();
            return out.emit(Event::GaveUp);
        }
        out.send_all(self.members.others(self.id), &Msg::Report { round, value });
        self.speak(Step { round, half: Half::Reports }, Some(value));
    }

    /// The votes of a round are kept until it is over.
    fn speak(&mut self, step: Step, value: Option<u64>) {
        self.heard.retain(|other, _| other.round >= step.round);
        self.heard.entry(step).or_default().insert(self.id, value);
        self.stage = Stage::Voting(step);
    }

    /// Sets a timer for each value that was reported in this round.
    fn draw(&mut self, round: u32, out: &mut impl Effects<Self>) {
        let reports = self.heard.get(&Step { round, half: Half::Reports });
        let reported = || reports.into_iter().flat_map(|votes| votes.values().flatten().copied());
        if self.broken(Mutation::OwnCoin) {
            let sum = reported().fold(0, u64::saturating_add);
            return self.report(round + 1, sum, out);
        }
        let lots: BTreeSet<u64> = reported().collect();
        if let (1, Some(value)) = (lots.len(), lots.first()) {
            return self.report(round + 1, *value, out);
        }
        let span = After::between(Duration::from_micros(1), self.timing.answer_timeout());
        lots.iter().for_each(|value| out.arm(BenOrTimer::Lot(*value), span));
        self.stage = Stage::Drawing { round, lots };
    }

    fn on_lot(&mut self, value: u64, out: &mut impl Effects<Self>) {
        if let Stage::Drawing { round, lots } = &self.stage
            && lots.contains(&value)
        {
            let round = *round;
            self.put_lots_back(out);
            self.report(round + 1, value, out);
            self.go_on(out);
        }
    }

    /// No other lot is drawn.
    fn put_lots_back(&self, out: &mut impl Effects<Self>) {
        if let Stage::Drawing { lots, .. } = &self.stage {
            lots.iter().for_each(|value| out.disarm(BenOrTimer::Lot(*value)));
        }
    }

    fn on_decide(&mut self, value: u64, out: &mut impl Effects<Self>) {
        match self.stage {
            Stage::Idle | Stage::Voting(_) | Stage::Drawing { .. } | Stage::GaveUp => {
                if !self.broken(Mutation::NoRelay) {
                    self.tell(value, out);
                }
                self.become_decided(value, out);
            }
            Stage::Decided | Stage::Returned => {}
        }
    }

    fn decide(&mut self, value: u64, out: &mut impl Effects<Self>) {
        self.tell(value, out);
        self.become_decided(value, out);
    }

    /// Whoever decides stops to vote, so all who are up have to hear of it.
    fn tell(&self, value: u64, out: &mut impl Effects<Self>) {
        out.send_all(self.members.others(self.id), &Msg::Decide { value });
    }

    fn become_decided(&mut self, value: u64, out: &mut impl Effects<Self>) {
        self.put_lots_back(out);
        self.stage = Stage::Decided;
        self.heard.clear();
        out.emit(Event::Decided(value));
    }
}

/// The value that most have named, and how many; of several the smallest.
fn favourite(votes: &Votes) -> Option<(u64, usize)> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for value in votes.values().flatten() {
        *counts.entry(*value).or_default() += 1;
    }
    // Of equal counts the last wins: the smallest value, from the largest on.
    counts.into_iter().rev().max_by_key(|(_, count)| *count)
}

impl Algorithm for BenOr {
    const ABOUT: About = About {
        name: "ben-or",
        title: "Ben-Or",
        paper: "Ben-Or, Another advantage of free choice: completely asynchronous agreement protocols, PODC (1983)",
        idea: "where votes are split, draw lots, and vote again",
        family: FAMILY,
        channels: Channels::Any,
        synchrony: Synchrony::Asynchronous,
        topology: Topology::Complete,
        cost: "2n(n − 1) a round, and n(n − 1) to tell",
        faults: "crashes while a majority is up, also inside a step; wrong suspicions never matter",
        settings: &[Setting {
            key: "rounds",
            values: Values::Number(1, 10_000),
            default: "100",
            unsafe_values: &[],
            help: "after how many rounds a process gives up",
        }],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<BenOrConfig, SettingError> {
        Ok(BenOrConfig { rounds: settings.number("rounds") as u32, mutation: Mutation::of(settings) })
    }
}

impl Consensus for BenOr {
    fn any(config: BenOrConfig) -> AnyConfig {
        AnyConfig::BenOr(config)
    }

    fn needs(_config: &BenOrConfig) -> Needs {
        Needs { most_crashes: None, majority: true, returns: false, is_log: false }
    }

    fn formula(config: &BenOrConfig, members: &Members, proposals: u64) -> Formula {
        let n = members.len() as u64;
        let all = n * (n - 1);
        match proposals {
            0 => Formula::exactly("nothing is proposed", 0),
            _ => Formula::between(
                "2n(n − 1) a round, and n(n − 1) to tell",
                all,
                (2 * u64::from(config.rounds) + 1) * all,
            ),
        }
    }
}
