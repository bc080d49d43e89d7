//! The searches that an algorithm is put through to see what it can stand: sizes, requests, failures, settings.

use core::fmt::Write as _;
use std::collections::BTreeMap;

use conclave_algorithms::application::AskBudget;
use conclave_algorithms::measure::grouped;
use conclave_algorithms::{About, Setting, Values};
use conclave_trace::Setup;

use crate::check::Options;
use crate::model::Budgets;
use crate::report::Report;
use crate::search::Limits;

/// One search of a sweep.
#[derive(Clone, Debug)]
pub struct Trial {
    /// How many processes.
    pub nodes: u32,
    /// How often each asks.
    pub entries: AskBudget,
    /// What may go wrong.
    pub budgets: Budgets,
    /// How many ticks a message takes at most, if not as usual.
    pub ticks: Option<u16>,
    /// Whether processes crash only between two steps.
    pub atomic_steps: bool,
    /// Whether the order of grants is judged.
    pub order: bool,
    /// What is set.
    pub settings: BTreeMap<String, String>,
    /// Whether it goes beyond what algorithms of this kind assume: there a broken promise is no mistake.
    pub beyond: bool,
    /// States after which the table of all searches gives it up.
    pub most: usize,
}

/// What most searches of the table may take.
const FEW: usize = 20_000;
/// What the searches without failures may take, and those of elections.
const MANY: usize = 1_000_000;
/// What two processes of which one crashes may take: of these searches one has no end.
const RECOVERING: usize = 200_000;
/// What a search may take that is left to a machine with time: minutes, and gigabytes.
pub const LONG: usize = 20_000_000;
/// The bully's one election of four, whoever calls it.
const LONGEST: usize = 50_000_000;

/// All searches for an algorithm, the smallest first.
#[must_use]
pub fn sweep(about: &About) -> Vec<Trial> {
    let can = about.family.searches;
    let mut trials = faultless(about);
    if can.cancels {
        trials.extend([2, 3].map(|nodes| failing(nodes, Budgets { cancels: 1, ..Budgets::default() })));
    }
    if can.recovers || can.first {
        trials.extend(failures(about));
    }
    for (setting, value) in variants(about) {
        let with = |trial: Trial| Trial {
            settings: [(setting.key.to_owned(), value.to_owned())].into(),
            beyond: trial.beyond || setting.unsafe_values.contains(&value),
            most: FEW,
            ..trial
        };
        trials.extend([2, 3].map(|nodes| with(trial(nodes, ONCE))));
        if can.recovers {
            let budgets = [CRASH, RESTART, SUSPICION];
            trials.extend(
                budgets.iter().flat_map(|budgets| [2, 3].map(|nodes| with(failing(nodes, *budgets)))),
            );
        }
    }
    trials
}

const NOTHING: Budgets =
    Budgets { crashes: 0, restarts: 0, amnesia: false, drops: 0, duplicates: 0, suspicions: 0, cancels: 0 };
const CRASH: Budgets = Budgets { crashes: 1, ..NOTHING };
const RESTART: Budgets = Budgets { restarts: 1, ..CRASH };
const SUSPICION: Budgets = Budgets { suspicions: 1, ..NOTHING };
const ONCE: AskBudget = AskBudget::Times(1);

fn trial(nodes: u32, entries: AskBudget) -> Trial {
    Trial {
        nodes,
        entries,
        budgets: NOTHING,
        ticks: None,
        atomic_steps: false,
        order: false,
        settings: BTreeMap::new(),
        beyond: false,
        most: FEW,
    }
}

fn failing(nodes: u32, budgets: Budgets) -> Trial {
    Trial { budgets, ..trial(nodes, ONCE) }
}

/// The searches in which nothing fails.
fn faultless(about: &About) -> Vec<Trial> {
    let can = about.family.searches;
    let many = |trial: Trial| Trial { most: MANY, ..trial };
    let mut trials = vec![trial(2, ONCE), many(trial(3, ONCE)), many(trial(2, AskBudget::Times(2)))];
    if can.first {
        // Calls after the first election make too many states of some.
        let first = if about.name == "bully" { LONGEST } else { MANY };
        let again = if ["bully", "ring-k-leaders"].contains(&about.name) { LONG } else { MANY };
        trials.push(Trial { most: first, ..trial(4, AskBudget::First) });
        trials.push(Trial { most: again, ..trial(4, ONCE) });
    }
    if can.forever {
        let forever = |nodes| Trial { order: can.order, ..trial(nodes, AskBudget::Forever) };
        trials.extend([many(forever(2)), forever(3)]);
    }
    trials
}

/// The searches in which something fails.
fn failures(about: &About) -> Vec<Trial> {
    let recovers = about.family.searches.recovers;
    let (two, three) = if recovers { (RECOVERING, LONG) } else { (MANY, MANY) };
    let atomic = |nodes, most| Trial { atomic_steps: true, most, ..failing(nodes, CRASH) };
    let mut trials = vec![
        atomic(2, two),
        Trial { most: two, ..failing(2, CRASH) },
        atomic(3, three),
        Trial { most: if recovers { FEW } else { MANY }, ..failing(3, CRASH) },
        failing(2, RESTART),
        failing(3, RESTART),
        Trial { ticks: Some(2), ..failing(2, CRASH) },
    ];
    // Elections rely on whoever is called dead being so.
    trials.extend([2, 3].map(|nodes| Trial { beyond: !recovers, ..failing(nodes, SUSPICION) }));
    let lossy = [Budgets { drops: 1, ..NOTHING }, Budgets { duplicates: 1, ..NOTHING }];
    trials.extend(lossy.map(|budgets| Trial { beyond: true, ..failing(2, budgets) }));
    trials
}

