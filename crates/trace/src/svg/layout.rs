//! A free place for every text.

use conclave_core::Band;

use crate::text::{columns, cut, milliseconds, one_line};

use super::area::{Area, Grid, Line};
use super::frame::{Frame, strip_texts};
use super::shapes::{self, Item};
use super::story::{Arrow, End, Finding, Span, Story};

/// A drawing before it is written down.
#[derive(Debug)]
pub struct Layout {
    /// Its width in pixels.
    pub width: f64,
    /// Its height in pixels.
    pub height: f64,
    /// Every text in it. No two overlap.
    pub labels: Vec<Label>,
    /// How many texts found no free place; what they say is in the tooltips.
    pub left_out: usize,
    pub(super) items: Vec<Item>,
}

/// A text in a drawing.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// What it is for.
    pub role: Role,
    /// What it says.
    pub text: String,
    /// The room that it takes.
    pub area: Area,
    /// More about it, for a tooltip.
    pub title: String,
}

/// What a text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The title of the drawing.
    Title,
    /// The name of a process.
    Lane,
    /// A time at the axis.
    Tick,
    /// An entry of the legend.
    Legend,
    /// A cut of the network.
    Cut,
    /// The code of a broken property, or the sentence about it.
    Finding,
    /// The fence inside a band.
    Fence,
    /// What happened to a process.
    Note,
    /// A logical time.
    Stamp,
    /// A message; its kind is the number of its colour.
    Message(usize),
}

impl Role {
    /// The height of its letters.
    pub(super) fn size(self) -> f64 {
        match self {
            Self::Title => 15.0,
            Self::Lane => 13.0,
            Self::Tick | Self::Fence | Self::Stamp => 9.5,
            Self::Legend | Self::Cut | Self::Finding | Self::Note | Self::Message(_) => 11.0,
        }
    }
}

/// No usual fixed-width font is wider than this part of its height.
const LETTER: f64 = 0.62;
/// From the top of the tallest letter to the bottom of the lowest.
const LINE: f64 = 1.2;
/// A longer text is cut; the tooltip has all of it.
const MOST_LETTERS: usize = 26;

pub(super) fn width_of(role: Role, text: &str) -> f64 {
    columns(text) as f64 * role.size() * LETTER
}

pub(super) fn height_of(role: Role) -> f64 {
    role.size() * LINE
}

/// Half the height of a band.
pub(super) const BAND: f64 = 7.0;
/// What is kept free of loose text around a lane, to each side.
const SHOULDER: f64 = 10.0;
pub(super) const MARGIN: f64 = 14.0;
/// The width of the picture before an entry of the legend.
pub(super) const SWATCH: f64 = 26.0;

pub(super) fn short(text: &str) -> String {
    cut(&one_line(text), MOST_LETTERS, "…")
}

impl Layout {
    pub(super) fn new(story: &Story, frame: &Frame, title: &str) -> Self {
        let mut setter = Setter { story, frame, grid: Grid::default(), labels: Vec::new(), left_out: 0 };
        setter.set_title(title);
        setter.set_lanes();
        setter.set_strip();
        let below = setter.set_ticks();
        let legend = shapes::legend(story);
        let (below, swatches) = setter.set_legend(&legend, below);
        let height = setter.set_findings(below) + MARGIN;
        setter.reserve();
        setter.set_fences();
        setter.set_notes();
        setter.set_stamps();
        setter.set_messages();
        let Setter { labels, left_out, .. } = setter;
        let mut items = shapes::shapes(story, frame);
        let pictures = legend.iter().zip(swatches);
        items.extend(pictures.map(|((swatch, _), (x, y))| shapes::swatch(*swatch, x, y)));
        items.extend(frame.ticks.iter().map(|(x, _)| shapes::tick(*x, frame.bottom)));
        Self { width: frame.width, height, labels, left_out, items }
    }
}

/// Puts texts into the drawing, one after the other.
struct Setter<'a> {
    story: &'a Story,
    frame: &'a Frame,
    grid: Grid,
    labels: Vec<Label>,
    left_out: usize,
}

