//! Many locks, each with a name, each by the same algorithm.
//!
//! An algorithm of this crate is one lock (or one election). [`Named`] holds any number of them side by side in one
//! process, each under its [`Name`], and puts the name on everything that goes in and out. A lock comes into being when
//! the application first asks for it or a peer first speaks of it; nobody has to announce it.
//!
//! ```text
//!                                    ┌────────── Named ─────────┐
//!   "backup", Acquire ──────────────▶│ "backup" ─▶ P            │──▶ Send "backup", Request { 1 }
//!   "lock-7", Reply { 4 } ──────────▶│ "lock-7" ─▶ P            │──▶ Emit "lock-7", Granted
//!                                    └──────────────────────────┘
//! ```
//!
//! **Memory**: a peer can make a process hold at most [`NamedConfig::with_limit`] locks; what it says of further names
//! is rejected. What the local application asks for is not limited, and a lock, once there, stays.
//!
//! **Counters**: a process that has not heard of a lock yet will begin to count at zero there, however far the others
//! have come. The numbers of the locks can therefore not be moved down together, and no visitor is led to them.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::{Debug, Display, Formatter};
use core::hash::{Hash, Hasher};

use conclave_core::{
    Boot, Effect, Effects, Incarnation, Input, Members, Message, NodeId, Phase, Protocol, Stamp, Through,
    Timing, erased,
};
use serde::{Deserialize, Serialize, Serializer};

use crate::STRANGER;
use crate::mutex::{self, Epoch, Locks, Mutex};
use crate::recorded::Token;

/// The name of a lock: 1 to 255 bytes, no control characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Name(Arc<str>);

/// Why a text cannot be a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// There is nothing in it.
    #[error("a name must not be empty")]
    Empty,
    /// It is too long.
    #[error("a name has at most {} bytes", Name::MAX_LEN)]
    TooLong,
    /// It has a line break, a tab or the like in it.
    #[error("a name must not contain control characters")]
    Control,
}

impl Name {
    /// The most bytes that a name can have.
    pub const MAX_LEN: usize = 255;

    /// Makes a name of a text.
    ///
    /// # Errors
    /// If the text is empty, too long, or contains control characters.
    pub fn new(text: &str) -> Result<Self, NameError> {
        match text {
            "" => Err(NameError::Empty),
            _ if text.len() > Self::MAX_LEN => Err(NameError::TooLong),
            _ if text.chars().any(char::is_control) => Err(NameError::Control),
            _ => Ok(Self(text.into())),
        }
    }

    /// The name `lock-k`.
    #[must_use]
    pub fn numbered(k: usize) -> Self {
        Self(format!("{NUMBERED}{k}").into())
    }

    /// The number in a name that [`numbered`](Self::numbered) made.
    #[must_use]
    pub fn number(&self) -> Option<usize> {
        let digits = self.0.strip_prefix(NUMBERED)?;
        let canonical = digits == "0" || !digits.starts_with(['0', '+']);
        digits.parse().ok().filter(|_| canonical)
    }

