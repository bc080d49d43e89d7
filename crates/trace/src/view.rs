//! A part of a trace, in other words: what a drawing for a page shows of a long run.

use std::collections::{BTreeMap, BTreeSet};

use conclave_core::NodeId;
use serde_json::{Value, json};

use crate::words::{is_farewell, phase_after};
use crate::{Carried, Record, Trace, What, compact};

/// What is shown of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// From when to when, in microseconds; both ends are shown.
    pub window: Option<(u64, u64)>,
    /// Only these processes, and the messages between them; all if none is named.
    pub only: Vec<NodeId>,
    /// Whether messages that are counted apart are left out.
    pub hide_overhead: bool,
    /// Whether fields have their names: `Reply{fence 0, to 1.1}`.
    pub fields: bool,
    /// Other names for kinds of messages.
    pub names: BTreeMap<String, String>,
}

impl View {
    /// Whether everything is shown as it is.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// The part of a trace that is shown.
    ///
    /// Stamps stay those of the whole run. Who was waiting, inside or down when the window begins is so from its beginning
    /// on; a message that was in flight then seems to be sent there.
    #[must_use]
    pub fn of(&self, trace: &Trace) -> Trace {
        let mut records: Vec<Record> = trace.records.iter().map(|record| self.reworded(record)).collect();
        let mut header = trace.header.clone();
        let kept: BTreeSet<u64> =
            records.iter().filter(|record| self.shows(record)).map(|record| record.id).collect();
        let (from, to) = self.window.unwrap_or((0, u64::MAX));
        let crossing = crossing(&records, from);
        let mut opening = self.opening(trace, from);
        if self.window.is_some() {
            header.newcomers = opening.absent.clone();
        }
        if !self.only.is_empty() {
            // Vectors are by place, and the places change.
            let places: Vec<usize> =
                (0..header.nodes.len()).filter(|place| self.only.contains(&header.nodes[*place])).collect();
            for vector in
                records.iter_mut().chain(&mut opening.records).filter_map(|record| record.vector.as_mut())
            {
                *vector = places.iter().map(|place| vector.get(*place)).collect::<Vec<u64>>().into();
            }
            header.nodes.retain(|node| self.only.contains(node));
            header.newcomers.retain(|node| self.only.contains(node));
        }
        records.retain(|record| {
            kept.contains(&record.id)
                && record.time <= to
                && (record.time >= from || crossing.contains(&record.id))
        });
        for record in &mut records {
            record.time = record.time.max(from);
        }
        let opening = opening.records.into_iter().filter(|record| self.names_shown(record.process));
        let records = if self.window.is_some() { opening.chain(records).collect() } else { records };
        Trace { header, records: numbered(records) }
    }

    fn names_shown(&self, process: Option<NodeId>) -> bool {
        self.only.is_empty() || process.is_none_or(|process| self.only.contains(&process))
    }

    fn shows(&self, record: &Record) -> bool {
        let message = record.what.carried();
        let ends = message
            .is_none_or(|message| self.names_shown(Some(message.from)) && self.names_shown(Some(message.to)));
        let hidden = self.hide_overhead && message.is_some_and(|message| message.overhead);
        self.names_shown(record.process) && ends && !hidden
    }

    fn reworded(&self, record: &Record) -> Record {
        let mut record = record.clone();
        if let What::Send(message) | What::Deliver(message) | What::Drop(message) | What::Duplicate(message) =
            &mut record.what
        {
            self.reword(message);
        }
        record
    }

    fn reword(&self, message: &mut Carried) {
        let label = message.label().into_owned();
        message.text = match self.fields {
            true => {
                format!("{}{}", named(&message.message, &message.fields), postmark(&message.message, &label))
            }
            false => label,
        };
        if let Some(name) = self.names.get(&message.message) {
            let rest = message.text.strip_prefix(message.message.as_str()).unwrap_or_default();
            message.text = format!("{name}{rest}");
            message.message.clone_from(name);
        }
    }

    /// How everything stands when the window begins.
    fn opening(&self, trace: &Trace, from: u64) -> Opening {
        let mut opening = Opening { absent: trace.header.newcomers.clone(), records: Vec::new() };
        let mut phases: BTreeMap<NodeId, Record> = BTreeMap::new();
        let mut lasting: BTreeMap<(Option<NodeId>, String), Record> = BTreeMap::new();
        for record in trace.records.iter().filter(|record| record.time < from) {
            match (&record.what, record.process) {
                (What::Crash { .. }, Some(process)) => {
                    phases.remove(&process);
                    lasting.insert((Some(process), "down".into()), record.clone());
                }
                (What::Restart { .. }, process) => drop(lasting.remove(&(process, "down".into()))),
                (What::Join, Some(process)) => opening.absent.retain(|absent| *absent != process),
                (What::Pause, process) => drop(lasting.insert((process, "paused".into()), record.clone())),
                (What::Resume, process) => drop(lasting.remove(&(process, "paused".into()))),
                (What::Partition { cut }, _) => drop(lasting.insert((None, cut.clone()), record.clone())),
                (What::Heal { cut }, _) => drop(lasting.remove(&(None, cut.clone()))),
                _ => {}
            }
            if let (Some(process), Some(_)) = (record.process, phase_after(record)) {
                phases.insert(process, record.clone());
            }
            if let (true, Some(process)) = (is_farewell(record), record.process) {
                phases.remove(&process);
                opening.absent.push(process);
            }
        }
        // A process that starts in a phase has been in it.
        let standing = phases.into_values().map(|record| Record { what: What::Start, ..record });
        let all = standing.chain(lasting.into_values());
        opening.records =
            all.map(|record| Record { time: from, cause: None, id: u64::MAX, ..record }).collect();
        opening
    }
}

