//! What a live run cost, held against the formula of its algorithm, as the simulator does with its own runs.

use std::collections::BTreeMap;

use conclave_algorithms::demand::{Demand, Load};
use conclave_algorithms::erased::Prepared;
use conclave_algorithms::family::Wanted;
use conclave_algorithms::measure::Ran;
use conclave_algorithms::{Arena, Formula};
use conclave_core::NodeId;
use conclave_sim::scripted::ScriptedRun;
use conclave_trace::{Trace, What, commands_of};

/// The algorithm's own messages.
pub fn messages(trace: &Trace) -> u64 {
    let own = |what: &What| matches!(what, What::Send(message) if !message.overhead);
    trace.records.iter().filter(|record| own(&record.what)).count() as u64
}

/// What the literature says that this run has cost. Who waited and who had all at hand is for judge and meter to say, who
/// watch the run once more.
pub fn formula(trace: &Trace) -> Formula {
    let header = &trace.header;
    let mut prepared = prepare(
        &header.algorithm,
        Wanted {
            locks: header.locks,
            demand: Demand { load: Load::Open, ..Demand::default() },
            ..Wanted::new(&header.nodes, &header.settings)
        },
    );
    prepared.restless = false;
    let mut stage = ScriptedRun::new(&prepared, header.timing, None);
    *stage.observer() = Some(prepared.meter);
    for command in commands_of(trace) {
        stage.apply(&command).expect("what happened can happen");
    }
    let ran = Ran {
        members: &prepared.members,
        messages: messages(trace),
        duplicated: 0,
        time: 0,
        mean_delay: None,
        faulty: false,
    };
    let meter = stage.observer().take().expect("it was put there");
    meter.measured(stage.judge(), &ran).formula
}

/// Whether the algorithm sends messages forever, if it is left as it is.
pub fn is_restless(algorithm: &str, n: u32) -> bool {
    let nodes: Vec<_> = (1..=n).map(NodeId).collect();
    prepare(algorithm, Wanted::new(&nodes, &BTreeMap::new())).restless
}

/// Prepares an algorithm as a live process does.
fn prepare(algorithm: &str, wanted: Wanted<'_>) -> Prepared {
    let mut live = Wanted { arena: Arena::Live, failures: true, ..wanted };
    conclave_erased::prepare(algorithm, &mut live).expect("a known algorithm").expect("it ran so")
}
