//! Traces to test with, built the way a recorder builds them.

#![allow(dead_code, reason = "every test file takes what it needs")]

use std::collections::BTreeMap;

use conclave_core::{NodeId, Timing};
use conclave_trace::{Carried, Header, Record, Trace, What};
use serde_json::json;

/// A run that is being recorded.
pub struct Run {
    pub trace: Trace,
    phases: BTreeMap<u32, String>,
    sent: BTreeMap<(u32, u32), u64>,
}

impl Run {
    pub fn new(algorithm: &str, nodes: impl IntoIterator<Item = u32>) -> Self {
        let header = Header {
            algorithm: algorithm.to_owned(),
            nodes: nodes.into_iter().map(NodeId).collect(),
            newcomers: Vec::new(),
            settings: BTreeMap::new(),
            mutant: None,
            channels: "any".to_owned(),
            locks: 1,
            seed: None,
            timing: Timing::default(),
        };
        Self { trace: Trace { header, records: Vec::new() }, phases: BTreeMap::new(), sent: BTreeMap::new() }
    }

    fn push(&mut self, time: u64, process: Option<u32>, what: What, cause: Option<u64>) -> u64 {
        let id = self.trace.records.len() as u64;
        let phase = process.and_then(|process| self.phases.get(&process).cloned()).unwrap_or_default();
        let process = process.map(NodeId);
        self.trace.records.push(Record {
            id,
            time,
            process,
            what,
            phase,
            clock: None,
            cause,
            lamport: 0,
            vector: None,
        });
        id
    }

    /// From now on the process is in this phase.
    pub fn phase(&mut self, process: u32, phase: &str) -> &mut Self {
        self.phases.insert(process, phase.to_owned());
        self
    }

    pub fn input(&mut self, time: u64, process: u32, what: What) -> u64 {
        self.push(time, Some(process), what, None)
    }

    pub fn network(&mut self, time: u64, what: What) -> u64 {
        self.push(time, None, what, None)
    }

    pub fn acquire(&mut self, time: u64, process: u32) -> u64 {
        self.phase(process, "waiting");
        self.input(time, process, What::Request { request: "acquire".to_owned(), lock: 0 })
    }

    pub fn release(&mut self, time: u64, process: u32) -> u64 {
        self.phase(process, "idle");
        self.input(time, process, What::Request { request: "release".to_owned(), lock: 0 })
    }

    pub fn effect(&mut self, cause: u64, what: What) -> u64 {
        let input = &self.trace.records[cause as usize];
        let (time, process) = (input.time, input.process.map(|process| process.0));
        self.push(time, process, what, Some(cause))
    }

    pub fn send(&mut self, cause: u64, to: u32, text: &str) -> u64 {
        let from = self.trace.records[cause as usize].process.expect("a process sends").0;
        let nth = self.sent.entry((from, to)).or_insert(0);
        *nth += 1;
        let kind = text.split('{').next().unwrap_or(text).to_owned();
        let fields = text.split(['{', ',', '}']).skip(1).filter_map(|field| field.parse().ok());
        let fields: Vec<u64> = fields.collect();
        let carried = Carried {
            from: NodeId(from),
            to: NodeId(to),
            message: kind,
            fields: if fields.is_empty() { json!(null) } else { json!(fields) },
            text: text.to_owned(),
            overhead: false,
            nth: *nth,
        };
        self.effect(cause, What::Send(carried))
    }

    fn carried(&self, send: u64) -> Carried {
        self.trace.records[send as usize].what.carried().expect("a send carries a message").clone()
    }

    /// The message arrives, and the process is in this phase then.
    pub fn deliver_to(&mut self, send: u64, time: u64, phase: &str) -> u64 {
        self.phase(self.carried(send).to.0, phase);
        self.deliver(send, time)
    }

    pub fn deliver(&mut self, send: u64, time: u64) -> u64 {
        let carried = self.carried(send);
        self.push(time, Some(carried.to.0), What::Deliver(carried), Some(send))
    }

