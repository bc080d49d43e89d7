//! Families and algorithms, for a page.

use conclave_algorithms::{About, Mutant, Setting, Values};
use conclave_lab::lessons::gallery;
use conclave_sim::examples::{self, Example};
use serde_json::{Value, json};

use crate::laboratory::catalogue::Catalogue;
use crate::laboratory::explain::{self, pages};

/// Everything that can be chosen, and the words for it.
pub fn all(catalogue: &Catalogue) -> Value {
    let abouts = catalogue.all();
    let judged = explain::judged(catalogue);
    let examples = examples::all();
    let families = catalogue.families().into_iter().map(|family| {
        let requests = family.requests.iter().map(|usage| {
            let line = format!("{} P {}", usage.verb, usage.values);
            json!({ "verb": usage.verb, "usage": line.trim_end(), "values": usage.values })
        });
        let algorithms = abouts.iter().filter(|about| about.family == family).map(|about| about.name);
        json!({
            "name": family.name, "title": format!("algorithms for {}", family.title), "options": family.options,
            "requests": requests.collect::<Vec<_>>(), "algorithms": algorithms.collect::<Vec<_>>(),
        })
    });
    let algorithms = judged.iter().map(|(about, judgements)| {
        let promised =
            judgements.iter().filter(|judgement| judgement.promised).map(|judgement| judgement.property);
        algorithm(about, &promised.collect::<Vec<_>>(), &examples)
    });
    let mut properties: Vec<Value> = Vec::new();
    for judgement in judged.iter().flat_map(|(_, judgements)| judgements) {
        if properties.iter().all(|known| known["code"] != judgement.property) {
            properties.push(json!({ "code": judgement.property, "statement": judgement.claim }));
        }
    }
    properties
        .extend(pages::ANYWHERE.iter().map(|(code, claim)| json!({ "code": code, "statement": claim })));
    let words = pages::words().map(|word| json!({ "word": word.name, "meaning": word.meaning }));
    json!({
        "families": families.collect::<Vec<_>>(),
        "algorithms": algorithms.collect::<Vec<_>>(),
        "properties": properties,
        "words": words.collect::<Vec<_>>(),
    })
}

fn algorithm(about: &About, promised: &[&str], examples: &[Example]) -> Value {
    let page = pages::page(about.name);
    let own =
        examples.iter().filter(|example| example.algorithm() == about.name).map(|example| &example.name);
    json!({
        "name": about.name,
        "title": about.title,
        "family": about.family.name,
        "idea": about.idea,
        "channels": about.channels.name(),
        "synchrony": about.synchrony.name(),
        "topology": about.topology.name(),
        "cost": about.cost,
        "faults": about.faults,
        "source": page.and_then(source),
        "page": page,
        "promises": promised,
        "settings": about.every_setting().map(setting).collect::<Vec<_>>(),
        "mutants": about.mutants.iter().map(|one| mutant(about.name, one)).collect::<Vec<_>>(),
        "examples": own.collect::<Vec<_>>(),
    })
}

/// The file of an algorithm: the first that its page links.
fn source(page: &str) -> Option<String> {
    let (_, link) = page.split_once("](../../crates/algorithms/src/")?;
    let (path, _) = link.split_once(')')?;
    Some(format!("crates/algorithms/src/{path}"))
}

fn setting(setting: &Setting) -> Value {
    let values = match setting.values {
        Values::OneOf(words) | Values::Timed { words, .. } => words.join(", "),
        Values::ProcessOr(words) => format!("a process, {}", words.join(", ")),
        Values::Number(low, high) => format!("{low} to {high}"),
        Values::Process => "a process".into(),
        Values::Numbers => "numbers".into(),
    };
    let words = match setting.values {
        Values::OneOf(words) | Values::Timed { words, .. } | Values::ProcessOr(words) => words,
        _ => &[],
    };
    json!({ "name": setting.key, "values": values, "words": words, "default": setting.default, "idea": setting.help })
}

fn mutant(algorithm: &str, mutant: &Mutant) -> Value {
    let Mutant { name, breaks, nodes, change, .. } = mutant;
    let lesson = gallery::lesson(algorithm, name).unwrap_or_default();
    let is_searched = !conclave_check::attempts(mutant).is_empty();
    let check = is_searched.then(|| json!({ "mutant": name }));
    json!({ "name": name, "breaks": breaks, "n": nodes, "what": change, "lesson": lesson, "check": check })
}
