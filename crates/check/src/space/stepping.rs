//! What comes of a step: for a process, for the world, for what is judged. Each is worked out once and remembered.

use conclave_algorithms::{Breach, Ledger};
use conclave_core::{Input, Protocol, Shown};

use super::losing::{keep, ways};
use super::{Cause, Change, Changed, Cost, Record, Retag, Tables, Trigger, Worker, channel, pairs};
use crate::action::Action;
use crate::effect::Outcome;
use crate::intern::LOCAL;
use crate::model::{ANNOUNCES, Budgets, Cut, Heard, Letter, Model, Said, Stepped, World, asks, crash};
use conclave_algorithms::application::App as _;
use conclave_algorithms::family::{EventOf, Family};

impl<F: Family> Worker<F> {
    /// A process takes a step. Says what that breaks, and whether a property could tell.
    pub(super) fn step(
        &mut self,
        base: &Tables<F>,
        model: &Model<F>,
        place: u8,
        Trigger { cause, from, tag, cost }: Trigger,
    ) -> (u32, bool) {
        let at = usize::from(place);
        let record = self.record(base, model, self.next_cells[at], place, cause);
        let Record { cell, is_silent, is_visible, multiplies_tokens, .. } = *self.at_record(record);
        self.next_cells[at] = cell;
        let mut changed =
            Changed { world: self.next_cells[model.n()], tag: 0, retag: Retag::Nothing, broken: 0 };
        if !is_silent || cost != Cost::Nothing || model.order {
            changed = self.change(base, model, Change::Step { place, record, from, tag, cost });
            self.retag(base, model, changed.retag);
        }
        let (life, ticks) = (self.meta(base, cell).life, model.ticks.unwrap_or(0));
        if self.found.facts.is_some() {
            self.learn(base, at, record);
        }
        for nth in 0..self.at_record(record).sends.len() {
            let (to, message) = self.at_record(record).sends[nth];
            let is_up = self.meta(base, self.next_cells[usize::from(to)]).is_up;
            self.found.sent.push((at, usize::from(to), message, !is_up));
            if is_up {
                let letter = Letter::new(message, changed.tag, life, ticks);
                self.send(base, model, at, usize::from(to), letter);
            }
        }
        // As long as there are no copies: of two of these, the first to arrive is the token.
        let has_copies =
            || self.world(base, self.next_cells[model.n()]).budgets.duplicates < model.budgets.duplicates;
        if multiplies_tokens && changed.broken == 0 && model.counts_tokens && !has_copies() {
            changed.broken = self.count_tokens(base);
        }
        (changed.broken, is_visible)
    }

    /// What an action that makes a process take a step means to it. A message is taken out of its channel; a process that
    /// restarts is up, but yet to be started.
    pub(super) fn trigger(&mut self, base: &Tables<F>, model: &Model<F>, action: Action) -> Trigger {
        match action {
            Action::Ask { place, nth } => {
                let (_, is_cancel) =
                    base.metas[self.cells[usize::from(place)] as usize].asks[usize::from(nth)];
                Trigger::of(Cause::Ask { nth }, if is_cancel { Cost::Cancel } else { Cost::Nothing })
            }
            Action::Timer { nth, .. } => Trigger::of(Cause::Timer { nth }, Cost::Nothing),
            Action::Notice { place, peer } => {
                let theirs = &base.metas[self.cells[usize::from(peer)] as usize];
                let heard = base.metas[self.cells[usize::from(place)] as usize].heard[usize::from(peer)];
                let heard =
                    heard.due(theirs.life, theirs.is_up, model.detector).expect("it is listed as due");
                Trigger::of(Cause::Notice { peer, heard }, Cost::Nothing)
            }
            Action::Suspect { peer, .. } => Trigger::of(Cause::Suspect { peer }, Cost::Suspicion),
            Action::Deliver(at) => Trigger::message(at.from, self.take(base, model.n(), at)),
            Action::Restart { .. }
            | Action::Drop(_)
            | Action::Duplicate(_)
            | Action::Crash { .. }
            | Action::Interrupt { .. }
            | Action::Tick => Trigger::START,
        }
    }

