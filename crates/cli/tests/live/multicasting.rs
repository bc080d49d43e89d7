//! Multicast among real processes: the process that orders the posts is killed, and the order goes on.

use conclave_core::NodeId;
use conclave_trace::What;

use crate::cluster::{Home, Live, until};

/// What a process has delivered so far, in order: the texts.
fn delivered(live: &Live<'_>, process: u32) -> Vec<String> {
    let trace = live.merged();
    let records = trace.iter().flat_map(|trace| &trace.records);
    let told = records.filter(|record| record.process == Some(NodeId(process)));
    told.filter_map(|record| match &record.what {
        What::Event { event, .. } => event.strip_prefix("delivered ")?.split(' ').nth(1).map(str::to_owned),
        _ => None,
    })
    .collect()
}

fn until_delivered(live: &Live<'_>, processes: &[u32], posts: usize) {
    until(&format!("{processes:?} deliver {posts} posts"), || {
        processes.iter().all(|process| delivered(live, *process).len() == posts)
    });
}

/// p3 numbers the posts at first. Another process takes over, and nobody misses a post or sees another order.
#[test]
fn a_sequencer_that_is_killed_is_replaced() {
    let home = Home::new();
    let live = home.start("sequencer -n 3");
    live.run("ask 1 send a").ends(0);
    until_delivered(&live, &[1, 2, 3], 1);
    live.run("kill 3").ends(0);
    // Both send at once, while nobody may have taken over yet.
    live.run("ask 1 send b").ends(0);
    live.run("ask 2 send c").ends(0);
    until_delivered(&live, &[1, 2], 3);
    let order = delivered(&live, 1);
    assert_eq!(order, delivered(&live, 2));
    assert_eq!(order[0], "\"a\"");
    // What was on its way to the dead process stays there, so that the record has no end at which all could be judged.
    live.judged();
    live.stop();
}