impl Setter<'_> {
    fn set(&mut self, role: Role, text: String, x: f64, y: f64, title: &str) {
        let area = Area { x, y, width: width_of(role, &text), height: height_of(role) };
        self.grid.add(area);
        self.labels.push(Label { role, text, area, title: title.to_owned() });
    }

    fn set_title(&mut self, title: &str) {
        let room = (self.frame.width - 2.0 * MARGIN) / (Role::Title.size() * LETTER);
        self.set(Role::Title, cut(&one_line(title), room as usize, "…"), MARGIN, MARGIN, title);
    }

    fn set_lanes(&mut self) {
        for (lane, y) in self.story.lanes.iter().zip(self.frame.y.clone()) {
            let text = lane.to_string();
            let (width, top) = (width_of(Role::Lane, &text), y - height_of(Role::Lane) / 2.0);
            self.set(Role::Lane, text.clone(), self.frame.left - 8.0 - width, top, "");
            self.set(Role::Lane, text, self.frame.right + 8.0, top, "");
        }
    }

    fn set_strip(&mut self) {
        let rows = self.frame.strip.iter().map(|(_, row)| row + 1).max().unwrap_or(0);
        for ((_, role, text), (x, row)) in strip_texts(self.story).into_iter().zip(self.frame.strip.clone()) {
            let y = self.frame.top - (rows - row) as f64 * height_of(role);
            self.set(role, text.clone(), x, y, &text);
        }
    }

    /// Gives the place below.
    fn set_ticks(&mut self) -> f64 {
        let y = self.frame.bottom + 8.0;
        self.set(Role::Tick, "ms".to_owned(), MARGIN, y, "time in milliseconds");
        let mut free = MARGIN + width_of(Role::Tick, "ms") + 8.0;
        for (x, time) in &self.frame.ticks {
            let text = milliseconds(*time);
            let width = width_of(Role::Tick, &text);
            if x - width / 2.0 >= free && x + width / 2.0 < self.frame.width {
                free = x + width / 2.0 + 8.0;
                self.set(Role::Tick, text, x - width / 2.0, y, "");
            }
        }
        y + height_of(Role::Tick) + 12.0
    }

    /// Gives the place below, and where the pictures go.
    fn set_legend(&mut self, legend: &[(shapes::Swatch, String)], top: f64) -> (f64, Vec<(f64, f64)>) {
        let (mut x, mut y) = (MARGIN, top);
        let step = height_of(Role::Legend) + 5.0;
        let mut swatches = Vec::new();
        for (_, text) in legend {
            let text = short(text);
            let width = SWATCH + 6.0 + width_of(Role::Legend, &text);
            if x > MARGIN && x + width > self.frame.width - MARGIN {
                (x, y) = (MARGIN, y + step);
            }
            swatches.push((x, y + height_of(Role::Legend) / 2.0));
            self.set(Role::Legend, text, x + SWATCH + 6.0, y, "");
            x += width + 18.0;
        }
        (if legend.is_empty() { y } else { y + step }, swatches)
    }

    /// The sentences about what is broken; gives the place below.
    fn set_findings(&mut self, top: f64) -> f64 {
        const MOST: usize = 6;
        let mut y = top + 4.0;
        let room = ((self.frame.width - 2.0 * MARGIN) / (Role::Finding.size() * LETTER)) as usize;
        let sentence =
            |f: &Finding| format!("{} broken at {} ms: {}", f.property, milliseconds(f.time), f.detail);
        let mut sentences: Vec<_> = self.story.findings.iter().take(MOST).map(sentence).collect();
        if self.story.findings.len() > MOST {
            sentences.push(format!("and {} more", self.story.findings.len() - MOST));
        }
        for sentence in sentences {
            for line in fold(&one_line(&sentence), room.max(10)) {
                self.set(Role::Finding, line, MARGIN, y, "");
                y += height_of(Role::Finding) + 2.0;
            }
        }
        y
    }

    /// Keeps text away from signs that stand between the lanes, and from lines where that can be.
    fn reserve(&mut self) {
        for mark in self.story.marks.iter().filter(|mark| shapes::is_raised(mark.sort)) {
            let (x, y) = (self.frame.x[mark.column], self.frame.y[mark.lane]);
            let top = if mark.is_below { y + 8.0 } else { y - 19.0 };
            self.grid.add(Area { x: x - 5.5, y: top, width: 11.0, height: 11.0 });
        }
        let cuts = self.story.cuts.iter().flat_map(|cut| [Some(cut.start), cut.end]).flatten();
        let walls: Vec<usize> =
            cuts.chain(self.story.findings.iter().map(|finding| finding.column)).collect();
        for (name, column) in (self.story.arrows.len()..).zip(walls) {
            let x = self.frame.x[column];
            self.grid.add_line(name, Line { from: (x, self.frame.top), to: (x, self.frame.bottom) });
        }
        for (name, arrow) in self.story.arrows.iter().enumerate() {
            let line = self.frame.line(arrow);
            self.grid.add_line(name, line);
            if matches!(arrow.end, End::Lost(_)) {
                let (x, y) = line.to;
                self.grid.add(Area { x: x - 6.0, y: y - 6.0, width: 12.0, height: 12.0 });
            }
        }
    }

    /// A fence stands in its band, between two events, if it fits there.
    fn set_fences(&mut self) {
        let fenced =
            self.story.bands.iter().filter(|band| band.look == Band::Holding && !band.text.is_empty());
        for band in fenced {
            let text = short(&band.text);
            let width = width_of(Role::Fence, &text);
            if let Some(x) = self.room_in(band, width + 8.0) {
                let y = self.frame.y[band.lane] - height_of(Role::Fence) / 2.0;
                self.set(Role::Fence, text, x - width / 2.0, y, &band.text);
            }
        }
    }

    /// The middle of the first stretch of a band without events that is so wide.
    fn room_in(&self, band: &Span, width: f64) -> Option<f64> {
        let end = self.frame.x_or_end(band.end);
        let mut from = self.frame.x[band.start];
        let last = band.end.unwrap_or(self.frame.x.len());
        let inside =
            (band.start + 1..last).filter(|column| self.story.dots.contains_key(&(band.lane, *column)));
        for x in inside.map(|column| self.frame.x[column]).chain([end]) {
            if x - from >= width {
                return Some((from + x) / 2.0);
            }
            from = x;
        }
        None
    }

    fn set_notes(&mut self) {
        for mark in self.story.marks.iter().filter(|mark| !mark.text.is_empty()) {
            let (x, y) = (self.frame.x[mark.column], self.frame.y[mark.lane]);
            let dots = self.story.dots.get(&(mark.lane, mark.column));
            let title = dots.map(|dot| dot.titles.join("\n")).unwrap_or_default();
            self.set_beside(Role::Note, short(&mark.text), (x, y), (7.0, mark.is_below), &title);
        }
    }

    fn set_stamps(&mut self) {
        for ((lane, column), dot) in self.story.dots.iter().filter(|(_, dot)| !dot.stamp.is_empty()) {
            let (x, y) = (self.frame.x[*column], self.frame.y[*lane]);
            let text = cut(&dot.stamp, 2 * MOST_LETTERS, "…");
            self.set_beside(Role::Stamp, text, (x, y), (3.0, false), &dot.titles.join("\n"));
        }
    }

    /// Above or below an event, where it is free and crosses little.
    fn set_beside(
        &mut self,
        role: Role,
        text: String,
        at: (f64, f64),
        (shift, below): (f64, bool),
        title: &str,
    ) {
        let (x, y) = at;
        let (width, height) = (width_of(role, &text), height_of(role));
        let mut best: Option<(f64, Area)> = None;
        let (above_cost, below_cost) = if below { (6.0, 0.0) } else { (0.0, 1.0) };
        let rows = [
            (y - SHOULDER - height, above_cost),
            (y + SHOULDER, below_cost),
            (y - SHOULDER - 2.0 * height, above_cost + 4.0),
            (y + SHOULDER + height, below_cost + 4.0),
        ];
        for (top, row_cost) in rows {
            for (left, side_cost) in [(x + shift, 0.0), (x - shift - width, 2.0), (x - width / 2.0, 3.0)] {
                let area = Area { x: left, y: top, width, height };
                if !self.is_inside(&area) || !self.grid.is_free(&area) {
                    continue;
                }
                let cost = row_cost + side_cost + 3.0 * self.grid.crossings(&area, usize::MAX) as f64;
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, area));
                }
            }
        }
        self.set_best(role, text, best, title);
    }

    fn set_messages(&mut self) {
        for (name, arrow) in self.story.arrows.iter().enumerate() {
            let (role, text) = (Role::Message(arrow.kind), short(&arrow.text));
            let line = self.frame.line(arrow);
            let aim = line.at(if arrow.end == End::OnTheWay { 0.3 } else { 0.55 });
            let mut best: Option<(f64, Area)> = None;
            for Candidate { area, anchor, penalty } in
                self.candidates(arrow, &line, width_of(role, &text), height_of(role))
            {
                if !self.is_inside(&area) || !self.grid.is_free(&area) {
                    continue;
                }
                let distance = (anchor.0 - aim.0).hypot(anchor.1 - aim.1);
                let cost = penalty + distance / 7.0 + 9.0 * self.grid.crossings(&area, name) as f64;
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, area));
                }
            }
            self.set_best(role, text, best, &arrow.title);
        }
    }

    /// Places for the text of a message: between the lanes, to the right of its line, to the left, or on it.
    fn candidates(&self, arrow: &Arrow, line: &Line, width: f64, height: f64) -> Vec<Candidate> {
        const MOST_GAPS: usize = 8;
        let (low, high) = (arrow.from.min(arrow.to), arrow.from.max(arrow.to));
        let middle = (low + high) / 2;
        let mut gaps: Vec<usize> = (low..high).collect();
        gaps.sort_by_key(|gap| gap.abs_diff(middle));
        let mut found = Vec::new();
        for gap in gaps.into_iter().take(MOST_GAPS) {
            let (top, bottom) = (self.frame.y[gap] + SHOULDER, self.frame.y[gap + 1] - SHOULDER);
            let mut y = top;
            while y + height <= bottom {
                add_row(line, Area { x: 0.0, y, width, height }, &mut found);
                y += height / 2.0;
            }
        }
        found
    }

    fn set_best(&mut self, role: Role, text: String, best: Option<(f64, Area)>, title: &str) {
        match best {
            Some((_, area)) => {
                self.grid.add(area);
                self.labels.push(Label { role, text, area, title: title.to_owned() });
            }
            None => self.left_out += 1,
        }
    }

    fn is_inside(&self, area: &Area) -> bool {
        area.x >= self.frame.left
            && area.right() <= self.frame.right
            && area.y >= self.frame.top
            && area.bottom() <= self.frame.bottom
    }
}

