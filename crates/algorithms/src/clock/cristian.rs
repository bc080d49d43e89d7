//! Cristian's algorithm: ask a process whose clock is right.
//!
//! Cristian, *Probabilistic clock synchronization*, Distributed Computing 3 (1989).
//!
//! ```text
//!   client, its clock       server
//!    │ T0 ── TimeReq ───────▶ │
//!    │                        │ t
//!    │ T1 ◀── Time(t) ─────── │      the server's clock shows t + (T1 − T0)/2 now,
//!    │                               give or take (T1 − T0)/2 − min
//! ```
//!
//! The answer was on its way for at least `min` and at most the round trip less `min`, so the middle is the best guess.
//! The client asks `samples` times and takes the answer with the shortest round trip: it is the most exact one. A round
//! trip that is longer than `threshold` is thrown away. A server that does not answer in time is asked again, `retries`
//! times; then, or when it is reported dead, the next server is asked.
//!
//! **Cost**: 2 messages per sample.
//!
//! **Assumes** that the clocks of the servers are right, that no message travels in less than `min`, and that no clock
//! drifts by more than `drift`. The bound that an application is told holds only under these assumptions.
//!
//! **Caveats**: the bound is relative to the server that answered: of two servers with different clocks, each is believed
//! by those who ask it. Answers that arrive when nobody waits for them any more are ignored; they are told apart by
//! the number of the question.

use conclave_core::{
    Boot, Effects, Input, Members, Message, NodeId, NodeSet, Phase, Protocol, Reading, Timing,
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

/// A client or a server of the time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cristian {
    id: NodeId,
    members: Members,
    config: CristianConfig,
    timing: Timing,
    clock: SoftClock,
    down: NodeSet,
    /// The number of our last question.
    number: u64,
    /// What we are doing to correct our clock, if anything.
    inquiry: Option<Inquiry>,
}

/// Asking a server several times.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Inquiry {
    server: NodeId,
    /// Who has not answered.
    silent: NodeSet,
    /// When the last question was sent, by our clock.
    asked: Reading,
    /// How many answers are still wanted.
    left: u64,
    /// How many questions in a row came to nothing.
    failures: u64,
    /// The best answer so far, and its round trip.
    best: Option<(Exchange, Estimate)>,
}

/// Settings of [`Cristian`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CristianConfig {
    /// How many of the members, from the first on, have a clock that is right.
    servers: usize,
    samples: u64,
    retries: u64,
    /// In nanoseconds.
    threshold: Option<i64>,
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
        /// A server that does not answer is waited for without end.
        NoRetry {
            name: "no-retry", breaks: "C3", nodes: 3, trigger: Crash,
            change: "a server that does not answer is waited for without end",
        }
    }
}

/// What the processes say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CristianMessage {
    /// What time is it?
    TimeReq {
        /// The number of the question.
        number: u64,
    },
    /// This late.
    Time {
        /// The number of the question.
        number: u64,
        /// What the clock of the server shows.
        time: Reading,
    },
}

use CristianMessage as Msg;

impl Message for CristianMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, TimeReq, Time)
    }
}

/// The timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CristianTimer {
    /// An answer should have come by now.
    Answer,
}

impl Protocol for Cristian {
    type Config = CristianConfig;
    type Message = CristianMessage;
    type Request = Request;
    type Event = Event;
    type Timer = CristianTimer;
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        Self {
            id: boot.id,
            members: boot.members.clone(),
            config: boot.config.clone(),
            timing: boot.timing,
            clock: SoftClock::new(boot.config.slew),
            down: NodeSet::new(),
            number: 0,
            inquiry: None,
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Receive { from, .. } if !self.members.has_other(self.id, from) => {
                out.reject(from, STRANGER);
            }
            Input::Receive { from, message: Msg::TimeReq { number } } => {
                let time = self.clock.target(out.now());
                out.send(from, Msg::Time { number, time });
            }
            Input::Receive { from, message: Msg::Time { number, time } } => {
                self.on_time(from, number, time, out);
            }
            Input::Request(Request::Read) => {
                let now = self.clock.at(out.now());
                out.emit(Event::Time(now));
            }
            Input::Request(Request::Sync) => self.on_sync(out),
            Input::Expire(CristianTimer::Answer) => self.on_silence(out),
            Input::PeerDown { peer, .. } => {
                self.down.insert(peer);
                self.maybe_turn_away(peer, out);
            }
            Input::PeerUp { peer, .. } => {
                self.down.remove(peer);
            }
            Input::Start => {}
        }
    }

    fn phase(&self) -> Phase {
        if self.inquiry.is_some() { Phase::WAITING } else { Phase::IDLE }
    }

    fn reads_clock(&self) -> bool {
        true
    }

    fn assert_invariants(&self) {
        let inquiry = self.inquiry.as_ref();
        assert!(inquiry.is_none_or(|inquiry| inquiry.left > 0), "an inquiry ends with its last answer");
        assert!(inquiry.is_none_or(|inquiry| inquiry.server != self.id), "nobody asks itself");
    }
}

