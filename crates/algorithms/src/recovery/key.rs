//! One lock or many by name: what tells the locks of a group apart, and how all of them stand.
//!
//! [`Assembly`](super::Assembly) is written once for both. Where there is one lock, its key is `()`: it takes no bytes in a
//! message and no place in a text, so that a group with one lock says what it would say without any keys.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{Debug, Formatter};
use core::hash::{Hash, Hasher};

use conclave_core::{LamportClock, NodeId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::mutex::{Epoch, Event, Request, Roll, Standing};
use crate::named::{Name, NamedEvent, NamedRequest};

/// What tells the locks of a group apart: nothing, or a [`Name`].
pub trait Key: Clone + Ord + Hash + Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// What the application may ask.
    type Request: Clone + Eq + Hash + Debug + Send + Sync + 'static;
    /// What it is told.
    type Event: Clone + Eq + Hash + Debug + Send + Sync + 'static;

    /// The lock that is there from the beginning. Where locks have names, each comes into being when somebody speaks of it.
    const ONLY: Option<Self>;

    /// Which lock a request is for, and what it asks.
    fn asked(request: Self::Request) -> (Self, Request);
    /// An event of this lock.
    fn told(self, event: Event) -> Self::Event;
    /// Its name; nothing if it is the only one.
    fn name(&self) -> &str;
    /// What a text about this lock ends with.
    fn mark(&self) -> String;

    /// Whether there is but one lock.
    fn is_only(&self) -> bool {
        Self::ONLY.is_some()
    }
}

/// The one lock of a group.
impl Key for () {
    type Request = Request;
    type Event = Event;
    const ONLY: Option<Self> = Some(());

    fn asked(request: Request) -> (Self, Request) {
        ((), request)
    }

    fn told(self, event: Event) -> Event {
        event
    }

    fn name(&self) -> &str {
        ""
    }

    fn mark(&self) -> String {
        String::new()
    }
}

/// One of many.
impl Key for Name {
    type Request = NamedRequest<Request>;
    type Event = NamedEvent<Event>;
    const ONLY: Option<Self> = None;

    fn asked(request: Self::Request) -> (Self, Request) {
        (request.name, request.request)
    }

    fn told(self, event: Event) -> Self::Event {
        NamedEvent { name: self, event }
    }

    fn name(&self) -> &str {
        self.as_str()
    }

    fn mark(&self) -> String {
        format!("[{self}]")
    }
}

/// What a process wants of each lock. Of those that are not listed it wants nothing.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Standings<K>(BTreeMap<K, Standing>);

impl<K: Key> Standings<K> {
    /// What it wants of this lock.
    #[must_use]
    pub fn of(&self, lock: &K) -> Standing {
        self.0.get(lock).copied().unwrap_or(Standing::Idle)
    }

    /// The locks of which it wants something, and what.
    pub fn iter(&self) -> impl Iterator<Item = (&K, Standing)> {
        self.0.iter().map(|(lock, standing)| (lock, *standing))
    }

    /// Of how many locks it wants something.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it wants nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn set(&mut self, lock: &K, standing: Standing) {
        match (standing, self.0.get_mut(lock)) {
            (Standing::Idle, _) => drop(self.0.remove(lock)),
            (_, Some(known)) => *known = standing,
            (_, None) => drop(self.0.insert(lock.clone(), standing)),
        }
    }

    pub(super) fn of_mut(&mut self, lock: &K) -> Option<&mut Standing> {
        self.0.get_mut(lock)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Standing> {
        self.0.values_mut()
    }

    /// Without those that `keep` turns down.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&K, Standing) -> bool) {
        self.0.retain(|lock, standing| keep(lock, *standing));
    }

    /// Takes all but the first so many out.
    pub(super) fn split_off(&mut self, len: usize) -> Self {
        match self.0.keys().nth(len).cloned() {
            Some(first) => Self(self.0.split_off(&first)),
            None => Self::default(),
        }
    }

    pub(super) fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }
}

