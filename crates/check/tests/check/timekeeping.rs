//! Physical clocks and the order of events in a search: clocks stand still there, right or wrong.

use conclave_algorithms::{Mutant, clock, events};
use conclave_check::{Options, attempts, check};
use conclave_core::NodeId;
use conclave_sim::play;
use conclave_trace::Setup;

fn setup(algorithm: &str, n: u32) -> Setup {
    let mut setup = Setup::numbered(algorithm, n);
    // One exchange shows what several do.
    let once = match algorithm {
        "cristian" => [("samples", "1"), ("retries", "0")].as_slice(),
        "ntp" => &[("polls", "1")],
        _ => &[],
    };
    setup.settings = once.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    setup
}

fn wrong_clocks(n: u32) -> Vec<(NodeId, i64)> {
    (1..=n).map(|id| (NodeId(id), i64::from(id) * 20_000_000)).collect()
}

#[test]
fn clocks_and_stamps_are_right_in_every_order() {
    for (algorithm, n, clocks) in [
        ("cristian", 3, true),
        ("cristian", 2, false),
        ("berkeley", 2, true),
        ("ntp", 2, false),
        ("events", 3, false),
    ] {
        let clocks = if clocks { wrong_clocks(n) } else { Vec::new() };
        let options = Options { clocks, ..Options::default() };
        let report = check(&setup(algorithm, n), &options, &mut |_| {}).expect("it can be searched");
        assert!(report.complete && report.all_held(), "{algorithm}: {report:?}");
        println!("{algorithm} n = {n}: {} states", report.states);
    }
}

/// What only time shows is for the simulator.
#[test]
fn every_mutant_that_a_search_can_see_is_refuted() {
    let mut refuted = 0;
    for about in clock::all().into_iter().chain(events::all()) {
        for mutant @ Mutant { name, breaks, nodes, .. } in about.mutants {
            let setup = Setup { mutant: Some((*name).into()), ..setup(about.name, *nodes) };
            let attempts = attempts(mutant);
            let search =
                |options| check(&setup, options, &mut |_| {}).expect("it can be searched").counterexample;
            let found = attempts.iter().find_map(search);
            let Some(found) = found else {
                assert!(attempts.is_empty(), "{} {name} is not refuted", about.name);
                continue;
            };
            assert_eq!(found.property, *breaks, "{} {name}", about.name);
            let played = play(&found.script).expect("it can be played");
            assert_eq!(played.violation.map(|it| it.property), Some(*breaks), "{}", found.script);
            refuted += 1;
        }
    }
    assert_eq!(refuted, 8, "of eleven, three are about time");
}
