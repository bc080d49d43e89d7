//! Deadlocks: who would wait for whom in the end.
//!
//! The nodes are requests that wait. One waits for those before it in its queues, and for whoever holds one of its names
//! in a mode that does not go with its own; a holder gives a name back only when what its strand asked for *since* has
//! been granted, so the edge leads to these requests. (What the strand had asked for before the grant, it asked for at the
//! same time: it has no need of the one to go on with the other.)
//!
//! Only a new request can close a cycle. A grant, a release, the end of a session or a weaker mode take edges away: all
//! who stood behind a request that is granted waited for it already, and its strand has asked for nothing since. So one
//! search when a request is queued is enough, through the new request itself, and it takes along those whom it
//! overtakes by its priority, because they stand behind it by then.
//!
//! One who waits for permits waits for enough of them rather than for every holder. A cycle that contains such a wait
//! is a deadlock only if the holders outside it cannot help; then the requests that could still be granted are crossed
//! out one by one, and what is left is stuck.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use super::State;
use super::grant::{Grant, Waiting};
use super::names::{Arrival, NameKey, Rank, permits_of};
use crate::command::{Mode, SessionId, Token};
use crate::limits::MAX_STEPS_TOLD;
use crate::reply::Wait;

/// How many requests the short look counts before the long one is worth its while.
const SHORT_LOOK: usize = 64;

/// Why one request waits for another.
#[derive(Clone, Copy)]
struct Reason {
    waits: Arrival,
    name: NameKey,
    behind: SessionId,
    holds: bool,
}

/// What has been seen of a name: the queue up to a rank, and the holders.
#[derive(Default)]
struct Seen {
    queue: Option<Rank>,
    holders: bool,
}

/// A walk along the edges from a request, in order of distance.
#[derive(Default)]
struct Walk {
    reached: BTreeMap<Arrival, Reason>,
    frontier: VecDeque<Arrival>,
    names: BTreeMap<NameKey, Seen>,
    /// Some request on the way waits for enough of many holders.
    has_choice: bool,
}

/// Requests of which none can be granted before another of them, as far as is known, and what is held until they are.
///
/// Requests are crossed out one by one. Only one that is the first of these in all its queues can be, so whenever one is
/// crossed out, those are looked at again that come to the head of a queue by that, or for whose name a holder less is
/// stuck. What is stuck of a name is counted, and a strand's grants are freed in the order of their times: each request
/// leaves once, each grant is freed once, and no set is walked through twice.
#[derive(Default)]
struct Stuck {
    waits: BTreeSet<Arrival>,
    queues: BTreeMap<NameKey, BTreeSet<Rank>>,
    strands: BTreeMap<(SessionId, u32), StuckStrand>,
    /// Grants of these strands that are not given back before one of the requests is granted.
    withheld: BTreeSet<Token>,
    names: BTreeMap<NameKey, Withheld>,
    /// How many requests were looked at.
    looks: usize,
}

/// What one strand waits for, and what it holds meanwhile.
#[derive(Default)]
struct StuckStrand {
    waits: BTreeSet<Arrival>,
    /// Its grants that are withheld, the one that is freed first at the end.
    grants: Vec<(Arrival, Token)>,
}

/// How a name is held by those who are stuck.
#[derive(Clone, Copy, Default)]
struct Withheld {
    exclusive: u64,
    shared: u64,
    permits_of_holders: u64,
    permits: u64,
}

impl Withheld {
    fn count(&mut self, mode: &Mode, add: bool) {
        let change = |number: &mut u64, by: u64| *number = if add { *number + by } else { *number - by };
        match mode {
            Mode::Exclusive => change(&mut self.exclusive, 1),
            Mode::Shared => change(&mut self.shared, 1),
            Mode::Permits { .. } => {
                change(&mut self.permits_of_holders, 1);
                change(&mut self.permits, u64::from(permits_of(mode)));
            }
        }
    }

    fn is_in_the_way(self, mode: Mode) -> bool {
        match mode {
            Mode::Exclusive => self.exclusive + self.shared + self.permits_of_holders > 0,
            Mode::Shared => self.exclusive + self.permits_of_holders > 0,
            Mode::Permits { count, limit } => {
                self.exclusive + self.shared > 0 || self.permits + u64::from(count) > u64::from(limit)
            }
        }
    }
}

