//! Algorithms whose messages never come to rest, and tokens that get lost.

#[path = "common/relay.rs"]
mod relay;

use crate::common::{LOADS, plan, setup};
use std::collections::BTreeMap;

use conclave_algorithms::family::Wanted;
use conclave_algorithms::mutex::{self, Load, Outage};
use conclave_core::{NodeId, Timing};
use conclave_sim::scripted::ScriptedRun;
use conclave_sim::span::Span;
use conclave_sim::{Outcome, Plan, expected_messages, simulate, simulate_setup};
use conclave_trace::{Command, Trace, What};
use relay::Relay;

fn run(plan: &Plan) -> Outcome {
    alone(plan, "nobody", true)
}

/// The relay as it is, without any recovery around it.
fn alone(plan: &Plan, starves: &str, record: bool) -> Outcome {
    let setup = setup("relay", plan.members.len() as u32, &[("recovery", "off"), ("starves", starves)]);
    simulate::<mutex::Of<Relay>>(&setup, plan, record).expect("it can be set up so")
}

fn trace(outcome: &Outcome) -> &Trace {
    outcome.trace.as_ref().expect("it was recorded")
}

/// The run is over with the last exit: the token goes on once more, and is not followed.
#[test]
fn a_run_without_rest_is_over_with_its_last_exit() {
    for load in LOADS {
        for seed in 1..=50 {
            let plan = Plan { entries: 3, ..plan(5, load, seed) };
            let outcome = run(&plan);
            let report = &outcome.report;
            assert!(report.all_held() && report.ending == "done", "{load:?} {seed}: {:?}", outcome.violation);
            assert_eq!(report.part::<mutex::LockReport>().unwrap().entries, 15);
            let records = &trace(&outcome).records;
            let [.., exit, pass] = &records[..] else { panic!("there are records") };
            assert!(matches!(&exit.what, What::Request { request, .. } if request == "release"), "{exit:?}");
            assert!(matches!(&pass.what, What::Send(_)) && pass.cause == Some(exit.id), "{pass:?}");
        }
    }
}

/// So it is where something fails on the way: nobody follows a token that goes round for nothing.
#[test]
fn a_run_with_faults_is_over_with_its_last_exit() {
    type Fault = (&'static str, fn(&mut Plan));
    let faults: [Fault; 3] = [
        ("crash", |plan| plan.faults.crashes.push("3@17".parse().unwrap())),
        ("pause", |plan| plan.faults.pauses.push("3@17..30".parse().unwrap())),
        ("lost token", |plan| plan.faults.lost_tokens.push(12_000)),
    ];
    for (name, bring_about) in faults {
        let delay = Span::Constant(5_000);
        let mut plan = Plan { entries: 1, delay, ..plan(5, Load::Saturated, 1) };
        plan.faults.detector = "perfect".parse().unwrap();
        bring_about(&mut plan);
        let outcome = simulate_setup(&setup("token-ring", 5, &[]), &plan, true).unwrap();
        assert!(outcome.report.all_held() && outcome.report.ending == "done", "{name}");
        let records = &trace(&outcome).records;
        let is_exit = |what: &What| matches!(what, What::Request { request, .. } if request == "release");
        let exit = records.iter().rfind(|record| is_exit(&record.what)).expect("somebody was inside");
        assert_eq!(records.last().map(|record| record.time), Some(exit.time), "{name}");
        assert!(outcome.report.virtual_time * 1e3 <= exit.time as f64 + 1.0, "{name}");
    }
}

/// TV-T1, as the report tells it: three sends until p4 is in, and one to the next where everyone waits.
#[test]
fn the_sends_until_an_entry_are_counted() {
    let report = run(&Plan { entries: 4, ..plan(6, Load::Saturated, 1) }).report;
    let sends = report.part::<mutex::LockReport>().unwrap().token_sends.expect("there is a token");
    // Whoever asks again has just passed the token on: it comes back after the rest of a lap.
    assert_eq!((sends.count, sends.max), (24, 5));
    let light = Plan { entries: 20, ..plan(6, Load::Light, 1) };
    let report = simulate_setup(&setup("token-ring", 6, &[]), &light, false).unwrap().report;
    let sends = report.part::<mutex::LockReport>().unwrap().token_sends.expect("there is a token");
    assert!(sends.max <= 6 && sends.count == 120, "{sends:?}");
    assert_eq!(report.messages_by_kind.keys().copied().collect::<Vec<_>>(), ["Token"]);
}

/// Everyone always wants: the token goes on with every exit, and once at the start.
#[test]
fn a_saturated_ring_costs_one_message_per_entry() {
    let outcome = run(&Plan { entries: 4, ..plan(6, Load::Saturated, 1) });
    assert_eq!(outcome.report.messages, 4 * 6 + 1);
}

/// Several locks: a token for each.
#[test]
fn a_run_with_several_tokens_is_over_with_its_last_exit() {
    let outcome = run(&Plan { locks: 3, entries: 2, ..plan(4, Load::Saturated, 1) });
    assert!(outcome.report.all_held() && outcome.report.ending == "done", "{:?}", outcome.violation);
    assert_eq!(outcome.report.part::<mutex::LockReport>().unwrap().entries, 24);
}

/// A light load finds the token anywhere on the ring, and nobody competes.
#[test]
fn a_light_load_finds_the_token_anywhere() {
    let plan = Plan { entries: 60, delay: Span::Constant(1_000), ..plan(6, Load::Light, 1) };
    let outcome = run(&plan);
    let locks = outcome.report.part::<mutex::LockReport>().unwrap();
    // Between no hop and five, all about equally often.
    let mean = locks.client_delay.mean.unwrap();
    assert!((2.0..4.0).contains(&mean) && locks.client_delay.max > 4.5, "{:?}", locks.client_delay);
    let (mut waiting, mut most) = (0, 0);
    for record in &trace(&outcome).records {
        match &record.what {
            What::Request { request, .. } if request == "acquire" => waiting += 1,
            What::Request { request, .. } if request == "release" => waiting -= 1,
            _ => {}
        }
        most = most.max(waiting);
    }
    assert_eq!(most, 1);
    // A think time that is asked for is kept.
    let plan = Plan { think: Some(Span::Constant(0)), ..plan };
    assert_eq!(run(&plan).report.ending, "done");
}

/// Who waits while messages travel without end starves, and that is found out.
#[test]
fn starvation_shows_although_messages_travel() {
    let plan = plan(3, Load::Saturated, 1);
    let outcome = alone(&plan, "2", false);
    assert_eq!(outcome.report.ending, "out of patience");
    assert_eq!(outcome.violation.map(|violation| violation.property), Some("ME3"));
    assert_eq!(outcome.report.part::<mutex::LockReport>().unwrap().entries_by_process, [2, 0, 2]);
}

fn stage() -> ScriptedRun<()> {
    let (nodes, settings) = ([1, 2, 3].map(NodeId), BTreeMap::new());
    let prepared = mutex::prepared::<Relay>(&Wanted::new(&nodes, &settings)).expect("it can be set up so");
    ScriptedRun::new(&prepared.into(), Timing::default(), ())
}

/// `settle` says that it never will, instead of delivering a million messages.
#[test]
fn what_never_settles_says_so() {
    let mut stage = stage();
    let command = |line: &str| line.parse::<Command>().expect("a command");
    stage.apply(&command("deliver 1 => 2")).expect("the token is in flight");
    let why = stage.apply(&command("settle")).expect_err("it never settles");
    assert!(why.starts_with("this algorithm never settles"), "{why}");
    assert!(stage.world().steps() < 11_000);
    // Where the token rests in the critical section, nothing moves.
    stage.apply(&command("request 3")).expect("it may ask");
    stage.apply(&command("settle")).expect("the token comes to rest inside");
    assert_eq!(stage.world().state(2).phase_name(), "holding");
}

trait PhaseName {
    fn phase_name(&self) -> &'static str;
}

impl<P: conclave_core::Protocol> PhaseName for P {
    fn phase_name(&self) -> &'static str {
        self.phase().name
    }
}

