//! The simulator proper: a world whose messages, timers and faults happen at times drawn from a seed.

use conclave_algorithms::workload::{Agenda, Item, Workload};
use conclave_core::{
    After, Chain, Deviation, Disturbance, Incarnation, Input, Members, Moment, NodeId, Observer, Process,
    Protocol, Shown, Timing, Transit,
};

use crate::channels::LastArrivals;
use crate::clocks::{ClockSetting, Clocks};
use crate::faults::{Crash, Detector, Faults, Inside};
use crate::queue::{Class, Due, Queue};
use crate::rng::{Draw as _, Rng, stream};
use crate::span::Span;
use crate::world::{Fate, Host, Presence, World};

/// How the network behaves.
#[derive(Clone, Debug)]
pub struct Network {
    /// How long a message travels.
    pub delay: Span,
    /// Other delays for single links, by places: from, to.
    pub links: Vec<(usize, usize, Span)>,
    /// Whether messages of one channel arrive in the order in which they were sent.
    pub fifo: bool,
    /// How long a process takes to handle a message: what it sends in answer leaves so much later. It handles any number
    /// of messages side by side.
    pub processing: Span,
}

impl Network {
    /// The longest time that a message travels, if there is one.
    #[must_use]
    pub fn max_delay(&self) -> Option<u64> {
        let links = self.links.iter().map(|(_, _, span)| span.max());
        links.chain([self.delay.max()]).try_fold(0, |longest, max| Some(longest.max(max?)))
    }
}

/// All that a run needs to be told but the applications.
#[derive(Clone, Debug)]
pub struct Scene<P: Protocol> {
    /// Who takes part from the beginning.
    pub members: Members,
    /// Who joins later, as the faults say when; only for protocols that let newcomers in.
    pub newcomers: Vec<NodeId>,
    /// The settings of the algorithm.
    pub config: P::Config,
    /// Whether messages travel forever although nobody wants anything: then the run is over with its last entry.
    pub restless: bool,
    /// Whether a message carries a token, for runs that lose one.
    pub carries_token: fn(&P::Message) -> bool,
    /// What the processes may know of the network's speed.
    pub timing: Timing,
    /// How the network behaves.
    pub network: Network,
    /// What goes wrong.
    pub faults: Faults,
    /// Whose clocks are set, and when.
    pub clocks: Vec<ClockSetting>,
    /// When to give up.
    pub limits: Limits,
    /// Where all chance comes from.
    pub seed: u64,
}

/// When a run gives up.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// After so much time in which no application got anything.
    pub patience: u64,
    /// After so many inputs.
    pub events: u64,
}

/// How a run went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Everything that was asked for was given or is lost with its process, and nothing moves any more, or only what
    /// always moves.
    Done,
    /// Nothing moves any more, but somebody still waits.
    Stuck,
    /// Things move, but for too long nobody has got anything.
    OutOfPatience,
    /// Too many inputs.
    OutOfEvents,
    /// Whoever watches has seen enough.
    Stopped,
}

/// Something in the queue that is not a message.
#[derive(Clone, Debug)]
enum Scheduled<P: Protocol> {
    Ask {
        process: usize,
        life: Incarnation,
        request: P::Request,
        ticket: u64,
    },
    /// A request that was planned before the run.
    Call {
        process: usize,
        request: P::Request,
    },
    Expire {
        process: usize,
        token: u64,
    },
    Crash(usize),
    /// From now on a process may crash inside a step.
    Ambush {
        process: usize,
        inside: Inside,
    },
    Restart {
        process: usize,
        durable: bool,
    },
    Pause {
        process: usize,
        until: u64,
    },
    Resume(usize),
    Cut(usize),
    Heal(usize),
    LoseToken,
    SetClock {
        process: usize,
        deviation: Deviation,
    },
    Join(usize),
    Leave(usize),
    /// The detector of `at` reports about `peer`.
    Down {
        at: usize,
        peer: usize,
        life: Incarnation,
    },
    Up {
        at: usize,
        peer: usize,
        life: Incarnation,
    },
    /// It is time for a wrong suspicion.
    WrongSuspicion,
}

impl<P: Protocol> Scheduled<P> {
    /// Whether it is what a failure detector says.
    fn is_report(&self) -> bool {
        matches!(self, Self::Down { .. } | Self::Up { .. })
    }