    /// A run that is judged asks for its locks by number. A live one may ask by any name, and goes by the name there.
    pub(crate) fn judged(&self) -> usize {
        self.number().unwrap_or(usize::MAX)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

const NUMBERED: &str = "lock-";

impl TryFrom<String> for Name {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        Self::new(&text)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl Display for Name {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Debug for Name {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        Debug::fmt(&self.0, f)
    }
}

/// Any number of instances of `P`, each under a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Named<P: Protocol> {
    id: NodeId,
    members: Members,
    config: NamedConfig<P>,
    timing: Timing,
    life: Incarnation,
    locks: BTreeMap<Name, P>,
    /// Whether a lock reads the clock; all of them have the same settings.
    reads_clock: bool,
    /// What each lock saved last; saved whole whenever one of them saves.
    durable: BTreeMap<Name, P::Durable>,
    /// The peers that are down, with their lives: a lock that comes into being must learn of them.
    down: BTreeMap<NodeId, Incarnation>,
}

/// Settings of [`Named`]: those of the algorithm, and how many locks peers may bring about.
///
/// All processes of a run share one: it is compared by identity, and a clone costs a counter.
pub struct NamedConfig<P: Protocol> {
    inner: Arc<P::Config>,
    limit: usize,
}

impl<P: Protocol> NamedConfig<P> {
    /// How many locks peers may bring about, unless told otherwise.
    pub const DEFAULT_LIMIT: usize = 4096;

    /// Peers may bring about locks until there are this many.
    #[must_use]
    pub fn with_limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }
}

impl<P: Mutex> NamedConfig<P> {
    /// Every lock runs with these settings of the algorithm, and rests while nobody wants it.
    #[must_use]
    pub fn new(inner: P::Config) -> Self {
        Self { inner: Arc::new(P::on_demand(inner)), limit: Self::DEFAULT_LIMIT }
    }
}

impl<P: Protocol> Clone for NamedConfig<P> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), limit: self.limit }
    }
}

impl<P: Protocol> Debug for NamedConfig<P> {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("NamedConfig").field("inner", &self.inner).field("limit", &self.limit).finish()
    }
}

impl<P: Protocol> PartialEq for NamedConfig<P> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner) && self.limit == other.limit
    }
}

impl<P: Protocol> Eq for NamedConfig<P> {}

impl<P: Protocol> Hash for NamedConfig<P> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.limit.hash(state);
    }
}

/// A message about one lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NamedMessage<M> {
    /// The lock.
    pub name: Name,
    /// What is said about it.
    pub message: M,
}

impl<M: Message> Message for NamedMessage<M> {
    fn kind(&self) -> &'static str {
        self.message.kind()
    }

    fn is_overhead(&self) -> bool {
        self.message.is_overhead()
    }

    fn envelopes(&self) -> u32 {
        1 + self.message.envelopes()
    }

    /// The lock that it is about.
    fn postmark(&self) -> String {
        format!("{}[{}]", self.message.postmark(), self.name)
    }
}

/// A request for one lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NamedRequest<R> {
    /// The lock.
    pub name: Name,
    /// What is asked of it.
    pub request: R,
}

/// An event of one lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NamedEvent<E> {
    /// The lock.
    pub name: Name,
    /// What it says.
    pub event: E,
}

impl<P: Protocol> Protocol for Named<P> {
    type Config = NamedConfig<P>;
    type Message = NamedMessage<P::Message>;
    type Request = NamedRequest<P::Request>;
    type Event = NamedEvent<P::Event>;
    type Timer = (Name, P::Timer);
    type Durable = BTreeMap<Name, P::Durable>;

    fn boot(boot: Boot<'_, Self>) -> Self {
        let mut named = Self {
            id: boot.id,
            members: boot.members.clone(),
            config: boot.config.clone(),
            timing: boot.timing,
            life: boot.life,
            locks: BTreeMap::new(),
            reads_clock: false,
            durable: boot.saved.unwrap_or_default(),
            down: BTreeMap::new(),
        };
        named.reads_clock = named.inner_boot(&Name::numbered(0)).reads_clock();
        // What was saved is taken up at once: a peer may count on it before anybody speaks of that lock again.
        named.locks = named.durable.keys().map(|name| (name.clone(), named.inner_boot(name))).collect();
        named
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        let out = &mut erased(out);
        match input {
            Input::Start => self.tell_every_lock(&Input::Start, out),
            Input::Receive { from, .. } if !self.members.has_other(self.id, from) => {
                out.reject(from, STRANGER);
            }
            Input::Receive { from, message: NamedMessage { name, message } } => {
                if !self.locks.contains_key(&name) && self.locks.len() >= self.config.limit {
                    return out.reject(from, "there are no more locks to be had than the limit allows");
                }
                self.open(&name, out);
                self.pass(&name, Input::Receive { from, message }, out);
            }
            Input::Request(NamedRequest { name, request }) => {
                self.open(&name, out);
                self.pass(&name, Input::Request(request), out);
            }
            Input::Expire((name, timer)) => self.pass(&name, Input::Expire(timer), out),
            Input::PeerDown { peer, life } => {
                if self.members.contains(peer) {
                    self.down.insert(peer, life);
                }
                self.tell_every_lock(&Input::PeerDown { peer, life }, out);
            }
            Input::PeerUp { peer, life } => {
                self.down.remove(&peer);
                self.tell_every_lock(&Input::PeerUp { peer, life }, out);
            }
        }
    }

