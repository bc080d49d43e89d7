//! Sessions: what a client holds, it holds in one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use conclave_wire::PROTOCOL;
use conclave_wire::v1;
use conclave_wire::v1::command::Act;
use conclave_wire::v1::reply::Reply;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Moment};
use crate::driver::{Answer, Order};
use crate::error::Error;
use crate::guard::{Guard, GuardState, Leadership};
use crate::millis;
use crate::mutant::{self, Mutant};
use crate::request::Request;

pub use conclave_wire::v1::Owner;

/// Clocks of this machine and of the service may differ in speed by this part, which is far more than they do.
const DRIFT: f64 = 0.01;
/// And this is for what a timer comes late.
const LATENESS: Duration = Duration::from_millis(10);
/// How often to look at the clock at least, whatever the timers say: they stand still while the machine sleeps.
pub const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Why a grant is lost that the service does not count among what the session holds.
pub const TAKEN: &str = "it was taken while there was no connection";

/// What a session is to be like.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// How long it lives without a word from the client: 500 ms to 24 h, in whole milliseconds, rounded up.
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
    /// Which run of the client this is, for the service.
    pub life: u64,
    pub ttl: Duration,
    orders: mpsc::UnboundedSender<Order>,
    clock: Arc<dyn Clock>,
    safe_until: watch::Sender<Moment>,
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

impl Inner {
    /// Takes one guard away, and with the last one what is known of the grant; gives its token.
    fn remove_guard(&mut self, state: &GuardState) -> u64 {
        let token = state.token();
        let is_known = self.guards.get(&token).is_some_and(|known| std::ptr::eq(&raw const **known, state));
        if is_known && state.remove_guard() {
            self.guards.remove(&token);
        }
        token
    }
}

