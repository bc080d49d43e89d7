//! What there is to draw, in columns and lanes: everything but the distances.

use std::collections::{BTreeMap, BTreeSet};

use conclave_core::{Band, NodeId};

use crate::text::milliseconds;
use crate::words::{band, describe, event_text, is_farewell, named, of_lock, phase_after};
use crate::{Carried, Counted, Record, Trace, What};

use super::Stamps;

/// Up to this many processes everyone has a lane, even those that nothing happens to.
const SHOW_ALL: usize = 64;

/// A trace as a space-time diagram shows it. Columns are moments, lanes are processes.
pub(super) struct Story {
    pub(super) lanes: Vec<NodeId>,
    /// The time of each column.
    pub(super) columns: Vec<u64>,
    /// The kinds of messages, in the order in which they first occur.
    pub(super) kinds: Vec<String>,
    pub(super) arrows: Vec<Arrow>,
    pub(super) bands: Vec<Span>,
    pub(super) downs: Vec<Span>,
    pub(super) absences: Vec<Absence>,
    pub(super) pauses: Vec<Span>,
    pub(super) cuts: Vec<Span>,
    pub(super) marks: Vec<Mark>,
    pub(super) findings: Vec<Finding>,
    /// What happened at a lane in a column, line by line, with the stamp to show.
    pub(super) dots: BTreeMap<(usize, usize), Dot>,
}

/// One copy of a message.
pub(super) struct Arrow {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) start: usize,
    pub(super) end: End,
    pub(super) kind: usize,
    pub(super) text: String,
    pub(super) title: String,
    /// It is not the first copy to arrive.
    pub(super) is_copy: bool,
    /// A message sent after it on the same channel arrived before it.
    pub(super) is_late: bool,
    pub(super) is_overhead: bool,
}

/// What became of a message, and in which column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Arrived(usize),
    Lost(usize),
    OnTheWay,
}

/// Something that lasts.
pub(super) struct Span {
    pub(super) lane: usize,
    pub(super) start: usize,
    /// None if it lasts to the end.
    pub(super) end: Option<usize>,
    pub(super) look: Band,
    /// The phase, the cut.
    pub(super) name: String,
    /// What stands inside.
    pub(super) text: String,
}

/// A process is not there: it has not joined yet, or it has left.
#[derive(Clone, Copy)]
pub(super) struct Absence {
    pub(super) lane: usize,
    /// None if it has been away from the beginning.
    pub(super) start: Option<usize>,
    /// None if it stays away.
    pub(super) end: Option<usize>,
}

/// Something that happens to one process at one moment.
pub(super) struct Mark {
    pub(super) lane: usize,
    pub(super) column: usize,
    pub(super) sort: Sort,
    pub(super) text: String,
    /// Another mark already stands above the lane at this moment.
    pub(super) is_below: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sort {
    Request,
    Event,
    Timer,
    Crash,
    Restart,
    Join,
    Suspicion,
    Trust,
    Accusation,
}

/// A property found broken.
pub(super) struct Finding {
    pub(super) column: usize,
    pub(super) time: u64,
    pub(super) property: String,
    pub(super) detail: String,
}

#[derive(Default)]
pub(super) struct Dot {
    pub(super) titles: Vec<String>,
    pub(super) stamp: String,
    first_stamp: u64,
}

impl Story {
    pub(super) fn of(trace: &Trace, stamps: Stamps, counted: Counted) -> Self {
        let mut teller = Teller::new(trace, stamps, counted);
        for record in &trace.records {
            teller.tell(record);
        }
        teller.finish()
    }
}

/// A story that is being told.
struct Teller<'a> {
    trace: &'a Trace,
    stamps: Stamps,
    counted: Counted,
    place: BTreeMap<NodeId, usize>,
    story: Story,
    /// The column of each record.
    column_of: Vec<usize>,
    /// Who has done something in the current column.
    busy: BTreeSet<NodeId>,
    sends: BTreeMap<usize, Sent>,
    /// The latest message that has arrived on each channel.
    newest: BTreeMap<(NodeId, NodeId), u64>,
    open_bands: BTreeMap<usize, Span>,
    open_downs: BTreeMap<usize, Span>,
    open_absences: BTreeMap<usize, Absence>,
    open_pauses: BTreeMap<usize, Span>,
    open_cuts: Vec<Span>,
}

