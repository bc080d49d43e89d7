//! Level by level through all states.
//!
//! The states of a level are expanded in blocks, each split among the workers. Workers only read the tables; afterwards
//! what they found is taken over in the order of the states that it came from. So numbers, verdicts and counterexamples
//! are the same for any number of workers, and of all ways to break a promise a shortest one is found first.

use std::time::{Duration, Instant};

use hashbrown::HashTable;

use conclave_algorithms::family::MessageOf;
use conclave_core::Incarnation;

use crate::action::{Action, Task};
use crate::graph::{BROKEN, Graph};
use crate::intern::{LOCAL, hash_words, table_bytes};
use crate::model::{CellOf, Heard, Letter, Model};
use crate::path::{RawStep, Start};
use crate::reduce::{Facts, Reduction};
use crate::space::{Broken, Expansion, Root, Tables, Worker, channel};
use crate::subject::Subject;

/// States expanded between two moments at which the tables change.
const BLOCK: usize = 1 << 13;

/// When a search ends although there is more to see.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// At most this many bytes.
    pub memory: usize,
    /// At most this many steps deep.
    pub depth: Option<u32>,
    /// At most this long.
    pub time: Option<Duration>,
    /// At most this many states.
    pub states: Option<usize>,
}

/// Why a search ended before it had seen everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The memory was used up.
    Memory,
    /// It was deep enough.
    Depth,
    /// The time was over.
    Time,
    /// There were enough states.
    States,
}

/// How far a search has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// States found.
    pub states: usize,
    /// Steps taken.
    pub transitions: u64,
    /// States on the present level that are yet to be expanded.
    pub frontier: usize,
    /// The present level.
    pub depth: u32,
    /// Bytes in use.
    pub memory: usize,
    /// Since the beginning.
    pub elapsed: Duration,
}

/// All states found so far, in the order in which they were found.
#[derive(Default)]
pub struct States {
    roots: Vec<Root>,
    table: HashTable<u32>,
    /// From which state each was found first, and by which of its actions.
    parents: Vec<u32>,
    actions: Vec<u16>,
}

const NO_PARENT: u32 = u32::MAX;

#[inline(always)]
fn hash_root((left, right): Root) -> u64 {
    hash_words(&[left, right])
}

impl States {
    pub fn len(&self) -> usize {
        self.roots.len()
    }

    #[inline(always)]
    pub fn root(&self, state: u32) -> Root {
        self.roots[state as usize]
    }

    #[inline(always)]
    pub fn find(&self, root: Root) -> Option<u32> {
        self.table.find(hash_root(root), |state| self.roots[*state as usize] == root).copied()
    }

    /// The number of a state, old or new.
    fn intern(&mut self, root: Root, parent: u32, action: u16) -> u32 {
        if let Some(state) = self.find(root) {
            return state;
        }
        let state = self.roots.len() as u32;
        assert!(state < LOCAL, "two thousand million states are more than fit");
        self.roots.push(root);
        self.parents.push(parent);
        self.actions.push(action);
        let roots = &self.roots;
        self.table.insert_unique(hash_root(root), state, |state| hash_root(roots[*state as usize]));
        state
    }

    /// The way to a state: each state on it, and the number of the action that leads to the next.
    pub fn way_to(&self, state: u32) -> Vec<(u32, u16)> {
        let mut way = Vec::new();
        let mut at = state;
        while self.parents[at as usize] != NO_PARENT {
            let parent = self.parents[at as usize];
            way.push((parent, self.actions[at as usize]));
            at = parent;
        }
        way.reverse();
        way
    }

    fn bytes(&self) -> usize {
        self.roots.capacity() * size_of::<Root>()
            + self.parents.capacity() * size_of::<u32>()
            + self.actions.capacity() * size_of::<u16>()
            + table_bytes(&self.table)
    }
}

/// A promise that is broken, and where.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The state in which it happens.
    pub state: u32,
    /// The number of the action that brings it about; nothing if it is that nothing moves any more.
    pub action: Option<u16>,
    /// What is broken.
    pub broken: Broken,
}

/// A search through all states of a model.
pub struct Search<F: Subject> {
    pub model: Model<F>,
    pub tables: Tables<F>,
    pub states: States,
    workers: Vec<Worker<F>>,
    /// The steps between states, where they are kept.
    pub graph: Option<Graph>,
    pub reduction: Option<Reduction>,
    pub transitions: u64,
    /// The levels that were expanded.
    pub depth: u32,
    pub violation: Option<Violation>,
    pub stopped: Option<Stopped>,
    started: Instant,
    next: usize,
    /// Where the present level ends.
    level_ends: usize,
    /// Where a search begins that was led there.
    pub start: Option<Start>,
    /// Why it could not be led there.
    pub misled: Option<String>,
    first_sends: Vec<(usize, usize, u32, bool)>,
    /// Whether a reduced search has learnt something that it should have known before.
    pub is_surprised: bool,
    /// Steps that break a promise lead nowhere, and the search goes on.
    is_going_on: bool,
}

