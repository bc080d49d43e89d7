//! The searches that an algorithm is put through to see what it can stand: sizes, requests, failures, settings.

use core::fmt::Write as _;
use std::collections::BTreeMap;

use conclave_algorithms::application::AskBudget;
use conclave_algorithms::{About, Setting, Values};
use conclave_trace::Setup;

use crate::check::Options;
use crate::model::Budgets;
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
    /// Whether the order of grants is judged.
    pub order: bool,
    /// What is set.
    pub settings: BTreeMap<String, String>,
    /// Whether it goes beyond what algorithms of this kind assume: there a broken promise is no mistake.
    pub beyond: bool,
}

/// All searches for an algorithm, the smallest first.
#[must_use]
pub fn sweep(about: &About) -> Vec<Trial> {
    let trial = |nodes, entries| Trial {
        nodes,
        entries,
        budgets: Budgets::default(),
        ticks: None,
        order: false,
        settings: BTreeMap::new(),
        beyond: false,
    };
    let can = about.family.searches;
    let once = AskBudget::Times(1);
    let failing = |nodes, budgets| Trial { budgets, ..trial(nodes, once) };
    let crash = Budgets { crashes: 1, ..Budgets::default() };
    let restart = Budgets { restarts: 1, ..crash };
    let suspicion = Budgets { suspicions: 1, ..Budgets::default() };
    let mut trials = vec![trial(2, once), trial(3, once), trial(2, AskBudget::Times(2))];
    if can.first {
        trials.push(trial(4, AskBudget::First));
    }
    if can.forever {
        let forever = |nodes| Trial { order: can.order, ..trial(nodes, AskBudget::Forever) };
        trials.extend([forever(2), forever(3)]);
    }
    if can.cancels {
        trials.extend([2, 3].map(|nodes| failing(nodes, Budgets { cancels: 1, ..Budgets::default() })));
    }
    if can.recovers || can.first {
        for budgets in [crash, restart] {
            trials.extend([2, 3].map(|nodes| failing(nodes, budgets)));
        }
        trials.push(Trial { ticks: Some(2), ..failing(2, crash) });
        // Elections rely on whoever is called dead being so.
        let suspected = |nodes| Trial { beyond: !can.recovers, ..failing(nodes, suspicion) };
        trials.extend([2, 3].map(suspected));
        let lossy =
            [Budgets { drops: 1, ..Budgets::default() }, Budgets { duplicates: 1, ..Budgets::default() }];
        trials.extend(lossy.map(|budgets| Trial { beyond: true, ..failing(2, budgets) }));
    }
    for (setting, value) in variants(about) {
        let with = |trial: Trial| Trial {
            settings: [(setting.key.to_owned(), value.to_owned())].into(),
            beyond: trial.beyond || setting.unsafe_values.contains(&value),
            ..trial
        };
        trials.extend([2, 3].map(|nodes| with(trial(nodes, once))));
        if can.recovers {
            trials.extend([crash, restart, suspicion].map(|budgets| with(failing(2, budgets))));
        }
    }
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
