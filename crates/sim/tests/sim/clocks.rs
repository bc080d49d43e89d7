//! Every process has a clock of its own, which may be wrong; and messages take time to be handled.

#[path = "common/teller.rs"]
mod teller;

use conclave_core::{Members, NodeId};
use conclave_sim::span::Span;
use conclave_sim::{Plan, play_algorithm, simulate, simulate_setup};
use conclave_trace::{Script, Setup, What, commands_of};
use teller::Of;

const DELAY: u64 = 4_000;

/// What two processes say, and when: the first is asked, its timer expires, the second is told by the first.
fn said(plan: &Plan) -> Vec<(u64, u32, String)> {
    let plan = Plan { delay: Span::Constant(DELAY), ..plan.clone() };
    let outcome = simulate::<Of>(&Setup::numbered("teller", 2), &plan, true).expect("it can be set up");
    let trace = outcome.trace.expect("it was recorded");
    let said = trace.records.iter().filter_map(|record| match &record.what {
        What::Event { event, .. } => Some((record.time, record.process?.0, event.clone())),
        _ => None,
    });
    said.collect()
}

fn with_clocks(clocks: &[&str]) -> Plan {
    let clocks = clocks.iter().map(|text| text.parse().expect("it sets a clock")).collect();
    Plan { clocks, ..Plan::new(Members::numbered(2)) }
}

#[test]
fn a_clock_shows_the_time_of_the_run_unless_it_is_set() {
    let truth = [(0, 1, "0us".into()), (DELAY, 2, "4000us".into()), (10_000, 1, "10000us".into())];
    assert_eq!(said(&with_clocks(&[])), truth);
    let wrong = [(0, 1, "0us".into()), (DELAY, 2, "24000us".into()), (10_000, 1, "10000us".into())];
    assert_eq!(said(&with_clocks(&["2=+20ms"])), wrong);
}

/// One per cent too fast: a timer of 10 ms runs out after 9.9 ms of true time, when the clock shows 10 ms.
#[test]
fn timers_go_by_the_clock_of_their_process() {
    assert_eq!(said(&with_clocks(&["1=10000ppm"]))[2], (9_900, 1, "9999us".into()));
    assert_eq!(said(&with_clocks(&["1=-500000ppm"]))[2], (20_000, 1, "10000us".into()));
}

#[test]
fn a_clock_can_be_set_later() {
    let said = said(&with_clocks(&["1@5=-3ms"]));
    assert_eq!(said[2], (10_000, 1, "7000us".into()));
}

#[test]
fn a_script_sets_clocks_and_lets_time_pass() {
    let text = "run teller -n 2\nclock 2 +20ms,500000ppm\nnow 1\nwait 2\ndeliver 1 => 2\nclock 1 -1ms\ntimer 1 ()\n---\n";
    let script = Script::parse(text).expect("it is a script");
    let played = play_algorithm::<Of>(&script).expect("it can be played");
    let events = played.trace.records.iter().filter_map(|record| match &record.what {
        What::Event { event, .. } => Some(event.as_str()),
        _ => None,
    });
    assert_eq!(events.collect::<Vec<_>>(), ["0us", "23000us", "1000us"]);
}

/// What was set in a recorded run is set in its script.
#[test]
fn a_recorded_run_sets_its_clocks_again() {
    let outcome = simulate::<Of>(&Setup::numbered("teller", 2), &with_clocks(&["2=-20ms"]), true).unwrap();
    assert_eq!(outcome.violation.as_ref().map(|violation| violation.property), Some("T1"));
    let commands: Vec<_> = commands_of(&outcome.trace.unwrap()).iter().map(ToString::to_string).collect();
    assert_eq!(commands[0], "clock 2 -20ms");
}

/// T = 2 · T_trans + T_process: the bully that calls waits that long, and gets its answer at the very last moment.
#[test]
fn an_answer_leaves_when_the_message_has_been_handled() {
    let t_process = Span::Constant(7_000);
    let bullies = Plan { delay: Span::Constant(DELAY), t_process, ..Plan::new(Members::numbered(2)) };
    let outcome = simulate_setup(&Setup::numbered("bully", 2), &bullies, true).unwrap();
    assert!(outcome.report.all_held(), "{:?}", outcome.report);
    let trace = outcome.trace.unwrap();
    let at = |kind: &str| {
        trace.records.iter().find_map(|record| match &record.what {
            What::Deliver(message) if message.message == kind && message.to == NodeId(1) => Some(record.time),
            _ => None,
        })
    };
    assert_eq!(at("Answer"), Some(2 * DELAY + 7_000));
}

/// How long messages are handled is drawn from a stream of its own.
#[test]
fn handling_leaves_delays_as_they_are() {
    let setup = Setup::numbered("ricart-agrawala", 3);
    let plan = Plan { entries: 1, ..Plan::new(Members::numbered(3)) };
    let handled = Plan { t_process: Span::Uniform(0, 3_000), ..plan.clone() };
    let first = |plan: &Plan| {
        let trace = simulate_setup(&setup, plan, true).unwrap().trace.unwrap();
        let is_reply = |record: &&conclave_trace::Record| matches!(&record.what, What::Deliver(message) if message.message == "Reply");
        trace.records.iter().find(is_reply).map(|record| record.time).unwrap()
    };
    let (without, with) = (first(&plan), first(&handled));
    assert!(without <= with && with <= without + 3_000, "{without} and {with}");
    let report = simulate_setup(&setup, &handled, false).unwrap().report;
    assert!(report.all_held() && report.formula.agrees == Some(true), "{report:?}");
}
