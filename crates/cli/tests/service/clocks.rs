//! How far the clocks of the nodes are apart, as `conclave status` shows it.

use serde_json::Value;

use crate::nodes::Service;
use crate::until;

/// What each node knows of each other one: `ahead_ms` and `error_ms`.
fn clocks(service: &Service) -> Vec<Option<(f64, f64)>> {
    let status: Value = serde_json::from_str(&service.conclave("status --json").out).unwrap_or_default();
    let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
    let known = |clock: &Value| Some((clock["ahead_ms"].as_f64()?, clock["error_ms"].as_f64()?));
    nodes
        .iter()
        .flat_map(|node| node["clocks"].as_array().cloned().unwrap_or_default())
        .map(|c| known(&c))
        .collect()
}

/// On one machine there is one clock: whatever is measured is wrong by no more than it says.
#[test]
fn nodes_of_one_machine_have_the_same_time() {
    let mut service = Service::three();
    until("everyone knows the clocks of the others", || {
        let known = clocks(&service);
        known.len() == 6 && known.iter().all(Option::is_some)
    });
    let known: Vec<(f64, f64)> = clocks(&service).into_iter().flatten().collect();
    for (ahead, error) in &known {
        // The clock of the machine may be slewed meanwhile.
        assert!(ahead.abs() <= error + 0.1, "{known:?}");
    }
    let (leader, followers) = service.roles();
    let text = service.conclave("status").ends(0).out;
    let line = text.lines().find(|line| line.starts_with(&format!("clocks beside node {leader}: node ")));
    assert!(line.is_some_and(|line| line.matches(" ms").count() == 2), "{text}");
    let gone = followers[0];
    service.kill(gone);
    let forgotten = format!("node {gone} -");
    until("the clock of a dead node is forgotten", || service.conclave("status").out.contains(&forgotten));
}
