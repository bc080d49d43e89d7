//! The places of columns and lanes, and of the marks along the axis.

use super::area::Line;
use super::layout::{MARGIN, Role, height_of, short, width_of};
use super::story::{Arrow, End, Story};
use super::{Axis, SvgOptions};

/// The usual distance between two moments, in a short run and in a long one.
const GAP: (f64, f64) = (44.0, 34.0);
/// Up to this many moments a run is short.
const SHORT: usize = 60;
const WIDEST_GAP: f64 = 110.0;

/// The places of columns and lanes.
pub(super) struct Frame {
    /// Where each column is.
    pub(super) x: Vec<f64>,
    /// Where each lane is.
    pub(super) y: Vec<f64>,
    /// Where the lanes begin and end.
    pub(super) left: f64,
    pub(super) right: f64,
    /// Above the first lane and below the last, with the room for what belongs to them.
    pub(super) top: f64,
    pub(super) bottom: f64,
    /// The usual distance between two columns.
    pub(super) gap: f64,
    pub(super) width: f64,
    /// The times to write at the axis.
    pub(super) ticks: Vec<(f64, u64)>,
    /// Rows above the lanes for what concerns all of them.
    pub(super) strip: Vec<(f64, usize)>,
}

impl Frame {
    pub(super) fn new(story: &Story, options: &SvgOptions, stretch: f64) -> Self {
        let names = story.lanes.iter().map(|lane| width_of(Role::Lane, &lane.to_string()));
        let name = names.fold(24.0, f64::max) + 12.0;
        let left = MARGIN + name;
        let count = story.columns.len().max(1) as f64;
        let least = if options.width.is_finite() { options.width.clamp(320.0, 100_000.0) } else { 720.0 };
        let usual = if story.columns.len() <= SHORT { GAP.0 } else { GAP.1 };
        let gap = ((least - left - name - MARGIN) / (count + 0.8)).clamp(usual, WIDEST_GAP) * stretch;
        let x = place_columns(&story.columns, options.axis, left + gap * 0.5, gap);
        let end = x.last().copied().unwrap_or(left) + gap;
        let width = (end + name + MARGIN).max(least);
        let right = width - name - MARGIN;
        let strip = place_strip(story, &x, right);
        let rows = strip.iter().map(|(_, row)| row + 1).max().unwrap_or(0);
        let top = MARGIN + height_of(Role::Title) + 10.0 + rows as f64 * height_of(Role::Cut);
        let y: Vec<f64> =
            (0..story.lanes.len()).map(|lane| top + 34.0 + lane as f64 * lane_gap(story)).collect();
        let bottom = y.last().map_or(top, |last| last + 30.0);
        let ticks = match options.axis {
            Axis::Step => column_ticks(&story.columns, &x),
            Axis::Time => round_ticks(&story.columns, &x),
        };
        Self { x, y, left, right, top, bottom, gap, width, ticks, strip }
    }

    /// The column, or the end of the drawing.
    pub(super) fn x_or_end(&self, column: Option<usize>) -> f64 {
        column.map_or(self.right, |column| self.x[column])
    }

    /// The way of a message as far as it is drawn.
    pub(super) fn line(&self, arrow: &Arrow) -> Line {
        let from = (self.x[arrow.start], self.y[arrow.from]);
        let to = self.y[arrow.to];
        match arrow.end {
            End::Arrived(column) => Line { from, to: (self.x[column], to) },
            // Where exactly a message is lost nobody knows; between the two it is sure to be.
            End::Lost(column) => {
                let way = Line { from, to: (self.x[column].max(from.0 + self.gap * 0.9), to) };
                Line { from, to: way.at(0.62) }
            }
            End::OnTheWay => {
                let way = Line { from, to: (self.right, to) };
                Line { from, to: (self.right, way.at(0.85).1) }
            }
        }
    }
}

/// Few lanes stand further apart: it looks better, and there is room.
fn lane_gap(story: &Story) -> f64 {
    match story.lanes.len() {
        0..=3 => 104.0,
        4..=5 => 78.0,
        _ => 66.0,
    }
}

