//! Questions about the order of events, against the definition: the transitive closure of program order and messages.

use std::collections::BTreeMap;

use conclave_core::{Causality, NodeId};
use conclave_trace::{Counted, Inconsistency, Order, Trace, What};

use crate::common::{Run, contended, random};

/// Three processes: a local, b sends m1; c receives m1, d sends m2; e local, f receives m2.
fn six_events() -> (Trace, [u64; 6]) {
    let mut run = Run::new("events", 1..=3);
    let tick = || What::Timer { timer: "local".to_owned() };
    let a = run.input(0, 1, tick());
    let b = run.send(a, 2, "M1");
    let c = run.deliver(b, 10);
    let d = run.send(c, 3, "M2");
    let e = run.input(5, 3, tick());
    let f = run.deliver(d, 20);
    (run.trace, [a, b, c, d, e, f])
}

#[test]
fn the_six_events_of_the_book() {
    let (mut trace, [a, b, c, d, e, f]) = six_events();
    let order = Order::of(&trace).unwrap();
    for first in [a, b, c, d] {
        assert_eq!(order.compare(first, e), Ok(Causality::Concurrent));
    }
    assert_eq!(order.concurrent(e), Ok(vec![a, b, c, d]));
    assert_eq!(order.compare(a, f), Ok(Causality::Before));
    assert_eq!(order.compare(f, d), Ok(Causality::After));
    assert_eq!(order.compare(d, d), Ok(Causality::Equal));
    assert_eq!(order.linear(), [a, e, b, c, d, f]);
    assert_eq!(order.way(a, f), [a, b, c, d, f]);
    assert!(order.way(a, e).is_empty());
    trace.stamp(true);
    let stamps: Vec<_> = trace.records.iter().map(|record| record.lamport).collect();
    assert_eq!(stamps, [1, 2, 3, 4, 1, 5]);
    let vectors = |trace: &Trace| -> Vec<Vec<u64>> {
        trace.records.iter().map(|r| (0..3).map(|k| r.vector.as_ref().unwrap().get(k)).collect()).collect()
    };
    let expected = [[1, 0, 0], [2, 0, 0], [2, 1, 0], [2, 2, 0], [0, 0, 1], [2, 2, 2]];
    assert_eq!(vectors(&trace), expected);
    // Where only messages count, the first send is the first event.
    trace.stamp_counting(Counted::Messages, true);
    let expected = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 2, 0], [0, 0, 0], [1, 2, 1]];
    assert_eq!(vectors(&trace), expected);
    assert_eq!(trace.records[1].lamport, 1);
}

/// What happened before what, from the definition alone.
fn closure(trace: &Trace) -> Vec<Vec<bool>> {
    let count = trace.records.len();
    let mut before = vec![vec![false; count]; count];
    for (at, record) in trace.records.iter().enumerate() {
        let previous = (0..at).rev().find(|other| trace.records[*other].process == record.process);
        for direct in previous.into_iter().chain(record.cause.map(|cause| cause as usize)) {
            before[direct][at] = true;
            for row in &mut before {
                if row[direct] {
                    row[at] = true;
                }
            }
        }
    }
    before
}

