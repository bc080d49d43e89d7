//! Singhal's algorithm: what an entry costs depends on where its process stands on the staircase.

use crate::common::{LOADS, plan, run_well, setup};
use conclave_algorithms::mutex::Load;
use conclave_core::NodeId;
use conclave_sim::faults::{Crash, Faults};
use conclave_sim::rng::{Draw as _, Rng};
use conclave_sim::{Plan, simulate_setup};
use conclave_trace::What;

/// Every entry of a run, alone: its process, and how many messages it cost.
fn costs(plan: &Plan) -> Vec<(u32, u64)> {
    let setup = setup("singhal", plan.members.len() as u32, &[]);
    let outcome = simulate_setup(&setup, plan, true).expect("the setup is possible");
    assert_eq!(outcome.violation, None, "seed {}", plan.seed);
    let (mut sent, mut costs) = (0, Vec::new());
    for record in outcome.trace.expect("it was recorded").records {
        match &record.what {
            What::Send(_) => sent += 1,
            What::Event { event, .. } if event == "granted" => {
                costs.push((record.process.expect("a process is told").0, core::mem::take(&mut sent)));
            }
            _ => {}
        }
    }
    assert_eq!(sent, 0, "whoever leaves alone keeps the token");
    costs
}

/// Alone, the process on step p of the staircase pays p messages, on the first none; then it stands at the top, and
/// those who stood above it have come down a step.
#[test]
fn book_an_entry_alone_costs_its_step() {
    for n in 1..=16 {
        for seed in 1..=20 {
            let mut plan = plan(n, Load::Light, seed);
            plan.entries = 4;
            let mut staircase: Vec<u32> = (1..=n).collect();
            for (process, cost) in costs(&plan) {
                let above = staircase.iter().position(|other| *other == process).expect("it has a step");
                let expected = if above == 0 { 0 } else { above as u64 + 1 };
                assert_eq!(cost, expected, "-n {n} --seed {seed}: p{process} on {staircase:?}");
                staircase.remove(above);
                staircase.insert(0, process);
            }
        }
    }
}

/// If everyone is as likely to ask as the others, an entry alone costs (n + 1)/2 - 1/n on average. It is so until the
/// first has no entries left, which is the last hundredth of these runs.
#[test]
fn book_alone_the_mean_is_half_the_group() {
    for n in [2, 3, 5, 9, 16] {
        let (mut messages, mut entries) = (0, 0);
        for seed in 1..=5 {
            let mut plan = plan(n, Load::Light, seed);
            plan.entries = 5_000;
            let report = run_well(&setup("singhal", n, &[]), &plan).report;
            messages += report.messages;
            entries += report.part::<conclave_algorithms::mutex::LockReport>().unwrap().entries;
        }
        let (measured, n) = (messages as f64 / entries as f64, f64::from(n));
        let expected = (n + 1.0) / 2.0 - 1.0 / n;
        assert!((measured / expected - 1.0).abs() < 0.02, "n = {n}: {measured}, not {expected}");
    }
}

/// When all press, everyone asks everyone: n messages, and none for the very first entry, whose token was at hand.
#[test]
fn book_saturated_an_entry_costs_n() {
    for n in 1..=16 {
        for seed in 1..=20 {
            let mut plan = plan(n, Load::Saturated, seed);
            plan.entries = 3;
            let report = run_well(&setup("singhal", n, &[]), &plan).report;
            let asked_for = if n == 1 {
                0
            } else {
                report.part::<conclave_algorithms::mutex::LockReport>().unwrap().entries - 1
            };
            assert_eq!(report.messages, u64::from(n) * asked_for, "-n {n} --seed {seed}");
        }
    }
}

/// A request goes to nobody twice: one token and at most n - 1 requests for each entry, under every load.
#[test]
fn never_more_than_n() {
    for n in 2..=16u32 {
        for load in LOADS {
            for seed in 1..=20 {
                let report = run_well(&setup("singhal", n, &[]), &plan(n, load, seed)).report;
                let count = |kind| report.messages_by_kind.get(kind).copied().unwrap_or(0);
                let (requests, tokens) = (count("Request"), count("Token"));
                assert!(requests <= (u64::from(n) - 1) * tokens, "-n {n} {load:?} --seed {seed}");
                assert!(
                    tokens <= report.part::<conclave_algorithms::mutex::LockReport>().unwrap().entries,
                    "-n {n} {load:?} --seed {seed}"
                );
            }
        }
    }
}

/// A crash blocks the others only if the token is lost in it: with whoever had it, or in flight to the dead. A process
/// that comes back takes part again. Wrong suspicions do no harm.
#[test]
fn a_crash_without_the_token_is_survived() {
    let (mut survived, mut lost) = (0, 0);
    for n in 2..=6 {
        for seed in 1..=200 {
            let mut rng = Rng::new(seed, 79);
            let mut plan = Plan { entries: 3, ..plan(n, LOADS[seed as usize % LOADS.len()], seed) };
            let (process, at) = (NodeId(1 + rng.below(n.into()) as u32), rng.between(0, 120_000));
            let restart = (rng.below(2) == 0).then(|| at + rng.between(1, 60_000));
            let crashes = vec![Crash { process, at, restart, amnesia: false, inside: None }];
            let detector = if seed % 2 == 0 { "perfect" } else { "wrong:60" }.parse().unwrap();
            plan.faults = Faults { crashes, detector, until: Some(300_000), ..Faults::default() };
            let outcome = simulate_setup(&setup("singhal", n, &[("recovery", "off")]), &plan, false).unwrap();
            let report = &outcome.report;
            let what = format!("-n {n} {:?} --seed {seed} {:?}", plan.load, plan.faults);
            let token = report.properties.iter().find(|property| property.name == "TOK").unwrap();
            assert_ne!(token.holds, Some(false), "{what}");
            match outcome.violation {
                None => {
                    survived += 1;
                    assert_eq!(report.ending, "done", "{what}");
                }
                Some(violation) => {
                    lost += 1;
                    // Before the first entry nobody can tell whether there is a token.
                    let is_lost = token.holds.is_none()
                        || report.part::<conclave_algorithms::mutex::LockReport>().unwrap().entries == 0;
                    assert!(violation.property == "ME2" && is_lost, "{what}: {}", violation.detail);
                }
            }
        }
    }
    assert!(survived > 300 && lost > 100, "{survived} survived, {lost} lost the token");
}
