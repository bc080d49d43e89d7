//! The state space: global states as pairs of numbers, and what follows from each.
//!
//! A worker expands states against tables that nobody changes meanwhile. What it meets for the first time gets numbers of
//! its own ([`LOCAL`]), which are replaced when the tables take it over. What a process does in a step is worked out once
//! per (cell, input) and remembered, and so is what a step does to the world.

use core::hash::BuildHasher;
use std::collections::BTreeMap;

use conclave_algorithms::family::MessageOf;
use conclave_algorithms::mutex::Epoch;
use conclave_algorithms::{Breach, Ledger};
use conclave_core::{Incarnation, Input, Protocol};

use crate::action::{Action, Place, Task};
use crate::intern::{Fixed, Interner, LOCAL, Memo, Tuples, hash_words};
use crate::model::{
    ANNOUNCES, Budgets, CellOf, Heard, Letter, Model, ProtocolOf, Said, Stepped, World, asks, crash,
};
use crate::normal::Normaliser;
use crate::reduce::Facts;
use crate::subject::Subject;

/// A global state: the number of the node of each process, and the number of the world.
pub type Root = Vec<u32>;

/// Everything that states are made of, stored once.
pub struct Tables<F: Subject> {
    pub cells: Interner<CellOf<F>>,
    pub metas: Vec<Meta>,
    pub messages: Interner<MessageOf<F>>,
    pub channels: Interner<Box<[Letter]>>,
    pub worlds: Interner<World<F::Ledger>>,
    pub timers: Interner<<ProtocolOf<F> as Protocol>::Timer>,
    /// A process together with what is on its way to it: its cell, and its incoming channels by sender.
    pub nodes: Tuples,
}

/// What is asked of a cell again and again.
#[derive(Clone, Debug)]
pub struct Meta {
    pub is_up: bool,
    pub is_waiting: bool,
    pub life: Incarnation,
    /// Of each thing that the application may ask: whether it does at last, and whether it is a cancel.
    pub asks: Box<[(bool, bool)]>,
    /// Of each armed timer: ticks until it may, and must, run out.
    pub timers: Box<[(u16, u16)]>,
    pub heard: Box<[Heard]>,
    pub token: Option<Epoch>,
    /// What its application is doing, roughly.
    pub phase: u8,
}

impl<F: Subject> Tables<F> {
    pub fn new(n: usize) -> Self {
        Self {
            cells: Interner::default(),
            metas: Vec::new(),
            messages: Interner::default(),
            channels: Interner::default(),
            worlds: Interner::default(),
            timers: Interner::default(),
            nodes: Tuples::new(n),
        }
    }

    fn put_cell(&mut self, hash: u64, cell: CellOf<F>) -> u32 {
        let (id, is_new) = self.cells.intern(hash, cell);
        if is_new {
            self.metas.push(Meta::of::<F>(self.cells.get(id)));
        }
        id
    }

    /// The number of the very first state, in which nobody has been started.
    pub fn first(&mut self, cells: Vec<CellOf<F>>, world: World<F::Ledger>) -> Root {
        let empty: Box<[Letter]> = Box::new([]);
        let (content, _) = self.channels.intern(Fixed.hash_one(&empty), empty);
        let mut root: Vec<_> = Vec::new();
        for cell in cells {
            let mut node = vec![content; self.nodes.width()];
            node[0] = self.put_cell(Fixed.hash_one(&cell), cell);
            root.push(self.nodes.intern(hash_words(&node), &node));
        }
        root.push(self.worlds.intern(Fixed.hash_one(&world), world).0);
        root
    }

