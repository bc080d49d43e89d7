//! Every algorithm has a page, and the tables of its page say what the algorithm says of itself.

use std::path::Path;

use conclave_algorithms::{About, registry};

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
