//! Total order by a sequencer: one process numbers all posts, and another one takes over when it dies.
//!
//! ```text
//!   p1 sends m1            p2                        p3, the sequencer
//!    │ ─ Data ────────────▶│                         │
//!    │ ─ Data ──────────────────────────────────────▶│ numbers it
//!    │ ◀──────────────────────────────── Order 1 m1 ─│
//!    │                     │ ◀────────── Order 1 m1 ─│    both deliver it as number 1
//! ```
//!
//! The highest process is the sequencer at first. When it dies, an election finds another one, which asks all for the posts and
//! numbers that they know, and goes on from there: that is a change of the view, see [`views`](super::views). A number that anyone
//! who is up has delivered stays; what had none yet gets the next ones.
//!
//! **Cost**: a post for every other member, and a number for every other member: 2(n − 1). A change of the view costs
//! 3(n − 1), and the election.
//!
//! **Assumes** reliable channels of any order, and a failure detector that reports every crash and no more. The bully needs a bound on
//! delays; other elections can be had.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use conclave_core::Members;

use super::family::{EVERYONE, Multicast};
use super::ledger::{Promises, Survives};
use super::views::{Mutation, ViewsConfig};
use super::{AnyConfig, FAMILY, Id};
use crate::election::AnyConfig as AnyElectionConfig;
use crate::{About, Formula, SettingError, Settings, Synchrony};

/// The numbers of the posts of one view, as one process knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sequence {
    /// Which post has which number.
    numbers: BTreeMap<u64, Id>,
    /// The number of the first post of the view.
    first: u64,
    /// The number that is delivered next.
    next: u64,
}

impl Sequence {
    /// The first number of a view.
    pub fn from(first: u64) -> Self {
        Self { numbers: BTreeMap::new(), first, next: first }
    }

    /// The number of the first post of the view.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The sequencer gives a post the next number, unless it has one.
    pub fn assign(&mut self, id: Id) -> Option<u64> {
        if self.numbers.values().any(|known| *known == id) {
            return None;
        }
        let last = self.numbers.last_key_value().map(|(number, _)| *number);
        let number = last.map_or(self.next, |last| last.saturating_add(1)).max(self.next);
        self.numbers.insert(number, id);
        Some(number)
    }

    /// The sequencer has given a post this number.
    pub fn learn(&mut self, number: u64, id: Id) {
        self.numbers.entry(number).or_insert(id);
    }

    /// The post that is delivered next, if its number is known.
    pub fn due(&self) -> Option<Id> {
        self.numbers.get(&self.next).copied()
    }

    /// That post has been delivered.
    pub fn advance(&mut self) {
        self.next = self.next.saturating_add(1);
    }

    /// The number that is delivered next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// All that is known of it.
    pub fn known(&self) -> Vec<(u64, Id)> {
        self.numbers.iter().map(|(number, id)| (*number, *id)).collect()
    }
}

impl Multicast for super::family::Sequencer {
    const ABOUT: About = About {
        name: "sequencer",
        title: "Total order by a sequencer",
        paper: "Kaashoek and Tanenbaum, Group communication in the Amoeba distributed operating system, ICDCS (1991)",
        idea: "one process numbers all posts, its successor is elected",
        synchrony: Synchrony::Synchronous,
        cost: "2(n − 1), and an election and 3(n − 1) after a crash",
        faults: "crashes, also of the sequencer and inside a step; not wrong suspicions",
        settings: &[EVERYONE, AnyElectionConfig::SETTING],
        mutants: &[Mutation::ByArrival.about(), Mutation::ForgetNumbers.about(), Mutation::NoFlush.about()],
        ..About::of("sequencer", FAMILY)
    };

    fn configure(settings: &Settings, members: &Members) -> Result<AnyConfig, SettingError> {
        ViewsConfig::read(settings, members, true)
    }

    fn promises(_settings: &Settings) -> Promises {
        Promises { total: true, view: true, trusts: true, ..Promises::plain(Survives::Crashes) }
    }

    fn formula(_settings: &Settings, n: u64) -> Formula {
        Formula::exactly("2(n − 1)", 2 * (n - 1))
    }
}
