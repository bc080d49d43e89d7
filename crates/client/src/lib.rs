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
//! One [`Client`] is one connection, shared by any number of [`Session`]s, and a second one if anything is read. A connection that breaks is made again, to
//! whichever node answers, and what was not answered is asked again under the same number, so that nothing acts twice
//! and nobody loses a place in a queue. Sessions are renewed in the background.
//!
//! **What is lost is known in time.** A lease runs from the moment at which the last answered request was *sent*, on a
//! clock that goes on while the machine sleeps, and a little less than its time to live is counted on
//! ([`Session::safe_until`]). When that has passed, the guards of the session are lost, before the service can give the
//! name to anybody else. [`Guard::check`](Fence::check) and [`Guard::is_lost`](Fence::is_lost) look at the clock themselves, so a process that was
//! stopped or suspended, or whose runtime was blocked, finds out at its next look. [`Guard::lost`](Fence::lost) and
//! [`Guard::cancellation`](Fence::cancellation) need a runtime that runs: after a suspend they are up to a quarter of a second late. Whoever
//! writes to something that others write to passes the token along, and has it checked there.
//!
//! Sessions are renewed by a thread of the library, one for all clients of a process, whatever the runtime of the program
//! does. A client that is to work in the runtime in which it is made is told so by [`Options::in_this_runtime`]: a runtime
//! that is blocked for longer than a time to live loses its sessions then.
//!
//! At the end of a program [`Client::shutdown`] gives back what is held; what was only dropped may not have been sent yet,
//! and then frees itself when its time to live is over. Programs without a runtime use [`blocking`].
//!
//! What is read (`list`, `show`, `why`, `status`) comes as it is on the wire, in the types of [`v1`].

mod background;
pub mod blocking;
mod clock;
mod cluster;
mod driver;
mod entry;
mod error;
mod guard;
mod link;
mod millis;
#[cfg(feature = "mutants")]
pub mod mutant;
#[cfg(not(feature = "mutants"))]
mod mutant;
mod parcel;
mod reads;
mod request;
mod session;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use clock::{Clock, Moment, SystemClock};
pub use conclave_wire::{Connecting, Connector, Listening, PROTOCOL, PROTOCOL_KEY, Tcp, Transport, v1};
pub use error::{Code, Error, Failure, Lost, Reason, Wait};
pub use guard::{Fence, Guard, Leadership};
pub use reads::{Leader, Observed, Observer, Watcher};
pub use request::{Campaign, Mode, Request};
pub use session::{Ending, Owner, Resumed, Session, SessionOptions};

use cluster::Cluster;
use driver::{Driver, Order};
use link::Way;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

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
    /// Whether the client works in the Tokio runtime in which it is made, rather than on the thread that all clients of a
    /// process share.
    pub in_this_runtime: bool,
}

impl Options {
    /// Makes the client work in the Tokio runtime in which it is made.
    #[must_use]
    pub fn in_this_runtime(mut self) -> Self {
        self.in_this_runtime = true;
        self
    }

    /// The usual ones.
    pub fn new<T: Into<String>>(endpoints: impl IntoIterator<Item = T>) -> Self {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            transport: Arc::new(Tcp),
            connect_timeout: Duration::from_secs(1),
            patience: Duration::from_secs(10),
            follow_leader: true,
            clock: Arc::new(SystemClock),
            in_this_runtime: false,
        }
    }
}

/// One connection to the service, made when it is first needed and again whenever it breaks; and another one for reads.
#[derive(Clone)]
pub struct Client {
    orders: mpsc::UnboundedSender<Order>,
    options: Arc<Options>,
    cluster: Cluster,
    way: Way,
    /// Where the work is done.
    runtime: Handle,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("endpoints", &self.options.endpoints).finish_non_exhaustive()
    }
}

impl Client {
    /// A client of the nodes at these addresses.
    pub fn new<T: Into<String>>(endpoints: impl IntoIterator<Item = T>) -> Result<Self, Error> {
        Self::with(Options::new(endpoints))
    }

    /// A client with options of one's own.
    ///
    /// # Panics
    /// With [`Options::in_this_runtime`], if there is no Tokio runtime around it.
    pub fn with(options: Options) -> Result<Self, Error> {
        if options.endpoints.is_empty() {
            return Err(Error::Endpoint("no endpoint was given".to_owned()));
        }
        let runtime = if options.in_this_runtime {
            Handle::current()
        } else {
            let failed = |error| Error::Machine(Reason::with("no thread can be had for the client", error));
            background::background().map_err(failed)?
        };
        let entered = runtime.enter();
        for endpoint in &options.endpoints {
            conclave_wire::channel(&options.transport, endpoint, options.connect_timeout)
                .map_err(|_| Error::Endpoint(format!("{endpoint} is not an address like 127.0.0.1:7400")))?;
        }
        drop(entered);
        let options = Arc::new(options);
        let (orders, inbox) = mpsc::unbounded_channel();
        let (cluster, way) = (Cluster::default(), Way::default());
        runtime.spawn(Driver::new(Arc::clone(&options), cluster.clone(), way.clone(), inbox).run());
        Ok(Self { orders, options, cluster, way, runtime })
    }

    /// Opens a session, or takes one up again by its number.
    pub async fn session(&self, options: SessionOptions) -> Result<Session, Error> {
        let generation = match options.resume {
            Some(session) => self.generation(session).await?,
            None => 0,
        };
        Session::open(self.clone(), options, generation).await
    }

    /// Does something while a name is held, in a session of its own; see [`Session::with_lock`].
    pub async fn with_lock<T>(
        &self,
        request: impl Into<Request>,
        work: impl AsyncFnOnce(Fence) -> T,
    ) -> Result<T, Error> {
        let session = self.session(SessionOptions::default()).await?;
        let value = session.with_lock(request, work).await;
        drop(session.close().await);
        value
    }

    /// Closes all sessions of this client, which gives back what they hold, and returns when the service has heard of it, or
    /// when that takes too long: then it frees itself as if the program had died. The client is of no use afterwards.
    pub async fn shutdown(self) {
        let (done, is_done) = oneshot::channel();
        if self.orders.send(Order::ShutDown(done)).is_ok() {
            // The task says nothing: it drops its end when it ends.
            drop(is_done.await);
        }
    }
}
