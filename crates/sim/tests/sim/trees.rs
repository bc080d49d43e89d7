//! Raymond's algorithm in trees of all shapes: what it costs, and that it gets over the restart of any one process.

use crate::common::{LOADS, plan, run_well, setup};
use conclave_algorithms::mutex::{Load, Tree};
use conclave_core::{Members, NodeId};
use conclave_sim::faults::{Crash, Faults};
use conclave_sim::rng::{Draw as _, Rng};
use conclave_sim::span::Span;
use conclave_sim::{Outcome, Plan, simulate_setup};
use conclave_trace::{Setup, What};

/// A shape: how it is set, and the parent of each place but the root's.
struct Shape {
    setup: Setup,
    parents: Vec<Option<usize>>,
}

/// All shapes of a size, with the parents from their definitions.
fn shapes(n: u32) -> Vec<Shape> {
    let rule =
        |arity: usize| (0..n as usize).map(|i| i.checked_sub(1).map(|before| before / arity)).collect();
    let shape = |settings: &[(&str, &str)], parents| Shape { setup: setup("raymond", n, settings), parents };
    let mut all = vec![
        shape(&[], rule(2)),
        shape(&[("arity", "3")], rule(3)),
        shape(&[("tree", "chain")], rule(1)),
        shape(&[("tree", "star")], rule(n as usize)),
    ];
    for seed in 1..=3 {
        let tree = Tree::random(&Members::numbered(n), seed);
        let parents = (0..n as usize).map(|place| tree.parent(place)).collect();
        all.push(shape(&[("tree", "random"), ("tree-seed", &seed.to_string())], parents));
    }
    if n > 1 {
        // A comb whose root is the last process: p(n), p(n-2), ... one below the other, each with a tooth.
        let parent =
            |place: usize| (place + 1 < n as usize).then(|| (place + 2 - place % 2).min(n as usize - 1));
        let parents: Vec<_> = (0..n as usize).map(parent).collect();
        let pairs =
            parents.iter().enumerate().filter_map(|(place, parent)| Some((place + 1, (*parent)? + 1)));
        let text: Vec<_> = pairs.map(|(child, parent)| format!("{child}:{parent}")).collect();
        all.push(shape(&[("tree", "given"), ("parents", &text.join(","))], parents));
    }
    all
}

impl Shape {
    fn root(&self) -> usize {
        self.parents.iter().position(Option::is_none).expect("a tree has a root")
    }

    /// The places from one up to the root.
    fn ancestors(&self, place: usize) -> Vec<usize> {
        core::iter::successors(Some(place), |place| self.parents[*place]).collect()
    }

    fn distance(&self, a: usize, b: usize) -> u64 {
        let (above_a, above_b) = (self.ancestors(a), self.ancestors(b));
        let shared = above_a.iter().rev().zip(above_b.iter().rev()).take_while(|(a, b)| a == b).count();
        (above_a.len() + above_b.len() - 2 * shared) as u64
    }

    fn diameter(&self) -> u64 {
        let n = self.parents.len();
        (0..n).flat_map(|a| (0..a).map(move |b| (a, b))).map(|(a, b)| self.distance(a, b)).max().unwrap_or(0)
    }
}

/// Who entered, one after the other, by place, and how many messages had been sent by then.
fn entries(outcome: &Outcome) -> Vec<(usize, u64)> {
    let trace = outcome.trace.as_ref().expect("the run was recorded");
    let (mut sent, mut entries) = (0, Vec::new());
    for record in &trace.records {
        match &record.what {
            What::Send(carried) => sent += u64::from(!carried.overhead),
            What::Event { event, .. } if event == "granted" => {
                let process = record.process.expect("a process is told");
                entries.push((process.0 as usize - 1, sent));
            }
            _ => {}
        }
    }
    entries
}

fn recorded(setup: &Setup, plan: &Plan) -> Outcome {
    let outcome = simulate_setup(setup, plan, true).expect("the setup is possible");
    assert_eq!(outcome.violation, None, "{} {:?} --seed {}", setup.algorithm, setup.settings, plan.seed);
    outcome
}

