//! Known broken variants that a checker must catch, or it is wrong. Those that are mutants stand in `mutants.rs`.

use conclave_check::{AskBudget, Budgets, Counterexample, Limits, Options, Stopped, check};
use conclave_core::NodeId;
use conclave_trace::Setup;

fn refuted(setup: &Setup, options: &Options) -> Counterexample {
    let found = check(setup, options, &mut |_| {}).expect("it can be searched").counterexample;
    let found = found.expect("it is refuted");
    let played = conclave_sim::play(&found.script).expect("the simulator plays it");
    let seen = played.violation.expect("the simulator sees it, too");
    assert_eq!(seen.property, found.property);
    found
}

#[test]
fn book_tv_l2_lamport_needs_channels_that_keep_their_order() {
    let setup = Setup { channels: Some("any".into()), ..Setup::numbered("lamport", 2) };
    assert_eq!(refuted(&setup, &Options::default()).property, "ME1");
}

#[test]
fn book_tv_d1_the_literal_majority_lets_two_in() {
    let mut setup = Setup::numbered("majority", 4);
    setup.settings.insert("mode".into(), "literal".into());
    let options = Options { liveness: false, ..Options::default() };
    assert_eq!(refuted(&setup, &options).property, "ME1");
}

#[test]
fn book_tv_b6_a_replaced_id_gives_one_election_two_leaders() {
    let options = Options {
        starters: Some(vec![NodeId(2)]),
        budgets: Budgets { crashes: 1, restarts: 1, ..Budgets::default() },
        liveness: false,
        ..Options::default()
    };
    assert_eq!(refuted(&Setup::numbered("bully", 3), &options).property, "E1");
}

fn giving_up() -> Setup {
    let mut setup = Setup::numbered("majority", 2);
    setup.settings.insert("mode".into(), "backoff".into());
    setup.settings.insert("doublings".into(), "0".into());
    setup
}

/// Votes that are given back after a while can be split again, and again. It is not promised that they are not.
#[test]
fn giving_up_for_a_while_may_go_on_forever() {
    let options = Options { ticks: Some(1), ..Options::default() };
    let found = check(&giving_up(), &options, &mut |_| {}).expect("it can be searched").counterexample;
    let found = found.expect("it is refuted");
    assert_eq!(found.property, "ME3");
    assert!(found.script.to_string().contains("again"), "it is a run without end: {}", found.script);
    conclave_sim::play(&found.script).expect("the simulator finds itself where it was");
}

/// While one is inside, or its message on the way, the other may ask any number of times, each time with a later stamp: the
/// search has no end, and goes down to some depth.
#[test]
fn giving_up_for_a_while_lets_nobody_in_twice() {
    for (n, depth, states) in [(2, 16, 84_375), (3, 9, 58502)] {
        let setup = Setup { nodes: (1..=n).map(NodeId).collect(), ..giving_up() };
        let limits = Limits { depth: Some(depth), ..Limits::default() };
        let options = Options { liveness: false, limits, ..Options::default() };
        let report = check(&setup, &options, &mut |_| {}).expect("it can be searched");
        assert!(report.all_held());
        assert_eq!((report.states, report.incomplete), (states, Some(Stopped::Depth)), "n = {n}");
    }
}

#[test]
fn what_follows_too_many_messages_is_left_out() {
    let limits = Limits { in_flight: Some(1), ..Limits::default() };
    let options = Options { entries: AskBudget::Times(2), liveness: false, limits, ..Options::default() };
    let report =
        check(&Setup::numbered("ricart-agrawala", 2), &options, &mut |_| {}).expect("it can be searched");
    assert!(report.all_held());
    assert_eq!((report.states, report.incomplete), (175, Some(Stopped::Crowded)));
}

/// What is sent to the dead does not arrive; in a circle it must not pile up.
#[test]
fn a_run_without_end_that_sends_to_the_dead_is_played() {
    let mut setup = Setup::numbered("central", 2);
    setup.settings.insert("silence".into(), "dead".into());
    let options = Options {
        budgets: Budgets { crashes: 1, ..Budgets::default() },
        detector: false,
        ..Options::default()
    };
    let found = check(&setup, &options, &mut |_| {}).expect("it can be searched").counterexample;
    let found = found.expect("it is refuted");
    assert!(found.circle.is_some(), "{}", found.script);
    let played = conclave_sim::play(&found.script);
    let played = played.unwrap_or_else(|error| panic!("{error}\n{}", found.script));
    let judged = played.judgements.iter().find(|judged| judged.property == found.property);
    assert!(judged.is_some_and(|judged| matches!(judged.finding, conclave_algorithms::Finding::Broken(_))));
}

/// What was sent to an earlier life is not in the way of what is sent to the next, where channels keep their order.
#[test]
fn a_run_with_restarts_is_played_on_channels_that_keep_their_order() {
    let setup = Setup { mutant: Some("go-on-alone".into()), ..Setup::numbered("lamport", 2) };
    let options = Options {
        budgets: Budgets { crashes: 2, restarts: 2, ..Budgets::default() },
        liveness: false,
        ..Options::default()
    };
    assert_eq!(refuted(&setup, &options).property, "FENCE");
}

/// Between two steps p2 never has the token: it wants nothing, and passes it on in the step in which it arrives. A crash inside
/// that step takes the token with it.
#[test]
fn a_token_dies_inside_the_step_that_passes_it_on() {
    let mut setup = Setup::numbered("token-ring", 3);
    for (key, value) in [("idle", "park"), ("handoff", "acked"), ("recovery", "off")] {
        setup.settings.insert(key.into(), value.into());
    }
    let options = Options {
        starters: Some(vec![NodeId(1), NodeId(3)]),
        budgets: Budgets { crashes: 1, ..Budgets::default() },
        mortals: Some(vec![NodeId(2)]),
        ticks: Some(1),
        ..Options::default()
    };
    let atomic = Options { atomic_steps: true, ..options.clone() };
    let report = check(&setup, &atomic, &mut |_| {}).expect("it can be searched");
    assert!(report.complete && report.all_held(), "{:?}", report.counterexample);
    let found = refuted(&setup, &options);
    assert_eq!(found.property, "ME2");
    let script = found.script.to_string();
    assert!(script.contains("crash 2\n") && script.contains("drop p2 => p3"), "{script}");
}
