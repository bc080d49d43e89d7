//! The log against crashes, damage and the consensus library's own tests.

mod crash;
mod damage;
mod golden;
mod suite;
mod tear;

use std::ops::Range;
use std::sync::Arc;

use openraft::EntryPayload;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::type_config::TypeConfigExt;
use openraft::type_config::alias::OneshotReceiverOf;

use super::contents::Contents;
use super::format::{Found, SEGMENT_HEAD, SegmentHead, frame_at, segment_name};
use super::{Closed, Log};
use crate::disk::{Disk, MemoryDisk, SECTOR, StorageError};
use crate::raft::{Entry, LeaderId, LogId, Payload, Types, Vote};

const SEGMENT: u64 = 16 << 10;

fn id(term: u64, index: u64) -> LogId {
    LogId::new(LeaderId { term, node_id: 1 }, index)
}

fn vote(term: u64) -> Vote {
    Vote::new(term, 1)
}

fn entry(term: u64, index: u64, length: usize) -> Entry {
    let bytes: Vec<u8> = (0..length).map(|place| (index as usize + place) as u8).collect();
    Entry { log_id: id(term, index), payload: EntryPayload::Normal(Payload(bytes.into())) }
}

/// The vote of a node that has been elected.
fn elected(term: u64) -> Vote {
    Vote::new_committed(term, 1)
}

async fn open(disk: &MemoryDisk) -> Result<(Log, Closed), StorageError> {
    Log::open(Arc::new(disk.clone()), SEGMENT, true).await
}

/// Hands entries over; the answer says when they are safe.
async fn hand_over(log: &mut Log, entries: Vec<Entry>) -> OneshotReceiverOf<Types, std::io::Result<()>> {
    let (flushed, safe) = Types::oneshot();
    log.append(entries, IOFlushed::signal(flushed)).await.unwrap();
    safe
}

async fn append(log: &mut Log, entries: Vec<Entry>) {
    hand_over(log, entries).await.await.unwrap().unwrap();
}

/// Writes a log in which everything occurs. Returns what it said after each frame, beginning with none.
async fn scripted(log: &mut Log) -> Vec<Contents> {
    let mut said = vec![log.reader.lock().clone()];
    let mut note = |log: &Log| said.push(log.reader.lock().clone());
    log.save_vote(&vote(1)).await.unwrap();
    note(log);
    append(log, vec![entry(1, 0, 0), entry(1, 1, 30), entry(1, 2, 7)]).await;
    note(log);
    log.save_committed(Some(id(1, 1))).await.unwrap();
    append(log, vec![entry(1, 3, 600)]).await;
    note(log);
    log.save_vote(&vote(2)).await.unwrap();
    note(log);
    log.truncate_after(Some(id(1, 2))).await.unwrap();
    append(log, vec![entry(2, 3, 20), entry(2, 4, 20)]).await;
    note(log);
    log.purge(id(1, 1)).await.unwrap();
    append(log, vec![entry(2, 5, 100)]).await;
    note(log);
    said
}

/// The first segment of a log, and where the frames in it are.
async fn first_segment(disk: &MemoryDisk) -> (Vec<u8>, Vec<Range<usize>>) {
    let bytes = disk.read(&segment_name(0)).await.unwrap();
    let frames = frames(&bytes);
    (bytes, frames)
}

/// Where the frames of a segment are.
fn frames(segment: &[u8]) -> Vec<Range<usize>> {
    let salt = SegmentHead::decode(segment).unwrap().salt;
    let mut frames = Vec::new();
    let mut at = SEGMENT_HEAD;
    while let Ok(Found::Frame(frame)) = frame_at(segment, at, salt) {
        frames.push(at..frame.end);
        at = frame.end;
    }
    frames
}

/// Payloads of many lengths, around those at which a frame needs another sector, and of many kinds.
fn payloads() -> Vec<Vec<u8>> {
    let lengths = [0, 1, 30, 440, 460, 470, 480, 490, 507, 600, 970, 990, 1600, 3000];
    let kinds: [fn(usize) -> u8; 3] = [|_| 0, |_| 0xff, |place| place as u8];
    let mut payloads = Vec::new();
    for (number, length) in lengths.into_iter().enumerate() {
        payloads.push((0..length).map(kinds[number % kinds.len()]).collect());
        payloads.push((0..length).map(kinds[(number + 1) % kinds.len()]).collect());
    }
    payloads.extend(forged());
    payloads
}

/// What somebody sends who knows the format, and where in which file it will be, but not the salt: sectors that look as if
/// they were written at the beginning of a frame, in the middle of one, or never.
fn forged() -> Vec<Vec<u8>> {
    let mut frame = super::format::open_frame();
    frame.extend_from_slice(&[0; 1200]);
    let mut sectors = Vec::new();
    let mut payloads = Vec::new();
    for start in [SEGMENT_HEAD, 2 * SEGMENT_HEAD, 3 * SEGMENT_HEAD] {
        super::format::seal_frame(&mut frame, (0, start as u64), 1, &mut sectors).unwrap();
        payloads.push(sectors.repeat(2));
        sectors[..SECTOR].fill(0);
        payloads.push(sectors.clone());
    }
    payloads
}

fn entry_of(index: u64, payload: Vec<u8>) -> Entry {
    Entry { log_id: id(1, index), payload: EntryPayload::Normal(Payload(payload.into())) }
}

/// A disk that has nothing but this.
async fn disk_with(segments: &[(u64, &[u8])]) -> MemoryDisk {
    let disk = MemoryDisk::default();
    for (number, bytes) in segments {
        disk.replace(&segment_name(*number), bytes).await.unwrap();
    }
    disk
}
