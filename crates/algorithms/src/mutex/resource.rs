//! What a lock protects: a resource that remembers the largest fence that it has seen.
//!
//! Every entry writes at least twice, when it gets in and before it gets out. However badly a failure detector has
//! misled the processes, the writes of one entry must never stand between those of another.

use alloc::vec;
use alloc::vec::Vec;

use super::Fence;

/// How a resource tells whether it may serve a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    /// The fence must not be smaller than the largest seen.
    Fence,
    /// The same, but the process in the fence is not looked at: a broken twin.
    FenceWithoutProcess,
    /// It serves everyone: a broken twin.
    None,
}

/// A resource that is written to by whoever is inside.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    guard: Guard,
    largest: Option<Fence>,
    /// The last write of each process that was served, and how many there had been then.
    served: Vec<Option<(Fence, u64)>>,
    writes: u64,
    /// The last entry of each process that was refused.
    refused: Vec<Option<Fence>>,
    refused_entries: u64,
}

impl Resource {
    pub fn new(n: usize, guard: Guard) -> Self {
        Self {
            guard,
            largest: None,
            served: vec![None; n],
            writes: 0,
            refused: vec![None; n],
            refused_entries: 0,
        }
    }

    /// How many entries had a write refused.
    pub fn refused_entries(&self) -> u64 {
        self.refused_entries
    }

    /// A process writes. Says whether another entry has written since the last write of this one, and both were
    /// served.
    #[inline]
    pub fn write(&mut self, place: usize, fence: Fence) -> bool {
        if !self.serves(fence) {
            if self.refused[place].replace(fence) != Some(fence) {
                self.refused_entries += 1;
            }
            return false;
        }
        let interrupted = self.served[place].is_some_and(|(last, at)| last == fence && at != self.writes);
        self.largest = self.largest.max(Some(fence));
        self.writes += 1;
        self.served[place] = Some((fence, self.writes));
        interrupted
    }

    fn serves(&self, fence: Fence) -> bool {
        let Some(largest) = self.largest else { return true };
        match self.guard {
            Guard::Fence => fence >= largest,
            Guard::FenceWithoutProcess => (fence.epoch, fence.counter) >= (largest.epoch, largest.counter),
            Guard::None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutex::Epoch;
    use conclave_core::NodeId;

    /// Two that were both let in with the same counter write in turns.
    fn a_b_a(guard: Guard) -> (bool, u64) {
        let fence = |process| Fence { epoch: Epoch::FIRST, counter: 4, process: NodeId(process) };
        let mut resource = Resource::new(2, guard);
        let mixed = [0, 1, 0, 1].map(|place| resource.write(place, fence(place as u32 + 1)));
        (mixed.contains(&true), resource.refused_entries())
    }

    #[test]
    fn book_tv_f1_an_old_fence_is_refused() {
        assert_eq!(a_b_a(Guard::Fence), (false, 1));
    }

    #[test]
    fn without_the_process_or_the_check_entries_mix() {
        assert_eq!(a_b_a(Guard::FenceWithoutProcess), (true, 0));
        assert_eq!(a_b_a(Guard::None), (true, 0));
    }
}
