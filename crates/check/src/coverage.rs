//! What a search has met, and what it should have met and never did.
//!
//! That nothing is broken says little if nothing could break: with two processes of which one crashes, nobody is left to
//! compete with. The ledgers name the [situations](Sight) that count, and a search notes which of them it met after which
//! failures.

use conclave_algorithms::Sight;

use crate::model::Budgets;
use crate::report::Coverage;

/// What may have happened, in the order of [`happened`].
const AFTER: [&str; 7] = [
    "",
    "after a crash",
    "after a restart",
    "after a wrong suspicion",
    "after a lost message",
    "after a doubled message",
    "after a request was given up",
];

/// Of each of [`AFTER`]: whether it is a failure that a group may have to recover from.
const IS_FAILURE: [bool; 7] = [false, true, true, true, false, false, false];

/// The situations that were met, a bit each, by what had happened before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Met([u16; AFTER.len()]);

/// What has happened when so much of the budgets is left.
fn happened(whole: &Budgets, left: &Budgets) -> [bool; AFTER.len()] {
    [
        true,
        left.crashes < whole.crashes,
        left.restarts < whole.restarts,
        left.suspicions < whole.suspicions,
        left.drops < whole.drops,
        left.duplicates < whole.duplicates,
        left.cancels < whole.cancels,
    ]
}

impl Met {
    /// These situations hold, with so much of the budgets left.
    pub fn note(&mut self, whole: &Budgets, left: &Budgets, sights: u16) {
        for (met, has_happened) in self.0.iter_mut().zip(happened(whole, left)) {
            *met |= if has_happened { sights } else { 0 };
        }
    }

    /// What either has met.
    pub fn with(mut self, other: &Self) -> Self {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine |= theirs;
        }
        self
    }

    /// Each situation that a search with these budgets should meet, and whether it did.
    pub fn coverage(&self, sights: &'static [Sight], whole: &Budgets) -> Vec<Coverage> {
        let possible = happened(whole, &Budgets::default());
        let mut rows = Vec::new();
        for (after, (met, is_possible)) in self.0.iter().zip(possible).enumerate() {
            let is_due = |sight: &Sight| is_possible && (IS_FAILURE[after] || !sight.after_failures);
            let due = sights.iter().enumerate().filter(|(_, sight)| is_due(sight));
            rows.extend(due.map(|(bit, sight)| Coverage {
                situation: sight.what,
                after: AFTER[after],
                met: met >> bit & 1 == 1,
            }));
        }
        rows
    }
}
