//! The steps between states, kept: for what only shows in runs that never end, and for where a run goes wrong.
//!
//! A run that never ends runs through one strongly connected component of the graph forever. Under weak fairness, what can
//! happen all the time happens at last. So a component holds a fair run if and only if each task is either impossible in
//! one of its states, or carried out by one of its steps; and a part of a component holds one only if the whole does.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::action::Task;
use crate::intern::{Memo, Row};

/// Where a step leads that breaks a promise.
pub const BROKEN: u32 = u32::MAX;

/// The steps of all states that have been expanded.
#[derive(Default)]
pub struct Graph {
    /// Where the steps of each state end, in `targets`.
    ends: Row<u64>,
    targets: Row<u32>,
    labels: Row<u32>,
    tasks: Vec<Task>,
    numbers: Memo<Task, u32>,
    /// States in which nothing moves any more, and should.
    stuck: BTreeSet<u32>,
}

/// A run that never ends: after the way to its first state, this goes on forever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lasso {
    /// Where the circle begins.
    pub start: u32,
    /// Each state of the circle, and the number of the step that leads to the next.
    pub circle: Vec<(u32, u16)>,
}

impl Graph {
    /// Adds the steps of the next state.
    pub fn add(&mut self, steps: impl Iterator<Item = (u32, Task)>) {
        for (to, task) in steps {
            let next = self.tasks.len() as u32;
            let label = *self.numbers.entry(task).or_insert(next);
            if label == next {
                self.tasks.push(task);
            }
            self.targets.push(to);
            self.labels.push(label);
        }
        self.ends.push(self.targets.len() as u64);
    }

    /// Takes note of a state in which nothing moves any more, and should.
    pub fn add_stuck(&mut self, state: u32) {
        self.stuck.insert(state);
    }

    /// How many states have been expanded.
    pub fn len(&self) -> u32 {
        self.ends.len() as u32
    }

    pub fn bytes(&self) -> usize {
        self.ends.bytes() + self.targets.bytes() + self.labels.bytes()
    }

    /// Bytes that it takes to find the components.
    pub fn judging_bytes(&self) -> usize {
        self.ends.len() * (2 * size_of::<u32>() + size_of::<bool>())
    }

    fn range(&self, state: u32) -> core::ops::Range<usize> {
        let start = if state == 0 { 0 } else { self.ends.get(state as usize - 1) };
        start as usize..self.ends.get(state as usize) as usize
    }

    /// The steps of a state: where each leads, and the number of its task.
    fn steps(&self, state: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.range(state).map(|step| (self.targets.get(step), self.labels.get(step)))
    }

    fn is_optional(&self, label: u32) -> bool {
        self.tasks[label as usize] == Task::Optional
    }

    /// A fair run without end through states of this sort alone, the nearest to the beginning; and how many components
    /// were looked at.
    pub fn fair_lasso(&self, is_of_sort: impl Fn(u32) -> bool) -> Option<Lasso> {
        let mut best: Option<Vec<u32>> = None;
        let mut fairness = Fairness::new(self.tasks.len());
        self.components(&is_of_sort, &mut |component| {
            let nearest = |component: &[u32]| component.iter().copied().min();
            let is_nearer = best.as_ref().is_none_or(|best| nearest(component) < nearest(best));
            if is_nearer && self.is_fair(component, &mut fairness) {
                best = Some(component.to_vec());
            }
        });
        best.map(|component| self.circle(&component))
    }

    /// Calls with every strongly connected component that has a step inside (Tarjan 1972, without recursion).
    fn components(&self, is_of_sort: &impl Fn(u32) -> bool, found: &mut impl FnMut(&[u32])) {
        const UNSEEN: u32 = 0;
        let n = self.len();
        let mut order = vec![UNSEEN; n as usize];
        let mut low = vec![0u32; n as usize];
        let mut is_open = vec![false; n as usize];
        let (mut stack, mut calls, mut counter) = (Vec::new(), Vec::new(), UNSEEN);
        for root in 0..n {
            if order[root as usize] != UNSEEN || !is_of_sort(root) {
                continue;
            }
            calls.push((root, self.range(root).start));
            while let Some((state, step)) = calls.last_mut() {
                let (at, next) = (*state as usize, *step);
                if next == self.range(*state).start && order[at] == UNSEEN {
                    counter += 1;
                    (order[at], low[at], is_open[at]) = (counter, counter, true);
                    stack.push(*state);
                }
                if next < self.range(*state).end {
                    *step += 1;
                    let to = self.targets.get(next);
                    if to >= n || !is_of_sort(to) {
                        continue;
                    }
                    if order[to as usize] == UNSEEN {
                        calls.push((to, self.range(to).start));
                    } else if is_open[to as usize] {
                        low[at] = low[at].min(order[to as usize]);
                    }
                    continue;
                }
                calls.pop();
                if let Some((caller, _)) = calls.last() {
                    let caller = *caller as usize;
                    low[caller] = low[caller].min(low[at]);
                }
                if low[at] == order[at] {
                    let start = stack.iter().rposition(|state| *state as usize == at);
                    let component = stack.split_off(start.expect("it is on the stack"));
                    for state in &component {
                        is_open[*state as usize] = false;
                    }
                    let has_step =
                        component.len() > 1 || self.steps(component[0]).any(|(to, _)| to == component[0]);
                    if has_step {
                        found(&component);
                    }
                }
            }
        }
    }

