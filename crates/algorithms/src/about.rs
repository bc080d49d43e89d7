//! What an algorithm says of itself.

use conclave_core::{Members, Protocol};
use serde::de::DeserializeOwned;

use crate::family::Kind;
use crate::{Setting, SettingError, Settings};

/// A protocol that stands in the registry.
pub trait Algorithm: Protocol<Message: DeserializeOwned, Durable: DeserializeOwned> {
    /// What it says of itself.
    const ABOUT: About;

    /// Turns settings (already held against [`About::settings`]) into the algorithm's own configuration.
    ///
    /// # Errors
    /// If a setting cannot be had with these members, e.g. a quorum system that does not exist for their number.
    fn configure(settings: &Settings, members: &Members) -> Result<Self::Config, SettingError>;
}

/// A description of an algorithm, for people and programs.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its name in the literature.
    pub title: &'static str,
    /// Where it was published.
    pub paper: &'static str,
    /// The idea, in one line of a list: at most 55 characters.
    pub idea: &'static str,
    /// What kind of problem it solves.
    pub family: Kind,
    /// The channels that it needs.
    pub channels: Channels,
    /// The timing that it relies on.
    pub synchrony: Synchrony,
    /// Who talks to whom.
    pub topology: Topology,
    /// Its cost in messages, as the literature states it.
    pub cost: &'static str,
    /// The faults that it survives, and what the others do to it.
    pub faults: &'static str,
    /// What can be set.
    pub settings: &'static [Setting],
    /// Its mutants.
    pub mutants: &'static [Mutant],
}

impl About {
    /// The least that can be said of an algorithm: it asks for nothing in particular, and nothing about it can be set.
    #[must_use]
    pub const fn of(name: &'static str, family: Kind) -> Self {
        Self {
            name,
            title: name,
            paper: "not published",
            idea: "",
            family,
            channels: Channels::Any,
            synchrony: Synchrony::Asynchronous,
            topology: Topology::Complete,
            cost: "not stated",
            faults: "none",
            settings: &[],
            mutants: &[],
        }
    }
}

impl About {
    /// Whether its users go round a number of times, so that a run is as long as they are told.
    #[must_use]
    pub fn counts_rounds(&self) -> bool {
        self.family.options.contains(&"--entries")
    }
}

/// The order in which messages between two processes arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channels {
    /// In the order in which they were sent.
    Fifo,
    /// In any order.
    Any,
}

impl Channels {
    /// The order of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Fifo, Self::Any].into_iter().find(|channels| channels.name() == name)
    }

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Any => "any",
        }
    }
}

/// What may be relied upon about time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Synchrony {
    /// Nothing.
    Asynchronous,
    /// Messages and processes are never slower than a known bound.
    Synchronous,
}

impl Synchrony {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Asynchronous => "asynchronous",
            Self::Synchronous => "synchronous",
        }
    }
}

/// Who talks to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topology {
    /// Everyone to everyone.
    Complete,
    /// Everyone to one.
    Star,
    /// Everyone to its successor.
    Ring,
    /// Everyone to its neighbours in a tree.
    Tree,
}

impl Topology {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Star => "star",
            Self::Ring => "ring",
            Self::Tree => "tree",
        }
    }
}

/// A mutant of an algorithm: one rule is missing or wrong, and a property must notice.
///
/// Mutants exist for simulator and checker only; see [`Arena`](crate::Arena).
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// Its name, unique within the algorithm.
    pub name: &'static str,
    /// The property that it breaks.
    pub breaks: &'static str,
    /// A group size at which it is caught.
    pub nodes: u32,
    /// What it takes to see it.
    pub trigger: Trigger,
    /// What was done to it.
    pub change: &'static str,
}

/// What it takes to see a mutant break something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trigger {
    /// The right order of messages.
    Schedule,
    /// A crash that is reported.
    Crash,
    /// A crash inside a step: some were told something, and others were not.
    CrashInside,
    /// A crash, and that the process comes back.
    Restart,
    /// A failure detector that calls the living dead.
    Suspicion,
    /// Clocks that are wrong.
    Clocks,
    /// Messages that take time, which no search knows: only a run in time shows it.
    Time,
    /// Everyone asks forever. No random run that comes to an end shows it, only a search through all states: most of
    /// these mutants let somebody wait forever although things keep moving.
    Forever,
}

impl Trigger {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Crash => "crash",
            Self::CrashInside => "crash-inside",
            Self::Restart => "restart",
            Self::Suspicion => "suspicion",
            Self::Clocks => "clocks",
            Self::Time => "time",
            Self::Forever => "forever",
        }
    }
}
