//! The rules of the service once more, in the plainest way: lists, and a walk over all of them for every question.
//!
//! It shares no code with the service but the words of its interface. It answers every request with one word or two,
//! and knows nothing of texts, notices and limits.

pub mod walk;

use std::collections::BTreeMap;

use conclave_service::{
    Acquire, Act, Batch, Command, Life, Millis, Mode, Name, Patience, Purpose, RequestId, SessionId, Token,
    Want,
};

/// To whom, to which request, and what.
pub type Answer = (SessionId, RequestId, String);

#[derive(Clone, Debug, Default)]
pub struct Model {
    now: Millis,
    arrivals: u64,
    tokens: u64,
    pub sessions: BTreeMap<SessionId, Client>,
    pub grants: Vec<Hold>,
    /// In the order in which they go.
    pub waits: Vec<Queued>,
    delays: BTreeMap<Name, u32>,
    closed_until: BTreeMap<Name, Millis>,
    answers: Vec<Answer>,
}

#[derive(Clone, Debug)]
pub struct Client {
    ttl: Millis,
    deadline: Millis,
    tied: bool,
    life: Life,
    acked: RequestId,
    /// What was answered to each request, until it is forgotten, and whether the request had waited.
    answered: BTreeMap<RequestId, (String, bool)>,
}

impl Client {
    /// How many answers it knows to requests that did not wait, and to those that did.
    pub fn remembered(&self) -> (usize, usize) {
        let waited = self.answered.values().filter(|(_, waited)| *waited).count();
        (self.answered.len() - waited, waited)
    }

    /// The numbers of answered requests that had waited.
    pub fn unsettled(&self) -> Vec<RequestId> {
        self.answered.iter().filter(|(_, (_, waited))| *waited).map(|(request, _)| *request).collect()
    }
}

#[derive(Clone, Debug)]
pub struct Hold {
    pub token: Token,
    pub session: SessionId,
    pub strand: u32,
    pub depth: u32,
    pub wants: Vec<Want>,
    pub election: bool,
    /// The token before it was strengthened last.
    former: Option<Token>,
    /// How many requests had arrived when it was granted.
    after: u64,
}

#[derive(Clone, Debug)]
pub struct Queued {
    arrival: u64,
    pub session: SessionId,
    pub request: RequestId,
    strand: u32,
    priority: i32,
    pub wants: Vec<Want>,
    converts: Option<Token>,
    until: Option<Millis>,
    election: bool,
    delay: u32,
}

impl Queued {
    fn order(&self) -> (bool, i64, u64) {
        (self.converts.is_none(), -i64::from(self.priority), self.arrival)
    }

    pub fn wants(&self, name: &Name) -> bool {
        self.wants.iter().any(|want| want.name == *name)
    }
}

fn fits_beside(mode: Mode, others: &[Mode]) -> bool {
    let Mode::Permits { count, limit } = mode else {
        return others.is_empty()
            || mode == Mode::Shared && others.iter().all(|other| *other == Mode::Shared);
    };
    let mut sum = u64::from(count);
    for other in others {
        let Mode::Permits { count, .. } = other else { return false };
        sum += u64::from(*count);
    }
    sum <= u64::from(limit)
}

fn includes(held: Mode, wanted: Mode) -> bool {
    match (held, wanted) {
        (Mode::Exclusive, _) => true,
        (Mode::Permits { count: held, limit: all }, Mode::Permits { count, limit }) => {
            held >= count && all == limit
        }
        _ => held == wanted,
    }
}

impl Model {
    pub fn apply(&mut self, batch: &Batch) -> Vec<Answer> {
        self.now = self.now.max(batch.now);
        let speaking: Vec<SessionId> = batch.commands.iter().map(|command| command.session).collect();
        self.pass_time(&speaking);
        self.settle();
        for command in &batch.commands {
            self.command(command);
            self.settle();
        }
        self.pass_time(&[]);
        self.settle();
        std::mem::take(&mut self.answers)
    }

    /// Answers a request that waited.
    fn answer(&mut self, session: SessionId, request: RequestId, text: impl Into<String>) {
        let text = text.into();
        let Some(client) = self.sessions.get_mut(&session) else { return };
        client.answered.insert(request, (text.clone(), true));
        self.answers.push((session, request, text));
    }

