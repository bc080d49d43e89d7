//! Puts what several processes lived through into one order; see [`merge`](crate::merge()).

use std::collections::{BTreeMap, BTreeSet};

use conclave_core::NodeId;
use conclave_trace::{Header, Record, Trace, What};

use crate::merge::{History, MergeError, Rest, Step, inferred};
use crate::record::Line;

/// Puts the steps of all processes into one order.
pub(crate) struct Weaver {
    trace: Trace,
    histories: Vec<History>,
    /// How many steps of each process are in the trace.
    done: Vec<usize>,
    /// Sends by process and its own count of events: where they are in the trace once they are in it.
    sends: BTreeMap<(NodeId, u64), Option<u64>>,
    channels: BTreeMap<(NodeId, NodeId), Channel>,
    /// Lives that have begun, and lives that have ended, as far as the trace goes.
    present: BTreeMap<NodeId, u32>,
    ended: BTreeSet<(NodeId, u32)>,
    /// Lives that end at some point.
    mortal: BTreeSet<(NodeId, u32)>,
    /// How far the record of each process was read, if there is one.
    reaches: BTreeMap<NodeId, Reach>,
}

/// How far the record of a process was read.
struct Reach {
    /// Its own count of events.
    events: u64,
    /// The last life that had begun.
    life: u32,
}

/// The messages from one process to another.
#[derive(Default)]
struct Channel {
    /// Where their sends are in the trace, in order.
    sends: Vec<u64>,
    /// How many of them have arrived or were lost.
    over: usize,
}

impl Weaver {
    pub fn new(header: Header, histories: Vec<History>) -> Self {
        let mut weaver = Self {
            done: vec![0; histories.len()],
            present: header.nodes.iter().map(|node| (*node, 1)).collect(),
            trace: Trace { header, records: Vec::new() },
            sends: BTreeMap::new(),
            channels: BTreeMap::new(),
            ended: BTreeSet::new(),
            mortal: BTreeSet::new(),
            reaches: BTreeMap::new(),
            histories,
        };
        for (place, history) in weaver.histories.iter().enumerate() {
            let (mut life, mut events) = (1, 0);
            for line in history.steps.iter().flat_map(|step| &step.lines) {
                events = events.max(own_count(&line.record, place));
                match &line.record.what {
                    What::Send(_) => {
                        weaver.sends.insert((history.process, own_count(&line.record, place)), None);
                    }
                    What::Restart { life: next, .. } => life = *next,
                    What::Crash { .. } => {
                        weaver.mortal.insert((history.process, life));
                    }
                    _ => {}
                }
            }
            if history.is_recorded() {
                weaver.reaches.insert(history.process, Reach { events, life });
            }
        }
        weaver
    }

    pub fn weave(mut self) -> Result<(Trace, Vec<Rest>), MergeError> {
        while let Some(place) = self.choose()? {
            let step = &mut self.histories[place].steps[self.done[place]];
            let lines = core::mem::take(&mut step.lines);
            self.done[place] += 1;
            self.append(place, lines);
        }
        let rest = self.rest();
        Ok((self.trace, rest))
    }

    /// What is left over.
    fn rest(&self) -> Vec<Rest> {
        let left = |(place, history): (usize, &History)| {
            let steps = &history.steps[self.done[place]..];
            let first = steps.first()?;
            let needs = match first.what() {
                What::Deliver(carried) => carried.from,
                What::Suspect { peer, .. } | What::Trust { peer, .. } => *peer,
                _ => return None,
            };
            let lines = steps.iter().map(|step| step.lines.len()).sum();
            Some(Rest { process: history.process, lines, needs })
        };
        self.histories.iter().enumerate().filter_map(left).collect()
    }

    /// The process whose next step is next: the earliest of those that can be.
    fn choose(&self) -> Result<Option<usize>, MergeError> {
        let mut best: Option<(bool, u64, usize)> = None;
        let mut is_left = false;
        for (place, history) in self.histories.iter().enumerate() {
            let Some(step) = history.steps.get(self.done[place]) else { continue };
            is_left = true;
            if !self.is_possible(history.process, step)? {
                continue;
            }
            let candidate = (self.is_early(place, step), step.first().record.time, place);
            if best.is_none_or(|best| candidate < best) {
                best = Some(candidate);
            }
        }
        if is_left && best.is_none() && !self.is_at_the_end() {
            return Err(MergeError::Circle);
        }
        Ok(best.map(|(_, _, place)| place))
    }

