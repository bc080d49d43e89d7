//! What is said of a service that no majority of its nodes answers for, and when one does again.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tonic::codegen::http::uri::PathAndQuery;

use crate::hostile::runtime;
use crate::nodes::Service;
use crate::talker::channel;
use crate::until;

/// Several times as long as two election timeouts, for a machine that has much else to do.
const SOON: Duration = Duration::from_secs(5);

#[derive(Clone, PartialEq, prost::Message)]
struct HealthRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct HealthResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

const SERVING: [i32; 2] = [1, 1];
const NOT_SERVING: [i32; 2] = [2, 2];

/// What the health service of a node says of the node as a whole, and of its service.
fn health(service: &Service, id: u64) -> Vec<i32> {
    runtime().block_on(async {
        let mut words = Vec::new();
        for name in ["", "conclave.v1.Conclave"] {
            let mut grpc = tonic::client::Grpc::new(channel(service.address(id)).await);
            grpc.ready().await.expect("it listens");
            let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
            let codec = tonic_prost::ProstCodec::<HealthRequest, HealthResponse>::default();
            let request = tonic::Request::new(HealthRequest { service: name.to_owned() });
            words.push(grpc.unary(request, path, codec).await.expect("it answers").into_inner().status);
        }
        words
    })
}

/// Waits until the service says, everywhere, that nobody is served; these words stand in the table.
#[track_caller]
fn is_not_served(service: &Service, survivor: u64, words: &str) {
    let begun = Instant::now();
    until("it is not healthy", || health(service, survivor) == NOT_SERVING);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    // Nodes that stand still take a connection, and never say anything.
    let one = format!("status --connect-wait 500ms --endpoints {}", service.address(survivor));
    until("nobody is served", || {
        let status = service.conclave(&one);
        status.code == 1 && status.out.contains("not served") && status.out.contains(words)
    });
    let status = service.conclave(&format!("{one} --json")).ends(1).json().remove(0);
    assert_eq!(status["served"], false, "{status}");
}

#[test]
fn a_follower_that_is_left_alone_says_so() {
    let mut service = Service::three();
    let (leader, followers) = service.roles();
    let survivor = followers[0];
    until("it is healthy", || health(&service, survivor) == SERVING);
    let others: Vec<u64> = service.ids().into_iter().filter(|id| *id != survivor).collect();
    service.kill(leader);
    others.iter().filter(|id| **id != leader).for_each(|id| service.kill(*id));
    is_not_served(&service, survivor, "no leader: no majority answers (1 of 3)");
    let failed = service.conclave("show a --connect-wait 100ms").ends(123);
    assert!(failed.err.contains("1 of 3 nodes answers, which is no majority"), "{}", failed.err);
    others.iter().for_each(|id| service.run(*id));
    service.is_served();
    until("it is healthy", || health(&service, survivor) == SERVING);
    until("everybody says so", || service.conclave("status").code == 0);
    service.shell("lock a", "exit 0").ends(0);
}

#[test]
fn a_leader_whose_followers_stand_still_says_so() {
    let service = Service::three();
    let (leader, followers) = service.roles();
    followers.iter().for_each(|id| service.signal(*id, Signal::STOP));
    // Asked at once, it may still say that it leads; what counts is what it says when all had their time to answer.
    let status = service.conclave("status --connect-wait 2s").ends(1);
    assert!(status.out.contains("leads, but no majority answers (1 of 3)"), "{}", status.out);
    is_not_served(&service, leader, "leads, but no majority answers (1 of 3)");
    followers.iter().for_each(|id| service.signal(*id, Signal::CONT));
    service.is_served();
    until("it is healthy", || health(&service, leader) == SERVING);
    service.shell("lock a", "exit 0").ends(0);
}

/// A follower hears its leader as before, and has to be told that it is served no longer.
#[test]
fn a_follower_of_a_leader_without_a_majority_says_so() {
    let mut service = Service::five();
    let (leader, followers) = service.roles();
    let (survivor, others) = followers.split_first().expect("there are four");
    for id in [*survivor, leader] {
        until("it is healthy", || health(&service, id) == SERVING);
    }
    others.iter().for_each(|id| service.kill(*id));
    is_not_served(&service, *survivor, "follows a leader that no majority answers");
    is_not_served(&service, leader, "leads, but no majority answers (2 of 5)");
    service.run(others[0]);
    service.is_served();
    until("it is healthy", || health(&service, *survivor) == SERVING);
}

#[test]
fn one_of_three_nodes_is_no_loss_and_a_new_cluster_waits_for_all() {
    let mut service = Service::absent(3);
    service.run(1);
    until("it listens", || service.log(1).contains("listening"));
    is_not_served(&service, 1, "waits for nodes 2, 3 (first start)");
    let failed = service.shell("lock a --connect-wait 200ms", "exit 0").ends(123);
    assert!(!failed.err.is_empty());
    let failed = service.conclave("ls --connect-wait 200ms").ends(123);
    assert!(failed.err.contains("waits for nodes 2, 3 (first start)"), "{}", failed.err);
    service.run(2);
    service.run(3);
    service.is_settled();
    let follower = service.followers()[0];
    service.kill(follower);
    let watched = Instant::now();
    // Long enough for every patience to run out: the others go on as if nothing had been.
    until("some time has passed", || watched.elapsed() > Duration::from_secs(2));
    until("it is served", || service.conclave("status").code == 0);
}

/// Whoever lost its directory has to hear from every other node first.
#[test]
fn a_node_that_lost_its_directory_says_that_it_catches_up() {
    let mut service = Service::three();
    service.shell("lock a", "exit 0").ends(0);
    let (_, followers) = service.roles();
    let [robbed, other] = followers[..] else { panic!("three nodes") };
    followers.iter().for_each(|id| service.kill(*id));
    std::fs::remove_dir_all(service.data(robbed)).expect("it has data");
    service.run(robbed);
    let line = format!("status --connect-wait 500ms --endpoints {}", service.address(robbed));
    until("it says so", || service.conclave(&line).out.contains(" catching up"));
    until("nobody is served", || service.conclave(&line).code == 1);
    service.run(other);
    service.is_settled();
    assert_eq!(service.show("a")["history"].as_array().map(Vec::len), Some(1));
}
