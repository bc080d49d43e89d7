//! Partial-order reduction by effect: a delivery that can go first is followed alone.
//!
//! A delivery can go first if whatever its process may handle before it comes to the same after it ([`effect`](crate::effect)).
//! Then every run from a state has one beside it in which this delivery is the first step, and in which applications ask and are
//! told the same in the same order: other processes cannot tell, and properties see nothing of a silent delivery.
//!
//! What the process may handle before it is what arrives in the runs that follow it ([`future`](crate::future)), at any later moment
//! and in any order. That is known only when these runs have been searched. So a search chooses as if nothing were
//! to come but what is in flight, looks back from the end, and chooses again where the choice was wrong, until none is.
//! If a run were missed, take a shortest: it goes on behind a choice, and what keeps it from beginning with the chosen delivery is a
//! first message that was not expected. Up to there it can begin with the delivery, and with that message it is as short
//! and behind the choice, so that it was not missed: the message was expected.
//!
//! Deliveries that are followed alone must not go round in a circle, else they would put off all others forever.

use crate::action::Action;
use crate::effect::Effects;
use crate::explore::{Explorer, Space};
use crate::future::{Arrival, Futures, NOTHING};
use crate::model::{Budgets, Terms};
use crate::search::States;

/// All steps of a state are followed.
pub const ALL: u16 = u16::MAX;

/// The deliveries that are followed alone, and what shows that they can be.
pub struct Alone {
    scout: Box<dyn Explorer>,
    futures: Futures,
    effects: Effects,
    /// By state: the step that is followed alone, or [`ALL`].
    chosen: Vec<u16>,
    /// By state: where its steps stand in `steps`.
    spans: Vec<(u64, u64)>,
    /// Where each leads, and what arrives by it.
    steps: Vec<(u32, Option<u32>)>,
    /// By state and process: what may still arrive.
    coming: Vec<u32>,
    /// By state: whether it has other steps than when it was last looked at.
    is_fresh: Vec<bool>,
}

/// Whether deliveries can be followed alone: nothing fails, no time is counted, and properties only listen to what
/// applications ask and are told.
pub fn is_possible(space: &dyn Space) -> bool {
    let Terms { budgets, ticks, lead, order, normalise, .. } = space.terms();
    let is_plain = *budgets == Budgets::default() && ticks.is_none() && lead.is_empty();
    is_plain && !order && !normalise && !space.looks_at_states()
}

impl Alone {
    pub fn new(space: &dyn Space) -> Self {
        Self {
            scout: space.explorer(),
            futures: Futures::default(),
            effects: Effects::default(),
            chosen: Vec::new(),
            spans: Vec::new(),
            steps: Vec::new(),
            coming: Vec::new(),
            is_fresh: Vec::new(),
        }
    }

    /// By state: the step that is followed alone, or [`ALL`].
    pub fn chosen(&self) -> &[u16] {
        &self.chosen
    }

    /// Chooses for all states up to here, as if nothing were to come but what is in flight.
    pub fn choose(&mut self, space: &mut dyn Space, states: &States, end: usize) {
        for state in self.chosen.len()..end {
            let root = states.root(state as u32).to_vec();
            let coming: Vec<u32> =
                (0..space.terms().n()).map(|place| self.in_flight(space, &root, place)).collect();
            self.effects.earn();
            let step = self.best(space, &root, &coming);
            self.chosen.push(step);
        }
    }

    /// Takes note of the steps of a state: where they lead, and what arrives.
    pub fn note(
        &mut self,
        space: &dyn Space,
        state: u32,
        steps: impl Iterator<Item = (u32, Option<Arrival>)>,
    ) {
        let start = self.steps.len() as u64;
        for (to, arrival) in steps {
            let arrival = arrival.map(|arrival| self.number(space, arrival));
            self.steps.push((to, arrival));
        }
        let state = state as usize;
        self.spans.resize(self.spans.len().max(state + 1), (0, 0));
        self.spans[state] = (start, self.steps.len() as u64);
        self.is_fresh.resize(self.is_fresh.len().max(state + 1), true);
        self.is_fresh[state] = true;
    }

    /// The states whose choice was wrong, now that it is known what follows. They have another.
    pub fn revise(&mut self, space: &mut dyn Space, states: &States) -> Vec<u32> {
        let n = space.terms().n();
        self.look_back(n);
        let mut wrong = Vec::new();
        for state in (0..states.len()).filter(|state| self.chosen[*state] != ALL).collect::<Vec<_>>() {
            let root = states.root(state as u32).to_vec();
            if !self.is_right(space, state, &root) {
                let coming = self.coming[state * n..(state + 1) * n].to_vec();
                self.chosen[state] = self.best(space, &root, &coming);
                wrong.push(state as u32);
            }
        }
        if wrong.is_empty() {
            wrong = self.circles();
            wrong.iter().for_each(|state| self.chosen[*state as usize] = ALL);
        }
        wrong
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.chosen.capacity() * size_of::<u16>()
            + self.spans.capacity() * size_of::<(u64, u64)>()
            + self.steps.capacity() * size_of::<(u32, Option<u32>)>()
            + self.coming.capacity() * size_of::<u32>()
            + self.futures.bytes()
            + self.effects.bytes()
            + self.scout.bytes()
    }

