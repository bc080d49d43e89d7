use super::*;
use crate::testing::{Dice, World};
use alloc::string::String;
use alloc::vec::Vec;
use conclave_core::{Effect, Timing};

const HONEST: SinghalConfig = SinghalConfig { mutation: None };

fn entered(world: &World<Singhal>) -> Vec<u32> {
    let granted = world.events.iter().filter(|(_, event)| matches!(event, Event::Granted { .. }));
    granted.map(|(id, _)| id.0).collect()
}

/// The letters of a vector.
fn letters(views: &[View]) -> String {
    views.iter().map(|view| alloc::format!("{view:?}").remove(0)).collect()
}

fn numbers(views: &[View]) -> Vec<u64> {
    views.iter().map(|view| view.number).collect()
}

/// Of any two, one believes the other to be requesting. Between requests it may be that neither does, while the
/// request of one is in flight to the other.
fn assert_pairs(world: &World<Singhal>, context: &str) {
    let n = world.members.len();
    let believes = |a: usize, b: usize| world.processes[a].views[b].is_requesting();
    for (a, b) in (0..n).flat_map(|a| (0..a).map(move |b| (a, b))) {
        assert!(believes(a, b) || believes(b, a), "{context}: {a} and {b} would not ask each other");
    }
}

/// The worked example TV-G1: four processes, P3 asks the two above it and gets the token.
#[test]
fn book_tv_g1_the_staircase_turns() {
    let mut world = World::<Singhal>::numbered(4, &HONEST);
    let vectors = |world: &World<Singhal>| {
        world.processes.iter().map(|process| letters(&process.views)).collect::<Vec<_>>()
    };
    assert_eq!(vectors(&world), ["HNNN", "RNNN", "RRNN", "RRRN"]);
    world.request(3, Request::Acquire);
    assert_eq!(world.log(), ["p3 => p1 Request", "p3 => p2 Request"]);
    world.deliver(3, 1);
    world.deliver(3, 2);
    let (_, _, message) = world.in_flight().next().expect("the token is in flight");
    let Msg::Token(token) = message else { panic!("{message:?}") };
    assert_eq!((letters(&token.views), numbers(&token.views)), ("NNRN".into(), vec![0, 0, 1, 0]));
    world.drain();
    assert_eq!((entered(&world), world.sent.len()), (vec![3], 3));
    world.request(3, Request::Release);
    assert_eq!(vectors(&world), ["NNRN", "RNRN", "NNHN", "RRRN"]);
    let token = world.process(3).token.as_ref().expect("it stays");
    assert_eq!((letters(&token.views), numbers(&token.views)), ("NNNN".into(), vec![0, 0, 1, 0]));
    assert_pairs(&world, "TV-G1");
}

/// In any order of messages, with requests given up at any moment: whenever all is quiet, of any two processes one
/// would ask the other, and the vectors are a staircase.
#[test]
fn at_rest_the_vectors_are_a_staircase() {
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let n = 2 + dice.below(5) as u32;
        let mut world = World::<Singhal>::numbered(n, &HONEST);
        for _ in 0..30 {
            for _ in 0..dice.below(60) {
                let travelling = world.travelling();
                if !travelling.is_empty() && dice.below(3) > 0 {
                    let (from, to, count) = *dice.pick(&travelling);
                    world.deliver_nth(from, to, dice.below(count));
                } else {
                    let request = *dice.pick(&[Request::Acquire, Request::Release, Request::Cancel]);
                    world.request(dice.below(n as usize) as u32 + 1, request);
                }
            }
            settle(&mut world);
            assert_pairs(&world, &alloc::format!("seed {seed}"));
            let requesting = |process: &Singhal| process.views.iter().filter(|v| v.is_requesting()).count();
            let mut steps: Vec<_> = world.processes.iter().map(requesting).collect();
            steps.sort_unstable();
            assert!(steps.into_iter().eq(0..n as usize), "seed {seed}");
        }
    }
}

/// Lets everyone in who waits and out again, until nobody wants anything.
fn settle(world: &mut World<Singhal>) {
    loop {
        world.drain();
        let inside = world.members.iter().find(|id| world.process(id.0).doing() == Doing::Executing);
        let Some(inside) = inside else { break };
        world.request(inside.0, Request::Release);
    }
}

