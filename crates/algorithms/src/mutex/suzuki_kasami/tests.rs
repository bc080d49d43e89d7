//! Suzuki and Kasami's algorithm under test.

use super::*;
use crate::Arena;
use crate::testing::World;
use alloc::vec::Vec;
use conclave_core::Incarnation;

fn config() -> SuzukiKasamiConfig {
    let settings = Settings::new(&SuzukiKasami::ABOUT, Arena::Laboratory, [], None);
    SuzukiKasami::configure(&settings.expect("declared"), &Members::numbered(3)).expect("they fit")
}

fn world(n: u32) -> World<SuzukiKasami> {
    World::numbered(n, &config())
}

fn entered(world: &World<SuzukiKasami>) -> Vec<u32> {
    let granted = world.events.iter().filter(|(_, event)| matches!(event, Event::Granted { .. }));
    granted.map(|(id, _)| id.0).collect()
}

/// What the last token that was sent said: to whom it went, LN, Q.
fn last_token(world: &World<SuzukiKasami>) -> (u32, Vec<u64>, Vec<u32>) {
    let token = |(_, to, message): &(NodeId, NodeId, Msg)| match message {
        Msg::Token(token) => Some((to.0, token.ln.to_vec(), token.queue.iter().map(|id| id.0).collect())),
        Msg::Request { .. } => None,
    };
    world.sent.iter().rev().find_map(token).expect("a token was sent")
}

/// The worked example TV-SK1: p3 and p1 ask while p2 is inside, and are queued in the order of the members.
#[test]
fn book_tv_sk1_the_queue_travels_with_the_token() {
    let mut world = world(3);
    for id in [2, 3, 1] {
        world.request(id, Request::Acquire);
        world.drain();
    }
    assert_eq!(last_token(&world), (2, [0, 0, 0].into(), [].into()));
    world.request(2, Request::Release);
    world.drain();
    assert_eq!(last_token(&world), (3, [0, 1, 0].into(), [1].into()));
    world.request(3, Request::Release);
    world.drain();
    assert_eq!(last_token(&world), (1, [0, 1, 1].into(), [].into()));
    world.request(1, Request::Release);
    let State::Idle(token) = &world.process(1).state else { panic!("p1 keeps the token") };
    assert_eq!((&*token.ln, token.queue.len()), (&[1, 1, 1][..], 0));
    assert_eq!(entered(&world), [2, 3, 1]);
    assert_eq!(world.sent.len(), 9, "6 requests and 3 tokens");
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

/// A request arrives when it has long been served: the token stays.
#[test]
fn an_outdated_request_is_ignored() {
    let mut world = world(3);
    world.request(2, Request::Acquire);
    world.deliver(2, 1);
    world.deliver(1, 2);
    world.request(2, Request::Release);
    world.request(3, Request::Acquire);
    world.deliver(3, 2);
    world.deliver_nth(NodeId(2), NodeId(3), 1);
    world.request(3, Request::Release);
    world.drain();
    assert_eq!(entered(&world), [2, 3]);
    assert_eq!(world.process(3).rn[1], 1);
    assert_eq!(last_token(&world), (3, [0, 1, 0].into(), [].into()));
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
    assert_eq!(last_token(&world), (3, [0, 1, 0].into(), [].into()));
    world.request(2, Request::Acquire);
    world.drain();
    world.request(3, Request::Release);
    world.drain();
    assert_eq!(entered(&world), [3, 2]);
}

/// Requests that were given up leave a gap: the next is two more than the last that was served.
#[test]
fn a_gap_in_the_numbers_is_no_obstacle() {
    let mut world = world(2);
    world.request(1, Request::Acquire);
    for request in [Request::Acquire, Request::Cancel, Request::Acquire] {
        world.request(2, request);
        world.drain();
    }
    world.request(1, Request::Release);
    world.drain();
    assert_eq!(entered(&world), [1, 2]);
    assert_eq!(world.process(1).rn[1], 2);
    assert_eq!(last_token(&world).1, [0, 0]);
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
    assert_eq!(world.process(2).state, State::Without { wanted: false });
}

#[test]
fn forged_tokens_are_rejected() {
    let token = |epoch, ln: &[u64], queue: &[u32]| Token {
        epoch,
        fence: FenceCounter::default(),
        ln: ln.into(),
        queue: queue.iter().copied().map(NodeId).collect(),
    };
    let later = Epoch::FIRST.next(NodeId(2));
    for (to, forged) in [
        (1, token(Epoch::FIRST, &[7, 0], &[])),
        (2, token(Epoch::FIRST, &[0, 0], &[])),
        (2, token(Epoch::FIRST, &[], &[])),
        (2, token(Epoch::FIRST, &[0, 0, 0], &[])),
        (2, token(Epoch::FIRST, &[0, 0], &[1, 1])),
        (2, token(later, &[0, 0], &[])),
    ] {
        let mut world = world(2);
        let message = Msg::Token(forged.clone());
        world.input(NodeId(to), Input::Receive { from: NodeId(3 - to), message });
        assert_eq!(world.rejects.len(), 1, "{forged:?}");
        assert_eq!(world.process(2).token(), None);
    }
}

/// The queue of a token may name anybody; it goes to none but the others.
#[test]
fn the_queue_is_not_believed() {
    let mut world = world(4);
    world.request(2, Request::Acquire);
    let queue = [2, 9, 4].into_iter().map(NodeId).collect();
    let token = Token { queue, ..Token::new(Epoch::FIRST, &Members::numbered(4)) };
    world.input(NodeId(2), Input::Receive { from: NodeId(1), message: Msg::Token(token) });
    world.request(2, Request::Release);
    assert_eq!(last_token(&world).0, 4);
}

#[test]
fn the_dead_are_left_out_until_they_are_back() {
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

/// Who is in the queue when it is reported down is taken out by whoever has the token then.
#[test]
fn the_dead_lose_their_place_in_the_queue() {
    let mut world = world(4);
    world.request(1, Request::Acquire);
    for id in [2, 3, 4] {
        world.request(id, Request::Acquire);
        world.drain();
    }
    world.request(1, Request::Release);
    world.drain();
    assert_eq!(last_token(&world).2, [3, 4]);
    world.crash(3);
    world.report(3);
    world.request(2, Request::Release);
    world.drain();
    assert_eq!(last_token(&world), (4, [0, 1, 0, 0].into(), [].into()));
}

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
        world.revive(2, &config(), Incarnation(life));
    }
    world.request(2, Request::Acquire);
    world.drain();
    assert_eq!(entered(&world), [2, 1, 2, 1, 2]);
    assert_eq!(world.process(1).rn[1], (2 << 32) + 1);
}
