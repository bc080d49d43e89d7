//! A search for people: what was searched, how much there was, what held, what broke.

use std::path::Path;

use conclave_algorithms::About;
use conclave_check::{AskBudget, Counterexample, Coverage, Options, Report, Stopped};
use conclave_sim::Property;
use conclave_trace::Setup;
use owo_colors::OwoColorize as _;

use super::indented;
use super::quoted;
use super::report::{grouped, judged};

/// A script of more commands is only written into a file.
const MOST_COMMANDS: usize = 60;

/// A search and what it found.
pub struct Searched<'a> {
    pub about: &'a About,
    pub setup: &'a Setup,
    pub options: &'a Options,
    pub report: &'a Report,
}

impl Searched<'_> {
    /// What was searched, the counts, the properties.
    pub fn text(&self) -> String {
        let report = self.report;
        let row = |label: &str, value: String| indented(&format!("  {label:<13}"), &value);
        let mut text = self.header();
        text.push('\n');
        text += &row("states", grouped(report.states as u64));
        text += &row("transitions", grouped(report.transitions));
        text += &row("depth", grouped(report.depth.into()));
        let speed = grouped(report.states_per_second as u64);
        let threads = counted(report.threads as u64, "thread", "threads");
        text += &row("time", format!("{}, {speed} states/s, {threads}", seconds(report.wall_seconds)));
        text += &row("memory", size(report.memory));
        if report.reduced {
            text += &row("reduction", "steps that commute are followed in one order only".into());
        }
        if report.normalised {
            text += &row("numbers", "those that only grow are moved down".into());
        }
        if let Some(overtaking) = report.overtaking {
            let bound = overtaking
                .bound
                .map_or_else(|| "nothing is promised".into(), |bound| format!("{bound} allowed"));
            // Without a bound nobody counts further than that where requests have no end.
            let is_more = overtaking.bound.is_none()
                && report.entries == AskBudget::Forever
                && overtaking.most >= report.nodes as u64;
            let most = if is_more {
                format!("{} or more", overtaking.most)
            } else {
                format!("at most {}", overtaking.most)
            };
            text += &row("overtaking", format!("{most}, {bound}"));
        }
        text += &row("complete", self.complete());
        text += &row("assumes", report.assumes.join("; "));
        text += &self.never_met();
        let (promised, other): (Vec<_>, Vec<_>) =
            report.properties.iter().partition(|property| property.promised);
        let plain = |properties: Vec<&conclave_check::Property>| {
            properties.into_iter().map(plain).collect::<Vec<_>>()
        };
        text + "\n" + &judged(&plain(promised), &plain(other)) + "\n"
    }

    fn header(&self) -> String {
        let (title, report) = (self.about.title, self.report);
        let mut facts = vec![counted(report.nodes as u64, "process", "processes"), self.demand()];
        let led = self.options.lead.len();
        facts.extend(
            (led > 0).then(|| format!("after {}", counted(led as u64, "recorded step", "recorded steps"))),
        );
        facts.extend([report.failures.clone(), report.network.clone()]);
        facts.extend(self.setup.settings.iter().map(|(key, value)| format!("{key}={value}")));
        facts.extend(self.setup.mutant.as_ref().map(|mutant| format!("mutant {mutant}")));
        let line = indented("", &format!("{title} · {}", facts.join(" · ")));
        line.replacen(title, &title.bold().to_string(), 1)
    }

    /// How often who asks.
    fn demand(&self) -> String {
        let each = |times: String| if self.report.nodes == 1 { times } else { times + " each" };
        let by = |who: String| match &self.options.starters {
            Some(starters) => format!("{who}, by {}", crate::laboratory::check::names(starters)),
            None => who,
        };
        let (one, more) = self.about.family.counted;
        match self.options.entries {
            AskBudget::Forever => by(format!("{more} forever")),
            AskBudget::First => by(each(format!("1 {one}")) + " before it knows a result"),
            AskBudget::Times(times) => by(each(counted(times.into(), one, more))),
        }
    }

    fn complete(&self) -> String {
        match (&self.report.incomplete, &self.report.counterexample) {
            (_, Some(_)) => "no, it ended at the broken promise".into(),
            (Some(why), None) => format!("no: {why}"),
            (None, None) => "yes".into(),
        }
    }

    /// The situations that should have been met and never were. One that ended early cannot tell.
    fn never_met(&self) -> String {
        if !self.report.complete {
            return String::new();
        }
        let missed = self.report.coverage.iter().filter(|coverage| !coverage.met);
        let words = missed.map(|Coverage { situation, after, .. }| format!("{situation} {after}"));
        let lines: Vec<_> = words.map(|words| words.trim_end().to_owned()).collect();
        let label = |nth: usize| if nth == 0 { "  never met    " } else { "               " };
        lines.iter().enumerate().map(|(nth, words)| indented(label(nth), words)).collect()
    }

    /// What a search without a counterexample comes to.
    pub fn verdict(&self) -> String {
        let Some(why) = self.report.incomplete else {
            return self.held();
        };
        let sentence = format!("nothing is broken in what was seen, but not everything was seen: {why}");
        let mut text = indented("– ", &sentence).replacen('–', &"–".yellow().to_string(), 1);
        if why == Stopped::Memory {
            let hint = if self.options.liveness { "--safety takes less, " } else { "" };
            text += &format!("  {hint}--memory allows more, --depth asks for less\n");
        }
        if self.has_no_end_in_sight() {
            text += &indented("  ", "no end is in sight: few states to a level, and ever more levels");
        }
        text
    }

    /// Whether the levels of a search were so small, and so many, that something in it seems to grow without end.
    fn has_no_end_in_sight(&self) -> bool {
        let (depth, states) = (self.report.depth as usize, self.report.states);
        depth > 500 && states / depth < 200
    }

    /// Everything was seen and nothing is broken: in what, and what to try next.
    fn held(&self) -> String {
        let Report { nodes, failures, ticks, .. } = self.report;
        let group = counted(*nodes as u64, "process", "processes");
        let sentence =
            format!("nothing that was judged is broken in any run of {group}, {}, {failures}", self.demand());
        let budgets = self.options.budgets;
        let searches = self.about.family.searches;
        let larger = format!("-n {}", nodes + 1);
        let more = [
            Some(larger.as_str()),
            (self.options.entries == AskBudget::Times(1)).then_some("--entries 2"),
            (budgets.crashes == 0).then_some("--crashes 1"),
            (budgets.crashes > 0 && budgets.restarts == 0).then_some("--restarts 1"),
            (budgets.suspicions == 0).then_some("--suspicions 1"),
            (searches.cancels && budgets.cancels == 0).then_some("--cancels 1"),
            ticks.filter(|ticks| *ticks == 1).map(|_| "--ticks 2"),
        ];
        let more: Vec<_> = more.into_iter().flatten().collect();
        let mut text = indented("✓ ", &sentence).replacen('✓', &"✓".green().to_string(), 1);
        text += &indented("  ", &format!("not searched: {}", more.join(", ")));
        text
    }

    /// The promise that is broken, and the way there.
    pub fn broken(&self, found: &Counterexample) -> String {
        let sentence = format!("{} is broken: {}", found.property, found.detail);
        let lines = indented("✗ ", &sentence);
        let mut text: String = lines.lines().map(|line| format!("{}\n", line.red().bold())).collect();
        text += &indented("  ", &self.way(found));
        let commands = found.script.blocks.iter().map(|block| block.commands.len()).sum::<usize>();
        text += &match commands {
            0..=MOST_COMMANDS => format!("\n{}", found.script),
            more => format!("  the script has {more} commands; --save-script FILE writes it\n"),
        };
        text
    }

    /// How long the way is, and from where on there is no other.
    fn way(&self, found: &Counterexample) -> String {
        let steps = counted(found.steps as u64, "step", "steps");
        if let Some(circle) = found.circle {
            let circle = counted(circle as u64, "step", "steps");
            return format!("{steps}, and then {circle} that repeat forever");
        }
        let is_fewest = !self.report.reduced && self.report.ticks.is_none();
        let fewest = if is_fewest { ", no way is shorter" } else { "" };
        let avoidable = match found.unavoidable_after {
            None => String::new(),
            Some(0) => "; nothing can avoid it".into(),
            Some(after) if after >= found.steps => "; it can be avoided up to the last of them".into(),
            Some(after) => {
                format!("; after {} it can no longer be avoided", counted(after as u64, "step", "steps"))
            }
        };
        steps + fewest + &avoidable
    }
}

