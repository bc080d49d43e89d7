//! Majority voting: whoever has the votes of more than half is in.
//!
//! Thomas: *A majority consensus approach to concurrency control for multiple copy databases*, ACM TODS 4(2), 1979;
//! the recall of votes is that of Maekawa: *A √N algorithm for mutual exclusion in decentralized systems*, ACM TOCS
//! 3(2), 1985, and of Sanders, ACM TOCS 5(3), 1987.
//!
//! Every process has one vote, for itself as well as for others, and keeps it given until it is released. A process
//! that wants to enter asks everyone, and enters with a majority: two majorities share a voter, and that voter has
//! voted once. A voter that has given its vote away says so (`Queued`), which shows that it is alive, and keeps the
//! request.
//!
//! ```text
//!   p1 ──●──────────▶ inside ──●────────────────────          p1 enters with its own vote and that of p2
//!         ╲ Request ╱ Granted   ╲ Release
//!   p2 ────●───────●─────●───────●──────────────────
//!                 Request ╱ ╲     ╲ Granted
//!   p3 ─────────────────●────●─────●──▶ inside ──             p3 waits in the queue of p2
//!                        Queued
//! ```
//!
//! Votes can split so that nobody has a majority. What then happens is the `mode`:
//!
//! - `voting`: votes can be recalled. A voter that is asked by an earlier request inquires after its vote, and a process
//!   that is not inside gives it back. The smallest stamp thus gets every vote that is not in use.
//! - `view`: as `voting`, in a group that recovers (see [`Recovering`](crate::Recovering)). Members who are suspected
//!   are voted out, and majorities counted among the others; but only a majority of the old group can do that, and only
//!   when the lease of whoever was voted out is over. A minority that is cut off stands still, and whoever is inside there
//!   has to leave. It is safe whatever its failure detector says, as long as clocks run at about the same speed.
//! - `backoff`: votes cannot be recalled. A process that has waited for a random time gives all its votes back and asks
//!   again with a new stamp; the time doubles with each try.
//! - `literal`: the rule as it is often told. Whoever is outside, and is not waiting with an earlier request, votes for
//!   everyone who asks, and a majority of the *others* lets one in; on the way out, all whom one kept waiting get the
//!   vote. For two and three processes this is Ricart and Agrawala's algorithm. **From four on it is unsafe**: a voter
//!   votes again while the first winner is still inside. It stands here to be caught, and runs in the laboratory only.
//!
//! **Signs of life**: `Queued` tells a voter that is busy from one that is dead. With `queued=off` a busy voter says nothing.
//! With `retries=R` (mode `literal` only) a request is repeated to those who have said nothing, and whoever has not answered R
//! repetitions is taken for dead and counted no longer, as the literal rule is often completed. If it is only slow, it
//! counts without us, too, and **both sides enter**: only a majority of all that ever were is safe.
//!
//! **Cost**: 3(n − 1) messages per entry when nobody competes; with competition up to n − 1 `Queued` and 3n messages of
//! recall more. Two message delays to get in, two from exit to the next entry.
//!
//! **Assumes** reliable channels that keep their order and deliver once. Crashed voters are survived as long as a
//! majority is left and the dead had no vote in use: a vote given to a dead process stays given.
//!
//! **Caveats**: grants follow no order. With `backoff` everything is safe, but nothing is certain: a process may be
//! unlucky forever.

use core::ops::RangeInclusive;
use core::time::Duration;

use conclave_core::{
    After, Boot, Counter, Effects, Input, LamportClock, Members, Message, NodeId, NodeSet, Phase, Protocol,
    Space, Stamp,
};
use serde::{Deserialize, Serialize};

use super::queue::RequestQueue;
use super::stamps::{STAMPS, Stamps};
use super::{Epoch, Event, FenceCounter, Load, Mutex, Promises, Request, Roll, Tally};
use crate::{
    About, Algorithm, Channels, Formula, STRANGER, Setting, SettingError, Settings, Synchrony, Topology,
    Values,
};

/// A process of the majority algorithm: a requester and a voter in one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Majority {
    id: NodeId,
    members: Members,
    config: MajorityConfig,
    clock: LamportClock,
    state: State,
    voter: Voter,
    epoch: Epoch,
    fence: FenceCounter,
    /// Who is not counted: whoever was silent for too long, where requests are repeated. Else nobody, but for a mutant.
    down: NodeSet,
    /// Who has answered our request in any way; kept only where requests are repeated.
    heard: NodeSet,
    /// The time in which an uncontended request is answered: what a first try waits at least.
    patience: Duration,
}

