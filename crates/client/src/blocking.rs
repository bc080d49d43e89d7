//! The same client for programs without an async runtime: every call waits until it is answered.
//!
//! ```no_run
//! # fn example() -> Result<(), conclave_client::Error> {
//! use conclave_client::blocking::Client;
//!
//! let client = Client::new(["127.0.0.1:7400"])?;
//! let size = client.with_lock("nightly-backup", |fence| backup(fence.token()))?;
//! client.shutdown();
//! # let _: u64 = size; Ok(()) }
//! # fn backup(token: u64) -> u64 { token }
//! ```
//!
//! Sessions are renewed by the thread of the library meanwhile, whatever the program does. What is lost is found out by
//! looking ([`Fence::check`], [`Fence::is_lost`]): nobody interrupts a thread.
//!
//! # Panics
//! These calls must not be made within an async runtime, which they would block; they panic there.

use std::time::Duration;

use tokio::runtime::Handle;

use crate::error::{Error, Lost};
use crate::guard::Fence;
use crate::request::{Campaign, Mode, Request};
use crate::session::SessionOptions;
use crate::{Options, v1};

/// A client whose calls wait; see [`crate::Client`].
#[derive(Clone, Debug)]
pub struct Client {
    inner: crate::Client,
}

impl Client {
    /// A client of the nodes at these addresses.
    pub fn new<T: Into<String>>(endpoints: impl IntoIterator<Item = T>) -> Result<Self, Error> {
        Self::with(Options::new(endpoints))
    }

    /// A client with options of one's own. It works on the thread of the library.
    pub fn with(options: Options) -> Result<Self, Error> {
        let inner = crate::Client::with(Options { in_this_runtime: false, ..options })?;
        Ok(Self { inner })
    }

    /// Opens a session, or takes one up again by its number.
    pub fn session(&self, options: SessionOptions) -> Result<Session, Error> {
        let runtime = self.inner.runtime.clone();
        let inner = runtime.block_on(self.inner.session(options))?;
        Ok(Session { inner, runtime })
    }

    /// Does something while a name is held, in a session of its own. If the name was lost meanwhile, the error says so.
    pub fn with_lock<T>(
        &self,
        request: impl Into<Request>,
        work: impl FnOnce(&Fence) -> T,
    ) -> Result<T, Error> {
        let session = self.session(SessionOptions::default())?;
        let value = session.with_lock(request, work);
        drop(session.close());
        value
    }

    /// What a fencing token is worth.
    pub fn check(&self, name: &str, token: u64) -> Result<v1::CheckResponse, Error> {
        self.inner.runtime.block_on(self.inner.check(name, token))
    }

    /// Everything about a name; nothing if the service does not know it.
    pub fn show(&self, name: &str) -> Result<Option<v1::ShowResponse>, Error> {
        self.inner.runtime.block_on(self.inner.show(name))
    }

    /// The names that begin with a prefix and that somebody holds or waits for, in order.
    pub fn list(&self, prefix: &str) -> Result<Vec<v1::Summary>, Error> {
        self.inner.runtime.block_on(self.inner.list(prefix))
    }

    /// Closes all sessions of this client; see [`crate::Client::shutdown`].
    pub fn shutdown(self) {
        let runtime = self.inner.runtime.clone();
        runtime.block_on(self.inner.shutdown());
    }
}

/// A session whose calls wait; see [`crate::Session`].
#[derive(Clone, Debug)]
pub struct Session {
    inner: crate::Session,
    runtime: Handle,
}

