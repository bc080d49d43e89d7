//! Snapshots on disk: the encoded state, and up to which entry it goes. Each is a file of its own, written beside,
//! synced and then moved into place; the last two are kept.

use std::io;
use std::sync::Arc;

use bytes::{Buf, Bytes};

use crate::disk::{Disk, FORMAT, StorageError, within};
use crate::mutant::{self, Mutant};
use crate::raft::{Snapshot, SnapshotMeta, put, take};

const MAGIC: &[u8; 8] = b"snapshot";
/// Magic, version, checksum of version and rest.
const HEAD: usize = 16;
/// The first version: its checksum was one of the rest only.
const FIRST: u32 = 1;
const KEPT: usize = 2;

/// The snapshots of a node.
#[derive(Clone)]
pub(crate) struct Snapshots {
    disk: Arc<dyn Disk>,
}

impl Snapshots {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk }
    }

    /// The newest one.
    ///
    /// # Errors
    /// If it is damaged. An older one is not taken instead: the log no longer reaches back to it.
    pub(crate) async fn newest(&self) -> Result<Option<Snapshot>, StorageError> {
        let disk = Arc::clone(&self.disk);
        let failed = |error| StorageError::Io { place: self.disk.place(""), error };
        within(&*self.disk, async move { newest(&*disk).await }).await.map_err(failed)?
    }

    /// Does something that takes its time, and keeps the snapshot that comes out of it.
    pub(crate) async fn keep(
        &self,
        make: impl FnOnce() -> io::Result<Snapshot> + Send + 'static,
    ) -> io::Result<Snapshot> {
        let disk = Arc::clone(&self.disk);
        within(&*self.disk, async move { put_aside(&*disk, make()?).await }).await?
    }

    /// The same with the newest one at hand.
    pub(crate) async fn go_on(
        &self,
        make: impl FnOnce(Option<Snapshot>) -> io::Result<Snapshot> + Send + 'static,
    ) -> io::Result<Snapshot> {
        let disk = Arc::clone(&self.disk);
        within(&*self.disk, async move {
            let newest = newest(&*disk).await?;
            put_aside(&*disk, make(newest)?).await
        })
        .await?
    }

    /// Drops something that takes its time.
    pub(crate) fn discard(&self, large: impl Send + 'static) -> io::Result<()> {
        self.disk.run(Box::pin(async move { drop(large) }))
    }
}

/// Index zero is before the first entry here.
fn name(meta: &SnapshotMeta) -> String {
    let index = meta.last_log_id.map_or(0, |id| id.index + 1);
    format!("snapshot-{index:020}")
}

/// Whether a file is a snapshot.
pub(crate) fn is_snapshot(name: &str) -> bool {
    name.starts_with("snapshot-")
}

/// In order, since the numbers have a fixed width.
async fn names(disk: &dyn Disk) -> io::Result<Vec<String>> {
    let mut names = disk.list().await?;
    names.retain(|name| is_snapshot(name));
    names.sort();
    Ok(names)
}

async fn put_aside(disk: &dyn Disk, snapshot: Snapshot) -> io::Result<Snapshot> {
    disk.replace(&name(&snapshot.meta), &encode(&snapshot)?).await?;
    remove_old(disk).await?;
    Ok(snapshot)
}

async fn remove_old(disk: &dyn Disk) -> io::Result<()> {
    let names = names(disk).await?;
    for name in names.iter().rev().skip(KEPT) {
        disk.remove(name).await?;
    }
    Ok(())
}

async fn newest(disk: &dyn Disk) -> Result<Option<Snapshot>, StorageError> {
    let names = names(disk).await.map_err(StorageError::io(disk, ""))?;
    let Some(name) = names.last() else { return Ok(None) };
    let bytes = disk.read(name).await.map_err(StorageError::io(disk, name))?;
    decode(disk, name, bytes.into()).map(Some)
}

