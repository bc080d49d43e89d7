//! Real processes, which belong to the lab.

use std::fs;
use std::io::BufRead as _;

use serde_json::json;

use crate::client::Lab;

#[test]
fn what_clusters_write_goes_with_the_lab_also_while_somebody_watches() {
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::at_home_in(folder.path());
    let cluster = lab.post("clusters", &json!({ "algorithm": "central", "options": null })).json();
    let name = cluster["name"].as_str().unwrap();
    let home = folder.path().join("conclave/clusters");
    assert!(home.join(name).is_dir(), "{cluster}");
    let mut stream = lab.stream(&format!("clusters/{}/events", cluster["id"].as_str().unwrap()));
    let mut line = String::new();
    while !line.starts_with("data:") {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended by itself");
    }
    lab.end();
    let left: Vec<_> = fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?} is left");
}
