//! Mutual exclusion: at most one process at a time is inside the critical section of a lock.
//!
//! ```text
//!            Acquire                 Granted
//!   idle ─────────────▶ waiting ─────────────▶ holding
//!    ▲        Cancel       │                      │
//!    ├─────────────────────┘        Release       │
//!    └────────────────────────────────────────────┘
//! ```

use alloc::format;
use alloc::string::String;
use core::fmt::{Debug, Display, Formatter};
use core::ops::RangeInclusive;
use core::str::FromStr;

use conclave_core::{Boot, Counter, Effects, Members, NodeId, Phase, Protocol, Space, Stamp};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Formula;
pub use crate::demand::Load;
use crate::dynamic::read;

mod app;
mod boxed;
mod carvalho_roucairol;
mod causal;
mod central;
mod desk;
mod family;
mod judgements;
mod lamport;
mod ledger;
mod lives;
mod locks;
mod lodha_kshemkalyani;
mod maekawa;
mod majority;
mod meter;
mod order;
mod outages;
mod properties;
mod queue;
mod quorum;
mod raymond;
mod resource;
mod ricart_agrawala;
mod ricart_agrawala_token;
mod roll;
mod singhal;
mod stamps;
mod suzuki_kasami;
mod times;
mod token_ring;
mod tokens;
mod total_order;
mod tree;
mod users;
mod wrong;

pub use app::Entering;
pub use boxed::{Boxed, BoxedConfig};
pub use carvalho_roucairol::CarvalhoRoucairol;
pub use central::Central;
pub use desk::LocksDesk;
pub use family::{FAMILY, Locking, Of, prepared};
pub use lamport::Lamport;
pub use ledger::{Ledger, Scope};
pub use locks::Locks;
pub use lodha_kshemkalyani::LodhaKshemkalyani;
pub use maekawa::Maekawa;
pub use majority::Majority;
pub use meter::{LockMeter, LockReport, OutageReport};
pub use outages::{Fault, Outage, Outages};
pub use properties::Properties;
pub use quorum::Quorums;
pub use raymond::Raymond;
pub use resource::Guard;
pub use ricart_agrawala::RicartAgrawala;
pub use ricart_agrawala_token::RicartAgrawalaToken;
pub use roll::{Roll, Standing};
pub use singhal::Singhal;
pub use suzuki_kasami::SuzukiKasami;
pub use times::EntryTimes;
pub use token_ring::TokenRing;
pub use total_order::TotalOrder;
pub use tree::Tree;
pub use users::Entries;

/// What an application may ask of a lock. A process has at most one request outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Request {
    /// Let me in.
    Acquire,
    /// I am out.
    Release,
    /// I no longer want to get in.
    Cancel,
    /// I want to leave the group for good. Only a group that recovers can let somebody go; see
    /// [`Recovering`](crate::Recovering).
    Leave,
}

impl Request {
    /// Whether it makes sense to a process in this phase. What does not is refused.
    ///
    /// Nobody can leave a group that does not recover.
    pub(crate) fn fits(self, phase: Phase) -> bool {
        match self {
            Self::Acquire => phase == Phase::IDLE,
            Self::Release => phase == Phase::HOLDING,
            Self::Cancel => phase == Phase::WAITING,
            Self::Leave => false,
        }
    }
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

/// What begins again when a group is put together again: the reign of a coordinator, the life of a token.
///
/// Two processes that both believe that they have to repair the group make different epochs, and everyone can tell
/// which of them counts.
///
/// Where people read it, it is one word, `0` or `1p5`; elsewhere two numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
        if *self == Self::FIRST { f.write_str("0") } else { write!(f, "{}{}", self.number, self.creator) }
    }
}

/// A text that is not an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an epoch is written 0 or 1p5")]
pub struct NotAnEpoch;

impl FromStr for Epoch {
    type Err = NotAnEpoch;

    fn from_str(text: &str) -> Result<Self, NotAnEpoch> {
        if text == "0" {
            return Ok(Self::FIRST);
        }
        let (number, creator) = text.split_once('p').ok_or(NotAnEpoch)?;
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(number) || !digits(creator) {
            return Err(NotAnEpoch);
        }
        let number = number.parse().map_err(|_| NotAnEpoch)?;
        let creator = creator.parse().map(NodeId).map_err(|_| NotAnEpoch)?;
        Ok(Self { number, creator })
    }
}

