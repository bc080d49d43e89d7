//! What can be read of the state.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use super::State;
use super::grant::{Past, Waiting};
use super::names::{Arrival, Entry, NameKey, Rank};
use crate::command::{Millis, Mode, Name, Owner, RequestId, SessionId, Token};
use crate::limits::MAX_STEPS_TOLD;
use crate::reply::{Held, Leader, Wait};
use crate::view::{
    HolderView, NameView, PastView, QueuePlace, SessionLine, SessionView, Standing, Step, Summary, Totals,
    WaiterView,
};

impl State {
    /// Whether that session exists.
    #[must_use]
    pub fn has_session(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    /// How many replies are remembered for a session: to requests that did not wait, and to those that did.
    #[must_use]
    pub fn remembered(&self, session: SessionId) -> (usize, usize) {
        let found = self.sessions.get(&session);
        found.map_or((0, 0), |session| (session.remembered(), session.unsettled() - session.waits.len()))
    }

    /// The state as it looks at a moment of service time: ages count to then. A moment before the last batch counts as
    /// that of the last batch.
    #[must_use]
    pub fn at(&self, now: Millis) -> Picture<'_> {
        Picture { state: self, now: now.max(self.now) }
    }

    /// The names that begin with a prefix, in order, from the first one after a given name, as of the last batch.
    pub fn names<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a Name>,
    ) -> impl Iterator<Item = Summary> + 'a {
        self.at(self.now).names(prefix, after, true)
    }

    /// Everything about a name, as of the last batch.
    #[must_use]
    pub fn name(&self, name: &Name) -> Option<NameView> {
        self.at(self.now).name(name)
    }

    /// Everything about a session, as of the last batch.
    #[must_use]
    pub fn session(&self, session: SessionId) -> Option<SessionView> {
        self.at(self.now).session(session)
    }

    /// Who leads.
    #[must_use]
    pub fn leader(&self, name: &Name) -> Option<Leader> {
        let entry = &self.names[self.names.find(name)?];
        let (term, _) = entry.holders.first_key_value()?;
        let grant = self.grants.get(term)?;
        Some(Leader {
            session: grant.session,
            owner: (*self.sessions.get(&grant.session)?.owner).clone(),
            term: *term,
            value: grant.value.clone()?,
        })
    }

    /// Why those who wait for a name wait: the chain from the first of them to somebody who waits for nothing.
    #[must_use]
    pub fn why_name(&self, name: &Name) -> Vec<Wait> {
        self.at(self.now).why_name(name).into_iter().map(|step| step.wait).collect()
    }

    /// Why a session waits: the chain from it to somebody who waits for nothing.
    #[must_use]
    pub fn why_session(&self, session: SessionId) -> Vec<Wait> {
        self.at(self.now).why_session(session).into_iter().map(|step| step.wait).collect()
    }

    /// What a token is worth.
    #[must_use]
    pub fn check(&self, name: &Name, token: Token) -> Standing {
        let Some(key) = self.names.find(name) else { return Standing::Unknown };
        let entry = &self.names[key];
        let newest = entry.newest;
        if entry.holders.contains_key(&token) {
            Standing::Held
        } else if token.0 == 0 || token > newest {
            Standing::Unknown
        } else if token == newest {
            Standing::Released
        } else {
            Standing::Stale { newest }
        }
    }

    /// How much there is of everything.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals {
            sessions: self.sessions.len() as u64,
            names: self.names.len() as u64,
            held: self.grants.len() as u64,
            waiting: self.waits.len() as u64,
            grants: self.granted,
        }
    }

    /// How many go before a request in the longest of its queues.
    pub(super) fn ahead(&self, wait: &Waiting) -> u32 {
        let ahead = wait.wants.iter().map(|(key, _)| self.names[*key].ahead_of(wait.rank)).max();
        u32::try_from(ahead.unwrap_or(0)).unwrap_or(u32::MAX)
    }

    /// What a session holds under tokens after a given one, the oldest grant first.
    fn held_after(&self, session: SessionId, after: Option<Token>) -> impl Iterator<Item = Held> + '_ {
        let tokens = self.sessions.get(&session).map(|session| session.held.iter().map(|(_, token)| *token));
        let mut tokens: Vec<Token> =
            tokens.into_iter().flatten().filter(|token| Some(*token) > after).collect();
        tokens.sort_unstable();
        tokens.into_iter().filter_map(|token| self.held_under(token))
    }

    fn held_under(&self, token: Token) -> Option<Held> {
        let grant = self.grants.get(&token)?;
        let names = grant.names.iter().filter_map(|key| {
            let entry = &self.names[*key];
            Some((entry.name.clone(), *entry.holders.get(&token)?))
        });
        Some(Held { token, names: names.collect(), depth: grant.depth })
    }

    fn names_of(&self, wait: &Waiting) -> Vec<Name> {
        wait.wants.iter().map(|(key, _)| self.names[*key].name.clone()).collect()
    }

    fn owner_of(&self, session: SessionId) -> Owner {
        self.sessions.get(&session).map(|session| (*session.owner).clone()).unwrap_or_default()
    }
}

