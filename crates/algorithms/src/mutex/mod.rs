//! Mutual exclusion: at most one process at a time is inside the critical section of a lock.
//!
//! ```text
//!            Acquire                 Granted
//!   idle ─────────────▶ waiting ─────────────▶ holding
//!    ▲        Cancel       │                      │
//!    ├─────────────────────┘        Release       │
//!    └────────────────────────────────────────────┘
//! ```

use core::fmt::{Debug, Display, Formatter};
use core::ops::RangeInclusive;

use conclave_core::{Boot, Counter, Effects, Members, NodeId, Protocol, Space, Stamp};
use serde::{Deserialize, Serialize};

use crate::{Algorithm, Formula};

mod carvalho_roucairol;
mod causal;
mod central;
mod lamport;
mod maekawa;
mod majority;
mod properties;
mod queue;
mod quorum;
mod raymond;
mod resource;
mod ricart_agrawala;
mod roll;
mod singhal;
mod tokens;
mod tree;

pub use carvalho_roucairol::CarvalhoRoucairol;
pub use central::Central;
pub use lamport::Lamport;
pub use maekawa::Maekawa;
pub use majority::Majority;
pub use properties::{Locks, Properties};
pub use quorum::Quorums;
pub use raymond::Raymond;
pub use resource::Guard;
pub use ricart_agrawala::RicartAgrawala;
pub use roll::{Roll, Standing};
pub use singhal::Singhal;
pub use tree::Tree;

/// What an application may ask of a lock. A process has at most one request outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Request {
    /// Let me in.
    Acquire,
    /// I am out.
    Release,
    /// I no longer want to get in.
    Cancel,
    /// I want to leave the group for good. Only a group that mends itself can let somebody go; see
    /// [`Recovering`](crate::Recovering).
    Leave,
}

/// What an application is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Event {
    /// You are in.
    Granted {
        /// The proof of it, larger than all before.
        fence: Fence,
    },
    /// The request made no sense at this moment (a second `Acquire`, a `Release` outside); nothing has changed.
    Refused(Request),
    /// You are no longer in: the group took you for dead, or a lease has run out, and somebody else may be inside.
    Lost {
        /// The proof that no longer counts.
        fence: Fence,
    },
    /// You are no longer a member of the group.
    Left,
}

/// A fencing token: every entry carries one that is larger than those of all entries before it.
///
/// A resource that remembers the largest fence it has seen can refuse a holder that no longer is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fence {
    /// The reign of a coordinator or the life of a token.
    pub epoch: Epoch,
    /// The number of the entry.
    pub counter: u64,
    /// Who entered: even two processes that were both misled never share a fence.
    pub process: NodeId,
}

/// What begins anew when a group is put together again: the reign of a coordinator, the life of a token.
///
/// Two processes that both believe that they have to repair the group make different epochs, and everyone can tell
/// which of them counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch {
    /// One more than all that its maker had heard of; 0 before the first failure.
    pub number: u64,
    /// Who began it.
    pub creator: NodeId,
}

impl Epoch {
    /// Before the first failure.
    pub const FIRST: Self = Self { number: 0, creator: NodeId(0) };

    /// An epoch after this one.
    #[must_use]
    pub fn next(self, creator: NodeId) -> Self {
        Self { number: self.number.saturating_add(1), creator }
    }
}

impl Default for Epoch {
    fn default() -> Self {
        Self::FIRST
    }
}

/// `0`, then `1p5`: the first epoch after that, begun by p5.
impl Display for Epoch {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        match self.number {
            0 => f.write_str("0"),
            number => write!(f, "{number}{}", self.creator),
        }
    }
}

impl Debug for Epoch {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        Display::fmt(self, f)
    }
}

impl Fence {
    /// The number of the entry, for the visitor of counters; see [`FenceCounter::counter`].
    pub fn counter(&mut self) -> Counter<'_> {
        Counter::bound(FENCE, &mut self.counter)
    }
}

impl Display for Fence {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{}.{}", self.epoch, self.counter, self.process.0)
    }
}

/// The largest fence counter that a process knows of; where no coordinator counts the entries, it travels with the
/// messages that give permission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FenceCounter(u64);

