//! What goes wrong in a run goes wrong as it was said, and the report is honest about what came of it.

use crate::common::{LOADS, plan, run, run_well, setup, variants};
use conclave_algorithms::mutex::Load;
use conclave_sim::faults::Faults;
use conclave_sim::{Outcome, Plan, play, simulate_setup};
use conclave_trace::{Block, Command, Record, Script, Setup, Trace, What, commands_of};

fn holds(outcome: &Outcome, name: &str) -> Option<bool> {
    let report = &outcome.report;
    let property =
        report.properties.iter().chain(&report.not_promised).find(|property| property.name == name);
    property.expect("there is such a property").holds
}

fn with(faults: Faults, load: Load, n: u32, seed: u64) -> Plan {
    Plan { faults, ..plan(n, load, seed) }
}

/// Pauses and cuts that hold messages back are only delays: every algorithm gets over them.
#[test]
fn pauses_and_held_messages_are_only_delays() {
    for (algorithm, settings) in variants() {
        for seed in 1..=40 {
            let faults = Faults {
                pauses: vec!["2@5..60".parse().unwrap(), "1@30..90".parse().unwrap()],
                partitions: vec!["1,2/3,4@20..100:hold".parse().unwrap()],
                ..Faults::default()
            };
            run_well(&setup(algorithm, 4, settings), &with(faults, LOADS[seed as usize % 3], 4, seed));
        }
    }
}

/// Where an entry needs a message from everyone it depends on, loss costs progress and never safety. Lamport's algorithm
/// draws conclusions from what it has not heard: there a lost request lets two in, unless only replies count, and so it does in
/// a lock over the total order of his stamps. Either way the report says so.
#[test]
fn loss_costs_progress_and_only_lamport_its_safety() {
    for (algorithm, settings) in variants() {
        let (mut stuck, mut unsafe_runs) = (0, 0);
        for seed in 1..=200 {
            let faults = Faults { loss: "0.05".parse().unwrap(), ..Faults::default() };
            let outcome = run(&setup(algorithm, 4, settings), &with(faults, Load::Saturated, 4, seed));
            unsafe_runs += u64::from(holds(&outcome, "ME1") == Some(false));
            stuck += u64::from(!outcome.report.all_held());
        }
        // Who gives all votes back and asks again after a while gets over a loss; all others wait forever.
        let retries = settings.contains(&("mode", "backoff"));
        assert_eq!(stuck == 0, retries, "{algorithm} {settings:?}: {stuck} runs got stuck");
        let concludes_from_silence = match algorithm {
            "lamport" => !settings.contains(&("enter", "acks")),
            _ => settings.contains(&("order", "lamport-stamps")),
        };
        assert_eq!(
            unsafe_runs > 0,
            concludes_from_silence,
            "{algorithm} {settings:?}: {unsafe_runs} unsafe runs"
        );
    }
}

/// An algorithm that declares any-order channels and numbers its requests, or its token, is not confused by copies.
#[test]
fn copies_do_no_harm_where_messages_are_numbered() {
    for algorithm in [
        "central",
        "ricart-agrawala",
        "carvalho-roucairol",
        "ricart-agrawala-token",
        "suzuki-kasami",
        "raymond",
        "singhal",
    ] {
        for seed in 1..=200 {
            let faults = Faults { duplicate: "0.3".parse().unwrap(), ..Faults::default() };
            let plan = with(faults, LOADS[seed as usize % 3], 4, seed);
            let report = run_well(&setup(algorithm, 4, &[]), &plan).report;
            assert!(report.duplicated > 0);
        }
    }
}

/// The algorithm as it was published.
const PLAIN: &[(&str, &str)] = &[("recovery", "off")];

/// One crashed process blocks everyone who needs its permission, and the report says who was left waiting.
#[test]
fn a_crash_blocks_where_no_recovery_is_promised() {
    for algorithm in ["lamport", "ricart-agrawala"] {
        let faults = Faults { crashes: vec!["2@15".parse().unwrap()], ..Faults::default() };
        let outcome = run(&setup(algorithm, 3, PLAIN), &with(faults, Load::Saturated, 3, 1));
        assert_eq!(outcome.report.ending, "stuck", "{algorithm}");
        assert_eq!(holds(&outcome, "ME2"), Some(false), "{algorithm}");
        assert_ne!(holds(&outcome, "ME1"), Some(false), "{algorithm}");
    }
}

