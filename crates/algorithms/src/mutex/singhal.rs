//! Singhal: guess who may have the token, and ask only those.
//!
//! Singhal: *A heuristically-aided algorithm for mutual exclusion in distributed systems*, IEEE Transactions on
//! Computers 38(5), 1989.
//!
//! Who asks for the token last is likely to be the next to have it. So every process keeps a vector of what it believes
//! all others are doing, and asks only those that it believes to be requesting: one of them has the token, or will have
//! it before long, or knows more. The token carries a vector too; when it leaves, a process brings the two up to date
//! with each other and passes the token to somebody who is requesting.
//!
//! What makes the guess safe is that of any two processes at least one believes the other to be requesting. It is so at
//! the start, when everyone believes it of all before it, and a process stops believing it only after the other has
//! heard that it has been asking itself.
//!
//! ```text
//!         p1 p2 p3 p4                       p1 p2 p3 p4          p3 asks p1 and p2; p1 sends it the token.
//!   p1    H  .  .  .                  p1    .  .  R  .           On its way out p3 finds nobody requesting
//!   p2    R  .  .  .     p3 enters    p2    R  .  R  .           and keeps the token: it stands at the top
//!   p3    R  R  .  .    ─────────▶    p3    .  .  H  .           of the staircase now, and those who stood
//!   p4    R  R  R  .                  p4    R  R  R  .           above it have each come down a step.
//! ```
//!
//! **Cost**: a process alone, on step p of the staircase (the holder's is the first), asks those on the p − 1 steps above
//! it and gets the token: p messages, so (n + 1)/2 − 1/n on average if everyone asks equally often, and less if some ask
//! more often than others. Under full load n. Never more: a request goes to nobody twice. Two message delays alone, one
//! from exit to the next entry.
//!
//! **Assumes** reliable channels of any order, and that whoever has the token does not crash. Requests are numbered, so
//! that an old one that arrives late is told apart. So is the token, by the times it was passed on: a copy of it is no
//! second one. The paper leaves that to the network.
//!
//! **Caveats**: a request that is given up cannot be called back; the token that comes for it is passed on at once. A
//! process that is reported down is not sent the token; one that comes back asks everyone, and its earlier requests
//! bring it a token that it passes on. A token that was lost is for a recovery around this protocol to replace.

use alloc::boxed::Box;
use alloc::vec;
use core::fmt::{Debug, Formatter};
use core::ops::RangeInclusive;

use conclave_core::{
    Boot, Counter, Effects, Incarnation, Input, Members, Message, NodeId, NodeSet, Phase, Protocol, Space,
};
use serde::{Deserialize, Serialize};

use super::{Epoch, Event, FenceCounter, Load, Mutex, Promises, Request, Roll, Tally};
use crate::{About, Algorithm, Channels, Formula, STRANGER, SettingError, Settings, Synchrony, Topology};

/// A process of Singhal's algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Singhal {
    id: NodeId,
    /// Our place among the members.
    place: usize,
    members: Members,
    config: SinghalConfig,
    /// What we believe of everyone, and what we know of ourselves: `SV` and `SN` of the paper.
    views: Box<[View]>,
    /// Whether our application still wants what we have asked for.
    wanted: bool,
    token: Option<SinghalToken>,
    /// How often the token had been passed on when we last saw it.
    passes: u64,
    /// Who is reported down: not sent the token until it is heard of again.
    down: NodeSet,
}

/// What somebody is doing, as somebody believes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct View {
    doing: Doing,
    /// The number of its last request.
    number: u64,
}

/// The four letters of the paper. Of others only the first two are ever believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
enum Doing {
    #[serde(rename = "R")]
    Requesting,
    #[serde(rename = "N")]
    Nothing,
    /// Inside.
    #[serde(rename = "E")]
    Executing,
    /// Has the token, and does not use it.
    #[serde(rename = "H")]
    Holding,
}

impl View {
    const NOTHING: Self = Self { doing: Doing::Nothing, number: 0 };