impl Shared {
    pub fn new(
        id: u64,
        life: u64,
        ttl: Duration,
        orders: mpsc::UnboundedSender<Order>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            id,
            life,
            ttl,
            orders,
            safe_until: watch::Sender::new(clock.now()),
            clock,
            is_open: AtomicBool::new(false),
            may_renew: AtomicBool::new(true),
            over: CancellationToken::new(),
            inner: Mutex::default(),
            next_ticket: AtomicU64::new(1),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn safe_until(&self) -> Moment {
        *self.safe_until.borrow()
    }

    pub fn remaining(&self) -> Duration {
        self.safe_until().saturating_duration_since(self.clock.now())
    }

    /// Whether the service may have given what the session holds to somebody else by now. Then it is over, for good: a
    /// reply that comes later does not bring it back. Nothing is sent: the service frees it when its time is over, as
    /// it does for a client that is gone.
    pub fn has_run_out(&self) -> bool {
        let has_run_out = self.is_open() && self.remaining().is_zero() && !mutant::is(Mutant::TrustsTimers);
        if has_run_out && !self.over.is_cancelled() {
            self.end("it could not be renewed in time");
            drop(self.orders.send(Order::RanOut { session: self.id, life: self.life }));
        }
        has_run_out
    }

    pub fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    pub fn may_renew(&self) -> bool {
        self.may_renew.load(Ordering::Relaxed)
    }

    /// A request that was sent at this time renewed the session: it lives for its time to live from then, at least.
    pub fn renewed(&self, sent: Moment) {
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

    /// What the service no longer counts as held is lost. Where it may be held under another token by now, nobody knows
    /// yet: those tokens are given back.
    pub fn reconcile(&self, held: &[u64], undecided: &BTreeSet<u64>) -> BTreeSet<u64> {
        let held: BTreeSet<u64> = held.iter().copied().collect();
        let mut doubtful = BTreeSet::new();
        self.inner().guards.retain(|token, state| {
            let is_held = held.contains(token);
            let is_undecided = undecided.contains(token);
            if mutant::is(Mutant::KeepsWhatIsGone) {
                return true;
            }
            if !is_held && is_undecided {
                doubtful.insert(*token);
            } else if !is_held {
                state.lose(TAKEN);
            }
            is_held || is_undecided
        });
        doubtful
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

    /// What was held under one token is held under another.
    pub fn rename(&self, old: u64, new: u64) {
        let mut inner = self.inner();
        // Without a guard everything has been given back, under the old token: the service knows what is meant.
        let Some(state) = inner.guards.remove(&old) else { return };
        state.rename(new);
        inner.guards.insert(new, state);
    }

    /// One guard less.
    pub fn forget(&self, state: &GuardState) {
        self.inner().remove_guard(state);
    }

    /// One guard less, and what it stands for is given back. The token cannot change in between: the service takes a token
    /// that was exchanged for the present one, but only if this goes before the next conversion.
    pub fn give_back(&self, state: &GuardState, answer: Answer) -> Result<(), Error> {
        let mut inner = self.inner();
        let token = inner.remove_guard(state);
        let act = Act::Release(v1::Release { token });
        self.orders.send(Order::Ask { session: self.id, act, ticket: 0, answer }).map_err(|_| gone())
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
        done(self.ask(act).await?)
    }

    /// Asks for something that may have to wait. To drop the future is to cancel the request.
    pub async fn ask_while_wanted(&self, act: Act) -> Result<Reply, Error> {
        let (to, answer) = oneshot::channel();
        let waiting = self.order_while_wanted(act, Answer::Plain(to))?;
        let answer = answer.await;
        waiting.answered();
        answer.map_err(|_| gone())?
    }

    fn order_while_wanted(&self, act: Act, answer: Answer) -> Result<Waiting<'_>, Error> {
        let ticket = self.next_ticket.fetch_add(1, Ordering::Relaxed);
        self.orders.send(Order::Ask { session: self.id, act, ticket, answer }).map_err(|_| gone())?;
        Ok(Waiting { shared: self, ticket })
    }
}

/// The reply to something that happens or does not.
pub fn done(reply: Reply) -> Result<(), Error> {
    match reply {
        Reply::Done(_) | Reply::Granted(_) => Ok(()),
        other => Err(Error::unexpected(format!("{other:?}"))),
    }
}

/// Ends the session when it has run out, even if the task that renews it hangs.
async fn watch_over(shared: Weak<Shared>, over: CancellationToken) {
    while let Some(present) = shared.upgrade() {
        if present.has_run_out() {
            return;
        }
        let remaining = present.remaining();
        drop(present);
        tokio::select! {
            () = over.cancelled() => return,
            () = tokio::time::sleep(remaining) => {}
        }
    }
}

pub fn gone() -> Error {
    Error::SessionOver("the client was shut down".to_owned())
}

/// The last handle closes the session when it goes.
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.0.is_over() && !self.0.has_run_out() {
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
        clock: Arc<dyn Clock>,
        options: SessionOptions,
        generation: u32,
    ) -> Result<Self, Error> {
        let id = options.resume.map_or_else(random, Ok)?;
        let life = life_after(generation, random()?);
        let shared = Arc::new(Shared::new(id, life, options.ttl, orders.clone(), clock));
        let open = v1::Open {
            ttl_ms: millis::at_least(options.ttl),
            owner: Some(options.owner),
            ends_with_connection: options.ends_with_connection,
            reopens: false,
            protocol: PROTOCOL,
        };
        let (to, answer) = oneshot::channel();
        let session = Self { handle: Arc::new(Handle(Arc::clone(&shared))) };
        let order = Order::Open { shared: Arc::clone(&shared), open, answer: Answer::Plain(to) };
        orders.send(order).map_err(|_| gone())?;
        match answer.await.map_err(|_| gone())?? {
            Reply::Opened(_) => {
                tokio::spawn(watch_over(Arc::downgrade(&shared), shared.over.clone()));
                Ok(session)
            }
            other => Err(Error::unexpected(format!("{other:?} for a new session"))),
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

    /// Until when nobody else can be given what this session holds, unless it is taken by force. Every renewal moves it.
    #[must_use]
    pub fn safe_until(&self) -> Moment {
        self.shared().safe_until()
    }

    /// How long that is from now; zero when the session is over.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let shared = self.shared();
        if shared.is_over() || shared.has_run_out() { Duration::ZERO } else { shared.remaining() }
    }

    /// Follows [`Self::safe_until`].
    #[must_use]
    pub fn watch_safety(&self) -> watch::Receiver<Moment> {
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
        let act = Act::Acquire(request.acquire);
        let waiting = shared.order_while_wanted(act, Answer::Grant(to, request.queued))?;
        let answer = answer.await;
        waiting.answered();
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
    shared: &'a Shared,
    ticket: u64,
}

impl Waiting<'_> {
    /// There is nothing to cancel any more.
    fn answered(self) {
        std::mem::forget(self);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if mutant::is(Mutant::LeavesWaits) {
            return;
        }
        let Shared { id, orders, .. } = self.shared;
        // A driver that is gone has nothing left to cancel.
        drop(orders.send(Order::Abandon { session: *id, ticket: self.ticket }));
    }
}

/// The number of a run of the client: greater than those of the runs before, whose generation is given, and random.
fn life_after(generation: u32, random: u64) -> u64 {
    u64::from(generation.saturating_add(1)) << 32 | random >> 32
}

/// A random number other than 0.
fn random() -> Result<u64, Error> {
    getrandom::u64()
        .map(|number| number.max(1))
        .map_err(|error| Error::Protocol(format!("no randomness: {error}")))
}
