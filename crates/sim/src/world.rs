//! The processes, the messages between them, and one step of one process.
//!
//! A world knows nothing of time or order: a [`Host`] decides which message is delivered next, which timer runs out,
//! who crashes. The simulator proper is one host ([`crate::timed`]), the player of scripts another
//! ([`crate::stage`]).

use conclave_core::{
    After, Boot, Chain, Disturbance, Effect, Effects, Incarnation, Input, Members, Moment, NodeId, Observer,
    Process, Protocol, Timing, Transit,
};
use conclave_trace::broken_invariant;

/// What a world needs from whoever drives it.
pub trait Host<P: Protocol> {
    /// What shall become of a message that is being sent.
    fn fate(&mut self, from: Process, to: Process, message: &P::Message) -> Fate;
    /// A message is on its way: deliver it some time.
    fn carry(&mut self, transit: &Transit);
    /// A timer was armed; it replaces one of the same name.
    fn arm(&mut self, at: &Moment, process: Process, timer: P::Timer, after: After);
    /// A timer was stopped.
    fn disarm(&mut self, process: Process, timer: &P::Timer);
    /// A process told its application something.
    fn told(&mut self, process: Process, event: &P::Event);
}

/// What becomes of a message that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is carried.
    Carried,
    /// It is lost.
    Lost,
    /// It is carried, and a copy of it too.
    Doubled,
}

/// Whether a process is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It has not joined yet.
    Absent,
    /// It is up.
    Up,
    /// It has crashed, and may come back.
    Down,
    /// It has left for good.
    Gone,
}

/// What a world keeps for a process.
#[derive(Clone, Debug)]
struct Cell<P: Protocol> {
    presence: Presence,
    life: Incarnation,
    durable: Option<P::Durable>,
}

/// All processes and all messages on their way.
#[derive(Clone, Debug)]
pub struct World<P: Protocol> {
    /// Who is there from the beginning: all that a process is told of when it is booted.
    founders: Members,
    /// Everyone, newcomers last.
    members: Members,
    ids: Vec<NodeId>,
    config: P::Config,
    timing: Timing,
    states: Vec<P>,
    cells: Vec<Cell<P>>,
    post: Post<P::Message>,
    /// The time, kept here for those who watch.
    pub time: u64,
    step: u64,
    /// Whether the invariants of a process are asserted after each of its steps; in tests they always are.
    pub paranoid: bool,
}

impl<P: Protocol> World<P> {
    /// Boots every process; none has been started yet.
    ///
    /// Newcomers take part once they have joined. Only protocols that let them in may be given any.
    ///
    /// # Panics
    /// If a newcomer is among the founders.
    #[must_use]
    pub fn new(founders: Members, newcomers: &[NodeId], config: P::Config, timing: Timing) -> Self {
        let life = Incarnation::FIRST;
        let members = with_newcomers(&founders, newcomers);
        let boot = |id| P::boot(Boot { id, members: &founders, config: &config, timing, life, saved: None });
        let states = members.iter().map(boot).collect();
        let mut cells = vec![Cell { presence: Presence::Up, life, durable: None }; members.len()];
        for cell in &mut cells[founders.len()..] {
            cell.presence = Presence::Absent;
        }
        let ids = members.iter().collect();
        let (post, paranoid) = (Post::new(), cfg!(debug_assertions));
        Self { states, cells, founders, members, ids, config, timing, post, time: 0, step: 0, paranoid }
    }

    /// All processes: who is there from the beginning, and after them who joins, whether they have done so or not.
    #[must_use]
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// The process at a place.
    #[inline]
    #[must_use]
    pub fn process(&self, index: usize) -> Process {
        Process::new(self.ids[index], index)
    }

    /// The process of this name.
    #[must_use]
    pub fn find(&self, id: NodeId) -> Option<Process> {
        self.members.position(id).map(|index| Process::new(id, index))
    }

