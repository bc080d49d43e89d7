//! A simulated run, from plan to report.

use std::collections::BTreeMap;

use conclave_algorithms::erased::{self, Erase, ErasedMessage};
use conclave_algorithms::family::{self, Family, MessageOf, Meter, Prepared, Registered, Use, Wanted};
use conclave_algorithms::measure::{Measured, Ran};
use conclave_algorithms::registry::{self, Visitor};
use conclave_algorithms::workload::Workload;
use conclave_algorithms::{About, Channels, Ending, Judge, SettingError, Violation, recorded};
use conclave_core::{Members, NodeId, Observer, Protocol};
use conclave_trace::{Header, Setup, Trace};

use crate::digest::Digest;
use crate::metrics::Traffic;
use crate::plan::Plan;
use crate::recorder::{Recorder, Words};
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
    struct ByName<'a, 'b>(&'a mut Wanted<'b>, Simulator<'a>);
    impl Visitor for ByName<'_, '_> {
        type Output = Result<Outcome, SettingError>;

        fn visit<R: Registered>(self) -> Self::Output {
            R::prepare(self.0, self.1)?
        }
    }
    struct IsRare<'a, 'b>(&'a Wanted<'b>);
    impl Visitor for IsRare<'_, '_> {
        type Output = bool;

        fn visit<R: Registered>(self) -> bool {
            R::is_rare(self.0)
        }
    }
    let unknown = || PlayError::UnknownAlgorithm(setup.algorithm.clone());
    let about = registry::find(&setup.algorithm).ok_or_else(unknown)?;
    let plan = &completed(about, setup.mutant.as_deref(), plan);
    let simulator = Simulator { setup, plan, record };
    let outcome = planned(about, setup, plan, |wanted| {
        let is_rare = registry::visit(about.name, IsRare(wanted)).unwrap_or(false);
        if plan.locks > 1 || is_rare || recorded::is_wanted(&setup.settings) {
            conclave_erased::prepare(about.name, wanted).map(|prepared| simulator.go_erased(prepared?))
        } else {
            registry::visit(about.name, ByName(wanted, simulator))
        }
    });
    Ok(outcome.ok_or_else(unknown)??)
}

/// Simulates a run of an algorithm that no registry has to know: `simulate::<mutex::Of<MyLock>>`.
///
/// # Errors
/// If it cannot be set up so.
pub fn simulate<R: Registered>(setup: &Setup, plan: &Plan, record: bool) -> Result<Outcome, SettingError> {
    let plan = &completed(R::ABOUT, setup.mutant.as_deref(), plan);
    let simulator = Simulator { setup, plan, record };
    planned(R::ABOUT, setup, plan, |wanted| {
        if plan.locks > 1 || R::is_rare(wanted) || recorded::is_wanted(&setup.settings) {
            simulator.go_erased(family::prepare::<R, _>(wanted, Erase)?)
        } else {
            R::prepare(wanted, simulator)?
        }
    })
}

/// About how many messages a run takes, as far as a formula tells.
///
/// # Errors
/// If there is no such algorithm, or it cannot be set up so: the way to ask beforehand.
pub fn expected_messages(setup: &Setup, plan: &Plan) -> Result<u64, PlayError> {
    let unknown = || PlayError::UnknownAlgorithm(setup.algorithm.clone());
    let about = registry::find(&setup.algorithm).ok_or_else(unknown)?;
    let plan = &completed(about, setup.mutant.as_deref(), plan);
    let prepared = planned(about, setup, plan, |wanted| conclave_erased::prepare(about.name, wanted));
    let prepared = prepared.ok_or_else(unknown)??;
    Outline::from(&prepared).check(plan)?;
    Ok(prepared.expected_messages)
}

/// The same for an algorithm that no registry has to know.
///
/// # Errors
/// If it cannot be set up so.
pub fn expected_messages_of<R: Registered>(setup: &Setup, plan: &Plan) -> Result<u64, SettingError> {
    let plan = &completed(R::ABOUT, setup.mutant.as_deref(), plan);
    let prepared = planned(R::ABOUT, setup, plan, |wanted| family::prepare::<R, _>(wanted, Erase))?;
    Outline::from(&prepared).check(plan)?;
    Ok(prepared.expected_messages)
}

