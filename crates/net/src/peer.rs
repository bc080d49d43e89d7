//! What all tasks of a node share: its peers, and the way to the task that owns the state machine.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use conclave_core::{Incarnation, NodeId, Protocol};
use tokio::sync::{Mutex as AsyncMutex, Notify, Semaphore, mpsc, watch};
use tokio::time::Instant;

use crate::address::{Address, Resolver};
use crate::codec::Codec;
use crate::config::{Limits, NodeConfig};
use crate::detector::{Detector, DetectorConfig};
use crate::frame::Stamp;
use crate::hello::{Identity, Known, Refusal};
use crate::outbox::Outbox;
use crate::store::Directory;
use crate::tls::Tls;

/// Everything that the tasks of a node share.
pub(crate) struct Hub<P: Protocol> {
    pub identity: Identity,
    pub limits: Limits,
    pub detector: DetectorConfig,
    pub tls: Option<Tls>,
    pub peers: BTreeMap<NodeId, Arc<Peer>>,
    pub inbox: mpsc::Sender<Arrival<P>>,
    pub codec: Codec<P>,
    /// A queue that was too full for the application to go on may have room again.
    pub room: Notify,
    pub stage: watch::Sender<Stage>,
    pub complaints: Complaints,
    /// The beginning of the time that detectors are told.
    pub start: Instant,
    /// When it was last seen that this process runs, in microseconds of that time.
    pub pace: AtomicU64,
    /// Looks up the names of peers.
    pub resolver: Resolver,
    /// Room for connections that are carried for others.
    pub carried: Semaphore,
    /// The number of processes: no stamp is longer.
    pub size: usize,
}

/// How far a node has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Running,
    /// The state machine has stopped; what it sent is still delivered, then peers are told.
    Closing,
    /// Nothing is said any more.
    Stopped,
}

/// What comes from the network to the state machine.
pub(crate) enum Arrival<P: Protocol> {
    /// A connection with a life of a peer began. Comes before everything of that life.
    Contact {
        peer: NodeId,
        life: Incarnation,
        /// The generation of the way to it.
        generation: u64,
        /// The peer dropped messages to us.
        gap: bool,
    },
    Letters {
        peer: NodeId,
        life: Incarnation,
        letters: Vec<(Option<Stamp>, P::Message)>,
    },
    Bye {
        peer: NodeId,
        life: Incarnation,
    },
    /// A peer says that we cannot take part as we are.
    Disowned {
        peer: NodeId,
        why: Refusal,
    },
}

/// One of the other processes.
pub(crate) struct Peer {
    pub id: NodeId,
    pub place: usize,
    pub address: Address,
    pub outbox: Outbox,
    /// Held by the connection that is being read.
    pub inbound: AsyncMutex<Inbound>,
    /// Whose turn it is to be read: a newer connection takes the turn of an older.
    pub turn: watch::Sender<u64>,
    pub cut: watch::Sender<bool>,
    /// There is reason to try to connect now.
    pub nudge: Notify,
    pub pulse: Mutex<Detector>,
    /// Whom it hears, and in which life, by what it said last.
    pub hears: Mutex<BTreeMap<NodeId, Incarnation>>,
    pub counts: Counts,
    /// The data directory of its newest life, if it has said so.
    pub directory: Mutex<Option<Directory>>,
}

/// How far the messages of a life of a peer have come.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    pub life: Option<Incarnation>,
    pub received: u64,
}

/// What is counted about a peer.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub received: AtomicU64,
    pub duplicates: AtomicU64,
    pub connections: AtomicU64,
    /// Whether we have a connection to it.
    pub connected_to: AtomicBool,
    /// Whether it has a connection to us.
    pub connected_from: AtomicBool,
    pub suspected: AtomicBool,
    /// Who carries our connection to it.
    pub via: Mutex<Option<NodeId>>,
    /// Why its address means nothing.
    pub unnamed: Mutex<Option<String>>,
    pub refused_by_us: Mutex<Option<Refusal>>,
    pub refused_by_it: Mutex<Option<Refusal>>,
}

impl Peer {
    pub fn new(config: &NodeConfig, place: usize, start: Instant) -> Self {
        let (id, address) = config.peers[place].clone();
        let now = start.elapsed();
        Self {
            id,
            place,
            address,
            outbox: Outbox::new(&config.limits),
            inbound: AsyncMutex::default(),
            turn: watch::Sender::new(0),
            cut: watch::Sender::new(false),
            nudge: Notify::new(),
            pulse: Mutex::new(Detector::new(config.detector.clone(), now)),
            hears: Mutex::default(),
            counts: Counts::default(),
            directory: Mutex::default(),
        }
    }

