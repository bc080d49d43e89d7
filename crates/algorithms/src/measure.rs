//! What a family measures of a run, and how it is shown to people and to programs.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::any::Any;
use core::fmt::Debug;
use core::marker::PhantomData;

use conclave_core::{Members, Moment, NodeId, Observer, Process, Transit};
use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};

use crate::Formula;
use crate::family::{EventOf, Family, MessageOf, Meter};

/// Times of one sort, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timed {
    /// How many.
    pub count: u64,
    /// Their sum in microseconds.
    pub sum: u64,
    /// The longest.
    pub max: u64,
}

impl Timed {
    /// Adds one.
    pub fn add(&mut self, span: u64) {
        self.count += 1;
        self.sum += span;
        self.max = self.max.max(span);
    }

    /// The mean in microseconds, if there was any.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}

/// Times of one sort in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean: Option<f64>,
    /// The longest.
    pub max: f64,
}

impl From<Timed> for Summary {
    fn from(timed: Timed) -> Self {
        Self {
            count: timed.count,
            mean: timed.mean().map(|mean| round(mean / 1e3)),
            max: timed.max as f64 / 1e3,
        }
    }
}

/// Six digits behind the point are more than anyone reads.
#[must_use]
pub fn round(number: f64) -> f64 {
    let millionths = number * 1e6;
    // Beyond that a number has no digits behind the point. Without the standard library there is no `f64::round`.
    if millionths < 9e15 { (millionths + 0.5) as u64 as f64 / 1e6 } else { number }
}

/// What is known of a run when it is over, beyond what a family has seen itself.
#[derive(Clone, Copy, Debug)]
pub struct Ran<'a> {
    /// Who took part from the beginning.
    pub members: &'a Members,
    /// The algorithm's own messages.
    pub messages: u64,
    /// Copies that the network made.
    pub duplicated: u64,
    /// How long it took, in microseconds of virtual time.
    pub time: u64,
    /// How long a message travels on average, if that is the same on all links.
    pub mean_delay: Option<f64>,
    /// Whether anything could go wrong, or anybody come or go.
    pub faulty: bool,
}

/// What a family makes of a finished run.
#[derive(Debug)]
pub struct Measured {
    /// What the messages are counted by.
    pub unit: Unit,
    /// How many messages the literature gives.
    pub formula: Formula,
    /// What the literature gives on average, in all.
    pub mean: Option<f64>,
    /// Whether that many were sent; nothing if the formula does not speak of such a run, with its faults.
    pub agrees: Option<bool>,
    /// What the family has measured beyond messages.
    pub part: Box<dyn Part>,
}

/// What messages are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// How many there were: formulas of the literature are divided by it.
    pub count: u64,
    /// Its name, if messages are shown per unit: `entry`.
    pub name: Option<&'static str>,
    /// What to say if there was none: `nobody entered`.
    pub none: &'static str,
}

impl Unit {
    /// The run as a whole.
    pub const RUN: Self = Self { count: 1, name: None, none: "" };
}

/// Measures a run of a family that has nothing more to say than what was told when.
pub struct PlainMeter<F> {
    formula: Formula,
    events: u64,
    last: Option<(u64, String)>,
    disturbed: bool,
    family: PhantomData<fn() -> F>,
}

impl<F> PlainMeter<F> {
    /// The messages of a run without faults are compared with this.
    #[must_use]
    pub fn new(formula: Formula) -> Self {
        Self { formula, events: 0, last: None, disturbed: false, family: PhantomData }
    }
}

impl<F: Family> Observer<F::Protocol> for PlainMeter<F> {
    fn emit(&mut self, at: &Moment, _process: Process, event: &EventOf<F>) {
        self.events += 1;
        self.last = Some((at.time, F::told(event).to_string()));
    }

    fn crash(&mut self, _at: &Moment, _process: Process) {
        self.disturbed = true;
    }

    fn drop(&mut self, _at: &Moment, _transit: &Transit, _message: &MessageOf<F>) {
        self.disturbed = true;
    }
}

impl<F: Family> Meter<F> for PlainMeter<F> {
    fn measured(&self, _judge: &F::Judge, ran: &Ran<'_>) -> Measured {
        let (at, last) = self.last.clone().unzip();
        let part = PlainReport { events: self.events, last, at: at.map(|at| at as f64 / 1e3) };
        let is_comparable = !self.disturbed && !ran.faulty && ran.duplicated == 0;
        Measured {
            unit: Unit::RUN,
            formula: self.formula,
            mean: None,
            agrees: is_comparable.then(|| self.formula.admits(ran.messages)),
            part: Box::new(part),
        }
    }
}

