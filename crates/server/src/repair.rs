//! Setting a damaged data directory aside, so that its node can fetch everything from the others.
//!
//! A node that was repaired is one that lost its disk: it has forgotten for whom it voted and which entries it vouched for,
//! and takes part again as `birth.rs` lets it. So no more nodes may be repaired at a time than may lose their disks.
//!
//! Nothing is deleted. The files move one after the other into a folder of the directory, and a file beside them says so
//! from before the first moves until after the last has moved. A node that finds it does not start: what is left there
//! may look like the whole of something.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use crate::consensus::is_whole;
use crate::disk::{Disk, StorageError, within};
use crate::identity::{self, Identity, Stage};
use crate::log::{self, Log};
use crate::outdated;
use crate::snapshots::{self, Snapshots};

/// Says that files are being moved, and into which folder.
const UNDER_WAY: &str = "repairing";
/// How the names of those folders begin.
const FOLDER: &str = "damaged-";

/// What a repair has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// Where the files are now.
    pub folder: String,
    /// What was wrong with them.
    pub why: String,
}

/// Why a directory was not repaired.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RepairError {
    /// There is nobody to fetch anything from.
    #[error("a single node cannot be repaired: there is no other node that has what it lost")]
    Alone,
    /// It is as it should be.
    #[error("nothing to repair: {place} is not damaged")]
    NotDamaged {
        /// Which directory.
        place: String,
    },
    /// It cannot be used, but not because of damage; or it cannot be set aside.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Sets aside what a node has on disk, if it is damaged.
///
/// # Errors
/// If that is not so, or there is nobody to fetch it from; then nothing has been changed. If the files cannot be moved;
/// then they can be moved later, and the node does not start before.
pub async fn set_aside(
    id: u64,
    members: &BTreeMap<u64, String>,
    disk: &Arc<dyn Disk>,
) -> Result<Repaired, RepairError> {
    if members.len() < 2 {
        return Err(RepairError::Alone);
    }
    let why = match examine(id, members, disk).await {
        Ok(()) => return Err(RepairError::NotDamaged { place: disk.place("") }),
        Err(error) if error.is_damage() => error.finding(),
        Err(error) => return Err(error.into()),
    };
    let at = Arc::clone(disk);
    let moved = within(&**disk, async move { move_all(&*at).await }).await;
    let folder = moved.map_err(StorageError::io(&**disk, ""))??;
    Ok(Repaired { folder, why })
}

/// Whether no repair is under way.
///
/// # Errors
/// If one is.
pub(crate) async fn is_finished(disk: &Arc<dyn Disk>) -> Result<(), StorageError> {
    let at = Arc::clone(disk);
    let names = within(&**disk, async move { at.list().await }).await.and_then(|names| names);
    if names.map_err(StorageError::io(&**disk, ""))?.iter().any(|name| name == UNDER_WAY) {
        return Err(StorageError::Unfinished { place: disk.place(UNDER_WAY) });
    }
    Ok(())
}

/// Reads everything as a start does, and changes nothing.
async fn examine(id: u64, members: &BTreeMap<u64, String>, disk: &Arc<dyn Disk>) -> Result<(), StorageError> {
    is_finished(disk).await?;
    outdated::is_current(disk).await?;
    let identity = Identity::check(Arc::clone(disk), id, members.clone()).await?;
    let snapshot = Snapshots::new(Arc::clone(disk)).newest().await?;
    let log = Log::read(Arc::clone(disk), identity.stage != Stage::Settled).await?;
    is_whole(disk, &identity, &log, snapshot.and_then(|snapshot| snapshot.meta.last_log_id))
}

/// Moves all files of a node into a folder; goes on with what was begun.
async fn move_all(disk: &dyn Disk) -> Result<String, StorageError> {
    let names = disk.list().await.map_err(StorageError::io(disk, ""))?;
    let begun = if names.iter().any(|name| name == UNDER_WAY) {
        let noted = disk.read(UNDER_WAY).await.map_err(StorageError::io(disk, UNDER_WAY))?;
        String::from_utf8(noted).ok().filter(|folder| folder_number(folder).is_some())
    } else {
        None
    };
    let folder = begun.unwrap_or_else(|| {
        let last = names.iter().filter_map(|name| folder_number(name)).max();
        format!("{FOLDER}{}", last.unwrap_or(0).saturating_add(1))
    });
    disk.replace(UNDER_WAY, folder.as_bytes()).await.map_err(StorageError::io(disk, UNDER_WAY))?;
    for name in names.iter().filter(|name| is_of_a_node(name)) {
        disk.set_aside(name, &folder).await.map_err(StorageError::io(disk, name))?;
    }
    disk.remove(UNDER_WAY).await.map_err(StorageError::io(disk, UNDER_WAY))?;
    Ok(folder)
}

fn folder_number(name: &str) -> Option<u64> {
    name.strip_prefix(FOLDER)?.parse().ok()
}

/// Whether a file is one of those that a node writes.
fn is_of_a_node(name: &str) -> bool {
    let is_note = name == identity::NAME || name == outdated::NAME;
    is_note || log::is_segment(name) || snapshots::is_snapshot(name)
}

#[cfg(test)]
mod tests;
