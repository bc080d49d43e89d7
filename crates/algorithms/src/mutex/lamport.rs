//! Lamport: everyone keeps the whole queue.
//!
//! Lamport: *Time, clocks, and the ordering of events in a distributed system*, CACM 21(7), 1978.
//!
//! Every process keeps a copy of the queue of requests, ordered by (stamp, id). A process that wants to enter puts its
//! request into all copies, and enters when it heads its own copy and has heard from everyone something stamped later
//! than its request: channels keep their order, so nothing earlier can still be on the way. On its way out it takes its
//! request out of all copies.
//!
//! ```text
//!   p1 ──●────────────────▶ inside ──●──────────        ● p1 and p2 ask at once: (1, p1) and (1, p2)
//!         ╲ ╱ Request  ╲ ╱            ╲ Release
//!          ╳            ╳ Reply        ╲                p1 heads both copies of the queue;
//!         ╱ ╲          ╱ ╲              ╲               p2 enters when p1's request is gone
//!   p2 ──●───●────────●───●──────────────▶ inside
//! ```
//!
//! **Cost**: 3(n − 1) messages per entry: a request, a reply and a release for everyone else. Two message delays when
//! nobody competes, one from exit to the next entry. With `replies=suppressed` a process does not reply if it has
//! already sent something stamped later than the request, its own request for example: between 2(n − 1) and 3(n − 1).
//!
//! **Entry**: with `enter=acks` only a `Reply` counts as "something later", as many textbooks tell it. That is the stricter
//! rule: it is as safe, and costs as many messages. Where several ask at once, their requests no longer stand for replies, and
//! the first of them enters one message delay later.
//!
//! **Assumes** reliable channels that keep their order, and that nobody crashes.
//!
//! **Caveats**: one crashed process blocks everyone. Where a reply can overtake a request, "something later" proves
//! nothing any more, and two may enter. A message that arrives twice leaves a request in the queue that nobody takes
//! out.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use conclave_core::{
    Boot, Counter, Effects, Input, LamportClock, Members, Message, NodeId, Phase, Protocol, Space, Stamp,
};
use serde::{Deserialize, Serialize};

use super::queue::RequestQueue;
use super::stamps::{STAMPS, Stamps};
use super::{Epoch, Event, FenceCounter, Load, Mutex, Promises, Request, Roll, Standing, Tally};
use crate::{
    About, Algorithm, Channels, Formula, STRANGER, Setting, SettingError, Settings, Synchrony, Topology,
    Values,
};

/// A process of Lamport's algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lamport {
    id: NodeId,
    members: Members,
    config: LamportConfig,
    clock: LamportClock,
    state: State,
    /// Our copy of the queue; our own request is in it from the moment we ask until we are out.
    queue: RequestQueue,
    /// The largest stamp received from each member, by place, of the messages that count for entry; nothing from ourselves.
    last: Vec<u64>,
    /// The largest stamp sent to each member, by place; kept only where it can save a reply.
    told: Vec<u64>,
    epoch: Epoch,
    fence: FenceCounter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Idle,
    /// Asked with this stamp.
    Waiting {
        mine: Stamp,
    },
    Holding,
}

/// Settings of [`Lamport`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LamportConfig {
    /// Whether a reply that says nothing new is left out.
    suppresses: bool,
    /// Whether only replies count for entry.
    needs_replies: bool,
    /// What the clocks show at the start.
    stamps: Stamps,
    mutation: Option<Mutation>,
}

/// What the processes say to each other; every message is stamped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LamportMessage {
    /// I want to enter; put me into your queue with this stamp.
    Request {
        /// The time of the request.
        time: u64,
    },
    /// I have seen your request, and nothing that I say from now on is stamped earlier.
    Reply {
        /// The time of the reply.
        time: u64,
        /// The largest fence that I know.
        fence: FenceCounter,
    },
    /// I have left, or no longer want to enter; take me out of your queue.
    Release {
        /// The time of the release.
        time: u64,
        /// The largest fence that I know.
        fence: FenceCounter,
    },
}

use LamportMessage as Msg;

