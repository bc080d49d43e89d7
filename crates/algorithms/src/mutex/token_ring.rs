//! The token ring: whoever has the token may enter, and it goes round.
//!
//! Le Lann: *Distributed systems: towards a formal approach*, IFIP Congress, 1977.
//!
//! The processes form a ring, here in the order of the members, whatever the network below looks like. One token moves
//! from each process to its successor. Who wants to enter waits until the token comes by, enters, and passes it on when
//! it leaves; who does not want to passes it on at once. There is one token, so there is never more than one inside. A
//! process enters once per visit: whoever kept the token for a second entry could starve all others.
//!
//! ```text
//!   p1 ──●────────────────────────────────▶●──      the token begins with p1
//!         ╲ Token                         ╱
//!   p2 ────●─────────────────────────────╱────      p2 wants nothing and passes it on
//!           ╲ Token                     ╱
//!   p3 ──────▶ inside ──●──────────────╱──────      p3 has waited for it
//!                        ╲ Token      ╱ Token
//!   p4 ───────────────────●──────────●────────
//! ```
//!
//! **Hops** are numbered. A process takes a token only if it has a larger number than the last one that it had, so a
//! second copy that the network makes is not a second token.
//!
//! **Idle tokens**: with `idle=circulate` the token never rests, and nobody has to ask for it. (Of a lock that is made on
//! demand the process where its token begins may not have heard: whoever has never seen it says `Want` there, once.) With `idle=park` the token rests after a lap in which nobody wanted it, at its *home*: where it was
//! used last. It carries the name of its home, so everyone whom it passed knows where it will rest, and a process that
//! wants to enter sends one `Want` there. Home lets the token go round once more, now if it rests there, else when it
//! comes. Nothing gets lost on the way: if the token is used by somebody else before it comes home, it has a new home
//! and must pass everyone, the requester too, before it can rest there.
//!
//! **Fault tolerance**, with `handoff=acked`: who passes the token on keeps a copy until the successor has acknowledged
//! it. After a round trip without an answer it sends the copy again, and after some tries it takes the successor for
//! dead: it bypasses it, and passes the token to the next one *in a new epoch*. If the successor was only slow, there
//! are two tokens, but the one that it has is of an old epoch, and everyone who has seen the new one refuses it. The
//! token carries the names of those whom it has lost, so that nobody tries them again. Whoever leaves one of them out
//! tells it so (`Bypassed`), and one that lives, or lives again, answers `CheckIn` and is put back.
//!
//! ```text
//!   p2 ──●───────●─── no answer ──●──────────       p3 is dead
//!         ╲ Token ╲ Retry         │╲ Token, epoch 1p2, lost: p3
//!   p3 ✗   ✗       ✗              ✗ ╲               (Bypassed)
//!   p4 ──────────────────────────────●───────
//! ```
//!
//! **Cost**: 1 message per entry if everyone wants to enter, 1 to n − 1 to obtain the token for a single requester; if
//! nobody wants to enter, n per lap for nothing. Parked: `Want`, the way from home to the requester, and an idle lap
//! after it, at most 2n − 1. From exit to the next entry 1 to n − 1 message delays.
//!
//! **Assumes** reliable channels of any order. Processes that a failure detector reports down are left out. Without
//! acknowledgements nothing else is survived: a token that is lost, or dies with its holder, is gone, and has to be
//! made again by whoever wraps this. With acknowledgements a bound on delays is assumed, and no detector is needed.
//!
//! **Caveats**: entries follow the ring and not the order of the requests. The time that a process spends inside is not
//! bounded, so that nobody can tell a lost token from one in use by waiting. With `handoff=acked` and delays above the
//! bound two processes can be inside; the fence of the older epoch then protects the resource, and a process that
//! learns of the new epoch is told that it has lost the lock. A `Want` that is lost is not sent again.

#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::ops::RangeInclusive;
use core::time::Duration;

use conclave_core::{
    After, Boot, Counter, Effects, Incarnation, Input, Members, Message, NodeId, NodeSet, Phase, Protocol,
    Space, Timing,
};
use serde::{Deserialize, Serialize};

