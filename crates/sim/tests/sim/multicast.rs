//! Multicast: how many messages a post costs, what breaks, and what does not whatever goes wrong.

use conclave_algorithms::demand::{PlannedAsk, Who};
use conclave_algorithms::{Trigger, multicast};
use conclave_core::{Members, NodeId};
use conclave_sim::faults::Faults;
use conclave_sim::span::Span;
use conclave_sim::{Outcome, Plan, play, shrink, simulate_setup};
use conclave_trace::Setup;

use crate::common::seeds;

fn ask(at: u64, who: Who, words: &str) -> PlannedAsk {
    PlannedAsk { at, who, words: words.into() }
}

fn plan(n: u32, seed: u64) -> Plan {
    let delay = if seed.is_multiple_of(3) { Span::Exponential(5_000) } else { Span::Uniform(1_000, 10_000) };
    Plan { seed, delay, faults: detected(&[]), paranoid: true, ..Plan::new(Members::numbered(n)) }
}

/// Crashes that everyone is told of a little later.
fn detected(crashes: &[String]) -> Faults {
    Faults {
        crashes: crashes.iter().map(|crash| crash.parse().expect("a crash")).collect(),
        detector: "late:1..10".parse().expect("a detector"),
        ..Faults::default()
    }
}

#[track_caller]
fn run(setup: &Setup, plan: &Plan) -> Outcome {
    simulate_setup(setup, plan, false).expect("it can be simulated")
}

/// How many messages a post costs in a group of so many.
type Cost = fn(u64) -> u64;

/// Each post costs what the literature says, in groups of every size and whatever the delays.
#[test]
fn a_post_costs_what_the_formula_says() {
    let costs: [(&str, Cost); 8] = [
        ("basic", |n| n - 1),
        ("reliable", |n| n * (n - 1)),
        ("fifo", |n| n * (n - 1)),
        ("causal", |n| n * (n - 1)),
        ("sequencer", |n| 2 * (n - 1)),
        ("isis", |n| 3 * (n - 1)),
        ("lamport-stamps", |n| n * (n - 1)),
        ("views", |n| n - 1),
    ];
    assert_eq!(costs.len(), multicast::all().len());
    for (name, cost) in costs {
        for n in [1, 2, 3, 5, 8] {
            for seed in 1..=20 {
                let asks = vec![
                    ask(0, Who::All, "send m1"),
                    ask(seed * 300, Who::All, "send m2"),
                    ask(3_000, Who::Lowest, "send m3"),
                ];
                let report = run(&Setup::numbered(name, n), &Plan { asks, ..plan(n, seed) }).report;
                assert!(report.all_held(), "{name} n={n} seed {seed}: {report:?}");
                assert_eq!(
                    report.messages,
                    (2 * u64::from(n) + 1) * cost(n.into()),
                    "{name} n={n} seed {seed}"
                );
                assert_eq!(report.formula.agrees, Some(true), "{name} n={n} seed {seed}");
            }
        }
    }
}

/// Two processes crash, one for good and one for a while, often inside a step; one leaves and joins again.
fn wild(n: u32, seed: u64) -> Plan {
    let (first, second) = (1 + seed as u32 % n, 1 + (seed as u32 / 7) % n);
    let mut crashes = vec![format!("{first}@{}:inside", seed % 37)];
    let mut asks = vec![
        ask(0, Who::All, "send a"),
        ask(seed * 137 % 30_000, Who::All, "send b"),
        ask(seed * 71 % 50_000, Who::Lowest, "send c"),
        ask(200_000, Who::All, "send d"),
        ask(20_000, Who::One(NodeId(2)), "leave"),
        ask(60_000, Who::One(NodeId(2)), "join"),
    ];
    if second != first {
        let inside = if seed.is_multiple_of(2) { ":inside" } else { "" };
        crashes.push(format!("{second}@{}..{}{inside}", seed % 61, 100 + seed % 61));
        asks.push(ask(180_000, Who::One(NodeId(second)), "join"));
    }
    Plan { asks, faults: detected(&crashes), ..plan(n, seed) }
}

#[test]
fn crashes_break_no_promise() {
    for about in multicast::all() {
        for n in [2, 3, 4, 5] {
            for seed in seeds(40) {
                let outcome = run(&Setup::numbered(about.name, n), &wild(n, seed));
                assert!(outcome.report.all_held(), "{} n={n} seed {seed}: {:?}", about.name, outcome.report);
            }
        }
    }
}

/// What is promised although processes crash is promised, and what is not is said to be not.
#[test]
fn promises_follow_what_happened() {
    let promised = |name: &str, property: &str| {
        let plan = Plan { faults: detected(&["1@0:after=1".into()]), ..plan(4, 1) };
        let asks = vec![ask(1_000, Who::Lowest, "send m")];
        let report = run(&Setup::numbered(name, 4), &Plan { asks, ..plan }).report;
        let is = |list: &[conclave_sim::Property]| list.iter().any(|known| known.name == property);
        assert!(is(&report.properties) != is(&report.not_promised), "{name} {property}");
        is(&report.properties)
    };
    assert!(!promised("basic", "AGREEMENT") && promised("basic", "INTEGRITY") && !promised("basic", "FIFO"));
    assert!(promised("reliable", "AGREEMENT") && !promised("reliable", "TOTAL"));
    assert!(promised("causal", "CAUSAL") && promised("causal", "FIFO") && !promised("fifo", "CAUSAL"));
    assert!(promised("isis", "TOTAL") && !promised("isis", "AGREEMENT"));
    assert!(
        promised("sequencer", "TOTAL") && promised("sequencer", "AGREEMENT") && promised("views", "VIEW")
    );
}

