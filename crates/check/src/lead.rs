//! A search that begins in the middle of a recorded run.
//!
//! The commands that repeat the run are followed one by one, each matched with what may happen in the state at hand. What
//! the run has spent (failures, requests) does not count: where the search begins, all budgets are whole.

use conclave_trace::Command;

use crate::intern::hash_words;
use crate::model::Budgets;
use crate::path::{Start, Walk};
use crate::search::Search;
use crate::space::Root;
use conclave_algorithms::application::{App as _, AskBudget};
use conclave_algorithms::family::Family;

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

impl<F: Family> Search<F> {
    /// The state to which the commands of the model lead; `misled` says why if they do not.
    pub(crate) fn led(&mut self) -> Root {
        let entries = vec![AskBudget::Forever; self.model.n()];
        let entries = core::mem::replace(&mut self.model.entries, entries);
        let budgets = core::mem::replace(&mut self.model.budgets, LAVISH);
        let mortal = vec![true; self.model.n()];
        let mortal = core::mem::replace(&mut self.model.mortal, mortal);
        let (mut start, misled) = self.follow_lead();
        (self.model.entries, self.model.budgets, self.misled) = (entries, budgets, misled);
        self.model.mortal = mortal;
        start.root = self.refilled(&start.root);
        let root = self.normal(&start.root);
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
    fn refilled(&mut self, root: &[u32]) -> Root {
        let n = self.model.n();
        let cells = (0..n).map(|place| {
            let mut cell = self.cell(root, place).clone();
            cell.app.refill(self.model.entries[place]);
            cell
        });
        let cells = cells.collect();
        let mut world = self.tables.worlds.get(root[n]).clone();
        world.budgets = self.model.budgets;
        let mut refilled = self.tables.first(cells, world);
        for (place, old) in root[..n].iter().enumerate() {
            // What is on its way stays on its way.
            let mut node = self.tables.nodes.get(*old).to_vec();
            node[0] = self.tables.nodes.get(refilled[place])[0];
            refilled[place] = self.tables.nodes.intern(hash_words(&node), &node);
        }
        refilled
    }
}

/// Whether a run has a failure detector that may have erred.
pub fn suspects(lead: &[Command]) -> bool {
    lead.iter().any(|command| matches!(command, Command::Suspect { .. }))
}
