use super::*;
use crate::election::trials::config;
use crate::election::{Bully, ChangRoberts};
use crate::judge::Ledger as _;
use alloc::vec;
use conclave_core::{Boot, Protocol as _, Timing};

/// The ledger of a made-up run among three processes, of whom p3 should lead.
struct Told {
    ledger: Ledger<ChangRoberts>,
    breaches: Vec<Breach>,
}

impl Told {
    fn new() -> Self {
        let members = Members::numbered(3);
        let ledger = Ledger::new(&config::<ChangRoberts>(&[], None, &members), &members);
        Self { ledger, breaches: Vec::new() }
    }

    fn ask(&mut self, id: u32, request: Request) {
        self.ledger.input(id as usize - 1, &Input::Request(request));
    }

    /// A process believes in these leaders, and is not told of it.
    fn believe(&mut self, id: u32, leaders: &[u32]) {
        self.ledger.beliefs[id as usize - 1].leaders = nodes(leaders);
    }

    fn tell(&mut self, id: u32, leaders: &[u32], term: u64) {
        let event = Event::Elected { leaders: nodes(leaders), term };
        self.ledger.emit(id as usize - 1, &event, &mut self.breaches);
        self.believe(id, leaders);
        self.ledger.close();
    }

    fn crash(&mut self, id: u32) {
        self.ledger.crash(id as usize - 1);
    }

    fn restart(&mut self, id: u32) {
        self.ledger.restart(id as usize - 1, Incarnation(2));
    }

    fn hear_of_the_end(&mut self, id: u32, peer: u32) {
        let down = Input::PeerDown { peer: NodeId(peer), life: Incarnation::FIRST };
        self.ledger.input(id as usize - 1, &down);
    }

    fn hear_of_the_return(&mut self, id: u32, peer: u32) {
        let up = Input::PeerUp { peer: NodeId(peer), life: Incarnation(2) };
        self.ledger.input(id as usize - 1, &up);
    }

    fn broke_e1(&self) -> bool {
        assert!(self.breaches.iter().all(|breach| breach.property == "E1" && breach.promised));
        !self.breaches.is_empty()
    }

    /// An election that comes out right.
    fn elect(&mut self, starter: u32) {
        self.ask(starter, Request::Start);
        for id in [3, 1, 2] {
            self.tell(id, &[3], 0);
        }
    }

    fn quiet(&self) -> Vec<&'static str> {
        assert_eq!(self.breaches, []);
        let mut breaches = Vec::new();
        self.ledger.quiet(&mut breaches);
        assert!(breaches.iter().all(|breach| breach.promised));
        breaches.into_iter().map(|breach| breach.property).collect()
    }
}

fn nodes(ids: &[u32]) -> Vec<NodeId> {
    ids.iter().copied().map(NodeId).collect()
}

#[test]
fn a_good_election_breaks_nothing() {
    let mut told = Told::new();
    assert_eq!(told.quiet(), [""; 0], "nobody asked for a leader");
    told.elect(1);
    assert_eq!(told.quiet(), [""; 0]);
    assert_eq!(told.ledger.agreed(), Some(nodes(&[3]).as_slice()));
}

#[test]
fn two_leaders_in_one_term_break_e1_at_once() {
    let mut told = Told::new();
    told.tell(1, &[2], 1);
    told.tell(2, &[3], 2);
    told.tell(3, &[3], 2);
    assert_eq!(told.breaches, []);
    told.tell(3, &[3], 1);
    let detail = "in term 1 p3 was told of p3, others of p2".into();
    assert_eq!(told.breaches, [Breach { property: "E1", detail, promised: true }]);
}

#[test]
fn without_terms_two_leaders_break_e1_at_once() {
    for told_of in [[2, 3], [3, 2]] {
        let mut told = Told::new();
        told.ask(1, Request::Start);
        told_of.into_iter().for_each(|leader| told.tell(1, &[leader], 0));
        assert!(told.broke_e1());
        let detail = format!("in one election p1 was told of p{}, others of p{}", told_of[1], told_of[0]);
        assert_eq!(told.breaches[0].detail, detail);
    }
}

#[test]
fn without_terms_e1_is_broken_by_a_leader_that_is_not_the_one_of_the_end() {
    let mut told = Told::new();
    told.ask(1, Request::Start);
    told.tell(1, &[2], 0);
    [1, 2, 3].into_iter().for_each(|id| told.believe(id, &[3]));
    assert_eq!(told.quiet(), ["E1"]);
    let mut breaches = Vec::new();
    told.ledger.quiet(&mut breaches);
    assert_eq!(breaches[0].detail, "somebody was told of p2, and the election ended with p3");
}

