//! Mutants of server, client and disk that the checks must catch.

use conclave_client::mutant as client;
use conclave_server::mutant::{self, Mutant};
use conclave_service::Fault;

/// A mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorldMutant {
    /// Its disks say that something is safe a moment before it is: the same as not to wait for them.
    AcknowledgesBeforeSync,
    /// Its server is broken in this way.
    Broken(Mutant),
    /// Its clients are broken in this way.
    Client(client::Mutant),
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
        ("tells-one-name", Self::Broken(Mutant::TellsOneName), 1),
        ("hides-waiters", Self::Broken(Mutant::Faulty(Fault::HideWaiters)), 3),
        ("lets-go-of-connections", Self::Client(client::Mutant::LetsGoOfConnections), 2),
        ("trusts-timers", Self::Client(client::Mutant::TrustsTimers), 1),
    ];

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(other, ..)| *other == name).map(|(_, mutant, _)| *mutant)
    }

    /// Makes all nodes and clients of this process so.
    pub fn choose(self) {
        match self {
            Self::AcknowledgesBeforeSync => {}
            Self::Broken(mutant) => mutant::choose(mutant),
            Self::Client(mutant) => client::choose(mutant),
        }
    }
}
