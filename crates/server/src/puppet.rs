//! Clusters in one process, for tests that decide what each node says and when: some nodes are real, some are puppets.
//!
//! Connections are pipes in memory. With the clock of the runtime paused nothing here depends on how fast the machine is.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use conclave_service::{Batch, Outcome, State};
use conclave_wire::peer::Frame;
use conclave_wire::peer::peer_client::PeerClient;
use conclave_wire::peer::peer_server::{Peer, PeerServer};
use conclave_wire::{Connecting, Connection, Connector, Incoming, Listening, Transport};
use futures_util::{Stream, StreamExt as _};
use openraft::raft::{StreamAppendResult, VoteRequest, VoteResponse};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status, Streaming};

use crate::birth::Past;
use crate::consensus::{Compaction, Consensus, Options, Refused, Timing};
use crate::disk::MemoryDisk;
use crate::machine::Sink;
use crate::network::{Peers, RpcError};
use crate::raft::{LeaderId, LogId, Types, Vote, decode_append, put, whole};

/// Longer than anything here takes, in time that is not real.
const PATIENCE: Duration = Duration::from_secs(60);

/// All connections.
#[derive(Default)]
struct Net {
    doors: BTreeMap<String, mpsc::UnboundedSender<io::Result<Connection>>>,
    open: Vec<(u64, u64, AbortHandle)>,
}

/// Connections between any nodes, in memory.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Net>>);

impl Lines {
    pub(crate) fn of(&self, from: u64) -> Connector {
        Arc::new(Line { from, net: Arc::clone(&self.0) })
    }

    /// Ends all connections of a node, and lets no further ones in.
    fn cut(&self, id: u64) {
        let mut net = self.0.lock().unwrap();
        net.doors.remove(&self.address(id));
        net.open.retain(|(from, to, passing)| {
            let is_its = *from == id || *to == id;
            if is_its {
                passing.abort();
            }
            !is_its
        });
    }

    pub(crate) fn address(&self, node: u64) -> String {
        format!("node{node}:1")
    }
}

/// The way of one node into the net.
struct Line {
    from: u64,
    net: Arc<Mutex<Net>>,
}

fn number(address: &str) -> u64 {
    address.trim_start_matches("node").trim_end_matches(":1").parse().unwrap()
}

impl Transport for Line {
    fn connect(&self, address: String) -> Connecting {
        let (from, net) = (self.from, Arc::clone(&self.net));
        Box::pin(async move {
            let mut net = net.lock().unwrap();
            let (near, mut here) = tokio::io::duplex(1 << 16);
            let (far, mut there) = tokio::io::duplex(1 << 16);
            let door = net.doors.get(&address).ok_or(io::ErrorKind::ConnectionRefused)?;
            door.send(Ok(Connection::new(far))).map_err(|_| io::ErrorKind::ConnectionRefused)?;
            let passing = tokio::spawn(async move {
                drop(tokio::io::copy_bidirectional(&mut here, &mut there).await);
            });
            net.open.push((from, number(&address), passing.abort_handle()));
            Ok(Connection::new(near))
        })
    }

    fn listen(&self, address: String) -> Listening {
        let net = Arc::clone(&self.net);
        Box::pin(async move {
            let (door, arriving) = mpsc::unbounded_channel();
            net.lock().unwrap().doors.insert(address.clone(), door);
            let incoming = tokio_stream::wrappers::UnboundedReceiverStream::new(arriving);
            Ok((Box::pin(incoming) as Incoming, address))
        })
    }
}

/// Hears nothing.
struct Deaf;

impl Sink for Deaf {
    fn applied(&self, _: u64, _: &mut Outcome, _: &State) {}
    fn replaced(&self, _: u64, _: &State) {}
}

/// A cluster of real nodes and puppets.
pub(crate) struct Cast {
    members: BTreeMap<u64, String>,
    lines: Lines,
    pub(crate) nodes: BTreeMap<u64, Arc<Consensus>>,
    disks: BTreeMap<u64, MemoryDisk>,
    serving: BTreeMap<u64, JoinHandle<()>>,
    now: u64,
}

