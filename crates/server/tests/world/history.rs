//! What happened in a world, as its clients saw it.
//!
//! Times are microseconds of simulated time, the same for everybody. Two things at the same time may have happened in
//! either order, so checks compare strictly.

use std::hash::Hasher as _;

use conclave_client::{Code, Mode};
use conclave_service::State;

pub type Micros = u64;

/// Everything that happened.
#[derive(Default)]
pub struct History {
    pub asked: Vec<Asked>,
    pub holds: Vec<Hold>,
    pub conversions: Vec<Conversion>,
    pub forces: Vec<Force>,
    pub reads: Vec<Read>,
    pub seen: Vec<Seen>,
    /// Sessions to which the lead was to be handed over.
    pub heirs: Vec<u64>,
    /// Terms that their leaders handed over, as they were told.
    pub handed: Vec<Handed>,
    /// Damage on a disk with which a node went on.
    pub overlooked: Vec<(Micros, String)>,
    /// Sessions that were taken up again by another run of their client.
    pub resumed: Vec<u64>,
    /// Values of leaders that were read after others had been proclaimed.
    pub wrong_values: Vec<(Micros, String)>,
    /// Sessions that the service ended though they had been renewed.
    pub ended_early: Vec<(Micros, String)>,
    /// What watchers were told that they must not be.
    pub misled: Vec<(Micros, String)>,
    /// What was held longer than it was safe.
    pub outlived: Vec<(Micros, String)>,
    /// Holders that were found to have been told that somebody waits: which hold, and when that was seen.
    pub alarms: Vec<(usize, Micros)>,
    /// Until when nothing goes wrong at first.
    pub calm_until: Micros,
    pub lines: Vec<Line>,
}

/// For people, and for telling two runs apart.
#[derive(Clone, Debug)]
pub struct Line {
    pub at: Micros,
    pub who: String,
    pub what: String,
}

/// A request for names.
#[derive(Clone, Debug)]
pub struct Asked {
    pub client: usize,
    pub session: u64,
    pub wants: Vec<(String, Mode)>,
    pub priority: i32,
    pub is_reentrant: bool,
    /// How long it waits at most.
    pub limit: Option<Micros>,
    /// For how long nobody is to get it when its holder is lost.
    pub lock_delay: Micros,
    pub began: Micros,
    /// When it was told that it stands in a queue.
    pub queued: Option<Micros>,
    pub ended: Option<Micros>,
    pub outcome: Option<Outcome>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Granted(u64),
    /// Nothing was granted, and nothing will be.
    Refused(Code),
    /// The client does not know: it stopped waiting, or its session ended, or it vanished.
    Unknown(&'static str),
}

/// The belief of a client that it holds a name.
#[derive(Clone, Debug)]
pub struct Hold {
    /// The request that was granted.
    pub request: usize,
    pub client: usize,
    pub session: u64,
    pub name: String,
    /// All names that were granted together: whoever takes one of them by force takes them all.
    pub together: Vec<String>,
    pub mode: Mode,
    pub token: u64,
    /// Its session ends with its connection, which the service may notice before the client does.
    pub is_fragile: bool,
    /// When it was asked for, at the earliest.
    pub asked: Micros,
    pub since: Micros,
    pub until: Option<Micros>,
    pub end: Option<End>,
    /// What the client was told of its loss, or when it wanted to release it.
    pub why_lost: Option<String>,
    /// When the service confirmed that it is released.
    pub gone: Option<Micros>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client began to release it.
    Released,
    /// The client was told, or knew by itself, that it may be lost.
    Lost,
    /// The client is no more.
    Vanished,
    /// It is held in another mode from then on.
    Converted,
}

/// A request to hold a name in another mode.
#[derive(Clone, Debug)]
pub struct Conversion {
    /// The token before.
    pub token: u64,
    /// Whether its client knows what came of it.
    pub is_answered: bool,
    pub is_refused: bool,
    /// It lets go of something, which is no grant.
    pub is_weaker: bool,
}

/// A term that was handed over.
#[derive(Clone, Debug)]
pub struct Handed {
    pub name: String,
    pub term: u64,
    /// The session that is to lead next.
    pub heir: u64,
    pub at: Micros,
}

/// A request to take a name from its holders.
#[derive(Clone, Debug)]
pub struct Force {
    pub name: String,
    pub began: Micros,
    pub ended: Option<Micros>,
    /// It took nothing.
    pub is_refused: bool,
}

/// A look at a name.
#[derive(Clone, Debug)]
pub struct Read {
    pub name: String,
    pub began: Micros,
    pub ended: Micros,
    pub found: Found,
}

#[derive(Clone, Debug)]
pub enum Found {
    /// Tokens of those who hold it, and the newest.
    Holders { tokens: Vec<u64>, newest: u64 },
    /// What a token is worth.
    Standing { token: u64, is_held: bool, is_known: bool },
}

/// What an observer of an election saw.
#[derive(Clone, Debug)]
pub struct Seen {
    pub observer: usize,
    pub name: String,
    pub at: Micros,
    pub term: Option<u64>,
}

/// What there is at one moment at the end of a world.
pub struct Quiet {
    /// What each client that lives holds: session, tokens.
    pub believed: Vec<(u64, Vec<u64>)>,
    /// The state of each node.
    pub states: Vec<(u64, State)>,
}

impl History {
    pub fn note(&mut self, at: Micros, who: impl Into<String>, what: impl Into<String>) {
        self.lines.push(Line { at, who: who.into(), what: what.into() });
    }

    /// A number that two histories share only if they are the same.
    pub fn digest(&self) -> String {
        let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
        for line in &self.lines {
            hasher.write(format!("{} {} {}\n", line.at, line.who, line.what).as_bytes());
        }
        format!("{:016x}", hasher.finish())
    }

    /// What happened around a moment.
    pub fn around(&self, at: Micros, span: Micros) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(move |line| line.at.abs_diff(at) <= span)
    }

    /// When a name that this request was granted was asked for, at the earliest. What is granted to a session once more
    /// has the token of the first grant, which may be one of which the client never heard.
    pub fn asked_first(&self, request: usize, name: &str) -> Micros {
        let granted = &self.asked[request];
        let is_first = |earlier: &&Asked| {
            granted.is_reentrant
                && earlier.session == granted.session
                && earlier.wants.iter().any(|(wanted, _)| wanted == name)
                && matches!(earlier.outcome, None | Some(Outcome::Unknown(_)))
        };
        self.asked[..request].iter().find(is_first).map_or(granted.began, |earlier| earlier.began)
    }

    /// What was held of a name.
    pub fn holds_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Hold> {
        self.holds.iter().filter(move |hold| hold.name == name)
    }

    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.holds.iter().map(|hold| hold.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl Hold {
    /// Until when its client believes in it.
    pub fn last(&self) -> Micros {
        self.until.unwrap_or(Micros::MAX)
    }

    /// Whether it may have been taken while its client believed in it, before a moment.
    pub fn may_be_taken(&self, forces: &[Force], before: Micros) -> bool {
        self.is_fragile || self.may_be_forced(forces, before)
    }

    fn may_be_forced(&self, forces: &[Force], before: Micros) -> bool {
        forces.iter().any(|force| {
            !force.is_refused
                && self.together.contains(&force.name)
                && force.began < before
                && force.ended.is_none_or(|ended| ended >= self.asked)
        })
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>9.3} ms  {:<8} {}", self.at as f64 / 1000.0, self.who, self.what)
    }
}

/// FNV-1a: small, and the same everywhere.
struct Fnv(u64);

impl std::hash::Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
