//! Random walks: what clients might do, in any order, and what must be true after every batch of it.

use std::collections::{BTreeMap, BTreeSet};

use conclave_service::{
    Acquire, Act, Batch, Command, Failure, Life, Message, Mode, Name, NameView, Outcome, Owner, Patience,
    Purpose, Reply, RequestId, SessionId, State, Token, Told, Want,
};
use proptest::prelude::*;

use super::{Answer, Model};

pub const SESSIONS: u64 = 4;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// One thing that a client does. Numbers that stand for a grant or a request are taken among those that exist then.
#[derive(Clone, Debug)]
pub enum Deed {
    Open {
        /// Another run of the client, or the same one again.
        life: Option<u64>,
        ttl_ms: u32,
        tied: bool,
    },
    Renew,
    Close,
    Acquire(Acquire),
    Cancel(usize),
    Release(usize),
    Convert {
        grant: usize,
        name: usize,
        mode: Mode,
        patience: Patience,
    },
    Proclaim(usize),
    Transfer {
        grant: usize,
        to: u64,
    },
    Force {
        name: usize,
        grant: Option<usize>,
    },
    /// Ends a session.
    End(u64),
    Disconnected,
    /// Sends an earlier command of the same session once more.
    Repeat(usize),
}

/// Deeds that become one batch, and how much time passes before.
#[derive(Clone, Debug)]
pub struct Round {
    pub after_ms: u64,
    pub deeds: Vec<(u64, Deed)>,
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![
        4 => Just(Mode::Exclusive),
        3 => Just(Mode::Shared),
        3 => (1u32..=3).prop_map(|count| Mode::Permits { count, limit: 3 }),
        1 => Just(Mode::Permits { count: 1, limit: 2 }),
    ]
}

fn patience() -> impl Strategy<Value = Patience> {
    prop_oneof![1 => Just(Patience::Try), 2 => (1u32..400).prop_map(Patience::Millis), 5 => Just(Patience::Forever)]
}

fn want() -> impl Strategy<Value = Want> {
    (0..NAMES.len(), mode()).prop_map(|(name, mode)| Want { name: NAMES[name].into(), mode })
}

fn wants() -> impl Strategy<Value = Vec<Want>> {
    prop_oneof![3 => prop::collection::vec(want(), 1), 2 => prop::collection::vec(want(), 2..=3)]
}

fn lock() -> impl Strategy<Value = Acquire> {
    let priority = prop_oneof![4 => Just(0), 1 => -1..=2];
    let delay = prop_oneof![4 => Just(0u32), 1 => 1u32..300];
    (wants(), patience(), priority, any::<bool>(), 0u32..3, delay).prop_map(
        |(wants, patience, priority, reentrant, strand, lock_delay_ms)| Acquire {
            wants,
            patience,
            priority,
            reentrant,
            strand,
            purpose: Purpose::Lock,
            lock_delay_ms,
        },
    )
}

fn campaign() -> impl Strategy<Value = Acquire> {
    (lock(), prop_oneof![3 => Just("e"), 1 => Just("d")], any::<u8>()).prop_map(|(lock, name, value)| {
        Acquire {
            wants: vec![Want { name: name.into(), mode: Mode::Exclusive }],
            purpose: Purpose::Election { value: [value].into() },
            ..lock
        }
    })
}

/// Which run of a client opens its session: the one before, or the next.
const OLD: u64 = 1;
const NEW: u64 = 2;

fn deed() -> impl Strategy<Value = Deed> {
    let number = 0..64usize;
    let open = (prop::option::of(OLD..=NEW), 500u32..3000, any::<bool>());
    let convert = (number.clone(), number.clone(), mode(), patience());
    prop_oneof![
        2 => open.prop_map(|(life, ttl_ms, tied)| Deed::Open { life, ttl_ms, tied }),
        3 => Just(Deed::Renew),
        1 => Just(Deed::Close),
        24 => lock().prop_map(Deed::Acquire),
        5 => campaign().prop_map(Deed::Acquire),
        2 => number.clone().prop_map(Deed::Cancel),
        14 => number.clone().prop_map(Deed::Release),
        6 => convert.prop_map(|(grant, name, mode, patience)| Deed::Convert { grant, name, mode, patience }),
        1 => number.clone().prop_map(Deed::Proclaim),
        2 => (number.clone(), 1..=SESSIONS).prop_map(|(grant, to)| Deed::Transfer { grant, to }),
        1 => (number.clone(), prop::option::of(number.clone())).prop_map(|(name, grant)| Deed::Force { name, grant }),
        1 => (1..=SESSIONS + 1).prop_map(Deed::End),
        1 => Just(Deed::Disconnected),
        4 => number.prop_map(Deed::Repeat),
    ]
}

