//! What mutual exclusion must keep.
//!
//! One observer judges them all, from what a driver sees: who asked, who was granted, which messages went where. It
//! never looks inside an algorithm. What an entry breaks is for a [`Ledger`] per lock to say; here stands what only a
//! single run can show: which messages announce a request, how long it took, how often something happened.
//!
//! | property | claim |
//! |---|---|
//! | ME1 | safety: never two inside one lock |
//! | FENCE | every entry's fence is larger than all before it, and no two entries share one |
//! | TOK | there is one token, of the latest epoch, held or in flight; none only while a loss is being repaired |
//! | RES | a resource that refuses old fences never sees the writes of one entry between those of another |
//! | ME2 | progress: nobody waits for a message that will never come |
//! | ME3 | no starvation: every request is granted |
//! | ME4 | bounded waiting: at most B entries by others once a request is known |
//! | ME5-FCFS | grants follow the order in which requests became known |
//! | ME5-TS | grants follow the stamps of the requests |
//! | ME5-HB | of two requests, one made in knowledge of the other, the earlier is granted first |
//! | ME6 | no interference: who does not compete never delays those who do |
//! | ME7 | no delay: alone, a process enters after the messages of its own request only |
//! | GRANT | only who waits is let in |
//! | LOST | nobody is told that it is no longer inside unless it may have been taken for dead |
//!
//! Once a failure detector has called a living process dead, no algorithm that relies on it can keep ME1; what
//! remains is the fence. From then on FENCE claims only that no two entries share a fence, and RES is what counts.
//!
//! A request is *known* when every message that was sent in making it has arrived.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use conclave_core::{Disturbance, Incarnation, Input, Members, Moment, NodeId, Observer, Process, Transit};

use super::causal::Causal;
use super::judgements::{Found, Which};
use super::ledger::{Ledger, Scope};
use super::resource::Guard;
use super::tokens::Tokens;
use super::{Event, Fence, Locks, Mutex, Promises, Request};
use crate::judge::{Breach, Ending, Judge, Judgement, Violation};

/// The observer that judges all properties of mutual exclusion.
#[derive(Clone, Debug)]
pub struct Properties {
    members: Members,
    /// The longest time that a message travels, where there is one.
    pub(super) max_delay: Option<u64>,
    client_hops: Vec<RangeInclusive<u32>>,
    pub(super) locks: Vec<Watch>,
    pub(super) causal: Option<Causal>,
    /// The lock whose `Acquire` is being handled: what is sent now announces it.
    announcing: Option<usize>,
    travelling: u64,
    pub(super) moves_token: bool,
    /// Messages travel also when nobody wants anything.
    pub(super) is_restless: bool,
    pub(super) found: Found,
    pub(super) max_overtaking: u64,
    pub(super) starved: Option<String>,
    pub(super) stuck: Option<String>,
    pub(super) ending: Option<Ending>,
    pub(super) solo_entries: u64,
    pub(super) unstamped_entries: u64,
}

/// One lock.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    ledger: Ledger,
    asking: Vec<Asking>,
    /// Who asked when all was quiet, if nobody has competed since.
    solo: Option<usize>,
    pub tokens: Tokens,
    entries: Vec<u64>,
    waited: Vec<u64>,
    at_hand: Vec<u64>,
    /// Whether the resource refused what each process wrote when it got in last.
    refused: Vec<bool>,
    refused_entries: u64,
}

/// The last request of one process for one lock.
#[derive(Clone, Copy, Debug, Default)]
struct Asking {
    step: u64,
    time: u64,
    /// Serials of the messages that announce it: from, to (excluded), and how many still travel.
    announcements: (u64, u64, u32),
}

impl Watch {
    fn new(ledger: Ledger, moves_token: bool) -> Self {
        let n = ledger.members().len();
        Self {
            ledger,
            asking: vec![Asking::default(); n],
            solo: None,
            tokens: Tokens::new(if moves_token { n } else { 0 }),
            entries: vec![0; n],
            waited: vec![0; n],
            at_hand: vec![0; n],
            refused: vec![false; n],
            refused_entries: 0,
        }
    }

