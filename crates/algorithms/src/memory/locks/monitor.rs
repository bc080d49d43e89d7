//! Hoare, *Monitors: an operating system structuring concept*, CACM 17 (1974); Lampson and Redell, CACM 23 (1980).
//!
//! ```text
//!   procedure enter { ticket = next; next += 1; while serving != ticket { wait } }
//!   procedure leave { serving += 1; broadcast }
//! ```
//!
//! Of all procedures of a monitor one runs at a time; who calls another waits in its entry queue. `wait` gives the monitor up
//! until somebody signals. Whoever signals goes on, and who is woken comes in later, through the entry queue: by then the
//! condition may be false again, so it is tested in a loop. Here all are woken (`wake=broadcast`), or the one who
//! has waited longest (`wake=signal`).

use crate::memory::access::{Access, Word};
use crate::memory::run::Run;

mutants! {
    pub enum Mutation {
        /// The condition is not tested again.
        IfNotWhile {
            name: "if-not-while", breaks: "ME1", nodes: 3, trigger: Schedule,
            change: "who is woken does not test its condition again: all who are woken go in",
        }
        /// Nobody is woken.
        NoSignal {
            name: "no-signal", breaks: "PROGRESS", nodes: 2, trigger: Schedule,
            change: "whoever leaves wakes nobody",
        }
    }
}

pub fn enter(run: &mut Run<'_>, mutation: Option<Mutation>) -> Option<Access> {
    match run.line() {
        0 => run.then(1, Access::EnterMonitor),
        1 => run.then(2, Access::Read { word: Word::Next }),
        2 => {
            run.registers.own = run.got;
            run.then(3, Access::Write { word: Word::Next, value: run.got.wrapping_add(1) % run.n() })
        }
        5 if mutation == Some(Mutation::IfNotWhile) => run.then(6, Access::LeaveMonitor),
        3 | 5 => run.then(4, Access::Read { word: Word::Serving }),
        4 if run.got == run.registers.own => run.then(6, Access::LeaveMonitor),
        4 => run.then(5, Access::Wait),
        _ => None,
    }
}

pub fn leave(run: &mut Run<'_>, wakes_all: bool, mutation: Option<Mutation>) -> Option<Access> {
    match run.line() {
        0 => run.then(1, Access::EnterMonitor),
        1 => {
            let value = run.registers.own.wrapping_add(1) % run.n();
            run.then(2, Access::Write { word: Word::Serving, value })
        }
        2 if mutation == Some(Mutation::NoSignal) => run.then(3, Access::LeaveMonitor),
        2 => run.then(3, if wakes_all { Access::Broadcast } else { Access::Signal }),
        3 if mutation == Some(Mutation::NoSignal) => None,
        3 => run.then(4, Access::LeaveMonitor),
        _ => None,
    }
}
