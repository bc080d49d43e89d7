//! `conclave explain`: properties, algorithms, families, mutants, settings, and the words of the output.
//!
//! It says what the code and the pages say already: claims come from the judges, rules and words from the tables in
//! docs, the rest from what the algorithms say of themselves.

pub mod pages;

use std::collections::{BTreeMap, BTreeSet};

use conclave_algorithms::family::Kind;
use conclave_algorithms::{About, Judgement, Mutant, Setting};
use conclave_trace::{Block, Command, Script, Setup};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::args::ExplainArgs;
use super::catalogue::Catalogue;
use super::list;
use super::output::{self, indented};
use crate::failure::{Failure, Verdict, nearest};
use crate::program;

/// Explains a topic, or lists all.
pub fn run(args: &ExplainArgs, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    let topics = topics(catalogue);
    let Some(wanted) = &args.topic else {
        if args.json {
            output::show_json(&topics.iter().map(Topic::json).collect::<Vec<_>>())?;
        } else {
            output::show(&overview(&topics))?;
        }
        return Ok(Verdict::Held);
    };
    let wanted = wanted.trim();
    let found: Vec<_> = topics.iter().filter(|topic| topic.name.eq_ignore_ascii_case(wanted)).collect();
    if found.is_empty() {
        return Err(unknown(wanted, &topics));
    }
    if args.json {
        output::show_json(&found.iter().map(|topic| topic.json()).collect::<Vec<_>>())?;
    } else {
        output::show(&found.iter().map(|topic| topic.text()).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(Verdict::Held)
}

/// Everything that can be explained, by name and sort.
pub fn names(catalogue: &Catalogue) -> Vec<(String, String)> {
    let mut names: Vec<_> =
        topics(catalogue).into_iter().map(|topic| (topic.name, topic.sort.name().to_owned())).collect();
    names.sort();
    names.dedup_by(|a, b| a.0 == b.0);
    names
}

fn unknown(wanted: &str, topics: &[Topic]) -> Failure {
    let lower = wanted.to_lowercase();
    let known: Vec<(String, &str)> =
        topics.iter().map(|topic| (topic.name.to_lowercase(), topic.name.as_str())).collect();
    let meant = nearest(&lower, known.iter().map(|(lower, _)| lower.as_str()));
    let meant = meant.and_then(|meant| known.iter().find(|(lower, _)| lower == meant));
    let guess = meant.map_or_else(String::new, |(_, name)| format!("; did you mean '{name}'?"));
    Failure::new(format!("there is nothing to say about '{wanted}'{guess}"))
        .hint("'conclave explain' lists everything that can be explained")
}

/// What a topic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Property,
    Family,
    Algorithm,
    Mutant,
    Setting,
    Word,
}

impl Sort {
    const ALL: [Self; 6] =
        [Self::Property, Self::Family, Self::Algorithm, Self::Mutant, Self::Setting, Self::Word];

    fn name(self) -> &'static str {
        match self {
            Self::Property => "property",
            Self::Family => "family",
            Self::Algorithm => "algorithm",
            Self::Mutant => "mutant",
            Self::Setting => "setting",
            Self::Word => "word",
        }
    }

    fn plural(self) -> &'static str {
        match self {
            Self::Property => "properties",
            Self::Family => "families",
            Self::Algorithm => "algorithms",
            Self::Mutant => "mutants",
            Self::Setting => "settings",
            Self::Word => "words",
        }
    }
}

/// Something that can be explained.
struct Topic {
    name: String,
    sort: Sort,
    /// In a sentence.
    meaning: String,
    /// A label and a text each.
    facts: Vec<(&'static str, String)>,
    /// What has lines of its own, as it is.
    more: String,
    see_also: Vec<String>,
}

impl Topic {
    fn new(name: &str, sort: Sort, meaning: impl Into<String>) -> Self {
        let (facts, more, see_also) = (Vec::new(), String::new(), Vec::new());
        Self { name: name.into(), sort, meaning: meaning.into(), facts, more, see_also }
    }

    fn fact(mut self, label: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        if !text.is_empty() {
            self.facts.push((label, text));
        }
        self
    }

    fn see_also(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.see_also.extend(names.into_iter().map(Into::into));
        self
    }

    fn text(&self) -> String {
        let mut text = format!("{} ({})\n", self.name.bold(), self.sort.name());
        text += &indented("  ", &self.meaning);
        if !self.facts.is_empty() {
            text.push('\n');
        }
        let width = self.facts.iter().map(|(label, _)| label.len()).max().unwrap_or(0) + 2;
        for (label, fact) in &self.facts {
            text += &indented(&format!("  {label:<width$}"), fact);
        }
        if !self.more.is_empty() {
            text += &format!("\n{}", self.more);
        }
        if !self.see_also.is_empty() {
            text += &format!("\n{}", indented("  see also  ", &self.see_also.join(", ")));
        }
        text
    }

