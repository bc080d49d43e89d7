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

/// Five processes by the literal rule; p3, p4 and p5 are dead, and nobody is told.
fn two_of_five(given: &[(&str, &str)]) -> World<Majority> {
    let given: Vec<_> = [("mode", "literal")].into_iter().chain(given.iter().copied()).collect();
    let members = Members::numbered(5);
    let config = config(&given, None, &members);
    let mut world = World::new(members, &config, ());
    for dead in [3, 4, 5] {
        world.crash(dead);
    }
    world
}

/// The worked example V-D5: two of five are left. Without signs of life p1 waits forever; with them it takes the silent for
/// dead, and enters with the vote of p2.
#[test]
fn book_v_d5_whoever_does_not_answer_is_dead() {
    let mut silent = two_of_five(&[("queued", "off")]);
    silent.request(1, Request::Acquire);
    silent.drain();
    assert!(entered(&silent).is_empty() && silent.armed().is_empty());

    let mut world = two_of_five(&[("queued", "on"), ("retries", "3")]);
    world.request(1, Request::Acquire);
    world.drain();
    for _ in 0..4 {
        assert!(entered(&world).is_empty());
        world.expire(NodeId(1), MajorityTimer::Backoff);
        world.drain();
    }
    assert_eq!(entered(&world), [1]);
    assert!(world.armed().is_empty());
    let count = |kind| world.sent.iter().filter(|(_, _, message)| message.kind() == kind).count();
    assert_eq!([count("Request"), count("Granted")], [4 + 3 * 3, 1]);
    // The dead are remembered: the next request counts without them from the start.
    world.request(1, Request::Release);
    world.request(1, Request::Acquire);
    world.deliver(1, 2);
    world.deliver(2, 1);
    assert_eq!(entered(&world), [1, 1]);
}

/// The worked example V-D6: the others are only slow, do the same, and both sides enter.
#[test]
fn book_v_d6_whoever_is_slow_is_not_dead() {
    let mut world = World::<Majority>::numbered(
        5,
        &config(&[("mode", "literal"), ("retries", "1")], None, &Members::numbered(5)),
    );
    world.request(1, Request::Acquire);
    world.request(5, Request::Acquire);
    // Each side answers among itself at once, and the other too late.
    let near = |from: u32, to: u32| (from <= 2) == (to <= 2);
    let settle = |world: &mut World<Majority>| {
        while let Some((from, to, _)) =
            world.travelling().into_iter().find(|(from, to, _)| near(from.0, to.0))
        {
            world.deliver_nth(from, to, 0);
        }
    };
    settle(&mut world);
    for _ in 0..2 {
        for id in [1, 5] {
            if world.armed().contains(&(NodeId(id), MajorityTimer::Backoff)) {
                world.expire(NodeId(id), MajorityTimer::Backoff);
                settle(&mut world);
            }
        }
    }
    assert_eq!(entered(&world), [1, 5], "both are inside");
}

#[test]
fn only_the_literal_rule_counts_without_the_silent() {
    for mode in ["voting", "view", "backoff"] {
        let given = [("mode", mode), ("retries", "3")];
        let settings = Settings::new(&Majority::ABOUT, Arena::Laboratory, given, None).expect("declared");
        assert!(Majority::configure(&settings, &Members::numbered(3)).is_err(), "{mode}");
    }
}

/// Without `Queued` everything goes on as with it, for fewer messages.
#[test]
fn a_busy_voter_may_say_nothing() {
    let messages = ["on", "off"].map(|queued| {
        let mut world = world(4, &[("queued", queued)], None);
        split_votes(&mut world);
        for id in [0, 1] {
            world.request(id, Request::Release);
            world.drain();
        }
        assert_eq!(entered(&world), [0, 1]);
        world.sent.iter().filter(|(_, _, message)| message.kind() == "Queued").count()
    });
    assert!(messages[0] > 0);
    assert_eq!(messages[1], 0);
}
