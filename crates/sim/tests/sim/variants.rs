//! Variants of the algorithms that the literature tells: their worked examples in time, and many seeds of each.

use crate::common::setup;
use conclave_algorithms::demand::{PlannedAsk, Who};
use conclave_algorithms::election::{self, ElectionReport};
use conclave_algorithms::mutex::Load;
use conclave_core::{Members, NodeId};
use conclave_sim::faults::Faults;
use conclave_sim::span::Span;
use conclave_sim::{Outcome, Plan, simulate_setup};
use conclave_trace::{Setup, What};

const T: u64 = 5_000;

fn start(at: u64, id: u32) -> PlannedAsk {
    PlannedAsk { at, who: Who::One(NodeId(id)), words: "start".into() }
}

/// A ring in this order, and a plan for it with constant delays.
fn ring(algorithm: &str, ids: &[u32], settings: &[(&str, &str)]) -> (Setup, Plan) {
    let mut setup = setup(algorithm, 1, settings);
    setup.nodes = ids.iter().copied().map(NodeId).collect();
    let plan = Plan { delay: Span::Constant(T), ..Plan::new(Members::listed(setup.nodes.clone())) };
    (setup, plan)
}

/// Elections among `1..=n` that these start at the beginning, without a detector.
fn electing(n: u32, starters: &[u32]) -> Plan {
    let asks = starters.iter().map(|id| start(0, *id)).collect();
    Plan { delay: Span::Constant(T), asks, ..Plan::new(Members::numbered(n)) }
}

fn run(setup: &Setup, plan: &Plan) -> Outcome {
    simulate_setup(setup, plan, true).expect("the setup is possible")
}

fn run_well(setup: &Setup, plan: &Plan) -> Outcome {
    let outcome = run(setup, plan);
    assert!(
        outcome.violation.is_none() && outcome.report.all_held() && outcome.report.ending == "done",
        "{setup} --seed {} {:?}: {:?} {}",
        plan.seed,
        plan.faults.crashes,
        outcome.violation,
        outcome.report.ending,
    );
    outcome
}

fn leader(outcome: &Outcome) -> Option<u32> {
    outcome.report.part::<ElectionReport>().expect("an election").leader.map(|id| id.0)
}

/// When the first record of this kind was made.
fn first(outcome: &Outcome, is_it: impl Fn(&What) -> bool) -> Option<u64> {
    let trace = outcome.trace.as_ref().expect("it was traced");
    trace.records.iter().find(|record| is_it(&record.what)).map(|record| record.time)
}

fn sent(kind: &str) -> impl Fn(&What) -> bool {
    move |what| matches!(what, What::Send(message) if message.message == kind)
}

/// The worked example V-L4: by any later message p1 enters at T, by replies at 2T; 18 messages both.
#[test]
fn book_v_l4_entry_by_replies_takes_one_delay_more() {
    for (enter, at) in [("later", T), ("acks", 2 * T)] {
        let plan = Plan {
            entries: 1,
            load: Load::Saturated,
            delay: Span::Constant(T),
            hold: Some(Span::Constant(1_000)),
            ..Plan::new(Members::numbered(3))
        };
        let outcome = run_well(&setup("lamport", 3, &[("enter", enter)]), &plan);
        let entry = first(&outcome, |what| matches!(what, What::Event { event, .. } if event == "granted"));
        assert_eq!(entry, Some(at), "enter={enter}");
        assert_eq!(outcome.report.messages, 18, "enter={enter}");
        assert_eq!(outcome.report.formula.agrees, Some(true));
    }
}

