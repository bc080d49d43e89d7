//! Gathers the commands of all clients into batches: whatever arrives while one batch becomes durable goes into the
//! next, so that one write to disk and one round to the other nodes serve them all.

mod returns;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use conclave_service::{Batch, Command, Millis, Outcome, State, Token};
use returns::Returns;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use crate::consensus::{Consensus, Leader, Refused};
use crate::front::clock::{ServiceClock, Wall};
use crate::front::hall::Hall;
use crate::front::queue::{Gathered, Queued};
use crate::machine::Sink as _;
use crate::mutant::{self, Mutant};

/// Commands in one batch.
const LARGEST_BATCH: usize = 4096;
/// And bytes, before the last command of it. A batch must get to the other nodes in one message, and in time.
const LARGEST_BATCH_BYTES: usize = 1 << 20;
/// Commands that may be under way to other nodes in two batches at one time. With few clients a command should not have
/// to wait for the batch before it; with many, one large batch after the other costs least.
const FEW: usize = 8;
/// How often whoever is about to say something is let go first, as long as somebody is.
const COURTESIES: usize = 2;
/// How long to wait for the next of those who were just answered, at the most. It is shorter than a timer can be, so that
/// it is spent looking; and where time is not real and stands still meanwhile, it ends after so many looks.
const RETURN_WITHIN: Duration = Duration::from_micros(300);
const LOOKS: usize = 1000;
/// How long a batch may take to be decided before this node sends its clients to another one.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often a leader looks at the clock at least.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A leader that has nothing else to write notes the service time after a quarter of the time until something ends by
/// itself, within these bounds, in milliseconds. The next leader goes on from what was noted last: without a note, a
/// lease would start over with every leader that had nothing to write. While nothing can end, nothing is noted.
const NOTE_AFTER: std::ops::RangeInclusive<Millis> = 100..=1_000;

/// Gathers commands, and proposes them while this node leads.
pub struct Batcher {
    pub queue: Gathered,
    pub consensus: Arc<Consensus>,
    pub hall: Arc<Hall>,
    pub clock: Arc<ServiceClock>,
    pub wall: Arc<dyn Wall>,
    pub leader: watch::Receiver<Option<Leader>>,
}

/// The commands of the next batch.
#[derive(Default)]
struct Load {
    commands: Vec<Command>,
    bytes: usize,
}

impl Load {
    fn add(&mut self, queued: Queued) {
        self.bytes += queued.bytes as usize;
        self.commands.push(queued.command);
    }

    fn len(&self) -> usize {
        self.commands.len()
    }

    fn is_full(&self) -> bool {
        let is_heavy = self.bytes >= LARGEST_BATCH_BYTES && !mutant::is(Mutant::BatchesByCount);
        is_heavy || self.commands.len() >= LARGEST_BATCH
    }

    fn clear(&mut self) {
        self.commands.clear();
        self.bytes = 0;
    }
}

impl Batcher {
    /// Runs until nobody can send it anything any more.
    pub async fn run(mut self) {
        let under_way = Arc::new(Semaphore::new(FEW));
        let verdicts = Arc::new(Verdicts::default());
        let mut load = Load::default();
        let mut ahead = None;
        let mut noted = Noted::default();
        let mut returns = Returns::default();
        loop {
            // What was refused is hardly taken a moment later.
            let wait = if verdicts.are_refusals() { LOOK_EVERY } else { self.until_next_look() };
            tokio::select! {
                biased;
                queued = self.queue.next() => match queued {
                    Some(queued) => {
                        load.add(queued);
                        self.take_more(&mut load);
                    }
                    None => return,
                },
                () = tokio::time::sleep(wait) => {}
            }
            let Some(term) = self.term() else {
                if load.len() > 0 {
                    load.clear();
                    self.hall.send_all_away("this node does not lead");
                }
                continue;
            };
            if load.len() == 0 && !self.is_due(term, noted) {
                continue;
            }
            let is_idle = under_way.available_permits() == FEW;
            let Some(permit) = self.make_room(&under_way, &mut load).await else {
                load.clear();
                continue;
            };
            // Those who are answered by now have not spoken again yet, unless nothing was left to be answered.
            let waiting = if is_idle { 0 } else { load.len() };
            if let Some(expected) = returns.expected(waiting) {
                // With a disk that is fast a batch more costs less than to wait for it.
                let limit = RETURN_WITHIN.min(verdicts.last_took() / 2);
                self.await_returns(&mut load, expected, limit).await;
                returns.came(expected, load.len());
            } else if load.len() > 1 || under_way.available_permits() + permit.num_permits() < FEW {
                self.let_others_speak(&mut load).await;
            }
            returns.left(load.len());
            let now = self.clock.now(term, self.hall.now());
            noted = Noted { term, at: now };
            let Some(bytes) = self.encode(term, now, &mut load, &mut ahead, &verdicts) else { continue };
            self.propose(term, bytes, permit, &verdicts).await;
        }
    }

