//! `conclave explain`: whatever a report can name, it explains.

use std::collections::BTreeSet;
use std::path::Path;

use conclave_algorithms::registry;
use serde_json::Value;

use super::{conclave, line};

/// Everything that can be explained.
fn topics() -> Vec<Value> {
    line("explain --json").ends(0).json().as_array().expect("an array").clone()
}

fn of_kind(kind: &str) -> BTreeSet<String> {
    let topics = topics();
    let those = topics.iter().filter(|topic| topic["kind"] == kind);
    those.map(|topic| topic["topic"].as_str().expect("a name").to_owned()).collect()
}

/// What stands in quotes after any of these words in the sources of the algorithms.
fn quoted_after(marks: &[&str]) -> BTreeSet<String> {
    fn visit(dir: &Path, marks: &[&str], found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(dir).expect("the sources are here") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                visit(&path, marks, found);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let text = std::fs::read_to_string(&path).expect("readable");
                for mark in marks {
                    let quotes = text.split(mark).skip(1).filter_map(|rest| rest.split('"').next());
                    found.extend(quotes.map(str::to_owned));
                }
            }
        }
    }
    let mut found = BTreeSet::new();
    visit(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../algorithms/src"), marks, &mut found);
    found
}

#[test]
fn every_property_that_a_report_can_name() {
    let explained = of_kind("property");
    let mut codes = quoted_after(&["property: \"", "breaks: \"", "Never(\"", "NobodyStarves(\""]);
    assert!(codes.len() > 10, "{codes:?}");
    codes.extend(
        ["ME4", "ME5-FCFS", "ME5-TS", "ME5-HB", "ME6", "ME7", "TOK", "RES", "GRANT", "LOST"]
            .map(str::to_owned),
    );
    let missing: Vec<_> = codes.difference(&explained).collect();
    assert!(missing.is_empty(), "{missing:?} among {explained:?}");
    for topic in topics().iter().filter(|topic| topic["kind"] == "property") {
        assert!(topic["facts"]["rule"].as_str().is_some_and(|rule| rule.len() > 10), "no rule: {topic}");
    }
}

#[test]
fn every_algorithm_family_mutant_and_setting() {
    let (algorithms, families, mutants, settings) =
        (of_kind("algorithm"), of_kind("family"), of_kind("mutant"), of_kind("setting"));
    for about in registry::all() {
        assert!(algorithms.contains(about.name), "{}", about.name);
        assert!(families.contains(about.family.name), "{}", about.family.name);
        assert!(about.mutants.iter().all(|mutant| mutants.contains(mutant.name)), "{}", about.name);
        assert!(about.every_setting().all(|setting| settings.contains(setting.key)), "{}", about.name);
    }
}

#[test]
fn words_of_the_output() {
    let words = of_kind("word");
    for word in ["held", "open", "not judged", "restless", "promised", "out of patience", "fence", "epoch"] {
        assert!(words.contains(word), "{word} among {words:?}");
        let ran = conclave(&["explain", word]).ends(0);
        assert!(ran.out.contains(&format!("{word} (word)")), "{}", ran.out);
    }
}

#[test]
fn what_is_named_beside_a_topic_is_one() {
    let topics = topics();
    let names: BTreeSet<_> =
        topics.iter().map(|topic| topic["topic"].as_str().expect("a name").to_lowercase()).collect();
    for topic in &topics {
        for other in topic["see_also"].as_array().expect("names") {
            let other = other.as_str().expect("a name").to_lowercase();
            assert!(names.contains(&other), "{} names {other}", topic["topic"]);
        }
    }
}

#[test]
fn small_letters_do_and_near_names_are_guessed() {
    let page = line("explain me1").ends(0).out;
    assert!(page.contains("never two processes inside") && page.contains("see also"), "{page}");
    assert!(page.contains("--mutant"), "{page}");
    assert!(line("explain E1").ends(0).out.contains("with terms: broken when"));
    line("explain buly").refused("did you mean 'bully'?");
    line("explain me11").refused("did you mean 'ME1'?");
    let two = line("explain workers").ends(0).out;
    assert!(two.contains("workers (family)") && two.contains("workers (algorithm)"), "{two}");
}

/// One name stands for properties of several families, and each is tried on algorithms of its own.
#[test]
fn a_property_is_tried_on_its_own_family() {
    let those: Vec<_> = topics().into_iter().filter(|topic| topic["topic"] == "VALIDITY").collect();
    assert!(those.len() > 1, "{those:?}");
    for topic in those {
        let family = topic["see_also"][0].as_str().expect("a family");
        let tried = topic["facts"]["tried on"].as_str().expect("mutants");
        for mutant in tried.split(", ") {
            let name = mutant.split(' ').next().expect("an algorithm");
            let about = registry::all().into_iter().find(|about| about.name == name).expect("it is listed");
            assert_eq!(about.family.name, family, "{tried}");
        }
    }
}
