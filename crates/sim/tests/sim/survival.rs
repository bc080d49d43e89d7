//! What every algorithm for mutual exclusion survives, found by running it; the first table in `docs/survival.md` says no more
//! and no less, and the second does so for elections. `CONCLAVE_UPDATE=1` (or `cargo xtask fix`) writes it again.

use std::fmt::Write;

use crate::common::{LOADS, plan, run, setup};
use crate::surviving_elections;
use conclave_algorithms::{About, mutex};
use conclave_core::NodeId;
use conclave_sim::faults::{Crash, Inside};
use conclave_sim::{Outcome, Plan, simulate_setup};
use conclave_trace::{Setup, What};

const RUNS: u64 = 100;
const N: u32 = 5;

/// What becomes of a group, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// All who are left are served, and never two at once.
    Survives,
    /// Never two at once, but somebody waits without end.
    Blocks,
    /// Two at once, but the resource is protected by the fence.
    Fenced,
    /// Two at once, and the resource has mixed them up.
    Fails,
}

impl Fate {
    fn of(outcome: &Outcome) -> Self {
        let broken = |name: &str| {
            let all = outcome.report.properties.iter().chain(&outcome.report.not_promised);
            all.into_iter().any(|property| property.name == name && property.holds == Some(false))
        };
        match outcome.report.ending {
            _ if broken("RES") || broken("FENCE") => Self::Fails,
            _ if broken("ME1") || broken("TOK") => Self::Fenced,
            "done" if !broken("ME2") && !broken("ME3") => Self::Survives,
            _ => Self::Blocks,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Survives => "yes",
            Self::Blocks => "blocks",
            Self::Fenced => "fence",
            Self::Fails => "no",
        }
    }
}

/// A failure: a column of the table, and how it is brought about.
struct Trial {
    name: &'static str,
    meaning: &'static str,
    settings: &'static [(&'static str, &'static str)],
    bring_about: fn(&Setup, &mut Plan),
}

const TRIALS: &[Trial] = &[
    Trial {
        name: "plain",
        meaning: "one process crashes, and the algorithm is left to itself (`recovery=off`)",
        settings: &[("recovery", "off")],
        bring_about: |_, plan| crash_at(plan, anybody(plan), anytime(plan), None, "perfect"),
    },
    Trial {
        name: "crash",
        meaning: "any process crashes at any moment",
        settings: &[],
        bring_about: |_, plan| crash_at(plan, anybody(plan), anytime(plan), None, "perfect"),
    },
    Trial {
        name: "mid-step",
        meaning: "any process crashes inside a step, and loses what it had sent last to each of the others",
        settings: &[],
        bring_about: |_, plan| {
            crash_at(plan, anybody(plan), anytime(plan), None, "perfect");
            plan.faults.crashes[0].inside = Some(Inside::Chance);
        },
    },
    Trial {
        name: "leader",
        meaning: "the highest crashes, which leads (and keeps the lock, where one process does)",
        settings: &[],
        bring_about: |_, plan| crash_at(plan, N, anytime(plan), None, "perfect"),
    },
    Trial {
        name: "inside",
        meaning: "whoever is inside crashes",
        settings: &[],
        bring_about: |setup, plan| crash_when(setup, plan, "holding"),
    },
    Trial {
        name: "waiting",
        meaning: "somebody who waits crashes",
        settings: &[],
        bring_about: |setup, plan| crash_when(setup, plan, "waiting"),
    },
    Trial {
        name: "restart",
        meaning: "a process crashes and comes back",
        settings: &[],
        bring_about: |_, plan| {
            let at = anytime(plan);
            crash_at(plan, anybody(plan), at, Some(at + 1 + plan.seed * 3_000), "perfect");
        },
    },
    Trial {
        name: "late",
        meaning: "as `crash`, but each hears of it when it does",
        settings: &[],
        bring_about: |_, plan| crash_at(plan, anybody(plan), anytime(plan), None, "late:uniform:1..60"),
    },
    Trial {
        name: "two",
        meaning: "two of five crash",
        settings: &[],
        bring_about: |_, plan| {
            crash_at(plan, 1 + plan.seed as u32 % N, anytime(plan), None, "perfect");
            crash_at(plan, 1 + (plan.seed as u32 + 1) % N, anytime(plan) / 2 + 1, None, "perfect");
        },
    },
    Trial {
        name: "join, leave",
        meaning: "a process joins and another leaves",
        settings: &[],
        bring_about: |_, plan| {
            plan.faults.joins.push(format!("6@{}us", anytime(plan)).parse().expect("a join"));
            plan.faults.leaves.push(format!("2@{}us", anytime(plan) / 2).parse().expect("a leave"));
        },
    },
    Trial {
        name: "lost token",
        meaning: "a token is lost in flight",
        settings: &[],
        bring_about: |_, plan| plan.faults.lost_tokens.push(anytime(plan)),
    },
    Trial {
        name: "suspicion",
        meaning: "the failure detector calls the living dead, again and again",
        settings: &[],
        bring_about: |_, plan| {
            plan.faults.detector = "wrong:uniform:5..40".parse().expect("a detector");
            plan.faults.until = Some(400_000);
        },
    },
];

fn anytime(plan: &Plan) -> u64 {
    plan.seed.wrapping_mul(7_919_113) % 100_000
}

