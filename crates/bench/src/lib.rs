//! One load generator for conclave, etcd, ZooKeeper and Redis.
//!
//! [`target`] says what can be measured, [`targets`] holds the systems that can be; [`load`] puts clients to work,
//! [`rounds`] does so for several targets in turn and compares them. [`waiters`] and [`failover`] are the two questions
//! that rates do not answer: what waiting costs, and how long a lost leader is missed. [`BenchArgs`] is all of it as a
//! command.

mod args;
pub mod cluster;
pub mod failover;
mod histogram;
pub mod load;
mod room;
pub mod rounds;
pub mod target;
pub mod targets;
pub mod waiters;

pub use args::{BenchArgs, BenchError};
pub use histogram::Histogram;
pub use room::{Room, Violation};
