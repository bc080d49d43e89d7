//! A family that nobody else knows, in all worlds: simulated, scripted, searched, drawn, and alive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use conclave_algorithms::demand::{PlannedAsk, Who};
use conclave_algorithms::measure::PlainReport;
use conclave_check::{AskBudget, Budgets, Options, check_algorithm};
use conclave_core::{Members, NodeId};
use conclave_live::cluster::{Cluster, Order};
use conclave_live::control::{Answer, Ask, Control};
use conclave_live::desk::{Wish, Word};
use conclave_live::supervisor::{Plan as Start, Supervisor, held, take_orders};
use conclave_sim::{Plan, play_algorithm, simulate};
use conclave_trace::{DiagramOptions, Script, Setup, diagram};
use counter::Of;

fn ask(at: u64, who: Who, words: &str) -> PlannedAsk {
    PlannedAsk { at, who, words: words.into() }
}

#[test]
fn simulated() {
    for seed in 1..=200 {
        let asks = vec![ask(0, Who::All, "add 1"), ask(3_000, Who::One(NodeId(2)), "add 40")];
        let plan = Plan { seed, asks, ..Plan::new(Members::numbered(4)) };
        let outcome = simulate::<Of>(&Setup::numbered("counter", 4), &plan, true).unwrap();
        let report = &outcome.report;
        assert!(report.all_held() && report.ending == "done", "seed {seed}: {report:?}");
        assert_eq!(report.formula.agrees, Some(true));
        assert_eq!(report.part::<PlainReport>().unwrap().last.as_deref(), Some("total 44"));
        let options = DiagramOptions { ascii: true, ..DiagramOptions::default() };
        assert!(diagram(&outcome.trace.unwrap(), &options).contains("add 40"));
    }
    let wrong = Plan { asks: vec![ask(0, Who::All, "raise 1")], ..Plan::new(Members::numbered(2)) };
    let why = simulate::<Of>(&Setup::numbered("counter", 2), &wrong, false).unwrap_err().to_string();
    assert_eq!(why, "'raise 1' is not a request of this algorithm; it has: add N");
}

#[test]
fn the_mutant_is_caught() {
    let setup = Setup { mutant: Some("adds-up".into()), ..Setup::numbered("counter", 2) };
    let asks = vec![ask(0, Who::Lowest, "add 1"), ask(1_000, Who::Lowest, "add 1")];
    let plan = Plan { asks, ..Plan::new(Members::numbered(2)) };
    let violation = simulate::<Of>(&setup, &plan, false).unwrap().violation.unwrap();
    assert_eq!(violation.property, "C1");
    let twice = Options { entries: AskBudget::Times(2), ..Options::default() };
    let found = check_algorithm::<Of>(&setup, &twice, &mut |_| {}).unwrap().counterexample.unwrap();
    assert_eq!(found.property, "C1");
    // The script of the counterexample breaks the same.
    let played = play_algorithm::<Of>(&found.script).unwrap();
    assert_eq!(played.violation.unwrap().property, "C1");
}

#[test]
fn searched() {
    let twice = Options { entries: AskBudget::Times(2), ..Options::default() };
    let report = check_algorithm::<Of>(&Setup::numbered("counter", 3), &twice, &mut |_| {}).unwrap();
    assert!(report.complete && report.all_held(), "{report:?}");
    let budgets = Budgets { crashes: 1, restarts: 1, ..Budgets::default() };
    let crash = Options { budgets, ..Options::default() };
    let report = check_algorithm::<Of>(&Setup::numbered("counter", 2), &crash, &mut |_| {}).unwrap();
    assert!(report.complete, "{report:?}");
}

#[test]
fn scripted() {
    let text =
        "run counter -n 2\n---\n\nadd 1 5\n---\np1 => p2 Count{5}   p1 total 5\n\nadd 2 2\nsettle\n---\n";
    let script = Script::parse(text).unwrap();
    let played = play_algorithm::<Of>(&script).unwrap();
    assert_eq!(played.violation, None);
    let text = played.script.to_string();
    assert!(text.contains("add 1 5") && text.contains("p2 total 7"), "{text}");
    let wrong = Script::parse("run counter -n 2\n---\n\nadd 1 much\n---\n").unwrap();
    let why = play_algorithm::<Of>(&wrong).unwrap_err().to_string();
    assert!(why.contains("'add much' is not a request of this algorithm; it has: add N"), "{why}");
}

fn connect(cluster: &Cluster, via: u32) -> Control {
    cluster.connect(NodeId(via)).unwrap()
}

fn next(control: &mut Control) -> Answer {
    control.answer(Some(Duration::from_secs(20))).unwrap().expect("an answer in time")
}

#[test]
fn alive() {
    let home = tempfile::tempdir().unwrap();
    let plan = Start {
        home: home.path().to_owned(),
        name: "counter".into(),
        algorithm: "counter".into(),
        ids: (1..=3).map(NodeId).collect(),
        settings: BTreeMap::new(),
        clocks: Vec::new(),
        record: true,
        transmission: Duration::from_millis(50),
        suspect_after: Duration::from_millis(500),
        program: env!("CARGO_BIN_EXE_counter").into(),
    };
    let supervisor = Arc::new(Mutex::new(Supervisor::start(&plan).unwrap()));
    take_orders(&supervisor).unwrap();
    let cluster = Cluster::find(home.path(), Some("counter")).unwrap();
    let mut tail = connect(&cluster, 3);
    assert_eq!(tail.call(&Ask::Tail).unwrap(), Answer::Done);
    let add = |via: u32, words: &str| {
        connect(&cluster, via).call(&Ask::Wish(Wish::Ask { words: words.into() })).unwrap()
    };
    assert_eq!(add(1, "add 5"), Answer::Word(Word::Asked));
    assert_eq!(add(2, "add 2"), Answer::Word(Word::Asked));
    assert!(matches!(add(2, "raise 2"), Answer::Word(Word::Refused { .. })));
    let total = |text: &str| Answer::Word(Word::Event { text: text.into() });
    while next(&mut tail) != total("total 7") {}
    // What was added and saved is known again after a crash.
    cluster.order(&Order::Kill(NodeId(1))).unwrap();
    cluster.order(&Order::Restart(NodeId(1))).unwrap();
    assert_eq!(add(3, "add 1"), Answer::Word(Word::Asked));
    while next(&mut tail) != total("total 8") {}
    held(&supervisor).stop();
    let trace = conclave_net::merge(&cluster.records().unwrap()).unwrap();
    assert!(trace.records.iter().any(|record| format!("{:?}", record.what).contains("add 5")));
}