/// Every order that is not promised is seen broken: a property that could not fail would be worth nothing.
#[test]
fn orders_that_are_not_promised_are_seen_broken() {
    for (name, property) in [
        ("reliable", "FIFO"),
        ("basic", "CAUSAL"),
        ("fifo", "CAUSAL"),
        ("causal", "TOTAL"),
        ("views", "FIFO"),
        ("sequencer", "FIFO"),
    ] {
        let is_broken = |seed| {
            let settings = if matches!(name, "fifo" | "causal") {
                [("over".into(), "basic".into())].into()
            } else {
                [].into()
            };
            let setup = Setup { settings, ..Setup::numbered(name, 4) };
            let report = run(&setup, &Plan { asks: spread(4, seed), ..plan(4, seed) }).report;
            report.not_promised.iter().any(|known| known.name == property && known.holds == Some(false))
        };
        assert!((1..=300).any(is_broken), "{name} never breaks {property}");
    }
}

/// Everyone sends, one soon after the other, so that some know of what others have sent.
fn spread(n: u32, seed: u64) -> Vec<PlannedAsk> {
    let who = |k: u64| Who::One(NodeId(1 + ((k + seed) % u64::from(n)) as u32));
    let one = |k: u64| ask(k * (500 + seed % 5 * 700), who(k), "send m");
    (0..1 + seed % 8).map(one).collect()
}

#[test]
fn every_mutant_is_caught_and_told_as_a_script() {
    for about in multicast::all() {
        for mutant in about.mutants {
            let name = format!("{} {}", about.name, mutant.name);
            let setup =
                Setup { mutant: Some(mutant.name.into()), ..Setup::numbered(about.name, mutant.nodes) };
            let provoked = |seed| {
                let mut plan = Plan { asks: spread(mutant.nodes, seed), ..plan(mutant.nodes, seed) };
                if mutant.trigger == Trigger::Crash {
                    let crash = format!("{}@{}:inside", 1 + seed as u32 % mutant.nodes, seed % 20);
                    plan.faults.crashes = vec![crash.parse().expect("a crash")];
                }
                plan
            };
            let caught = (1..=1_000).map(provoked).find(|plan| {
                run(&setup, plan).violation.is_some_and(|violation| violation.property == mutant.breaks)
            });
            let plan = caught.unwrap_or_else(|| panic!("{name} is not caught"));
            let script =
                shrink(&setup, &plan, mutant.breaks).unwrap_or_else(|| panic!("{name} has no script"));
            let played = play(&script).unwrap_or_else(|error| panic!("{name}: {error}\n{script}"));
            assert_eq!(
                played.violation.map(|violation| violation.property),
                Some(mutant.breaks),
                "{name}\n{script}"
            );
        }
    }
}

/// The same seeds break basic multicast, if it is held against what reliable multicast promises.
#[test]
fn basic_multicast_breaks_agreement_when_its_sender_dies_half_way() {
    let judged =
        Setup { settings: [("judged".into(), "reliable".into())].into(), ..Setup::numbered("basic", 4) };
    let dies = |seed: u64| Plan {
        asks: vec![ask(0, Who::All, "send m")],
        faults: detected(&["1@0:inside".into()]),
        ..plan(4, seed)
    };
    let broken = (1..=50).filter_map(|seed| run(&judged, &dies(seed)).violation).collect::<Vec<_>>();
    assert!(
        !broken.is_empty() && broken.iter().all(|violation| violation.property == "AGREEMENT"),
        "{broken:?}"
    );
    for seed in 1..=50 {
        assert_eq!(run(&Setup::numbered("reliable", 4), &dies(seed)).violation, None, "seed {seed}");
    }
}

/// A sender outside the group reaches the three who are in it, with one operation of a network that has multicast.
#[test]
fn book_v_u3_one_operation_three_unicasts() {
    let setup = Setup { settings: [("group".into(), "nobody".into())].into(), ..Setup::numbered("basic", 6) };
    let joins = [2, 4, 5].map(|id| ask(0, Who::One(NodeId(id)), "join"));
    let silent = Plan { asks: joins.to_vec(), ..plan(6, 1) };
    let asks = joins.into_iter().chain([ask(100_000, Who::One(NodeId(1)), "send m1")]).collect();
    let report = |plan: &Plan| run(&setup, plan).report.part::<multicast::MulticastReport>().unwrap().clone();
    let (before, after) = (report(&silent), report(&Plan { asks, ..plan(6, 1) }));
    assert_eq!((after.posts, after.deliveries.count), (1, 3));
    assert_eq!((after.operations - before.operations, after.unicasts - before.unicasts), (1, 3));
}