/// A message of which copies may still be on the way.
struct Sent {
    column: usize,
    arrived: u32,
    on_the_way: u32,
}

fn lanes(trace: &Trace) -> Vec<NodeId> {
    let nodes = &trace.header.nodes;
    if nodes.len() <= SHOW_ALL {
        return nodes.clone();
    }
    let acting: BTreeSet<_> =
        trace.records.iter().filter(|r| r.what != What::Start).flat_map(named).collect();
    nodes.iter().copied().filter(|node| acting.contains(node)).collect()
}

impl<'a> Teller<'a> {
    fn new(trace: &'a Trace, stamps: Stamps, counted: Counted) -> Self {
        let lanes = lanes(trace);
        let place: BTreeMap<NodeId, usize> = lanes.iter().copied().zip(0..).collect();
        let newcomers = trace.header.newcomers.iter().filter_map(|process| place.get(process));
        let open_absences =
            newcomers.map(|lane| (*lane, Absence { lane: *lane, start: None, end: None })).collect();
        let story = Story {
            lanes,
            columns: Vec::new(),
            kinds: Vec::new(),
            arrows: Vec::new(),
            bands: Vec::new(),
            downs: Vec::new(),
            absences: Vec::new(),
            pauses: Vec::new(),
            cuts: Vec::new(),
            marks: Vec::new(),
            findings: Vec::new(),
            dots: BTreeMap::new(),
        };
        Self {
            trace,
            stamps,
            counted,
            place,
            story,
            column_of: Vec::new(),
            busy: BTreeSet::new(),
            sends: BTreeMap::new(),
            newest: BTreeMap::new(),
            open_bands: BTreeMap::new(),
            open_downs: BTreeMap::new(),
            open_absences,
            open_pauses: BTreeMap::new(),
            open_cuts: Vec::new(),
        }
    }

    fn tell(&mut self, record: &Record) {
        let column = self.choose_column(record);
        self.tell_message(record, column);
        self.tell_network(record, column);
        let lane =
            record.process.filter(|_| record.what.is_lived()).and_then(|p| self.place.get(&p).copied());
        if let Some(lane) = lane {
            self.tell_mark(record, lane, column);
            self.tell_spans(record, lane, column);
            self.tell_dot(record, lane, column);
        }
    }

    /// Records share a column if they have the same time, none of them is the cause of another elsewhere, and no
    /// process handles two inputs in it.
    fn choose_column(&mut self, record: &Record) -> usize {
        let current = self.story.columns.len().checked_sub(1);
        let is_input = record.what.is_lived() && !record.what.is_effect() && record.what != What::Start;
        let is_busy = record.process.is_some_and(|process| self.busy.contains(&process));
        let cause = record.cause.and_then(|cause| self.column_of.get(usize::try_from(cause).ok()?).copied());
        let has_cause_here = is_input && cause.is_some() && cause == current;
        let column = match current {
            // Merged clocks may go back a little; a drawing cannot.
            Some(column)
                if record.time <= self.story.columns[column] && !has_cause_here && !(is_input && is_busy) =>
            {
                column
            }
            _ => {
                let last = self.story.columns.last().copied().unwrap_or(0);
                self.story.columns.push(record.time.max(last));
                self.busy.clear();
                self.story.columns.len() - 1
            }
        };
        if record.what.is_lived() && record.what != What::Start {
            self.busy.extend(record.process);
        }
        self.column_of.push(column);
        column
    }

    fn tell_message(&mut self, record: &Record, column: usize) {
        match &record.what {
            What::Send(_) => {
                let at = self.column_of.len() - 1;
                self.sends.insert(at, Sent { column, arrived: 0, on_the_way: 1 });
            }
            What::Duplicate(_) => {
                if let Some(sent) = self.send_of(record).and_then(|send| self.sends.get_mut(&send)) {
                    sent.on_the_way += 1;
                }
            }
            What::Deliver(carried) => {
                let newest = self.newest.entry((carried.from, carried.to)).or_insert(0);
                let is_late = carried.nth < *newest;
                *newest = carried.nth.max(*newest);
                self.end_message(record, carried, End::Arrived(column), is_late);
            }
            What::Drop(carried) => self.end_message(record, carried, End::Lost(column), false),
            _ => {}
        }
    }

