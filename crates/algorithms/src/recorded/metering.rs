//! Measures a run of a recorded algorithm, and keeps its snapshots.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;

use conclave_core::{Moment, Observer, Process, Transit};

use super::family::{Recording, Said, Told, Unrecorded};
use super::judging::RecordingJudge;
use super::{Cut, Recorded, RecordedMessage, Telling};
use crate::erased::{Erased, ErasedMeter};
use crate::family::Meter;
use crate::lens::Seen;
use crate::measure::{Figure, List, Measured, Part, Piece, Ran, Row, Value};

/// The snapshots of a run, and what they took.
#[derive(Debug, Default)]
pub struct Noted {
    /// When each was complete, and what it shows.
    cuts: Vec<(u64, Cut)>,
    markers: u64,
}

impl Observer<Recorded<Erased>> for Noted {
    fn send(&mut self, _at: &Moment, _transit: &Transit, message: &Said) {
        self.markers += u64::from(matches!(message, RecordedMessage::Marker { .. }));
    }

    fn emit(&mut self, at: &Moment, _process: Process, event: &Told) {
        if let Telling::Complete(cut) = event {
            self.cuts.push((at.time, cut.clone()));
        }
    }
}

/// Keeps the snapshots of a run, and measures what the algorithm does.
pub type RecordingMeter = (Noted, Seen<Unrecorded, Box<dyn ErasedMeter>>);

impl Meter<Recording> for RecordingMeter {
    fn measured(&self, (_, judge): &RecordingJudge, ran: &Ran<'_>) -> Measured {
        let (noted, algorithm) = self;
        let measured = algorithm.inner.measured(&*judge.inner, ran);
        let part = Snapshots { inner: measured.part, cuts: noted.cuts.clone(), markers: noted.markers };
        Measured { part: Box::new(part), ..measured }
    }
}

/// What the algorithm measured, and the snapshots that were taken.
#[derive(Debug)]
pub struct Snapshots {
    inner: Box<dyn Part>,
    /// When each was complete, in microseconds, and what it shows.
    pub cuts: Vec<(u64, Cut)>,
    /// How many markers were sent.
    pub markers: u64,
}

impl Part for Snapshots {
    fn rows(&self) -> Vec<Row> {
        let mut rows = self.inner.rows();
        rows.push(Row::new("markers", [Piece::Count(self.markers)]));
        rows.extend(self.cuts.iter().map(|(at, cut)| {
            let time = Piece::Number(*at as f64 / 1e3);
            let verdict = Piece::Text(alloc::format!(" ms: {}", cut.verdict()));
            Row::new("snapshot", [Piece::Text(alloc::format!("{} at ", cut.snapshot)), time, verdict])
        }));
        rows
    }

    fn list(&self) -> Option<List> {
        self.inner.list()
    }

    fn figures(&self) -> Vec<Figure> {
        self.inner.figures()
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        let mut fields = self.inner.fields();
        fields.push(("markers", self.markers.into()));
        let snapshot = |(at, cut): &(u64, Cut)| {
            let lines: Vec<Value> = cut.lines().into_iter().map(Value::from).collect();
            Value::Map(alloc::vec![
                ("snapshot", cut.snapshot.to_string().into()),
                ("at", (*at as f64 / 1e3).into()),
                ("verdict", cut.verdict().into()),
                ("tokens", Value::Count(cut.tokens().values().sum::<usize>() as u64)),
                ("token_lost", cut.has_lost_token().into()),
                ("deadlocked", cut.deadlocked().into()),
                ("missing", cut.missing().into()),
                ("cut", Value::List(lines)),
            ])
        };
        fields.push(("snapshots", Value::List(self.cuts.iter().map(snapshot).collect())));
        fields
    }

    fn boxed(&self) -> Box<dyn Part> {
        Box::new(Self { inner: self.inner.boxed(), cuts: self.cuts.clone(), markers: self.markers })
    }
}
