//! Runs of mutual exclusion.

use conclave_algorithms::mutex::{Locks, Mutex, Properties, Tally};
use conclave_algorithms::{Channels, Named, NamedConfig};
use conclave_trace::Header;

use crate::family::{Cast, Locking};
use crate::metrics::EntryTimes;
use crate::plan::Plan;
use crate::report::{Facts, LockReport, MOST_LISTED, Part, PerUnit};
use crate::run::{Outcome, drive};
use crate::workload::Entries;

/// Simulates a run of an algorithm for mutual exclusion.
#[must_use]
pub fn simulate<A: Mutex>(config: &A::Config, plan: &Plan, mut header: Header, record: bool) -> Outcome {
    let fifo = plan.channels.unwrap_or(A::ABOUT.channels) == Channels::Fifo;
    header.channels = if fifo { Channels::Fifo } else { Channels::Any }.name().into();
    header.locks = plan.locks;
    if plan.locks > 1 {
        return run::<A, Named<A>>(config, NamedConfig::new(config.clone()), plan, &header, fifo, record);
    }
    run::<A, A>(config, config.clone(), plan, &header, fifo, record)
}

/// About how many messages a run takes.
pub(crate) fn expected_messages<A: Mutex>(config: &A::Config, plan: &Plan) -> u64 {
    let n = plan.members.len();
    let entries = vec![plan.entries * plan.locks as u64; n];
    let tally = Tally { load: plan.load, entries: &entries, waited: &vec![0; n], at_hand: &vec![0; n] };
    let mean = A::mean(config, &plan.members, &tally);
    mean.map_or_else(|| A::formula(config, &plan.members, &tally).low, |mean| mean as u64)
}

fn run<A: Mutex, L: Locks>(
    config: &A::Config,
    locks: L::Config,
    plan: &Plan,
    header: &Header,
    fifo: bool,
    record: bool,
) -> Outcome {
    let n = plan.members.len();
    let max_delay = plan.network(fifo).max_delay();
    let judge = Properties::new::<A>(config, &plan.members, plan.locks, max_delay);
    let cast = Cast::<Locking<L>> {
        members: plan.members.clone(),
        config: locks,
        fifo,
        judge,
        header: header.clone(),
    };
    let workload = Entries::new(n, plan.locks, plan.entries, plan.load, plan.think(), plan.hold());
    let finished = drive(cast, plan, workload, EntryTimes::new(n, plan.locks), record);

    let (judge, times) = (&finished.judge, &finished.metrics);
    let (entries, waited, at_hand) = (judge.entries(), judge.waited(), judge.at_hand());
    let tally = Tally { load: plan.load, entries: &entries, waited: &waited, at_hand: &at_hand };
    let formula = A::formula(config, &plan.members, &tally);
    let mean = A::mean(config, &plan.members, &tally);
    let total = tally.total();
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
    };
    let comparable = total > 0 && plan.faults.is_empty();
    let judgements = judge.judgements();
    let facts = Facts { header, plan, formula, mean, unit: PerUnit(total), comparable, judgements };
    let report = facts.report(&finished, Part::Locks(part));
    Outcome { report, violation: finished.judge.violation().cloned(), trace: finished.trace }
}

/// Six digits behind the point are more than anyone reads.
pub(crate) fn round(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}