    fn json(&self) -> Value {
        let facts: BTreeMap<_, _> = self.facts.iter().map(|(label, fact)| (*label, fact)).collect();
        json!({
            "topic": self.name,
            "kind": self.sort.name(),
            "meaning": self.meaning,
            "facts": facts,
            "see_also": self.see_also,
        })
    }
}

fn overview(topics: &[Topic]) -> String {
    let mut text = String::new();
    for sort in Sort::ALL {
        let names: BTreeSet<_> =
            topics.iter().filter(|topic| topic.sort == sort).map(|topic| topic.name.as_str()).collect();
        // In a pipe there is no width to keep to, and one line would have thousands of letters.
        text += &format!("{}\n", sort.plural().bold());
        for line in packed(&names, 78) {
            text += &format!("  {line}\n");
        }
        text.push('\n');
    }
    text + &format!("'{} explain WORD' explains one of them\n", program::name())
}

/// Names in lines of at most so many columns.
fn packed(names: &BTreeSet<&str>, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for name in names {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(name);
        } else if line.len() + 2 + name.len() < width {
            line.push_str(", ");
            line.push_str(name);
        } else {
            line.push(',');
            lines.push((*name).to_owned());
        }
    }
    lines
}

/// Everything that can be explained.
fn topics(catalogue: &Catalogue) -> Vec<Topic> {
    let judged = judged(catalogue);
    let abouts = catalogue.all();
    let mut topics = properties(&judged);
    topics.extend(catalogue.families().iter().map(|kind| family(kind, &abouts, &judged)));
    topics.extend(abouts.iter().map(|about| algorithm(about, &judged)));
    topics.extend(mutants(&abouts));
    topics.extend(settings(&abouts));
    // A property or setting of the same name says more than a word.
    let words = pages::words().filter(|word| !topics.iter().any(|topic| topic.name == word.name));
    let words: Vec<_> =
        words.map(|word| Topic::new(word.name, Sort::Word, word.meaning).see_also(word.see_also)).collect();
    topics.extend(words);
    topics
}

/// What the judge of each algorithm looks at, found by playing a script in which nothing happens.
pub fn judged(catalogue: &Catalogue) -> Vec<(&'static About, Vec<Judgement>)> {
    let judged = catalogue.all().into_iter().map(|about| {
        let run = Command::Run(Setup::numbered(about.name, 3));
        let script = Script { blocks: vec![Block { commands: vec![(run, 1)], ..Block::default() }] };
        let played = catalogue.play(&script);
        (about, played.map_or_else(|_| Vec::new(), |played| played.judgements))
    });
    judged.collect()
}

