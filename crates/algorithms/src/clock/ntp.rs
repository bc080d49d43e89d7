//! The Network Time Protocol: a hierarchy of servers, from those with a reference clock down.
//!
//! Mills, *Internet time synchronization: the network time protocol*, IEEE Trans. Communications 39(10), 1991; RFC 5905.
//! Marzullo and Owicki, *Maintaining the time in a distributed system*, PODC 1983, for the intersection.
//!
//! ```text
//!   stratum 1     p1 ●  primaries: their clocks are right     client        server
//!                   ╱ ╲                                        │ T1 ── Query ───▶ │ T2
//!   stratum 2   p2 ●   ● p3                                    │ T4 ◀── Answer ── │ T3
//!                   ╲ ╱                                      θ = ((T2 − T1) + (T3 − T4)) / 2
//!   stratum 3     p4 ●                                       δ = (T4 − T1) − (T3 − T2)
//! ```
//!
//! Everyone but the primaries polls its *sources*, which are among the processes before it, so nobody is its own source. Of each
//! it keeps the last eight exchanges. The true offset is within δ/2 of θ and what the source itself could be wrong by then; the
//! exchange counts that says most. Each source so gives an interval. The true offset lies where most intervals
//! overlap; a source whose interval lies elsewhere is a *falseticker* and dropped. Of the others the one with the lowest stratum
//! becomes the parent, and one more than its stratum is ours. When it dies, another source becomes the parent.
//!
//! **Cost**: 2 messages per poll of a source.
//!
//! **Assumes** that most sources of everyone are right, that primaries are wrong by no more than `precision`, and that no clock
//! drifts by more than `drift`.
//!
//! **Caveats**: two sources that contradict each other have no majority: then nobody is believed. A process whose sources have
//! no time yet has none either, until a later poll.

use core::time::Duration;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use conclave_core::{
    After, Boot, Effects, Input, Members, Message, NodeId, NodeSet, Phase, Protocol, Reading, Timing,
};
use serde::{Deserialize, Serialize};

use super::{
    Drift, Estimate, Event, Exchange, Reference, Request, SoftClock, Terms, Timekeeper, nanos, patience,
};
use crate::demand::Who;
use crate::{
    About, Algorithm, Channels, Formula, STRANGER, Setting, SettingError, Settings, Synchrony, Topology,
    Values,
};

/// Exchanges that are kept of each source.
const KEPT: usize = 8;
/// Who says so has no time.
const NO_TIME: u8 = 16;

/// A process in the hierarchy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ntp {
    id: NodeId,
    members: Members,
    config: NtpConfig,
    timing: Timing,
    clock: SoftClock,
    down: NodeSet,
    /// What we know of each source.
    sources: BTreeMap<NodeId, Source>,
    /// Where our time comes from; nowhere yet.
    root: Option<Root>,
    poll: Option<Poll>,
}

/// What is known of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Source {
    kept: VecDeque<Kept>,
    stratum: u8,
    /// It has answered the last poll.
    is_reachable: bool,
}

/// An exchange that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Kept {
    estimate: Estimate,
    /// How wrong the source could be then, in nanoseconds. Its clock may have been corrected since.
    distance: i64,
    at: Reading,
}

/// Where the time of a process comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Root {
    stratum: u8,
    /// How wrong our clock could be when it was corrected.
    distance: i64,
    since: Reading,
}

/// Asking all sources, several times.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Poll {
    /// When they were asked, by our clock: T1.
    asked: Reading,
    missing: NodeSet,
    /// How many polls are to follow.
    left: u64,
    /// The clock was corrected since the application asked for it.
    has_adjusted: bool,
}

/// Settings of [`Ntp`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NtpConfig {
    primaries: usize,
    sources: usize,
    polls: u64,
    interval: Duration,
    /// In nanoseconds.
    precision: i64,
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
            change: "the time that the answer was on its way is not added",
        }
        /// A source that has died is waited for.
        WaitForAll {
            name: "wait-for-all", breaks: "C3", nodes: 3, trigger: Crash,
            change: "every source's answer is waited for, whoever is dead",
        }
    }
}

