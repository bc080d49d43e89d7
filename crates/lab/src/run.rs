//! A run: what was recorded, cut into steps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use conclave_algorithms::{About, Violation};
use conclave_core::{Band, NodeId, Phase};
use conclave_sim::Property;
use conclave_sim::step::Stage;
use conclave_trace::{
    Command, Cone, Counted, Inconsistency, Order, Record, Scene, Setup, Trace, What, commands_by_record,
    describe, milliseconds, phase_after,
};
use serde_json::{Value, json};

use crate::recipe::Recipe;
use crate::{Limits, Problem};

/// A run and everything that can be asked about it.
pub struct Run {
    /// Its name.
    pub id: String,
    /// What made it.
    pub recipe: Option<Recipe>,
    /// `sim`, `script` or `live`.
    pub kind: &'static str,
    /// What the algorithm says of itself.
    pub about: &'static About,
    /// What runs.
    pub setup: Setup,
    /// The same, as it was asked for.
    pub(crate) setup_text: String,
    /// The report of the command line, in JSON.
    pub report: String,
    /// The command that repeats it.
    pub command: String,
    /// It as a script, where it was one.
    pub script: Option<String>,
    /// What is said at which moment.
    pub blocks: Value,
    /// How it came from another run.
    pub fork: Value,
    /// The moment after which a counterexample cannot be avoided.
    pub point_of_no_return: Option<usize>,
    pub(crate) properties: Value,
    pub(crate) violation: Option<Violation>,
    trace: Trace,
    pub(crate) commands: Vec<Command>,
    /// By step: its first record.
    starts: Vec<usize>,
    step_of: Vec<u32>,
    depth: Vec<u32>,
    sends: BTreeMap<(NodeId, NodeId, u64), u64>,
    pub(crate) moments: Moments,
    stamped: Mutex<Option<(bool, Trace)>>,
}

/// What a run is made from, beside its trace.
pub(crate) struct Origin {
    pub recipe: Option<Recipe>,
    pub kind: &'static str,
    pub about: &'static About,
    pub report: String,
    pub command: String,
    pub script: Option<String>,
    pub marks: Vec<Mark>,
    pub promised: Vec<Property>,
    pub other: Vec<Property>,
    pub violation: Option<Violation>,
}

/// A block of a script: what is said in it, and how many records there were when it was over.
pub(crate) struct Mark {
    pub comments: Vec<String>,
    pub recorded: Vec<String>,
    pub records: usize,
}

/// States along the run, from which the others are reached.
#[derive(Default)]
pub(crate) struct Moments {
    /// By moment, one every `interval`; copied by who wants to go on from it.
    pub kept: Mutex<Vec<(Stage, Scene)>>,
    pub interval: usize,
    /// The last moment whose states are known, and why no later one is.
    pub reach: usize,
    pub why: Option<String>,
}

impl Run {
    pub(crate) fn new(origin: Origin, trace: Trace, stage: Stage) -> Self {
        let mut commands = Vec::new();
        let mut places = Vec::new();
        for (command, place) in commands_by_record(&trace) {
            commands.push(command);
            places.push(place);
        }
        // A command that prepares a later step is listed before it, and stands in the trace behind it.
        let mut first = trace.records.len();
        for place in places.iter_mut().rev() {
            first = first.min(*place);
            *place = first;
        }
        let starts = places;
        let step_of = (0..trace.records.len()).map(|at| starts.partition_point(|start| *start <= at) as u32);
        let step_of: Vec<u32> = step_of.collect();
        let depth = depths(&trace);
        let sends = trace.records.iter().filter_map(|record| match &record.what {
            What::Send(message) => Some(((message.from, message.to, message.nth), record.id)),
            _ => None,
        });
        let sends = sends.collect();
        let id = match &origin.recipe {
            Some(recipe) => recipe.id(),
            None => {
                let mut text = Vec::new();
                // Memory takes everything that is written.
                let _ = trace.write_jsonl(&mut text);
                format!("{:016x}", crate::recipe::fingerprint(&text))
            }
        };
        let setup = Setup::from_header(&trace.header);
        let mut run = Self {
            id,
            setup_text: setup.to_string(),
            setup,
            kind: origin.kind,
            about: origin.about,
            report: origin.report,
            command: origin.command,
            script: origin.script,
            blocks: blocks(&origin.marks, &starts),
            fork: Value::Null,
            point_of_no_return: None,
            properties: finally(judged(&origin.promised, &origin.other)),
            violation: origin.violation,
            recipe: origin.recipe,
            trace,
            commands,
            starts,
            step_of,
            depth,
            sends,
            moments: Moments::default(),
            stamped: Mutex::new(None),
        };
        run.moments = Moments::of(&run, stage);
        run
    }

