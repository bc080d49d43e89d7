//! A small world without time, in which a test drives any protocol by hand.
//!
//! Messages wait in their channels until the test delivers them, in order or not; armed timers wait until the test
//! lets them run out. Everything that was sent, told or rejected is kept for the test to look at.

#![allow(dead_code, reason = "every test uses a part of it")]

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use conclave_core::{
    Boot, Chain, Effect, Incarnation, Input, Members, Message, Moment, NodeId, Observer, Process, Protocol,
    Space, Timing, Transit,
};

/// A group of processes and what travels between them.
#[derive(Clone, Debug)]
pub struct World<P: Protocol, O = ()> {
    /// Who takes part.
    pub members: Members,
    /// The processes, in the order of the members.
    pub processes: Vec<P>,
    /// Every message that was ever sent: from, to, what.
    pub sent: Vec<(NodeId, NodeId, P::Message)>,
    /// Every event: who was told what.
    pub events: Vec<(NodeId, P::Event)>,
    /// Every accusation: by whom, of whom, why.
    pub rejects: Vec<(NodeId, NodeId, &'static str)>,
    /// Who watches.
    pub observer: O,
    channels: BTreeMap<(NodeId, NodeId), VecDeque<Envelope<P>>>,
    timers: BTreeSet<(NodeId, P::Timer)>,
    step: u64,
    serial: u64,
    slots: BTreeSet<u32>,
    crashed: BTreeSet<NodeId>,
}

#[derive(Clone, Debug)]
struct Envelope<P: Protocol> {
    message: P::Message,
    transit: Transit,
    chain: Chain,
}

impl<P: Protocol> World<P> {
    /// Processes `1, 2, ..., n`, started, watched by nobody.
    pub fn numbered(n: u32, config: &P::Config) -> Self {
        Self::new(Members::numbered(n), config, ())
    }
}

impl<P: Protocol, O: Observer<P>> World<P, O> {
    /// These processes, started.
    pub fn new(members: Members, config: &P::Config, observer: O) -> Self {
        let (timing, life) = (Timing::default(), Incarnation::FIRST);
        let boot = |id| P::boot(Boot { id, members: &members, config, timing, life, saved: None });
        let processes = members.iter().map(boot).collect();
        let mut world = Self::of(members, processes, observer);
        for id in world.members.clone().iter() {
            world.input(id, Input::Start);
        }
        world
    }

    /// These processes, each made by a function that may have effects.
    pub fn made(
        members: Members,
        mut make: impl FnMut(NodeId, &mut Vec<Effect<P>>) -> P,
        observer: O,
    ) -> Self {
        let mut effects = Vec::new();
        let mut made = |id| {
            let mut out = Vec::new();
            let process = make(id, &mut out);
            effects.push((id, out));
            process
        };
        let processes = members.iter().map(&mut made).collect();
        let mut world = Self::of(members, processes, observer);
        for (id, effects) in effects {
            let chain = Chain { root: world.step, hops: 0 };
            world.carry_out(&world.moment(chain), world.at(id), effects);
            world.step += 1;
        }
        world
    }

    fn of(members: Members, processes: Vec<P>, observer: O) -> Self {
        Self {
            processes,
            members,
            sent: Vec::new(),
            events: Vec::new(),
            rejects: Vec::new(),
            observer,
            channels: BTreeMap::new(),
            timers: BTreeSet::new(),
            step: 0,
            serial: 0,
            slots: BTreeSet::new(),
            crashed: BTreeSet::new(),
        }
    }

    /// A process by its id.
    pub fn process(&self, id: u32) -> &P {
        &self.processes[self.at(NodeId(id)).index()]
    }

    /// The application of a process asks for something.
    pub fn request(&mut self, id: u32, request: P::Request) {
        self.input(NodeId(id), Input::Request(request));
    }

    /// An input that no message caused.
    pub fn input(&mut self, id: NodeId, input: Input<P>) {
        let chain = Chain { root: self.step, hops: 0 };
        self.handle(self.at(id), chain, input);
    }

