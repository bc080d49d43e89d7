//! What is still to happen, in order of time.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Of things that happen at the same time, an earlier class comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Faults: a process that crashes at T does nothing at T.
    Fault = 0,
    /// Messages come before timers: an answer that arrives just in time counts.
    Message = 1,
    /// Timers and requests.
    Later = 2,
}

/// An entry of the queue: when, and a number that says what.
///
/// All of it is packed into one number, so that one comparison orders two entries and 16 bytes hold one: 48 bits of
/// time (8.9 years), 2 of class, 46 of arrival, 32 that say what is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due(u128);

const TIME_SHIFT: u32 = 80;
/// The end of time.
pub const LAST_TIME: u64 = (1 << 48) - 1;

impl Due {
    /// When it is due.
    #[inline(always)]
    #[must_use]
    pub fn time(self) -> u64 {
        (self.0 >> TIME_SHIFT) as u64
    }

    /// What is due, as the owner of the queue numbers it within its class.
    #[inline(always)]
    #[must_use]
    pub fn what(self) -> u32 {
        self.0 as u32
    }

    /// Whether it is a message.
    #[inline(always)]
    #[must_use]
    pub fn is_message(self) -> bool {
        self.class() == Class::Message as u8
    }

    /// Whether it is a fault.
    #[must_use]
    pub fn is_fault(self) -> bool {
        self.class() == Class::Fault as u8
    }

    #[inline(always)]
    fn class(self) -> u8 {
        (self.0 >> 78) as u8 & 3
    }

    /// The same thing at a later time, in the same place among its equals.
    #[must_use]
    pub fn postponed(self, time: u64) -> Self {
        Self((u128::from(time.min(LAST_TIME)) << TIME_SHIFT) | (self.0 & ((1 << TIME_SHIFT) - 1)))
    }
}

/// A queue in which things that are due at the same time come out in the order of class and arrival.
///
/// A calendar: a day for each stretch of the near future, and a heap for what lies beyond its last day or within the
/// day that has begun. Entries of a day are put in order only when the day comes. Most messages arrive soon but not at
/// once, so most entries are never compared with more than a few others.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Entries of the day that it is, the next one last.
    today: Vec<Due>,
    /// The number of that day, counted from the beginning of time.
    day: u64,
    /// Entries of the days after it, by number of the day modulo [`DAYS`].
    days: [Vec<Due>; DAYS],
    /// A bit for each of these days that has entries.
    busy: u64,
    /// All other entries.
    others: BinaryHeap<Reverse<Due>>,
    /// A day lasts 2^this microseconds.
    length: u32,
    arrivals: u64,
}

/// As many as a word has bits: the next busy day is found by one instruction.
const DAYS: usize = 64;

impl Queue {
    /// An empty queue for events that mostly lie less than this far ahead.
    #[must_use]
    pub fn new(horizon: u64) -> Self {
        let length = (horizon / DAYS as u64 + 1).next_power_of_two().trailing_zeros();
        Self {
            today: Vec::new(),
            day: 0,
            days: [const { Vec::new() }; DAYS],
            busy: 0,
            others: BinaryHeap::new(),
            length,
            arrivals: 0,
        }
    }

    /// Adds something.
    #[inline(always)]
    pub fn push(&mut self, time: u64, class: Class, what: u32) {
        let order = (class as u64) << 46 | self.arrivals;
        self.arrivals += 1;
        assert!(self.arrivals < 1 << 46, "a run has at most 2^46 events");
        let time = u128::from(time.min(LAST_TIME));
        self.put_back(Due((time << TIME_SHIFT) | (u128::from(order) << 32) | u128::from(what)));
    }

    /// Puts back what was taken out, to be due later or at once.
    #[inline(always)]
    pub fn put_back(&mut self, due: Due) {
        let day = due.time() >> self.length;
        let ahead = day.wrapping_sub(self.day);
        if ahead.wrapping_sub(1) < DAYS as u64 - 1 {
            let slot = day as usize % DAYS;
            self.days[slot].push(due);
            self.busy |= 1 << slot;
        } else {
            self.others.push(Reverse(due));
        }
    }

