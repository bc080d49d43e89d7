//! A search that begins in the middle of a recorded run.
//!
//! The commands that repeat the run are followed one by one, each matched with what may happen in the state at hand. What
//! the run has spent (failures, requests) does not count: where the search begins, all budgets are whole.

use conclave_trace::Command;

use crate::model::Budgets;
use crate::path::{Start, Walk};
use crate::search::Search;
use crate::space::Root;
use crate::subject::{Entries, Subject};

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

impl<F: Subject> Search<F> {
    /// The state to which the commands of the model lead; `misled` says why if they do not.
    pub(crate) fn led(&mut self) -> Root {
        let entries = vec![Entries::Forever; self.model.n()];
        let entries = core::mem::replace(&mut self.model.entries, entries);
        let budgets = core::mem::replace(&mut self.model.budgets, LAVISH);
        let (mut start, misled) = self.follow_lead();
        (self.model.entries, self.model.budgets, self.misled) = (entries, budgets, misled);
        start.root = self.refilled(start.root);
        let root = self.normal(start.root);
        self.start = Some(start);
        root
    }

    fn follow_lead(&mut self) -> (Start, Option<String>) {
        let lead = self.model.lead.clone();
        let root = self.beginning();
        let mut walk = Walk::at(self, root);
        let misled = lead.iter().find_map(|command| walk.follow(command).err());
        (walk.into_start(), misled)
    }

    /// The same state with whole budgets.
    fn refilled(&mut self, (left, right): Root) -> Root {
        let n = self.model.n();
        let ids = self.tables.lefts.get(left).to_vec();
        let cells = ids[..n].iter().zip(&self.model.entries).map(|(id, entries)| {
            let mut cell = self.tables.cells.get(*id).clone();
            F::refill(&mut cell.app, *entries);
            cell
        });
        let cells = cells.collect();
        let mut world = self.tables.worlds.get(ids[n]).clone();
        world.budgets = self.model.budgets;
        (self.tables.first(cells, world).0, right)
    }
}

/// Whether a run has a failure detector that may have erred.
pub fn suspects(lead: &[Command]) -> bool {
    lead.iter().any(|command| matches!(command, Command::Suspect { .. }))
}
