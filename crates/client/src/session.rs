//! Sessions: what a client holds, it holds in one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use conclave_wire::PROTOCOL;
use conclave_wire::v1;
use conclave_wire::v1::command::Act;
use conclave_wire::v1::reply::Reply;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::driver::{Answer, Order};
use crate::error::Error;
use crate::guard::{Guard, GuardState, Leadership};
use crate::request::Request;

pub use conclave_wire::v1::Owner;

/// Clocks of this machine and of the service may differ in speed by this part, which is far more than they do.
const DRIFT: f64 = 0.01;
/// And this is for what a timer comes late.
const LATENESS: Duration = Duration::from_millis(10);

/// What a session is to be like.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// How long it lives without a word from the client: 500 ms to 24 h.
    pub ttl: Duration,
    /// Who it belongs to.
    pub owner: Owner,
    /// Whether it ends as soon as the connection does, without waiting for its time to live to pass. What it holds is
    /// lost as soon as the client notices that; but a node may notice earlier, and then somebody else may be given it a
    /// moment before. Whoever must exclude that leaves this off, or checks tokens.
    pub ends_with_connection: bool,
    /// The number of a session to be taken up again; a new one otherwise.
    pub resume: Option<u64>,
}

impl Default for SessionOptions {
    /// Ten seconds, and who this process is.
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(10),
            owner: this_process(),
            ends_with_connection: false,
            resume: None,
        }
    }
}

impl SessionOptions {
    /// Sets the time to live.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Says what the session is for.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.owner.label = label.into();
        self
    }
}

fn this_process() -> Owner {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Owner {
        host: host.trim().to_owned(),
        pid: std::process::id(),
        user: std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_default(),
        label: String::new(),
    }
}

/// What the handles of a session and the driver share.
pub struct Shared {
    pub id: u64,
    pub ttl: Duration,
    orders: mpsc::UnboundedSender<Order>,
    safe_until: watch::Sender<Instant>,
    is_open: AtomicBool,
    may_renew: AtomicBool,
    over: CancellationToken,
    inner: Mutex<Inner>,
    next_ticket: AtomicU64,
}

#[derive(Default)]
struct Inner {
    guards: BTreeMap<u64, Arc<GuardState>>,
    why_over: Option<String>,
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn safe_until(&self) -> Instant {
        *self.safe_until.borrow()
    }

    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    pub fn may_renew(&self) -> bool {
        self.may_renew.load(Ordering::Relaxed)
    }

    /// A request that was sent at this time was answered: the session lived then, and for its time to live from then.
    pub fn renewed(&self, sent: Instant) {
        let counted_on = self.ttl.mul_f64(1.0 - DRIFT).saturating_sub(LATENESS);
        self.safe_until.send_if_modified(|until| {
            let is_later = sent + counted_on > *until;
            if is_later {
                *until = sent + counted_on;
            }
            is_later
        });
        self.is_open.store(true, Ordering::Relaxed);
    }

    pub fn contended(&self, token: u64, name: &str) {
        if let Some(state) = self.inner().guards.get(&token) {
            state.contended(name);
        }
    }

    pub fn lose(&self, token: u64, why: &str) {
        if let Some(state) = self.inner().guards.remove(&token) {
            state.lose(why);
        }
    }

    /// What the service no longer counts as held is lost, unless it may be held under another token by now.
    pub fn reconcile(&self, held: &[v1::Held], undecided: &[u64]) {
        let mut inner = self.inner();
        inner.guards.retain(|token, state| {
            let is_held = held.iter().any(|held| held.token == *token) || undecided.contains(token);
            if !is_held {
                state.lose("it was taken while there was no connection");
            }
            is_held
        });
    }

    pub fn end(&self, why: &str) {
        let mut inner = self.inner();
        inner.why_over.get_or_insert_with(|| why.to_owned());
        for state in std::mem::take(&mut inner.guards).into_values() {
            state.lose(why);
        }
        drop(inner);
        self.over.cancel();
    }

    /// A guard of what was granted under this token.
    pub fn guard(self: &Arc<Self>, token: u64) -> Guard {
        let mut inner = self.inner();
        let state = inner.guards.entry(token).or_insert_with(|| Arc::new(GuardState::new(token)));
        state.add_guard();
        Guard::new(Arc::clone(self), Arc::clone(state))
    }

    /// Says whether there was anything under the old token.
    pub fn rename(&self, old: u64, new: u64) -> bool {
        let mut inner = self.inner();
        let Some(state) = inner.guards.remove(&old) else { return false };
        state.rename(new);
        inner.guards.insert(new, state);
        true
    }

    /// One guard less of this token.
    pub fn forget(&self, token: u64) {
        let mut inner = self.inner();
        if inner.guards.get(&token).is_some_and(|state| state.remove_guard()) {
            inner.guards.remove(&token);
        }
    }

    /// Asks without waiting for the answer.
    pub fn tell(&self, act: Act) {
        // A driver that is gone has nothing left to release.
        drop(self.orders.send(Order::Ask { session: self.id, act, ticket: 0, answer: Answer::Nobody }));
    }

