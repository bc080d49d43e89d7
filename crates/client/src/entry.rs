//! What the driver knows of one session: what it has asked, what was answered, and what the service can forget.
//!
//! Requests are numbered as they leave. The service remembers the reply to each until it is acknowledged:
//!
//! ```text
//!          1   2   3   4   5   6   7          next request
//!          ─   W   ─   W'  ─   ?   ?
//!                              └ acked: everything below has had a reply
//! ─  answered      W  told that it waits      W' waited, and answered: settled by its number      ?  no reply yet
//! ```
//!
//! What was settled is said with the next command that leaves for the first time, and again on a new connection, unless a
//! reply to that command or to a later one shows that it has arrived.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use conclave_wire::v1;
use conclave_wire::v1::command::Act;

use crate::clock::Moment;
use crate::driver::Answer;
use crate::error::Error;
use crate::mutant::{self, Mutant};
use crate::session::Shared;

/// Requests beyond `acked` at which a session holds back what may be refused for room: the service remembers 1000 replies
/// to a session, and refuses more.
const WINDOW: u64 = 512;
/// Settled requests that one command names.
const SETTLED_AT_ONCE: usize = 512;
/// Refused requests that are remembered.
const MOST_DISOWNED: usize = 128;

/// A request that has no final answer yet.
pub struct Pending {
    pub act: Act,
    pub ticket: u64,
    pub answer: Answer,
    /// When it was sent for the first time: what it renewed, it renewed after that.
    pub first_sent: Option<Moment>,
}

impl Pending {
    /// Whether it may wait in a queue of the service for as long as it takes.
    pub fn can_wait(&self) -> bool {
        matches!(self.act, Act::Acquire(_) | Act::Convert(_))
    }
}

/// What the driver knows of a session.
pub struct Entry {
    pub shared: Arc<Shared>,
    pub open: v1::Open,
    pub last_sent: Moment,
    /// When the last request was sent that is known to have renewed it.
    last_renewed: Moment,
    /// Whether it has made itself known on the present connection.
    pub is_known: bool,
    next_request: u64,
    pending: BTreeMap<u64, Pending>,
    /// The pending requests that have had no reply at all.
    unheard: BTreeSet<u64>,
    /// What is to be asked as soon as there is room: it has no number yet.
    backlog: VecDeque<Pending>,
    /// Settled requests that the service is to be told of.
    settled: Vec<u64>,
    /// Those that it was told of, and by which request.
    told: VecDeque<(u64, Vec<u64>)>,
    /// Tokens under which nothing is held any more, unless the conversion that is under way exchanged them.
    pub doubtful: BTreeSet<u64>,
    /// Requests that were refused for lack of room, the last ones. The refusal may be that of one node: a copy of the
    /// request may be in flight through another one, and nobody wants any more what it would get.
    disowned: BTreeMap<u64, Act>,
    /// The greatest token that it was granted.
    newest: u64,
}

impl Entry {
    pub fn new(shared: Arc<Shared>, open: v1::Open, now: Moment) -> Self {
        Self {
            shared,
            open,
            last_sent: now,
            last_renewed: now,
            is_known: true,
            next_request: 1,
            pending: BTreeMap::new(),
            unheard: BTreeSet::new(),
            backlog: VecDeque::new(),
            settled: Vec::new(),
            told: VecDeque::new(),
            doubtful: BTreeSet::new(),
            disowned: BTreeMap::new(),
            newest: 0,
        }
    }

    /// Takes something up that is to be asked; gives its number if it is to be sent now. What may be refused for room waits
    /// until there is room, and for a connection.
    pub fn ask(&mut self, act: Act, ticket: u64, answer: Answer, is_linked: bool) -> Option<u64> {
        let holds_back = !is_linked || !self.has_room() || !self.backlog.is_empty();
        if holds_back && may_be_refused(&act) {
            self.backlog.push_back(Pending { act, ticket, answer, first_sent: None });
            return None;
        }
        Some(self.number(act, ticket, answer))
    }

