//! Ricart and Agrawala: ask everyone, enter when everyone has agreed.
//!
//! Ricart, Agrawala: *An optimal algorithm for mutual exclusion in computer networks*, CACM 24(1), 1981.
//!
//! A process that wants to enter stamps its request with its Lamport clock and sends it to all others. Who is not
//! interested, or has asked later, replies at once. Who is inside, or has asked earlier, keeps the request and replies
//! when it leaves. Since any two requests are ordered by (stamp, id), of two that want to enter exactly one waits for
//! the other.
//!
//! ```text
//!   p1 ──●───────────▶ inside ───●──────────       ● p1 and p2 ask at once, both with stamp 1
//!         ╲ ╱ Request     ▲       ╲ Reply           p2 replies at once: (1, p1) < (1, p2)
//!         ╱ ╲            ╱         ╲                p1 defers its reply until it leaves
//!   p2 ──●───●──────────●───────────▶ inside
//! ```
//!
//! Replies carry the clock of their sender. The paper does without, and stays safe; but then a process can learn of a
//! request through a third one, stamp its own request no later, and be let in first (`replies=plain` shows it).
//!
//! **Cost**: 2(n − 1) messages per entry, always. Two message delays when nobody competes, one from exit to the
//! next entry. With `answer=queued` a process that defers says so: one more message per deferral, and the requester
//! can tell a busy peer from a dead one.
//!
//! **Assumes** reliable channels of any order, and that nobody crashes.
//!
//! **Caveats**: one crashed process blocks everyone. The tie-break by id is not decoration: without it two requests
//! with equal stamps let each other in.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use conclave_core::{
    Boot, Counter, Effects, Input, LamportClock, Members, Message, NodeId, NodeSet, Phase, Protocol, Space,
    Stamp,
};
use serde::{Deserialize, Serialize};

use super::stamps::{STAMPS, Stamps};
use super::{Epoch, Event, FenceCounter, Load, Mutex, Promises, Request, Roll, Tally};
use crate::{
    About, Algorithm, Channels, Formula, STRANGER, Setting, SettingError, Settings, Synchrony, Topology,
    Values,
};

/// A process of Ricart and Agrawala's first algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RicartAgrawala {
    id: NodeId,
    members: Members,
    config: RicartAgrawalaConfig,
    clock: LamportClock,
    state: State,
    /// Whose request is answered when we leave or give up, in order of arrival, with the stamp of the request.
    deferred: Vec<Stamp>,
    epoch: Epoch,
    fence: FenceCounter,
}

/// The states of the paper: released, wanted, held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Released,
    /// Asked with this stamp; these have not replied yet.
    Wanted {
        mine: Stamp,
        pending: NodeSet,
    },
    Held,
}

/// Settings of [`RicartAgrawala`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RicartAgrawalaConfig {
    /// Whether a deferral is answered by `Queued`.
    says_queued: bool,
    /// Whether replies carry the clock of their sender.
    tells_clock: bool,
    /// What the clocks show at the start.
    stamps: Stamps,
    mutation: Option<Mutation>,
}

/// What the processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RicartAgrawalaMessage {
    /// I want to enter; my request has this time.
    Request {
        /// The time of the request.
        time: u64,
    },
    /// You may enter, as far as I am concerned.
    Reply {
        /// The time of the request that this answers: a reply to a request given up since counts for nothing.
        time: u64,
        /// My clock, so that your next request is stamped later than all that I know of.
        clock: u64,
        /// The largest fence that I know.
        fence: FenceCounter,
    },
    /// I am alive, but you have to wait for me.
    Queued {
        /// The time of the request that this answers.
        time: u64,
        /// My clock, as in a reply.
        clock: u64,
    },
}

use RicartAgrawalaMessage as Msg;

