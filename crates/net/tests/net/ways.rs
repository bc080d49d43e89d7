//! Ways between processes: a broken one is gone round, names are looked up, and who is heard by somebody is not dead.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use conclave_core::{Incarnation, NodeId};
use conclave_net::certificate::{generate, in_dir};
use conclave_net::{Options, Resolver, start};
use tokio::time::{sleep, timeout};

use crate::chat::{Chat, ChatConfig};
use crate::group::{Group, Member, down, up};

/// A group in which nobody is taken for dead because the machine is busy.
fn patient(n: u32) -> Group {
    let mut group = Group::new(n);
    group.adjust = |config| config.detector.at_least = Duration::from_secs(1);
    group
}

/// Cuts the link between two on both sides.
fn cut(members: &[Member], one: u32, other: u32) {
    let cut = |at: u32, peer: u32| members[at as usize - 1].node.cut(NodeId(peer));
    assert!(cut(one, other) && cut(other, one));
}

fn heal(members: &[Member], one: u32, other: u32) {
    let heal = |at: u32, peer: u32| members[at as usize - 1].node.heal(NodeId(peer));
    assert!(heal(one, other) && heal(other, one));
}

async fn via(member: &Member, peer: u32, carrier: Option<u32>) {
    let wanted = carrier.map(NodeId);
    member
        .until("its connection is carried so", |status| {
            let status = &status.peers[&NodeId(peer)];
            status.connected_to && status.via == wanted
        })
        .await;
}

/// Two talk over a link that is cut, for several times as long as makes a suspect, and hear nothing but each other.
async fn a_cut_link_is_gone_round(members: &mut [Member]) {
    for member in members.iter() {
        member.until_connected().await;
    }
    cut(members, 1, 2);
    for number in 1..=60 {
        members[0].say(2, number).await;
        members[1].say(1, number).await;
        assert_eq!(members[1].heard().await, (1, number));
        assert_eq!(members[0].heard().await, (2, number));
        sleep(Duration::from_millis(50)).await;
    }
    via(&members[0], 2, Some(3)).await;
    via(&members[1], 1, Some(3)).await;
    heal(members, 1, 2);
    via(&members[0], 2, None).await;
    via(&members[1], 1, None).await;
    members[0].say(2, 61).await;
    assert_eq!(members[1].heard().await, (1, 61));
}

#[tokio::test]
async fn a_link_that_is_cut_parts_nobody() {
    let mut group = patient(3);
    let mut members = group.start_all().await;
    a_cut_link_is_gone_round(&mut members).await;
}

/// Both ends show each other their certificates: who carries the connection cannot speak for them.
#[tokio::test]
async fn certificates_go_round_as_well() {
    let mut group = patient(3);
    let dir = tempfile::tempdir().unwrap();
    generate(dir.path(), "test", &[NodeId(1), NodeId(2), NodeId(3)]).unwrap();
    let mut members = Vec::new();
    for id in 1..=3 {
        let mut config = group.config(id);
        config.tls = Some(in_dir(dir.path(), NodeId(id)));
        let options = Options { listener: group.listener(id), ..Options::default() };
        let (node, events) = start::<Chat>(config, ChatConfig::default(), options).await.unwrap();
        members.push(Member { node, events });
    }
    a_cut_link_is_gone_round(&mut members).await;
}

/// As long as one hears it, none takes it for dead; when none does, all do.
#[tokio::test]
async fn who_is_heard_by_nobody_is_dead_for_all() {
    let mut group = patient(4);
    let mut members = group.start_all().await;
    for member in &members {
        member.until_connected().await;
    }
    cut(&members, 1, 4);
    cut(&members, 2, 4);
    via(&members[0], 4, Some(3)).await;
    via(&members[1], 4, Some(3)).await;
    members[0].say(4, 1).await;
    assert_eq!(members[3].heard().await, (1, 1));
    cut(&members, 3, 4);
    for member in &mut members[..3] {
        assert_eq!(member.next().await, down(4, 1));
    }
    heal(&members, 2, 4);
    for member in &mut members[..3] {
        assert_eq!(member.next().await, up(4, 1));
    }
}

