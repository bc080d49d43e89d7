use super::*;
use crate::election::trials::{self, Weather, config, world};
use alloc::format;

/// The worked example TV-A1: of four processes p4 and p1 are dead, p2 notices.
#[test]
fn book_tv_a1_two_of_four() {
    let members = Members::numbered(4);
    let config = config::<RingActiveList>(&[], None, &members);
    let mut world = world::<RingActiveList>(&members, &config, &[NodeId(4), NodeId(1)]);
    let active = |ids: &[u32]| ids.iter().map(|id| NodeId(*id)).collect::<NodeSet>();
    world.request(2, Request::Start);
    assert_eq!(*world.process(2).active(), active(&[2]));
    world.deliver(2, 3);
    assert_eq!(*world.process(3).active(), active(&[2, 3]));
    world.deliver(3, 2);
    assert_eq!(*world.process(2).active(), active(&[2, 3]));
    world.deliver(3, 2);
    world.drain();
    let sent = world
        .sent
        .iter()
        .map(|(from, to, message)| (from, to, message.kind(), message.receipt().expect("it has an owner")))
        .map(|(from, to, kind, receipt)| format!("{from} {kind} {} {to}", receipt.owner));
    let expected = [
        "p2 Elect p2 p3",
        "p3 Elect p3 p2",
        "p3 Elect p2 p2",
        "p2 Elect p3 p3",
        "p2 Elected p3 p3",
        "p3 Elected p3 p2",
    ];
    assert_eq!(sent.collect::<Vec<_>>(), expected);
    assert!([2, 3].into_iter().all(|id| world.process(id).leaders() == [NodeId(3)]));
}

/// Everyone ends with everyone on its list.
#[test]
fn book_the_lists_are_complete() {
    for starters in [&[1][..], &[4, 2], &[1, 2, 3, 4, 5]] {
        let members = Members::numbered(5);
        let config = config::<RingActiveList>(&[], None, &members);
        let mut world = world::<RingActiveList>(&members, &config, &[]);
        for id in starters {
            world.request(*id, Request::Start);
        }
        world.drain();
        let all: NodeSet = members.iter().collect();
        assert!(world.processes.iter().all(|process| *process.active() == all));
    }
}

#[test]
fn keeps_its_formula() {
    trials::keeps_its_formula::<RingActiveList>(&[]);
    trials::keeps_its_formula::<RingActiveList>(&[("weights", "1:5,2:3")]);
}

#[test]
fn mutants_are_caught() {
    trials::mutants_are_caught::<RingActiveList>();
}

#[test]
fn a_crash_at_any_moment() {
    trials::weathers::<RingActiveList>(Weather::CRASH, &[], 4_000);
}

#[test]
fn acknowledged_it_goes_on_past_the_dead() {
    let acked = &[("handoff", "acked")];
    trials::keeps_its_formula::<RingActiveList>(acked);
    trials::finds_the_dead_by_itself::<RingActiveList>(acked, 4_000);
    trials::weathers::<RingActiveList>(Weather::CRASH, acked, 4_000);
    trials::weathers::<RingActiveList>(Weather::STORM.tentative(), acked, 10_000);
    trials::weathers::<RingActiveList>(Weather::DOUBT, acked, 10_000);
}

#[test]
fn wrong_suspicions_are_got_over() {
    trials::weathers::<RingActiveList>(Weather::DOUBT, &[], 20_000);
}

#[test]
fn a_storm_of_crashes_restarts_and_retirements() {
    trials::weathers::<RingActiveList>(Weather::STORM.tentative(), &[], 10_000);
}

#[test]
fn strangers_are_rejected() {
    let members = Members::numbered(3);
    let config = config::<RingActiveList>(&[], None, &members);
    let mut world = world::<RingActiveList>(&members, &config, &[]);
    let message = |uid| Msg::Elect { uid: NodeId(uid), round: Some(u64::MAX), life: Incarnation::FIRST };
    for (from, uid) in [(1, 2), (9, 2), (2, 9)] {
        world.input(NodeId(1), Input::Receive { from: NodeId(from), message: message(uid) });
    }
    assert_eq!(world.rejects.len(), 3);
}