    /// Numbers a request and remembers it.
    pub fn number(&mut self, act: Act, ticket: u64, answer: Answer) -> u64 {
        self.number_pending(Pending { act, ticket, answer, first_sent: None })
    }

    fn number_pending(&mut self, pending: Pending) -> u64 {
        let request = self.next_request;
        self.next_request += 1;
        self.pending.insert(request, pending);
        self.unheard.insert(request);
        request
    }

    pub fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// What there is room for now of what was held back.
    pub fn take_backlog(&mut self, now: Moment) -> Vec<v1::Command> {
        let mut commands = Vec::new();
        while self.has_room()
            && let Some(pending) = self.backlog.pop_front()
        {
            let request = self.number_pending(pending);
            commands.extend(self.command(request, now));
        }
        commands
    }

    fn has_room(&self) -> bool {
        self.next_request - self.acked() < WINDOW
    }

    /// Everything below has had a reply.
    fn acked(&self) -> u64 {
        self.unheard.first().copied().unwrap_or(self.next_request)
    }

    /// Makes itself known on a new connection, which tells what it still holds, and asks again what was not answered,
    /// in the old order.
    pub fn introduce(&mut self, now: Moment) -> Vec<v1::Command> {
        self.is_known = true;
        // Nobody knows what of it arrived.
        self.settled.extend(self.told.drain(..).flat_map(|(_, settled)| settled));
        let is_opening = self.pending.values().any(|pending| matches!(pending.act, Act::Open(_)));
        if !is_opening {
            self.number(Act::Open(self.open.clone()), 0, Answer::Nobody);
        }
        let mut requests: Vec<u64> = self.pending.keys().copied().collect();
        requests.sort_by_key(|request| !matches!(self.pending[request].act, Act::Open(_)));
        let mut commands: Vec<v1::Command> =
            requests.into_iter().filter_map(|request| self.command(request, now)).collect();
        commands.extend(self.take_backlog(now));
        commands
    }

    /// The command for a request that is pending.
    pub fn command(&mut self, request: u64, now: Moment) -> Option<v1::Command> {
        // What has been told that it waits is below what is acknowledged, and may be asked again.
        let acked = self.acked().min(request);
        let pending = self.pending.get_mut(&request)?;
        let is_first = pending.first_sent.is_none();
        pending.first_sent.get_or_insert(now);
        self.last_sent = now;
        let act = Some(pending.act.clone());
        // The reply to a copy may be that to an earlier one, and says nothing about what came with the copy.
        let settled = if is_first { self.tell_settled(request, acked) } else { Vec::new() };
        Some(v1::Command { session: self.shared.id, life: self.shared.life, request, acked, settled, act })
    }

    /// The settled requests that this command tells, as how far each is below what it acknowledges.
    fn tell_settled(&mut self, request: u64, acked: u64) -> Vec<u64> {
        // A reply to one command shows that those before it have arrived: so only ever later ones tell.
        let is_later = self.told.back().is_none_or(|(by, _)| *by < request);
        if self.settled.is_empty() || !is_later {
            return Vec::new();
        }
        let mut telling = Vec::new();
        self.settled.retain(|settled| {
            let is_told = *settled < acked && telling.len() < SETTLED_AT_ONCE;
            if is_told {
                telling.push(*settled);
            }
            !is_told
        });
        let below = telling.iter().map(|settled| acked - settled).collect();
        if !telling.is_empty() {
            self.told.push_back((request, telling));
        }
        below
    }

    pub fn pending(&self, request: u64) -> Option<&Pending> {
        self.pending.get(&request)
    }

