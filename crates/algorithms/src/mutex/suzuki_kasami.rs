//! Suzuki and Kasami: ask everyone, wait for the token; the token carries the queue.
//!
//! Suzuki, Kasami: *A distributed mutual exclusion algorithm*, ACM Transactions on Computer Systems 3(4), 1985.
//!
//! Who has the token may enter. Who wants it and does not have it numbers its request and sends it to all others.
//! Everyone remembers the largest number that it has seen from each (RN); the token carries the number of the request of
//! each that was served last (LN), and a queue of those who are to have it next (Q). On the way out a process puts all
//! whose request it knows, and who have not been served and are not in the queue yet, at the end of the queue, and sends
//! the token to the first.
//!
//! ```text
//!   p1 ━━━━●────────────●───────────────────────────▶ inside ━━     ━━ has the token
//!         ▲ ╲            ╲ 1                       ╱
//!   p2 ──●───▶ inside ━━━━▼━●                     ╱ Token LN=[0,1,1] Q=[]
//!         1           ▲      ╲ Token LN=[0,1,0] Q=[p1]
//!   p3 ──────────────● 1 ─────▶ inside ━━━━━━━━━●                  only the requests that count are drawn
//! ```
//!
//! It differs from Ricart and Agrawala's second algorithm in two things. Numbers take the place of clocks: all that a
//! request is ever compared with is what was served of the same process. And whoever is in the queue keeps its place,
//! while there each exit searches again.
//!
//! **Cost**: 0 messages if the token is at hand, else exactly n: n − 1 requests and one token. Two message delays when
//! nobody competes, one from exit to the next entry.
//!
//! **Assumes** reliable channels of any order. Requests may overtake each other: only the latest of a process counts.
//! Whom a failure detector reports down is taken out of the queue and left out until it is up again.
//!
//! **Caveats**: the token dies with whoever has it and with the message that carries it, and this algorithm makes no
//! other; replacing it is the business of a recovery around this protocol. A request that was given up is still known to
//! the others. The token then comes to somebody who does not want it, and goes on as if it had been used. The order is
//! neither that of the requests nor of their arrival: those whose requests one exit finds are queued in the order of the
//! members.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use core::mem;
use core::ops::RangeInclusive;

use conclave_core::{Boot, Counter, Effects, Input, Members, Message, NodeId, Phase, Protocol, Space};
use serde::{Deserialize, Serialize};

use super::lives::{Down, numbers_before};
use super::{Epoch, Event, FenceCounter, Mutex, Promises, Request, Roll, Standing, Tally};
use crate::recovery;
use crate::{About, Algorithm, Channels, Formula, STRANGER, SettingError, Settings, Synchrony, Topology};

/// A process of Suzuki and Kasami's algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SuzukiKasami {
    id: NodeId,
    members: Members,
    /// Our place among the members.
    place: usize,
    config: SuzukiKasamiConfig,
    state: State,
    /// The largest number of a request seen from each, by place; at our own place that of our own last request.
    rn: Box<[u64]>,
    /// What the token said of us when we last passed it on. One that says less is a copy of an earlier one.
    served: u64,
    down: Down,
    epoch: Epoch,
}

/// Where the token is, and what we want of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    /// It is elsewhere.
    Without {
        /// Whether we wait for it.
        wanted: bool,
    },
    /// It is here, and nobody wants it.
    Idle(Token),
    /// We are inside.
    Inside(Token),
}

/// The token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Token {
    /// The epoch that it was made in.
    pub epoch: Epoch,
    /// The fence of the last entry.
    pub fence: FenceCounter,
    /// The number of the request of each process that was served last, by place.
    pub ln: Box<[u64]>,
    /// Who is to have it next, each at most once.
    pub queue: VecDeque<NodeId>,
}

/// Settings of [`SuzukiKasami`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SuzukiKasamiConfig {
    mutation: Option<Mutation>,
}

/// What the processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SuzukiKasamiMessage {
    /// I want the token; this is the number of my request.
    Request {
        /// The number: larger than those of all my requests before.
        number: u64,
    },
    /// You may enter.
    Token(Token),
}

use SuzukiKasamiMessage as Msg;

impl Message for SuzukiKasamiMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Request, Token)
    }

    fn visit_counters(&mut self, from: NodeId, members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            // The request that counts has the number of its sender; an old one only has to stay below that.
            Msg::Request { number } => visit(Counter::bound(numbers(from), number)),
            Msg::Token(token) => token.visit_counters(members, visit),
        }
    }
}