/// What the processes say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NtpMessage {
    /// What time is it?
    Query {
        /// T1, by the clock of the client.
        asked: Reading,
    },
    /// This late.
    Answer {
        /// T1 again: what does not repeat it answers another question.
        asked: Reading,
        /// T2.
        received: Reading,
        /// T3.
        sent: Reading,
        /// The stratum of the server; 16 if it has no time.
        stratum: u8,
        /// How wrong its time may be, in nanoseconds.
        distance: i64,
    },
}

use NtpMessage as Msg;

impl Message for NtpMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Query, Answer)
    }
}

/// The timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NtpTimer {
    /// Whoever is alive has had the time to answer.
    Collect,
    /// The next poll is due.
    Poll,
}

impl Protocol for Ntp {
    type Config = NtpConfig;
    type Message = NtpMessage;
    type Request = Request;
    type Event = Event;
    type Timer = NtpTimer;
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        let sources = boot.config.sources_of(boot.members, boot.id);
        let is_primary = sources.is_empty();
        let distance = boot.config.precision;
        Self {
            id: boot.id,
            members: boot.members.clone(),
            config: boot.config.clone(),
            timing: boot.timing,
            clock: SoftClock::new(boot.config.slew),
            down: NodeSet::new(),
            sources: sources.into_iter().map(|source| (source, Source::default())).collect(),
            root: is_primary.then_some(Root { stratum: 1, distance, since: Reading::ZERO }),
            poll: None,
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Receive { from, .. } if !self.members.has_other(self.id, from) => {
                out.reject(from, STRANGER);
            }
            Input::Receive { from, message: Msg::Query { asked } } => self.on_query(from, asked, out),
            Input::Receive { from, message: Msg::Answer { asked, received, sent, stratum, distance } } => {
                let now = out.now();
                self.on_answer(from, [asked, received, sent, now], (stratum, distance), out);
            }
            Input::Request(Request::Read) => {
                let now = self.clock.at(out.now());
                out.emit(Event::Time(now));
            }
            Input::Request(Request::Sync) => self.on_sync(out),
            Input::Expire(NtpTimer::Collect) => self.conclude(out),
            Input::Expire(NtpTimer::Poll) => self.ask_all(out),
            Input::PeerDown { peer, .. } => self.on_peer_down(peer, out),
            Input::PeerUp { peer, .. } => {
                self.down.remove(peer);
            }
            Input::Start => {}
        }
    }

    fn phase(&self) -> Phase {
        if self.poll.is_some() { Phase::WAITING } else { Phase::IDLE }
    }

    fn reads_clock(&self) -> bool {
        true
    }

    fn assert_invariants(&self) {
        assert!(self.root.is_none_or(|root| root.stratum < NO_TIME), "who has the time has a stratum");
        assert!(self.sources.values().all(|source| source.kept.len() <= KEPT), "eight exchanges are kept");
    }
}

impl NtpConfig {
    /// Whom a process polls: those right before it. Primaries poll nobody.
    fn sources_of(&self, members: &Members, id: NodeId) -> Vec<NodeId> {
        let place = members.position(id).unwrap_or_default();
        if place < self.primaries {
            return Vec::new();
        }
        (place.saturating_sub(self.sources)..place).map(|place| members.at(place)).collect()
    }
}

impl Ntp {
    /// A primary is right as it is; everybody else asks its sources, unless it is doing so.
    fn on_sync(&mut self, out: &mut impl Effects<Self>) {
        let now = out.now();
        if self.sources.is_empty() {
            let (to, bound) = (self.clock.at(now), self.config.precision);
            return out.emit(Event::Adjusted { by: 0, to, bound, source: None, round: 0 });
        }
        if self.poll.is_none() {
            let (missing, left) = (NodeSet::new(), self.config.polls);
            self.poll = Some(Poll { asked: now, missing, left, has_adjusted: false });
            self.ask_all(out);
        }
    }

