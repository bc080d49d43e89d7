//! Grants: how they come about, how they end, and who is next.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::names::{Arrival, NameKey, Names, Rank};
use super::turn::Turn;
use crate::command::{Millis, Mode, Owner, RequestId, SessionId, Token};
use crate::reply::{Failure, Leader, LeaderChange, Notice, Reply};

/// Names held together under one token. How each is held stands with the name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Grant {
    pub session: SessionId,
    pub strand: u32,
    pub depth: u32,
    pub names: Box<[NameKey]>,
    pub since: Millis,
    /// What arrived up to then was asked for before this was granted, so that its strand does not need it to go on.
    pub after: Arrival,
    /// Its session has been told that somebody waits.
    pub contended: bool,
    /// What a leader shows; nothing for a lock.
    pub value: Option<Arc<[u8]>>,
    /// The request that waits to strengthen it.
    pub converting: Option<Arrival>,
    /// The token that it had before it was strengthened last.
    pub former: Option<Token>,
}

/// A request that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Waiting {
    pub session: SessionId,
    pub request: RequestId,
    pub rank: Rank,
    pub priority: i32,
    pub since: Millis,
    pub until: Option<Millis>,
    pub strand: u32,
    pub wants: Box<[(NameKey, Mode)]>,
    /// The grant to be strengthened, if it is that rather than a new one.
    pub converts: Option<Token>,
    pub lock_delay_ms: u32,
    pub value: Option<Arc<[u8]>>,
}

/// One who held a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Past {
    pub session: SessionId,
    pub owner: Arc<Owner>,
    pub token: Token,
    pub since: Millis,
    pub ended: Millis,
    pub how: Ending,
}

impl Waiting {
    pub fn bytes(&self, names: &Names) -> usize {
        bytes_of(names, self.wants.iter().map(|(key, _)| key), self.value.as_deref())
    }
}

impl Grant {
    pub fn bytes(&self, names: &Names) -> usize {
        bytes_of(names, self.names.iter(), self.value.as_deref())
    }
}

/// What somebody accounts for who holds these names, or waits for them, and shows that value.
fn bytes_of<'a>(names: &Names, keys: impl Iterator<Item = &'a NameKey>, value: Option<&[u8]>) -> usize {
    keys.map(|key| names[*key].name.0.len()).sum::<usize>() + value.map_or(0, <[u8]>::len)
}

impl Past {
    /// How many bytes its texts have.
    pub fn bytes(&self) -> usize {
        let reason = if let Ending::Forced(why) = &self.how { why.len() } else { 0 };
        self.owner.bytes() + reason
    }
}

/// How a grant ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ending {
    Released,
    Expired,
    Closed,
    Disconnected,
    Transferred,
    /// It goes on in a stronger mode, under another token.
    Converted,
    Forced(Arc<str>),
}

impl Ending {
    pub fn text(&self) -> Arc<str> {
        match self {
            Self::Released => "released".into(),
            Self::Expired => "expired".into(),
            Self::Closed => "closed".into(),
            Self::Disconnected => "disconnected".into(),
            Self::Transferred => "transferred".into(),
            Self::Converted => "converted".into(),
            Self::Forced(why) => Arc::clone(why),
        }
    }

    /// Whether the holder was lost rather than gave it back: it may not know, and its lock delay runs.
    fn is_loss(&self) -> bool {
        match self {
            Self::Expired | Self::Disconnected => true,
            Self::Released | Self::Closed | Self::Transferred | Self::Converted | Self::Forced(_) => false,
        }
    }
}

