//! `conclave step`: a run by hand, in the terminal.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::Path;

use conclave_algorithms::Channels;
use conclave_core::Timing;
use conclave_sim::Property;
use conclave_sim::step::{Standing, Stepper};
use conclave_trace::{Command, Script, Setup};
use owo_colors::OwoColorize as _;

use super::args::{StepArgs, members};
use super::catalogue::Catalogue;
use super::output::{self, indented, judged, stepped};
use super::{files, no_such_algorithm, replay, sim};
use crate::failure::{Failure, Verdict};

/// Reads lines until there are no more, and does what they say.
pub fn run(args: &StepArgs, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    if let Some(path) = &args.save_script {
        files::check(path)?;
    }
    let mut console = Console { run: begin(args, catalogue)?, asks: std::io::stdin().is_terminal() };
    output::show(&console.greeting())?;
    let mut lines = std::io::stdin().lock().lines();
    loop {
        if console.asks {
            output::show("\n> ")?;
        }
        let Some(line) = lines.next() else { break };
        let line = line.map_err(|error| Failure::new(format!("cannot read standard input: {error}")))?;
        match console.obey(line.trim()) {
            Ok(Some(text)) => output::show(&text)?,
            Ok(None) => break,
            Err(failure) => failure.print(),
        }
    }
    if let Some(path) = &args.save_script {
        console.save(path)?;
    }
    output::show(&console.farewell()?)?;
    Ok(Verdict::of(console.run.violation().is_none()))
}

/// The run at its beginning, or after a script.
fn begin(args: &StepArgs, catalogue: &Catalogue) -> Result<Stepper, Failure> {
    if let Some(path) = &args.script {
        let named = |error: &dyn core::fmt::Display| Failure::new(format!("{}: {error}", path.display()));
        let script = Script::parse(&files::read(path)?).map_err(|error| named(&error))?;
        let Some(setup) = script.setup() else { return Err(named(&"the script has no `run`")) };
        let mut run = stepper(setup, catalogue, &named)?;
        for (command, line) in script.blocks.iter().flat_map(|block| &block.commands) {
            if !matches!(command, Command::Run(_)) {
                run.take(command.clone()).map_err(|why| named(&format!("line {line}: {why}")))?;
            }
        }
        return Ok(run);
    }
    let algorithm = args.algo.clone().unwrap_or_default();
    let setup = Setup {
        nodes: members(args.ids.as_ref(), args.n, 3)?.iter().collect(),
        settings: sim::settings(&args.set, &args.stamp)?,
        mutant: args.mutant.clone(),
        channels: args.channels.map(|channels| Channels::from(channels).name().into()),
        locks: args.locks,
        algorithm,
        timing: Timing::default(),
    };
    stepper(&setup, catalogue, &|error| Failure::new(error))
}

fn stepper(
    setup: &Setup,
    catalogue: &Catalogue,
    named: &dyn Fn(&dyn core::fmt::Display) -> Failure,
) -> Result<Stepper, Failure> {
    /// More than that nobody steps through, and all of them are shown.
    const MOST: usize = 1_000;
    if setup.nodes.len() > MOST {
        return Err(Failure::new(format!("at most {MOST} processes are driven by hand")));
    }
    let entry = catalogue.find(&setup.algorithm);
    let entry = entry.ok_or_else(|| no_such_algorithm(&setup.algorithm, catalogue))?;
    (entry.step)(setup).map_err(|error| replay::unplayable(error, named, catalogue))
}

/// A run and the one who drives it.
struct Console {
    run: Stepper,
    /// Somebody types.
    asks: bool,
}

impl Console {
    fn greeting(&self) -> String {
        let about = self.run.about();
        let n = self.run.processes().len();
        let mut text = format!("{} · {n} process{}\n", about.title.bold(), if n == 1 { "" } else { "es" });
        for done in self.run.done() {
            text += &indented("  ", &done.command.to_string());
            text += &stepped::lines(&done.lines);
        }
        if self.asks {
            text += &indented("", "type a number, a command such as 'request 1', or 'help'; Ctrl-D ends it");
        }
        text + &self.next()
    }

    /// What can happen next, numbered; and what users may ask for where nothing can.
    fn next(&self) -> String {
        let mut text = stepped::standings("  ", &self.run.processes());
        let mut number = 0;
        let flying = self.run.in_flight();
        if !flying.is_empty() {
            text += &format!("  {}\n", "in flight".dimmed());
        }
        for letter in &flying {
            let label = if letter.deliverable {
                number += 1;
                format!("  {number:>3}  ")
            } else {
                "       ".to_owned()
            };
            let message = &letter.message;
            let behind = if letter.deliverable { "" } else { " (behind an older one)" };
            text +=
                &indented(&label, &format!("{} → {} {}{behind}", message.from, message.to, message.label()));
        }
        let armed = self.run.armed();
        if !armed.is_empty() {
            text += &format!("  {}\n", "timers".dimmed());
        }
        for (process, timer) in armed {
            number += 1;
            text += &format!("  {number:>3}  {process} {timer}\n");
        }
        if number == 0 {
            let asks = self.run.requests().iter().map(|usage| format!("{} P {}", usage.verb, usage.values));
            let asks: Vec<_> = asks.map(|ask| ask.trim_end().to_owned()).collect();
            text += &indented("  ", &format!("nothing happens by itself; ask with: {}", asks.join(", ")));
        }
        text
    }