    /// Whether it was planned before the run.
    fn is_planned(&self) -> bool {
        match self {
            Self::Crash(_)
            | Self::Ambush { .. }
            | Self::Restart { .. }
            | Self::Pause { .. }
            | Self::Resume(_)
            | Self::Cut(_)
            | Self::Heal(_)
            | Self::LoseToken
            | Self::SetClock { .. }
            | Self::Join(_)
            | Self::Leave(_)
            | Self::Call { .. } => true,
            Self::Ask { .. }
            | Self::Expire { .. }
            | Self::Down { .. }
            | Self::Up { .. }
            | Self::WrongSuspicion => false,
        }
    }
}

/// A run under way.
pub struct Run<P: Protocol, W> {
    world: World<P>,
    host: TimedHost<P, W>,
    limits: Limits,
    restless: bool,
}

/// Everything about a run but the world: queue, network, faults, applications.
struct TimedHost<P: Protocol, W> {
    now: u64,
    queue: Queue,
    scheduled: Vec<Option<Scheduled<P>>>,
    free: Vec<u32>,
    /// How many requests of applications are in the queue.
    asks: usize,
    /// How many planned faults and requests are in the queue.
    planned: usize,
    /// Planned requests that nobody was there to make: when, who, what.
    unasked: Vec<(u64, NodeId, P::Request)>,
    /// How many reports of failure detectors are in the queue.
    reports: usize,
    network: Network,
    last: LastArrivals,
    rng: Rng,
    /// What draws how long processes take; a stream of its own, so that runs without it stay as they are.
    processing: Rng,
    /// Whether it takes a process time to handle a message.
    takes_time: bool,
    /// Whether the present step handles a message, and that takes time.
    is_answering: bool,
    clocks: Clocks,
    faults: Faults,
    faulty: bool,
    carries_token: fn(&P::Message) -> bool,
    /// Who is to crash inside a step. Nobody, in most runs.
    ambushes: Vec<Ambush>,
    /// How many tokens are to be lost as soon as they are sent.
    losses_due: usize,
    cuts: Vec<usize>,
    paused: Vec<u64>,
    timers: Vec<Vec<Armed<P::Timer>>>,
    armed: usize,
    tokens: u64,
    /// Whom each process suspects (at, peer), and which life.
    suspected: std::collections::BTreeMap<(usize, usize), Incarnation>,
    workload: W,
    agenda: Agenda<P>,
    last_progress: u64,
    /// When the last fault happened, or was reported; nothing if an application has asked for something since.
    last_news: Option<u64>,
}

/// A timer that is armed.
#[derive(Clone, Debug)]
struct Armed<T> {
    timer: T,
    /// Which arming of it: one that was replaced or stopped is still in the queue, and means nothing there.
    token: u64,
    /// The chain of messages in which it was armed.
    chain: Chain,
}

/// A crash that is to fall inside a step of a process.
#[derive(Clone, Copy, Debug)]
struct Ambush {
    process: usize,
    inside: Inside,
    /// How many messages of its present step were sent, and how many effects carried out, timers aside.
    messages: u32,
    effects: u32,
    /// The process has crashed inside its present step.
    has_struck: bool,
}

/// A process that crashes inside a step by chance crashes before one in so many effects.
const ODDS_INSIDE: u64 = 4;

impl<P: Protocol, W: Workload<P>> Run<P, W> {
    /// Sets up a run; nothing has happened yet.
    #[must_use]
    pub fn new(scene: Scene<P>, workload: W) -> Self {
        let Scene { members, newcomers, config, restless, carries_token, .. } = scene;
        let Scene { timing, network, faults, clocks, limits, seed, .. } = scene;
        let n = members.len() + newcomers.len();
        let host = TimedHost {
            now: 0,
            queue: Queue::new(4 * network.delay.max().unwrap_or(8 * network.delay.mean())),
            scheduled: Vec::new(),
            free: Vec::new(),
            asks: 0,
            planned: 0,
            unasked: Vec::new(),
            reports: 0,
            last: LastArrivals::new(if network.fifo { n } else { 0 }),
            takes_time: network.processing != Span::Constant(0),
            network,
            rng: Rng::new(seed, stream::NETWORK),
            processing: Rng::new(seed, stream::PROCESSING),
            is_answering: false,
            clocks: Clocks::default(),
            faulty: !faults.is_empty(),
            faults,
            carries_token,
            ambushes: Vec::new(),
            losses_due: 0,
            cuts: Vec::new(),
            paused: vec![0; n],
            timers: (0..n).map(|_| Vec::new()).collect(),
            armed: 0,
            tokens: 0,
            suspected: std::collections::BTreeMap::new(),
            workload,
            agenda: Agenda::new(Rng::new(seed, stream::WORKLOAD)),
            last_progress: 0,
            last_news: None,
        };
        let world = World::new(members, &newcomers, config, timing);
        let mut run = Self { world, host, limits, restless };
        run.plan_faults(&clocks);
        run
    }

