//! Whether a delivery may go first, because nothing that its process may handle meanwhile can tell.
//!
//! Two runs of one process are followed side by side: in the *late* one the message is still to come, in the *early* one it has been
//! handled. Whatever the process may handle meanwhile, the early run must say the same to its application at the same moment,
//! send at least as much by then, and be in the same state once the late one has got the message. An input after which only
//! the late run is silent may wait in the early one, and takes the place of the message.

use core::hash::BuildHasher;
use std::sync::Arc;

use crate::explore::{Explorer, Space};
use crate::future::{Arrival, Futures, Slot};
use crate::intern::{Fixed, Interner, Memo};
use crate::space::Cause;

/// More pairs than this are not followed for one delivery: it does not go first then.
const MOST: usize = 1 << 14;
/// Nor more than this in a search, and so many more for each of its states: what is spent here must be gained there.
const AT_FIRST: usize = 1 << 18;
const PER_STATE: usize = 8;

/// What a process does with an input.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its cell afterwards.
    pub cell: u32,
    /// To whom it sends what.
    pub sends: Arc<[(u8, u32)]>,
    /// The number of all that it says.
    pub said: u32,
    /// Whether no property could tell that it happened.
    pub is_hidden: bool,
    /// Whether there are the same tokens before and after.
    pub keeps_tokens: bool,
}

/// A process in the late run and in the early one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Pair {
    place: u8,
    late: u32,
    early: u32,
    /// The message that the late run has yet to handle: from whom, and its number.
    first: (u8, u32),
    /// The message that the early run has yet to handle instead.
    owed: Option<(u8, u32)>,
    /// What the early run has sent, and the late one has not.
    ahead: u32,
    /// What else may arrive.
    coming: u32,
}

/// What has been found out about pairs.
pub struct Effects {
    known: Memo<Pair, bool>,
    parcels: Interner<Box<[(u8, u32)]>>,
    /// How many more pairs may be followed.
    left: usize,
}

impl Default for Effects {
    fn default() -> Self {
        Self { known: Memo::default(), parcels: Interner::default(), left: AT_FIRST }
    }
}

impl Effects {
    /// Whether this message may be handled first by a process in this cell, when nothing arrives but this.
    pub fn may_go_first(
        &mut self,
        space: &mut dyn Space,
        scout: &mut dyn Explorer,
        futures: &mut Futures,
        cell: u32,
        arrival: Arrival,
        coming: u32,
    ) -> bool {
        let Arrival { from, to, message } = arrival;
        let handled = outcome(space, scout, cell, to, Cause::Deliver { from, message });
        if !handled.is_hidden {
            return false;
        }
        let ahead = self.parcel(handled.sends.to_vec(), space.terms().fifo);
        let first = Pair {
            place: to,
            late: cell,
            early: handled.cell,
            first: (from, message),
            owed: None,
            ahead,
            coming,
        };
        self.holds(space, scout, futures, first)
    }

    /// There is one state more.
    pub fn earn(&mut self) {
        self.left += PER_STATE;
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.known.capacity() * (size_of::<Pair>() + 2) + self.parcels.bytes()
    }

    fn holds(
        &mut self,
        space: &mut dyn Space,
        scout: &mut dyn Explorer,
        futures: &mut Futures,
        first: Pair,
    ) -> bool {
        if let Some(known) = self.known.get(&first) {
            return *known;
        }
        let mut pairs = vec![(first, 0)];
        let mut seen: Memo<Pair, ()> = Memo::default();
        seen.insert(first, ());
        let mut open = vec![0];
        let mut next = Vec::new();
        while let Some(at) = open.pop() {
            if self.left == 0 {
                return false;
            }
            self.left -= 1;
            next.clear();
            let goes_on = self.follow(space, scout, futures, pairs[at].0, &mut next);
            if !goes_on || next.iter().any(|pair| self.known.get(pair) == Some(&false)) || pairs.len() > MOST
            {
                self.refute(&pairs, at, first);
                return false;
            }
            for pair in next.drain(..) {
                if !self.known.contains_key(&pair) && seen.insert(pair, ()).is_none() {
                    open.push(pairs.len());
                    pairs.push((pair, at));
                }
            }
        }
        self.known.extend(pairs.into_iter().map(|(pair, _)| (pair, true)));
        true
    }

    /// Whatever led to a pair that differs differs, too.
    fn refute(&mut self, pairs: &[(Pair, usize)], mut at: usize, first: Pair) {
        loop {
            let (pair, parent) = pairs[at];
            self.known.insert(pair, false);
            if pair == first {
                return;
            }
            at = parent;
        }
    }

    /// The pairs that follow from one; false if the two runs can be told apart.
    fn follow(
        &mut self,
        space: &mut dyn Space,
        scout: &mut dyn Explorer,
        futures: &mut Futures,
        pair: Pair,
        next: &mut Vec<Pair>,
    ) -> bool {
        self.catches_up(space, scout, pair)
            && self.asks(space, scout, pair, next)
            && self.arrives(space, scout, futures, pair, next)
    }

