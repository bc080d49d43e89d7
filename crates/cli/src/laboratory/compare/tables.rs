//! A comparison for people.

use std::collections::BTreeMap;

use conclave_algorithms::About;
use conclave_core::{Members, NodeId};
use conclave_sim::Plan;
use conclave_sim::faults::{Change, Faults};
use conclave_trace::Setup;
use owo_colors::OwoColorize as _;

use super::measured::{Point, Spread};
use super::{Comparison, Scenario};
use crate::laboratory::catalogue::Entry;
use crate::laboratory::output::{grouped, indented, terminal_width};

/// As many sizes as stand side by side.
const MOST_SIZES: usize = 5;
/// Up to so many algorithms stand beside each other, with all that they say of themselves.
const MOST_BESIDE: usize = 3;

impl Comparison {
    /// All tables.
    pub fn page(&self) -> String {
        let mut page = self.header();
        for scenario in &self.scenarios {
            page += &format!("\n{}", self.messages(*scenario));
            page += &format!("\n{}", self.figures(*scenario));
        }
        page += &format!("\n{}", self.traits());
        page += &self.promised();
        page + &format!("\n{}", self.verdict())
    }

    fn header(&self) -> String {
        let (first, last) =
            (self.sizes.first().copied().unwrap_or(0), self.sizes.last().copied().unwrap_or(0));
        let sizes = if first == last { format!("n = {first}") } else { format!("n = {first} to {last}") };
        let mut facts = vec![sizes, format!("delay {} ms", self.delay).replace("s ms", "s")];
        if self.seeds > 1 {
            facts.push(format!("{} seeds", grouped(self.seeds)));
        }
        let title = self.family.title;
        indented("", &format!("{title} · {}", facts.join(" · "))).replacen(
            title,
            &title.bold().to_string(),
            1,
        )
    }

