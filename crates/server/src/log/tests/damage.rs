//! What was written once and is not there any more is noticed, and left alone.

use super::*;
use crate::disk::FORMAT;
use crate::log::recover::recover;
use crate::mutant::Mutant;
use crate::mutant::tests::assert_caught;

async fn contents(disk: &MemoryDisk) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for name in disk.list().await.unwrap() {
        let bytes = disk.read(&name).await.unwrap();
        all.push((name, bytes));
    }
    all
}

/// Opens a damaged log, and makes sure that nothing on the disk is touched.
async fn refuses(disk: &MemoryDisk) -> StorageError {
    let before = contents(disk).await;
    let error = open(disk).await.expect_err("damage must be noticed");
    assert_eq!(contents(disk).await, before, "nothing is changed");
    error
}

/// Where a segment of a log that is damaged there is found to be.
async fn damage(disk: &MemoryDisk, number: u64, segment: &[u8]) -> Option<u64> {
    disk.replace(&segment_name(number), segment).await.unwrap();
    match recover(disk).await {
        Err(StorageError::Damaged { place, at, .. }) => {
            assert_eq!(place, segment_name(number));
            Some(at)
        }
        Err(other) => panic!("{other}"),
        Ok(_) => None,
    }
}

/// Logs of a few frames, with each payload in one of the last four: as a node leaves them that is killed, or stopped.
async fn tails(is_stopped: bool) -> Vec<Vec<u8>> {
    let mut tails = Vec::new();
    for some in payloads().chunks(4) {
        let disk = MemoryDisk::default();
        let (mut log, closed) = open(&disk).await.unwrap();
        log.save_vote(&vote(1)).await.unwrap();
        for (index, payload) in (0..).zip(some) {
            append(&mut log, vec![entry_of(index, payload.clone())]).await;
        }
        if is_stopped {
            drop(log);
            closed.wait().await;
        }
        tails.push(disk.read(&segment_name(0)).await.unwrap());
    }
    tails
}

/// Changes every byte of the last four frames, and of two sectors behind them, and expects to be told in which sector.
async fn every_change_is_damage(tail: &[u8], change: impl Fn(usize, u8) -> u8) {
    let disk = MemoryDisk::default();
    assert_eq!(damage(&disk, 0, tail).await, None);
    let frames = frames(tail);
    let first = frames[frames.len().saturating_sub(4)].start;
    let end = frames.last().unwrap().end + 2 * SECTOR;
    let mut changed = tail.to_vec();
    for place in first..end.min(tail.len()) {
        changed[place] = change(place, tail[place]);
        let sector = place / SECTOR * SECTOR;
        assert_eq!(damage(&disk, 0, &changed).await, Some(sector as u64), "byte {place}, {frames:?}");
        changed[place] = tail[place];
    }
}

#[tokio::test]
async fn a_flipped_bit_at_the_end_of_a_log_is_damage() {
    for tail in tails(false).await {
        every_change_is_damage(&tail, |place, byte| byte ^ 1 << (place % 8)).await;
    }
}

#[tokio::test]
async fn a_flipped_bit_at_the_end_of_a_closed_log_is_damage() {
    for tail in tails(true).await {
        every_change_is_damage(&tail, |place, byte| byte ^ 1 << (7 - place % 8)).await;
    }
}

#[tokio::test]
async fn every_bit_counts() {
    for tail in tails(false).await.iter().step_by(5) {
        for bit in 0..8 {
            every_change_is_damage(tail, |_, byte| byte ^ 1 << bit).await;
        }
    }
}

#[tokio::test]
async fn a_node_with_a_damaged_end_does_not_start() {
    let tail = &tails(false).await[3];
    for frame in frames(tail) {
        let mut changed = tail.clone();
        changed[frame.end - 1] ^= 8;
        let error = refuses(&disk_with(&[(0, &changed)]).await).await;
        let at = (frame.end - SECTOR) as u64;
        assert!(matches!(error, StorageError::Damaged { at: found, .. } if found == at), "{error}");
    }
}

#[test]
fn that_damage_is_told_from_torn_writes_is_tested() {
    let test = "log::tests::damage::a_node_with_a_damaged_end_does_not_start";
    assert_caught(test, Mutant::CutsDamage, "damage must be noticed");
}

