//! What the log said before the power went.
//!
//! Nothing is written here: whoever finds damage leaves everything as it is. What may be cut off is a write that a power
//! cut tore, at the end of the last segment that has anything in it. See [`super::format`] for how it is told from damage.

use bytes::Bytes;

use super::contents::Contents;
use super::format::{
    BadHead, Found, Record, SEGMENT_HEAD, SegmentHead, frame_at, segment_name, segment_number,
};
use crate::disk::{Disk, FORMAT, StorageError};
use crate::mutant::{self, Mutant};

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Recovered {
    pub(super) contents: Contents,
    /// The segments, oldest first, and the highest index of an entry in each. The last is the one to go on with.
    pub(super) segments: Vec<Segment>,
    /// Segments that were prepared and not used yet.
    pub(super) spares: Vec<SegmentHead>,
    /// The sequence number of the next frame.
    pub(super) next: u64,
}

/// A segment that has been read.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) head: SegmentHead,
    /// The highest index of an entry in it.
    pub(super) highest: Option<u64>,
    /// Where the good frames end.
    pub(super) end: usize,
    /// The last of them, as it was written.
    pub(super) last: Vec<u8>,
    /// Where the torn end of it ends, if it has one.
    pub(super) torn: Option<usize>,
    /// Whether it says that there is a next one.
    continues: bool,
}

impl Segment {
    fn empty(head: SegmentHead) -> Self {
        Self { head, highest: None, end: SEGMENT_HEAD, last: Vec::new(), torn: None, continues: false }
    }

    pub(super) fn number(&self) -> u64 {
        self.head.number
    }

    /// Whether it has no complete frame.
    pub(super) fn is_empty(&self) -> bool {
        self.end == SEGMENT_HEAD
    }
}

/// Reads the log.
///
/// # Errors
/// If it cannot be read, or is damaged.
pub(super) async fn recover(disk: &dyn Disk) -> Result<Recovered, StorageError> {
    let mut found = Recovered::default();
    for number in numbers(disk).await? {
        let name = segment_name(number);
        let bytes = disk.read(&name).await.map_err(StorageError::io(disk, &name))?;
        let head = head(disk, number, &bytes)?;
        match frame_at(&bytes, SEGMENT_HEAD, head.salt) {
            Ok(Found::Nothing) => found.spares.push(head),
            _ => found.segment(disk, head, &bytes)?,
        }
    }
    found.go_on(disk)?;
    found.whole(disk)?;
    Ok(found)
}

/// The numbers of all segments, which have no gap.
async fn numbers(disk: &dyn Disk) -> Result<Vec<u64>, StorageError> {
    let names = disk.list().await.map_err(StorageError::io(disk, ""))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment_number(name)).collect();
    numbers.sort_unstable();
    match numbers.windows(2).find(|pair| pair[0] + 1 != pair[1]) {
        Some(gap) => Err(StorageError::Missing { place: disk.place(&segment_name(gap[0] + 1)) }),
        None => Ok(numbers),
    }
}

fn head(disk: &dyn Disk, number: u64, bytes: &[u8]) -> Result<SegmentHead, StorageError> {
    let name = segment_name(number);
    match SegmentHead::decode(bytes) {
        Ok(head) if head.number == number && head.size > bytes.len() as u64 => {
            let why = format!("cut off here, of {} bytes", head.size);
            Err(StorageError::damaged(disk, &name, bytes.len(), why))
        }
        Ok(head) if head.number == number => Ok(head),
        Ok(head) => Err(StorageError::damaged(disk, &name, 16, format!("this is segment {}", head.number))),
        Err(BadHead::Damaged) => Err(StorageError::damaged(disk, &name, 0, "no head of a segment")),
        Err(BadHead::Version(found)) => {
            Err(StorageError::Version { place: disk.place(&name), found, known: FORMAT })
        }
    }
}