/// The worked example V-N3 and the leader that dies in office: one lost try at the dead, acknowledgements counted apart.
#[test]
fn book_v_n3_a_dead_successor_costs_one_try() {
    let acked = &[("handoff", "acked")];
    let (list, mut plan) = ring("ring-list", &[3, 5, 0, 1, 4, 6], acked);
    plan.faults.crashes.push("6@0".parse().unwrap());
    plan.asks = vec![start(1_000, 3)];
    let outcome = run_well(&list, &plan);
    assert_eq!(leader(&outcome), Some(5));
    assert_eq!((outcome.report.messages, outcome.report.overhead_messages), (11, 10));
    assert_eq!(outcome.report.formula.agrees, Some(true), "{:?}", outcome.report.formula);
    plan.asks.push(start(1_000_000, 3));
    assert_eq!(run(&list, &plan).report.messages, 11 + 10, "4 remembers");

    // 12 for the first leader; then 2n + d and 2n among five, and the try.
    for (algorithm, second) in [("chang-roberts", 12 + 1), ("ring-list", 10 + 1)] {
        let (setup, mut plan) = ring(algorithm, &[0, 1, 3, 4, 5, 6], acked);
        plan.faults.crashes.push("6@400".parse().unwrap());
        plan.asks = vec![start(0, 6), start(500_000, 3)];
        let outcome = run_well(&setup, &plan);
        assert_eq!(outcome.report.messages, 12 + second, "{algorithm}");
        assert_eq!(leader(&outcome), Some(5), "{algorithm}");
    }
}

/// Told of the death of the leader, one process calls for another, and not all of them.
#[test]
fn a_leader_that_dies_in_office_is_replaced_by_one_election() {
    for (algorithm, both) in [("chang-roberts", 12 + 10 + 4), ("ring-list", 12 + 10)] {
        let (setup, mut plan) = ring(algorithm, &[0, 1, 3, 4, 5, 6], &[("handoff", "acked")]);
        plan.faults = Faults { detector: "perfect".parse().unwrap(), ..Faults::default() };
        plan.faults.crashes.push("6@400".parse().unwrap());
        plan.asks = vec![start(0, 6)];
        let outcome = run_well(&setup, &plan);
        assert!(outcome.report.messages <= both, "{algorithm}: {}", outcome.report.messages);
        assert_eq!(leader(&outcome), Some(5), "{algorithm}");
    }
}

/// Rings that acknowledge need no detector: somebody crashes at any time, somebody else calls later, and all agree.
#[test]
fn rings_find_the_dead_by_themselves() {
    let rings = election::all().into_iter().filter(|about| about.settings.iter().any(|s| s.key == "handoff"));
    let mut count = 0;
    for about in rings {
        count += 1;
        for seed in 1..=100u64 {
            let n = 3 + (seed % 5) as u32;
            let dead = 1 + (seed / 5 % u64::from(n)) as u32;
            let caller = 1 + dead % n;
            let mut plan = Plan { delay: Span::Uniform(1_000, 10_000), seed, ..electing(n, &[]) };
            plan.asks = vec![start(0, 1 + (seed % u64::from(n)) as u32), start(5_000_000, caller)];
            plan.faults.crashes.push(format!("{dead}@{}", seed * 7 % 120).parse().unwrap());
            let outcome = run_well(&setup(about.name, n, &[("handoff", "acked")]), &plan);
            let highest = if dead == n { n - 1 } else { n };
            assert_eq!(leader(&outcome), Some(highest), "{} --seed {seed}", about.name);
        }
    }
    assert_eq!(count, 5, "every ring election can acknowledge");
}

/// The worked example V-B7: an announcement to all costs one message more, to the dead.
#[test]
fn book_v_b7_an_announcement_to_all() {
    for (announce, messages) in [("lower", 15), ("all", 16)] {
        let ids: Vec<u32> = (0..8).collect();
        let (setup, mut plan) = ring("bully", &ids, &[("announce", announce)]);
        plan.faults.crashes.push("7@0".parse().unwrap());
        plan.asks = vec![start(1_000, 4)];
        let outcome = run_well(&setup, &plan);
        assert_eq!(outcome.report.messages, messages);
        assert_eq!(outcome.report.formula.exact, Some(messages as f64));
        assert_eq!(leader(&outcome), Some(6));
    }
}

/// With `order=lowest` everything is the other way round, for the same number of messages.
#[test]
fn the_lowest_can_lead() {
    for n in 2..=12u32 {
        for caller in 2..=n {
            let cost = |order: &str, dead: u32, caller: u32| {
                let mut plan = electing(n, &[]);
                plan.asks = vec![start(1_000, caller)];
                plan.faults.crashes.push(format!("{dead}@0").parse().unwrap());
                let outcome = run_well(&setup("bully", n, &[("order", order)]), &plan);
                assert_eq!(outcome.report.formula.agrees, Some(true), "{order}, n = {n}");
                (outcome.report.messages, leader(&outcome))
            };
            let (messages, lowest) = cost("lowest", 1, caller);
            assert_eq!((messages, lowest), (cost("highest", n, n + 1 - caller).0, Some(2)));
        }
    }
}

