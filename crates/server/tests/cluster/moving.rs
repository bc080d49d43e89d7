//! What works while everybody is there.

use std::sync::Arc;
use std::time::Duration;

use conclave_server::consensus::{Compaction, Consensus, Kept, Refused, Stale, StartError};
use conclave_server::disk::{Disk, FORMAT, Files, StorageError};
use conclave_wire::peer::Frame;
use conclave_wire::peer::peer_client::PeerClient;
use tokio::time::Instant;
use tonic::{Code, Request};

use crate::harness::{Cluster, Heard, TIMING, eventually, small};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_nodes_apply_the_same_in_the_same_order() {
    let mut cluster = Cluster::start(3, Compaction::default()).await;
    let leader = cluster.leader().await;
    cluster.propose_many(leader, 50).await;
    for id in 1..=3 {
        cluster.caught_up(id).await;
    }
    let told = cluster.nodes[&1].heard.told().applied;
    assert_eq!(told.iter().map(|&(_, now)| now).collect::<Vec<_>>(), (1..=50).collect::<Vec<_>>());
    assert!(told.is_sorted());
    for id in 2..=3 {
        assert_eq!(cluster.nodes[&id].heard.told().applied, told);
    }
    cluster.consensus(leader.id).read_barrier().await.unwrap();
    assert_eq!(cluster.consensus(leader.id).status().leader, Some(leader.id));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_leader_of_the_present_term_may_propose() {
    let mut cluster = Cluster::start(3, Compaction::default()).await;
    let leader = cluster.leader().await;
    let follower = (1..=3).find(|&id| id != leader.id).unwrap();
    let proposal = cluster.consensus(follower).propose(leader.term, Vec::new().into()).await.unwrap();
    assert!(matches!(proposal.await, Err(Refused::NotLeader(_))));
    let barrier = cluster.consensus(follower).read_barrier().await;
    assert_eq!(barrier, Err(Stale::NotLeader(Some(leader.id))));
    let earlier = cluster.consensus(leader.id).propose(leader.term - 1, Vec::new().into()).await.unwrap();
    assert!(matches!(earlier.await, Err(Refused::NotLeader(_))));
    cluster.propose_many(leader, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leadership_is_handed_over() {
    let mut cluster = Cluster::start(3, Compaction::default()).await;
    let leader = cluster.leader().await;
    cluster.propose_many(leader, 5).await;
    let follower = (1..=3).find(|&id| id != leader.id).unwrap();
    assert_eq!(cluster.consensus(follower).hand_over().await, Err(Kept::NotLeader));
    let began = Instant::now();
    let heir = cluster.consensus(leader.id).hand_over().await.unwrap();
    assert!(began.elapsed() < TIMING.election_max, "faster than an election: {:?}", began.elapsed());
    let next = cluster.leader().await;
    assert_eq!(next.id, heir);
    assert_ne!(next.id, leader.id);
    assert!(next.term > leader.term);
    cluster.propose_many(next, 5).await;
    cluster.caught_up(leader.id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_is_compacted_by_size_too() {
    let few = Compaction { entries: 1_000_000, bytes: 2_000, ..small() };
    let mut cluster = Cluster::start(1, few).await;
    let leader = cluster.leader().await;
    cluster.propose_many(leader, 40).await;
    eventually("a snapshot", || (cluster.consensus(1).status().snapshot > 0).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_on_a_real_disk_remembers_everything() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start(1, small()).await;
    cluster.kill(1, 0).await;
    let mut due = 0;
    for _ in 0..3 {
        let disk = Arc::new(open(directory.path()).await);
        let options = cluster.options(1, disk, Arc::new(Heard::default()));
        let consensus = Consensus::start(options).await.unwrap();
        let mut leader = consensus.leader();
        let term = leader.wait_for(Option::is_some).await.unwrap().unwrap().term;
        consensus.read_barrier().await.unwrap();
        assert_eq!(consensus.state().look(conclave_service::State::now), due);
        for _ in 0..50 {
            due += 1;
            let batch = conclave_service::Batch { now: due, ..conclave_service::Batch::default() };
            let bytes = postcard::to_stdvec(&batch).unwrap();
            consensus.propose(term, bytes.into()).await.unwrap().await.unwrap();
        }
        consensus.shutdown().await;
    }
    let names: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap()).collect();
    let logs = names.iter().filter(|file| file.file_name().to_string_lossy().starts_with("log-")).count();
    assert!(logs <= 3, "old segments are removed: {names:?}");
}

/// The directory is free again when the last task of the node before has ended.
async fn open(path: &std::path::Path) -> Files {
    eventually("a free directory", || match Files::open(path) {
        Ok(files) => Some(files),
        Err(StorageError::InUse(_)) => None,
        Err(error) => panic!("{error}"),
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_of_another_node_is_refused() {
    let mut cluster = Cluster::start(3, Compaction::default()).await;
    let leader = cluster.leader().await;
    cluster.propose_many(leader, 1).await;
    cluster.kill(1, 0).await;
    cluster.kill(2, 0).await;
    let disk = Arc::new(cluster.disks[&1].clone());
    let start = Consensus::start(cluster.options(2, disk.clone(), Arc::new(Heard::default()))).await;
    let Err(StartError::Storage(error @ StorageError::Foreign { .. })) = start else {
        panic!("it was taken");
    };
    assert!(error.to_string().contains("belongs to node 1 of 1=127."), "{error}");

    cluster.members.remove(&3);
    let start = Consensus::start(cluster.options(1, disk, Arc::new(Heard::default()))).await;
    assert!(matches!(start, Err(StartError::Storage(StorageError::Foreign { .. }))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_cannot_be_read_stops_the_node_with_a_sentence() {
    let cluster = Cluster::start(1, Compaction::default()).await;
    let leader = cluster.leader().await;
    let proposal = cluster.consensus(1).propose(leader.term, vec![0xff; 20].into()).await.unwrap();
    assert!(matches!(proposal.await, Err(Refused::Stopped(_))));
    let why = cluster.consensus(1).failure().await;
    assert!(why.contains("is no batch of commands that this version can read"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lost_its_log_but_not_its_name_is_refused() {
    let mut cluster = Cluster::start(1, Compaction::default()).await;
    cluster.leader().await;
    cluster.kill(1, 0).await;
    let disk = Arc::new(cluster.disks[&1].clone());
    for name in disk.list().await.unwrap() {
        if name.starts_with("log-") {
            disk.remove(&name).await.unwrap();
        }
    }
    let start = Consensus::start(cluster.options(1, disk.clone(), Arc::new(Heard::default()))).await;
    assert!(matches!(start, Err(StartError::Storage(StorageError::Missing { .. }))));
    assert_eq!(disk.list().await.unwrap(), ["identity"], "nothing is changed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_refused_writes_nothing() {
    for missing in ["identity", "snapshot-"] {
        let mut cluster = Cluster::start(1, small()).await;
        let leader = cluster.leader().await;
        cluster.propose_many(leader, 300).await;
        eventually("the log begins again", || (cluster.consensus(1).status().purged > 0).then_some(())).await;
        cluster.kill(1, 0).await;
        let disk = Arc::new(cluster.disks[&1].clone());
        for name in disk.list().await.unwrap() {
            if name.starts_with(missing) {
                disk.remove(&name).await.unwrap();
            }
        }
        let syncs = disk.syncs();
        let start = Consensus::start(cluster.options(1, disk.clone(), Arc::new(Heard::default()))).await;
        assert!(matches!(start, Err(StartError::Storage(StorageError::Missing { .. }))), "{missing}");
        assert_eq!(disk.syncs(), syncs, "{missing}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_starts_again_on_a_full_disk() {
    let mut cluster = Cluster::start(1, Compaction::default()).await;
    let leader = cluster.leader().await;
    cluster.propose(leader).await.unwrap();
    cluster.kill(1, 0).await;
    cluster.disks[&1].fault(|faults| faults.full = true);
    cluster.revive(1).await;
    let leader = cluster.leader().await;
    cluster.propose(leader).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_another_format_is_told_so() {
    let cluster = Cluster::start(3, Compaction::default()).await;
    let leader = cluster.leader().await;
    let mut node = PeerClient::connect(format!("http://{}", cluster.members[&leader.id])).await.unwrap();
    let next = (FORMAT + 1).to_string();
    for (said, format) in [(None, "1"), (Some(&next), &next)] {
        for call in 0..3 {
            let mut request = Request::new(Frame::default());
            if let Some(said) = said {
                request.metadata_mut().insert("conclave-format", said.parse().unwrap());
            }
            let answer = async {
                match call {
                    0 => node.past(request).await.map(drop),
                    1 => node.vote(request).await.map(drop),
                    _ => node.append(request.map(tokio_stream::once)).await.map(drop),
                }
            };
            let answer =
                tokio::time::timeout(Duration::from_secs(20), answer).await.expect("it is refused at once");
            let status = answer.unwrap_err();
            assert_eq!(status.code(), Code::FailedPrecondition);
            let due = format!("this node has format {FORMAT}, and the one that asks has format {format}");
            assert!(status.message().starts_with(&due), "{status}");
        }
    }
}
