//! Sessions: what a client holds, it holds in one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use conclave_wire::PROTOCOL;
use conclave_wire::v1;
use conclave_wire::v1::command::Act;
use conclave_wire::v1::reply::Reply;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::Client;
use crate::clock::{Clock, Moment};
use crate::driver::{Answer, Order};
use crate::error::{Error, Lost, Reason};
use crate::guard::{Fence, Guard, GuardState, Leadership};
use crate::millis;
use crate::mutant::{self, Mutant};
use crate::request::{Campaign, Request};

/// Clocks of this machine and of the service may differ in speed by this part, which is far more than they do.
const DRIFT: f64 = 0.01;
/// And this is for what a timer comes late.
const LATENESS: Duration = Duration::from_millis(10);
/// How often to look at the clock at least, whatever the timers say: they stand still while the machine sleeps.
pub const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Why a grant is lost that the service does not count among what the session holds.
pub const TAKEN: &str = "it was taken while there was no connection";

/// Who a session belongs to, in its own words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The machine.
    pub host: String,
    /// The process on it.
    pub pid: u32,
    /// Who runs it.
    pub user: String,
    /// What for.
    pub label: String,
}

impl From<v1::Owner> for Owner {
    fn from(owner: v1::Owner) -> Self {
        let v1::Owner { host, pid, user, label } = owner;
        Self { host, pid, user, label }
    }
}

