//! How broken twins are looked for.

use conclave_algorithms::{Mutant, Trigger};

use crate::check::Options;
use crate::model::Budgets;
use crate::subject::Entries;

/// The searches that must refute a broken twin, the smallest first: with what it takes to see it, and as often as needed.
#[must_use]
pub fn attempts(mutant: &Mutant) -> Vec<Options> {
    let order = mutant.breaks.starts_with("ME4") || mutant.breaks.starts_with("ME5");
    let quiet = Budgets::default();
    let searches: [(Entries, Budgets); 2] = match mutant.trigger {
        Trigger::Schedule => [(Entries::Times(1), quiet), (Entries::Times(2), quiet)],
        Trigger::Crash => [1, 2].map(|times| (Entries::Times(times), Budgets { crashes: 1, ..quiet })),
        Trigger::Suspicion => [1, 2].map(|suspicions| (Entries::Times(1), Budgets { suspicions, ..quiet })),
        Trigger::Forever => [(Entries::Forever, quiet), (Entries::Forever, quiet)],
    };
    let options = |(entries, budgets)| Options { entries, budgets, order, ..Options::default() };
    searches.map(options).to_vec()
}
