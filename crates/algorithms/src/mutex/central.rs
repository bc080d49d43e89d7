//! The central coordinator: ask the one who keeps the lock.
//!
//! The oldest way to share a lock over a network, and the yardstick for all others; see Coulouris, Dollimore,
//! Kindberg: *Distributed Systems*, 5th ed., section 15.2 (the central server algorithm), 2011.
//!
//! One process keeps the lock: who holds it, and who waits for it in order of arrival. All others ask it, wait for its
//! grant, and tell it when they leave. The coordinator may want the lock itself; it then asks its own books and sends
//! nothing.
//!
//! ```text
//!   p1 ──●──────────▶ inside ──●───────────────────
//!         ╲ Request  ╱ Granted  ╲ Release
//!   p3 ────●────────●─────●──────●─────────────────      p3 is the coordinator
//!                 Request ╱        ╲ Granted
//!   p2 ─────────────────●───────────▶ inside ──          p2 waits in the queue of p3
//! ```
//!
//! **Variants**: a coordinator that cannot grant at once says nothing (`silent`), or says so (`denied`; with its place
//! in the queue: `queued`). None of them means "try again": the request is in the queue, and its grant follows.
//!
//! **Watch**: with `watch=ping` a client finds out by itself that the coordinator is dead, without a failure detector. A
//! request must be answered within a round trip. Where a busy coordinator is silent, or the answer was that one has to
//! wait, the client goes on to ask whether it is alive (`Ping`), and takes silence for death. `watch=impatient` leaves the pings out: a client of a silent coordinator then takes a long stay inside for the
//! death of the coordinator. It stands here to be caught.
//!
//! **Cost**: 3 messages per entry, 0 for entries of the coordinator itself; in the talking variants one more for each
//! request that has to wait. Two message delays to get in, two from exit to the next entry. Every message touches one
//! process.
//!
//! **Assumes** reliable channels of any order. Each request has a number of its own, so that an answer to a request
//! that was given up is told apart from an answer to the next one. A release that gives a request up can overtake that
//! request; the coordinator then grants what nobody wants, and the client hands it back at once.
//!
//! **Caveats**: the coordinator is a single point of failure; replacing it is the business of an election around this
//! protocol. A client that is reported down loses its place and its lock: rightly if it is dead; if it is alive, only
//! the fence protects the resource, and it has to ask again. In the silent variant a client cannot tell a busy
//! coordinator from a dead one.

use alloc::collections::VecDeque;
use alloc::format;
use core::fmt::{Debug, Formatter};
use core::ops::RangeInclusive;
use core::time::Duration;

use conclave_core::{After, Boot, Counter, Effects, Input, Members, Message, NodeId, Phase, Protocol, Space};
use serde::{Deserialize, Serialize};

use super::lives::numbers_before;
use super::{Epoch, Event, Fence, FenceCounter, Mutex, Promises, Request, Roll, Standing, Tally};
use crate::recovery;
use crate::{
    About, Algorithm, Channels, Formula, STRANGER, Setting, SettingError, Settings, Synchrony, Topology,
    Values,
};

/// A process of the central coordinator algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Central {
    id: NodeId,
    members: Members,
    config: CentralConfig,
    state: State,
    epoch: Epoch,
    /// Our last request; the one that we wait for or hold, unless we are idle.
    mine: RequestId,
    heard: Heard,
    /// The coordinator has told us that our request is in its queue.
    queued: bool,
    /// How long an answer takes at most.
    patience: Duration,
    /// The books, if we are the coordinator.
    desk: Option<Desk>,
}

/// What a process is doing as a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Idle,
    Waiting,
    Holding,
}

/// What the coordinator keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Desk {
    holder: Option<Grant>,
    /// Who waits, in order of arrival, each client at most once.
    queue: VecDeque<RequestId>,
    fence: FenceCounter,
}

/// A request that was granted; kept whole, so that a retry gets the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Grant {
    rid: RequestId,
    fence: Fence,
}

