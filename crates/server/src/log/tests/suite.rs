//! The consensus library's own tests of a storage.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use conclave_service::{Outcome, State};
use futures_util::{Stream, StreamExt as _, stream};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::{EntryPayload, OptionalSend, StorageError};
use tempfile::TempDir;

use crate::disk::{Disk, Files, MemoryDisk};
use crate::log::{Log, LogReader, SEGMENT_BYTES};
use crate::machine::{Builder, Machine, Sink};
use crate::raft::{Entry, LogId, Snapshot, SnapshotMeta, StoredMembership, Types};

struct Deaf;

impl Sink for Deaf {
    fn applied(&self, _index: u64, _outcome: &mut Outcome, _state: &State) {}

    fn replaced(&self, _index: u64, _state: &State) {}
}

/// The suite applies entries that it did not write to the log before: here they are in one.
struct Logged {
    machine: Machine,
    log: LogReader,
}

impl RaftStateMachine<Types> for Logged {
    type SnapshotData = Bytes;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        self.machine.applied_state().await
    }

    async fn apply<Strm>(&mut self, entries: Strm) -> Result<(), io::Error>
    where
        Strm: Stream<Item = Result<EntryResponder<Types>, io::Error>> + Unpin + OptionalSend,
    {
        let entries: Vec<_> = entries.collect().await;
        let mut next = self.machine.applied().map_or(0, |id| id.index + 1);
        for (entry, _) in entries.iter().flatten() {
            // The suite leaves some out.
            for index in next..entry.log_id.index {
                let log_id = LogId::new(*entry.log_id.committed_leader_id(), index);
                self.log.learn(Entry { log_id, payload: EntryPayload::Blank });
            }
            self.log.learn(entry.clone());
            next = entry.log_id.index + 1;
        }
        self.machine.apply(stream::iter(entries)).await
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        self.machine.get_snapshot_builder().await
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, state: Bytes) -> Result<(), io::Error> {
        self.machine.install_snapshot(meta, state).await
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        self.machine.get_current_snapshot().await
    }
}

async fn on(disk: Arc<dyn Disk>) -> (Log, Logged) {
    let (written, _closed) = Log::open(Arc::clone(&disk), SEGMENT_BYTES / 64, true).await.unwrap();
    let log = LogReader::default();
    let machine = Machine::open(disk, log.clone(), Arc::new(Deaf)).await.unwrap();
    (written, Logged { machine, log })
}

struct InMemory;

impl StoreBuilder<Types, Log, Logged, ()> for InMemory {
    async fn build(&self) -> Result<((), Log, Logged), StorageError<Types>> {
        let (log, machine) = on(Arc::new(MemoryDisk::default())).await;
        Ok(((), log, machine))
    }
}

struct InDirectory;

impl StoreBuilder<Types, Log, Logged, TempDir> for InDirectory {
    async fn build(&self) -> Result<(TempDir, Log, Logged), StorageError<Types>> {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::open(directory.path()).unwrap();
        let (log, machine) = on(Arc::new(files)).await;
        Ok((directory, log, machine))
    }
}

#[tokio::test]
async fn in_memory() {
    Suite::test_all(InMemory).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_directory() {
    Suite::test_all(InDirectory).await.unwrap();
}
