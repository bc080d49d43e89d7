//! Gathers the commands of all clients into batches: whatever arrives while one batch becomes durable goes into the
//! next, so that one write to disk and one round to the other nodes serve them all.
//!
//! A node that is alone does not wait for the batch before: the log gathers what its disk has no time for, and meanwhile
//! the next commands are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use conclave_service::{Batch, Command, Outcome, State};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

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
        let room = if self.consensus.is_alone() { QUEUE } else { FEW };
        let under_way = Arc::new(Semaphore::new(room));
        let refusals = Arc::new(Refusals::default());
        let mut commands = Vec::new();
        let mut ahead = None;
        loop {
            // What was refused is hardly taken a moment later.
            let wait = if refusals.go_on() { LOOK_EVERY } else { self.until_next_look() };
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
            let Some(permit) = self.make_room(room, &under_way, &mut commands).await else {
                commands.clear();
                continue;
            };
            let is_single =
                commands.len() == 1 && under_way.available_permits() + permit.num_permits() == room;
            if !is_single {
                self.let_others_speak(&mut commands).await;
            }
            let Some(bytes) = self.encode(term, &mut commands, &mut ahead) else { continue };
            self.propose(term, bytes, permit, &refusals).await;
        }
    }

    /// Waits until the next batch may be on its way beside what is already, and lets it grow meanwhile.
    async fn make_room(
        &mut self,
        room: usize,
        under_way: &Arc<Semaphore>,
        commands: &mut Vec<Command>,
    ) -> Option<OwnedSemaphorePermit> {
        let mut held: Option<OwnedSemaphorePermit> = None;
        loop {
            let has = held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let lacks = commands.len().clamp(1, room).saturating_sub(has);
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

    async fn propose(&self, term: u64, bytes: Bytes, permit: OwnedSemaphorePermit, refusals: &Arc<Refusals>) {
        let (hall, refusals) = (Arc::clone(&self.hall), Arc::clone(refusals));
        match self.consensus.propose(term, bytes).await {
            Ok(proposal) => drop(tokio::spawn(async move {
                match proposal.await {
                    Ok(_) => refusals.end(),
                    Err(error) => refusals.note(&hall, &error),
                }
                drop(permit);
            })),
            Err(error) => refusals.note(&hall, &error),
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

/// Whether batches are refused at the moment.
#[derive(Default)]
struct Refusals(AtomicBool);

impl Refusals {
    fn go_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Nobody will answer what was in that batch: whoever waits for an answer has to ask again, here or elsewhere.
    fn note(&self, hall: &Hall, error: &Refused) {
        // A leader that is cut off is refused for as long as it is; that is said once.
        if !self.0.swap(true, Ordering::Relaxed) {
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