fn properties(judged: &[(&'static About, Vec<Judgement>)]) -> Vec<Topic> {
    let mut topics = Vec::<Topic>::new();
    let claims = judged.iter().flat_map(|(about, judgements)| {
        judgements.iter().map(move |judgement| (judgement.property, judgement.claim, about.family))
    });
    let everywhere = pages::ANYWHERE.iter().map(|(name, claim)| (*name, *claim, None));
    let mut claims: Vec<_> =
        claims.map(|(name, claim, family)| (name, claim, Some(family))).chain(everywhere).collect();
    claims.dedup_by_key(|(name, _, family)| (*name, *family));
    for (name, claim, family) in claims {
        let title = family.map_or("any algorithm", |family| family.title);
        // One name may stand in several families, END for example.
        if topics.iter().any(|topic| topic.name == name && topic.facts[0].1 == title) {
            continue;
        }
        let of_family = |about: &About| family.is_none_or(|family| about.family == family);
        let those = |promised: bool| {
            let names = judged.iter().filter(|(about, judgements)| {
                let has =
                    |judgement: &Judgement| judgement.property == name && judgement.promised == promised;
                of_family(about) && judgements.iter().any(has)
            });
            names.map(|(about, _)| about.name).collect::<Vec<_>>()
        };
        let all = judged.iter().filter(|(about, _)| of_family(about)).count();
        let promised = match those(true) {
            names if names.len() == all => "all".to_owned(),
            names => names.join(", "),
        };
        let found = pages::property(
            name,
            family.map_or("Whatever the algorithm", |family| pages::section(family.name)),
        );
        let mut topic = Topic::new(name, Sort::Property, found.claim.unwrap_or(claim))
            .fact("judged for", title)
            .fact("rule", found.rules.join(". "))
            .fact("promised by", promised);
        let theirs = judged.iter().filter(|(about, _)| of_family(about)).map(|(about, _)| *about);
        topic = topic.fact("tried on", broken_by(name, theirs));
        if let Some(family) = family {
            topic = topic.see_also([family.name]);
        }
        topics.push(topic.see_also(["broken", "open"]));
    }
    topics
}

/// The mutants that break a property, as far as they fit a line or two.
fn broken_by(property: &str, abouts: impl Iterator<Item = &'static About>) -> String {
    let mutants = abouts.flat_map(|about| {
        let broken = about.mutants.iter().filter(|mutant| mutant.breaks == property);
        broken.map(|mutant| format!("{} --mutant {}", about.name, mutant.name))
    });
    mutants.take(3).collect::<Vec<_>>().join(", ")
}

fn family(kind: &Kind, abouts: &[&'static About], judged: &[(&'static About, Vec<Judgement>)]) -> Topic {
    let members: Vec<_> =
        abouts.iter().filter(|about| about.family == *kind).map(|about| about.name).collect();
    let mut codes: Vec<&str> = Vec::new();
    let theirs = judged.iter().filter(|(about, _)| about.family == *kind);
    for judgement in theirs.flat_map(|(_, judgements)| judgements) {
        if !codes.contains(&judgement.property) {
            codes.push(judgement.property);
        }
    }
    let requests: Vec<_> = kind
        .requests
        .iter()
        .map(|usage| format!("{} {}", usage.traced, usage.values).trim_end().to_owned())
        .collect();
    let settings: Vec<_> = kind.settings.iter().map(|setting| setting.key).collect();
    Topic::new(kind.name, Sort::Family, format!("the algorithms for {}", kind.title))
        .fact("algorithms", members.join(", "))
        .fact("requests", requests.join(", "))
        .fact("properties", codes.join(", "))
        .fact("settings", settings.join(", "))
        .fact("options of sim", kind.options.join(", "))
        .see_also(codes.iter().take(3).copied())
}

fn algorithm(about: &'static About, judged: &[(&'static About, Vec<Judgement>)]) -> Topic {
    let judgements = judged.iter().find(|(other, _)| other.name == about.name).map(|(_, found)| found);
    let promised: Vec<_> = judgements
        .into_iter()
        .flatten()
        .filter(|judgement| judgement.promised)
        .map(|judgement| judgement.property)
        .collect();
    let idea = pages::idea(about.name).unwrap_or_else(|| about.idea.to_owned());
    let mut topic = Topic::new(about.name, Sort::Algorithm, idea)
        .fact("promises", promised.join(", "))
        .fact("read more", pages::path(about.name).unwrap_or_default())
        .fact("try", format!("{} sim {} -n 3", program::name(), about.name))
        .see_also([about.family.name])
        .see_also(about.mutants.iter().map(|mutant| mutant.name).take(3));
    topic.more = list::details(about);
    topic
}

fn mutants(abouts: &[&'static About]) -> Vec<Topic> {
    let mutants = abouts.iter().flat_map(|about| about.mutants.iter().map(move |mutant| (about, mutant)));
    let topic = |(about, mutant): (&&'static About, &'static Mutant)| {
        let Mutant { name, breaks, nodes, trigger, change } = mutant;
        Topic::new(name, Sort::Mutant, *change)
            .fact("algorithm", about.name)
            .fact("breaks", *breaks)
            .fact("group", format!("{nodes} processes show it{}", list::needs(*trigger)))
            .fact("try", format!("{} check {} --mutant {name}", program::name(), about.name))
            .see_also([about.name, *breaks])
    };
    mutants.map(topic).collect()
}

/// Settings by key; the same key may mean different things in different algorithms.
fn settings(abouts: &[&'static About]) -> Vec<Topic> {
    let mut groups: Vec<(&'static Setting, Vec<&'static str>)> = Vec::new();
    for about in abouts {
        for setting in about.every_setting() {
            let same = |other: &Setting| other.key == setting.key && other.help == setting.help;
            match groups.iter_mut().find(|(other, _)| same(other)) {
                Some((_, names)) => names.push(about.name),
                None => groups.push((setting, vec![about.name])),
            }
        }
    }
    let topic = |(setting, names): (&Setting, Vec<&'static str>)| {
        let first = names.first().copied().unwrap_or_default();
        let mut topic = Topic::new(setting.key, Sort::Setting, setting.help)
            .fact("algorithms", names.join(", "))
            .fact("default", setting.default)
            .fact("try", format!("{} sim {first} --set {}={}", program::name(), setting.key, setting.default))
            .see_also([first]);
        topic.more = list::setting_lines(setting);
        topic
    };
    groups.into_iter().map(topic).collect()
}
