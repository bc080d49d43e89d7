//! The Berkeley algorithm: an elected master asks everyone for the time, and all agree on the average.
//!
//! Gusella and Zatti, *The accuracy of the clock synchronization achieved by TEMPO in Berkeley UNIX 4.3BSD*, IEEE Trans.
//! Software Engineering 15(7), 1989.
//!
//! Nobody's clock is right, so nobody is asked for the right time: the group agrees with itself. The master is elected, by
//! any election ([`Led`](crate::Led)), and replaced when it dies.
//!
//! ```text
//!   p4, the master: 3:00    p1: 3:25            p2: 2:50            p3: 3:05
//!    │ ── Poll ────────────▶ │                   │                   │
//!    │ ── Poll ────────────────────────────────▶ │                   │
//!    │ ── Poll ────────────────────────────────────────────────────▶ │
//!    │ ◀─────── Clock 3:25 ──│                   │                   │
//!    │ ◀─────────────────── Clock 2:50 ───────── │                   │
//!    │ ◀──────────────────────────────────────── Clock 3:05 ──────── │
//!    │    differences 0, +25, −10, +5: on average +5                 │
//!    │ ── Adjust −20 ──────▶ │                   │                   │
//!    │ ── Adjust +15 ──────────────────────────▶ │                   │
//!    │ ── Adjust 0 ────────────────────────────────────────────────▶ │
//!   3:05                    3:05                3:05                3:05
//! ```
//!
//! **Outliers.** A clock further than `gamma` from the median of all is not averaged, or one broken clock would take all
//! others with it. Whoever has it is adjusted all the same.
//!
//! **Rounds.** The master holds `rounds` of them, `period` apart. It says how many are to come, so that a process that
//! hears nothing for longer calls an election. A master that was just elected begins a round: its predecessor may have
//! died in the middle of one. Who does not answer in time is left out.
//!
//! **Late orders.** An `Adjust` is relative to the clock that was told. It counts only if it answers the last `Poll`, and only
//! if the clock has not been corrected since.
//!
//! **Cost**: 3(n − 1) in a round, and the election.
//!
//! **Assumes** what the election assumes; for the bound, that no message travels in less than `min` and no clock drifts by
//! more than `drift`. The bound is about the clocks of one round: how far they are from the true time nobody knows.

use core::time::Duration;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use conclave_core::{
    After, Boot, Effects, Input, Members, Message, NodeId, NodeSet, Phase, Protocol, Reading, Timing,
};
use serde::{Deserialize, Serialize};

use super::{
    Drift, Estimate, Event, Exchange, Reference, Request, SoftClock, Terms, Timekeeper, nanos, patience,
};
use crate::demand::Who;
use crate::election::{AnyConfig, AnyElection, Tally};
use crate::{
    About, Algorithm, Asked, Channels, Formula, Led, LedConfig, STRANGER, Setting, SettingError, Settings,
    Synchrony, Told, Topology, Values,
};

/// Berkeley under a master who is elected: by the bully, unless another election is asked for.
pub type LedBerkeley = Led<AnyElection, Berkeley>;

/// A process that agrees with the others, and is master when it is elected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Berkeley {
    id: NodeId,
    members: Members,
    config: BerkeleyConfig,
    timing: Timing,
    clock: SoftClock,
    down: NodeSet,
    /// Who leads, as far as we know.
    leader: Option<NodeId>,
    /// The largest number of a round that we have seen.
    number: u64,
    /// How many rounds were to follow the last one that we have seen.
    left: Option<u64>,
    /// Whom we told our clock last, and in which round; nobody if it was corrected since.
    polled: Option<(NodeId, u64)>,
    /// How often we have asked for a round that our application waits for.
    wants: Option<u8>,
    office: Option<Office>,
}

/// What a master keeps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Office {
    /// How many rounds are to follow.
    left: u64,
    /// The round that goes on, if one does.
    round: Option<Round>,
    /// Somebody asked for another one meanwhile.
    again: bool,
}

/// A round of a master.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Round {
    /// Its number. Another master may hold later ones meanwhile.
    number: u64,
    /// When everyone was asked, by our clock.
    polled: Reading,
    /// Who has not answered.
    missing: NodeSet,
    answers: BTreeMap<NodeId, Estimate>,
}