    /// What was recorded.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// By record: the moment at which it has happened.
    #[must_use]
    pub fn step_of(&self) -> &[u32] {
        &self.step_of
    }

    /// How many steps it has.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.commands.len()
    }

    /// How many records there are at a moment.
    #[must_use]
    pub fn events_at(&self, moment: usize) -> usize {
        self.starts.get(moment).copied().unwrap_or(self.trace.records.len())
    }

    /// The time of a moment.
    pub(crate) fn time_at(&self, moment: usize) -> u64 {
        self.events_at(moment).checked_sub(1).map_or(0, |last| self.trace.records[last].time)
    }

    /// The record of the send of a message.
    pub(crate) fn send(&self, from: NodeId, to: NodeId, nth: u64) -> Option<u64> {
        self.sends.get(&(from, to, nth)).copied()
    }

    /// The moment at which a promise is broken.
    pub(crate) fn broken_at(&self) -> Option<u32> {
        let is_told = |record: &Record| matches!(record.what, What::Violation { .. });
        self.trace.records.iter().position(is_told).map(|at| self.step_of[at])
    }

    pub(crate) fn violation_json(&self) -> Value {
        self.violation.as_ref().map_or(Value::Null, |violation| {
            json!({ "property": violation.property, "detail": violation.detail, "step": self.broken_at() })
        })
    }

    /// The summary.
    #[must_use]
    pub fn summary(&self) -> Value {
        let header = &self.trace.header;
        let processes = header
            .nodes
            .iter()
            .map(|id| json!({ "id": id.0, "name": id.to_string(), "joins": header.newcomers.contains(id) }));
        json!({
            "id": self.id,
            "recipe": self.recipe,
            "kind": self.kind,
            "algorithm": self.about.name,
            "title": self.about.title,
            "family": self.about.family.name,
            "setup": self.setup_text,
            "command": self.command,
            "processes": processes.collect::<Vec<_>>(),
            "events": self.trace.records.len(),
            "steps": self.steps(),
            "time": self.time_at(self.steps()),
            "seed": header.seed,
            "channels": header.channels,
            "settings": header.settings,
            "mutant": header.mutant,
            "locks": header.locks,
            "violation": self.violation_json(),
            "properties": self.properties,
            "report": serde_json::from_str::<Value>(&self.report).unwrap_or_default(),
            "parent": self.recipe.as_ref().and_then(Recipe::parent).map(|(parent, _)| parent.id()),
            "fork": self.fork,
            "point_of_no_return": self.point_of_no_return,
            "blocks": self.blocks,
        })
    }

    /// The whole run in columns.
    #[must_use]
    pub fn index(&self) -> Value {
        let records = &self.trace.records;
        let places: BTreeMap<NodeId, i64> = self.trace.header.nodes.iter().copied().zip(0..).collect();
        let place = |id: Option<NodeId>| id.and_then(|id| places.get(&id).copied()).unwrap_or(-1);
        let (mut kinds, mut messages, mut phases) = (Words::default(), Words::default(), Words::default());
        let kind: Vec<i64> = records.iter().map(|record| kinds.place(record.what.name())).collect();
        let message = records.iter().map(|record| match record.what.carried() {
            Some(carried) => messages.place(&carried.message),
            None => -1,
        });
        let message: Vec<i64> = message.collect();
        let phase: Vec<i64> = records
            .iter()
            .map(|record| phase_after(record).map_or(-1, |phase| phases.place(phase)))
            .collect();
        let bands: BTreeMap<&str, &str> = phases.0.iter().map(|name| (name.as_str(), band(name))).collect();
        let peer = records.iter().map(|record| {
            place(match &record.what {
                What::Send(message) => Some(message.to),
                What::Deliver(message) | What::Drop(message) | What::Duplicate(message) => Some(message.from),
                What::Suspect { peer, .. } | What::Trust { peer, .. } | What::Reject { peer, .. } => {
                    Some(*peer)
                }
                _ => None,
            })
        });
        json!({
            "events": records.len(),
            "steps": self.steps(),
            "depth_max": self.depth.iter().max().copied().unwrap_or(0),
            "time_max": self.time_at(self.steps()),
            "kinds": kinds.0,
            "messages": messages.0,
            "phases": phases.0,
            "bands": bands,
            "time": records.iter().map(|record| record.time).collect::<Vec<_>>(),
            "depth": self.depth,
            "process": records.iter().map(|record| place(record.process)).collect::<Vec<_>>(),
            "kind": kind,
            "message": message,
            "peer": peer.collect::<Vec<_>>(),
            "cause": records.iter().map(|record| record.cause.map_or(-1, |cause| cause as i64)).collect::<Vec<_>>(),
            "step": self.step_of,
            "phase": phase,
            "step_event": (0..=self.steps()).map(|moment| self.events_at(moment)).collect::<Vec<_>>(),
            "step_time": (0..=self.steps()).map(|moment| self.time_at(moment)).collect::<Vec<_>>(),
        })
    }

    /// Whole records, with stamps of vectors if they are wanted: of everything, or of messages alone.
    ///
    /// # Errors
    /// If there are too many processes for vectors.
    pub(crate) fn events(
        &self,
        from: usize,
        limit: usize,
        vectors: Option<Counted>,
    ) -> Result<Value, Problem> {
        let end = from.saturating_add(limit).min(self.trace.records.len());
        let shown = |records: &[Record]| {
            let events = records.get(from..end).unwrap_or_default().iter().map(|record| self.event(record));
            json!({ "from": from, "total": self.trace.records.len(), "events": events.collect::<Vec<_>>() })
        };
        let Some(counted) = vectors else { return Ok(shown(&self.trace.records)) };
        self.check_order()?;
        let mut stamped = self.stamped.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let everything = counted == Counted::Everything;
        if stamped.as_ref().is_none_or(|(of, _)| *of != everything) {
            let mut trace = self.trace.clone();
            trace.stamp_counting(counted, true);
            *stamped = Some((everything, trace));
        }
        Ok(shown(stamped.as_ref().map_or(&[], |(_, trace)| &trace.records)))
    }

    fn event(&self, record: &Record) -> Value {
        let mut event = serde_json::to_value(record).unwrap_or_default();
        let at = record.id as usize;
        if let Some(carried) = record.what.carried() {
            event["text"] = carried.label().into();
        }
        if let Some(vector) = &record.vector {
            event["vector"] = (0..self.trace.header.nodes.len()).map(|place| vector.get(place)).collect();
        }
        event["step"] = self.step_of[at].into();
        event["depth"] = self.depth[at].into();
        event["what"] = describe(record).into();
        event
    }

    /// More numbers than that are not kept for a page.
    fn check_order(&self) -> Result<(), Problem> {
        const MOST: usize = 20_000_000;
        let (n, events) = (self.trace.header.nodes.len(), self.trace.records.len());
        if n * events <= MOST {
            return Ok(());
        }
        Err(Problem::new(
            crate::Code::TooLarge,
            format!("the order of {events} events of {n} processes is too much for the lab"),
        )
        .hint("use a smaller run, or 'conclave order' on the command line"))
    }

    /// What an event may depend on, and what may depend on it.
    pub(crate) fn order(&self, event: u64) -> Result<Value, Problem> {
        self.check_order()?;
        let order = Order::of(&self.trace).map_err(Problem::refused)?;
        let Cone { past, future, concurrent } = order.cone(event).map_err(Problem::refused)?;
        let plain = |ends: BTreeMap<NodeId, u64>| -> BTreeMap<String, u64> {
            ends.into_iter().map(|(id, event)| (id.0.to_string(), event)).collect()
        };
        Ok(json!({ "event": event, "past": plain(past), "future": plain(future), "concurrent": concurrent }))
    }

    /// Whether a cut is consistent, and what its channels hold.
    pub(crate) fn cut(&self, frontier: &BTreeMap<NodeId, u64>) -> Result<Value, Problem> {
        self.check_order()?;
        let order = Order::of(&self.trace).map_err(Problem::refused)?;
        match order.cut(frontier).map_err(Problem::refused)? {
            Ok(flying) => Ok(self.consistent(&flying)),
            Err(Inconsistency { arrival, send }) => {
                let message = self.trace.records[arrival as usize].what.carried();
                let (from, to) = message.map(|m| (m.from.to_string(), m.to.to_string())).unwrap_or_default();
                Ok(json!({ "consistent": false, "arrival": arrival, "send": send,
                    "sentence": format!("the cut is not consistent: {to} has received in it what {from} sends behind it") }))
            }
        }
    }

    fn consistent(&self, flying: &[u64]) -> Value {
        let mut channels: BTreeMap<(NodeId, NodeId), (Vec<u64>, Vec<String>)> = BTreeMap::new();
        for send in flying {
            let Some(message) = self.trace.records[*send as usize].what.carried() else { continue };
            let channel = channels.entry((message.from, message.to)).or_default();
            channel.0.push(*send);
            channel.1.push(message.label().into_owned());
        }
        let channels = channels.into_iter().map(|((from, to), (sends, messages))| {
            json!({ "from": from.0, "to": to.0, "sends": sends, "messages": messages })
        });
        let held = match flying.len() {
            0 => "nothing is in flight there".to_owned(),
            1 => "1 message is in flight there".to_owned(),
            many => format!("{many} messages are in flight there"),
        };
        json!({ "consistent": true, "in_flight": flying, "channels": channels.collect::<Vec<_>>(),
            "sentence": format!("the cut is consistent; {held}") })
    }

    /// The file that plays this run without a server.
    ///
    /// # Errors
    /// If its states cannot be told.
    pub fn html(&self) -> Result<String, Problem> {
        /// About so many characters of states make a file that is still opened at once.
        const MOST: usize = 4_000_000;
        let mut moments = Vec::new();
        let mut size = 0;
        for moment in 0..=self.steps() {
            let Ok(at) = self.at(moment, &BTreeSet::new()) else { break };
            size += at.to_string().len();
            if size > MOST {
                break;
            }
            moments.push(at);
        }
        let moments = (moments.len() == self.steps() + 1).then_some(moments);
        let recorded = json!({
            "summary": self.summary(),
            "index": self.index(),
            "events": self.events(0, usize::MAX, None)?["events"],
            "moments": moments,
        });
        Ok(crate::alone::page(self.about.title, &recorded))
    }

    /// Two runs side by side.
    #[must_use]
    pub fn compared(&self, other: &Self) -> Value {
        let same = |(left, right): &(&Record, &Record)| describe(left) == describe(right);
        let events = self.trace.records.iter().zip(&other.trace.records).take_while(same).count();
        let steps =
            self.commands.iter().zip(&other.commands).take_while(|(left, right)| left == right).count();
        let what = |run: &Self| run.trace.records.get(events).map(describe);
        let first = (events < self.trace.records.len().max(other.trace.records.len()))
            .then(|| json!({ "left": what(self), "right": what(other) }));
        let states = |run: &Self| -> BTreeMap<String, Value> {
            let all = run.properties.as_array().into_iter().flatten();
            all.map(|judged| {
                (judged["property"].as_str().unwrap_or_default().to_owned(), judged["state"].clone())
            })
            .collect()
        };
        let (left, right) = (states(self), states(other));
        let differing = left.iter().filter_map(|(property, state)| {
            let other = right.get(property).filter(|other| *other != state)?;
            Some(json!({ "property": property, "left": state, "right": other }))
        });
        json!({
            "common_steps": steps,
            "common_events": events,
            "first": first,
            "left": self.figures(),
            "right": other.figures(),
            "properties": differing.collect::<Vec<_>>(),
        })
    }

    fn figures(&self) -> Value {
        let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
        let mut entries = 0;
        for record in &self.trace.records {
            match &record.what {
                What::Send(message) => *kinds.entry(&message.message).or_default() += 1,
                What::Event { fence, .. } if !fence.is_empty() => entries += 1,
                _ => {}
            }
        }
        json!({
            "id": self.id, "steps": self.steps(), "time": self.time_at(self.steps()), "messages": kinds.values().sum::<u64>(),
            "kinds": kinds, "entries": entries, "violation": self.violation_json(),
        })
    }

    /// Refuses what is larger than the page can show.
    pub(crate) fn check_size(trace: &Trace, limits: &Limits) -> Result<(), Problem> {
        let (n, events) = (trace.header.nodes.len(), trace.records.len());
        if n > limits.processes || events > limits.events {
            return Err(too_large(n, events as u64, limits));
        }
        Ok(())
    }
}

