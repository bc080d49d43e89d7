//! Writes down what a process lives through, so that a run on sockets can be drawn and played like any other.
//!
//! One file of JSON Lines per life, `record-3.jsonl` in the data directory: an opening, then [`Line`]s. Stamps travel with the
//! messages, and a later life goes on counting where the file of the last one ends, so that [`merge`](crate::merge())
//! finds the send of every delivery.
//!
//! Records reach the operating system before the messages of their step leave: if a message was seen, its record
//! survives the death of the process. They are not synced: a power cut may take the end of a file.
//!
//! **Caveat**: what the algorithm saves and what is recorded are two files. A process that is killed between the two
//! writes has saved a step that its record does not show.

use core::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use conclave_algorithms::erased::{Erased, ErasedEvent, ErasedRequest};
use conclave_algorithms::family::{EventOf, EventText, Family, RequestOf, timer_word};
use conclave_core::{Incarnation, Input, LamportClock, NodeId, Phase, Protocol, Shown, VectorClock};
use conclave_trace::{Carried, Header, Record, What};
use serde::{Deserialize, Serialize};

use crate::clock::{Clock, ClockConfig};
use crate::frame::Stamp;

pub(crate) const FORMAT: &str = "conclave-record";
pub(crate) const VERSION: u32 = 1;

/// The words of a family, for the records of its protocols.
pub struct Recording<P: Protocol> {
    header: Header,
    epoch: SystemTime,
    request: fn(&P::Request) -> Asked,
    event: fn(&P::Event) -> (EventText, Option<String>),
}

/// A request in words.
type Asked = (String, usize, Option<String>);

impl<P: Protocol> Recording<P> {
    /// Records in the words of a family. The header says what runs; its processes are put in by the node. Times are
    /// counted from the epoch, which must be the same for all processes.
    #[must_use]
    pub fn of<F: Family<Protocol = P>>(header: Header, epoch: SystemTime) -> Self {
        fn request<F: Family>(request: &RequestOf<F>) -> Asked {
            let (word, lock) = F::show(request);
            (word, lock, F::lock_asked(request))
        }
        fn event<F: Family>(event: &EventOf<F>) -> (EventText, Option<String>) {
            (F::told(event), F::lock_told(event))
        }
        Self { header, epoch, request: request::<F>, event: event::<F> }
    }
}

impl Recording<Erased> {
    /// Records in the words of whichever family the algorithm belongs to.
    #[must_use]
    pub fn erased(header: Header, epoch: SystemTime) -> Self {
        fn request(request: &ErasedRequest) -> Asked {
            let (word, lock) = request.show();
            (word, lock, request.lock())
        }
        fn event(event: &ErasedEvent) -> (EventText, Option<String>) {
            (event.told(), event.lock())
        }
        Self { header, epoch, request, event }
    }
}

/// The first line of a record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Opening {
    /// That it is one.
    pub format: String,
    /// Of which version.
    pub version: u32,
    /// Whose it is.
    pub process: NodeId,
    /// Of which life.
    pub life: u32,
    /// What runs.
    pub header: Header,
}

/// One line of a record: what happened, and what only its own process could say of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// What happened. Ids and causes are those of this file.
    #[serde(flatten)]
    pub record: Record,
    /// Of a delivery: which event of its sender the send was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<u64>,
    /// The name of the lock, where locks have names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_name: Option<String>,
    /// How many more lines its step has: one that was killed may have written some of them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub follow: usize,
}

