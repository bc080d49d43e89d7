//! Questions to a trace about the order of its events: what happened before what, and who waited for whom.
//!
//! An event is a record that a process lives through; it is named by its id.

use std::collections::{BTreeMap, BTreeSet};

use conclave_core::{Band, Causality, NodeId};

use crate::words::{band, phase_after};
use crate::{Record, Trace, What};

/// The events of a trace and how they depend on each other.
#[derive(Debug)]
pub struct Order<'a> {
    trace: &'a Trace,
    place: BTreeMap<NodeId, usize>,
    /// By record: how many events of each process it knows, itself included. Nothing for what is no event.
    known: Vec<Option<Vec<u32>>>,
}

/// Why a cut is not consistent: something arrived in it that was not sent in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inconsistency {
    /// The arrival.
    pub arrival: u64,
    /// Its send, which lies behind the cut.
    pub send: u64,
}

/// A process that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Which.
    pub process: NodeId,
    /// What it is doing, in the word of its family: `waiting`, `electing`.
    pub phase: String,
    /// The event since which it waits.
    pub since: u64,
    /// Whom it has sent something since then, and heard nothing from; and nothing is in flight from them.
    pub silent: Vec<NodeId>,
    /// From whom something is in flight to it.
    pub answering: Vec<NodeId>,
}

/// What an event may depend on, and what may depend on it; the event itself is in both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cone {
    /// Of each process the last event in the past.
    pub past: BTreeMap<NodeId, u64>,
    /// Of each process the first event in the future.
    pub future: BTreeMap<NodeId, u64>,
    /// How many events are in neither.
    pub concurrent: usize,
}

/// Who waits for whom at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Who waits.
    pub waiters: Vec<Waiter>,
    /// Who has what others may wait for.
    pub holders: Vec<NodeId>,
    /// Who is down.
    pub down: Vec<NodeId>,
    /// To whom something is in flight.
    pub receiving: BTreeSet<NodeId>,
}

/// More numbers than that do not fit into memory.
const MOST_NUMBERS: usize = 200_000_000;

impl<'a> Order<'a> {
    /// The order of the events of a trace.
    ///
    /// # Errors
    /// If the trace is too large.
    pub fn of(trace: &'a Trace) -> Result<Self, String> {
        let n = trace.header.nodes.len();
        if n.saturating_mul(trace.records.len()) > MOST_NUMBERS {
            return Err(format!(
                "{} records of {n} processes are too many to be ordered",
                trace.records.len()
            ));
        }
        let place: BTreeMap<NodeId, usize> = trace.header.nodes.iter().copied().zip(0..).collect();
        let mut known: Vec<Option<Vec<u32>>> = Vec::with_capacity(trace.records.len());
        let mut last: Vec<Option<usize>> = vec![None; n];
        for (at, record) in trace.records.iter().enumerate() {
            let process = record.process.filter(|_| record.what.is_lived());
            let Some(&place) = process.and_then(|process| place.get(&process)) else {
                known.push(None);
                continue;
            };
            let mut own = last[place].and_then(|last| known[last].clone()).unwrap_or_else(|| vec![0; n]);
            if let Some(cause) = cause(trace, record) {
                for (mine, theirs) in own.iter_mut().zip(known[cause].iter().flatten()) {
                    *mine = (*mine).max(*theirs);
                }
            }
            own[place] += 1;
            known.push(Some(own));
            last[place] = Some(at);
        }
        Ok(Self { trace, place, known })
    }