    fn points(&self, scenario: Scenario) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(move |point| point.scenario == scenario)
    }

    fn point(&self, algorithm: &str, scenario: Scenario, n: u32) -> Option<&Point> {
        self.points(scenario).find(|point| point.algorithm == algorithm && point.n == n)
    }

    /// Sizes that tell how a number grows: the first, the last, and those that double in between.
    fn shown_sizes(&self) -> Vec<u32> {
        if self.sizes.len() <= MOST_SIZES {
            return self.sizes.clone();
        }
        let (first, last) = (self.sizes[0], self.sizes[self.sizes.len() - 1]);
        let ratio = f64::from(last) / f64::from(first);
        let wanted = (0..MOST_SIZES).map(|step| {
            let part = step as f64 / (MOST_SIZES - 1) as f64;
            f64::from(first) * ratio.powf(part)
        });
        let nearest = wanted.filter_map(|wanted| {
            let distance = |n: &&u32| (f64::from(**n) - wanted).abs();
            self.sizes.iter().min_by(|a, b| distance(a).total_cmp(&distance(b))).copied()
        });
        let mut sizes: Vec<u32> = nearest.collect();
        sizes.dedup();
        sizes
    }

    /// Messages over the size of the group, beside the formula.
    fn messages(&self, scenario: Scenario) -> String {
        let sizes = self.shown_sizes();
        let per = if self.family.options.contains(&"--entries") {
            format!("messages per {}", self.family.counted.0)
        } else {
            "messages".to_owned()
        };
        let mut grid = Grid::new(&format!("{per}, {}", scenario.title()));
        grid.head(sizes.iter().map(|n| format!("n = {n}")));
        let mut ranges = Vec::new();
        let mut formulas = String::new();
        let width = self.entries.iter().map(|entry| entry.about.name.len()).max().unwrap_or(0);
        for entry in &self.entries {
            let name = entry.about.name;
            let points: Vec<_> = sizes.iter().map(|n| self.point(name, scenario, *n)).collect();
            let all: Vec<&Point> = self.points(scenario).filter(|point| point.algorithm == name).collect();
            let cells = points
                .iter()
                .map(|point| point.map_or_else(|| "–".into(), |point| number(point.messages().mean)));
            grid.row(name, cells.collect());
            formulas += &indented(&format!("    {name:<width$}  "), &verdict(&all));
            let spreads: Vec<_> = points.iter().map(|point| point.map(Point::messages)).collect();
            if spreads.iter().flatten().any(|spread| spread.low < spread.high) {
                ranges.push((name, spreads));
            }
        }
        let mut text = format!("{}  {}\n{formulas}", grid.text(), "formula".dimmed());
        if !ranges.is_empty() {
            let title = match scenario {
                Scenario::EachStarts => "best and worst over all starters",
                _ => "least and most",
            };
            let mut grid = Grid::new(title);
            grid.head(sizes.iter().map(|n| format!("n = {n}")));
            for (name, spreads) in ranges {
                let range = |spread: &Option<Spread>| {
                    spread.map_or_else(
                        || "–".into(),
                        |spread| format!("{}–{}", number(spread.low), number(spread.high)),
                    )
                };
                grid.row(name, spreads.iter().map(range).collect());
            }
            text += &format!("\n{}", grid.text());
        }
        text
    }

    /// Delays and loads at the largest size.
    fn figures(&self, scenario: Scenario) -> String {
        let n = self.sizes.last().copied().unwrap_or(0);
        let points: Vec<&Point> = self.points(scenario).filter(|point| point.n == n).collect();
        let mut keys: Vec<(&str, String)> = Vec::new();
        for figure in points.iter().flat_map(|point| &point.runs).flat_map(|run| &run.figures) {
            if figure.value.is_some() && keys.iter().all(|(key, _)| *key != figure.key) {
                let unit = if figure.unit.is_empty() { String::new() } else { format!(", {}", figure.unit) };
                keys.push((figure.key, format!("{}{unit}", figure.label)));
            }
        }
        let mut grid = Grid::new(&format!("at n = {n}, {}", scenario.title()));
        let heads = keys.iter().map(|(_, label)| label.clone());
        grid.head(heads.chain(["busiest / mean".into(), "outage, ms".into()]));
        for point in points {
            let figures = keys
                .iter()
                .map(|(key, _)| point.figure(key).map_or_else(|| "–".into(), |spread| number(spread.mean)));
            let outage = match point.outage {
                None => "–".into(),
                Some(span) if span.is_infinite() => "never over".into(),
                Some(span) => number(span),
            };
            let heat = format!("{}×", number(point.heat().mean));
            grid.row(point.algorithm, figures.chain([heat, outage]).collect());
        }
        grid.text()
    }

    /// What the algorithms say of themselves: beside each other if they are few, else a line each.
    fn traits(&self) -> String {
        let abouts: Vec<&About> = self.entries.iter().map(|entry| entry.about).collect();
        if abouts.len() > MOST_BESIDE {
            let mut grid = Grid::new("what they rely on");
            grid.head(["channels", "timing", "topology"].map(str::to_owned).into_iter());
            for about in abouts {
                let cells = [about.channels.name(), about.synchrony.name(), about.topology.name()];
                grid.row(about.name, cells.map(str::to_owned).to_vec());
            }
            grid.is_words = true;
            return grid.text();
        }
        let keys =
            |about: &About| about.every_setting().map(|setting| setting.key).collect::<Vec<_>>().join(", ");
        let group = |entry: &Entry| if lets_join(*entry) { "processes may join and leave" } else { "fixed" };
        let rows: Vec<(&str, Vec<String>)> = vec![
            ("paper", abouts.iter().map(|about| about.paper.into()).collect()),
            ("idea", abouts.iter().map(|about| about.idea.into()).collect()),
            ("messages", abouts.iter().map(|about| about.cost.into()).collect()),
            ("channels", abouts.iter().map(|about| about.channels.name().into()).collect()),
            ("timing", abouts.iter().map(|about| about.synchrony.name().into()).collect()),
            ("topology", abouts.iter().map(|about| about.topology.name().into()).collect()),
            ("group", self.entries.iter().map(|entry| group(entry).into()).collect()),
            ("faults", abouts.iter().map(|about| about.faults.into()).collect()),
            ("settings", abouts.iter().map(|about| keys(about)).collect()),
        ];
        let rows: Vec<(String, Vec<String>)> =
            rows.into_iter().map(|(label, cells)| (label.to_owned(), cells)).collect();
        beside(&abouts.iter().map(|about| about.name.to_owned()).collect::<Vec<_>>(), &rows)
    }

    /// The questions to every algorithm: which properties does it promise?
    fn promised(&self) -> String {
        let mut claims: BTreeMap<&str, &str> = BTreeMap::new();
        for promises in &self.promises {
            claims.extend(promises.promised.iter().chain(&promises.other).copied());
        }
        let names: Vec<&str> = self.entries.iter().map(|entry| entry.about.name).collect();
        let mut text = String::new();
        for (code, claim) in &claims {
            let has = |place: &usize| self.promises[*place].promised.iter().any(|(other, _)| other == code);
            let (yes, no): (Vec<usize>, Vec<usize>) = (0..names.len()).partition(has);
            let those =
                |places: &[usize]| places.iter().map(|place| names[*place]).collect::<Vec<_>>().join(", ");
            let who = match (yes.len(), no.len()) {
                (_, 0) => "all".to_owned(),
                (0, _) => "none".to_owned(),
                (yes_count, no_count) if no_count < yes_count => format!("all but {}", those(&no)),
                _ => those(&yes),
            };
            text += &indented(&format!("    {code:<10}"), &format!("{claim}: {who}"));
        }
        if text.is_empty() { text } else { format!("\n  {}\n{text}", "what they promise".bold()) }
    }

    fn verdict(&self) -> String {
        let mut text = String::new();
        for why in &self.skipped {
            text += &indented("– ", why);
        }
        let wrong: Vec<&Point> =
            self.points.iter().filter(|point| point.disagreements() + point.failures() > 0).collect();
        for point in wrong.iter().take(12) {
            let what =
                if point.failures() > 0 { "a promise is broken" } else { "does not agree with its formula" };
            let (low, high) = point.bounds();
            let given = match high {
                Some(high) if (high - low).abs() < 1e-9 => number(low),
                Some(high) => format!("{} to {}", number(low), number(high)),
                None => format!("at least {}", number(low)),
            };
            let line = format!(
                "{}, n = {}, {}: {what}; {} measured, {given} expected",
                point.algorithm,
                point.n,
                point.scenario.title(),
                number(point.messages().mean)
            );
            text += &indented("✗ ", &line).red().to_string();
        }
        let runs: usize = self.points.iter().map(|point| point.runs.len()).sum();
        let incomparable: usize = self.points.iter().map(Point::incomparable).sum();
        if wrong.is_empty() {
            let sentence = format!(
                "{} points, {} runs: every number of messages agrees with its formula",
                grouped(self.points.len() as u64),
                grouped(runs as u64)
            );
            text += &indented("✓ ", &sentence).replacen('✓', &"✓".green().to_string(), 1);
        }
        if incomparable > 0 {
            text +=
                &indented("– ", &format!("no formula speaks of {} of them", grouped(incomparable as u64)));
        }
        text
    }
}

