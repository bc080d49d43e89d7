//! Global snapshots of any protocol, recorded while it runs.
//!
//! Chandy, Lamport: *Distributed snapshots: determining global states of distributed systems*, ACM TOCS 3(1), 1985.
//!
//! [`Recorded`] holds a process of any protocol and records it when it is asked to. It changes nothing that the protocol
//! does: it puts markers between the messages and looks at what comes in.
//!
//! ```text
//!   p1 ──m──●━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━○──      ● p1 records itself and sends a marker on every channel
//!        ╲   ╲ Marker                  Marker ╱                 before anything else
//!   p2 ───▼───▼●━━━━━━━━━━━━━━━━━━━━━━━━━━━━━●────────        ● p2 records itself at the first marker; what arrives on a
//!         m     ╲ n                                             channel from then until its marker was in flight: n
//! ```
//!
//! - Whoever begins records its own state, and sends a marker on every channel before any other message.
//! - Whoever receives a marker for the first time does the same. The channel on which it came was empty.
//! - What arrives on another channel before its marker was in flight when the sender recorded itself.
//! - When the markers of all channels have arrived, the process reports its part to whoever began.
//!
//! **The cut is consistent**: nothing is received in it that is not sent in it. It is a state that the group could have been
//! in: the steps before the cut can be taken first and those after it next, without changing what any process sees. So a
//! property that stays true once it is true, such as a lost token or a deadlock, may be decided from it.
//!
//! **Cost**: one marker per channel, n(n − 1), and n − 1 reports.
//!
//! **Assumes** reliable channels that keep their order, and that nobody crashes meanwhile. On a channel that lets a marker
//! overtake a message, the message is missed.
//!
//! **Several at once** are told apart by their [`Snapshot`]: who began it, in which life, and its number.
//!
//! **Crashes**: a process that is suspected has no part in a snapshot that is under way, and its channels count as closed.
//! The snapshot ends, and says who is missing.
//!
//! **Caveats**: a process records its state in memory, not what it has saved. A [`Part`] says of a state what the cut is
//! judged by: phase, tokens, timers. All of the state is in the event [`Telling::Saved`].

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{Debug, Display, Formatter};

use conclave_core::{
    Band, Boot, Counter, Effect, Effects, Group, Incarnation, Input, Lease, Members, Message, NodeId, Phase,
    Protocol, Through, erased,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::STRANGER;
use crate::mutex::Epoch;

mod cut;
mod family;
mod judging;
mod ledger;
mod metering;
mod using;

#[cfg(test)]
mod tests;

pub use cut::{Cut, Flight, Part, Standing};
pub use family::{Layer, Recording, SETTING, SNAPSHOT, is_wanted};
pub use ledger::Cuts;
pub use metering::Snapshots;

/// More recordings than this are not under way at a time in one process.
const MOST_RECORDINGS: usize = 256;

/// A protocol whose state tells what a snapshot is judged by.
pub trait Recordable: Protocol {
    /// The token of each lock that this process knows of, or that it does not have it.
    fn tokens(&self) -> Vec<Token> {
        Vec::new()
    }

    /// The token that a message carries.
    fn token_in(_message: &Self::Message) -> Option<Token> {
        None
    }
}

/// The token of a lock, or that it is not here.
///
/// Where people read it, it is an epoch: the names of locks do not belong into the record of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    /// Of which lock; empty where there is only one.
    pub lock: String,
    /// Of which epoch: only those of the latest count. Nothing if a process knows of the lock and does not have the token.
    pub epoch: Option<Epoch>,
}

impl Token {
    /// That of the only lock.
    #[must_use]
    pub fn only(epoch: Option<Epoch>) -> Self {
        Self { lock: String::new(), epoch }
    }
}

impl Serialize for Token {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => self.epoch.serialize(serializer),
            false => (&self.lock, self.epoch).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.is_human_readable() {
            true => Option::deserialize(deserializer).map(Self::only),
            false => Deserialize::deserialize(deserializer).map(|(lock, epoch)| Self { lock, epoch }),
        }
    }
}

/// A snapshot: who began it, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Snapshot {
    /// Who began it, and gathers it.
    pub process: NodeId,
    /// In which life.
    pub life: Incarnation,
    /// The how manieth it was there.
    pub number: u64,
}

/// `p1.2`; in the third life of p1 `p1/3.2`.
impl Display for Snapshot {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        match self.life {
            Incarnation::FIRST => write!(f, "{}.{}", self.process, self.number),
            Incarnation(life) => write!(f, "{}/{life}.{}", self.process, self.number),
        }
    }
}

/// How states are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// With a marker on every channel.
    #[default]
    Markers,
    /// Whoever begins tells everyone to record its state, and channels are taken for empty. Here to be caught.
    Naive,
}

