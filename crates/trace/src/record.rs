//! The data of a trace.

use core::time::Duration;
use std::borrow::Cow;
use std::collections::BTreeMap;

use conclave_core::{LONGEST, Message, NodeId, Shown, Timing, VectorClock};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text::{compact, fields_of, message_text};

/// A recorded run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// What was run.
    pub header: Header,
    /// What happened, in order; the id of a record is its place here.
    pub records: Vec<Record>,
}

/// What was run, and how: enough to run it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The name of the algorithm.
    pub algorithm: String,
    /// The processes, in ring order; who joined later comes last.
    pub nodes: Vec<NodeId>,
    /// Which of them are not there from the beginning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub newcomers: Vec<NodeId>,
    /// The settings of the algorithm that were given.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// The mutant that ran instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutant: Option<String>,
    /// The channel order: `"fifo"` or `"any"`.
    pub channels: String,
    /// How many locks there were.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub locks: usize,
    /// The seed, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// What the processes relied on.
    #[serde(default, skip_serializing_if = "is_usual", with = "Bounds")]
    pub timing: Timing,
}

/// The bounds of time as a trace has them, in microseconds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bounds {
    transmission: u64,
    processing: u64,
}

impl Bounds {
    fn serialize<S: Serializer>(timing: &Timing, serializer: S) -> Result<S::Ok, S::Error> {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Serialize::serialize(
            &Self { transmission: micros(timing.transmission), processing: micros(timing.processing) },
            serializer,
        )
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timing, D::Error> {
        let Self { transmission, processing } = Deserialize::deserialize(deserializer)?;
        if transmission.max(processing) > LONGEST {
            return Err(D::Error::custom("no time is longer than 2^47 microseconds"));
        }
        Ok(Timing {
            transmission: Duration::from_micros(transmission),
            processing: Duration::from_micros(processing),
        })
    }
}

fn is_usual(timing: &Timing) -> bool {
    *timing == Timing::default()
}

fn one() -> usize {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_one(locks: &usize) -> bool {
    *locks == 1
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its place in the trace.
    pub id: u64,
    /// When, in microseconds since the run began.
    pub time: u64,
    /// To whom; nobody for what concerns the network as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<NodeId>,
    /// What.
    #[serde(flatten)]
    pub what: What,
    /// The phase of the process after it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// What the clock of the process showed, where an input was handled by a process that reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Shown>,
    /// The record that caused it: the send of a delivery, the input of a send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<u64>,
    /// Lamport stamp, given by the recorder.
    pub lamport: u64,
    /// Vector stamp by place of the process, given by the recorder where it is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector: Option<VectorClock>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum What {
    /// The process was started.
    Start,
    /// The application asked for something: `"acquire"`, `"release"`, `"cancel"`, `"leave"`.
    Request {
        /// What it asked for.
        request: String,
        /// For which lock.
        #[serde(default)]
        lock: usize,
    },
    /// The process told its application something: `"granted"`, `"left"`.
    Event {
        /// What it told.
        event: String,
        /// The proof that came with it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        fence: String,
        /// About which lock.
        #[serde(default)]
        lock: usize,
    },
    /// The process sent a message.
    Send(Carried),
    /// A message arrived; the cause is its send.
    Deliver(Carried),
    /// A message was lost; the cause is its send. The process is its receiver.
    Drop(Carried),
    /// The network made a second copy of a message; the cause is its send.
    Duplicate(Carried),
    /// A timer expired.
    Timer {
        /// Its name.
        timer: String,
    },
    /// The process crashed.
    Crash {
        /// If it crashed inside a step: how many effects of that step (messages, events, values saved) were carried out.
        /// The cause is the input of the step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<u32>,
    },
    /// The process is up again.
    Restart {
        /// Which life this is.
        life: u32,
        /// Whether it kept what it had saved.
        durable: bool,
    },
    /// The process came up for the first time while the others were running, to join them; it is yet to start.
    Join,
    /// The process stopped doing anything for a while.
    Pause,
    /// It goes on.
    Resume,
    /// The failure detector of the process suspects a peer.
    Suspect {
        /// The peer.
        peer: NodeId,
        /// Which of its lives; absent if it is the present one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        life: Option<u32>,
    },
    /// The failure detector of the process trusts a peer again.
    Trust {
        /// The peer.
        peer: NodeId,
        /// Which of its lives; absent if it is the present one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        life: Option<u32>,
    },
    /// The network was cut.
    Partition {
        /// The cut, as on the command line: `"1,2/3"`.
        cut: String,
    },
    /// A cut was healed.
    Heal {
        /// The cut.
        cut: String,
    },
    /// The clock of the process was set, and deviates from the time of the run from now on.
    Clock {
        /// By how much, as on the command line: `"+20ms,+50ppm"`.
        deviation: String,
    },
    /// The process accused a peer of breaking the protocol.
    Reject {
        /// The peer.
        peer: NodeId,
        /// The rule that it broke.
        why: String,
    },
    /// A property was found broken.
    Violation {
        /// Its code.
        property: String,
        /// What happened.
        detail: String,
    },
}

/// A message in a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Carried {
    /// Who sent it.
    pub from: NodeId,
    /// Who receives it.
    pub to: NodeId,
    /// Its kind, for counting and drawing.
    pub message: String,
    /// Its fields.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub fields: serde_json::Value,
    /// The message in short, its fields in the order of their declaration; see [`message_text`](crate::message_text).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Whether it is counted apart from the algorithm's own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overhead: bool,
    /// It is the nth message from its sender to its receiver, counted from 1.
    pub nth: u64,
}

impl Carried {
    /// A message in flight, in the words of a trace.
    #[must_use]
    pub fn of<M: Message>(message: &M, from: NodeId, to: NodeId, nth: u64) -> Self {
        Self {
            from,
            to,
            message: message.kind().to_string(),
            text: message_text(message),
            fields: fields_of(serde_json::to_value(message).unwrap_or_default()),
            overhead: message.is_overhead(),
            nth,
        }
    }