/// The formula of an algorithm, and whether all its points agree.
fn verdict(points: &[&Point]) -> String {
    let Some(last) = points.last() else { return String::new() };
    let (text, exact) = last.formula();
    let mark = if points.iter().any(|point| point.disagreements() > 0) {
        "✗"
    } else if points.iter().any(|point| point.incomparable() > 0) {
        "–"
    } else {
        "✓"
    };
    let kind = if exact { "" } else { " (bounds)" };
    format!("{mark} {text}{kind}")
}

/// Whether processes can join a group: the simulator refuses a plan in which one does where they cannot.
fn lets_join(entry: Entry) -> bool {
    let setup = Setup::numbered(entry.about.name, 3);
    let joins = vec![Change { process: NodeId(4), at: 1_000 }];
    let plan = Plan { faults: Faults { joins, ..Faults::default() }, ..Plan::new(Members::numbered(3)) };
    (entry.expected_messages)(&setup, &plan).is_ok()
}

/// Rows under a title.
struct Grid {
    title: String,
    heads: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
    /// Numbers end below each other, words begin below each other.
    is_words: bool,
}

impl Grid {
    fn new(title: &str) -> Self {
        Self { title: title.to_owned(), heads: Vec::new(), rows: Vec::new(), is_words: false }
    }

