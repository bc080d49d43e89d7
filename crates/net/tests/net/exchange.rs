//! Messages arrive in order and exactly once, whatever becomes of connections.

use std::sync::atomic::Ordering;
use std::time::Duration;

use conclave_core::NodeId;

use crate::chat::{ChatEvent, ChatRequest};
use crate::group::Group;
use crate::proxy::Proxy;

#[tokio::test]
async fn two_nodes_talk() {
    let mut group = Group::new(2);
    let mut members = group.start_all().await;
    for number in 1..=100 {
        members[0].say(2, number).await;
        members[1].say(1, 1_000 + number).await;
    }
    for number in 1..=100 {
        assert_eq!(members[1].heard().await, (1, number));
        assert_eq!(members[0].heard().await, (2, 1_000 + number));
    }
}

/// Ten thousand messages among three nodes, through proxies that break every connection at a random byte.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_order_and_once_across_broken_connections() {
    const EACH: u64 = 1_667;
    let mut group = Group::new(3);
    // What breaks here are connections, not nodes.
    group.adjust = |config| config.detector.at_least = Duration::from_secs(20);
    let mut proxies = Vec::new();
    for (seed, (_, address)) in (1..).zip(&mut group.addresses) {
        let proxy = Proxy::to(*address, seed, 3_000).await;
        *address = proxy.address;
        proxies.push(proxy);
    }
    let mut members = group.start_all().await;
    let mut listeners = Vec::new();
    for mut member in members.drain(..) {
        let me = member.node.id();
        listeners.push(tokio::spawn(async move {
            let others: Vec<u32> = (1..=3).filter(|id| NodeId(*id) != me).collect();
            for number in 1..=EACH {
                for to in &others {
                    member.say(*to, number).await;
                }
            }
            let mut expected = [1; 4];
            while others.iter().any(|from| expected[*from as usize] <= EACH) {
                let (from, number) = member.heard().await;
                assert_eq!(number, expected[from as usize], "{me} from p{from}");
                expected[from as usize] += 1;
            }
            member
        }));
    }
    let mut resent = 0;
    for listener in listeners {
        let member = listener.await.unwrap();
        member.until("all is acknowledged", |s| s.peers.values().all(|peer| peer.waiting == 0)).await;
        let status = member.node.status();
        assert!(status.peers.values().all(|peer| peer.sent == EACH && peer.dropped == 0), "{status:?}");
        resent += status.peers.values().map(|peer| peer.resent).sum::<u64>();
        members.push(member);
    }
    let broken: u64 = proxies.iter().map(|proxy| proxy.broken.load(Ordering::Relaxed)).sum();
    assert!(broken > 30 && resent > 0, "{broken} connections broke, {resent} messages were sent again");
}

#[tokio::test]
async fn timers_run_out_unless_stopped() {
    let mut group = Group::new(1);
    let mut member = group.start(1).await;
    for (name, after_ms) in [(1, 60), (2, 10), (3, 30)] {
        member.node.request(ChatRequest::Wake { name, after_ms }).await.unwrap();
    }
    member.node.request(ChatRequest::Forget { name: 3 }).await.unwrap();
    assert_eq!(member.next().await, ChatEvent::Woken(2));
    assert_eq!(member.next().await, ChatEvent::Woken(1));
}

/// Until it is healed, a cut that parts a process from all others holds messages back; nothing is lost by it.
#[tokio::test]
async fn a_cut_makes_suspects_and_loses_nothing() {
    let mut group = Group::new(2);
    let mut members = group.start_all().await;
    for member in &members {
        member.until_connected().await;
    }
    assert!(members[0].node.cut(NodeId(2)));
    assert!(!members[0].node.cut(NodeId(9)));
    assert_eq!(members[0].next().await, crate::group::down(2, 1));
    assert_eq!(members[1].next().await, crate::group::down(1, 1));
    members[0].say(2, 7).await;
    assert!(members[0].node.heal(NodeId(2)));
    assert_eq!(members[0].next().await, crate::group::up(2, 1));
    assert_eq!(members[1].next().await, crate::group::up(1, 1));
    assert_eq!(members[1].heard().await, (1, 7));
}