/// What a worker found in its part of a block.
#[derive(Default)]
struct Part {
    fresh: Vec<Fresh>,
    /// Per transition, if they are kept: the state (or the number in `fresh`), and its task.
    edges: Vec<(u32, Task)>,
    /// Per state, if transitions are kept: how many it has.
    degrees: Vec<u32>,
    transitions: u64,
    stuck: Vec<u32>,
    violation: Option<(u32, Option<u16>, u32)>,
}

/// A state that had not been seen when the block began.
struct Fresh {
    root: Root,
    parent: u32,
    action: u16,
}

impl<F: Subject> Search<F> {
    /// A search that has seen only the beginning: everyone is up and has been started, in order.
    #[must_use]
    pub fn new(model: Model<F>, threads: usize, keeps_graph: bool, reduction: Option<Reduction>) -> Self {
        let n = model.n();
        let mut search = Self {
            tables: Tables::new(n),
            states: States::default(),
            workers: (0..threads.max(1)).map(|_| Worker::new(n)).collect(),
            graph: keeps_graph.then(Graph::default),
            reduction,
            transitions: 0,
            depth: 0,
            violation: None,
            stopped: None,
            started: Instant::now(),
            next: 0,
            level_ends: 0,
            start: None,
            misled: None,
            first_sends: Vec::new(),
            is_surprised: false,
            is_going_on: false,
            model,
        };
        if search.reduction.is_some() {
            search.workers.iter_mut().for_each(|worker| worker.facts = Some(Facts::default()));
        }
        let root = if search.model.lead.is_empty() { search.beginning() } else { search.led() };
        search.states.intern(root, NO_PARENT, 0);
        search
    }

    pub(crate) fn beginning(&mut self) -> Root {
        let n = self.model.n();
        let heard = vec![Heard::FIRST; n];
        let mut root = {
            let cells = (0..n).map(|place| {
                let app = F::app(self.model.entries[place]);
                let mut cell = self.model.boot(place, Incarnation::FIRST, None, app);
                cell.heard.clone_from(&heard);
                cell
            });
            let cells: Vec<_> = cells.collect();
            self.tables.first(cells, self.model.world())
        };
        for place in 0..n {
            let step = self.outside(|worker, tables, model| worker.start(tables, model, root, place as u8));
            root = step.root;
            self.first_sends.extend(step.sends);
        }
        root
    }

    /// Takes one step outside of the search, with the numbers as they are.
    fn outside(&mut self, step: impl FnOnce(&mut Worker<F>, &Tables<F>, &Model<F>) -> Root) -> RawStep {
        let normalise = core::mem::replace(&mut self.model.normalise, false);
        let worker = &mut self.workers[0];
        let root = step(worker, &self.tables, &self.model);
        let numbers = self.tables.absorb(worker, self.model.fifo);
        let sends = worker.sent.drain(..);
        let sends =
            sends.map(|(from, to, message, void)| (from, to, numbers.message(message), void)).collect();
        let root = numbers.root(root);
        self.model.normalise = normalise;
        RawStep { root, normal: self.normal(root), sends }
    }

    /// The same state with its numbers moved down, where the search does so.
    pub(crate) fn normal(&mut self, root: Root) -> Root {
        if !self.model.normalise {
            return root;
        }
        let worker = &mut self.workers[0];
        let normal = worker.normal(&self.tables, &self.model, root);
        self.tables.absorb(worker, self.model.fifo).root(normal)
    }

    /// What may happen in a state.
    pub fn raw_actions(&mut self, root: Root) -> Vec<Action> {
        let worker = &mut self.workers[0];
        worker.visit(&self.tables, &self.model, root);
        worker.actions().to_vec()
    }

    /// Takes a step with the numbers as they are.
    pub fn raw_step(&mut self, root: Root, action: Action) -> RawStep {
        self.outside(|worker, tables, model| {
            worker.visit(tables, model, root);
            worker.follow(tables, model, root, action).root
        })
    }

