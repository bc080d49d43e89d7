//! `conclave list`: what there is.

use comfy_table::{ColumnConstraint, ContentArrangement, LineStyle, Table, presets};
use conclave_algorithms::{About, Mutant, Setting, Trigger, Values};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::args::ListArgs;
use super::catalogue::Catalogue;
use super::no_such_algorithm;
use super::output::{self, indented, terminal_width};
use super::survival;
use crate::failure::{Failure, Verdict};

/// Shows every algorithm, one of them, or the broken twins.
pub fn run(args: &ListArgs, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    let chosen = match &args.algo {
        Some(name) => vec![catalogue.find(name).ok_or_else(|| no_such_algorithm(name, catalogue))?.about],
        None => catalogue.all(),
    };
    match (args.json, args.mutants, &args.algo) {
        (true, true, _) => output::show_json(&mutants(&chosen).map(mutant_json).collect::<Vec<_>>()),
        (true, false, Some(_)) => output::show_json(&json(chosen[0])),
        (true, false, None) => output::show_json(&chosen.iter().map(|about| json(about)).collect::<Vec<_>>()),
        (false, true, _) => output::show(&mutant_table(&chosen)),
        (false, false, Some(_)) => output::show(&details(chosen[0])),
        (false, false, None) => output::show(&overview(&chosen)),
    }?;
    Ok(Verdict::Held)
}

fn mutants<'a>(chosen: &'a [&'static About]) -> impl Iterator<Item = (&'static str, &'static Mutant)> + 'a {
    chosen.iter().flat_map(|about| about.mutants.iter().map(|mutant| (about.name, mutant)))
}

/// A table of which only the last columns, so many of them, are broken into lines.
fn table(head: &[&str], broken: usize) -> Table {
    let mut table = Table::new();
    let ruled = LineStyle::none().fill('─').junction('─');
    table.load_style(presets::NOTHING.header_separator(ruled)).set_header(head.to_vec());
    if let Some(width) = terminal_width() {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width as u16);
        table.set_constraints(vec![ColumnConstraint::ContentWidth; head.len() - broken]);
    }
    table
}

/// Below this width a table would be a heap of short lines.
const WIDE: usize = 110;

fn overview(chosen: &[&'static About]) -> String {
    if terminal_width().is_some_and(|width| width < WIDE) {
        return chosen.iter().map(|about| entry(about)).collect::<Vec<_>>().join("\n");
    }
    let mut listed =
        table(&["name", "family", "channels", "timing", "topology", "messages", "faults survived"], 2);
    for about in chosen {
        listed.add_row([
            about.name,
            about.family.name,
            about.channels.name(),
            about.synchrony.name(),
            about.topology.name(),
            about.cost,
            about.faults,
        ]);
    }
    format!("{}\n\n{SURVIVAL}\n{}\n", listed.trim_fmt(), survival_table().trim_fmt())
}

const SURVIVAL: &str = "what mutual exclusion survives, found by simulation (docs/survival.md says how); plain is without \
                        recovery, fence means that two got in and the resource refused the one with the old fence";

fn survival_table() -> Table {
    let mut rows = survival::rows();
    let mut survived = table(&rows.next().unwrap_or_default(), 0);
    for row in rows {
        survived.add_row(row);
    }
    survived
}

/// A row of the table as a few lines.
fn entry(about: &About) -> String {
    let (channels, timing) = (about.channels.name(), about.synchrony.name());
    let mut text = format!(
        "{}  {}, channels {channels}, {timing}, {}\n",
        about.name.bold(),
        about.family.name,
        about.topology.name()
    );
    text += &indented("  messages  ", about.cost);
    text + &indented("  faults    ", about.faults)
}

/// A line per twin in a pipe; on a terminal under the names of the algorithms.
fn mutant_table(chosen: &[&'static About]) -> String {
    if terminal_width().is_some() {
        return chosen
            .iter()
            .map(|about| format!("{}\n{}", about.name.bold(), twins(about)))
            .collect::<Vec<_>>()
            .join("\n");
    }
    let mut table = table(&["algorithm", "mutant", "breaks", "nodes", "change"], 1);
    for (algorithm, mutant) in mutants(chosen) {
        let change = format!("{}{}", mutant.change, needs(mutant.trigger));
        table.add_row([algorithm, mutant.name, mutant.breaks, &mutant.nodes.to_string(), &change]);
    }
    format!("{}\n", table.trim_fmt())
}

fn details(about: &About) -> String {
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
    let fates = survival::of(about.name);
    if !fates.is_empty() {
        let fates: Vec<_> = fates.iter().map(|(failure, fate)| format!("{failure}: {fate}")).collect();
        text += &indented("  survives  ", &fates.join("; "));
    }
    if about.every_setting().next().is_some() {
        text += &format!("\n{}\n", "settings, for --set".bold());
        about.every_setting().for_each(|setting| text += &setting_lines(setting));
    }
    if !about.mutants.is_empty() {
        text += &format!("\n{}\n", "broken twins, for --mutant".bold());
        text += &twins(about);
    }
    text
}

/// What its users may ask, for `--ask` and `cluster ask`.
fn requests(about: &About) -> Vec<String> {
    let usages = about.family.requests.iter();
    usages.map(|usage| format!("{} {}", usage.traced, usage.values).trim_end().to_owned()).collect()
}

fn twins(about: &About) -> String {
    let lines = about.mutants.iter().map(|mutant| {
        let Mutant { name, breaks, nodes, change, trigger } = mutant;
        let change = format!("{change}{}", needs(*trigger));
        indented(&format!("  {name:<22} {breaks:<9} -n {nodes:<3} "), &change)
    });
    lines.collect()
}

/// What it takes to see a twin break something, beyond the right order of messages.
fn needs(trigger: Trigger) -> &'static str {
    match trigger {
        Trigger::Schedule => "",
        Trigger::Crash => " (seen after a crash)",
        Trigger::Suspicion => " (seen under wrong suspicions)",
        Trigger::Forever => " (seen by a checker, where everyone asks for ever)",
    }
}

fn setting_lines(setting: &Setting) -> String {
    let values = match setting.values {
        Values::OneOf(words) => {
            words.iter().map(|word| marked(setting, word)).collect::<Vec<_>>().join(" | ")
        }
        Values::Number(low, high) => format!("{low} to {high} (default {})", setting.default),
        Values::Process => format!("{} (default) | the id of a process", setting.default),
        Values::Numbers => format!("{} (default) | numbers for processes, 1:5,3:2", setting.default),
    };
    let name = format!("  {:<12}", format!("{}=", setting.key));
    indented(&name, &values) + &indented(&format!("  {:<12}", ""), setting.help)
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
        Values::OneOf(words) => json!(words),
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
