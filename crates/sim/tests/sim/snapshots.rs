//! Global snapshots of running algorithms: what they cost, and what can be decided from them.

use crate::common::{plan, run, setup};
use conclave_algorithms::demand::{PlannedAsk, Who};
use conclave_algorithms::mutex::Load;
use conclave_algorithms::recorded::{Cut, SNAPSHOT, Snapshots};
use conclave_core::NodeId;
use conclave_sim::faults::Crash;
use conclave_sim::{Outcome, Plan, play, shrink};
use conclave_trace::Setup;

/// Some of every kind of message passing: locks with and without a token, an election, consensus, multicast.
const RECORDED: [&str; 8] =
    ["central", "ricart-agrawala", "majority", "token-ring", "raymond", "chang-roberts", "paxos", "causal"];

fn recorded(algorithm: &str, n: u32, settings: &[(&str, &str)]) -> Setup {
    setup(algorithm, n, &[&[("snapshots", "on")], settings].concat())
}

fn snapshot(process: u32, at: u64) -> PlannedAsk {
    PlannedAsk { at, who: Who::One(NodeId(process)), words: SNAPSHOT.into() }
}

/// One snapshot early, and two at the same time.
fn three(n: u32, seed: u64) -> Plan {
    let asks = vec![snapshot(1, 3_000), snapshot(n, 25_000), snapshot(1 + n / 2, 25_500)];
    Plan { asks, ..plan(n, Load::Saturated, seed) }
}

fn taken(outcome: &Outcome) -> &Snapshots {
    outcome.report.part().expect("snapshots were wanted")
}

fn cuts(outcome: &Outcome) -> Vec<&Cut> {
    taken(outcome).cuts.iter().map(|(_, cut)| cut).collect()
}

/// Whatever the algorithm: it keeps its promises and costs what it costs, every snapshot is consistent and costs
/// n(n − 1) markers.
#[test]
fn a_snapshot_costs_a_marker_per_channel_and_disturbs_nothing() {
    for algorithm in RECORDED {
        for n in 2..=6 {
            for seed in 1..=10 {
                let outcome = run(&recorded(algorithm, n, &[]), &three(n, seed));
                let report = &outcome.report;
                let case = format!("{algorithm} -n {n} --seed {seed}: {:?}", outcome.violation);
                assert!(report.all_held() && report.ending == "done", "{case}, {}", report.ending);
                assert_ne!(report.formula.agrees, Some(false), "{case}");
                assert_eq!(taken(&outcome).markers, 3 * u64::from(n * (n - 1)), "{case}");
                assert_eq!(cuts(&outcome).len(), 3, "{case}");
                let cut = report.properties.iter().find(|property| property.name == "CUT");
                assert_eq!(cut.and_then(|cut| cut.holds), Some(true), "{case}");
            }
        }
    }
}

/// The algorithm sends what it sends without snapshots, and in the same number.
#[test]
fn a_layer_that_takes_no_snapshot_sends_nothing() {
    for algorithm in RECORDED {
        let with = run(&recorded(algorithm, 4, &[]), &plan(4, Load::Saturated, 7)).report;
        let fifo = conclave_algorithms::Channels::Fifo;
        let plan = Plan { channels: Some(fifo), ..plan(4, Load::Saturated, 7) };
        let without = run(&setup(algorithm, 4, &[]), &plan).report;
        assert_eq!(with.messages_by_kind, without.messages_by_kind, "{algorithm}");
        assert_eq!(with.virtual_time, without.virtual_time, "{algorithm}");
    }
}

/// There is one token in every snapshot of a thousand runs, wherever it was.
#[test]
fn every_snapshot_of_a_token_ring_counts_one_token() {
    let mut travelled = 0;
    for seed in 1..=1_000 {
        let outcome = run(&recorded("token-ring", 4, &[]), &three(4, seed));
        assert!(outcome.report.all_held(), "--seed {seed}: {:?}", outcome.violation);
        for cut in cuts(&outcome) {
            assert_eq!(cut.tokens(), [("", 1)].into(), "--seed {seed}");
            travelled += u32::from(cut.in_flight().any(|(_, _, flight)| flight.token.is_some()));
        }
    }
    assert!(travelled > 300, "it was on its way in {travelled} of 3000");
}

/// Where nobody makes a new one, a token that was lost is missing in every later snapshot, and in none before.
#[test]
fn a_lost_token_is_missing_in_a_snapshot() {
    for seed in 1..=50 {
        let mut plan = plan(4, Load::Saturated, seed);
        plan.asks = vec![snapshot(2, 1_000), snapshot(2, 400_000)];
        plan.faults.lost_tokens = vec![60_000];
        let setup = recorded("token-ring", 4, &[("recovery", "off")]);
        let outcome = run(&setup, &Plan { entries: 100, ..plan });
        let lost: Vec<bool> = cuts(&outcome).iter().map(|cut| cut.has_lost_token()).collect();
        assert_eq!(lost, [false, true], "--seed {seed}");
        assert!(cuts(&outcome)[1].verdict().starts_with("the token is lost"), "--seed {seed}");
    }
}

