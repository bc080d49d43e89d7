//! The numbers of many runs: a row for each seed, and their spread.

use conclave_algorithms::measure::Figure;
use conclave_sim::Outcome;
use serde_json::{Value, json};

use crate::laboratory::compare::{Spread, cell, number};
use crate::laboratory::output::indented;

/// The numbers of one run.
pub struct Row {
    seed: u64,
    /// Per entry where there are entries, else in all.
    messages: f64,
    unit: Option<&'static str>,
    formula: (f64, Option<f64>, Option<bool>),
    overhead: u64,
    dropped: u64,
    duplicated: u64,
    time: f64,
    events: u64,
    ending: &'static str,
    held: bool,
    figures: Vec<Figure>,
}

impl Row {
    pub fn of(outcome: &Outcome) -> Self {
        let report = &outcome.report;
        let units = report.unit.name.map_or(1, |_| report.unit.count.max(1));
        Self {
            seed: report.seed,
            messages: report.messages as f64 / units as f64,
            unit: report.unit.name,
            formula: (report.formula.low, report.formula.high, report.formula.agrees),
            overhead: report.overhead_messages,
            dropped: report.dropped,
            duplicated: report.duplicated,
            time: report.virtual_time,
            events: report.events,
            ending: report.ending,
            held: outcome.violation.is_none() && report.all_held(),
            figures: report.part.0.figures(),
        }
    }

    fn cells(&self, keys: &[&str]) -> Vec<String> {
        let (low, high, agrees) = self.formula;
        let mut cells = vec![
            self.seed.to_string(),
            cell(Some(self.messages)),
            cell(Some(low)),
            cell(high),
            agrees.map_or_else(String::new, |agrees| agrees.to_string()),
            self.overhead.to_string(),
            self.dropped.to_string(),
            self.duplicated.to_string(),
            cell(Some(self.time)),
            self.events.to_string(),
            self.ending.to_owned(),
            self.held.to_string(),
        ];
        cells.extend(keys.iter().map(|key| cell(self.figure(key))));
        cells
    }

    fn figure(&self, key: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.key == key).and_then(|figure| figure.value)
    }
}

/// The figures that occur.
fn figures(rows: &[Row]) -> Vec<Figure> {
    let mut found: Vec<Figure> = Vec::new();
    for figure in rows.iter().flat_map(|row| &row.figures).filter(|figure| figure.value.is_some()) {
        if found.iter().all(|other| other.key != figure.key) {
            found.push(*figure);
        }
    }
    found
}

/// A row for each run.
pub fn csv(rows: &[Row]) -> String {
    let keys: Vec<_> = figures(rows).iter().map(|figure| figure.key).collect();
    let mut heads = vec![
        "seed",
        if rows.iter().any(|row| row.unit.is_some()) { "messages_per_entry" } else { "messages" },
        "formula_low",
        "formula_high",
        "agrees",
        "overhead_messages",
        "dropped",
        "duplicated",
        "virtual_time_ms",
        "events",
        "ending",
        "held",
    ];
    heads.extend(&keys);
    let mut text = format!("{}\n", heads.join(","));
    for row in rows {
        text += &format!("{}\n", row.cells(&keys).join(","));
    }
    text
}

/// Each number with its name and unit, over all runs.
fn all_spreads(rows: &[Row]) -> Vec<(&'static str, String, Spread)> {
    let Some(first) = rows.first() else { return Vec::new() };
    let label = first.unit.map_or_else(|| "messages".to_owned(), |unit| format!("messages per {unit}"));
    let mut spreads = vec![("messages", label, Spread::of(rows.iter().map(|row| row.messages)))];
    for figure in figures(rows) {
        let values: Vec<f64> = rows.iter().filter_map(|row| row.figure(figure.key)).collect();
        let unit = if figure.unit.is_empty() { String::new() } else { format!(", {}", figure.unit) };
        spreads.push((figure.key, format!("{}{unit}", figure.label), Spread::of(values.into_iter())));
    }
    spreads
}

/// The spread of every number, for people.
pub fn spreads(rows: &[Row]) -> String {
    if rows.len() < 2 {
        return String::new();
    }
    let spreads = all_spreads(rows);
    let width = spreads.iter().map(|(_, label, _)| label.chars().count()).max().unwrap_or(0) + 2;
    let line = |(_, label, spread): &(&str, String, Spread)| {
        let Spread { mean, low, high, deviation, .. } = *spread;
        let text = format!(
            "{} on average, {} to {}, standard deviation {}",
            number(mean),
            number(low),
            number(high),
            number(deviation)
        );
        indented(&format!("  {label:<width$}"), &text)
    };
    spreads.iter().map(line).collect()
}

/// The same for programs.
pub fn spreads_json(rows: &[Row]) -> Value {
    let field = |(key, _, spread): (&'static str, String, Spread)| {
        let Spread { count, mean, low, high, deviation } = spread;
        (key.to_owned(), json!({ "runs": count, "mean": mean, "min": low, "max": high, "sd": deviation }))
    };
    Value::Object(all_spreads(rows).into_iter().map(field).collect())
}