impl FenceCounter {
    /// Takes note of a counter that somebody else knows.
    #[inline]
    pub fn witness(&mut self, other: Self) {
        self.0 = self.0.max(other.0);
    }

    /// The fence of a new entry.
    #[inline]
    pub fn enter(&mut self, epoch: Epoch, process: NodeId) -> Fence {
        self.0 = self.0.saturating_add(1);
        Fence { epoch, counter: self.0, process }
    }

    /// The number, for the visitor of counters: it only ever serves to find the largest.
    pub fn counter(&mut self) -> Counter<'_> {
        Counter::bound(FENCE, &mut self.0)
    }
}

/// What fences are counted in.
const FENCE: Space = Space::shared("fence");

/// An algorithm for mutual exclusion.
pub trait Mutex: Algorithm + Protocol<Request = Request, Event = Event> {
    /// What it promises beyond safety and progress.
    fn promises(config: &Self::Config, members: &Members) -> Promises;

    /// How many messages a run must have cost.
    fn formula(config: &Self::Config, members: &Members, tally: &Tally<'_>) -> Formula;

    /// How many messages a run of this kind costs on average, where the literature gives a mean within the bounds of
    /// the formula.
    fn mean(_config: &Self::Config, _members: &Members, _tally: &Tally<'_>) -> Option<f64> {
        None
    }

    /// How many messages, one after the other, stand between a request and its grant if nobody else competes.
    fn client_hops(config: &Self::Config, members: &Members, requester: NodeId) -> RangeInclusive<u32>;

    /// Makes the process of a new epoch from what everyone knew of itself in the old one.
    ///
    /// All members are made from the same roll, so that each can work out what the others know: requests of the roll
    /// count as known to all, the process inside (if any) stays inside, and a token is where [`Roll::keeper`] says.
    /// What must happen now (a grant, a token to be passed on) is pushed. Nothing of older epochs will arrive.
    /// `boot.members` are the members of the new epoch.
    fn rebuild(boot: Boot<'_, Self>, roll: &Roll, out: &mut impl Effects<Self>) -> Self;

    /// Whether the right to enter is a token that moves.
    const MOVES_TOKEN: bool = false;

    /// The token that this process has, by its epoch.
    fn token(&self) -> Option<Epoch> {
        None
    }

    /// The token that this message carries, by its epoch. A copy sent once more because the first may be lost does not
    /// count.
    fn token_in(_message: &Self::Message) -> Option<Epoch> {
        None
    }

    /// Whether messages travel for ever although nobody wants anything.
    fn is_restless(_config: &Self::Config) -> bool {
        false
    }

    /// The stamp of the request that this message announces, if the algorithm stamps its requests.
    fn announced(_from: NodeId, _message: &Self::Message) -> Option<Stamp> {
        None
    }
}

/// What an algorithm for mutual exclusion promises beyond safety (ME1) and progress (ME2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// Every request is granted at last (ME3), however the schedule goes.
    pub no_starvation: bool,
    /// At most so many entries by others between a request that is known and its grant (ME4).
    pub overtaking: Option<u64>,
    /// Grants follow the arrival of the requests (ME5-FCFS).
    pub arrival_order: bool,
    /// Grants follow the stamps of the requests (ME5-TS).
    pub stamp_order: bool,
    /// Grants follow the happened-before order of the requests (ME5-HB).
    pub causal_order: bool,
    /// Safety holds even where a failure detector calls the living dead.
    pub survives_suspicion: bool,
}

/// How hard the processes press.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Load {
    /// One request at a time, the next when all is quiet.
    Light,
    /// Requests come when they come.
    Open,
    /// Everyone asks again as soon as it is out.
    Saturated,
}

/// What a finished run consisted of, as far as a formula needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Tally<'a> {
    /// How hard the processes pressed.
    pub load: Load,
    /// Entries of each process, in the order of the members.
    pub entries: &'a [u64],
    /// How many of them were not granted in direct answer to their own request: the lock was taken.
    pub waited: &'a [u64],
    /// How many of them needed no message: what lets one in was at hand.
    pub at_hand: &'a [u64],
}

impl Tally<'_> {
    /// Entries of all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.entries.iter().sum()
    }
}
