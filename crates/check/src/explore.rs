//! The state space behind numbers: where the types of the algorithm end.
//!
//! A search handles states as numbers and never looks at a process or a message. It reaches the typed tables and workers
//! through these two traits, a few calls per state, so that it is compiled once and not once per algorithm. What happens per
//! step stays inside [`Worker`].

use core::any::Any;
use core::hash::BuildHasher;

use conclave_algorithms::application::App as _;
use conclave_algorithms::family::{Endless, EventOf, Family, timer_word};
use conclave_algorithms::{Ledger, Sight};
use conclave_core::{Incarnation, Message as _};

use crate::action::Action;
use crate::effect::Outcome;
use crate::intern::{Fixed, Interner, Memo, hash_words};
use crate::model::{Budgets, CellOf, Heard, Letter, Model, Said, Terms, asks};
use crate::space::{Cause, Expansion, Found, Meta, Renumbered, Root, Tables, Transition, Worker};

/// An algorithm, and everything that the states found so far are made of.
pub trait Space: Any + Send + Sync {
    /// What is searched, but for the algorithm.
    fn terms(&self) -> &Terms;
    /// The same, to be changed outside of the search.
    fn terms_mut(&mut self) -> &mut Terms;
    /// The same algorithm under the same terms; nothing has been seen.
    fn afresh(&self) -> Box<dyn Space>;
    /// Somebody who expands states.
    fn explorer(&self) -> Box<dyn Explorer>;
    /// Whether its properties look at the states of processes, and not only at what they ask and say.
    fn looks_at_states(&self) -> bool;
    /// What is promised of runs without end.
    fn endless(&self) -> Endless;
    /// The situations that a search should meet.
    fn sights(&self) -> &'static [Sight];
    /// Whether a property is not looked for.
    fn leaves_out(&self, property: &str) -> bool;
    /// The state in which nobody has been started.
    fn unstarted(&mut self) -> Root;
    /// The same state with whole budgets.
    fn refilled(&mut self, root: &[u32]) -> Root;
    /// Takes over what an explorer has met for the first time.
    fn absorb(&mut self, explorer: &mut dyn Explorer) -> Renumbered;
    /// What is asked of a process again and again.
    fn meta(&self, root: &[u32], place: usize) -> &Meta;
    /// Whether nothing is promised any more of a run without end.
    fn is_excused(&self, root: &[u32]) -> bool;
    /// The number of the cell of a process.
    fn cell_of(&self, root: &[u32], place: usize) -> u32;
    /// What is asked of a cell again and again.
    fn meta_of(&self, cell: u32) -> &Meta;
    /// The number of what a process in this cell does with an input, worked out once.
    fn outcome(&mut self, scout: &mut dyn Explorer, cell: u32, place: u8, cause: Cause) -> u32;
    /// What a process does with an input.
    fn outcome_at(&self, outcome: u32) -> &Outcome;
    /// The messages in flight between two processes.
    fn letters(&self, root: &[u32], from: usize, to: usize) -> &[Letter];
    /// Whether more messages than this are in flight between two processes.
    fn is_crowded(&self, root: &[u32], most: usize) -> bool;
    /// The kind of a message.
    fn kind(&self, message: u32) -> &'static str;
    /// What the application of a process may ask, in words, and for which lock.
    fn request(&self, root: &[u32], place: usize, nth: usize) -> (String, usize);
    /// The name of an armed timer.
    fn timer(&self, root: &[u32], place: usize, nth: usize) -> String;
    /// Bytes in use.
    fn bytes(&self) -> usize;
}

