//! Every mismatch is refused, and both sides know why.

use conclave_core::{Incarnation, NodeId};
use conclave_net::frame::{Frame, decode};
use conclave_net::hello::{Hello, WIRE};
use conclave_net::secret::{Nonce, Side};
use conclave_net::{Directory, NodeConfig, Options, Refusal, Secret, start};

use crate::chat::{Chat, ChatConfig};
use crate::group::{Group, until};
use crate::hostile::Raw;

type Change = fn(&mut NodeConfig);

/// Two nodes of which one is set up wrongly.
#[tokio::test]
async fn mismatches_are_refused_on_both_sides() {
    let cases: [(Change, Refusal); 6] = [
        (|config| config.cluster = "other".into(), Refusal::Cluster),
        (|config| config.protocol = "other".into(), Refusal::Protocol),
        (|config| config.version = 2, Refusal::Version),
        (|config| config.settings = "quorum=grid".into(), Refusal::Settings),
        (|config| config.timing.transmission *= 2, Refusal::Timing),
        (|config| config.peers.reverse(), Refusal::Ring),
    ];
    for (change, reason) in cases {
        let mut group = Group::new(2);
        let first = group.start(1).await;
        let mut config = group.config(2);
        change(&mut config);
        let options = Options { listener: group.listener(2), ..Options::default() };
        let (second, _events) = start::<Chat>(config, ChatConfig::default(), options).await.unwrap();
        until("both know the reason", || {
            [(&first.node, 2), (&second, 1)].iter().all(|(node, peer)| {
                let status = &node.status().peers[&NodeId(*peer)];
                status.refused_by_it == Some(reason) && status.refused_by_us == Some(reason)
            })
        })
        .await;
    }
}

/// A text as the files of a group have it.
const SECRET: &str = "as long as it has to be";

/// Whoever does not know the secret is refused, and has no say in who lives: the real node is not taken for an old life of
/// the one that a stranger made up.
#[tokio::test]
async fn a_stranger_without_the_secret_has_no_say() {
    let mut group = Group::new(2);
    group.adjust = |config| config.secret = Secret::new(SECRET);
    let mut first = group.start(1).await;
    for _ in 0..3 {
        let mut raw = Raw::connect(group.address(1)).await;
        let hello = Hello { life: Incarnation(4_000_000_000), ..hello() };
        raw.send(&Frame::Hello(hello.clone())).await;
        let answer = raw.receive().await.unwrap();
        let Ok(Frame::Challenge { nonce, .. }) = decode(&answer) else { panic!("{answer:?}") };
        let guessed = Secret::new("as long as it had to be").unwrap();
        raw.send(&Frame::Proof(guessed.prove(Side::Connects, &hello, nonce))).await;
        assert_eq!(decode(&raw.receive().await.unwrap()), Ok(Frame::Refusal(Refusal::Secret)));
    }
    let second = group.start(2).await;
    second.say(1, 5).await;
    assert_eq!(first.heard().await, (2, 5));
    assert_eq!(first.node.status().peers[&NodeId(2)].life, Some(Incarnation(1)));
}

/// Two nodes of which the second knows another secret, or none.
#[tokio::test]
async fn nodes_with_different_secrets_do_not_talk() {
    let secrets =
        [(Some(SECRET), Some("another one of such length")), (Some(SECRET), None), (None, Some(SECRET))];
    for (one, other) in secrets {
        let mut group = Group::new(2);
        let mut nodes = Vec::new();
        for (id, secret) in [(1, one), (2, other)] {
            let mut config = group.config(id);
            config.secret = secret.and_then(Secret::new);
            let options = Options { listener: group.listener(id), ..Options::default() };
            nodes.push(start::<Chat>(config, ChatConfig::default(), options).await.unwrap());
        }
        until("both know the reason", || {
            [(&nodes[0].0, 2), (&nodes[1].0, 1)].iter().all(|(node, peer)| {
                let status = &node.status().peers[&NodeId(*peer)];
                [status.refused_by_it, status.refused_by_us].contains(&Some(Refusal::Secret))
            })
        })
        .await;
    }
}

fn hello() -> Hello {
    Hello {
        wire: WIRE,
        cluster: "test".into(),
        protocol: "chat".into(),
        version: 1,
        from: NodeId(2),
        to: NodeId(1),
        life: Incarnation(1),
        directory: Directory(2),
        terms: crate::hostile::terms(2),
        nonce: Nonce::default(),
        gap: None,
        onward: None,
        via: None,
    }
}

/// What no node of ours would say.
#[tokio::test]
async fn hellos_that_no_node_says_are_refused_with_their_reason() {
    type Change = fn(&mut Hello);
    let cases: [(Change, Refusal); 6] = [
        (|hello| hello.wire = 77, Refusal::Wire),
        (|hello| hello.from = NodeId(9), Refusal::Stranger),
        (|hello| hello.from = NodeId(1), Refusal::Myself),
        (|hello| hello.to = NodeId(2), Refusal::Destination),
        (|hello| hello.life = Incarnation(0), Refusal::StaleLife),
        (|hello| hello.cluster = "x".repeat(3_000), Refusal::Cluster),
    ];
    let mut group = Group::new(2);
    let first = group.start(1).await;
    for (number, (change, reason)) in (1..).zip(cases) {
        let mut hello = hello();
        change(&mut hello);
        let mut raw = Raw::connect(group.address(1)).await;
        raw.send(&Frame::Hello(hello)).await;
        assert_eq!(decode(&raw.receive().await.unwrap()), Ok(Frame::Refusal(reason)));
        assert!(raw.receive().await.is_none(), "the connection is closed after {reason:?}");
        first.until("it is counted", |status| status.complaints >= number).await;
    }
}