    /// There was a reply to a request.
    pub fn hear(&mut self, request: u64, reply: &v1::Reply) {
        let Some(pending) = self.pending.get(&request) else { return };
        self.unheard.remove(&request);
        if !reply.renewed && !mutant::is(Mutant::RefusalsRenew) {
            // Refused by a node: the service has not seen it, nor what came with it. It renewed nothing, so the next renewal
            // is due as if it had never been sent.
            self.last_sent = self.last_renewed;
            if let Some(place) = self.told.iter().position(|(by, _)| *by == request) {
                self.settled.extend(self.told.remove(place).into_iter().flat_map(|(_, settled)| settled));
            }
            return;
        }
        if let Some(sent) = pending.first_sent {
            self.last_renewed = self.last_renewed.max(sent);
            self.shared.renewed(sent);
        }
        while self.told.front().is_some_and(|(by, _)| *by <= request) {
            self.told.pop_front();
        }
    }

    /// Takes a request off that has its final reply.
    pub fn settle(&mut self, request: u64, waited: bool) -> Option<Pending> {
        let pending = self.pending.remove(&request)?;
        self.unheard.remove(&request);
        if waited {
            self.settled.push(request);
        }
        Some(pending)
    }

    /// Nobody wants any more what a request asked for that was refused for lack of room.
    pub fn disown(&mut self, request: u64, act: Act) {
        self.disowned.insert(request, act);
        if self.disowned.len() > MOST_DISOWNED {
            self.disowned.pop_first();
        }
    }

    /// What a request asked for that nobody wants any more and that got it all the same.
    pub fn take_disowned(&mut self, request: u64, waited: bool) -> Option<Act> {
        let act = self.disowned.remove(&request)?;
        if waited {
            self.settled.push(request);
        }
        Some(act)
    }

    pub fn is_disowned(&self, request: u64) -> bool {
        self.disowned.contains_key(&request)
    }

    /// Notes a token that was granted; says whether it is a new one, rather than one of a reply that is repeated.
    pub fn note_token(&mut self, token: u64) -> bool {
        let is_new = token > self.newest;
        self.newest = self.newest.max(token);
        is_new
    }

    /// Stops waiting for the request with this ticket; gives the number of what cancels it.
    pub fn abandon(&mut self, ticket: u64) -> Option<u64> {
        if let Some(place) = self.backlog.iter().position(|pending| pending.ticket == ticket) {
            // It was never sent.
            self.backlog.remove(place);
            return None;
        }
        let (request, pending) = self.pending.iter_mut().find(|(_, pending)| pending.ticket == ticket)?;
        pending.answer = Answer::Nobody;
        let cancel = Act::Cancel(v1::Cancel { request: *request });
        Some(self.number(cancel, 0, Answer::Nobody))
    }

    /// Nobody waits for an answer any more. What was asked stays asked, but for what waits in a queue: it is cancelled when
    /// there is a connection again.
    pub fn give_up_waiting(&mut self, why: &Error) {
        for pending in self.backlog.drain(..) {
            pending.answer.fail(why.clone());
        }
        let mut cancelled = Vec::new();
        for (request, pending) in &mut self.pending {
            let answer = std::mem::replace(&mut pending.answer, Answer::Nobody);
            if pending.can_wait() && !matches!(answer, Answer::Nobody) {
                cancelled.push(*request);
            }
            answer.fail(why.clone());
        }
        for request in cancelled {
            self.number(Act::Cancel(v1::Cancel { request }), 0, Answer::Nobody);
        }
    }

    /// It is over: so is everything that it asked.
    pub fn fail(self, why: &Error) {
        for pending in self.pending.into_values().chain(self.backlog) {
            pending.answer.fail(why.clone());
        }
    }

    pub fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.backlog.is_empty()
    }

    /// The tokens that may have been exchanged for others, since nobody knows yet what became of their conversions.
    pub fn converting(&self) -> BTreeSet<u64> {
        let conversions = self.pending.values().filter_map(|pending| match &pending.act {
            Act::Convert(convert) => Some(convert.token),
            _ => None,
        });
        conversions.collect()
    }

    pub fn renew_at(&self) -> Moment {
        self.last_sent + self.shared.ttl / 3
    }

    /// When there is something to be done for it at the latest. One that is not open yet has nothing to lose.
    pub fn next_look(&self) -> Moment {
        let renew_at = self.renew_at();
        if self.shared.is_open() { renew_at.min(self.shared.safe_until()) } else { renew_at }
    }
}

