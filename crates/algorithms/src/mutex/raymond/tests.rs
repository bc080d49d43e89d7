use super::*;
use crate::Arena;
use crate::testing::{Dice, World};
use alloc::vec;
use conclave_core::{Effect, Timing};

fn configured(given: &[(&str, &str)], members: &Members) -> Result<RaymondConfig, SettingError> {
    let settings = Settings::new(&Raymond::ABOUT, Arena::Live, given.iter().copied(), None);
    Raymond::configure(&settings.expect("declared settings"), members)
}

fn config(given: &[(&str, &str)], members: &Members) -> RaymondConfig {
    configured(given, members).expect("they fit")
}

/// Processes 1, 2, ..., n in a chain.
fn chain(n: u32) -> (World<Raymond>, RaymondConfig) {
    let config = config(&[("tree", "chain")], &Members::numbered(n));
    (World::numbered(n, &config), config)
}

fn entered(world: &World<Raymond>) -> Vec<u32> {
    let granted = world.events.iter().filter(|(_, event)| matches!(event, Event::Granted { .. }));
    granted.map(|(id, _)| id.0).collect()
}

fn holders(world: &World<Raymond>) -> Vec<Option<u32>> {
    world.processes.iter().map(|process| process.holder.map(|id| id.0)).collect()
}

fn queue(world: &World<Raymond>, id: u32) -> Vec<u32> {
    world.process(id).queue.iter().map(|id| id.0).collect()
}

/// The worked example TV-Y1: a chain of four, P3 asks, then P2, through whom its request has gone.
#[test]
fn book_tv_y1_two_requests_in_a_chain() {
    let members = Members::listed([0, 1, 2, 3].map(NodeId));
    let mut world = World::new(members.clone(), &config(&[("tree", "chain")], &members), ());
    assert_eq!(holders(&world), [Some(0), Some(0), Some(1), Some(2)]);
    world.request(3, Request::Acquire);
    world.deliver(3, 2);
    world.deliver(2, 1);
    world.request(2, Request::Acquire);
    assert_eq!((queue(&world, 1), queue(&world, 2), queue(&world, 3)), (vec![2], vec![3, 2], vec![3]));
    world.deliver(1, 0);
    assert_eq!(holders(&world), [Some(1), Some(0), Some(1), Some(2)]);
    world.deliver(0, 1);
    world.deliver(1, 2);
    assert_eq!((world.process(2).holder, queue(&world, 2)), (Some(NodeId(3)), vec![2]));
    world.drain();
    assert_eq!((entered(&world), queue(&world, 3)), (vec![3], vec![2]));
    world.request(3, Request::Release);
    world.drain();
    world.request(2, Request::Release);
    world.drain();
    let expected = [
        "p3 => p2 Request",
        "p2 => p1 Request",
        "p1 => p0 Request",
        "p0 => p1 Privilege",
        "p1 => p2 Privilege",
        "p2 => p3 Privilege",
        "p2 => p3 Request",
        "p3 => p2 Privilege",
    ];
    assert_eq!(world.log(), expected);
    assert_eq!(entered(&world), [3, 2]);
    assert_eq!(holders(&world), [Some(1), Some(2), Some(2), Some(2)]);
    assert!(world.processes.iter().all(|process| process.queue.is_empty() && !process.asked));
}

/// Crashes a process and brings it back; what its neighbours send meanwhile is lost.
fn restart(
    world: &mut World<Raymond>,
    config: &RaymondConfig,
    id: u32,
    meanwhile: impl Fn(&mut World<Raymond>),
) {
    world.crash(id);
    meanwhile(world);
    // All that the earlier life sent arrives before the new one asks.
    world.drain();
    world.revive(id, config, Incarnation::FIRST.next());
    world.drain();
    world.expire(NodeId(id), RaymondTimer::Drained);
    world.drain();
}

