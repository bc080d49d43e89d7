//! Lodha and Kshemkalyani: two who ask at once need not reply to each other.
//!
//! Lodha, Kshemkalyani: *A fair distributed mutual exclusion algorithm*, IEEE Transactions on Parallel and Distributed
//! Systems 11(6), 2000; told in Kshemkalyani, Singhal: *Distributed Computing*, section 9.5.
//!
//! As in Ricart and Agrawala's algorithm a process stamps its request and sends it to all others, and entries follow the
//! stamps. Here a message does several things at once:
//!
//! - A **request** also answers a request that crosses it on the way. The two are *concurrent*: both processes know both
//!   stamps, and each puts the request of the other into a queue of its own.
//! - A **flush** goes to the next in the queue of the process that leaves, and to nobody else. Since entries follow the
//!   stamps, it says that all requests up to that of its sender are over.
//! - A **reply** goes to those whose requests are not concurrent with ours: at once if we want nothing, on leaving if
//!   they had answered us before they asked. It says what is over, too.
//!
//! A process enters when everyone has answered it and no request in its queue comes before its own.
//!
//! ```text
//!   p1 ──●────────▶ inside ──●───────────────       ● p1 and p2 ask at once, both with stamp 1
//!         ╲ ╱ Request         ╲ Flush                 each request answers the other
//!         ╱ ╲                  ╲                      p1 goes first: (1, p1) < (1, p2)
//!   p2 ──●───●──────────────────▶ inside ────
//! ```
//!
//! **Cost**: between n − 1 and 2(n − 1) messages per entry: n − 1 requests, a reply from everyone whose request is not
//! concurrent, and a flush if somebody is next in the queue. Two message delays when nobody competes, one from exit to
//! the next entry.
//!
//! **Assumes** reliable channels that keep their order, and that nobody crashes.
//!
//! **Served**: requests come from everyone, and a flush may outrun them. If p1 enters and leaves before its request has
//! reached p3, then p2 may be next, and its flush may be at p3 first. The request of p1 arrives, answers that of p3, and
//! is over. So every process remembers the latest request that it knows to be over. Without that p3 would wait forever.
//!
//! **Requests say what is over, too.** p1 is told by a flush that p3 is out, enters, leaves, and asks again before it has the
//! request of p2. Its new request answers p2, which gets no reply, and may have the old request of p3 in its queue.
//!
//! **Giving up**: others count on our request as their answer, so it cannot be taken back. It stays in their queues, and
//! is passed on when its turn comes. A process that asks again before that takes its old place.
//!
//! **Caveats**: one crashed process blocks everyone. Where a request overtakes the reply sent before it, it looks
//! concurrent and is not, and its sender waits forever.

use core::ops::RangeInclusive;

use alloc::vec::Vec;

use conclave_core::{
    Boot, Counter, Effects, Input, LamportClock, Members, Message, NodeId, NodeSet, Phase, Protocol, Space,
    Stamp,
};
use serde::{Deserialize, Serialize};

use super::queue::RequestQueue;
use super::stamps::{STAMPS, Stamps};
use super::{Epoch, Event, FenceCounter, Load, Mutex, Promises, Request, Roll, Tally};
use crate::{About, Algorithm, Channels, Formula, STRANGER, SettingError, Settings, Synchrony, Topology};

/// A process of Lodha and Kshemkalyani's algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LodhaKshemkalyani {
    id: NodeId,
    members: Members,
    config: LodhaKshemkalyaniConfig,
    clock: LamportClock,
    state: State,
    /// The requests of others that are concurrent with ours and not known to be over.
    queue: RequestQueue,
    /// Who had our request before it asked, and gets a reply when we leave, in order of arrival.
    deferred: Vec<Stamp>,
    /// The latest request that is known to be over; so are all before it.
    served: Stamp,
    epoch: Epoch,
    fence: FenceCounter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Released,
    /// Asked with this stamp; these have not answered yet.
    Wanted {
        mine: Stamp,
        pending: NodeSet,
        /// Nobody wants to enter any more; the request is passed on when its turn comes.
        given_up: bool,
    },
    Held {
        mine: Stamp,
    },
}

/// Settings of [`LodhaKshemkalyani`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LodhaKshemkalyaniConfig {
    /// What the clocks show at the start.
    stamps: Stamps,
    mutation: Option<Mutation>,
}

