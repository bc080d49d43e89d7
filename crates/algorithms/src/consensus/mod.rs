//! Consensus: processes that may fail agree on a value that one of them has proposed.
//!
//! [`FloodSet`] relies on time and on a bound for the number of crashes; [`Paxos`] relies on neither, and on a majority that
//! is up; [`PaxosLog`] decides one value after the other, and so puts all proposals into one order. [`BenOr`] relies on neither
//! time nor a leader, and draws lots.

use alloc::string::String;
use core::fmt::{Debug, Formatter};
use core::hash::{Hash, Hasher};

use conclave_core::{
    Boot, Counter, Effect, Effects, Input, Members, Message, NodeId, Phase, Protocol, Through, erased,
};
use serde::{Deserialize, Serialize};

use crate::{Algorithm, Formula};

mod ben_or;
mod family;
mod flood_set;
mod ledger;
mod paxos;
mod paxos_log;
mod synod;

pub use ben_or::{BenOr, BenOrConfig, BenOrMessage};
pub use family::{Deciding, FAMILY, Of};
pub use flood_set::{FloodMessage, FloodSet, FloodSetConfig, Rule};
pub use ledger::Decisions;
pub use paxos::{Paxos, PaxosConfig, PaxosDurable};
pub use paxos_log::{Entry, LogConfig, LogDurable, LogMessage, PaxosLog};
pub use synod::SynodMessage;

/// What an application may ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Propose(pub Option<u64>);

impl Propose {
    /// The value that a process proposes by it: its own id, if it names none.
    #[must_use]
    pub fn value(self, process: NodeId) -> u64 {
        self.0.unwrap_or(u64::from(process.0))
    }
}

/// What an application is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Event {
    /// The value is decided; told once in every life.
    Decided(u64),
    /// The next value of the log is decided. Slots are told in order, each once in every life.
    Logged {
        /// Its place in the log, from 1 on.
        slot: u64,
        /// The value.
        value: u64,
        /// The sum of all values up to this one, where the log drives a counter.
        total: Option<u64>,
    },
    /// A process that has proposed stops trying: it was outbid too often, or reached no majority.
    GaveUp,
}

/// An algorithm that decides.
pub trait Consensus: Algorithm + Protocol<Request = Propose, Event = Event> {
    /// The settings as those of any algorithm of the family.
    fn any(config: Self::Config) -> AnyConfig;

    /// What it needs in order to keep its promises.
    fn needs(config: &Self::Config) -> Needs;

    /// How many messages a run without failures must have cost in which these processes propose, each at once.
    fn formula(config: &Self::Config, members: &Members, proposals: u64) -> Formula;
}

/// What an algorithm needs in order to keep its promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Needs {
    /// It agrees only if no message is lost, and only so many processes crash.
    pub most_crashes: Option<u32>,
    /// It terminates only if a majority is up.
    pub majority: bool,
    /// Whoever comes back after a crash takes part again.
    pub returns: bool,
    /// It decides one value after the other, and every proposal at last.
    pub is_log: bool,
}

any! {
    AnyConsensus, AnyConfig, AnyMessage, AnyTimer, AnyDurable,
    asked: Propose, told: Event, foreign: "a message of another algorithm",
    FloodSet => FloodSet,
    Paxos => Paxos,
    PaxosLog => PaxosLog,
    BenOr => BenOr,
}

crate::registry::family! {
    /// An algorithm that decides, given to whoever learnt its name at run time.
    Consensus {
        FloodSet,
        Paxos,
        PaxosLog,
        BenOr,
    }
}
