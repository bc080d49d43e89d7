//! The textbook algorithms as real processes.
//!
//! ```text
//!   conclave cluster lock backup ── control.sock ──▶┌──────── process ────────┐
//!   another client ──────────────── control.sock ──▶│ desk: one line per name │
//!                                                   │   │ Acquire   ▲ Granted │
//!                                                   │   ▼           │         │
//!                                                   │ conclave-net ◀┴── TCP ──┼──▶ the other processes
//!                                                   └─────────────────────────┘
//! ```
//!
//! - [`process::run`] is one such process: any algorithm of the registry, over the network, for clients on the same machine.
//!   A lock is made when it is first asked for, and recovers after failures; see `docs/live.md` for what that promises.
//! - [`desk`] lets many clients share the one request that an algorithm allows a process.
//! - [`control`] is what is said on the control socket, and the client side of it.
//! - [`cluster`] is several processes on one machine, and [`supervisor`] their parent.
//! - [`group`] is several processes on one machine without a parent: each is started by hand, and finds the others.

pub mod cluster;
pub mod config;
pub mod control;
pub mod group;
pub use conclave_algorithms::desk;
pub mod process;
mod seal;
pub mod supervisor;
