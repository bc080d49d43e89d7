//! The state, and how a batch changes it.
//!
//! # The model
//!
//! *Sessions* ask for *names*. What is granted together is a *grant*: some names, each held in a mode, under one token.
//! What cannot be granted at once is a *wait*: it stands in the queue of every name that it wants, at a rank.
//!
//! ```text
//! session --asks--> wait --nobody before it, all holders compatible--> grant --released, lost, forced--> history
//!                    \--cancelled, too late, session ended-->
//! ```
//!
//! Whenever the holders or the queue of a name change, the head of that queue is looked at, and granted if it is at the
//! head of *all* its queues and goes with the holders of all its names. So sharers at the head are granted together, a
//! writer is never overtaken by sharers that came later, and a release wakes exactly those who can go.
//!
//! # Several names at once cannot deadlock
//!
//! The rank (priority, then arrival) is the same in every queue. Among all who wait and hold nothing, the one of the
//! lowest rank is at the head of all its queues, hence waits for holders only; once these are done, it goes. Nobody takes
//! some of its names and waits for the rest. A cycle needs somebody who holds one thing and then asks for another; that
//! is what the search in `cycle` is for, and it is made before such a request is queued.
//!
//! # Time
//!
//! A batch brings its time. Its commands act first, and then everything whose time has come ends, all of it together. So
//! a renewal that became durable in the very batch that would have ended its session comes in time, a request is judged
//! by what was true when it became durable, and what one dead session held does not pass through the hands of another
//! that dies in the same moment. Time only comes with batches: without a leader nothing expires.
//!
//! # Tokens
//!
//! One counter serves all names, so tokens grow for every name, also for one that had been forgotten. A batch can raise it:
//! each leader begins above a number that grows with the time of day, so that tokens do not start over where the state
//! does. The time comes with the batch, a wrong one only costs numbers, and none lowers the counter. A re-entrant grant
//! keeps its token. A stronger mode takes a new one, for all names of the grant: a resource that has seen a writer's
//! token must not take a later writer for the reader it was before. A weaker mode keeps the token, since whoever could
//! write may read. `check` calls a token *held* while its grant lasts, be there newer ones of other sharers or not.
//!
//! # Once and only once
//!
//! A session remembers the last reply to each request until its client acknowledges it, and knows which requests wait. A
//! request that arrives again is answered from there. When another run of the client opens the session, it keeps what is
//! held but forgets requests and replies: the new run numbers its own, and could not make sense of the old ones. A later
//! run has a greater number, so that whatever comes from one before the present is known to be old.
//!
//! Most replies are acknowledged together: the client has a reply to everything below a number. A request that had to wait
//! gets its last reply at any time later, so that reply is acknowledged by its own number. Otherwise one long wait would
//! keep every later reply in memory, until there is no room to release or cancel anything.
//! What can be done twice without harm (renewing, cancelling, opening) is not remembered at all.
//!
//! # Caveats
//!
//! - A client that opens a session which another run of it still uses takes it over: the former run is refused from then
//!   on, as if the session were gone.
//! - A late copy of an `Open` can bring back a session that was closed. It holds nothing and expires.
//! - A re-entrant request is one that a single grant of its strand covers entirely. Where only a part is held, the request
//!   is like any other, and what its own strand holds is in its way.
//! - When a grant is strengthened, all who use it must go over to the new token. The former one is good for releases only,
//!   and only until the next time: a release that was sent before the answer gives back what it meant.
//! - A strand is taken to need what it asked for *after* a grant before it releases that grant. What it asked for before
//!   does not count, so that one may ask for many things at a time; if it needs them all, it should ask for them together.
//! - A lock delay is a matter of the name: the longest of those who hold it together counts, whichever of them is lost, and
//!   nobody gets the name meanwhile, not even another sharer. A release by force begins none.
//! - Holders are told that somebody waits when a request in whose way they are arrives or comes to the head of its queue.

mod acquire;
mod cycle;
mod fault;
mod grant;
mod invariants;
mod names;
mod session;
mod turn;
mod views;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

#[cfg(not(feature = "faults"))]
use self::fault::Fault;
#[cfg(feature = "faults")]
pub use self::fault::Fault;
use self::grant::{Grant, Waiting};
use self::names::{Arrival, NameKey, Names};
use self::session::Session;
use self::turn::Turn;
pub use self::views::Picture;
use crate::command::{Batch, Millis, SessionId, Token};
use crate::reply::Outcome;

