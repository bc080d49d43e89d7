//! The one task behind a client: it keeps the connection, numbers and repeats requests, renews sessions, and tells
//! whoever must know that something is lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use conclave_wire::v1::command::Act;
use conclave_wire::v1::event::Told;
use conclave_wire::v1::failed::Code;
use conclave_wire::v1::reply::Reply;
use conclave_wire::{SENT_AWAY, v1};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tonic::Status;

use crate::Options;
use crate::error::{Error, Failure};
use crate::guard::Guard;
use crate::link::Link;
use crate::parcel::parcels;
use crate::session::Shared;

/// Orders that are taken up together, so that they leave in one message.
const ORDERS_AT_ONCE: usize = 256;
const BACKOFF_FIRST: Duration = Duration::from_millis(10);
const BACKOFF_LAST: Duration = Duration::from_millis(250);
/// How often to look whether anything waits for a connection in vain.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A node that says nothing for so long after it was asked something is given up, and another one is tried. Every
/// request is answered at once, if only by the news that it waits.
const SILENCE: Duration = Duration::from_secs(1);
/// The same for clients whose sessions live shorter than that.
const SILENCE_LEAST: Duration = Duration::from_millis(200);
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
    fn fail(self, error: Error) {
        // Whoever no longer listens needs no answer.
        match self {
            Self::Grant(to, _) => drop(to.send(Err(error))),
            Self::Plain(to) => drop(to.send(Err(error))),
            Self::Nobody => {}
        }
    }
}

/// A request that has no final answer yet.
struct Pending {
    act: Act,
    ticket: u64,
    answer: Answer,
    /// When it was sent for the first time: what it renewed, it renewed after that.
    first_sent: Option<Instant>,
}

/// What the driver knows of a session.
struct Entry {
    shared: Arc<Shared>,
    open: v1::Open,
    next_request: u64,
    pending: BTreeMap<u64, Pending>,
    last_sent: Instant,
    /// Whether it has made itself known on the present connection.
    is_known: bool,
}

impl Entry {
    /// Makes itself known on a new connection, which tells what it still holds, and asks again what was not answered,
    /// in the old order.
    fn introduce(&mut self, now: Instant) -> Vec<v1::Command> {
        self.is_known = true;
        let is_opening = self.pending.values().any(|pending| matches!(pending.act, Act::Open(_)));
        if !is_opening {
            self.number(Act::Open(self.open.clone()), 0, Answer::Nobody);
        }
        let mut requests: Vec<u64> = self.pending.keys().copied().collect();
        requests.sort_by_key(|request| !matches!(self.pending[request].act, Act::Open(_)));
        requests.into_iter().filter_map(|request| self.command(request, now)).collect()
    }

    fn acked(&self) -> u64 {
        self.pending.first_key_value().map_or(self.next_request, |(request, _)| *request)
    }

    /// Numbers a request and remembers it.
    fn number(&mut self, act: Act, ticket: u64, answer: Answer) -> u64 {
        let request = self.next_request;
        self.next_request += 1;
        self.pending.insert(request, Pending { act, ticket, answer, first_sent: None });
        request
    }

    /// The command for a request that is pending.
    fn command(&mut self, request: u64, now: Instant) -> Option<v1::Command> {
        let acked = self.acked();
        let pending = self.pending.get_mut(&request)?;
        pending.first_sent.get_or_insert(now);
        self.last_sent = now;
        Some(v1::Command { session: self.shared.id, request, acked, act: Some(pending.act.clone()) })
    }

    /// The tokens that may have been exchanged for others, since nobody knows yet what became of their conversions.
    fn converting(&self) -> impl Iterator<Item = u64> {
        self.pending.values().filter_map(|pending| match &pending.act {
            Act::Convert(convert) => Some(convert.token),
            _ => None,
        })
    }

    fn renew_at(&self) -> Instant {
        self.last_sent + self.shared.ttl / 3
    }

    /// When there is something to be done for it at the latest. One that is not open yet has nothing to lose.
    fn next_look(&self) -> Instant {
        let renew_at = self.renew_at();
        if self.shared.is_open() { renew_at.min(self.shared.safe_until()) } else { renew_at }
    }
}