/// Settings of [`Central`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CentralConfig {
    /// Who keeps the lock; where it is yet to be elected, who would be if everyone is alive.
    coordinator: NodeId,
    /// Nobody does until the first election.
    is_elected: bool,
    answer: Answer,
    watch: Watch,
    mutation: Option<Mutation>,
}

/// What the coordinator says to those who have to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Answer {
    Silent,
    Denied,
    Queued,
}

/// How a client finds out that the coordinator is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Watch {
    Off,
    Ping,
    Impatient,
}

/// What a client that watches has heard of the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Heard {
    /// It has answered since we last asked.
    Answer,
    /// Not since our request.
    Nothing,
    /// Not since we asked whether it is alive.
    Silence,
    /// It is dead.
    Death,
}

/// The only timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CentralTimer {
    /// The coordinator has had the time to answer.
    Answer,
}

/// One request: whose it is, and which of that client's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId {
    /// Who asks.
    pub client: NodeId,
    /// Larger than that of all requests of this client before.
    pub number: u64,
}

impl Debug for RequestId {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}#{}", self.client, self.number)
    }
}

impl RequestId {
    fn counter(&mut self) -> Counter<'_> {
        Counter::exact(Space::of("request", self.client), &mut self.number)
    }
}

/// What clients and coordinator say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CentralMessage {
    /// I want to enter.
    Request {
        /// The request.
        rid: RequestId,
    },
    /// You may enter.
    Granted {
        /// The request that this answers.
        rid: RequestId,
        /// The proof of it.
        fence: Fence,
    },
    /// You have to wait; the grant will come.
    Denied {
        /// The request that this answers.
        rid: RequestId,
    },
    /// You have to wait in this place of the queue; the grant will come.
    Queued {
        /// The request that this answers.
        rid: RequestId,
        /// The place, counted from 1.
        position: u32,
    },
    /// Are you alive?
    Ping,
    /// I am.
    Pong,
    /// I have left, or no longer want to enter.
    Release {
        /// The request that is over.
        rid: RequestId,
    },
}

use CentralMessage as Msg;

impl Message for CentralMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Request, Granted, Denied, Queued, Ping, Pong, Release)
    }

    fn is_overhead(&self) -> bool {
        matches!(self, Msg::Ping | Msg::Pong)
    }

    fn visit_counters(&mut self, _from: NodeId, _members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            Msg::Ping | Msg::Pong => {}
            Msg::Request { rid } | Msg::Denied { rid } | Msg::Queued { rid, .. } | Msg::Release { rid } => {
                visit(rid.counter());
            }
            Msg::Granted { rid, fence } => {
                visit(rid.counter());
                visit(fence.counter());
            }
        }
    }
}

