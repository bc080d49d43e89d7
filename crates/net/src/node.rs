//! The one task that owns the state machine.
//!
//! It takes one input at a time, from the network, the application, its timers and the failure detector. What the state
//! machine wants done is staged, and released after a few inputs together: first what must be durable, then the records,
//! then the messages and events. So nothing leaves before what it rests on is on disk, and many messages share one
//! write.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use conclave_core::{Effect, Group, Incarnation, Input, Message, NodeId, Protocol, Timed};
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::clock::{Clock, boot_time};
use crate::frame::Stamp;
use crate::hello::Refusal;
use crate::outbox::{Letter, Pushed};
use crate::peer::{Arrival, Hub, Peer, Stage, lock};
use crate::record::Journal;
use crate::store::{Stable, durable_bytes};
use crate::timers::Timers;

/// Arrivals that are handled before their effects are released.
const TOGETHER: usize = 16;

/// Bytes that a frame needs around a message.
const FRAME_HEAD: usize = 64;

/// Why a node stopped by itself.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NodeError {
    /// What the algorithm wanted to be durable may not be; nothing that rests on it has left.
    #[error("what must be durable could not be saved: {0}")]
    Save(#[source] io::Error),
    /// A message is larger than a frame may be.
    #[error("a {kind} of {size} bytes does not fit into a frame; raise the limit on every node")]
    TooLarge {
        /// Its kind.
        kind: &'static str,
        /// Its size.
        size: usize,
    },
    /// The state machine broke its own invariant.
    #[error("the state machine panicked: {0}")]
    Panic(String),
    /// A peer knows that this node cannot take part as it is.
    #[error("{peer} refuses it: {}", disowned(*why))]
    Disowned {
        /// Who.
        peer: NodeId,
        /// Why.
        why: Refusal,
    },
}

/// What to do about a refusal that is final.
fn disowned(why: Refusal) -> String {
    match why {
        Refusal::Directory { newest } => format!(
            "{newest} of it has been seen, with another data directory. If that is lost, and with it what the process \
             promised, put 'life = {}' into its file",
            newest.next().0
        ),
        Refusal::StaleLife => {
            "a later life of it has been seen. Its data directory is a copy, or older than it should be"
                .to_owned()
        }
        Refusal::Stranger => {
            "it is not among the processes there. Put it into the files of all others first".to_owned()
        }
        other => other.to_string(),
    }
}

/// Until when something may be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// When everything that runs inside must have ended, as [`boot_time`] counts.
    pub until: Duration,
    /// How long before that a program is told to end.
    pub notice: Duration,
}

/// What is held, by name, and until when; nothing if nothing runs out.
pub(crate) type Leases = Option<BTreeMap<String, Held>>;

/// How old what is said of leases may be: it grows old without harm, but is renewed later.
const STALE: Duration = Duration::from_millis(20);

/// What the state machine believes of a peer.
struct Belief {
    peer: Arc<Peer>,
    /// The life that it knows of; none before the first contact.
    life: Option<Incarnation>,
    is_up: bool,
    /// It said goodbye: only a later life of it can be trusted again.
    is_over: bool,
    /// The generation of the way to it that messages are written for.
    generation: u64,
    /// Messages of the steps since the last release.
    staged: Vec<Letter>,
}

/// Messages of one kind that the state machine sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// How many.
    pub count: u64,
    /// Whether they are counted apart from the algorithm's own.
    pub is_overhead: bool,
}

/// Messages by kind; there are so few kinds that looking through them is quickest.
#[derive(Default)]
pub(crate) struct Tally(Vec<(&'static str, Sent)>);

impl Tally {
    fn add(&mut self, kind: &'static str, sent: Sent) {
        match self.0.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, total)) => {
                total.count += sent.count;
                total.is_overhead = sent.is_overhead;
            }
            None => self.0.push((kind, sent)),
        }
    }

    pub fn by_kind(&self) -> BTreeMap<&'static str, Sent> {
        self.0.iter().copied().collect()
    }
}