use super::{
    EPOCH, Epoch, Event, Fence, FenceCounter, Load, Mutex, Promises, Request, Roll, Standing, Tally,
};
use crate::recovery;
use crate::{
    About, Algorithm, Channels, Formula, STRANGER, Setting, SettingError, Settings, Synchrony, Topology,
    Values,
};

/// A process of the token ring.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenRing {
    id: NodeId,
    members: Members,
    config: TokenRingConfig,
    timing: Timing,
    life: Incarnation,
    state: State,
    hand: Hand,
    /// The latest epoch that we have heard of: older tokens are void.
    epoch: Epoch,
    /// The largest hop of that epoch that we have seen.
    seen: Option<u64>,
    /// Where the token will rest, as far as we know.
    home: NodeId,
    /// We have sent a `Want` since the token was last here.
    asked: bool,
    /// We are home, and somebody wants the token since it left: it must not rest here.
    woken: bool,
    /// Whom the failure detector has reported.
    down: NodeSet,
    /// Who has come back since the token was last here: they are taken off its list of the lost.
    back: NodeSet,
}

/// What the application is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Idle,
    Waiting,
    Holding(Fence),
}

/// What we have of the token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Hand {
    /// Nothing.
    Empty,
    /// The token: in use if we are inside, else at rest.
    Token(Token),
    /// A copy: the token is in flight to the successor, who has not acknowledged it yet.
    Copy { token: Token, to: NodeId, tries: u64 },
}

/// The token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Token {
    /// Which life of the token this is: of two tokens the later one counts.
    pub epoch: Epoch,
    /// How often it has been passed on.
    pub hop: u64,
    /// The number of the last entry.
    pub fence: FenceCounter,
    /// Where it rests if nobody wants it: where it was used last.
    pub home: NodeId,
    /// Who was bypassed, in ascending order.
    pub lost: Vec<NodeId>,
}

/// Settings of [`TokenRing`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenRingConfig {
    /// Whether an idle token rests.
    parks: bool,
    handoff: Handoff,
    /// Whether there is nobody to pass the token to.
    alone: bool,
    /// Whether the lock is there only once somebody speaks of it.
    on_demand: bool,
    mutation: Option<Mutation>,
}

/// How the token is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Handoff {
    /// It is sent, and that is all.
    Plain,
    /// It has to be acknowledged, or is sent again until it was sent so many times.
    Acked { tries: u64 },
}

/// The timers of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TokenRingTimer {
    /// The successor has had the time to acknowledge the token.
    Handoff,
    /// A mutant has kept the token for long enough.
    Linger,
}

/// What the processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TokenRingMessage {
    /// It is your turn.
    Token(Token),
    /// The same once more, if the first one should be lost.
    Retry(Token),
    /// I have the token.
    Ack {
        /// Its epoch.
        epoch: Epoch,
        /// The hop that brought it.
        hop: u64,
    },
    /// Somebody wants the token: let it go round.
    Want,
    /// The ring goes on without you, and older tokens than this are void.
    Bypassed {
        /// The epoch of the token.
        epoch: Epoch,
    },
    /// I am alive: put me back on the ring.
    CheckIn,
}

use TokenRingMessage as Msg;

impl Message for TokenRingMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Token, Retry, Ack, Want, Bypassed, CheckIn)
    }

    fn is_overhead(&self) -> bool {
        !matches!(self, Msg::Token(_))
    }

    fn visit_counters(&mut self, _from: NodeId, _members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            Msg::Token(token) | Msg::Retry(token) => token.visit_counters(visit),
            Msg::Ack { epoch, hop } => {
                visit(Counter::exact(EPOCH, &mut epoch.number));
                visit(Counter::exact(HOP, hop));
            }
            Msg::Bypassed { epoch } => visit(Counter::exact(EPOCH, &mut epoch.number)),
            Msg::Want | Msg::CheckIn => {}
        }
    }
}

impl Token {
    fn new(epoch: Epoch, home: NodeId) -> Self {
        Self { epoch, hop: 0, fence: FenceCounter::default(), home, lost: Vec::new() }
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        visit(Counter::exact(EPOCH, &mut self.epoch.number));
        visit(Counter::exact(HOP, &mut self.hop));
        visit(self.fence.counter());
    }

    fn lose(&mut self, peer: NodeId) {
        if let Err(place) = self.lost.binary_search(&peer) {
            self.lost.insert(place, peer);
        }
    }