/// Says what a plan wants of an algorithm.
fn planned<T>(about: &About, setup: &Setup, plan: &Plan, then: impl FnOnce(&mut Wanted<'_>) -> T) -> T {
    let (nodes, newcomers): (Vec<_>, _) = (plan.members.iter().collect(), plan.faults.newcomers());
    let fifo = plan.channels.unwrap_or(about.channels) == Channels::Fifo;
    then(&mut Wanted {
        newcomers: &newcomers,
        leaves: !plan.faults.leaves.is_empty(),
        mutant: setup.mutant.as_deref(),
        channels: plan.channels,
        locks: plan.locks,
        failures: plan.faults.needs_recovery(),
        faulty: !plan.faults.is_empty(),
        max_delay: plan.network(fifo).max_delay(),
        demand: plan.demand(),
        shuffle: Some(Box::new(Rng::new(plan.seed, stream::RING))),
        ..Wanted::new(&nodes, &setup.settings)
    })
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

/// What is known of a prepared algorithm, whether its types are erased or not.
pub(crate) struct Outline<'a> {
    about: &'static About,
    members: &'a Members,
    newcomers: &'a [NodeId],
    settings: &'a BTreeMap<String, String>,
    locks: usize,
    fifo: bool,
    restless: bool,
    changes_group: bool,
    is_token_based: bool,
}

impl<'a, F: Family> From<&'a Prepared<F>> for Outline<'a> {
    fn from(prepared: &'a Prepared<F>) -> Self {
        Self {
            about: prepared.about,
            members: &prepared.members,
            newcomers: &prepared.newcomers,
            settings: &prepared.settings,
            locks: prepared.locks,
            fifo: prepared.fifo,
            restless: prepared.restless,
            changes_group: prepared.changes_group,
            is_token_based: F::is_token_based(&prepared.config),
        }
    }
}

impl<'a> From<&'a erased::Prepared> for Outline<'a> {
    fn from(prepared: &'a erased::Prepared) -> Self {
        Self {
            about: prepared.about,
            members: &prepared.members,
            newcomers: &prepared.newcomers,
            settings: &prepared.settings,
            locks: prepared.locks,
            fifo: prepared.fifo,
            restless: prepared.restless,
            changes_group: prepared.changes_group,
            is_token_based: prepared.is_token_based,
        }
    }
}

impl Outline<'_> {
    /// Whether the algorithm can be run so: nobody can join a group that lets nobody in, and where there is no token,
    /// none can be lost.
    fn check(&self, plan: &Plan) -> Result<(), SettingError> {
        let (name, faults) = (self.about.name, &plan.faults);
        let why = if self.restless && plan.network(true).max_delay() == Some(0) {
            format!("{name} never rests: with messages that take no time, no time passes at all")
        } else if faults.changes_group() && plan.locks > 1 {
            "processes join and leave a single lock only".into()
        } else if faults.changes_group() && !self.changes_group {
            format!("{name} lets nobody join or leave")
        } else if !faults.lost_tokens.is_empty() && !self.is_token_based {
            format!("{name} moves no token, so none can be lost")
        } else {
            return faults.contradiction(&plan.members).map_or(Ok(()), |why| Err(SettingError::Unfit(why)));
        };
        Err(SettingError::Unfit(why))
    }

    /// What a trace says at its top.
    pub(crate) fn header(&self, setup: &Setup) -> Header {
        let channels = if self.fifo { Channels::Fifo } else { Channels::Any };
        Header {
            nodes: self.members.iter().chain(self.newcomers.iter().copied()).collect(),
            newcomers: self.newcomers.to_vec(),
            settings: self.settings.clone(),
            channels: channels.name().into(),
            locks: self.locks,
            ..setup.to_header(channels.name())
        }
    }
}

/// A run that is to be simulated.
#[derive(Clone, Copy)]
struct Simulator<'a> {
    setup: &'a Setup,
    plan: &'a Plan,
    record: bool,
}

/// One lock, or whatever else there is one of: compiled for its algorithm, since this has to be fast.
impl Use for Simulator<'_> {
    type Output = Result<Outcome, SettingError>;
    const SEVERAL: bool = false;
    const TYPED: bool = true;

    fn with<F: Family>(self, prepared: Prepared<F>) -> Self::Output {
        let header = self.header(&Outline::from(&prepared))?;
        let Prepared { members, newcomers, restless, config, fifo, judge, users, meter, .. } = prepared;
        let words = Words::of::<F>();
        let carries_token = |message: &MessageOf<F>| F::token_in(message).is_some();
        let cast =
            Cast { members, newcomers, restless, config, fifo, judge, users, meter, words, carries_token };
        Ok(cast.go(&header, self, Meter::measured))
    }
}

