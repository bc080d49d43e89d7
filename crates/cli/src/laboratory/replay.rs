//! `conclave replay`: scripts and traces, once more.

use std::path::Path;

use conclave_lab::Recorded;
use conclave_sim::{Difference, PlayError, Played, Property};
use conclave_trace::{
    Block, Command, Header, Record, Script, Setup, Trace, What, commands_by_record, describe,
};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::args::{DiagramArg, OutputArgs, ReplayArgs};
use super::catalogue::Catalogue;
use super::files;
use super::no_such_algorithm;
use super::output::{self, grouped, indented, judged, quoted};
use super::sim::{drawn, violation_json};

use crate::failure::{Failure, Verdict};

/// What writes a run as a script, if that is wanted.
type Save<'a> = &'a dyn Fn(&Trace) -> Result<(), Failure>;

/// Repeats what a file holds, a script or a trace.
pub fn run(args: &ReplayArgs, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    let text = files::read(&args.file)?;
    args.output.check_with(args.save_script.as_deref())?;
    let save = |trace: &Trace| match &args.save_script {
        Some(path) => files::save_script(path, trace, catalogue),
        None => Ok(()),
    };
    if !text.trim_start().starts_with('{') {
        return replay_script(&args.file, &text, &args.output, args.update, &save, catalogue);
    }
    if args.update {
        return Err(Failure::new("--update rewrites scripts, and this is a trace")
            .hint("--save-script FILE writes it as a script"));
    }
    replay_trace(&args.file, &text, &args.output, &save, catalogue)
}

/// Plays a script.
pub fn script(path: &Path, output: &OutputArgs, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    replay_script(path, &files::read(path)?, output, false, &|_| Ok(()), catalogue)
}

fn replay_script(
    path: &Path,
    text: &str,
    output: &OutputArgs,
    update: bool,
    save: Save<'_>,
    catalogue: &Catalogue,
) -> Result<Verdict, Failure> {
    if update && files::is_standard(path) {
        return Err(Failure::new("--update needs a file to rewrite, and this is standard input"));
    }
    let named = |error: &dyn core::fmt::Display| Failure::new(format!("{}: {error}", path.display()));
    let script = Script::parse(text).map_err(|error| named(&error))?;
    output.check()?;
    let played = catalogue.play(&script).map_err(|error| unplayable(error, &named, catalogue))?;
    output.check_only(&played.trace.header.nodes)?;
    output.write(&played.trace)?;
    save(&played.trace)?;
    if update {
        files::write(path, |out| write!(out, "{}", played.script))?;
    }
    let is_recorded = script.blocks.iter().any(|block| !block.recorded.is_empty());
    let difference = played.difference.as_ref().filter(|_| !update);
    if output.json {
        output::show_json(&script_json(path, &played, update))?;
    } else {
        let mut page = script_page(&played, output);
        page += &match difference {
            Some(_) if !is_recorded => unrecorded(path),
            Some(difference) => different(path, difference),
            None if update => format!("{} {} holds what came out\n", "✓".green(), path.display()),
            None => format!("{} it came out as recorded\n", "✓".green()),
        };
        output::show(&page)?;
    }
    Ok(Verdict::of(difference.is_none() && held(&played)))
}

/// The sentence about what cannot be played; `named` says in which file.
pub fn unplayable(
    error: PlayError,
    named: &dyn Fn(&dyn core::fmt::Display) -> Failure,
    catalogue: &Catalogue,
) -> Failure {
    match error {
        PlayError::UnknownAlgorithm(name) => no_such_algorithm(&name, catalogue),
        PlayError::NoRun | PlayError::Setting(_) | PlayError::Impossible { .. } => named(&error),
    }
}

fn held(played: &Played) -> bool {
    let (promised, _) = properties(played);
    played.violation.is_none() && promised.iter().all(|property| property.holds != Some(false))
}

