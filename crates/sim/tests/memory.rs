//! The hot loop allocates nothing per message once it is warm, and memory follows the messages in flight.

#[path = "sim/common/mod.rs"]
mod common;

use std::alloc::System;

use common::{plan, run_well, setup};
use conclave_algorithms::mutex::{self, Load};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// One test, so that no other thread allocates meanwhile.
#[test]
fn nothing_is_allocated_per_message() {
    // But in a lock whose requests are posts of a multicast, which are texts.
    for about in mutex::all().into_iter().filter(|about| about.name != "total-order") {
        let algorithm = about.name;
        let measured = |entries| {
            let mut plan = plan(10, Load::Saturated, 1);
            plan.entries = entries;
            let region = Region::new(GLOBAL);
            let messages = run_well(&setup(algorithm, 10, &[]), &plan).report.messages;
            let change = region.change();
            (messages, change.allocations + change.reallocations, change.bytes_allocated)
        };
        let (short, long) = (measured(500), measured(2_500));
        let messages = long.0 - short.0;
        assert!(messages >= 20_000, "{algorithm}: {messages} more messages");
        // The longer run warms up a little further: a queue that is longer than any before grows once.
        let allocations = long.1.saturating_sub(short.1);
        assert!(
            allocations <= 64,
            "{algorithm}: {allocations} more allocations for {messages} more messages"
        );
        let bytes = long.2.saturating_sub(short.2);
        assert!(bytes <= 64 * 1024, "{algorithm}: {bytes} more bytes for {messages} more messages");
    }
    thousand_processes();
}

/// n = 1,000 works, light and with a million messages in flight at once.
fn thousand_processes() {
    for (load, entries) in [(Load::Light, 1), (Load::Saturated, 1)] {
        let mut plan = plan(1_000, load, 1);
        plan.entries = entries;
        let report = run_well(&setup("ricart-agrawala", 1_000, &[]), &plan).report;
        assert_eq!(report.messages, 1_000 * 2 * 999);
        assert_eq!(report.formula.agrees, Some(true));
    }
}
