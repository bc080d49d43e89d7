//! A flag that says whether somebody is inside.
//!
//! ```text
//!   do { while held {} } while test_and_set(held)        inside        held = 0
//! ```
//!
//! Whoever waits only reads, and sets the flag by an atomic instruction once it was seen down: test and test-and-set. With a
//! plain `held = 1` instead of it, this is the first try of every textbook, which is no lock: two may read 0 before either
//! writes 1 (the mutant `naive`). A version in print tests the wrong way round: `while !held {}; held = 1`. From
//! `held = 0` on nobody ever gets in (the mutant `printed`).

use crate::memory::access::{Access, Word};
use crate::memory::run::Run;

const HELD: Word = Word::Held;

mutants! {
    pub enum Mutation {
        /// The test and the set are two accesses.
        Naive {
            name: "naive", breaks: "ME1", nodes: 2, trigger: Schedule,
            change: "the flag is set by a plain write: between test and set another process may do the same",
        }
        /// It waits while the flag is down.
        Printed {
            name: "printed", breaks: "PROGRESS", nodes: 2, trigger: Schedule,
            change: "it waits as long as nobody holds the flag, as a book has it in print: nobody ever gets in",
        }
    }
}

pub fn enter(run: &mut Run<'_>, mutation: Option<Mutation>) -> Option<Access> {
    let free = u32::from(mutation == Some(Mutation::Printed));
    match run.line() {
        0 => run.then(1, Access::Read { word: HELD }),
        1 if run.got != free => run.then(1, Access::Read { word: HELD }),
        1 if mutation.is_some() => run.then(3, Access::Write { word: HELD, value: 1 }),
        1 => run.then(2, Access::TestAndSet { word: HELD }),
        2 if run.got == 1 => run.then(1, Access::Read { word: HELD }),
        _ => None,
    }
}

pub fn leave(run: &mut Run<'_>) -> Option<Access> {
    run.only(Access::Write { word: HELD, value: 0 })
}
