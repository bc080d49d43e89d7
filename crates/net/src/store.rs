//! The data directory: what a process must not forget.
//!
//! ```text
//!   lock    held while a process runs, so that no two share the directory
//!   life    the number of the present life; on disk before the node says anything
//!   id      a random number: another directory in which lives begin at 1 again is told apart by it
//!   state   what the algorithm saved last
//! ```
//!
//! A file is replaced whole: written beside, synced, renamed, and the directory synced. A power cut leaves the old
//! file or the new one. A file that is neither is an error; nothing is overwritten, since a person has to look at it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use conclave_core::Incarnation;
use serde::{Deserialize, Serialize};
use thiserror::Error;

const MAGIC: &[u8; 8] = b"conclave";
const VERSION: u32 = 1;
/// Magic, version, length of the body, checksum of the body.
const HEAD: usize = 8 + 4 + 8 + 8;

/// Where the durable part of a process is kept.
///
/// Injectable, so that tests can make it slow or let it fail.
pub trait Stable: Send + 'static {
    /// Returns once the bytes are on stable storage in place of those before.
    ///
    /// # Errors
    /// If that cannot be said for sure; the node stops then.
    fn save(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// Why a data directory cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process uses it.
    #[error("{0} is in use by another process")]
    InUse(PathBuf),
    /// It cannot be read or written.
    #[error("{path}: {error}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        error: io::Error,
    },
    /// A file is not what was written; it is left as it is.
    #[error("{path} is damaged ({why}); it was left as it is, restore it or remove the whole directory")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// What tells a data directory from every other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directory(pub u128);

/// A data directory in use.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
    life: Incarnation,
    id: Directory,
    state: Option<Vec<u8>>,
}

impl DataDir {
    /// Takes the directory, begins the next life in it and reads what the last one saved.
    ///
    /// # Errors
    /// If the directory is in use, damaged, or cannot be written; then no new life has begun.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_from(path, Incarnation::FIRST)
    }

    /// The same, but no life earlier than this one begins.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_from(path: &Path, least: Incarnation) -> Result<Self, StoreError> {
        create_private(path).map_err(at(path))?;
        let lock = take_lock(&path.join("lock"))?;
        let state = read(&path.join("state"))?;
        let life_file = path.join("life");
        let life = match read(&life_file)? {
            None => Incarnation::FIRST,
            Some(bytes) => parse_life(&bytes, &life_file)?.next(),
        };
        let life = life.max(least);
        let id = identity(&path.join("id"))?;
        replace(&life_file, &life.0.to_be_bytes())?;
        Ok(Self { path: path.to_owned(), _lock: lock, life, id, state })
    }

    /// What tells it from every other.
    #[must_use]
    pub fn id(&self) -> Directory {
        self.id
    }

    /// The life that began with opening it.
    #[must_use]
    pub fn life(&self) -> Incarnation {
        self.life
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the last life saved.
    ///
    /// # Errors
    /// If it is not what the algorithm saves.
    pub fn saved<D>(&self, read: impl FnOnce(&[u8]) -> Option<D>) -> Result<Option<D>, StoreError> {
        let Some(bytes) = &self.state else { return Ok(None) };
        let why = "it was not saved by this protocol";
        let damaged = || StoreError::Damaged { path: self.path.join("state"), why };
        read(bytes).map(Some).ok_or_else(damaged)
    }
}

impl Stable for DataDir {
    fn save(&mut self, bytes: &[u8]) -> io::Result<()> {
        replace(&self.path.join("state"), bytes).map_err(|error| match error {
            StoreError::Io { error, .. } => error,
            other => io::Error::other(other),
        })
    }
}

/// A durable value as bytes.
pub(crate) fn durable_bytes<D: Serialize>(durable: &D) -> io::Result<Vec<u8>> {
    postcard::to_stdvec(durable).map_err(io::Error::other)
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |error| StoreError::Io { path, error }
}

fn take_lock(path: &Path) -> Result<File, StoreError> {
    let options = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    let file = options.map_err(at(path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse(path.to_owned())),
        Err(TryLockError::Error(error)) => Err(at(path)(error)),
    }
}

