//! Mutants that are unfair: somebody waits forever although every message arrives and everyone who is let in
//! leaves. No run that comes to an end shows that; a way round in the graph of all states does.

use crate::common::configure;
use crate::graph::{Global, Graph, Limits};
use crate::visit::visit;
use conclave_algorithms::election::{self, Election};
use conclave_algorithms::mutex::{self, Mutex};
use conclave_algorithms::{Algorithm, Trigger};
use conclave_core::Members;

/// A mutant, and how far one has to go to find whom it starves.
struct Case {
    name: &'static str,
    mutant: &'static str,
    nodes: u32,
    room: usize,
    states: usize,
    /// By place.
    starved: &'static [usize],
}

/// The mutant of Ricart and Agrawala's token that passes over the highest is not among them: whoever waits forever has
/// the same stamp forever, while the clocks of the others move away from it, so that no state ever comes back.
const CASES: &[Case] = &[
    case("central", "lifo", 2, 2, 1_000, &[1]),
    case("central", "lifo", 3, 2, 1_000, &[0, 1, 2]),
    case("lamport", "give-way", 2, 3, 2_000, &[1]),
    case("ricart-agrawala", "give-way", 2, 2, 1_000, &[1]),
    case("ricart-agrawala", "give-way", 3, 2, 20_000, &[2]),
    case("carvalho-roucairol", "give-way", 2, 2, 1_000, &[1]),
    case("maekawa", "no-clock", 3, 2, 2_000, &[2]),
    case("majority", "no-clock", 3, 2, 60_000, &[2]),
    case("suzuki-kasami", "lifo", 3, 1, 5_000, &[0, 1, 2]),
    case("token-ring", "re-enter", 2, 2, 1_000, &[0, 1]),
    case("token-ring", "re-enter", 3, 2, 4_000, &[0, 1, 2]),
    case("raymond", "lifo", 2, 2, 1_000, &[0, 1]),
    case("raymond", "lifo", 3, 2, 1_000, &[0, 1, 2]),
    case("singhal", "lowest-first", 3, 1, 5_000, &[2]),
];

const fn case(
    name: &'static str,
    mutant: &'static str,
    nodes: u32,
    room: usize,
    states: usize,
    starved: &'static [usize],
) -> Case {
    Case { name, mutant, nodes, room, states, starved }
}

struct Starved<'a>(&'a Case, Option<&'static str>);

impl mutex::Visitor for Starved<'_> {
    type Output = Vec<usize>;

    fn visit<A: Mutex + Algorithm>(self) -> Vec<usize> {
        let Self(case, mutant) = self;
        let members = Members::numbered(case.nodes);
        let config = configure::<A>(&[], mutant, &members).expect("a mutant that fits");
        let limits = Limits { states: case.states, room: case.room, ..Limits::FAR };
        let graph = Graph::new(Global::<A>::new(&members, &config), limits);
        (0..members.len()).filter(|victim| graph.starves(*victim)).collect()
    }
}

impl election::Visitor for Starved<'_> {
    type Output = Vec<usize>;

    fn visit<A: Election>(self) -> Vec<usize> {
        Vec::new()
    }
}

#[test]
fn unfair_mutants_starve_somebody_and_the_algorithms_do_not() {
    for case in CASES {
        let starved = |mutant| visit(case.name, Starved(case, mutant)).expect("an algorithm");
        assert_eq!(starved(Some(case.mutant)), case.starved, "{} {}", case.name, case.mutant);
        assert!(starved(None).is_empty(), "{}", case.name);
    }
}

/// What no finite run shows is shown here.
#[test]
fn every_mutant_that_takes_forever_is_looked_at() {
    for about in mutex::all() {
        for mutant in about.mutants.iter().filter(|mutant| mutant.trigger == Trigger::Forever) {
            let shown =
                |case: &Case| (case.name, case.mutant, case.nodes) == (about.name, mutant.name, mutant.nodes);
            assert!(CASES.iter().any(shown), "{} {}", about.name, mutant.name);
            // Majority votes without clocks let two in before anybody starves.
            assert!(matches!(mutant.breaks, "ME3" | "ME1"), "{} {}", about.name, mutant.name);
        }
    }
}
