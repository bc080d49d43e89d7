//! Logical clocks.
//!
//! Lamport, *Time, clocks, and the ordering of events in a distributed system* (1978); Fidge (1988) and Mattern
//! (1989) for vectors.

use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt::{Debug, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::NodeId;

/// A Lamport timestamp made unique by the process: compared by time, then by process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// The clock's value.
    pub time: u64,
    /// Whose clock.
    pub process: NodeId,
}

impl Display for Stamp {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{}", self.time, self.process.0)
    }
}

impl Debug for Stamp {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        Display::fmt(self, f)
    }
}

/// A Lamport clock: if one event happened before another, its time is smaller. The converse does not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LamportClock {
    time: u64,
}

impl LamportClock {
    /// The time of the last event.
    #[inline]
    #[must_use]
    pub fn time(self) -> u64 {
        self.time
    }

    /// A local event or a send: moves on and gives the time of the event.
    #[inline]
    pub fn tick(&mut self) -> u64 {
        // A peer may send any stamp, the largest too; standing still there is better than going back.
        self.time = self.time.saturating_add(1);
        self.time
    }

    /// Takes note of a time seen elsewhere without an event of its own.
    #[inline]
    pub fn witness(&mut self, time: u64) {
        self.time = self.time.max(time);
    }

    /// The receipt of a message with this time: later than both.
    #[inline]
    pub fn receive(&mut self, time: u64) -> u64 {
        self.witness(time);
        self.tick()
    }

    /// The number itself, for the visitor of counters.
    pub fn value_mut(&mut self) -> &mut u64 {
        &mut self.time
    }
}

/// How two events relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Causality {
    /// The first happened before the second.
    Before,
    /// The second happened before the first.
    After,
    /// They are the same event.
    Equal,
    /// Neither could know of the other.
    Concurrent,
}

/// A vector clock: one event happened before another exactly if its vector is smaller.
///
/// Entries are by the place of the process; entries that are missing at the end count as 0.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VectorClock {
    entries: Vec<u64>,
}

impl VectorClock {
    /// The clock of a group of `n` in which nothing has happened.
    #[must_use]
    pub fn new(n: usize) -> Self {
        Self { entries: vec![0; n] }
    }

    /// How many events of the process at this place are known.
    #[must_use]
    pub fn get(&self, place: usize) -> u64 {
        self.entries.get(place).copied().unwrap_or(0)
    }

    /// All entries.
    #[must_use]
    pub fn entries(&self) -> &[u64] {
        &self.entries
    }

    /// A local event or a send of the process at this place.
    #[inline]
    pub fn tick(&mut self, place: usize) {
        if self.entries.len() <= place {
            self.entries.resize(place + 1, 0);
        }
        self.entries[place] += 1;
    }

    /// The receipt, by the process at this place, of a message stamped `other`.
    #[inline]
    pub fn receive(&mut self, other: &Self, place: usize) {
        self.merge(other);
        self.tick(place);
    }

    /// Learns all that the other knows.
    pub fn merge(&mut self, other: &Self) {
        if self.entries.len() < other.entries.len() {
            self.entries.resize(other.entries.len(), 0);
        }
        for (mine, theirs) in self.entries.iter_mut().zip(&other.entries) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// How the event with this stamp relates to the event with the other.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Causality {
        let (mut less, mut more) = (false, false);
        for place in 0..self.entries.len().max(other.entries.len()) {
            match self.get(place).cmp(&other.get(place)) {
                Ordering::Less => less = true,
                Ordering::Greater => more = true,
                Ordering::Equal => {}
            }
        }
        match (less, more) {
            (false, false) => Causality::Equal,
            (true, false) => Causality::Before,
            (false, true) => Causality::After,
            (true, true) => Causality::Concurrent,
        }
    }
}

impl From<Vec<u64>> for VectorClock {
    fn from(entries: Vec<u64>) -> Self {
        Self { entries }
    }
}

impl PartialEq for VectorClock {
    fn eq(&self, other: &Self) -> bool {
        self.compare(other) == Causality::Equal
    }
}

