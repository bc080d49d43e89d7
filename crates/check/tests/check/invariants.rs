//! An invariant that does not hold is found by a search, with the script that leads there.

#[path = "../../../sim/tests/sim/common/careless.rs"]
mod careless;

use careless::Careless;
use conclave_algorithms::mutex::Of;
use conclave_check::{AskBudget, Options, check_algorithm};
use conclave_trace::{Command, Setup};

#[test]
fn a_search_reports_it_with_its_script() {
    let setup = Setup::numbered("careless", 1);
    for reduce in [false, true] {
        let options = Options {
            entries: AskBudget::Times(2),
            paranoid: true,
            reduce,
            liveness: !reduce,
            ..Options::default()
        };
        let report =
            check_algorithm::<Of<Careless>>(&setup, &options, &mut |_| {}).expect("it can be searched");
        let found = report.counterexample.expect("the second entry breaks it");
        assert_eq!((found.property, found.detail.as_str()), ("INV", "p1: nobody enters more than once"));
        let commands = found.script.blocks.iter().flat_map(|block| &block.commands);
        let asks = commands.filter(|(command, _)| matches!(command, Command::Ask { .. }));
        assert_eq!((found.steps, asks.count()), (3, 3), "enter, leave, enter again\n{}", found.script);
    }
    let once = Options { paranoid: true, ..Options::default() };
    assert!(
        check_algorithm::<Of<Careless>>(&setup, &once, &mut |_| {}).expect("it can be searched").all_held()
    );
}
