//! Maekawa: ask a quorum, of which any two have somebody in common.
//!
//! Maekawa: *A √N algorithm for mutual exclusion in decentralized systems*, ACM TOCS 3(2), 1985; with the correction
//! of Sanders: *The information structure of distributed mutual exclusion algorithms*, ACM TOCS 5(3), 1987.
//!
//! Every process is also an arbiter with one vote. To enter, a process needs the votes of its whole quorum; since two
//! quorums always share an arbiter, two processes can never both have all they need. They can, however, each have a
//! part and wait for the other. So votes can be called back: an arbiter that has voted for a later request inquires
//! whether the vote may be had back, and a process that knows it cannot win yet relinquishes it.
//!
//! ```text
//!   p1 ──●─Request────────────────────────────────────────▶ inside ──●─Release──
//!         ╲                                          ╱                ╲
//!   p2 ────●──Inquire──────────●──Locked────────────●──────────────────●──Locked     p2 had voted for p3,
//!                    ╲        ╱ Relinquish                                      ╲    whose request is later
//!   p3 ───────────────●──────●───────────────────────────────────────────────────▶ inside
//! ```
//!
//! A process knows that it cannot win yet when an arbiter has told it so (`Failed`), or when it has yielded a vote.
//! Maekawa's arbiters tell it only to those who come too late; Sanders found that an earlier one must be told as well
//! when a still earlier one pushes it from the head of the queue, otherwise three can wait in a circle. With
//! `variant=eager` nobody is ever told: a process outside gives up every vote that is inquired for.
//!
//! **Cost**: 3(K − 1) messages per entry when nobody competes, K being the size of the quorum, about √n in a plane and
//! 2√n in a grid; 6(K − 1) + 3 at the very most, averaged over a run. Two message delays to get in, two from exit to the
//! next entry.
//!
//! **Assumes** reliable channels that keep their order and deliver once, and that nobody crashes.
//!
//! **Caveats**: a crashed arbiter blocks those who have it in their quorum, and only them. Grants follow no order; still
//! every request is granted, because the one with the smallest stamp can call back every vote that is not in use.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use conclave_core::{
    Boot, Counter, Effects, Input, LamportClock, Members, Message, NodeId, NodeSet, Phase, Protocol, Space,
    Stamp,
};
use serde::{Deserialize, Serialize};

use super::queue::RequestQueue;
use super::quorum::Quorums;
use super::stamps::{STAMPS, Stamps};
use super::{Epoch, Event, FenceCounter, Load, Mutex, Promises, Request, Roll, Tally};
use crate::{
    About, Algorithm, Channels, Formula, Setting, SettingError, Settings, Synchrony, Topology, Values,
};

/// A process of Maekawa's algorithm: a requester and an arbiter in one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Maekawa {
    id: NodeId,
    /// Our place among the members.
    place: usize,
    members: Members,
    config: MaekawaConfig,
    clock: LamportClock,
    state: State,
    arbiter: Arbiter,
    epoch: Epoch,
    fence: FenceCounter,
}

/// The requester.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Idle,
    Waiting {
        mine: Stamp,
        /// The arbiters whose vote we have.
        votes: NodeSet,
        /// The arbiters that told us that we cannot win yet, or whose vote we gave back.
        failed: NodeSet,
        /// The arbiters that want their vote back and have no answer yet.
        inquiries: NodeSet,
    },
    Holding {
        mine: Stamp,
    },
}

/// The arbiter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Arbiter {
    /// The request that has our vote.
    granted: Option<Stamp>,
    /// The requests that wait for it.
    queue: RequestQueue,
    /// Whether we have asked for our vote back.
    inquired: bool,
}

/// Settings of [`Maekawa`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MaekawaConfig {
    quorums: Quorums,
    /// How they were made, and are made again when members come and go.
    rule: Rule,
    /// Whether every inquiry for a vote is answered by giving it back, unless we are inside.
    eager: bool,
    /// What the clocks show at the start.
    stamps: Stamps,
    mutation: Option<Mutation>,
}

/// Which quorums a group has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Rule {
    Grid,
    /// A plane, if there is one for so many.
    Plane,
}

