//! Every mutant is caught, and its failure becomes a short script that fails in the same way.

use crate::common::{LOADS, plan, run, setup};
use conclave_algorithms::mutex::Load;
use conclave_algorithms::{Mutant, Trigger, mutex};
use conclave_sim::faults::Faults;
use conclave_sim::{Plan, play, shrink};
use conclave_trace::{Script, Setup};

/// The first run of a thousand that breaks the property.
fn first_failure(setup: &Setup, property: &str, trigger: Trigger) -> Option<Plan> {
    (1..=1_000).find_map(|seed| {
        let load = if seed % 2 == 0 { Load::Open } else { Load::Saturated };
        let plan = plan(setup.nodes.len() as u32, load, seed).provoking(trigger);
        let violation = run(setup, &plan).violation?;
        (violation.property == property).then_some(plan)
    })
}

/// Shrinks a failure and plays the script: it must break the same property and be short.
fn check_script(setup: &Setup, plan: &Plan, property: &str) -> Script {
    let script = shrink(setup, plan, property).expect("the failure can be told as a script");
    let text = script.to_string();
    let parsed = Script::parse(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    let played = play(&parsed).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    assert_eq!(played.violation.map(|v| v.property), Some(parse_property(property)), "{text}");
    assert_eq!(played.difference, None, "{text}");
    script
}

fn parse_property(name: &str) -> &'static str {
    [
        "ME1", "ME2", "ME3", "ME4", "ME5-FCFS", "ME5-TS", "ME5-HB", "ME6", "ME7", "FENCE", "TOK", "RES",
        "GRANT", "LOST",
    ]
    .into_iter()
    .find(|code| *code == name)
    .expect("a mutant names a property")
}

#[test]
fn every_mutant_is_caught_and_told_as_a_script() {
    for about in mutex::all() {
        assert!(about.mutants.len() >= 2, "{} has too few mutants", about.name);
        for Mutant { name, breaks, nodes, trigger, .. } in about.mutants {
            // A run comes to an end, and who is not let in by then might have been later: that is for a checker.
            if *trigger == Trigger::Forever {
                continue;
            }
            let mut setup = setup(about.name, *nodes, &[]);
            setup.mutant = Some((*name).into());
            let plan = first_failure(&setup, breaks, *trigger)
                .unwrap_or_else(|| panic!("{} {name} was not caught in 1,000 seeds", about.name));
            // That something never happens is not told by a script that ends.
            if *breaks == "ME3" {
                continue;
            }
            let script = check_script(&setup, &plan, breaks);
            let commands: usize = script.blocks.iter().map(|block| block.commands.len()).sum();
            // The longest, Maekawa's deadlock among seven, needs a few dozen deliveries; a recovery some more.
            assert!(
                commands <= if *trigger == Trigger::Schedule { 60 } else { 120 },
                "{} {name}: {commands} commands\n{script}",
                about.name
            );
        }
    }
}

/// Lamport's algorithm needs FIFO channels: without them it is caught (TV-L2 by chance).
#[test]
fn lamport_without_fifo_is_caught() {
    let setup = setup("lamport", 2, &[]);
    let mut caught = None;
    for seed in 1..=1_000 {
        let mut plan = plan(2, Load::Saturated, seed);
        plan.channels = Some(conclave_algorithms::Channels::Any);
        if run(&setup, &plan).violation.is_some_and(|v| v.property == "ME1") {
            caught = Some(plan);
            break;
        }
    }
    let plan = caught.expect("1,000 seeds are enough");
    let mut any = setup.clone();
    any.channels = Some("any".into());
    check_script(&any, &plan, "ME1");
}

/// The literal majority rule is unsafe from four processes on (TV-D1 by chance), and safe below.
#[test]
fn literal_majority_is_caught_from_four_on() {
    for n in [4, 5, 6, 7] {
        let setup = setup("majority", n, &[("mode", "literal")]);
        let plan = first_failure(&setup, "ME1", Trigger::Schedule)
            .unwrap_or_else(|| panic!("literal majority of {n} was not caught"));
        check_script(&setup, &plan, "ME1");
    }
    for n in [2, 3] {
        let setup = setup("majority", n, &[("mode", "literal")]);
        for seed in 1..=300 {
            let plan = plan(n, LOADS[seed as usize % 3], seed);
            assert_eq!(run(&setup, &plan).violation, None, "n = {n}, seed {seed}");
        }
    }
}

/// Without the Sanders rule a few per cent of the runs among seven end in a deadlock; with it none (TV-M3).
#[test]
fn book_tv_m3_maekawa_without_sanders_deadlocks() {
    let mut broken = setup("maekawa", 7, &[]);
    broken.mutant = Some("no-sanders".into());
    let sound = setup("maekawa", 7, &[]);
    let mut deadlocks = 0;
    for seed in 1..=3_000 {
        let mut plan = plan(7, Load::Saturated, seed);
        plan.entries = 1;
        deadlocks += u32::from(run(&broken, &plan).violation.is_some_and(|v| v.property == "ME2"));
        assert_eq!(run(&sound, &plan).violation, None, "seed {seed}");
    }
    assert!(deadlocks >= 10, "{deadlocks} deadlocks in 3,000 runs");
}

/// A failing run with faults in it shrinks too, and faults that did not matter are left out.
#[test]
fn faults_that_did_not_matter_are_shrunk_away() {
    let mut setup = setup("ricart-agrawala", 5, &[]);
    setup.mutant = Some("reply-while-holding".into());
    let mut plan = plan(5, Load::Saturated, 1);
    plan.faults = Faults { duplicate: "0.3".parse().unwrap(), ..Faults::default() };
    let plan = (1..=100)
        .map(|seed| Plan { seed, ..plan.clone() })
        .find(|plan| run(&setup, plan).violation.is_some_and(|v| v.property == "ME1"))
        .expect("the mutant fails with duplicates too");
    let script = check_script(&setup, &plan, "ME1");
    let text = script.to_string();
    assert!(!text.contains("duplicate"), "{text}");
    assert!(text.contains("-n 2"), "two processes are enough\n{text}");
}