/// What the processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LodhaKshemkalyaniMessage {
    /// I want to enter; if your request has crossed this one, it is answered.
    Request {
        /// The time of the request.
        time: u64,
        /// What I know to be over, as in a reply, since this may be one.
        served: Stamp,
        /// The largest fence that I know: this may be all that you hear from me before you enter.
        fence: FenceCounter,
    },
    /// You may enter, as far as I am concerned.
    Reply {
        /// The time of the request that this answers.
        time: u64,
        /// What I know to be over.
        served: Stamp,
        /// My clock, so that your next request is stamped later than all that I know of.
        clock: u64,
        /// The largest fence that I know.
        fence: FenceCounter,
    },
    /// I have left, and you are next in my queue.
    Flush {
        /// My request, which is over.
        served: Stamp,
        /// My clock, as in a reply.
        clock: u64,
        /// The largest fence that I know.
        fence: FenceCounter,
    },
}

use LodhaKshemkalyaniMessage as Msg;

impl Message for LodhaKshemkalyaniMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Request, Reply, Flush)
    }

    fn visit_counters(&mut self, _from: NodeId, _members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            Msg::Request { time, served, fence } => {
                visit(Counter::exact(CLOCK, time));
                visit_served(served, visit);
                visit(fence.counter());
            }
            Msg::Reply { time, served, clock, fence } => {
                visit(Counter::exact(CLOCK, time));
                visit_served(served, visit);
                visit(Counter::bound(CLOCK, clock));
                visit(fence.counter());
            }
            Msg::Flush { served, clock, fence } => {
                visit_served(served, visit);
                visit(Counter::bound(CLOCK, clock));
                visit(fence.counter());
            }
        }
    }
}

/// What has fallen behind all requests is as good as nothing, whoever made it.
fn visit_served(served: &mut Stamp, visit: &mut dyn FnMut(Counter<'_>)) {
    visit(Counter::bound(CLOCK, &mut served.time));
    if served.time == 0 {
        *served = NOTHING;
    }
}

const CLOCK: Space = Space::shared("clock");

/// Before all requests: stamps begin at 1.
const NOTHING: Stamp = Stamp { time: 0, process: NodeId(0) };

impl Protocol for LodhaKshemkalyani {
    type Config = LodhaKshemkalyaniConfig;
    type Message = LodhaKshemkalyaniMessage;
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
            queue: RequestQueue::default(),
            deferred: Vec::new(),
            served: NOTHING,
            epoch: Epoch::FIRST,
            fence: FenceCounter::default(),
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Receive { from, .. } if !self.members.has_other(self.id, from) => {
                out.reject(from, STRANGER);
            }
            Input::Receive { from, message: Msg::Request { time, served, fence } } => {
                self.note(served, fence);
                self.on_request(Stamp { time, process: from }, out);
                self.maybe_enter(out);
            }
            Input::Receive { from, message: Msg::Reply { time, served, clock, fence } } => {
                self.clock.witness(clock);
                self.note(served, fence);
                self.on_reply(from, time);
                self.maybe_enter(out);
            }
            Input::Receive { message: Msg::Flush { served, clock, fence }, .. } => {
                self.clock.witness(clock);
                self.note(served, fence);
                self.maybe_enter(out);
            }
            Input::Request(request) if !request.fits(self.phase()) => out.emit(Event::Refused(request)),
            Input::Request(Request::Acquire) => self.acquire(out),
            Input::Request(Request::Release) => self.become_released(out),
            Input::Request(Request::Cancel) => self.give_up(true),
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
            State::Released | State::Wanted { given_up: true, .. } => Phase::IDLE,
            State::Wanted { given_up: false, .. } => Phase::WAITING,
            State::Held { .. } => Phase::HOLDING,
        }
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        visit(Counter::exact(CLOCK, self.clock.value_mut()));
        if let State::Wanted { mine, .. } | State::Held { mine } = &mut self.state {
            visit(Counter::exact(CLOCK, &mut mine.time));
        }
        self.queue.visit_counters(CLOCK, visit);
        for stamp in &mut self.deferred {
            visit(Counter::exact(CLOCK, &mut stamp.time));
        }
        visit_served(&mut self.served, visit);
        visit(self.fence.counter());
    }

    fn assert_invariants(&self) {
        if self.config.mutation.is_some() {
            return;
        }

        self.queue.assert_invariants(&self.members);
        let deferred = || self.deferred.iter().map(|theirs| theirs.process);
        assert!(self.members.has_each_once(deferred()), "the replies to members are deferred, one to each");
        assert!(self.queue.iter().all(|theirs| self.served < theirs), "what is over is in no queue");
        let others = || self.queue.iter().map(|theirs| theirs.process).chain(deferred());
        assert!(others().all(|process| process != self.id), "nobody waits for itself");
        match &self.state {
            State::Released => {
                assert!(others().count() == 0, "who wants nothing keeps nobody waiting");
            }
            State::Wanted { mine, pending, .. } => {
                assert!(
                    !(pending.is_empty() && self.goes_first(*mine)),
                    "who waits has somebody to wait for"
                );
                assert!(
                    others().all(|process| !pending.contains(process)),
                    "whose request is here has answered us"
                );
                assert!(
                    self.deferred.iter().all(|theirs| mine < theirs),
                    "who waits defers only requests that come after its own"
                );
            }
            State::Held { mine } => {
                assert!(self.goes_first(*mine), "who is inside comes before all in its queue");
            }
        }
    }
}