    /// The action of this number in a state of the search, and where it leads.
    pub fn step_of(&mut self, state: u32, nth: u16) -> (Action, Root) {
        let root = self.states.root(state);
        let action = self.raw_actions(root)[usize::from(nth)];
        (action, self.raw_step(root, action).normal)
    }

    /// What is sent before the search begins: from, to, the message, and whether its receiver is down.
    pub fn first_sends(&self) -> Vec<(usize, usize, u32, bool)> {
        self.first_sends.clone()
    }

    /// What was found broken last outside of the search.
    pub fn last_broken(&self) -> Option<&Broken> {
        self.workers[0].broken.last()
    }

    /// The state in which the search begins.
    pub fn first_root(&self) -> Root {
        self.states.root(0)
    }

    /// A process in a state.
    pub fn cell(&self, (left, _): Root, place: usize) -> &CellOf<F> {
        self.tables.cells.get(self.tables.lefts.get(left)[place])
    }

    /// A message.
    pub fn message(&self, id: u32) -> &MessageOf<F> {
        self.tables.messages.get(id)
    }

    /// The messages on their way between two processes.
    pub fn letters(&self, (_, right): Root, from: usize, to: usize) -> &[Letter] {
        let content = self.tables.rights.get(right)[channel(self.model.n(), from, to)];
        self.tables.channels.get(content)
    }

    /// Goes on until everything has been seen, a promise is broken or a limit is reached.
    pub fn run(&mut self, limits: &Limits, watch: &mut dyn FnMut(&Progress)) {
        while self.next < self.states.len() {
            if limits.depth.is_some_and(|depth| self.depth >= depth) {
                self.stopped = Some(Stopped::Depth);
                return;
            }
            // A search that was stopped goes on where it was, perhaps in the middle of a level.
            if self.next == self.level_ends {
                self.level_ends = self.states.len();
            }
            while self.next < self.level_ends {
                let end = (self.next + BLOCK).min(self.level_ends);
                self.block(end);
                self.next = end;
                watch(&self.progress(self.level_ends - end));
                if (self.violation.is_some() && !self.is_going_on) || self.is_surprised {
                    return;
                }
                self.depth += u32::from(self.next == self.level_ends);
                self.stopped = self.over(limits);
                if self.stopped.is_some() && self.next < self.states.len() {
                    return;
                }
                self.stopped = None;
            }
        }
    }

    /// From which states a promise is broken whatever happens, if there are not too many states to tell. Up to the
    /// breaking, they have the same numbers as here.
    pub fn doomed(&self, most: usize) -> Option<Vec<bool>> {
        let mut again = Self::new(self.model.clone(), self.workers.len(), true, None);
        again.is_going_on = true;
        let limits = Limits { memory: usize::MAX, depth: None, time: None, states: Some(most) };
        again.run(&limits, &mut |_| {});
        again.graph.filter(|_| again.stopped.is_none()).map(|graph| graph.doomed())
    }

    /// How many states have been expanded.
    pub fn expanded(&self) -> usize {
        self.next
    }

    fn over(&self, limits: &Limits) -> Option<Stopped> {
        if self.bytes() + self.growth() > limits.memory {
            Some(Stopped::Memory)
        } else if limits.time.is_some_and(|time| self.started.elapsed() > time) {
            Some(Stopped::Time)
        } else if limits.states.is_some_and(|states| self.states.len() >= states) {
            Some(Stopped::States)
        } else {
            None
        }
    }

    fn progress(&self, frontier: usize) -> Progress {
        Progress {
            states: self.states.len(),
            transitions: self.transitions,
            frontier,
            depth: self.depth,
            memory: self.bytes(),
            elapsed: self.started.elapsed(),
        }
    }

