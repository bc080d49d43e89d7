//! Known broken variants that a checker must catch, or it is wrong. Those that are broken twins stand in `mutants.rs`.

use conclave_check::{Counterexample, Options, check};
use conclave_trace::Setup;

fn refuted(setup: &Setup, options: &Options) -> Counterexample {
    let found = check(setup, options, &mut |_| {}).expect("it can be searched").counterexample;
    let found = found.expect("it is refuted");
    let played = conclave_sim::play(&found.script).expect("the simulator plays it");
    let seen = played.violation.expect("the simulator sees it, too");
    assert_eq!(seen.property, found.property);
    found
}

#[test]
fn book_tv_l2_lamport_needs_channels_that_keep_their_order() {
    let setup = Setup { channels: Some("any".into()), ..Setup::numbered("lamport", 2) };
    assert_eq!(refuted(&setup, &Options::default()).property, "ME1");
}

#[test]
fn book_tv_d1_the_literal_majority_lets_two_in() {
    let mut setup = Setup::numbered("majority", 4);
    setup.settings.insert("mode".into(), "literal".into());
    let options = Options { liveness: false, ..Options::default() };
    assert_eq!(refuted(&setup, &options).property, "ME1");
}
