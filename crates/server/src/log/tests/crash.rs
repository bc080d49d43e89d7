//! Nothing that was acknowledged is lost when the power goes, whenever that is; and writes are shared.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::timeout;

use super::*;
use crate::mutant::Mutant;
use crate::mutant::tests::assert_caught;

/// What a log had acknowledged when the power went, and what it had been given.
#[derive(Default)]
struct Given {
    entries: Vec<Entry>,
    acknowledged: usize,
    vote: Option<Vote>,
}

/// Uses a log for a while, and leaves it in the middle of something.
async fn use_for_a_while(disk: &MemoryDisk, seed: u64) -> Given {
    let (mut log, _closed) = open(disk).await.unwrap();
    let mut given = Given::default();
    let mut unanswered = Vec::new();
    log.save_vote(&vote(0)).await.unwrap();
    given.vote = Some(vote(0));
    for step in 0..20 + seed % 50 {
        let next = given.entries.len() as u64;
        let length = (seed * 7 + step * 131) % 900;
        let entries: Vec<Entry> = (0..1 + step % 4).map(|at| entry(1, next + at, length as usize)).collect();
        given.entries.extend(entries.iter().cloned());
        unanswered.push((given.entries.len(), hand_over(&mut log, entries).await));
        if step % 11 == 3 {
            log.save_vote(&vote(step)).await.unwrap();
            given.vote = Some(vote(step));
        }
        // Sometimes the disk gets ahead, sometimes entries pile up.
        tokio::time::sleep(Duration::from_micros((seed + step) % 5 * 300)).await;
    }
    for (count, answer) in unanswered {
        if let Some(Ok(Ok(()))) = answer.now_or_never() {
            given.acknowledged = count;
        }
    }
    given
}

/// Whether everything acknowledged is there after a crash, and nothing that was never given.
async fn all_is_there(disk: &MemoryDisk, given: &Given) -> bool {
    let Ok((log, _closed)) = open(disk).await else { return false };
    let contents = log.reader.lock();
    let found: Vec<Entry> = contents.range(..).cloned().collect();
    assert!(found.len() <= given.entries.len() && found[..] == given.entries[..found.len()]);
    found.len() >= given.acknowledged && contents.vote == given.vote
}

async fn survives(seed: u64, lies: bool) -> bool {
    let disk = MemoryDisk::default();
    disk.fault(|faults| {
        faults.sync_delay = Duration::from_millis(1);
        faults.syncs_lie = lies;
    });
    let given = use_for_a_while(&disk, seed).await;
    assert!(given.acknowledged > 0);
    all_is_there(&disk.crash(seed), &given).await
}

