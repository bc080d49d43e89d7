//! Every snapshot, in every schedule, is a state that the group could have been in.

use conclave_check::{AskBudget, Limits, Options, Report, check};
use conclave_core::NodeId;
use conclave_sim::play;
use conclave_trace::Setup;

fn search(setup: &Setup, beginners: &[u32]) -> Report {
    let options = Options {
        entries: AskBudget::Times(1),
        snapshots: beginners.iter().copied().map(NodeId).collect(),
        limits: Limits { memory: 2 << 30, ..Limits::default() },
        ..Options::default()
    };
    check(setup, &options, &mut |_| {}).expect("it can be searched")
}

fn recorded(algorithm: &str, n: u32, mode: &str) -> Setup {
    let mut setup = Setup::numbered(algorithm, n);
    setup.settings.insert("snapshots".into(), mode.into());
    setup
}

fn found(report: &Report, name: &str) -> Option<bool> {
    report.properties.iter().find(|property| property.name == name).and_then(|property| property.holds)
}

/// Complete, and the snapshot and everything that the algorithm promises holds.
fn holds(setup: &Setup, beginners: &[u32], states: usize) {
    let report = search(setup, beginners);
    let name = &setup.algorithm;
    assert!(report.complete, "{name}: {:?} {:?}", report.incomplete, report.counterexample.map(|c| c.detail));
    assert_eq!(found(&report, "CUT"), Some(true), "{name}");
    assert!(report.properties.iter().all(|it| !it.promised || it.holds != Some(false)), "{name}");
    assert_eq!(report.states, states, "{name}");
}

/// Everyone enters once, and p1 takes a snapshot at any moment.
#[test]
fn snapshots_of_three_processes_are_consistent_in_every_schedule() {
    let counts = [("central", 37_918), ("raymond", 51_166), ("chang-roberts", 45_814), ("basic", 26_892)];
    for (algorithm, states) in counts {
        holds(&recorded(algorithm, 3, "on"), &[1], states);
    }
}

/// Two snapshots at the same time, of two processes.
#[test]
fn snapshots_at_the_same_time_are_consistent_in_every_schedule() {
    for (algorithm, states) in [("central", 1_847), ("ricart-agrawala", 2_563)] {
        holds(&recorded(algorithm, 2, "on"), &[1, 2], states);
    }
}

/// What breaks it is found, and is a script that breaks it when it is played.
fn refuted(setup: &Setup) {
    let report = search(setup, &[1]);
    let counterexample = report.counterexample.expect("it is found");
    assert_eq!(counterexample.property, "CUT", "{}", counterexample.detail);
    let played = play(&counterexample.script).expect("it can be played");
    assert_eq!(
        played.violation.map(|violation| violation.property),
        Some("CUT"),
        "{}",
        counterexample.script
    );
}

#[test]
fn channels_without_order_and_naive_recording_are_refuted() {
    for algorithm in ["ricart-agrawala", "suzuki-kasami"] {
        let mut unordered = recorded(algorithm, 2, "on");
        unordered.channels = Some("any".into());
        refuted(&unordered);
        refuted(&recorded(algorithm, 3, "naive"));
    }
}
