//! The diagram for a terminal: a column per process, a line per moment, a sign for what each process is doing.
//!
//! ```text
//!   time  p1 p2
//!   0     ○  ·   p1 acquire   p1 → p2 Request{1}
//!   1     ○  ·   p2 ← p1 Request{1}   p2 → p1 Reply{1,1,0}
//!   2     ●  ·   p1 ← p2 Reply{1,1,0}   p1 granted 0.1.1
//! ```

use std::collections::{BTreeMap, BTreeSet};

use conclave_core::{Band, NodeId};

use crate::text::{columns, cut, milliseconds, one_line};
use crate::words::{band, event_text, inside_step, is_farewell, named, of_life, of_lock, phase_after};
use crate::{Record, Stamps, Trace, What};

/// How a diagram shall look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiagramOptions {
    /// Only signs that every terminal has.
    pub ascii: bool,
    /// With ANSI colours.
    pub colour: bool,
    /// How many columns there are; longer lines are wrapped. 0 for no end.
    pub width: usize,
    /// How many lines to write at most; if there are more, the middle is left out. 0 for no end.
    pub max_lines: usize,
    /// Which logical time to write behind messages.
    pub stamps: Stamps,
    /// Whether a last line says what the signs mean.
    pub legend: bool,
}

impl Default for DiagramOptions {
    fn default() -> Self {
        Self { ascii: false, colour: false, width: 100, max_lines: 0, stamps: Stamps::None, legend: false }
    }
}

/// Draws a trace with letters.
///
/// What a process does while it handles an input stands on one line with that input. A line that would be longer than
/// the width goes on below; where not all processes fit beside each other, only some of them have a column.
#[must_use]
pub fn diagram(trace: &Trace, options: &DiagramOptions) -> String {
    let pen = Pen::new(trace, options);
    let mut lines = vec![pen.head()];
    let absent = |process: &NodeId| (*process, State { is_absent: true, ..QUIET });
    let mut state: BTreeMap<NodeId, State> = trace.header.newcomers.iter().map(absent).collect();
    for moment in moments(trace) {
        for record in &moment {
            note_state(record, &mut state);
        }
        lines.extend(pen.moment(&moment, &state));
    }
    let mut lines = pen.shorten(lines);
    if options.legend {
        lines.push(pen.legend(trace));
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// What a process is doing, as far as a column shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    band: Band,
    is_down: bool,
    is_paused: bool,
    /// It has not joined yet, or it has left.
    is_absent: bool,
}

const QUIET: State = State { band: Band::Quiet, is_down: false, is_paused: false, is_absent: false };

fn note_state(record: &Record, state: &mut BTreeMap<NodeId, State>) {
    let Some(process) = record.process.filter(|_| record.what.is_lived()) else { return };
    let state = state.entry(process).or_insert(QUIET);
    match record.what {
        What::Crash { .. } => *state = State { is_down: true, ..QUIET },
        What::Restart { .. } | What::Join => *state = QUIET,
        What::Pause => state.is_paused = true,
        What::Resume => state.is_paused = false,
        _ => {}
    }
    if let Some(phase) = phase_after(record) {
        state.band = band(phase);
    }
    if is_farewell(record) {
        *state = State { is_absent: true, ..QUIET };
    }
}

/// The records that belong on one line: an input, and what the process did while it handled it.
fn moments(trace: &Trace) -> Vec<Vec<&Record>> {
    let mut moments: Vec<Vec<&Record>> = Vec::new();
    for record in &trace.records {
        match moments.last_mut() {
            Some(moment) if belongs(record, moment) => moment.push(record),
            _ => moments.push(vec![record]),
        }
    }
    // That a process starts is worth a line only if it does something then.
    moments.retain(|moment| !matches!(moment[..], [Record { what: What::Start, .. }]));
    moments
}

fn belongs(record: &Record, moment: &[&Record]) -> bool {
    let input = moment[0];
    let is_caused_here = record.cause.is_some_and(|cause| moment.iter().any(|earlier| earlier.id == cause));
    let is_effect = (record.what.is_effect() || matches!(record.what, What::Crash { after: Some(_) }))
        && record.process == input.process;
    let is_network = matches!(record.what, What::Drop(_) | What::Duplicate(_)) && is_caused_here;
    record.time == input.time && ((is_effect && (is_caused_here || record.cause.is_none())) || is_network)
}

/// Everything that stays the same from line to line.
struct Pen<'a> {
    options: &'a DiagramOptions,
    lanes: Vec<NodeId>,
    /// How many processes there are.
    count: usize,
    /// Whether some processes have no column.
    is_partial: bool,
    lane_width: usize,
    time_width: usize,
}

