//! Stamps, and the forms for other tools and for the terminal.

use std::collections::BTreeMap;

use crate::common::{Run, comings_and_goings, contended, disasters, random};
use conclave_core::{Causality, NodeId};
use conclave_trace::{DiagramOptions, SvgOptions, Trace, What, diagram, mermaid, shiviz, svg};
use proptest::prelude::*;

/// Which records happened before which: the transitive closure of the order at each process and of the causes.
fn happened_before(trace: &Trace) -> Vec<Vec<bool>> {
    let n = trace.records.len();
    let mut before = vec![vec![false; n]; n];
    let mut last: BTreeMap<NodeId, usize> = BTreeMap::new();
    for (at, record) in trace.records.iter().enumerate().filter(|(_, record)| record.what.is_lived()) {
        let parents = record.process.and_then(|process| last.insert(process, at));
        for parent in parents.into_iter().chain(record.cause.map(|cause| cause as usize)) {
            before[parent][at] = true;
            for row in &mut before {
                row[at] |= row[parent];
            }
        }
    }
    before
}

proptest! {
    #[test]
    fn vectors_tell_exactly_what_happened_before(n in 2u32..6, messages in 0usize..15, seed: u64) {
        let mut trace = random(n, messages, false, seed);
        let before = happened_before(&trace);
        trace.stamp(true);
        for (i, a) in trace.records.iter().enumerate() {
            for (j, b) in trace.records.iter().enumerate().skip(i + 1) {
                let expected = if before[i][j] { Causality::Before } else { Causality::Concurrent };
                let vector = |record: &conclave_trace::Record| record.vector.clone().expect("it was asked for");
                prop_assert_eq!(vector(a).compare(&vector(b)), expected, "{} {}", i, j);
                prop_assert!(!before[i][j] || a.lamport < b.lamport);
            }
        }
    }
}

#[test]
fn a_lost_message_teaches_its_receiver_nothing() {
    let mut run = Run::new("loss", 1..=2);
    let at = run.acquire(0, 1);
    let send = run.send(at, 2, "Request{1}");
    run.lose(send, 500);
    run.acquire(900, 2);
    let mut trace = run.trace;
    trace.stamp(true);
    assert_eq!(trace.records[2].lamport, trace.records[1].lamport);
    assert_eq!(trace.records[3].lamport, 1);
    assert_eq!(trace.records[3].vector.as_ref().map(|vector| vector.get(0)), Some(0));
    trace.stamp(false);
    assert!(trace.records.iter().all(|record| record.vector.is_none()));
}

#[test]
fn shiviz_log() {
    let mut run = Run::new("two", 1..=2);
    let at = run.acquire(0, 1);
    let send = run.send(at, 2, "Request{1}");
    let lost = run.send(at, 2, "Request{1}");
    run.lose(lost, 0);
    run.deliver(send, 1_000);
    let expected = r#"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)

p1 {"p1":1}
p1 asks: acquire
p1 {"p1":2}
p1 sends Request{1} to p2
p1 {"p1":3}
p1 sends Request{1} to p2
p2 {"p1":2,"p2":1}
p2 receives Request{1} from p1
"#;
    assert_eq!(shiviz(&run.trace), expected);
    // Stamps that are already there are taken.
    run.trace.stamp(true);
    assert_eq!(shiviz(&run.trace), expected);
}

/// ShiViz demands that the events of a host count their own entry up one by one.
#[test]
fn shiviz_counts_every_host_up_by_one() {
    for trace in [contended(), disasters(), random(5, 30, false, 4)] {
        let log = shiviz(&trace);
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let lines: Vec<&str> = log.lines().skip(2).collect();
        assert_eq!(lines.len() % 2, 0);
        for pair in lines.chunks(2) {
            let (host, clock) = pair[0].split_once(' ').expect("host and clock");
            let clock: BTreeMap<String, u64> = serde_json::from_str(clock).expect("a JSON clock");
            let count = counts.entry(host.to_owned()).or_insert(0);
            *count += 1;
            assert_eq!(clock[host], *count, "{pair:?}");
        }
    }
}

