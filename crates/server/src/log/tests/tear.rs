//! Whatever a write had come to when the power went, everything before it is there, and it can be gone on.

use super::*;

/// What is recovered must be what was said after as many frames as are complete, and one more entry must survive.
async fn recovers(bytes: &[u8], said: &Contents, cut: usize) {
    let disk = disk_with(&[(0, bytes)]).await;
    let (mut log, closed) = open(&disk).await.unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
    assert_eq!(*log.reader.lock(), *said, "cut at {cut}");
    let next = said.last().map_or(0, |last| last.index + 1);
    append(&mut log, vec![entry(3, next, 40)]).await;
    let gone_on = log.reader.lock().clone();
    drop(log);
    closed.wait().await;
    let (log, _) = open(&disk.crash(0)).await.unwrap_or_else(|error| panic!("cut at {cut}, then: {error}"));
    assert_eq!(*log.reader.lock(), gone_on, "cut at {cut}, gone on");
}

#[tokio::test]
async fn a_write_of_which_the_end_is_missing_is_as_if_it_had_not_been() {
    let disk = MemoryDisk::default();
    let (mut log, _closed) = open(&disk).await.unwrap();
    let said = scripted(&mut log).await;
    let (bytes, frames) = first_segment(&disk).await;
    assert_eq!(frames.len() + 1, said.len(), "each step was one write");
    for cut in SEGMENT_HEAD..frames.last().unwrap().end {
        let mut torn = bytes.clone();
        torn[cut..].fill(0);
        // Bytes that were zero anyway are not missed.
        let complete = frames
            .iter()
            .take_while(|frame| torn[frame.records.clone()] == bytes[frame.records.clone()])
            .filter(|frame| torn[..frame.records.start] == bytes[..frame.records.start])
            .count();
        recovers(&torn, &said[complete], cut).await;
    }
}

#[tokio::test]
async fn a_last_write_of_which_any_sector_is_missing_is_cut_off() {
    let disk = MemoryDisk::default();
    let (mut log, _closed) = open(&disk).await.unwrap();
    append(&mut log, vec![entry(1, 0, 100)]).await;
    let said = log.reader.lock().clone();
    append(&mut log, (1..20).map(|index| entry(1, index, 100)).collect()).await;
    let (bytes, frames) = first_segment(&disk).await;
    let last = frames.last().unwrap();
    assert!(last.records.len() > 3 * 512);
    for sector in frames[0].end / 512..last.records.end.div_ceil(512) {
        let mut torn = bytes.clone();
        // What the sector had from the write before is still in it.
        torn[(sector * 512).max(frames[0].end)..(sector + 1) * 512].fill(0);
        recovers(&torn, &said, sector).await;
    }
}

#[tokio::test]
async fn a_first_write_to_a_new_segment_may_be_torn_too() {
    let disk = MemoryDisk::default();
    let (mut log, _closed) = open(&disk).await.unwrap();
    log.save_vote(&vote(7)).await.unwrap();
    for index in 0..5 {
        append(&mut log, vec![entry(1, index, 600)]).await;
    }
    let said = log.reader.lock().clone();
    append(&mut log, vec![entry(1, 5, 3000)]).await;
    let first = disk.read(&segment_name(0)).await.unwrap();
    let second = disk.read(&segment_name(1)).await.unwrap();
    for keep in [SEGMENT_HEAD + 1, SEGMENT_HEAD + 20, 512, 1024, 2048] {
        let mut torn = second.clone();
        torn[keep..].fill(0);
        let disk = disk_with(&[(0, &first), (1, &torn)]).await;
        let (mut log, closed) = open(&disk).await.unwrap();
        assert_eq!(*log.reader.lock(), said);
        // What it goes on with must stand by itself: the older segment goes when it is purged.
        append(&mut log, vec![entry(2, 5, 10)]).await;
        log.purge(id(1, 4)).await.unwrap();
        log.save_vote(&vote(7)).await.unwrap();
        let purged = log.reader.lock().clone();
        drop(log);
        closed.wait().await;
        assert_eq!(disk.list().await.unwrap(), [segment_name(1)]);
        let (log, _) = open(&disk).await.unwrap();
        let mut found = log.reader.lock().clone();
        found.appended = purged.appended;
        assert_eq!(found, purged);
    }
}
