//! The lines and figures of a drawing.

use conclave_core::Band;

use crate::text::put;

use super::area::Line;
use super::frame::Frame;
use super::layout::{BAND, SWATCH};
use super::story::{Arrow, End, Mark, Sort, Span, Story};
use super::theme::colour;

/// Figures that belong together, with a tooltip.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) title: String,
    /// Each is one path and the classes that say how it looks.
    pub(super) paths: Vec<(String, String)>,
}

impl Item {
    fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), paths: Vec::new() }
    }

    fn path(mut self, class: impl Into<String>, path: String) -> Self {
        self.paths.push((class.into(), path));
        self
    }
}

/// The picture before an entry of the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Swatch {
    Kind(usize),
    Waiting,
    Holding,
    Lost,
    Copy,
    Late,
    OnTheWay,
    Overhead,
    Down,
    Paused,
    Sign(Sort),
    Cut,
    Finding,
}

/// The entries of the legend: what occurs, and nothing else.
pub(super) fn legend(story: &Story) -> Vec<(Swatch, String)> {
    let mut legend: Vec<(Swatch, String)> = Vec::new();
    let kinds = story.kinds.iter().enumerate().map(|(kind, name)| (Swatch::Kind(kind), name.clone()));
    legend.extend(kinds);
    for band in &story.bands {
        let swatch = if band.look == Band::Holding { Swatch::Holding } else { Swatch::Waiting };
        if !legend.iter().any(|(_, name)| *name == band.name) {
            legend.push((swatch, band.name.clone()));
        }
    }
    let arrow = |is: fn(&Arrow) -> bool| story.arrows.iter().any(is);
    let sign = |sort: Sort| story.marks.iter().any(|mark| mark.sort == sort);
    let marks = [
        (arrow(|a| matches!(a.end, End::Lost(_))), Swatch::Lost, "lost"),
        (arrow(|a| a.is_copy), Swatch::Copy, "second copy"),
        (arrow(|a| a.is_late), Swatch::Late, "overtaken"),
        (arrow(|a| a.end == End::OnTheWay), Swatch::OnTheWay, "still in flight"),
        (arrow(|a| a.is_overhead), Swatch::Overhead, "overhead"),
        (sign(Sort::Request), Swatch::Sign(Sort::Request), "request"),
        (sign(Sort::Event), Swatch::Sign(Sort::Event), "event"),
        (sign(Sort::Timer), Swatch::Sign(Sort::Timer), "timer"),
        (!story.downs.is_empty(), Swatch::Down, "down"),
        (sign(Sort::Restart), Swatch::Sign(Sort::Restart), "restart"),
        (sign(Sort::Join), Swatch::Sign(Sort::Join), "joins"),
        (!story.pauses.is_empty(), Swatch::Paused, "paused"),
        (sign(Sort::Suspicion), Swatch::Sign(Sort::Suspicion), "suspects"),
        (sign(Sort::Trust), Swatch::Sign(Sort::Trust), "trusts again"),
        (sign(Sort::Accusation), Swatch::Sign(Sort::Accusation), "rejects"),
        (!story.cuts.is_empty(), Swatch::Cut, "network cut"),
        (!story.findings.is_empty(), Swatch::Finding, "property broken"),
    ];
    legend.extend(marks.into_iter().filter(|mark| mark.0).map(|(_, swatch, name)| (swatch, name.to_owned())));
    legend
}

/// The picture of an entry, with its left middle here.
pub(super) fn swatch(swatch: Swatch, x: f64, y: f64) -> Item {
    let line = Line { from: (x, y), to: (x + SWATCH, y) };
    let middle = (x + SWATCH / 2.0, y);
    let item = Item::new("");
    match swatch {
        Swatch::Kind(kind) => {
            item.path(ink("arrow", kind), straight(&line)).path(ink("head", kind), head(&line))
        }
        Swatch::Waiting => item.path("waiting", bar(x, line.to.0, y)),
        Swatch::Holding => item.path("holding", bar(x, line.to.0, y)),
        Swatch::Lost => item.path("arrow plain dashed", straight(&line)).path("cross", cross(middle, 4.0)),
        Swatch::Copy => item.path("arrow plain double", straight(&line)).path("inner", straight(&line)),
        Swatch::Late => item.path("arrow plain dotted", straight(&line)),
        Swatch::OnTheWay => item.path("arrow plain dashed", straight(&line)),
        Swatch::Overhead => item.path("arrow plain overhead", straight(&line)),
        Swatch::Down => item.path("down", straight(&line)).path("cross", cross((x + 5.0, y), 4.0)),
        Swatch::Paused => item.path("paused", bar(x, line.to.0, y)),
        Swatch::Sign(sort) => {
            let lane = y + if is_raised(sort) { 12.0 } else { 0.0 };
            let (class, path) = sign(sort, (middle.0, lane), -1.0);
            item.path(class, path)
        }
        Swatch::Cut => item
            .path("cut", rectangle(x, y - 6.0, x + SWATCH, y + 6.0))
            .path("wall", upright(x, y - 6.0, y + 6.0)),
        Swatch::Finding => item.path("finding", upright(middle.0, y - 7.0, y + 7.0)),
    }
}

