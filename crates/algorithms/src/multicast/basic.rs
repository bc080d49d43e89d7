//! Basic multicast: the sender sends to every member, one after the other.
//!
//! ```text
//!   p1 sends   p2         p3         p4
//!    │ ─ Data ─▶│          │          │      every member delivers what arrives
//!    │ ─ Data ────────────▶│          │
//!    ✗                                       p4 never hears of it
//! ```
//!
//! **Cost**: one message for every other member, n − 1 if everyone is one.
//!
//! **Assumes** reliable channels of any order.
//!
//! **Caveats**: a sender that crashes half-way leaves a post with some members only. `judged=reliable` holds that
//! against it: this is the negative control of AGREEMENT.

use conclave_core::Members;

use super::family::{EVERYONE, Multicast, everyone};
use super::layered::{LayeredConfig, Mutation, Order};
use super::ledger::{Promises, Survives};
use super::{AnyConfig, Basic, FAMILY};
use crate::{About, Formula, Setting, SettingError, Settings, Values};

impl Multicast for Basic {
    const ABOUT: About = About {
        name: "basic",
        title: "Basic multicast",
        paper: "Coulouris, Dollimore, Kindberg and Blair, Distributed Systems, Concepts and Design, 5th ed. (2012)",
        idea: "one message to every member",
        cost: "n − 1",
        faults: "none: a sender that crashes half-way leaves members without a post",
        settings: &[
            EVERYONE,
            Setting {
                key: "judged",
                values: Values::OneOf(&["basic", "reliable"]),
                default: "basic",
                unsafe_values: &["reliable"],
                help: "reliable: what reliable multicast promises is held against it",
            },
        ],
        mutants: &[Mutation::ForgetOwn.about(), Mutation::SkipLast.about()],
        ..About::of("basic", FAMILY)
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<AnyConfig, SettingError> {
        Ok(AnyConfig::Layered(LayeredConfig {
            everyone: everyone(settings),
            relays: false,
            order: Order::Arrival,
            mutation: Mutation::of(settings),
        }))
    }

    fn promises(settings: &Settings) -> Promises {
        let survives =
            if settings.get("judged") == "reliable" { Survives::Crashes } else { Survives::WholeSteps };
        Promises { once: false, ..Promises::plain(survives) }
    }

    fn formula(_settings: &Settings, n: u64) -> Formula {
        Formula::exactly("n − 1", n - 1)
    }
}
