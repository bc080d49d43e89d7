//! One batch at work: each command is recognised or refused, acts, is answered, and then whoever is next is granted.

use std::sync::Arc;

use super::State;
use super::fault::Fault;
use super::grant::Ending;
use super::names::NameKey;
use super::session::{Opening, Recall, Session};
use crate::command::{Act, Command, Millis, Name, RequestId, SessionId, Token};
use crate::limits::{self, MAX_REMEMBERED_OPENINGS, MAX_REMEMBERED_REPLIES, MAX_SESSIONS, invalid, limit};
use crate::reply::{Failure, Message, Notice, Outcome, Reply, Told};

/// The state while a batch changes it, and what it says.
pub(super) struct Turn<'a> {
    pub state: &'a mut State,
    pub out: &'a mut Outcome,
    /// Names of which something changed since the turn last settled.
    pub touched: Vec<NameKey>,
    /// Names that lost their leader since then.
    pub vacated: Vec<NameKey>,
}

impl<'a> Turn<'a> {
    pub fn new(state: &'a mut State, out: &'a mut Outcome) -> Self {
        Self { state, out, touched: Vec::new(), vacated: Vec::new() }
    }

    pub fn command(&mut self, command: &Command) {
        match &command.act {
            Act::Disconnected => self.disconnect(command.session),
            _ if command.request.0 == 0 => {
                let failure = invalid("the requests of a session are numbered from 1");
                self.send(command, Reply::Failed(failure));
            }
            Act::Open { ttl_ms, owner, ends_with_connection, life } => {
                let (ttl_ms, ends_with_connection, life) = (*ttl_ms, *ends_with_connection, *life);
                self.open(command, &Opening { ttl_ms, owner, ends_with_connection, life });
            }
            _ if self.is_to_act(command) => {
                let reply = self.act(command).unwrap_or_else(Reply::Failed);
                self.answer(command.session, command.request, reply);
            }
            _ => {}
        }
        self.settle();
    }

    /// Renews the session and looks whether the request is a new one; one that is not is answered as before.
    fn is_to_act(&mut self, command: &Command) -> bool {
        let now = self.state.now;
        let forgetful = self.state.suffers(Fault::ForgetRequests);
        let Some(session) = self.state.sessions.get_mut(&command.session) else {
            self.send(command, Reply::Failed(Failure::NoSession));
            return false;
        };
        if !command.request.is_of(session.life) {
            self.send(command, Reply::Failed(Failure::NoSession));
            return false;
        }
        session.renew(now);
        session.acknowledge(command.acked);
        let recall = if forgetful { Recall::New } else { session.recall(command.request) };
        match recall {
            Recall::New if has_room(session, &command.act) => true,
            Recall::New => {
                let text = "too many replies to this session are unacknowledged; acknowledge replies";
                self.send(command, Reply::Failed(limit(text)));
                false
            }
            Recall::Acknowledged => false,
            Recall::Answered(reply) => {
                self.send(command, reply);
                false
            }
            Recall::Waits(arrival) => {
                let ahead = self.state.waits.get(&arrival).map_or(0, |wait| self.state.ahead(wait));
                self.send(command, Reply::Queued { ahead });
                false
            }
        }
    }

    fn act(&mut self, command: &Command) -> Result<Reply, Failure> {
        let (session, request) = (command.session, command.request);
        match &command.act {
            Act::Renew => Ok(Reply::Done),
            Act::Close => {
                self.end_session(session, &Ending::Closed);
                Ok(Reply::Done)
            }
            Act::Acquire(ask) => self.acquire(session, request, ask),
            Act::Cancel(waiting) => {
                self.cancel(session, *waiting);
                Ok(Reply::Done)
            }
            Act::Release(token) => self.release(session, *token),
            Act::Convert { token, name, mode, patience } => {
                self.convert((session, request), *token, name, *mode, *patience)
            }
            Act::Proclaim { token, value } => self.proclaim(session, *token, value),
            Act::Transfer { token, to } => self.transfer(session, *token, *to),
            Act::Force { name, token, reason } => self.force(session, name, *token, reason),
            Act::Open { .. } | Act::Disconnected => Ok(Reply::Done),
        }
    }