    fn ask_all(&mut self, out: &mut impl Effects<Self>) {
        let Some(poll) = &mut self.poll else { return };
        let waits_for_dead = self.config.mutation == Some(Mutation::WaitForAll);
        poll.asked = out.now();
        poll.left = poll.left.saturating_sub(1);
        poll.missing =
            self.sources.keys().copied().filter(|id| waits_for_dead || !self.down.contains(*id)).collect();
        self.sources.values_mut().for_each(|source| source.is_reachable = false);
        out.send_all(poll.missing.iter(), &Msg::Query { asked: poll.asked });
        match (poll.missing.is_empty(), waits_for_dead) {
            (true, _) => self.conclude(out),
            (false, false) => out.arm(NtpTimer::Collect, patience(&self.timing, self.config.terms.drift)),
            (false, true) => {}
        }
    }

    /// The answer says how good it is: what we believed when we were corrected, and how far we can have drifted since.
    fn on_query(&self, from: NodeId, asked: Reading, out: &mut impl Effects<Self>) {
        let now = out.now();
        let time = self.clock.target(now);
        let (stratum, distance) = match self.root {
            Some(root) if root.stratum == 1 => (1, root.distance),
            Some(Root { stratum, distance, since }) => {
                (stratum, distance.saturating_add(self.config.terms.drift.apart(now.since(since))))
            }
            None => (NO_TIME, 0),
        };
        out.send(from, Msg::Answer { asked, received: time, sent: time, stratum, distance });
    }

    fn on_answer(
        &mut self,
        from: NodeId,
        [asked, received, sent, now]: [Reading; 4],
        (stratum, distance): (u8, i64),
        out: &mut impl Effects<Self>,
    ) {
        let Some(poll) = self.poll.as_mut().filter(|poll| poll.asked == asked) else { return };
        let (true, Some(source)) = (poll.missing.remove(from), self.sources.get_mut(&from)) else { return };
        source.is_reachable = true;
        source.stratum = stratum;
        let handling = sent.since(received).max(0);
        let exchange = Exchange { asked, answered: now, told: sent };
        let mut estimate = exchange.estimate(&Terms { handling, ..self.config.terms });
        if self.config.mutation == Some(Mutation::OneWay) {
            estimate.ahead = sent.since(now);
        }
        if source.kept.len() == KEPT {
            source.kept.pop_front();
        }
        if has_time(stratum) {
            source.kept.push_back(Kept { estimate, distance: distance.max(0), at: now });
        }
        if poll.missing.is_empty() {
            self.conclude(out);
        }
    }

    fn on_peer_down(&mut self, peer: NodeId, out: &mut impl Effects<Self>) {
        self.down.insert(peer);
        if self.config.mutation != Some(Mutation::WaitForAll)
            && let Some(poll) = &mut self.poll
            && poll.missing.remove(peer)
            && poll.missing.is_empty()
        {
            self.conclude(out);
        }
    }

    /// A poll is over: the clock is corrected if most sources agree.
    fn conclude(&mut self, out: &mut impl Effects<Self>) {
        out.disarm(NtpTimer::Collect);
        let now = out.now();
        if let Some(choice) = self.choose(now) {
            self.correct(&choice, now, out);
        }
        let Some(poll) = &mut self.poll else { return };
        if poll.left > 0 {
            return out.arm(NtpTimer::Poll, After::exactly(self.config.interval));
        }
        if !poll.has_adjusted {
            out.emit(Event::Failed);
        }
        self.poll = None;
    }

