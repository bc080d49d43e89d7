//! Every algorithm for mutual exclusion recovers: from a crash at any moment, with and without a restart, told of it early
//! or late; and where a failure detector lies, the fence protects the resource.

use crate::common::{LOADS, plan, run, setup};
use conclave_algorithms::{About, RECOVERY_MUTANTS, election, mutex};
use conclave_core::NodeId;
use conclave_sim::faults::{Crash, Detector, Inside};
use conclave_sim::span::Span;
use conclave_sim::{Outcome, Plan, simulate_setup};
use conclave_trace::{Setup, What};

fn mutexes() -> impl Iterator<Item = &'static About> {
    mutex::all().into_iter()
}

/// A small generator of numbers, so that every seed means another crash.
fn mix(seed: u64, salt: u64) -> u64 {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 31;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 29)
}

/// Runs, and wants every promise kept, every surviving request served, and never two tokens. A run may be over before anybody
/// has missed a token that nobody needs any more.
fn recovers_well(setup: &Setup, plan: &Plan) -> Outcome {
    let outcome = run(setup, plan);
    let report = &outcome.report;
    let token = report.properties.iter().find(|property| property.name == "TOK");
    assert!(
        report.all_held() && report.ending == "done" && token.is_none_or(|token| token.holds != Some(false)),
        "{} {:?} -n {} --load {:?} --seed {} --crash {} --detector {:?}: {:?}, {}, {token:?}",
        setup.algorithm,
        setup.settings,
        plan.members.len(),
        plan.load,
        plan.seed,
        plan.faults.crashes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        plan.faults.detector,
        outcome.violation,
        report.ending,
    );
    outcome
}

fn detector(word: &str) -> Detector {
    word.parse().expect("it is a detector")
}

/// A thousand seeds each: one crash at a random moment, a restart in half of them, told at once or late.
#[test]
fn one_crash_at_any_moment() {
    for about in mutexes() {
        for seed in 1..=1_000u64 {
            let n = [2, 3, 4, 5, 7][mix(seed, 1) as usize % 5];
            let mut plan = plan(n, LOADS[seed as usize % LOADS.len()], seed);
            let at = mix(seed, 2) % 120_000;
            let restart = (seed % 2 == 0).then(|| at + 1 + mix(seed, 3) % 100_000);
            let process = NodeId(1 + mix(seed, 4) as u32 % n);
            plan.faults.crashes = vec![Crash {
                process,
                at,
                restart,
                amnesia: seed % 8 == 0 && restart.is_some(),
                inside: None,
            }];
            plan.faults.detector = detector(if seed % 4 < 2 { "perfect" } else { "late:uniform:1..60" });
            recovers_well(&setup(about.name, n, &[]), &plan);
        }
    }
}

/// Whoever crashes after whichever event: nothing is broken, and all who are left are served.
#[test]
fn a_crash_after_every_single_event() {
    for about in mutexes() {
        for word in ["perfect", "late:25"] {
            let setup = setup(about.name, 4, &[("recovery", "on")]);
            let mut base = plan(4, LOADS[2], 5);
            base.faults.detector = detector(word);
            let trace = simulate_setup(&setup, &base, true).unwrap().trace.expect("it is recorded");
            let mut times: Vec<u64> = trace.records.iter().map(|record| record.time).collect();
            times.dedup();
            for time in times {
                for process in 1..=4 {
                    let mut plan = base.clone();
                    plan.faults.crashes = vec![Crash {
                        process: NodeId(process),
                        at: time + 1,
                        restart: None,
                        amnesia: false,
                        inside: None,
                    }];
                    recovers_well(&setup, &plan);
                }
            }
        }
    }
}

/// Several crashes and restarts, one after the other and at once.
#[test]
fn many_crashes() {
    for about in mutexes() {
        for seed in 1..=200u64 {
            let n = 5;
            let mut plan = plan(n, LOADS[seed as usize % LOADS.len()], seed);
            plan.entries = 3;
            for k in 0..4 {
                let at = mix(seed, 10 + k) % 200_000;
                let restart = Some(at + 1 + mix(seed, 20 + k) % 100_000);
                let process = NodeId(1 + mix(seed, 30 + k) as u32 % n);
                plan.faults.crashes.push(Crash { process, at, restart, amnesia: false, inside: None });
            }
            plan.faults.detector = detector(if seed % 2 == 0 { "perfect" } else { "late:uniform:1..60" });
            recovers_well(&setup(about.name, n, &[]), &plan);
        }
    }
}