    /// Takes note of who sends to whom.
    pub(super) fn learn(&mut self, base: &Tables<F>, at: usize, record: u32) {
        let mut facts = self.found.facts.take().expect("facts are wanted");
        let role = (at, self.meta(base, self.cells[at]).phase);
        facts.note_move(role, self.meta(base, self.next_cells[at]).phase);
        for (to, _) in &self.at_record(record).sends {
            let to = usize::from(*to);
            facts.note_send(role, (to, self.meta(base, self.next_cells[to]).phase));
        }
        self.found.facts = Some(facts);
    }

    /// What a process does in a step, worked out once.
    pub(super) fn record(
        &mut self,
        base: &Tables<F>,
        model: &Model<F>,
        cell: u32,
        place: u8,
        cause: Cause,
    ) -> u32 {
        let key = (cell, place, cause);
        if let Some(record) = self.memo.get(&key).or_else(|| self.passing.get(&key)) {
            return *record;
        }
        let record = self.work_out(base, model, key);
        let lasting = cell & LOCAL == 0
            && record.is_lasting()
            && !matches!(cause, Cause::Deliver { message, .. } if message & LOCAL != 0);
        let (records, memo, bit) = match lasting {
            true => (&mut self.records, &mut self.memo, 0),
            false => (&mut self.passing_records, &mut self.passing, LOCAL),
        };
        let id = records.len() as u32 | bit;
        records.push(record);
        memo.insert(key, id);
        id
    }

    pub(super) fn work_out(
        &mut self,
        base: &Tables<F>,
        model: &Model<F>,
        (cell, place, cause): (u32, u8, Cause),
    ) -> Record<F> {
        let mut before = self.cell(base, cell).clone();
        let peer_id = |peer: u8| model.members.at(usize::from(peer));
        let mut carried = None;
        let input = match cause {
            Cause::Start => Input::Start,
            Cause::Ask { nth } => {
                let request = asks::<F>(&before).swap_remove(usize::from(nth)).request;
                before.app.asked(&request);
                Input::Request(request)
            }
            Cause::Timer { nth } => Input::Expire(before.timers.remove(usize::from(nth)).timer),
            Cause::Notice { peer, heard } => {
                before.heard[usize::from(peer)] = heard;
                match heard.is_down {
                    true => Input::PeerDown { peer: peer_id(peer), life: heard.life },
                    false => Input::PeerUp { peer: peer_id(peer), life: heard.life },
                }
            }
            Cause::Suspect { peer } => {
                let heard = &mut before.heard[usize::from(peer)];
                heard.is_down = true;
                Input::PeerDown { peer: peer_id(peer), life: heard.life }
            }
            Cause::Deliver { from, message } => {
                let message = self.message(base, message).clone();
                carried = F::token_in(&message);
                Input::Receive { from: peer_id(from), message }
            }
        };
        let held = before.state.as_ref().and_then(F::token);
        let was_inside = self.cell(base, cell).app.is_inside();
        let Stepped { cell, sends, events, cuts } = model.step(&before, usize::from(place), input.clone());
        let (multiplies_tokens, keeps_tokens) = if F::is_token_based(&model.config) {
            let mut old: Vec<_> = held.into_iter().chain(carried).collect();
            let sent = sends.iter().filter_map(|(_, message)| F::token_in(message));
            let mut new: Vec<_> = cell.state.as_ref().and_then(F::token).into_iter().chain(sent).collect();
            old.sort_unstable();
            new.sort_unstable();
            (new.len() > old.len() || new.last() > old.last(), new == old)
        } else {
            (false, true)
        };
        let asks = matches!(input, Input::Request(_) | Input::PeerDown { .. } | Input::PeerUp { .. });
        let is_silent = events.is_empty() && !asks && !F::LOOKS_AT_STATES;
        let is_visible = !events.is_empty() || was_inside != cell.app.is_inside() || multiplies_tokens;
        let sends =
            sends.into_iter().map(|(to, message)| (to as u8, self.message_id(base, message))).collect();
        let cell = self.cell_id(base, cell);
        let cuts = cuts.into_iter().map(|Cut { cell, sends, events, effects }| Cut {
            cell: self.cell_id(base, cell),
            sends,
            events,
            effects,
        });
        let cuts = cuts.collect();
        Record {
            cell,
            sends,
            input,
            said: events.into(),
            is_silent,
            is_visible,
            multiplies_tokens,
            keeps_tokens,
            cuts,
        }
    }