impl Serialize for Epoch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            (self.number, self.creator).serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Epoch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return String::deserialize(deserializer)?.parse().map_err(D::Error::custom);
        }
        let (number, creator) = Deserialize::deserialize(deserializer)?;
        Ok(Self { number, creator })
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

    /// A text that sorts as fences do, for whoever can compare nothing but texts.
    #[must_use]
    pub fn sortable(&self) -> String {
        let Self { epoch, counter, process } = self;
        format!("{:020}.{:010}.{counter:020}.{:010}", epoch.number, epoch.creator.0, process.0)
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

    /// The same, where every process counts all entries and tells nobody: then all counts move together.
    fn exact(&mut self) -> Counter<'_> {
        Counter::exact(FENCE, &mut self.0)
    }
}

/// What fences are counted in.
const FENCE: Space = Space::shared("fence");
/// What epochs are counted in, where an algorithm begins new ones forever.
const EPOCH: Space = Space::shared("epoch");

/// An algorithm for mutual exclusion.
pub trait Mutex:
    Protocol<Request = Request, Event = Event, Message: DeserializeOwned, Durable: DeserializeOwned>
{
    /// What it promises beyond safety and progress; nothing, unless it says so.
    fn promises(_config: &Self::Config, _members: &Members) -> Promises {
        Promises::NOTHING
    }

    /// How many messages a run must have cost; any number, unless it says so.
    fn formula(_config: &Self::Config, _members: &Members, _tally: &Tally<'_>) -> Formula {
        Formula { text: "not stated", low: 0, high: None }
    }

    /// How many messages a run of this kind costs on average, where the literature gives a mean within the bounds of
    /// the formula.
    fn mean(_config: &Self::Config, _members: &Members, _tally: &Tally<'_>) -> Option<f64> {
        None
    }

    /// How many messages, one after the other, stand between a request and its grant if nobody else competes.
    fn client_hops(_config: &Self::Config, _members: &Members, _requester: NodeId) -> RangeInclusive<u32> {
        0..=u32::MAX
    }

    /// Makes the process of a new epoch from what everyone knew of itself in the old one.
    ///
    /// All members are made from the same roll, so that each can work out what the others know: requests of the roll
    /// count as known to all, the process inside (if any) stays inside, and a token is where [`Roll::keeper`] says.
    /// What must happen now (a grant, a token to be passed on) is pushed. Nothing of older epochs will arrive.
    /// `boot.members` are the members of the new epoch.
    fn rebuild(boot: Boot<'_, Self>, roll: &Roll, out: &mut impl Effects<Self>) -> Self;

    /// Whether the group may change while it runs: newcomers are let in, and who asks to leave is let go.
    const CHANGES_GROUP: bool = false;

    /// Whether the right to enter may be a token that moves.
    const MOVES_TOKEN: bool = false;

    /// Whether the right to enter is a token that moves, set up so.
    fn moves_token(_config: &Self::Config) -> bool {
        Self::MOVES_TOKEN
    }

    /// The token that this process has, by its epoch.
    fn token(&self) -> Option<Epoch> {
        None
    }

    /// The token that this message carries, by its epoch. A copy sent once more because the first may be lost does not
    /// count.
    fn token_in(_message: &Self::Message) -> Option<Epoch> {
        None
    }

    /// Reads a message as postcard writes it; nothing if it is none.
    fn read(_config: &Self::Config, bytes: &[u8]) -> Option<Self::Message> {
        read(bytes)
    }

    /// Whether its visitor of counters reaches the numbers of epochs.
    fn counts_epochs(_config: &Self::Config) -> bool {
        false
    }

    /// The latest epoch that this process has heard of, where the algorithm begins epochs of its own.
    fn epoch_seen(&self) -> Epoch {
        Epoch::FIRST
    }

    /// A peer that this process has found to be dead by its own means.
    fn suspected(&self) -> Option<NodeId> {
        None
    }

    /// Whether the group may be put together again only with the consent of a majority, so that safety does not depend
    /// on the failure detector.
    fn needs_majority(_config: &Self::Config) -> bool {
        false
    }

    /// Whether one process keeps the queue of all requests, and tells those who wait that they are in it. A group that
    /// recovers keeps to their order then.
    fn tells_queue(_config: &Self::Config) -> bool {
        false
    }

    /// Whether this process keeps the queue.
    fn keeps_queue(&self) -> bool {
        false
    }

    /// Whether our request waits in it, as far as we know.
    fn is_queued(&self) -> bool {
        false
    }

    /// Whether nothing can be done before a leader is elected. Then the algorithm runs only in a group that recovers, which
    /// holds an election when somebody asks for the first time.
    fn begins_unled(_config: &Self::Config) -> bool {
        false
    }

    /// The settings of a group that this process leads from the beginning.
    fn led_by(config: &Self::Config, _leader: NodeId) -> Self::Config {
        config.clone()
    }

    /// The settings of a lock that is there only once somebody speaks of it, as one of many by name.
    fn on_demand(config: Self::Config) -> Self::Config {
        config
    }

    /// Whether messages travel forever although nobody wants anything.
    fn is_restless(_config: &Self::Config) -> bool {
        false
    }

    /// Whether a request that is not granted is made again and again, each time with larger numbers.
    fn asks_again(_config: &Self::Config) -> bool {
        false
    }

    /// The stamp of the request that this message announces, if the algorithm stamps its requests.
    fn announced(_from: NodeId, _message: &Self::Message) -> Option<Stamp> {
        None
    }
}

crate::registry::family! {
    /// An algorithm for mutual exclusion, given to whoever learnt its name at run time.
    Mutex {
        Central,
        Lamport,
        RicartAgrawala,
        CarvalhoRoucairol,
        LodhaKshemkalyani,
        Maekawa,
        Majority,
        RicartAgrawalaToken,
        SuzukiKasami,
        TokenRing,
        Raymond,
        Singhal,
        TotalOrder,
    }
}

/// What an algorithm for mutual exclusion promises beyond safety (ME1) and progress (ME2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

impl Promises {
    /// Nothing beyond safety and progress.
    pub const NOTHING: Self = Self {
        no_starvation: false,
        overtaking: None,
        arrival_order: false,
        stamp_order: false,
        causal_order: false,
        survives_suspicion: false,
    };
}

/// What a finished run consisted of, as far as a formula needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Tally<'a> {
    /// How hard the processes pressed.
    pub load: Load,
    /// How many locks there were; the entries are those into all of them.
    pub locks: u64,
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn epochs_are_written_in_one_word() {
        let fence = Fence { epoch: Epoch::FIRST, counter: 3, process: NodeId(2) };
        assert_eq!(serde_json::to_string(&fence).unwrap(), r#"{"epoch":"0","counter":3,"process":2}"#);
        let next = Fence { epoch: Epoch::FIRST.next(NodeId(5)), ..fence };
        assert_eq!(serde_json::to_string(&next).unwrap(), r#"{"epoch":"1p5","counter":3,"process":2}"#);
        for wrong in ["", "1", "p", "1p", "p5", "+1p5", "1p+5", "1pp5", "1p5 ", "1p4294967296"] {
            assert_eq!(wrong.parse::<Epoch>(), Err(NotAnEpoch), "{wrong}");
        }
    }

    proptest! {
        /// Whatever a peer makes of it, an epoch comes back as it was written.
        #[test]
        fn epochs_are_read_as_they_are_written(number: u64, creator: u32) {
            for number in [0, number] {
                let epoch = Epoch { number, creator: NodeId(creator) };
                let json = serde_json::to_string(&epoch).unwrap();
                prop_assert_eq!(serde_json::from_str::<Epoch>(&json).unwrap(), epoch);
            }
        }

        /// Texts compare as the fences that they are of.
        #[test]
        fn fences_sort_as_texts(one: (u64, u32, u64, u32), other: (u64, u32, u64, u32)) {
            let fence = |(number, creator, counter, process)| {
                let epoch = Epoch { number, creator: NodeId(creator) };
                Fence { epoch, counter, process: NodeId(process) }
            };
            // Those that have much in common, too.
            for other in [other, (one.0, one.1, other.2, other.3), (one.0, other.1, other.2, one.3)] {
                let (one, other) = (fence(one), fence(other));
                prop_assert_eq!(one.sortable().cmp(&other.sortable()), one.cmp(&other));
            }
        }
    }
}