/// A process of `P` that can be recorded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Recorded<P: Protocol> {
    inner: P,
    id: NodeId,
    members: Members,
    life: Incarnation,
    mode: Mode,
    moves_token: bool,
    /// The timers of `inner` that are armed.
    timers: BTreeSet<P::Timer>,
    /// Who is suspected.
    down: BTreeMap<NodeId, Incarnation>,
    /// How many snapshots were begun here in this life.
    begun: u64,
    recordings: BTreeMap<Snapshot, Record<P::Message>>,
    /// The latest snapshot of each process that is finished here: a marker that comes late begins nothing.
    finished: BTreeMap<NodeId, (Incarnation, u64)>,
    /// What was reported of the snapshots that were begun here and are not complete.
    gathered: BTreeMap<Snapshot, BTreeMap<NodeId, Option<Part>>>,
}

/// A recording under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Record<M> {
    standing: Standing,
    /// The channels whose marker has not come.
    open: BTreeSet<NodeId>,
    /// What was in flight, by sender.
    channels: BTreeMap<NodeId, Vec<M>>,
}

/// Settings of [`Recorded`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordedConfig<C> {
    /// Those of the protocol.
    pub inner: C,
    /// How states are recorded.
    pub mode: Mode,
    /// Whether there is a token that moves.
    pub moves_token: bool,
    /// Who begins a snapshot in a search, once each and at any moment.
    pub beginners: Vec<NodeId>,
}

/// What processes that can be recorded say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RecordedMessage<M> {
    /// What the protocol says.
    Algorithm {
        /// What.
        message: M,
    },
    /// What came before this on its channel belongs into the snapshot.
    Marker {
        /// Which snapshot.
        snapshot: Snapshot,
    },
    /// What the sender has recorded.
    Report {
        /// For which snapshot.
        snapshot: Snapshot,
        /// What.
        part: Part,
    },
}

use RecordedMessage as Msg;

impl<M: Message> Message for RecordedMessage<M> {
    fn kind(&self) -> &'static str {
        match self {
            Self::Algorithm { message } => message.kind(),
            Self::Marker { .. } => "Marker",
            Self::Report { .. } => "Report",
        }
    }

    fn is_overhead(&self) -> bool {
        match self {
            Self::Algorithm { message } => message.is_overhead(),
            Self::Marker { .. } | Self::Report { .. } => true,
        }
    }

    fn envelopes(&self) -> u32 {
        match self {
            Self::Algorithm { message } => 1 + message.envelopes(),
            Self::Marker { .. } | Self::Report { .. } => 0,
        }
    }

    fn postmark(&self) -> String {
        match self {
            Self::Algorithm { message } => message.postmark(),
            Self::Marker { .. } | Self::Report { .. } => String::new(),
        }
    }

    fn visit_counters(&mut self, from: NodeId, members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            Self::Algorithm { message } => message.visit_counters(from, members, visit),
            Self::Marker { .. } | Self::Report { .. } => {}
        }
    }
}

/// What a process that can be recorded may be asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Wanting<R> {
    /// What the protocol may be asked.
    Algorithm(R),
    /// Begin a snapshot.
    Snapshot,
}

/// What a process that can be recorded tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Telling<P: Protocol> {
    /// What the protocol tells.
    Algorithm(P::Event),
    /// Its state belongs into a snapshot.
    Saved {
        /// Which.
        snapshot: Snapshot,
        /// The state.
        state: P,
    },
    /// The markers of all channels have come.
    Closed {
        /// Of which snapshot.
        snapshot: Snapshot,
        /// What was in flight, by sender; everyone whose marker came is listed.
        channels: BTreeMap<NodeId, Vec<P::Message>>,
    },
    /// A snapshot that was begun here is complete.
    Complete(Cut),
}

impl<P: Recordable> Protocol for Recorded<P> {
    type Config = RecordedConfig<P::Config>;
    type Message = RecordedMessage<P::Message>;
    type Request = Wanting<P::Request>;
    type Event = Telling<P>;
    type Timer = P::Timer;
    type Durable = P::Durable;