impl Cristian {
    /// A server is right as it is; everybody else asks one.
    fn on_sync(&mut self, out: &mut impl Effects<Self>) {
        if self.servers().any(|server| server == self.id) {
            let to = self.clock.at(out.now());
            return out.emit(Event::Adjusted { by: 0, to, bound: 0, source: Some(self.id), round: 0 });
        }
        if self.inquiry.is_none() {
            self.turn_to_next(NodeSet::new(), out);
        }
    }

    fn servers(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.members.iter().take(self.config.servers)
    }

    /// Asks the first server that is alive and has not been silent; all answers come from one.
    fn turn_to_next(&mut self, silent: NodeSet, out: &mut impl Effects<Self>) {
        let next = self.servers().find(|server| !self.down.contains(*server) && !silent.contains(*server));
        let Some(server) = next else {
            self.inquiry = None;
            return out.emit(Event::Failed);
        };
        let (asked, left) = (out.now(), self.config.samples);
        self.inquiry = Some(Inquiry { server, silent, asked, left, failures: 0, best: None });
        self.ask(out);
    }

    fn ask(&mut self, out: &mut impl Effects<Self>) {
        let Some(inquiry) = &mut self.inquiry else { return };
        self.number = self.number.saturating_add(1);
        inquiry.asked = out.now();
        out.send(inquiry.server, Msg::TimeReq { number: self.number });
        if self.config.mutation != Some(Mutation::NoRetry) {
            out.arm(CristianTimer::Answer, patience(&self.timing, self.config.terms.drift));
        }
    }

    fn on_time(&mut self, from: NodeId, number: u64, told: Reading, out: &mut impl Effects<Self>) {
        let answered = out.now();
        let Some(inquiry) = &mut self.inquiry else { return };
        if (from, number) != (inquiry.server, self.number) {
            return;
        }
        let exchange = Exchange { asked: inquiry.asked, answered, told };
        if self.config.threshold.is_some_and(|threshold| exchange.round_trip() > threshold) {
            return self.on_silence(out);
        }
        let estimate = exchange.estimate(&self.config.terms);
        let is_better = |(best, _): &(Exchange, Estimate)| exchange.round_trip() < best.round_trip();
        if inquiry.best.as_ref().is_none_or(is_better) {
            inquiry.best = Some((exchange, estimate));
        }
        inquiry.failures = 0;
        inquiry.left -= 1;
        match inquiry.left {
            0 => self.finish(out),
            _ => self.ask(out),
        }
    }

    /// Agrees with the best of the answers.
    fn finish(&mut self, out: &mut impl Effects<Self>) {
        out.disarm(CristianTimer::Answer);
        let Some(Inquiry { server, best: Some((exchange, estimate)), .. }) = self.inquiry.take() else {
            return;
        };
        let now = out.now();
        let ahead = match self.config.mutation {
            Some(Mutation::OneWay) => exchange.told.since(exchange.answered),
            Some(Mutation::StepBack | Mutation::NoRetry) | None => estimate.ahead,
        };
        let (to, before) = (now.shifted(ahead), self.clock.target(now));
        match self.config.mutation {
            Some(Mutation::StepBack) => self.clock.jump_to(to, now),
            Some(Mutation::OneWay | Mutation::NoRetry) | None => self.clock.agree_with(to, now),
        }
        let drifted = self.config.terms.drift.apart(now.since(exchange.answered));
        let bound = estimate.bound.saturating_add(drifted);
        out.emit(Event::Adjusted { by: to.since(before), to, bound, source: Some(server), round: 0 });
    }