impl Message for RicartAgrawalaMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Request, Reply, Queued)
    }

    fn visit_counters(&mut self, _from: NodeId, _members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            Msg::Request { time } => visit(Counter::exact(CLOCK, time)),
            Msg::Queued { time, clock } => {
                visit(Counter::exact(CLOCK, time));
                visit(Counter::exact(CLOCK, clock));
            }
            Msg::Reply { time, clock, fence } => {
                visit(Counter::exact(CLOCK, time));
                // It only ever raises the clock of the receiver.
                visit(Counter::bound(CLOCK, clock));
                visit(fence.counter());
            }
        }
    }
}

const CLOCK: Space = Space::shared("clock");

impl Protocol for RicartAgrawala {
    type Config = RicartAgrawalaConfig;
    type Message = RicartAgrawalaMessage;
    type Request = Request;
    type Event = Event;
    type Timer = ();
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        Self {
            id: boot.id,
            members: boot.members.clone(),
            config: boot.config.clone(),
            clock: boot.config.stamps.clock(boot.id),
            state: State::Released,
            deferred: Vec::new(),
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
                self.on_request(Stamp { time, process: from }, out);
            }
            Input::Receive { from, message: Msg::Reply { time, clock, fence } } => {
                self.clock.witness(clock);
                self.fence.witness(fence);
                self.on_reply(from, time, out);
            }
            // A sign of life; the reply comes when the sender leaves.
            Input::Receive { message: Msg::Queued { clock, .. }, .. } => self.clock.witness(clock),
            Input::Request(request) if !request.fits(self.phase()) => out.emit(Event::Refused(request)),
            Input::Request(Request::Acquire) => self.acquire(out),
            Input::Request(Request::Release) => self.become_released(out),
            // Replies to the request that we give up may still arrive; their stamp tells them apart from replies
            // to the next one.
            Input::Request(Request::Cancel) => self.become_released(out),
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
            State::Released => Phase::IDLE,
            State::Wanted { .. } => Phase::WAITING,
            State::Held => Phase::HOLDING,
        }
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        visit(Counter::exact(CLOCK, self.clock.value_mut()));
        if let State::Wanted { mine, .. } = &mut self.state {
            visit(Counter::exact(CLOCK, &mut mine.time));
        }
        for stamp in &mut self.deferred {
            visit(Counter::exact(CLOCK, &mut stamp.time));
        }
        visit(self.fence.counter());
    }

    fn assert_invariants(&self) {
        if self.config.mutation.is_some() {
            return;
        }

        let deferred = || self.deferred.iter().map(|theirs| theirs.process);
        assert!(self.members.has_each_once(deferred()), "the replies to members are deferred, one to each");
        assert!(deferred().all(|process| process != self.id), "nobody defers a reply to itself");
        match &self.state {
            State::Released => assert!(self.deferred.is_empty(), "who wants nothing keeps nobody waiting"),
            State::Wanted { mine, pending } => {
                assert!(!pending.is_empty(), "who has all replies does not wait");
                assert!(
                    pending.iter().all(|other| other != self.id && self.members.contains(other)),
                    "only other members owe us a reply"
                );
                assert!(
                    self.deferred.iter().all(|theirs| mine < theirs),
                    "who waits defers only requests that come after its own"
                );
            }
            State::Held => {}
        }
    }
}

impl RicartAgrawala {
    fn acquire(&mut self, out: &mut impl Effects<Self>) {
        let mine = Stamp { time: self.clock.tick(), process: self.id };
        let pending: NodeSet = self.members.others(self.id).collect();
        out.send_all(self.members.others(self.id), &Msg::Request { time: mine.time });
        self.state = State::Wanted { mine, pending };
        self.maybe_enter(out);
    }

    fn on_request(&mut self, theirs: Stamp, out: &mut impl Effects<Self>) {
        // The maximum is enough: our next request ticks before it is stamped.
        self.clock.witness(theirs.time);
        let we_go_first = match &self.state {
            State::Released => false,
            State::Wanted { mine, .. } => match self.config.mutation {
                Some(Mutation::NoTieBreak) => mine.time < theirs.time,
                _ => *mine < theirs,
            },
            State::Held => self.config.mutation != Some(Mutation::ReplyWhileHolding),
        };
        if !we_go_first {
            return self.reply(theirs, out);
        }
        if self.gives_way(theirs.process) {
            self.reply(theirs, out);
            self.become_released(out);
            return self.acquire(out);
        }
        // One place per process: of a request and the one made after giving it up, only the later counts.
        match self.deferred.iter_mut().find(|kept| kept.process == theirs.process) {
            Some(kept) => *kept = theirs.max(*kept),
            None => self.deferred.push(theirs),
        }
        if self.config.says_queued {
            out.send(theirs.process, Msg::Queued { time: theirs.time, clock: self.clock.time() });
        }
    }

