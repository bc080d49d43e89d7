//! The space-time diagram: a lane per process, time to the right, an arrow per message.
//!
//! A drawing is made in three steps. The *story* says what there is to draw in columns (moments) and lanes
//! (processes). The *layout* gives every column and lane its place and looks for a free one for every text. What is
//! left is writing it down.

use crate::{Counted, Trace};

mod area;
mod draw;
mod frame;
mod layout;
mod plot;
mod shapes;
mod story;
mod theme;

pub use area::Area;
pub use layout::{Label, Layout, Role};
pub use plot::{Bounds, Plot, Series, Spread};

use frame::Frame;
use story::Story;

/// How a drawing shall look.
#[derive(Clone, Debug, PartialEq)]
pub struct SvgOptions {
    /// Its title; by default the algorithm and the number of processes.
    pub title: Option<String>,
    /// Which logical time to write at the events.
    pub stamps: Stamps,
    /// At which events it is written; a trace without stamps is stamped so, too.
    pub counted: Counted,
    /// What the distances mean.
    pub axis: Axis,
    /// The least width, in pixels; a long run needs more.
    pub width: f64,
    /// The colours.
    pub theme: Theme,
}

impl Default for SvgOptions {
    fn default() -> Self {
        Self {
            title: None,
            stamps: Stamps::None,
            counted: Counted::Everything,
            axis: Axis::Time,
            width: 720.0,
            theme: Theme::Auto,
        }
    }
}

/// Which logical time is written at the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stamps {
    /// None.
    #[default]
    None,
    /// The Lamport stamp.
    Lamport,
    /// The vector stamp.
    Vector,
}

/// What the distances to the right mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Axis {
    /// Time, but no two moments closer than text needs.
    #[default]
    Time,
    /// Order only: all moments are equally far apart.
    Step,
}

/// The colours of a drawing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Light or dark, as the reader's system is set.
    #[default]
    Auto,
    /// Always light.
    Light,
    /// Always dark.
    Dark,
}

/// Up to this many records a drawing that leaves out a text is tried again with more room.
const PATIENCE: usize = 2_000;

/// Draws a trace as SVG.
#[must_use]
pub fn svg(trace: &Trace, options: &SvgOptions) -> String {
    draw::draw(&layout(trace, options), options.theme)
}

/// Where everything in the drawing of a trace stands.
#[must_use]
pub fn layout(trace: &Trace, options: &SvgOptions) -> Layout {
    let stamped;
    let trace = if lacks_stamps(trace, options.stamps) {
        let mut copy = trace.clone();
        copy.stamp_counting(options.counted, options.stamps == Stamps::Vector);
        stamped = copy;
        &stamped
    } else {
        trace
    };
    let story = Story::of(trace, options.stamps, options.counted);
    let title = options.title.clone().unwrap_or_else(|| title(trace, &story));
    let attempt = |stretch: f64| Layout::new(&story, &Frame::new(&story, options, stretch), &title);
    let mut best = attempt(1.0);
    for stretch in [1.25, 1.6, 2.0, 2.6, 3.4] {
        if best.left_out == 0 || trace.records.len() > PATIENCE {
            break;
        }
        let wider = attempt(stretch);
        if wider.left_out < best.left_out {
            best = wider;
        }
    }
    best
}

fn lacks_stamps(trace: &Trace, stamps: Stamps) -> bool {
    let mut lived = trace.records.iter().filter(|record| record.what.is_lived());
    match stamps {
        Stamps::None => false,
        Stamps::Lamport => lived.all(|record| record.lamport == 0),
        Stamps::Vector => lived.any(|record| record.vector.is_none()),
    }
}

fn title(trace: &Trace, story: &Story) -> String {
    let header = &trace.header;
    let founders = header.nodes.len().saturating_sub(header.newcomers.len());
    let mut title = format!("{}, n = {founders}", header.algorithm);
    if !header.newcomers.is_empty() {
        title += &format!(" + {}", header.newcomers.len());
    }
    if let Some(mutant) = &header.mutant {
        title += &format!(", mutant {mutant}");
    }
    let idle = header.nodes.len() - story.lanes.len();
    if idle > 0 {
        title += &format!(" ({idle} idle processes not shown)");
    }
    title
}
