//! Several targets under the same load, in turn, several times over: what disturbs the machine for a while disturbs all
//! of them alike, and the spread shows how much it did.

use std::fmt;
use std::io::Write;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use comfy_table::{Table, presets};
use serde::Serialize;

use crate::load::{Load, Run, Shape, measure};
use crate::target::Target;
use crate::{BenchError, targets::Spec};

/// All that was measured, and what follows from it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Who took which name.
    pub shape: Shape,
    /// How many clients.
    pub clients: usize,
    /// Every run, in the order in which they were made.
    pub runs: Vec<Entry>,
    /// One line per target.
    pub summary: Vec<Summary>,
    /// One line per pair of targets.
    pub ratios: Vec<Ratio>,
}

/// One run of one target.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// From 1.
    pub round: usize,
    /// The target's label.
    pub target: String,
    /// What came of it.
    #[serde(flatten)]
    pub run: Run,
}

/// A target over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The target's label.
    pub target: String,
    /// Cycles or hand-offs per second.
    pub per_second: Spread,
    /// The median latency of each round.
    pub median_us: Spread,
    /// The 90th percentile of each round.
    pub p90_us: Spread,
    /// The 99th percentile of each round.
    pub p99_us: Spread,
    /// The longest latency of each round.
    pub max_us: Spread,
    /// Failed and connected again, in all rounds.
    pub errors: u64,
    /// Two holders at once, or a token that did not grow, in all rounds.
    pub violations: u64,
    /// The share of one core that the generator took.
    pub generator_cpu: Spread,
}

/// The middle and the ends of one figure over all rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

/// One target against another, by medians.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The one.
    pub target: String,
    /// The other, which counts as 1.
    pub against: String,
    /// How many times as many cycles per second.
    pub per_second: f64,
    /// How many times the median latency.
    pub median_us: f64,
}

impl Spread {
    /// Of some figures; all zero when there are none.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else {
            return Self { median: 0.0, min: 0.0, max: 0.0 };
        };
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Self { median: f64::midpoint(low, high), min, max }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} ({:.0}..{:.0})", self.median, self.min, self.max)
    }
}

/// A target and what the report calls it.
pub struct Named {
    /// What the report calls it.
    pub label: String,
    /// The target.
    pub target: Arc<dyn Target>,
}

impl Named {
    /// The target that a specification names.
    pub fn open(spec: &Spec, ttl: Duration, connections: Option<NonZeroUsize>) -> Self {
        Self { label: spec.label.clone(), target: spec.open(ttl, connections) }
    }
}

/// Runs the load on every target in turn, so many times over, with a line of progress for each run.
pub async fn alternate(
    targets: &[Named],
    load: Load,
    rounds: usize,
    progress: &mut dyn Write,
) -> Result<Report, BenchError> {
    let mut runs = Vec::new();
    for round in 1..=rounds {
        for Named { label, target } in targets {
            let run = measure(target, load)
                .await
                .map_err(|error| BenchError::Target { target: label.clone(), error })?;
            writeln!(progress, "round {round} of {rounds}, {label}: {:.0} per second", run.per_second)?;
            runs.push(Entry { round, target: label.clone(), run });
        }
    }
    let labels: Vec<&str> = targets.iter().map(|named| named.label.as_str()).collect();
    Ok(Report::new(load, &labels, runs))
}

impl Report {
    /// Draws the conclusions.
    pub fn new(load: Load, labels: &[&str], runs: Vec<Entry>) -> Self {
        let summary: Vec<Summary> = labels.iter().map(|label| Summary::new(label, &runs)).collect();
        let ratios = pairs(&summary).map(|(one, other)| Ratio::new(one, other)).collect();
        Self { shape: load.shape, clients: load.clients, runs, summary, ratios }
    }

    /// The first thing that a lock did wrong, if any.
    pub fn violation(&self) -> Option<(&str, &str)> {
        self.runs.iter().find_map(|entry| {
            entry.run.first_violation.as_deref().map(|violation| (entry.target.as_str(), violation))
        })
    }

    /// What a person reads.
    pub fn print(&self, out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(out, "{}", self.table())?;
        for entry in &self.runs {
            if let Some(error) = &entry.run.first_error {
                writeln!(
                    out,
                    "{}, round {}: {} errors, first: {error}",
                    entry.target, entry.round, entry.run.errors
                )?;
            }
        }
        for ratio in &self.ratios {
            writeln!(
                out,
                "{} : {} = {:.2} in rate, {:.2} in median latency",
                ratio.target, ratio.against, ratio.per_second, ratio.median_us
            )?;
        }
        Ok(())
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let rate = match self.shape {
            Shape::Uncontended => "cycles/s",
            Shape::Handoff => "hand-offs/s",
        };
        table.set_header([
            "target",
            rate,
            "median µs",
            "p90 µs",
            "p99 µs",
            "max µs",
            "errors",
            "generator %",
        ]);
        for line in &self.summary {
            table.add_row([
                line.target.clone(),
                line.per_second.to_string(),
                line.median_us.to_string(),
                line.p90_us.to_string(),
                line.p99_us.to_string(),
                format!("{:.0}", line.max_us.max),
                line.errors.to_string(),
                format!("{:.0}", line.generator_cpu.median * 100.0),
            ]);
        }
        table
    }
}

impl Summary {
    fn new(label: &str, runs: &[Entry]) -> Self {
        let mine = || runs.iter().filter(|entry| entry.target == label).map(|entry| &entry.run);
        let spread = |figure: fn(&Run) -> f64| Spread::of(mine().map(figure));
        // A run in which nothing was completed has a rate, but no latency.
        let latency = |figure: fn(&Run) -> f64| Spread::of(mine().filter(|run| run.cycles > 0).map(figure));
        Self {
            target: label.to_owned(),
            per_second: spread(|run| run.per_second),
            median_us: latency(|run| run.median_us),
            p90_us: latency(|run| run.p90_us),
            p99_us: latency(|run| run.p99_us),
            max_us: latency(|run| run.max_us),
            errors: mine().map(|run| run.errors).sum(),
            violations: mine().map(|run| run.violations).sum(),
            generator_cpu: spread(|run| run.generator_cpu),
        }
    }
}

impl Ratio {
    fn new(one: &Summary, other: &Summary) -> Self {
        Self {
            target: one.target.clone(),
            against: other.target.clone(),
            per_second: one.per_second.median / other.per_second.median,
            median_us: one.median_us.median / other.median_us.median,
        }
    }
}

/// Every pair, the earlier first.
fn pairs<T>(all: &[T]) -> impl Iterator<Item = (&T, &T)> {
    all.iter().enumerate().flat_map(|(at, one)| all[at + 1..].iter().map(move |other| (one, other)))
}
