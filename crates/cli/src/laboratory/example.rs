//! `conclave example`: worked examples by name.

mod live;

use conclave_sim::examples::{self, Example};
use conclave_sim::step::{Standing, Stepper};
use conclave_sim::world::Presence;
use conclave_sim::{PlayError, Played};
use conclave_trace::{Command, Script};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::args::{DiagramArg, ExampleArgs};
use super::catalogue::{Catalogue, Entry};
use super::no_such_algorithm;
use super::output::{self, indented, stepped};
use super::replay::{properties_json, properties_page};
use super::sim::drawn;
use crate::failure::{Failure, Verdict, nearest};
use crate::program;

/// Lists the examples, or plays one.
pub fn run(args: &ExampleArgs, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    let Some(name) = &args.name else { return list(args, catalogue) };
    let example = examples::find(name).ok_or_else(|| unknown(name))?;
    if args.print {
        output::show(&example.script.to_string())?;
        return Ok(Verdict::Held);
    }
    args.output.check()?;
    if args.live {
        return live::run(&example, &args.output, catalogue);
    }
    Show::of(&example, catalogue)?.run(args)
}

fn unknown(name: &str) -> Failure {
    let all = examples::all();
    let names = all.iter().flat_map(|example| [example.name.as_str(), example.file]);
    let guess = nearest(name, names).map_or_else(String::new, |meant| format!("; did you mean '{meant}'?"));
    Failure::new(format!("there is no example '{name}'{guess}")).hint("'conclave example' lists all of them")
}

/// Those of an algorithm or family, if one is named.
fn chosen(of: Option<&str>, catalogue: &Catalogue) -> Result<Vec<Example>, Failure> {
    let all = examples::all();
    let Some(of) = of else { return Ok(all) };
    let is_of = |example: &Example| {
        let family = catalogue.find(example.algorithm()).map(|entry| entry.about.family.name);
        example.algorithm() == of || family == Some(of)
    };
    let found: Vec<_> = all.into_iter().filter(is_of).collect();
    let is_known =
        catalogue.find(of).is_some() || catalogue.families().iter().any(|family| family.name == of);
    match found.as_slice() {
        [] if is_known => Err(Failure::new(format!("there is no example of '{of}'"))),
        [] => Err(no_such_algorithm(of, catalogue)),
        _ => Ok(found),
    }
}

fn list(args: &ExampleArgs, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    if args.output.wants_files() {
        return Err(Failure::new("no example is given, so there is nothing to write")
            .hint("'conclave example' lists all of them"));
    }
    let chosen = chosen(args.of.as_deref(), catalogue)?;
    if args.output.json {
        output::show_json(&chosen.iter().map(|example| json(example, catalogue)).collect::<Vec<_>>())?;
    } else {
        output::show(&overview(&chosen, catalogue))?;
    }
    Ok(Verdict::Held)
}

/// A line for each under its algorithm, and those under their families.
fn overview(chosen: &[Example], catalogue: &Catalogue) -> String {
    let width = chosen.iter().map(|example| example.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for family in catalogue.families() {
        let members = catalogue.all().into_iter().filter(|about| about.family == family);
        let mut heading = Some(family.title);
        for about in members {
            let mut own: Vec<_> = chosen.iter().filter(|example| example.algorithm() == about.name).collect();
            own.sort_by_key(|example| (example.breaks().is_some(), example.name.as_str()));
            if own.is_empty() {
                continue;
            }
            if let Some(title) = heading.take() {
                let gap = if text.is_empty() { "" } else { "\n" };
                text += &format!("{gap}{}\n", title.bold());
            }
            text += &format!("  {}\n", about.name);
            for example in own {
                let broken =
                    example.breaks().map_or_else(String::new, |property| format!(" ({property} is broken)"));
                text += &indented(
                    &format!("    {:<width$}  ", example.name),
                    &format!("{}{broken}", example.title),
                );
            }
        }
    }
    text + &format!("\n'{} example NAME' plays one, step by step\n", program::name())
}

fn json(example: &Example, catalogue: &Catalogue) -> Value {
    json!({
        "name": example.name,
        "file": example.file,
        "algorithm": example.algorithm(),
        "family": catalogue.find(example.algorithm()).map(|entry| entry.about.family.name),
        "title": example.title,
        "source": example.source,
        "look_at": example.look_at,
        "breaks": example.breaks(),
    })
}

/// An example that is being played.
struct Show<'a> {
    example: &'a Example,
    catalogue: &'a Catalogue,
    entry: Entry,
    played: Played,
}

