//! Broken twins of the server that the checks must catch.

use conclave_server::mutant::{self, Mutant};

/// A broken twin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twin {
    /// Its disks say that something is safe a moment before it is: the same as not to wait for them.
    AcknowledgesBeforeSync,
    /// It is broken in this way.
    Broken(Mutant),
}

impl Twin {
    pub const ALL: &[(&str, Self)] = &[
        ("acknowledges-before-sync", Self::AcknowledgesBeforeSync),
        ("answers-early", Self::Broken(Mutant::AnswersEarly)),
        ("own-clock", Self::Broken(Mutant::OwnClock)),
        ("forgets-requests", Self::Broken(Mutant::ForgetsRequests)),
    ];

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(other, _)| *other == name).map(|(_, twin)| *twin)
    }

    /// Makes all nodes of this process so.
    pub fn choose(self) {
        match self {
            Self::AcknowledgesBeforeSync => {}
            Self::Broken(mutant) => mutant::choose(mutant),
        }
    }
}
