//! `conclave check --all`: one algorithm, or all of a family, through many small searches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use conclave_check::{Limits, Report, Stopped, Trial, sweep};
use serde_json::{Value, json};

use super::args::CheckArgs;
use super::catalogue::{Catalogue, Entry};
use super::check::{INCOMPLETE, cores, interrupt, three_quarters};
use super::compare::chosen;
use super::output::{self, Progress, grouped, indented};
use crate::failure::{Failure, Verdict};

/// States after which a search is given up, if nothing else is said.
const USUAL_STATES: usize = 100_000;

/// A search of the sweep, and what came of it.
struct Row {
    algorithm: &'static str,
    trial: Trial,
    /// Nothing if it cannot be searched; the reason.
    found: Result<Report, String>,
}

impl Row {
    fn command(&self) -> String {
        format!("check {} {}", self.algorithm, self.trial.words())
    }

    fn is_broken(&self) -> bool {
        self.found.as_ref().is_ok_and(|report| !report.all_held())
    }

    fn is_incomplete(&self) -> bool {
        self.found.as_ref().is_ok_and(|report| report.incomplete.is_some())
    }

    fn verdict(&self) -> String {
        let report = match &self.found {
            Ok(report) => report,
            Err(why) => return format!("not possible: {why}"),
        };
        let beyond = if self.trial.beyond { ", beyond what is assumed" } else { "" };
        match (&report.counterexample, report.incomplete) {
            (Some(found), _) => format!("{} is broken{beyond}", found.property),
            (None, Some(why)) => format!("not broken in what was seen; {why}"),
            (None, None) => "holds".into(),
        }
    }

    /// The situations that a search to the end never came to.
    fn never_met(&self) -> Vec<String> {
        let complete = self.found.iter().filter(|report| report.complete);
        let missed = complete.flat_map(|report| report.coverage.iter().filter(|coverage| !coverage.met));
        let words = missed.map(|coverage| format!("{} {}", coverage.situation, coverage.after));
        words.map(|words| words.trim_end().to_owned()).collect()
    }

    fn counts(&self) -> (String, String) {
        let count = |count: Option<u64>| count.map_or_else(|| "-".into(), grouped);
        let report = self.found.as_ref().ok();
        (
            count(report.map(|report| report.states as u64)),
            count(report.filter(|report| report.complete).map(|report| u64::from(report.depth))),
        )
    }

    fn markdown(&self) -> String {
        let (states, depth) = self.counts();
        let (algorithm, words) = (self.algorithm, self.trial.words());
        let never_met = self.never_met().join("; ");
        format!("| {algorithm} | `{words}` | {states} | {depth} | {} | {never_met} |\n", self.verdict())
    }

    fn text(&self) -> String {
        let (states, depth) = self.counts();
        let mut text = format!("  {:<38} {states:>11} {depth:>7}  ", self.trial.words());
        text = indented(&text, &self.verdict());
        for missed in self.never_met() {
            text += &indented("      never met  ", &missed);
        }
        text
    }

    fn json(&self) -> Value {
        json!({
            "algorithm": self.algorithm,
            "command": self.command(),
            "settings": self.trial.settings,
            "beyond": self.trial.beyond,
            "verdict": self.verdict(),
            "impossible": self.found.as_ref().err(),
            "report": self.found.as_ref().ok(),
            "never_met": self.never_met(),
        })
    }
}

/// Searches everything that a sweep has for what is named.
pub fn run(args: &CheckArgs, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    let named = args.algo.clone().ok_or_else(|| {
        Failure::new("no algorithm is given").hint("'conclave check --all mutex' searches a whole family")
    })?;
    let entries = chosen(&[named], catalogue)?;
    let interrupted = interrupt()?;
    let limits = Limits {
        memory: args.memory.unwrap_or_else(three_quarters),
        time: args.time,
        states: Some(args.states.unwrap_or(USUAL_STATES)),
        interrupt: Some(Arc::clone(&interrupted)),
        ..Limits::default()
    };
    let rows = searched(&entries, &limits, args.threads.unwrap_or_else(cores), &interrupted)?;
    if args.output.json {
        output::show_json(&json!(rows.iter().map(Row::json).collect::<Vec<_>>()))?;
    } else if args.markdown {
        let head =
            "| algorithm | search | states | depth | verdict | never met |\n|---|---|---|---|---|---|\n";
        output::show(&(head.to_owned() + &rows.iter().map(Row::markdown).collect::<String>()))?;
    } else {
        output::show(&page(&rows))?;
    }
    let is_broken = rows.iter().any(|row| row.is_broken() && !row.trial.beyond);
    let is_whole = !interrupted.load(Ordering::Relaxed) && !rows.iter().any(Row::is_incomplete);
    Ok(match (is_broken, is_whole) {
        (true, _) => Verdict::Failed,
        (false, false) => Verdict::Code(INCOMPLETE),
        (false, true) => Verdict::Held,
    })
}

fn searched(
    entries: &[Entry],
    limits: &Limits,
    threads: usize,
    interrupted: &AtomicBool,
) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for entry in entries {
        let algorithm = entry.about.name;
        for trial in sweep(entry.about) {
            if interrupted.load(Ordering::Relaxed) {
                return Ok(rows);
            }
            let words = trial.words();
            let _line = Progress::start(move |_| format!("checking {algorithm} {words}"));
            let options = trial.options(limits, threads);
            let found = (entry.check)(&trial.setup(algorithm), &options, &mut |_| {});
            if found.as_ref().is_ok_and(|report| report.incomplete == Some(Stopped::Memory)) {
                crate::output::notice("note", &format!("{algorithm} {}: out of memory", trial.words()));
            }
            rows.push(Row { algorithm, trial, found: found.map_err(|error| error.to_string()) });
        }
    }
    Ok(rows)
}

fn page(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut last = "";
    for row in rows {
        if row.algorithm != last {
            let gap = if last.is_empty() { "" } else { "\n" };
            text += &format!("{gap}{:<40} {:>11} {:>7}  verdict\n", row.algorithm, "states", "depth");
            last = row.algorithm;
        }
        text += &row.text();
    }
    let count = |is_it: fn(&Row) -> bool| rows.iter().filter(|row| is_it(row)).count();
    let broken = count(|row| row.is_broken() && !row.trial.beyond);
    let beyond = count(|row| row.is_broken() && row.trial.beyond);
    let (open, impossible) = (count(Row::is_incomplete), count(|row| row.found.is_err()));
    let whole = rows.len() - broken - beyond - open - impossible;
    text += &indented(
        "\n",
        &format!(
            "{} searches: {whole} hold, {broken} broken, {beyond} broken beyond what is assumed, {open} not \
             seen to the end, {impossible} not possible",
            rows.len()
        ),
    );
    if let Some(row) = rows.iter().find(|row| row.is_broken()) {
        let program = crate::program::name();
        text += &indented("", &format!("the first that is broken: {program} {}", row.command()));
    }
    text
}