impl LodhaKshemkalyani {
    fn acquire(&mut self, out: &mut impl Effects<Self>) {
        if let State::Wanted { .. } = self.state {
            return self.give_up(false);
        }
        let mine = Stamp { time: self.clock.tick(), process: self.id };
        let pending: NodeSet = self.members.others(self.id).collect();
        let request = Msg::Request { time: mine.time, served: self.served, fence: self.fence };
        out.send_all(self.members.others(self.id), &request);
        self.state = State::Wanted { mine, pending, given_up: false };
        self.maybe_enter(out);
    }

    /// Whoever gives up keeps its place, and whoever asks again before its turn has come takes it.
    fn give_up(&mut self, gives_up: bool) {
        if let State::Wanted { given_up, .. } = &mut self.state {
            *given_up = gives_up;
        }
    }

    fn on_request(&mut self, theirs: Stamp, out: &mut impl Effects<Self>) {
        // The maximum is enough: our next request ticks before it is stamped.
        if self.config.mutation != Some(Mutation::NoWitness) {
            self.clock.witness(theirs.time);
        }
        match &mut self.state {
            State::Released => self.reply(theirs, out),
            State::Wanted { pending, .. } if pending.contains(theirs.process) => {
                pending.remove(theirs.process);
                self.enqueue(theirs);
            }
            // A second copy: whoever has answered us asks later than we did.
            State::Wanted { mine, .. } if theirs < *mine => {}
            State::Held { .. } if self.config.mutation == Some(Mutation::ReplyWhileHolding) => {
                self.reply(theirs, out);
            }
            // They had answered us before they asked, so we go first.
            State::Wanted { .. } | State::Held { .. } => self.defer(theirs),
        }
    }

    /// A request that is concurrent with ours. It may have been served while it was on its way to us.
    fn enqueue(&mut self, theirs: Stamp) {
        if self.served < theirs {
            self.queue.insert(theirs);
        }
    }

    /// One place per process: an older request of theirs is over.
    fn defer(&mut self, theirs: Stamp) {
        self.queue.remove_of(theirs.process);
        match self.deferred.iter_mut().find(|kept| kept.process == theirs.process) {
            Some(kept) => *kept = theirs.max(*kept),
            None => self.deferred.push(theirs),
        }
    }

    fn on_reply(&mut self, from: NodeId, answered: u64) {
        if let State::Wanted { mine, pending, .. } = &mut self.state
            && mine.time == answered
        {
            pending.remove(from);
        }
    }

    /// Takes note of what the sender of a message knows.
    fn note(&mut self, served: Stamp, fence: FenceCounter) {
        self.fence.witness(fence);
        self.served = self.served.max(served);
        self.queue.remove_until(self.served);
    }

    fn goes_first(&self, mine: Stamp) -> bool {
        match self.config.mutation {
            Some(Mutation::NoTieBreak) => self.queue.first().is_none_or(|first| mine.time <= first.time),
            _ => self.queue.first().is_none_or(|first| mine < first),
        }
    }