/// What was promised, and what was not.
fn properties(played: &Played) -> (Vec<Property>, Vec<Property>) {
    let judgements = played.judgements.iter().cloned();
    let (promised, other): (Vec<_>, Vec<_>) = judgements.partition(|judgement| judgement.promised);
    (promised.into_iter().map(Property::from).collect(), other.into_iter().map(Property::from).collect())
}

fn script_page(played: &Played, output: &OutputArgs) -> String {
    let mut page = format!("{}\n", played.script);
    if output.diagram == DiagramArg::Always {
        page += &format!("{}\n", drawn(&played.trace, output));
    }
    page + &properties_page(played)
}

fn unrecorded(path: &Path) -> String {
    let word = quoted(&path.display().to_string());
    format!("– nothing is recorded yet: {} replay {word} --update records it\n", crate::program::name())
}

fn different(path: &Path, difference: &Difference) -> String {
    let side = |text: &Option<String>| text.clone().unwrap_or_else(|| "nothing more".into());
    let headline = format!("✗ it came out differently, first in the block at line {}", difference.line);
    let mut text = format!("{}\n", headline.red().bold());
    text += &indented("  recorded  ", &side(&difference.recorded));
    text += &indented("  came out  ", &side(&difference.came_out));
    let word = quoted(&path.display().to_string());
    text + &format!("  if that is right: {} replay {word} --update\n", crate::program::name())
}

pub fn properties_page(played: &Played) -> String {
    let (promised, other) = properties(played);
    let mut page = judged(&promised, &other) + "\n";
    if let Some(violation) = &played.violation {
        page += &broken_line(violation.property, &violation.detail);
    }
    page
}

fn broken_line(property: &str, detail: &str) -> String {
    let lines = indented("✗ ", &format!("{property} is broken: {detail}"));
    lines.lines().map(|line| format!("{}\n", line.red().bold())).collect()
}

pub fn script_json(path: &Path, played: &Played, updated: bool) -> Value {
    let difference = played.difference.as_ref().map(|difference| {
        json!({ "line": difference.line, "recorded": difference.recorded, "came_out": difference.came_out })
    });
    let mut report = played_json(path, "script", &played.trace.header, played);
    report["same"] = played.difference.is_none().into();
    report["difference"] = difference.into();
    report["updated"] = updated.into();
    report["script"] = played.script.to_string().into();
    report
}

fn played_json(path: &Path, kind: &str, header: &Header, played: &Played) -> Value {
    let mut report = json!({
        "file": path.display().to_string(),
        "kind": kind,
        "algorithm": header.algorithm,
        "settings": header.settings,
        "nodes": header.nodes.len(),
        "records": played.trace.records.len(),
    });
    if let Some(mutant) = &header.mutant {
        report["mutant"] = mutant.as_str().into();
    }
    properties_json(played, &mut report);
    report
}

/// Adds what became of the properties.
pub fn properties_json(played: &Played, report: &mut Value) {
    let (promised, other) = properties(played);
    report["properties"] = json!(promised);
    report["not_promised"] = json!(other);
    if let Some(violation) = &played.violation {
        report["violation"] = violation_json(violation);
    }
}

/// Plays what the processes of a live cluster have lived through, and judges it.
pub fn live(
    name: &str,
    trace: &Trace,
    output: &OutputArgs,
    catalogue: &Catalogue,
) -> Result<Verdict, Failure> {
    let mut text = Vec::new();
    trace
        .write_jsonl(&mut text)
        .map_err(|error| Failure::new(format!("the trace cannot be written: {error}")))?;
    replay_trace(Path::new(name), &String::from_utf8_lossy(&text), output, &|_| Ok(()), catalogue)
}