    /// What a process does with an input, in numbers of the tables, and what it says.
    pub fn outcome(
        &mut self,
        tables: &mut Tables<F>,
        model: &Model<F>,
        (cell, place, cause): (u32, u8, Cause),
    ) -> (Outcome, Box<[Said<EventOf<F>>]>) {
        let mut record = self.record(tables, model, cell, place, cause);
        if record & LOCAL != 0 {
            tables.absorb(self, model.fifo);
            record = self.record(tables, model, cell, place, cause);
        }
        let Record { cell, sends, said, is_silent, is_visible, keeps_tokens, .. } = self.at_record(record);
        let is_hidden = *is_silent && !is_visible && *keeps_tokens;
        let outcome = Outcome {
            cell: *cell,
            sends: sends.as_ref().into(),
            said: 0,
            is_hidden,
            keeps_tokens: *keeps_tokens,
        };
        (outcome, said.clone())
    }

    /// What happens to the world, worked out once.
    pub(super) fn change(&mut self, base: &Tables<F>, model: &Model<F>, change: Change) -> Changed {
        let n = model.n();
        let key = (self.next_cells[n], change);
        let changed = match self.changes.get(&key) {
            Some(changed) => *changed,
            None => {
                let changed = self.work_out_change(base, model, key);
                let passing = matches!(
                    change,
                    Change::Step { record, .. } | Change::Interrupt { record, .. } if record & LOCAL != 0
                );
                if key.0 & LOCAL == 0 && changed.world & LOCAL == 0 && !passing {
                    self.changes.insert(key, changed);
                }
                changed
            }
        };
        self.next_cells[n] = changed.world;
        changed
    }

    pub(super) fn work_out_change(
        &mut self,
        base: &Tables<F>,
        model: &Model<F>,
        (world, change): (u32, Change),
    ) -> Changed {
        let mut world = self.world(base, world).clone();
        let mut breaches = Vec::new();
        let (mut tag, mut retag) = (0, Retag::Nothing);
        match change {
            Change::Step { place, record, from, tag: heard, cost } => {
                cost.spend(&mut world.budgets);
                (tag, retag) =
                    self.judge(base, model, &mut world, place, (record, None), (from, heard), &mut breaches);
            }
            Change::Crash { place, loses } => {
                fall(&mut world, place, loses, false);
                retag = Retag::Over(place);
            }
            Change::Interrupt { place, record, cut, from, tag: heard, cost, loses } => {
                cost.spend(&mut world.budgets);
                let step = (record, Some(cut));
                (tag, retag) = self.judge(base, model, &mut world, place, step, (from, heard), &mut breaches);
                // Who is down has no request, so that nothing announces it.
                tag &= !ANNOUNCES;
                if retag == Retag::Nothing {
                    retag = Retag::Over(place);
                }
                fall(&mut world, place, loses, true);
            }
            Change::Revival { place, life } => {
                world.budgets.restarts -= 1;
                if world.budgets.amnesia {
                    world.ledger.forget(usize::from(place));
                }
                world.ledger.restart(usize::from(place), life);
            }
            Change::Drop => {
                world.budgets.drops -= 1;
                world.ledger.disturb();
            }
            Change::Duplicate => {
                world.budgets.duplicates -= 1;
                world.ledger.disturb();
            }
        }
        self.found.met.note(&model.budgets, &world.budgets, world.ledger.sees());
        let broken = self.note(breaches);
        Changed { world: self.world_id(base, world), tag, retag, broken }
    }