/// Votes are split and not taken back: who waits in the end is found by a snapshot. With recall nobody is.
#[test]
fn a_deadlock_is_seen_in_a_snapshot() {
    let mut deadlocks = 0;
    for seed in 1..=100 {
        for mutant in [Some("no-recall".to_owned()), None] {
            let setup = Setup { mutant, ..recorded("majority", 4, &[]) };
            let plan = Plan { asks: vec![snapshot(3, 2_000_000)], ..plan(4, Load::Saturated, seed) };
            let outcome = run(&setup, &plan);
            let is_stuck = outcome.violation.as_ref().is_some_and(|violation| violation.property == "ME2");
            assert_eq!(!cuts(&outcome)[0].deadlocked().is_empty(), is_stuck, "--seed {seed} {setup}");
            assert!(setup.mutant.is_some() || !is_stuck, "--seed {seed}");
            deadlocks += u32::from(is_stuck);
        }
    }
    assert!(deadlocks > 50, "{deadlocks}");
}

/// Processes crash while snapshots are taken: those that are left end, without the dead.
#[test]
fn snapshots_end_although_processes_crash() {
    let mut missed = 0;
    for seed in 1..=200 {
        let mut plan = three(5, seed);
        let at = 20_000 + seed * 100;
        plan.faults.crashes =
            vec![Crash { process: NodeId(4), at, restart: None, amnesia: false, inside: None }];
        plan.faults.detector =
            conclave_sim::faults::Detector::After(conclave_sim::span::Span::Constant(5_000));
        let outcome = run(&recorded("ricart-agrawala", 5, &[]), &plan);
        assert!(outcome.report.all_held(), "--seed {seed}: {:?}", outcome.violation);
        assert_eq!(outcome.report.ending, "done", "--seed {seed}");
        assert_eq!(cuts(&outcome).len(), 3, "--seed {seed}");
        missed += cuts(&outcome).iter().filter(|cut| !cut.missing().is_empty()).count();
    }
    assert!(missed > 50, "{missed}");
}

/// Which seeds of a hundred break CUT, and a script that does so, too.
fn breaks_cut(setup: &Setup, plan: impl Fn(u64) -> Plan) {
    let is_broken =
        |outcome: &Outcome| outcome.violation.as_ref().is_some_and(|violation| violation.property == "CUT");
    let broken: Vec<u64> = (1..=100).filter(|seed| is_broken(&run(setup, &plan(*seed)))).collect();
    let name = format!("{} {:?} {:?}", setup.algorithm, setup.settings, setup.channels);
    assert!(broken.len() >= 10, "{name}: {broken:?}");
    let script = shrink(setup, &plan(broken[0]), "CUT").expect("it can be told as a script");
    let played = play(&script).expect("it can be played");
    assert_eq!(played.violation.map(|violation| violation.property), Some("CUT"), "{name}\n{script}");
}

#[test]
fn channels_without_order_break_snapshots() {
    let any = |seed| Plan { channels: Some(conclave_algorithms::Channels::Any), ..three(4, seed) };
    breaks_cut(&recorded("ricart-agrawala", 4, &[]), any);
}

#[test]
fn naive_recording_breaks_snapshots() {
    for algorithm in ["ricart-agrawala", "token-ring"] {
        breaks_cut(&setup(algorithm, 4, &[("snapshots", "naive")]), |seed| three(4, seed));
    }
}

#[test]
fn what_cannot_be_recorded_says_so() {
    let why = |setup: &Setup, plan: &Plan| {
        conclave_sim::simulate_setup(setup, plan, false).expect_err("it is refused").to_string()
    };
    let usual = || plan(2, Load::Saturated, 1);
    assert_eq!(why(&recorded("peterson", 2, &[]), &usual()), "a shared memory has no channels to record");
    assert!(why(&setup("central", 2, &[("snapshots", "yes")]), &usual()).contains("off, on, naive"));
    let mut joined = usual();
    joined.faults.joins = vec!["3@5".parse().expect("it joins")];
    assert!(why(&recorded("central", 2, &[]), &joined).contains("nobody can join or leave"));
    let asked = Plan { asks: vec![snapshot(1, 0)], ..usual() };
    assert!(why(&setup("chang-roberts", 2, &[]), &asked).contains("'snapshot' is not a request"));
}