impl<K> Default for Standings<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// How the only lock stands, or how each does.
impl<K: Key> Hash for Standings<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &K::ONLY {
            Some(lock) => self.of(lock).hash(state),
            None => self.0.hash(state),
        }
    }
}

impl<K: Key> Debug for Standings<K> {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        match &K::ONLY {
            Some(lock) => self.of(lock).fmt(f),
            None => self.0.fmt(f),
        }
    }
}

/// People read of how many locks something is wanted: in a record, thousands of names would tell them no more.
impl<K: Key> Serialize for Standings<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &K::ONLY {
            Some(lock) => self.of(lock).serialize(serializer),
            None if serializer.is_human_readable() => {
                let is_inside = |standing: &&Standing| matches!(standing, Standing::Inside { .. });
                let inside = self.0.values().filter(is_inside).count();
                (inside, self.0.len() - inside).serialize(serializer)
            }
            None => self.0.serialize(serializer),
        }
    }
}

impl<'de, K: Key> Deserialize<'de> for Standings<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut standings = match K::ONLY {
            Some(lock) => Self(BTreeMap::from([(lock, Standing::deserialize(deserializer)?)])),
            None => Self(BTreeMap::deserialize(deserializer)?),
        };
        standings.retain(|_, standing| standing != Standing::Idle);
        Ok(standings)
    }
}

/// Everyone in a new epoch, and what each wanted of every lock when it began: a [`Roll`] for each lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct GroupRoll<K: Key> {
    /// The epoch.
    pub epoch: Epoch,
    /// Who called the roll: the coordinator, and the maker of tokens.
    pub convener: NodeId,
    /// The members in their order on the ring, and how each stood. At most one of them is inside a lock.
    pub standings: Vec<(NodeId, Standings<K>)>,
    /// A logical time later than all stamps in the roll.
    pub clock: LamportClock,
}

impl<K: Key> GroupRoll<K> {
    /// The roll of one lock.
    #[must_use]
    pub fn of(&self, lock: &K) -> Roll {
        let standings = self.standings.iter().map(|(id, standings)| (*id, standings.of(lock)));
        Roll { epoch: self.epoch, convener: self.convener, standings: standings.collect(), clock: self.clock }
    }

    /// The locks of which anybody wanted anything.
    pub fn locks(&self) -> impl Iterator<Item = &K> {
        self.standings.iter().flat_map(|(_, standings)| standings.iter().map(|(lock, _)| lock))
    }

    /// The members in their order on the ring.
    pub fn members(&self) -> impl Iterator<Item = NodeId> {
        self.standings.iter().map(|(id, _)| *id)
    }

    /// Whether it names each member once, and at most one of them inside a lock; only a liar's does not.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let mut inside = alloc::collections::BTreeSet::new();
        let mut names = alloc::collections::BTreeSet::new();
        let is_once = self.members().all(|id| names.insert(id));
        let mut is_own = |id: NodeId, (lock, standing): (&K, Standing)| match standing {
            Standing::Idle => true,
            Standing::Waiting { since, .. } => since.process == id,
            Standing::Inside { .. } => inside.insert(lock.clone()),
        };
        let is_sound =
            self.standings.iter().all(|(id, standings)| standings.iter().all(|entry| is_own(*id, entry)));
        is_once && is_sound && names.contains(&self.convener)
    }
}

/// The roll of the only lock.
impl From<&Roll> for GroupRoll<()> {
    fn from(roll: &Roll) -> Self {
        let standings = |(id, standing): &(NodeId, Standing)| {
            let mut standings = Standings::default();
            standings.set(&(), *standing);
            (*id, standings)
        };
        Self {
            epoch: roll.epoch,
            convener: roll.convener,
            standings: roll.standings.iter().map(standings).collect(),
            clock: roll.clock,
        }
    }
}
