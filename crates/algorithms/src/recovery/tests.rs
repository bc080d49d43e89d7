//! Worked examples of recovery, driven by hand.

use alloc::vec::Vec;

use conclave_core::{Incarnation, Input, Members, Message as _, NodeId, Phase, Protocol};

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
        expire_all(&mut world, id, &AssemblyTimer::Renew(()));
    }
    expire_all(&mut world, 1, &AssemblyTimer::Lease(()));
    assert!(matches!(world.events.last(), Some((NodeId(1), Event::Lost { .. }))));
    expire_all(&mut world, 5, &AssemblyTimer::Quarantine);
    drain_among(&mut world, &[3, 4, 5]);
    assert_eq!(order(&world), [1, 4]);
    assert_eq!(epoch_of(&world, 3), Epoch { number: 1, creator: NodeId(5) });
    assert_eq!(epoch_of(&world, 2), Epoch::FIRST, "two of five decide nothing");
    assert_eq!(world.observer.violation(), None);
}

/// Whoever was inside may have been inside for somebody who lives on, such as a program. Back at once, it is called with all
/// the others; nobody gets in before its lease is over.
#[test]
fn a_member_that_has_come_back_may_have_a_lease() {
    for back in [1, 3] {
        let mut world = group::<Majority>(3, &[("mode", "view")], None);
        world.request(back, Request::Acquire);
        world.drain();
        world.crash(back);
        world.report(back);
        let settings = Settings::new(&Majority::ABOUT, Arena::Laboratory, [("mode", "view")], None);
        let settings = settings.expect("declared settings");
        let config = Recovering::<Majority>::configure(&settings, &Members::numbered(3)).expect("they fit");
        world.revive(back, &config, Incarnation(2));
        for at in [1, 2, 3].into_iter().filter(|at| *at != back) {
            let up = Input::PeerUp { peer: NodeId(back), life: Incarnation(2) };
            world.input(NodeId(at), up);
        }
        world.drain();
        world.request(2, Request::Acquire);
        world.drain();
        assert_eq!(order(&world), [back], "p{back} may still be inside");
        for leader in [1, 2, 3] {
            expire_all(&mut world, leader, &AssemblyTimer::Quarantine);
        }
        world.drain();
        assert_eq!(order(&world), [back, 2]);
    }
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
            *id == NodeId(from) && matches!(timer, LedTimer::Application(AssemblyTimer::Part(..)))
        });
        let (id, timer) = handoff.expect("it waits for an acknowledgement");
        world.expire(id, timer);
        let way = (NodeId(from), NodeId(raised));
        while world.travelling().iter().any(|(from, to, _)| (*from, *to) == way) {
            world.deliver(from, raised);
        }
    }
    let heard = world.process(1).application().part(&()).expect("a member").epoch_seen();
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

/// Delivers the oldest message of this kind between these two.
fn deliver_one<A: Mutex + Algorithm>(world: &mut Group<A>, from: u32, to: u32, kind: &str) {
    let way = (NodeId(from), NodeId(to));
    let between = world.in_flight().filter(|(from, to, _)| (*from, *to) == way);
    let kinds: Vec<_> = between.map(|(_, _, message)| message.kind()).collect();
    let nth = kinds.iter().position(|other| *other == kind);
    let nth = nth.unwrap_or_else(|| panic!("no {kind} is on its way from p{from} to p{to}"));
    world.deliver_nth(way.0, way.1, nth);
}

/// Delivers among these until nothing more travels between them but messages of this kind.
fn drain_but<A: Mutex + Algorithm>(world: &mut Group<A>, side: &[u32], kind: &str) {
    let is_inside = |id: NodeId| side.contains(&id.0);
    let next = |world: &Group<A>| {
        let inside = world.in_flight().filter(|(from, to, _)| is_inside(*from) && is_inside(*to));
        let named: Vec<_> = inside.map(|(from, to, message)| (from.0, to.0, message.kind())).collect();
        named.into_iter().find(|(_, _, other)| *other != kind)
    };
    while let Some((from, to, kind)) = next(world) {
        deliver_one(world, from, to, kind);
    }
}

/// Of five, {1, 2, 3} take the others for dead, and p3 puts its roll to the vote: p2 has accepted it, and p1 is about to.
fn half_way_through_a_vote(mutant: Option<&str>) -> Group<Majority> {
    let mut world = group::<Majority>(5, &[("mode", "view")], mutant);
    for at in [1, 2, 3] {
        for peer in [4, 5] {
            suspect(&mut world, at, peer);
        }
    }
    drain_among(&mut world, &[1, 2, 3]);
    expire_all(&mut world, 3, &AssemblyTimer::Quarantine);
    deliver_one(&mut world, 3, 2, "Accept");
    deliver_one(&mut world, 2, 3, "Accepted");
    world
}