    /// The processes.
    #[must_use]
    pub fn world(&self) -> &World<P> {
        &self.world
    }

    /// Planned requests that were not made, because their process was down or not there: when, who, what.
    #[must_use]
    pub fn unasked(&self) -> &[(u64, NodeId, P::Request)] {
        &self.host.unasked
    }

    /// Asserts the invariants of every process after each of its steps.
    pub fn be_paranoid(&mut self) {
        self.world.paranoid = true;
    }

    /// Runs to the end, first with the faults, then, when all has come to rest, without them.
    ///
    /// `stop` is asked after every input whether whoever watches has seen enough.
    pub fn go<O: Observer<P>>(&mut self, watch: &mut O, stop: impl Fn(&O) -> bool) -> Rest {
        self.start(watch);
        loop {
            let rest = self.run(watch, &stop);
            let over = matches!(rest, Rest::Stopped | Rest::OutOfEvents);
            if over || !self.host.faulty {
                return rest;
            }
            self.end_faults(watch);
        }
    }

    fn start<O: Observer<P>>(&mut self, watch: &mut O) {
        // Faults at time 0 come first: who is down from the beginning is never started. What is said about them can wait
        // until all are up.
        while let Some(due) = self.host.queue.pop() {
            if due.time() > 0 || !due.is_fault() {
                self.host.queue.put_back(due);
                break;
            }
            self.happen(due, watch);
        }
        // Nobody crashes inside the very first step: no script could say so.
        let ambushes = core::mem::take(&mut self.host.ambushes);
        for process in 0..self.world.members().len() {
            if self.world.is_up(process) {
                self.world.input(process, Input::Start, &mut self.host, watch);
            }
        }
        self.host.ambushes = ambushes;
        self.host.workload.begin(&mut self.host.agenda);
        self.host.carry_out(&mut self.world);
    }

    fn run<O: Observer<P>>(&mut self, watch: &mut O, stop: &impl Fn(&O) -> bool) -> Rest {
        let restless = self.restless;
        loop {
            if stop(watch) {
                return Rest::Stopped;
            }
            let host = &mut self.host;
            if (self.world.travelling() == 0 || restless) && host.asks == 0 {
                host.workload.quiet(&mut host.agenda);
                host.carry_out(&mut self.world);
                let still =
                    if restless { host.has_settled_since_last_fault(self.limits) } else { host.armed == 0 };
                let idle = host.asks == 0 && still && host.no_faults_pending();
                if idle && host.workload.is_done() {
                    return Rest::Done;
                }
            }
            let Some(due) = host.queue.pop() else {
                return if host.workload.is_done() { Rest::Done } else { Rest::Stuck };
            };
            if due.time() - host.last_progress > self.limits.patience {
                if host.workload.is_waiting() && host.planned == 0 {
                    host.queue.put_back(due);
                    return Rest::OutOfPatience;
                }
                // Who waits for others that never come back has timers without end, but nothing is left to be done.
                if host.workload.is_done() && host.planned == 0 {
                    return Rest::Done;
                }
                // Time in which nobody wanted anything, or in which faults are still to come, does not count against
                // the processes.
                host.last_progress = due.time();
            }
            if self.world.steps() >= self.limits.events {
                return Rest::OutOfEvents;
            }
            host.now = due.time();
            host.agenda.now = due.time();
            self.world.time = due.time();
            if due.is_message() {
                self.arrive(due, watch);
            } else {
                self.happen(due, watch);
            }
        }
    }

    #[inline]
    fn arrive<O: Observer<P>>(&mut self, due: Due, watch: &mut O) {
        let slot = due.what();
        if self.host.faulty {
            let to = self.world.transit(slot).to.index();
            let resume = self.host.paused[to];
            if resume > self.host.now {
                return self.host.queue.put_back(due.postponed(resume));
            }
        }
        self.host.is_answering = self.host.takes_time;
        self.world.deliver(slot, &mut self.host, watch);
        self.host.is_answering = false;
        self.spring(watch);
        self.host.carry_out(&mut self.world);
    }

