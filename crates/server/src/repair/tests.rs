use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use openraft::storage::RaftLogStorage as _;

use super::*;
use crate::disk::{DiskFile, MemoryDisk, Work};
use crate::raft::{LeaderId, LogId, Snapshot, SnapshotMeta, Vote};

fn members(count: u64) -> BTreeMap<u64, String> {
    (1..=count).map(|id| (id, format!("node{id}:7400"))).collect()
}

/// The directory of node 1 of so many, with all that there can be in one, and a file of somebody else.
async fn directory(count: u64) -> MemoryDisk {
    let memory = MemoryDisk::default();
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    let identity = Identity::check(Arc::clone(&disk), 1, members(count)).await.unwrap();
    identity.note(Stage::Settled).await.unwrap();
    let (mut log, closed) = Log::open(Arc::clone(&disk), 9 * 512, true).await.unwrap();
    for term in 1..10 {
        log.save_vote(&Vote::new(term, 1)).await.unwrap();
    }
    drop(log);
    closed.wait().await;
    for index in [3, 5] {
        let last = LogId::new(LeaderId { term: 1, node_id: 1 }, index);
        let meta = SnapshotMeta { last_log_id: Some(last), ..SnapshotMeta::default() };
        let snapshot = Snapshot { meta, snapshot: vec![7; 100].into() };
        Snapshots::new(Arc::clone(&disk)).keep(move || Ok(snapshot)).await.unwrap();
    }
    memory.replace("letter.txt", b"to somebody").await.unwrap();
    memory
}

async fn flip(disk: &MemoryDisk, name: &str, at: usize) {
    let mut bytes = disk.read(name).await.unwrap();
    bytes[at] ^= 1;
    disk.replace(name, &bytes).await.unwrap();
}

/// The files of a node, and what is in them.
async fn files(disk: &MemoryDisk) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for name in disk.list().await.unwrap() {
        if is_of_a_node(&name) {
            files.insert(name.clone(), disk.read(&name).await.unwrap());
        }
    }
    files
}

async fn repair(disk: &Arc<dyn Disk>) -> Result<Repaired, RepairError> {
    set_aside(1, &members(3), disk).await
}

#[tokio::test]
async fn only_what_is_damaged_is_repaired_and_only_if_there_are_others() {
    let memory = directory(3).await;
    let before = files(&memory).await;
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    let error = repair(&disk).await.unwrap_err();
    assert!(error.to_string().starts_with("nothing to repair: "), "{error}");
    let empty: Arc<dyn Disk> = Arc::new(MemoryDisk::default());
    assert!(matches!(repair(&empty).await, Err(RepairError::NotDamaged { .. })));
    // That of another node is not damaged, but foreign.
    let error = set_aside(2, &members(3), &disk).await.unwrap_err();
    assert!(matches!(error, RepairError::Storage(StorageError::Foreign { .. })), "{error}");
    assert_eq!(files(&memory).await, before, "nothing is changed");

    let single = directory(1).await;
    flip(&single, "log-00000000000000000000", 600).await;
    let before = files(&single).await;
    let disk: Arc<dyn Disk> = Arc::new(single.clone());
    let error = set_aside(1, &members(1), &disk).await.unwrap_err();
    assert!(error.to_string().starts_with("a single node cannot be repaired"), "{error}");
    assert_eq!(files(&single).await, before, "nothing is changed");
}