/// Makes a directory that nobody else can open; one that is there stays as it is.
fn create_private(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// The number of a directory, which it gets when it is used for the first time.
fn identity(path: &Path) -> Result<Directory, StoreError> {
    let mut bytes = [0; 16];
    match read(path)? {
        Some(known) => {
            let damaged = || StoreError::Damaged {
                path: path.to_owned(),
                why: "it does not hold the number of a directory",
            };
            bytes = known.try_into().map_err(|_| damaged())?;
        }
        None => {
            getrandom::fill(&mut bytes).map_err(|error| at(path)(io::Error::other(error)))?;
            replace(path, &bytes)?;
        }
    }
    Ok(Directory(u128::from_be_bytes(bytes)))
}

fn parse_life(bytes: &[u8], path: &Path) -> Result<Incarnation, StoreError> {
    let damaged =
        || StoreError::Damaged { path: path.to_owned(), why: "it does not hold the number of a life" };
    let number = bytes.try_into().map(u32::from_be_bytes).map_err(|_| damaged())?;
    // The last number has no next one.
    if (1..u32::MAX).contains(&number) { Ok(Incarnation(number)) } else { Err(damaged()) }
}

fn replace(path: &Path, body: &[u8]) -> Result<(), StoreError> {
    let beside = path.with_extension("new");
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = File::create(&beside).map_err(at(&beside))?;
    file.write_all(&framed(body)).and_then(|()| file.sync_all()).map_err(at(&beside))?;
    fs::rename(&beside, path).map_err(at(path))?;
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(at(directory))
}

fn framed(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + body.len());
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_be_bytes());
    bytes.extend((body.len() as u64).to_be_bytes());
    bytes.extend(checksum(body).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(at(path)(error)),
    };
    unframed(&bytes).map(Some).map_err(|why| StoreError::Damaged { path: path.to_owned(), why })
}

fn unframed(bytes: &[u8]) -> Result<Vec<u8>, &'static str> {
    let (head, body) = bytes.split_at_checked(HEAD).ok_or("it is too short")?;
    if &head[..8] != MAGIC {
        return Err("it does not begin as it should");
    }
    if head[8..12] != VERSION.to_be_bytes() {
        return Err("it was written by another version");
    }
    if head[12..20] != (body.len() as u64).to_be_bytes() {
        return Err("it is too short or too long");
    }
    if head[20..28] != checksum(body).to_be_bytes() {
        return Err("its checksum is wrong");
    }
    Ok(body.to_vec())
}

/// FNV-1a: it has to notice a torn or rotten file, not an attacker, who could write a right one.
pub(crate) fn checksum(body: &[u8]) -> u64 {
    body.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::read;

    #[test]
    fn lives_are_counted_and_the_last_save_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        for life in 1..=3u32 {
            let mut data = DataDir::open(dir.path()).unwrap();
            assert_eq!(data.life(), Incarnation(life));
            let saved: Option<u32> = data.saved(read).unwrap();
            assert_eq!(saved, (life > 1).then_some((life - 1) * 10));
            data.save(&durable_bytes(&(life * 7)).unwrap()).unwrap();
            data.save(&durable_bytes(&(life * 10)).unwrap()).unwrap();
        }
    }

    /// A directory that was lost is another one, whatever life it begins with.
    #[test]
    fn a_directory_keeps_its_number_and_shares_it_with_none() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let id = DataDir::open(dir.path()).unwrap().id();
        assert_eq!(DataDir::open(dir.path()).unwrap().id(), id);
        let replaced = DataDir::open_from(other.path(), Incarnation(5)).unwrap();
        assert_eq!(replaced.life(), Incarnation(5));
        assert_ne!(replaced.id(), id);
        drop(replaced);
        let next = DataDir::open_from(other.path(), Incarnation(5)).unwrap();
        assert_eq!(next.life(), Incarnation(6), "the least is reached");
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_can_open_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        drop(DataDir::open(&path).unwrap());
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn no_two_share_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let first = DataDir::open(dir.path()).unwrap();
        assert!(matches!(DataDir::open(dir.path()), Err(StoreError::InUse(_))));
        drop(first);
        assert_eq!(DataDir::open(dir.path()).unwrap().life(), Incarnation(2), "the attempt was no life");
    }

    /// Whatever byte is changed, and wherever a file is cut off: it is refused, named, and left as it is.
    #[test]
    fn damaged_files_are_refused_and_left_alone() {
        for name in ["life", "state", "id"] {
            let dir = tempfile::tempdir().unwrap();
            DataDir::open(dir.path()).unwrap().save(b"state").unwrap();
            let path = dir.path().join(name);
            let good = fs::read(&path).unwrap();
            let flipped = (0..good.len()).map(|at| {
                let mut bytes = good.clone();
                bytes[at] ^= 0x10;
                bytes
            });
            let cut = (0..good.len()).map(|len| good[..len].to_vec());
            for bad in flipped.chain(cut) {
                fs::write(&path, &bad).unwrap();
                let refused = DataDir::open(dir.path()).unwrap_err();
                assert!(
                    matches!(&refused, StoreError::Damaged { path: named, .. } if *named == path),
                    "{refused}"
                );
                assert_eq!(fs::read(&path).unwrap(), bad);
            }
            fs::write(&path, &good).unwrap();
            assert_eq!(DataDir::open(dir.path()).unwrap().life(), Incarnation(2), "no life was lost");
        }
    }

    #[test]
    fn what_another_protocol_saved_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        DataDir::open(dir.path()).unwrap().save(&[0xff; 20]).unwrap();
        let data = DataDir::open(dir.path()).unwrap();
        assert!(matches!(data.saved::<(u32, String)>(read), Err(StoreError::Damaged { .. })));
    }
}
