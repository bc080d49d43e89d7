//! A run for people: what it cost, what held, what broke.

use conclave_algorithms::Violation;
pub use conclave_algorithms::measure::grouped;
use conclave_algorithms::measure::{List, Outcome, Piece, Summary};
use conclave_core::Members;
use conclave_sim::{Property, Report};
use conclave_trace::Script;
use owo_colors::OwoColorize as _;

use super::{indented, typed};

/// A table of label, measured value, and what the literature gives.
#[derive(Default)]
pub struct Sheet {
    rows: Vec<[String; 3]>,
}

/// How many messages it takes to say how fast they were: of a few, it is the start that takes the time.
const FAST: u64 = 100_000;

impl Sheet {
    /// Everything that a report measured.
    pub fn of(report: &Report, nodes: &Members) -> String {
        let mut sheet = Self::default();
        let unit = report.unit;
        let messages = match unit.name {
            _ if unit.count == 0 => unit.none.into(),
            Some(_) => number(report.messages as f64 / unit.count as f64),
            None => grouped(report.messages),
        };
        let label = unit.name.map_or_else(|| "messages".into(), |unit| format!("messages per {unit}"));
        sheet.row(&label, messages, formula(report, unit.count > 0));
        for (kind, count) in &report.messages_by_kind {
            sheet.plain(&format!("  {kind}"), grouped(*count));
        }
        sheet.counted("overhead messages", report.overhead_messages);
        sheet.counted("messages lost", report.dropped);
        sheet.counted("messages duplicated", report.duplicated);
        for row in report.part.0.rows() {
            sheet.plain(row.label, pieces(&row.pieces));
        }
        let busiest =
            nodes.iter().zip(&report.load_by_process).max_by_key(|(id, load)| (**load, u32::MAX - id.0));
        if let Some((id, load)) = busiest {
            let messages = if *load == 1 { "message" } else { "messages" };
            sheet.plain("busiest process", format!("{id}, {} {messages} in and out", grouped(*load)));
        }
        sheet.plain("virtual time", format!("{} ms, {}", number(report.virtual_time), report.ending));
        sheet.plain("events", format!("{} inputs handled", grouped(report.events)));
        let messages = report.messages + report.overhead_messages;
        if report.wall_seconds > 0.0 && messages >= FAST {
            let speed = grouped((messages as f64 / report.wall_seconds) as u64);
            sheet.plain("speed", format!("{speed} messages per real second"));
        }
        sheet.text() + &report.part.0.list().map_or_else(String::new, |rows| list(&rows))
    }

    fn row(&mut self, label: &str, measured: String, expected: String) {
        self.rows.push([label.to_owned(), measured, expected]);
    }

    fn plain(&mut self, label: &str, measured: String) {
        self.row(label, measured, String::new());
    }

    /// A row only if there is something to count.
    fn counted(&mut self, label: &str, count: u64) {
        if count > 0 {
            self.plain(label, grouped(count));
        }
    }

    fn text(&self) -> String {
        let width =
            |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let label = width(0) + 2;
        // Only a row that has something beside it must leave room for it.
        let beside = self.rows.iter().filter(|row| !row[2].is_empty());
        let measured = beside.map(|row| row[1].chars().count()).max().unwrap_or(0).max("measured".len()) + 3;
        let mut text = format!("  {:label$}{}", "", format!("{:<measured$}formula", "measured").dimmed());
        text.push('\n');
        for [name, value, expected] in &self.rows {
            text += &match expected.as_str() {
                "" => indented(&format!("  {name:<label$}"), value),
                expected => indented(&format!("  {name:<label$}{value:<measured$}"), expected),
            };
        }
        text
    }
}