/// Settings of [`Berkeley`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BerkeleyConfig {
    /// In nanoseconds.
    gamma: i64,
    rounds: u64,
    period: Duration,
    terms: Terms,
    slew: u32,
    mutation: Option<Mutation>,
}

mutants! {
    pub enum Mutation {
        /// A clock that is ahead is set back.
        StepBack {
            name: "step-back", breaks: "C2", nodes: 3, trigger: Clocks,
            change: "a clock that is ahead is set back at once instead of slowed down",
        }
        /// The time on the way is forgotten.
        OneWay {
            name: "one-way", breaks: "C1", nodes: 3, trigger: Time,
            change: "the time that an answer was on its way is not added",
        }
        /// A master waits for the answer of a process that has died.
        WaitForAll {
            name: "wait-for-all", breaks: "C3", nodes: 3, trigger: Crash,
            change: "a master waits for everyone's answer, whoever is dead",
        }
    }
}

/// What the processes say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BerkeleyMessage {
    /// What does your clock show?
    Poll {
        /// The number of the round.
        number: u64,
        /// How many are to follow.
        left: u64,
    },
    /// This.
    Clock {
        /// The number of the round.
        number: u64,
        /// What the clock shows.
        time: Reading,
    },
    /// Correct it.
    Adjust {
        /// The number of the round.
        number: u64,
        /// By so many nanoseconds.
        by: i64,
        /// It is this far from that of the master then, at most.
        bound: i64,
    },
    /// Hold another round.
    Ask,
}

use BerkeleyMessage as Msg;

impl Message for BerkeleyMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Poll, Clock, Adjust, Ask)
    }
}

/// The timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BerkeleyTimer {
    /// Whoever is alive has had the time to answer.
    Collect,
    /// The next round is due.
    Period,
    /// We should have heard of the next round by now.
    Watch,
    /// We should have heard of the round that we asked for.
    Patience,
}

impl Protocol for Berkeley {
    type Config = BerkeleyConfig;
    type Message = BerkeleyMessage;
    type Request = Asked<Request>;
    type Event = Told<Event>;
    type Timer = BerkeleyTimer;
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        Self {
            id: boot.id,
            members: boot.members.clone(),
            config: boot.config.clone(),
            timing: boot.timing,
            clock: SoftClock::new(boot.config.slew),
            down: NodeSet::new(),
            leader: None,
            number: 0,
            left: None,
            polled: None,
            wants: None,
            office: None,
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Receive { from, .. } if !self.members.has_other(self.id, from) => {
                out.reject(from, STRANGER);
            }
            Input::Receive { from, message: Msg::Poll { number, left } } => {
                self.on_poll(from, number, left, out);
            }
            Input::Receive { from, message: Msg::Clock { number, time } } => {
                self.on_clock(from, number, time, out);
            }
            Input::Receive { from, message: Msg::Adjust { number, by, bound } } => {
                self.on_adjust(from, number, by, bound, out);
            }
            // Who asks a process that does not lead will learn who does.
            Input::Receive { message: Msg::Ask, .. } => self.maybe_hold_another(out),
            Input::Request(Asked::App(Request::Read)) => {
                let now = self.clock.at(out.now());
                out.emit(Told::App(Event::Time(now)));
            }
            Input::Request(Asked::App(Request::Sync)) => self.on_sync(out),
            Input::Request(Asked::Elected { leaders, .. }) => self.on_elected(leaders.first().copied(), out),
            Input::Expire(BerkeleyTimer::Collect) => self.conclude(out),
            Input::Expire(BerkeleyTimer::Period) => self.begin_round(out),
            // The master is gone, or its word was lost.
            Input::Expire(BerkeleyTimer::Watch) => self.call_election(out),
            Input::Expire(BerkeleyTimer::Patience) => self.on_impatience(out),
            Input::PeerDown { peer, .. } => self.on_peer_down(peer, out),
            Input::PeerUp { peer, .. } => {
                self.down.remove(peer);
            }
            Input::Start => {}
        }
    }

    fn phase(&self) -> Phase {
        match (&self.office, self.wants, self.leader) {
            (Some(_), ..) => Phase::LEADING,
            (None, Some(_), _) => Phase::WAITING,
            (None, None, Some(_)) => Phase::FOLLOWING,
            (None, None, None) => Phase::IDLE,
        }
    }

    fn reads_clock(&self) -> bool {
        true
    }

    fn assert_invariants(&self) {
        let round = self.office.as_ref().and_then(|office| office.round.as_ref());
        assert!(round.is_none_or(|round| !round.missing.contains(self.id)), "a master does not poll itself");
        assert!(self.office.is_none() || self.leader == Some(self.id), "only who leads holds rounds");
    }
}

