//! Scenarios as text: a line is a batch, a bar, and what must come of it.
//!
//! ```text
//! s1 open                 | s1#1 opened
//! s1 lock x               | s1#2 granted 1
//! s2 open & s2 lock x     | s2#1 opened; s1 contended 1 x; s2#2 queued 0
//! @3000                   | s1 ended: expired; ...
//! ```
//!
//! A session numbers its requests by itself; `s1#2 ...` sends that number. `ack=` and `settled=` acknowledge replies,
//! `life=` says which run of the client speaks: the one that opened the session last, if not said. A line that begins
//! with `//` is a remark.

#![allow(dead_code, reason = "not every file of tests needs all of it")]

use std::collections::BTreeMap;
use std::sync::Arc;

use conclave_service::{
    Acquire, Act, Batch, Command, Fault, LeaderChange, Life, Message, Millis, Mode, Name, Notice, Outcome,
    Owner, Patience, Purpose, Reply, RequestId, SessionId, State, Token, Told, Want,
};

/// A service, its clock, and how far each session has counted.
#[derive(Default)]
pub struct Desk {
    pub state: State,
    pub now: Millis,
    /// What every batch raises the counter of tokens to.
    pub floor: u64,
    requests: BTreeMap<u64, u64>,
    lives: BTreeMap<u64, u64>,
}

/// Runs a scenario against a fresh service.
pub fn play(script: &str) -> Desk {
    let mut desk = Desk::default();
    desk.play(script);
    desk
}

/// Makes sure that a scenario does not pass where the service is broken.
#[track_caller]
pub fn catches(script: &str, fault: Fault) {
    let compared = Desk::with(State::with_fault(fault)).compare(script);
    assert!(compared.is_err(), "nobody noticed {fault:?}");
}

impl Desk {
    /// A service that begins in this state.
    pub fn with(state: State) -> Self {
        Self { state, ..Self::default() }
    }

    /// Runs a scenario, and compares all of it at the end.
    #[track_caller]
    pub fn play(&mut self, script: &str) {
        if let Err(difference) = self.compare(script) {
            panic!("{difference}");
        }
    }

    /// The same; says what is different.
    pub fn compare(&mut self, script: &str) -> Result<(), String> {
        let mut wanted = Vec::new();
        let mut got = Vec::new();
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")) {
            let (batch, expected) = line.split_once('|').unwrap_or((line, ""));
            wanted.push(format!("{} | {}", batch.trim(), expected.trim()));
            got.push(format!("{} | {}", batch.trim(), self.batch(batch)));
        }
        if got == wanted {
            return Ok(());
        }
        Err(format!("\ngot:\n{}\nwanted:\n{}", got.join("\n"), wanted.join("\n")))
    }

    /// Applies one batch, and tells what came of it.
    pub fn batch(&mut self, text: &str) -> String {
        let mut text = text.trim();
        if let Some(rest) = text.strip_prefix('@') {
            let (now, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            self.now = now.parse().expect("a time");
            text = rest.trim();
        }
        let commands = text.split('&').map(str::trim).filter(|text| !text.is_empty());
        let commands = commands.map(|text| self.command(text)).collect();
        describe(&self.apply(commands))
    }

    pub fn apply(&mut self, commands: Vec<Command>) -> Outcome {
        let out = self.apply_unchecked(commands);
        self.state.assert_invariants();
        out
    }

    /// The same without a look at the whole state, where that is large.
    pub fn apply_unchecked(&mut self, commands: Vec<Command>) -> Outcome {
        let mut out = Outcome::default();
        self.state.apply(&Batch { now: self.now, commands, floor: self.floor }, &mut out);
        out
    }

    pub fn command(&mut self, text: &str) -> Command {
        let mut words = text.split_whitespace();
        let who = words.next().expect("a session");
        let (session, request) = who.split_once('#').unwrap_or((who, ""));
        let session = number(session);
        let words: Vec<&str> = words.collect();
        let acked = option(&words, "ack").unwrap_or(0);
        let settled = option::<String>(&words, "settled").unwrap_or_default();
        let settled = settled.split(',').filter_map(|number| number.parse().ok().map(RequestId)).collect();
        let (verb, rest) = words.split_first().expect("a verb");
        let life = self.life(session, verb, option(&words, "life"));
        let request = match (*verb, request) {
            ("gone", _) => 0,
            (_, "") => {
                let last = self.requests.entry(session).or_default();
                *last += 1;
                *last
            }
            (_, given) => {
                let given = given.parse().expect("a request");
                self.requests.insert(session, given);
                given
            }
        };
        let act = act(session, verb, rest);
        Command {
            session: SessionId(session),
            life: Life(life),
            request: RequestId(request),
            acked: RequestId(acked),
            settled,
            act,
        }
    }

    /// Which run of the client speaks.
    fn life(&mut self, session: u64, verb: &str, given: Option<u64>) -> u64 {
        let last = self.lives.entry(session).or_insert(1);
        let life = given.unwrap_or(*last);
        if verb == "open" {
            *last = life;
        }
        life
    }
}