/// Whoever carries a connection dies: nobody else does.
#[tokio::test]
async fn another_carries_on() {
    let mut group = patient(4);
    let mut members = group.start_all().await;
    for member in &members {
        member.until_connected().await;
    }
    cut(&members, 1, 2);
    via(&members[0], 2, Some(3)).await;
    via(&members[1], 1, Some(3)).await;
    members.remove(2).node.kill().await.unwrap();
    for member in &mut members {
        assert_eq!(member.next().await, down(3, 1));
    }
    via(&members[0], 2, Some(4)).await;
    via(&members[1], 1, Some(4)).await;
    members[0].say(2, 1).await;
    assert_eq!(members[1].heard().await, (1, 1));
}

/// Where hosts are, as far as anybody knows.
#[derive(Clone, Default)]
struct Hosts(Arc<Mutex<BTreeMap<String, IpAddr>>>);

impl Hosts {
    fn put(&self, name: &str, address: [u8; 4]) {
        self.0.lock().unwrap().insert(name.to_owned(), address.into());
    }

    fn resolver(&self) -> Resolver {
        let hosts = self.clone();
        Resolver::new(move |name| match hosts.0.lock().unwrap().get(name) {
            Some(address) => Ok(vec![*address]),
            None => Err(io::Error::other("nobody knows it")),
        })
    }
}

/// A process that was found under a name moves to another address, and is found under its name again.
#[tokio::test]
async fn a_name_is_looked_up_for_every_connection() {
    let mut group = Group::new(2);
    let hosts = Hosts::default();
    let port = group.address(2).port();
    let mut config = group.config(1);
    config.peers[1].1 = format!("two.lab:{port}").parse().unwrap();
    let options = Options { listener: group.listener(1), resolver: hosts.resolver(), ..Options::default() };
    let (node, events) = start::<Chat>(config, ChatConfig::default(), options).await.unwrap();
    let mut first = Member { node, events };
    let why = "the name 'two.lab' cannot be looked up: nobody knows it";
    first.until("it says so", |s| s.peers[&NodeId(2)].unnamed.as_deref() == Some(why)).await;

    hosts.put("two.lab", [127, 0, 0, 1]);
    let second = group.start(2).await;
    first.until("it is found", |s| s.peers[&NodeId(2)].connected_to).await;
    assert_eq!(first.node.status().peers[&NodeId(2)].unnamed, None);
    second.until_connected().await;
    second.node.kill().await.unwrap();
    assert_eq!(first.next().await, down(2, 1));

    hosts.put("two.lab", [127, 0, 0, 2]);
    let there: SocketAddr = ([127, 0, 0, 2], port).into();
    let options = Options { listener: Some(TcpListener::bind(there).unwrap()), ..Options::default() };
    let (node, events) = start::<Chat>(group.config(2), ChatConfig::default(), options).await.unwrap();
    let mut second = Member { node, events };
    assert_eq!(first.next().await, up(2, 2));
    first.say(2, 7).await;
    assert_eq!(second.heard().await, (1, 7));
}

/// Who has so much to do that it does not listen takes nobody for dead because of that.
#[tokio::test]
async fn who_does_not_listen_suspects_nobody() {
    let mut group = Group::new(2);
    group.adjust = |config| {
        config.limits.events = 1;
        config.limits.inbox = 1;
    };
    let mut first = group.start(1).await;
    let mut second = group.start(2).await;
    for number in 1..=5_000 {
        second.say(1, number).await;
    }
    // Nobody takes what the first has to tell: it stops reading.
    sleep(Duration::from_millis(1_500)).await;
    for number in 1..=5_000 {
        assert_eq!(first.heard().await, (2, number));
    }
    first.say(2, 1).await;
    assert_eq!(second.heard().await, (1, 1));
}

/// A first life that has met somebody waits until it could have been told that it does not belong.
#[tokio::test]
async fn who_is_met_is_given_time_to_answer() {
    let mut group = Group::new(2);
    group.adjust = |config| {
        config.looks_around = true;
        config.timing.transmission = Duration::from_secs(2);
    };
    let mut first = group.start(1).await;
    first.node.request(crate::chat::ChatRequest::Wake { name: 1, after_ms: 0 }).await.unwrap();
    let _second = group.start(2).await;
    first.until("they have met", |status| status.peers[&NodeId(2)].life == Some(Incarnation(1))).await;
    let early = timeout(Duration::from_millis(300), first.events.recv()).await;
    assert!(early.is_err(), "{early:?}");
    assert_eq!(first.next().await, crate::chat::ChatEvent::Woken(1));
}
