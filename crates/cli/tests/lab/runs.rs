//! Runs, and everything that can be asked about them.

use std::fs;

use serde_json::{Value, json};

use crate::client::{Lab, conclave};

fn conflict() -> Value {
    json!({ "algorithm": "ricart-agrawala", "options": { "n": 3, "entries": 1 } })
}

#[test]
fn a_recipe_makes_the_same_run_in_every_lab() {
    let (one, other) = (Lab::start(), Lab::start());
    let (run, again) = (one.make(&conflict()), other.make(&conflict()));
    assert_eq!(run["id"], again["id"]);
    assert_eq!(run["command"], "conclave sim ricart-agrawala -n 3 --entries 1 --seed 1");
    let id = run["id"].as_str().unwrap();
    assert_eq!(one.get(&format!("runs/{id}/index")).body, other.get(&format!("runs/{id}/index")).body);
    assert_eq!(one.get(&format!("runs/{id}")).json()["events"], run["events"]);
}

#[test]
fn columns_records_and_moments_agree() {
    let lab = Lab::start();
    let run = lab.make(&conflict());
    let id = run["id"].as_str().unwrap();
    let index = lab.get(&format!("runs/{id}/index")).json();
    let events = lab.get(&format!("runs/{id}/events?limit=1000")).json()["events"].clone();
    let (steps, count) = (run["steps"].as_u64().unwrap() as usize, run["events"].as_u64().unwrap() as usize);
    assert_eq!(events.as_array().unwrap().len(), count);
    for column in ["time", "depth", "process", "kind", "message", "peer", "cause", "step", "phase"] {
        assert_eq!(index[column].as_array().unwrap().len(), count, "{column}");
    }
    let step_of = |event: usize| index["step"][event].as_u64().unwrap() as usize;
    for moment in 0..=steps {
        let at = lab.get(&format!("runs/{id}/at/{moment}")).json();
        let happened = index["step_event"][moment].as_u64().unwrap() as usize;
        assert_eq!(at["events"][1].as_u64().unwrap() as usize, happened);
        assert_eq!((0..count).filter(|event| step_of(*event) <= moment).count(), happened);
        // What a record says of its process is what the state says after the last of its records.
        for (place, process) in at["processes"].as_array().unwrap().iter().enumerate() {
            let last = (0..happened).rev().find(|event| events[event]["process"] == place as u64 + 1);
            let last = last.map(|event| events[event]["phase"].clone()).unwrap();
            assert_eq!(process["phase"], last, "p{} at {moment}", place + 1);
        }
    }
    let end = lab.get(&format!("runs/{id}/at/{steps}")).json();
    assert_eq!(end["properties"], run["properties"]);
    assert_eq!(end["in_flight"], json!([]));
}

#[test]
fn whoever_has_asked_at_the_same_time_has_not_answered_yet() {
    let lab = Lab::start();
    let script = "run ricart-agrawala -n 2\nrequest 1\nrequest 2\ndeliver 2 => 1\ndeliver 1 => 2\n---\n";
    let run = lab.make(&json!({ "script": script }));
    let at = lab.get(&format!("runs/{}/at/4", run["id"].as_str().unwrap())).json();
    let waits = &at["waits"]["waiters"];
    assert_eq!(waits[1]["silent"], json!([1]), "{waits}");
    assert_eq!(waits[0]["answering"], json!([2]), "{waits}");
}

