//! What must hold between batches. For tests: it walks over everything.

use std::collections::{BTreeMap, BTreeSet};

use super::State;
use super::grant::Waiting;
use super::names::{Arrival, Entry, NameKey, permits_of};
use crate::command::{Mode, RequestId, Token};
use crate::limits::{
    MAX_GRANTS_PER_SESSION, MAX_HISTORY, MAX_IDLE_NAMES, MAX_REMEMBERED_REPLIES, MAX_WAITS_PER_SESSION,
};

impl State {
    /// Checks that all parts of the state agree with each other.
    ///
    /// # Panics
    ///
    /// If they do not.
    pub fn assert_invariants(&self) {
        self.assert_sessions();
        self.assert_grants();
        self.assert_waits();
        self.assert_bytes();
        for (key, entry) in self.names.entries() {
            self.assert_name(key, entry);
        }
        let idle = self.names.entries().filter(|(_, entry)| entry.is_idle()).count();
        assert_eq!(self.names.len() - idle, self.names.in_use(), "idle names are counted");
        assert!(idle <= MAX_IDLE_NAMES, "idle names are limited");
        assert!(self.limits.first().is_none_or(|(at, _)| *at > self.now), "no wait outlives its limit");
        assert!(self.delays.first().is_none_or(|(at, _)| *at > self.now), "no lock delay outlives its time");
    }

    fn assert_sessions(&self) {
        let queued: BTreeSet<_> =
            self.sessions.iter().map(|(id, session)| (session.queued_for, *id)).collect();
        assert_eq!(queued, self.expiries, "every session stands once in the queue of deadlines");
        for (id, session) in &self.sessions {
            assert!(session.queued_for <= session.deadline, "{id} is looked at before its deadline");
            assert!(session.deadline > self.now, "{id} does not outlive its deadline");
            let of_grants = self.grants.iter().filter(|(_, grant)| grant.session == *id);
            let held: BTreeSet<_> = of_grants.map(|(token, grant)| (grant.strand, *token)).collect();
            assert_eq!(held, session.held, "{id} knows what it holds");
            let of_grants = self.grants.iter().filter(|(_, grant)| grant.session == *id);
            let exchanged: BTreeMap<_, _> =
                of_grants.filter_map(|(token, grant)| Some((grant.former?, *token))).collect();
            assert_eq!(exchanged, session.exchanged, "{id} knows which tokens were exchanged");
            let of_waits: Vec<(&Arrival, &Waiting)> =
                self.waits.iter().filter(|(_, wait)| wait.session == *id).collect();
            let waits: BTreeMap<_, _> =
                of_waits.iter().map(|(arrival, wait)| (wait.request, **arrival)).collect();
            assert_eq!(waits, session.waits, "{id} knows what it waits for");
            let strands: BTreeSet<_> =
                of_waits.iter().map(|(arrival, wait)| (wait.strand, **arrival)).collect();
            assert_eq!(strands, session.strand_waits, "{id} knows which strand waits");
            let depth: usize = session.held.iter().map(|(_, token)| self.grants[token].depth as usize).sum();
            assert_eq!(depth, session.depth, "{id} knows how often it holds what");
            let (replies, late) = session.memory();
            let replies: Vec<RequestId> = replies.collect();
            assert!(
                replies.is_sorted_by(|one, next| one < next),
                "{id} remembers replies in order, each once"
            );
            let both =
                replies.iter().copied().chain(late).find(|request| session.waits.contains_key(request));
            assert_eq!(both, None, "{id} waits for nothing that is answered");
            let most = MAX_REMEMBERED_REPLIES + MAX_GRANTS_PER_SESSION + MAX_WAITS_PER_SESSION;
            assert!(session.remembered() <= most, "{id} remembers so many replies and no more");
        }
    }

    fn assert_grants(&self) {
        for (token, grant) in &self.grants {
            assert!(token.0 <= self.last_token, "{token} has been granted");
            assert!(self.sessions.contains_key(&grant.session), "{token} is held by somebody");
            assert!(grant.depth > 0, "{token} is held");
            for key in &grant.names {
                assert!(self.names[*key].holders.contains_key(token), "{token} holds its names");
            }
            let converting = grant.converting.map(|arrival| self.waits[&arrival].converts);
            assert!(
                converting.is_none_or(|converts| converts == Some(*token)),
                "{token} knows its conversion"
            );
        }
    }

