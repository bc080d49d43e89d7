//! A leader that is gone is replaced at once, and one that lives is left alone.
//!
//! Silence is nothing here: it would take longer than what is waited for.

use std::process::Command;
use std::time::Duration;

use conclave_server::consensus::{Compaction, Leader, Timing};
use tokio::time::{Instant, timeout};

use crate::harness::Cluster;

/// Whoever is replaced is not replaced for its silence.
const TIMING: Timing = Timing {
    heartbeat: Duration::from_millis(100),
    election_min: Duration::from_millis(300),
    election_max: Duration::from_secs(12),
};

async fn cluster(count: u64) -> (Cluster, Leader) {
    let mut cluster = Cluster::start_with(count, Compaction::default(), TIMING).await;
    cluster.all_settled().await;
    let leader = cluster.leader().await;
    cluster.propose_many(leader, 5).await;
    (cluster, leader)
}

/// The nodes that do not lead.
fn followers(cluster: &Cluster, leader: Leader) -> Vec<u64> {
    cluster.members.keys().copied().filter(|id| *id != leader.id).collect()
}

/// Nobody else comes to lead while so much is proposed, one after the other.
async fn leads_on(cluster: &mut Cluster, leader: Leader) {
    // Whoever is to be elected needs a log as long as that of the others.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let until = Instant::now() + Duration::from_millis(500);
    while Instant::now() < until {
        cluster.propose_many(leader, 5).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(cluster.leader().await, leader, "a leader that lives is left alone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_process_ends_is_replaced_at_once() {
    for count in [3, 5] {
        let (mut cluster, mut leader) = cluster(count).await;
        for round in 0..3 {
            let began = Instant::now();
            cluster.kill(leader.id, round).await;
            let next = cluster.leader().await;
            assert!(next.term > leader.term);
            assert!(
                began.elapsed() < TIMING.election_max,
                "sooner than by its silence: {:?}",
                began.elapsed()
            );
            cluster.propose_many(next, 5).await;
            cluster.revive(leader.id).await;
            cluster.caught_up(leader.id).await;
            leader = cluster.leader().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_break_depose_nobody() {
    let (mut cluster, leader) = cluster(3).await;
    for _ in 0..10 {
        for id in cluster.members.keys() {
            cluster.break_wires(*id);
        }
        cluster.propose_many(leader, 3).await;
    }
    leads_on(&mut cluster, leader).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_that_is_refused_deposes_nobody() {
    let (mut cluster, leader) = cluster(3).await;
    let follower = followers(&cluster, leader)[0];
    cluster.refuse(follower, leader.id);
    for _ in 0..5 {
        cluster.break_wires(follower);
        cluster.propose_many(leader, 3).await;
    }
    leads_on(&mut cluster, leader).await;
    let one_of_five = async {
        let (mut cluster, leader) = self::cluster(5).await;
        for follower in &followers(&cluster, leader)[..2] {
            cluster.refuse(*follower, leader.id);
            cluster.break_wires(*follower);
        }
        leads_on(&mut cluster, leader).await;
    };
    one_of_five.await;
}

/// Whoever cannot be reached by anybody is no good as a leader. That it lives all the same breaks nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_refuses_a_majority_is_replaced_and_nothing_is_lost() {
    let (mut cluster, leader) = cluster(3).await;
    cluster.propose_many(leader, 20).await;
    for follower in followers(&cluster, leader) {
        cluster.refuse(follower, leader.id);
    }
    cluster.break_wires(leader.id);
    let others = followers(&cluster, leader);
    let began = Instant::now();
    let next = cluster.leader_without(&[leader.id]).await;
    assert_ne!(next.id, leader.id);
    assert!(began.elapsed() < TIMING.election_max, "sooner than by its silence: {:?}", began.elapsed());
    cluster.propose_many(next, 20).await;
    for id in others {
        cluster.caught_up(id).await;
    }
    // It hears of it by the next leader's own connections.
    let late = cluster.propose(leader);
    assert!(
        !matches!(timeout(Duration::from_secs(10), late).await, Ok(Ok(_))),
        "it decides nothing any more"
    );
    cluster.heal();
    cluster.propose_many(next, 1).await;
    cluster.caught_up(leader.id).await;
}

#[test]
fn that_every_node_looks_for_itself_is_tested() {
    let test = "watchdog::one_node_that_is_refused_deposes_nobody";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env("CONCLAVE_SERVER_MUTANT", "BelievesOneNode");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("1 failed"), "{test} does not notice: {said}");
}
