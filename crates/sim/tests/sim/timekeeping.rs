//! Physical clocks and the order of events: costs, laws, mutants, and many runs with wrong clocks and crashes.

use std::collections::{BTreeMap, BTreeSet};

use conclave_algorithms::{About, Channels, Mutant, clock, events};
use conclave_core::{Causality, Deviation, Members, NodeId, VectorClock};
use conclave_sim::clocks::ClockSetting;
use conclave_sim::faults::{Crash, Faults};
use conclave_sim::rng::{Draw as _, Rng};
use conclave_sim::{Outcome, Plan, play, shrink, simulate_setup};
use conclave_trace::{Block, Command, Record, Script, Setup, What, commands_of};

use crate::common::{run, seeds, setup};

fn plan(n: u32, seed: u64) -> Plan {
    Plan { seed, ..Plan::new(Members::numbered(n)) }
}

/// Everyone's clock is wrong by up to a second and drifts as much as it may; that of the first is right.
fn wrong_clocks(n: u32, seed: u64) -> Vec<ClockSetting> {
    let mut rng = Rng::new(seed, 77);
    let mut signed = |most: u64| rng.below(2 * most + 1) as i64 - most as i64;
    let mut clock = |id| {
        let deviation = Deviation { offset: signed(1_000_000_000), drift: signed(100_000) };
        ClockSetting { process: NodeId(id), at: 0, deviation }
    };
    (2..=n).map(&mut clock).collect()
}

/// One process crashes at some time, and in half of the runs comes back.
fn crash(n: u32, seed: u64) -> Faults {
    let mut rng = Rng::new(seed, 78);
    let (process, at) = (NodeId(1 + rng.below(n.into()) as u32), rng.below(60_000));
    let restart = seed.is_multiple_of(2).then(|| at + 1 + rng.below(60_000));
    let crashes = vec![Crash { process, at, restart, amnesia: false, inside: None }];
    Faults { crashes, detector: "perfect".parse().expect("a detector"), ..Faults::default() }
}

fn assert_well(outcome: &Outcome, what: &str) {
    assert!(outcome.report.all_held() && outcome.violation.is_none(), "{what}: {:?}", outcome.report);
}

#[test]
fn no_clock_is_wrong_whatever_happens() {
    for about in clock::all() {
        for seed in seeds(60) {
            let n = 3 + (seed % 3) as u32;
            let clocks = wrong_clocks(n, seed);
            let quiet = Plan { clocks: clocks.clone(), ..plan(n, seed) };
            let crashing = Plan { faults: crash(n, seed), ..quiet.clone() };
            let setup = setup(about.name, n, &[]);
            assert_well(&run(&setup, &quiet), &format!("{} -n {n} --seed {seed}", about.name));
            assert_well(&run(&setup, &crashing), &format!("{} -n {n} --seed {seed}, a crash", about.name));
        }
    }
}

/// What was sent, by kind.
fn sent(outcome: &Outcome) -> BTreeMap<String, u64> {
    let mut sent = BTreeMap::new();
    for record in &outcome.trace.as_ref().expect("it was recorded").records {
        if let What::Send(message) = &record.what {
            *sent.entry(message.message.clone()).or_default() += 1;
        }
    }
    sent
}

fn recorded(setup: &Setup, plan: &Plan) -> Outcome {
    let outcome = simulate_setup(setup, plan, true).expect("the setup is possible");
    assert_well(&outcome, &setup.algorithm);
    assert_eq!(outcome.report.formula.agrees, Some(true), "{:?}", outcome.report);
    outcome
}

#[test]
fn cristian_costs_two_messages_per_sample() {
    for n in 2..=6 {
        for samples in [1, 5] {
            let setup = setup("cristian", n, &[("samples", &samples.to_string()), ("servers", "1")]);
            let sent = sent(&recorded(&setup, &plan(n, u64::from(n))));
            let each = u64::from(n - 1) * samples;
            assert_eq!(sent, BTreeMap::from([("TimeReq".into(), each), ("Time".into(), each)]));
        }
    }
}

