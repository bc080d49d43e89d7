//! What was written once and is not there any more is noticed, and left alone.

use super::*;
use crate::log::format::VERSION;

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

#[tokio::test]
async fn any_changed_byte_before_the_last_write_is_damage() {
    let disk = MemoryDisk::default();
    let (mut log, _closed) = open(&disk).await.unwrap();
    scripted(&mut log).await;
    let (bytes, frames) = first_segment(&disk).await;
    let mut start = SEGMENT_HEAD;
    for frame in &frames[..frames.len() - 1] {
        for place in start..frame.records.end {
            let mut changed = bytes.clone();
            changed[place] ^= 0x10;
            let error = refuses(&disk_with(&[(0, &changed)]).await).await;
            let StorageError::Damaged { place: file, at, .. } = &error else { panic!("{error}") };
            assert_eq!((file.as_str(), *at), (segment_name(0).as_str(), start as u64), "byte {place}");
        }
        start = frame.end;
    }
    for place in 0..SEGMENT_HEAD {
        let mut changed = bytes.clone();
        changed[place] ^= 1;
        let error = refuses(&disk_with(&[(0, &changed)]).await).await;
        assert!(matches!(error, StorageError::Damaged { at: 0, .. }), "byte {place}: {error}");
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
        "log-00000000000000000000 is damaged at byte 48 (a bad checksum, and good data behind it); nothing was changed; \
         restore it, or remove the data directory and let the node rejoin"
    );
}

#[tokio::test]
async fn a_later_format_is_not_guessed_at() {
    let mut head = SegmentHead { number: 0, salt: 1, size: 0 }.encode();
    head[8..12].copy_from_slice(&(VERSION + 1).to_le_bytes());
    let sum = crc32c::crc32c(&head[..44]);
    head[44..].copy_from_slice(&sum.to_le_bytes());
    let error = refuses(&disk_with(&[(0, &head)]).await).await;
    assert!(matches!(error, StorageError::Version { found: 2, known: 1, .. }), "{error}");
}

/// A log of several segments.
async fn long() -> Vec<Vec<u8>> {
    let disk = MemoryDisk::default();
    let (mut log, closed) = open(&disk).await.unwrap();
    for index in 0..20 {
        append(&mut log, vec![entry(1, index, 700)]).await;
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
    for missing in 0..segments.len() as u64 - 1 {
        let rest: Vec<(u64, &[u8])> =
            (0..).zip(segments.iter().map(Vec::as_slice)).filter(|&(number, _)| number != missing).collect();
        let error = refuses(&disk_with(&rest).await).await;
        let StorageError::Missing { place } = &error else { panic!("{error}") };
        assert_eq!(*place, segment_name(missing));
    }
}

#[tokio::test]
async fn an_earlier_segment_may_not_end_early() {
    let mut segments = long().await;
    let length = segments[1].len();
    // Its last frame is gone, without a trace or with one.
    let salt = SegmentHead::decode(&segments[1]).unwrap().salt;
    let mut at = SEGMENT_HEAD;
    let mut last = at;
    while let Some(frame) = frame_at(&segments[1], at, salt) {
        last = at;
        at = frame.end;
    }
    for trace in [0, 9] {
        segments[1][last..length].fill(trace);
        let all: Vec<(u64, &[u8])> = (0..).zip(segments.iter().map(Vec::as_slice)).collect();
        let error = refuses(&disk_with(&all).await).await;
        assert!(matches!(error, StorageError::Damaged { .. }), "{error}");
    }
}

#[tokio::test]
async fn what_clients_send_cannot_pass_for_a_frame() {
    // Somebody who knows the format, and the next number, but not the salt.
    let mut forged = crate::log::format::open_frame();
    forged.extend_from_slice(&[0; 40]);
    crate::log::format::close_frame(&mut forged, 0, 2).unwrap();
    let payload = Payload(forged.repeat(8).into());
    let disk = MemoryDisk::default();
    let (mut log, _closed) = open(&disk).await.unwrap();
    append(&mut log, vec![entry(1, 0, 8)]).await;
    append(&mut log, vec![Entry { log_id: id(1, 1), payload: EntryPayload::Normal(payload) }]).await;
    let (mut bytes, frames) = first_segment(&disk).await;
    bytes[frames[1].records.start] ^= 1;
    let (log, _) = open(&disk_with(&[(0, &bytes)]).await).await.unwrap();
    assert_eq!(log.reader.lock().last(), Some(id(1, 0)), "torn, not damaged");
}