    /// Whether a process is up.
    #[inline]
    #[must_use]
    pub fn is_up(&self, index: usize) -> bool {
        self.cells[index].presence == Presence::Up
    }

    /// Whether a process is there.
    #[must_use]
    pub fn presence(&self, index: usize) -> Presence {
        self.cells[index].presence
    }

    /// Which life a process is in.
    #[must_use]
    pub fn life(&self, index: usize) -> Incarnation {
        self.cells[index].life
    }

    /// The state of a process.
    #[must_use]
    pub fn state(&self, index: usize) -> &P {
        &self.states[index]
    }

    /// How many inputs have been handled.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// How many messages are on their way.
    #[inline]
    #[must_use]
    pub fn travelling(&self) -> usize {
        self.post.len
    }

    /// A message on its way.
    ///
    /// # Panics
    /// If there is none in this slot.
    #[must_use]
    #[inline(always)]
    pub fn message(&self, slot: u32) -> &P::Message {
        self.post.message(slot)
    }

    /// From whom to whom a message is on its way.
    #[must_use]
    #[inline(always)]
    pub fn transit(&self, slot: u32) -> Transit {
        self.post.letters[slot as usize].0.transit(slot)
    }

    /// The present moment, outside of any chain of messages.
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment { time: self.time, step: self.step, chain: Chain { root: self.step, hops: 0 } }
    }

    /// Tells a process that a timer ran out; what comes of it continues the chain in which the timer was armed.
    pub fn expire(
        &mut self,
        index: usize,
        timer: P::Timer,
        chain: Chain,
        host: &mut impl Host<P>,
        watch: &mut impl Observer<P>,
    ) {
        let at = Moment { time: self.time, step: self.step, chain };
        self.handle(at, index, Input::Expire(timer), host, watch);
    }

    /// Hands a process an input that no message caused.
    pub fn input(
        &mut self,
        index: usize,
        input: Input<P>,
        host: &mut impl Host<P>,
        watch: &mut impl Observer<P>,
    ) {
        let at = self.moment();
        self.handle(at, index, input, host, watch);
    }

    /// Delivers a message; it is lost if its receiver is down.
    #[inline(always)]
    pub fn deliver(&mut self, slot: u32, host: &mut impl Host<P>, watch: &mut impl Observer<P>) {
        let (head, message) = self.post.take(slot);
        let transit = head.transit(slot);
        let at = Moment { time: self.time, step: self.step, chain: head.chain };
        let cell = &self.cells[transit.to.index()];
        if cell.presence != Presence::Up || cell.life != head.life {
            return watch.drop(&at, &transit, &message);
        }
        watch.deliver(&at, &transit, &message);
        self.handle(at, transit.to.index(), Input::Receive { from: transit.from.id, message }, host, watch);
    }

    /// The message that was sent first of those on their way that are of this sort.
    pub fn oldest(&self, is_of_sort: impl Fn(&P::Message) -> bool) -> Option<u32> {
        let travelling = self.post.letters.iter().zip(0..);
        let wanted = travelling.filter(|((_, message), _)| message.as_ref().is_some_and(&is_of_sort));
        wanted.min_by_key(|((head, _), _)| head.serial).map(|(_, slot)| slot)
    }

    /// A message is meant for the life that its receiver is in now.
    pub fn readdress(&mut self, slot: u32) {
        let head = &mut self.post.letters[slot as usize].0;
        head.life = self.cells[head.to.index()].life;
    }

    /// Loses a message.
    pub fn lose(&mut self, slot: u32, watch: &mut impl Observer<P>) {
        let (head, message) = self.post.take(slot);
        let at = Moment { time: self.time, step: self.step, chain: head.chain };
        watch.drop(&at, &head.transit(slot), &message);
    }

    /// Makes a copy of a message on its way.
    pub fn duplicate(&mut self, slot: u32, host: &mut impl Host<P>, watch: &mut impl Observer<P>) {
        let (head, message) = (self.post.letters[slot as usize].0, self.message(slot).clone());
        let copy = self.post.put(head, message);
        watch.duplicate(&self.moment(), &head.transit(slot), &copy);
        host.carry(&copy);
    }

    /// A process crashes: it loses all but what it saved.
    ///
    /// Its host forgets its timers.
    pub fn crash(&mut self, index: usize, watch: &mut impl Observer<P>) {
        self.cells[index].presence = Presence::Down;
        watch.crash(&self.moment(), self.process(index));
    }

    /// A process that has left does nothing any more. It has told so itself: nobody is told again.
    ///
    /// Its host forgets its timers.
    pub fn depart(&mut self, index: usize) {
        self.cells[index].presence = Presence::Gone;
    }

    /// A newcomer comes up and asks to be let in.
    pub fn join(&mut self, index: usize, host: &mut impl Host<P>, watch: &mut impl Observer<P>) {
        debug_assert!(self.cells[index].presence == Presence::Absent, "a process joins once");
        self.cells[index].presence = Presence::Up;
        watch.disturb(&self.moment(), &Disturbance::Join(self.process(index)));
        self.input(index, Input::Start, host, watch);
    }

    /// A crashed process starts anew, with what it saved or without.
    pub fn restart(
        &mut self,
        index: usize,
        durable: bool,
        host: &mut impl Host<P>,
        watch: &mut impl Observer<P>,
    ) {
        let process = self.process(index);
        let cell = &mut self.cells[index];
        if !durable {
            cell.durable = None;
        }
        cell.life = cell.life.next();
        cell.presence = Presence::Up;
        self.states[index] = P::boot(Boot {
            id: process.id,
            members: &self.founders,
            config: &self.config,
            timing: self.timing,
            life: cell.life,
            saved: cell.durable.clone(),
        });
        let life = cell.life;
        watch.restart(&self.moment(), process, life, durable);
        self.input(index, Input::Start, host, watch);
    }

    #[inline(always)]
    fn handle(
        &mut self,
        at: Moment,
        index: usize,
        input: Input<P>,
        host: &mut impl Host<P>,
        watch: &mut impl Observer<P>,
    ) {
        let process = self.process(index);
        let state = &mut self.states[index];
        debug_assert!(self.cells[index].presence == Presence::Up, "a process that is down handles nothing");
        watch.input(&at, process, &input);
        let (members, cells, post) = (&self.members, &mut self.cells, &mut self.post);
        state.handle(
            input,
            &mut Outbox { process, at: &at, members, ids: &self.ids, cells, post, host, watch },
        );
        if self.paranoid
            && let Some(why) = broken_invariant(state)
        {
            watch.invariant(&at, process, &why);
        }
        watch.handled(&at, process, state);
        self.step += 1;
    }
}