impl Line {
    /// A line about this alone.
    pub(crate) fn of(record: Record) -> Self {
        Self { record, sent: None, lock_name: None, follow: 0 }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Drops a last step of which lines are missing: nothing of it has left the process.
pub(crate) fn drop_half_a_step(lines: &mut Vec<Line>) {
    let mut whole = 0;
    while let Some(first) = lines.get(whole) {
        let next = whole + 1 + first.follow;
        if next > lines.len() {
            lines.truncate(whole);
        }
        whole = next;
    }
}

/// The record of the present life, being written.
pub(crate) struct Journal<P: Protocol> {
    words: Recording<P>,
    process: NodeId,
    place: usize,
    clock: Clock,
    file: File,
    path: PathBuf,
    /// Lines that are not written yet; those of the present step stand apart until its phase is known.
    ready: Vec<u8>,
    step: Vec<Line>,
    next_id: u64,
    /// The record of the input that is being handled.
    input: Option<u64>,
    phase: &'static str,
    lamport: LamportClock,
    vector: VectorClock,
    /// Messages sent in this life, by place of the receiver.
    nth: Vec<u64>,
}

impl<P: Protocol> Journal<P> {
    /// Begins the record of a life.
    pub fn begin(
        mut words: Recording<P>,
        nodes: &[NodeId],
        process: NodeId,
        life: Incarnation,
        dir: &Path,
    ) -> io::Result<Self> {
        words.header.nodes = nodes.to_vec();
        let (lamport, vector) = last_stamp(dir, life, nodes)?;
        let path = dir.join(file_name(life));
        let file = File::create(&path)?;
        let place = nodes.iter().position(|node| *node == process).unwrap_or_default();
        let opening = Opening {
            format: FORMAT.to_owned(),
            version: VERSION,
            process,
            life: life.0,
            header: words.header.clone(),
        };
        let mut ready = serde_json::to_vec(&opening)?;
        ready.push(b'\n');
        let mut journal = Self {
            clock: Clock::start(&ClockConfig { zero: words.epoch, ..ClockConfig::default() }),
            words,
            process,
            place,
            file,
            path,
            ready,
            step: Vec::new(),
            next_id: 0,
            input: None,
            phase: Phase::IDLE.name,
            lamport,
            vector,
            nth: vec![0; nodes.len()],
        };
        if life > Incarnation::FIRST {
            journal.add(What::Restart { life: life.0, durable: true }, None);
            journal.handled(Phase::IDLE);
        }
        Ok(journal)
    }

    /// Where it is written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// An event of this process happens.
    fn add(&mut self, what: What, seen: Option<&Stamp>) -> &mut Line {
        if let Some(seen) = seen {
            self.lamport.witness(seen.lamport);
            self.vector.merge(&seen.vector);
        }
        self.vector.tick(self.place);
        let record = Record {
            id: self.next_id,
            time: self.clock.truth(),
            process: Some(self.process),
            what,
            phase: String::new(),
            clock: None,
            cause: self.input,
            lamport: self.lamport.tick(),
            vector: Some(self.vector.clone()),
        };
        self.next_id += 1;
        self.step.push(Line::of(record));
        self.step.last_mut().expect("it was pushed")
    }

    /// An input is about to be handled; with the stamp of its message, if it brings one, and what the clock shows, if the
    /// process reads it.
    pub fn input(
        &mut self,
        input: &Input<P>,
        stamp: Option<&Stamp>,
        sender: Option<usize>,
        read: Option<Shown>,
    ) {
        self.input = None;
        let id = self.next_id;
        match input {
            Input::Start => {
                self.add(What::Start, None);
            }
            Input::Receive { from, message } => {
                let carried = Carried::of(message, *from, self.process, 1);
                let sent = stamp.zip(sender).map(|(stamp, place)| stamp.vector.get(place));
                self.add(What::Deliver(carried), stamp).sent = sent;
            }
            Input::Expire(timer) => {
                self.add(What::Timer { timer: timer_word(timer) }, None);
            }
            Input::Request(request) => {
                let (word, lock, name) = (self.words.request)(request);
                self.add(What::Request { request: word, lock }, None).lock_name = name;
            }
            Input::PeerDown { peer, life } => {
                self.add(What::Suspect { peer: *peer, life: Some(life.0) }, None);
            }
            Input::PeerUp { peer, life } => {
                self.add(What::Trust { peer: *peer, life: Some(life.0) }, None);
            }
        }
        self.input = Some(id);
        if let Some(line) = self.step.last_mut() {
            line.record.clock = read;
        }
    }

    /// A message is sent; returns the stamp that travels with it.
    pub fn send(&mut self, to: NodeId, place: usize, message: &P::Message) -> Stamp {
        self.nth[place] += 1;
        let carried = Carried::of(message, self.process, to, self.nth[place]);
        self.add(What::Send(carried), None);
        Stamp { lamport: self.lamport.time(), vector: self.vector.clone() }
    }

    /// The application is told something.
    pub fn emit(&mut self, event: &P::Event) {
        let (told, name) = (self.words.event)(event);
        let what = What::Event { event: told.event, fence: told.fence, lock: told.lock };
        self.add(what, None).lock_name = name;
    }

    /// A peer is accused.
    pub fn reject(&mut self, peer: NodeId, why: &dyn Display) {
        self.add(What::Reject { peer, why: why.to_string() }, None);
    }

    /// The input has been handled: its records are complete.
    pub fn handled(&mut self, phase: Phase) {
        self.phase = phase.name;
        let follow = self.step.len().saturating_sub(1);
        if let Some(first) = self.step.first_mut() {
            first.follow = follow;
        }
        for line in &mut self.step {
            line.record.phase = self.phase.to_owned();
            serde_json::to_writer(&mut self.ready, line).expect("a record is plain data");
            self.ready.push(b'\n');
        }
        self.step.clear();
        self.input = None;
    }

    /// Hands everything to the operating system, in one write.
    pub fn write(&mut self) -> io::Result<()> {
        if !self.ready.is_empty() {
            self.file.write_all(&self.ready)?;
            self.ready.clear();
        }
        Ok(())
    }
}

/// The name of the file for a life.
#[must_use]
pub fn file_name(life: Incarnation) -> String {
    format!("record-{}.jsonl", life.0)
}

/// The clocks at the end of the record of the life before, however far back that was recorded. Processes may have been added
/// or taken out since: each count goes to the place that its process has now.
fn last_stamp(dir: &Path, life: Incarnation, nodes: &[NodeId]) -> io::Result<(LamportClock, VectorClock)> {
    for earlier in (1..life.0).rev() {
        let bytes = match fs::read(dir.join(file_name(Incarnation(earlier)))) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        // What stands after the last line break was never completed, and no message of it has left.
        let text = String::from_utf8_lossy(&bytes);
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        if let Some(Ok(line)) = whole.lines().skip(1).last().map(serde_json::from_str::<Line>) {
            let mut lamport = LamportClock::default();
            lamport.witness(line.record.lamport);
            let opening = whole.lines().next().map(serde_json::from_str::<Opening>);
            let before = opening.and_then(Result::ok).map(|opening| opening.header.nodes).unwrap_or_default();
            let vector = line.record.vector.unwrap_or_default();
            let place = |node: &NodeId| before.iter().position(|known| known == node);
            let counts: Vec<u64> =
                nodes.iter().map(|node| place(node).map_or(0, |place| vector.get(place))).collect();
            return Ok((lamport, counts.into()));
        }
    }
    Ok((LamportClock::default(), VectorClock::default()))
}
