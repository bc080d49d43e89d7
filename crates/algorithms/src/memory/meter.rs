//! What a run is measured by.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use conclave_core::{Input, Moment, Observer, Process};

use crate::Formula;
use crate::family::Meter;
use crate::measure::{Figure, Measured, Part, Piece, Ran, Row, Summary, Timed, Unit, Value, round};

use super::access::Access;
use super::family::Sharing;
use super::judge::MemoryProperties;
use super::machine::{Event, MEMORY, Machine, Request};

/// Counts accesses, and measures how long entries take.
#[derive(Clone, Debug)]
pub struct AccessMeter {
    /// How many accesses an entry takes at least, and whether it is never more.
    least: (u64, bool),
    accesses: u64,
    /// When each process asked last.
    asked: Vec<u64>,
    waited: Timed,
}

impl AccessMeter {
    /// For this many members.
    pub fn new(n: usize, least: (u64, bool)) -> Self {
        Self { least, accesses: 0, asked: vec![0; n], waited: Timed::default() }
    }

    /// Each access is a message there and one back.
    fn formula(&self, entries: u64) -> Formula {
        let (least, is_exact) = self.least;
        let low = 2 * least * entries;
        match is_exact {
            true => Formula::exactly("2 per access", low),
            false => Formula { text: "2 per access", low, high: None },
        }
    }
}

impl Observer<Machine> for AccessMeter {
    fn input(&mut self, at: &Moment, process: Process, input: &Input<Machine>) {
        match input {
            Input::Request(Request::Acquire) => self.asked[process.index()] = at.time,
            Input::Receive { message, .. } if process.id == MEMORY => {
                self.accesses += u64::from(!matches!(message, Access::Value { .. }));
            }
            _ => {}
        }
    }

    fn emit(&mut self, at: &Moment, process: Process, event: &Event) {
        if *event == Event::Entered {
            self.waited.add(at.time - self.asked[process.index()]);
        }
    }
}

impl Meter<Sharing> for AccessMeter {
    fn measured(&self, judge: &MemoryProperties, ran: &Ran<'_>) -> Measured {
        let entries = judge.entries();
        let formula = self.formula(entries);
        let report = AccessReport {
            entries,
            accesses: self.accesses,
            delay: self.waited.into(),
            overtaking: judge.max_overtaking(),
        };
        Measured {
            unit: Unit { count: entries, name: Some("entry"), none: "nobody entered" },
            formula,
            mean: None,
            agrees: (entries > 0 && !ran.faulty).then(|| formula.admits(ran.messages)),
            part: Box::new(report),
        }
    }
}

/// What is reported.
#[derive(Clone, Debug)]
pub struct AccessReport {
    entries: u64,
    accesses: u64,
    delay: Summary,
    overtaking: u64,
}

impl AccessReport {
    fn per_entry(&self) -> Option<f64> {
        (self.entries > 0).then(|| round(self.accesses as f64 / self.entries as f64))
    }
}

impl Part for AccessReport {
    fn rows(&self) -> Vec<Row> {
        let mut accesses = vec![Piece::Count(self.accesses)];
        if let Some(each) = self.per_entry() {
            accesses.extend([", ".into(), Piece::Number(each), " per entry".into()]);
        }
        vec![
            Row::new("entries", [Piece::Count(self.entries)]),
            Row::new("accesses", accesses),
            Row::new("client delay", [Piece::Times(self.delay)]),
            Row::new("overtaking", [Piece::Text(format!("at most {}", self.overtaking))]),
        ]
    }

    fn figures(&self) -> Vec<Figure> {
        vec![
            Figure::new("accesses", "accesses", "per entry", self.per_entry()),
            Figure::new("client_delay", "client delay", "ms", self.delay.mean),
            Figure::new("overtaking", "overtaking", "", Some(self.overtaking as f64)),
        ]
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        let mut fields = vec![("entries", self.entries.into()), ("accesses", self.accesses.into())];
        fields.extend(self.per_entry().map(|each| ("accesses_per_entry", each.into())));
        fields.push(("client_delay", self.delay.into()));
        fields.push(("max_overtaking", self.overtaking.into()));
        fields
    }

    fn boxed(&self) -> Box<dyn Part> {
        Box::new(self.clone())
    }
}
