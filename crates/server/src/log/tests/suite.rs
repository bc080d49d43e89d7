//! The consensus library's own tests of a storage.

use std::sync::Arc;

use conclave_service::{Outcome, State};
use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use tempfile::TempDir;

use crate::disk::{Disk, Files, MemoryDisk};
use crate::log::{Log, SEGMENT_BYTES};
use crate::machine::{Machine, Sink};
use crate::raft::Types;

struct Deaf;

impl Sink for Deaf {
    fn applied(&self, _index: u64, _outcome: &mut Outcome, _state: &State) {}

    fn replaced(&self, _index: u64, _state: &State) {}
}

async fn on(disk: Arc<dyn Disk>) -> (Log, Machine) {
    let (log, _closed) = Log::open(1, Arc::clone(&disk), SEGMENT_BYTES / 64, true).await.unwrap();
    (log, Machine::open(disk, Arc::new(Deaf)).await.unwrap())
}

struct InMemory;

impl StoreBuilder<Types, Log, Machine, ()> for InMemory {
    async fn build(&self) -> Result<((), Log, Machine), StorageError<Types>> {
        let (log, machine) = on(Arc::new(MemoryDisk::default())).await;
        Ok(((), log, machine))
    }
}

struct InDirectory;

impl StoreBuilder<Types, Log, Machine, TempDir> for InDirectory {
    async fn build(&self) -> Result<(TempDir, Log, Machine), StorageError<Types>> {
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