    fn is_requesting(&self) -> bool {
        self.doing == Doing::Requesting
    }
}

/// `R#4`.
impl Debug for View {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        let letter = match self.doing {
            Doing::Requesting => 'R',
            Doing::Nothing => 'N',
            Doing::Executing => 'E',
            Doing::Holding => 'H',
        };
        write!(f, "{letter}#{}", self.number)
    }
}

/// The token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SinghalToken {
    epoch: Epoch,
    /// How often it has been passed on.
    passes: u64,
    fence: FenceCounter,
    /// What those who had it believed: `TSV` and `TSN` of the paper.
    views: Box<[View]>,
}

/// Settings of [`Singhal`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SinghalConfig {
    mutation: Option<Mutation>,
}

/// What the processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SinghalMessage {
    /// I want the token.
    Request {
        /// Larger than that of all my requests before.
        number: u64,
    },
    /// The token.
    Token(SinghalToken),
}

use SinghalMessage as Msg;

impl Message for SinghalMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Request, Token)
    }

    fn visit_counters(&mut self, from: NodeId, members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            Msg::Request { number } => visit(Counter::exact(numbers(from), number)),
            Msg::Token(token) => token.visit_counters(members, visit),
        }
    }
}

impl SinghalToken {
    fn new(epoch: Epoch, n: usize) -> Self {
        Self { epoch, passes: 0, fence: FenceCounter::default(), views: vec![View::NOTHING; n].into() }
    }

    fn visit_counters(&mut self, members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        visit(Counter::exact(PASSES, &mut self.passes));
        visit(self.fence.counter());
        for (id, view) in members.iter().zip(&mut self.views) {
            visit(Counter::exact(numbers(id), &mut view.number));
        }
    }
}

/// Each process counts its own requests, and nobody compares them with those of others.
fn numbers(of: NodeId) -> Space {
    Space::of("request", of)
}

const PASSES: Space = Space::shared("passes");