/// The leader dies or retires when all is over: the next election has another.
#[test]
fn a_leader_that_goes_is_rightly_replaced() {
    for retires in [false, true] {
        let mut told = Told::new();
        told.elect(1);
        match retires {
            true => told.ask(3, Request::Retire),
            false => told.crash(3),
        }
        for id in [2, 1] {
            told.tell(id, &[2], 0);
        }
        told.believe(3, if retires { &[2] } else { &[] });
        assert_eq!(told.quiet(), [""; 0], "retires: {retires}");
    }
}

/// It dies when only some have been told; the news of it still travels, and says nothing any more.
#[test]
fn a_leader_that_dies_in_the_middle_does_not_count() {
    let mut told = Told::new();
    told.ask(1, Request::Start);
    told.tell(3, &[3], 0);
    told.crash(3);
    told.tell(2, &[2], 0);
    told.tell(1, &[3], 0);
    told.tell(1, &[2], 0);
    assert_eq!(told.quiet(), [""; 0]);
}

/// Whoever announces itself while a higher one is alive breaks E1, whoever else dies.
#[test]
fn the_death_of_another_excuses_nobody() {
    let mut told = Told::new();
    told.ask(1, Request::Start);
    told.tell(2, &[2], 0);
    told.crash(1);
    told.tell(3, &[3], 0);
    assert!(told.broke_e1());
}

/// p3 is down, and p2 announces itself.
fn without_the_highest() -> Told {
    let mut told = Told::new();
    told.crash(3);
    told.ask(1, Request::Start);
    told.tell(2, &[2], 0);
    told
}

/// A process comes back while its successor announces itself: whoever hears of the successor last takes it for the leader.
#[test]
fn elections_that_overlap_are_one() {
    let mut told = without_the_highest();
    told.restart(3);
    told.tell(3, &[3], 0);
    told.tell(1, &[2], 0);
    told.tell(1, &[3], 0);
    assert!(!told.broke_e1(), "the old news came first");
    told.tell(1, &[2], 0);
    assert!(told.broke_e1());
    assert_eq!(told.breaches[0].detail, "in one election p1 was told of p2, others of p3");
}

#[test]
fn a_return_when_all_is_over_begins_another_election() {
    let mut told = without_the_highest();
    told.tell(1, &[2], 0);
    told.restart(3);
    for id in [3, 1, 2] {
        told.tell(id, &[3], 0);
    }
    assert_eq!(told.quiet(), [""; 0]);
}

/// Only who comes back is an excuse, and only for itself.
#[test]
fn a_return_excuses_one_leader() {
    let mut told = without_the_highest();
    told.restart(3);
    told.tell(3, &[3], 0);
    told.tell(1, &[1], 0);
    assert!(told.broke_e1());
}

/// An election in which somebody takes part is open, whatever the others name.
#[test]
fn an_election_is_open_while_anybody_takes_part() {
    for takes_part in [false, true] {
        let mut told = Told::new();
        told.ask(1, Request::Start);
        told.crash(3);
        told.tell(2, &[2], 0);
        told.ledger.beliefs[0].participates = takes_part;
        told.tell(1, &[2], 0);
        assert_eq!(told.ledger.told_now().is_some(), takes_part);
    }
}

#[test]
fn who_knows_of_no_leader_breaks_e2() {
    let mut told = Told::new();
    told.elect(1);
    told.believe(1, &[]);
    assert_eq!(told.quiet(), ["E2"]);
    told.ledger.crash(0);
    assert_eq!(told.quiet(), [""; 0], "the dead need not know");
}

#[test]
fn too_many_who_lead_break_e3_and_e4_and_e5() {
    let mut told = Told::new();
    told.elect(1);
    told.believe(1, &[1]);
    assert_eq!(told.quiet(), ["E3", "E4", "E5"]);
}

#[test]
fn different_leaders_break_e4_and_e5() {
    let mut told = Told::new();
    told.elect(1);
    told.believe(1, &[2]);
    assert_eq!(told.quiet(), ["E4", "E5"]);
}

#[test]
fn a_leader_that_is_not_the_highest_breaks_e5() {
    let mut told = Told::new();
    told.ask(1, Request::Start);
    [1, 2, 3].into_iter().for_each(|id| told.believe(id, &[2]));
    assert_eq!(told.quiet(), ["E5"]);
    told.ask(3, Request::Retire);
    assert_eq!(told.quiet(), [""; 0], "who retired is not to be elected");
}

