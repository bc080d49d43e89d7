//! What a node writes of itself: what changes, once.

use std::time::{Duration, Instant};

use crate::nodes::Service;
use crate::until;

#[test]
fn a_node_that_is_down_is_told_once_and_so_is_its_return() {
    let mut service = Service::absent(3);
    service.run(1);
    until("it waits", || service.log(1).contains("waits for nodes 2, 3 (first start)"));
    assert!(service.log(1).contains("listening") && !service.log(1).contains("ready"), "{}", service.log(1));
    service.run(2);
    service.run(3);
    service.is_settled();
    let (leader, followers) = service.roles();
    for id in service.ids() {
        until(&format!("node {id} is ready"), || service.log(id).contains(" ready"));
    }
    for follower in &followers {
        let leads = format!("node {leader} leads (term ");
        until(&format!("node {follower} says who leads"), || service.log(*follower).contains(&leads));
    }
    let (gone, other) = (followers[0], followers[1]);
    let lines = |service: &Service, id| service.log(id).lines().count();
    let before = [lines(&service, leader), lines(&service, other)];
    service.kill(gone);
    until("it is missed", || service.log(leader).contains(&format!("node {gone} does not answer")));
    let missed = Instant::now();
    until("some time has passed", || missed.elapsed() > Duration::from_secs(2));
    service.run(gone);
    let back = format!("node {gone} answers again (after ");
    until("it is back", || service.log(leader).contains(&back));
    let after = [lines(&service, leader), lines(&service, other)];
    // An election in between is possible where the machine is slow, and takes a few lines.
    for (before, after) in before.iter().zip(after) {
        assert!(after - before < 12, "{}\n---\n{}", service.log(leader), service.log(other));
    }
}

#[test]
fn nodes_that_lose_their_majority_say_so() {
    let mut service = Service::three();
    let (leader, followers) = service.roles();
    followers.iter().for_each(|id| service.kill(*id));
    until("it says so", || service.log(leader).contains("no majority answers: nothing can be granted"));
    followers.iter().for_each(|id| service.run(*id));
    service.is_served();
    let now = service.leader().expect("it is served");
    let survivor = followers[0];
    service.ids().into_iter().filter(|id| *id != survivor).for_each(|id| service.kill(id));
    if now != survivor {
        until("it says so", || service.log(survivor).contains("no leader: no majority answers"));
    }
}

#[test]
fn the_filter_of_the_log_can_be_chosen_and_a_wrong_one_is_told() {
    let mut service = Service::absent(1);
    let mut command = service.serve(1);
    command.env("CONCLAVE_LOG", "bogus=xx");
    service.run_by(1, command);
    service.is_served();
    assert!(service.log(1).contains("CONCLAVE_LOG is not a filter"), "{}", service.log(1));
    service.kill(1);
    let said = service.log(1).len();
    let mut command = service.serve(1);
    command.env("CONCLAVE_LOG", "error");
    service.run_by(1, command);
    service.is_served();
    assert_eq!(service.log(1).len(), said, "{}", service.log(1));
}
