//! Starting a node, and what its application can do with it.

use core::sync::atomic::AtomicU64;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use conclave_core::{Boot, Group, Incarnation, NodeId, Protocol};
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::{Mutex as AsyncMutex, Semaphore, mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::address::{Address, Resolver};
use crate::clock::{Clock, ClockConfig};
use crate::codec::Codec;
use crate::config::{ConfigError, NodeConfig};
use crate::hello::Identity;
use crate::node::{Core, Held, Leases, NodeError, Parts, Tally};
use crate::peer::{Complaints, Hub, Peer, Stage, lock};
use crate::record::{Journal, Recording};
use crate::status::{Status, peer_status};
use crate::store::{DataDir, Stable, StoreError};
use crate::tls::{Tls, TlsError};
use crate::{accept, link};

/// What may be put in place of the usual.
pub struct Options<P: Protocol> {
    /// A socket that listens already, in place of one bound to the configured address.
    pub listener: Option<std::net::TcpListener>,
    /// Where the durable part is kept, in place of the data directory.
    pub store: Option<Box<dyn Stable>>,
    /// Writes a record of the run into the data directory.
    pub recording: Option<Recording<P>>,
    /// The clock that the process reads.
    pub clock: ClockConfig,
    /// Who knows the addresses of hosts.
    pub resolver: Resolver,
}

impl<P: Protocol> Default for Options<P> {
    fn default() -> Self {
        Self {
            listener: None,
            store: None,
            recording: None,
            clock: ClockConfig::default(),
            resolver: Resolver::default(),
        }
    }
}

/// Why a node did not start. Of a [`StoreError`] and later, the life that began is used up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// It was told what does not fit together.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// It cannot listen.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Where.
        address: Address,
        /// Why not.
        #[source]
        error: io::Error,
    },
    /// Its data directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It stopped at its first step.
    #[error(transparent)]
    Node(#[from] NodeError),
}

/// A request came too late: the node has stopped, and the request had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the node has stopped")]
pub struct Stopped;

/// A running node. Dropping it is like killing the process: nobody is told.
pub struct Node<P: Protocol> {
    hub: Arc<Hub<P>>,
    requests: mpsc::Sender<P::Request>,
    tally: Arc<Mutex<Tally>>,
    leases: Arc<Mutex<Leases>>,
    group: Arc<Mutex<Option<Group>>>,
    supervisor: AsyncMutex<Option<JoinHandle<Result<(), NodeError>>>>,
    /// Told before anything else what shall become of the node.
    end: watch::Sender<End>,
    address: SocketAddr,
    record: Option<PathBuf>,
}

/// The events of a node, in order. They must be read: the node waits when too many have piled up.
pub type Events<P> = mpsc::Receiver<<P as Protocol>::Event>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    NotYet,
    Gracefully,
    AtOnce,
}

/// Starts a node: begins a new life in the data directory, starts the state machine, and then talks to the others.
///
/// # Errors
/// If something does not fit together, is in use or cannot be read; see [`StartError`].
///
/// # Panics
/// Outside of a tokio runtime.
pub async fn start<P>(
    config: NodeConfig,
    protocol: P::Config,
    options: Options<P>,
) -> Result<(Node<P>, Events<P>), StartError>
where
    P: Protocol<Message: DeserializeOwned, Durable: DeserializeOwned>,
{
    start_with(config, protocol, Codec::typed(), options).await
}