    fn maybe_enter(&mut self, out: &mut impl Effects<Self>) {
        let State::Wanted { mine, pending, given_up } = &self.state else { return };
        let (mine, given_up) = (*mine, *given_up);
        if !pending.is_empty() || !self.goes_first(mine) {
            return;
        }
        self.state = State::Held { mine };
        match given_up {
            true => self.become_released(out),
            false => out.emit(Event::Granted { fence: self.fence.enter(self.epoch, self.id) }),
        }
    }

    fn become_released(&mut self, out: &mut impl Effects<Self>) {
        if let State::Held { mine } = core::mem::replace(&mut self.state, State::Released) {
            self.served = self.served.max(mine);
        }
        if let Some(next) = self.queue.first()
            && self.config.mutation != Some(Mutation::NoFlush)
        {
            let flush = Msg::Flush { served: self.served, clock: self.clock.time(), fence: self.fence };
            out.send(next.process, flush);
        }
        self.queue.clear();
        let mut deferred = core::mem::take(&mut self.deferred);
        for theirs in deferred.drain(..) {
            self.reply(theirs, out);
        }
        // Hand the room back, so that a long run allocates nothing.
        self.deferred = deferred;
    }

    fn reply(&self, theirs: Stamp, out: &mut impl Effects<Self>) {
        let (served, clock, fence) = (self.served, self.clock.time(), self.fence);
        out.send(theirs.process, Msg::Reply { time: theirs.time, served, clock, fence });
    }
}

mutants! {
    enum Mutation {
        NoTieBreak {
            name: "no-tie-break", breaks: "ME1", nodes: 2, trigger: Schedule,
            change: "requests with equal stamps are not ordered by id: both go first",
        }
        ReplyWhileHolding {
            name: "reply-while-holding", breaks: "ME1", nodes: 2, trigger: Schedule,
            change: "a process inside replies at once instead of when it leaves",
        }
        NoFlush {
            name: "no-flush", breaks: "ME2", nodes: 2, trigger: Schedule,
            change: "a process that leaves does not tell the next in its queue",
        }
        NoWitness {
            name: "no-witness", breaks: "ME5-TS", nodes: 2, trigger: Schedule,
            change: "requests are stamped by a clock that is not moved on by the requests of others",
        }
    }
}

impl Algorithm for LodhaKshemkalyani {
    const ABOUT: About = About {
        name: "lodha-kshemkalyani",
        title: "Lodha–Kshemkalyani",
        paper: "Lodha, Kshemkalyani: A fair distributed mutual exclusion algorithm, IEEE TPDS 11(6), 2000",
        idea: "requests that cross answer each other",
        family: crate::mutex::FAMILY,
        channels: Channels::Fifo,
        synchrony: Synchrony::Asynchronous,
        topology: Topology::Complete,
        cost: "n-1 to 2(n-1) per entry",
        faults: "none: one crashed process or lost message blocks everyone",
        settings: &[STAMPS],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, members: &Members) -> Result<Self::Config, SettingError> {
        Ok(LodhaKshemkalyaniConfig {
            stamps: Stamps::of(settings, members)?,
            mutation: Mutation::of(settings),
        })
    }
}

impl Mutex for LodhaKshemkalyani {
    /// Everyone has everyone's request: all that are not over are concurrent, and have answered each other.
    fn rebuild(boot: Boot<'_, Self>, roll: &Roll, out: &mut impl Effects<Self>) -> Self {
        let mut process = Self::boot(boot);
        process.epoch = roll.epoch;
        process.clock = roll.clock;
        let requests = roll.requests();
        let Some(mine) = requests.iter().find(|request| request.process == process.id).copied() else {
            return process;
        };
        for theirs in requests.into_iter().filter(|theirs| *theirs != mine) {
            process.queue.insert(theirs);
        }
        process.state = match roll.inside() {
            Some((inside, _)) if inside == process.id => State::Held { mine },
            _ => State::Wanted { mine, pending: NodeSet::new(), given_up: false },
        };
        process.maybe_enter(out);
        process
    }

    fn promises(_config: &Self::Config, members: &Members) -> Promises {
        Promises {
            no_starvation: true,
            // Whoever asks again in its old place is known at once, which its request may not be yet.
            overtaking: Some(2 * (members.len() as u64 - 1)),
            stamp_order: true,
            ..Promises::NOTHING
        }
    }

