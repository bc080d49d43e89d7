//! What a run has shown of the properties of mutual exclusion, in words.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use conclave_core::Members;

use super::properties::Watch;
use super::wrong::Wrong;
use super::{Epoch, Properties};
use crate::judge::{ENDS, Ending, Finding, Judgement, PropertyKind, Violation};

/// What was found wrong in a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// The first promise that was broken.
    pub violation: Option<Violation>,
    both_inside: Tallied,
    fences_fallen: Tallied,
    mixed_writes: Tallied,
    arrival_inversions: Tallied,
    stamp_inversions: Tallied,
    causal_inversions: Tallied,
    unasked: Tallied,
    taken: Tallied,
}

/// How often something happened, and the first time in words.
#[derive(Clone, Debug, Default)]
struct Tallied {
    count: u64,
    first: String,
}

impl Tallied {
    fn text(&self) -> String {
        match self.count {
            1 => format!("once: {}", self.first),
            count => format!("{count} times; first: {}", self.first),
        }
    }

    fn add(&mut self, text: impl FnOnce() -> String) {
        if self.count == 0 {
            self.first = text();
        }
        self.count += 1;
    }
}

impl Found {
    pub fn broken(&mut self, property: &'static str, step: u64, detail: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(Violation { property, detail: detail(), step });
        }
    }

    /// Something is wrong with an entry, whether or not a promise is broken by it.
    pub fn wrong(&mut self, step: u64, wrong: &Wrong, promised: bool, which: Which<'_>) {
        let text = || format!("{}{}", wrong.text(which.members), which.lock());
        match wrong {
            Wrong::BothInside { .. } => self.both_inside.add(text),
            Wrong::FenceFell { .. } => self.fences_fallen.add(text),
            Wrong::MixedWrites { .. } => self.mixed_writes.add(text),
            Wrong::KnownLater { .. } => self.arrival_inversions.add(text),
            Wrong::StampFell { .. } => self.stamp_inversions.add(text),
            Wrong::CausedLater { .. } => self.causal_inversions.add(text),
            Wrong::Unasked { .. } => self.unasked.add(text),
            Wrong::Taken { .. } => self.taken.add(text),
            Wrong::OwnFenceFell { .. } | Wrong::ForeignFence { .. } | Wrong::Overtaken { .. } => {}
        }
        if promised {
            self.broken(wrong.property(), step, text);
        }
    }
}

/// Among whom something happened, and in which lock, if there are several.
#[derive(Clone, Copy, Debug)]
pub(super) struct Which<'a> {
    pub members: &'a Members,
    pub lock: Option<usize>,
}

impl Which<'_> {
    /// Names the lock, if there are several.
    pub fn lock(&self) -> String {
        self.lock.map_or_else(String::new, |lock| format!(" (lock {lock})"))
    }
}

/// What it takes to judge a property.
fn kind(property: &str) -> PropertyKind {
    match property {
        "ME3" => PropertyKind::Liveness,
        "ME4" | "ME5-FCFS" | "ME5-TS" | "ME5-HB" => PropertyKind::Order,
        "ME6" | "ME7" => PropertyKind::Time,
        "RES" => PropertyKind::Resource,
        "TOK" => PropertyKind::Tokens,
        _ => PropertyKind::Safety,
    }
}

/// Why a bound is not judged once something went wrong.
const FAULTLESS: &str = "judged only in runs without faults";