    #[inline(never)]
    fn happen<O: Observer<P>>(&mut self, due: Due, watch: &mut O) {
        let slot = due.what() as usize;
        let next = self.host.scheduled[slot].take().expect("what is in the queue happens once");
        if let Some(resume) = self.host.blocked(&next) {
            self.host.scheduled[slot] = Some(next);
            return self.host.queue.put_back(due.postponed(resume));
        }
        self.host.free.push(slot as u32);
        if next.is_planned() || next.is_report() {
            self.host.last_news = Some(self.host.now);
        }
        self.host.planned -= usize::from(next.is_planned());
        self.host.reports -= usize::from(next.is_report());
        match next {
            Scheduled::Ask { process, life, request, ticket } => {
                self.ask(process, life, &request, ticket, watch);
            }
            Scheduled::Call { process, request } => self.call(process, request, watch),
            Scheduled::Expire { process, token } => {
                if let Some(Armed { timer, chain, .. }) = self.host.expired(process, token) {
                    self.world.expire(process, timer, chain, &mut self.host, watch);
                    self.spring(watch);
                }
            }
            Scheduled::Crash(process) => self.crash(process, watch),
            Scheduled::Ambush { process, inside } => {
                let ambush = Ambush { process, inside, messages: 0, effects: 0, has_struck: false };
                self.host.ambushes.push(ambush);
            }
            Scheduled::Restart { process, durable } => self.restart(process, durable, watch),
            Scheduled::Pause { process, until } => {
                self.host.paused[process] = until;
                let process = self.world.process(process);
                watch.disturb(&self.world.moment(), &Disturbance::Pause(process));
            }
            Scheduled::Resume(process) => {
                let process = self.world.process(process);
                watch.disturb(&self.world.moment(), &Disturbance::Resume(process));
            }
            Scheduled::Cut(index) => {
                self.host.cuts.push(index);
                let cut = self.host.faults.partitions[index].cut();
                watch.disturb(&self.world.moment(), &Disturbance::Cut(cut));
            }
            Scheduled::Heal(index) => self.heal(index, watch),
            Scheduled::LoseToken => self.lose_token(watch),
            Scheduled::SetClock { process, deviation } => {
                self.host.clocks.set(process, self.host.now, deviation);
                let process = self.world.process(process);
                watch.disturb(&self.world.moment(), &Disturbance::Clock(process, deviation));
            }
            Scheduled::Join(process) => self.join(process, watch),
            Scheduled::Leave(process) => {
                let host = &mut self.host;
                host.last_progress = host.now;
                host.workload.leave(self.world.process(process), &mut host.agenda);
            }
            Scheduled::Down { at, peer, life } => self.suspect(at, peer, life, watch),
            Scheduled::Up { at, peer, life } => self.trust(at, peer, life, watch),
            Scheduled::WrongSuspicion => self.suspect_wrongly(),
        }
        self.host.carry_out(&mut self.world);
    }

    fn ask<O: Observer<P>>(
        &mut self,
        process: usize,
        life: Incarnation,
        request: &P::Request,
        ticket: u64,
        watch: &mut O,
    ) {
        let host = &mut self.host;
        host.asks -= 1;
        let who = self.world.process(process);
        let is_same = self.world.is_up(process) && self.world.life(process) == life;
        if is_same && host.workload.stands(who, request, ticket) {
            self.request(process, request, watch);
        }
    }

    /// What was planned is asked for if anybody is there to do it.
    fn call<O: Observer<P>>(&mut self, process: usize, request: P::Request, watch: &mut O) {
        if self.world.is_up(process) {
            return self.request(process, &request, watch);
        }
        let who = self.world.process(process).id;
        self.host.unasked.push((self.host.now, who, request));
    }

    fn request<O: Observer<P>>(&mut self, process: usize, request: &P::Request, watch: &mut O) {
        let host = &mut self.host;
        host.last_progress = host.now;
        host.last_news = None;
        self.world.input(process, Input::Request(request.clone()), host, watch);
        self.spring(watch);
        if self.world.is_up(process) {
            let who = self.world.process(process);
            let host = &mut self.host;
            host.workload.handled(who, request, &mut host.agenda);
        }
    }

    fn join<O: Observer<P>>(&mut self, process: usize, watch: &mut O) {
        self.world.join(process, &mut self.host, watch);
        self.spring(watch);
        if !self.world.is_up(process) {
            return;
        }
        let who = self.world.process(process);
        let host = &mut self.host;
        host.last_progress = host.now;
        host.workload.joined(who, &mut host.agenda);
        self.report_who_is_down(process);
    }

