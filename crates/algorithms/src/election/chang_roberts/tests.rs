use super::*;
use crate::election::trials::{self, Weather, config, ring};
use crate::testing::World;

/// What went over the wire: the names, and behind them the news.
fn run(ids: &[u32], starters: &[u32]) -> (World<ChangRoberts>, Vec<u32>, Vec<u32>) {
    run_with(&[], ids, starters)
}

fn run_with(
    given: &[(&str, &str)],
    ids: &[u32],
    starters: &[u32],
) -> (World<ChangRoberts>, Vec<u32>, Vec<u32>) {
    let members = ring(ids);
    let config = config::<ChangRoberts>(given, None, &members);
    let mut world = World::<ChangRoberts>::new(members, &config, ());
    for id in starters {
        world.request(*id, Request::Start);
    }
    world.drain();
    let of = |wanted: &str| -> Vec<u32> {
        let sent = world.sent.iter().filter(|(_, _, message)| message.kind() == wanted);
        sent.filter_map(|(_, _, message)| message.receipt()).map(|receipt| receipt.owner.0).collect()
    };
    let (names, news) = (of("Election"), of("Elected"));
    (world, names, news)
}

/// The worked example TV-CR8: eight processes start at once; each name travels to the first larger one.
#[test]
fn book_tv_cr8_each_name_travels_to_the_first_larger_one() {
    let ids = [3, 7, 2, 8, 5, 1, 6, 4];
    let (world, names, news) = run(&ids, &ids);
    let hops = |id| names.iter().filter(|name| **name == id).count();
    assert_eq!(ids.map(hops), [1, 2, 1, 8, 2, 1, 3, 2]);
    assert_eq!(news, [8; 8]);
    assert_eq!(world.sent.len(), 28);
    assert!(world.processes.iter().all(|process| process.leaders() == [NodeId(8)]));
}

/// The worked example V-CR3: without participant states every call costs what it would cost alone.
#[test]
fn book_v_cr3_what_participant_states_save() {
    let ring = [3, 7, 2, 8, 5, 1, 6, 4];
    let five = [1, 2, 3, 4, 5];
    type Case<'a> = (&'a [u32], &'a [u32], [usize; 2], [usize; 2]);
    let cases: [Case<'_>; 4] = [
        (&ring, &ring, [20, 8], [92, 64]),
        (&five, &[1, 2], [9, 5], [17, 10]),
        (&five, &five, [9, 5], [35, 25]),
        (&five, &[2], [8, 5], [8, 5]),
    ];
    for (ids, starters, on, off) in cases {
        for (participants, expected) in [("on", on), ("off", off)] {
            let (world, names, news) = run_with(&[("participants", participants)], ids, starters);
            assert_eq!([names.len(), news.len()], expected, "{ids:?} from {starters:?}, {participants}");
            let largest = ids.iter().max().copied();
            assert!(
                world.processes.iter().all(|process| process.leaders().first().map(|id| id.0) == largest)
            );
        }
    }
}

/// The worked example TV-CR1: p17 starts, p24 and p28 replace the name in flight.
#[test]
fn book_tv_cr1_one_starter() {
    let (world, names, news) = run(&[3, 17, 4, 24, 9, 1, 15, 28], &[17]);
    assert_eq!(names, [17, 17, 24, 24, 24, 24, 28, 28, 28, 28, 28, 28, 28, 28]);
    assert_eq!(news, [28; 8]);
    assert_eq!(world.sent.len(), 2 * 8 + 6);
}

/// The worked example TV-CR2: the cost depends on how far the largest is.
#[test]
fn book_tv_cr2_best_and_worst_start() {
    for (starter, messages) in [(5, 10), (1, 14), (4, 11)] {
        assert_eq!(run(&[1, 2, 3, 4, 5], &[starter]).0.sent.len(), messages);
    }
}

/// The worked example TV-W1 with priorities: the heaviest leads.
#[test]
fn book_tv_w1_the_heaviest_leads() {
    let members = Members::numbered(5);
    let config = config::<ChangRoberts>(&[("weights", "1:5,2:1,3:1,4:1,5:1")], None, &members);
    let mut world = World::<ChangRoberts>::new(members, &config, ());
    world.request(4, Request::Start);
    world.drain();
    assert_eq!(world.sent.len(), 2 * 5 + 2, "p1 is two places behind p4");
    assert!(world.processes.iter().all(|process| process.leaders() == [NodeId(1)]));
}

#[test]
fn weights_come_before_names() {
    trials::keeps_its_formula::<ChangRoberts>(&[("weights", "1:5,2:3")]);
}

#[test]
fn keeps_its_formula() {
    trials::keeps_its_formula::<ChangRoberts>(&[]);
    trials::keeps_its_formula::<ChangRoberts>(&[("participants", "off")]);
}

#[test]
fn mutants_are_caught() {
    trials::mutants_are_caught::<ChangRoberts>();
}

#[test]
fn a_crash_at_any_moment() {
    trials::weathers::<ChangRoberts>(Weather::CRASH, &[], 4_000);
    trials::weathers::<ChangRoberts>(Weather::CRASH, &[("participants", "off")], 4_000);
}

#[test]
fn acknowledged_it_goes_on_past_the_dead() {
    let acked = &[("handoff", "acked")];
    trials::keeps_its_formula::<ChangRoberts>(acked);
    trials::finds_the_dead_by_itself::<ChangRoberts>(acked, 4_000);
    trials::weathers::<ChangRoberts>(Weather::CRASH, acked, 4_000);
    trials::weathers::<ChangRoberts>(Weather::STORM.tentative(), acked, 10_000);
    trials::weathers::<ChangRoberts>(Weather::DOUBT, acked, 10_000);
}

#[test]
fn wrong_suspicions_are_got_over() {
    trials::weathers::<ChangRoberts>(Weather::DOUBT, &[], 20_000);
}

#[test]
fn a_storm_of_crashes_restarts_and_retirements() {
    trials::weathers::<ChangRoberts>(Weather::STORM.tentative(), &[], 10_000);
    trials::weathers::<ChangRoberts>(Weather::STORM.tentative(), &[("participants", "off")], 10_000);
}

#[test]
fn strangers_are_rejected() {
    let members = Members::numbered(3);
    let mut world = World::<ChangRoberts>::numbered(3, &config::<ChangRoberts>(&[], None, &members));
    let message = |uid| Msg::Election { uid: NodeId(uid), round: Some(u64::MAX) };
    for (from, uid) in [(1, 2), (9, 2), (2, 9)] {
        world.input(NodeId(1), Input::Receive { from: NodeId(from), message: message(uid) });
    }
    assert_eq!(world.rejects.len(), 3);
    // The largest number there is does no harm.
    world.input(NodeId(1), Input::Receive { from: NodeId(2), message: message(2) });
    world.input(NodeId(1), Input::PeerDown { peer: NodeId(2), life: conclave_core::Incarnation::FIRST });
    world.drain();
}