    pub fn lose(&mut self, send: u64, time: u64) -> u64 {
        let carried = self.carried(send);
        self.push(time, Some(carried.to.0), What::Drop(carried), Some(send))
    }

    pub fn duplicate(&mut self, send: u64, time: u64) -> u64 {
        let carried = self.carried(send);
        self.push(time, Some(carried.from.0), What::Duplicate(carried), Some(send))
    }

    pub fn grant(&mut self, cause: u64, fence: &str) -> u64 {
        let process = self.trace.records[cause as usize].process.expect("a process is granted");
        self.phase(process.0, "holding");
        // A phase is that after the whole input was handled.
        for record in &mut self.trace.records[cause as usize..] {
            record.phase = "holding".to_owned();
        }
        self.effect(cause, What::Event { event: "granted".to_owned(), fence: fence.to_owned(), lock: 0 })
    }
}

/// Three processes of Ricart and Agrawala; p1 and p2 ask at nearly the same time, p3 a little later.
pub fn contended() -> Trace {
    let mut run = Run::new("ricart-agrawala", 1..=3);
    for process in 1..=3 {
        run.phase(process, "idle");
        run.input(0, process, What::Start);
    }
    let a = run.acquire(200, 1);
    let (a2, a3) = (run.send(a, 2, "Request{1}"), run.send(a, 3, "Request{1}"));
    let b = run.acquire(500, 2);
    let (b1, b3) = (run.send(b, 1, "Request{1}"), run.send(b, 3, "Request{1}"));
    let at = run.deliver(a2, 1_100);
    let r21 = run.send(at, 1, "Reply{1,0}");
    run.deliver(b1, 1_400);
    let at = run.deliver(a3, 1_600);
    let r31 = run.send(at, 1, "Reply{1,0}");
    let at = run.deliver(b3, 1_900);
    let r32 = run.send(at, 2, "Reply{1,0}");
    run.deliver(r21, 2_100);
    let c = run.acquire(2_300, 3);
    let (c1, c2) = (run.send(c, 1, "Request{2}"), run.send(c, 2, "Request{2}"));
    let at = run.deliver(r31, 2_600);
    run.grant(at, "0.1.1");
    run.deliver(r32, 2_900);
    run.deliver(c2, 3_300);
    run.deliver(c1, 3_500);
    let out = run.release(4_100, 1);
    let (r12, r13) = (run.send(out, 2, "Reply{1,1}"), run.send(out, 3, "Reply{2,1}"));
    let at = run.deliver(r12, 4_900);
    run.grant(at, "0.2.2");
    run.deliver(r13, 5_200);
    let out = run.release(6_300, 2);
    let r23 = run.send(out, 3, "Reply{2,2}");
    let at = run.deliver(r23, 7_200);
    run.grant(at, "0.3.3");
    run.release(8_300, 3);
    run.trace
}

/// A small generator of numbers: the same seed gives the same run.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, limit: u64) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }
}

/// A run of `n` processes with so many messages between random pairs at random times.
pub fn random(n: u32, messages: usize, fifo: bool, seed: u64) -> Trace {
    let mut dice = Dice(seed | 1);
    let mut run = Run::new("random", 1..=n);
    let mut pending: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let mut latest: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let (mut time, mut sent) = (0, 0);
    while sent < messages || !pending.is_empty() {
        time += 50 + dice.below(400);
        while let Some((&(due, serial), &send)) = pending.first_key_value() {
            if due > time && sent < messages {
                break;
            }
            pending.remove(&(due, serial));
            let phase = ["idle", "waiting", "holding"][dice.below(3) as usize];
            run.deliver_to(send, due, phase);
            time = time.max(due);
        }
        if sent < messages {
            let from = 1 + dice.below(u64::from(n)) as u32;
            let input = run.input(time, from, What::Timer { timer: "tick".to_owned() });
            for _ in 0..=dice.below(2) {
                let to = (from + dice.below(u64::from(n) - 1) as u32) % n + 1;
                let text =
                    ["Request{17}", "Reply{17,3}", "Release", "Token{[1,2,3],9}"][dice.below(4) as usize];
                let send = run.send(input, to, text);
                let mut due = time + 300 + dice.below(2_000);
                if fifo {
                    let last = latest.entry((from, to)).or_insert(0);
                    due = due.max(*last + 1);
                    *last = due;
                }
                pending.insert((due, send), send);
                sent += 1;
            }
        }
    }
    run.trace
}

