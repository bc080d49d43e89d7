//! The one task behind a client: it keeps the connection, numbers and repeats requests, renews sessions, and tells
//! whoever must know that something is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use conclave_wire::v1::command::Act;
use conclave_wire::v1::event::Told;
use conclave_wire::v1::failed::Code;
use conclave_wire::v1::reply::Reply;
use conclave_wire::{SENT_AWAY, v1};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;

use crate::Options;
use crate::clock::Moment;
use crate::cluster::Cluster;
use crate::entry::{Entry, Pending};
use crate::error::{Error, Failure};
use crate::guard::Guard;
use crate::link::{Link, Way};
use crate::mutant::{self, Mutant};
use crate::parcel::parcels;
use crate::session::{LOOK_EVERY, Shared, TAKEN};

/// Orders that are taken up together, so that they leave in one message.
const ORDERS_AT_ONCE: usize = 256;
const BACKOFF_FIRST: Duration = Duration::from_millis(10);
const BACKOFF_LAST: Duration = Duration::from_millis(250);
/// How often to look whether anything waits for a connection in vain.
const LOOK_FOR_CONNECTION: Duration = Duration::from_millis(100);
/// A node that says nothing for so long after it was asked something is given up, and another one is tried. Every
/// request is answered at once, if only by the news that it waits.
const SILENCE: Duration = Duration::from_millis(500);
/// The same for clients whose sessions live shorter than that.
const SILENCE_LEAST: Duration = Duration::from_millis(200);
/// How long a silence makes a client more patient.
const FORGIVEN: Duration = Duration::from_secs(30);
/// How often all other nodes are tried before one that was silent.
const CHANCES: usize = 2;
/// Why sessions are over when the client was shut down.
const SHUT_DOWN: &str = "the client was shut down";
/// How long a node may take to say who it is once it is connected, at the most. At first it is given no longer than a
/// node may be silent, and twice as long each time that all were tried.
const WELCOME: Duration = Duration::from_secs(3);
/// How long the last requests of a client that is gone may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// What the driver is asked to do.
pub enum Order {
    /// Take a session on, and open it.
    Open { shared: Arc<Shared>, open: v1::Open, answer: Answer },
    /// Send a request.
    Ask { session: u64, act: Act, ticket: u64, answer: Answer },
    /// Nobody waits any more for the answer to the request with this ticket.
    Abandon { session: u64, ticket: u64 },
    /// Close all sessions, and end; the other end is told by being dropped.
    ShutDown(oneshot::Sender<()>),
    /// Somebody noticed that the service may have ended this session.
    RanOut { session: u64, life: u64 },
}

/// Who gets an answer.
pub enum Answer {
    /// Somebody who waits for a grant, and perhaps wants to know that it stands in a queue.
    Grant(oneshot::Sender<Result<Guard, Error>>, Option<mpsc::UnboundedSender<u32>>),
    /// Somebody who waits for anything else.
    Plain(oneshot::Sender<Result<Reply, Error>>),
    /// Nobody.
    Nobody,
}

impl Answer {
    pub fn fail(self, error: Error) {
        // Whoever no longer listens needs no answer.
        match self {
            Self::Grant(to, _) => drop(to.send(Err(error))),
            Self::Plain(to) => drop(to.send(Err(error))),
            Self::Nobody => {}
        }
    }
}