    /// The most demanding of all locks.
    fn phase(&self) -> Phase {
        self.locks.values().map(P::phase).max_by_key(|phase| phase.band).unwrap_or(Phase::IDLE)
    }

    fn reads_clock(&self) -> bool {
        self.reads_clock
    }

    fn assert_invariants(&self) {
        assert!(
            self.durable.keys().all(|name| self.locks.contains_key(name)),
            "what was saved belongs to a lock that is there"
        );
        assert!(self.down.keys().all(|peer| self.members.contains(*peer)), "members are taken for dead");
        self.locks.values().for_each(P::assert_invariants);
    }
}

impl<P: Protocol> Named<P> {
    /// The lock of this name, if it has come into being.
    #[must_use]
    pub fn lock(&self, name: &Name) -> Option<&P> {
        self.locks.get(name)
    }

    /// The names of all locks that have come into being.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.locks.keys()
    }

    fn inner_boot(&self, name: &Name) -> P {
        P::boot(Boot {
            id: self.id,
            members: &self.members,
            config: &self.config.inner,
            timing: self.timing,
            life: self.life,
            saved: self.durable.get(name).cloned(),
        })
    }

    /// Brings a lock into being, if it is not there: it starts, and learns who is down.
    fn open(&mut self, name: &Name, out: &mut impl Effects<Self>) {
        if self.locks.contains_key(name) {
            return;
        }
        self.locks.insert(name.clone(), self.inner_boot(name));
        self.pass(name, Input::Start, out);
        for (peer, life) in self.down.clone() {
            self.pass(name, Input::PeerDown { peer, life }, out);
        }
    }

    fn tell_every_lock(&mut self, input: &Input<P>, out: &mut impl Effects<Self>) {
        for (name, lock) in &mut self.locks {
            lock.handle(input.clone(), &mut erased(&mut lifted(name, &mut self.durable, out)));
        }
    }

    /// Hands an input to a lock; a timer of one that is not there has nobody to wake.
    fn pass(&mut self, name: &Name, input: Input<P>, out: &mut impl Effects<Self>) {
        if let Some(lock) = self.locks.get_mut(name) {
            lock.handle(input, &mut erased(&mut lifted(name, &mut self.durable, out)));
        }
    }
}

/// Puts the name of a lock on its effects, and what it saves among what the others have saved.
fn lifted<P: Protocol>(
    name: &Name,
    durable: &mut BTreeMap<Name, P::Durable>,
    out: &mut impl Effects<Named<P>>,
) -> impl Effects<P> {
    let now = out.now();
    Through::new(now, move |effect: Effect<P>| match effect {
        Effect::Save(saved) => {
            durable.insert(name.clone(), saved);
            out.save(durable.clone());
        }
        Effect::Send { to, message } => out.send(to, NamedMessage { name: name.clone(), message }),
        Effect::Arm { timer, after } => out.arm((name.clone(), timer), after),
        Effect::Disarm(timer) => out.disarm((name.clone(), timer)),
        Effect::Emit(event) => out.emit(NamedEvent { name: name.clone(), event }),
        Effect::Reject { from, why } => out.reject(from, why),
    })
}

/// Lock `k` is the one that [`Name::numbered`] names.
impl<P: Mutex> Locks for Named<P> {
    fn ask(lock: usize, request: mutex::Request) -> Self::Request {
        NamedRequest { name: Name::numbered(lock), request }
    }