    fn boot(boot: Boot<'_, Self>) -> Self {
        let Boot { id, members, config, timing, life, saved } = boot;
        Self {
            inner: P::boot(Boot { id, members, config: &config.inner, timing, life, saved }),
            id,
            members: members.clone(),
            life,
            mode: config.mode,
            moves_token: config.moves_token,
            timers: BTreeSet::new(),
            down: BTreeMap::new(),
            begun: 0,
            recordings: BTreeMap::new(),
            finished: BTreeMap::new(),
            gathered: BTreeMap::new(),
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        let out = &mut erased(out);
        match input {
            Input::Start => self.pass(Input::Start, out),
            Input::Receive { from, message: Msg::Algorithm { message } } => {
                self.note(from, &message);
                self.pass(Input::Receive { from, message }, out);
            }
            Input::Receive { from, .. } if !self.members.has_other(self.id, from) => {
                out.reject(from, STRANGER);
            }
            Input::Receive { from, message: Msg::Marker { snapshot } } => {
                self.on_marker(from, snapshot, out);
            }
            Input::Receive { from, message: Msg::Report { snapshot, part } } => {
                self.on_report(from, snapshot, part, out);
            }
            Input::Expire(timer) => {
                self.timers.remove(&timer);
                self.pass(Input::Expire(timer), out);
            }
            Input::Request(Wanting::Algorithm(request)) => self.pass(Input::Request(request), out),
            Input::Request(Wanting::Snapshot) => self.begin(out),
            Input::PeerDown { peer, life } => {
                self.pass(Input::PeerDown { peer, life }, out);
                if self.members.has_other(self.id, peer) {
                    self.lose(peer, life, out);
                }
            }
            Input::PeerUp { peer, life } => {
                self.down.remove(&peer);
                self.pass(Input::PeerUp { peer, life }, out);
            }
        }
    }

    fn phase(&self) -> Phase {
        self.inner.phase()
    }

    fn reads_clock(&self) -> bool {
        self.inner.reads_clock()
    }

    fn visit_leases(&self, visit: &mut dyn FnMut(&str, Lease)) -> bool {
        self.inner.visit_leases(visit)
    }

    fn group(&self) -> Option<Group> {
        self.inner.group()
    }

    fn assert_invariants(&self) {
        self.inner.assert_invariants();
        assert!(
            self.recordings.values().all(|recording| !recording.open.is_empty()),
            "a recording waits for a marker"
        );
        assert!(
            self.gathered.keys().all(|snapshot| snapshot.process == self.id),
            "who begins a snapshot gathers it"
        );
        assert!(self.recordings.len() <= MOST_RECORDINGS, "recordings are limited");
    }
}

impl<P: Recordable> Recorded<P> {
    /// The process that is recorded.
    #[must_use]
    pub fn inner(&self) -> &P {
        &self.inner
    }

    /// Hands an input to the protocol; its effects go out as they are.
    fn pass(&mut self, input: Input<P>, out: &mut impl Effects<Self>) {
        let (now, timers) = (out.now(), &mut self.timers);
        let mut through = Through::new(now, |effect: Effect<P>| match effect {
            Effect::Save(durable) => out.save(durable),
            Effect::Send { to, message } => out.send(to, Msg::Algorithm { message }),
            Effect::Arm { timer, after } => {
                timers.insert(timer.clone());
                out.arm(timer, after);
            }
            Effect::Disarm(timer) => {
                timers.remove(&timer);
                out.disarm(timer);
            }
            Effect::Emit(event) => out.emit(Telling::Algorithm(event)),
            Effect::Reject { from, why } => out.reject(from, why),
        });
        self.inner.handle(input, &mut erased(&mut through));
    }

    /// A message arrived: it was in flight for every snapshot that waits for the marker of its channel.
    fn note(&mut self, from: NodeId, message: &P::Message) {
        for recording in self.recordings.values_mut().filter(|recording| recording.open.contains(&from)) {
            recording.channels.entry(from).or_default().push(message.clone());
        }
    }

    fn begin(&mut self, out: &mut impl Effects<Self>) {
        self.begun += 1;
        let snapshot = Snapshot { process: self.id, life: self.life, number: self.begun };
        let missing = self.members.iter().filter(|peer| self.down.contains_key(peer));
        self.gathered.insert(snapshot, missing.map(|peer| (peer, None)).collect());
        self.record(snapshot, out);
    }

    /// The first marker records; every marker closes its channel.
    fn on_marker(&mut self, from: NodeId, snapshot: Snapshot, out: &mut impl Effects<Self>) {
        let is_ours = snapshot.process == self.id;
        if !self.members.contains(snapshot.process) || (is_ours && !self.is_known(snapshot)) {
            return out.reject(from, "a marker belongs to a snapshot that somebody began");
        }
        if !self.recordings.contains_key(&snapshot) {
            // It was finished without this marker: its sender was taken for dead.
            if is_ours || self.finished.get(&snapshot.process) >= Some(&(snapshot.life, snapshot.number)) {
                return;
            }
            if self.recordings.len() >= MOST_RECORDINGS {
                return out.reject(from, "there are too many snapshots at a time");
            }
            self.record(snapshot, out);
        }
        self.close(snapshot, from, out);
    }