impl Rule {
    fn quorums(self, n: usize) -> Quorums {
        match self {
            Self::Grid => Quorums::grid(n),
            Self::Plane => Quorums::plane(n).unwrap_or_else(|| Quorums::grid(n)),
        }
    }
}

/// What requesters and arbiters say to each other; `time` is that of the request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MaekawaMessage {
    /// I want to enter and need your vote.
    Request {
        /// The time of the request.
        time: u64,
    },
    /// You have my vote.
    Locked {
        /// The time of the request that this answers.
        time: u64,
        /// The largest fence that I know.
        fence: FenceCounter,
    },
    /// Somebody else comes first.
    Failed {
        /// The time of the request that this answers.
        time: u64,
    },
    /// May I have my vote back?
    Inquire {
        /// The time of the request that has the vote.
        time: u64,
    },
    /// You may; vote for me again later.
    Relinquish {
        /// The time of the request that had the vote.
        time: u64,
    },
    /// I have left, or no longer want to enter.
    Release {
        /// The time of the request that is over.
        time: u64,
        /// The largest fence that I know.
        fence: FenceCounter,
    },
}

use MaekawaMessage as Msg;

impl Message for MaekawaMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Request, Locked, Failed, Inquire, Relinquish, Release)
    }

    fn visit_counters(&mut self, _from: NodeId, _members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            Msg::Request { time }
            | Msg::Failed { time }
            | Msg::Inquire { time }
            | Msg::Relinquish { time } => visit(Counter::exact(CLOCK, time)),
            Msg::Locked { time, fence } | Msg::Release { time, fence } => {
                visit(Counter::exact(CLOCK, time));
                visit(fence.counter());
            }
        }
    }
}

const CLOCK: Space = Space::shared("clock");

impl Protocol for Maekawa {
    type Config = MaekawaConfig;
    type Message = MaekawaMessage;
    type Request = Request;
    type Event = Event;
    type Timer = ();
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        Self {
            id: boot.id,
            place: boot.members.position(boot.id).expect("a process is one of the members"),
            members: boot.members.clone(),
            config: boot.config.clone(),
            clock: boot.config.stamps.clock(boot.id),
            state: State::Idle,
            arbiter: Arbiter::default(),
            epoch: Epoch::FIRST,
            fence: FenceCounter::default(),
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Receive { from, message } => match self.members.position(from) {
                Some(place) if from != self.id && self.may_say(place, &message) => {
                    self.receive(from, &message, out);
                }
                _ => out.reject(from, "only requesters and arbiters of one quorum talk to each other"),
            },
            Input::Request(request) if !request.fits(self.phase()) => out.emit(Event::Refused(request)),
            Input::Request(Request::Acquire) => self.acquire(out),
            Input::Request(Request::Release) => self.become_idle(out),
            // The release follows the request, and whatever we have yielded, on every channel.
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
            State::Holding { .. } => Phase::HOLDING,
        }
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        visit(Counter::exact(CLOCK, self.clock.value_mut()));
        if let State::Waiting { mine, .. } | State::Holding { mine } = &mut self.state {
            visit(Counter::exact(CLOCK, &mut mine.time));
        }
        if let Some(granted) = &mut self.arbiter.granted {
            visit(Counter::exact(CLOCK, &mut granted.time));
        }
        self.arbiter.queue.visit_counters(CLOCK, visit);
        visit(self.fence.counter());
    }

    fn assert_invariants(&self) {
        if self.config.mutation.is_some() {
            return;
        }

        let quorum: NodeSet =
            self.config.quorums.of(self.place).map(|place| self.members.at(place)).collect();
        match &self.state {
            State::Idle => {}
            State::Waiting { mine, votes, failed, inquiries } => {
                assert!(mine.process == self.id, "we wait with a request of our own");
                assert!(
                    votes.is_subset(&quorum) && failed.is_subset(&quorum),
                    "only the arbiters of our quorum decide about us"
                );
                assert!(votes.len() < quorum.len(), "who has all votes does not wait");
                assert!(inquiries.is_subset(votes), "only a vote that we have can be asked back");
                assert!(
                    failed.is_empty() || inquiries.is_empty(),
                    "who knows that it has to wait keeps no vote that is asked back"
                );
            }
            State::Holding { mine } => assert!(
                !quorum.contains(self.id) || self.arbiter.granted == Some(*mine),
                "while we are inside our own vote is ours"
            ),
        }
        self.arbiter.queue.assert_invariants(&self.members);
        assert!(
            self.arbiter.granted.is_some()
                || (self.arbiter.queue.iter().next().is_none() && !self.arbiter.inquired),
            "an arbiter that has its vote keeps nobody waiting"
        );
    }
}