    /// The event of this id.
    ///
    /// # Errors
    /// If there is no such record, or it is nothing that a process lives through.
    pub fn event(&self, id: u64) -> Result<&'a Record, String> {
        let at = usize::try_from(id).ok().filter(|at| *at < self.trace.records.len());
        let at = at.ok_or_else(|| {
            format!(
                "there is no event {id}; they go from 0 to {}",
                self.trace.records.len().saturating_sub(1)
            )
        })?;
        match &self.known[at] {
            Some(_) => Ok(&self.trace.records[at]),
            None => {
                Err(format!("{id} is no event of a process: {}", crate::describe(&self.trace.records[at])))
            }
        }
    }

    /// All events, as they were recorded.
    pub fn events(&self) -> impl Iterator<Item = &'a Record> + '_ {
        self.trace
            .records
            .iter()
            .zip(&self.known)
            .filter(|(_, known)| known.is_some())
            .map(|(record, _)| record)
    }

    /// How two events relate.
    ///
    /// # Errors
    /// If one of them is none.
    pub fn compare(&self, a: u64, b: u64) -> Result<Causality, String> {
        let (first, second) = (self.event(a)?, self.event(b)?);
        Ok(match (a == b, self.knows(second, first), self.knows(first, second)) {
            (true, ..) => Causality::Equal,
            (_, true, _) => Causality::Before,
            (_, _, true) => Causality::After,
            _ => Causality::Concurrent,
        })
    }

    /// Whether an event knows of another: everything that the other's process had lived through by then.
    fn knows(&self, event: &Record, other: &Record) -> bool {
        let place = other.process.and_then(|process| self.place.get(&process)).copied();
        let count =
            |record: &Record, place: usize| Some(self.known.get(record.id as usize)?.as_ref()?[place]);
        place.is_some_and(|place| count(event, place) >= count(other, place))
    }

    /// A way from one event to a later one, event by event; empty if there is none.
    #[must_use]
    pub fn way(&self, from: u64, to: u64) -> Vec<u64> {
        let (Ok(first), Ok(second)) = (self.event(from), self.event(to)) else { return Vec::new() };
        if from == to || !self.knows(second, first) {
            return Vec::new();
        }
        // Backwards: from the cause if that knows of the beginning, else from the event before at the same process.
        let mut way = vec![to];
        let mut at = second;
        while at.id != from {
            let before = self.trace.records[..at.id as usize].iter().rev();
            let own = before.into_iter().find(|record| record.process == at.process && self.is_event(record));
            let cause = cause(self.trace, at).map(|cause| &self.trace.records[cause]);
            let cause = cause.filter(|cause| self.is_event(cause) && self.knows(cause, first));
            let Some(next) = cause.or(own) else { return Vec::new() };
            way.push(next.id);
            at = next;
        }
        way.reverse();
        way
    }

    fn is_event(&self, record: &Record) -> bool {
        self.known.get(record.id as usize).is_some_and(Option::is_some)
    }

    /// All events that neither happened before this one nor after it.
    ///
    /// # Errors
    /// If it is no event.
    pub fn concurrent(&self, id: u64) -> Result<Vec<u64>, String> {
        let event = self.event(id)?;
        let others = self
            .events()
            .filter(|other| other.id != id && !self.knows(other, event) && !self.knows(event, other));
        Ok(others.map(|other| other.id).collect())
    }

    /// All events in one order that agrees with what happened before what: by Lamport stamp, then by process.
    #[must_use]
    pub fn linear(&self) -> Vec<u64> {
        let mut stamped = Trace { header: self.trace.header.clone(), records: self.trace.records.clone() };
        stamped.stamp(false);
        let mut events: Vec<_> = self
            .events()
            .map(|event| (stamped.records[event.id as usize].lamport, event.process, event.id))
            .collect();
        events.sort();
        events.into_iter().map(|(.., id)| id).collect()
    }

    /// Whether a cut is consistent: of each process that is named, everything up to this event; of the others, nothing.
    /// Gives the sends whose messages are in flight there.
    ///
    /// # Errors
    /// If something arrives in the cut that was not sent in it, or something named is no event of the process.
    pub fn cut(&self, frontier: &BTreeMap<NodeId, u64>) -> Result<Result<Vec<u64>, Inconsistency>, String> {
        for (process, id) in frontier {
            let event = self.event(*id)?;
            if event.process != Some(*process) {
                let whose = event.process.map_or_else(|| "nobody".to_owned(), |process| process.to_string());
                return Err(format!("event {id} is one of {whose}, not of {process}"));
            }
        }
        let is_inside = |record: &Record| {
            record.process.and_then(|process| frontier.get(&process)).is_some_and(|last| record.id <= *last)
        };
        let mut arrived = BTreeSet::new();
        for event in self.events().filter(|event| is_inside(event) && matches!(event.what, What::Deliver(_)))
        {
            let Some(send) = self.send_of(event) else { continue };
            if !is_inside(send) {
                return Ok(Err(Inconsistency { arrival: event.id, send: send.id }));
            }
            arrived.insert(send.id);
        }
        // What was lost is in flight nowhere.
        let lost = self.trace.records.iter().filter(|record| matches!(record.what, What::Drop(_)));
        let lost: BTreeSet<u64> = lost.filter_map(|record| Some(self.send_of(record)?.id)).collect();
        let sends = self.events().filter(|event| is_inside(event) && matches!(event.what, What::Send(_)));
        let flying = sends.map(|send| send.id).filter(|id| !arrived.contains(id) && !lost.contains(id));
        Ok(Ok(flying.collect()))
    }

    /// What an event may depend on, and what may depend on it.
    ///
    /// # Errors
    /// If it is no event.
    pub fn cone(&self, id: u64) -> Result<Cone, String> {
        let event = self.event(id)?;
        let mut cone = Cone { past: BTreeMap::new(), future: BTreeMap::new(), concurrent: 0 };
        for other in self.events() {
            let Some(process) = other.process else { continue };
            if self.knows(event, other) {
                cone.past.insert(process, other.id);
            }
            if self.knows(other, event) {
                cone.future.entry(process).or_insert(other.id);
            } else if !self.knows(event, other) {
                cone.concurrent += 1;
            }
        }
        Ok(cone)
    }

    fn send_of(&self, record: &Record) -> Option<&'a Record> {
        send_of(self.trace, record)
    }

    /// Who waits for whom after everything that was recorded up to this time, in microseconds.
    #[must_use]
    pub fn waits(&self, time: u64) -> Waits {
        let mut scene = Scene::default();
        // Merged clocks may go back a little.
        for record in self.trace.records.iter().filter(|record| record.time <= time) {
            scene.note(record, self.trace);
        }
        scene.waits(&self.trace.header.nodes)
    }
}

