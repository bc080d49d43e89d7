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
    for cut in (SEGMENT_HEAD..=frames.last().unwrap().end).step_by(SECTOR) {
        let mut torn = bytes.clone();
        torn[cut..].fill(0);
        let complete = frames.iter().filter(|frame| frame.end <= cut).count();
        recovers(&torn, &said[complete], cut).await;
    }
}

/// The sectors of a frame that a number names.
fn lost_sectors(frame: &Range<usize>, lost: u64) -> impl Iterator<Item = Range<usize>> {
    let sectors = frame.clone().step_by(SECTOR).map(|at| at..at + SECTOR).enumerate();
    sectors.filter(move |(index, _)| lost >> index & 1 == 1).map(|(_, sector)| sector)
}

#[tokio::test]
async fn a_last_write_of_which_any_sectors_are_missing_is_cut_off() {
    for (number, payload) in payloads().into_iter().enumerate() {
        let disk = MemoryDisk::default();
        let (mut log, _closed) = open(&disk).await.unwrap();
        append(&mut log, vec![entry(1, 0, 100)]).await;
        let before = log.reader.lock().clone();
        append(&mut log, vec![entry_of(1, payload)]).await;
        let after = log.reader.lock().clone();
        let (bytes, frames) = first_segment(&disk).await;
        let last = frames.last().unwrap();
        let sectors = last.len() / SECTOR;
        assert!(frames.len() == 2 && sectors < 10, "all combinations can be tried");
        for lost in 0..1 << sectors {
            let mut torn = bytes.clone();
            lost_sectors(last, lost).for_each(|sector| torn[sector].fill(0));
            let said = if lost == 0 { &after } else { &before };
            recovers(&torn, said, number * 1000 + lost as usize).await;
        }
    }
}

#[tokio::test]
async fn a_large_last_write_may_be_torn_in_any_way() {
    let disk = MemoryDisk::default();
    let (mut log, _closed) = open(&disk).await.unwrap();
    append(&mut log, vec![entry(1, 0, 100)]).await;
    let before = log.reader.lock().clone();
    // More than a segment holds, so that the file grows.
    append(&mut log, (1..60).map(|index| entry(1, index, 500)).collect()).await;
    let first = disk.read(&segment_name(0)).await.unwrap();
    let bytes = disk.read(&segment_name(1)).await.unwrap();
    let last = frames(&bytes)[0].clone();
    assert!(bytes.len() > SEGMENT as usize && last.len() > 50 * SECTOR);
    for pick in 1..200_u64 {
        let mut torn = bytes.clone();
        let lost = pick.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        lost_sectors(&last, (lost & ((1 << 50) - 1)) | (1 << (pick % 50)))
            .for_each(|sector| torn[sector].fill(0));
        // The file may not have grown yet, or not as far as it should.
        if pick.is_multiple_of(3) {
            torn.truncate((SEGMENT as usize + SECTOR * pick as usize).min(bytes.len()));
        }
        let disk = disk_with(&[(0, &first), (1, &torn)]).await;
        let (mut log, _closed) = open(&disk).await.unwrap_or_else(|error| panic!("{pick}: {error}"));
        assert_eq!(*log.reader.lock(), before, "{pick}");
        append(&mut log, vec![entry(2, 1, 40)]).await;
        let (log, _) = open(&disk.crash(pick)).await.unwrap();
        assert_eq!(log.reader.lock().last(), Some(id(2, 1)));
    }
}

#[tokio::test]
async fn a_torn_write_may_be_cut_off_in_several_attempts() {
    let disk = MemoryDisk::default();
    let (mut log, _closed) = open(&disk).await.unwrap();
    append(&mut log, vec![entry(1, 0, 100)]).await;
    let before = log.reader.lock().clone();
    append(&mut log, vec![entry(1, 1, 5000)]).await;
    let (mut torn, frames) = first_segment(&disk).await;
    torn[frames[1].end - SECTOR..].fill(0);
    for seed in 0..50 {
        let disk = disk_with(&[(0, &torn)]).await;
        // The power goes while the remains are zeroed: any of them may still be there.
        disk.fault(|faults| faults.syncs_lie = true);
        open(&disk).await.unwrap();
        disk.fault(|faults| faults.syncs_lie = false);
        let (log, _) = open(&disk.crash(seed)).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(*log.reader.lock(), before, "seed {seed}");
    }
}