/// A thousand seeds each with a detector that calls the living dead: whoever gets in, the resource serves one entry at a
/// time, and no two share a fence.
#[test]
fn wrong_suspicions_are_stopped_by_the_fence() {
    let mut refused = 0;
    for about in mutexes() {
        for seed in 1..=1_000u64 {
            let n = [2, 3, 4, 5][mix(seed, 1) as usize % 4];
            let mut plan = plan(n, LOADS[seed as usize % LOADS.len()], seed);
            plan.faults.detector = detector(if seed % 2 == 0 { "wrong:60" } else { "wrong:uniform:5..40" });
            plan.faults.until = Some(400_000);
            plan.max_events = 200_000;
            let outcome = recovers_well(&setup(about.name, n, &[]), &plan);
            refused += outcome.report.part::<mutex::LockReport>().unwrap().refused_by_fence;
        }
    }
    assert!(refused > 100, "only {refused} entries were ever refused");
}

/// Crashes and restarts, some inside a step, told at once or late: as many as processes and one more.
fn crash_again_and_again(n: u32, seed: u64, stays: bool) -> Plan {
    let mut plan = plan(n, LOADS[seed as usize % LOADS.len()], seed);
    plan.entries = 2 + mix(seed, 1) % 4;
    plan.hold = [None, Some(Span::Constant(1_000)), Some(Span::Constant(100_000))][mix(seed, 2) as usize % 3];
    plan.faults.crashes =
        (0..=mix(seed, 3) % u64::from(n + 1)).map(|k| any_crash(n, seed, 10 * k, stays)).collect();
    plan.faults.detector = detector(["perfect", "late:5", "late:uniform:1..60"][mix(seed, 4) as usize % 3]);
    plan
}

fn any_crash(n: u32, seed: u64, salt: u64, stays: bool) -> Crash {
    let at = mix(seed, salt + 11) % 120_000;
    let returns = stays || !mix(seed, salt + 12).is_multiple_of(4);
    Crash {
        process: NodeId(1 + mix(seed, salt + 13) as u32 % n),
        at,
        restart: returns.then(|| at + 1 + mix(seed, salt + 14) % 60_000),
        amnesia: false,
        inside: mix(seed, salt + 15).is_multiple_of(3).then_some(Inside::Chance),
    }
}

/// The members crash and come back in any order, also all of them at once: fences never go back, never are two inside, and
/// if all come back, all are served.
#[test]
fn fences_never_go_back_after_crashes() {
    for about in mutexes() {
        for seed in 1..=400 {
            let n = 2 + mix(seed, 5) as u32 % 4;
            recovers_well(&setup(about.name, n, &[]), &crash_again_and_again(n, seed, true));
            let outcome = run(&setup(about.name, n, &[]), &crash_again_and_again(n, seed, false));
            let broken = outcome.violation.filter(|violation| !matches!(violation.property, "ME2" | "ME3"));
            assert_eq!(broken, None, "{} -n {n} --seed {seed}", about.name);
        }
    }
}

/// p1 is down while p2 goes on alone. Then p2 dies: p1 knows nothing of its epoch, and has to wait for it.
#[test]
fn who_comes_back_alone_waits_for_who_went_on() {
    for about in mutexes() {
        let setup = setup(about.name, 2, &[]);
        let mut plan = Plan { entries: 6, ..plan(2, LOADS[2], 1) };
        plan.faults.detector = detector("perfect");
        plan.faults.crashes = ["1@5..60", "2@50..400"].map(|crash| crash.parse().expect("a crash")).to_vec();
        recovers_well(&setup, &plan);
        plan.faults.crashes[1].restart = None;
        let outcome = run(&setup, &plan);
        let broken = outcome.violation.map(|violation| violation.property);
        assert!(broken.is_none_or(|property| property == "ME3"), "{}: {broken:?}", about.name);
        // p2, however, was the last: it goes on as soon as it is back.
        plan.faults.crashes = ["1@5", "2@50..60"].map(|crash| crash.parse().expect("a crash")).to_vec();
        recovers_well(&setup, &plan);
    }
}