/// The task.
pub struct Driver {
    options: Arc<Options>,
    inbox: mpsc::UnboundedReceiver<Order>,
    sessions: BTreeMap<u64, Entry>,
    link: Option<Link>,
    connecting: Option<JoinHandle<Result<Link, Status>>>,
    /// Since when there has been no connection, and what the last attempt said.
    down_since: Instant,
    down_why: String,
    backoff: Duration,
    next_endpoint: usize,
    /// How many nodes in a row could not be reached.
    failures: usize,
    /// The node that was given up last because it said nothing.
    silent: Option<String>,
    wake_at: Instant,
    /// Since when the node has been asked something and has said nothing.
    asked_since: Option<Instant>,
}

/// What made the driver look up.
enum Wake {
    Orders(usize),
    Linked(Result<Link, Status>),
    Event(Result<Option<v1::ToClient>, Status>),
    Time,
}

impl Driver {
    pub fn new(options: Arc<Options>, inbox: mpsc::UnboundedReceiver<Order>) -> Self {
        let now = Instant::now();
        Self {
            options,
            inbox,
            sessions: BTreeMap::new(),
            link: None,
            connecting: None,
            down_since: now,
            down_why: "not tried yet".to_owned(),
            backoff: BACKOFF_FIRST,
            next_endpoint: 0,
            failures: 0,
            silent: None,
            wake_at: now + LOOK_EVERY,
            asked_since: None,
        }
    }

    pub async fn run(mut self) {
        let mut orders = Vec::new();
        let mut gone_at = None;
        loop {
            match self.wake(&mut orders, gone_at.is_some()).await {
                Wake::Orders(0) => gone_at = Some(Instant::now() + FAREWELL),
                Wake::Orders(_) => self.on_orders(&mut orders),
                Wake::Linked(result) => self.on_linked(result),
                Wake::Event(Ok(Some(message))) => self.on_message(message),
                Wake::Event(Err(status)) if status.code() == SENT_AWAY => self.on_parted(status.message()),
                Wake::Event(Ok(None)) => self.on_broken("the node ended the connection"),
                Wake::Event(Err(status)) => self.on_broken(status.message()),
                Wake::Time => self.on_time(),
            }
            let is_idle = self.sessions.values().all(|entry| entry.pending.is_empty());
            if gone_at.is_some_and(|gone_at| is_idle || Instant::now() >= gone_at) {
                return;
            }
        }
    }

    async fn wake(&mut self, orders: &mut Vec<Order>, is_gone: bool) -> Wake {
        let is_down = self.link.is_none();
        if is_down && self.connecting.is_none() && !self.sessions.is_empty() {
            self.connect();
        }
        tokio::select! {
            biased;
            count = self.inbox.recv_many(orders, ORDERS_AT_ONCE), if !is_gone => Wake::Orders(count),
            joined = async { self.connecting.as_mut().expect("guarded").await }, if self.connecting.is_some() => {
                Wake::Linked(joined.unwrap_or_else(|error| Err(Status::unavailable(error.to_string()))))
            }
            message = async { self.link.as_mut().expect("guarded").events.message().await }, if !is_down => {
                Wake::Event(message)
            }
            () = tokio::time::sleep_until(self.wake_at) => Wake::Time,
        }
    }

    fn connect(&mut self) {
        let options = Arc::clone(&self.options);
        let count = options.endpoints.len();
        // The one that was silent comes last.
        if self.failures == 0 && self.silent.as_ref() == Some(&options.endpoints[self.next_endpoint % count])
        {
            self.next_endpoint += 1;
        }
        let address = options.endpoints[self.next_endpoint % count].clone();
        self.next_endpoint += 1;
        let rounds = u32::try_from(self.failures / count).unwrap_or(u32::MAX).min(8);
        let limit = (self.patience_with_silence() * 2_u32.pow(rounds)).min(options.connect_timeout + WELCOME);
        let silent = self.silent.clone();
        let pause = self.backoff;
        let is_first = self.backoff == BACKOFF_FIRST;
        self.backoff = (self.backoff * 2).min(BACKOFF_LAST);
        self.connecting = Some(tokio::spawn(async move {
            if !is_first {
                tokio::time::sleep(pause).await;
            }
            Link::open(&options, &address, limit, silent.as_deref()).await
        }));
    }

    fn on_linked(&mut self, result: Result<Link, Status>) {
        self.connecting = None;
        match result {
            Err(status) => {
                self.failures += 1;
                status.message().clone_into(&mut self.down_why);
            }
            Ok(link) => {
                self.failures = 0;
                self.link = Some(link);
                self.backoff = BACKOFF_FIRST;
                self.say_everything_again();
            }
        }
    }