/// The required scenario F9: the inner process of a chain, through which all goes, crashes and comes back.
#[test]
fn book_f9_inner_node_restarts() {
    // The token is elsewhere, and both neighbours want it: one asked before, the other while it was down.
    let (mut world, config) = chain(5);
    world.request(1, Request::Acquire);
    world.request(5, Request::Acquire);
    world.drain();
    restart(&mut world, &config, 3, |world| world.request(4, Request::Acquire));
    assert_eq!(holders(&world), [Some(1), Some(1), Some(2), Some(3), Some(4)]);
    assert_eq!((queue(&world, 2), queue(&world, 3), queue(&world, 4)), (vec![3], vec![4], vec![5, 4]));
    assert!(world.process(3).asked, "p2 still has its request");
    world.request(1, Request::Release);
    world.drain();
    world.request(5, Request::Release);
    world.drain();
    assert_eq!(entered(&world), [1, 5, 4]);
    assert_eq!(world.process(4).epoch, Epoch::FIRST);

    // It was inside: the token is gone, and all point to it.
    let (mut world, config) = chain(3);
    world.request(2, Request::Acquire);
    world.drain();
    world.request(3, Request::Acquire);
    restart(&mut world, &config, 2, |world| world.request(1, Request::Acquire));
    let epoch = Epoch::FIRST.next(NodeId(2));
    assert_eq!(entered(&world), [2, 1]);
    assert_eq!((world.process(1).epoch, world.process(1).token()), (epoch, Some(epoch)));
    world.request(1, Request::Release);
    world.drain();
    assert_eq!(entered(&world), [2, 1, 3]);

    // The token was in flight to it.
    let (mut world, config) = chain(3);
    world.request(3, Request::Acquire);
    world.deliver(3, 2);
    world.deliver(2, 1);
    restart(&mut world, &config, 2, |_| {});
    assert_eq!(entered(&world), [3]);
    assert_eq!(world.process(3).token(), Some(epoch));
}

/// A token that reaches a process before its advice stays; one that comes after it was replaced counts for nothing.
#[test]
fn a_token_that_comes_during_recovery() {
    for early in [true, false] {
        let (mut world, config) = chain(2);
        world.request(2, Request::Acquire);
        world.crash(2);
        world.revive(2, &config, Incarnation::FIRST.next());
        world.request(2, Request::Acquire);
        // The request of the earlier life arrives, and the token goes to the new one.
        world.deliver(2, 1);
        if early {
            world.deliver(1, 2);
            assert_eq!(world.process(2).token(), Some(Epoch::FIRST));
        }
        world.expire(NodeId(2), RaymondTimer::Drained);
        world.deliver(2, 1);
        world.deliver_nth(NodeId(1), NodeId(2), usize::from(!early));
        assert_eq!(entered(&world), [2]);
        world.drain();
        let epoch = if early { Epoch::FIRST } else { Epoch::FIRST.next(NodeId(2)) };
        assert_eq!(world.process(2).token(), Some(epoch));
        assert_eq!(world.process(1).token(), None);
    }
}

/// Who wants advice from somebody who waits for advice gets it later.
#[test]
fn advice_is_given_when_it_can_be() {
    let (mut world, config) = chain(3);
    let life = Incarnation::FIRST.next();
    world.crash(2);
    world.revive(2, &config, life);
    world.expire(NodeId(2), RaymondTimer::Drained);
    world.deliver(2, 1);
    world.deliver(1, 2);
    world.crash(1);
    world.revive(1, &config, life);
    world.expire(NodeId(1), RaymondTimer::Drained);
    world.deliver(1, 2);
    assert_eq!(world.process(1).recovery.as_ref().map(|recovery| recovery.silent.len()), Some(1));
    world.drain();
    assert!(world.processes.iter().all(|process| process.recovery.is_none()));
    assert_eq!(holders(&world), [Some(1), Some(1), Some(2)]);
    assert_eq!(world.process(1).token(), Some(Epoch::FIRST.next(NodeId(1))));
}

#[test]
fn a_request_that_was_given_up_brings_the_token_all_the_same() {
    let (mut world, _) = chain(3);
    world.request(3, Request::Acquire);
    world.request(3, Request::Cancel);
    world.drain();
    assert_eq!((entered(&world), world.process(3).token()), (vec![], Some(Epoch::FIRST)));
    world.request(3, Request::Acquire);
    assert_eq!((entered(&world), world.sent.len()), (vec![3], 4));
}

#[test]
fn only_neighbours_may_speak_and_only_the_holder_has_the_token() {
    let (mut world, _) = chain(4);
    let token = Msg::Privilege { epoch: Epoch::FIRST, passes: 7, fence: FenceCounter::default() };
    for (to, from, message) in
        [(4, 1, Msg::Request), (2, 9, Msg::Request), (3, 3, Msg::Request), (2, 3, token)]
    {
        world.input(NodeId(to), Input::Receive { from: NodeId(from), message });
    }
    assert_eq!(world.rejects.len(), 4);
    assert!(world.sent.is_empty());
}