impl<'a> Show<'a> {
    fn of(example: &'a Example, catalogue: &'a Catalogue) -> Result<Self, Failure> {
        let entry = catalogue.find(example.algorithm());
        let entry = entry.ok_or_else(|| no_such_algorithm(example.algorithm(), catalogue))?;
        let played = (entry.play)(&example.script).map_err(Failure::new)?;
        Ok(Self { example, catalogue, entry, played })
    }

    fn run(&self, args: &ExampleArgs) -> Result<Verdict, Failure> {
        args.output.check_only(&self.played.trace.header.nodes)?;
        args.output.write(&self.played.trace)?;
        let steps = steps(self.entry, &self.example.script).map_err(Failure::new)?;
        if args.output.json {
            output::show_json(&self.json(&steps))?;
        } else {
            output::show(&self.page(&steps, args))?;
        }
        Ok(Verdict::of(self.came_out()))
    }

    /// Whether it came out as recorded, and broke what it is there to break.
    fn came_out(&self) -> bool {
        let broken = self.played.violation.as_ref().map(|violation| violation.property.to_owned());
        self.played.difference.is_none() && broken == self.example.breaks()
    }

    fn page(&self, steps: &[Told], args: &ExampleArgs) -> String {
        let Example { title, source, look_at, .. } = self.example;
        let mut page = format!("{}\n", indented("", title).trim_end().bold());
        page +=
            &indented("  algorithm  ", &format!("{} ({})", self.entry.about.title, self.entry.about.name));
        for (label, text) in [("source", source), ("look at", look_at)] {
            page +=
                &text.as_ref().map_or_else(String::new, |text| indented(&format!("  {label:<9}  "), text));
        }
        for told in steps {
            page += &told.page(args.brief);
        }
        page.push('\n');
        if args.output.diagram == DiagramArg::Always {
            page += &format!("{}\n", drawn(&self.played.trace, &args.output));
        }
        page += &properties_page(&self.played);
        page += &match &self.played.difference {
            None => format!("{} it came out as recorded\n", "✓".green()),
            Some(difference) => {
                let line =
                    format!("✗ it came out differently, first in the block at line {}", difference.line);
                format!("{}\n", line.red().bold())
            }
        };
        page
    }

    fn json(&self, steps: &[Told]) -> Value {
        let mut report = json(self.example, self.catalogue);
        report["script"] = self.example.script.to_string().into();
        report["steps"] = steps.iter().map(Told::json).collect();
        report["same"] = self.played.difference.is_none().into();
        properties_json(&self.played, &mut report);
        report
    }
}

/// A step of an example.
struct Told {
    /// What the script says before it.
    comments: Vec<String>,
    command: String,
    lines: Vec<String>,
    before: Vec<Standing>,
    after: Vec<Standing>,
}

/// The steps of a script, with what became of the processes in each.
fn steps(entry: Entry, script: &Script) -> Result<Vec<Told>, PlayError> {
    let Some(setup) = script.setup() else { return Err(PlayError::NoRun) };
    let mut run: Stepper = (entry.step)(setup)?;
    let mut told = Vec::new();
    let mut before = run.processes();
    for block in &script.blocks {
        let mut comments = block.comments.clone();
        if block.commands.is_empty() {
            told.push(Told {
                comments,
                command: String::new(),
                lines: Vec::new(),
                before: Vec::new(),
                after: Vec::new(),
            });
            continue;
        }
        for (command, line) in &block.commands {
            let lines = match command {
                Command::Run(_) => Vec::new(),
                command => {
                    let lines = run.take(command.clone());
                    lines.map_err(|why| PlayError::Impossible { line: *line, why })?.to_vec()
                }
            };
            let after = run.processes();
            let comments = core::mem::take(&mut comments);
            told.push(Told { comments, command: command.to_string(), lines, before, after: after.clone() });
            before = after;
        }
    }
    Ok(told)
}

impl Told {
    fn page(&self, brief: bool) -> String {
        let mut text = String::new();
        if !self.comments.is_empty() {
            let story = indented("  # ", &self.comments.join(" ")).replace("\n    ", "\n  # ");
            text += &format!("\n{}", story.dimmed());
        }
        if self.command.is_empty() {
            return text;
        }
        text += &indented("  ", &self.command.bold().to_string());
        text += &stepped::lines(&self.lines);
        if !brief {
            text += &stepped::changes(&self.before, &self.after);
        }
        text
    }

    fn json(&self) -> Value {
        let process = |standing: &Standing| {
            let state: serde_json::Map<String, Value> =
                standing.state.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
            let up = standing.presence == Presence::Up;
            json!({ "id": standing.id, "up": up, "phase": standing.phase.name, "state": state })
        };
        json!({
            "comments": self.comments,
            "command": self.command,
            "lines": self.lines,
            "processes": self.after.iter().map(process).collect::<Vec<_>>(),
        })
    }
}
