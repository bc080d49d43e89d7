//! Test-and-set with bounded waiting; Silberschatz and Galvin, *Operating System Concepts*.
//!
//! ```text
//!   waiting[i] = 1; key = 1
//!   while waiting[i] && key { key = test_and_set(lock) }
//!   waiting[i] = 0
//!   inside
//!   j = i + 1 mod n
//!   while j != i && !waiting[j] { j = j + 1 mod n }
//!   if j == i { lock = 0 } else { waiting[j] = 0 }
//! ```
//!
//! Who leaves looks for the next who waits, in cyclic order, and hands the lock over: the lock stays set. So everyone gets its
//! turn after at most n − 1 others.

use conclave_core::NodeId;

use crate::memory::access::{Access, Word};
use crate::memory::run::Run;

const FREE: Access = Access::Write { word: Word::Lock, value: 0 };

mutants! {
    pub enum Mutation {
        /// The lock is always freed and never handed over.
        NoHandover {
            name: "no-handover", breaks: "BOUNDED", nodes: 2, trigger: Forever,
            change: "the lock is freed and not handed over: others may be faster again and again",
        }
        /// The lock is handed over and freed.
        FreesToo {
            name: "frees-too", breaks: "ME1", nodes: 3, trigger: Schedule,
            change: "the lock is freed although it was handed over: one enters by either way",
        }
        /// The lock is not freed if nobody waits.
        KeepsLock {
            name: "keeps-lock", breaks: "PROGRESS", nodes: 2, trigger: Schedule,
            change: "the lock is not freed where there is nobody to hand it over to",
        }
    }
}

pub fn enter(run: &mut Run<'_>) -> Option<Access> {
    let waiting = |value| Access::Write { word: Word::Waiting(run.me), value };
    match run.line() {
        0 => run.then(1, waiting(1)),
        1 => run.then(2, Access::Read { word: Word::Waiting(run.me) }),
        2 if run.got == 0 => run.then(4, waiting(0)),
        2 => run.then(3, Access::TestAndSet { word: Word::Lock }),
        3 if run.got == 0 => run.then(4, waiting(0)),
        3 => run.then(2, Access::Read { word: Word::Waiting(run.me) }),
        _ => None,
    }
}

pub fn leave(run: &mut Run<'_>, mutation: Option<Mutation>) -> Option<Access> {
    match run.line() {
        0 if mutation == Some(Mutation::NoHandover) => run.then(3, FREE),
        0 => {
            let me = run.me;
            look(run, me, mutation)
        }
        1 if run.got == 1 => run.then(2, Access::Write { word: Word::Waiting(run.other()), value: 0 }),
        1 => {
            let other = run.other();
            look(run, other, mutation)
        }
        2 if mutation == Some(Mutation::FreesToo) => run.then(3, FREE),
        _ => None,
    }
}

/// Looks whether the one after this process waits; frees the lock if it is back at itself.
fn look(run: &mut Run<'_>, after: NodeId, mutation: Option<Mutation>) -> Option<Access> {
    let place = run.all.iter().position(|process| *process == after).map_or(0, |place| place + 1);
    run.registers.j = place % run.all.len();
    if run.other() != run.me {
        run.then(1, Access::Read { word: Word::Waiting(run.other()) })
    } else if mutation == Some(Mutation::KeepsLock) {
        None
    } else {
        run.then(3, FREE)
    }
}
