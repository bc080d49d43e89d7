//! Who is connected to this node, and what each is to be told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use conclave_service::{Leader, Life, Millis, Name, Outcome, Reply, SessionId, State, Told};
use conclave_wire::{SENT_AWAY, v1};
use prost::Message as _;
use tokio::sync::Notify;
use tonic::Status;

use crate::front::mailbox::{Mailbox, PostOffice};
use crate::front::words;
use crate::machine::Sink;
use crate::mutant::{self, Mutant};

/// A message has no more bytes than this, unless one event alone has, and none has nearly as many: clients take 4 MiB.
const MESSAGE_BYTES: usize = 1024 * 1024;

/// A connection of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Guest(u64);

/// The hall of a node, where everyone connected stands.
#[derive(Default)]
pub struct Hall {
    inner: Mutex<Inner>,
    /// Where boxes for clients are opened.
    pub post: PostOffice,
    /// The service time applied last.
    now: AtomicU64,
    /// When something ends by itself, `u64::MAX` for never.
    deadline: AtomicU64,
    applied: AtomicU64,
    /// Which cluster this is, 0 if that is not known.
    cluster: AtomicU64,
}

#[derive(Default)]
struct Inner {
    guests: BTreeMap<Guest, Seat>,
    sessions: BTreeMap<SessionId, Place>,
    observers: Vec<Observer>,
    watchers: Vec<Arc<Watcher>>,
    next_guest: u64,
}

/// A client that is connected, and the sessions for which it speaks.
struct Seat {
    mailbox: Mailbox<v1::ToClient>,
    sessions: BTreeSet<SessionId>,
}

/// Where a session is connected.
struct Place {
    guest: Guest,
    life: Life,
    ends_with_connection: bool,
}

struct Observer {
    name: Name,
    out: Mailbox<v1::ObserveResponse>,
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

    /// Which cluster this is; 0 if that is not known yet.
    pub fn cluster(&self) -> u64 {
        self.cluster.load(Ordering::Acquire)
    }

    /// The place in the log of what was applied last.
    pub fn applied_index(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }

    fn note(&self, index: u64, state: &State) {
        self.now.store(state.now(), Ordering::Release);
        self.deadline.store(state.next_deadline().unwrap_or(u64::MAX), Ordering::Release);
        self.cluster.store(state.founded(), Ordering::Release);
        self.applied.store(index, Ordering::Release);
    }

    /// Lets a client in.
    pub fn enter(&self, mailbox: Mailbox<v1::ToClient>) -> Guest {
        let mut inner = self.inner();
        inner.next_guest += 1;
        let guest = Guest(inner.next_guest);
        inner.guests.insert(guest, Seat { mailbox, sessions: BTreeSet::new() });
        guest
    }

    /// Notes that a session speaks through this connection from now on.
    pub fn seat(&self, session: SessionId, life: Life, guest: Guest, ends_with_connection: Option<bool>) {
        let mut inner = self.inner();
        let was = inner.sessions.get(&session).is_some_and(|place| place.ends_with_connection);
        let ends_with_connection = ends_with_connection.unwrap_or(was);
        inner.stand_up(session);
        inner.sessions.insert(session, Place { guest, life, ends_with_connection });
        if let Some(seat) = inner.guests.get_mut(&guest) {
            seat.sessions.insert(session);
        }
    }

    /// Sees a client out; gives the sessions that end with its connection, and in which life it spoke for them.
    pub fn leave(&self, guest: Guest) -> Vec<(SessionId, Life)> {
        let mut inner = self.inner();
        let gone = inner.show_out(guest);
        let ending = gone.into_iter().filter(|(_, place)| place.ends_with_connection);
        ending.map(|(session, place)| (session, place.life)).collect()
    }

    /// Tells a client why it is not heard any further.
    pub fn dismiss(&self, guest: Guest, why: Status) {
        if let Some(seat) = self.inner().guests.get(&guest) {
            seat.mailbox.close(why);
        }
    }

    /// Tells a client something of the server's own.
    pub fn tell(&self, guest: Guest, event: v1::Event) {
        self.inner().send(guest, vec![event]);
    }

