//! Tickets, as at a counter. Reed and Kanodia, *Synchronization with eventcounts and sequencers*, CACM 22 (1979).
//!
//! ```text
//!   ticket = fetch_and_add(next)
//!   while serving != ticket {}
//!   inside
//!   serving = ticket + 1
//! ```
//!
//! Taking a ticket is one access, so no two have the same, and everyone is served in the order of tickets. Only who is inside
//! writes `serving`. The words count modulo n, since no more than n tickets are out: the narrowest that is safe.

use crate::memory::access::{Access, Word};
use crate::memory::run::Run;

mutants! {
    pub enum Mutation {
        /// Taking a ticket is two accesses.
        Torn {
            name: "torn", breaks: "ME1", nodes: 2, trigger: Schedule,
            change: "a ticket is read in one access and counted on in another: two may have the same",
        }
        /// The words are too narrow.
        Narrow {
            name: "narrow", breaks: "ME1", nodes: 2, trigger: Schedule,
            change: "tickets are counted modulo n - 1: the last of n has the ticket of the first",
        }
    }
}

pub fn enter(run: &mut Run<'_>, mutation: Option<Mutation>) -> Option<Access> {
    let modulo = modulo(run, mutation);
    match run.line() {
        0 if mutation == Some(Mutation::Torn) => run.then(1, Access::Read { word: Word::Next }),
        0 => run.then(2, Access::FetchAndAdd { word: Word::Next, modulo }),
        1 => {
            run.registers.own = run.got;
            let value = run.got.wrapping_add(1) % modulo;
            run.then(3, Access::Write { word: Word::Next, value })
        }
        2 => {
            run.registers.own = run.got;
            run.then(4, Access::Read { word: Word::Serving })
        }
        4 if run.got == run.registers.own => None,
        _ => run.then(4, Access::Read { word: Word::Serving }),
    }
}

pub fn leave(run: &mut Run<'_>, mutation: Option<Mutation>) -> Option<Access> {
    let value = run.registers.own.wrapping_add(1) % modulo(run, mutation);
    run.only(Access::Write { word: Word::Serving, value })
}

fn modulo(run: &Run<'_>, mutation: Option<Mutation>) -> u32 {
    let n = run.n();
    if mutation == Some(Mutation::Narrow) { n.max(2) - 1 } else { n }
}