    fn head(&mut self, heads: impl Iterator<Item = String>) {
        self.heads = heads.collect();
    }

    fn row(&mut self, name: &str, cells: Vec<String>) {
        self.rows.push((name.to_owned(), cells));
    }

    fn text(&self) -> String {
        let name = self.rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        // A long head stands on two lines.
        let heads: Vec<Vec<String>> = self.heads.iter().map(|head| folded(head)).collect();
        let widths = heads.iter().enumerate().map(|(column, head)| {
            let cells = self.rows.iter().filter_map(|(_, cells)| cells.get(column));
            cells.chain(head).map(|text| text.chars().count()).max().unwrap_or(0)
        });
        let widths: Vec<usize> = widths.collect();
        let line = |label: &str, cells: &mut dyn Iterator<Item = &str>| {
            let mut row = format!("  {label:<name$}");
            for (cell, width) in cells.zip(&widths) {
                row += &if self.is_words { format!("  {cell:<width$}") } else { format!("  {cell:>width$}") };
            }
            row.trim_end().to_owned()
        };
        let mut text = format!("  {}\n", self.title.bold());
        for row in 0..heads.iter().map(Vec::len).max().unwrap_or(0) {
            let words = &mut heads.iter().map(|head| head.get(row).map_or("", String::as_str));
            text += &format!("{}\n", line("", words).dimmed());
        }
        for (label, cells) in &self.rows {
            text += &format!("{}\n", line(label, &mut cells.iter().map(String::as_str)));
        }
        text
    }
}

fn folded(head: &str) -> Vec<String> {
    const LONG: usize = 9;
    match head.split_once(' ') {
        Some((first, second)) if head.chars().count() > LONG => vec![first.to_owned(), second.to_owned()],
        _ => vec![head.to_owned()],
    }
}

/// Texts beside each other, each folded in its own column.
fn beside(heads: &[String], rows: &[(String, Vec<String>)]) -> String {
    let width = terminal_width().unwrap_or(100);
    let label = rows.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0) + 2;
    let column = (width.saturating_sub(2 + label) / heads.len().max(1)).saturating_sub(2).max(16);
    let mut text = format!("  {:label$}", "");
    for head in heads {
        text += &format!("{head:<0$}", column + 2);
    }
    text = format!("{}\n", text.trim_end().bold());
    for (name, cells) in rows {
        let columns: Vec<Vec<String>> = cells.iter().map(|cell| wrapped(cell, column)).collect();
        for line in 0..columns.iter().map(Vec::len).max().unwrap_or(0) {
            let mut row = format!("  {:<label$}", if line == 0 { name.as_str() } else { "" });
            for cell in &columns {
                let word = cell.get(line).map_or("", String::as_str);
                row += &format!("{word:<0$}", column + 2);
            }
            text += &format!("{}\n", row.trim_end());
        }
    }
    text
}

fn wrapped(text: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A number with as many digits as anyone reads.
pub fn number(value: f64) -> String {
    if value >= 1000.0 {
        return grouped(value.round() as u64);
    }
    let digits = if value >= 100.0 { 1 } else { 2 };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in
            [(0.0, "0"), (2.0, "2"), (2.667, "2.67"), (10.5, "10.5"), (123.46, "123.5"), (4031.4, "4,031")]
        {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn texts_are_folded_beside_each_other() {
        let rows = [("idea".to_owned(), vec!["one two three four five".to_owned(), "six".to_owned()])];
        let text = anstream::adapter::strip_str(&beside(&["a".into(), "b".into()], &rows)).to_string();
        assert!(text.lines().next().is_some_and(|head| head.trim_start().starts_with('a')), "{text}");
        assert!(text.contains("six") && text.contains("idea"), "{text}");
    }
}
