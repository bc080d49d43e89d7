//! Processes that join, leave, and are taken for dead.

#[path = "common/doors.rs"]
mod doors;

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{LOADS, plan, setup};
use conclave_algorithms::erased::Erased;
use conclave_algorithms::family::Wanted;
use conclave_algorithms::mutex::{self, Load, Outage};
use conclave_core::{NodeId, Timing};
use conclave_sim::faults::{Detector, Faults};
use conclave_sim::recorder::{Recorder, Words};
use conclave_sim::scripted::ScriptedRun;
use conclave_sim::span::Span;
use conclave_sim::{Outcome, Plan, simulate, simulate_setup};
use conclave_trace::{Command, Record, Setup, Trace, What, commands_of, newcomers};
use doors::Doors;

fn run(plan: &Plan) -> Outcome {
    alone(plan, "no", true)
}

/// The porter as it is, without any recovery around it.
fn alone(plan: &Plan, stubborn: &str, record: bool) -> Outcome {
    let setup = setup("doors", plan.members.len() as u32, &[("recovery", "off"), ("stubborn", stubborn)]);
    simulate::<mutex::Of<Doors>>(&setup, plan, record).expect("it can be set up so")
}

fn run_well(plan: &Plan) -> Outcome {
    let outcome = run(plan);
    let report = &outcome.report;
    assert!(
        report.all_held() && report.ending == "done",
        "{:?} seed {}: {:?}, {}",
        plan.load,
        plan.seed,
        outcome.violation,
        report.ending
    );
    outcome
}

fn trace(outcome: &Outcome) -> &Trace {
    outcome.trace.as_ref().expect("it was recorded")
}

fn of(trace: &Trace, id: u32) -> impl Iterator<Item = &Record> {
    trace.records.iter().filter(move |record| record.process == Some(NodeId(id)) && record.what.is_lived())
}

fn asks(record: &Record, word: &str) -> bool {
    matches!(&record.what, What::Request { request, .. } if request == word)
}

fn is_told(record: &Record, word: &str) -> bool {
    matches!(&record.what, What::Event { event, .. } if event == word)
}

fn changes(joins: &[&str], leaves: &[&str]) -> Faults {
    let read = |list: &[&str]| list.iter().map(|text| text.parse().expect("a change")).collect();
    Faults { joins: read(joins), leaves: read(leaves), ..Faults::default() }
}

/// A newcomer is not there before its time, and then it is one of all.
#[test]
fn who_joins_is_served_like_everyone() {
    for load in LOADS {
        for seed in 1..=60 {
            let plan = Plan { faults: changes(&["7@25", "9@0"], &[]), ..plan(3, load, seed) };
            let outcome = run_well(&plan);
            let locks = outcome.report.part::<mutex::LockReport>().unwrap();
            assert_eq!(locks.entries_by_process, [2; 5]);
            let trace = trace(&outcome);
            assert_eq!(trace.header.nodes, [1, 2, 3, 7, 9].map(NodeId));
            assert_eq!(trace.header.newcomers, [7, 9].map(NodeId));
            let first: Vec<_> =
                of(trace, 7).take(2).map(|record| (record.time, record.what.clone())).collect();
            assert_eq!(first, [(25_000, What::Join), (25_000, What::Start)]);
            // The others are up before anybody joins them.
            let starts = trace.records.iter().take_while(|record| record.what == What::Start).count();
            assert_eq!(starts, 3);
            assert_eq!(outcome.report.formula.agrees, None);
            let texts: Vec<_> = locks.outages.iter().map(|outage| outage.fault.as_str()).collect();
            assert_eq!(texts, ["join p9", "join p7"]);
        }
    }
}

/// Under an open load a newcomer's requests arrive from when it has joined, not all at once.
#[test]
fn a_newcomer_does_not_catch_up() {
    let plan = Plan {
        faults: changes(&["4@5s"], &[]),
        think: Some(Span::Constant(300_000)),
        entries: 3,
        ..plan(3, Load::Open, 1)
    };
    let outcome = run_well(&plan);
    let times: Vec<_> =
        of(trace(&outcome), 4).filter(|record| asks(record, "acquire")).map(|record| record.time).collect();
    assert_eq!(times, [5_300_000, 5_600_000, 5_900_000]);
}