/// The refusal of a run that is over the limits.
pub(crate) fn too_large(n: usize, events: u64, limits: &Limits) -> Problem {
    let sentence = if n > limits.processes {
        format!("{n} processes are too many for the lab, which runs at most {}", limits.processes)
    } else {
        format!("this run has more than {} events, the most that the lab shows", limits.events)
    };
    Problem::new(crate::Code::TooLarge, sentence)
        .hint("use a smaller n or fewer entries, or 'conclave sim' on the command line")
        .cost(json!({ "processes": n, "events": events }))
}

#[derive(Default)]
struct Words(Vec<String>);

impl Words {
    fn place(&mut self, word: &str) -> i64 {
        let known = self.0.iter().position(|known| known == word);
        known.unwrap_or_else(|| {
            self.0.push(word.to_owned());
            self.0.len() - 1
        }) as i64
    }
}

/// How a phase is drawn.
pub(crate) fn band(phase: &str) -> &'static str {
    match Phase::named(phase).map_or(Band::Quiet, |phase| phase.band) {
        Band::Quiet => "quiet",
        Band::Waiting => "waiting",
        Band::Holding => "holding",
    }
}

/// By record: the length of the longest chain of causes that ends with it. What a process does with an input stands
/// where the input stands.
fn depths(trace: &Trace) -> Vec<u32> {
    let mut depths: Vec<u32> = Vec::with_capacity(trace.records.len());
    let mut last: BTreeMap<NodeId, u32> = BTreeMap::new();
    let mut deepest = 0;
    for record in &trace.records {
        let cause = record.cause.and_then(|cause| depths.get(cause as usize).copied());
        let own = record.process.and_then(|process| last.get(&process).copied());
        let depth = match &record.what {
            What::Send(_) | What::Event { .. } | What::Reject { .. } => cause.or(own).unwrap_or(0),
            What::Violation { .. } | What::Partition { .. } | What::Heal { .. } => deepest,
            what if !what.is_lived() => cause.map_or(deepest, |cause| cause + 1),
            _ => own.map_or(0, |own| own + 1).max(cause.map_or(0, |cause| cause + 1)),
        };
        deepest = deepest.max(depth);
        if let Some(process) = record.process.filter(|_| record.what.is_lived()) {
            last.insert(process, depth);
        }
        depths.push(depth);
    }
    depths
}

