//! Many names: a crash costs as much as with one, and nobody is called dead because of it.
//!
//! A thousand in the ordinary suite, ten thousand with `CONCLAVE_SOAK=1`.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use conclave_algorithms::Name;
use conclave_algorithms::mutex::Fence;
use conclave_core::NodeId;
use conclave_live::control::{Answer, Ask, Control};
use conclave_live::desk::{Wish, Word};

use crate::PATIENCE;
use crate::group::{Group, Place};
use crate::load::{lock_once, status, suspect};

/// Names that are asked for before any answer is read.
const TOGETHER: usize = 50;
/// What a process may need, in kB.
const ROOM: u64 = 200_000;
/// What an idle name may cost a process in memory, in kB.
const EACH: u64 = 12;

/// Locks so many names through a process and gives them back: they are idle then, and all processes know them.
fn visit(place: &Place, names: Range<usize>) {
    let mut control = Control::connect(&place.1).expect("the process is up");
    let all: Vec<Name> =
        names.map(|number| Name::new(&format!("job-{number}")).expect("it is a name")).collect();
    for names in all.chunks(TOGETHER) {
        for ask in [|name| Wish::Lock { name }, |name| Wish::Unlock { name }] {
            names.iter().for_each(|name| control.ask(&Ask::Wish(ask(name.clone()))).expect("it listens"));
            for _ in names {
                let answer = control.answer(Some(PATIENCE)).expect("it stays up");
                let is_done =
                    matches!(&answer, Some(Answer::Word(Word::Granted { .. } | Word::Released { .. })));
                assert!(is_done, "{answer:?}");
            }
        }
    }
}

/// The most memory that a process has needed, in kB.
fn memory(place: &Place) -> u64 {
    let pid = status(place).expect("it is up").pid;
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it needs memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Bytes in a data directory.
fn disk(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).expect("it is there").flatten();
    entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

/// Whom a process has ever called dead, in order.
fn called_dead(place: &Place) -> Vec<String> {
    let log = std::fs::read_to_string(place.1.with_extension("log")).unwrap_or_default();
    let name = |line: &str| {
        let (before, _) = line.split_once(" is down, ")?;
        before.rsplit(' ').next().map(str::to_owned)
    };
    log.lines().filter_map(name).collect()
}

#[test]
fn a_crash_among_many_idle_names_costs_as_much_as_with_one() {
    let is_soak = std::env::var_os("CONCLAVE_SOAK").is_some_and(|value| value == "1");
    let count = if is_soak { 10_000 } else { 1_000 };
    let group = Group::start("ricart-agrawala", 3, "--no-record");
    let places = group.places();
    let survivors = [places[0].clone(), places[1].clone()];
    let most = || survivors.iter().map(memory).max().unwrap_or_default();
    let (mut before, empty) = (lock_once(&places[0], "one"), most());
    visit(&places[0], 0..count / 2);
    let half = most();
    visit(&places[1], count / 2..count);
    let all = most();

    group.order("kill 3");
    let killed = Instant::now();
    let fence_of = |place: &Place| -> Fence { lock_once(place, "job-7") };
    let after = fence_of(&places[0]);
    let outage = killed.elapsed();
    suspect(&survivors, &[3]);
    assert!(before < after, "{before} and {after}");
    before = after;
    assert!(before < fence_of(&places[1]));
    let crashed = most();
    let written = survivors.iter().map(|place| disk(&place.1)).max().unwrap_or_default();
    println!(
        "{count} idle names: next grant after {} ms; memory {empty} kB empty, {half} kB with half, {all} kB with all, \
         {crashed} kB after the crash; {written} bytes on disk",
        outage.as_millis()
    );
    for place in &survivors {
        assert_eq!(called_dead(place), ["p3"], "p{} called the living dead", place.0);
    }
    assert!(crashed < ROOM, "{crashed} kB");
    assert!(crashed.saturating_sub(empty) < 8_000 + EACH * count as u64, "{empty} kB, then {crashed} kB");
    assert!(written < 64_000, "{written} bytes: nothing about an idle name is kept");
    if is_soak {
        assert!(outage < Duration::from_secs(2), "{outage:?}");
    }
    let group = status(&places[0]).and_then(|status| status.group).expect("it recovers as a group");
    assert_eq!((group.roll, group.member), (vec![NodeId(1), NodeId(2)], true));
}
