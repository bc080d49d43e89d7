use tokio::time::sleep;

use super::*;
use crate::mutant::tests::assert_caught;
use crate::puppet::{Cast, Puppet};
use crate::raft::LeaderId;

const MOMENT: Duration = Duration::from_millis(1);

fn vote(term: u64, node_id: u64) -> Vote {
    Vote { leader_id: LeaderId { term, node_id }, committed: true }
}

fn past(settled: bool, vote: Vote) -> Past {
    Past { settled, vote, last: Some(7), leads: false, life: 1, witnessed: Vec::new() }
}

#[test]
fn only_settled_nodes_that_answered_this_question_or_a_later_one_count() {
    let mine = vote(5, 1);
    let heard = |answers: &[(u64, Past)]| {
        let answers = answers.iter().enumerate().map(|(id, answer)| (id as u64 + 2, answer.clone()));
        judge(&answers.collect(), 7, &mine, 3)
    };
    let follows = || past(true, mine);
    assert_eq!(heard(&[(7, follows()), (8, follows())]), Some(Ok(())));
    assert_eq!(
        heard(&[(7, past(true, vote(4, 2))), (7, follows())]),
        Some(Ok(())),
        "an earlier vote is none against"
    );
    assert_eq!(heard(&[(6, follows()), (7, follows())]), None, "an answer to an earlier question");
    assert_eq!(
        heard(&[(7, past(false, mine)), (7, follows())]),
        None,
        "a node that may have forgotten its vote"
    );
    let gone = Some(Err(Stale::NotLeader(Some(2))));
    assert_eq!(heard(&[(7, past(true, vote(6, 2))), (7, follows()), (7, follows())]), gone);
    assert_eq!(
        heard(&[(7, past(true, vote(5, 2))), (7, follows()), (7, follows())]),
        gone,
        "in the same term"
    );
}

/// The leader is cut off, or stands still, while its followers elect another. Their acknowledgements of an entry of before
/// reach it after a read has begun: that of node 3 decides the entry, so that the leader sends this news to node 2; and that
/// of node 2 is for the entry, not for the news, which nobody has received.
#[tokio::test(start_paused = true)]
async fn acknowledgements_of_entries_sent_before_a_read_do_not_let_it_pass() {
    let (two, three) = (Puppet::new(2), Puppet::new(3));
    for puppet in [&two, &three] {
        puppet.script().follows = true;
        puppet.script().answers_heartbeats = true;
        // The list of members, and the claim of the leader.
        puppet.release(8);
    }
    let mut cast = Cast::new(&[1], &[(2, &two), (3, &three)]).await;
    sleep(MOMENT * 200).await;
    for puppet in [&two, &three] {
        puppet.remember(|past| past.settled = true);
    }
    let (leader, term) = cast.leader().await;
    assert_eq!(leader, 1);
    cast.propose_all(2).await;
    cast.nodes[&1].read_barrier().await.unwrap();
    for puppet in [&two, &three] {
        puppet.forget_released();
    }

    let entry = cast.propose().await;
    sleep(MOMENT).await;
    for puppet in [&two, &three] {
        puppet.script().answers_heartbeats = false;
        puppet.remember(|past| past.vote = vote(term + 1, 3));
    }
    let node = Arc::clone(&cast.nodes[&1]);
    let read = tokio::spawn(async move { node.read_barrier().await });
    sleep(MOMENT).await;
    three.release(1);
    sleep(MOMENT).await;
    two.release(1);
    entry.await.unwrap();
    let read = read.await.unwrap();
    assert!(read.is_err(), "a read passed though another leads");
}

#[test]
fn that_acknowledgements_are_not_enough_is_tested() {
    let test = "barrier::tests::acknowledgements_of_entries_sent_before_a_read_do_not_let_it_pass";
    assert_caught(test, Mutant::TrustsAcknowledgements, "a read passed though another leads");
}