/// Everything between the title and the axis, from back to front.
pub(super) fn shapes(story: &Story, frame: &Frame) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    items.extend(story.cuts.iter().map(|cut| cut_item(cut, frame)));
    items.push(
        Item::new("").path(
            "axis",
            straight(&Line { from: (frame.left, frame.bottom), to: (frame.right, frame.bottom) }),
        ),
    );
    items.extend(lane_items(story, frame));
    items.extend(story.pauses.iter().map(|pause| bar_item("paused", pause, frame)));
    items.extend(
        story.bands.iter().map(|band| {
            bar_item(if band.look == Band::Holding { "holding" } else { "waiting" }, band, frame)
        }),
    );
    items.extend(story.findings.iter().map(|finding| {
        let title = format!("{}: {}", finding.property, finding.detail);
        Item::new(title).path("finding", upright(frame.x[finding.column], frame.top, frame.bottom))
    }));
    items.extend(story.arrows.iter().map(|arrow| arrow_item(arrow, frame)));
    items.extend(story.dots.iter().map(|((lane, column), dot)| {
        Item::new(dot.titles.join("\n")).path("dot", circle((frame.x[*column], frame.y[*lane]), 2.8))
    }));
    items.extend(story.marks.iter().map(|mark| mark_item(mark, story, frame)));
    items
}

pub(super) fn tick(x: f64, y: f64) -> Item {
    Item::new("").path("axis", upright(x, y, y + 5.0))
}

fn cut_item(cut: &Span, frame: &Frame) -> Item {
    let (from, to) = (frame.x[cut.start], frame.x_or_end(cut.end));
    let item = Item::new(format!("network cut {}", cut.name))
        .path("cut", rectangle(from, frame.top, to, frame.bottom))
        .path("wall", upright(from, frame.top, frame.bottom));
    match cut.end {
        Some(_) => item.path("wall healed", upright(to, frame.top, frame.bottom)),
        None => item,
    }
}

/// A lane is a line while its process is up, a faint one while it is down, and none while it is not there.
fn lane_items(story: &Story, frame: &Frame) -> Vec<Item> {
    let mut gaps: Vec<Vec<(f64, f64, bool)>> = vec![Vec::new(); story.lanes.len()];
    for down in &story.downs {
        gaps[down.lane].push((frame.x[down.start], frame.x_or_end(down.end), true));
    }
    for absence in &story.absences {
        let start = absence.start.map_or(frame.left, |column| frame.x[column]);
        gaps[absence.lane].push((start, frame.x_or_end(absence.end), false));
    }
    let mut items = Vec::new();
    for ((lane, mut gaps), y) in story.lanes.iter().zip(gaps).zip(&frame.y) {
        gaps.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut item = Item::new(lane.to_string());
        let mut from = frame.left;
        for (start, end, is_drawn) in gaps {
            if start > from {
                item = item.path("lane", straight(&Line { from: (from, *y), to: (start, *y) }));
            }
            if is_drawn {
                item = item.path("down", straight(&Line { from: (start, *y), to: (end, *y) }));
            }
            from = end;
        }
        if from < frame.right {
            item = item.path("lane", straight(&Line { from: (from, *y), to: (frame.right, *y) }));
        }
        items.push(item);
    }
    items
}

fn bar_item(class: &str, span: &Span, frame: &Frame) -> Item {
    let title = if span.text.is_empty() { span.name.clone() } else { format!("{} {}", span.name, span.text) };
    let (from, to) = (frame.x[span.start], frame.x_or_end(span.end));
    Item::new(title).path(class, bar(from, to, frame.y[span.lane]))
}

fn arrow_item(arrow: &Arrow, frame: &Frame) -> Item {
    let line = frame.line(arrow);
    let class = match arrow {
        Arrow { end: End::Lost(_) | End::OnTheWay, .. } => "arrow dashed",
        Arrow { is_copy: true, .. } => "arrow double",
        Arrow { is_late: true, .. } => "arrow dotted",
        Arrow { is_overhead: true, .. } => "arrow overhead",
        _ => "arrow",
    };
    // A wide line that nobody sees, so that the tooltip is easy to find.
    let item = Item::new(arrow.title.clone())
        .path("reach", straight(&line))
        .path(ink(class, arrow.kind), straight(&line));
    let item = if class == "arrow double" { item.path("inner", straight(&line)) } else { item };
    match arrow.end {
        End::Arrived(_) => item.path(ink("head", arrow.kind), head(&line)),
        End::Lost(_) => item.path("cross", cross(line.to, 4.5)),
        End::OnTheWay => item,
    }
}

