//! Every mutant is refuted, and the simulator sees what the checker saw.

use std::time::{Duration, Instant};

use conclave_algorithms::{Mutant, election, mutex};
use conclave_check::{Counterexample, Limits, Options, Report, attempts, check};
use conclave_trace::Setup;

fn search(setup: &Setup, options: &Options) -> Report {
    check(setup, options, &mut |_| {}).expect("it can be searched")
}

/// Refutes a mutant within the memory that everyone has.
fn refute(setup: &Setup, attempts: &[Options]) -> Option<Counterexample> {
    let limits = Limits { memory: 2 << 30, time: Some(Duration::from_secs(600)), ..Limits::default() };
    let options = |options: &Options| Options { limits: limits.clone(), ..options.clone() };
    attempts.iter().find_map(|attempt| search(setup, &options(attempt)).counterexample)
}

fn replays(setup: &Setup, found: &Counterexample) -> Result<(), String> {
    let played = conclave_sim::play(&found.script).map_err(|error| format!("{error}\n{}", found.script))?;
    match played.violation {
        Some(violation) if violation.property == found.property => Ok(()),
        other => {
            Err(format!("{}: {:?} instead of {}\n{}", setup.algorithm, other, found.property, found.script))
        }
    }
}

/// Whether the property that was broken is the one that the mutant declares, or says the same of an election's end.
fn is_declared(mutant: &Mutant, property: &str) -> bool {
    mutant.breaks == property
        || (mutant.breaks.starts_with('E') && property.starts_with('E'))
        || (mutant.breaks == "ME1" && matches!(property, "TOK" | "FENCE"))
        || (mutant.breaks == "TOK" && property == "ME1")
        // Who waits in a dead end starves, too.
        || (mutant.breaks == "ME3" && property == "ME2")
}

#[test]
fn every_mutant_is_refuted_and_the_simulator_agrees() {
    let mut failures = Vec::new();
    // Those of masters and workers need settings of their own to be found soon: see holds.rs. Those of multicasts are in
    // multicast.rs.
    for about in mutex::all().into_iter().chain(election::all()) {
        for mutant in about.mutants {
            let setup =
                Setup { mutant: Some(mutant.name.into()), ..Setup::numbered(about.name, mutant.nodes) };
            let started = Instant::now();
            let name = format!("{} {}", about.name, mutant.name);
            let Some(found) = refute(&setup, &attempts(mutant)) else {
                failures.push(format!("{name} is not refuted"));
                continue;
            };
            let took = started.elapsed();
            // The bar is ten seconds for a release build on a machine of its own; this one may be shared by many.
            if took > Duration::from_secs(600) {
                failures.push(format!("{name} took {took:?}"));
            }
            if !is_declared(mutant, found.property) {
                failures.push(format!("{name} breaks {}, not {}", found.property, mutant.breaks));
            }
            if let Err(why) = replays(&setup, &found) {
                failures.push(format!("{name}: {why}"));
            }
            println!("{name}: {} in {} steps, {took:?}", found.property, found.steps);
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
