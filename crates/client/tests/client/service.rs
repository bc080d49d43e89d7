//! The client against real nodes, over TCP and on a real disk.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use conclave_client::v1::check_response::Standing;
use conclave_client::{Client, Code, Mode, Request, SessionOptions};
use conclave_server::consensus::{Compaction, Timing};
use conclave_server::disk::Files;
use conclave_server::server::{Options, Server};
use conclave_server::{Monotonic, SystemWall, Tcp};
use conclave_wire::{Connecting, Incoming, Listening, Transport};
use tempfile::TempDir;

use crate::fake::PATIENCE;

/// Nodes of one cluster, in this process.
pub struct Cluster {
    _dir: TempDir,
    servers: Vec<Server>,
    pub addresses: Vec<String>,
}

impl Cluster {
    pub async fn start(nodes: u64) -> Self {
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
                wall: Arc::new(SystemWall),
            };
            servers.push(Server::start(options).await.expect("it starts"));
        }
        Self { _dir: dir, servers, addresses: members.into_values().collect() }
    }

    pub fn client(&self) -> Client {
        Client::new(self.addresses.clone()).expect("the addresses are right")
    }

    pub async fn stop(self) {
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

/// Waits until one of them leads, and gives its place.
async fn leading(servers: &[Server]) -> usize {
    let leads = |server: &Server| server.consensus().status().leader == Some(server.consensus().status().id);
    let found = async {
        loop {
            match servers.iter().position(leads) {
                Some(place) => return place,
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, found).await.expect("one of them leads")
}

pub fn options(label: &str) -> SessionOptions {
    // No test waits for the end of a lease, on a machine that may stand still for a moment.
    SessionOptions::default().ttl(Duration::from_secs(20)).label(label)
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
    let Cluster { _dir, mut servers, addresses } = cluster;
    let leader = leading(&servers).await;
    servers.remove(leader).shutdown().await;
    let left = Cluster { _dir, servers, addresses };
    guard.release().await.expect("it is still held");
    let guard = waiting.await.expect("no panic").expect("it is granted by the next leader");
    guard.release().await.expect("it is held");
    left.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_thousand_cycles_go_on_beside_one_long_wait() {
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    let one = client.session(options("one")).await.expect("it opens");
    let two = client.session(options("two")).await.expect("it opens");
    let held = one.acquire(Request::lock("a")).await.expect("it is free");
    let waiting = tokio::spawn({
        let two = two.clone();
        async move { two.acquire(Request::lock("a")).await }
    });
    held.contended().await;
    // Many at a time, so that it does not take long; each releases by dropping, every other one waits for that.
    let cycles = (0..30).map(|task| {
        let two = two.clone();
        tokio::spawn(async move {
            for cycle in 0..100 {
                let request = Request::lock(format!("n{task}")).strand(task + 1);
                let guard = two.acquire(request).await.expect("nothing is in its way");
                if cycle % 2 == 0 {
                    guard.release().await.expect("it is held");
                }
            }
        })
    });
    for cycle in cycles.collect::<Vec<_>>() {
        cycle.await.expect("no panic");
    }
    // And what was dropped is free.
    let names: Vec<String> = (0..30).map(|task| format!("n{task}")).collect();
    one.acquire(Request::locks(names)).await.expect("all of it is free").release().await.expect("it is held");
    held.release().await.expect("it is held");
    waiting.await.expect("no panic").expect("it is granted").release().await.expect("it is held");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_asks_for_more_at_once_than_the_service_remembers() {
    let cluster = Cluster::start(1).await;
    let session = cluster.client().session(options("greedy")).await.expect("it opens");
    let asks = (0..3_000).map(|number| {
        let session = session.clone();
        tokio::spawn(async move { session.acquire(Request::lock(format!("n{number}"))).await })
    });
    let mut guards = Vec::new();
    for ask in asks.collect::<Vec<_>>() {
        guards.push(ask.await.expect("no panic").expect("it is free"));
    }
    // All of them are released, and what is asked for behind them is not refused.
    drop(guards);
    let names: Vec<String> = (0..3_000).map(|number| format!("n{number}")).collect();
    for names in names.chunks(64) {
        let again = session.acquire(Request::locks(names).try_once()).await.expect("they are free");
        again.release().await.expect("it is held");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversion_that_is_dropped_is_cancelled() {
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    let one = client.session(options("one")).await.expect("it opens");
    let two = client.session(options("two")).await.expect("it opens");
    let shared = || Request::lock("a").mode(Mode::Shared);
    let first = one.acquire(shared()).await.expect("it is free");
    let second = two.acquire(shared()).await.expect("it can be shared");
    let token = first.token();
    // It waits for the other sharer; once that one knows, it stands in the queue.
    let converting = first.convert("a", Mode::Exclusive, None);
    tokio::select! {
        result = converting => panic!("it is shared: {result:?}"),
        _ = second.contended() => {}
    }
    // Whoever comes next is not behind it, and it does not happen later.
    let third = two.acquire(shared().wait(Duration::from_secs(10))).await.expect("nobody is before it");
    third.release().await.expect("it is held");
    second.release().await.expect("it is held");
    assert_eq!(first.token(), token, "it is held as before");
    let standing = client.check("a", token).await.expect("it answers").standing();
    assert_eq!((standing, first.check()), (Standing::Held, Ok(token)));
    let fourth = two.acquire(shared().try_once()).await.expect("it is only shared");
    fourth.release().await.expect("it is held");
    // One that is waited for happens, under a new token.
    first.convert("a", Mode::Exclusive, None).await.expect("nobody is in its way");
    assert!(first.token() > token);
    let busy = two.acquire(shared().try_once()).await.map(|guard| guard.token());
    assert_eq!(busy.expect_err("it is held alone").code(), Some(Code::Busy));
    first.release().await.expect("it is held under the new token");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_wait_is_a_wait() {
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    let one = client.session(options("one")).await.expect("it opens");
    let two = client.session(options("two")).await.expect("it opens");
    let held = one.acquire(Request::lock("a").mode(Mode::Shared)).await.expect("it is free");
    let also = two.acquire(Request::lock("a").mode(Mode::Shared)).await.expect("it is shared");
    let short = Duration::from_micros(900);
    let waited = two.acquire(Request::lock("a").strand(1).wait(short)).await.map(|guard| guard.token());
    assert_eq!(waited.expect_err("it is held").code(), Some(Code::TimedOut));
    let waited = also.convert("a", Mode::Exclusive, Some(short)).await;
    assert_eq!(waited.expect_err("it is shared").code(), Some(Code::TimedOut));
    drop((held, also));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_holds_very_much_outlives_the_leader() {
    const GRANTS: usize = 2_000;
    // What they ask for is more than one message to a node may have.
    const WAITS: usize = 500;
    let cluster = Cluster::start(3).await;
    let client = cluster.client();
    let ttl = Duration::from_secs(30);
    let session = client.session(options("rich").ttl(ttl)).await.expect("it opens");
    let poor = client.session(options("poor").ttl(ttl)).await.expect("it opens");
    let names = |grant| (0..64).map(move |name| format!("{grant:05}-{name:03}-{}", "x".repeat(30)));
    let asks = (0..GRANTS).map(|grant| {
        let session = session.clone();
        tokio::spawn(async move { session.acquire(Request::locks(names(grant))).await })
    });
    let mut guards = Vec::new();
    for ask in asks.collect::<Vec<_>>() {
        guards.push(ask.await.expect("no panic").expect("they are free"));
    }
    let waits = (0..WAITS).map(|grant| {
        let poor = poor.clone();
        tokio::spawn(async move { poor.acquire(Request::locks(names(grant)).strand(grant as u32)).await })
    });
    let waits: Vec<_> = waits.collect();
    for guard in &guards[..WAITS] {
        guard.contended().await;
    }
    let Cluster { _dir, mut servers, addresses } = cluster;
    let leader = leading(&servers).await;
    servers.remove(leader).shutdown().await;
    let last = guards.pop().expect("there are many");
    last.release().await.expect("it is still held");
    assert!(guards.iter().all(|guard| !guard.is_lost()));
    drop(guards);
    for wait in waits {
        drop(wait.await.expect("no panic").expect("it kept its place"));
    }
    Cluster { _dir, servers, addresses }.stop().await;
}

/// Sends what a future asks, and leaves it at that.
async fn begin<T>(future: &mut (impl Future<Output = T> + Unpin)) {
    let once = std::future::poll_fn(|context| {
        assert!(Pin::new(&mut *future).poll(context).is_pending(), "it has to be asked first");
        Poll::Ready(())
    });
    once.await;
}

#[tokio::test]
async fn a_release_that_crosses_a_conversion_gives_back_its_level() {
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    let one = client.session(options("one")).await.expect("it opens");
    let two = client.session(options("two")).await.expect("it opens");
    let shared = || Request::lock("a").mode(Mode::Shared).reentrant();
    let attempt = || async { two.acquire(Request::lock("a").try_once()).await.map(drop) };
    let first = one.acquire(shared()).await.expect("it is free");
    let second = one.acquire(shared()).await.expect("it is held by the same");
    // This runtime has one thread: the release is in flight before any answer is heard.
    let mut converting = Box::pin(first.convert("a", Mode::Exclusive, None));
    begin(&mut converting).await;
    drop(second);
    converting.await.expect("nobody is in its way");
    assert_eq!(attempt().await.expect_err("it is held").code(), Some(Code::Busy));
    first.release().await.expect("it is held once");
    attempt().await.expect("no level is left over");
    // The same with the last guard, while another one is in flight.
    let first = one.acquire(shared()).await.expect("it is free");
    let mut converting = Box::pin(first.convert("a", Mode::Exclusive, None));
    begin(&mut converting).await;
    let mut again = Box::pin(one.acquire(shared()));
    begin(&mut again).await;
    drop(converting);
    let releasing = first.release();
    let (again, released) = tokio::join!(again, releasing);
    released.expect("it is given back under the token it had");
    let again = again.expect("it is held by the same");
    assert_eq!(attempt().await.expect_err("it is held").code(), Some(Code::Busy));
    let standing = client.check("a", again.token()).await.expect("it answers").standing();
    assert_eq!((standing, again.check()), (Standing::Held, Ok(again.token())));
    again.release().await.expect("it is held once");
    attempt().await.expect("no level is left over");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_run_of_a_client_after_the_other_takes_a_session_over() {
    let cluster = Cluster::start(1).await;
    let session = cluster.client().session(options("one")).await.expect("it opens");
    let id = session.id();
    let guard = session.acquire(Request::lock("a")).await.expect("it is free");
    let mut former = session;
    for run in 0..4 {
        // Each is a client of its own, and knows nothing of those before.
        let client = cluster.client();
        let resumed = SessionOptions { resume: Some(id), ..options("next") };
        let session = client.session(resumed).await.expect("it is there");
        let held = client.show_session(id).await.expect("it answers").expect("it is there");
        assert_eq!((held.held.len(), held.generation), (1, run + 2));
        let other = session.acquire(Request::lock(format!("b{run}"))).await.expect("it is free");
        other.release().await.expect("it is held");
        let refused = former.acquire(Request::lock("c")).await.map(|guard| guard.token());
        refused.expect_err("it was taken over");
        former = session;
    }
    drop(guard);
    cluster.stop().await;
}