/// Between the two roles.
impl Maekawa {
    /// Whether the process at `place` may say this to us: a requester to its arbiters, an arbiter to its requesters.
    fn may_say(&self, place: usize, message: &MaekawaMessage) -> bool {
        match message {
            Msg::Request { .. } | Msg::Relinquish { .. } | Msg::Release { .. } => {
                self.config.quorums.contains(place, self.place)
            }
            Msg::Locked { .. } | Msg::Failed { .. } | Msg::Inquire { .. } => {
                self.config.quorums.contains(self.place, place)
            }
        }
    }

    /// Takes a message from another process, or from our other role.
    fn receive(&mut self, from: NodeId, message: &MaekawaMessage, out: &mut impl Effects<Self>) {
        match *message {
            Msg::Request { time } => self.on_request(Stamp { time, process: from }, out),
            Msg::Relinquish { time } => self.on_relinquish(Stamp { time, process: from }, out),
            Msg::Release { time, fence } => {
                self.fence.witness(fence);
                self.on_release(Stamp { time, process: from }, out);
            }
            Msg::Locked { time, fence } => {
                self.fence.witness(fence);
                self.on_locked(from, time, out);
            }
            Msg::Failed { time } => self.on_failed(from, time, out),
            Msg::Inquire { time } => self.on_inquire(from, time, out),
        }
    }

    /// Says something to another process, or, at no cost, to our other role.
    fn tell(&mut self, to: NodeId, message: MaekawaMessage, out: &mut impl Effects<Self>) {
        if to == self.id {
            self.receive(to, &message, out);
        } else {
            out.send(to, message);
        }
    }

    fn tell_quorum(&mut self, message: &MaekawaMessage, out: &mut impl Effects<Self>) {
        for k in 0..self.config.quorums.size(self.place) {
            let arbiter = self.members.at(self.config.quorums.member(self.place, k));
            self.tell(arbiter, message.clone(), out);
        }
    }
}

/// The requester.
impl Maekawa {
    fn acquire(&mut self, out: &mut impl Effects<Self>) {
        if self.config.mutation != Some(Mutation::NoClock) {
            self.clock.tick();
        }
        let mine = Stamp { time: self.clock.time(), process: self.id };
        let (votes, failed, inquiries) = (NodeSet::new(), NodeSet::new(), NodeSet::new());
        self.state = State::Waiting { mine, votes, failed, inquiries };
        self.tell_quorum(&Msg::Request { time: mine.time }, out);
    }

    fn on_locked(&mut self, arbiter: NodeId, time: u64, out: &mut impl Effects<Self>) {
        // A vote for a request that we have given up: the release is in flight.
        let State::Waiting { mine, votes, failed, .. } = &mut self.state else { return };
        if mine.time != time {
            return;
        }
        votes.insert(arbiter);
        failed.remove(arbiter);
        self.maybe_enter(out);
    }

    fn maybe_enter(&mut self, out: &mut impl Effects<Self>) {
        if let State::Waiting { mine, votes, .. } = &self.state
            && votes.len() == self.config.quorums.size(self.place)
        {
            self.state = State::Holding { mine: *mine };
            out.emit(Event::Granted { fence: self.fence.enter(self.epoch, self.id) });
        }
    }

    fn on_failed(&mut self, arbiter: NodeId, time: u64, out: &mut impl Effects<Self>) {
        let State::Waiting { mine, failed, inquiries, .. } = &mut self.state else { return };
        if mine.time != time {
            return;
        }
        failed.insert(arbiter);
        // Now that we know that we have to wait, nobody else should wait for us.
        for arbiter in core::mem::take(inquiries).iter() {
            self.yield_vote(arbiter, out);
        }
    }