const MARGIN: &str = "  ";
const BETWEEN: &str = "   ";
/// However little room there is, so much is left for words.
const LEAST_TEXT: usize = 24;

impl<'a> Pen<'a> {
    fn new(trace: &Trace, options: &'a DiagramOptions) -> Self {
        let nodes = &trace.header.nodes;
        let lane_width = nodes.iter().map(|node| node.to_string().len()).max().unwrap_or(0) + 1;
        let last = trace.records.iter().map(|record| milliseconds(record.time).len()).max();
        let time_width = last.unwrap_or(0).max("time".len()) + 2;
        let room = match options.width {
            0 => usize::MAX,
            width => width.saturating_sub(MARGIN.len() + time_width + LEAST_TEXT).max(width / 2) / lane_width,
        };
        let lanes = if nodes.len() <= room { nodes.clone() } else { busiest(trace, room.max(1)) };
        let (count, is_partial) = (nodes.len(), lanes.len() < nodes.len());
        Self { options, lanes, count, is_partial, lane_width, time_width }
    }

    fn head(&self) -> String {
        let mut line = format!("{MARGIN}{:<width$}", "time", width = self.time_width);
        for lane in &self.lanes {
            line += &format!("{:<width$}", lane.to_string(), width = self.lane_width);
        }
        if self.is_partial {
            line += self.sign("…", "...");
        }
        line
    }

    /// The lines of one moment; all but the first only carry on its words.
    fn moment(&self, moment: &[&Record], state: &BTreeMap<NodeId, State>) -> Vec<String> {
        let time = milliseconds(moment[0].time);
        let mut line = format!("{MARGIN}{time:<width$}", width = self.time_width);
        for lane in &self.lanes {
            line += &self.lane(*state.get(lane).unwrap_or(&QUIET));
        }
        let indent = MARGIN.len() + self.time_width + self.lanes.len() * self.lane_width + 2;
        let room = match self.options.width {
            0 => usize::MAX,
            width => width.saturating_sub(indent).max(1),
        };
        let words: Vec<_> = moment.iter().map(|record| self.words(record)).collect();
        let mut texts = wrap(&words, room, self.sign("…", "...")).into_iter();
        line += MARGIN;
        line += &self.paint_text(&texts.next().unwrap_or_default(), moment);
        let rest = texts.map(|text| format!("{:indent$}{}", "", self.paint_text(&text, moment)));
        core::iter::once(line).chain(rest).collect()
    }

    fn lane(&self, state: State) -> String {
        let (sign, colour) = match state {
            State { is_absent: true, .. } => (" ", "90"),
            State { is_down: true, .. } => (self.sign("✗", "x"), "31"),
            State { is_paused: true, .. } => (self.sign("‖", "="), "90"),
            State { band: Band::Waiting, .. } => (self.sign("○", "o"), "33"),
            State { band: Band::Holding, .. } => (self.sign("●", "#"), "32"),
            State { band: Band::Quiet, .. } => (self.sign("·", "."), "90"),
        };
        format!("{}{:width$}", self.paint(sign, colour), "", width = self.lane_width - 1)
    }

    fn words(&self, record: &Record) -> String {
        let who = record.process.map_or_else(String::new, |process| process.to_string());
        let right = self.sign("→", "->");
        let text = match &record.what {
            What::Start => format!("{who} start"),
            What::Request { request, lock } => format!("{who} {request}{}", of_lock(*lock)),
            What::Event { event, fence, lock } => {
                format!("{who} {}{}", event_text(event, fence), of_lock(*lock))
            }
            What::Send(m) => format!("{} {right} {} {}", m.from, m.to, m.label()),
            What::Deliver(m) => format!("{} {} {} {}", m.to, self.sign("←", "<-"), m.from, m.label()),
            What::Drop(m) => format!("{} {right}{} {} {} lost", m.from, self.sign("✗", "x"), m.to, m.label()),
            What::Duplicate(m) => format!("{} {right}{right} {} {} duplicated", m.from, m.to, m.label()),
            What::Timer { timer } => format!("{who} timer {timer}"),
            What::Crash { after } => format!("{who} crash{}", inside_step(*after)),
            What::Restart { life, durable: true } => format!("{who} restart, life {life}"),
            What::Restart { life, durable: false } => {
                format!("{who} restart with nothing saved, life {life}")
            }
            What::Join => format!("{who} joins"),
            What::Pause => format!("{who} pause"),
            What::Resume => format!("{who} resume"),
            What::Suspect { peer, life } => format!("{who} suspects {peer}{}", of_life(*life)),
            What::Trust { peer, life } => format!("{who} trusts {peer}{}", of_life(*life)),
            What::Partition { cut } => format!("network cut {cut}"),
            What::Heal { cut } => format!("cut {cut} healed"),
            What::Clock { deviation } => format!("{who} clock {deviation}"),
            What::Reject { peer, why } => format!("{who} rejects {peer}: {why}"),
            What::Violation { property, detail } => format!("{property} BROKEN: {detail}"),
        };
        one_line(&text) + &self.stamp(record)
    }

