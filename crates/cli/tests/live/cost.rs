//! What a live run cost, held against the formula of its algorithm, as the simulator does with its own runs.

use std::collections::BTreeMap;

use conclave_algorithms::demand::{Demand, Load};
use conclave_algorithms::family::{Family, Meter as _, Prepared, Registered, Use, Wanted};
use conclave_algorithms::measure::Ran;
use conclave_algorithms::registry::{self, Visitor};
use conclave_algorithms::{Arena, Formula};
use conclave_core::NodeId;
use conclave_sim::stage::Stage;
use conclave_trace::{Trace, What, commands_of};

/// The algorithm's own messages.
pub fn messages(trace: &Trace) -> u64 {
    let own = |what: &What| matches!(what, What::Send(message) if !message.overhead);
    trace.records.iter().filter(|record| own(&record.what)).count() as u64
}

/// What the literature says that this run has cost.
pub fn formula(trace: &Trace) -> Formula {
    let header = &trace.header;
    let wanted = Wanted {
        locks: header.locks,
        demand: Demand { load: Load::Open, ..Demand::default() },
        ..Wanted::new(&header.nodes, &header.settings)
    };
    prepare(&header.algorithm, wanted, Reckon(trace))
}

/// Whether the algorithm sends messages for ever, if it is left as it is.
pub fn is_restless(algorithm: &str, n: u32) -> bool {
    let nodes: Vec<_> = (1..=n).map(NodeId).collect();
    prepare(algorithm, Wanted::new(&nodes, &BTreeMap::new()), Restless)
}

/// Prepares an algorithm as a live process does.
fn prepare<U: Use>(algorithm: &str, wanted: Wanted<'_>, user: U) -> U::Output {
    struct Live<'a, U>(Wanted<'a>, U);
    impl<U: Use> Visitor for Live<'_, U> {
        type Output = U::Output;

        fn visit<R: Registered>(mut self) -> U::Output {
            R::prepare(&mut self.0, self.1).expect("it ran so")
        }
    }
    let live = Wanted { arena: Arena::Live, failures: true, ..wanted };
    registry::visit(algorithm, Live(live, user)).expect("a known algorithm")
}

struct Reckon<'a>(&'a Trace);

impl Use for Reckon<'_> {
    type Output = Formula;
    const SEVERAL: bool = true;
    const BARE: bool = false;

    /// Who waited and who had all at hand is for judge and meter to say, who watch the run once more.
    fn with<F: Family>(self, mut prepared: Prepared<F>) -> Formula {
        prepared.restless = false;
        let mut stage = Stage::<F, Option<F::Meter>>::new(&prepared, None);
        *stage.observer() = Some(prepared.meter);
        for command in commands_of(self.0) {
            stage.apply(&command).expect("what happened can happen");
        }
        let ran = Ran {
            members: &prepared.members,
            messages: messages(self.0),
            duplicated: 0,
            time: 0,
            mean_delay: None,
            faulty: false,
        };
        let judge = stage.judge().clone();
        stage.observer().as_ref().expect("it was put there").measured(&judge, &ran).formula
    }
}

struct Restless;

impl Use for Restless {
    type Output = bool;
    const SEVERAL: bool = true;
    const BARE: bool = false;

    fn with<F: Family>(self, prepared: Prepared<F>) -> bool {
        prepared.restless
    }
}