/// The view of a majority: crashes and restarts, held messages, and suspicions of the living, with locks that are held for
/// longer than a lease.
#[test]
fn a_majority_keeps_one_inside_whatever_its_detector_says() {
    for seed in 1..=1_500 {
        let n = 2 + mix(seed, 6) as u32 % 4;
        let setup = setup("majority", n, &[("mode", "view")]);
        let mut plan = crash_again_and_again(n, seed, true);
        recovers_well(&setup, &plan);
        plan.faults.crashes.truncate(mix(seed, 7) as usize % 2);
        plan.faults.detector =
            detector(["wrong:20", "wrong:uniform:5..40", "wrong:60"][mix(seed, 8) as usize % 3]);
        plan.faults.until = Some(400_000);
        recovers_well(&setup, &plan);
    }
}

/// A mutant, the algorithm and the processes that show it, settings, crashes, and the detector.
type Case<'a> = (&'a str, &'a str, u32, &'a [(&'a str, &'a str)], &'a [&'a str], &'a str);

const VIEW: &[(&str, &str)] = &[("mode", "view")];

/// Mutants that need a run of their own.
const CASES: [Case<'_>; 7] = [
    ("go-on-alone", "ricart-agrawala", 2, &[], &["1@5..60", "2@50..400"], "perfect"),
    ("call-once", "ricart-agrawala", 3, &[], &["2@12..30", "1@25..51", "3@15..51"], "late:uniform:1..60"),
    ("no-quarantine", "majority", 2, VIEW, &[], "wrong:uniform:5..40"),
    ("keep-grant", "majority", 3, VIEW, &["3@30..80", "1@86..100"], "late:uniform:1..60"),
    ("vote-once", "majority", 3, VIEW, &["1@40..80", "2@90..130"], "perfect"),
    ("leave-once", "central", 4, &[], &["2@5..90:inside"], "perfect"),
    ("late-lease", "majority", 5, VIEW, &[], "wrong:20"),
];

/// Runs in which a rule of the recovery is needed: with the rule nothing is broken, and without it a property is.
#[test]
fn every_mutant_of_the_recovery_is_caught() {
    for (mutant, algorithm, n, settings, crashes, word) in CASES {
        let about = RECOVERY_MUTANTS.iter().find(|known| known.name == mutant).expect("it is declared");
        let sound = setup(algorithm, n, settings);
        let broken = Setup { mutant: Some(mutant.into()), ..sound.clone() };
        let caught = (1..=5_000).any(|seed| {
            let plan = needing(mutant, n, crashes, word, seed);
            let is_broken = run(&broken, &plan).violation.is_some_and(|found| found.property == about.breaks);
            if is_broken {
                recovers_well(&sound, &plan);
            }
            is_broken
        });
        assert!(caught, "{mutant} is not caught");
    }
}

/// What goes wrong in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// Everyone crashes and comes back.
    Crashes,
    /// The same, and the leader asks who is up again.
    Polled,
    /// The same with three locks.
    Names,
    /// The living are called dead.
    Wrong,
    /// The same, and somebody stands still for a while.
    Paused,
    /// Somebody joins, somebody leaves, and some crash.
    Changes,
    /// A token is lost.
    Token,
    /// Somebody dies, and only its silence tells.
    Silence,
}