/// The worked example V-B8: T_trans = 5, T_process = 2. A leader that answers at T = 12 is in office; where there is no
/// answer, the election begins a microsecond later.
#[test]
fn book_v_b8_an_answer_at_the_last_moment_counts() {
    let ping = setup("bully", 3, &[("watch", "ping")]);
    let mut plan = electing(3, &[]);
    plan.t_process = Span::Constant(2_000);
    plan.asks = vec![start(0, 3), start(100_000, 1)];
    let outcome = run_well(&ping, &plan);
    let pong = |what: &What| matches!(what, What::Deliver(message) if message.message == "Pong");
    assert_eq!(first(&outcome, pong), Some(112_000));
    assert_eq!(first(&outcome, sent("Election")), None);

    let mut dead = plan.clone();
    dead.faults.crashes.push("3@50".parse().unwrap());
    let outcome = run_well(&ping, &dead);
    assert_eq!(first(&outcome, sent("Election")), Some(112_001));
    assert_eq!(leader(&outcome), Some(2));

    // Two microseconds too late: p1 does not wait for it.
    plan.t_trans = Some(T);
    plan.links = vec![(2, 0, Span::Constant(T + 2))];
    assert_eq!(first(&run(&ping, &plan), sent("Election")), Some(112_001));
}

/// A leader whose heart stops is missed without a detector, at the latest two delays after the beat that did not come.
#[test]
fn a_heartbeat_that_stops_is_missed() {
    for seed in 1..=200u64 {
        let n = 3 + (seed % 4) as u32;
        let mut plan = Plan { delay: Span::Uniform(1_000, 10_000), seed, ..electing(n, &[1]) };
        plan.faults.crashes.push(format!("{n}@{}", 60 + seed % 300).parse().unwrap());
        let setup = setup("bully", n, &[("watch", "heartbeat"), ("beats", "30")]);
        assert_eq!(leader(&run_well(&setup, &plan)), Some(n - 1), "--seed {seed}");
        // One that lives is never doubted.
        plan.faults.crashes.clear();
        let outcome = run_well(&setup, &plan);
        assert_eq!(leader(&outcome), Some(n), "--seed {seed}");
        let last = outcome.trace.as_ref().unwrap().records.iter().rev();
        let mut elections = last.filter(|record| sent("Election")(&record.what));
        assert!(elections.next().is_none_or(|record| record.time < 60_000), "--seed {seed}");
    }
}

/// The worked example V-B9: where T leaves out the time in which an answer is made, a caller wins while one above it lives.
#[test]
fn book_v_b9_a_wait_without_processing_is_too_short() {
    let holds = |patience: &str, t_process: u64| {
        let plan = Plan { t_process: Span::Constant(t_process), ..electing(2, &[1]) };
        let outcome = run(&setup("bully", 2, &[("patience", patience)]), &plan);
        outcome.report.properties.iter().find(|property| property.name == "E1").unwrap().holds
    };
    assert_eq!(holds("round-trip", 2_000), Some(true));
    assert_eq!(holds("no-processing", 2_000), Some(false));
    assert_eq!(holds("no-processing", 0), Some(true));
}

/// Other ways to announce, to rank and to notice break nothing that the bully promises.
#[test]
fn variants_of_the_bully_break_no_promise() {
    let variants: [&[(&str, &str)]; 6] = [
        &[("announce", "all")],
        &[("order", "lowest")],
        &[("watch", "ping")],
        &[("watch", "heartbeat")],
        &[("watch", "heartbeat"), ("mode", "hardened")],
        &[("announce", "all"), ("order", "lowest"), ("skip-known-dead", "yes")],
    ];
    for settings in variants {
        for seed in 1..=200u64 {
            let n = [2, 3, 5, 8][seed as usize % 4];
            let mut plan = Plan { delay: Span::Uniform(1_000, 10_000), seed, ..electing(n, &[]) };
            plan.asks = (1..=n).filter(|id| (seed >> id) & 1 == 0).map(|id| start(0, id)).collect();
            plan.asks.push(start(0, 1 + n / 2));
            plan.faults.detector = "perfect".parse().unwrap();
            if seed % 2 == 0 && n > 2 {
                plan.faults
                    .crashes
                    .push(format!("{}@{}", 1 + seed % u64::from(n), seed % 80).parse().unwrap());
            }
            run_well(&setup("bully", n, settings), &plan);
        }
    }
}

