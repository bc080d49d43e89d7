//! What mutual exclusion must keep: ME1 to ME7.
//!
//! One observer judges them all, from what a driver sees: who asked, who was granted, which messages went where. It
//! never looks inside an algorithm.
//!
//! | property | claim |
//! |---|---|
//! | ME1 | safety: never two inside one lock |
//! | FENCE | every entry's fence is larger than all before it, and no two entries share one |
//! | TOK | there is one token, of the latest epoch, held or on its way; none only while a loss is being repaired |
//! | RES | a resource that refuses old fences never sees the writes of one entry between those of another |
//! | ME2 | progress: nobody waits for a message that will never come |
//! | ME3 | no starvation: every request is granted |
//! | ME4 | bounded waiting: at most B entries by others once a request is known |
//! | ME5-FCFS | grants follow the order in which requests became known |
//! | ME5-TS | grants follow the stamps of the requests |
//! | ME5-HB | of two requests, one made in knowledge of the other, the earlier is granted first |
//! | ME6 | no interference: who does not compete never delays those who do |
//! | ME7 | no delay: alone, a process enters after the messages of its own request only |
//!
//! Once a failure detector has called a living process dead, no algorithm that relies on it can keep ME1; what
//! remains is the fence. From then on FENCE claims only that no two entries share a fence, and RES is what counts.
//!
//! A request is *known* when every message that was sent in making it has arrived.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use conclave_core::{
    Disturbance, Incarnation, Input, Members, Moment, NodeId, Observer, Process, Protocol, Stamp, Transit,
};

use super::causal::Causal;
use super::resource::{Guard, Resource};
use super::tokens::Tokens;
use super::{Epoch, Event, Fence, Mutex, Promises, Request};
use crate::judge::{Ending, Finding, Judge, Judgement, Violation};

/// A protocol that runs one or more locks, each by an algorithm for mutual exclusion.
///
/// Every [`Mutex`] is one lock; [`Named`](crate::Named) is any number of them.
pub trait Locks: Protocol {
    /// The request for one of the locks.
    fn ask(lock: usize, request: Request) -> Self::Request;
    /// Which lock a request is for, and what it asks.
    fn asked(request: &Self::Request) -> (usize, Request);
    /// Which lock an event is about, and what it says.
    fn told(event: &Self::Event) -> (usize, &Event);
    /// The stamp of the request that a message announces, and for which lock.
    fn announced(from: NodeId, message: &Self::Message) -> Option<(usize, Stamp)>;

    /// Whether the right to enter is a token that moves.
    const MOVES_TOKEN: bool;
    /// The token of one of the locks that this process has.
    fn token(&self, lock: usize) -> Option<Epoch>;
    /// The token that a message carries, and of which lock.
    fn token_in(message: &Self::Message) -> Option<(usize, Epoch)>;
}

impl<P: Mutex> Locks for P {
    const MOVES_TOKEN: bool = <P as Mutex>::MOVES_TOKEN;

    fn token(&self, _lock: usize) -> Option<Epoch> {
        Mutex::token(self)
    }
    fn token_in(message: &P::Message) -> Option<(usize, Epoch)> {
        <P as Mutex>::token_in(message).map(|epoch| (0, epoch))
    }
    fn ask(_lock: usize, request: Request) -> Request {
        request
    }
    fn asked(request: &Request) -> (usize, Request) {
        (0, *request)
    }
    fn told(event: &Event) -> (usize, &Event) {
        (0, event)
    }
    fn announced(from: NodeId, message: &P::Message) -> Option<(usize, Stamp)> {
        <P as Mutex>::announced(from, message).map(|stamp| (0, stamp))
    }
}

/// Why a bound is not judged once something went wrong.
const FAULTLESS: &str = "judged only in runs without faults";

