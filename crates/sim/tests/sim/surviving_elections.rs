//! What every election survives, found by running it: the second table of `docs/survival.md`.

use std::fmt::Write;

use crate::common::setup;
use conclave_algorithms::demand::{PlannedAsk, Who};
use conclave_algorithms::election;
use conclave_core::{Members, NodeId};
use conclave_sim::faults::{Crash, Inside};
use conclave_sim::{Outcome, Plan, simulate_setup};

const RUNS: u64 = 100;
const N: u32 = 5;

/// How an election comes out, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// All who are left name the right one, and nobody was told of another.
    Elects,
    /// Somebody who is alive knows of no leader, or it never ends.
    Stalls,
    /// All agree on somebody who should not lead.
    Wrong,
    /// Two leaders are announced in one election or named in the end, or a dead one is.
    Two,
}

impl Fate {
    fn of(outcome: &Outcome) -> Self {
        let broken = |names: &[&str]| {
            let mut found = outcome.report.properties.iter();
            found.any(|property| names.contains(&property.name) && property.holds == Some(false))
        };
        match outcome.report.ending {
            _ if broken(&["E1", "E4"]) => Self::Two,
            "done" | "stuck" if broken(&["E2"]) => Self::Stalls,
            "done" if broken(&["E3"]) => Self::Two,
            "done" if broken(&["E5"]) => Self::Wrong,
            "done" => Self::Elects,
            _ => Self::Stalls,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Elects => "yes",
            Self::Stalls => "none",
            Self::Wrong => "wrong",
            Self::Two => "two",
        }
    }
}

/// A failure: a column of the table, and how it is brought about.
struct Trial {
    name: &'static str,
    meaning: &'static str,
    bring_about: fn(&mut Plan),
}