    fn ask_named(name: &Name, request: mutex::Request) -> Self::Request {
        NamedRequest { name: name.clone(), request }
    }

    fn asked(request: &Self::Request) -> (usize, mutex::Request) {
        (request.name.judged(), request.request)
    }

    fn told(event: &Self::Event) -> (usize, &mutex::Event) {
        (event.name.judged(), &event.event)
    }

    fn name_asked(request: &Self::Request) -> Option<&Name> {
        Some(&request.name)
    }

    fn name_told(event: &Self::Event) -> Option<&Name> {
        Some(&event.name)
    }

    fn announced(from: NodeId, message: &Self::Message) -> Option<(usize, Stamp)> {
        let stamp = <P as Mutex>::announced(from, &message.message)?;
        Some((message.name.number()?, stamp))
    }

    fn read(config: &Self::Config, bytes: &[u8]) -> Option<Self::Message> {
        // What is said comes last: all that the name leaves.
        let (NamedMessage::<()> { name, .. }, rest) = postcard::take_from_bytes(bytes).ok()?;
        let message = <P as Mutex>::read(&config.inner, rest)?;
        Some(NamedMessage { name, message })
    }

    const MOVES_TOKEN: bool = <P as Mutex>::MOVES_TOKEN;

    fn moves_token(config: &Self::Config) -> bool {
        <P as Mutex>::moves_token(&config.inner)
    }

    fn token(&self, lock: usize) -> Option<Epoch> {
        self.lock(&Name::numbered(lock)).and_then(Mutex::token)
    }

    fn token_in(message: &Self::Message) -> Option<(usize, Epoch)> {
        let epoch = <P as Mutex>::token_in(&message.message)?;
        Some((message.name.number()?, epoch))
    }

    fn tokens(&self) -> Vec<Token> {
        let token = |(name, lock): (&Name, &P)| Token { lock: name.to_string(), epoch: Mutex::token(lock) };
        self.locks.iter().map(token).collect()
    }

    fn named_token_in(message: &Self::Message) -> Option<Token> {
        let epoch = <P as Mutex>::token_in(&message.message)?;
        Some(Token { lock: message.name.to_string(), epoch: Some(epoch) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;

    /// A protocol that writes down what it is given, and saves it.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Diary {
        pages: Vec<String>,
    }

    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    struct Note(u32);

    impl Message for Note {
        fn kind(&self) -> &'static str {
            "Note"
        }
    }

    impl Protocol for Diary {
        type Config = ();
        type Message = Note;
        type Request = u32;
        type Event = u32;
        type Timer = u32;
        type Durable = Vec<String>;

        fn boot(boot: Boot<'_, Self>) -> Self {
            Self { pages: boot.saved.unwrap_or_default() }
        }

        fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
            self.pages.push(match input {
                Input::Start => "start".to_string(),
                Input::Receive { from, message } => format!("{} from {from}", message.0),
                Input::Expire(timer) => format!("timer {timer}"),
                Input::Request(number) => {
                    out.save(self.pages.clone());
                    out.send(NodeId(2), Note(number));
                    out.arm(number, conclave_core::After::exactly(core::time::Duration::ZERO));
                    out.emit(number);
                    format!("asked {number}")
                }
                Input::PeerDown { peer, life } => format!("{peer} down, {life}"),
                Input::PeerUp { peer, life } => format!("{peer} up, {life}"),
            });
        }

        fn phase(&self) -> Phase {
            if self.pages.len() > 2 { Phase::WAITING } else { Phase::IDLE }
        }
    }

    fn boot(limit: usize, saved: Option<BTreeMap<Name, Vec<String>>>) -> Named<Diary> {
        Named::boot(Boot {
            id: NodeId(1),
            members: &Members::numbered(3),
            config: &NamedConfig { inner: Arc::new(()), limit },
            timing: Timing::default(),
            life: Incarnation::FIRST,
            saved,
        })
    }

