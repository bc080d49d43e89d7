//! Watchers see all: whoever follows names is told every change, in order, or that it missed some and that everything comes
//! again. What changes twice before it is told is told once.
//!
//! So when nothing changes any more, what a watcher was told adds up to what there is; and what it is told of a name never
//! goes back. The same holds for whoever follows an election.

use std::collections::BTreeMap;

use conclave_client::v1::WatchResponse;
use conclave_service::{Name, State};

use super::{Case, Violation, samples};
use crate::history::{History, Micros};

const NAME: &str = "watchers see all";

/// What a watcher was told of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    newest: u64,
    holders: u32,
    waiters: u32,
}

/// What a watcher knows by what it was told.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The names that somebody holds or waits for.
    lines: BTreeMap<String, Line>,
    /// It has seen the last page of what there is.
    is_whole: bool,
    revision: u64,
    /// The newest token of each name of which it was ever told.
    newest: BTreeMap<String, u64>,
    /// What it was told last of the leader of an election, if anything.
    pub term: Option<Option<u64>>,
}

impl View {
    /// It is told that everything comes again.
    pub fn begin(&mut self) {
        self.lines.clear();
        self.is_whole = false;
        self.revision = 0;
    }

    /// It is told something; gives what must not be told.
    pub fn take(&mut self, told: WatchResponse) -> Option<String> {
        let mut wrong = None;
        if told.revision < self.revision {
            wrong = Some(format!("revision {} after {}", told.revision, self.revision));
        }
        self.revision = told.revision;
        for summary in told.names {
            let last = self.newest.entry(summary.name.clone()).or_default();
            if summary.newest < *last && summary.newest > 0 {
                wrong = Some(format!("token {} of {} after {last}", summary.newest, summary.name));
            }
            *last = summary.newest.max(*last);
            let line = Line { newest: summary.newest, holders: summary.holders, waiters: summary.waiters };
            if line.holders + line.waiters > 0 {
                self.lines.insert(summary.name, line);
            } else {
                self.lines.remove(&summary.name);
            }
        }
        for name in told.gone {
            self.lines.remove(&name);
        }
        self.is_whole |= !told.more;
        wrong
    }

    /// What it does not see of what there is.
    pub fn misses(&self, state: &State, election: &str) -> Option<String> {
        let there = lines_of(state);
        if !self.is_whole || self.lines != there {
            return Some(format!("sees {:?} (all of it: {}) of {there:?}", self.lines, self.is_whole));
        }
        let leads = state.leader(&Name::from(election)).map(|leader| leader.term.0);
        self.term.filter(|seen| *seen != leads).map(|seen| format!("sees {seen:?} lead, and {leads:?} does"))
    }
}

fn lines_of(state: &State) -> BTreeMap<String, Line> {
    let in_use = state.names("", None).filter(|summary| summary.holders + summary.waiters > 0);
    let lines = in_use.map(|summary| {
        let newest = summary.newest.map_or(0, |token| token.0);
        (summary.name.to_string(), Line { newest, holders: summary.holders, waiters: summary.waiters })
    });
    lines.collect()
}

/// Watchers that did not see what there was when nothing changed any more.
pub fn blind(missed: &[String], at: Micros) -> Vec<Violation> {
    missed.iter().map(|what| Violation::new(NAME, at, what.clone())).collect()
}

/// What watchers were told that they must not be.
pub fn check(history: &History) -> Vec<Violation> {
    history.misled.iter().map(|(at, what)| Violation::new(NAME, *at, what.clone())).collect()
}

pub const CASES: &[Case] = &[
    ("watchers_refuse_what_does_not_add_up", || {
        use conclave_client::v1::Summary;
        let summary =
            |newest, holders| Summary { name: "a".to_owned(), newest, holders, ..Summary::default() };
        let told = |revision, names, more| WatchResponse { revision, names, gone: Vec::new(), more };
        let state = samples::state(&[1]);
        let mut view = View::default();
        assert!(view.misses(&state, "election").is_some(), "it was told nothing");
        assert_eq!(view.take(told(5, vec![summary(1, 1)], true)), None);
        assert!(view.misses(&state, "election").is_some(), "there may be more");
        assert_eq!(view.take(told(5, Vec::new(), false)), None);
        assert_eq!(view.misses(&state, "election"), None);
        view.term = Some(None);
        assert_eq!(view.misses(&state, "election"), None);
        view.term = Some(Some(7));
        assert!(view.misses(&state, "election").is_some(), "nobody leads");
        view.term = None;
        assert_eq!(view.take(told(6, vec![summary(2, 0)], false)), None);
        assert!(view.misses(&state, "election").is_some(), "somebody holds it");
        assert!(view.take(told(7, vec![summary(1, 1)], false)).is_some(), "that token was told before");
        assert!(view.take(told(6, Vec::new(), false)).is_some(), "that revision was told before");
        view.begin();
        assert_eq!(view.take(told(1, Vec::new(), false)), None, "everything comes again");
    }),
    ("watchers_refuse_what_was_not_told", || {
        let mut history = History::default();
        assert!(check(&history).is_empty());
        history.misled.push((7, "the token before".to_owned()));
        assert_eq!(check(&history).len(), 1);
        assert_eq!(blind(&["nothing".to_owned()], 7).len(), 1);
    }),
];
