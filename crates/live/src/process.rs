//! One process of a live cluster: an algorithm of the registry over the network, and its clients on a control socket.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use conclave_algorithms::desk::{Client, Deed, Desk, Standing, Word};
use conclave_algorithms::erased::{Erase, Erased, ErasedConfig, ErasedEvent, ErasedRequest, Prepared};
use conclave_algorithms::family::{self, EventText, Registered, Wanted};
use conclave_algorithms::{About, Arena, Name, SettingError};
use conclave_core::{Incarnation, Members, NodeId};
use conclave_net::secret::{Nonce, Side};
use conclave_net::{
    Codec, Events, Node, NodeConfig, NodeError, Options, Recording, Secret, StartError, boot_time, record,
    start_with,
};
use conclave_trace::Header;
use thiserror::Error;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _,
    BufReader,
};
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::config::ProcessConfig;
use crate::control::{Answer, Ask, LONGEST_LINE, PeerStatus, SOCKET, Status};
use crate::seal::{HERE, Seal, nonce_line, read_nonce};

/// More clients than this are not let in at a time.
const MOST_CLIENTS: usize = 1_024;
/// Answers that a client has not read; one that is further behind is let go.
const MOST_UNREAD: usize = 256;
/// How long a client of another machine may take to begin.
const GREETING: Duration = Duration::from_secs(5);
/// A piece of a record that is sent to another machine, in bytes: more than a line has.
const PIECE: u64 = 4 << 20;

/// Why a process did not start, or ended.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// There is no such algorithm.
    #[error("there is no algorithm '{0}'")]
    UnknownAlgorithm(String),
    /// Its settings make no sense.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The driver did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The driver stopped by itself.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// Nobody could give it orders.
    #[error("cannot listen on {path}: {error}")]
    Socket {
        /// Where.
        path: PathBuf,
        /// Why not.
        #[source]
        error: io::Error,
    },
}

/// Runs a process until it is told to stop, by a client or by whatever `stop` waits for. `ready` is called once it takes
/// orders.
///
/// # Errors
/// If it cannot start, or stops by itself.
pub async fn run(
    config: &ProcessConfig,
    stop: impl Future<Output = ()> + Send,
    ready: impl FnOnce() + Send,
) -> Result<(), ProcessError> {
    let process = Process { config, stop: Box::pin(stop), ready: Box::new(ready) };
    let running = {
        let nodes = process.nodes();
        let prepared = conclave_erased::prepare(&config.algorithm, &mut live(&nodes, &config.settings));
        let unknown = || ProcessError::UnknownAlgorithm(config.algorithm.clone());
        boxed(process, prepared.ok_or_else(unknown)??)
    };
    running.await
}

/// The same for an algorithm that no registry has to know: `run_algorithm::<mutex::Of<MyLock>>`.
///
/// # Errors
/// If it cannot start, or stops by itself.
pub async fn run_algorithm<R: Registered>(
    config: &ProcessConfig,
    stop: impl Future<Output = ()> + Send,
    ready: impl FnOnce() + Send,
) -> Result<(), ProcessError> {
    let process = Process { config, stop: Box::pin(stop), ready: Box::new(ready) };
    let running = {
        let prepared = family::prepare::<R, _>(&mut live(&process.nodes(), &config.settings), Erase)?;
        boxed(process, prepared)
    };
    running.await
}