/// A place for the text of a message.
struct Candidate {
    area: Area,
    /// The point of the line that it stands at.
    anchor: (f64, f64),
    penalty: f64,
}

/// Adds the places at the height of `area`. Beside a line means that the nearest corner just does not touch it; the
/// flatter the line, the further to the side that is.
fn add_row(line: &Line, area: Area, found: &mut Vec<Candidate>) {
    let (top, bottom) = (line.from.1.min(line.to.1), line.from.1.max(line.to.1));
    let (_, y) = area.centre();
    let x = line.x_at(y.clamp(top, bottom));
    let lean = line.slope().abs() * area.height / 2.0 + 4.0;
    for shift in [0.0, 9.0, 20.0] {
        for near in [x + lean + shift, x - lean - shift - area.width] {
            let area = Area { x: near, ..area };
            // A flat line passes above or below the text, a steep one beside it.
            let part = (area.centre().0 - line.from.0) / (line.to.0 - line.from.0);
            let anchor = if lean > area.width { line.at(part.clamp(0.0, 1.0)) } else { (x, y) };
            found.push(Candidate { area, anchor, penalty: shift / 3.0 });
        }
    }
    found.push(Candidate { area: Area { x: x - area.width / 2.0, ..area }, anchor: (x, y), penalty: 14.0 });
}

/// Breaks a sentence between words, so that no line is longer.
fn fold(text: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let word = cut(word, room, "…");
        match lines.last_mut() {
            Some(line) if columns(line) + 1 + columns(&word) <= room => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}