/// Each process counts its own requests, and nobody compares them with those of others.
fn numbers(of: NodeId) -> Space {
    Space::of("request", of)
}

impl Token {
    /// A token that has served nobody yet.
    fn new(epoch: Epoch, members: &Members) -> Self {
        let fence = FenceCounter::default();
        Self { epoch, fence, ln: vec![0; members.len()].into(), queue: VecDeque::new() }
    }

    fn visit_counters(&mut self, members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        visit(self.fence.counter());
        for (id, served) in members.iter().zip(&mut self.ln) {
            visit(Counter::exact(numbers(id), served));
        }
    }
}

impl Protocol for SuzukiKasami {
    type Config = SuzukiKasamiConfig;
    type Message = SuzukiKasamiMessage;
    type Request = Request;
    type Event = Event;
    type Timer = ();
    type Durable = ();

    /// The first of the members has the token. A later life has forgotten where it is; it is certainly not here.
    fn boot(boot: Boot<'_, Self>) -> Self {
        let place = boot.members.position(boot.id).expect("a process is one of the members");
        let before = numbers_before(boot.life);
        let mut rn: Box<[u64]> = vec![0; boot.members.len()].into();
        rn[place] = before;
        Self {
            id: boot.id,
            members: boot.members.clone(),
            place,
            config: boot.config.clone(),
            state: match (place, before) {
                (0, 0) => State::Idle(Token::new(Epoch::FIRST, boot.members)),
                _ => State::Without { wanted: false },
            },
            rn,
            served: 0,
            down: Down::default(),
            epoch: Epoch::FIRST,
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Receive { from, message } => match (self.members.position(from), message) {
                (Some(place), Msg::Request { number }) if place != self.place => {
                    self.on_request(place, number, out);
                }
                (Some(place), Msg::Token(token)) if place != self.place => self.on_token(from, token, out),
                (_, Msg::Request { .. } | Msg::Token(_)) => {
                    out.reject(from, STRANGER);
                }
            },
            Input::Request(request) if !request.fits(self.phase()) => out.emit(Event::Refused(request)),
            Input::Request(Request::Acquire) => self.acquire(out),
            Input::Request(Request::Release) => {
                if let State::Inside(token) = self.leave_state() {
                    self.leave(token, out);
                }
            }
            // The others know of the request, so the token may still come; see `on_token`.
            Input::Request(Request::Cancel) => self.state = State::Without { wanted: false },
            // The token must not go to the dead. What they asked for does not count while they are down.
            Input::PeerDown { peer, life } => {
                if peer != self.id && self.members.contains(peer) {
                    self.down.end(peer, life);
                }
            }
            // Whoever comes back may have been left out.
            Input::PeerUp { peer, life } => {
                if self.down.rise(peer, life) {
                    self.ask_again(peer, out);
                }
                if let Some(place) = self.members.position(peer) {
                    self.maybe_serve(place, out);
                }
            }
            // Nobody leaves the group, and no timer is ever armed.
            Input::Request(Request::Leave) | Input::Start | Input::Expire(()) => {}
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::Without { wanted: false } | State::Idle(_) => Phase::IDLE,
            State::Without { wanted: true } => Phase::WAITING,
            State::Inside(_) => Phase::HOLDING,
        }
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        for (id, number) in self.members.iter().zip(&mut self.rn) {
            // We count on from our own; those of others we only hold against requests and the token.
            visit(match id == self.id {
                true => Counter::exact(numbers(id), number),
                false => Counter::bound(numbers(id), number),
            });
        }
        visit(Counter::bound(numbers(self.id), &mut self.served));
        if let State::Idle(token) | State::Inside(token) = &mut self.state {
            token.visit_counters(&self.members, visit);
        }
    }

    fn assert_invariants(&self) {
        if self.config.mutation.is_some() {
            return;
        }

        let n = self.members.len();
        assert!(self.members.position(self.id) == Some(self.place), "we stand at our place");
        assert!(self.rn.len() == n, "there is a last request of each member");
        if self.state == (State::Without { wanted: true }) {
            assert!(
                self.rn[self.place] > self.served,
                "a request that waits is later than all that we were served for"
            );
        }
        if let State::Idle(token) | State::Inside(token) = &self.state {
            assert!(token.epoch == self.epoch, "a token belongs to its epoch");
            assert!(token.ln.len() == n, "a token knows all members");
        }
        if let State::Idle(token) = &self.state {
            assert!(
                (0..n).all(|place| place == self.place || !self.waits(place, token)),
                "a token rests only where nobody is known to wait"
            );
        }
    }
}

