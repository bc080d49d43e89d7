//! An algorithm for mutual exclusion in a box.
//!
//! What stands around an algorithm (recovery, several locks) is generic, and would be compiled once per algorithm. Around
//! [`Boxed`] it is compiled once for all. The algorithm itself is compiled as it is; its messages and timers travel in
//! boxes. All of them compare, hash, print and serialise like the value inside.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::any::Any;
use core::marker::PhantomData;
use core::ops::RangeInclusive;

use conclave_core::{
    Boot, Counter, Effect, Effects, Input, Members, Message, NodeId, Phase, Protocol, Stamp, Through, erased,
};

use super::{Epoch, Event, Mutex, Promises, Request, Roll, Tally};
use crate::Formula;
use crate::dynamic::{Letter, Ranked, Saved, Value, ordered, serialised, transparent, typed, unreadable};

/// A process of any algorithm for mutual exclusion.
pub struct Boxed {
    value: Box<dyn Lock>,
    kind: &'static dyn Kind,
}

/// The configuration of any algorithm for mutual exclusion.
#[derive(Clone)]
pub struct BoxedConfig {
    value: Arc<dyn Value>,
    kind: &'static dyn Kind,
}

/// A message of any algorithm for mutual exclusion.
pub struct BoxedMessage {
    value: Box<dyn Letter>,
    kind: &'static dyn Kind,
}

/// A timer of any algorithm for mutual exclusion.
#[derive(Clone)]
pub struct BoxedTimer {
    value: Arc<dyn Ranked>,
}

/// What a process of any algorithm for mutual exclusion saves.
#[derive(Clone)]
pub struct BoxedDurable {
    value: Arc<dyn Saved>,
}

impl BoxedConfig {
    /// The algorithm `A`, set up so.
    pub fn new<A: Mutex>(config: A::Config) -> Self {
        Self { value: Arc::new(config), kind: kind::<A>() }
    }
}

impl Protocol for Boxed {
    type Config = BoxedConfig;
    type Message = BoxedMessage;
    type Request = Request;
    type Event = Event;
    type Timer = BoxedTimer;
    type Durable = BoxedDurable;

    fn boot(boot: Boot<'_, Self>) -> Self {
        boot.config.kind.boot(boot)
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        self.value.handle(input, self.kind, out);
    }

    fn phase(&self) -> Phase {
        self.value.phase()
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        self.value.visit_counters(visit);
    }

    fn assert_invariants(&self) {
        self.value.assert_invariants();
    }
}

impl Mutex for Boxed {
    /// Some do.
    const MOVES_TOKEN: bool = true;

    fn promises(config: &BoxedConfig, members: &Members) -> Promises {
        config.kind.promises(&*config.value, members)
    }

    fn formula(config: &BoxedConfig, members: &Members, tally: &Tally<'_>) -> Formula {
        config.kind.formula(&*config.value, members, tally)
    }

    fn mean(config: &BoxedConfig, members: &Members, tally: &Tally<'_>) -> Option<f64> {
        config.kind.mean(&*config.value, members, tally)
    }

    fn client_hops(config: &BoxedConfig, members: &Members, requester: NodeId) -> RangeInclusive<u32> {
        config.kind.client_hops(&*config.value, members, requester)
    }

    fn rebuild(boot: Boot<'_, Self>, roll: &Roll, out: &mut impl Effects<Self>) -> Self {
        boot.config.kind.rebuild(boot, roll, out)
    }

    fn moves_token(config: &BoxedConfig) -> bool {
        config.kind.moves_token(&*config.value)
    }

    fn token(&self) -> Option<Epoch> {
        self.value.token()
    }

    fn token_in(message: &BoxedMessage) -> Option<Epoch> {
        message.kind.token_in(&*message.value)
    }

    fn read(config: &BoxedConfig, bytes: &[u8]) -> Option<BoxedMessage> {
        config.kind.read(&*config.value, bytes)
    }

    fn counts_epochs(config: &BoxedConfig) -> bool {
        config.kind.counts_epochs(&*config.value)
    }

    fn epoch_seen(&self) -> Epoch {
        self.value.epoch_seen()
    }

    fn suspected(&self) -> Option<NodeId> {
        self.value.suspected()
    }

    fn tells_queue(config: &BoxedConfig) -> bool {
        config.kind.tells_queue(&*config.value)
    }

    fn keeps_queue(&self) -> bool {
        self.value.keeps_queue()
    }

    fn is_queued(&self) -> bool {
        self.value.is_queued()
    }

    fn begins_unled(config: &BoxedConfig) -> bool {
        config.kind.begins_unled(&*config.value)
    }

    fn led_by(config: &BoxedConfig, leader: NodeId) -> BoxedConfig {
        config.kind.led_by(&*config.value, leader)
    }

    fn on_demand(config: BoxedConfig) -> BoxedConfig {
        config.kind.on_demand(&*config.value)
    }