pub(crate) struct Core<P: Protocol> {
    pub hub: Arc<Hub<P>>,
    pub state: P,
    pub store: Option<Box<dyn Stable>>,
    pub journal: Option<Journal<P>>,
    pub inbox: mpsc::Receiver<Arrival<P>>,
    pub requests: mpsc::Receiver<P::Request>,
    pub events: mpsc::Sender<P::Event>,
    pub tally: Arc<Mutex<Tally>>,
    leases: Arc<Mutex<Leases>>,
    group: Arc<Mutex<Option<Group>>>,
    /// When leases and the group were last looked at.
    looked: Duration,
    clock: Clock,
    /// Whether requests wait until another process was met.
    looks_around: bool,
    beliefs: BTreeMap<NodeId, Belief>,
    timers: Timers<P::Timer>,
    effects: Vec<Effect<P>>,
    unsaved: Option<P::Durable>,
    told: Vec<P::Event>,
    counted: Tally,
    /// How long after the first contact requests are still not taken: so long it may take to be told that one does not belong.
    settling: Duration,
    /// When that is over.
    settled: Option<Instant>,
}

/// What a node is made of.
pub(crate) struct Parts<P: Protocol> {
    pub hub: Arc<Hub<P>>,
    pub state: P,
    pub store: Box<dyn Stable>,
    pub journal: Option<Journal<P>>,
    pub inbox: mpsc::Receiver<Arrival<P>>,
    pub requests: mpsc::Receiver<P::Request>,
    pub events: mpsc::Sender<P::Event>,
    pub tally: Arc<Mutex<Tally>>,
    pub leases: Arc<Mutex<Leases>>,
    pub group: Arc<Mutex<Option<Group>>>,
    pub clock: Clock,
    pub looks_around: bool,
    pub settling: Duration,
}

impl<P: Protocol> Core<P> {
    pub fn new(parts: Parts<P>) -> Self {
        let Parts {
            hub,
            state,
            store,
            journal,
            inbox,
            requests,
            events,
            tally,
            leases,
            group,
            clock,
            looks_around,
            settling,
        } = parts;
        let looks_around = looks_around && !hub.peers.is_empty();
        let belief = |peer: &Arc<Peer>| Belief {
            peer: Arc::clone(peer),
            life: None,
            is_up: true,
            is_over: false,
            generation: 0,
            staged: Vec::new(),
        };
        let beliefs = hub.peers.iter().map(|(id, peer)| (*id, belief(peer))).collect();
        Self {
            hub,
            state,
            store: Some(store),
            journal,
            inbox,
            requests,
            events,
            tally,
            leases,
            group,
            looked: Duration::ZERO,
            clock,
            looks_around,
            beliefs,
            timers: Timers::new(),
            effects: Vec::new(),
            unsaved: None,
            told: Vec::new(),
            counted: Tally::default(),
            settling,
            settled: None,
        }
    }

    /// Starts the state machine; afterwards it may be spoken to.
    pub async fn start(&mut self) -> Result<(), NodeError> {
        self.step(Input::Start, None)?;
        self.release().await
    }

    /// Runs until the node is stopped.
    pub async fn run(mut self) -> Result<(), NodeError> {
        let hub = Arc::clone(&self.hub);
        let mut stop = core::pin::pin!(hub.until(Stage::Closing));
        let mut tick = interval(hub.detector.beat / 2);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let far = Duration::from_secs(3_600);
        let mut alarm = core::pin::pin!(sleep_until(Instant::now() + far));
        loop {
            let next = self.timers.next();
            if let Some(next) = next.filter(|next| *next != alarm.deadline()) {
                alarm.as_mut().reset(next);
            }
            let is_high = self.is_high();
            let takes_requests = !is_high && !self.is_looking_around();
            tokio::select! {
                () = &mut stop => return Ok(()),
                Some(arrival) = self.inbox.recv() => self.arrive(arrival)?,
                () = &mut alarm, if next.is_some() => self.expire()?,
                _ = tick.tick() => self.watch()?,
                Some(request) = self.requests.recv(), if takes_requests => self.step(Input::Request(request), None)?,
                () = hub.room.notified(), if is_high => {}
            }
            for _ in 1..TOGETHER {
                let Ok(arrival) = self.inbox.try_recv() else { break };
                self.arrive(arrival)?;
            }
            self.release().await?;
        }
    }

