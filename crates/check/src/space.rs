//! The state space: global states as pairs of numbers, and what follows from each.
//!
//! A worker expands states against tables that nobody changes meanwhile. What it meets for the first time gets numbers of
//! its own ([`LOCAL`]), which are replaced when the tables take it over. What a process does in a step is worked out once
//! per (cell, input) and remembered, and so is what a step does to the world.

mod listing;
mod losing;
mod stepping;
mod tables;

use core::hash::BuildHasher;
use std::collections::{BTreeMap, BTreeSet};

use conclave_algorithms::Breach;
use conclave_algorithms::family::MessageOf;
use conclave_core::{Incarnation, Input, Protocol};

use crate::action::{Action, Place, Task};
use crate::coverage::Met;
use crate::intern::{Fixed, LOCAL, Memo, hash_words};
use crate::model::{ANNOUNCES, Budgets, CellOf, Cut, Heard, Letter, Model, ProtocolOf, Said, World};
use crate::normal::Normaliser;
use crate::reduce::Facts;
use conclave_algorithms::family::Family;

pub use tables::{Meta, Renumbered, Tables};

/// A global state: the number of the node of each process, and the number of the world.
pub type Root = Vec<u32>;

/// The place of a channel among all channels: those to the same receiver stand together.
#[inline(always)]
pub fn channel(n: usize, from: usize, to: usize) -> usize {
    to * (n - 1) + from - usize::from(from > to)
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The property's code.
    pub property: &'static str,
    /// What happened, in a sentence.
    pub detail: String,
}

/// Something that may happen in a state, and what comes of it.
#[derive(Clone, Copy, Debug)]
pub struct Transition {
    pub task: Task,
    /// The number, among the worker's, of what it breaks; 0 if nothing.
    pub broken: u32,
    /// Whether a property could tell that it happened.
    pub is_visible: bool,
}

/// What a step of a process comes to.
struct Record<F: Family> {
    cell: u32,
    sends: Box<[(u8, u32)]>,
    input: Input<ProtocolOf<F>>,
    said: Box<[Said<<ProtocolOf<F> as Protocol>::Event>]>,
    /// Whether the world has nothing to learn from it.
    is_silent: bool,
    /// Whether a property could tell that it happened.
    is_visible: bool,
    /// Whether there may be more tokens than before.
    multiplies_tokens: bool,
    /// Whether there are the same tokens as before.
    keeps_tokens: bool,
    /// Where in it the process may crash.
    cuts: Box<[Cut<u32>]>,
}

impl<F: Family> Record<F> {
    /// Whether it makes sense beyond this worker and this moment.
    fn is_lasting(&self) -> bool {
        self.cell & LOCAL == 0
            && self.sends.iter().all(|(_, message)| message & LOCAL == 0)
            && self.cuts.iter().all(|cut| cut.cell & LOCAL == 0)
    }
}

/// What makes a process take a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    Start,
    Ask { nth: u8 },
    Timer { nth: u8 },
    Notice { peer: u8, heard: Heard },
    Suspect { peer: u8 },
    Deliver { from: u8, message: u32 },
}

/// What makes a process take a step, and what that means for the world.
#[derive(Clone, Copy, Debug)]
struct Trigger {
    cause: Cause,
    /// The sender of the message and what it tells of requests, if it is one.
    from: u8,
    tag: u16,
    cost: Cost,
}

impl Trigger {
    const START: Self = Self::of(Cause::Start, Cost::Nothing);

    const fn of(cause: Cause, cost: Cost) -> Self {
        Self { cause, from: 0, tag: 0, cost }
    }

    fn message(from: u8, letter: Letter) -> Self {
        let cause = Cause::Deliver { from, message: letter.message() };
        Self { cause, from, tag: letter.tag(), cost: Cost::Nothing }
    }
}

/// What happens to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Change {
    /// A process took a step, because of a message with this tag if it was a message.
    Step {
        place: u8,
        record: u32,
        from: u8,
        tag: u16,
        cost: Cost,
    },
    /// A process crashed, and perhaps lost what it had sent.
    Crash {
        place: u8,
        loses: bool,
    },
    /// A process crashed inside a step.
    Interrupt {
        place: u8,
        record: u32,
        cut: u8,
        from: u8,
        tag: u16,
        cost: Cost,
        loses: bool,
    },
    Revival {
        place: u8,
        life: Incarnation,
    },
    Drop,
    Duplicate,
}