/// Whether the token of a run is gone, and nobody has made another.
fn lost_token(outcome: &Outcome) -> bool {
    outcome.report.properties.iter().any(|property| property.name == "TOK" && property.holds.is_none())
}

/// Where everyone is told of a crash, the others go on unless the token died with the crashed process, or in flight to
/// it; so they do when it comes back. Either way there is never a second token.
#[test]
fn a_token_outlives_those_who_do_not_have_it() {
    for algorithm in ["ricart-agrawala-token", "suzuki-kasami"] {
        for crash in ["2@60", "2@60..90", "2@60..90:amnesia"] {
            let (mut lost, mut kept) = (0, 0);
            for seed in 1..=200 {
                let faults = Faults {
                    crashes: vec![crash.parse().unwrap()],
                    detector: "perfect".parse().unwrap(),
                    ..Faults::default()
                };
                let plan = Plan { entries: 4, ..with(faults, Load::Saturated, 4, seed) };
                let outcome = run(&setup(algorithm, 4, PLAIN), &plan);
                assert_eq!(holds(&outcome, "ME1"), Some(true), "{algorithm} {crash} {seed}");
                let served = outcome.report.all_held() && outcome.report.ending == "done";
                assert_eq!(served, !lost_token(&outcome), "{algorithm} {crash} {seed}: {:?}", outcome.report);
                if served { kept += 1 } else { lost += 1 }
            }
            assert!(lost > 0 && kept > 100, "{algorithm} {crash}: lost {lost}, kept {kept}");
        }
    }
}

/// Who is taken for dead has to wait until it is believed alive again, and that is all.
#[test]
fn wrong_suspicions_only_delay_a_token() {
    for algorithm in ["ricart-agrawala-token", "suzuki-kasami"] {
        for seed in 1..=200 {
            let faults = Faults { detector: "wrong:20".parse().unwrap(), ..Faults::default() };
            let plan = with(faults, LOADS[seed as usize % 3], 4, seed);
            let outcome = run_well(&setup(algorithm, 4, PLAIN), &plan);
            assert_eq!(holds(&outcome, "ME1"), Some(true), "{algorithm} {seed}");
            assert_eq!(holds(&outcome, "TOK"), Some(true), "{algorithm} {seed}");
        }
    }
}

/// A partition that loses messages is drawn, healed, and forgotten in the second phase.
#[test]
fn faults_are_recorded() {
    let faults = Faults {
        crashes: vec!["2@40..80:amnesia".parse().unwrap()],
        pauses: vec!["1@10..20".parse().unwrap()],
        partitions: vec!["1>3@5..30".parse().unwrap()],
        detector: "late:7".parse().unwrap(),
        ..Faults::default()
    };
    let plan = with(faults, Load::Saturated, 3, 3);
    let outcome = simulate_setup(&setup("ricart-agrawala", 3, &[]), &plan, true).unwrap();
    let trace = outcome.trace.unwrap();
    let at = |wanted: &dyn Fn(&What) -> bool| {
        trace.records.iter().find(|record| wanted(&record.what)).map(|record| record.time)
    };
    assert_eq!(at(&|what| matches!(what, What::Crash { .. })), Some(40_000));
    assert_eq!(at(&|what| matches!(what, What::Suspect { .. })), Some(47_000));
    assert_eq!(at(&|what| matches!(what, What::Restart { life: 2, durable: false })), Some(80_000));
    assert_eq!(at(&|what| matches!(what, What::Trust { .. })), Some(87_000));
    assert_eq!(at(&|what| matches!(what, What::Pause)), Some(10_000));
    assert_eq!(at(&|what| matches!(what, What::Resume)), Some(20_000));
    assert_eq!(at(&|what| matches!(what, What::Partition { .. })), Some(5_000));
    assert_eq!(at(&|what| matches!(what, What::Heal { .. })), Some(30_000));
    let paused = |time: u64| (10_000..20_000).contains(&time);
    assert!(!trace.records.iter().any(|record| {
        record.process.is_some_and(|p| p.0 == 1)
            && paused(record.time)
            && record.what.is_lived()
            && !matches!(record.what, What::Pause)
    }));
    let lost = |record: &&Record| match &record.what {
        What::Drop(message) => message.from.0 == 1 && message.to.0 == 3,
        _ => false,
    };
    assert!(trace.records.iter().filter(lost).all(|record| (5_000..30_000).contains(&record.time)));
}

