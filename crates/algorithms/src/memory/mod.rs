//! Mutual exclusion by a memory that all processes share: the critical sections of an operating system.
//!
//! A process is in its remainder, in its entry section, inside (in its critical section), or in its exit section, and goes
//! round. What it does in its entry and its exit section is a program, and a program is all that makes one lock differ from
//! another. Assumptions, as every textbook has them: single accesses to the memory happen one after the other, in an unknown
//! order; nothing is known of the speed of a process; and a process halts only in its remainder.
//!
//! **How it is modelled.** The memory is a process of its own, p0, that is added to those who compete. An access is a message
//! to it and a `Value` back, and the memory carries one out per step: this is what makes it atomic, and what a checker
//! interleaves in every order.
//!
//! ```text
//!   p1                     p0, the memory                p2
//!    │ ── TestAndSet(lock) ─▶ │                           │
//!    │ ◀──────────── Value 0 ─│ ◀── TestAndSet(lock) ───── │
//!    ● inside                 │ ── Value 1 ─────────────▶ │
//!    │                        │ ◀── TestAndSet(lock) ───── │   it spins
//!    │ ── Write(lock, 0) ───▶ │ ── Value 1 ─────────────▶ │
//!    │ ◀──────────── Value 0 ─│ ◀── TestAndSet(lock) ───── │
//!    │                        │ ── Value 0 ─────────────▶ ● inside
//! ```
//!
//! So simulator, scripts, checker and drawings need to know nothing of memories. Where a process sleeps instead of spinning
//! (semaphore, critical region, monitor, interrupts that are off), the answer comes when it may go on. A value that all
//! processes hold jointly would be no [`Protocol`](conclave_core::Protocol), whose processes share nothing; and a whole
//! machine as one process would leave nothing to interleave and nothing to draw.
//!
//! **One type.** All locks are one protocol, [`Machine`]: a program is a function that returns the next access. Every
//! driver is compiled once for all of them.
//!
//! **Where it ends.** None of this reaches over machines: instructions of the hardware are atomic in one memory, interrupts
//! are those of one processor. Between machines it takes messages, which is what [`mutex`](crate::mutex) is about. So a live
//! cluster refuses these locks. Over the memory of a real machine they run in the crate `conclave-atomics`.

mod access;
mod app;
mod family;
mod judge;
mod ledger;
mod listed;
mod locks;
mod machine;
mod meter;
mod run;
mod store;
#[cfg(test)]
mod tests;
mod users;

pub use access::{Access, Word};
pub use app::Visits;
pub use family::{FAMILY, Of, Sharing};
pub use judge::MemoryProperties;
pub use ledger::Occupancy;
pub use locks::Lock;
pub use machine::{Event, MEMORY, Machine, MachineConfig, Request};
pub use meter::{AccessMeter, AccessReport};
pub use users::VisitsPlanned;

/// Every lock of the family.
#[must_use]
pub fn all() -> alloc::vec::Vec<&'static crate::About> {
    listed::LOCKS.iter().map(|listed| &listed.about).collect()
}

/// Calls a visitor that takes algorithms of any family.
pub(crate) fn visit_any<V: crate::registry::Visitor>(name: &str, visitor: V) -> Result<V::Output, V> {
    macro_rules! visited {
        ($($place:literal)+) => {{
            const { assert!([$($place),+].len() == listed::LOCKS.len(), "every lock can be visited") };
            match listed::LOCKS.iter().position(|listed| listed.about.name == name) {
                $(Some($place) => Ok(visitor.visit::<Of<$place>>()),)+
                _ => Err(visitor),
            }
        }};
    }
    visited!(0 1 2 3 4 5 6 7 8 9 10 11 12)
}
