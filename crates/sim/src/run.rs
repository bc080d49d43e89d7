//! A simulated run, from plan to report.

use conclave_algorithms::family::{Family, Meter as _, Prepared, Registered, Use, Wanted};
use conclave_algorithms::measure::Ran;
use conclave_algorithms::registry::{self, Visitor};
use conclave_algorithms::{About, Channels, Ending, Judge, SettingError, Violation};
use conclave_core::{NodeId, Protocol};
use conclave_trace::{Header, Setup, Trace};

use crate::digest::Digest;
use crate::metrics::Traffic;
use crate::plan::Plan;
use crate::recorder::Recorder;
use crate::report::{Facts, Report};
use crate::rng::{Rng, stream};
use crate::script::{PlayError, append_violation};
use crate::timed::{Limits, Rest, Run, Scene};

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
    by_name(setup, plan, Simulator { record })
}

/// Simulates a run of an algorithm that no registry has to know: `simulate::<mutex::Of<MyLock>>`.
///
/// # Errors
/// If it cannot be set up so.
pub fn simulate<R: Registered>(setup: &Setup, plan: &Plan, record: bool) -> Result<Outcome, SettingError> {
    with::<R, _>(setup, plan, Simulator { record })
}

/// About how many messages a run takes, as far as a formula tells.
///
/// # Errors
/// If there is no such algorithm, or it cannot be set up so: the way to ask beforehand.
pub fn expected_messages(setup: &Setup, plan: &Plan) -> Result<u64, PlayError> {
    by_name(setup, plan, Estimate)
}

/// Something to be done with a plan and the algorithm that is prepared for it.
trait Planned {
    type Output;

    fn with<F: Family>(self, prepared: Prepared<F>, header: Header, plan: &Plan) -> Self::Output;
}

fn by_name<P: Planned>(setup: &Setup, plan: &Plan, then: P) -> Result<P::Output, PlayError> {
    struct Named<'a, P>(&'a Setup, &'a Plan, P);
    impl<P: Planned> Visitor for Named<'_, P> {
        type Output = Result<P::Output, SettingError>;

        fn visit<R: Registered>(self) -> Self::Output {
            with::<R, P>(self.0, self.1, self.2)
        }
    }
    let done = registry::visit(&setup.algorithm, Named(setup, plan, then));
    Ok(done.ok_or_else(|| PlayError::UnknownAlgorithm(setup.algorithm.clone()))??)
}

fn with<R: Registered, P: Planned>(setup: &Setup, plan: &Plan, then: P) -> Result<P::Output, SettingError> {
    struct Checked<'a, P>(&'a Setup, &'a Plan, P);
    impl<P: Planned> Use for Checked<'_, P> {
        type Output = Result<P::Output, SettingError>;
        const SEVERAL: bool = true;

        fn with<F: Family>(self, prepared: Prepared<F>) -> Self::Output {
            let Self(setup, plan, then) = self;
            check(&prepared, plan)?;
            let mut header = header(setup, &prepared);
            header.seed = Some(plan.seed);
            Ok(then.with(prepared, header, plan))
        }
    }
    let plan = &completed(R::ABOUT, setup.mutant.as_deref(), plan);
    let (nodes, newcomers): (Vec<_>, _) = (plan.members.iter().collect(), plan.faults.newcomers());
    let fifo = plan.channels.unwrap_or(R::ABOUT.channels) == Channels::Fifo;
    let mut wanted = Wanted {
        newcomers: &newcomers,
        mutant: setup.mutant.as_deref(),
        channels: plan.channels,
        locks: plan.locks,
        failures: plan.faults.needs_recovery(),
        faulty: !plan.faults.is_empty(),
        max_delay: plan.network(fifo).max_delay(),
        demand: plan.demand(),
        shuffle: Some(Box::new(Rng::new(plan.seed, stream::RING))),
        ..Wanted::new(&nodes, &setup.settings)
    };
    R::prepare(&mut wanted, Checked(setup, plan, then))?
}

/// The plan with the failures that it takes to see the mutant that is asked for, if any, and with an end of chance where
/// the users of a run would never see one.
fn completed(about: &About, mutant: Option<&str>, plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    let mutant = about.mutants.iter().find(|known| Some(known.name) == mutant);
    if let Some(mutant) = mutant.filter(|_| about.family.provokes_mutants) {
        plan = plan.provoking(mutant.trigger);
    }
    if about.family.chance_ends {
        plan.faults.until = plan.faults.until.or(Some(100 * plan.longest_delay()));
    }
    plan
}

/// Whether the algorithm can be run so: nobody can join a group that lets nobody in, and where there is no token, none
/// can be lost.
fn check<F: Family>(prepared: &Prepared<F>, plan: &Plan) -> Result<(), SettingError> {
    let (name, faults) = (prepared.about.name, &plan.faults);
    let why = if prepared.restless && plan.network(true).max_delay() == Some(0) {
        format!("{name} never rests: with messages that take no time, no time passes at all")
    } else if faults.changes_group() && plan.locks > 1 {
        "processes join and leave a single lock only".into()
    } else if faults.changes_group() && !prepared.changes_group {
        format!("{name} lets nobody join or leave")
    } else if !faults.lost_tokens.is_empty() && !F::is_token_based() {
        format!("{name} moves no token, so none can be lost")
    } else {
        return faults.contradiction(&plan.members).map_or(Ok(()), |why| Err(SettingError::Unfit(why)));
    };
    Err(SettingError::Unfit(why))
}