    pub fn has_entries(&self) -> bool {
        self.entries.iter().any(|entries| *entries > 0)
    }
}

impl Properties {
    /// Judges a run of `A` among these members, on this many locks.
    #[must_use]
    pub fn new<A: Mutex>(
        config: &A::Config,
        members: &Members,
        locks: usize,
        max_delay: Option<u64>,
    ) -> Self {
        let ledger = Ledger::new::<A>(config, members, Scope { order: true, resource: true, forever: false });
        let client_hops = members.iter().map(|id| A::client_hops(config, members, id)).collect();
        Self {
            members: members.clone(),
            max_delay,
            client_hops,
            locks: vec![Watch::new(ledger, A::moves_token(config)); locks],
            causal: causal(members.len(), locks),
            announcing: None,
            travelling: 0,
            moves_token: A::moves_token(config),
            is_restless: A::is_restless(config),
            found: Found::default(),
            max_overtaking: 0,
            starved: None,
            stuck: None,
            ending: None,
            solo_entries: 0,
            unstamped_entries: 0,
        }
    }

    /// These may join while it runs; their places come after those of the members, in this order.
    ///
    /// # Panics
    /// If one of them is a member.
    #[must_use]
    pub fn with_newcomers(mut self, newcomers: &[NodeId]) -> Self {
        if newcomers.is_empty() {
            return self;
        }
        for watch in &mut self.locks {
            *watch = Watch::new(watch.ledger.clone().with_newcomers(newcomers), self.moves_token);
            self.members = watch.ledger.members().clone();
        }
        // Bounds for who is alone hold in groups that do not change.
        self.client_hops.resize(self.members.len(), 0..=u32::MAX);
        self.causal = causal(self.members.len(), self.locks.len());
        self
    }

    /// The resource that the locks protect tells old fences from new ones in this way; by [`Guard::Fence`] unless
    /// told otherwise.
    #[must_use]
    pub fn guarded_by(mut self, guard: Guard) -> Self {
        for watch in &mut self.locks {
            watch.ledger = watch.ledger.clone().guarded_by(guard);
        }
        self
    }

    /// How many entries had a write refused by the resource, because their fence was old.
    #[must_use]
    pub fn refused_entries(&self) -> u64 {
        self.locks.iter().map(|watch| watch.refused_entries).sum()
    }

    /// Whether a failure detector has called a living process dead.
    #[must_use]
    pub fn is_misled(&self) -> bool {
        self.ledger().is_misled()
    }

    pub(super) fn is_disturbed(&self) -> bool {
        self.ledger().is_disturbed()
    }

    pub(super) fn keeps_safety(&self) -> bool {
        self.ledger().keeps_safety()
    }

    pub(super) fn keeps_entries(&self) -> bool {
        self.ledger().keeps_entries()
    }

    pub(super) fn promises(&self) -> &Promises {
        self.ledger().promises()
    }

    /// The ledger of the first lock: what is not about a single lock, all of them know.
    fn ledger(&self) -> &Ledger {
        &self.locks[0].ledger
    }

    /// Tells all locks of something that is not about one of them.
    fn tell_all(&mut self, tell: impl Fn(&mut Ledger)) {
        self.locks.iter_mut().for_each(|watch| tell(&mut watch.ledger));
    }

    /// The first promise that was broken.
    #[must_use]
    pub fn violation(&self) -> Option<&Violation> {
        self.found.violation.as_ref()
    }

    /// Entries of each process, over all locks.
    #[must_use]
    pub fn entries(&self) -> Vec<u64> {
        self.sum(|watch| &watch.entries)
    }

    /// Entries of each process that were not granted in direct answer to their own request.
    #[must_use]
    pub fn waited(&self) -> Vec<u64> {
        self.sum(|watch| &watch.waited)
    }

    /// Entries of each process that were granted while their request was being handled.
    #[must_use]
    pub fn at_hand(&self) -> Vec<u64> {
        self.sum(|watch| &watch.at_hand)
    }

    fn sum(&self, column: impl Fn(&Watch) -> &Vec<u64>) -> Vec<u64> {
        let mut total = vec![0; self.client_hops.len()];
        for watch in &self.locks {
            for (sum, one) in total.iter_mut().zip(column(watch)) {
                *sum += one;
            }
        }
        total
    }

