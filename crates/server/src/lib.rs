//! A node of the replicated lock and leader service.

mod barrier;
mod birth;
mod clocks;
pub mod consensus;
pub mod disk;
mod front;
#[cfg(test)]
mod golden;
mod handover;
mod identity;
pub mod log;
pub mod machine;
#[cfg(feature = "mutants")]
pub mod mutant;
#[cfg(not(feature = "mutants"))]
mod mutant;
mod network;
mod outdated;
mod peer;
#[cfg(test)]
mod puppet;
pub mod raft;
pub mod repair;
pub mod server;
mod snapshots;

pub use conclave_wire::Tcp;
pub use front::clock::{Clock, Monotonic, SystemWall, Wall};
