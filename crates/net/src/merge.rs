//! Makes one trace of the records of all processes.
//!
//! [`lives`](crate::lives) reads them, [`weave`](crate::weave) puts them into one order; here is what both go by.
//!
//! Each process wrote down what it lived through, in its order. A delivery comes after its send; beyond that the clocks
//! of the machines decide, and ties go by the place of the process. What no process can write down is worked out:
//!
//! - *Crashes.* A life that is followed by another one ended; so did a last life that somebody suspects to the end, unless
//!   it is known to run: then it only stands still.
//!   The crash stands right after the last record of the life, and before the suspicion that rests on it.
//! - *Losses.* A message that never arrived is left as it is, in flight, unless a later one of the same channel arrived:
//!   then it was lost, and that stands before the later arrival.
//! - *The end.* The records of a group that still runs are read one after the other, so a later one may tell of what an
//!   earlier one did not hold yet. Each ends before the first step that rests on something that was not read. A last
//!   record that is missing looks the same.
//! - *Locks* with names become numbers, in an order that keeps that of the names.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use conclave_algorithms::family::timer_word;
use conclave_core::NodeId;
use conclave_trace::{Carried, Record, Trace, What};
use serde_json::Value;
use thiserror::Error;

use crate::lives::survey;
use crate::record::Line;
use crate::weave::Weaver;

/// Why records cannot be put together.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MergeError {
    /// There are none.
    #[error("there are no records to merge")]
    Nothing,
    /// A file cannot be read.
    #[error("{path}: {error}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// A file is not a record of this version.
    #[error("{path}: this is not the record of a process")]
    NotARecord {
        /// Which.
        path: PathBuf,
    },
    /// A line means nothing; only the last may be cut off.
    #[error("{path}, line {line}: {why}")]
    Broken {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// Why.
        why: String,
    },
    /// The records are not of the same run.
    #[error("{path}: it belongs to another run than the records before it")]
    AnotherRun {
        /// Which.
        path: PathBuf,
    },
    /// A life is missing, or there are two records of it.
    #[error("of {process}, the record of life {life} is missing or there twice")]
    Lives {
        /// Whose.
        process: NodeId,
        /// Which.
        life: u32,
    },
    /// A message arrived of which nobody wrote that it was sent.
    #[error("{process} received a message from {from} that its record does not have; is a record missing?")]
    NeverSent {
        /// Who received it.
        process: NodeId,
        /// Who must have sent it.
        from: NodeId,
    },
    /// There is no order in which all of it can have happened.
    #[error("the records contradict each other: there is no order in which all of it can have happened")]
    Circle,
}

/// Records put together, and what could not be.
#[derive(Clone, Debug)]
pub struct Merged {
    /// What happened, as far as the records tell all of it.
    pub trace: Trace,
    /// What was written down after that, and is not in the trace.
    pub rest: Vec<Rest>,
    /// Who still runs: more may be written down by now.
    pub running: BTreeSet<NodeId>,
}

/// Lines at the end of the records of a process that rest on something that another one did not write down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// Whose.
    pub process: NodeId,
    /// How many.
    pub lines: usize,
    /// Whose record ends too early for the first of them.
    pub needs: NodeId,
}

impl Merged {
    /// Whose records lack an end, although nothing more will be written down.
    #[must_use]
    pub fn torn(&self) -> BTreeSet<NodeId> {
        let all = self.rest.iter().map(|rest| rest.needs);
        all.filter(|process| !self.running.contains(process)).collect()
    }
}

/// Reads the records of all lives of all processes, and makes one trace of them, as far as they tell all of it.
///
/// They are read line by line: beside the trace, no more is kept than what is in flight at a time.
///
/// # Errors
/// If a file cannot be read or the records do not fit together.
pub fn merge(paths: &[PathBuf]) -> Result<Trace, MergeError> {
    merge_all(paths, BTreeSet::new()).map(|merged| merged.trace)
}