/// A mutant, the algorithm and the settings that show it, and what has to happen.
type Troubled = (&'static str, &'static str, &'static [(&'static str, &'static str)], Trouble);

/// Mutants that show in runs with troubles of any kind, the algorithm and its settings, and what goes wrong.
const TROUBLED: [Troubled; 19] = [
    ("keep-going", "token-ring", &[], Trouble::Names),
    ("old-messages", "token-ring", &[], Trouble::Crashes),
    ("drop-early", "central", &[("coordinator", "elected")], Trouble::Crashes),
    ("late-install", "token-ring", &[("handoff", "acked")], Trouble::Crashes),
    ("no-catch-up", "central", &[], Trouble::Changes),
    ("check-in-once", "majority", &[("mode", "view")], Trouble::Wrong),
    ("tell-nobody", "token-ring", &[("handoff", "acked")], Trouble::Changes),
    ("ignore-death", "ricart-agrawala", &[], Trouble::Polled),
    ("clock-behind", "lamport", &[], Trouble::Crashes),
    ("members-only", "raymond", &[], Trouble::Crashes),
    ("absent-convener", "central", &[], Trouble::Changes),
    ("no-poll", "ricart-agrawala", &[], Trouble::Polled),
    ("no-search", "token-ring", &[], Trouble::Token),
    ("probe-silent", "token-ring", &[], Trouble::Silence),
    ("own-epochs", "token-ring", &[("handoff", "acked")], Trouble::Paused),
    ("open-afresh", "central", &[], Trouble::Names),
    ("narrow-electorate", "ricart-agrawala", &[], Trouble::Changes),
    ("keep-old-grant", "majority", &[("mode", "view")], Trouble::Crashes),
    ("trust-answer", "majority", &[("mode", "view")], Trouble::Wrong),
];

/// Of these one process after the other is led where they show: the worked examples of recovery, and the searches.
const BY_HAND: [&str; 4] = ["accept-any", "propose-anew", "unconfirmed", "keep-lease"];

/// A rule of the recovery that is missing breaks a property in some run, and the rule keeps it in the same run.
#[test]
fn every_mutant_shows_in_a_run_with_troubles() {
    for (mutant, algorithm, settings, trouble) in TROUBLED {
        let about = RECOVERY_MUTANTS.iter().find(|known| known.name == mutant).expect("it is declared");
        let caught = (1..=1_000).any(|seed| {
            let n = 2 + mix(seed, 5) as u32 % 4;
            let (more, plan) = troubled(trouble, n, seed);
            let all: Vec<_> = settings.iter().copied().chain(more).chain([("recovery", "on")]).collect();
            let sound = setup(algorithm, n, &all);
            let broken = Setup { mutant: Some(mutant.into()), ..sound.clone() };
            let is_broken = run(&broken, &plan).violation.is_some_and(|found| found.property == about.breaks);
            if is_broken {
                recovers_well(&sound, &plan);
            }
            is_broken
        });
        assert!(caught, "{mutant} is not caught");
    }
}

/// No mutant is forgotten: those of the tables are caught in [`mutants`](crate::mutants).
#[test]
fn every_mutant_of_the_recovery_has_its_place() {
    let listed: Vec<_> = mutexes().flat_map(|about| about.mutants).map(|mutant| mutant.name).collect();
    for mutant in RECOVERY_MUTANTS.iter().map(|mutant| mutant.name) {
        let is_troubled = TROUBLED.iter().any(|case| case.0 == mutant);
        let is_provoked = CASES.iter().any(|case| case.0 == mutant);
        let places = [is_troubled, is_provoked, BY_HAND.contains(&mutant), listed.contains(&mutant)];
        assert_eq!(places.iter().filter(|place| **place).count(), 1, "{mutant}");
    }
}

fn troubled(trouble: Trouble, n: u32, seed: u64) -> (Vec<(&'static str, &'static str)>, Plan) {
    let mut settings = Vec::new();
    let mut plan = Plan { max_events: 60_000, ..crash_again_and_again(n, seed, true) };
    let between = |salt, from: u64, to: u64| from + mix(seed, salt) % (to - from);
    let anyone = |salt| 1 + mix(seed, salt) as u32 % n;
    match trouble {
        Trouble::Crashes => {}
        Trouble::Polled => settings.push(("poll", "50")),
        Trouble::Names => {
            plan.locks = 3;
            plan.faults.crashes.truncate(2);
        }
        Trouble::Wrong | Trouble::Paused => {
            plan.faults.crashes.truncate(mix(seed, 7) as usize % 2);
            plan.faults.detector =
                detector(["wrong:20", "wrong:uniform:5..40", "wrong:60"][mix(seed, 8) as usize % 3]);
            plan.faults.until = Some(600_000);
            if trouble == Trouble::Paused {
                plan.faults.crashes.clear();
                plan.hold = Some(Span::Constant(300_000));
                let from = between(61, 10_000, 300_000);
                let pause = format!("{}@{from}us..{}us", anyone(60), from + between(62, 60_000, 600_000));
                plan.faults.pauses.push(pause.parse().expect("a pause"));
            }
        }
        Trouble::Changes => {
            let leaver = anyone(65);
            plan.faults.crashes.truncate(2);
            plan.faults.crashes.retain(|crash| crash.process != NodeId(leaver));
            let join = format!("{}@{}us", n + 1, between(63, 1_000, 60_000));
            plan.faults.joins.push(join.parse().expect("a join"));
            if n > 2 {
                let leave = format!("{leaver}@{}us", between(64, 1_000, 90_000));
                plan.faults.leaves.push(leave.parse().expect("a leave"));
            }
        }
        Trouble::Token | Trouble::Silence => {
            plan.faults.crashes.truncate(1);
            if trouble == Trouble::Token {
                plan.faults.lost_tokens.push(between(66, 1_000, 60_000));
            } else {
                // A dead leader must be reported, and here nobody reports anything.
                let process = NodeId(1 + mix(seed, 67) as u32 % (n - 1));
                plan.faults
                    .crashes
                    .iter_mut()
                    .for_each(|crash| (crash.process, crash.restart) = (process, None));
                plan.faults.detector = Detector::None;
                settings.push(("silence", "dead"));
            }
            if seed.is_multiple_of(2) {
                settings.push(("monitor", "all"));
            }
        }
    }
    (settings, plan)
}

/// A process that comes back, leads, and is not in the roll yet, asks all others whether they are up, and not itself.
#[test]
fn who_asks_who_is_up_again_does_not_ask_itself() {
    for about in mutexes() {
        for seed in 1..=60 {
            let n = 2 + mix(seed, 5) as u32 % 4;
            let (settings, plan) = troubled(Trouble::Polled, n, seed);
            recovers_well(&setup(about.name, n, &settings), &plan);
        }
    }
}

fn needing(mutant: &str, n: u32, crashes: &[&str], word: &str, seed: u64) -> Plan {
    let mut plan = plan(n, LOADS[2], seed);
    plan.entries = if crashes.is_empty() { 3 } else { 6 };
    plan.faults.crashes = crashes.iter().map(|crash| crash.parse().expect("a crash")).collect();
    plan.faults.detector = detector(word);
    plan.faults.until = word.starts_with("wrong").then_some(900_000);
    if mutant == "no-quarantine" {
        plan.hold = Some(Span::Constant(100_000));
    }
    if mutant == "leave-once" {
        // p5 leads as soon as it has joined, and not everyone has heard of it when p3 leaves.
        plan.faults.joins.push("5@40".parse().expect("a join"));
        plan.faults.leaves.push("3@30".parse().expect("a leave"));
    }
    if mutant == "late-lease" {
        plan.faults.pauses.push("1@20..820".parse().expect("a pause"));
    }
    plan
}

/// Each of several locks recovers, and asks nothing of the others.
#[test]
fn several_locks_mend_themselves() {
    for about in mutexes() {
        for seed in 1..=40u64 {
            let mut plan = Plan { locks: 3, ..plan(4, LOADS[seed as usize % LOADS.len()], seed) };
            let at = mix(seed, 5) % 120_000;
            let restart = (seed % 2 == 0).then(|| at + 1 + mix(seed, 6) % 100_000);
            let process = NodeId(1 + mix(seed, 7) as u32 % 4);
            plan.faults.crashes = vec![Crash { process, at, restart, amnesia: false, inside: None }];
            plan.faults.detector = detector(if seed % 4 < 2 { "perfect" } else { "late:uniform:1..60" });
            recovers_well(&setup(about.name, 4, &[]), &plan);
        }
    }
}

/// When all have crashed nobody knows any more which locks there were; whoever asks again gets a later fence.
#[test]
fn locks_that_everybody_has_forgotten_begin_later() {
    for about in mutexes() {
        for seed in 1..=20u64 {
            let mut plan = Plan { locks: 3, ..plan(3, LOADS[seed as usize % LOADS.len()], seed) };
            let at = 10_000 + mix(seed, 8) % 50_000;
            let crash = |k: u32| {
                let at = at + u64::from(k) * 1_000;
                Crash { process: NodeId(k), at, restart: Some(at + 20_000), amnesia: false, inside: None }
            };
            plan.faults.crashes = (1..=3).map(crash).collect();
            plan.faults.detector = detector("perfect");
            // Of a lock that nobody asks for any more nobody misses the token.
            let report = run(&setup(about.name, 3, &[]), &plan).report;
            assert!(report.all_held() && report.ending == "done", "{} {seed}: {report:?}", about.name);
        }
    }
}

/// Whatever election is inside, and whether it is held only where the leader is gone or after every crash.
#[test]
fn any_election_will_do() {
    for election in election::all() {
        for algorithm in ["central", "ricart-agrawala", "token-ring"] {
            for seed in 1..=150u64 {
                let n = [2, 3, 4, 5, 7][mix(seed, 1) as usize % 5];
                let mut plan = plan(n, LOADS[seed as usize % LOADS.len()], seed);
                let at = mix(seed, 2) % 120_000;
                let restart = (seed % 2 == 0).then(|| at + 1 + mix(seed, 3) % 100_000);
                let process = NodeId(1 + mix(seed, 4) as u32 % n);
                plan.faults.crashes = vec![Crash { process, at, restart, amnesia: false, inside: None }];
                plan.faults.detector = detector(if seed % 4 < 2 { "perfect" } else { "late:uniform:1..60" });
                let elect = if seed % 3 == 0 { "always" } else { "needed" };
                let settings = [("election", election.name), ("elect", elect)];
                recovers_well(&setup(algorithm, n, &settings), &plan);
            }
        }
    }
}

/// Nobody leads until somebody asks; then everyone is served by whoever is elected, also if it dies.
#[test]
fn a_coordinator_is_elected_when_somebody_asks() {
    for election in election::all() {
        for seed in 1..=50u64 {
            let settings = [("coordinator", "elected"), ("variant", "queued"), ("election", election.name)];
            let setup = setup("central", 4, &settings);
            let base = plan(4, LOADS[seed as usize % LOADS.len()], seed);
            crate::common::run_well(&setup, &base);
            let mut crashed = base;
            crashed.faults.crashes.push(format!("4@{}us", mix(seed, 9) % 60_000).parse().expect("a crash"));
            crashed.faults.detector = detector("perfect");
            recovers_well(&setup, &crashed);
        }
    }
}

fn kinds(outcome: &Outcome, kind: &str) -> Vec<(NodeId, NodeId, u64)> {
    let records = outcome.trace.as_ref().expect("it is recorded").records.iter();
    let sent = records.filter_map(|record| match &record.what {
        What::Send(carried) if carried.message == kind => Some((carried.from, carried.to, record.time)),
        _ => None,
    });
    sent.collect()
}

/// V-Q1: p3 is down from 40 to 90 ms, the leader asks every 50 ms, and so p3 is back with the question at 100 ms.
#[test]
fn book_v_q1_the_leader_asks_who_is_up_again() {
    let setup = setup("central", 5, &[("poll", "50"), ("recovery", "on")]);
    let mut plan = Plan { delay: Span::Constant(5_000), entries: 1, ..plan(5, LOADS[2], 1) };
    plan.faults.crashes.push("3@40..90".parse().expect("a crash"));
    plan.faults.detector = detector("perfect");
    let outcome = simulate_setup(&setup, &plan, true).expect("it is possible");
    assert!(outcome.report.all_held(), "{:?}", outcome.violation);
    let (leader, back) = (NodeId(5), NodeId(3));
    assert_eq!(kinds(&outcome, "AreYouUp"), [(leader, back, 100_000)]);
    assert_eq!(kinds(&outcome, "CheckIn"), [(back, leader, 105_000)]);
    let mut installed = kinds(&outcome, "Install").into_iter().filter(|(_, to, _)| *to == back);
    assert!(installed.next_back().is_some_and(|(_, _, time)| time > 105_000));
}

/// V-T7: a process that is named keeps the roll: neighbours report to it, and newcomers check in with it alone.
#[test]
fn book_v_t7_a_named_process_keeps_the_roll() {
    let setup = setup("token-ring", 5, &[("monitor", "1")]);
    let mut plan = Plan { delay: Span::Constant(5_000), entries: 1, ..plan(5, LOADS[2], 1) };
    plan.faults.crashes.push("3@40".parse().expect("a crash"));
    plan.faults.joins.push("6@200".parse().expect("a newcomer"));
    plan.faults.detector = detector("perfect");
    let outcome = simulate_setup(&setup, &plan, true).expect("it is possible");
    assert!(outcome.report.all_held() && outcome.report.ending == "done", "{:?}", outcome.violation);
    assert_eq!(kinds(&outcome, "Dead"), [(NodeId(2), NodeId(1), 40_000)]);
    assert_eq!(kinds(&outcome, "CheckIn"), [(NodeId(6), NodeId(1), 200_000)]);
    let gathered = kinds(&outcome, "Gather");
    assert!(gathered.iter().all(|(from, _, _)| *from == NodeId(1)), "{gathered:?}");
    assert_eq!(kinds(&outcome, "Election"), []);
}
