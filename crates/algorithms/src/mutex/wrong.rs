//! What can be wrong with an entry or its end, before it is put into words.

use alloc::format;
use alloc::string::String;

use conclave_core::{Members, NodeId, Stamp};

use super::Fence;

/// Something that an entry breaks, or its end; processes are named by their places.
///
/// A run may break what was never promised with every entry: a sentence is made only where somebody reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// Somebody else was inside.
    BothInside { first: usize, second: usize },
    /// Its last fence was not smaller.
    OwnFenceFell { place: usize, fence: Fence, last: Fence },
    /// The fence is not its own.
    ForeignFence { place: usize, fence: Fence },
    /// The fence of an earlier entry was not smaller.
    FenceFell { place: usize, fence: Fence, last: Fence },
    /// The resource serves somebody else in the middle of its entry.
    MixedWrites { place: usize },
    /// More entries by others than promised since it was known.
    Overtaken { place: usize, times: u64 },
    /// Somebody else was known first and still waits.
    KnownLater { place: usize, first: usize },
    /// The last entry had a later stamp.
    StampFell { place: usize, stamp: Stamp, last: Stamp },
    /// It asked in knowledge of a request that still waits.
    CausedLater { place: usize, first: usize },
    /// It did not wait for it: it never asked, or has given up.
    Unasked { place: usize },
    /// It is told that it is no longer inside.
    Taken { place: usize },
}

impl Wrong {
    pub fn property(&self) -> &'static str {
        match self {
            Self::BothInside { .. } => "ME1",
            Self::OwnFenceFell { .. } | Self::ForeignFence { .. } | Self::FenceFell { .. } => "FENCE",
            Self::MixedWrites { .. } => "RES",
            Self::Overtaken { .. } => "ME4",
            Self::KnownLater { .. } => "ME5-FCFS",
            Self::StampFell { .. } => "ME5-TS",
            Self::CausedLater { .. } => "ME5-HB",
            Self::Unasked { .. } => "GRANT",
            Self::Taken { .. } => "LOST",
        }
    }

    pub fn text(&self, members: &Members) -> String {
        let name = |place: &usize| -> NodeId { members.at(*place) };
        match self {
            Self::BothInside { first, second } => {
                format!("{} and {} are both inside", name(first), name(second))
            }
            Self::OwnFenceFell { place, fence, last } | Self::FenceFell { place, fence, last } => {
                format!("{} got fence {fence} after {last}", name(place))
            }
            Self::ForeignFence { place, fence } => {
                format!("{} got the fence {fence} of another", name(place))
            }
            Self::MixedWrites { place } => {
                format!("a write of somebody else stands between two of {}", name(place))
            }
            Self::Overtaken { place, times } => format!("{} was overtaken {times} times", name(place)),
            Self::KnownLater { place, first } => {
                format!("{} was let in before {}, whose request was known first", name(place), name(first))
            }
            Self::StampFell { place, stamp, last } => {
                format!("{} entered with stamp {stamp} after {last}", name(place))
            }
            Self::CausedLater { place, first } => {
                let (later, earlier) = (name(place), name(first));
                format!("{later} asked in knowledge of the request of {earlier}, and was let in first")
            }
            Self::Unasked { place } => format!("{} was let in and did not wait for it", name(place)),
            Self::Taken { place } => {
                format!("{} was told that it is no longer inside, for no reason", name(place))
            }
        }
    }
}