    /// Tells the ledger of a step, or of what was done of it before the process crashed.
    #[expect(clippy::too_many_arguments, reason = "all of it describes one step")]
    pub(super) fn judge(
        &mut self,
        base: &Tables<F>,
        model: &Model<F>,
        world: &mut World<F::Ledger>,
        place: u8,
        (record, cut): (u32, Option<u8>),
        (from, heard): (u8, u16),
        breaches: &mut Vec<Breach>,
    ) -> (u16, Retag) {
        let at = usize::from(place);
        let id = model.members.at(at);
        let World { ledger, knowledge, .. } = world;
        let record = self.at_record(record);
        let (sends, said) = match cut {
            None => (&record.sends[..], &record.said[..]),
            Some(cut) => {
                let Cut { sends, events, .. } = record.cuts[usize::from(cut)];
                (&record.sends[..sends], &record.said[..events])
            }
        };
        if model.order && knowledge.hear(at, usize::from(from), heard) {
            ledger.known(usize::from(from));
        }
        ledger.clock(at, Shown { truth: 0, ahead: model.clocks[at].0 });
        ledger.input(at, &record.input);
        for (to, message) in sends {
            ledger.sent(at, usize::from(*to), self.message(base, *message));
        }
        let asks = F::begins_waiting(&record.input);
        if model.order && asks {
            let others = knowledge.ask(at);
            ledger.follows(at, u64::from(others));
        }
        let mut is_over = F::gives_up(&record.input);
        if model.order && asks {
            for (_, message) in sends {
                ledger.announce(at, id, self.message(base, *message));
            }
            knowledge.announcing[at] = sends.len() as u8;
        }
        let mut overtaking = 0;
        for said in said {
            match said {
                Said::Event(event) => {
                    ledger.emit(at, event, breaches);
                    overtaking = overtaking.max(ledger.overtaking());
                    is_over |= F::ends_waiting(event);
                }
                Said::Reject(from, why) => ledger.reject(at, *from, why, breaches),
                Said::Invariant(why) => ledger.invariant(at, why, breaches),
            }
        }
        let cell = if record.cell & LOCAL == 0 {
            base.cells.get(record.cell)
        } else {
            self.local.cells.get(record.cell & !LOCAL)
        };
        if let Some(state) = &cell.state {
            ledger.handled(at, state, breaches);
        }
        if model.order && asks && !is_over && sends.is_empty() {
            ledger.known(at);
        }
        let tag = match model.order {
            true => knowledge.knows[at] | if asks && !is_over { ANNOUNCES } else { 0 },
            false => 0,
        };
        let retag = match (model.order, asks, is_over) {
            (false, ..) | (_, false, false) => Retag::Nothing,
            (_, _, true) => {
                knowledge.announcing[at] = 0;
                if asks { Retag::New(place) } else { Retag::Over(place) }
            }
            (_, true, false) => Retag::New(place),
        };
        self.found.overtaking = self.found.overtaking.max(overtaking);
        (tag, retag)
    }

    /// Changes what the messages in flight tell of requests.
    pub(super) fn retag(&mut self, base: &Tables<F>, model: &Model<F>, retag: Retag) {
        if !model.order {
            return;
        }
        let n = model.n();
        for (from, to) in pairs(n) {
            let place = channel(n, from, to);
            let content = self.next_channels[place];
            let concerned = match retag {
                Retag::Nothing => false,
                Retag::New(_) => true,
                Retag::Over(of) => usize::from(of) == from,
            };
            if content == 0 || !concerned {
                continue;
            }
            let mut letters = core::mem::take(&mut self.letters);
            letters.clear();
            letters.extend(self.letters(base, content).iter().map(|letter| match retag {
                Retag::Nothing => *letter,
                Retag::New(of) => {
                    let tag = letter.tag() & !(1 << of);
                    letter.with_tag(if usize::from(of) == from { tag & !ANNOUNCES } else { tag })
                }
                Retag::Over(_) => letter.with_tag(letter.tag() & !ANNOUNCES),
            }));
            if !model.fifo {
                letters.sort_unstable();
            }
            self.letters = letters;
            self.next_channels[place] = self.channel_id(base);
        }
    }

