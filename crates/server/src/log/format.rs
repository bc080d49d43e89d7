//! The bytes of the log.
//!
//! ```text
//!   segment   magic, version, number, salt, size, checksum  48 bytes, safe before the segment has its name
//!             frame, frame, ...                             each one write and one sync
//!             zeros                                         room for more
//!   frame     checksum, length, sequence number             16 bytes
//!             record, record, ...
//!             zeros                                         up to a multiple of 8 bytes
//!   record    kind, length, content
//! ```
//!
//! A frame is written only when the one before it is safe. So of all frames only the last can be torn; a bad frame with a
//! good one anywhere behind it was good once, and has been damaged. The salt is random, and part of every checksum: what
//! clients send is in the log, and none of it must pass for a frame. A segment has its whole size from the beginning, so
//! that one which is shorter has lost its end, and not to a power cut.

use std::io;
use std::ops::Range;

use bytes::{Buf, Bytes};
use openraft::entry::RaftEntry;

use crate::raft::{Entry, LogId, Vote, put, put_entry, put_measured, take_measured, whole, whole_entry};

const MAGIC: &[u8; 8] = b"conclave";
/// The format that this version writes and reads.
pub(super) const VERSION: u32 = 1;
/// How long the head of a segment is.
pub(super) const SEGMENT_HEAD: usize = 48;
/// How long the head of a frame is.
pub(super) const FRAME_HEAD: usize = 16;
const ALIGN: usize = 8;

/// The name of a segment's file.
pub(super) fn segment_name(number: u64) -> String {
    format!("log-{number:020}")
}

/// The number in the name of a segment's file.
pub(super) fn segment_number(name: &str) -> Option<u64> {
    name.strip_prefix("log-")?.parse().ok()
}

/// What a segment begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHead {
    pub(super) number: u64,
    pub(super) salt: u64,
    /// How long the file is at least.
    pub(super) size: u64,
}

/// Why a segment cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BadHead {
    /// It is not what was written.
    Damaged,
    /// A later version wrote it.
    Version(u32),
}

impl SegmentHead {
    pub(super) fn encode(self) -> [u8; SEGMENT_HEAD] {
        let mut bytes = [0; SEGMENT_HEAD];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.salt.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.size.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[..44]);
        bytes[44..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(segment: &[u8]) -> Result<Self, BadHead> {
        let head = segment.get(..SEGMENT_HEAD).ok_or(BadHead::Damaged)?;
        if &head[..8] != MAGIC || crc32c::crc32c(&head[..44]) != u32_at(head, 44) {
            return Err(BadHead::Damaged);
        }
        match u32_at(head, 8) {
            VERSION => Ok(Self { number: u64_at(head, 16), salt: u64_at(head, 24), size: u64_at(head, 32) }),
            other => Err(BadHead::Version(other)),
        }
    }
}

/// Where a frame is in its segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) sequence: u64,
    pub(super) records: Range<usize>,
    /// Where the next one would begin.
    pub(super) end: usize,
}

/// The beginning of a frame, to which records are appended.
pub(super) fn open_frame() -> Vec<u8> {
    vec![0; FRAME_HEAD]
}

/// Completes a frame.
pub(super) fn close_frame(frame: &mut Vec<u8>, salt: u64, sequence: u64) -> io::Result<()> {
    let length = u32::try_from(frame.len() - FRAME_HEAD).map_err(io::Error::other)?;
    frame[4..8].copy_from_slice(&length.to_le_bytes());
    frame[8..16].copy_from_slice(&sequence.to_le_bytes());
    let sum = checksum(salt, &frame[4..]);
    frame[..4].copy_from_slice(&sum.to_le_bytes());
    frame.resize(frame.len().next_multiple_of(ALIGN), 0);
    Ok(())
}

/// The frame at a place of a segment, if there is a good one.
pub(super) fn frame_at(segment: &[u8], at: usize, salt: u64) -> Option<Frame> {
    let head = segment.get(at..at + FRAME_HEAD)?;
    let length = u32_at(head, 4) as usize;
    let records = at + FRAME_HEAD..(at + FRAME_HEAD).checked_add(length)?;
    let covered = segment.get(at + 4..records.end)?;
    if length == 0 || checksum(salt, covered) != u32_at(head, 0) {
        return None;
    }
    let end = records.end.next_multiple_of(ALIGN);
    Some(Frame { sequence: u64_at(head, 8), records, end })
}

/// Where behind a place there is a good frame that may follow the one expected there.
pub(super) fn frame_behind(segment: &[u8], place: usize, salt: u64, expected: u64) -> Option<usize> {
    let places = (place + ALIGN..segment.len().saturating_sub(FRAME_HEAD)).step_by(ALIGN);
    // The number is checked first: that rules out almost every place without a checksum.
    let near = expected..expected.saturating_add(segment.len() as u64);
    places
        .filter(|&at| near.contains(&u64_at(segment, at + 8)))
        .find(|&at| frame_at(segment, at, salt).is_some())
}

fn checksum(salt: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

/// One thing that the log remembers.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Record {
    /// An entry, behind all those before it.
    Entry(Entry),
    /// For whom this node voted last.
    Vote(Vote),
    /// Everything behind this entry is void.
    Truncate(Option<LogId>),
    /// Everything up to this entry is in a snapshot.
    Purge(LogId),
    /// Everything up to this entry was decided.
    Committed(Option<LogId>),
}

impl Record {
    /// Appends it to a frame.
    pub(super) fn put(&self, frame: &mut Vec<u8>) -> io::Result<()> {
        frame.push(self.kind());
        put_measured(frame, |out| match self {
            Self::Entry(entry) => put_entry(entry, out),
            Self::Vote(vote) => put(vote, out),
            Self::Truncate(id) | Self::Committed(id) => put(id, out),
            Self::Purge(id) => put(id, out),
        })
    }

    /// Takes the first one from the records of a frame.
    pub(super) fn take(records: &mut Bytes) -> io::Result<Self> {
        let kind = records.try_get_u8().map_err(io::Error::other)?;
        let content = take_measured(records)?;
        Ok(match kind {
            1 => Self::Entry(whole_entry(content)?),
            2 => Self::Vote(whole(&content)?),
            3 => Self::Truncate(whole(&content)?),
            4 => Self::Purge(whole(&content)?),
            5 => Self::Committed(whole(&content)?),
            other => return Err(io::Error::other(format!("records of kind {other} are unknown"))),
        })
    }

    /// The index of its entry.
    pub(super) fn index(&self) -> Option<u64> {
        match self {
            Self::Entry(entry) => Some(entry.log_id().index),
            Self::Vote(_) | Self::Truncate(_) | Self::Purge(_) | Self::Committed(_) => None,
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Entry(_) => 1,
            Self::Vote(_) => 2,
            Self::Truncate(_) => 3,
            Self::Purge(_) => 4,
            Self::Committed(_) => 5,
        }
    }
}
