//! How wrong the clocks of a run were, over time.

use std::collections::BTreeMap;

use conclave_core::{NodeId, Shown};
use conclave_trace::{Bounds, Plot, Record, Series, Spread, Trace, What};

/// A plot of how far each corrected clock is to be from the true time, a series for each process; nothing if nobody read a
/// clock. The area is how far it was said to be from the clock that it was corrected by.
pub fn clock_plot(trace: &Trace) -> Option<Plot> {
    let mut clocks: BTreeMap<NodeId, Course> = BTreeMap::new();
    for record in &trace.records {
        if let Some(process) = record.process {
            clocks.entry(process).or_default().follow(record);
        }
    }
    let series: Vec<_> = trace.header.nodes.iter().filter_map(|id| clocks.remove(id)?.series(*id)).collect();
    (!series.is_empty()).then(|| Plot {
        title: format!("{}: how far each clock is from the true time", trace.header.algorithm),
        x: "time, ms".into(),
        y: "size of the error, ms".into(),
        series,
    })
}

/// What became of one clock.
#[derive(Default)]
struct Course {
    shown: Option<Shown>,
    /// What was added to the clock, in nanoseconds.
    correction: i64,
    points: Vec<Spread>,
    bounds: Vec<Bounds>,
}

impl Course {
    fn follow(&mut self, record: &Record) {
        if let Some(shown) = record.clock {
            self.shown = Some(shown);
            self.point(shown);
        }
        match (&record.what, self.shown) {
            (What::Event { event, .. }, Some(shown)) => {
                if let Some((to, bound)) = adjusted(event) {
                    self.correction = to.saturating_sub(shown.reading().0);
                    self.point(shown);
                    self.bounds.push(Bounds { x: ms(shown), low: 0.0, high: Some(bound as f64 / 1e6) });
                }
            }
            // What it had learnt is gone.
            (What::Crash { .. }, _) => self.correction = 0,
            _ => {}
        }
    }

    fn point(&mut self, shown: Shown) {
        let error = shown.ahead.saturating_add(self.correction).saturating_abs() as f64 / 1e6;
        self.points.push(Spread { x: ms(shown), low: error, mean: error, high: error });
    }

    fn series(self, id: NodeId) -> Option<Series> {
        let (points, curve) = (self.points, self.bounds);
        let formula = "the area: as was told".into();
        (!points.is_empty()).then(|| Series { name: id.to_string(), formula, curve, points })
    }
}

fn ms(shown: Shown) -> f64 {
    shown.truth as f64 / 1e3
}

/// `adjusted +5ms to 185min ±2ms, by p1`: to which time, and how exactly, in nanoseconds.
fn adjusted(event: &str) -> Option<(i64, i64)> {
    let (_, rest) = event.strip_prefix("adjusted ")?.split_once(" to ")?;
    let (to, rest) = rest.split_once(" ±")?;
    Some((nanos(to)?, nanos(rest.split(',').next()?)?))
}

/// `-28.43693ms`, `185min`, `0`.
fn nanos(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(|last: char| last.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 0,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        _ => return None,
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let size: i64 = whole.trim_start_matches('-').parse().ok()?;
    let part: i64 = if part.is_empty() { 0 } else { format!("{part:0<6}").parse().ok()? };
    let nanos = size.checked_mul(unit)?.checked_add(part)?;
    Some(if text.starts_with('-') { -nanos } else { nanos })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_read() {
        let told = "adjusted -59.849438ms to -21.090266ms ±3.220617ms, by p4";
        assert_eq!(adjusted(told), Some((-21_090_266, 3_220_617)));
        assert_eq!(adjusted("adjusted +5min to 185min ±0, by p4"), Some((185 * 60_000_000_000, 0)));
        assert_eq!(adjusted("time 5ms"), None);
        assert_eq!(adjusted("adjusted +é to 5µs ±0"), None);
    }
}