/// The requester.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Idle,
    Waiting {
        mine: Stamp,
        /// Whose votes we have.
        votes: NodeSet,
        /// How often we have given up and asked again, or have repeated the request.
        retries: u32,
    },
    Holding {
        mine: Stamp,
    },
}

/// The voter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Voter {
    /// The request that has our vote.
    vote: Option<Stamp>,
    /// The requests that wait for it.
    queue: RequestQueue,
    /// Whether we have asked for our vote back.
    inquired: bool,
}

/// Settings of [`Majority`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MajorityConfig {
    mode: Mode,
    /// How often a pause becomes twice as long.
    doublings: u32,
    /// Whether a voter that is busy says so.
    tells_queued: bool,
    /// How often a request is repeated before the silent are taken for dead; never if 0.
    repeats: u32,
    /// What the clocks show at the start.
    stamps: Stamps,
    mutation: Option<Mutation>,
}

/// What is done about split votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mode {
    Voting,
    /// As voting, in a group that is put together again only with the consent of a majority.
    View,
    Backoff,
    Literal,
}

/// The only timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MajorityTimer {
    /// Time to try again: to give the votes back and ask anew, or to repeat the request to those who have not answered.
    Backoff,
}

/// What requesters and voters say to each other; `time` is that of the request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MajorityMessage {
    /// I want to enter and ask for your vote.
    Request {
        /// The time of the request.
        time: u64,
    },
    /// You have my vote.
    Granted {
        /// The time of the request that this answers.
        time: u64,
        /// The largest fence that I know.
        fence: FenceCounter,
    },
    /// I am alive, but my vote is given away; I keep your request.
    Queued {
        /// The time of the request that this answers.
        time: u64,
        /// Who has the vote, as far as I know.
        holder: NodeId,
    },
    /// Give me my vote back unless you are inside.
    Inquire {
        /// The time of the request that has the vote.
        time: u64,
    },
    /// Here it is; vote for me again later.
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

use MajorityMessage as Msg;

impl Message for MajorityMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Request, Granted, Queued, Inquire, Relinquish, Release)
    }

    fn visit_counters(&mut self, _from: NodeId, _members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            Msg::Request { time }
            | Msg::Queued { time, .. }
            | Msg::Inquire { time }
            | Msg::Relinquish { time } => visit(Counter::exact(CLOCK, time)),
            Msg::Granted { time, fence } | Msg::Release { time, fence } => {
                visit(Counter::exact(CLOCK, time));
                visit(fence.counter());
            }
        }
    }
}

const CLOCK: Space = Space::shared("clock");

impl Protocol for Majority {
    type Config = MajorityConfig;
    type Message = MajorityMessage;
    type Request = Request;
    type Event = Event;
    type Timer = MajorityTimer;
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        Self {
            id: boot.id,
            members: boot.members.clone(),
            config: boot.config.clone(),
            clock: boot.config.stamps.clock(boot.id),
            state: State::Idle,
            voter: Voter::default(),
            epoch: Epoch::FIRST,
            fence: FenceCounter::default(),
            down: NodeSet::new(),
            heard: NodeSet::new(),
            patience: boot.timing.answer_timeout(),
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Receive { from, .. } if !self.members.has_other(self.id, from) => {
                out.reject(from, STRANGER);
            }
            Input::Receive { from, message } => {
                // Whoever speaks is alive.
                if self.config.repeats > 0 {
                    self.down.remove(from);
                    if matches!(message, Msg::Granted { .. } | Msg::Queued { .. }) {
                        self.heard.insert(from);
                    }
                }
                self.receive(from, &message, out);
            }
            Input::Expire(MajorityTimer::Backoff) if self.config.repeats > 0 => self.on_silence(out),
            Input::Expire(MajorityTimer::Backoff) => self.maybe_retry(out),
            Input::Request(request) if !request.fits(self.phase()) => out.emit(Event::Refused(request)),
            Input::Request(Request::Acquire) => self.ask(0, out),
            Input::Request(Request::Release) => self.become_idle(out),
            // The release follows the request on every channel; votes that are still in flight are released with
            // it, and their stamp tells them apart from votes for the next request.
            Input::Request(Request::Cancel) => {
                self.disarm(out);
                self.become_idle(out);
            }
            // A voter that is down is one vote less; a vote that a dead process had stays given, since only an
            // agreement of the others could tell that it is not inside.
            Input::PeerDown { peer, .. } => {
                if self.config.mutation == Some(Mutation::Shrinking) && self.members.contains(peer) {
                    self.down.insert(peer);
                    self.maybe_enter(out);
                }
            }
            Input::PeerUp { peer, .. } => {
                self.down.remove(peer);
            }
            // Nobody leaves the group.
            Input::Request(Request::Leave) | Input::Start => {}
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
        if let Some(vote) = &mut self.voter.vote {
            visit(Counter::exact(CLOCK, &mut vote.time));
        }
        self.voter.queue.visit_counters(CLOCK, visit);
        visit(self.fence.counter());
    }