fn act(session: u64, verb: &str, words: &[&str]) -> Act {
    let token = |index: usize| Token(words[index].parse().expect("a token"));
    match verb {
        "open" => Act::Open {
            ttl_ms: option(words, "ttl").unwrap_or(60_000),
            owner: Owner {
                host: option::<String>(words, "host").unwrap_or_else(|| format!("h{session}")).into(),
                pid: 0,
                user: option::<String>(words, "user").unwrap_or_default().into(),
                label: option::<String>(words, "label").unwrap_or_default().into(),
            },
            ends_with_connection: words.contains(&"tied"),
            reopens: words.contains(&"reopens"),
        },
        "renew" => Act::Renew,
        "close" => Act::Close,
        "lock" => Act::Acquire(acquire(words, Purpose::Lock)),
        "lead" => {
            let value = option::<String>(words, "value").unwrap_or_default();
            Act::Acquire(acquire(words, Purpose::Election { value: value.as_bytes().into() }))
        }
        "cancel" => Act::Cancel(RequestId(words[0].parse().expect("a request"))),
        "release" => Act::Release(token(0)),
        "convert" => {
            let want = want(words[1]);
            Act::Convert { token: token(0), name: want.name, mode: want.mode, patience: patience(words) }
        }
        "proclaim" => Act::Proclaim { token: token(0), value: words[1].as_bytes().into() },
        "transfer" => Act::Transfer { token: token(0), to: SessionId(number(words[1])) },
        "end" => Act::End {
            session: SessionId(number(words[0])),
            reason: option::<String>(words, "reason").unwrap_or_default().into(),
        },
        "force" => Act::Force {
            name: words[0].into(),
            token: option(words, "token").map(Token),
            reason: option::<String>(words, "reason").unwrap_or_default().into(),
        },
        "gone" => Act::Disconnected,
        _ => panic!("no such verb: {verb}"),
    }
}

fn acquire(words: &[&str], purpose: Purpose) -> Acquire {
    let is_name = |word: &&&str| !word.contains('=') && !["try", "again"].contains(word);
    Acquire {
        wants: words.iter().filter(is_name).map(|word| want(word)).collect(),
        patience: patience(words),
        priority: option(words, "priority").unwrap_or(0),
        reentrant: words.contains(&"again"),
        strand: option(words, "strand").unwrap_or(0),
        purpose,
        lock_delay_ms: option(words, "delay").unwrap_or(0),
    }
}

fn want(word: &str) -> Want {
    let (name, mode) = word.split_once(':').unwrap_or((word, "exclusive"));
    let mode = match mode.split_once('/') {
        Some((count, limit)) => {
            Mode::Permits { count: count.parse().expect("a count"), limit: limit.parse().expect("a limit") }
        }
        None if mode == "shared" => Mode::Shared,
        None => Mode::Exclusive,
    };
    Want { name: name.into(), mode }
}

fn patience(words: &[&str]) -> Patience {
    if words.contains(&"try") {
        return Patience::Try;
    }
    option(words, "wait").map_or(Patience::Forever, Patience::Millis)
}

fn option<T: std::str::FromStr>(words: &[&str], key: &str) -> Option<T> {
    let found = words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))?;
    found.parse().ok()
}

fn number(session: &str) -> u64 {
    session.trim_start_matches('s').parse().expect("a session")
}

/// What an outcome says, in the words of the scripts.
pub fn describe(out: &Outcome) -> String {
    let messages = out.messages.iter().map(message);
    let told: Vec<String> = messages.chain(out.leaders.iter().map(leader)).collect();
    short(&told.join("; "))
}

/// Sessions are called as the scripts call them.
pub fn short(text: &str) -> String {
    (0..=100).fold(text.to_owned(), |text, id| text.replace(&SessionId(id).to_string(), &format!("s{id}")))
}

fn message(message: &Message) -> String {
    let to = message.to;
    match &message.told {
        Told::Reply { request, reply: said, .. } => format!("{to}#{} {}", request.0, reply(said)),
        Told::Notice(Notice::Contended { token, name }) => format!("{to} contended {token} {name}"),
        Told::Notice(Notice::Lost { token, why }) => format!("{to} lost {token}: {why}"),
        Told::Notice(Notice::Ended { why }) => format!("{to} ended: {why}"),
    }
}

fn reply(reply: &Reply) -> String {
    match reply {
        Reply::Opened { resumed: false, .. } => "opened".to_owned(),
        Reply::Opened { resumed: true, held } => {
            let held: Vec<String> = held.iter().map(|token| format!(" {token}")).collect();
            format!("resumed{}", held.concat())
        }
        Reply::Done => "done".to_owned(),
        Reply::Queued { ahead } => format!("queued {ahead}"),
        Reply::Granted { token, depth: 1 } => format!("granted {token}"),
        Reply::Granted { token, depth } => format!("granted {token} x{depth}"),
        Reply::Failed(failure) => format!("failed: {failure}"),
    }
}

fn leader(change: &LeaderChange) -> String {
    match &change.leader {
        Some(leader) => {
            let value = String::from_utf8_lossy(&leader.value);
            format!("{} led by {} in {} with '{value}'", change.name, leader.session, leader.term)
        }
        None => format!("{} vacant", change.name),
    }
}

/// A name, for the views.
pub fn name(text: &str) -> Name {
    Name(Arc::from(text))
}
