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
//! **Multicast**: a requester that crashes while it sends has asked some and not others. With `multicast=reliable` requests go by
//! [reliable multicast](crate::multicast::reliable): whoever hears of one passes it on, so that all who stay up hear of it or
//! none. That costs n(n − 1) messages in place of n − 1.
//!
//! **Assumes** reliable channels of any order, and that nobody crashes.
//!
//! **Caveats**: one crashed process blocks everyone, by whatever multicast it has asked: it owes its replies. The tie-break by id is not decoration: without it two requests
//! with equal stamps let each other in.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use conclave_core::{
    Boot, Counter, Effect, Effects, Incarnation, Input, LamportClock, Members, Message, NodeId, NodeSet,
    Phase, Protocol, Space, Stamp, Through, erased,
};
use serde::{Deserialize, Serialize};

use super::stamps::{STAMPS, Stamps};
use super::{Epoch, Event, FenceCounter, Load, Mutex, Promises, Request, Roll, Tally};
use crate::multicast::{self, Layered, LayeredConfig, LayeredMessage};
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
    /// By what requests go out, if not directly.
    multicast: Option<Box<Layered>>,
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
    /// Whether requests go by reliable multicast.
    relays: bool,
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
    /// A request that goes by reliable multicast: the post says its time.
    Multicast(LayeredMessage),
}

use RicartAgrawalaMessage as Msg;

impl Message for RicartAgrawalaMessage {
    fn kind(&self) -> &'static str {
        match self {
            Msg::Request { .. } => "Request",
            Msg::Reply { .. } => "Reply",
            Msg::Queued { .. } => "Queued",
            Msg::Multicast(message) => message.kind(),
        }
    }

    fn envelopes(&self) -> u32 {
        match self {
            Msg::Request { .. } | Msg::Reply { .. } | Msg::Queued { .. } => 0,
            Msg::Multicast(message) => 1 + message.envelopes(),
        }
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
            Msg::Multicast(LayeredMessage::Data { text, .. }) => {
                if let Ok(mut time) = text.parse() {
                    visit(Counter::exact(CLOCK, &mut time));
                    *text = time.to_string();
                }
            }
            Msg::Multicast(_) => {}
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
        let Boot { id, members, config, timing, life, saved } = boot;
        let reliable = || {
            Box::new(Layered::boot(Boot {
                id,
                members,
                config: &LayeredConfig::reliable(),
                timing,
                life,
                saved,
            }))
        };
        Self {
            id,
            members: members.clone(),
            config: config.clone(),
            clock: config.stamps.clock(id),
            state: State::Released,
            deferred: Vec::new(),
            epoch: Epoch::FIRST,
            fence: FenceCounter::default(),
            multicast: config.relays.then(reliable),
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
            Input::Receive { from, message: Msg::Multicast(message) } => {
                self.pass_on(Input::Receive { from, message }, out);
            }
            // A sign of life; the reply comes when the sender leaves.
            Input::Receive { message: Msg::Queued { clock, .. }, .. } => self.clock.witness(clock),
            Input::Request(request) if !request.fits(self.phase()) => out.emit(Event::Refused(request)),
            Input::Request(Request::Acquire) => self.acquire(out),
            Input::Request(Request::Release) => self.become_released(out),
            // Replies to the request that we give up may still arrive; their stamp tells them apart from replies
            // to the next one.
            Input::Request(Request::Cancel) => self.become_released(out),
            // The algorithm of the paper knows of no failures; whom a group of the multicast waits for does.
            Input::PeerDown { peer, life } => self.pass_on(Input::PeerDown { peer, life }, out),
            Input::PeerUp { peer, life } => self.pass_on(Input::PeerUp { peer, life }, out),
            // Nobody leaves the group. No timer is ever armed.
            Input::Request(Request::Leave) | Input::Start | Input::Expire(()) => {}
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
        self.ask_all(mine, out);
        self.state = State::Wanted { mine, pending };
        self.maybe_enter(out);
    }

    fn ask_all(&mut self, mine: Stamp, out: &mut impl Effects<Self>) {
        if self.multicast.is_some() {
            let text = mine.time.to_string();
            return self.pass_on(Input::Request(multicast::Request::Send(text)), out);
        }
        out.send_all(self.members.others(self.id), &Msg::Request { time: mine.time });
    }

    /// Hands the multicast an input, and takes the requests that it delivers.
    fn pass_on(&mut self, input: Input<Layered>, out: &mut impl Effects<Self>) {
        let Some(multicast) = &mut self.multicast else { return };
        let (mut told, now) = (Vec::new(), out.now());
        let lift = |effect: Effect<Layered>| match effect {
            Effect::Send { to, message } => out.send(to, Msg::Multicast(message)),
            Effect::Emit(event) => told.push(event),
            Effect::Reject { from, why } => out.reject(from, why),
            Effect::Save(()) => out.save(()),
            Effect::Arm { timer, after } => out.arm(timer, after),
            Effect::Disarm(timer) => out.disarm(timer),
        };
        multicast.handle(input, &mut erased(&mut Through::new(now, lift)));
        for event in told {
            if let multicast::Event::Delivered(post) = event
                && let process = post.id.source.process
                && self.members.has_other(self.id, process)
                && let Ok(time) = post.text.parse()
            {
                self.on_request(Stamp { time, process }, out);
            }
        }
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
            Setting {
                key: "multicast",
                values: Values::OneOf(&["direct", "reliable"]),
                default: "direct",
                unsafe_values: &[],
                help: "reliable: requests are passed on, so that all who stay up hear of one, or none",
            },
            STAMPS,
        ],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, members: &Members) -> Result<Self::Config, SettingError> {
        Ok(RicartAgrawalaConfig {
            says_queued: settings.get("answer") == "queued",
            tells_clock: settings.get("replies") == "stamped",
            relays: settings.get("multicast") == "reliable",
            stamps: Stamps::of(settings, members)?,
            mutation: Mutation::of(settings),
        })
    }
}