    fn formula(_config: &Self::Config, members: &Members, tally: &Tally<'_>) -> Formula {
        let others = members.len() as u64 - 1;
        let total = tally.total() * others;
        match tally.load {
            Load::Light => Formula::exactly("2(n-1)", 2 * total),
            _ => Formula::between("n-1 to 2(n-1)", total, 2 * total),
        }
    }

    fn client_hops(_config: &Self::Config, members: &Members, _requester: NodeId) -> RangeInclusive<u32> {
        let hops = if members.len() > 1 { 2 } else { 0 };
        hops..=hops
    }

    fn announced(from: NodeId, message: &Self::Message) -> Option<Stamp> {
        match message {
            Msg::Request { time, .. } => Some(Stamp { time: *time, process: from }),
            Msg::Reply { .. } | Msg::Flush { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arena;
    use crate::testing::World;

    fn world(n: u32) -> World<LodhaKshemkalyani> {
        let settings = Settings::new(&LodhaKshemkalyani::ABOUT, Arena::Laboratory, [], None);
        let members = Members::numbered(n);
        let config = LodhaKshemkalyani::configure(&settings.expect("no settings"), &members);
        World::new(members, &config.expect("they fit"), ())
    }

    fn entered(world: &World<LodhaKshemkalyani>) -> Vec<u32> {
        let granted = world.events.iter().filter(|(_, event)| matches!(event, Event::Granted { .. }));
        granted.map(|(id, _)| id.0).collect()
    }

    fn sent(world: &World<LodhaKshemkalyani>, kind: &str) -> Vec<(u32, u32)> {
        let of_kind = world.sent.iter().filter(|(_, _, message)| message.kind() == kind);
        of_kind.map(|(from, to, _)| (from.0, to.0)).collect()
    }

    /// Whoever is inside leaves, until nobody is.
    fn run_down(world: &mut World<LodhaKshemkalyani>) {
        world.drain();
        while let Some(inside) = world.processes.iter().find(|process| process.phase() == Phase::HOLDING) {
            world.request(inside.id.0, Request::Release);
            world.drain();
        }
    }

    /// Of n processes k ask at once: each costs n - 1 requests and n - k replies, and all but the last a flush.
    #[test]
    fn the_more_ask_at_once_the_less_an_entry_costs() {
        let n = 5;
        for k in 1..=n {
            let mut world = world(n);
            (1..=k).for_each(|id| world.request(id, Request::Acquire));
            run_down(&mut world);
            assert_eq!(entered(&world), Vec::from_iter(1..=k));
            assert_eq!(world.sent.len() as u32, k * (n - 1) + k * (n - k) + (k - 1), "{k} of {n}");
        }
    }

    /// p1 leaves before its request has reached p3, and the flush of p2 is there first.
    #[test]
    fn what_is_over_keeps_nobody_waiting() {
        let mut world = world(3);
        (1..=3).for_each(|id| world.request(id, Request::Acquire));
        for (from, to) in [(2, 1), (3, 1), (1, 2), (3, 2), (2, 3)] {
            world.deliver(from, to);
        }
        world.request(1, Request::Release);
        world.deliver(1, 2);
        world.request(2, Request::Release);
        world.deliver(2, 3);
        assert_eq!(entered(&world), [1, 2], "p1 has not answered p3 yet");
        world.deliver(1, 3);
        assert_eq!(entered(&world), [1, 2, 3]);
        assert_eq!(sent(&world, "Flush"), [(1, 2), (2, 3)]);
    }

    #[test]
    fn a_request_that_was_given_up_is_passed_on_when_its_turn_comes() {
        let mut world = world(3);
        (1..=3).for_each(|id| world.request(id, Request::Acquire));
        world.drain();
        world.request(2, Request::Cancel);
        assert_eq!(world.process(2).phase(), Phase::IDLE);
        run_down(&mut world);
        assert_eq!(entered(&world), [1, 3]);
        assert_eq!(sent(&world, "Flush"), [(1, 2), (2, 3)]);
    }

    #[test]
    fn who_asks_again_before_its_turn_takes_its_old_place() {
        let mut world = world(3);
        (1..=3).for_each(|id| world.request(id, Request::Acquire));
        world.drain();
        world.request(2, Request::Cancel);
        world.request(2, Request::Acquire);
        run_down(&mut world);
        assert_eq!(entered(&world), [1, 2, 3]);
        assert_eq!(sent(&world, "Request").len(), 6);
    }
}