impl Protocol for Central {
    type Config = CentralConfig;
    type Message = CentralMessage;
    type Request = Request;
    type Event = Event;
    type Timer = CentralTimer;
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        Self {
            id: boot.id,
            members: boot.members.clone(),
            config: boot.config.clone(),
            state: State::Idle,
            epoch: Epoch::FIRST,
            mine: RequestId { client: boot.id, number: numbers_before(boot.life) },
            heard: Heard::Answer,
            queued: false,
            patience: boot.timing.answer_timeout(),
            desk: (boot.id == boot.config.coordinator).then(Desk::default),
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Receive { from, .. } if !self.members.has_other(self.id, from) => {
                out.reject(from, STRANGER);
            }
            Input::Receive { from, message: Msg::Request { rid } } => match self.desk {
                Some(_) if rid.client == from => self.on_request(rid, out),
                _ => out.reject(from, "a request goes from a client to the coordinator"),
            },
            Input::Receive { from, message: Msg::Release { rid } } => match self.desk {
                Some(_) if rid.client == from => self.on_release(rid, out),
                _ => out.reject(from, "a release goes from a client to the coordinator"),
            },
            Input::Receive { from, message: Msg::Granted { rid, fence } } => {
                if from == self.config.coordinator && rid.client == self.id {
                    self.heard = Heard::Answer;
                    self.on_granted(rid, fence, out);
                } else {
                    out.reject(from, "only the coordinator grants");
                }
            }
            // A sign of life: the request is in the queue, and its grant follows.
            Input::Receive { from, message: Msg::Denied { .. } | Msg::Queued { .. } | Msg::Pong }
                if from != self.config.coordinator =>
            {
                out.reject(from, "only the coordinator keeps a queue");
            }
            Input::Receive { message: Msg::Denied { rid } | Msg::Queued { rid, .. }, .. } => {
                self.heard = Heard::Answer;
                self.queued |= rid == self.mine && self.state == State::Waiting;
            }
            Input::Receive { message: Msg::Pong, .. } => self.heard = Heard::Answer,
            Input::Receive { from, message: Msg::Ping } => out.send(from, Msg::Pong),
            Input::Expire(CentralTimer::Answer) => self.on_answer_timeout(out),
            Input::Request(request) if !request.fits(self.phase()) => out.emit(Event::Refused(request)),
            Input::Request(Request::Acquire) => self.acquire(out),
            Input::Request(Request::Release) => self.become_idle(out),
            Input::Request(Request::Cancel) => self.become_idle(out),
            Input::PeerDown { peer, .. } => self.on_peer_down(peer, out),
            // Nobody leaves the group, and who comes back asks again.
            Input::Request(Request::Leave) | Input::Start | Input::PeerUp { .. } => {}
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::Idle => Phase::IDLE,
            State::Waiting => Phase::WAITING,
            State::Holding => Phase::HOLDING,
        }
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        visit(self.mine.counter());
        let Some(desk) = &mut self.desk else { return };
        if let Some(grant) = &mut desk.holder {
            visit(grant.rid.counter());
            visit(grant.fence.counter());
        }
        for rid in &mut desk.queue {
            visit(rid.counter());
        }
        visit(desk.fence.counter());
    }

    fn assert_invariants(&self) {
        if self.config.mutation.is_some() {
            return;
        }

        assert!(self.mine.client == self.id, "our requests carry our name");
        assert!(
            self.desk.is_some() == (self.id == self.config.coordinator),
            "the coordinator keeps the books, and nobody else"
        );
        assert!(
            self.heard == Heard::Answer || self.config.watch != Watch::Off,
            "who does not watch the coordinator never doubts it"
        );
        let Some(desk) = &self.desk else { return };
        assert!(desk.holder.is_some() || desk.queue.is_empty(), "nobody waits while the lock is free");
        assert!(
            self.members.has_each_once(desk.queue.iter().map(|rid| rid.client)),
            "members wait, each in one place"
        );
        for rid in desk.queue.iter().filter(|rid| rid.client == self.id) {
            assert!(
                *rid == self.mine && self.state == State::Waiting,
                "of our own requests the one that we wait for is queued"
            );
        }
        for held in desk.holder.iter().filter(|held| held.rid.client == self.id) {
            assert!(
                held.rid == self.mine && self.state == State::Holding,
                "the lock is ours in the books only while we are inside"
            );
        }
    }
}

/// The client.
impl Central {
    fn acquire(&mut self, out: &mut impl Effects<Self>) {
        self.state = State::Waiting;
        self.queued = false;
        self.mine.number = self.mine.number.saturating_add(1);
        if self.desk.is_some() {
            self.on_request(self.mine, out);
        } else {
            out.send(self.config.coordinator, Msg::Request { rid: self.mine });
            self.await_answer(Heard::Nothing, out);
        }
    }

    fn await_answer(&mut self, heard: Heard, out: &mut impl Effects<Self>) {
        if self.config.watch != Watch::Off {
            self.heard = heard;
            out.arm(CentralTimer::Answer, After::exactly(self.patience));
        }
    }

