//! What works while somebody is not there.

use std::sync::Arc;

use conclave_server::consensus::{Compaction, Consensus, Refused, Stale, StartError};
use conclave_server::disk::{Disk, MemoryDisk, StorageError};
use conclave_server::repair;
use tokio::time::Instant;

use crate::harness::{Cluster, Heard, TIMING, eventually, small};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_killed_comes_back_with_all_it_had() {
    let mut cluster = Cluster::start(3, Compaction::default()).await;
    let leader = cluster.leader().await;
    cluster.propose_many(leader, 20).await;
    let victim = (1..=3).find(|&id| id != leader.id).unwrap();
    cluster.caught_up(victim).await;
    cluster.kill(victim, 7).await;
    cluster.propose_many(leader, 20).await;
    cluster.revive(victim).await;
    cluster.caught_up(victim).await;
    assert!(cluster.nodes[&victim].heard.told().replaced.is_empty(), "from the log, not from a snapshot");
    assert_eq!(cluster.leader().await, leader, "and it disturbed nobody");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_leader_is_replaced_and_nothing_decided_is_lost() {
    let mut cluster = Cluster::start(3, Compaction::default()).await;
    for round in 0..3 {
        let leader = cluster.leader().await;
        cluster.propose_many(leader, 20).await;
        let began = Instant::now();
        cluster.kill(leader.id, round).await;
        let next = cluster.leader().await;
        println!("without a leader for {:?}", began.elapsed());
        assert!(next.term > leader.term);
        cluster.consensus(next.id).read_barrier().await.unwrap();
        cluster.caught_up(next.id).await;
        cluster.propose_many(next, 20).await;
        cluster.revive(leader.id).await;
        cluster.caught_up(leader.id).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lagged_behind_is_sent_a_snapshot() {
    let mut cluster = Cluster::start(3, small()).await;
    let leader = cluster.leader().await;
    cluster.propose_many(leader, 5).await;
    let victim = (1..=3).find(|&id| id != leader.id).unwrap();
    cluster.caught_up(victim).await;
    cluster.kill(victim, 3).await;
    cluster.propose_many(leader, 100).await;
    // Nobody keeps the log for a node that is not there.
    let purged = || cluster.consensus(leader.id).status().purged;
    eventually("a shorter log", || (purged() > 20).then_some(())).await;
    cluster.revive(victim).await;
    cluster.caught_up(victim).await;
    assert!(!cluster.nodes[&victim].heard.told().replaced.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lost_its_disk_takes_part_again_when_it_has_caught_up() {
    let mut cluster = Cluster::start(3, small()).await;
    let leader = cluster.leader().await;
    cluster.all_settled().await;
    cluster.propose_many(leader, 60).await;
    let victim = (1..=3).find(|&id| id != leader.id).unwrap();
    cluster.kill(victim, 0).await;
    cluster.disks[&victim].wipe();
    cluster.propose_many(leader, 30).await;
    cluster.revive(victim).await;
    cluster.caught_up(victim).await;
    cluster.all_settled().await;
    let next = cluster.leader().await;
    assert!(next.term > leader.term, "it follows only who was elected since");
    let leader = next;

    // Now it counts: with the third node gone, nothing is decided without it.
    let third = (1..=3).find(|&id| id != leader.id && id != victim).unwrap();
    cluster.kill(third, 0).await;
    cluster.propose_many(leader, 10).await;
    cluster.caught_up(victim).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lost_its_disk_has_no_vote_before_it_knows_what_it_missed() {
    let mut cluster = Cluster::start(3, Compaction::default()).await;
    let leader = cluster.leader().await;
    cluster.all_settled().await;
    cluster.propose_many(leader, 10).await;
    let victim = (1..=3).find(|&id| id != leader.id).unwrap();
    let third = (1..=3).find(|&id| id != leader.id && id != victim).unwrap();
    cluster.caught_up(third).await;
    cluster.kill(victim, 0).await;
    cluster.disks[&victim].wipe();
    // The leader may have decided things with the victim alone: without the leader nobody can tell.
    cluster.kill(leader.id, 0).await;
    cluster.revive(victim).await;
    tokio::time::sleep(TIMING.election_max * 2).await;
    let status = cluster.consensus(victim).status();
    assert!(!status.settled);
    assert!(cluster.consensus(third).leader().borrow().is_none_or(|known| known.id == leader.id));

    cluster.revive(leader.id).await;
    let next = cluster.leader_without(&[victim]).await;
    cluster.propose_many(next, 5).await;
    cluster.caught_up(victim).await;
    cluster.all_settled().await;
}

/// A copy of what is on a disk.
async fn copy_of(disk: &MemoryDisk) -> MemoryDisk {
    let copy = MemoryDisk::default();
    for name in disk.list().await.unwrap() {
        copy.replace(&name, &disk.read(&name).await.unwrap()).await.unwrap();
    }
    copy
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_directory_was_put_back_from_a_copy_stops_and_can_be_repaired() {
    let mut cluster = Cluster::start(3, Compaction::default()).await;
    cluster.all_settled().await;
    let leader = cluster.leader().await;
    cluster.propose_many(leader, 5).await;
    let victim = (1..=3).find(|&id| id != leader.id).unwrap();
    cluster.caught_up(victim).await;
    let copy = copy_of(&cluster.disks[&victim]).await;
    cluster.propose_many(leader, 20).await;
    cluster.caught_up(victim).await;
    cluster.kill(victim, 0).await;
    cluster.disks.insert(victim, copy);
    cluster.revive(victim).await;
    let why = cluster.consensus(victim).failure().await;
    assert!(
        why.contains("and does not have it: its data directory is older") && why.contains("--repair"),
        "{why}"
    );
    cluster.propose_many(leader, 5).await;
    let now = cluster.leader_without(&[victim]).await;
    assert_eq!((now.id, now.term), (leader.id, leader.term), "and it disturbed nobody");

    // It is found again, whoever leads then.
    cluster.kill(victim, 0).await;
    let disk: Arc<dyn Disk> = Arc::new(cluster.disks[&victim].clone());
    let options = cluster.options(victim, Arc::clone(&disk), Arc::new(Heard::default()));
    let refused = Consensus::start(options).await.err().expect("it does not start");
    assert!(matches!(refused, StartError::Storage(StorageError::Outdated { .. })), "{refused}");

    let repaired = repair::set_aside(victim, &cluster.members, &disk).await.unwrap();
    assert!(repaired.why.contains("acknowledged entry"), "{repaired:?}");
    cluster.revive(victim).await;
    cluster.all_settled().await;
    cluster.caught_up(victim).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_refuses_reads_and_batches() {
    let mut cluster = Cluster::start(3, Compaction::default()).await;
    let leader = cluster.leader().await;
    cluster.propose_many(leader, 5).await;
    cluster.cut_off(leader.id);
    let barrier = cluster.consensus(leader.id).read_barrier().await;
    assert!(matches!(barrier, Err(Stale::NoMajority | Stale::NotLeader(_))), "{barrier:?}");

    let next = cluster.leader_without(&[leader.id]).await;
    assert!(next.term > leader.term);
    cluster.propose_many(next, 20).await;
    let refused = cluster.consensus(leader.id).propose(leader.term, Vec::new().into()).await.unwrap();
    assert_eq!(refused.await, Err(Refused::NoMajority));
    assert!(cluster.now_at(leader.id) < cluster.now_at(next.id));

    cluster.heal();
    cluster.caught_up(leader.id).await;
    assert_eq!(cluster.leader().await, next, "and it disturbed nobody");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_falls_silent_holds_nobody_up_and_comes_back() {
    let mut cluster = Cluster::start(3, Compaction::default()).await;
    let leader = cluster.leader().await;
    cluster.propose_many(leader, 5).await;
    let silent = (1..=3).find(|&id| id != leader.id).unwrap();
    cluster.cut_off(silent);
    cluster.propose_many(leader, 50).await;
    // Long enough for the connection to be given up.
    tokio::time::sleep(TIMING.election_max * 2).await;
    cluster.propose_many(leader, 50).await;
    cluster.heal();
    cluster.caught_up(silent).await;
    assert_eq!(cluster.leader().await.term, leader.term, "and it disturbed nobody");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_disk_fails_stops_and_says_so() {
    let mut cluster = Cluster::start(3, Compaction::default()).await;
    let leader = cluster.leader().await;
    cluster.propose_many(leader, 5).await;
    cluster.disks[&leader.id].fault(|faults| faults.syncs_fail = true);
    // The other two may have decided it before the leader's own disk was asked.
    let failed = cluster.propose(leader).await;
    assert!(matches!(failed, Ok(_) | Err(Refused::Stopped(_) | Refused::Unknown)), "{failed:?}");
    let why = cluster.consensus(leader.id).failure().await;
    assert!(why.contains("injected failure of a sync"), "{why}");
    let next = cluster.leader_without(&[leader.id]).await;
    cluster.propose_many(next, 5).await;
}
