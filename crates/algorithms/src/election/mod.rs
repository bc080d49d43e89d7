//! Elections: all processes agree on one of them, again after every failure.
//!
//! ```text
//!            Start, or a message          Elected
//!   idle ─────────────────────▶ electing ─────────▶ following, or leading
//!                                  ▲                     │
//!                                  └─────────────────────┘  the leader is suspected, retires, or is overruled
//! ```

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use conclave_core::{Members, NodeId, Phase, Protocol, Space};
use serde::{Deserialize, Serialize};

use crate::{Algorithm, Formula, Setting, Settings, Values};

mod any;
mod bully;
mod chang_roberts;
mod changing;
mod desk;
mod family;
mod handoff;
mod ledger;
mod meter;
mod on_ring;
mod properties;
mod ring;
mod ring_active_list;
mod ring_ballot;
mod ring_k_leaders;
mod ring_list;
#[cfg(test)]
mod trials;

pub use any::{AnyConfig, AnyDurable, AnyElection, AnyMessage, AnyTimer};
pub use bully::Bully;
pub use chang_roberts::ChangRoberts;
pub use changing::{AFTER, Changing, GROUP};
pub use desk::LeadersDesk;
pub use family::{Electing, FAMILY, Of};
pub use handoff::{HANDOFF, Receipt, RingTimer};
pub use ledger::Ledger;
pub use meter::{ElectionMeter, ElectionOutcome, ElectionReport};
pub use properties::Properties;
pub use ring_active_list::RingActiveList;
pub use ring_ballot::{Ballot, RingBallot};
pub use ring_k_leaders::RingKLeaders;
pub use ring_list::RingList;

/// What an application may ask of an election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Request {
    /// The leader is missing: hold an election. Nothing happens if one is under way here.
    #[default]
    Start,
    /// I no longer want to lead, and shall not be elected again in this life.
    Retire,
    /// I leave the group. Nothing happens where the group is fixed; see [`Changing`].
    Leave,
    /// From now on my weight is this. Nothing happens where the group is fixed.
    Reweigh(u64),
}

/// What an application is told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Event {
    /// These lead now, the highest priority first; one, unless the election is for several.
    Elected {
        /// The leaders.
        leaders: Vec<NodeId>,
        /// The number of the election, where the algorithm numbers them; else 0.
        term: u64,
    },
}

/// What terms are counted in.
const TERM: Space = Space::shared("term");

/// An algorithm for elections.
pub trait Election: Algorithm + Protocol<Request = Request, Event = Event> {
    /// Who leads, as far as this process knows; nobody while it does not know.
    fn leaders(&self) -> &[NodeId];

    /// Whether it takes part in an election.
    fn is_participant(&self) -> bool;

    /// The number of the last election that it knows of, where the algorithm numbers them; else 0.
    fn term(&self) -> u64 {
        0
    }

    /// Whether the group may change while it runs.
    const CHANGES: bool = false;

    /// Whether a process that joins the group calls an election, like one that comes back from a crash.
    const NEWCOMERS_CALL: bool = false;

    /// Gives a process another weight.
    fn reweigh(_config: &mut Self::Config, _id: NodeId, _weight: u64) {}

    /// Who must be elected when exactly these are alive and eligible (none of them retired); the highest first.
    fn winners(config: &Self::Config, members: &Members, eligible: &[NodeId]) -> Vec<NodeId>;

    /// How many messages one election must have cost.
    fn formula(config: &Self::Config, members: &Members, tally: &Tally<'_>) -> Formula;
}

crate::registry::family! {
    /// An algorithm for elections, given to whoever learnt its name at run time.
    Election {
        Bully,
        ChangRoberts,
        RingActiveList,
        RingList,
        RingKLeaders,
        RingBallot,
    }
}

/// The phase of a process in an election.
#[must_use]
pub fn phase(id: NodeId, leaders: &[NodeId], is_participant: bool) -> Phase {
    match (is_participant, leaders) {
        (true, _) => Phase::ELECTING,
        (false, []) => Phase::IDLE,
        (false, leaders) if leaders.contains(&id) => Phase::LEADING,
        (false, _) => Phase::FOLLOWING,
    }
}

/// Processes as reports write them: `p5, p4`.
fn names(ids: &[NodeId]) -> String {
    let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
    if ids.is_empty() { "nobody".into() } else { ids.join(", ") }
}

/// What an election consisted of, as far as a formula needs to know. Elections that overlap are one.
#[derive(Clone, Copy, Debug)]
pub struct Tally<'a> {
    /// Who started it without being sent a message (by a call, a time-out, a suspicion, a return), each once.
    pub starters: &'a [NodeId],
    /// Who was down from its beginning to its end.
    pub absent: &'a [NodeId],
    /// Who began it because it had come back.
    pub recovered: Option<NodeId>,
    /// Something happened in the middle (a crash, a suspicion, a retirement, a loss): no formula is exact then.
    pub disturbed: bool,
}

impl Tally<'_> {
    /// How many are alive.
    #[must_use]
    pub fn live(&self, members: &Members) -> u64 {
        (members.len() - self.absent.len()) as u64
    }

    /// A formula in words: n is the whole group, so where somebody is absent it speaks of the l who are alive.
    fn words(&self, of_all: &'static str, of_the_living: &'static str) -> &'static str {
        if self.absent.is_empty() { of_all } else { of_the_living }
    }
}

/// Priorities: the larger (weight, id) wins. Everyone weighs 1 unless told otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Weights(Option<Arc<BTreeMap<NodeId, u64>>>);

impl Weights {
    /// The setting that every election has.
    pub const SETTING: Setting = Setting {
        key: "weights",
        values: Values::Numbers,
        default: "equal",
        unsafe_values: &[],
        help: "priorities: the larger (weight, id) wins; who is not named weighs 1",
    };

    /// Reads the setting.
    #[must_use]
    pub fn read(settings: &Settings) -> Self {
        let weights = settings.numbers(Self::SETTING.key);
        Self((!weights.is_empty()).then(|| Arc::new(weights)))
    }

    /// Gives a process another weight.
    pub fn set(&mut self, id: NodeId, weight: u64) {
        Arc::make_mut(self.0.get_or_insert_default()).insert(id, weight);
    }

    /// The priority of a process.
    #[inline]
    #[must_use]
    pub fn key(&self, id: NodeId) -> (u64, NodeId) {
        let weight = self.0.as_ref().and_then(|weights| weights.get(&id).copied());
        (weight.unwrap_or(1), id)
    }

    /// Of these, the one with the highest priority.
    #[must_use]
    pub fn highest(&self, ids: impl IntoIterator<Item = NodeId>) -> Option<NodeId> {
        ids.into_iter().max_by_key(|id| self.key(*id))
    }
}

/// The setting that every ring has: whoever sets up a run puts the members in this order.
pub const RING: Setting = Setting {
    key: "ring",
    values: Values::OneOf(&["ids", "random"]),
    default: "ids",
    unsafe_values: &[],
    help: "the order of the ring: as the ids are given, or shuffled by the seed of the run",
};