/// What became of the promises in a run of real processes, for the lab.
pub fn recorded(name: &str, trace: &Trace, catalogue: &Catalogue) -> Result<Recorded, Failure> {
    let named = |error: &dyn core::fmt::Display| Failure::new(format!("{name}: {error}"));
    let lines: Vec<usize> = (2..).take(trace.records.len()).collect();
    let repeated =
        Repeated::of(trace, &lines, catalogue).map_err(|error| unplayable(error, &named, catalogue))?;
    let report = repeated.json(Path::new(name), trace).to_string();
    let Repeated { played, unjudged, .. } = repeated;
    let (judgements, violation) =
        played.map_or_else(Default::default, |played| (played.judgements, played.violation));
    let (promised, other): (Vec<_>, Vec<_>) =
        judgements.into_iter().partition(|judgement| judgement.promised);
    let plain = |list: Vec<_>| list.into_iter().map(Property::from).collect();
    Ok(Recorded {
        report,
        promised: plain(promised),
        other: plain(other),
        violation: violation.filter(|_| unjudged.is_none()),
        unjudged: unjudged.map(|_| "not judged again, because there were pauses or cuts"),
    })
}

fn replay_trace(
    path: &Path,
    text: &str,
    output: &OutputArgs,
    save: Save<'_>,
    catalogue: &Catalogue,
) -> Result<Verdict, Failure> {
    let named = |error: &dyn core::fmt::Display| Failure::new(format!("{}: {error}", path.display()));
    let trace = Trace::read_jsonl(text).map_err(|error| named(&error))?;
    if !matches!(trace.header.channels.as_str(), "fifo" | "any") {
        return Err(named(&format!("line 1: '{}' is not a channel order", trace.header.channels)));
    }
    output.check()?;
    let lines: Vec<usize> = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, _)| number)
        .collect();
    let repeated = Repeated::of(&trace, &lines[1..], catalogue);
    let repeated = repeated.map_err(|error| unplayable(error, &named, catalogue))?;
    output.check_only(&trace.header.nodes)?;
    output.write(&trace)?;
    save(&trace)?;
    if output.json {
        output::show_json(&repeated.json(path, &trace))?;
    } else {
        output::show(&repeated.page(&trace, output))?;
    }
    Ok(Verdict::of(repeated.divergence.is_none() && repeated.held()))
}

/// A recorded run, done once more.
struct Repeated {
    /// Nothing if it could not be done.
    played: Option<Played>,
    divergence: Option<Divergence>,
    /// The promise that was broken when the trace was recorded, if the properties cannot be judged again: pauses and
    /// cuts excuse a process from some of them, and no script tells of those.
    unjudged: Option<Verdicts>,
}

/// What a trace says of its own run.
struct Verdicts {
    broken: Option<(String, String)>,
}

impl Verdicts {
    fn of(trace: &Trace) -> Option<Self> {
        let excuses = |record: &Record| matches!(record.what, What::Pause | What::Partition { .. });
        trace.records.iter().any(excuses).then(|| Self {
            broken: trace.records.iter().find_map(|record| match &record.what {
                What::Violation { property, detail } => Some((property.clone(), detail.clone())),
                _ => None,
            }),
        })
    }

    fn page(&self) -> String {
        let note = "  the properties are not judged again, because there were pauses or cuts";
        let mut page = format!("{}\n\n", note.dimmed());
        if let Some((property, detail)) = &self.broken {
            page += &broken_line(property, detail);
        }
        page
    }
}

/// Where a recorded run and its repetition part.
struct Divergence {
    /// The line of the trace.
    line: usize,
    recorded: String,
    came_out: String,
}

impl Repeated {
    /// `lines` are the lines of the records in their file.
    fn of(trace: &Trace, lines: &[usize], catalogue: &Catalogue) -> Result<Self, PlayError> {
        let unjudged = Verdicts::of(trace);
        match catalogue.play(&script_of(trace, lines)) {
            Ok(played) => {
                let divergence = divergence(trace, &played.trace, lines);
                Ok(Self { played: Some(played), divergence, unjudged })
            }
            Err(PlayError::Impossible { line, why }) => {
                let record =
                    lines.iter().position(|other| *other == line).and_then(|at| trace.records.get(at));
                let recorded = record.map_or_else(String::new, describe);
                let divergence = Some(Divergence { line, recorded, came_out: why });
                Ok(Self { played: None, divergence, unjudged })
            }
            Err(error) => Err(error),
        }
    }

