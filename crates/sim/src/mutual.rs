//! A simulated run of mutual exclusion, from options to report.

use conclave_algorithms::mutex::{Ending, Load, Locks, Mutex, Properties, Tally, Violation};
use conclave_algorithms::registry::{self, Visitor};
use conclave_algorithms::{Arena, Channels, Named, NamedConfig, SettingError, Settings};
use conclave_core::{Members, Observer, Timing};
use conclave_trace::{Header, Record, Setup, Trace, What};

use crate::digest::Digest;
use crate::faults::Faults;
use crate::metrics::Metrics;
use crate::recorder::Recorder;
use crate::report::{Facts, Report};
use crate::script::PlayError;
use crate::span::Span;
use crate::timed::{Limits, Network, Rest, Run, Scene};
use crate::workload::Entries;

/// What shall be simulated.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Who takes part.
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
    /// How long messages travel.
    pub delay: Span,
    /// Other delays for single links, by places: from, to.
    pub links: Vec<(usize, usize, Span)>,
    /// Another channel order than the algorithm asks for.
    pub channels: Option<Channels>,
    /// The longest delay that the processes may rely on, where the delays themselves have no bound.
    pub t_trans: Option<u64>,
    /// What goes wrong.
    pub faults: Faults,
    /// When to give up, where the default does not suit.
    pub patience: Option<u64>,
    /// The largest number of inputs.
    pub max_events: u64,
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
            delay: Span::Uniform(1_000, 10_000),
            links: Vec::new(),
            channels: None,
            t_trans: None,
            faults: Faults::default(),
            patience: None,
            max_events: u64::MAX,
        }
    }

    /// The longest delay, or what stands for it where delays have no bound.
    fn longest_delay(&self) -> u64 {
        let network = self.network(true);
        self.t_trans.or(network.max_delay()).unwrap_or_else(|| self.delay.mean().saturating_mul(10)).max(1)
    }

    fn network(&self, fifo: bool) -> Network {
        Network { delay: self.delay, links: self.links.clone(), fifo }
    }

    /// A saturated load holds at least as long as the slowest message travels: everyone's request is known by then.
    fn hold(&self) -> Span {
        self.hold.unwrap_or(Span::Constant(self.longest_delay()))
    }

    fn think(&self) -> Span {
        let crowd = self.longest_delay().saturating_mul(4 * self.members.len() as u64);
        self.think.unwrap_or(match self.load {
            Load::Open => Span::Exponential(crowd),
            Load::Light | Load::Saturated => Span::Constant(0),
        })
    }

    /// Long enough for everyone to enter many times over.
    fn patience(&self) -> u64 {
        let turn = self.longest_delay() + self.hold().mean() + self.think().mean();
        self.patience.unwrap_or_else(|| turn.saturating_mul(200 + 20 * self.members.len() as u64))
    }
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What it cost and what held.
    pub report: Report,
    /// The promise that it broke, if it did.
    pub violation: Option<Violation>,
    /// What happened, if it was recorded.
    pub trace: Option<Trace>,
}

/// Simulates a run of the algorithm, settings and mutant that a setup names.
///
/// # Errors
/// If there is no such algorithm, or it cannot be set up so.
pub fn simulate_setup(setup: &Setup, plan: &Plan, record: bool) -> Result<Outcome, PlayError> {
    struct Starter<'a>(&'a Setup, &'a Plan, bool);
    impl Visitor for Starter<'_> {
        type Output = Result<Outcome, SettingError>;

        fn mutex<A: Mutex>(self) -> Self::Output {
            let Self(setup, plan, record) = self;
            let config = A::configure(&settings_of::<A>(setup)?, &plan.members)?;
            Ok(simulate::<A>(&config, plan, setup.to_header(A::ABOUT.channels.name()), record))
        }
    }
    let outcome = registry::visit(&setup.algorithm, Starter(setup, plan, record));
    Ok(outcome.ok_or_else(|| PlayError::UnknownAlgorithm(setup.algorithm.clone()))??)
}

/// The settings of a setup, held against what the algorithm declares.
pub(crate) fn settings_of<A: Mutex>(setup: &Setup) -> Result<Settings, SettingError> {
    let given = setup.settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    Settings::new(const { &A::ABOUT }, Arena::Laboratory, given, setup.mutant.as_deref())
}

