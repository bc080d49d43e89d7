//! Export for ShiViz, which draws a log by its vector clocks.

use conclave_core::VectorClock;

use crate::text::put;
use crate::words::describe;
use crate::{Record, Trace};

/// How ShiViz shall read the log; its own default has the clock on a line of its own too.
const PATTERN: &str = r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)";

/// The trace as a log for ShiViz: the pattern to read it with, then two lines per event of a process.
///
/// What no process lives through is left out, because ShiViz knows only events of hosts; that a message was lost is
/// visible in the send that nobody receives.
#[must_use]
pub fn shiviz(trace: &Trace) -> String {
    let stamped;
    let trace = if is_stamped(trace) {
        trace
    } else {
        let mut copy = trace.clone();
        copy.stamp(true);
        stamped = copy;
        &stamped
    };
    let mut out = format!("{PATTERN}\n\n");
    for record in trace.records.iter().filter(|record| record.what.is_lived()) {
        if let (Some(process), Some(vector)) = (record.process, &record.vector) {
            put(&mut out, format_args!("{process} {}\n{}\n", clock(trace, vector), describe(record)));
        }
    }
    out
}

fn is_stamped(trace: &Trace) -> bool {
    let lived = |record: &&Record| record.what.is_lived() && record.process.is_some();
    trace.records.iter().filter(lived).all(|record| record.vector.is_some())
}

/// The clock as JSON; ShiViz takes a missing entry for 0.
fn clock(trace: &Trace, vector: &VectorClock) -> String {
    let entries = trace.header.nodes.iter().zip(vector.entries()).filter(|(_, value)| **value > 0);
    let entries: Vec<_> = entries.map(|(process, value)| format!("\"{process}\":{value}")).collect();
    format!("{{{}}}", entries.join(","))
}