/// The task.
pub struct Driver {
    options: Arc<Options>,
    cluster: Cluster,
    /// The connection, for those who read.
    way: Way,
    inbox: mpsc::UnboundedReceiver<Order>,
    sessions: BTreeMap<u64, Entry>,
    link: Option<Link>,
    connecting: Option<JoinHandle<Result<Link, Status>>>,
    /// Since when there has been no connection, and what the last attempt said.
    down_since: Instant,
    down_why: String,
    /// What a node said that speaks another version of the protocol, or belongs to another cluster.
    foreign: Option<String>,
    backoff: Duration,
    next_endpoint: usize,
    /// How many nodes in a row could not be reached.
    failures: usize,
    /// The node that was given up last because it said nothing.
    silent: Option<String>,
    /// The leader of which nothing was heard then.
    unheard: Option<String>,
    wake_at: Instant,
    /// Before this no session has run out. A renewal moves a session's end only further away, so this need not follow.
    unsafe_from: Moment,
    /// Sessions that hold back something to be asked.
    backlogged: BTreeSet<u64>,
    /// Since when the node has been asked something and has said nothing.
    asked_since: Option<Instant>,
    /// How often nodes were given up lately because they said nothing, and when the last time.
    silences: (u32, Instant),
    /// Who waits for its end.
    farewell: Option<oneshot::Sender<()>>,
}

/// A driver that ends, be it by a panic or with its runtime, renews nothing any more.
impl Drop for Driver {
    fn drop(&mut self) {
        for entry in std::mem::take(&mut self.sessions).into_values() {
            let why = if self.farewell.is_some() { SHUT_DOWN } else { "the client's task ended" };
            entry.shared.end(why);
            entry.fail(&Error::SessionOver(why.to_owned()));
        }
    }
}

/// What made the driver look up.
enum Wake {
    Orders(usize),
    Linked(Result<Box<Link>, Status>),
    Event(Result<Option<v1::ToClient>, Status>),
    Time,
}

impl Driver {
    pub fn new(
        options: Arc<Options>,
        cluster: Cluster,
        way: Way,
        inbox: mpsc::UnboundedReceiver<Order>,
    ) -> Self {
        let now = Instant::now();
        Self {
            options,
            cluster,
            way,
            inbox,
            sessions: BTreeMap::new(),
            link: None,
            connecting: None,
            down_since: now,
            down_why: "not tried yet".to_owned(),
            foreign: None,
            backoff: BACKOFF_FIRST,
            next_endpoint: 0,
            failures: 0,
            silent: None,
            unheard: None,
            wake_at: now + LOOK_EVERY,
            unsafe_from: Moment::MAX,
            backlogged: BTreeSet::new(),
            asked_since: None,
            silences: (0, now),
            farewell: None,
        }
    }

    pub async fn run(mut self) {
        let mut orders = Vec::new();
        let mut gone_at = None;
        let mut timer = pin!(sleep_until(self.wake_at));
        loop {
            // It is mostly the same time as before.
            if timer.deadline() != self.wake_at {
                timer.as_mut().reset(self.wake_at);
            }
            let wake = self.wake(&mut orders, gone_at.is_some(), timer.as_mut()).await;
            if !matches!(wake, Wake::Event(_)) {
                // Nothing is done for a session that has run out. What is told may renew it, and comes first.
                self.give_up_unsafe();
            }
            match wake {
                Wake::Orders(0) => gone_at = Some(Instant::now() + FAREWELL),
                Wake::Orders(_) => {
                    self.on_orders(&mut orders);
                    if self.farewell.is_some() {
                        gone_at = Some(Instant::now() + FAREWELL);
                    }
                }
                Wake::Linked(result) => self.on_linked(result.map(|link| *link)),
                Wake::Event(Ok(Some(message))) => self.on_message(message),
                Wake::Event(Err(status)) if status.code() == SENT_AWAY => self.on_parted(status.message()),
                Wake::Event(Ok(None)) => self.on_broken("the node ended the connection"),
                Wake::Event(Err(status)) => self.on_broken(status.message()),
                Wake::Time => {}
            }
            self.give_up_unsafe();
            // However much there is to do, time passes.
            if Instant::now() >= self.wake_at {
                self.on_time();
            }
            let is_idle = gone_at.is_some() && self.sessions.values().all(Entry::is_idle);
            if gone_at.is_some_and(|gone_at| is_idle || Instant::now() >= gone_at) {
                return;
            }
        }
    }