    /// Takes out what is due next.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Due> {
        if self.today.is_empty() {
            self.turn_page();
        }
        if self.others.is_empty() { self.today.pop() } else { self.pop_either() }
    }

    /// Takes out a message before its time, wherever it is. This looks through everything.
    pub fn forget_message(&mut self, what: u32) {
        let stays = |due: Due| !(due.is_message() && due.what() == what);
        self.today.retain(|due| stays(*due));
        for (slot, day) in self.days.iter_mut().enumerate().filter(|(_, day)| !day.is_empty()) {
            day.retain(|due| stays(*due));
            if day.is_empty() {
                self.busy &= !(1 << slot);
            }
        }
        self.others.retain(|Reverse(due)| stays(*due));
    }

    fn pop_either(&mut self) -> Option<Due> {
        let Reverse(other) = *self.others.peek()?;
        match self.today.last() {
            Some(due) if *due < other => self.today.pop(),
            Some(_) => self.others.pop().map(|Reverse(due)| due),
            None => {
                // Nothing on the calendar: it begins again at the day of this entry.
                self.day = other.time() >> self.length;
                self.others.pop().map(|Reverse(due)| due)
            }
        }
    }

    /// Goes to the next day that has entries, if the calendar has any.
    #[inline]
    fn turn_page(&mut self) {
        if self.busy == 0 {
            return;
        }
        let tomorrow = (self.day + 1) % DAYS as u64;
        self.day += 1 + u64::from(self.busy.rotate_right(tomorrow as u32).trailing_zeros());
        let slot = self.day as usize % DAYS;
        self.busy &= !(1 << slot);
        core::mem::swap(&mut self.today, &mut self.days[slot]);
        if self.today.len() > 1 {
            self.today.sort_unstable_by(|a, b| b.cmp(a));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_times_come_out_by_class_and_then_in_order_of_arrival() {
        let mut queue = Queue::new(10);
        for (time, class, what) in [
            (5, Class::Later, 1),
            (5, Class::Message, 2),
            (3, Class::Later, 3),
            (5, Class::Message, 4),
            (5, Class::Fault, 5),
        ] {
            queue.push(time, class, what);
        }
        let order: Vec<_> = core::iter::from_fn(|| queue.pop()).map(|due| (due.time(), due.what())).collect();
        assert_eq!(order, [(3, 3), (5, 5), (5, 2), (5, 4), (5, 1)]);
    }

    proptest! {
        /// Whatever is put in and taken out, the queue gives the entries back like a sorted list would.
        #[test]
        fn a_calendar_is_a_sorted_list(
            horizon in 1u64..5_000,
            steps in prop::collection::vec(prop::option::weighted(0.6, (0u64..20_000, 0u8..3)), 1..300),
            forgotten in prop::collection::btree_set(0usize..300, 0..20),
        ) {
            let mut queue = Queue::new(horizon);
            let mut sorted = std::collections::BTreeSet::new();
            let (mut now, mut arrivals) = (0, 0u32);
            for (turn, step) in steps.into_iter().enumerate() {
                // Something is taken out before its time, if it is a message.
                if forgotten.contains(&turn) && arrivals > 0 {
                    let what = (turn as u32).wrapping_mul(7) % arrivals;
                    queue.forget_message(what);
                    sorted.retain(|(_, class, known)| *known != what || *class != Class::Message);
                }
                match step {
                    Some((ahead, class)) => {
                        let class = [Class::Fault, Class::Message, Class::Later][class as usize];
                        queue.push(now + ahead, class, arrivals);
                        sorted.insert((now + ahead, class, arrivals));
                        arrivals += 1;
                    }
                    None => {
                        let due = queue.pop();
                        let expected = sorted.pop_first();
                        prop_assert_eq!(due.map(|due| (due.time(), due.what())), expected.map(|(time, _, what)| (time, what)));
                        now = due.map_or(now, Due::time);
                    }
                }
            }
            let rest: Vec<_> = core::iter::from_fn(|| queue.pop()).map(Due::what).collect();
            prop_assert_eq!(rest, sorted.into_iter().map(|(_, _, what)| what).collect::<Vec<_>>());
        }
    }
}
