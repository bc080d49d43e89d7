//! `docs/vectors.md` names every worked example, and everything that it names is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What stands in backticks in the tables of the page.
fn named(page: &str) -> BTreeSet<&str> {
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
    rows.flat_map(|row| row.split('`').skip(1).step_by(2)).collect()
}

/// The names of all tests in these folders that begin like this.
fn tests(folder: &Path, prefixes: &[&str], found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            tests(&path, prefixes, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).expect("a source can be read");
            let functions = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
            let tests = functions.filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)));
            found.extend(tests.map(str::to_owned));
        }
    }
}

#[test]
fn every_worked_example_is_played_or_tested() {
    let page = fs::read_to_string(root().join("docs/vectors.md")).expect("the page is there");
    let named = named(&page);
    let mut tested = BTreeSet::new();
    tests(&root().join("crates"), &["book_tv_", "book_v_"], &mut tested);
    let scripts = fs::read_dir(root().join("crates/sim/tests/scripts")).expect("the scripts are there");
    let scripts: BTreeSet<String> = scripts
        .map(|entry| entry.expect("it can be read").file_name().to_string_lossy().into_owned())
        .collect();
    let missing: Vec<_> = named
        .iter()
        .filter(|name| name.ends_with(".txt") || name.starts_with("book_"))
        .filter(|name| !scripts.contains(**name) && !tested.contains(**name))
        .collect();
    assert!(missing.is_empty(), "the page names what is not there: {missing:?}");
    let examples = scripts.iter().filter(|name| name.starts_with("tv-") || name.starts_with("v-"));
    let unnamed: Vec<_> = examples.chain(&tested).filter(|name| !named.contains(name.as_str())).collect();
    assert!(unnamed.is_empty(), "the page does not name {unnamed:?}");
}