/// The state as it looks at a moment of service time. What can be long is read through iterators that do no more work
/// than is taken from them, each from a place on, so that nobody has to take all of it at once.
#[derive(Clone, Copy, Debug)]
pub struct Picture<'a> {
    state: &'a State,
    now: Millis,
}

impl<'a> Picture<'a> {
    /// The names that begin with a prefix, in order, from the first one after a given name: all that are remembered, or
    /// those that somebody holds or waits for.
    pub fn names(
        self,
        prefix: &'a str,
        after: Option<&'a Name>,
        with_idle: bool,
    ) -> impl Iterator<Item = Summary> + 'a {
        let start = match after {
            Some(name) if &*name.0 >= prefix => Bound::Excluded(&*name.0),
            _ => Bound::Included(prefix),
        };
        let names = &self.state.names;
        names
            .from(start)
            .take_while(move |(name, _)| name.0.starts_with(prefix))
            .map(move |(_, key)| &names[key])
            .filter(move |entry| with_idle || !entry.is_idle())
            .map(move |entry| self.summary_of(entry))
    }

    /// The line of a list about one name.
    #[must_use]
    pub fn summary(self, name: &Name) -> Option<Summary> {
        Some(self.summary_of(&self.state.names[self.state.names.find(name)?]))
    }

    /// Everything about a name.
    #[must_use]
    pub fn name(self, name: &Name) -> Option<NameView> {
        Some(NameView {
            summary: self.summary(name)?,
            holders: self.holders(name, None).collect(),
            queue: self.queue(name, None).map(|(_, waiter)| waiter).collect(),
            history: self.history(name).collect(),
            value: self.value(name),
            delayed_for: self.delayed_for(name),
        })
    }

    /// Who hold a name, the oldest grant first, from the first one after a token.
    pub fn holders(self, name: &Name, after: Option<Token>) -> impl Iterator<Item = HolderView> + use<'a> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let entry = self.entry(name);
        let holders = entry.into_iter().flat_map(move |entry| entry.holders.range((start, Bound::Unbounded)));
        holders.filter_map(move |(token, mode)| self.holder(*token, *mode))
    }

    /// Who wait for a name, the next one first, from the first one behind a place, each with its place.
    pub fn queue(
        self,
        name: &Name,
        after: Option<QueuePlace>,
    ) -> impl Iterator<Item = (QueuePlace, WaiterView)> + use<'a> {
        let start = after.map_or(Bound::Unbounded, |place| Bound::Excluded(Rank::at(place)));
        let found = self.state.names.find(name);
        found.into_iter().flat_map(move |key| {
            let ranks = self.state.names[key].queue.range((start, Bound::Unbounded));
            ranks.filter_map(move |rank| {
                let wait = self.state.waits.get(&rank.arrival)?;
                Some((rank.queue_place(), self.waiter(wait, key)?))
            })
        })
    }

    /// The last who held a name, newest first.
    pub fn history(self, name: &Name) -> impl Iterator<Item = PastView> + use<'a> {
        let pasts = self.entry(name).into_iter().flat_map(|entry| entry.history.iter().rev());
        pasts.map(move |past| self.past(past))
    }

    /// What the leader of a name shows.
    #[must_use]
    pub fn value(self, name: &Name) -> Option<Arc<[u8]>> {
        self.state.leader(name).map(|leader| leader.value)
    }

    /// How long nobody gets a name, because its holder was lost.
    #[must_use]
    pub fn delayed_for(self, name: &Name) -> Option<Millis> {
        self.delay_of(self.entry(name)?)
    }

    fn delay_of(self, entry: &Entry) -> Option<Millis> {
        let until = entry.delayed_until;
        (until > 0).then(|| until.saturating_sub(self.now))
    }

    /// Everything about a session.
    #[must_use]
    pub fn session(self, session: SessionId) -> Option<SessionView> {
        Some(SessionView {
            held: self.held(session, None).collect(),
            waiting: self.waiting(session, None).collect(),
            ..self.session_head(session)?
        })
    }

    /// A session without what it holds and waits for.
    #[must_use]
    pub fn session_head(self, session: SessionId) -> Option<SessionView> {
        let found = self.state.sessions.get(&session)?;
        Some(SessionView {
            session,
            owner: (*found.owner).clone(),
            life: found.life,
            ttl_ms: found.ttl_ms,
            expires_in: found.deadline.saturating_sub(self.now),
            held: Vec::new(),
            waiting: Vec::new(),
        })
    }

    /// The sessions in the order of their numbers, from the first one after a given number.
    pub fn sessions(self, after: Option<SessionId>) -> impl Iterator<Item = SessionLine> + 'a {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let sessions = self.state.sessions.range((start, Bound::Unbounded));
        sessions.map(move |(id, session)| SessionLine {
            session: *id,
            owner: (*session.owner).clone(),
            ttl_ms: session.ttl_ms,
            expires_in: session.deadline.saturating_sub(self.now),
            held: session.held.len() as u64,
            waiting: session.waits.len() as u64,
        })
    }

    /// What a session holds under tokens after a given one, the oldest grant first.
    pub fn held(self, session: SessionId, after: Option<Token>) -> impl Iterator<Item = Held> + 'a {
        self.state.held_after(session, after)
    }

    /// What a session waits for, from the first request after a given one.
    pub fn waiting(
        self,
        session: SessionId,
        after: Option<RequestId>,
    ) -> impl Iterator<Item = (RequestId, Vec<Name>)> + 'a {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let found = self.state.sessions.get(&session);
        let waits = found.into_iter().flat_map(move |session| session.waits.range((start, Bound::Unbounded)));
        waits.filter_map(move |(request, arrival)| {
            Some((*request, self.state.names_of(self.state.waits.get(arrival)?)))
        })
    }

    /// Why those who wait for a name wait: the chain from the first of them to somebody who waits for nothing.
    #[must_use]
    pub fn why_name(self, name: &Name) -> Vec<Step> {
        let first = self.entry(name).and_then(|entry| entry.queue.first());
        first.map_or_else(Vec::new, |rank| self.chain_from(rank.arrival))
    }

    /// Why a session waits: the chain from it to somebody who waits for nothing.
    #[must_use]
    pub fn why_session(self, session: SessionId) -> Vec<Step> {
        let oldest = self.state.sessions.get(&session).and_then(|session| session.waits.values().min());
        oldest.map_or_else(Vec::new, |arrival| self.chain_from(*arrival))
    }

    /// Who leads.
    #[must_use]
    pub fn leader(self, name: &Name) -> Option<Leader> {
        self.state.leader(name)
    }

    /// What a token is worth.
    #[must_use]
    pub fn check(self, name: &Name, token: Token) -> Standing {
        self.state.check(name, token)
    }

    fn entry(self, name: &Name) -> Option<&'a Entry> {
        self.state.names.find(name).map(|key| &self.state.names[key])
    }

    fn summary_of(self, entry: &Entry) -> Summary {
        let first = entry.holders.iter().find_map(|(token, mode)| self.holder(*token, *mode));
        Summary {
            name: entry.name.clone(),
            is_election: entry.election,
            holders: u32::try_from(entry.holders.len()).unwrap_or(u32::MAX),
            waiters: u32::try_from(entry.queue.len()).unwrap_or(u32::MAX),
            first,
            newest: (entry.newest.0 > 0).then_some(entry.newest),
            delayed_for: self.delay_of(entry),
        }
    }

    fn holder(self, token: Token, mode: Mode) -> Option<HolderView> {
        let grant = self.state.grants.get(&token)?;
        let session = self.state.sessions.get(&grant.session)?;
        Some(HolderView {
            session: grant.session,
            owner: (*session.owner).clone(),
            token,
            mode,
            depth: grant.depth,
            held_for: self.now.saturating_sub(grant.since),
            expires_in: session.deadline.saturating_sub(self.now),
        })
    }

    fn waiter(self, wait: &Waiting, key: NameKey) -> Option<WaiterView> {
        let (_, mode) = wait.wants.iter().find(|(other, _)| *other == key)?;
        Some(WaiterView {
            session: wait.session,
            owner: (*self.state.sessions.get(&wait.session)?.owner).clone(),
            request: wait.request,
            mode: *mode,
            priority: wait.priority,
            waited_for: self.now.saturating_sub(wait.since),
            gives_up_in: wait.until.map(|until| until.saturating_sub(self.now)),
            names: self.state.names_of(wait),
        })
    }

    fn past(self, past: &Past) -> PastView {
        PastView {
            session: past.session,
            owner: (*past.owner).clone(),
            token: past.token,
            held_for: past.ended.saturating_sub(past.since),
            ended: self.now.saturating_sub(past.ended),
            how: past.how.text(),
        }
    }

    /// Follows one who waits to the first one in its way, and on from there.
    fn chain_from(self, start: Arrival) -> Vec<Step> {
        let mut chain = Vec::new();
        let mut seen = BTreeSet::new();
        let mut next = Some(start);
        while let Some(wait) = next.and_then(|arrival| self.state.waits.get(&arrival)) {
            if chain.len() == MAX_STEPS_TOLD || !seen.insert(wait.rank) {
                break;
            }
            let Some((step, then)) = wait.wants.iter().find_map(|want| self.step_from(wait, *want)) else {
                break;
            };
            chain.push(step);
            next = then;
        }
        chain
    }

    /// Who is in the way of one who waits at one of its names, and what that one waits for in turn.
    fn step_from(self, wait: &Waiting, (key, mode): (NameKey, Mode)) -> Option<(Step, Option<Arrival>)> {
        let state = self.state;
        let entry = &state.names[key];
        let step = |behind, since: Millis, token: Option<Token>| Step {
            wait: state.tell(wait.session, key, behind, token.is_some()),
            behind: state.owner_of(behind),
            since: self.now.saturating_sub(since),
            token,
        };
        if let Some(first) = entry.queue.first().filter(|first| **first < wait.rank) {
            let ahead = state.waits.get(&first.arrival)?;
            return Some((step(ahead.session, ahead.since, None), Some(first.arrival)));
        }
        if !entry.conflicts(mode, wait.converts) {
            return None;
        }
        let mut others = entry.holders.keys().filter(|token| Some(**token) != wait.converts);
        let (token, grant) = others.find_map(|token| Some((*token, state.grants.get(token)?)))?;
        Some((step(grant.session, grant.since, Some(token)), state.needs_of(grant).next()))
    }
}
