//! Level by level through all states.
//!
//! The states of a level are expanded in blocks, each split among the workers. Workers only read the tables; afterwards
//! what they found is taken over in the order of the states that it came from. So numbers, verdicts and counterexamples
//! are the same for any number of workers, and of all ways to break a promise a shortest one is found first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::action::{Action, Task};
use crate::alone::{ALL, Alone};
use crate::coverage::Met;
use crate::explore::{Explorer, Space};
use crate::future::Arrival;
use crate::graph::{BROKEN, Graph};
use crate::intern::{LOCAL, Row, Tuples, hash_words};
use crate::model::Terms;
use crate::path::{RawStep, Start};
use crate::reduce::{Facts, Reduction};
use crate::space::{Broken, Expansion, Root};

/// States expanded between two moments at which the tables change.
const BLOCK: usize = 1 << 13;

/// When a search ends although there is more to see.
#[derive(Clone, Debug)]
pub struct Limits {
    /// At most this many bytes.
    pub memory: usize,
    /// At most this many steps deep.
    pub depth: Option<u32>,
    /// At most this long.
    pub time: Option<Duration>,
    /// At most this many states.
    pub states: Option<usize>,
    /// At most this many messages in flight from one process to another: states with more are not followed.
    pub in_flight: Option<usize>,
    /// Until somebody sets this.
    pub interrupt: Option<Arc<AtomicBool>>,
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
    /// Between some processes there were more messages than should be followed.
    Crowded,
    /// Somebody wanted it to end.
    Interrupted,
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
pub struct States {
    roots: Tuples,
    /// From which state each was found first, and by which of its actions.
    parents: Row<u32>,
    actions: Row<u16>,
}

const NO_PARENT: u32 = u32::MAX;

impl States {
    fn new(n: usize) -> Self {
        Self { roots: Tuples::new(n + 1), parents: Row::default(), actions: Row::default() }
    }

    pub fn len(&self) -> usize {
        self.roots.len()
    }

    #[inline(always)]
    pub fn root(&self, state: u32) -> &[u32] {
        self.roots.get(state)
    }

    #[inline(always)]
    pub fn find(&self, hash: u64, root: &[u32]) -> Option<u32> {
        self.roots.find(hash, root)
    }

    /// The number of a state, old or new.
    fn intern(&mut self, hash: u64, root: &[u32], parent: u32, action: u16) -> u32 {
        let state = self.roots.intern(hash, root);
        if state as usize == self.parents.len() {
            self.parents.push(parent);
            self.actions.push(action);
        }
        state
    }

    /// How many steps lead to the farthest state, on the way on which it was found.
    pub fn farthest(&self) -> u32 {
        let mut steps: Vec<u32> = Vec::with_capacity(self.len());
        for state in 0..self.len() {
            let parent = self.parents.get(state);
            steps.push(if parent == NO_PARENT { 0 } else { steps[parent as usize] + 1 });
        }
        steps.into_iter().max().unwrap_or(0)
    }

    /// The way to a state: each state on it, and the number of the action that leads to the next.
    pub fn way_to(&self, state: u32) -> Vec<(u32, u16)> {
        let mut way = Vec::new();
        let mut at = state;
        while self.parents.get(at as usize) != NO_PARENT {
            let parent = self.parents.get(at as usize);
            way.push((parent, self.actions.get(at as usize)));
            at = parent;
        }
        way.reverse();
        way
    }