    fn on_inquire(&mut self, arbiter: NodeId, time: u64, out: &mut impl Effects<Self>) {
        // Where we are inside, or the request is over, our release answers.
        let State::Waiting { mine, votes, failed, inquiries } = &mut self.state else { return };
        if mine.time != time || !votes.contains(arbiter) {
            return;
        }
        if self.config.eager || !failed.is_empty() {
            self.yield_vote(arbiter, out);
        } else {
            inquiries.insert(arbiter);
        }
    }

    fn yield_vote(&mut self, arbiter: NodeId, out: &mut impl Effects<Self>) {
        let State::Waiting { mine, votes, failed, .. } = &mut self.state else { return };
        let time = mine.time;
        if self.config.mutation != Some(Mutation::KeepYielded) {
            votes.remove(arbiter);
        }
        failed.insert(arbiter);
        self.tell(arbiter, Msg::Relinquish { time }, out);
    }

    fn become_idle(&mut self, out: &mut impl Effects<Self>) {
        let (State::Waiting { mine, .. } | State::Holding { mine }) = self.state else { return };
        self.state = State::Idle;
        self.tell_quorum(&Msg::Release { time: mine.time, fence: self.fence }, out);
    }
}

/// The arbiter.
impl Maekawa {
    fn on_request(&mut self, theirs: Stamp, out: &mut impl Effects<Self>) {
        self.clock.witness(theirs.time);
        let Some(granted) = self.arbiter.granted else {
            return self.vote_for(theirs, out);
        };
        let first = self.arbiter.queue.first();
        if theirs > granted || first.is_some_and(|first| first < theirs) {
            self.arbiter.queue.insert(theirs);
            return self.maybe_fail(theirs, out);
        }
        if self.config.mutation == Some(Mutation::Revote) {
            self.arbiter.queue.insert(granted);
            return self.vote_for(theirs, out);
        }
        self.arbiter.queue.insert(theirs);
        // The rule of Sanders: who was first in the queue, and could hope for the vote to come back, is no longer.
        if let Some(pushed) = first.filter(|first| *first < granted)
            && self.config.mutation != Some(Mutation::NoSanders)
        {
            self.maybe_fail(pushed, out);
        }
        if !self.arbiter.inquired {
            self.arbiter.inquired = true;
            self.tell(granted.process, Msg::Inquire { time: granted.time }, out);
        }
    }

    fn on_relinquish(&mut self, theirs: Stamp, out: &mut impl Effects<Self>) {
        if self.arbiter.granted == Some(theirs) {
            self.arbiter.queue.insert(theirs);
            self.vote_for_next(out);
        }
    }

    fn on_release(&mut self, theirs: Stamp, out: &mut impl Effects<Self>) {
        if self.arbiter.granted == Some(theirs) {
            self.vote_for_next(out);
        } else {
            self.arbiter.queue.remove(theirs);
        }
    }

    fn maybe_fail(&mut self, theirs: Stamp, out: &mut impl Effects<Self>) {
        if !self.config.eager {
            self.tell(theirs.process, Msg::Failed { time: theirs.time }, out);
        }
    }

    fn vote_for_next(&mut self, out: &mut impl Effects<Self>) {
        self.arbiter.granted = None;
        self.arbiter.inquired = false;
        if let Some(next) = self.arbiter.queue.pop_first() {
            self.vote_for(next, out);
        }
    }

    fn vote_for(&mut self, theirs: Stamp, out: &mut impl Effects<Self>) {
        debug_assert!(
            self.arbiter.granted.is_none() || self.config.mutation.is_some(),
            "a vote is given to one at a time"
        );
        self.arbiter.granted = Some(theirs);
        self.tell(theirs.process, Msg::Locked { time: theirs.time, fence: self.fence }, out);
    }
}

mutants! {
    enum Mutation {
        NoSanders {
            name: "no-sanders", breaks: "ME2", nodes: 4, trigger: Schedule,
            change: "who is pushed from the head of a queue by an earlier request is not told: the original paper",
        }
        Revote {
            name: "revote", breaks: "ME1", nodes: 3, trigger: Schedule,
            change: "an arbiter votes for an earlier request before it has its vote back",
        }
        KeepYielded {
            name: "keep-yielded", breaks: "ME1", nodes: 3, trigger: Schedule,
            change: "a process that gives a vote back goes on counting it",
        }
        NoClock {
            name: "no-clock", breaks: "ME3", nodes: 3, trigger: Forever,
            change: "clocks stand still: of two requests that of the lower id always comes first",
        }
    }
}

