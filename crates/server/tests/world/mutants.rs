//! Mutants of the server that the checks must catch.

use conclave_server::mutant::{self, Mutant};

/// A mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorldMutant {
    /// Its disks say that something is safe a moment before it is: the same as not to wait for them.
    AcknowledgesBeforeSync,
    /// It is broken in this way.
    Broken(Mutant),
}

impl WorldMutant {
    /// All of them, and the world in which each is looked at first: one in which it was caught when this was written. What
    /// happens in a world changes with every byte on the wire, so that others follow; the rarest is caught in one of twenty.
    pub const ALL: &[(&str, Self, u64)] = &[
        ("acknowledges-before-sync", Self::AcknowledgesBeforeSync, 61),
        ("answers-early", Self::Broken(Mutant::AnswersEarly), 1),
        ("own-clock", Self::Broken(Mutant::OwnClock), 17),
        ("forgets-requests", Self::Broken(Mutant::ForgetsRequests), 9),
    ];

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(other, ..)| *other == name).map(|(_, mutant, _)| *mutant)
    }

    /// Makes all nodes of this process so.
    pub fn choose(self) {
        match self {
            Self::AcknowledgesBeforeSync => {}
            Self::Broken(mutant) => mutant::choose(mutant),
        }
    }
}