/// The same, with what is left over. Of those who still run no crash is inferred.
///
/// # Errors
/// As [`merge`].
pub fn merge_all(paths: &[PathBuf], running: BTreeSet<NodeId>) -> Result<Merged, MergeError> {
    let (mut trace, rest) = Weaver::new(survey(paths, &running)?).weave()?;
    trace.stamp(true);
    Ok(Merged { trace, rest, running })
}

/// Something that nobody wrote down.
pub(crate) fn inferred(process: NodeId, what: What, time: u64, cause: Option<u64>) -> Record {
    let (phase, vector) = (String::new(), None);
    Record { id: 0, time, process: Some(process), what, phase, clock: None, cause, lamport: 0, vector }
}

/// The numbers that locks get in a trace, by their names.
#[derive(Default)]
pub(crate) struct Names(BTreeMap<String, usize>);

impl Names {
    pub fn of(names: &BTreeSet<String>) -> Self {
        Self(if names.is_empty() { BTreeMap::new() } else { numbering(names) })
    }

    /// How many locks there are, if there are so many without names.
    pub fn locks(&self, given: usize) -> usize {
        match self.0.values().max() {
            // With a single lock the player would take an algorithm without names.
            Some(last) => (last + 1).max(given).max(2),
            None => given,
        }
    }

    /// Speaks of a lock by its number, wherever a line speaks of it.
    pub fn renumber(&self, line: &mut Line) {
        let number = line.lock_name.as_ref().and_then(|name| self.0.get(name).copied());
        match (&mut line.record.what, number) {
            (What::Request { lock, .. } | What::Event { lock, .. }, Some(number)) => *lock = number,
            (What::Send(carried) | What::Deliver(carried), _) => rename_in_message(carried, &self.0),
            (What::Timer { timer }, _) => rename_in_timer(timer, &self.0),
            _ => {}
        }
    }
}

/// The text of a message about a lock ends with its name: `Request{1}[backup]`, `Where{1p5,false,backup}`.
fn rename_in_message(carried: &mut Carried, numbers: &BTreeMap<String, usize>) {
    let Some(name) = lock_of(&mut carried.fields) else { return };
    let Some((given, number)) = name.as_str().and_then(|given| numbers.get_key_value(given)) else { return };
    let numbered = format!("lock-{number}");
    for (before, after) in [("[", "]"), (",", "}")] {
        if let Some(said) = carried.text.strip_suffix(&format!("{before}{given}{after}")) {
            carried.text = format!("{said}{before}{numbered}{after}");
            break;
        }
    }
    *name = numbered.into();
}

/// The name of the lock, in whichever of the envelopes it stands.
fn lock_of(fields: &mut Value) -> Option<&mut Value> {
    let fields = fields.as_object_mut()?;
    if let Some(key) = ["name", "lock"].into_iter().find(|key| fields.get(*key).is_some_and(Value::is_string))
    {
        return fields.get_mut(key);
    }
    // An envelope is a variant, or what it carries.
    let inner = if fields.len() == 1 { fields.values_mut().next() } else { fields.get_mut("message") };
    lock_of(inner?)
}

/// The name of a timer has it before what the timer is for: `("backup",Patience)`, in an envelope or not.
fn rename_in_timer(timer: &mut String, numbers: &BTreeMap<String, usize>) {
    let Some(at) = timer.find("(\"") else { return };
    let (envelope, said) = timer.split_at(at);
    // The longest that fits: a name may begin like another, quotation marks and all.
    let front = |name: &String| timer_word(&(name,)).trim_end_matches(",)").to_owned() + ",";
    let fits = numbers.iter().map(|(name, number)| (front(name), number));
    let fits = fits.filter(|(front, _)| said.starts_with(front.as_str()));
    if let Some((front, number)) = fits.max_by_key(|(front, _)| front.len()) {
        *timer = format!("{envelope}(\"lock-{number}\",{}", &said[front.len()..]);
    }
}

