//! Whose data directory it is.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::disk::{Disk, FORMAT, StorageError, within};
use crate::mutant::{self, Mutant};
use crate::raft::{put, whole};

/// The name of its file.
pub(crate) const NAME: &str = "identity";
/// Checksum of the rest, version.
const HEAD: usize = 8;

/// Which node of which cluster this is.
#[derive(Clone)]
pub(crate) struct Identity {
    disk: Arc<dyn Disk>,
    pub(crate) id: u64,
    pub(crate) members: BTreeMap<u64, String>,
    /// How far it has come.
    pub(crate) stage: Stage,
    /// Whether the disk says so: otherwise the node is new.
    pub(crate) is_noted: bool,
}

/// How far a node has come; see [`crate::birth`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// It does not know yet whether it has forgotten anything.
    New,
    /// It takes part.
    Settled,
}

#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Noted {
    id: u64,
    members: BTreeMap<u64, String>,
    stage: Stage,
}

impl fmt::Display for Noted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} of", self.id)?;
        for (id, address) in &self.members {
            write!(f, " {id}={address}")?;
        }
        Ok(())
    }
}

impl Identity {
    /// Compares what the disk says with what we were told; the disk of a new node says nothing.
    ///
    /// # Errors
    /// If it belongs to another node, or to one of another cluster.
    pub(crate) async fn check(
        disk: Arc<dyn Disk>,
        id: u64,
        members: BTreeMap<u64, String>,
    ) -> Result<Self, StorageError> {
        let at = Arc::clone(&disk);
        let failed = |error| StorageError::Io { place: disk.place(NAME), error };
        let noted = within(&*disk, async move { read(&*at).await }).await.map_err(failed)??;
        let is_noted = noted.is_some();
        let stage = noted.as_ref().map_or(Stage::New, |noted| noted.stage);
        if let Some(found) = noted {
            let expected = Noted { id, members: members.clone(), stage };
            if found != expected {
                let (found, expected) = (found.to_string(), expected.to_string());
                return Err(StorageError::Foreign { place: disk.place(NAME), found, expected });
            }
        }
        Ok(Self { disk, id, members, stage, is_noted })
    }

    /// Notes how far this node has come.
    pub(crate) async fn note(&self, stage: Stage) -> io::Result<()> {
        let noted = Noted { id: self.id, members: self.members.clone(), stage };
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        put(&noted, &mut bytes)?;
        let sum = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        let disk = Arc::clone(&self.disk);
        within(&*self.disk, async move { disk.replace(NAME, &bytes).await }).await?
    }
}

async fn read(disk: &dyn Disk) -> Result<Option<Noted>, StorageError> {
    let bytes = match disk.read(NAME).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes.map_err(StorageError::io(disk, NAME))?,
    };
    let damaged = |why: &str| StorageError::damaged(disk, NAME, 0, why);
    let (head, rest) = bytes.split_at_checked(HEAD).ok_or_else(|| damaged("too short"))?;
    let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    if crc32c::crc32c(&bytes[4..]) != number(0) {
        return Err(damaged("a bad checksum"));
    }
    if number(4) != FORMAT && !mutant::is(Mutant::TakesAnyFormat) {
        return Err(StorageError::Version { place: disk.place(NAME), found: number(4), known: FORMAT });
    }
    whole(rest).map(Some).map_err(|error| damaged(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;

    async fn of(disk: &MemoryDisk) -> Result<Identity, StorageError> {
        Identity::check(Arc::new(disk.clone()), 1, BTreeMap::from([(1, "here:1".to_owned())])).await
    }

    #[tokio::test]
    async fn another_format_is_not_guessed_at_and_any_changed_byte_is_damage() {
        let disk = MemoryDisk::default();
        of(&disk).await.unwrap().note(Stage::Settled).await.unwrap();
        assert_eq!(of(&disk).await.unwrap().stage, Stage::Settled);
        let good = disk.read(NAME).await.unwrap();
        for version in [1, FORMAT + 1] {
            let mut other = good.clone();
            other[4..HEAD].copy_from_slice(&version.to_le_bytes());
            let sum = crc32c::crc32c(&other[4..]);
            other[..4].copy_from_slice(&sum.to_le_bytes());
            disk.replace(NAME, &other).await.unwrap();
            let error = of(&disk).await.err().unwrap();
            assert!(matches!(error, StorageError::Version { found, .. } if found == version), "{error}");
        }
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 2;
            disk.replace(NAME, &bad).await.unwrap();
            let error = of(&disk).await.err().unwrap();
            assert!(matches!(error, StorageError::Damaged { .. }), "byte {place}: {error}");
        }
    }
}
