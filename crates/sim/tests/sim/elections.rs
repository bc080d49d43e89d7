//! Elections: counts of the literature, a thousand seeds, a crash after every single event, mutants, size.

use crate::common::setup;
use conclave_algorithms::demand::{PlannedAsk, Who};
use conclave_algorithms::election::ChangRoberts;
use conclave_algorithms::{About, election};
use conclave_core::{Members, NodeId};
use conclave_sim::faults::{Crash, Faults};
use conclave_sim::span::Span;
use conclave_sim::{Outcome, Plan, PlayError, play, shrink, simulate, simulate_setup};
use conclave_trace::{Script, Setup};

fn elections() -> impl Iterator<Item = &'static About> {
    election::all().into_iter()
}

fn rings() -> impl Iterator<Item = &'static About> {
    elections().filter(|about| about.settings.iter().any(|setting| setting.key == "ring"))
}

fn start(at: u64, who: Who) -> PlannedAsk {
    PlannedAsk { at, who, words: "start".into() }
}

/// A plan in which these start at once, and a perfect detector tells of crashes.
fn plan(n: u32, seed: u64, starters: &[u32]) -> Plan {
    let asks = starters.iter().map(|id| start(0, Who::One(NodeId(*id)))).collect();
    Plan {
        seed,
        asks,
        faults: Faults { detector: "perfect".parse().unwrap(), ..Faults::default() },
        ..Plan::new(Members::numbered(n))
    }
}

/// The same with these down from the beginning.
fn without(mut plan: Plan, dead: &[u32]) -> Plan {
    plan.faults.crashes.extend(dead.iter().map(|id| format!("{id}@0").parse::<Crash>().unwrap()));
    plan
}

fn run(setup: &Setup, plan: &Plan) -> Outcome {
    simulate_setup(setup, plan, false).expect("the setup is possible")
}

fn run_well(setup: &Setup, plan: &Plan) -> Outcome {
    let outcome = run(setup, plan);
    assert!(
        outcome.violation.is_none() && outcome.report.all_held() && outcome.report.ending == "done",
        "{} {:?} {:?} seed {}: {:?} {}",
        setup.algorithm,
        setup.settings,
        plan.faults.crashes,
        plan.seed,
        outcome.violation,
        outcome.report.ending,
    );
    outcome
}

/// Runs, and wants exactly so many messages, which the registry's formula must confirm.
fn count(setup: &Setup, plan: &Plan, messages: u64) {
    let report = run_well(setup, plan).report;
    let what = format!("{} n={} {:?} seed {}", setup.algorithm, report.nodes, setup.settings, plan.seed);
    assert_eq!(report.messages, messages, "{what}");
    assert_eq!(report.formula.agrees, Some(true), "{what}: {:?}", report.formula);
    assert_eq!(report.formula.exact, Some(messages as f64), "{what}: {:?}", report.formula);
}

/// Where the process `id` stands on the ring, and the live ones behind it in order.
fn hops(ring: &[NodeId], from: NodeId, to: NodeId) -> u64 {
    let place = |id| ring.iter().position(|other| *other == id).unwrap();
    ((place(to) + ring.len() - place(from)) % ring.len()) as u64
}

/// Bully: m² + N − 2 for every rank and size, under random delays; N² − N − 1 at worst.
#[test]
fn bully_counts_for_every_rank() {
    for n in 2..=32u32 {
        let setup = setup("bully", n, &[]);
        for rank in 1..n {
            let m = u64::from(n - rank);
            for seed in 1..=2 {
                count(&setup, &without(plan(n, seed, &[rank]), &[n]), m * m + u64::from(n) - 2);
            }
        }
        let worst = u64::from(n) * u64::from(n) - u64::from(n) - 1;
        if n > 2 {
            count(&setup, &without(plan(n, 1, &[1]), &[n]), worst);
            let all: Vec<u32> = (1..n).collect();
            let report = run_well(&setup, &without(plan(n, 1, &all), &[n])).report;
            assert_eq!(report.messages, worst, "all at once, n = {n}");
        }
        // The best case: the next in line notices. One message to the dead, unless it is known to be dead.
        count(&setup, &without(plan(n, 1, &[n - 1]), &[n]), u64::from(n) - 1);
        let skipping = crate::common::setup("bully", n, &[("skip_known_dead", "yes")]);
        let report = run_well(&skipping, &without(plan(n, 1, &[n - 1]), &[n])).report;
        assert_eq!(report.messages, u64::from(n) - 2, "skipping the dead, n = {n}");
    }
}