    fn find(&mut self, peer: NodeId) {
        if let Ok(place) = self.lost.binary_search(&peer) {
            self.lost.remove(place);
        }
    }

    fn has_lost(&self, peer: NodeId) -> bool {
        self.lost.binary_search(&peer).is_ok()
    }
}

const HOP: Space = Space::shared("hop");

impl Protocol for TokenRing {
    type Config = TokenRingConfig;
    type Message = TokenRingMessage;
    type Request = Request;
    type Event = Event;
    type Timer = TokenRingTimer;
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        let first = boot.members.iter().next().unwrap_or(boot.id);
        // A later life has no token, even where the first one had it: it may be anywhere by now.
        let begins = boot.id == first && boot.life == Incarnation::FIRST;
        Self {
            id: boot.id,
            members: boot.members.clone(),
            config: boot.config.clone(),
            timing: boot.timing,
            life: boot.life,
            state: State::Idle,
            hand: if begins { Hand::Token(Token::new(Epoch::FIRST, first)) } else { Hand::Empty },
            epoch: Epoch::FIRST,
            seen: None,
            home: first,
            asked: false,
            // Whoever wants the token may have said so to our last life.
            woken: boot.config.parks && boot.life > Incarnation::FIRST,
            down: NodeSet::new(),
            back: NodeSet::new(),
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Start => self.start(out),
            Input::Receive { from, .. } if !self.members.has_other(self.id, from) => {
                out.reject(from, STRANGER);
            }
            Input::Receive { from, message: Msg::Token(token) | Msg::Retry(token) } => {
                self.on_token(from, token, out);
            }
            // We are home, or were: the token goes round again.
            Input::Receive { message: Msg::Want, .. } => self.wake(out),
            Input::Receive { from, message: Msg::Ack { .. } | Msg::Bypassed { .. } | Msg::CheckIn }
                if self.config.handoff == Handoff::Plain =>
            {
                out.reject(from, "on this ring nothing is acknowledged and nobody is bypassed");
            }
            Input::Receive { from, message: Msg::Ack { epoch, hop } } => self.on_ack(from, epoch, hop, out),
            // We live, but somebody who passes the token on thinks otherwise.
            Input::Receive { from, message: Msg::Bypassed { epoch } } => {
                if epoch > self.epoch {
                    self.begin_epoch(epoch, out);
                }
                out.send(from, Msg::CheckIn);
            }
            Input::Receive { from, message: Msg::CheckIn } => self.readmit(from, out),
            Input::Request(request) if !request.fits(self.phase()) => out.emit(Event::Refused(request)),
            Input::Request(Request::Acquire) => self.acquire(out),
            Input::Request(Request::Release) => self.release(out),
            // The token will come by all the same, and be passed on.
            Input::Request(Request::Cancel) => self.state = State::Idle,
            // Nobody leaves the group.
            Input::Request(Request::Leave) => {}
            Input::Expire(TokenRingTimer::Handoff) => self.on_silence(out),
            Input::Expire(TokenRingTimer::Linger) => self.pass_if_at_rest(out),
            Input::PeerDown { peer, .. } => self.on_peer_down(peer, out),
            Input::PeerUp { peer, .. } => {
                if self.down.contains(peer) || self.is_acked() && self.members.contains(peer) {
                    self.readmit(peer, out);
                }
            }
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::Idle => Phase::IDLE,
            State::Waiting => Phase::WAITING,
            State::Holding(_) => Phase::HOLDING,
        }
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        visit(Counter::exact(EPOCH, &mut self.epoch.number));
        if let Some(hop) = &mut self.seen {
            visit(Counter::bound(HOP, hop));
        }
        match &mut self.hand {
            Hand::Empty => {}
            Hand::Token(token) | Hand::Copy { token, .. } => token.visit_counters(visit),
        }
        if let State::Holding(fence) = &mut self.state {
            visit(Counter::exact(EPOCH, &mut fence.epoch.number));
            visit(fence.counter());
        }
    }

    fn assert_invariants(&self) {
        if self.config.mutation.is_some() {
            return;
        }

        match self.state {
            State::Idle => {}
            State::Waiting => assert!(!self.has_token(), "who has the token does not wait for it"),
            State::Holding(_) => assert!(self.has_token(), "who is inside has the token"),
        }
        if let Hand::Token(token) | Hand::Copy { token, .. } = &self.hand {
            assert!(token.epoch == self.epoch, "a token of an older epoch is void");
            assert!(self.is_sound(token), "a token names members, and those whom it has lost in order");
        }
        if let Hand::Copy { to, tries, .. } = &self.hand {
            let most = match self.config.handoff {
                Handoff::Plain => 0,
                Handoff::Acked { tries } => tries,
            };
            assert!((1..=most).contains(tries), "a copy is sent again only where handoffs are acknowledged");
            assert!(self.members.contains(*to) && *to != self.id, "the token goes to another member");
        }
        assert!(!self.down.contains(self.id), "nobody takes itself for dead");
        assert!(self.config.parks || !self.woken, "only a token that rests is woken");
    }
}