impl Algorithm for Maekawa {
    const ABOUT: About = About {
        name: "maekawa",
        title: "Maekawa",
        paper: "Maekawa: A sqrt(N) algorithm for mutual exclusion in decentralized systems, ACM TOCS 3(2), 1985",
        idea: "ask a quorum for its votes; any two share a voter",
        family: crate::mutex::FAMILY,
        channels: Channels::Fifo,
        synchrony: Synchrony::Asynchronous,
        topology: Topology::Complete,
        cost: "3(K-1) per entry alone, at most 6(K-1)+3 on average; K is the size of the quorum, about sqrt(n)",
        faults: "none: a crashed process blocks those who need its vote, and they keep the votes they have",
        settings: &[
            Setting {
                key: "quorum",
                values: Values::OneOf(&["auto", "grid", "plane"]),
                default: "auto",
                unsafe_values: &[],
                help: "row and column of a grid, or a line of a projective plane; auto takes a plane if there is one",
            },
            Setting {
                key: "variant",
                values: Values::OneOf(&["sanders", "eager"]),
                default: "sanders",
                unsafe_values: &[],
                help: "whether a vote is given back when one knows that one has to wait, or whenever it is asked for",
            },
            STAMPS,
        ],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, members: &Members) -> Result<Self::Config, SettingError> {
        let n = members.len();
        let rule = match settings.get("quorum") {
            "grid" => Rule::Grid,
            "plane" if Quorums::plane(n).is_none() => return Err(no_plane(n)),
            _ => Rule::Plane,
        };
        Ok(MaekawaConfig {
            quorums: rule.quorums(n),
            rule,
            eager: settings.get("variant") == "eager",
            stamps: Stamps::of(settings, members)?,
            mutation: Mutation::of(settings),
        })
    }
}

fn no_plane(n: usize) -> SettingError {
    let sizes: Vec<String> = Quorums::plane_sizes().map(|size| size.to_string()).collect();
    SettingError::Unfit(format!(
        "quorum=plane is not possible for {n} processes; there is one for {}; quorum=grid fits any number",
        sizes.join(", "),
    ))
}

impl Mutex for Maekawa {
    /// New quorums for those who are left. Every arbiter has all requests that concern it, and its vote is with the
    /// first of them; whose vote went elsewhere knows that it has to wait.
    fn rebuild(boot: Boot<'_, Self>, roll: &Roll, out: &mut impl Effects<Self>) -> Self {
        let config =
            MaekawaConfig { quorums: boot.config.rule.quorums(boot.members.len()), ..boot.config.clone() };
        let mut process = Self::boot(Boot { config: &config, ..boot });
        process.epoch = roll.epoch;
        process.clock = roll.clock;
        let requests = roll.requests();
        let concerns = |request: &Stamp, arbiter: usize| {
            process.members.position(request.process).is_some_and(|p| config.quorums.contains(p, arbiter))
        };
        let first = |arbiter: usize| requests.iter().copied().find(|request| concerns(request, arbiter));
        let votes_for = |mine: Stamp| {
            let quorum = config.quorums.of(process.place);
            let (votes, failed) = quorum.partition::<Vec<_>, _>(|arbiter| first(*arbiter) == Some(mine));
            let ids =
                |places: Vec<usize>| places.into_iter().map(|place| process.members.at(place)).collect();
            (ids(votes), ids(failed))
        };
        process.state = match requests.iter().find(|request| request.process == process.id) {
            None => State::Idle,
            Some(mine) if roll.inside().is_some_and(|(inside, _)| inside == process.id) => {
                State::Holding { mine: *mine }
            }
            Some(mine) => {
                let (votes, failed) = votes_for(*mine);
                State::Waiting { mine: *mine, votes, failed, inquiries: NodeSet::new() }
            }
        };
        process.arbiter.granted = first(process.place);
        for request in requests.iter().filter(|request| concerns(request, process.place)).skip(1) {
            process.arbiter.queue.insert(*request);
        }
        process.maybe_enter(out);
        process
    }

    fn promises(_config: &Self::Config, _members: &Members) -> Promises {
        Promises { no_starvation: true, ..Promises::NOTHING }
    }

