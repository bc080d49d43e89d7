//! FIFO multicast: what one process sends is delivered in the order in which it was sent.
//!
//! Each sender numbers its posts. A member delivers the post that follows the last one of the same sender, and holds back
//! those that came too early.
//!
//! ```text
//!   p1         p2
//!    │ ─ Data 1.1 ─╮
//!    │ ─ Data 1.2 ─┼▶│   held back
//!    │             ╰▶│   1.1 is delivered, then 1.2
//! ```
//!
//! **Cost**: that of the layer below, `over=reliable` or `over=basic`.
//!
//! **Caveats**: posts of different senders are delivered in any order, also where one answers the other.

use conclave_core::Members;

use super::family::{EVERYONE, Multicast, OVER, everyone, layer_below};
use super::layered::{LayeredConfig, Mutation, Order};
use super::ledger::Promises;
use super::{AnyConfig, FAMILY, Fifo};
use crate::{About, Formula, SettingError, Settings};

impl Multicast for Fifo {
    const ABOUT: About = About {
        name: "fifo",
        title: "FIFO multicast",
        paper: "Hadzilacos and Toueg, A modular approach to fault-tolerant broadcasts, TR 94-1425, Cornell (1994)",
        idea: "posts are numbered by their sender, and held back",
        cost: "that of the layer below",
        faults: "over=reliable: crashes; over=basic: none",
        settings: &[EVERYONE, OVER],
        mutants: &[Mutation::NoHold.about(), Mutation::DropOvertaken.about()],
        ..About::of("fifo", FAMILY)
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<AnyConfig, SettingError> {
        Ok(AnyConfig::Layered(LayeredConfig {
            everyone: everyone(settings),
            relays: layer_below(settings).relays,
            order: Order::Fifo,
            mutation: Mutation::of(settings),
        }))
    }

    fn promises(settings: &Settings) -> Promises {
        Promises { fifo: true, ..Promises::plain(layer_below(settings).survives) }
    }

    fn formula(settings: &Settings, n: u64) -> Formula {
        layer_below(settings).formula(n)
    }
}
