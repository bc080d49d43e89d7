//! Partial-order reduction: of steps that commute, one order is enough.
//!
//! Two steps at different processes commute: each changes its own process and appends to channels of its own. So in a state
//! it is enough to follow the steps of one process, if nothing that the others may do meanwhile can give it a new step, and
//! no property can tell when its steps happen (persistent sets: Godefroid 1996). Nothing can give it a new step if
//! everyone who may still send to it is known to have a message in flight to it, and the channel keeps its order.
//!
//! Who may still send to whom is *learnt*: facts "a process whose application is in this phase sends to one whose
//! application is in that phase" are collected in a few runs before the search ([`rehearse`](crate::rehearse)) and during
//! it. A fact that comes up too late, after a set was chosen without it, makes the search begin again with it; when it
//! ends, every fact was known all along. No fact can be missed: what the others do before they send to the chosen
//! process commutes with the steps followed, and is followed after them.
//!
//! Steps that need not happen, such as requests, are never chosen alone: a dead end is one although somebody may still ask.
//!
//! Only safety and dead ends are preserved, and only while all failures that may happen have happened: failures are paid from
//! budgets that all processes share. A set all of whose steps lead to states seen before is not used: else a circle could
//! put off the others forever.

use crate::action::{Action, Place};
use crate::explore::{Explorer, Space};
use crate::intern::{LOCAL, hash_words};
use crate::model::Budgets;
use crate::search::States;
use crate::space::Expansion;
use conclave_algorithms::application::PHASES;

/// The most processes for which facts are kept.
pub const MOST: usize = 8;

/// Who sends to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// By sender and its phase, receiver and its phase.
    sends: Vec<bool>,
    /// By process: from which phase to which it goes.
    moves: Vec<bool>,
}

impl Default for Facts {
    fn default() -> Self {
        Self { sends: vec![false; (MOST * PHASES).pow(2)], moves: vec![false; MOST * PHASES * PHASES] }
    }
}

/// A process and the phase of its application.
pub type Role = (usize, u8);

impl Facts {
    fn send_place((from, phase): Role, (to, their_phase): Role) -> usize {
        ((from * PHASES + usize::from(phase)) * MOST + to) * PHASES + usize::from(their_phase)
    }

    fn move_place((process, phase): Role, later: u8) -> usize {
        (process * PHASES + usize::from(phase)) * PHASES + usize::from(later)
    }

    /// Takes note of a message that is sent.
    pub fn note_send(&mut self, from: Role, to: Role) {
        self.sends[Self::send_place(from, to)] = true;
    }

    /// Takes note of an application that goes on.
    pub fn note_move(&mut self, from: Role, later: u8) {
        self.moves[Self::move_place(from, later)] = true;
    }

    /// Adds what others know. Says whether anything is new.
    pub fn learn(&mut self, other: &Self) -> bool {
        let mut is_new = false;
        let both = |mine: &mut Vec<bool>, theirs: &[bool]| {
            let pairs = mine.iter_mut().zip(theirs);
            pairs.filter(|(mine, theirs)| **theirs && !**mine).map(|(mine, _)| *mine = true).count() > 0
        };
        is_new |= both(&mut self.sends, &other.sends);
        is_new |= both(&mut self.moves, &other.moves);
        is_new
    }

    /// Whether a process may send to another that does not move, now or later.
    fn may_send(&self, (from, phase): Role, to: Role) -> bool {
        let mut reached = [false; PHASES];
        let mut open = vec![phase];
        while let Some(phase) = open.pop() {
            if core::mem::replace(&mut reached[usize::from(phase)], true) {
                continue;
            }
            if self.sends[Self::send_place((from, phase), to)] {
                return true;
            }
            open.extend(
                (0..PHASES as u8).filter(|later| self.moves[Self::move_place((from, phase), *later)]),
            );
        }
        false
    }

    /// Whether a process may send to another in whatever phase both are.
    fn ever_sends(&self, from: usize, to: usize) -> bool {
        let phases = || 0..PHASES as u8;
        phases().any(|mine| phases().any(|theirs| self.sends[Self::send_place((from, mine), (to, theirs))]))
    }
}

/// Chooses the steps that are enough.
#[derive(Clone, Debug, Default)]
pub struct Reduction {
    /// What is known so far.
    pub facts: Facts,
}

impl Reduction {
    /// The steps of a state that are enough, and where they lead.
    pub fn expand(
        &self,
        worker: &mut dyn Explorer,
        space: &dyn Space,
        states: &States,
        root: &[u32],
        out: &mut Expansion,
    ) {
        let terms = space.terms();
        worker.visit(space, root);
        let is_new = |root: &[u32]| {
            root.iter().any(|id| id & LOCAL != 0) || states.find(hash_words(root), root).is_none()
        };
        if worker.budgets(space) == (Budgets { amnesia: terms.budgets.amnesia, ..Budgets::default() })
            && terms.ticks.is_none()
        {
            for place in 0..terms.n() {
                if self.is_enough(worker, space, place) && worker.try_only(space, place, &is_new, out) {
                    return;
                }
            }
        }
        worker.expand(space, root, out);
    }

    /// Whether nothing that the others do can give this process a step that it has not got.
    fn is_enough(&self, worker: &dyn Explorer, space: &dyn Space, place: usize) -> bool {
        let n = space.terms().n();
        let has_step =
            |process: usize| worker.actions().iter().any(|action| action.process() == Some(process));
        if !has_step(place) {
            return false;
        }
        let mut is_awake: Vec<bool> = (0..n).map(|other| other != place && has_step(other)).collect();
        // Who sleeps may be woken by who is awake.
        while let Some(woken) = (0..n).find(|sleeper| {
            *sleeper != place
                && !is_awake[*sleeper]
                && (0..n).any(|other| is_awake[other] && self.facts.ever_sends(other, *sleeper))
        }) {
            is_awake[woken] = true;
        }
        let role = |process: usize| (process, worker.phase(space, process));
        (0..n).filter(|other| is_awake[*other]).all(|other| {
            let oldest = Place { from: other as u8, to: place as u8, nth: 0 };
            let is_behind = space.terms().fifo && worker.actions().contains(&Action::Deliver(oldest));
            is_behind || !self.facts.may_send(role(other), role(place))
        })
    }
}
