//! Brinch Hansen, *Structured multiprogramming*, Communications of the ACM 15 (1972); Hoare (1971).
//!
//! ```text
//!   region v when held == 0 do held = 1        inside        region v do held = 0
//! ```
//!
//! A statement in exclusion over a variable, which begins only when its condition is true. Whenever a region is left the
//! conditions of all who wait are looked at again, who came first first.

use crate::memory::access::{Access, Word};
use crate::memory::run::Run;

const HELD: Word = Word::Held;

mutants! {
    pub enum Mutation {
        /// It does not wait for its condition.
        NoCondition {
            name: "no-condition", breaks: "ME1", nodes: 2, trigger: Schedule,
            change: "the region begins although its condition is false",
        }
        /// Conditions are looked at once.
        NoRecheck {
            name: "no-recheck", breaks: "PROGRESS", nodes: 2, trigger: Schedule,
            change: "conditions are not looked at again when a region is left: who waits for one waits forever",
        }
    }
}

pub fn enter(run: &mut Run<'_>, mutation: Option<Mutation>) -> Option<Access> {
    let when = (mutation != Some(Mutation::NoCondition)).then_some((HELD, 0));
    sets(run, when, 1)
}

pub fn leave(run: &mut Run<'_>) -> Option<Access> {
    sets(run, None, 0)
}

/// A region that writes one value.
fn sets(run: &mut Run<'_>, when: Option<(Word, u32)>, value: u32) -> Option<Access> {
    match run.line() {
        0 => run.then(1, Access::EnterRegion { when }),
        1 => run.then(2, Access::Write { word: HELD, value }),
        2 => run.then(3, Access::LeaveRegion),
        _ => None,
    }
}
