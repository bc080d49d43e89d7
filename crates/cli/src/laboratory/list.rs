//! `conclave list`: what there is.

use conclave_algorithms::{About, Mutant, Setting, Trigger, Values};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::args::ListArgs;
use super::catalogue::Catalogue;
use super::no_such_algorithm;
use super::output::{self, indented};
use super::survival;
use crate::failure::{Failure, Verdict};
use crate::program;

/// Shows every algorithm, one of them, or the mutants.
pub fn run(args: &ListArgs, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    let chosen = match &args.algo {
        Some(name) => vec![catalogue.find(name).ok_or_else(|| no_such_algorithm(name, catalogue))?.about],
        None => catalogue.all(),
    };
    match (args.json, args.mutants, &args.algo) {
        (true, true, _) => output::show_json(&mutants(&chosen).map(mutant_json).collect::<Vec<_>>()),
        (true, false, Some(_)) => output::show_json(&json(chosen[0])),
        (true, false, None) => output::show_json(&chosen.iter().map(|about| json(about)).collect::<Vec<_>>()),
        (false, true, _) => output::show(&mutant_list(&chosen)),
        (false, false, Some(_)) => output::show(&details(chosen[0])),
        (false, false, None) if args.long => output::show(&long(&chosen)),
        (false, false, None) => output::show(&overview(&chosen)),
    }?;
    Ok(Verdict::Held)
}

