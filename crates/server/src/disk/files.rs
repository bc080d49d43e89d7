//! A directory.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{Disk, DiskFile, StorageError, Work};

/// Files that are not complete yet have names that begin so.
const UNFINISHED: &str = "new-";
const LOCK: &str = "lock";
/// How long to wait for others to close their files.
const CROWDED: Duration = Duration::from_millis(20);

/// A directory of the file system, held by this process alone.
///
/// Every method blocks its caller; [`Disk::run`] gives each task a thread of its own. For the log that is the shortest
/// way: what is to be written wakes that thread and nothing else, and whoever waits for it is woken from there.
#[derive(Debug)]
pub struct Files {
    path: PathBuf,
    /// To sync the directory itself.
    directory: File,
    /// Locked as long as it is open.
    _lock: File,
}

impl Files {
    /// Takes a directory, and creates it if there is none.
    ///
    /// # Errors
    /// If another process has it, or it cannot be used.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        let failed = |error| StorageError::Io { place: path.display().to_string(), error };
        make_directories(path).map_err(failed)?;
        let lock = take_lock(path)?;
        let directory = File::open(path).map_err(failed)?;
        let files = Self { path: path.to_owned(), directory, _lock: lock };
        for name in files.names().map_err(failed)? {
            if name.starts_with(UNFINISHED) {
                fs::remove_file(path.join(name)).map_err(failed)?;
            }
        }
        // A process that was killed can have put a file in its place, and not have made sure that it stays there.
        files.directory.sync_all().map_err(failed)?;
        Ok(files)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            if let Ok(name) = entry?.file_name().into_string()
                && name != LOCK
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Writes a file beside its place, and moves it there when it is safe.
    fn put(&self, name: &str, fill: impl FnOnce(&File) -> io::Result<()>) -> io::Result<File> {
        let unfinished = self.path.join(format!("{UNFINISHED}{name}"));
        let file = patiently(|| {
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&unfinished)
        })?;
        let moved = fill(&file)
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&unfinished, self.path.join(name)))
            .and_then(|()| self.directory.sync_all());
        match moved {
            Ok(()) => Ok(file),
            Err(error) => {
                // On a full disk this is what makes room again; if it fails, the next start does it.
                let _ = fs::remove_file(&unfinished);
                Err(error)
            }
        }
    }
}

/// Opens a file, and waits as long as there are too many open: that says nothing about the disk, and passes. A log that
/// failed for it would stop the node.
fn patiently<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut is_told = false;
    loop {
        match open() {
            Err(error) if is_crowded(&error) => {
                if !std::mem::replace(&mut is_told, true) {
                    tracing::warn!(%error, "a file cannot be opened yet: raise the limit of open files (ulimit -n)");
                }
                thread::sleep(CROWDED);
            }
            result => return result,
        }
    }
}

fn is_crowded(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::MFILE, Errno::NFILE].iter().any(|crowded| error.raw_os_error() == Some(crowded.raw_os_error()))
}

/// Makes a directory and those above it, so that each survives a power cut. Returns those that were made; if one cannot be
/// made, none is left.
fn make_directories(path: &Path) -> io::Result<Vec<PathBuf>> {
    let missing: Vec<&Path> = path.ancestors().take_while(|path| !is_directory(path)).collect();
    let mut made: Vec<PathBuf> = Vec::new();
    for path in missing.into_iter().rev() {
        if let Err(error) = make_directory(path) {
            for path in made.iter().rev() {
                // Somebody else may use it by now.
                let _ = fs::remove_dir(path);
            }
            return Err(error);
        }
        made.push(path.to_owned());
    }
    Ok(made)
}

fn make_directory(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        // Somebody else was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        result => result?,
    }
    sync_directory(parent(path))
}

/// The directory that is meant by an empty path is the current one.
fn is_directory(path: &Path) -> bool {
    path.as_os_str().is_empty() || path.is_dir()
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    patiently(|| File::open(path))?.sync_all()
}

fn take_lock(path: &Path) -> Result<File, StorageError> {
    let failed = |error| StorageError::Io { place: path.join(LOCK).display().to_string(), error };
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).open(path.join(LOCK)).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StorageError::InUse(path.display().to_string())),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Zeros that are really written: space that was only reserved would have to be marked as used at the first sync.
fn fill(file: &File, head: &[u8], size: u64) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    let mut at = 0;
    while at < size {
        let length = zeros.len().min((size - at) as usize);
        file.write_all_at(&zeros[..length], at)?;
        at += length as u64;
    }
    file.write_all_at(head, 0)
}

impl Disk for Files {
    fn list(&self) -> Work<'_, Vec<String>> {
        Box::pin(async { self.names() })
    }

    fn read<'a>(&'a self, name: &'a str) -> Work<'a, Vec<u8>> {
        Box::pin(async move { patiently(|| fs::read(self.path.join(name))) })
    }

    fn create<'a>(&'a self, name: &'a str, head: &'a [u8], size: u64) -> Work<'a, Arc<dyn DiskFile>> {
        Box::pin(async move {
            let file = self.put(name, |file| fill(file, head, size))?;
            Ok(Arc::new(Open(file)) as Arc<dyn DiskFile>)
        })
    }

    fn open<'a>(&'a self, name: &'a str) -> Work<'a, Arc<dyn DiskFile>> {
        Box::pin(async move {
            let path = self.path.join(name);
            let file = patiently(|| OpenOptions::new().read(true).write(true).open(&path))?;
            Ok(Arc::new(Open(file)) as Arc<dyn DiskFile>)
        })
    }

    fn replace<'a>(&'a self, name: &'a str, content: &'a [u8]) -> Work<'a, ()> {
        Box::pin(async move { self.put(name, |file| file.write_all_at(content, 0)).map(drop) })
    }

    fn remove<'a>(&'a self, name: &'a str) -> Work<'a, ()> {
        Box::pin(async move {
            fs::remove_file(self.path.join(name))?;
            self.directory.sync_all()
        })
    }

    fn set_aside<'a>(&'a self, name: &'a str, folder: &'a str) -> Work<'a, ()> {
        Box::pin(async move {
            let folder = self.path.join(folder);
            make_directories(&folder)?;
            if folder.join(name).try_exists()? {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            fs::rename(self.path.join(name), folder.join(name))?;
            sync_directory(&folder)?;
            self.directory.sync_all()
        })
    }

    fn place(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    fn run(&self, task: BoxFuture<'static, ()>) -> io::Result<()> {
        let runtime = tokio::runtime::Handle::current();
        thread::Builder::new().name("conclave-disk".to_owned()).spawn(move || runtime.block_on(task))?;
        Ok(())
    }
}

