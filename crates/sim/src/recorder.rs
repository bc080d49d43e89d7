//! Records a run in memory; text, JSON and stamps are made when the trace is asked for.

use std::collections::BTreeMap;

use conclave_algorithms::erased::{Erased, ErasedEvent, ErasedRequest};
use conclave_algorithms::family::{EventText, Family, timer_word};
use conclave_core::{
    Deviation, Disturbance, Incarnation, Input, Moment, NodeId, Observer, Phase, Process, Protocol, Shown,
    Transit,
};
use conclave_trace::{Carried, Header, Record, Trace, What};

/// Writes down everything that happens.
#[derive(Clone, Debug)]
pub struct Recorder<P: Protocol> {
    entries: Vec<Entry<P>>,
    /// By slot of a message in flight: the entry of its send.
    sends: Vec<u32>,
    /// The entry of the input that is being handled.
    input: u32,
    /// The entry of the delivery that comes before the next input.
    delivery: Option<u32>,
    /// What the clock of the process shows that handles the next input.
    clock: Option<Shown>,
    /// After how many effects of its step the process that is about to crash was interrupted.
    interrupted: Option<u32>,
    /// Who is no longer in its first life.
    lives: BTreeMap<NodeId, Incarnation>,
}

#[derive(Clone, Debug)]
struct Entry<P: Protocol> {
    time: u64,
    /// The place of the process; `NOBODY` for what concerns the network.
    process: u32,
    cause: u32,
    phase: Option<Phase>,
    /// What the clock showed, in the entry of an input of a process that reads it.
    clock: Option<Shown>,
    what: Raw<P>,
}

#[derive(Clone, Debug)]
enum Raw<P: Protocol> {
    Start,
    Request(P::Request),
    Timer(P::Timer),
    /// With the life that is meant, unless it is the present one.
    Suspect(NodeId, Option<u32>),
    Trust(NodeId, Option<u32>),
    Send {
        to: u32,
        message: P::Message,
    },
    /// The message is that of the send that caused it.
    Deliver,
    Drop,
    Duplicate,
    Emit(P::Event),
    Reject(NodeId, &'static str),
    Crash(Option<u32>),
    Restart(Incarnation, bool),
    Join,
    Pause,
    Resume,
    Cut(String),
    Heal(String),
    Clock(Deviation),
}

const NONE: u32 = u32::MAX;

impl<P: Protocol> Recorder<P> {
    /// Of a run in which nothing has happened.
    #[must_use]
    pub fn new() -> Self {
        Self {
            entries: Vec::new(),
            sends: Vec::new(),
            input: NONE,
            delivery: None,
            clock: None,
            interrupted: None,
            lives: BTreeMap::new(),
        }
    }

    /// How many records there are so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing has happened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn add(&mut self, at: &Moment, process: usize, cause: u32, what: Raw<P>) -> u32 {
        let id = self.entries.len() as u32;
        self.entries.push(Entry {
            time: at.time,
            process: process as u32,
            cause,
            phase: None,
            clock: None,
            what,
        });
        id
    }

    /// The life that a failure detector speaks of; nothing if the peer is still in it.
    fn unless_present(&self, peer: NodeId, life: Incarnation) -> Option<u32> {
        let present = self.lives.get(&peer).copied().unwrap_or(Incarnation::FIRST);
        (life != present).then_some(life.0)
    }

    fn sent(&mut self, slot: u32, entry: u32) {
        let slot = slot as usize;
        if self.sends.len() <= slot {
            self.sends.resize(slot + 1, NONE);
        }
        self.sends[slot] = entry;
    }
}

impl<P: Protocol> Default for Recorder<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Protocol> Observer<P> for Recorder<P> {
    #[inline]
    fn clock(&mut self, _at: &Moment, _process: Process, shown: Shown) {
        self.clock = Some(shown);
    }