impl Message for LamportMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Request, Reply, Release)
    }

    fn visit_counters(&mut self, _from: NodeId, _members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            Msg::Request { time } => visit(Counter::exact(CLOCK, time)),
            Msg::Reply { time, fence } | Msg::Release { time, fence } => {
                visit(Counter::exact(CLOCK, time));
                visit(fence.counter());
            }
        }
    }
}

const CLOCK: Space = Space::shared("clock");

impl Protocol for Lamport {
    type Config = LamportConfig;
    type Message = LamportMessage;
    type Request = Request;
    type Event = Event;
    type Timer = ();
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        let n = boot.members.len();
        Self {
            id: boot.id,
            members: boot.members.clone(),
            config: boot.config.clone(),
            clock: boot.config.stamps.clock(boot.id),
            state: State::Idle,
            queue: RequestQueue::default(),
            last: vec![0; n],
            told: if boot.config.suppresses { vec![0; n] } else { Vec::new() },
            epoch: Epoch::FIRST,
            fence: FenceCounter::default(),
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Receive { from, .. } if !self.members.has_other(self.id, from) => {
                out.reject(from, STRANGER);
            }
            Input::Receive { from, message: Msg::Request { time } } => {
                self.hear(from, time, !self.config.needs_replies);
                self.queue.insert(Stamp { time, process: from });
                self.maybe_reply(Stamp { time, process: from }, out);
                self.maybe_give_way(from, out);
                self.maybe_enter(out);
            }
            Input::Receive { from, message: Msg::Reply { time, fence } } => {
                self.hear(from, time, true);
                self.fence.witness(fence);
                self.maybe_enter(out);
            }
            Input::Receive { from, message: Msg::Release { time, fence } } => {
                self.hear(from, time, !self.config.needs_replies);
                self.fence.witness(fence);
                self.queue.remove_of(from);
                self.maybe_enter(out);
            }
            Input::Request(request) if !request.fits(self.phase()) => out.emit(Event::Refused(request)),
            Input::Request(Request::Acquire) => self.acquire(out),
            Input::Request(Request::Release) => self.become_idle(out),
            // The release follows the request on every channel. Replies to what we have given up may still arrive;
            // all that counts of them is their stamp, and for that it does not matter which request caused them.
            Input::Request(Request::Cancel) => self.become_idle(out),
            // Nobody leaves the group. No timer is ever armed, and the algorithm of the paper knows of no failures.
            Input::Request(Request::Leave)
            | Input::Start
            | Input::Expire(())
            | Input::PeerDown { .. }
            | Input::PeerUp { .. } => {}
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::Idle => Phase::IDLE,
            State::Waiting { .. } => Phase::WAITING,
            State::Holding => Phase::HOLDING,
        }
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        visit(Counter::exact(CLOCK, self.clock.value_mut()));
        if let State::Waiting { mine } = &mut self.state {
            visit(Counter::exact(CLOCK, &mut mine.time));
        }
        self.queue.visit_counters(CLOCK, visit);
        for time in self.last.iter_mut().chain(&mut self.told) {
            visit(Counter::bound(CLOCK, time));
        }
        visit(self.fence.counter());
    }

    fn assert_invariants(&self) {
        if self.config.mutation.is_some() {
            return;
        }

        self.queue.assert_invariants(&self.members);
        let ours = self.queue.iter().find(|request| request.process == self.id);
        match self.state {
            State::Idle => assert!(ours.is_none(), "who wants nothing has no request in the queue"),
            State::Waiting { mine } => {
                assert!(ours == Some(mine), "who waits has its request in its own queue");
                assert!(
                    !(self.heads_the_queue(mine) && self.has_heard_later_than(mine)),
                    "who waits has somebody to wait for"
                );
            }
            State::Holding => assert!(ours.is_some(), "who is inside keeps its request until it is out"),
        }
        assert!(self.last.len() == self.members.len(), "there is a last stamp of each member");
        assert!(
            self.told.iter().all(|time| *time <= self.clock.time()),
            "nothing was sent with a later stamp than the clock shows"
        );
    }
}