    fn correct(&mut self, choice: &Choice, now: Reading, out: &mut impl Effects<Self>) {
        let Choice { parent, stratum, ahead, bound } = *choice;
        let (to, before) = (now.shifted(ahead), self.clock.target(now));
        match self.config.mutation {
            Some(Mutation::StepBack) => self.clock.jump_to(to, now),
            Some(Mutation::OneWay | Mutation::WaitForAll) | None => self.clock.agree_with(to, now),
        }
        self.root = Some(Root { stratum: stratum + 1, distance: bound, since: now });
        if let Some(poll) = &mut self.poll {
            poll.has_adjusted = true;
        }
        let by = to.since(before);
        out.emit(Event::Adjusted { by, to, bound, source: Some(parent), round: 0 });
    }

    /// The intersection of what most sources say, and the best of those who say it.
    fn choose(&self, now: Reading) -> Option<Choice> {
        let said: Vec<Said> =
            self.sources.iter().filter_map(|(id, source)| self.said(*id, source, now)).collect();
        let intervals: Vec<(i64, i64)> = said.iter().map(Said::interval).collect();
        let (low, high) = intersection(&intervals)?;
        let agrees = |said: &&Said| said.interval().0 <= low && high <= said.interval().1;
        let best = said.iter().filter(agrees).min_by_key(|said| (said.stratum, said.bound, said.id))?;
        let ahead = best.ahead.clamp(low, high);
        let bound = high.saturating_sub(ahead).max(ahead.saturating_sub(low));
        Some(Choice { parent: best.id, stratum: best.stratum, ahead, bound })
    }

    /// What a source says, if it can be believed at all.
    fn said(&self, id: NodeId, source: &Source, now: Reading) -> Option<Said> {
        if !source.is_reachable || !has_time(source.stratum) {
            return None;
        }
        // Both clocks drift; what is old is worth less.
        let aged = |kept: &Kept| self.config.terms.drift.apart(now.since(kept.at));
        let bound =
            |kept: &Kept| kept.estimate.bound.saturating_add(kept.distance).saturating_add(aged(kept));
        let best = source.kept.iter().min_by_key(|kept| bound(kept))?;
        Some(Said { id, stratum: source.stratum, ahead: best.estimate.ahead, bound: bound(best) })
    }
}

/// Whether a source of this stratum has the time, and we would have it from there.
fn has_time(stratum: u8) -> bool {
    (1..NO_TIME - 1).contains(&stratum)
}

/// What a source says: it is ahead by so much, give or take so much.
struct Said {
    id: NodeId,
    stratum: u8,
    ahead: i64,
    bound: i64,
}

impl Said {
    fn interval(&self) -> (i64, i64) {
        (self.ahead.saturating_sub(self.bound), self.ahead.saturating_add(self.bound))
    }
}

/// What is made of it.
struct Choice {
    parent: NodeId,
    stratum: u8,
    ahead: i64,
    bound: i64,
}

/// Where most of these intervals overlap, if these are more than half of them: Marzullo's algorithm.
fn intersection(intervals: &[(i64, i64)]) -> Option<(i64, i64)> {
    let holding = |at: i64| intervals.iter().filter(|(low, high)| *low <= at && at <= *high).count();
    // The largest overlap begins where an interval begins.
    let low =
        intervals.iter().map(|(low, _)| *low).min_by_key(|low| (core::cmp::Reverse(holding(*low)), *low))?;
    let most = holding(low);
    let high = intervals.iter().filter(|(from, to)| *from <= low && low <= *to).map(|(_, to)| *to).min()?;
    (most * 2 > intervals.len()).then_some((low, high))
}