    /// Whether so much waits for a living peer that the application must not ask for more.
    fn is_high(&self) -> bool {
        self.beliefs.values().any(|belief| belief.is_up && belief.peer.outbox.is_high())
    }

    /// Whether nobody has been met yet, and somebody may still come up; or somebody was met just now. A process that has never
    /// met anybody may not be where it belongs: the others may be in the middle of something of which it knows nothing, and
    /// who is met may need as long as an answer takes to say so.
    fn is_looking_around(&mut self) -> bool {
        if self.looks_around {
            let has_met = self.beliefs.values().any(|belief| belief.life.is_some());
            if has_met && self.settled.is_none() {
                self.settled = Some(Instant::now() + self.settling);
            }
            self.looks_around = match self.settled {
                Some(settled) => Instant::now() < settled,
                None => self.beliefs.values().any(|belief| belief.is_up),
            };
        }
        self.looks_around
    }

    fn expire(&mut self) -> Result<(), NodeError> {
        let now = Instant::now();
        while let Some(timer) = self.timers.expire(now) {
            self.step(Input::Expire(timer), None)?;
        }
        Ok(())
    }

    fn arrive(&mut self, arrival: Arrival<P>) -> Result<(), NodeError> {
        match arrival {
            Arrival::Contact { peer, life, generation, gap } => self.on_contact(peer, life, generation, gap),
            Arrival::Letters { peer, life, letters } => {
                // What a life said that is known to be over is of no interest; its successor counts on that.
                let Some(belief) = self.beliefs.get(&peer) else { return Ok(()) };
                if belief.is_over || belief.life != Some(life) {
                    return Ok(());
                }
                self.trust(peer)?;
                for (stamp, message) in letters {
                    self.step(Input::Receive { from: peer, message }, stamp.as_ref())?;
                }
                Ok(())
            }
            Arrival::Bye { peer, life } => {
                let Some(belief) = self.beliefs.get_mut(&peer) else { return Ok(()) };
                if belief.life != Some(life) {
                    return Ok(());
                }
                belief.is_over = true;
                belief.peer.outbox.finish(life);
                self.suspect(peer)
            }
            Arrival::Disowned { peer, why } => Err(NodeError::Disowned { peer, why }),
        }
    }

    /// A connection with a life of a peer began: the end of the life before is handed in first.
    fn on_contact(
        &mut self,
        id: NodeId,
        life: Incarnation,
        generation: u64,
        gap: bool,
    ) -> Result<(), NodeError> {
        let Some(belief) = self.beliefs.get_mut(&id) else { return Ok(()) };
        let is_new = belief.life.is_some_and(|known| known < life);
        if belief.life.is_some_and(|known| known > life) || (belief.is_over && !is_new) {
            return Ok(());
        }
        let is_broken = gap || generation > belief.generation;
        if is_new || (is_broken && belief.life.is_some()) {
            self.suspect(id)?;
        }
        let Some(belief) = self.beliefs.get_mut(&id) else { return Ok(()) };
        belief.life = Some(life);
        belief.is_over = false;
        if generation > belief.generation {
            // What was said on the way that broke does not go on the next one.
            belief.generation = generation;
            belief.staged.clear();
        }
        // A handshake is no sign of life.
        if belief.peer.pulse().is_suspect(self.hub.now()) { Ok(()) } else { self.trust(id) }
    }

    /// Hands in that a peer is down, if it was up.
    fn suspect(&mut self, peer: NodeId) -> Result<(), NodeError> {
        let Some(belief) = self.beliefs.get_mut(&peer).filter(|belief| belief.is_up) else { return Ok(()) };
        belief.is_up = false;
        belief.peer.counts.suspected.store(true, Ordering::Relaxed);
        // Who was never met is believed to be in its first life.
        let life = belief.life.unwrap_or(Incarnation::FIRST);
        tracing::info!("{peer} is down, {life}");
        self.step(Input::PeerDown { peer, life }, None)
    }