impl Lamport {
    fn acquire(&mut self, out: &mut impl Effects<Self>) {
        let mine = Stamp { time: self.clock.tick(), process: self.id };
        self.state = State::Waiting { mine };
        self.queue.insert(mine);
        self.tell_all(&Msg::Request { time: mine.time }, out);
        self.maybe_enter(out);
    }

    /// The receipt of a message is an event of its own; `counts` if the message may let us in.
    ///
    /// A late reply to a request that we have given up counts, too, if it is stamped later than the request that we wait
    /// with: whatever its sender says after it is stamped later still.
    fn hear(&mut self, from: NodeId, time: u64, counts: bool) {
        self.clock.receive(time);
        if counts && let Some(place) = self.members.position(from) {
            self.last[place] = self.last[place].max(time);
        }
    }

    fn maybe_reply(&mut self, theirs: Stamp, out: &mut impl Effects<Self>) {
        let place = self.members.position(theirs.process);
        let told = place.and_then(|place| self.told.get_mut(place));
        if let Some(told) = &told
            && theirs < (Stamp { time: **told, process: self.id })
        {
            return;
        }
        let time = self.clock.tick();
        if let Some(told) = told {
            *told = time;
        }
        out.send(theirs.process, Msg::Reply { time, fence: self.fence });
    }

    /// What a mutant does: whoever waits takes its request back, and asks again behind the other.
    fn maybe_give_way(&mut self, to: NodeId, out: &mut impl Effects<Self>) {
        let waits = matches!(self.state, State::Waiting { .. });
        if self.config.mutation == Some(Mutation::GiveWay) && waits && to < self.id {
            self.become_idle(out);
            self.acquire(out);
        }
    }

    fn maybe_enter(&mut self, out: &mut impl Effects<Self>) {
        if let State::Waiting { mine } = self.state
            && self.heads_the_queue(mine)
            && self.has_heard_later_than(mine)
        {
            self.state = State::Holding;
            out.emit(Event::Granted { fence: self.fence.enter(self.epoch, self.id) });
        }
    }

    fn heads_the_queue(&self, mine: Stamp) -> bool {
        match self.config.mutation {
            Some(Mutation::NoTieBreak) => self.queue.iter().all(|other| mine.time <= other.time),
            _ => self.queue.first() == Some(mine),
        }
    }

    /// Whether everyone has said something that counts and is stamped later than our request: all that is earlier is here,
    /// too.
    fn has_heard_later_than(&self, mine: Stamp) -> bool {
        let mut latest = self.members.iter().zip(&self.last).filter(|(other, _)| *other != self.id);
        let is_later = |(process, &time): (NodeId, &u64)| mine < Stamp { time, process };
        match self.config.mutation {
            Some(Mutation::OneReply) => latest.any(is_later),
            _ => latest.all(is_later),
        }
    }

    fn become_idle(&mut self, out: &mut impl Effects<Self>) {
        self.state = State::Idle;
        self.queue.remove_of(self.id);
        let release = Msg::Release { time: self.clock.tick(), fence: self.fence };
        self.tell_all(&release, out);
    }

    fn tell_all(&mut self, message: &LamportMessage, out: &mut impl Effects<Self>) {
        self.told.fill(self.clock.time());
        let left_out = match (self.config.mutation, message) {
            (Some(Mutation::SilentExit), Msg::Release { .. }) => self.members.others(self.id).next_back(),
            _ => None,
        };
        out.send_all(self.members.others(self.id).filter(|other| Some(*other) != left_out), message);
    }
}

mutants! {
    enum Mutation {
        OneReply {
            name: "one-reply", breaks: "ME1", nodes: 3, trigger: Schedule,
            change: "a process enters at the head of its own queue once it has heard from one other",
        }
        NoTieBreak {
            name: "no-tie-break", breaks: "ME1", nodes: 2, trigger: Schedule,
            change: "requests with equal stamps are not ordered by id: both are at the head",
        }
        SilentExit {
            name: "silent-exit", breaks: "ME2", nodes: 2, trigger: Schedule,
            change: "a process that leaves does not tell the last of the others",
        }
        GiveWay {
            name: "give-way", breaks: "ME5-HB", nodes: 3, trigger: Schedule,
            change: "who waits takes its request back and asks again when a lower id asks",
        }
    }
}

