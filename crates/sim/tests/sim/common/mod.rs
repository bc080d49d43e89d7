//! What the tests of the simulator share.

#![allow(dead_code, reason = "each test file uses its part")]

use conclave_algorithms::mutex::Load;
use conclave_core::Members;
use conclave_sim::{Outcome, Plan, simulate_setup};
use conclave_trace::Setup;

/// Every algorithm in every safe setting that changes its messages.
pub const VARIANTS: [(&str, &[(&str, &str)]); 25] = [
    ("central", &[("variant", "silent")]),
    ("central", &[("variant", "denied")]),
    ("central", &[("variant", "queued")]),
    ("lamport", &[]),
    ("lamport", &[("replies", "suppressed")]),
    ("lamport", &[("enter", "acks")]),
    ("ricart-agrawala", &[]),
    ("ricart-agrawala", &[("answer", "queued")]),
    ("carvalho-roucairol", &[]),
    ("maekawa", &[]),
    ("maekawa", &[("quorum", "grid")]),
    ("maekawa", &[("variant", "eager")]),
    ("majority", &[]),
    ("majority", &[("mode", "backoff")]),
    ("majority", &[("queued", "off")]),
    ("ricart-agrawala-token", &[]),
    ("suzuki-kasami", &[]),
    ("token-ring", &[]),
    ("token-ring", &[("idle", "park")]),
    ("raymond", &[]),
    ("raymond", &[("arity", "3")]),
    ("raymond", &[("tree", "chain")]),
    ("raymond", &[("tree", "star")]),
    ("raymond", &[("tree", "random")]),
    ("singhal", &[]),
];

pub const LOADS: [Load; 3] = [Load::Light, Load::Open, Load::Saturated];

/// Processes `1..=n` of an algorithm with these settings.
pub fn setup(algorithm: &str, n: u32, settings: &[(&str, &str)]) -> Setup {
    let mut setup = Setup::numbered(algorithm, n);
    setup.settings = settings.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    setup
}

/// A plan for `n` processes under a load.
pub fn plan(n: u32, load: Load, seed: u64) -> Plan {
    Plan { seed, load, entries: 2, ..Plan::new(Members::numbered(n)) }
}

/// Runs without a trace.
pub fn run(setup: &Setup, plan: &Plan) -> Outcome {
    simulate_setup(setup, plan, false).expect("the setup is possible")
}

/// Runs, and wants every promise kept and every request served.
pub fn run_well(setup: &Setup, plan: &Plan) -> Outcome {
    let outcome = run(setup, plan);
    let expected = plan.entries * plan.members.len() as u64 * plan.locks as u64;
    let report = &outcome.report;
    let entries = report
        .part::<conclave_algorithms::mutex::LockReport>()
        .expect("it is an algorithm for locks")
        .entries;
    assert!(
        report.all_held() && entries == expected && report.ending == "done",
        "{} {:?} -n {} --load {:?} --seed {}: {:?}, {} of {expected} entries, {}",
        setup.algorithm,
        setup.settings,
        plan.members.len(),
        plan.load,
        plan.seed,
        outcome.violation,
        entries,
        report.ending,
    );
    outcome
}