impl Waits {
    /// Processes that wait for each other in a circle and that no message can free: neither they nor anybody for whom they
    /// wait, directly or through others, has anything in flight to it or has what all wait for. Nothing if there is none.
    #[must_use]
    pub fn circle(&self) -> Option<Vec<NodeId>> {
        self.waiters.iter().find_map(|waiter| self.circle_through(waiter.process))
    }

    /// Whom a process waits for.
    fn awaited(&self, process: NodeId) -> &[NodeId] {
        let waiter = self.waiters.iter().find(|waiter| waiter.process == process);
        waiter.map_or(&[], |waiter| &waiter.silent)
    }

    /// A circle that begins and ends with this process. Everybody for whom it waits is looked at, since any of them may free it.
    fn circle_through(&self, start: NodeId) -> Option<Vec<NodeId>> {
        let mut circle = None;
        let mut seen = BTreeSet::from([start]);
        let mut ways = vec![vec![start]];
        while let Some(way) = ways.pop() {
            let last = *way.last()?;
            if self.receiving.contains(&last) || self.holders.contains(&last) {
                return None;
            }
            for &other in self.awaited(last) {
                if seen.insert(other) {
                    ways.push([&way[..], &[other]].concat());
                } else if other == start {
                    circle.get_or_insert_with(|| way.clone());
                }
            }
        }
        circle
    }
}

/// The send of a message; the cause of an arrival may also be the copy that the network made.
fn send_of<'a>(trace: &'a Trace, record: &Record) -> Option<&'a Record> {
    let mut at = cause(trace, record)?;
    loop {
        let cause_record = &trace.records[at];
        match cause_record.what {
            What::Send(_) => return Some(cause_record),
            What::Duplicate(_) => at = cause(trace, cause_record)?,
            _ => return None,
        }
    }
}