/// Properties at the end of a run: what was not shown, and has a reason, is not going to be.
fn finally(mut properties: Value) -> Value {
    for property in properties.as_array_mut().into_iter().flatten() {
        if property["state"] == "open" && property["detail"] != "" {
            property["state"] = "not_judged".into();
        }
    }
    properties
}

/// Properties as the page has them.
fn judged(promised: &[Property], other: &[Property]) -> Value {
    let all = promised
        .iter()
        .map(|property| (property, true))
        .chain(other.iter().map(|property| (property, false)));
    let judged = all.map(|(property, promised)| {
        let state = match property.holds {
            Some(true) => "held",
            Some(false) => "broken",
            None => "open",
        };
        json!({ "property": property.name, "state": state, "detail": property.detail, "statement": property.claim,
            "promised": promised })
    });
    judged.collect()
}

/// Properties of which nothing can be said.
pub(crate) fn not_judged(properties: &mut Value, why: &str) {
    for property in properties.as_array_mut().into_iter().flatten() {
        property["state"] = "not_judged".into();
        property["detail"] = why.into();
    }
}

pub(crate) fn judgements_json(judgements: Vec<conclave_algorithms::Judgement>) -> Value {
    let (promised, other): (Vec<_>, Vec<_>) =
        judgements.into_iter().partition(|judgement| judgement.promised);
    let plain = |list: Vec<_>| list.into_iter().map(Property::from).collect::<Vec<_>>();
    judged(&plain(promised), &plain(other))
}

fn blocks(marks: &[Mark], starts: &[usize]) -> Value {
    if marks.is_empty() {
        return Value::Null;
    }
    let mut before = 0;
    let blocks = marks.iter().map(|mark| {
        let from = starts.partition_point(|start| *start < before);
        let to = starts.partition_point(|start| *start < mark.records);
        before = mark.records;
        json!({ "from": (from + 1).min(to), "to": to, "comments": mark.comments, "recorded": mark.recorded })
    });
    blocks.collect()
}

/// A time in words.
pub(crate) fn time_text(time: u64) -> String {
    format!("{} ms", milliseconds(time))
}