fn plain(property: &conclave_check::Property) -> Property {
    let conclave_check::Property { name, claim, holds, ref detail, .. } = *property;
    Property { name, claim, holds, detail: detail.clone() }
}

/// How to see a counterexample again, and whether the simulator sees it too.
pub fn replayable(script: Option<&Path>, disagreement: Option<&str>) -> String {
    let program = crate::program::name();
    let how = match script {
        Some(path) => format!("{program} replay {}", quoted(&path.display().to_string())),
        None => format!("save the script as bug.script, then: {program} replay bug.script"),
    };
    let mut text = format!("\n{}  {how}\n", "replay it".bold());
    match disagreement {
        None => text += &format!("{} the simulator sees it, too\n", "✓".green()),
        Some(why) => {
            let lines = indented(
                "✗ ",
                &format!("the simulator disagrees; this is a bug, please report it with this script: {why}"),
            );
            text.extend(lines.lines().map(|line| format!("{}\n", line.red().bold())));
        }
    }
    text
}

/// Two searches side by side: states and transitions with steps left out, and without.
pub fn compared(reduced: (usize, u64), full: (usize, u64), factor: f64, difference: Option<&str>) -> String {
    let row = |label: &str, reduced: u64, full: u64| {
        format!("  {label:<13}{:>15} {:>15}\n", grouped(reduced), grouped(full))
    };
    let head = format!("{:>15} {:>15}", "reduced", "full");
    let mut text = format!("  {:<13}{}\n", "", head.dimmed());
    text += &row("states", reduced.0 as u64, full.0 as u64);
    text += &row("transitions", reduced.1, full.1);
    text += &match difference {
        None => format!("{} same verdict, {factor:.1} times fewer states\n\n", "✓".green()),
        Some(why) => format!("{}\n\n", format!("✗ the searches differ: {why}").red().bold()),
    };
    text
}

/// One thing, many things.
fn counted(count: u64, one: &str, more: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { more })
}

fn seconds(seconds: f64) -> String {
    if seconds < 10.0 { format!("{seconds:.2} s") } else { format!("{seconds:.0} s") }
}

/// Bytes, with as many digits as anyone reads.
pub fn size(bytes: usize) -> String {
    let mega = bytes as f64 / 1e6;
    if mega < 10.0 {
        format!("{mega:.1} MB")
    } else if mega < 10_000.0 {
        format!("{mega:.0} MB")
    } else {
        format!("{:.1} GB", mega / 1e3)
    }
}