impl Algorithm for Lamport {
    const ABOUT: About = About {
        name: "lamport",
        title: "Lamport",
        paper: "Lamport: Time, clocks, and the ordering of events in a distributed system, CACM 21(7), 1978",
        idea: "enter at the head of the queue, once all know of it",
        family: crate::mutex::FAMILY,
        channels: Channels::Fifo,
        synchrony: Synchrony::Asynchronous,
        topology: Topology::Complete,
        cost: "3(n-1) per entry",
        faults: "none: one crashed process or lost message blocks everyone",
        settings: &[
            Setting {
                key: "replies",
                values: Values::OneOf(&["all", "suppressed"]),
                default: "all",
                unsafe_values: &[],
                help: "whether every request is replied to, or only where nothing later has been sent already",
            },
            Setting {
                key: "enter",
                values: Values::OneOf(&["later", "acks"]),
                default: "later",
                unsafe_values: &[],
                help: "what lets the head of the queue in: a later message of any kind from everyone, or a reply",
            },
            STAMPS,
        ],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, members: &Members) -> Result<Self::Config, SettingError> {
        let suppresses = settings.get("replies") == "suppressed";
        let needs_replies = settings.get("enter") == "acks";
        if suppresses && needs_replies {
            let why = "enter=acks waits for a reply from everyone: it needs replies=all";
            return Err(SettingError::Unfit(why.into()));
        }
        Ok(LamportConfig {
            suppresses,
            needs_replies,
            stamps: Stamps::of(settings, members)?,
            mutation: Mutation::of(settings),
        })
    }
}

impl Mutex for Lamport {
    /// Everyone has everyone's request, and has heard later words from all.
    fn rebuild(boot: Boot<'_, Self>, roll: &Roll, out: &mut impl Effects<Self>) -> Self {
        let mut process = Self::boot(boot);
        process.epoch = roll.epoch;
        process.clock = roll.clock;
        process.last.fill(roll.clock.time());
        process.told.fill(roll.clock.time());
        for request in roll.requests() {
            process.queue.insert(request);
        }
        process.state = match roll.standing(process.id) {
            Some(Standing::Waiting { since, .. }) => State::Waiting { mine: since },
            Some(Standing::Inside { .. }) => State::Holding,
            Some(Standing::Idle) | None => State::Idle,
        };
        process.maybe_enter(out);
        process
    }

    fn promises(_config: &Self::Config, members: &Members) -> Promises {
        Promises {
            no_starvation: true,
            overtaking: Some(members.len() as u64 - 1),
            stamp_order: true,
            causal_order: true,
            ..Promises::NOTHING
        }
    }

    fn formula(config: &Self::Config, members: &Members, tally: &Tally<'_>) -> Formula {
        let total = tally.total() * (members.len() as u64 - 1);
        // Alone, a request is stamped later than all that was ever sent: every reply is needed.
        if config.suppresses && tally.load != Load::Light {
            return Formula::between("2(n-1) to 3(n-1)", 2 * total, 3 * total);
        }
        Formula::exactly("3(n-1)", 3 * total)
    }

    fn client_hops(_config: &Self::Config, members: &Members, _requester: NodeId) -> RangeInclusive<u32> {
        let hops = if members.len() > 1 { 2 } else { 0 };
        hops..=hops
    }