    /// The late run handles the message at last, and the early one what it owes.
    fn catches_up(&mut self, space: &mut dyn Space, scout: &mut dyn Explorer, pair: Pair) -> bool {
        let Pair { place, late, early, first: (from, message), owed, ahead, .. } = pair;
        let fifo = space.terms().fifo;
        let late = outcome(space, scout, late, place, Cause::Deliver { from, message });
        let Some((from, message)) = owed else {
            return late.is_hidden && late.cell == early && self.is_settled(ahead, &[], &late.sends, fifo);
        };
        let early = outcome(space, scout, early, place, Cause::Deliver { from, message });
        late.cell == early.cell
            && late.said == early.said
            && late.keeps_tokens
            && early.keeps_tokens
            && self.is_settled(ahead, &early.sends, &late.sends, fifo)
    }

    /// The application asks for something.
    fn asks(
        &mut self,
        space: &mut dyn Space,
        scout: &mut dyn Explorer,
        pair: Pair,
        next: &mut Vec<Pair>,
    ) -> bool {
        let (late, early) = (space.meta_of(pair.late), space.meta_of(pair.early));
        if !late.timers.is_empty() || !early.timers.is_empty() || late.asks != early.asks {
            return false;
        }
        let optional: Vec<bool> = late.asks.iter().map(|(_, is_cancel)| *is_cancel).collect();
        (0..).zip(optional).filter(|(_, is_cancel)| !is_cancel).all(|(nth, _)| {
            let after = self.both(space, scout, pair, Cause::Ask { nth });
            next.extend(after);
            after.is_some()
        })
    }

    /// Any other message arrives.
    fn arrives(
        &mut self,
        space: &mut dyn Space,
        scout: &mut dyn Explorer,
        futures: &mut Futures,
        pair: Pair,
        next: &mut Vec<Pair>,
    ) -> bool {
        let fifo = space.terms().fifo;
        let slots: Vec<Slot> = futures.slots(pair.coming).to_vec();
        for slot in slots {
            let from = slot.from;
            // Behind the message itself, on a channel that keeps its order.
            if fifo && from == pair.first.0 {
                continue;
            }
            if fifo && pair.owed.is_some_and(|(owed, _)| owed == from) {
                return false;
            }
            let coming = futures.take_one(pair.coming, from, slot.kind);
            for message in futures.messages(slot).to_vec() {
                if (from, message) == pair.first {
                    continue;
                }
                let pair = Pair { coming, ..pair };
                let after = self.both(space, scout, pair, Cause::Deliver { from, message });
                let after = after.or_else(|| self.postponed(space, scout, pair, from, message));
                let Some(after) = after else { return false };
                next.push(after);
            }
        }
        true
    }

    /// Both runs handle the same input.
    fn both(
        &mut self,
        space: &mut dyn Space,
        scout: &mut dyn Explorer,
        pair: Pair,
        cause: Cause,
    ) -> Option<Pair> {
        let fifo = space.terms().fifo;
        let late = outcome(space, scout, pair.late, pair.place, cause);
        let early = outcome(space, scout, pair.early, pair.place, cause);
        let is_same = late.said == early.said && late.keeps_tokens && early.keeps_tokens;
        let ahead = self.ahead(pair.ahead, &early.sends, &late.sends, fifo).filter(|_| is_same)?;
        Some(Pair { late: late.cell, early: early.cell, ahead, ..pair })
    }

    /// The late run handles a message that the early one handles when the late one handles what was to go first.
    fn postponed(
        &mut self,
        space: &mut dyn Space,
        scout: &mut dyn Explorer,
        pair: Pair,
        from: u8,
        message: u32,
    ) -> Option<Pair> {
        let late = outcome(space, scout, pair.late, pair.place, Cause::Deliver { from, message });
        let may_wait = pair.owed.is_none() && late.is_hidden && late.sends.is_empty();
        may_wait.then_some(Pair { late: late.cell, owed: Some((from, message)), ..pair })
    }

    fn is_settled(&mut self, ahead: u32, early: &[(u8, u32)], late: &[(u8, u32)], fifo: bool) -> bool {
        self.ahead(ahead, early, late, fifo).is_some_and(|ahead| self.parcels.get(ahead).is_empty())
    }

    /// What the early run is ahead after both have sent this; nothing if it has not sent what the late one has.
    fn ahead(&mut self, ahead: u32, early: &[(u8, u32)], late: &[(u8, u32)], fifo: bool) -> Option<u32> {
        if early == late && self.parcels.get(ahead).is_empty() {
            return Some(ahead);
        }
        let mut sent: Vec<_> = self.parcels.get(ahead).iter().chain(early).copied().collect();
        for (to, message) in late {
            let is_it = |(other, sent): &(u8, u32)| other == to && (fifo || sent == message);
            let place = sent.iter().position(is_it)?;
            if sent.remove(place).1 != *message {
                return None;
            }
        }
        Some(self.parcel(sent, fifo))
    }

    /// The number of messages that were sent, in their order where that means something.
    fn parcel(&mut self, mut sent: Vec<(u8, u32)>, fifo: bool) -> u32 {
        match fifo {
            true => sent.sort_by_key(|(to, _)| *to),
            false => sent.sort_unstable(),
        }
        let sent = sent.into_boxed_slice();
        self.parcels.intern(Fixed.hash_one(&sent), sent).0
    }
}

fn outcome(space: &mut dyn Space, scout: &mut dyn Explorer, cell: u32, place: u8, cause: Cause) -> Outcome {
    let id = space.outcome(scout, cell, place, cause);
    space.outcome_at(id).clone()
}
