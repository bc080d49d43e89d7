//! Consensus: what is promised holds whoever crashes, what it costs is counted, and mutants are caught.

use conclave_algorithms::demand::{PlannedAsk, Who};
use conclave_algorithms::measure::PlainReport;
use conclave_algorithms::{Mutant, Trigger, consensus};
use conclave_core::{Members, NodeId};
use conclave_sim::faults::Faults;
use conclave_sim::rng::{Draw as _, Rng};
use conclave_sim::span::Span;
use conclave_sim::{Outcome, Plan, Report, play, shrink, simulate_setup};
use conclave_trace::{Script, Setup};

use crate::common::seeds;

fn propose(at: u64, process: u32, value: u64) -> PlannedAsk {
    PlannedAsk { at, who: Who::One(NodeId(process)), words: format!("propose {value}") }
}

fn setup(algorithm: &str, n: u32, settings: &[(&str, &str)]) -> Setup {
    let settings = settings.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    Setup { settings, ..Setup::numbered(algorithm, n) }
}

fn run(setup: &Setup, plan: &Plan) -> Outcome {
    simulate_setup(setup, plan, false).expect("the setup is possible")
}

fn calm(n: u32, seed: u64, asks: Vec<PlannedAsk>) -> Plan {
    Plan { seed, asks, ..Plan::new(Members::numbered(n)) }
}

/// What was decided last.
fn last(outcome: &Outcome) -> String {
    outcome.report.part::<PlainReport>().and_then(|part| part.last.clone()).expect("something was decided")
}

/// The votes 3, 7, 7: one of them is decided, by whatever algorithm, and never their mean.
#[test]
fn book_tv_p1_nothing_is_invented() {
    for algorithm in ["flood-set", "paxos", "ben-or"] {
        for seed in 1..=200 {
            let asks = vec![propose(0, 1, 3), propose(0, 2, 7), propose(0, 3, 7)];
            let outcome = run(&setup(algorithm, 3, &[]), &calm(3, seed, asks));
            assert!(outcome.report.all_held(), "{algorithm}, seed {seed}");
            assert!(["decided 3", "decided 7"].contains(&&*last(&outcome)), "{algorithm}, seed {seed}");
        }
    }
}

#[test]
fn book_v_p3_the_smallest_and_the_most_frequent() {
    for (rule, decided) in [("min", "decided 3"), ("majority", "decided 7")] {
        let asks = vec![propose(0, 1, 3), propose(0, 2, 7), propose(0, 3, 7)];
        let outcome = run(&setup("flood-set", 3, &[("rule", rule)]), &calm(3, 1, asks));
        assert_eq!(last(&outcome), decided);
    }
}

/// Everyone votes: two rounds in which everyone has news, and nothing more whatever f. One votes: everyone passes it on once.
#[test]
fn flood_set_costs_what_its_formula_says() {
    for (n, f) in [(2u32, 1u32), (3, 0), (3, 1), (5, 2), (8, 3)] {
        let full = u64::from(n * (n - 1));
        let setup = setup("flood-set", n, &[("f", &f.to_string())]);
        let all = run(&setup, &calm(n, 5, Vec::new())).report;
        assert_eq!(all.messages, full * u64::from((f + 1).min(2)), "n = {n}, f = {f}");
        assert!(all.messages <= u64::from(f + 1) * full && all.formula.agrees == Some(true));
        let one = run(&setup, &calm(n, 5, vec![propose(0, n, 4)])).report;
        assert_eq!((one.messages, one.formula.agrees), (full, Some(true)), "n = {n}, f = {f}");
    }
}

#[test]
fn one_proposer_costs_five_messages_to_each_of_the_others() {
    for algorithm in ["paxos", "paxos-log"] {
        for n in 1..=9 {
            let report = run(&setup(algorithm, n, &[]), &calm(n, 3, vec![propose(0, 1, 4)])).report;
            assert_eq!(report.messages, 5 * u64::from(n - 1), "{algorithm} n = {n}");
            assert!(report.all_held() && report.formula.agrees == Some(true), "{algorithm} n = {n}");
        }
    }
}