/// The same for a protocol whose messages are read by this codec.
///
/// # Errors
/// As [`start`].
///
/// # Panics
/// As [`start`].
pub async fn start_with<P: Protocol>(
    config: NodeConfig,
    protocol: P::Config,
    codec: Codec<P>,
    options: Options<P>,
) -> Result<(Node<P>, Events<P>), StartError> {
    let members = config.validate()?;
    let tls = config.tls.as_ref().map(|tls| Tls::load(tls, &config.cluster)).transpose()?;
    let failed = |error| StartError::Listen { address: config.listen.clone(), error };
    let listener = listen(&config, options.listener, &options.resolver).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let data = DataDir::open_from(&config.data, config.least_life)?;
    let (life, directory) = (data.life(), data.id());
    let nodes: Vec<NodeId> = members.iter().collect();
    let clock = Clock::start(&options.clock);
    let begin = |words| Journal::begin(words, &nodes, config.id, life, data.path());
    let journal = options.recording.and_then(begin);
    let record = journal.as_ref().map(|journal| journal.path().to_owned());
    let saved = data.saved(|bytes| (codec.durable)(bytes))?;
    let state = P::boot(Boot {
        id: config.id,
        members: &members,
        config: &protocol,
        timing: config.timing,
        life,
        saved,
    });

    let (inbox_in, inbox) = mpsc::channel(config.limits.inbox);
    let (requests_in, requests) = mpsc::channel(config.limits.requests);
    let (events, events_out) = mpsc::channel(config.limits.events);
    let tally = Arc::new(Mutex::new(Tally::default()));
    let leases = Arc::new(Mutex::new(None));
    let group = Arc::new(Mutex::new(None));
    let identity = Identity::new(&config, life, directory);
    let hub = Arc::new(hub(&config, identity, tls, options.resolver, inbox_in, codec));
    let parts = Parts {
        hub: Arc::clone(&hub),
        state,
        // Whichever store is used, the directory stays locked as long as the node lives.
        store: Box::new(Kept { data, instead: options.store }),
        journal,
        inbox,
        requests,
        events,
        tally: Arc::clone(&tally),
        leases: Arc::clone(&leases),
        group: Arc::clone(&group),
        clock,
        looks_around: config.looks_around && life == Incarnation::FIRST,
        settling: config.timing.answer_timeout(),
    };
    let (end, ending) = watch::channel(End::NotYet);
    let (ready_in, ready) = oneshot::channel();
    let supervisor = tokio::spawn(supervise(Core::new(parts), listener, ready_in, ending));
    if ready.await.is_err() {
        let ended = supervisor.await.unwrap_or_else(|error| Err(NodeError::Panic(error.to_string())));
        return Err(ended.err().unwrap_or(NodeError::Panic("it ended before it began".into())).into());
    }
    let supervisor = AsyncMutex::new(Some(supervisor));
    let node = Node { hub, requests: requests_in, tally, leases, group, supervisor, end, address, record };
    Ok((node, events_out))
}

async fn listen(
    config: &NodeConfig,
    given: Option<std::net::TcpListener>,
    resolver: &Resolver,
) -> io::Result<TcpListener> {
    match given {
        Some(listener) => listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener)),
        None => TcpListener::bind(&resolver.resolve(&config.listen).await?[..]).await,
    }
}

fn hub<P: Protocol>(
    config: &NodeConfig,
    identity: Identity,
    tls: Option<Tls>,
    resolver: Resolver,
    inbox: mpsc::Sender<crate::peer::Arrival<P>>,
    codec: Codec<P>,
) -> Hub<P> {
    let start = Instant::now();
    let others = (0..config.peers.len()).filter(|place| config.peers[*place].0 != config.id);
    let peers =
        others.map(|place| (config.peers[place].0, Arc::new(Peer::new(config, place, start)))).collect();
    Hub {
        identity,
        limits: config.limits.clone(),
        detector: config.detector.clone(),
        tls,
        peers,
        inbox,
        codec,
        room: tokio::sync::Notify::new(),
        stage: watch::Sender::new(Stage::Running),
        complaints: Complaints::default(),
        start,
        pace: AtomicU64::new(0),
        resolver,
        // One for each way between two others, and as many that have not noticed yet that theirs has gone.
        carried: Semaphore::new(2 * config.peers.len() * config.peers.len()),
        size: config.peers.len(),
    }
}

/// The data directory, which stays ours even if something else does the saving.
struct Kept {
    data: DataDir,
    instead: Option<Box<dyn Stable>>,
}

impl Stable for Kept {
    fn save(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.instead {
            Some(store) => store.save(bytes),
            None => self.data.save(bytes),
        }
    }
}

/// Starts the state machine, then its links; ends them when it ends, however it ends.
async fn supervise<P: Protocol>(
    mut core: Core<P>,
    listener: TcpListener,
    ready: oneshot::Sender<()>,
    mut ending: watch::Receiver<End>,
) -> Result<(), NodeError> {
    let hub = Arc::clone(&core.hub);
    // Nobody hears of this life before its first step is complete.
    let core = in_task(async move {
        core.start().await?;
        Ok(core)
    })
    .await?;
    hub.keep_pace(hub.detector.beat / 2);
    let pace = tokio::spawn(keep_pace(Arc::clone(&hub)));
    let mut links = JoinSet::new();
    for peer in hub.peers.values() {
        links.spawn(link::run(Arc::clone(&hub), Arc::clone(peer)));
    }
    let acceptor = tokio::spawn(accept::run(Arc::clone(&hub), listener));
    let mut machine = core::pin::pin!(in_task(async move { core.run().await }));
    let _ = ready.send(());
    let ended = tokio::select! {
        ended = &mut machine => ended,
        // The handle says how to end, or was dropped.
        stage = stage_to_end(&mut ending) => {
            hub.stage.send_replace(stage);
            machine.await
        }
    };
    hub.stage.send_if_modified(|stage| {
        let is_running = *stage == Stage::Running;
        *stage = (*stage).max(Stage::Closing);
        is_running
    });
    let all_said = async { while links.join_next().await.is_some() {} };
    let _ = timeout(hub.limits.shutdown, all_said).await;
    hub.stage.send_replace(Stage::Stopped);
    links.shutdown().await;
    let _ = acceptor.await;
    let _ = pace.await;
    ended
}

