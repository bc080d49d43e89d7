//! Traces as JSON Lines: a header, then one record per line.

use std::collections::BTreeSet;
use std::io;

use conclave_core::NodeId;
use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use crate::script::{MOST_LOCKS, MOST_PAIRS};
use crate::words::named;
use crate::{Header, Record, Trace, What};

const FORMAT: &str = "conclave-trace";
const VERSION: u64 = 1;

/// Why a text is not a trace. Lines are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// There is nothing in it.
    #[error("the trace is empty")]
    Empty,
    /// It begins with something else than the header of a trace.
    #[error("this is not a trace: the first line must be a JSON object with \"format\":\"{FORMAT}\"")]
    NotATrace,
    /// It was written by another version.
    #[error("the trace has version {found}; this program reads version {VERSION}")]
    Version {
        /// The version it names.
        found: String,
    },
    /// The header lacks something, or has something wrong in it.
    #[error("line 1: the header is wrong: {why}")]
    Header {
        /// What is wrong.
        why: String,
    },
    /// A line is not a record.
    #[error("line {line} is not a record: {why}")]
    Broken {
        /// Which line.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// The last line stops in the middle: whoever wrote it did not get to the end.
    #[error("line {line}: the last line is cut off; delete it to read what comes before")]
    Cut {
        /// Which line.
        line: usize,
    },
    /// A record is missing, doubled or out of order.
    #[error("line {line}: the record has id {found}, but its place is {expected}")]
    Id {
        /// Which line.
        line: usize,
        /// The id that belongs there.
        expected: u64,
        /// The id that is there.
        found: u64,
    },
    /// Effects come after their causes.
    #[error("line {line}: the cause, record {cause}, does not lie before record {id}")]
    Cause {
        /// Which line.
        line: usize,
        /// The record.
        id: u64,
        /// The cause that it names.
        cause: u64,
    },
    /// A message can arrive, get lost or be copied only if it was sent.
    #[error(
        "line {line}: the cause of this {kind}, record {cause}, does not send a message from {from} to {to}"
    )]
    NotItsSend {
        /// Which line.
        line: usize,
        /// What happened to the message.
        kind: &'static str,
        /// The cause that it names.
        cause: u64,
        /// The sender of the message.
        from: NodeId,
        /// The receiver of the message.
        to: NodeId,
    },
    /// A record names somebody who does not take part.
    #[error("line {line}: {process} is not one of the processes in the header")]
    Stranger {
        /// Which line.
        line: usize,
        /// Who.
        process: NodeId,
    },
    /// A record of this kind happens to somebody.
    #[error("line {line}: a {kind} needs a process")]
    Nobody {
        /// Which line.
        line: usize,
        /// What happened.
        kind: &'static str,
    },
    /// A send belongs to its sender; an arrival or a loss to its receiver.
    #[error("line {line}: this {kind} belongs to {expected}, not to {found}")]
    WrongProcess {
        /// Which line.
        line: usize,
        /// What happened.
        kind: &'static str,
        /// Whose it is.
        expected: NodeId,
        /// Whose it claims to be.
        found: NodeId,
    },
    /// Messages of a channel are counted from 1.
    #[error("line {line}: the messages of a channel are counted from 1, so `nth` cannot be 0")]
    Nth {
        /// Which line.
        line: usize,
    },
    /// A record is about a lock that does not exist.
    #[error("line {line}: lock {lock} does not exist; the locks are counted from 0 to {last}")]
    Lock {
        /// Which line.
        line: usize,
        /// The lock.
        lock: usize,
        /// The last one that exists.
        last: usize,
    },
    /// A vector stamp has an entry per process, at most.
    #[error("line {line}: the vector stamp has {found} entries for {nodes} processes")]
    Vector {
        /// Which line.
        line: usize,
        /// Its length.
        found: usize,
        /// How many processes there are.
        nodes: usize,
    },
}

/// The first line.
#[derive(Serialize)]
struct Opening<'a> {
    format: &'a str,
    version: u64,
    #[serde(flatten)]
    header: &'a Header,
}