    /// The place of the send of this message; the cause may also be the copy that the network made.
    fn send_of(&self, record: &Record) -> Option<usize> {
        let mut at = usize::try_from(record.cause?).ok()?;
        loop {
            let cause = self.trace.records.get(at)?;
            match cause.what {
                What::Send(_) => return Some(at),
                What::Duplicate(_) => {
                    at = usize::try_from(cause.cause?).ok().filter(|earlier| *earlier < at)?;
                }
                _ => return None,
            }
        }
    }

    fn end_message(&mut self, record: &Record, carried: &Carried, end: End, is_late: bool) {
        let Some(send) = self.send_of(record) else { return };
        let Some(sent) = self.sends.get_mut(&send) else { return };
        let (start, is_copy) = (sent.column, sent.arrived > 0);
        sent.on_the_way = sent.on_the_way.saturating_sub(1);
        if matches!(end, End::Arrived(_)) {
            sent.arrived += 1;
        }
        let fate = if matches!(end, End::Lost(_)) { "lost" } else { "arrived" };
        let fate = format!("{fate} {} ms (record {})", milliseconds(record.time), record.id);
        self.push_arrow(carried, send, start, end, &fate);
        if let Some(arrow) = self.story.arrows.last_mut() {
            arrow.is_copy = is_copy;
            arrow.is_late = is_late && !is_copy;
        }
    }

    fn push_arrow(&mut self, carried: &Carried, send: usize, start: usize, end: End, fate: &str) {
        let (Some(&from), Some(&to)) = (self.place.get(&carried.from), self.place.get(&carried.to)) else {
            return;
        };
        let sent = &self.trace.records[send];
        let text = carried.label().into_owned();
        let when = milliseconds(sent.time);
        let title =
            format!("{text}\n{} → {}\nsent {when} ms (record {})\n{fate}", carried.from, carried.to, sent.id);
        let kind = self.story.kinds.iter().position(|kind| *kind == carried.message).unwrap_or_else(|| {
            self.story.kinds.push(carried.message.clone());
            self.story.kinds.len() - 1
        });
        let is_overhead = carried.overhead;
        let arrow =
            Arrow { from, to, start, end, kind, text, title, is_copy: false, is_late: false, is_overhead };
        self.story.arrows.push(arrow);
    }

    fn tell_network(&mut self, record: &Record, column: usize) {
        match &record.what {
            What::Partition { cut } => {
                self.open_cuts.push(Span { text: format!("cut {cut}"), ..span(0, column, cut) });
            }
            What::Heal { cut } => {
                if let Some(at) = self.open_cuts.iter().position(|open| open.name == *cut) {
                    let open = self.open_cuts.remove(at);
                    self.story.cuts.push(Span { end: Some(column), ..open });
                }
            }
            What::Violation { property, detail } => self.story.findings.push(Finding {
                column,
                time: record.time,
                property: property.clone(),
                detail: detail.clone(),
            }),
            _ => {}
        }
    }

    fn tell_mark(&mut self, record: &Record, lane: usize, column: usize) {
        let (sort, text) = match &record.what {
            // What it does next does not show in a band.
            What::Request { request, .. } if request == "leave" => (Sort::Request, request.clone()),
            What::Request { .. } => (Sort::Request, String::new()),
            // The band says it.
            What::Event { event, .. } if event == "granted" => return,
            What::Event { event, fence, lock } => {
                (Sort::Event, format!("{}{}", event_text(event, fence), of_lock(*lock)))
            }
            What::Timer { timer } => (Sort::Timer, timer.clone()),
            What::Crash { after: None } => (Sort::Crash, String::new()),
            What::Crash { after: Some(after) } => (Sort::Crash, format!("after {after}")),
            What::Restart { life, .. } => (Sort::Restart, format!("life {life}")),
            What::Join => (Sort::Join, "joins".to_owned()),
            What::Suspect { peer, .. } => (Sort::Suspicion, format!("{peer}?")),
            What::Trust { peer, .. } => (Sort::Trust, format!("{peer} ok")),
            What::Clock { deviation } => (Sort::Timer, format!("clock {deviation}")),
            What::Reject { peer, .. } => (Sort::Accusation, format!("rejects {peer}")),
            _ => return,
        };
        let earlier = self.story.marks.iter().rev().take_while(|mark| mark.column == column);
        let is_below = earlier.filter(|mark| mark.lane == lane).any(|mark| !mark.is_below);
        self.story.marks.push(Mark { lane, column, sort, text, is_below });
    }

