//! Global snapshots of real processes, and what is decided from them.

use conclave_core::NodeId;

use crate::cluster::{Home, Live, until};
use crate::locking::{lock, unlock};

/// Takes a snapshot, and returns what it shows: the verdict, and the lines of the cut.
fn snapshot(live: &Live<'_>, via: u32) -> (String, Vec<String>) {
    let taken = live.run(&format!("snapshot --via {via} --json")).ends(0).json();
    let cut = taken["cut"].as_array().expect("a list").iter();
    let verdict = taken["verdict"].as_str().expect("a text").to_owned();
    (verdict, cut.map(|line| line.as_str().expect("a text").to_owned()).collect())
}

/// One in which nobody is missing: a process that is slow may be suspected for a while.
fn whole(live: &Live<'_>, via: u32) -> (String, Vec<String>) {
    let mut taken = snapshot(live, via);
    until("a snapshot has everybody in it", || {
        let is_whole = !taken.0.contains("missing");
        if !is_whole {
            taken = snapshot(live, via);
        }
        is_whole
    });
    taken
}

/// The token of a running ring is counted wherever it is. Nobody makes a new one here: when the process is killed that has
/// it, it is nowhere, and the channels of the dead count as closed. What was recorded replays, and the snapshots with it.
#[test]
fn a_token_is_counted_until_it_dies_with_its_process() {
    let home = Home::new();
    let live = home.start("token-ring -n 3 --set snapshots=on --set recovery=off --suspect-after 6s");
    for via in [1, 2, 3] {
        let mut client = live.connect(NodeId(via));
        lock(&mut client, "ring");
        unlock(&mut client, "ring");
        let (verdict, _) = whole(&live, via);
        assert!(
            verdict.starts_with(&format!("snapshot p{via}.")) && verdict.contains(": 1 token;"),
            "{verdict}"
        );
    }
    let mut holder = live.connect(NodeId(2));
    lock(&mut holder, "ring");
    let (verdict, cut) = whole(&live, 1);
    assert!(verdict.contains(": 1 token;"), "{verdict}");
    assert!(cut.contains(&"p2 holding, has the token of ring".to_owned()), "{cut:?}");
    live.run("kill 2").ends(0);
    let (verdict, cut) = snapshot(&live, 3);
    assert!(verdict.contains("the token is lost") && verdict.contains("p2 missing"), "{verdict}");
    assert!(cut.contains(&"p2 is down".to_owned()), "{cut:?}");
    let report = live.judged();
    let found =
        |list: &str| report[list].as_array().is_some_and(|all| all.iter().any(|it| it["name"] == "CUT"));
    assert!(found("properties") || found("not_promised"), "{report}");
    live.stop();
}

/// Where it was not asked for, it says how to get it.
#[test]
fn a_cluster_without_snapshots_says_so() {
    let home = Home::new();
    let live = home.start("central -n 2");
    let refused = live.run("snapshot").ends(2);
    assert!(refused.err.contains("--set snapshots=on"), "{}", refused.err);
    live.stop();
}