    /// Answers a request that did not wait, or begins to. What may happen twice is not kept.
    fn answer_at_once(&mut self, command: &Command, text: String) {
        let may_happen_twice = match &command.act {
            Act::Open { .. } | Act::Renew | Act::Cancel(_) | Act::Close | Act::Disconnected => true,
            Act::Release(token) => text == "not held" && token.0 <= self.tokens,
            _ => text.starts_with("queued"),
        };
        if let Some(client) = self.sessions.get_mut(&command.session)
            && !may_happen_twice
        {
            client.answered.insert(command.request, (text.clone(), false));
        }
        self.answers.push((command.session, command.request, text));
    }

    fn command(&mut self, command: &Command) {
        let (session, request) = (command.session, command.request);
        if command.act == Act::Disconnected {
            if self.sessions.get(&session).is_some_and(|client| client.tied && client.life == command.life) {
                self.end(session, true);
            }
            return;
        }
        if command.acked > request {
            return self.answers.push((session, request, "invalid".to_owned()));
        }
        let known = self.sessions.get_mut(&session);
        if let (Act::Open { reopens: false, .. }, Some(client)) = (&command.act, known)
            && client.life < command.life
        {
            client.life = command.life;
            client.acked = command.acked;
            client.answered.clear();
            self.waits.retain(|wait| wait.session != session);
        }
        if let (Act::Open { reopens: false, .. }, None) = (&command.act, self.sessions.get(&session)) {
            let text = self.open(command).to_owned();
            return self.answer_at_once(command, text);
        }
        let Some(client) = self.sessions.get_mut(&session).filter(|client| client.life == command.life)
        else {
            return self.answers.push((session, request, "no session".to_owned()));
        };
        client.deadline = self.now + client.ttl;
        client.acked = client.acked.max(command.acked);
        let acked = client.acked;
        client.answered.retain(|request, (_, waited)| {
            *request >= acked || *waited && !command.settled.contains(request)
        });
        if let Some((text, _)) = client.answered.get(&request).cloned() {
            return self.answers.push((session, request, text));
        }
        if let Some(place) =
            self.waits.iter().position(|wait| wait.session == session && wait.request == request)
        {
            let text = format!("queued {}", self.ahead_of(place));
            return self.answers.push((session, request, text));
        }
        if request < acked {
            return;
        }
        let text = self.act(command);
        self.answer_at_once(command, text);
    }