/// Who leaves finishes the entry that it waits for or is in, asks for no other, and is gone when it is told so.
#[test]
fn who_leaves_is_gone() {
    let mut found = BTreeSet::new();
    for load in LOADS {
        for seed in 1..=150 {
            let faults = Faults { crashes: vec!["3@2s".parse().unwrap()], ..changes(&[], &["3@40"]) };
            let plan = Plan { entries: 4, faults, ..plan(4, load, seed) };
            let outcome = run_well(&plan);
            let trace = trace(&outcome);
            let before = of(trace, 3).take_while(|record| record.time < 40_000).last().expect("it lives");
            found.insert(before.phase.clone());
            let leave = of(trace, 3).find(|record| asks(record, "leave")).expect("it asks to leave");
            assert!(leave.time >= 40_000 && leave.phase == "idle");
            if before.phase == "idle" {
                assert_eq!(leave.time, 40_000);
            }
            assert!(!of(trace, 3).any(|record| record.time > 40_000 && asks(record, "acquire")));
            let last = of(trace, 3).last().expect("it lives");
            assert!(is_told(last, "left"), "nothing happens to it afterwards, not even a crash: {last:?}");
            let entries = &outcome.report.part::<mutex::LockReport>().unwrap().entries_by_process;
            assert!(entries[2] < 4 && [entries[0], entries[1], entries[3]] == [4; 3], "{entries:?}");
        }
    }
    assert_eq!(found, ["holding", "idle", "waiting"].map(String::from).into());
}

/// Who is down when it should leave does so when it is back; who never comes back keeps nobody waiting.
#[test]
fn who_is_down_leaves_later() {
    for (crash, leaves) in [("3@20..90", true), ("3@20", false), ("3@41..90", true)] {
        let faults = Faults {
            crashes: vec![crash.parse().unwrap()],
            detector: "perfect".parse().unwrap(),
            ..changes(&[], &["3@40"])
        };
        let outcome = run_well(&Plan { entries: 9, faults, ..plan(4, Load::Saturated, 5) });
        let trace = trace(&outcome);
        assert_eq!(of(trace, 3).any(|record| is_told(record, "left")), leaves, "{crash}");
        assert!(!of(trace, 3).any(|record| record.time > 40_000 && asks(record, "acquire")), "{crash}");
    }
}

/// Who is never let go waits, and the report says so.
#[test]
fn who_is_not_let_go_is_found_out() {
    let plan = Plan { faults: changes(&[], &["3@40"]), ..plan(4, Load::Saturated, 1) };
    let outcome = alone(&plan, "yes", false);
    assert_eq!(outcome.report.ending, "stuck");
    let violation = outcome.violation.expect("it is noticed");
    assert_eq!(violation.property, "ME2");
    assert_eq!(violation.detail, "nothing moves any more, and p3 still waits to leave");
}

/// The detector speaks of a newcomer like of all others, tells it who is down, and of who has left it says nothing.
#[test]
fn the_detector_knows_who_is_there() {
    let faults = Faults {
        crashes: vec!["2@10".parse().unwrap(), "6@120".parse().unwrap()],
        detector: "late:5".parse().unwrap(),
        ..changes(&["6@60"], &["3@20"])
    };
    let outcome = run_well(&Plan { entries: 8, faults, ..plan(4, Load::Saturated, 2) });
    let trace = trace(&outcome);
    let suspicions: Vec<_> = trace
        .records
        .iter()
        .filter_map(|record| match record.what {
            What::Suspect { peer, .. } => Some((record.time, record.process.expect("somebody").0, peer.0)),
            _ => None,
        })
        .collect();
    let of = |peer: u32| suspicions.iter().filter(move |(_, _, of)| *of == peer);
    assert_eq!(
        of(2).map(|(time, at, _)| (*time, *at)).collect::<Vec<_>>(),
        [(15_000, 1), (15_000, 3), (15_000, 4), (65_000, 6)]
    );
    assert_eq!(of(6).map(|(time, at, _)| (*time, *at)).collect::<Vec<_>>(), [(125_000, 1), (125_000, 4)]);
    assert_eq!(of(3).count(), 0);
}

fn misled(seed: u64, load: Load) -> Plan {
    let faults = Faults { detector: "wrong:1..15".parse().unwrap(), ..Faults::default() };
    let hold = Some(Span::Constant(30_000));
    Plan { entries: 6, hold, faults, ..plan(4, load, seed) }
}

