//! Writes down what a process lives through, so that a run on sockets can be drawn and played like any other.
//!
//! One file of JSON Lines per life, `record-3.jsonl` in the data directory: an opening, then [`Line`]s. Stamps travel with the
//! messages, and a later life goes on counting where the file of the last one ends, so that [`merge`](crate::merge())
//! finds the send of every delivery.
//!
//! Records reach the operating system before the messages of their step leave: if a message was seen, its record
//! survives the death of the process. They are not synced: a power cut may take the end of a file.
//!
//! A record ends where it would become larger than it may be, or where the disk takes no more: the process goes on without.
//! `record.closed` then stands beside it, and later lives in that directory record nothing, since their stamps would not go
//! on where the last ones were.
//!
//! **Caveat**: what the algorithm saves and what is recorded are two files. A process that is killed between the two
//! writes has saved a step that its record does not show.

use core::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write};
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
    limit: u64,
    request: fn(&P::Request) -> Asked,
    event: fn(&P::Event) -> (EventText, Option<String>),
}

/// What a record may grow to, in bytes.
const LIMIT: u64 = 256 << 20;
/// The file that says that nothing more is recorded in a directory.
const CLOSED: &str = "record.closed";

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
        Self { header, epoch, limit: LIMIT, request: request::<F>, event: event::<F> }
    }

    /// The same, but a record has this many bytes at the most.
    #[must_use]
    pub fn with_limit(self, limit: u64) -> Self {
        Self { limit, ..self }
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
        Self { header, epoch, limit: LIMIT, request, event }
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

/// The record of the present life, being written.
pub(crate) struct Journal<P: Protocol> {
    words: Recording<P>,
    process: NodeId,
    place: usize,
    clock: Clock,
    /// Nothing once it is closed; stamps are counted on.
    file: Option<File>,
    /// How many bytes it has.
    size: u64,
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
    /// Begins the record of a life; nothing if none can be written.
    pub fn begin(
        words: Recording<P>,
        nodes: &[NodeId],
        process: NodeId,
        life: Incarnation,
        dir: &Path,
    ) -> Option<Self> {
        if dir.join(CLOSED).exists() {
            tracing::warn!("nothing is recorded: an earlier life has closed its record");
            return None;
        }
        match Self::try_begin(words, nodes, process, life, dir) {
            Ok(journal) => Some(journal),
            Err(error) => {
                close(dir, &error);
                None
            }
        }
    }

    fn try_begin(
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
            file: Some(file),
            size: 0,
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
    pub fn write(&mut self) {
        let Some(file) = self.file.as_mut().filter(|_| !self.ready.is_empty()) else {
            return self.ready.clear();
        };
        let size = self.size + self.ready.len() as u64;
        let written = if size > self.words.limit {
            Err(io::Error::other(format!("it has reached {} bytes", self.words.limit)))
        } else {
            file.write_all(&self.ready)
        };
        match written {
            Ok(()) => self.size = size,
            Err(error) => {
                // Half a step would be dropped when it is read; a step of which the last line is cut off, too.
                let _ = file.set_len(self.size);
                self.file = None;
                close(self.path.parent().unwrap_or(Path::new(".")), &error);
            }
        }
        self.ready.clear();
    }
}

/// Nothing more is recorded in this directory.
fn close(dir: &Path, why: &dyn Display) {
    tracing::warn!("the record ends here, and nothing more is recorded: {why}");
    // On a disk that is full there may be no room even for that; then the next life will find out by itself.
    let _ = fs::write(dir.join(CLOSED), format!("{why}\n"));
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
        let mut file = match File::open(dir.join(file_name(Incarnation(earlier)))) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if let Some((opening, line)) = ends_of(&mut file)? {
            let mut lamport = LamportClock::default();
            lamport.witness(line.record.lamport);
            let before = opening.header.nodes;
            let vector = line.record.vector.unwrap_or_default();
            let place = |node: &NodeId| before.iter().position(|known| known == node);
            let counts: Vec<u64> =
                nodes.iter().map(|node| place(node).map_or(0, |place| vector.get(place))).collect();
            return Ok((lamport, counts.into()));
        }
    }
    Ok((LamportClock::default(), VectorClock::default()))
}

/// The opening of a record and its last whole line, if it has both.
fn ends_of(file: &mut File) -> io::Result<Option<(Opening, Line)>> {
    let mut first = Vec::new();
    let mut reader = BufReader::new(&mut *file);
    reader.read_until(b'\n', &mut first)?;
    let Ok(opening) = serde_json::from_slice(&first) else { return Ok(None) };
    let (begin, end) = (first.len() as u64, file.metadata()?.len());
    // A record may be long, and its last line, too.
    let mut window = 1 << 16;
    loop {
        let from = end.saturating_sub(window).max(begin);
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        file.read_to_end(&mut bytes)?;
        // What stands after the last line break was never completed, and no message of it has left.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(&[][..], |at| &bytes[..at]);
        match whole.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => return Ok(read_line(&whole[at + 1..]).map(|line| (opening, line))),
            None if from == begin => return Ok(read_line(whole).map(|line| (opening, line))),
            None => window *= 2,
        }
    }
}

