//! How a node that has nothing behind it becomes one of a cluster.
//!
//! An empty disk says too little. Either the cluster is new, and its nodes form it by writing the same list of members
//! into their logs. Or the disk was lost: then the node has forgotten for whom it voted and which entries it
//! acknowledged, and if it voted or acknowledged again as if nothing had been, something decided could be decided again.
//!
//! So a new node takes no part. It asks the others what they have behind them, in rounds. A round counts if every other
//! node answered, each from the same process (*life*) as in the round before. Then:
//!
//! - **Form.** If no log has more in it than a list of members, nothing was ever decided. The nodes form the cluster and
//!   are settled. Each first raises its vote to the highest it was told, so that no leader of an election before can come
//!   into being a second time. The first to form remembers which lives it saw: a node that hears that its own life was
//!   seen has not forgotten anything either, and forms too.
//! - **Recover.** If a log has more, the cluster is not new. The node needs answers of so many settled nodes that every
//!   majority has one of them. The highest vote among *all* answers is its *floor*. From now on it follows leaders that
//!   were elected above the floor, still without a vote. Where none is, it asks the present leader to hand over. When
//!   it has everything that such a leader has, it knows again whatever mattered: it is settled, and may vote.
//!
//! # Why this is safe
//!
//! Assumed: fewer than half of the nodes are unsettled at any time, counting from the loss of a disk until the node is
//! settled again. (*m* is a majority of *n* nodes.) Let X be a node whose earlier life is over. Two kinds of promises of
//! that life may still count.
//!
//! *A vote that X gave.* X voted for candidate K in election *v*, and K may still come to lead by it. K made *v* its own
//! vote, durably, before it asked X. If K answers X from that same life or with the disk of it, the answer is *v* or more,
//! and so is the floor. If K lost its disk, the candidacy died with its process: answers to it go nowhere, and K does
//! not stand again before it is settled above a floor of its own. Then *v* matters only if K had been elected before. Its
//! *m* voters had voted by the time K's process ended, and that was before K's answer in the *first* of the two rounds,
//! since K answered both from one life. So every answer of the second round came after those votes; more than *n - m* of
//! these answers are from settled nodes, hence one is from a voter; that one either kept its disk or has recovered, with a
//! floor of *v* or more by this same argument. (With one round only, that voter might have answered before it voted, and K
//! after it lost its disk.) Hence the floor is no less than any vote of a former life that can count, or that had won. X
//! follows nobody below: it never acknowledges an entry against a vote that it gave.
//!
//! *An entry that X acknowledged* to a leader of *v*. That leader had been elected, so the floor is *v* or more, by the same
//! argument. X votes only when it has all that a leader *w* above the floor had. If the entry was decided, or can still be
//! (an acknowledgement may be in flight), *w* has it: this is Raft's leader completeness, which needs of every node
//! only that it does not vote for *w* and acknowledge in *v* afterwards, and that it had the entry when it voted for *w*
//! after it acknowledged it. Both hold across lives. So X has the entry again when it votes.
//!
//! *X as a leader or candidate.* If X had been elected, one of its voters is among the settled ones that answer, so the floor
//! is no less, and X stands only above: no leader id is used twice. If X was not elected, its candidacy is over.
//!
//! Answers are taken from the core of the consensus library, between two of its steps, not from its metrics: an answer is
//! never older than a promise that was already sent.
//!
//! # Why only leaders above the floor
//!
//! To follow the leader of the floor itself would be safe too. But that leader remembers how much X had acknowledged, and
//! would see the log of a follower go back, which the library takes for a defect unless it is told to allow it for good. A
//! leader elected after the answers knows nothing of X. So the lead is handed over once, which takes about as long as a
//! planned restart of the leader, and `allow_log_reversion` stays off.
//!
//! # Caveats
//!
//! - A cluster is formed only when all of its nodes are there; from then on a majority is enough.
//! - A node that lost its disk comes back only when every other node answers, be it settled or not. A node that is gone for
//!   good can be started with an empty disk, as long as fewer than half are without theirs.
//! - If half of the disks or more are lost before the first of these nodes is settled again, so may be what only they had.
//!   A cluster of two does not get over the loss of a disk: nobody could be elected without the node that lost it.
//! - Viewstamped Replication Revisited, section 4.3, recovers from a majority of answers, which is not enough: see Michael,
//!   Ports, Sharma and Szekeres, *Recovering Shared Objects Without Stable Storage*, DISC 2017.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use conclave_wire::peer::peer_client::PeerClient;
use futures_util::future::{join, join_all};
use openraft::errors::{Fatal, InitializeError, RaftError};
use openraft::raft::VoteRequest;
use openraft::{RPCTypes, RaftState};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::sleep;
use tonic::Status;
use tonic::transport::Channel;

