//! What the users of a run want.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use conclave_core::{Members, NodeId};

use crate::span::{Span, show_time};

/// What the users of a run want: how often, how soon again, and what at given moments.
///
/// A family takes of it what means something to its users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// How often each user goes round: entries of each process into each lock.
    pub rounds: u64,
    /// How hard the users press.
    pub load: Load,
    /// How long a user thinks between one round and the next; the mean distance of requests under an open load.
    pub think: Option<Span>,
    /// How long a user keeps what it was given.
    pub hold: Option<Span>,
    /// How long a user waits before it gives its request up; if nothing is said, as long as it takes.
    pub give_up: Option<Span>,
    /// What is asked for at given moments, in the words of the family.
    pub asks: Vec<PlannedAsk>,
    /// The longest time that a message travels, or what stands for it.
    pub longest_delay: u64,
}

impl Default for Demand {
    fn default() -> Self {
        Self {
            rounds: 3,
            load: Load::Saturated,
            think: None,
            hold: None,
            give_up: None,
            asks: Vec::new(),
            longest_delay: 10_000,
        }
    }
}

/// How hard users press.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Load {
    /// One request at a time, the next when all is quiet.
    Light,
    /// Requests come when they come.
    Open,
    /// Everyone asks again as soon as it is out.
    Saturated,
}

impl Load {
    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Open => "open",
            Self::Saturated => "saturated",
        }
    }
}

/// A request at a given moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedAsk {
    /// When, in microseconds.
    pub at: u64,
    /// Who asks.
    pub who: Who,
    /// For what: `start`, `propose 7`.
    pub words: String,
}

impl PlannedAsk {
    /// Who asks and when, in words.
    #[must_use]
    pub fn in_words(&self, members: &Members) -> String {
        let who = match self.who {
            Who::One(id) => id.to_string(),
            Who::Lowest => members.min().map_or_else(|| "nobody".into(), |id| id.to_string()),
            Who::All => "all".into(),
        };
        if self.at == 0 { who } else { format!("{who}@{}", show_time(self.at)) }
    }
}

/// Who asks for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// This process.
    One(NodeId),
    /// The process with the lowest id.
    Lowest,
    /// Everyone.
    All,
}

impl Who {
    /// The places of those who are meant; none if they are not among these.
    #[must_use]
    pub fn places(self, members: &Members) -> Vec<usize> {
        match self {
            Self::One(id) => members.position(id).into_iter().collect(),
            Self::Lowest => members.min().and_then(|id| members.position(id)).into_iter().collect(),
            Self::All => (0..members.len()).collect(),
        }
    }
}