#[test]
fn mermaid_text() {
    let mut run = Run::new("two", 1..=2);
    let at = run.acquire(0, 1);
    let first = run.send(at, 2, "Request{1}");
    let second = run.send(at, 2, "Odd#;%<1>");
    let at = run.deliver(first, 1_000);
    let back = run.send(at, 1, "Reply");
    run.lose(second, 1_200);
    let at = run.deliver(back, 2_000);
    run.grant(at, "0.1.1");
    run.release(3_000, 1);
    run.input(3_500, 2, What::Crash { after: None });
    run.network(4_000, What::Partition { cut: "1/2".to_owned() });
    let expected = "sequenceDiagram
    participant p1
    participant p2
    Note over p1: acquire
    p1->>p2: Request{1}
    p1-xp2: Odd#35;#59;#37;#60;1#62;
    p2->>p1: Reply
    activate p1
    Note over p1: granted 0.1.1
    deactivate p1
    Note over p1: release
    Note over p2: crash
    Note over p1,p2: cut 1/2
";
    assert_eq!(mermaid(&run.trace), expected);
}

/// Mermaid refuses to end a bar that has not begun, and draws none that does not end.
#[test]
fn mermaid_bars_begin_and_end() {
    for trace in [contended(), disasters(), random(6, 60, false, 2)] {
        let mut active: BTreeMap<String, bool> = BTreeMap::new();
        for line in mermaid(&trace).lines() {
            if let Some(process) = line.trim().strip_prefix("activate ") {
                assert_ne!(active.insert(process.to_owned(), true), Some(true), "{line}");
            } else if let Some(process) = line.trim().strip_prefix("deactivate ") {
                assert_eq!(active.insert(process.to_owned(), false), Some(true), "{line}");
            }
        }
        assert!(active.values().all(|is_active| !is_active));
    }
}

const CONTENDED: &str = "  time  p1 p2 p3
  0.2   ○  ·  ·    p1 acquire   p1 → p2 Request{1}   p1 → p3 Request{1}
  0.5   ○  ○  ·    p2 acquire   p2 → p1 Request{1}   p2 → p3 Request{1}
  1.1   ○  ○  ·    p2 ← p1 Request{1}   p2 → p1 Reply{1,0}
  1.4   ○  ○  ·    p1 ← p2 Request{1}
  1.6   ○  ○  ·    p3 ← p1 Request{1}   p3 → p1 Reply{1,0}
  1.9   ○  ○  ·    p3 ← p2 Request{1}   p3 → p2 Reply{1,0}
  2.1   ○  ○  ·    p1 ← p2 Reply{1,0}
  2.3   ○  ○  ○    p3 acquire   p3 → p1 Request{2}   p3 → p2 Request{2}
  2.6   ●  ○  ○    p1 ← p3 Reply{1,0}   p1 granted 0.1.1
  2.9   ●  ○  ○    p2 ← p3 Reply{1,0}
  3.3   ●  ○  ○    p2 ← p3 Request{2}
  3.5   ●  ○  ○    p1 ← p3 Request{2}
  4.1   ·  ○  ○    p1 release   p1 → p2 Reply{1,1}   p1 → p3 Reply{2,1}
  4.9   ·  ●  ○    p2 ← p1 Reply{1,1}   p2 granted 0.2.2
  5.2   ·  ●  ○    p3 ← p1 Reply{2,1}
  6.3   ·  ·  ○    p2 release   p2 → p3 Reply{2,2}
  7.2   ·  ·  ●    p3 ← p2 Reply{2,2}   p3 granted 0.3.3
  8.3   ·  ·  ·    p3 release
";

#[test]
fn diagram_of_a_contended_run() {
    assert_eq!(diagram(&contended(), &DiagramOptions::default()), CONTENDED);
}

#[test]
fn diagrams_keep_to_their_width_and_lines() {
    for trace in [contended(), disasters(), random(30, 30, false, 2), Run::new("none", []).trace] {
        for width in [20, 40, 60, 100, 200] {
            for max_lines in [0, 1, 3, 4, 9] {
                let options = DiagramOptions { width, max_lines, ..DiagramOptions::default() };
                let text = diagram(&trace, &options);
                let lines = text.lines().count();
                assert!(max_lines == 0 || lines <= max_lines.max(3), "{lines} of {max_lines}\n{text}");
                for line in text.lines().filter(|_| width >= 60) {
                    assert!(line.chars().count() <= width, "{width}: {line}");
                }
            }
        }
    }
}

#[test]
fn the_middle_of_a_long_diagram_is_left_out() {
    let options = DiagramOptions { max_lines: 6, ..DiagramOptions::default() };
    let text = diagram(&contended(), &options);
    let lines: Vec<&str> = text.lines().collect();
    let all: Vec<&str> = CONTENDED.lines().collect();
    let [head @ .., missing, a, b] = &lines[..] else { panic!("{text}") };
    assert_eq!(*head, all[..3]);
    assert_eq!(*missing, "  ⋮ 14 lines left out");
    assert_eq!([*a, *b], all[all.len() - 2..]);
}