/// Without participant states every call costs what it would alone, whenever it is made.
#[test]
fn calls_without_participant_states_do_not_disturb_each_other() {
    for seed in 1..=300u64 {
        let n = 2 + (seed % 8) as u32;
        let mut plan = Plan { delay: Span::Uniform(1_000, 10_000), seed, ..electing(n, &[]) };
        plan.asks =
            (1..=n).filter(|id| (seed >> id) & 1 == 0).map(|id| start(u64::from(id) * 9_000, id)).collect();
        plan.asks.push(start(0, n));
        plan.asks.retain({
            let mut seen = Vec::new();
            move |ask| {
                !seen.contains(&ask.who) && {
                    seen.push(ask.who);
                    true
                }
            }
        });
        let outcome = run_well(&setup("chang-roberts", n, &[("participants", "off")]), &plan);
        assert_eq!(outcome.report.formula.exact, Some(outcome.report.messages as f64), "--seed {seed}");
    }
}

/// The worked example V-E6: p9 joins after p2 and follows; the next election is among five.
#[test]
fn book_v_e6_a_newcomer_wins_the_next_election() {
    let (setup, mut plan) = ring("chang-roberts", &[1, 2, 3, 4], &[("after", "9:2")]);
    plan.asks = vec![start(0, 4)];
    plan.faults.joins.push("9@1s".parse().unwrap());
    let outcome = run_well(&setup, &plan);
    assert_eq!((leader(&outcome), outcome.report.messages), (Some(4), 8), "p4 stays in office");
    plan.asks.push(start(2_000_000, 1));
    let outcome = run_well(&setup, &plan);
    assert_eq!((leader(&outcome), outcome.report.messages), (Some(9), 8 + 2 * 5 + 2));
}

/// The worked example V-E7: a new weight counts from the next election on.
#[test]
fn book_v_e7_a_new_weight_counts_from_the_next_election_on() {
    let (setup, mut plan) = ring("chang-roberts", &[1, 2, 3, 4], &[("weights", "2:9,4:2")]);
    let heavier = PlannedAsk { at: 1_000_000, who: Who::One(NodeId(4)), words: "reweigh 10".into() };
    plan.asks = vec![start(0, 1), heavier];
    assert_eq!(leader(&run_well(&setup, &plan)), Some(2));
    plan.asks.push(start(2_000_000, 1));
    assert_eq!(leader(&run_well(&setup, &plan)), Some(4));
}

/// Whoever joins, leaves or changes its weight, before, in the middle of or after an election: all agree in the end.
#[test]
fn every_election_lets_its_group_change() {
    for about in election::all() {
        for seed in 1..=60u64 {
            let mut plan = Plan { delay: Span::Uniform(1_000, 10_000), seed, ..electing(4, &[1]) };
            plan.faults.detector = "perfect".parse().unwrap();
            plan.faults.joins.push(format!("9@{}", seed * 3 % 150).parse().unwrap());
            plan.faults.leaves.push(format!("{}@{}", 1 + seed % 4, 20 + seed * 7 % 150).parse().unwrap());
            let caller = 1 + (seed + 1) % 4;
            let words = format!("reweigh {}", 1 + seed % 3);
            plan.asks.push(PlannedAsk { at: seed * 2_000, who: Who::One(NodeId(caller as u32)), words });
            plan.asks.push(start(5_000_000, caller as u32));
            let outcome = run_well(&setup(about.name, 4, &[]), &plan);
            assert!(leader(&outcome).is_some(), "{} --seed {seed}", about.name);
        }
    }
}