/// The observer that judges all properties of mutual exclusion.
#[derive(Clone, Debug)]
pub struct Properties {
    promises: Promises,
    /// The longest time that a message travels, where there is one.
    max_delay: Option<u64>,
    members: Members,
    client_hops: Vec<RangeInclusive<u32>>,
    locks: Vec<Watch>,
    causal: Option<Causal>,
    /// The lock whose `Acquire` is being handled: what is sent now announces it.
    announcing: Option<usize>,
    travelling: u64,
    known: u64,
    /// A fault has happened: bounds that hold without faults are no longer judged.
    disturbed: bool,
    /// Who is up, and in which life, by place.
    lives: Vec<(bool, Incarnation)>,
    /// Who has asked to leave and has not been answered, by place.
    leaving: Vec<bool>,
    /// A failure detector has called a living process dead.
    misled: bool,
    moves_token: bool,
    violation: Option<Violation>,
    both_inside: Tallied,
    fences_fallen: Tallied,
    mixed_writes: Tallied,
    arrival_inversions: Tallied,
    stamp_inversions: Tallied,
    causal_inversions: Tallied,
    max_overtaking: u64,
    starved: Option<String>,
    stuck: Option<String>,
    ending: Option<Ending>,
    solo_entries: u64,
    unstamped_entries: u64,
}

/// How often something happened, and the first time in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tallied {
    count: u64,
    first: String,
}

/// One lock.
#[derive(Clone, Debug)]
struct Watch {
    inside: Option<Process>,
    waiting: usize,
    asking: Vec<Asking>,
    /// Requests that wait and are known: when they became so, and the place of the process.
    known: BTreeSet<(u64, usize)>,
    /// Who asked when all was quiet, if nobody has competed since.
    solo: Option<usize>,
    /// Entries so far.
    total: u64,
    fence: Option<Fence>,
    /// The last fence of each process.
    fences: Vec<Option<Fence>>,
    /// Whether it is inside as far as it knows.
    held: Vec<bool>,
    resource: Resource,
    tokens: Tokens,
    stamp: Option<Stamp>,
    entries: Vec<u64>,
    waited: Vec<u64>,
    at_hand: Vec<u64>,
}

impl Watch {
    fn new(n: usize, moves_token: bool, guard: Guard) -> Self {
        Self {
            inside: None,
            waiting: 0,
            asking: vec![Asking::default(); n],
            known: BTreeSet::new(),
            solo: None,
            total: 0,
            fence: None,
            fences: vec![None; n],
            held: vec![false; n],
            resource: Resource::new(n, guard),
            tokens: Tokens::new(if moves_token { n } else { 0 }),
            stamp: None,
            entries: vec![0; n],
            waited: vec![0; n],
            at_hand: vec![0; n],
        }
    }

    fn become_known(&mut self, place: usize, order: u64) {
        self.asking[place].known = Some(Known { order, entries: self.total });
        self.known.insert((order, place));
    }

    /// Takes the request of a process off the list; an empty one if it has none.
    fn withdraw(&mut self, place: usize) -> Asking {
        let gone = core::mem::take(&mut self.asking[place]);
        self.waiting -= usize::from(gone.waiting);
        if let Some(known) = gone.known {
            self.known.remove(&(known.order, place));
        }
        gone
    }
}

/// The request of one process for one lock, if it is waiting.
#[derive(Clone, Debug, Default)]
struct Asking {
    waiting: bool,
    step: u64,
    time: u64,
    stamp: Option<Stamp>,
    /// Serials of the messages that announce it: from, to (excluded), and how many still travel.
    announcements: (u64, u64, u32),
    /// When it became known to all that it was sent to.
    known: Option<Known>,
}

