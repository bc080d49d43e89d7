//! Group commit: whatever has been handed over while the last write was under way shares the next one.
//!
//! The log has a thread of its own. A follower could write on the spot, since it has nothing to acknowledge before its
//! entries are safe, and would save two changes of threads for every batch; but a disk can hang for as long as it likes,
//! and a node whose disk hangs must still be able to say so.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openraft::storage::IOFlushed;
use tokio::sync::{Notify, oneshot};

use super::format::{
    FRAME_HEAD, Record, SEGMENT_HEAD, SegmentHead, open_frame, seal_frame, sealed_length, segment_name,
};
use super::recover::{Recovered, Segment};
use crate::disk::silence::Silence;
use crate::disk::{Disk, DiskFile, SECTOR, within};
use crate::mutant::{self, Mutant};
use crate::raft::{LogId, Types, Vote};

/// A write takes in no more once it has so many bytes.
const ENOUGH: usize = 4 << 20;

/// Something for the writer to do, in order.
pub(super) enum Job {
    /// Write entries, encoded as records, and say when they are safe.
    Append {
        records: Vec<u8>,
        /// The highest index among them.
        highest: Option<u64>,
        flushed: IOFlushed<Types>,
    },
    /// Write a vote and say when it is safe.
    Vote(Vote, oneshot::Sender<io::Result<()>>),
    /// Void the end of the log.
    Truncate(Option<LogId>),
    /// Forget the beginning of the log, and its files with it.
    Purge(LogId),
    /// Remember what was decided, whenever something is written next: it is nothing but a shortcut for the next start.
    Committed(Option<LogId>),
}

/// What is handed to the writer. The writer ends when this is dropped.
#[derive(Debug)]
pub(super) struct Pen(Arc<Desk>);

/// What waits to be written.
struct Desk {
    queue: Mutex<Queue>,
    more: Notify,
    silence: Arc<Silence>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    is_closed: bool,
}

/// Writes the log.
struct Writer {
    disk: Arc<dyn Disk>,
    segment_bytes: u64,
    /// Full segments, oldest first.
    full: VecDeque<(u64, Option<u64>)>,
    active: Active,
    /// The next segment, or the promise of it.
    spare: Option<oneshot::Receiver<io::Result<Active>>>,
    /// The sequence number of the next frame.
    next: u64,
    /// The frame that is written, in sectors; used again and again.
    sectors: Vec<u8>,
    /// What every segment repeats at its beginning, so that older ones can be removed.
    standing: Standing,
    /// Why nothing can be written any more.
    failed: Option<(io::ErrorKind, String)>,
}

/// The segment that is written to.
struct Active {
    head: SegmentHead,
    file: Arc<dyn DiskFile>,
    end: u64,
    size: u64,
    highest: Option<u64>,
}

/// The newest of each record of which only the newest counts.
#[derive(Default)]
struct Standing {
    vote: Option<Vote>,
    purged: Option<LogId>,
    committed: Option<LogId>,
    /// Whether the disk does not know the last of them yet.
    committed_is_news: bool,
}

/// Jobs that share one write.
struct Group {
    frame: Vec<u8>,
    highest: Option<u64>,
    appended: Vec<IOFlushed<Types>>,
    voted: Vec<oneshot::Sender<io::Result<()>>>,
    purge: Option<LogId>,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("jobs", &self.queue().jobs.len()).finish_non_exhaustive()
    }
}

impl Pen {
    /// Puts a job behind all others; it is done with the next of them that is done.
    pub(super) fn put(&self, job: Job) {
        self.0.queue().jobs.push_back(job);
    }

    /// Has everything done that was put there.
    pub(super) fn have_done(&self) {
        self.0.more.notify_one();
    }
}

impl Drop for Pen {
    fn drop(&mut self) {
        self.0.queue().is_closed = true;
        self.have_done();
    }
}

impl Desk {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes until nobody can hand over anything any more.
    async fn run(&self, mut writer: Writer) {
        while !self.queue().is_closed {
            self.more.notified().await;
            self.work(&mut writer).await;
        }
        // What was put there after the last look, right before the end.
        self.work(&mut writer).await;
        writer.finish().await;
    }

