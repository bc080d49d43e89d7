//! What shall be simulated.

use core::time::Duration;

use conclave_algorithms::demand::{Demand, Load, PlannedAsk, Who};
use conclave_algorithms::{Channels, Trigger};
use conclave_core::{Deviation, Members, NodeId, Timing};

use crate::clocks::ClockSetting;
use crate::faults::{Crash, Detector, Faults, Inside};
use crate::rng::{Draw as _, Rng, stream};
use crate::span::Span;
use crate::timed::Network;
use crate::world::with_newcomers;

/// What shall be simulated.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Who takes part from the beginning.
    pub members: Members,
    /// Where all chance comes from.
    pub seed: u64,
    /// Entries of each process into each lock.
    pub entries: u64,
    /// How many locks there are.
    pub locks: usize,
    /// How hard the processes press.
    pub load: Load,
    /// How long an application thinks between an exit and its next request; the mean distance of requests under an
    /// open load.
    pub think: Option<Span>,
    /// How long it stays inside.
    pub hold: Option<Span>,
    /// How long it waits before it gives up; if nothing is said, as long as it takes.
    pub give_up: Option<Span>,
    /// How long messages travel.
    pub delay: Span,
    /// Other delays for single links, by places in [`everyone`](Self::everyone): from, to.
    pub links: Vec<(usize, usize, Span)>,
    /// Another channel order than the algorithm asks for.
    pub channels: Option<Channels>,
    /// The longest delay that the processes may rely on, where the delays themselves have no bound.
    pub t_trans: Option<u64>,
    /// How long a process takes to handle a message.
    pub t_process: Span,
    /// Whose clocks are set, and when.
    pub clocks: Vec<ClockSetting>,
    /// What goes wrong, and who comes and goes.
    pub faults: Faults,
    /// When to give up, where the default does not suit.
    pub patience: Option<u64>,
    /// The largest number of inputs.
    pub max_events: u64,
    /// The largest number of records, where the run is recorded.
    pub max_records: usize,
    /// What is asked for at given moments, in the words of the family.
    pub asks: Vec<PlannedAsk>,
    /// Whether the invariants of a process are asserted after each of its steps; in tests they always are.
    pub paranoid: bool,
}

impl Plan {
    /// A run of this many processes with everything else as usual.
    #[must_use]
    pub fn new(members: Members) -> Self {
        Self {
            members,
            seed: 1,
            entries: 3,
            locks: 1,
            load: Load::Saturated,
            think: None,
            hold: None,
            give_up: None,
            delay: Span::Uniform(1_000, 10_000),
            links: Vec::new(),
            channels: None,
            t_trans: None,
            t_process: Span::Constant(0),
            clocks: Vec::new(),
            faults: Faults::default(),
            patience: None,
            max_events: u64::MAX,
            max_records: usize::MAX,
            asks: Vec::new(),
            paranoid: false,
        }
    }

    /// The same with the failures that it takes to see a mutant, unless there are some already. The seed says who
    /// fails and when.
    #[must_use]
    pub fn provoking(mut self, trigger: Trigger) -> Self {
        if !self.faults.is_empty() {
            return self;
        }
        let mut rng = Rng::new(self.seed, stream::PROVOCATION);
        match trigger {
            // No failure helps to see what takes forever.
            Trigger::Schedule | Trigger::Forever | Trigger::Time => {}
            Trigger::Crash => self.crash_some(&mut rng, None, None),
            Trigger::CrashInside => self.crash_some(&mut rng, None, Some(Inside::Chance)),
            // Soon enough to take part in what the last life took part in.
            Trigger::Restart => self.crash_some(&mut rng, Some(self.longest_delay() / 2 + 1), None),
            // Each is further ahead than the one before it.
            Trigger::Clocks if self.clocks.is_empty() => {
                let step = i64::try_from(self.longest_delay()).unwrap_or(i64::MAX).saturating_mul(1_000);
                let ahead = |(process, place): (NodeId, i64)| ClockSetting {
                    process,
                    at: 0,
                    deviation: Deviation { offset: step.saturating_mul(place), drift: 0 },
                };
                self.clocks = self.members.iter().zip(0..).map(ahead).collect();
            }
            Trigger::Clocks => {}
            Trigger::Suspicion => {
                // Several at a time.
                let (every, lasting) = (self.longest_delay() / 2 + 1, self.longest_delay() * 8);
                let [latency, every, lasting] = [0, every, lasting].map(Span::Constant);
                self.faults.detector = Detector::Wrong { latency, every, lasting };
                self.faults.until = Some(self.longest_delay() * 100);
            }
        }
        self
    }