/// Under every load the token goes from one entry to the next by the shortest way, and is asked for by the same way:
/// all messages together are twice the way from the root through all entries. Alone, each entry pays its own part.
#[test]
fn messages_are_twice_the_way_of_the_token() {
    for n in 1..=16 {
        for shape in shapes(n) {
            for load in LOADS {
                for seed in 1..=20 {
                    let outcome = recorded(&shape.setup, &plan(n, load, seed));
                    let (mut at, mut way) = (shape.root(), 0);
                    for (place, sent) in entries(&outcome) {
                        way += shape.distance(at, place);
                        at = place;
                        if load == Load::Light {
                            assert_eq!(sent, 2 * way, "{:?} -n {n} --seed {seed}", shape.setup.settings);
                        }
                    }
                    let what = format!("{:?} -n {n} {load:?} --seed {seed}", shape.setup.settings);
                    assert_eq!(outcome.report.messages, 2 * way, "{what}");
                }
            }
        }
    }
}

/// Alone, nobody pays more than twice the diameter, and somebody does pay that: 2(n - 1) in a chain, 4 in a star.
#[test]
fn book_the_worst_entry_is_twice_the_diameter() {
    for n in 2..=9 {
        for shape in shapes(n) {
            let mut worst = 0;
            for seed in 1..=20 {
                let mut plan = plan(n, Load::Light, seed);
                plan.entries = 10;
                let mut before = 0;
                for (_, sent) in entries(&recorded(&shape.setup, &plan)) {
                    worst = worst.max(sent - before);
                    before = sent;
                }
            }
            let what = format!("{:?} -n {n}", shape.setup.settings);
            assert_eq!(worst, 2 * shape.diameter(), "{what}");
            match shape.setup.settings.get("tree").map(String::as_str) {
                Some("chain") => assert_eq!(worst, 2 * (u64::from(n) - 1), "{what}"),
                Some("star") => assert!(worst <= 4, "{what}"),
                _ => {}
            }
        }
    }
}

/// When all press, the token walks round the whole tree, over every edge and back: 4(n - 1) messages for one entry of
/// each, in every tree. Only its way home from the last entry is saved.
#[test]
fn book_saturated_everyone_enters_once_in_4n_less_4_messages() {
    for n in 1..=16 {
        for shape in shapes(n) {
            for seed in 1..=20 {
                let mut plan = plan(n, Load::Saturated, seed);
                plan.entries = 3;
                let outcome = recorded(&shape.setup, &plan);
                let what = format!("{:?} -n {n} --seed {seed}", shape.setup.settings);
                let entered: Vec<_> = entries(&outcome).into_iter().map(|(place, _)| place).collect();
                for round in entered.chunks(n as usize) {
                    let mut everyone = round.to_vec();
                    everyone.sort_unstable();
                    assert!(everyone.into_iter().eq(0..n as usize), "{what}: {entered:?}");
                    assert_eq!(round, &entered[..n as usize], "{what}");
                }
                let last = *entered.last().expect("somebody entered");
                let home = shape.distance(shape.root(), last);
                assert_eq!(outcome.report.messages, 3 * 4 * (u64::from(n) - 1) - 2 * home, "{what}");
            }
        }
    }
}

/// The mean of the formula is the mean of the runs.
#[test]
fn an_entry_alone_costs_twice_the_mean_distance() {
    for settings in [&[][..], &[("tree", "chain")], &[("tree", "star")], &[("tree", "random")]] {
        let mut plan = plan(64, Load::Light, 1);
        plan.entries = 200;
        let report = run_well(&setup("raymond", 64, settings), &plan).report;
        let (measured, mean) = (
            report.part::<conclave_algorithms::mutex::LockReport>().unwrap().messages_per_entry.unwrap(),
            report.formula.mean.unwrap(),
        );
        assert!((measured / mean - 1.0).abs() < 0.02, "{settings:?}: {measured}, not {mean}");
    }
}

/// A hundred thousand processes, one entry each: the work of a message does not grow with the group.
#[test]
fn a_hundred_thousand_processes() {
    let mut plan = plan(100_000, Load::Light, 1);
    plan.entries = 1;
    let report = run_well(&setup("raymond", 100_000, &[]), &plan).report;
    let (measured, mean) = (
        report.part::<conclave_algorithms::mutex::LockReport>().unwrap().messages_per_entry.unwrap(),
        report.formula.mean.unwrap(),
    );
    assert!((measured / mean - 1.0).abs() < 0.01, "{measured}, not {mean}");
}