    /// Sends everybody away, for this reason.
    pub fn send_all_away(&self, why: &str) {
        let mut inner = self.inner();
        let away = || Status::new(SENT_AWAY, why);
        for seat in std::mem::take(&mut inner.guests).into_values() {
            seat.mailbox.close(away());
        }
        inner.sessions.clear();
        inner.send_readers_away(why);
    }

    /// Sends those away who follow elections and names, for this reason.
    pub fn send_readers_away(&self, why: &str) {
        self.inner().send_readers_away(why);
    }

    /// Shows the leader of a name to somebody from now on, beginning with the one that the state shows. Called while the
    /// state is locked, so that no change falls between.
    pub fn observe(&self, name: Name, leader: Option<&Leader>, out: Mailbox<v1::ObserveResponse>) {
        let first = v1::ObserveResponse { revision: self.applied_index(), leader: leader.map(words::leader) };
        if out.put(first) {
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
    fn send_readers_away(&mut self, why: &str) {
        for observer in std::mem::take(&mut self.observers) {
            observer.out.close(Status::new(SENT_AWAY, why));
        }
        for watcher in std::mem::take(&mut self.watchers) {
            watcher.is_closed.store(true, Ordering::Release);
            watcher.notify.notify_one();
        }
    }

    fn send(&mut self, guest: Guest, events: Vec<v1::Event>) {
        let Some(seat) = self.guests.get(&guest) else { return };
        if !post(&seat.mailbox, events) {
            tracing::warn!(guest = guest.0, "a client does not read what it is told: disconnected");
            self.show_out(guest);
        }
    }

    /// Takes a client out, if it is there, with the sessions for which it speaks. Whoever was sent away takes nothing along:
    /// its sessions live on at another node.
    fn show_out(&mut self, guest: Guest) -> Vec<(SessionId, Place)> {
        let sessions = self.guests.remove(&guest).map(|seat| seat.sessions).unwrap_or_default();
        let places = sessions.into_iter().map(|session| Some((session, self.sessions.remove(&session)?)));
        places.flatten().collect()
    }

    /// Nobody speaks for a session any more.
    fn stand_up(&mut self, session: SessionId) {
        if let Some(place) = self.sessions.remove(&session)
            && let Some(seat) = self.guests.get_mut(&place.guest)
        {
            seat.sessions.remove(&session);
        }
    }

    /// Delivers what sessions connected here are told: one message per connection, if it is not too large for one.
    fn deliver(&mut self, outcome: &mut Outcome, state: &State) {
        let mut parcels: BTreeMap<Guest, Vec<v1::Event>> = BTreeMap::new();
        let mut closed = Vec::new();
        for message in outcome.messages.drain(..) {
            let Some(place) = self.sessions.get(&message.to) else { continue };
            let guest = place.guest;
            if is_last_word(&message.told) && !state.has_session(message.to) {
                closed.push(message.to);
            }
            parcels.entry(guest).or_default().push(words::event(message));
        }
        // Only now: the last word of a session may follow others in the same batch.
        for session in closed {
            self.stand_up(session);
        }
        for (guest, events) in parcels {
            self.send(guest, events);
        }
    }

    fn show_leaders(&mut self, outcome: &Outcome, revision: u64) {
        if mutant::is(Mutant::TellsNoLeaders) {
            return;
        }
        for change in &outcome.leaders {
            self.observers.retain(|observer| {
                if observer.name != change.name {
                    return !observer.out.is_closed();
                }
                let leader = change.leader.as_ref().map(words::leader);
                observer.out.put(v1::ObserveResponse { revision, leader })
            });
        }
    }

    fn mark_changed(&mut self, changed: &[Name]) {
        let changed = if mutant::is(Mutant::TellsOneName) { &changed[..1] } else { changed };
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
    matches!(told, Told::Reply { reply: Reply::Done, .. })
}

/// Puts events into a box, in as many messages as they need; says whether there was room.
fn post(mailbox: &Mailbox<v1::ToClient>, events: Vec<v1::Event>) -> bool {
    let whole = v1::ToClient { events, welcome: None };
    if whole.encoded_len() <= MESSAGE_BYTES || mutant::is(Mutant::SaysAllAtOnce) {
        return mailbox.put(whole);
    }
    let parts = parcels(whole.events, MESSAGE_BYTES);
    parts.into_iter().all(|events| mailbox.put(v1::ToClient { events, welcome: None }))
}

/// Splits events, in their order, so that no part has more bytes than this, unless a single event has.
fn parcels(events: Vec<v1::Event>, most: usize) -> Vec<Vec<v1::Event>> {
    let mut parcels: Vec<Vec<v1::Event>> = Vec::new();
    let mut room = 0;
    for event in events {
        // With what stands before it in the message: a tag and a length.
        let bytes = event.encoded_len() + 1 + prost::length_delimiter_len(event.encoded_len());
        match parcels.last_mut() {
            Some(parcel) if bytes <= room => {
                parcel.push(event);
                room -= bytes;
            }
            _ => {
                parcels.push(vec![event]);
                room = most.saturating_sub(bytes);
            }
        }
    }
    parcels
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

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;

    use super::*;
    use crate::mutant::tests::assert_caught;

    fn lost(token: u64, bytes: usize) -> v1::Event {
        let why = "x".repeat(bytes);
        v1::Event { session: 1, life: 1, told: Some(v1::event::Told::Lost(v1::Lost { token, why })) }
    }

    #[tokio::test]
    async fn much_that_is_told_at_once_comes_in_messages_that_a_client_takes() {
        let (mailbox, read) = PostOffice::default().open();
        let told: Vec<v1::Event> = (0..100).map(|token| lost(token, 100_000)).collect();
        assert!(post(&mailbox, told.clone()));
        assert!(post(&mailbox, vec![lost(100, 10)]));
        drop(mailbox);
        let messages: Vec<v1::ToClient> = read.map(|message| message.expect("it is one")).collect().await;
        let largest = messages.iter().map(prost::Message::encoded_len).max();
        assert!(largest.is_some_and(|bytes| bytes <= MESSAGE_BYTES), "a message of {largest:?} bytes");
        assert_eq!(messages.len(), 11, "no more messages than it takes");
        let heard: Vec<v1::Event> = messages.into_iter().flat_map(|message| message.events).collect();
        assert_eq!(heard[..100], told);
    }

    #[test]
    fn that_messages_are_split_is_tested() {
        let test = "front::hall::tests::much_that_is_told_at_once_comes_in_messages_that_a_client_takes";
        assert_caught(test, Mutant::SaysAllAtOnce, "a message of Some(10");
    }

    /// A hall with three clients: the second one speaks for two sessions, of which one ends with its connection.
    fn hall() -> (Hall, [Guest; 3]) {
        let hall = Hall::default();
        let guests = [(); 3].map(|()| hall.enter(hall.post.open().0));
        hall.seat(SessionId(1), Life(1), guests[0], Some(true));
        hall.seat(SessionId(2), Life(2), guests[1], Some(false));
        hall.seat(SessionId(3), Life(3), guests[1], Some(true));
        (hall, guests)
    }

    #[test]
    fn whoever_leaves_takes_its_sessions_along_and_no_other() {
        let (hall, [one, two, three]) = hall();
        assert_eq!(hall.leave(two), [(SessionId(3), Life(3))]);
        assert_eq!(hall.leave(two), [], "once");
        assert_eq!(hall.leave(three), []);
        assert_eq!(hall.leave(one), [(SessionId(1), Life(1))]);
        assert!(hall.inner().sessions.is_empty());
    }

    #[test]
    fn a_session_that_speaks_through_another_connection_does_not_end_with_the_former() {
        let (hall, [one, _, three]) = hall();
        hall.seat(SessionId(1), Life(1), three, None);
        assert_eq!(hall.leave(one), []);
        assert_eq!(hall.leave(three), [(SessionId(1), Life(1))], "it still ends with its connection");
    }

    #[test]
    fn whoever_is_sent_away_leaves_its_sessions_alone() {
        let (hall, [one, two, _]) = hall();
        hall.send_all_away("for a reason");
        assert_eq!((hall.leave(one), hall.leave(two)), (vec![], vec![]));
    }
}