impl SuzukiKasami {
    fn acquire(&mut self, out: &mut impl Effects<Self>) {
        match self.leave_state() {
            State::Idle(token) => self.enter(token, out),
            State::Without { wanted: false } => {
                let number = self.rn[self.place].saturating_add(1);
                self.rn[self.place] = number;
                self.state = State::Without { wanted: true };
                out.send_all(self.members.others(self.id), &Msg::Request { number });
            }
            // Refused before.
            other @ (State::Without { wanted: true } | State::Inside(_)) => self.state = other,
        }
    }

    fn on_request(&mut self, from: usize, number: u64, out: &mut impl Effects<Self>) {
        if self.down.hear(self.members.at(from), number) {
            self.ask_again(self.members.at(from), out);
        }
        // Of several requests, which may arrive in any order, all but the latest have been given up or served.
        self.rn[from] = number.max(self.rn[from]);
        self.maybe_serve(from, out);
    }

    /// A new life has begun, which does not know that we wait.
    fn ask_again(&self, peer: NodeId, out: &mut impl Effects<Self>) {
        if self.state == (State::Without { wanted: true }) {
            out.send(peer, Msg::Request { number: self.rn[self.place] });
        }
    }

    fn on_token(&mut self, from: NodeId, token: Token, out: &mut impl Effects<Self>) {
        let n = self.members.len();
        if token.epoch != self.epoch || token.ln.len() != n || token.queue.len() >= n {
            return out.reject(from, "a token belongs to its epoch and knows all of its members");
        }
        // Nobody but us changes our entry, so what it says tells whether the token has been here already.
        let ours = token.ln[self.place];
        match &self.state {
            _ if ours < self.served => {}
            State::Idle(here) | State::Inside(here) => {
                // A copy of the one that is here, or one too many.
                if ours > here.ln[self.place] {
                    out.reject(from, "there is one token, and it is here");
                }
            }
            State::Without { .. } if ours >= self.rn[self.place] => {
                out.reject(from, "the token goes only to those who have asked for it");
            }
            State::Without { wanted: true } => self.enter(token, out),
            // We have given our request up: as if we had entered and left at once.
            State::Without { wanted: false } => self.leave(token, out),
        }
    }

    fn enter(&mut self, mut token: Token, out: &mut impl Effects<Self>) {
        debug_assert!(!matches!(self.state, State::Inside(_)), "nobody enters twice");
        let fence = token.fence.enter(token.epoch, self.id);
        self.state = State::Inside(token);
        out.emit(Event::Granted { fence });
    }

    /// We have been served; whoever waits and is not in the queue yet comes to its end, counted round from us.
    fn leave(&mut self, mut token: Token, out: &mut impl Effects<Self>) {
        token.ln[self.place] = self.rn[self.place];
        if self.config.mutation != Some(Mutation::ForgetQueue) {
            for place in (self.place + 1..self.members.len()).chain(0..self.place) {
                let id = self.members.at(place);
                if self.waits(place, &token) && !token.queue.contains(&id) {
                    token.queue.push_back(id);
                }
            }
        }
        self.pass(token, out);
    }

    /// Whether a process has asked for more than it was served for, and can be served.
    ///
    /// The paper asks whether `rn` is `ln + 1`. That comes to the same where every request is served: a process numbers
    /// its next request only after `ln` has reached the last one, so nobody has ever seen more than `ln + 1`. But a
    /// request that is given up leaves a gap, and a new life begins with a large one.
    fn waits(&self, place: usize, token: &Token) -> bool {
        self.rn[place] > token.ln[place] && !self.down.contains(self.members.at(place))
    }

    /// Sends the token to the first of its queue, or keeps it if there is nobody.
    fn pass(&mut self, mut token: Token, out: &mut impl Effects<Self>) {
        loop {
            let next = match self.config.mutation {
                Some(Mutation::Lifo) => token.queue.pop_back(),
                _ => token.queue.pop_front(),
            };
            match next {
                None => return self.state = State::Idle(token),
                // Somebody else may have queued a process that is down by now, or was never one of us.
                Some(next) if self.may_have(next) => return self.send_token(next, token, out),
                Some(_) => {}
            }
        }
    }

    fn may_have(&self, next: NodeId) -> bool {
        next != self.id && self.members.contains(next) && !self.down.contains(next)
    }

    /// A token that nobody needs goes to a process at once, if that one waits.
    fn maybe_serve(&mut self, place: usize, out: &mut impl Effects<Self>) {
        match self.leave_state() {
            State::Idle(token) if place != self.place && self.waits(place, &token) => {
                self.send_token(self.members.at(place), token, out);
            }
            other => self.state = other,
        }
    }

