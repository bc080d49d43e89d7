//! Dijkstra, *Cooperating sequential processes* (1965).
//!
//! ```text
//!   P(s): s -= 1; if s < 0 { wait }        inside        V(s): s += 1; wake who has waited longest
//! ```
//!
//! A number with two operations that the system carries out. Nobody waits busily. If it begins with k, up to k are inside at
//! a time (`places=k`).

use crate::memory::access::Access;
use crate::memory::run::Run;

mutants! {
    pub enum Mutation {
        /// Nobody is woken.
        LostWakeup {
            name: "lost-wakeup", breaks: "PROGRESS", nodes: 2, trigger: Schedule,
            change: "V counts and wakes nobody",
        }
        /// One too many gets in.
        OneTooMany {
            name: "one-too-many", breaks: "ME1", nodes: 2, trigger: Schedule,
            change: "P waits below -1 instead of below 0: one more gets in than there are places",
        }
    }
}

pub fn enter(run: &mut Run<'_>) -> Option<Access> {
    run.only(Access::P)
}

pub fn leave(run: &mut Run<'_>) -> Option<Access> {
    run.only(Access::V)
}