#[tokio::test]
async fn what_is_left_of_a_torn_write_may_not_be_damaged() {
    let disk = MemoryDisk::default();
    let (mut log, _closed) = open(&disk).await.unwrap();
    append(&mut log, vec![entry(1, 0, 100)]).await;
    append(&mut log, vec![entry(1, 1, 1900)]).await;
    let (bytes, frames) = first_segment(&disk).await;
    let sectors: Vec<usize> = frames[1].clone().step_by(SECTOR).collect();
    assert_eq!(sectors.len(), 4);
    for lost in &sectors {
        let mut torn = bytes.clone();
        torn[*lost..lost + SECTOR].fill(0);
        for kept in sectors.iter().filter(|kept| *kept != lost) {
            for place in (*kept..kept + SECTOR).step_by(7) {
                torn[place] ^= 0x20;
                let disk = MemoryDisk::default();
                assert_eq!(damage(&disk, 0, &torn).await, Some(*kept as u64), "{lost} lost, {place} changed");
                torn[place] ^= 0x20;
            }
        }
    }
}

#[tokio::test]
async fn a_frame_that_is_lost_without_a_trace_is_damage_if_another_follows() {
    for (tail, is_stopped) in [(&tails(false).await[4], false), (&tails(true).await[4], true)] {
        let frames = frames(tail);
        let disk = MemoryDisk::default();
        for frame in &frames[..frames.len() - 1] {
            let mut changed = tail.clone();
            changed[frame.clone()].fill(0);
            assert_eq!(damage(&disk, 0, &changed).await, Some(frame.end as u64));
        }
        // Of a node that was stopped, the last frame has nothing in it that could be lost.
        let mut changed = tail.clone();
        changed[frames.last().unwrap().clone()].fill(0);
        assert_eq!(damage(&disk, 0, &changed).await, None);
        disk.replace(&segment_name(0), tail).await.unwrap();
        let whole = recover(&disk).await.unwrap().contents;
        disk.replace(&segment_name(0), &changed).await.unwrap();
        assert_eq!(recover(&disk).await.unwrap().contents == whole, is_stopped);
    }
}

#[tokio::test]
async fn a_sector_in_the_place_of_another_is_damage() {
    let disk = MemoryDisk::default();
    let (mut log, _closed) = open(&disk).await.unwrap();
    for index in 0..3 {
        append(&mut log, vec![entry(1, index, 1200)]).await;
    }
    let (bytes, frames) = first_segment(&disk).await;
    let sectors = || frames.iter().flat_map(|frame| frame.clone().step_by(SECTOR));
    for from in sectors() {
        for to in sectors().filter(|to| *to != from) {
            let mut changed = bytes.clone();
            changed.copy_within(from..from + SECTOR, to);
            assert_eq!(damage(&disk, 0, &changed).await, Some(to as u64), "{from} in the place of {to}");
        }
    }
}

#[tokio::test]
async fn any_changed_byte_of_a_head_is_damage() {
    let tail = &tails(false).await[0];
    let disk = MemoryDisk::default();
    for place in 0..SEGMENT_HEAD {
        let mut changed = tail.clone();
        changed[place] ^= 1;
        assert_eq!(damage(&disk, 0, &changed).await, Some(0), "byte {place}");
    }
}

#[tokio::test]
async fn a_file_that_was_cut_off_is_damage() {
    let disk = MemoryDisk::default();
    let (mut log, _closed) = open(&disk).await.unwrap();
    scripted(&mut log).await;
    let (bytes, _) = first_segment(&disk).await;
    for cut in 0..bytes.len() {
        let error = refuses(&disk_with(&[(0, &bytes[..cut])]).await).await;
        let place = if cut < SEGMENT_HEAD { 0 } else { cut as u64 };
        assert!(matches!(error, StorageError::Damaged { at, .. } if at == place), "cut at {cut}: {error}");
    }
}

#[tokio::test]
async fn damage_is_told_in_a_sentence() {
    let disk = MemoryDisk::default();
    let (mut log, _closed) = open(&disk).await.unwrap();
    scripted(&mut log).await;
    let (mut bytes, _) = first_segment(&disk).await;
    bytes[SEGMENT_HEAD + 20] ^= 1;
    let error = refuses(&disk_with(&[(0, &bytes)]).await).await;
    assert_eq!(
        error.to_string(),
        "log-00000000000000000000 is damaged at byte 512 (a bad checksum); nothing was changed"
    );
}

#[tokio::test]
async fn another_format_is_not_guessed_at() {
    for version in [1, FORMAT + 1] {
        // The first version had heads of 48 bytes, and records right behind.
        let mut segment = SegmentHead { number: 0, salt: 1, size: 0 }.encode();
        segment[8..12].copy_from_slice(&version.to_le_bytes());
        let sum = crc32c::crc32c(&segment[..44]);
        segment[44..48].copy_from_slice(&sum.to_le_bytes());
        segment[48..].fill(7);
        let error = refuses(&disk_with(&[(0, &segment)]).await).await;
        assert_eq!(
            error.to_string(),
            format!(
                "log-00000000000000000000 has format {version}, and this version of conclave reads format {FORMAT} only; \
                 nothing was changed; run the version that wrote it, or start with another data directory"
            )
        );
    }
}

