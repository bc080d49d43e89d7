//! With deliveries followed alone a search sees fewer states, and comes to the same verdict.

use conclave_algorithms::{Trigger, mutex, registry};
use conclave_check::{AskBudget, Limits, Options, Report, attempts, check};
use conclave_trace::Setup;

/// Searches with more states are left out.
const MOST: usize = 40_000;

fn search(setup: &Setup, options: &Options, reduce: bool) -> Option<Report> {
    let limits = Limits { memory: 2 << 30, ..options.limits.clone() };
    let options = Options { reduce, by_effect: true, liveness: false, limits, ..options.clone() };
    check(setup, &options, &mut |_| {}).ok()
}

fn broken(report: &Report) -> Option<&'static str> {
    report.counterexample.as_ref().map(|found| found.property)
}

/// Searches twice; the states with steps left out, and with all. Nothing if there are too many.
fn both(setup: &Setup, entries: u8) -> Option<(usize, usize)> {
    let limits = Limits { states: Some(MOST), ..Limits::default() };
    let options = Options { entries: AskBudget::Times(entries), limits, ..Options::default() };
    let full = search(setup, &options, false).filter(|report| report.incomplete.is_none())?;
    let limits = Limits { states: None, ..options.limits.clone() };
    let reduced = search(setup, &Options { limits, ..options }, true)?;
    assert_eq!(broken(&reduced), broken(&full), "{setup}");
    assert_eq!(reduced.complete, full.complete, "{setup}");
    if full.complete {
        assert!(reduced.states <= full.states, "{setup}: {} of {}", reduced.states, full.states);
        assert_eq!(reduced.coverage, full.coverage, "{setup}");
    }
    Some((reduced.states, full.states))
}

/// The same is broken, the same situations are met.
#[test]
fn every_algorithm_gets_the_same_verdict() {
    let mut compared = 0;
    for about in registry::all() {
        for (n, entries) in [(2, 1), (2, 2), (3, 1)] {
            let counts = both(&Setup::numbered(about.name, n), entries);
            println!("{} n = {n}, {entries}: {counts:?}", about.name);
            compared += usize::from(counts.is_some());
        }
    }
    assert!(compared > 60, "only {compared} searches were compared");
}

/// Whatever breaks safety or leads to a dead end is found among fewer states, too.
#[test]
fn mutants_are_found_with_steps_left_out() {
    let mut found = 0;
    for about in mutex::all() {
        let mutants = about.mutants.iter().filter(|mutant| mutant.trigger == Trigger::Schedule);
        for mutant in mutants.filter(|mutant| ["ME1", "ME2", "FENCE", "TOK"].contains(&mutant.breaks)) {
            let setup =
                Setup { mutant: Some(mutant.name.into()), ..Setup::numbered(about.name, mutant.nodes) };
            let refuted = attempts(mutant).iter().any(|options| {
                search(&setup, options, true).is_some_and(|report| report.counterexample.is_some())
            });
            assert!(refuted, "{setup} is not refuted");
            found += 1;
        }
    }
    assert!(found > 20, "only {found} mutants");
}

/// How many states are left, and of how many.
#[test]
fn fewer_states_are_enough() {
    let counts = [
        ("maekawa", 320, 457),
        ("ricart-agrawala-token", 2_138, 3_224),
        ("suzuki-kasami", 485, 725),
        ("raymond", 152, 158),
        ("singhal", 365, 483),
    ];
    for (name, reduced, full) in counts {
        assert_eq!(both(&Setup::numbered(name, 3), 1), Some((reduced, full)), "{name}");
    }
}
