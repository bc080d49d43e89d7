//! What can be read of the service without changing it. Times are ages in milliseconds of service time.

use std::sync::Arc;

use crate::command::{Life, Millis, Mode, Name, Owner, RequestId, SessionId, Token};
use crate::reply::Wait;

/// A place in the queue of a name: whoever reads a long queue in pieces goes on behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueuePlace {
    /// The rank among those who wait.
    pub rank: i64,
    /// The order of arrival among those of the same rank.
    pub arrival: u64,
}

/// One line of a list of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Which.
    pub name: Name,
    /// Whether it is led rather than locked.
    pub is_election: bool,
    /// How many hold it.
    pub holders: u32,
    /// How many wait for it.
    pub waiters: u32,
    /// The longest of those who hold it.
    pub first: Option<HolderView>,
    /// The newest token granted.
    pub newest: Option<Token>,
    /// How long nobody gets it, because its holder was lost.
    pub delayed_for: Option<Millis>,
}

/// Everything about a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameView {
    /// The line of the list.
    pub summary: Summary,
    /// Who hold it, oldest first.
    pub holders: Vec<HolderView>,
    /// Who wait for it, the next one first.
    pub queue: Vec<WaiterView>,
    /// The last who held it, newest first.
    pub history: Vec<PastView>,
    /// What the leader shows.
    pub value: Option<Arc<[u8]>>,
    /// How long nobody gets it, because its holder was lost.
    pub delayed_for: Option<Millis>,
}

/// One who holds a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderView {
    /// Its session.
    pub session: SessionId,
    /// Who that is.
    pub owner: Owner,
    /// The grant.
    pub token: Token,
    /// How it holds it.
    pub mode: Mode,
    /// How often, if re-entrant.
    pub depth: u32,
    /// Since when.
    pub held_for: Millis,
    /// How long its session lives without another word.
    pub expires_in: Millis,
}

/// One who waits for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaiterView {
    /// Its session.
    pub session: SessionId,
    /// Who that is.
    pub owner: Owner,
    /// Its request.
    pub request: RequestId,
    /// How it wants to hold it.
    pub mode: Mode,
    /// Its priority.
    pub priority: i32,
    /// Since when.
    pub waited_for: Millis,
    /// When it stops waiting.
    pub gives_up_in: Option<Millis>,
    /// The names it wants, all together.
    pub names: Vec<Name>,
}

/// One who held a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastView {
    /// Its session.
    pub session: SessionId,
    /// Who that was.
    pub owner: Owner,
    /// The grant.
    pub token: Token,
    /// How long it held it.
    pub held_for: Millis,
    /// How long ago that ended.
    pub ended: Millis,
    /// How it ended.
    pub how: Arc<str>,
}

/// One step of a chain of waiting, and who is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Who waits for what, behind whom.
    pub wait: Wait,
    /// The owner of the session that is in the way.
    pub behind: Owner,
    /// How long that one has held the name, or waited for it.
    pub since: Millis,
    /// Its token, if it holds the name.
    pub token: Option<Token>,
}

/// Everything about a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// Which.
    pub session: SessionId,
    /// Whose.
    pub owner: Owner,
    /// Which run of its client uses it.
    pub life: Life,
    /// Its time to live.
    pub ttl_ms: u32,
    /// How much of that is left.
    pub expires_in: Millis,
    /// What it holds.
    pub held: Vec<crate::reply::Held>,
    /// What it waits for.
    pub waiting: Vec<(RequestId, Vec<Name>)>,
}

/// What a token is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It holds the name now.
    Held,
    /// It was granted, nothing newer was, but it is no longer held.
    Released,
    /// Something newer was granted: whoever shows this token comes too late.
    Stale {
        /// The newest.
        newest: Token,
    },
    /// No such token was granted for that name, as far as is remembered.
    Unknown,
}

/// How much there is of everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Sessions.
    pub sessions: u64,
    /// Names in use or remembered.
    pub names: u64,
    /// Grants held.
    pub held: u64,
    /// Requests that wait.
    pub waiting: u64,
    /// Grants ever made.
    pub grants: u64,
}

/// One line of a list of sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionLine {
    /// Which.
    pub session: SessionId,
    /// Whose.
    pub owner: Owner,
    /// Its time to live.
    pub ttl_ms: u32,
    /// How much of that is left.
    pub expires_in: Millis,
    /// How many grants it holds.
    pub held: u64,
    /// How many of its requests wait.
    pub waiting: u64,
}
