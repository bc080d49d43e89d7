//! A comparison for programs and papers: JSON, CSV, plots.

use std::path::{Path, PathBuf};

use conclave_trace::{Bounds, Plot, Series};
use serde_json::{Value, json};

use super::measured::{Point, Ran, Spread};
use super::{Comparison, Scenario};
use crate::failure::Failure;
use crate::laboratory::args::CompareArgs;
use crate::laboratory::files;

impl Comparison {
    /// Writes the files that were asked for.
    pub fn write(&self, args: &CompareArgs) -> Result<(), Failure> {
        if let Some(path) = &args.csv {
            let text = if args.each { self.each_run() } else { self.each_point() };
            files::write(path, |out| out.write_all(text.as_bytes()))?;
        }
        if let Some(path) = &args.svg {
            for (place, scenario) in self.scenarios.iter().enumerate() {
                let path = numbered(path, place, self.scenarios.len());
                let text = self.plot(*scenario).svg(args.theme.into());
                files::write(&path, |out| out.write_all(text.as_bytes()))?;
            }
        }
        Ok(())
    }

    /// The plots, for a page.
    pub fn plots_json(&self) -> Value {
        let plots = self.scenarios.iter().map(|scenario| {
            let Plot { title, x, y, series } = self.plot(*scenario);
            let series = series.iter().map(|series| {
                let points: Vec<_> = series.points.iter().map(|point| (point.x, point.mean)).collect();
                let curve: Vec<_> =
                    series.curve.iter().map(|bounds| (bounds.x, bounds.low, bounds.high)).collect();
                json!({ "algorithm": series.name, "formula": series.formula, "points": points, "curve": curve })
            });
            json!({ "title": title, "x": x, "y": y, "series": series.collect::<Vec<_>>() })
        });
        plots.collect()
    }

    fn plot(&self, scenario: Scenario) -> Plot {
        let per = match self.family.counted.0 {
            one if self.family.options.contains(&"--entries") => format!("messages per {one}"),
            _ => "messages".to_owned(),
        };
        let series = self.entries.iter().map(|entry| {
            let name = entry.about.name;
            let points: Vec<&Point> = self
                .points
                .iter()
                .filter(|point| point.algorithm == name && point.scenario == scenario)
                .collect();
            let curve = points.iter().map(|point| {
                let (low, high) = point.bounds();
                Bounds { x: point.n.into(), low, high }
            });
            let measured = points.iter().map(|point| {
                let Spread { low, mean, high, .. } = point.messages();
                conclave_trace::Spread { x: point.n.into(), low, mean, high }
            });
            let formula = points.last().map_or("", |point| point.formula().0);
            Series {
                name: name.into(),
                formula: formula.into(),
                curve: curve.collect(),
                points: measured.collect(),
            }
        });
        Plot {
            title: format!("{}: {per}, {}", self.family.title, scenario.title()),
            x: "n".into(),
            y: per,
            series: series.filter(|series| !series.points.is_empty()).collect(),
        }
    }

    /// Everything, for programs.
    pub fn json(&self) -> Value {
        let algorithms = self.entries.iter().zip(&self.promises).map(|(entry, promises)| {
            let codes = |list: &[(&'static str, &'static str)]| {
                list.iter().map(|(code, _)| *code).collect::<Vec<_>>()
            };
            let about = entry.about;
            json!({
                "name": about.name,
                "title": about.title,
                "channels": about.channels.name(),
                "synchrony": about.synchrony.name(),
                "topology": about.topology.name(),
                "cost": about.cost,
                "faults": about.faults,
                "promised": codes(&promises.promised),
                "not_promised": codes(&promises.other),
            })
        });
        json!({
            "family": self.family.name,
            "delay": self.delay.to_string(),
            "agrees": self.agrees(),
            "algorithms": algorithms.collect::<Vec<_>>(),
            "points": self.points.iter().map(point_json).collect::<Vec<_>>(),
            "skipped": self.skipped,
        })
    }

