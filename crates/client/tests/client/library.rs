//! What programs find in the library beside locks themselves.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use conclave_client::v1::command::Act;
use conclave_client::{
    Campaign, Client, Code, Error, Leadership, Options, Request, SessionOptions, Tcp, Transport, blocking, v1,
};
use tokio::time::timeout;

use crate::fake::{Fake, PATIENCE, well};
use crate::service::{Cluster, options};

/// Longer than anything here takes on a busy machine.
fn long() -> SessionOptions {
    options("library")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn to_try_is_to_get_it_or_nothing() {
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    let one = client.session(long()).await.unwrap();
    let two = client.session(long()).await.unwrap();
    let held = one.try_acquire("a").await.unwrap().expect("it is free");
    assert!(two.try_acquire("a").await.unwrap().is_none());
    assert!(two.try_acquire(Request::locks(["b", "a"])).await.unwrap().is_none(), "all or nothing");
    let invalid = two.try_acquire("").await.expect_err("that is no name");
    assert_eq!(invalid.code(), Some(Code::Invalid));
    drop(held);
    let leads = one.try_campaign(Campaign::new("chief", "one")).await.unwrap().expect("nobody leads");
    assert!(two.try_campaign(Campaign::new("chief", "two")).await.unwrap().is_none());
    assert!(format!("{leads:?} {one:?} {client:?}").contains(&format!("{:016x}", one.id())));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_under_a_lock_is_given_its_fence_and_told_of_its_loss() {
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    let session = client.session(long()).await.unwrap();
    let other = client.session(long()).await.unwrap();
    let token = session
        .with_lock("a", async |fence| {
            assert!(other.try_acquire("a").await.unwrap().is_none(), "it is held meanwhile");
            fence.check().unwrap()
        })
        .await
        .unwrap();
    let after = other.try_acquire("a").await.unwrap().expect("it was released");
    assert!(after.token() > token);
    after.release().await.unwrap();

    let lost = session.with_lock("a", async |_| {
        other.force("a", None, "because").await.unwrap();
        std::future::pending::<()>().await;
    });
    let error = timeout(PATIENCE, lost).await.expect("the work is dropped").expect_err("it was lost");
    assert!(
        matches!(&error, Error::Lost(lost) if lost.why.contains("because")) && error.is_lost(),
        "{error}"
    );

    let value = client.with_lock("b", async |fence| fence.token()).await.unwrap();
    assert!(value > token);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_taken_up_again_gives_guards_of_what_it_holds() {
    let cluster = Cluster::start(1).await;
    let former = cluster.client();
    let session = former.session(long()).await.unwrap();
    let lock = session.acquire(Request::locks(["a", "b"])).await.unwrap();
    let again = session.acquire(Request::locks(["a", "b"]).reentrant()).await.unwrap();
    let leads = session.campaign(Campaign::new("chief", "before")).await.unwrap();
    let (id, token, term) = (session.id(), lock.token(), leads.term());
    assert!(session.resumed().await.unwrap().is_empty(), "nothing was held before");

    let client = cluster.client();
    let resumed = client.session(SessionOptions { resume: Some(id), ..long() }).await.unwrap();
    timeout(PATIENCE, lock.lost()).await.expect("the former run is told");
    std::mem::forget((lock, again, leads, session, former));
    let mut found = resumed.resumed().await.unwrap();
    assert!(resumed.resumed().await.unwrap().is_empty(), "each is given once");
    found.sort_by_key(|found| found.guard.token());
    let tokens: Vec<u64> = found.iter().map(|found| found.guard.token()).collect();
    assert_eq!(tokens, [token, token, term], "what was granted twice has two guards");
    assert_eq!(found[0].names, ["a", "b"]);
    let chief = Leadership::of(found.pop().unwrap().guard);
    chief.proclaim("after").await.unwrap();
    let shown = client.show("chief").await.unwrap().unwrap();
    assert_eq!(shown.value.as_deref(), Some(b"after".as_slice()));
    chief.resign().await.unwrap();

    let other = client.session(long()).await.unwrap();
    found.pop().unwrap().guard.release().await.unwrap();
    assert!(other.try_acquire("a").await.unwrap().is_none(), "it is held once more");
    drop(found);
    timeout(PATIENCE, other.acquire("a")).await.expect("it is free").unwrap().release().await.unwrap();
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn to_shut_down_gives_everything_back() {
    let cluster = Cluster::start(1).await;
    let (client, other) = (cluster.client(), cluster.client());
    let session = client.session(long()).await.unwrap();
    let guard = session.acquire("a").await.unwrap();
    let waiting = tokio::spawn({
        let session = session.clone();
        async move { session.acquire(Request::lock("a").strand(1)).await.map(drop) }
    });
    let third = other.session(long()).await.unwrap();
    guard.contended().await;
    timeout(PATIENCE, client.shutdown()).await.expect("the service hears of it");
    assert!(guard.is_lost() && session.why_over().is_some());
    let free = third.try_acquire("a").await.unwrap().expect("it was given back before that returned");
    assert!(waiting.await.unwrap().expect_err("nobody asks any more").is_lost());
    assert!(session.acquire("b").await.expect_err("the client is gone").is_lost());
    drop(free);
    // A client that cannot say goodbye does not wait long.
    let nowhere = Client::new(["127.0.0.1:1"]).unwrap();
    timeout(PATIENCE, nowhere.shutdown()).await.expect("there is nothing to say");
    cluster.stop().await;
}

#[tokio::test]
async fn a_runtime_that_is_blocked_loses_nothing() {
    let renewals = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&renewals);
    let (say, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let script = move |command: &v1::Command| {
                if matches!(command.act, Some(Act::Renew(_))) {
                    counter.fetch_add(1, Ordering::SeqCst);
                }
                well(command)
            };
            let (_fake, address) = Fake::start(script).await;
            say.send(address).unwrap();
            std::future::pending::<()>().await;
        });
    });
    let client = Client::new([heard.recv().unwrap()]).unwrap();
    let session = client.session(SessionOptions::default().ttl(Duration::from_secs(6))).await.unwrap();
    let guard = session.acquire("a").await.unwrap();
    let began = Instant::now();
    while renewals.load(Ordering::SeqCst) == 0 && began.elapsed() < PATIENCE {
        // The only thread of this runtime.
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(renewals.load(Ordering::SeqCst) > 0, "it is renewed meanwhile");
    assert_eq!(guard.check(), Ok(guard.token()));
}

/// A service in a thread of its own, until the other end is dropped.
fn elsewhere() -> (String, std::sync::mpsc::Sender<()>) {
    let (say, heard) = std::sync::mpsc::channel();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let cluster = runtime.block_on(Cluster::start(1));
        say.send(cluster.addresses[0].clone()).unwrap();
        // The other end says nothing: it is dropped.
        let _ = stopped.recv();
        runtime.block_on(cluster.stop());
    });
    (heard.recv().unwrap(), stop)
}

