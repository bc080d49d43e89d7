//! How fast the simulator is, against a bare hand-written loop for the same algorithm.
//!
//! Ricart–Agrawala, n = 10, saturated: every process asks again as soon as it is out. The simulator runs with properties,
//! metrics and digest on. Elements are messages, so the rates can be compared.

use std::time::Duration;

use conclave_algorithms::Algorithm as _;
use conclave_algorithms::mutex::{Of, RicartAgrawala};
use conclave_core::Members;
use conclave_sim::span::Span;
use conclave_sim::{Plan, simulate};
use conclave_trace::Setup;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

mod bare;

const N: u32 = 10;
const ENTRIES_EACH: u64 = 1_000;
const MESSAGES: u64 = ENTRIES_EACH * N as u64 * 2 * (N as u64 - 1);

/// Seconds that the simulator needs for the run.
fn simulated(record: bool, seed: u64) -> f64 {
    let members = Members::numbered(N);
    let plan = Plan {
        seed,
        entries: ENTRIES_EACH,
        delay: Span::Uniform(1, 1_000),
        hold: Some(Span::Constant(1_000)),
        ..Plan::new(members)
    };
    let setup = Setup::numbered(RicartAgrawala::ABOUT.name, N);
    let outcome = simulate::<Of<RicartAgrawala>>(&setup, &plan, record).expect("the defaults fit");
    assert!(outcome.report.all_held() && outcome.report.messages == MESSAGES);
    outcome.report.wall_seconds
}

fn throughput(c: &mut Criterion) {
    let mut group = c.benchmark_group("ricart-agrawala n=10 saturated");
    group.throughput(Throughput::Elements(MESSAGES)).sample_size(20);
    group.bench_function("bare loop", |b| {
        b.iter(|| assert_eq!(bare::run(N as usize, ENTRIES_EACH, 1), MESSAGES));
    });
    group.bench_function("bare loop, packed", |b| {
        b.iter(|| bare::packed::run(N as usize, ENTRIES_EACH * u64::from(N), 1));
    });
    group.bench_function("bare loop, packed, calendar", |b| {
        b.iter(|| bare::packed::run_calendar(N as usize, ENTRIES_EACH * u64::from(N), 1));
    });
    // The time that the report itself gives: from the first input to the last, without making the trace's text.
    for (name, record) in [("simulator", false), ("simulator, recording in memory", true)] {
        group.bench_function(name, |b| {
            b.iter_custom(|runs| (0..runs).map(|_| Duration::from_secs_f64(simulated(record, 1))).sum());
        });
    }
    group.finish();
}

criterion_group!(benches, throughput);
criterion_main!(benches);
