//! An algorithm whose types are erased.
//!
//! Code that is generic over the algorithm is compiled once per algorithm. Where speed does not matter (scripts, shrinking,
//! several locks, live processes), drivers take [`Erased`] instead: one protocol that holds any other in a box. Its
//! messages, requests, events, timers and durable values are boxes, too. They compare, hash, serialise and print exactly
//! like the value inside, so digests, traces and the bytes on the wire do not change.
//!
//! ```text
//!   driver ── Input<Erased> ──▶ Erased ── Input<P> ──▶ P
//!          ◀── Effect<Erased> ──       ◀── Effect<P> ──
//! ```
//!
//! [`Prepared`] is what [`family::Prepared`] is for a typed driver. Judge, meter, users and desk travel
//! with it as boxes.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::marker::PhantomData;

use conclave_core::{
    Boot, Counter, Effect, Effects, Group, Input, Lease, Members, Message, NodeId, Phase, Protocol, Through,
    erased,
};

use crate::application::AskBudget;
use crate::desk::Desk;
use crate::dynamic::{Letter, Ranked, Saved, Value, ordered, serialised, transparent, typed, unreadable};
use crate::family::{self, Endless, EventText, Family, RequestOf, Use, unknown_request};
use crate::lens::{Seen, Serving, Used};
use crate::mutex::Epoch;
use crate::recorded::{Recordable, Token};
use crate::workload::Workload;
use crate::{About, SettingError};

mod searching;
mod watching;

pub use searching::{ErasedApp, ErasedLedger};
use watching::Typed;
pub use watching::{ErasedJudge, ErasedMeter};

/// A process of any algorithm.
pub struct Erased {
    value: Box<dyn Machine>,
    language: &'static dyn Language,
}

/// The settings of any algorithm; they know which one it is.
pub struct ErasedConfig {
    value: Arc<dyn Value>,
    language: &'static dyn Language,
}

/// A message of any algorithm.
pub struct ErasedMessage {
    value: Box<dyn Letter>,
    language: &'static dyn Language,
}

/// A request to any algorithm.
#[derive(Clone)]
pub struct ErasedRequest {
    value: Arc<dyn Value>,
    language: &'static dyn Language,
}

/// An event of any algorithm.
#[derive(Clone)]
pub struct ErasedEvent {
    value: Arc<dyn Value>,
    language: &'static dyn Language,
}

/// A timer of any algorithm.
#[derive(Clone)]
pub struct ErasedTimer {
    value: Arc<dyn Ranked>,
}

/// What a process of any algorithm saves.
#[derive(Clone)]
pub struct ErasedDurable {
    value: Arc<dyn Saved>,
}

impl Protocol for Erased {
    type Config = ErasedConfig;
    type Message = ErasedMessage;
    type Request = ErasedRequest;
    type Event = ErasedEvent;
    type Timer = ErasedTimer;
    type Durable = ErasedDurable;

    fn boot(boot: Boot<'_, Self>) -> Self {
        boot.config.language.boot(boot)
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        self.value.handle(input, self.language, out);
    }

    fn phase(&self) -> Phase {
        self.value.phase()
    }

    fn reads_clock(&self) -> bool {
        self.value.reads_clock()
    }

    fn visit_leases(&self, visit: &mut dyn FnMut(&str, Lease)) -> bool {
        self.value.visit_leases(visit)
    }

    fn group(&self) -> Option<Group> {
        self.value.group()
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        self.value.visit_counters(visit);
    }

    fn assert_invariants(&self) {
        self.value.assert_invariants();
    }
}

impl Message for ErasedMessage {
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

impl ErasedConfig {
    /// The request that words mean, for this lock.
    #[must_use]
    pub fn parse(&self, words: &str, lock: usize) -> Option<ErasedRequest> {
        self.language.parse(&*self.value, words, lock)
    }

    /// Reads a message of this algorithm, as postcard writes it; nothing if it is none.
    #[must_use]
    pub fn read_message(&self, bytes: &[u8]) -> Option<ErasedMessage> {
        self.language.read_message(&*self.value, bytes)
    }

    /// Reads what a process of this algorithm has saved, as postcard writes it; nothing if it is something else.
    #[must_use]
    pub fn read_durable(&self, bytes: &[u8]) -> Option<ErasedDurable> {
        self.language.read_durable(&*self.value, bytes)
    }
}

impl ErasedMessage {
    /// The token that it carries, of whichever lock.
    #[must_use]
    pub fn token(&self) -> Option<Epoch> {
        self.language.token_in(&*self.value)
    }

    /// Whether it carries a token.
    #[must_use]
    pub fn carries_token(&self) -> bool {
        self.language.carries_token(&*self.value)
    }
}

impl Recordable for Erased {
    fn tokens(&self) -> Vec<Token> {
        self.language.tokens(&*self.value)
    }