#[test]
fn programs_without_a_runtime_wait() {
    let (address, stop) = elsewhere();
    let client = blocking::Client::new([address.as_str()]).unwrap();
    let one = client.session(long()).unwrap();
    let two = client.session(long()).unwrap();
    let guard = one.acquire("a").unwrap();
    assert!(two.try_acquire("a").unwrap().is_none());
    assert!(!guard.wait_lost(Duration::from_millis(10)));
    assert_eq!(client.show("a").unwrap().unwrap().holders.len(), 1);
    assert_eq!(client.list("").unwrap().len(), 1);
    let (id, token) = (one.id(), guard.token());
    two.force("a", None, "because").unwrap();
    assert!(guard.wait_lost(PATIENCE));
    assert_eq!(guard.check().unwrap_err().token, token);
    let value = two.with_lock("a", |fence| fence.check().unwrap()).unwrap();
    assert!(value > token);
    let lost = one.with_lock("a", |fence| {
        two.force("a", None, "once more").unwrap();
        let until = Instant::now() + PATIENCE;
        while !fence.is_lost() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    assert!(lost.expect_err("it was lost").is_lost());
    let leads = one.campaign(Campaign::new("chief", "one")).unwrap();
    leads.proclaim("two").unwrap();
    let another = blocking::Client::new([address.as_str()]).unwrap();
    let resumed = another.session(SessionOptions { resume: Some(id), ..long() }).unwrap();
    let found = resumed.resumed().unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, ["chief"]);
    another.shutdown();
    client.shutdown();
    drop((stop, leads));
}

/// TCP, which counts.
struct Counting(Arc<AtomicUsize>);

impl Transport for Counting {
    fn connect(&self, address: String) -> conclave_client::Connecting {
        self.0.fetch_add(1, Ordering::SeqCst);
        Tcp.connect(address)
    }

    fn listen(&self, address: String) -> conclave_client::Listening {
        Tcp.listen(address)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_reads_go_over_one_connection() {
    let cluster = Cluster::start(1).await;
    let made = Arc::new(AtomicUsize::new(0));
    let mut options = Options::new(cluster.addresses.clone());
    options.transport = Arc::new(Counting(Arc::clone(&made)));
    let client = Client::with(options).unwrap();
    for _ in 0..5 {
        client.list("").await.unwrap();
    }
    assert_eq!(made.load(Ordering::SeqCst), 1, "those who only read have one, too");
    let session = client.session(long()).await.unwrap();
    let guard = session.acquire("a").await.unwrap();
    let before = made.load(Ordering::SeqCst);
    let mut observer = client.observe("chief");
    for _ in 0..20 {
        client.check("a", guard.token()).await.unwrap();
        client.show("a").await.unwrap();
    }
    observer.next().await.unwrap();
    assert_eq!(made.load(Ordering::SeqCst), before + 1, "beside the one of the session");
    drop(guard);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_that_stops_listening_in_between_misses_nothing() {
    let cluster = Cluster::start(1).await;
    let client = cluster.client();
    let session = client.session(long()).await.unwrap();
    let mut observer = client.observe("chief");
    assert_eq!(observer.next().await.unwrap().leader, None);
    let leading = tokio::spawn(async move {
        let mut terms = Vec::new();
        for _ in 0..30 {
            let leads = session.campaign(Campaign::new("chief", "me")).await.unwrap();
            terms.push(leads.term());
            leads.resign().await.unwrap();
        }
        terms
    });
    let (mut seen, mut dropped) = (Vec::new(), 0);
    let until = Instant::now() + PATIENCE;
    while seen.len() < 30 && Instant::now() < until {
        match timeout(Duration::from_micros(200), observer.next()).await {
            Ok(observed) => seen.extend(observed.unwrap().leader.map(|leader| leader.term)),
            Err(_) => dropped += 1,
        }
    }
    assert_eq!(seen, leading.await.unwrap());
    assert!(dropped > 0, "it stopped listening now and then");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_that_looks_now_and_then_gets_past_a_node_that_is_silent() {
    let cluster = Cluster::start(1).await;
    // Connections to it are made, and nobody ever says anything.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut endpoints = vec![silent.local_addr().unwrap().to_string()];
    endpoints.extend(cluster.addresses.clone());
    let mut options = Options::new(endpoints);
    options.connect_timeout = Duration::from_millis(300);
    let client = Client::with(options).unwrap();
    let (mut observer, mut watcher) = (client.observe("chief"), client.watch(""));
    let (mut observed, mut watched) = (false, false);
    let until = Instant::now() + PATIENCE;
    while !(observed && watched) && Instant::now() < until {
        observed |= matches!(timeout(Duration::from_millis(20), observer.next()).await, Ok(Ok(_)));
        watched |= matches!(timeout(Duration::from_millis(20), watcher.next()).await, Ok(Ok(_)));
    }
    assert!(observed && watched, "observer: {observed}, watcher: {watched}");
    cluster.stop().await;
}

/// Notes where connections are made to.
#[derive(Clone, Default)]
struct Noting(Arc<Mutex<Vec<String>>>);

impl Transport for Noting {
    fn connect(&self, address: String) -> conclave_client::Connecting {
        self.0.lock().unwrap().push(address.clone());
        Tcp.connect(address)
    }

    fn listen(&self, address: String) -> conclave_client::Listening {
        Tcp.listen(address)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_fell_silent_is_tried_when_all_others_were_tried_twice() {
    let (fake, address) = Fake::start(well).await;
    // Nobody listens there: these are reserved.
    let others = ["127.0.0.1:1", "127.0.0.1:2"].map(str::to_owned);
    let noting = Noting::default();
    let mut options = Options::new([vec![address.clone()], others.to_vec()].concat());
    options.transport = Arc::new(noting.clone());
    let client = Client::with(options).unwrap();
    let session = client.session(long()).await.unwrap();
    fake.be_silent(true);
    noting.0.lock().unwrap().clear();
    let asking = tokio::spawn(async move { session.acquire("a").await.map(drop) });
    let wanted = [&others[0], &others[1], &others[0], &others[1], &address].map(String::clone);
    let tried = async {
        while noting.0.lock().unwrap().len() < wanted.len() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, tried).await.expect("it goes on trying");
    assert_eq!(noting.0.lock().unwrap()[..wanted.len()], wanted);
    fake.be_silent(false);
    timeout(PATIENCE, asking).await.expect("it is asked again").unwrap().unwrap();
}