    fn open(&mut self, command: &Command, opening: &Opening<'_>) {
        if let Err(failure) = check_opening(command.session, opening) {
            return self.send(command, Reply::Failed(failure));
        }
        let Some(session) = self.state.sessions.get_mut(&command.session) else {
            return self.begin_session(command, opening);
        };
        if session.former_life == Some(opening.life) {
            // A late copy of what the client said before it restarted.
            return;
        }
        if session.life != opening.life {
            session.begin_life(opening.life, command.acked);
            self.drop_waits(command.session);
        } else if !self.is_to_act(command) {
            return;
        }
        self.resume_session(command, opening);
    }

    fn begin_session(&mut self, command: &Command, opening: &Opening<'_>) {
        if self.state.sessions.len() >= MAX_SESSIONS {
            let failure = limit(format!("there are {MAX_SESSIONS} sessions already"));
            return self.send(command, Reply::Failed(failure));
        }
        let mut session = Session::new(opening, command.acked);
        session.renew(self.state.now);
        session.queued_for = session.deadline;
        self.state.expiries.insert((session.deadline, command.session));
        self.state.sessions.insert(command.session, session);
        let reply = Reply::Opened { resumed: false, held: Vec::new() };
        self.answer(command.session, command.request, reply);
    }

    fn resume_session(&mut self, command: &Command, opening: &Opening<'_>) {
        let id = command.session;
        let now = self.state.now;
        let Some(session) = self.state.sessions.get_mut(&id) else { return };
        session.reopen(opening);
        session.renew(now);
        if session.deadline < session.queued_for {
            self.state.expiries.remove(&(session.queued_for, id));
            self.state.expiries.insert((session.deadline, id));
            session.queued_for = session.deadline;
        }
        let held = self.state.held_by(id);
        self.answer(id, command.request, Reply::Opened { resumed: true, held });
    }

    fn disconnect(&mut self, id: SessionId) {
        if self.state.sessions.get(&id).is_some_and(|session| session.ends_with_connection) {
            self.end_session(id, &Ending::Disconnected);
            self.notify(id, Notice::Ended { why: Ending::Disconnected.text() });
        }
    }

    fn cancel(&mut self, id: SessionId, request: RequestId) {
        let waiting = self.state.sessions.get(&id).and_then(|session| session.waits.get(&request));
        if let Some(arrival) = waiting.copied() {
            self.fail_wait(arrival, Failure::Cancelled);
        }
    }

    fn release(&mut self, id: SessionId, token: Token) -> Result<Reply, Failure> {
        self.own_grant(id, token)?;
        let Some(grant) = self.state.grants.get_mut(&token) else { return Err(Failure::NotHeld(token)) };
        if grant.depth > 1 {
            grant.depth -= 1;
            self.touched.extend(grant.names.iter().copied());
        } else {
            self.end_grant(token, &Ending::Released);
        }
        Ok(Reply::Done)
    }

    /// Refuses a token under which that session holds nothing.
    pub fn own_grant(&self, id: SessionId, token: Token) -> Result<(), Failure> {
        match self.state.grants.get(&token) {
            Some(grant) if grant.session == id => Ok(()),
            _ => Err(Failure::NotHeld(token)),
        }
    }

    fn force(
        &mut self,
        id: SessionId,
        name: &Name,
        token: Option<Token>,
        reason: &str,
    ) -> Result<Reply, Failure> {
        limits::check_name(name)?;
        limits::check_reason(reason)?;
        let key = self.state.names.find(name).ok_or_else(|| Failure::Free(name.clone()))?;
        let holders = &self.state.names[key].holders;
        if holders.is_empty() {
            return Err(Failure::Free(name.clone()));
        }
        let losers: Vec<Token> = match token {
            Some(token) if holders.contains_key(&token) => vec![token],
            Some(token) => return Err(Failure::NotHeld(token)),
            None => holders.keys().copied().collect(),
        };
        let who = self.state.sessions.get(&id).map_or_else(String::new, |session| session.owner.describe());
        let how = Ending::Forced(format!("forced: {reason} (by {who})").into());
        let why: Arc<str> = format!("released by force by {who}: {reason}").into();
        for token in losers {
            let Some(loser) = self.state.grants.get(&token).map(|grant| grant.session) else { continue };
            self.end_grant(token, &how);
            self.notify(loser, Notice::Lost { token, why: Arc::clone(&why) });
        }
        Ok(Reply::Done)
    }