/// What a step takes from the budgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Cost {
    Nothing,
    Cancel,
    Suspicion,
}

/// What comes of it.
#[derive(Clone, Copy, Debug)]
struct Changed {
    world: u32,
    /// What the messages of this step tell of requests.
    tag: u16,
    retag: Retag,
    broken: u32,
}

/// How what messages in flight tell of requests has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retag {
    Nothing,
    /// This process has a new request: nobody has heard of it yet.
    New(u8),
    /// This process has none any more: nothing announces it.
    Over(u8),
}

/// Expands states.
pub struct Worker<F: Family> {
    local: Tables<F>,
    records: Vec<Record<F>>,
    memo: Memo<(u32, u8, Cause), u32>,
    changes: Memo<(u32, Change), Changed>,
    ticked: Memo<u32, u32>,
    quiets: Memo<u32, u32>,
    /// The same with numbers of this worker, good until the tables take them over.
    passing_records: Vec<Record<F>>,
    passing: Memo<(u32, u8, Cause), u32>,
    normaliser: Normaliser,
    pub found: Found,
    /// The present state, the cells and world in it, and its channels.
    present: Vec<u32>,
    cells: Vec<u32>,
    channels: Vec<u32>,
    /// The state that is being put together, in the same way.
    next: Vec<u32>,
    pub(crate) next_cells: Vec<u32>,
    pub(crate) next_channels: Vec<u32>,
    pub(crate) letters: Vec<Letter>,
    node: Vec<u32>,
    actions: Vec<Action>,
}

/// What a worker has found, beside states.
#[derive(Default)]
pub struct Found {
    /// What was found broken, from number 1 on.
    pub broken: Vec<Broken>,
    /// What is not promised and was seen broken.
    pub unpromised: BTreeMap<&'static str, String>,
    /// The most entries by others that a known request had to see.
    pub overtaking: u64,
    /// What the last step sent: from, to, the message, and whether its receiver is down.
    pub sent: Vec<(usize, usize, u32, bool)>,
    /// What the last crash lost: from, to, the message.
    pub lost: Vec<(usize, usize, u32)>,
    /// After how many effects of its step the last crash came, if it was inside one.
    pub interrupted: Option<u32>,
    /// Whether there were more ways to crash than can be followed.
    pub is_crowded: bool,
    /// Which situations were met.
    pub met: Met,
    /// Who was seen to send to whom, where that is wanted.
    pub facts: Option<Facts>,
}

/// What may happen in a state.
#[derive(Default)]
pub struct Expansion {
    /// By the number of the action.
    pub transitions: Vec<(u16, Transition)>,
    /// Where they lead, one state after the other.
    pub roots: Vec<u32>,
    /// The number of what is broken because nothing moves any more; 0 if nothing.
    pub stuck: u32,
}

impl Expansion {
    fn clear(&mut self) {
        self.transitions.clear();
        self.roots.clear();
        self.stuck = 0;
    }

    fn push(&mut self, nth: u16, transition: Transition, root: &[u32]) {
        self.transitions.push((nth, transition));
        self.roots.extend_from_slice(root);
    }
}

impl<F: Family> Worker<F> {
    pub fn new(n: usize) -> Self {
        Self {
            local: Tables::new(n),
            records: Vec::new(),
            memo: Memo::default(),
            changes: Memo::default(),
            ticked: Memo::default(),
            quiets: Memo::default(),
            passing_records: Vec::new(),
            passing: Memo::default(),
            normaliser: Normaliser::default(),
            found: Found::default(),
            present: Vec::new(),
            cells: Vec::new(),
            channels: Vec::new(),
            next: Vec::new(),
            next_cells: Vec::new(),
            next_channels: Vec::new(),
            letters: Vec::new(),
            node: Vec::new(),
            actions: Vec::new(),
        }
    }