    fn on_answer_timeout(&mut self, out: &mut impl Effects<Self>) {
        if self.state != State::Waiting || self.desk.is_some() {
            return;
        }
        let silent = self.config.answer == Answer::Silent;
        match self.heard {
            // Silence proves nothing yet where a busy coordinator says nothing.
            Heard::Nothing if silent && self.config.watch == Watch::Ping => self.ask_again(out),
            Heard::Answer => self.ask_again(out),
            Heard::Nothing | Heard::Silence | Heard::Death => self.heard = Heard::Death,
        }
    }

    fn ask_again(&mut self, out: &mut impl Effects<Self>) {
        out.send(self.config.coordinator, Msg::Ping);
        self.await_answer(Heard::Silence, out);
    }

    fn on_granted(&mut self, rid: RequestId, fence: Fence, out: &mut impl Effects<Self>) {
        match self.state {
            State::Waiting if rid == self.mine => {
                self.state = State::Holding;
                self.queued = false;
                out.emit(Event::Granted { fence });
            }
            // The answer to a retry; we are inside already.
            State::Holding if rid == self.mine => {}
            // We have given this request up, and our release overtook it: hand the lock back.
            State::Idle | State::Waiting | State::Holding => {
                out.send(self.config.coordinator, Msg::Release { rid });
            }
        }
    }

    fn become_idle(&mut self, out: &mut impl Effects<Self>) {
        self.state = State::Idle;
        self.queued = false;
        if self.desk.is_some() {
            self.on_release(self.mine, out);
        } else {
            out.send(self.config.coordinator, Msg::Release { rid: self.mine });
        }
    }
}

/// The coordinator.
impl Central {
    fn on_request(&mut self, rid: RequestId, out: &mut impl Effects<Self>) {
        let Some(desk) = &mut self.desk else { return };
        match desk.holder.filter(|_| self.config.mutation != Some(Mutation::GrantWhileHeld)) {
            // A retry gets the same answer again.
            Some(held) if held.rid == rid => {
                out.send(rid.client, Msg::Granted { rid, fence: held.fence });
            }
            // Overtaken by a later request of the same client, which has given this one up.
            Some(held) if held.rid.client == rid.client && held.rid > rid => {}
            Some(_) => {
                let Some(position) = desk.enqueue(rid) else { return };
                self.answer(rid, position, out);
            }
            None => self.grant(rid, out),
        }
    }

    fn on_release(&mut self, rid: RequestId, out: &mut impl Effects<Self>) {
        let Some(desk) = &mut self.desk else { return };
        if desk.holder.is_some_and(|held| held.rid == rid) {
            self.grant_next(out);
        } else {
            // Given up while it waits; or stale, and then there is nothing to take out.
            desk.queue.retain(|waiting| *waiting != rid);
        }
    }

    fn on_peer_down(&mut self, peer: NodeId, out: &mut impl Effects<Self>) {
        let Some(desk) = &mut self.desk else { return };
        desk.queue.retain(|waiting| waiting.client != peer);
        if desk.holder.is_some_and(|held| held.rid.client == peer) {
            self.grant_next(out);
        }
    }

    /// Begins a reign: lets the first in if nobody is inside, and gives the others a sign of life.
    fn reopen(&mut self, out: &mut impl Effects<Self>) {
        if self.desk.as_ref().is_some_and(|desk| desk.holder.is_none()) {
            self.grant_next(out);
        }
        let Some(desk) = &self.desk else { return };
        for (place, rid) in desk.queue.iter().enumerate() {
            self.answer(*rid, place as u32 + 1, out);
        }
    }

    /// Tells a client that it has to wait, unless that is left to its imagination.
    fn answer(&self, rid: RequestId, position: u32, out: &mut impl Effects<Self>) {
        if rid.client == self.id {
            return;
        }
        match self.config.answer {
            Answer::Silent => {}
            Answer::Denied => out.send(rid.client, Msg::Denied { rid }),
            Answer::Queued => out.send(rid.client, Msg::Queued { rid, position }),
        }
    }

