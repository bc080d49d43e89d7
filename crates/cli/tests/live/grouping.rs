//! Multicast among real processes, one of which is killed: whoever is left delivers the same in the same order.

use conclave_core::NodeId;
use conclave_live::control::{Answer, Ask, Control};
use conclave_live::desk::{Wish, Word};

use crate::cluster::{Home, Live, PATIENCE};

fn send(live: &Live<'_>, via: u32, text: &str) {
    let wish = Wish::Ask { words: format!("send {text}") };
    let answer = live.connect(NodeId(via)).call(&Ask::Wish(wish)).expect("it answers");
    assert_eq!(answer, Answer::Word(Word::Asked));
}

/// A client that hears everything that a process tells from now on.
fn tail(live: &Live<'_>, process: u32) -> Control {
    let mut control = live.connect(NodeId(process));
    assert_eq!(control.call(&Ask::Tail).expect("it answers"), Answer::Done);
    control
}

/// The next posts that a process delivers.
fn delivered(tail: &mut Control, count: usize) -> Vec<String> {
    let mut posts = Vec::new();
    while posts.len() < count {
        match tail.answer(Some(PATIENCE)).expect("it answers") {
            Some(Answer::Word(Word::Event { text })) => {
                posts.extend(text.strip_prefix("delivered ").map(str::to_owned));
            }
            other => panic!("only {posts:?} were delivered: {other:?}"),
        }
    }
    posts
}

/// The sequencer, p4, dies with posts that it may have numbered for some and not for others. Another one is elected, in the
/// next view; all that was sent by those who are left arrives at all of them, in one order.
#[test]
fn the_sequencer_is_killed() {
    let home = Home::new();
    let live = home.start("sequencer -n 4 --transmission 1s --suspect-after 6s");
    let mut tails: Vec<_> = (1..=3).map(|process| tail(&live, process)).collect();
    for (via, text) in [(1, "a"), (2, "b"), (3, "c")] {
        send(&live, via, text);
    }
    live.run("kill 4").ends(0);
    send(&live, 1, "d");
    let orders: Vec<_> = tails.iter_mut().map(|tail| delivered(tail, 4)).collect();
    assert!(orders.iter().all(|order| *order == orders[0]), "{orders:?}");
    let report = live.judged();
    // What else is promised depends on what was in flight when it died.
    let total =
        report["properties"].as_array().expect("a list").iter().find(|found| found["name"] == "TOTAL");
    assert!(total.is_some_and(|total| total["holds"] != false), "{report}");
    live.stop();
}