    /// Everything that may happen in a state, and what comes of it.
    pub fn expand(&mut self, base: &Tables<F>, model: &Model<F>, root: &[u32], out: &mut Expansion) {
        self.visit(base, model, root);
        out.clear();
        out.stuck = if self.is_quiet(base, model) { self.stuck(base) } else { 0 };
        // Crashes at different places may come to the same.
        let mut crashes = BTreeSet::new();
        for nth in 0..self.actions.len() {
            let action = self.actions[nth];
            let transition = self.follow(base, model, action);
            if model.cuts_steps && action.is_crash() && !crashes.insert(self.next.clone()) {
                continue;
            }
            out.push(nth as u16, transition, &self.next);
        }
    }

    /// Where the last action led.
    pub fn next(&self) -> &[u32] {
        &self.next
    }

    /// A process handles its start, before the search begins. Returns the number of what that breaks; 0 if nothing.
    pub fn start(&mut self, base: &Tables<F>, model: &Model<F>, root: &[u32], place: u8) -> u32 {
        self.visit(base, model, root);
        self.found.sent.clear();
        self.next_cells.clone_from(&self.cells);
        self.next_channels.clone_from(&self.channels);
        let (broken, _) = self.step(base, model, place, Trigger::START);
        self.arrive(base);
        broken
    }

    /// The same state with its numbers moved down.
    pub fn normal(&mut self, base: &Tables<F>, model: &Model<F>, root: &[u32]) {
        self.visit(base, model, root);
        self.next_cells.clone_from(&self.cells);
        self.next_channels.clone_from(&self.channels);
        self.normalise(base, model);
        self.arrive(base);
    }

    /// Only what may happen at one process, if no property can tell and it leads to a state not seen before. Says whether
    /// that is so.
    pub fn try_only(
        &mut self,
        base: &Tables<F>,
        model: &Model<F>,
        place: usize,
        is_new: impl Fn(&[u32]) -> bool,
        out: &mut Expansion,
    ) -> bool {
        out.clear();
        let mut leads_on = false;
        let mut is_hidden = true;
        for nth in 0..self.actions.len() {
            let action = self.actions[nth];
            if action.process() != Some(place) {
                continue;
            }
            let transition = self.follow(base, model, action);
            // What need not happen must not be put before all else: without it the others may come to a dead end.
            let must_happen = transition.task != Task::Optional;
            is_hidden &= must_happen && !transition.is_visible && transition.broken == 0;
            leads_on |= is_new(&self.next);
            out.push(nth as u16, transition, &self.next);
            if !is_hidden {
                break;
            }
        }
        is_hidden && leads_on
    }

    /// Only one of the things that may happen in a state.
    pub fn only(&mut self, base: &Tables<F>, model: &Model<F>, root: &[u32], nth: u16, out: &mut Expansion) {
        self.visit(base, model, root);
        out.clear();
        let transition = self.follow(base, model, self.actions[usize::from(nth)]);
        out.push(nth, transition, &self.next);
    }

    /// What may still go wrong in the present state.
    pub fn budgets(&self, base: &Tables<F>, model: &Model<F>) -> Budgets {
        base.worlds.get(self.cells[model.n()]).budgets
    }

    /// What the application of a process is doing in the present state, roughly.
    pub fn phase(&self, base: &Tables<F>, place: usize) -> u8 {
        base.metas[self.cells[place] as usize].phase
    }

    /// Bytes of what is remembered.
    pub fn bytes(&self) -> usize {
        let records = self.records.capacity() * size_of::<Record<F>>();
        let memo = self.memo.capacity() * (size_of::<(u32, u8, Cause)>() + size_of::<u32>() + 1);
        let changes = self.changes.capacity() * (size_of::<(u32, Change)>() + size_of::<Changed>() + 1);
        records + memo + changes + self.local.bytes()
    }

    /// Takes note of what was broken; the number of the first promise among it.
    fn note(&mut self, breaches: Vec<Breach>) -> u32 {
        let mut first = 0;
        for Breach { property, detail, promised } in breaches {
            if !promised {
                self.found.unpromised.entry(property).or_insert(detail);
            } else if first == 0 {
                self.found.broken.push(Broken { property, detail });
                first = self.found.broken.len() as u32;
            }
        }
        first
    }