/// An open file.
struct Open(File);

impl DiskFile for Open {
    fn write<'a>(&'a self, at: u64, bytes: &'a [u8]) -> Work<'a, ()> {
        Box::pin(async move { self.0.write_all_at(bytes, at) })
    }

    fn sync(&self) -> Work<'_, ()> {
        Box::pin(async { self.0.sync_data() })
    }

    #[cfg(target_os = "linux")]
    fn write_safely<'a>(&'a self, at: u64, bytes: &'a [u8]) -> Work<'a, ()> {
        Box::pin(async move { write_and_sync(&self.0, at, bytes) })
    }
}

/// One call instead of two: the kernel looks at the pages of this write only.
#[cfg(target_os = "linux")]
fn write_and_sync(file: &File, mut at: u64, mut bytes: &[u8]) -> io::Result<()> {
    use rustix::io::{Errno, ReadWriteFlags, pwritev2};

    while !bytes.is_empty() {
        match pwritev2(file, &[io::IoSlice::new(bytes)], at, ReadWriteFlags::DSYNC) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                at += written as u64;
                bytes = &bytes[written..];
            }
            Err(Errno::INTR) => {}
            // Some file systems do not know how.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                file.write_all_at(bytes, at)?;
                return file.sync_data();
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_directory_has_one_user() {
        let directory = tempfile::tempdir().unwrap();
        let first = Files::open(directory.path()).unwrap();
        let second = Files::open(directory.path()).unwrap_err();
        assert!(second.to_string().ends_with("is in use by another process"), "{second}");
        drop(first);
        Files::open(directory.path()).unwrap();
    }

    #[test]
    fn directories_are_made_from_the_top() {
        let directory = tempfile::tempdir().unwrap();
        let above = directory.path().join("one");
        let path = above.join("two/three");
        let made = make_directories(&path).unwrap();
        assert_eq!(made, [above.clone(), above.join("two"), path.clone()]);
        assert!(path.is_dir());
        assert_eq!(make_directories(&path).unwrap(), [] as [PathBuf; 0]);
        fs::write(path.join("file"), "content").unwrap();
        assert!(make_directories(&path.join("file/below")).is_err());
        // What cannot be made whole is not made at all.
        let too_long = above.join("made/first").join("x".repeat(300));
        assert!(make_directories(&too_long).is_err());
        assert!(!above.join("made").exists());
        assert_eq!(parent(Path::new("here")), Path::new("."));
        assert!(is_directory(Path::new("")));
    }

    #[test]
    fn too_many_open_files_are_waited_for() {
        use rustix::io::Errno;
        let mut errors = vec![Errno::NFILE, Errno::MFILE];
        assert_eq!(patiently(|| errors.pop().map_or(Ok(7), |error| Err(error.into()))).unwrap(), 7);
        let failed = patiently(|| Err::<(), _>(Errno::NOSPC.into())).unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::StorageFull);
    }

    #[tokio::test]
    async fn what_is_set_aside_is_kept_and_not_listed() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::open(directory.path()).unwrap();
        for content in ["first", "second"] {
            files.replace("log", content.as_bytes()).await.unwrap();
            files.set_aside("log", content).await.unwrap();
            assert!(files.read("log").await.is_err());
        }
        assert_eq!(files.read("first/log").await.unwrap(), b"first");
        assert_eq!(files.read("second/log").await.unwrap(), b"second");
        // Nothing that was kept is overwritten.
        files.replace("log", b"third").await.unwrap();
        let error = files.set_aside("log", "first").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(files.read("first/log").await.unwrap(), b"first");
        assert_eq!(files.read("log").await.unwrap(), b"third");
    }

    #[tokio::test]
    async fn what_was_never_finished_is_swept_away() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("new-something"), "half").unwrap();
        let files = Files::open(directory.path()).unwrap();
        files.replace("whole", b"content").await.unwrap();
        assert_eq!(files.list().await.unwrap(), ["whole"]);
        assert_eq!(files.read("whole").await.unwrap(), b"content");
    }

    #[tokio::test]
    async fn a_new_file_has_its_head_and_its_size() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::open(directory.path()).unwrap();
        let file = files.create("log", b"head", (3 << 20) + 5).await.unwrap();
        file.write(10, b"more").await.unwrap();
        file.sync().await.unwrap();
        let content = files.read("log").await.unwrap();
        assert_eq!(content.len(), (3 << 20) + 5);
        assert_eq!(&content[..16], b"head\0\0\0\0\0\0more\0\0");
        files.remove("log").await.unwrap();
        assert!(files.open("log").await.is_err());
    }
}
