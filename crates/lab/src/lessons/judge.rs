//! Whether a run solves an exercise.
//!
//! A goal is judged on the trace alone, so that any run can be judged, however it was made. What a run says when it is not there yet is a
//! sentence that helps.

use std::collections::BTreeMap;

use conclave_core::NodeId;
use conclave_trace::{Header, Record, Trace, What, describe};
use serde::{Deserialize, Serialize};

use super::{Exercise, Free};

/// What a run has to show.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case", deny_unknown_fields)]
pub enum Goal {
    /// This promise is broken.
    Broken {
        /// Its code.
        property: String,
    },
    /// No promise is broken.
    Kept,
    /// So many processes are in this phase at the same moment.
    Together {
        /// Which phase.
        phase: String,
        /// How many processes.
        count: usize,
    },
    /// So many processes are in this phase in the end.
    Ends {
        /// Which phase.
        phase: String,
        /// How many processes.
        count: usize,
    },
    /// Something happens so often.
    Happens {
        /// Part of its sentence.
        text: String,
        /// How often at least.
        times: usize,
        /// How often at most.
        at_most: Option<usize>,
    },
    /// Something does not happen.
    Never {
        /// Part of its sentence.
        text: String,
    },
    /// Several things happen one after the other.
    Order {
        /// Parts of their sentences.
        texts: Vec<String>,
    },
    /// So many messages of these kinds are sent.
    Sent {
        /// Which kinds.
        messages: Vec<String>,
        /// How many.
        at_least: usize,
    },
    /// So many things go wrong: losses, copies, crashes, suspicions. What is lost because its receiver is down is no fault of its own.
    Faults {
        /// How many at least.
        at_least: usize,
        /// How many at most.
        at_most: usize,
    },
    /// Nothing is in flight in the end.
    Idle,
    /// A message is lost, and for so long nobody sends anything.
    Quiet {
        /// Part of its text.
        after: String,
        /// For how many milliseconds.
        ms: u64,
    },
}

/// What is said about a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether it solves the exercise.
    pub solved: bool,
    /// At which step it does.
    pub at: Option<u32>,
    /// The same in a sentence.
    pub sentence: String,
}

/// Judges a run, with the step of each record, by what the exercise that begins with `start` asks for.
#[must_use]
pub fn judge(exercise: &Exercise, start: &Trace, run: &Trace, step: &[u32]) -> Verdict {
    let unsolved = |sentence| Verdict { solved: false, at: None, sentence };
    if let Some(other) = another_setup(&start.header, &run.header, &exercise.free) {
        return unsolved(other);
    }
    let mut at = 0;
    for goal in &exercise.goals {
        match goal.reached(&run.records) {
            Ok(record) => at = at.max(record),
            Err(missing) => return unsolved(format!("Not yet: {missing}.")),
        }
    }
    let at = step.get(at).copied().unwrap_or_default();
    Verdict { solved: true, at: Some(at), sentence: format!("Solved at step {at}: {}.", exercise.goal) }
}

/// What of the setup is another one than that of the exercise.
fn another_setup(start: &Header, run: &Header, free: &[Free]) -> Option<String> {
    let members = |header: &Header| -> Vec<NodeId> {
        header.nodes.iter().filter(|node| !header.newcomers.contains(node)).copied().collect()
    };
    let shown = |mutant: &Option<String>| {
        mutant.as_deref().map_or_else(String::new, |name| format!(" --mutant {name}"))
    };
    if start.algorithm != run.algorithm || start.mutant != run.mutant {
        return Some(format!(
            "The exercise is about {}{}, and this is a run of {}{}.",
            start.algorithm,
            shown(&start.mutant),
            run.algorithm,
            shown(&run.mutant)
        ));
    }
    if members(start) != members(run) || start.locks != run.locks {
        return Some("The exercise has other processes than this run.".to_owned());
    }
    if start.channels != run.channels && !free.contains(&Free::Channels) {
        return Some(format!(
            "The channels are '{}' in this exercise, and '{}' in this run.",
            start.channels, run.channels
        ));
    }
    if start.settings != run.settings && !free.contains(&Free::Settings) {
        return Some("The exercise has other settings than this run.".to_owned());
    }
    None
}