    fn bytes(&self) -> usize {
        self.roots.bytes() + self.parents.bytes() + self.actions.bytes()
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
pub struct Search {
    pub space: Box<dyn Space>,
    pub states: States,
    workers: Vec<Box<dyn Explorer>>,
    /// The steps between states, where they are kept.
    pub graph: Option<Graph>,
    pub reduction: Option<Reduction>,
    /// What is followed alone, where that is wanted.
    pub alone: Option<Alone>,
    pub transitions: u64,
    /// The levels that were expanded.
    pub depth: u32,
    pub violation: Option<Violation>,
    pub stopped: Option<Stopped>,
    /// When it began, or the search that it begins again.
    pub started: Instant,
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
    /// Whether there were states with too many messages to follow.
    is_crowded: bool,
}

/// What a worker found in its part of a block.
#[derive(Default)]
struct Part {
    fresh: Vec<Fresh>,
    /// Those states, one after the other.
    roots: Vec<u32>,
    /// Per transition, if they are kept: the state (or the number in `fresh`), and its task.
    edges: Vec<(u32, Task)>,
    /// Per state, if transitions are kept: how many it has.
    degrees: Vec<u32>,
    /// Per transition, if deliveries may be followed alone: the state, as above, and what arrives.
    arrivals: Vec<(u32, Option<Arrival>)>,
    /// Per state, if so: the state, and how many transitions it has.
    expanded: Vec<(u32, u32)>,
    transitions: u64,
    stuck: Vec<u32>,
    violation: Option<(u32, Option<u16>, u32)>,
    is_crowded: bool,
}

/// A state that had not been seen when the block began.
struct Fresh {
    /// Its hash, if it has no numbers that mean nothing to others.
    hash: Option<u64>,
    parent: u32,
    action: u16,
}

impl Search {
    /// A search that has seen only the beginning: everyone is up and has been started, in order.
    #[must_use]
    pub fn new(
        space: Box<dyn Space>,
        threads: usize,
        keeps_graph: bool,
        reduction: Option<Reduction>,
    ) -> Self {
        let n = space.terms().n();
        let mut search = Self {
            states: States::new(n),
            workers: (0..threads.max(1)).map(|_| space.explorer()).collect(),
            graph: keeps_graph.then(Graph::default),
            reduction,
            alone: None,
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
            is_crowded: false,
            space,
        };
        if search.reduction.is_some() {
            search.workers.iter_mut().for_each(|worker| worker.found_mut().facts = Some(Facts::default()));
        }
        let root = if search.terms().lead.is_empty() { search.beginning() } else { search.led() };
        search.states.intern(hash_words(&root), &root, NO_PARENT, 0);
        search
    }

    pub(crate) fn beginning(&mut self) -> Root {
        let mut root = self.space.unstarted();
        for place in 0..self.terms().n() {
            let step = self.outside(|worker, space| worker.start(space, &root, place as u8));
            root = step.root;
            self.first_sends.extend(step.sends);
        }
        root
    }

    /// What is searched, but for the algorithm.
    pub fn terms(&self) -> &Terms {
        self.space.terms()
    }

    /// Takes one step outside of the search, with the numbers as they are.
    fn outside(&mut self, step: impl FnOnce(&mut dyn Explorer, &dyn Space) -> u32) -> RawStep {
        let normalise = core::mem::replace(&mut self.space.terms_mut().normalise, false);
        let worker = &mut *self.workers[0];
        let is_broken = step(worker, &*self.space) > 0;
        let mut root = worker.next().to_vec();
        let numbers = self.space.absorb(worker);
        let found = worker.found_mut();
        let sends = found.sent.drain(..);
        let sends =
            sends.map(|(from, to, message, void)| (from, to, numbers.message(message), void)).collect();
        let lost = found.lost.drain(..);
        let lost = lost.map(|(from, to, message)| (from, to, numbers.message(message))).collect();
        let interrupted = found.interrupted;
        numbers.root(&mut root);
        self.space.terms_mut().normalise = normalise;
        RawStep { normal: self.normal(&root), root, sends, lost, interrupted, is_broken }
    }

    /// The same state with its numbers moved down, where the search does so.
    pub(crate) fn normal(&mut self, root: &[u32]) -> Root {
        if !self.terms().normalise {
            return root.to_vec();
        }
        let worker = &mut *self.workers[0];
        worker.normal(&*self.space, root);
        let mut normal = worker.next().to_vec();
        self.space.absorb(worker).root(&mut normal);
        normal
    }

    /// What may happen in a state.
    pub fn raw_actions(&mut self, root: &[u32]) -> Vec<Action> {
        let worker = &mut self.workers[0];
        worker.visit(&*self.space, root);
        worker.actions().to_vec()
    }

    /// Takes a step with the numbers as they are.
    pub fn raw_step(&mut self, root: &[u32], action: Action) -> RawStep {
        self.outside(|worker, space| {
            worker.visit(space, root);
            worker.follow(space, action).broken
        })
    }

    /// The action of this number in a state of the search, and where it leads.
    pub fn step_of(&mut self, state: u32, nth: u16) -> (Action, Root) {
        let root = self.states.root(state).to_vec();
        let action = self.raw_actions(&root)[usize::from(nth)];
        (action, self.raw_step(&root, action).normal)
    }

    /// Who was seen to send to whom outside of the search.
    pub fn facts(&self) -> Facts {
        self.workers[0].found().facts.clone().unwrap_or_default()
    }

    /// What is sent before the search begins: from, to, the message, and whether its receiver is down.
    pub fn first_sends(&self) -> Vec<(usize, usize, u32, bool)> {
        self.first_sends.clone()
    }

    /// What was found broken last outside of the search.
    pub fn last_broken(&self) -> Option<&Broken> {
        self.workers[0].found().broken.last()
    }

    /// The state in which the search begins.
    pub fn first_root(&self) -> Root {
        self.states.root(0).to_vec()
    }

    /// Goes on until everything has been seen, a promise is broken or a limit is reached.
    pub fn run(&mut self, limits: &Limits, watch: &mut dyn FnMut(&Progress)) {
        self.go_on(limits, watch);
        while self.stopped.is_none() && self.violation.is_none() {
            let Some(mut alone) = self.alone.take() else { return };
            let again = alone.revise(&mut *self.space, &self.states);
            self.alone = Some(alone);
            if again.is_empty() {
                return;
            }
            again.chunks(BLOCK).for_each(|states| self.block(states, limits.in_flight));
            self.go_on(limits, watch);
        }
    }

    fn go_on(&mut self, limits: &Limits, watch: &mut dyn FnMut(&Progress)) {
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
                let states: Vec<u32> = (self.next as u32..end as u32).collect();
                self.block(&states, limits.in_flight);
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
        self.stopped = self.is_crowded.then_some(Stopped::Crowded);
    }

    /// From which states a promise is broken whatever happens, if there are not too many states to tell. Up to the
    /// breaking, they have the same numbers as here.
    pub fn doomed(&self, most: usize) -> Option<Vec<bool>> {
        let mut again = Self::new(self.space.afresh(), self.workers.len(), true, None);
        again.is_going_on = true;
        let limits = Limits { memory: usize::MAX, states: Some(most), ..Limits::default() };
        again.run(&limits, &mut |_| {});
        again.graph.filter(|_| again.stopped.is_none()).map(|graph| graph.doomed())
    }

    fn over(&self, limits: &Limits) -> Option<Stopped> {
        if limits.interrupt.as_ref().is_some_and(|wanted| wanted.load(Ordering::Relaxed)) {
            Some(Stopped::Interrupted)
        } else if self.bytes() + self.growth() > limits.memory {
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
        let workers: usize = self.workers.iter().map(|worker| worker.bytes()).sum();
        let graph = self.graph.as_ref().map_or(0, Graph::bytes);
        let alone = self.alone.as_ref().map_or(0, Alone::bytes);
        self.space.bytes() + self.states.bytes() + graph + workers + alone
    }

    /// Bytes that are needed on top: by the next table to grow, while it is copied, and to judge the graph in the end.
    fn growth(&self) -> usize {
        let workers = self.workers.iter().map(|worker| worker.bytes()).max().unwrap_or(0);
        let judging = self.graph.as_ref().map_or(0, Graph::judging_bytes);
        self.states.roots.growth() + 2 * self.space.bytes().max(workers) + judging
    }

    /// Expands these states.
    fn block(&mut self, states: &[u32], in_flight: Option<usize>) {
        if let Some(alone) = &mut self.alone {
            let last = states.last().map_or(0, |last| *last as usize + 1);
            alone.choose(&mut *self.space, &self.states, last);
        }
        let threads = self.workers.len();
        let each = states.len().div_ceil(threads);
        let shared = Shared {
            space: &*self.space,
            states: &self.states,
            keeps_edges: self.graph.is_some(),
            reduction: self.reduction.as_ref(),
            chosen: self.alone.as_ref().map(Alone::chosen),
            is_going_on: self.is_going_on,
            in_flight,
        };
        let range =
            |nth: usize| &states[(nth * each).min(states.len())..((nth + 1) * each).min(states.len())];
        let parts: Vec<Part> = if threads == 1 {
            vec![shared.work(&mut *self.workers[0], range(0))]
        } else {
            std::thread::scope(|scope| {
                let shared = &shared;
                let spawned: Vec<_> = (0..)
                    .zip(&mut self.workers)
                    .map(|(nth, worker)| scope.spawn(move || shared.work(&mut **worker, range(nth))))
                    .collect();
                let joined = spawned.into_iter().map(std::thread::ScopedJoinHandle::join);
                joined.map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
            })
        };
        for (nth, part) in parts.into_iter().enumerate() {
            self.merge(nth, part);
        }
    }

    fn merge(&mut self, nth: usize, part: Part) {
        let width = self.terms().n() + 1;
        let worker = &mut *self.workers[nth];
        let numbers = self.space.absorb(worker);
        self.transitions += part.transitions;
        self.is_crowded |= part.is_crowded;
        let fresh: Vec<u32> = {
            let states = &mut self.states;
            let mut roots = part.roots;
            let fresh = part.fresh.into_iter().zip(roots.chunks_exact_mut(width));
            fresh
                .map(|(Fresh { hash, parent, action }, root)| {
                    let hash = hash.unwrap_or_else(|| {
                        numbers.root(root);
                        hash_words(root)
                    });
                    states.intern(hash, root, parent, action)
                })
                .collect()
        };
        if let (Some(reduction), Some(facts)) = (&mut self.reduction, &worker.found().facts) {
            self.is_surprised |= reduction.facts.learn(facts);
        }
        if let Some(alone) = &mut self.alone {
            let mut arrivals = part.arrivals.into_iter();
            for (state, degree) in part.expanded {
                let steps = arrivals.by_ref().take(degree as usize).map(|(to, arrival)| {
                    let to = if to & LOCAL == 0 { to } else { fresh[(to & !LOCAL) as usize] };
                    (to, arrival)
                });
                alone.note(&*self.space, state, steps);
            }
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
            let broken = worker.found().broken[broken as usize - 1].clone();
            self.violation = Some(Violation { state, action, broken });
        }
    }

    /// The most entries by others that a known request had to see.
    #[must_use]
    pub fn overtaking(&self) -> u64 {
        self.workers.iter().map(|worker| worker.found().overtaking).max().unwrap_or(0)
    }

    /// Which situations were met after each sort of failure; the first were met before any.
    #[must_use]
    pub fn met(&self) -> Met {
        self.workers.iter().fold(Met::default(), |all, worker| all.with(&worker.found().met))
    }

    /// Begins to note what is met from here on.
    pub(crate) fn forget_what_was_met(&mut self) {
        self.workers.iter_mut().for_each(|worker| worker.found_mut().met = Met::default());
    }

    /// What is not promised and was seen broken.
    #[must_use]
    pub fn unpromised(&self) -> std::collections::BTreeSet<&'static str> {
        self.workers.iter().flat_map(|worker| worker.found().unpromised.keys().copied()).collect()
    }

    /// Whether the application of a process waits for its turn in a state, and was promised to get it.
    #[must_use]
    pub fn is_waiting(&self, state: u32, place: usize) -> bool {
        let root = self.states.root(state);
        self.space.meta(root, place).is_waiting && !self.space.is_excused(root)
    }

    /// Whether the application of a process has what only some may have.
    pub fn is_inside(&self, state: u32, place: usize) -> bool {
        self.space.meta(self.states.root(state), place).is_inside
    }
}

/// What workers share while they work.
struct Shared<'a> {
    space: &'a dyn Space,
    states: &'a States,
    keeps_edges: bool,
    reduction: Option<&'a Reduction>,
    /// By state: the step that is followed alone, or [`ALL`]; where that is wanted.
    chosen: Option<&'a [u16]>,
    is_going_on: bool,
    in_flight: Option<usize>,
}

impl Shared<'_> {
    /// Whether more messages are in flight between two processes than should be followed.
    fn is_crowded(&self, root: &[u32]) -> bool {
        self.in_flight.is_some_and(|most| self.space.is_crowded(root, most))
    }

