//! The roll: what everyone knew of itself when a new epoch began.
//!
//! A group that is put together again after a failure forgets all messages that were in flight, and asks each member
//! only what it can answer for itself: do you wait, are you inside? From these answers, the roll, every member makes its
//! part of the new epoch; see [`Mutex::rebuild`](super::Mutex::rebuild).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use conclave_core::{LamportClock, NodeId, Stamp};
use serde::{Deserialize, Serialize};

use super::{Epoch, Fence};

/// What a process knows of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Standing {
    /// It wants nothing.
    Idle,
    /// It has asked to enter.
    Waiting {
        /// When, by the logical clock of the group; by that of the coordinator, if it has said that the request is in
        /// its queue.
        since: Stamp,
        /// Whether it has.
        queued: bool,
    },
    /// It is inside.
    Inside {
        /// The proof that it was given.
        fence: Fence,
    },
}

/// A request that is in no queue hashes as if there were none, so that known digests of runs without queues stay.
impl Hash for Standing {
    fn hash<H: Hasher>(&self, state: &mut H) {
        core::mem::discriminant(self).hash(state);
        match self {
            Self::Idle => {}
            Self::Waiting { since, queued: false } => since.hash(state),
            Self::Waiting { since, queued: true } => (since, true).hash(state),
            Self::Inside { fence } => fence.hash(state),
        }
    }
}

/// Everyone in a new epoch, and what each knew of itself when it began.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Roll {
    /// The epoch.
    pub epoch: Epoch,
    /// Who called the roll: the coordinator, and the maker of a token.
    pub convener: NodeId,
    /// The members in their order on the ring, and how each stood. At most one of them is inside.
    pub standings: Vec<(NodeId, Standing)>,
    /// A logical time later than all stamps in the roll.
    pub clock: LamportClock,
}

#[cfg(test)]
impl Roll {
    /// Any: some wait, and perhaps one is inside.
    pub(super) fn any(dice: &mut crate::testing::Dice, members: &conclave_core::Members) -> Self {
        let n = members.len();
        let inside = (dice.below(2) == 0).then(|| members.at(dice.below(n)));
        let mut standing = |id: NodeId| match dice.below(2) {
            _ if inside == Some(id) => {
                Standing::Inside { fence: super::FenceCounter::default().enter(Epoch::FIRST, id) }
            }
            0 => Standing::Idle,
            _ => {
                let since = Stamp { time: dice.below(9) as u64, process: id };
                Standing::Waiting { since, queued: dice.below(2) == 0 }
            }
        };
        let standings = members.iter().map(|id| (id, standing(id))).collect();
        let convener = members.at(dice.below(n));
        Self { epoch: Epoch::FIRST.next(convener), convener, standings, clock: LamportClock::default() }
    }
}

impl Roll {
    /// Whether it names each member once, and at most one of them inside; only a liar's does not.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let names: BTreeSet<_> = self.standings.iter().map(|(id, _)| *id).collect();
        let is_inside = |(_, standing): &&(NodeId, Standing)| matches!(standing, Standing::Inside { .. });
        let own = |(id, standing): &(NodeId, Standing)| match standing {
            Standing::Waiting { since, .. } => since.process == *id,
            Standing::Idle | Standing::Inside { .. } => true,
        };
        names.len() == self.standings.len()
            && names.contains(&self.convener)
            && self.standings.iter().filter(is_inside).count() <= 1
            && self.standings.iter().all(own)
    }

    /// How a member stood.
    #[must_use]
    pub fn standing(&self, id: NodeId) -> Option<Standing> {
        self.standings.iter().find(|(member, _)| *member == id).map(|(_, standing)| *standing)
    }

    /// Who is inside, and with which fence.
    #[must_use]
    pub fn inside(&self) -> Option<(NodeId, Fence)> {
        self.standings.iter().find_map(|(id, standing)| match standing {
            Standing::Inside { fence } => Some((*id, *fence)),
            Standing::Idle | Standing::Waiting { .. } => None,
        })
    }

    /// The requests of those who wait, the earliest first.
    #[must_use]
    pub fn waiting(&self) -> Vec<Stamp> {
        let since = |(_, standing): &(NodeId, Standing)| match standing {
            Standing::Waiting { since, .. } => Some(*since),
            Standing::Idle | Standing::Inside { .. } => None,
        };
        let mut waiting: Vec<_> = self.standings.iter().filter_map(since).collect();
        waiting.sort_unstable();
        waiting
    }

    /// Those who wait in the order in which a coordinator serves them: first those of whom the last coordinator has said
    /// that they are in its queue, in that order, then those of whom nobody knows whether it had heard of them.
    #[must_use]
    pub fn queue(&self) -> Vec<NodeId> {
        let place = |(_, standing): &(NodeId, Standing)| match standing {
            Standing::Waiting { since, queued } => Some((!queued, *since)),
            Standing::Idle | Standing::Inside { .. } => None,
        };
        let mut places: Vec<_> = self.standings.iter().filter_map(place).collect();
        places.sort_unstable();
        places.into_iter().map(|(_, since)| since.process).collect()
    }

    /// All requests that are not over, in the order in which they are served: that of the process inside, which gets a
    /// stamp before all others, then those of the waiting.
    #[must_use]
    pub fn requests(&self) -> Vec<Stamp> {
        let mut requests = self.waiting();
        if let Some((process, _)) = self.inside() {
            let time = requests.first().map_or(self.clock.time(), |first| first.time).saturating_sub(1);
            requests.insert(0, Stamp { time, process });
        }
        requests
    }

    /// Where the token of the new epoch is: with the process inside, else with whoever made it.
    #[must_use]
    pub fn keeper(&self) -> NodeId {
        self.inside().map_or(self.convener, |(id, _)| id)
    }

    /// Who enters next: whoever asked first, if nobody is inside.
    #[must_use]
    pub fn next(&self) -> Option<NodeId> {
        match self.inside() {
            Some(_) => None,
            None => self.waiting().first().map(|stamp| stamp.process),
        }
    }
}