    fn is_fair(&self, component: &[u32], fairness: &mut Fairness) -> bool {
        let inside: BTreeSet<u32> = component.iter().copied().collect();
        for state in component {
            for (to, label) in self.steps(*state) {
                fairness.meet(*state, label, inside.contains(&to));
            }
        }
        let all = component.len() as u32;
        let unfair =
            |label: u32, possible: u32, done: bool| possible == all && !done && !self.is_optional(label);
        !fairness.drain().any(|(label, possible, done)| unfair(label, possible, done))
    }

    /// A circle through a fair component that does all that must be done.
    fn circle(&self, component: &[u32]) -> Lasso {
        let inside: BTreeSet<u32> = component.iter().copied().collect();
        let start = *inside.first().expect("a component is not empty");
        let mut demands: BTreeMap<u32, (usize, bool)> = BTreeMap::new();
        for state in &inside {
            let labels: BTreeMap<u32, bool> =
                self.steps(*state).fold(BTreeMap::new(), |mut all, (to, label)| {
                    *all.entry(label).or_default() |= inside.contains(&to);
                    all
                });
            for (label, done) in labels {
                let demand = demands.entry(label).or_default();
                *demand = (demand.0 + 1, demand.1 | done);
            }
        }
        let mut circle = Vec::new();
        let mut at = start;
        for (label, (possible, _)) in demands.iter().filter(|(label, _)| !self.is_optional(**label)) {
            let is_done = |(state, step): &(u32, u16)| self.label_of(*state, *step) == *label;
            let is_impossible = |state: u32| !self.steps(state).any(|(_, other)| other == *label);
            let must_be_done = *possible == inside.len();
            let is_met = circle.iter().any(is_done)
                || (!must_be_done
                    && (is_impossible(at) || circle.iter().any(|(state, _)| is_impossible(*state))));
            if is_met {
                continue;
            }
            let goal = |state: u32, step: u16| match must_be_done {
                true => self.label_of(state, step) == *label,
                false => self.target_of(state, step).is_some_and(is_impossible),
            };
            at = self.walk(&inside, at, &goal, &mut circle);
        }
        if circle.is_empty() || at != start {
            self.walk(&inside, at, &|state, step| self.target_of(state, step) == Some(start), &mut circle);
        }
        Lasso { start, circle }
    }

    fn label_of(&self, state: u32, step: u16) -> u32 {
        self.labels.get(self.range(state).start + usize::from(step))
    }

    fn target_of(&self, state: u32, step: u16) -> Option<u32> {
        Some(self.targets.get(self.range(state).start + usize::from(step))).filter(|to| *to != BROKEN)
    }

    /// Walks the shortest way inside a component whose last step is a goal. Says where it ends.
    fn walk(
        &self,
        inside: &BTreeSet<u32>,
        from: u32,
        is_goal: &dyn Fn(u32, u16) -> bool,
        circle: &mut Vec<(u32, u16)>,
    ) -> u32 {
        let mut came: BTreeMap<u32, (u32, u16)> = BTreeMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(state) = queue.pop_front() {
            for (step, (to, _)) in (0u16..).zip(self.steps(state)) {
                if !inside.contains(&to) {
                    continue;
                }
                if is_goal(state, step) {
                    let mut way = vec![(state, step)];
                    let mut at = state;
                    while at != from {
                        let (before, step) = came[&at];
                        way.push((before, step));
                        at = before;
                    }
                    circle.extend(way.into_iter().rev());
                    return to;
                }
                if to != from && !came.contains_key(&to) {
                    came.insert(to, (state, step));
                    queue.push_back(to);
                }
            }
        }
        unreachable!("every state of a component reaches every other, and every goal was seen in it")
    }

