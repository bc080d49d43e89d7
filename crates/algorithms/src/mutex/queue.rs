//! Requests in the order of their stamps.

use alloc::vec::Vec;

use conclave_core::{Counter, Members, NodeId, Space, Stamp};

/// Requests that wait, smallest stamp first, at most one of each process.
///
/// One place per process is what an honest peer needs, since it has one request outstanding, and all that a hostile
/// one gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct RequestQueue {
    stamps: Vec<Stamp>,
}

impl RequestQueue {
    /// Puts a request in its place; it replaces an older one of the same process.
    pub fn insert(&mut self, stamp: Stamp) {
        self.remove_of(stamp.process);
        let place = self.stamps.partition_point(|other| *other < stamp);
        self.stamps.insert(place, stamp);
    }

    /// Takes out this very request, if it is there.
    pub fn remove(&mut self, stamp: Stamp) {
        if let Ok(place) = self.stamps.binary_search(&stamp) {
            self.stamps.remove(place);
        }
    }

    /// Takes out the request of a process, if there is one.
    pub fn remove_of(&mut self, process: NodeId) {
        self.stamps.retain(|stamp| stamp.process != process);
    }

    /// Takes out this request and all before it.
    pub fn remove_until(&mut self, last: Stamp) {
        let count = self.stamps.partition_point(|stamp| *stamp <= last);
        self.stamps.drain(..count);
    }

    /// Takes out all.
    pub fn clear(&mut self) {
        self.stamps.clear();
    }

    /// The smallest.
    pub fn first(&self) -> Option<Stamp> {
        self.stamps.first().copied()
    }

    /// Takes out the smallest.
    pub fn pop_first(&mut self) -> Option<Stamp> {
        (!self.stamps.is_empty()).then(|| self.stamps.remove(0))
    }

    /// All, smallest first.
    pub fn iter(&self) -> impl Iterator<Item = Stamp> + '_ {
        self.stamps.iter().copied()
    }

    /// Asserts that these are the requests of members, one of each, in order.
    pub fn assert_invariants(&self, members: &Members) {
        assert!(self.stamps.is_sorted(), "requests stand in the order of their stamps");
        assert!(
            members.has_each_once(self.stamps.iter().map(|stamp| stamp.process)),
            "members have requests in the queue, each at most one"
        );
    }

    /// Visits the times of all; moved by the same amount they stay in order.
    pub fn visit_counters(&mut self, space: Space, visit: &mut dyn FnMut(Counter<'_>)) {
        for stamp in &mut self.stamps {
            visit(Counter::exact(space, &mut stamp.time));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(time: u64, process: u32) -> Stamp {
        Stamp { time, process: NodeId(process) }
    }

    /// The worked example TV-L1: whatever the order of arrival, grants follow the stamps.
    #[test]
    fn book_tv_l1_the_queue_is_sorted_by_stamp() {
        let sorted = [stamp(1021, 4), stamp(1022, 8), stamp(3944, 1), stamp(8201, 6), stamp(9638, 12)];
        let orders = [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3], [3, 4, 0, 2, 1]];
        for order in orders {
            let mut queue = RequestQueue::default();
            for place in order {
                queue.insert(sorted[place]);
            }
            assert!(queue.iter().eq(sorted));
            for head in sorted {
                assert_eq!(queue.first(), Some(head));
                assert_eq!(queue.pop_first(), Some(head));
            }
            assert_eq!(queue.pop_first(), None);
        }
    }

    #[test]
    fn equal_times_are_ordered_by_process() {
        let mut queue = RequestQueue::default();
        for process in [3, 1, 2] {
            queue.insert(stamp(7, process));
        }
        assert!(queue.iter().eq([stamp(7, 1), stamp(7, 2), stamp(7, 3)]));
    }

    #[test]
    fn a_process_has_one_place() {
        let mut queue = RequestQueue::default();
        for time in [5, 9, 2] {
            queue.insert(stamp(time, 1));
        }
        assert!(queue.iter().eq([stamp(2, 1)]));
        queue.remove(stamp(5, 1));
        assert_eq!(queue.first(), Some(stamp(2, 1)));
        queue.remove(stamp(2, 1));
        assert_eq!(queue.first(), None);
    }
}