#[test]
fn the_order_is_the_closure_of_its_definition() {
    for seed in 1..20 {
        let trace = random(4, 30, seed % 2 == 0, seed);
        assert!(trace.records.iter().all(|record| record.what.is_lived()), "nothing is lost in these runs");
        let (order, before) = (Order::of(&trace).unwrap(), closure(&trace));
        let count = trace.records.len();
        for (a, row) in before.iter().enumerate() {
            for (b, is_before) in row.iter().enumerate() {
                let expected = match (a == b, *is_before, before[b][a]) {
                    (true, ..) => Causality::Equal,
                    (_, true, _) => Causality::Before,
                    (_, _, true) => Causality::After,
                    _ => Causality::Concurrent,
                };
                assert_eq!(order.compare(a as u64, b as u64), Ok(expected), "seed {seed}: {a}, {b}");
            }
        }
        let linear = order.linear();
        assert_eq!(linear.len(), count);
        for (place, id) in linear.iter().enumerate() {
            assert!(
                linear[..place].iter().all(|earlier| !before[*id as usize][*earlier as usize]),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn a_way_leads_from_event_to_event() {
    let trace = random(4, 40, true, 7);
    let (order, before) = (Order::of(&trace).unwrap(), closure(&trace));
    for a in 0..trace.records.len() {
        for b in 0..trace.records.len() {
            let way = order.way(a as u64, b as u64);
            assert_eq!(!way.is_empty(), before[a][b], "{a}, {b}");
            assert!(way.windows(2).all(|pair| before[pair[0] as usize][pair[1] as usize]), "{way:?}");
        }
    }
}

#[test]
fn a_cut_is_consistent_if_nothing_arrives_unsent() {
    let (trace, [a, b, c, d, e, f]) = six_events();
    let order = Order::of(&trace).unwrap();
    let cut = |ends: &[(u32, u64)]| {
        let frontier: BTreeMap<NodeId, u64> =
            ends.iter().map(|(process, id)| (NodeId(*process), *id)).collect();
        order.cut(&frontier)
    };
    assert_eq!(cut(&[(1, b), (2, c)]), Ok(Ok(vec![])));
    assert_eq!(cut(&[(1, b), (2, d), (3, e)]), Ok(Ok(vec![d])), "the second message is in flight");
    assert_eq!(cut(&[(1, b)]), Ok(Ok(vec![b])));
    assert_eq!(cut(&[(1, a), (2, c)]), Ok(Err(Inconsistency { arrival: c, send: b })));
    assert_eq!(cut(&[(3, f)]), Ok(Err(Inconsistency { arrival: f, send: d })));
    assert!(cut(&[(2, a)]).unwrap_err().contains("one of p1, not of p2"));
    assert!(cut(&[(2, 99)]).unwrap_err().contains("there is no event 99"));
}

#[test]
fn who_waits_is_who_has_asked_and_not_heard() {
    let trace = contended();
    let order = Order::of(&trace).unwrap();
    let silent = |time: u64| -> Vec<(u32, Vec<u32>)> {
        let waits = order.waits(time);
        let ids = |nodes: &[NodeId]| nodes.iter().map(|node| node.0).collect();
        waits.waiters.iter().map(|waiter| (waiter.process.0, ids(&waiter.silent))).collect()
    };
    assert_eq!(silent(0), []);
    assert_eq!(silent(300), [(1, vec![2, 3])]);
    // The replies to p1 are in flight or there; p3 has answered p2, and p1 keeps its reply back.
    assert_eq!(silent(2_200), [(1, vec![]), (2, vec![1])]);
    let inside = order.waits(3_000);
    assert_eq!(inside.holders, [NodeId(1)]);
    assert_eq!(inside.circle(), None);
}

#[test]
fn a_circle_of_waiters_is_found() {
    let mut run = Run::new("votes", 1..=3);
    let (a, b) = (run.acquire(100, 1), run.acquire(100, 2));
    let (one, two) = (run.send(a, 2, "Request"), run.send(b, 1, "Request"));
    run.deliver(one, 200);
    run.deliver(two, 200);
    // Each has heard of the other, and asks again: now neither answers.
    let (a, b) = (
        run.input(300, 1, What::Timer { timer: "t".into() }),
        run.input(300, 2, What::Timer { timer: "t".into() }),
    );
    let (one, two) = (run.send(a, 2, "Request"), run.send(b, 1, "Request"));
    let order = Order::of(&run.trace).unwrap();
    assert_eq!(order.waits(300).circle(), None, "something is in flight");
    run.lose(one, 400);
    run.lose(two, 400);
    let order = Order::of(&run.trace).unwrap();
    assert_eq!(order.waits(400).circle(), Some(vec![NodeId(1), NodeId(2)]));
}

#[test]
fn a_circle_that_somebody_can_break_is_none() {
    // p1 and p2 have asked each other and p3, and nobody has answered.
    let mut run = Run::new("votes", 1..=4);
    let (a, b) = (run.acquire(100, 1), run.acquire(100, 2));
    for (input, others) in [(a, [2, 3]), (b, [1, 3])] {
        for to in others {
            let ask = run.send(input, to, "Request");
            run.lose(ask, 200);
        }
    }
    let circle = |run: &Run| Order::of(&run.trace).unwrap().waits(10_000).circle();
    assert_eq!(circle(&run), Some(vec![NodeId(1), NodeId(2)]));
    // Something is in flight to p3, for whom both wait: it may answer.
    let knock = run.input(300, 4, What::Timer { timer: "t".into() });
    let knock = run.send(knock, 3, "Wake");
    assert_eq!(circle(&run), None);
    run.deliver(knock, 400);
    assert_eq!(circle(&run), Some(vec![NodeId(1), NodeId(2)]));
}