fn place_columns(times: &[u64], axis: Axis, start: f64, gap: f64) -> Vec<f64> {
    let (first, last) = (times.first().copied().unwrap_or(0), times.last().copied().unwrap_or(0));
    let scale = match last - first {
        0 => 0.0,
        total => gap * (times.len() as f64 - 1.0) / total as f64,
    };
    let mut x = Vec::with_capacity(times.len());
    let mut at = start;
    for (column, time) in times.iter().enumerate() {
        if column > 0 {
            at += match axis {
                Axis::Step => gap,
                Axis::Time => ((time - times[column - 1]) as f64 * scale).max(gap * 0.6),
            };
        }
        x.push(at);
    }
    x
}

/// A tick at every moment of its own time.
fn column_ticks(times: &[u64], x: &[f64]) -> Vec<(f64, u64)> {
    let mut ticks: Vec<(f64, u64)> = Vec::new();
    for (time, x) in times.iter().zip(x) {
        if ticks.last().is_none_or(|(_, last)| last != time) {
            ticks.push((*x, *time));
        }
    }
    ticks
}

/// Ticks at round times; between two moments time passes evenly.
fn round_ticks(times: &[u64], x: &[f64]) -> Vec<(f64, u64)> {
    let (Some(&first), Some(&last)) = (times.first(), times.last()) else { return Vec::new() };
    let width = x[x.len() - 1] - x[0];
    let wanted = ((last - first) as f64 / (width / 80.0).max(1.0)).max(1.0);
    let step = round_step(wanted);
    let mut ticks = Vec::new();
    let mut column = 0;
    let mut time = first.div_ceil(step).saturating_mul(step);
    while time <= last {
        while column + 1 < times.len() && times[column + 1] <= time {
            column += 1;
        }
        let here = match times.get(column + 1) {
            // Of several moments at the same time, the tick stands at the first.
            _ if times[column] == time => x[times.partition_point(|earlier| *earlier < time)],
            Some(next) => {
                let part = (time - times[column]) as f64 / (next - times[column]) as f64;
                x[column] + part * (x[column + 1] - x[column])
            }
            None => x[column],
        };
        ticks.push((here, time));
        let Some(next) = time.checked_add(step) else { break };
        time = next;
    }
    ticks
}

/// The next of 1, 2, 5, 10, 20, 50, ...
fn round_step(wanted: f64) -> u64 {
    let mut power = 1u64;
    loop {
        for factor in [1, 2, 5] {
            let step = power.saturating_mul(factor);
            if step as f64 >= wanted || step == u64::MAX {
                return step;
            }
        }
        power = power.saturating_mul(10);
    }
}

/// The texts above the lanes, from left to right: cuts, and the codes of broken properties.
pub(super) fn strip_texts(story: &Story) -> Vec<(usize, Role, String)> {
    let cuts = story.cuts.iter().map(|cut| (cut.start, Role::Cut, short(&cut.text)));
    let findings =
        story.findings.iter().map(|finding| (finding.column, Role::Finding, short(&finding.property)));
    let mut texts: Vec<_> = cuts.chain(findings).collect();
    texts.sort();
    texts.dedup();
    texts
}

/// Finds each text above the lanes its x and its row: the first row in which it is free.
fn place_strip(story: &Story, x: &[f64], right: f64) -> Vec<(f64, usize)> {
    // Where the last text of each row ends.
    let mut rows: Vec<f64> = Vec::new();
    let mut placed = Vec::new();
    for (column, role, text) in strip_texts(story) {
        let width = width_of(role, &text) + 6.0;
        let from = (x[column] + 3.0).min(right - width).max(MARGIN);
        let row = rows.iter().position(|end| from >= *end).unwrap_or_else(|| {
            rows.push(0.0);
            rows.len() - 1
        });
        rows[row] = from + width;
        placed.push((from, row));
    }
    placed
}
