//! How broken twins are looked for.

use conclave_algorithms::{Mutant, Trigger};

use crate::check::Options;
use crate::model::Budgets;
use crate::subject::Entries;

/// The searches that must refute a broken twin, the smallest first: with what it takes to see it, and as often as needed.
#[must_use]
pub fn attempts(mutant: &Mutant) -> Vec<Options> {
    let budgets = match mutant.trigger {
        Trigger::Schedule | Trigger::Forever => Budgets::default(),
        Trigger::Crash => Budgets { crashes: 1, ..Budgets::default() },
        Trigger::Suspicion => Budgets { suspicions: 1, ..Budgets::default() },
    };
    let order = mutant.breaks.starts_with("ME4") || mutant.breaks.starts_with("ME5");
    let entries: &[Entries] = match mutant.trigger {
        Trigger::Forever => &[Entries::Forever],
        Trigger::Schedule | Trigger::Crash | Trigger::Suspicion => &[Entries::Times(1), Entries::Times(2)],
    };
    entries
        .iter()
        .map(|entries| Options { entries: *entries, budgets, order, ..Options::default() })
        .collect()
}