/// Expands states of a space.
pub trait Explorer: Any + Send {
    /// What it has found.
    fn found(&self) -> &Found;
    /// The same, to be taken.
    fn found_mut(&mut self) -> &mut Found;
    /// Goes to a state and lists what may happen there.
    fn visit(&mut self, space: &dyn Space, root: &[u32]);
    /// What may happen in the present state.
    fn actions(&self) -> &[Action];
    /// Everything that may happen in a state, and what comes of it.
    fn expand(&mut self, space: &dyn Space, root: &[u32], out: &mut Expansion);
    /// Only one of the things that may happen in a state.
    fn only(&mut self, space: &dyn Space, root: &[u32], nth: u16, out: &mut Expansion);
    /// Only what may happen at one process; see [`Worker::try_only`].
    fn try_only(
        &mut self,
        space: &dyn Space,
        place: usize,
        is_new: &dyn Fn(&[u32]) -> bool,
        out: &mut Expansion,
    ) -> bool;
    /// What comes of an action in the present state.
    fn follow(&mut self, space: &dyn Space, action: Action) -> Transition;
    /// Where the last action led.
    fn next(&self) -> &[u32];
    /// A process handles its start. Returns the number of what that breaks; 0 if nothing.
    fn start(&mut self, space: &dyn Space, root: &[u32], place: u8) -> u32;
    /// The same state with its numbers moved down.
    fn normal(&mut self, space: &dyn Space, root: &[u32]);
    /// What may still go wrong in the present state.
    fn budgets(&self, space: &dyn Space) -> Budgets;
    /// What the application of a process is doing in the present state, roughly.
    fn phase(&self, space: &dyn Space, place: usize) -> u8;
    /// Bytes of what is remembered.
    fn bytes(&self) -> usize;
}

/// The space of an algorithm.
pub struct Typed<F: Family> {
    model: Model<F>,
    tables: Tables<F>,
    outcomes: Vec<Outcome>,
    worked_out: Memo<(u32, u8, Cause), u32>,
    said: Interner<Box<[Said<EventOf<F>>]>>,
}

impl<F: Family> Typed<F> {
    /// Nothing has been seen.
    pub fn new(model: Model<F>) -> Self {
        Self {
            tables: Tables::new(model.n()),
            model,
            outcomes: Vec::new(),
            worked_out: Memo::default(),
            said: Interner::default(),
        }
    }

    fn cell(&self, root: &[u32], place: usize) -> &CellOf<F> {
        self.tables.cells.get(self.tables.nodes.get(root[place])[0])
    }
}

impl<F: Family> Space for Typed<F> {
    fn terms(&self) -> &Terms {
        &self.model.terms
    }

    fn terms_mut(&mut self) -> &mut Terms {
        &mut self.model.terms
    }

    fn afresh(&self) -> Box<dyn Space> {
        Box::new(Self::new(self.model.clone()))
    }

    fn explorer(&self) -> Box<dyn Explorer> {
        Box::new(Worker::<F>::new(self.model.n()))
    }

    fn looks_at_states(&self) -> bool {
        F::LOOKS_AT_STATES
    }

    fn endless(&self) -> Endless {
        F::endless(&self.model.config)
    }

    fn sights(&self) -> &'static [Sight] {
        self.model.ledger.sights()
    }

    fn leaves_out(&self, property: &str) -> bool {
        self.model.ledger.leaves_out(property)
    }

    fn unstarted(&mut self) -> Root {
        let n = self.model.n();
        let heard = vec![Heard::FIRST; n];
        let cells = (0..n).map(|place| {
            let (process, budget) = (self.model.members.at(place), self.model.entries[place]);
            let app = F::app(&self.model.config, process, budget);
            let mut cell = self.model.boot(place, Incarnation::FIRST, None, app);
            cell.heard.clone_from(&heard);
            cell
        });
        let cells: Vec<_> = cells.collect();
        self.tables.first(cells, self.model.world())
    }

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
            // What is in flight stays in flight.
            let mut node = self.tables.nodes.get(*old).to_vec();
            node[0] = self.tables.nodes.get(refilled[place])[0];
            refilled[place] = self.tables.nodes.intern(hash_words(&node), &node);
        }
        refilled
    }

    fn absorb(&mut self, explorer: &mut dyn Explorer) -> Renumbered {
        let explorer: &mut dyn Any = explorer;
        let worker: &mut Worker<F> = explorer.downcast_mut().expect(AT_HOME);
        self.tables.absorb(worker, self.model.fifo)
    }

    fn meta(&self, root: &[u32], place: usize) -> &Meta {
        &self.tables.metas[self.tables.nodes.get(root[place])[0] as usize]
    }

    fn is_excused(&self, root: &[u32]) -> bool {
        self.tables.worlds.get(root[self.model.n()]).ledger.excuses()
    }

    fn cell_of(&self, root: &[u32], place: usize) -> u32 {
        self.tables.nodes.get(root[place])[0]
    }

    fn meta_of(&self, cell: u32) -> &Meta {
        &self.tables.metas[cell as usize]
    }

    fn outcome(&mut self, scout: &mut dyn Explorer, cell: u32, place: u8, cause: Cause) -> u32 {
        let key = (cell, place, cause);
        if let Some(known) = self.worked_out.get(&key) {
            return *known;
        }
        let scout: &mut dyn Any = scout;
        let scout: &mut Worker<F> = scout.downcast_mut().expect(AT_HOME);
        let (outcome, said) = scout.outcome(&mut self.tables, &self.model, key);
        let said = self.said.intern(Fixed.hash_one(&said), said).0;
        let id = self.outcomes.len() as u32;
        self.outcomes.push(Outcome { said, ..outcome });
        self.worked_out.insert(key, id);
        id
    }

    fn outcome_at(&self, outcome: u32) -> &Outcome {
        &self.outcomes[outcome as usize]
    }

    fn letters(&self, root: &[u32], from: usize, to: usize) -> &[Letter] {
        let node = self.tables.nodes.get(root[to]);
        self.tables.channels.get(node[1 + from - usize::from(from > to)])
    }

    fn is_crowded(&self, root: &[u32], most: usize) -> bool {
        let channels = |node: &u32| &self.tables.nodes.get(*node)[1..];
        let mut channels = root[..self.model.n()].iter().flat_map(channels);
        channels.any(|channel| self.tables.channels.get(*channel).len() > most)
    }

    fn kind(&self, message: u32) -> &'static str {
        self.tables.messages.get(message).kind()
    }

    fn request(&self, root: &[u32], place: usize, nth: usize) -> (String, usize) {
        F::show(&asks::<F>(self.cell(root, place))[nth].request)
    }

    fn timer(&self, root: &[u32], place: usize, nth: usize) -> String {
        timer_word(&self.cell(root, place).timers[nth].timer)
    }

    fn bytes(&self) -> usize {
        self.tables.bytes()
    }
}