    /// What comes of an action in the present state.
    pub fn follow(&mut self, base: &Tables<F>, model: &Model<F>, action: Action) -> Transition {
        let n = model.n();
        self.found.sent.clear();
        self.found.lost.clear();
        self.found.interrupted = None;
        self.next_cells.clone_from(&self.cells);
        self.next_channels.clone_from(&self.channels);
        let mut task = Task::Optional;
        let (mut broken, mut is_visible) = (0, true);
        match action {
            Action::Ask { place, nth } => {
                let (is_fair, _) = base.metas[self.cells[usize::from(place)] as usize].asks[usize::from(nth)];
                if is_fair {
                    task = Task::Application { place };
                }
                let trigger = self.trigger(base, model, action);
                (broken, is_visible) = self.step(base, model, place, trigger);
            }
            Action::Timer { place, nth } => {
                task = Task::Timer { place, timer: self.timer_id(base, place, nth) };
                let trigger = self.trigger(base, model, action);
                (broken, is_visible) = self.step(base, model, place, trigger);
            }
            Action::Notice { place, peer } => {
                task = Task::Detector { place, peer };
                let trigger = self.trigger(base, model, action);
                (broken, _) = self.step(base, model, place, trigger);
            }
            Action::Suspect { place, .. } => {
                let trigger = self.trigger(base, model, action);
                (broken, _) = self.step(base, model, place, trigger);
            }
            Action::Deliver(at) => {
                let letter = self.take(base, n, at);
                let (from, message) = (at.from, letter.message());
                task = match model.fifo {
                    true => Task::Channel { from, to: at.to },
                    false => Task::Message { from, to: at.to, message },
                };
                (broken, is_visible) = self.step(base, model, at.to, Trigger::message(from, letter));
            }
            Action::Drop(at) => {
                self.take(base, n, at);
                broken = self.change(base, model, Change::Drop).broken;
            }
            Action::Duplicate(at) => {
                let place = channel(n, usize::from(at.from), usize::from(at.to));
                self.letters.clear();
                self.letters.extend_from_slice(base.channels.get(self.channels[place]));
                let nth = usize::from(at.nth);
                // Of two copies, the first to have been sent announces a request.
                let copy = self.letters[nth].with_tag(self.letters[nth].tag() & !ANNOUNCES);
                self.letters.insert(nth + 1, copy);
                if !model.fifo {
                    self.letters.sort_unstable();
                }
                self.next_channels[place] = self.channel_id(base);
                broken = self.change(base, model, Change::Duplicate).broken;
            }
            Action::Crash { place, loss } => broken = self.crash(base, model, place, loss),
            Action::Interrupt { place, step, cut, loss } => {
                let step = self.actions[usize::from(step)];
                broken = self.interrupt(base, model, place, (step, cut), loss);
            }
            Action::Restart { place } => broken = self.restart(base, model, place),
            Action::Tick => {
                task = Task::Time;
                is_visible = false;
                self.tick(base, n);
            }
        }
        if model.normalise {
            self.normalise(base, model);
        }
        self.arrive(base);
        Transition { task, broken, is_visible }
    }

    /// Numbers the state that has been put together.
    #[inline]
    fn arrive(&mut self, base: &Tables<F>) {
        self.next.clone_from(&self.present);
        let n = self.next.len() - 1;
        self.next[n] = self.next_cells[n];
        for place in 0..n {
            let incoming = place * (n - 1)..(place + 1) * (n - 1);
            if self.next_cells[place] == self.cells[place]
                && self.next_channels[incoming.clone()] == self.channels[incoming.clone()]
            {
                continue;
            }
            self.node.clear();
            self.node.push(self.next_cells[place]);
            self.node.extend_from_slice(&self.next_channels[incoming]);
            let hash = hash_words(&self.node);
            self.next[place] = match base.nodes.find(hash, &self.node) {
                Some(id) => id,
                None => LOCAL | self.local.nodes.intern(hash, &self.node),
            };
        }
    }

    pub(crate) fn cell_id(&mut self, base: &Tables<F>, cell: CellOf<F>) -> u32 {
        let hash = Fixed.hash_one(&cell);
        match base.cells.find(hash, &cell) {
            Some(id) => id,
            None => LOCAL | self.local.put_cell(hash, cell),
        }
    }

    pub(crate) fn message_id(&mut self, base: &Tables<F>, message: MessageOf<F>) -> u32 {
        let hash = Fixed.hash_one(&message);
        match base.messages.find(hash, &message) {
            Some(id) => id,
            None => LOCAL | self.local.messages.intern(hash, message).0,
        }
    }