impl Goal {
    /// The place of the record at which it is reached, or what is missing.
    fn reached(&self, records: &[Record]) -> Result<usize, String> {
        let end = records.len().saturating_sub(1);
        let broken = records.iter().enumerate().find_map(|(at, record)| match &record.what {
            What::Violation { property, .. } => Some((at, property)),
            _ => None,
        });
        match self {
            Self::Broken { property } => match broken {
                Some((at, found)) if found == property => Ok(at),
                Some((_, found)) => Err(format!("{found} is broken, and not {property}")),
                None => Err(format!("{property} is not broken")),
            },
            Self::Kept => broken.map_or(Ok(end), |(_, found)| Err(format!("{found} is broken"))),
            Self::Together { phase, count } => together(records, phase, *count),
            Self::Ends { phase, count } => {
                let mut phases = Phases::default();
                records.iter().for_each(|record| phases.see(record));
                let found = phases.count(phase);
                enough(found >= *count, end, || format!("in the end {} {phase}, not {count}", are(found)))
            }
            Self::Happens { text, times, at_most } => {
                let found: Vec<usize> = places(records, text).collect();
                if at_most.is_some_and(|most| found.len() > most) {
                    return Err(format!("'{text}' happens {} times, more than is allowed", found.len()));
                }
                let last = times.checked_sub(1).and_then(|last| found.get(last));
                last.copied().ok_or_else(|| format!("'{text}' has happened {} of {times} times", found.len()))
            }
            Self::Never { text } => places(records, text)
                .next()
                .map_or(Ok(0), |at| Err(format!("'{}' must not happen", describe(&records[at])))),
            Self::Order { texts } => {
                let mut rest = 0;
                for text in texts {
                    let found = (rest..records.len()).find(|at| describe(&records[*at]).contains(text));
                    rest = 1 + found.ok_or_else(|| format!("'{text}' has not happened in its turn"))?;
                }
                Ok(rest.saturating_sub(1))
            }
            Self::Sent { messages, at_least } => {
                let is_meant = |record: &Record| matches!(&record.what, What::Send(sent) if messages.contains(&sent.message));
                let found: Vec<usize> = (0..records.len()).filter(|at| is_meant(&records[*at])).collect();
                enough(found.len() >= *at_least, found.last().copied().unwrap_or_default(), || {
                    format!("{} of {at_least} messages {} were sent", found.len(), messages.join(" and "))
                })
            }
            Self::Faults { at_least, at_most } => {
                let found = faults(records);
                enough(
                    (*at_least..=*at_most).contains(&found.len()),
                    found.last().copied().unwrap_or_default(),
                    || format!("{} things went wrong, and {at_least} to {at_most} should", found.len()),
                )
            }
            Self::Idle => {
                let flying = records.iter().fold(0i64, |flying, record| match record.what {
                    What::Send(_) | What::Duplicate(_) => flying + 1,
                    What::Deliver(_) | What::Drop(_) => flying - 1,
                    _ => flying,
                });
                enough(flying <= 0, end, || format!("{flying} messages are still in flight"))
            }
            Self::Quiet { after, ms } => quiet(records, after, *ms),
        }
    }
}

fn enough(is_enough: bool, at: usize, missing: impl FnOnce() -> String) -> Result<usize, String> {
    if is_enough { Ok(at) } else { Err(missing()) }
}

fn are(count: usize) -> String {
    if count == 1 { "1 process is".to_owned() } else { format!("{count} processes are") }
}

/// Where something like this happens.
fn places<'a>(records: &'a [Record], text: &'a str) -> impl Iterator<Item = usize> + 'a {
    (0..records.len()).filter(move |at| describe(&records[*at]).contains(text))
}

fn together(records: &[Record], phase: &str, count: usize) -> Result<usize, String> {
    let mut phases = Phases::default();
    let mut most = 0;
    for (at, record) in records.iter().enumerate() {
        phases.see(record);
        most = most.max(phases.count(phase));
        if most >= count {
            return Ok(at);
        }
    }
    Err(format!("at most {} {phase} at the same moment, not {count}", are(most)))
}

fn faults(records: &[Record]) -> Vec<usize> {
    let mut phases = Phases::default();
    let mut found = Vec::new();
    for (at, record) in records.iter().enumerate() {
        let is_fault = match &record.what {
            What::Drop(lost) => !phases.is_down(lost.to),
            What::Duplicate(_)
            | What::Crash { .. }
            | What::Suspect { .. }
            | What::Pause
            | What::Partition { .. } => true,
            _ => false,
        };
        if is_fault {
            found.push(at);
        }
        phases.see(record);
    }
    found
}

