use super::*;
use crate::election::trials::{self, Weather, config, ring, world};
use alloc::vec;

fn ids(list: &[NodeId]) -> Vec<u32> {
    list.iter().map(|id| id.0).collect()
}

/// The worked example TV-N1: p6 is dead, p3 notices.
#[test]
fn book_tv_n1_lists_on_the_wire() {
    let members = ring(&[3, 5, 0, 1, 4, 6]);
    let config = config::<RingList>(&[], None, &members);
    let mut world = world::<RingList>(&members, &config, &[NodeId(6)]);
    world.request(3, Request::Start);
    world.drain();
    let lists = world.sent.iter().map(|(from, to, message)| match message {
        Msg::Election { list, .. } => (from.0, to.0, ids(list)),
        Msg::Coordinator { leader, .. } => (from.0, to.0, vec![100 + leader.0]),
        Msg::Inform { .. } | Msg::Retire { .. } | Msg::Ack(_) | Msg::CheckIn => {
            unreachable!("nothing is repaired")
        }
    });
    let expected = [
        (3, 5, vec![3]),
        (5, 0, vec![3, 5]),
        (0, 1, vec![3, 5, 0]),
        (1, 4, vec![3, 5, 0, 1]),
        (4, 3, vec![3, 5, 0, 1, 4]),
        (3, 5, vec![105]),
        (5, 0, vec![105]),
        (0, 1, vec![105]),
        (1, 4, vec![105]),
        (4, 3, vec![105]),
    ];
    assert_eq!(lists.collect::<Vec<_>>(), expected);
    for id in [3, 5, 0, 1, 4] {
        assert_eq!(world.process(id).leaders(), [NodeId(5)]);
        assert_eq!(ids(world.process(id).active()), [3, 5, 0, 1, 4]);
    }
}

/// The worked example TV-N2: p2 and p5 start independently; their lists differ in order only.
#[test]
fn book_tv_n2_two_starters() {
    let members = ring(&[0, 1, 2, 3, 4, 5, 6, 7]);
    let config = config::<RingList>(&[], None, &members);
    let mut world = world::<RingList>(&members, &config, &[NodeId(7)]);
    world.request(2, Request::Start);
    world.request(5, Request::Start);
    world.drain();
    let full = |starter: u32| {
        world.sent.iter().find_map(|(_, to, message)| match message {
            Msg::Election { initiator, list, .. } if *initiator == *to && to.0 == starter => Some(ids(list)),
            _ => None,
        })
    };
    assert_eq!(full(2), Some(vec![2, 3, 4, 5, 6, 0, 1]));
    assert_eq!(full(5), Some(vec![5, 6, 0, 1, 2, 3, 4]));
    assert_eq!(world.sent.len(), 28);
    assert!((0..7).all(|id| world.process(id).leaders() == [NodeId(6)]));
    assert_eq!(world.events.len(), 7, "everyone is told once");
}

#[test]
fn the_last_before_a_dead_starter_takes_over() {
    let members = ring(&[3, 5, 0, 1, 4]);
    let config = config::<RingList>(&[], None, &members);
    let mut world = world::<RingList>(&members, &config, &[]);
    world.request(3, Request::Start);
    world.crash(3);
    world.report(3);
    world.drain();
    let takeover = world.sent.iter().find(|(_, _, message)| message.kind() == "Coordinator");
    assert!(matches!(takeover, Some((NodeId(4), NodeId(5), _))));
    assert!([5, 0, 1, 4].into_iter().all(|id| world.process(id).leaders() == [NodeId(5)]));
}

#[test]
fn keeps_its_formula() {
    trials::keeps_its_formula::<RingList>(&[]);
    trials::keeps_its_formula::<RingList>(&[("suppress", "yes"), ("weights", "2:7")]);
}

#[test]
fn mutants_are_caught() {
    trials::mutants_are_caught::<RingList>();
}

#[test]
fn a_crash_at_any_moment() {
    trials::weathers::<RingList>(Weather::CRASH, &[], 4_000);
    trials::weathers::<RingList>(Weather::CRASH, &[("suppress", "yes")], 2_000);
}