impl Cast {
    pub(crate) async fn new(real: &[u64], puppets: &[(u64, &Puppet)]) -> Self {
        let _ = tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_test_writer()
            .try_init();
        let all = real.iter().copied().chain(puppets.iter().map(|(id, _)| *id));
        let lines = Lines::default();
        let mut cast = Self {
            members: all.map(|id| (id, lines.address(id))).collect(),
            lines,
            nodes: BTreeMap::new(),
            disks: real.iter().map(|&id| (id, MemoryDisk::default())).collect(),
            serving: BTreeMap::new(),
            now: 0,
        };
        for (id, puppet) in puppets {
            cast.serve(*id, Server::builder().add_service(PeerServer::new((*puppet).clone()))).await;
        }
        for &id in real {
            cast.revive(id).await;
        }
        cast
    }

    async fn serve(&mut self, id: u64, router: tonic::transport::server::Router) {
        let (incoming, _) = self.lines.of(id).listen(self.members[&id].clone()).await.unwrap();
        let serving = async move { router.serve_with_incoming(incoming).await.unwrap() };
        self.serving.insert(id, tokio::spawn(serving));
    }

    /// Starts a real node with what is on its disk.
    pub(crate) async fn revive(&mut self, id: u64) {
        let consensus = Consensus::start(Options {
            id,
            members: self.members.clone(),
            disk: Arc::new(self.disks[&id].clone()),
            transport: self.lines.of(id),
            timing: Timing::default(),
            compaction: Compaction::default(),
            sink: Arc::new(Deaf),
        });
        let consensus = Arc::new(consensus.await.unwrap());
        self.serve(id, Server::builder().add_service(consensus.peer_service())).await;
        self.nodes.insert(id, consensus);
    }

    /// Kills a real node and takes its disk away.
    pub(crate) async fn rob(&mut self, id: u64) {
        self.serving.remove(&id).unwrap().abort();
        self.lines.cut(id);
        self.nodes.remove(&id).unwrap().shutdown().await;
        self.disks.insert(id, MemoryDisk::default());
    }

    /// All nodes and where they are.
    pub(crate) fn members(&self) -> &BTreeMap<u64, String> {
        &self.members
    }

    /// How a puppet reaches the others.
    pub(crate) fn peers(&self, from: u64) -> Peers {
        Peers::new(from, &self.members, self.lines.of(from), PATIENCE)
    }

    /// Waits until one real node leads by its own word, and gives its number and term.
    pub(crate) async fn leader(&self) -> (u64, u64) {
        eventually("a leader", || {
            let mut leaders = self.nodes.values().filter_map(|node| *node.leader().borrow());
            leaders.find(|leader| leader.is_me).map(|leader| (leader.id, leader.term))
        })
        .await
    }

    /// Has the present leader propose a batch; gives what becomes of it.
    pub(crate) async fn propose(&mut self) -> impl Future<Output = Result<u64, Refused>> + use<> {
        let (id, term) = self.leader().await;
        self.now += 1;
        let batch = Batch { now: self.now, ..Batch::default() };
        let bytes = postcard::to_stdvec(&batch).unwrap().into();
        self.nodes[&id].propose(term, bytes).await.unwrap()
    }

    pub(crate) async fn propose_all(&mut self, count: usize) {
        for _ in 0..count {
            self.propose().await.await.unwrap();
        }
    }
}

/// Waits for a condition.
pub(crate) async fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(value) = condition() {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never came: {what}"))
}

/// A node that says what a test tells it to.
#[derive(Clone)]
pub(crate) struct Puppet {
    script: Arc<Mutex<Script>>,
    /// Acknowledgements of entries that may leave.
    released: Arc<Semaphore>,
}

/// How a puppet acts.
pub(crate) struct Script {
    /// What it says of its past; nothing if it is silent.
    pub(crate) past: Option<Past>,
    /// It votes for whoever asks, and takes whatever a leader sends.
    pub(crate) follows: bool,
    /// It answers requests that bring no entries.
    pub(crate) answers_heartbeats: bool,
}