    /// Does everything that is there to be done.
    async fn work(&self, writer: &mut Writer) {
        while let Some(first) = self.next() {
            let _under_way = self.silence.begin();
            let mut group = Group::new();
            let mut gathered = writer.take(first, &mut group);
            while group.frame.len() < ENOUGH
                && let Some(job) = self.next()
            {
                gathered = gathered.and_then(|()| writer.take(job, &mut group));
            }
            let written = match gathered {
                Ok(()) => writer.write(&mut group).await,
                Err(error) => Err(error),
            };
            group.answer(&writer.remember(written));
        }
    }

    fn next(&self) -> Option<Job> {
        self.queue().jobs.pop_front()
    }
}

impl Writer {
    /// Makes the log ready to be gone on with: cuts off a torn end, and makes sure that what was read is safe.
    ///
    /// What was read may be in the page cache only. A process that was killed leaves writes behind that were never synced.
    /// One whose sync failed leaves pages behind that look synced: the kernel reports the error once and takes them
    /// for clean, so that another sync does nothing for them (Rebello et al., *Can Applications Recover from fsync
    /// Failures?*, ATC 2020). Only the last frame can be concerned, since after a failure no other is written. So it
    /// is written again before anybody may count on it: a vote or an entry in it may have been answered for.
    async fn prepare(disk: Arc<dyn Disk>, found: &mut Recovered, segment_bytes: u64) -> io::Result<Self> {
        let last = found.segments.pop();
        if let (Some(last), Some(before)) = (&last, found.segments.last())
            && last.is_empty()
        {
            // The last frame is in the segment before, and says that this one exists.
            Active::reopen(&*disk, before, segment_bytes).await?;
        }
        let active = match last {
            Some(last) => Active::reopen(&*disk, &last, segment_bytes).await?,
            None => Active::create(&*disk, 0, segment_bytes).await?,
        };
        let spare = match found.spares.first() {
            Some(&head) => Some(ready(Active::open(&*disk, head, segment_bytes).await?)),
            None => None,
        };
        let standing = Standing {
            vote: found.contents.vote,
            purged: found.contents.purged,
            committed: found.contents.committed,
            committed_is_news: false,
        };
        let full = found.segments.iter().map(|segment| (segment.head.number, segment.highest)).collect();
        let next = found.next;
        let sectors = Vec::new();
        Ok(Self { disk, segment_bytes, full, active, spare, next, sectors, standing, failed: None })
    }