    fn number(&mut self, space: &dyn Space, arrival: Arrival) -> u32 {
        self.futures.arrival(arrival, space.kind(arrival.message))
    }

    /// What is in flight to a process.
    fn in_flight(&mut self, space: &dyn Space, root: &[u32], place: usize) -> u32 {
        let mut coming = NOTHING;
        for from in (0..space.terms().n()).filter(|from| *from != place) {
            for letter in space.letters(root, from, place) {
                let arrival = Arrival { from: from as u8, to: place as u8, message: letter.message() };
                let arrival = self.number(space, arrival);
                coming = self.futures.add(coming, arrival);
            }
        }
        coming
    }

    /// A delivery that can go first when no more than this is to come to each process, or [`ALL`].
    fn best(&mut self, space: &mut dyn Space, root: &[u32], coming: &[u32]) -> u16 {
        self.scout.visit(space, root);
        let actions = self.scout.actions().to_vec();
        let can_go_first = |action: &Action| {
            let Action::Deliver(at) = *action else { return false };
            let letters = space.letters(root, at.from.into(), at.to.into());
            let message = letters[usize::from(at.nth)].message();
            let arrival = self.number(space, Arrival { from: at.from, to: at.to, message });
            let coming = self.futures.take(coming[usize::from(at.to)], arrival);
            self.can_go_first(space, root, arrival, coming)
        };
        actions.iter().position(can_go_first).map_or(ALL, |step| step as u16)
    }

    fn is_right(&mut self, space: &mut dyn Space, state: usize, root: &[u32]) -> bool {
        let (to, arrival) = self.steps[self.spans[state].0 as usize];
        let arrival = arrival.expect("only deliveries are followed alone");
        let place = usize::from(self.futures.at(arrival).to);
        let coming = self.coming[to as usize * space.terms().n() + place];
        self.can_go_first(space, root, arrival, coming)
    }

    fn can_go_first(&mut self, space: &mut dyn Space, root: &[u32], arrival: u32, coming: u32) -> bool {
        let arrival = self.futures.at(arrival);
        let cell = space.cell_of(root, arrival.to.into());
        self.effects.may_go_first(space, &mut *self.scout, &mut self.futures, cell, arrival, coming)
    }

    /// Works out what may still arrive in each state, from the last one to the first, until nothing is added.
    fn look_back(&mut self, n: usize) {
        self.coming.resize(self.chosen.len() * n, NOTHING);
        let mut has_changed = vec![false; self.chosen.len()];
        let mut is_settled = false;
        while !is_settled {
            is_settled = true;
            for state in (0..self.chosen.len()).rev() {
                let (start, end) = self.spans[state];
                let steps = &self.steps[start as usize..end as usize];
                let is_due = self.is_fresh[state] || steps.iter().any(|(to, _)| has_changed[*to as usize]);
                if is_due && self.look_back_at(state, n) {
                    has_changed[state] = true;
                    is_settled = false;
                }
                self.is_fresh[state] = false;
            }
            is_settled |= self.is_forward(&has_changed);
        }
    }

    /// Whether every step of a state that has changed leads to it from a state before: then all have been looked at since.
    fn is_forward(&self, has_changed: &[bool]) -> bool {
        let leads_back = |state: usize| {
            let (start, end) = self.spans[state];
            self.steps[start as usize..end as usize]
                .iter()
                .any(|(to, _)| *to as usize <= state && has_changed[*to as usize])
        };
        !(0..self.chosen.len()).any(leads_back)
    }

    fn look_back_at(&mut self, state: usize, n: usize) -> bool {
        let mut is_new = false;
        for place in 0..n {
            let at = state * n + place;
            let coming = self.coming_after(self.spans[state], self.coming[at], n, place);
            is_new |= coming != self.coming[at];
            self.coming[at] = coming;
        }
        is_new
    }

    fn coming_after(&mut self, (start, end): (u64, u64), mut coming: u32, n: usize, place: usize) -> u32 {
        for step in start..end {
            let (to, arrival) = self.steps[step as usize];
            let mut later = self.coming[to as usize * n + place];
            if let Some(arrival) =
                arrival.filter(|arrival| usize::from(self.futures.at(*arrival).to) == place)
            {
                later = self.futures.add(later, arrival);
            }
            if later != coming {
                coming = self.futures.join(coming, later);
            }
        }
        coming
    }

    /// A state of each circle of deliveries that are followed alone.
    fn circles(&self) -> Vec<u32> {
        const UNSEEN: u32 = u32::MAX;
        let mut walks = vec![UNSEEN; self.chosen.len()];
        let mut found = Vec::new();
        for start in 0..self.chosen.len() as u32 {
            let mut at = start;
            while self.chosen[at as usize] != ALL && walks[at as usize] == UNSEEN {
                walks[at as usize] = start;
                at = self.steps[self.spans[at as usize].0 as usize].0;
            }
            if self.chosen[at as usize] != ALL && walks[at as usize] == start {
                found.push(at);
            }
        }
        found
    }
}
