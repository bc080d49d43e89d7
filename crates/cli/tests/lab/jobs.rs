//! Searches and comparisons: they say how far they are, and end with who listens.

use std::io::BufRead as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Lab, PATIENCE};

/// The events of a job, to the last.
fn events(lab: &Lab, job: &Value) -> Vec<(String, Value)> {
    let mut events = Vec::new();
    let mut event = String::new();
    for line in lab.stream(&format!("jobs/{}/events", job["job"].as_str().unwrap())).lines() {
        let line = line.expect("it goes on until the job is over");
        if let Some(name) = line.strip_prefix("event: ") {
            name.clone_into(&mut event);
        } else if let Some(data) = line.strip_prefix("data: ") {
            events.push((event.clone(), serde_json::from_str(data).unwrap()));
            if event != "progress" {
                break;
            }
        }
    }
    events
}

/// A search that takes minutes.
fn long() -> Value {
    json!({ "algorithm": "lamport", "options": { "n": 4, "entries": "3" } })
}

/// Waits until a job is over, and gives the name of its last event.
fn ended(lab: &Lab, job: &Value) -> String {
    let begin = Instant::now();
    loop {
        let last = lab.get(&format!("jobs/{}", job["job"].as_str().unwrap())).json();
        if last["event"] != "progress" {
            return last["event"].as_str().unwrap().to_owned();
        }
        assert!(begin.elapsed() < PATIENCE, "it still goes on: {last}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_search_finds_a_counterexample_and_marks_where_it_is_too_late() {
    let lab = Lab::start();
    let wanted = json!({ "algorithm": "ricart-agrawala", "options": { "mutant": "no-tie-break" } });
    let job = lab.post("checks", &wanted).json();
    let (name, done) = events(&lab, &job).pop().unwrap();
    assert_eq!((name.as_str(), &done["outcome"]), ("done", &json!("broken")), "{done}");
    let run = &done["run"];
    assert_eq!(run["violation"]["property"], "ME1");
    let after = run["point_of_no_return"].as_u64().unwrap();
    assert!((1..=run["steps"].as_u64().unwrap()).contains(&after), "{run}");
    assert_eq!(lab.get(&format!("runs/{}", run["id"].as_str().unwrap())).json()["point_of_no_return"], after);
}

#[test]
fn a_search_begins_at_a_moment_of_a_run() {
    let lab = Lab::start();
    let run = lab.make(
        &json!({ "script": "run ricart-agrawala -n 2 --mutant no-tie-break\nrequest 1\nrequest 2\n---\n" }),
    );
    let job = lab.post("checks", &json!({ "run": run["id"], "at": 2 })).json();
    let (_, done) = events(&lab, &job).pop().unwrap();
    assert_eq!(done["outcome"], "broken", "{done}");
    let refused = lab.post("checks", &json!({ "run": run["id"], "at": 99 }));
    assert_eq!(refused.code(), "422 refused");
}

#[test]
fn a_comparison_gives_plots() {
    let lab = Lab::start();
    let wanted =
        json!({ "algorithms": ["lamport", "ricart-agrawala"], "options": { "n": "2..3", "load": "light" } });
    let job = lab.post("compares", &wanted).json();
    let (name, done) = events(&lab, &job).pop().unwrap();
    assert_eq!(name, "done", "{done}");
    assert_eq!(done["plots"][0]["series"][0]["points"], json!([[2.0, 3.0], [3.0, 6.0]]), "3(n-1)");
    let wrong = lab.post("compares", &json!({ "algorithms": ["lamport", "bully"] })).json();
    assert_eq!(events(&lab, &wrong).pop().unwrap().0, "failed");
}

#[test]
fn a_job_ends_with_its_stream() {
    let lab = Lab::start();
    let job = lab.post("checks", &long()).json();
    let mut stream = lab.stream(&format!("jobs/{}/events", job["job"].as_str().unwrap()));
    let mut line = String::new();
    while !line.contains("states") {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the search ended by itself");
    }
    drop(stream);
    assert_eq!(ended(&lab, &job), "stopped");
}

#[test]
fn a_job_to_which_nobody_listens_ends() {
    let lab = Lab::start();
    let job = lab.post("checks", &long()).json();
    assert_eq!(ended(&lab, &job), "stopped");
}

#[test]
fn a_job_is_stopped_and_there_are_not_too_many() {
    let lab = Lab::start();
    let jobs: Vec<Value> = (0..4).map(|_| lab.post("checks", &long()).json()).collect();
    assert_eq!(lab.post("checks", &long()).code(), "429 busy");
    for job in &jobs {
        let path = format!("/api/v1/jobs/{}", job["job"].as_str().unwrap());
        assert_eq!(lab.asked("DELETE", &path, "", "").status, 200);
        assert_eq!(ended(&lab, job), "stopped");
    }
    let path = format!("/api/v1/jobs/{}", lab.post("checks", &long()).json()["job"].as_str().unwrap());
    assert_eq!(lab.asked("DELETE", &path, "", "").status, 200, "there is room again");
}

#[test]
fn a_comparison_is_stopped_in_the_middle_of_a_run() {
    let lab = Lab::start();
    // One run, which would take days.
    let wanted = json!({ "algorithms": ["lamport"], "options": { "n": "512", "entries": "1000000" } });
    let job = lab.post("compares", &wanted).json();
    let path = format!("/api/v1/jobs/{}", job["job"].as_str().unwrap());
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(lab.asked("DELETE", &path, "", "").status, 200);
    assert_eq!(ended(&lab, &job), "stopped");
}
