//! The same value in three worlds: simulated, searched, and alive.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_algorithms::Name;
use conclave_algorithms::mutex::{self, Fence};
use conclave_check::{AskBudget, Budgets, Options, check_algorithm};
use conclave_core::{Members, NodeId};
use conclave_live::cluster::{Cluster, Order};
use conclave_live::control::{Answer, Ask, Control};
use conclave_live::desk::{Wish, Word};
use conclave_live::supervisor::{Plan as Start, Supervisor, held, take_orders};
use conclave_sim::faults::Crash;
use conclave_sim::{Plan, simulate};
use conclave_trace::Setup;
use porter::Porter;

#[test]
fn simulated() {
    for seed in 1..=200 {
        let plan = Plan { seed, entries: 5, ..Plan::new(Members::numbered(4)) };
        let report =
            simulate::<mutex::Of<Porter>>(&Setup::numbered("porter", 4), &plan, false).unwrap().report;
        assert!(report.all_held() && report.ending == "done", "seed {seed}: {report:?}");
    }
}

#[test]
fn simulated_with_a_crash_of_the_porter() {
    for seed in 1..=200 {
        let mut plan = Plan { seed, ..Plan::new(Members::numbered(4)) };
        let at = seed * 997 % 60_000;
        plan.faults.crashes =
            vec![Crash { process: NodeId(1), at, restart: None, amnesia: false, inside: None }];
        plan.faults.detector = "perfect".parse().unwrap();
        let report =
            simulate::<mutex::Of<Porter>>(&Setup::numbered("porter", 4), &plan, false).unwrap().report;
        assert!(report.all_held() && report.ending == "done", "seed {seed}: {report:?}");
    }
}

#[test]
fn searched() {
    let setup = Setup::numbered("porter", 3);
    let twice = Options { entries: AskBudget::Times(2), ..Options::default() };
    let report = check_algorithm::<mutex::Of<Porter>>(&setup, &twice, &mut |_| {}).unwrap();
    assert!(report.complete && report.all_held(), "{report:?}");
    let crash = Options { budgets: Budgets { crashes: 1, ..Budgets::default() }, ..Options::default() };
    let report =
        check_algorithm::<mutex::Of<Porter>>(&Setup::numbered("porter", 2), &crash, &mut |_| {}).unwrap();
    assert!(report.complete && report.all_held(), "{report:?}");
}

fn lock(cluster: &Cluster, via: u32) -> (Control, Fence) {
    let mut control = cluster.connect(NodeId(via)).unwrap();
    control.ask(&Ask::Wish(Wish::Lock { name: Name::new("door").unwrap() })).unwrap();
    match control.answer(Some(Duration::from_secs(20))).unwrap() {
        Some(Answer::Word(Word::Granted { fence, .. })) => (control, fence),
        other => panic!("no key: {other:?}"),
    }
}

#[test]
fn alive() {
    let home = tempfile::tempdir().unwrap();
    let plan = Start {
        home: home.path().to_owned(),
        name: "porter".into(),
        algorithm: "porter".into(),
        ids: (1..=3).map(NodeId).collect(),
        settings: BTreeMap::new(),
        clocks: Vec::new(),
        record: true,
        transmission: Duration::from_millis(50),
        suspect_after: Duration::from_millis(500),
        program: env!("CARGO_BIN_EXE_porter").into(),
    };
    let supervisor = std::sync::Arc::new(std::sync::Mutex::new(Supervisor::start(&plan).unwrap()));
    take_orders(&supervisor).unwrap();
    let cluster = Cluster::find(home.path(), Some("porter")).unwrap();
    let mut fences = Vec::new();
    for via in [1, 2, 3, 2] {
        // The key goes back when the connection ends.
        fences.push(lock(&cluster, via).1);
    }
    cluster.order(&Order::Kill(NodeId(1))).unwrap();
    fences.push(lock(&cluster, 3).1);
    cluster.order(&Order::Restart(NodeId(1))).unwrap();
    fences.push(lock(&cluster, 1).1);
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    held(&supervisor).stop();
    let trace = conclave_net::merge(&cluster.records().unwrap()).unwrap();
    assert!(trace.records.len() > 20);
}