/// Everyone who ever takes part: newcomers come last.
pub(crate) fn with_newcomers(founders: &Members, newcomers: &[NodeId]) -> Members {
    if newcomers.is_empty() {
        return founders.clone();
    }
    Members::listed(founders.iter().chain(newcomers.iter().copied()).collect::<Vec<_>>())
}

/// Carries out the effects of one process while it handles one input.
struct Outbox<'a, P: Protocol, H, W> {
    process: Process,
    at: &'a Moment,
    members: &'a Members,
    ids: &'a [NodeId],
    cells: &'a mut [Cell<P>],
    post: &'a mut Post<P::Message>,
    host: &'a mut H,
    watch: &'a mut W,
}

impl<P: Protocol, H: Host<P>, W: Observer<P>> Effects<P> for Outbox<'_, P, H, W> {
    #[inline(always)]
    fn push(&mut self, effect: Effect<P>) {
        match effect {
            Effect::Send { to, message } => self.send_one(to, message),
            Effect::Save(durable) => self.cells[self.process.index()].durable = Some(durable),
            Effect::Arm { timer, after } => self.host.arm(self.at, self.process, timer, after),
            Effect::Disarm(timer) => self.host.disarm(self.process, &timer),
            Effect::Emit(event) => {
                self.watch.emit(self.at, self.process, &event);
                self.host.told(self.process, &event);
            }
            Effect::Reject { from, why } => self.watch.reject(self.at, self.process, from, why),
        }
    }
}