    pub(crate) fn world_id(&mut self, base: &Tables<F>, world: World<F::Ledger>) -> u32 {
        let hash = Fixed.hash_one(&world);
        match base.worlds.find(hash, &world) {
            Some(id) => id,
            None => LOCAL | self.local.worlds.intern(hash, world).0,
        }
    }

    fn timer_id(&mut self, base: &Tables<F>, place: u8, nth: u8) -> u32 {
        let timer = &base.cells.get(self.cells[usize::from(place)]).timers[usize::from(nth)].timer;
        let hash = Fixed.hash_one(timer);
        match base.timers.find(hash, timer) {
            Some(id) => id,
            None => LOCAL | self.local.timers.intern(hash, timer.clone()).0,
        }
    }

    /// The number of the letters that have been put together.
    #[inline]
    pub(crate) fn channel_id(&mut self, base: &Tables<F>) -> u32 {
        let hash = Fixed.hash_one(&self.letters[..]);
        if let Some(id) = base.channels.find_by(hash, |letters| **letters == self.letters[..]) {
            return id;
        }
        LOCAL | self.local.channels.intern(hash, self.letters.as_slice().into()).0
    }

    #[inline]
    pub(crate) fn cell<'a>(&'a self, base: &'a Tables<F>, id: u32) -> &'a CellOf<F> {
        if id & LOCAL == 0 { base.cells.get(id) } else { self.local.cells.get(id & !LOCAL) }
    }

    #[inline]
    fn meta<'a>(&'a self, base: &'a Tables<F>, id: u32) -> &'a Meta {
        if id & LOCAL == 0 { &base.metas[id as usize] } else { &self.local.metas[(id & !LOCAL) as usize] }
    }

    #[inline]
    pub(crate) fn message<'a>(&'a self, base: &'a Tables<F>, id: u32) -> &'a MessageOf<F> {
        if id & LOCAL == 0 { base.messages.get(id) } else { self.local.messages.get(id & !LOCAL) }
    }

    pub(crate) fn world<'a>(&'a self, base: &'a Tables<F>, id: u32) -> &'a World<F::Ledger> {
        if id & LOCAL == 0 { base.worlds.get(id) } else { self.local.worlds.get(id & !LOCAL) }
    }

    #[inline]
    pub(crate) fn letters<'a>(&'a self, base: &'a Tables<F>, id: u32) -> &'a [Letter] {
        if id & LOCAL == 0 { base.channels.get(id) } else { self.local.channels.get(id & !LOCAL) }
    }

    #[inline]
    fn at_record(&self, id: u32) -> &Record<F> {
        match id & LOCAL {
            0 => &self.records[id as usize],
            _ => &self.passing_records[(id & !LOCAL) as usize],
        }
    }

    /// Takes a message out of its channel.
    #[inline]
    fn take(&mut self, base: &Tables<F>, n: usize, at: Place) -> Letter {
        let place = channel(n, usize::from(at.from), usize::from(at.to));
        self.letters.clear();
        self.letters.extend_from_slice(base.channels.get(self.channels[place]));
        let letter = self.letters.remove(usize::from(at.nth));
        self.next_channels[place] = if self.letters.is_empty() { 0 } else { self.channel_id(base) };
        letter
    }

    /// Puts a message into its channel.
    #[inline]
    fn send(&mut self, base: &Tables<F>, model: &Model<F>, from: usize, to: usize, letter: Letter) {
        let place = channel(model.n(), from, to);
        let mut letters = core::mem::take(&mut self.letters);
        letters.clear();
        letters.extend_from_slice(self.letters(base, self.next_channels[place]));
        let nth = if model.fifo { letters.len() } else { letters.partition_point(|other| *other <= letter) };
        letters.insert(nth, letter);
        self.letters = letters;
        self.next_channels[place] = self.channel_id(base);
    }

    fn normalise(&mut self, base: &Tables<F>, model: &Model<F>) {
        let mut normaliser = core::mem::take(&mut self.normaliser);
        normaliser.run(self, base, model);
        self.normaliser = normaliser;
    }
}

/// All channels: from whom to whom.
pub fn pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |from| (0..n).filter(move |to| *to != from).map(move |to| (from, to)))
}
