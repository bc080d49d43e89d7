use super::*;
use crate::Arena;
use crate::election::trials::{self, Weather, config, world};

const BOOK: &[(&str, &str)] = &[("weights", "1:5"), ("prefers", "1:2,2:3,4:5")];

/// The worked example TV-W1: the heaviest does not lead, its favourite does.
#[test]
fn book_tv_w1_the_favourite_of_the_heaviest_leads() {
    let members = Members::numbered(5);
    let config = config::<RingBallot>(BOOK, None, &members);
    let mut world = world::<RingBallot>(&members, &config, &[]);
    world.request(4, Request::Start);
    world.drain();
    assert_eq!(world.sent.len(), 10);
    let complete = world.sent.iter().find_map(|(_, to, message)| match message {
        Msg::Election { ballots, .. } if to.0 == 4 => Some(ballots.clone()),
        _ => None,
    });
    let ballots = complete.expect("the list came back");
    let votes: Vec<_> = ballots.iter().map(|b| (b.voter.0, b.weight, b.prefers.0)).collect();
    assert_eq!(votes, [(4, 1, 5), (5, 1, 5), (1, 5, 2), (2, 1, 3), (3, 1, 3)]);
    assert!(world.processes.iter().all(|process| process.leaders() == [NodeId(2)]));
}

/// The favourite of the heaviest is dead: the heaviest votes for itself.
#[test]
fn a_vote_for_the_dead_counts_for_the_voter() {
    let members = Members::numbered(5);
    let config = config::<RingBallot>(BOOK, None, &members);
    let mut world = world::<RingBallot>(&members, &config, &[NodeId(2)]);
    world.request(4, Request::Start);
    world.drain();
    assert_eq!(world.process(3).leaders(), [NodeId(1)]);
}

#[test]
fn only_members_are_preferred() {
    let settings = Settings::new(&RingBallot::ABOUT, Arena::Live, [("prefers", "1:9")], None);
    let settings = settings.expect("numbers for processes");
    assert!(RingBallot::configure(&settings, &Members::numbered(3)).is_err());
}

#[test]
fn keeps_its_formula() {
    trials::keeps_its_formula::<RingBallot>(&[]);
    trials::keeps_its_formula::<RingBallot>(&[("weights", "1:5,2:3")]);
}

#[test]
fn mutants_are_caught() {
    trials::mutants_are_caught::<RingBallot>();
}

#[test]
fn a_crash_at_any_moment() {
    trials::weathers::<RingBallot>(Weather::CRASH, &[], 4_000);
    trials::weathers::<RingBallot>(Weather::CRASH, &[("prefers", "1:2"), ("weights", "1:3")], 4_000);
}

#[test]
fn acknowledged_it_goes_on_past_the_dead() {
    let acked = &[("handoff", "acked")];
    trials::keeps_its_formula::<RingBallot>(acked);
    trials::finds_the_dead_by_itself::<RingBallot>(acked, 4_000);
    trials::weathers::<RingBallot>(Weather::CRASH, acked, 4_000);
    trials::weathers::<RingBallot>(Weather::STORM.tentative(), acked, 10_000);
    trials::weathers::<RingBallot>(Weather::DOUBT, acked, 10_000);
}

#[test]
fn wrong_suspicions_are_got_over() {
    trials::weathers::<RingBallot>(Weather::DOUBT, &[], 20_000);
}

#[test]
fn a_storm_of_crashes_restarts_and_retirements() {
    trials::weathers::<RingBallot>(Weather::STORM.tentative(), &[], 10_000);
    trials::weathers::<RingBallot>(
        Weather::STORM.tentative(),
        &[("prefers", "1:2"), ("weights", "1:3")],
        10_000,
    );
}

#[test]
fn nonsense_is_rejected() {
    let members = Members::numbered(3);
    let config = config::<RingBallot>(&[], None, &members);
    let election = |initiator, voters: &[u32]| Msg::Election {
        initiator: NodeId(initiator),
        round: None,
        ballots: voters.iter().map(|id| Ballot { weight: u64::MAX, ..config.ballot(NodeId(*id)) }).collect(),
    };
    let mut world = world::<RingBallot>(&members, &config, &[]);
    for voters in [&[][..], &[3, 2], &[2, 2], &[2, 9], &[2, 1]] {
        world.input(NodeId(1), Input::Receive { from: NodeId(3), message: election(2, voters) });
    }
    assert_eq!(world.rejects.len(), 5);
    // The largest weights there are do no harm.
    world.input(NodeId(1), Input::Receive { from: NodeId(3), message: election(1, &[1, 2, 3]) });
    assert_eq!(world.process(1).leaders(), [NodeId(3)]);
}