    /// Waits until the next batch may be in flight beside what is already, and lets it grow meanwhile.
    async fn make_room(
        &mut self,
        under_way: &Arc<Semaphore>,
        load: &mut Load,
    ) -> Option<OwnedSemaphorePermit> {
        let mut held: Option<OwnedSemaphorePermit> = None;
        loop {
            let has = held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let lacks = load.len().clamp(1, FEW).saturating_sub(has);
            if lacks == 0 {
                return held;
            }
            let more = Arc::clone(under_way).acquire_many_owned(u32::try_from(lacks).unwrap_or(1));
            let Ok(Ok(more)) = tokio::time::timeout(PATIENCE, more).await else {
                tracing::warn!("nothing has been decided for a while");
                self.hall.send_all_away("this node cannot get anything decided");
                return None;
            };
            match &mut held {
                Some(held) => held.merge(more),
                None => held = Some(more),
            }
            self.take_more(load);
        }
    }

    /// Answers come in crowds, and so does what clients say next: a batch that left with the first of it would make all
    /// others wait for the one after.
    async fn let_others_speak(&mut self, load: &mut Load) {
        for _ in 0..COURTESIES {
            tokio::task::yield_now().await;
            if self.take_more(load) == 0 {
                return;
            }
        }
    }

    /// Waits until so many are there, or no more of them come.
    async fn await_returns(&mut self, load: &mut Load, expected: usize, limit: Duration) {
        let (mut since, mut looks) = (Instant::now(), 0);
        while load.len() < expected && !load.is_full() {
            tokio::task::yield_now().await;
            if self.take_more(load) > 0 {
                (since, looks) = (Instant::now(), 0);
                continue;
            }
            looks += 1;
            // Whoever is to come may need this processor for it.
            std::thread::yield_now();
            if looks >= LOOKS || since.elapsed() >= limit {
                return;
            }
        }
    }

    /// Takes what has arrived meanwhile, and says how much that is.
    fn take_more(&mut self, load: &mut Load) -> usize {
        let before = load.len();
        while !load.is_full()
            && let Some(queued) = self.queue.try_next()
        {
            load.add(queued);
        }
        load.len() - before
    }

    /// Makes a batch of the commands, as it is now, and takes them.
    fn encode(
        &self,
        term: u64,
        now: Millis,
        load: &mut Load,
        ahead: &mut Option<(u64, State)>,
        verdicts: &Verdicts,
    ) -> Option<Bytes> {
        // Until one of them is decided, every batch of a term says where tokens begin.
        let floor = if verdicts.has_decided_in(term) { 0 } else { self.floor() };
        let batch = Batch { now, commands: std::mem::take(&mut load.commands), floor };
        let encoded = encode(&batch);
        if mutant::is(Mutant::AnswersEarly) {
            self.answer_early(ahead, term, &batch);
        }
        // The room is used again.
        load.commands = batch.commands;
        load.clear();
        encoded
    }

    /// Above which number tokens begin now.
    fn floor(&self) -> u64 {
        if mutant::is(Mutant::ForgetsFloor) {
            return 0;
        }
        let floor = Token::floor_at(self.wall.since_1970());
        if floor.is_none() {
            tracing::warn!("the time of day is centuries off: tokens go on from the last one");
        }
        floor.unwrap_or(0)
    }

    async fn propose(&self, term: u64, bytes: Bytes, permit: OwnedSemaphorePermit, verdicts: &Arc<Verdicts>) {
        let (hall, verdicts) = (Arc::clone(&self.hall), Arc::clone(verdicts));
        let proposed = Instant::now();
        match self.consensus.propose(term, bytes).await {
            Ok(proposal) => drop(tokio::spawn(async move {
                match proposal.await {
                    Ok(_) => verdicts.decided(term, proposed.elapsed()),
                    Err(error) => verdicts.refused(&hall, &error),
                }
                drop(permit);
            })),
            Err(error) => verdicts.refused(&hall, &error),
        }
    }