impl Algorithm for Ntp {
    const ABOUT: About = About {
        name: "ntp",
        title: "The Network Time Protocol",
        paper: "Mills, Internet time synchronization: the network time protocol, IEEE Trans. Communications 39(10) \
                (1991)",
        idea: "strata below right clocks; most sources are believed",
        family: super::FAMILY,
        channels: Channels::Any,
        synchrony: Synchrony::Synchronous,
        topology: Topology::Complete,
        cost: "2 per poll of a source",
        faults: "crashes, lost messages and wrong clocks, as long as most sources are right",
        settings: &[
            Setting {
                key: "primaries",
                values: Values::Number(1, 64),
                default: "1",
                unsafe_values: &[],
                help: "so many processes, from the first on, have a clock that is right",
            },
            Setting {
                key: "sources",
                values: Values::Number(1, 64),
                default: "3",
                unsafe_values: &[],
                help: "so many processes right before it are the sources of each",
            },
            Setting {
                key: "polls",
                values: Values::Number(1, 1_000_000),
                default: "4",
                unsafe_values: &[],
                help: "how often the sources are polled",
            },
            Setting {
                key: "interval",
                values: Values::Number(1, 1_000_000_000),
                default: "1000",
                unsafe_values: &[],
                help: "the time between two polls, in milliseconds",
            },
            Setting {
                key: "precision",
                values: Values::Number(0, 3_600_000_000),
                default: "1000",
                unsafe_values: &[],
                help: "how wrong the clock of a primary may be, in microseconds",
            },
        ],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<Self::Config, SettingError> {
        Ok(NtpConfig {
            primaries: settings.number("primaries") as usize,
            sources: settings.number("sources") as usize,
            polls: settings.number("polls"),
            interval: Duration::from_millis(settings.number("interval")),
            precision: nanos(settings.number("precision")),
            terms: super::family::terms(settings),
            slew: super::family::slew(settings),
            mutation: Mutation::of(settings),
        })
    }
}

impl Timekeeper for Ntp {
    const REFERENCE: Reference = Reference::Truth;
    const ASKS: Who = Who::All;

    fn clock(&self) -> &SoftClock {
        &self.clock
    }

    fn drift(config: &Self::Config) -> Drift {
        config.terms.drift
    }

    /// Whoever has a primary among its sources; others have to wait until their sources have the time.
    fn can_sync(
        config: &Self::Config,
        members: &Members,
        place: usize,
        alive: &dyn Fn(usize) -> bool,
    ) -> bool {
        let sources = config.sources_of(members, members.at(place));
        let places = sources.iter().filter_map(|source| members.position(*source));
        places.into_iter().any(|source| source < config.primaries && alive(source))
    }

    fn is_sound(
        config: &Self::Config,
        members: &Members,
        place: usize,
        is_right: &dyn Fn(usize, i64) -> bool,
    ) -> bool {
        let sources = config.sources_of(members, members.at(place));
        if sources.is_empty() {
            return is_right(place, config.precision);
        }
        let places = sources.iter().filter_map(|source| members.position(*source));
        let sound = places.filter(|source| {
            is_right(*source, i64::MAX) && Self::is_sound(config, members, *source, is_right)
        });
        sound.count() * 2 > sources.len()
    }

    /// 2 per poll of a source.
    fn formula(config: &Self::Config, members: &Members, asked: &[NodeId]) -> Formula {
        let sources = asked.iter().map(|id| config.sources_of(members, *id).len() as u64).sum::<u64>();
        Formula::exactly("2 per poll of a source", 2 * sources * config.polls)
    }
}

#[cfg(test)]
mod tests {
    use super::intersection;

    /// V-C10: the third of the first set is a falseticker; and where nobody has a majority, nobody is believed.
    #[test]
    fn book_v_c10_most_intervals_are_believed() {
        assert_eq!(intersection(&[(8, 12), (11, 13), (14, 15)]), Some((11, 12)));
        assert_eq!(intersection(&[(8, 12), (11, 13), (10, 12)]), Some((11, 12)));
        assert_eq!(intersection(&[(8, 12), (14, 15)]), None);
        assert_eq!(intersection(&[(8, 12)]), Some((8, 12)));
        assert_eq!(intersection(&[]), None);
    }
}
