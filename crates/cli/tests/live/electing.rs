//! Elections among real processes, each with one initiator.

use std::time::Duration;

use conclave_algorithms::election;
use conclave_core::{NodeId, Timing};
use conclave_live::control::{Answer, Ask};
use conclave_live::desk::{Wish, Word};
use conclave_trace::{Trace, What};

use crate::cluster::{Home, Live, PATIENCE, until};
use crate::cost;

/// Time-outs follow from this. It is so long that none runs out although the machine is busy: no formula is exact
/// when one does.
const TRANSMISSION: Duration = Duration::from_secs(4);

pub fn elect(live: &Live<'_>, initiator: NodeId) -> Vec<NodeId> {
    let mut control = live.connect(initiator);
    control.ask(&Ask::Wish(Wish::Elect)).expect("it listens");
    match control.answer(Some(PATIENCE)).expect("it answers") {
        Some(Answer::Word(Word::Elected { leaders, .. })) => leaders,
        other => panic!("{initiator} did not see an election through: {other:?}"),
    }
}

/// The longest that a message took there and, if the answer took as long, back.
fn round_trip(trace: &Trace) -> Duration {
    let sent = |id: u64| trace.records.iter().find(|record| record.id == id).map_or(0, |record| record.time);
    let arrivals = trace.records.iter().filter(|record| matches!(record.what, What::Deliver(_)));
    let longest = arrivals.filter_map(|record| Some(record.time.saturating_sub(sent(record.cause?)))).max();
    Duration::from_micros(2 * longest.expect("something was sent"))
}

fn try_out(algorithm: &str, initiator: NodeId) {
    let home = Home::new();
    let live = home
        .start(&format!("{algorithm} -n 5 --transmission {}s --suspect-after 20s", TRANSMISSION.as_secs()));
    let leaders = elect(&live, initiator);
    until("everybody knows who leads", || {
        live.statuses().iter().all(|status| !status.desk.leaders.is_empty())
    });
    let trace = live.settled(1);
    for status in live.statuses() {
        assert_eq!(status.desk.leaders, leaders, "{} sees it differently", status.id);
    }

    let timing = Timing { transmission: TRANSMISSION, processing: TRANSMISSION / 5 };
    let measured = round_trip(&trace);
    assert!(timing.answer_timeout() >= 50 * measured, "a round trip took {measured:?}");
    assert!(!trace.records.iter().any(|record| matches!(record.what, What::Timer { .. })), "a time-out");

    let report = live.judged();
    let properties = report["properties"].as_array().expect("a list");
    let holds = |name: &str| properties.iter().any(|found| found["name"] == name && found["holds"] == true);
    assert!(["E1", "E2", "E3", "E4", "E5"].into_iter().all(holds), "{report}");
    let (messages, formula) = (cost::messages(&trace), cost::formula(&trace));
    println!("{algorithm} from {initiator}: {messages} messages, {formula:?}, a round trip of {measured:?}");
    assert!(
        formula.admits(messages),
        "{algorithm} from {initiator} took {messages} messages, not {formula:?}"
    );
    live.stop();
}

/// The lowest has the longest way to go; the third neither wins nor asks everybody.
#[test]
fn electing_by_every_algorithm() {
    for about in election::all() {
        for initiator in [NodeId(1), NodeId(3)] {
            try_out(about.name, initiator);
        }
    }
}

/// As a user sees it.
#[test]
fn electing_from_the_command_line() {
    let home = Home::new();
    let live = home.start("ring-k-leaders --ids 4,9,2 --set k=2 --suspect-after 20s");
    let elected = live.run("elect --via 2 --json").ends(0).json();
    assert_eq!((&elected["via"], &elected["leaders"]), (&2.into(), &serde_json::json!([9, 4])), "{elected}");
    assert_eq!(live.run("elect").ends(0).out, "p9,p4\n");
    live.run("lock a -- true").refused("this algorithm elects, and has no locks");
    let status = live.run("status --json").ends(0).json();
    for process in status["processes"].as_array().expect("a list") {
        assert_eq!(process["status"]["desk"]["leaders"], serde_json::json!([9, 4]), "{process}");
    }
    live.stop();
}