/// What was told in a run, and when it was told last.
#[derive(Clone, Debug, PartialEq)]
pub struct PlainReport {
    /// How many events.
    pub events: u64,
    /// The last of them.
    pub last: Option<String>,
    /// When, in milliseconds.
    pub at: Option<f64>,
}

impl Part for PlainReport {
    fn rows(&self) -> Vec<Row> {
        let mut rows = alloc::vec![Row::new("events told", [Piece::Count(self.events)])];
        if let Some((last, at)) = self.last.as_ref().zip(self.at) {
            let pieces = [Piece::Text(last.clone()), " at ".into(), Piece::Number(at), " ms".into()];
            rows.push(Row::new("the last", pieces));
        }
        rows
    }

    fn figures(&self) -> Vec<Figure> {
        alloc::vec![Figure::new("last_at", "last event", "ms", self.at)]
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        alloc::vec![
            ("told", self.events.into()),
            ("last", self.last.clone().into()),
            ("last_at", self.at.into()),
        ]
    }

    fn boxed(&self) -> Box<dyn Part> {
        Box::new(self.clone())
    }
}

/// What a family measured of a run.
pub trait Part: Any + Debug + Send + Sync {
    /// For people: a line each.
    fn rows(&self) -> Vec<Row>;

    /// For people: a list below the lines, such as faults and what came of each.
    fn list(&self) -> Option<List> {
        None
    }

    /// The numbers by which a run is compared with others: of other algorithms, of larger groups.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }

    /// For programs.
    fn fields(&self) -> Vec<(&'static str, Value)>;

    /// The same, boxed again.
    fn boxed(&self) -> Box<dyn Part>;
}

/// A number by which runs are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Its name for programs.
    pub key: &'static str,
    /// Its name for people.
    pub label: &'static str,
    /// What it is counted in: `ms`, `hops`.
    pub unit: &'static str,
    /// The number; nothing if the run has none.
    pub value: Option<f64>,
}

impl Figure {
    /// A number of a run.
    #[must_use]
    pub const fn new(key: &'static str, label: &'static str, unit: &'static str, value: Option<f64>) -> Self {
        Self { key, label, unit, value }
    }
}

/// A line of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What was measured.
    pub label: &'static str,
    /// What came out, a piece after the other.
    pub pieces: Vec<Piece>,
}

/// A piece of a line; whoever shows it decides how numbers look.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// As it is.
    Text(String),
    /// A whole number.
    Count(u64),
    /// Any number.
    Number(f64),
    /// Times of one sort.
    Times(Summary),
}

impl Row {
    /// A line of these pieces.
    #[must_use]
    pub fn new(label: &'static str, pieces: impl Into<Vec<Piece>>) -> Self {
        Self { label, pieces: pieces.into() }
    }
}

impl From<&str> for Piece {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

/// A list of things and what came of each.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// What stands above the second column.
    pub title: &'static str,
    /// What, and what came of it.
    pub rows: Vec<(Vec<Piece>, Outcome)>,
}

/// What came of something in a list.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Nothing to worry about.
    Good(Vec<Piece>),
    /// Bad enough to stand out.
    Bad(Vec<Piece>),
}

/// A value for programs.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Count(u64),
    /// Any number.
    Number(f64),
    /// A text.
    Text(String),
    /// Several values.
    List(Vec<Self>),
    /// Values by name.
    Map(Vec<(&'static str, Self)>),
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_none(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Count(count) => serializer.serialize_u64(*count),
            Self::Number(number) => serializer.serialize_f64(*number),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(values) => {
                let mut list = serializer.serialize_seq(Some(values.len()))?;
                values.iter().try_for_each(|value| list.serialize_element(value))?;
                list.end()
            }
            Self::Map(fields) => serialize_fields(fields, serializer),
        }
    }
}

/// Values by name, as a map.
///
/// # Errors
/// If the serializer has some.
pub fn serialize_fields<S: Serializer>(
    fields: &[(&'static str, Value)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(fields.len()))?;
    fields.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
    map.end()
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Piece {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<NodeId> for Value {
    fn from(id: NodeId) -> Self {
        Self::Count(id.0.into())
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Self>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

impl From<Summary> for Value {
    fn from(summary: Summary) -> Self {
        let mut fields = alloc::vec![("count", summary.count.into())];
        fields.extend(summary.mean.map(|mean| ("mean", mean.into())));
        fields.push(("max", summary.max.into()));
        Self::Map(fields)
    }
}

/// A whole number with its thousands set apart.
#[must_use]
pub fn grouped(count: u64) -> String {
    let digits = alloc::format!("{count}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
