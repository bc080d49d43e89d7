//! Ricart and Agrawala's second algorithm: ask everyone, wait for the token.
//!
//! Ricart, Agrawala: *Author response to "On mutual exclusion in computer networks" by Carvalho and Roucairol*, CACM
//! 26(2), 1983. Carvalho and Roucairol had shown in the same issue that permissions need not be asked for twice; the
//! answer was that one permission for all, a token, does with half the messages.
//!
//! Who has the token may enter. Who wants it and does not have it sends a request, stamped with its clock, to all
//! others; whoever has the token then knows who wants it. The token tells of each process what its clock showed when it
//! last passed the token on. A process waits exactly if its last request is later than that. On the way out the token
//! goes to the first who waits, counted round the members from the process that leaves; if nobody waits, it stays.
//!
//! ```text
//!   p1 ━━━━━━━━━━ inside ━━━━━━━━━●                               ━━ has the token
//!            ▲         ▲           ╲ Token [4, 0, 0]
//!   p2 ─────╱─────────●─────────────▶ inside ━━●                 asks later, with stamp 3, but comes first after p1
//!          ╱ 1         3                        ╲ Token [4, 3, 0]
//!   p3 ───●──────────────────────────────────────▶ inside ━━     asks first; the requests to p1 are drawn
//! ```
//!
//! **Cost**: 0 messages if the token is at hand, else exactly n: n − 1 requests and one token. Two message delays when
//! nobody competes, one from exit to the next entry.
//!
//! **Assumes** reliable channels of any order. Requests may overtake each other: only the latest of a process counts.
//! Whom a failure detector reports down is passed over until it is up again.
//!
//! **Caveats**: the token dies with whoever has it and with the message that carries it, and this algorithm makes no
//! other; replacing it is the business of a recovery around this protocol. The clock must tick before each request:
//! otherwise a process that passes the token on and asks again before its clock has moved seems to have been served. A
//! request that was given up is still known to the others. The token then comes to somebody who does not want it, and
//! goes on as if it had been used. The order is that of the members, not of the requests.

use alloc::boxed::Box;
use alloc::vec;
use core::mem;
use core::ops::RangeInclusive;

use conclave_core::{
    Boot, Counter, Effects, Input, LamportClock, Members, Message, NodeId, Phase, Protocol, Space, Stamp,
};
use serde::{Deserialize, Serialize};

use super::lives::{Down, numbers_before, within_life};
use super::stamps::{STAMPS, Stamps};
use super::{Epoch, Event, FenceCounter, Mutex, Promises, Request, Roll, Standing, Tally};
use crate::{About, Algorithm, Channels, Formula, STRANGER, SettingError, Settings, Synchrony, Topology};

/// A process of Ricart and Agrawala's second algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RicartAgrawalaToken {
    id: NodeId,
    members: Members,
    /// Our place among the members.
    place: usize,
    config: RicartAgrawalaTokenConfig,
    state: State,
    clock: LamportClock,
    /// What the stamps of this life are counted from. Clocks are shared by all: if a life were told by the clock itself,
    /// the first process to restart would carry everyone else's clock beyond the beginning of their next lives.
    base: u64,
    /// The latest stamp from each, by place; at our own place that of our own last request.
    request: Box<[u64]>,
    /// What the token said of us when we last passed it on. One that says less is a copy of an earlier one.
    passed: u64,
    down: Down,
    epoch: Epoch,
}

/// The states of the paper: no token, token present, token held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    NoToken {
        /// Whether we wait for it.
        wanted: bool,
    },
    /// It is here, and nobody wants it.
    TokenPresent(Token),
    /// We are inside.
    TokenHeld(Token),
}

/// The token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Token {
    /// The epoch that it was made in.
    pub epoch: Epoch,
    /// The fence of the last entry.
    pub fence: FenceCounter,
    /// What the clock of each process showed when it last passed the token on, by place.
    pub departures: Box<[u64]>,
}

/// Settings of [`RicartAgrawalaToken`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RicartAgrawalaTokenConfig {
    /// What the clocks show at the start.
    stamps: Stamps,
    mutation: Option<Mutation>,
}

/// What the processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RicartAgrawalaTokenMessage {
    /// I want the token; my request has this stamp.
    Request {
        /// The stamp of the request.
        time: u64,
    },
    /// You may enter.
    Token(Token),
}