impl Berkeley {
    fn on_sync(&mut self, out: &mut impl Effects<Self>) {
        self.wants = Some(0);
        match self.leader {
            Some(leader) if leader == self.id => self.maybe_hold_another(out),
            Some(leader) => self.ask(leader, out),
            None => out.emit(Told::Elect),
        }
    }

    fn ask(&mut self, leader: NodeId, out: &mut impl Effects<Self>) {
        out.send(leader, Msg::Ask);
        // A round that goes on is finished first.
        let wait = patience(&self.timing, self.config.terms.drift);
        out.arm(BerkeleyTimer::Patience, After::exactly(wait.max * 3));
    }

    /// Nobody has polled us: the master does not know that we wait, or is no master.
    fn on_impatience(&mut self, out: &mut impl Effects<Self>) {
        let Some(asked) = self.wants else { return };
        self.wants = Some(asked + 1);
        match (self.leader, asked) {
            (Some(leader), 0) if leader != self.id => self.ask(leader, out),
            (_, 0 | 1) => self.call_election(out),
            _ => {
                self.wants = None;
                out.emit(Told::App(Event::Failed));
            }
        }
    }

    fn call_election(&mut self, out: &mut impl Effects<Self>) {
        if self.office.is_none() {
            self.leader = None;
        }
        out.emit(Told::Elect);
    }

    fn on_elected(&mut self, leader: Option<NodeId>, out: &mut impl Effects<Self>) {
        self.leader = leader;
        if leader == Some(self.id) {
            return self.become_master(out);
        }
        self.resign(out);
        if self.wants.is_some() {
            // Who was just elected begins a round by itself; where the news goes round a ring, it may be the last to know.
            let wait = patience(&self.timing, self.config.terms.drift);
            out.arm(BerkeleyTimer::Patience, After::exactly(wait.max * (self.members.len() as u32 + 1)));
        }
    }

    fn become_master(&mut self, out: &mut impl Effects<Self>) {
        out.disarm(BerkeleyTimer::Watch);
        out.disarm(BerkeleyTimer::Patience);
        if self.office.is_some() {
            return;
        }
        // The round that our predecessor died in is held again.
        let rounds = self.left.unwrap_or(self.config.rounds).max(1);
        self.office = Some(Office { left: rounds, round: None, again: false });
        self.begin_round(out);
    }

    fn resign(&mut self, out: &mut impl Effects<Self>) {
        if self.office.take().is_some() {
            out.disarm(BerkeleyTimer::Collect);
            out.disarm(BerkeleyTimer::Period);
        }
    }

    /// As master: one more round is held, now or after the present one.
    fn maybe_hold_another(&mut self, out: &mut impl Effects<Self>) {
        let Some(office) = &mut self.office else { return };
        if office.round.is_some() {
            office.again = true;
            return;
        }
        office.left = office.left.saturating_add(1);
        self.begin_round(out);
    }

    fn begin_round(&mut self, out: &mut impl Effects<Self>) {
        let Some(office) = &mut self.office else { return };
        out.disarm(BerkeleyTimer::Period);
        self.number = self.number.saturating_add(1);
        office.left = office.left.saturating_sub(1);
        self.left = Some(office.left);
        let waits_for_dead = self.config.mutation == Some(Mutation::WaitForAll);
        let is_asked = |peer: &NodeId| waits_for_dead || !self.down.contains(*peer);
        let missing: NodeSet = self.members.others(self.id).filter(is_asked).collect();
        let poll = Msg::Poll { number: self.number, left: office.left };
        out.send_all(missing.iter(), &poll);
        let is_alone = missing.is_empty();
        office.round =
            Some(Round { number: self.number, polled: out.now(), missing, answers: BTreeMap::new() });
        if is_alone {
            return self.conclude(out);
        }
        if !waits_for_dead {
            out.arm(BerkeleyTimer::Collect, patience(&self.timing, self.config.terms.drift));
        }
    }