    /// The largest number of entries by others that a known request had to see.
    #[must_use]
    pub fn max_overtaking(&self) -> u64 {
        self.max_overtaking
    }

    /// The run is over.
    pub fn end(&mut self, step: u64, ending: Ending) {
        self.ending = Some(ending);
        if let Ending::Endless { since } = ending {
            return self.starve(step, since);
        }
        for lock in 0..self.locks.len() {
            let which = self.which(lock).lock();
            let unserved: Vec<_> = self.locks[lock].ledger.unserved().collect();
            for who in unserved {
                self.unserved(step, ending, &format!("{who}{which}"));
            }
        }
    }

    /// The run is over, and somebody did not get what nobody kept it from.
    fn unserved(&mut self, step: u64, ending: Ending, who: &str) {
        match ending {
            Ending::Quiet => {
                let text = format!("nothing moves any more, and {who}");
                self.stuck = Some(text.clone());
                self.found.broken("ME2", step, || text);
            }
            Ending::OutOfTime => {
                let text = format!("time is up, and {who}");
                self.starved = Some(text.clone());
                if self.promises().no_starvation {
                    self.found.broken("ME3", step, || text);
                }
            }
            Ending::Stopped | Ending::Endless { .. } => {}
        }
    }

    /// The run repeats forever: who has been waiting all the time waits forever.
    fn starve(&mut self, step: u64, since: u64) {
        for lock in 0..self.locks.len() {
            let watch = &self.locks[lock];
            let waits = |place: &usize| watch.ledger.is_waiting(*place) && watch.asking[*place].step < since;
            let Some(place) = (0..watch.asking.len()).find(waits) else { continue };
            let (who, which) = (self.members.at(place), self.which(lock).lock());
            let text = format!("it repeats forever, and {who} still waits{which}");
            self.starved = Some(text.clone());
            if self.promises().no_starvation {
                self.found.broken("ME3", step, || text);
            }
        }
    }

