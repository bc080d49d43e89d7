//! Noticing that a data directory is older than what its node has promised.
//!
//! A node must not forget what it acknowledged. One whose directory was put back from a copy has forgotten without a trace:
//! every file is whole. But a leader knows what each follower acknowledged to it, and says so whenever it opens a stream of
//! entries. The follower compares that with what it has:
//!
//! - If it voted for somebody later since, its log may have been cut by that one, and nothing is known.
//! - If it voted for somebody earlier, it has forgotten that vote.
//! - If its vote is still for that leader, nobody cut its log, and every entry that it acknowledged must be there.
//!
//! So what is found is never wrong. The node then takes no part any more, notes beside its files what it found, so that it is
//! found again at the next start whoever leads then, and stops. `repair.rs` takes it for damage.
//!
//! # Caveats
//!
//! A leader remembers for as long as its process runs. A directory that is put back is not noticed
//!
//! - if the leader to which the node acknowledged more has ended meanwhile, or was followed by another one that the copy of the
//!   directory does not know either;
//! - if it lost nothing but a vote for somebody who was not elected;
//! - on a single node.

use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tonic::Status;

use crate::birth::Gate;
use crate::disk::{Disk, StorageError, within};
use crate::log::LogReader;
use crate::mutant::{self, Mutant};
use crate::raft::{LeaderId, LogId};

/// The file that says that a directory is too old.
pub(crate) const NAME: &str = "outdated";

/// The last entry that a node has acknowledged, and to which leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Acknowledged {
    pub(crate) leader: LeaderId,
    pub(crate) last: LogId,
}

/// What another node has acknowledged to this one.
#[derive(Debug, Default)]
pub(crate) struct Acknowledgements(Mutex<Option<Acknowledged>>);

impl Acknowledgements {
    /// Notes one; of several only the last counts.
    pub(crate) fn note(&self, leader: LeaderId, last: LogId) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none_or(|known| (known.leader, known.last) < (leader, last)) {
            *known = Some(Acknowledged { leader, last });
        }
    }

    pub(crate) fn newest(&self) -> Option<Acknowledged> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compares what this node has with what others remember of it.
pub(crate) struct Memory {
    log: LogReader,
    gate: Arc<Gate>,
    disk: Arc<dyn Disk>,
    /// What was found to be forgotten, if anything.
    found: watch::Sender<Option<String>>,
}

impl Memory {
    pub(crate) fn new(log: LogReader, gate: Arc<Gate>, disk: Arc<dyn Disk>) -> Self {
        Self { log, gate, disk, found: watch::Sender::new(None) }
    }

    /// Makes sure that this node still has what it acknowledged.
    pub(crate) async fn check(&self, acknowledged: Acknowledged) -> Result<(), Status> {
        // A node that lost its disk knows it, and finds out what it missed.
        if !self.gate.is_open() || !self.lacks(acknowledged) || mutant::is(Mutant::TrustsOldFiles) {
            return Ok(());
        }
        let Acknowledged { leader, last } = acknowledged;
        let why = format!(
            "this node acknowledged entry {} to node {} in term {}, and does not have it: its data directory is older",
            last.index, leader.node_id, leader.term
        );
        self.gate.close();
        self.note(&why).await;
        self.found.send_replace(Some(why.clone()));
        Err(Status::failed_precondition(why))
    }

    fn lacks(&self, acknowledged: Acknowledged) -> bool {
        let (vote, last) = self.log.end();
        let voted = vote.map(|vote| vote.leader_id);
        voted < Some(acknowledged.leader)
            || voted == Some(acknowledged.leader) && last < Some(acknowledged.last)
    }

    /// Notes on the disk what was found. If that fails the node stops all the same, and finds it again as long as the others
    /// remember.
    async fn note(&self, why: &str) {
        let (disk, bytes) = (Arc::clone(&self.disk), why.as_bytes().to_vec());
        let noted = within(&*self.disk, async move { disk.replace(NAME, &bytes).await }).await;
        if let Err(error) = noted.and_then(|noted| noted) {
            tracing::error!(%error, "it cannot be noted that this data directory is too old");
        }
    }