#[test]
fn pasts_futures_and_cuts() {
    let lab = Lab::start();
    // The last process is the coordinator.
    let run = lab.make(&json!({ "script": "run central -n 2\nrequest 1\ndeliver 1 => 2\n---\n" }));
    let id = run["id"].as_str().unwrap();
    let events = lab.get(&format!("runs/{id}/events")).json()["events"].clone();
    let find = |kind: &str, process: u64| {
        let all = events.as_array().unwrap();
        let found = all.iter().find(|event| event["kind"] == kind && event["process"] == process);
        found.unwrap_or_else(|| panic!("no {kind} of {process} in {events}"))["id"].as_u64().unwrap()
    };
    let (send, arrival, grant) = (find("send", 1), find("deliver", 2), find("send", 2));
    let order = lab.get(&format!("runs/{id}/order/{arrival}")).json();
    assert_eq!((&order["past"]["1"], &order["future"]["2"]), (&json!(send), &json!(arrival)));
    let cut = |frontier: Value| lab.post(&format!("runs/{id}/cut"), &json!({ "frontier": frontier })).json();
    let ahead = cut(json!({ "2": arrival }));
    assert_eq!(
        (&ahead["consistent"], &ahead["arrival"], &ahead["send"]),
        (&json!(false), &json!(arrival), &json!(send))
    );
    let behind = cut(json!({ "1": send }));
    assert_eq!((&behind["consistent"], &behind["in_flight"]), (&json!(true), &json!([send])));
    assert_eq!(behind["channels"][0]["to"], 2);
    assert_eq!(cut(json!({ "1": send, "2": grant }))["in_flight"], json!([grant]));
}

#[test]
fn a_fork_leaves_its_parent_and_can_be_made_again() {
    let lab = Lab::start();
    let parent = lab.make(&conflict());
    let id = parent["id"].as_str().unwrap();
    let lost = json!({ "at": 3, "do": ["drop p1 => p2"] });
    let fork = lab.post(&format!("runs/{id}/fork"), &lost).json();
    assert_eq!((&fork["parent"], &fork["fork"]["at"]), (&parent["id"], &json!(3)));
    assert_eq!(lab.get(&format!("runs/{id}")).json(), parent);
    let held =
        fork["properties"].as_array().unwrap().iter().find(|judged| judged["property"] == "ME3").unwrap();
    assert_eq!(held["state"], "broken", "p1 waits for the reply to what was lost: {held}");
    let other = Lab::start();
    assert_eq!(other.make(&fork["recipe"])["id"], fork["id"]);
    let compared = lab.get(&format!("runs/{id}/compare/{}", fork["id"].as_str().unwrap())).json();
    assert_eq!(compared["common_steps"], 3, "{compared}");
    // The exported script does the same.
    let script = lab.get(&format!("runs/{}/export/script", fork["id"].as_str().unwrap())).text();
    assert_eq!(lab.make(&json!({ "script": script }))["properties"], fork["properties"]);
}

#[test]
fn a_fork_settles_and_holds_messages_back() {
    let lab = Lab::start();
    let fork = |then: Value| {
        let recipe = json!({ "script": "run central -n 4\nrequest 1\nrequest 2\n---\n", "forks": [then] });
        lab.make(&recipe)
    };
    let settled = fork(json!({ "at": 2, "then": "settle" }));
    let state = |run: &Value, property: &str| {
        run["properties"].as_array().unwrap().iter().find(|judged| judged["property"] == property).unwrap()["state"].clone()
    };
    assert_eq!(state(&settled, "ME2"), "held");
    assert_eq!(state(&settled, "ME3"), "not_judged", "a run that ends cannot show that nobody starves");
    let held = fork(json!({ "at": 2, "then": "settle", "delay": [{ "message": "p1 => p4 #1" }] }));
    let first = |run: &Value| {
        lab.get(&format!("runs/{}/at/3", run["id"].as_str().unwrap())).json()["command"].clone()
    };
    assert_eq!((first(&settled), first(&held)), (json!("deliver p1 => p4 #1"), json!("deliver p2 => p4 #1")));
    assert_eq!(state(&held, "ME2"), "held", "what is held back arrives in the end");
}

#[test]
fn a_broken_promise_is_shrunk() {
    let lab = Lab::start();
    let run =
        lab.make(&json!({ "algorithm": "ricart-agrawala", "options": { "n": 5, "mutant": "no-tie-break" } }));
    assert_eq!(run["violation"]["property"], "ME1");
    let short = lab.post(&format!("runs/{}/shrink", run["id"].as_str().unwrap()), &json!({})).json();
    assert_eq!(short["violation"]["property"], "ME1");
    assert!(short["steps"].as_u64() < run["steps"].as_u64());
    let id = short["id"].as_str().unwrap();
    let again = lab.post(&format!("runs/{id}/shrink"), &json!({})).json();
    assert!(again["steps"].as_u64() <= short["steps"].as_u64(), "a script can be shrunk, too: {again}");
    let whole = lab.make(&conflict());
    let refused = lab.post(&format!("runs/{}/shrink", whole["id"].as_str().unwrap()), &json!({}));
    assert_eq!(refused.code(), "422 refused");
}