    fn send_token(&mut self, to: NodeId, token: Token, out: &mut impl Effects<Self>) {
        self.served = token.ln[self.place];
        if self.config.mutation == Some(Mutation::KeepToken) {
            self.state = State::Idle(token.clone());
        }
        out.send(to, Msg::Token(token));
    }

    /// Takes the state to make another of it; what stays behind is a process without token and without wish.
    fn leave_state(&mut self) -> State {
        mem::replace(&mut self.state, State::Without { wanted: false })
    }
}

mutants! {
    enum Mutation {
        ForgetQueue {
            name: "forget-queue", breaks: "ME2", nodes: 2, trigger: Schedule,
            change: "a process that leaves does not put those who wait into the queue",
        }
        KeepToken {
            name: "keep-token", breaks: "TOK", nodes: 2, trigger: Schedule,
            change: "a process passes a copy of the token on and keeps the token",
        }
        Lifo {
            name: "lifo", breaks: "ME4", nodes: 3, trigger: Schedule,
            change: "the next is taken from the wrong end of the queue",
        }
        RegenerateUnasked { same_as: recovery::Mutation::RegenerateUnasked }
    }
}

impl Algorithm for SuzukiKasami {
    const ABOUT: About = About {
        name: "suzuki-kasami",
        title: "Suzuki–Kasami",
        paper: "Suzuki, Kasami: A distributed mutual exclusion algorithm, ACM TOCS 3(4), 1985",
        idea: "ask everyone for the token, which carries the queue",
        family: crate::mutex::FAMILY,
        channels: Channels::Any,
        synchrony: Synchrony::Asynchronous,
        topology: Topology::Complete,
        cost: "0 if the token is at hand, else n per entry",
        faults: "crashed processes without the token, if a detector tells; the token, once lost, blocks everyone",
        settings: &[],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<Self::Config, SettingError> {
        Ok(SuzukiKasamiConfig { mutation: Mutation::of(settings) })
    }
}

impl Mutex for SuzukiKasami {
    const MOVES_TOKEN: bool = true;

    /// The requests of all who wait have the number 1, are known to everyone, and stand in the queue of the new token
    /// in the order in which they were made.
    fn rebuild(boot: Boot<'_, Self>, roll: &Roll, out: &mut impl Effects<Self>) -> Self {
        let mut process = Self::boot(boot);
        process.epoch = roll.epoch;
        let waits = |id| matches!(roll.standing(id), Some(Standing::Waiting { .. }));
        for (id, number) in process.members.iter().zip(&mut process.rn) {
            *number = u64::from(waits(id));
        }
        process.state = State::Without { wanted: waits(process.id) };
        if roll.keeper() != process.id {
            return process;
        }
        let mut token = Token::new(roll.epoch, &process.members);
        token.queue = roll.waiting().iter().map(|stamp| stamp.process).collect();
        match (roll.inside(), token.queue.front().copied()) {
            (Some(_), _) => process.state = State::Inside(token),
            (None, None) => process.state = State::Idle(token),
            (None, Some(first)) => {
                token.queue.pop_front();
                if first == process.id {
                    process.enter(token, out);
                } else {
                    process.send_token(first, token, out);
                }
            }
        }
        process
    }

    fn token(&self) -> Option<Epoch> {
        match &self.state {
            State::Without { .. } => None,
            State::Idle(token) | State::Inside(token) => Some(token.epoch),
        }
    }

    fn token_in(message: &Self::Message) -> Option<Epoch> {
        match message {
            Msg::Request { .. } => None,
            Msg::Token(token) => Some(token.epoch),
        }
    }

    /// Once a request is known to all, it is in the queue at the latest when the next process leaves. Before it come at
    /// most the one who is to have the token at that moment and those in the queue, each of the others once: who has
    /// had it and asks again comes behind.
    fn promises(_config: &Self::Config, members: &Members) -> Promises {
        Promises { no_starvation: true, overtaking: Some(members.len() as u64 - 1), ..Promises::NOTHING }
    }

    fn formula(_config: &Self::Config, members: &Members, tally: &Tally<'_>) -> Formula {
        let at_hand: u64 = tally.at_hand.iter().sum();
        Formula::exactly("n, and 0 if the token is at hand", members.len() as u64 * (tally.total() - at_hand))
    }

    fn client_hops(_config: &Self::Config, members: &Members, _requester: NodeId) -> RangeInclusive<u32> {
        0..=if members.len() > 1 { 2 } else { 0 }
    }
}

#[cfg(test)]
mod tests;