impl Stuck {
    fn insert(&mut self, wait: &Waiting) {
        self.waits.insert(wait.rank.arrival);
        for (key, _) in &wait.wants {
            self.queues.entry(*key).or_default().insert(wait.rank);
        }
        self.strands.entry((wait.session, wait.strand)).or_default().waits.insert(wait.rank.arrival);
    }

    fn first_of(&self, key: NameKey) -> Option<Rank> {
        self.queues.get(&key).and_then(BTreeSet::first).copied()
    }
}

impl Walk {
    fn reach(&mut self, arrival: Arrival, reason: Reason) {
        if let Entry::Vacant(vacant) = self.reached.entry(arrival) {
            vacant.insert(reason);
            self.frontier.push_back(arrival);
        }
    }
}

impl State {
    /// The cycle that a request closes by waiting, told from the request on; it stands in its queues already.
    pub(super) fn cycle_through(&self, arrival: Arrival) -> Option<Vec<Wait>> {
        let start = self.waits.get(&arrival)?;
        if !self.may_close_cycle(start) {
            return None;
        }
        let mut walk = self.walk_from(arrival, None);
        if !walk.reached.contains_key(&arrival) {
            return None;
        }
        if walk.has_choice {
            let stuck = self.stuck_among(walk.reached.keys());
            if !stuck.waits.contains(&arrival) {
                return None;
            }
            walk = self.walk_from(arrival, Some(&stuck.waits));
        }
        Some(self.tell_cycle(&walk, arrival))
    }

    /// A short look the other way: whether it can be that a request waits for itself, since somebody waits for it, and
    /// for that one somebody else, and so on. Most requests end here, however long the queue that they join.
    fn may_close_cycle(&self, start: &Waiting) -> bool {
        let mut seen = BTreeSet::new();
        let mut frontier = vec![start];
        while let Some(wait) = frontier.pop() {
            for arrival in self.waiters_for(wait) {
                if arrival == start.rank.arrival || seen.len() == SHORT_LOOK {
                    return true;
                }
                if seen.insert(arrival) {
                    frontier.extend(self.waits.get(&arrival));
                }
            }
        }
        false
    }

    /// All who may wait for a request: those behind it, and those in the queues of what its strand holds.
    fn waiters_for(&self, wait: &Waiting) -> impl Iterator<Item = Arrival> {
        let (rank, strand) = (wait.rank, wait.strand);
        let behind = (Bound::Excluded(rank), Bound::Unbounded);
        let behind = wait.wants.iter().flat_map(move |(key, _)| self.names[*key].queue.range(behind));
        let session = self.sessions.get(&wait.session).into_iter();
        let held = session
            .flat_map(move |session| session.held.range((strand, Token(0))..=(strand, Token(u64::MAX))));
        let grants = held
            .filter_map(|(_, token)| self.grants.get(token))
            .filter(move |grant| grant.after < rank.arrival);
        let blocked = grants.flat_map(|grant| &grant.names).flat_map(|key| &self.names[*key].queue);
        behind.chain(blocked).map(|rank| rank.arrival)
    }

    /// Follows all edges from a request, only to requests of a set if one is given. Without a choice on the way, it
    /// stops as soon as it is back.
    fn walk_from(&self, start: Arrival, within: Option<&BTreeSet<Arrival>>) -> Walk {
        let mut walk = Walk::default();
        walk.frontier.push_back(start);
        while let Some(arrival) = walk.frontier.pop_front() {
            if let Some(wait) = self.waits.get(&arrival) {
                for (key, mode) in &wait.wants {
                    self.follow_holders(&mut walk, wait, (*key, *mode), within);
                    self.follow_queue(&mut walk, wait, *key, within);
                }
            }
            if walk.reached.contains_key(&start) && (!walk.has_choice || within.is_some()) {
                break;
            }
        }
        walk
    }

    fn follow_holders(
        &self,
        walk: &mut Walk,
        wait: &Waiting,
        (key, mode): (NameKey, Mode),
        within: Option<&BTreeSet<Arrival>>,
    ) {
        let entry = &self.names[key];
        let seen = walk.names.entry(key).or_default();
        if seen.holders || !entry.conflicts(mode, wait.converts) {
            return;
        }
        // One who converts is not in its own way, but it may be in the way of others.
        seen.holders = wait.converts.is_none();
        walk.has_choice |= matches!(mode, Mode::Permits { .. });
        for token in entry.holders.keys().filter(|token| Some(**token) != wait.converts) {
            let Some(grant) = self.grants.get(token) else { continue };
            let (waits, behind) = (wait.rank.arrival, grant.session);
            for arrival in self.needs_of(grant) {
                if within.is_none_or(|set| set.contains(&arrival)) {
                    walk.reach(arrival, Reason { waits, name: key, behind, holds: true });
                }
            }
        }
    }