impl Puppet {
    /// A node that has nothing behind it.
    pub(crate) fn new(life: u64) -> Self {
        let vote = Vote { leader_id: LeaderId { term: 0, node_id: 0 }, committed: false };
        let past = Past { settled: false, vote, last: None, leads: false, life, witnessed: Vec::new() };
        let script = Script { past: Some(past), follows: false, answers_heartbeats: false };
        Self { script: Arc::new(Mutex::new(script)), released: Arc::new(Semaphore::new(0)) }
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    /// Changes what it says of its past.
    pub(crate) fn remember(&self, change: impl FnOnce(&mut Past)) {
        change(self.script().past.as_mut().unwrap());
    }

    /// Lets so many acknowledgements of entries leave.
    pub(crate) fn release(&self, acknowledgements: usize) {
        self.released.add_permits(acknowledgements);
    }

    /// Holds all further ones back.
    pub(crate) fn forget_released(&self) {
        self.released.forget_permits(usize::MAX >> 3);
    }

    fn vote_for(&self, request: &Request<Frame>) -> Result<Response<Frame>, Status> {
        let question: VoteRequest<Types> = whole(&request.get_ref().payload).unwrap();
        if !self.script().follows {
            return Err(Status::unavailable("a puppet that votes for nobody"));
        }
        respond(&VoteResponse::<Types>::new(question.vote, question.last_log_id, true))
    }
}

fn frame(value: &impl serde::Serialize) -> Frame {
    let mut payload = Vec::new();
    put(value, &mut payload).unwrap();
    Frame { payload: payload.into() }
}

fn respond(value: &impl serde::Serialize) -> Result<Response<Frame>, Status> {
    Ok(Response::new(frame(value)))
}

type Answers = Pin<Box<dyn Stream<Item = Result<Frame, Status>> + Send>>;

#[tonic::async_trait]
impl Peer for Puppet {
    type AppendStream = Answers;
    type PulseStream = Answers;

    async fn append(&self, request: Request<Streaming<Frame>>) -> Result<Response<Answers>, Status> {
        if !self.script().follows {
            return Err(Status::unavailable("a puppet that follows nobody"));
        }
        let puppet = self.clone();
        let answers = request.into_inner().then(move |said| {
            let puppet = puppet.clone();
            async move {
                let request = decode_append(said?.payload).unwrap();
                let last = request.entries.last().map(|entry| entry.log_id).or(request.prev_log_id);
                if !request.entries.is_empty() {
                    puppet.released.acquire().await.unwrap().forget();
                } else if !puppet.script().answers_heartbeats {
                    std::future::pending::<()>().await;
                }
                Ok(frame(&(Ok(last) as StreamAppendResult<Types>)))
            }
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn vote(&self, request: Request<Frame>) -> Result<Response<Frame>, Status> {
        self.vote_for(&request)
    }

    async fn pre_vote(&self, request: Request<Frame>) -> Result<Response<Frame>, Status> {
        self.vote_for(&request)
    }

    async fn snapshot(&self, _: Request<Streaming<Frame>>) -> Result<Response<Frame>, Status> {
        Err(Status::unavailable("a puppet takes no snapshot"))
    }

    async fn transfer_leader(&self, _: Request<Frame>) -> Result<Response<Frame>, Status> {
        Err(Status::unavailable("a puppet does not lead"))
    }

    async fn pulse(&self, _: Request<Frame>) -> Result<Response<Answers>, Status> {
        Err(Status::unavailable("a puppet has no pulse"))
    }

    async fn gone(&self, _: Request<Frame>) -> Result<Response<Frame>, Status> {
        Err(Status::unavailable("a puppet sees nothing"))
    }

    async fn past(&self, _: Request<Frame>) -> Result<Response<Frame>, Status> {
        let past = self.script().past.clone();
        respond(&past.ok_or_else(|| Status::unavailable("a puppet that is silent"))?)
    }
}

/// Asks a node for its vote, on behalf of a puppet.
pub(crate) async fn ask_for_vote(
    peers: &Peers,
    of: u64,
    vote: Vote,
    last: Option<LogId>,
) -> Result<VoteResponse<Types>, RpcError> {
    let peer = peers.all().find(|peer| peer.id() == of).unwrap();
    let question = VoteRequest::<Types> { vote, last_log_id: last, leadership_transfer: true };
    let call = |mut client: PeerClient<Channel>, request| async move { client.vote(request).await };
    peer.ask(openraft::RPCTypes::Vote, &question, PATIENCE, call).await
}
