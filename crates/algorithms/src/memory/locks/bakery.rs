//! Lamport, *A new solution of Dijkstra's concurrent programming problem*, Communications of the ACM 17 (1974).
//!
//! ```text
//!   choosing[i] = 1
//!   number[i] = 1 + max of all number[j]
//!   choosing[i] = 0
//!   for j other than i {
//!       while choosing[j] {}
//!       while number[j] != 0 && (number[j], j) < (number[i], i) {}
//!   }
//!   inside
//!   number[i] = 0
//! ```
//!
//! Everyone takes a number as in a bakery, and the smallest goes first. Two may get the same, since taking one is not atomic;
//! the id decides. Nobody writes a word that another writes.
//!
//! **Caveat**: the numbers have no bound, as long as somebody always competes.

use conclave_core::NodeId;

use crate::memory::access::{Access, Word};
use crate::memory::run::Run;

mutants! {
    pub enum Mutation {
        /// It does not say that it is choosing.
        NoChoosing {
            name: "no-choosing", breaks: "ME1", nodes: 2, trigger: Schedule,
            change: "nobody says that it is choosing: one passes before another has written the same or a smaller number",
        }
        /// Of equal numbers none is smaller.
        NoTieBreak {
            name: "no-tie-break", breaks: "ME1", nodes: 2, trigger: Schedule,
            change: "of two with the same number neither goes first: both do",
        }
    }
}

pub fn enter(run: &mut Run<'_>, mutation: Option<Mutation>) -> Option<Access> {
    let choosing = |value| Access::Write { word: Word::Choosing(run.me), value };
    match run.line() {
        0 if mutation == Some(Mutation::NoChoosing) => {
            let first = run.first_other();
            choose(run, first)
        }
        0 => run.then(1, choosing(1)),
        1 => {
            let first = run.first_other();
            choose(run, first)
        }
        2 => {
            run.registers.own = run.registers.own.max(run.got);
            let next = run.next_other();
            choose(run, next)
        }
        3 => run.then(4, choosing(0)),
        4 => {
            let first = run.first_other();
            let first = first?;
            run.then(5, Access::Read { word: Word::Choosing(first) })
        }
        5 if run.got == 1 => run.then(5, Access::Read { word: Word::Choosing(run.other()) }),
        5 => run.then(6, Access::Read { word: Word::Number(run.other()) }),
        _ if goes_first(run, mutation) => run.then(6, Access::Read { word: Word::Number(run.other()) }),
        _ => {
            let next = run.next_other()?;
            run.then(5, Access::Read { word: Word::Choosing(next) })
        }
    }
}

/// Reads the number of another; takes one that is larger than all if it has read them all.
fn choose(run: &mut Run<'_>, other: Option<NodeId>) -> Option<Access> {
    match other {
        Some(other) => run.then(2, Access::Read { word: Word::Number(other) }),
        None => {
            run.registers.own = run.registers.own.saturating_add(1);
            let value = run.registers.own;
            run.then(3, Access::Write { word: Word::Number(run.me), value })
        }
    }
}

/// Whether the other process, whose number was just read, goes first.
fn goes_first(run: &Run<'_>, mutation: Option<Mutation>) -> bool {
    let (theirs, mine) = ((run.got, run.other()), (run.registers.own, run.me));
    match mutation {
        Some(Mutation::NoTieBreak) => theirs.0 != 0 && theirs.0 < mine.0,
        Some(Mutation::NoChoosing) | None => theirs.0 != 0 && theirs < mine,
    }
}

pub fn leave(run: &mut Run<'_>) -> Option<Access> {
    run.only(Access::Write { word: Word::Number(run.me), value: 0 })
}