impl Turn<'_> {
    /// Grants a request that nothing is in the way of. It stands in no queue.
    pub fn grant(&mut self, asked: Waiting) -> Token {
        let token = self.next_token();
        let names = asked.wants.iter().map(|(key, _)| *key).collect();
        for (key, mode) in &asked.wants {
            let entry = &mut self.state.names[*key];
            entry.election = asked.value.is_some();
            // Those who hold it together are lost one by one: none takes the delay of another away.
            let present = if entry.holders.is_empty() { 0 } else { entry.delay_ms };
            entry.delay_ms = present.max(asked.lock_delay_ms);
            entry.add_holder(token, *mode);
            self.touch(*key);
        }
        let bytes = asked.bytes(&self.state.names);
        self.state.change_session(asked.session, |session| {
            session.held.insert((asked.strand, token));
            session.depth += 1;
            session.bytes += bytes;
        });
        let grant = Grant {
            session: asked.session,
            strand: asked.strand,
            depth: 1,
            names,
            since: self.state.now,
            after: Arrival(self.state.arrivals),
            contended: false,
            value: asked.value,
            converting: None,
            former: None,
        };
        self.state.grants.insert(token, grant);
        self.tell_of_leader(token);
        token
    }

    /// A stronger mode must be fenced off from what came between: the grant goes on under a new token, on all its names.
    pub fn strengthen(&mut self, old: Token, stronger: NameKey, mode: Mode) -> Reply {
        let Some(grant) = self.state.grants.remove(&old) else {
            return Reply::Failed(Failure::NotHeld(old));
        };
        let new = self.next_token();
        for key in &grant.names {
            self.remember_end(*key, old, &grant, &Ending::Converted);
            let entry = &mut self.state.names[*key];
            if let Some(present) = entry.remove_holder(old) {
                entry.add_holder(new, if *key == stronger { mode } else { present });
            }
            self.touch(*key);
        }
        if let Some(session) = self.state.sessions.get_mut(&grant.session) {
            session.held.remove(&(grant.strand, old));
            session.held.insert((grant.strand, new));
            if let Some(former) = grant.former {
                session.exchanged.remove(&former);
            }
            session.exchanged.insert(old, new);
        }
        let (now, after, depth) = (self.state.now, Arrival(self.state.arrivals), grant.depth);
        let renewed =
            Grant { since: now, after, contended: false, converting: None, former: Some(old), ..grant };
        self.state.grants.insert(new, renewed);
        Reply::Granted { token: new, depth }
    }

    fn next_token(&mut self) -> Token {
        self.state.granted += 1;
        self.state.last_token += 1;
        Token(self.state.last_token)
    }

    /// Ends a grant at whatever depth. Those who waited for it are looked at when the turn settles.
    pub fn end_grant(&mut self, token: Token, how: &Ending) {
        let Some(grant) = self.state.grants.remove(&token) else { return };
        if let Some(conversion) = grant.converting {
            self.fail_wait(conversion, Failure::NotHeld(token));
        }
        for key in &grant.names {
            self.remember_end(*key, token, &grant, how);
            self.state.names[*key].remove_holder(token);
            if how.is_loss() {
                self.begin_delay(*key);
            }
            if grant.value.is_some() {
                self.vacated.push(*key);
            }
            self.touch(*key);
        }
        let bytes = grant.bytes(&self.state.names);
        self.state.change_session(grant.session, |session| {
            session.held.remove(&(grant.strand, token));
            session.depth -= grant.depth as usize;
            session.bytes -= bytes;
            if let Some(former) = grant.former {
                session.exchanged.remove(&former);
            }
        });
    }

    fn remember_end(&mut self, key: NameKey, token: Token, grant: &Grant, how: &Ending) {
        let Some(session) = self.state.sessions.get(&grant.session) else { return };
        let past = Past {
            session: grant.session,
            owner: Arc::clone(&session.owner),
            token,
            since: grant.since,
            ended: self.state.now,
            how: how.clone(),
        };
        self.state.names.remember(key, past);
    }

    fn begin_delay(&mut self, key: NameKey) {
        if self.state.suffers(Fault::NoDelays) {
            return;
        }
        let entry = &mut self.state.names[key];
        let until = self.state.now.saturating_add(u64::from(entry.delay_ms));
        if entry.delay_ms == 0 || until <= entry.delayed_until {
            return;
        }
        self.state.delays.remove(&(entry.delayed_until, key));
        self.state.delays.insert((until, key));
        entry.delayed_until = until;
    }

    /// Notes that something about a name changed.
    pub fn touch(&mut self, key: NameKey) {
        self.touched.push(key);
    }

    /// Whether nothing is in the way of a request of that rank: nobody goes before it, and all holders are compatible.
    pub fn may_go(&self, rank: Rank, wants: &[(NameKey, Mode)], converts: Option<Token>) -> bool {
        wants.iter().all(|(key, mode)| {
            let entry = &self.state.names[*key];
            let is_first = entry.queue.first().is_none_or(|first| *first >= rank);
            let is_open = entry.delayed_until == 0;
            (is_first || self.state.suffers(Fault::Overtake))
                && is_open
                && (!entry.conflicts(*mode, converts) || self.state.suffers(Fault::GrantTwice))
        })
    }

    /// Grants to whoever is next, wherever something changed, and tells what followed from the turn.
    ///
    /// Grants are made by rank, whatever the order of the changes. That is the order in which a walk over all who
    /// wait would make them: a grant opens the way only for those behind it in its own queues, and nobody who was
    /// passed over stands in one of these.
    pub fn settle(&mut self) {
        let mut heads: BTreeSet<Rank> = BTreeSet::new();
        heads.extend(self.touched.iter().filter_map(|key| self.state.names[*key].queue.first()));
        while let Some(rank) = heads.pop_first() {
            let Some(wait) = self.state.waits.get(&rank.arrival) else { continue };
            if !self.may_go(rank, &wait.wants, wait.converts) {
                continue;
            }
            let wants = self.grant_waiting(rank.arrival);
            heads.extend(wants.iter().filter_map(|(key, _)| self.state.names[*key].queue.first()));
        }
        self.tell_of_vacancies();
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        for key in touched.drain(..) {
            self.tell_of_head(key);
            self.out.changed.push(self.state.names[key].name.clone());
            self.state.names.rest(key);
        }
        self.touched = touched;
    }

    fn grant_waiting(&mut self, arrival: Arrival) -> Box<[(NameKey, Mode)]> {
        let wait = self.withdraw(arrival).expect("a request at the head of a queue waits");
        let (session, request, wants) = (wait.session, wait.request, wait.wants.clone());
        let reply = match (wait.converts, wants.first()) {
            (Some(token), Some((key, mode))) => self.strengthen(token, *key, *mode),
            _ => Reply::Granted { token: self.grant(wait), depth: 1 },
        };
        self.answer_late(session, request, reply);
        wants
    }

    /// Takes a request out of all queues.
    pub fn withdraw(&mut self, arrival: Arrival) -> Option<Waiting> {
        let wait = self.unqueue(arrival)?;
        for (key, _) in &wait.wants {
            self.touch(*key);
        }
        Some(wait)
    }

    /// The same, where nobody has seen it queued.
    pub fn unqueue(&mut self, arrival: Arrival) -> Option<Waiting> {
        let wait = self.state.waits.remove(&arrival)?;
        for (key, mode) in &wait.wants {
            let entry = &mut self.state.names[*key];
            entry.remove_waiter(wait.rank, *mode);
            if entry.candidates.get(&wait.session) == Some(&arrival) {
                entry.candidates.remove(&wait.session);
            }
        }
        if let Some(until) = wait.until {
            self.state.limits.remove(&(until, arrival));
        }
        let bytes = wait.bytes(&self.state.names);
        self.state.change_session(wait.session, |session| {
            session.waits.remove(&wait.request);
            session.strand_waits.remove(&(wait.strand, arrival));
            session.bytes -= bytes;
        });
        if let Some(grant) = wait.converts.and_then(|token| self.state.grants.get_mut(&token)) {
            grant.converting = None;
        }
        Some(wait)
    }

    /// Ends a wait without a grant.
    pub fn fail_wait(&mut self, arrival: Arrival, failure: Failure) {
        if let Some(wait) = self.withdraw(arrival) {
            self.answer_late(wait.session, wait.request, Reply::Failed(failure));
        }
    }

    /// The first in the queue waits for the holders: tells those that do not know yet.
    fn tell_of_head(&mut self, key: NameKey) {
        let Some(first) = self.state.names[key].queue.first() else { return };
        let Some(wait) = self.state.waits.get(&first.arrival) else { return };
        let Some((_, mode)) = wait.wants.iter().find(|(other, _)| *other == key) else { return };
        self.tell_of_waiter(key, *mode, wait.converts);
    }

    /// Tells the holders in the way of that mode that somebody waits, each grant once.
    pub fn tell_of_waiter(&mut self, key: NameKey, mode: Mode, converts: Option<Token>) {
        if self.state.suffers(Fault::HideWaiters) {
            return;
        }
        let entry = &mut self.state.names[key];
        let news = (Bound::Excluded(entry.told), Bound::Unbounded);
        if entry.holders.range(news).next().is_none() || !entry.conflicts(mode, converts) {
            return;
        }
        let untold = entry.holders.range(news).map(|(token, _)| *token);
        let untold: Vec<Token> = untold.filter(|token| Some(*token) != converts).collect();
        // One who converts is not in its own way, but may be in that of the next who comes.
        let told = entry.holders.last_key_value().map_or(entry.told, |(last, _)| *last);
        entry.told = converts.map_or(told, |own| told.min(Token(own.0 - 1))).max(entry.told);
        let name = entry.name.clone();
        for token in untold {
            let Some(grant) = self.state.grants.get_mut(&token) else { continue };
            if !std::mem::replace(&mut grant.contended, true) {
                let to = grant.session;
                self.notify(to, Notice::Contended { token, name: name.clone() });
            }
        }
    }

    /// Tells observers who leads, if the grant is that of a leader.
    pub fn tell_of_leader(&mut self, token: Token) {
        let Some(grant) = self.state.grants.get(&token) else { return };
        let (Some(value), Some(key)) = (&grant.value, grant.names.first()) else { return };
        let Some(session) = self.state.sessions.get(&grant.session) else { return };
        let leader = Leader {
            session: grant.session,
            owner: (*session.owner).clone(),
            term: token,
            value: Arc::clone(value),
        };
        let name = self.state.names[*key].name.clone();
        self.out.leaders.push(LeaderChange { name, leader: Some(leader) });
    }

    fn tell_of_vacancies(&mut self) {
        for key in self.vacated.drain(..) {
            let entry = &self.state.names[key];
            if entry.holders.is_empty() {
                self.out.leaders.push(LeaderChange { name: entry.name.clone(), leader: None });
            }
        }
    }
}
