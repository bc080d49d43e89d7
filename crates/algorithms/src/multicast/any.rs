//! A multicast that is chosen by name when a process starts: one type for all, so that drivers are compiled once.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt::{Debug, Formatter};
use core::hash::{Hash, Hasher};

use conclave_core::{
    Boot, Counter, Effect, Effects, Input, Members, Message, NodeId, Phase, Protocol, Through, erased,
};
use serde::{Deserialize, Serialize};

use super::isis::Isis;
use super::lamport_stamps::LamportStamps;
use super::layered::Layered;
use super::views::LedViews as Views;
use super::{Event, Request};

any! {
    AnyMulticast, AnyConfig, AnyMessage, AnyTimer, AnyDurable,
    asked: Request, told: Event, foreign: "a message of another multicast",
    Layered => Box<Layered>,
    Isis => Box<Isis>,
    LamportStamps => Box<LamportStamps>,
    Views => Box<Views>,
}
