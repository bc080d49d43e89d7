//! A world driven by hand: every delivery, timer and fault is a command.
//!
//! Scripts are played here, and failing runs are made shorter here. Neither has to be fast: the types of the algorithm are
//! erased, so that this is compiled once and not once per algorithm.

use std::collections::{BTreeMap, BTreeSet};

use conclave_algorithms::erased::{
    Erased, ErasedConfig, ErasedEvent, ErasedJudge, ErasedMessage, ErasedTimer, Prepared,
};
use conclave_algorithms::family::{Kind, timer_word, unknown_request};
use conclave_algorithms::{Ending, Judge as _};
use conclave_core::{
    After, Counter, Disturbance, Floors, Incarnation, Input, Members, Message, Moment, NodeId, Observer,
    Process, Protocol, Shown, Timing, Transit,
};
use conclave_trace::{Carried, Carry, Command, Which};

use crate::clocks::Clocks;
use crate::world::{Fate, Host, Presence, World};

/// Virtual time between two commands, so that a drawing has room.
const TICK: u64 = 1_000;

/// A world driven by hand, with the properties of its family and whoever else watches.
#[derive(Clone)]
pub struct ScriptedRun<R> {
    world: World<Erased>,
    host: ScriptedHost,
    watch: (Box<dyn ErasedJudge>, R),
    started: bool,
    family: Kind,
    /// What turns words into requests.
    config: ErasedConfig,
    /// Whether messages travel forever although nobody wants anything.
    restless: bool,
    /// What repeats forever began here.
    loop_start: Option<Snapshot>,
    /// It was shown to repeat forever.
    is_endless: bool,
}

/// Everything that matters for what happens next.
#[derive(Clone)]
struct Snapshot {
    step: u64,
    states: Vec<Option<Erased>>,
    channels: BTreeMap<(usize, usize), Vec<ErasedMessage>>,
    timers: Vec<Vec<ErasedTimer>>,
}

impl Snapshot {
    /// Moves all numbers that only grow down.
    fn normalise(&mut self, members: &Members) {
        let mut floors = Floors::default();
        self.visit_counters(members, &mut |counter| floors.meet(&counter));
        self.visit_counters(members, &mut |mut counter| floors.lower(&mut counter));
    }

    fn visit_counters(&mut self, members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        for state in self.states.iter_mut().flatten() {
            state.visit_counters(visit);
        }
        for ((from, _), messages) in &mut self.channels {
            for message in messages {
                message.visit_counters(members.at(*from), members, visit);
            }
        }
    }
}

/// Keeps what is in flight until somebody says what becomes of it.
#[derive(Clone)]
struct ScriptedHost {
    fifo: bool,
    /// The time that the clocks go by: it passes only when the script says so.
    time: u64,
    clocks: Clocks,
    channels: BTreeMap<(usize, usize), Channel>,
    timers: Vec<Vec<ErasedTimer>>,
    /// Who is down.
    down: BTreeSet<usize>,
    /// Who crashes inside its next step.
    ambushes: BTreeMap<usize, Ambush>,
    /// The number of the message that is being copied.
    copying: Option<u64>,
    /// Who has just left.
    left: Vec<usize>,
}

/// A message in flight, for whoever decides what becomes of it.
#[derive(Clone, Debug, PartialEq)]
pub struct InFlight {
    /// The message.
    pub message: Carried,
    /// The plainest way to name it in a command.
    pub which: Which,
    /// Whether it can be delivered now; on a FIFO channel only the oldest can.
    pub deliverable: bool,
}

/// A crash inside the next step of a process.
#[derive(Clone, Copy, Debug)]
struct Ambush {
    /// After so many effects.
    after: u32,
    /// So many of them have been carried out.
    done: u32,
}

impl Ambush {
    /// Whether the next effect is not carried out any more.
    fn strikes(&mut self) -> bool {
        let strikes = self.done == self.after;
        self.done += u32::from(!strikes);
        strikes
    }
}

/// The messages in flight from one process to another, oldest first.
#[derive(Clone, Debug, Default)]
struct Channel {
    sent: u64,
    waiting: Vec<Waiting>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    nth: u64,
    slot: u32,
    serial: u64,
    /// Whether its receiver was down when it was sent.
    waits_for_life: bool,
}