    #[inline]
    fn input(&mut self, at: &Moment, process: Process, input: &Input<P>) {
        let what = match input {
            Input::Start => Raw::Start,
            Input::Receive { .. } => {
                self.input = self.delivery.take().expect("a message is delivered before it is handled");
                self.entries[self.input as usize].clock = self.clock.take();
                return;
            }
            Input::Expire(timer) => Raw::Timer(timer.clone()),
            Input::Request(request) => Raw::Request(request.clone()),
            Input::PeerDown { peer, life } => Raw::Suspect(*peer, self.unless_present(*peer, *life)),
            Input::PeerUp { peer, life } => Raw::Trust(*peer, self.unless_present(*peer, *life)),
        };
        self.input = self.add(at, process.index(), NONE, what);
        self.entries[self.input as usize].clock = self.clock.take();
    }

    #[inline]
    fn send(&mut self, at: &Moment, transit: &Transit, message: &P::Message) {
        let what = Raw::Send { to: transit.to.place, message: message.clone() };
        let entry = self.add(at, transit.from.index(), self.input, what);
        self.sent(transit.slot, entry);
    }

    #[inline]
    fn deliver(&mut self, at: &Moment, transit: &Transit, _message: &P::Message) {
        let cause = self.sends[transit.slot as usize];
        self.delivery = Some(self.add(at, transit.to.index(), cause, Raw::Deliver));
    }

    fn drop(&mut self, at: &Moment, transit: &Transit, _message: &P::Message) {
        let cause = self.sends[transit.slot as usize];
        self.add(at, transit.to.index(), cause, Raw::Drop);
    }

    fn duplicate(&mut self, at: &Moment, transit: &Transit, copy: &Transit) {
        let cause = self.sends[transit.slot as usize];
        self.add(at, transit.from.index(), cause, Raw::Duplicate);
        self.sent(copy.slot, cause);
    }

    fn emit(&mut self, at: &Moment, process: Process, event: &P::Event) {
        self.add(at, process.index(), self.input, Raw::Emit(event.clone()));
    }

    fn reject(&mut self, at: &Moment, process: Process, from: NodeId, why: &'static str) {
        self.add(at, process.index(), self.input, Raw::Reject(from, why));
    }

    #[inline]
    fn handled(&mut self, _at: &Moment, _process: Process, state: &P) {
        self.entries[self.input as usize].phase = Some(state.phase());
    }

    fn interrupt(&mut self, _at: &Moment, _process: Process, after: u32) {
        self.interrupted = Some(after);
    }

    fn crash(&mut self, at: &Moment, process: Process) {
        let after = self.interrupted.take();
        let cause = if after.is_some() { self.input } else { NONE };
        self.add(at, process.index(), cause, Raw::Crash(after));
    }

    fn restart(&mut self, at: &Moment, process: Process, life: Incarnation, durable: bool) {
        self.lives.insert(process.id, life);
        self.add(at, process.index(), NONE, Raw::Restart(life, durable));
    }

    fn disturb(&mut self, at: &Moment, what: &Disturbance) {
        let (process, what) = match what {
            Disturbance::Pause(process) => (process.index(), Raw::Pause),
            Disturbance::Resume(process) => (process.index(), Raw::Resume),
            Disturbance::Join(process) => (process.index(), Raw::Join),
            Disturbance::Cut(cut) => (NONE as usize, Raw::Cut(cut.clone())),
            Disturbance::Heal(cut) => (NONE as usize, Raw::Heal(cut.clone())),
            Disturbance::Clock(process, deviation) => (process.index(), Raw::Clock(*deviation)),
        };
        self.add(at, process, NONE, what);
    }
}

