//! The processes, the messages between them, and one step of one process.
//!
//! A world knows nothing of time or order: a [`Host`] decides which message is delivered next, which timer expires,
//! who crashes. The simulator proper is one host ([`crate::timed`]), the player of scripts another
//! ([`crate::scripted`]).
//!
//! # A crash inside a step
//!
//! A process may crash between any two effects of a step. Effects are carried out in the order in which they were pushed,
//! and a crash after `k` of them means that no later one is carried out: messages are not sent, events not emitted, values
//! not saved. So a [`Save`](conclave_core::Effect::Save) is a barrier: if it was carried out, its value is there after a
//! restart; if it was not, nothing that was pushed after it has been seen by anybody. Timers do not count as effects here,
//! since a crash takes all of them.
//!
//! A process has an outbox per peer, and what is in it dies with the process: a crash may also lose, per channel, any
//! suffix of what was sent and not yet received ([`World::in_flight`], [`World::lose`]). A broadcast that reaches the last
//! peer but not the first is a crash that loses the message to the first.

use conclave_core::{
    After, Boot, Chain, Disturbance, Effect, Effects, Incarnation, Input, Members, Moment, NodeId, Observer,
    Process, Protocol, Reading, Shown, Timing, Transit,
};
use conclave_trace::broken_invariant;

/// What a world needs from whoever drives it.
pub trait Host<P: Protocol> {
    /// What shall become of a message that is being sent.
    fn fate(&mut self, from: Process, to: Process, message: &P::Message) -> Fate;
    /// Whether a process has crashed inside its present step, so that its next effect is not carried out. Asked before
    /// everything that is saved, emitted or rejected; [`fate`](Self::fate) says it of messages.
    fn interrupts(&mut self, process: Process) -> bool;
    /// A message is in flight: deliver it some time.
    fn carry(&mut self, transit: &Transit);
    /// What the clock of a process shows now.
    fn read_clock(&self, process: Process) -> Shown;
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
    /// It is not sent: its sender has crashed inside this step.
    Unsent,
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

/// All processes and all messages in flight.
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

    /// How many messages are in flight.
    #[inline]
    #[must_use]
    pub fn travelling(&self) -> usize {
        self.post.len
    }

    /// A message in flight.
    ///
    /// # Panics
    /// If there is none in this slot.
    #[must_use]
    #[inline(always)]
    pub fn message(&self, slot: u32) -> &P::Message {
        self.post.message(slot)
    }

    /// From whom to whom a message is in flight.
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

    /// Tells a process that a timer expired; what comes of it continues the chain in which the timer was armed.
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

    /// The message that was sent first of those in flight that are of this sort.
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

    /// Makes a copy of a message in flight.
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

    /// A process crashes inside the step that it has just taken, after this many of its effects. Its host has kept the
    /// others from being carried out.
    ///
    /// Its host forgets its timers.
    pub fn interrupt(&mut self, index: usize, after: u32, watch: &mut impl Observer<P>) {
        watch.interrupt(&self.moment(), self.process(index), after);
        self.crash(index, watch);
    }

    /// The messages of a process that are in flight, channel by channel, those of a channel in the order in which
    /// they were sent.
    #[must_use]
    pub fn in_flight(&self, from: usize) -> Vec<Transit> {
        let letters = self
            .post
            .letters
            .iter()
            .zip(0..)
            .filter(|((head, message), _)| message.is_some() && head.from.index() == from);
        let mut found: Vec<_> = letters.map(|((head, _), slot)| head.transit(slot)).collect();
        found.sort_unstable_by_key(|transit| (transit.to.place, transit.serial));
        found
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

    /// A crashed process starts again, with what it saved or without.
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
        if state.reads_clock() {
            watch.clock(&at, process, host.read_clock(process));
        }
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
            Effect::Arm { timer, after } => self.host.arm(self.at, self.process, timer, after),
            Effect::Disarm(timer) => self.host.disarm(self.process, &timer),
            _ if self.host.interrupts(self.process) => {}
            Effect::Save(durable) => self.cells[self.process.index()].durable = Some(durable),
            Effect::Emit(event) => {
                self.watch.emit(self.at, self.process, &event);
                self.host.told(self.process, &event);
            }
            Effect::Reject { from, why } => self.watch.reject(self.at, self.process, from, why),
        }
    }

    fn now(&self) -> Reading {
        self.host.read_clock(self.process).reading()
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
            Fate::Unsent => {}
        }
    }
}

/// The messages in flight, in slots that are used again.
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

#[cfg(test)]
mod tests {
    use conclave_core::{Counter, Message, Phase};
    use serde::{Deserialize, Serialize};

    use super::*;

