//! Values whose types are not known: what stands in the boxes of [`erased`](crate::erased) and of
//! [`Boxed`](crate::mutex::Boxed).

use alloc::boxed::Box;
use alloc::string::String;
use core::any::Any;
use core::cmp::Ordering;
use core::fmt::Debug;
use core::hash::{Hash, Hasher};

use conclave_core::{Counter, Members, Message, NodeId};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value that takes up all of these bytes. The format is fixed: a reader of any format would be far more code per type.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    postcard::take_from_bytes(bytes).ok().and_then(|(value, rest)| rest.is_empty().then_some(value))
}

/// The value inside.
///
/// # Panics
/// If it belongs to another algorithm: the values of two runs were mixed up.
pub(crate) fn typed<T: 'static>(value: &dyn Any) -> &T {
    value.downcast_ref().expect("a value stays with its algorithm")
}

/// A value of any type.
pub(crate) trait Value: Any + Debug + Send + Sync {
    fn equals(&self, other: &dyn Any) -> bool;
    fn feed(&self, hasher: &mut dyn Hasher);
}

impl<T: Any + Debug + Eq + Hash + Send + Sync> Value for T {
    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<T>() == Some(self)
    }

    fn feed(&self, mut hasher: &mut dyn Hasher) {
        self.hash(&mut hasher);
    }
}

/// A value that has an order.
pub(crate) trait Ranked: Value {
    fn rank(&self, other: &dyn Any) -> Ordering;
}

impl<T: Value + Ord> Ranked for T {
    fn rank(&self, other: &dyn Any) -> Ordering {
        self.cmp(typed(other))
    }
}

/// A value that can be written down.
pub(crate) trait Saved: Value + erased_serde::Serialize {}

impl<T: Value + Serialize> Saved for T {}

/// A message.
pub(crate) trait Letter: Ranked + Saved {
    fn copy(&self) -> Box<dyn Letter>;
    fn kind(&self) -> &'static str;
    fn is_overhead(&self) -> bool;
    fn envelopes(&self) -> u32;
    fn postmark(&self) -> String;
    fn visit_counters(&mut self, from: NodeId, members: &Members, visit: &mut dyn FnMut(Counter<'_>));
}

impl<M: Message> Letter for M {
    fn copy(&self) -> Box<dyn Letter> {
        Box::new(self.clone())
    }

    fn kind(&self) -> &'static str {
        Message::kind(self)
    }

    fn is_overhead(&self) -> bool {
        Message::is_overhead(self)
    }

    fn envelopes(&self) -> u32 {
        Message::envelopes(self)
    }

    fn postmark(&self) -> String {
        Message::postmark(self)
    }

    fn visit_counters(&mut self, from: NodeId, members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        Message::visit_counters(self, from, members, visit);
    }
}

/// Types with a `value` in a box compare, hash and print like the value inside.
macro_rules! transparent {
    ($($name:ident),+ $(,)?) => {$(
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.value.equals(&*other.value)
            }
        }

        impl Eq for $name {}

        impl core::hash::Hash for $name {
            fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
                self.value.feed(state);
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Debug::fmt(&*self.value, f)
            }
        }
    )+};
}

/// They have the order of the value inside.
macro_rules! ordered {
    ($($name:ident),+ $(,)?) => {$(
        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> core::cmp::Ordering {
                self.value.rank(&*other.value)
            }
        }
    )+};
}

/// They are written down like the value inside.
macro_rules! serialised {
    ($($name:ident),+ $(,)?) => {$(
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                erased_serde::serialize(&*self.value, serializer)
            }
        }
    )+};
}

/// Bytes do not say of which algorithm they are: a box is read with its configuration at hand, and never without.
macro_rules! unreadable {
    ($($name:ident),+ $(,)?) => {$(
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(_deserializer: D) -> Result<Self, D::Error> {
                Err(serde::de::Error::custom("it cannot be read without knowing its algorithm"))
            }
        }
    )+};
}

pub(crate) use {ordered, serialised, transparent, unreadable};
