//! What a run is reported to have cost and shown.

use std::collections::BTreeMap;

use conclave_algorithms::Formula;
use conclave_algorithms::mutex::{Finding, Judgement, Load, Properties};
use conclave_trace::Header;
use serde::Serialize;

use crate::metrics::{Metrics, Timed};
use crate::mutual::Plan;
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
    /// How many locks.
    pub locks: usize,
    /// The seed.
    pub seed: u64,
    /// `light`, `open` or `saturated`.
    pub load: &'static str,
    /// `fifo` or `any`.
    pub channels: String,
    /// Entries made, by all.
    pub entries: u64,
    /// Entries made, by process.
    pub entries_by_process: Vec<u64>,
    /// Entries that were not granted in direct answer to their own request.
    pub waited: u64,
    /// The algorithm's own messages.
    pub messages: u64,
    /// Probes, acknowledgements and the like.
    pub overhead_messages: u64,
    /// All of them, by kind.
    pub messages_by_kind: BTreeMap<&'static str, u64>,
    /// The algorithm's own, per entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_per_entry: Option<f64>,
    /// What the literature gives per entry.
    pub formula: PerEntry,
    /// Messages lost.
    pub dropped: u64,
    /// Copies made by the network.
    pub duplicated: u64,
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
    /// Messages sent or received, by process.
    pub load_by_process: Vec<u64>,
    /// Entries per second of virtual time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<f64>,
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

/// A formula, divided by the number of entries.
#[derive(Clone, Debug, Serialize)]
pub struct PerEntry {
    /// In words.
    pub text: &'static str,
    /// The number, if there is just one.
    pub exact: Option<f64>,
    /// At least.
    pub low: f64,
    /// At most, if there is a bound.
    pub high: Option<f64>,
    /// Whether the measured number agrees; nothing if nobody entered or faults were injected.
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
}

/// What a report is made from.
pub(crate) struct Facts<'a> {
    pub header: &'a Header,
    pub plan: &'a Plan,
    pub rest: Rest,
    pub properties: &'a Properties,
    pub metrics: &'a Metrics,
    pub formula: Formula,
    pub digest: u64,
    pub virtual_time: u64,
    pub wall_seconds: f64,
}

impl Facts<'_> {
    pub fn report(&self) -> Report {
        let Self { header, plan, metrics, properties, .. } = self;
        let entries_by_process = properties.entries();
        let entries: u64 = entries_by_process.iter().sum();
        let per_entry = |count: u64| (entries > 0).then(|| round(count as f64 / entries as f64));
        let mean_delay = plan.delay.mean() as f64;
        let hops = metrics.sync_delay.mean().filter(|_| mean_delay > 0.0 && plan.links.is_empty());
        let judgements = properties.judgements();
        let (promised, other): (Vec<_>, Vec<_>) =
            judgements.into_iter().partition(|judgement| judgement.promised);
        Report {
            algorithm: header.algorithm.clone(),
            mutant: header.mutant.clone(),
            settings: header.settings.clone(),
            nodes: header.nodes.len(),
            locks: plan.locks,
            seed: plan.seed,
            load: load_word(plan.load),
            channels: header.channels.clone(),
            entries,
            waited: properties.waited().iter().sum(),
            entries_by_process,
            messages: metrics.messages(),
            overhead_messages: metrics.overhead_messages(),
            messages_by_kind: metrics.kinds().iter().map(|kind| (kind.name, kind.count)).collect(),
            messages_per_entry: per_entry(metrics.messages()),
            formula: self.per_entry(entries),
            dropped: metrics.dropped,
            duplicated: metrics.duplicated,
            client_delay: metrics.client_delay.into(),
            sync_delay: metrics.sync_delay.into(),
            sync_delay_hops: hops.map(|mean| round(mean / mean_delay)),
            response: metrics.response.into(),
            max_overtaking: properties.max_overtaking(),
            load_by_process: metrics.load().to_vec(),
            throughput: (self.virtual_time > 0)
                .then(|| round(entries as f64 / (self.virtual_time as f64 / 1e6))),
            virtual_time: self.virtual_time as f64 / 1e3,
            events: metrics.events,
            wall_seconds: self.wall_seconds,
            ending: ending_word(self.rest),
            properties: promised.into_iter().map(Property::from).collect(),
            not_promised: other.into_iter().map(Property::from).collect(),
            trace_digest: format!("{:016x}", self.digest),
        }
    }

    fn per_entry(&self, entries: u64) -> PerEntry {
        let share = |total: u64| if entries == 0 { 0.0 } else { round(total as f64 / entries as f64) };
        let comparable = entries > 0 && self.rest == Rest::Done && self.plan.faults.is_empty();
        PerEntry {
            text: self.formula.text,
            exact: self.formula.exact().filter(|_| entries > 0).map(share),
            low: share(self.formula.low),
            high: self.formula.high.map(share),
            agrees: comparable.then(|| self.formula.admits(self.metrics.messages())),
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

/// Six digits behind the point are more than anyone reads.
fn round(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
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