/// Neither generic nor async, either of which would be compiled again in every program that starts a process.
fn boxed(process: Process<'_>, prepared: Prepared) -> Running<'_> {
    let Prepared { about, config, settings, desk, .. } = prepared;
    Box::pin(serve(process, about, config, settings, desk))
}

/// Tells before anything is started whether an algorithm of the registry can run with these settings among these
/// processes.
///
/// # Errors
/// If it cannot.
pub fn check(
    algorithm: &str,
    settings: &BTreeMap<String, String>,
    members: &Members,
) -> Result<(), ProcessError> {
    let nodes: Vec<_> = members.iter().collect();
    let fits = conclave_erased::prepare(algorithm, &mut live(&nodes, settings));
    fits.ok_or_else(|| ProcessError::UnknownAlgorithm(algorithm.to_owned()))?.map(drop)?;
    Ok(())
}

/// The same for an algorithm that no registry has to know.
///
/// # Errors
/// If it cannot.
pub fn check_algorithm<R: Registered>(
    settings: &BTreeMap<String, String>,
    members: &Members,
) -> Result<(), ProcessError> {
    let nodes: Vec<_> = members.iter().collect();
    family::prepare::<R, _>(&mut live(&nodes, settings), Erase)?;
    Ok(())
}

/// What a live process wants of an algorithm.
fn live<'a>(nodes: &'a [NodeId], settings: &'a BTreeMap<String, String>) -> Wanted<'a> {
    Wanted { arena: Arena::Live, failures: true, faulty: true, ..Wanted::new(nodes, settings) }
}

/// Waits for Ctrl-C or SIGTERM; with a parent also for its end, which is that of standard input.
pub async fn told_to_stop(with_parent: bool) {
    let parent = async {
        if !with_parent {
            return core::future::pending().await;
        }
        let rest = tokio::task::spawn_blocking(|| io::Read::read_to_end(&mut io::stdin(), &mut Vec::new()));
        let _ = rest.await;
    };
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signals) => drop(signals.recv().await),
            Err(_) => core::future::pending().await,
        }
    };
    tokio::select! {
        () = parent => {}
        () = terminated => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

/// What a process is started with.
struct Process<'a> {
    config: &'a ProcessConfig,
    stop: core::pin::Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    ready: Box<dyn FnOnce() + Send + 'a>,
}

type Running<'a> = core::pin::Pin<Box<dyn Future<Output = Result<(), ProcessError>> + Send + 'a>>;

impl Process<'_> {
    fn nodes(&self) -> Vec<NodeId> {
        self.config.peers.iter().map(|peer| NodeId(peer.id)).collect()
    }
}

async fn serve(
    process: Process<'_>,
    about: &'static About,
    config: ErasedConfig,
    settings: BTreeMap<String, String>,
    desk: Box<dyn Desk<Erased>>,
) -> Result<(), ProcessError> {
    let Process { config: process, stop, ready } = process;
    let settings_text = settings.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    let header = Header {
        algorithm: about.name.to_owned(),
        nodes: Vec::new(),
        newcomers: Vec::new(),
        settings,
        mutant: None,
        channels: about.channels.name().to_owned(),
        locks: 1,
        seed: None,
        timing: process.node().timing,
    };
    let recording = process.record.then(|| {
        Recording::erased(header, process.epoch()).with_limit(process.record_mb.saturating_mul(1 << 20))
    });
    let options = Options { recording, clock: process.clock(), ..Options::default() };
    let node = NodeConfig { settings: settings_text, ..process.node() };
    // The driver takes the data directory for itself; only then the socket in it is ours to replace.
    let codec = Codec::erased(&config);
    let (node, events) = start_with::<Erased>(node, config, codec, options).await?;
    let listener = listen(&process.data)?;
    let (clients_in, clients) = mpsc::channel(MOST_CLIENTS);
    let mut acceptors = JoinSet::new();
    let numbers = Arc::new(AtomicU64::new(1));
    if let (Some(address), Some(secret)) = (process.control(), process.known_secret()) {
        let failed = |error| ProcessError::Socket { path: address.to_string().into(), error };
        let remote = TcpListener::bind(address.to_string()).await.map_err(failed)?;
        acceptors.spawn(accept_remote(remote, secret, clients_in.clone(), Arc::clone(&numbers)));
    }
    acceptors.spawn(accept(listener, clients_in, numbers));
    ready();
    let office = Office {
        node: Arc::new(node),
        desk,
        algorithm: process.algorithm.clone(),
        data: process.data.clone(),
        lines: BTreeMap::new(),
        tails: BTreeSet::new(),
    };
    let ended = office.run(events, clients, stop).await;
    acceptors.shutdown().await;
    let _ = std::fs::remove_file(process.data.join(SOCKET));
    ended
}