    fn which(&self, lock: usize) -> Which<'_> {
        Which { members: &self.members, lock: (self.locks.len() > 1).then_some(lock) }
    }

    fn acquire(&mut self, at: &Moment, process: Process, lock: usize) {
        let (watch, place) = (&mut self.locks[lock], process.index());
        let was_free = watch.ledger.is_free();
        if !watch.ledger.acquire(place) {
            return;
        }
        watch.solo = (was_free && self.travelling == 0).then_some(place);
        watch.asking[place] = Asking { step: at.step, time: at.time, ..Asking::default() };
        self.announcing = Some(lock);
        if let Some(causal) = &mut self.causal {
            watch.ledger.follow(place, causal.request(place));
        }
    }

    fn announce(&mut self, transit: &Transit, lock: usize) {
        let asking = &mut self.locks[lock].asking[transit.from.index()];
        let (first, end, left) = &mut asking.announcements;
        if *left == 0 {
            *first = transit.serial;
        }
        *end = transit.serial + 1;
        *left += 1;
    }

    #[inline]
    fn arrive(&mut self, transit: &Transit) {
        let place = transit.from.index();
        for watch in &mut self.locks {
            let (first, end, left) = &mut watch.asking[place].announcements;
            if *left > 0 && (*first..*end).contains(&transit.serial) {
                *left -= 1;
                if *left == 0 {
                    watch.ledger.become_known(place);
                }
            }
        }
    }

    fn granted(&mut self, at: &Moment, process: Process, lock: usize, fence: Fence) {
        let which = Which { members: &self.members, lock: (self.locks.len() > 1).then_some(lock) };
        let (watch, place) = (&mut self.locks[lock], process.index());
        let mine = if watch.ledger.is_waiting(place) { watch.asking[place] } else { Asking::default() };
        let solo = watch.solo.take() == Some(place);
        let direct = at.chain.root == mine.step;
        watch.entries[place] += 1;
        watch.waited[place] += u64::from(!direct);
        watch.at_hand[place] += u64::from(direct && at.chain.hops == 0);

        let found = &mut self.found;
        let entry =
            watch.ledger.enter(place, fence, |wrong, promised| found.wrong(at.step, &wrong, promised, which));
        watch.refused[place] = entry.refused;
        watch.refused_entries += u64::from(entry.refused);
        self.max_overtaking = self.max_overtaking.max(entry.overtaken);
        self.unstamped_entries += u64::from(!entry.stamped);
        if solo && !watch.ledger.is_disturbed() {
            self.judge_solo(at, process, mine);
        }
    }

    fn lost(&mut self, at: &Moment, process: Process, lock: usize) {
        let which = Which { members: &self.members, lock: (self.locks.len() > 1).then_some(lock) };
        let found = &mut self.found;
        let ledger = &mut self.locks[lock].ledger;
        ledger.lose(process.index(), |wrong, promised| found.wrong(at.step, &wrong, promised, which));
    }

    fn release(&mut self, process: Process, lock: usize) {
        let (watch, place) = (&mut self.locks[lock], process.index());
        if watch.ledger.release(place) && !watch.refused[place] {
            watch.refused_entries += 1;
        }
    }

    fn judge_tokens(&mut self, at: &Moment) {
        for lock in 0..self.locks.len() {
            if let Some((epoch, count)) = self.locks[lock].tokens.surplus() {
                let which = self.which(lock).lock();
                let text = || format!("there are {count} tokens of epoch {epoch}{which}");
                self.found.broken("TOK", at.step, text);
            }
        }
    }

    fn judge_solo(&mut self, at: &Moment, process: Process, mine: Asking) {
        self.solo_entries += 1;
        let expected = self.client_hops[process.index()].clone();
        let (hops, took) = (at.chain.hops, at.time - mine.time);
        if at.chain.root != mine.step || !expected.contains(&hops) {
            self.found.broken("ME7", at.step, || {
                format!(
                    "{} was alone and entered after {hops} messages in a row, not {expected:?}",
                    process.id
                )
            });
        }
        let bound = self.max_delay.map(|delay| delay * u64::from(*expected.end()));
        if let Some(bound) = bound.filter(|bound| took > *bound) {
            self.found.broken("ME6", at.step, || {
                format!("{} was alone and waited {took} us, more than {bound} us", process.id)
            });
        }
    }
}

/// With several locks a request may be made in knowledge of a request for another one, which does not count.
fn causal(n: usize, locks: usize) -> Option<Causal> {
    (n <= Causal::MOST && locks == 1).then(|| Causal::new(n))
}

impl<P: Locks> Observer<P> for Properties {
    #[inline(always)]
    fn input(&mut self, at: &Moment, process: Process, input: &Input<P>) {
        let place = process.index();
        let request = match input {
            Input::Request(request) => request,
            Input::PeerDown { peer, life } => {
                return self.tell_all(|ledger| ledger.suspect(*peer, *life));
            }
            Input::Start | Input::Receive { .. } | Input::Expire(_) | Input::PeerUp { .. } => return,
        };
        match P::asked(request) {
            (lock, Request::Acquire) => self.acquire(at, process, lock),
            (lock, Request::Release) => self.release(process, lock),
            (lock, Request::Cancel) => self.locks[lock].ledger.withdraw(place),
            (lock, Request::Leave) => {
                self.tell_all(Ledger::fault);
                self.locks[lock].ledger.ask_to_leave(place);
            }
        }
    }

    #[inline(always)]
    fn send(&mut self, _at: &Moment, transit: &Transit, message: &P::Message) {
        self.travelling += 1;
        if P::MOVES_TOKEN
            && let Some((lock, epoch)) = P::token_in(message)
        {
            self.locks[lock].tokens.send(transit.serial, epoch);
        }
        if let Some(lock) = self.announcing {
            self.announce(transit, lock);
            if let Some((_, stamp)) = P::announced(transit.from.id, message) {
                self.locks[lock].ledger.stamp(transit.from.index(), stamp);
            }
        }
        if let Some(causal) = &mut self.causal {
            causal.send(transit);
        }
    }