impl<P: Protocol, H: Host<P>, W: Observer<P>> Outbox<'_, P, H, W> {
    /// Where a process stands: usually its number tells.
    #[inline]
    fn place(&self, id: NodeId) -> usize {
        let guess = id.0.wrapping_sub(self.ids[0].0) as usize;
        if self.ids.get(guess) == Some(&id) {
            return guess;
        }
        self.members
            .position(id)
            .unwrap_or_else(|| panic!("{} sends a message to the stranger {id}", self.process.id))
    }

    // One copy of this for all places that send: everything that happens to a message is inlined into it.
    #[inline(never)]
    fn send_one(&mut self, to: NodeId, message: P::Message) {
        let from = self.process;
        assert!(to != from.id, "{to} sends a message to itself");
        let index = self.place(to);
        let to = Process::new(to, index);
        let chain = Chain { root: self.at.chain.root, hops: self.at.chain.hops + 1 };
        let head = Head { from, to, serial: 0, chain, life: self.cells[index].life };
        match self.host.fate(from, to, &message) {
            Fate::Carried => {
                let transit = self.post.put(head, message);
                self.watch.send(self.at, &transit, self.post.message(transit.slot));
                self.host.carry(&transit);
            }
            Fate::Lost => {
                let transit = self.post.put(head, message);
                let (_, message) = self.post.take(transit.slot);
                self.watch.send(self.at, &transit, &message);
                self.watch.drop(self.at, &transit, &message);
            }
            Fate::Doubled => {
                let transit = self.post.put(head, message.clone());
                self.watch.send(self.at, &transit, &message);
                let copy = self.post.put(head, message);
                self.watch.duplicate(self.at, &transit, &copy);
                self.host.carry(&transit);
                self.host.carry(&copy);
            }
        }
    }
}

/// The messages on their way, in slots that are used again.
#[derive(Clone, Debug)]
struct Post<M> {
    letters: Vec<(Head, Option<M>)>,
    free: Vec<u32>,
    serial: u64,
    len: usize,
}

/// What stands on the envelope.
#[derive(Clone, Copy, Debug)]
struct Head {
    from: Process,
    to: Process,
    serial: u64,
    chain: Chain,
    /// The life of the receiver that it is meant for: a later one never gets it.
    life: Incarnation,
}

impl Head {
    #[inline(always)]
    fn transit(&self, slot: u32) -> Transit {
        Transit { from: self.from, to: self.to, serial: self.serial, slot }
    }
}

impl<M> Post<M> {
    fn new() -> Self {
        Self { letters: Vec::new(), free: Vec::new(), serial: 0, len: 0 }
    }

    /// Gives a message a slot and a serial number of its own.
    #[inline(always)]
    fn put(&mut self, mut head: Head, message: M) -> Transit {
        head.serial = self.serial;
        self.serial += 1;
        self.len += 1;
        match self.free.pop() {
            Some(slot) => {
                self.letters[slot as usize] = (head, Some(message));
                head.transit(slot)
            }
            None => {
                self.letters.push((head, Some(message)));
                head.transit((self.letters.len() - 1) as u32)
            }
        }
    }

    #[inline(always)]
    fn message(&self, slot: u32) -> &M {
        self.letters[slot as usize].1.as_ref().expect("a message is in its slot until it is taken")
    }

    #[inline(always)]
    fn take(&mut self, slot: u32) -> (Head, M) {
        let (head, message) = &mut self.letters[slot as usize];
        let message = message.take().expect("a message is delivered or lost once");
        self.free.push(slot);
        self.len -= 1;
        (*head, message)
    }
}
