//! `conclave list`: what there is.

use comfy_table::{ContentArrangement, Table, presets};
use conclave_algorithms::{About, Mutant, Setting, Values, registry};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use crate::args::ListArgs;
use crate::failure::{Failure, Verdict, no_such_algorithm};
use crate::output::{self, indented, terminal_width};

/// Shows every algorithm, one of them, or the broken twins.
pub fn run(args: &ListArgs) -> Result<Verdict, Failure> {
    let chosen = match &args.algo {
        Some(name) => vec![registry::find(name).ok_or_else(|| no_such_algorithm(name))?],
        None => registry::all(),
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

fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header(head.to_vec());
    if let Some(width) = terminal_width() {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width as u16);
    }
    table
}

fn overview(chosen: &[&'static About]) -> String {
    let mut table = table(&["name", "family", "channels", "timing", "topology", "messages", "faults survived"]);
    for about in chosen {
        table.add_row([
            about.name,
            about.family.name(),
            about.channels.name(),
            about.synchrony.name(),
            about.topology.name(),
            about.cost,
            about.faults,
        ]);
    }
    format!("{table}\n")
}

fn mutant_table(chosen: &[&'static About]) -> String {
    let mut table = table(&["algorithm", "mutant", "breaks", "nodes", "change"]);
    for (algorithm, mutant) in mutants(chosen) {
        table.add_row([algorithm, mutant.name, mutant.breaks, &mutant.nodes.to_string(), mutant.change]);
    }
    format!("{table}\n")
}

fn details(about: &About) -> String {
    let mut text = format!("{} ({})\n{}\n\n", about.title.bold(), about.name, about.paper.dimmed());
    let facts = [
        ("idea", about.idea),
        ("family", about.family.name()),
        ("channels", about.channels.name()),
        ("timing", about.synchrony.name()),
        ("topology", about.topology.name()),
        ("messages", about.cost),
        ("faults", about.faults),
    ];
    for (name, fact) in facts {
        text += &indented(&format!("  {name:<10}"), fact);
    }
    if !about.settings.is_empty() {
        text += &format!("\n{}\n", "settings, for --set".bold());
        about.settings.iter().for_each(|setting| text += &setting_lines(setting));
    }
    if !about.mutants.is_empty() {
        text += &format!("\n{}\n", "broken twins, for --mutant".bold());
        let width = about.mutants.iter().map(|mutant| mutant.name.len()).max().unwrap_or(0) + 2;
        for mutant in about.mutants {
            text += &indented(&format!("  {:<width$}", mutant.name), &format!("{}: {}", mutant.breaks, mutant.change));
        }
    }
    text
}

fn setting_lines(setting: &Setting) -> String {
    let values = match setting.values {
        Values::OneOf(words) => words.iter().map(|word| marked(setting, word)).collect::<Vec<_>>().join(" | "),
        Values::Number(low, high) => format!("{low} to {high} (default {})", setting.default),
        Values::Process => format!("{} (default) | the id of a process", setting.default),
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
        "family": about.family.name(),
        "channels": about.channels.name(),
        "synchrony": about.synchrony.name(),
        "topology": about.topology.name(),
        "cost": about.cost,
        "faults": about.faults,
        "settings": about.settings.iter().map(setting_json).collect::<Vec<_>>(),
        "mutants": about.mutants.iter().map(|mutant| json!({
            "name": mutant.name, "breaks": mutant.breaks, "nodes": mutant.nodes, "change": mutant.change,
        })).collect::<Vec<_>>(),
    })
}

fn setting_json(setting: &Setting) -> Value {
    let values = match setting.values {
        Values::OneOf(words) => json!(words),
        Values::Number(low, high) => json!({ "from": low, "to": high }),
        Values::Process => json!("process"),
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
    })
}
