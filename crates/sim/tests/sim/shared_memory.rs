//! The locks of a shared memory in simulated runs.

use conclave_algorithms::memory;
use conclave_core::Members;
use conclave_sim::faults::Faults;
use conclave_sim::span::Span;
use conclave_sim::{Outcome, Plan, simulate_setup};
use conclave_trace::Setup;

fn setup(lock: &str, n: u32, set: &[(&str, &str)]) -> Setup {
    let settings = set.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    Setup { settings, ..Setup::numbered(lock, n) }
}

fn plan(n: u32, entries: u64, seed: u64) -> Plan {
    Plan { seed, entries, delay: Span::Uniform(1, 100), ..Plan::new(Members::numbered(n)) }
}

fn run(setup: &Setup, plan: &Plan) -> Outcome {
    simulate_setup(setup, plan, false).expect("it can be simulated")
}

/// What the locks promise holds over many seeds, and an entry costs at least what the formula says.
#[test]
fn locks_keep_their_promises_over_seeds() {
    for about in memory::all() {
        for seed in 1..=1_000 {
            let n = 2 + seed as u32 % 4;
            let outcome = run(&setup(about.name, n, &[]), &plan(n, 3, seed));
            let context = format!("{} n={n} seed={seed}", about.name);
            assert_eq!(outcome.violation, None, "{context}");
            assert_eq!(outcome.report.formula.agrees, Some(true), "{context}");
            for property in &outcome.report.properties {
                // That nobody starves no run that ends can show.
                let expected = (property.name != "ME3").then_some(true);
                assert_eq!(property.holds, expected, "{context}: {property:?}");
            }
        }
    }
}

/// A crash breaks no promise: in its remainder a process is not missed, and elsewhere nothing is promised.
#[test]
fn a_crash_breaks_no_promise() {
    for about in memory::all() {
        for seed in 1..=100 {
            let crashes = vec![format!("2@{}", seed % 20).parse().unwrap()];
            let plan = Plan { faults: Faults { crashes, ..Faults::default() }, ..plan(3, 3, seed) };
            let outcome = run(&setup(about.name, 3, &[]), &plan);
            assert_eq!(outcome.violation, None, "{} seed={seed}", about.name);
        }
    }
}

/// Two of five are inside at a time, and never three (TV-H3).
#[test]
fn book_tv_h3_a_semaphore_with_two_places() {
    let outcome = run(&setup("semaphore", 5, &[("places", "2")]), &plan(5, 20, 1));
    assert_eq!(outcome.violation, None);
    assert_eq!(outcome.report.messages, 5 * 20 * 2 * 2);
}

/// One seed is one run.
#[test]
fn the_same_seed_gives_the_same_run() {
    for about in memory::all() {
        let digest = |seed| run(&setup(about.name, 3, &[]), &plan(3, 2, seed)).report.trace_digest;
        assert_eq!(digest(1), digest(1), "{}", about.name);
        assert_ne!(digest(1), digest(2), "{}", about.name);
    }
}

/// What cannot be had is refused in a sentence.
#[test]
fn a_lock_of_a_machine_takes_neither_several_locks_nor_newcomers() {
    let several = simulate_setup(
        &Setup { locks: 2, ..setup("ticket", 3, &[]) },
        &Plan { locks: 2, ..plan(3, 1, 1) },
        false,
    );
    assert_eq!(several.expect_err("refused").to_string(), "ticket is one lock");
    let joins = Faults { joins: vec!["9@50".parse().unwrap()], ..Faults::default() };
    let joining = simulate_setup(&setup("ticket", 3, &[]), &Plan { faults: joins, ..plan(3, 1, 1) }, false);
    assert_eq!(joining.expect_err("refused").to_string(), "ticket lets nobody join or leave");
    let nobody = Setup { nodes: vec![conclave_core::NodeId(0)], ..setup("ticket", 1, &[]) };
    let alone = Plan { ..Plan::new(Members::listed(nobody.nodes.clone())) };
    let refused = simulate_setup(&nobody, &alone, false).expect_err("refused").to_string();
    assert_eq!(refused, "p0 is the memory, and ticket needs somebody who uses it");
}