    fn follow_queue(
        &self,
        walk: &mut Walk,
        wait: &Waiting,
        key: NameKey,
        within: Option<&BTreeSet<Arrival>>,
    ) {
        let seen = walk.names.entry(key).or_default();
        let queue = &self.names[key].queue;
        let ahead = match seen.queue {
            Some(rank) if rank >= wait.rank => return,
            Some(rank) => queue.range(rank..wait.rank),
            None => queue.range(..wait.rank),
        };
        seen.queue = Some(wait.rank);
        for rank in ahead {
            let Some(other) = self.waits.get(&rank.arrival) else { continue };
            if within.is_none_or(|set| set.contains(&rank.arrival)) {
                let (waits, behind) = (wait.rank.arrival, other.session);
                walk.reach(rank.arrival, Reason { waits, name: key, behind, holds: false });
            }
        }
    }

    /// What the strand of a grant has asked for since, and must get before it goes on.
    pub(super) fn needs_of(&self, grant: &Grant) -> impl Iterator<Item = Arrival> {
        let since = (grant.strand, Arrival(grant.after.0 + 1));
        let forever = (grant.strand, Arrival(u64::MAX));
        let session = self.sessions.get(&grant.session).into_iter();
        session
            .flat_map(move |session| session.strand_waits.range(since..=forever))
            .map(|(_, arrival)| *arrival)
    }