fn cause(trace: &Trace, record: &Record) -> Option<usize> {
    let cause = usize::try_from(record.cause?).ok()?;
    (cause < record.id as usize && cause < trace.records.len()).then_some(cause)
}

/// What is known of all processes at a moment, from the records before it.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    processes: BTreeMap<NodeId, Seen>,
    /// Messages in flight: by send, with how many copies.
    flying: BTreeMap<u64, (NodeId, NodeId, u32)>,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    phase: String,
    since: u64,
    /// Whom it has sent something that counts, and the record with which that arrived.
    asked: BTreeMap<NodeId, Option<u64>>,
    is_down: bool,
}

impl Scene {
    /// Takes the next record of a trace into account.
    pub fn note(&mut self, record: &Record, trace: &Trace) {
        match &record.what {
            What::Send(message) => {
                self.flying.insert(record.id, (message.from, message.to, 1));
            }
            What::Duplicate(_) | What::Deliver(_) | What::Drop(_) => {
                let send = send_of(trace, record).map(|send| send.id);
                if let Some(flight) = send.and_then(|send| self.flying.get_mut(&send)) {
                    flight.2 = match record.what {
                        What::Duplicate(_) => flight.2 + 1,
                        _ => flight.2.saturating_sub(1),
                    };
                }
                // What has arrived need not be looked at again.
                if let Some(send) =
                    send.filter(|send| self.flying.get(send).is_some_and(|flight| flight.2 == 0))
                {
                    self.flying.remove(&send);
                }
            }
            _ => {}
        }
        let Some(process) = record.process.filter(|_| record.what.is_lived()) else { return };
        let seen = self.processes.entry(process).or_default();
        match &record.what {
            What::Crash { .. } => *seen = Seen { is_down: true, ..Seen::default() },
            What::Restart { .. } => seen.is_down = false,
            _ => {}
        }
        if let Some(phase) = phase_after(record)
            && phase != seen.phase
        {
            *seen = Seen { phase: phase.to_owned(), since: record.id, ..Seen::default() };
        }
        match &record.what {
            What::Send(message) if !message.overhead => drop(seen.asked.entry(message.to).or_default()),
            What::Deliver(message) => {
                let send = send_of(trace, record).map(|send| send.id);
                // What was sent before the question had arrived is no answer.
                let answers = |arrived: &Option<u64>| arrived.is_some_and(|arrived| send > Some(arrived));
                if seen.asked.get(&message.from).is_some_and(answers) {
                    seen.asked.remove(&message.from);
                }
                let asker = self.processes.get_mut(&message.from);
                let question = asker.filter(|asker| send > Some(asker.since));
                if let Some(arrived) = question.and_then(|asker| asker.asked.get_mut(&message.to)) {
                    arrived.get_or_insert(record.id);
                }
            }
            _ => {}
        }
    }

    /// Who waits for whom by now.
    #[must_use]
    pub fn waits(&self, nodes: &[NodeId]) -> Waits {
        let flying = self.flying.values();
        let mut waits = Waits { receiving: flying.map(|(_, to, _)| *to).collect(), ..Waits::default() };
        for process in nodes {
            let Some(seen) = self.processes.get(process) else { continue };
            match band(&seen.phase) {
                _ if seen.is_down => waits.down.push(*process),
                Band::Holding => waits.holders.push(*process),
                Band::Waiting => {
                    let flying = self.flying.values().filter(|(_, to, _)| to == process);
                    let answering: BTreeSet<NodeId> = flying.map(|(from, ..)| *from).collect();
                    waits.waiters.push(Waiter {
                        process: *process,
                        phase: seen.phase.clone(),
                        since: seen.since,
                        silent: seen.asked.keys().filter(|peer| !answering.contains(peer)).copied().collect(),
                        answering: answering.into_iter().collect(),
                    });
                }
                Band::Quiet => {}
            }
        }
        waits
    }
}