/// How everything stands when a window begins.
struct Opening {
    /// Who is not there.
    absent: Vec<NodeId>,
    /// What brings about how the others stand.
    records: Vec<Record>,
}

/// The sends, and copies, before the window of what becomes of something only inside it or behind it.
fn crossing(records: &[Record], from: u64) -> BTreeSet<u64> {
    let mut flying: BTreeMap<u64, u32> = BTreeMap::new();
    for record in records.iter().filter(|record| record.time < from) {
        let send = send_of(records, record);
        match &record.what {
            What::Send(_) => drop(flying.insert(record.id, 1)),
            What::Duplicate(_) => *flying.entry(send.unwrap_or(record.id)).or_insert(0) += 1,
            What::Deliver(_) | What::Drop(_) => {
                if let Some(copies) = send.and_then(|send| flying.get_mut(&send)) {
                    *copies = copies.saturating_sub(1);
                }
            }
            _ => {}
        }
    }
    flying.into_iter().filter(|(_, copies)| *copies > 0).map(|(send, _)| send).collect()
}

fn send_of(records: &[Record], record: &Record) -> Option<u64> {
    let mut at = record.cause?;
    loop {
        let cause = records.get(usize::try_from(at).ok()?)?;
        match cause.what {
            What::Send(_) => return Some(at),
            What::Duplicate(_) => at = cause.cause.filter(|earlier| *earlier < at)?,
            _ => return None,
        }
    }
}

/// The records with new numbers; a cause that is not shown is none.
fn numbered(records: Vec<Record>) -> Vec<Record> {
    let places: BTreeMap<u64, u64> =
        records.iter().zip(0..).map(|(record, place)| (record.id, place)).collect();
    let renumbered = records.into_iter().zip(0..).map(|(record, place)| Record {
        id: place,
        cause: record.cause.and_then(|cause| places.get(&cause).copied()).filter(|cause| *cause < place),
        ..record
    });
    renumbered.collect()
}

/// What stands behind the fields of a message: the epoch or the lock of what only carries it.
fn postmark<'a>(kind: &str, text: &'a str) -> &'a str {
    let end = text.rfind('}').map_or(kind.len(), |end| end + 1);
    text.get(end..).unwrap_or_default()
}

/// The fields of a message of this kind inside what only carries it, if that is so.
fn letter<'a>(kind: &str, fields: &'a Value) -> Option<&'a Value> {
    match fields {
        Value::String(word) if word == kind => Some(&Value::Null),
        Value::Object(map) => match map.iter().next() {
            Some((name, inner)) if map.len() == 1 && is_variant(name) => {
                if name == kind {
                    Some(inner)
                } else {
                    letter(kind, inner)
                }
            }
            _ => letter(kind, map.get("message")?),
        },
        _ => None,
    }
}

fn is_variant(name: &str) -> bool {
    name.starts_with(|first: char| first.is_uppercase())
}

/// A message with the names of its fields.
fn named(kind: &str, fields: &Value) -> String {
    match letter(kind, fields).unwrap_or(fields) {
        Value::Object(map) if !map.is_empty() && !map.keys().any(|name| is_variant(name)) => {
            let fields = map.iter().map(|(name, value)| format!("{name} {}", inside(value)));
            format!("{kind}{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        fields => compact(kind, fields),
    }
}

/// A value as it stands inside a message.
fn inside(value: &Value) -> String {
    let text = compact("", &json!([value]));
    text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_their_names() {
        let cases = [
            (json!({"to": {"process": 1, "number": 1}, "fence": 0}), "Reply{fence 0, to 1.1}"),
            (json!({"list": [1, 2], "flag": true, "none": null}), "Reply{flag true, list [1,2], none -}"),
            (json!([3, 4]), "Reply{3,4}"),
            (json!(null), "Reply"),
            (json!({}), "Reply"),
        ];
        for (fields, expected) in cases {
            assert_eq!(named("Reply", &fields), expected);
        }
    }

    #[test]
    fn what_only_carries_a_message_is_left_out() {
        let part = json!({"Part": {"epoch": "0", "message": {"Reply": {"fence": 0}}, "time": 3}});
        for fields in [part.clone(), json!({"Application": part}), json!({"lock": 1, "message": part})] {
            assert_eq!(named("Reply", &fields), "Reply{fence 0}", "{fields}");
        }
        assert_eq!(named("Want", &json!({"Part": {"epoch": "0", "message": "Want"}})), "Want");
        assert_eq!(named("Note", &json!({"message": "hello"})), "Note{message hello}");
        let marks =
            [("Reply", "Reply{3.1}@1p5"), ("Want", "Want@0"), ("Reply", "Reply{1}[lock-0]"), ("A", "A")];
        assert_eq!(marks.map(|(kind, text)| postmark(kind, text)), ["@1p5", "@0", "[lock-0]", ""]);
    }
}