    fn assert_invariants(&self) {
        if self.config.mutation.is_some() {
            return;
        }

        let repeats = self.config.repeats;
        assert!(self.down.is_empty() || repeats > 0, "everyone is counted");
        assert!(!self.down.contains(self.id), "nobody takes itself for dead");
        assert!(self.heard.is_empty() || repeats > 0, "answers are noted only where requests are repeated");
        self.voter.queue.assert_invariants(&self.members);
        if let State::Waiting { mine, votes, retries } = &self.state {
            assert!(mine.process == self.id, "we wait with a request of our own");
            assert!(votes.iter().all(|voter| self.members.contains(voter)), "only members vote");
            assert!(votes.len() < self.needed(), "who has enough votes does not wait");
            assert!(
                *retries <= self.config.doublings.max(repeats),
                "requests are repeated as often as they may"
            );
        }
        match self.config.mode {
            Mode::Voting | Mode::View | Mode::Backoff => assert!(
                self.voter.vote.is_some() || (self.voter.queue.first().is_none() && !self.voter.inquired),
                "a voter that has its vote keeps nobody waiting"
            ),
            Mode::Literal => assert!(
                self.state != State::Idle || self.voter.queue.first().is_none(),
                "who wants nothing keeps nobody waiting"
            ),
        }
    }
}

/// Between the two roles.
impl Majority {
    /// Takes a message from another process, or from our other role.
    fn receive(&mut self, from: NodeId, message: &MajorityMessage, out: &mut impl Effects<Self>) {
        match *message {
            Msg::Request { time } => self.on_request(Stamp { time, process: from }, out),
            Msg::Relinquish { time } => self.on_relinquish(Stamp { time, process: from }, out),
            Msg::Release { time, fence } => {
                self.fence.witness(fence);
                self.on_release(Stamp { time, process: from }, out);
            }
            Msg::Granted { time, fence } => {
                self.fence.witness(fence);
                self.on_granted(from, time, out);
            }
            Msg::Inquire { time } => self.on_inquire(from, time, out),
            // A sign of life; the vote comes when it is free.
            Msg::Queued { .. } => {}
        }
    }

    /// Says something to another process, or, at no cost, to our other role.
    fn tell(&mut self, to: NodeId, message: MajorityMessage, out: &mut impl Effects<Self>) {
        if to == self.id {
            self.receive(to, &message, out);
        } else {
            out.send(to, message);
        }
    }

    /// Ourselves last: the others are told what we ask before our own vote can let us in.
    fn tell_all(&mut self, message: &MajorityMessage, out: &mut impl Effects<Self>) {
        out.send_all(self.members.others(self.id), message);
        self.receive(self.id, message, out);
    }
}

/// The requester.
impl Majority {
    fn ask(&mut self, retries: u32, out: &mut impl Effects<Self>) {
        if self.config.mutation != Some(Mutation::NoClock) {
            self.clock.tick();
        }
        let mine = Stamp { time: self.clock.time(), process: self.id };
        self.state = State::Waiting { mine, votes: NodeSet::new(), retries };
        self.heard.clear();
        self.arm(retries, out);
        let request = Msg::Request { time: mine.time };
        match self.config.mode {
            Mode::Voting | Mode::View | Mode::Backoff => self.tell_all(&request, out),
            // Here nobody has a vote for itself; one who is alone needs none.
            Mode::Literal => {
                out.send_all(self.members.others(self.id), &request);
                self.maybe_enter(out);
            }
        }
    }

    /// How many votes let one in.
    fn needed(&self) -> usize {
        let n = self.members.len();
        match (self.config.mode, self.config.mutation) {
            (_, Some(Mutation::Shrinking)) => (n - self.down.len()) / 2 + 1,
            (_, Some(Mutation::HalfIsEnough)) => n.div_ceil(2),
            (Mode::Literal, _) => match n - self.down.len() {
                1 => 0,
                counted => (counted - 1) / 2 + 1,
            },
            (Mode::Voting | Mode::View | Mode::Backoff, _) => n / 2 + 1,
        }
    }