/// Sees whether this process runs.
async fn keep_pace<P: Protocol>(hub: Arc<Hub<P>>) {
    let usual = hub.detector.beat / 2;
    let mut tick = interval(usual);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stopped = core::pin::pin!(hub.until(Stage::Stopped));
    loop {
        tokio::select! {
            _ = tick.tick() => hub.keep_pace(usual),
            () = &mut stopped => return,
        }
    }
}

/// Waits until the node is to end, and says how.
async fn stage_to_end(ending: &mut watch::Receiver<End>) -> Stage {
    match ending.wait_for(|end| *end != End::NotYet).await.as_deref() {
        Ok(End::Gracefully) => Stage::Closing,
        _ => Stage::Stopped,
    }
}

/// Runs something in a task of its own, so that its panic is an error and not ours.
async fn in_task<T: Send + 'static>(
    work: impl Future<Output = Result<T, NodeError>> + Send + 'static,
) -> Result<T, NodeError> {
    tokio::spawn(work).await.unwrap_or_else(|error| Err(NodeError::Panic(panic_text(error))))
}

fn panic_text(error: tokio::task::JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "its task was cancelled".to_owned() };
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no reason was given").to_owned()
}

impl<P: Protocol> Node<P> {
    /// Hands a request to the state machine; waits while too much is in flight to peers that are alive.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn request(&self, request: P::Request) -> Result<(), Stopped> {
        self.requests.send(request).await.map_err(|_| Stopped)
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.hub.identity.id
    }

    /// Its life.
    #[must_use]
    pub fn life(&self) -> Incarnation {
        self.hub.identity.life
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The file in which the run is recorded.
    #[must_use]
    pub fn record(&self) -> Option<&std::path::Path> {
        self.record.as_deref()
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            life: self.life(),
            peers: self.hub.peers.iter().map(|(id, peer)| (*id, peer_status(peer))).collect(),
            sent: lock(&self.tally).by_kind(),
            complaints: self.hub.complaints.total(),
            group: lock(&self.group).clone(),
        }
    }

    /// What is held here, by name, and until when it may be; nothing if what is held does not run out.
    #[must_use]
    pub fn leases(&self) -> Option<BTreeMap<String, Held>> {
        lock(&self.leases).clone()
    }

    /// Closes the links with a peer and refuses new ones until [`heal`](Self::heal): half a partition, made without any
    /// right to change the network. What is to be sent waits. False if there is no such peer.
    pub fn cut(&self, peer: NodeId) -> bool {
        self.hub.peers.get(&peer).map(|peer| peer.cut.send_replace(true)).is_some()
    }

    /// Lets links with a peer be made again. False if there is no such peer.
    pub fn heal(&self, peer: NodeId) -> bool {
        self.hub.peers.get(&peer).map(|peer| peer.cut.send_replace(false)).is_some()
    }

    /// Stops: takes no more requests, delivers what was sent, and tells the peers that this life is over.
    ///
    /// # Errors
    /// If the node had stopped by itself before.
    pub async fn shutdown(self) -> Result<(), NodeError> {
        self.end.send_replace(End::Gracefully);
        self.ended().await
    }

    /// Stops as if killed: nobody is told.
    ///
    /// # Errors
    /// If the node had stopped by itself before.
    pub async fn kill(self) -> Result<(), NodeError> {
        self.end.send_replace(End::AtOnce);
        self.ended().await
    }

    /// Waits until the node has stopped, by itself or by [`shutdown`](Self::shutdown).
    ///
    /// # Errors
    /// The reason, if it stopped by itself. A second call finds none.
    pub async fn ended(&self) -> Result<(), NodeError> {
        match self.supervisor.lock().await.take() {
            Some(supervisor) => {
                supervisor.await.unwrap_or_else(|error| Err(NodeError::Panic(error.to_string())))
            }
            None => Ok(()),
        }
    }
}