/// A number per name. Names that are numbers keep them; others get them such that `lock-0`, `lock-1`, `lock-10` sort as
/// the names do, since a process serves its locks in the order of their names.
fn numbering(names: &BTreeSet<String>) -> BTreeMap<String, usize> {
    let number = |name: &String| {
        let digits = name.strip_prefix("lock-")?;
        digits.parse::<usize>().ok().filter(|number| *number < 4_096 && number.to_string() == digits)
    };
    if let Some(numbers) = names.iter().map(number).collect::<Option<Vec<usize>>>() {
        return names.iter().cloned().zip(numbers).collect();
    }
    let mut numbers: Vec<usize> = (0..names.len()).collect();
    numbers.sort_by_key(ToString::to_string);
    names.iter().cloned().zip(numbers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_keep_their_numbers_or_the_order_of_their_names() {
        let numbers = |names: &[&str]| {
            let names: BTreeSet<String> = names.iter().map(ToString::to_string).collect();
            numbering(&names).into_iter().collect::<Vec<_>>()
        };
        let kept = [("lock-3".to_owned(), 3), ("lock-7".to_owned(), 7)];
        assert_eq!(numbers(&["lock-7", "lock-3"]), kept);
        let names: Vec<String> = (0..12).map(|k| format!("{}", (b'a' + k) as char)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let given: Vec<String> = numbers(&names).iter().map(|(_, number)| format!("lock-{number}")).collect();
        assert!(given.is_sorted(), "{given:?}");
    }

    #[test]
    fn timers_and_messages_speak_of_numbers() {
        let numbers = [("a b", 0), ("a", 1), ("say \"x\"", 2)];
        let numbers = numbers.map(|(name, number)| (name.to_owned(), number)).into();
        let renamed = |name: &str| {
            let mut timer = timer_word(&(name, "Patience"));
            rename_in_timer(&mut timer, &numbers);
            timer
        };
        assert_eq!(renamed("a b"), r#"("lock-0","Patience")"#);
        assert_eq!(renamed("a"), r#"("lock-1","Patience")"#);
        assert_eq!(renamed(r#"say "x""#), r#"("lock-2","Patience")"#);
        assert_eq!(renamed("other"), r#"("other","Patience")"#);
        let mut timer = r#"Application(("a",Part(Retry)))"#.to_owned();
        rename_in_timer(&mut timer, &numbers);
        assert_eq!(timer, r#"Application(("lock-1",Part(Retry)))"#);
        let mut carried = Carried {
            from: NodeId(1),
            to: NodeId(2),
            message: "Request".into(),
            fields: serde_json::json!({ "name": "a", "message": { "time": 1 } }),
            text: "Request{1}@1p5[a]".into(),
            overhead: false,
            nth: 1,
        };
        rename_in_message(&mut carried, &numbers);
        assert_eq!(carried.text, "Request{1}@1p5[lock-1]");
        assert_eq!(carried.fields["name"], "lock-1");

        // Where the group has many locks, the name stands in envelopes.
        let part =
            serde_json::json!({ "epoch": "1p5", "lock": "a", "message": { "Request": { "time": 1 } } });
        carried.fields = serde_json::json!({ "Application": { "Part": part } });
        carried.text = "Request{1}@1p5[a]".into();
        rename_in_message(&mut carried, &numbers);
        assert_eq!(carried.text, "Request{1}@1p5[lock-1]");
        assert_eq!(carried.fields["Application"]["Part"]["lock"], "lock-1");
        let asked = serde_json::json!({ "epoch": "1p5", "again": false, "lock": "say \"x\"" });
        carried.fields = serde_json::json!({ "Application": { "Where": asked } });
        carried.text = "Where{1p5,false,say \"x\"}".into();
        rename_in_message(&mut carried, &numbers);
        assert_eq!(carried.text, "Where{1p5,false,lock-2}");
    }
}