impl<R: Observer<Erased>> ScriptedRun<R> {
    /// Boots the processes; they are started by the first command that is not a crash.
    #[must_use]
    pub fn new(prepared: &Prepared, timing: Timing, observer: R) -> Self {
        let Prepared { about, members, newcomers, restless, config, fifo, judge, .. } = prepared;
        let n = members.len() + newcomers.len();
        let mut world = World::new(members.clone(), newcomers, config.clone(), timing);
        // A script is short, and may show that an invariant fails.
        world.paranoid = true;
        Self {
            world,
            host: ScriptedHost {
                fifo: *fifo,
                time: 0,
                clocks: Clocks::default(),
                channels: BTreeMap::new(),
                timers: (0..n).map(|_| Vec::new()).collect(),
                down: BTreeSet::new(),
                ambushes: BTreeMap::new(),
                copying: None,
                left: Vec::new(),
            },
            watch: (judge.clone(), observer),
            started: false,
            family: about.family,
            config: config.clone(),
            restless: *restless,
            loop_start: None,
            is_endless: false,
        }
    }

    /// The properties as they stand.
    #[must_use]
    pub fn judge(&self) -> &dyn ErasedJudge {
        &*self.watch.0
    }

    /// Whoever else watches.
    pub fn observer(&mut self) -> &mut R {
        &mut self.watch.1
    }

    /// The processes.
    #[must_use]
    pub fn world(&self) -> &World<Erased> {
        &self.world
    }

    /// The messages in flight, oldest first.
    #[must_use]
    pub fn in_flight(&self) -> Vec<InFlight> {
        self.oldest_in_flight(usize::MAX)
    }

    /// The oldest messages in flight, at most so many.
    #[must_use]
    pub fn oldest_in_flight(&self, most: usize) -> Vec<InFlight> {
        let mut found = Vec::new();
        for channel in self.host.channels.values() {
            for (place, letter) in channel.waiting.iter().enumerate() {
                found.push((letter.serial, letter.nth, letter.slot, !self.host.fifo || place == 0));
            }
        }
        found.sort_unstable();
        let letters = found.into_iter().take(most).map(|(_, nth, slot, deliverable)| {
            let (transit, message) = (self.world.transit(slot), self.world.message(slot));
            let (from, to) = (transit.from.id, transit.to.id);
            let which = self.plainest(from, to, nth);
            InFlight { message: Carried::of(message, from, to, nth), which, deliverable }
        });
        letters.collect()
    }

    /// The timers that are armed, process by process.
    #[must_use]
    pub fn armed(&self) -> Vec<(NodeId, String)> {
        let timers = self.host.timers.iter().enumerate();
        let named = timers.flat_map(|(place, armed)| armed.iter().map(move |timer| (place, timer)));
        named.map(|(place, timer)| (self.world.process(place).id, timer_word(timer))).collect()
    }