use RicartAgrawalaTokenMessage as Msg;

impl Message for RicartAgrawalaTokenMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Request, Token)
    }

    fn visit_counters(&mut self, _from: NodeId, _members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            Msg::Request { time } => visit(Counter::exact(CLOCK, time)),
            Msg::Token(token) => token.visit_counters(visit),
        }
    }
}

const CLOCK: Space = Space::shared("clock");

/// A stamp in an array. 0 stands for "never" and is below all others, however far these are moved down.
fn stamp(value: &mut u64) -> Counter<'_> {
    match *value {
        0 => Counter::bound(CLOCK, value),
        _ => Counter::exact(CLOCK, value),
    }
}

impl Token {
    /// A token that nobody has passed on yet.
    fn new(epoch: Epoch, members: &Members) -> Self {
        Self { epoch, fence: FenceCounter::default(), departures: vec![0; members.len()].into() }
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        visit(self.fence.counter());
        self.departures.iter_mut().for_each(|time| visit(stamp(time)));
    }
}

impl Protocol for RicartAgrawalaToken {
    type Config = RicartAgrawalaTokenConfig;
    type Message = RicartAgrawalaTokenMessage;
    type Request = Request;
    type Event = Event;
    type Timer = ();
    type Durable = ();

    /// RI1, RI2: the first of the members has the token, and nobody has heard anything. A later life has forgotten
    /// where the token is; it is certainly not here.
    fn boot(boot: Boot<'_, Self>) -> Self {
        let place = boot.members.position(boot.id).expect("a process is one of the members");
        let base = numbers_before(boot.life);
        let mut request: Box<[u64]> = vec![0; boot.members.len()].into();
        request[place] = base;
        Self {
            id: boot.id,
            members: boot.members.clone(),
            place,
            config: boot.config.clone(),
            state: match (place, base) {
                (0, 0) => State::TokenPresent(Token::new(Epoch::FIRST, boot.members)),
                _ => State::NoToken { wanted: false },
            },
            clock: boot.config.stamps.clock(boot.id),
            base,
            request,
            passed: 0,
            down: Down::default(),
            epoch: Epoch::FIRST,
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Receive { from, message } => match (self.members.position(from), message) {
                (Some(place), Msg::Request { time }) if place != self.place => {
                    self.on_request(place, time, out);
                }
                (Some(place), Msg::Token(token)) if place != self.place => self.on_token(from, token, out),
                (_, Msg::Request { .. } | Msg::Token(_)) => {
                    out.reject(from, STRANGER);
                }
            },
            Input::Request(request) if !request.fits(self.phase()) => out.emit(Event::Refused(request)),
            Input::Request(Request::Acquire) => self.acquire(out),
            // RR1: leave, and look who waits.
            Input::Request(Request::Release) => {
                if let State::TokenHeld(token) = self.leave_state() {
                    self.become_present(token, out);
                }
            }
            // The others know of the request, so the token may still come; see `on_token`.
            Input::Request(Request::Cancel) => self.state = State::NoToken { wanted: false },
            // The token must not go to the dead. What they asked for does not count while they are down.
            Input::PeerDown { peer, life } => {
                if peer != self.id && self.members.contains(peer) {
                    self.down.end(peer, life);
                }
            }
            // Whoever comes back may have been passed over.
            Input::PeerUp { peer, life } => {
                if self.down.rise(peer, life) {
                    self.ask_again(peer, out);
                }
                self.maybe_pass(out);
            }
            // Nobody leaves the group, and no timer is ever armed.
            Input::Request(Request::Leave) | Input::Start | Input::Expire(()) => {}
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::NoToken { wanted: false } | State::TokenPresent(_) => Phase::IDLE,
            State::NoToken { wanted: true } => Phase::WAITING,
            State::TokenHeld(_) => Phase::HOLDING,
        }
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        visit(Counter::exact(CLOCK, self.clock.value_mut()));
        self.request.iter_mut().chain([&mut self.passed]).for_each(|time| visit(stamp(time)));
        if let State::TokenPresent(token) | State::TokenHeld(token) = &mut self.state {
            token.visit_counters(visit);
        }
    }

