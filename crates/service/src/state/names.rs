//! The names: who holds each, who waits for it, and what is remembered of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Bound, Index, IndexMut};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::grant::Past;
use crate::command::{Millis, Mode, Name, SessionId, Token};
use crate::limits::{MAX_HISTORY, MAX_IDLE_NAMES};
use crate::view::QueuePlace;

/// Where a name stands in the table: grants and waits refer to names by this, so that only a request looks up a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct NameKey(u32);

/// The number of a request that waits, in the order of arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Arrival(pub u64);

/// Who goes first: the same order in every queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Rank {
    place: i64,
    pub arrival: Arrival,
}

impl Rank {
    pub fn of_priority(priority: i32, arrival: Arrival) -> Self {
        Self { place: -i64::from(priority), arrival }
    }

    /// One who holds the name already and wants it in a stronger mode goes before all who have nothing.
    pub fn of_conversion(arrival: Arrival) -> Self {
        Self { place: i64::MIN, arrival }
    }

    /// Where it stands, for whoever reads a queue in pieces.
    pub fn queue_place(self) -> QueuePlace {
        QueuePlace { rank: self.place, arrival: self.arrival.0 }
    }

    /// The rank that stands at a place.
    pub fn at(place: QueuePlace) -> Self {
        Self { place: place.rank, arrival: Arrival(place.arrival) }
    }
}

/// One name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub name: Name,
    /// Whether it is led rather than locked; while nobody uses it, how it was used last.
    pub election: bool,
    /// All of one kind: a single exclusive one, or sharers, or holders of permits.
    pub holders: BTreeMap<Token, Mode>,
    /// How many permits the holders have together.
    permits: u32,
    /// How many holders and waiters speak of permits, and of how many in all.
    permit_users: u32,
    limit: u32,
    pub queue: BTreeSet<Rank>,
    /// Who waits to lead, so that a session is found without a walk through the queue.
    pub candidates: BTreeMap<SessionId, Arrival>,
    /// The token granted last; 0 before the first.
    pub newest: Token,
    /// Holders up to this token have been told that somebody waits.
    pub told: Token,
    pub delay_ms: u32,
    /// Nobody gets it until then, because its holder was lost; 0 when it is open.
    pub delayed_until: Millis,
    /// Newest last.
    pub history: VecDeque<Past>,
    /// Its place among the names that nobody uses; 0 while somebody does.
    idle: u64,
}

impl Entry {
    fn new(name: Name) -> Self {
        Self {
            name,
            election: false,
            holders: BTreeMap::new(),
            permits: 0,
            permit_users: 0,
            limit: 0,
            queue: BTreeSet::new(),
            candidates: BTreeMap::new(),
            newest: Token(0),
            told: Token(0),
            delay_ms: 0,
            delayed_until: 0,
            history: VecDeque::new(),
            idle: 0,
        }
    }

    fn is_unused(&self) -> bool {
        self.holders.is_empty() && self.queue.is_empty() && self.delayed_until == 0
    }

    /// How it is in use, if that does not go with the use that is asked for.
    pub fn clash(&self, election: bool, mode: Mode) -> Option<Arc<str>> {
        if self.holders.is_empty() && self.queue.is_empty() {
            return None;
        }
        let fits = self.election == election
            && match mode {
                Mode::Permits { limit, .. } => self.permit_users == 0 || self.limit == limit,
                Mode::Exclusive | Mode::Shared => true,
            };
        (!fits).then(|| self.present_use())
    }

    fn present_use(&self) -> Arc<str> {
        match (self.election, self.permit_users) {
            (true, _) => "an election".into(),
            (false, 0) => "a lock".into(),
            (false, _) => format!("{} permits", self.limit).into(),
        }
    }

    /// Whether those who hold it, but for one of them, are in the way of that mode. All of them are, or none.
    pub fn conflicts(&self, mode: Mode, except: Option<Token>) -> bool {
        let Some((_, other)) = self.holders.iter().find(|(token, _)| Some(**token) != except) else {
            return false;
        };
        match (mode, other) {
            (Mode::Shared, Mode::Shared) => false,
            (Mode::Permits { count, limit }, Mode::Permits { .. }) => {
                let own = except.and_then(|token| self.holders.get(&token)).map_or(0, permits_of);
                u64::from(self.permits - own) + u64::from(count) > u64::from(limit)
            }
            (Mode::Exclusive | Mode::Shared | Mode::Permits { .. }, _) => true,
        }
    }

    pub fn add_holder(&mut self, token: Token, mode: Mode) {
        self.holders.insert(token, mode);
        self.permits += permits_of(&mode);
        self.add_user(mode);
        self.newest = self.newest.max(token);
    }

    pub fn remove_holder(&mut self, token: Token) -> Option<Mode> {
        let mode = self.holders.remove(&token)?;
        self.permits -= permits_of(&mode);
        self.remove_user(mode);
        Some(mode)
    }

    pub fn add_waiter(&mut self, rank: Rank, mode: Mode) {
        self.queue.insert(rank);
        self.add_user(mode);
    }

    pub fn remove_waiter(&mut self, rank: Rank, mode: Mode) {
        if self.queue.remove(&rank) {
            self.remove_user(mode);
        }
    }

    fn add_user(&mut self, mode: Mode) {
        if let Mode::Permits { limit, .. } = mode {
            self.limit = limit;
            self.permit_users += 1;
        }
    }