    fn on_poll(&mut self, from: NodeId, number: u64, left: u64, out: &mut impl Effects<Self>) {
        self.number = self.number.max(number);
        // No master holds more, whatever it says.
        self.left = Some(left.min(self.config.rounds));
        self.polled = Some((from, number));
        let wait = patience(&self.timing, self.config.terms.drift);
        if self.wants.is_some() {
            // The master may die, or another one may poll us before it tells us anything.
            out.arm(BerkeleyTimer::Patience, After::exactly(wait.max * 3));
        }
        match left {
            0 => out.disarm(BerkeleyTimer::Watch),
            _ => out.arm(BerkeleyTimer::Watch, After::exactly((self.config.period + wait.max) * 2)),
        }
        let time = self.clock.target(out.now());
        out.send(from, Msg::Clock { number, time });
    }

    fn on_clock(&mut self, from: NodeId, number: u64, told: Reading, out: &mut impl Effects<Self>) {
        let answered = out.now();
        let Some(round) = self.office.as_mut().and_then(|office| office.round.as_mut()) else { return };
        if number != round.number || !round.missing.remove(from) {
            return;
        }
        let exchange = Exchange { asked: round.polled, answered, told };
        let mut estimate = exchange.estimate(&self.config.terms);
        if self.config.mutation == Some(Mutation::OneWay) {
            estimate.ahead = told.since(answered);
        }
        // It is held against our corrected clock, not against the one that we measure with.
        let ours = self.clock.target(answered).since(answered);
        estimate.ahead = estimate.ahead.saturating_sub(ours);
        round.answers.insert(from, estimate);
        if round.missing.is_empty() {
            self.conclude(out);
        }
    }

    /// As master: the round is over. Everyone who answered is told what to do.
    fn conclude(&mut self, out: &mut impl Effects<Self>) {
        let Some(office) = &mut self.office else { return };
        let Some(Round { number, polled, answers, .. }) = office.round.take() else { return };
        out.disarm(BerkeleyTimer::Collect);
        let drifted = self.config.terms.drift.apart(out.now().since(polled));
        let differences: Vec<i64> = core::iter::once(0).chain(answers.values().map(|it| it.ahead)).collect();
        let average = average(&differences, self.config.gamma);
        for (peer, Estimate { ahead, bound }) in answers {
            let (by, bound) = (average.saturating_sub(ahead), bound.saturating_add(drifted));
            out.send(peer, Msg::Adjust { number, by, bound });
        }
        if office.again {
            (office.again, office.left) = (false, office.left.saturating_add(1));
        }
        if office.left > 0 {
            out.arm(BerkeleyTimer::Period, After::exactly(self.config.period));
        }
        self.correct(average, 0, (self.id, number), out);
    }

    fn on_adjust(&mut self, from: NodeId, number: u64, by: i64, bound: i64, out: &mut impl Effects<Self>) {
        if self.polled == Some((from, number)) {
            self.correct(by, bound.max(0), (from, number), out);
        }
    }

    fn correct(&mut self, by: i64, bound: i64, (source, round): (NodeId, u64), out: &mut impl Effects<Self>) {
        let now = out.now();
        let to = self.clock.target(now).shifted(by);
        match self.config.mutation {
            Some(Mutation::StepBack) => self.clock.jump_to(to, now),
            Some(Mutation::OneWay | Mutation::WaitForAll) | None => self.clock.agree_with(to, now),
        }
        if self.wants.take().is_some() {
            out.disarm(BerkeleyTimer::Patience);
        }
        // What was told of our clock, or measured with it, is no longer true.
        self.polled = None;
        out.emit(Told::App(Event::Adjusted { by, to, bound, source: Some(source), round }));
        if let Some(office) = &mut self.office
            && office.round.take().is_some()
        {
            // The last word of our predecessor reached us in the middle of a round: it is held again.
            office.left = office.left.saturating_add(1);
            self.begin_round(out);
        }
    }

    fn on_peer_down(&mut self, peer: NodeId, out: &mut impl Effects<Self>) {
        self.down.insert(peer);
        // The election replaces it.
        if self.leader == Some(peer) {
            self.leader = None;
            out.disarm(BerkeleyTimer::Watch);
        }
        let round = self.office.as_mut().and_then(|office| office.round.as_mut());
        if self.config.mutation != Some(Mutation::WaitForAll)
            && let Some(round) = round
            && round.missing.remove(peer)
            && round.missing.is_empty()
        {
            self.conclude(out);
        }
    }
}