/// What four clients may do, in batches.
pub fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let after = prop_oneof![6 => Just(0u64), 3 => 1u64..200, 1 => 200u64..1500];
    let deeds = prop::collection::vec((1..=SESSIONS, deed()), 1..5);
    let round = (after, deeds).prop_map(|(after_ms, deeds)| Round { after_ms, deeds });
    prop::collection::vec(round, 1..60)
}

/// The service and the model side by side, and the clients that ask both.
pub struct Walk {
    pub state: State,
    pub model: Model,
    now: u64,
    sent: Vec<Command>,
    requests: BTreeMap<SessionId, u64>,
    lives: BTreeMap<SessionId, u64>,
    /// Requests without a last reply, of sessions that live.
    open: BTreeSet<(SessionId, RequestId)>,
    newest: BTreeMap<Name, Token>,
    pub batches: Vec<Batch>,
}

impl Walk {
    /// Begins with all sessions open.
    pub fn new(state: State) -> Self {
        let mut walk = Self {
            state,
            model: Model::default(),
            now: 0,
            sent: Vec::new(),
            requests: BTreeMap::new(),
            lives: BTreeMap::new(),
            open: BTreeSet::new(),
            newest: BTreeMap::new(),
            batches: Vec::new(),
        };
        let open = Deed::Open { life: Some(NEW), ttl_ms: 2500, tied: false };
        walk.round(&Round { after_ms: 0, deeds: (1..=SESSIONS).map(|id| (id, open.clone())).collect() })
            .expect("sessions can be opened");
        walk
    }

    /// Does one round, and compares.
    pub fn round(&mut self, round: &Round) -> Result<(), TestCaseError> {
        self.now += round.after_ms;
        let mut commands = Vec::new();
        for (id, deed) in &round.deeds {
            commands.extend(self.command(SessionId(*id), deed, &commands));
        }
        let batch = Batch { now: self.now, commands, floor: 0 };
        let mut out = Outcome::default();
        self.state.apply(&batch, &mut out);
        let expected = self.model.apply(&batch);
        self.state.assert_invariants();
        self.compare_answers(&out, expected)?;
        self.compare_names()?;
        self.compare_memory()?;
        self.check_tokens(&batch, &out)?;
        self.check_answers(&batch, &out)?;
        prop_assert!(!self.model.is_deadlocked(), "nobody waits in a circle");
        self.batches.push(batch);
        Ok(())
    }

    fn command(&mut self, session: SessionId, deed: &Deed, unheard: &[Command]) -> Option<Command> {
        if let Deed::Repeat(number) = deed {
            let earlier: Vec<&Command> =
                self.sent.iter().filter(|command| command.session == session).collect();
            return Some((*earlier.get(number % earlier.len().max(1))?).clone());
        }
        let act = self.act(session, deed);
        let life = self.lives.entry(session).or_insert(1);
        let life = match deed {
            // An opening of some run before, and one of the next.
            Deed::Open { life: Some(OLD), .. } => Life(*life - 1),
            Deed::Open { life: Some(_), .. } => {
                *life += 1;
                Life(*life)
            }
            _ => Life(*life),
        };
        let last = self.requests.entry(session).or_default();
        *last += 1;
        let request = if act == Act::Disconnected { RequestId(0) } else { RequestId(*last) };
        // What was sent before this round has had a reply: the last one, or that it waits.
        let oldest = unheard.iter().filter(|command| command.session == session && command.request.0 > 0);
        let oldest = oldest.map(|command| command.request).min();
        let acked = match request.0 % 3 {
            0 => oldest.unwrap_or(request).min(request),
            _ => RequestId(0),
        };
        let client = self.model.sessions.get(&session).filter(|_| request.0.is_multiple_of(2));
        let mut settled = client.map(super::Client::unsettled).unwrap_or_default();
        settled.retain(|settled| *settled < acked);
        let command = Command { session, life, request, acked, settled, act };
        self.sent.push(command.clone());
        Some(command)
    }

