//! What the locks protect: a resource that remembers the largest fence, and everything that happened to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use conclave_algorithms::mutex::{Epoch, Fence};

/// The names that are locked.
pub const NAMES: [&str; 2] = ["backup", "deploy"];

/// One file per name, each behind a fence.
#[derive(Default)]
pub struct Resource {
    files: Mutex<BTreeMap<&'static str, FencedFile>>,
}

#[derive(Default)]
struct FencedFile {
    largest: Option<Fence>,
    /// How many writes were accepted.
    written: usize,
    refused: usize,
    granted: Vec<Grant>,
    seen: BTreeSet<Fence>,
    /// Who believes that it is inside.
    inside: BTreeSet<Fence>,
    /// Who was inside already when somebody came in.
    overlaps: Vec<(Fence, Fence)>,
}

#[derive(Clone, Copy)]
struct Grant {
    at: Instant,
    process: u32,
    fence: Fence,
}

impl FencedFile {
    fn write(&mut self, fence: Fence) -> bool {
        let accepts = self.largest.is_none_or(|largest| largest <= fence);
        if accepts {
            self.largest = Some(fence);
            self.written += 1;
        } else {
            self.refused += 1;
        }
        accepts
    }
}

impl Resource {
    fn files(&self) -> MutexGuard<'_, BTreeMap<&'static str, FencedFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody was let in, and writes for the first time.
    pub fn enter(&self, name: &'static str, process: u32, fence: Fence) -> bool {
        let mut files = self.files();
        let file = files.entry(name).or_default();
        assert!(file.seen.insert(fence), "{name}: the fence {fence} was given twice");
        let overlaps = file.inside.iter().map(|other| (*other, fence));
        file.overlaps.extend(overlaps.collect::<Vec<_>>());
        file.inside.insert(fence);
        file.granted.push(Grant { at: Instant::now(), process, fence });
        file.write(fence)
    }

    /// Somebody who was let in writes again.
    pub fn write(&self, name: &'static str, fence: Fence) -> bool {
        self.files().entry(name).or_default().write(fence)
    }

    /// It no longer believes that it is inside.
    pub fn leave(&self, name: &'static str, fence: Fence) {
        self.files().entry(name).or_default().inside.remove(&fence);
    }

    /// How often a process was let in since then.
    pub fn served(&self, name: &'static str, process: u32, since: Instant) -> usize {
        let files = self.files();
        let Some(file) = files.get(name) else { return 0 };
        file.granted.iter().filter(|grant| grant.process == process && grant.at > since).count()
    }

    /// The epochs in which processes were last let in.
    pub fn epochs(&self, name: &'static str) -> BTreeMap<u32, Epoch> {
        let files = self.files();
        let granted = files.get(name).into_iter().flat_map(|file| &file.granted);
        granted.map(|grant| (grant.process, grant.fence.epoch)).collect()
    }

    /// The longest time from then to now in which one of the names was granted to nobody.
    pub fn outage(&self, since: Instant) -> Duration {
        let now = Instant::now();
        let longest = |file: &FencedFile| {
            let granted = file.granted.iter().map(|grant| grant.at).filter(|at| *at > since);
            let times: Vec<Instant> =
                core::iter::once(since).chain(granted).chain(core::iter::once(now)).collect();
            times.windows(2).map(|pair| pair[1].duration_since(pair[0])).max().unwrap_or_default()
        };
        self.files().values().map(longest).max().unwrap_or_default()
    }

    pub fn refused(&self) -> usize {
        self.files().values().map(|file| file.refused).sum()
    }

    pub fn overlaps(&self) -> Vec<(Fence, Fence)> {
        self.files().values().flat_map(|file| file.overlaps.clone()).collect()
    }

    /// Whatever else happened, each process was let in with larger and larger fences.
    #[track_caller]
    pub fn never_went_back(&self) {
        for (name, file) in self.files().iter() {
            let mut last: BTreeMap<u32, Fence> = BTreeMap::new();
            for Grant { process, fence, .. } in &file.granted {
                let before = last.insert(*process, *fence);
                assert!(
                    before.is_none_or(|before| before < *fence),
                    "p{process} got {fence} after {before:?} for {name}"
                );
            }
            assert!(file.written > 0, "{name} was never written to");
        }
    }

    /// Whoever met somebody inside was let in by another epoch, which had left that one out: within an epoch nobody met
    /// anybody, whatever detectors said.
    #[track_caller]
    pub fn one_at_a_time_in_each_epoch(&self) {
        let met = self.overlaps().into_iter().find(|(before, after)| before.epoch == after.epoch);
        assert_eq!(met, None, "two of one epoch were inside");
    }

    /// Nobody met anybody inside, and nobody was refused.
    #[track_caller]
    pub fn one_at_a_time(&self) {
        assert_eq!(self.overlaps(), [], "two were inside");
        assert_eq!(self.refused(), 0, "somebody was let in who no longer should have been");
    }
}

#[test]
#[should_panic(expected = "got 0.1.1 after")]
fn a_process_whose_fences_go_back_is_seen() {
    let resource = Resource::default();
    for counter in [2, 1] {
        let fence = Fence { epoch: Epoch::FIRST, counter, process: conclave_core::NodeId(1) };
        resource.enter(NAMES[0], 1, fence);
        resource.leave(NAMES[0], fence);
    }
    resource.never_went_back();
}

#[test]
#[should_panic(expected = "two of one epoch were inside")]
fn two_of_one_epoch_are_seen() {
    let resource = Resource::default();
    for counter in [1, 2] {
        let fence = Fence { epoch: Epoch::FIRST, counter, process: conclave_core::NodeId(1) };
        resource.enter(NAMES[0], 1, fence);
    }
    resource.one_at_a_time_in_each_epoch();
}