/// Before anyone hears of a new life, everyone has heard of the end of the old one, whatever the detector does.
#[test]
fn the_end_of_a_life_is_known_before_the_next_one_speaks() {
    for detector in ["none", "perfect", "late:500", "wrong:20"] {
        let faults = Faults {
            crashes: vec!["2@20..25".parse().unwrap()],
            detector: detector.parse().unwrap(),
            ..Faults::default()
        };
        let plan = with(faults, Load::Saturated, 3, 2);
        let trace = simulate_setup(&setup("central", 3, &[]), &plan, true).unwrap().trace.unwrap();
        let place = |wanted: &dyn Fn(&Record) -> bool| trace.records.iter().position(wanted);
        let restart = place(&|r| matches!(r.what, What::Restart { .. })).expect("it restarts");
        for process in [1, 3] {
            let told = place(&|r| {
                r.process.is_some_and(|p| p.0 == process)
                    && matches!(r.what, What::Suspect { peer, .. } if peer.0 == 2)
            });
            assert!(told.expect("everyone is told") < restart, "{detector}: p{process}");
        }
    }
}

/// Who is down from the beginning is never started.
#[test]
fn a_crash_at_time_zero_comes_before_the_start() {
    let faults = Faults { crashes: vec!["1@0".parse().unwrap()], ..Faults::default() };
    let plan = with(faults, Load::Saturated, 3, 1);
    let trace = simulate_setup(&setup("central", 3, &[]), &plan, true).unwrap().trace.unwrap();
    let lived = trace.records.iter().filter(|r| r.process.is_some_and(|p| p.0 == 1) && r.what.is_lived());
    assert_eq!(lived.map(|r| r.what.name()).collect::<Vec<_>>(), ["crash"]);
}

fn traced(algorithm: &str, settings: &[(&str, &str)], crash: &str, seed: u64) -> Trace {
    let faults = Faults {
        crashes: vec![crash.parse().unwrap()],
        detector: "perfect".parse().unwrap(),
        ..Faults::default()
    };
    let plan = with(faults, Load::Saturated, 4, seed);
    simulate_setup(&setup(algorithm, 4, settings), &plan, true).unwrap().trace.unwrap()
}

/// The place of the first crash in a trace, and after how many effects of its step it came.
fn first_crash(trace: &Trace) -> Option<(usize, Option<u32>)> {
    let crashes = trace.records.iter().enumerate().filter_map(|(place, record)| match record.what {
        What::Crash { after } => Some((place, after)),
        _ => None,
    });
    crashes.into_iter().next()
}

/// The step that a record belongs to sends so many messages.
fn sends_of(trace: &Trace, input: u64) -> usize {
    let is_sent = |record: &&Record| matches!(record.what, What::Send(_)) && record.cause == Some(input);
    trace.records.iter().filter(is_sent).count()
}

/// `3@20:after=1` strikes in the first step from then on that sends more than one message, and lets one out.
#[test]
fn a_crash_inside_a_step_lets_so_many_messages_out() {
    for seed in 1..=50 {
        let whole = traced("ricart-agrawala", PLAIN, "3@9999999", seed);
        let is_broad = |record: &&Record| {
            record.process.is_some_and(|p| p.0 == 3)
                && record.time >= 20_000
                && sends_of(&whole, record.id) > 1
        };
        let struck = whole.records.iter().find(is_broad);
        let trace = traced("ricart-agrawala", PLAIN, "3@20:after=1", seed);
        let Some(struck) = struck else {
            assert_eq!(first_crash(&trace), None, "seed {seed}");
            continue;
        };
        let (place, after) = first_crash(&trace).expect("it has such a step");
        let crash = &trace.records[place];
        assert_eq!((crash.time, crash.cause), (struck.time, Some(struck.id)), "seed {seed}");
        assert!(after.is_some() && sends_of(&trace, struck.id) == 1, "seed {seed}");
        // Up to the crash the two runs are the same.
        let until = struck.id as usize + 1;
        assert_eq!(trace.records[..until], whole.records[..until], "seed {seed}");
    }
}