    /// Whether nothing can happen any more unless an application asks for something.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.world.travelling() == 0 && self.host.timers.iter().all(Vec::is_empty)
    }

    /// Carries out one command.
    ///
    /// # Errors
    /// If it is not possible at this moment; then nothing has changed.
    pub fn apply(&mut self, command: &Command) -> Result<(), String> {
        crate::wanted::go_on();
        if !self.started && !matches!(command, Command::Crash(_) | Command::Clock { .. } | Command::Run(_)) {
            self.started = true;
            for index in 0..self.world.members().len() {
                if self.world.is_up(index) {
                    self.world.input(index, Input::Start, &mut self.host, &mut self.watch);
                }
            }
        }
        let result = self.carry_out(command);
        self.let_go();
        self.world.time += TICK;
        result
    }

    /// Who has left does nothing any more.
    fn let_go(&mut self) {
        for index in self.host.left.drain(..) {
            self.host.timers[index].clear();
            self.world.depart(index);
        }
    }

    fn carry_out(&mut self, command: &Command) -> Result<(), String> {
        match command {
            Command::Run(_) => Ok(()),
            Command::Wait(span) => {
                self.host.time = self.host.time.saturating_add(*span);
                self.world.time = self.world.time.saturating_add(*span);
                Ok(())
            }
            Command::Clock { process, deviation, at } => {
                let index = self.find(*process)?;
                if let Some(at) = at {
                    // What was recorded by several processes need not be in the order of time.
                    let span = at.saturating_sub(self.host.time);
                    self.host.time = *at;
                    self.world.time = self.world.time.saturating_add(span);
                }
                self.host.clocks.set(index, self.host.time, *deviation);
                let process = self.world.process(index);
                // What a clock showed at some time is repeated: that is no news of it.
                if at.is_none() {
                    self.watch.disturb(&self.world.moment(), &Disturbance::Clock(process, *deviation));
                }
                Ok(())
            }
            Command::Show(process) => self.find(*process).map(|_| ()),
            Command::Ask { process, request, lock } => {
                let index = self.up(*process)?;
                let request = self
                    .config
                    .parse(request, *lock)
                    .ok_or_else(|| unknown_request(request, &self.family).to_string())?;
                self.input(index, Input::Request(request));
                Ok(())
            }
            Command::Carry { what, from, to, which } => self.carry(*what, *from, *to, which),
            Command::Settle => self.settle(),
            Command::Loop => {
                self.loop_start = Some(self.snapshot());
                Ok(())
            }
            Command::Again => self.again(),
            Command::Timer { process, timer } => {
                let index = self.up(*process)?;
                let timer = self
                    .host
                    .take_timer(index, timer)
                    .map_err(|armed| format!("{process} has no timer {timer} armed; it has: {armed}"))?;
                self.input(index, Input::Expire(timer));
                Ok(())
            }
            Command::Crash(process) => {
                let index = self.up(*process)?;
                self.host.ambushes.remove(&index);
                self.host.fall(index);
                self.world.crash(index, &mut self.watch);
                Ok(())
            }
            Command::CrashInside { process, after } => {
                let index = self.find(*process)?;
                if self.world.presence(index) == Presence::Gone {
                    return Err(self.absence(index));
                }
                if self.host.ambushes.contains_key(&index) {
                    return Err(format!("{process} is to crash inside its next step already"));
                }
                self.host.ambushes.insert(index, Ambush { after: *after, done: 0 });
                Ok(())
            }
            Command::Restart { process, amnesia } => {
                let index = self.find(*process)?;
                match self.world.presence(index) {
                    Presence::Down => {
                        self.host.down.remove(&index);
                        self.world.restart(index, !amnesia, &mut self.host, &mut self.watch);
                        self.spring(index);
                        Ok(())
                    }
                    Presence::Up => Err(format!("{process} is up and cannot be restarted")),
                    Presence::Absent | Presence::Gone => Err(self.absence(index)),
                }
            }
            Command::Join(process) => {
                let index = self.find(*process)?;
                if self.world.presence(index) != Presence::Absent {
                    return Err(format!("{process} has joined before"));
                }
                self.world.join(index, &mut self.host, &mut self.watch);
                self.spring(index);
                Ok(())
            }
            Command::Suspect { process, peer, life } => {
                let (index, life) = (self.up(*process)?, self.life(*peer, *life)?);
                self.input(index, Input::PeerDown { peer: *peer, life });
                Ok(())
            }
            Command::Trust { process, peer, life } => {
                let (index, life) = (self.up(*process)?, self.life(*peer, *life)?);
                self.input(index, Input::PeerUp { peer: *peer, life });
                Ok(())
            }
        }
    }

    /// The life of a peer that a failure detector speaks of: the present one, or an earlier one that is named.
    fn life(&self, peer: NodeId, named: Option<Incarnation>) -> Result<Incarnation, String> {
        let present = self.world.life(self.find(peer)?);
        match named {
            Some(life) if life > present => Err(format!("{peer} is in {present} and has not begun {life}")),
            named => Ok(named.unwrap_or(present)),
        }
    }

    fn input(&mut self, index: usize, input: Input<Erased>) {
        self.world.input(index, input, &mut self.host, &mut self.watch);
        self.spring(index);
    }

    /// Hands a message over. Who is down takes no step.
    fn deliver(&mut self, slot: u32) {
        let (before, receiver) = (self.world.steps(), self.world.transit(slot).to.index());
        self.world.deliver(slot, &mut self.host, &mut self.watch);
        if self.world.steps() > before {
            self.spring(receiver);
        }
    }

    /// A process that was to crash inside the step that it has just taken is down.
    fn spring(&mut self, index: usize) {
        if let Some(Ambush { done, .. }) = self.host.ambushes.remove(&index) {
            self.host.fall(index);
            self.world.interrupt(index, done, &mut self.watch);
        }
    }

    fn find(&self, process: NodeId) -> Result<usize, String> {
        self.world.members().position(process).ok_or_else(|| format!("{process} is not one of the processes"))
    }

    fn up(&self, process: NodeId) -> Result<usize, String> {
        let index = self.find(process)?;
        if self.world.is_up(index) { Ok(index) } else { Err(self.absence(index)) }
    }

    /// Why a process cannot do anything.
    fn absence(&self, index: usize) -> String {
        let process = self.world.process(index).id;
        match self.world.presence(index) {
            Presence::Absent => format!("{process} has not joined yet"),
            Presence::Gone => format!("{process} has left"),
            Presence::Up | Presence::Down => format!("{process} is down"),
        }
    }

    fn carry(&mut self, what: Carry, from: NodeId, to: NodeId, which: &Which) -> Result<(), String> {
        let pair = (self.find(from)?, self.find(to)?);
        let place = self.choose(pair, from, to, which)?;
        let channel = self.host.channels.get_mut(&pair).expect("a message was found in it");
        if self.host.fifo && what == Carry::Deliver && place > 0 {
            return Err(format!(
                "an older message is in flight from {from} to {to}, and the channel is FIFO"
            ));
        }
        match what {
            Carry::Deliver => {
                let Waiting { slot, waits_for_life, .. } = channel.waiting.remove(place);
                // A sender that has not met any life of the receiver yet has its messages wait for one.
                if waits_for_life {
                    self.world.readdress(slot);
                }
                self.deliver(slot);
            }
            Carry::Drop => {
                let slot = channel.waiting.remove(place).slot;
                self.world.lose(slot, &mut self.watch);
            }
            Carry::Duplicate => {
                let Waiting { nth, slot, .. } = channel.waiting[place];
                self.host.copying = Some(nth);
                self.world.duplicate(slot, &mut self.host, &mut self.watch);
                self.host.copying = None;
            }
        }
        Ok(())
    }

    /// The place, in its channel, of the message that is meant.
    fn choose(&self, pair: (usize, usize), from: NodeId, to: NodeId, which: &Which) -> Result<usize, String> {
        let waiting = self.host.channels.get(&pair).map_or(&[][..], |channel| &channel.waiting);
        let found = match which {
            Which::Oldest => (!waiting.is_empty()).then_some(0),
            Which::Kind(kind) => waiting.iter().position(|letter| self.kind(letter.slot) == kind),
            Which::Nth(nth) => waiting.iter().position(|letter| letter.nth == *nth),
        };
        found.ok_or_else(|| match which {
            Which::Oldest => format!("no message is in flight from {from} to {to}"),
            Which::Kind(kind) => format!("no {kind} is in flight from {from} to {to}"),
            Which::Nth(nth) => format!("message #{nth} is not in flight from {from} to {to}"),
        })
    }

    fn kind(&self, slot: u32) -> &'static str {
        self.world.message(slot).kind()
    }

    /// The plainest way to name a message in flight: the oldest, the oldest of its kind, or its number.
    #[must_use]
    pub fn plainest(&self, from: NodeId, to: NodeId, nth: u64) -> Which {
        let exact = Which::Nth(nth);
        let (Ok(a), Ok(b)) = (self.find(from), self.find(to)) else { return exact };
        let Ok(place) = self.choose((a, b), from, to, &exact) else { return exact };
        if place == 0 {
            return Which::Oldest;
        }
        let slot = self.host.channels[&(a, b)].waiting[place].slot;
        let kind = Which::Kind(self.kind(slot).to_string());
        if self.choose((a, b), from, to, &kind) == Ok(place) { kind } else { exact }
    }

    /// Delivers everything, oldest first; then, if nothing can move any more, nobody may be left waiting.
    fn settle(&mut self) -> Result<(), String> {
        // An algorithm that never stops talking must not hang its reader.
        const ENOUGH: u64 = 1_000_000;
        // What circulates has passed everyone several times by then.
        let idle_enough = (4 * self.world.members().len()).max(10_000);
        let mut idle = 0;
        for _ in 0..ENOUGH {
            crate::wanted::go_on();
            let oldest = self.host.channels.values_mut().filter(|channel| !channel.waiting.is_empty());
            let Some(channel) = oldest.min_by_key(|channel| channel.waiting[0].serial) else {
                if self.is_quiet() {
                    self.watch.0.end(self.world.steps(), Ending::Quiet);
                }
                return Ok(());
            };
            let slot = channel.waiting.remove(0).slot;
            let receiver = self.world.transit(slot).to.index();
            let phase = self.world.state(receiver).phase();
            self.deliver(slot);
            self.let_go();
            self.world.time += TICK;
            idle = if self.world.state(receiver).phase() == phase { idle + 1 } else { 0 };
            if self.restless && idle == idle_enough {
                return Err(format!(
                    "this algorithm never settles: its messages travel forever, and {idle} deliveries in a row \
                     changed no phase; deliver them one by one"
                ));
            }
        }
        Err(format!("still not settled after {ENOUGH} deliveries"))
    }

    /// Everything that matters for what happens next, with numbers that only grow moved down.
    fn snapshot(&self) -> Snapshot {
        let places = 0..self.world.members().len();
        let states = places.map(|place| self.world.is_up(place).then(|| self.world.state(place).clone()));
        let channels = self.host.channels.iter().filter(|(_, channel)| !channel.waiting.is_empty());
        let content = |channel: &Channel| {
            channel.waiting.iter().map(|letter| self.world.message(letter.slot).clone()).collect()
        };
        let mut timers = self.host.timers.clone();
        timers.iter_mut().for_each(|armed| armed.sort());
        let mut snapshot = Snapshot {
            step: self.world.steps(),
            states: states.collect(),
            channels: channels.map(|(ends, channel)| (*ends, content(channel))).collect(),
            timers,
        };
        snapshot.normalise(self.world.members());
        if !self.host.fifo {
            snapshot.channels.values_mut().for_each(|messages| messages.sort());
        }
        snapshot
    }

    /// Everything is as it was at `loop`: what has been going on since goes on forever.
    fn again(&mut self) -> Result<(), String> {
        let start = self.loop_start.as_ref().ok_or("there is no `loop` before this `again`")?;
        let now = self.snapshot();
        if let Some(place) = (0..now.states.len()).find(|place| now.states[*place] != start.states[*place]) {
            let process = self.world.process(place).id;
            return Err(format!(
                "{process} is not as it was at `loop`, even if numbers that only grow are set back"
            ));
        }
        if now.channels != start.channels {
            return Err("other messages are in flight than at `loop`".into());
        }
        if now.timers != start.timers {
            return Err("other timers are armed than at `loop`".into());
        }
        self.watch.0.end(self.world.steps(), Ending::Endless { since: start.step });
        self.is_endless = true;
        Ok(())
    }

    /// Nothing more will be commanded: judges what is left.
    pub fn end(&mut self) {
        if self.is_endless {
            return;
        }
        let ending = if self.is_quiet() { Ending::Quiet } else { Ending::Stopped };
        self.watch.0.end(self.world.steps(), ending);
    }
}

