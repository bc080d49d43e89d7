//! Spinning on one instruction of the hardware.
//!
//! ```text
//!   while test_and_set(lock) == 1 {}                  inside        lock = 0
//!   key = 1; do { swap(lock, key) } while key == 1
//!   while compare_and_swap(lock, 0, 1) != 0 {}
//! ```
//!
//! Each reads the lock and sets it in one access, so that of all who try one alone reads 0. Nobody remembers who has tried in
//! vain: whoever leaves can be back before anybody else has tried again.

use serde::{Deserialize, Serialize};

use crate::memory::access::{Access, Word};
use crate::memory::run::Run;

const LOCK: Word = Word::Lock;

/// An instruction that reads and writes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Instruction {
    /// Read it and write 1.
    TestAndSet,
    /// Exchange it with a register.
    Swap,
    /// Write it if it is what is expected.
    CompareAndSwap,
}

mutants! {
    pub enum Mutation {
        /// The instruction is two accesses.
        Torn {
            name: "torn", breaks: "ME1", nodes: 2, trigger: Schedule,
            change: "the instruction is not atomic: it reads in one access and writes in another",
        }
        /// The lock is not freed.
        NoUnlock {
            name: "no-unlock", breaks: "PROGRESS", nodes: 2, trigger: Schedule,
            change: "whoever leaves does not free the lock",
        }
    }
}

pub fn enter(run: &mut Run<'_>, instruction: Instruction, mutation: Option<Mutation>) -> Option<Access> {
    if mutation == Some(Mutation::Torn) {
        return enter_in_two(run);
    }
    let access = match instruction {
        Instruction::TestAndSet => Access::TestAndSet { word: LOCK },
        Instruction::Swap => Access::Swap { word: LOCK, value: 1 },
        Instruction::CompareAndSwap => Access::CompareAndSwap { word: LOCK, expected: 0, value: 1 },
    };
    match run.line() {
        1 if run.got == 0 => None,
        _ => run.then(1, access),
    }
}

fn enter_in_two(run: &mut Run<'_>) -> Option<Access> {
    match run.line() {
        1 if run.got == 0 => run.then(2, Access::Write { word: LOCK, value: 1 }),
        2 => None,
        _ => run.then(1, Access::Read { word: LOCK }),
    }
}

pub fn leave(run: &mut Run<'_>, mutation: Option<Mutation>) -> Option<Access> {
    match mutation {
        Some(Mutation::NoUnlock) => None,
        Some(Mutation::Torn) | None => run.only(Access::Write { word: LOCK, value: 0 }),
    }
}