/// By chance it strikes anywhere: before the first effect, between two messages, and after messages that are lost.
#[test]
fn a_crash_by_chance_strikes_anywhere_and_loses_suffixes() {
    let (mut crashed, mut early, mut halfway, mut lost) = (0, 0, 0, 0);
    for seed in 1..=200 {
        let trace = traced("lamport", &[], "3@5..60:inside", seed);
        let Some((place, after)) = first_crash(&trace) else { continue };
        crashed += 1;
        let after = after.expect("it is inside a step");
        early += u64::from(after == 0);
        halfway += u64::from((1..3).contains(&after));
        let drops = trace.records[place + 1..].iter().map_while(|record| match &record.what {
            What::Drop(message) if message.from.0 == 3 => Some((message.to, message.nth)),
            _ => None,
        });
        let drops: Vec<_> = drops.collect();
        lost += u64::from(!drops.is_empty());
        // What is lost of a channel is the end of it: nothing that was sent later ever arrives.
        for (to, nth) in drops {
            let arrives_later = |record: &Record| match &record.what {
                What::Deliver(message) => message.from.0 == 3 && message.to == to && message.nth > nth,
                _ => false,
            };
            let restart = trace.records.iter().position(|record| matches!(record.what, What::Restart { .. }));
            let life = &trace.records[place..restart.unwrap_or(trace.records.len())];
            assert!(!life.iter().any(arrives_later), "seed {seed}");
        }
    }
    assert!(crashed > 150 && early > 10 && halfway > 10 && lost > 10, "{crashed} {early} {halfway} {lost}");
}

/// A window that closes before the process has taken a step leaves it alone.
#[test]
fn who_has_not_crashed_when_it_would_restart_goes_on() {
    let trace = traced("lamport", &[], "3@0.001..0.002:inside", 1);
    assert_eq!(first_crash(&trace), None);
    assert!(!trace.records.iter().any(|record| matches!(record.what, What::Restart { .. })));
}

/// A trace with a crash inside a step, also inside a start, says all that is needed to run it again.
#[test]
fn crashes_inside_steps_replay_to_themselves() {
    let mut inside = 0;
    for (algorithm, settings) in variants() {
        for (seed, crash) in
            (1..=12).zip(["3@0..40:inside", "2@20..70:inside", "1@10:after=1"].into_iter().cycle())
        {
            let trace = traced(algorithm, settings, crash, seed);
            inside += u64::from(matches!(first_crash(&trace), Some((_, Some(_)))));
            let commands =
                [Command::Run(Setup::from_header(&trace.header))].into_iter().chain(commands_of(&trace));
            let block = |command| Block { commands: vec![(command, 0)], ..Block::default() };
            let again = play(&Script { blocks: commands.map(block).collect() });
            let again = again.unwrap_or_else(|error| panic!("{algorithm} {crash} {seed}: {error}"));
            let lived = |trace: &Trace| {
                let lived = trace.records.iter().filter(|record| record.process.is_some());
                lived.map(|record| (record.process, record.what.clone())).collect::<Vec<_>>()
            };
            assert_eq!(lived(&again.trace), lived(&trace), "{algorithm} {settings:?} {crash} seed {seed}");
        }
    }
    assert!(inside > 150, "{inside}");
}

/// What a process has for the length of a step only is safe from crashes between steps. Until 80 ms p2 wants nothing: it
/// acknowledges the token and passes it on in the step in which it arrives.
#[test]
fn a_token_that_is_passed_on_at_once_dies_inside_the_step() {
    let outcome = |crash: &str| {
        let faults = Faults {
            crashes: vec![crash.parse().unwrap()],
            detector: "perfect".parse().unwrap(),
            ..Faults::default()
        };
        let plan = Plan { entries: 1, ..with(faults, Load::Light, 3, 3) };
        run(&setup("token-ring", 3, &[("recovery", "off"), ("handoff", "acked")]), &plan)
    };
    for time in 10..80 {
        for part in ["", ".25", ".447", ".5", ".75"] {
            let crash = format!("2@{time}{part}");
            assert!(outcome(&crash).report.all_held(), "{crash}");
        }
    }
    let cut = outcome("2@30:after=1");
    assert_eq!((holds(&cut, "ME1"), holds(&cut, "ME2")), (Some(true), Some(false)));
}