    fn tell_spans(&mut self, record: &Record, lane: usize, column: usize) {
        match &record.what {
            What::Crash { .. } => {
                self.end_band(lane, column);
                self.open_downs.entry(lane).or_insert_with(|| span(lane, column, "down"));
            }
            What::Restart { .. } => {
                if let Some(open) = self.open_downs.remove(&lane) {
                    self.story.downs.push(Span { end: Some(column), ..open });
                }
            }
            What::Join => {
                if let Some(open) = self.open_absences.remove(&lane) {
                    self.story.absences.push(Absence { end: Some(column), ..open });
                }
            }
            What::Pause => {
                self.open_pauses.entry(lane).or_insert_with(|| span(lane, column, "paused"));
            }
            What::Resume => {
                if let Some(open) = self.open_pauses.remove(&lane) {
                    self.story.pauses.push(Span { end: Some(column), ..open });
                }
            }
            _ => {}
        }
        if let Some(phase) = phase_after(record) {
            self.tell_phase(phase, lane, column);
        }
        if let (What::Event { fence, .. }, Some(open)) = (&record.what, self.open_bands.get_mut(&lane))
            && !fence.is_empty()
            && open.look == Band::Holding
        {
            open.text.clone_from(fence);
        }
        if is_farewell(record) {
            self.end_band(lane, column);
            self.open_absences.entry(lane).or_insert(Absence { lane, start: Some(column), end: None });
        }
    }

    fn tell_phase(&mut self, phase: &str, lane: usize, column: usize) {
        if self.open_bands.get(&lane).is_some_and(|open| open.name == phase) {
            return;
        }
        self.end_band(lane, column);
        let look = band(phase);
        if look != Band::Quiet {
            self.open_bands.insert(lane, Span { look, ..span(lane, column, phase) });
        }
    }

    fn end_band(&mut self, lane: usize, column: usize) {
        if let Some(open) = self.open_bands.remove(&lane)
            && open.start < column
        {
            self.story.bands.push(Span { end: Some(column), ..open });
        }
    }

    fn tell_dot(&mut self, record: &Record, lane: usize, column: usize) {
        if record.what == What::Start {
            return;
        }
        let dot = self.story.dots.entry((lane, column)).or_default();
        dot.titles.push(format!("{} ms  {}", milliseconds(record.time), describe(record)));
        if !self.counted.counts(record) {
            return;
        }
        dot.stamp = match self.stamps {
            Stamps::None => String::new(),
            Stamps::Lamport if dot.stamp.is_empty() => {
                dot.first_stamp = record.lamport;
                record.lamport.to_string()
            }
            Stamps::Lamport => format!("{}–{}", dot.first_stamp, record.lamport),
            Stamps::Vector => vector_text(record, self.trace.header.nodes.len()),
        };
    }

    /// What has no end lasts to the end of the drawing.
    fn finish(mut self) -> Story {
        let rest: Vec<_> = self.sends.iter().map(|(at, sent)| (*at, sent.column, sent.on_the_way)).collect();
        for (send, start, copies) in rest {
            let Some(carried) = self.trace.records[send].what.carried() else { continue };
            for _ in 0..copies {
                self.push_arrow(carried, send, start, End::OnTheWay, "still in flight at the end");
            }
        }
        let Self { mut story, open_bands, open_downs, open_absences, open_pauses, open_cuts, .. } = self;
        story.bands.extend(open_bands.into_values());
        story.downs.extend(open_downs.into_values());
        story.absences.extend(open_absences.into_values());
        story.pauses.extend(open_pauses.into_values());
        story.cuts.extend(open_cuts);
        story
    }
}

fn span(lane: usize, start: usize, name: &str) -> Span {
    Span { lane, start, end: None, look: Band::Quiet, name: name.to_owned(), text: String::new() }
}

/// All entries, those that the clock leaves out too.
fn vector_text(record: &Record, n: usize) -> String {
    let vector = record.vector.clone().unwrap_or_default();
    let entries: Vec<_> = (0..n).map(|place| vector.get(place).to_string()).collect();
    format!("[{}]", entries.join(","))
}