/// Who was down before anybody asked was never part of it.
#[test]
fn who_was_never_there_changes_nothing() {
    let mut told = Told::new();
    told.ledger.crash(2);
    told.ask(1, Request::Start);
    told.tell(1, &[1], 0);
    told.tell(1, &[2], 0);
    assert!(told.broke_e1());
}

#[test]
fn a_process_shows_what_it_believes_and_whether_it_takes_part() {
    let members = Members::numbered(1);
    let config = config::<ChangRoberts>(&[], None, &members);
    let mut ledger = Ledger::new(&config, &members);
    let (timing, life) = (Timing::default(), Incarnation::FIRST);
    let boot = Boot { id: NodeId(1), members: &members, config: &config, timing, life, saved: None };
    let mut alone = ChangRoberts::boot(boot);
    ledger.handled(0, &alone, &mut Vec::new());
    assert!(!ledger.has_begun() && ledger.belief(0).is_empty());
    alone.handle(Input::Request(Request::Start), &mut Vec::new());
    ledger.handled(0, &alone, &mut Vec::new());
    assert_eq!(ledger.belief(0), [NodeId(1)]);
}

/// The same situation after one election and after three is the same value.
#[test]
fn nothing_counts_from_the_beginning() {
    let after = |elections: u32| {
        let mut told = Told::new();
        (0..elections).for_each(|_| told.elect(1));
        told.ledger
    };
    assert_eq!(after(1), after(3));
}

/// Terms can be moved down, and none becomes 0.
#[test]
fn terms_are_relative() {
    let members = Members::numbered(3);
    let told_in = |term: u64| {
        let mut ledger = Ledger::<Bully>::new(&config::<Bully>(&[], None, &members), &members);
        let event = Event::Elected { leaders: nodes(&[3]), term };
        ledger.emit(0, &event, &mut vec![]);
        ledger.visit_counters(&mut |counter| {
            assert_eq!(counter.space, TERM);
            *counter.value -= term - 1;
        });
        ledger
    };
    assert_eq!(told_in(1), told_in(3));
    assert_eq!(told_in(3).told, [(1, nodes(&[3]))]);
}

/// The announcement of a leader that is back by now still travels: to whoever has not heard of its end it is news of the
/// life that is over. Whoever has heard of it is told of the new life.
#[test]
fn news_of_a_former_life_is_no_news_of_the_present_one() {
    for has_heard in [false, true] {
        let mut told = Told::new();
        told.ask(1, Request::Start);
        told.tell(3, &[3], 0);
        told.crash(3);
        told.restart(3);
        if has_heard {
            told.hear_of_the_end(1, 3);
            told.hear_of_the_return(1, 3);
        }
        told.tell(1, &[3], 0);
        if !has_heard {
            told.hear_of_the_end(1, 3);
        }
        told.tell(1, &[2], 0);
        assert_eq!(told.broke_e1(), has_heard);
    }
}

/// Whoever called an election may have died with all who took part in it: the others know of none.
#[test]
fn an_election_of_the_dead_does_not_concern_the_living() {
    let mut told = Told::new();
    told.ask(1, Request::Start);
    told.crash(1);
    assert_eq!(told.quiet(), [""; 0]);
    told.ask(2, Request::Start);
    assert_eq!(told.quiet(), ["E2", "E3"], "p2 has called, too");
    told.crash(2);
    assert_eq!(told.quiet(), [""; 0]);
    told.believe(3, &[2]);
    assert!(told.quiet().contains(&"E5"), "p3 knows of a leader");
}

/// It was told of the death, and not yet of the return: it leads without the other, which is right as far as it can know. A
/// wrong suspicion excuses nobody.
#[test]
fn who_has_not_heard_of_a_return_goes_on_without_it() {
    for (is_back, breaks) in [(true, false), (false, true)] {
        let mut told = Told::new();
        told.elect(1);
        told.ask(2, Request::Start);
        told.crash(1);
        if is_back {
            told.crash(3);
            told.restart(3);
        }
        told.hear_of_the_end(2, 3);
        told.believe(3, &[]);
        told.tell(2, &[2], 0);
        told.tell(3, &[3], 0);
        assert_eq!(told.broke_e1(), breaks, "p3 is back: {is_back}");
    }
}
