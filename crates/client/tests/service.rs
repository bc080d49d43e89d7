//! The client against real nodes, over TCP and on a real disk.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use conclave_client::v1::check_response::Standing;
use conclave_client::v1::failed::Code;
use conclave_client::{Client, Mode, Request, SessionOptions};
use conclave_server::consensus::{Compaction, Timing};
use conclave_server::disk::Files;
use conclave_server::server::{Options, Server};
use conclave_server::{Monotonic, Tcp};
use conclave_wire::{Connecting, Incoming, Listening, Transport};
use tempfile::TempDir;

/// Nodes of one cluster, in this process.
struct Cluster {
    _dir: TempDir,
    servers: Vec<Server>,
    addresses: Vec<String>,
}

impl Cluster {
    async fn start(nodes: u64) -> Self {
        let dir = tempfile::tempdir().expect("there is room for data");
        let mut members = BTreeMap::new();
        let mut doors = BTreeMap::new();
        for id in 1..=nodes {
            let (door, address) = Door::open().await;
            members.insert(id, address);
            doors.insert(id, door);
        }
        let mut servers = Vec::new();
        for (id, door) in doors {
            let disk = Files::open(&dir.path().join(id.to_string())).expect("a directory can be made");
            let options = Options {
                id,
                members: members.clone(),
                listen: members[&id].clone(),
                disk: Arc::new(disk),
                transport: Arc::new(door),
                timing: Timing::default(),
                compaction: Compaction::default(),
                clock: Box::new(Monotonic::default()),
            };
            servers.push(Server::start(options).await.expect("it starts"));
        }
        Self { _dir: dir, servers, addresses: members.into_values().collect() }
    }

    fn client(&self) -> Client {
        Client::new(self.addresses.clone()).expect("the addresses are right")
    }

    async fn stop(self) {
        for server in self.servers {
            server.shutdown().await;
        }
    }
}

/// TCP, with a port that is held from when its number is known until its node listens: a port that is only looked up
/// may be anybody's by then.
struct Door(Mutex<Option<(Incoming, String)>>);

impl Door {
    async fn open() -> (Self, String) {
        let (incoming, address) = Tcp.listen("127.0.0.1:0".to_owned()).await.expect("a port is free");
        (Self(Mutex::new(Some((incoming, address.clone())))), address)
    }
}

impl Transport for Door {
    fn connect(&self, address: String) -> Connecting {
        Tcp.connect(address)
    }

    fn listen(&self, address: String) -> Listening {
        let door = self.0.lock().expect("no panic").take().expect("a node listens once");
        assert_eq!(door.1, address);
        Box::pin(async { Ok(door) })
    }
}

fn options(label: &str) -> SessionOptions {
    SessionOptions::default().ttl(Duration::from_secs(2)).label(label)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_after_the_other_with_growing_tokens() {
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    let one = client.session(options("one")).await.expect("it opens");
    let two = client.session(options("two")).await.expect("it opens");
    let first = one.acquire(Request::lock("a")).await.expect("it is free");
    let busy = two.acquire(Request::lock("a").try_once()).await.map(|guard| guard.token());
    assert_eq!(busy.expect_err("it is held").code(), Some(Code::Busy));
    let late =
        two.acquire(Request::lock("a").wait(Duration::from_millis(100))).await.map(|guard| guard.token());
    assert_eq!(late.expect_err("it is held").code(), Some(Code::TimedOut));
    let waiting = tokio::spawn(async move { two.acquire(Request::lock("a")).await });
    assert_eq!(first.contended().await, "a");
    let token = first.token();
    first.release().await.expect("it is held");
    let second = waiting.await.expect("no panic").expect("it is granted");
    assert!(second.token() > token);
    let standing = client.check("a", token).await.expect("it answers");
    assert_eq!((standing.standing(), standing.newest), (Standing::Stale, second.token()));
    drop(second);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_of_three_nodes_serves() {
    let cluster = Cluster::start(3).await;
    let mut last = 0;
    for address in &cluster.addresses {
        let mut through = conclave_client::Options::new([address.clone()]);
        through.follow_leader = false;
        let client = Client::with(through).expect("the address is right");
        let session = client.session(options(address)).await.expect("it opens");
        let guard = session.acquire(Request::lock("a").mode(Mode::Shared)).await.expect("it is free");
        assert!(guard.token() > last);
        last = guard.token();
        assert_eq!(client.list("").await.expect("it answers").len(), 1);
        guard.release().await.expect("it is held");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_outlives_the_leader() {
    let cluster = Cluster::start(3).await;
    let client = cluster.client();
    let one = client.session(options("one")).await.expect("it opens");
    let two = client.session(options("two")).await.expect("it opens");
    let guard = one.acquire(Request::lock("a")).await.expect("it is free");
    let waiting = tokio::spawn(async move { two.acquire(Request::lock("a")).await });
    guard.contended().await;
    let leads = |server: &Server| server.consensus().status().leader == Some(server.consensus().status().id);
    let Cluster { _dir, mut servers, addresses } = cluster;
    let leader = servers.iter().position(leads).expect("one of them leads");
    servers.remove(leader).shutdown().await;
    let left = Cluster { _dir, servers, addresses };
    guard.release().await.expect("it is still held");
    let guard = waiting.await.expect("no panic").expect("it is granted by the next leader");
    guard.release().await.expect("it is held");
    left.stop().await;
}
