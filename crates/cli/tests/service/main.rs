//! The replicated service as people meet it: real nodes on a real disk, and the real commands.
//!
//! `runner_*` is about commands that run while something is held, and every way in which they end. `showing` is about what
//! the other commands print. `cluster` kills, stops and restarts nodes while clients write to a file behind a lock; `partition` pulls
//! a cable, `full_disk` fills a disk. `hostile`, `flood` and `damage` are about those who mean no good, and what must not
//! come of it.

mod cluster;
mod damage;
mod fenced;
mod flood;
mod full_disk;
mod hostile;
mod nodes;
mod partition;
mod runner_endings;
mod runner_losses;
mod runner_signals;
mod runner_terms;
mod runner_waiting;
mod runs;
mod showing;
mod talker;
mod wires;

use std::time::{Duration, Instant};

/// Longer than anything takes that is going to happen, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(40);

/// Says that a test cannot run here; where everything is to be run, that is a failure.
#[track_caller]
fn cannot_run_without(what: &str) {
    let is_required = std::env::var_os("CONCLAVE_CI").is_some_and(|value| !value.is_empty());
    assert!(!is_required, "this is needed: {what}");
    println!("SKIPPED: there is no {what}");
}

/// Waits until something is the case.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "it never came about that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