    /// From which states a promise is broken whatever happens: in each of them something must happen, and all that may
    /// happen leads there.
    pub fn doomed(&self) -> Vec<bool> {
        let mut doomed = vec![false; self.len() as usize];
        for state in &self.stuck {
            doomed[*state as usize] = true;
        }
        loop {
            let mut has_changed = false;
            for state in (0..self.len()).rev() {
                if doomed[state as usize] {
                    continue;
                }
                let leads_there = |to: u32| to == BROKEN || doomed.get(to as usize).is_some_and(|is| *is);
                let must_move = self.steps(state).any(|(_, label)| !self.is_optional(label));
                if must_move && self.steps(state).all(|(to, _)| leads_there(to)) {
                    doomed[state as usize] = true;
                    has_changed = true;
                }
            }
            if !has_changed {
                return doomed;
            }
        }
    }
}

/// Counts, for one component at a time, in how many states each task is possible, and whether it is done.
struct Fairness {
    by_label: Vec<(u32, bool, u32)>,
    met: Vec<u32>,
}

const NOWHERE: u32 = u32::MAX;

impl Fairness {
    fn new(labels: usize) -> Self {
        Self { by_label: vec![(0, false, NOWHERE); labels], met: Vec::new() }
    }

    fn meet(&mut self, state: u32, label: u32, is_done: bool) {
        let (possible, done, last) = &mut self.by_label[label as usize];
        if *possible == 0 {
            self.met.push(label);
        }
        // A task may be possible in a state in more than one way.
        if *last != state {
            (*possible, *last) = (*possible + 1, state);
        }
        *done |= is_done;
    }

    fn drain(&mut self) -> impl Iterator<Item = (u32, u32, bool)> {
        let met: Vec<_> = self.met.drain(..).collect();
        let counts: Vec<_> = met
            .into_iter()
            .map(|label| {
                let (possible, done, _) = self.by_label[label as usize];
                self.by_label[label as usize] = (0, false, NOWHERE);
                (label, possible, done)
            })
            .collect();
        counts.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Task = Task::Application { place: 0 };
    const B: Task = Task::Application { place: 1 };

    fn graph(states: &[&[(u32, Task)]]) -> Graph {
        let mut graph = Graph::default();
        for steps in states {
            graph.add(steps.iter().copied());
        }
        graph
    }

    #[test]
    fn a_circle_that_leaves_out_what_is_always_possible_is_not_fair() {
        // 0 and 1 go round by A; B would lead out of both, and is never taken.
        let unfair = graph(&[&[(1, A), (2, B)], &[(0, A), (2, B)], &[]]);
        assert_eq!(unfair.fair_lasso(|_| true), None);
    }

    #[test]
    fn what_is_impossible_now_and_then_need_not_be_done() {
        let fair = graph(&[&[(1, A), (2, B)], &[(0, A)], &[]]);
        let lasso = fair.fair_lasso(|_| true).expect("B is impossible in state 1");
        assert_eq!(lasso, Lasso { start: 0, circle: vec![(0, 0), (1, 0)] });
    }

    #[test]
    fn a_circle_does_all_that_must_be_done() {
        // B is possible in both states, and done by a step from 1 to itself.
        let graph = graph(&[&[(1, A), (2, B)], &[(0, A), (1, B)], &[]]);
        let lasso = graph.fair_lasso(|_| true).expect("B is done in state 1");
        assert!(lasso.circle.contains(&(1, 1)), "{lasso:?}");
        assert_eq!((lasso.circle[0].0, lasso.circle.last()), (0, Some(&(1, 0))));
    }

    #[test]
    fn only_states_of_the_sort_count() {
        let graph = graph(&[&[(1, A)], &[(0, A)]]);
        assert!(graph.fair_lasso(|_| true).is_some());
        assert_eq!(graph.fair_lasso(|state| state == 0), None);
    }

    #[test]
    fn a_state_is_doomed_if_all_ways_lead_to_ruin() {
        // 0 may avoid it by asking for nothing; 1 must move, and both its steps break something.
        let mut graph = graph(&[&[(1, Task::Optional)], &[(BROKEN, A), (2, B)], &[(3, A)], &[]]);
        graph.add_stuck(3);
        assert_eq!(graph.doomed(), [false, true, true, true]);
    }
}