/// The application.
impl TokenRing {
    fn acquire(&mut self, out: &mut impl Effects<Self>) {
        self.state = State::Waiting;
        if self.has_token() {
            return self.enter(out);
        }
        // If the token went from here to come home here, it comes by in any case.
        let may_rest = self.config.parks || (self.config.on_demand && self.seen.is_none());
        if may_rest && self.home != self.id {
            self.ask(out);
        }
    }

    fn enter(&mut self, out: &mut impl Effects<Self>) {
        let Hand::Token(token) = &mut self.hand else { return };
        assert!(self.state == State::Waiting, "only who waits enters");
        let fence = token.fence.enter(token.epoch, self.id);
        self.state = State::Holding(fence);
        out.emit(Event::Granted { fence });
    }

    fn release(&mut self, out: &mut impl Effects<Self>) {
        self.state = State::Idle;
        let Hand::Token(token) = &mut self.hand else { return };
        token.home = self.id;
        let copy = (self.config.mutation == Some(Mutation::KeepCopy)).then(|| token.clone());
        if self.config.mutation == Some(Mutation::ReEnter) && !self.config.alone {
            return out.arm(TokenRingTimer::Linger, After::exactly(self.timing.answer_timeout()));
        }
        self.pass_if_at_rest(out);
        if let Some(copy) = copy {
            self.hand = Hand::Token(copy);
        }
    }
}

/// The token comes and goes.
impl TokenRing {
    fn start(&mut self, out: &mut impl Effects<Self>) {
        if !self.config.parks {
            self.pass_if_at_rest(out);
        }
        // Those who have bypassed our last life do not know of this one.
        if self.life > Incarnation::FIRST && self.is_acked() {
            out.send_all(self.members.others(self.id), &Msg::CheckIn);
        }
    }

    fn on_token(&mut self, from: NodeId, token: Token, out: &mut impl Effects<Self>) {
        if !self.is_sound(&token) {
            return out.reject(from, "a token names members, and those whom it has lost in order");
        }
        let checked = self.config.mutation != Some(Mutation::BypassSameEpoch);
        if checked && token.epoch < self.epoch {
            // Whoever passes on a void token has been bypassed, or has bypassed somebody too late.
            if self.is_acked() {
                out.send(from, Msg::Bypassed { epoch: self.epoch });
            }
            return;
        }
        if self.is_acked() {
            out.send(from, Msg::Ack { epoch: token.epoch, hop: token.hop });
        }
        // A copy of what we have had: its sender has missed our first answer, or the network has made it.
        if checked && token.epoch == self.epoch && self.seen.is_some_and(|seen| token.hop <= seen) {
            return;
        }
        if token.epoch > self.epoch {
            self.begin_epoch(token.epoch, out);
        }
        // It has come round before the answer to our last handoff: that answers it, too.
        if matches!(self.hand, Hand::Copy { .. }) {
            out.disarm(TokenRingTimer::Handoff);
        }
        (self.seen, self.home, self.asked) = (Some(token.hop), token.home, false);
        self.hand = Hand::Token(token);
        match self.state {
            State::Waiting => self.enter(out),
            State::Idle if self.config.parks && self.home == self.id && !self.woken => {}
            State::Idle => self.pass_if_at_rest(out),
            // A second token of the same epoch, which only a liar or a mutant can send.
            State::Holding(_) => {}
        }
    }

