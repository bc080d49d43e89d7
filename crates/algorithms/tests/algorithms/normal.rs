//! Growing numbers do not make the set of states infinite: where everyone asks forever, and the numbers are moved
//! down after every step, there are only so many states. And moving them down changes nothing: a state and its normal
//! form can do the same.

#![allow(
    clippy::disallowed_types,
    reason = "states have no order, and nothing here depends on that of a table"
)]

use std::collections::HashSet;

use crate::common::configure;
use crate::common::world::Dice;
use crate::graph::{App, Global, Limits, Step, reachable};
use crate::visit::visit;
use conclave_algorithms::Algorithm;
use conclave_algorithms::election::{self, Election};
use conclave_algorithms::mutex::{self, Mutex};
use conclave_core::Members;

/// An algorithm with settings, and a number of processes.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    given: &'static [(&'static str, &'static str)],
    nodes: u32,
}

const fn case(name: &'static str, given: &'static [(&'static str, &'static str)], nodes: u32) -> Case {
    Case { name, given, nodes }
}

impl Case {
    fn first<A: Mutex + Algorithm>(&self) -> Global<A> {
        let members = Members::numbered(self.nodes);
        let config = configure::<A>(self.given, None, &members).expect("settings that fit");
        Global::new(&members, &config)
    }

    fn visit<V: mutex::Visitor + election::Visitor<Output = <V as mutex::Visitor>::Output>>(
        &self,
        visitor: V,
    ) -> <V as mutex::Visitor>::Output {
        visit(self.name, visitor).expect("a registered algorithm")
    }
}

/// Those with finitely many states, and how many. Channels of any order are multisets.
const FINITE: &[(Case, usize)] = &[
    (case("central", &[], 2), 29),
    (case("central", &[], 3), 200),
    (case("lamport", &[], 2), 1_287),
    (case("lamport", &[("replies", "suppressed")], 2), 220),
    (case("ricart-agrawala", &[], 2), 57),
    (case("ricart-agrawala", &[], 3), 26_610),
    (case("carvalho-roucairol", &[], 2), 25),
    (case("lodha-kshemkalyani", &[], 2), 45),
    (case("maekawa", &[], 2), 63),
    (case("maekawa", &[("variant", "eager")], 2), 51),
    (case("majority", &[], 2), 60),
    (case("majority", &[("mode", "view")], 2), 60),
    (case("majority", &[("mode", "literal")], 2), 50),
    (case("ricart-agrawala-token", &[], 2), 34),
    (case("suzuki-kasami", &[], 2), 49),
    (case("token-ring", &[], 2), 44),
    (case("token-ring", &[], 3), 328),
    (case("raymond", &[], 2), 26),
    (case("raymond", &[], 3), 190),
    (case("raymond", &[("tree", "chain")], 3), 203),
    (case("singhal", &[], 2), 43),
    (case("total-order", &[("order", "isis")], 2), 330),
    (case("total-order", &[("order", "lamport-stamps")], 2), 5_552),
];

/// Those of which no form of the numbers makes finitely many states.
const INFINITE: &[Case] = &[
    // A word that is not needed may be overtaken by what was waited for, time and again, and is still in flight.
    case("central", &[("variant", "denied")], 2),
    case("ricart-agrawala", &[("answer", "queued")], 2),
    // So may a `Want`: the token can come before it reaches the token's home, and nothing tells that it has arrived.
    case("token-ring", &[("idle", "park")], 2),
    // A request to a third process that has no part in the entry; the same goes for every algorithm in which it is
    // answered by others than all whom it was sent to.
    case("suzuki-kasami", &[], 3),
    case("ricart-agrawala-token", &[], 3),
    case("singhal", &[], 3),
    case("majority", &[], 3),
    // The clock of a process whom nobody asks stands still while those of the others go on. How far it is behind
    // matters: that often can it ask and be earlier than they.
    case("maekawa", &[], 3),
    case("carvalho-roucairol", &[], 3),
    // Whoever gives up asks again before its earlier words have arrived.
    case("majority", &[("mode", "backoff")], 2),
    // A sequencer keeps the posts of a view, and what they were is part of the state.
    case("total-order", &[], 2),
];

struct Count(Case, Limits);

impl mutex::Visitor for Count {
    type Output = Option<usize>;

    fn visit<A: Mutex + Algorithm>(self) -> Option<usize> {
        reachable(self.0.first::<A>(), self.1, Global::normal).map(|states| states.len())
    }
}

