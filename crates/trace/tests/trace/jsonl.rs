//! JSON Lines: what is written is read back, and what is broken is named.

use core::time::Duration;

use conclave_core::{NodeId, VectorClock};
use conclave_trace::{Carried, Record, Trace, TraceError, What};
use proptest::prelude::*;
use serde_json::{Value, json};

fn written(trace: &Trace) -> String {
    let mut out = Vec::new();
    trace.write_jsonl(&mut out).expect("a vector takes everything");
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// Any JSON, as deep as messages get. Fractions are left out: nothing in a message has them.
fn fields() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn carried() -> impl Strategy<Value = Carried> {
    (1u32..=4, 1u32..=4, any::<String>(), fields(), any::<String>(), any::<bool>(), 1u64..).prop_map(
        |(from, to, message, fields, text, overhead, nth)| Carried {
            from: NodeId(from),
            to: NodeId(to),
            message,
            fields,
            text,
            overhead,
            nth,
        },
    )
}

fn what() -> impl Strategy<Value = What> {
    let peer = || (1u32..=4).prop_map(NodeId);
    let text = any::<String>;
    prop_oneof![
        Just(What::Start),
        (text(), 0usize..3).prop_map(|(request, lock)| What::Request { request, lock }),
        (text(), text(), 0usize..3).prop_map(|(event, fence, lock)| What::Event { event, fence, lock }),
        carried().prop_map(What::Send),
        carried().prop_map(What::Deliver),
        carried().prop_map(What::Drop),
        carried().prop_map(What::Duplicate),
        text().prop_map(|timer| What::Timer { timer }),
        prop::option::of(0u32..9).prop_map(|after| What::Crash { after }),
        (any::<u32>(), any::<bool>()).prop_map(|(life, durable)| What::Restart { life, durable }),
        Just(What::Join),
        Just(What::Pause),
        Just(What::Resume),
        (peer(), any::<Option<u32>>()).prop_map(|(peer, life)| What::Suspect { peer, life }),
        (peer(), any::<Option<u32>>()).prop_map(|(peer, life)| What::Trust { peer, life }),
        text().prop_map(|cut| What::Partition { cut }),
        text().prop_map(|cut| What::Heal { cut }),
        (peer(), text()).prop_map(|(peer, why)| What::Reject { peer, why }),
        (text(), text()).prop_map(|(property, detail)| What::Violation { property, detail }),
    ]
}

prop_compose! {
    fn record()(
        what in what(), time: u64, process in 1u32..=4, phase: String, cause in prop::option::of(any::<u64>()),
        lamport: u64, vector in prop::option::of(prop::collection::vec(any::<u64>(), 0..=4)),
    ) -> Record {
        let process = Some(match &what {
            What::Send(carried) => carried.from,
            What::Deliver(carried) | What::Drop(carried) => carried.to,
            _ => NodeId(process),
        });
        Record { id: 0, time, process, what, phase, clock: None, cause, lamport, vector: vector.map(VectorClock::from) }
    }
}

/// Any records, with ids and causes that make sense.
fn trace() -> impl Strategy<Value = Trace> {
    prop::collection::vec(record(), 0..20).prop_map(|mut records| {
        for (at, record) in records.iter_mut().enumerate() {
            record.id = at as u64;
            // Messages are caused by their send only; here there is none.
            let may_have_one = at > 0 && record.what.carried().is_none();
            record.cause = record.cause.filter(|_| may_have_one).map(|cause| cause % at as u64);
        }
        let mut trace = crate::common::Run::new("any", 1..=4).trace;
        trace.header.locks = 3;
        Trace { records, ..trace }
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(trace in trace()) {
        prop_assert_eq!(Trace::read_jsonl(&written(&trace)), Ok(trace));
    }

    /// Whatever happens to a file, reading it gives a trace or an error.
    #[test]
    fn damage_is_no_panic(seed: u64, cut in 0usize..4000, sign in any::<char>(), at in 0usize..4000) {
        let text = written(&crate::common::random(3, 5, false, seed));
        let mut signs: Vec<char> = text.chars().collect();
        let at = at % signs.len();
        signs[at] = sign;
        signs.truncate(cut.max(1));
        let _ = Trace::read_jsonl(&signs.into_iter().collect::<String>());
    }

    #[test]
    fn any_text_is_no_panic(text: String) {
        prop_assert!(Trace::read_jsonl(&text).is_err());
    }
}

#[test]
fn recorded_runs_are_read_back() {
    let random = crate::common::random(8, 40, false, 3);
    for mut trace in
        [crate::common::contended(), crate::common::disasters(), crate::common::comings_and_goings(), random]
    {
        trace.stamp(true);
        trace.header.seed = Some(7);
        trace.header.timing.transmission = Duration::from_millis(50);
        trace.header.mutant = Some("no-tie-break".to_owned());
        trace.header.settings.insert("answer".to_owned(), "queued".to_owned());
        assert_eq!(Trace::read_jsonl(&written(&trace)), Ok(trace));
    }
}

#[test]
fn the_first_line_says_what_it_is() {
    let text = written(&crate::common::contended());
    let first: Value = serde_json::from_str(text.lines().next().expect("a header")).expect("JSON");
    let expected = json!({
        "format": "conclave-trace", "version": 1, "algorithm": "ricart-agrawala", "nodes": [1, 2, 3], "channels": "any"
    });
    assert_eq!(first, expected);
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    const HEAD: &str =
        r#"{"format":"conclave-trace","version":1,"algorithm":"x","nodes":[1,2],"channels":"any"}"#;
    const SEND: &str =
        r#"{"id":0,"time":0,"process":1,"kind":"send","from":1,"to":2,"message":"A","nth":1,"lamport":1}"#;
    let cases: &[(&str, &str)] = &[
        ("", "the trace is empty"),
        ("\n  \n", "the trace is empty"),
        (
            r#"{"format":"conclave-trace","version":1,"algorithm":"x","nodes":[1],"channels":"any","timing":{"transmission":18446744073709551615,"processing":0}}"#,
            "line 1: the header is wrong: no time is longer than 2^47 microseconds",
        ),
        (
            "hello",
            "this is not a trace: the first line must be a JSON object with \"format\":\"conclave-trace\"",
        ),
        (
            "{\"format\":\"other\"}",
            "this is not a trace: the first line must be a JSON object with \"format\":\"conclave-trace\"",
        ),
        (
            "{\"format\":\"conclave-trace\",\"version\":2}",
            "the trace has version 2; this program reads version 1",
        ),
        ("{\"format\":\"conclave-trace\"}", "line 1: the header is wrong: missing field `version`"),
        (
            "{\"format\":\"conclave-trace\",\"version\":1}",
            "line 1: the header is wrong: missing field `algorithm`",
        ),
        (&HEAD.replace("[1,2]", "[]"), "line 1: the header is wrong: there are no processes"),
        (&HEAD.replace("[1,2]", "[1,1]"), "line 1: the header is wrong: a process is listed twice"),
        (
            &HEAD.replace("[1,2]", "[1,2],\"newcomers\":[1]"),
            "line 1: the header is wrong: `newcomers` are not the last of `nodes`",
        ),
        (
            &HEAD.replace("[1,2]", "[1],\"newcomers\":[1,2]"),
            "line 1: the header is wrong: `newcomers` are not the last of `nodes`",
        ),
        (
            &HEAD.replace("[1,2]", "[1,2],\"newcomers\":[1,2]"),
            "line 1: the header is wrong: there is nobody to join",
        ),
        (
            &HEAD.replace("\"nodes\"", "\"locks\":0,\"nodes\""),
            "line 1: the header is wrong: there are no locks",
        ),
        (&format!("{HEAD}\n{{\"id\":0}}\n"), "line 2 is not a record: missing field `time`"),
        (&format!("{HEAD}\nnonsense\n{SEND}\n"), "line 2 is not a record: expected ident"),
        (
            &format!("{HEAD}\n{}", &SEND[..30]),
            "line 2: the last line is cut off; delete it to read what comes before",
        ),
        (
            &format!("{HEAD}\n{}\n", SEND.replace("\"id\":0", "\"id\":3")),
            "line 2: the record has id 3, but its place is 0",
        ),
        (&format!("{HEAD}\n{SEND}\n{SEND}\n"), "line 3: the record has id 0, but its place is 1"),
        (
            &format!("{HEAD}\n{}\n", SEND.replace("\"lamport\"", "\"cause\":0,\"lamport\"")),
            "line 2: the cause, record 0, does not lie before record 0",
        ),
        (
            &format!(
                "{HEAD}\n{SEND}\n{}\n",
                SEND.replace("\"id\":0", "\"id\":1,\"cause\":0")
                    .replace("send", "deliver")
                    .replace("\"from\":1,\"to\":2", "\"from\":2,\"to\":1")
            ),
            "line 3: the cause of this deliver, record 0, does not send a message from p2 to p1",
        ),
        (
            &format!("{HEAD}\n{}\n", SEND.replace("\"to\":2", "\"to\":9")),
            "line 2: p9 is not one of the processes in the header",
        ),
        (&format!("{HEAD}\n{}\n", SEND.replace("\"process\":1,", "")), "line 2: a send needs a process"),
        (
            &format!("{HEAD}\n{}\n", SEND.replace("\"process\":1", "\"process\":2")),
            "line 2: this send belongs to p1, not to p2",
        ),
        (
            &format!("{HEAD}\n{}\n", SEND.replace("\"nth\":1", "\"nth\":0")),
            "line 2: the messages of a channel are counted from 1, so `nth` cannot be 0",
        ),
        (
            &format!(
                "{HEAD}\n{{\"id\":0,\"time\":0,\"process\":1,\"kind\":\"request\",\"request\":\"acquire\",\"lock\":4,\"lamport\":1}}\n"
            ),
            "line 2: lock 4 does not exist; the locks are counted from 0 to 0",
        ),
        (
            &format!("{HEAD}\n{}\n", SEND.replace("\"lamport\"", "\"vector\":[1,2,3],\"lamport\"")),
            "line 2: the vector stamp has 3 entries for 2 processes",
        ),
    ];
    for (text, expected) in cases {
        let error: TraceError = Trace::read_jsonl(text).expect_err(text);
        assert_eq!(error.to_string(), *expected, "{text}");
    }
    // The unchanged record is fine, with and without the last line break, and with a blank line.
    for end in ["", "\n", "\n\n"] {
        assert!(Trace::read_jsonl(&format!("{HEAD}\n\n{SEND}{end}")).is_ok());
    }
}