    async fn wake(&mut self, orders: &mut Vec<Order>, is_gone: bool, timer: Pin<&mut Sleep>) -> Wake {
        let is_down = self.link.is_none();
        if is_down && self.connecting.is_none() && !self.sessions.is_empty() {
            self.connect();
        }
        tokio::select! {
            biased;
            // A node tells no more than it was asked, so this keeps nobody waiting.
            message = async { self.link.as_mut().expect("guarded").direct.next().await }, if !is_down => {
                Wake::Event(message)
            }
            joined = async { self.connecting.as_mut().expect("guarded").await }, if self.connecting.is_some() => {
                let linked = joined.unwrap_or_else(|error| Err(Status::unavailable(error.to_string())));
                Wake::Linked(linked.map(Box::new))
            }
            count = self.inbox.recv_many(orders, ORDERS_AT_ONCE), if !is_gone => Wake::Orders(count),
            () = timer => Wake::Time,
        }
    }

    fn connect(&mut self) {
        let options = Arc::clone(&self.options);
        let count = options.endpoints.len();
        // The one that was silent comes last, after a second chance for all others: they may be about to elect a leader, and it
        // takes long to find out that it still says nothing.
        let is_silent = self.silent.as_ref() == Some(&options.endpoints[self.next_endpoint % count]);
        if is_silent && self.failures < CHANCES * (count - 1) {
            self.next_endpoint += 1;
        }
        let address = options.endpoints[self.next_endpoint % count].clone();
        self.next_endpoint += 1;
        let rounds = u32::try_from(self.failures / count).unwrap_or(u32::MAX).min(8);
        let limit = (self.patience_with_silence() * 2_u32.pow(rounds)).min(options.connect_timeout + WELCOME);
        let (silent, cluster) = (self.silent.clone(), self.cluster.clone());
        let pause = self.backoff;
        let is_first = self.backoff == BACKOFF_FIRST;
        self.backoff = (self.backoff * 2).min(BACKOFF_LAST);
        self.connecting = Some(tokio::spawn(async move {
            if !is_first {
                tokio::time::sleep(pause).await;
            }
            Link::open(&options, &cluster, &address, limit, silent.as_deref()).await
        }));
    }

    fn on_linked(&mut self, result: Result<Link, Status>) {
        self.connecting = None;
        match result {
            Err(status) => {
                self.failures += 1;
                status.message().clone_into(&mut self.down_why);
                if status.code() == tonic::Code::FailedPrecondition {
                    self.foreign = Some(self.down_why.clone());
                }
                // All were tried, and to wait does not change the version or the cluster of any. Whoever is with a session already may
                // find the others again.
                if self.failures >= self.options.endpoints.len()
                    && let Some(why) = self.foreign.take()
                {
                    self.give_up_opening(&Error::Protocol(why.into()));
                }
            }
            Ok(link) => {
                self.failures = 0;
                self.foreign = None;
                if !link.leader.is_empty()
                    && self.unheard.take().is_some_and(|unheard| unheard != link.leader)
                {
                    // It had not much to do: it was gone, and others do without it.
                    self.silences.0 = 0;
                }
                self.way.set(link.channel.clone());
                self.link = Some(link);
                self.backoff = BACKOFF_FIRST;
                self.say_everything_again();
            }
        }
    }

    /// On a new connection every session makes itself known, but for those that are to run out: it would be to live on.
    fn say_everything_again(&mut self) {
        let now = self.now();
        let mut commands = Vec::new();
        for entry in self.sessions.values_mut() {
            entry.is_known = false;
            if entry.shared.may_renew() {
                commands.extend(entry.introduce(now));
            }
        }
        self.send(commands);
    }

    /// The connection broke: sessions that end with it may be over from now on.
    fn on_broken(&mut self, why: &str) {
        self.on_parted(why);
        let is_over = |entry: &Entry| entry.open.ends_with_connection && entry.shared.is_open();
        let over: Vec<u64> =
            self.sessions.iter().filter(|(_, entry)| is_over(entry)).map(|(id, _)| *id).collect();
        for id in over {
            self.end(id, &format!("its connection ended ({why})"));
        }
    }

