//! Runs of mutual exclusion.

use conclave_algorithms::family::Locking;
use conclave_algorithms::mutex::{Locks, Mutex, Properties, Tally};
use conclave_algorithms::{Channels, Named, NamedConfig, SettingError, is_twin_of_recovery};
use conclave_trace::{Header, Setup};

use crate::family::Cast;
use crate::metrics::EntryTimes;
use crate::outages::Outages;
use crate::plan::Plan;
use crate::report::{Facts, LockReport, MOST_LISTED, OutageReport, Part, PerUnit};
use crate::run::{Outcome, drive};
use crate::workload::Entries;

/// Simulates a run of an algorithm for mutual exclusion.
#[must_use]
pub fn simulate<A: Mutex>(config: &A::Config, plan: &Plan, header: Header, record: bool) -> Outcome {
    if plan.locks > 1 {
        return run::<A, Named<A>>(config, NamedConfig::new(config.clone()), plan, header, record);
    }
    run::<A, A>(config, config.clone(), plan, header, record)
}

/// The same plan with the failures that it takes to see the broken twin that is asked for, if any.
pub(crate) fn provoked<A: Mutex>(setup: &Setup, plan: &Plan) -> Plan {
    let twin = A::ABOUT.mutants.iter().find(|mutant| Some(mutant.name) == setup.mutant.as_deref());
    twin.map_or_else(|| plan.clone(), |twin| plan.clone().provoking(twin.trigger))
}

/// The same setup with the word on recovery that `auto` stands for: it is on if there is a failure to recover from.
pub(crate) fn completed(setup: &Setup, plan: &Plan) -> Setup {
    let mut setup = setup.clone();
    let auto = setup.settings.get("recovery").is_none_or(|word| word == "auto");
    // A broken twin is seen as it is, unless it is the recovery that is broken.
    let whole = setup.mutant.as_deref().is_none_or(is_twin_of_recovery);
    if auto && whole && plan.faults.needs_recovery() {
        setup.settings.insert("recovery".into(), "on".into());
    }
    setup
}

/// Whether the algorithm can be run so: nobody can join a group that lets nobody in, and where there is no token, none
/// can be lost.
pub(crate) fn check<A: Mutex>(config: &A::Config, plan: &Plan) -> Result<(), SettingError> {
    let (name, faults) = (A::ABOUT.name, &plan.faults);
    let why = if A::is_restless(config) && plan.network(true).max_delay() == Some(0) {
        format!("{name} never rests: with messages that take no time, no time passes at all")
    } else if faults.changes_group() && !A::CHANGES_GROUP {
        format!("{name} lets nobody join or leave")
    } else if faults.changes_group() && plan.locks > 1 {
        "processes join and leave a single lock only".into()
    } else if !faults.lost_tokens.is_empty() && !A::MOVES_TOKEN {
        format!("{name} moves no token, so none can be lost")
    } else {
        return faults.contradiction(&plan.members).map_or(Ok(()), |why| Err(SettingError::Unfit(why)));
    };
    Err(SettingError::Unfit(why))
}

/// About how many messages a run takes.
pub(crate) fn expected_messages<A: Mutex>(config: &A::Config, plan: &Plan) -> u64 {
    let n = plan.members.len();
    let entries = vec![plan.entries * plan.locks as u64; n];
    let nobody = vec![0; n];
    let tally = Tally {
        load: plan.load,
        locks: plan.locks as u64,
        entries: &entries,
        waited: &nobody,
        at_hand: &nobody,
    };
    let mean = A::mean(config, &plan.members, &tally);
    mean.map_or_else(|| A::formula(config, &plan.members, &tally).low, |mean| mean as u64)
}

fn run<A: Mutex, L: Locks>(
    config: &A::Config,
    locks: L::Config,
    plan: &Plan,
    mut header: Header,
    record: bool,
) -> Outcome {
    let fifo = plan.channels.unwrap_or(A::ABOUT.channels) == Channels::Fifo;
    header.channels = if fifo { Channels::Fifo } else { Channels::Any }.name().into();
    header.locks = plan.locks;
    let newcomers = plan.faults.newcomers();
    let founders = plan.members.len();
    let n = founders + newcomers.len();
    let restless = A::is_restless(config);
    let max_delay = plan.network(fifo).max_delay();
    let judge = Properties::new::<A>(config, &plan.members, plan.locks, max_delay);
    let cast = Cast::<Locking<L>> {
        members: plan.members.clone(),
        judge: judge.with_newcomers(&newcomers),
        newcomers,
        restless,
        config: locks,
        fifo,
        header: header.clone(),
    };
    let workload = Entries::new(n, plan.locks, plan.entries, plan.load, plan.think(restless), plan.hold());
    let workload = workload.joined_by(founders);
    let outages = if plan.faults.is_empty() { Outages::none() } else { Outages::new(n, plan.locks) };
    let metrics = (EntryTimes::new(n, plan.locks), outages);
    let finished = drive(cast, plan, workload, metrics, record);

    let (judge, (times, outages)) = (&finished.judge, &finished.metrics);
    let (entries, waited, at_hand) = (judge.entries(), judge.waited(), judge.at_hand());
    let total: u64 = entries.iter().sum();
    // A formula knows of the members; who joined is not in it, and it is not compared then.
    let tally = Tally {
        load: plan.load,
        locks: plan.locks as u64,
        entries: &entries[..founders],
        waited: &waited[..founders],
        at_hand: &at_hand[..founders],
    };
    let formula = A::formula(config, &plan.members, &tally);
    let mean = A::mean(config, &plan.members, &tally);
    let mean_delay = plan.delay.mean() as f64;
    let hops = times.sync_delay.mean().filter(|_| mean_delay > 0.0 && plan.links.is_empty());
    let seconds = finished.virtual_time as f64 / 1e6;
    let part = LockReport {
        locks: plan.locks,
        load: crate::report::load_word(plan.load),
        entries: total,
        waited: waited.iter().sum(),
        entries_by_process: if n <= MOST_LISTED { entries } else { Vec::new() },
        messages_per_entry: (total > 0).then(|| round(finished.traffic.messages() as f64 / total as f64)),
        client_delay: times.client_delay.into(),
        sync_delay: times.sync_delay.into(),
        sync_delay_hops: hops.map(|mean| round(mean / mean_delay)),
        response: times.response.into(),
        max_overtaking: judge.max_overtaking(),
        throughput: (seconds > 0.0).then(|| round(total as f64 / seconds)),
        refused_by_fence: judge.refused_entries(),
        outages: outages.faults().into_iter().map(OutageReport::from).collect(),
        disturbed: !plan.faults.is_empty(),
    };
    let comparable = total > 0 && plan.faults.is_empty();
    let judgements = judge.judgements();
    let facts = Facts { header: &header, plan, formula, mean, unit: PerUnit(total), comparable, judgements };
    let report = facts.report(&finished, Part::Locks(part));
    Outcome { report, violation: finished.judge.violation().cloned(), trace: finished.trace }
}

/// Six digits behind the point are more than anyone reads.
pub(crate) fn round(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}
