//! Giving the lead to another node.

use std::cmp::Ordering;
use std::sync::Arc;

use openraft::Instant as _;
use openraft::async_runtime::watch::WatchReceiver;
use tokio::sync::{Mutex, watch};
use tokio::time::timeout;

use crate::birth::{Plea, Position, later, rise_to};
use crate::consensus::{Kept, Leader, Timing};
use crate::raft::Raft;

/// Hands the lead of this node over.
#[derive(Clone)]
pub(crate) struct Handover {
    pub(crate) id: u64,
    pub(crate) raft: Raft,
    pub(crate) leader: watch::Receiver<Option<Leader>>,
    pub(crate) timing: Timing,
    /// Held while a plea is being granted: one that comes again meanwhile changes nothing.
    pub(crate) under_way: Arc<Mutex<()>>,
}

impl Handover {
    /// Makes another node the leader: the one that has most, of those that answer and may lead.
    pub(crate) async fn to_any(&self, may_lead: impl Fn(u64) -> bool) -> Result<u64, Kept> {
        let heir = self.heir(may_lead)?;
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

    fn heir(&self, may_lead: impl Fn(u64) -> bool) -> Result<u64, Kept> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let Some(replication) = &metrics.replication else { return Err(Kept::NotLeader) };
        let answered = |id: &u64| {
            let heartbeat = metrics.heartbeat.as_ref().and_then(|heard| heard.get(id).cloned().flatten());
            heartbeat.is_some_and(|at| at.elapsed() < self.timing.election_max)
        };
        let others = replication.iter().filter(|&(id, _)| *id != self.id && may_lead(*id) && answered(id));
        others.max_by_key(|&(_, matched)| *matched).map(|(&id, _)| id).ok_or(Kept::Nobody)
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