/// Each round costs 2n(n − 1), and the decision n(n − 1). Where all propose the same there is one round, and no lot is drawn. Who
/// is told of the decision before it has voted saves its votes.
#[test]
fn ben_or_costs_what_its_formula_says() {
    for n in 1..=8 {
        let all = u64::from(n) * (u64::from(n) - 1);
        for seed in 1..=20 {
            let asks: Vec<_> = (1..=n).map(|id| propose(0, id, 4)).collect();
            let even = Plan { delay: Span::Constant(5_000), ..calm(n, seed, asks.clone()) };
            let outcome = run(&setup("ben-or", n, &[]), &even);
            assert_eq!((last(&outcome).as_str(), outcome.report.messages), ("decided 4", 3 * all), "n = {n}");
            let same = run(&setup("ben-or", n, &[]), &calm(n, seed, asks));
            assert!(last(&same) == "decided 4" && same.report.messages <= 3 * all, "n = {n}, seed {seed}");
            let split = run(&setup("ben-or", n, &[]), &calm(n, seed, Vec::new())).report;
            assert!(split.all_held() && split.formula.agrees == Some(true), "n = {n}, seed {seed}");
            assert_eq!(split.ending, "done", "n = {n}, seed {seed}");
        }
    }
}

/// Where the votes are split lots decide: over many seeds every value that was proposed is decided in some run.
#[test]
fn ben_or_draws_every_lot() {
    let decided: std::collections::BTreeSet<String> =
        (1..=200).map(|seed| last(&run(&setup("ben-or", 3, &[]), &calm(3, seed, Vec::new())))).collect();
    assert_eq!(decided, ["decided 1", "decided 2", "decided 3"].map(String::from).into());
}

/// Some crash at any moment, in the middle of a step or between two, and some of them come back.
fn crashing(algorithm: &str, seed: u64) -> (Setup, Plan) {
    let mut rng = Rng::new(seed, 77);
    let n = rng.between(2, 6) as u32;
    // Paxos loses its majority now and then, and then owes nobody a decision.
    let crashes = rng.below(u64::from(n).div_ceil(2) + 1) as u32;
    let crash = |k: u32| {
        let at = rng.below(120);
        let back = if rng.below(2) == 0 { format!("..{}", at + 1 + rng.below(100)) } else { String::new() };
        let inside = if rng.below(2) == 0 { ":inside" } else { "" };
        format!("{}@{at}{back}{inside}", 1 + (k + seed as u32) % n).parse().expect("a crash")
    };
    let crashes = (0..crashes).map(crash).collect();
    let detector =
        if seed.is_multiple_of(3) { "wrong:40" } else { "late:1..10" }.parse().expect("a detector");
    let faults = Faults { crashes, detector, until: Some(400_000), ..Faults::default() };
    let f = n.to_string();
    let settings: &[_] = if algorithm == "flood-set" { &[("f", f.as_str())] } else { &[] };
    let asks = (1..=n).filter(|id| (id + seed as u32).is_multiple_of(2) || *id == 1);
    let asks = asks.map(|id| propose(seed % 30_000, id, u64::from(10 * id))).collect();
    (setup(algorithm, n, settings), Plan { faults, paranoid: true, ..calm(n, seed, asks) })
}

#[test]
fn whoever_crashes_nobody_decides_differently() {
    for about in consensus::all() {
        for seed in seeds(300) {
            let (setup, plan) = crashing(about.name, seed);
            assert_eq!(run(&setup, &plan).violation, None, "{} seed {seed}: {plan:?}", about.name);
        }
    }
}

/// Paxos is safe whatever the network does.
#[test]
fn lost_and_doubled_messages_never_break_agreement() {
    for algorithm in ["paxos", "paxos-log"] {
        for seed in 1..=200 {
            let (setup, mut plan) = crashing(algorithm, seed);
            plan.faults.loss = "0.1".parse().unwrap();
            plan.faults.duplicate = "0.1".parse().unwrap();
            assert_eq!(run(&setup, &plan).violation, None, "{algorithm} seed {seed}");
        }
    }
}