    /// The detector of a process that has come up reports who is down.
    fn report_who_is_down(&mut self, at: usize) {
        let host = &mut self.host;
        let Some(latency) = host.faults.detector.latency() else { return };
        for peer in 0..self.world.members().len() {
            if self.world.presence(peer) == Presence::Down {
                let when = host.now + latency.draw(&mut host.rng);
                let life = self.world.life(peer);
                host.schedule(when, Class::Later, Scheduled::Down { at, peer, life });
            }
        }
    }

    /// The token that was sent first of those in flight is lost, or else the next that is sent.
    fn lose_token<O: Observer<P>>(&mut self, watch: &mut O) {
        match self.world.oldest(self.host.carries_token) {
            Some(slot) => {
                self.host.queue.forget_message(slot);
                self.world.lose(slot, watch);
            }
            None => self.host.losses_due += 1,
        }
    }

    fn crash<O: Observer<P>>(&mut self, process: usize, watch: &mut O) {
        if self.world.is_up(process) {
            self.world.crash(process, watch);
            self.after_crash(process);
        }
    }

    /// After every step: whoever crashed inside it is down.
    #[inline(always)]
    fn spring<O: Observer<P>>(&mut self, watch: &mut O) {
        if !self.host.ambushes.is_empty() {
            self.spring_ambushes(watch);
        }
    }

    #[inline(never)]
    fn spring_ambushes<O: Observer<P>>(&mut self, watch: &mut O) {
        let host = &mut self.host;
        let struck = host.ambushes.iter().position(|ambush| ambush.has_struck);
        let struck = struck.map(|place| host.ambushes.remove(place));
        for ambush in &mut host.ambushes {
            (ambush.messages, ambush.effects) = (0, 0);
        }
        let Some(Ambush { process, inside, effects, .. }) = struck else { return };
        host.last_news = Some(host.now);
        self.world.interrupt(process, effects, watch);
        self.after_crash(process);
        if inside == Inside::Chance {
            self.lose_unsent(process, watch);
        }
    }

    /// What a crashed process had sent and nobody has received yet was perhaps still in its outboxes: of each channel, a
    /// suffix drawn by chance is lost.
    fn lose_unsent<O: Observer<P>>(&mut self, process: usize, watch: &mut O) {
        for channel in self.world.in_flight(process).chunk_by(|a, b| a.to == b.to) {
            let kept = self.host.rng.below(channel.len() as u64 + 1) as usize;
            for Transit { slot, .. } in &channel[kept..] {
                self.host.queue.forget_message(*slot);
                self.world.lose(*slot, watch);
            }
        }
    }

    /// A process has crashed: its timers are gone, and the others will hear of it.
    fn after_crash(&mut self, process: usize) {
        let life = self.world.life(process);
        let who = self.world.process(process);
        let host = &mut self.host;
        host.forget(process);
        host.workload.crashed(who);
        host.last_progress = host.now;
        if let Some(latency) = host.faults.detector.latency() {
            for at in (0..self.world.members().len()).filter(|at| *at != process) {
                let when = host.now + latency.draw(&mut host.rng);
                host.schedule(when, Class::Later, Scheduled::Down { at, peer: process, life });
            }
        }
    }

    fn restart<O: Observer<P>>(&mut self, process: usize, durable: bool, watch: &mut O) {
        // Who was to crash before this moment and did not is not up to crash any more.
        self.host.ambushes.retain(|ambush| ambush.process != process);
        if self.world.presence(process) != Presence::Down {
            return;
        }
        // Nobody may hear anything of the new life before the end of the old one.
        let old = self.world.life(process);
        for at in (0..self.world.members().len()).filter(|at| *at != process) {
            self.suspect(at, process, old, watch);
        }
        self.world.restart(process, durable, &mut self.host, watch);
        let life = self.world.life(process);
        let who = self.world.process(process);
        let host = &mut self.host;
        host.last_progress = host.now;
        host.workload.restarted(who, &mut host.agenda);
        self.report_who_is_down(process);
        let host = &mut self.host;
        for at in (0..self.world.members().len()).filter(|at| *at != process) {
            let latency = host.faults.detector.latency().unwrap_or(Span::Constant(0));
            let when = host.now + latency.draw(&mut host.rng);
            host.schedule(when, Class::Later, Scheduled::Up { at, peer: process, life });
        }
    }