    /// What is broken if there are too many tokens.
    pub(super) fn count_tokens(&mut self, base: &Tables<F>) -> u32 {
        let (cells, _) = self.next_cells.split_at(self.next_cells.len() - 1);
        let held = cells.iter().filter_map(|cell| self.meta(base, *cell).token);
        let letters = self.next_channels.iter().flat_map(|content| self.letters(base, *content));
        let carried = letters.filter_map(|letter| F::token_in(self.message(base, letter.message())));
        let tokens: Vec<_> = held.chain(carried).collect();
        F::too_many(&tokens).map_or(0, |breach| self.note(vec![breach]))
    }

    pub(super) fn crash(&mut self, base: &Tables<F>, model: &Model<F>, place: u8, loss: u16) -> u32 {
        let at = usize::from(place);
        let mut cell = base.cells.get(self.cells[at]).clone();
        crash::<F>(&mut cell);
        self.next_cells[at] = self.cell_id(base, cell);
        self.close(base, model, at, &[], loss);
        let changed = self.change(base, model, Change::Crash { place, loses: !self.found.lost.is_empty() });
        self.retag(base, model, changed.retag);
        changed.broken
    }

    /// A process crashes inside the step that an action makes it take.
    pub(super) fn interrupt(
        &mut self,
        base: &Tables<F>,
        model: &Model<F>,
        place: u8,
        (step, cut): (Action, u8),
        loss: u16,
    ) -> u32 {
        let at = usize::from(place);
        let broken = match step {
            Action::Restart { .. } => self.revive(base, model, place),
            _ => 0,
        };
        let Trigger { cause, from, tag, cost } = self.trigger(base, model, step);
        let record = self.record(base, model, self.next_cells[at], place, cause);
        let Cut { cell, sends, effects, .. } = self.at_record(record).cuts[usize::from(cut)];
        let sends: Vec<_> = self.at_record(record).sends[..sends].to_vec();
        self.found.interrupted = Some(effects);
        self.next_cells[at] = cell;
        let kept = self.close(base, model, at, &sends, loss);
        let loses = !self.found.lost.is_empty();
        let change = Change::Interrupt { place, record, cut, from, tag, cost, loses };
        let changed = self.change(base, model, change);
        self.retag(base, model, changed.retag);
        let (life, ticks) = (self.meta(base, cell).life, model.ticks.unwrap_or(0));
        for ((to, message), is_kept) in sends.into_iter().zip(kept) {
            let is_up = self.meta(base, self.next_cells[usize::from(to)]).is_up;
            self.found.sent.push((at, usize::from(to), message, !is_up));
            if is_kept {
                let letter = Letter::new(message, changed.tag, life, ticks);
                self.send(base, model, at, usize::from(to), letter);
            }
        }
        if broken == 0 { changed.broken } else { broken }
    }

    /// In how many ways a process may lose what it has sent, and sends now.
    pub(super) fn losses(&self, base: &Tables<F>, model: &Model<F>, at: usize, sends: &[(u8, u32)]) -> usize {
        let ways = (0..model.n()).filter(|to| *to != at).map(|to| {
            let old = base.channels.get(self.channels[channel(model.n(), at, to)]);
            ways(model.fifo, old, self.sends_to(base, to, sends))
        });
        ways.fold(1, usize::saturating_mul)
    }

    /// How many of these messages are in flight to a process; none if it is down.
    fn sends_to(&self, base: &Tables<F>, to: usize, sends: &[(u8, u32)]) -> usize {
        let is_up = base.metas[self.cells[to] as usize].is_up;
        if is_up { sends.iter().filter(|(other, _)| usize::from(*other) == to).count() } else { 0 }
    }