    /// There is no connection any more.
    fn on_parted(&mut self, why: &str) {
        why.clone_into(&mut self.down_why);
        if self.link.take().is_some() {
            self.way.forget();
        }
        self.asked_since = None;
        self.down_since = Instant::now();
        self.wake_at = self.wake_at.min(self.down_since + LOOK_FOR_CONNECTION);
    }

    fn on_orders(&mut self, orders: &mut Vec<Order>) {
        if self.link.is_none() && self.sessions.is_empty() {
            self.down_since = Instant::now();
        }
        let now = self.now();
        let mut commands = Vec::with_capacity(orders.len());
        for order in orders.drain(..) {
            let Some((session, request)) = self.on_order(order, now) else { continue };
            if self.link.is_some() {
                commands
                    .extend(self.sessions.get_mut(&session).and_then(|entry| entry.command(request, now)));
            }
        }
        self.send(commands);
        if self.farewell.is_some() {
            self.shut_down(now);
        }
    }

    /// Closes all sessions: what they hold is given back.
    fn shut_down(&mut self, now: Moment) {
        let close = |entry: &mut Entry| {
            let request = entry.number(Act::Close(v1::Close {}), 0, Answer::Nobody);
            entry.command(request, now)
        };
        let commands = self.sessions.values_mut().filter_map(close).collect();
        // Without a connection it is said as soon as there is one.
        self.send(commands);
    }

    /// Takes an order up; gives the request to be sent for it.
    fn on_order(&mut self, order: Order, now: Moment) -> Option<(u64, u64)> {
        match order {
            Order::Open { shared, open, answer } => {
                let id = shared.id;
                // Whoever takes a session up again that it still has takes it over from itself.
                self.end(id, "it was taken up again");
                let mut entry = Entry::new(shared, open.clone(), now);
                let request = entry.number(Act::Open(open), 0, answer);
                self.wake_at = self.wake_at.min(self.instant(entry.renew_at(), now));
                self.sessions.insert(id, entry);
                Some((id, request))
            }
            Order::Ask { session, act, ticket, answer } => match self.sessions.get_mut(&session) {
                Some(entry) => {
                    let request = entry.ask(act, ticket, answer, self.link.is_some());
                    if request.is_none() {
                        self.backlogged.insert(session);
                    }
                    Some((session, request?))
                }
                None => {
                    answer.fail(Error::SessionOver("it was closed or lost before".to_owned()));
                    None
                }
            },
            Order::Abandon { session, ticket } => {
                Some((session, self.sessions.get_mut(&session)?.abandon(ticket)?))
            }
            Order::ShutDown(farewell) => {
                self.farewell = Some(farewell);
                None
            }
            Order::RanOut { session, life } => {
                if self.sessions.get(&session).is_some_and(|entry| entry.shared.life == life) {
                    self.end(session, "it could not be renewed in time");
                }
                None
            }
        }
    }

    fn now(&self) -> Moment {
        self.options.clock.now()
    }

    /// When a timer must end that is to end at a moment.
    fn instant(&self, moment: Moment, now: Moment) -> Instant {
        Instant::now() + moment.saturating_duration_since(now).min(LOOK_EVERY)
    }

    /// Sends what was held back, where there is room for it now.
    fn send_backlogs(&mut self) {
        if self.backlogged.is_empty() || self.link.is_none() {
            return;
        }
        let now = self.now();
        let mut commands = Vec::new();
        let sessions = &mut self.sessions;
        self.backlogged.retain(|id| {
            let Some(entry) = sessions.get_mut(id) else { return false };
            commands.extend(entry.take_backlog(now));
            entry.has_backlog()
        });
        self.send(commands);
    }

    fn send(&mut self, commands: Vec<v1::Command>) {
        if commands.is_empty() {
            return;
        }
        let Some(link) = &mut self.link else { return };
        for parcel in parcels(commands) {
            link.direct.put(&parcel);
        }
        let now = Instant::now();
        self.asked_since.get_or_insert(now);
        self.wake_at = self.wake_at.min(now + self.patience_with_silence());
    }

