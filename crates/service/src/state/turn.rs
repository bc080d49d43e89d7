//! One batch at work: each command is recognised or refused, acts, is answered, and then whoever is next is granted.

use std::cmp::Ordering;
use std::sync::Arc;

use super::State;
use super::fault::Fault;
use super::grant::Ending;
use super::names::NameKey;
use super::session::{Opening, Recall, Session};
use crate::command::{Act, Command, Life, Millis, Name, RequestId, SessionId, Token};
use crate::limits::{self, MAX_BYTES, MAX_SESSIONS, invalid, limit};
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
            Act::Disconnected => self.disconnect(command.session, command.life),
            _ if command.request.0 == 0 => {
                self.refuse(command, invalid("the requests of a session are numbered from 1"));
            }
            _ if command.acked > command.request && !self.state.suffers(Fault::BelieveAcknowledgements) => {
                let (acked, request) = (command.acked.0, command.request.0);
                let text = format!("request {request} cannot acknowledge up to {acked}: it has no reply yet");
                self.refuse(command, invalid(text));
            }
            Act::Open { ttl_ms, owner, ends_with_connection, reopens } => {
                let (ttl_ms, ends_with_connection, reopens) = (*ttl_ms, *ends_with_connection, *reopens);
                self.open(command, &Opening { ttl_ms, owner, ends_with_connection, reopens });
            }
            _ if self.is_to_act(command) => {
                let reply = self.act(command).unwrap_or_else(Reply::Failed);
                if self.is_remembered(&command.act, &reply) {
                    self.state.change_session(command.session, |session| {
                        session.remember(command.request, reply.clone());
                    });
                }
                self.reply(command, reply);
            }
            _ => {}
        }
        self.settle();
    }

    /// Renews the session and looks whether the request is a new one; one that is not is answered as before.
    fn is_to_act(&mut self, command: &Command) -> bool {
        let refuses_releases = self.state.suffers(Fault::RefuseReleases);
        let forgets_refusals = self.state.suffers(Fault::ForgetRefusals);
        let Some(recall) = self.recall(command) else {
            self.refuse(command, Failure::NoSession);
            return false;
        };
        match recall {
            Recall::New => {
                let never_refused = self.is_never_refused(&command.act)
                    && !(refuses_releases && matches!(command.act, Act::Release(_)));
                let session = self.state.sessions.get_mut(&command.session);
                let refuses = |session: &mut Session| {
                    session.refuses(command.request) && !(forgets_refusals && session.has_room())
                };
                if never_refused || !session.is_some_and(refuses) {
                    return true;
                }
                let text = "too many replies to this session are unacknowledged; acknowledge replies";
                self.reply(command, Reply::Failed(limit(text)));
            }
            Recall::Acknowledged => {}
            Recall::Answered { reply, waited } => self.answer_again(command, reply, waited),
            Recall::Waits(arrival) => {
                let ahead = self.state.waits.get(&arrival).map_or(0, |wait| self.state.ahead(wait));
                self.reply(command, Reply::Queued { ahead });
            }
        }
        false
    }

    /// Gives a remembered reply. A grant that was taken away since is told to be lost: its client may not have heard of
    /// the grant, and then the news of its end meant nothing to it. One that was strengthened goes on; the reply to that
    /// tells its token.
    fn answer_again(&mut self, command: &Command, reply: Reply, waited: bool) {
        let lost = match &reply {
            Reply::Granted { token, .. } if self.present_token(command.session, *token).is_err() => {
                Some(*token)
            }
            _ => None,
        };
        let lost = lost.filter(|_| !self.state.suffers(Fault::HideLosses));
        self.tell(command, reply, true, waited);
        if let Some(token) = lost {
            self.notify(
                command.session,
                Notice::Lost { token, why: "released before this reply was heard".into() },
            );
        }
    }

    /// Renews the session of a command, forgets what its client has acknowledged, and looks what is known of the request.
    /// Nothing, if there is no such session, or another run of the client has taken it over.
    fn recall(&mut self, command: &Command) -> Option<Recall> {
        let now = self.state.now;
        let forgets = self.state.suffers(Fault::ForgetRequests);
        let remembers_behind_waits = self.state.suffers(Fault::RememberBehindWaits);
        let keeps_settled = self.state.suffers(Fault::KeepSettled);
        let hears_all = self.state.suffers(Fault::HearFormerRuns);
        let recall = |session: &mut Session| {
            if session.life != command.life && !hears_all {
                return None;
            }
            session.renew(now);
            let oldest = session.oldest_wait().filter(|_| remembers_behind_waits);
            session.acknowledge(oldest.map_or(command.acked, |oldest| oldest.min(command.acked)));
            if !keeps_settled {
                session.settle(&command.settled);
            }
            Some(if forgets { Recall::New } else { session.recall(command.request) })
        };
        self.state.change_session(command.session, recall).flatten()
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
                // What comes later cannot be meant, not even by a copy that arrives after it.
                if *waiting < request {
                    self.cancel(session, *waiting);
                }
                Ok(Reply::Done)
            }
            Act::Release(token) => self.release(session, *token),
            Act::Convert { token, name, mode, patience } => {
                self.convert((session, request), *token, name, *mode, *patience)
            }
            Act::Proclaim { token, value } => self.proclaim(session, *token, value),
            Act::Transfer { token, to } => self.transfer(session, *token, *to),
            Act::Force { name, token, reason } => self.force(session, name, *token, reason),
            Act::End { session: other, reason } => self.end_other(session, *other, reason),
            Act::Open { .. } | Act::Disconnected => Ok(Reply::Done),
        }
    }

    fn open(&mut self, command: &Command, opening: &Opening<'_>) {
        if let Err(failure) = check_opening(command.session, opening) {
            return self.refuse(command, failure);
        }
        let revives = self.state.suffers(Fault::ReviveSessions);
        let Some(session) = self.state.sessions.get_mut(&command.session) else {
            if opening.reopens && !revives {
                return self.refuse(command, Failure::NoSession);
            }
            return self.begin_session(command, opening);
        };
        match command.life.cmp(&session.life) {
            // It was taken over; or this is a late copy of what the client said before it restarted.
            Ordering::Less => return self.refuse(command, Failure::NoSession),
            Ordering::Greater if opening.reopens => return self.refuse(command, Failure::NoSession),
            Ordering::Greater => {
                self.state.change_session(command.session, |session| {
                    session.begin_life(command.life, command.acked);
                });
                self.drop_waits(command.session);
            }
            Ordering::Equal if matches!(self.recall(command), Some(Recall::Acknowledged)) => return,
            Ordering::Equal => {}
        }
        // It is answered again each time, and so need not be remembered: to open twice is to open once.
        self.resume_session(command, opening);
    }

    fn begin_session(&mut self, command: &Command, opening: &Opening<'_>) {
        if self.state.sessions.len() >= MAX_SESSIONS {
            return self.refuse(command, limit(format!("there are {MAX_SESSIONS} sessions already")));
        }
        let mut session = Session::new(opening, command.life, command.acked);
        if self.state.bytes() + session.bytes > MAX_BYTES {
            return self.refuse(command, limit(format!("all there is has {MAX_BYTES} bytes at most")));
        }
        session.renew(self.state.now);
        session.queued_for = session.deadline;
        self.state.bytes += session.bytes;
        self.state.expiries.insert((session.deadline, command.session));
        self.state.sessions.insert(command.session, session);
        self.reply(command, Reply::Opened { resumed: false, held: Vec::new() });
    }

    fn resume_session(&mut self, command: &Command, opening: &Opening<'_>) {
        let id = command.session;
        let now = self.state.now;
        if self.state.suffers(Fault::LosePlaces) {
            self.drop_waits(id);
        }
        if self.state.suffers(Fault::LoseHeld) {
            self.drop_grants(id, &Ending::Released);
        }
        self.state.change_session(id, |session| session.reopen(opening));
        let Some(session) = self.state.sessions.get_mut(&id) else { return };
        session.renew(now);
        if session.deadline < session.queued_for {
            self.state.expiries.remove(&(session.queued_for, id));
            self.state.expiries.insert((session.deadline, id));
            session.queued_for = session.deadline;
        }
        let mut held: Vec<Token> = session.held.iter().map(|(_, token)| *token).collect();
        held.sort_unstable();
        self.reply(command, Reply::Opened { resumed: true, held });
    }

    /// The connection of a session ended. That of a former run of its client does not matter to the present one.
    fn disconnect(&mut self, id: SessionId, life: Life) {
        let is_concerned = |session: &Session| session.ends_with_connection && session.life == life;
        if self.state.sessions.get(&id).is_some_and(is_concerned) {
            self.end_session(id, &Ending::Disconnected);
            self.tell_of_end(id, life, &Ending::Disconnected);
        }
    }

    fn cancel(&mut self, id: SessionId, request: RequestId) {
        let waiting = self.state.sessions.get(&id).and_then(|session| session.waits.get(&request));
        if let Some(arrival) = waiting.copied() {
            self.fail_wait(arrival, Failure::Cancelled);
        }
    }

    fn release(&mut self, id: SessionId, token: Token) -> Result<Reply, Failure> {
        let token = self.present_token(id, token)?;
        let Some(grant) = self.state.grants.get_mut(&token) else { return Err(Failure::NotHeld(token)) };
        if grant.depth > 1 {
            grant.depth -= 1;
            self.touched.extend(grant.names.iter().copied());
            if let Some(session) = self.state.sessions.get_mut(&id) {
                session.depth -= 1;
            }
        } else {
            self.end_grant(token, &Ending::Released);
        }
        Ok(Reply::Done)
    }

    /// The token of a grant, by that token or by the one before it: a release may cross the conversion that exchanged it.
    fn present_token(&self, id: SessionId, token: Token) -> Result<Token, Failure> {
        self.own_grant(id, token).map(|()| token).or_else(|not_held| {
            let session =
                self.state.sessions.get(&id).filter(|_| !self.state.suffers(Fault::ForgetExchanged));
            session.and_then(|session| session.exchanged.get(&token).copied()).ok_or(not_held)
        })
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

    /// Ends a session on the word of another one. Its client is told; what it held begins no lock delay, as with `Force`.
    fn end_other(&mut self, id: SessionId, other: SessionId, reason: &str) -> Result<Reply, Failure> {
        limits::check_reason(reason)?;
        let life = self.state.sessions.get(&other).ok_or(Failure::NoSuchSession(other))?.life;
        let who = self.state.sessions.get(&id).map_or_else(String::new, |session| session.owner.describe());
        let how = Ending::Forced(format!("ended by force: {reason} (by {who})").into());
        self.end_session(other, &how);
        self.tell_of_end(other, life, &how);
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

    /// Takes a session out of the state; gives the run of the client that used it.
    pub fn forget_session(&mut self, id: SessionId) -> Option<Life> {
        let session = self.state.sessions.remove(&id)?;
        self.state.bytes -= session.bytes;
        self.state.expiries.remove(&(session.queued_for, id));
        Some(session.life)
    }

    /// Answers a request that waited, and remembers the answer until the client has it.
    pub fn answer_late(&mut self, to: SessionId, request: RequestId, reply: Reply) {
        let Some(session) = self.state.sessions.get_mut(&to) else { return };
        session.remember_late(request, reply.clone());
        let told = Told::Reply { request, reply, renewed: true, waited: true };
        self.out.messages.push(Message { to, life: session.life, told });
    }

    /// Answers a command that renewed its session.
    fn reply(&mut self, command: &Command, reply: Reply) {
        self.tell(command, reply, true, false);
    }

    /// Refuses a command that did nothing, not even renew its session.
    fn refuse(&mut self, command: &Command, failure: Failure) {
        self.tell(command, Reply::Failed(failure), false, false);
    }

    fn tell(&mut self, command: &Command, reply: Reply, renewed: bool, waited: bool) {
        let told = Told::Reply { request: command.request, reply, renewed, waited };
        self.out.messages.push(Message { to: command.session, life: command.life, told });
    }

    pub fn notify(&mut self, to: SessionId, notice: Notice) {
        let Some(life) = self.state.sessions.get(&to).map(|session| session.life) else { return };
        self.out.messages.push(Message { to, life, told: Told::Notice(notice) });
    }

    fn tell_of_end(&mut self, to: SessionId, life: Life, how: &Ending) {
        let told = Told::Notice(Notice::Ended { why: how.text() });
        self.out.messages.push(Message { to, life, told });
    }

    /// Whether a request is taken however much is remembered: whoever gives something up must be able to.
    fn is_never_refused(&self, act: &Act) -> bool {
        match act {
            Act::Open { .. } | Act::Renew | Act::Close | Act::Cancel(_) | Act::Disconnected => true,
            Act::Release(token) => self.has_been_granted(*token),
            Act::Acquire(_)
            | Act::Convert { .. }
            | Act::Proclaim { .. }
            | Act::Transfer { .. }
            | Act::Force { .. }
            | Act::End { .. } => false,
        }
    }

    /// Whether a request must not act again when it arrives again. To renew or to cancel twice is to do it once, and what a
    /// session does not hold under a token that has been granted, it never will.
    fn is_remembered(&self, act: &Act, reply: &Reply) -> bool {
        match act {
            Act::Open { .. } | Act::Renew | Act::Close | Act::Cancel(_) | Act::Disconnected => false,
            Act::Release(token) => *reply == Reply::Done || !self.has_been_granted(*token),
            Act::Acquire(_)
            | Act::Convert { .. }
            | Act::Proclaim { .. }
            | Act::Transfer { .. }
            | Act::Force { .. }
            | Act::End { .. } => !matches!(reply, Reply::Queued { .. }),
        }
    }

    fn has_been_granted(&self, token: Token) -> bool {
        token.0 <= self.state.last_token
    }

    /// Ends everything whose time has come, all of it together: nothing is granted to a session that ends as well. One for
    /// which there is a command yet may be renewed by it.
    pub fn pass_time(&mut self, to_come: &[Command]) {
        let ended = self.due_sessions(to_come);
        for id in &ended {
            self.drop_waits(*id);
        }
        while let Some(arrival) = self.state.due_limit() {
            self.fail_wait(arrival, Failure::TimedOut);
        }
        for id in ended {
            self.drop_grants(id, &Ending::Expired);
            if let Some(life) = self.forget_session(id) {
                self.tell_of_end(id, life, &Ending::Expired);
            }
        }
        while let Some(key) = self.state.end_delay() {
            self.touch(key);
        }
        self.settle();
    }

    /// The sessions whose deadline has passed, the longest dead first. Those that were renewed since they were queued
    /// are queued again, and so are those of whom more is to come.
    fn due_sessions(&mut self, to_come: &[Command]) -> Vec<SessionId> {
        let mut due: Vec<(Millis, SessionId)> = Vec::new();
        let mut spared = Vec::new();
        while let Some(&(queued_for, id)) = self.state.expiries.first()
            && queued_for <= self.state.now
        {
            self.state.expiries.pop_first();
            let Some(session) = self.state.sessions.get_mut(&id) else { continue };
            if session.deadline <= self.state.now {
                if to_come.iter().any(|command| command.session == id) {
                    spared.push((queued_for, id));
                } else {
                    due.push((session.deadline, id));
                }
            } else {
                session.queued_for = session.deadline;
                self.state.expiries.insert((session.deadline, id));
            }
        }
        self.state.expiries.extend(spared);
        due.sort_unstable();
        due.into_iter().map(|(_, id)| id).collect()
    }
}

fn check_opening(id: SessionId, opening: &Opening<'_>) -> Result<(), Failure> {
    if id.0 == 0 {
        return Err(invalid("a session has a number other than 0"));
    }
    limits::check_ttl(opening.ttl_ms)?;
    limits::check_owner(opening.owner)
}