impl Recovered {
    /// Takes in a segment that has something in it.
    fn segment(&mut self, disk: &dyn Disk, head: SegmentHead, bytes: &[u8]) -> Result<(), StorageError> {
        self.nothing_torn_before(disk)?;
        let name = segment_name(head.number);
        let damaged = |at, why: &str| StorageError::damaged(disk, &name, at, why);
        let mut segment = Segment::empty(head);
        let mut last = segment.end;
        loop {
            let found = frame_at(bytes, segment.end, head.salt);
            if found.is_err() && mutant::is(Mutant::CutsDamage) {
                segment.torn = Some(bytes.len());
                break;
            }
            let frame = match found.map_err(|bad| damaged(bad.at, bad.why))? {
                Found::Frame(frame) => frame,
                Found::Nothing => break,
                Found::Torn { end } => {
                    segment.torn = Some(end);
                    break;
                }
            };
            if segment.continues {
                return Err(damaged(segment.end, "data behind the end of the segment"));
            }
            if self.next != frame.sequence && !(self.next == 0 && self.segments.is_empty()) {
                let why = format!("frame {} where {} was due", frame.sequence, self.next);
                return Err(damaged(segment.end, &why));
            }
            self.records(frame.records, &mut segment).map_err(|why| damaged(segment.end, &why))?;
            self.next = frame.sequence + 1;
            last = std::mem::replace(&mut segment.end, frame.end);
        }
        segment.last = bytes[last..segment.end].to_vec();
        self.segments.push(segment);
        Ok(())
    }

    /// Finds the segment to go on with: the last that says anything, or the one that it leads to.
    fn go_on(&mut self, disk: &dyn Disk) -> Result<(), StorageError> {
        let missing = |number| Err(StorageError::Missing { place: disk.place(&segment_name(number)) });
        let due = match self.segments.last() {
            Some(Segment { continues: false, .. }) => return Ok(()),
            Some(last) => last.head.number + 1,
            None => 0,
        };
        match self.spares.first() {
            Some(spare) if spare.number == due => {
                self.segments.push(Segment::empty(self.spares.remove(0)));
                Ok(())
            }
            // The segments before it are removed only when it has something in it.
            Some(spare) => missing(spare.number - 1),
            None if self.segments.is_empty() => Ok(()),
            None => missing(due),
        }
    }

    /// Only the last segment may have a torn end: before the next one was begun, this one was safe, and led to it.
    fn nothing_torn_before(&self, disk: &dyn Disk) -> Result<(), StorageError> {
        if let Some(spare) = self.spares.first() {
            let name = segment_name(spare.number);
            return Err(StorageError::damaged(disk, &name, SEGMENT_HEAD, "empty, and later ones are not"));
        }
        match self.segments.last() {
            Some(Segment { head, end, torn: Some(_), .. }) => {
                let name = segment_name(head.number);
                Err(StorageError::damaged(disk, &name, *end, "cut off here, and there is a later segment"))
            }
            Some(Segment { head, end, continues: false, .. }) => {
                let name = segment_name(head.number);
                Err(StorageError::damaged(disk, &name, *end, "it ends here, and there is a later segment"))
            }
            _ => Ok(()),
        }
    }

    fn records(&mut self, mut records: Bytes, segment: &mut Segment) -> Result<(), String> {
        while !records.is_empty() {
            let record = Record::take(&mut records).map_err(|error| error.to_string())?;
            segment.highest = segment.highest.max(record.index());
            segment.continues |= record == Record::Continued;
            self.contents
                .apply(record)
                .map_err(|entry| format!("entry {} does not follow the one before", entry.log_id.index))?;
        }
        Ok(())
    }

    /// What was purged, and what is there, must meet.
    fn whole(&self, disk: &dyn Disk) -> Result<(), StorageError> {
        let due = self.contents.purged.map_or(0, |id| id.index + 1);
        let oldest = self.segments.first().map_or(0, |segment| segment.head.number);
        match self.contents.first_index() {
            Some(first) if first > due && oldest > 0 => {
                Err(StorageError::Missing { place: disk.place(&segment_name(oldest - 1)) })
            }
            Some(first) if first > due => {
                let why = format!("entries {due} to {} are missing", first - 1);
                Err(StorageError::damaged(disk, &segment_name(oldest), SEGMENT_HEAD, why))
            }
            _ => Ok(()),
        }
    }
}
