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
    /// Those that are known, in the order in which they became so.
    known: Vec<Known>,
    /// The stamp of the last entry that had one.
    last: Option<Stamp>,
}

/// The request of one process, if it waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Request {
    stamp: Option<Stamp>,
    /// Which requests that still wait it was made in knowledge of: a bit per place.
    after: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Known {
    place: u32,
    /// Entries by others since it became known.
    overtaken: u32,
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
        Self { requests: vec![Request::default(); n], known: Vec::new(), last: None }
    }

    /// The first stamp that a request is announced with is its own.
    pub fn stamp(&mut self, place: usize, stamp: Stamp) {
        self.requests[place].stamp.get_or_insert(stamp);
    }

    pub fn become_known(&mut self, place: usize) {
        if self.known.iter().all(|known| known.place as usize != place) {
            self.known.push(Known { place: place as u32, overtaken: 0 });
        }
    }

    pub fn follow(&mut self, place: usize, others: u64) {
        self.requests[place].after = others;
    }

    /// A process no longer waits, and has not got in.
    pub fn withdraw(&mut self, place: usize) {
        self.forget(place);
        self.known.retain(|known| known.place as usize != place);
    }

    /// A process gets in.
    #[inline]
    pub fn enter(&mut self, place: usize) -> Turn {
        let Request { stamp, after } = self.forget(place);
        let last_stamp = self.last;
        self.last = stamp.or(self.last);
        let at = self.known.iter().position(|known| known.place as usize == place);
        let overtaken = at.map_or(0, |at| u64::from(self.known.remove(at).overtaken));
        let earlier = self.known.first().filter(|_| at != Some(0));
        let turn = Turn {
            overtaken,
            known_before: earlier.map(|known| known.place as usize),
            stamp,
            last_stamp,
            cause: (after != 0).then(|| after.trailing_zeros() as usize),
        };
        for known in &mut self.known {
            known.overtaken += 1;
        }
        turn
    }

    fn forget(&mut self, place: usize) -> Request {
        if self.requests.len() <= Self::MOST_CAUSES {
            for request in &mut self.requests {
                request.after &= !(1 << place);
            }
        }
        core::mem::take(&mut self.requests[place])
    }

    /// The most entries by others that a known request has seen so far: whoever was known first has seen most.
    pub fn overtaking(&self) -> u64 {
        self.known.first().map_or(0, |known| u64::from(known.overtaken))
    }

    pub fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        for stamp in self.requests.iter_mut().filter_map(|request| request.stamp.as_mut()) {
            visit(Counter::exact(CLOCK, &mut stamp.time));
        }
        if let Some(last) = &mut self.last {
            visit(Counter::bound(CLOCK, &mut last.time));
        }
    }
}

/// What stamps are counted in, by all algorithms that have stamps.
const CLOCK: Space = Space::shared("clock");
