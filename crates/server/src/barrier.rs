//! Makes sure before a read that this node still leads.
//!
//! The leader takes note of what has been decided, asks the others, and reads when that much has been applied. It needs a
//! majority, itself included, that has voted for no later leader. The question must leave *after* the read has begun:
//! had another leader been elected before, one node of every majority would have voted for it by then, and says so. A
//! node that lost its disk may have forgotten, so only settled ones count.
//!
//! ```text
//!   read 7 ─┐                        ┌─ read 8 waits for the answer to the next question
//!   leader ─┴─ question 7 ─▶ ◀─ answer ─── question 8 ─▶ ◀─ answer
//! ```
//!
//! One task per node asks, one question at a time; all reads that begin while it waits share the next. So a read costs one
//! round trip, or two under load, and a node that is silent is asked once, not once per read.
//!
//! The consensus library has a barrier of its own, which counts acknowledgements of log entries too. It is not used: an
//! acknowledgement can be credited with a request that was sent later and never answered. See
//! `docs/openraft-read-index.md`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering as Atomically};
use std::time::Duration;

use openraft::ReadPolicy;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::birth::{Past, Position, Question, later};
use crate::consensus::Stale;
use crate::mutant::{self, Mutant};
use crate::network::{Peer, Peers};
use crate::raft::{Raft, Vote};

/// How long to leave a node alone that did not answer.
const PAUSE: Duration = Duration::from_millis(20);

/// Lets reads pass while this node leads.
pub(crate) struct Barrier {
    raft: Raft,
    majority: usize,
    /// How long a read waits.
    patience: Duration,
    rounds: Arc<Rounds>,
}

/// The questions, and what came of them.
struct Rounds {
    /// The number of the newest question that a read waits for.
    wanted: watch::Sender<u64>,
    /// What each node answered last, and to which question.
    heard: watch::Sender<BTreeMap<u64, (u64, Past)>>,
    /// Reads that wait.
    waiting: AtomicUsize,
}

impl Barrier {
    /// The tasks that ask are put with those of the node.
    pub(crate) fn new(raft: Raft, peers: &Peers, patience: Duration, tasks: &mut JoinSet<()>) -> Self {
        let rounds = Arc::new(Rounds {
            wanted: watch::Sender::new(0),
            heard: watch::Sender::new(BTreeMap::new()),
            waiting: AtomicUsize::new(0),
        });
        let mut nodes = 1;
        for peer in peers.all() {
            tasks.spawn(Arc::clone(&rounds).ask(peer, rounds.wanted.subscribe(), patience));
            nodes += 1;
        }
        Self { raft, majority: nodes / 2 + 1, patience: patience * 2, rounds }
    }

    /// Returns when the state here contains everything that was decided before the call.
    pub(crate) async fn pass(&self) -> Result<(), Stale> {
        // The library may be waiting for its disk, and say nothing.
        timeout(self.patience * 2, self.passed()).await.map_err(|_| Stale::NoMajority)?
    }

    async fn passed(&self) -> Result<(), Stale> {
        if mutant::is(Mutant::TrustsAcknowledgements) {
            let fresh = self.raft.ensure_linearizable(ReadPolicy::ReadIndex).await;
            return fresh.map(drop).map_err(|_| Stale::NoMajority);
        }
        let position = Position::of(&self.raft).await.map_err(|fatal| Stale::Stopped(fatal.to_string()))?;
        let Position { vote, leads, last, committed } = position;
        if !leads {
            return Err(Stale::NotLeader(vote.committed.then_some(vote.leader_id.node_id)));
        }
        // What earlier leaders decided is known to be so when an entry of this one is.
        let is_own = committed.is_some_and(|id| id.leader_id == vote.leader_id);
        let due = if is_own { committed } else { last };
        timeout(self.patience, self.confirm(vote)).await.map_err(|_| Stale::NoMajority)??;
        let mut applied = self.raft.watch_apply_progress();
        match timeout(self.patience, applied.wait_until_ge(&due)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(Stale::Stopped("it was shut down".to_owned())),
            Err(_) => Err(Stale::NoMajority),
        }
    }

    /// Waits for a majority that follows nobody later.
    async fn confirm(&self, vote: Vote) -> Result<(), Stale> {
        if self.majority == 1 {
            return Ok(());
        }
        let _waiting = Waiting::new(&self.rounds);
        let mut question = 0;
        self.rounds.wanted.send_modify(|wanted| {
            *wanted += 1;
            question = *wanted;
        });
        let mut heard = self.rounds.heard.subscribe();
        let judged = |heard: &BTreeMap<u64, (u64, Past)>| judge(heard, question, &vote, self.majority);
        let heard = heard.wait_for(|heard| judged(heard).is_some()).await;
        let heard = heard.map_err(|_| Stale::Stopped("it was shut down".to_owned()))?;
        judged(&heard).unwrap_or(Err(Stale::NoMajority))
    }
}

/// Whether the answers to this question or later ones decide, and how.
fn judge(
    heard: &BTreeMap<u64, (u64, Past)>,
    question: u64,
    vote: &Vote,
    majority: usize,
) -> Option<Result<(), Stale>> {
    let settled = heard.values().filter(|(answered, past)| *answered >= question && past.settled);
    let mut follow = 1;
    for (_, past) in settled {
        if later(&past.vote, vote) == Ordering::Greater {
            let leader = past.vote.committed.then_some(past.vote.leader_id.node_id);
            return Some(Err(Stale::NotLeader(leader)));
        }
        follow += 1;
    }
    (follow >= majority).then_some(Ok(()))
}

impl Rounds {
    /// Asks one node whenever a read wants to know.
    async fn ask(self: Arc<Self>, peer: Peer, mut wanted: watch::Receiver<u64>, patience: Duration) {
        while wanted.changed().await.is_ok() {
            loop {
                let question = *wanted.borrow_and_update();
                match peer.past(&Question::default(), patience).await {
                    Ok(past) => {
                        self.heard.send_modify(|heard| drop(heard.insert(peer.id(), (question, past))));
                        break;
                    }
                    Err(error) => tracing::debug!(peer = peer.id(), %error, "no answer for a read"),
                }
                sleep(PAUSE).await;
                if self.waiting.load(Atomically::Relaxed) == 0 {
                    break;
                }
            }
        }
    }
}

/// A read that waits.
struct Waiting<'a>(&'a Rounds);

impl<'a> Waiting<'a> {
    fn new(rounds: &'a Rounds) -> Self {
        rounds.waiting.fetch_add(1, Atomically::Relaxed);
        Self(rounds)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Atomically::Relaxed);
    }
}

#[cfg(test)]
mod tests;