    fn token_in(message: &ErasedMessage) -> Option<Token> {
        message.language.named_token_in(&*message.value)
    }
}

/// What a search asks of the family.
impl ErasedConfig {
    /// The application of a process.
    #[must_use]
    pub fn app(&self, budget: AskBudget) -> ErasedApp {
        self.language.app(budget)
    }

    /// What is promised of runs without end.
    #[must_use]
    pub fn endless(&self) -> Endless {
        self.language.endless(&*self.value)
    }
}

impl Erased {
    /// The token that it has; of several locks, that of the first.
    #[must_use]
    pub fn token(&self) -> Option<Epoch> {
        self.language.token(&*self.value)
    }
}

impl ErasedRequest {
    /// Whether it is one to be let in.
    #[must_use]
    pub fn begins_waiting(&self) -> bool {
        self.language.begins_waiting(&*self.value)
    }

    /// Whether it takes such a request back.
    #[must_use]
    pub fn gives_up(&self) -> bool {
        self.language.gives_up(&*self.value)
    }

    /// In words, and the lock that it is for.
    #[must_use]
    pub fn show(&self) -> (String, usize) {
        self.language.show(&*self.value)
    }

    /// The name of the lock that it is for, where locks have names.
    #[must_use]
    pub fn lock(&self) -> Option<String> {
        self.language.lock_asked(&*self.value)
    }
}

impl ErasedEvent {
    /// As traces write it.
    #[must_use]
    pub fn told(&self) -> EventText {
        self.language.told(&*self.value)
    }

    /// The name of the lock that it is about, where locks have names.
    #[must_use]
    pub fn lock(&self) -> Option<String> {
        self.language.lock_told(&*self.value)
    }

    /// Whether a request to be let in is over with it.
    #[must_use]
    pub fn ends_waiting(&self) -> bool {
        self.language.ends_waiting(&*self.value)
    }

    /// Whether a process that says so has left, and does nothing any more.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.language.has_left(&*self.value)
    }
}

/// A family as a value: all that is done with its types and cannot be done by a value itself.
trait Language: Send + Sync {
    fn boot(&self, boot: Boot<'_, Erased>) -> Erased;
    fn parse(&self, config: &dyn Any, words: &str, lock: usize) -> Option<ErasedRequest>;
    fn show(&self, request: &dyn Any) -> (String, usize);
    fn told(&self, event: &dyn Any) -> EventText;
    fn lock_asked(&self, request: &dyn Any) -> Option<String>;
    fn lock_told(&self, event: &dyn Any) -> Option<String>;
    fn has_left(&self, event: &dyn Any) -> bool;
    fn carries_token(&self, message: &dyn Any) -> bool;
    fn read_message(&self, config: &dyn Any, bytes: &[u8]) -> Option<ErasedMessage>;
    fn read_durable(&self, config: &dyn Any, bytes: &[u8]) -> Option<ErasedDurable>;
    fn app(&self, budget: AskBudget) -> ErasedApp;
    fn endless(&self, config: &dyn Any) -> Endless;
    fn begins_waiting(&self, request: &dyn Any) -> bool;
    fn gives_up(&self, request: &dyn Any) -> bool;
    fn ends_waiting(&self, event: &dyn Any) -> bool;
    fn token(&self, state: &dyn Any) -> Option<Epoch>;
    fn token_in(&self, message: &dyn Any) -> Option<Epoch>;
    fn tokens(&self, state: &dyn Any) -> Vec<Token>;
    fn named_token_in(&self, message: &dyn Any) -> Option<Token>;
}

struct Of<F>(PhantomData<fn() -> F>);

fn language<F: Family>() -> &'static dyn Language {
    &Of::<F>(PhantomData)
}

impl<F: Family> Language for Of<F> {
    fn boot(&self, boot: Boot<'_, Erased>) -> Erased {
        let Boot { id, members, config, timing, life, saved } = boot;
        let saved = saved.map(|saved| typed::<<F::Protocol as Protocol>::Durable>(&*saved.value).clone());
        let config = typed(&*config.value);
        let state = F::Protocol::boot(Boot { id, members, config, timing, life, saved });
        Erased { value: Box::new(state), language: language::<F>() }
    }

    fn parse(&self, config: &dyn Any, words: &str, lock: usize) -> Option<ErasedRequest> {
        let request = F::parse_with(typed(config), words, lock)?;
        Some(ErasedRequest { value: Arc::new(request), language: language::<F>() })
    }

    fn show(&self, request: &dyn Any) -> (String, usize) {
        F::show(typed(request))
    }

