//! What a run is reported to have cost and shown.

use std::any::Any;
use std::collections::BTreeMap;

use conclave_algorithms::measure::{Measured, Part, Unit, round, serialize_fields};
use conclave_algorithms::{Finding, Judgement};
use conclave_core::NodeId;
use conclave_trace::Header;
use serde::{Serialize, Serializer};

use crate::metrics::Traffic;
use crate::timed::Rest;

/// The report of one run; programs read it as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The name of the algorithm.
    pub algorithm: String,
    /// The mutant that ran instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mutant: Option<String>,
    /// The settings that were given.
    pub settings: BTreeMap<String, String>,
    /// How many processes.
    pub nodes: usize,
    /// The seed.
    pub seed: u64,
    /// `fifo` or `any`.
    pub channels: String,
    /// What messages are counted by.
    #[serde(skip)]
    pub unit: Unit,
    /// What belongs to the family.
    #[serde(flatten)]
    pub part: FamilyPart,
    /// The algorithm's own messages.
    pub messages: u64,
    /// Probes, acknowledgements and the like.
    pub overhead_messages: u64,
    /// All of them, by kind.
    pub messages_by_kind: BTreeMap<&'static str, u64>,
    /// What the literature gives, per entry or per run of elections.
    pub formula: FormulaReport,
    /// Messages lost.
    pub dropped: u64,
    /// Copies made by the network.
    pub duplicated: u64,
    /// Messages sent or received, by process; left out for more than a thousand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub load_by_process: Vec<u64>,
    /// Virtual time of the run in milliseconds.
    pub virtual_time: f64,
    /// Inputs handled.
    pub events: u64,
    /// Real time of the run.
    pub wall_seconds: f64,
    /// How it ended: `done`, `stuck`, `out of patience`, `out of events`, `stopped`.
    pub ending: &'static str,
    /// What was promised, and whether it held.
    pub properties: Vec<Property>,
    /// What was not promised, and whether it happened to hold.
    pub not_promised: Vec<Property>,
    /// Planned requests that were not made, because their process was down or not there then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unasked: Vec<Unasked>,
    /// A fingerprint of all that happened.
    pub trace_digest: String,
}

/// A planned request that was not made.
#[derive(Clone, Debug, Serialize)]
pub struct Unasked {
    /// Of whom.
    pub process: NodeId,
    /// When, in milliseconds.
    pub at: f64,
    /// In the words of the family.
    pub request: String,
}

/// What a family measured.
#[derive(Debug)]
pub struct FamilyPart(pub Box<dyn Part>);

impl Clone for FamilyPart {
    fn clone(&self) -> Self {
        Self(self.0.boxed())
    }
}

impl Serialize for FamilyPart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_fields(&self.0.fields(), serializer)
    }
}

/// What a formula gives, beside what was measured.
#[derive(Clone, Debug, Serialize)]
pub struct FormulaReport {
    /// In words.
    pub text: &'static str,
    /// The number, if there is just one.
    pub exact: Option<f64>,
    /// At least.
    pub low: f64,
    /// At most, if there is a bound.
    pub high: Option<f64>,
    /// On average over runs of this kind, where the literature gives that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Whether the measured number agrees; nothing if they cannot be compared: nobody entered, or faults were injected.
    pub agrees: Option<bool>,
}

/// A property and what the run showed of it.
#[derive(Clone, Debug, Serialize)]
pub struct Property {
    /// Its code.
    pub name: &'static str,
    /// Its claim.
    pub claim: &'static str,
    /// Whether it held; nothing if the run could not tell.
    pub holds: Option<bool>,
    /// More about it.
    pub detail: String,
}

impl Report {
    /// Whether everything that was promised held, or could not be told.
    #[must_use]
    pub fn all_held(&self) -> bool {
        self.properties.iter().all(|property| property.holds != Some(false))
    }

    /// What its family measured, as the type that it is.
    #[must_use]
    pub fn part<T: Part>(&self) -> Option<&T> {
        (&*self.part.0 as &dyn Any).downcast_ref()
    }
}

/// What a report is made from, beside what the family measured.
pub(crate) struct Facts<'a> {
    pub header: &'a Header,
    pub nodes: usize,
    pub traffic: &'a Traffic,
    pub rest: Rest,
    pub virtual_time: u64,
    pub wall_seconds: f64,
    pub digest: u64,
    pub judgements: Vec<Judgement>,
    pub unasked: Vec<(u64, NodeId, String)>,
}

/// More numbers than that are no report.
const MOST_LISTED: usize = 1_000;

impl Facts<'_> {
    pub fn report(self, measured: Measured) -> Report {
        let traffic = self.traffic;
        let formula = formula(&measured, self.rest);
        let (promised, other): (Vec<_>, Vec<_>) = self.judgements.into_iter().partition(|j| j.promised);
        let load = traffic.load();
        Report {
            algorithm: self.header.algorithm.clone(),
            mutant: self.header.mutant.clone(),
            settings: self.header.settings.clone(),
            nodes: self.nodes,
            seed: self.header.seed.unwrap_or_default(),
            channels: self.header.channels.clone(),
            unit: measured.unit,
            part: FamilyPart(measured.part),
            messages: traffic.messages(),
            overhead_messages: traffic.overhead_messages(),
            messages_by_kind: traffic.kinds().iter().map(|kind| (kind.name, kind.count)).collect(),
            formula,
            dropped: traffic.dropped,
            duplicated: traffic.duplicated,
            load_by_process: if load.len() <= MOST_LISTED { load.to_vec() } else { Vec::new() },
            virtual_time: self.virtual_time as f64 / 1e3,
            events: traffic.events,
            wall_seconds: self.wall_seconds,
            ending: ending_word(self.rest),
            properties: promised.into_iter().map(Property::from).collect(),
            not_promised: other.into_iter().map(Property::from).collect(),
            unasked: self.unasked.into_iter().map(Unasked::new).collect(),
            trace_digest: format!("{:016x}", self.digest),
        }
    }
}

impl Unasked {
    fn new((at, process, request): (u64, NodeId, String)) -> Self {
        Self { process, at: at as f64 / 1e3, request }
    }
}

fn formula(measured: &Measured, rest: Rest) -> FormulaReport {
    let units = measured.unit.count;
    let share = |total: u64| if units == 0 { 0.0 } else { round(total as f64 / units as f64) };
    FormulaReport {
        text: measured.formula.text,
        exact: measured.formula.exact().filter(|_| units > 0).map(share),
        low: share(measured.formula.low),
        high: measured.formula.high.map(share),
        mean: measured.mean.filter(|_| units > 0).map(|total| round(total / units as f64)),
        agrees: measured.agrees.filter(|_| rest == Rest::Done),
    }
}

impl From<Judgement> for Property {
    fn from(judgement: Judgement) -> Self {
        let (holds, detail) = match judgement.finding {
            Finding::Held(detail) => (Some(true), detail),
            Finding::Broken(detail) => (Some(false), detail),
            Finding::Open(detail) => (None, detail),
        };
        Self { name: judgement.property, claim: judgement.claim, holds, detail }
    }
}

fn ending_word(rest: Rest) -> &'static str {
    match rest {
        Rest::Done => "done",
        Rest::Stuck => "stuck",
        Rest::OutOfPatience => "out of patience",
        Rest::OutOfEvents => "out of events",
        Rest::Stopped => "stopped",
    }
}
