//! `conclave list`.

use serde_json::Value;

use super::line;

fn has_text(object: &Value, fields: &[&str]) {
    for field in fields {
        assert!(object[field].as_str().is_some_and(|text| !text.is_empty()), "{field} in {object}");
    }
}

#[test]
fn every_algorithm_has_one_line_with_its_idea() {
    let list = line("list").ends(0).out;
    for about in conclave_algorithms::registry::all() {
        let is_its = |row: &&str| row.split_whitespace().next() == Some(about.name);
        let rows: Vec<_> = list.lines().filter(is_its).collect();
        let [row] = rows[..] else { panic!("{} has one line:\n{list}", about.name) };
        assert!(row.ends_with(about.idea) && row.chars().count() <= 80, "{row}");
        assert!(list.contains(about.family.title), "{list}");
    }
}

#[test]
fn the_long_list_has_costs_and_faults() {
    let list = line("list --long").ends(0).out;
    for about in conclave_algorithms::registry::all() {
        assert!(list.contains(about.cost) && list.contains(about.faults), "{}:\n{list}", about.name);
    }
    assert!(list.contains("suspicion: fence"), "what they survive:\n{list}");
}

#[test]
fn the_table_for_programs_has_everything() {
    let list = line("list --json").ends(0).json();
    let list = list.as_array().expect("an array");
    assert_eq!(list.len(), conclave_algorithms::registry::all().len());
    for about in list {
        has_text(
            about,
            &[
                "name",
                "title",
                "paper",
                "idea",
                "family",
                "channels",
                "synchrony",
                "topology",
                "cost",
                "faults",
            ],
        );
        for setting in about["settings"].as_array().expect("settings") {
            has_text(setting, &["key", "default", "help"]);
            assert!(setting["unsafe_values"].is_array() && !setting["values"].is_null(), "{setting}");
        }
        for mutant in about["mutants"].as_array().expect("mutants") {
            has_text(mutant, &["name", "breaks", "change"]);
        }
    }
}

#[test]
fn one_algorithm_in_full() {
    let text = line("list majority").ends(0).out;
    for part in ["Majority", "mode=", "voting (default)", "literal (unsafe", "half-is-enough", "ME1"] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert_eq!(line("list majority --json").ends(0).json()["name"], "majority");
}

#[test]
fn the_mutant() {
    let mutants = line("list --mutants --json").ends(0).json();
    let mutants = mutants.as_array().expect("an array");
    let known: usize = conclave_algorithms::registry::all().iter().map(|about| about.mutants.len()).sum();
    assert_eq!(mutants.len(), known);
    for mutant in mutants {
        has_text(mutant, &["algorithm", "name", "breaks", "change", "trigger"]);
        assert!(mutant["nodes"].as_u64().is_some_and(|nodes| nodes >= 2), "{mutant}");
        assert_eq!(mutant.as_object().map(serde_json::Map::len), Some(6));
    }
    let table = line("list --mutants").ends(0).out;
    assert!(table.contains("no-tie-break") && table.contains("where everyone asks forever"), "{table}");
    assert_eq!(line("list lamport --mutants --json").ends(0).json().as_array().map(Vec::len), Some(4));
}