    /// The message in short: the recorded text, or one made from kind and fields where none was recorded.
    #[must_use]
    pub fn label(&self) -> Cow<'_, str> {
        if self.text.is_empty() {
            Cow::Owned(compact(&self.message, &self.fields))
        } else {
            Cow::Borrowed(&self.text)
        }
    }
}

impl What {
    /// Its name, as it stands in JSON.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Request { .. } => "request",
            Self::Event { .. } => "event",
            Self::Send(_) => "send",
            Self::Deliver(_) => "deliver",
            Self::Drop(_) => "drop",
            Self::Duplicate(_) => "duplicate",
            Self::Timer { .. } => "timer",
            Self::Crash { .. } => "crash",
            Self::Restart { .. } => "restart",
            Self::Join => "join",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Suspect { .. } => "suspect",
            Self::Trust { .. } => "trust",
            Self::Partition { .. } => "partition",
            Self::Heal { .. } => "heal",
            Self::Clock { .. } => "clock",
            Self::Reject { .. } => "reject",
            Self::Violation { .. } => "violation",
        }
    }

    /// The message, if this is about one.
    #[must_use]
    pub fn carried(&self) -> Option<&Carried> {
        match self {
            Self::Send(carried) | Self::Deliver(carried) | Self::Drop(carried) | Self::Duplicate(carried) => {
                Some(carried)
            }
            _ => None,
        }
    }

    /// Whether a process lives through this. What the network does to a message in flight, and what an onlooker
    /// finds out about the whole, is no event of any process, whatever process the record names.
    #[must_use]
    pub fn is_lived(&self) -> bool {
        !matches!(
            self,
            Self::Drop(_)
                | Self::Duplicate(_)
                | Self::Partition { .. }
                | Self::Heal { .. }
                | Self::Clock { .. }
                | Self::Violation { .. }
        )
    }

    /// Whether a process does this while it handles an input, rather than being met by it.
    pub(crate) fn is_effect(&self) -> bool {
        matches!(self, Self::Send(_) | Self::Event { .. } | Self::Reject { .. })
    }
}