impl<P: Protocol> Recorder<P> {
    /// The trace of all that was recorded, in the words of the family.
    #[must_use]
    pub fn trace(&self, header: Header, words: &Words<P>) -> Trace {
        let (nth, carried) = (BTreeMap::new(), BTreeMap::new());
        let mut export = Export { nodes: &header.nodes, words, nth, carried };
        let mut phases = vec![Phase::IDLE.name; header.nodes.len()];
        let mut records = Vec::with_capacity(self.entries.len());
        for (id, entry) in self.entries.iter().enumerate() {
            let what = export.what(id as u32, entry);
            let phase = phases.get_mut(entry.process as usize);
            let phase = phase.map(|last| {
                *last = entry.phase.map_or(*last, |phase| phase.name);
                *last
            });
            records.push(Record {
                id: id as u64,
                time: entry.time,
                process: header.nodes.get(entry.process as usize).copied(),
                what,
                phase: phase.unwrap_or("").to_string(),
                clock: entry.clock,
                cause: (entry.cause != NONE).then_some(u64::from(entry.cause)),
                lamport: 0,
                vector: None,
            });
        }
        let mut trace = Trace { header, records };
        // Vectors are as long as the group is large: only where somebody may want to read them.
        let vectors = trace.header.nodes.len() <= 64;
        trace.stamp(vectors);
        trace
    }
}

/// How requests and events are worded.
pub struct Words<P: Protocol> {
    show: fn(&P::Request) -> (String, usize),
    told: fn(&P::Event) -> EventText,
}

impl<P: Protocol> Words<P> {
    /// In the words of a family.
    #[must_use]
    pub fn of<F: Family<Protocol = P>>() -> Self {
        Self { show: F::show, told: F::told }
    }

    /// A request in words.
    pub(crate) fn show(&self, request: &P::Request) -> String {
        (self.show)(request).0
    }
}

impl Words<Erased> {
    /// In the words of whichever family they belong to.
    pub const ERASED: Self = Self { show: ErasedRequest::show, told: ErasedEvent::told };
}

/// Turns entries into records.
struct Export<'a, P: Protocol> {
    nodes: &'a [NodeId],
    words: &'a Words<P>,
    /// Messages so far, by channel.
    nth: BTreeMap<(u32, u32), u64>,
    /// Messages by the entry of their send.
    carried: BTreeMap<u32, Carried>,
}

impl<P: Protocol> Export<'_, P> {
    fn what(&mut self, id: u32, entry: &Entry<P>) -> What {
        match &entry.what {
            Raw::Start => What::Start,
            Raw::Request(request) => {
                let (request, lock) = (self.words.show)(request);
                What::Request { request, lock }
            }
            Raw::Timer(timer) => What::Timer { timer: timer_word(timer) },
            Raw::Suspect(peer, life) => What::Suspect { peer: *peer, life: *life },
            Raw::Trust(peer, life) => What::Trust { peer: *peer, life: *life },
            Raw::Send { to, message } => {
                let nth = self.nth.entry((entry.process, *to)).or_insert(0);
                *nth += 1;
                let (from, to) = (self.nodes[entry.process as usize], self.nodes[*to as usize]);
                let carried = Carried::of(message, from, to, *nth);
                self.carried.insert(id, carried.clone());
                What::Send(carried)
            }
            Raw::Deliver => What::Deliver(self.carried[&entry.cause].clone()),
            Raw::Drop => What::Drop(self.carried[&entry.cause].clone()),
            Raw::Duplicate => What::Duplicate(self.carried[&entry.cause].clone()),
            Raw::Emit(event) => {
                let told = (self.words.told)(event);
                What::Event { event: told.event, fence: told.fence, lock: told.lock }
            }
            Raw::Reject(peer, why) => What::Reject { peer: *peer, why: (*why).to_string() },
            Raw::Crash(after) => What::Crash { after: *after },
            Raw::Restart(life, durable) => What::Restart { life: life.0, durable: *durable },
            Raw::Join => What::Join,
            Raw::Pause => What::Pause,
            Raw::Resume => What::Resume,
            Raw::Cut(cut) => What::Partition { cut: cut.clone() },
            Raw::Heal(cut) => What::Heal { cut: cut.clone() },
            Raw::Clock(deviation) => What::Clock { deviation: deviation.to_string() },
        }
    }
}