#[test]
fn berkeley_costs_three_messages_for_each_other_in_a_round() {
    let elections =
        ["bully", "chang-roberts", "ring-list", "ring-active-list", "ring-ballot", "ring-k-leaders"];
    for n in 1..=5 {
        for (election, rounds) in elections.into_iter().zip([1, 2, 3, 1, 2, 3]) {
            let settings = [("election", election), ("rounds", &rounds.to_string())];
            let setup = setup("berkeley", n, &settings);
            // The counts of elections in a ring hold where channels keep their order.
            let plan = Plan { channels: Some(Channels::Fifo), ..plan(n, 1) };
            let sent = sent(&recorded(&setup, &plan));
            let each = (u64::from(n) - 1) * rounds;
            for kind in ["Poll", "Clock", "Adjust"] {
                assert_eq!(sent.get(kind).copied().unwrap_or(0), each, "{election}, n = {n}: {sent:?}");
            }
            assert_eq!(sent.get("Ask"), None);
        }
    }
}

#[test]
fn ntp_costs_two_messages_per_poll_of_a_source() {
    for n in 1..=6u32 {
        let setup = setup("ntp", n, &[("polls", "3"), ("sources", "2")]);
        let sources: u64 = (0..n).map(|place| u64::from(place.min(2))).sum();
        let sent = sent(&recorded(&setup, &plan(n, 1)));
        assert_eq!(sent.values().sum::<u64>(), 2 * 3 * sources);
    }
}

/// One of three primaries is wrong by a second: its time is not believed, and neither is it followed when another dies.
#[test]
fn ntp_drops_a_falseticker() {
    for seed in 1..=20 {
        let setup = setup("ntp", 5, &[("primaries", "3")]);
        let wrong = "2=+1s".parse().expect("a clock");
        let outcome = recorded(&setup, &Plan { clocks: vec![wrong], ..plan(5, seed) });
        let adjusted = events_of(&outcome).into_iter().filter(|(id, text)| *id > 3 && text.contains("by p2"));
        assert_eq!(adjusted.count(), 0, "seed {seed}");
    }
}

/// What was told, by process.
fn events_of(outcome: &Outcome) -> Vec<(u32, String)> {
    let told = |record: &Record| match &record.what {
        What::Event { event, .. } => Some((record.process?.0, event.clone())),
        _ => None,
    };
    outcome.trace.as_ref().expect("it was recorded").records.iter().filter_map(told).collect()
}

/// The trace holds what the clocks showed: played again, everyone is told the same.
#[test]
fn a_run_with_wrong_clocks_replays_to_itself() {
    for about in clock::all() {
        for seed in 1..=5 {
            let plan = Plan { clocks: wrong_clocks(4, seed), faults: crash(4, seed), ..plan(4, seed) };
            let outcome = simulate_setup(&setup(about.name, 4, &[]), &plan, true).expect("it is possible");
            let trace = outcome.trace.as_ref().expect("it was recorded");
            let run = Command::Run(Setup::from_header(&trace.header));
            let commands = core::iter::once(run).chain(commands_of(trace));
            let block = |command| Block { commands: vec![(command, 0)], ..Block::default() };
            let again = play(&Script { blocks: commands.map(block).collect() }).expect("it can be played");
            assert_eq!(again.violation, None, "{} seed {seed}", about.name);
            let told = |record: &Record| matches!(record.what, What::Event { .. });
            let words = |record: &Record| (record.process, record.what.clone());
            let before: Vec<_> = trace.records.iter().filter(|record| told(record)).map(words).collect();
            let after: Vec<_> = again.trace.records.iter().filter(|record| told(record)).map(words).collect();
            assert_eq!(after, before, "{} seed {seed}", about.name);
        }
    }
}