/// A group that changes: p1 is taken for dead while it is inside and loses the lock to p2, p3 joins, p2 leaves.
pub fn comings_and_goings() -> Trace {
    let event = |event: &str, fence: &str| What::Event { event: event.into(), fence: fence.into(), lock: 0 };
    let mut run = Run::new("group", 1..=3);
    run.trace.header.newcomers = vec![NodeId(3)];
    let a = run.acquire(0, 1);
    run.grant(a, "0.1.1");
    let at = run.input(1_000, 2, What::Suspect { peer: NodeId(1), life: None });
    let gather = run.send(at, 1, "Gather{1p2}");
    run.phase(1, "idle");
    let at = run.deliver(gather, 2_000);
    run.effect(at, event("lost", "0.1.1"));
    run.input(3_000, 2, What::Trust { peer: NodeId(1), life: None });
    let at = run.acquire(4_000, 2);
    run.grant(at, "1p2.1.2");
    run.phase(3, "idle");
    run.input(5_000, 3, What::Join);
    let at = run.input(5_000, 3, What::Start);
    let check_in = run.send(at, 2, "CheckIn{1}");
    run.deliver(check_in, 6_000);
    run.release(7_000, 2);
    let at = run.input(8_000, 2, What::Request { request: "leave".into(), lock: 0 });
    let leave = run.send(at, 1, "Leave");
    run.effect(at, event("left", ""));
    run.deliver(leave, 9_000);
    run.trace
}

/// Everything that can go wrong, once.
pub fn disasters() -> Trace {
    let mut run = Run::new("disasters", 1..=4);
    let a = run.acquire(0, 1);
    let sends: Vec<u64> = [2, 3, 4].into_iter().map(|to| run.send(a, to, "Request{1}")).collect();
    run.duplicate(sends[0], 0);
    run.network(400, What::Partition { cut: "1,2/3,4".to_owned() });
    run.lose(sends[1], 700);
    run.input(800, 4, What::Crash { after: None });
    let at = run.deliver(sends[0], 900);
    let first = run.send(at, 1, "Reply{1,0}");
    run.lose(sends[2], 1_000);
    let at = run.deliver(sends[0], 1_400);
    let second = run.send(at, 1, "Reply{1,0}");
    run.input(1_600, 1, What::Suspect { peer: NodeId(4), life: None });
    run.deliver(second, 2_000);
    run.deliver(first, 2_400);
    run.network(2_600, What::Heal { cut: "1,2/3,4".to_owned() });
    run.input(3_000, 4, What::Restart { life: 2, durable: true });
    run.input(3_100, 1, What::Trust { peer: NodeId(4), life: None });
    run.input(3_200, 3, What::Pause);
    let at = run.input(3_400, 1, What::Timer { timer: "retry".to_owned() });
    run.send(at, 3, "Probe");
    run.grant(at, "1.1.1");
    run.input(4_000, 3, What::Resume);
    let at = run.input(4_300, 2, What::Timer { timer: "watch".to_owned() });
    run.effect(at, What::Event { event: "elected p2".to_owned(), fence: String::new(), lock: 0 });
    run.phase(2, "leader");
    run.send(at, 4, "Leader{2}");
    run.network(
        4_700,
        What::Violation {
            property: "ME1".to_owned(),
            detail: "p1 and p2 are both inside: p1 was let in by a timer although p3 & p4 never <replied>"
                .to_owned(),
        },
    );
    run.input(5_000, 2, What::Reject { peer: NodeId(1), why: "only the holder may send this".to_owned() });
    run.trace
}
