//! Numbers that only grow, moved down, so that runs without end have finitely many states.
//!
//! An algorithm compares and increments its numbers; it cannot tell whether all of a [space](conclave_core::Space) are
//! smaller by the same amount. Whatever every process declares by its visitor of counters is moved down as far as it goes.

use conclave_core::{Counter, Floors, Message, Protocol};

use crate::intern::{LOCAL, Memo};
use crate::model::{Letter, Model};
use crate::space::{Tables, Worker, channel, pairs};
use conclave_algorithms::family::Family;

/// The numbers of cells, messages and worlds that were met before, and how far they can move down.
#[derive(Default)]
pub struct Normaliser {
    /// What is found in the cells, in the messages by sender, and in the worlds.
    cells: Memo<u32, Floors>,
    messages: Memo<(u32, usize), Floors>,
    worlds: Memo<u32, Floors>,
}

impl Normaliser {
    /// Moves the numbers of the state that the worker has put together as far down as they go.
    pub fn run<F: Family>(&mut self, worker: &mut Worker<F>, base: &Tables<F>, model: &Model<F>) {
        let n = model.n();
        let mut floors = Floors::default();
        for place in 0..n {
            let id = worker.next_cells[place];
            floors.merge(&remembered(&mut self.cells, id, id, || {
                let mut found = Floors::default();
                if let Some(state) = &mut worker.cell(base, id).state.clone() {
                    state.visit_counters(&mut |counter| found.meet(&counter));
                }
                found
            }));
        }
        for (from, to) in pairs(n) {
            for letter in worker.letters(base, worker.next_channels[channel(n, from, to)]) {
                let id = letter.message();
                floors.merge(&remembered(&mut self.messages, (id, from), id, || {
                    let mut found = Floors::default();
                    let mut message = worker.message(base, id).clone();
                    message.visit_counters(model.members.at(from), &model.members, &mut |c| found.meet(&c));
                    found
                }));
            }
        }
        let id = worker.next_cells[n];
        floors.merge(&remembered(&mut self.worlds, id, id, || {
            let mut found = Floors::default();
            let mut ledger = worker.world(base, id).ledger.clone();
            conclave_algorithms::Ledger::visit_counters(&mut ledger, &mut |counter| found.meet(&counter));
            found
        }));
        if !floors.is_level() {
            apply(worker, base, model, &floors);
        }
    }
}

/// What was found before, or is found now; nothing is kept of numbers that are good only for a while.
fn remembered<K: Eq + core::hash::Hash>(
    known: &mut Memo<K, Floors>,
    key: K,
    id: u32,
    find: impl FnOnce() -> Floors,
) -> Floors {
    if let Some(found) = known.get(&key) {
        return found.clone();
    }
    let found = find();
    if id & LOCAL == 0 {
        known.insert(key, found.clone());
    }
    found
}

fn apply<F: Family>(worker: &mut Worker<F>, base: &Tables<F>, model: &Model<F>, floors: &Floors) {
    let n = model.n();
    let lower = |mut counter: Counter<'_>| floors.lower(&mut counter);
    for place in 0..n {
        let mut cell = worker.cell(base, worker.next_cells[place]).clone();
        if let Some(state) = &mut cell.state {
            state.visit_counters(&mut { lower });
        }
        worker.next_cells[place] = worker.cell_id(base, cell);
    }
    for (from, to) in pairs(n) {
        let place = channel(n, from, to);
        let letters: Vec<Letter> = worker.letters(base, worker.next_channels[place]).to_vec();
        if letters.is_empty() {
            continue;
        }
        let lowered = letters.into_iter().map(|letter| {
            let mut message = worker.message(base, letter.message()).clone();
            message.visit_counters(model.members.at(from), &model.members, &mut { lower });
            letter.with_message(worker.message_id(base, message))
        });
        worker.letters = lowered.collect();
        if !model.fifo {
            worker.letters.sort_unstable();
        }
        worker.next_channels[place] = worker.channel_id(base);
    }
    let mut world = worker.world(base, worker.next_cells[n]).clone();
    conclave_algorithms::Ledger::visit_counters(&mut world.ledger, &mut { lower });
    worker.next_cells[n] = worker.world_id(base, world);
}
