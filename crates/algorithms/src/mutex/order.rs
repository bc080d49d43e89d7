//! In which order the requests that wait should be served: by when they became known, by stamp, by cause.

use alloc::vec;
use alloc::vec::Vec;

use conclave_core::{Counter, Space, Stamp};

use super::causal::Causal;

/// The requests that wait for one lock, and their orders.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Order {
    /// By place.
    requests: Vec<Request>,
    /// Of those that are known, the first and the last that became so. Each leads to the next, so that a run with many
    /// who wait need not search for one of them.
    first: Option<u32>,
    last: Option<u32>,
    /// Entries so far; see [`settle`](Self::settle).
    entries: u64,
    /// The stamp of the last entry that had one.
    stamp: Option<Stamp>,
    /// Entries that a known request has seen are counted up to this, where they may have no end.
    ceiling: Option<u64>,
}

/// The request of one process, if it waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Request {
    stamp: Option<Stamp>,
    /// Which requests that still wait it was made in knowledge of: a bit per place.
    after: u64,
    known: Option<Known>,
}

/// A request that is known to all that it was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Known {
    /// How many entries there had been when it became so.
    since: u64,
    /// Whose request became known before it and still waits.
    previous: Option<u32>,
    next: Option<u32>,
}

/// How an entry stands to the requests that still wait, and to the entry before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    /// Entries by others since its request became known.
    pub overtaken: u64,
    /// The request that was known first, if it was known before this one.
    pub known_before: Option<usize>,
    pub stamp: Option<Stamp>,
    /// The stamp of the last entry before it that had one.
    pub last_stamp: Option<Stamp>,
    /// A request that this one was made in knowledge of.
    pub cause: Option<usize>,
}

impl Order {
    /// Above this size causes are not judged: a set of processes must fit a word.
    pub const MOST_CAUSES: usize = Causal::MOST;

    pub fn new(n: usize) -> Self {
        let requests = vec![Request::default(); n];
        Self { requests, first: None, last: None, entries: 0, stamp: None, ceiling: None }
    }

    /// The same, where entries are counted up to this many for each known request.
    pub fn counting_to(self, ceiling: Option<u64>) -> Self {
        Self { ceiling, ..self }
    }

    /// The first stamp that a request is announced with is its own.
    pub fn stamp(&mut self, place: usize, stamp: Stamp) {
        self.requests[place].stamp.get_or_insert(stamp);
    }

    pub fn become_known(&mut self, place: usize) {
        if self.requests[place].known.is_some() {
            return;
        }
        let previous = self.last.replace(place as u32);
        self.requests[place].known = Some(Known { since: self.entries, previous, next: None });
        match self.known_mut(previous) {
            Some(previous) => previous.next = Some(place as u32),
            None => self.first = Some(place as u32),
        }
    }

    pub fn follow(&mut self, place: usize, others: u64) {
        self.requests[place].after = others;
    }

    /// A process gets in.
    #[inline]
    pub fn enter(&mut self, place: usize) -> Turn {
        let was_first = self.first == Some(place as u32);
        let Request { stamp, after, known } = self.withdraw(place);
        let last_stamp = self.stamp;
        self.stamp = stamp.or(last_stamp);
        let turn = Turn {
            overtaken: known.map_or(0, |known| self.entries - known.since),
            known_before: self.first.filter(|_| !was_first).map(|first| first as usize),
            stamp,
            last_stamp,
            cause: (after != 0).then(|| after.trailing_zeros() as usize),
        };
        self.entries += 1;
        turn
    }

    /// Takes the request of a process off the list; an empty one if it has none.
    pub fn withdraw(&mut self, place: usize) -> Request {
        if self.requests.len() <= Self::MOST_CAUSES {
            for request in &mut self.requests {
                request.after &= !(1 << place);
            }
        }
        let gone = core::mem::take(&mut self.requests[place]);
        if let Some(Known { previous, next, .. }) = gone.known {
            match self.known_mut(previous) {
                Some(previous) => previous.next = next,
                None => self.first = next,
            }
            match self.known_mut(next) {
                Some(next) => next.previous = previous,
                None => self.last = previous,
            }
        }
        gone
    }

    fn known_mut(&mut self, place: Option<u32>) -> Option<&mut Known> {
        self.requests[place? as usize].known.as_mut()
    }

    /// Counts entries from when the first known request became so: then equal situations are equal values.
    pub fn settle(&mut self) {
        if let Some(ceiling) = self.ceiling {
            let least = self.entries.saturating_sub(ceiling);
            let known = self.requests.iter_mut().flat_map(|request| &mut request.known);
            known.for_each(|known| known.since = known.since.max(least));
        }
        let seen = self.entries - self.overtaking();
        self.entries -= seen;
        if seen > 0 {
            self.requests
                .iter_mut()
                .flat_map(|request| &mut request.known)
                .for_each(|known| known.since -= seen);
        }
    }

    /// The most entries by others that a known request has seen so far: whoever was known first has seen most.
    pub fn overtaking(&self) -> u64 {
        let first = self.first.and_then(|first| self.requests[first as usize].known);
        first.map_or(0, |known| self.entries - known.since)
    }

    pub fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        for stamp in self.requests.iter_mut().filter_map(|request| request.stamp.as_mut()) {
            visit(Counter::exact(CLOCK, &mut stamp.time));
        }
        if let Some(stamp) = &mut self.stamp {
            visit(Counter::bound(CLOCK, &mut stamp.time));
        }
    }
}

/// What stamps are counted in, by all algorithms that have stamps.
const CLOCK: Space = Space::shared("clock");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever becomes known, gets in and gives up, and however often numbers begin again: the links tell the same
        /// as a plain list of who is known and how often it was overtaken.
        #[test]
        fn agrees_with_a_plain_list(steps in prop::collection::vec((0..4usize, 0..5usize), 0..60)) {
            let (mut order, mut list) = (Order::new(5), Vec::<(usize, u64)>::new());
            for (step, place) in steps {
                let at = list.iter().position(|(other, _)| *other == place);
                match step {
                    0 => {
                        order.become_known(place);
                        if at.is_none() {
                            list.push((place, 0));
                        }
                    }
                    1 => {
                        let turn = order.enter(place);
                        let mine = at.map_or(0, |at| list.remove(at).1);
                        let before = list.first().filter(|_| at != Some(0)).map(|(first, _)| *first);
                        prop_assert_eq!((turn.overtaken, turn.known_before), (mine, before));
                        list.iter_mut().for_each(|(_, overtaken)| *overtaken += 1);
                    }
                    2 => {
                        order.withdraw(place);
                        list.retain(|(other, _)| *other != place);
                    }
                    _ => order.settle(),
                }
                prop_assert_eq!(order.overtaking(), list.first().map_or(0, |(_, overtaken)| *overtaken));
            }
            // Equal lists make equal values.
            order.settle();
            let mut again = Order::new(5);
            let most = list.first().map_or(0, |(_, overtaken)| *overtaken);
            for entries in 0..=most {
                let known_now = list.iter().filter(|(_, overtaken)| most - overtaken == entries);
                known_now.for_each(|(place, _)| again.become_known(*place));
                again.entries += u64::from(entries < most);
            }
            prop_assert_eq!(order, again);
        }
    }
}
