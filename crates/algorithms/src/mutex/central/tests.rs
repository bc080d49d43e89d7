use super::*;
use crate::Arena;
use crate::testing::World;
use alloc::vec::Vec;
use conclave_core::Incarnation;

fn config(given: &[(&str, &str)], mutant: Option<&str>, members: &Members) -> CentralConfig {
    let settings = Settings::new(&Central::ABOUT, Arena::Laboratory, given.iter().copied(), mutant);
    Central::configure(&settings.expect("declared settings"), members).expect("they fit")
}

fn entered(world: &World<Central>) -> Vec<u32> {
    let granted = world.events.iter().filter(|(_, event)| matches!(event, Event::Granted { .. }));
    granted.map(|(id, _)| id.0).collect()
}

/// The clients in the queue of the coordinator.
fn queue(world: &World<Central>, coordinator: u32) -> Vec<u32> {
    let desk = world.process(coordinator).desk.as_ref().expect("the coordinator keeps the books");
    desk.queue.iter().map(|rid| rid.client.0).collect()
}

/// The worked example TV-K1: three clients, who enter in the order in which their requests arrive.
#[test]
fn book_tv_k1_three_clients_and_a_queue() {
    let config = config(&[("variant", "queued")], None, &Members::numbered(4));
    let mut world = World::<Central>::numbered(4, &config);
    let mut queues = Vec::new();
    let moves = [
        (3, Request::Acquire),
        (1, Request::Acquire),
        (2, Request::Acquire),
        (3, Request::Release),
        (1, Request::Release),
        (2, Request::Release),
    ];
    for (id, request) in moves {
        world.request(id, request);
        world.drain();
        queues.push(queue(&world, 4));
    }
    assert_eq!(queues, [&[][..], &[1], &[1, 2], &[2], &[], &[]]);
    assert_eq!(entered(&world), [3, 1, 2]);
    let expected = [
        "p3 => p4 Request",
        "p4 => p3 Granted",
        "p1 => p4 Request",
        "p4 => p1 Queued",
        "p2 => p4 Request",
        "p4 => p2 Queued",
        "p3 => p4 Release",
        "p4 => p1 Granted",
        "p1 => p4 Release",
        "p4 => p2 Granted",
        "p2 => p4 Release",
    ];
    assert_eq!(world.log(), expected);
    assert_eq!(world.process(4).desk.as_ref().and_then(|desk| desk.holder), None);
}

/// The worked example TV-K2: a silent coordinator, two clients, six messages.
#[test]
fn book_tv_k2_a_silent_coordinator() {
    let config = config(&[], None, &Members::numbered(3));
    let mut world = World::<Central>::numbered(3, &config);
    for (id, request) in
        [(1, Request::Acquire), (2, Request::Acquire), (1, Request::Release), (2, Request::Release)]
    {
        world.request(id, request);
        world.drain();
    }
    let expected = [
        "p1 => p3 Request",
        "p3 => p1 Granted",
        "p2 => p3 Request",
        "p1 => p3 Release",
        "p3 => p2 Granted",
        "p2 => p3 Release",
    ];
    assert_eq!(world.log(), expected);
    assert_eq!(entered(&world), [1, 2]);
}

#[test]
fn the_coordinator_enters_for_nothing() {
    let config = config(&[("coordinator", "1")], None, &Members::numbered(3));
    let mut world = World::<Central>::numbered(3, &config);
    world.request(1, Request::Acquire);
    world.request(1, Request::Release);
    assert_eq!(entered(&world), [1]);
    assert!(world.sent.is_empty());
}

/// A release that gives a request up overtakes it: what is then granted comes back, and the lock is free again.
#[test]
fn a_grant_that_nobody_wants_is_handed_back() {
    let config = config(&[], None, &Members::numbered(2));
    let mut world = World::<Central>::numbered(2, &config);
    world.request(1, Request::Acquire);
    world.request(1, Request::Cancel);
    world.deliver_nth(NodeId(1), NodeId(2), 1);
    world.drain();
    assert_eq!(world.log(), ["p1 => p2 Request", "p1 => p2 Release", "p2 => p1 Granted", "p1 => p2 Release"]);
    assert_eq!(world.process(2).desk.as_ref().and_then(|desk| desk.holder), None);
}

#[test]
fn a_dead_client_loses_place_and_lock() {
    let config = config(&[], None, &Members::numbered(4));
    let mut world = World::<Central>::numbered(4, &config);
    for id in [1, 2, 3] {
        world.request(id, Request::Acquire);
        world.drain();
    }
    for peer in [2, 1].map(NodeId) {
        world.input(NodeId(4), Input::PeerDown { peer, life: Incarnation::FIRST });
        world.drain();
    }
    assert_eq!(entered(&world), [1, 3]);
}

#[test]
fn the_coordinator_must_be_a_member() {
    let settings = Settings::new(&Central::ABOUT, Arena::Live, [("coordinator", "7")], None);
    let refused = Central::configure(&settings.expect("a process id"), &Members::numbered(3));
    assert!(matches!(refused, Err(SettingError::Unfit(_))));
}

/// TV-K3, F6: p1 stays inside for long, and p2 waits. Silence proves nothing where a busy coordinator is silent; who
/// asks whether it is alive, or is answered, is not misled.
#[test]
fn book_tv_k3_silence_and_answers() {
    for (variant, watch, misled) in [
        ("silent", "impatient", true),
        ("silent", "ping", false),
        ("denied", "ping", false),
        ("queued", "ping", false),
    ] {
        let given = [("variant", variant), ("watch", watch)];
        let mut world = World::<Central>::numbered(4, &config(&given, None, &Members::numbered(4)));
        for id in [1, 2] {
            world.request(id, Request::Acquire);
            world.drain();
        }
        let mut waits = 0;
        while world.armed().contains(&(NodeId(2), CentralTimer::Answer)) && waits < 10 {
            world.expire(NodeId(2), CentralTimer::Answer);
            world.drain();
            waits += 1;
        }
        assert_eq!(world.process(2).suspected().is_some(), misled, "{variant} {watch}");
        // A dead one is found out by all of them.
        world.crash(4);
        for _ in 0..3 {
            if world.armed().contains(&(NodeId(2), CentralTimer::Answer)) {
                world.expire(NodeId(2), CentralTimer::Answer);
            }
        }
        assert_eq!(world.process(2).suspected(), Some(NodeId(4)), "{variant} {watch}");
    }
}
