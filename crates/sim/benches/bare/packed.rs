//! Ricart and Agrawala in a bare event loop, with every event packed into one integer.
//!
//! What a good engineer would write in an hour for this one algorithm and nothing else: flat arrays, sets as bit masks,
//! events packed into integers; no trait, no trace, no property, no fault. The simulator is measured as a ratio to it,
//! taken in the same run, since absolute figures say more about the machine than about the code.
//!
//! The run is the one that `conclave sim ricart-agrawala` makes under saturated load: all ask at the start, stay inside
//! for 1000 µs, and ask again when they leave, until all `entries` are asked for. A message takes 1 to 1000 µs, drawn
//! uniformly in whole microseconds. Messages carry what the algorithm needs: a request its stamp, both their sender.
//!
//! [`run`] keeps its events in a binary heap, as any simulator could; it is the yardstick. [`run_calendar`] keeps
//! them in a ring of one bucket per microsecond, which works only because every delay is bounded, and shows how much of
//! the time goes into the heap. Both make the very same run, event by event.
//!
//! **Caveats**: at most 64 processes and fewer than 2²⁸ entries. Who waits is answered in order of id, not of arrival.
//! Nothing is watched while it runs, except in debug builds; that there were exactly 2(n − 1) messages per entry is
//! asserted at the end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Messages delivered.
    pub messages: u64,
    /// Times that a process was inside.
    pub entries: u64,
    /// A hash over who entered when: equal for equal seeds, whichever queue is used.
    pub checksum: u64,
}

/// Makes `entries` entries in total among `n` processes, with the events in a binary heap.
pub fn run(n: usize, entries: u64, seed: u64) -> Outcome {
    let mut world = World::new(n, entries, seed);
    let mut heap = BinaryHeap::with_capacity(2 * n * n);
    let mut sequence = 0_u64;
    // Of two events at one time, the one that was scheduled first comes first.
    let mut key = |at: u64, event: u64| {
        sequence += 1;
        Reverse(u128::from(at) << TIME_SHIFT | u128::from(sequence) << EVENT_BITS | u128::from(event))
    };
    world.start(|at, event| heap.push(key(at, event)));
    while let Some(Reverse(next)) = heap.pop() {
        let (now, event) = ((next >> TIME_SHIFT) as u64, next as u64 & EVENT_MASK);
        world.handle(now, event, |at, event| heap.push(key(at, event)));
    }
    world.outcome()
}

/// The same run with the events in a ring of buckets.
pub fn run_calendar(n: usize, entries: u64, seed: u64) -> Outcome {
    let mut world = World::new(n, entries, seed);
    let mut ring = Ring::new();
    world.start(|at, event| ring.push(at, event));
    let mut now = 0;
    while let Some(next) = ring.next_after(now) {
        now = next;
        // Every delay is at least 1 and less than the ring, so nothing is added to this bucket meanwhile.
        let mut bucket = ring.take(now);
        for &event in &bucket {
            world.handle(now, event, |at, event| ring.push(at, event));
        }
        bucket.clear();
        ring.give_back(now, bucket);
    }
    world.outcome()
}

const HOLD_US: u64 = 1000;
const MAX_DELAY_US: u64 = 1000;

// An event, from the low end: 2 bits kind, 6 bits receiver, 6 bits sender, 28 bits stamp. In the heap, above it: 46 bits
// sequence, 40 bits time. An entry takes at most a request, a reply and a hold, 3000 µs, so 2²⁸ of them fit.
const REQUEST: u64 = 0;
const REPLY: u64 = 1;
const LEAVE: u64 = 2;
const STAMP_BITS: u32 = 28;
const EVENT_BITS: u32 = 2 + 6 + 6 + STAMP_BITS;
const EVENT_MASK: u64 = (1 << EVENT_BITS) - 1;
const TIME_SHIFT: u32 = EVENT_BITS + 46;

/// The stamp and its process in one number, ordered as the algorithm orders requests.
fn stamp(time: u64, process: usize) -> u64 {
    time << 6 | process as u64
}

/// Greater than any stamp: who is not interested lets everyone go first.
const RELEASED: u64 = u64::MAX;
/// Smaller than any stamp, since clocks tick before they stamp: who is inside lets nobody go first.
const HELD: u64 = 0;

/// All processes, each a place in every array.
struct World {
    n: usize,
    clock: [u64; 64],
    /// The stamp of the current request, or one of [`RELEASED`] and [`HELD`].
    mine: [u64; 64],
    /// Who has not replied yet.
    pending: [u64; 64],
    /// Who is answered on the way out.
    deferred: [u64; 64],
    /// Entries nobody has asked for yet.
    left: u64,
    random: u64,
    total: u64,
    done: Outcome,
}

impl World {
    fn new(n: usize, entries: u64, seed: u64) -> Self {
        assert!((1..=64).contains(&n), "the sets are masks of 64 bits");
        assert!(entries < 1 << STAMP_BITS, "a stamp counts requests in {STAMP_BITS} bits");
        Self {
            n,
            clock: [0; 64],
            mine: [RELEASED; 64],
            pending: [0; 64],
            deferred: [0; 64],
            left: entries,
            // An odd multiplier spreads small seeds; xorshift must not start at 0.
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            total: entries,
            done: Outcome { messages: 0, entries: 0, checksum: seed },
        }
    }