    /// Bytes in use.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let workers: usize = self.workers.iter().map(Worker::bytes).sum();
        let graph = self.graph.as_ref().map_or(0, Graph::bytes);
        self.tables.bytes() + self.states.bytes() + graph + workers
    }

    /// Bytes that the next table to grow may take on top, while it is copied.
    fn growth(&self) -> usize {
        let graph = self.graph.as_ref().map_or(0, Graph::bytes);
        2 * self.states.bytes().max(self.tables.bytes()).max(graph)
    }

    /// Expands the states from `next` up to here.
    fn block(&mut self, end: usize) {
        let (start, threads) = (self.next, self.workers.len());
        let each = (end - start).div_ceil(threads);
        let shared = Shared {
            model: &self.model,
            tables: &self.tables,
            states: &self.states,
            keeps_edges: self.graph.is_some(),
            reduction: self.reduction.as_ref(),
            is_going_on: self.is_going_on,
        };
        let range =
            |nth: usize| (start + nth * each).min(end) as u32..(start + (nth + 1) * each).min(end) as u32;
        let parts: Vec<Part> = if threads == 1 {
            vec![shared.work(&mut self.workers[0], range(0))]
        } else {
            std::thread::scope(|scope| {
                let shared = &shared;
                let spawned: Vec<_> = (0..)
                    .zip(&mut self.workers)
                    .map(|(nth, worker)| scope.spawn(move || shared.work(worker, range(nth))))
                    .collect();
                let joined = spawned.into_iter().map(|thread| thread.join());
                joined.map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
            })
        };
        for (nth, part) in parts.into_iter().enumerate() {
            self.merge(nth, part);
        }
    }

    fn merge(&mut self, nth: usize, part: Part) {
        let worker = &mut self.workers[nth];
        let numbers = self.tables.absorb(worker, self.model.fifo);
        self.transitions += part.transitions;
        let fresh: Vec<u32> = {
            let states = &mut self.states;
            part.fresh
                .into_iter()
                .map(|Fresh { root, parent, action }| states.intern(numbers.root(root), parent, action))
                .collect()
        };
        if let (Some(reduction), Some(facts)) = (&mut self.reduction, &worker.facts) {
            self.is_surprised |= reduction.facts.learn(facts);
        }
        if let Some(graph) = &mut self.graph {
            for state in part.stuck {
                graph.add_stuck(state);
            }
            let mut edges = part.edges.into_iter();
            for degree in part.degrees {
                graph.add(edges.by_ref().take(degree as usize).map(|(to, task)| {
                    let to = if to & LOCAL == 0 || to == BROKEN { to } else { fresh[(to & !LOCAL) as usize] };
                    (to, numbers.task(task))
                }));
            }
        }
        if let Some((state, action, broken)) = part.violation.filter(|_| self.violation.is_none()) {
            let broken = worker.broken[broken as usize - 1].clone();
            self.violation = Some(Violation { state, action, broken });
        }
    }

    /// The most entries by others that a known request had to see.
    #[must_use]
    pub fn overtaking(&self) -> u64 {
        self.workers.iter().map(|worker| worker.overtaking).max().unwrap_or(0)
    }

    /// What is not promised and was seen broken.
    #[must_use]
    pub fn unpromised(&self) -> std::collections::BTreeSet<&'static str> {
        self.workers.iter().flat_map(|worker| worker.unpromised.keys().copied()).collect()
    }

    /// Whether the application of a process waits for its turn in a state.
    #[must_use]
    pub fn is_waiting(&self, state: u32, place: usize) -> bool {
        let (left, _) = self.states.root(state);
        self.tables.metas[self.tables.lefts.get(left)[place] as usize].is_waiting
    }
}

/// What workers share while they work.
struct Shared<'a, F: Subject> {
    model: &'a Model<F>,
    tables: &'a Tables<F>,
    states: &'a States,
    keeps_edges: bool,
    reduction: Option<&'a Reduction>,
    is_going_on: bool,
}

impl<F: Subject> Shared<'_, F> {
    fn work(&self, worker: &mut Worker<F>, range: core::ops::Range<u32>) -> Part {
        let mut part = Part::default();
        let mut expansion = Expansion::default();
        for state in range {
            let root = self.states.root(state);
            match self.reduction {
                Some(reduction) => {
                    reduction.expand(worker, self.tables, self.model, self.states, root, &mut expansion);
                }
                None => worker.expand(self.tables, self.model, root, &mut expansion),
            }
            if expansion.stuck > 0 {
                part.stuck.push(state);
                part.violation = part.violation.or(Some((state, None, expansion.stuck)));
            }
            part.transitions += expansion.transitions.len() as u64;
            for (nth, found) in &expansion.transitions {
                if found.broken > 0 {
                    part.violation = part.violation.or(Some((state, Some(*nth), found.broken)));
                    if self.is_going_on {
                        part.edges.push((BROKEN, found.task));
                        continue;
                    }
                }
                let known = ((found.root.0 | found.root.1) & LOCAL == 0)
                    .then(|| self.states.find(found.root))
                    .flatten();
                if known.is_none() {
                    part.fresh.push(Fresh { root: found.root, parent: state, action: *nth });
                }
                if self.keeps_edges {
                    let to = known.unwrap_or(LOCAL | (part.fresh.len() as u32).saturating_sub(1));
                    part.edges.push((to, found.task));
                }
            }
            if self.keeps_edges {
                part.degrees.push(expansion.transitions.len() as u32);
            }
        }
        part
    }
}