    /// Closes the log: with one more frame behind it, whatever happens to the last one that says something is damage, even
    /// if it is gone without a trace. Notes what was decided last, too: it is not needed, but the next start has less to
    /// wait for. Leaves no half-made file.
    async fn finish(&mut self) {
        if let Some(spare) = self.spare.take() {
            // Whether it could be made does not matter any more.
            let _ = spare.await;
        }
        if self.next == 0 || self.failed.is_some() {
            return;
        }
        if let Err(error) = self.close().await {
            tracing::warn!(%error, "the log could not be closed");
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        let mut group = Group::new();
        self.note_committed(&mut group)?;
        Record::Closed.put(&mut group.frame)?;
        self.write_frame(&mut group).await
    }

    /// After a failed write or sync nobody knows what is on the disk, so there is no next one.
    fn remember(&mut self, written: io::Result<()>) -> io::Result<()> {
        if let Err(error) = &written
            && self.failed.is_none()
        {
            tracing::error!(%error, "the log cannot be written any more");
            self.failed = Some((error.kind(), error.to_string()));
        }
        written
    }

    fn take(&mut self, job: Job, group: &mut Group) -> io::Result<()> {
        match job {
            Job::Append { records, highest, flushed } => {
                group.frame.extend_from_slice(&records);
                group.highest = group.highest.max(highest);
                group.appended.push(flushed);
                Ok(())
            }
            Job::Vote(vote, saved) => {
                self.standing.vote = Some(vote);
                group.voted.push(saved);
                Record::Vote(vote).put(&mut group.frame)
            }
            Job::Truncate(after) => Record::Truncate(after).put(&mut group.frame),
            Job::Purge(upto) => {
                self.standing.purged = self.standing.purged.max(Some(upto));
                group.purge = Some(upto);
                Record::Purge(upto).put(&mut group.frame)
            }
            Job::Committed(committed) => {
                self.standing.committed = committed;
                self.standing.committed_is_news = true;
                Ok(())
            }
        }
    }

    async fn write(&mut self, group: &mut Group) -> io::Result<()> {
        if let Some((kind, why)) = &self.failed {
            return Err(io::Error::new(*kind, why.clone()));
        }
        if group.frame.len() == FRAME_HEAD {
            return Ok(());
        }
        self.note_committed(group)?;
        // There is always room to close the log and to continue in the next segment, also on a full disk.
        if !self.active.has_room(sealed_length(group.frame.len()) + 2 * SECTOR) {
            self.begin_segment().await?;
        }
        self.write_frame(group).await?;
        if let Some(upto) = group.purge {
            self.remove_segments(upto).await?;
        }
        self.prepare_spare()
    }

    fn note_committed(&mut self, group: &mut Group) -> io::Result<()> {
        if std::mem::take(&mut self.standing.committed_is_news) {
            Record::Committed(self.standing.committed).put(&mut group.frame)?;
        }
        Ok(())
    }

    /// Writes a group as one frame, and returns when it is safe.
    async fn write_frame(&mut self, group: &mut Group) -> io::Result<()> {
        if self.active.is_empty() {
            self.repeat_standing(group)?;
        }
        let place = (self.active.head.salt, self.active.end);
        seal_frame(&mut group.frame, place, self.next, &mut self.sectors)?;
        self.active.file.write_safely(self.active.end, &self.sectors).await?;
        self.active.end += self.sectors.len() as u64;
        self.active.highest = self.active.highest.max(group.highest);
        self.next += 1;
        Ok(())
    }

    /// The first frame of a segment begins with what older ones say.
    fn repeat_standing(&self, group: &mut Group) -> io::Result<()> {
        let mut frame = open_frame();
        self.standing.put(&mut frame)?;
        frame.extend_from_slice(&group.frame[FRAME_HEAD..]);
        group.frame = frame;
        Ok(())
    }

    /// Goes on in a new segment, which the last frame of this one leads to.
    async fn begin_segment(&mut self) -> io::Result<()> {
        let number = self.active.head.number + 1;
        let spare = match self.spare.take() {
            Some(spare) => spare.await.map_err(io::Error::other)??,
            None => Active::create(&*self.disk, number, self.segment_bytes).await?,
        };
        let mut group = Group::new();
        Record::Continued.put(&mut group.frame)?;
        self.write_frame(&mut group).await?;
        let full = std::mem::replace(&mut self.active, spare);
        self.full.push_back((full.head.number, full.highest));
        Ok(())
    }

    /// Half a segment before it is needed, the next one is made elsewhere, since that takes many times as long as a
    /// write.
    fn prepare_spare(&mut self) -> io::Result<()> {
        if self.spare.is_none() && self.active.end * 2 > self.active.size {
            let (made, spare) = oneshot::channel();
            let disk = Arc::clone(&self.disk);
            let (number, size) = (self.active.head.number + 1, self.segment_bytes);
            self.disk.run(Box::pin(async move {
                // A writer that has ended needs no spare.
                let _ = made.send(Active::create(&*disk, number, size).await);
            }))?;
            self.spare = Some(spare);
        }
        Ok(())
    }

    /// Removes the oldest segments, as long as all that is in them was purged. The purge is safe by now.
    async fn remove_segments(&mut self, upto: LogId) -> io::Result<()> {
        while let Some(&(number, highest)) = self.full.front()
            && highest.is_none_or(|highest| highest <= upto.index)
        {
            self.disk.remove(&segment_name(number)).await?;
            self.full.pop_front();
        }
        Ok(())
    }
}

impl Active {
    async fn create(disk: &dyn Disk, number: u64, size: u64) -> io::Result<Self> {
        let size = size.next_multiple_of(SECTOR as u64);
        let salt = getrandom::u64().map_err(io::Error::other)?;
        let head = SegmentHead { number, salt, size };
        let file = disk.create(&segment_name(number), &head.encode(), size).await?;
        Ok(Self { head, file, end: SEGMENT_HEAD as u64, size, highest: None })
    }