    fn told(&self, event: &dyn Any) -> EventText {
        F::told(typed(event))
    }

    fn lock_asked(&self, request: &dyn Any) -> Option<String> {
        F::lock_asked(typed(request))
    }

    fn lock_told(&self, event: &dyn Any) -> Option<String> {
        F::lock_told(typed(event))
    }

    fn has_left(&self, event: &dyn Any) -> bool {
        F::has_left(typed(event))
    }

    fn carries_token(&self, message: &dyn Any) -> bool {
        F::token_in(typed(message)).is_some()
    }

    fn read_message(&self, config: &dyn Any, bytes: &[u8]) -> Option<ErasedMessage> {
        let message = F::read_message(typed(config), bytes)?;
        Some(ErasedMessage { value: Box::new(message), language: language::<F>() })
    }

    fn read_durable(&self, config: &dyn Any, bytes: &[u8]) -> Option<ErasedDurable> {
        let durable = F::read_durable(typed(config), bytes)?;
        Some(ErasedDurable { value: Arc::new(durable) })
    }

    fn app(&self, budget: AskBudget) -> ErasedApp {
        ErasedApp::new::<F>(budget)
    }

    fn endless(&self, config: &dyn Any) -> Endless {
        F::endless(typed(config))
    }

    fn begins_waiting(&self, request: &dyn Any) -> bool {
        F::begins_waiting(&Input::Request(typed::<RequestOf<F>>(request).clone()))
    }

    fn gives_up(&self, request: &dyn Any) -> bool {
        F::gives_up(&Input::Request(typed::<RequestOf<F>>(request).clone()))
    }

    fn ends_waiting(&self, event: &dyn Any) -> bool {
        F::ends_waiting(typed(event))
    }

    fn token(&self, state: &dyn Any) -> Option<Epoch> {
        F::token(typed(state))
    }

    fn token_in(&self, message: &dyn Any) -> Option<Epoch> {
        F::token_in(typed(message))
    }

    fn tokens(&self, state: &dyn Any) -> Vec<Token> {
        F::tokens(typed(state))
    }

    fn named_token_in(&self, message: &dyn Any) -> Option<Token> {
        F::named_token_in(typed(message))
    }
}

/// A process.
trait Machine: Value {
    fn copy(&self) -> Box<dyn Machine>;
    fn handle(
        &mut self,
        input: Input<Erased>,
        language: &'static dyn Language,
        out: &mut dyn Effects<Erased>,
    );
    fn phase(&self) -> Phase;
    fn reads_clock(&self) -> bool;
    fn visit_leases(&self, visit: &mut dyn FnMut(&str, Lease)) -> bool;
    fn group(&self) -> Option<Group>;
    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>));
    fn assert_invariants(&self);
}

impl<P: Protocol> Machine for P {
    fn copy(&self) -> Box<dyn Machine> {
        Box::new(self.clone())
    }

    fn handle(
        &mut self,
        input: Input<Erased>,
        language: &'static dyn Language,
        out: &mut dyn Effects<Erased>,
    ) {
        let mut out = Through::new(out.now(), |effect| out.push(lift(effect, language)));
        Protocol::handle(self, lower(input), &mut erased::<P>(&mut out));
    }

    fn phase(&self) -> Phase {
        Protocol::phase(self)
    }

    fn reads_clock(&self) -> bool {
        Protocol::reads_clock(self)
    }

    fn visit_leases(&self, visit: &mut dyn FnMut(&str, Lease)) -> bool {
        Protocol::visit_leases(self, visit)
    }

    fn group(&self) -> Option<Group> {
        Protocol::group(self)
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        Protocol::visit_counters(self, visit);
    }

    fn assert_invariants(&self) {
        Protocol::assert_invariants(self);
    }
}

/// An effect, erased.
fn lift<P: Protocol>(effect: Effect<P>, language: &'static dyn Language) -> Effect<Erased> {
    match effect {
        Effect::Save(durable) => Effect::Save(ErasedDurable { value: Arc::new(durable) }),
        Effect::Send { to, message } => {
            Effect::Send { to, message: ErasedMessage { value: Box::new(message), language } }
        }
        Effect::Arm { timer, after } => Effect::Arm { timer: ErasedTimer { value: Arc::new(timer) }, after },
        Effect::Disarm(timer) => Effect::Disarm(ErasedTimer { value: Arc::new(timer) }),
        Effect::Emit(event) => Effect::Emit(ErasedEvent { value: Arc::new(event), language }),
        Effect::Reject { from, why } => Effect::Reject { from, why },
    }
}