impl ScriptedHost {
    /// A process is down: its timers are gone.
    fn fall(&mut self, index: usize) {
        self.timers[index].clear();
        self.down.insert(index);
    }

    /// Takes the armed timer of this name, or says which are armed.
    fn take_timer(&mut self, index: usize, name: &str) -> Result<ErasedTimer, String> {
        let timers = &mut self.timers[index];
        match timers.iter().position(|timer| timer_word(timer) == name) {
            Some(place) => Ok(timers.remove(place)),
            None if timers.is_empty() => Err("none".into()),
            None => Err(timers.iter().map(timer_word).collect::<Vec<_>>().join(", ")),
        }
    }
}

impl Host<Erased> for ScriptedHost {
    fn fate(&mut self, from: Process, _to: Process, _message: &ErasedMessage) -> Fate {
        if self.interrupts(from) { Fate::Unsent } else { Fate::Carried }
    }

    fn interrupts(&mut self, process: Process) -> bool {
        self.ambushes.get_mut(&process.index()).is_some_and(Ambush::strikes)
    }

    fn carry(&mut self, transit: &Transit) {
        let channel = self.channels.entry((transit.from.index(), transit.to.index())).or_default();
        let nth = self.copying.unwrap_or_else(|| {
            channel.sent += 1;
            channel.sent
        });
        let place = channel.waiting.partition_point(|waiting| waiting.nth <= nth);
        let waits_for_life = self.down.contains(&transit.to.index());
        let waiting = Waiting { nth, slot: transit.slot, serial: transit.serial, waits_for_life };
        channel.waiting.insert(place, waiting);
    }

    fn read_clock(&self, process: Process) -> Shown {
        self.clocks.read(process.index(), self.time)
    }

    fn arm(&mut self, _at: &Moment, process: Process, timer: ErasedTimer, _after: After) {
        let timers = &mut self.timers[process.index()];
        if !timers.contains(&timer) {
            timers.push(timer);
        }
    }

    fn disarm(&mut self, process: Process, timer: &ErasedTimer) {
        self.timers[process.index()].retain(|armed| armed != timer);
    }

    fn told(&mut self, process: Process, event: &ErasedEvent) {
        if event.has_left() {
            self.left.push(process.index());
        }
    }
}