#[test]
fn a_token_that_nobody_wants_goes_on() {
    let mut world = World::<Singhal>::numbered(3, &HONEST);
    world.request(2, Request::Acquire);
    world.drain();
    for id in [1, 3] {
        world.request(id, Request::Acquire);
        world.drain();
    }
    world.request(3, Request::Cancel);
    world.request(2, Request::Release);
    world.drain();
    assert_eq!(entered(&world), [2, 1]);
    // Who wants again before the token comes has not asked in vain.
    let mut world = World::<Singhal>::numbered(2, &HONEST);
    for request in [Request::Acquire, Request::Cancel, Request::Acquire] {
        world.request(2, request);
    }
    world.drain();
    assert_eq!((entered(&world), world.sent.len()), (vec![2], 2));
}

/// The required scenario F8: a waiting process crashes, and then it would be its turn.
#[test]
fn book_f8_a_waiting_process_crashes() {
    let mut world = World::<Singhal>::numbered(4, &HONEST);
    world.request(1, Request::Acquire);
    for id in [2, 3] {
        world.request(id, Request::Acquire);
        world.drain();
    }
    world.crash(2);
    world.report(2);
    world.request(1, Request::Release);
    world.drain();
    assert_eq!(entered(&world), [1, 3]);
    world.request(3, Request::Release);
    assert_eq!(world.process(3).doing(), Doing::Holding);

    // It comes back, and asks everyone; first comes the token that its earlier life had asked for.
    world.revive(2, &HONEST, Incarnation::FIRST.next());
    for id in [1, 3, 4] {
        world.input(NodeId(id), Input::PeerUp { peer: NodeId(2), life: Incarnation::FIRST.next() });
    }
    world.drain();
    world.request(2, Request::Acquire);
    world.drain();
    assert_eq!(entered(&world), [1, 3, 2]);
    world.request(2, Request::Release);
    world.request(4, Request::Acquire);
    world.drain();
    assert_eq!(entered(&world), [1, 3, 2, 4]);
}

#[test]
fn a_token_of_the_wrong_size_is_rejected() {
    let mut world = World::<Singhal>::numbered(3, &HONEST);
    let token = |n, passes| Msg::Token(SinghalToken { passes, ..SinghalToken::new(Epoch::FIRST, n) });
    for (to, message) in [(2, token(2, 5)), (2, token(4, 5)), (1, token(3, 5))] {
        world.input(NodeId(to), Input::Receive { from: NodeId(3), message });
    }
    assert_eq!(world.rejects.len(), 3);
    assert!(world.process(2).token.is_none());
}

/// A group that is put together again needs no message to know who waits: all are served, the first one first, and
/// the staircase stands.
#[test]
fn a_rebuilt_group_serves_all_who_waited() {
    for seed in 0..400 {
        let mut dice = Dice(seed);
        let n = 1 + dice.below(6) as u32;
        let members = Members::listed((1..=n).map(|id| NodeId(3 * id)).collect::<Vec<_>>());
        let roll = Roll::any(&mut dice, &members);
        let mut world = World::<Singhal>::new(members.clone(), &HONEST, ());
        let mut effects: Vec<(NodeId, Effect<Singhal>)> = Vec::new();
        for (place, id) in members.iter().enumerate() {
            let (timing, life) = (Timing::default(), Incarnation(2));
            let boot = Boot { id, members: &members, config: &HONEST, timing, life, saved: None };
            let mut out = Vec::new();
            world.processes[place] = Singhal::rebuild(boot, &roll, &mut out);
            effects.extend(out.into_iter().map(|effect| (id, effect)));
        }
        let context = alloc::format!("seed {seed}: {roll:?}");
        assert_pairs(&world, &context);
        for (id, effect) in effects {
            match effect {
                Effect::Send { to, message } => world.input(to, Input::Receive { from: id, message }),
                Effect::Emit(event) => world.events.push((id, event)),
                other => panic!("{other:?}"),
            }
        }
        settle(&mut world);
        let waiting: Vec<_> = roll.waiting().iter().map(|stamp| stamp.process.0).collect();
        let mut served = entered(&world);
        assert_eq!(served.is_empty(), waiting.is_empty(), "{context}");
        if roll.inside().is_none() {
            assert_eq!(served.first(), waiting.first(), "{context}");
        }
        served.sort_unstable();
        let mut expected = waiting;
        expected.sort_unstable();
        assert_eq!(served, expected, "{context}");
        let tokens: Vec<_> = world.processes.iter().filter_map(Mutex::token).collect();
        assert_eq!((tokens, world.rejects.len()), (vec![roll.epoch], 0), "{context}");
        assert_pairs(&world, &context);
    }
}