/// The mean of those that are no further than `gamma` from the median.
fn average(differences: &[i64], gamma: i64) -> i64 {
    let mut sorted = differences.to_vec();
    sorted.sort_unstable();
    let median = sorted[(sorted.len() - 1) / 2];
    let is_near = |difference: &&i64| difference.abs_diff(median) <= gamma.unsigned_abs();
    let kept: Vec<i128> = sorted.iter().filter(is_near).map(|difference| i128::from(*difference)).collect();
    let mean = kept.iter().sum::<i128>() / kept.len() as i128;
    i64::try_from(mean).unwrap_or_default()
}

impl Algorithm for LedBerkeley {
    const ABOUT: About = About {
        name: "berkeley",
        title: "The Berkeley algorithm",
        paper: "Gusella and Zatti, The accuracy of the clock synchronization achieved by TEMPO in Berkeley UNIX \
                4.3BSD, IEEE Trans. Software Engineering 15(7) (1989)",
        idea: "an elected master averages all clocks",
        family: super::FAMILY,
        channels: Channels::Any,
        synchrony: Synchrony::Synchronous,
        topology: Topology::Complete,
        cost: "3(n − 1) per round, and the election",
        faults: "crashes and wrong suspicions, as long as one process stays up",
        settings: &[
            Setting {
                key: "gamma",
                values: Values::Number(0, 1_000_000_000),
                default: "1000000",
                unsafe_values: &[],
                help: "a clock further from the median, in milliseconds, is not averaged",
            },
            Setting {
                key: "rounds",
                values: Values::Number(1, 1_000_000),
                default: "1",
                unsafe_values: &[],
                help: "how many rounds a master holds",
            },
            Setting {
                key: "period",
                values: Values::Number(1, 1_000_000_000),
                default: "1000",
                unsafe_values: &[],
                help: "the time between two rounds, in milliseconds",
            },
            AnyConfig::SETTING,
        ],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, members: &Members) -> Result<Self::Config, SettingError> {
        Ok(LedConfig {
            election: AnyConfig::read(settings, members)?,
            application: BerkeleyConfig {
                gamma: nanos(settings.number("gamma") * 1_000),
                rounds: settings.number("rounds"),
                period: Duration::from_millis(settings.number("period")),
                terms: super::family::terms(settings),
                slew: super::family::slew(settings),
                mutation: Mutation::of(settings),
            },
        })
    }
}

impl Timekeeper for LedBerkeley {
    const REFERENCE: Reference = Reference::Round;
    const ASKS: Who = Who::Lowest;
    /// A master that comes back at once, and its successor, can poll past each other.
    const OUTLIVES_RETURNS: bool = false;

    fn clock(&self) -> &SoftClock {
        &self.application().clock
    }

    fn drift(config: &Self::Config) -> Drift {
        config.application.terms.drift
    }

    /// A process that is alone agrees with itself.
    fn can_sync(_: &Self::Config, _: &Members, _: usize, _: &dyn Fn(usize) -> bool) -> bool {
        true
    }

    /// The election, and 3(n − 1) for each round.
    fn formula(config: &Self::Config, members: &Members, asked: &[NodeId]) -> Formula {
        let text = "election + 3(n − 1) per round";
        if asked.is_empty() {
            return Formula::exactly(text, 0);
        }
        let tally = Tally { starters: asked, absent: &[], recovered: None, disturbed: false };
        let election = config.election.formula(members, &tally);
        let rounds = 3 * (members.len() as u64 - 1) * config.application.rounds;
        // Of several who ask at once, one may come too late for the round of the first.
        let high = election.high.filter(|_| asked.len() == 1).map(|high| high + rounds);
        Formula { text, low: election.low + rounds, high }
    }
}

#[cfg(test)]
mod tests {
    use super::average;

    /// TV-C2, TV-C3 and V-C9, in minutes.
    #[test]
    fn outliers_are_not_averaged() {
        for (differences, mean) in [
            (&[0, 25, -10][..], 5),
            (&[0, 25, -10, 120], 5),
            (&[0, 25, -10, 5], 5),
            (&[0, -15, 0], -5),
            (&[0], 0),
            (&[i64::MIN, i64::MAX, 0], 0),
        ] {
            assert_eq!(average(differences, 30), mean, "{differences:?}");
        }
    }
}