    /// The channels of a process that crashes: what is in flight to it is gone, and some of what it has sent, and sends
    /// now, is lost. Says of the latter which are left.
    fn close(
        &mut self,
        base: &Tables<F>,
        model: &Model<F>,
        at: usize,
        sends: &[(u8, u32)],
        loss: u16,
    ) -> Vec<bool> {
        let n = model.n();
        let mut left = vec![false; sends.len()];
        let mut loss = usize::from(loss);
        for to in (0..n).filter(|to| *to != at) {
            self.next_channels[channel(n, to, at)] = 0;
            let old = base.channels.get(self.channels[channel(n, at, to)]);
            let new = self.sends_to(base, to, sends);
            let ways = ways(model.fifo, old, new);
            let way = loss % ways;
            loss /= ways;
            let kept = keep(model.fifo, old, new, way);
            if way > 0 {
                let mut rest = kept.old.iter().peekable();
                let lost = old.iter().filter(|letter| rest.next_if_eq(letter).is_none());
                self.found.lost.extend(lost.map(|letter| (at, to, letter.message())));
                self.letters.clone_from(&kept.old);
                let content = if self.letters.is_empty() { 0 } else { self.channel_id(base) };
                self.next_channels[channel(n, at, to)] = content;
            }
            let own = (0..sends.len()).filter(|nth| new > 0 && usize::from(sends[*nth].0) == to);
            for (nth, is_kept) in own.zip(kept.new) {
                left[nth] = is_kept;
                self.found.lost.extend((!is_kept).then_some((at, to, sends[nth].1)));
            }
        }
        left
    }

    /// A process is up again, and yet to be started.
    pub(super) fn revive(&mut self, base: &Tables<F>, model: &Model<F>, place: u8) -> u32 {
        let at = usize::from(place);
        let old = base.cells.get(self.cells[at]);
        let saved = old.durable.clone().filter(|_| !model.budgets.amnesia);
        let life = old.life.next();
        let mut cell = model.boot(at, life, saved, old.app.clone());
        cell.heard = self.cells[..model.n()]
            .iter()
            .map(|peer| Heard { life: base.metas[*peer as usize].life, is_down: false })
            .collect();
        cell.heard[at].life = life;
        self.next_cells[at] = self.cell_id(base, cell);
        self.change(base, model, Change::Revival { place, life }).broken
    }

    pub(super) fn restart(&mut self, base: &Tables<F>, model: &Model<F>, place: u8) -> u32 {
        let revived = self.revive(base, model, place);
        let (broken, _) = self.step(base, model, place, Trigger::START);
        if revived == 0 { broken } else { revived }
    }

    /// Time passes for everyone.
    pub(super) fn tick(&mut self, base: &Tables<F>, n: usize) {
        for place in 0..n {
            let id = self.cells[place];
            if base.metas[id as usize].timers.is_empty() {
                continue;
            }
            self.next_cells[place] = match self.ticked.get(&id) {
                Some(later) => *later,
                None => {
                    let mut cell = base.cells.get(id).clone();
                    for armed in &mut cell.timers {
                        armed.min = armed.min.saturating_sub(1);
                        armed.max -= 1;
                    }
                    let later = self.cell_id(base, cell);
                    if later & LOCAL == 0 {
                        self.ticked.insert(id, later);
                    }
                    later
                }
            };
        }
        for place in 0..self.channels.len() {
            if self.channels[place] != 0 {
                self.letters.clear();
                self.letters
                    .extend(base.channels.get(self.channels[place]).iter().map(|letter| letter.aged()));
                self.next_channels[place] = self.channel_id(base);
            }
        }
    }
}

impl Cost {
    fn spend(self, budgets: &mut Budgets) {
        match self {
            Self::Nothing => {}
            Self::Cancel => budgets.cancels -= 1,
            Self::Suspicion => budgets.suspicions -= 1,
        }
    }
}

/// The world after a crash.
fn fall<P: Protocol, L: Ledger<P>>(world: &mut World<L>, place: u8, loses: bool, is_inside: bool) {
    world.budgets.crashes -= 1;
    world.ledger.crash(usize::from(place));
    world.knowledge.forget(usize::from(place));
    if loses || is_inside {
        world.ledger.unheard();
    }
}