/// The worked example V-N3: p6 is dead, and nobody is told. p4 finds out by itself, goes on past it, and remembers.
#[test]
fn book_v_n3_no_answer_and_past_the_dead() {
    let members = ring(&[3, 5, 0, 1, 4, 6]);
    let config = config::<RingList>(&[("handoff", "acked")], None, &members);
    let mut world = world::<RingList>(&members, &config, &[]);
    world.crash(6);
    for (messages, acks) in [(11, 10), (10, 10)] {
        let (before, acked) = (trials::counted(&world), world.sent.len());
        world.request(3, Request::Start);
        world.drain();
        if messages == 11 {
            world.expire(NodeId(4), RingTimer::Handoff);
            world.drain();
        }
        assert_eq!(trials::counted(&world) - before, messages);
        assert_eq!(world.sent.len() - acked, messages + acks);
        assert!(world.armed().is_empty());
        for id in [3, 5, 0, 1, 4] {
            assert_eq!(world.process(id).leaders(), [NodeId(5)]);
        }
    }
}

/// The leader dies in office: the ring goes on with one call, by the last process before it, and not with one by each.
#[test]
fn a_leader_that_dies_in_office_costs_one_election() {
    let members = ring(&[0, 1, 3, 4, 5, 6]);
    let cost = |given: &[(&str, &str)]| {
        let config = config::<RingList>(given, None, &members);
        let mut world = world::<RingList>(&members, &config, &[]);
        world.request(6, Request::Start);
        world.drain();
        assert_eq!(trials::counted(&world), 12);
        world.crash(6);
        world.report(6);
        world.drain();
        assert!([0, 1, 3, 4, 5].into_iter().all(|id| world.process(id).leaders() == [NodeId(5)]));
        trials::counted(&world) - 12
    };
    assert_eq!(cost(&[("handoff", "acked")]), 10);
    assert_eq!(cost(&[]), 50);
}

#[test]
fn acknowledged_it_goes_on_past_the_dead() {
    let acked = &[("handoff", "acked")];
    trials::keeps_its_formula::<RingList>(acked);
    trials::finds_the_dead_by_itself::<RingList>(acked, 4_000);
    trials::weathers::<RingList>(Weather::CRASH, acked, 4_000);
    trials::weathers::<RingList>(Weather::STORM.tentative(), acked, 10_000);
    trials::weathers::<RingList>(Weather::DOUBT, acked, 10_000);
}

#[test]
fn wrong_suspicions_are_got_over() {
    trials::weathers::<RingList>(Weather::DOUBT, &[], 20_000);
}

#[test]
fn a_storm_of_crashes_restarts_and_retirements() {
    trials::weathers::<RingList>(Weather::STORM.tentative(), &[], 10_000);
    trials::weathers::<RingList>(Weather::STORM.tentative(), &[("suppress", "yes")], 2_000);
}

#[test]
fn nonsense_is_rejected() {
    let members = Members::numbered(3);
    let config = config::<RingList>(&[], None, &members);
    let list = |ids: &[u32]| ids.iter().map(|id| NodeId(*id)).collect::<Vec<_>>();
    let election = |initiator, ids: &[u32]| Msg::Election {
        initiator: NodeId(initiator),
        round: Some(u64::MAX),
        list: list(ids),
    };
    let inform = |leader, ids: &[u32]| Msg::Inform { round: 1, leader: NodeId(leader), list: list(ids) };
    let nonsense = [
        election(2, &[]),
        election(2, &[3, 2]),
        election(2, &[2, 2]),
        election(2, &[2, 9]),
        election(2, &[2, 1]),
        inform(3, &[2]),
        inform(9, &[9]),
        Msg::Retire { uid: NodeId(9), round: None },
    ];
    let mut world = world::<RingList>(&members, &config, &[]);
    for message in nonsense.clone() {
        world.input(NodeId(1), Input::Receive { from: NodeId(3), message });
    }
    assert_eq!(world.rejects.len(), nonsense.len());
}