fn encode(snapshot: &Snapshot) -> io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(HEAD + 256 + snapshot.snapshot.len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    put(&snapshot.meta, &mut out)?;
    out.extend_from_slice(&snapshot.snapshot);
    let sum = checksum(FORMAT, &out[HEAD..]);
    out[12..HEAD].copy_from_slice(&sum.to_le_bytes());
    Ok(out)
}

fn decode(disk: &dyn Disk, name: &str, mut bytes: Bytes) -> Result<Snapshot, StorageError> {
    let damaged = |at: usize, why: &str| StorageError::damaged(disk, name, at, why);
    if bytes.len() < HEAD || &bytes[..8] != MAGIC {
        return Err(damaged(0, "no snapshot"));
    }
    bytes.advance(8);
    let (version, sum) = (bytes.get_u32_le(), bytes.get_u32_le());
    let due = if version == FIRST { crc32c::crc32c(&bytes) } else { checksum(version, &bytes) };
    if due != sum {
        return Err(damaged(8, "a bad checksum"));
    }
    if version != FORMAT && !mutant::is(Mutant::TakesAnyFormat) {
        return Err(StorageError::Version { place: disk.place(name), found: version, known: FORMAT });
    }
    let meta = take(&mut bytes).map_err(|error| damaged(HEAD, &error.to_string()))?;
    Ok(Snapshot { meta, snapshot: bytes })
}

fn checksum(version: u32, rest: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&version.to_le_bytes()), rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;
    use crate::raft::{LeaderId, LogId};

    fn snapshot(index: u64) -> Snapshot {
        let last = LogId::new(LeaderId { term: 1, node_id: 1 }, index);
        let meta = SnapshotMeta { last_log_id: Some(last), ..SnapshotMeta::default() };
        Snapshot { meta, snapshot: vec![index as u8; 100].into() }
    }

    async fn three() -> (MemoryDisk, Snapshots) {
        let disk = MemoryDisk::default();
        let snapshots = Snapshots::new(Arc::new(disk.clone()));
        for index in [5, 17, 200] {
            snapshots.keep(move || Ok(snapshot(index))).await.unwrap();
        }
        (disk, snapshots)
    }

    #[tokio::test]
    async fn the_last_two_are_kept_and_the_newest_is_taken() {
        let (disk, snapshots) = three().await;
        assert_eq!(disk.list().await.unwrap(), [name(&snapshot(17).meta), name(&snapshot(200).meta)]);
        let newest = snapshots.newest().await.unwrap().unwrap();
        assert_eq!(newest.meta, snapshot(200).meta);
        assert_eq!(newest.snapshot, snapshot(200).snapshot);
    }

    #[tokio::test]
    async fn any_changed_byte_is_damage() {
        let (disk, snapshots) = three().await;
        let name = name(&snapshot(200).meta);
        let good = disk.read(&name).await.unwrap();
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 4;
            disk.replace(&name, &bad).await.unwrap();
            let error = snapshots.newest().await.unwrap_err();
            assert!(matches!(error, StorageError::Damaged { .. }), "byte {place}: {error}");
            assert_eq!(disk.read(&name).await.unwrap(), bad, "nothing is changed");
        }
    }

    #[tokio::test]
    async fn another_format_is_not_guessed_at() {
        let (disk, snapshots) = three().await;
        let name = name(&snapshot(200).meta);
        let good = disk.read(&name).await.unwrap();
        let first = crc32c::crc32c(&good[HEAD..]);
        for (version, sum) in [(FIRST, first), (FORMAT + 1, checksum(FORMAT + 1, &good[HEAD..]))] {
            let mut other = good.clone();
            other[8..12].copy_from_slice(&version.to_le_bytes());
            other[12..HEAD].copy_from_slice(&sum.to_le_bytes());
            disk.replace(&name, &other).await.unwrap();
            let error = snapshots.newest().await.unwrap_err();
            assert!(
                matches!(error, StorageError::Version { found, known: FORMAT, .. } if found == version),
                "{error}"
            );
        }
    }
}
