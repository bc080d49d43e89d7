//! Puts what several processes lived through into one order; see [`merge`](crate::merge()).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use conclave_core::NodeId;
use conclave_trace::{Carried, Header, Record, Trace, What};

use crate::lives::{History, Life, Records, Step, own_count};
use crate::merge::{MergeError, Names, Rest, inferred};
use crate::record::Line;

/// Puts the steps of all processes into one order.
pub(crate) struct Weaver {
    trace: Trace,
    histories: Vec<History>,
    names: Names,
    /// The last event of each process in the trace, by its own count.
    done: Vec<u64>,
    channels: BTreeMap<(NodeId, NodeId), Channel>,
    /// Lives that have begun, and lives that have ended, as far as the trace goes.
    present: BTreeMap<NodeId, u32>,
    ended: BTreeSet<Life>,
}

/// The messages from one process to another.
#[derive(Default)]
struct Channel {
    /// Those in flight, in order.
    sent: VecDeque<Sent>,
    /// How many have arrived or were lost.
    over: u64,
}

/// A message in flight.
struct Sent {
    /// Which event of its sender it is.
    count: u64,
    /// Where its send is in the trace.
    id: u64,
    carried: Carried,
}

impl Channel {
    fn find(&self, count: u64) -> Option<usize> {
        self.sent.binary_search_by_key(&count, |sent| sent.count).ok()
    }
}

impl Weaver {
    pub fn new(records: Records) -> Self {
        let Records { header, histories, names } = records;
        let locks = names.locks(header.locks);
        Self {
            done: vec![0; histories.len()],
            present: header.nodes.iter().map(|node| (*node, 1)).collect(),
            trace: Trace { header: Header { locks, ..header }, records: Vec::new() },
            channels: BTreeMap::new(),
            ended: BTreeSet::new(),
            histories,
            names,
        }
    }

    pub fn weave(mut self) -> Result<(Trace, Vec<Rest>), MergeError> {
        for history in &mut self.histories {
            history.advance(&self.names)?;
        }
        while let Some(place) = self.choose()? {
            let step = self.histories[place].advance(&self.names)?;
            self.append(place, step.map(|step| step.lines).unwrap_or_default());
        }
        let rest = self.rest()?;
        Ok((self.trace, rest))
    }

    /// What is left over.
    fn rest(&mut self) -> Result<Vec<Rest>, MergeError> {
        let mut rest = Vec::new();
        for history in &mut self.histories {
            let needs = match history.present().map(Step::what) {
                Some(What::Deliver(carried)) => carried.from,
                Some(What::Suspect { peer, .. } | What::Trust { peer, .. }) => *peer,
                _ => continue,
            };
            rest.push(Rest { process: history.process, lines: history.count_left(&self.names)?, needs });
        }
        Ok(rest)
    }

    fn history(&self, process: NodeId) -> Option<(usize, &History)> {
        self.histories.iter().enumerate().find(|(_, history)| history.process == process)
    }

    /// The process whose next step is next: the earliest of those that can be.
    fn choose(&self) -> Result<Option<usize>, MergeError> {
        let mut best: Option<(bool, u64, usize)> = None;
        let mut is_left = false;
        for (place, history) in self.histories.iter().enumerate() {
            let Some(step) = history.present() else { continue };
            is_left = true;
            if !self.is_possible(history.process, step)? {
                continue;
            }
            let candidate = (self.is_early(history, step), step.first().record.time, place);
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
                let sent = step.first().sent;
                let channel = self.channels.get(&(carried.from, process));
                if sent.is_some_and(|sent| channel.is_some_and(|channel| channel.find(sent).is_some())) {
                    return Ok(true);
                }
                let is_yet_to_come = sent.is_some_and(|sent| {
                    let sender = self.history(carried.from);
                    sender.is_some_and(|(place, sender)| self.done[place] < sent && sent <= sender.events)
                });
                if is_yet_to_come || self.is_unread(step) {
                    Ok(false)
                } else {
                    Err(MergeError::NeverSent { process, from: carried.from })
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
        self.histories.iter().filter_map(History::present).any(|step| self.is_unread(step))
    }

    /// Whether a step rests on what its maker had not written down yet when its record was read.
    fn is_unread(&self, step: &Step) -> bool {
        let recorded = |process: NodeId| {
            self.history(process).map(|(_, history)| history).filter(|history| history.is_recorded())
        };
        match step.what() {
            What::Deliver(carried) => {
                let sender = recorded(carried.from);
                // Who has closed its record sends without stamps in its next life.
                step.first().sent.is_none_or(|sent| sender.is_some_and(|sender| sent > sender.events))
            }
            What::Suspect { peer, life } | What::Trust { peer, life } => {
                recorded(*peer).is_some_and(|peer| life.unwrap_or(1) > peer.reached())
            }
            _ => false,
        }
    }

    /// Whether it is the final suspicion of a life whose end is yet to come. The end should come first; but if the life
    /// did something afterwards that everything else waits for, then it was suspected while it lasted.
    fn is_early(&self, history: &History, step: &Step) -> bool {
        let What::Suspect { peer, life } = step.what() else { return false };
        let that = (*peer, life.unwrap_or(1));
        let is_mortal = self.history(*peer).is_some_and(|(_, peer)| peer.ends(that.1));
        is_mortal && !history.will_trust(that) && !self.ended.contains(&that)
    }

    fn append(&mut self, place: usize, lines: Vec<Line>) {
        let process = self.histories[place].process;
        let mut input = None;
        for line in lines {
            let count = own_count(&line, place);
            self.done[place] = self.done[place].max(count);
            let Line { mut record, sent, .. } = line;
            record.cause = record.cause.and(input);
            match &mut record.what {
                What::Send(carried) => {
                    let id = self.trace.records.len() as u64;
                    let channel = self.channels.entry((carried.from, carried.to)).or_default();
                    carried.nth = channel.over + channel.sent.len() as u64 + 1;
                    channel.sent.push_back(Sent { count, id, carried: carried.clone() });
                }
                What::Deliver(carried) => {
                    let (cause, nth) = self.settle((carried.from, carried.to), sent, record.time);
                    (record.cause, carried.nth) = (cause, nth);
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
    /// keeps their order. Returns where it was sent, and its number in the channel.
    fn settle(&mut self, channel: (NodeId, NodeId), sent: Option<u64>, time: u64) -> (Option<u64>, u64) {
        let channel = self.channels.entry(channel).or_default();
        let Some(at) = sent.and_then(|sent| channel.find(sent)) else { return (None, 1) };
        let mut over: Vec<Sent> = channel.sent.drain(..=at).collect();
        channel.over += over.len() as u64;
        let nth = channel.over;
        let arrived = over.pop().map(|sent| sent.id);
        for Sent { id, carried, .. } in over {
            self.push(inferred(carried.to, What::Drop(carried), time, Some(id)));
        }
        (arrived, nth)
    }

    fn push(&mut self, mut record: Record) -> u64 {
        record.id = self.trace.records.len() as u64;
        // Where the clocks of two machines disagree, what follows from something does not come before it.
        record.time = record.time.max(self.trace.records.last().map_or(0, |last| last.time));
        self.trace.records.push(record);
        self.trace.records.len() as u64 - 1
    }
}