    /// Lets an armed timer run out.
    pub fn expire(&mut self, id: NodeId, timer: P::Timer) {
        assert!(self.timers.remove(&(id, timer.clone())), "{id} has not armed {timer:?}");
        self.input(id, Input::Expire(timer));
    }

    /// Delivers the oldest message between two processes.
    pub fn deliver(&mut self, from: u32, to: u32) {
        self.deliver_nth(NodeId(from), NodeId(to), 0);
    }

    /// Delivers one of the messages between two processes, counted from the oldest.
    pub fn deliver_nth(&mut self, from: NodeId, to: NodeId, nth: usize) {
        let channel = self.channels.get_mut(&(from, to));
        let taken = channel.and_then(|channel| channel.remove(nth));
        let Envelope { message, transit, chain } = taken.expect("there is a message to deliver");
        self.slots.remove(&transit.slot);
        self.observer.deliver(&self.moment(chain), &transit, &message);
        self.handle(transit.to, chain, Input::Receive { from, message });
    }

    /// Puts a second copy of a message behind all others of its channel.
    pub fn duplicate(&mut self, from: NodeId, to: NodeId, nth: usize) {
        let original = self.channels[&(from, to)][nth].clone();
        let transit = self.transit(original.transit.from, original.transit.to);
        self.observer.duplicate(&self.moment(original.chain), &original.transit, &transit);
        self.channels.entry((from, to)).or_default().push_back(Envelope { transit, ..original });
    }

    /// Delivers until nothing travels any more, each channel in order.
    pub fn drain(&mut self) {
        while let Some((from, to, _)) = self.travelling().first().copied() {
            self.deliver_nth(from, to, 0);
        }
    }

    /// The channels with something in them: from, to, how much.
    pub fn travelling(&self) -> Vec<(NodeId, NodeId, usize)> {
        let filled = self.channels.iter().filter(|(_, channel)| !channel.is_empty());
        filled.map(|((from, to), channel)| (*from, *to, channel.len())).collect()
    }

    /// The messages in flight.
    pub fn in_flight(&self) -> impl Iterator<Item = (NodeId, NodeId, &P::Message)> {
        self.channels
            .iter()
            .flat_map(|((from, to), channel)| channel.iter().map(move |e| (*from, *to, &e.message)))
    }

    /// The timers that are armed.
    pub fn armed(&self) -> Vec<(NodeId, P::Timer)> {
        self.timers.iter().cloned().collect()
    }

    /// What was sent, a line per message: `p1 => p2 Request`.
    pub fn log(&self) -> Vec<String> {
        self.sent.iter().map(|(from, to, message)| format!("{from} => {to} {}", message.kind())).collect()
    }

    /// Every space that a counter of a process or of a message in flight belongs to.
    pub fn spaces(&mut self) -> BTreeSet<Space> {
        let mut spaces = BTreeSet::new();
        self.visit_counters(&mut |space, _| {
            spaces.insert(space);
        });
        spaces
    }

    /// Moves all counters of one space.
    pub fn shift(&mut self, space: Space, by: impl Fn(u64) -> u64) {
        self.visit_counters(&mut |of, value| {
            if of == space {
                *value = by(*value);
            }
        });
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Space, &mut u64)) {
        let mut visit = |counter: conclave_core::Counter<'_>| visit(counter.space, counter.value);
        for process in &mut self.processes {
            process.visit_counters(&mut visit);
        }
        for ((from, _), channel) in &mut self.channels {
            for envelope in channel {
                envelope.message.visit_counters(*from, &self.members, &mut visit);
            }
        }
    }

    /// A process crashes: what is in flight to it, and what is sent to it from now on, is lost.
    pub fn crash(&mut self, id: u32) {
        let id = NodeId(id);
        assert!(self.crashed.insert(id), "{id} is down already");
        self.timers.retain(|(of, _)| *of != id);
        let lost = self.channels.extract_if((NodeId(0), NodeId(0)).., |(_, to), _| *to == id);
        let lost: Vec<_> = lost.flat_map(|(_, channel)| channel).collect();
        self.observer.crash(&self.moment(Chain::default()), self.at(id));
        for envelope in lost {
            self.lose(&envelope);
        }
    }