impl Session {
    /// Its number, by which it can be taken up again.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.inner.id()
    }

    /// How long nobody else can be given what it holds, from now; zero when it is over.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.inner.remaining()
    }

    /// Why it is over, if it is.
    #[must_use]
    pub fn why_over(&self) -> Option<String> {
        self.inner.why_over()
    }

    /// Waits for a grant.
    pub fn acquire(&self, request: impl Into<Request>) -> Result<Guard, Error> {
        let inner = self.runtime.block_on(self.inner.acquire(request.into()))?;
        Ok(self.guard(inner))
    }

    /// Does not wait: nothing if somebody else has it.
    pub fn try_acquire(&self, request: impl Into<Request>) -> Result<Option<Guard>, Error> {
        let inner = self.runtime.block_on(self.inner.try_acquire(request))?;
        Ok(inner.map(|inner| self.guard(inner)))
    }

    /// Waits to become leader.
    pub fn campaign(&self, campaign: Campaign) -> Result<Leadership, Error> {
        let inner = self.runtime.block_on(self.inner.campaign(campaign))?;
        Ok(Leadership { inner, runtime: self.runtime.clone() })
    }

    /// Does something while a name is held, and releases it. If the name was lost meanwhile, the error says so.
    pub fn with_lock<T>(
        &self,
        request: impl Into<Request>,
        work: impl FnOnce(&Fence) -> T,
    ) -> Result<T, Error> {
        let guard = self.acquire(request)?;
        let value = work(&guard.fence());
        guard.check().map_err(Error::Lost)?;
        // The work is done, and was done while it was held.
        drop(guard.release());
        Ok(value)
    }

    /// Guards of what a former run of the client was granted; see [`crate::Session::resumed`].
    pub fn resumed(&self) -> Result<Vec<(Vec<String>, Guard)>, Error> {
        let resumed = self.runtime.block_on(self.inner.resumed())?;
        Ok(resumed.into_iter().map(|resumed| (resumed.names, self.guard(resumed.guard))).collect())
    }

    /// Takes a name from whoever holds it, for a reason that they are told.
    pub fn force(&self, name: impl Into<String>, token: Option<u64>, reason: &str) -> Result<(), Error> {
        self.runtime.block_on(self.inner.force(name, token, reason))
    }

    /// Closes the session and waits until that is done.
    pub fn close(self) -> Result<(), Error> {
        self.runtime.block_on(self.inner.close())
    }

    fn guard(&self, inner: crate::Guard) -> Guard {
        Guard { inner, runtime: self.runtime.clone() }
    }
}

/// Something held, which is released when it is dropped; see [`crate::Guard`].
#[derive(Debug)]
#[must_use = "what it guards is released when it is dropped"]
pub struct Guard {
    inner: crate::Guard,
    runtime: Handle,
}

impl Guard {
    /// The fencing token.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.inner.token()
    }

    /// The fencing token, if it is still held.
    pub fn check(&self) -> Result<u64, Lost> {
        self.inner.check()
    }

    /// Whether it is lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.inner.is_lost()
    }

    /// What is known of it, for other threads as well.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.inner.fence()
    }

    /// Waits until it is lost, no longer than this; says whether it is.
    #[must_use]
    pub fn wait_lost(&self, limit: Duration) -> bool {
        self.runtime.block_on(async { tokio::time::timeout(limit, self.inner.lost()).await.is_ok() })
    }

    /// Holds one of its names in another mode from now on; see [`crate::Guard::convert`].
    pub fn convert(&self, name: &str, mode: Mode, wait: Option<Duration>) -> Result<(), Error> {
        self.runtime.block_on(self.inner.convert(name, mode, wait))
    }

    /// Releases it, and returns when that is done.
    pub fn release(self) -> Result<(), Error> {
        self.runtime.block_on(self.inner.release())
    }
}

/// Leadership, which is resigned when it is dropped; see [`crate::Leadership`].
#[derive(Debug)]
#[must_use = "it is resigned when it is dropped"]
pub struct Leadership {
    inner: crate::Leadership,
    runtime: Handle,
}

impl Leadership {
    /// The term, which is a fencing token.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.inner.term()
    }

    /// What is known of it, for other threads as well.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.inner.guard().fence()
    }

    /// Shows another value.
    pub fn proclaim(&self, value: impl Into<Vec<u8>>) -> Result<(), Error> {
        self.runtime.block_on(self.inner.proclaim(value))
    }

    /// Resigns, and returns when that is done.
    pub fn resign(self) -> Result<(), Error> {
        self.runtime.block_on(self.inner.resign())
    }
}
