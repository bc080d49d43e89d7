//! An invariant that does not hold is a violation like any other: reported, and told as a script.

#[path = "common/careless.rs"]
mod careless;

use std::collections::BTreeMap;

use careless::Careless;
use conclave_algorithms::Violation;
use conclave_algorithms::family::Wanted;
use conclave_algorithms::mutex::{Of, prepared};
use conclave_core::{Members, NodeId, Timing};
use conclave_sim::scripted::ScriptedRun;
use conclave_sim::{Plan, simulate};
use conclave_trace::{Setup, What, commands_of};

/// The second entry of a process leaves it in a state that it forbids itself.
const WHY: &str = "p1: nobody enters more than once";

fn broken(violation: Option<&Violation>) -> Option<(&'static str, &str)> {
    violation.map(|violation| (violation.property, violation.detail.as_str()))
}

#[test]
fn the_simulator_reports_it_and_its_script_shows_the_same() {
    let setup = Setup::numbered("careless", 1);
    let plan = Plan { entries: 2, paranoid: true, ..Plan::new(Members::numbered(1)) };
    let outcome = simulate::<Of<Careless>>(&setup, &plan, true).expect("it can be set up");
    assert_eq!(broken(outcome.violation.as_ref()), Some(("INV", WHY)));
    let trace = outcome.trace.expect("it was recorded");
    let last = trace.records.last().map(|record| &record.what);
    assert!(matches!(last, Some(What::Violation { property, .. }) if property == "INV"), "{last:?}");

    let (nodes, settings) = ([NodeId(1)], BTreeMap::new());
    let prepared = prepared::<Careless>(&Wanted::new(&nodes, &settings)).expect("it can be set up");
    let mut stage = ScriptedRun::new(&prepared.into(), Timing::default(), ());
    let commands = commands_of(&trace);
    let (last, before) = commands.split_last().expect("something happened");
    for command in before {
        stage.apply(command).expect("it happened");
        assert_eq!(stage.judge().violation(), None, "before {last}");
    }
    stage.apply(last).expect("it happened");
    assert_eq!(broken(stage.judge().violation()), Some(("INV", WHY)));
}

/// Whoever enters once only is left alone.
#[test]
fn an_invariant_that_holds_is_no_violation() {
    let plan = Plan { paranoid: true, entries: 1, ..Plan::new(Members::numbered(1)) };
    let outcome = simulate::<Of<Careless>>(&Setup::numbered("careless", 1), &plan, false);
    assert_eq!(outcome.expect("it can be set up").violation, None);
}