impl Properties {
    /// What became of every property.
    #[must_use]
    pub fn judgements(&self) -> Vec<Judgement> {
        let held = || Finding::Held(String::new());
        let broken = |property: &str| {
            self.found
                .violation
                .as_ref()
                .filter(|v| v.property == property)
                .map(|v| Finding::Broken(v.detail.clone()))
        };
        let entries: u64 = self.entries().iter().sum();
        let seen =
            |finding: Finding| if entries == 0 { Finding::Open("nobody entered".into()) } else { finding };
        let ended = |problem: &Option<String>| match (problem, self.ending) {
            (Some(problem), _) => Finding::Broken(problem.clone()),
            (None, Some(Ending::Quiet)) => held(),
            (None, Some(Ending::OutOfTime)) => Finding::Open("time ran out".into()),
            (None, Some(Ending::Endless { .. })) => Finding::Open("the run repeats forever".into()),
            (None, Some(Ending::Stopped) | None) => Finding::Open("the run was stopped early".into()),
        };
        let lasting = |finding: Finding| match finding {
            Finding::Held(_) => seen(Finding::Open(ENDS.into())),
            finding => finding,
        };
        let waiting_bound = match self.promises().overtaking {
            Some(bound) => format!("at most {} of {bound}", self.max_overtaking),
            None => format!("at most {}", self.max_overtaking),
        };
        let undisturbed = |finding: Finding| {
            if self.is_disturbed() { Finding::Open(FAULTLESS.into()) } else { finding }
        };
        let order = |tallied: &Tallied, judged: Option<&str>| match judged {
            _ if tallied.count > 0 => Finding::Broken(tallied.text()),
            Some(why) => Finding::Open(why.into()),
            None => held(),
        };
        let unstamped = match (entries, self.unstamped_entries) {
            (0, _) => Some("nobody entered"),
            (all, unstamped) => (all == unstamped).then_some("requests carry no stamps"),
        };
        let uncaused = self.causal.is_none().then_some("judged for one lock and up to 64 processes");
        let solo = |code: &str| {
            broken(code).unwrap_or_else(|| match (self.solo_entries, self.is_disturbed()) {
                _ if self.is_restless => {
                    Finding::Open("messages always travel, so that nobody is ever alone".into())
                }
                (_, true) => Finding::Open(FAULTLESS.into()),
                (0, _) => Finding::Open("nobody was ever alone".into()),
                (count, _) => Finding::Held(format!("{count} entries alone")),
            })
        };
        // Starvation is also what a dead end means for those who wait in it.
        let starved = self.starved.clone().or_else(|| self.stuck.clone());
        let judge = |property, claim, promised, finding| Judgement {
            property,
            kind: kind(property),
            claim,
            promised,
            finding,
        };
        let counted = |tallied: &Tallied| (tallied.count > 0).then(|| Finding::Broken(tallied.text()));
        let seen_without = |tallied: &Tallied| counted(tallied).unwrap_or_else(|| seen(held()));
        let one_inside = counted(&self.found.both_inside);
        let growing =
            broken("FENCE").or_else(|| counted(&self.found.fences_fallen).filter(|_| self.keeps_safety()));
        let mut judgements = vec![
            judge("ME1", "never two inside", self.keeps_safety(), one_inside.unwrap_or_else(|| seen(held()))),
            judge(
                "FENCE",
                if self.keeps_safety() {
                    "every fence is larger than the last"
                } else {
                    "no two entries share a fence"
                },
                true,
                growing.unwrap_or_else(|| seen(held())),
            ),
            judge(
                "RES",
                "the resource serves one entry at a time",
                true,
                counted(&self.found.mixed_writes).unwrap_or_else(|| match self.refused_entries() {
                    0 => seen(held()),
                    1 => Finding::Held("1 entry refused by its fence".into()),
                    refused => Finding::Held(format!("{refused} entries refused by their fence")),
                }),
            ),
            judge("GRANT", "only who waits is let in", true, seen_without(&self.found.unasked)),
            judge(
                "LOST",
                "who is inside stays until it is out",
                self.keeps_entries(),
                seen_without(&self.found.taken),
            ),
            judge("ME2", "progress", true, ended(&self.stuck)),
            judge("ME3", "every request is granted", self.promises().no_starvation, lasting(ended(&starved))),
            judge(
                "ME4",
                "bounded overtaking",
                self.promises().overtaking.is_some(),
                broken("ME4").unwrap_or_else(|| undisturbed(seen(Finding::Held(waiting_bound)))),
            ),
            judge(
                "ME5-FCFS",
                "order of arrival",
                self.promises().arrival_order,
                undisturbed(order(&self.found.arrival_inversions, None)),
            ),
            judge(
                "ME5-TS",
                "order of stamps",
                self.promises().stamp_order,
                undisturbed(order(&self.found.stamp_inversions, unstamped)),
            ),
            judge(
                "ME5-HB",
                "order of causality",
                self.promises().causal_order,
                undisturbed(order(&self.found.causal_inversions, uncaused)),
            ),
            judge(
                "ME6",
                "no interference by the idle",
                !self.is_restless,
                match self.max_delay {
                    Some(_) => solo("ME6"),
                    None => Finding::Open("messages may take any time".into()),
                },
            ),
            judge("ME7", "no delay when alone", !self.is_restless, solo("ME7")),
        ];
        if self.moves_token {
            judgements.insert(3, judge("TOK", "one token", true, self.judged_tokens(broken("TOK"))));
        }
        judgements
    }

    fn judged_tokens(&self, broken: Option<Finding>) -> Finding {
        // Of several locks one may never be used, and has no token.
        let is_used = |watch: &Watch| self.locks.len() == 1 || watch.has_entries();
        let lost = self.locks.iter().any(|watch| is_used(watch) && watch.tokens.is_lost());
        let epoch = self.locks.iter().filter_map(|watch| watch.tokens.epoch()).max();
        match (broken, lost, epoch) {
            (Some(broken), _, _) => broken,
            (None, true, _) => Finding::Open("there is none in the end".into()),
            (None, false, Some(epoch)) if epoch > Epoch::FIRST => Finding::Held(format!("in epoch {epoch}")),
            (None, false, _) => Finding::Held(String::new()),
        }
    }
}
