//! The live driver against bare sockets, on this machine: how long an entry takes, and how many messages go through.
//!
//! Both bars compare with something measured in the same run, with the same frames and the same runtime:
//! - an uncontended entry of Ricart-Agrawala among three processes takes at most 3 round trips of two bare tasks;
//! - the driver carries at least a third of the messages of a bare echo that keeps as many in flight.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use conclave_algorithms::mutex::{Request, RicartAgrawala};
use conclave_algorithms::{Algorithm, Arena, Settings};
use conclave_core::{Boot, Effects, Input, Members, Message, NodeId, Phase, Protocol};
use conclave_net::frame::{Frame, decode, encode, split};
use conclave_net::{Events, Node, NodeConfig, Options, start};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

const ENTRIES: usize = 20_000;
const MESSAGES: u64 = 400_000;
/// Messages in flight at once.
const WINDOW: u64 = 1_024;
/// As much as the driver gathers for a write.
const BATCH: usize = 64 << 10;

fn main() {
    // `cargo test --benches` only wants to know whether it runs.
    let is_test = std::env::args().any(|argument| argument == "--test");
    let (entries, messages) = if is_test { (20, 2_000) } else { (ENTRIES, MESSAGES) };
    for place in [Place::Apart, Place::Together] {
        println!("{place:?}");
        let trip = measure(round_trip(place, entries));
        let entry = measure(entry(place, entries));
        let ratio = entry.as_secs_f64() / trip.as_secs_f64();
        println!(
            "  bare round trip {trip:>9.1?}   entry of three {entry:>9.1?}   ratio {ratio:.2} (at most 3)"
        );
        let bare = measure(bare_echo(place, messages));
        let driven = measure(driven_echo(place, messages));
        let share = driven / bare;
        println!("  bare echo {bare:>9.0}/s   driver {driven:>9.0}/s   share {share:.2} (at least 0.33)");
    }
}

/// Where the other processes run.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Each in a thread of its own, as in a process of its own.
    Apart,
    /// All in the thread of the first.
    Together,
}

impl Place {
    /// Runs something there for as long as the program lasts.
    fn run(self, work: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::Apart => drop(std::thread::spawn(|| runtime().block_on(work))),
            Self::Together => drop(tokio::spawn(work)),
        }
    }
}

/// Runs a measurement as a task, as applications do.
fn measure<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    runtime().block_on(async { tokio::spawn(work).await.unwrap() })
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn median(mut spans: Vec<Duration>) -> Duration {
    spans.sort_unstable();
    spans[spans.len() / 2]
}

/// A connection to somebody who sends back what it gets.
async fn echoing(place: Place) -> TcpStream {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    place.run(async move {
        listener.set_nonblocking(true).unwrap();
        let (far, _) = TcpListener::from_std(listener).unwrap().accept().await.unwrap();
        far.set_nodelay(true).unwrap();
        echo(far).await;
    });
    let near = TcpStream::connect(address).await.unwrap();
    near.set_nodelay(true).unwrap();
    near
}

/// The bodies of all whole frames; puts an answer to each into `out`.
fn answer(buffer: &mut BytesMut, out: &mut Vec<u8>) -> u64 {
    let mut count = 0;
    while let Some(bytes) = split(buffer, 1 << 20).unwrap() {
        let Ok(Frame::Data { seq, body, .. }) = decode(&bytes) else { panic!("not what was sent") };
        let ball: Ball = postcard::from_bytes(body).unwrap();
        let body = postcard::to_stdvec(&ball).unwrap();
        encode(&Frame::Data { seq, stamp: None, body: &body }, out);
        count += 1;
    }
    count
}

/// Sends back what comes, one write per read.
async fn echo(mut stream: TcpStream) {
    let (mut buffer, mut out) = (BytesMut::with_capacity(BATCH), Vec::new());
    loop {
        buffer.reserve(BATCH);
        if !matches!(stream.read_buf(&mut buffer).await, Ok(count) if count > 0) {
            return;
        }
        answer(&mut buffer, &mut out);
        if stream.write_all(&out).await.is_err() {
            return;
        }
        out.clear();
    }
}

fn first_frames(count: u64) -> Vec<u8> {
    let mut out = Vec::new();
    for seq in 1..=count {
        let body = postcard::to_stdvec(&Ball(seq)).unwrap();
        encode(&Frame::Data { seq, stamp: None, body: &body }, &mut out);
    }
    out
}