    fn held(&self) -> bool {
        match (&self.unjudged, &self.played) {
            (Some(verdicts), _) => verdicts.broken.is_none(),
            (None, played) => played.as_ref().is_some_and(held),
        }
    }

    fn page(&self, trace: &Trace, output: &OutputArgs) -> String {
        let header = &trace.header;
        let mut facts = format!(" · {} processes · {}", header.nodes.len(), counted(trace));
        facts += &header.mutant.as_ref().map_or_else(String::new, |mutant| format!(" · mutant {mutant}"));
        let mut page = format!("{}{facts}\n\n", header.algorithm.bold());
        let draws = match output.diagram {
            DiagramArg::Always => true,
            DiagramArg::Never => false,
            DiagramArg::Auto => header.nodes.len() <= 8 && trace.records.len() <= 200,
        };
        if draws {
            page += &format!("{}\n", drawn(trace, output));
        }
        page += &match (&self.unjudged, &self.played) {
            (Some(verdicts), _) => verdicts.page(),
            (None, Some(played)) => properties_page(played),
            (None, None) => String::new(),
        };
        match &self.divergence {
            None => page + &format!("{} it came out the same, message by message\n", "✓".green()),
            Some(divergence) => {
                let headline = format!("✗ it came out differently, first at line {}", divergence.line);
                page += &format!("{}\n", headline.red().bold());
                page += &indented("  recorded  ", &divergence.recorded);
                page + &indented("  came out  ", &divergence.came_out)
            }
        }
    }

    fn json(&self, path: &Path, trace: &Trace) -> Value {
        let mut report = match &self.played {
            Some(played) => played_json(path, "trace", &trace.header, played),
            None => {
                json!({ "file": path.display().to_string(), "kind": "trace", "algorithm": trace.header.algorithm })
            }
        };
        if let (Some(Verdicts { broken }), Some(report)) = (&self.unjudged, report.as_object_mut()) {
            report.retain(|field, _| !matches!(field.as_str(), "properties" | "not_promised" | "violation"));
            if let Some((property, detail)) = broken {
                report.insert("violation".into(), json!({ "property": property, "detail": detail }));
            }
        }
        report["records"] = trace.records.len().into();
        report["same"] = self.divergence.is_none().into();
        report["difference"] = self.divergence.as_ref().map_or(Value::Null, |divergence| {
            json!({
                "line": divergence.line,
                "recorded": divergence.recorded,
                "came_out": divergence.came_out,
            })
        });
        report
    }
}

fn counted(trace: &Trace) -> String {
    let sends = trace.records.iter().filter(|record| matches!(record.what, What::Send(_))).count();
    format!("{} records, {} messages", grouped(trace.records.len() as u64), grouped(sends as u64))
}

/// The script that repeats a trace, each command with the line of its record.
fn script_of(trace: &Trace, lines: &[usize]) -> Script {
    let run = (Command::Run(Setup::from_header(&trace.header)), 1);
    let commands = commands_by_record(trace).into_iter().map(|(command, record)| (command, lines[record]));
    let commands = core::iter::once(run).chain(commands).collect();
    Script { blocks: vec![Block { commands, ..Block::default() }] }
}

/// The first message or event that is not the same; times do not count.
fn divergence(recorded: &Trace, came_out: &Trace, lines: &[usize]) -> Option<Divergence> {
    let mut old = recorded.records.iter().zip(lines).filter(|(record, _)| is_told(record));
    let mut new = came_out.records.iter().filter(|record| is_told(record));
    loop {
        let (old, new) = (old.next(), new.next());
        if old.is_none() && new.is_none() {
            return None;
        }
        let words = |record: Option<&Record>| record.map_or_else(|| "nothing more".into(), describe);
        let (before, after) = (words(old.map(|(record, _)| record)), words(new));
        if before != after {
            let line = old.map_or_else(|| lines.last().map_or(1, |last| last + 1), |(_, line)| *line);
            return Some(Divergence { line, recorded: before, came_out: after });
        }
    }
}

fn is_told(record: &Record) -> bool {
    matches!(record.what, What::Send(_) | What::Deliver(_) | What::Event { .. })
}
