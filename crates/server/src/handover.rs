//! Giving the lead to another node.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use openraft::Instant as _;
use openraft::async_runtime::watch::WatchReceiver;
use tokio::sync::{Mutex, watch};
use tokio::time::{sleep, timeout};

use crate::birth::{Gate, Past, Plea, Position, Question, ask, later, rise_to};
use crate::consensus::{Kept, Leader, Timing};
use crate::mutant::{self, Mutant};
use crate::network::Peers;
use crate::raft::Raft;

/// Hands the lead of this node over.
#[derive(Clone)]
pub(crate) struct Handover {
    pub(crate) id: u64,
    pub(crate) raft: Raft,
    pub(crate) leader: watch::Receiver<Option<Leader>>,
    pub(crate) timing: Timing,
    pub(crate) peers: Arc<Peers>,
    /// Held while a plea is being granted: one that comes again meanwhile changes nothing.
    pub(crate) under_way: Arc<Mutex<()>>,
}

impl Handover {
    /// Makes another node the leader: the one that has most, of those that answer and take part. One that recovers could
    /// not be elected, and the lead would be nobody's for as long as this node waited for it.
    pub(crate) async fn to_settled(&self) -> Result<u64, Kept> {
        let heirs = self.heirs()?;
        let candidates = self.peers.all().filter(|peer| heirs.contains(&peer.id()));
        let pasts = candidates.map(|peer| ask(peer, Question::default(), self.timing.election_max));
        let pasts: BTreeMap<u64, Past> = join_all(pasts).await.into_iter().flatten().collect();
        let takes_part = |id| pasts.get(&id).is_some_and(|past| past.settled);
        self.to_any(|id| takes_part(id) || mutant::is(Mutant::AnyHeir)).await
    }

    /// Hands the lead over whenever this node leads and its disk hangs, for as long as it runs: what it decides then is
    /// decided by the others alone, and one more that fails would end that. While nobody can take over it goes on leading.
    pub(crate) async fn when_the_disk_hangs(self, gate: Arc<Gate>) {
        loop {
            sleep(self.timing.heartbeat).await;
            let leads = self.leader.borrow().is_some_and(|leader| leader.is_me);
            if leads && gate.disk_hangs().is_some() {
                match self.to_settled().await {
                    Ok(node) => {
                        tracing::warn!(node, "handed the lead over: the disk of this node does not answer");
                    }
                    Err(error) => tracing::debug!(%error, "the lead is not handed over yet"),
                }
            }
        }
    }

    /// Makes another node the leader: the one that has most, of those that answer and may lead.
    async fn to_any(&self, may_lead: impl Fn(u64) -> bool) -> Result<u64, Kept> {
        let heir = self.heirs()?.into_iter().find(|id| may_lead(*id)).ok_or(Kept::Nobody)?;
        let mut leader = self.leader.clone();
        let trigger = self.raft.trigger().transfer_leader(heir).await;
        trigger.map_err(|fatal| Kept::Stopped(fatal.to_string()))?;
        let changed = leader.wait_for(|leader| leader.is_some_and(|leader| !leader.is_me));
        match timeout(self.timing.election_max * 2, changed).await {
            Ok(Ok(leader)) => Ok(leader.map_or(heir, |leader| leader.id)),
            Ok(Err(_)) => Err(Kept::Stopped("it was shut down".to_owned())),
            Err(_) => Err(Kept::Late(heir)),
        }
    }

    /// Who could lead: the nodes that answer and have all that was applied here, those that have most first.
    fn heirs(&self) -> Result<Vec<u64>, Kept> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let Some(replication) = &metrics.replication else { return Err(Kept::NotLeader) };
        let answered = |id: &u64| {
            let heartbeat = metrics.heartbeat.as_ref().and_then(|heard| heard.get(id).cloned().flatten());
            heartbeat.is_some_and(|at| at.elapsed() < self.timing.election_max)
        };
        let others = replication.iter().filter(|&(id, _)| *id != self.id && answered(id));
        let mut heirs: Vec<_> = others.filter(|&(_, matched)| *matched >= metrics.last_applied).collect();
        heirs.sort_by_key(|&(_, matched)| Reverse(*matched));
        Ok(heirs.into_iter().map(|(&id, _)| id).collect())
    }

    /// Makes way for a leader that a recovering node can follow, if this node leads and is none.
    pub(crate) async fn grant(self, plea: Plea) {
        let Ok(_under_way) = self.under_way.try_lock() else { return };
        let Ok(position) = Position::of(&self.raft).await else { return };
        if !position.leads {
            return;
        }
        match position.vote.leader_id.cmp(&plea.above.leader_id) {
            Ordering::Greater => {}
            Ordering::Equal => match self.to_any(|id| plea.heirs.contains(&id)).await {
                Ok(node) => tracing::info!(node, "handed the lead over: a node that lost its disk needs it"),
                Err(error) => tracing::warn!(%error, "a node that lost its disk needs another leader"),
            },
            // An election has been begun that this node has not heard of: it stops leading, and so does everyone up to
            // there. The next to be elected is above.
            Ordering::Less => {
                debug_assert_eq!(later(&position.vote, &plea.above), Ordering::Less);
                if let Err(error) = rise_to(&self.raft, plea.above).await {
                    tracing::warn!(%error, "a node that lost its disk needs another leader");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
