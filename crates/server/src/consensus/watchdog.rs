//! Noticing at once that the leader is gone.
//!
//! That a leader is silent shows only after a while. But when a process ends, its connections end with it, and nobody
//! listens where it did. So a follower keeps a stream open to its leader, on which nothing is said (`Pulse`). When it
//! breaks, the follower *looks*: it connects to the leader's address. If it is refused, or if whoever answers there says that
//! it does not lead, the leader is gone: it will not lead in this term again.
//!
//! ```text
//!   p1  leads ✗ killed
//!   p2  ── pulse breaks ── looks: refused ── Gone(seen by 2) ─▶ p3
//!   p3                                                          looks: refused
//!   p2  ◀─ yes ─ that is a majority ── Gone(seen by 2, 3) ─▶ p3, and both give up the lease of p1
//!   p2  ── PreVote ─▶ ── Vote ─▶                            as in every election
//! ```
//!
//! Every node looks for itself, and what one says is no more than a reason to look. A lease that was given up cannot be
//! taken back in the same term, so nobody gives it up before a majority has seen the same. Of those who have, the one with
//! the longest log stands first, of several the one with the smallest number, and the others a little later if that led
//! to nothing: candidates who stand at the same time split the votes.
//!
//! A machine that loses its power or its network refuses nothing. Its followers wait until it has been silent for as long as
//! [`Timing`] says, and stand one after the other, too.
//!
//! # What it rests on
//!
//! Nothing but how soon an election begins. Leases of the consensus library keep elections from disturbing a leader; that
//! two nodes never decide differently, that reads are of the present and that tokens grow rests on votes and majorities. If a
//! majority is refused by a leader that lives (a firewall, a broken listener), it is replaced by one that can be reached.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use conclave_wire::Connector;
use conclave_wire::peer::peer_client::PeerClient;
use futures_util::future::join_all;
use openraft::RPCTypes;
use openraft::raft::TransferLeaderRequest;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tonic::transport::Channel;

use super::presence::Ear;
use super::{Leader, Timing};
use crate::birth::{Gate, Position, Question};
use crate::mutant::{self, Mutant};
use crate::network::{Peer, Peers, RpcError};
use crate::raft::{LeaderId, LogId, Raft, Vote};

/// How long after a stream broke to look for the leader: a process that ends does not close everything in one moment.
const LOOKS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(3),
    Duration::from_millis(10),
    Duration::from_millis(30),
    Duration::from_millis(100),
];
/// How long to wait before the stream is opened again, at first and at the most.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_LAST: Duration = Duration::from_secs(2);

/// That a leader is gone, and who has seen it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sighting {
    /// The leader's vote.
    vote: Vote,
    /// All who have looked, and found it gone.
    seen_by: Vec<u64>,
}

/// What a node found that looked for itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Finding {
    is_gone: bool,
    /// Its last entry.
    last: Option<LogId>,
}

/// Looks after the leader.
pub(crate) struct Watchdog {
    pub(crate) me: u64,
    pub(crate) members: BTreeMap<u64, String>,
    pub(crate) timing: Timing,
    pub(crate) raft: Raft,
    pub(crate) gate: Arc<Gate>,
    pub(crate) ear: Arc<Ear>,
    pub(crate) elected: watch::Receiver<Option<Leader>>,
    pub(crate) transport: Connector,
    pub(crate) peers: Peers,
}

/// For how long a leader may be silent: no other node stands for election before.
pub(crate) fn patience(timing: Timing) -> Duration {
    timing.election_max + timing.election_min
}