    fn heal<O: Observer<P>>(&mut self, index: usize, watch: &mut O) {
        self.host.cuts.retain(|cut| *cut != index);
        self.host.last_progress = self.host.now;
        let cut = self.host.faults.partitions[index].cut();
        watch.disturb(&self.world.moment(), &Disturbance::Heal(cut));
    }

    fn suspect<O: Observer<P>>(&mut self, at: usize, peer: usize, life: Incarnation, watch: &mut O) {
        let is_down = match self.world.presence(peer) {
            Presence::Down => true,
            // A detector that is wrong, as long as it may.
            Presence::Up => self.host.faulty,
            // Of who has left, everyone knows where it is.
            Presence::Absent | Presence::Gone => false,
        };
        let stale = self.world.life(peer) != life || !is_down;
        if !self.world.is_up(at) || stale || self.host.suspected.insert((at, peer), life) == Some(life) {
            return;
        }
        let peer = self.world.process(peer).id;
        self.world.input(at, Input::PeerDown { peer, life }, &mut self.host, watch);
        self.spring(watch);
    }

    fn trust<O: Observer<P>>(&mut self, at: usize, peer: usize, life: Incarnation, watch: &mut O) {
        let stale = self.world.life(peer) != life || !self.world.is_up(peer);
        if !self.world.is_up(at) || stale || self.host.suspected.remove(&(at, peer)).is_none() {
            return;
        }
        let peer = self.world.process(peer).id;
        self.world.input(at, Input::PeerUp { peer, life }, &mut self.host, watch);
        self.spring(watch);
    }

    /// The detector is wrong: some process suspects some living peer for a while.
    fn suspect_wrongly(&mut self) {
        let Detector::Wrong { every, lasting, .. } = self.host.faults.detector else { return };
        let n = self.world.members().len() as u64;
        if !self.host.chance_rules() || n < 2 {
            return;
        }
        let host = &mut self.host;
        let at = host.rng.below(n) as usize;
        let peer = (at + 1 + host.rng.below(n - 1) as usize) % n as usize;
        if self.world.is_up(peer) {
            let life = self.world.life(peer);
            let until = host.now + lasting.draw(&mut host.rng).max(1);
            host.schedule(host.now, Class::Later, Scheduled::Down { at, peer, life });
            host.schedule(until, Class::Later, Scheduled::Up { at, peer, life });
        }
        let next = host.now + every.draw(&mut host.rng).max(1);
        host.schedule(next, Class::Fault, Scheduled::WrongSuspicion);
    }

    /// The faults are over: all planned ones have happened, and chance has no say any more. Who is down stays down; who
    /// is up is trusted by all.
    fn end_faults<O: Observer<P>>(&mut self, watch: &mut O) {
        self.host.faulty = false;
        self.host.ambushes.clear();
        self.host.last_progress = self.host.now;
        let suspected: Vec<_> = self.host.suspected.keys().copied().collect();
        for (at, peer) in suspected {
            if self.world.is_up(peer) {
                self.host.last_news = Some(self.host.now);
            }
            self.trust(at, peer, self.world.life(peer), watch);
        }
        self.host.carry_out(&mut self.world);
    }

    fn plan_faults(&mut self, clocks: &[ClockSetting]) {
        let place =
            |process| self.world.members().position(process).expect("faults are held against the members");
        let mut plan = Vec::new();
        for Crash { process, at, restart, amnesia, inside } in &self.host.faults.crashes {
            let process = place(*process);
            plan.push(match *inside {
                None => (*at, Scheduled::Crash(process)),
                Some(inside) => (*at, Scheduled::Ambush { process, inside }),
            });
            plan.extend(restart.map(|when| (when, Scheduled::Restart { process, durable: !amnesia })));
        }
        for pause in &self.host.faults.pauses {
            let process = place(pause.process);
            plan.push((pause.from, Scheduled::Pause { process, until: pause.until }));
            plan.push((pause.until, Scheduled::Resume(process)));
        }
        for (index, cut) in self.host.faults.partitions.iter().enumerate() {
            plan.push((cut.from, Scheduled::Cut(index)));
            plan.push((cut.until, Scheduled::Heal(index)));
        }
        plan.extend(clocks.iter().map(|setting| {
            let (process, deviation) = (place(setting.process), setting.deviation);
            (setting.at, Scheduled::SetClock { process, deviation })
        }));
        plan.extend(self.host.faults.lost_tokens.iter().map(|time| (*time, Scheduled::LoseToken)));
        // Who comes and goes does so like any application asks: after the faults and messages of the moment.
        let joins = self.host.faults.joins.iter().map(|join| (join.at, Scheduled::Join(place(join.process))));
        let leaves =
            self.host.faults.leaves.iter().map(|leave| (leave.at, Scheduled::Leave(place(leave.process))));
        let changes: Vec<_> = joins.chain(leaves).collect();
        self.host.planned = plan.len() + changes.len();
        for (time, next) in plan {
            self.host.schedule(time, Class::Fault, next);
        }
        for (time, next) in changes {
            self.host.schedule(time, Class::Later, next);
        }
        if let Detector::Wrong { every, .. } = self.host.faults.detector {
            let first = every.draw(&mut self.host.rng);
            self.host.schedule(first, Class::Fault, Scheduled::WrongSuspicion);
        }
    }
}

