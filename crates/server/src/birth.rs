//! How a node that has nothing behind it becomes one of a cluster.
//!
//! An empty disk says too little. Either the cluster is new, and its nodes form it by writing the same list of members
//! into their logs. Or the disk was lost: then the node has forgotten for whom it voted and which entries it vouched
//! for, and were it to vote or to vouch again as if nothing had been, something decided could be decided anew.
//!
//! So a new node takes no part. It asks the others what they have behind them, and then:
//!
//! - If all answer, and no log has more in it than a list of members, no leader was ever elected, and there is nothing
//!   that could have been forgotten. They form the cluster and are settled. The first to do so remembers whom it had
//!   seen, each by a number that stands for its present life: whoever hears from it that it was seen has not forgotten
//!   anything either.
//! - If a log has more, the cluster is not new. The node waits until it has heard from so many settled ones that every
//!   majority it could ever have been part of had one of them. The highest vote among their answers is a floor: what
//!   it may have promised before was promised to a leader up to there. From now on it follows leaders from there on
//!   upwards, still without a vote. Whoever leads from there on was elected without it, or is the leader of the floor
//!   itself, and has all that was ever decided with its help. When it has all that such a leader had, it knows again
//!   whatever mattered, and is settled. (Viewstamped Replication Revisited, section 4.3, recovers a replica so.)
//!
//! Caveats: a cluster is formed only when all of its nodes are there; from then on a majority is enough. And this is
//! about one lost disk, or fewer than half of them: if a majority is lost, so is what only they had.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use conclave_wire::peer::peer_client::PeerClient;
use futures_util::future::join_all;
use openraft::RPCTypes;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{InitializeError, RaftError};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use tonic::Status;
use tonic::transport::Channel;

use crate::identity::{Identity, Stage};
use crate::network::{Peer, Peers};
use crate::raft::{Node, Raft, Vote};

/// How long to wait before asking again.
const PAUSE: Duration = Duration::from_millis(50);

/// What a node says about itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Past {
    /// It takes part.
    settled: bool,
    vote: Vote,
    /// The index of its last entry.
    last: Option<u64>,
    /// It leads, under this vote.
    leads: bool,
    /// Its present life.
    life: u64,
    /// The lives that it saw when it formed the cluster, if it did so in its present one.
    witnessed: Vec<u64>,
}

/// Tells another node what this one has behind it.
pub(crate) fn past(raft: &Raft, gate: &Gate) -> Past {
    let metrics = raft.metrics();
    let metrics = metrics.borrow_watched();
    let last = metrics.last_log_index.max(metrics.last_applied.map(|id| id.index));
    Past {
        settled: gate.is_open(),
        vote: metrics.vote,
        last,
        leads: metrics.state.is_leader(),
        life: gate.life,
        witnessed: gate.witnessed.get().cloned().unwrap_or_default(),
    }
}

impl Past {
    /// Whether there was never a leader whose entries it had: the first one of each is its claim to lead, and the list
    /// of members stands at the very beginning.
    fn is_blank(&self) -> bool {
        self.last.is_none_or(|last| last == 0)
    }
}

/// In how far a node takes part.
#[derive(Debug)]
pub(crate) struct Gate {
    part: Mutex<Part>,
    /// A random number.
    life: u64,
    witnessed: OnceLock<Vec<u64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Not at all.
    None,
    /// It follows leaders from this vote on.
    From(Vote),
    /// Fully.
    Full,
}

