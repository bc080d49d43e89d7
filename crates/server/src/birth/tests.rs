use tokio::time::sleep;

use super::*;
use crate::disk::MemoryDisk;
use crate::mutant::tests::assert_caught;
use crate::puppet::{Cast, Puppet, ask_for_vote, eventually};
use crate::raft::LeaderId;

/// Long enough for a node to recover that would not wait for everybody.
const LONG: Duration = Duration::from_secs(5);

/// Node 5 asked node 4 for its vote, and has it. Then node 4 loses its disk. As long as node 5 says nothing, it may hold a
/// vote that node 4 knows nothing of, in an election that the other three know nothing of.
#[tokio::test(start_paused = true)]
async fn a_vote_of_a_former_life_is_respected_though_a_majority_does_not_know_of_it() {
    let candidate = Puppet::new(55);
    let mut cast = Cast::new(&[1, 2, 3, 4], &[(5, &candidate)]).await;
    cast.propose_all(3).await;
    let (leader, term) = cast.leader().await;
    let victim = if leader == 4 { 3 } else { 4 };
    settled(&cast, &[1, 2, 3, 4]).await;
    candidate.script().past = None;

    let vote = Vote { leader_id: LeaderId { term: term + 10, node_id: 5 }, committed: false };
    let last = Some(LogId { leader_id: LeaderId { term, node_id: leader }, index: 1000 });
    let granted = ask_for_vote(&cast.peers(5), victim, vote, last).await.unwrap();
    assert!(granted.vote_granted);
    cast.rob(victim).await;
    cast.revive(victim).await;
    sleep(LONG).await;
    cast.propose_all(3).await;
    let status = cast.nodes[&victim].status();
    assert_eq!(
        (status.settled, status.last_log),
        (false, 0),
        "it acknowledged entries below a vote that it had given"
    );

    // The candidate answers, with the vote that it asked for.
    let past = Past { settled: true, vote, last: Some(3), leads: false, life: 55, witnessed: Vec::new() };
    candidate.script().past = Some(past);
    settled(&cast, &[victim]).await;
    let told = past_of(&cast, victim).await;
    assert!(later(&told.vote, &vote) == Ordering::Greater, "{:?}", told.vote);
    let (_, term) = cast.leader().await;
    assert!(term > vote.leader_id.term, "the others have come above it too");
}

#[test]
fn that_a_majority_is_not_enough_is_tested() {
    let test = "birth::tests::a_vote_of_a_former_life_is_respected_though_a_majority_does_not_know_of_it";
    assert_caught(test, Mutant::FloorOfMajority, "below a vote that it had given");
}

/// Two nodes of five lose their disks one after the other, the second before the first is back.
#[tokio::test(start_paused = true)]
async fn two_of_five_that_lost_their_disks_come_back() {
    let mut cast = Cast::new(&[1, 2, 3, 4, 5], &[]).await;
    settled(&cast, &[1, 2, 3, 4, 5]).await;
    cast.propose_all(5).await;
    for victims in [[1, 2], [3, 4], [5, 1]] {
        for victim in victims {
            cast.rob(victim).await;
        }
        cast.revive(victims[0]).await;
        sleep(LONG).await;
        assert!(!cast.nodes[&victims[0]].status().settled, "the other one may have been a candidate");
        cast.revive(victims[1]).await;
        settled(&cast, &victims).await;
        cast.propose_all(5).await;
    }
    // What was decided at first is there still, though no disk of then is.
    let (leader, _) = cast.leader().await;
    assert_eq!(cast.nodes[&leader].state().look(conclave_service::State::now), 20);
}

#[tokio::test(start_paused = true)]
async fn one_of_three_that_lost_its_disk_is_soon_back_whoever_it_was() {
    let mut cast = Cast::new(&[1, 2, 3], &[]).await;
    settled(&cast, &[1, 2, 3]).await;
    for victim in [1, 2, 3, 1] {
        cast.propose_all(5).await;
        cast.rob(victim).await;
        let began = tokio::time::Instant::now();
        cast.revive(victim).await;
        settled(&cast, &[victim]).await;
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    }
    cast.propose_all(1).await;
}

/// A leader loses its disk before anybody has an entry of it: nothing was decided, and the cluster is formed once more. But
/// entries of the former life may be in flight, and must not be taken for those of the next leader.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_formed_once_more_never_has_a_former_leader_again() {
    let (one, two) = (Puppet::new(2), Puppet::new(3));
    for puppet in [&one, &two] {
        puppet.script().follows = true;
        puppet.script().answers_heartbeats = true;
    }
    let mut cast = Cast::new(&[1], &[(2, &one), (3, &two)]).await;
    let vote = eventually_leads(&cast).await;
    cast.rob(1).await;
    for puppet in [&one, &two] {
        puppet.remember(|past| {
            (past.settled, past.vote, past.last) = (true, Vote { committed: false, ..vote }, Some(0));
        });
    }
    cast.revive(1).await;
    let again = eventually_leads(&cast).await;
    assert!(again.leader_id > vote.leader_id, "{again:?} after {vote:?}");
}

