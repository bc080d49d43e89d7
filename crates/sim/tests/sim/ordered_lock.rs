//! A lock over total order: it costs what its multicast costs, renews its view, and goes on when somebody dies.

use conclave_algorithms::mutex::{Load, LockReport};
use conclave_core::NodeId;
use conclave_sim::Plan;
use conclave_sim::faults::{Crash, Inside};
use conclave_sim::span::Span;

use crate::common::{LOADS, plan, run, run_well, seeds, setup};

/// How many messages an entry costs in a group of so many.
type Cost = fn(u64) -> u64;

#[test]
fn an_entry_costs_two_posts_whatever_the_order() {
    let costs: [(&str, Cost); 3] =
        [("sequencer", |n| 4 * (n - 1)), ("isis", |n| 6 * (n - 1)), ("lamport-stamps", |n| 2 * n * (n - 1))];
    for (order, cost) in costs {
        for n in 1..=8 {
            for load in LOADS {
                let report =
                    run_well(&setup("total-order", n, &[("order", order)]), &plan(n, load, 7)).report;
                assert_eq!(report.messages, 2 * u64::from(n) * cost(n.into()), "{order}, n = {n}, {load:?}");
                assert_eq!(report.formula.agrees, Some(true), "{order}, n = {n}, {load:?}");
            }
        }
    }
}

/// From request to entry, and from exit to the next entry, in message delays.
#[test]
fn its_delays_are_those_of_its_multicast() {
    for (order, client, sync) in
        [("sequencer", 2.0, 1.7..=2.0), ("isis", 2.0, 3.0..=3.0), ("lamport-stamps", 2.0, 2.0..=2.0)]
    {
        let setup = setup("total-order", 7, &[("order", order)]);
        let alone = Plan { delay: Span::Constant(5_000), ..plan(7, Load::Light, 1) };
        let report = run_well(&setup, &alone).report;
        let lock = report.part::<LockReport>().expect("it is a lock");
        assert_eq!(lock.client_delay.max / 5.0, client, "{order}: client delay");
        let pressed = Plan {
            delay: Span::Constant(5_000),
            hold: Some(Span::Constant(20_000)),
            entries: 10,
            ..plan(7, Load::Saturated, 1)
        };
        let report = run_well(&setup, &pressed).report;
        let hops = report.part::<LockReport>().and_then(|lock| lock.sync_delay_hops);
        let hops = hops.expect("there was a queue all the time");
        assert!(sync.contains(&hops), "{order}: synchronization delay {hops}");
    }
}

/// The posts of a view are not kept forever: after 256 of them there is the next, and it costs 3(n − 1).
#[test]
fn a_long_run_renews_its_view() {
    for (n, entries, load) in [(2, 300, Load::Saturated), (3, 200, Load::Light), (4, 100, Load::Open)] {
        let long = Plan { entries, ..plan(n, load, 3) };
        let report = run_well(&setup("total-order", n, &[]), &long).report;
        let (posts, others) = (2 * u64::from(n) * entries, u64::from(n) - 1);
        assert!(posts > 512 && report.messages > 2 * posts * others, "n = {n}: {} messages", report.messages);
        assert_eq!(report.formula.agrees, Some(true), "n = {n}: {} messages", report.messages);
    }
}

/// Any process crashes at any moment, between two steps or inside one, and nobody helps: all who are left are served.
#[test]
fn with_a_sequencer_the_living_go_on_by_themselves() {
    for n in 2..=6 {
        let setup = setup("total-order", n, &[("recovery", "off")]);
        for seed in seeds(150) {
            let mut plan = Plan { entries: 3, ..plan(n, LOADS[seed as usize % LOADS.len()], seed) };
            let inside = (seed % 2 == 0).then_some(Inside::Chance);
            let process = NodeId(1 + (seed / 2) as u32 % n);
            let at = seed.wrapping_mul(7_919_113) % 120_000;
            plan.faults.crashes.push(Crash { process, at, restart: None, amnesia: false, inside });
            plan.faults.detector = "late:1..10".parse().expect("a detector");
            plan.max_events = 300_000;
            let outcome = run(&setup, &plan);
            assert_eq!(outcome.violation, None, "n = {n}, seed {seed}");
            assert!(outcome.report.all_held() && outcome.report.ending == "done", "n = {n}, seed {seed}");
        }
    }
}

/// By another order whoever is inside and dies keeps its place.
#[test]
fn without_views_the_dead_keep_their_places() {
    for order in ["isis", "lamport-stamps"] {
        let setup = setup("total-order", 3, &[("order", order), ("recovery", "off")]);
        let blocked = (1..=30).any(|seed| {
            let mut plan = plan(3, Load::Saturated, seed);
            let crash =
                Crash { process: NodeId(2), at: seed * 1_000, restart: None, amnesia: false, inside: None };
            plan.faults.crashes.push(crash);
            plan.faults.detector = "perfect".parse().expect("a detector");
            run(&setup, &plan).violation.is_some_and(|violation| violation.property == "ME2")
        });
        assert!(blocked, "{order}");
    }
}
