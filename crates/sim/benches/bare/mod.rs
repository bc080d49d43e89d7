//! The yardstick for the simulator: Ricart and Agrawala in a bare event loop, written by hand.
//!
//! The same algorithm with the same messages and the same state as the one in the registry, and the loop that anyone
//! would write for it: a binary heap of events, a `match`, a vector of processes. No trait, no trace, no property, no
//! metric, no fault. The simulator is measured as a ratio to it, taken in the same run, since absolute figures say more
//! about the machine than about the code.
//!
//! [`packed`] is the same run with every event squeezed into one integer and every set into a mask: what can be had by
//! giving up everything but this one algorithm.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

pub mod packed;

const HOLD_US: u64 = 1_000;
const MAX_DELAY_US: u64 = 1_000;

struct Event {
    time: u64,
    order: u64,
    to: usize,
    what: What,
}

enum What {
    Deliver { from: usize, message: Message },
    Leave,
}

#[derive(Clone, Copy)]
enum Message {
    Request { time: u64 },
    Reply { time: u64, clock: u64, fence: u64 },
}

/// The earliest event is the greatest: the heap gives the greatest first.
impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.order).cmp(&(self.time, self.order))
    }
}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Event {}

enum State {
    Released,
    Wanted { time: u64, pending: u64 },
    Held,
}

struct Process {
    state: State,
    clock: u64,
    fence: u64,
    deferred: Vec<(u64, usize)>,
    left: u64,
}

struct Loop {
    heap: BinaryHeap<Event>,
    order: u64,
    now: u64,
    random: u64,
    processes: Vec<Process>,
    messages: u64,
    entries: u64,
}

/// Messages sent when every one of `n` processes has entered `entries` times.
pub fn run(n: usize, entries: u64, seed: u64) -> u64 {
    let process =
        |_| Process { state: State::Released, clock: 0, fence: 0, deferred: Vec::new(), left: entries };
    let mut run = Loop {
        heap: BinaryHeap::new(),
        order: 0,
        now: 0,
        random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        processes: (0..n).map(process).collect(),
        messages: 0,
        entries: 0,
    };
    for process in 0..n {
        run.acquire(process);
    }
    while let Some(event) = run.heap.pop() {
        run.now = event.time;
        match event.what {
            What::Deliver { from, message: Message::Request { time } } => {
                run.on_request(event.to, from, time);
            }
            What::Deliver { from, message: Message::Reply { time, clock, fence } } => {
                run.on_reply(event.to, from, time, clock, fence);
            }
            What::Leave => run.leave(event.to),
        }
    }
    assert_eq!(run.entries, n as u64 * entries);
    run.messages
}

impl Loop {
    fn schedule(&mut self, after: u64, to: usize, what: What) {
        self.order += 1;
        self.heap.push(Event { time: self.now + after, order: self.order, to, what });
    }

    fn send(&mut self, from: usize, to: usize, message: Message) {
        self.messages += 1;
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let delay = 1 + (((self.random >> 32) * MAX_DELAY_US) >> 32);
        self.schedule(delay, to, What::Deliver { from, message });
    }

    fn acquire(&mut self, me: usize) {
        let process = &mut self.processes[me];
        if process.left == 0 {
            return;
        }
        process.left -= 1;
        process.clock += 1;
        let time = process.clock;
        let n = self.processes.len();
        let pending = (u64::MAX >> (64 - n)) & !(1 << me);
        self.processes[me].state = State::Wanted { time, pending };
        for to in (0..n).filter(|to| *to != me) {
            self.send(me, to, Message::Request { time });
        }
        self.maybe_enter(me);
    }

    fn on_request(&mut self, me: usize, from: usize, time: u64) {
        let process = &mut self.processes[me];
        process.clock = process.clock.max(time);
        let we_go_first = match process.state {
            State::Released => false,
            State::Wanted { time: mine, .. } => (mine, me) < (time, from),
            State::Held => true,
        };
        if we_go_first {
            process.deferred.push((time, from));
        } else {
            self.reply(me, from, time);
        }
    }

    fn reply(&mut self, me: usize, to: usize, time: u64) {
        let Process { clock, fence, .. } = self.processes[me];
        self.send(me, to, Message::Reply { time, clock, fence });
    }

    fn on_reply(&mut self, me: usize, from: usize, answered: u64, clock: u64, fence: u64) {
        let process = &mut self.processes[me];
        process.clock = process.clock.max(clock);
        process.fence = process.fence.max(fence);
        if let State::Wanted { time, pending } = &mut process.state
            && *time == answered
        {
            *pending &= !(1 << from);
            self.maybe_enter(me);
        }
    }

    fn maybe_enter(&mut self, me: usize) {
        let process = &mut self.processes[me];
        if let State::Wanted { pending: 0, .. } = process.state {
            process.state = State::Held;
            process.fence += 1;
            self.entries += 1;
            self.schedule(HOLD_US, me, What::Leave);
        }
    }

    fn leave(&mut self, me: usize) {
        self.processes[me].state = State::Released;
        let mut deferred = std::mem::take(&mut self.processes[me].deferred);
        for (time, to) in deferred.drain(..) {
            self.reply(me, to, time);
        }
        self.processes[me].deferred = deferred;
        self.acquire(me);
    }
}
