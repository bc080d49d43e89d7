//! The Raft log and the vote: an append-only log in segments, written ahead of everything else.
//!
//! `format` says what the bytes are, `recover` how they are read after a crash, `writer` how they are written:
//! one write and one sync for all that waits. What the log says is kept in memory as well, from the last purge on, and
//! every read is answered from there.
//!
//! What a power cut can have torn is cut off at the next start; everything else that is not as it was written is damage,
//! and stops the node. `format` says how the two are told apart, and what is assumed of the disk.

mod contents;
mod format;
mod recover;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt::Debug;
use std::io;
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openraft::OptionalSend;
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use tokio::sync::oneshot;

use crate::disk::silence::Silence;
use crate::disk::{Disk, StorageError, within};
use crate::raft::{Entry, LogId, Types, Vote, weight};
use contents::Contents;
use format::Record;
use writer::{Job, Pen};

/// How large the files of the log are, unless told otherwise.
pub const SEGMENT_BYTES: u64 = 16 << 20;
/// Whoever reads much must not keep others waiting.
const ENTRIES_AT_ONCE: usize = 256;
/// A follower is sent no more than this at once.
const REQUEST_BYTES: u64 = 1 << 20;

/// The log, to be written. There is one.
#[derive(Debug)]
pub struct Log {
    pen: Pen,
    reader: LogReader,
}

/// A log that has been read. Nothing on the disk has been changed yet.
pub(crate) struct ReadLog {
    disk: Arc<dyn Disk>,
    found: recover::Recovered,
    reader: LogReader,
}

/// The log, to be read by many.
#[derive(Clone, Debug, Default)]
pub struct LogReader(Arc<Mutex<Contents>>);

/// Resolves when the log is no longer in use.
#[derive(Debug)]
pub struct Closed(oneshot::Receiver<()>);

impl Closed {
    /// Waits for that.
    pub async fn wait(self) {
        // A writer that was stopped has ended too.
        let _ = self.0.await;
    }
}

impl ReadLog {
    /// Whether nothing was ever written.
    pub(crate) fn is_pristine(&self) -> bool {
        self.found.contents == Contents::default()
    }

    /// The last entry that was forgotten.
    pub(crate) fn purged(&self) -> Option<LogId> {
        self.found.contents.purged
    }

    /// A handle to read with, as soon as the log is open.
    pub(crate) fn reader(&self) -> LogReader {
        self.reader.clone()
    }

    /// Makes ready to go on, and notes from then on how long the disk is silent.
    ///
    /// # Errors
    /// If the disk cannot be used.
    pub(crate) async fn open(
        self,
        segment_bytes: u64,
        silence: Arc<Silence>,
    ) -> Result<(Log, Closed), StorageError> {
        let Self { disk, found, reader } = self;
        let started = writer::start(Arc::clone(&disk), found, segment_bytes, silence).await;
        let (pen, end, found) = started.map_err(StorageError::io(&*disk, ""))?;
        *reader.lock() = found.contents;
        Ok((Log { pen, reader }, Closed(end)))
    }
}

impl Log {
    /// Reads what is there and makes ready to go on.
    ///
    /// # Errors
    /// If the log is damaged or cannot be used, or has nothing in it and should; then nothing has been changed.
    pub async fn open(
        disk: Arc<dyn Disk>,
        segment_bytes: u64,
        may_be_new: bool,
    ) -> Result<(Self, Closed), StorageError> {
        let silence = Arc::new(Silence::new(Duration::MAX));
        Self::read(disk, may_be_new).await?.open(segment_bytes, silence).await
    }