    fn assert_invariants(&self) {
        if self.config.mutation.is_some() {
            return;
        }

        let n = self.members.len();
        assert!(self.members.position(self.id) == Some(self.place), "we stand at our place");
        assert!(self.request.len() == n, "there is a last request of each member");
        if self.state == (State::NoToken { wanted: true }) {
            assert!(
                self.request[self.place] > self.passed,
                "a request that waits is later than all that we were served for"
            );
        }
        if let State::TokenPresent(token) | State::TokenHeld(token) = &self.state {
            assert!(token.epoch == self.epoch, "a token belongs to its epoch");
            assert!(token.departures.len() == n, "a token knows all members");
        }
        if let State::TokenPresent(token) = &self.state {
            let waits = |place: usize| {
                self.request[place] > token.departures[place] && !self.down.contains(self.members.at(place))
            };
            assert!(
                (0..n).all(|place| place == self.place || !waits(place)),
                "a token rests only where nobody is known to wait"
            );
        }
    }
}

impl RicartAgrawalaToken {
    /// RA: the token at hand lets us in; otherwise everyone is asked.
    fn acquire(&mut self, out: &mut impl Effects<Self>) {
        match self.leave_state() {
            State::TokenPresent(token) => self.enter(token, out),
            State::NoToken { wanted: false } => {
                // Later than all that we were served for: that is what tells the others that we wait.
                if self.config.mutation != Some(Mutation::NoTick) {
                    self.clock.tick();
                }
                let time = self.stamp();
                self.request[self.place] = time;
                self.state = State::NoToken { wanted: true };
                out.send_all(self.members.others(self.id), &Msg::Request { time });
            }
            // Refused before.
            other @ (State::NoToken { wanted: true } | State::TokenHeld(_)) => self.state = other,
        }
    }

    /// RH1, RH2.
    fn on_request(&mut self, from: usize, time: u64, out: &mut impl Effects<Self>) {
        self.clock.receive(within_life(time));
        if self.down.hear(self.members.at(from), time) {
            self.ask_again(self.members.at(from), out);
        }
        // Of several requests, which may arrive in any order, all but the latest have been given up or served.
        self.request[from] = time.max(self.request[from]);
        self.maybe_pass(out);
    }

    /// A new life has begun, which does not know that we wait.
    fn ask_again(&self, peer: NodeId, out: &mut impl Effects<Self>) {
        if self.state == (State::NoToken { wanted: true }) {
            out.send(peer, Msg::Request { time: self.request[self.place] });
        }
    }

    fn on_token(&mut self, from: NodeId, token: Token, out: &mut impl Effects<Self>) {
        if token.epoch != self.epoch || token.departures.len() != self.members.len() {
            return out.reject(from, "a token belongs to its epoch and knows all of its members");
        }
        // Nobody but us changes our entry, so what it says tells whether the token has been here already.
        let ours = token.departures[self.place];
        match &self.state {
            _ if ours < self.passed => {}
            State::TokenPresent(here) | State::TokenHeld(here) => {
                // A copy of the one that is here, or one too many.
                if ours > here.departures[self.place] {
                    out.reject(from, "there is one token, and it is here");
                }
            }
            State::NoToken { .. } if ours >= self.request[self.place] => {
                out.reject(from, "the token goes only to those who have asked for it");
            }
            State::NoToken { wanted: true } => self.enter(token, out),
            // We have given our request up: as if we had entered and left at once.
            State::NoToken { wanted: false } => self.become_present(token, out),
        }
    }

    fn enter(&mut self, mut token: Token, out: &mut impl Effects<Self>) {
        debug_assert!(!matches!(self.state, State::TokenHeld(_)), "nobody enters twice");
        let fence = token.fence.enter(token.epoch, self.id);
        self.state = State::TokenHeld(token);
        out.emit(Event::Granted { fence });
    }

    fn become_present(&mut self, token: Token, out: &mut impl Effects<Self>) {
        self.state = State::TokenPresent(token);
        self.maybe_pass(out);
    }

