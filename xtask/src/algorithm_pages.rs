//! The pages of the algorithms, compared with the sources that they name: messages, settings with their defaults, mutants with
//! what they break. The tests of `conclave-algorithms` compare them with the values, too; this needs no build.
//!
//! Several algorithms can share a source. What it declares has to stand on one of the pages that name it.

use std::collections::BTreeSet;
use std::path::Path;

use crate::tidy::{excerpts, files, links, read, runs, shown};

/// All that is wrong with them.
pub fn differences(root: &Path) -> Result<Vec<String>, String> {
    let mut declared = Declared::default();
    for path in files(&root.join("crates/algorithms/src"), "rs")? {
        declared.add(&read(&path)?);
    }
    let mut pages = Vec::new();
    for path in files(&root.join("docs/algorithms"), "md")? {
        pages.push((shown(&path, root), read(&path)?));
    }
    let mut found = Vec::new();
    for (path, page) in &pages {
        let mut own = Declared::default();
        for source in sources(page) {
            own.add(&read(&root.join("docs/algorithms").join(source))?);
        }
        let shares = |other: &&(String, String)| {
            other.0 != *path && sources(&other.1).iter().any(|source| sources(page).contains(source))
        };
        let mut elsewhere = Declared::default();
        pages.iter().filter(shares).for_each(|(_, other)| elsewhere.list(other));
        let wrong = problems(page, &own, &declared, &elsewhere);
        found.extend(wrong.into_iter().map(|why| format!("{path}: {why}")));
    }
    Ok(found)
}

/// The sources that a page names before its first chapter.
fn sources(page: &str) -> Vec<&str> {
    let opening = page.split("\n## ").next().unwrap_or(page);
    links(opening).into_iter().map(|(_, target)| target).filter(|target| target.ends_with(".rs")).collect()
}

/// What sources declare.
#[derive(Default)]
struct Declared {
    messages: BTreeSet<String>,
    /// Keys and defaults.
    settings: BTreeSet<(String, String)>,
    /// Names, and what they break.
    mutants: BTreeSet<(String, String)>,
}

impl Declared {
    fn add(&mut self, source: &str) {
        for rest in source.split("kinds!(self,").skip(1) {
            let names = rest.split(')').next().unwrap_or_default();
            self.messages.extend(names.split(',').map(|name| name.trim().to_owned()));
        }
        for rest in source.split("fn kind(&self) -> &'static str {").skip(1) {
            let only = rest.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next());
            self.messages.extend(only.map(str::to_owned));
        }
        for arms in source.split("fn kind(&self) -> &'static str {\n        match self {").skip(1) {
            let names = arms.split("\n        }").next().unwrap_or_default().split("=> \"").skip(1);
            self.messages.extend(names.filter_map(|name| Some(name.split('"').next()?.to_owned())));
        }
        self.settings.extend(pairs(source, "key: \"", "default: \""));
        self.mutants.extend(pairs(source, "name: \"", "breaks: \""));
    }

    /// Adds what the tables of a page list.
    fn list(&mut self, page: &str) {
        let messages = table(page, "Messages");
        self.messages.extend(messages.iter().flat_map(|row| quoted(&row[0])).map(str::to_owned));
        self.settings.extend(rows(page, "Settings", 2));
        self.mutants.extend(rows(page, "Mutants", 1));
    }
}

/// Texts behind one word, each with the next text behind another; a text whose partner is missing is left out.
fn pairs(source: &str, first: &str, second: &str) -> Vec<(String, String)> {
    let text = |rest: &str| rest.split('"').next().unwrap_or_default().to_owned();
    let behind = source.split(first).skip(1);
    behind.filter_map(|rest| Some((text(rest), text(rest.split_once(second)?.1)))).collect()
}

fn problems(page: &str, own: &Declared, all: &Declared, elsewhere: &Declared) -> Vec<String> {
    let mut found = Vec::new();
    let excerpts: Vec<usize> = excerpts(page).into_iter().map(|(line, ..)| line).collect();
    if excerpts.is_empty() {
        found.push("there is no excerpt of a script".to_owned());
    }
    for line in runs(page).into_iter().filter(|line| !excerpts.contains(line)) {
        found.push(format!("the run at line {line} is no excerpt: link its script"));
    }
    let mut listed = Declared::default();
    listed.list(page);
    let invented = listed.messages.difference(&own.messages);
    found.extend(invented.map(|message| format!("the code has no message {message}")));
    let missing = own.messages.iter().filter(|message| !listed.messages.contains(*message));
    let missing = missing.filter(|message| !elsewhere.messages.contains(*message));
    found.extend(missing.map(|message| format!("the message {message} is missing")));
    let sides = [&listed.settings, &own.settings, &all.settings, &elsewhere.settings];
    found.extend(differences_of("setting", sides));
    let sides = [&listed.mutants, &own.mutants, &all.mutants, &elsewhere.mutants];
    found.extend(differences_of("mutant", sides));
    found
}

