//! What a run is reported to have cost and shown.

use std::collections::BTreeMap;

use conclave_algorithms::family::Family;
use conclave_algorithms::mutex::Load;
use conclave_algorithms::{Finding, Formula, Judgement};
use conclave_core::NodeId;
use conclave_trace::Header;
use serde::{Serialize, Serializer};

use crate::locking::round;
use crate::metrics::Timed;
use crate::outages::{Fault, Outage};
use crate::plan::Plan;
use crate::run::Finished;
use crate::timed::Rest;

/// The report of one run; programs read it as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The name of the algorithm.
    pub algorithm: String,
    /// The broken twin that ran instead.
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
    /// What belongs to the family.
    #[serde(flatten)]
    pub part: Part,
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
    /// A fingerprint of all that happened.
    pub trace_digest: String,
}

/// What is reported of one family only.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Part {
    /// Mutual exclusion.
    Locks(LockReport),
    /// Elections.
    Election(ElectionReport),
}

/// What is reported of mutual exclusion.
#[derive(Clone, Debug, Serialize)]
pub struct LockReport {
    /// How many locks.
    pub locks: usize,
    /// `light`, `open` or `saturated`.
    pub load: &'static str,
    /// Entries made, by all.
    pub entries: u64,
    /// Entries made, by process; left out for more than a thousand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub entries_by_process: Vec<u64>,
    /// Entries that were not granted in direct answer to their own request.
    pub waited: u64,
    /// The algorithm's own messages, per entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_per_entry: Option<f64>,
    /// Request to entry, in milliseconds.
    pub client_delay: Summary,
    /// Exit to the next entry while somebody waits, in milliseconds.
    pub sync_delay: Summary,
    /// The same in mean message delays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_delay_hops: Option<f64>,
    /// Request to exit, in milliseconds.
    pub response: Summary,
    /// The most entries by others that a known request had to see.
    pub max_overtaking: u64,
    /// Entries per second of virtual time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<f64>,
    /// Entries whose fence was old: the resource refused what they wrote.
    pub refused_by_fence: u64,
    /// What disturbed the run, and how long nobody could enter because of it.
    pub outages: Vec<OutageReport>,
    /// Whether anything could go wrong, or anybody come or go.
    #[serde(skip)]
    pub disturbed: bool,
}

/// A fault, and how long nobody entered after it although somebody waited.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutageReport {
    /// What happened.
    pub fault: String,
    /// When, in milliseconds.
    pub at: f64,
    /// How long nobody entered: milliseconds, or `none`, or `never` if nobody entered again.
    #[serde(serialize_with = "milliseconds_or_word")]
    pub outage: Outage,
}