impl Gate {
    pub(crate) fn new(settled: bool, life: u64) -> Self {
        let part = if settled { Part::Full } else { Part::None };
        Self { part: Mutex::new(part), life, witnessed: OnceLock::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Part> {
        self.part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_open(&self) -> bool {
        *self.lock() == Part::Full
    }

    pub(crate) fn may_vote(&self) -> Result<(), Status> {
        match *self.lock() {
            Part::Full => Ok(()),
            Part::None | Part::From(_) => Err(Status::unavailable("this node has to catch up first")),
        }
    }

    pub(crate) fn may_follow(&self, vote: &Vote) -> Result<(), Status> {
        match *self.lock() {
            Part::Full => Ok(()),
            Part::From(floor) if *vote >= floor => Ok(()),
            Part::From(_) => Err(Status::unavailable("there has been a later leader")),
            Part::None => Err(Status::unavailable("this node is finding out what it missed")),
        }
    }

    fn floor(&self) -> Option<Vote> {
        match *self.lock() {
            Part::From(floor) => Some(floor),
            Part::None | Part::Full => None,
        }
    }

    fn set(&self, part: Part) {
        let before = std::mem::replace(&mut *self.lock(), part);
        match (before, part) {
            (Part::None, Part::From(_)) => {
                tracing::info!("the cluster exists, and this node has nothing of it: it catches up");
            }
            (Part::None | Part::From(_), Part::Full) => tracing::info!("this node takes part"),
            _ => {}
        }
    }
}

/// A node that is not settled.
pub(crate) struct Newborn {
    pub(crate) raft: Raft,
    pub(crate) gate: Arc<Gate>,
    pub(crate) identity: Identity,
    pub(crate) peers: Peers,
    /// How long a question may take.
    pub(crate) patience: Duration,
}

impl Newborn {
    /// Settles, however long it takes.
    pub(crate) async fn settle(self) {
        loop {
            let pasts = self.ask_all().await;
            let done = if self.is_new_cluster(&pasts) || self.was_seen(&pasts) {
                Some(self.form(&pasts).await)
            } else if self.goal(&pasts).is_some_and(|goal| self.reached(goal)) {
                Some(self.take_part().await)
            } else {
                None
            };
            match done {
                Some(Ok(())) => return,
                Some(Err(error)) => tracing::error!(%error, "this node cannot take part"),
                None => {}
            }
            sleep(PAUSE).await;
        }
    }

    async fn ask_all(&self) -> Vec<Past> {
        let answers = self.peers.all().map(|peer| self.ask(peer));
        join_all(answers).await.into_iter().flatten().collect()
    }

    async fn ask(&self, peer: Peer) -> Option<Past> {
        let call = |mut client: PeerClient<Channel>, request| async move { client.past(request).await };
        let answer = peer.ask(RPCTypes::Vote, &(), self.patience, call).await;
        answer.inspect_err(|error| tracing::debug!(peer = peer.id(), %error, "no answer yet")).ok()
    }

    fn majority(&self) -> usize {
        self.identity.members.len() / 2 + 1
    }

    fn is_new_cluster(&self, pasts: &[Past]) -> bool {
        let mine = past(&self.raft, &self.gate);
        pasts.len() + 1 == self.identity.members.len() && pasts.iter().chain([&mine]).all(Past::is_blank)
    }

    /// Whether somebody saw this node, in this life, when the cluster was formed.
    fn was_seen(&self, pasts: &[Past]) -> bool {
        pasts.iter().any(|past| past.settled && past.witnessed.contains(&self.gate.life))
    }

    /// Writes the list of members; all who form the cluster write the same one.
    async fn form(&self, pasts: &[Past]) -> io::Result<()> {
        self.gate.witnessed.get_or_init(|| pasts.iter().map(|past| past.life).collect());
        // Whatever it promises from now on it will not forget, even if it crashes in the middle.
        self.identity.note(Stage::Forming).await?;
        let members = self.identity.members.iter().map(|(&id, address)| (id, Node::new(address.clone())));
        match self.raft.initialize(members.collect::<std::collections::BTreeMap<_, _>>()).await {
            Ok(()) => tracing::info!(members = self.identity.members.len(), "a new cluster"),
            // It was done before.
            Err(RaftError::APIError(InitializeError::NotAllowed(_))) => {}
            Err(error) => return Err(io::Error::other(error)),
        }
        self.take_part().await
    }

    async fn take_part(&self) -> io::Result<()> {
        self.identity.note(Stage::Settled).await?;
        self.gate.set(Part::Full);
        self.raft.runtime_config().elect(true);
        Ok(())
    }

    /// From which vote on to follow: known, or now known.
    fn floor(&self, pasts: &[Past]) -> Option<Vote> {
        if let Some(floor) = self.gate.floor() {
            return Some(floor);
        }
        let settled = || pasts.iter().filter(|past| past.settled);
        if settled().count() + self.majority() <= self.identity.members.len() {
            return None;
        }
        let floor = settled().map(|past| past.vote).max_by(later)?;
        self.gate.set(Part::From(floor));
        Some(floor)
    }

    /// What has to be caught up with: what the last leader has that counts.
    fn goal<'a>(&self, pasts: &'a [Past]) -> Option<&'a Past> {
        let floor = self.floor(pasts)?;
        let leaders = pasts.iter().filter(|past| past.settled && past.leads && past.vote >= floor);
        leaders.max_by(|one, other| later(&one.vote, &other.vote))
    }

    /// Whether everything up to there was applied here, under that leader. What was applied was appended before, and
    /// the log is written in order: it will be safe before any vote of this node is.
    fn reached(&self, goal: &Past) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let applied = metrics.last_applied.map(|id| id.index);
        metrics.vote == goal.vote && applied >= goal.last
    }
}

/// Votes of different leaders in one term are ordered here, since that is how the library is configured.
fn later(one: &Vote, other: &Vote) -> std::cmp::Ordering {
    (one.leader_id, one.committed).cmp(&(other.leader_id, other.committed))
}