    fn on_granted(&mut self, voter: NodeId, time: u64, out: &mut impl Effects<Self>) {
        // A vote for a request that is over is released already; one that comes when we are inside changes nothing,
        // and is released with the others.
        if let State::Waiting { mine, votes, .. } = &mut self.state
            && mine.time == time
        {
            votes.insert(voter);
            self.maybe_enter(out);
        }
    }

    fn maybe_enter(&mut self, out: &mut impl Effects<Self>) {
        if let State::Waiting { mine, votes, .. } = &self.state
            && votes.len() >= self.needed()
        {
            self.state = State::Holding { mine: *mine };
            self.disarm(out);
            out.emit(Event::Granted { fence: self.fence.enter(self.epoch, self.id) });
        }
    }

    fn on_inquire(&mut self, voter: NodeId, time: u64, out: &mut impl Effects<Self>) {
        // Where we are inside, or the request is over, our release answers.
        if let State::Waiting { mine, votes, .. } = &mut self.state
            && mine.time == time
            && votes.remove(voter)
        {
            self.tell(voter, Msg::Relinquish { time }, out);
        }
    }

    fn maybe_retry(&mut self, out: &mut impl Effects<Self>) {
        if let State::Waiting { retries, .. } = self.state
            && self.config.mode == Mode::Backoff
        {
            self.become_idle(out);
            // Beyond that nothing changes, and a number that grows would tell states apart that are alike.
            self.ask(retries.saturating_add(1).min(self.config.doublings), out);
        }
    }

    /// Some have not answered in time: asks them once more, and in the end counts without them.
    fn on_silence(&mut self, out: &mut impl Effects<Self>) {
        let State::Waiting { mine, retries, .. } = &mut self.state else { return };
        let silent = self.members.others(self.id).filter(|peer| !self.heard.contains(*peer));
        if *retries >= self.config.repeats {
            self.down.extend(silent);
            return self.maybe_enter(out);
        }
        *retries += 1;
        out.send_all(silent, &Msg::Request { time: mine.time });
        let retries = *retries;
        self.arm(retries, out);
    }

    fn become_idle(&mut self, out: &mut impl Effects<Self>) {
        let (State::Waiting { mine, .. } | State::Holding { mine }) = self.state else { return };
        self.state = State::Idle;
        match self.config.mode {
            Mode::Voting | Mode::View | Mode::Backoff => {
                self.tell_all(&Msg::Release { time: mine.time, fence: self.fence }, out);
            }
            Mode::Literal => {
                while let Some(theirs) = self.voter.queue.pop_first() {
                    out.send(theirs.process, Msg::Granted { time: theirs.time, fence: self.fence });
                }
            }
        }
    }

    fn arm(&self, retries: u32, out: &mut impl Effects<Self>) {
        if self.config.mode == Mode::Backoff {
            let patience = self.patience.saturating_mul(1 << retries);
            out.arm(MajorityTimer::Backoff, After::between(patience, patience.saturating_mul(2)));
        }
        if self.config.repeats > 0 {
            out.arm(MajorityTimer::Backoff, After::exactly(self.patience));
        }
    }

    fn disarm(&self, out: &mut impl Effects<Self>) {
        if self.config.mode == Mode::Backoff || self.config.repeats > 0 {
            out.disarm(MajorityTimer::Backoff);
        }
    }
}

/// The voter.
impl Majority {
    fn on_request(&mut self, theirs: Stamp, out: &mut impl Effects<Self>) {
        self.clock.witness(theirs.time);
        if self.config.mode == Mode::Literal {
            return self.on_request_literally(theirs, out);
        }
        let Some(vote) = self.voter.vote else {
            return self.vote_for(theirs, out);
        };
        let earlier = theirs < vote;
        if earlier && self.config.mutation == Some(Mutation::Revote) {
            self.voter.queue.insert(vote);
            return self.vote_for(theirs, out);
        }
        self.voter.queue.insert(theirs);
        if self.config.tells_queued {
            self.tell(theirs.process, Msg::Queued { time: theirs.time, holder: vote.process }, out);
        }
        let recalls = matches!(self.config.mode, Mode::Voting | Mode::View)
            && self.config.mutation != Some(Mutation::NoRecall);
        if earlier && recalls && !self.voter.inquired {
            self.voter.inquired = true;
            self.tell(vote.process, Msg::Inquire { time: vote.time }, out);
        }
    }