    fn assert_bytes(&self) {
        for (id, session) in &self.sessions {
            let grants = self.grants.values().filter(|grant| grant.session == *id);
            let waits = self.waits.values().filter(|wait| wait.session == *id);
            let held: usize = grants.map(|grant| grant.bytes(&self.names)).sum();
            let awaited: usize = waits.map(|wait| wait.bytes(&self.names)).sum();
            assert_eq!(session.own_bytes() + held + awaited, session.bytes, "{id} knows its bytes");
        }
        let sum: usize = self.sessions.values().map(|session| session.bytes).sum();
        assert_eq!(sum, self.bytes, "the bytes of sessions are counted");
        let sum: usize = self.names.entries().map(|(_, entry)| entry.bytes()).sum();
        assert_eq!(sum, self.names.bytes(), "the bytes of names are counted");
    }

    fn assert_waits(&self) {
        let limits: BTreeSet<_> =
            self.waits.iter().filter_map(|(arrival, wait)| Some((wait.until?, *arrival))).collect();
        assert_eq!(limits, self.limits, "every limited wait ends in time");
        for (arrival, wait) in &self.waits {
            assert_eq!(*arrival, wait.rank.arrival, "a wait knows its place");
            assert!(self.sessions.contains_key(&wait.session), "nobody waits after the end of its session");
            let stands = |(key, _): &(NameKey, Mode)| self.names[*key].queue.contains(&wait.rank);
            assert!(wait.wants.iter().all(stands), "one who waits stands in all its queues");
            assert!(!self.could_go(wait), "nobody waits without need: {wait:?}");
            if let Some(token) = wait.converts {
                assert_eq!(self.grants[&token].converting, Some(*arrival), "a conversion knows its grant");
            }
        }
    }

    fn could_go(&self, wait: &Waiting) -> bool {
        wait.wants.iter().all(|(key, mode)| {
            let entry = &self.names[*key];
            entry.queue.first() == Some(&wait.rank)
                && entry.delayed_until == 0
                && !entry.conflicts(*mode, wait.converts)
        })
    }

    fn assert_name(&self, key: NameKey, entry: &Entry) {
        let name = &entry.name;
        assert_eq!(self.names.find(name), Some(key), "{name} is found");
        assert_compatible(entry);
        for token in entry.holders.keys() {
            assert!(self.grants[token].names.contains(&key), "{name} is held by a grant that knows it");
            assert_eq!(self.grants[token].value.is_some(), entry.election, "{name} has one purpose");
            assert!(*token <= entry.newest, "{name} knows its newest token");
        }
        let waits: Vec<&Waiting> = entry.queue.iter().map(|rank| &self.waits[&rank.arrival]).collect();
        let modes: Vec<Mode> = waits
            .iter()
            .flat_map(|wait| wait.wants.iter().filter(|(other, _)| *other == key).map(|(_, mode)| *mode))
            .chain(entry.holders.values().copied())
            .collect();
        let users = modes.iter().filter(|mode| permits_of(mode) > 0).count();
        let permits = entry.holders.values().map(permits_of).sum::<u32>();
        assert_eq!(
            entry.counters(),
            (permits, u32::try_from(users).unwrap_or(0)),
            "{name} counts its permits"
        );
        let candidates: Vec<_> = entry.candidates.values().copied().collect();
        let mut led: Vec<_> =
            waits.iter().filter(|wait| wait.value.is_some()).map(|wait| wait.rank.arrival).collect();
        led.sort_unstable_by_key(|arrival| self.waits[arrival].session);
        assert_eq!(candidates, led, "{name} knows its candidates");
        let delayed = entry.delayed_until > 0;
        assert_eq!(self.delays.contains(&(entry.delayed_until, key)), delayed, "{name} opens again in time");
        let unused = entry.holders.is_empty() && entry.queue.is_empty() && !delayed;
        assert_eq!(entry.is_idle(), unused, "{name} is idle if nobody uses it");
        assert!(entry.history.len() <= MAX_HISTORY, "{name} remembers so many holders and no more");
        assert!(entry.history.iter().is_sorted_by_key(|past| past.ended), "{name} remembers them in order");
    }
}

fn assert_compatible(entry: &Entry) {
    let modes: Vec<(&Token, &Mode)> = entry.holders.iter().collect();
    let [(_, first), rest @ ..] = modes.as_slice() else { return };
    let name = &entry.name;
    match first {
        Mode::Exclusive => assert!(rest.is_empty(), "{name} is held by one alone"),
        Mode::Shared => {
            assert!(
                rest.iter().all(|(_, mode)| **mode == Mode::Shared),
                "{name} is shared by all who hold it"
            );
        }
        Mode::Permits { limit, .. } => {
            let sum: u64 = modes.iter().map(|(_, mode)| u64::from(permits_of(mode))).sum();
            assert!(sum <= u64::from(*limit), "{name} has no more permits out than there are");
        }
    }
}
