//! What the tests of the simulator share.

#![allow(dead_code, reason = "each test file uses its part")]

use conclave_algorithms::About;
use conclave_algorithms::mutex::{self, Load};
use conclave_core::Members;
use conclave_sim::{Outcome, Plan, simulate_setup};
use conclave_trace::Setup;

/// An algorithm with settings.
pub type Variant = (&'static str, &'static [(&'static str, &'static str)]);

/// Of those that have several, every safe setting that changes its messages.
const SEVERAL: [Variant; 25] = [
    ("central", &[("variant", "silent")]),
    ("central", &[("variant", "denied")]),
    ("central", &[("variant", "queued")]),
    ("lamport", &[]),
    ("lamport", &[("replies", "suppressed")]),
    ("lamport", &[("enter", "acks")]),
    ("ricart-agrawala", &[]),
    ("ricart-agrawala", &[("answer", "queued")]),
    ("ricart-agrawala", &[("multicast", "reliable")]),
    ("maekawa", &[]),
    ("maekawa", &[("quorum", "grid")]),
    ("maekawa", &[("variant", "eager")]),
    ("majority", &[]),
    ("majority", &[("mode", "backoff")]),
    ("majority", &[("queued", "off")]),
    ("token-ring", &[]),
    ("token-ring", &[("idle", "park")]),
    ("raymond", &[]),
    ("raymond", &[("arity", "3")]),
    ("raymond", &[("tree", "chain")]),
    ("raymond", &[("tree", "star")]),
    ("raymond", &[("tree", "random")]),
    ("total-order", &[]),
    ("total-order", &[("order", "isis")]),
    ("total-order", &[("order", "lamport-stamps")]),
];

/// Every algorithm for locks that is registered, in all of its variants.
pub fn variants() -> Vec<Variant> {
    let of = |about: &'static About| {
        let several: Vec<_> = SEVERAL.into_iter().filter(|(name, _)| *name == about.name).collect();
        if several.is_empty() { vec![(about.name, &[][..])] } else { several }
    };
    mutex::all().into_iter().flat_map(of).collect()
}

/// How many seeds a test tries: a thousand in a soak (`CONCLAVE_SOAK=1`), and fewer otherwise.
pub fn seeds(usual: u64) -> std::ops::RangeInclusive<u64> {
    1..=if std::env::var_os("CONCLAVE_SOAK").is_some() { 1_000 } else { usual }
}

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
    let entries = report.part::<mutex::LockReport>().expect("it is an algorithm for locks").entries;
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