/// What the application was told in a life, in order, as far as the text of its record goes.
#[must_use]
pub fn told(text: &str) -> Vec<String> {
    let event = |line: Line| match line.record.what {
        What::Event { event, fence, lock } => Some(EventText { event, fence, lock }.to_string()),
        _ => None,
    };
    let (mut told, mut step): (Vec<String>, Vec<Line>) = (Vec::new(), Vec::new());
    // The opening is no line, and the last one may be cut off.
    for line in text.lines().filter_map(|line| read_line(line.as_bytes())) {
        step.push(line);
        // Nothing of a step of which lines are missing has left the process.
        if step.len() > step[0].follow {
            told.extend(step.drain(..).filter_map(event));
        }
    }
    told
}

fn read_line(bytes: &[u8]) -> Option<Line> {
    serde_json::from_slice(bytes).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn line(id: u64, ballast: usize) -> String {
        let what = What::Timer { timer: "x".repeat(ballast) };
        let record = Record {
            id,
            time: 0,
            process: Some(NodeId(1)),
            what,
            phase: String::new(),
            clock: None,
            cause: None,
            lamport: id,
            vector: Some(vec![id, 10 * id, 100 * id].into()),
        };
        serde_json::to_string(&Line::of(record)).unwrap() + "\n"
    }

    pub(crate) fn opening(nodes: &[u32]) -> String {
        let header = Header {
            algorithm: "echo".into(),
            nodes: nodes.iter().copied().map(NodeId).collect(),
            newcomers: Vec::new(),
            settings: std::collections::BTreeMap::default(),
            mutant: None,
            channels: "fifo".into(),
            locks: 1,
            seed: None,
            timing: conclave_core::Timing::default(),
        };
        let format = FORMAT.to_owned();
        let opening = Opening { format, version: VERSION, process: NodeId(1), life: 1, header };
        serde_json::to_string(&opening).unwrap() + "\n"
    }

    /// However long lines are and wherever the record was cut off, the next life goes on where the last whole line was; and
    /// each count stays that of its process.
    #[test]
    fn a_later_life_goes_on_counting() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(file_name(Incarnation(1)));
        let life = Incarnation(2);
        let lines: String = (1..=4).map(|id| line(id, if id == 3 { 200_000 } else { 5 })).collect();
        let third: usize = (1..=3).map(|id| line(id, if id == 3 { 200_000 } else { 5 }).len()).sum();
        let text = opening(&[1, 2, 3]) + &lines;
        fs::write(&path, &text).unwrap();
        let same = [1, 2, 3].map(NodeId);
        assert_eq!(last_stamp(dir.path(), life, &same).unwrap().1, vec![4, 40, 400].into());
        let changed = [4, 3, 1].map(NodeId);
        assert_eq!(last_stamp(dir.path(), life, &changed).unwrap().1, vec![0, 400, 4].into());
        let cut = opening(&[1, 2, 3]).len() + third;
        fs::write(&path, &text[..cut + 7]).unwrap();
        assert_eq!(last_stamp(dir.path(), life, &same).unwrap().1, vec![3, 30, 300].into());
        fs::write(&path, &text[..5]).unwrap();
        assert_eq!(last_stamp(dir.path(), life, &same).unwrap().1, VectorClock::default());
    }
}
