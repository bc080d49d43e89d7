//! Who is given the lead.

use tokio::time::Instant;

use crate::consensus::Kept;
use crate::mutant::Mutant;
use crate::mutant::tests::assert_caught;
use crate::puppet::{Cast, Puppet, eventually};

/// A node that follows, has everything, and does not take part yet.
fn unsettled(life: u64) -> Puppet {
    let puppet = Puppet::new(life);
    puppet.script().follows = true;
    puppet.script().answers_heartbeats = true;
    puppet.release(1_000_000);
    puppet
}

/// Waits until so many others answer the leader and have everything.
async fn followed(cast: &Cast, leader: u64, others: usize) {
    let handover = cast.nodes[&leader].handover();
    eventually("followers", || handover.heirs().is_ok_and(|heirs| heirs.len() == others).then_some(())).await;
}

#[tokio::test(start_paused = true)]
async fn a_planned_stop_gives_the_lead_to_a_node_that_takes_part() {
    // Whether it comes first among those that have most or last.
    for id in [1, 3] {
        let puppet = unsettled(id);
        let real = if id == 1 { [2, 3] } else { [1, 2] };
        let mut cast = Cast::new(&real, &[(id, &puppet)]).await;
        // Each of the two in turn.
        for _ in 0..4 {
            cast.propose_all(2).await;
            let (leader, _) = cast.leader().await;
            followed(&cast, leader, 2).await;
            let began = Instant::now();
            let heir = cast.nodes[&leader].hand_over().await;
            let other = real[0] + real[1] - leader;
            assert_eq!(heir, Ok(other), "node {id} cannot be elected");
            // It would be the other one in the end, too, but only after an election.
            let election = cast.nodes[&leader].handover().timing.election_min;
            assert!(began.elapsed() < election, "handed over after {:?}", began.elapsed());
        }
    }
}

#[test]
fn that_an_heir_must_take_part_is_tested() {
    let test = "handover::tests::a_planned_stop_gives_the_lead_to_a_node_that_takes_part";
    assert_caught(test, Mutant::AnyHeir, "handed over after ");
}

#[tokio::test(start_paused = true)]
async fn a_planned_stop_waits_for_nobody_if_nobody_else_takes_part() {
    let puppet = unsettled(3);
    let mut cast = Cast::new(&[1, 2], &[(3, &puppet)]).await;
    cast.propose_all(2).await;
    let (leader, _) = cast.leader().await;
    cast.rob(3 - leader).await;
    followed(&cast, leader, 1).await;
    let began = Instant::now();
    let node = &cast.nodes[&leader];
    assert_eq!(node.hand_over().await, Err(Kept::Nobody));
    assert!(began.elapsed() < node.handover().timing.election_max, "{:?}", began.elapsed());
}