/// Simulates a run of an algorithm for mutual exclusion.
#[must_use]
pub fn simulate<A: Mutex>(config: &A::Config, plan: &Plan, mut header: Header, record: bool) -> Outcome {
    let fifo = plan.channels.unwrap_or(A::ABOUT.channels) == Channels::Fifo;
    header.channels = if fifo { "fifo" } else { "any" }.into();
    header.seed = Some(plan.seed);
    header.locks = plan.locks;
    if plan.locks > 1 {
        return run::<A, Named<A>>(config, NamedConfig::new(config.clone()), plan, &header, fifo, record);
    }
    run::<A, A>(config, config.clone(), plan, &header, fifo, record)
}

fn run<A: Mutex, L: Locks>(
    config: &A::Config,
    locks: L::Config,
    plan: &Plan,
    header: &Header,
    fifo: bool,
    record: bool,
) -> Outcome {
    let longest = plan.longest_delay();
    let n = plan.members.len();
    let scene = Scene {
        members: plan.members.clone(),
        config: locks,
        timing: Timing { transmission: core::time::Duration::from_micros(longest), ..Timing::default() },
        network: plan.network(fifo),
        faults: plan.faults.clone(),
        limits: Limits { patience: plan.patience(), events: plan.max_events },
        seed: plan.seed,
    };
    let max_delay = scene.network.max_delay();
    let workload = Entries::new(n, plan.locks, plan.entries, plan.load, plan.think(), plan.hold());
    let mut run = Run::<L, _>::new(scene, workload);
    let properties = Properties::new::<A>(config, &plan.members, plan.locks, max_delay);
    let watch = (properties, Metrics::new(n, plan.locks));
    let begin = std::time::Instant::now();
    let (rest, (properties, metrics), digest, recorder) = if record {
        let (rest, (watch, (digest, recorder))) = finish(&mut run, (watch, (Digest::new(), Recorder::new())));
        (rest, watch, digest, Some(recorder))
    } else {
        let (rest, (watch, (digest, ()))) = finish(&mut run, (watch, (Digest::new(), ())));
        (rest, watch, digest, None)
    };
    let wall_seconds = begin.elapsed().as_secs_f64();
    let (entries, waited) = (properties.entries(), properties.waited());
    let tally = Tally { load: plan.load, entries: &entries, waited: &waited };
    let violation = properties.violation().cloned();
    let trace = recorder.map(|recorder| {
        let mut trace = recorder.trace(header.clone());
        if let Some(violation) = &violation {
            append_violation(&mut trace, violation);
        }
        trace
    });
    let report = Facts {
        header,
        plan,
        rest,
        properties: &properties,
        metrics: &metrics,
        formula: A::formula(config, &plan.members, &tally),
        digest: digest.value(),
        virtual_time: run.world().time,
        wall_seconds,
    }
    .report();
    Outcome { report, violation, trace }
}

/// Everyone who watches a run of mutual exclusion: properties, metrics, digest, recorder.
type Watch<R> = ((Properties, Metrics), (Digest, R));

/// Runs to the end, or to the first broken promise, and tells the properties how it ended.
fn finish<L: Locks, R: Observer<L>>(run: &mut Run<L, Entries>, mut watch: Watch<R>) -> (Rest, Watch<R>) {
    let rest = run.go(&mut watch, |((properties, _), _)| properties.violation().is_some());
    let ending = match rest {
        Rest::Done | Rest::Stuck => Ending::Quiet,
        Rest::OutOfPatience => Ending::OutOfTime,
        Rest::OutOfEvents | Rest::Stopped => Ending::Stopped,
    };
    watch.0.0.end(run.world().steps(), ending);
    (rest, watch)
}

/// Adds the breaking of a promise as the last record.
pub(crate) fn append_violation(trace: &mut Trace, violation: &Violation) {
    let last = trace.records.last();
    let record = Record {
        id: trace.records.len() as u64,
        time: last.map_or(0, |record| record.time),
        process: None,
        what: What::Violation { property: violation.property.into(), detail: violation.detail.clone() },
        phase: String::new(),
        cause: None,
        lamport: last.map_or(0, |record| record.lamport),
        vector: None,
    };
    trace.records.push(record);
}