    /// What arrives by an action.
    fn arrival(&self, root: &[u32], action: Action) -> Option<Arrival> {
        let Action::Deliver(at) = action else { return None };
        let letters = self.space.letters(root, usize::from(at.from), usize::from(at.to));
        Some(Arrival { from: at.from, to: at.to, message: letters[usize::from(at.nth)].message() })
    }

    fn work(&self, worker: &mut dyn Explorer, states: &[u32]) -> Part {
        let mut part = Part::default();
        let width = self.space.terms().n() + 1;
        let mut expansion = Expansion::default();
        for state in states.iter().copied() {
            let root = self.states.root(state);
            if self.is_crowded(root) {
                part.is_crowded = true;
                part.degrees.extend(self.keeps_edges.then_some(0));
                continue;
            }
            match self.reduction {
                Some(reduction) => {
                    reduction.expand(worker, self.space, self.states, root, &mut expansion);
                }
                None => match self.chosen.map_or(ALL, |chosen| chosen[state as usize]) {
                    ALL => worker.expand(self.space, root, &mut expansion),
                    nth => worker.only(self.space, root, nth, &mut expansion),
                },
            }
            let parent = root;
            part.is_crowded |= core::mem::take(&mut worker.found_mut().is_crowded);
            if expansion.stuck > 0 {
                part.stuck.push(state);
                part.violation = part.violation.or(Some((state, None, expansion.stuck)));
            }
            part.transitions += expansion.transitions.len() as u64;
            for ((nth, found), root) in expansion.transitions.iter().zip(expansion.roots.chunks_exact(width))
            {
                if found.broken > 0 {
                    part.violation = part.violation.or(Some((state, Some(*nth), found.broken)));
                    if self.is_going_on {
                        part.edges.push((BROKEN, found.task));
                        continue;
                    }
                }
                let is_local = root.iter().fold(0, |all, id| all | id) & LOCAL != 0;
                let hash = (!is_local).then(|| hash_words(root));
                let known = hash.and_then(|hash| self.states.find(hash, root));
                if known.is_none() {
                    part.fresh.push(Fresh { hash, parent: state, action: *nth });
                    part.roots.extend_from_slice(root);
                }
                if self.chosen.is_some() {
                    let to = known.unwrap_or(LOCAL | (part.fresh.len() as u32).saturating_sub(1));
                    let arrival = self.arrival(parent, worker.actions()[usize::from(*nth)]);
                    part.arrivals.push((to, arrival));
                }
                if self.keeps_edges {
                    let to = known.unwrap_or(LOCAL | (part.fresh.len() as u32).saturating_sub(1));
                    part.edges.push((to, found.task));
                }
            }
            if self.keeps_edges {
                part.degrees.push(expansion.transitions.len() as u32);
            }
            if self.chosen.is_some() {
                part.expanded.push((state, expansion.transitions.len() as u32));
            }
        }
        part
    }
}
