//! Storms: crashes inside steps and between them, restarts, partitions, wrong suspicions and requests that are given up, all in one run. Whatever becomes of
//! ME1, no fence is given twice and the resource serves one entry at a time; and a view of a majority keeps all of it.
//!
//! A few runs of each algorithm as a rule; `cargo xtask soak storms` makes 10,000, or as many as `CONCLAVE_RUNS` says.

use std::collections::BTreeMap;

use crate::common::{LOADS, plan, setup};
use conclave_algorithms::mutex::{self, LockReport};
use conclave_core::{NodeId, NodeSet};
use conclave_sim::faults::{Crash, Inside, Partition};
use conclave_sim::span::Span;
use conclave_sim::{Outcome, Plan, simulate_setup};
use conclave_trace::Setup;

/// What a storm leaves of what algorithms assume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Force {
    /// Processes crash and come back, and messages are held for a while.
    Held,
    /// And the living are suspected.
    Suspected,
    /// And messages between the living are lost, once somebody alive has been suspected.
    Lossy,
}

const FORCES: [Force; 3] = [Force::Held, Force::Suspected, Force::Lossy];

/// Numbers that look like chance, each from a seed and a use.
fn mix(seed: u64, salt: u64) -> u64 {
    let mut x = seed.wrapping_add(salt.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// In microseconds: the faults by chance end here, and so do all partitions and downtimes.
const CALM: u64 = 400_000;

fn storm(seed: u64, force: Force) -> Plan {
    let n = 2 + mix(seed, 1) as u32 % 4;
    let mut plan = plan(n, LOADS[mix(seed, 2) as usize % LOADS.len()], seed);
    plan.entries = 2 + mix(seed, 3) % 4;
    plan.hold = [None, Some(Span::Constant(1_000)), Some(Span::Constant(100_000))][mix(seed, 4) as usize % 3];
    plan.max_events = 300_000;
    plan.give_up = mix(seed, 8).is_multiple_of(3).then_some(Span::Uniform(1_000, 60_000));
    plan.faults.crashes =
        (0..1 + mix(seed, 5) % u64::from(n + 1)).map(|nth| crash(n, seed, 100 + 10 * nth)).collect();
    plan.faults.partitions =
        (0..1 + mix(seed, 6) % 2).map(|nth| partition(n, seed, 300 + 10 * nth, force)).collect();
    let detector = match force {
        Force::Held => ["perfect", "late:5", "late:uniform:1..60"][mix(seed, 7) as usize % 3],
        Force::Suspected => ["wrong:20", "wrong:uniform:5..40", "wrong:60"][mix(seed, 7) as usize % 3],
        Force::Lossy => "wrong:uniform:1..10",
    };
    plan.faults.detector = detector.parse().expect("a detector");
    plan.faults.until = Some(CALM);
    plan
}

fn crash(n: u32, seed: u64, salt: u64) -> Crash {
    let at = mix(seed, salt) % 120_000;
    Crash {
        process: NodeId(1 + mix(seed, salt + 1) as u32 % n),
        at,
        restart: (!mix(seed, salt + 2).is_multiple_of(5)).then(|| at + 1 + mix(seed, salt + 3) % 60_000),
        amnesia: false,
        inside: mix(seed, salt + 4).is_multiple_of(2).then_some(Inside::Chance),
    }
}

fn partition(n: u32, seed: u64, salt: u64, force: Force) -> Partition {
    let mut sides = [NodeSet::new(), NodeSet::new()];
    // Nobody is left out, and no side is empty.
    let split = 1 + mix(seed, salt) % ((1 << n) - 2);
    for id in 1..=n {
        sides[(split >> (id - 1) & 1) as usize].insert(NodeId(id));
    }
    let from = 20_000 + mix(seed, salt + 1) % 100_000;
    Partition {
        sides: sides.to_vec(),
        one_way: mix(seed, salt + 2).is_multiple_of(3),
        hold: force != Force::Lossy,
        from,
        until: from + 1 + mix(seed, salt + 3) % 100_000,
    }
}

/// What may be broken in a storm: that somebody waits. But for the view of a majority, which asks again, locks rely on what is
/// sent to arrive.
fn is_excused(property: &str) -> bool {
    matches!(property, "ME2" | "ME3")
}

/// How many storms of each force: few as a rule, 10,000 in all or as many as are asked for in a soak.
fn runs() -> u64 {
    let asked =
        std::env::var("CONCLAVE_RUNS").ok().map(|runs| runs.parse().expect("CONCLAVE_RUNS is a number"));
    let usual = if std::env::var_os("CONCLAVE_SOAK").is_some() { 10_000 } else { 60 };
    asked.unwrap_or(usual)
}

/// What came of the storms of one algorithm.
#[derive(Default)]
struct Sum {
    runs: u64,
    entries: u64,
    refused: u64,
    endings: BTreeMap<&'static str, u64>,
}

impl Sum {
    fn add(&mut self, outcome: &Outcome) {
        let locks = outcome.report.part::<LockReport>().expect("it is an algorithm for locks");
        self.runs += 1;
        self.entries += locks.entries;
        self.refused += locks.refused_by_fence;
        *self.endings.entry(outcome.report.ending).or_default() += 1;
    }
}

#[track_caller]
fn weather(setup: &Setup, plan: &Plan, force: Force) -> Outcome {
    let outcome = simulate_setup(setup, plan, false).expect("the setup is possible");
    let broken = outcome.violation.as_ref().filter(|violation| !is_excused(violation.property));
    let findings = outcome.report.properties.iter().chain(&outcome.report.not_promised);
    let resource =
        findings.filter(|found| ["RES", "FENCE"].contains(&found.name) && found.holds == Some(false));
    assert!(
        broken.is_none() && resource.count() == 0,
        "{} {:?} -n {} --seed {} {force:?}: {broken:?}\n{:?}",
        setup.algorithm,
        setup.settings,
        plan.members.len(),
        plan.seed,
        plan.faults,
    );
    outcome
}

#[test]
fn no_storm_gives_a_fence_twice_or_mixes_writes() {
    let view: &[(&str, &str)] = &[("mode", "view")];
    let locks = mutex::all().into_iter().map(|about| (about.name, &[][..]));
    for (algorithm, settings) in locks.chain([("majority", view)]) {
        let mut sum = Sum::default();
        for seed in 1..=runs() {
            let force = FORCES[seed as usize % FORCES.len()];
            let plan = storm(seed, force);
            let setup = setup(algorithm, plan.members.len() as u32, settings);
            sum.add(&weather(&setup, &plan, force));
        }
        let Sum { runs, entries, refused, endings } = &sum;
        println!("{algorithm} {settings:?}: {runs} runs, {entries} entries, {refused} refused, {endings:?}");
        assert!(*entries > *runs, "{algorithm} {settings:?}: hardly anybody got in");
        // The view never lets two in, so that there is nothing to refuse.
        assert!(settings.is_empty() || *refused == 0, "{refused} entries of the view were refused");
    }
}
