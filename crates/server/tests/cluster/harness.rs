//! A cluster whose nodes can be killed, robbed of their disks, and cut off from each other.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use conclave_server::consensus::{Compaction, Consensus, Leader, Options, Refused, Timing};
use conclave_server::disk::{Disk, MemoryDisk};
use conclave_server::machine::Sink;
use conclave_service::{Batch, Outcome, State};
use conclave_wire::{Connecting, Connection, Connector, Incoming, Listening, Tcp, Transport};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;
use tonic::transport::Server;

use crate::addresses::own_addresses;

/// Longer than anything here takes on a busy machine: several elections, where a follower waits up to twelve seconds before
/// it stands for one.
const PATIENCE: Duration = Duration::from_secs(90);

/// Three times as patient as usual: on a machine that has much else to do a moment of silence must not be an election.
pub const TIMING: Timing = Timing {
    heartbeat: Duration::from_millis(100),
    election_min: Duration::from_millis(450),
    election_max: Duration::from_millis(1200),
};

/// Counts what it is told.
#[derive(Default)]
pub struct Heard(Mutex<Told>);

#[derive(Clone, Debug, Default)]
pub struct Told {
    pub applied: Vec<(u64, u64)>,
    pub replaced: Vec<u64>,
}

impl Heard {
    pub fn told(&self) -> Told {
        self.0.lock().unwrap().clone()
    }
}

impl Sink for Heard {
    fn applied(&self, index: u64, _outcome: &mut Outcome, state: &State) {
        self.0.lock().unwrap().applied.push((index, state.now()));
    }

    fn replaced(&self, index: u64, _state: &State) {
        self.0.lock().unwrap().replaced.push(index);
    }
}

/// All connections between nodes.
#[derive(Default)]
struct Wires {
    /// Between whom nothing passes.
    cut: BTreeSet<(u64, u64)>,
    /// Who is refused by whom, as if nobody listened there.
    refused: BTreeSet<(u64, u64)>,
    /// Who made each to whom, and how to end it.
    open: Vec<(u64, u64, AbortHandle)>,
    addresses: BTreeMap<String, u64>,
    /// Ends of connections that lead nowhere any more, but that nobody has been told of.
    silent: Vec<tokio::io::DuplexStream>,
}

/// The transport of one node.
struct Wire {
    from: u64,
    wires: Arc<Mutex<Wires>>,
}

impl Transport for Wire {
    fn connect(&self, address: String) -> Connecting {
        let (from, wires) = (self.from, Arc::clone(&self.wires));
        Box::pin(async move {
            let to = wires.lock().unwrap().addresses[&address];
            if wires.lock().unwrap().refused.contains(&(from, to)) {
                return Err(ErrorKind::ConnectionRefused.into());
            }
            let (near, far) = tokio::io::duplex(1 << 16);
            if wires.lock().unwrap().cut.contains(&(from, to)) {
                wires.lock().unwrap().silent.push(far);
                return Ok(Connection::new(near));
            }
            let stream = tokio::net::TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let task = tokio::spawn(join(far, stream, from, to, Arc::clone(&wires)));
            wires.lock().unwrap().open.push((from, to, task.abort_handle()));
            Ok(Connection::new(near))
        })
    }

    fn listen(&self, address: String) -> Listening {
        Tcp.listen(address)
    }
}

/// Passes bytes on until the wire is cut; then neither end hears of it.
async fn join(
    far: tokio::io::DuplexStream,
    stream: tokio::net::TcpStream,
    from: u64,
    to: u64,
    wires: Arc<Mutex<Wires>>,
) {
    let (far_in, far_out) = tokio::io::split(far);
    let (near_in, near_out) = tokio::io::split(stream);
    tokio::select! {
        () = pass(far_in, near_out, (from, to), &wires) => {}
        () = pass(near_in, far_out, (from, to), &wires) => {}
    }
}

