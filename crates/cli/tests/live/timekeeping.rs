//! Clocks of real processes, wrong on purpose: corrected, and judged from the record, also when the master is killed.

use conclave_core::NodeId;
use conclave_trace::{Trace, What};

use crate::cluster::{Home, Live, until};

/// Who was corrected by whom.
fn corrected(trace: &Trace, by: &str) -> Vec<NodeId> {
    let of_source = |what: &What| match what {
        What::Event { event, .. } => event.starts_with("adjusted") && event.ends_with(by),
        _ => false,
    };
    trace
        .records
        .iter()
        .filter(|record| of_source(&record.what))
        .filter_map(|record| record.process)
        .collect()
}

/// Waits until all of these were corrected by this one.
fn until_corrected(live: &Live<'_>, by: &str, processes: &[u32]) {
    until("the clocks are corrected", || {
        let corrected = live.merged().map(|trace| corrected(&trace, by)).unwrap_or_default();
        processes.iter().all(|process| corrected.contains(&NodeId(*process)))
    });
}

fn held(report: &serde_json::Value) -> Vec<&str> {
    let properties = report["properties"].as_array().expect("a list");
    properties
        .iter()
        .filter(|found| found["holds"] == true)
        .filter_map(|found| found["name"].as_str())
        .collect()
}

#[test]
fn clocks_agree_and_a_master_that_is_killed_is_replaced() {
    let home = Home::new();
    let live = home.start("berkeley -n 3 --clock 1=+25ms --clock 2=-10ms,50ppm");
    live.run("ask 1 sync").ends(0);
    until_corrected(&live, "by p3", &[1, 2, 3]);
    // A record that ends while something is on its way is judged later.
    until("all properties are judged", || {
        let report = live.judged();
        ["C1", "C2", "C3"].iter().all(|name| held(&report).contains(name))
    });
    live.run("kill 3").ends(0);
    until_corrected(&live, "by p2", &[1, 2]);
    // What was on its way to the dead master may stay there, so that the record has no end that could be judged.
    live.judged();
    live.stop();
}

/// The server is killed before it is asked: the next one answers.
#[test]
fn another_server_is_asked() {
    let home = Home::new();
    let live = home.start("cristian -n 3 --clock 3=+20ms");
    live.run("ask 3 sync").ends(0);
    until_corrected(&live, "by p1", &[3]);
    live.run("kill 1").ends(0);
    live.run("ask 3 sync").ends(0);
    until_corrected(&live, "by p2", &[3]);
    // What was on its way to the dead server stays there, so that the record has no end that could be judged.
    live.judged();
    live.stop();
}