#[tokio::test(start_paused = true)]
async fn nothing_acknowledged_is_lost() {
    for seed in 0..200 {
        assert!(survives(seed, false).await, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_lies_is_found_out() {
    let mut lost = 0;
    for seed in 0..200 {
        lost += u32::from(!survives(seed, true).await);
    }
    assert!(lost > 100, "{lost} of 200");
}

#[tokio::test(start_paused = true)]
async fn whatever_waits_shares_one_sync() {
    let disk = MemoryDisk::default();
    let (mut log, _closed) = Log::open(Arc::new(disk.clone()), 1 << 20, true).await.unwrap();
    log.save_vote(&elected(1)).await.unwrap();
    disk.fault(|faults| faults.sync_delay = Duration::from_millis(5));
    let before = disk.syncs();
    let mut answers = Vec::new();
    for index in 0..100 {
        answers.push(hand_over(&mut log, vec![entry(1, index, 50)]).await);
        tokio::task::yield_now().await;
    }
    for answer in answers {
        answer.await.unwrap().unwrap();
    }
    assert_eq!(disk.syncs() - before, 2, "the first alone, and all others together");
}

/// Leaders and followers alike: whoever has something to write goes on, and is told when it is safe.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_disk_that_hangs_but_for_what_must_be_safe() {
    for voted in [elected(1), Vote::new_committed(1, 7)] {
        let disk = MemoryDisk::default();
        let (mut log, _closed) = open(&disk).await.unwrap();
        log.save_vote(&voted).await.unwrap();
        disk.fault(|faults| faults.hangs = true);
        let mut safe = hand_over(&mut log, vec![entry(1, 0, 50)]).await;
        log.truncate_after(Some(id(1, 0))).await.unwrap();
        assert!(timeout(Duration::from_secs(10), &mut safe).await.is_err(), "it is not safe");
        disk.fault(|faults| faults.hangs = false);
        safe.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn after_a_failed_write_there_is_no_other() {
    type Fault = fn(&mut crate::disk::Faults);
    let faults: [Fault; 2] = [|faults| faults.writes_fail = true, |faults| faults.syncs_fail = true];
    for fault in faults {
        let disk = MemoryDisk::default();
        let (mut log, _closed) = open(&disk).await.unwrap();
        append(&mut log, vec![entry(1, 0, 50)]).await;
        disk.fault(fault);
        let failed = hand_over(&mut log, vec![entry(1, 1, 50)]).await.await.unwrap().unwrap_err();
        assert!(failed.to_string().starts_with("injected failure"), "{failed}");
        // The disk works again, but what it did to that write nobody knows.
        disk.fault(|faults| *faults = crate::disk::Faults::default());
        hand_over(&mut log, vec![entry(1, 2, 50)]).await.await.unwrap().unwrap_err();
        log.save_vote(&vote(9)).await.unwrap_err();
    }
}

#[tokio::test]
async fn a_full_disk_is_told_and_loses_nothing() {
    let disk = MemoryDisk::default();
    let (mut log, closed) = open(&disk).await.unwrap();
    disk.fault(|faults| faults.full = true);
    let mut safe = 0;
    let error = loop {
        match hand_over(&mut log, vec![entry(1, safe, 500)]).await.await.unwrap() {
            Ok(()) => safe += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    drop(log);
    closed.wait().await;
    disk.fault(|faults| faults.full = false);
    let (mut log, _closed) = open(&disk.crash(1)).await.unwrap();
    assert_eq!(log.reader.lock().last(), Some(id(1, safe - 1)));
    append(&mut log, vec![entry(1, safe, 500)]).await;
}

/// Whether what a failed sync left behind is still there after a restart, work on it, and loss of power.
async fn outlives_a_failed_sync(seed: u64, is_vote: bool) -> bool {
    let disk = MemoryDisk::default();
    let (mut log, _closed) = open(&disk).await.unwrap();
    append(&mut log, vec![entry(1, 0, 50)]).await;
    disk.fault(|faults| faults.syncs_fail = true);
    if is_vote {
        log.save_vote(&vote(9)).await.unwrap_err();
    } else {
        hand_over(&mut log, vec![entry(1, 1, 1200)]).await.await.unwrap().unwrap_err();
    }
    // The process ends, and is started again on a disk that works.
    disk.fault(|faults| faults.syncs_fail = false);
    let disk = disk.restart();
    let (log, _closed) = open(&disk).await.unwrap();
    let trusted = log.reader.lock().clone();
    assert!(trusted.vote == Some(vote(9)) || trusted.last() == Some(id(1, 1)), "it can be read");
    let (log, _closed) = open(&disk.crash(seed)).await.unwrap();
    *log.reader.lock() == trusted
}

#[tokio::test]
async fn what_was_read_after_a_failed_sync_is_safe() {
    for seed in 0..50 {
        for is_vote in [false, true] {
            assert!(outlives_a_failed_sync(seed, is_vote).await, "seed {seed}, vote: {is_vote}");
        }
    }
}

#[test]
fn that_the_last_write_is_written_again_is_tested() {
    let test = "log::tests::crash::what_was_read_after_a_failed_sync_is_safe";
    assert_caught(test, Mutant::TrustsLastWrite, "seed");
}

#[tokio::test]
async fn what_a_killed_process_left_behind_is_safe_once_it_was_read() {
    for seed in 0..50 {
        let disk = MemoryDisk::default();
        let (mut log, _closed) = open(&disk).await.unwrap();
        disk.fault(|faults| faults.syncs_lie = true);
        append(&mut log, vec![entry(1, 0, 1200)]).await;
        disk.fault(|faults| faults.syncs_lie = false);
        let disk = disk.restart();
        open(&disk).await.unwrap();
        let (log, _closed) = open(&disk.crash(seed)).await.unwrap();
        assert_eq!(log.reader.lock().last(), Some(id(1, 0)), "seed {seed}");
    }
}

#[tokio::test]
async fn a_log_can_be_closed_on_a_full_disk() {
    for extra in 0..4 {
        let disk = MemoryDisk::default();
        let (mut log, closed) = open(&disk).await.unwrap();
        disk.fault(|faults| faults.full = true);
        // As many sectors as are left when two are kept for the end, in writes of one and of two.
        let mut sectors = SEGMENT as usize / SECTOR - 3 - extra;
        let mut next = 0;
        while sectors > 0 {
            let length = if sectors.is_multiple_of(3) { 600 } else { 30 };
            append(&mut log, vec![entry(1, next, length)]).await;
            sectors -= length.div_ceil(SECTOR);
            next += 1;
        }
        drop(log);
        closed.wait().await;
        let (bytes, frames) = first_segment(&disk).await;
        assert_eq!(frames.len() as u64, next + 1);
        // The last but one cannot vanish any more.
        let mut lost = bytes.clone();
        lost[frames[frames.len() - 2].clone()].fill(0);
        open(&disk_with(&[(0, &lost)]).await).await.unwrap_err();
        let (log, _closed) = open(&disk_with(&[(0, &bytes)]).await).await.unwrap();
        assert_eq!(log.reader.lock().last(), Some(id(1, next - 1)));
    }
}

#[tokio::test]
async fn what_a_failed_write_left_behind_is_cut_off() {
    for length in [10, 600, 1200, 5000] {
        let disk = MemoryDisk::default();
        let (mut log, _closed) = open(&disk).await.unwrap();
        append(&mut log, vec![entry(1, 0, 50)]).await;
        disk.fault(|faults| faults.writes_fail = true);
        hand_over(&mut log, vec![entry(1, 1, length)]).await.await.unwrap().unwrap_err();
        disk.fault(|faults| faults.writes_fail = false);
        for cuts_power in [false, true] {
            let disk = if cuts_power { disk.crash(length as u64) } else { disk.restart() };
            let (log, _closed) = open(&disk).await.unwrap_or_else(|error| panic!("{length}: {error}"));
            assert_eq!(log.reader.lock().last(), Some(id(1, 0)), "{length}");
        }
    }
}