/// Bully: a process that recovers while the highest is in office costs m'² − 1 messages at constant delay.
#[test]
fn bully_recovery_counts() {
    for n in 2..=32u32 {
        for rank in 1..=n {
            let mut plan = plan(n, 1, &[n]);
            plan.delay = Span::Constant(1_000);
            plan.faults.crashes.push(format!("{rank}@100..200").parse().unwrap());
            let report = run_well(&setup("bully", n, &[]), &plan).report;
            let first = u64::from(n) - 1;
            let m = u64::from(n - rank) + 1;
            if rank < n {
                assert_eq!(report.messages, first + m * m - 1, "n = {n}, rank {rank}");
            }
        }
    }
}

/// Chang–Roberts: 2N + d for every initiator, on the ring in order of ids and on shuffled ones.
#[test]
fn chang_roberts_counts_for_every_initiator() {
    for n in 2..=32u32 {
        for start in 1..=n {
            let d = u64::from(n - start);
            let simple = setup("chang-roberts", n, &[]);
            count(&simple, &plan(n, 1, &[start]), 2 * u64::from(n) + d);
            let report = run_well(&simple, &plan(n, 1, &[start])).report;
            assert_eq!(
                u64::from(report.part::<election::ElectionReport>().unwrap().turnaround_hops),
                2 * u64::from(n) + d
            );

            let shuffled = setup("chang-roberts", n, &[("ring", "random")]);
            let plan = plan(n, u64::from(start), &[start]);
            let outcome = simulate_setup(&shuffled, &plan, true).unwrap();
            let ring = outcome.trace.unwrap().header.nodes;
            let d = hops(&ring, NodeId(start), NodeId(n));
            assert_eq!(outcome.report.messages, 2 * u64::from(n) + d, "n = {n}, {start} starts on {ring:?}");
            assert_eq!(outcome.report.formula.agrees, Some(true));
        }
    }
}

/// Chang–Roberts, all at once: between 2N − 1 and N(N + 1)/2 election messages, N·H_N on average.
#[test]
fn chang_roberts_all_at_once() {
    const N: u32 = 100;
    let setup = setup("chang-roberts", N, &[("ring", "random")]);
    let (mut total, runs) = (0, 4_000);
    for seed in 1..=runs {
        let plan = Plan { asks: vec![start(0, Who::All)], seed, ..plan(N, seed, &[]) };
        let report = run_well(&setup, &plan).report;
        assert_eq!(report.messages_by_kind["Elected"], u64::from(N));
        let election = report.messages_by_kind["Election"];
        assert!((u64::from(2 * N) - 1..=u64::from(N * (N + 1) / 2)).contains(&election));
        total += election;
    }
    let mean = total as f64 / runs as f64;
    let expected = f64::from(N) * (1..=N).map(|k| 1.0 / f64::from(k)).sum::<f64>();
    assert!((mean / expected - 1.0).abs() < 0.02, "mean {mean}, expected {expected}");

    // Ids that rise along the ring stop each other at once; ids that fall all reach the maximum.
    let all = Plan { asks: vec![start(0, Who::All)], ..plan(N, 1, &[]) };
    let rising = run_well(&crate::common::setup("chang-roberts", N, &[]), &all).report;
    assert_eq!(rising.messages_by_kind["Election"], u64::from(2 * N) - 1);
    let mut falling = crate::common::setup("chang-roberts", N, &[]);
    falling.nodes = (1..=N).rev().map(NodeId).collect();
    let all = Plan { members: Members::listed(falling.nodes.clone()), ..all };
    assert_eq!(run_well(&falling, &all).report.messages_by_kind["Election"], u64::from(N * (N + 1) / 2));
}

