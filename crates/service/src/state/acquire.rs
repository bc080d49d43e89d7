//! What a session asks to hold: granted at once, refused, or queued; held in another mode; led by another.

use std::sync::Arc;

use super::fault::Fault;
use super::grant::{Ending, Waiting};
use super::names::{Arrival, NameKey, Rank};
use super::session::Session;
use super::turn::Turn;
use crate::command::{Acquire, Mode, Name, Patience, Purpose, RequestId, SessionId, Token};
use crate::limits::{
    self, MAX_BYTES, MAX_BYTES_PER_SESSION, MAX_GRANTS, MAX_GRANTS_PER_SESSION, MAX_NAMES_IN_USE,
    MAX_WAITERS_PER_NAME, MAX_WAITS, MAX_WAITS_PER_SESSION, invalid, limit,
};
use crate::reply::{Failure, Reply};

impl Turn<'_> {
    pub fn acquire(&mut self, id: SessionId, request: RequestId, ask: &Acquire) -> Result<Reply, Failure> {
        limits::check_acquire(ask)?;
        if ask.reentrant
            && let Some(token) = self.covering_grant(id, ask)
        {
            return self.grant_again(id, token);
        }
        self.check_room_to_hold(id)?;
        let names: usize = ask.wants.iter().map(|want| want.name.0.len()).sum();
        let value = if let Purpose::Election { value } = &ask.purpose { value.len() } else { 0 };
        self.check_bytes(id, names + value)?;
        let wants: Box<[(NameKey, Mode)]> =
            ask.wants.iter().map(|want| (self.state.names.wake(&want.name), want.mode)).collect();
        let keys: Vec<NameKey> = wants.iter().map(|(key, _)| *key).collect();
        let result = self.check_use(id, ask, &keys).and_then(|()| {
            let asked = self.new_request(id, request, ask, wants);
            self.take_or_wait(asked, ask.patience)
        });
        if result.is_err() {
            keys.into_iter().for_each(|key| self.state.names.rest(key));
        }
        result
    }

    /// The grant of the same strand that already has all that is asked for.
    fn covering_grant(&self, id: SessionId, ask: &Acquire) -> Option<Token> {
        let key = self.state.names.find(&ask.wants[0].name)?;
        let session = self.state.sessions.get(&id)?;
        let of_strand = session.held.range((ask.strand, Token(0))..=(ask.strand, Token(u64::MAX)));
        let mut tokens = of_strand.map(|(_, token)| *token);
        // Whichever is shorter: what the strand holds, or who holds the name.
        if self.state.names[key].holders.len() < session.held.len() {
            let mut holders = self.state.names[key].holders.keys().copied();
            return holders
                .find(|token| session.held.contains(&(ask.strand, *token)) && self.covers(*token, ask));
        }
        tokens.find(|token| self.covers(*token, ask))
    }

    fn covers(&self, token: Token, ask: &Acquire) -> bool {
        let is_campaign = matches!(ask.purpose, Purpose::Election { .. });
        let Some(grant) = self.state.grants.get(&token) else { return false };
        grant.value.is_some() == is_campaign
            && ask.wants.iter().all(|want| {
                let key = self.state.names.find(&want.name);
                let held = key.and_then(|key| self.state.names[key].holders.get(&token));
                held.is_some_and(|held| is_covered(want.mode, *held))
            })
    }

    fn grant_again(&mut self, id: SessionId, token: Token) -> Result<Reply, Failure> {
        self.check_room_to_hold(id)?;
        let Some(grant) = self.state.grants.get_mut(&token) else { return Err(Failure::NotHeld(token)) };
        let Some(depth) = grant.depth.checked_add(1) else {
            return Err(limit(format!("{} times held already", grant.depth)));
        };
        grant.depth = depth;
        self.touched.extend(grant.names.iter().copied());
        if let Some(session) = self.state.sessions.get_mut(&id) {
            session.depth += 1;
        }
        Ok(Reply::Granted { token, depth })
    }

    /// Whether the names may be used like that, now.
    fn check_use(&self, id: SessionId, ask: &Acquire, keys: &[NameKey]) -> Result<(), Failure> {
        let election = matches!(ask.purpose, Purpose::Election { .. });
        if self.state.names.in_use() > MAX_NAMES_IN_USE {
            return Err(limit(format!("{MAX_NAMES_IN_USE} names are in use already")));
        }
        for (key, want) in keys.iter().zip(&ask.wants) {
            let entry = &self.state.names[*key];
            if let Some(used_as) = entry.clash(election, want.mode) {
                return Err(Failure::Mismatch { name: want.name.clone(), used_as });
            }
            let leads = |token: &Token| self.state.grants.get(token).is_some_and(|grant| grant.session == id);
            if election && (entry.candidates.contains_key(&id) || entry.holders.keys().any(leads)) {
                return Err(invalid(format!("this session is already a candidate for {}", want.name)));
            }
        }
        Ok(())
    }

    fn new_request(
        &mut self,
        session: SessionId,
        request: RequestId,
        ask: &Acquire,
        wants: Box<[(NameKey, Mode)]>,
    ) -> Waiting {
        let arrival = self.next_arrival();
        let priority = if self.state.suffers(Fault::IgnorePriorities) { 0 } else { ask.priority };
        Waiting {
            session,
            request,
            rank: Rank::of_priority(priority, arrival),
            priority: ask.priority,
            since: self.state.now,
            until: self.limit_of(ask.patience),
            strand: ask.strand,
            wants,
            converts: None,
            lock_delay_ms: ask.lock_delay_ms,
            value: match &ask.purpose {
                Purpose::Lock => None,
                Purpose::Election { value } => Some(Arc::clone(value)),
            },
        }
    }

    fn next_arrival(&mut self) -> Arrival {
        self.state.arrivals += 1;
        Arrival(self.state.arrivals)
    }

    fn limit_of(&self, patience: Patience) -> Option<u64> {
        match patience {
            Patience::Millis(ms) => Some(self.state.now.saturating_add(u64::from(ms))),
            Patience::Try | Patience::Forever => None,
        }
    }

    fn take_or_wait(&mut self, asked: Waiting, patience: Patience) -> Result<Reply, Failure> {
        if self.may_go(asked.rank, &asked.wants, asked.converts) {
            return Ok(match (asked.converts, asked.wants.first()) {
                (Some(token), Some(&(key, mode))) => self.strengthen(token, key, mode),
                _ => Reply::Granted { token: self.grant(asked), depth: 1 },
            });
        }
        if patience == Patience::Try {
            return Err(self.busy(&asked));
        }
        self.check_room_to_wait(&asked)?;
        self.wait(asked)
    }

    fn busy(&self, asked: &Waiting) -> Failure {
        let in_the_way = |(key, mode): &(NameKey, Mode)| {
            let entry = &self.state.names[*key];
            let first = entry.queue.first().filter(|first| **first < asked.rank);
            if entry.conflicts(*mode, asked.converts) {
                let mut others = entry.holders.keys().filter(|token| Some(**token) != asked.converts);
                let holder = others.find_map(|token| self.state.grants.get(token)).map(|grant| grant.session);
                return Some((entry.name.clone(), holder));
            }
            if let Some(first) = first {
                let wait = self.state.waits.get(&first.arrival);
                return Some((entry.name.clone(), wait.map(|wait| wait.session)));
            }
            (entry.delayed_until > 0).then(|| (entry.name.clone(), None))
        };
        let found = asked.wants.iter().find_map(in_the_way);
        let (name, session) =
            found.unwrap_or_else(|| (self.state.names[asked.wants[0].0].name.clone(), None));
        let owner = |id| Some((id, (*self.state.sessions.get(&id)?.owner).clone()));
        Failure::Busy { name, holder: session.and_then(owner) }
    }

    fn check_room_to_hold(&self, id: SessionId) -> Result<(), Failure> {
        if self.state.grants.len() >= MAX_GRANTS {
            return Err(limit(format!("{MAX_GRANTS} grants are held already")));
        }
        match self.state.sessions.get(&id) {
            Some(session) if session.depth >= MAX_GRANTS_PER_SESSION => {
                Err(limit(format!("a session holds {MAX_GRANTS_PER_SESSION} grants at most")))
            }
            _ => Ok(()),
        }
    }

    /// Whether a session may account for more bytes.
    fn check_bytes(&self, id: SessionId, more: usize) -> Result<(), Failure> {
        if self.state.bytes() + more > MAX_BYTES {
            return Err(limit(format!("names, values and owners have {MAX_BYTES} bytes together at most")));
        }
        let present = self.state.sessions.get(&id).map_or(0, |session| session.bytes);
        if present + more > MAX_BYTES_PER_SESSION {
            return Err(limit(format!(
                "names and values of a session have {MAX_BYTES_PER_SESSION} bytes together at most"
            )));
        }
        Ok(())
    }

    fn check_room_to_wait(&self, asked: &Waiting) -> Result<(), Failure> {
        if self.state.waits.len() >= MAX_WAITS {
            return Err(limit(format!("{MAX_WAITS} requests wait already")));
        }
        let unsettled = self.state.sessions.get(&asked.session).map_or(0, Session::unsettled);
        if unsettled >= MAX_WAITS_PER_SESSION {
            return Err(limit(format!("{MAX_WAITS_PER_SESSION} requests of a session wait at most")));
        }
        for (key, _) in &asked.wants {
            let entry = &self.state.names[*key];
            if entry.queue.len() >= MAX_WAITERS_PER_NAME {
                return Err(limit(format!("{MAX_WAITERS_PER_NAME} wait for {} already", entry.name)));
            }
        }
        Ok(())
    }

    /// Queues a request, unless it would wait for itself.
    fn wait(&mut self, asked: Waiting) -> Result<Reply, Failure> {
        let arrival = asked.rank.arrival;
        self.queue(asked);
        if !self.state.suffers(Fault::CloseCycles)
            && let Some(cycle) = self.state.cycle_through(arrival)
        {
            self.unqueue(arrival);
            return Err(Failure::Deadlock(cycle));
        }
        let wait = &self.state.waits[&arrival];
        let ahead = self.state.ahead(wait);
        let (wants, converts) = (wait.wants.clone(), wait.converts);
        for (key, mode) in wants {
            self.touch(key);
            self.tell_of_waiter(key, mode, converts);
        }
        Ok(Reply::Queued { ahead })
    }

    fn queue(&mut self, asked: Waiting) {
        let arrival = asked.rank.arrival;
        for (key, mode) in &asked.wants {
            let entry = &mut self.state.names[*key];
            entry.add_waiter(asked.rank, *mode);
            if asked.converts.is_none() {
                entry.election = asked.value.is_some();
            }
            if asked.value.is_some() {
                entry.candidates.insert(asked.session, arrival);
            }
        }
        if let Some(until) = asked.until {
            self.state.limits.insert((until, arrival));
        }
        let bytes = asked.bytes(&self.state.names);
        self.state.change_session(asked.session, |session| {
            session.waits.insert(asked.request, arrival);
            session.strand_waits.insert((asked.strand, arrival));
            session.bytes += bytes;
        });
        if let Some(grant) = asked.converts.and_then(|token| self.state.grants.get_mut(&token)) {
            grant.converting = Some(arrival);
        }
        self.state.waits.insert(arrival, asked);
    }

    /// Holds a name in another mode: a weaker one at once, under the same token; a stronger one when nobody else is in
    /// the way, under a new one.
    pub fn convert(
        &mut self,
        (id, request): (SessionId, RequestId),
        token: Token,
        name: &Name,
        mode: Mode,
        patience: Patience,
    ) -> Result<Reply, Failure> {
        limits::check_name(name)?;
        limits::check_mode(mode)?;
        self.own_grant(id, token)?;
        let grant = &self.state.grants[&token];
        let key = self.state.names.find(name).filter(|key| grant.names.contains(key));
        let key = key.ok_or_else(|| invalid(format!("{name} is not among the names of token {token}")))?;
        if grant.value.is_some() {
            return Err(invalid("one leads alone: an election is not held in another mode"));
        }
        if grant.converting.is_some() {
            return Err(invalid(format!("a conversion of token {token} waits already")));
        }
        let strand = grant.strand;
        let entry = &mut self.state.names[key];
        if let Some(used_as) = entry.clash(false, mode) {
            return Err(Failure::Mismatch { name: name.clone(), used_as });
        }
        if entry.holders.get(&token).is_some_and(|held| is_covered(mode, *held)) {
            entry.remove_holder(token);
            entry.add_holder(token, mode);
            self.touch(key);
            return Ok(Reply::Done);
        }
        let arrival = self.next_arrival();
        let asked = Waiting {
            session: id,
            request,
            rank: Rank::of_conversion(arrival),
            priority: 0,
            since: self.state.now,
            until: self.limit_of(patience),
            strand,
            wants: [(key, mode)].into(),
            converts: Some(token),
            lock_delay_ms: 0,
            value: None,
        };
        self.take_or_wait(asked, patience)
    }

    pub fn proclaim(&mut self, id: SessionId, token: Token, value: &Arc<[u8]>) -> Result<Reply, Failure> {
        limits::check_value(value)?;
        let key = self.led_by(id, token)?;
        let shown = self.state.grants[&token].value.as_ref().map_or(0, |shown| shown.len());
        self.check_bytes(id, value.len().saturating_sub(shown))?;
        let keeps = self.state.suffers(Fault::KeepValues);
        if let Some(grant) = self.state.grants.get_mut(&token).filter(|_| !keeps) {
            grant.value = Some(Arc::clone(value));
            self.state.change_session(id, |session| session.bytes = session.bytes - shown + value.len());
        }
        self.touch(key);
        self.tell_of_leader(token);
        Ok(Reply::Done)
    }

    pub fn transfer(&mut self, id: SessionId, token: Token, to: SessionId) -> Result<Reply, Failure> {
        let key = self.led_by(id, token)?;
        let candidate = self.state.names[key].candidates.get(&to).copied();
        let mut candidate = candidate.ok_or(Failure::NoCandidate(to))?;
        if self.state.suffers(Fault::MissHeirs)
            && let Some(first) = self.state.names[key].queue.first()
        {
            candidate = first.arrival;
        }
        self.end_grant(token, &Ending::Transferred);
        if let Some(wait) = self.withdraw(candidate) {
            let (heir, request) = (wait.session, wait.request);
            let token = self.grant(wait);
            self.answer_late(heir, request, Reply::Granted { token, depth: 1 });
        }
        Ok(Reply::Done)
    }

    /// What that session leads under that token.
    fn led_by(&self, id: SessionId, token: Token) -> Result<NameKey, Failure> {
        self.own_grant(id, token)?;
        let grant = &self.state.grants[&token];
        match (&grant.value, grant.names.first()) {
            (Some(_), Some(key)) => Ok(*key),
            _ => Err(invalid(format!("token {token} is that of a lock, not of a leader"))),
        }
    }
}

/// Whether one who holds a name in one mode may do all that another mode allows.
fn is_covered(wanted: Mode, held: Mode) -> bool {
    match (wanted, held) {
        (_, Mode::Exclusive) | (Mode::Shared, Mode::Shared) => true,
        (Mode::Permits { count, limit }, Mode::Permits { count: held, limit: of }) => {
            count <= held && limit == of
        }
        (Mode::Exclusive, Mode::Shared | Mode::Permits { .. })
        | (Mode::Shared, Mode::Permits { .. })
        | (Mode::Permits { .. }, Mode::Shared) => false,
    }
}