/// The settings of the algorithm itself, one at a time, with every value that is not the usual one.
fn variants(about: &About) -> impl Iterator<Item = (&'static Setting, &'static str)> {
    let words = |setting: &'static Setting| {
        let words = match setting.values {
            Values::OneOf(words) | Values::Timed { words, .. } | Values::ProcessOr(words) => words,
            Values::Number(..) | Values::Process | Values::Numbers => &[],
        };
        words.iter().copied().filter(|word| *word != setting.default).map(move |word| (setting, word))
    };
    about.settings.iter().flat_map(words)
}

impl Trial {
    /// What is searched.
    #[must_use]
    pub fn setup(&self, algorithm: &str) -> Setup {
        Setup { settings: self.settings.clone(), ..Setup::numbered(algorithm, self.nodes) }
    }

    /// How, within these limits.
    #[must_use]
    pub fn options(&self, limits: &Limits, threads: usize) -> Options {
        Options {
            entries: self.entries,
            budgets: self.budgets,
            order: self.order,
            ticks: self.ticks,
            atomic_steps: self.atomic_steps,
            threads,
            limits: limits.clone(),
            ..Options::default()
        }
    }

    /// The options of the command line that search the same.
    #[must_use]
    pub fn words(&self) -> String {
        let mut words = format!("-n {}", self.nodes);
        let mut option = |text: core::fmt::Arguments<'_>| {
            words.write_fmt(text).expect("a text takes every word");
        };
        if self.entries != AskBudget::Times(1) {
            option(format_args!(" --entries {}", self.entries));
        }
        let Budgets { crashes, restarts, drops, duplicates, suspicions, cancels, .. } = self.budgets;
        for (name, count) in [
            ("crashes", crashes),
            ("restarts", restarts),
            ("drops", drops),
            ("duplicates", duplicates),
            ("suspicions", suspicions),
            ("cancels", cancels),
        ] {
            if count > 0 {
                option(format_args!(" --{name} {count}"));
            }
        }
        if self.atomic_steps {
            option(format_args!(" --atomic-steps"));
        }
        if let Some(ticks) = self.ticks {
            option(format_args!(" --ticks {ticks}"));
        }
        if self.order {
            option(format_args!(" --order"));
        }
        for (key, value) in &self.settings {
            option(format_args!(" --set {key}={value}"));
        }
        words
    }
}

/// A search of a sweep, and what came of it.
#[derive(Clone, Debug)]
pub struct Swept {
    /// The algorithm.
    pub algorithm: String,
    /// What was searched.
    pub trial: Trial,
    /// What was found; the reason, if it cannot be searched.
    pub found: Result<Report, String>,
}

impl Swept {
    /// The first rows of a table of them.
    pub const HEAD: &'static str =
        "| algorithm | search | states | depth | verdict | never met |\n|---|---|---|---|---|---|\n";

    /// The first columns of its row: what is searched.
    #[must_use]
    pub fn search(algorithm: &str, trial: &Trial) -> String {
        format!("| {algorithm} | `{}` |", trial.words())
    }

    /// Its row in a table.
    #[must_use]
    pub fn row(&self) -> String {
        let (states, depth) = self.counts();
        let (search, never_met) = (Self::search(&self.algorithm, &self.trial), self.never_met().join("; "));
        format!("{search} {states} | {depth} | {} | {never_met} |", self.verdict())
    }

    /// How many states there are, and how deep they lie; nothing where nobody knows.
    #[must_use]
    pub fn counts(&self) -> (String, String) {
        let count = |count: Option<u64>| count.map_or_else(|| "-".into(), grouped);
        let report = self.found.as_ref().ok();
        let depth = report.filter(|report| report.complete).map(|report| u64::from(report.depth));
        (count(report.map(|report| report.states as u64)), count(depth))
    }

    /// Whether a promise is broken.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.found.as_ref().is_ok_and(|report| !report.all_held())
    }

    /// Whether not everything was seen.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.found.as_ref().is_ok_and(|report| report.incomplete.is_some())
    }

    /// What came of it, in words.
    #[must_use]
    pub fn verdict(&self) -> String {
        let report = match &self.found {
            Ok(report) => report,
            Err(why) => return format!("not possible: {why}"),
        };
        let beyond = if self.trial.beyond { ", beyond what is assumed" } else { "" };
        match (&report.counterexample, report.incomplete) {
            (Some(found), _) => format!("{} is broken{beyond}", found.property),
            (None, Some(why)) => format!("not broken in what was seen; {why}"),
            (None, None) => "holds".into(),
        }
    }

    /// The situations that a search to the end never came to.
    #[must_use]
    pub fn never_met(&self) -> Vec<String> {
        let complete = self.found.iter().filter(|report| report.complete);
        let missed = complete.flat_map(|report| report.coverage.iter().filter(|coverage| !coverage.met));
        let words = missed.map(|coverage| format!("{} {}", coverage.situation, coverage.after));
        words.map(|words| words.trim_end().to_owned()).collect()
    }
}