    /// A crashed process starts again, with nothing that it knew.
    pub fn revive(&mut self, id: u32, config: &P::Config, life: Incarnation) {
        let at = self.at(NodeId(id));
        assert!(self.crashed.remove(&at.id), "{} is up", at.id);
        let (members, timing) = (&self.members, Timing::default());
        let process = P::boot(Boot { id: at.id, members, config, timing, life, saved: None });
        self.processes[at.index()] = process;
        self.observer.restart(&self.moment(Chain::default()), at, life, false);
        self.input(at.id, Input::Start);
    }

    /// Whether a process is up.
    pub fn is_up(&self, id: NodeId) -> bool {
        !self.crashed.contains(&id)
    }

    /// The failure detector of everyone who is up reports a crash.
    pub fn report(&mut self, id: u32) {
        let peer = NodeId(id);
        for to in self.members.clone().others(peer).filter(|to| self.is_up(*to)).collect::<Vec<_>>() {
            self.input(to, Input::PeerDown { peer, life: Incarnation::FIRST });
        }
    }

    fn lose(&mut self, envelope: &Envelope<P>) {
        self.slots.remove(&envelope.transit.slot);
        self.observer.drop(&self.moment(envelope.chain), &envelope.transit, &envelope.message);
    }

    /// How many inputs have been handled.
    pub fn step(&self) -> u64 {
        self.step
    }

    fn at(&self, id: NodeId) -> Process {
        Process { id, place: self.members.position(id).expect("a member") as u32 }
    }

    fn moment(&self, chain: Chain) -> Moment {
        Moment { time: self.step, step: self.step, chain }
    }

    fn transit(&mut self, from: Process, to: Process) -> Transit {
        let slot = (0..).find(|slot| !self.slots.contains(slot)).expect("a free slot");
        self.slots.insert(slot);
        self.serial += 1;
        Transit { from, to, serial: self.serial, slot }
    }

    fn handle(&mut self, process: Process, chain: Chain, input: Input<P>) {
        let at = self.moment(chain);
        self.observer.input(&at, process, &input);
        let mut effects: Vec<Effect<P>> = Vec::new();
        self.processes[process.index()].handle(input, &mut effects);
        self.carry_out(&at, process, effects);
        self.processes[process.index()].assert_invariants();
        self.observer.handled(&at, process, &self.processes[process.index()]);
        self.step += 1;
    }

    fn carry_out(&mut self, at: &Moment, process: Process, effects: Vec<Effect<P>>) {
        for effect in effects {
            match effect {
                Effect::Send { to, message } => self.post(at, process, to, message),
                Effect::Emit(event) => {
                    self.observer.emit(at, process, &event);
                    self.events.push((process.id, event));
                }
                Effect::Reject { from, why } => {
                    self.observer.reject(at, process, from, why);
                    self.rejects.push((process.id, from, why));
                }
                Effect::Arm { timer, .. } => {
                    self.timers.insert((process.id, timer));
                }
                Effect::Disarm(timer) => {
                    self.timers.remove(&(process.id, timer));
                }
                Effect::Save(_) => {}
            }
        }
    }

    fn post(&mut self, at: &Moment, from: Process, to: NodeId, message: P::Message) {
        assert!(from.id != to, "{} sends {} to itself", from.id, message.kind());
        let transit = self.transit(from, self.at(to));
        self.observer.send(at, &transit, &message);
        self.sent.push((from.id, to, message.clone()));
        let chain = Chain { root: at.chain.root, hops: at.chain.hops + 1 };
        let envelope = Envelope { message, transit, chain };
        if self.is_up(to) {
            self.channels.entry((from.id, to)).or_default().push_back(envelope);
        } else {
            self.lose(&envelope);
        }
    }
}

/// Random numbers that a seed brings back (SplitMix64).
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// Any number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.roll() % n as u64) as usize
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}