    fn start(&mut self, mut push: impl FnMut(u64, u64)) {
        for process in 0..self.n {
            self.maybe_ask(0, process, &mut push);
        }
    }

    #[inline(always)]
    fn handle(&mut self, now: u64, event: u64, mut push: impl FnMut(u64, u64)) {
        let to = (event >> 2 & 63) as usize;
        match event & 3 {
            REQUEST => self.on_request(now, to, event >> 8, &mut push),
            REPLY => self.on_reply(now, to, event >> 8 & 63, &mut push),
            _ => self.leave(now, to, &mut push),
        }
    }

    fn maybe_ask(&mut self, now: u64, process: usize, push: &mut impl FnMut(u64, u64)) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        self.clock[process] += 1;
        self.mine[process] = stamp(self.clock[process], process);
        let others = (u64::MAX >> (64 - self.n)) & !(1 << process);
        self.pending[process] = others;
        for to in bits(others) {
            self.send(now, to, REQUEST, self.mine[process], push);
        }
        self.maybe_enter(now, process, push);
    }

    fn on_request(&mut self, now: u64, process: usize, theirs: u64, push: &mut impl FnMut(u64, u64)) {
        self.done.messages += 1;
        let from = (theirs & 63) as usize;
        self.clock[process] = self.clock[process].max(theirs >> 6);
        if self.mine[process] < theirs {
            self.deferred[process] |= 1 << from;
        } else {
            self.send(now, from, REPLY, process as u64, push);
        }
    }

    fn on_reply(&mut self, now: u64, process: usize, from: u64, push: &mut impl FnMut(u64, u64)) {
        self.done.messages += 1;
        self.pending[process] &= !(1 << from);
        self.maybe_enter(now, process, push);
    }

    fn maybe_enter(&mut self, now: u64, process: usize, push: &mut impl FnMut(u64, u64)) {
        if self.pending[process] != 0 {
            return;
        }
        debug_assert!(!self.mine.contains(&HELD), "two processes are inside at once");
        self.mine[process] = HELD;
        self.done.entries += 1;
        self.done.checksum =
            (self.done.checksum ^ stamp(now, process)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        push(now + HOLD_US, (process as u64) << 2 | LEAVE);
    }

    fn leave(&mut self, now: u64, process: usize, push: &mut impl FnMut(u64, u64)) {
        self.mine[process] = RELEASED;
        for to in bits(core::mem::take(&mut self.deferred[process])) {
            self.send(now, to, REPLY, process as u64, push);
        }
        self.maybe_ask(now, process, push);
    }

    /// `about` is the stamp of a request, whose low bits are its sender, or just the sender of a reply.
    fn send(&mut self, now: u64, to: usize, kind: u64, about: u64, push: &mut impl FnMut(u64, u64)) {
        push(now + self.delay(), about << 8 | (to as u64) << 2 | kind);
    }

    /// Uniform in 1..=1000: the high half of xorshift64, scaled by multiplication.
    fn delay(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        1 + (((self.random >> 32) * MAX_DELAY_US) >> 32)
    }

    fn outcome(&self) -> Outcome {
        assert_eq!(self.done.entries, self.total, "an entry that was asked for was never made");
        let formula = 2 * (self.n as u64 - 1) * self.total;
        assert_eq!(self.done.messages, formula, "Ricart-Agrawala takes 2(n-1) messages per entry");
        self.done
    }
}

/// The places of the ones in `mask`, from the lowest.
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let place = mask.trailing_zeros() as usize;
        (mask != 0).then(|| {
            mask &= mask - 1;
            place
        })
    })
}

/// A bucket per microsecond, and a bit per bucket that says whether it holds anything.
struct Ring {
    buckets: Vec<Vec<u64>>,
    occupied: [u64; RING / 64],
}

const RING: usize = 1024;
const _: () = assert!(MAX_DELAY_US < RING as u64, "a message must not lap the ring");
const _: () = assert!(HOLD_US < RING as u64, "a hold must not lap the ring");

impl Ring {
    fn new() -> Self {
        Self { buckets: vec![Vec::new(); RING], occupied: [0; RING / 64] }
    }

    fn push(&mut self, at: u64, event: u64) {
        let place = at as usize % RING;
        self.buckets[place].push(event);
        self.occupied[place / 64] |= 1 << (place % 64);
    }

    /// The time of the earliest event after `now`, whose own bucket is empty.
    fn next_after(&self, now: u64) -> Option<u64> {
        let here = now as usize % RING;
        let (word, bit) = (here / 64, here % 64);
        let ahead = self.occupied[word] & (u64::MAX << bit);
        if ahead != 0 {
            return Some(now + u64::from(ahead.trailing_zeros()) - bit as u64);
        }
        // The last step comes back to the first word, for the part behind us.
        (1..=RING / 64).find_map(|step| {
            let bits = self.occupied[(word + step) % (RING / 64)];
            let to_word = (step * 64 - bit) as u64;
            (bits != 0).then(|| now + to_word + u64::from(bits.trailing_zeros()))
        })
    }

    fn take(&mut self, at: u64) -> Vec<u64> {
        let place = at as usize % RING;
        self.occupied[place / 64] &= !(1 << (place % 64));
        core::mem::take(&mut self.buckets[place])
    }

    /// Puts the emptied bucket back, so that its room is used again.
    fn give_back(&mut self, at: u64, bucket: Vec<u64>) {
        self.buckets[at as usize % RING] = bucket;
    }
}