const TRIALS: &[Trial] = &[
    Trial {
        name: "crash",
        meaning: "any process crashes at any moment",
        bring_about: |plan| crash(plan, anybody(plan), anytime(plan), None),
    },
    Trial {
        name: "mid-step",
        meaning: "any process crashes inside a step, and loses what it had sent last to each of the others",
        bring_about: |plan| {
            crash(plan, anybody(plan), anytime(plan), None);
            plan.faults.crashes[0].inside = Some(Inside::Chance);
        },
    },
    Trial {
        name: "in office",
        meaning: "the leader crashes when all know of it",
        bring_about: |plan| crash(plan, N, 1_000_000 + anytime(plan), None),
    },
    Trial {
        name: "two",
        meaning: "two of five crash",
        bring_about: |plan| {
            crash(plan, 1 + plan.seed as u32 % N, anytime(plan), None);
            crash(plan, 1 + (plan.seed as u32 + 1) % N, anytime(plan) / 2 + 1, None);
        },
    },
    Trial {
        name: "late",
        meaning: "as `crash`, but each hears of it when it does",
        bring_about: |plan| {
            crash(plan, anybody(plan), anytime(plan), None);
            plan.faults.detector = "late:uniform:1..60".parse().expect("a detector");
        },
    },
    Trial {
        name: "unreported",
        meaning: "as `crash`, but no failure detector tells of it",
        bring_about: |plan| {
            crash(plan, anybody(plan), anytime(plan), None);
            plan.faults.detector = "none".parse().expect("a detector");
        },
    },
    Trial {
        name: "return",
        meaning: "a process crashes and comes back when all is over",
        bring_about: |plan| crash(plan, anybody(plan), 1_000_000, Some(2_000_000)),
    },
    Trial {
        name: "early return",
        meaning: "a process crashes and comes back at any moment",
        bring_about: |plan| {
            let at = anytime(plan) / 2;
            crash(plan, anybody(plan), at, Some(at + 1 + plan.seed * 500));
        },
    },
    Trial {
        name: "retires",
        meaning: "the leader retires",
        bring_about: |plan| {
            let who = Who::One(NodeId(N));
            plan.asks.push(PlannedAsk { at: anytime(plan) * 20, who, words: "retire".into() });
        },
    },
    Trial {
        name: "lost",
        meaning: "messages are lost",
        bring_about: |plan| plan.faults.loss = "0.05".parse().expect("a chance"),
    },
    Trial {
        name: "cut",
        meaning: "the network is cut in two for a while",
        bring_about: |plan| plan.faults.partitions.push("1,2/3,4,5@0..300".parse().expect("a cut")),
    },
    Trial {
        name: "suspicion",
        meaning: "the failure detector calls the living dead, again and again",
        bring_about: |plan| {
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

fn crash(plan: &mut Plan, process: u32, at: u64, restart: Option<u64>) {
    plan.faults.crashes.push(Crash { process: NodeId(process), at, restart, amnesia: false, inside: None });
}

/// One process starts, or all of them.
fn plan(seed: u64) -> Plan {
    let who = if seed.is_multiple_of(3) { Who::All } else { Who::One(NodeId(1 + seed as u32 % N)) };
    let mut plan = Plan {
        seed,
        asks: vec![PlannedAsk { at: 0, who, words: "start".into() }],
        max_events: 300_000,
        ..Plan::new(Members::numbered(N))
    };
    plan.faults.detector = "perfect".parse().expect("a detector");
    plan
}

fn fate(algorithm: &str, settings: &[(&str, &str)], trial: &Trial) -> Fate {
    let setup = setup(algorithm, N, settings);
    let fates = (1..=RUNS).map(|seed| {
        let mut plan = plan(seed);
        (trial.bring_about)(&mut plan);
        Fate::of(&simulate_setup(&setup, &plan, false).expect("it is possible"))
    });
    fates.max().expect("there are runs")
}

/// The second half of the page.
pub fn table() -> String {
    let mut text = String::from("\n## Elections\n\n");
    writeln!(text, "Groups of {N}, {RUNS} runs each; one process starts, or all do. The failures:\n")
        .unwrap();
    for Trial { name, meaning, .. } in TRIALS {
        writeln!(text, "- **{name}**: {meaning}.").unwrap();
    }
    text.push_str(
        "\n- `yes`: all who are left name the one who should lead, and nobody was told of another (E1 to E5).\n\
         - `none`: in some run somebody knows of no leader in the end, or there is no end (E2, END). Where all who had a part\n  in an election have crashed, nobody is owed a leader.\n\
         - `wrong`: in some run all agree on somebody who should not lead (E5).\n\
         - `two`: in some run two leaders are announced in one election or named in the end, or all name a dead one (E1, E3,\n  \
         E4).\n\n",
    );
    let names: Vec<_> = TRIALS.iter().map(|trial| trial.name).collect();
    writeln!(text, "| algorithm | {} |", names.join(" | ")).unwrap();
    writeln!(text, "|---|{}", "---|".repeat(names.len())).unwrap();
    let hardened: &[(&str, &str)] = &[("mode", "hardened")];
    let rows = election::all().into_iter().flat_map(|about| {
        let more = (about.name == "bully").then_some((about.name, hardened));
        [Some((about.name, &[][..])), more].into_iter().flatten()
    });
    for (algorithm, settings) in rows {
        let name = match settings {
            [] => algorithm.to_owned(),
            [(key, value), ..] => format!("{algorithm}, {key}={value}"),
        };
        let fates = TRIALS.iter().map(|trial| fate(algorithm, settings, trial).word());
        writeln!(text, "| {name} | {} |", fates.collect::<Vec<_>>().join(" | ")).unwrap();
    }
    text
}

/// The words mean something.
#[test]
fn fates_of_elections_are_told_apart() {
    let trial = |name| TRIALS.iter().find(|trial| trial.name == name).expect("there is such a column");
    assert_eq!(fate("bully", &[], trial("in office")), Fate::Elects);
    assert_eq!(fate("bully", &[], trial("early return")), Fate::Two);
    assert_eq!(fate("chang-roberts", &[], trial("lost")), Fate::Stalls);
}
