//! Who is connected to this node, and what each is to be told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use conclave_service::{Leader, Millis, Name, Outcome, Reply, SessionId, State, Told};
use conclave_wire::{SENT_AWAY, v1};
use futures_util::StreamExt as _;
use tokio::sync::{Notify, mpsc};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::front::words;
use crate::machine::Sink;

/// Messages that may wait for a client that does not read. One that is further behind is disconnected: it asks again
/// for what it missed.
pub const BACKLOG: usize = 4096;
/// And so many events in them: a message may be short or long.
const UNREAD: usize = 128 * 1024;

/// A connection of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Guest(u64);

/// What goes out to a client.
pub type Outbox<T> = mpsc::Sender<Result<T, Status>>;

/// What a client is told, until it has read it.
#[derive(Clone)]
pub struct Mailbox {
    messages: Outbox<v1::ToClient>,
    unread: Arc<AtomicUsize>,
}

impl Mailbox {
    /// A new one; the stream is what the client reads.
    pub fn new() -> (Self, impl Stream<Item = Result<v1::ToClient, Status>> + use<>) {
        let (messages, inbox) = mpsc::channel(BACKLOG);
        let unread = Arc::new(AtomicUsize::new(0));
        let mailbox = Self { messages, unread: Arc::clone(&unread) };
        let read = ReceiverStream::new(inbox).inspect(move |message| {
            let events = message.as_ref().map_or(0, |message| message.events.len());
            unread.fetch_sub(events, Ordering::Relaxed);
        });
        (mailbox, read)
    }

    /// Puts a message in; says whether there was room.
    pub fn post(&self, message: v1::ToClient) -> bool {
        let before = self.unread.fetch_add(message.events.len(), Ordering::Relaxed);
        before <= UNREAD && self.messages.try_send(Ok(message)).is_ok()
    }

    /// Says that nothing more follows; one whose box is full notices the end of the stream.
    fn close(&self, why: Status) {
        drop(self.messages.try_send(Err(why)));
    }
}

/// The hall of a node, where everyone connected stands.
#[derive(Default)]
pub struct Hall {
    inner: Mutex<Inner>,
    /// The service time applied last.
    now: AtomicU64,
    /// When something ends by itself, `u64::MAX` for never.
    deadline: AtomicU64,
    applied: AtomicU64,
}

#[derive(Default)]
struct Inner {
    guests: BTreeMap<Guest, Mailbox>,
    sessions: BTreeMap<SessionId, Place>,
    observers: Vec<Observer>,
    watchers: Vec<Arc<Watcher>>,
    next_guest: u64,
}

/// Where a session is connected.
struct Place {
    guest: Guest,
    ends_with_connection: bool,
}

struct Observer {
    name: Name,
    out: Outbox<v1::ObserveResponse>,
}

/// Somebody who follows names; those that changed wait here until it takes them.
pub struct Watcher {
    prefix: String,
    changed: Mutex<BTreeSet<Name>>,
    notify: Notify,
    is_closed: std::sync::atomic::AtomicBool,
}

impl Watcher {
    /// Waits for names that changed; nothing at the end.
    pub async fn changed(&self) -> Option<BTreeSet<Name>> {
        loop {
            let changed = std::mem::take(&mut *self.changed.lock().unwrap_or_else(PoisonError::into_inner));
            if !changed.is_empty() {
                return Some(changed);
            }
            if self.is_closed.load(Ordering::Acquire) {
                return None;
            }
            self.notify.notified().await;
        }
    }
}

impl Hall {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The service time applied last.
    pub fn now(&self) -> Millis {
        self.now.load(Ordering::Acquire)
    }

    /// When something ends by itself.
    pub fn deadline(&self) -> Option<Millis> {
        Some(self.deadline.load(Ordering::Acquire)).filter(|deadline| *deadline < u64::MAX)
    }

    /// The place in the log of what was applied last.
    pub fn applied_index(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }

    fn note(&self, index: u64, state: &State) {
        self.now.store(state.now(), Ordering::Release);
        self.deadline.store(state.next_deadline().unwrap_or(u64::MAX), Ordering::Release);
        self.applied.store(index, Ordering::Release);
    }

    /// Lets a client in.
    pub fn enter(&self, mailbox: Mailbox) -> Guest {
        let mut inner = self.inner();
        inner.next_guest += 1;
        let guest = Guest(inner.next_guest);
        inner.guests.insert(guest, mailbox);
        guest
    }

    /// Notes that a session speaks through this connection from now on.
    pub fn seat(&self, session: SessionId, guest: Guest, ends_with_connection: Option<bool>) {
        let mut inner = self.inner();
        let was = inner.sessions.get(&session).is_some_and(|place| place.ends_with_connection);
        let ends_with_connection = ends_with_connection.unwrap_or(was);
        inner.sessions.insert(session, Place { guest, ends_with_connection });
    }

    /// Sees a client out; gives the sessions that end with its connection.
    pub fn leave(&self, guest: Guest) -> Vec<SessionId> {
        let mut inner = self.inner();
        // Whoever was sent away takes nothing along: its sessions live on at another node.
        let was_here = inner.guests.remove(&guest).is_some();
        let mut ending = Vec::new();
        inner.sessions.retain(|session, place| {
            let is_leaving = place.guest == guest;
            if is_leaving && was_here && place.ends_with_connection {
                ending.push(*session);
            }
            !is_leaving
        });
        ending
    }