    /// How long a node may be silent. Where one after the other is, they have much to do, and would have more of it if everybody
    /// asked elsewhere again and again: then it is twice as long each time.
    fn patience_with_silence(&self) -> Duration {
        let shortest = self.sessions.values().map(|entry| entry.shared.ttl / 3).min();
        let usual = shortest.unwrap_or(SILENCE).clamp(SILENCE_LEAST, SILENCE);
        let (count, last) = self.silences;
        if last.elapsed() > FORGIVEN { usual } else { usual * 2_u32.pow(count.min(2)) }
    }

    fn note_silence(&mut self) {
        self.silent = self.link.as_ref().map(|link| link.address.clone());
        self.unheard = self.link.as_ref().map(|link| link.leader.clone()).filter(|leader| !leader.is_empty());
        let (count, last) = self.silences;
        let count = if last.elapsed() > FORGIVEN { 0 } else { count };
        self.silences = (count + 1, Instant::now());
    }

    fn on_message(&mut self, message: v1::ToClient) {
        self.asked_since = None;
        self.silent = None;
        for event in message.events {
            let id = event.session;
            // What was said to an earlier run of the client is not meant for this one.
            let is_meant =
                |entry: &&mut Entry| entry.shared.life == event.life || mutant::is(Mutant::HearsOtherLives);
            let Some(entry) = self.sessions.get_mut(&id).filter(is_meant) else { continue };
            match event.told {
                Some(Told::Reply(reply)) => self.on_reply(id, reply),
                Some(Told::Contended(v1::Contended { token, name })) => entry.shared.contended(token, &name),
                Some(Told::Lost(v1::Lost { token, why })) => entry.shared.lose(token, &why),
                Some(Told::Ended(v1::Ended { why })) => self.end(id, &why),
                // A newer server may say more than this client understands.
                None => {}
            }
        }
        self.send_backlogs();
    }

    fn on_reply(&mut self, session: u64, mut reply: v1::Reply) {
        let request = reply.request;
        let Some(entry) = self.sessions.get_mut(&session) else { return };
        // A newer server may say more than this client understands.
        let Some(said) = reply.reply.take() else { return };
        let was_open = entry.shared.is_open();
        entry.hear(request, &reply);
        if !was_open && entry.shared.is_open() {
            self.unsafe_from = self.unsafe_from.min(entry.shared.safe_until());
        }
        let Some(pending) = entry.pending(request) else {
            return on_unwanted(entry, request, reply.waited, &said);
        };
        let is_opening = matches!(pending.act, Act::Open(_));
        match &said {
            Reply::Failed(failed) if failed.code() == Code::NoSession || is_opening && !was_open => {
                self.refuse_session(session, is_opening.then_some(request), failed);
                return;
            }
            Reply::Failed(_) if is_opening => {
                // It is there, but this node does not take it now. That is tried again, for as long as it lasts.
                entry.is_known = false;
            }
            Reply::Queued(queued) => {
                if let Answer::Grant(_, Some(to)) = &pending.answer {
                    let _ = to.send(queued.ahead);
                }
                return;
            }
            Reply::Opened(opened) => {
                entry.open.reopens = true;
                entry.doubtful = entry.shared.reconcile(&opened.held, &entry.converting());
            }
            Reply::Failed(_) | Reply::Done(_) | Reply::Granted(_) => {}
        }
        let Some(pending) = entry.settle(request, reply.waited) else { return };
        let reply = said;
        let is_full = matches!(&reply, Reply::Failed(failed) if failed.code() == Code::Limit);
        if is_full && pending.can_wait() && !mutant::is(Mutant::KeepsWhatWasRefused) {
            entry.disown(request, pending.act.clone());
        }
        let is_closed = matches!(pending.act, Act::Close(_));
        settle(entry, pending, reply);
        if is_closed {
            self.end(session, "closed");
        }
    }