    /// What no leader may do: answers as if the batch had been decided.
    fn answer_early(&self, ahead: &mut Option<(u64, State)>, term: u64, batch: &Batch) {
        if ahead.as_ref().is_none_or(|(of, _)| *of != term) {
            *ahead = Some((term, self.consensus.state().look(Clone::clone)));
        }
        let Some((_, state)) = ahead else { return };
        let mut outcome = Outcome::default();
        state.apply(batch, &mut outcome);
        self.hall.applied(self.hall.applied_index(), &mut outcome, state);
    }

    /// The term in which this node leads.
    fn term(&self) -> Option<u64> {
        self.leader.borrow().filter(|leader| leader.is_me).map(|leader| leader.term)
    }

    /// Whether something ends by itself now, or the service time was not written for long enough.
    fn is_due(&self, term: u64, noted: Noted) -> bool {
        let applied = self.hall.now();
        let now = self.clock.now(term, applied);
        // The first leader says which cluster this is, before anybody asks.
        if self.hall.cluster() == 0 && noted.term != term {
            return true;
        }
        let Some(deadline) = self.hall.deadline() else { return false };
        let noted = if noted.term == term { noted.at.max(applied) } else { applied };
        deadline <= now || is_worth_a_note(noted, now, deadline)
    }

    fn until_next_look(&self) -> Duration {
        let Some(term) = self.term() else { return LOOK_EVERY };
        let now = self.clock.now(term, self.hall.now());
        let next =
            self.hall.deadline().map_or(LOOK_EVERY, |at| Duration::from_millis(at.saturating_sub(now)));
        // A deadline that has passed is about to be applied: a look at once would only propose it again.
        next.clamp(Duration::from_millis(1), LOOK_EVERY)
    }
}

/// Up to when the leader of a term has written the service time, or is about to.
#[derive(Clone, Copy, Default)]
struct Noted {
    term: u64,
    at: Millis,
}

fn is_worth_a_note(noted: Millis, now: Millis, deadline: Millis) -> bool {
    let after = (deadline.saturating_sub(noted) / 4).clamp(*NOTE_AFTER.start(), *NOTE_AFTER.end());
    now.saturating_sub(noted) >= after && !mutant::is(Mutant::LeavesTimeUnwritten)
}

/// Writes the service time before this node gives the lead away, so that leases go on where they are. Nothing to do if it
/// does not lead, or nothing can end by itself.
pub async fn note_time(consensus: &Consensus, hall: &Hall, clock: &ServiceClock) {
    let Some(leader) = consensus.leader().borrow().filter(|leader| leader.is_me) else { return };
    if hall.deadline().is_none() || mutant::is(Mutant::LeavesTimeUnwritten) {
        return;
    }
    let now = clock.now(leader.term, hall.now());
    let Some(bytes) = encode(&Batch { now, ..Batch::default() }) else { return };
    let noted = async { consensus.propose(leader.term, bytes).await?.await };
    match tokio::time::timeout(PATIENCE, noted).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::debug!(%error, "the service time was not written"),
        Err(_) => tracing::debug!("the service time was not written in time"),
    }
}

/// What became of the batches.
#[derive(Default)]
struct Verdicts {
    /// Whether the last one was refused.
    are_refusals: AtomicBool,
    /// How long the last one took that was decided.
    micros: AtomicU64,
    /// The term of that one.
    term: AtomicU64,
}

impl Verdicts {
    fn are_refusals(&self) -> bool {
        self.are_refusals.load(Ordering::Relaxed)
    }

    fn last_took(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }

    fn has_decided_in(&self, term: u64) -> bool {
        self.term.load(Ordering::Acquire) == term
    }

    fn decided(&self, term: u64, took: Duration) {
        self.term.fetch_max(term, Ordering::AcqRel);
        self.are_refusals.store(false, Ordering::Relaxed);
        self.micros.store(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Nobody will answer what was in that batch: whoever waits for an answer has to ask again, here or elsewhere.
    fn refused(&self, hall: &Hall, error: &Refused) {
        // A leader that is cut off is refused for as long as it is; that is said once.
        if !self.are_refusals.swap(true, Ordering::Relaxed) {
            tracing::info!(%error, "a batch was not decided");
        }
        hall.send_all_away(&error.to_string());
    }
}

fn encode(batch: &Batch) -> Option<Bytes> {
    match postcard::to_stdvec(batch) {
        Ok(bytes) => Some(bytes.into()),
        Err(error) => {
            tracing::error!(%error, "a batch cannot be encoded");
            None
        }
    }
}
