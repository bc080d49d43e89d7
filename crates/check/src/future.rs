//! What may still arrive at a process: how many messages of each kind from whom, and which.
//!
//! Each such bound is stored once and named by a number; so is each arrival. A bound never counts exactly which messages come
//! together, only how many of a kind at most and which they may be: that is enough, and there are few of them.

use core::hash::BuildHasher;

use crate::intern::{Fixed, Interner, Memo};

/// From so many messages of a kind on they are not counted.
const MANY: u8 = 16;

/// A message that arrives: from whom, at whom, its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arrival {
    pub from: u8,
    pub to: u8,
    pub message: u32,
}

/// Of one sender and one kind: how many may arrive, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    pub from: u8,
    pub kind: u8,
    count: u8,
    messages: u32,
}

/// The number of the bound that says that nothing arrives any more.
pub const NOTHING: u32 = 0;

/// All bounds that were met.
#[derive(Debug)]
pub struct Futures {
    bounds: Interner<Box<[Slot]>>,
    sets: Interner<Box<[u32]>>,
    arrivals: Interner<Arrival>,
    joined: Memo<(u32, u32), u32>,
    added: Memo<(u32, u32), u32>,
    taken: Memo<(u32, u8, u8), u32>,
    kinds: Vec<&'static str>,
    /// By the number of an arrival.
    kind_of: Vec<u8>,
}

impl Default for Futures {
    fn default() -> Self {
        let mut bounds = Interner::default();
        let nothing: Box<[Slot]> = Box::new([]);
        bounds.intern(Fixed.hash_one(&nothing), nothing);
        Self {
            bounds,
            sets: Interner::default(),
            arrivals: Interner::default(),
            joined: Memo::default(),
            added: Memo::default(),
            taken: Memo::default(),
            kinds: Vec::new(),
            kind_of: Vec::new(),
        }
    }
}

impl Futures {
    /// The number of an arrival of a message of this kind.
    pub fn arrival(&mut self, arrival: Arrival, kind: &'static str) -> u32 {
        let (id, is_new) = self.arrivals.intern(Fixed.hash_one(arrival), arrival);
        if is_new {
            let place = self.kinds.iter().position(|known| *known == kind).unwrap_or_else(|| {
                self.kinds.push(kind);
                self.kinds.len() - 1
            });
            self.kind_of.push(place as u8);
        }
        id
    }

    pub fn at(&self, arrival: u32) -> Arrival {
        *self.arrivals.get(arrival)
    }

    /// What a bound consists of.
    pub fn slots(&self, bound: u32) -> &[Slot] {
        self.bounds.get(bound)
    }

    /// Which messages a slot may be.
    pub fn messages(&self, slot: Slot) -> &[u32] {
        self.sets.get(slot.messages)
    }

    /// What holds of both.
    pub fn join(&mut self, one: u32, other: u32) -> u32 {
        if one == other || other == NOTHING {
            return one;
        }
        if one == NOTHING {
            return other;
        }
        let key = (one.min(other), one.max(other));
        if let Some(joined) = self.joined.get(&key) {
            return *joined;
        }
        let mut slots = self.bounds.get(one).to_vec();
        for theirs in self.bounds.get(other).to_vec() {
            match slots.iter().position(|mine| (mine.from, mine.kind) == (theirs.from, theirs.kind)) {
                Some(place) => {
                    let messages = self.union(slots[place].messages, theirs.messages);
                    let count = slots[place].count.max(theirs.count);
                    slots[place] = Slot { count, messages, ..theirs };
                }
                None => slots.push(theirs),
            }
        }
        let joined = self.bound(slots);
        self.joined.insert(key, joined);
        joined
    }

    /// The same and one message more.
    pub fn add(&mut self, bound: u32, arrival: u32) -> u32 {
        if let Some(added) = self.added.get(&(bound, arrival)) {
            return *added;
        }
        let (Arrival { from, message, .. }, kind) = (self.at(arrival), self.kind_of[arrival as usize]);
        let one = self.set(vec![message]);
        let mut slots = self.bounds.get(bound).to_vec();
        match slots.iter().position(|slot| (slot.from, slot.kind) == (from, kind)) {
            Some(place) => {
                slots[place].messages = self.union(slots[place].messages, one);
                slots[place].count = (slots[place].count + 1).min(MANY);
            }
            None => slots.push(Slot { from, kind, count: 1, messages: one }),
        }
        let added = self.bound(slots);
        self.added.insert((bound, arrival), added);
        added
    }

    /// The same and one message less.
    pub fn take(&mut self, bound: u32, arrival: u32) -> u32 {
        self.take_one(bound, self.at(arrival).from, self.kind_of[arrival as usize])
    }

    /// The same and one message of this sender and kind less.
    pub fn take_one(&mut self, bound: u32, from: u8, kind: u8) -> u32 {
        if let Some(taken) = self.taken.get(&(bound, from, kind)) {
            return *taken;
        }
        let mut slots = self.bounds.get(bound).to_vec();
        for slot in &mut slots {
            if (slot.from, slot.kind) == (from, kind) && slot.count < MANY {
                slot.count -= 1;
            }
        }
        slots.retain(|slot| slot.count > 0);
        let taken = self.bound(slots);
        self.taken.insert((bound, from, kind), taken);
        taken
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        let memos = (self.joined.capacity() + self.added.capacity() + self.taken.capacity()) * 13;
        self.bounds.bytes() + self.sets.bytes() + self.arrivals.bytes() + memos
    }

    fn bound(&mut self, mut slots: Vec<Slot>) -> u32 {
        slots.sort_unstable();
        let slots = slots.into_boxed_slice();
        self.bounds.intern(Fixed.hash_one(&slots), slots).0
    }

    fn set(&mut self, messages: Vec<u32>) -> u32 {
        let messages = messages.into_boxed_slice();
        self.sets.intern(Fixed.hash_one(&messages), messages).0
    }

    fn union(&mut self, one: u32, other: u32) -> u32 {
        if one == other {
            return one;
        }
        let mut all: Vec<u32> =
            self.sets.get(one).iter().chain(self.sets.get(other).iter()).copied().collect();
        all.sort_unstable();
        all.dedup();
        self.set(all)
    }
}