    /// There is no such session, or it cannot be opened.
    fn refuse_session(&mut self, session: u64, opening: Option<u64>, failed: &v1::Failed) {
        let Some(entry) = self.sessions.get_mut(&session) else { return };
        if let Some(pending) = opening.and_then(|request| entry.settle(request, false)) {
            pending.answer.fail(Error::Refused(Failure::from(failed.clone())));
        }
        self.end(session, &failed.text);
    }

    fn end(&mut self, session: u64, why: &str) {
        let Some(entry) = self.sessions.remove(&session) else { return };
        self.backlogged.remove(&session);
        entry.shared.end(why);
        entry.fail(&Error::SessionOver(why.to_owned()));
    }

    fn on_time(&mut self) {
        let now = Instant::now();
        let silent_until = self.asked_since.map(|since| since + self.patience_with_silence());
        if silent_until.is_some_and(|until| now >= until) {
            self.note_silence();
            self.on_broken("the node does not answer");
        }
        if self.link.is_some() {
            self.renew();
        } else if now >= self.down_since + self.options.patience {
            self.give_up_waiting();
        }
        let next = self.sessions.values().map(Entry::next_look).min();
        self.wake_at = match next {
            Some(next) => {
                let next = self.instant(next, self.now());
                let silent_until = self.asked_since.map(|since| since + self.patience_with_silence());
                let is_down = self.link.is_none().then_some(now + LOOK_FOR_CONNECTION);
                let next = [silent_until, is_down].into_iter().flatten().fold(next, Instant::min);
                next.max(now + Duration::from_millis(1))
            }
            None => now + Duration::from_secs(3600),
        };
    }

    /// Ends the sessions that the service may end from now on. Nothing is sent: what they hold stays closed to others for
    /// as long as the service would keep it for a client that is gone, and its lock delay runs.
    fn give_up_unsafe(&mut self) {
        let now = self.now();
        if now < self.unsafe_from {
            return;
        }
        let open = self.sessions.iter().filter(|(_, entry)| entry.shared.is_open());
        let over: Vec<u64> =
            open.filter(|(_, entry)| now >= entry.shared.safe_until()).map(|(id, _)| *id).collect();
        if mutant::is(Mutant::ClosesAtTheEnd) {
            self.close(&over);
        }
        for id in over {
            let why = match &self.link {
                Some(_) => "it could not be renewed in time".to_owned(),
                None => format!("it could not be renewed in time ({})", self.down_why),
            };
            self.end(id, &why);
        }
        let open = self.sessions.values().filter(|entry| entry.shared.is_open());
        self.unsafe_from = open.map(|entry| entry.shared.safe_until()).min().unwrap_or(Moment::MAX);
    }

    /// Gives everything back that these sessions hold, as only a mutant does.
    fn close(&mut self, sessions: &[u64]) {
        let now = self.now();
        let close = |entry: &mut Entry| {
            let request = entry.number(Act::Close(v1::Close {}), 0, Answer::Nobody);
            entry.command(request, now)
        };
        let commands = sessions.iter().filter_map(|id| close(self.sessions.get_mut(id)?)).collect();
        self.send(commands);
    }

    fn renew(&mut self) {
        let now = self.now();
        let mut commands = Vec::new();
        for entry in self.sessions.values_mut().filter(|entry| entry.renew_at() <= now) {
            if !entry.shared.may_renew() {
                entry.last_sent = now;
                continue;
            }
            if entry.is_known {
                let request = entry.number(Act::Renew(v1::Renew {}), 0, Answer::Nobody);
                commands.extend(entry.command(request, now));
            } else {
                commands.extend(entry.introduce(now));
            }
        }
        self.send(commands);
    }

    /// There has been no connection for too long: nobody is left waiting for an answer.
    fn give_up_waiting(&mut self) {
        let why = Error::Unavailable(self.down_why.clone().into());
        self.give_up_opening(&why);
        for entry in self.sessions.values_mut() {
            entry.give_up_waiting(&why);
        }
    }