/// Why an explorer is of the same type as its space.
const AT_HOME: &str = "an explorer stays in the space that it was made for";

fn typed<F: Family>(space: &dyn Space) -> &Typed<F> {
    let space: &dyn Any = space;
    space.downcast_ref().expect(AT_HOME)
}

impl<F: Family> Explorer for Worker<F> {
    fn found(&self) -> &Found {
        &self.found
    }

    fn found_mut(&mut self) -> &mut Found {
        &mut self.found
    }

    fn visit(&mut self, space: &dyn Space, root: &[u32]) {
        let Typed { tables, model, .. } = typed(space);
        Self::visit(self, tables, model, root);
    }

    fn actions(&self) -> &[Action] {
        Self::actions(self)
    }

    fn expand(&mut self, space: &dyn Space, root: &[u32], out: &mut Expansion) {
        let Typed { tables, model, .. } = typed(space);
        Self::expand(self, tables, model, root, out);
    }

    fn try_only(
        &mut self,
        space: &dyn Space,
        place: usize,
        is_new: &dyn Fn(&[u32]) -> bool,
        out: &mut Expansion,
    ) -> bool {
        let Typed { tables, model, .. } = typed(space);
        Self::try_only(self, tables, model, place, is_new, out)
    }

    fn only(&mut self, space: &dyn Space, root: &[u32], nth: u16, out: &mut Expansion) {
        let Typed { tables, model, .. } = typed(space);
        Self::only(self, tables, model, root, nth, out);
    }

    fn follow(&mut self, space: &dyn Space, action: Action) -> Transition {
        let Typed { tables, model, .. } = typed(space);
        Self::follow(self, tables, model, action)
    }

    fn next(&self) -> &[u32] {
        Self::next(self)
    }

    fn start(&mut self, space: &dyn Space, root: &[u32], place: u8) -> u32 {
        let Typed { tables, model, .. } = typed(space);
        Self::start(self, tables, model, root, place)
    }

    fn normal(&mut self, space: &dyn Space, root: &[u32]) {
        let Typed { tables, model, .. } = typed(space);
        Self::normal(self, tables, model, root);
    }

    fn budgets(&self, space: &dyn Space) -> Budgets {
        let Typed { tables, model, .. } = typed(space);
        Self::budgets(self, tables, model)
    }

    fn phase(&self, space: &dyn Space, place: usize) -> u8 {
        Self::phase(self, &typed(space).tables, place)
    }

    fn bytes(&self) -> usize {
        Self::bytes(self)
    }
}
