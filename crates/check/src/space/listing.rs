//! What may happen in a state.

use conclave_algorithms::Ledger;

use super::{Meta, Tables, Trigger, Worker, channel};
use crate::action::{Action, Place};
use crate::model::Model;
use conclave_algorithms::family::Family;

impl<F: Family> Worker<F> {
    /// Makes a state the present one, and lists what may happen in it.
    pub fn visit(&mut self, base: &Tables<F>, model: &Model<F>, root: &[u32]) {
        self.present.clear();
        self.present.extend_from_slice(root);
        self.cells.clear();
        self.channels.clear();
        let (world, nodes) = root.split_last().expect("the world comes last");
        for node in nodes {
            let node = base.nodes.get(*node);
            self.cells.push(node[0]);
            self.channels.extend_from_slice(&node[1..]);
        }
        self.cells.push(*world);
        self.list(base, model);
    }

    /// What may happen in the present state.
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }

    pub(super) fn list(&mut self, base: &Tables<F>, model: &Model<F>) {
        let n = model.n();
        let budgets = base.worlds.get(self.cells[n]).budgets;
        let mut actions = core::mem::take(&mut self.actions);
        actions.clear();
        for place in 0..n {
            let meta = &base.metas[self.cells[place] as usize];
            let at = place as u8;
            if !meta.is_up {
                if budgets.restarts > 0 {
                    actions.push(Action::Restart { place: at });
                }
                continue;
            }
            for (nth, (_, is_cancel)) in (0..).zip(&meta.asks) {
                if !is_cancel || budgets.cancels > 0 {
                    actions.push(Action::Ask { place: at, nth });
                }
            }
            for (nth, (min, _)) in (0..).zip(&meta.timers) {
                if *min == 0 {
                    actions.push(Action::Timer { place: at, nth });
                }
            }
            for peer in (0..n).filter(|peer| *peer != place) {
                let theirs = &base.metas[self.cells[peer] as usize];
                let heard = meta.heard[peer];
                if heard.due(theirs.life, theirs.is_up, model.detector).is_some() {
                    actions.push(Action::Notice { place: at, peer: peer as u8 });
                } else if budgets.suspicions > 0 && theirs.is_up && !heard.is_down {
                    actions.push(Action::Suspect { place: at, peer: peer as u8 });
                }
                self.list_letters(base, model, meta, peer, place, &mut actions);
            }
            if budgets.crashes > 0 && model.mortal[place] {
                actions.push(Action::Crash { place: at, loss: 0 });
                if model.cuts_steps {
                    let losses = self.bounded(self.losses(base, model, place, &[]), actions.len());
                    actions.extend((1..losses).map(|loss| Action::Crash { place: at, loss }));
                }
            }
        }
        if self.can_tick(base, model) {
            actions.push(Action::Tick);
        }
        if budgets.crashes > 0 && model.cuts_steps {
            for step in 0..actions.len() {
                self.list_cuts(base, model, step, &mut actions);
            }
        }
        self.actions = actions;
    }

    /// The ways to crash inside the step that an action makes a process take.
    fn list_cuts(&mut self, base: &Tables<F>, model: &Model<F>, step: usize, actions: &mut Vec<Action>) {
        let place = match actions[step] {
            Action::Ask { place, .. }
            | Action::Timer { place, .. }
            | Action::Notice { place, .. }
            | Action::Suspect { place, .. }
            | Action::Restart { place } => place,
            Action::Deliver(at) => at.to,
            Action::Drop(_)
            | Action::Duplicate(_)
            | Action::Crash { .. }
            | Action::Interrupt { .. }
            | Action::Tick => return,
        };
        if !model.mortal[usize::from(place)] {
            return;
        }
        self.next_cells.clone_from(&self.cells);
        self.next_channels.clone_from(&self.channels);
        if let Action::Restart { .. } = actions[step] {
            self.revive(base, model, place);
        }
        let Trigger { cause, .. } = self.trigger(base, model, actions[step]);
        let at = usize::from(place);
        let record = self.record(base, model, self.next_cells[at], place, cause);
        for cut in 0..self.at_record(record).cuts.len() {
            let sends = self.at_record(record).cuts[cut].sends;
            let losses = self.losses(base, model, at, &self.at_record(record).sends[..sends]);
            let losses = self.bounded(losses, actions.len());
            let (step, cut) = (step as u16, cut as u8);
            actions.extend((0..losses).map(|loss| Action::Interrupt { place, step, cut, loss }));
        }
    }

    /// As many of the ways to lose messages as are followed: all, unless there are absurdly many.
    fn bounded(&mut self, losses: usize, listed: usize) -> u16 {
        const MOST: usize = 4096;
        const MOST_LISTED: usize = 50_000;
        if losses <= MOST && listed <= MOST_LISTED {
            return losses as u16;
        }
        self.found.is_crowded = true;
        u16::from(listed <= MOST_LISTED)
    }

    pub(super) fn list_letters(
        &self,
        base: &Tables<F>,
        model: &Model<F>,
        meta: &Meta,
        from: usize,
        to: usize,
        actions: &mut Vec<Action>,
    ) {
        let content = self.channels[channel(model.n(), from, to)];
        if content == 0 {
            return;
        }
        let budgets = base.worlds.get(self.cells[model.n()]).budgets;
        let letters = base.channels.get(content);
        for (nth, letter) in letters.iter().enumerate() {
            let is_repeated = nth > 0 && letters[nth - 1] == *letter;
            if is_repeated {
                continue;
            }
            let at = Place { from: from as u8, to: to as u8, nth: nth as u8 };
            if (nth == 0 || !model.fifo) && meta.heard[from].admits(letter.life()) {
                actions.push(Action::Deliver(at));
            }
            if budgets.drops > 0 {
                actions.push(Action::Drop(at));
            }
            if budgets.duplicates > 0 {
                actions.push(Action::Duplicate(at));
            }
        }
    }

    /// Whether time may pass: something waits for it, and nothing is overdue.
    pub(super) fn can_tick(&self, base: &Tables<F>, model: &Model<F>) -> bool {
        if model.ticks.is_none() {
            return false;
        }
        let mut waits = false;
        for cell in &self.cells[..model.n()] {
            for (_, max) in &base.metas[*cell as usize].timers {
                if *max == 0 {
                    return false;
                }
                waits = true;
            }
        }
        for content in self.channels.iter().filter(|content| **content != 0) {
            if base.channels.get(*content).iter().any(|letter| letter.left() == 0) {
                return false;
            }
            waits = true;
        }
        waits
    }

    /// Whether nothing moves any more unless an application asks that need not, or something fails.
    pub(super) fn is_quiet(&self, base: &Tables<F>, model: &Model<F>) -> bool {
        let rests = |cell: &u32| {
            let meta = &base.metas[*cell as usize];
            meta.timers.is_empty() && !meta.asks.iter().any(|(is_fair, _)| *is_fair)
        };
        self.channels.iter().all(|content| *content == 0)
            && self.cells[..model.n()].iter().all(rests)
            && !self.actions.iter().any(|action| matches!(action, Action::Notice { .. }))
    }

    /// What is broken in the present state because nothing moves any more.
    pub(super) fn stuck(&mut self, base: &Tables<F>) -> u32 {
        let world = *self.cells.last().expect("the world comes last");
        if let Some(broken) = self.quiets.get(&world) {
            return *broken;
        }
        let mut breaches = Vec::new();
        base.worlds.get(world).ledger.quiet(&mut breaches);
        let broken = self.note(breaches);
        self.quiets.insert(world, broken);
        broken
    }
}
