//! What was measured at one size of one algorithm.

use conclave_algorithms::measure::Figure;
use conclave_core::NodeId;
use conclave_sim::{FormulaReport, Outcome, Report};

use super::Scenario;

/// The runs of one algorithm at one size.
#[derive(Clone, Debug)]
pub struct Point {
    pub algorithm: &'static str,
    pub scenario: Scenario,
    pub n: u32,
    pub runs: Vec<Ran>,
    /// After a crash, in milliseconds; infinite if it was never over.
    pub outage: Option<f64>,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Ran {
    pub seed: u64,
    pub starter: Option<NodeId>,
    /// Messages per entry, or in all.
    pub messages: f64,
    pub formula: FormulaReport,
    /// The process with most messages in and out, and how many times the mean it has.
    pub busiest: NodeId,
    pub heat: f64,
    /// No promise was broken.
    pub unbroken: bool,
    /// Virtual time in milliseconds.
    pub time: f64,
    pub figures: Vec<Figure>,
}

impl Point {
    pub fn new(algorithm: &'static str, scenario: Scenario, n: u32) -> Self {
        Self { algorithm, scenario, n, runs: Vec::new(), outage: None }
    }

    pub fn add(&mut self, seed: u64, starter: Option<NodeId>, outcome: &Outcome) {
        let report = &outcome.report;
        let load = &report.load_by_process;
        let (place, most) = load.iter().enumerate().rev().max_by_key(|(_, load)| **load).unwrap_or((0, &0));
        let mean = load.iter().sum::<u64>() as f64 / load.len().max(1) as f64;
        self.runs.push(Ran {
            seed,
            starter,
            messages: per_unit(report),
            formula: report.formula.clone(),
            busiest: NodeId(place as u32 + 1),
            heat: if mean > 0.0 { *most as f64 / mean } else { 1.0 },
            unbroken: outcome.violation.is_none() && report.all_held(),
            time: report.virtual_time,
            figures: report.part.0.figures(),
        });
    }

    pub fn messages(&self) -> Spread {
        Spread::of(self.runs.iter().map(|run| run.messages))
    }

    pub fn heat(&self) -> Spread {
        Spread::of(self.runs.iter().map(|run| run.heat))
    }

    /// A figure of the family, over all runs that have it.
    pub fn figure(&self, key: &str) -> Option<Spread> {
        let value =
            |run: &Ran| run.figures.iter().find(|figure| figure.key == key).and_then(|figure| figure.value);
        let values: Vec<f64> = self.runs.iter().filter_map(value).collect();
        (!values.is_empty()).then(|| Spread::of(values.into_iter()))
    }

    /// The mean of what the formula gives: at least, at most.
    pub fn bounds(&self) -> (f64, Option<f64>) {
        let low = Spread::of(self.runs.iter().map(|run| run.formula.low)).mean;
        let highs: Option<Vec<f64>> = self.runs.iter().map(|run| run.formula.high).collect();
        (low, highs.map(|highs| Spread::of(highs.into_iter()).mean))
    }

    /// Runs whose messages are not what the formula gives.
    pub fn disagreements(&self) -> usize {
        self.runs.iter().filter(|run| run.formula.agrees == Some(false)).count()
    }

    /// Runs that no formula speaks of.
    pub fn incomparable(&self) -> usize {
        self.runs.iter().filter(|run| run.formula.agrees.is_none()).count()
    }

    /// Runs in which a promise was broken.
    pub fn failures(&self) -> usize {
        self.runs.iter().filter(|run| !run.unbroken).count()
    }

    /// The formula in words, and whether it is exact.
    pub fn formula(&self) -> (&'static str, bool) {
        let text = self.runs.first().map_or("", |run| run.formula.text);
        (text, self.runs.iter().all(|run| run.formula.exact.is_some()))
    }
}

/// Messages per entry, or in all where they are counted by nothing.
fn per_unit(report: &Report) -> f64 {
    let units = report.unit.name.map_or(1, |_| report.unit.count.max(1));
    report.messages as f64 / units as f64
}

/// Numbers of one sort.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub count: usize,
    pub mean: f64,
    pub low: f64,
    pub high: f64,
    /// The standard deviation of the sample; 0 for a single number.
    pub deviation: f64,
}

impl Spread {
    pub fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let count = values.clone().count();
        if count == 0 {
            return Self { count, mean: 0.0, low: 0.0, high: 0.0, deviation: 0.0 };
        }
        let mean = values.clone().sum::<f64>() / count as f64;
        let squares: f64 = values.clone().map(|value| (value - mean) * (value - mean)).sum();
        let deviation = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
        let low = values.clone().fold(f64::INFINITY, f64::min);
        Self { count, mean, low, high: values.fold(f64::NEG_INFINITY, f64::max), deviation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_mean_bounds_and_deviation() {
        let spread = Spread::of([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].into_iter());
        assert_eq!((spread.mean, spread.low, spread.high), (5.0, 2.0, 9.0));
        assert!((spread.deviation - 2.138).abs() < 0.001, "{spread:?}");
        assert_eq!(Spread::of([3.0].into_iter()).deviation, 0.0);
        assert_eq!(Spread::of(core::iter::empty()).count, 0);
    }
}