fn quiet(records: &[Record], after: &str, ms: u64) -> Result<usize, String> {
    let is_lost = |record: &Record| matches!(&record.what, What::Drop(lost) if lost.label().contains(after));
    let lost = records.iter().position(is_lost).ok_or_else(|| format!("no message {after} is lost"))?;
    let since = records[lost].time;
    for (at, record) in records.iter().enumerate().skip(lost + 1) {
        if record.time >= since.saturating_add(ms.saturating_mul(1000)) {
            return Ok(at);
        }
        if matches!(record.what, What::Send(_)) {
            return Err(format!("'{}' too early", describe(record)));
        }
    }
    Err(format!("the run ends less than {ms} ms after the loss of {after}"))
}

/// The phases of the processes at a moment; who is down has none.
#[derive(Default)]
struct Phases(BTreeMap<NodeId, Option<String>>);

impl Phases {
    fn see(&mut self, record: &Record) {
        let Some(process) = record.process.filter(|_| record.what.is_lived()) else { return };
        match &record.what {
            What::Crash { .. } | What::Restart { .. } => self.0.insert(process, None),
            What::Event { event, .. } if event == "left" => self.0.insert(process, None),
            _ if record.phase.is_empty() => None,
            _ => self.0.insert(process, Some(record.phase.clone())),
        };
    }

    fn count(&self, phase: &str) -> usize {
        self.0.values().flatten().filter(|found| *found == phase).count()
    }

