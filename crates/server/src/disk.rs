//! The files of a node, behind a trait: so that tests can tear, lose and refuse writes, and so that a simulated node
//! needs no thread.
//!
//! [`Files`] is a directory, [`MemoryDisk`] a simulation of one. Everything here may block a real thread, for as long as
//! the disk likes, so it is done inside [`Disk::run`] or [`within`] and nowhere else.

mod files;
mod memory;
pub(crate) mod silence;

use std::future::Future;
use std::io;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use thiserror::Error;
use tokio::sync::oneshot;

pub use files::Files;
pub use memory::{Faults, MemoryDisk};

/// The format of everything in a data directory: identity, log and snapshots, with the commands and the state in them.
/// Nodes exchange entries and snapshots as they are, so it is also the version of what they say to each other. To be
/// raised whenever a byte of any of it changes its meaning.
pub const FORMAT: u32 = 5;

/// What survives a power cut, or does not, does so in pieces of this size.
pub(crate) const SECTOR: usize = 512;

/// Something that a disk does.
pub type Work<'a, T> = BoxFuture<'a, io::Result<T>>;

/// A flat set of files. What has returned `Ok` survives a power cut, except for bytes written to an open file, which
/// survive from the next [`DiskFile::sync`] on.
pub trait Disk: Send + Sync + 'static {
    /// The names of all files.
    fn list(&self) -> Work<'_, Vec<String>>;
    /// The whole of a file.
    fn read<'a>(&'a self, name: &'a str) -> Work<'a, Vec<u8>>;
    /// A new file of a given size: a head, and zeros behind it that are on the disk already, so that to write over them
    /// costs no change of what the file system knows about the file. There is no such file before it is complete.
    fn create<'a>(&'a self, name: &'a str, head: &'a [u8], size: u64) -> Work<'a, Arc<dyn DiskFile>>;
    /// An existing file.
    fn open<'a>(&'a self, name: &'a str) -> Work<'a, Arc<dyn DiskFile>>;
    /// Puts a file in the place of one of the same name, whole or not at all.
    fn replace<'a>(&'a self, name: &'a str, content: &'a [u8]) -> Work<'a, ()>;
    /// Removes a file.
    fn remove<'a>(&'a self, name: &'a str) -> Work<'a, ()>;
    /// Moves a file into a folder, which is made if there is none. It keeps its name, and is no longer listed.
    fn set_aside<'a>(&'a self, name: &'a str, folder: &'a str) -> Work<'a, ()>;
    /// Where a file is, for people.
    fn place(&self, name: &str) -> String;
    /// Runs something that uses the disk where blocking harms nobody.
    ///
    /// # Errors
    /// If there is no such place.
    fn run(&self, task: BoxFuture<'static, ()>) -> io::Result<()>;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Writes bytes at an offset.
    fn write<'a>(&'a self, at: u64, bytes: &'a [u8]) -> Work<'a, ()>;
    /// Returns when everything written is safe.
    fn sync(&self) -> Work<'_, ()>;
    /// Writes bytes at an offset, and returns when they are safe; what was written before may be or not.
    fn write_safely<'a>(&'a self, at: u64, bytes: &'a [u8]) -> Work<'a, ()> {
        Box::pin(async move {
            self.write(at, bytes).await?;
            self.sync().await
        })
    }
}

/// Why a node cannot use what it has on disk. Nothing has been changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StorageError {
    /// Another process has it.
    #[error("{0} is in use by another process")]
    InUse(String),
    /// It cannot be read or written.
    #[error("{place}: {error}")]
    Io {
        /// Which file.
        place: String,
        /// What went wrong.
        #[source]
        error: io::Error,
    },
    /// It is not what was written there.
    #[error("{place} is damaged at byte {at} ({why}); nothing was changed")]
    Damaged {
        /// Which file.
        place: String,
        /// Where in it.
        at: u64,
        /// What is wrong there.
        why: String,
    },
    /// A file that must exist does not.
    #[error("{place} is missing; nothing was changed")]
    Missing {
        /// Which file.
        place: String,
    },
    /// Another version wrote it.
    #[error(
        "{place} has format {found}, and this version of conclave reads format {known} only; nothing was changed; run \
         the version that wrote it, or start with another data directory"
    )]
    Version {
        /// Which file.
        place: String,
        /// The format it has.
        found: u32,
        /// The format we know.
        known: u32,
    },
    /// A repair has begun and was not finished.
    #[error("{place} says that a repair was interrupted; nothing was changed")]
    Unfinished {
        /// Which file says so.
        place: String,
    },
    /// It was replaced by an older one.
    #[error("{place} says: {why}; nothing was changed")]
    Outdated {
        /// Which file says so.
        place: String,
        /// What it lacks.
        why: String,
    },
    /// It belongs to somebody else.
    #[error("{place} belongs to {found}, and this is {expected}; nothing was changed")]
    Foreign {
        /// Which file says so.
        place: String,
        /// Whose it is.
        found: String,
        /// Who we are.
        expected: String,
    },
}

impl StorageError {
    /// An error of the system, and the file that it happened to.
    pub(crate) fn io(disk: &dyn Disk, name: &str) -> impl FnOnce(io::Error) -> Self {
        let place = disk.place(name);
        move |error| Self::Io { place, error }
    }

    /// Whether something that was written is not there any more, as it was written.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { .. } | Self::Missing { .. } => true,
            Self::Unfinished { .. } | Self::Outdated { .. } => true,
            // What a disk says of a sector that it cannot read.
            Self::Io { error, .. } => error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()),
            Self::InUse(_) | Self::Version { .. } | Self::Foreign { .. } => false,
        }
    }

    /// What was found, for somebody who does change something about it.
    pub(crate) fn finding(&self) -> String {
        let sentence = self.to_string();
        sentence.strip_suffix("; nothing was changed").unwrap_or(&sentence).to_owned()
    }

    /// Damage to a file.
    pub(crate) fn damaged(disk: &dyn Disk, name: &str, at: usize, why: impl Into<String>) -> Self {
        Self::Damaged { place: disk.place(name), at: at as u64, why: why.into() }
    }
}

impl From<StorageError> for io::Error {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Io { place, error } => Self::new(error.kind(), format!("{place}: {error}")),
            other => Self::new(io::ErrorKind::InvalidData, other),
        }
    }
}

/// Runs something that uses the disk where it may block, and waits for its result.
///
/// # Errors
/// If it cannot be run, or was stopped before its end.
pub async fn within<T: Send + 'static>(
    disk: &dyn Disk,
    work: impl Future<Output = T> + Send + 'static,
) -> io::Result<T> {
    let (done, result) = oneshot::channel();
    disk.run(Box::pin(async move {
        // Whoever does not wait any more does not care either.
        let _ = done.send(work.await);
    }))?;
    result.await.map_err(|_| io::Error::other("work on the disk was stopped"))
}