    /// The logical time of a message that is sent or arrives.
    fn stamp(&self, record: &Record) -> String {
        match (&record.what, self.options.stamps) {
            (What::Send(_) | What::Deliver(_), Stamps::Lamport) => format!(" ({})", record.lamport),
            (What::Send(_) | What::Deliver(_), Stamps::Vector) => {
                let vector = record.vector.clone().unwrap_or_default();
                let entries: Vec<_> = (0..self.count).map(|place| vector.get(place).to_string()).collect();
                format!(" [{}]", entries.join(","))
            }
            _ => String::new(),
        }
    }

    /// What the signs mean, those that occur.
    fn legend(&self, trace: &Trace) -> String {
        let mut phases: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for phase in trace.records.iter().filter_map(phase_after) {
            let sign = match band(phase) {
                Band::Quiet => self.sign("·", "."),
                Band::Waiting => self.sign("○", "o"),
                Band::Holding => self.sign("●", "#"),
            };
            let names = phases.entry(sign).or_default();
            if !names.contains(&phase) {
                names.push(phase);
            }
        }
        let happens = |is: fn(&What) -> bool| trace.records.iter().any(|record| is(&record.what));
        let mut parts: Vec<String> =
            phases.into_iter().map(|(sign, names)| format!("{sign} {}", names.join(", "))).collect();
        let signs = [
            (happens(|what| matches!(what, What::Crash { .. })), self.sign("✗", "x"), "down"),
            (happens(|what| matches!(what, What::Pause)), self.sign("‖", "="), "paused"),
            (happens(|what| matches!(what, What::Send(_))), self.sign("→", "->"), "sends"),
            (happens(|what| matches!(what, What::Deliver(_))), self.sign("←", "<-"), "receives"),
        ];
        parts.extend(signs.into_iter().filter(|sign| sign.0).map(|(_, sign, word)| format!("{sign} {word}")));
        let line = wrap(&parts, self.room_below(), self.sign("…", "...")).join(&format!("\n{MARGIN}"));
        self.paint(&format!("{MARGIN}{line}"), "90")
    }

    fn room_below(&self) -> usize {
        match self.options.width {
            0 => usize::MAX,
            width => width.saturating_sub(MARGIN.len()).max(1),
        }
    }

    /// Leaves out the middle if there are too many lines.
    fn shorten(&self, mut lines: Vec<String>) -> Vec<String> {
        let most = self.options.max_lines;
        if most == 0 || lines.len() <= most {
            return lines;
        }
        // The head, the line that says what is missing, and at least the last line.
        let kept = most.max(3) - 1;
        let tail = (kept - 1).div_ceil(2);
        let missing = lines.len().saturating_sub(kept);
        if missing == 0 {
            return lines;
        }
        let from = kept - tail;
        let note = format!("{MARGIN}{} {missing} lines left out", self.sign("⋮", ":"));
        lines.splice(from..from + missing, [note]);
        lines
    }

    fn sign(&self, pretty: &'static str, plain: &'static str) -> &'static str {
        if self.options.ascii { plain } else { pretty }
    }

    fn paint(&self, text: &str, colour: &str) -> String {
        if self.options.colour { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Findings and failures stand out.
    fn paint_text(&self, text: &str, moment: &[&Record]) -> String {
        match moment[0].what {
            What::Violation { .. } => self.paint(text, "1;31"),
            What::Crash { .. } | What::Drop(_) | What::Partition { .. } => self.paint(text, "31"),
            _ => text.to_owned(),
        }
    }
}

/// The processes that act first, in ring order.
fn busiest(trace: &Trace, room: usize) -> Vec<NodeId> {
    let mut chosen = BTreeSet::new();
    let acting = trace.records.iter().filter(|record| record.what != What::Start).flat_map(named);
    for process in acting.chain(trace.header.nodes.iter().copied()) {
        if chosen.len() == room {
            break;
        }
        chosen.insert(process);
    }
    trace.header.nodes.iter().copied().filter(|node| chosen.contains(node)).collect()
}

/// Puts as many words on a line as fit; words that fit on no line are cut.
fn wrap(words: &[String], room: usize, ellipsis: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        let word = cut(word, room, ellipsis);
        match lines.last_mut() {
            Some(line) if columns(line) + BETWEEN.len() + columns(&word) <= room => {
                line.push_str(BETWEEN);
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}