/// A log of several segments.
async fn long() -> Vec<Vec<u8>> {
    let disk = MemoryDisk::default();
    let (mut log, closed) = open(&disk).await.unwrap();
    for index in 0..20 {
        append(&mut log, vec![entry(1, index, 3000)]).await;
    }
    drop(log);
    closed.wait().await;
    let mut segments = Vec::new();
    for (_, bytes) in contents(&disk).await {
        segments.push(bytes);
    }
    // The last may be a spare.
    segments.retain(|bytes| bytes[SEGMENT_HEAD..].iter().any(|&byte| byte != 0));
    segments
}

#[tokio::test]
async fn a_segment_that_is_missing_is_named() {
    let segments = long().await;
    assert!(segments.len() > 3);
    for missing in 0..segments.len() as u64 {
        let rest: Vec<(u64, &[u8])> =
            (0..).zip(segments.iter().map(Vec::as_slice)).filter(|&(number, _)| number != missing).collect();
        assert_eq!(missing_in(&rest).await, segment_name(missing));
    }
    // The last ones may all be gone, and of the first ones none may be left.
    for kept in 1..segments.len() {
        let rest: Vec<(u64, &[u8])> = (0..).zip(segments[..kept].iter().map(Vec::as_slice)).collect();
        assert_eq!(missing_in(&rest).await, segment_name(kept as u64));
    }
    let spare = SegmentHead { number: 7, salt: 1, size: SEGMENT_HEAD as u64 }.encode();
    assert_eq!(missing_in(&[(7, &spare)]).await, segment_name(6));
}

/// The file that a log with these segments says is missing.
async fn missing_in(segments: &[(u64, &[u8])]) -> String {
    let error = refuses(&disk_with(segments).await).await;
    let StorageError::Missing { place } = error else { panic!("{error}") };
    place
}

#[tokio::test]
async fn a_log_without_any_segment_is_missing() {
    let disk = MemoryDisk::default();
    let error = Log::open(Arc::new(disk.clone()), SEGMENT, false).await.unwrap_err();
    assert_eq!(error.to_string(), "log-* is missing; nothing was changed");
    // There is a file, but what was in it is gone.
    let head = SegmentHead { number: 0, salt: 1, size: SEGMENT_HEAD as u64 }.encode();
    let error = Log::open(Arc::new(disk_with(&[(0, &head)]).await), SEGMENT, false).await.unwrap_err();
    assert!(error.to_string().contains("log-00000000000000000000 is damaged at byte 512"), "{error}");
}

#[tokio::test]
async fn other_spellings_of_a_number_are_not_segments() {
    let disk = MemoryDisk::default();
    let (mut log, closed) = open(&disk).await.unwrap();
    append(&mut log, vec![entry(1, 0, 50)]).await;
    drop(log);
    closed.wait().await;
    for stray in ["log-7", "log-+0000000000000000001", "log-", "log-x"] {
        disk.replace(stray, b"a letter to somebody").await.unwrap();
    }
    let (log, _closed) = open(&disk).await.unwrap();
    assert_eq!(log.reader.lock().last(), Some(id(1, 0)));
}

#[tokio::test]
async fn an_earlier_segment_may_not_end_early() {
    let mut segments = long().await;
    let length = segments[1].len();
    // Its last frame is gone, without a trace or with one.
    let last = frames(&segments[1]).last().unwrap().start;
    for trace in [0, 9] {
        segments[1][last..length].fill(trace);
        let all: Vec<(u64, &[u8])> = (0..).zip(segments.iter().map(Vec::as_slice)).collect();
        let error = refuses(&disk_with(&all).await).await;
        assert!(matches!(error, StorageError::Damaged { .. }), "{error}");
    }
    // Or it is torn, in its last frame of several sectors: the very last one leads to the next segment.
    let mut segments = long().await;
    let last = frames(&segments[1]).iter().rev().nth(1).unwrap().start;
    segments[1][last + SECTOR..length].fill(0);
    let all: Vec<(u64, &[u8])> = (0..).zip(segments.iter().map(Vec::as_slice)).collect();
    let error = refuses(&disk_with(&all).await).await;
    assert!(error.to_string().contains("there is a later segment"), "{error}");
}