    /// On a new connection every session makes itself known, but for those that are to run out: it would be to live on.
    fn say_everything_again(&mut self) {
        let now = Instant::now();
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
        self.link = None;
        self.asked_since = None;
        self.down_since = Instant::now();
        self.wake_at = self.wake_at.min(self.down_since + LOOK_EVERY);
    }

    fn on_orders(&mut self, orders: &mut Vec<Order>) {
        if self.link.is_none() && self.sessions.is_empty() {
            self.down_since = Instant::now();
        }
        let now = Instant::now();
        let mut commands = Vec::with_capacity(orders.len());
        for order in orders.drain(..) {
            let Some((session, request)) = self.on_order(order, now) else { continue };
            if self.link.is_some() {
                commands
                    .extend(self.sessions.get_mut(&session).and_then(|entry| entry.command(request, now)));
            }
        }
        self.send(commands);
    }

    /// Takes an order up; gives the request to be sent for it.
    fn on_order(&mut self, order: Order, now: Instant) -> Option<(u64, u64)> {
        match order {
            Order::Open { shared, open, answer } => {
                let id = shared.id;
                let mut entry = Entry {
                    shared,
                    open: open.clone(),
                    // The upper half says which life speaks.
                    next_request: ((open.life >> 32) << 32) | 1,
                    pending: BTreeMap::new(),
                    last_sent: now,
                    is_known: true,
                };
                let request = entry.number(Act::Open(open), 0, answer);
                self.wake_at = self.wake_at.min(entry.renew_at());
                self.sessions.insert(id, entry);
                Some((id, request))
            }
            Order::Ask { session, act, ticket, answer } => match self.sessions.get_mut(&session) {
                Some(entry) => Some((session, entry.number(act, ticket, answer))),
                None => {
                    answer.fail(Error::SessionOver("it was closed or lost before".to_owned()));
                    None
                }
            },
            Order::Abandon { session, ticket } => {
                let entry = self.sessions.get_mut(&session)?;
                let (request, pending) =
                    entry.pending.iter_mut().find(|(_, pending)| pending.ticket == ticket)?;
                pending.answer = Answer::Nobody;
                let cancel = Act::Cancel(v1::Cancel { request: *request });
                Some((session, entry.number(cancel, 0, Answer::Nobody)))
            }
        }
    }

    fn send(&mut self, commands: Vec<v1::Command>) {
        if commands.is_empty() {
            return;
        }
        let Some(link) = &self.link else { return };
        if parcels(commands).into_iter().any(|parcel| link.out.send(parcel).is_err()) {
            self.on_broken("the connection was closed");
            return;
        }
        let now = Instant::now();
        self.asked_since.get_or_insert(now);
        self.wake_at = self.wake_at.min(now + self.patience_with_silence());
    }

    fn patience_with_silence(&self) -> Duration {
        let shortest = self.sessions.values().map(|entry| entry.shared.ttl / 3).min();
        shortest.unwrap_or(SILENCE).clamp(SILENCE_LEAST, SILENCE)
    }

    fn on_message(&mut self, message: v1::ToClient) {
        self.asked_since = None;
        self.silent = None;
        for event in message.events {
            match event.told {
                Some(Told::Reply(v1::Reply { request, reply: Some(reply) })) => {
                    self.on_reply(event.session, request, reply);
                }
                Some(Told::Contended(v1::Contended { token, name })) => {
                    if let Some(entry) = self.sessions.get(&event.session) {
                        entry.shared.contended(token, &name);
                    }
                }
                Some(Told::Lost(v1::Lost { token, why })) => {
                    if let Some(entry) = self.sessions.get(&event.session) {
                        entry.shared.lose(token, &why);
                    }
                }
                Some(Told::Ended(v1::Ended { why })) => self.end(event.session, &why),
                // A newer server may say more than this client understands.
                Some(Told::Reply(_)) | None => {}
            }
        }
    }

