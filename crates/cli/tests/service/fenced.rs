//! A file behind a lock: clients that write to it again and again, each with its token.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use conclave_client::{Client, Error, Request, SessionOptions};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::nodes::Service;
use crate::until;

/// The name that guards it.
pub const NAME: &str = "fenced";

/// What is written to, and by whom.
pub struct Load {
    runtime: Runtime,
    fenced: Arc<Mutex<Fenced>>,
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Result<(), Error>>>,
}

struct Fenced {
    file: File,
    newest: u64,
    inside: Option<u64>,
    writes: BTreeMap<usize, u64>,
    last: Instant,
    longest_pause: Duration,
}

impl Fenced {
    fn enter(&mut self, token: u64) {
        assert!(token > self.newest, "token {token} after {}", self.newest);
        assert_eq!(self.inside, None, "two are inside, one with token {token}");
        self.newest = token;
        self.inside = Some(token);
    }

    fn leave(&mut self, client: usize, token: u64) {
        assert_eq!(self.inside.take(), Some(token));
        writeln!(self.file, "{token}").expect("there is room in the file");
        *self.writes.entry(client).or_default() += 1;
        self.longest_pause = self.longest_pause.max(self.last.elapsed());
        self.last = Instant::now();
    }
}

impl Load {
    /// Lets so many clients write, each by a connection of its own.
    pub fn start(service: &Service, clients: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("there are threads");
        let fenced = Fenced {
            file: File::create(service.path(NAME)).expect("there is room for a file"),
            newest: 0,
            inside: None,
            writes: BTreeMap::new(),
            last: Instant::now(),
            longest_pause: Duration::ZERO,
        };
        let fenced = Arc::new(Mutex::new(fenced));
        let stop = Arc::<AtomicBool>::default();
        let endpoints: Vec<String> = service.ids().iter().map(|id| service.address(*id).to_owned()).collect();
        let clients = (0..clients)
            .map(|client| {
                // Each begins with another node.
                let mut endpoints = endpoints.clone();
                let first = client % endpoints.len();
                endpoints.rotate_left(first);
                runtime.spawn(write(client, endpoints, Arc::clone(&fenced), Arc::clone(&stop)))
            })
            .collect();
        let load = Self { runtime, fenced, stop, clients };
        load.everybody_is_served();
        load
    }

    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    fn fenced(&self) -> std::sync::MutexGuard<'_, Fenced> {
        self.fenced.lock().expect("nobody has found anything wrong")
    }

    /// Waits until everybody has written again.
    #[track_caller]
    pub fn everybody_is_served(&self) {
        let before = self.fenced().writes.clone();
        let is_served = |client: &usize| {
            assert!(!self.clients[*client].is_finished(), "client {client} has given up");
            self.fenced().writes.get(client) > before.get(client)
        };
        until("everybody is served", || (0..self.clients.len()).all(|client| is_served(&client)));
    }

    /// The longest time without a write since this was asked last.
    pub fn longest_pause(&self) -> Duration {
        std::mem::take(&mut self.fenced().longest_pause)
    }

    /// Lets everybody finish, none of whom may have failed; gives the tokens in the order of their writes.
    #[track_caller]
    pub fn finish(self, service: &Service) -> Vec<u64> {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            self.runtime.block_on(client).expect("it ends by itself").expect("it was always served");
        }
        let text = std::fs::read_to_string(service.path(NAME)).expect("it was written");
        let tokens: Vec<u64> = text.lines().map(|line| line.parse().expect("a token")).collect();
        assert!(tokens.is_sorted_by(|a, b| a < b), "tokens went back");
        tokens
    }
}

/// Writes again and again.
async fn write(
    client: usize,
    endpoints: Vec<String>,
    fenced: Arc<Mutex<Fenced>>,
    stop: Arc<AtomicBool>,
) -> Result<(), Error> {
    let enter = |token| fenced.lock().expect("nobody has found anything wrong").enter(token);
    let leave = |token| fenced.lock().expect("nobody has found anything wrong").leave(client, token);
    let session = Client::new(endpoints)?.session(SessionOptions::default()).await?;
    while !stop.load(Ordering::Relaxed) {
        let guard = session.acquire(Request::lock(NAME)).await?;
        enter(guard.token());
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(!guard.is_lost(), "{:?}", guard.why_lost());
        leave(guard.token());
        guard.release().await?;
    }
    session.close().await
}
