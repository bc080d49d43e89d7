//! What can be read of the state.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::State;
use super::grant::{Past, Waiting};
use super::names::{Arrival, Entry, NameKey};
use crate::command::{Mode, Name, SessionId, Token};
use crate::limits::MAX_STEPS_TOLD;
use crate::reply::{Held, Leader, Wait};
use crate::view::{HolderView, NameView, PastView, SessionView, Standing, Summary, Totals, WaiterView};

impl State {
    /// Whether that session exists.
    #[must_use]
    pub fn has_session(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    /// The names that begin with a prefix, in order, from the first one after a given name.
    pub fn names<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a Name>,
    ) -> impl Iterator<Item = Summary> + 'a {
        let start = match after {
            Some(name) if &*name.0 >= prefix => Bound::Excluded(&*name.0),
            _ => Bound::Included(prefix),
        };
        self.names
            .from(start)
            .take_while(move |(name, _)| name.0.starts_with(prefix))
            .map(|(_, key)| self.summary(&self.names[key]))
    }

    /// Everything about a name.
    #[must_use]
    pub fn name(&self, name: &Name) -> Option<NameView> {
        let entry = &self.names[self.names.find(name)?];
        let waits = entry.queue.iter().filter_map(|rank| self.waits.get(&rank.arrival));
        let key = self.names.find(name)?;
        Some(NameView {
            summary: self.summary(entry),
            holders: entry.holders.iter().filter_map(|(token, mode)| self.holder(*token, *mode)).collect(),
            queue: waits.filter_map(|wait| self.waiter(wait, key)).collect(),
            history: entry.history.iter().rev().map(|past| self.past(past)).collect(),
            value: self.leader(name).map(|leader| leader.value),
            delayed_for: (entry.delayed_until > 0).then(|| entry.delayed_until.saturating_sub(self.now)),
        })
    }

    /// Everything about a session.
    #[must_use]
    pub fn session(&self, session: SessionId) -> Option<SessionView> {
        let found = self.sessions.get(&session)?;
        let waits = found
            .waits
            .iter()
            .filter_map(|(request, arrival)| Some((*request, self.names_of(self.waits.get(arrival)?))));
        Some(SessionView {
            session,
            owner: (*found.owner).clone(),
            ttl_ms: found.ttl_ms,
            expires_in: found.deadline.saturating_sub(self.now),
            held: self.held_by(session),
            waiting: waits.collect(),
        })
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
        let first = self.names.find(name).and_then(|key| self.names[key].queue.first());
        first.map_or_else(Vec::new, |rank| self.chain_from(rank.arrival))
    }

    /// Why a session waits: the chain from it to somebody who waits for nothing.
    #[must_use]
    pub fn why_session(&self, session: SessionId) -> Vec<Wait> {
        let oldest = self.sessions.get(&session).and_then(|session| session.waits.values().min());
        oldest.map_or_else(Vec::new, |arrival| self.chain_from(*arrival))
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

    /// What a session holds, the oldest grant first.
    pub(super) fn held_by(&self, session: SessionId) -> Vec<Held> {
        let tokens = self.sessions.get(&session).map(|session| session.held.iter().map(|(_, token)| *token));
        let mut tokens: Vec<Token> = tokens.into_iter().flatten().collect();
        tokens.sort_unstable();
        tokens.into_iter().filter_map(|token| self.held_under(token)).collect()
    }

    fn held_under(&self, token: Token) -> Option<Held> {
        let grant = self.grants.get(&token)?;
        let names = grant.names.iter().filter_map(|key| {
            let entry = &self.names[*key];
            Some((entry.name.clone(), *entry.holders.get(&token)?))
        });
        Some(Held { token, names: names.collect(), depth: grant.depth })
    }

    fn summary(&self, entry: &Entry) -> Summary {
        let first = entry.holders.iter().find_map(|(token, mode)| self.holder(*token, *mode));
        Summary {
            name: entry.name.clone(),
            is_election: entry.election,
            holders: u32::try_from(entry.holders.len()).unwrap_or(u32::MAX),
            waiters: u32::try_from(entry.queue.len()).unwrap_or(u32::MAX),
            first,
            newest: (entry.newest.0 > 0).then_some(entry.newest),
        }
    }

    fn holder(&self, token: Token, mode: Mode) -> Option<HolderView> {
        let grant = self.grants.get(&token)?;
        let session = self.sessions.get(&grant.session)?;
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

    fn waiter(&self, wait: &Waiting, key: NameKey) -> Option<WaiterView> {
        let (_, mode) = wait.wants.iter().find(|(other, _)| *other == key)?;
        Some(WaiterView {
            session: wait.session,
            owner: (*self.sessions.get(&wait.session)?.owner).clone(),
            request: wait.request,
            mode: *mode,
            priority: wait.priority,
            waited_for: self.now.saturating_sub(wait.since),
            gives_up_in: wait.until.map(|until| until.saturating_sub(self.now)),
            names: self.names_of(wait),
        })
    }

    fn names_of(&self, wait: &Waiting) -> Vec<Name> {
        wait.wants.iter().map(|(key, _)| self.names[*key].name.clone()).collect()
    }

    fn past(&self, past: &Past) -> PastView {
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
    fn chain_from(&self, start: Arrival) -> Vec<Wait> {
        let mut chain = Vec::new();
        let mut seen = BTreeSet::new();
        let mut next = Some(start);
        while let Some(wait) = next.and_then(|arrival| self.waits.get(&arrival)) {
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
    fn step_from(&self, wait: &Waiting, (key, mode): (NameKey, Mode)) -> Option<(Wait, Option<Arrival>)> {
        let entry = &self.names[key];
        if let Some(first) = entry.queue.first().filter(|first| **first < wait.rank) {
            let ahead = self.waits.get(&first.arrival)?;
            return Some((self.tell(wait.session, key, ahead.session, false), Some(first.arrival)));
        }
        if !entry.conflicts(mode, wait.converts) {
            return None;
        }
        let mut others = entry.holders.keys().filter(|token| Some(**token) != wait.converts);
        let grant = others.find_map(|token| self.grants.get(token))?;
        Some((self.tell(wait.session, key, grant.session, true), self.needs_of(grant).next()))
    }
}