impl election::Visitor for Count {
    type Output = Option<usize>;

    fn visit<A: Election>(self) -> Option<usize> {
        None
    }
}

#[test]
fn where_everyone_asks_forever_there_are_finitely_many_states() {
    let wrong: Vec<_> = FINITE
        .iter()
        .map(|(case, states)| (case, *states, case.visit(Count(*case, Limits::FAR))))
        .filter(|(_, states, found)| *found != Some(*states))
        .collect();
    assert!(wrong.is_empty(), "a case, its states, and those that were found: {wrong:?}");
}

#[test]
fn every_algorithm_for_locks_is_counted_here() {
    for about in mutex::all() {
        let case = case(about.name, &[], 2);
        let is_finite = FINITE.iter().any(|(counted, _)| counted.name == about.name);
        let is_infinite =
            INFINITE.iter().any(|infinite| infinite.name == about.name && infinite.given.is_empty());
        let found = (!is_finite && !is_infinite).then(|| case.visit(Count(case, Limits::FAR)));
        assert!(found.is_none(), "{} is in neither table; two of it have {found:?} states", about.name);
    }
}

#[test]
fn not_everything_is_finite() {
    let limits = Limits { states: 4_000, ..Limits::FAR };
    for case in INFINITE {
        assert_eq!(case.visit(Count(*case, limits)), None, "{case:?}");
    }
}

/// Requests that are never needed are all that stands against it.
#[test]
fn with_little_room_three_of_suzuki_and_kasami_are_finite() {
    let case = case("suzuki-kasami", &[], 3);
    let limits = Limits { room: 1, ..Limits::FAR };
    assert_eq!(case.visit(Count(case, limits)), Some(3_755));
}

struct Compare(Case, usize);

impl mutex::Visitor for Compare {
    type Output = ();

    fn visit<A: Mutex + Algorithm>(self) {
        let Self(case, depth) = self;
        let limits = Limits { depth, ..Limits::FAR };
        let plain = reachable(case.first::<A>(), limits, |state| state).expect("not too deep");
        let normal = reachable(case.first::<A>(), limits, Global::normal).expect("not too deep");
        let normalised: HashSet<_> = plain.into_iter().map(Global::normal).collect();
        assert!(normalised == normal, "{case:?}: {} and {}", normalised.len(), normal.len());
    }
}

impl election::Visitor for Compare {
    type Output = ();

    fn visit<A: Election>(self) {}
}

/// The states that one finds with numbers as large as they are, moved down at the end, are those that one finds by
/// moving them down after every step.
#[test]
fn numbers_that_are_moved_down_lead_to_the_same_states() {
    let finite = FINITE.iter().map(|(case, _)| case);
    for case in finite.chain(INFINITE) {
        case.visit(Compare(*case, if case.nodes == 2 { 14 } else { 7 }));
    }
}

struct Walk(Case, u64);

impl mutex::Visitor for Walk {
    type Output = ();

    fn visit<A: Mutex + Algorithm>(self) {
        let Self(case, seed) = self;
        let mut dice = Dice(seed);
        let mut state = case.first::<A>();
        for _ in 0..200 {
            let after = |state: &Global<A>| -> HashSet<_> {
                state.steps().into_iter().map(|step| state.after(step).normal()).collect()
            };
            assert!(after(&state) == after(&state.clone().normal()), "{case:?}: {state:?}");
            state = state.after(pick(&state, seed, &mut dice));
        }
    }
}

impl election::Visitor for Walk {
    type Output = ();

    fn visit<A: Election>(self) {}
}

/// Any step, but rarely one of the application of a process that is slow.
fn pick<A: Mutex + Algorithm>(state: &Global<A>, seed: u64, dice: &mut Dice) -> Step<A> {
    let slow = seed as usize % (state.apps.len() + 1);
    let mut steps = state.steps();
    if dice.below(30) > 0 {
        steps.retain(|step| *step != Step::Ask(slow));
    }
    if steps.is_empty() {
        steps = state.steps();
    }
    assert!(state.apps.iter().filter(|app| **app == App::Inside).count() <= 1);
    steps.swap_remove(dice.below(steps.len()))
}

/// On long ways, on which the numbers of one who stays away fall far behind: what a state can do, its normal form can.
#[test]
fn a_state_and_its_normal_form_can_do_the_same() {
    let finite = FINITE.iter().map(|(case, _)| case);
    for case in finite.chain(INFINITE) {
        for seed in 0..8 {
            case.visit(Walk(*case, seed));
        }
    }
}