/// What disturbed a run, a line each, and what came of it.
fn list(list: &List) -> String {
    /// More than that nobody reads.
    const MOST: usize = 12;
    let rows = list.rows.iter().map(|(what, outcome)| {
        let outcome = match outcome {
            Outcome::Good(text) => pieces(text),
            Outcome::Bad(text) => pieces(text).red().to_string(),
        };
        (pieces(what), outcome)
    });
    let rows: Vec<_> = rows.take(MOST).collect();
    let width = rows.iter().map(|(what, _)| what.chars().count()).max().unwrap_or(0) + 3;
    let mut text = format!("\n  {:width$}{}\n", "", list.title.dimmed());
    for (what, outcome) in rows {
        text += &indented(&format!("  {what:<width$}"), &outcome);
    }
    match list.rows.len().saturating_sub(MOST) {
        0 => text,
        more => text + &format!("  and {} more\n", grouped(more as u64)),
    }
}

fn pieces(pieces: &[Piece]) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Count(count) => grouped(*count),
        Piece::Number(value) => number(*value),
        Piece::Times(summary) => times(summary),
    };
    pieces.iter().map(piece).collect()
}

/// What the literature gives, and whether it agrees.
fn formula(report: &Report, counted: bool) -> String {
    let formula = &report.formula;
    let value = match (formula.exact, formula.high) {
        _ if !counted => String::new(),
        (Some(exact), _) => format!(" = {}", number(exact)),
        (None, Some(high)) => {
            let mean = formula.mean.map(|mean| format!(", {} on average", number(mean)));
            format!(": {} to {}{}", number(formula.low), number(high), mean.unwrap_or_default())
        }
        (None, None) if formula.low == 0.0 => return formula.text.into(),
        (None, None) => format!(": at least {}", number(formula.low)),
    };
    let verdict = match formula.agrees {
        Some(true) => "✓".green().to_string(),
        Some(false) => "✗ does not agree".red().bold().to_string(),
        None => "– not comparable".dimmed().to_string(),
    };
    format!("{}{value} {verdict}", formula.text)
}

/// The properties, a line each: first what was promised, then the rest.
pub fn judged(promised: &[Property], other: &[Property]) -> String {
    let mut text = format!("  {}\n", "promised".dimmed());
    for property in promised {
        let mark = match property.holds {
            Some(true) => "✓".green().to_string(),
            Some(false) => "✗".red().bold().to_string(),
            None => "–".yellow().to_string(),
        };
        let line = line(property, property.claim.into());
        text += &line.replacen(MARK, &mark, 1);
    }
    if !other.is_empty() {
        text += &format!("  {}\n", "not promised".dimmed());
    }
    for property in other {
        let word = match property.holds {
            Some(true) => "held anyway",
            Some(false) => "did not hold",
            None => "open",
        };
        let line = line(property, format!("{}, {word}", property.claim)).replacen(MARK, "·", 1);
        text += &line.lines().map(|line| format!("{}\n", line.dimmed())).collect::<String>();
    }
    text
}

/// Keeps the place of a mark, whose colour would count as letters.
const MARK: char = '?';

fn line(property: &Property, mut text: String) -> String {
    if !property.detail.is_empty() {
        text += &format!(" — {}", property.detail);
    }
    indented(&format!("  {MARK} {:<9} ", property.name), &text)
}

/// The promise that was broken, and the shortest way there that was found.
pub fn violated(violation: &Violation, script: Option<&Script>, rerun: &str) -> String {
    let sentence = format!("{} is broken: {}", violation.property, violation.detail);
    let lines = indented("✗ ", &sentence);
    let mut text: String = lines.lines().map(|line| format!("{}\n", line.red().bold())).collect();
    if let Some(script) = script {
        text += &format!("\n{}\n\n{script}", "A short script that breaks it too:".bold());
    }
    text += &format!("\n{}", typed(&format!("{}  ", "run it again".bold()), rerun));
    if script.is_some() {
        text += &format!(
            "{}     save the script as bug.script, then: {} replay bug.script\n",
            "replay it".bold(),
            crate::program::name()
        );
    }
    text
}

fn times(summary: &Summary) -> String {
    match summary.mean {
        Some(mean) => format!("{} ms on average, {} ms at most", number(mean), number(summary.max)),
        None => "–".into(),
    }
}

/// A number with as many digits as anyone reads.
fn number(value: f64) -> String {
    if value >= 1000.0 {
        return grouped(value.round() as u64);
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