use crate::disk::silence::Silence;
use crate::identity::{Identity, Stage};
use crate::mutant::{self, Mutant};
use crate::network::{Peer, Peers, RpcError};
use crate::raft::{LogId, Node, Raft, Types, Vote};

/// How long to wait before asking again.
const PAUSE: Duration = Duration::from_millis(50);

/// What a node asks another about its past.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Question {
    /// The asking node cannot follow whoever leads now.
    pub(crate) plea: Option<Plea>,
}

/// A node that recovers needs a leader elected above its floor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plea {
    /// The floor.
    pub(crate) above: Vote,
    /// Who may lead: the settled ones.
    pub(crate) heirs: Vec<u64>,
}

/// What a node says about itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Past {
    /// It takes part.
    pub(crate) settled: bool,
    pub(crate) vote: Vote,
    /// The index of its last entry.
    pub(crate) last: Option<u64>,
    /// It leads, under this vote.
    pub(crate) leads: bool,
    /// Its present life.
    pub(crate) life: u64,
    /// The lives that it saw when it formed the cluster, if it did so in its present one.
    pub(crate) witnessed: Vec<u64>,
}

/// Tells another node what this one has behind it. Nothing that was promised before is missing in it.
pub(crate) async fn past(raft: &Raft, gate: &Gate) -> Result<Past, Fatal<Types>> {
    let position = Position::of(raft).await?;
    Ok(Past {
        settled: gate.is_open(),
        vote: position.vote,
        last: position.last.map(|id| id.index),
        leads: position.leads,
        life: gate.life,
        witnessed: gate.witnessed.get().cloned().unwrap_or_default(),
    })
}

impl Past {
    /// Whether there was never a leader whose entries it had: the first one of each is its claim to lead, and the list
    /// of members stands at the very beginning.
    fn is_blank(&self) -> bool {
        self.last.is_none_or(|last| last == 0)
    }
}

/// Where the core of the consensus library stands, between two of its steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    pub(crate) vote: Vote,
    /// It leads, under that vote.
    pub(crate) leads: bool,
    pub(crate) last: Option<LogId>,
    pub(crate) committed: Option<LogId>,
}

impl Position {
    pub(crate) async fn of(raft: &Raft) -> Result<Self, Fatal<Types>> {
        let me = *raft.node_id();
        let look = move |state: &RaftState<Types>| {
            let vote = *state.vote_ref();
            let leads = state.server_state.is_leader() && vote.committed && vote.leader_id.node_id == me;
            let last = state.log_ids.last().copied();
            Self { vote, leads, last, committed: state.local_committed().copied() }
        };
        let (tell, told) = oneshot::channel();
        let request = move |state: &RaftState<Types>| {
            // Whoever asked may have gone meanwhile.
            let _ = tell.send(look(state));
        };
        raft.external_request(request).await?;
        told.await.map_err(|_| Fatal::Stopped)
    }
}

/// Votes for somebody who is not told of it: from now on this node follows and elects only what comes after.
pub(crate) async fn rise_to(raft: &Raft, vote: Vote) -> io::Result<()> {
    let vote = Vote { committed: false, ..vote };
    // No log of this node is longer: the vote is above its own.
    let last = LogId { leader_id: vote.leader_id, index: u64::MAX };
    let request = VoteRequest { vote, last_log_id: Some(last), leadership_transfer: true };
    let response = raft.vote(request).await.map_err(io::Error::other)?;
    if later(&response.vote, &vote) == Ordering::Less {
        return Err(io::Error::other(format!("the vote cannot be raised to {vote}")));
    }
    Ok(())
}

/// In how far a node takes part.
#[derive(Debug)]
pub(crate) struct Gate {
    part: Mutex<Part>,
    /// What is promised is written first.
    disk: Arc<Silence>,
    /// A random number.
    life: u64,
    witnessed: OnceLock<Vec<u64>>,
    /// Who was settled when the floor was found.
    heirs: OnceLock<Vec<u64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Not at all.
    None,
    /// It follows leaders above this vote.
    Above(Vote),
    /// Fully.
    Full,
}