    fn act(&self, session: SessionId, deed: &Deed) -> Act {
        let token = |number: &usize| {
            let own: Vec<&super::Hold> =
                self.model.grants.iter().filter(|grant| grant.session == session).collect();
            own.get(number % (own.len() + 1)).map_or(Token(*number as u64), |grant| grant.token)
        };
        let held_name = |token: Token, number: &usize| {
            let grant = self.model.grants.iter().find(|grant| grant.token == token);
            grant.map_or_else(
                || NAMES[number % 4].into(),
                |grant| grant.wants[number % grant.wants.len()].name.clone(),
            )
        };
        match deed {
            Deed::Open { life, ttl_ms, tied } => {
                let host = format!("host {session}").into();
                let owner = Owner { host, ..Owner::default() };
                Act::Open { ttl_ms: *ttl_ms, owner, ends_with_connection: *tied, reopens: life.is_none() }
            }
            Deed::Renew | Deed::Repeat(_) => Act::Renew,
            Deed::Close => Act::Close,
            Deed::Acquire(ask) => Act::Acquire(ask.clone()),
            Deed::Cancel(number) => {
                let own: Vec<RequestId> =
                    self.open.iter().filter(|(id, _)| *id == session).map(|(_, request)| *request).collect();
                Act::Cancel(own.get(number % (own.len() + 1)).copied().unwrap_or(RequestId(*number as u64)))
            }
            Deed::Release(number) => Act::Release(token(number)),
            Deed::Convert { grant, name, mode, patience } => {
                let token = token(grant);
                Act::Convert { token, name: held_name(token, name), mode: *mode, patience: *patience }
            }
            Deed::Proclaim(number) => Act::Proclaim { token: token(number), value: [*number as u8].into() },
            Deed::Transfer { grant, to } => Act::Transfer { token: token(grant), to: SessionId(*to) },
            Deed::Force { name, grant } => Act::Force {
                name: NAMES[name % NAMES.len()].into(),
                token: grant.as_ref().map(token),
                reason: "because".into(),
            },
            Deed::End(other) => Act::End { session: SessionId(*other), reason: "because".into() },
            Deed::Disconnected => Act::Disconnected,
        }
    }

    fn compare_answers(&self, out: &Outcome, mut expected: Vec<Answer>) -> Result<(), TestCaseError> {
        let mut got: Vec<Answer> = out.messages.iter().filter_map(answer).collect();
        got.sort_by_key(|(session, request, _)| (*session, *request));
        expected.sort_by_key(|(session, request, _)| (*session, *request));
        prop_assert_eq!(got, expected, "service and model answer alike");
        Ok(())
    }

    fn compare_memory(&self) -> Result<(), TestCaseError> {
        for session in (1..=SESSIONS).map(SessionId) {
            let expected = self.model.sessions.get(&session).map_or((0, 0), super::Client::remembered);
            prop_assert_eq!(self.state.remembered(session), expected, "{} remembers what it must", session);
        }
        Ok(())
    }

    fn compare_names(&self) -> Result<(), TestCaseError> {
        for name in NAMES.into_iter().chain(["e"]).map(Name::from) {
            let view = self.state.name(&name);
            let holders =
                |view: NameView| view.holders.iter().map(|holder| (holder.token, holder.mode)).collect();
            let got: Vec<(Token, Mode)> = view.clone().map(holders).unwrap_or_default();
            let held = |grant: &super::Hold| {
                let want = grant.wants.iter().find(|want| want.name == name)?;
                Some((grant.token, want.mode))
            };
            let mut expected: Vec<(Token, Mode)> = self.model.grants.iter().filter_map(held).collect();
            expected.sort_by_key(|(token, _)| *token);
            prop_assert_eq!(got, expected, "service and model agree on who holds {}", name);
            let queue =
                |view: NameView| view.queue.iter().map(|waiter| (waiter.session, waiter.request)).collect();
            let got: Vec<(SessionId, RequestId)> = view.map(queue).unwrap_or_default();
            let waits = self.model.waits.iter().filter(|wait| wait.wants(&name));
            let expected: Vec<(SessionId, RequestId)> =
                waits.map(|wait| (wait.session, wait.request)).collect();
            prop_assert_eq!(got, expected, "service and model agree on who waits for {}", name);
        }
        Ok(())
    }

    /// A grant's token is greater than every earlier one of the same names.
    fn check_tokens(&mut self, batch: &Batch, out: &Outcome) -> Result<(), TestCaseError> {
        let mut grants: Vec<(Token, SessionId, RequestId)> = Vec::new();
        for message in &out.messages {
            if let Told::Reply { request, reply: Reply::Granted { token, depth: 1 }, .. } = &message.told
                && self.is_first_answer(batch, message.to, *request)
            {
                grants.push((*token, message.to, *request));
            }
        }
        grants.sort_unstable();
        grants.dedup();
        for (token, session, request) in grants {
            let asked = |command: &&Command| command.session == session && command.request == request;
            let Some(command) = self.sent.iter().rev().find(asked) else { continue };
            let Act::Acquire(ask) = &command.act else { continue };
            for want in &ask.wants {
                let before = self.newest.insert(want.name.clone(), token);
                prop_assert!(
                    before < Some(token),
                    "{} was granted under {:?}, then {}",
                    want.name,
                    before,
                    token
                );
            }
        }
        Ok(())
    }