impl Protocol for Singhal {
    type Config = SinghalConfig;
    type Message = SinghalMessage;
    type Request = Request;
    type Event = Event;
    type Timer = ();
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        let place = boot.members.position(boot.id).unwrap_or(0);
        let first = boot.life == Incarnation::FIRST;
        let view = |other| match other == place {
            true if first && place == 0 => View { doing: Doing::Holding, number: 0 },
            true => View { doing: Doing::Nothing, number: numbers_before(boot.life) },
            // Everyone believes that all before it are requesting; who comes back asks everyone.
            false if !first || other < place => View { doing: Doing::Requesting, number: 0 },
            false => View::NOTHING,
        };
        let n = boot.members.len();
        Self {
            id: boot.id,
            place,
            members: boot.members.clone(),
            config: boot.config.clone(),
            views: (0..n).map(view).collect(),
            wanted: false,
            token: (first && place == 0).then(|| SinghalToken::new(Epoch::FIRST, n)),
            passes: 0,
            down: NodeSet::new(),
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Receive { from, .. } if !self.members.has_other(self.id, from) => {
                out.reject(from, STRANGER);
            }
            Input::Receive { from, message: Msg::Request { number } } => {
                self.hear_of(from, out);
                self.on_request(from, number, out);
            }
            // A second copy: the token has been here since.
            Input::Receive { message: Msg::Token(token), .. } if token.passes <= self.passes => {}
            Input::Receive { from, message: Msg::Token(token) } => {
                if token.views.len() != self.views.len() || self.token.is_some() {
                    return out.reject(from, "there is one token, and it knows everyone");
                }
                self.hear_of(from, out);
                self.on_token(token, out);
            }
            Input::Request(request) if !request.fits(self.phase()) => out.emit(Event::Refused(request)),
            Input::Request(Request::Acquire) => self.acquire(out),
            Input::Request(Request::Release) => self.leave(out),
            // The request is out and cannot be called back: if we want again before the token comes, it counts.
            Input::Request(Request::Cancel) => self.wanted = false,
            Input::PeerDown { peer, .. } => {
                if self.members.contains(peer) {
                    self.down.insert(peer);
                }
            }
            Input::PeerUp { peer, .. } => self.hear_of(peer, out),
            // Nobody leaves the group, and no timer is ever armed.
            Input::Request(Request::Leave) | Input::Start | Input::Expire(()) => {}
        }
    }

    fn phase(&self) -> Phase {
        match self.doing() {
            Doing::Requesting if self.wanted => Phase::WAITING,
            Doing::Executing => Phase::HOLDING,
            Doing::Requesting | Doing::Nothing | Doing::Holding => Phase::IDLE,
        }
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        for (id, view) in self.members.iter().zip(&mut self.views) {
            // We count on from our own; those of others we only hold against requests and the token, which knows of
            // all requests that were served.
            visit(match id == self.id {
                true => Counter::exact(numbers(id), &mut view.number),
                false => Counter::bound(numbers(id), &mut view.number),
            });
        }
        visit(Counter::bound(PASSES, &mut self.passes));
        if let Some(token) = &mut self.token {
            token.visit_counters(&self.members, visit);
        }
    }

    fn assert_invariants(&self) {
        if self.config.mutation.is_some() {
            return;
        }

        assert!(self.members.position(self.id) == Some(self.place), "we stand at our place");
        assert!(self.views.len() == self.members.len(), "there is a view of each member");
        let doing = self.doing();
        assert!(
            self.token.is_some() == matches!(doing, Doing::Executing | Doing::Holding),
            "who is inside or holds the token has it, and nobody else"
        );
        if let Some(token) = &self.token {
            assert!(token.views.len() == self.views.len(), "a token knows all members");
            assert!(token.passes == self.passes, "who has the token knows how often it was passed on");
        }
        match doing {
            Doing::Executing => assert!(self.wanted, "who is inside wanted to be"),
            Doing::Requesting => {}
            Doing::Nothing | Doing::Holding => assert!(!self.wanted, "who wants the token requests it"),
        }
        assert!(
            doing != Doing::Holding || (0..self.views.len()).all(|place| !self.is_served(place)),
            "a token rests only where nobody is known to request it"
        );
    }
}

/// Where a life begins to number its requests: above all that an earlier life can have reached, so that they are not
/// taken for old ones.
fn numbers_before(life: Incarnation) -> u64 {
    u64::from(life.0.saturating_sub(1)) << 32
}

impl Singhal {
    fn doing(&self) -> Doing {
        self.views[self.place].doing
    }

    fn become_doing(&mut self, doing: Doing) {
        self.views[self.place].doing = doing;
    }

    fn acquire(&mut self, out: &mut impl Effects<Self>) {
        match self.doing() {
            Doing::Holding => {
                self.wanted = true;
                self.enter(out);
            }
            // What we gave up is still in flight to us.
            Doing::Requesting => self.wanted = true,
            Doing::Nothing => {
                self.wanted = true;
                let mine = &mut self.views[self.place];
                mine.number = mine.number.saturating_add(1);
                let message = Msg::Request { number: mine.number };
                // Our own entry is still another, so that we do not ask ourselves.
                let believed = self.members.iter().zip(&self.views).filter(|(_, view)| view.is_requesting());
                out.send_all(believed.map(|(id, _)| id), &message);
                self.become_doing(Doing::Requesting);
            }
            Doing::Executing => {}
        }
    }

    fn on_request(&mut self, from: NodeId, number: u64, out: &mut impl Effects<Self>) {
        let Some(theirs) = self.members.position(from) else { return };
        // An old request that was overtaken by a later one, or by the token that knows of it.
        if number <= self.views[theirs].number {
            return;
        }
        let known = self.views[theirs].is_requesting();
        self.views[theirs].number = number;
        match self.doing() {
            Doing::Executing if self.config.mutation == Some(Mutation::IgnoreWhileInside) => {}
            Doing::Nothing | Doing::Executing => self.views[theirs].doing = Doing::Requesting,
            // We did not believe it to be requesting, so it has not got our request; it may have the token before us.
            Doing::Requesting => {
                self.views[theirs].doing = Doing::Requesting;
                if !known && self.config.mutation != Some(Mutation::NoReturnRequest) {
                    out.send(from, Msg::Request { number: self.views[self.place].number });
                }
            }
            Doing::Holding => {
                self.views[theirs].doing = Doing::Requesting;
                self.pass_on(theirs, out);
            }
        }
    }