/// Who was taken for dead and lost the lock neither releases it nor the next that it gets.
#[test]
fn what_was_lost_is_not_released() {
    let mut lost = 0;
    for load in LOADS {
        for seed in 1..=60 {
            let outcome = run_well(&misled(seed, load));
            let trace = trace(&outcome);
            for process in 1..=4 {
                let mut inside = None;
                for record in of(trace, process) {
                    if is_told(record, "granted") {
                        inside = Some(record.time);
                    } else if is_told(record, "lost") {
                        lost += 1;
                        inside = None;
                    } else if asks(record, "release") {
                        assert_eq!(inside.take(), Some(record.time - 30_000), "seed {seed}: {record:?}");
                    }
                    assert!(!is_told(record, "refused release"), "seed {seed}");
                }
            }
        }
    }
    assert!(lost > 100, "{lost}");
}

/// Once the detector was wrong, two may be inside: that is not promised, and told so. The fence protects the resource.
#[test]
fn a_wrong_detector_breaks_no_promise() {
    let (mut both_inside, mut refused) = (0, 0);
    for seed in 1..=60 {
        let report = run_well(&misled(seed, Load::Saturated)).report;
        let find = |list: &[conclave_sim::Property], name: &str| {
            list.iter().find(|property| property.name == name).map(|property| property.holds)
        };
        let me1 = find(&report.not_promised, "ME1").expect("it is not promised any more");
        both_inside += u64::from(me1 == Some(false));
        refused += report.part::<mutex::LockReport>().unwrap().refused_by_fence;
        assert_eq!(find(&report.properties, "RES"), Some(Some(true)));
        assert_eq!(find(&report.properties, "FENCE"), Some(Some(true)));
    }
    assert!(both_inside > 10 && refused > 10, "{both_inside} {refused}");
}

/// Every wrong suspicion is one process's own and comes to an end, at the latest when the faults are over.
#[test]
fn every_wrong_suspicion_ends() {
    for (detector, least) in [("wrong:1..15", 100), ("wrong:40s", 1)] {
        let mut count = 0;
        for seed in 1..=20 {
            // One that lasts for minutes, in a run that nobody can finish before its end.
            let mut plan = misled(seed, Load::Saturated);
            plan.faults.detector = detector.parse().unwrap();
            plan.patience = Some(90_000_000);
            if detector == "wrong:40s" {
                plan.think = Some(Span::Constant(15_000_000));
            }
            let outcome = run_well(&plan);
            let mut suspected: BTreeMap<(u32, u32), u64> = BTreeMap::new();
            for record in &trace(&outcome).records {
                let at = record.process.map_or(0, |process| process.0);
                match record.what {
                    What::Suspect { peer, .. } => {
                        assert_eq!(suspected.insert((at, peer.0), record.time), None);
                        count += 1;
                    }
                    What::Trust { peer, .. } => {
                        assert!(suspected.remove(&(at, peer.0)).is_some());
                    }
                    _ => {}
                }
            }
            assert_eq!(suspected, BTreeMap::new(), "{detector}, seed {seed}");
        }
        assert!(count >= least, "{detector}: {count}");
    }
}

/// However long a wrong suspicion would last, it is over when the faults are: nobody waits for it.
#[test]
fn without_faults_everybody_is_trusted() {
    let mut plan = plan(3, Load::Saturated, 1);
    let hour = 3_600_000_000;
    plan.faults.detector = Detector::Wrong {
        latency: Span::Constant(0),
        every: Span::Constant(7_000),
        lasting: Span::Constant(hour),
    };
    plan.patience = Some(500_000);
    let outcome = run_well(&plan);
    assert_eq!(outcome.report.part::<mutex::LockReport>().unwrap().entries, 6);
    let suspicions =
        |of: &dyn Fn(&What) -> bool| trace(&outcome).records.iter().filter(|r| of(&r.what)).count();
    let wrong = suspicions(&|what| matches!(what, What::Suspect { .. }));
    assert!(wrong > 0 && wrong == suspicions(&|what| matches!(what, What::Trust { .. })), "{wrong}");
    assert!(trace(&outcome).records.last().is_some_and(|record| record.time < hour));
}

/// The report says for how long nobody could enter.
#[test]
fn outages_are_measured() {
    let faults = Faults {
        crashes: vec!["2@30".parse().unwrap()],
        pauses: vec!["1@1s..2s".parse().unwrap()],
        detector: "late:100".parse().unwrap(),
        ..Faults::default()
    };
    let base = Plan {
        delay: Span::Constant(10_000),
        hold: Some(Span::Constant(15_000)),
        ..plan(3, Load::Saturated, 1)
    };
    // The porter is in first, until 15; p2 is granted then, gets it at 25 and crashes inside.
    let plan = Plan { faults, ..base };
    let outages = run_well(&plan).report.part::<mutex::LockReport>().unwrap().outages.clone();
    let texts: Vec<_> =
        outages.iter().map(|outage| (outage.fault.as_str(), outage.at, outage.outage)).collect();
    // It is noticed at 130, and p3 hears of its turn at 140. When p1 stands still all is over.
    assert_eq!(texts, [("crash p2", 30.0, Outage::Lasted(110_000)), ("pause p1", 1_000.0, Outage::None)]);
    let json = serde_json::to_value(run_well(&plan).report).unwrap();
    let json = &json["outages"];
    assert_eq!(json[0], serde_json::json!({ "fault": "crash p2", "at": 30.0, "outage": 110.0 }));
    assert_eq!(json[1]["outage"], "none");
}

