//! Worked examples of recovery, driven by hand.

use alloc::vec::Vec;

use conclave_core::{Incarnation, Input, Members, NodeId, Phase, Protocol};

use super::{AssemblyTimer, Recovering};
use crate::led::LedTimer;
use crate::mutex::{Central, Epoch, Event, Fence, Majority, Mutex, RicartAgrawala, TokenRing};
use crate::mutex::{Guard, Properties, Request};
use crate::testing::World;
use crate::{Algorithm, Arena, Settings};

type Group<A> = World<Recovering<A>, Properties>;

fn group<A: Mutex + Algorithm>(n: u32, given: &[(&str, &str)], mutant: Option<&str>) -> Group<A> {
    let members = Members::numbered(n);
    let settings = Settings::new(&A::ABOUT, Arena::Laboratory, given.iter().copied(), mutant);
    let config =
        Recovering::<A>::configure(&settings.expect("declared settings"), &members).expect("they fit");
    let judge = Properties::new::<Recovering<A>>(&config, &members, 1, None);
    World::new(members, &config, judge)
}

/// Who was let in, in order, and with which fence.
fn entries<A: Mutex + Algorithm>(world: &Group<A>) -> Vec<(u32, Fence)> {
    let granted = world.events.iter().filter_map(|(id, event)| match event {
        Event::Granted { fence } => Some((id.0, *fence)),
        _ => None,
    });
    granted.collect()
}

fn order<A: Mutex + Algorithm>(world: &Group<A>) -> Vec<u32> {
    entries(world).iter().map(|(id, _)| *id).collect()
}

/// Delivers among these until nothing more travels between them; what crosses the cut waits.
fn drain_among<A: Mutex + Algorithm>(world: &mut Group<A>, side: &[u32]) {
    let inside = |id: NodeId| side.contains(&id.0);
    while let Some((from, to, _)) =
        world.travelling().into_iter().find(|(from, to, _)| inside(*from) && inside(*to))
    {
        world.deliver_nth(from, to, 0);
    }
}

fn suspect<A: Mutex + Algorithm>(world: &mut Group<A>, at: u32, peer: u32) {
    let life = Incarnation::FIRST;
    world.input(NodeId(at), Input::PeerDown { peer: NodeId(peer), life });
}

fn epoch_of<A: Mutex + Algorithm>(world: &Group<A>, id: u32) -> Epoch {
    world.process(id).application().epoch()
}

fn expire_all<A: Mutex + Algorithm>(world: &mut Group<A>, id: u32, timer: &AssemblyTimer<A::Timer>) {
    let timer = LedTimer::Application(timer.clone());
    if world.armed().contains(&(NodeId(id), timer.clone())) {
        world.expire(NodeId(id), timer);
    }
}

/// The coordinator dies while p3 is inside and p1 and p2 wait: p5 takes over its books, and the order is kept.
#[test]
fn book_tv_k4_a_new_coordinator_keeps_holder_and_queue() {
    for variant in ["silent", "denied", "queued"] {
        let mut world = group::<Central>(6, &[("variant", variant)], None);
        for id in [3, 1, 2] {
            world.request(id, Request::Acquire);
            world.drain();
        }
        world.crash(6);
        world.report(6);
        world.drain();
        assert_eq!(order(&world), [3], "{variant}: who was inside is not let in again");
        assert_eq!(epoch_of(&world, 1), Epoch { number: 1, creator: NodeId(5) });
        for id in [3, 1, 2] {
            world.request(id, Request::Release);
            world.drain();
        }
        assert_eq!(order(&world), [3, 1, 2], "{variant}");
        assert_eq!(world.observer.violation(), None);
    }
}

/// The mutant that does not take over who waits lets them wait forever.
#[test]
fn a_failover_that_forgets_the_queue_is_caught() {
    let mut world = group::<Central>(4, &[], Some("failover-forgets-queue"));
    for id in [3, 1] {
        world.request(id, Request::Acquire);
        world.drain();
    }
    world.crash(4);
    world.report(4);
    world.drain();
    world.request(3, Request::Release);
    world.drain();
    world.observer.end(world.step(), crate::Ending::Quiet);
    assert_eq!(world.observer.violation().expect("p1 waits forever").property, "ME2");
}

