//! A simulated run, from plan to report.

use conclave_algorithms::election::Election;
use conclave_algorithms::family::Family;
use conclave_algorithms::mutex::Mutex;
use conclave_algorithms::registry::{self, Visitor};
use conclave_algorithms::{Algorithm, Ending, Judge, Recovering, SettingError, Violation, recovers};
use conclave_core::{Observer, Protocol, Timing};
use conclave_trace::{Setup, Trace};

use crate::digest::Digest;
use crate::electing;
use crate::family::{Cast, settings_of};
use crate::locking;
use crate::metrics::Traffic;
use crate::plan::Plan;
use crate::recorder::Recorder;
use crate::report::Report;
use crate::script::{PlayError, append_violation};
use crate::timed::{Limits, Rest, Run, Scene};
use crate::workload::Workload;

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
    let outcome = registry::visit(&setup.algorithm, Starter { setup, plan, record });
    Ok(outcome.ok_or_else(|| PlayError::UnknownAlgorithm(setup.algorithm.clone()))??)
}

/// Simulates a run of an algorithm for mutual exclusion that no registry has to know.
///
/// # Errors
/// If it cannot be set up so.
pub fn simulate_lock<A: Mutex>(setup: &Setup, plan: &Plan, record: bool) -> Result<Outcome, SettingError> {
    Starter { setup, plan, record }.mutex::<A>()
}

/// The same of an election.
///
/// # Errors
/// If it cannot be set up so.
pub fn simulate_election<A: Election>(
    setup: &Setup,
    plan: &Plan,
    record: bool,
) -> Result<Outcome, SettingError> {
    Starter { setup, plan, record }.election::<A>()
}

/// About how many messages a run takes, as far as a formula tells.
///
/// # Errors
/// If there is no such algorithm, or it cannot be set up so: the way to ask beforehand.
pub fn expected_messages(setup: &Setup, plan: &Plan) -> Result<u64, PlayError> {
    struct Estimate<'a>(&'a Setup, &'a Plan);
    impl Visitor for Estimate<'_> {
        type Output = Result<u64, SettingError>;

        fn mutex<A: Mutex>(self) -> Self::Output {
            let Self(setup, plan) = self;
            let settings = settings_of::<A>(&locking::completed(setup, plan))?;
            let config = A::configure(&settings, &plan.members)?;
            if recovers::<A>(&settings, &plan.members) {
                let config = Recovering::<A>::configure(&settings, &plan.members)?;
                locking::check::<Recovering<A>>(&config, plan)?;
            } else {
                locking::check::<A>(&config, plan)?;
            }
            Ok(locking::expected_messages::<A>(&config, plan))
        }

        fn election<A: Election>(self) -> Self::Output {
            let Self(setup, plan) = self;
            let config = A::configure(&settings_of::<A>(setup)?, &plan.members)?;
            Ok(electing::expected_messages::<A>(&config, plan))
        }
    }
    let messages = registry::visit(&setup.algorithm, Estimate(setup, plan));
    Ok(messages.ok_or_else(|| PlayError::UnknownAlgorithm(setup.algorithm.clone()))??)
}

struct Starter<'a> {
    setup: &'a Setup,
    plan: &'a Plan,
    record: bool,
}

impl Visitor for Starter<'_> {
    type Output = Result<Outcome, SettingError>;

    fn mutex<A: Mutex>(self) -> Self::Output {
        let plan = &locking::provoked::<A>(self.setup, self.plan);
        let setup = locking::completed(self.setup, plan);
        let settings = settings_of::<A>(&setup)?;
        let header = setup.to_header(A::ABOUT.channels.name());
        if recovers::<A>(&settings, &plan.members) {
            let config = Recovering::<A>::configure(&settings, &plan.members)?;
            locking::check::<Recovering<A>>(&config, plan)?;
            return Ok(locking::simulate::<Recovering<A>>(&config, plan, header, self.record));
        }
        let config = A::configure(&settings, &plan.members)?;
        locking::check::<A>(&config, plan)?;
        Ok(locking::simulate::<A>(&config, plan, header, self.record))
    }

    fn election<A: Election>(self) -> Self::Output {
        let settings = settings_of::<A>(self.setup)?;
        let plan = electing::completed(self.plan, &settings);
        let config = A::configure(&settings, &plan.members)?;
        let header = self.setup.to_header(A::ABOUT.channels.name());
        Ok(electing::simulate::<A>(&config, &plan, header, self.record))
    }
}

/// A run that has come to its end, before anything is made of it.
pub(crate) struct Finished<F: Family, M> {
    pub rest: Rest,
    pub judge: F::Judge,
    pub metrics: M,
    pub traffic: Traffic,
    pub digest: u64,
    pub virtual_time: u64,
    pub wall_seconds: f64,
    pub trace: Option<Trace>,
}

/// Runs to the end, or to the first broken promise.
pub(crate) fn drive<F: Family, W: Workload<F::Protocol>, M: Observer<F::Protocol>>(
    cast: Cast<F>,
    plan: &Plan,
    workload: W,
    metrics: M,
    record: bool,
) -> Finished<F, M> {
    let Cast { members, newcomers, restless, config, fifo, judge, mut header } = cast;
    header.seed = Some(plan.seed);
    header.nodes = members.iter().chain(newcomers.iter().copied()).collect();
    header.newcomers.clone_from(&newcomers);
    let traffic = Traffic::new(header.nodes.len());
    let scene = Scene::<F::Protocol> {
        members,
        newcomers,
        restless,
        carries_token: |message| F::token_in(message).is_some(),
        config,
        timing: Timing {
            transmission: core::time::Duration::from_micros(plan.longest_delay()),
            ..Timing::default()
        },
        network: plan.network(fifo),
        faults: plan.faults.clone(),
        limits: Limits { patience: plan.patience(), events: plan.max_events },
        seed: plan.seed,
    };
    let mut run = Run::new(scene, workload);
    let mut watch = (((judge, metrics), (traffic, Digest::new())), record.then(Recorder::new));
    let begin = std::time::Instant::now();
    let rest = run.go(&mut watch, |(((judge, _), _), _)| is_broken::<F::Protocol, _>(judge));
    let (((mut judge, metrics), (traffic, digest)), recorder) = watch;
    let wall_seconds = begin.elapsed().as_secs_f64();
    judge.end(run.world().steps(), ending(rest));
    let trace = recorder.map(|recorder| {
        let mut trace = recorder.trace::<F>(header);
        if let Some(violation) = judge.violation() {
            append_violation(&mut trace, violation);
        }
        trace
    });
    let (digest, virtual_time) = (digest.value(), run.world().time);
    Finished { rest, judge, metrics, traffic, digest, virtual_time, wall_seconds, trace }
}

fn is_broken<P: Protocol, J: Judge<P>>(judge: &J) -> bool {
    judge.violation().is_some()
}

fn ending(rest: Rest) -> Ending {
    match rest {
        Rest::Done | Rest::Stuck => Ending::Quiet,
        Rest::OutOfPatience => Ending::OutOfTime,
        Rest::OutOfEvents | Rest::Stopped => Ending::Stopped,
    }
}