impl From<Fault> for OutageReport {
    fn from(fault: Fault) -> Self {
        Self { fault: fault.text, at: fault.at as f64 / 1e3, outage: fault.outage }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn milliseconds_or_word<S: Serializer>(outage: &Outage, serializer: S) -> Result<S::Ok, S::Error> {
    match outage {
        Outage::None => serializer.serialize_str("none"),
        Outage::Lasted(span) => serializer.serialize_f64(*span as f64 / 1e3),
        Outage::Never => serializer.serialize_str("never"),
    }
}

/// What is reported of elections.
#[derive(Clone, Debug, Serialize)]
pub struct ElectionReport {
    /// How many elections were begun: calls, time-outs and suspicions that made somebody take part.
    pub elections: u64,
    /// Who leads in the end, if all who are alive agree.
    pub leader: Option<NodeId>,
    /// The same where several lead, the highest first.
    pub leaders: Vec<NodeId>,
    /// The largest term that anybody was told of; 0 if the algorithm has none.
    pub term: u64,
    /// The longest chain of messages, each sent because of the one before; time-outs do not break a chain.
    pub turnaround_hops: u32,
    /// From the first call to the last process that learnt of the leader, in milliseconds.
    pub turnaround: f64,
    /// How long two living processes believed in different leaders, in milliseconds.
    pub disagreement: f64,
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

/// Times of one sort in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Summary {
    /// How many.
    pub count: u64,
    /// Their mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// The longest.
    pub max: f64,
}

impl Report {
    /// Whether everything that was promised held, or could not be told.
    #[must_use]
    pub fn all_held(&self) -> bool {
        self.properties.iter().all(|property| property.holds != Some(false))
    }

    /// What is reported of mutual exclusion, if that is what ran.
    #[must_use]
    pub fn locks(&self) -> Option<&LockReport> {
        match &self.part {
            Part::Locks(part) => Some(part),
            Part::Election(_) => None,
        }
    }

    /// What is reported of elections, if that is what ran.
    #[must_use]
    pub fn election(&self) -> Option<&ElectionReport> {
        match &self.part {
            Part::Election(part) => Some(part),
            Part::Locks(_) => None,
        }
    }
}

/// How many units (entries, runs) a formula's totals are divided by.
pub(crate) struct PerUnit(pub u64);

/// What a report is made from, beside the finished run.
pub(crate) struct Facts<'a> {
    pub header: &'a Header,
    pub plan: &'a Plan,
    pub formula: Formula,
    /// What the literature gives on average, in all.
    pub mean: Option<f64>,
    pub unit: PerUnit,
    /// Whether a formula for runs without faults can be held against this one.
    pub comparable: bool,
    pub judgements: Vec<Judgement>,
}

/// More numbers than that are no report.
pub(crate) const MOST_LISTED: usize = 1_000;

impl Facts<'_> {
    pub fn report<F: Family, M>(self, finished: &Finished<F, M>, part: Part) -> Report {
        let traffic = &finished.traffic;
        let formula = self.formula(traffic.messages(), finished.rest);
        let (promised, other): (Vec<_>, Vec<_>) = self.judgements.into_iter().partition(|j| j.promised);
        let load = traffic.load();
        Report {
            algorithm: self.header.algorithm.clone(),
            mutant: self.header.mutant.clone(),
            settings: self.header.settings.clone(),
            nodes: self.plan.members.len(),
            seed: self.plan.seed,
            channels: self.header.channels.clone(),
            part,
            messages: traffic.messages(),
            overhead_messages: traffic.overhead_messages(),
            messages_by_kind: traffic.kinds().iter().map(|kind| (kind.name, kind.count)).collect(),
            formula,
            dropped: traffic.dropped,
            duplicated: traffic.duplicated,
            load_by_process: if load.len() <= MOST_LISTED { load.to_vec() } else { Vec::new() },
            virtual_time: finished.virtual_time as f64 / 1e3,
            events: traffic.events,
            wall_seconds: finished.wall_seconds,
            ending: ending_word(finished.rest),
            properties: promised.into_iter().map(Property::from).collect(),
            not_promised: other.into_iter().map(Property::from).collect(),
            trace_digest: format!("{:016x}", finished.digest),
        }
    }

    fn formula(&self, messages: u64, rest: Rest) -> FormulaReport {
        let PerUnit(units) = self.unit;
        let share = |total: u64| if units == 0 { 0.0 } else { round(total as f64 / units as f64) };
        let comparable = self.comparable && rest == Rest::Done;
        FormulaReport {
            text: self.formula.text,
            exact: self.formula.exact().filter(|_| units > 0).map(share),
            low: share(self.formula.low),
            high: self.formula.high.map(share),
            mean: self.mean.filter(|_| units > 0).map(|total| round(total / units as f64)),
            agrees: comparable.then(|| self.formula.admits(messages)),
        }
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

impl From<Timed> for Summary {
    fn from(timed: Timed) -> Self {
        Self {
            count: timed.count,
            mean: timed.mean().map(|mean| round(mean / 1e3)),
            max: timed.max as f64 / 1e3,
        }
    }
}

/// The name of a load on the command line.
#[must_use]
pub fn load_word(load: Load) -> &'static str {
    match load {
        Load::Light => "light",
        Load::Open => "open",
        Load::Saturated => "saturated",
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
