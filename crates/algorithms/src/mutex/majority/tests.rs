use super::*;
use crate::Arena;
use crate::testing::World;
use alloc::vec::Vec;

fn config(given: &[(&str, &str)], mutant: Option<&str>, members: &Members) -> MajorityConfig {
    let settings = Settings::new(&Majority::ABOUT, Arena::Laboratory, given.iter().copied(), mutant);
    Majority::configure(&settings.expect("declared settings"), members).expect("they fit")
}

fn entered(world: &World<Majority>) -> Vec<u32> {
    let granted = world.events.iter().filter(|(_, event)| matches!(event, Event::Granted { .. }));
    granted.map(|(id, _)| id.0).collect()
}

fn world(n: u32, given: &[(&str, &str)], mutant: Option<&str>) -> World<Majority> {
    let members = Members::listed((0..n).map(NodeId).collect::<Vec<_>>());
    let config = config(given, mutant, &members);
    World::new(members, &config, ())
}

/// The worked example TV-D1: by the literal rule, a voter of the first winner lets a second one in.
#[test]
fn book_tv_d1_the_literal_rule_is_unsafe_from_four_on() {
    let mut world = world(4, &[("mode", "literal")], None);
    world.request(1, Request::Acquire);
    for voter in [2, 3] {
        world.deliver(1, voter);
        world.deliver(voter, 1);
    }
    assert_eq!(entered(&world), [1]);
    world.request(3, Request::Acquire);
    for voter in [2, 0] {
        world.deliver(3, voter);
        world.deliver(voter, 3);
    }
    assert_eq!(entered(&world), [1, 3], "both are inside");
    let count = |kind| world.sent.iter().filter(|(_, _, message)| message.kind() == kind).count();
    assert_eq!([count("Request"), count("Granted")], [6, 4]);
}

/// P0 and P1 ask at once; P2 hears P0 first, P3 hears P1 first.
fn split_votes(world: &mut World<Majority>) {
    world.request(0, Request::Acquire);
    world.request(1, Request::Acquire);
    world.deliver(0, 2);
    world.deliver(1, 3);
    world.drain();
}

/// The worked example TV-D2: two votes each, three needed, and nobody gives in.
#[test]
fn book_tv_d2_split_votes_without_recall_are_a_dead_end() {
    let mut world = world(4, &[], Some("no-recall"));
    split_votes(&mut world);
    assert!(entered(&world).is_empty());
    assert!(world.travelling().is_empty() && world.armed().is_empty());
}

/// The same with recall: the smaller stamp wins, then the other.
#[test]
fn book_tv_d2_split_votes_are_recalled() {
    let mut world = world(4, &[], None);
    split_votes(&mut world);
    assert_eq!(entered(&world), [0]);
    world.request(0, Request::Release);
    world.drain();
    assert_eq!(entered(&world), [0, 1]);
}

/// The same with backoff: who loses patience first gives way.
#[test]
fn split_votes_end_when_somebody_backs_off() {
    let mut world = world(4, &[("mode", "backoff")], None);
    split_votes(&mut world);
    assert!(entered(&world).is_empty());
    world.expire(NodeId(0), MajorityTimer::Backoff);
    world.drain();
    assert_eq!(entered(&world), [1]);
    world.request(1, Request::Release);
    world.drain();
    assert_eq!(entered(&world), [1, 0]);
    assert!(world.armed().is_empty());
}
