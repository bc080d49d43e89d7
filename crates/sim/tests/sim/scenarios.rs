//! Worked examples of failures, in the simulator.

use crate::common::{LOADS, plan, run, setup};
use conclave_core::NodeId;
use conclave_sim::faults::Crash;
use conclave_sim::span::Span;
use conclave_sim::{Outcome, Plan, simulate_setup};
use conclave_trace::{Setup, What};

/// Runs, and wants every promise kept, everyone served, and one token.
fn well(setup: &Setup, plan: &Plan) -> Outcome {
    let outcome = run(setup, plan);
    let token = outcome.report.properties.iter().find(|property| property.name == "TOK");
    assert!(
        outcome.report.all_held()
            && outcome.report.ending == "done"
            && token.is_none_or(|token| token.holds == Some(true)),
        "{} {:?} --seed {} {:?}: {:?}, {}, {token:?}",
        setup.algorithm,
        setup.settings,
        plan.seed,
        plan.faults,
        outcome.violation,
        outcome.report.ending,
    );
    outcome
}

/// The epoch of the token at the end, as the report names it; nothing if it is the first.
fn epoch(outcome: &Outcome) -> String {
    let token = outcome.report.properties.iter().find(|property| property.name == "TOK");
    token.expect("there is a token").detail.clone()
}

/// Crashes whoever is in this phase at some moment, if anybody is.
fn crash_when(setup: &Setup, plan: &mut Plan, phase: &str) {
    let trace = simulate_setup(setup, plan, true).expect("it is possible").trace.expect("it is recorded");
    let there =
        |record: &&conclave_trace::Record| record.phase == phase && !matches!(record.what, What::Start);
    let moments: Vec<_> = trace.records.iter().filter(there).collect();
    // In the first half: somebody is to miss whoever dies.
    let moment = moments[plan.seed as usize * 7 % moments.len().div_ceil(2)];
    let process = moment.process.expect("a phase is somebody's");
    plan.faults.crashes =
        vec![Crash { process, at: moment.time + 1, restart: None, amnesia: false, inside: None }];
}

/// TV-T3: the holder dies inside, and nobody is told: who waits has the token looked for, the dead one is silent in both
/// rounds, and the leader makes a token of the next epoch.
#[test]
fn book_tv_t3_a_token_that_died_with_its_holder_is_replaced() {
    for seed in 1..=30 {
        for monitor in ["elected", "all"] {
            let given = [("recovery", "on"), ("silence", "dead"), ("monitor", monitor)];
            let setup = setup("token-ring", 5, &given);
            let mut plan = plan(5, LOADS[2], seed);
            crash_when(&setup, &mut plan, "holding");
            // Not the leader: nobody would be told that a new one is wanted.
            if plan.faults.crashes[0].process == NodeId(5) {
                continue;
            }
            plan.faults.detector = "none".parse().unwrap();
            let outcome = well(&setup, &plan);
            assert!(epoch(&outcome).contains("p5"), "seed {seed}: {}", epoch(&outcome));
            assert!(outcome.report.messages_by_kind["Where"] >= 2 * 3, "two rounds of questions");
        }
    }
}

/// TV-T5: p6 joins and p2 leaves at any moments; the token is never doubled, and everyone is served.
#[test]
fn book_tv_t5_join_and_leave_while_the_token_moves() {
    for idle in ["circulate", "park"] {
        for seed in 1..=60u64 {
            let mut plan = plan(5, LOADS[seed as usize % 3], seed);
            plan.faults.joins.push(format!("6@{}", 1 + seed % 40).parse().unwrap());
            plan.faults.leaves.push(format!("2@{}", 1 + seed * 7 % 50).parse().unwrap());
            let outcome = well(&setup("token-ring", 5, &[("idle", idle)]), &plan);
            let entries =
                &outcome.report.part::<conclave_algorithms::mutex::LockReport>().unwrap().entries_by_process;
            assert_eq!(entries.len(), 6);
            assert!(entries.iter().enumerate().all(|(place, count)| place == 1 || *count == plan.entries));
        }
    }
}

/// TV-T6: a token that is only used for a long time, or moves, is not taken for lost: there is never a second epoch.
#[test]
fn book_tv_t6_two_rounds_find_no_loss_where_there_is_none() {
    for algorithm in ["token-ring", "suzuki-kasami", "raymond"] {
        for n in [2, 3, 5] {
            for seed in 1..=20 {
                let mut plan = plan(n, LOADS[2], seed);
                plan.hold = Some(Span::Constant(400_000));
                let outcome = well(&setup(algorithm, n, &[("recovery", "on")]), &plan);
                assert_eq!(epoch(&outcome), "", "{algorithm} -n {n} --seed {seed}");
                let asked = outcome.report.messages_by_kind.get("Where").copied().unwrap_or(0);
                assert!(n < 3 || asked > 0, "{algorithm} -n {n} --seed {seed}: nobody has looked for it");
            }
        }
    }
}

/// F7: on the ring a successor, the holder, or the leader dies, or the token is lost; with and without acknowledgements.
#[test]
fn book_f7_failures_of_a_ring() {
    for handoff in ["plain", "acked"] {
        let setup = setup("token-ring", 4, &[("handoff", handoff), ("recovery", "on")]);
        for seed in 1..=40u64 {
            let base = plan(4, LOADS[seed as usize % 3], seed);
            for phase in ["idle", "waiting", "holding"] {
                let mut plan = base.clone();
                crash_when(&setup, &mut plan, phase);
                plan.faults.detector = "perfect".parse().unwrap();
                well(&setup, &plan);
            }
            let mut plan = base.clone();
            plan.faults.crashes.push(format!("4@{seed}").parse().unwrap());
            plan.faults.detector = "late:uniform:5..40".parse().unwrap();
            well(&setup, &plan);
            let mut plan = base;
            plan.faults.lost_tokens.push(seed * 1_000);
            well(&setup, &plan);
        }
    }
}

/// F8: somebody waits for the token and dies before it comes; F4: so does whoever has it.
#[test]
fn book_f8_the_token_is_due_to_the_dead() {
    for algorithm in ["ricart-agrawala-token", "suzuki-kasami", "singhal", "raymond"] {
        let setup = setup(algorithm, 4, &[("recovery", "on")]);
        for seed in 1..=60u64 {
            for phase in ["waiting", "holding"] {
                let mut plan = plan(4, LOADS[2], seed);
                crash_when(&setup, &mut plan, phase);
                plan.faults.detector = "perfect".parse().unwrap();
                well(&setup, &plan);
            }
        }
    }
}

/// A token that is lost in flight is found missing and replaced, whatever the algorithm.
#[test]
fn a_lost_token_is_replaced() {
    for algorithm in ["token-ring", "ricart-agrawala-token", "suzuki-kasami", "singhal", "raymond"] {
        for seed in 1..=60u64 {
            let mut plan = plan(5, LOADS[2], seed);
            plan.faults.lost_tokens.push(seed * 700);
            let outcome = well(&setup(algorithm, 5, &[]), &plan);
            assert_ne!(epoch(&outcome), "", "{algorithm} --seed {seed}: there is a new one");
            let outage = &outcome.report.part::<conclave_algorithms::mutex::LockReport>().unwrap().outages;
            assert_eq!(outage.len(), 1, "{algorithm} --seed {seed}");
        }
    }
}