/// The vote of p1 goes to p2 and from there to p3, and both die in telling it. With two rounds p4 never hears of it, which is not
/// promised with two crashes; with three rounds it does.
#[test]
fn agreement_is_promised_within_f() {
    let crashes = ["1@0:after=1", "2@1:after=2"].map(|crash| crash.parse().unwrap());
    let faults = Faults { crashes: crashes.into(), ..Faults::default() };
    let agrees = |f: &str, seed: u64| {
        let plan = Plan { faults: faults.clone(), ..calm(4, seed, Vec::new()) };
        let outcome = run(&setup("flood-set", 4, &[("f", f)]), &plan);
        assert_eq!(outcome.violation, None, "f = {f}, seed {seed}");
        let Report { properties, not_promised, .. } = outcome.report;
        let mut found = properties.into_iter().chain(not_promised);
        found.find(|property| property.name == "AGREEMENT").and_then(|property| property.holds)
    };
    for seed in 1..=50 {
        assert_eq!((agrees("1", seed), agrees("2", seed)), (Some(false), Some(true)), "seed {seed}");
    }
}

/// The first run that breaks what the mutant is said to break becomes a short script that breaks it, too.
#[test]
fn every_mutant_is_caught_and_told_as_a_script() {
    for about in consensus::all() {
        for Mutant { name, breaks, nodes, trigger, .. } in about.mutants {
            let setup = Setup { mutant: Some((*name).into()), ..setup(about.name, *nodes, &[]) };
            let fails = |seed| {
                let mut rng = Rng::new(seed, 78);
                let asks =
                    (1..=*nodes).map(|id| propose(rng.below(40_000), id, u64::from(10 * id))).collect();
                let mut plan = calm(*nodes, seed, asks).provoking(*trigger);
                if *trigger == Trigger::Restart {
                    // p3 hears late of what p1 has decided, and p1 late of who is back.
                    plan.links = vec![(0, 2, "90".parse().unwrap())];
                    plan.faults.detector = "late:60".parse().unwrap();
                }
                run(&setup, &plan).violation.is_some_and(|found| found.property == *breaks).then_some(plan)
            };
            let plan = (1..=1_000).find_map(fails);
            let plan = plan.unwrap_or_else(|| panic!("{} {name} was not caught in 1,000 seeds", about.name));
            let script = shrink(&setup, &plan, breaks).expect("it can be told as a script");
            let commands: usize = script.blocks.iter().map(|block| block.commands.len()).sum();
            assert!(commands <= 60, "{} {name}: {commands} commands\n{script}", about.name);
            let played = play(&Script::parse(&script.to_string()).unwrap()).unwrap();
            assert_eq!(played.violation.map(|found| found.property), Some(*breaks), "{script}");
        }
    }
}

/// An acceptor that comes back without its disk is no mutant: agreement is not promised, and not reported as a violation.
#[test]
fn a_lost_disk_is_not_held_against_paxos() {
    let faults = Faults { crashes: vec!["2@14..16:amnesia".parse().unwrap()], ..Faults::default() };
    let run =
        |seed| run(&setup("paxos", 3, &[]), &Plan { faults: faults.clone(), ..calm(3, seed, Vec::new()) });
    assert!((1..=500).all(|seed| run(seed).violation.is_none()));
}

/// 5 is added through p1 and 7 through p2. Whoever crashes, p3 at any time and these two when that is decided, and comes back,
/// counts 12.
#[test]
fn replicas_count_the_same_after_any_crash() {
    for seed in 1..=200 {
        let process = 1 + seed % 3;
        let at = if process == 3 { seed % 90 } else { 200 + seed % 90 };
        let inside = if process == 3 { ":inside" } else { "" };
        let crash = format!("{process}@{at}..{}{inside}", at + 40).parse().unwrap();
        let faults = Faults { crashes: vec![crash], ..Faults::default() };
        let plan = Plan { faults, ..calm(3, seed, vec![propose(0, 1, 5), propose(seed * 100, 2, 7)]) };
        let outcome = run(&setup("paxos-log", 3, &[("replica", "counter")]), &plan);
        assert!(outcome.report.all_held() && outcome.report.ending == "done", "seed {seed}");
        assert!(last(&outcome).ends_with("total 12"), "seed {seed}: {}", last(&outcome));
    }
}
