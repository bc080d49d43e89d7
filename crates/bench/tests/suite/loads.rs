//! Loads on locks that are known: what is counted, and what a broken lock cannot hide.

use std::io::sink;
use std::sync::Arc;
use std::time::Duration;

use crate::memory::{Fault, Memory};
use conclave_bench::BenchError;
use conclave_bench::load::{Load, Run, Shape, measure};
use conclave_bench::rounds::{Entry, Named, Report, Spread, alternate};
use conclave_bench::waiters::{self, Waiters, WakeError};

fn load(shape: Shape) -> Load {
    Load { shape, clients: 4, warmup: Duration::from_millis(50), measured: Duration::from_millis(100) }
}

async fn run(fault: Fault, shape: Shape) -> Run {
    measure(&Memory::target(fault), load(shape)).await.expect("memory can be reached")
}

#[tokio::test]
async fn an_honest_lock_is_counted_without_complaint() {
    for shape in [Shape::Uncontended, Shape::Handoff] {
        let run = run(Fault::None, shape).await;
        assert!(run.cycles > 100, "{shape:?}: only {} cycles", run.cycles);
        assert_eq!((run.errors, run.violations), (0, 0), "{shape:?}");
        assert!(run.median_us <= run.p90_us && run.p90_us <= run.p99_us && run.p99_us <= run.max_us);
        assert!((run.per_second * run.seconds - run.cycles as f64).abs() < 1.0);
    }
}

#[tokio::test]
async fn two_holders_at_once_are_found_out() {
    let run = run(Fault::TwoHolders, Shape::Handoff).await;
    assert!(run.violations > 0);
    assert_eq!(run.first_violation.as_deref(), Some("a second holder was let in"));
}

#[tokio::test]
async fn tokens_that_do_not_grow_are_found_out() {
    for shape in [Shape::Uncontended, Shape::Handoff] {
        let run = run(Fault::StaleTokens, shape).await;
        assert_eq!(run.first_violation.as_deref(), Some("token 7 was granted after token 7"), "{shape:?}");
    }
}

#[tokio::test]
async fn failures_are_counted_and_the_load_goes_on() {
    let run = run(Fault::Unreliable, Shape::Uncontended).await;
    assert!(run.errors > 1 && run.cycles > run.errors, "{} errors, {} cycles", run.errors, run.cycles);
    assert_eq!(run.first_error.as_deref(), Some("the connection was lost: on purpose"));
}

#[tokio::test]
async fn rounds_alternate_and_every_pair_is_compared() {
    let named = |label: &str| Named { label: label.to_owned(), target: Memory::target(Fault::None) };
    let targets = ["a", "b", "c"].map(named);
    let load = Load { measured: Duration::from_millis(20), ..load(Shape::Uncontended) };
    let report = alternate(&targets, load, 2, &mut sink()).await.expect("memory can be reached");
    let order: String = report.runs.iter().map(|entry| entry.target.as_str()).collect();
    assert_eq!(order, "abcabc");
    let pairs: Vec<(&str, &str)> =
        report.ratios.iter().map(|ratio| (ratio.target.as_str(), ratio.against.as_str())).collect();
    assert_eq!(pairs, [("a", "b"), ("a", "c"), ("b", "c")]);
}

#[tokio::test]
async fn medians_spread_and_ratios_follow_from_the_runs() {
    let template = run(Fault::None, Shape::Uncontended).await;
    let entry = |target: &str, per_second: f64, median_us: f64| Entry {
        round: 1,
        target: target.to_owned(),
        run: Run { per_second, median_us, ..template.clone() },
    };
    let runs = vec![
        entry("a", 300.0, 1.0),
        entry("b", 10.0, 4.0),
        entry("a", 100.0, 3.0),
        entry("b", 30.0, 4.0),
        entry("a", 200.0, 2.0),
        entry("b", 20.0, 4.0),
    ];
    let report = Report::new(load(Shape::Uncontended), &["a", "b"], runs);
    assert_eq!(report.summary[0].per_second, Spread { median: 200.0, min: 100.0, max: 300.0 });
    assert_eq!((report.ratios[0].per_second, report.ratios[0].median_us), (10.0, 0.5));
    assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).median, 2.5);
}

#[tokio::test]
async fn a_round_that_stood_still_counts_as_a_rate_but_not_as_a_latency() {
    let run = run(Fault::None, Shape::Uncontended).await;
    let stalled = Run { cycles: 0, per_second: 0.0, median_us: 0.0, ..run.clone() };
    let entry = |run: &Run| Entry { round: 1, target: "a".to_owned(), run: run.clone() };
    let report = Report::new(load(Shape::Uncontended), &["a"], vec![entry(&run), entry(&stalled)]);
    assert_eq!(report.summary[0].per_second.min, 0.0);
    assert_eq!(report.summary[0].median_us.min, run.median_us);
}

#[tokio::test]
async fn a_report_keeps_every_run_and_says_whose_lock_is_broken() {
    let target = Memory::target(Fault::TwoHolders);
    let targets = [Named { label: "broken".to_owned(), target: Arc::clone(&target) }];
    let report = alternate(&targets, load(Shape::Handoff), 1, &mut sink()).await.expect("reached");
    assert_eq!(report.violation(), Some(("broken", "a second holder was let in")));
    let json = serde_json::to_value(&report).expect("plain data");
    assert_eq!(json["shape"], "handoff");
    assert_eq!(json["runs"][0]["target"], "broken");
    assert_eq!(json["runs"][0]["violations"], report.runs[0].run.violations);
}

async fn crowd(fault: Fault) -> Result<usize, BenchError> {
    let how = Waiters { waiters: 1200, sessions: 5, releases: 1200, pid: Some(std::process::id()) };
    let wakeups = waiters::run(Memory::target(fault).as_ref(), how, &mut sink()).await?;
    assert!(wakeups.bytes_per_waiter.is_some(), "our own memory can be read");
    Ok(wakeups.releases)
}

#[tokio::test]
async fn every_release_wakes_the_next_of_a_crowd() {
    assert_eq!(crowd(Fault::None).await.expect("honest"), 1199, "the last one has nobody to wake");
}

#[tokio::test]
async fn a_release_that_wakes_two_is_found_out() {
    let found = crowd(Fault::WakesTwo).await;
    assert!(matches!(found, Err(BenchError::Waiters(WakeError::OneTooMany(2)))), "{found:?}");
}

#[tokio::test]
async fn a_waiter_woken_for_nothing_is_found_out() {
    let found = crowd(Fault::Nudges).await;
    assert!(matches!(found, Err(BenchError::Waiters(WakeError::ForNothing(1199)))), "{found:?}");
}
