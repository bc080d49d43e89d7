//! Every algorithm once, as a pure state machine.
//!
//! One file holds one algorithm. Beside each family stand its interface (what an application may ask and is told)
//! and its properties (what must hold). The [`registry`] lists all algorithms; everything that walks over them (the
//! command line, the tests, the documentation) walks that list.

#![no_std]

extern crate alloc;

#[cfg(test)]
extern crate std;

#[macro_use]
mod any;
#[macro_use]
mod kinds;
#[macro_use]
mod mutants;

mod about;
pub mod application;
pub mod clock;
pub mod consensus;
pub mod demand;
pub mod desk;
mod dynamic;
pub mod election;
pub mod erased;
pub mod events;
pub mod family;
mod formula;
mod judge;
mod led;
mod lens;
pub mod measure;
pub mod memory;
pub mod multicast;
pub mod mutex;
mod named;
pub mod recorded;
mod recovery;
pub mod referee;
pub mod registry;
mod settings;
pub mod span;
#[cfg(test)]
mod testing;
pub mod workers;
pub mod workload;

/// Why a message of somebody who is no other member is rejected.
const STRANGER: &str = "only the other members may send";

pub use about::{About, Algorithm, Channels, Mutant, Synchrony, Topology, Trigger};
pub use formula::Formula;
pub use judge::{Breach, Ending, Finding, Judge, Judgement, Ledger, PropertyKind, Sight, Violation};
pub use led::{Asked, Led, LedConfig, LedDurable, LedMessage, LedTimer, Told};
pub use named::{Name, NameError, Named, NamedConfig, NamedEvent, NamedMessage, NamedRequest};
pub use recovery::MUTANTS as RECOVERY_MUTANTS;
pub use recovery::{
    Assembly, AssemblyConfig, AssemblyMessage, AssemblyTimer, Consent, GroupRoll, Key, Limits, Monitor,
    Recovering, Standings, is_mutant_of_recovery, recovers,
};
pub use settings::{Arena, Setting, SettingError, Settings, Values};
