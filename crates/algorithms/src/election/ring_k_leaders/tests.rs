//! The election of several leaders under test.

use super::*;
use crate::election::trials::{self, Judged, Weather, config, ring, world};

const PLAIN: &[(&str, &str)] = &[("commit", "no")];

/// The ring of the worked examples, p6 dead.
fn book(given: &[(&str, &str)]) -> Judged<RingKLeaders> {
    let members = ring(&[3, 5, 0, 1, 4, 6]);
    world(&members, &config::<RingKLeaders>(given, None, &members), &[NodeId(6)])
}

fn all_name(world: &Judged<RingKLeaders>, ids: &[u32], leaders: [u32; 2]) -> bool {
    ids.iter().all(|id| world.process(*id).leaders() == leaders.map(NodeId))
}

/// The worked example TV-2L1: two laps without commit, three with.
#[test]
fn book_tv_2l1_two_leaders() {
    for (given, messages) in [(PLAIN, 10), (&[], 15)] {
        let mut world = book(given);
        world.request(3, Request::Start);
        world.drain();
        assert_eq!(world.sent.len(), messages);
        assert!(all_name(&world, &[3, 5, 0, 1, 4], [5, 4]));
    }
}

/// The worked example TV-2L2: p4 dies between the laps. One message more than the book's 17: p1 cannot know whether
/// p4 died with the list, and sends it again.
#[test]
fn book_tv_2l2_a_chosen_one_dies_between_the_laps() {
    let mut world = book(PLAIN);
    world.request(3, Request::Start);
    for (from, to) in [(3, 5), (5, 0), (0, 1), (1, 4), (4, 3)] {
        world.deliver(from, to);
    }
    world.crash(4);
    world.report(4);
    world.drain();
    let collected = world.sent.iter().find_map(|(_, to, message)| match message {
        Msg::Choose { list, .. } if to.0 == 3 => Some(list.clone()),
        _ => None,
    });
    assert_eq!(collected.expect("the choice came back"), [3, 5, 0, 1].map(NodeId));
    let count = |kind| world.sent.iter().filter(|(_, _, message)| message.kind() == kind).count();
    assert_eq!([count("Election"), count("Choose")], [5 + 1 + 4, 4 + 4]);
    assert_eq!(world.sent.len(), 17 + 1);
    assert!(all_name(&world, &[3, 5, 0, 1], [5, 3]));
}

/// The worked example TV-2L3: the initiator dies; p4, the last before it, finishes in its place.
#[test]
fn book_tv_2l3_the_initiator_dies() {
    let mut world = book(&[]);
    world.request(3, Request::Start);
    world.crash(3);
    world.report(3);
    world.drain();
    let choice = world.sent.iter().find(|(_, _, message)| message.kind() == "Choose");
    assert!(matches!(choice, Some((NodeId(4), NodeId(5), _))));
    assert_eq!(world.sent.len(), 4 + 4 + 4);
    assert!(all_name(&world, &[5, 0, 1, 4], [5, 4]));
}

/// Nobody leads before the third lap.
#[test]
fn a_choice_is_not_yet_an_election() {
    let mut world = book(&[]);
    world.request(3, Request::Start);
    while !world.in_flight().any(|(_, _, message)| message.kind() == "Commit") {
        assert!(world.events.is_empty());
        let (from, to, _) = world.travelling()[0];
        world.deliver_nth(from, to, 0);
    }
    assert_eq!(world.events.len(), 1);
}

#[test]
fn keeps_its_formula() {
    trials::keeps_its_formula::<RingKLeaders>(&[]);
    trials::keeps_its_formula::<RingKLeaders>(PLAIN);
    trials::keeps_its_formula::<RingKLeaders>(&[("k", "3"), ("weights", "1:5,2:3")]);
    trials::keeps_its_formula::<RingKLeaders>(&[("k", "64")]);
}

#[test]
fn mutants_are_caught() {
    trials::mutants_are_caught::<RingKLeaders>();
}

#[test]
fn a_crash_at_any_moment() {
    trials::weathers::<RingKLeaders>(Weather::CRASH, &[], 4_000);
    trials::weathers::<RingKLeaders>(Weather::CRASH.tentative(), PLAIN, 4_000);
    trials::weathers::<RingKLeaders>(Weather::CRASH, &[("k", "1")], 4_000);
}

#[test]
fn acknowledged_it_goes_on_past_the_dead() {
    let acked = &[("handoff", "acked")];
    trials::keeps_its_formula::<RingKLeaders>(acked);
    trials::finds_the_dead_by_itself::<RingKLeaders>(acked, 4_000);
    trials::weathers::<RingKLeaders>(Weather::CRASH, acked, 4_000);
    trials::weathers::<RingKLeaders>(Weather::STORM.tentative(), acked, 10_000);
    trials::weathers::<RingKLeaders>(Weather::DOUBT, acked, 10_000);
}

#[test]
fn wrong_suspicions_are_got_over() {
    trials::weathers::<RingKLeaders>(Weather::DOUBT, &[], 20_000);
    trials::weathers::<RingKLeaders>(Weather::DOUBT, PLAIN, 20_000);
}

#[test]
fn a_storm_of_crashes_restarts_and_retirements() {
    trials::weathers::<RingKLeaders>(Weather::STORM.tentative(), &[], 10_000);
    trials::weathers::<RingKLeaders>(Weather::STORM.tentative(), PLAIN, 10_000);
}

#[test]
fn nonsense_is_rejected() {
    let mut world = book(&[]);
    let list = |ids: &[u32]| ids.iter().map(|id| NodeId(*id)).collect::<Vec<_>>();
    let choose = |leaders: &[u32], ids: &[u32]| Msg::Choose {
        initiator: NodeId(5),
        round: u64::MAX,
        leaders: list(leaders),
        list: list(ids),
    };
    let nonsense = [
        Msg::Election { initiator: NodeId(5), round: None, list: list(&[]) },
        Msg::Election { initiator: NodeId(5), round: None, list: list(&[5, 9]) },
        choose(&[], &[5]),
        choose(&[5, 4, 1], &[5]),
        choose(&[5, 5], &[5]),
        choose(&[5], &[5, 3]),
        Msg::Commit { initiator: NodeId(9), round: 1, leaders: list(&[5]) },
        Msg::Inform { round: 1, leaders: list(&[9]) },
        Msg::Retire { uid: NodeId(9), round: None },
    ];
    for message in nonsense.clone() {
        world.input(NodeId(3), Input::Receive { from: NodeId(4), message });
    }
    assert_eq!(world.rejects.len(), nonsense.len());
}