impl<P: Protocol, W> TimedHost<P, W> {
    fn schedule(&mut self, time: u64, class: Class, next: Scheduled<P>) {
        self.reports += usize::from(next.is_report());
        let slot = match self.free.pop() {
            Some(slot) => {
                self.scheduled[slot as usize] = Some(next);
                slot
            }
            None => {
                self.scheduled.push(Some(next));
                (self.scheduled.len() - 1) as u32
            }
        };
        self.queue.push(time, class, slot);
    }

    /// Until when a next has to wait because its process is paused.
    fn blocked(&self, next: &Scheduled<P>) -> Option<u64> {
        let process = match next {
            Scheduled::Ask { process, .. }
            | Scheduled::Call { process, .. }
            | Scheduled::Expire { process, .. } => *process,
            Scheduled::Down { at, .. } | Scheduled::Up { at, .. } => *at,
            Scheduled::WrongSuspicion => return None,
            planned => {
                debug_assert!(planned.is_planned(), "all others are named above");
                return None;
            }
        };
        Some(self.paused[process]).filter(|resume| *resume > self.now)
    }

    /// The timer that this token stands for, if it is still armed.
    fn expired(&mut self, process: usize, token: u64) -> Option<Armed<P::Timer>> {
        let timers = &mut self.timers[process];
        let place = timers.iter().position(|armed| armed.token == token)?;
        self.armed -= 1;
        Some(timers.swap_remove(place))
    }

    /// Moves what the applications wrote on their agenda into the queue, and lets go who has left.
    #[inline]
    fn carry_out(&mut self, world: &mut World<P>) {
        if !self.agenda.items.is_empty() {
            self.carry_out_all(world);
        }
    }

    fn carry_out_all(&mut self, world: &mut World<P>) {
        let mut items = core::mem::take(&mut self.agenda.items);
        for item in items.drain(..) {
            match item {
                Item::Ask { time, process, request, ticket } => {
                    self.asks += 1;
                    let life = world.life(process);
                    self.schedule(time, Class::Later, Scheduled::Ask { process, life, request, ticket });
                }
                Item::Call { time, process, request } => {
                    self.planned += 1;
                    self.schedule(time, Class::Later, Scheduled::Call { process, request });
                }
                Item::Depart(process) => {
                    world.depart(process);
                    self.forget(process);
                }
            }
        }
        self.agenda.items = items;
    }

    /// A process is no longer there: its timers and its suspicions are gone.
    fn forget(&mut self, process: usize) {
        self.armed -= self.timers[process].len();
        self.timers[process].clear();
        self.suspected.retain(|(at, _), _| *at != process);
    }

    /// Whether the processes have dealt with the last failure, where something always moves: somebody has left the lock
    /// since, or they have had the time to.
    fn has_settled_since_last_fault(&self, limits: Limits) -> bool {
        self.last_news.is_none_or(|news| self.now - news > limits.patience / 8)
    }

    /// Whether no fault, no planned request and no report of one is still to come, as far as that can be waited for: a detector that is wrong
    /// goes on until it is stopped.
    #[inline(always)]
    fn no_faults_pending(&self) -> bool {
        let errs = self.faulty && matches!(self.faults.detector, Detector::Wrong { .. });
        let stops = self.faults.until.is_some() && self.chance_rules();
        self.planned == 0 && if errs { !stops } else { self.reports == 0 }
    }

    fn chance_rules(&self) -> bool {
        self.faulty && self.faults.until.is_none_or(|until| self.now < until)
    }