    /// RR2: a token that we do not need goes to the first who waits, counted round from us.
    fn maybe_pass(&mut self, out: &mut impl Effects<Self>) {
        let departure = self.stamp();
        let State::TokenPresent(token) = &mut self.state else { return };
        let waits = |place: &usize| {
            self.request[*place] > token.departures[*place] && !self.down.contains(self.members.at(*place))
        };
        let n = self.members.len();
        let mut round = match self.config.mutation {
            Some(Mutation::LowestFirst) => (0..self.place).chain(self.place + 1..n),
            _ => (self.place + 1..n).chain(0..self.place),
        };
        let Some(next) = round.find(waits) else { return };
        token.departures[self.place] = departure;
        self.passed = departure;
        let State::TokenPresent(token) = self.leave_state() else { return };
        if self.config.mutation == Some(Mutation::KeepToken) {
            self.state = State::TokenPresent(token.clone());
        }
        out.send(self.members.at(next), Msg::Token(token));
    }

    /// The clock, as a number of this life.
    fn stamp(&self) -> u64 {
        self.base.saturating_add(self.clock.time())
    }

    /// Takes the state to make another of it; what stays behind is a process without token and without wish.
    fn leave_state(&mut self) -> State {
        mem::replace(&mut self.state, State::NoToken { wanted: false })
    }
}

mutants! {
    enum Mutation {
        NoTick {
            name: "no-tick", breaks: "ME2", nodes: 2, trigger: Schedule,
            change: "the clock does not tick before a request: it looks as if it had been served",
        }
        KeepToken {
            name: "keep-token", breaks: "TOK", nodes: 2, trigger: Schedule,
            change: "a process passes a copy of the token on and keeps the token",
        }
        LowestFirst {
            name: "lowest-first", breaks: "ME4", nodes: 3, trigger: Schedule,
            change: "the search for the next begins with the first member and not with the successor",
        }
    }
}

impl Algorithm for RicartAgrawalaToken {
    const ABOUT: About = About {
        name: "ricart-agrawala-token",
        title: "Ricart–Agrawala, with a token",
        paper: "Ricart, Agrawala: Author response to \"On mutual exclusion in computer networks\", CACM 26(2), 1983",
        idea: "ask everyone for the token, which knows who was served",
        family: crate::mutex::FAMILY,
        channels: Channels::Any,
        synchrony: Synchrony::Asynchronous,
        topology: Topology::Complete,
        cost: "0 if the token is at hand, else n per entry",
        faults: "crashed processes without the token, if a detector tells; the token, once lost, blocks everyone",
        settings: &[STAMPS],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, members: &Members) -> Result<Self::Config, SettingError> {
        Ok(RicartAgrawalaTokenConfig {
            stamps: Stamps::of(settings, members)?,
            mutation: Mutation::of(settings),
        })
    }
}

impl Mutex for RicartAgrawalaToken {
    const MOVES_TOKEN: bool = true;

    /// Everyone who waits has asked at time 1, and everyone has heard of it. Nobody has passed the new token on.
    fn rebuild(boot: Boot<'_, Self>, roll: &Roll, out: &mut impl Effects<Self>) -> Self {
        let mut process = Self::boot(boot);
        process.epoch = roll.epoch;
        process.base = 0;
        process.clock.witness(1);
        let waits = |id| matches!(roll.standing(id), Some(Standing::Waiting { .. }));
        for (id, time) in process.members.iter().zip(&mut process.request) {
            *time = u64::from(waits(id));
        }
        process.state = State::NoToken { wanted: waits(process.id) };
        if roll.keeper() != process.id {
            return process;
        }
        let token = Token::new(roll.epoch, &process.members);
        match roll.inside() {
            Some(_) => process.state = State::TokenHeld(token),
            None if waits(process.id) => process.enter(token, out),
            None => process.become_present(token, out),
        }
        process
    }

    fn token(&self) -> Option<Epoch> {
        match &self.state {
            State::NoToken { .. } => None,
            State::TokenPresent(token) | State::TokenHeld(token) => Some(token.epoch),
        }
    }

    fn token_in(message: &Self::Message) -> Option<Epoch> {
        match message {
            Msg::Request { .. } => None,
            Msg::Token(token) => Some(token.epoch),
        }
    }

    /// Whoever has the token when a request is known to all sees it, and the search never goes past one who waits. So
    /// each step brings the token nearer, and each of the others has it at most once before.
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

    fn announced(from: NodeId, message: &Self::Message) -> Option<Stamp> {
        match message {
            Msg::Request { time } => Some(Stamp { time: *time, process: from }),
            Msg::Token(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