fn listen(data: &Path) -> Result<UnixListener, ProcessError> {
    let path = data.join(SOCKET);
    // Left over from a life that was killed.
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path);
    // The directory may be older than the rule that nobody else can open it.
    let private = |listener| {
        let mode = PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).map(|()| listener)
    };
    listener.and_then(private).map_err(|error| ProcessError::Socket { path: path.clone(), error })
}

/// What happens at the control socket.
enum Visit {
    Came(Client, mpsc::Sender<Answer>),
    Asked(Client, Result<Ask, String>),
    Left(Client),
}

/// Lets clients in, each in tasks of its own.
async fn accept(listener: UnixListener, visits: mpsc::Sender<Visit>, numbers: Arc<AtomicU64>) {
    let places = Arc::new(Semaphore::new(MOST_CLIENTS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Some((stream, _)) = let_in(listener.accept().await).await else { continue };
        let (visits, client) = (visits.clone(), numbers.fetch_add(1, Ordering::Relaxed));
        tokio::spawn(async move {
            let (reads, writes) = stream.into_split();
            receive(client, reads, writes, None, &visits).await;
            let _ = visits.send(Visit::Left(client)).await;
            drop(place);
        });
    }
}

/// The same for clients of other machines, who show in every line that they know the secret.
async fn accept_remote(
    listener: TcpListener,
    secret: Secret,
    visits: mpsc::Sender<Visit>,
    numbers: Arc<AtomicU64>,
) {
    let places = Arc::new(Semaphore::new(MOST_CLIENTS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Some((stream, _)) = let_in(listener.accept().await).await else { continue };
        let (visits, secret) = (visits.clone(), secret.clone());
        let client = numbers.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            let (reads, mut writes) = stream.into_split();
            let mut reads = BufReader::new(reads);
            let greeted = timeout(GREETING, exchange_nonces(&mut reads, &mut writes)).await;
            if let Ok(Some(nonces)) = greeted {
                let mut seal = Seal::new(secret, Side::Accepts, nonces);
                // So that a client with another secret finds out.
                if writes.write_all(&seal.close(HERE)).await.is_err() {
                    return;
                }
                receive(client, reads, writes, Some(seal), &visits).await;
                let _ = visits.send(Visit::Left(client)).await;
            }
            drop(place);
        });
    }
}