/// The other rings: M² + M, 2M per initiator, 3M with the commit lap and 2M without, with some of them dead.
#[test]
fn counts_of_the_other_rings() {
    for n in 2..=32u32 {
        for dead in [vec![], vec![n], vec![1, n]] {
            let live: Vec<u32> = (1..=n).filter(|id| !dead.contains(id)).collect();
            let m = live.len() as u64;
            if m < 2 {
                continue;
            }
            for ring in ["ids", "random"] {
                for start in [live[0], live[live.len() / 2], live[live.len() - 1]] {
                    let plan = without(plan(n, u64::from(start), &[start]), &dead);
                    let with = |name: &str, more: &[(&str, &str)]| {
                        let mut settings = vec![("ring", ring)];
                        settings.extend(more);
                        setup(name, n, &settings)
                    };
                    count(&with("ring-active-list", &[]), &plan, m * m + m);
                    count(&with("ring-list", &[]), &plan, 2 * m);
                    count(&with("ring-k-leaders", &[]), &plan, 3 * m);
                    count(&with("ring-k-leaders", &[("commit", "no")]), &plan, 2 * m);
                    count(&with("ring-ballot", &[]), &plan, 2 * m);
                }
                let two = without(plan(n, 1, &[live[0], live[live.len() - 1]]), &dead);
                let with = |name: &str| setup(name, n, &[("ring", ring)]);
                count(&with("ring-active-list"), &two, m * m + m);
                count(&with("ring-list"), &two, 4 * m);
            }
        }
    }
}

/// A thousand seeds each: random delays, one, some or all start, some are dead from the beginning.
#[test]
fn a_thousand_seeds_break_no_promise() {
    for about in elections() {
        for seed in 1..=1_000u64 {
            let n = [2, 3, 5, 8][seed as usize % 4];
            let setup = setup(about.name, n, &[]);
            let mut plan = plan(n, seed, &[]);
            plan.asks = match seed % 3 {
                0 => vec![start(0, Who::All)],
                1 => vec![start(0, Who::One(NodeId(1 + seed as u32 % n)))],
                _ => (1..=n)
                    .filter(|id| (seed >> id) & 1 == 0)
                    .map(|id| start(id.into(), Who::One(NodeId(id))))
                    .collect(),
            };
            if plan.asks.is_empty() {
                plan.asks.push(start(0, Who::All));
            }
            if seed % 2 == 0 && n > 2 {
                plan = without(plan, &[n]);
                plan.asks.push(start(0, Who::One(NodeId(1))));
            }
            run_well(&setup, &plan);
        }
    }
}

/// Weights turn the order round: the lowest id can win, and the counts follow the rank by weight.
#[test]
fn weights_decide() {
    for about in elections().filter(|about| about.name != "ring-ballot") {
        let setup = setup(about.name, 5, &[("weights", "1:5")]);
        let report = run_well(&setup, &plan(5, 1, &[3])).report;
        assert_eq!(
            report.part::<election::ElectionReport>().unwrap().leader,
            Some(NodeId(1)),
            "{}",
            about.name
        );
    }
}

/// Whoever crashes after whichever event: the run ends, and the survivors agree on the right one.
#[test]
fn a_crash_after_every_single_event() {
    for about in elections() {
        for detector in ["perfect", "late:25"] {
            for all in [false, true] {
                let setup = setup(about.name, 5, &[]);
                let mut base = plan(5, 3, &[2]);
                base.faults.detector = detector.parse().unwrap();
                if all {
                    base.asks = vec![start(0, Who::All)];
                }
                let trace = simulate_setup(&setup, &base, true).unwrap().trace.unwrap();
                let mut times: Vec<u64> = trace.records.iter().map(|record| record.time).collect();
                times.dedup();
                for time in times {
                    for process in 1..=5 {
                        let mut plan = base.clone();
                        plan.faults.crashes = vec![Crash {
                            process: NodeId(process),
                            at: time + 1,
                            restart: None,
                            amnesia: false,
                            inside: None,
                        }];
                        run_well(&setup, &plan);
                    }
                }
            }
        }
    }
}