/// F1: the coordinator dies while nobody wants anything. F3: it dies with a grant in flight, which is void.
#[test]
fn book_f1_f3_coordinator_dies_idle_or_with_a_grant_on_its_way() {
    let mut world = group::<Central>(4, &[], None);
    world.crash(4);
    world.report(4);
    world.drain();
    world.request(1, Request::Acquire);
    world.drain();
    assert_eq!(entries(&world)[0].1.epoch, Epoch { number: 1, creator: NodeId(3) });

    let mut world = group::<Central>(4, &[], None);
    world.request(1, Request::Acquire);
    world.deliver(1, 4);
    world.crash(4);
    world.report(4);
    // The new reign reaches p1 first, the grant of the old one comes too late.
    drain_among(&mut world, &[1, 2, 3]);
    assert_eq!(order(&world), [1]);
    world.drain();
    assert_eq!(order(&world), [1], "the old grant counts for nothing");
    assert_eq!(world.observer.violation(), None);
}

/// F4, F5: whoever is inside, or waits, dies; the next is let in, with a larger fence.
#[test]
fn book_f4_f5_holder_and_waiter_die() {
    let mut world = group::<RicartAgrawala>(4, &[], None);
    for id in [1, 2, 3] {
        world.request(id, Request::Acquire);
        world.drain();
    }
    for dead in [1, 2] {
        world.crash(dead);
        world.report(dead);
        world.drain();
    }
    let entries = entries(&world);
    assert_eq!(entries.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(entries[0].1 < entries[1].1 && entries[1].1 < entries[2].1);
    assert_eq!(world.observer.violation(), None);
}

/// Two leaders at once: one of the epochs comes to nothing, whatever the order of the messages.
#[test]
fn two_who_call_the_roll_do_not_both_succeed() {
    for first in [[2, 3], [3, 2]] {
        let mut world = group::<RicartAgrawala>(4, &[], None);
        world.request(1, Request::Acquire);
        world.drain();
        world.crash(4);
        for at in first {
            suspect(&mut world, at, 4);
        }
        world.request(2, Request::Acquire);
        suspect(&mut world, 1, 4);
        world.drain();
        let epochs: Vec<_> = (1..=3).map(|id| epoch_of(&world, id)).collect();
        assert!(epochs.iter().all(|epoch| *epoch == epochs[0]), "{epochs:?}");
        assert_eq!(world.process(2).phase(), Phase::WAITING);
        world.request(1, Request::Release);
        world.drain();
        assert_eq!(order(&world), [1, 2]);
        assert_eq!(world.observer.violation(), None);
    }
}

/// A process that left does not come back by itself; the others go on.
#[test]
fn a_member_leaves() {
    let mut world = group::<RicartAgrawala>(3, &[], None);
    world.request(2, Request::Acquire);
    world.drain();
    world.request(2, Request::Leave);
    assert!(world.events.contains(&(NodeId(2), Event::Refused(Request::Leave))), "not from inside");
    world.request(2, Request::Release);
    for leaver in [2, 3] {
        world.request(leaver, Request::Leave);
        world.drain();
        assert!(world.events.contains(&(NodeId(leaver), Event::Left)));
    }
    world.request(1, Request::Acquire);
    world.drain();
    assert_eq!(order(&world), [2, 1]);
}

/// TV-D4: p1 is inside with the votes of 1, 2 and 3; 2 and 3 die. p4 is not let in, because p1 says that it is inside.
#[test]
fn book_tv_d4_a_view_knows_who_is_inside() {
    let mut world = group::<Majority>(5, &[("mode", "view")], None);
    world.request(1, Request::Acquire);
    world.drain();
    assert_eq!(order(&world), [1]);
    for dead in [2, 3] {
        world.crash(dead);
        world.report(dead);
    }
    world.drain();
    world.request(4, Request::Acquire);
    world.drain();
    assert_eq!(order(&world), [1]);
    world.request(1, Request::Release);
    world.drain();
    assert_eq!(order(&world), [1, 4]);
    assert_eq!(world.observer.violation(), None);
}

/// The shrinking mutant in the same place lets p4 in: perfect knowledge of crashes is not enough.
#[test]
fn book_tv_d4_shrinking_lets_two_in() {
    let members = Members::numbered(5);
    let settings =
        Settings::new(&Majority::ABOUT, Arena::Laboratory, [], Some("shrinking")).expect("declared");
    let config = Majority::configure(&settings, &members).expect("they fit");
    let mut world = World::<Majority, _>::new(
        members.clone(),
        &config,
        Properties::new::<Majority>(&config, &members, 1, None),
    );
    world.request(1, Request::Acquire);
    for voter in [2, 3] {
        world.deliver(1, voter);
        world.deliver(voter, 1);
        world.crash(voter);
    }
    world.report(2);
    world.report(3);
    world.request(4, Request::Acquire);
    world.deliver(4, 5);
    world.deliver(5, 4);
    assert_eq!(world.observer.violation().expect("both are inside").property, "ME1");
}

/// TV-D3: {1, 2} and {3, 4, 5} do not hear each other. The minority stands still, and p1, which is inside there, has to leave
/// when its lease is over; the majority goes on after that, and not before.
#[test]
fn book_tv_d3_a_minority_stands_still() {
    let mut world = group::<Majority>(5, &[("mode", "view")], None);
    world.request(1, Request::Acquire);
    world.drain();
    for at in [1, 2] {
        for peer in [3, 4, 5] {
            suspect(&mut world, at, peer);
        }
    }
    for at in [3, 4, 5] {
        for peer in [1, 2] {
            suspect(&mut world, at, peer);
        }
    }
    world.request(4, Request::Acquire);
    drain_among(&mut world, &[1, 2]);
    drain_among(&mut world, &[3, 4, 5]);
    assert_eq!(epoch_of(&world, 1), Epoch::FIRST);
    assert_eq!(epoch_of(&world, 4), Epoch::FIRST, "somebody who was left out may be inside");

    // The lease of p1 is shorter than what p5 waits.
    for id in [1, 1, 1] {
        expire_all(&mut world, id, &AssemblyTimer::Renew);
    }
    expire_all(&mut world, 1, &AssemblyTimer::Lease);
    assert!(matches!(world.events.last(), Some((NodeId(1), Event::Lost { .. }))));
    expire_all(&mut world, 5, &AssemblyTimer::Quarantine);
    drain_among(&mut world, &[3, 4, 5]);
    assert_eq!(order(&world), [1, 4]);
    assert_eq!(epoch_of(&world, 3), Epoch { number: 1, creator: NodeId(5) });
    assert_eq!(epoch_of(&world, 2), Epoch::FIRST, "two of five decide nothing");
    assert_eq!(world.observer.violation(), None);
}

/// A minority of the voters crashes: the rest goes on. A majority: it stands still.
#[test]
fn book_f13_majorities_decide() {
    let mut world = group::<Majority>(5, &[("mode", "view")], None);
    for dead in [5, 4] {
        world.crash(dead);
        world.report(dead);
        world.drain();
        // Whoever was left out might have been inside, for all that the others know.
        let leader = world.process(1).application().leader().expect("the highest has won").0;
        expire_all(&mut world, leader, &AssemblyTimer::Quarantine);
        world.drain();
    }
    world.request(2, Request::Acquire);
    world.drain();
    assert_eq!(order(&world), [2]);
    world.request(2, Request::Release);
    world.drain();
    for dead in [3, 2] {
        world.crash(dead);
        world.report(dead);
        world.drain();
    }
    world.request(1, Request::Acquire);
    world.drain();
    assert_eq!(order(&world), [2], "one of three decides nothing");
}

/// Whether the resource was found to serve one entry at a time.
fn is_one_at_a_time(judge: &Properties) -> bool {
    let judged = judge.judgements();
    let found = judged.iter().find(|judgement| judgement.property == "RES").expect("it is judged");
    matches!(found.finding, crate::Finding::Held(_))
}

/// TV-F1, F16: p1 is inside and is taken for dead, p2 is let in, and p1 goes on to write. The fence stops it; without it
/// the two entries are mixed up.
#[test]
fn book_tv_f1_a_wrong_suspicion_is_stopped_by_the_fence() {
    for (guard, protected) in [(Guard::Fence, true), (Guard::None, false)] {
        let mut world = group::<Central>(3, &[], None);
        world.observer = world.observer.clone().guarded_by(guard);
        world.request(1, Request::Acquire);
        world.drain();
        for at in [2, 3] {
            suspect(&mut world, at, 1);
        }
        world.request(2, Request::Acquire);
        drain_among(&mut world, &[2, 3]);
        assert_eq!(order(&world), [1, 2], "both are inside");
        world.request(1, Request::Release);
        assert_eq!(world.observer.refused_entries(), u64::from(protected));
        assert_eq!(is_one_at_a_time(&world.observer), protected, "{guard:?}");
        assert_eq!(world.observer.violation().map(|v| v.property), (!protected).then_some("RES"));
    }
}

/// Two who were let in at once may have counted to the same number: without the process in it, the fence tells nothing.
#[test]
fn a_fence_without_the_process_is_caught() {
    for (guard, protected) in [(Guard::Fence, true), (Guard::FenceWithoutProcess, false)] {
        let members = Members::numbered(5);
        let settings =
            Settings::new(&Majority::ABOUT, Arena::Laboratory, [], Some("shrinking")).expect("declared");
        let config = Majority::configure(&settings, &members).expect("they fit");
        let judge = Properties::new::<Majority>(&config, &members, 1, None).guarded_by(guard);
        let mut world = World::<Majority, _>::new(members, &config, judge);
        world.request(1, Request::Acquire);
        world.request(4, Request::Acquire);
        for voter in [2, 3] {
            world.deliver(1, voter);
            world.deliver(voter, 1);
        }
        for peer in [2, 3] {
            world.input(NodeId(4), Input::PeerDown { peer: NodeId(peer), life: Incarnation::FIRST });
        }
        world.deliver(4, 5);
        world.deliver(5, 4);
        let phases = [1, 4].map(|id| world.process(id).phase());
        assert_eq!(phases, [Phase::HOLDING; 2], "both are inside");
        world.request(1, Request::Release);
        world.request(4, Request::Release);
        assert_eq!(is_one_at_a_time(&world.observer), protected, "{guard:?}");
    }
}

/// Only the leader takes p3 for dead, and its link to p3 is broken: p3, which is inside, hears from p1 that it is left out.
#[test]
fn who_is_left_out_hears_it_from_every_member_that_hears_it() {
    for teller in [1, 2, 4] {
        let mut world = group::<RicartAgrawala>(5, &[], None);
        world.request(3, Request::Acquire);
        world.drain();
        suspect(&mut world, 5, 3);
        drain_among(&mut world, &[1, 2, 4, 5]);
        assert!(epoch_of(&world, teller) > epoch_of(&world, 3));
        assert_eq!(world.process(3).phase(), Phase::HOLDING);
        drain_among(&mut world, &[teller, 3]);
        assert_eq!(world.process(3).phase(), Phase::IDLE);
        assert!(
            world.events.iter().any(|(id, event)| *id == NodeId(3) && matches!(event, Event::Lost { .. }))
        );
    }
}

/// The ring raises epochs by itself, and the leader need not have heard of it: its own epoch is later all the same.
#[test]
fn a_new_epoch_is_later_than_all_that_the_algorithm_began() {
    let mut world = group::<TokenRing>(4, &[("handoff", "acked"), ("tries", "1")], None);
    for (from, raised) in [(1, 3), (3, 1)] {
        let handoff = world.armed().into_iter().find(|(id, timer)| {
            *id == NodeId(from) && matches!(timer, LedTimer::Application(AssemblyTimer::Part(_)))
        });
        let (id, timer) = handoff.expect("it waits for an acknowledgement");
        world.expire(id, timer);
        let way = (NodeId(from), NodeId(raised));
        while world.travelling().iter().any(|(from, to, _)| (*from, *to) == way) {
            world.deliver(from, raised);
        }
    }
    let heard = world.process(1).application().part().expect("a member").epoch_seen();
    assert_eq!(heard, Epoch { number: 2, creator: NodeId(3) });
    world.crash(2);
    suspect(&mut world, 4, 2);
    // The token circulates forever, so that everybody has to get its turn.
    for _ in 0..50 {
        for (from, to, _) in world.travelling() {
            world.deliver_nth(from, to, 0);
        }
    }
    assert!([1, 3, 4].into_iter().all(|id| epoch_of(&world, id) > heard));
    assert_eq!(world.observer.violation(), None);
}
