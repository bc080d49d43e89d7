//! Mutants of the server that the checks must catch.

use conclave_server::mutant::{self, Mutant};
use conclave_service::Fault;

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
        ("forgets-requests", Self::Broken(Mutant::Faulty(Fault::ForgetRequests)), 9),
        ("hurries-time", Self::Broken(Mutant::HurriesTime), 1),
        ("no-lock-delays", Self::Broken(Mutant::Faulty(Fault::NoDelays)), 1),
        ("ignores-priorities", Self::Broken(Mutant::Faulty(Fault::IgnorePriorities)), 1),
        ("loses-what-is-held", Self::Broken(Mutant::Faulty(Fault::LoseHeld)), 1),
        ("keeps-values", Self::Broken(Mutant::Faulty(Fault::KeepValues)), 1),
        ("tells-no-leaders", Self::Broken(Mutant::TellsNoLeaders), 1),
        ("cuts-damage", Self::Broken(Mutant::CutsDamage), 12),
        ("misses-heirs", Self::Broken(Mutant::Faulty(Fault::MissHeirs)), 35),
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
