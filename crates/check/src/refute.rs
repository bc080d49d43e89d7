//! How mutants are looked for.

use conclave_algorithms::{Mutant, Trigger};
use conclave_core::NodeId;

use crate::check::Options;
use crate::model::Budgets;
use conclave_algorithms::application::AskBudget;

/// The searches that must refute a mutant, the smallest first: with what it takes to see it, and as often as needed.
#[must_use]
pub fn attempts(mutant: &Mutant) -> Vec<Options> {
    let order = mutant.breaks.starts_with("ME4") || mutant.breaks.starts_with("ME5");
    let quiet = Budgets::default();
    let mut clocks = Vec::new();
    let searches: [(AskBudget, Budgets); 2] = match mutant.trigger {
        // No search knows what only time shows.
        Trigger::Time => return Vec::new(),
        Trigger::Clocks => {
            clocks = (1..=mutant.nodes).map(|id| (NodeId(id), i64::from(id) * 20_000_000)).collect();
            [1, 2].map(|times| (AskBudget::Times(times), quiet))
        }
        Trigger::Schedule => [(AskBudget::Times(1), quiet), (AskBudget::Times(2), quiet)],
        Trigger::Crash => [1, 2].map(|times| (AskBudget::Times(times), Budgets { crashes: 1, ..quiet })),
        Trigger::CrashInside => {
            [1, 2].map(|times| (AskBudget::Times(times), Budgets { crashes: 1, ..quiet }))
        }
        Trigger::Restart => {
            [1, 2].map(|times| (AskBudget::Times(times), Budgets { crashes: 1, restarts: 1, ..quiet }))
        }
        Trigger::Suspicion => [1, 2].map(|suspicions| (AskBudget::Times(1), Budgets { suspicions, ..quiet })),
        Trigger::Forever => [(AskBudget::Forever, quiet), (AskBudget::Forever, quiet)],
    };
    // A crash between two steps is enough for most of them, and there are fewer of these.
    let atomic_steps = mutant.trigger != Trigger::CrashInside;
    let options = |(entries, budgets)| {
        let clocks = clocks.clone();
        Options { entries, budgets, order, clocks, atomic_steps, ..Options::default() }
    };
    let mut attempts = searches.map(options).to_vec();
    // For some a process has to crash half-way through what it sends.
    if mutant.trigger == Trigger::Crash {
        attempts.push(Options { atomic_steps: false, ..attempts[0].clone() });
    }
    attempts
}