    fn formula(config: &Self::Config, _members: &Members, tally: &Tally<'_>) -> Formula {
        let others = |place| config.quorums.size(place) as u64 - 1;
        let asked: u64 =
            tally.entries.iter().enumerate().map(|(place, entries)| entries * others(place)).sum();
        match tally.load {
            Load::Light => Formula::exactly("3(K-1)", 3 * asked),
            Load::Open | Load::Saturated => {
                Formula::between("3(K-1) to 6(K-1)+3", 3 * asked, 6 * asked + 3 * tally.total())
            }
        }
    }

    fn client_hops(config: &Self::Config, members: &Members, requester: NodeId) -> RangeInclusive<u32> {
        let alone = members.position(requester).is_none_or(|place| config.quorums.size(place) == 1);
        let hops = if alone { 0 } else { 2 };
        hops..=hops
    }

    fn announced(from: NodeId, message: &Self::Message) -> Option<Stamp> {
        match message {
            Msg::Request { time } => Some(Stamp { time: *time, process: from }),
            Msg::Locked { .. }
            | Msg::Failed { .. }
            | Msg::Inquire { .. }
            | Msg::Relinquish { .. }
            | Msg::Release { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arena;
    use crate::testing::World;

    fn config(given: &[(&str, &str)], mutant: Option<&str>, members: &Members) -> MaekawaConfig {
        let settings = Settings::new(&Maekawa::ABOUT, Arena::Laboratory, given.iter().copied(), mutant);
        Maekawa::configure(&settings.expect("declared settings"), members).expect("they fit")
    }

    fn entered(world: &World<Maekawa>) -> Vec<u32> {
        let granted = world.events.iter().filter(|(_, event)| matches!(event, Event::Granted { .. }));
        granted.map(|(id, _)| id.0).collect()
    }

    /// The worked example TV-M1: alone, a process pays three messages for each other member of its quorum.
    #[test]
    fn book_tv_m1_cost_of_an_entry_alone() {
        for (n, quorum, messages) in [(7, "plane", 6), (9, "grid", 12)] {
            let config = config(&[("quorum", quorum)], None, &Members::numbered(n));
            for id in 1..=n {
                let mut world = World::<Maekawa>::numbered(n, &config);
                world.request(id, Request::Acquire);
                world.drain();
                world.request(id, Request::Release);
                world.drain();
                assert_eq!(entered(&world), [id]);
                assert_eq!(world.sent.len(), messages);
            }
        }
    }

    /// Two of a plane of three, in which p1 asks p2, p2 asks p3, and everyone asks itself. p2 has voted for itself
    /// when the earlier request of p1 arrives; the inquiry after that vote is a matter between the two roles of p2.
    fn p1_and_p2_ask_at_once(variant: &str) -> World<Maekawa> {
        let config = config(&[("variant", variant)], None, &Members::numbered(3));
        let mut world = World::<Maekawa>::numbered(3, &config);
        for id in [1, 2] {
            world.request(id, Request::Acquire);
        }
        world.drain();
        world
    }

    #[test]
    fn who_may_still_win_keeps_its_votes() {
        let world = p1_and_p2_ask_at_once("sanders");
        assert_eq!(world.log(), ["p1 => p2 Request", "p2 => p3 Request", "p3 => p2 Locked"]);
        assert_eq!(entered(&world), [2]);
    }

    #[test]
    fn the_eager_give_a_vote_back_at_once() {
        let world = p1_and_p2_ask_at_once("eager");
        let expected = ["p1 => p2 Request", "p2 => p3 Request", "p2 => p1 Locked", "p3 => p2 Locked"];
        assert_eq!(world.log(), expected);
        assert_eq!(entered(&world), [1]);
    }

    #[test]
    fn a_plane_of_eight_does_not_exist() {
        let settings = Settings::new(&Maekawa::ABOUT, Arena::Live, [("quorum", "plane")], None);
        let refused = Maekawa::configure(&settings.expect("a declared value"), &Members::numbered(8));
        let Err(SettingError::Unfit(why)) = refused else { panic!("there is no plane of eight") };
        assert!(why.contains("3, 7, 13, 21, 31, 57, 73"), "{why}");
    }
}