#[tokio::test]
async fn a_first_write_to_a_new_segment_may_be_torn_too() {
    let disk = MemoryDisk::default();
    let (mut log, _closed) = open(&disk).await.unwrap();
    log.save_vote(&vote(7)).await.unwrap();
    for index in 0..5 {
        append(&mut log, vec![entry(1, index, 2500)]).await;
    }
    let said = log.reader.lock().clone();
    append(&mut log, vec![entry(1, 5, 3000)]).await;
    let first = disk.read(&segment_name(0)).await.unwrap();
    let second = disk.read(&segment_name(1)).await.unwrap();
    for keep in 1..6 {
        let mut torn = second.clone();
        torn[keep * SECTOR..].fill(0);
        let disk = disk_with(&[(0, &first), (1, &torn)]).await;
        let (mut log, closed) = open(&disk).await.unwrap();
        assert_eq!(*log.reader.lock(), said);
        // What it goes on with must stand by itself: the older segment goes when it is purged.
        append(&mut log, vec![entry(2, 5, 3000)]).await;
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

/// Two segments of which the second was begun by one more write, and what was said before and after it.
async fn two_segments() -> ([Vec<u8>; 2], [Contents; 2]) {
    let disk = MemoryDisk::default();
    let (mut log, _closed) = open(&disk).await.unwrap();
    log.save_vote(&vote(7)).await.unwrap();
    for index in 0..5 {
        append(&mut log, vec![entry(1, index, 2500)]).await;
    }
    let before = log.reader.lock().clone();
    append(&mut log, vec![entry(1, 5, 3000)]).await;
    let after = log.reader.lock().clone();
    let [first, second] = [0, 1].map(segment_name);
    ([disk.read(&first).await.unwrap(), disk.read(&second).await.unwrap()], [before, after])
}

#[tokio::test]
async fn the_power_may_go_at_any_point_of_a_change_of_segments() {
    let ([led, second], [before, after]) = two_segments().await;
    let mut first = led.clone();
    first[frames(&led).last().unwrap().clone()].fill(0);
    let mut spare = second.clone();
    spare[SEGMENT_HEAD..].fill(0);
    let torn = (1..frames(&second)[0].len() / SECTOR).map(|kept| {
        let mut torn = second.clone();
        torn[SEGMENT_HEAD + kept * SECTOR..].fill(0);
        torn
    });
    type Moment<'a> = (Vec<(u64, Vec<u8>)>, &'a Contents);
    let mut moments: Vec<Moment<'_>> = vec![
        (vec![(0, first.clone())], &before),
        (vec![(0, first.clone()), (1, spare.clone())], &before),
        (vec![(0, led.clone()), (1, spare)], &before),
        (vec![(0, led.clone()), (1, second.clone())], &after),
    ];
    moments.extend(torn.map(|torn| (vec![(0, led.clone()), (1, torn)], &before)));
    for (moment, (segments, said)) in moments.into_iter().enumerate() {
        let segments: Vec<(u64, &[u8])> =
            segments.iter().map(|(number, bytes)| (*number, &bytes[..])).collect();
        let disk = disk_with(&segments).await;
        let (mut log, closed) = open(&disk).await.unwrap_or_else(|error| panic!("moment {moment}: {error}"));
        assert_eq!(*log.reader.lock(), *said, "moment {moment}");
        let next = said.last().unwrap().index + 1;
        for index in next..next + 8 {
            append(&mut log, vec![entry(3, index, 2500)]).await;
        }
        let gone_on = log.reader.lock().clone();
        drop(log);
        closed.wait().await;
        let (log, _) = open(&disk.crash(0)).await.unwrap_or_else(|error| panic!("moment {moment}: {error}"));
        assert_eq!(*log.reader.lock(), gone_on, "moment {moment}");
    }
    // No crash leaves a later segment that is in use, and nothing that leads to it.
    let error = open(&disk_with(&[(0, &first), (1, &second)]).await).await.err().unwrap();
    assert!(matches!(error, StorageError::Damaged { .. }), "{error}");
}

#[tokio::test]
async fn the_frame_that_leads_to_a_segment_is_safe_before_the_segment_is_used() {
    let ([led, second], [before, _]) = two_segments().await;
    let lead = frames(&led).last().unwrap().clone();
    let (mut first, mut spare) = (led.clone(), second);
    first[lead.clone()].fill(0);
    spare[SEGMENT_HEAD..].fill(0);
    for seed in 0..20 {
        let disk = disk_with(&[(0, &first), (1, &spare)]).await;
        // A process that was killed had written it, and had not synced it.
        let file = disk.open(&segment_name(0)).await.unwrap();
        file.write(lead.start as u64, &led[lead.clone()]).await.unwrap();
        let disk = disk.restart();
        let (mut log, _closed) = open(&disk).await.unwrap();
        assert_eq!(*log.reader.lock(), before);
        append(&mut log, vec![entry(2, 5, 40)]).await;
        let (log, _) = open(&disk.crash(seed)).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(log.reader.lock().last(), Some(id(2, 5)), "seed {seed}");
    }
}