    fn on_ack(&mut self, from: NodeId, epoch: Epoch, hop: u64, out: &mut impl Effects<Self>) {
        if let Hand::Copy { token, to, .. } = &self.hand
            && (*to, token.epoch, token.hop) == (from, epoch, hop)
        {
            self.hand = Hand::Empty;
            out.disarm(TokenRingTimer::Handoff);
        }
    }

    /// The successor has not acknowledged the token in time.
    fn on_silence(&mut self, out: &mut impl Effects<Self>) {
        let Handoff::Acked { tries: most } = self.config.handoff else { return };
        let patience = self.patience();
        let Hand::Copy { token, to, tries } = &mut self.hand else { return };
        if *tries >= most || self.down.contains(*to) {
            return self.bypass(out);
        }
        *tries += 1;
        out.send(*to, Msg::Retry(token.clone()));
        out.arm(TokenRingTimer::Handoff, After::exactly(patience));
    }

    /// Takes the successor for dead. If it is only slow, the token that it gets is void: there is a later one.
    fn bypass(&mut self, out: &mut impl Effects<Self>) {
        let Hand::Copy { mut token, to, .. } = core::mem::replace(&mut self.hand, Hand::Empty) else {
            return;
        };
        if self.config.mutation != Some(Mutation::BypassSameEpoch) {
            self.epoch = self.epoch.next(self.id);
            token.epoch = self.epoch;
        }
        self.back.remove(to);
        token.lose(to);
        self.pass(token, out);
    }

    fn pass_if_at_rest(&mut self, out: &mut impl Effects<Self>) {
        if matches!(self.state, State::Holding(_)) {
            return;
        }
        match core::mem::replace(&mut self.hand, Hand::Empty) {
            Hand::Token(token) => self.pass(token, out),
            other => self.hand = other,
        }
    }

    /// Passes the token to the next process on the ring; keeps it if there is none.
    fn pass(&mut self, mut token: Token, out: &mut impl Effects<Self>) {
        for peer in self.back.iter() {
            token.find(peer);
        }
        self.back.clear();
        let is_gone = |peer: NodeId| self.down.contains(peer) || token.has_lost(peer);
        let next = self.members.after(self.id).find(|peer| !is_gone(*peer));
        if is_gone(token.home) {
            token.home = self.id;
        }
        // Whoever was lost and is alive learns from this that it has to come forward.
        if !token.lost.is_empty() {
            let left_out = self.members.after(self.id).take_while(|peer| Some(*peer) != next);
            let told = left_out.filter(|peer| token.has_lost(*peer));
            out.send_all(told, &Msg::Bypassed { epoch: token.epoch });
        }
        let Some(to) = next else {
            self.hand = Hand::Token(token);
            if self.state == State::Waiting {
                self.enter(out);
            }
            return;
        };
        token.hop = token.hop.saturating_add(1);
        (self.seen, self.home, self.woken) = (Some(token.hop), token.home, false);
        if self.is_acked() {
            self.hand = Hand::Copy { token: token.clone(), to, tries: 1 };
            out.arm(TokenRingTimer::Handoff, After::exactly(self.patience()));
        }
        out.send(to, Msg::Token(token));
    }

    /// There is a later token than any that we have: ours is void, and so is an entry made with it.
    fn begin_epoch(&mut self, epoch: Epoch, out: &mut impl Effects<Self>) {
        assert!(epoch > self.epoch, "epochs follow each other");
        // Whoever wants the token may have moved a void one.
        (self.epoch, self.seen, self.woken) = (epoch, None, self.config.parks);
        if matches!(self.hand, Hand::Copy { .. }) {
            out.disarm(TokenRingTimer::Handoff);
        }
        self.hand = Hand::Empty;
        if let State::Holding(fence) = self.state {
            self.state = State::Idle;
            out.emit(Event::Lost { fence });
        }
    }
}

/// The token at rest, and the living and the dead.
impl TokenRing {
    /// Asks the token's home to let it go round; once is enough until it has been here.
    fn ask(&mut self, out: &mut impl Effects<Self>) {
        if !self.asked {
            self.asked = true;
            out.send(self.home, Msg::Want);
        }
    }