fn losing(times: &[u64], plan: Plan) -> Plan {
    let mut plan = plan;
    plan.faults.lost_tokens = times.to_vec();
    plan
}

fn drops(outcome: &Outcome) -> Vec<u64> {
    let records = trace(outcome).records.iter();
    records.filter(|record| matches!(record.what, What::Drop(_))).map(|record| record.time).collect()
}

/// The token that travels is lost at that moment; nobody gets in again, and the report says so.
#[test]
fn a_token_on_its_way_is_lost_at_once() {
    // One hop takes 10 ms, and the first entry begins with the first hop.
    let base = Plan { delay: Span::Constant(10_000), ..plan(3, Load::Saturated, 1) };
    let outcome = run(&losing(&[4_000], base));
    assert_eq!(drops(&outcome), [4_000]);
    assert_eq!(outcome.report.dropped, 1);
    assert_eq!(outcome.report.ending, "stuck");
    assert_eq!(outcome.violation.as_ref().map(|violation| violation.property), Some("ME2"));
    let outages = &outcome.report.part::<mutex::LockReport>().unwrap().outages;
    assert_eq!(outages.len(), 1);
    assert_eq!((outages[0].fault.as_str(), outages[0].at), ("token lost p1 => p2", 4.0));
    assert_eq!(outages[0].outage, Outage::Never);
}

/// A token that is held is lost when it is passed on.
#[test]
fn a_token_that_is_held_is_lost_on_its_next_way() {
    let base = Plan {
        delay: Span::Constant(10_000),
        hold: Some(Span::Constant(7_000)),
        ..plan(3, Load::Saturated, 1)
    };
    let outcome = run(&losing(&[12_000], base.clone()));
    assert_eq!(drops(&outcome), [17_000]);
    assert_eq!(outcome.report.part::<mutex::LockReport>().unwrap().entries, 1);
    // There is no second token to be lost.
    assert_eq!(drops(&run(&losing(&[12_000, 13_000], base))), [17_000]);
}

/// The run with a loss in it can be repeated from its trace, and the loss is in its digest.
#[test]
fn a_loss_is_part_of_the_run() {
    let outcome = run(&losing(&[4_000], plan(4, Load::Open, 3)));
    let again = run(&losing(&[4_000], plan(4, Load::Open, 3)));
    let other = run(&plan(4, Load::Open, 3));
    assert_eq!(outcome.report.trace_digest, again.report.trace_digest);
    assert_ne!(outcome.report.trace_digest, other.report.trace_digest);
}

/// What moves no token cannot lose one.
#[test]
fn only_a_token_can_be_lost() {
    let plan = losing(&[4_000], plan(3, Load::Saturated, 1));
    let setup = setup("lamport", 3, &[]);
    let sentence = "lamport moves no token, so none can be lost";
    assert_eq!(simulate_setup(&setup, &plan, false).unwrap_err().to_string(), sentence);
    assert_eq!(expected_messages(&setup, &plan).unwrap_err().to_string(), sentence);
}