    /// Does what a line says. Nothing if it says that all is over.
    fn obey(&mut self, line: &str) -> Result<Option<String>, Failure> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let text = match words.as_slice() {
            ["quit" | "exit" | "q"] => return Ok(None),
            [] => self.choose(1)?,
            [number] if number.bytes().all(|byte| byte.is_ascii_digit()) => self
                .choose(number.parse().map_err(|_| Failure::new(format!("there is no choice {number}")))?)?,
            ["back"] => self.back(1)?,
            ["back", steps] => {
                let steps =
                    steps.parse().map_err(|_| Failure::new(format!("'{steps}' is not a number of steps")))?;
                self.back(steps)?
            }
            ["state" | "states"] => self.states(None)?,
            ["state", process] => self.states(Some(process))?,
            ["next" | "list"] => self.next(),
            ["properties"] => self.properties(),
            ["script"] => self.run.script().to_string(),
            ["save", path] => {
                self.save(Path::new(path))?;
                format!("written to {path}\n")
            }
            ["help" | "?"] => HELP.to_owned(),
            _ => self.command(line)?,
        };
        Ok(Some(text))
    }

    fn choose(&mut self, number: usize) -> Result<String, Failure> {
        let choices = self.run.choices();
        let chosen = number.checked_sub(1).and_then(|place| choices.get(place)).cloned();
        let command = chosen.ok_or_else(|| match choices.len() {
            0 => Failure::new("nothing happens by itself").hint("'help' shows what can be done"),
            count => Failure::new(format!("there is no choice {number}; they go from 1 to {count}")),
        })?;
        let told = format!("  {}\n", command.to_string().bold());
        Ok(told + &self.take(command)?)
    }

    fn command(&mut self, line: &str) -> Result<String, Failure> {
        let wrong = |mistake| Failure::new(mistake).hint("'help' shows what can be done");
        let command: Command = line.parse().map_err(wrong)?;
        self.take(command)
    }

    fn take(&mut self, command: Command) -> Result<String, Failure> {
        let (before, had) = (self.run.processes(), self.run.violation().is_some());
        let lines = self.run.take(command).map_err(Failure::new)?.to_vec();
        let mut text = stepped::lines(&lines) + &stepped::values(&before, &self.run.processes());
        if let Some(violation) = self.run.violation().filter(|_| !had) {
            let sentence = format!("{} is broken: {}", violation.property, violation.detail);
            text += &indented("✗ ", &sentence).red().to_string();
        }
        Ok(text + &self.next())
    }

    fn back(&mut self, steps: usize) -> Result<String, Failure> {
        match self.run.done().len() {
            0 => return Err(Failure::new("nothing has been done yet")),
            done if steps > done => {
                return Err(Failure::new(format!("no more than {done} can be taken back")));
            }
            _ => {}
        }
        for _ in 0..steps {
            self.run.back();
        }
        Ok(self.next())
    }

    fn states(&self, process: Option<&str>) -> Result<String, Failure> {
        let all = self.run.processes();
        let wanted = process.map(|word| {
            let id = word.parse().ok();
            let known = id.filter(|id| all.iter().any(|standing| standing.id == *id));
            known.ok_or_else(|| Failure::new(format!("'{word}' is not one of the processes")))
        });
        let wanted = wanted.transpose()?;
        let chosen = all.iter().filter(|standing| wanted.is_none_or(|id| standing.id == id));
        Ok(chosen.map(state).collect())
    }

    fn properties(&self) -> String {
        let (promised, other): (Vec<_>, Vec<_>) =
            self.run.judgements().into_iter().partition(|judgement| judgement.promised);
        let plain = |list: Vec<_>| list.into_iter().map(Property::from).collect::<Vec<_>>();
        judged(&plain(promised), &plain(other))
    }

    fn save(&self, path: &Path) -> Result<(), Failure> {
        let script = self.run.script();
        files::write(path, |out| write!(out, "{script}"))
    }

    /// What became of the properties, as if this were the end.
    fn farewell(&self) -> Result<String, Failure> {
        if self.run.done().is_empty() {
            return Ok(String::new());
        }
        let played = self.run.played().map_err(Failure::new)?;
        Ok(format!("\n{}", replay::properties_page(&played)))
    }
}

fn state(standing: &Standing) -> String {
    let mut text = format!("  {} {}\n", standing.id.to_string().bold(), stepped::word(standing));
    let width = standing.state.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in &standing.state {
        text += &indented(&format!("    {name:<width$}  "), value);
    }
    text
}

const HELP: &str = "  a number            what stands beside it happens; an empty line is 1
  request 1, start 2  a user asks for something; 'next' says for what
  deliver p1 => p2    a message arrives: the oldest, or: deliver p1 => p2 Reply
  drop, duplicate     the network loses a message, or doubles it
  timer 1 NAME        a timer expires
  crash 1, restart 1  a process crashes, and is up again
  suspect 1 2         the failure detector of 1 suspects 2; trust 1 2
  settle              everything in flight arrives, oldest first
  back [K]            take the last K steps back
  state [P]           the state of one process, or of all
  next                what can happen next
  properties          what is promised, and whether it holds so far
  script, save FILE   all of it as a script
  quit                the end
";