impl Eq for VectorClock {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The worked example TV-C5: three processes, two messages, six events.
    #[test]
    fn book_tv_c5_stamps_of_three_processes() {
        let mut lamport = [LamportClock::default(); 3];
        let (a, b) = (lamport[0].tick(), lamport[0].tick());
        let c = lamport[1].receive(b);
        let d = lamport[1].tick();
        let e = lamport[2].tick();
        let f = lamport[2].receive(d);
        assert_eq!([a, b, c, d, e, f], [1, 2, 3, 4, 1, 5]);

        let mut vector = [VectorClock::new(3), VectorClock::new(3), VectorClock::new(3)];
        let mut event = |place: usize, message: Option<&VectorClock>| {
            match message {
                Some(message) => vector[place].receive(message, place),
                None => vector[place].tick(place),
            }
            vector[place].clone()
        };
        let (a, b) = (event(0, None), event(0, None));
        let c = event(1, Some(&b));
        let d = event(1, None);
        let e = event(2, None);
        let f = event(2, Some(&d));
        let expected = [[1, 0, 0], [2, 0, 0], [2, 1, 0], [2, 2, 0], [0, 0, 1], [2, 2, 2]];
        for (stamp, entries) in [&a, &b, &c, &d, &e, &f].into_iter().zip(expected) {
            assert_eq!(stamp.entries(), entries);
        }
        assert_eq!(a.compare(&e), Causality::Concurrent);
        assert_eq!(b.compare(&e), Causality::Concurrent);
        assert_eq!(a.compare(&f), Causality::Before);
        assert_eq!(f.compare(&d), Causality::After);
        assert_eq!(a.compare(&a), Causality::Equal);
    }

    /// One event of a random run: what it follows directly.
    struct Event {
        place: usize,
        parents: Vec<usize>,
        lamport: u64,
        vector: VectorClock,
    }

    /// A random run: each step is an event of one process, which may receive any event of another as a message.
    fn run(n: usize, steps: &[(usize, Option<usize>)]) -> Vec<Event> {
        let mut events: Vec<Event> = Vec::new();
        let mut last: Vec<Option<usize>> = vec![None; n];
        for (place, message) in steps {
            let place = place % n;
            let message = message.map(|m| m % events.len().max(1)).filter(|m| *m < events.len());
            let message = message.filter(|m| events[*m].place != place);
            let mut lamport = LamportClock { time: last[place].map_or(0, |e| events[e].lamport) };
            let mut vector = last[place].map_or(VectorClock::new(n), |e| events[e].vector.clone());
            match message {
                Some(m) => {
                    lamport.receive(events[m].lamport);
                    vector.receive(&events[m].vector, place);
                }
                None => {
                    lamport.tick();
                    vector.tick(place);
                }
            }
            let parents = last[place].into_iter().chain(message).collect();
            last[place] = Some(events.len());
            events.push(Event { place, parents, lamport: lamport.time(), vector });
        }
        events
    }

    proptest! {
        /// Vectors tell exactly the transitive closure of "follows directly"; Lamport's total order extends it.
        #[test]
        fn vectors_are_happened_before_and_lamport_extends_it(
            n in 1usize..5,
            steps in prop::collection::vec((0usize..5, prop::option::of(0usize..60)), 1..40),
        ) {
            let events = run(n, &steps);
            let mut before = vec![vec![false; events.len()]; events.len()];
            for later in 0..events.len() {
                for &parent in &events[later].parents {
                    before[parent][later] = true;
                    for row in &mut before {
                        row[later] |= row[parent];
                    }
                }
            }
            for i in 0..events.len() {
                for j in 0..events.len() {
                    let expected = match (i == j, before[i][j], before[j][i]) {
                        (true, ..) => Causality::Equal,
                        (_, true, _) => Causality::Before,
                        (_, _, true) => Causality::After,
                        _ => Causality::Concurrent,
                    };
                    prop_assert_eq!(events[i].vector.compare(&events[j].vector), expected);
                    let stamp = |e: &Event| Stamp { time: e.lamport, process: NodeId(e.place as u32) };
                    if before[i][j] {
                        prop_assert!(stamp(&events[i]) < stamp(&events[j]));
                    }
                    prop_assert_eq!(i == j, stamp(&events[i]) == stamp(&events[j]));
                }
            }
        }
    }
}