    /// Lets the token go round: now if it rests here, after the exit if we are inside, else when it comes home.
    fn wake(&mut self, out: &mut impl Effects<Self>) {
        self.woken |= self.config.parks && !self.has_token();
        self.pass_if_at_rest(out);
    }

    /// Puts a process back on the ring.
    fn readmit(&mut self, peer: NodeId, out: &mut impl Effects<Self>) {
        self.down.remove(peer);
        if self.is_acked() {
            self.back.insert(peer);
        }
        // It may have waited while the token went by and came to rest.
        if self.config.parks && !self.has_token() && self.home != self.id {
            self.ask(out);
        } else {
            self.wake(out);
        }
    }

    /// A successor that owes us an answer is not bypassed at once: it may have passed the token on before it died, and
    /// its answer may be in flight. But it is not tried again.
    fn on_peer_down(&mut self, peer: NodeId, out: &mut impl Effects<Self>) {
        if peer == self.id || !self.members.contains(peer) {
            return;
        }
        self.down.insert(peer);
        self.back.remove(peer);
        // It may have left out somebody who lives, and can no longer correct that.
        if self.config.parks {
            self.wake(out);
        }
    }

    fn has_token(&self) -> bool {
        matches!(self.hand, Hand::Token(_))
    }

    fn is_acked(&self) -> bool {
        self.config.handoff != Handoff::Plain
    }

    /// How long the successor may take to acknowledge the token.
    fn patience(&self) -> Duration {
        match self.config.mutation {
            // As long as a message takes one way: the answer comes too late.
            Some(Mutation::BypassSameEpoch) => self.timing.transmission,
            _ => self.timing.answer_timeout(),
        }
    }

    fn is_sound(&self, token: &Token) -> bool {
        let in_order = token.lost.is_sorted_by(|one, next| one < next);
        let listed = in_order && token.lost.iter().all(|peer| self.members.contains(*peer));
        self.members.contains(token.home) && listed && (token.lost.is_empty() || self.is_acked())
    }
}

mutants! {
    enum Mutation {
        SingleProbe { same_as: recovery::Mutation::SingleProbe }
        BypassSameEpoch {
            name: "bypass-same-epoch", breaks: "TOK", nodes: 3, trigger: Schedule,
            change: "a bypass begins no epoch, and nobody looks at epoch and hop; acked, with one try and too \
                     little patience, so that the living are bypassed",
        }
        ReEnter {
            name: "re-enter", breaks: "ME4", nodes: 2, trigger: Schedule,
            change: "a process that wants to enter again keeps the token",
        }
        KeepCopy {
            name: "keep-copy", breaks: "TOK", nodes: 2, trigger: Schedule,
            change: "a process that leaves passes the token on and goes on using it",
        }
    }
}

impl Algorithm for TokenRing {
    const ABOUT: About = About {
        name: "token-ring",
        title: "Token ring",
        paper: "Le Lann: Distributed systems: towards a formal approach, IFIP Congress, 1977",
        idea: "a token goes round; who has it may enter once",
        family: crate::mutex::FAMILY,
        channels: Channels::Any,
        synchrony: Synchrony::Asynchronous,
        topology: Topology::Ring,
        cost: "1 per entry under full load, 1 to n-1 for one alone; without end if idle, unless it parks",
        faults: "crashes of those who neither have the token nor are passing it on, if a detector tells or handoffs are acked",
        settings: &[
            Setting {
                key: "idle",
                values: Values::OneOf(&["circulate", "park"]),
                default: "circulate",
                unsafe_values: &[],
                help: "what a token does that nobody wants: go round, or rest where it was used last",
            },
            Setting {
                key: "handoff",
                values: Values::Timed { words: &["plain", "acked"], timed: &["acked"] },
                default: "plain",
                unsafe_values: &[],
                help: "whether the token has to be acknowledged; then a silent successor is bypassed (needs a bound on \
                       delays)",
            },
            Setting {
                key: "tries",
                values: Values::Number(1, 100),
                default: "3",
                unsafe_values: &[],
                help: "how often the token is sent to a silent successor (with handoff=acked)",
            },
        ],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, members: &Members) -> Result<Self::Config, SettingError> {
        let mutation = Mutation::of(settings);
        Ok(TokenRingConfig {
            parks: settings.get("idle") == "park",
            handoff: match settings.get("handoff") {
                _ if mutation == Some(Mutation::BypassSameEpoch) => Handoff::Acked { tries: 1 },
                "acked" => Handoff::Acked { tries: settings.number("tries") },
                _ => Handoff::Plain,
            },
            alone: members.len() < 2,
            on_demand: false,
            mutation,
        })
    }
}