    /// What a mutant does: whoever waits takes its request back, and asks again behind the other.
    fn gives_way(&self, to: NodeId) -> bool {
        let waits = matches!(self.state, State::Wanted { .. });
        self.config.mutation == Some(Mutation::GiveWay) && waits && to < self.id
    }

    fn on_reply(&mut self, from: NodeId, time: u64, out: &mut impl Effects<Self>) {
        // A reply to a request that we have given up, or a second copy, finds nobody waiting for it.
        if let State::Wanted { mine, pending } = &mut self.state
            && mine.time == time
        {
            pending.remove(from);
            self.maybe_enter(out);
        }
    }

    fn maybe_enter(&mut self, out: &mut impl Effects<Self>) {
        if let State::Wanted { pending, .. } = &self.state
            && pending.is_empty()
        {
            self.state = State::Held;
            out.emit(Event::Granted { fence: self.fence.enter(self.epoch, self.id) });
        }
    }

    fn become_released(&mut self, out: &mut impl Effects<Self>) {
        self.state = State::Released;
        let mut deferred = core::mem::take(&mut self.deferred);
        if self.config.mutation == Some(Mutation::ForgetDeferred) {
            deferred.pop();
        }
        for theirs in deferred.drain(..) {
            self.reply(theirs, out);
        }
        // Hand the room back, so that a long run allocates nothing.
        self.deferred = deferred;
    }

    fn reply(&self, theirs: Stamp, out: &mut impl Effects<Self>) {
        // The paper's replies tell nothing that the requester does not know.
        let clock = if self.config.tells_clock { self.clock.time() } else { theirs.time };
        out.send(theirs.process, Msg::Reply { time: theirs.time, clock, fence: self.fence });
    }
}

mutants! {
    enum Mutation {
        NoTieBreak {
            name: "no-tie-break", breaks: "ME1", nodes: 2, trigger: Schedule,
            change: "requests with equal stamps are not ordered by id: both let each other in",
        }
        ReplyWhileHolding {
            name: "reply-while-holding", breaks: "ME1", nodes: 2, trigger: Schedule,
            change: "a process inside replies at once instead of when it leaves",
        }
        ForgetDeferred {
            name: "forget-deferred", breaks: "ME2", nodes: 2, trigger: Schedule,
            change: "a process that leaves forgets the last of those it kept waiting",
        }
        GiveWay {
            name: "give-way", breaks: "ME5-HB", nodes: 3, trigger: Schedule,
            change: "who waits takes its request back and asks again when a lower id asks",
        }
    }
}

impl Algorithm for RicartAgrawala {
    const ABOUT: About = About {
        name: "ricart-agrawala",
        title: "Ricart–Agrawala",
        paper: "Ricart, Agrawala: An optimal algorithm for mutual exclusion in computer networks, CACM 24(1), 1981",
        idea: "ask everyone; who is ahead of you replies on leaving",
        family: crate::mutex::FAMILY,
        channels: Channels::Any,
        synchrony: Synchrony::Asynchronous,
        topology: Topology::Complete,
        cost: "2(n-1) per entry",
        faults: "none: one crashed process or lost message blocks everyone",
        settings: &[
            Setting {
                key: "answer",
                values: Values::OneOf(&["silent", "queued"]),
                default: "silent",
                unsafe_values: &[],
                help: "whether a process that defers its reply says so (one more message per deferral)",
            },
            Setting {
                key: "replies",
                values: Values::OneOf(&["stamped", "plain"]),
                default: "stamped",
                unsafe_values: &[],
                help: "whether replies carry a clock, so that entries follow causality; plain as in the paper",
            },
            STAMPS,
        ],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, members: &Members) -> Result<Self::Config, SettingError> {
        Ok(RicartAgrawalaConfig {
            says_queued: settings.get("answer") == "queued",
            tells_clock: settings.get("replies") == "stamped",
            stamps: Stamps::of(settings, members)?,
            mutation: Mutation::of(settings),
        })
    }
}

