//! Consensus among real processes, some of which are killed in the middle of it.

use conclave_core::NodeId;
use conclave_live::control::{Answer, Ask};
use conclave_live::desk::{Wish, Word};

use crate::cluster::{Home, Live, until};

fn propose(live: &Live<'_>, via: u32, value: u64) {
    let wish = Wish::Ask { words: format!("propose {value}") };
    let answer = live.connect(NodeId(via)).call(&Ask::Wish(wish)).expect("it answers");
    assert_eq!(answer, Answer::Word(Word::Asked));
}

/// What a process has told last.
fn last(live: &Live<'_>, process: u32) -> Option<String> {
    live.status(NodeId(process)).desk.last
}

fn until_told(live: &Live<'_>, processes: &[u32], words: &str) {
    until(&format!("{processes:?} tell: {words}"), || {
        processes.iter().all(|process| last(live, *process).as_deref() == Some(words))
    });
}

/// Judges what was recorded; agreement is among what held.
fn judge(live: &Live<'_>) {
    let report = live.judged();
    let properties = report["properties"].as_array().expect("a list");
    for name in ["AGREEMENT", "VALIDITY", "INTEGRITY"] {
        assert!(properties.iter().any(|found| found["name"] == name), "{report}");
    }
}

/// A proposer is killed at whatever point it has got to: the others decide its value or theirs, and it learns which.
#[test]
fn a_proposer_is_killed() {
    let home = Home::new();
    let live = home.start("paxos -n 3");
    propose(&live, 1, 7);
    live.run("kill 1").ends(0);
    propose(&live, 2, 9);
    until("p2 and p3 decide", || last(&live, 2).is_some() && last(&live, 3).is_some());
    let decided = last(&live, 2).expect("it has decided");
    assert!(["decided 7", "decided 9"].contains(&&*decided), "{decided}");
    live.run("restart 1").ends(0);
    until_told(&live, &[1, 2, 3], &decided);
    judge(&live);
    live.stop();
}

/// Three counters, each of which follows the log: whoever was killed counts the same when it is back.
#[test]
fn replicas_count_the_same() {
    let home = Home::new();
    let live = home.start("paxos-log -n 3 --set replica=counter");
    propose(&live, 1, 5);
    until_told(&live, &[1, 2, 3], "decided 1 5 total 5");
    live.run("kill 1").ends(0);
    propose(&live, 2, 7);
    until_told(&live, &[2, 3], "decided 2 7 total 12");
    live.run("restart 1").ends(0);
    until_told(&live, &[1, 2, 3], "decided 2 7 total 12");
    judge(&live);
    live.stop();
}
