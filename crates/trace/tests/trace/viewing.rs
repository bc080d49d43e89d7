//! A part of a trace, as a drawing shows it.

use std::collections::BTreeMap;

use conclave_core::NodeId;
use conclave_trace::{DiagramOptions, Stamps, SvgOptions, Trace, View, What, diagram, svg};

use crate::common::{Run, contended};

fn words(trace: &Trace) -> Vec<String> {
    trace.records.iter().map(conclave_trace::describe).collect()
}

#[test]
fn a_view_of_everything_is_the_trace() {
    let mut trace = contended();
    trace.stamp(true);
    assert!(View::default().is_plain());
    assert_eq!(View::default().of(&trace), trace);
}

#[test]
fn a_window_begins_with_how_everything_stands() {
    let mut trace = contended();
    trace.stamp(true);
    let view = View { window: Some((2_000, 3_400)), ..View::default() };
    let part = view.of(&trace);
    assert!(part.records.iter().all(|record| (2_000..=3_400).contains(&record.time)));
    assert!(part.records.iter().zip(0..).all(|(record, place)| record.id == place));
    let opening: Vec<_> = part.records.iter().filter(|record| record.what == What::Start).collect();
    let phases: Vec<_> = opening.iter().map(|record| record.phase.as_str()).collect();
    assert_eq!(phases, ["waiting", "waiting", "idle"]);
    // A reply that was in flight at 2 ms is drawn, and what arrives later than 3.4 ms is still in flight.
    assert!(words(&part).iter().any(|line| line == "p2 sends Reply{1,0} to p1"), "{:?}", words(&part));
    let picture = svg(&part, &SvgOptions::default());
    assert!(picture.contains("still in flight") && picture.contains("Reply{1,0}"));
    let arrival = part.records.iter().find(|record| matches!(record.what, What::Deliver(_))).unwrap();
    let whole = trace
        .records
        .iter()
        .find(|record| conclave_trace::describe(record) == conclave_trace::describe(arrival));
    assert_eq!(arrival.lamport, whole.unwrap().lamport, "stamps are those of the whole run");
}

#[test]
fn only_some_processes_and_no_overhead() {
    let mut run = Run::new("any", 1..=3);
    let a = run.acquire(0, 1);
    let (one, two) = (run.send(a, 2, "Request"), run.send(a, 3, "Probe"));
    let probe = run.trace.records.len() - 1;
    run.deliver(one, 10);
    run.deliver(two, 10);
    for record in &mut run.trace.records[probe..] {
        if let What::Send(message) | What::Deliver(message) = &mut record.what
            && message.message == "Probe"
        {
            message.overhead = true;
        }
    }
    let only = View { only: vec![NodeId(1), NodeId(2)], ..View::default() }.of(&run.trace);
    assert_eq!(only.header.nodes, [NodeId(1), NodeId(2)]);
    assert_eq!(words(&only), ["p1 asks: acquire", "p1 sends Request to p2", "p2 receives Request from p1"]);
    let mut stamped = contended();
    stamped.stamp(true);
    let part = View { only: vec![NodeId(1), NodeId(3)], ..View::default() }.of(&stamped);
    let picture = svg(&part, &SvgOptions { stamps: Stamps::Vector, ..SvgOptions::default() });
    // The vectors keep the entries of p1 and p3, and p2 has no place in them any more.
    let last = stamped.records.last().unwrap().vector.clone().unwrap();
    assert!(picture.contains(&format!("[{},{}]", last.get(0), last.get(2))), "{last:?}");
    let hidden = View { hide_overhead: true, ..View::default() }.of(&run.trace);
    assert_eq!(hidden.records.len(), 3);
    assert_eq!(hidden.header.nodes.len(), 3);
}

#[test]
fn who_is_down_or_gone_stays_so() {
    let mut run = Run::new("any", 1..=3);
    run.phase(2, "holding");
    run.input(100, 2, What::Timer { timer: "t".into() });
    run.input(200, 2, What::Crash { after: None });
    run.phase(3, "idle");
    run.input(300, 3, What::Event { event: "left".into(), fence: String::new(), lock: 0 });
    run.acquire(500, 1);
    let part = View { window: Some((400, 600)), ..View::default() }.of(&run.trace);
    assert!(words(&part).contains(&"p2 crashes".to_owned()));
    assert_eq!(part.header.newcomers, [NodeId(3)]);
    let text = diagram(&part, &DiagramOptions::default());
    assert!(text.contains("✗"), "{text}");
}

#[test]
fn other_names_and_stamps_on_the_terminal() {
    let mut trace = contended();
    trace.stamp_counting(conclave_trace::Counted::Messages, true);
    let names = BTreeMap::from([("Reply".to_owned(), "OK".to_owned())]);
    let trace = View { names, ..View::default() }.of(&trace);
    let options = DiagramOptions { stamps: Stamps::Vector, legend: true, ..DiagramOptions::default() };
    let text = diagram(&trace, &options);
    assert!(text.contains("p1 → p2 Request{1} [1,0,0]"), "{text}");
    assert!(text.contains("p2 → p1 OK{1,0} [1,4,0]") && !text.contains("Reply"), "{text}");
    let legend = text.lines().last().unwrap();
    assert_eq!(legend.trim(), "· idle   ○ waiting   ● holding   → sends   ← receives");
}