impl Mutex for RicartAgrawala {
    /// Everyone has everyone's request: who comes before us has yet to reply, who comes behind us waits for our reply.
    fn rebuild(boot: Boot<'_, Self>, roll: &Roll, out: &mut impl Effects<Self>) -> Self {
        let mut process = Self::boot(boot);
        process.epoch = roll.epoch;
        process.clock = roll.clock;
        let requests = roll.requests();
        let Some(place) = requests.iter().position(|request| request.process == process.id) else {
            return process;
        };
        let pending = requests[..place].iter().map(|request| request.process).collect();
        process.deferred = requests[place + 1..].to_vec();
        process.state = match roll.inside() {
            Some((inside, _)) if inside == process.id => State::Held,
            _ => State::Wanted { mine: requests[place], pending },
        };
        process.maybe_enter(out);
        process
    }

    fn promises(config: &Self::Config, members: &Members) -> Promises {
        Promises {
            no_starvation: true,
            overtaking: Some(members.len() as u64 - 1),
            stamp_order: true,
            causal_order: config.tells_clock,
            ..Promises::NOTHING
        }
    }

    fn formula(config: &Self::Config, members: &Members, tally: &Tally<'_>) -> Formula {
        let others = members.len() as u64 - 1;
        let total = tally.total() * others;
        if config.says_queued && tally.load != Load::Light {
            return Formula::between("2(n-1), and one for each deferral", 2 * total, 3 * total);
        }
        Formula::exactly("2(n-1)", 2 * total)
    }

    fn client_hops(_config: &Self::Config, members: &Members, _requester: NodeId) -> RangeInclusive<u32> {
        let hops = if members.len() > 1 { 2 } else { 0 };
        hops..=hops
    }

    fn announced(from: NodeId, message: &Self::Message) -> Option<Stamp> {
        match message {
            Msg::Request { time } => Some(Stamp { time: *time, process: from }),
            Msg::Reply { .. } | Msg::Queued { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arena;
    use crate::testing::World;

    fn config(given: &[(&str, &str)], mutant: Option<&str>, members: &Members) -> RicartAgrawalaConfig {
        let settings =
            Settings::new(&RicartAgrawala::ABOUT, Arena::Laboratory, given.iter().copied(), mutant);
        RicartAgrawala::configure(&settings.expect("declared settings"), members).expect("they fit")
    }

    fn entered(world: &World<RicartAgrawala>) -> Vec<u32> {
        let granted = world.events.iter().filter(|(_, event)| matches!(event, Event::Granted { .. }));
        granted.map(|(id, _)| id.0).collect()
    }

    /// The worked example TV-R1: P0 asks with stamp 8, P2 with stamp 12, P1 is not interested.
    #[test]
    fn book_tv_r1_the_smaller_stamp_defers_the_larger() {
        let members = Members::listed([NodeId(0), NodeId(1), NodeId(2)]);
        let mut world = World::<RicartAgrawala>::new(members.clone(), &config(&[], None, &members), ());
        world.processes[0].clock.witness(7);
        world.processes[2].clock.witness(11);
        world.request(0, Request::Acquire);
        world.request(2, Request::Acquire);
        world.drain();
        assert_eq!(entered(&world), [0]);
        world.request(0, Request::Release);
        world.drain();
        assert_eq!(entered(&world), [0, 2]);
        assert_eq!(
            world.sent.last().map(|(from, to, message)| (from.0, to.0, message.kind())),
            Some((0, 2, "Reply"))
        );
        assert_eq!(world.sent.len(), 8);
    }
}