    /// Returns when something was found to be forgotten, and says what.
    pub(crate) async fn forgotten(&self) -> String {
        let mut found = self.found.subscribe();
        let what = found.wait_for(Option::is_some).await.ok().and_then(|what| what.clone());
        match what {
            Some(what) => {
                format!("{what}; start it with --repair, and it fetches what it lacks from the others")
            }
            // The sender lives as long as this.
            None => std::future::pending().await,
        }
    }
}

/// Whether nobody has found a directory to be too old.
///
/// # Errors
/// If somebody has.
pub(crate) async fn is_current(disk: &Arc<dyn Disk>) -> Result<(), StorageError> {
    let at = Arc::clone(disk);
    let read = async move {
        let names = at.list().await?;
        if names.iter().any(|name| name == NAME) { at.read(NAME).await.map(Some) } else { Ok(None) }
    };
    let noted = within(&**disk, read).await.and_then(|noted| noted);
    match noted.map_err(StorageError::io(&**disk, NAME))? {
        None => Ok(()),
        Some(why) => Err(StorageError::Outdated {
            place: disk.place(NAME),
            why: String::from_utf8_lossy(&why).into_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use openraft::storage::RaftLogStorage as _;

    use super::*;
    use crate::disk::MemoryDisk;
    use crate::disk::silence::Silence;
    use crate::log::Log;
    use crate::mutant::tests::assert_caught;
    use crate::raft::Vote;

    fn acknowledged(term: u64, index: u64) -> Acknowledged {
        let leader = LeaderId { term, node_id: 2 };
        Acknowledged { leader, last: LogId::new(leader, index) }
    }

    /// A node that voted for this leader, and has nothing in its log.
    async fn node(term: u64, settled: bool) -> (MemoryDisk, Memory) {
        let disk = MemoryDisk::default();
        let (mut log, _closed) = Log::open(Arc::new(disk.clone()), 16 << 10, true).await.unwrap();
        log.save_vote(&Vote::new_committed(term, 2)).await.unwrap();
        let gate = Arc::new(Gate::new(settled, 7, Arc::new(Silence::new(Duration::MAX))));
        let memory = Memory::new(log.reader(), gate, Arc::new(disk.clone()));
        (disk, memory)
    }

    #[tokio::test]
    async fn only_what_cannot_be_otherwise_is_a_loss() {
        let (disk, memory) = node(5, true).await;
        memory.check(acknowledged(4, 9)).await.unwrap();
        assert!(memory.gate.is_open());
        is_current(&memory.disk).await.unwrap();
        let refused = memory.check(acknowledged(5, 9)).await.unwrap_err();
        assert!(
            refused.message().starts_with("this node acknowledged entry 9 to node 2 in term 5"),
            "{refused}"
        );
        assert!(!memory.gate.is_open());
        assert!(memory.forgotten().await.contains("--repair"));
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let error = is_current(&disk).await.unwrap_err();
        assert!(error.is_damage() && error.to_string().contains("entry 9"), "{error}");

        let (_, forgot_a_vote) = node(5, true).await;
        forgot_a_vote.check(acknowledged(6, 0)).await.unwrap_err();
        let (_, lost_its_disk) = node(5, false).await;
        lost_its_disk.check(acknowledged(6, 0)).await.unwrap();
    }

    #[test]
    fn that_a_loss_is_found_is_tested() {
        let test = "outdated::tests::only_what_cannot_be_otherwise_is_a_loss";
        assert_caught(test, Mutant::TrustsOldFiles, "panicked");
    }

    #[test]
    fn the_last_acknowledgement_counts() {
        let known = Acknowledgements::default();
        assert_eq!(known.newest(), None);
        for (term, index, last) in [(5, 3, (5, 3)), (5, 2, (5, 3)), (6, 1, (6, 1)), (5, 9, (6, 1))] {
            let Acknowledged { leader, last: entry } = acknowledged(term, index);
            known.note(leader, entry);
            assert_eq!(known.newest(), Some(acknowledged(last.0, last.1)));
        }
    }
}
