//! A multicast that is chosen by name when a process starts: one type for all, so that drivers are compiled once.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt::{Debug, Formatter};
use core::hash::{Hash, Hasher};

use conclave_core::{
    Boot, Counter, Effect, Effects, Input, Members, Message, NodeId, Phase, Protocol, Through, erased,
};
use serde::{Deserialize, Serialize};

use super::isis::{Isis, IsisConfig};
use super::lamport_stamps::{LamportStamps, LamportStampsConfig};
use super::layered::Layered;
use super::views::{LedViews as Views, ViewsConfig};
use super::{Event, Request};
use crate::{Setting, SettingError, Settings, Values};

any! {
    AnyMulticast, AnyConfig, AnyMessage, AnyTimer, AnyDurable,
    asked: Request, told: Event, foreign: "a message of another multicast",
    Layered => Box<Layered>,
    Isis => Box<Isis>,
    LamportStamps => Box<LamportStamps>,
    Views => Box<Views>,
}

impl AnyConfig {
    /// The setting of whatever embeds a total order.
    pub const ORDER: Setting = Setting {
        key: "order",
        values: Values::OneOf(&["sequencer", "isis", "lamport-stamps"]),
        default: "sequencer",
        unsafe_values: &[],
        help: "which multicast puts all posts into one order",
    };

    /// Reads the setting: a group of all these members, which nobody joins. It can last long: what all have delivered is
    /// forgotten.
    ///
    /// # Errors
    /// If the election of the sequencer cannot be set up among these members.
    pub fn ordered(settings: &Settings, members: &Members) -> Result<Self, SettingError> {
        match settings.get(Self::ORDER.key) {
            "isis" => Ok(Self::Isis(IsisConfig::everyone())),
            "lamport-stamps" => Ok(Self::LamportStamps(LamportStampsConfig::everyone())),
            _ => ViewsConfig::lasting(settings, members),
        }
    }
}