fn mark_item(mark: &Mark, story: &Story, frame: &Frame) -> Item {
    let dot = story.dots.get(&(mark.lane, mark.column));
    let side = if mark.is_below { 1.0 } else { -1.0 };
    let (class, path) = sign(mark.sort, (frame.x[mark.column], frame.y[mark.lane]), side);
    Item::new(dot.map(|dot| dot.titles.join("\n")).unwrap_or_default()).path(class, path)
}

/// Whether a sign stands above its lane rather than on it.
pub(super) fn is_raised(sort: Sort) -> bool {
    !matches!(sort, Sort::Crash | Sort::Restart | Sort::Join)
}

/// The sign of a mark for an event at this point of a lane; `side` is -1 above the lane and 1 below it.
fn sign(sort: Sort, (x, y): (f64, f64), side: f64) -> (&'static str, String) {
    let off = |distance: f64| y + side * distance;
    let triangle = || polygon(&[(x, off(18.0)), (x + 5.0, off(9.0)), (x - 5.0, off(9.0))]);
    match sort {
        // The application speaks: a wedge that points to the lane.
        Sort::Request => ("request", polygon(&[(x - 4.0, off(15.5)), (x + 4.0, off(15.5)), (x, off(9.0))])),
        Sort::Event => {
            let cloth = polygon(&[(x, off(18.0)), (x + 6.0, off(15.0)), (x, off(12.0))]);
            ("flag", format!("{}{cloth}", upright(x, off(18.0), off(4.0))))
        }
        // An hourglass.
        Sort::Timer => {
            let (left, right, far, near) = (x - 4.0, x + 4.0, off(17.5), off(8.5));
            ("timer", polygon(&[(left, far), (right, far), (left, near), (right, near)]))
        }
        Sort::Crash => ("cross", cross((x, y), 6.0)),
        Sort::Restart => ("restart", round_arrow(x, y)),
        // The lane begins here.
        Sort::Join => ("restart", polygon(&[(x - 5.0, y - 6.0), (x + 6.0, y), (x - 5.0, y + 6.0)])),
        Sort::Suspicion => ("suspicion", triangle()),
        Sort::Trust => ("trust", triangle()),
        Sort::Accusation => ("cross", cross((x, off(13.5)), 3.5)),
    }
}

fn ink(class: &str, kind: usize) -> String {
    format!("{class} k{}", colour(kind))
}

fn straight(line: &Line) -> String {
    format!("M{:.1} {:.1}L{:.1} {:.1}", line.from.0, line.from.1, line.to.0, line.to.1)
}

fn upright(x: f64, top: f64, bottom: f64) -> String {
    format!("M{x:.1} {top:.1}V{bottom:.1}")
}

fn rectangle(left: f64, top: f64, right: f64, bottom: f64) -> String {
    format!("M{left:.1} {top:.1}H{right:.1}V{bottom:.1}H{left:.1}Z")
}

fn bar(left: f64, right: f64, y: f64) -> String {
    rectangle(left, y - BAND, right, y + BAND)
}

fn circle((x, y): (f64, f64), r: f64) -> String {
    format!("M{:.1} {y:.1}a{r} {r} 0 1 0 {:.1} 0a{r} {r} 0 1 0 {:.1} 0Z", x - r, 2.0 * r, -2.0 * r)
}

fn cross((x, y): (f64, f64), r: f64) -> String {
    let (l, t, b) = (x - r, y - r, y + r);
    format!("M{l:.1} {t:.1}l{0:.1} {0:.1}M{l:.1} {b:.1}l{0:.1} {1:.1}", 2.0 * r, -2.0 * r)
}

/// Three quarters of a circle that end in a point.
fn round_arrow(x: f64, y: f64) -> String {
    let r = 5.5;
    format!("M{x:.1} {:.1}a{r} {r} 0 1 0 {r} {r}m-3.2 3l3.2 -3.6l3.2 3.6", y - r)
}

fn polygon(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (place, (x, y)) in points.iter().enumerate() {
        put(&mut path, format_args!("{}{x:.1} {y:.1}", if place == 0 { 'M' } else { 'L' }));
    }
    path + "Z"
}

/// The point of an arrow, just before the dot of the event that it leads to.
fn head(line: &Line) -> String {
    let (dx, dy) = (line.to.0 - line.from.0, line.to.1 - line.from.1);
    let length = dx.hypot(dy).max(1e-9);
    let (ux, uy) = (dx / length, dy / length);
    let tip = (line.to.0 - ux * 2.5, line.to.1 - uy * 2.5);
    let base = (tip.0 - ux * 9.0, tip.1 - uy * 9.0);
    polygon(&[tip, (base.0 - uy * 3.6, base.1 + ux * 3.6), (base.0 + uy * 3.6, base.1 - ux * 3.6)])
}