fn first_failure(setup: &Setup, mutant: &Mutant) -> Plan {
    let failing = (1..=1_000).find_map(|seed| {
        let plan = plan(mutant.nodes, seed).provoking(mutant.trigger);
        let violation = run(setup, &plan).violation?;
        (violation.property == mutant.breaks).then_some(plan)
    });
    failing.unwrap_or_else(|| panic!("{} {} was not caught in 1,000 seeds", setup.algorithm, mutant.name))
}

#[test]
fn every_mutant_is_caught_and_told_as_a_script() {
    for About { name, mutants, .. } in clock::all().into_iter().chain(events::all()) {
        for mutant in *mutants {
            let mut setup = setup(name, mutant.nodes, &[]);
            setup.mutant = Some(mutant.name.into());
            let plan = first_failure(&setup, mutant);
            let script = shrink(&setup, &plan, mutant.breaks).expect("the failure can be told as a script");
            let text = script.to_string();
            let played = play(&Script::parse(&text).expect("it is a script")).expect("it can be played");
            assert_eq!(played.violation.map(|it| it.property), Some(mutant.breaks), "{text}");
            assert_eq!(played.difference, None, "{text}");
        }
    }
}

/// An event of a run, and those right before it.
struct Happened {
    lamport: u64,
    vector: VectorClock,
    before: BTreeSet<usize>,
}

/// The events of a run of `events`, with the transitive closure of what happened right before what.
fn history(outcome: &Outcome) -> Vec<Happened> {
    let trace = outcome.trace.as_ref().expect("it was recorded");
    let (mut history, mut last, mut sends) = (Vec::<Happened>::new(), BTreeMap::new(), BTreeMap::new());
    let mut delivered: Option<(NodeId, NodeId, u64)> = None;
    for record in &trace.records {
        match &record.what {
            What::Send(message) => drop(sends.insert((message.from, message.to, message.nth), history.len())),
            What::Deliver(message) => delivered = Some((message.from, message.to, message.nth)),
            What::Event { event, .. } => {
                let process = record.process.expect("somebody was told");
                let send = event.starts_with("received").then(|| delivered.take()).flatten();
                let right_before = last.get(&process).copied().into_iter();
                let right_before = right_before.chain(send.and_then(|send| sends.get(&send).copied()));
                let mut before = BTreeSet::new();
                for earlier in right_before {
                    before.insert(earlier);
                    before.extend(history[earlier].before.iter().copied());
                }
                last.insert(process, history.len());
                history.push(stamped(event, before));
            }
            _ => {}
        }
    }
    history
}

/// `received from p1 3 (2,1,0)`
fn stamped(event: &str, before: BTreeSet<usize>) -> Happened {
    let (rest, vector) = event.split_once(" (").expect("a vector");
    let entries = vector.trim_end_matches(')').split(',').map(|entry| entry.parse().expect("a number"));
    let lamport = rest.rsplit(' ').next().expect("a stamp").parse().expect("a number");
    Happened { lamport, vector: VectorClock::from(entries.collect::<Vec<u64>>()), before }
}

/// The law of vector clocks, and that of Lamport clocks, against the transitive closure of random runs.
#[test]
fn vectors_say_exactly_what_happened_before_what() {
    for seed in seeds(60) {
        let n = 2 + (seed % 4) as u32;
        let outcome = recorded(&setup("events", n, &[]), &plan(n, seed));
        let history = history(&outcome);
        assert_eq!(
            history.len() as u64,
            9 * u64::from(n) + 3,
            "six of one's own and three receipts each, and three alone"
        );
        for (b, later) in history.iter().enumerate() {
            for (a, earlier) in history.iter().enumerate() {
                let is_before = later.before.contains(&a);
                let relation = earlier.vector.compare(&later.vector);
                assert_eq!(relation == Causality::Before, is_before, "{a} and {b} of seed {seed}");
                assert!(!is_before || earlier.lamport < later.lamport, "{a} and {b} of seed {seed}");
            }
        }
    }
}