/// Everything that the service knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    now: Millis,
    /// Grants ever made.
    granted: u64,
    /// The last token, or what the next one has to be greater than.
    last_token: u64,
    /// Which cluster this is: the floor of the first batch that had one, which is the time at which the first leader began.
    founded: u64,
    /// Requests that ever had to find their place among others: the last arrival.
    arrivals: u64,
    sessions: BTreeMap<SessionId, Session>,
    /// How many bytes the sessions account for together.
    bytes: usize,
    names: Names,
    grants: BTreeMap<Token, Grant>,
    waits: BTreeMap<Arrival, Waiting>,
    /// When each session may end, at the earliest.
    expiries: BTreeSet<(Millis, SessionId)>,
    /// When requests that wait give up.
    limits: BTreeSet<(Millis, Arrival)>,
    /// When names open again whose holder was lost.
    delays: BTreeSet<(Millis, NameKey)>,
    #[cfg(feature = "faults")]
    fault: Option<Fault>,
}

/// How many renewed sessions at most are put back to their new place with every batch, so that the next deadline is
/// near the truth while little happens, and costs little while much does.
const REQUEUED_PER_BATCH: usize = 4;

impl State {
    /// Applies one batch; the same batches in the same order give the same states and outcomes everywhere.
    pub fn apply(&mut self, batch: &Batch, out: &mut Outcome) {
        self.now = self.now.max(batch.now);
        self.raise_tokens(batch.floor);
        out.messages.clear();
        out.changed.clear();
        out.leaders.clear();
        let mut turn = Turn::new(self, out);
        turn.pass_time(&batch.commands);
        for command in &batch.commands {
            turn.command(command);
        }
        turn.pass_time(&[]);
        self.requeue_renewed();
        out.changed.sort_unstable();
        out.changed.dedup();
    }

    /// A floor that is too high is ignored: the clock that it comes from must be wrong, and tokens would run out.
    fn raise_tokens(&mut self, floor: u64) {
        if self.founded == 0 && floor <= Token::HIGHEST_FLOOR {
            self.founded = floor;
        }
        if floor <= Token::HIGHEST_FLOOR && (floor > self.last_token || self.suffers(Fault::LowerTokens)) {
            self.last_token = floor;
        }
    }

    /// Which cluster this is; 0 until its first leader has said so. It is the time of day at which that one began, to a
    /// microsecond, so that no two clusters have the same.
    #[must_use]
    pub fn founded(&self) -> u64 {
        self.founded
    }

    /// The service time of the last batch.
    #[must_use]
    pub fn now(&self) -> Millis {
        self.now
    }

    /// How many bytes of text and values there are.
    fn bytes(&self) -> usize {
        self.bytes + self.names.bytes()
    }

    /// Changes a session, and counts what that changes in its bytes.
    fn change_session<T>(&mut self, id: SessionId, change: impl FnOnce(&mut Session) -> T) -> Option<T> {
        let session = self.sessions.get_mut(&id)?;
        let before = session.bytes;
        let changed = change(session);
        self.bytes = self.bytes - before + session.bytes;
        Some(changed)
    }

    /// When the next session, wait or lock delay ends by itself, if nothing else happens: a leader need not look before.
    /// It may be early, because a session that has just been renewed is not put to its new place at once.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Millis> {
        let sessions = self.expiries.first().map(|(at, _)| *at);
        let limits = self.limits.first().map(|(at, _)| *at);
        let delays = self.delays.first().map(|(at, _)| *at);
        [sessions, limits, delays].into_iter().flatten().min()
    }

    fn requeue_renewed(&mut self) {
        for _ in 0..REQUEUED_PER_BATCH {
            let Some(&(queued_for, id)) = self.expiries.first() else { return };
            let Some(session) = self.sessions.get_mut(&id).filter(|session| session.deadline > queued_for)
            else {
                return;
            };
            session.queued_for = session.deadline;
            self.expiries.pop_first();
            self.expiries.insert((session.deadline, id));
        }
    }

    /// A request whose time to wait is over.
    fn due_limit(&self) -> Option<Arrival> {
        self.limits.first().filter(|(at, _)| *at <= self.now).map(|(_, arrival)| *arrival)
    }

    /// Opens a name whose lock delay is over.
    fn end_delay(&mut self) -> Option<NameKey> {
        let (at, key) = *self.delays.first().filter(|(at, _)| *at <= self.now)?;
        self.delays.remove(&(at, key));
        self.names[key].delayed_until = 0;
        Some(key)
    }
}