    /// Whether everything that a step needs is there: the send of a delivery, the life that a detector speaks of.
    fn is_possible(&self, process: NodeId, step: &Step) -> Result<bool, MergeError> {
        match step.what() {
            What::Deliver(carried) => {
                let send = step.first().sent.and_then(|sent| self.sends.get(&(carried.from, sent)));
                match send {
                    Some(send) => Ok(send.is_some()),
                    None if self.is_unread(step) => Ok(false),
                    None => Err(MergeError::NeverSent { process, from: carried.from }),
                }
            }
            What::Suspect { peer, life } | What::Trust { peer, life } => {
                Ok(self.present.get(peer).is_none_or(|present| life.unwrap_or(1) <= *present))
            }
            _ => Ok(true),
        }
    }

    /// Whether what is left rests on something that was not read.
    fn is_at_the_end(&self) -> bool {
        let next = self.histories.iter().zip(&self.done);
        next.filter_map(|(history, done)| history.steps.get(*done)).any(|step| self.is_unread(step))
    }

    /// Whether a step rests on what its maker had not written down yet when its record was read.
    fn is_unread(&self, step: &Step) -> bool {
        match step.what() {
            What::Deliver(carried) => {
                let reach = self.reaches.get(&carried.from);
                // Who has closed its record sends without stamps in its next life.
                step.first().sent.is_none_or(|sent| reach.is_some_and(|reach| sent > reach.events))
            }
            What::Suspect { peer, life } | What::Trust { peer, life } => {
                self.reaches.get(peer).is_some_and(|reach| life.unwrap_or(1) > reach.life)
            }
            _ => false,
        }
    }

    /// Whether it is the final suspicion of a life whose end is yet to come. The end should come first; but if the life
    /// did something afterwards that everything else waits for, then it was suspected while it lasted.
    fn is_early(&self, place: usize, step: &Step) -> bool {
        let What::Suspect { peer, life } = step.what() else { return false };
        let that = (*peer, life.unwrap_or(1));
        let later = &self.histories[place].steps[self.done[place] + 1..];
        let is_final = !later.iter().any(
            |step| matches!(step.what(), What::Trust { peer, life } if (*peer, life.unwrap_or(1)) == that),
        );
        is_final && self.mortal.contains(&that) && !self.ended.contains(&that)
    }

    fn append(&mut self, place: usize, lines: Vec<Line>) {
        let process = self.histories[place].process;
        let mut input = None;
        for line in lines {
            let Line { mut record, sent, .. } = line;
            record.cause = record.cause.and(input);
            match &mut record.what {
                What::Send(carried) => {
                    let channel = self.channels.entry((carried.from, carried.to)).or_default();
                    let id = self.trace.records.len() as u64;
                    channel.sends.push(id);
                    carried.nth = channel.sends.len() as u64;
                    self.sends.insert((process, own_count(&record, place)), Some(id));
                }
                What::Deliver(carried) => {
                    let channel = (carried.from, carried.to);
                    record.cause =
                        sent.and_then(|sent| self.sends.get(&(carried.from, sent)).copied().flatten());
                    carried.nth = self.settle(channel, record.cause, record.time);
                }
                What::Suspect { peer, life } | What::Trust { peer, life } => {
                    // Traces name a life only if it is not the present one.
                    *life = life.filter(|life| self.present.get(peer) != Some(life));
                }
                What::Restart { life, .. } => {
                    self.present.insert(process, *life);
                }
                What::Crash { .. } => {
                    let life = self.present.get(&process).copied().unwrap_or(1);
                    self.ended.insert((process, life));
                }
                _ => {}
            }
            let id = self.push(record);
            input = input.or(Some(id));
        }
    }

    /// A message arrives: those of its channel that were sent before and have not arrived are lost, since the channel
    /// keeps their order. Returns its number in the channel.
    fn settle(&mut self, channel: (NodeId, NodeId), send: Option<u64>, time: u64) -> u64 {
        let channel = self.channels.entry(channel).or_default();
        let at = send.and_then(|send| channel.sends.binary_search(&send).ok()).unwrap_or_default();
        let lost = channel.sends.get(channel.over..at).unwrap_or_default().to_vec();
        channel.over = channel.over.max(at + 1);
        for send in lost {
            let What::Send(carried) = self.trace.records[send as usize].what.clone() else { continue };
            self.push(inferred(carried.to, What::Drop(carried), time, Some(send)));
        }
        at as u64 + 1
    }

    fn push(&mut self, mut record: Record) -> u64 {
        record.id = self.trace.records.len() as u64;
        // Where the clocks of two machines disagree, what follows from something does not come before it.
        record.time = record.time.max(self.trace.records.last().map_or(0, |last| last.time));
        self.trace.records.push(record);
        self.trace.records.len() as u64 - 1
    }
}

/// Which event of its process a record is.
fn own_count(record: &Record, place: usize) -> u64 {
    record.vector.as_ref().map_or(0, |vector| vector.get(place))
}
