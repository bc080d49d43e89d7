//! The locks: what a process does to get in, and to get out again.

pub mod bakery;
pub mod flag;
pub mod instruction;
pub mod interrupts;
pub mod mcs;
pub mod monitor;
pub mod peterson;
pub mod region;
pub mod semaphore;
pub mod ticket;
pub mod waiting_array;

use self::instruction::Instruction;
use self::interrupts::Processors;
use super::access::{Access, Word};
use super::run::Run;

/// A lock with its settings, and with its mutant if it is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lock {
    /// See `flag.rs`.
    Flag(Option<flag::Mutation>),
    /// See `interrupts.rs`.
    Interrupts(Processors, Option<interrupts::Mutation>),
    /// See `peterson.rs`.
    Peterson(Option<peterson::Mutation>),
    /// See `bakery.rs`.
    Bakery(Option<bakery::Mutation>),
    /// See `instruction.rs`.
    Instruction(Instruction, Option<instruction::Mutation>),
    /// See `waiting_array.rs`.
    WaitingArray(Option<waiting_array::Mutation>),
    /// See `ticket.rs`.
    Ticket(Option<ticket::Mutation>),
    /// See `mcs.rs`.
    Mcs(Option<mcs::Mutation>),
    /// See `semaphore.rs`. This many may be inside.
    Semaphore(u32, Option<semaphore::Mutation>),
    /// See `region.rs`.
    Region(Option<region::Mutation>),
    /// See `monitor.rs`.
    Monitor {
        /// Whether all are woken who wait.
        wakes_all: bool,
        /// The mutant.
        mutation: Option<monitor::Mutation>,
    },
}

/// What a lock promises beyond mutual exclusion and progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Promises {
    /// Whoever wants in gets in.
    pub no_starvation: bool,
    /// After at most n − 1 others.
    pub bounded: bool,
}

impl Lock {
    /// The next access on the way in.
    pub fn enter(self, run: &mut Run<'_>) -> Option<Access> {
        match self {
            Self::Flag(mutation) => flag::enter(run, mutation),
            Self::Interrupts(_, mutation) => interrupts::enter(run, mutation),
            Self::Peterson(mutation) => peterson::enter(run, mutation),
            Self::Bakery(mutation) => bakery::enter(run, mutation),
            Self::Instruction(instruction, mutation) => instruction::enter(run, instruction, mutation),
            Self::WaitingArray(_) => waiting_array::enter(run),
            Self::Ticket(mutation) => ticket::enter(run, mutation),
            Self::Mcs(mutation) => mcs::enter(run, mutation),
            Self::Semaphore(..) => semaphore::enter(run),
            Self::Region(mutation) => region::enter(run, mutation),
            Self::Monitor { mutation, .. } => monitor::enter(run, mutation),
        }
    }

    /// The next access on the way out.
    pub fn leave(self, run: &mut Run<'_>) -> Option<Access> {
        match self {
            Self::Flag(_) => flag::leave(run),
            Self::Interrupts(_, mutation) => interrupts::leave(run, mutation),
            Self::Peterson(_) => peterson::leave(run),
            Self::Bakery(_) => bakery::leave(run),
            Self::Instruction(_, mutation) => instruction::leave(run, mutation),
            Self::WaitingArray(mutation) => waiting_array::leave(run, mutation),
            Self::Ticket(mutation) => ticket::leave(run, mutation),
            Self::Mcs(mutation) => mcs::leave(run, mutation),
            Self::Semaphore(..) => semaphore::leave(run),
            Self::Region(_) => region::leave(run),
            Self::Monitor { wakes_all, mutation } => monitor::leave(run, wakes_all, mutation),
        }
    }

    /// How many may be inside.
    pub fn places(self) -> u32 {
        match self {
            Self::Semaphore(places, _) => places,
            _ => 1,
        }
    }

    /// What it promises to n processes.
    pub fn promises(self, n: usize) -> Promises {
        let (no_starvation, bounded) = match self {
            Self::Flag(_) | Self::Instruction(..) => (false, false),
            Self::Interrupts(processors, _) => (!processors.last_first, !processors.last_first),
            Self::Peterson(_) => (true, n <= 2),
            Self::Bakery(_)
            | Self::WaitingArray(_)
            | Self::Ticket(_)
            | Self::Mcs(_)
            | Self::Region(_)
            | Self::Monitor { .. } => (true, true),
            // Where there is another place, others come and go through it before one that was woken moves.
            Self::Semaphore(places, _) => (true, places == 1),
        };
        Promises { no_starvation, bounded }
    }

    /// Whether this access makes the wish of its process known: from now on nobody may overtake it without bound.
    pub fn is_announced_by(self, access: &Access) -> bool {
        match (self, access) {
            (Self::Peterson(_), Access::Write { word: Word::Turn(_), .. })
            | (Self::WaitingArray(_), Access::Write { word: Word::Waiting(_), value: 1 })
            | (Self::Ticket(_), Access::FetchAndAdd { .. })
            | (Self::Mcs(_), Access::Swap { .. })
            | (Self::Semaphore(..), Access::P)
            | (Self::Region(_), Access::EnterRegion { .. })
            | (Self::Monitor { .. }, Access::EnterMonitor)
            | (Self::Interrupts(..), Access::DisableInterrupts) => true,
            (Self::Bakery(_), Access::Write { word: Word::Number(_), value }) => *value > 0,
            (Self::Flag(_) | Self::Instruction(..), _) => true,
            _ => false,
        }
    }

    /// How many accesses an entry among n takes at least, the way out included; and whether it is never more.
    pub fn accesses(self, n: u64) -> (u64, bool) {
        match self {
            Self::Flag(_) => (3, false),
            Self::Interrupts(..) | Self::Semaphore(..) => (2, true),
            // At each level two writes, and then the flags of all others, or the turn after the first of them.
            Self::Peterson(_) => ((n - 1) * (2 + (n - 1).min(2)) + 1, n == 1),
            Self::Bakery(_) => (3 * n + 1, n == 1),
            Self::Instruction(..) => (2, n == 1),
            Self::WaitingArray(_) => (5, n == 1),
            Self::Ticket(_) => (3, n == 1),
            Self::Mcs(_) => (4, n == 1),
            Self::Region(_) => (6, true),
            Self::Monitor { .. } => (9, n == 1),
        }
    }
}