    fn grant_next(&mut self, out: &mut impl Effects<Self>) {
        let Some(desk) = &mut self.desk else { return };
        let next = match self.config.mutation {
            Some(Mutation::Lifo) => desk.queue.pop_back(),
            _ => desk.queue.pop_front(),
        };
        match next {
            Some(next) => self.grant(next, out),
            None if self.config.mutation == Some(Mutation::NeverFreed) => {}
            None => desk.holder = None,
        }
    }

    fn grant(&mut self, rid: RequestId, out: &mut impl Effects<Self>) {
        let Some(desk) = &mut self.desk else { return };
        let fence = desk.fence.enter(self.epoch, rid.client);
        desk.holder = Some(Grant { rid, fence });
        if rid.client == self.id {
            self.on_granted(rid, fence, out);
        } else {
            out.send(rid.client, Msg::Granted { rid, fence });
        }
    }
}

impl Desk {
    /// Puts a request into the queue and says where it stands, counted from 1; nothing if it is stale.
    fn enqueue(&mut self, rid: RequestId) -> Option<u32> {
        // One place per client: a later request of the same client means that it gave the earlier one up.
        if let Some(place) = self.queue.iter().position(|waiting| waiting.client == rid.client) {
            match self.queue[place].number {
                number if number > rid.number => return None,
                number if number == rid.number => return Some(place as u32 + 1),
                _ => self.queue.remove(place),
            };
        }
        self.queue.push_back(rid);
        Some(self.queue.len() as u32)
    }
}

mutants! {
    enum Mutation {
        GrantWhileHeld {
            name: "grant-while-held", breaks: "ME1", nodes: 3, trigger: Schedule,
            change: "the coordinator grants a request without looking whether somebody is inside",
        }
        NeverFreed {
            name: "never-freed", breaks: "ME2", nodes: 3, trigger: Schedule,
            change: "a release while nobody waits leaves the lock taken",
        }
        Lifo {
            name: "lifo", breaks: "ME5-FCFS", nodes: 4, trigger: Schedule,
            change: "the next is taken from the wrong end of the queue",
        }
        ForgetQueue { same_as: recovery::Mutation::ForgetQueue }
    }
}

impl Algorithm for Central {
    const ABOUT: About = About {
        name: "central",
        title: "Central coordinator",
        paper: "Coulouris, Dollimore, Kindberg: Distributed Systems, 5th ed., section 15.2, 2011",
        idea: "one process grants the lock and keeps the queue",
        family: crate::mutex::FAMILY,
        channels: Channels::Any,
        synchrony: Synchrony::Asynchronous,
        topology: Topology::Star,
        cost: "3 per entry; one more for each that waits, if told so; 0 for the coordinator's own",
        faults: "crashed clients, if a detector tells; a crashed coordinator blocks everyone",
        settings: &[
            Setting {
                key: "variant",
                values: Values::OneOf(&["silent", "denied", "queued"]),
                default: "silent",
                unsafe_values: &[],
                help: "what a client that has to wait is told: nothing, that it waits, or its place in the queue",
            },
            Setting {
                key: "coordinator",
                values: Values::ProcessOr(&["highest", "elected"]),
                default: "highest",
                unsafe_values: &[],
                help: "who keeps the lock: the id of a process, the highest, or whoever is elected when somebody asks first",
            },
            Setting {
                key: "watch",
                values: Values::OneOf(&["off", "ping", "impatient"]),
                default: "off",
                unsafe_values: &["impatient"],
                help: "whether clients find out by themselves that the coordinator is dead; impatient ones are misled",
            },
        ],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, members: &Members) -> Result<Self::Config, SettingError> {
        let chosen = settings.process("coordinator");
        let coordinator = chosen.or(members.max()).filter(|id| members.contains(*id)).ok_or_else(|| {
            SettingError::Unfit(format!(
                "coordinator={} is not possible: the coordinator must be a member of the group",
                settings.get("coordinator"),
            ))
        })?;
        Ok(CentralConfig {
            coordinator,
            is_elected: settings.get("coordinator") == "elected",
            answer: match settings.get("variant") {
                "denied" => Answer::Denied,
                "queued" => Answer::Queued,
                _ => Answer::Silent,
            },
            watch: match settings.get("watch") {
                "ping" => Watch::Ping,
                "impatient" => Watch::Impatient,
                _ => Watch::Off,
            },
            mutation: Mutation::of(settings),
        })
    }
}

