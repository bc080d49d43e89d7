//! Every algorithm has a page, and the tables of its page say what the algorithm says of itself.

use std::path::Path;

use conclave_algorithms::election::{self, Election};
use conclave_algorithms::mutex::{self, Mutex, Promises};
use conclave_algorithms::{About, Algorithm, Channels, registry};
use conclave_core::Members;

use crate::common::configure;
use crate::visit::visit;

fn docs(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The rows of the first table of a chapter, each as its cells; none if there is no such chapter.
fn table(page: &str, chapter: &str) -> Vec<Vec<String>> {
    let Some((_, rest)) = page.split_once(&format!("\n## {chapter}\n")) else { return Vec::new() };
    let chapter = rest.split("\n## ").next().unwrap_or(rest);
    let rows = chapter.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let cells = |row: &str| {
        let row = row.trim_matches('|').replace("\\|", "\u{1}");
        row.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
    };
    rows.take_while(|line| line.starts_with('|')).map(cells).collect()
}

/// What stands in backticks.
fn code(cell: &str) -> &str {
    cell.trim_matches('`')
}

fn check(about: &About) -> Vec<String> {
    let page = docs(&format!("algorithms/{}.md", about.name));
    let mut wrong = Vec::new();
    let mut compare = |what: &str, page: Vec<(String, String)>, code: Vec<(&str, &str)>| {
        let code: Vec<_> = code.into_iter().map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
        if page != code {
            wrong.push(format!("{}: {what}: the page has {page:?}, the code has {code:?}", about.name));
        }
    };
    let settings = table(&page, "Settings");
    let written = settings.iter().map(|row| (code(&row[0]).to_owned(), code(&row[2]).to_owned()));
    let declared = about.settings.iter().map(|setting| (setting.key, setting.default));
    compare("settings and defaults", written.collect(), declared.collect());
    let mutants = table(&page, "Mutants");
    let written = mutants.iter().map(|row| (code(&row[0]).to_owned(), row[1].clone()));
    let declared = about.mutants.iter().map(|mutant| (mutant.name, mutant.breaks));
    compare("mutants and what they break", written.collect(), declared.collect());
    wrong
}

#[test]
fn the_tables_of_a_page_are_those_of_the_code() {
    let wrong: Vec<_> = registry::all().into_iter().flat_map(check).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_algorithm_is_in_the_table_of_contents() {
    let contents = docs("README.md");
    for about in registry::all() {
        let link = format!("[{0}](algorithms/{0}.md)", about.name);
        assert!(contents.contains(&link), "docs/README.md does not have {link}");
    }
}

/// The row of an algorithm in the table below a headline, without its name.
fn row(page: &str, headline: &str, link: &str) -> Option<Vec<String>> {
    let (_, rest) = page.split_once(&format!("# {headline}\n"))?;
    let row = rest.lines().find(|line| line.starts_with(&format!("| {link} |")))?;
    Some(row.trim_matches('|').split('|').skip(1).map(|cell| cell.trim().to_owned()).collect())
}

#[test]
fn the_table_of_contents_says_which_channels_are_needed() {
    let contents = docs("README.md");
    for about in mutex::all() {
        let link = format!("[{0}](algorithms/{0}.md)", about.name);
        let row = row(&contents, "Algorithms for mutual exclusion", &link).expect("it has a row");
        let channels = match about.channels {
            Channels::Fifo => "FIFO",
            Channels::Any => "any",
        };
        assert!(row[2].starts_with(channels), "docs/README.md says {row:?} of {}", about.name);
    }
}

/// What an algorithm promises in a group of this size.
struct Promised(u32);

impl mutex::Visitor for Promised {
    type Output = Option<Promises>;

    fn visit<A: Mutex + Algorithm>(self) -> Option<Promises> {
        let members = Members::numbered(self.0);
        let config = configure::<A>(&[], None, &members).expect("the default settings");
        Some(A::promises(&config, &members))
    }
}

impl election::Visitor for Promised {
    type Output = Option<Promises>;

    fn visit<A: Election>(self) -> Option<Promises> {
        None
    }
}

/// The row that these promises make, in a group of seven.
fn promised(promises: Promises) -> [&'static str; 5] {
    let word = |is_promised| if is_promised { "yes" } else { "–" };
    let bound = match promises.overtaking {
        Some(6) => "n − 1",
        Some(12) => "2(n − 1)",
        Some(bound) => panic!("a bound of {bound} among 7 has no text in this test"),
        None => "–",
    };
    let Promises { no_starvation, arrival_order, stamp_order, causal_order, .. } = promises;
    [word(no_starvation), bound, word(arrival_order), word(stamp_order), word(causal_order)]
}

#[test]
fn the_table_of_promises_is_that_of_the_code() {
    let page = docs("properties.md");
    for about in mutex::all() {
        let promises = visit(about.name, Promised(7)).flatten().expect("it is for locks");
        let wanted = promised(promises);
        let row = row(&page, "Who promises what", about.name).unwrap_or_default();
        // What depends on a setting is said behind the word.
        let agrees =
            row.iter().zip(wanted).filter(|(cell, word)| cell.starts_with(word)).count() == wanted.len();
        let line = format!("| {} | {} |", about.name, wanted.join(" | "));
        assert!(agrees && row.len() == wanted.len(), "docs/properties.md lacks\n{line}\nit has {row:?}");
    }
}

#[test]
fn lists_of_all_algorithms_for_locks_are_complete() {
    for path in ["../README.md", "names.md", "live.md"] {
        let text = docs(path);
        for about in mutex::all() {
            let name = format!("`{}`", about.name);
            assert!(text.contains(&name), "docs/{path} does not name {name}");
        }
    }
}
