//! Reliable multicast: every member passes on what it receives before it delivers it.
//!
//! ```text
//!   p1 sends   p2         p3         p4
//!    │ ─ Data ─▶│          │          │
//!    ✗          │ ─ Data ─▶│          │      p2 passes the post on, then delivers it
//!               │ ─ Data ────────────▶│
//!               │          │ ─ Data ─▶│      and so does everyone who hears of it for the first time
//! ```
//!
//! If a member that stays up delivers a post, it has sent it to all others; so all who stay up deliver it.
//!
//! **Cost**: n − 1 messages of the sender and n − 1 of each other member: n(n − 1).
//!
//! **Assumes** reliable channels of any order. It needs no failure detector.
//!
//! **Caveats**: a member that delivers and crashes may have been the only one. That is allowed: nothing is promised of
//! those who crash.

use conclave_core::Members;

use super::family::{EVERYONE, Multicast, everyone};
use super::layered::{LayeredConfig, Mutation, Order};
use super::ledger::{Promises, Survives};
use super::{AnyConfig, FAMILY, Reliable};
use crate::{About, Formula, SettingError, Settings};

impl Multicast for Reliable {
    const ABOUT: About = About {
        name: "reliable",
        title: "Reliable multicast",
        paper: "Hadzilacos and Toueg, A modular approach to fault-tolerant broadcasts, TR 94-1425, Cornell (1994)",
        idea: "everyone passes on what it hears for the first time",
        cost: "n(n − 1)",
        faults: "crashes of any number of processes, also inside a step",
        settings: &[EVERYONE],
        mutants: &[Mutation::NoRelay.about(), Mutation::CountCopies.about()],
        ..About::of("reliable", FAMILY)
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<AnyConfig, SettingError> {
        Ok(AnyConfig::Layered(LayeredConfig {
            everyone: everyone(settings),
            relays: true,
            order: Order::Arrival,
            mutation: Mutation::of(settings),
        }))
    }

    fn promises(_settings: &Settings) -> Promises {
        Promises::plain(Survives::Crashes)
    }

    fn formula(_settings: &Settings, n: u64) -> Formula {
        Formula::exactly("n(n − 1)", n * (n - 1))
    }
}