impl Mutex for Central {
    /// Whoever called the roll is the new coordinator: it has the holder and the queue in its books.
    fn rebuild(boot: Boot<'_, Self>, roll: &Roll, out: &mut impl Effects<Self>) -> Self {
        let config = CentralConfig { coordinator: roll.convener, ..boot.config.clone() };
        let mut process = Self::boot(Boot { config: &config, ..boot });
        process.epoch = roll.epoch;
        // What was numbered in older epochs is void: the requests of the roll are the first of this one.
        let rid = |client| RequestId { client, number: 1 };
        process.mine.number = 0;
        process.state = match roll.standing(process.id) {
            Some(Standing::Waiting { .. }) => State::Waiting,
            Some(Standing::Inside { .. }) => State::Holding,
            Some(Standing::Idle) | None => State::Idle,
        };
        if process.state != State::Idle {
            process.mine = rid(process.id);
            process.await_answer(Heard::Nothing, out);
        }
        if let Some(desk) = &mut process.desk {
            desk.holder = roll.inside().map(|(client, fence)| Grant { rid: rid(client), fence });
            if process.config.mutation != Some(Mutation::ForgetQueue) {
                desk.queue = roll.queue().into_iter().map(rid).collect();
            }
            process.reopen(out);
        }
        process
    }

    fn begins_unled(config: &Self::Config) -> bool {
        config.is_elected
    }

    fn led_by(config: &Self::Config, leader: NodeId) -> Self::Config {
        CentralConfig { coordinator: leader, ..config.clone() }
    }

    fn promises(config: &Self::Config, members: &Members) -> Promises {
        Promises {
            no_starvation: true,
            // What is asked for before the election arrives after it, in whatever order.
            overtaking: (!config.is_elected).then(|| members.len() as u64 - 1),
            arrival_order: !config.is_elected,
            ..Promises::NOTHING
        }
    }

    fn tells_queue(config: &Self::Config) -> bool {
        config.answer != Answer::Silent
    }

    fn keeps_queue(&self) -> bool {
        self.desk.is_some() && Self::tells_queue(&self.config)
    }

    fn is_queued(&self) -> bool {
        self.state == State::Waiting && (self.queued || self.keeps_queue())
    }

    fn suspected(&self) -> Option<NodeId> {
        (self.heard == Heard::Death).then_some(self.config.coordinator)
    }

    fn formula(config: &Self::Config, members: &Members, tally: &Tally<'_>) -> Formula {
        let of_clients = |counts: &[u64]| -> u64 {
            members
                .iter()
                .zip(counts)
                .filter(|(id, _)| *id != config.coordinator)
                .map(|(_, count)| count)
                .sum()
        };
        let paid = 3 * of_clients(tally.entries);
        match config.answer {
            _ if config.is_elected => {
                Formula { text: "3, and 0 for the coordinator, and the election", low: paid, high: None }
            }
            Answer::Silent => Formula::exactly("3, and 0 for the coordinator", paid),
            Answer::Denied | Answer::Queued => Formula::exactly(
                "3, and one for each that waited, and 0 for the coordinator",
                paid + of_clients(tally.waited),
            ),
        }
    }

    fn client_hops(config: &Self::Config, _members: &Members, requester: NodeId) -> RangeInclusive<u32> {
        let hops = if requester == config.coordinator { 0 } else { 2 };
        // The first request waits for the election.
        if config.is_elected { 0..=u32::MAX } else { hops..=hops }
    }
}

#[cfg(test)]
mod tests;
