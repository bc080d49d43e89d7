//! The same seed gives the same run: in one process, in every build, on every machine.

#[path = "sim/common/mod.rs"]
mod common;

use common::{plan, run, setup, variants};
use conclave_algorithms::mutex::Load;
use conclave_sim::faults::Faults;
use conclave_sim::span::Span;
use conclave_sim::{Plan, simulate_setup};

/// A run with everything in it that can be drawn: exponential delays, open load, losses, copies, a crash with restart,
/// a pause, a cut, wrong suspicions.
fn eventful(n: u32, seed: u64) -> Plan {
    Plan {
        delay: Span::Exponential(5_000),
        entries: 4,
        faults: Faults {
            loss: "0.02".parse().unwrap(),
            duplicate: "0.05".parse().unwrap(),
            crashes: vec!["2@60..200".parse().unwrap()],
            pauses: vec!["1@20..50".parse().unwrap()],
            partitions: vec!["1/3@100..150:hold".parse().unwrap(), "1,2>3@160..170".parse().unwrap()],
            detector: "wrong:50".parse().unwrap(),
            until: Some(400_000),
            ..Faults::default()
        },
        ..plan(n, Load::Open, seed)
    }
}

/// Digests of known runs. They change only when a run itself changes: a new message, another order, another draw.
/// If one does, know why before you write the new value here.
#[test]
fn known_digests() {
    let mut digests = Vec::new();
    for (algorithm, settings) in variants() {
        let calm = run(&setup(algorithm, 5, settings), &plan(5, Load::Saturated, 7)).report.trace_digest;
        let wild = run(&setup(algorithm, 3, settings), &eventful(3, 7)).report.trace_digest;
        digests.push(format!("{algorithm} {settings:?} {calm} {wild}"));
    }
    let known: Vec<&str> = include_str!("digests.txt").lines().collect();
    if std::env::var_os("CONCLAVE_UPDATE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/digests.txt");
        std::fs::write(path, digests.join("\n") + "\n").unwrap();
        return;
    }
    let odd = |these: &[&str], those: &[&str]| -> String {
        these.iter().filter(|line| !those.contains(line)).map(|line| format!("  {line}\n")).collect()
    };
    let digests: Vec<&str> = digests.iter().map(String::as_str).collect();
    assert!(
        digests == known,
        "tests/digests.txt lacks\n{}and has\n{}`cargo xtask fix` writes it again: only a run that is new, or one that you meant to \
         change, may differ",
        odd(&digests, &known),
        odd(&known, &digests),
    );
}

#[test]
fn one_seed_twice_is_one_run_and_two_seeds_are_two() {
    for (algorithm, settings) in variants() {
        let setup = setup(algorithm, 3, settings);
        let digest = |seed| run(&setup, &eventful(3, seed)).report.trace_digest;
        assert_eq!(digest(1), digest(1), "{algorithm}");
        assert_ne!(digest(1), digest(2), "{algorithm}");
    }
}

/// Recording a run does not change it.
#[test]
fn a_recorded_run_is_the_same_run() {
    for (algorithm, settings) in variants() {
        let (setup, plan) = (setup(algorithm, 3, settings), eventful(3, 5));
        let recorded = simulate_setup(&setup, &plan, true).unwrap();
        assert_eq!(recorded.report.trace_digest, run(&setup, &plan).report.trace_digest);
        let trace = recorded.trace.expect("it was asked for");
        let mut text = Vec::new();
        trace.write_jsonl(&mut text).unwrap();
        let read = conclave_trace::Trace::read_jsonl(&String::from_utf8(text).unwrap());
        assert_eq!(read.as_ref(), Ok(&trace), "{algorithm}");
    }
}
