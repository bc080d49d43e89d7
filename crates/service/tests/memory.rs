//! What one who waits costs.

#[path = "service/common/mod.rs"]
mod common;

use std::alloc::System;

use common::Desk;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn one_who_waits_costs_less_than_500_bytes() {
    let mut desk = Desk::default();
    desk.batch("s1 open & s1 lock x");
    let mut commands = Vec::new();
    for session in 2..102 {
        desk.batch(&format!("s{session} open"));
        commands.extend(
            (0..100).map(|strand| desk.command(&format!("s{session} lock x strand={strand} wait=9000"))),
        );
    }
    let region = Region::new(ALLOCATOR);
    drop(desk.apply_unchecked(commands.clone()));
    let change = region.change();
    let bytes = change.bytes_allocated - change.bytes_deallocated;
    assert_eq!(desk.state.totals().waiting, 10_000);
    assert!(bytes / 10_000 < 500, "{} bytes for each", bytes / 10_000);
    println!("{} bytes for each", bytes / 10_000);
}