#[test]
fn plain_signs_and_colours_on_demand() {
    let trace = disasters();
    let plain = diagram(&trace, &DiagramOptions { ascii: true, ..DiagramOptions::default() });
    assert!(plain.is_ascii(), "{plain}");
    assert!(plain.contains("p1 ->x p3 Request{1} lost"), "{plain}");
    assert!(!plain.contains('\x1b'));
    let bare = diagram(&trace, &DiagramOptions::default());
    let colour = diagram(&trace, &DiagramOptions { colour: true, ..DiagramOptions::default() });
    assert!(colour.contains("\x1b[31m✗\x1b[0m"), "{colour}");
    // Without the colours it is the same.
    let mut stripped = String::new();
    let mut rest = colour.as_str();
    while let Some((text, escape)) = rest.split_once("\x1b[") {
        stripped += text;
        rest = escape.split_once('m').expect("every escape ends").1;
    }
    let trimmed: Vec<&str> = bare.lines().collect();
    assert_eq!((stripped + rest).lines().map(str::trim_end).collect::<Vec<_>>(), trimmed);
}

#[test]
fn who_is_not_there_has_no_sign() {
    let expected = "  time  p1 p2 p3
  0     ●  ·       p1 acquire   p1 granted 0.1.1
  1     ●  ·       p2 suspects p1   p2 → p1 Gather{1p2}
  2     ·  ·       p1 ← p2 Gather{1p2}   p1 lost 0.1.1
  3     ·  ·       p2 trusts p1
  4     ·  ●       p2 acquire   p2 granted 1p2.1.2
  5     ·  ●  ·    p3 joins
  5     ·  ●  ·    p3 start   p3 → p2 CheckIn{1}
  6     ·  ●  ·    p2 ← p3 CheckIn{1}
  7     ·  ·  ·    p2 release
  8     ·     ·    p2 leave   p2 → p1 Leave   p2 left
  9     ·     ·    p1 ← p2 Leave
";
    let trace = comings_and_goings();
    assert_eq!(diagram(&trace, &DiagramOptions::default()), expected);
    let text = mermaid(&trace);
    for note in ["p3: joins", "p1: lost 0.1.1", "p2: granted 1p2.1.2", "p2: leave", "p2: left"] {
        assert!(text.contains(&format!("Note over {note}\n")), "{note}:\n{text}");
    }
}

/// A recorder may write the last phase of the old life next to a crash and a restart; it no longer counts.
#[test]
fn a_process_that_crashed_holds_nothing() {
    let mut run = Run::new("alone", 1..=1);
    let at = run.acquire(0, 1);
    run.grant(at, "0.1.1");
    run.input(1_000, 1, What::Crash { after: None });
    run.input(2_000, 1, What::Restart { life: 2, durable: true });
    assert!(run.trace.records.iter().all(|record| record.phase == "holding"));
    let expected = "  time  p1
  0     ●    p1 acquire   p1 granted 0.1.1
  1     ✗    p1 crash
  2     ·    p1 restart, life 2
";
    assert_eq!(diagram(&run.trace, &DiagramOptions::default()), expected);
    let text = mermaid(&run.trace);
    assert!(
        text.ends_with("    deactivate p1\n    Note over p1: crash\n    Note over p1: restart, life 2\n"),
        "{text}"
    );
}

/// It stands on the line of the step, and every form says how far the step came.
#[test]
fn a_crash_inside_a_step_belongs_to_the_step() {
    let mut run = Run::new("two", 1..=2);
    let at = run.acquire(0, 1);
    run.send(at, 2, "Request{1}");
    run.effect(at, What::Crash { after: Some(1) });
    run.input(1_000, 2, What::Crash { after: None });
    run.trace.stamp(true);
    let expected = "  time  p1 p2
  0     ✗  ·    p1 acquire   p1 → p2 Request{1}   p1 crash inside the step, after 1 effect
  1     ✗  ✗    p2 crash
";
    assert_eq!(diagram(&run.trace, &DiagramOptions::default()), expected);
    let text = "p1 crashes inside the step, after 1 effect\n";
    assert!(shiviz(&run.trace).contains(text), "{}", shiviz(&run.trace));
    let drawing = svg(&run.trace, &SvgOptions::default());
    assert!(drawing.contains(">after 1</text>"), "{drawing}");
    assert!(mermaid(&run.trace).contains("Note over p1: crash inside the step, after 1 effect\n"));
    let mut lines = Vec::new();
    run.trace.write_jsonl(&mut lines).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    assert_eq!(lines.matches("\"kind\":\"crash\",\"after\":1").count(), 1, "{lines}");
    assert_eq!(Trace::read_jsonl(&lines).unwrap(), run.trace);
}