    /// Nothing here remembers for whom we have voted: that is what makes it unsafe.
    fn on_request_literally(&mut self, theirs: Stamp, out: &mut impl Effects<Self>) {
        let we_go_first = match self.state {
            State::Idle => false,
            State::Waiting { mine, .. } => mine < theirs,
            State::Holding { .. } => true,
        };
        if we_go_first {
            self.voter.queue.insert(theirs);
            if self.config.tells_queued {
                out.send(theirs.process, Msg::Queued { time: theirs.time, holder: self.id });
            }
        } else {
            out.send(theirs.process, Msg::Granted { time: theirs.time, fence: self.fence });
        }
    }

    fn on_relinquish(&mut self, theirs: Stamp, out: &mut impl Effects<Self>) {
        if self.voter.vote == Some(theirs) {
            self.voter.queue.insert(theirs);
            self.vote_for_next(out);
        }
    }

    fn on_release(&mut self, theirs: Stamp, out: &mut impl Effects<Self>) {
        if self.voter.vote == Some(theirs) {
            self.vote_for_next(out);
        } else {
            self.voter.queue.remove(theirs);
        }
    }

    fn vote_for_next(&mut self, out: &mut impl Effects<Self>) {
        self.voter.vote = None;
        self.voter.inquired = false;
        if let Some(next) = self.voter.queue.pop_first() {
            self.vote_for(next, out);
        }
    }

    fn vote_for(&mut self, theirs: Stamp, out: &mut impl Effects<Self>) {
        debug_assert!(
            self.voter.vote.is_none() || self.config.mutation.is_some(),
            "a vote is given to one at a time"
        );
        self.voter.vote = Some(theirs);
        self.tell(theirs.process, Msg::Granted { time: theirs.time, fence: self.fence }, out);
    }
}

mutants! {
    enum Mutation {
        NoRecall {
            name: "no-recall", breaks: "ME2", nodes: 3, trigger: Schedule,
            change: "a vote, once given, is never asked back: split votes stay split",
        }
        Revote {
            name: "revote", breaks: "ME1", nodes: 3, trigger: Schedule,
            change: "a voter votes for an earlier request before it has its vote back",
        }
        HalfIsEnough {
            name: "half-is-enough", breaks: "ME1", nodes: 4, trigger: Schedule,
            change: "half of the votes let one in, so that in an even group two halves do",
        }
        Shrinking {
            name: "shrinking", breaks: "ME1", nodes: 3, trigger: Suspicion,
            change: "majorities are counted among those who are not suspected, without asking the others",
        }
        NoClock {
            name: "no-clock", breaks: "ME1", nodes: 3, trigger: Forever,
            change: "clocks stand still: a request has the same stamp as the one before it",
        }
    }
}

impl Algorithm for Majority {
    const ABOUT: About = About {
        name: "majority",
        title: "Majority voting",
        paper: "Thomas: A majority consensus approach to concurrency control, ACM TODS 4(2), 1979",
        idea: "everyone has one vote; more than half let one in",
        family: crate::mutex::FAMILY,
        channels: Channels::Fifo,
        synchrony: Synchrony::Asynchronous,
        topology: Topology::Complete,
        cost: "3(n-1) per entry alone; up to n-1 Queued and 3n for recalls more",
        faults: "crashed voters that stay down, as long as a majority is left and no vote is lost with a requester",
        settings: &[
            Setting {
                key: "mode",
                values: Values::OneOf(&["voting", "view", "backoff", "literal"]),
                default: "voting",
                unsafe_values: &["literal"],
                help: "how split votes end: by recall (view: among those whom a majority has not voted out), by \
                       giving up for a while, or (unsafe) by voting for everyone",
            },
            Setting {
                key: "doublings",
                values: Values::OneOf(&["0", "1", "2", "3", "4", "5", "6"]),
                default: "6",
                unsafe_values: &[],
                help: "mode backoff: how often the pause before the next try becomes twice as long",
            },
            Setting {
                key: "queued",
                values: Values::OneOf(&["on", "off"]),
                default: "on",
                unsafe_values: &[],
                help: "whether a voter whose vote is given away says so, which shows that it is alive",
            },
            Setting {
                key: "retries",
                values: Values::Number(0, 9),
                default: "0",
                unsafe_values: &[],
                help: "mode literal: how often a request is repeated to those who do not answer; after that they are taken \
                       for dead and counted no longer. 0: never",
            },
            STAMPS,
        ],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, members: &Members) -> Result<Self::Config, SettingError> {
        let mode = match settings.get("mode") {
            "view" => Mode::View,
            "backoff" => Mode::Backoff,
            "literal" => Mode::Literal,
            _ => Mode::Voting,
        };
        let repeats = u32::try_from(settings.number("retries")).unwrap_or(0);
        if repeats > 0 && mode != Mode::Literal {
            let why = "retries belongs to mode=literal: everywhere else a majority is one of all members";
            return Err(SettingError::Unfit(why.into()));
        }
        Ok(MajorityConfig {
            mode,
            tells_queued: settings.get("queued") == "on",
            repeats,
            doublings: u32::try_from(settings.number("doublings")).unwrap_or(0),
            stamps: Stamps::of(settings, members)?,
            mutation: Mutation::of(settings),
        })
    }
}