/// A leader that crashes when all is over is replaced; one that comes back is taken in; one that retires stays out.
#[test]
fn crash_recovery_and_retirement() {
    for about in elections() {
        for seed in 1..=100 {
            let setup = setup(about.name, 5, &[]);
            let mut crash = plan(5, seed, &[2]);
            crash.faults.crashes.push("5@2s".parse().unwrap());
            assert_eq!(
                run_well(&setup, &crash).report.part::<election::ElectionReport>().unwrap().leader,
                Some(NodeId(4)),
                "{}",
                about.name
            );

            let mut back = plan(5, seed, &[2]);
            back.faults.crashes.push("5@2s..4s".parse().unwrap());
            assert_eq!(
                run_well(&setup, &back).report.part::<election::ElectionReport>().unwrap().leader,
                Some(NodeId(5)),
                "{}",
                about.name
            );

            let mut retired = plan(5, seed, &[2]);
            let who = Who::One(NodeId(5));
            retired.asks.push(PlannedAsk { at: 2_000_000, who, words: "retire".into() });
            let report = run_well(&setup, &retired).report;
            assert_eq!(
                report.part::<election::ElectionReport>().unwrap().leader,
                Some(NodeId(4)),
                "{} retires",
                about.name
            );
        }
    }
}

/// Six processes elect p6, which dies in office.
fn dies_in_office(algorithm: &str, detector: &str) -> (Setup, Plan) {
    let nodes: Vec<_> = [0, 1, 3, 4, 5, 6].map(NodeId).into();
    let setup = Setup { nodes: nodes.clone(), ..Setup::numbered(algorithm, 6) };
    let mut plan = Plan {
        asks: vec![start(0, Who::One(NodeId(6)))],
        delay: Span::Constant(5_000),
        ..Plan::new(Members::listed(nodes))
    };
    plan.faults.detector = detector.parse().unwrap();
    plan.faults.crashes.push("6@200".parse().unwrap());
    (setup, plan)
}

/// What each election of a run cost, and in what time; all of them as the formula says.
fn costs(setup: &Setup, plan: &Plan) -> Vec<(u64, f64)> {
    let report = run_well(setup, plan).report;
    assert_eq!(report.formula.agrees, Some(true), "{}: {:?}", setup.algorithm, report.formula);
    let part = report.part::<election::ElectionReport>().unwrap();
    assert_eq!(part.elections, part.each.len() as u64);
    assert!(part.each.iter().all(|one| one.agrees == Some(true)), "{}: {:?}", setup.algorithm, part.each);
    assert_eq!(part.each.iter().map(|one| one.messages).sum::<u64>(), report.messages);
    part.each.iter().map(|one| (one.messages, one.turnaround)).collect()
}

/// The leader dies in office and one process notices: two elections, each with its own cost, formula and time.
#[test]
fn elections_are_counted_one_by_one() {
    let (setup, mut plan) = dies_in_office("bully", "none");
    plan.asks.push(start(260_000, Who::One(NodeId(3))));
    assert_eq!(costs(&setup, &plan), [(5, 5.0), (13, 20.001)]);
}

/// The same where everyone is told of the death at once: one election with five starters.
#[test]
fn elections_that_overlap_are_one() {
    for (algorithm, expected) in [
        ("bully", [5, 29]),
        ("chang-roberts", [12, 14]),
        ("ring-active-list", [42, 30]),
        ("ring-list", [12, 50]),
        ("ring-k-leaders", [18, 75]),
        ("ring-ballot", [12, 50]),
    ] {
        let (setup, plan) = dies_in_office(algorithm, "perfect");
        let messages: Vec<_> = costs(&setup, &plan).into_iter().map(|(messages, _)| messages).collect();
        assert_eq!(messages, expected, "{algorithm}");
    }
}

/// A process that comes back under its old id while its successor announces itself: two leaders of one election.
#[test]
fn a_return_in_the_middle_breaks_e1_of_the_plain_bully() {
    let broken = (0..300).find(|seed| {
        let mut plan = plan(5, *seed, &[4]);
        plan.faults.crashes.push("5@0..24".parse().unwrap());
        let violation = run(&setup("bully", 5, &[]), &plan).violation;
        violation.is_some_and(|violation| violation.property == "E1")
    });
    assert!(broken.is_some());
}