    fn name(text: &str) -> Name {
        Name::new(text).expect("a good name")
    }

    fn note(text: &str) -> Input<Named<Diary>> {
        Input::Receive { from: NodeId(2), message: NamedMessage { name: name(text), message: Note(7) } }
    }

    fn pages<'a>(named: &'a Named<Diary>, text: &str) -> &'a [String] {
        &named.lock(&name(text)).expect("the lock is there").pages
    }

    #[test]
    fn names_are_short_printable_texts() {
        assert_eq!(Name::new(""), Err(NameError::Empty));
        assert_eq!(Name::new(&"x".repeat(256)), Err(NameError::TooLong));
        assert_eq!(Name::new("a\nb"), Err(NameError::Control));
        assert_eq!(Name::new(&"ä".repeat(127)).map(|name| name.as_str().len()), Ok(254));
    }

    #[test]
    fn a_number_is_read_only_from_a_numbered_name() {
        for k in [0, 7, 10, 4096] {
            assert_eq!(Name::numbered(k).number(), Some(k));
        }
        for other in ["lock", "lock-", "lock-07", "lock-+7", "lock-x", "7"] {
            assert_eq!(name(other).number(), None);
        }
    }

    #[test]
    fn a_late_lock_starts_and_learns_who_is_down() {
        let (mut named, mut out) = (boot(9, None), Vec::new());
        let (peer, life) = (NodeId(3), Incarnation::FIRST);
        named.handle(Input::Start, &mut out);
        named.handle(note("early"), &mut out);
        named.handle(Input::PeerDown { peer, life }, &mut out);
        named.handle(note("late"), &mut out);
        named.handle(Input::PeerUp { peer, life }, &mut out);
        named.handle(note("latest"), &mut out);
        assert_eq!(pages(&named, "early"), ["start", "7 from p2", "p3 down, life 1", "p3 up, life 1"]);
        assert_eq!(pages(&named, "late"), ["start", "p3 down, life 1", "7 from p2", "p3 up, life 1"]);
        assert_eq!(pages(&named, "latest"), ["start", "7 from p2"]);
        assert_eq!(named.phase(), Phase::WAITING);
        assert!(out.is_empty());
    }

    #[test]
    fn effects_carry_the_name_and_what_is_saved_is_saved_together() {
        let (mut named, mut out) = (boot(9, None), Vec::new());
        for (text, request) in [("a", 1), ("b", 2)] {
            named.handle(Input::Request(NamedRequest { name: name(text), request }), &mut out);
        }
        let started = vec!["start".to_string()];
        let both: BTreeMap<_, _> = ["a", "b"].map(|text| (name(text), started.clone())).into();
        assert_eq!(out[4], Effect::Save(both.clone()));
        assert_eq!(
            out[5],
            Effect::Send { to: NodeId(2), message: NamedMessage { name: name("b"), message: Note(2) } }
        );
        assert!(matches!(&out[6], Effect::Arm { timer, .. } if *timer == (name("b"), 2)));
        assert_eq!(out[7], Effect::Emit(NamedEvent { name: name("b"), event: 2 }));

        // The next life takes up both, whoever asks first.
        let mut next = boot(9, Some(both));
        next.handle(Input::Start, &mut out);
        assert_eq!(pages(&next, "b"), ["start", "start"]);
    }

    #[test]
    fn peers_cannot_bring_about_more_locks_than_the_limit() {
        let (mut named, mut out) = (boot(2, None), Vec::new());
        for text in ["a", "b", "c", "a"] {
            named.handle(note(text), &mut out);
        }
        assert_eq!(out.len(), 1);
        assert!(matches!(out[0], Effect::Reject { from: NodeId(2), .. }));
        named.handle(Input::Request(NamedRequest { name: name("c"), request: 1 }), &mut out);
        assert_eq!(pages(&named, "c"), ["start", "asked 1"]);
    }
}