    /// Takes over what a worker has met for the first time, in its order.
    pub fn absorb(&mut self, worker: &mut Worker<F>, fifo: bool) -> Renumbered {
        let local = &mut worker.local;
        let number = |item: &MessageOf<F>| Fixed.hash_one(item);
        let messages: Vec<_> =
            local.messages.drain().map(|message| self.messages.intern(number(&message), message).0).collect();
        let timers =
            local.timers.drain().map(|timer| self.timers.intern(Fixed.hash_one(&timer), timer).0).collect();
        local.metas.clear();
        let cells: Vec<_> =
            local.cells.drain().map(|cell| self.put_cell(Fixed.hash_one(&cell), cell)).collect();
        let worlds: Vec<_> =
            local.worlds.drain().map(|world| self.worlds.intern(Fixed.hash_one(&world), world).0).collect();
        let channels: Vec<_> = local
            .channels
            .drain()
            .map(|mut letters| {
                for letter in &mut letters {
                    *letter = letter.with_message(translate(&messages, letter.message()));
                }
                if !fifo {
                    letters.sort_unstable();
                }
                self.channels.intern(Fixed.hash_one(&letters), letters).0
            })
            .collect();
        let mut node = Vec::new();
        let nodes = (0..local.nodes.len() as u32).map(|id| {
            node.clear();
            let [cell, incoming @ ..] = local.nodes.get(id) else { unreachable!("a node has a cell") };
            node.push(translate(&cells, *cell));
            node.extend(incoming.iter().map(|content| translate(&channels, *content)));
            self.nodes.intern(hash_words(&node), &node)
        });
        let nodes = nodes.collect();
        local.nodes.clear();
        worker.passing.clear();
        worker.passing_records.clear();
        Renumbered { nodes, worlds, messages, timers }
    }

    /// Bytes of all tables.
    pub fn bytes(&self) -> usize {
        let letters = self.channels.len() * 2 * size_of::<Letter>();
        let metas = self.metas.capacity() * size_of::<Meta>();
        self.cells.bytes()
            + metas
            + self.messages.bytes()
            + self.channels.bytes()
            + letters
            + self.worlds.bytes()
            + self.nodes.bytes()
    }
}

impl Meta {
    fn of<F: Subject>(cell: &CellOf<F>) -> Self {
        Self {
            is_up: cell.state.is_some(),
            is_waiting: cell.state.is_some() && F::is_waiting(&cell.app),
            life: cell.life,
            asks: asks::<F>(cell).iter().map(|ask| (ask.is_fair, ask.is_cancel)).collect(),
            timers: cell.timers.iter().map(|armed| (armed.min, armed.max)).collect(),
            heard: cell.heard.clone().into(),
            token: cell.state.as_ref().and_then(F::token),
            phase: F::phase(&cell.app),
        }
    }
}

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

/// The numbers that the tables gave to what a worker had numbered, by kind.
#[derive(Default)]
pub struct Renumbered {
    nodes: Vec<u32>,
    worlds: Vec<u32>,
    messages: Vec<u32>,
    timers: Vec<u32>,
}

impl Renumbered {
    /// Puts the numbers of the tables into a state.
    #[inline(always)]
    pub fn root(&self, root: &mut [u32]) {
        let (world, nodes) = root.split_last_mut().expect("the world comes last");
        *world = translate(&self.worlds, *world);
        for node in nodes {
            *node = translate(&self.nodes, *node);
        }
    }

    pub fn message(&self, id: u32) -> u32 {
        translate(&self.messages, id)
    }

    pub fn task(&self, task: Task) -> Task {
        match task {
            Task::Message { from, to, message } => {
                Task::Message { from, to, message: translate(&self.messages, message) }
            }
            Task::Timer { place, timer } => Task::Timer { place, timer: translate(&self.timers, timer) },
            other => other,
        }
    }
}

#[inline(always)]
fn translate(numbers: &[u32], id: u32) -> u32 {
    if id & LOCAL == 0 { id } else { numbers[(id & !LOCAL) as usize] }
}

/// What a step of a process comes to.
struct Record<F: Subject> {
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
}