    /// Whether we began this snapshot.
    fn is_known(&self, snapshot: Snapshot) -> bool {
        snapshot.process == self.id
            && snapshot.life == self.life
            && (1..=self.begun).contains(&snapshot.number)
    }

    /// Records the state of this process, and says so on every channel before anything else is sent.
    fn record(&mut self, snapshot: Snapshot, out: &mut impl Effects<Self>) {
        let peers = || self.members.iter().filter(|peer| *peer != self.id && !self.down.contains_key(peer));
        let is_gatherer = snapshot.process == self.id;
        if self.mode == Mode::Markers || is_gatherer {
            out.send_all(peers(), &Msg::Marker { snapshot });
        }
        let (open, channels) = match self.mode {
            Mode::Markers => (peers().collect(), peers().map(|peer| (peer, Vec::new())).collect()),
            Mode::Naive => (BTreeSet::new(), peers().map(|peer| (peer, Vec::new())).collect()),
        };
        out.emit(Telling::Saved { snapshot, state: self.inner.clone() });
        let standing = Standing::of(&self.inner, self.timers.len(), self.moves_token);
        self.recordings.insert(snapshot, Record { standing, open, channels });
        self.maybe_finish(snapshot, out);
    }

    fn close(&mut self, snapshot: Snapshot, from: NodeId, out: &mut impl Effects<Self>) {
        if let Some(recording) = self.recordings.get_mut(&snapshot) {
            recording.open.remove(&from);
            self.maybe_finish(snapshot, out);
        }
    }

    /// When all markers have come, our part is complete.
    fn maybe_finish(&mut self, snapshot: Snapshot, out: &mut impl Effects<Self>) {
        if self.recordings.get(&snapshot).is_none_or(|recording| !recording.open.is_empty()) {
            return;
        }
        let Record { standing, channels, .. } =
            self.recordings.remove(&snapshot).expect("it was there a moment ago");
        let latest = self.finished.entry(snapshot.process).or_insert((snapshot.life, 0));
        *latest = (*latest).max((snapshot.life, snapshot.number));
        let part = Part::of::<P>(standing, &channels);
        out.emit(Telling::Closed { snapshot, channels });
        if snapshot.process == self.id {
            self.gather(snapshot, self.id, part, out);
        } else if !self.down.contains_key(&snapshot.process) {
            out.send(snapshot.process, Msg::Report { snapshot, part });
        }
    }

    fn on_report(&mut self, from: NodeId, snapshot: Snapshot, part: Part, out: &mut impl Effects<Self>) {
        if !self.is_known(snapshot) {
            // A former life began it, or nobody did.
            if snapshot.process != self.id || snapshot.life >= self.life {
                out.reject(from, "a report goes to who began the snapshot");
            }
            return;
        }
        self.gather(snapshot, from, part, out);
    }

    /// A part has come; a late one of somebody who was taken for dead changes nothing.
    fn gather(&mut self, snapshot: Snapshot, from: NodeId, part: Part, out: &mut impl Effects<Self>) {
        if let Some(parts) = self.gathered.get_mut(&snapshot) {
            parts.entry(from).or_insert(Some(part));
            self.maybe_complete(snapshot, out);
        }
    }

    fn maybe_complete(&mut self, snapshot: Snapshot, out: &mut impl Effects<Self>) {
        let is_complete =
            |parts: &BTreeMap<_, _>| self.members.iter().all(|member| parts.contains_key(&member));
        if self.gathered.get(&snapshot).is_some_and(is_complete) {
            let parts = self.gathered.remove(&snapshot).expect("it was there a moment ago");
            out.emit(Telling::Complete(Cut { snapshot, moves_token: self.moves_token, parts }));
        }
    }

    /// A peer is suspected: its channels are closed, and it has no part in what is under way.
    fn lose(&mut self, peer: NodeId, life: Incarnation, out: &mut impl Effects<Self>) {
        self.down.insert(peer, life);
        let gathered: Vec<_> = self.gathered.keys().copied().collect();
        for snapshot in gathered {
            if let Some(parts) = self.gathered.get_mut(&snapshot) {
                parts.entry(peer).or_insert(None);
            }
        }
        let recordings: Vec<_> = self.recordings.keys().copied().collect();
        for snapshot in recordings {
            self.close(snapshot, peer, out);
        }
        let gathered: Vec<_> = self.gathered.keys().copied().collect();
        for snapshot in gathered {
            self.maybe_complete(snapshot, out);
        }
    }
}

/// Whether a phase waits, or has what all may want.
fn band(phase: Phase) -> (bool, bool) {
    (phase.band == Band::Waiting, phase.band == Band::Holding)
}