#[tokio::test]
async fn everything_is_kept_whatever_is_damaged_and_however_often() {
    let memory = directory(3).await;
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    let sound = files(&memory).await;
    assert_eq!(sound.len(), 5, "{:?}", sound.keys());
    let damaged = [
        ("identity", Some(9)),
        ("log-00000000000000000000", Some(600)),
        ("snapshot-00000000000000000006", Some(30)),
        ("identity", None),
    ];
    for (number, (name, at)) in (1..).zip(damaged) {
        for (name, bytes) in &sound {
            memory.replace(name, bytes).await.unwrap();
        }
        match at {
            Some(at) => flip(&memory, name, at).await,
            None => memory.remove(name).await.unwrap(),
        }
        let before = files(&memory).await;
        let repaired = repair(&disk).await.unwrap();
        let folder = format!("damaged-{number}");
        assert_eq!(repaired.folder, folder);
        assert!(repaired.why.starts_with(&format!("{name} is ")), "{repaired:?}");
        assert!(!repaired.why.contains("nothing was changed"), "{repaired:?}");
        for (name, bytes) in before {
            assert_eq!(memory.read(&format!("{folder}/{name}")).await.unwrap(), bytes);
        }
        assert!(files(&memory).await.is_empty());
        examine(1, &members(3), &disk).await.unwrap();
        // A directory lists its folders as well.
        memory.replace(&folder, b"").await.unwrap();
        assert_eq!(memory.read("letter.txt").await.unwrap(), b"to somebody");
    }
}

/// A disk whose process ends at a change: just before, or just after.
struct Ending {
    disk: MemoryDisk,
    left: AtomicUsize,
    after: bool,
}

impl Ending {
    async fn change<'a>(&self, change: Work<'a, ()>) -> io::Result<()> {
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        match left {
            Ok(1) if self.after => change.await.and(Err(io::Error::other("the process ends"))),
            Ok(2..) => change.await,
            _ => Err(io::Error::other("the process ends")),
        }
    }
}

impl Disk for Ending {
    fn list(&self) -> Work<'_, Vec<String>> {
        self.disk.list()
    }

    fn read<'a>(&'a self, name: &'a str) -> Work<'a, Vec<u8>> {
        self.disk.read(name)
    }

    fn create<'a>(&'a self, name: &'a str, head: &'a [u8], size: u64) -> Work<'a, Arc<dyn DiskFile>> {
        self.disk.create(name, head, size)
    }

    fn open<'a>(&'a self, name: &'a str) -> Work<'a, Arc<dyn DiskFile>> {
        self.disk.open(name)
    }

    fn replace<'a>(&'a self, name: &'a str, content: &'a [u8]) -> Work<'a, ()> {
        Box::pin(self.change(self.disk.replace(name, content)))
    }

    fn remove<'a>(&'a self, name: &'a str) -> Work<'a, ()> {
        Box::pin(self.change(self.disk.remove(name)))
    }

    fn set_aside<'a>(&'a self, name: &'a str, folder: &'a str) -> Work<'a, ()> {
        Box::pin(self.change(self.disk.set_aside(name, folder)))
    }

    fn place(&self, name: &str) -> String {
        self.disk.place(name)
    }

    fn run(&self, task: BoxFuture<'static, ()>) -> io::Result<()> {
        self.disk.run(task)
    }
}

#[tokio::test]
async fn a_repair_that_is_interrupted_can_only_be_finished() {
    let mut interrupted = 0;
    for (left, after) in (1..20).flat_map(|left| [(left, false), (left, true)]) {
        let memory = directory(3).await;
        flip(&memory, "log-00000000000000000000", 600).await;
        let before = files(&memory).await;
        let ending = Ending { disk: memory.clone(), left: AtomicUsize::new(left), after };
        let first = repair(&(Arc::new(ending) as Arc<dyn Disk>)).await;
        let disk: Arc<dyn Disk> = Arc::new(memory.clone());
        if first.is_err() && examine(1, &members(3), &disk).await.is_err() {
            interrupted += 1;
            // What is left of it is never taken for a whole directory, and never for another kind of damage.
            let error = is_finished(&disk).await;
            assert!(error.is_err() || files(&memory).await == before, "{left} {after}");
            assert_eq!(repair(&disk).await.unwrap().folder, "damaged-1");
        }
        examine(1, &members(3), &disk).await.unwrap();
        for (name, bytes) in before {
            assert_eq!(memory.read(&format!("damaged-1/{name}")).await.unwrap(), bytes, "{left} {after}");
        }
        assert_eq!(memory.list().await.unwrap(), ["letter.txt"]);
    }
    // The mark, five files, and the mark again: before and after each, except when all is done.
    assert_eq!(interrupted, 13);
}