impl From<Owner> for v1::Owner {
    fn from(owner: Owner) -> Self {
        let Owner { host, pid, user, label } = owner;
        Self { host, pid, user, label }
    }
}

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
    /// Tokens of what a former run of the client was granted, and of which nobody has asked for a guard yet.
    resumed: BTreeSet<u64>,
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
            // Mostly nobody follows it, and this is done for every reply.
            is_later && self.safe_until.receiver_count() > 0
        });
        self.is_open.store(true, Ordering::Relaxed);
    }

    pub fn contended(&self, token: u64, name: &str) {
        if let Some(state) = self.inner().guards.get(&token) {
            state.contended(name);
        }
    }

    pub fn lose(&self, token: u64, why: &str) {
        let mut inner = self.inner();
        inner.resumed.remove(&token);
        if let Some(state) = inner.guards.remove(&token) {
            state.lose(why);
        }
    }

    /// Notes what the service counts as held of what a former run of the client was granted.
    fn found(&self, held: &[u64]) {
        self.inner().resumed.extend(held);
    }

    /// Takes what a former run was granted and nobody has asked for yet.
    fn take_resumed(&self) -> BTreeSet<u64> {
        std::mem::take(&mut self.inner().resumed)
    }

    /// What the service no longer counts as held is lost. Where it may be held under another token by now, nobody knows
    /// yet: those tokens are given back.
    pub fn reconcile(&self, held: &[u64], undecided: &BTreeSet<u64>) -> BTreeSet<u64> {
        let held: BTreeSet<u64> = held.iter().copied().collect();
        let mut doubtful = BTreeSet::new();
        let mut inner = self.inner();
        inner.resumed.retain(|token| held.contains(token));
        inner.guards.retain(|token, state| {
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
        inner.resumed.clear();
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
struct LastHandle(Arc<Shared>);

impl Drop for LastHandle {
    fn drop(&mut self) {
        if !self.0.is_over() && !self.0.has_run_out() {
            self.0.tell(Act::Close(v1::Close {}));
        }
    }
}

/// A session. Clones are the same session, which is closed when the last of them and of its guards is dropped.
#[derive(Clone)]
pub struct Session {
    handle: Arc<LastHandle>,
    /// For what is read.
    client: Client,
}

impl Session {
    pub(crate) async fn open(
        client: Client,
        options: SessionOptions,
        generation: u32,
    ) -> Result<Self, Error> {
        let (orders, clock) = (client.orders.clone(), Arc::clone(&client.options.clock));
        let id = options.resume.map_or_else(random, Ok)?;
        let life = life_after(generation, random()?);
        let shared = Arc::new(Shared::new(id, life, options.ttl, orders.clone(), clock));
        let open = v1::Open {
            ttl_ms: millis::at_least(options.ttl),
            owner: Some(options.owner.into()),
            ends_with_connection: options.ends_with_connection,
            reopens: false,
            protocol: PROTOCOL,
        };
        let (to, answer) = oneshot::channel();
        let session = Self { handle: Arc::new(LastHandle(Arc::clone(&shared))), client };
        let order = Order::Open { shared: Arc::clone(&shared), open, answer: Answer::Plain(to) };
        orders.send(order).map_err(|_| gone())?;
        match answer.await.map_err(|_| gone())?? {
            Reply::Opened(opened) => {
                shared.found(&opened.held);
                session.client.runtime.spawn(watch_over(Arc::downgrade(&shared), shared.over.clone()));
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

    /// Something that tells when the session is over, and does not keep it open.
    #[must_use]
    pub fn downgrade(&self) -> Ending {
        Ending { over: self.shared().over.clone(), shared: Arc::downgrade(self.shared()) }
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
    pub async fn acquire(&self, request: impl Into<Request>) -> Result<Guard, Error> {
        let request = request.into();
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

    /// Does not wait: nothing if it cannot be granted at once, because somebody else has it.
    pub async fn try_acquire(&self, request: impl Into<Request>) -> Result<Option<Guard>, Error> {
        if_free(self.acquire(request.into().try_once()).await)
    }

    /// Waits to become leader. To drop the future is to stop waiting.
    pub async fn campaign(&self, campaign: Campaign) -> Result<Leadership, Error> {
        self.acquire(campaign.0).await.map(Leadership::of)
    }

    /// Does not wait: nothing if somebody else leads.
    pub async fn try_campaign(&self, campaign: Campaign) -> Result<Option<Leadership>, Error> {
        let guard = if_free(self.acquire(campaign.0.try_once()).await)?;
        Ok(guard.map(Leadership::of))
    }

    /// Does something while a name is held, and releases it. The work is given a [`Fence`], whose token it passes to whatever
    /// it writes to. If the name is lost meanwhile, the work is dropped where it waits, and the error says so.
    ///
    /// ```no_run
    /// # async fn example(session: conclave_client::Session) -> Result<(), conclave_client::Error> {
    /// let size = session.with_lock("nightly-backup", async |fence| backup(fence.token()).await).await?;
    /// # let _: u64 = size; Ok(()) }
    /// # async fn backup(token: u64) -> u64 { token }
    /// ```
    pub async fn with_lock<T>(
        &self,
        request: impl Into<Request>,
        work: impl AsyncFnOnce(Fence) -> T,
    ) -> Result<T, Error> {
        let guard = self.acquire(request.into()).await?;
        let done = tokio::select! {
            biased;
            () = guard.lost() => None,
            value = work(guard.fence()) => Some(value),
        };
        let why = "it was lost at the end".to_owned();
        let lost = guard.check().err();
        let Some(value) = done.filter(|_| lost.is_none()) else {
            return Err(Error::Lost(lost.unwrap_or(Lost { token: guard.token(), why })));
        };
        // The work is done, and was done while it was held: that the release is not heard of changes nothing about that.
        drop(guard.release().await);
        Ok(value)
    }

    /// Guards of what a former run of the client was granted in this session, for one that was taken up again
    /// ([`SessionOptions::resume`]): those that were not asked for before. A grant that was made several times to one
    /// strand has as many guards. Whatever of it has no guard is held until the session ends.
    pub async fn resumed(&self) -> Result<Vec<Resumed>, Error> {
        if self.shared().inner().resumed.is_empty() {
            return Ok(Vec::new());
        }
        let shown = self.client.show_session(self.id()).await?.unwrap_or_default();
        let mut taken = self.shared().take_resumed();
        let mut resumed = Vec::new();
        for held in shown.held.into_iter().filter(|held| taken.remove(&held.token)) {
            let names: Vec<String> = held.names.into_iter().map(|want| want.name).collect();
            for _ in 0..held.depth.max(1) {
                let mut guard = self.shared().guard(held.token);
                guard.keep(self.clone());
                resumed.push(Resumed { guard, names: names.clone() });
            }
        }
        // What is not shown was lost a moment ago.
        Ok(resumed)
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

    /// Ends another session, for a reason that its client is told: what it holds is taken from it.
    pub async fn end(&self, other: u64, reason: &str) -> Result<(), Error> {
        self.shared().done(Act::End(v1::End { session: other, reason: reason.to_owned() })).await
    }

    /// Closes the session and waits until that is done.
    pub async fn close(self) -> Result<(), Error> {
        match self.shared().ask(Act::Close(v1::Close {})).await {
            Ok(_) | Err(Error::SessionOver(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Tells when a session is over.
#[derive(Clone)]
pub struct Ending {
    over: CancellationToken,
    shared: Weak<Shared>,
}

impl Ending {
    /// Returns when the session is over, with the reason if it is still known.
    pub async fn over(&self) -> Option<String> {
        self.over.cancelled().await;
        self.shared.upgrade().and_then(|shared| shared.inner().why_over.clone())
    }
}

impl fmt::Debug for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ending").field("is_over", &self.over.is_cancelled()).finish_non_exhaustive()
    }
}

/// What a former run of the client was granted.
#[derive(Debug)]
pub struct Resumed {
    /// Its guard; for leadership see [`Leadership::of`].
    pub guard: Guard,
    /// What it is of.
    pub names: Vec<String>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Session");
        shown.field("id", &format_args!("{:016x}", self.id())).field("ttl", &self.shared().ttl);
        shown.field("over", &self.why_over()).finish_non_exhaustive()
    }
}

/// A grant, unless somebody else has it.
fn if_free(acquired: Result<Guard, Error>) -> Result<Option<Guard>, Error> {
    match acquired {
        Ok(guard) => Ok(Some(guard)),
        Err(error) if error.is_busy() => Ok(None),
        Err(error) => Err(error),
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
        .map_err(|error| Error::Machine(Reason::with(format!("no randomness: {error}"), error)))
}