impl Mutex for Majority {
    /// Every voter has every request, and its vote is with the first of them.
    fn rebuild(boot: Boot<'_, Self>, roll: &Roll, out: &mut impl Effects<Self>) -> Self {
        let mut process = Self::boot(boot);
        process.epoch = roll.epoch;
        process.clock = roll.clock;
        let requests = roll.requests();
        process.voter.vote = requests.first().copied();
        for request in requests.iter().skip(1) {
            process.voter.queue.insert(*request);
        }
        let inside = roll.inside().map(|(inside, _)| inside);
        process.state = match requests.iter().position(|request| request.process == process.id) {
            None => State::Idle,
            Some(_) if inside == Some(process.id) => State::Holding { mine: requests[0] },
            Some(place) => {
                let votes = if place == 0 { process.members.iter().collect() } else { NodeSet::new() };
                State::Waiting { mine: requests[place], votes, retries: 0 }
            }
        };
        if let State::Waiting { .. } = process.state {
            process.arm(0, out);
        }
        process.maybe_enter(out);
        process
    }

    fn promises(config: &Self::Config, _members: &Members) -> Promises {
        Promises {
            no_starvation: config.mode != Mode::Backoff,
            // Without recovery nobody acts on what a failure detector says.
            survives_suspicion: true,
            ..Promises::NOTHING
        }
    }

    fn asks_again(config: &Self::Config) -> bool {
        config.mode == Mode::Backoff || config.repeats > 0
    }

    fn needs_majority(config: &Self::Config) -> bool {
        config.mode == Mode::View
    }

    fn formula(config: &Self::Config, members: &Members, tally: &Tally<'_>) -> Formula {
        let (n, entries) = (members.len() as u64, tally.total());
        let alone = 3 * (n - 1) * entries;
        // A voter that is busy until the end need not say so.
        let least = if config.tells_queued { alone } else { (2 * (n - 1) + n / 2) * entries };
        match (config.mode, tally.load) {
            (Mode::Literal, _) => {
                Formula { text: "2(n-1), and one for each Queued", low: 2 * (n - 1) * entries, high: None }
            }
            (Mode::Voting | Mode::View, Load::Open | Load::Saturated) if !config.tells_queued => {
                Formula::between("2(n-1)+⌊n/2⌋ to 3(n-1)+3n", least, alone + 3 * n * entries)
            }
            (Mode::Voting | Mode::View | Mode::Backoff, Load::Light) => Formula::exactly("3(n-1)", alone),
            (Mode::Voting | Mode::View, Load::Open | Load::Saturated) => {
                Formula::between("3(n-1) to 4(n-1)+3n", alone, alone + (n - 1 + 3 * n) * entries)
            }
            (Mode::Backoff, Load::Open | Load::Saturated) => {
                let text = if config.tells_queued {
                    "3(n-1), and more for each retry"
                } else {
                    "2(n-1)+⌊n/2⌋, and more for each retry"
                };
                Formula { text, low: least, high: None }
            }
        }
    }

    fn client_hops(_config: &Self::Config, members: &Members, _requester: NodeId) -> RangeInclusive<u32> {
        let hops = if members.len() > 1 { 2 } else { 0 };
        hops..=hops
    }

    fn announced(from: NodeId, message: &Self::Message) -> Option<Stamp> {
        match message {
            Msg::Request { time } => Some(Stamp { time: *time, process: from }),
            Msg::Granted { .. }
            | Msg::Queued { .. }
            | Msg::Inquire { .. }
            | Msg::Relinquish { .. }
            | Msg::Release { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
