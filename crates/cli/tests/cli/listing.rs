//! `conclave list`.

use serde_json::Value;

use super::line;

fn has_text(object: &Value, fields: &[&str]) {
    for field in fields {
        assert!(object[field].as_str().is_some_and(|text| !text.is_empty()), "{field} in {object}");
    }
}

#[test]
fn the_table_has_a_row_for_every_algorithm() {
    let table = line("list").ends(0).out;
    for about in conclave_algorithms::registry::all() {
        let row = table.lines().find(|row| row.contains(about.name)).expect("every algorithm has a row");
        assert!(row.contains(about.cost) && row.contains(about.faults), "{row}");
    }
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
fn the_broken_twins() {
    let twins = line("list --mutants --json").ends(0).json();
    let twins = twins.as_array().expect("an array");
    let known: usize = conclave_algorithms::registry::all().iter().map(|about| about.mutants.len()).sum();
    assert_eq!(twins.len(), known);
    for twin in twins {
        has_text(twin, &["algorithm", "name", "breaks", "change", "trigger"]);
        assert!(twin["nodes"].as_u64().is_some_and(|nodes| nodes >= 2), "{twin}");
        assert_eq!(twin.as_object().map(serde_json::Map::len), Some(6));
    }
    let table = line("list --mutants").ends(0).out;
    assert!(table.contains("no-tie-break") && table.contains("where everyone asks for ever"), "{table}");
    assert_eq!(line("list lamport --mutants --json").ends(0).json().as_array().map(Vec::len), Some(4));
}
