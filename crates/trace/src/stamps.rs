//! Lamport and vector stamps for a finished trace.

use std::collections::BTreeMap;

use conclave_core::{LamportClock, NodeId};

use crate::{Record, Trace, What};

/// Which records count as events for a logical clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counted {
    /// Everything that a process lives through.
    #[default]
    Everything,
    /// What textbooks draw: messages that are sent, and messages that arrive. The rest shows what the clock shows.
    Messages,
}

impl Counted {
    pub(crate) fn counts(self, record: &Record) -> bool {
        match self {
            Self::Everything => true,
            Self::Messages => matches!(record.what, What::Send(_) | What::Deliver(_)),
        }
    }
}

impl Trace {
    /// Stamps every record again: with Lamport stamps always, with vector stamps on demand.
    ///
    /// Every record that a process lives through is an event of it; it follows the one before it at the same process,
    /// and its cause. Other records (a loss, a cut, a finding) are no events: they get the stamp of their cause, so
    /// that the receiver of a lost message does not seem to know of it.
    pub fn stamp(&mut self, vectors: bool) {
        self.stamp_counting(Counted::Everything, vectors);
    }

    /// The same, with clocks that go on with some events only.
    pub fn stamp_counting(&mut self, counted: Counted, vectors: bool) {
        let place: BTreeMap<NodeId, usize> = self.header.nodes.iter().copied().zip(0..).collect();
        let mut lamport = vec![LamportClock::default(); place.len()];
        // The place in `records` of the last event of each process: its vector is the process's clock.
        let mut last: Vec<Option<usize>> = vec![None; place.len()];
        for at in 0..self.records.len() {
            let (earlier, later) = self.records.split_at_mut(at);
            let record = &mut later[0];
            let cause = record.cause.and_then(|id| earlier.get(usize::try_from(id).ok()?));
            record.lamport = cause.map_or(0, |cause| cause.lamport);
            record.vector = vectors.then(|| cause.and_then(|cause| cause.vector.clone()).unwrap_or_default());
            let process = record.process.filter(|_| record.what.is_lived());
            let Some(&place) = process.and_then(|process| place.get(&process)) else { continue };
            let counts = counted.counts(record);
            record.lamport = match counts {
                true => lamport[place].receive(record.lamport),
                false => lamport[place].time(),
            };
            let before = last[place].replace(at).and_then(|last| earlier[last].vector.as_ref());
            if let Some(vector) = &mut record.vector {
                before.into_iter().for_each(|before| vector.merge(before));
                if counts {
                    vector.tick(place);
                }
            }
        }
    }
}