/// From now on p1 hears {4, 5}, and the three take p2 and p3 for dead: p5 calls the roll, waits for as long as a lease may last,
/// and puts it to the vote.
fn change_sides(world: &mut Group<Majority>) {
    for peer in [4, 5] {
        let up = Input::PeerUp { peer: NodeId(peer), life: Incarnation::FIRST };
        world.input(NodeId(1), up);
    }
    for at in [5, 4, 1] {
        for peer in [2, 3] {
            suspect(world, at, peer);
        }
    }
    drain_among(world, &[1, 4, 5]);
    expire_all(world, 5, &AssemblyTimer::Quarantine);
}

/// The roll of p3 was chosen, and p1, which has accepted it, tells p5 so: p5 has to propose it again. A roll of its own would
/// let p4 in beside p3.
#[test]
fn what_a_majority_may_have_chosen_is_proposed_again() {
    for (mutant, entered, broken) in [(None, &[3][..], None), (Some("propose-anew"), &[3, 4], Some("ME1"))] {
        let mut world = half_way_through_a_vote(mutant);
        deliver_one(&mut world, 3, 1, "Accept");
        deliver_one(&mut world, 1, 3, "Accepted");
        deliver_one(&mut world, 3, 2, "Install");
        world.request(3, Request::Acquire);
        drain_among(&mut world, &[2, 3]);
        assert_eq!(order(&world), [3]);
        change_sides(&mut world);
        drain_among(&mut world, &[1, 4, 5]);
        world.request(4, Request::Acquire);
        drain_among(&mut world, &[1, 4, 5]);
        assert_eq!(order(&world), entered, "{mutant:?}");
        assert_eq!(world.observer.violation().map(|found| found.property), broken, "{mutant:?}");
    }
}

/// {1, 2} and {3, 4, 5} fall apart while p1 has the votes of {2, 3}, and nobody has confirmed its grant: it must not enter, since the
/// others have waited for leases only.
#[test]
fn a_grant_that_nobody_has_confirmed_lets_nobody_in() {
    for (mutant, entered, broken) in [(None, &[4][..], None), (Some("unconfirmed"), &[1, 4], Some("ME1"))] {
        let mut world = group::<Majority>(5, &[("mode", "view")], mutant);
        world.request(1, Request::Acquire);
        drain_but(&mut world, &[1, 2, 3], "Renew");
        for at in [3, 4, 5] {
            for peer in [1, 2] {
                suspect(&mut world, at, peer);
            }
        }
        drain_among(&mut world, &[3, 4, 5]);
        expire_all(&mut world, 5, &AssemblyTimer::Quarantine);
        world.request(4, Request::Acquire);
        drain_among(&mut world, &[3, 4, 5]);
        assert_eq!(order(&world), entered, "{mutant:?}");
        assert_eq!(world.observer.violation().map(|found| found.property), broken, "{mutant:?}");
    }
}

/// p1 has answered p5 before it hears of the roll of p3: it must not accept it any more. Two rolls would be chosen, and both would
/// let somebody in.
#[test]
fn who_has_answered_a_later_call_accepts_no_earlier_roll() {
    for (mutant, entered, broken) in [(None, &[4][..], None), (Some("accept-any"), &[4, 3], Some("ME1"))] {
        let mut world = half_way_through_a_vote(mutant);
        change_sides(&mut world);
        for acceptor in [1, 4] {
            deliver_one(&mut world, 5, acceptor, "Accept");
            deliver_one(&mut world, acceptor, 5, "Accepted");
        }
        world.request(4, Request::Acquire);
        drain_among(&mut world, &[4, 5]);
        assert_eq!(order(&world), [4]);
        deliver_one(&mut world, 3, 1, "Accept");
        drain_among(&mut world, &[1, 3]);
        world.request(3, Request::Acquire);
        drain_among(&mut world, &[2, 3]);
        assert_eq!(order(&world), entered, "{mutant:?}");
        assert_eq!(world.observer.violation().map(|found| found.property), broken, "{mutant:?}");
    }
}

mod many {
    //! Many locks in one group.

    use super::*;
    use crate::mutex::{
        CarvalhoRoucairol, Lamport, LodhaKshemkalyani, Maekawa, Raymond, RicartAgrawalaToken, Singhal,
        SuzukiKasami,
    };
    use crate::named::{Name, NamedEvent, NamedRequest};
    use crate::recovery::Limits;

    type Many<A> = World<Recovering<A, Name>, ()>;

