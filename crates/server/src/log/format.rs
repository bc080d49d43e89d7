//! The bytes of the log.
//!
//! ```text
//!   segment   head: magic, version, number, salt, size, checksum   one sector, safe before the segment has its name
//!             frame, frame, ...                                    each one write and one sync
//!             zeros                                                room for more
//!   frame     one or more whole sectors, whose data together is:
//!             length of the records, sequence number               12 bytes
//!             record, record, ...
//!             zeros                                                up to the end of the last sector
//!   sector    checksum, mark, data                                 4 + 1 + 507 bytes
//!   record    kind, length, content
//! ```
//!
//! # Torn or damaged
//!
//! A frame is written only when the one before it is safe, so only the last write can be torn. The log assumes two things
//! about the disk:
//!
//! - A sector of 512 bytes is written whole or not at all, also by a write that fails or whose process is killed: the
//!   system takes over whole pages.
//! - A sector that was never written is zero: a segment is filled with zeros before it gets its name, and what a torn
//!   write left behind is zeroed before anything is written over it.
//!
//! Every sector of a frame carries a mark, so none is all zero, not even if a bit of it flips. Each has a checksum that
//! covers all of it and depends on the segment's salt, on where its frame begins and on its place in that frame. So every
//! sector behind the last complete frame can be judged by itself:
//!
//! | sector | what it is |
//! |---|---|
//! | all zero | never written |
//! | good, as a part of a frame that begins right behind the last complete one | written by the last write |
//! | anything else | damaged |
//!
//! A frame of which some sectors are good and others zero was torn by a power cut. Nobody was told that it is safe, and it
//! is cut off. Damage stops the node. In particular a lost sector in the middle of the log is damage, because what follows
//! it begins elsewhere. The salt is random: what clients send is in the log, and none of it must pass for a sector.
//!
//! # From one segment to the next
//!
//! 1. The next segment gets its name, with a head and zeros. It is a spare, and says nothing.
//! 2. The last frame of the segment says that the log continues in the next one.
//! 3. The first frame of the next segment is written, and whoever waits for it is answered.
//!
//! Each step is safe before the next one begins. So a segment that says so and has no next one has lost it, even if
//! everything is gone that came later. After a crash in the middle there is a spare, with or without the frame that leads
//! to it; a spare that no frame leads to may go missing.
//!
//! # Disks without powersafe overwrite
//!
//! Frames begin at sector boundaries, so a write never changes a sector that holds an acknowledged frame. But file systems
//! write whole pages of 4 KiB: the sectors before a frame are written again, with the bytes that they had. The log
//! assumes that this changes nothing (SQLite calls it *powersafe overwrite*, and assumes it by default, too). On a disk
//! that destroys a sector when the power goes while it is written again, that sector reads as an error or has a bad
//! checksum: the node reports damage and stops, it does not go on without the frame. One case cannot be told from a torn
//! write: a disk that replaces the last acknowledged frame by zeros, and loses the write that was under way entirely.
//! To rule out that one as well, every frame would need pages of its own, which is eight times the disk space for small
//! frames.
//!
//! # Cost
//!
//! One percent more bytes for the seals, and half a sector per frame on average. The disk notices neither: it gets whole
//! pages either way.

use std::io;

use bytes::{Buf, Bytes};
use openraft::entry::RaftEntry;

use crate::disk::{FORMAT, SECTOR};
use crate::mutant::{self, Mutant};
use crate::raft::{Entry, LogId, Vote, put, put_entry, put_measured, take_measured, whole, whole_entry};

const MAGIC: &[u8; 8] = b"conclave";
/// How long the head of a segment is: it shares its sector with nothing.
pub(super) const SEGMENT_HEAD: usize = SECTOR;
/// Up to where the head of a segment says anything. All versions have this part.
const SAID: usize = 48;
/// How long the head of a frame is.
pub(super) const FRAME_HEAD: usize = 12;
/// Checksum and mark of a sector.
const SEAL: usize = 5;
/// What a sector holds of its frame.
const DATA: usize = SECTOR - SEAL;
/// Several bits: no single flip makes it zero, or makes it out of zero.
const MARK: u8 = 0xa5;
/// A sector that was never written.
const BLANK: [u8; SECTOR] = [0; SECTOR];