    fn needs_majority(config: &BoxedConfig) -> bool {
        config.kind.needs_majority(&*config.value)
    }

    fn is_restless(config: &BoxedConfig) -> bool {
        config.kind.is_restless(&*config.value)
    }

    fn asks_again(config: &BoxedConfig) -> bool {
        config.kind.asks_again(&*config.value)
    }

    fn announced(from: NodeId, message: &BoxedMessage) -> Option<Stamp> {
        message.kind.announced(from, &*message.value)
    }
}

impl Message for BoxedMessage {
    fn kind(&self) -> &'static str {
        self.value.kind()
    }

    fn is_overhead(&self) -> bool {
        self.value.is_overhead()
    }

    fn envelopes(&self) -> u32 {
        self.value.envelopes()
    }

    fn postmark(&self) -> String {
        self.value.postmark()
    }

    fn visit_counters(&mut self, from: NodeId, members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        self.value.visit_counters(from, members, visit);
    }
}

/// What an algorithm does with values of its own types, as a value.
trait Kind: Send + Sync {
    fn boot(&self, boot: Boot<'_, Boxed>) -> Boxed;
    fn rebuild(&self, boot: Boot<'_, Boxed>, roll: &Roll, out: &mut dyn Effects<Boxed>) -> Boxed;
    fn promises(&self, config: &dyn Any, members: &Members) -> Promises;
    fn formula(&self, config: &dyn Any, members: &Members, tally: &Tally<'_>) -> Formula;
    fn mean(&self, config: &dyn Any, members: &Members, tally: &Tally<'_>) -> Option<f64>;
    fn client_hops(&self, config: &dyn Any, members: &Members, requester: NodeId) -> RangeInclusive<u32>;
    fn moves_token(&self, config: &dyn Any) -> bool;
    fn counts_epochs(&self, config: &dyn Any) -> bool;
    fn needs_majority(&self, config: &dyn Any) -> bool;
    fn tells_queue(&self, config: &dyn Any) -> bool;
    fn begins_unled(&self, config: &dyn Any) -> bool;
    fn led_by(&self, config: &dyn Any, leader: NodeId) -> BoxedConfig;
    fn on_demand(&self, config: &dyn Any) -> BoxedConfig;
    fn is_restless(&self, config: &dyn Any) -> bool;
    fn asks_again(&self, config: &dyn Any) -> bool;
    fn read(&self, config: &dyn Any, bytes: &[u8]) -> Option<BoxedMessage>;
    fn token_in(&self, message: &dyn Any) -> Option<Epoch>;
    fn announced(&self, from: NodeId, message: &dyn Any) -> Option<Stamp>;
}

struct Of<A>(PhantomData<fn() -> A>);

fn kind<A: Mutex>() -> &'static dyn Kind {
    &Of::<A>(PhantomData)
}

impl<A: Mutex> Kind for Of<A> {
    fn boot(&self, boot: Boot<'_, Boxed>) -> Boxed {
        let value = Box::new(A::boot(lower_boot::<A>(boot)));
        Boxed { value, kind: kind::<A>() }
    }

    fn rebuild(&self, boot: Boot<'_, Boxed>, roll: &Roll, out: &mut dyn Effects<Boxed>) -> Boxed {
        let kind = kind::<A>();
        let mut out = Through::new(out.now(), |effect| out.push(lift(effect, kind)));
        let value = Box::new(A::rebuild(lower_boot::<A>(boot), roll, &mut erased::<A>(&mut out)));
        Boxed { value, kind }
    }

    fn promises(&self, config: &dyn Any, members: &Members) -> Promises {
        A::promises(typed(config), members)
    }

    fn formula(&self, config: &dyn Any, members: &Members, tally: &Tally<'_>) -> Formula {
        A::formula(typed(config), members, tally)
    }

    fn mean(&self, config: &dyn Any, members: &Members, tally: &Tally<'_>) -> Option<f64> {
        A::mean(typed(config), members, tally)
    }

    fn client_hops(&self, config: &dyn Any, members: &Members, requester: NodeId) -> RangeInclusive<u32> {
        A::client_hops(typed(config), members, requester)
    }

    fn moves_token(&self, config: &dyn Any) -> bool {
        A::moves_token(typed(config))
    }

    fn counts_epochs(&self, config: &dyn Any) -> bool {
        A::counts_epochs(typed(config))
    }

    fn needs_majority(&self, config: &dyn Any) -> bool {
        A::needs_majority(typed(config))
    }

    fn tells_queue(&self, config: &dyn Any) -> bool {
        A::tells_queue(typed(config))
    }

    fn begins_unled(&self, config: &dyn Any) -> bool {
        A::begins_unled(typed(config))
    }

    fn led_by(&self, config: &dyn Any, leader: NodeId) -> BoxedConfig {
        BoxedConfig::new::<A>(A::led_by(typed(config), leader))
    }

    fn on_demand(&self, config: &dyn Any) -> BoxedConfig {
        BoxedConfig::new::<A>(A::on_demand(typed::<A::Config>(config).clone()))
    }

    fn is_restless(&self, config: &dyn Any) -> bool {
        A::is_restless(typed(config))
    }

    fn asks_again(&self, config: &dyn Any) -> bool {
        A::asks_again(typed(config))
    }

    fn read(&self, config: &dyn Any, bytes: &[u8]) -> Option<BoxedMessage> {
        let message = A::read(typed(config), bytes)?;
        Some(BoxedMessage { value: Box::new(message), kind: kind::<A>() })
    }

    fn token_in(&self, message: &dyn Any) -> Option<Epoch> {
        A::token_in(typed(message))
    }

    fn announced(&self, from: NodeId, message: &dyn Any) -> Option<Stamp> {
        A::announced(from, typed(message))
    }
}

/// A process.
trait Lock: Value {
    fn copy(&self) -> Box<dyn Lock>;
    fn handle(&mut self, input: Input<Boxed>, kind: &'static dyn Kind, out: &mut dyn Effects<Boxed>);
    fn phase(&self) -> Phase;
    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>));
    fn assert_invariants(&self);
    fn token(&self) -> Option<Epoch>;
    fn epoch_seen(&self) -> Epoch;
    fn suspected(&self) -> Option<NodeId>;
    fn keeps_queue(&self) -> bool;
    fn is_queued(&self) -> bool;
}

impl<A: Mutex> Lock for A {
    fn copy(&self) -> Box<dyn Lock> {
        Box::new(self.clone())
    }

    fn handle(&mut self, input: Input<Boxed>, kind: &'static dyn Kind, out: &mut dyn Effects<Boxed>) {
        let mut out = Through::new(out.now(), |effect| out.push(lift(effect, kind)));
        Protocol::handle(self, lower(input), &mut erased::<A>(&mut out));
    }

    fn phase(&self) -> Phase {
        Protocol::phase(self)
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        Protocol::visit_counters(self, visit);
    }

    fn assert_invariants(&self) {
        Protocol::assert_invariants(self);
    }

    fn token(&self) -> Option<Epoch> {
        Mutex::token(self)
    }

    fn epoch_seen(&self) -> Epoch {
        Mutex::epoch_seen(self)
    }

    fn suspected(&self) -> Option<NodeId> {
        Mutex::suspected(self)
    }

    fn keeps_queue(&self) -> bool {
        Mutex::keeps_queue(self)
    }

    fn is_queued(&self) -> bool {
        Mutex::is_queued(self)
    }
}

fn lower_boot<A: Mutex>(boot: Boot<'_, Boxed>) -> Boot<'_, A> {
    let Boot { id, members, config, timing, life, saved } = boot;
    let saved = saved.map(|saved| typed::<A::Durable>(&*saved.value).clone());
    Boot { id, members, config: typed(&*config.value), timing, life, saved }
}

/// An effect, in boxes.
fn lift<A: Mutex>(effect: Effect<A>, kind: &'static dyn Kind) -> Effect<Boxed> {
    match effect {
        Effect::Save(durable) => Effect::Save(BoxedDurable { value: Arc::new(durable) }),
        Effect::Send { to, message } => {
            Effect::Send { to, message: BoxedMessage { value: Box::new(message), kind } }
        }
        Effect::Arm { timer, after } => Effect::Arm { timer: BoxedTimer { value: Arc::new(timer) }, after },
        Effect::Disarm(timer) => Effect::Disarm(BoxedTimer { value: Arc::new(timer) }),
        Effect::Emit(event) => Effect::Emit(event),
        Effect::Reject { from, why } => Effect::Reject { from, why },
    }
}

/// An input, out of its box.
fn lower<A: Mutex>(input: Input<Boxed>) -> Input<A> {
    match input {
        Input::Receive { from, message } => {
            let message: Box<dyn Any> = message.value;
            let message = *message.downcast().expect("a message stays with its algorithm");
            Input::Receive { from, message }
        }
        Input::Start => Input::Start,
        Input::Expire(timer) => Input::Expire(typed::<A::Timer>(&*timer.value).clone()),
        Input::Request(request) => Input::Request(request),
        Input::PeerDown { peer, life } => Input::PeerDown { peer, life },
        Input::PeerUp { peer, life } => Input::PeerUp { peer, life },
    }
}

impl Clone for Boxed {
    fn clone(&self) -> Self {
        Self { value: self.value.copy(), kind: self.kind }
    }
}

impl Clone for BoxedMessage {
    fn clone(&self) -> Self {
        Self { value: self.value.copy(), kind: self.kind }
    }
}

transparent!(Boxed, BoxedConfig, BoxedMessage, BoxedTimer, BoxedDurable);
ordered!(BoxedMessage, BoxedTimer);
serialised!(BoxedMessage, BoxedDurable);

unreadable!(BoxedMessage, BoxedDurable);