/// Whatever a neighbour says to one that recovers or does not, nobody panics and no queue grows beyond all bounds.
#[test]
fn arbitrary_advice_is_survived() {
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let (mut world, config) = chain(4);
        world.crash(2);
        world.revive(2, &config, Incarnation::FIRST.next());
        for _ in 0..60 {
            let life = Incarnation(dice.below(4) as u32);
            let epoch = Epoch { number: *dice.pick(&[0, 1, u64::MAX]), creator: NodeId(2) };
            let (fence, passes) = (FenceCounter::default(), *dice.pick(&[0, 1, 2, u64::MAX]));
            let [points_here, asked, queued] = [dice.below(2), dice.below(2), dice.below(2)].map(|x| x == 1);
            let message = match dice.below(4) {
                0 => Msg::Request,
                1 => Msg::Privilege { epoch, passes, fence },
                2 => Msg::Restart { life },
                _ => Msg::Advise { life, points_here, asked, queued, epoch, fence },
            };
            let (from, to) = (NodeId(dice.below(6) as u32), NodeId(dice.below(4) as u32 + 1));
            world.input(to, Input::Receive { from, message });
            if dice.below(10) == 0 && !world.armed().is_empty() {
                world.expire(NodeId(2), RaymondTimer::Drained);
            }
            let request = *dice.pick(&[Request::Acquire, Request::Release, Request::Cancel]);
            world.request(dice.below(4) as u32 + 1, request);
        }
        assert!(world.processes.iter().all(|process| process.queue.len() <= 3), "seed {seed}");
    }
}

/// A group that is put together again needs no message to know who waits: all are served, the first one first.
#[test]
fn a_rebuilt_group_serves_all_who_waited() {
    for seed in 0..400 {
        let mut dice = Dice(seed);
        let old = Members::numbered(9);
        let settings = [("tree", "chain"), ("tree", "star"), ("tree", "random"), ("arity", "3")];
        let settings = [*dice.pick(&settings)];
        let before = config(&settings, &old);
        let mut ids: Vec<_> = old.iter().filter(|_| dice.below(3) > 0).collect();
        ids.push(NodeId(30));
        let members = Members::listed(ids);
        let roll = Roll::any(&mut dice, &members);
        let mut world = World::new(members.clone(), &config(&settings, &members), ());
        let mut effects: Vec<(NodeId, Effect<Raymond>)> = Vec::new();
        for (place, id) in members.iter().enumerate() {
            let (timing, life) = (Timing::default(), Incarnation(2));
            let boot = Boot { id, members: &members, config: &before, timing, life, saved: None };
            let mut out = Vec::new();
            world.processes[place] = Raymond::rebuild(boot, &roll, &mut out);
            effects.extend(out.into_iter().map(|effect| (id, effect)));
        }
        let tokens = world.processes.iter().filter(|process| process.token().is_some()).count();
        assert!(effects.iter().all(|(id, _)| *id == roll.keeper()), "seed {seed}: {effects:?}");
        let passed = effects.iter().filter(|(_, effect)| match effect {
            Effect::Send { message, .. } => Raymond::token_in(message) == Some(roll.epoch),
            _ => false,
        });
        assert_eq!(tokens + passed.count(), 1, "seed {seed}");
        for (id, effect) in effects {
            match effect {
                Effect::Send { to, message } => world.input(to, Input::Receive { from: id, message }),
                Effect::Emit(event) => world.events.push((id, event)),
                other => panic!("{other:?}"),
            }
        }
        world.drain();
        let mut served: Vec<_> = roll.inside().map(|(id, _)| id.0).into_iter().collect();
        loop {
            let inside = members.iter().find(|id| world.process(id.0).state == State::Holding);
            let Some(inside) = inside else { break };
            world.request(inside.0, Request::Release);
            world.drain();
        }
        served.extend(entered(&world));
        let waiting: Vec<_> = roll.waiting().iter().map(|stamp| stamp.process.0).collect();
        assert_eq!(entered(&world).first(), waiting.first(), "seed {seed}: {roll:?}");
        served.sort_unstable();
        let mut expected: Vec<_> = roll.requests().iter().map(|stamp| stamp.process.0).collect();
        expected.sort_unstable();
        assert_eq!(served, expected, "seed {seed}: {roll:?}");
        assert!(world.rejects.is_empty(), "seed {seed}: {:?}", world.rejects);
    }
}

#[test]
fn trees_that_do_not_fit_are_refused_in_a_sentence() {
    let members = Members::numbered(3);
    let why = |given: &[(&str, &str)]| match configured(given, &members) {
        Err(SettingError::Unfit(why)) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(why(&[("tree", "given")]), "tree=given needs parents=CHILD:PARENT,...");
    assert_eq!(why(&[("parents", "2:1,3:1")]), "parents=2:1,3:1: that is for tree=given");
    let given = |parents| why(&[("tree", "given"), ("parents", parents)]);
    assert_eq!(given("2:1,3:4"), "parents=2:1,3:4: p4 is not a member");
    assert_eq!(given("2:3,3:2"), "parents=2:3,3:2: p2 would be its own ancestor");
    assert!(configured(&[("tree", "given"), ("parents", "1:3,2:3")], &members).is_ok());
}

/// A million processes fit: each is small, and the tree is stored once or not at all.
#[test]
fn a_process_is_small() {
    assert!(size_of::<Raymond>() <= 128, "{} bytes", size_of::<Raymond>());
}