    fn many<A: Mutex + Algorithm>(n: u32, given: &[(&str, &str)], limits: Limits) -> Many<A> {
        let members = Members::numbered(n);
        let settings = Settings::new(&A::ABOUT, Arena::Laboratory, given.iter().copied(), None);
        let config =
            Recovering::<A>::configure(&settings.expect("declared settings"), &members).expect("they fit");
        let mut config = Recovering::<A>::on_demand(config);
        config.application.limits = limits;
        World::new(members, &config, ())
    }

    fn ask<A: Mutex>(world: &mut Many<A>, id: u32, name: &str, request: Request) {
        let name = Name::new(name).expect("a good name");
        world.request(id, NamedRequest { name, request });
    }

    /// Lets everything happen, and whoever waits for a lease to end.
    fn settle<A: Mutex>(world: &mut Many<A>) {
        world.drain();
        while let Some((id, timer)) = world
            .armed()
            .into_iter()
            .find(|(_, timer)| matches!(timer, LedTimer::Application(AssemblyTimer::Quarantine)))
        {
            world.expire(id, timer);
            world.drain();
        }
    }

    fn grants<A: Mutex>(world: &Many<A>, name: &str) -> Vec<(u32, Fence)> {
        let of = |(id, NamedEvent { name: of, event }): &(NodeId, NamedEvent<Event>)| match event {
            Event::Granted { fence } if of.as_str() == name => Some((id.0, *fence)),
            _ => None,
        };
        world.events.iter().filter_map(of).collect()
    }

    fn known<A: Mutex>(world: &Many<A>, id: u32) -> usize {
        world.process(id).application().lock_keys().count()
    }

    fn crash<A: Mutex>(world: &mut Many<A>, id: u32) {
        world.crash(id);
        world.report(id);
        settle(world);
    }

    /// However many names there are that nobody wants: a crash costs as many messages as with one, and they are forgotten.
    #[test]
    fn idle_names_cost_nothing_at_a_crash() {
        let cost = |names: usize| {
            let mut world = many::<RicartAgrawala>(3, &[], Limits::default());
            for k in 0..names {
                let name = alloc::format!("job-{k}");
                for request in [Request::Acquire, Request::Release] {
                    ask(&mut world, 1, &name, request);
                    world.drain();
                }
            }
            assert_eq!(known(&world, 2), names);
            let before = world.sent.len();
            crash(&mut world, 3);
            assert_eq!((known(&world, 1), known(&world, 2)), (0, 0));
            world.sent.len() - before
        };
        assert_eq!(cost(1), cost(300));
    }

    fn a_name_comes_back<A: Mutex + Algorithm>(given: &[(&str, &str)]) {
        let mut world = many::<A>(4, given, Limits::default());
        let enter = |world: &mut Many<A>, id, name| {
            ask(world, id, name, Request::Acquire);
            settle(world);
        };
        for id in [1, 2] {
            enter(&mut world, id, "idle");
            ask(&mut world, id, "idle", Request::Release);
            settle(&mut world);
        }
        enter(&mut world, 2, "held");
        enter(&mut world, 1, "held");
        crash(&mut world, 4);
        assert_eq!(known(&world, 3), 1, "only what somebody wants is remembered");
        // The roll has voided nothing of it: who was inside is, and the next waits.
        assert_eq!(grants(&world, "held").len(), 1);
        ask(&mut world, 2, "held", Request::Release);
        enter(&mut world, 3, "idle");
        enter(&mut world, 1, "idle");
        for name in ["idle", "held"] {
            let granted = grants(&world, name);
            assert!(granted.is_sorted_by_key(|(_, fence)| *fence), "{}: {name}: {granted:?}", A::ABOUT.name);
        }
        let ids = |name| grants(&world, name).into_iter().map(|(id, _)| id).collect::<Vec<_>>();
        assert_eq!(
            (ids("idle"), ids("held")),
            (alloc::vec![1, 2, 3], alloc::vec![2, 1]),
            "{}",
            A::ABOUT.name
        );
        ask(&mut world, 3, "idle", Request::Release);
        settle(&mut world);
        assert_eq!(grants(&world, "idle").last().expect("p1 waits for it").0, 1);
    }

