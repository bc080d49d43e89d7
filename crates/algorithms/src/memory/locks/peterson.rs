//! Peterson, *Myths about the mutual exclusion problem*, Information Processing Letters 12 (1981).
//!
//! ```text
//!   for level in 1 to n - 1 {
//!       flag[i] = level; turn[level] = i
//!       for j other than i { while flag[j] >= level && turn[level] == i {} }
//!   }
//!   inside
//!   flag[i] = 0
//! ```
//!
//! Of two, each says that it wants in and lets the other go first: who says so last waits. Of more, one is left behind at each
//! of n − 1 levels, so that one gets through all of them. Nothing but reads and writes is needed.
//!
//! Of two, nobody is overtaken twice. Of more nobody starves either, but there is no bound: two may overtake a third that
//! waits at the first level again and again, as long as it is too slow to look.

use conclave_core::NodeId;

use crate::memory::access::{Access, Word};
use crate::memory::run::Run;

mutants! {
    pub enum Mutation {
        /// It lets the other go first before it says that it wants in.
        TurnFirst {
            name: "turn-first", breaks: "ME1", nodes: 2, trigger: Schedule,
            change: "the turn is given away before the flag is up: the other does not see that anybody competes",
        }
        /// It does not look at the turn.
        NoTurn {
            name: "no-turn", breaks: "PROGRESS", nodes: 2, trigger: Schedule,
            change: "nobody looks at the turn: two with their flags up wait for each other",
        }
    }
}

pub fn enter(run: &mut Run<'_>, mutation: Option<Mutation>) -> Option<Access> {
    let raise = |level| Access::Write { word: Word::Flag(run.me), value: level };
    let yields = |level| Access::Write { word: Word::Turn(level), value: run.me.0 };
    let is_reversed = mutation == Some(Mutation::TurnFirst);
    let level = run.registers.own;
    match run.line() {
        0 if level + 1 == run.n() => None,
        0 => {
            let (raise, yields) = (raise(level + 1), yields(level + 1));
            run.registers.own += 1;
            run.then(1, if is_reversed { yields } else { raise })
        }
        1 => {
            let (raise, yields) = (raise(level), yields(level));
            run.then(2, if is_reversed { raise } else { yields })
        }
        2 => {
            let first = run.first_other();
            look(run, first, mutation)
        }
        3 if run.got < level => {
            let next = run.next_other();
            look(run, next, mutation)
        }
        3 if mutation == Some(Mutation::NoTurn) => {
            let again = run.other();
            look(run, Some(again), mutation)
        }
        3 => run.then(4, Access::Read { word: Word::Turn(level) }),
        _ if run.got == run.me.0 => {
            let again = run.other();
            look(run, Some(again), mutation)
        }
        _ => up(run, mutation),
    }
}

/// Looks at the flag of another; if there is none left, this level is passed.
fn look(run: &mut Run<'_>, other: Option<NodeId>, mutation: Option<Mutation>) -> Option<Access> {
    match other {
        Some(other) => run.then(3, Access::Read { word: Word::Flag(other) }),
        None => up(run, mutation),
    }
}

/// Goes to the next level.
fn up(run: &mut Run<'_>, mutation: Option<Mutation>) -> Option<Access> {
    run.registers.line = 0;
    enter(run, mutation)
}

pub fn leave(run: &mut Run<'_>) -> Option<Access> {
    run.only(Access::Write { word: Word::Flag(run.me), value: 0 })
}