impl Mutex for TokenRing {
    const MOVES_TOKEN: bool = true;
    fn counts_epochs(_config: &Self::Config) -> bool {
        true
    }

    /// Everyone knows where the token is, and that it will come by if somebody waits.
    fn rebuild(boot: Boot<'_, Self>, roll: &Roll, out: &mut impl Effects<Self>) -> Self {
        let mut process = Self::boot(boot);
        (process.epoch, process.home) = (roll.epoch, roll.keeper());
        process.state = match roll.standing(process.id) {
            Some(Standing::Waiting { .. }) => State::Waiting,
            Some(Standing::Inside { fence }) => State::Holding(fence),
            Some(Standing::Idle) | None => State::Idle,
        };
        process.asked = process.state == State::Waiting;
        (process.hand, process.woken) = (Hand::Empty, false);
        if process.home == process.id {
            process.hand = Hand::Token(Token::new(roll.epoch, process.id));
            process.asked = false;
            match process.state {
                State::Waiting => process.enter(out),
                State::Idle if process.config.parks && roll.waiting().is_empty() => {}
                State::Idle => process.pass_if_at_rest(out),
                State::Holding(_) => {}
            }
        }
        process
    }

    fn promises(_config: &Self::Config, members: &Members) -> Promises {
        Promises { no_starvation: true, overtaking: Some(members.len() as u64 - 1), ..Promises::NOTHING }
    }

    fn formula(config: &Self::Config, members: &Members, tally: &Tally<'_>) -> Formula {
        let (n, entries, locks) = (members.len() as u64, tally.total(), tally.locks);
        if n < 2 {
            return Formula::exactly("0 alone", 0);
        }
        match (config.parks, tally.load) {
            // The token leaves its first place before anybody asks, and everyone's place when it has been used.
            (false, Load::Saturated) if locks == 1 => Formula::exactly("1, and one at the end", entries + 1),
            (false, _) => Formula { text: "1 at least", low: entries + locks, high: None },
            // The first enters where the token begins, and the last sends it on an idle lap.
            (true, Load::Saturated) => {
                Formula::exactly("1, and an idle lap at the end", entries + locks * (n - 1))
            }
            // The way from home to the requester, and an idle lap.
            (true, Load::Light) => {
                let at_hand: u64 = tally.at_hand.iter().sum();
                let others = entries - at_hand;
                Formula::between(
                    "n at hand, n+1 to 2n-1 otherwise",
                    n * at_hand + (n + 1) * others,
                    n * at_hand + (2 * n - 1) * others,
                )
            }
            // An entry and a `Want` each begin a lap at most; a `Want` that comes late begins it for nothing.
            (true, Load::Open) => Formula::between("1 to 2n", entries + locks * (n - 1), 2 * n * entries),
        }
    }

    /// `Want` goes to where the token rests or begins, and the token comes the rest of the way.
    fn client_hops(config: &Self::Config, members: &Members, _requester: NodeId) -> RangeInclusive<u32> {
        0..=if config.alone { 0 } else { members.len() as u32 }
    }

    fn token(&self) -> Option<Epoch> {
        match &self.hand {
            Hand::Token(token) => Some(token.epoch),
            Hand::Empty | Hand::Copy { .. } => None,
        }
    }

    fn token_in(message: &Self::Message) -> Option<Epoch> {
        match message {
            Msg::Token(token) => Some(token.epoch),
            Msg::Retry(_) | Msg::Ack { .. } | Msg::Want | Msg::Bypassed { .. } | Msg::CheckIn => None,
        }
    }

    fn epoch_seen(&self) -> Epoch {
        self.epoch
    }

    fn on_demand(config: Self::Config) -> Self::Config {
        TokenRingConfig { on_demand: true, ..config }
    }

    fn is_restless(config: &Self::Config) -> bool {
        !config.parks && !config.alone
    }
}
