//! What the log says, in memory: the same whether it was read from disk or has just been told.

use std::collections::VecDeque;
use std::ops::{Bound, RangeBounds};

use super::format::Record;
use crate::raft::{Entry, LogId, Vote, weight};

/// Everything that the log says. The entries since the last purge are all here, since followers and the state machine
/// read them; snapshots bound how many there are.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Contents {
    pub(super) vote: Option<Vote>,
    pub(super) committed: Option<LogId>,
    pub(super) purged: Option<LogId>,
    /// Without gaps.
    entries: VecDeque<Entry>,
    /// How many bytes have ever been appended, as far as this life knows.
    pub(super) appended: u64,
}

impl Contents {
    /// Takes a record in. An entry that does not follow the last one is given back.
    pub(super) fn apply(&mut self, record: Record) -> Result<(), Entry> {
        match record {
            Record::Entry(entry) => return self.push(entry),
            Record::Vote(vote) => self.vote = Some(vote),
            Record::Truncate(after) => self.truncate(after),
            Record::Purge(upto) => self.purge(upto),
            Record::Committed(committed) => self.committed = committed,
            Record::Closed | Record::Continued => {}
        }
        Ok(())
    }

    fn push(&mut self, entry: Entry) -> Result<(), Entry> {
        if self.entries.back().is_some_and(|last| last.log_id.index + 1 != entry.log_id.index) {
            return Err(entry);
        }
        self.appended += weight(&entry);
        self.entries.push_back(entry);
        Ok(())
    }

    fn truncate(&mut self, after: Option<LogId>) {
        let keep = after.map_or(0, |id| id.index + 1);
        while self.entries.back().is_some_and(|last| last.log_id.index >= keep) {
            self.entries.pop_back();
        }
    }

    fn purge(&mut self, upto: LogId) {
        self.purged = self.purged.max(Some(upto));
        while self.entries.front().is_some_and(|first| first.log_id.index <= upto.index) {
            self.entries.pop_front();
        }
    }

    pub(super) fn first_index(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.log_id.index)
    }

    pub(super) fn last(&self) -> Option<LogId> {
        self.entries.back().map(|entry| entry.log_id).or(self.purged)
    }

    /// The entries with an index in a range, as far as there are any.
    pub(super) fn range(&self, range: impl RangeBounds<u64>) -> impl Iterator<Item = &Entry> {
        let first = self.first_index().unwrap_or(0);
        let place = |index: u64| (index.saturating_sub(first) as usize).min(self.entries.len());
        let start = match range.start_bound() {
            Bound::Included(&index) => place(index),
            Bound::Excluded(&index) => place(index.saturating_add(1)),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&index) => place(index.saturating_add(1)),
            Bound::Excluded(&index) => place(index),
            Bound::Unbounded => self.entries.len(),
        };
        self.entries.range(start..end.max(start))
    }
}
