//! The token ring: what it costs, and what becomes of it when processes die.

use crate::common::{LOADS, plan, run, run_well, setup};
use conclave_algorithms::mutex::Load;
use conclave_sim::faults::Faults;
use conclave_sim::span::Span;
use conclave_sim::{Outcome, Plan, Report};
use conclave_trace::Setup;

type Given = &'static [(&'static str, &'static str)];

const CIRCULATING: Given = &[];
const PARKED: Given = &[("idle", "park")];
const ACKED: Given = &[("handoff", "acked")];
const PARKED_ACKED: Given = &[("idle", "park"), ("handoff", "acked")];

/// The ring itself, with nobody around it who makes a new token or calls the roll.
fn bare(n: u32, settings: Given) -> Setup {
    let mut setup = setup("token-ring", n, settings);
    setup.settings.insert("recovery".into(), "off".into());
    setup
}

fn sent(report: &Report, kind: &str) -> u64 {
    report.messages_by_kind.get(kind).copied().unwrap_or(0)
}

fn found(outcome: &Outcome, name: &str) -> Option<bool> {
    let mut properties = outcome.report.properties.iter().chain(&outcome.report.not_promised);
    properties.find(|property| property.name == name).expect("there is such a property").holds
}

/// Everyone always wants to enter: one message per entry, and an idle lap in the end. Only where the token begins does
/// anybody have to ask for it.
#[test]
fn a_parked_ring_under_full_load_costs_one_per_entry() {
    for settings in [PARKED, PARKED_ACKED] {
        for n in 1..=12 {
            for seed in 1..=10 {
                let plan = Plan { entries: 5, ..plan(n, Load::Saturated, seed) };
                let report = run_well(&setup("token-ring", n, settings), &plan).report;
                let others = u64::from(n) - 1;
                let expected = if n == 1 { 0 } else { 5 * u64::from(n) + others };
                assert_eq!(report.messages, expected, "n = {n}, seed {seed}");
                assert_eq!(sent(&report, "Want"), others);
                assert_eq!(sent(&report, "Retry"), 0);
                let acked = settings == PARKED_ACKED;
                assert_eq!(sent(&report, "Ack"), if acked { report.messages } else { 0 });
            }
        }
    }
}

/// A token that circulates leaves where it begins before anybody asks, and everyone when it has been used: to the last
/// exit, one message per entry and one more.
#[test]
fn a_circulating_ring_under_full_load_costs_one_per_entry() {
    for settings in [CIRCULATING, ACKED] {
        for n in 1..=12 {
            for seed in 1..=10 {
                let plan = Plan { entries: 5, ..plan(n, Load::Saturated, seed) };
                let report = run_well(&setup("token-ring", n, settings), &plan).report;
                let expected = if n == 1 { 0 } else { 5 * u64::from(n) + 1 };
                assert_eq!(report.messages, expected, "n = {n}, seed {seed}");
                // With one lock it comes by itself, and nobody says that it is wanted.
                assert_eq!(sent(&report, "Want"), 0);
            }
        }
    }
}

/// From exit to the next entry one message if the next one waits. Alone: the way of the token; parked, `Want` and the way
/// from home.
#[test]
fn delays_are_those_of_the_literature() {
    let (delay, hold) = (Span::Constant(5_000), Some(Span::Constant(20_000)));
    for settings in [CIRCULATING, PARKED] {
        let pressed = Plan { delay, hold, ..plan(7, Load::Saturated, 1) };
        let report = run_well(&setup("token-ring", 7, settings), &pressed).report;
        assert_eq!(
            report.part::<conclave_algorithms::mutex::LockReport>().unwrap().sync_delay_hops,
            Some(1.0)
        );
        let alone = Plan { delay, entries: 30, ..plan(7, Load::Light, 1) };
        let report = run_well(&setup("token-ring", 7, settings), &alone).report;
        let longest = report.part::<conclave_algorithms::mutex::LockReport>().unwrap().client_delay.max / 5.0;
        assert!((6.0..=7.0).contains(&longest), "{settings:?}: {longest}");
    }
}

/// Copies of a token are no tokens, and copies of a request cost a lap at most.
#[test]
fn copies_do_no_harm() {
    for settings in [CIRCULATING, PARKED, ACKED, PARKED_ACKED] {
        let runs = (1..=200).map(|seed| {
            let faults = Faults { duplicate: "0.3".parse().unwrap(), ..Faults::default() };
            let plan = Plan { faults, ..plan(4, LOADS[seed as usize % 3], seed) };
            run_well(&setup("token-ring", 4, settings), &plan).report.duplicated
        });
        assert!(runs.filter(|copies| *copies > 0).count() > 150, "most runs have copies");
    }
}

/// A detector that is wrong can make a ring leave somebody out for a while, and no more.
#[test]
fn wrong_suspicions_do_no_harm() {
    for settings in [CIRCULATING, PARKED, ACKED, PARKED_ACKED] {
        for seed in 1..=200 {
            let detector = "wrong:20".parse().unwrap();
            let faults = Faults { detector, until: Some(300_000), ..Faults::default() };
            let plan = Plan { faults, entries: 5, ..plan(4, LOADS[seed as usize % 3], seed) };
            let outcome = run_well(&bare(4, settings), &plan);
            assert_ne!(found(&outcome, "ME1"), Some(false), "{settings:?} seed {seed}");
        }
    }
}

/// With acknowledgements a process that dies without the token is bypassed, and nobody has to report it.
#[test]
fn the_dead_are_bypassed_without_a_detector() {
    for settings in [ACKED, PARKED_ACKED] {
        let mut bypassed = 0;
        for seed in 1..=200 {
            let (crashes, detector) = (vec!["3@0".parse().unwrap()], "none".parse().unwrap());
            let faults = Faults { crashes, detector, ..Faults::default() };
            let plan = Plan { faults, ..plan(5, LOADS[seed as usize % 3], seed) };
            let outcome = run(&bare(5, settings), &plan);
            let report = &outcome.report;
            assert!(report.all_held() && report.ending == "done", "seed {seed}: {:?}", outcome.violation);
            assert_eq!(
                report.part::<conclave_algorithms::mutex::LockReport>().unwrap().entries,
                4 * plan.entries
            );
            bypassed += sent(report, "Bypassed");
        }
        assert!(bypassed > 200);
    }
}

/// Without them a token that dies with its holder is gone, and the report says so.
#[test]
fn a_token_dies_with_its_holder() {
    let faults = Faults { crashes: vec!["1@5".parse().unwrap()], ..Faults::default() };
    let plan = Plan { faults, ..plan(3, Load::Saturated, 1) };
    let outcome = run(&bare(3, PARKED), &plan);
    assert_eq!((outcome.report.ending, found(&outcome, "ME2")), ("stuck", Some(false)));
    assert_ne!(found(&outcome, "TOK"), Some(false));
}