/// An input, typed.
fn lower<P: Protocol>(input: Input<Erased>) -> Input<P> {
    match input {
        Input::Receive { from, message } => {
            let message: Box<dyn Any> = message.value;
            let message = *message.downcast().expect("a message stays with its algorithm");
            Input::Receive { from, message }
        }
        Input::Start => Input::Start,
        Input::Expire(timer) => Input::Expire(typed::<P::Timer>(&*timer.value).clone()),
        Input::Request(request) => Input::Request(typed::<P::Request>(&*request.value).clone()),
        Input::PeerDown { peer, life } => Input::PeerDown { peer, life },
        Input::PeerUp { peer, life } => Input::PeerUp { peer, life },
    }
}

impl Clone for Erased {
    fn clone(&self) -> Self {
        Self { value: self.value.copy(), language: self.language }
    }
}

impl Clone for ErasedConfig {
    fn clone(&self) -> Self {
        Self { value: Arc::clone(&self.value), language: self.language }
    }
}

impl Clone for ErasedMessage {
    fn clone(&self) -> Self {
        Self { value: self.value.copy(), language: self.language }
    }
}

transparent!(Erased, ErasedConfig, ErasedMessage, ErasedRequest, ErasedEvent, ErasedTimer, ErasedDurable);

ordered!(ErasedMessage, ErasedTimer);

serialised!(ErasedMessage, ErasedDurable);

unreadable!(ErasedMessage, ErasedDurable);

/// An algorithm with everything that a driver needs to run it, and no types; see
/// [`family::Prepared`].
pub struct Prepared {
    /// What the algorithm says of itself, as it is going to run.
    pub about: &'static About,
    /// Who takes part from the beginning.
    pub members: Members,
    /// Who may join later.
    pub newcomers: Vec<NodeId>,
    /// The settings as they were given, with what was decided about recovery.
    pub settings: BTreeMap<String, String>,
    /// How many locks.
    pub locks: usize,
    /// The configuration of the protocol.
    pub config: ErasedConfig,
    /// Whether channels keep their order.
    pub fifo: bool,
    /// Whether messages travel forever although nobody wants anything.
    pub restless: bool,
    /// Whether processes may join and leave.
    pub changes_group: bool,
    /// Whether there is a token that moves.
    pub is_token_based: bool,
    /// About how many messages a run takes.
    pub expected_messages: u64,
    /// Whether its numbers grow although nothing new is asked for, and a checker can move them down.
    pub normalises: bool,
    /// Whether they can be moved down at all.
    pub can_normalise: bool,
    /// The most entries by others that are promised between a known request and its grant.
    pub overtaking: Option<u64>,
    /// What a checker judges by.
    pub ledger: ErasedLedger,
    /// Who judges.
    pub judge: Box<dyn ErasedJudge>,
    /// The users of a simulated run.
    pub users: Box<dyn Workload<Erased>>,
    /// What measures it.
    pub meter: Box<dyn ErasedMeter>,
    /// What serves the clients of a live process.
    pub desk: Box<dyn Desk<Erased>>,
}

impl Prepared {
    /// The request that words mean, for this lock.
    ///
    /// # Errors
    /// If the family has no such request.
    pub fn request(&self, words: &str, lock: usize) -> Result<ErasedRequest, SettingError> {
        self.config.parse(words, lock).ok_or_else(|| unknown_request(words, &self.about.family))
    }
}

impl<F: Family> From<family::Prepared<F>> for Prepared {
    fn from(prepared: family::Prepared<F>) -> Self {
        let language = language::<F>();
        let is_token_based = F::is_token_based(&prepared.config);
        Self {
            about: prepared.about,
            members: prepared.members,
            newcomers: prepared.newcomers,
            settings: prepared.settings,
            locks: prepared.locks,
            config: ErasedConfig { value: Arc::new(prepared.config), language },
            fifo: prepared.fifo,
            restless: prepared.restless,
            changes_group: prepared.changes_group,
            is_token_based,
            expected_messages: prepared.expected_messages,
            normalises: prepared.normalises,
            can_normalise: prepared.can_normalise,
            overtaking: prepared.overtaking,
            ledger: ErasedLedger::new::<F>(prepared.ledger),
            judge: Box::new(Seen::<Typed<F>, _>::new(prepared.judge)),
            users: Box::new(Used::<Typed<F>, _>::new(prepared.users)),
            meter: Box::new(Seen::<Typed<F>, _>::new(prepared.meter)),
            desk: Box::new(Serving::<Typed<F>, _>::new(prepared.desk)),
        }
    }
}

/// Erases the types of a prepared algorithm.
pub struct Erase;

impl Use for Erase {
    type Output = Prepared;
    const SEVERAL: bool = true;
    const TYPED: bool = false;

    fn with<F: Family>(self, prepared: family::Prepared<F>) -> Prepared {
        prepared.into()
    }
}