    fn open(&mut self, command: &Command) -> &'static str {
        let Act::Open { ttl_ms, ends_with_connection, .. } = &command.act else { return "no session" };
        let resumed = self.sessions.contains_key(&command.session);
        let client = self.sessions.entry(command.session).or_insert_with(|| Client {
            ttl: 0,
            deadline: 0,
            tied: false,
            life: command.life,
            acked: command.acked,
            answered: BTreeMap::new(),
        });
        client.ttl = u64::from(*ttl_ms);
        client.deadline = self.now + client.ttl;
        client.tied = *ends_with_connection;
        if resumed { "resumed" } else { "opened" }
    }

    fn act(&mut self, command: &Command) -> String {
        let session = command.session;
        match &command.act {
            Act::Open { .. } => self.open(command).to_owned(),
            Act::Renew | Act::Disconnected => "done".to_owned(),
            Act::Close => {
                self.end(session, false);
                "done".to_owned()
            }
            Act::Acquire(ask) => self.acquire(command, ask),
            Act::Cancel(request) => {
                let waiting =
                    self.waits.iter().position(|wait| wait.session == session && wait.request == *request);
                if let Some(place) = waiting.filter(|_| *request < command.request) {
                    self.fail(place, "cancelled");
                }
                "done".to_owned()
            }
            Act::Release(token) => self.release(session, *token),
            Act::Convert { token, name, mode, patience } => {
                self.convert(command, *token, name, *mode, *patience)
            }
            Act::Proclaim { token, .. } => match self.own(session, *token) {
                None => "not held".to_owned(),
                Some(place) if self.grants[place].election => "done".to_owned(),
                Some(_) => "invalid".to_owned(),
            },
            Act::Transfer { token, to } => self.transfer(session, *token, *to),
            Act::Force { name, token, .. } => self.force(name, *token),
            Act::End { session: other, .. } if self.sessions.contains_key(other) => {
                self.end(*other, false);
                "done".to_owned()
            }
            Act::End { .. } => "no such session".to_owned(),
        }
    }

    fn own(&self, session: SessionId, token: Token) -> Option<usize> {
        self.grants.iter().position(|grant| grant.session == session && grant.token == token)
    }

    fn acquire(&mut self, command: &Command, ask: &Acquire) -> String {
        let election = ask.purpose != Purpose::Lock;
        let session = command.session;
        let twice =
            (1..ask.wants.len()).any(|at| ask.wants[..at].iter().any(|want| want.name == ask.wants[at].name));
        if twice || election && (ask.wants.len() != 1 || ask.wants[0].mode != Mode::Exclusive) {
            return "invalid".to_owned();
        }
        if ask.reentrant {
            let covers = |grant: &&mut Hold| {
                let has = |want: &Want| {
                    grant.wants.iter().any(|held| held.name == want.name && includes(held.mode, want.mode))
                };
                (grant.session, grant.strand, grant.election) == (session, ask.strand, election)
                    && ask.wants.iter().all(has)
            };
            if let Some(grant) = self.grants.iter_mut().filter(covers).min_by_key(|grant| grant.token) {
                grant.depth += 1;
                return format!("granted {} x{}", grant.token, grant.depth);
            }
        }
        if ask.wants.iter().any(|want| self.is_mismatch(want, election)) {
            return "mismatch".to_owned();
        }
        if election && self.is_candidate(session, &ask.wants[0].name) {
            return "invalid".to_owned();
        }
        self.arrivals += 1;
        let asked = Queued {
            arrival: self.arrivals,
            session,
            request: command.request,
            strand: ask.strand,
            priority: ask.priority,
            wants: ask.wants.clone(),
            converts: None,
            until: self.until(ask.patience),
            election,
            delay: ask.lock_delay_ms,
        };
        self.take_or_wait(asked, ask.patience)
    }

    fn until(&self, patience: Patience) -> Option<Millis> {
        let Patience::Millis(ms) = patience else { return None };
        Some(self.now + u64::from(ms))
    }

    fn is_mismatch(&self, want: &Want, election: bool) -> bool {
        let holds = self.grants.iter().map(|grant| (&grant.wants, grant.election));
        let waits = self.waits.iter().map(|wait| (&wait.wants, wait.election));
        holds.chain(waits).any(|(wants, other)| {
            wants.iter().filter(|present| present.name == want.name).any(|present| {
                let limits = match (present.mode, want.mode) {
                    (Mode::Permits { limit, .. }, Mode::Permits { limit: wanted, .. }) => limit != wanted,
                    _ => false,
                };
                other != election || limits
            })
        })
    }

    fn is_candidate(&self, session: SessionId, name: &Name) -> bool {
        let leads = self.grants.iter().any(|grant| grant.session == session && grant.wants[0].name == *name);
        leads || self.waits.iter().any(|wait| wait.session == session && wait.wants(name))
    }

    fn take_or_wait(&mut self, asked: Queued, patience: Patience) -> String {
        let arrival = asked.arrival;
        let before = self.waits.clone();
        self.waits.push(asked);
        self.waits.sort_by_key(Queued::order);
        let place = self.waits.iter().position(|wait| wait.arrival == arrival).expect("it was just queued");
        if self.may_go(place) {
            return self.grant(place).2;
        }
        let text = if patience == Patience::Try {
            "busy".to_owned()
        } else if self.is_deadlocked() {
            "deadlock".to_owned()
        } else {
            return format!("queued {}", self.ahead_of(place));
        };
        self.waits = before;
        text
    }

    fn ahead_of(&self, place: usize) -> usize {
        let ahead = |want: &Want| self.waits[..place].iter().filter(|wait| wait.wants(&want.name)).count();
        self.waits[place].wants.iter().map(ahead).max().unwrap_or(0)
    }

    fn held_modes(&self, name: &Name, except: Option<Token>) -> Vec<Mode> {
        let grants = self.grants.iter().filter(|grant| Some(grant.token) != except);
        let wants = grants.flat_map(|grant| &grant.wants).filter(|want| want.name == *name);
        wants.map(|want| want.mode).collect()
    }

    fn may_go(&self, place: usize) -> bool {
        let wait = &self.waits[place];
        wait.wants.iter().all(|want| {
            !self.waits[..place].iter().any(|other| other.wants(&want.name))
                && !self.closed_until.contains_key(&want.name)
                && fits_beside(want.mode, &self.held_modes(&want.name, wait.converts))
        })
    }

    fn grant(&mut self, place: usize) -> Answer {
        let wait = self.waits.remove(place);
        self.tokens += 1;
        let token = Token(self.tokens);
        let mut depth = 1;
        if let Some(old) = wait.converts {
            let grant =
                self.grants.iter_mut().find(|grant| grant.token == old).expect("what is converted is held");
            (grant.former, grant.token) = (Some(grant.token), token);
            (grant.after, depth) = (self.arrivals, grant.depth);
            let changed = grant.wants.iter_mut().find(|want| want.name == wait.wants[0].name);
            changed.expect("it is one of its names").mode = wait.wants[0].mode;
        } else {
            for want in &wait.wants {
                // The longest of those who hold it together.
                let is_held =
                    self.grants.iter().any(|grant| grant.wants.iter().any(|held| held.name == want.name));
                let present = self.delays.get(&want.name).copied().filter(|_| is_held).unwrap_or(0);
                self.delays.insert(want.name.clone(), present.max(wait.delay));
            }
            let (session, strand, election) = (wait.session, wait.strand, wait.election);
            let after = self.arrivals;
            self.grants.push(Hold {
                token,
                session,
                strand,
                depth,
                wants: wait.wants,
                election,
                former: None,
                after,
            });
        }
        let text = if depth == 1 { format!("granted {token}") } else { format!("granted {token} x{depth}") };
        (wait.session, wait.request, text)
    }

    fn settle(&mut self) {
        while let Some(place) = (0..self.waits.len()).find(|place| self.may_go(*place)) {
            let (session, request, text) = self.grant(place);
            self.answer(session, request, text);
        }
    }

    fn fail(&mut self, place: usize, text: &str) {
        let wait = self.waits.remove(place);
        self.answer(wait.session, wait.request, text);
    }

    /// Whether somebody waits who can never be granted, even if all who can go on do and then give back what they have.
    pub fn is_deadlocked(&self) -> bool {
        let mut stuck: Vec<&Queued> = self.waits.iter().collect();
        while let Some(place) = stuck.iter().position(|wait| !self.is_stuck(wait, &stuck)) {
            stuck.remove(place);
        }
        !stuck.is_empty()
    }

    fn is_stuck(&self, wait: &Queued, stuck: &[&Queued]) -> bool {
        let needs = |grant: &&Hold| {
            stuck.iter().any(|other| {
                (other.session, other.strand) == (grant.session, grant.strand) && other.arrival > grant.after
            })
        };
        wait.wants.iter().any(|want| {
            let ahead = stuck.iter().any(|other| other.order() < wait.order() && other.wants(&want.name));
            let kept = self.grants.iter().filter(|grant| Some(grant.token) != wait.converts).filter(needs);
            let kept = kept.flat_map(|grant| &grant.wants).filter(|held| held.name == want.name);
            ahead || !fits_beside(want.mode, &kept.map(|held| held.mode).collect::<Vec<_>>())
        })
    }

    fn drop_grant(&mut self, token: Token, lost: bool) {
        let Some(place) = self.grants.iter().position(|grant| grant.token == token) else { return };
        let grant = self.grants.remove(place);
        if let Some(place) = self.waits.iter().position(|wait| wait.converts == Some(token)) {
            self.fail(place, "not held");
        }
        for want in grant.wants.iter().filter(|_| lost) {
            let delay = self.delays.get(&want.name).copied().unwrap_or(0);
            let until = self.now + u64::from(delay);
            if delay > 0 {
                let present = self.closed_until.entry(want.name.clone()).or_default();
                *present = until.max(*present);
            }
        }
    }

    fn release(&mut self, session: SessionId, token: Token) -> String {
        let held = |grant: &Hold| {
            grant.session == session && [Some(grant.token), grant.former].contains(&Some(token))
        };
        let Some(place) = self.grants.iter().position(held) else { return "not held".to_owned() };
        self.grants[place].depth -= 1;
        if self.grants[place].depth == 0 {
            self.drop_grant(self.grants[place].token, false);
        }
        "done".to_owned()
    }

    fn convert(
        &mut self,
        command: &Command,
        token: Token,
        name: &Name,
        mode: Mode,
        patience: Patience,
    ) -> String {
        let Some(place) = self.own(command.session, token) else { return "not held".to_owned() };
        let (strand, election) = (self.grants[place].strand, self.grants[place].election);
        let present = self.grants[place].wants.iter().position(|want| want.name == *name);
        let converts = self.waits.iter().any(|wait| wait.converts == Some(token));
        let Some(at) = present.filter(|_| !election && !converts) else { return "invalid".to_owned() };
        let want = Want { name: name.clone(), mode };
        if self.is_mismatch(&want, false) {
            return "mismatch".to_owned();
        }
        if includes(self.grants[place].wants[at].mode, mode) {
            self.grants[place].wants[at].mode = mode;
            return "done".to_owned();
        }
        self.arrivals += 1;
        let asked = Queued {
            arrival: self.arrivals,
            session: command.session,
            request: command.request,
            strand,
            priority: 0,
            wants: vec![want],
            converts: Some(token),
            until: self.until(patience),
            election: false,
            delay: 0,
        };
        self.take_or_wait(asked, patience)
    }

    fn transfer(&mut self, session: SessionId, token: Token, to: SessionId) -> String {
        let Some(place) = self.own(session, token) else { return "not held".to_owned() };
        if !self.grants[place].election {
            return "invalid".to_owned();
        }
        let name = self.grants[place].wants[0].name.clone();
        let candidate = self.waits.iter().position(|wait| wait.session == to && wait.wants(&name));
        let Some(candidate) = candidate else { return "no candidate".to_owned() };
        self.drop_grant(token, false);
        let (session, request, text) = self.grant(candidate);
        self.answer(session, request, text);
        "done".to_owned()
    }

    fn force(&mut self, name: &Name, token: Option<Token>) -> String {
        let holders = self.grants.iter().filter(|grant| grant.wants.iter().any(|want| want.name == *name));
        let holders: Vec<Token> = holders.map(|grant| grant.token).collect();
        let losers = match token {
            _ if holders.is_empty() => return "free".to_owned(),
            Some(token) if holders.contains(&token) => vec![token],
            Some(_) => return "not held".to_owned(),
            None => holders,
        };
        losers.into_iter().for_each(|token| self.drop_grant(token, false));
        "done".to_owned()
    }

    fn end(&mut self, session: SessionId, lost: bool) {
        self.waits.retain(|wait| wait.session != session);
        let held: Vec<Token> =
            self.grants.iter().filter(|grant| grant.session == session).map(|grant| grant.token).collect();
        held.into_iter().for_each(|token| self.drop_grant(token, lost));
        self.sessions.remove(&session);
    }

    /// Ends what is over, but for sessions of which a command is to come.
    fn pass_time(&mut self, speaking: &[SessionId]) {
        let now = self.now;
        let dead = self.sessions.iter().filter(|(_, client)| client.deadline <= now).map(|(id, _)| *id);
        let dead: Vec<SessionId> = dead.filter(|id| !speaking.contains(id)).collect();
        self.waits.retain(|wait| !dead.contains(&wait.session));
        while let Some(place) =
            self.waits.iter().position(|wait| wait.until.is_some_and(|until| until <= now))
        {
            self.fail(place, "timed out");
        }
        dead.into_iter().for_each(|session| self.end(session, true));
        self.closed_until.retain(|_, until| *until > now);
    }
}
