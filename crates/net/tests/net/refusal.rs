//! Every mismatch is refused, and both sides know why.

use conclave_core::{Incarnation, NodeId};
use conclave_net::frame::{Frame, decode};
use conclave_net::hello::{Hello, WIRE};
use conclave_net::{NodeConfig, Options, Refusal, start};

use crate::chat::{Chat, ChatConfig};
use crate::group::{Group, until};
use crate::hostile::Raw;

type Change = fn(&mut NodeConfig);

/// Two nodes of which one is set up wrongly.
#[tokio::test]
async fn mismatches_are_refused_on_both_sides() {
    let cases: [(Change, Refusal); 3] = [
        (|config| config.cluster = "other".into(), Refusal::Cluster),
        (|config| config.protocol = "other".into(), Refusal::Protocol),
        (|config| config.version = 2, Refusal::Version),
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

fn hello() -> Hello {
    Hello {
        wire: WIRE,
        cluster: "test".into(),
        protocol: "chat".into(),
        version: 1,
        from: NodeId(2),
        to: NodeId(1),
        life: Incarnation(1),
        gap: None,
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
