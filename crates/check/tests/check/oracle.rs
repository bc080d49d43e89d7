//! The engine against a second, simpler implementation of the same semantics, searched by stateright.
//!
//! Wherever all promises hold, both must find the same number of states, of steps between them, and the same distance to
//! the farthest state; wherever one of them finds a promise broken, so must the other.
//!
//! stateright keeps whole states and takes a hundred times as long per state: what is too large for a test of a few
//! seconds goes down to some depth only, unless `CONCLAVE_SOAK=1` asks for all of it.

use conclave_algorithms::{About, Channels, Trigger, election, mutex};
use conclave_check::{AskBudget, Budgets};

use crate::common::Scenario;

/// What a test follows only so deep, and a soak to the end.
struct Large {
    algorithm: &'static str,
    n: u32,
    depth: u32,
    states: &'static str,
}

const fn large(algorithm: &'static str, n: u32, depth: u32, states: &'static str) -> Large {
    Large { algorithm, n, depth, states }
}

/// Two entries each.
const TWICE: &[Large] =
    &[large("ricart-agrawala", 3, 16, "239,215"), large("carvalho-roucairol", 3, 16, "448,471")];

/// Channels that keep the order of messages where they need not, or do not keep it where they should.
const OTHER_ORDER: &[Large] =
    &[large("majority", 3, 10, "seven million"), large("total-order", 3, 10, "not counted")];

/// One crash during an election.
const WITH_CRASH: &[Large] = &[
    large("bully", 3, 8, "324,524"),
    large("ring-list", 3, 12, "214,735"),
    large("ring-k-leaders", 3, 12, "609,183"),
    large("ring-ballot", 3, 12, "213,703"),
];

/// How deep a search goes that has no end, or one too far even for a soak: a group that recovers begins new epochs
/// for as long as failure detectors are slow, and some elections number themselves.
const ENDLESS: u32 = 8;

const ONE_CRASH: Budgets = Budgets { crashes: 1, ..NOTHING };
const NOTHING: Budgets =
    Budgets { crashes: 0, restarts: 0, amnesia: false, drops: 0, duplicates: 0, suspicions: 0, cancels: 0 };

fn is_soaking() -> bool {
    std::env::var("CONCLAVE_SOAK").is_ok_and(|value| value == "1")
}

/// The two families that the plain model knows.
fn both() -> impl Iterator<Item = &'static About> {
    mutex::all().into_iter().chain(election::all())
}

/// As deep as the table says, unless there is time.
fn bounded(scenario: Scenario, table: &[Large]) -> Scenario {
    let is_it = |large: &&Large| {
        (large.algorithm, large.n as usize) == (&scenario.setup.algorithm, scenario.setup.nodes.len())
    };
    match table.iter().find(is_it) {
        Some(Large { states, depth, .. }) if !is_soaking() => {
            println!("{scenario}: of {states} states only those of the first {depth} steps");
            scenario.down_to(*depth)
        }
        _ => scenario,
    }
}

/// Searches a scenario twice; says whether all promises hold.
fn agree(scenario: &Scenario) -> bool {
    let engine = scenario.engine();
    // The engine judges the steps that lead to the last states that it sees, stateright the states from which it goes on.
    let oracle = match (engine.holds, scenario.depth) {
        (false, Some(depth)) => scenario.clone().down_to(depth + 1).oracle(),
        _ => scenario.oracle(),
    };
    println!("{scenario}: {} states, {} steps, depth {}", engine.states, engine.transitions, engine.depth);
    assert_eq!(engine.holds, oracle.holds, "{scenario}: do all promises hold?");
    if engine.holds {
        assert_eq!(engine.states, oracle.states, "{scenario}: states");
        assert_eq!(engine.transitions, oracle.transitions, "{scenario}: steps");
        assert!(
            scenario.depth.is_some() || engine.depth == oracle.depth,
            "{scenario}: {engine:?} {oracle:?}"
        );
    }
    engine.holds
}

fn agree_that_all_holds(scenario: &Scenario) {
    assert!(agree(scenario), "{scenario}: a promise is broken");
}

#[test]
fn two_processes_enter_once() {
    for about in both() {
        agree_that_all_holds(&Scenario::new(about.name, 2));
    }
}

#[test]
fn two_processes_enter_twice() {
    for about in both() {
        agree_that_all_holds(&Scenario::new(about.name, 2).entries(AskBudget::Times(2)));
    }
}

#[test]
fn three_processes_enter_once() {
    for about in both() {
        agree_that_all_holds(&Scenario::new(about.name, 3));
    }
}

/// Not all of it has an end that is near.
#[test]
fn three_processes_enter_twice() {
    let far = [
        "lamport",
        "majority",
        "ricart-agrawala-token",
        "total-order",
        "bully",
        "ring-list",
        "ring-k-leaders",
        "ring-ballot",
    ];
    for about in both() {
        let scenario = Scenario::new(about.name, 3).entries(AskBudget::Times(2));
        agree(&match far.contains(&about.name) {
            true => scenario.down_to(ENDLESS),
            false => bounded(scenario, TWICE),
        });
    }
}

/// Here numbers that only grow are moved down.
#[test]
fn entering_forever() {
    for about in mutex::all() {
        let twice = Scenario::new(about.name, 2).entries(AskBudget::Forever);
        // The posts of a view are part of the state, so that entering forever has no end.
        if about.name == "total-order" {
            agree(&twice.down_to(ENDLESS));
        } else {
            agree_that_all_holds(&twice);
        }
        agree(&Scenario::new(about.name, 3).entries(AskBudget::Forever).down_to(ENDLESS));
    }
    for about in election::all() {
        agree_that_all_holds(&Scenario::new(about.name, 2).entries(AskBudget::Forever).down_to(ENDLESS));
    }
}

