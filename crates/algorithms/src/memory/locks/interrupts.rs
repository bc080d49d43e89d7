//! Interrupts off: nobody else runs.
//!
//! ```text
//!   disable interrupts        inside        enable interrupts
//! ```
//!
//! The lock of a kernel on one processor. Who has switched them off cannot be interrupted, so no other process of this
//! processor executes anything until they are on again; whoever wanted to is in the ready queue meanwhile. Who comes next
//! is a matter of the scheduler: its queue is `fifo`, or `lifo` as a warning. Other processors are not touched: with
//! `cpus=2` two get in.

use crate::memory::access::Access;
use crate::memory::run::Run;

/// The machine: how many processors, and who runs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Processors {
    /// How many there are; processes are dealt out to them in turn.
    pub count: u32,
    /// Whether the scheduler takes who came last.
    pub last_first: bool,
}

mutants! {
    pub enum Mutation {
        /// It does not switch them off.
        StaysOn {
            name: "stays-on", breaks: "ME1", nodes: 2, trigger: Schedule,
            change: "interrupts are not switched off: another process runs meanwhile, and enters",
        }
        /// It does not switch them on again.
        StaysOff {
            name: "stays-off", breaks: "PROGRESS", nodes: 2, trigger: Schedule,
            change: "interrupts are not switched on again: nobody else ever runs",
        }
    }
}

pub fn enter(run: &mut Run<'_>, mutation: Option<Mutation>) -> Option<Access> {
    if mutation == Some(Mutation::StaysOn) { None } else { run.only(Access::DisableInterrupts) }
}

pub fn leave(run: &mut Run<'_>, mutation: Option<Mutation>) -> Option<Access> {
    if mutation == Some(Mutation::StaysOff) { None } else { run.only(Access::EnableInterrupts) }
}
