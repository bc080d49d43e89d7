//! Causal multicast: a post is delivered after everything that its sender had delivered when it sent it.
//!
//! Each post carries the last post of each other sender that its sender knew: a vector clock without the entries that are 0. A
//! member holds a post back until it has delivered these, and all earlier ones of the same sender.
//!
//! ```text
//!   p1             p2                    p3
//!    │ ─ 1.1 ──────▶│                     │
//!    │ ─ 1.1 ───────────────────────────────────╮
//!                   │ ─ 2.1 after 1.1 ───▶│     │   held back
//!                                         │◀────╯   1.1 is delivered, then 2.1
//! ```
//!
//! **Cost**: that of the layer below, `over=reliable` or `over=basic`.
//!
//! **Caveats**: posts of which no sender knew the other are delivered in any order. Over basic multicast a post that is lost
//! with its sender holds up all that follow from it.

use conclave_core::Members;

use super::family::{EVERYONE, Multicast, OVER, everyone, layer_below};
use super::layered::{LayeredConfig, Mutation, Order};
use super::ledger::Promises;
use super::{AnyConfig, Causal, FAMILY};
use crate::{About, Formula, SettingError, Settings};

impl Multicast for Causal {
    const ABOUT: About = About {
        name: "causal",
        title: "Causal multicast",
        paper: "Birman, Schiper and Stephenson, Lightweight causal and atomic group multicast, ACM TOCS 9(3) (1991)",
        idea: "posts tell what their sender knew, and wait for it",
        cost: "that of the layer below",
        faults: "over=reliable: crashes; over=basic: none",
        settings: &[EVERYONE, OVER],
        mutants: &[Mutation::OwnEntryOnly.about(), Mutation::BlankStamp.about()],
        ..About::of("causal", FAMILY)
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<AnyConfig, SettingError> {
        Ok(AnyConfig::Layered(LayeredConfig {
            everyone: everyone(settings),
            relays: layer_below(settings).relays,
            order: Order::Causal,
            mutation: Mutation::of(settings),
        }))
    }

    fn promises(settings: &Settings) -> Promises {
        Promises { fifo: true, causal: true, ..Promises::plain(layer_below(settings).survives) }
    }

    fn formula(settings: &Settings, n: u64) -> Formula {
        layer_below(settings).formula(n)
    }
}
