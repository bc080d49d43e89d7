//! Random runs: what an algorithm promises holds, what it costs is what its formula says, and every mutant is
//! caught by the property that it is said to break.

use crate::common::world::World;
use crate::common::{Plan, configure, every_setting, is_unsafe, run, world};
use crate::visit::visit;
use conclave_algorithms::election::{self, Election};
use conclave_algorithms::mutex::{self, Load, Mutex, Properties, Tally};
use conclave_algorithms::{Algorithm, Channels, Mutant, Named, NamedConfig, Trigger, is_mutant_of_recovery};
use conclave_core::{Members, Message};

const LOADS: [Load; 3] = [Load::Light, Load::Open, Load::Saturated];

/// Calls the visitor for every algorithm.
fn for_each<V: mutex::Visitor<Output = ()> + election::Visitor<Output = ()> + Copy>(visitor: V) {
    for about in crate::visit::all() {
        visit(about.name, visitor).expect("what the registry lists can be visited");
    }
}

#[derive(Clone, Copy)]
struct Honest;

impl mutex::Visitor for Honest {
    type Output = ();

    fn visit<A: Mutex + Algorithm>(self) {
        for given in every_setting(&A::ABOUT) {
            if is_unsafe(&A::ABOUT, &given) {
                continue;
            }
            for n in 1..=9 {
                let members = Members::numbered(n);
                let Some(config) = configure::<A>(&given, None, &members) else { continue };
                for load in LOADS {
                    for seed in 0..10 {
                        let plan = Plan::of::<A>(&config, seed, load);
                        let context = format!("{} {given:?} n={n} {plan:?}", A::ABOUT.name);
                        judge::<A>(&members, &config, plan, &context);
                    }
                }
            }
        }
    }
}

impl election::Visitor for Honest {
    type Output = ();

    /// Elections have tests of their own.
    fn visit<A: Election>(self) {}
}

fn judge<A: Mutex + Algorithm>(members: &Members, config: &A::Config, plan: Plan, context: &str) {
    let world = run(world::<A>(members, config), plan);
    assert_eq!(world.observer.violation(), None, "{context}");
    let (entries, waited) = (world.observer.entries(), world.observer.waited());
    assert!(entries.iter().all(|count| *count == u64::from(plan.entries)), "{context}: {entries:?}");
    let at_hand = world.observer.at_hand();
    let tally = Tally { load: plan.load, locks: 1, entries: &entries, waited: &waited, at_hand: &at_hand };
    let formula = A::formula(config, members, &tally);
    let messages = world.sent.iter().filter(|(_, _, message)| !message.is_overhead()).count();
    assert!(formula.admits(messages as u64), "{context}: {messages} messages, {formula:?}");
}

#[test]
fn promises_and_formulas_hold() {
    for_each(Honest);
}

#[derive(Clone, Copy)]
struct GivingUp;

impl mutex::Visitor for GivingUp {
    type Output = ();

    /// Requests that are given up at any moment break nothing, and leave nobody behind.
    fn visit<A: Mutex + Algorithm>(self) {
        for given in every_setting(&A::ABOUT) {
            if is_unsafe(&A::ABOUT, &given) {
                continue;
            }
            for n in [2, 3, 4, 7] {
                let members = Members::numbered(n);
                let Some(config) = configure::<A>(&given, None, &members) else { continue };
                // Who needs no order of messages takes second copies, too. The order of causality is judged by when a
                // message was sent, and a copy does not tell.
                let copies =
                    A::ABOUT.channels == Channels::Any && !A::promises(&config, &members).causal_order;
                for seed in 0..150 {
                    let load = if seed % 2 == 0 { Load::Open } else { Load::Saturated };
                    let plan = Plan {
                        cancel_one_in: 4,
                        entries: 6,
                        duplicate_one_in: if copies && seed % 3 == 0 { 5 } else { 0 },
                        ..Plan::of::<A>(&config, seed, load)
                    };
                    let world = run(world::<A>(&members, &config), plan);
                    let context = format!("{} {given:?} n={n} {plan:?}", A::ABOUT.name);
                    assert_eq!(world.observer.violation(), None, "{context}");
                }
            }
        }
    }
}

impl election::Visitor for GivingUp {
    type Output = ();

    /// Elections have tests of their own.
    fn visit<A: Election>(self) {}
}

#[test]
fn requests_can_be_given_up_at_any_moment() {
    for_each(GivingUp);
}

#[derive(Clone, Copy)]
struct Mutants;

impl mutex::Visitor for Mutants {
    type Output = ();

    fn visit<A: Mutex + Algorithm>(self) {
        // Those that need a failure, or a group that recovers, are seen in the simulator.
        let plain =
            |mutant: &&Mutant| mutant.trigger == Trigger::Schedule && !is_mutant_of_recovery(mutant.name);
        for mutant in A::ABOUT.mutants.iter().filter(plain) {
            let members = Members::numbered(mutant.nodes);
            let config = configure::<A>(&[], Some(mutant.name), &members).expect("a mutant fits its size");
            let found = |seed: &u64| {
                let load = if seed.is_multiple_of(2) { Load::Open } else { Load::Saturated };
                // Some mutants are broken only where time is too short.
                let plan = Plan { hasty: seed.is_multiple_of(3), ..Plan::of::<A>(&config, *seed, load) };
                let world = run(world::<A>(&members, &config), plan);
                world.observer.violation().is_some_and(|violation| violation.property == mutant.breaks)
            };
            let caught = (0..3_000).filter(found).take(3).count();
            assert!(caught == 3, "{}: {} is caught in {caught} of 3,000 runs", A::ABOUT.name, mutant.name);
        }
    }
}

impl election::Visitor for Mutants {
    type Output = ();

    /// Elections have tests of their own.
    fn visit<A: Election>(self) {}
}

#[test]
fn every_mutant_is_caught() {
    for_each(Mutants);
}

#[derive(Clone, Copy)]
struct Several;

impl mutex::Visitor for Several {
    type Output = ();

    /// Several locks in one process do not disturb each other.
    fn visit<A: Mutex + Algorithm>(self) {
        let members = Members::numbered(3);
        let config = configure::<A>(&[], None, &members).expect("the defaults fit any group");
        let named = NamedConfig::<A>::new(config.clone());
        for seed in 0..20 {
            let judge = Properties::new::<A>(&config, &members, 3, None);
            let world: World<Named<A>, Properties> = World::new(members.clone(), &named, judge);
            let plan = Plan { locks: 3, ..Plan::of::<A>(&config, seed, LOADS[seed as usize % 3]) };
            let world = run(world, plan);
            assert_eq!(world.observer.violation(), None, "{} {plan:?}", A::ABOUT.name);
            assert_eq!(world.observer.entries(), [9, 9, 9]);
        }
    }
}

impl election::Visitor for Several {
    type Output = ();

    /// Elections have tests of their own.
    fn visit<A: Election>(self) {}
}

#[test]
fn named_locks_keep_the_promises_of_their_algorithm() {
    for_each(Several);
}
