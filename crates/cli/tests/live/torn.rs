//! Traces of which something is missing say so, and hold nothing for kept that they cannot know.

use std::fs;

use conclave_core::NodeId;

use crate::cluster::{Home, until};
use crate::locking::{lock, unlock};

/// The last lines of a record are gone, as after a power cut.
#[test]
fn a_record_that_ends_early_is_named() {
    let home = Home::new();
    let live = home.start("ricart-agrawala -n 3 --suspect-after 20s");
    for via in [1, 2, 3, 1, 2, 3] {
        let mut client = live.connect(NodeId(via));
        lock(&mut client, "a");
        unlock(&mut client, "a");
    }
    live.settled(12);
    let (name, record) = (live.name.clone(), live.dir().join("node-1/record-1.jsonl"));
    live.stop();
    let trace = format!("cluster --cluster {name} trace");
    let whole = home.run(&trace).ends(0);
    assert!(!whole.err.contains("ends too early"), "{}", whole.err);
    let text = fs::read_to_string(&record).expect("it was written");
    let lines: Vec<&str> = text.lines().collect();
    // From the end of a step on: half a step would be dropped anyhow.
    fs::write(&record, lines[..lines.len() / 2].join("\n") + "\n").expect("it can be written");
    let torn = home.run(&trace).ends(1);
    assert!(torn.err.contains("the record of p1 ends too early for"), "{}", torn.err);
    assert!(torn.err.contains("they are not judged"), "{}", torn.err);
}

/// A process that stands still is inside, whatever the others think of it.
#[test]
fn who_stands_still_has_not_crashed() {
    let home = Home::new();
    let live = home.start("ricart-agrawala -n 3 --suspect-after 500ms");
    let mut holder = live.connect(NodeId(1));
    lock(&mut holder, "a");
    live.run("pause 1").ends(0);
    let mut next = live.connect(NodeId(2));
    lock(&mut next, "a");
    until("p2 shows it", || live.status(NodeId(2)).desk.locks.iter().any(|lock| lock.fence.is_some()));
    let trace = live.run("trace");
    assert!(!trace.out.contains("✓ ME1"), "two are inside:\n{}", trace.out);
    live.run("resume 1").ends(0);
    live.stop();
}