/// The moment when a request became known.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// In the order of such moments.
    order: u64,
    /// How many entries there had been.
    entries: u64,
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
        let n = members.len();
        let watch = Watch::new(n, A::MOVES_TOKEN, Guard::Fence);
        Self {
            promises: A::promises(config, members),
            max_delay,
            members: members.clone(),
            client_hops: members.iter().map(|id| A::client_hops(config, members, id)).collect(),
            locks: vec![watch; locks],
            // With several locks a request may be made in knowledge of a request for another one.
            causal: (n <= Causal::MOST && locks == 1).then(|| Causal::new(n)),
            announcing: None,
            travelling: 0,
            known: 0,
            disturbed: false,
            lives: vec![(true, Incarnation::FIRST); n],
            leaving: vec![false; n],
            misled: false,
            moves_token: A::MOVES_TOKEN,
            violation: None,
            both_inside: Tallied::default(),
            fences_fallen: Tallied::default(),
            mixed_writes: Tallied::default(),
            arrival_inversions: Tallied::default(),
            stamp_inversions: Tallied::default(),
            causal_inversions: Tallied::default(),
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
        let everyone: Vec<_> = self.members.iter().chain(newcomers.iter().copied()).collect();
        let (n, locks) = (everyone.len(), self.locks.len());
        self.members = Members::listed(everyone);
        // Bounds for who is alone hold in groups that do not change.
        self.client_hops.resize(n, 0..=u32::MAX);
        self.lives.resize(n, (false, Incarnation::FIRST));
        self.leaving.resize(n, false);
        self.locks = vec![Watch::new(n, self.moves_token, Guard::Fence); locks];
        self.causal = (n <= Causal::MOST && locks == 1).then(|| Causal::new(n));
        self
    }

    /// The resource that the locks protect tells old fences from new ones in this way; by [`Guard::Fence`] unless
    /// told otherwise.
    #[must_use]
    pub fn guarded_by(mut self, guard: Guard) -> Self {
        let n = self.client_hops.len();
        for watch in &mut self.locks {
            watch.resource = Resource::new(n, guard);
        }
        self
    }

    /// How many entries had a write refused by the resource, because their fence was old.
    #[must_use]
    pub fn refused_entries(&self) -> u64 {
        self.locks.iter().map(|watch| watch.resource.refused_entries()).sum()
    }

    /// Whether a failure detector has called a living process dead.
    #[must_use]
    pub fn is_misled(&self) -> bool {
        self.misled
    }

    /// The first promise that was broken.
    #[must_use]
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
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
        for lock in 0..self.locks.len() {
            let watch = &self.locks[lock];
            let Some(first) = watch.asking.iter().position(|asking| asking.waiting) else { continue };
            let (waiting, inside) = (watch.waiting, watch.inside);
            let who = match (self.members.at(first), waiting) {
                (first, 1) => format!("{first} still waits{}", self.which(lock)),
                (first, more) => format!("{first} and {} more still wait{}", more - 1, self.which(lock)),
            };
            if inside.is_none() {
                self.unserved(step, ending, &who);
            }
        }
        if let Some(place) = self.leaving.iter().position(|leaving| *leaving) {
            let who = format!("{} still waits to leave", self.members.at(place));
            self.unserved(step, ending, &who);
        }
    }

    /// The run is over, and somebody did not get what nobody kept it from.
    fn unserved(&mut self, step: u64, ending: Ending, who: &str) {
        match ending {
            Ending::Quiet => {
                self.stuck = Some(format!("nothing moves any more, and {who}"));
                self.broken("ME2", step, || format!("nothing moves any more, and {who}"));
            }
            Ending::OutOfTime => {
                self.starved = Some(format!("time is up, and {who}"));
                if self.promises.no_starvation {
                    self.broken("ME3", step, || format!("time is up, and {who}"));
                }
            }
            Ending::Stopped => {}
        }
    }

    /// Names the lock, if there are several.
    fn which(&self, lock: usize) -> String {
        if self.locks.len() == 1 { String::new() } else { format!(" (lock {lock})") }
    }

    fn broken(&mut self, property: &'static str, step: u64, detail: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(Violation { property, detail: detail(), step });
        }
    }

    fn acquire(&mut self, at: &Moment, process: Process, lock: usize) {
        let watch = &mut self.locks[lock];
        if watch.asking[process.index()].waiting || watch.inside.is_some_and(|p| p.index() == process.index())
        {
            return;
        }
        let alone = watch.waiting == 0 && watch.inside.is_none();
        watch.solo = (alone && self.travelling == 0).then_some(process.index());
        watch.waiting += 1;
        watch.asking[process.index()] =
            Asking { waiting: true, step: at.step, time: at.time, ..Asking::default() };
        self.announcing = Some(lock);
        if let Some(causal) = &mut self.causal {
            causal.request(process.index());
        }
    }

    fn announce(&mut self, transit: &Transit, lock: usize, stamp: Option<Stamp>) {
        let asking = &mut self.locks[lock].asking[transit.from.index()];
        let (first, end, left) = &mut asking.announcements;
        if *left == 0 {
            *first = transit.serial;
        }
        *end = transit.serial + 1;
        *left += 1;
        asking.stamp = asking.stamp.or(stamp);
    }

    #[inline]
    fn arrive(&mut self, transit: &Transit) {
        for watch in &mut self.locks {
            let asking = &mut watch.asking[transit.from.index()];
            let (first, end, left) = &mut asking.announcements;
            if asking.waiting && *left > 0 && (*first..*end).contains(&transit.serial) {
                *left -= 1;
                if *left == 0 {
                    self.known += 1;
                    watch.become_known(transit.from.index(), self.known);
                }
            }
        }
    }

    fn granted(&mut self, at: &Moment, process: Process, lock: usize, fence: Fence) {
        let watch = &mut self.locks[lock];
        let previous = watch.inside.replace(process);
        let solo = watch.solo.take() == Some(process.index());
        let mine = watch.withdraw(process.index());
        watch.entries[process.index()] += 1;
        let direct = at.chain.root == mine.step;
        watch.waited[process.index()] += u64::from(!direct);
        watch.at_hand[process.index()] += u64::from(direct && at.chain.hops == 0);

        let last_fence = watch.fence;
        watch.fence = watch.fence.max(Some(fence));
        watch.held[process.index()] = true;
        let own_fence = watch.fences[process.index()].replace(fence);
        let overtaken = mine.known.map_or(0, |known| watch.total - known.entries);
        watch.total += 1;
        self.max_overtaking = self.max_overtaking.max(overtaken);
        let earlier =
            watch.known.first().filter(|(order, _)| mine.known.is_none_or(|mine| *order < mine.order));
        let inverted = earlier.map(|(_, place)| *place);
        let last_stamp = watch.stamp;
        if mine.stamp.is_some() {
            watch.stamp = mine.stamp;
        }

        self.write(at, process, lock, fence);
        if let Some(previous) = previous {
            let which = self.which(lock);
            let text = || format!("{} and {} are both inside{which}", previous.id, process.id);
            self.both_inside.add(text);
            if self.keeps_safety() {
                self.broken("ME1", at.step, text);
            }
        }
        if let Some(own) = own_fence.filter(|own| *own >= fence) {
            self.broken("FENCE", at.step, || format!("{} got fence {fence} after {own}", process.id));
        }
        if fence.process != process.id {
            self.broken("FENCE", at.step, || format!("{} got the fence {fence} of another", process.id));
        }
        if let Some(last) = last_fence.filter(|last| *last >= fence) {
            let text = || format!("{} got fence {fence} after {last}", process.id);
            self.fences_fallen.add(text);
            if self.keeps_safety() {
                self.broken("FENCE", at.step, text);
            }
        }
        if self.promises.overtaking.is_some_and(|bound| overtaken > bound) && !self.disturbed {
            self.broken("ME4", at.step, || format!("{} was overtaken {overtaken} times", process.id));
        }
        if let Some(place) = inverted.filter(|_| !self.disturbed) {
            let first = self.members.at(place);
            let text = || format!("{} was let in before {first}, whose request was known first", process.id);
            self.arrival_inversions.add(text);
            if self.promises.arrival_order {
                self.broken("ME5-FCFS", at.step, text);
            }
        }
        self.judge_stamps(at, process, mine.stamp, last_stamp);
        self.judge_causality(at, process, lock);
        if solo && !self.disturbed {
            self.judge_solo(at, process, &mine);
        }
    }

    /// Whether ME1 can be asked of the algorithm: it can hold only what its failure detector allows.
    fn keeps_safety(&self) -> bool {
        !self.misled || self.promises.survives_suspicion
    }

    /// Whoever is inside writes to the resource.
    fn write(&mut self, at: &Moment, process: Process, lock: usize, fence: Fence) {
        if self.locks[lock].resource.write(process.index(), fence) {
            let text = || format!("a write of somebody else stands between two of {}", process.id);
            self.mixed_writes.add(text);
            self.broken("RES", at.step, text);
        }
    }

    fn release(&mut self, at: &Moment, process: Process, lock: usize) {
        let watch = &mut self.locks[lock];
        if let Some(fence) = watch.fences[process.index()].filter(|_| watch.held[process.index()]) {
            watch.held[process.index()] = false;
            self.write(at, process, lock, fence);
        }
        self.vacate(process, lock);
    }

    fn vacate(&mut self, process: Process, lock: usize) {
        let watch = &mut self.locks[lock];
        watch.held[process.index()] = false;
        if watch.inside.is_some_and(|inside| inside.index() == process.index()) {
            watch.inside = None;
        }
    }

    fn judge_tokens(&mut self, at: &Moment) {
        for lock in 0..self.locks.len() {
            if let Some((epoch, count)) = self.locks[lock].tokens.surplus() {
                let which = self.which(lock);
                self.broken("TOK", at.step, || format!("there are {count} tokens of epoch {epoch}{which}"));
            }
        }
    }

    fn judge_stamps(&mut self, at: &Moment, process: Process, mine: Option<Stamp>, last: Option<Stamp>) {
        let Some(mine) = mine else {
            self.unstamped_entries += 1;
            return;
        };
        let Some(last) = last.filter(|last| *last >= mine) else { return };
        let text = || format!("{} entered with stamp {mine} after {last}", process.id);
        self.stamp_inversions.add(text);
        if self.promises.stamp_order && !self.disturbed {
            self.broken("ME5-TS", at.step, text);
        }
    }

    fn judge_causality(&mut self, at: &Moment, process: Process, lock: usize) {
        let Some(causal) = &self.causal else { return };
        let waiting = self.locks[lock].asking.iter().enumerate().filter(|(_, asking)| asking.waiting);
        let Some((earlier, _)) =
            waiting.into_iter().find(|(place, _)| causal.followed(*place, process.index()))
        else {
            return;
        };
        let earlier = self.members.at(earlier);
        let text =
            || format!("{} asked in knowledge of the request of {earlier}, and was let in first", process.id);
        self.causal_inversions.add(text);
        if self.promises.causal_order && !self.disturbed {
            self.broken("ME5-HB", at.step, text);
        }
    }

    fn judge_solo(&mut self, at: &Moment, process: Process, mine: &Asking) {
        self.solo_entries += 1;
        let expected = self.client_hops[process.index()].clone();
        let (hops, took) = (at.chain.hops, at.time - mine.time);
        if at.chain.root != mine.step || !expected.contains(&hops) {
            self.broken("ME7", at.step, || {
                format!(
                    "{} was alone and entered after {hops} messages in a row, not {expected:?}",
                    process.id
                )
            });
        }
        if let Some(bound) =
            self.max_delay.map(|delay| delay * u64::from(*expected.end())).filter(|bound| took > *bound)
        {
            self.broken("ME6", at.step, || {
                format!("{} was alone and waited {took} us, more than {bound} us", process.id)
            });
        }
    }

    /// What became of every property.
    #[must_use]
    pub fn judgements(&self) -> Vec<Judgement> {
        let held = || Finding::Held(String::new());
        let broken = |property: &str| {
            self.violation
                .as_ref()
                .filter(|v| v.property == property)
                .map(|v| Finding::Broken(v.detail.clone()))
        };
        let entries: u64 = self.entries().iter().sum();
        let seen =
            |finding: Finding| if entries == 0 { Finding::Open("nobody entered".into()) } else { finding };
        let ended = |problem: &Option<String>| match (problem, self.ending) {
            (Some(problem), _) => Finding::Broken(problem.clone()),
            (None, Some(Ending::Quiet)) => held(),
            (None, Some(Ending::OutOfTime)) => Finding::Open("time ran out".into()),
            (None, Some(Ending::Stopped) | None) => Finding::Open("the run was stopped early".into()),
        };
        let waiting_bound = match self.promises.overtaking {
            Some(bound) => format!("at most {} of {bound}", self.max_overtaking),
            None => format!("at most {}", self.max_overtaking),
        };
        let undisturbed = |finding: Finding| {
            if self.disturbed { Finding::Open(FAULTLESS.into()) } else { finding }
        };
        let order = |tallied: &Tallied, judged: Option<&str>| match judged {
            _ if tallied.count > 0 => {
                Finding::Broken(format!("{} times; first: {}", tallied.count, tallied.first))
            }
            Some(why) => Finding::Open(why.into()),
            None => held(),
        };
        let unstamped = match (entries, self.unstamped_entries) {
            (0, _) => Some("nobody entered"),
            (all, unstamped) => (all == unstamped).then_some("requests carry no stamps"),
        };
        let uncaused = self.causal.is_none().then_some("judged for one lock and up to 64 processes");
        let solo = |code: &str| {
            broken(code).unwrap_or_else(|| match (self.solo_entries, self.disturbed) {
                (_, true) => Finding::Open(FAULTLESS.into()),
                (0, _) => Finding::Open("nobody was ever alone".into()),
                (count, _) => Finding::Held(format!("{count} entries alone")),
            })
        };
        // Starvation is also what a dead end means for those who wait in it.
        let starved = self.starved.clone().or_else(|| self.stuck.clone());
        let judge = |property, claim, promised, finding| Judgement { property, claim, promised, finding };
        let counted = |tallied: &Tallied| {
            (tallied.count > 0)
                .then(|| Finding::Broken(format!("{} times; first: {}", tallied.count, tallied.first)))
        };
        let one_inside = counted(&self.both_inside);
        let growing =
            broken("FENCE").or_else(|| counted(&self.fences_fallen).filter(|_| self.keeps_safety()));
        let mut judgements = vec![
            judge("ME1", "never two inside", self.keeps_safety(), one_inside.unwrap_or_else(|| seen(held()))),
            judge(
                "FENCE",
                if self.keeps_safety() {
                    "every fence is larger than the last"
                } else {
                    "no two entries share a fence"
                },
                true,
                growing.unwrap_or_else(|| seen(held())),
            ),
            judge(
                "RES",
                "the resource serves one entry at a time",
                true,
                counted(&self.mixed_writes).unwrap_or_else(|| match self.refused_entries() {
                    0 => seen(held()),
                    1 => Finding::Held("1 entry refused by its fence".into()),
                    refused => Finding::Held(format!("{refused} entries refused by their fence")),
                }),
            ),
            judge("ME2", "progress", true, ended(&self.stuck)),
            judge("ME3", "every request is granted", self.promises.no_starvation, ended(&starved)),
            judge(
                "ME4",
                "bounded overtaking",
                self.promises.overtaking.is_some(),
                broken("ME4").unwrap_or_else(|| undisturbed(seen(Finding::Held(waiting_bound)))),
            ),
            judge(
                "ME5-FCFS",
                "order of arrival",
                self.promises.arrival_order,
                undisturbed(order(&self.arrival_inversions, None)),
            ),
            judge(
                "ME5-TS",
                "order of stamps",
                self.promises.stamp_order,
                undisturbed(order(&self.stamp_inversions, unstamped)),
            ),
            judge(
                "ME5-HB",
                "order of causality",
                self.promises.causal_order,
                undisturbed(order(&self.causal_inversions, uncaused)),
            ),
            judge(
                "ME6",
                "no interference by the idle",
                true,
                match self.max_delay {
                    Some(_) => solo("ME6"),
                    None => Finding::Open("messages may take any time".into()),
                },
            ),
            judge("ME7", "no delay when alone", true, solo("ME7")),
        ];
        if self.moves_token {
            judgements.insert(3, judge("TOK", "one token", true, self.judged_tokens(broken("TOK"))));
        }
        judgements
    }

    fn judged_tokens(&self, broken: Option<Finding>) -> Finding {
        let lost = self.locks.iter().any(|watch| watch.total > 0 && watch.tokens.is_lost());
        let epoch = self.locks.iter().filter_map(|watch| watch.tokens.epoch()).max();
        match (broken, lost, epoch) {
            (Some(broken), _, _) => broken,
            (None, true, _) => Finding::Open("it is lost, and nobody has missed it yet".into()),
            (None, false, Some(epoch)) if epoch > Epoch::FIRST => Finding::Held(format!("in epoch {epoch}")),
            (None, false, _) => Finding::Held(String::new()),
        }
    }
}

