//! `conclave check --all`: one algorithm, or all of a family, through many small searches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use conclave_check::{Limits, Stopped, Swept, sweep};
use serde_json::{Value, json};

use super::args::CheckArgs;
use super::catalogue::{Catalogue, Entry};
use super::check::{INCOMPLETE, cores, interrupt, three_quarters};
use super::compare::chosen;
use super::output::{self, Progress, indented};
use crate::failure::{Failure, Verdict};

/// States after which a search is given up, if nothing else is said.
const USUAL_STATES: usize = 100_000;

fn command(row: &Swept) -> String {
    format!("check {} {}", row.algorithm, row.trial.words())
}

fn text(row: &Swept) -> String {
    let (states, depth) = row.counts();
    let mut text = format!("  {:<38} {states:>11} {depth:>7}  ", row.trial.words());
    text = indented(&text, &row.verdict());
    for missed in row.never_met() {
        text += &indented("      never met  ", &missed);
    }
    text
}

fn json(row: &Swept) -> Value {
    json!({
        "algorithm": row.algorithm,
        "command": command(row),
        "settings": row.trial.settings,
        "beyond": row.trial.beyond,
        "verdict": row.verdict(),
        "impossible": row.found.as_ref().err(),
        "report": row.found.as_ref().ok(),
        "never_met": row.never_met(),
    })
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
        output::show_json(&json!(rows.iter().map(json).collect::<Vec<_>>()))?;
    } else if args.markdown {
        let lines = rows.iter().map(|row| row.row() + "\n");
        output::show(&(Swept::HEAD.to_owned() + &lines.collect::<String>()))?;
    } else {
        output::show(&page(&rows))?;
    }
    let is_broken = rows.iter().any(|row| row.is_broken() && !row.trial.beyond);
    let is_whole = !interrupted.load(Ordering::Relaxed) && !rows.iter().any(Swept::is_incomplete);
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
) -> Result<Vec<Swept>, Failure> {
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
            let found = found.map_err(|error| error.to_string());
            rows.push(Swept { algorithm: algorithm.into(), trial, found });
        }
    }
    Ok(rows)
}

fn page(rows: &[Swept]) -> String {
    let mut text = String::new();
    let mut last = "";
    for row in rows {
        if row.algorithm != last {
            let gap = if last.is_empty() { "" } else { "\n" };
            text += &format!("{gap}{:<40} {:>11} {:>7}  verdict\n", row.algorithm, "states", "depth");
            last = &row.algorithm;
        }
        text += &self::text(row);
    }
    let count = |is_it: fn(&Swept) -> bool| rows.iter().filter(|row| is_it(row)).count();
    let broken = count(|row| row.is_broken() && !row.trial.beyond);
    let beyond = count(|row| row.is_broken() && row.trial.beyond);
    let (open, impossible) = (count(Swept::is_incomplete), count(|row| row.found.is_err()));
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
        text += &indented("", &format!("the first that is broken: {program} {}", command(row)));
    }
    text
}