fn anybody(plan: &Plan) -> u32 {
    1 + (plan.seed.wrapping_mul(2_654_435_761) >> 7) as u32 % N
}

fn crash_at(plan: &mut Plan, process: u32, at: u64, restart: Option<u64>, detector: &str) {
    plan.faults.crashes.push(Crash { process: NodeId(process), at, restart, amnesia: false, inside: None });
    plan.faults.detector = detector.parse().expect("a detector");
}

/// Crashes somebody just when it is in this phase: the moment is looked up in a run without the crash.
fn crash_when(setup: &Setup, plan: &mut Plan, phase: &str) {
    let mut setup = setup.clone();
    setup.settings.insert("recovery".into(), "on".into());
    let trace = simulate_setup(&setup, plan, true).expect("it is possible").trace.expect("it is recorded");
    let there =
        |record: &&conclave_trace::Record| record.phase == phase && !matches!(record.what, What::Start);
    let moments: Vec<_> = trace.records.iter().filter(there).collect();
    let moment = moments[plan.seed as usize * 13 % moments.len()];
    let process = moment.process.expect("a phase is somebody's");
    crash_at(plan, process.0, moment.time + 1, None, "perfect");
}

fn fate(algorithm: &str, settings: &[(&str, &str)], trial: &Trial) -> Option<Fate> {
    let all: Vec<_> = settings.iter().chain(trial.settings).copied().collect();
    let setup = setup(algorithm, N, &all);
    // That a wrong suspicion lets two in is rare in some.
    let runs = if trial.name == "suspicion" { 10 * RUNS } else { RUNS };
    (1..=runs)
        .map(|seed| {
            let mut plan = plan(N, LOADS[seed as usize % LOADS.len()], seed);
            plan.entries = 3;
            plan.max_events = 300_000;
            (trial.bring_about)(&setup, &mut plan);
            simulate_setup(&setup, &plan, false).ok().map(|outcome| Fate::of(&outcome))
        })
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .max()
}

fn mutexes() -> impl Iterator<Item = &'static About> {
    mutex::all().into_iter()
}

fn table() -> String {
    let mut text = String::from(
        "# What the algorithms survive\n\n\
         Found by simulation, and written by `cargo xtask fix`; a test compares it with the runs.\n\n\
         ## Mutual exclusion\n\n",
    );
    writeln!(
        text,
        "Groups of {N}, {RUNS} runs each (ten times as many for the last), under three loads. The failures:\n"
    )
    .unwrap();
    for Trial { name, meaning, .. } in TRIALS {
        writeln!(text, "- **{name}**: {meaning}.").unwrap();
    }
    text.push_str(
        "\n- `yes`: all who are left are served, and never two are inside at once.\n\
         - `blocks`: never two inside, but somebody waits without end.\n\
         - `fence`: two were inside at once, and the resource refused the one with the old fence.\n\
         - `-`: does not apply.\n\n\
         A `yes` says that none of these runs failed, and no more: five processes, short entries, one kind of failure at a\n\
         time, reliable channels, and what was saved survives. Messages take a bounded time that everyone knows, clocks do not drift, timers are\n\
         exact, steps take no time, and a lock is held for as long as the slowest message takes, which is shorter than any lease. But for\n\
         *late* and *suspicion*, everyone hears of a crash, and nobody else is suspected. [Assumes](recovery.md#assumes) says what is relied on.\n\n",
    );
    let names: Vec<_> = TRIALS.iter().map(|trial| trial.name).collect();
    writeln!(text, "| algorithm | {} |", names.join(" | ")).unwrap();
    writeln!(text, "|---|{}", "---|".repeat(names.len())).unwrap();
    let view: &[(&str, &str)] = &[("mode", "view")];
    let rows = mutexes().flat_map(|about| {
        let plain = (about.name, &[][..]);
        let more = (about.name == "majority").then_some((about.name, view));
        [Some(plain), more].into_iter().flatten()
    });
    for (algorithm, settings) in rows {
        let name = match settings {
            [] => algorithm.to_owned(),
            [(key, value), ..] => format!("{algorithm}, {key}={value}"),
        };
        let fates = TRIALS.iter().map(|trial| fate(algorithm, settings, trial).map_or("-", Fate::word));
        writeln!(text, "| {name} | {} |", fates.collect::<Vec<_>>().join(" | ")).unwrap();
    }
    text + &surviving_elections::table()
}

#[test]
fn the_table_says_what_the_runs_show() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/survival.md");
    let found = table();
    if std::env::var_os("CONCLAVE_UPDATE").is_some() {
        std::fs::write(path, &found).expect("the table can be written");
    }
    let written = std::fs::read_to_string(path).expect("docs/survival.md is there");
    assert_eq!(written, found, "run `cargo xtask fix`, and read what has changed");
}

/// The words mean something: a run that goes well, one that blocks, and one in which only the fence helps.
#[test]
fn fates_are_told_apart() {
    let crash = &TRIALS[1];
    assert_eq!(fate("lamport", &[], crash), Some(Fate::Survives));
    assert_eq!(fate("lamport", &[], &TRIALS[0]), Some(Fate::Blocks));
    assert_eq!(run(&setup("lamport", 3, &[]), &plan(3, LOADS[0], 1)).report.ending, "done");
}