    fn is_down(&self, process: NodeId) -> bool {
        matches!(self.0.get(&process), Some(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A trace of two processes with these records; ids and stamps are filled in.
    fn trace(records: &[Value]) -> Trace {
        let mut text = json!({ "format": "conclave-trace", "version": 1, "algorithm": "central", "nodes": [1, 2], "channels": "any" })
            .to_string();
        for (id, record) in records.iter().enumerate() {
            let mut record = record.clone();
            for (field, value) in [("id", json!(id)), ("lamport", json!(id + 1)), ("time", json!(id * 1000))]
            {
                record.as_object_mut().unwrap().entry(field).or_insert(value);
            }
            text = format!("{text}\n{record}");
        }
        Trace::read_jsonl(&text).unwrap()
    }

    fn phase(process: u64, phase: &str) -> Value {
        json!({ "process": process, "kind": "request", "request": "acquire", "phase": phase })
    }

    fn send() -> Value {
        json!({ "process": 1, "kind": "send", "from": 1, "to": 2, "message": "Token", "nth": 1, "phase": "idle" })
    }

    fn arrival(kind: &str, send: usize) -> Value {
        json!({ "process": 2, "kind": kind, "from": 1, "to": 2, "message": "Token", "nth": 1, "cause": send, "phase": "idle" })
    }

    fn violation(property: &str) -> Value {
        json!({ "kind": "violation", "property": property, "detail": "so it is" })
    }

    fn late(mut record: Value) -> Value {
        record["time"] = json!(60_000);
        record
    }

    #[test]
    fn each_goal_is_reached_by_one_run_and_not_by_another() {
        let crash = json!({ "process": 2, "kind": "crash", "phase": "idle" });
        let mut again = send();
        again["nth"] = json!(2);
        let cases: Vec<(Value, Vec<Value>, Result<usize, ()>)> = vec![
            (
                json!({ "is": "broken", "property": "ME1" }),
                vec![phase(1, "waiting"), violation("ME1")],
                Ok(1),
            ),
            (json!({ "is": "broken", "property": "ME1" }), vec![violation("ME2")], Err(())),
            (json!({ "is": "kept" }), vec![phase(1, "idle")], Ok(0)),
            (json!({ "is": "kept" }), vec![violation("ME2")], Err(())),
            (
                json!({ "is": "together", "phase": "waiting", "count": 2 }),
                vec![phase(1, "waiting"), phase(2, "waiting"), phase(1, "idle")],
                Ok(1),
            ),
            (
                json!({ "is": "together", "phase": "waiting", "count": 2 }),
                vec![phase(1, "waiting"), phase(1, "idle"), phase(2, "waiting")],
                Err(()),
            ),
            (
                json!({ "is": "together", "phase": "waiting", "count": 2 }),
                vec![phase(2, "waiting"), crash.clone(), phase(1, "waiting")],
                Err(()),
            ),
            (json!({ "is": "ends", "phase": "waiting", "count": 1 }), vec![phase(1, "waiting")], Ok(0)),
            (
                json!({ "is": "ends", "phase": "waiting", "count": 1 }),
                vec![phase(1, "waiting"), phase(1, "idle")],
                Err(()),
            ),
            (
                json!({ "is": "happens", "text": "p2 crashes", "times": 1 }),
                vec![phase(1, "idle"), crash.clone()],
                Ok(1),
            ),
            (json!({ "is": "happens", "text": "p1 crashes", "times": 1 }), vec![crash.clone()], Err(())),
            (
                json!({ "is": "happens", "text": "asks", "times": 1, "at_most": 1 }),
                vec![phase(1, "idle"), phase(2, "idle")],
                Err(()),
            ),
            (json!({ "is": "never", "text": "crashes" }), vec![phase(1, "idle")], Ok(0)),
            (json!({ "is": "never", "text": "crashes" }), vec![crash.clone()], Err(())),
            (
                json!({ "is": "order", "texts": ["p1 asks", "p2 crashes"] }),
                vec![phase(1, "idle"), crash.clone()],
                Ok(1),
            ),
            (
                json!({ "is": "order", "texts": ["p2 crashes", "p1 asks"] }),
                vec![phase(1, "idle"), crash.clone()],
                Err(()),
            ),
            (json!({ "is": "order", "texts": ["p2 crashes", "p2 crashes"] }), vec![crash.clone()], Err(())),
            (json!({ "is": "sent", "messages": ["Token"], "at_least": 1 }), vec![send()], Ok(0)),
            (json!({ "is": "sent", "messages": ["Want"], "at_least": 1 }), vec![send()], Err(())),
            (json!({ "is": "faults", "at_least": 1, "at_most": 1 }), vec![send(), arrival("drop", 0)], Ok(1)),
            (
                json!({ "is": "faults", "at_least": 1, "at_most": 1 }),
                vec![send(), crash.clone(), arrival("drop", 0)],
                Ok(1),
            ),
            (
                json!({ "is": "faults", "at_least": 1, "at_most": 1 }),
                vec![send(), arrival("drop", 0), crash],
                Err(()),
            ),
            (json!({ "is": "idle" }), vec![send(), arrival("deliver", 0)], Ok(1)),
            (json!({ "is": "idle" }), vec![send()], Err(())),
            (
                json!({ "is": "quiet", "after": "Token", "ms": 50 }),
                vec![send(), arrival("drop", 0), late(phase(2, "waiting"))],
                Ok(2),
            ),
            (
                json!({ "is": "quiet", "after": "Token", "ms": 50 }),
                vec![send(), arrival("drop", 0), phase(2, "waiting")],
                Err(()),
            ),
            (
                json!({ "is": "quiet", "after": "Token", "ms": 50 }),
                vec![send(), arrival("drop", 0), again, late(phase(2, "waiting"))],
                Err(()),
            ),
            (
                json!({ "is": "quiet", "after": "Token", "ms": 50 }),
                vec![send(), late(arrival("deliver", 0))],
                Err(()),
            ),
        ];
        for (goal, records, expected) in cases {
            let judged: Goal = serde_json::from_value(goal.clone()).unwrap();
            let reached = judged.reached(&trace(&records).records);
            assert_eq!(reached.as_ref().map(|at| *at).map_err(|_| ()), expected, "{goal}: {reached:?}");
        }
    }

    #[test]
    fn a_run_of_something_else_solves_nothing() {
        let exercise = Exercise {
            name: String::new(),
            task: String::new(),
            recipe: Value::Null,
            free: vec![Free::Channels],
            goal: "it is done".to_owned(),
            hint: String::new(),
            goals: vec![Goal::Kept],
            solution: Value::Null,
        };
        let start = trace(&[phase(1, "waiting")]);
        let solved = judge(&exercise, &start, &start, &[4]);
        assert_eq!(
            (solved.solved, solved.at, solved.sentence.as_str()),
            (true, Some(4), "Solved at step 4: it is done.")
        );

        let change = |change: fn(&mut Header)| {
            let mut other = start.clone();
            change(&mut other.header);
            judge(&exercise, &start, &other, &[4]).solved
        };
        assert!(!change(|header| header.algorithm = "lamport".to_owned()));
        assert!(!change(|header| header.mutant = Some("lifo".to_owned())));
        assert!(!change(|header| header.nodes.truncate(1)));
        assert!(!change(|header| header.locks = 2));
        assert!(!change(|header| _ = header.settings.insert("recovery".to_owned(), "on".to_owned())));
        assert!(change(|header| header.channels = "fifo".to_owned()), "the channels are free");
    }
}
