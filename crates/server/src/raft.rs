//! What the consensus library is told about us, and how log entries become bytes.
//!
//! An entry has one encoding, in the log and on the wire: a small head, and behind it the batch exactly as the leader's
//! front encoded it. Nobody decodes the batch before it is applied, and whoever reads an entry out of a larger buffer
//! shares that buffer instead of copying from it.

use std::fmt;
use std::io;

use bytes::{Buf, Bytes};
use openraft::raft::AppendEntriesRequest;
use openraft::type_config::alias::{
    EntryOf, LeaderIdOf, LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf, VoteOf,
};
use openraft::{EntryPayload, Membership};
use serde::{Deserialize, Serialize};

/// One encoded [`Batch`](conclave_service::Batch).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload(pub Bytes);

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

openraft::declare_raft_types!(
    /// Our choice of types.
    pub Types:
        D = Payload,
        R = (),
);

/// A node among others: its number, and where it is.
pub type Node = openraft::BasicNode;
/// An entry of the log.
pub type Entry = EntryOf<Types>;
/// Where in the log, and under which leader.
pub type LogId = LogIdOf<Types>;
/// Which leader, of which term.
pub type LeaderId = LeaderIdOf<Types>;
/// For whom a node voted, and whether that one won.
pub type Vote = VoteOf<Types>;
/// Who takes part, and since which entry.
pub type StoredMembership = StoredMembershipOf<Types>;
/// What a snapshot is of.
pub type SnapshotMeta = SnapshotMetaOf<Types>;
/// A snapshot: what it is of, and the encoded state.
pub type Snapshot = SnapshotOf<Types, Bytes>;
/// The library's handle.
pub type Raft = openraft::Raft<Types, crate::machine::Machine>;

/// What stands before the batch.
#[derive(Serialize, Deserialize)]
struct Head {
    id: LogId,
    kind: Kind,
}

#[derive(Serialize, Deserialize)]
enum Kind {
    Blank,
    Batch,
    Membership(Membership<u64, Node>),
}

/// Everything of an append request but its entries.
#[derive(Serialize, Deserialize)]
struct AppendHead {
    vote: Vote,
    previous: Option<LogId>,
    committed: Option<LogId>,
    entries: u32,
}

/// Appends any value to a buffer.
pub(crate) fn put(value: &impl Serialize, out: &mut Vec<u8>) -> io::Result<()> {
    postcard::to_io(value, out).map(|_| ()).map_err(io::Error::other)
}

/// Reads a value from the front of a buffer, and leaves the rest in it.
pub(crate) fn take<T: for<'a> Deserialize<'a>>(from: &mut Bytes) -> io::Result<T> {
    let (value, rest) = postcard::take_from_bytes(from).map_err(unreadable)?;
    let used = from.len() - rest.len();
    from.advance(used);
    Ok(value)
}

/// Reads a value that fills a buffer.
pub(crate) fn whole<T: for<'a> Deserialize<'a>>(from: &[u8]) -> io::Result<T> {
    match postcard::take_from_bytes(from).map_err(unreadable)? {
        (value, []) => Ok(value),
        _ => Err(unreadable("bytes are left over")),
    }
}

fn unreadable(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Appends an entry to a buffer. Its end is not marked: the reader has to know its length.
pub(crate) fn put_entry(entry: &Entry, out: &mut Vec<u8>) -> io::Result<()> {
    let (kind, batch) = match &entry.payload {
        EntryPayload::Blank => (Kind::Blank, None),
        EntryPayload::Normal(payload) => (Kind::Batch, Some(&payload.0)),
        EntryPayload::Membership(membership) => (Kind::Membership(membership.clone()), None),
    };
    put(&Head { id: entry.log_id, kind }, out)?;
    if let Some(batch) = batch {
        out.extend_from_slice(batch);
    }
    Ok(())
}

/// Reads an entry that fills a buffer; the batch goes on sharing it.
pub(crate) fn whole_entry(mut from: Bytes) -> io::Result<Entry> {
    let Head { id, kind } = take(&mut from)?;
    let payload = match kind {
        Kind::Batch => EntryPayload::Normal(Payload(from)),
        Kind::Blank if from.is_empty() => EntryPayload::Blank,
        Kind::Membership(membership) if from.is_empty() => EntryPayload::Membership(membership),
        Kind::Blank | Kind::Membership(_) => return Err(unreadable("bytes are left over")),
    };
    Ok(Entry { log_id: id, payload })
}

/// How many bytes an entry keeps in memory, roughly.
pub(crate) fn weight(entry: &Entry) -> u64 {
    const OVERHEAD: u64 = 96;
    match &entry.payload {
        EntryPayload::Normal(payload) => OVERHEAD + payload.0.len() as u64,
        EntryPayload::Blank | EntryPayload::Membership(_) => OVERHEAD,
    }
}

/// An append request as one message.
pub(crate) fn encode_append(request: &AppendEntriesRequest<Types>) -> io::Result<Bytes> {
    let size: u64 = request.entries.iter().map(weight).sum();
    let mut out = Vec::with_capacity(64 + size as usize);
    let entries = u32::try_from(request.entries.len()).map_err(io::Error::other)?;
    let head = AppendHead {
        vote: request.vote,
        previous: request.prev_log_id,
        committed: request.leader_commit,
        entries,
    };
    put(&head, &mut out)?;
    for entry in &request.entries {
        put_measured(&mut out, |out| put_entry(entry, out))?;
    }
    Ok(out.into())
}

/// The append request of a message. Entries that do not follow one another are refused, since the library takes that
/// for granted.
pub(crate) fn decode_append(mut message: Bytes) -> io::Result<AppendEntriesRequest<Types>> {
    let head: AppendHead = take(&mut message)?;
    let mut next = head.previous.map_or(0, |id| id.index.saturating_add(1));
    let mut entries = Vec::new();
    for _ in 0..head.entries {
        let entry = whole_entry(take_measured(&mut message)?)?;
        if entry.log_id.index != next {
            return Err(unreadable(format!("entry {} where {next} was due", entry.log_id.index)));
        }
        next = next.saturating_add(1);
        entries.push(entry);
    }
    if !message.is_empty() {
        return Err(unreadable("bytes are left over"));
    }
    Ok(AppendEntriesRequest {
        vote: head.vote,
        prev_log_id: head.previous,
        leader_commit: head.committed,
        entries,
    })
}

/// Appends something with its length before it.
pub(crate) fn put_measured(
    out: &mut Vec<u8>,
    content: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
) -> io::Result<()> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    content(out)?;
    let length = u32::try_from(out.len() - start - 4).map_err(io::Error::other)?;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// Reads what [`put_measured`] wrote.
pub(crate) fn take_measured(from: &mut Bytes) -> io::Result<Bytes> {
    let length = from.try_get_u32_le().map_err(|_| unreadable("a length is cut off"))? as usize;
    if from.len() < length {
        return Err(unreadable("shorter than it says"));
    }
    Ok(from.split_to(length))
}

#[cfg(test)]
mod tests;