    pub fn pulse(&self) -> MutexGuard<'_, Detector> {
        lock(&self.pulse)
    }

    /// What was seen of it.
    pub fn known(&self) -> Known {
        Known { newest: self.outbox.life(), directory: *lock(&self.directory) }
    }

    /// Whether links with it are cut.
    pub fn is_cut(&self) -> bool {
        *self.cut.borrow()
    }

    /// Whether it hears this process in this life, or in any if none is known, by what it said lately.
    pub fn hears(&self, id: NodeId, life: Option<Incarnation>, now: Duration) -> bool {
        let heard = lock(&self.hears).get(&id).copied();
        heard.is_some_and(|heard| life.is_none_or(|life| life == heard)) && self.pulse().is_fresh(now)
    }

    /// Resolves once links with the peer are to be cut.
    pub async fn until_cut(&self, wanted: bool) {
        let mut cut = self.cut.subscribe();
        // The sender lives as long as the peer.
        let _ = cut.wait_for(|cut| *cut == wanted).await;
    }
}

impl<P: Protocol> Hub<P> {
    /// The time that detectors are told.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Whom we hear, for somebody who may not.
    pub fn heard_here(&self, but: NodeId) -> Vec<(NodeId, Incarnation)> {
        let now = self.now();
        let others = self.peers.values().filter(|peer| peer.id != but && peer.pulse().is_fresh(now));
        others.filter_map(|peer| Some((peer.id, peer.outbox.life()?))).collect()
    }

    /// Those who hear a peer, and whom we hear: they can carry a connection to it.
    pub fn detours(&self, to: &Peer) -> impl Iterator<Item = &Arc<Peer>> {
        let (id, life, now) = (to.id, to.outbox.life(), self.now());
        self.peers.values().filter(move |peer| peer.id != id && !peer.is_cut() && peer.hears(id, life, now))
    }

    /// Notes that this process runs. If it has not for longer than it should take, what the others said meanwhile is yet to
    /// be read: they were not silent.
    pub fn keep_pace(&self, usual: Duration) {
        let now = self.now();
        let gap = now.saturating_sub(self.last_pace());
        if gap > 2 * usual {
            let lost = gap - usual;
            for peer in self.peers.values() {
                peer.pulse().excuse(lost, now);
                peer.outbox.excuse(lost);
            }
        }
        self.pace.store(u64::try_from(now.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn last_pace(&self) -> Duration {
        Duration::from_micros(self.pace.load(Ordering::Relaxed))
    }

    /// A peer beats: a connection that is silent for much longer is half open.
    pub fn silence(&self) -> Duration {
        self.limits.stall.max(self.detector.beat * 10)
    }

    /// Whether this process may have stood still, which nobody has allowed for yet.
    pub fn is_out_of_pace(&self) -> bool {
        self.now().saturating_sub(self.last_pace()) > self.detector.beat
    }

    pub fn is_running(&self) -> bool {
        *self.stage.borrow() == Stage::Running
    }

    /// Resolves once the node has come this far.
    pub async fn until(&self, stage: Stage) {
        let _ = self.stage.subscribe().wait_for(|now| *now >= stage).await;
    }

    /// Tells the state machine of something, waiting while it is busy; false if it has stopped.
    pub async fn tell(&self, arrival: Arrival<P>) -> bool {
        self.inbox.send(arrival).await.is_ok()
    }
}

/// No lock of this crate is held across anything that leaves its value half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What others did wrong: counted always, logged once each.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    total: AtomicU64,
    logged: Mutex<BTreeSet<(String, String)>>,
}

/// An attacker that comes from everywhere must not fill the memory with what it did.
const MOST_COMPLAINTS: usize = 1_024;

impl Complaints {
    /// Counts what somebody did; logs it if it is the first time.
    pub fn about(&self, who: &dyn core::fmt::Display, what: &dyn core::fmt::Display) {
        self.total.fetch_add(1, Ordering::Relaxed);
        let mut logged = lock(&self.logged);
        if logged.len() < MOST_COMPLAINTS && logged.insert((who.to_string(), what.to_string())) {
            tracing::warn!("{who}: {what}");
        }
    }

    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}
