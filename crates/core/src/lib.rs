//! The contract between a distributed algorithm and the world that drives it.
//!
//! An algorithm is a plain value that implements [`Protocol`]: it is given an [`Input`] and answers with
//! [`Effect`]s. It has no thread, no socket, no clock and no source of randomness. Whoever drives it (the
//! simulator, the checker, the live network) carries its messages, keeps its timers and tells it of failures.
//!
//! ```text
//!                 Input                                      Effect
//!   Start ───────────────┐                    ┌──────────────▶ Save     durable before anything below it
//!   Receive from a peer ─┤                    ├──────────────▶ Send     to another process
//!   Expire of a timer ───┼──▶  handle(&mut) ──┼──────────────▶ Arm / Disarm  a named timer
//!   Request of the app ──┤                    ├──────────────▶ Emit     an event to the application
//!   PeerDown / PeerUp ───┘                    └──────────────▶ Reject   the peer broke the protocol
//! ```
//!
//! The crate is `no_std`: files, sockets, clocks, threads and hash maps with random seeds cannot be named here,
//! nor in the algorithms, which are `no_std` too.

#![no_std]

extern crate alloc;

#[cfg(test)]
extern crate std;

mod clock;
mod counter;
mod effect;
mod floors;
mod members;
mod node;
mod observe;
mod phase;
mod protocol;
mod time;

pub use clock::{Causality, LamportClock, Stamp, VectorClock};
pub use counter::{Counter, Role, Space};
pub use effect::{After, Effect, Effects, Through, Timed, erased};
pub use floors::Floors;
pub use members::Members;
pub use node::{NodeId, NodeSet, NotAProcess};
pub use observe::{Chain, Disturbance, Moment, Observer, Process, Transit};
pub use phase::{Band, Phase};
pub use protocol::{Boot, Group, Incarnation, Input, Message, Protocol, Timing};
pub use time::{Deviation, LONGEST, Lease, Reading, Shown, parse_time, show_time};