    fn on_reply(&mut self, session: u64, request: u64, reply: Reply) {
        let Some(entry) = self.sessions.get_mut(&session) else { return };
        let Some(pending) = entry.pending.get(&request) else { return };
        if let Reply::Failed(failed) = &reply {
            let is_opening = matches!(pending.act, Act::Open(_));
            if is_opening || failed.code() == Code::NoSession {
                self.refuse_session(session, is_opening.then_some(request), failed);
                return;
            }
        }
        if let Some(sent) = pending.first_sent {
            entry.shared.renewed(sent);
        }
        if let Reply::Queued(queued) = &reply {
            if let Answer::Grant(_, Some(to)) = &pending.answer {
                let _ = to.send(queued.ahead);
            }
            return;
        }
        let Some(pending) = entry.pending.remove(&request) else { return };
        if let Reply::Opened(opened) = &reply {
            let undecided: Vec<u64> = entry.converting().collect();
            entry.shared.reconcile(&opened.held, &undecided);
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
        if let Some(pending) = opening.and_then(|request| entry.pending.remove(&request)) {
            pending.answer.fail(Error::Refused(Failure::from(failed.clone())));
        }
        self.end(session, &failed.text);
    }

    fn end(&mut self, session: u64, why: &str) {
        let Some(entry) = self.sessions.remove(&session) else { return };
        entry.shared.end(why);
        for pending in entry.pending.into_values() {
            pending.answer.fail(Error::SessionOver(why.to_owned()));
        }
    }

    fn on_time(&mut self) {
        let now = Instant::now();
        self.give_up_unsafe(now);
        let silent_until = self.asked_since.map(|since| since + self.patience_with_silence());
        if silent_until.is_some_and(|until| now >= until) {
            self.silent = self.link.as_ref().map(|link| link.address.clone());
            self.on_broken("the node does not answer");
        }
        if self.link.is_some() {
            self.renew(now);
        } else if now >= self.down_since + self.options.patience {
            self.give_up_waiting();
        }
        let next = self.sessions.values().map(|entry| entry.next_look().max(now)).min();
        let look_again = now + LOOK_EVERY;
        self.wake_at = match next {
            Some(next) if self.link.is_some() => {
                let silent_until = self.asked_since.map(|since| since + self.patience_with_silence());
                silent_until.map_or(next, |until| until.min(next))
            }
            Some(next) => next.min(look_again).max(now + Duration::from_millis(1)),
            None => now + Duration::from_secs(3600),
        };
    }

    /// Ends the sessions that the service may end from now on.
    fn give_up_unsafe(&mut self, now: Instant) {
        let over: Vec<u64> = self
            .sessions
            .iter()
            .filter(|(_, entry)| entry.shared.is_open() && now >= entry.shared.safe_until())
            .map(|(id, _)| *id)
            .collect();
        let mut farewells = Vec::new();
        for id in over {
            if let Some(entry) = self.sessions.get_mut(&id) {
                let request = entry.number(Act::Close(v1::Close {}), 0, Answer::Nobody);
                farewells.extend(entry.command(request, now));
            }
            let why = format!("it could not be renewed in time ({})", self.down_why);
            self.end(id, &why);
        }
        self.send(farewells);
    }

    fn renew(&mut self, now: Instant) {
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

    /// There has been no connection for too long: nobody is left waiting for an answer. What was asked stays asked, but
    /// for acquisitions, which are cancelled when there is a connection again.
    fn give_up_waiting(&mut self) {
        let why = Error::Unavailable(self.down_why.clone());
        for entry in self.sessions.values_mut() {
            let mut cancelled = Vec::new();
            for (request, pending) in &mut entry.pending {
                let answer = std::mem::replace(&mut pending.answer, Answer::Nobody);
                if matches!(answer, Answer::Grant(..)) {
                    cancelled.push(*request);
                }
                answer.fail(why.clone());
            }
            for request in cancelled {
                entry.number(Act::Cancel(v1::Cancel { request }), 0, Answer::Nobody);
            }
        }
        // A session that was never opened is of no use to anybody.
        self.sessions.retain(|_, entry| entry.shared.is_open());
    }
}

/// Gives a final answer to whoever waits for it.
fn settle(entry: &Entry, pending: Pending, reply: Reply) {
    let shared = &entry.shared;
    if let Act::Convert(convert) = &pending.act {
        settle_conversion(shared, convert, &reply);
    }
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
            drop(to.send(Err(Error::Protocol(format!("{other:?} for an acquisition")))));
        }
        (Answer::Nobody, _) => {}
    }
}

/// What was held under one token is held under another from now on, whether anybody waits for that or not.
fn settle_conversion(shared: &Shared, convert: &v1::Convert, reply: &Reply) {
    match reply {
        Reply::Granted(granted) if !shared.rename(convert.token, granted.token) => {
            // The guard was dropped meanwhile, and released what it knew of.
            shared.tell(Act::Release(v1::Release { token: granted.token }));
        }
        Reply::Failed(failed) if failed.code() == Code::NotHeld => shared.lose(convert.token, &failed.text),
        _ => {}
    }
}
