//! What a lock protects: a resource that remembers the largest fence that it has seen.
//!
//! Every entry writes when it gets in, and may write again until it gets out. However badly a failure detector has
//! misled the processes, the writes of one entry must never stand between those of another.

use alloc::vec;
use alloc::vec::Vec;

use super::Fence;

/// How a resource tells whether it may serve a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    /// The fence must not be smaller than the largest seen.
    Fence,
    /// The same, but the process in the fence is not looked at: a mutant.
    FenceWithoutProcess,
    /// It serves everyone: a mutant.
    None,
}

impl Guard {
    fn serves(self, fence: Fence, largest: Fence) -> bool {
        match self {
            Self::Fence => fence >= largest,
            Self::FenceWithoutProcess => (fence.epoch, fence.counter) >= (largest.epoch, largest.counter),
            Self::None => true,
        }
    }
}

/// A resource that is written to by whoever is inside.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Resource {
    guard: Guard,
    /// The last fence of each process.
    fences: Vec<Option<Fence>>,
    /// Who is inside as far as it knows, by place.
    inside: Vec<u32>,
}

/// What came of the first write of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    /// The fence that the process had before.
    pub last: Option<Fence>,
    /// It was refused: the fence is too old.
    pub refused: bool,
    /// It was served in the middle of the entry of somebody else, whose next write would be served, too.
    pub mixed: Option<usize>,
}

impl Resource {
    pub fn new(n: usize, guard: Guard) -> Self {
        Self { guard, fences: vec![None; n], inside: Vec::new() }
    }

    /// A process gets in and writes; so far `largest` is the largest fence of all entries.
    pub fn enter(&mut self, place: usize, fence: Fence, largest: Option<Fence>) -> Written {
        let last = self.fences[place].replace(fence);
        let refused = largest.is_some_and(|largest| !self.guard.serves(fence, largest));
        let largest = largest.max(Some(fence)).unwrap_or(fence);
        let mut others = self.inside.iter().map(|other| *other as usize).filter(|other| *other != place);
        let mixed = others.find(|other| !refused && self.is_served(*other, largest));
        if let Err(at) = self.inside.binary_search(&(place as u32)) {
            self.inside.insert(at, place as u32);
        }
        Written { last, refused, mixed }
    }

    /// Whether a write would be served.
    fn is_served(&self, place: usize, largest: Fence) -> bool {
        self.fences[place].is_some_and(|fence| self.guard.serves(fence, largest))
    }

    /// A process writes a last time and gets out; says whether it was inside, and the write was refused.
    pub fn leave(&mut self, place: usize, largest: Option<Fence>) -> bool {
        self.vacate(place) && largest.is_some_and(|largest| !self.is_served(place, largest))
    }

    /// A process is no longer inside, and knows it; says whether it was.
    pub fn vacate(&mut self, place: usize) -> bool {
        let at = self.inside.binary_search(&(place as u32));
        if let Ok(at) = at {
            self.inside.remove(at);
        }
        at.is_ok()
    }

    /// The fences of all, for the visitor of counters.
    pub fn fences(&mut self) -> impl Iterator<Item = &mut Fence> {
        self.fences.iter_mut().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutex::Epoch;
    use conclave_core::NodeId;

    /// Two that were both let in with the same counter write in turns. Says whether their writes mix, and whether the
    /// first of them was refused in the end.
    fn a_b_a(guard: Guard) -> (bool, bool) {
        let fence = |process| Fence { epoch: Epoch::FIRST, counter: 4, process: NodeId(process) };
        let mut resource = Resource::new(2, guard);
        let first = resource.enter(0, fence(1), None);
        assert_eq!(first, Written { last: None, refused: false, mixed: None });
        let second = resource.enter(1, fence(2), Some(fence(1)));
        assert!(!second.refused);
        (second.mixed == Some(0), resource.leave(0, Some(fence(2))))
    }

    #[test]
    fn book_tv_f1_an_old_fence_is_refused() {
        assert_eq!(a_b_a(Guard::Fence), (false, true));
    }

    #[test]
    fn without_the_process_or_the_check_entries_mix() {
        assert_eq!(a_b_a(Guard::FenceWithoutProcess), (true, false));
        assert_eq!(a_b_a(Guard::None), (true, false));
    }
}