    pub async fn ask(&self, act: Act) -> Result<Reply, Error> {
        let (to, answer) = oneshot::channel();
        let order = Order::Ask { session: self.id, act, ticket: 0, answer: Answer::Plain(to) };
        self.orders.send(order).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    pub async fn done(&self, act: Act) -> Result<(), Error> {
        match self.ask(act).await? {
            Reply::Done(_) | Reply::Granted(_) => Ok(()),
            other => Err(Error::Protocol(format!("{other:?}"))),
        }
    }
}

fn gone() -> Error {
    Error::SessionOver("the client was shut down".to_owned())
}

/// The last handle closes the session when it goes.
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.0.over.is_cancelled() {
            self.0.tell(Act::Close(v1::Close {}));
        }
    }
}

/// A session. Clones are the same session, which is closed when the last of them and of its guards is dropped.
#[derive(Clone)]
pub struct Session {
    handle: Arc<Handle>,
}

impl Session {
    pub(crate) async fn open(
        orders: mpsc::UnboundedSender<Order>,
        options: SessionOptions,
    ) -> Result<Self, Error> {
        let id = options.resume.map_or_else(random, Ok)?;
        let shared = Arc::new(Shared {
            id,
            ttl: options.ttl,
            orders: orders.clone(),
            safe_until: watch::Sender::new(Instant::now()),
            is_open: AtomicBool::new(false),
            may_renew: AtomicBool::new(true),
            over: CancellationToken::new(),
            inner: Mutex::default(),
            next_ticket: AtomicU64::new(1),
        });
        let open = v1::Open {
            ttl_ms: u32::try_from(options.ttl.as_millis()).unwrap_or(u32::MAX),
            owner: Some(options.owner),
            ends_with_connection: options.ends_with_connection,
            life: random()?,
            protocol: PROTOCOL,
        };
        let (to, answer) = oneshot::channel();
        let session = Self { handle: Arc::new(Handle(Arc::clone(&shared))) };
        orders.send(Order::Open { shared, open, answer: Answer::Plain(to) }).map_err(|_| gone())?;
        match answer.await.map_err(|_| gone())?? {
            Reply::Opened(_) => Ok(session),
            other => Err(Error::Protocol(format!("{other:?} for a new session"))),
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.handle.0
    }

    /// Its number, by which it can be taken up again.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.shared().id
    }

    /// Until when nobody else can be given what this session holds, unless it is taken by force. Every answer moves it.
    #[must_use]
    pub fn safe_until(&self) -> Instant {
        self.shared().safe_until()
    }

    /// Follows [`Self::safe_until`].
    #[must_use]
    pub fn watch_safety(&self) -> watch::Receiver<Instant> {
        self.shared().safe_until.subscribe()
    }

    /// Returns when the session is over: whatever it held is lost.
    pub async fn over(&self) {
        self.shared().over.cancelled().await;
    }

    /// Why it is over, if it is.
    #[must_use]
    pub fn why_over(&self) -> Option<String> {
        self.shared().inner().why_over.clone()
    }

    /// Lets the session run out, or renews it again: for a client whose own health decides whether it may go on.
    pub fn set_renewal(&self, is_on: bool) {
        self.shared().may_renew.store(is_on, Ordering::Relaxed);
    }

    /// Waits for a grant. To drop the future is to stop waiting: the request is cancelled, and what may have been
    /// granted meanwhile is released.
    pub async fn acquire(&self, request: Request) -> Result<Guard, Error> {
        let (to, answer) = oneshot::channel();
        let shared = self.shared();
        let ticket = shared.next_ticket.fetch_add(1, Ordering::Relaxed);
        let order = Order::Ask {
            session: shared.id,
            act: Act::Acquire(request.acquire),
            ticket,
            answer: Answer::Grant(to, request.queued),
        };
        shared.orders.send(order).map_err(|_| gone())?;
        let mut waiting = Waiting { session: self, ticket, is_answered: false };
        let answer = answer.await;
        waiting.is_answered = true;
        let mut guard = answer.map_err(|_| gone())??;
        guard.keep(self.clone());
        Ok(guard)
    }

    /// Waits to become leader.
    pub async fn campaign(&self, request: Request) -> Result<Leadership, Error> {
        self.acquire(request).await.map(Leadership::new)
    }

    /// Takes a name from whoever holds it, for a reason that they are told.
    pub async fn force(
        &self,
        name: impl Into<String>,
        token: Option<u64>,
        reason: &str,
    ) -> Result<(), Error> {
        let force = v1::Force { name: name.into(), token, reason: reason.to_owned() };
        self.shared().done(Act::Force(force)).await
    }

    /// Closes the session and waits until that is done.
    pub async fn close(self) -> Result<(), Error> {
        match self.shared().ask(Act::Close(v1::Close {})).await {
            Ok(_) | Err(Error::SessionOver(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Cancels the request when whoever waits for it stops waiting.
struct Waiting<'a> {
    session: &'a Session,
    ticket: u64,
    is_answered: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            let shared = self.session.shared();
            drop(shared.orders.send(Order::Abandon { session: shared.id, ticket: self.ticket }));
        }
    }
}

/// A random number other than 0.
fn random() -> Result<u64, Error> {
    getrandom::u64()
        .map(|number| number.max(1))
        .map_err(|error| Error::Protocol(format!("no randomness: {error}")))
}