impl Trace {
    /// Writes the trace as JSON Lines.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_jsonl(&self, out: &mut impl io::Write) -> io::Result<()> {
        serde_json::to_writer(
            &mut *out,
            &Opening { format: FORMAT, version: VERSION, header: &self.header },
        )?;
        out.write_all(b"\n")?;
        for record in &self.records {
            serde_json::to_writer(&mut *out, record)?;
            out.write_all(b"\n")?;
        }
        out.flush()
    }

    /// Reads a trace from JSON Lines. Blank lines are skipped.
    ///
    /// # Errors
    /// If the text is not a trace that makes sense; the error says in which line and why.
    pub fn read_jsonl(text: &str) -> Result<Self, TraceError> {
        let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        let (_, first) = lines.next().ok_or(TraceError::Empty)?;
        let header = read_header(first)?;
        let nodes: BTreeSet<NodeId> = header.nodes.iter().copied().collect();
        if nodes.len() < header.nodes.len() {
            return Err(TraceError::Header { why: "a process is listed twice".to_owned() });
        }
        let mut trace = Self { header, records: Vec::new() };
        let mut lines = lines.peekable();
        while let Some((line, json)) = lines.next() {
            let is_unfinished = lines.peek().is_none() && !text.ends_with('\n');
            let record = serde_json::from_str(json).map_err(|error| match is_unfinished {
                true => TraceError::Cut { line },
                false => TraceError::Broken { line, why: reason(&error) },
            })?;
            trace.check(&record, &nodes, line)?;
            trace.records.push(record);
        }
        Ok(trace)
    }

    /// Whether a record may come next.
    fn check(&self, record: &Record, nodes: &BTreeSet<NodeId>, line: usize) -> Result<(), TraceError> {
        let expected = self.records.len() as u64;
        if record.id != expected {
            return Err(TraceError::Id { line, expected, found: record.id });
        }
        if let Some(process) = named(record).find(|process| !nodes.contains(process)) {
            return Err(TraceError::Stranger { line, process });
        }
        if let Some(cause) = record.cause.filter(|cause| *cause >= record.id) {
            return Err(TraceError::Cause { line, id: record.id, cause });
        }
        if let Some(found) =
            record.vector.as_ref().map(|v| v.entries().len()).filter(|len| *len > nodes.len())
        {
            return Err(TraceError::Vector { line, found, nodes: nodes.len() });
        }
        self.check_lock(record, line)?;
        check_process(record, line)?;
        self.check_message(record, line)
    }

    fn check_lock(&self, record: &Record, line: usize) -> Result<(), TraceError> {
        match record.what {
            What::Request { lock, .. } | What::Event { lock, .. } if lock >= self.header.locks => {
                Err(TraceError::Lock { line, lock, last: self.header.locks - 1 })
            }
            _ => Ok(()),
        }
    }

    fn check_message(&self, record: &Record, line: usize) -> Result<(), TraceError> {
        let Some(carried) = record.what.carried() else { return Ok(()) };
        if carried.nth == 0 {
            return Err(TraceError::Nth { line });
        }
        let (true, Some(cause)) = (!matches!(record.what, What::Send(_)), record.cause) else {
            return Ok(());
        };
        match usize::try_from(cause).ok().and_then(|cause| self.records.get(cause)).map(|cause| &cause.what) {
            Some(What::Send(sent) | What::Duplicate(sent))
                if (sent.from, sent.to) == (carried.from, carried.to) =>
            {
                Ok(())
            }
            _ => {
                let kind = record.what.name();
                Err(TraceError::NotItsSend { line, kind, cause, from: carried.from, to: carried.to })
            }
        }
    }
}

fn read_header(line: &str) -> Result<Header, TraceError> {
    let opening: Value = serde_json::from_str(line).map_err(|_| TraceError::NotATrace)?;
    if opening.get("format").and_then(Value::as_str) != Some(FORMAT) {
        return Err(TraceError::NotATrace);
    }
    match opening.get("version") {
        Some(version) if version.as_u64() == Some(VERSION) => {}
        Some(version) => return Err(TraceError::Version { found: version.to_string() }),
        None => return Err(TraceError::Header { why: "missing field `version`".to_owned() }),
    }
    let header: Header =
        serde_json::from_value(opening).map_err(|error| TraceError::Header { why: reason(&error) })?;
    let founders = header.nodes.len().checked_sub(header.newcomers.len());
    let why = if header.nodes.is_empty() {
        "there are no processes"
    } else if founders.is_none_or(|founders| header.nodes[founders..] != header.newcomers) {
        "`newcomers` are not the last of `nodes`"
    } else if founders == Some(0) {
        "there is nobody to join"
    } else if header.locks == 0 {
        "there are no locks"
    } else if header.locks > MOST_LOCKS || header.locks * header.nodes.len() > MOST_PAIRS {
        "there are more locks than fit into memory"
    } else {
        return Ok(header);
    };
    Err(TraceError::Header { why: why.to_owned() })
}

fn check_process(record: &Record, line: usize) -> Result<(), TraceError> {
    let kind = record.what.name();
    let owner = match &record.what {
        What::Send(carried) => Some(carried.from),
        What::Deliver(carried) | What::Drop(carried) => Some(carried.to),
        _ => None,
    };
    match (record.process, owner) {
        (None, _) if record.what.is_lived() => Err(TraceError::Nobody { line, kind }),
        (Some(found), Some(expected)) if found != expected => {
            Err(TraceError::WrongProcess { line, kind, expected, found })
        }
        _ => Ok(()),
    }
}

/// What serde has to say, without its own count of lines: it saw only one.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason).to_owned()
}