impl<F: Subject> Record<F> {
    /// Whether it makes sense beyond this worker and this moment.
    fn is_lasting(&self) -> bool {
        self.cell & LOCAL == 0 && self.sends.iter().all(|(_, message)| message & LOCAL == 0)
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
    Crash {
        place: u8,
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

/// How what messages on their way tell of requests has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retag {
    Nothing,
    /// This process has a new request: nobody has heard of it yet.
    New(u8),
    /// This process has none any more: nothing announces it.
    Over(u8),
}

/// Expands states.
pub struct Worker<F: Subject> {
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
    /// What was found broken, from number 1 on.
    pub broken: Vec<Broken>,
    /// What is not promised and was seen broken.
    pub unpromised: BTreeMap<&'static str, String>,
    /// The most entries by others that a known request had to see.
    pub overtaking: u64,
    /// The present state, the cells and world in it, and its channels.
    present: Vec<u32>,
    left: Vec<u32>,
    right: Vec<u32>,
    /// The state that is being put together, in the same way.
    next: Vec<u32>,
    pub(crate) next_left: Vec<u32>,
    pub(crate) next_right: Vec<u32>,
    pub(crate) letters: Vec<Letter>,
    node: Vec<u32>,
    actions: Vec<Action>,
    /// What the last step sent: from, to, the message, and whether its receiver is down.
    pub sent: Vec<(usize, usize, u32, bool)>,
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

impl<F: Subject> Worker<F> {
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
            broken: Vec::new(),
            unpromised: BTreeMap::new(),
            overtaking: 0,
            present: Vec::new(),
            left: Vec::new(),
            right: Vec::new(),
            next: Vec::new(),
            next_left: Vec::new(),
            next_right: Vec::new(),
            letters: Vec::new(),
            node: Vec::new(),
            actions: Vec::new(),
            sent: Vec::new(),
            facts: None,
        }
    }

    /// Everything that may happen in a state, and what comes of it.
    pub fn expand(&mut self, base: &Tables<F>, model: &Model<F>, root: &[u32], out: &mut Expansion) {
        self.visit(base, model, root);
        out.clear();
        out.stuck = if self.is_quiet(base, model) { self.stuck(base) } else { 0 };
        let actions = core::mem::take(&mut self.actions);
        for (nth, action) in (0..).zip(&actions) {
            let transition = self.follow(base, model, *action);
            out.push(nth, transition, &self.next);
        }
        self.actions = actions;
    }

    /// Where the last action led.
    pub fn next(&self) -> &[u32] {
        &self.next
    }

    /// A process handles its start, before the search begins.
    pub fn start(&mut self, base: &Tables<F>, model: &Model<F>, root: &[u32], place: u8) {
        self.visit(base, model, root);
        self.sent.clear();
        self.next_left.clone_from(&self.left);
        self.next_right.clone_from(&self.right);
        self.step(base, model, place, Cause::Start, (0, 0), Cost::Nothing);
        self.arrive(base);
    }

    /// The same state with its numbers moved down.
    pub fn normal(&mut self, base: &Tables<F>, model: &Model<F>, root: &[u32]) {
        self.visit(base, model, root);
        self.next_left.clone_from(&self.left);
        self.next_right.clone_from(&self.right);
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
        let actions = core::mem::take(&mut self.actions);
        let own = (0..).zip(&actions).filter(|(_, action)| action.process() == Some(place));
        let mut leads_on = false;
        let mut is_hidden = true;
        for (nth, action) in own {
            let transition = self.follow(base, model, *action);
            // What need not happen must not be put before all else: without it the others may come to a dead end.
            let must_happen = transition.task != Task::Optional;
            is_hidden &= must_happen && !transition.is_visible && transition.broken == 0;
            leads_on |= is_new(&self.next);
            out.push(nth, transition, &self.next);
            if !is_hidden {
                break;
            }
        }
        self.actions = actions;
        is_hidden && leads_on
    }

    /// What may still go wrong in the present state.
    pub fn budgets(&self, base: &Tables<F>, model: &Model<F>) -> Budgets {
        base.worlds.get(self.left[model.n()]).budgets
    }

    /// What the application of a process is doing in the present state, roughly.
    pub fn phase(&self, base: &Tables<F>, place: usize) -> u8 {
        base.metas[self.left[place] as usize].phase
    }

    /// Bytes of what is remembered.
    pub fn bytes(&self) -> usize {
        let records = self.records.capacity() * size_of::<Record<F>>();
        let memo = self.memo.capacity() * (size_of::<(u32, u8, Cause)>() + size_of::<u32>() + 1);
        let changes = self.changes.capacity() * (size_of::<(u32, Change)>() + size_of::<Changed>() + 1);
        records + memo + changes + self.local.bytes()
    }

    /// Makes a state the present one, and lists what may happen in it.
    pub fn visit(&mut self, base: &Tables<F>, model: &Model<F>, root: &[u32]) {
        self.present.clear();
        self.present.extend_from_slice(root);
        self.left.clear();
        self.right.clear();
        let (world, nodes) = root.split_last().expect("the world comes last");
        for node in nodes {
            let node = base.nodes.get(*node);
            self.left.push(node[0]);
            self.right.extend_from_slice(&node[1..]);
        }
        self.left.push(*world);
        self.list(base, model);
    }

    /// What may happen in the present state.
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }

