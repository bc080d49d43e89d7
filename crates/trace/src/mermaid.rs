//! Export as a Mermaid sequence diagram, which many sites render where they show Markdown.

use std::collections::BTreeSet;

use conclave_core::{Band, NodeId};

use crate::text::put;
use crate::words::{band, event_text, inside_step, named, of_life, of_lock, phase_after};
use crate::{Record, Trace, What};

/// Up to this many processes everyone gets a lifeline, even those that nothing happens to.
const SHOW_ALL: usize = 32;

/// The trace as the text of a Mermaid `sequenceDiagram`.
///
/// Mermaid draws messages as horizontal lines, so each stands where it arrives; its arrows cannot cross, and a
/// message that overtakes another is seen only by its place.
#[must_use]
pub fn mermaid(trace: &Trace) -> String {
    let mut out = "sequenceDiagram\n".to_owned();
    let everyone = participants(trace);
    for process in &everyone {
        put(&mut out, format_args!("    participant {process}\n"));
    }
    let mut active = BTreeSet::new();
    for record in &trace.records {
        let before = record.process.is_some_and(|process| active.contains(&process));
        // A bar ends before the note that says why, and begins after it.
        let after = is_active(record, before);
        if let (Some(process), true, false) = (record.process, before, after) {
            active.remove(&process);
            put(&mut out, format_args!("    deactivate {process}\n"));
        }
        write_record(record, &everyone, &mut out);
        if let (Some(process), false, true) = (record.process, before, after) {
            active.insert(process);
            put(&mut out, format_args!("    activate {process}\n"));
        }
    }
    // Mermaid draws no bar that does not end.
    for process in active {
        put(&mut out, format_args!("    deactivate {process}\n"));
    }
    out
}

fn participants(trace: &Trace) -> Vec<NodeId> {
    if trace.header.nodes.len() <= SHOW_ALL {
        return trace.header.nodes.clone();
    }
    let acting = trace.records.iter().filter(|record| record.what != What::Start);
    let acting: BTreeSet<NodeId> = acting.flat_map(named).collect();
    trace.header.nodes.iter().copied().filter(|node| acting.contains(node)).collect()
}

/// Whether the process of the record holds something after it.
fn is_active(record: &Record, before: bool) -> bool {
    match (&record.what, phase_after(record)) {
        (What::Crash { .. } | What::Restart { .. }, _) => false,
        (_, None) => before,
        (_, Some(phase)) => band(phase) == Band::Holding,
    }
}

fn write_record(record: &Record, everyone: &[NodeId], out: &mut String) {
    if let What::Deliver(m) | What::Drop(m) = &record.what {
        let arrow = if matches!(record.what, What::Drop(_)) { "-x" } else { "->>" };
        put(out, format_args!("    {}{arrow}{}: {}\n", m.from, m.to, escape(&m.label())));
        return;
    }
    let note = match &record.what {
        What::Request { request, lock } => format!("{request}{}", of_lock(*lock)),
        What::Event { event, fence, lock } => format!("{}{}", event_text(event, fence), of_lock(*lock)),
        What::Timer { timer } => format!("timer {timer}"),
        What::Crash { after } => format!("crash{}", inside_step(*after)),
        What::Restart { life, .. } => format!("restart, life {life}"),
        What::Join => "joins".to_owned(),
        What::Pause => "pause".to_owned(),
        What::Resume => "resume".to_owned(),
        What::Suspect { peer, life } => format!("suspects {peer}{}", of_life(*life)),
        What::Trust { peer, life } => format!("trusts {peer}{}", of_life(*life)),
        What::Clock { deviation } => format!("clock {deviation}"),
        What::Reject { peer, why } => format!("rejects {peer}: {why}"),
        What::Duplicate(m) => format!("{} to {} duplicated", m.label(), m.to),
        What::Partition { cut } => format!("cut {cut}"),
        What::Heal { cut } => format!("cut {cut} healed"),
        What::Violation { property, detail } => format!("{property} broken: {detail}"),
        What::Start | What::Send(_) | What::Deliver(_) | What::Drop(_) => return,
    };
    if let Some(place) = place_of(record, everyone) {
        put(out, format_args!("    Note over {place}: {}\n", escape(&note)));
    }
}

/// Where a note stands: over its process, over the sender of its message, or over all.
fn place_of(record: &Record, everyone: &[NodeId]) -> Option<String> {
    if let Some(process) = record.process.or_else(|| record.what.carried().map(|m| m.from)) {
        return Some(process.to_string());
    }
    match everyone {
        [] => None,
        [only] => Some(only.to_string()),
        [first, .., last] => Some(format!("{first},{last}")),
    }
}

/// Mermaid's own escapes: `;` ends a statement, `#` begins an escape, `%%` a comment, and what is left is HTML.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '#' | ';' | '%' | '<' | '>' | '&' | '"' => put(&mut out, format_args!("#{};", u32::from(c))),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
