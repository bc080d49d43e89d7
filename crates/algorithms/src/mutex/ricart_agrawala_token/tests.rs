//! Ricart and Agrawala's second algorithm under test.

use super::*;
use crate::Arena;
use crate::testing::World;
use alloc::vec::Vec;
use conclave_core::Incarnation;

fn config(mutant: Option<&str>) -> RicartAgrawalaTokenConfig {
    let settings = Settings::new(&RicartAgrawalaToken::ABOUT, Arena::Laboratory, [], mutant);
    let members = Members::numbered(2);
    RicartAgrawalaToken::configure(&settings.expect("declared"), &members).expect("they fit")
}

fn world(n: u32) -> World<RicartAgrawalaToken> {
    World::numbered(n, &config(None))
}

fn entered(world: &World<RicartAgrawalaToken>) -> Vec<u32> {
    let granted = world.events.iter().filter(|(_, event)| matches!(event, Event::Granted { .. }));
    granted.map(|(id, _)| id.0).collect()
}

/// Every token that was sent: from, to, what it said.
fn tokens(world: &World<RicartAgrawalaToken>) -> Vec<(u32, u32, Vec<u64>)> {
    let token = |(from, to, message): &(NodeId, NodeId, Msg)| match message {
        Msg::Token(token) => Some((from.0, to.0, token.departures.to_vec())),
        Msg::Request { .. } => None,
    };
    world.sent.iter().filter_map(token).collect()
}

/// The worked example TV-S1: p3 asks before p2, but p2 comes first after p1.
#[test]
fn book_tv_s1_the_search_goes_round_from_the_one_who_leaves() {
    let mut world = world(3);
    world.request(1, Request::Acquire);
    for id in [3, 2] {
        world.request(id, Request::Acquire);
        world.drain();
    }
    assert_eq!(world.process(1).clock.time(), 4);
    assert_eq!(*world.process(1).request, [0, 3, 1]);
    for id in [1, 2, 3] {
        world.request(id, Request::Release);
        world.drain();
    }
    assert_eq!(entered(&world), [1, 2, 3]);
    assert_eq!(tokens(&world), [(1, 2, [4, 0, 0].into()), (2, 3, [4, 3, 0].into())]);
    assert_eq!(world.sent.len(), 6, "4 requests and 2 tokens");
    assert!(matches!(world.process(3).state, State::TokenPresent(_)));
}

/// The worked example TV-S2: p1 passes the token on and asks again before its clock has moved.
#[test]
fn book_tv_s2_without_a_tick_a_request_looks_served() {
    for (mutant, expected) in [(None, &[2, 1][..]), (Some("no-tick"), &[2])] {
        let mut world = World::<RicartAgrawalaToken>::numbered(2, &config(mutant));
        world.processes[1].clock.witness(5);
        for (id, request) in [(2, Request::Acquire), (2, Request::Release), (1, Request::Acquire)] {
            world.request(id, request);
            world.drain();
        }
        assert_eq!(entered(&world), expected, "{mutant:?}");
    }
}

#[test]
fn the_token_at_hand_costs_nothing() {
    let mut world = world(3);
    for request in [Request::Acquire, Request::Release, Request::Acquire] {
        world.request(1, request);
    }
    assert_eq!(entered(&world), [1, 1]);
    assert!(world.sent.is_empty());
}

/// The token comes for a request that was given up: it goes on, and the next request is a new one.
#[test]
fn a_token_that_nobody_wants_any_more_goes_on() {
    let mut world = world(3);
    world.request(2, Request::Acquire);
    world.deliver(2, 1);
    world.request(2, Request::Cancel);
    world.request(3, Request::Acquire);
    world.drain();
    assert_eq!(entered(&world), [3]);
    assert_eq!(tokens(&world).len(), 2);
    world.request(2, Request::Acquire);
    world.drain();
    world.request(3, Request::Release);
    world.drain();
    assert_eq!(entered(&world), [3, 2]);
}

#[test]
fn a_copy_of_the_token_is_no_second_token() {
    let mut world = world(2);
    world.request(2, Request::Acquire);
    world.deliver(2, 1);
    world.duplicate(NodeId(1), NodeId(2), 0);
    world.duplicate(NodeId(1), NodeId(2), 0);
    world.deliver(1, 2);
    // One copy while we are inside, the other when the token has gone.
    world.deliver(1, 2);
    world.request(1, Request::Acquire);
    world.deliver(1, 2);
    world.request(2, Request::Release);
    world.drain();
    assert_eq!((entered(&world), world.rejects.len()), ([2, 1].into(), 0));
    assert_eq!(world.process(2).state, State::NoToken { wanted: false });
}

#[test]
fn forged_tokens_are_rejected() {
    let token = |epoch, departures: &[u64]| Token {
        epoch,
        fence: FenceCounter::default(),
        departures: departures.into(),
    };
    let later = Epoch::FIRST.next(NodeId(2));
    for (to, forged) in [
        (1, token(Epoch::FIRST, &[7, 0])),
        (2, token(Epoch::FIRST, &[0, 0])),
        (2, token(Epoch::FIRST, &[])),
        (2, token(Epoch::FIRST, &[0, 0, 0])),
        (2, token(later, &[0, 0])),
    ] {
        let mut world = world(2);
        let message = Msg::Token(forged.clone());
        world.input(NodeId(to), Input::Receive { from: NodeId(3 - to), message });
        assert_eq!(world.rejects.len(), 1, "{forged:?}");
        assert_eq!(world.process(2).token(), None);
    }
}

#[test]
fn the_dead_are_passed_over_until_they_are_back() {
    let (peer, life) = (NodeId(2), Incarnation::FIRST);
    let mut world = world(3);
    world.request(1, Request::Acquire);
    for id in [2, 3] {
        world.request(id, Request::Acquire);
        world.drain();
    }
    world.report(2);
    world.request(1, Request::Release);
    world.drain();
    world.request(3, Request::Release);
    world.drain();
    assert_eq!(entered(&world), [1, 3]);
    world.input(NodeId(3), Input::PeerUp { peer, life });
    world.drain();
    assert_eq!(entered(&world), [1, 3, 2]);
}

/// Whoever restarts asks with larger stamps than its old life can have reached; the clocks of the others stay what
/// they are, so that they can do the same.
#[test]
fn a_new_life_is_not_taken_for_the_old_one() {
    let mut world = world(2);
    for life in [2, 3] {
        world.request(2, Request::Acquire);
        world.drain();
        world.request(2, Request::Release);
        world.request(1, Request::Acquire);
        world.drain();
        world.request(1, Request::Release);
        world.crash(2);
        world.input(NodeId(1), Input::PeerDown { peer: NodeId(2), life: Incarnation(life - 1) });
        world.revive(2, &config(None), Incarnation(life));
    }
    world.request(2, Request::Acquire);
    world.drain();
    assert_eq!(entered(&world), [2, 1, 2, 1, 2]);
    assert!(world.process(1).clock.time() < 20);
}