    /// Reads what is there, and changes nothing.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) async fn read(disk: Arc<dyn Disk>, may_be_new: bool) -> Result<ReadLog, StorageError> {
        let at = Arc::clone(&disk);
        let found = within(&*disk, async move { recover::recover(&*at).await }).await;
        let found = found.map_err(StorageError::io(&*disk, ""))??;
        if !may_be_new && found.contents == Contents::default() {
            return Err(match found.segments.first() {
                Some(empty) => {
                    let name = format::segment_name(empty.number());
                    StorageError::damaged(&*disk, &name, format::SEGMENT_HEAD, "there is nothing in it")
                }
                None => StorageError::Missing { place: disk.place("log-*") },
            });
        }
        Ok(ReadLog { disk, found, reader: LogReader::default() })
    }

    /// Whether nothing was ever written.
    #[must_use]
    pub fn is_pristine(&self) -> bool {
        *self.reader.lock() == Contents::default()
    }

    /// A handle to read with.
    #[must_use]
    pub fn reader(&self) -> LogReader {
        self.reader.clone()
    }

    /// Takes a record into memory and puts it before the writer. Both under one lock, so that they agree on the order.
    fn record(&self, record: Record, job: Job) -> io::Result<()> {
        let mut contents = self.reader.lock();
        contents.apply(record).map_err(|entry| out_of_order(&entry))?;
        self.pen.put(job);
        Ok(())
    }

    /// Takes entries into memory and puts them before the writer.
    fn record_entries(
        &self,
        entries: impl IntoIterator<Item = Entry>,
        flushed: IOFlushed<Types>,
    ) -> io::Result<()> {
        let mut contents = self.reader.lock();
        let mut records = Vec::new();
        let mut highest = None;
        for entry in entries {
            highest = highest.max(Some(entry.log_id.index));
            let record = Record::Entry(entry);
            record.put(&mut records)?;
            contents.apply(record).map_err(|entry| out_of_order(&entry))?;
        }
        self.pen.put(Job::Append { records, highest, flushed });
        Ok(())
    }
}

impl LogReader {
    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Some of these entries, beginning with the first, if it is there.
    pub(crate) fn some_entries(&self, range: std::ops::RangeInclusive<u64>) -> Vec<Entry> {
        self.lock().range(range).take(ENTRIES_AT_ONCE).cloned().collect()
    }

    /// Takes in an entry that follows the last one.
    #[cfg(test)]
    pub(crate) fn learn(&self, entry: Entry) {
        self.lock().apply(Record::Entry(entry)).expect("it follows");
    }

    /// Forgets the beginning up to an entry.
    #[cfg(test)]
    pub(crate) fn forget(&self, upto: LogId) {
        self.lock().apply(Record::Purge(upto)).expect("anything can be forgotten");
    }

    /// For whom the node voted last, and the last entry that it has.
    pub(crate) fn end(&self) -> (Option<Vote>, Option<LogId>) {
        let contents = self.lock();
        (contents.vote, contents.last())
    }

    /// How many bytes have been appended since the log was opened, those that it had then included.
    #[must_use]
    pub fn appended(&self) -> u64 {
        self.lock().appended
    }
}

/// Whether a file is a part of a log.
pub(crate) fn is_segment(name: &str) -> bool {
    format::segment_number(name).is_some()
}

fn out_of_order(entry: &Entry) -> io::Error {
    io::Error::other(format!("entry {} does not follow the last one of the log", entry.log_id))
}

impl RaftLogReader<Types> for LogReader {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, io::Error> {
        Ok(self.lock().range(range).cloned().collect())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.lock().vote)
    }

    /// Never nothing, and otherwise no more than a message should have.
    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, io::Error> {
        let contents = self.lock();
        let mut bytes = 0;
        let some = contents.range(start..end).take_while(|entry| {
            let is_first = bytes == 0;
            bytes += weight(entry);
            is_first || bytes <= REQUEST_BYTES
        });
        Ok(some.cloned().collect())
    }
}

impl RaftLogStorage<Types> for Log {
    type LogReader = LogReader;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, io::Error> {
        let contents = self.reader.lock();
        Ok(LogState { last_purged_log_id: contents.purged, last_log_id: contents.last() })
    }

    async fn get_log_reader(&mut self) -> LogReader {
        self.reader()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        let (saved, safe) = oneshot::channel();
        self.record(Record::Vote(*vote), Job::Vote(*vote, saved))?;
        self.pen.have_done();
        safe.await.map_err(io::Error::other)?
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        self.record(Record::Committed(committed), Job::Committed(committed))
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        Ok(self.reader.lock().committed)
    }

    async fn append<I>(&mut self, entries: I, flushed: IOFlushed<Types>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.record_entries(entries, flushed)?;
        self.pen.have_done();
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> Result<(), io::Error> {
        self.record(Record::Truncate(last), Job::Truncate(last))?;
        self.pen.have_done();
        Ok(())
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), io::Error> {
        self.record(Record::Purge(upto), Job::Purge(upto))?;
        self.pen.have_done();
        Ok(())
    }
}