/// The name of a segment's file.
pub(super) fn segment_name(number: u64) -> String {
    format!("log-{number:020}")
}

/// The number in the name of a segment's file.
pub(super) fn segment_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix("log-")?.parse().ok()?;
    // Any other spelling of a number is not the name of a file that we wrote.
    (segment_name(number) == name).then_some(number)
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
    /// Another version wrote it.
    Version(u32),
}

impl SegmentHead {
    pub(super) fn encode(self) -> [u8; SEGMENT_HEAD] {
        let mut bytes = [0; SEGMENT_HEAD];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.salt.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.size.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[..44]);
        bytes[44..SAID].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(segment: &[u8]) -> Result<Self, BadHead> {
        let said = segment.get(..SAID).ok_or(BadHead::Damaged)?;
        if &said[..8] != MAGIC || crc32c::crc32c(&said[..44]) != u32_at(said, 44) {
            return Err(BadHead::Damaged);
        }
        match u32_at(said, 8) {
            FORMAT => {}
            _ if mutant::is(Mutant::TakesAnyFormat) => {}
            other => return Err(BadHead::Version(other)),
        }
        match segment.get(SAID..SEGMENT_HEAD) {
            Some(rest) if *rest == BLANK[SAID..] => {
                Ok(Self { number: u64_at(said, 16), salt: u64_at(said, 24), size: u64_at(said, 32) })
            }
            _ => Err(BadHead::Damaged),
        }
    }
}

/// The beginning of a frame, to which records are appended.
pub(super) fn open_frame() -> Vec<u8> {
    vec![0; FRAME_HEAD]
}

/// How many bytes a frame takes in its segment.
pub(super) fn sealed_length(frame: usize) -> usize {
    frame.div_ceil(DATA) * SECTOR
}

/// Completes a frame, and makes of it the sectors that are written at this place of a segment.
pub(super) fn seal_frame(
    frame: &mut [u8],
    (salt, start): (u64, u64),
    sequence: u64,
    sectors: &mut Vec<u8>,
) -> io::Result<()> {
    let length = u32::try_from(frame.len() - FRAME_HEAD).map_err(io::Error::other)?;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    frame[4..FRAME_HEAD].copy_from_slice(&sequence.to_le_bytes());
    sectors.clear();
    sectors.reserve(sealed_length(frame.len()));
    let seal = Seal::of(salt, start);
    for (index, data) in frame.chunks(DATA).enumerate() {
        let at = sectors.len();
        sectors.extend_from_slice(&[0, 0, 0, 0, MARK]);
        sectors.extend_from_slice(data);
        sectors.resize(at + SECTOR, 0);
        let sum = seal.checksum(index, &sectors[at + 4..]);
        sectors[at..at + 4].copy_from_slice(&sum.to_le_bytes());
    }
    Ok(())
}

/// What the checksums of one frame's sectors have in common.
#[derive(Clone, Copy)]
struct Seal(u32);

impl Seal {
    fn of(salt: u64, start: u64) -> Self {
        Self(crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), &start.to_le_bytes()))
    }

    /// The checksum of what follows it in the sector with this place in the frame.
    fn checksum(self, index: usize, sector: &[u8]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c_append(self.0, &(index as u64).to_le_bytes()), sector)
    }

    fn look(self, index: usize, sector: &[u8]) -> Sector<'_> {
        match sector.split_at_checked(SEAL) {
            Some((seal, data))
                if data.len() == DATA
                    && seal[4] == MARK
                    && self.checksum(index, &sector[4..]) == u32_at(seal, 0) =>
            {
                Sector::Good(data)
            }
            _ if *sector == BLANK[..sector.len()] => Sector::Blank,
            _ => Sector::Bad,
        }
    }
}

