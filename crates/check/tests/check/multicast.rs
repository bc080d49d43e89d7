//! Multicast, searched: what is promised holds in every order of messages, and every mutant is refuted.

use std::time::Duration;

use conclave_algorithms::multicast;
use conclave_check::{AskBudget, Budgets, Limits, Options, Report, attempts, check};
use conclave_core::NodeId;
use conclave_trace::Setup;

fn search(setup: &Setup, options: &Options) -> Report {
    check(setup, options, &mut |_| {}).expect("it can be searched")
}

fn over_basic(name: &str, n: u32) -> Setup {
    Setup { settings: [("over".into(), "basic".into())].into(), ..Setup::numbered(name, n) }
}

#[track_caller]
fn holds(setup: &Setup, options: &Options) {
    let report = search(setup, options);
    assert!(report.complete && report.all_held(), "{}: {report:?}", setup.algorithm);
}

#[test]
fn everyone_sends_once() {
    for name in ["basic", "isis", "lamport-stamps", "views", "sequencer"] {
        holds(&Setup::numbered(name, 2), &Options { entries: AskBudget::Times(2), ..Options::default() });
    }
    for name in ["fifo", "causal"] {
        holds(&over_basic(name, 3), &Options::default());
    }
    for name in ["basic", "reliable", "isis", "sequencer"] {
        holds(&Setup::numbered(name, 3), &Options::default());
    }
}

/// Two posts in all, of two processes, and a crash inside any step of anybody.
fn two_posts_and_a_crash() -> Options {
    let budgets = Budgets { crashes: 1, ..Budgets::default() };
    Options { starters: Some(vec![NodeId(1), NodeId(2)]), budgets, ..Options::default() }
}

#[test]
fn two_posts_and_a_crash_inside_a_step() {
    for name in ["reliable", "fifo", "causal", "isis", "lamport-stamps"] {
        holds(&Setup::numbered(name, 3), &two_posts_and_a_crash());
    }
}

/// Two posts each, with steps that commute left out: of two processes in causal order, and in a soak (`CONCLAVE_SOAK=1`) of all
/// three, and of two in the order of a sequencer.
#[test]
fn two_posts_each() {
    let twice = |setup: Setup, starters: &[u32], states: usize| {
        let starters = starters.iter().copied().map(NodeId).collect();
        let options = Options {
            entries: AskBudget::Times(2),
            starters: Some(starters),
            liveness: false,
            reduce: true,
            ..Options::default()
        };
        let report = search(&setup, &options);
        assert!(report.complete && report.all_held(), "{}: {report:?}", setup.algorithm);
        assert_eq!(report.states, states, "{}", setup.algorithm);
    };
    twice(over_basic("causal", 3), &[1, 2], 1_993);
    if std::env::var_os("CONCLAVE_SOAK").is_some() {
        twice(over_basic("causal", 3), &[1, 2, 3], 548_957);
        twice(Setup::numbered("sequencer", 3), &[1, 2], 1_203_405);
    }
}

/// The negative control: a sender that dies half-way.
#[test]
fn basic_multicast_is_refuted_if_it_is_held_against_reliable_multicast() {
    let judged =
        Setup { settings: [("judged".into(), "reliable".into())].into(), ..Setup::numbered("basic", 3) };
    let found = search(&judged, &two_posts_and_a_crash()).counterexample.expect("it is refuted");
    assert_eq!(found.property, "AGREEMENT");
    let played = conclave_sim::play(&found.script).expect("it can be played");
    assert_eq!(played.violation.map(|violation| violation.property), Some("AGREEMENT"), "{}", found.script);
    // A crash between two steps does no harm.
    holds(&judged, &Options { atomic_steps: true, ..two_posts_and_a_crash() });
}

#[test]
fn every_mutant_is_refuted_and_the_simulator_agrees() {
    for about in multicast::all() {
        for mutant in about.mutants {
            let setup =
                Setup { mutant: Some(mutant.name.into()), ..Setup::numbered(about.name, mutant.nodes) };
            let limits = Limits { memory: 2 << 30, time: Some(Duration::from_secs(60)), ..Limits::default() };
            let found = attempts(mutant)
                .into_iter()
                .find_map(|attempt| {
                    search(&setup, &Options { limits: limits.clone(), ..attempt }).counterexample
                })
                .unwrap_or_else(|| panic!("{} {} is not refuted", about.name, mutant.name));
            assert_eq!(found.property, mutant.breaks, "{} {}\n{}", about.name, mutant.name, found.script);
            let played = conclave_sim::play(&found.script).expect("it can be played");
            assert_eq!(
                played.violation.map(|violation| violation.property),
                Some(found.property),
                "{}",
                found.script
            );
        }
    }
}
