//! What can be asked of the service.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds of service time: what leaders stamp into batches. It never goes back, and stands still while there is
/// no leader, so that a change of leader can lengthen a lease but not shorten it.
pub type Millis = u64;

/// A client's session, named by a random number of the client's own choice, so that opening one twice is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId(pub u64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// One run of a client that uses a session. Requests are numbered within a life. A run that takes the session over from
/// another has a greater number than that one; the rest of the number is random, so that no two runs have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Life(pub u64);

impl Life {
    /// The part of the number that grows: how many runs took the session over, one from the other.
    #[must_use]
    pub fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A request's number within its session and life, from 1. A client sends a request again under the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// A fencing token: greater than that of every earlier grant of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Token(pub u64);

impl Token {
    /// The highest number to which a batch can raise the counter of tokens. As many follow before they are too large for
    /// a JSON number, which is exact below 2^53.
    pub const HIGHEST_FLOOR: u64 = 1 << 52;

    /// Above which number tokens begin at this time of day: 2^20 for each second since 1970. A service that begins again,
    /// or from an old copy, goes on above its former tokens, unless it granted more than that per second or its clock
    /// is behind. Nothing if the time is too far off (2106 is not, 2242 is).
    #[must_use]
    pub fn floor_at(since_1970: Duration) -> Option<u64> {
        let floor = (since_1970.as_nanos() << 20) / 1_000_000_000;
        u64::try_from(floor).ok().filter(|floor| *floor <= Self::HIGHEST_FLOOR)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What is locked or led.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Name(pub Arc<str>);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

/// One entry of the log: commands that became durable together, and the time at which they take effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The service time, stamped by the leader that proposed it. What should end by then ends after the commands, so
    /// that a renewal in the same batch comes in time.
    pub now: Millis,
    /// In the order in which they take effect.
    pub commands: Vec<Command>,
    /// Tokens granted from now on are greater than this. The first batch of each leader brings what the time of day says
    /// ([`Token::floor_at`]), others bring 0. It never lowers anything.
    pub floor: u64,
}

/// One request of one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Whose.
    pub session: SessionId,
    /// Which run of the client asks: what an earlier run still says must not be taken for a request of this one.
    pub life: Life,
    /// Its number; the same number again gets the same reply and does nothing.
    pub request: RequestId,
    /// The client has a reply to every request below this one: the final one, or the news that the request waits. At
    /// most `request`. Final replies below it are forgotten, except those to requests that had to wait.
    pub acked: RequestId,
    /// Requests below `acked` that had to wait, and whose final reply the client has: these are acknowledged one by one,
    /// so that a long wait keeps nothing but its own reply in memory.
    pub settled: Vec<RequestId>,
    /// What is asked.
    pub act: Act,
}

/// What a session asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// Begin the session, or take it up again: the reply tells what it holds. A life greater than the session's takes
    /// the session over, with what it holds and without what it waits for; a lesser one is refused.
    Open {
        /// How long it lives without a word from its client.
        ttl_ms: u32,
        /// Who that is.
        owner: Owner,
        /// Whether it ends when the connection of its client does.
        ends_with_connection: bool,
        /// Whether this life has opened the session before, on another connection. Then the session must still be
        /// there: a client that lost it must not be given an empty one under the same number.
        reopens: bool,
    },
    /// Live on for another time to live. Every other request of the session does the same.
    Renew,
    /// End the session: whatever it holds is released, whatever it waits for is cancelled.
    Close,
    /// Take all of the names, or none.
    Acquire(Acquire),
    /// Stop waiting: the request of this number is answered with `Cancelled`, unless it has been answered already.
    Cancel(RequestId),
    /// Give back what was granted with this token.
    Release(Token),
    /// Hold a name in another mode: weaker at once, stronger as soon as nobody else is in the way, ahead of all who
    /// wait. Until then it is held as before.
    Convert {
        /// The grant.
        token: Token,
        /// One of its names.
        name: Name,
        /// How to hold it from now on.
        mode: Mode,
        /// How long to wait for that.
        patience: Patience,
    },
    /// Change the value that a leader shows.
    Proclaim {
        /// The term.
        token: Token,
        /// What observers see from now on.
        value: Arc<[u8]>,
    },
    /// Resign in favour of a candidate that waits.
    Transfer {
        /// The term.
        token: Token,
        /// The candidate.
        to: SessionId,
    },
    /// Take a name from whoever holds it.
    Force {
        /// What to take.
        name: Name,
        /// From this holder only; from all where none is given.
        token: Option<Token>,
        /// Why, for the one who loses it and for the history.
        reason: Arc<str>,
    },
    /// The leader noticed that the session's connection ended. Only the server says this, under request 0.
    Disconnected,
    /// End another session: whatever it holds is taken from it, whatever it waits for is cancelled.
    End {
        /// Which.
        session: SessionId,
        /// Why, for its client and for the history.
        reason: Arc<str>,
    },
}

/// Everything about an acquisition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acquire {
    /// What, and how to hold each; no name twice.
    pub wants: Vec<Want>,
    /// How long to wait.
    pub patience: Patience,
    /// Greater goes first; equals go in the order of arrival.
    pub priority: i32,
    /// Whether what this strand holds already counts as granted, once more: it is released as often as granted.
    pub reentrant: bool,
    /// Which of the session's independent owners asks. A strand that waits for what another strand of the same session
    /// holds is a wait like any other, and only what one strand both holds and waits for can close a cycle.
    pub strand: u32,
    /// What kind of thing the names are.
    pub purpose: Purpose,
    /// After its holder was lost rather than released it, nobody gets a name for so long. The longest of those who hold it
    /// together counts.
    pub lock_delay_ms: u32,
}

/// One name of an acquisition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    /// What.
    pub name: Name,
    /// How.
    pub mode: Mode,
}

/// How a name is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// Alone.
    Exclusive,
    /// With any number of others who share.
    Shared,
    /// A number of permits, as long as all holders together have no more than the limit.
    Permits {
        /// How many.
        count: u32,
        /// Of how many; all who use a name at one time agree on it.
        limit: u32,
    },
}

/// How long an acquisition waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Patience {
    /// Not at all.
    Try,
    /// No longer than this.
    Millis(u32),
    /// As long as it takes.
    Forever,
}

/// What a name is used for. All who use it at one time agree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// To exclude others.
    Lock,
    /// To lead them: the token is the term, and the value is shown to whoever observes.
    Election {
        /// What the candidate will show as leader.
        value: Arc<[u8]>,
    },
}

/// Who a session belongs to, in its own words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Name of the machine.
    pub host: Arc<str>,
    /// Number of the process there.
    pub pid: u32,
    /// Name of the user there.
    pub user: Arc<str>,
    /// What it is, for people.
    pub label: Arc<str>,
}