    fn announced(from: NodeId, message: &Self::Message) -> Option<Stamp> {
        match message {
            Msg::Request { time } => Some(Stamp { time: *time, process: from }),
            Msg::Reply { .. } | Msg::Release { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arena;
    use crate::testing::World;

    fn config(given: &[(&str, &str)], mutant: Option<&str>, members: &Members) -> LamportConfig {
        let settings = Settings::new(&Lamport::ABOUT, Arena::Laboratory, given.iter().copied(), mutant);
        Lamport::configure(&settings.expect("declared settings"), members).expect("they fit")
    }

    fn entered(world: &World<Lamport>) -> Vec<u32> {
        let granted = world.events.iter().filter(|(_, event)| matches!(event, Event::Granted { .. }));
        granted.map(|(id, _)| id.0).collect()
    }

    /// The worked example TV-L3: two of three ask at once with equal stamps; the smaller id goes first.
    #[test]
    fn book_tv_l3_two_of_three_ask_at_once() {
        let mut world = World::<Lamport>::numbered(3, &config(&[], None, &Members::numbered(3)));
        world.request(1, Request::Acquire);
        world.request(2, Request::Acquire);
        world.drain();
        assert_eq!(entered(&world), [1]);
        world.request(1, Request::Release);
        world.drain();
        assert_eq!(entered(&world), [1, 2]);
        world.request(2, Request::Release);
        world.drain();
        assert_eq!(world.sent.len(), 12);
        let count = |kind| world.sent.iter().filter(|(_, _, message)| message.kind() == kind).count();
        assert_eq!(["Request", "Reply", "Release"].map(count), [4, 4, 4]);
    }

    /// The worked example TV-L2: where a reply can overtake a request, two enter.
    #[test]
    fn book_tv_l2_a_reply_that_overtakes_breaks_safety() {
        let mut world = World::<Lamport>::numbered(2, &config(&[], None, &Members::numbered(2)));
        world.request(1, Request::Acquire);
        world.request(2, Request::Acquire);
        world.deliver(2, 1);
        assert_eq!(
            world.sent.last(),
            Some(&(NodeId(1), NodeId(2), Msg::Reply { time: 3, fence: FenceCounter(0) }))
        );
        world.deliver_nth(NodeId(1), NodeId(2), 1);
        assert_eq!(entered(&world), [1, 2]);
    }

    /// The worked example V-L4: three ask at once. By a later message of any kind p1 enters as soon as it has the others'
    /// requests; by replies one message later. Both cost 18 messages.
    #[test]
    fn book_v_l4_replies_let_one_in_later() {
        for (enter, first) in [("later", true), ("acks", false)] {
            let config = config(&[("enter", enter)], None, &Members::numbered(3));
            let mut world = World::<Lamport>::numbered(3, &config);
            for id in [1, 2, 3] {
                world.request(id, Request::Acquire);
            }
            world.deliver(2, 1);
            world.deliver(3, 1);
            assert_eq!(entered(&world) == [1], first, "enter={enter}");
            for id in [1, 2, 3] {
                world.drain();
                assert_eq!(entered(&world).last(), Some(&id), "enter={enter}");
                world.request(id, Request::Release);
            }
            world.drain();
            assert_eq!(world.sent.len(), 18, "enter={enter}");
        }
    }

    /// A reply to a request that was given up does not let the next one in.
    #[test]
    fn a_reply_to_an_earlier_request_is_not_enough() {
        let config = config(&[("enter", "acks")], None, &Members::numbered(2));
        let mut world = World::<Lamport>::numbered(2, &config);
        world.request(1, Request::Acquire);
        world.deliver(1, 2);
        world.request(1, Request::Cancel);
        // The clock of p1 runs ahead of the reply that is in flight.
        for _ in 0..3 {
            world.request(1, Request::Acquire);
            world.request(1, Request::Cancel);
        }
        world.request(1, Request::Acquire);
        world.deliver(2, 1);
        assert!(entered(&world).is_empty());
        world.drain();
        assert_eq!(entered(&world), [1]);
    }

    #[test]
    fn who_waits_for_replies_needs_all_of_them() {
        let given = [("enter", "acks"), ("replies", "suppressed")];
        let settings = Settings::new(&Lamport::ABOUT, Arena::Live, given, None).expect("declared settings");
        assert!(Lamport::configure(&settings, &Members::numbered(3)).is_err());
    }

    /// With suppressed replies, two who ask at once take each other's request for a reply.
    #[test]
    fn a_request_can_stand_for_a_reply() {
        let config = config(&[("replies", "suppressed")], None, &Members::numbered(2));
        let mut world = World::<Lamport>::numbered(2, &config);
        for id in [1, 2] {
            world.request(id, Request::Acquire);
        }
        world.drain();
        for id in [1, 2] {
            world.request(id, Request::Release);
            world.drain();
        }
        assert_eq!(entered(&world), [1, 2]);
        // Of the two replies, only that of the later to the earlier says nothing new.
        assert_eq!(world.sent.len(), 5);
    }
}
