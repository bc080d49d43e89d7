//! Gathers the commands of all clients into batches: whatever arrives while one batch becomes durable goes into the
//! next, so that one write to disk and one round to the other nodes serve them all.

mod returns;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use conclave_service::{Batch, Command, Outcome, State};
use returns::Returns;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::Instant;

use crate::consensus::{Consensus, Leader, Refused};
use crate::front::clock::ServiceClock;
use crate::front::hall::Hall;
use crate::machine::Sink as _;
use crate::mutant::{self, Mutant};

/// Commands that may wait for the next batch. A client whose command finds no room waits before it is read further.
pub const QUEUE: usize = 16 * 1024;
/// Commands in one batch.
const LARGEST_BATCH: usize = 4096;
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

/// Gathers commands, and proposes them while this node leads.
pub struct Batcher {
    pub queue: mpsc::Receiver<Command>,
    pub consensus: Arc<Consensus>,
    pub hall: Arc<Hall>,
    pub clock: Arc<ServiceClock>,
    pub leader: watch::Receiver<Option<Leader>>,
}

impl Batcher {
    /// Runs until nobody can send it anything any more.
    pub async fn run(mut self) {
        let under_way = Arc::new(Semaphore::new(FEW));
        let verdicts = Arc::new(Verdicts::default());
        let mut commands = Vec::new();
        let mut ahead = None;
        let mut returns = Returns::default();
        loop {
            // What was refused is hardly taken a moment later.
            let wait = if verdicts.are_refusals() { LOOK_EVERY } else { self.until_next_look() };
            tokio::select! {
                biased;
                count = self.queue.recv_many(&mut commands, LARGEST_BATCH) => if count == 0 { return },
                () = tokio::time::sleep(wait) => {}
            }
            let Some(term) = self.term() else {
                if !commands.is_empty() {
                    commands.clear();
                    self.hall.send_all_away("this node does not lead");
                }
                continue;
            };
            if commands.is_empty() && !self.is_due() {
                continue;
            }
            let is_idle = under_way.available_permits() == FEW;
            let Some(permit) = self.make_room(&under_way, &mut commands).await else {
                commands.clear();
                continue;
            };
            // Those who are answered by now have not spoken again yet, unless nothing was left to be answered.
            let waiting = if is_idle { 0 } else { commands.len() };
            if let Some(expected) = returns.expected(waiting) {
                // With a disk that is fast a batch more costs less than to wait for it.
                let limit = RETURN_WITHIN.min(verdicts.last_took() / 2);
                self.await_returns(&mut commands, expected, limit).await;
                returns.came(expected, commands.len());
            } else if commands.len() > 1 || under_way.available_permits() + permit.num_permits() < FEW {
                self.let_others_speak(&mut commands).await;
            }
            returns.left(commands.len());
            let Some(bytes) = self.encode(term, &mut commands, &mut ahead) else { continue };
            self.propose(term, bytes, permit, &verdicts).await;
        }
    }

    /// Waits until the next batch may be on its way beside what is already, and lets it grow meanwhile.
    async fn make_room(
        &mut self,
        under_way: &Arc<Semaphore>,
        commands: &mut Vec<Command>,
    ) -> Option<OwnedSemaphorePermit> {
        let mut held: Option<OwnedSemaphorePermit> = None;
        loop {
            let has = held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let lacks = commands.len().clamp(1, FEW).saturating_sub(has);
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
            self.take_more(commands);
        }
    }

    /// Answers come in crowds, and so does what clients say next: a batch that left with the first of it would make all
    /// others wait for the one after.
    async fn let_others_speak(&mut self, commands: &mut Vec<Command>) {
        for _ in 0..COURTESIES {
            tokio::task::yield_now().await;
            if self.take_more(commands) == 0 {
                return;
            }
        }
    }

    /// Waits until so many are there, or no more of them come.
    async fn await_returns(&mut self, commands: &mut Vec<Command>, expected: usize, limit: Duration) {
        let (mut since, mut looks) = (Instant::now(), 0);
        while commands.len() < expected.min(LARGEST_BATCH) {
            tokio::task::yield_now().await;
            if self.take_more(commands) > 0 {
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
    fn take_more(&mut self, commands: &mut Vec<Command>) -> usize {
        let before = commands.len();
        while commands.len() < LARGEST_BATCH
            && let Ok(command) = self.queue.try_recv()
        {
            commands.push(command);
        }
        commands.len() - before
    }

    /// Makes a batch of the commands, as it is now, and takes them.
    fn encode(
        &self,
        term: u64,
        commands: &mut Vec<Command>,
        ahead: &mut Option<(u64, State)>,
    ) -> Option<Bytes> {
        let now = self.clock.now(self.hall.now());
        let batch = Batch { now, commands: std::mem::take(commands) };
        let encoded = encode(&batch);
        if mutant::is(Mutant::AnswersEarly) {
            self.answer_early(ahead, term, &batch);
        }
        // The room is used again.
        *commands = batch.commands;
        commands.clear();
        encoded
    }

    async fn propose(&self, term: u64, bytes: Bytes, permit: OwnedSemaphorePermit, verdicts: &Arc<Verdicts>) {
        let (hall, verdicts) = (Arc::clone(&self.hall), Arc::clone(verdicts));
        let proposed = Instant::now();
        match self.consensus.propose(term, bytes).await {
            Ok(proposal) => drop(tokio::spawn(async move {
                match proposal.await {
                    Ok(_) => verdicts.decided(proposed.elapsed()),
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

    /// Whether something ends by itself now.
    fn is_due(&self) -> bool {
        let now = self.clock.now(self.hall.now());
        self.hall.deadline().is_some_and(|deadline| deadline <= now)
    }

    fn until_next_look(&self) -> Duration {
        if self.term().is_none() {
            return LOOK_EVERY;
        }
        let now = self.clock.now(self.hall.now());
        let next =
            self.hall.deadline().map_or(LOOK_EVERY, |at| Duration::from_millis(at.saturating_sub(now)));
        // A deadline that has passed is about to be applied: a look at once would only propose it again.
        next.clamp(Duration::from_millis(1), LOOK_EVERY)
    }
}

/// What became of the batches.
#[derive(Default)]
struct Verdicts {
    /// Whether the last one was refused.
    are_refusals: AtomicBool,
    /// How long the last one took that was decided.
    micros: AtomicU64,
}

impl Verdicts {
    fn are_refusals(&self) -> bool {
        self.are_refusals.load(Ordering::Relaxed)
    }

    fn last_took(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }

    fn decided(&self, took: Duration) {
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