async fn eventually_leads(cast: &Cast) -> Vote {
    loop {
        let past = past_of(cast, 1).await;
        if past.leads {
            return past.vote;
        }
        sleep(PAUSE).await;
    }
}

/// A node is robbed of its disk between two rounds: what it answers then does not count before it has answered twice.
#[tokio::test(start_paused = true)]
async fn answers_from_two_lives_do_not_count() {
    let restless = Puppet::new(0);
    let mut cast = Cast::new(&[1, 2, 3, 4], &[(5, &restless)]).await;
    settled(&cast, &[1, 2, 3, 4]).await;
    cast.propose_all(3).await;
    cast.rob(4).await;
    // It has another life whenever it is asked.
    let shaking = tokio::spawn({
        let restless = restless.clone();
        async move {
            loop {
                restless.remember(|past| past.life += 1);
                sleep(PAUSE / 2).await;
            }
        }
    });
    cast.revive(4).await;
    sleep(LONG).await;
    assert!(!cast.nodes[&4].status().settled);
    shaking.abort();
    settled(&cast, &[4]).await;
}

#[test]
fn that_one_round_of_answers_is_not_enough_is_tested() {
    let test = "birth::tests::answers_from_two_lives_do_not_count";
    assert_caught(test, Mutant::AsksOnce, "assertion failed: !cast.nodes[&4].status().settled");
}

/// Under load a leader has always more than anybody has applied. Whoever recovers catches up with what it had at first.
#[tokio::test(start_paused = true)]
async fn a_node_that_recovers_keeps_its_first_goal() {
    let mut cast = Cast::new(&[1, 2, 3], &[]).await;
    settled(&cast, &[1, 2, 3]).await;
    cast.propose_all(3).await;
    let (leader, _) = cast.leader().await;
    let follower = if leader == 3 { 2 } else { 3 };
    let raft = cast.nodes[&follower].handover().raft.clone();
    let present = past_of(&cast, leader).await;
    assert!(present.leads && present.settled);
    let at = |last| BTreeMap::from([(leader, Past { last: Some(last), ..present.clone() })]);
    let gate = Arc::new(Gate::new(false, 77, Arc::new(Silence::new(Duration::MAX))));
    let floor = Vote { leader_id: LeaderId { term: 0, node_id: 0 }, committed: false };
    gate.set(Part::Above(floor));
    let identity = Identity::check(Arc::new(MemoryDisk::default()), follower, cast.members().clone());
    let peers = cast.peers(follower);
    let identity = identity.await.unwrap();
    let newborn = Newborn { raft, gate: Arc::clone(&gate), identity, peers, patience: LONG };
    let last = present.last.unwrap();
    let mut kept = None;
    // It has less than its leader, whenever it asks.
    assert!(!newborn.go_on(&at(last + 4), false, &mut kept).await.unwrap());
    cast.propose_all(3).await;
    assert!(!newborn.go_on(&at(last + 1_000), false, &mut kept).await.unwrap());
    assert_eq!(kept.as_ref().and_then(|goal| goal.last), Some(last + 4));
    // What another leader had is another goal: this one may have what the first did not.
    let mut elected = at(last + 2_000);
    elected.get_mut(&leader).unwrap().vote.leader_id.term += 1;
    let mut of_another = kept.clone();
    assert!(!newborn.go_on(&elected, false, &mut of_another).await.unwrap());
    assert_eq!(of_another.and_then(|goal| goal.last), Some(last + 2_000));
    cast.propose_all(1).await;
    let has_it = || raft_has(&cast, follower, last + 4).then_some(());
    eventually("the goal", has_it).await;
    assert!(newborn.go_on(&at(last + 3_000), false, &mut kept).await.unwrap(), "it would never arrive");
    assert!(gate.is_open());
}

#[test]
fn that_a_goal_is_kept_is_tested() {
    let test = "birth::tests::a_node_that_recovers_keeps_its_first_goal";
    assert_caught(test, Mutant::ChasesLeader, "assertion");
}

fn raft_has(cast: &Cast, node: u64, index: u64) -> bool {
    cast.nodes[&node].status().applied >= index
}

async fn past_of(cast: &Cast, node: u64) -> Past {
    let peers = cast.peers(99);
    let peer = peers.all().find(|peer| peer.id() == node).unwrap();
    peer.past(&Question::default(), LONG).await.unwrap()
}

async fn settled(cast: &Cast, nodes: &[u64]) {
    eventually("settled", || nodes.iter().all(|id| cast.nodes[id].status().settled).then_some(())).await;
}