/// Runs with these crashes; everyone must be served who can be, and there must be one token in the end.
fn survives(shape: &Shape, plan: &Plan) -> Outcome {
    let mut setup = shape.setup.clone();
    setup.settings.insert("recovery".into(), "off".into());
    let outcome = simulate_setup(&setup, plan, false).expect("the setup is possible");
    let report = &outcome.report;
    let crashes: Vec<_> = plan.faults.crashes.iter().map(ToString::to_string).collect();
    let what = format!(
        "conclave sim raymond -n {} --load {:?} --seed {} --crash {crashes:?} {:?}",
        plan.members.len(),
        plan.load,
        plan.seed,
        shape.setup.settings
    );
    assert_eq!(outcome.violation, None, "{what}");
    assert!(report.all_held() && report.ending == "done", "{what}: {}", report.ending);
    // What a process was about to do when it crashed is lost, and nothing else.
    let all = plan.entries * plan.members.len() as u64;
    let entered = report.part::<conclave_algorithms::mutex::LockReport>().unwrap().entries;
    assert!((all - crashes.len() as u64..=all).contains(&entered), "{what}: {entered} of {all}");
    let token = report.properties.iter().find(|property| property.name == "TOK").expect("it is a token");
    assert_eq!(token.holds, Some(true), "{what}: {}", token.detail);
    outcome
}

fn crash(rng: &mut Rng, process: u32, horizon: u64) -> Crash {
    let at = rng.between(0, horizon);
    let restart = Some(at + rng.between(1, 60_000));
    Crash { process: NodeId(process), at, restart, amnesia: rng.below(2) == 0, inside: None }
}

/// Any one process crashes at any time and comes back: no failure detector is needed.
#[test]
fn any_one_process_restarts() {
    let (mut replaced, mut kept) = (0, 0);
    for n in 2..=8 {
        for shape in shapes(n) {
            for seed in 1..=40 {
                let mut rng = Rng::new(seed, 77);
                let load = LOADS[seed as usize % LOADS.len()];
                let mut plan = Plan { entries: 3, ..plan(n, load, seed) };
                let who = 1 + rng.below(n.into()) as u32;
                let crashes = vec![crash(&mut rng, who, 30_000 * u64::from(n))];
                plan.faults = Faults { crashes, ..Faults::default() };
                if seed % 3 == 0 {
                    plan.hold = Some(Span::Constant(500));
                }
                let outcome = survives(&shape, &plan);
                let token = outcome.report.properties.iter().find(|property| property.name == "TOK");
                match token.is_some_and(|token| token.detail.is_empty()) {
                    true => kept += 1,
                    false => replaced += 1,
                }
            }
        }
    }
    assert!(replaced > 300 && kept > 300, "the token was replaced in {replaced} runs and kept in {kept}");
}

/// One after the other, the same or another, and two at once that are not neighbours.
#[test]
fn restarts_may_follow_and_overlap_unless_neighbours_do() {
    for n in 3..=8 {
        for shape in shapes(n) {
            for seed in 1..=60 {
                let mut rng = Rng::new(seed, 78);
                let load = LOADS[seed as usize % LOADS.len()];
                let mut plan = Plan { entries: 4, ..plan(n, load, seed) };
                let mut crashes: Vec<Crash> = Vec::new();
                for _ in 0..6 {
                    let who = rng.below(n.into()) as usize;
                    let next = crash(&mut rng, who as u32 + 1, 40_000 * u64::from(n));
                    // Back, and advised: three message delays after the restart.
                    let over = |crash: &Crash| crash.restart.expect("it comes back") + 40_000;
                    let apart = crashes.iter().all(|other| {
                        let theirs = other.process.0 as usize - 1;
                        shape.distance(who, theirs) > 1 || over(other) < next.at || over(&next) < other.at
                    });
                    if apart {
                        crashes.push(next);
                    }
                }
                plan.faults = Faults { crashes, ..Faults::default() };
                survives(&shape, &plan);
            }
        }
    }
}