    fn remove_user(&mut self, mode: Mode) {
        if let Mode::Permits { .. } = mode {
            self.permit_users -= 1;
        }
    }

    /// How many bytes its texts have.
    pub fn bytes(&self) -> usize {
        self.name.0.len() + self.history.iter().map(Past::bytes).sum::<usize>()
    }

    /// How many go before that rank.
    pub fn ahead_of(&self, rank: Rank) -> usize {
        if self.queue.last() == Some(&rank) {
            return self.queue.len() - 1;
        }
        self.queue.range(..rank).count()
    }

    /// What the counters should be, for whoever checks them: permits held, holders and waiters that speak of permits.
    pub fn counters(&self) -> (u32, u32) {
        (self.permits, self.permit_users)
    }

    pub fn is_idle(&self) -> bool {
        self.idle != 0
    }
}

pub(super) fn permits_of(mode: &Mode) -> u32 {
    match mode {
        Mode::Permits { count, .. } => *count,
        Mode::Exclusive | Mode::Shared => 0,
    }
}

/// All names in use, and those of the past that are still remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Saved")]
pub(super) struct Names {
    slots: Vec<Option<Entry>>,
    free: Vec<NameKey>,
    /// The names that nobody uses, the longest idle first.
    idle: BTreeMap<u64, NameKey>,
    rests: u64,
    #[serde(skip)]
    bytes: usize,
    #[serde(skip)]
    index: BTreeMap<Name, NameKey>,
}

#[derive(Deserialize)]
struct Saved {
    slots: Vec<Option<Entry>>,
    free: Vec<NameKey>,
    idle: BTreeMap<u64, NameKey>,
    rests: u64,
}

impl From<Saved> for Names {
    fn from(saved: Saved) -> Self {
        let filled = (0..).zip(&saved.slots).filter_map(|(slot, entry)| Some((slot, entry.as_ref()?)));
        let index = filled.map(|(slot, entry)| (entry.name.clone(), NameKey(slot))).collect();
        let bytes = saved.slots.iter().flatten().map(Entry::bytes).sum();
        Self { bytes, index, slots: saved.slots, free: saved.free, idle: saved.idle, rests: saved.rests }
    }
}

impl Names {
    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn in_use(&self) -> usize {
        self.index.len() - self.idle.len()
    }

    /// How many bytes the texts of all of them have.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Remembers one who held a name.
    pub fn remember(&mut self, key: NameKey, past: Past) {
        self.bytes += past.bytes();
        let history = &mut self[key].history;
        history.push_back(past);
        if history.len() > MAX_HISTORY
            && let Some(oldest) = history.pop_front()
        {
            self.bytes -= oldest.bytes();
        }
    }

    pub fn find(&self, name: &Name) -> Option<NameKey> {
        self.index.get(name).copied()
    }

    /// The names in order, from a bound.
    pub fn from<'a>(&'a self, start: Bound<&'a str>) -> impl Iterator<Item = (&'a Name, NameKey)> {
        self.index.range::<str, _>((start, Bound::Unbounded)).map(|(name, key)| (name, *key))
    }

    /// The entry of a name that is about to be used; `rest` is called when that came to nothing or is over.
    pub fn wake(&mut self, name: &Name) -> NameKey {
        let Some(key) = self.find(name) else { return self.add(name) };
        let idle = std::mem::take(&mut self[key].idle);
        if idle != 0 {
            self.idle.remove(&idle);
        }
        key
    }

    fn add(&mut self, name: &Name) -> NameKey {
        self.bytes += name.0.len();
        let entry = Some(Entry::new(name.clone()));
        let key = if let Some(key) = self.free.pop() {
            self.slots[key.0 as usize] = entry;
            key
        } else {
            self.slots.push(entry);
            NameKey(u32::try_from(self.slots.len() - 1).expect("the number of names is limited"))
        };
        self.index.insert(name.clone(), key);
        key
    }

    /// Puts a name aside if nobody uses it, or forgets it if it was never granted. Those that have been aside longest
    /// are forgotten when there are too many; tokens grow all the same, since one counter serves all names.
    pub fn rest(&mut self, key: NameKey) {
        let Some(entry) = self.slots[key.0 as usize].as_mut() else { return };
        if entry.idle != 0 || !entry.is_unused() {
            return;
        }
        if entry.newest.0 == 0 {
            return self.forget(key);
        }
        self.rests += 1;
        entry.idle = self.rests;
        self.idle.insert(self.rests, key);
        if self.idle.len() > MAX_IDLE_NAMES
            && let Some((_, oldest)) = self.idle.pop_first()
        {
            self.forget(oldest);
        }
    }

    fn forget(&mut self, key: NameKey) {
        if let Some(entry) = self.slots[key.0 as usize].take() {
            self.bytes -= entry.bytes();
            self.index.remove(&entry.name);
            self.free.push(key);
        }
    }

    pub fn entries(&self) -> impl Iterator<Item = (NameKey, &Entry)> {
        self.index.values().map(|key| (*key, &self[*key]))
    }
}

impl Index<NameKey> for Names {
    type Output = Entry;

    fn index(&self, key: NameKey) -> &Entry {
        self.slots[key.0 as usize].as_ref().expect("a name that is referred to has an entry")
    }
}

impl IndexMut<NameKey> for Names {
    fn index_mut(&mut self, key: NameKey) -> &mut Entry {
        self.slots[key.0 as usize].as_mut().expect("a name that is referred to has an entry")
    }
}