/// What cannot be is refused with a sentence.
#[test]
fn impossible_changes_are_refused() {
    let refused = |algorithm: &str, faults: Faults, locks: usize| {
        let plan = Plan { faults, locks, ..plan(3, Load::Saturated, 1) };
        simulate_setup(&setup(algorithm, 3, &[("recovery", "off")]), &plan, false).unwrap_err().to_string()
    };
    assert_eq!(refused("lamport", changes(&["4@5"], &[]), 1), "lamport lets nobody join or leave");
    assert_eq!(refused("central", changes(&[], &["2@5"]), 1), "central lets nobody join or leave");
}

fn stage(newcomers: &[NodeId]) -> ScriptedRun<Recorder<Erased>> {
    let (nodes, settings) = ([NodeId(1), NodeId(2)], BTreeMap::new());
    let wanted = Wanted { newcomers, ..Wanted::new(&nodes, &settings) };
    let prepared = mutex::prepared::<Doors>(&wanted).expect("it can be set up so");
    ScriptedRun::new(&prepared.into(), Timing::default(), Recorder::new())
}

/// Scripts know who is there, too.
#[test]
fn scripts_let_processes_in_and_out() {
    let mut stage = stage(&[NodeId(5)]);
    let mut apply = |line: &str| stage.apply(&line.parse::<Command>().expect("a command"));
    assert_eq!(apply("request 5"), Err("p5 has not joined yet".into()));
    assert_eq!(apply("restart 5"), Err("p5 has not joined yet".into()));
    assert_eq!(apply("join 2"), Err("p2 has joined before".into()));
    assert_eq!(apply("suspect 1 2 life 2"), Err("p2 is in life 1 and has not begun life 2".into()));
    assert_eq!(apply("join 6"), Err("p6 is not one of the processes".into()));
    for line in ["join 5", "request 5", "settle", "release 5", "settle", "leave 5", "settle"] {
        assert_eq!(apply(line), Ok(()), "{line}");
    }
    assert_eq!(apply("join 5"), Err("p5 has joined before".into()));
    assert_eq!(apply("request 5"), Err("p5 has left".into()));
    assert_eq!(apply("crash 5"), Err("p5 has left".into()));
    assert_eq!(apply("restart 5"), Err("p5 has left".into()));
    assert_eq!(stage.judge().violation(), None);
    let setup = Setup { nodes: [1, 2, 5].map(NodeId).to_vec(), ..Setup::numbered("doors", 2) };
    let trace = stage.observer().trace(setup.to_header("any"), &Words::ERASED);
    let entered = trace
        .records
        .iter()
        .filter(|record| matches!(&record.what, What::Event { event, .. } if event == "granted"));
    assert_eq!(entered.map(|record| record.process).collect::<Vec<_>>(), [Some(NodeId(5))]);
}

/// The trace of a run in which somebody joins and somebody leaves is enough to repeat it.
#[test]
fn a_changing_group_is_repeated_from_its_trace() {
    let faults = Faults {
        lost_tokens: Vec::new(),
        detector: "wrong:5..20".parse().unwrap(),
        ..changes(&["5@15"], &["2@30"])
    };
    let outcome = run_well(&Plan { faults, ..plan(2, Load::Saturated, 3) });
    let recorded = trace(&outcome);
    let commands = commands_of(recorded);
    assert_eq!(newcomers(&commands), [NodeId(5)]);
    let mut stage = stage(&[NodeId(5)]);
    for command in &commands {
        stage.apply(command).unwrap_or_else(|why| panic!("{command}: {why}"));
    }
    let again = stage.observer().trace(recorded.header.clone(), &Words::ERASED);
    let essence = |trace: &Trace| {
        trace.records.iter().map(|r| (r.process, r.what.clone(), r.phase.clone())).collect::<Vec<_>>()
    };
    assert_eq!(essence(&again), essence(recorded));
}