/// Every mutant is caught within a thousand seeds.
#[test]
fn every_mutant_is_caught() {
    for about in elections() {
        assert!(about.mutants.len() >= 2, "{} has too few mutants", about.name);
        for mutant in about.mutants {
            let mut setup = setup(about.name, mutant.nodes, &[]);
            setup.mutant = Some(mutant.name.into());
            let caught = (1..=1_000u64).find_map(|seed| {
                let mut plan = plan(mutant.nodes, seed, &[1 + seed as u32 % mutant.nodes]);
                if seed % 3 == 0 {
                    plan.asks = vec![start(0, Who::All)];
                }
                if seed % 2 == 0 && mutant.nodes > 2 {
                    plan = without(plan, &[mutant.nodes]);
                    plan.asks.push(start(0, Who::One(NodeId(1))));
                }
                let outcome = run(&setup, &plan);
                let named =
                    outcome.report.properties.iter().find(|property| property.name == mutant.breaks)?;
                // Several promises may fall at once; a script is judged by the first.
                (named.holds == Some(false)).then_some((plan, outcome.violation?.property))
            });
            let (plan, property) =
                caught.unwrap_or_else(|| panic!("{} {} was not caught", about.name, mutant.name));
            // A run that never ends cannot be told as a script; every other failure can, and fails again.
            if property != "END" {
                let script = shrink(&setup, &plan, property).expect("it can be told as a script");
                let text = script.to_string();
                let played =
                    play(&Script::parse(&text).unwrap()).unwrap_or_else(|error| panic!("{error}\n{text}"));
                assert_eq!(played.violation.map(|violation| violation.property), Some(property), "{text}");
            }
        }
    }
}

/// The hardened bully keeps to one leader per term under wrong suspicions, crashes and restarts, and settles in the end.
#[test]
fn the_hardened_bully_is_safe_where_the_plain_one_is_not() {
    let hardened = setup("bully", 5, &[("mode", "hardened")]);
    for seed in 1..=1_000 {
        let mut plan = plan(5, seed, &[1]);
        plan.faults.crashes.push(format!("5@{}..{}", 10 + seed % 50, 80 + seed % 70).parse().unwrap());
        plan.faults.detector = "late:7".parse().unwrap();
        run_well(&hardened, &plan);
    }
}

/// A cut in the middle of an election: the plain bully announces two leaders (E1), the hardened one is left with one.
#[test]
fn a_cut_leaves_the_plain_bully_with_two_leaders() {
    let cut = |seed| {
        let mut plan = plan(4, seed, &[1, 3]);
        plan.faults.partitions.push("1,2/3,4@0..300".parse().unwrap());
        plan
    };
    for seed in 1..=100 {
        let report = run(&setup("bully", 4, &[]), &cut(seed)).report;
        let safety = report.properties.iter().find(|property| property.name == "E1").unwrap();
        assert_eq!(safety.holds, Some(false), "seed {seed}");
        run_well(&setup("bully", 4, &[("mode", "hardened")]), &cut(seed));
    }
}

/// One start without a failure is one election, also where a slow message reaches somebody who knows the leader already.
#[test]
fn a_late_message_starts_no_further_election() {
    for (about, seed) in elections().flat_map(|about| (1..=100).map(move |seed| (about, seed))) {
        let report = run_well(&setup(about.name, 4, &[]), &plan(4, seed, &[1])).report;
        assert_eq!(report.part::<election::ElectionReport>().unwrap().elections, 1, "{} {seed}", about.name);
        assert_eq!(report.formula.agrees, Some(true), "{} {seed}", about.name);
    }
}

/// A thousand processes, the leader among them dead.
#[test]
fn a_thousand_processes() {
    for about in elections() {
        let name = about.name;
        let start = if name == "bully" { 900 } else { 1 };
        let plan = without(plan(1_000, 1, &[start]), &[1_000]);
        let report = run_well(&setup(name, 1_000, &[]), &plan).report;
        assert_eq!(report.part::<election::ElectionReport>().unwrap().leader, Some(NodeId(999)));
        assert_eq!(report.formula.agrees, Some(true), "{name}");
    }
    assert!(rings().count() >= 5, "there are five ring elections");
}

/// Whoever writes an election of their own runs it by its type, under any name.
#[test]
fn an_election_needs_no_registry() {
    let (plan, ours) = (plan(5, 7, &[2, 4]), Setup::numbered("ours", 5));
    let known = run(&Setup::numbered("chang-roberts", 5), &plan).report;
    let unknown =
        simulate::<election::Of<ChangRoberts>>(&ours, &plan, false).expect("the setup is possible").report;
    assert!(unknown.all_held() && unknown.messages > 0);
    assert_eq!((unknown.trace_digest, unknown.messages), (known.trace_digest, known.messages));
    assert!(
        matches!(simulate_setup(&ours, &plan, false), Err(PlayError::UnknownAlgorithm(name)) if name == "ours")
    );
}