#[test]
fn exports_are_the_bytes_of_the_command_line() {
    let lab = Lab::start();
    let folder = tempfile::tempdir().unwrap();
    let options = ["-n", "4", "--crash", "2@20..60"];
    let outputs = [
        "--svg",
        "r.svg",
        "--axis",
        "step",
        "--stamps",
        "lamport",
        "--theme",
        "dark",
        "--shiviz",
        "r.log",
        "--mermaid",
        "r.mmd",
        "--trace",
        "r.jsonl",
        "--save-script",
        "r.script",
        "--html",
        "r.html",
        "--json",
    ];
    let report = conclave(folder.path(), &[&["sim", "ricart-agrawala"][..], &options, &outputs].concat());
    let run =
        lab.make(&json!({ "algorithm": "ricart-agrawala", "options": { "n": 4, "crash": ["2@20..60"] } }));
    let export = |format: &str| lab.get(&format!("runs/{}/export/{format}", run["id"].as_str().unwrap()));
    for (format, file) in [
        ("svg?axis=step&stamps=lamport&theme=dark", "r.svg"),
        ("shiviz", "r.log"),
        ("mermaid?stamps=lamport", "r.mmd"),
        ("jsonl", "r.jsonl"),
        ("script", "r.script"),
    ] {
        let written = fs::read_to_string(folder.path().join(file)).unwrap();
        assert_eq!(export(format).text(), written, "{format}");
    }
    let timeless = |text: &str| {
        let mut report: Value = serde_json::from_str(text).unwrap();
        report["wall_seconds"].take();
        report
    };
    assert_eq!(timeless(&export("json").text()), timeless(&report));
    let page = fs::read_to_string(folder.path().join("r.html")).unwrap();
    assert!(page.contains("<script type=\"module\">") && !page.contains("src="), "it needs no other file");
    assert!(export("html&download=1").status == 404 && export("html?download=1").head.contains("attachment"));
}

#[test]
fn what_there_is() {
    let lab = Lab::start();
    assert_eq!(lab.get("").json()["api"], 1);
    let catalogue = lab.get("catalogue").json();
    let central =
        catalogue["algorithms"].as_array().unwrap().iter().find(|about| about["name"] == "central").unwrap();
    assert_eq!(central["source"], "crates/algorithms/src/mutex/central.rs");
    for about in catalogue["algorithms"].as_array().unwrap() {
        let source = about["source"].as_str().unwrap_or_else(|| panic!("{} has no source", about["name"]));
        let shown = lab.get(&format!("sources/{source}"));
        assert!(shown.head.contains("text/plain") && shown.text().starts_with("//!"), "{source}");
    }
    for hidden in ["crates/algorithms/src/lib.rs", "../Cargo.toml", "crates/algorithms/src/mutex/"] {
        assert_eq!(lab.get(&format!("sources/{hidden}")).status, 404, "{hidden}");
    }
    assert!(central["promises"].as_array().unwrap().contains(&json!("ME1")));
    let options = lab.get("options").json();
    let named = |name: &str| options["sim"].as_array().unwrap().iter().find(|option| option["name"] == name);
    assert_eq!(named("load").unwrap()["values"].as_array().unwrap().len(), 3);
    assert_eq!(named("n").unwrap()["kind"], "number");
    assert!(named("svg").is_none() && named("seeds").is_none(), "no file is written, and there is one run");
    for (name, listed) in [("examples", "examples"), ("lessons", "lessons"), ("clusters", "clusters")] {
        assert!(lab.get(name).json()[listed].is_array(), "{name}");
    }
    let page = lab.asked("GET", "/", "", "");
    assert!(page.head.contains("text/html") && page.text().contains("<script"), "{}", page.head);
}
