//! Mellor-Crummey and Scott, *Algorithms for scalable synchronization on shared-memory multiprocessors*, ACM TOCS 9 (1991).
//!
//! ```text
//!   link[i] = none
//!   before = swap(tail, i)
//!   if before != none { blocked[i] = 1; link[before] = i; while blocked[i] {} }
//!   inside
//!   if link[i] == none { if compare_and_swap(tail, i, none) == i { return }; while link[i] == none {} }
//!   blocked[link[i]] = 0
//! ```
//!
//! The processes form a queue. Each waits on a word of its own, which stays in its own cache, and who leaves wakes its
//! successor and nobody else. Between the swap and the link a process is in the queue and cannot be found: who leaves in that
//! moment has to wait for the link.

use conclave_core::NodeId;

use crate::memory::access::{Access, Word};
use crate::memory::run::Run;

const NONE: u32 = 0;

mutants! {
    pub enum Mutation {
        /// It does not wait for the link.
        GivesUp {
            name: "gives-up", breaks: "PROGRESS", nodes: 2, trigger: Schedule,
            change: "whoever leaves does not wait until its successor can be found, which then waits forever",
        }
        /// It can be found before it has said that it waits.
        LinkFirst {
            name: "link-first", breaks: "PROGRESS", nodes: 2, trigger: Schedule,
            change: "a process can be found before it has said that it waits: it is woken before, and waits forever",
        }
    }
}

pub fn enter(run: &mut Run<'_>, mutation: Option<Mutation>) -> Option<Access> {
    let is_reversed = mutation == Some(Mutation::LinkFirst);
    let block = Access::Write { word: Word::Blocked(run.me), value: 1 };
    let link = |before| Access::Write { word: Word::Link(NodeId(before)), value: run.me.0 };
    match run.line() {
        0 => run.then(1, Access::Write { word: Word::Link(run.me), value: NONE }),
        1 => run.then(2, Access::Swap { word: Word::Tail, value: run.me.0 }),
        2 if run.got == NONE => None,
        2 => {
            let link = link(run.got);
            run.registers.own = run.got;
            run.then(3, if is_reversed { link } else { block })
        }
        3 => {
            let link = link(run.registers.own);
            run.registers.own = NONE;
            run.then(4, if is_reversed { block } else { link })
        }
        5 if run.got == 0 => None,
        _ => run.then(5, Access::Read { word: Word::Blocked(run.me) }),
    }
}

pub fn leave(run: &mut Run<'_>, mutation: Option<Mutation>) -> Option<Access> {
    let me = run.me.0;
    match run.line() {
        0 => run.then(1, Access::Read { word: Word::Link(run.me) }),
        1 if run.got == NONE => {
            run.then(2, Access::CompareAndSwap { word: Word::Tail, expected: me, value: NONE })
        }
        2 if run.got == me || mutation == Some(Mutation::GivesUp) => None,
        2 => run.then(3, Access::Read { word: Word::Link(run.me) }),
        3 if run.got == NONE => run.then(3, Access::Read { word: Word::Link(run.me) }),
        1 | 3 => run.then(4, Access::Write { word: Word::Blocked(NodeId(run.got)), value: 0 }),
        _ => None,
    }
}