impl<P: Locks> Observer<P> for Properties {
    #[inline(always)]
    fn input(&mut self, at: &Moment, process: Process, input: &Input<P>) {
        let request = match input {
            Input::Request(request) => request,
            Input::PeerDown { peer, life } => {
                self.disturbed = true;
                let place = self.members.position(*peer);
                self.misled |= place.is_some_and(|place| self.lives[place] == (true, *life));
                return;
            }
            Input::Start | Input::Receive { .. } | Input::Expire(_) | Input::PeerUp { .. } => return,
        };
        match P::asked(request) {
            (lock, Request::Acquire) => self.acquire(at, process, lock),
            (lock, Request::Release) => self.release(at, process, lock),
            (lock, Request::Cancel) => {
                self.locks[lock].withdraw(process.index());
            }
            (_, Request::Leave) => {
                self.disturbed = true;
                self.leaving[process.index()] = true;
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
            let stamp = P::announced(transit.from.id, message).map(|(_, stamp)| stamp);
            self.announce(transit, lock, stamp);
        }
        if let Some(causal) = &mut self.causal {
            causal.send(transit);
        }
    }

    #[inline(always)]
    fn duplicate(&mut self, _at: &Moment, transit: &Transit, copy: &Transit) {
        self.travelling += 1;
        self.disturbed = true;
        for watch in &mut self.locks {
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
        self.disturbed = true;
        if P::MOVES_TOKEN
            && let Some((lock, _)) = P::token_in(message)
        {
            self.locks[lock].tokens.lose(transit.serial);
        }
    }

    #[inline(always)]
    fn emit(&mut self, at: &Moment, process: Process, event: &P::Event) {
        match P::told(event) {
            (lock, Event::Granted { fence }) => self.granted(at, process, lock, *fence),
            (lock, Event::Lost { .. }) => self.vacate(process, lock),
            (lock, Event::Left) => {
                self.leaving[process.index()] = false;
                self.locks[lock].withdraw(process.index());
            }
            (_, Event::Refused(Request::Leave)) => self.leaving[process.index()] = false,
            (_, Event::Refused(_)) => {}
        }
    }

    fn reject(&mut self, at: &Moment, process: Process, from: NodeId, why: &'static str) {
        self.broken("PROTOCOL", at.step, || format!("{} rejected a message of {from}: {why}", process.id));
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
        let watch = &mut self.locks[lock];
        let asking = &watch.asking[process.index()];
        // Nobody had to be told: the request is known at once.
        if asking.waiting && asking.announcements.2 == 0 {
            self.known += 1;
            watch.become_known(process.index(), self.known);
        }
    }

    fn disturb(&mut self, _at: &Moment, what: &Disturbance) {
        self.disturbed = true;
        if let Disturbance::Join(process) = what {
            self.lives[process.index()] = (true, Incarnation::FIRST);
        }
    }

    fn crash(&mut self, _at: &Moment, process: Process) {
        self.disturbed = true;
        self.lives[process.index()].0 = false;
        self.leaving[process.index()] = false;
        if let Some(causal) = &mut self.causal {
            causal.forget(process.index());
        }
        for lock in 0..self.locks.len() {
            self.locks[lock].withdraw(process.index());
            self.locks[lock].tokens.hold(process.index(), None);
            self.vacate(process, lock);
        }
    }

    fn restart(&mut self, _at: &Moment, process: Process, life: Incarnation, _durable: bool) {
        self.lives[process.index()] = (true, life);
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

impl Tallied {
    fn add(&mut self, text: impl FnOnce() -> String) {
        if self.count == 0 {
            self.first = text();
        }
        self.count += 1;
    }
}