/// A sector behind the last complete frame.
#[derive(Debug, PartialEq, Eq)]
enum Sector<'a> {
    /// Never written.
    Blank,
    /// A part of the frame that is looked for.
    Good(&'a [u8]),
    /// Neither.
    Bad,
}

/// What there is at a place of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A complete frame.
    Frame(Frame),
    /// Nothing, up to the end of the segment.
    Nothing,
    /// Some sectors of a frame, and nothing behind them.
    Torn {
        /// Where the last of them ends.
        end: usize,
    },
}

/// A complete frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) sequence: u64,
    pub(super) records: Bytes,
    /// Where the next one would begin.
    pub(super) end: usize,
}

/// A sector of a segment that is not what was written there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadSector {
    /// Where it begins.
    pub(super) at: usize,
    pub(super) why: &'static str,
}

/// Looks at a place of a segment where a frame may begin. What is beyond the end of the file was never written.
pub(super) fn frame_at(segment: &[u8], start: usize, salt: u64) -> Result<Found, BadSector> {
    let seal = Seal::of(salt, start as u64);
    let rest = segment.get(start..).unwrap_or_default();
    let sectors = || rest.chunks(SECTOR).enumerate().map(|(index, sector)| seal.look(index, sector));
    let Some(Sector::Good(first)) = sectors().next() else {
        return remains(sectors(), start, usize::MAX);
    };
    let length = FRAME_HEAD + u32_at(first, 0) as usize;
    let sequence = u64_at(first, 4);
    let mut data = Vec::with_capacity(sealed_length(length).min(rest.len()));
    for sector in sectors().take(length.div_ceil(DATA)) {
        match sector {
            Sector::Good(more) => data.extend_from_slice(more),
            Sector::Blank | Sector::Bad => break,
        }
    }
    if data.len() < length {
        return remains(sectors(), start, length.div_ceil(DATA));
    }
    let records = Bytes::from(data).slice(FRAME_HEAD..length);
    Ok(Found::Frame(Frame { sequence, records, end: start + sealed_length(length) }))
}

/// Makes sure that a torn write can have left this: sectors of one frame, of at most so many, or nothing.
fn remains<'a>(
    sectors: impl Iterator<Item = Sector<'a>>,
    start: usize,
    most: usize,
) -> Result<Found, BadSector> {
    let mut found = Found::Nothing;
    for (index, sector) in sectors.enumerate() {
        let at = start + index * SECTOR;
        match sector {
            Sector::Blank => {}
            Sector::Good(_) if index < most => found = Found::Torn { end: at + SECTOR },
            Sector::Good(_) => return Err(BadSector { at, why: "data behind the end of the last write" }),
            Sector::Bad => return Err(BadSector { at, why: "a bad checksum" }),
        }
    }
    Ok(found)
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
    /// The log continues in the next segment, which exists. Nothing follows in this one.
    Continued,
    /// The node was stopped in good order. So no frame with anything in it is ever the last one of a log that was closed.
    Closed,
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
            Self::Closed | Self::Continued => Ok(()),
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
            6 => {
                whole::<()>(&content)?;
                Self::Closed
            }
            7 => {
                whole::<()>(&content)?;
                Self::Continued
            }
            other => return Err(io::Error::other(format!("records of kind {other} are unknown"))),
        })
    }

    /// The index of its entry.
    pub(super) fn index(&self) -> Option<u64> {
        match self {
            Self::Entry(entry) => Some(entry.log_id().index),
            Self::Vote(_)
            | Self::Truncate(_)
            | Self::Purge(_)
            | Self::Committed(_)
            | Self::Closed
            | Self::Continued => None,
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Entry(_) => 1,
            Self::Vote(_) => 2,
            Self::Truncate(_) => 3,
            Self::Purge(_) => 4,
            Self::Committed(_) => 5,
            Self::Closed => 6,
            Self::Continued => 7,
        }
    }
}