    /// Does all that can be done in a step, in a fixed order; after a restart it tells what it had saved.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Busy {
        id: NodeId,
        saved: Option<u32>,
    }

    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    struct Note(u32);

    impl Message for Note {
        fn kind(&self) -> &'static str {
            "Note"
        }
        fn visit_counters(&mut self, _: NodeId, _: &Members, _: &mut dyn FnMut(Counter<'_>)) {}
    }

    impl Protocol for Busy {
        type Config = ();
        type Message = Note;
        type Request = ();
        type Event = u32;
        type Timer = ();
        type Durable = u32;

        fn boot(boot: Boot<'_, Self>) -> Self {
            Self { id: boot.id, saved: boot.saved }
        }

        fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
            let peer = NodeId(3 - self.id.0);
            match input {
                Input::Request(()) => {
                    out.send(peer, Note(1));
                    out.save(10);
                    out.arm((), After::exactly(core::time::Duration::ZERO));
                    out.send(peer, Note(2));
                    out.emit(7);
                    out.save(20);
                    out.send(peer, Note(3));
                    out.reject(peer, "why not");
                }
                Input::Start => self.saved.into_iter().for_each(|saved| out.emit(saved)),
                _ => {}
            }
        }

        fn phase(&self) -> Phase {
            Phase::IDLE
        }
    }

    /// Crashes the first process after so many effects.
    struct Cutter {
        left: Option<u32>,
    }

    impl Host<Busy> for Cutter {
        fn fate(&mut self, from: Process, _to: Process, _message: &Note) -> Fate {
            if self.interrupts(from) { Fate::Unsent } else { Fate::Carried }
        }
        fn interrupts(&mut self, _process: Process) -> bool {
            let Some(left) = &mut self.left else { return false };
            let interrupts = *left == 0;
            *left = left.saturating_sub(1);
            interrupts
        }
        fn carry(&mut self, _transit: &Transit) {}
        fn read_clock(&self, _process: Process) -> Shown {
            Shown::default()
        }
        fn arm(&mut self, _at: &Moment, _process: Process, (): (), _after: After) {}
        fn disarm(&mut self, _process: Process, (): &()) {}
        fn told(&mut self, _process: Process, _event: &u32) {}
    }

    #[derive(Default)]
    struct Seen(Vec<String>);

    impl Observer<Busy> for Seen {
        fn send(&mut self, _at: &Moment, _transit: &Transit, message: &Note) {
            self.0.push(format!("send {}", message.0));
        }
        fn drop(&mut self, _at: &Moment, _transit: &Transit, message: &Note) {
            self.0.push(format!("lose {}", message.0));
        }
        fn emit(&mut self, _at: &Moment, _process: Process, event: &u32) {
            self.0.push(format!("emit {event}"));
        }
        fn reject(&mut self, _at: &Moment, _process: Process, _from: NodeId, _why: &'static str) {
            self.0.push("reject".into());
        }
        fn interrupt(&mut self, _at: &Moment, _process: Process, after: u32) {
            self.0.push(format!("crash after {after}"));
        }
    }

    /// What is seen of a step that is cut after so many effects, and of the restart after it.
    fn cut_after(after: u32) -> Vec<String> {
        let mut world = World::<Busy>::new(Members::numbered(2), &[], (), Timing::default());
        let (mut host, mut seen) = (Cutter { left: Some(after) }, Seen::default());
        world.input(0, Input::Request(()), &mut host, &mut seen);
        host.left = None;
        world.interrupt(0, after, &mut seen);
        world.restart(0, true, &mut host, &mut seen);
        seen.0
    }

    /// Everything before the cut is carried out and nothing after it. What was sent after a save that is lost was not
    /// sent, and a save that was carried out is there after the restart.
    #[test]
    fn a_crash_inside_a_step_cuts_between_two_effects() {
        let expected: [&[&str]; 9] = [
            &["crash after 0"],
            &["send 1", "crash after 1"],
            &["send 1", "crash after 2", "emit 10"],
            &["send 1", "send 2", "crash after 3", "emit 10"],
            &["send 1", "send 2", "emit 7", "crash after 4", "emit 10"],
            &["send 1", "send 2", "emit 7", "crash after 5", "emit 20"],
            &["send 1", "send 2", "emit 7", "send 3", "crash after 6", "emit 20"],
            &["send 1", "send 2", "emit 7", "send 3", "reject", "crash after 7", "emit 20"],
            &["send 1", "send 2", "emit 7", "send 3", "reject", "crash after 8", "emit 20"],
        ];
        for (after, expected) in (0..).zip(expected) {
            assert_eq!(cut_after(after), expected);
        }
    }

    /// The outboxes of a process are found channel by channel, in the order of sending, and lose what is named.
    #[test]
    fn a_suffix_of_what_is_in_flight_can_be_lost() {
        let mut world = World::<Busy>::new(Members::numbered(2), &[], (), Timing::default());
        let (mut host, mut seen) = (Cutter { left: None }, Seen::default());
        world.input(0, Input::Request(()), &mut host, &mut seen);
        world.input(1, Input::Request(()), &mut host, &mut seen);
        let sent = world.in_flight(0);
        assert!(sent.is_sorted_by_key(|transit| transit.serial) && sent.len() == 3);
        assert!(sent.iter().all(|transit| (transit.from.id, transit.to.id) == (NodeId(1), NodeId(2))));
        seen.0.clear();
        sent[1..].iter().for_each(|transit| world.lose(transit.slot, &mut seen));
        assert_eq!(seen.0, ["lose 2", "lose 3"]);
        assert_eq!(world.in_flight(0), &sent[..1]);
        assert_eq!(world.in_flight(1).len(), 3);
    }
}
