//! The locks of a shared memory keep what their table says, in all runs of three processes, and where it says no the
//! search finds the run.

use conclave_algorithms::memory;
use conclave_check::{AskBudget, Budgets, Counterexample, Limits, Options, Report, attempts, check};
use conclave_trace::{Command, Setup};

fn setup(lock: &str, n: u32, set: &[(&str, &str)]) -> Setup {
    let settings = set.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    Setup { settings, ..Setup::numbered(lock, n) }
}

fn search(setup: &Setup, options: &Options) -> Report {
    let limits = Limits { memory: 2 << 30, ..Limits::default() };
    check(setup, &Options { limits, ..options.clone() }, &mut |_| {}).expect("it can be searched")
}

fn forever() -> Options {
    Options { entries: AskBudget::Forever, ..Options::default() }
}

/// A search that comes to its end and breaks nothing that is promised. Says what became of ME3 and BOUNDED.
fn holds(setup: &Setup, options: &Options) -> (usize, [Option<bool>; 2]) {
    let report = search(setup, options);
    assert!(report.complete && report.counterexample.is_none(), "{setup}: {:?}", report.counterexample);
    for property in ["ME1", "PROGRESS"] {
        assert_eq!(report.property(property).and_then(|found| found.holds), Some(true), "{setup} {property}");
    }
    let became = ["ME3", "BOUNDED"].map(|name| report.property(name).and_then(|found| found.holds));
    (report.states, became)
}

/// Refuted, and the simulator sees it, too, promised or not.
fn refuted(setup: &Setup, options: &Options, property: &str) -> Counterexample {
    let found = search(setup, options).counterexample.unwrap_or_else(|| panic!("{setup} is not refuted"));
    assert_eq!(found.property, property, "{setup}: {}", found.detail);
    let played = conclave_sim::play(&found.script).expect("the simulator plays it");
    let seen = played.judgements.iter().find(|judged| judged.property == property).expect("it is judged");
    assert!(matches!(seen.finding, conclave_algorithms::Finding::Broken(_)), "{setup}: {:?}", seen.finding);
    found
}

type Case = (&'static str, u32, &'static [(&'static str, &'static str)], AskBudget);

/// All that promise it serve everyone after at most two others, however often all three ask. The numbers of a bakery grow without
/// bound where anybody asks forever.
#[test]
fn whoever_waits_gets_in_after_at_most_two_others() {
    const FOREVER: AskBudget = AskBudget::Forever;
    let cases: [Case; 11] = [
        ("interrupts", 3, &[], FOREVER),
        ("peterson", 2, &[], FOREVER),
        ("bakery", 2, &[], AskBudget::Times(2)),
        ("bakery", 3, &[], AskBudget::Times(1)),
        ("waiting-array", 3, &[], FOREVER),
        ("ticket", 3, &[], FOREVER),
        ("mcs", 3, &[], FOREVER),
        ("semaphore", 3, &[], FOREVER),
        ("critical-region", 3, &[], FOREVER),
        ("monitor", 3, &[], FOREVER),
        ("monitor", 3, &[("wake", "signal")], FOREVER),
    ];
    for (lock, n, set, entries) in cases {
        let (_, became) = holds(&setup(lock, n, set), &Options { entries, ..Options::default() });
        assert_eq!(became, [Some(true); 2], "{lock} n={n} {set:?}");
    }
}

/// Through another place others come and go before one that was woken moves.
#[test]
fn a_semaphore_of_two_starves_nobody_and_has_no_bound() {
    let (_, became) = holds(&setup("semaphore", 3, &[("places", "2")]), &forever());
    assert_eq!(became, [Some(true), Some(false)]);
}

/// The filter lock starves nobody, but there is no bound among three.
#[test]
fn peterson_has_no_bound_among_three() {
    let (states, became) = holds(&setup("peterson", 3, &[]), &forever());
    assert_eq!((states, became), (260_713, [Some(true), Some(false)]));
}

/// Whoever spins on one instruction is safe, and may starve: the run is found (TV-H2). Then nobody is bounded either.
#[test]
fn book_tv_h2_spinning_on_an_instruction_starves() {
    let mut counts = Vec::new();
    for lock in ["flag", "test-and-set", "swap", "compare-and-swap"] {
        let safety = Options { liveness: false, ..forever() };
        let report = search(&setup(lock, 3, &[]), &safety);
        assert!(report.complete && report.counterexample.is_none(), "{lock}");
        assert_eq!(report.property("ME1").and_then(|found| found.holds), Some(true));
        assert_eq!(report.property("BOUNDED").and_then(|found| found.holds), Some(false), "{lock}");
        counts.push(report.states);
        let found = refuted(&setup(lock, 2, &[]), &forever(), "ME3");
        assert!(found.circle.is_some_and(|steps| steps > 0), "it is a run without end");
    }
    assert_eq!(counts, [12_458, 2_673, 2_673, 2_673]);
}

/// Interrupts are those of one processor, and who comes next is up to its scheduler.
#[test]
fn book_v_h5_interrupts_end_at_the_processor() {
    refuted(&setup("interrupts", 2, &[("cpus", "2")]), &Options::default(), "ME1");
    refuted(&setup("interrupts", 3, &[("scheduler", "lifo")]), &forever(), "ME3");
}

/// As it is printed, the loop lets nobody in, not even a process alone.
#[test]
fn book_v_h4_the_printed_loop_lets_nobody_in() {
    let printed = Setup { mutant: Some("printed".into()), ..setup("flag", 1, &[]) };
    let found = refuted(&printed, &Options::default(), "PROGRESS");
    assert!(
        found.script.blocks.iter().flat_map(|block| &block.commands).any(|(one, _)| *one == Command::Again)
    );
}

/// Textbooks let a process halt in its remainder: then all is as before. Anywhere else nothing is promised.
#[test]
fn who_halts_in_its_remainder_is_not_missed() {
    let options = Options {
        budgets: Budgets { crashes: 1, ..Budgets::default() },
        entries: AskBudget::Times(2),
        ..Options::default()
    };
    for about in memory::all() {
        let report = search(&setup(about.name, 2, &[]), &options);
        assert!(report.complete && report.counterexample.is_none(), "{}", about.name);
    }
}

#[test]
fn every_mutant_of_a_lock_is_refuted() {
    for about in memory::all() {
        for mutant in about.mutants {
            let broken = Setup { mutant: Some(mutant.name.into()), ..setup(about.name, mutant.nodes, &[]) };
            let found = attempts(mutant).iter().find_map(|options| search(&broken, options).counterexample);
            let found = found.unwrap_or_else(|| panic!("{} {} is not refuted", about.name, mutant.name));
            assert_eq!(found.property, mutant.breaks, "{} {}: {}", about.name, mutant.name, found.detail);
            let played = conclave_sim::play(&found.script).expect("the simulator plays it");
            assert_eq!(played.violation.map(|seen| seen.property), Some(mutant.breaks), "{}", mutant.name);
        }
    }
}