async fn round_trip(place: Place, rounds: usize) -> Duration {
    let mut near = echoing(place).await;
    let mut out = first_frames(1);
    let mut buffer = BytesMut::with_capacity(BATCH);
    let mut spans = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        near.write_all(&out).await.unwrap();
        out.clear();
        while answer(&mut buffer, &mut out) == 0 {
            near.read_buf(&mut buffer).await.unwrap();
        }
        spans.push(start.elapsed());
    }
    median(spans)
}

async fn bare_echo(place: Place, messages: u64) -> f64 {
    let mut near = echoing(place).await;
    let start = Instant::now();
    let mut out = first_frames(WINDOW);
    let mut buffer = BytesMut::with_capacity(BATCH);
    let mut received = 0;
    while received < messages {
        near.write_all(&out).await.unwrap();
        out.clear();
        buffer.reserve(BATCH);
        near.read_buf(&mut buffer).await.unwrap();
        received += answer(&mut buffer, &mut out);
    }
    2.0 * received as f64 / start.elapsed().as_secs_f64()
}

/// The first node of a cluster; the others run elsewhere.
struct First<P: Protocol> {
    node: Node<P>,
    events: Events<P>,
    _dir: TempDir,
}

async fn cluster<P: Protocol<Message: DeserializeOwned, Durable: DeserializeOwned>>(
    place: Place,
    n: u32,
    config: P::Config,
) -> First<P>
where
    P::Config: 'static,
{
    let listeners: Vec<StdListener> = (0..n).map(|_| StdListener::bind("127.0.0.1:0").unwrap()).collect();
    let addresses: Vec<(NodeId, SocketAddr)> =
        (1..).map(NodeId).zip(listeners.iter().map(|listener| listener.local_addr().unwrap())).collect();
    let dir = tempfile::tempdir().unwrap();
    let mut starts: Vec<_> = (addresses.iter().zip(listeners))
        .map(|((id, _), listener)| {
            let data = dir.path().join(id.to_string());
            let settings = NodeConfig::new(*id, addresses.clone(), "bench", "bench", data);
            let options = Options { listener: Some(listener), ..Options::default() };
            start::<P>(settings, config.clone(), options)
        })
        .collect();
    for other in starts.drain(1..) {
        place.run(async {
            let (node, _events) = other.await.unwrap();
            let _ = node.ended().await;
        });
    }
    let (node, events) = starts.remove(0).await.unwrap();
    while !node.status().peers.values().all(|peer| peer.connected_to && peer.connected_from) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    First { node, events, _dir: dir }
}

async fn entry(place: Place, rounds: usize) -> Duration {
    let settings = Settings::new(const { &RicartAgrawala::ABOUT }, Arena::Laboratory, [], None).unwrap();
    let config = RicartAgrawala::configure(&settings, &Members::numbered(3)).unwrap();
    let mut first = cluster::<RicartAgrawala>(place, 3, config).await;
    let mut spans = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        first.node.request(Request::Acquire).await.unwrap();
        first.events.recv().await.unwrap();
        spans.push(start.elapsed());
        first.node.request(Request::Release).await.unwrap();
    }
    median(spans)
}

async fn driven_echo(place: Place, messages: u64) -> f64 {
    let mut first = cluster::<PingPong>(place, 2, messages).await;
    let start = Instant::now();
    first.node.request(()).await.unwrap();
    first.events.recv().await.unwrap();
    2.0 * messages as f64 / start.elapsed().as_secs_f64()
}

/// Keeps a number of balls in the air: whoever has one throws it back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PingPong {
    peer: NodeId,
    serves: bool,
    left: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
struct Ball(u64);

impl Message for Ball {
    fn kind(&self) -> &'static str {
        "Ball"
    }
}

impl Protocol for PingPong {
    type Config = u64;
    type Message = Ball;
    type Request = ();
    type Event = ();
    type Timer = ();
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        let peer = boot.members.others(boot.id).next().expect("there are two");
        Self { peer, serves: boot.members.at(0) == boot.id, left: *boot.config }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Request(()) => (1..=WINDOW).for_each(|number| out.send(self.peer, Ball(number))),
            Input::Receive { message, .. } => {
                out.send(self.peer, message);
                self.left = self.left.saturating_sub(1);
                if self.serves && self.left == 0 {
                    out.emit(());
                }
            }
            Input::Start | Input::Expire(()) | Input::PeerDown { .. } | Input::PeerUp { .. } => {}
        }
    }

    fn phase(&self) -> Phase {
        Phase::IDLE
    }
}