impl Watchdog {
    /// Notices that the leader is gone, for as long as this node runs.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut elected = self.elected.clone();
        loop {
            let leader = *elected.borrow_and_update();
            let changed = match leader.filter(|leader| !leader.is_me) {
                None => elected.changed().await,
                Some(leader) => tokio::select! {
                    biased;
                    changed = elected.changed() => changed,
                    () = self.look_after(leader) => Ok(()),
                },
            };
            if changed.is_err() {
                return;
            }
        }
    }

    /// Stands for election when the leader has been silent for too long, one node after the other. If that leads to
    /// nothing, the consensus library goes on by itself, at random times.
    pub(crate) async fn stand_when_silent(self: Arc<Self>) {
        let mut elected = self.elected.clone();
        loop {
            let leader = elected.borrow_and_update().filter(|leader| !leader.is_me);
            let pause = match leader {
                None => None,
                Some(leader) => {
                    let due = patience(self.timing) + self.turn(self.rank(leader.id));
                    let silence = self.ear.silence(leader).unwrap_or_default();
                    if silence >= due {
                        self.stand().await;
                    }
                    let left = due.saturating_sub(silence);
                    Some(if left.is_zero() { self.timing.election_max } else { left })
                }
            };
            let changed = async {
                match pause {
                    None => elected.changed().await,
                    Some(pause) => timeout(pause, elected.changed()).await.unwrap_or(Ok(())),
                }
            };
            if changed.await.is_err() {
                return;
            }
        }
    }

    /// The place of this node among those that do not lead.
    fn rank(&self, leader: u64) -> usize {
        self.members.keys().filter(|id| **id != leader && **id < self.me).count()
    }

    /// How long a node waits that is in this place: long enough for an election.
    fn turn(&self, place: usize) -> Duration {
        self.timing.election_min * 2 / 3 * place as u32
    }

    /// Asks for votes, if this node may. It is refused by whoever hears a leader.
    async fn stand(&self) {
        if self.gate.may_stand() {
            // A node that has stopped stands for nothing.
            drop(self.raft.trigger().elect(true).await);
        }
    }

    /// Returns when there is nothing to look after any more, which the caller notices as well.
    async fn look_after(&self, leader: Leader) {
        let vote = Vote { leader_id: LeaderId { term: leader.term, node_id: leader.id }, committed: true };
        let mut pause = PAUSE_FIRST;
        loop {
            let Some(peer) = self.peers.all().find(|peer| peer.id() == leader.id) else { return };
            match peer.pulse(self.timing.election_max).await {
                Ok(()) => pause = PAUSE_FIRST,
                Err(error) => tracing::debug!(leader = leader.id, %error, "no stream to the leader"),
            }
            self.investigate(&vote).await;
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_LAST);
        }
    }

    /// The stream to the leader broke. Mostly it was no more than that.
    async fn investigate(&self, vote: &Vote) {
        for pause in LOOKS {
            sleep(pause).await;
            while self.looks_gone(vote).await {
                match self.replace(vote).await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        tracing::debug!(%error, "the leader cannot be replaced");
                        return;
                    }
                }
                sleep(self.timing.election_min).await;
            }
        }
    }

    /// Whether the leader is gone, by what this node sees.
    async fn looks_gone(&self, vote: &Vote) -> bool {
        let began = tokio::time::Instant::now();
        let is_gone = self.look(vote.leader_id.node_id).await;
        if is_gone {
            self.ear.gone(vote.leader_id, began);
        }
        // A word that came meanwhile tells more.
        is_gone && self.ear.is_gone(vote.leader_id)
    }

    /// Whether nobody listens at the address of a node, or only one who does not lead.
    async fn look(&self, node: u64) -> bool {
        let Some(address) = self.members.get(&node).cloned() else { return false };
        match timeout(self.timing.election_min, self.transport.connect(address)).await {
            Ok(Err(error)) => error.kind() == io::ErrorKind::ConnectionRefused,
            Ok(Ok(_)) => {
                let Some(peer) = self.peers.all().find(|peer| peer.id() == node) else { return false };
                let past = peer.past(&Question::default(), self.timing.election_min).await;
                past.is_ok_and(|past| !past.leads)
            }
            Err(_) => false,
        }
    }

    /// Has the leader replaced, if a majority has seen that it is gone; says whether it has.
    async fn replace(&self, vote: &Vote) -> io::Result<bool> {
        let position = self.position().await?;
        if position.vote != *vote || !self.gate.may_stand() {
            return Ok(false);
        }
        let found = self.ask_all(Sighting { vote: *vote, seen_by: vec![self.me] }, |_| true).await;
        let mut witnesses: Vec<(Option<LogId>, u64)> = found
            .iter()
            .filter(|(_, finding)| finding.is_gone)
            .map(|(id, finding)| (finding.last, *id))
            .collect();
        witnesses.push((position.last, self.me));
        let seen_by: Vec<u64> = witnesses.iter().map(|(_, id)| *id).collect();
        if !self.is_majority(&seen_by) {
            return Ok(false);
        }
        let _told = self
            .ask_all(Sighting { vote: *vote, seen_by: seen_by.clone() }, |id| seen_by.contains(&id))
            .await;
        self.give_up(vote).await?;
        witnesses.sort_by_key(|(last, id)| (Reverse(*last), *id));
        let place = witnesses.iter().position(|(_, id)| *id == self.me).unwrap_or(0);
        sleep(self.turn(place)).await;
        if self.position().await?.vote == *vote {
            tracing::info!("node {} is gone: a majority has seen it", vote.leader_id.node_id);
            self.stand().await;
        }
        Ok(true)
    }

    async fn ask_all(&self, sighting: Sighting, whom: impl Fn(u64) -> bool) -> Vec<(u64, Finding)> {
        let leader = sighting.vote.leader_id.node_id;
        let others = self.peers.all().filter(|peer| peer.id() != leader && whom(peer.id()));
        let answers = others.map(|peer| {
            let sighting = sighting.clone();
            async move { Some((peer.id(), peer.gone(&sighting, self.timing.election_min).await.ok()?)) }
        });
        join_all(answers).await.into_iter().flatten().collect()
    }

    /// Another node has seen that the leader is gone: this one looks for itself.
    pub(crate) async fn on_sighting(&self, sighting: Sighting) -> io::Result<Finding> {
        let Sighting { vote, mut seen_by } = sighting;
        let position = self.position().await?;
        let follows = position.vote == vote && self.gate.may_stand() && vote.leader_id.node_id != self.me;
        let is_gone = follows
            && (self.ear.is_gone(vote.leader_id)
                || self.looks_gone(&vote).await
                || mutant::is(Mutant::BelievesOneNode));
        if is_gone {
            seen_by.push(self.me);
            if self.is_majority(&seen_by) {
                self.give_up(&vote).await?;
            }
        }
        Ok(Finding { is_gone, last: position.last })
    }

    fn is_majority(&self, nodes: &[u64]) -> bool {
        let nodes: BTreeSet<u64> = nodes.iter().copied().filter(|id| self.members.contains_key(id)).collect();
        nodes.len() * 2 > self.members.len()
    }

    async fn position(&self) -> io::Result<Position> {
        Position::of(&self.raft).await.map_err(io::Error::other)
    }

    /// Gives up the lease of a leader: from now on this node would vote for another one. The library does that when a leader
    /// says that it hands the lead over; nobody is named as its heir.
    async fn give_up(&self, vote: &Vote) -> io::Result<()> {
        let handed_over = TransferLeaderRequest::new(*vote, vote.leader_id.node_id, None);
        self.raft.handle_transfer_leader(handed_over).await.map(drop).map_err(io::Error::other)
    }
}

impl Peer {
    /// Tells a node that the leader is gone, and asks what it sees.
    async fn gone(&self, sighting: &Sighting, patience: Duration) -> Result<Finding, RpcError> {
        let call = |mut client: PeerClient<Channel>, request| async move { client.gone(request).await };
        self.ask(RPCTypes::Vote, sighting, patience, call).await
    }
}