    fn on_token(&mut self, token: SinghalToken, out: &mut impl Effects<Self>) {
        self.passes = token.passes;
        self.token = Some(token);
        if self.wanted && self.doing() == Doing::Requesting {
            self.enter(out);
        } else {
            // Nobody wants it here any more: as if we had been inside and were out again.
            self.leave(out);
        }
    }

    fn enter(&mut self, out: &mut impl Effects<Self>) {
        debug_assert!(self.doing() != Doing::Executing, "nobody enters twice");
        let Some(token) = &mut self.token else { return };
        out.emit(Event::Granted { fence: token.fence.enter(token.epoch, self.id) });
        self.become_doing(Doing::Executing);
    }

    /// Brings our vector and that of the token up to date with each other, and passes the token to whoever is
    /// requesting, beginning with our successor: nobody is passed over forever.
    fn leave(&mut self, out: &mut impl Effects<Self>) {
        self.wanted = false;
        self.become_doing(Doing::Nothing);
        let Some(token) = &mut self.token else { return };
        token.views[self.place].doing = Doing::Nothing;
        for (ours, tokens) in self.views.iter_mut().zip(&mut token.views) {
            if ours.number > tokens.number {
                *tokens = *ours;
            } else {
                *ours = *tokens;
            }
        }
        let n = self.views.len();
        let first = match self.config.mutation {
            Some(Mutation::LowestFirst) => 0,
            _ => self.place + 1,
        };
        let next = (0..n).map(|step| (first + step) % n).find(|place| self.is_served(*place));
        match next {
            Some(next) => self.pass_on(next, out),
            None => self.become_doing(Doing::Holding),
        }
    }

    fn is_served(&self, place: usize) -> bool {
        self.views[place].is_requesting() && !self.down.contains(self.members.at(place))
    }

    /// Sends the token to somebody who is requesting.
    fn pass_on(&mut self, next: usize, out: &mut impl Effects<Self>) {
        let Some(mut token) = self.token.take() else { return };
        token.views[next] = self.views[next];
        token.passes = token.passes.saturating_add(1);
        self.passes = token.passes;
        if self.config.mutation == Some(Mutation::KeepToken) {
            self.token = Some(token.clone());
        } else if self.doing() == Doing::Holding {
            self.become_doing(Doing::Nothing);
        }
        out.send(self.members.at(next), Msg::Token(token));
    }

    /// Who is heard of is not dead: if we kept the token from it, it gets it now.
    fn hear_of(&mut self, peer: NodeId, out: &mut impl Effects<Self>) {
        if self.down.remove(peer)
            && self.doing() == Doing::Holding
            && let Some(place) = self.members.position(peer).filter(|place| self.is_served(*place))
        {
            self.pass_on(place, out);
        }
    }
}

mutants! {
    enum Mutation {
        NoReturnRequest {
            name: "no-return-request", breaks: "ME2", nodes: 3, trigger: Schedule,
            change: "a requesting process does not send its own request to one of which it learns that it requests",
        }
        KeepToken {
            name: "keep-token", breaks: "TOK", nodes: 2, trigger: Schedule,
            change: "a process that passes the token on goes on as if it still had it",
        }
        IgnoreWhileInside {
            name: "ignore-while-inside", breaks: "ME2", nodes: 2, trigger: Schedule,
            change: "a request that arrives at a process inside is not remembered",
        }
        LowestFirst {
            name: "lowest-first", breaks: "ME3", nodes: 3, trigger: Forever,
            change: "the search for the next begins with the first member and not with the successor",
        }
    }
}