impl Gate {
    pub(crate) fn new(settled: bool, life: u64, disk: Arc<Silence>) -> Self {
        let part = if settled { Part::Full } else { Part::None };
        Self { part: Mutex::new(part), disk, life, witnessed: OnceLock::new(), heirs: OnceLock::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Part> {
        self.part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_open(&self) -> bool {
        *self.lock() == Part::Full
    }

    pub(crate) fn may_vote(&self) -> Result<(), Status> {
        match *self.lock() {
            Part::Full => self.may_promise(),
            Part::None | Part::Above(_) => Err(Status::unavailable("this node has to catch up first")),
        }
    }

    /// Whether this node may ask others for their votes.
    pub(crate) fn may_stand(&self) -> bool {
        self.is_open() && self.may_promise().is_ok()
    }

    /// Whether what this node promises can be made safe now. While its disk hangs the consensus library would wait for it, and
    /// hear nothing else meanwhile.
    pub(crate) fn may_promise(&self) -> Result<(), Status> {
        match self.disk.hangs() {
            None => Ok(()),
            Some(_) => Err(Status::unavailable("the disk of this node does not answer")),
        }
    }

    /// For how long the disk has hung, if it does.
    pub(crate) fn disk_hangs(&self) -> Option<Duration> {
        self.disk.hangs()
    }

    pub(crate) fn may_follow(&self, vote: &Vote) -> Result<(), Status> {
        match *self.lock() {
            Part::Full => Ok(()),
            Part::Above(floor) if later(vote, &floor) == Ordering::Greater => Ok(()),
            Part::Above(_) => {
                Err(Status::unavailable("this node lost its disk and needs a leader elected since"))
            }
            Part::None => Err(Status::unavailable("this node is finding out what it missed")),
        }
    }

    fn floor(&self) -> Option<Vote> {
        match *self.lock() {
            Part::Above(floor) => Some(floor),
            Part::None | Part::Full => None,
        }
    }

    /// From now on this node takes no part any more.
    pub(crate) fn close(&self) {
        self.set(Part::None);
    }

    fn set(&self, part: Part) {
        let before = std::mem::replace(&mut *self.lock(), part);
        match (before, part) {
            (Part::None, Part::Above(_)) => {
                tracing::info!("the cluster exists, and this node has nothing of it: it catches up");
            }
            (Part::None | Part::Above(_), Part::Full) => tracing::info!("this node takes part"),
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
        let mut before = BTreeMap::new();
        let mut goal = None;
        let mut is_told = false;
        loop {
            let (pasts, has_double) = join(self.ask_all(), self.has_double()).await;
            if has_double {
                if !std::mem::replace(&mut is_told, true) {
                    self.tell_of_double();
                }
                before.clear();
                sleep(PAUSE).await;
                continue;
            }
            let lives = pasts.iter().map(|(id, past)| (*id, past.life)).collect();
            let is_whole = pasts.len() + 1 == self.identity.members.len();
            let counts = is_whole && (before == lives || mutant::is(Mutant::AsksOnce));
            before = lives;
            match self.go_on(&pasts, counts, &mut goal).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => tracing::error!(%error, "this node cannot take part yet"),
            }
            sleep(PAUSE).await;
        }
    }

    /// Takes the next step; says whether it was the last.
    async fn go_on(&self, pasts: &Pasts, counts: bool, kept: &mut Option<Past>) -> io::Result<bool> {
        let mine = past(&self.raft, &self.gate).await.map_err(io::Error::other)?;
        // A node that is alone in its cluster has forgotten nothing, or everything.
        let is_alone = self.identity.members.len() == 1;
        let is_new = counts && (is_alone || pasts.values().chain([&mine]).all(Past::is_blank));
        if is_new || self.was_seen(pasts) {
            self.form(pasts).await?;
            if is_new {
                // Nobody leads yet. Who comes first hardly matters, but waiting would.
                self.raft.trigger().elect(true).await.map_err(io::Error::other)?;
            }
            return Ok(true);
        }
        if (counts || mutant::is(Mutant::FloorOfMajority)) && self.gate.floor().is_none() {
            self.find_floor(pasts);
        }
        let Some(found) = self.goal(pasts) else { return Ok(false) };
        // What a leader had when it was first asked is enough. Under load it always has entries that are applied nowhere
        // yet, and whoever went for the newest would never arrive.
        let goal = match kept.take() {
            Some(goal) if goal.vote == found.vote && !mutant::is(Mutant::ChasesLeader) => kept.insert(goal),
            _ => kept.insert(found.clone()),
        };
        if !self.has_reached(goal).await? {
            return Ok(false);
        }
        self.take_part().await?;
        Ok(true)
    }

    async fn ask_all(&self) -> Pasts {
        let question = self.question().await;
        let answers = self.peers.all().map(|peer| ask(peer, question.clone(), self.patience));
        join_all(answers).await.into_iter().flatten().collect()
    }

    /// Whether another process answers at the address of this node, under its number.
    async fn has_double(&self) -> bool {
        let Some(own) = self.peers.own() else { return false };
        let answer = ask(own, Question::default(), self.patience).await;
        answer.is_some_and(|(_, past)| past.life != self.gate.life)
    }

    fn tell_of_double(&self) {
        let (node, address) = (self.identity.id, self.identity.members.get(&self.identity.id));
        tracing::error!(
            node,
            address,
            "another process runs as this node, with another data directory: this one takes no part while it does; stop \
             one of them, or give this one its own --id"
        );
    }

    /// Pleads for another leader as long as there is none to follow.
    async fn question(&self) -> Question {
        let Some(above) = self.gate.floor() else { return Question::default() };
        let follows =
            Position::of(&self.raft).await.is_ok_and(|at| later(&at.vote, &above) == Ordering::Greater);
        let heirs = self.gate.heirs.get().cloned().unwrap_or_default();
        Question { plea: (!follows).then_some(Plea { above, heirs }) }
    }

    fn majority(&self) -> usize {
        self.identity.members.len() / 2 + 1
    }

    /// Whether somebody saw this node, in this life, when the cluster was formed.
    fn was_seen(&self, pasts: &Pasts) -> bool {
        pasts.values().any(|past| past.settled && past.witnessed.contains(&self.gate.life))
    }

    /// Writes the list of members; all who form the cluster write the same one. The library stands for election as soon
    /// as that is written, which goes nowhere: the gate is closed until this node is settled. So a crash in the middle of
    /// it leaves no promise behind.
    async fn form(&self, pasts: &Pasts) -> io::Result<()> {
        self.gate.witnessed.get_or_init(|| pasts.values().map(|past| past.life).collect());
        let members = self.identity.members.iter().map(|(&id, address)| (id, Node::new(address.clone())));
        match self.raft.initialize(members.collect::<BTreeMap<_, _>>()).await {
            Ok(()) => tracing::info!(members = self.identity.members.len(), "a new cluster"),
            // It was done before.
            Err(RaftError::APIError(InitializeError::NotAllowed(_))) => {}
            Err(error) => return Err(io::Error::other(error)),
        }
        let highest = pasts.values().map(|past| past.vote).max_by(later);
        if let Some(vote) = highest.filter(|vote| vote.leader_id.term > 0) {
            rise_to(&self.raft, vote).await?;
        }
        self.take_part().await
    }

    async fn take_part(&self) -> io::Result<()> {
        self.identity.note(Stage::Settled).await?;
        self.gate.set(Part::Full);
        self.raft.runtime_config().elect(true);
        Ok(())
    }

    /// Fixes above which vote to follow, if enough settled nodes are among those who answered.
    fn find_floor(&self, pasts: &Pasts) {
        let settled: Vec<u64> = pasts.iter().filter(|(_, past)| past.settled).map(|(id, _)| *id).collect();
        if settled.len() + self.majority() <= self.identity.members.len() {
            return;
        }
        if let Some(floor) = pasts.values().map(|past| past.vote).max_by(later) {
            self.gate.heirs.get_or_init(|| settled);
            self.gate.set(Part::Above(floor));
        }
    }

    /// What has to be caught up with: what the last leader has that counts.
    fn goal<'a>(&self, pasts: &'a Pasts) -> Option<&'a Past> {
        let floor = self.gate.floor()?;
        let counts =
            |past: &&Past| past.settled && past.leads && later(&past.vote, &floor) == Ordering::Greater;
        pasts.values().filter(counts).max_by(|one, other| later(&one.vote, &other.vote))
    }

    /// Whether everything up to there was applied here, under that leader. What was applied was appended before, and
    /// the log is written in order: it will be safe before any vote of this node is.
    async fn has_reached(&self, goal: &Past) -> io::Result<bool> {
        let position = Position::of(&self.raft).await.map_err(io::Error::other)?;
        let applied = self.raft.watch_apply_progress().get().map(|id| id.index);
        Ok(position.vote == goal.vote && applied >= goal.last)
    }
}

/// What the others answered.
type Pasts = BTreeMap<u64, Past>;

/// Asks a node what it has behind it; nothing if it does not answer.
pub(crate) async fn ask(peer: Peer, question: Question, patience: Duration) -> Option<(u64, Past)> {
    let answer = peer.past(&question, patience).await;
    let answer = answer.inspect_err(|error| tracing::debug!(peer = peer.id(), %error, "no answer yet"));
    Some((peer.id(), answer.ok()?))
}

impl Peer {
    /// Asks a node what it has behind it.
    pub(crate) async fn past(&self, question: &Question, patience: Duration) -> Result<Past, RpcError> {
        let call = |mut client: PeerClient<Channel>, request| async move { client.past(request).await };
        self.ask(RPCTypes::Vote, question, patience, call).await
    }
}

/// Votes of different leaders in one term are ordered here, since that is how the library is configured.
pub(crate) fn later(one: &Vote, other: &Vote) -> Ordering {
    (one.leader_id, one.committed).cmp(&(other.leader_id, other.committed))
}

#[cfg(test)]
mod tests;