    /// The names of the figures that occur.
    fn figure_keys(&self) -> Vec<&'static str> {
        let mut keys = Vec::new();
        for figure in self.points.iter().flat_map(|point| &point.runs).flat_map(|run| &run.figures) {
            if !keys.contains(&figure.key) {
                keys.push(figure.key);
            }
        }
        keys
    }

    /// A row for each algorithm, scenario and size.
    fn each_point(&self) -> String {
        let keys = self.figure_keys();
        let spread_heads =
            |name: &str| ["mean", "min", "max", "sd"].map(|part| format!("{name}_{part}")).join(",");
        let heads: Vec<_> = keys.iter().map(|key| spread_heads(key)).collect();
        let mut text = format!(
            "algorithm,scenario,n,runs,{},formula_low,formula_high,agrees,{},outage_ms,{}\n",
            spread_heads("messages"),
            spread_heads("heat"),
            heads.join(",")
        )
        .replace(",\n", "\n");
        for point in &self.points {
            let (low, high) = point.bounds();
            let figures = keys.iter().map(|key| point.figure(key).map_or_else(|| ",,,".into(), spread_cells));
            let mut cells = vec![
                point.algorithm.to_owned(),
                point.scenario.key().to_owned(),
                point.n.to_string(),
                point.runs.len().to_string(),
                spread_cells(point.messages()),
                cell(Some(low)),
                cell(high),
                (point.disagreements() == 0).to_string(),
                spread_cells(point.heat()),
                cell(point.outage),
            ];
            cells.extend(figures);
            text += &format!("{}\n", cells.join(","));
        }
        text
    }

    /// A row for each run.
    fn each_run(&self) -> String {
        let keys = self.figure_keys();
        let mut heads = vec![
            "algorithm",
            "scenario",
            "n",
            "seed",
            "starter",
            "messages",
            "formula_low",
            "formula_high",
            "agrees",
            "heat",
            "virtual_time_ms",
        ];
        heads.extend(&keys);
        let mut text = format!("{}\n", heads.join(","));
        for point in &self.points {
            for run in &point.runs {
                text += &format!("{}\n", run_cells(point, run, &keys).join(","));
            }
        }
        text
    }
}

fn run_cells(point: &Point, run: &Ran, keys: &[&str]) -> Vec<String> {
    let value =
        |key: &&str| run.figures.iter().find(|figure| figure.key == *key).and_then(|figure| figure.value);
    let mut cells = vec![
        point.algorithm.to_owned(),
        point.scenario.key().to_owned(),
        point.n.to_string(),
        run.seed.to_string(),
        run.starter.map_or_else(String::new, |starter| starter.0.to_string()),
        cell(Some(run.messages)),
        cell(Some(run.formula.low)),
        cell(run.formula.high),
        run.formula.agrees.map_or_else(String::new, |agrees| agrees.to_string()),
        cell(Some(run.heat)),
        cell(Some(run.time)),
    ];
    cells.extend(keys.iter().map(|key| cell(value(key))));
    cells
}

fn spread_cells(spread: Spread) -> String {
    [spread.mean, spread.low, spread.high, spread.deviation].map(|value| cell(Some(value))).join(",")
}

/// A number as every program reads it; nothing where there is none, `inf` for what never ends.
pub fn cell(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| {
        let text = format!("{value:.6}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    })
}

fn point_json(point: &Point) -> Value {
    let (low, high) = point.bounds();
    let (formula, exact) = point.formula();
    let spread = |spread: Spread| json!({ "mean": spread.mean, "min": spread.low, "max": spread.high, "sd": spread.deviation, "runs": spread.count });
    let mut keys: Vec<&str> = Vec::new();
    for figure in point.runs.iter().flat_map(|run| &run.figures) {
        if !keys.contains(&figure.key) {
            keys.push(figure.key);
        }
    }
    let figures: serde_json::Map<String, Value> =
        keys.iter().filter_map(|key| Some(((*key).to_owned(), spread(point.figure(key)?)))).collect();
    let outage = match point.outage {
        Some(span) if span.is_infinite() => json!("never"),
        other => json!(other),
    };
    json!({
        "algorithm": point.algorithm,
        "scenario": point.scenario.key(),
        "n": point.n,
        "messages": spread(point.messages()),
        "formula": { "text": formula, "exact": exact, "low": low, "high": high },
        "agrees": point.disagreements() == 0 && point.incomparable() == 0,
        "not_comparable": point.incomparable(),
        "broken": point.failures(),
        "heat": spread(point.heat()),
        "outage": outage,
        "figures": figures,
    })
}

/// `run.svg`, or `run-1.svg` and `run-2.svg` if there are several.
fn numbered(path: &Path, place: usize, count: usize) -> PathBuf {
    if count < 2 {
        return path.to_owned();
    }
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let ending = path.extension().map(|ending| format!(".{}", ending.to_string_lossy())).unwrap_or_default();
    path.with_file_name(format!("{stem}-{}{ending}", place + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_plots_are_numbered() {
        assert_eq!(numbered(Path::new("a/run.svg"), 0, 1), Path::new("a/run.svg"));
        assert_eq!(numbered(Path::new("a/run.svg"), 1, 2), Path::new("a/run-2.svg"));
        assert_eq!(numbered(Path::new("run"), 0, 2), Path::new("run-1"));
    }

    #[test]
    fn cells_are_numbers_that_programs_read() {
        assert_eq!(cell(Some(2.5)), "2.5");
        assert_eq!(cell(Some(100.0)), "100");
        assert_eq!(cell(Some(0.0)), "0");
        assert_eq!(cell(Some(f64::INFINITY)), "inf");
        assert_eq!(cell(None), "");
    }
}
