//! The words of the memory, and the accesses to them: what goes over the bus.

use conclave_core::{Message, NodeId};
use serde::{Deserialize, Serialize};

/// A word of the memory. Each lock uses a few of them; all are 0 in the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Word {
    /// Whether somebody is inside: the flag of the textbook's first try, the condition of a critical region.
    Held,
    /// What the instructions of the hardware test and set.
    Lock,
    /// Peterson: how far a process has come; 0 if it does not compete.
    Flag(NodeId),
    /// Peterson: who has to yield at this level.
    Turn(u32),
    /// Bakery: whether a process is choosing its number.
    Choosing(NodeId),
    /// Bakery: the number of a process; 0 if it does not compete.
    Number(NodeId),
    /// Whether a process waits for the lock to be handed over.
    Waiting(NodeId),
    /// The next ticket.
    Next,
    /// The ticket that may enter.
    Serving,
    /// MCS: who came last; 0 if the queue is empty.
    Tail,
    /// MCS: who comes after a process; 0 if that is not known yet.
    Link(NodeId),
    /// MCS: whether a process has to wait.
    Blocked(NodeId),
}

/// What a process asks of the memory, and what the memory answers.
///
/// An access is carried out in one step of the memory, so that it is atomic: this is the assumption of all shared-memory
/// algorithms. A process has one access under way at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Access {
    /// Read a word.
    Read {
        /// Which.
        word: Word,
    },
    /// Write a word.
    Write {
        /// Which.
        word: Word,
        /// What.
        value: u32,
    },
    /// Read a word and write 1.
    TestAndSet {
        /// Which.
        word: Word,
    },
    /// Read a word and write another value.
    Swap {
        /// Which.
        word: Word,
        /// What to write.
        value: u32,
    },
    /// Read a word, and write it if it was what is expected.
    CompareAndSwap {
        /// Which.
        word: Word,
        /// What it has to be.
        expected: u32,
        /// What to write.
        value: u32,
    },
    /// Read a word and add 1.
    FetchAndAdd {
        /// Which.
        word: Word,
        /// The first number that the word is too narrow for: 0 comes instead of it.
        modulo: u32,
    },
    /// Let nobody else run on this processor.
    DisableInterrupts,
    /// Let others run again.
    EnableInterrupts,
    /// Semaphore: take one, and wait if there was none.
    P,
    /// Semaphore: put one back, and wake who has waited longest.
    V,
    /// Critical region: go in as soon as nobody is inside and the word has this value.
    EnterRegion {
        /// The condition; none is always true.
        when: Option<(Word, u32)>,
    },
    /// Critical region: go out.
    LeaveRegion,
    /// Monitor: begin a procedure as soon as nobody else is in one.
    EnterMonitor,
    /// Monitor: the procedure is over.
    LeaveMonitor,
    /// Monitor: let others in until somebody signals, then come in again.
    Wait,
    /// Monitor: wake who has waited longest. It goes on when the monitor is free.
    Signal,
    /// Monitor: wake all who wait.
    Broadcast,
    /// The answer of the memory: what was read, or 0. It comes when the access is over.
    Value {
        /// What was read.
        value: u32,
    },
}

impl Message for Access {
    fn kind(&self) -> &'static str {
        kinds!(
            self,
            Read,
            Write,
            TestAndSet,
            Swap,
            CompareAndSwap,
            FetchAndAdd,
            DisableInterrupts,
            EnableInterrupts,
            P,
            V,
            EnterRegion,
            LeaveRegion,
            EnterMonitor,
            LeaveMonitor,
            Wait,
            Signal,
            Broadcast,
            Value,
        )
    }
}