    fn list(&mut self, base: &Tables<F>, model: &Model<F>) {
        let n = model.n();
        let budgets = base.worlds.get(self.left[n]).budgets;
        let mut actions = core::mem::take(&mut self.actions);
        actions.clear();
        for place in 0..n {
            let meta = &base.metas[self.left[place] as usize];
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
                let theirs = &base.metas[self.left[peer] as usize];
                let heard = meta.heard[peer];
                if heard.due(theirs.life, theirs.is_up, model.detector).is_some() {
                    actions.push(Action::Notice { place: at, peer: peer as u8 });
                } else if budgets.suspicions > 0 && theirs.is_up && !heard.is_down {
                    actions.push(Action::Suspect { place: at, peer: peer as u8 });
                }
                self.list_letters(base, model, meta, peer, place, &mut actions);
            }
            if budgets.crashes > 0 {
                actions.push(Action::Crash { place: at });
            }
        }
        if self.can_tick(base, model) {
            actions.push(Action::Tick);
        }
        self.actions = actions;
    }

    fn list_letters(
        &self,
        base: &Tables<F>,
        model: &Model<F>,
        meta: &Meta,
        from: usize,
        to: usize,
        actions: &mut Vec<Action>,
    ) {
        let content = self.right[channel(model.n(), from, to)];
        if content == 0 {
            return;
        }
        let budgets = base.worlds.get(self.left[model.n()]).budgets;
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
    fn can_tick(&self, base: &Tables<F>, model: &Model<F>) -> bool {
        if model.ticks.is_none() {
            return false;
        }
        let mut waits = false;
        for cell in &self.left[..model.n()] {
            for (_, max) in &base.metas[*cell as usize].timers {
                if *max == 0 {
                    return false;
                }
                waits = true;
            }
        }
        for content in self.right.iter().filter(|content| **content != 0) {
            if base.channels.get(*content).iter().any(|letter| letter.left() == 0) {
                return false;
            }
            waits = true;
        }
        waits
    }

    /// Whether nothing moves any more unless an application asks that need not, or something fails.
    fn is_quiet(&self, base: &Tables<F>, model: &Model<F>) -> bool {
        let rests = |cell: &u32| {
            let meta = &base.metas[*cell as usize];
            meta.timers.is_empty() && !meta.asks.iter().any(|(is_fair, _)| *is_fair)
        };
        self.right.iter().all(|content| *content == 0)
            && self.left[..model.n()].iter().all(rests)
            && !self.actions.iter().any(|action| matches!(action, Action::Notice { .. }))
    }

    /// What is broken in the present state because nothing moves any more.
    fn stuck(&mut self, base: &Tables<F>) -> u32 {
        let world = *self.left.last().expect("the world comes last");
        if let Some(broken) = self.quiets.get(&world) {
            return *broken;
        }
        let mut breaches = Vec::new();
        base.worlds.get(world).ledger.quiet(&mut breaches);
        let broken = self.note(breaches);
        self.quiets.insert(world, broken);
        broken
    }

    /// Takes note of what was broken; the number of the first promise among it.
    fn note(&mut self, breaches: Vec<Breach>) -> u32 {
        let mut first = 0;
        for Breach { property, detail, promised } in breaches {
            if !promised {
                self.unpromised.entry(property).or_insert(detail);
            } else if first == 0 {
                self.broken.push(Broken { property, detail });
                first = self.broken.len() as u32;
            }
        }
        first
    }

    /// What comes of an action in the present state.
    pub fn follow(&mut self, base: &Tables<F>, model: &Model<F>, action: Action) -> Transition {
        let n = model.n();
        self.sent.clear();
        self.next_left.clone_from(&self.left);
        self.next_right.clone_from(&self.right);
        let mut task = Task::Optional;
        let (mut broken, mut is_visible) = (0, true);
        match action {
            Action::Ask { place, nth } => {
                let (is_fair, is_cancel) =
                    base.metas[self.left[usize::from(place)] as usize].asks[usize::from(nth)];
                if is_fair {
                    task = Task::Application { place };
                }
                let cost = if is_cancel { Cost::Cancel } else { Cost::Nothing };
                (broken, is_visible) = self.step(base, model, place, Cause::Ask { nth }, (0, 0), cost);
            }
            Action::Timer { place, nth } => {
                task = Task::Timer { place, timer: self.timer_id(base, place, nth) };
                (broken, is_visible) =
                    self.step(base, model, place, Cause::Timer { nth }, (0, 0), Cost::Nothing);
            }
            Action::Notice { place, peer } => {
                task = Task::Detector { place, peer };
                let theirs = &base.metas[self.left[usize::from(peer)] as usize];
                let heard = base.metas[self.left[usize::from(place)] as usize].heard[usize::from(peer)];
                let heard =
                    heard.due(theirs.life, theirs.is_up, model.detector).expect("it is listed as due");
                (broken, _) =
                    self.step(base, model, place, Cause::Notice { peer, heard }, (0, 0), Cost::Nothing);
            }
            Action::Suspect { place, peer } => {
                (broken, _) = self.step(base, model, place, Cause::Suspect { peer }, (0, 0), Cost::Suspicion);
            }
            Action::Deliver(at) => {
                let letter = self.take(base, n, at);
                let (from, message) = (at.from, letter.message());
                task = match model.fifo {
                    true => Task::Channel { from, to: at.to },
                    false => Task::Message { from, to: at.to, message },
                };
                let cause = Cause::Deliver { from, message };
                (broken, is_visible) =
                    self.step(base, model, at.to, cause, (from, letter.tag()), Cost::Nothing);
            }
            Action::Drop(at) => {
                self.take(base, n, at);
                broken = self.change(base, model, Change::Drop).broken;
            }
            Action::Duplicate(at) => {
                let place = channel(n, usize::from(at.from), usize::from(at.to));
                self.letters.clear();
                self.letters.extend_from_slice(base.channels.get(self.right[place]));
                let nth = usize::from(at.nth);
                // Of two copies, the first to have been sent announces a request.
                let copy = self.letters[nth].with_tag(self.letters[nth].tag() & !ANNOUNCES);
                self.letters.insert(nth + 1, copy);
                if !model.fifo {
                    self.letters.sort_unstable();
                }
                self.next_right[place] = self.channel_id(base);
                broken = self.change(base, model, Change::Duplicate).broken;
            }
            Action::Crash { place } => broken = self.crash(base, model, place),
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
        self.next[n] = self.next_left[n];
        for place in 0..n {
            let incoming = place * (n - 1)..(place + 1) * (n - 1);
            if self.next_left[place] == self.left[place]
                && self.next_right[incoming.clone()] == self.right[incoming.clone()]
            {
                continue;
            }
            self.node.clear();
            self.node.push(self.next_left[place]);
            self.node.extend_from_slice(&self.next_right[incoming]);
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
        let timer = &base.cells.get(self.left[usize::from(place)]).timers[usize::from(nth)].timer;
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
        self.letters.extend_from_slice(base.channels.get(self.right[place]));
        let letter = self.letters.remove(usize::from(at.nth));
        self.next_right[place] = if self.letters.is_empty() { 0 } else { self.channel_id(base) };
        letter
    }

    /// Puts a message into its channel.
    #[inline]
    fn send(&mut self, base: &Tables<F>, model: &Model<F>, from: usize, to: usize, letter: Letter) {
        let place = channel(model.n(), from, to);
        let mut letters = core::mem::take(&mut self.letters);
        letters.clear();
        letters.extend_from_slice(self.letters(base, self.next_right[place]));
        let nth = if model.fifo { letters.len() } else { letters.partition_point(|other| *other <= letter) };
        letters.insert(nth, letter);
        self.letters = letters;
        self.next_right[place] = self.channel_id(base);
    }

    /// A process takes a step. Says what that breaks, and whether a property could tell.
    fn step(
        &mut self,
        base: &Tables<F>,
        model: &Model<F>,
        place: u8,
        cause: Cause,
        (from, tag): (u8, u16),
        cost: Cost,
    ) -> (u32, bool) {
        let at = usize::from(place);
        let record = self.record(base, model, self.next_left[at], place, cause);
        let Record { cell, is_silent, is_visible, multiplies_tokens, .. } = *self.at_record(record);
        self.next_left[at] = cell;
        let mut changed =
            Changed { world: self.next_left[model.n()], tag: 0, retag: Retag::Nothing, broken: 0 };
        if !is_silent || cost != Cost::Nothing || model.order {
            changed = self.change(base, model, Change::Step { place, record, from, tag, cost });
            self.retag(base, model, changed.retag);
        }
        let (life, ticks) = (self.meta(base, cell).life, model.ticks.unwrap_or(0));
        if self.facts.is_some() {
            self.learn(base, at, record);
        }
        for nth in 0..self.at_record(record).sends.len() {
            let (to, message) = self.at_record(record).sends[nth];
            let is_up = self.meta(base, self.next_left[usize::from(to)]).is_up;
            self.sent.push((at, usize::from(to), message, !is_up));
            if is_up {
                let letter = Letter::new(message, changed.tag, life, ticks);
                self.send(base, model, at, usize::from(to), letter);
            }
        }
        if multiplies_tokens && changed.broken == 0 && model.budgets.duplicates == 0 {
            changed.broken = self.count_tokens(base);
        }
        (changed.broken, is_visible)
    }

    /// Takes note of who sends to whom.
    fn learn(&mut self, base: &Tables<F>, at: usize, record: u32) {
        let mut facts = self.facts.take().expect("facts are wanted");
        let role = (at, self.meta(base, self.left[at]).phase);
        facts.note_move(role, self.meta(base, self.next_left[at]).phase);
        for (to, _) in &self.at_record(record).sends {
            let to = usize::from(*to);
            facts.note_send(role, (to, self.meta(base, self.next_left[to]).phase));
        }
        self.facts = Some(facts);
    }

    /// What a process does in a step, worked out once.
    fn record(&mut self, base: &Tables<F>, model: &Model<F>, cell: u32, place: u8, cause: Cause) -> u32 {
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

    fn work_out(
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
                F::asked(&mut before.app, &request);
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
        let was_inside = F::is_inside(&self.cell(base, cell).app);
        let Stepped { cell, sends, events } = model.step(&before, usize::from(place), input.clone());
        let multiplies_tokens = F::is_token_based() && {
            let old: Vec<_> = held.into_iter().chain(carried).collect();
            let sent = sends.iter().filter_map(|(_, message)| F::token_in(message));
            let new: Vec<_> = cell.state.as_ref().and_then(F::token).into_iter().chain(sent).collect();
            new.len() > old.len() || new.iter().max() > old.iter().max()
        };
        let asks = matches!(input, Input::Request(_) | Input::PeerDown { .. } | Input::PeerUp { .. });
        let is_silent = events.is_empty() && !asks && !F::LOOKS_AT_STATES;
        let is_visible = !events.is_empty() || was_inside != F::is_inside(&cell.app) || multiplies_tokens;
        let sends =
            sends.into_iter().map(|(to, message)| (to as u8, self.message_id(base, message))).collect();
        let cell = self.cell_id(base, cell);
        Record { cell, sends, input, said: events.into(), is_silent, is_visible, multiplies_tokens }
    }

    /// What happens to the world, worked out once.
    fn change(&mut self, base: &Tables<F>, model: &Model<F>, change: Change) -> Changed {
        let n = model.n();
        let key = (self.next_left[n], change);
        let changed = match self.changes.get(&key) {
            Some(changed) => *changed,
            None => {
                let changed = self.work_out_change(base, model, key);
                let passing = matches!(change, Change::Step { record, .. } if record & LOCAL != 0);
                if key.0 & LOCAL == 0 && changed.world & LOCAL == 0 && !passing {
                    self.changes.insert(key, changed);
                }
                changed
            }
        };
        self.next_left[n] = changed.world;
        changed
    }

    fn work_out_change(
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
                match cost {
                    Cost::Nothing => {}
                    Cost::Cancel => world.budgets.cancels -= 1,
                    Cost::Suspicion => world.budgets.suspicions -= 1,
                }
                (tag, retag) =
                    self.judge(base, model, &mut world, place, record, (from, heard), &mut breaches);
            }
            Change::Crash { place } => {
                world.budgets.crashes -= 1;
                world.ledger.crash(usize::from(place));
                world.knowledge.forget(usize::from(place));
                retag = Retag::Over(place);
            }
            Change::Revival { place, life } => {
                world.budgets.restarts -= 1;
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
        let broken = self.note(breaches);
        Changed { world: self.world_id(base, world), tag, retag, broken }
    }

    /// Tells the ledger of a step.
    #[expect(clippy::too_many_arguments, reason = "all of it describes one step")]
    fn judge(
        &mut self,
        base: &Tables<F>,
        model: &Model<F>,
        world: &mut World<F::Ledger>,
        place: u8,
        record: u32,
        (from, heard): (u8, u16),
        breaches: &mut Vec<Breach>,
    ) -> (u16, Retag) {
        let at = usize::from(place);
        let id = model.members.at(at);
        let World { ledger, knowledge, .. } = world;
        let record = self.at_record(record);
        if model.order && knowledge.hear(at, usize::from(from), heard) {
            ledger.known(usize::from(from));
        }
        ledger.input(at, &record.input);
        let asks = F::begins_waiting(&record.input);
        if model.order && asks {
            let others = knowledge.ask(at);
            ledger.follows(at, u64::from(others));
        }
        let mut is_over = F::gives_up(&record.input);
        if model.order && asks {
            for (_, message) in &record.sends {
                ledger.announce(at, id, self.message(base, *message));
            }
            knowledge.announcing[at] = record.sends.len() as u8;
        }
        let mut overtaking = 0;
        for said in &record.said {
            match said {
                Said::Event(event) => {
                    ledger.emit(at, event, breaches);
                    overtaking = overtaking.max(ledger.overtaking());
                    is_over |= F::ends_waiting(event);
                }
                Said::Reject(from, why) => ledger.reject(at, *from, why, breaches),
            }
        }
        let cell = if record.cell & LOCAL == 0 {
            base.cells.get(record.cell)
        } else {
            self.local.cells.get(record.cell & !LOCAL)
        };
        if let Some(state) = &cell.state {
            ledger.handled(at, state);
        }
        if model.order && asks && !is_over && record.sends.is_empty() {
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
        self.overtaking = self.overtaking.max(overtaking);
        (tag, retag)
    }

    /// Changes what the messages on their way tell of requests.
    fn retag(&mut self, base: &Tables<F>, model: &Model<F>, retag: Retag) {
        if !model.order {
            return;
        }
        let n = model.n();
        for (from, to) in pairs(n) {
            let place = channel(n, from, to);
            let content = self.next_right[place];
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
            self.next_right[place] = self.channel_id(base);
        }
    }

    /// What is broken if there are several tokens of the latest epoch.
    fn count_tokens(&mut self, base: &Tables<F>) -> u32 {
        let (cells, _) = self.next_left.split_at(self.next_left.len() - 1);
        let held = cells.iter().filter_map(|cell| self.meta(base, *cell).token);
        let letters = self.next_right.iter().flat_map(|content| self.letters(base, *content));
        let carried = letters.filter_map(|letter| F::token_in(self.message(base, letter.message())));
        let tokens: Vec<_> = held.chain(carried).collect();
        let Some(latest) = tokens.iter().max() else { return 0 };
        let count = tokens.iter().filter(|token| *token == latest).count();
        if count < 2 {
            return 0;
        }
        let detail = format!("there are {count} tokens of epoch {latest}");
        self.note(vec![Breach { property: "TOK", detail, promised: true }])
    }

    fn crash(&mut self, base: &Tables<F>, model: &Model<F>, place: u8) -> u32 {
        let (n, at) = (model.n(), usize::from(place));
        let mut cell = base.cells.get(self.left[at]).clone();
        crash::<F>(&mut cell);
        self.next_left[at] = self.cell_id(base, cell);
        for from in (0..n).filter(|from| *from != at) {
            self.next_right[channel(n, from, at)] = 0;
        }
        let changed = self.change(base, model, Change::Crash { place });
        self.retag(base, model, changed.retag);
        changed.broken
    }

    fn restart(&mut self, base: &Tables<F>, model: &Model<F>, place: u8) -> u32 {
        let at = usize::from(place);
        let old = base.cells.get(self.left[at]);
        let saved = old.durable.clone().filter(|_| !model.budgets.amnesia);
        let life = old.life.next();
        let mut cell = model.boot(at, life, saved, old.app.clone());
        cell.heard = self.left[..model.n()]
            .iter()
            .map(|peer| Heard { life: base.metas[*peer as usize].life, is_down: false })
            .collect();
        cell.heard[at].life = life;
        self.next_left[at] = self.cell_id(base, cell);
        let revived = self.change(base, model, Change::Revival { place, life });
        let (broken, _) = self.step(base, model, place, Cause::Start, (0, 0), Cost::Nothing);
        if revived.broken == 0 { broken } else { revived.broken }
    }

    /// Time passes for everyone.
    fn tick(&mut self, base: &Tables<F>, n: usize) {
        for place in 0..n {
            let id = self.left[place];
            if base.metas[id as usize].timers.is_empty() {
                continue;
            }
            self.next_left[place] = match self.ticked.get(&id) {
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
        for place in 0..self.right.len() {
            if self.right[place] != 0 {
                self.letters.clear();
                self.letters.extend(base.channels.get(self.right[place]).iter().map(|letter| letter.aged()));
                self.next_right[place] = self.channel_id(base);
            }
        }
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
