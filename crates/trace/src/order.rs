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

    /// The send of a message; the cause of an arrival may also be the copy that the network made.
    fn send_of(&self, record: &Record) -> Option<&'a Record> {
        let mut at = cause(self.trace, record)?;
        loop {
            let cause_record = &self.trace.records[at];
            match cause_record.what {
                What::Send(_) => return Some(cause_record),
                What::Duplicate(_) => at = cause(self.trace, cause_record)?,
                _ => return None,
            }
        }
    }

    /// Who waits for whom after everything that was recorded up to this time, in microseconds.
    #[must_use]
    pub fn waits(&self, time: u64) -> Waits {
        let mut scene = Scene::default();
        // Merged clocks may go back a little.
        for record in self.trace.records.iter().filter(|record| record.time <= time) {
            scene.note(record, self);
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

fn cause(trace: &Trace, record: &Record) -> Option<usize> {
    let cause = usize::try_from(record.cause?).ok()?;
    (cause < record.id as usize && cause < trace.records.len()).then_some(cause)
}

/// What is known of all processes at a moment.
#[derive(Default)]
struct Scene {
    processes: BTreeMap<NodeId, Seen>,
    /// Messages in flight: by send, with how many copies.
    flying: BTreeMap<u64, (NodeId, NodeId, u32)>,
}

#[derive(Default)]
struct Seen {
    phase: String,
    since: u64,
    asked: BTreeSet<NodeId>,
    is_down: bool,
}

impl Scene {
    fn note(&mut self, record: &Record, order: &Order<'_>) {
        match &record.what {
            What::Send(message) => {
                self.flying.insert(record.id, (message.from, message.to, 1));
            }
            What::Duplicate(_) | What::Deliver(_) | What::Drop(_) => {
                if let Some(flight) = order.send_of(record).and_then(|send| self.flying.get_mut(&send.id)) {
                    flight.2 = match record.what {
                        What::Duplicate(_) => flight.2 + 1,
                        _ => flight.2.saturating_sub(1),
                    };
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
            What::Send(message) if !message.overhead => drop(seen.asked.insert(message.to)),
            What::Deliver(message) => drop(seen.asked.remove(&message.from)),
            _ => {}
        }
    }

    fn waits(&self, nodes: &[NodeId]) -> Waits {
        let flying = self.flying.values().filter(|(.., copies)| *copies > 0);
        let mut waits = Waits { receiving: flying.map(|(_, to, _)| *to).collect(), ..Waits::default() };
        for process in nodes {
            let Some(seen) = self.processes.get(process) else { continue };
            match band(&seen.phase) {
                _ if seen.is_down => waits.down.push(*process),
                Band::Holding => waits.holders.push(*process),
                Band::Waiting => {
                    let flying = self.flying.values().filter(|(_, to, copies)| to == process && *copies > 0);
                    let answering: BTreeSet<NodeId> = flying.map(|(from, ..)| *from).collect();
                    waits.waiters.push(Waiter {
                        process: *process,
                        phase: seen.phase.clone(),
                        since: seen.since,
                        silent: seen.asked.difference(&answering).copied().collect(),
                        answering: answering.into_iter().collect(),
                    });
                }
                Band::Quiet => {}
            }
        }
        waits
    }
}