    #[inline(always)]
    fn duplicate(&mut self, _at: &Moment, transit: &Transit, copy: &Transit) {
        self.travelling += 1;
        for watch in &mut self.locks {
            watch.ledger.hinder();
            watch.tokens.copy(transit.serial, copy.serial);
        }
        if let Some(causal) = &mut self.causal {
            causal.copy(transit, copy);
        }
    }

    #[inline(always)]
    fn deliver(&mut self, _at: &Moment, transit: &Transit, message: &P::Message) {
        self.travelling -= 1;
        if P::MOVES_TOKEN
            && let Some((lock, _)) = P::token_in(message)
        {
            self.locks[lock].tokens.arrive(transit.serial);
        }
        self.arrive(transit);
        if let Some(causal) = &mut self.causal {
            causal.deliver(transit);
        }
    }

    fn drop(&mut self, _at: &Moment, transit: &Transit, message: &P::Message) {
        self.travelling -= 1;
        let both_up =
            |ledger: &Ledger| [transit.from, transit.to].iter().all(|one| ledger.is_up(one.index()));
        self.tell_all(|ledger| if both_up(ledger) { ledger.hinder() } else { ledger.fault() });
        if P::MOVES_TOKEN
            && let Some((lock, _)) = P::token_in(message)
        {
            self.locks[lock].tokens.lose(transit.serial);
        }
    }

    #[inline(always)]
    fn emit(&mut self, at: &Moment, process: Process, event: &P::Event) {
        let place = process.index();
        match P::told(event) {
            (lock, Event::Granted { fence }) => self.granted(at, process, lock, *fence),
            (lock, Event::Lost { .. }) => self.lost(at, process, lock),
            (lock, Event::Left) => self.locks[lock].ledger.answer_leave(place, true),
            (lock, Event::Refused(Request::Leave)) => self.locks[lock].ledger.answer_leave(place, false),
            (_, Event::Refused(_)) => {}
        }
    }

    fn reject(&mut self, at: &Moment, process: Process, from: NodeId, why: &'static str) {
        let text = || format!("{} rejected a message of {from}: {why}", process.id);
        self.found.broken("PROTOCOL", at.step, text);
    }

    fn invariant(&mut self, at: &Moment, process: Process, why: &str) {
        let Breach { property, detail, .. } = Breach::of_invariant(process.id, why);
        self.found.broken(property, at.step, || detail);
    }

    #[inline(always)]
    fn handled(&mut self, at: &Moment, process: Process, state: &P) {
        if P::MOVES_TOKEN {
            for (lock, watch) in self.locks.iter_mut().enumerate() {
                watch.tokens.hold(process.index(), state.token(lock));
            }
            self.judge_tokens(at);
        }
        let Some(lock) = self.announcing.take() else { return };
        let (watch, place) = (&mut self.locks[lock], process.index());
        // Nobody had to be told: the request is known at once.
        if watch.asking[place].announcements.2 == 0 {
            watch.ledger.become_known(place);
        }
    }

    fn disturb(&mut self, _at: &Moment, what: &Disturbance) {
        match what {
            Disturbance::Join(process) => self.tell_all(|ledger| {
                ledger.fault();
                ledger.rise(process.index(), Incarnation::FIRST);
            }),
            Disturbance::Pause(_)
            | Disturbance::Resume(_)
            | Disturbance::Cut(_)
            | Disturbance::Heal(_)
            | Disturbance::Clock(..) => self.tell_all(Ledger::hinder),
        }
    }

    fn crash(&mut self, _at: &Moment, process: Process) {
        if let Some(causal) = &mut self.causal {
            causal.forget(process.index());
        }
        for watch in &mut self.locks {
            watch.tokens.hold(process.index(), None);
            watch.ledger.fall(process.index());
        }
    }

    fn restart(&mut self, _at: &Moment, process: Process, life: Incarnation, _durable: bool) {
        self.tell_all(|ledger| ledger.rise(process.index(), life));
    }
}

impl<P: Locks> Judge<P> for Properties {
    fn violation(&self) -> Option<&Violation> {
        Self::violation(self)
    }

    fn end(&mut self, step: u64, ending: Ending) {
        Self::end(self, step, ending);
    }

    fn judgements(&self) -> Vec<Judgement> {
        Self::judgements(self)
    }
}