    /// Hands in that a peer is up, if it was down.
    fn trust(&mut self, peer: NodeId) -> Result<(), NodeError> {
        let Some(belief) = self.beliefs.get_mut(&peer).filter(|belief| !belief.is_up) else { return Ok(()) };
        let Some(life) = belief.life else { return Ok(()) };
        belief.is_up = true;
        belief.peer.counts.suspected.store(false, Ordering::Relaxed);
        tracing::info!("{peer} is up, {life}");
        self.step(Input::PeerUp { peer, life }, None)
    }

    /// Looks at the failure detectors.
    fn watch(&mut self) -> Result<(), NodeError> {
        if self.hub.is_out_of_pace() {
            // It may be we who stood still; what the peers said meanwhile is yet to be read.
            return Ok(());
        }
        let now = self.hub.now();
        let stall = self.hub.limits.stall;
        let mut silent = Vec::new();
        let mut alive = Vec::new();
        for (id, belief) in &self.beliefs {
            let outbox = &belief.peer.outbox;
            let is_stalled = outbox.waiting_since().is_some_and(|since| since.elapsed() > stall);
            let is_broken = outbox.generation() != belief.generation;
            let is_silent = belief.peer.pulse().is_suspect(now);
            if is_stalled || (is_silent && !self.is_heard_elsewhere(belief, now)) {
                silent.push(*id);
            } else if !is_silent && !belief.is_over && !is_broken {
                alive.push(*id);
            }
        }
        silent.into_iter().try_for_each(|peer| self.suspect(peer))?;
        alive.into_iter().try_for_each(|peer| self.trust(peer))
    }

    /// Whether somebody else hears a peer that we do not: then it is the way to it that is broken.
    fn is_heard_elsewhere(&self, silent: &Belief, now: Duration) -> bool {
        let refused = *lock(&silent.peer.counts.refused_by_us);
        // With whom we do not want to speak we shall not speak by way of others either.
        if silent.is_over || refused.is_some_and(|why| why != Refusal::Cut) {
            return false;
        }
        let mut others =
            self.beliefs.values().filter(|belief| belief.is_up && belief.peer.id != silent.peer.id);
        others.any(|other| other.peer.hears(silent.peer.id, silent.life, now))
    }

    /// Hands one input to the state machine and stages what it wants done.
    fn step(&mut self, input: Input<P>, stamp: Option<&Stamp>) -> Result<(), NodeError> {
        let shown = self.clock.read();
        if let Some(journal) = &mut self.journal {
            let sender = match &input {
                Input::Receive { from, .. } => self.beliefs.get(from).map(|belief| belief.peer.place),
                _ => None,
            };
            let read = self.state.reads_clock().then_some(shown);
            journal.input(&input, stamp, sender, read);
        }
        let mut effects = core::mem::take(&mut self.effects);
        self.state.handle(input, &mut Timed { now: shown.reading(), effects: &mut effects });
        let staged = effects.drain(..).try_for_each(|effect| self.stage(effect));
        self.effects = effects;
        if let Some(journal) = &mut self.journal {
            journal.handled(self.state.phase());
        }
        staged
    }

    fn stage(&mut self, effect: Effect<P>) -> Result<(), NodeError> {
        match effect {
            // The last one replaces those before it, none of which anything that has left rests on.
            Effect::Save(durable) => self.unsaved = Some(durable),
            Effect::Send { to, message } => return self.stage_message(to, &message),
            Effect::Arm { timer, after } => self.timers.arm(timer, after, Instant::now()),
            Effect::Disarm(timer) => self.timers.disarm(&timer),
            Effect::Emit(event) => {
                if let Some(journal) = &mut self.journal {
                    journal.emit(&event);
                }
                self.told.push(event);
            }
            Effect::Reject { from, why } => {
                if let Some(journal) = &mut self.journal {
                    journal.reject(from, &why);
                }
                self.hub.complaints.about(&from, &why);
            }
        }
        Ok(())
    }

