//! Clocks in a search: they stand still, ahead or behind, and a counterexample sets them.

#[path = "../../../sim/tests/sim/common/teller.rs"]
mod teller;

use conclave_check::{Options, check_algorithm};
use conclave_core::NodeId;
use conclave_sim::play_algorithm;
use conclave_trace::Setup;
use teller::Of;

#[test]
fn a_counterexample_sets_the_clocks_of_its_search() {
    let setup = Setup::numbered("teller", 2);
    let right = check_algorithm::<Of>(&setup, &Options::default(), &mut |_| {}).unwrap();
    assert!(right.complete && right.all_held(), "{right:?}");
    let behind = Options { clocks: vec![(NodeId(2), -20_000_000)], ..Options::default() };
    let found = check_algorithm::<Of>(&setup, &behind, &mut |_| {}).unwrap().counterexample.unwrap();
    assert_eq!(found.property, "T1");
    assert!(found.script.to_string().contains("\nclock 2 -20ms\n"), "{}", found.script);
    let played = play_algorithm::<Of>(&found.script).unwrap();
    assert_eq!(played.violation.unwrap().property, "T1");
}