#[test]
fn variants() {
    let variants = [
        ("token-ring", "idle", "park"),
        ("ricart-agrawala", "answer", "queued"),
        ("ricart-agrawala", "replies", "plain"),
    ];
    for (name, key, value) in variants {
        agree_that_all_holds(&Scenario::new(name, 2).set(key, value));
        agree_that_all_holds(&Scenario::new(name, 3).set(key, value));
    }
}

/// Some rely on the order of messages and break without it.
#[test]
fn the_other_order_of_channels() {
    let mut broken = 0;
    for about in both() {
        let other = if about.channels == Channels::Fifo { Channels::Any } else { Channels::Fifo };
        broken += usize::from(!agree(&Scenario::new(about.name, 2).channels(other)));
        broken += usize::from(!agree(&bounded(Scenario::new(about.name, 3).channels(other), OTHER_ORDER)));
    }
    assert!(broken > 0, "nobody relies on the order of messages");
}

#[test]
fn calls_before_a_leader_is_known() {
    for about in election::all() {
        agree_that_all_holds(&Scenario::new(about.name, 2).entries(AskBudget::First));
        agree_that_all_holds(&Scenario::new(about.name, 3).entries(AskBudget::First));
    }
}

#[test]
fn slower_messages_and_no_time_at_all() {
    for ticks in [Some(2), Some(3), None] {
        for entries in [1, 2] {
            agree(&Scenario::new("bully", 2).entries(AskBudget::Times(entries)).ticks(ticks));
        }
        agree(&Scenario::new("bully", 2).failing(ONE_CRASH).ticks(ticks));
        agree(&Scenario::new("bully", 3).ticks(ticks).down_to(ENDLESS));
    }
}

#[test]
fn a_crash_during_an_election() {
    for about in election::all() {
        agree_that_all_holds(&Scenario::new(about.name, 2).failing(ONE_CRASH));
        agree_that_all_holds(&bounded(Scenario::new(about.name, 3).failing(ONE_CRASH), WITH_CRASH));
    }
}

#[test]
fn a_crash_and_a_restart_during_an_election() {
    for about in election::all() {
        let budgets = Budgets { restarts: 1, ..ONE_CRASH };
        agree(&Scenario::new(about.name, 2).failing(budgets).down_to(2 * ENDLESS));
        agree(
            &Scenario::new(about.name, 2).failing(Budgets { amnesia: true, ..budgets }).down_to(2 * ENDLESS),
        );
    }
}

/// The second implementation cuts every step after each of its effects and loses whatever can be lost; the engine leaves out
/// what comes to the same. So they take other steps, but see the same states.
#[test]
fn a_crash_inside_a_step() {
    let agree = |scenario: &Scenario| {
        let (engine, oracle) = (scenario.engine(), scenario.oracle());
        println!(
            "{scenario}: {} states, {} steps and {}",
            engine.states, engine.transitions, oracle.transitions
        );
        assert_eq!(engine.holds, oracle.holds, "{scenario}: do all promises hold?");
        if engine.holds {
            assert_eq!(engine.states, oracle.states, "{scenario}: states");
        }
        (engine.holds, engine.states)
    };
    let mut compared = 0;
    for about in election::all() {
        for order in [Channels::Fifo, Channels::Any] {
            let scenario = Scenario::new(about.name, 2).channels(order).failing(ONE_CRASH);
            let whole = scenario.engine();
            let (holds, states) = agree(&scenario.inside_steps());
            assert!(!holds || !whole.holds || states > whole.states, "{}: nothing is lost", about.name);
            compared += usize::from(holds);
        }
    }
    assert!(compared > 6, "only {compared} keep their promises");
}

#[test]
fn a_crash_among_those_who_enter() {
    for about in mutex::all() {
        agree(&Scenario::new(about.name, 2).failing(ONE_CRASH).down_to(ENDLESS));
        agree(&Scenario::new(about.name, 2).failing(Budgets { restarts: 1, ..ONE_CRASH }).down_to(ENDLESS));
        agree(&Scenario::new(about.name, 3).failing(ONE_CRASH).down_to(ENDLESS / 2));
    }
}

#[test]
fn a_request_is_given_up() {
    for about in mutex::all() {
        agree_that_all_holds(&Scenario::new(about.name, 2).failing(Budgets { cancels: 1, ..NOTHING }));
    }
}

#[test]
fn a_message_is_lost_or_doubled() {
    for about in both() {
        agree(&Scenario::new(about.name, 2).failing(Budgets { drops: 1, ..NOTHING }).down_to(2 * ENDLESS));
        agree(
            &Scenario::new(about.name, 2).failing(Budgets { duplicates: 1, ..NOTHING }).down_to(2 * ENDLESS),
        );
    }
}

#[test]
fn a_failure_detector_errs() {
    for about in both() {
        agree(&Scenario::new(about.name, 2).failing(Budgets { suspicions: 1, ..NOTHING }).down_to(ENDLESS));
    }
}

/// Those that break an order of grants, or only run forever, are caught by neither.
#[test]
fn mutants() {
    let mut caught = 0;
    for about in both() {
        let small = about.mutants.iter().filter(|mutant| mutant.nodes <= 3);
        for mutant in small.filter(|mutant| mutant.trigger == Trigger::Schedule) {
            let scenario = Scenario::new(about.name, mutant.nodes).mutant(mutant.name);
            let is_caught = matches!(mutant.breaks, "ME1" | "ME2" | "TOK" | "E1" | "E2" | "E3" | "E4" | "E5");
            let scenario = if is_caught { scenario } else { scenario.down_to(ENDLESS) };
            caught += usize::from(!agree(&scenario));
        }
    }
    assert!(caught > 20, "only {caught} mutants were caught");
}