    fn is_first_answer(&self, batch: &Batch, session: SessionId, request: RequestId) -> bool {
        let mut asked = batch.commands.iter().map(|command| (command.session, command.request));
        self.open.contains(&(session, request))
            || asked.any(|key| key == (session, request))
                && !self
                    .batches
                    .iter()
                    .flat_map(|batch| &batch.commands)
                    .any(|command| (command.session, command.request) == (session, request))
    }

    /// Every request waits, or has been answered once: what waits is exactly what has had no last word.
    fn check_answers(&mut self, batch: &Batch, out: &Outcome) -> Result<(), TestCaseError> {
        for command in &batch.commands {
            self.open.insert((command.session, command.request));
        }
        for message in &out.messages {
            match &message.told {
                // Refused before its session was opened again, and then sent again.
                Told::Reply { request, reply: Reply::Queued { .. }, .. } => {
                    self.open.insert((message.to, *request))
                }
                Told::Reply { request, .. } => self.open.remove(&(message.to, *request)),
                Told::Notice(_) => false,
            };
        }
        let waiting =
            |session: u64| self.state.session(SessionId(session)).map(|view| (session, view.waiting));
        let waiting: BTreeSet<(SessionId, RequestId)> = (1..=SESSIONS)
            .filter_map(waiting)
            .flat_map(|(session, waits)| {
                waits.into_iter().map(move |(request, _)| (SessionId(session), request))
            })
            .collect();
        let lost: Vec<_> = waiting.difference(&self.open).collect();
        prop_assert!(lost.is_empty(), "answered, and yet they wait: {:?}", lost);
        // What had no answer and does not wait was of a session or a run of its client that ended.
        let mut ended: BTreeSet<(SessionId, RequestId)> = self.open.difference(&waiting).copied().collect();
        ended.retain(|(session, request)| self.must_be_answered(batch, *session, *request));
        prop_assert!(ended.is_empty(), "neither answered nor waiting: {:?}", ended);
        self.open = waiting;
        Ok(())
    }

    fn must_be_answered(&self, batch: &Batch, session: SessionId, request: RequestId) -> bool {
        let of_session = |command: &&Command| command.session == session;
        let is_end =
            |command: &Command| matches!(command.act, Act::Close | Act::Open { .. } | Act::Disconnected);
        let asked_before = self.open.contains(&(session, request)) && self.state.has_session(session);
        let is_copy = self.batches.iter().flat_map(|batch| &batch.commands).filter(of_session);
        let is_copy = is_copy.clone().any(|command| command.request == request);
        asked_before && !is_copy && request.0 > 0 && !batch.commands.iter().filter(of_session).any(is_end)
    }
}

/// The model's word for a reply.
fn answer(message: &Message) -> Option<Answer> {
    let Told::Reply { request, reply, .. } = &message.told else { return None };
    let text = match reply {
        Reply::Opened { resumed: true, .. } => "resumed".to_owned(),
        Reply::Opened { resumed: false, .. } => "opened".to_owned(),
        Reply::Done => "done".to_owned(),
        Reply::Queued { ahead } => format!("queued {ahead}"),
        Reply::Granted { token, depth: 1 } => format!("granted {token}"),
        Reply::Granted { token, depth } => format!("granted {token} x{depth}"),
        Reply::Failed(failure) => word(failure).to_owned(),
    };
    Some((message.to, *request, text))
}

fn word(failure: &Failure) -> &'static str {
    match failure {
        Failure::Busy { .. } => "busy",
        Failure::TimedOut => "timed out",
        Failure::Cancelled => "cancelled",
        Failure::Deadlock(_) => "deadlock",
        Failure::NoSession => "no session",
        Failure::NotHeld(_) => "not held",
        Failure::Mismatch { .. } => "mismatch",
        Failure::NoCandidate(_) => "no candidate",
        Failure::Free(_) => "free",
        Failure::Limit(_) => "limit",
        Failure::Invalid(_) => "invalid",
        Failure::NoSuchSession(_) => "no such session",
    }
}