/// What the page has is declared, by its own sources if they name it; what its own sources declare stands in the page, or in
/// another one that names them.
fn differences_of(what: &str, [page, own, all, elsewhere]: [&BTreeSet<(String, String)>; 4]) -> Vec<String> {
    let names = |pairs: &BTreeSet<(String, String)>, name: &str| pairs.iter().any(|(other, _)| other == name);
    let is_invented = |row: &&(String, String)| {
        let place = if names(own, &row.0) { own } else { all };
        !place.contains(*row)
    };
    let invented = page.iter().filter(is_invented);
    let invented = invented.map(|(name, value)| format!("the code has no {what} {name} with {value}"));
    let missing = own.iter().filter(|(name, _)| !names(page, name) && !names(elsewhere, name));
    invented.chain(missing.map(|(name, _)| format!("the {what} {name} is missing"))).collect()
}

/// The first cell of each row of a table, and another.
fn rows(page: &str, chapter: &str, other: usize) -> BTreeSet<(String, String)> {
    let cells = |row: Vec<String>| {
        let word = |cell: &String| cell.trim_matches('`').to_owned();
        Some((word(row.first()?), word(row.get(other)?)))
    };
    table(page, chapter).into_iter().filter_map(cells).collect()
}

/// The rows of the first table of a chapter, each as its cells; none if there is no such chapter.
fn table(page: &str, chapter: &str) -> Vec<Vec<String>> {
    let Some((_, rest)) = page.split_once(&format!("\n## {chapter}\n")) else { return Vec::new() };
    let chapter = rest.split("\n## ").next().unwrap_or(rest);
    let rows = chapter.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    rows.take_while(|line| line.starts_with('|')).map(cells).collect()
}

/// The words in backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# X\n\nSource: [`x.rs`](x.rs).\n\n## How it goes\n\n[`a`](a.txt):\n\n```text\nrun x\n```\n\n\
        ## Messages\n\n| message | means |\n|---|---|\n| `Ping`, `Pong` | – |\n\n\
        ## Settings\n\n| key | values | default |\n|---|---|---|\n| `beats` | 1 to 9 | 3 |\n\n\
        ## Mutants\n\n| mutant | breaks |\n|---|---|\n| `deaf` | E1 |\n";

    const SOURCE: &str = "kinds!(self, Ping, Pong)\nSetting { key: \"beats\", values: V, default: \"3\" }\n\
        name: \"deaf\", breaks: \"E1\",";

    fn wrong(page: &str) -> Vec<String> {
        let mut own = Declared::default();
        own.add(SOURCE);
        problems(page, &own, &own, &Declared::default())
    }

    #[test]
    fn a_page_agrees_with_its_source() {
        assert_eq!(sources(PAGE), ["x.rs"]);
        assert_eq!(wrong(PAGE), Vec::<String>::new());
    }

    #[test]
    fn one_word_or_number_is_enough_to_differ() {
        for (from, to, why) in [
            ("| 3 |", "| 4 |", "no setting beats with 4"),
            ("`beats`", "`beat`", "the setting beats is missing"),
            ("| E1 |", "| E2 |", "no mutant deaf with E2"),
            ("`deaf`", "`dumb`", "the mutant deaf is missing"),
            ("`Pong`", "`Peng`", "no message Peng"),
            ("`Pong`", "`Peng`", "the message Pong is missing"),
            ("[`a`](a.txt)", "a", "there is no excerpt of a script"),
            ("[`a`](a.txt)", "a", "the run at line 9 is no excerpt"),
        ] {
            let found = wrong(&PAGE.replacen(from, to, 1));
            assert!(found.iter().any(|found| found.contains(why)), "{why}: {found:?}");
        }
    }

    #[test]
    fn what_a_source_declares_stands_on_one_of_its_pages() {
        let mut own = Declared::default();
        own.add(SOURCE);
        own.add("fn kind(&self) -> &'static str {\n        match self {\n            Self::Pang => \"Pang\",\n        }");
        let missing = |elsewhere: &Declared| problems(PAGE, &own, &own, elsewhere);
        assert_eq!(missing(&Declared::default()), ["the message Pang is missing"]);
        let mut elsewhere = Declared::default();
        elsewhere.list(&PAGE.replace("Pong", "Pang"));
        assert_eq!(missing(&elsewhere), Vec::<String>::new());
    }
}