/// Whether the service may refuse it because it remembers too much. What gives something up is never refused.
fn may_be_refused(act: &Act) -> bool {
    match act {
        Act::Acquire(_)
        | Act::Convert(_)
        | Act::Proclaim(_)
        | Act::Transfer(_)
        | Act::Force(_)
        | Act::End(_) => true,
        Act::Open(_) | Act::Renew(_) | Act::Close(_) | Act::Cancel(_) | Act::Release(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::mpsc;

    use super::*;
    use crate::clock::{Clock, SystemClock};

    fn entry() -> Entry {
        let (orders, _) = mpsc::unbounded_channel();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let shared = Arc::new(Shared::new(7, 9, Duration::from_secs(10), orders, clock));
        Entry::new(shared, v1::Open::default(), SystemClock.now())
    }

    fn lock() -> Act {
        Act::Acquire(v1::Acquire::default())
    }

    fn release() -> Act {
        Act::Release(v1::Release { token: 1 })
    }

    impl Entry {
        /// Asks, and gives the number, what is acknowledged and what is settled with it.
        fn send(&mut self, act: Act) -> (u64, u64, Vec<u64>) {
            let request = self.ask(act, 0, Answer::Nobody, true).expect("there is room");
            said(&self.command(request, SystemClock.now()).expect("it is pending"))
        }

        fn queued(&mut self, request: u64) {
            self.hear(request, &v1::Reply { request, renewed: true, ..v1::Reply::default() });
        }

        fn answered(&mut self, request: u64, waited: bool) {
            self.queued(request);
            self.settle(request, waited).expect("it was pending");
        }

        fn refused_by_a_node(&mut self, request: u64) {
            self.hear(request, &v1::Reply { request, ..v1::Reply::default() });
            self.settle(request, false).expect("it was pending");
        }

        fn introduced(&mut self) -> Vec<(u64, u64, Vec<u64>)> {
            self.introduce(SystemClock.now()).iter().map(said).collect()
        }
    }

    fn said(command: &v1::Command) -> (u64, u64, Vec<u64>) {
        assert_eq!((command.session, command.life), (7, 9));
        let settled = command.settled.iter().map(|below| command.acked - below).collect();
        (command.request, command.acked, settled)
    }

    #[test]
    fn a_long_wait_holds_nothing_back() {
        let mut entry = entry();
        assert_eq!(entry.send(lock()), (1, 1, vec![]));
        assert_eq!(entry.send(release()), (2, 1, vec![]), "the first has had no reply");
        entry.queued(1);
        entry.answered(2, false);
        for request in 3..3_000 {
            assert_eq!(entry.send(lock()), (request, request, vec![]));
            entry.answered(request, false);
        }
    }

    #[test]
    fn what_waited_is_settled_by_its_number_and_once() {
        let mut entry = entry();
        entry.send(lock());
        entry.send(lock());
        entry.send(lock());
        entry.queued(1);
        entry.queued(3);
        entry.answered(1, true);
        entry.answered(3, true);
        assert_eq!(entry.send(release()), (4, 2, vec![1]), "3 is above what is acknowledged");
        entry.answered(2, false);
        assert_eq!(entry.send(release()), (5, 4, vec![3]));
        assert_eq!(entry.send(release()), (6, 4, vec![]));
    }

    #[test]
    fn what_may_not_have_arrived_is_said_again_on_the_next_connection() {
        let mut entry = entry();
        entry.send(lock());
        entry.send(lock());
        entry.queued(1);
        entry.queued(2);
        entry.answered(1, true);
        assert_eq!(entry.send(release()), (3, 3, vec![1]));
        entry.answered(2, true);
        assert_eq!(entry.send(release()), (4, 3, vec![2]));
        // The opening goes first and says it; copies of what was asked before do not.
        assert_eq!(entry.introduced(), [(5, 3, vec![1, 2]), (3, 3, vec![]), (4, 3, vec![])]);
        // A reply to a copy may be that to what was sent before: it says nothing about the opening.
        entry.answered(4, false);
        assert_eq!(entry.introduced()[0], (5, 3, vec![]), "a copy of the opening is a copy");
        entry.answered(3, false);
        assert_eq!(entry.send(release()), (6, 5, vec![1, 2]));
        entry.answered(6, false);
        entry.answered(5, false);
        assert_eq!(entry.introduced(), [(7, 7, vec![])], "now it has arrived");
    }

    #[test]
    fn what_waits_is_asked_again_below_what_is_acknowledged() {
        let mut entry = entry();
        entry.send(lock());
        entry.queued(1);
        entry.send(lock());
        entry.answered(2, false);
        assert_eq!(entry.introduced(), [(3, 3, vec![]), (1, 1, vec![])]);
    }

    #[test]
    fn more_than_the_service_remembers_is_held_back_but_for_what_gives_something_up() {
        let mut entry = entry();
        while entry.ask(lock(), 5, Answer::Nobody, true).is_some() {}
        assert_eq!((entry.pending.len() as u64, entry.backlog.len()), (WINDOW, 1));
        for request in WINDOW + 1..WINDOW + 1_000 {
            assert_eq!(entry.send(release()), (request, 1, vec![]));
        }
        // Neither what was held back goes nor what comes after it, before there is room.
        assert_eq!(entry.ask(lock(), 6, Answer::Nobody, true), None);
        (1..=900).for_each(|request| entry.answered(request, false));
        assert_eq!(entry.take_backlog(SystemClock.now()).len(), 0);
        (901..WINDOW + 1_000).for_each(|request| entry.answered(request, false));
        // What was never sent needs no cancelling.
        assert_eq!(entry.abandon(5), None);
        let commands = entry.take_backlog(SystemClock.now());
        assert_eq!(commands.iter().map(|command| command.request).collect::<Vec<_>>(), [WINDOW + 1_000]);
        assert_eq!(entry.abandon(6), Some(WINDOW + 1_001), "what was sent does");
        assert!(!entry.has_backlog());
    }

    #[test]
    fn nothing_that_may_be_refused_is_numbered_without_a_connection() {
        let mut entry = entry();
        assert_eq!(entry.ask(lock(), 5, Answer::Nobody, false), None);
        assert_eq!(entry.ask(release(), 0, Answer::Nobody, false), Some(1));
        // The opening, the release, and then the lock.
        assert_eq!(entry.introduced(), [(2, 1, vec![]), (1, 1, vec![]), (3, 1, vec![])]);
    }

    #[test]
    fn requests_go_on_beyond_thirty_two_bits() {
        let last = u64::from(u32::MAX);
        let mut entry = Entry { next_request: last, ..entry() };
        entry.send(lock());
        entry.queued(last);
        assert_eq!(entry.send(lock()), (last + 1, last + 1, vec![]));
        entry.answered(last, true);
        entry.answered(last + 1, false);
        assert_eq!(entry.send(release()), (last + 2, last + 2, vec![last]));
    }

    #[test]
    fn what_a_node_refuses_renews_nothing_and_tells_nothing() {
        let mut entry = entry();
        let begun = SystemClock.now();
        entry.send(lock());
        entry.queued(1);
        entry.answered(1, true);
        let due = entry.renew_at();
        assert!(due >= begun);
        // Whoever goes on asking for what is refused must be renewed all the same.
        for request in 2..5 {
            std::thread::sleep(Duration::from_millis(2));
            assert_eq!(entry.send(lock()), (request, request, vec![1]), "and what waited is told again");
            assert!(entry.renew_at() > due);
            entry.refused_by_a_node(request);
            assert_eq!(entry.renew_at(), due);
        }
        entry.send(lock());
        entry.answered(5, false);
        assert_eq!(entry.send(lock()), (6, 6, vec![]), "now it has arrived");
    }
}