async fn pass(
    mut input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
    wire: (u64, u64),
    wires: &Mutex<Wires>,
) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = input.read(&mut bytes).await {
        if wires.lock().unwrap().cut.contains(&wire) {
            std::future::pending::<()>().await;
        }
        if output.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

/// A running node.
pub struct Node {
    pub consensus: Arc<Consensus>,
    pub heard: Arc<Heard>,
    server: JoinHandle<()>,
}

/// What a node keeps its things on.
pub type Disks = BTreeMap<u64, MemoryDisk>;

pub struct Cluster {
    pub members: BTreeMap<u64, String>,
    pub nodes: BTreeMap<u64, Node>,
    pub disks: Disks,
    compaction: Compaction,
    timing: Timing,
    wires: Arc<Mutex<Wires>>,
    /// The service time of the last batch.
    now: u64,
}

pub fn small() -> Compaction {
    Compaction { entries: 20, keep: 5, segment_bytes: 32 << 10, ..Compaction::default() }
}

impl Cluster {
    /// Starts so many nodes, with nothing.
    pub async fn start(count: u64, compaction: Compaction) -> Self {
        Self::start_with(count, compaction, TIMING).await
    }

    /// The same, with other times.
    pub async fn start_with(count: u64, compaction: Compaction, timing: Timing) -> Self {
        // Seen with `--no-capture` and `RUST_LOG`; the first test of a process sets it up for all.
        let _ = tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_test_writer()
            .try_init();
        let mut cluster = Self {
            members: BTreeMap::new(),
            nodes: BTreeMap::new(),
            disks: (1..=count).map(|id| (id, MemoryDisk::default())).collect(),
            compaction,
            timing,
            wires: Arc::default(),
            now: 0,
        };
        let mut incoming = BTreeMap::new();
        // A node that comes back must find its port free: these are not handed out by the system.
        for (id, address) in (1..=count).zip(own_addresses(count as usize)) {
            let (listener, address) = Tcp.listen(address).await.unwrap();
            cluster.wires().addresses.insert(address.clone(), id);
            cluster.members.insert(id, address);
            incoming.insert(id, listener);
        }
        for (id, listener) in incoming {
            cluster.serve(id, listener).await;
        }
        cluster
    }

    fn wires(&self) -> MutexGuard<'_, Wires> {
        self.wires.lock().unwrap()
    }

    pub fn options(&self, id: u64, disk: Arc<dyn Disk>, sink: Arc<dyn Sink>) -> Options {
        let transport: Connector = Arc::new(Wire { from: id, wires: Arc::clone(&self.wires) });
        Options {
            id,
            members: self.members.clone(),
            disk,
            transport,
            timing: self.timing,
            compaction: self.compaction,
            sink,
        }
    }

    async fn serve(&mut self, id: u64, incoming: Incoming) {
        let heard = Arc::new(Heard::default());
        let disk = Arc::new(self.disks[&id].clone());
        let options = self.options(id, disk, Arc::clone(&heard) as Arc<dyn Sink>);
        let consensus = Arc::new(Consensus::start(options).await.unwrap());
        let service = consensus.peer_service();
        let server = tokio::spawn(async move {
            Server::builder().add_service(service).serve_with_incoming(incoming).await.unwrap();
        });
        self.nodes.insert(id, Node { consensus, heard, server });
    }

    /// Cuts the power of a node.
    pub async fn kill(&mut self, id: u64, seed: u64) {
        let disk = self.disks[&id].crash(seed);
        self.disks.insert(id, disk);
        let node = self.nodes.remove(&id).unwrap();
        node.server.abort();
        self.break_wires(id);
        node.consensus.shutdown().await;
    }

    /// Ends all connections of a node, as both ends notice.
    pub fn break_wires(&self, id: u64) {
        self.wires().open.retain(|(from, to, task)| {
            let is_its = *from == id || *to == id;
            if is_its {
                task.abort();
            }
            !is_its
        });
    }

    /// From now on a node is told that nobody listens at the address of another one.
    pub fn refuse(&self, from: u64, to: u64) {
        self.wires().refused.insert((from, to));
    }

    /// Turns it on again.
    pub async fn revive(&mut self, id: u64) {
        let address = self.members[&id].clone();
        // Its former life may still be about to let go of the address.
        let listening = async {
            loop {
                match Tcp.listen(address.clone()).await {
                    Ok((incoming, _)) => return incoming,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::AddrInUse, "{error}"),
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let incoming = timeout(PATIENCE, listening).await.expect("the address is free again");
        self.serve(id, incoming).await;
    }

    /// Cuts a node off from all others, without anybody being told.
    pub fn cut_off(&self, id: u64) {
        let mut wires = self.wires();
        for &other in self.members.keys().filter(|&&other| other != id) {
            wires.cut.extend([(id, other), (other, id)]);
        }
    }

    /// Lets everything pass again, over new connections.
    pub fn heal(&self) {
        self.wires().cut.clear();
        self.wires().refused.clear();
    }

    pub fn consensus(&self, id: u64) -> &Consensus {
        &self.nodes[&id].consensus
    }

    /// Waits until one node leads that is not among those given, and others than those know.
    pub async fn leader_without(&self, without: &[u64]) -> Leader {
        eventually("a leader", || {
            let others = || self.nodes.iter().filter(|(id, _)| !without.contains(id));
            let mut known = others().map(|(_, node)| *node.consensus.leader().borrow());
            let first = known.next()??;
            let agreed = known.all(|leader| {
                leader.is_some_and(|leader| (leader.id, leader.term) == (first.id, first.term))
            });
            let leads = |id| !without.contains(&id) && self.nodes.contains_key(&id);
            (agreed && leads(first.id)).then_some(first)
        })
        .await
    }

    pub async fn leader(&self) -> Leader {
        self.leader_without(&[]).await
    }

    /// Waits until every node takes part.
    pub async fn all_settled(&self) {
        let settled = |node: &Node| node.consensus.status().settled;
        eventually("all settled", || self.nodes.values().all(settled).then_some(())).await;
    }

    /// Proposes one more batch to a leader and waits until it is decided.
    pub async fn propose(&mut self, leader: Leader) -> Result<u64, Refused> {
        self.now += 1;
        let batch = Batch { now: self.now, ..Batch::default() };
        let bytes = postcard::to_stdvec(&batch).unwrap().into();
        self.consensus(leader.id).propose(leader.term, bytes).await?.await
    }

    pub async fn propose_many(&mut self, leader: Leader, count: u64) {
        for _ in 0..count {
            timeout(PATIENCE, self.propose(leader)).await.expect("decided in time").unwrap();
        }
    }

    /// Waits until a node has applied everything that was decided here.
    pub async fn caught_up(&self, id: u64) {
        let due = self.now;
        eventually("everything applied", || (self.now_at(id) == due).then_some(())).await;
    }

    pub fn now_at(&self, id: u64) -> u64 {
        self.consensus(id).state().look(State::now)
    }
}

/// Waits for a condition.
pub async fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(value) = condition() {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never came: {what}"))
}