async fn let_in<S>(accepted: io::Result<S>) -> Option<S> {
    match accepted {
        Ok(stream) => Some(stream),
        Err(error) => {
            tracing::warn!("a client could not be let in: {error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

async fn exchange_nonces(
    reads: &mut (impl AsyncBufRead + Unpin),
    writes: &mut (impl AsyncWrite + Unpin),
) -> Option<[Nonce; 2]> {
    let ours = Nonce::random();
    writes.write_all(&nonce_line(ours)).await.ok()?;
    let mut line = Vec::new();
    reads.take(LONGEST_LINE as u64).read_until(b'\n', &mut line).await.ok()?;
    Some([ours, read_nonce(&line)?])
}

/// Hears a client out. It is gone when its connection ends, or when nobody answers it any more.
async fn receive(
    client: Client,
    reads: impl AsyncRead + Unpin,
    writes: impl AsyncWrite + Unpin + Send + 'static,
    seal: Option<Seal>,
    visits: &mpsc::Sender<Visit>,
) {
    let (answers_in, answers) = mpsc::channel(MOST_UNREAD);
    if visits.send(Visit::Came(client, answers_in)).await.is_err() {
        return;
    }
    let answering = tokio::spawn(answer(writes, answers, seal.clone()));
    tokio::select! {
        () = hear(client, reads, seal, visits) => {}
        _ = answering => {}
    }
}

async fn hear(
    client: Client,
    reads: impl AsyncRead + Unpin,
    mut seal: Option<Seal>,
    visits: &mpsc::Sender<Visit>,
) {
    let mut lines = BufReader::new(reads);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut lines).take(LONGEST_LINE as u64).read_until(b'\n', &mut line).await {
            Ok(read) if read > 0 && line.ends_with(b"\n") => {}
            _ => return,
        }
        let said = match &mut seal {
            Some(seal) => match seal.open(&line) {
                Some(said) => said,
                None => {
                    tracing::warn!("somebody who does not know the secret gives orders");
                    return;
                }
            },
            None => &line,
        };
        let ask = serde_json::from_slice(said).map_err(|error| format!("this is no request: {error}"));
        if visits.send(Visit::Asked(client, ask)).await.is_err() {
            return;
        }
    }
}

async fn answer(
    mut writes: impl AsyncWrite + Unpin,
    mut answers: mpsc::Receiver<Answer>,
    mut seal: Option<Seal>,
) {
    while let Some(answer) = answers.recv().await {
        let mut line = serde_json::to_vec(&answer).expect("an answer is plain data");
        line.push(b'\n');
        if let Some(seal) = &mut seal {
            line = seal.close(&line);
        }
        if writes.write_all(&line).await.is_err() {
            return;
        }
    }
}

/// The one place that knows the algorithm, the desk and the clients.
struct Office {
    node: Arc<Node<Erased>>,
    desk: Box<dyn Desk<Erased>>,
    algorithm: String,
    data: PathBuf,
    lines: BTreeMap<Client, mpsc::Sender<Answer>>,
    /// Clients who want to hear everything that the algorithm says.
    tails: BTreeSet<Client>,
}

impl Office {
    async fn run(
        mut self,
        mut events: Events<Erased>,
        mut visits: mpsc::Receiver<Visit>,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), ProcessError> {
        // The driver may make requests wait; events must be read meanwhile.
        let (requests_in, requests) = mpsc::unbounded_channel();
        let asking = tokio::spawn(forward(Arc::clone(&self.node), requests));
        let mut stop = core::pin::pin!(stop);
        let mut deeds = Vec::new();
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.hear(event, &mut deeds),
                    // It has stopped by itself.
                    None => return Ok(self.node.ended().await?),
                },
                visit = visits.recv() => match visit {
                    Some(visit) => if self.visit(visit, &mut deeds) { break },
                    None => break,
                },
                () = &mut stop => break,
            }
            for deed in deeds.drain(..) {
                match deed {
                    Deed::Ask(request) => drop(requests_in.send(request)),
                    Deed::Tell(client, word) => self.tell(client, Answer::Word(word)),
                }
            }
        }
        drop(requests_in);
        // What was asked for before is asked before the end.
        let _ = asking.await;
        events.close();
        match Arc::try_unwrap(self.node) {
            Ok(node) => Ok(node.shutdown().await?),
            Err(node) => Ok(node.ended().await?),
        }
    }

    /// The algorithm says something.
    fn hear(&mut self, event: ErasedEvent, deeds: &mut Vec<Deed<Erased>>) {
        if !self.tails.is_empty() {
            let text = match event.lock() {
                Some(name) => format!("{name}: {}", EventText { lock: 0, ..event.told() }),
                None => event.told().to_string(),
            };
            for client in self.tails.clone() {
                self.tell(client, Answer::Word(Word::Event { text: text.clone() }));
            }
        }
        self.desk.told(event, deeds);
    }

    /// True if the process is to stop.
    fn visit(&mut self, visit: Visit, deeds: &mut Vec<Deed<Erased>>) -> bool {
        match visit {
            Visit::Came(client, line) => drop(self.lines.insert(client, line)),
            Visit::Left(client) => {
                self.lines.remove(&client);
                self.tails.remove(&client);
                self.desk.gone(client, deeds);
            }
            Visit::Asked(client, ask) => return self.asked(client, ask, deeds),
        }
        false
    }

    fn asked(&mut self, client: Client, ask: Result<Ask, String>, deeds: &mut Vec<Deed<Erased>>) -> bool {
        let answer = match ask {
            Ok(Ask::Wish(wish)) => {
                self.desk.wish(client, wish, deeds);
                return false;
            }
            Ok(Ask::Tail) => {
                self.tails.insert(client);
                Answer::Done
            }
            Ok(Ask::Status) => Answer::Status(Box::new(self.status())),
            Ok(Ask::Left { name }) => self.left(name),
            Ok(Ask::Record { life, offset }) => Answer::Record(self.record(life, offset).ok()),
            Ok(Ask::Cut(peers)) => for_all(&peers, |peer| self.node.cut(peer)),
            Ok(Ask::Heal(peers)) => for_all(&peers, |peer| self.node.heal(peer)),
            Ok(Ask::Stop) => {
                self.tell(client, Answer::Done);
                return true;
            }
            Err(why) => Answer::Wrong(why),
        };
        self.tell(client, answer);
        false
    }

    /// A client that does not read is let go: it will find its connection closed.
    fn tell(&mut self, client: Client, answer: Answer) {
        if self.lines.get(&client).is_some_and(|line| line.try_send(answer).is_err()) {
            self.lines.remove(&client);
        }
    }

    fn status(&self) -> Status {
        let status = self.node.status();
        let counts = |is_overhead: bool| {
            let of_kind = status.sent.iter().filter(|(_, sent)| sent.is_overhead == is_overhead);
            of_kind.map(|(kind, sent)| ((*kind).to_owned(), sent.count)).collect()
        };
        Status {
            id: self.node.id(),
            pid: std::process::id(),
            life: status.life.0,
            algorithm: self.algorithm.clone(),
            desk: self.standing(),
            peers: status.peers.iter().map(|(id, peer)| (*id, peer_status(peer))).collect(),
            messages: counts(false),
            overhead_messages: counts(true),
            complaints: status.complaints,
            group: status.group,
        }
    }

    /// For how long a lock may be held, if it is not confirmed again.
    fn left(&self, name: Name) -> Answer {
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let Some(leases) = self.node.leases() else {
            return Answer::Left { name, micros: None, notice: 0 };
        };
        // What is not among them has been lost.
        let held = leases.get(name.as_str());
        let left = held.map(|held| held.until.saturating_sub(boot_time())).unwrap_or_default();
        Answer::Left { name, micros: Some(micros(left)), notice: held.map_or(0, |held| micros(held.notice)) }
    }

    /// A piece of the record of a life.
    fn record(&self, life: u32, offset: u64) -> io::Result<String> {
        let mut file = std::fs::File::open(self.data.join(record::file_name(Incarnation(life))))?;
        io::Seek::seek(&mut file, io::SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(file, PIECE), &mut bytes)?;
        // Records are ASCII but for names; a name is never cut in two.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        bytes.truncate(whole);
        String::from_utf8(bytes).map_err(io::Error::other)
    }

    fn standing(&self) -> Standing {
        self.desk.standing()
    }
}

fn for_all(peers: &[NodeId], each: impl Fn(NodeId) -> bool) -> Answer {
    match peers.iter().find(|peer| !each(**peer)) {
        Some(stranger) => Answer::Wrong(format!("{stranger} is none of the others")),
        None => Answer::Done,
    }
}

fn peer_status(peer: &conclave_net::PeerStatus) -> PeerStatus {
    let refused = peer.refused_by_us.as_ref().or(peer.refused_by_it.as_ref()).map(ToString::to_string);
    PeerStatus {
        connected: peer.connected_to && peer.connected_from,
        suspected: peer.suspected,
        cut: peer.cut,
        via: peer.via,
        waiting: peer.waiting,
        resent: peer.resent,
        refused: refused.or_else(|| peer.unnamed.clone()),
    }
}

async fn forward(node: Arc<Node<Erased>>, mut requests: mpsc::UnboundedReceiver<ErasedRequest>) {
    while let Some(request) = requests.recv().await {
        if node.request(request).await.is_err() {
            return;
        }
    }
}