impl Algorithm for Singhal {
    const ABOUT: About = About {
        name: "singhal",
        title: "Singhal",
        paper: "Singhal: A heuristically-aided algorithm for mutual exclusion in distributed systems, IEEE Transactions on Computers 38(5), 1989",
        idea: "a token; guess who may have it, and ask only those",
        family: crate::mutex::FAMILY,
        channels: Channels::Any,
        synchrony: Synchrony::Asynchronous,
        topology: Topology::Complete,
        cost: "2 to n per entry, 0 with the token at hand; about n/2 alone, n saturated",
        faults: "crashes of those without the token, if a detector tells; a lost token blocks everyone",
        settings: &[],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<Self::Config, SettingError> {
        Ok(SinghalConfig { mutation: Mutation::of(settings) })
    }
}

impl Mutex for Singhal {
    /// A staircase with the keeper at its top and the others below it as they stand on the ring, and everyone believes
    /// whoever waits to be requesting: its first request of the epoch.
    fn rebuild(boot: Boot<'_, Self>, roll: &Roll, out: &mut impl Effects<Self>) -> Self {
        let mut process = Self::boot(boot);
        let (n, place) = (process.members.len(), process.place);
        let keeper = process.members.position(roll.keeper()).unwrap_or(0);
        let step = |place: usize| (place + n - keeper) % n;
        let waiting: NodeSet = roll.waiting().iter().map(|stamp| stamp.process).collect();
        for (other, view) in process.views.iter_mut().enumerate() {
            *view = match waiting.contains(process.members.at(other)) {
                true => View { doing: Doing::Requesting, number: 1 },
                false if step(other) < step(place) => View { doing: Doing::Requesting, number: 0 },
                false => View::NOTHING,
            };
        }
        process.wanted = waiting.contains(process.id);
        if place != keeper {
            process.token = None;
            return process;
        }
        let views = process.views.clone();
        process.token = Some(SinghalToken { views, ..SinghalToken::new(roll.epoch, 0) });
        match (roll.inside(), roll.next().and_then(|next| process.members.position(next))) {
            (Some(_), _) => {
                process.wanted = true;
                process.become_doing(Doing::Executing);
            }
            (None, Some(next)) if next == place => process.enter(out),
            (None, Some(next)) => process.pass_on(next, out),
            (None, None) => process.become_doing(Doing::Holding),
        }
        process
    }

    fn promises(_config: &Self::Config, _members: &Members) -> Promises {
        Promises {
            no_starvation: true,
            // No bound on overtaking: those who have not heard of a request yet may pass the token to and fro until they do.
            ..Promises::NOTHING
        }
    }

    fn formula(_config: &Self::Config, members: &Members, tally: &Tally<'_>) -> Formula {
        let asked_for = tally.total() - tally.at_hand.iter().sum::<u64>();
        Formula::between("2 to n, 0 at hand", 2 * asked_for, members.len() as u64 * asked_for)
    }

    fn mean(_config: &Self::Config, members: &Members, tally: &Tally<'_>) -> Option<f64> {
        let n = members.len() as f64;
        let asked_for = (tally.total() - tally.at_hand.iter().sum::<u64>()) as f64;
        match tally.load {
            // Every step of the staircase but the first is as likely as the others.
            Load::Light => Some(asked_for * (n + 2.0) / 2.0),
            Load::Open => None,
            Load::Saturated => Some(asked_for * n),
        }
    }

    fn client_hops(_config: &Self::Config, members: &Members, _requester: NodeId) -> RangeInclusive<u32> {
        0..=if members.len() > 1 { 2 } else { 0 }
    }

    const MOVES_TOKEN: bool = true;

    fn token(&self) -> Option<Epoch> {
        self.token.as_ref().map(|token| token.epoch)
    }

    fn token_in(message: &Self::Message) -> Option<Epoch> {
        match message {
            Msg::Token(token) => Some(token.epoch),
            Msg::Request { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