    /// As many crash as a majority survives, each another process, and come back after this time, if ever.
    fn crash_some(&mut self, rng: &mut Rng, downtime: Option<u64>, inside: Option<Inside>) {
        let n = self.members.len();
        let first = rng.below(n as u64) as usize;
        for k in 0..n.saturating_sub(1) / 2 {
            let process = self.members.at((first + k) % n);
            // Half of those inside a step fall into the first that sends anything.
            let is_first = inside.is_some() && rng.below(2) == 0;
            let at = if is_first { 0 } else { rng.below(self.longest_delay() * 12) };
            let restart = downtime.map(|downtime| at + downtime);
            self.faults.crashes.push(Crash { process, at, restart, amnesia: false, inside });
        }
        self.faults.detector = Detector::After(Span::Constant(0));
    }

    /// The longest delay, or what stands for it where delays have no bound.
    pub(crate) fn longest_delay(&self) -> u64 {
        let network = self.network(true);
        self.t_trans.or(network.max_delay()).unwrap_or_else(|| self.delay.mean().saturating_mul(10)).max(1)
    }

    /// What the processes may rely on.
    pub(crate) fn timing(&self) -> Timing {
        let processing = self.t_process.max().unwrap_or_else(|| self.t_process.mean().saturating_mul(10));
        Timing {
            transmission: Duration::from_micros(self.longest_delay()),
            processing: Duration::from_micros(processing),
        }
    }

    pub(crate) fn network(&self, fifo: bool) -> Network {
        Network { delay: self.delay, links: self.links.clone(), fifo, processing: self.t_process }
    }

    /// What the users want.
    pub(crate) fn demand(&self) -> Demand {
        Demand {
            rounds: self.entries,
            load: self.load,
            think: self.think,
            hold: self.hold,
            give_up: self.give_up,
            asks: self.asks.clone(),
            longest_delay: self.longest_delay(),
        }
    }

    /// Everyone who ever takes part: who is there from the beginning, then who joins.
    #[must_use]
    pub fn everyone(&self) -> Members {
        with_newcomers(&self.members, &self.faults.newcomers())
    }

    /// Long enough for everyone to enter many times over.
    pub(crate) fn patience(&self) -> u64 {
        let Timing { transmission, processing } = self.timing();
        let longest = u64::try_from((transmission + processing).as_micros()).unwrap_or(u64::MAX);
        let round = longest.saturating_mul(self.members.len() as u64);
        let usual = if self.load == Load::Open { round.saturating_mul(4) } else { 0 };
        let think = self.think.map_or(usual, |think| think.mean());
        let hold = self.hold.map_or(longest, |hold| hold.mean());
        let turn = longest + hold + think;
        self.patience.unwrap_or_else(|| turn.saturating_mul(200 + 20 * self.members.len() as u64))
    }

    /// Whether single processes are named anywhere: then a run with fewer of them is another run.
    pub(crate) fn names_processes(&self) -> bool {
        let named = |ask: &PlannedAsk| matches!(ask.who, Who::One(_));
        let faults = self.faults.named().next().is_some();
        faults || !self.links.is_empty() || !self.clocks.is_empty() || self.asks.iter().any(named)
    }
}