    /// Tells a client why it is not heard any further.
    pub fn dismiss(&self, guest: Guest, why: Status) {
        if let Some(mailbox) = self.inner().guests.get(&guest) {
            mailbox.close(why);
        }
    }

    /// Tells a client something of the server's own.
    pub fn tell(&self, guest: Guest, events: Vec<v1::Event>) {
        let mut inner = self.inner();
        inner.send(guest, events);
    }

    /// Sends everybody away, for this reason.
    pub fn send_all_away(&self, why: &str) {
        let mut inner = self.inner();
        let away = || Status::new(SENT_AWAY, why);
        for mailbox in std::mem::take(&mut inner.guests).into_values() {
            mailbox.close(away());
        }
        inner.sessions.clear();
        for observer in std::mem::take(&mut inner.observers) {
            drop(observer.out.try_send(Err(away())));
        }
        for watcher in std::mem::take(&mut inner.watchers) {
            watcher.is_closed.store(true, Ordering::Release);
            watcher.notify.notify_one();
        }
    }

    /// Shows the leader of a name to somebody from now on, beginning with the one that the state shows. Called while the
    /// state is locked, so that no change falls between.
    pub fn observe(&self, name: Name, leader: Option<&Leader>, out: Outbox<v1::ObserveResponse>) {
        let first = v1::ObserveResponse { revision: self.applied_index(), leader: leader.map(words::leader) };
        if out.try_send(Ok(first)).is_ok() {
            self.inner().observers.push(Observer { name, out });
        }
    }

    /// Shows the names under a prefix that change from now on to somebody. Called while the state is locked, so that no
    /// change falls between this and a look at what is there.
    pub fn watch(&self, prefix: &str) -> Arc<Watcher> {
        let watcher = Arc::new(Watcher {
            prefix: prefix.to_owned(),
            changed: Mutex::default(),
            notify: Notify::new(),
            is_closed: std::sync::atomic::AtomicBool::new(false),
        });
        self.inner().watchers.push(Arc::clone(&watcher));
        watcher
    }
}

impl Inner {
    fn send(&mut self, guest: Guest, events: Vec<v1::Event>) {
        let Some(mailbox) = self.guests.get(&guest) else { return };
        if !mailbox.post(v1::ToClient { events, welcome: None }) {
            tracing::warn!(guest = guest.0, "a client does not read what it is told: disconnected");
            self.guests.remove(&guest);
            self.sessions.retain(|_, place| place.guest != guest);
        }
    }

    /// Delivers what sessions connected here are told, one message per connection.
    fn deliver(&mut self, outcome: &mut Outcome, state: &State) {
        let mut parcels: BTreeMap<Guest, Vec<v1::Event>> = BTreeMap::new();
        let mut closed = Vec::new();
        for message in outcome.messages.drain(..) {
            let Some(place) = self.sessions.get(&message.to) else { continue };
            let guest = place.guest;
            if is_last_word(&message.told) && !state.has_session(message.to) {
                closed.push(message.to);
            }
            parcels.entry(guest).or_default().push(words::event(message.to, message.told));
        }
        // Only now: the last word of a session may follow others in the same batch.
        for session in closed {
            self.sessions.remove(&session);
        }
        for (guest, events) in parcels {
            self.send(guest, events);
        }
    }

    fn show_leaders(&mut self, outcome: &Outcome, revision: u64) {
        for change in &outcome.leaders {
            self.observers.retain(|observer| {
                if observer.name != change.name {
                    return !observer.out.is_closed();
                }
                let leader = change.leader.as_ref().map(words::leader);
                observer.out.try_send(Ok(v1::ObserveResponse { revision, leader })).is_ok()
            });
        }
    }

    fn mark_changed(&mut self, changed: &[Name]) {
        // Whoever no longer watches has dropped its handle.
        self.watchers.retain(|watcher| Arc::strong_count(watcher) > 1);
        for watcher in &self.watchers {
            let mut waiting = watcher.changed.lock().unwrap_or_else(PoisonError::into_inner);
            let before = waiting.len();
            waiting.extend(changed.iter().filter(|name| name.0.starts_with(&watcher.prefix)).cloned());
            if waiting.len() > before {
                watcher.notify.notify_one();
            }
        }
    }
}

/// Whether a session that is gone was closed by this: nothing more is said to it. One that ended otherwise may have asked
/// for more meanwhile, and is told that it is gone.
fn is_last_word(told: &Told) -> bool {
    matches!(told, Told::Reply(_, Reply::Done))
}

impl Sink for Hall {
    fn applied(&self, index: u64, outcome: &mut Outcome, state: &State) {
        self.note(index, state);
        let mut inner = self.inner();
        if !inner.sessions.is_empty() {
            inner.deliver(outcome, state);
        }
        if !inner.observers.is_empty() {
            inner.show_leaders(outcome, index);
        }
        if !inner.watchers.is_empty() && !outcome.changed.is_empty() {
            inner.mark_changed(&outcome.changed);
        }
    }

    fn replaced(&self, index: u64, state: &State) {
        self.note(index, state);
        self.send_all_away("this node has fallen behind");
    }
}