/// What a trace of a prepared algorithm says at its top.
pub(crate) fn header<F: Family>(setup: &Setup, prepared: &Prepared<F>) -> Header {
    let channels = if prepared.fifo { Channels::Fifo } else { Channels::Any };
    Header {
        nodes: prepared.members.iter().chain(prepared.newcomers.iter().copied()).collect(),
        newcomers: prepared.newcomers.clone(),
        settings: prepared.settings.clone(),
        channels: channels.name().into(),
        locks: prepared.locks,
        ..setup.to_header(channels.name())
    }
}

struct Estimate;

impl Planned for Estimate {
    type Output = u64;

    fn with<F: Family>(self, prepared: Prepared<F>, _header: Header, _plan: &Plan) -> u64 {
        prepared.expected_messages
    }
}

struct Simulator {
    record: bool,
}

impl Planned for Simulator {
    type Output = Outcome;

    /// Runs to the end, or to the first broken promise.
    fn with<F: Family>(self, prepared: Prepared<F>, header: Header, plan: &Plan) -> Outcome {
        let Prepared { members, newcomers, restless, config, fifo, judge, users, meter, .. } = prepared;
        let everyone = members.len() + newcomers.len();
        let scene = Scene::<F::Protocol> {
            members: members.clone(),
            newcomers,
            restless,
            carries_token: |message| F::token_in(message).is_some(),
            config,
            timing: plan.timing(),
            network: plan.network(fifo),
            faults: plan.faults.clone(),
            clocks: plan.clocks.clone(),
            limits: Limits { patience: plan.patience(), events: plan.max_events },
            seed: plan.seed,
        };
        let mut run = Run::new(scene, users);
        if plan.paranoid {
            run.be_paranoid();
        }
        let mut watch =
            (((judge, meter), (Traffic::new(everyone), Digest::new())), self.record.then(Recorder::new));
        let begin = std::time::Instant::now();
        let rest = run.go(&mut watch, |(((judge, _), _), _)| is_broken::<F::Protocol, _>(judge));
        let (((mut judge, meter), (traffic, digest)), recorder) = watch;
        let wall_seconds = begin.elapsed().as_secs_f64();
        judge.end(run.world().steps(), ending(rest));
        let violation = judge.violation().cloned();
        let trace = recorder.map(|recorder| {
            let mut trace = recorder.trace::<F>(header.clone());
            if let Some(violation) = &violation {
                append_violation(&mut trace, violation);
            }
            trace
        });
        let ran = Ran {
            members: &members,
            messages: traffic.messages(),
            duplicated: traffic.duplicated,
            time: run.world().time,
            mean_delay: plan.links.is_empty().then(|| plan.delay.mean() as f64),
            faulty: !plan.faults.is_empty(),
        };
        let facts = Facts {
            header: &header,
            nodes: members.len(),
            traffic: &traffic,
            rest,
            virtual_time: ran.time,
            wall_seconds,
            digest: digest.value(),
            judgements: judge.judgements(),
        };
        let report = facts.report(meter.measured(&judge, &ran));
        Outcome { report, violation, trace }
    }
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

/// Prepares the algorithm of a setup for whoever drives it by hand, in which these may join.
///
/// # Errors
/// If there is no such algorithm, or it cannot be set up so.
pub(crate) fn prepare<U: Use>(setup: &Setup, newcomers: &[NodeId], user: U) -> Result<U::Output, PlayError> {
    struct ByHand<'a, U>(&'a Setup, &'a [NodeId], U);
    impl<U: Use> Visitor for ByHand<'_, U> {
        type Output = Result<U::Output, SettingError>;

        fn visit<R: Registered>(self) -> Self::Output {
            let Self(setup, newcomers, user) = self;
            prepare_algorithm::<R, U>(setup, newcomers, user)
        }
    }
    let done = registry::visit(&setup.algorithm, ByHand(setup, newcomers, user));
    Ok(done.ok_or_else(|| PlayError::UnknownAlgorithm(setup.algorithm.clone()))??)
}

/// The same for an algorithm that no registry has to know.
pub(crate) fn prepare_algorithm<R: Registered, U: Use>(
    setup: &Setup,
    newcomers: &[NodeId],
    user: U,
) -> Result<U::Output, SettingError> {
    R::prepare(&mut by_hand(setup, newcomers), user)
}

fn by_hand<'a>(setup: &'a Setup, newcomers: &'a [NodeId]) -> Wanted<'a> {
    Wanted {
        newcomers,
        mutant: setup.mutant.as_deref(),
        channels: setup.channels.as_deref().and_then(Channels::named),
        locks: setup.locks,
        ..Wanted::new(&setup.nodes, &setup.settings)
    }
}
