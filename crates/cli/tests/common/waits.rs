//! Waiting for what must come about, and saying what cannot be tried here.

use std::time::{Duration, Instant};

/// Longer than anything takes that is going to happen, on a machine that has much else to do.
pub const PATIENCE: Duration = Duration::from_secs(40);

/// As long as that, unless it is known that something will not happen: `CONCLAVE_TEST_PATIENCE` has the seconds.
fn patience() -> Duration {
    let seconds = std::env::var("CONCLAVE_TEST_PATIENCE").ok().and_then(|text| text.parse().ok());
    seconds.map_or(PATIENCE, Duration::from_secs)
}

/// Waits until something is the case.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + patience();
    while !is_so() {
        assert!(Instant::now() < deadline, "it never came about that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Says that a test cannot run here; where everything is to be run, that is a failure.
#[track_caller]
pub fn cannot_run_without(what: &str) {
    let is_required = std::env::var_os("CONCLAVE_CI").is_some_and(|value| !value.is_empty());
    assert!(!is_required, "this is needed: {what}");
    println!("SKIPPED: there is no {what}");
}