    /// Ends a session: it leaves the queues at once, and what it holds is free.
    pub fn end_session(&mut self, id: SessionId, how: &Ending) {
        self.drop_waits(id);
        self.drop_grants(id, how);
        self.forget_session(id);
    }

    /// Takes all requests of a session out of the queues, without an answer: there is nobody to hear it.
    pub fn drop_waits(&mut self, id: SessionId) {
        if self.state.suffers(Fault::KeepGhosts) {
            return;
        }
        let Some(session) = self.state.sessions.get_mut(&id) else { return };
        let waits = std::mem::take(&mut session.strand_waits);
        for (_, arrival) in waits {
            self.withdraw(arrival);
        }
    }

    pub fn drop_grants(&mut self, id: SessionId, how: &Ending) {
        let Some(session) = self.state.sessions.get_mut(&id) else { return };
        let held = std::mem::take(&mut session.held);
        for (_, token) in held {
            self.end_grant(token, how);
        }
    }

    pub fn forget_session(&mut self, id: SessionId) {
        if let Some(session) = self.state.sessions.remove(&id) {
            self.state.expiries.remove(&(session.queued_for, id));
        }
    }

    /// Answers a request, and remembers that unless the request goes on waiting.
    pub fn answer(&mut self, to: SessionId, request: RequestId, reply: Reply) {
        if !matches!(reply, Reply::Queued { .. })
            && let Some(session) = self.state.sessions.get_mut(&to)
        {
            session.remember(request, reply.clone());
        }
        self.out.messages.push(Message { to, told: Told::Reply(request, reply) });
    }

    /// Answers a request without remembering that.
    fn send(&mut self, command: &Command, reply: Reply) {
        let told = Told::Reply(command.request, reply);
        self.out.messages.push(Message { to: command.session, told });
    }

    pub fn notify(&mut self, to: SessionId, notice: Notice) {
        self.out.messages.push(Message { to, told: Told::Notice(notice) });
    }

    /// Ends everything whose time has come, all of it together: nothing is granted to a session that ends as well.
    pub fn pass_time(&mut self) {
        let ended = self.due_sessions();
        for id in &ended {
            self.drop_waits(*id);
        }
        while let Some(arrival) = self.state.due_limit() {
            self.fail_wait(arrival, Failure::TimedOut);
        }
        for id in ended {
            self.drop_grants(id, &Ending::Expired);
            self.forget_session(id);
            self.notify(id, Notice::Ended { why: Ending::Expired.text() });
        }
        while let Some(key) = self.state.end_delay() {
            self.touch(key);
        }
        self.settle();
    }

    /// The sessions whose deadline has passed, the longest dead first. Those that were renewed since they were queued
    /// are queued again.
    fn due_sessions(&mut self) -> Vec<SessionId> {
        let mut due: Vec<(Millis, SessionId)> = Vec::new();
        while let Some(&(queued_for, id)) = self.state.expiries.first()
            && queued_for <= self.state.now
        {
            self.state.expiries.pop_first();
            let Some(session) = self.state.sessions.get_mut(&id) else { continue };
            if session.deadline <= self.state.now {
                due.push((session.deadline, id));
            } else {
                session.queued_for = session.deadline;
                self.state.expiries.insert((session.deadline, id));
            }
        }
        due.sort_unstable();
        due.into_iter().map(|(_, id)| id).collect()
    }
}

/// Whether the reply to another request can be remembered. Nobody is kept from closing.
fn has_room(session: &Session, act: &Act) -> bool {
    match act {
        Act::Close => true,
        Act::Open { .. } if session.remembered_openings() >= MAX_REMEMBERED_OPENINGS => false,
        _ => session.remembered() < MAX_REMEMBERED_REPLIES,
    }
}

fn check_opening(id: SessionId, opening: &Opening<'_>) -> Result<(), Failure> {
    if id.0 == 0 {
        return Err(invalid("a session has a number other than 0"));
    }
    limits::check_ttl(opening.ttl_ms)?;
    limits::check_owner(opening.owner)
}