fn mutants<'a>(chosen: &'a [&'static About]) -> impl Iterator<Item = (&'static str, &'static Mutant)> + 'a {
    chosen.iter().flat_map(|about| about.mutants.iter().map(|mutant| (about.name, mutant)))
}

/// A line for each algorithm, under the title of its family.
fn overview(chosen: &[&'static About]) -> String {
    let width = chosen.iter().map(|about| about.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (at, about) in chosen.iter().enumerate() {
        if at == 0 || chosen[at - 1].family != about.family {
            let gap = if at == 0 { "" } else { "\n" };
            text += &format!("{gap}{}\n", about.family.title.bold());
        }
        // Padded before it is coloured: escapes would count as letters.
        text += &indented(&format!("  {:<width$}  ", about.name), about.idea);
    }
    let name = program::name();
    text + &format!(
        "\n'{name} list ALGO' shows all about one\n'{name} explain WORD' says what a word means\n"
    )
}

/// Everything that can be said in a few lines of each.
fn long(chosen: &[&'static About]) -> String {
    chosen.iter().map(|about| entry(about)).collect::<Vec<_>>().join("\n")
}

/// An algorithm in a few lines.
fn entry(about: &About) -> String {
    let (channels, timing) = (about.channels.name(), about.synchrony.name());
    let mut text = format!(
        "{}  {}, channels {channels}, {timing}, {}\n",
        about.name.bold(),
        about.family.name,
        about.topology.name()
    );
    text += &indented("  idea      ", about.idea);
    text += &indented("  messages  ", about.cost);
    text += &indented("  faults    ", about.faults);
    text + &survives(about)
}

/// What became of it in the runs of docs/survival.md, if it was in them.
fn survives(about: &About) -> String {
    let fates = survival::of(about.name);
    if fates.is_empty() {
        return String::new();
    }
    let fates: Vec<_> = fates.iter().map(|(failure, fate)| format!("{failure}: {fate}")).collect();
    indented("  survives  ", &fates.join("; "))
}

/// The mutants under the names of the algorithms.
fn mutant_list(chosen: &[&'static About]) -> String {
    let lists = chosen.iter().map(|about| format!("{}\n{}", about.name.bold(), mutant_lines(about)));
    lists.collect::<Vec<_>>().join("\n")
}

pub fn details(about: &About) -> String {
    let mut text = format!("{} ({})\n", about.title.bold(), about.name);
    text += &indented("", about.paper);
    text.push('\n');
    let facts = [
        ("idea", about.idea),
        ("family", about.family.name),
        ("channels", about.channels.name()),
        ("timing", about.synchrony.name()),
        ("topology", about.topology.name()),
        ("messages", about.cost),
        ("faults", about.faults),
    ];
    for (name, fact) in facts {
        text += &indented(&format!("  {name:<10}"), fact);
    }
    text += &indented("  requests  ", &requests(about).join(", "));
    text += &survives(about);
    if about.every_setting().next().is_some() {
        text += &format!("\n{}\n", "settings, for --set".bold());
        about.every_setting().for_each(|setting| text += &setting_lines(setting));
    }
    if !about.mutants.is_empty() {
        text += &format!("\n{}\n", "mutants, for --mutant".bold());
        text += &mutant_lines(about);
    }
    text
}

/// What its users may ask, for `--ask` and `cluster ask`.
pub fn requests(about: &About) -> Vec<String> {
    let usages = about.family.requests.iter();
    usages.map(|usage| format!("{} {}", usage.traced, usage.values).trim_end().to_owned()).collect()
}

fn mutant_lines(about: &About) -> String {
    let lines = about.mutants.iter().map(|mutant| {
        let Mutant { name, breaks, nodes, change, trigger } = mutant;
        let change = format!("{change}{}", needs(*trigger));
        indented(&format!("  {name:<22} {breaks:<9} -n {nodes:<3} "), &change)
    });
    lines.collect()
}

/// What it takes to see a mutant break something, beyond the right order of messages.
pub fn needs(trigger: Trigger) -> &'static str {
    match trigger {
        Trigger::Schedule => "",
        Trigger::Crash => " (seen after a crash)",
        Trigger::CrashInside => " (seen after a crash inside a step)",
        Trigger::Restart => " (seen after a crash and a return)",
        Trigger::Suspicion => " (seen under wrong suspicions)",
        Trigger::Clocks => " (seen where clocks are wrong)",
        Trigger::Time => " (seen where messages take time)",
        Trigger::Forever => " (seen by a checker, where everyone asks forever)",
    }
}

pub fn setting_lines(setting: &Setting) -> String {
    let values = match setting.values {
        Values::OneOf(words) | Values::Timed { words, .. } => all_marked(setting, words),
        Values::ProcessOr(words) => all_marked(setting, words) + " | the id of a process",
        Values::Number(low, high) => format!("{low} to {high} (default {})", setting.default),
        Values::Process => format!("{} (default) | the id of a process", setting.default),
        Values::Numbers => format!("{} (default) | numbers for processes, 1:5,3:2", setting.default),
    };
    let name = format!("  {:<17}", format!("{}=", setting.key));
    indented(&name, &values) + &indented(&format!("  {:<17}", ""), setting.help)
}

fn all_marked(setting: &Setting, words: &[&str]) -> String {
    words.iter().map(|word| marked(setting, word)).collect::<Vec<_>>().join(" | ")
}

/// A value with what there is to know about it.
fn marked(setting: &Setting, word: &str) -> String {
    let mut text = word.to_owned();
    if setting.default == word {
        text += " (default)";
    }
    if setting.unsafe_values.contains(&word) {
        text += " (unsafe: simulator and checker only)";
    }
    text
}

fn json(about: &About) -> Value {
    json!({
        "name": about.name,
        "title": about.title,
        "paper": about.paper,
        "idea": about.idea,
        "family": about.family.name,
        "requests": requests(about),
        "channels": about.channels.name(),
        "synchrony": about.synchrony.name(),
        "topology": about.topology.name(),
        "cost": about.cost,
        "faults": about.faults,
        "survives": survival::of(about.name).into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        "settings": about.every_setting().map(setting_json).collect::<Vec<_>>(),
        "mutants": about.mutants.iter().map(|mutant| json!({
            "name": mutant.name, "breaks": mutant.breaks, "nodes": mutant.nodes, "change": mutant.change,
            "trigger": mutant.trigger.name(),
        })).collect::<Vec<_>>(),
    })
}

fn setting_json(setting: &Setting) -> Value {
    let values = match setting.values {
        Values::OneOf(words) | Values::Timed { words, .. } => json!(words),
        Values::ProcessOr(words) => json!({ "process": true, "or": words }),
        Values::Number(low, high) => json!({ "from": low, "to": high }),
        Values::Process => json!("process"),
        Values::Numbers => json!("numbers"),
    };
    json!({
        "key": setting.key,
        "values": values,
        "default": setting.default,
        "unsafe_values": setting.unsafe_values,
        "help": setting.help,
    })
}

fn mutant_json((algorithm, mutant): (&str, &Mutant)) -> Value {
    json!({
        "algorithm": algorithm,
        "name": mutant.name,
        "breaks": mutant.breaks,
        "nodes": mutant.nodes,
        "change": mutant.change,
        "trigger": mutant.trigger.name(),
    })
}
