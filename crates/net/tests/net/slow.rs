//! A peer that does not read stops nobody else, and memory stays bounded.

use std::time::Duration;

use conclave_core::{Incarnation, NodeId};
use conclave_net::Directory;
use conclave_net::frame::{Frame, decode};
use conclave_net::hello::Welcome;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::chat::ChatEvent;
use crate::group::{Group, PATIENCE, down, up};
use crate::hostile::Raw;

const WAITING: usize = 2_000;

fn group() -> Group {
    let mut group = Group::new(3);
    group.chat.ballast = 4_000;
    group.adjust = |config| {
        config.limits.queue_messages = WAITING;
        config.limits.high_water = 500;
        config.limits.stall = Duration::from_millis(500);
        config.detector.grace = Duration::from_secs(60);
    };
    group
}

/// Node 3 welcomes everybody, keeps beating, and reads nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_does_not_read_stops_nobody_else() {
    let mut group = group();
    let listener = group.listener(3).unwrap();
    listener.set_nonblocking(true).unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    let third = tokio::spawn(async move {
        let mut connections = Vec::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let mut raw = Raw::of(stream);
            if raw.receive().await.is_some() {
                let (from, life) = (NodeId(3), Incarnation(1));
                raw.send(&Frame::Welcome(Welcome { from, life, directory: Directory(3), received: 0 })).await;
            }
            connections.push(raw);
        }
    });
    let (first, mut second) = (group.start(1).await, group.start(2).await);
    let listening = tokio::spawn(async move {
        let mut expected = 1;
        while expected <= 10_000 {
            match second.next().await {
                ChatEvent::Heard { from: NodeId(1), number } => {
                    assert_eq!(number, expected);
                    expected += 1;
                }
                ChatEvent::Heard { .. } => panic!("nobody else speaks"),
                _ => {}
            }
        }
        second
    });
    let talking = async {
        for number in 1..=10_000 {
            first.say(2, number).await;
            first.say(3, number).await;
            assert!(first.node.status().peers[&NodeId(3)].waiting <= WAITING);
        }
    };
    timeout(PATIENCE, talking).await.expect("the slow peer must not stop the application");
    timeout(PATIENCE, listening).await.expect("nor the other peer").unwrap();
    let status = &first.node.status().peers[&NodeId(3)];
    assert!(status.dropped > 0, "{status:?}");
    third.abort();
}

/// So much was for a dead peer that it was dropped. When the peer turns out to be alive, both sides are told that the
/// channel was not reliable, before anything else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gap_is_told_on_both_sides() {
    let mut group = group();
    let (mut first, mut second) = (group.start(1).await, group.start(2).await);
    first.say(2, 1).await;
    assert_eq!(second.heard().await, (1, 1));
    first.node.cut(NodeId(2));
    assert_eq!(first.next().await, down(2, 1));
    for number in 2..WAITING as u64 + 100 {
        first.say(2, number).await;
    }
    // All of them are said and gone, those after the overflow too.
    first.until("all are said", |s| s.sent["Note"].count == WAITING as u64 + 99).await;
    assert!(first.node.status().peers[&NodeId(2)].dropped > WAITING as u64);
    assert_eq!(second.next().await, down(1, 1));
    first.node.heal(NodeId(2));
    assert_eq!(first.next().await, up(2, 1));
    first.say(2, 77).await;
    // Its own link may have been quicker than the news of the gap: then it trusted us for a moment.
    let mut told = vec![second.next().await];
    while !matches!(told.last(), Some(ChatEvent::Heard { .. })) {
        told.push(second.next().await);
    }
    let heard = ChatEvent::Heard { from: NodeId(1), number: 77 };
    let quick = [up(1, 1), heard.clone()];
    let slow = [up(1, 1), down(1, 1), up(1, 1), heard];
    assert!(told == quick || told == slow, "{told:?}");
}

/// The same while nobody had been suspected: the queue overflows faster than the detector thinks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gap_that_no_detector_saw_is_told_too() {
    let mut group = group();
    group.chat.ballast = 0;
    group.adjust = |config| {
        config.limits.queue_messages = 100;
        config.limits.high_water = 100;
        config.detector.at_least = Duration::from_secs(20);
    };
    let (mut first, mut second) = (group.start(1).await, group.start(2).await);
    first
        .until("connected", |s| s.peers[&NodeId(2)].connected_to && s.peers[&NodeId(2)].connected_from)
        .await;
    first.node.cut(NodeId(2));
    first.until("the link is closed", |s| !s.peers[&NodeId(2)].connected_to).await;
    for number in 0..101 {
        first.say(2, number).await;
    }
    assert_eq!(first.next().await, down(2, 1));
    first.node.heal(NodeId(2));
    assert_eq!(first.next().await, up(2, 1));
    first.say(2, 500).await;
    assert_eq!(second.next().await, down(1, 1));
    assert_eq!(second.next().await, up(1, 1));
    assert_eq!(second.heard().await, (1, 500));
}

/// Nothing of an earlier connection is answered by accident.
#[tokio::test]
async fn an_acknowledgement_of_what_was_never_sent_is_refused() {
    let mut group = group();
    let listener = group.listener(3).unwrap();
    listener.set_nonblocking(true).unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    let first = group.start(1).await;
    for received in [5, u64::MAX] {
        let (stream, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
        let mut raw = Raw::of(stream);
        raw.receive().await.unwrap();
        raw.send(&Frame::Welcome(Welcome {
            from: NodeId(3),
            life: Incarnation(1),
            directory: Directory(3),
            received,
        }))
        .await;
        let answer = raw.receive().await.unwrap();
        assert!(matches!(decode(&answer), Ok(Frame::Refusal(_))));
    }
    first.until("it is noted", |s| s.peers[&NodeId(3)].refused_by_us.is_some()).await;
}
