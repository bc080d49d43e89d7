//! What the service answers and tells.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::command::{Life, Mode, Name, Owner, RequestId, SessionId, Token};

/// What one batch caused, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What is to be told to sessions.
    pub messages: Vec<Message>,
    /// The names of which something changed that an observer can see: holders, value, queue. Sorted, none twice.
    pub changed: Vec<Name>,
    /// Changes of leaders, in order, vacancies included.
    pub leaders: Vec<LeaderChange>,
}

/// Something to be told to one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// To whom.
    pub to: SessionId,
    /// To which run of its client: another one must not take it for its own.
    pub life: Life,
    /// What.
    pub told: Told,
}

/// What a session can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The answer to one of its requests. `Queued` is followed by another one later; every other is the last.
    Reply {
        /// Which request.
        request: RequestId,
        /// What is answered.
        reply: Reply,
        /// Whether the request renewed its session.
        renewed: bool,
        /// Whether the request had to wait: the reply is remembered until the client names the request as settled.
        waited: bool,
    },
    /// Something it did not ask for.
    Notice(Notice),
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The session is open.
    Opened {
        /// It existed already.
        resumed: bool,
        /// The grants that it holds, in ascending order: some only if it existed.
        held: Vec<Token>,
    },
    /// It is done.
    Done,
    /// It waits, behind so many others in the longest of its queues.
    Queued {
        /// How many go before it.
        ahead: u32,
    },
    /// All names are held now, under one token.
    Granted {
        /// The fencing token, or the term.
        token: Token,
        /// How often this strand holds them: 1, unless re-entrant.
        depth: u32,
    },
    /// It did not happen, and nothing changed.
    Failed(Failure),
}

impl Reply {
    /// How many bytes of text and tokens there are in it.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Opened { held, .. } => size_of_val(held.as_slice()),
            Self::Done | Self::Queued { .. } | Self::Granted { .. } => 0,
            Self::Failed(failure) => failure.bytes(),
        }
    }
}

/// Why something did not happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Failure {
    /// It would have had to wait, and was not to.
    #[error("'{name}' is held by {}", describe(.holder))]
    Busy {
        /// The first name in the way.
        name: Name,
        /// One who holds it or goes first.
        holder: Option<(SessionId, Owner)>,
    },
    /// It waited as long as it was allowed to.
    #[error("not granted in the time allowed")]
    TimedOut,
    /// It was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// To wait would mean to wait for oneself.
    #[error("waiting would close a cycle: {}", Cycle(.0))]
    Deadlock(Vec<Wait>),
    /// There is no such session, or no longer.
    #[error("there is no such session (it was closed, taken over or expired)")]
    NoSession,
    /// The session holds nothing under that token.
    #[error("nothing is held under token {0}")]
    NotHeld(Token),
    /// The name is in use in a way that does not go with this one.
    #[error("'{name}' is in use as {used_as}")]
    Mismatch {
        /// Which.
        name: Name,
        /// As what.
        used_as: Arc<str>,
    },
    /// The one to be given the leadership does not wait for it.
    #[error("session {0} is no candidate")]
    NoCandidate(SessionId),
    /// The name is held by nobody.
    #[error("'{0}' is held by nobody")]
    Free(Name),
    /// A limit would be passed.
    #[error("limit reached: {0}")]
    Limit(Arc<str>),
    /// It makes no sense.
    #[error("{0}")]
    Invalid(Arc<str>),
    /// There is no session of that number to do something to.
    #[error("there is no session {0}")]
    NoSuchSession(SessionId),
}

/// One step of a chain of waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Who waits.
    pub session: SessionId,
    /// What it is called.
    pub owner: Owner,
    /// For what.
    pub name: Name,
    /// Who has it, or goes first.
    pub behind: SessionId,
    /// Whether that one has it, rather than waits for it too.
    pub holds: bool,
}

/// Something that a session holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Under which token.
    pub token: Token,
    /// What, and how.
    pub names: Vec<(Name, Mode)>,
    /// How often.
    pub depth: u32,
}

/// Something that a session is told without having asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Notice {
    /// Somebody waits for what it holds.
    Contended {
        /// The grant.
        token: Token,
        /// The name that is waited for.
        name: Name,
    },
    /// It no longer holds what was granted under this token.
    Lost {
        /// The grant.
        token: Token,
        /// Why.
        why: Arc<str>,
    },
    /// It has ended: it holds nothing and waits for nothing any more.
    Ended {
        /// Why.
        why: Arc<str>,
    },
}

/// A change of leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderChange {
    /// Of what.
    pub name: Name,
    /// Who leads now; nobody is a vacancy.
    pub leader: Option<Leader>,
}

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Its session.
    pub session: SessionId,
    /// Who that is.
    pub owner: Owner,
    /// The term, which is the fencing token.
    pub term: Token,
    /// What it shows.
    pub value: Arc<[u8]>,
}

impl Failure {
    fn bytes(&self) -> usize {
        match self {
            Self::Busy { name, holder } => {
                name.0.len() + holder.as_ref().map_or(0, |(_, owner)| owner.bytes())
            }
            Self::Deadlock(waits) => waits.iter().map(Wait::bytes).sum(),
            Self::Mismatch { name, used_as } => name.0.len() + used_as.len(),
            Self::Free(name) => name.0.len(),
            Self::Limit(text) | Self::Invalid(text) => text.len(),
            Self::TimedOut | Self::Cancelled | Self::NoSession => 0,
            Self::NotHeld(_) | Self::NoCandidate(_) | Self::NoSuchSession(_) => 0,
        }
    }
}

impl Wait {
    fn bytes(&self) -> usize {
        self.owner.bytes() + self.name.0.len()
    }
}

fn describe(holder: &Option<(SessionId, Owner)>) -> String {
    match holder {
        Some((session, owner)) => format!("{} (session {session})", owner.describe()),
        None => "nobody yet (its lock delay runs)".to_owned(),
    }
}

struct Cycle<'a>(&'a [Wait]);

impl std::fmt::Display for Cycle<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, wait) in self.0.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            let verb = if wait.holds { "held by" } else { "queued before it by" };
            write!(f, "{comma}{} waits for '{}', {verb} {}", wait.session, wait.name, wait.behind)?;
        }
        Ok(())
    }
}

impl Owner {
    /// How many bytes its texts have.
    pub(crate) fn bytes(&self) -> usize {
        self.host.len() + self.user.len() + self.label.len()
    }

    /// Who it is, in a few words.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut text = String::new();
        if !self.label.is_empty() {
            text.push_str(&self.label);
            text.push_str(", ");
        }
        if !self.user.is_empty() {
            text.push_str(&self.user);
            text.push('@');
        }
        text.push_str(if self.host.is_empty() { "unknown host" } else { &self.host });
        if self.pid > 0 {
            text.push_str(&format!(" pid {}", self.pid));
        }
        text
    }
}
