//! Consensus: every order of messages, and every moment for a crash.

use conclave_algorithms::consensus;
use conclave_check::{AskBudget, Budgets, Limits, Options, Report, attempts, check};
use conclave_core::NodeId;
use conclave_trace::Setup;

fn search(setup: &Setup, options: &Options) -> Report {
    check(setup, options, &mut |_| {}).expect("it can be searched")
}

fn setup(algorithm: &str, n: u32, settings: &[(&str, &str)]) -> Setup {
    let settings = settings.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    Setup { settings, ..Setup::numbered(algorithm, n) }
}

/// Only these propose.
fn proposing(proposers: &[u32]) -> Options {
    Options { starters: Some(proposers.iter().copied().map(NodeId).collect()), ..Options::default() }
}

/// Searches to the end: nothing that is promised is broken.
#[track_caller]
fn all_held(setup: &Setup, options: &Options) -> Report {
    let report = search(setup, options);
    assert!(report.complete && report.all_held(), "{report:?}");
    report
}

#[track_caller]
fn holds(setup: &Setup, options: &Options, states: usize) {
    let report = all_held(setup, options);
    assert_eq!(report.states, states, "{}", report.depth);
}

/// Whoever proposes and whenever, and whoever crashes in the middle of telling the others.
#[test]
fn flood_set_of_three_with_a_crash() {
    let budgets = Budgets { crashes: 1, ..Budgets::default() };
    holds(&setup("flood-set", 3, &[]), &Options { budgets, ..Options::default() }, 70_125);
}

/// Without the bound on transmission its rounds mean nothing.
#[test]
fn flood_set_owes_agreement_to_time() {
    let options = Options { untimed: true, ..Options::default() };
    let found = search(&setup("flood-set", 2, &[]), &options).counterexample;
    assert_eq!(found.map(|found| found.property), Some("AGREEMENT"));
}

#[test]
fn paxos_of_two_and_three() {
    holds(&setup("paxos", 2, &[("ballots", "2")]), &proposing(&[1]), 90);
    let fifo = Setup { channels: Some("fifo".into()), ..setup("paxos", 3, &[("ballots", "1")]) };
    holds(&fifo, &proposing(&[1, 2]), 38_260);
}

/// An acceptor crashes, inside a step or between two, and comes back with what it saved.
#[test]
fn paxos_with_a_crash_and_a_return() {
    let budgets = Budgets { crashes: 1, restarts: 1, ..Budgets::default() };
    holds(&setup("paxos", 2, &[("ballots", "1")]), &Options { budgets, ..Options::default() }, 9_568);
}

/// Two logs that grow at the same time: each entry once, and one is the beginning of the other.
#[test]
fn a_log_of_two_processes() {
    all_held(&setup("paxos-log", 2, &[("ballots", "1")]), &Options::default());
    let twice = Options { entries: AskBudget::Times(2), ..proposing(&[1]) };
    all_held(&setup("paxos-log", 2, &[("ballots", "1"), ("replica", "counter")]), &twice);
}

/// All lots that can be drawn: one round of three processes, and two of two, of which one crashes in any step.
#[test]
fn ben_or_draws_whatever_can_be_drawn() {
    all_held(&setup("ben-or", 2, &[("rounds", "2")]), &Options::default());
    let crash = Options { budgets: Budgets { crashes: 1, ..Budgets::default() }, ..Options::default() };
    all_held(&setup("ben-or", 2, &[("rounds", "2")]), &crash);
    let fifo = Setup { channels: Some("fifo".into()), ..setup("ben-or", 3, &[("rounds", "1")]) };
    all_held(&fifo, &proposing(&[1, 3]));
}

/// A ballot each of two proposers is enough for all of them.
#[test]
fn every_mutant_is_refuted_and_the_simulator_agrees() {
    for about in consensus::all() {
        for mutant in about.mutants {
            let is_timed = about.name == "flood-set";
            let settings: &[_] = match about.name {
                "flood-set" => &[],
                "ben-or" => &[("rounds", "2")],
                _ => &[("ballots", "1")],
            };
            let channels = (!is_timed).then(|| "fifo".into());
            let mutant_name = Some(mutant.name.into());
            let setup = Setup { mutant: mutant_name, channels, ..setup(about.name, mutant.nodes, settings) };
            let limits = Limits { memory: 2 << 30, ..Limits::default() };
            let refute = |attempt: Options| {
                let options = Options {
                    limits: limits.clone(),
                    liveness: false,
                    starters: Some(vec![NodeId(1), NodeId(mutant.nodes)]),
                    ..attempt
                };
                search(&setup, &options).counterexample
            };
            let found = attempts(mutant).into_iter().find_map(refute);
            let found = found.unwrap_or_else(|| panic!("{} {} is not refuted", about.name, mutant.name));
            assert_eq!(found.property, mutant.breaks, "{} {}", about.name, mutant.name);
            let played = conclave_sim::play(&found.script).expect("it plays");
            assert_eq!(
                played.violation.map(|broken| broken.property),
                Some(mutant.breaks),
                "{}",
                found.script
            );
        }
    }
}