    #[test]
    fn a_name_that_comes_back_has_larger_fences() {
        a_name_comes_back::<Central>(&[]);
        a_name_comes_back::<Central>(&[("coordinator", "elected")]);
        a_name_comes_back::<Lamport>(&[]);
        a_name_comes_back::<RicartAgrawala>(&[]);
        a_name_comes_back::<CarvalhoRoucairol>(&[]);
        a_name_comes_back::<LodhaKshemkalyani>(&[]);
        a_name_comes_back::<Maekawa>(&[]);
        a_name_comes_back::<Majority>(&[]);
        a_name_comes_back::<Majority>(&[("mode", "view")]);
        a_name_comes_back::<RicartAgrawalaToken>(&[]);
        a_name_comes_back::<SuzukiKasami>(&[]);
        a_name_comes_back::<TokenRing>(&[("idle", "park")]);
        a_name_comes_back::<Raymond>(&[]);
        a_name_comes_back::<Singhal>(&[]);
    }

    /// The limit is told to whoever asks; what it holds it keeps.
    #[test]
    fn a_name_too_many_is_refused() {
        let mut world = many::<RicartAgrawala>(2, &[], Limits { in_use: 2, known: 100 });
        for name in ["a", "b", "c"] {
            ask(&mut world, 1, name, Request::Acquire);
            world.drain();
        }
        let name = Name::new("c").expect("a good name");
        let refused = NamedEvent { name, event: Event::Refused(Request::Acquire) };
        assert_eq!(world.events.last(), Some(&(NodeId(1), refused)));
        ask(&mut world, 1, "a", Request::Release);
        ask(&mut world, 1, "c", Request::Acquire);
        world.drain();
        assert_eq!(grants(&world, "c").len(), 1);
    }

    /// Names come and go forever, and no process ever knows many.
    #[test]
    fn too_many_names_are_forgotten_by_a_roll() {
        let mut world = many::<SuzukiKasami>(3, &[], Limits { in_use: 10, known: 20 });
        ask(&mut world, 2, "kept", Request::Acquire);
        world.drain();
        let mut most = 0;
        for k in 0..200 {
            let name = alloc::format!("job-{k}");
            for request in [Request::Acquire, Request::Release] {
                ask(&mut world, 1, &name, request);
                world.drain();
            }
            assert_eq!(grants(&world, &name).len(), 1);
            most = (1..=3).map(|id| known(&world, id)).fold(most, usize::max);
            assert!(most <= 20, "{most}");
        }
        assert_eq!(most, 20, "a roll comes only where the limit is passed");
        assert!(world.process(3).application().epoch().number >= 9);
        ask(&mut world, 3, "kept", Request::Acquire);
        world.drain();
        assert_eq!(grants(&world, "kept").len(), 1, "p2 is inside all the time");
        assert!(world.rejects.is_empty());
    }

    /// More names are in use than one message can list: the roll travels in pieces, and everyone keeps what it has.
    #[test]
    fn a_long_roll_travels_in_pieces() {
        let mut world = many::<Central>(3, &[], Limits::default());
        let names: Vec<_> = (0..super::super::pieces::IN_ONE + 10).map(|k| alloc::format!("n{k}")).collect();
        for id in [1, 2] {
            for name in &names {
                ask(&mut world, id, name, Request::Acquire);
            }
            world.drain();
        }
        crash(&mut world, 3);
        let pieces = world.sent.iter().filter(|(_, _, message)| message.kind() == "Piece").count();
        // A report in two, and a roll of both in three, which p3, a member of the last one, is sent, too.
        assert_eq!(pieces, 8);
        for name in &names {
            ask(&mut world, 1, name, Request::Release);
        }
        world.drain();
        for name in &names {
            let ids: Vec<_> = grants(&world, name).iter().map(|(id, _)| *id).collect();
            assert_eq!(ids, [1, 2], "{name}");
        }
    }

    /// Peers that keep to no limit are stopped at one.
    #[test]
    fn peers_bring_about_no_more_locks_than_the_limit() {
        let mut world = many::<RicartAgrawala>(2, &[], Limits { in_use: 1, known: 1 });
        ask(&mut world, 2, "any", Request::Acquire);
        let (_, _, message) = world.sent.last().expect("p2 asks p1").clone();
        for k in 0..50 {
            let mut message = message.clone();
            if let crate::LedMessage::Application(super::super::Msg::Part { lock, .. }) = &mut message {
                *lock = Name::numbered(k);
            }
            world.input(NodeId(1), Input::Receive { from: NodeId(2), message });
        }
        assert!(known(&world, 1) < 10, "{}", known(&world, 1));
        assert!(!world.rejects.is_empty());
    }

    #[test]
    fn timers_name_their_lock() {
        let name = Name::new("a").expect("a good name");
        let timer: AssemblyTimer<(), Name> = AssemblyTimer::Patience(name);
        assert_eq!(alloc::format!("{timer:?}"), r#"("a", Patience)"#);
        assert_eq!(alloc::format!("{:?}", AssemblyTimer::<(), ()>::Part((), ())), "Part(())");
    }
}
