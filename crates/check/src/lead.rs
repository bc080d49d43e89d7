//! A search that begins in the middle of a recorded run.
//!
//! The commands that repeat the run are followed one by one, each matched with what may happen in the state at hand. What
//! the run has spent (failures, requests) does not count: where the search begins, all budgets are whole.

use conclave_trace::Command;

use crate::model::Budgets;
use crate::path::{Start, Walk};
use crate::search::Search;
use crate::space::Root;
use conclave_algorithms::application::AskBudget;

/// Budgets that no recorded run exhausts.
const LAVISH: Budgets = Budgets {
    crashes: u8::MAX,
    restarts: u8::MAX,
    amnesia: false,
    drops: u8::MAX,
    duplicates: u8::MAX,
    suspicions: u8::MAX,
    cancels: u8::MAX,
};

impl Search {
    /// The state to which the commands of the model lead; `misled` says why if they do not.
    pub(crate) fn led(&mut self) -> Root {
        let terms = self.space.terms_mut();
        let n = terms.n();
        let entries = core::mem::replace(&mut terms.entries, vec![AskBudget::Forever; n]);
        let budgets = core::mem::replace(&mut terms.budgets, LAVISH);
        let mortal = core::mem::replace(&mut terms.mortal, vec![true; n]);
        let (mut start, misled) = self.follow_lead();
        self.misled = misled;
        let terms = self.space.terms_mut();
        (terms.entries, terms.budgets, terms.mortal) = (entries, budgets, mortal);
        // What was met on the way was not found by the search.
        self.forget_what_was_met();
        start.root = self.space.refilled(&start.root);
        let root = self.normal(&start.root);
        self.start = Some(start);
        root
    }

    fn follow_lead(&mut self) -> (Start, Option<String>) {
        let lead = self.terms().lead.clone();
        let root = self.beginning();
        let mut walk = Walk::at(self, root);
        let misled = lead.iter().find_map(|command| walk.follow(command).err());
        (walk.into_start(), misled)
    }
}

/// Whether a run has a failure detector that may have erred.
pub fn suspects(lead: &[Command]) -> bool {
    lead.iter().any(|command| matches!(command, Command::Suspect { .. }))
}