    fn stage_message(&mut self, to: NodeId, message: &P::Message) -> Result<(), NodeError> {
        let Some(belief) = self.beliefs.get_mut(&to) else {
            let what = format_args!("a {} to it, who is not a peer, goes nowhere", message.kind());
            self.hub.complaints.about(&to, &what);
            return Ok(());
        };
        self.counted.add(message.kind(), Sent { count: 1, is_overhead: message.is_overhead() });
        let body = postcard::to_stdvec(message).expect("a message is plain data");
        let stamp = self.journal.as_mut().map(|journal| journal.send(to, belief.peer.place, message));
        let head = FRAME_HEAD + stamp.as_ref().map_or(0, |stamp| 10 * stamp.vector.entries().len());
        if body.len() + head > self.hub.limits.frame {
            return Err(NodeError::TooLarge { kind: message.kind(), size: body.len() });
        }
        belief.staged.push(Letter { stamp, body });
        Ok(())
    }

    /// Lets out what was staged, in the order in which it may be seen.
    async fn release(&mut self) -> Result<(), NodeError> {
        loop {
            if let Some(durable) = self.unsaved.take() {
                self.save(&durable).await?;
            }
            if let Some(journal) = &mut self.journal {
                journal.write();
            }
            let overflowed = self.post();
            if overflowed.is_empty() {
                break;
            }
            // The way to them broke: that is an input, whose effects have to leave too.
            for peer in overflowed {
                self.hub.complaints.about(&peer, &"too much waits for it: what was in flight is dropped");
                self.suspect(peer)?;
            }
        }
        if !self.counted.0.is_empty() {
            let mut tally = lock(&self.tally);
            self.counted.0.drain(..).for_each(|(kind, sent)| tally.add(kind, sent));
        }
        self.look_at_state();
        self.tell().await;
        Ok(())
    }

    /// Notes until when what is held may be held, before the application hears that it holds it, and how the group is seen.
    fn look_at_state(&mut self) {
        // In this order: a pause between the two makes a lease shorter, not longer.
        let now = boot_time();
        let shown = self.clock.read().reading();
        if self.told.is_empty() && now < self.looked + STALE {
            return;
        }
        self.looked = now;
        let mut held = BTreeMap::new();
        let runs_out = self.state.visit_leases(&mut |name, lease| {
            let left = Duration::from_nanos(u64::try_from(lease.until.since(shown)).unwrap_or(0));
            held.insert(name.to_owned(), Held { until: now + left, notice: lease.notice });
        });
        *lock(&self.leases) = runs_out.then_some(held);
        *lock(&self.group) = self.state.group();
    }

    /// Waits for the disk elsewhere: other nodes of this runtime go on.
    async fn save(&mut self, durable: &P::Durable) -> Result<(), NodeError> {
        let bytes = durable_bytes(durable).map_err(NodeError::Save)?;
        let mut store = self.store.take().expect("the store comes back after every save");
        let saved = tokio::task::spawn_blocking(move || {
            let result = store.save(&bytes);
            (store, result)
        });
        let (store, result) = saved.await.map_err(|error| NodeError::Save(io::Error::other(error)))?;
        self.store = Some(store);
        result.map_err(NodeError::Save)
    }

    /// Puts staged messages in flight; returns to whom there were too many.
    fn post(&mut self) -> Vec<NodeId> {
        let staged = self.beliefs.iter_mut().filter(|(_, belief)| !belief.staged.is_empty());
        staged
            .filter_map(|(id, belief)| {
                let pushed = belief.peer.outbox.push(belief.generation, &mut belief.staged);
                (pushed == Pushed::Overflowed).then_some(*id)
            })
            .collect()
    }

    /// Tells the application; waits for it, but not when the node is to stop, and not if nobody listens.
    async fn tell(&mut self) {
        for event in self.told.drain(..) {
            let Err(mpsc::error::TrySendError::Full(event)) = self.events.try_send(event) else { continue };
            tokio::select! {
                _ = self.events.send(event) => {}
                () = self.hub.until(Stage::Closing) => {}
            }
        }
    }
}
