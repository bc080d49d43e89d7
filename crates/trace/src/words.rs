//! Records in words, and what phases look like.

use conclave_core::{Band, NodeId, Phase};

use crate::text::one_line;
use crate::{Record, What};

/// What happened, in one line: `p1 sends Request{1} to p2`.
#[must_use]
pub fn describe(record: &Record) -> String {
    let who = record.process.map_or_else(|| "somebody".to_owned(), |process| process.to_string());
    let line = match &record.what {
        What::Start => format!("{who} starts"),
        What::Request { request, lock } => format!("{who} asks: {request}{}", of_lock(*lock)),
        What::Event { event, fence, lock } => {
            format!("{who} is told: {}{}", event_text(event, fence), of_lock(*lock))
        }
        What::Send(m) => format!("{} sends {} to {}", m.from, m.label(), m.to),
        What::Deliver(m) => format!("{} receives {} from {}", m.to, m.label(), m.from),
        What::Drop(m) => format!("{} from {} to {} is lost", m.label(), m.from, m.to),
        What::Duplicate(m) => format!("{} from {} to {} is duplicated", m.label(), m.from, m.to),
        What::Timer { timer } => format!("{who}'s timer {timer} expires"),
        What::Crash { after } => format!("{who} crashes{}", inside_step(*after)),
        What::Restart { life, durable: true } => format!("{who} restarts, life {life}"),
        What::Restart { life, durable: false } => format!("{who} restarts with nothing saved, life {life}"),
        What::Join => format!("{who} joins"),
        What::Pause => format!("{who} stands still"),
        What::Resume => format!("{who} goes on"),
        What::Suspect { peer, life } => format!("{who} suspects {peer}{}", of_life(*life)),
        What::Trust { peer, life } => format!("{who} trusts {peer}{}", of_life(*life)),
        What::Partition { cut } => format!("the network is cut: {cut}"),
        What::Heal { cut } => format!("the cut is healed: {cut}"),
        What::Clock { deviation } => format!("{who}'s clock is set: {deviation}"),
        What::Reject { peer, why } => format!("{who} rejects what {peer} sent: {why}"),
        What::Violation { property, detail } => format!("{property} is broken: {detail}"),
    };
    one_line(&line)
}

/// Where in a step a process crashed; between two steps goes without saying.
#[must_use]
pub fn inside_step(after: Option<u32>) -> String {
    match after {
        None => String::new(),
        Some(1) => " inside the step, after 1 effect".to_owned(),
        Some(after) => format!(" inside the step, after {after} effects"),
    }
}

/// An event with the proof that came with it.
pub(crate) fn event_text(event: &str, fence: &str) -> String {
    if fence.is_empty() { event.to_owned() } else { format!("{event} {fence}") }
}

/// The lock that something is about; the first goes without saying.
pub(crate) fn of_lock(lock: usize) -> String {
    if lock == 0 { String::new() } else { format!(" (lock {lock})") }
}

/// The life of a peer that is meant; the present one goes without saying.
pub(crate) fn of_life(life: Option<u32>) -> String {
    life.map_or_else(String::new, |life| format!(", life {life}"))
}

/// Whether its process has left the group with this record, and does nothing any more.
pub(crate) fn is_farewell(record: &Record) -> bool {
    matches!(&record.what, What::Event { event, .. } if event == "left")
}

/// How a phase is drawn. A trace carries only its name, and new families bring new ones: an unknown phase is drawn as
/// a quiet one rather than as something that it may not be.
pub(crate) fn band(phase: &str) -> Band {
    Phase::named(phase).map_or(Band::Quiet, |phase| phase.band)
}

/// The phase of its process after a record, if the record tells it. A process that is down has none, and one that has
/// just come up is yet to say what it does; recorders may still write the last phase of the life before.
#[must_use]
pub fn phase_after(record: &Record) -> Option<&str> {
    let is_alive =
        record.what.is_lived() && !matches!(record.what, What::Crash { .. } | What::Restart { .. });
    (is_alive && !record.phase.is_empty()).then_some(record.phase.as_str())
}

/// All processes that a record names.
pub(crate) fn named(record: &Record) -> impl Iterator<Item = NodeId> {
    let others = match &record.what {
        What::Send(m) | What::Deliver(m) | What::Drop(m) | What::Duplicate(m) => [Some(m.from), Some(m.to)],
        What::Suspect { peer, .. } | What::Trust { peer, .. } | What::Reject { peer, .. } => {
            [Some(*peer), None]
        }
        _ => [None, None],
    };
    record.process.into_iter().chain(others.into_iter().flatten())
}