    /// Sessions that are not open yet will not be.
    fn give_up_opening(&mut self, why: &Error) {
        self.sessions.retain(|_, entry| {
            if !entry.shared.is_open() {
                entry.give_up_waiting(why);
            }
            entry.shared.is_open()
        });
    }
}

/// There is a reply to a request that nobody waits for. Mostly it is one that was heard before; what was not is given back.
fn on_unwanted(entry: &mut Entry, request: u64, waited: bool, reply: &Reply) {
    match reply {
        Reply::Queued(_) if entry.is_disowned(request) => {
            entry.shared.tell(Act::Cancel(v1::Cancel { request }));
        }
        Reply::Granted(granted) => {
            if let Some(act) = entry.take_disowned(request, waited) {
                let pending = Pending { act, ticket: 0, answer: Answer::Nobody, first_sent: None };
                settle(entry, pending, reply.clone());
            } else if entry.note_token(granted.token) {
                entry.shared.tell(Act::Release(v1::Release { token: granted.token }));
            }
        }
        Reply::Queued(_) | Reply::Opened(_) | Reply::Done(_) | Reply::Failed(_) => {}
    }
}

/// Gives a final answer to whoever waits for it.
fn settle(entry: &mut Entry, pending: Pending, reply: Reply) {
    if let Reply::Granted(granted) = &reply {
        entry.note_token(granted.token);
    }
    if let Act::Convert(convert) = &pending.act {
        settle_conversion(entry, convert, &reply);
    }
    let shared = &entry.shared;
    match (pending.answer, reply) {
        (answer, Reply::Failed(failed)) => answer.fail(Error::Refused(Failure::from(failed))),
        (Answer::Grant(to, _), Reply::Granted(granted)) => {
            // A guard that nobody takes releases what it guards.
            drop(to.send(Ok(shared.guard(granted.token))));
        }
        (Answer::Nobody, Reply::Granted(granted)) if matches!(pending.act, Act::Acquire(_)) => {
            drop(shared.guard(granted.token));
        }
        (Answer::Plain(to), reply) => drop(to.send(Ok(reply))),
        (Answer::Grant(to, _), other) => {
            drop(to.send(Err(Error::unexpected(format!("{other:?} for an acquisition")))));
        }
        (Answer::Nobody, _) => {}
    }
}

/// What was held under one token is held under another from now on, whether anybody waits for that or not.
fn settle_conversion(entry: &mut Entry, convert: &v1::Convert, reply: &Reply) {
    let token = convert.token;
    match reply {
        Reply::Granted(granted) => entry.shared.rename(token, granted.token),
        Reply::Failed(failed) if failed.code() == Code::NotHeld => entry.shared.lose(token, &failed.text),
        // Nothing was held under this token when the session was taken up again, and it was not exchanged.
        _ if entry.doubtful.contains(&token) && !entry.converting().contains(&token) => {
            entry.shared.lose(token, TAKEN);
        }
        _ => {}
    }
    if !entry.converting().contains(&token) {
        entry.doubtful.remove(&token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::tests::link;

    fn driver() -> Driver {
        let options = Options::new(["one:1", "two:1"]);
        let (_, inbox) = mpsc::unbounded_channel();
        Driver::new(Arc::new(options), Cluster::default(), Way::default(), inbox)
    }

    #[tokio::test]
    async fn a_node_that_has_much_to_do_makes_more_patient_and_one_that_was_replaced_does_not() {
        let mut driver = driver();
        assert_eq!(driver.patience_with_silence(), SILENCE);
        driver.on_linked(Ok(link("one:1", "one:1")));
        driver.note_silence();
        driver.on_linked(Ok(link("two:1", "one:1")));
        assert_eq!(driver.patience_with_silence(), SILENCE * 2, "it still leads");
        driver.note_silence();
        driver.on_linked(Ok(link("one:1", "one:1")));
        assert_eq!(driver.patience_with_silence(), SILENCE * 4, "and has more to do");
        driver.note_silence();
        driver.on_linked(Ok(link("two:1", "two:1")));
        assert_eq!(driver.patience_with_silence(), SILENCE, "another one leads");
    }
}