    /// Whether a process crashes before its next effect, or has done so before in this step.
    fn strikes(&mut self, process: Process, is_message: bool) -> bool {
        let (rules, rng) = (self.chance_rules(), &mut self.rng);
        let ambush = self.ambushes.iter_mut().find(|ambush| ambush.process == process.index());
        let Some(ambush) = ambush else { return false };
        ambush.has_struck = ambush.has_struck
            || match ambush.inside {
                Inside::After(messages) => is_message && ambush.messages == messages,
                Inside::Chance => rules && rng.below(ODDS_INSIDE) == 0,
            };
        if !ambush.has_struck {
            ambush.effects += 1;
            ambush.messages += u32::from(is_message);
        }
        ambush.has_struck
    }

    fn faulty_fate(&mut self, from: Process, to: Process, message: &P::Message) -> Fate {
        if !self.ambushes.is_empty() && self.strikes(from, true) {
            return Fate::Unsent;
        }
        if self.losses_due > 0 && (self.carries_token)(message) {
            self.losses_due -= 1;
            return Fate::Lost;
        }
        let lost = |index: &usize| {
            let cut = &self.faults.partitions[*index];
            !cut.hold && cut.stops(from.id, to.id)
        };
        if self.cuts.iter().any(lost) {
            return Fate::Lost;
        }
        if self.chance_rules() {
            if self.faults.loss.happens(&mut self.rng) {
                return Fate::Lost;
            }
            if self.faults.duplicate.happens(&mut self.rng) {
                return Fate::Doubled;
            }
        }
        Fate::Carried
    }

    /// How long a message travels; one that is held by a cut leaves when the cut is over.
    #[inline(always)]
    fn travel(&mut self, from: Process, to: Process) -> u64 {
        if self.cuts.is_empty() && self.network.links.is_empty() {
            return self.now + self.network.delay.draw(&mut self.rng);
        }
        self.travel_far(from, to)
    }

    /// The same where links differ or are cut.
    fn travel_far(&mut self, from: Process, to: Process) -> u64 {
        let cuts = self.cuts.iter().map(|index| &self.faults.partitions[*index]);
        let held = cuts.filter(|cut| cut.hold && cut.stops(from.id, to.id)).map(|cut| cut.until).max();
        let links = &self.network.links;
        let link = links.iter().find(|(a, b, _)| (*a, *b) == (from.index(), to.index()));
        let span = link.map_or(self.network.delay, |(_, _, span)| *span);
        held.unwrap_or(self.now) + span.draw(&mut self.rng)
    }
}

impl<P: Protocol, W: Workload<P>> Host<P> for TimedHost<P, W> {
    #[inline(always)]
    fn fate(&mut self, from: Process, to: Process, message: &P::Message) -> Fate {
        if self.faulty { self.faulty_fate(from, to, message) } else { Fate::Carried }
    }

    #[inline(always)]
    fn interrupts(&mut self, process: Process) -> bool {
        !self.ambushes.is_empty() && self.strikes(process, false)
    }

    #[inline(always)]
    fn carry(&mut self, transit: &Transit) {
        let mut arrival = self.travel(transit.from, transit.to);
        if self.is_answering {
            arrival += self.network.processing.draw(&mut self.processing);
        }
        if self.network.fifo {
            arrival = self.last.keep_order(transit.from.index(), transit.to.index(), arrival);
        }
        self.queue.push(arrival, Class::Message, transit.slot);
    }

    #[inline]
    fn read_clock(&self, process: Process) -> Shown {
        self.clocks.read(process.index(), self.now)
    }

    fn arm(&mut self, at: &Moment, process: Process, timer: P::Timer, after: After) {
        Host::<P>::disarm(self, process, &timer);
        let micros = |span: core::time::Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let span = self.rng.between(micros(after.min), micros(after.max));
        let when = self.now.saturating_add(self.clocks.true_span(process.index(), span));
        let token = self.tokens;
        self.tokens += 1;
        self.armed += 1;
        self.timers[process.index()].push(Armed { timer, token, chain: at.chain });
        self.schedule(when, Class::Later, Scheduled::Expire { process: process.index(), token });
    }

    fn disarm(&mut self, process: Process, timer: &P::Timer) {
        let timers = &mut self.timers[process.index()];
        if let Some(place) = timers.iter().position(|armed| armed.timer == *timer) {
            timers.swap_remove(place);
            self.armed -= 1;
        }
    }

    #[inline]
    fn told(&mut self, process: Process, event: &P::Event) {
        self.last_progress = self.now;
        self.workload.told(process, event, &mut self.agenda);
    }
}
