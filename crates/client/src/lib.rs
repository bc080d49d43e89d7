//! The Rust client of the lock and leader service.
//!
//! ```no_run
//! # async fn example() -> Result<(), conclave_client::Error> {
//! use conclave_client::{Client, Request, SessionOptions};
//!
//! let client = Client::new(["127.0.0.1:7400"])?;
//! let session = client.session(SessionOptions::default()).await?;
//! let guard = session.acquire(Request::lock("nightly-backup")).await?;
//! println!("fencing token {}", guard.token());
//! tokio::select! {
//!     () = guard.lost() => println!("stop: somebody else may get it soon"),
//!     () = work() => guard.release().await?,
//! }
//! # Ok(()) }
//! # async fn work() {}
//! ```
//!
//! One [`Client`] is one connection, shared by any number of [`Session`]s. A connection that breaks is made again, to
//! whichever node answers, and what was not answered is asked again under the same number, so that nothing acts twice
//! and nobody loses a place in a queue. Sessions are renewed in the background.
//!
//! **What is lost is known in time.** A lease runs from the moment at which the last answered request was *sent*, on a
//! clock that goes on while the machine sleeps, and a little less than its time to live is counted on
//! ([`Session::safe_until`]). When that has passed, the guards of the session are lost, before the service can give the
//! name to anybody else. [`Guard::check`] and [`Guard::is_lost`] look at the clock themselves, so a process that was
//! stopped or suspended, or whose runtime was blocked, finds out at its next look. [`Guard::lost`] and
//! [`Guard::cancellation`] need a runtime that runs: after a suspend they are up to a quarter of a second late. Whoever
//! writes to something that others write to passes the token along, and has it checked there.
//!
//! Sessions are renewed by a task of the runtime in which the client was made. A runtime that is blocked for longer than
//! a time to live loses its sessions.

mod clock;
mod cluster;
mod driver;
mod entry;
mod error;
mod guard;
mod link;
mod millis;
mod mutant;
mod parcel;
mod reads;
mod request;
mod session;

use std::sync::Arc;
use std::time::Duration;

pub use clock::{Clock, Moment, SystemClock};
pub use conclave_wire::{PROTOCOL, PROTOCOL_KEY, v1};
pub use error::{Error, Failure, Lost};
pub use guard::{Guard, Leadership};
pub use reads::{Leader, Observed, Observer, Watcher};
pub use request::{Mode, Request};
pub use session::{Owner, Session, SessionOptions};

use cluster::Cluster;
use conclave_wire::{Connector, Tcp};
use driver::{Driver, Order};
use tokio::sync::mpsc;

/// Where the service listens unless told otherwise.
pub const DEFAULT_ENDPOINT: &str = "127.0.0.1:7400";

/// How a client reaches the service.
#[derive(Clone)]
pub struct Options {
    /// Nodes, `host:port`; any one of them is enough.
    pub endpoints: Vec<String>,
    /// How bytes travel.
    pub transport: Connector,
    /// How long one attempt to connect may take.
    pub connect_timeout: Duration,
    /// How long a request waits for a node that answers, before it fails with [`Error::Unavailable`]. Requests that
    /// wait in a queue of the service are not bound by it while their connection lives.
    pub patience: Duration,
    /// Whether to go to the leader directly when another node says where it is.
    pub follow_leader: bool,
    /// By which clock leases run out.
    pub clock: Arc<dyn Clock>,
}

impl Options {
    /// The usual ones.
    pub fn new<T: Into<String>>(endpoints: impl IntoIterator<Item = T>) -> Self {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            transport: Arc::new(Tcp),
            connect_timeout: Duration::from_secs(1),
            patience: Duration::from_secs(10),
            follow_leader: true,
            clock: Arc::new(SystemClock),
        }
    }
}

/// One connection to the service, made when it is first needed and again whenever it breaks.
#[derive(Clone)]
pub struct Client {
    orders: mpsc::UnboundedSender<Order>,
    options: Arc<Options>,
    cluster: Cluster,
}

impl Client {
    /// A client of the nodes at these addresses.
    pub fn new<T: Into<String>>(endpoints: impl IntoIterator<Item = T>) -> Result<Self, Error> {
        Self::with(Options::new(endpoints))
    }

    /// A client with options of one's own. It needs a Tokio runtime around it.
    pub fn with(options: Options) -> Result<Self, Error> {
        if options.endpoints.is_empty() {
            return Err(Error::Endpoint("no endpoint was given".to_owned()));
        }
        for endpoint in &options.endpoints {
            conclave_wire::channel(&options.transport, endpoint, options.connect_timeout)
                .map_err(|_| Error::Endpoint(format!("{endpoint} is not an address like 127.0.0.1:7400")))?;
        }
        let options = Arc::new(options);
        let (orders, inbox) = mpsc::unbounded_channel();
        let cluster = Cluster::default();
        tokio::spawn(Driver::new(Arc::clone(&options), cluster.clone(), inbox).run());
        Ok(Self { orders, options, cluster })
    }

    /// Opens a session, or takes one up again by its number.
    pub async fn session(&self, options: SessionOptions) -> Result<Session, Error> {
        let generation = match options.resume {
            Some(session) => self.generation(session).await?,
            None => 0,
        };
        Session::open(self.orders.clone(), Arc::clone(&self.options.clock), options, generation).await
    }
}