    fn is_empty(&self) -> bool {
        self.end == SEGMENT_HEAD as u64
    }

    /// Whether so many bytes still fit. In an empty segment everything does: it grows.
    fn has_room(&self, bytes: usize) -> bool {
        self.is_empty() || self.end + bytes as u64 <= self.size
    }

    async fn open(disk: &dyn Disk, head: SegmentHead, size: u64) -> io::Result<Self> {
        let file = disk.open(&segment_name(head.number)).await?;
        Ok(Self { head, file, end: SEGMENT_HEAD as u64, size, highest: None })
    }

    async fn reopen(disk: &dyn Disk, last: &Segment, size: u64) -> io::Result<Self> {
        let mut active = Self::open(disk, last.head, size).await?;
        if let Some(torn) = last.torn {
            let place = disk.place(&segment_name(last.head.number));
            tracing::warn!(place, from = last.end, to = torn, "cut off a write that was never completed");
            active.file.write(last.end as u64, &vec![0; torn - last.end]).await?;
        }
        if !mutant::is(Mutant::TrustsLastWrite) {
            active.file.write((last.end - last.last.len()) as u64, &last.last).await?;
        }
        active.file.sync().await?;
        active.end = last.end as u64;
        active.highest = last.highest;
        Ok(active)
    }
}

impl Standing {
    fn put(&self, frame: &mut Vec<u8>) -> io::Result<()> {
        if let Some(vote) = self.vote {
            Record::Vote(vote).put(frame)?;
        }
        if let Some(purged) = self.purged {
            Record::Purge(purged).put(frame)?;
        }
        Record::Committed(self.committed).put(frame)
    }
}

impl Group {
    fn new() -> Self {
        let frame = open_frame();
        Self { frame, highest: None, appended: Vec::new(), voted: Vec::new(), purge: None }
    }

    fn answer(self, written: &io::Result<()>) {
        let result = || match written {
            Ok(()) => Ok(()),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        };
        for saved in self.voted {
            // Whoever asked may be gone.
            let _ = saved.send(result());
        }
        // The library keeps only the newest of its own callbacks. To be called several times in a row makes it wait
        // for more, for as long as a timer tick.
        let mut newest = None;
        for flushed in self.appended {
            match flushed {
                IOFlushed::Notify(notify) => newest = Some(IOFlushed::Notify(notify)),
                other => other.io_completed(result()),
            }
        }
        if let Some(flushed) = newest {
            flushed.io_completed(result());
        }
    }
}

fn ready(active: Active) -> oneshot::Receiver<io::Result<Active>> {
    let (made, spare) = oneshot::channel();
    // The receiver is right here.
    let _ = made.send(Ok(active));
    spare
}

/// Starts the writer where it may block; the second is answered when it has ended.
pub(super) async fn start(
    disk: Arc<dyn Disk>,
    mut found: Recovered,
    segment_bytes: u64,
    silence: Arc<Silence>,
) -> io::Result<(Pen, oneshot::Receiver<()>, Recovered)> {
    let (ended, end) = oneshot::channel();
    let at = Arc::clone(&disk);
    let (writer, found) = within(&*disk, async move {
        let writer = Writer::prepare(at, &mut found, segment_bytes).await;
        (writer, found)
    })
    .await?;
    let writer = writer?;
    let desk = Arc::new(Desk { queue: Mutex::default(), more: Notify::new(), silence });
    let pen = Pen(Arc::clone(&desk));
    disk.run(Box::pin(async move {
        desk.run(writer).await;
        // Nobody has to wait for it.
        let _ = ended.send(());
    }))?;
    Ok((pen, end, found))
}