impl Simulator<'_> {
    /// Several locks, or what is rare: slower than what is compiled for its algorithm, and compiled once.
    fn go_erased(self, prepared: erased::Prepared) -> Result<Outcome, SettingError> {
        let header = self.header(&Outline::from(&prepared))?;
        let erased::Prepared { members, newcomers, restless, config, fifo, judge, users, meter, .. } =
            prepared;
        let (words, carries_token) = (Words::ERASED, ErasedMessage::carries_token as fn(&_) -> _);
        let cast =
            Cast { members, newcomers, restless, config, fifo, judge, users, meter, words, carries_token };
        Ok(cast.go(&header, self, |meter, judge, ran| meter.measured(&**judge, ran)))
    }

    /// The top of the trace, if the algorithm can be run so.
    fn header(&self, outline: &Outline<'_>) -> Result<Header, SettingError> {
        outline.check(self.plan)?;
        Ok(Header { seed: Some(self.plan.seed), timing: self.plan.timing(), ..outline.header(self.setup) })
    }
}

/// Who takes part in a run, and who watches it.
struct Cast<P: Protocol, J, U, M> {
    members: Members,
    newcomers: Vec<NodeId>,
    restless: bool,
    config: P::Config,
    fifo: bool,
    judge: J,
    users: U,
    meter: M,
    words: Words<P>,
    carries_token: fn(&P::Message) -> bool,
}

impl<P: Protocol, J: Judge<P>, U: Workload<P>, M: Observer<P>> Cast<P, J, U, M> {
    /// Runs to the end, or to the first broken promise.
    fn go(
        self,
        header: &Header,
        Simulator { plan, record, .. }: Simulator<'_>,
        measured: impl FnOnce(&M, &J, &Ran<'_>) -> Measured,
    ) -> Outcome {
        let Self { members, newcomers, restless, config, fifo, judge, users, meter, words, carries_token } =
            self;
        let everyone = members.len() + newcomers.len();
        let scene = Scene::<P> {
            members: members.clone(),
            newcomers,
            restless,
            carries_token,
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
            (((judge, meter), (Traffic::new(everyone), Digest::new())), record.then(Recorder::new));
        let begin = std::time::Instant::now();
        let rest = run.go(&mut watch, |(((judge, _), _), recorder)| {
            crate::wanted::go_on();
            let full = recorder.as_ref().is_some_and(|recorder| recorder.len() > plan.max_records);
            full || is_broken::<P, _>(judge)
        });
        let (((mut judge, meter), (traffic, digest)), recorder) = watch;
        let wall_seconds = begin.elapsed().as_secs_f64();
        judge.end(run.world().steps(), ending(rest));
        let violation = judge.violation().cloned();
        let trace = recorder.map(|recorder| {
            let mut trace = recorder.trace(header.clone(), &words);
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
            faulty: !plan.faults.is_empty() || plan.give_up.is_some(),
        };
        let facts = Facts {
            header,
            nodes: members.len(),
            traffic: &traffic,
            rest,
            virtual_time: ran.time,
            wall_seconds,
            digest: digest.value(),
            judgements: judge.judgements(),
            unasked: run
                .unasked()
                .iter()
                .map(|(at, who, request)| (*at, *who, words.show(request)))
                .collect(),
        };
        let report = facts.report(measured(&meter, &judge, &ran));
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
pub(crate) fn prepare(setup: &Setup, newcomers: &[NodeId]) -> Result<erased::Prepared, PlayError> {
    let prepared = conclave_erased::prepare(&setup.algorithm, &mut by_hand(setup, newcomers));
    Ok(prepared.ok_or_else(|| PlayError::UnknownAlgorithm(setup.algorithm.clone()))??)
}

/// The same for an algorithm that no registry has to know.
pub(crate) fn prepare_algorithm<R: Registered>(
    setup: &Setup,
    newcomers: &[NodeId],
) -> Result<erased::Prepared, SettingError> {
    family::prepare::<R, _>(&mut by_hand(setup, newcomers), Erase)
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