impl Mutex for RicartAgrawala {
    /// Everyone has everyone's request: who comes before us has yet to reply, who comes behind us waits for our reply.
    fn rebuild(boot: Boot<'_, Self>, roll: &Roll, out: &mut impl Effects<Self>) -> Self {
        // The multicast of the new epoch begins anew.
        let mut process = Self::boot(Boot { life: Incarnation::FIRST, ..boot });
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
            // A copy that is passed on tells the time of the request, and not the clock of whoever passes it on.
            causal_order: config.tells_clock && !config.relays,
            ..Promises::NOTHING
        }
    }

    fn formula(config: &Self::Config, members: &Members, tally: &Tally<'_>) -> Formula {
        let others = members.len() as u64 - 1;
        let replies = tally.total() * others;
        let (requests, text) = match config.relays {
            true => (replies * members.len() as u64, "n(n-1) and n-1"),
            false => (replies, "2(n-1)"),
        };
        if config.says_queued && tally.load != Load::Light {
            let (low, high) = (requests + replies, requests + 2 * replies);
            let text = if config.relays {
                "n(n-1), n-1, and one for each deferral"
            } else {
                "2(n-1), and one for each deferral"
            };
            return Formula::between(text, low, high);
        }
        Formula::exactly(text, requests + replies)
    }

    /// A copy that was passed on may be faster than the request itself, and that copy's copy, too.
    fn client_hops(config: &Self::Config, members: &Members, _requester: NodeId) -> RangeInclusive<u32> {
        match members.len() as u32 {
            1 => 0..=0,
            n if config.relays => 2..=n,
            _ => 2..=2,
        }
    }

    fn announced(from: NodeId, message: &Self::Message) -> Option<Stamp> {
        match message {
            Msg::Request { time } => Some(Stamp { time: *time, process: from }),
            // A copy that is passed on announces nothing of whoever passes it on.
            Msg::Multicast(LayeredMessage::Data { id, text }) if id.source.process == from => {
                Some(Stamp { time: text.parse().ok()?, process: from })
            }
            Msg::Multicast(_) | Msg::Reply { .. } | Msg::Queued { .. } => None,
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

    /// Who answers the request of a process that dies after so many messages of its step.
    fn who_answers(multicast: &str, n: u32, after: usize) -> Vec<u32> {
        let members = Members::numbered(n);
        let config = config(&[("multicast", multicast)], None, &members);
        let mut world = World::<RicartAgrawala>::numbered(n, &config);
        let mut requester = world.process(1).clone();
        let mut told = Vec::new();
        requester.handle(Input::Request(Request::Acquire), &mut told);
        world.crash(1);
        for effect in told.into_iter().take(after) {
            let Effect::Send { to, message } = effect else {
                panic!("a request is sent to all others first")
            };
            world.input(to, Input::Receive { from: NodeId(1), message });
        }
        world.drain();
        let answers = world.sent.iter().filter(|(_, to, message)| to.0 == 1 && message.kind() == "Reply");
        let mut who: Vec<u32> = answers.map(|(from, _, _)| from.0).collect();
        who.sort_unstable();
        who
    }

    /// A requester dies after each of its messages: some have been asked, or all who are up, or nobody.
    #[test]
    fn by_reliable_multicast_all_have_been_asked_or_nobody() {
        for n in 2..=6 {
            for after in 0..n as usize {
                let some: Vec<u32> = (2..2 + after as u32).collect();
                assert_eq!(who_answers("direct", n, after), some, "n = {n}, after {after}");
                let all: Vec<u32> = if after == 0 { Vec::new() } else { (2..=n).collect() };
                assert_eq!(who_answers("reliable", n, after), all, "n = {n}, after {after}");
            }
        }
    }

    /// n(n − 1) messages ask, n − 1 answer, and one entry follows the other.
    #[test]
    fn by_reliable_multicast_a_request_costs_a_message_of_everyone_to_everyone() {
        for n in 1..=9 {
            let members = Members::numbered(n);
            let mut world =
                World::<RicartAgrawala>::numbered(n, &config(&[("multicast", "reliable")], None, &members));
            (1..=n).for_each(|id| world.request(id, Request::Acquire));
            for id in 1..=n {
                world.drain();
                assert_eq!(entered(&world), (1..=id).collect::<Vec<_>>(), "n = {n}");
                world.request(id, Request::Release);
            }
            world.drain();
            let count = |kind| world.sent.iter().filter(|(_, _, message)| message.kind() == kind).count();
            let n = n as usize;
            assert_eq!(["Data", "Reply", "Request"].map(count), [n * n * (n - 1), n * (n - 1), 0]);
        }
    }

    /// What a copy is passed on by announces nothing of whoever passes it on.
    #[test]
    fn a_copy_is_no_request_of_its_carrier() {
        let members = Members::numbered(3);
        let mut world =
            World::<RicartAgrawala>::numbered(3, &config(&[("multicast", "reliable")], None, &members));
        world.request(1, Request::Acquire);
        world.deliver(1, 2);
        let announced =
            |(from, _, message): &(NodeId, NodeId, Msg)| RicartAgrawala::announced(*from, message);
        let announced: Vec<_> = world.sent.iter().filter_map(announced).collect();
        assert_eq!(announced, [Stamp { time: 1, process: NodeId(1) }; 2]);
        assert!(world.sent.iter().any(|(from, _, message)| from.0 == 2 && message.kind() == "Data"));
    }
}