    /// The last question came to nothing: it is asked again, and at last somebody else is.
    fn on_silence(&mut self, out: &mut impl Effects<Self>) {
        let Some(inquiry) = &mut self.inquiry else { return };
        inquiry.failures += 1;
        if inquiry.failures <= self.config.retries {
            return self.ask(out);
        }
        self.turn_away(out);
    }

    /// A server that is reported dead does not answer.
    fn maybe_turn_away(&mut self, peer: NodeId, out: &mut impl Effects<Self>) {
        let asked = self.inquiry.as_ref().is_some_and(|inquiry| inquiry.server == peer);
        if asked && self.config.mutation != Some(Mutation::NoRetry) {
            self.turn_away(out);
        }
    }

    fn turn_away(&mut self, out: &mut impl Effects<Self>) {
        out.disarm(CristianTimer::Answer);
        let Some(Inquiry { server, mut silent, .. }) = self.inquiry.take() else { return };
        silent.insert(server);
        self.turn_to_next(silent, out);
    }
}

impl Algorithm for Cristian {
    const ABOUT: About = About {
        name: "cristian",
        title: "Cristian's clock synchronization",
        paper: "Cristian, Probabilistic clock synchronization, Distributed Computing 3 (1989)",
        idea: "ask a right clock; half the round trip is its age",
        family: super::FAMILY,
        channels: Channels::Any,
        synchrony: Synchrony::Synchronous,
        topology: Topology::Star,
        cost: "2 per sample",
        faults: "crashes and lost messages, as long as one server answers",
        settings: &[
            Setting {
                key: "servers",
                values: Values::Number(1, 64),
                default: "2",
                unsafe_values: &[],
                help: "so many processes, from the first on, have a clock that is right",
            },
            Setting {
                key: "samples",
                values: Values::Number(1, 1_000),
                default: "3",
                unsafe_values: &[],
                help: "how often a server is asked; the shortest round trip counts",
            },
            Setting {
                key: "retries",
                values: Values::Number(0, 100),
                default: "2",
                unsafe_values: &[],
                help: "how often a question without an answer is repeated before another server is asked",
            },
            Setting {
                key: "threshold",
                values: Values::Number(0, 3_600_000_000),
                default: "0",
                unsafe_values: &[],
                help: "a longer round trip, in microseconds, does not count; 0: any counts",
            },
            Setting {
                key: "handling",
                values: Values::Number(0, 3_600_000_000),
                default: "0",
                unsafe_values: &[],
                help: "how long a server handles a question, in microseconds, where that is known",
            },
        ],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, members: &Members) -> Result<Self::Config, SettingError> {
        let threshold = Some(nanos(settings.number("threshold"))).filter(|threshold| *threshold > 0);
        Ok(CristianConfig {
            // Somebody is there to ask.
            servers: (settings.number("servers") as usize).min(members.len().saturating_sub(1)).max(1),
            samples: settings.number("samples"),
            retries: settings.number("retries"),
            threshold,
            terms: Terms { handling: nanos(settings.number("handling")), ..super::family::terms(settings) },
            slew: super::family::slew(settings),
            mutation: Mutation::of(settings),
        })
    }
}

impl Timekeeper for Cristian {
    const REFERENCE: Reference = Reference::Source;
    const ASKS: Who = Who::All;

    fn clock(&self) -> &SoftClock {
        &self.clock
    }

    fn drift(config: &Self::Config) -> Drift {
        config.terms.drift
    }

    fn can_sync(config: &Self::Config, _: &Members, _: usize, alive: &dyn Fn(usize) -> bool) -> bool {
        config.threshold.is_none() && (0..config.servers).any(alive)
    }

    /// 2 per sample; round trips that are too long come on top.
    fn formula(config: &Self::Config, members: &Members, asked: &[NodeId]) -> Formula {
        let is_client = |id: &&NodeId| members.position(**id).is_some_and(|place| place >= config.servers);
        let samples = asked.iter().filter(is_client).count() as u64 * config.samples;
        let high = config.threshold.is_none().then_some(2 * samples);
        Formula { text: "2 per sample", low: 2 * samples, high }
    }
}
