//! Everything that states are made of, stored once; and how it grows by what workers have found.

use core::hash::BuildHasher;

use conclave_algorithms::family::MessageOf;
use conclave_algorithms::mutex::Epoch;
use conclave_core::{Incarnation, Protocol};

use super::{Root, Worker};
use crate::action::Task;
use crate::intern::{Fixed, Interner, LOCAL, Tuples, hash_words};
use crate::model::{CellOf, Heard, Letter, ProtocolOf, World, asks};
use conclave_algorithms::application::App as _;
use conclave_algorithms::family::Family;

/// Everything that states are made of, stored once.
pub struct Tables<F: Family> {
    pub cells: Interner<CellOf<F>>,
    pub metas: Vec<Meta>,
    pub messages: Interner<MessageOf<F>>,
    pub channels: Interner<Box<[Letter]>>,
    pub worlds: Interner<World<F::Ledger>>,
    pub timers: Interner<<ProtocolOf<F> as Protocol>::Timer>,
    /// A process together with what is in flight to it: its cell, and its incoming channels by sender.
    pub nodes: Tuples,
}

/// What is asked of a cell again and again.
#[derive(Clone, Debug)]
pub struct Meta {
    pub is_up: bool,
    pub is_waiting: bool,
    pub is_inside: bool,
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

impl<F: Family> Tables<F> {
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

    pub(super) fn put_cell(&mut self, hash: u64, cell: CellOf<F>) -> u32 {
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
    pub(super) fn of<F: Family>(cell: &CellOf<F>) -> Self {
        Self {
            is_up: cell.state.is_some(),
            is_waiting: cell.state.is_some() && cell.app.is_waiting(),
            is_inside: cell.state.is_some() && cell.app.is_inside(),
            life: cell.life,
            asks: asks::<F>(cell).iter().map(|ask| (ask.is_fair, ask.is_cancel)).collect(),
            timers: cell.timers.iter().map(|armed| (armed.min, armed.max)).collect(),
            heard: cell.heard.clone().into(),
            token: cell.state.as_ref().and_then(F::token),
            phase: cell.app.phase(),
        }
    }
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