    /// Those of a set, closed under waiting, that can never be granted: the others are crossed out one by one.
    fn stuck_among<'a>(&self, waits: impl Iterator<Item = &'a Arrival>) -> Stuck {
        let mut stuck = Stuck::default();
        for wait in waits.filter_map(|arrival| self.waits.get(arrival)) {
            stuck.insert(wait);
        }
        self.withhold(&mut stuck);
        let mut to_look_at: Vec<Arrival> = stuck.waits.iter().copied().collect();
        while let Some(arrival) = to_look_at.pop() {
            let Some(wait) = self.waits.get(&arrival).filter(|_| stuck.waits.contains(&arrival)) else {
                continue;
            };
            stuck.looks += 1;
            if !self.is_stuck(wait, &stuck) {
                self.cross_out(wait, &mut stuck, &mut to_look_at);
            }
        }
        stuck
    }

    /// Finds out what is held by strands that are stuck: they need what they asked for after a grant to give it back.
    fn withhold(&self, stuck: &mut Stuck) {
        let mut strands = std::mem::take(&mut stuck.strands);
        for ((session, strand), of) in &mut strands {
            let Some(session) = self.sessions.get(session) else { continue };
            let Some(last) = of.waits.last().copied() else { continue };
            let held = session.held.range((*strand, Token(0))..=(*strand, Token(u64::MAX)));
            let grants = held.filter_map(|(_, token)| Some((self.grants.get(token)?.after, *token)));
            of.grants = grants.filter(|(after, _)| *after < last).collect();
            of.grants.sort_unstable();
            for (_, token) in &of.grants {
                stuck.withheld.insert(*token);
                self.count_withheld(*token, stuck, true, |_| {});
            }
        }
        stuck.strands = strands;
    }

    /// Counts a grant among what is withheld of its names, or no longer.
    fn count_withheld(&self, token: Token, stuck: &mut Stuck, add: bool, mut tell: impl FnMut(Rank)) {
        let Some(grant) = self.grants.get(&token) else { return };
        for key in &grant.names {
            if let Some(mode) = self.names[*key].holders.get(&token) {
                stuck.names.entry(*key).or_default().count(mode, add);
            }
            stuck.first_of(*key).into_iter().for_each(&mut tell);
        }
    }

    fn cross_out(&self, wait: &Waiting, stuck: &mut Stuck, to_look_at: &mut Vec<Arrival>) {
        let arrival = wait.rank.arrival;
        stuck.waits.remove(&arrival);
        for (key, _) in &wait.wants {
            if let Some(queue) = stuck.queues.get_mut(key) {
                queue.remove(&wait.rank);
                to_look_at.extend(queue.first().map(|next| next.arrival));
            }
        }
        let Some(strand) = stuck.strands.get_mut(&(wait.session, wait.strand)) else { return };
        strand.waits.remove(&arrival);
        let last = strand.waits.last().copied();
        let is_free = |(after, _): &(Arrival, Token)| last.is_none_or(|last| *after >= last);
        let keep = strand.grants.iter().rposition(|grant| !is_free(grant)).map_or(0, |at| at + 1);
        for (_, token) in strand.grants.split_off(keep) {
            stuck.withheld.remove(&token);
            self.count_withheld(token, stuck, false, |first| to_look_at.push(first.arrival));
        }
    }

    fn is_stuck(&self, wait: &Waiting, stuck: &Stuck) -> bool {
        wait.wants.iter().any(|(key, mode)| {
            stuck.first_of(*key).is_some_and(|first| first < wait.rank)
                || self.is_withheld(wait, (*key, *mode), stuck)
        })
    }

    /// Whether a name stays held in a way that does not go with a mode, by holders who need one of those stuck.
    fn is_withheld(&self, wait: &Waiting, (key, mode): (NameKey, Mode), stuck: &Stuck) -> bool {
        let mut withheld = stuck.names.get(&key).copied().unwrap_or_default();
        // One who converts is not in its own way.
        if let Some(own) = wait.converts.filter(|own| stuck.withheld.contains(own))
            && let Some(held) = self.names[key].holders.get(&own)
        {
            withheld.count(held, false);
        }
        withheld.is_in_the_way(mode)
    }

    fn tell_cycle(&self, walk: &Walk, start: Arrival) -> Vec<Wait> {
        let mut steps = Vec::new();
        let mut next = walk.reached.get(&start);
        while let Some(reason) = next {
            if let Some(wait) = self.waits.get(&reason.waits) {
                steps.push(self.tell(wait.session, reason.name, reason.behind, reason.holds));
            }
            next = walk.reached.get(&reason.waits).filter(|_| reason.waits != start);
        }
        steps.reverse();
        steps.truncate(MAX_STEPS_TOLD);
        steps
    }

    pub(super) fn tell(&self, session: SessionId, name: NameKey, behind: SessionId, holds: bool) -> Wait {
        let owner = self.sessions.get(&session).map(|session| (*session.owner).clone()).unwrap_or_default();
        Wait { session, owner, name: self.names[name].name.clone(), behind, holds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Acquire, Act, Batch, Command, Life, Owner, Patience, Purpose, RequestId, Want};
    use crate::reply::Outcome;

    const SHARED: Mode = Mode::Shared;
    const ALONE: Mode = Mode::Exclusive;

    const fn permits(count: u32, limit: u32) -> Mode {
        Mode::Permits { count, limit }
    }

    /// What came of this, one after the other: session, strand, and what it locks or releases.
    fn played(deeds: &[(u64, u32, Deed<'_>)]) -> State {
        let mut commands = Vec::new();
        let mut command = |session: u64, act| {
            let request = RequestId(commands.len() as u64 + 1);
            let (session, life) = (SessionId(session), Life(1));
            commands.push(Command { session, life, request, acked: request, settled: Vec::new(), act });
        };
        for session in 1..=4 {
            let owner = Owner::default();
            command(session, Act::Open { ttl_ms: 1_000, owner, ends_with_connection: false, reopens: false });
        }
        for (session, strand, deed) in deeds {
            command(
                *session,
                match deed {
                    Deed::Lock(name, mode) => lock(*strand, name, *mode),
                    Deed::Release(token) => Act::Release(Token(*token)),
                },
            );
        }
        let mut state = State::default();
        state.apply(&Batch { now: 1, commands, floor: 0 }, &mut Outcome::default());
        state
    }

    enum Deed<'a> {
        Lock(&'a str, Mode),
        Release(u64),
    }

    fn lock(strand: u32, name: &str, mode: Mode) -> Act {
        Act::Acquire(Acquire {
            wants: vec![Want { name: name.into(), mode }],
            patience: Patience::Forever,
            priority: 0,
            reentrant: false,
            strand,
            purpose: Purpose::Lock,
            lock_delay_ms: 0,
        })
    }

    /// How many of all who wait are stuck.
    fn stuck(deeds: &[(u64, u32, Deed<'_>)], waiting: usize) -> usize {
        let state = played(deeds);
        assert_eq!(state.waits.len(), waiting);
        state.stuck_among(state.waits.keys()).waits.len()
    }

    #[test]
    fn what_is_withheld_is_in_the_way_of_what_does_not_go_with_it() {
        let held = [
            &[][..],
            &[ALONE],
            &[SHARED],
            &[permits(2, 4)],
            &[SHARED, SHARED],
            &[permits(2, 4), permits(1, 4)],
        ];
        let wanted = [ALONE, SHARED, permits(1, 4), permits(2, 4), permits(3, 4)];
        let expected = [
            [false, false, false, false, false],
            [true, true, true, true, true],
            [true, false, true, true, true],
            [true, true, false, false, true],
            [true, false, true, true, true],
            [true, true, false, true, true],
        ];
        for (modes, expected) in held.iter().zip(expected) {
            let mut withheld = Withheld::default();
            modes.iter().for_each(|mode| withheld.count(mode, true));
            assert_eq!(wanted.map(|mode| withheld.is_in_the_way(mode)), expected, "{modes:?} is held");
            modes.iter().for_each(|mode| withheld.count(mode, false));
            assert_eq!(wanted.map(|mode| withheld.is_in_the_way(mode)), [false; 5], "{modes:?} was held");
        }
    }

    #[test]
    fn what_was_asked_for_before_a_grant_does_not_withhold_it() {
        use Deed::{Lock, Release};
        // Session 2 asks for x and for y, and is granted x: it has asked for nothing since.
        let before = || {
            vec![
                (3, 0, Lock("x", ALONE)),
                (1, 0, Lock("y", ALONE)),
                (2, 0, Lock("x", ALONE)),
                (2, 0, Lock("y", ALONE)),
                (3, 0, Release(1)),
                (1, 0, Lock("x", ALONE)),
            ]
        };
        assert_eq!(stuck(&before(), 2), 0);
        // Whatever it asks for now withholds x, until it has that.
        let mut since = before();
        since.insert(0, (4, 0, Lock("z", ALONE)));
        since[5].2 = Release(2);
        since.push((2, 0, Lock("z", ALONE)));
        assert_eq!(stuck(&since, 3), 0);
    }

    #[test]
    fn what_one_request_needs_is_withheld_though_another_one_can_go() {
        use Deed::Lock;
        // Session 1 waits for a permit, which it will get, and for x, which it will not: it keeps y.
        let deeds = [
            (3, 0, Lock("z", permits(1, 1))),
            (1, 0, Lock("y", ALONE)),
            (2, 0, Lock("x", ALONE)),
            (1, 0, Lock("z", permits(1, 1))),
            (1, 0, Lock("x", ALONE)),
            (2, 0, Lock("y", ALONE)),
        ];
        // The last one was refused.
        assert_eq!(stuck(&deeds, 2), 0);
    }

    /// A session whose strands wait in a chain: each holds a name and waits for that of the next, the first one for a permit.
    /// The last one waits for nothing, so nobody is stuck.
    fn chain(length: u32) -> State {
        let names: Vec<String> = (0..=length).map(|strand| format!("n{strand}")).collect();
        let mut deeds = vec![(2, 0, Deed::Lock("permits", permits(1, 2)))];
        deeds.push((1, 1, Deed::Lock("permits", permits(1, 2))));
        deeds.extend((0..).zip(&names).map(|(strand, name)| (1, strand, Deed::Lock(name, ALONE))));
        // Each waits for one that arrives later: the worst order for passes over all.
        let next = (1..length).zip(&names[2..]);
        deeds.extend(next.map(|(strand, name)| (1, strand, Deed::Lock(name, ALONE))));
        played(&deeds)
    }

    #[test]
    fn each_request_is_looked_at_a_few_times_however_long_the_chain() {
        for length in [10, 300] {
            let state = chain(length);
            assert_eq!(state.waits.len(), length as usize - 1);
            let stuck = state.stuck_among(state.waits.keys());
            assert!(stuck.waits.is_empty(), "the last one can go on, and so can all before it");
            assert!(stuck.withheld.is_empty());
            assert!(stuck.looks <= 4 * state.waits.len(), "{} looks at {}", stuck.looks, state.waits.len());
        }
    }
}
