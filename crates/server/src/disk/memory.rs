//! A disk that exists in memory only, and can fail in every way that a real one can.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{Disk, DiskFile, SECTOR, Work};

/// How often somebody who waits for a disk that hangs looks whether it still does.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What is wrong with a disk. Nothing by default.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Writes fail, after some of the sectors may have been written.
    pub writes_fail: bool,
    /// Syncs fail. What they should have made safe looks synced from then on: it can be read, until the power is cut,
    /// and no later sync does anything for it.
    pub syncs_fail: bool,
    /// There is no room for another file.
    pub full: bool,
    /// Nothing that is asked of it is answered, for as long as this lasts.
    pub hangs: bool,
    /// How long a sync takes.
    pub sync_delay: Duration,
    /// Syncs return at once and make nothing safe: what a server that answers before its disk has answered looks like.
    pub syncs_lie: bool,
    /// Syncs return at once, and what was written is safe only so much later: the same, but for the last moments.
    pub sync_lag: Duration,
}

/// A simulated disk. Clones are the same disk, until the next power cut.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    store: Arc<Mutex<Store>>,
    /// Of which life this handle is; those of an earlier one are dead.
    life: u64,
}

#[derive(Debug, Default)]
struct Store {
    life: u64,
    files: BTreeMap<String, Image>,
    faults: Faults,
    syncs: u64,
}

/// A file, as it is on the disk and as its user sees it.
#[derive(Debug, Default)]
struct Image {
    safe: Vec<u8>,
    seen: Vec<u8>,
    /// The sectors in which they may differ, each once, in the order in which they were first written.
    unsafe_sectors: Vec<usize>,
    listed: BTreeSet<usize>,
    /// The sectors for which a sync failed, and which nobody wrote since.
    adrift: BTreeSet<usize>,
}

impl MemoryDisk {
    /// Cuts the power and turns it on again. What was synced is still there; of the rest, sectors that the seed picks.
    /// Handles from before are dead.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        let mut store = self.lock();
        store.life += 1;
        let mut random = Random(seed);
        for image in store.files.values_mut() {
            image.crash(&mut random);
        }
        let life = store.life;
        drop(store);
        Self { store: Arc::clone(&self.store), life }
    }

    /// Ends the process and starts another one. What was written can still be read, whether it was synced or not.
    /// Handles from before are dead.
    #[must_use]
    pub fn restart(&self) -> Self {
        let mut store = self.lock();
        store.life += 1;
        let life = store.life;
        drop(store);
        Self { store: Arc::clone(&self.store), life }
    }

    /// Changes what is wrong with it.
    pub fn fault(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.lock().faults);
    }

    /// How often something was made safe.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// Forgets everything, as if the disk had been replaced.
    pub fn wipe(&self) {
        self.lock().files.clear();
    }

    /// The files, and up to where something stands in each.
    #[must_use]
    pub fn extents(&self) -> Vec<(String, usize)> {
        let store = self.lock();
        let extent =
            |image: &Image| image.seen.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        store.files.iter().map(|(name, image)| (name.clone(), extent(image))).collect()
    }

    /// Turns bits of a byte around, as a disk may do that is old.
    pub fn rot(&self, name: &str, at: usize, bits: u8) {
        if let Some(image) = self.lock().files.get_mut(name) {
            for bytes in [&mut image.safe, &mut image.seen] {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= bits;
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store, for handles of the present life.
    fn alive(&self) -> io::Result<MutexGuard<'_, Store>> {
        let store = self.lock();
        if store.life == self.life { Ok(store) } else { Err(io::Error::other("the power was cut")) }
    }

    /// Waits until it answers again, if it does not.
    async fn answers(&self) -> io::Result<()> {
        while self.alive()?.faults.hangs {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// The time that it takes to make something safe, and whether that works.
    async fn settle(&self) -> io::Result<()> {
        self.answers().await?;
        let delay = self.alive()?.faults.sync_delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let mut store = self.alive()?;
        store.syncs += 1;
        if store.faults.syncs_fail { Err(broken("sync")) } else { Ok(()) }
    }

    async fn put(&self, name: &str, content: Vec<u8>) -> io::Result<()> {
        self.settle().await?;
        let mut store = self.alive()?;
        if store.faults.full {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        if store.faults.writes_fail {
            return Err(broken("write"));
        }
        let image = Image { safe: content.clone(), seen: content, ..Image::default() };
        store.files.insert(name.to_owned(), image);
        Ok(())
    }
}

impl Image {
    fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.seen.len() < end {
            self.seen.resize(end, 0);
        }
        self.seen[at..end].copy_from_slice(bytes);
        for sector in at / SECTOR..end.div_ceil(SECTOR) {
            self.adrift.remove(&sector);
            if self.listed.insert(sector) {
                self.unsafe_sectors.push(sector);
            }
        }
    }

    /// The sectors that are not safe yet; they are taken for settled from now on.
    fn unsettled(&mut self) -> Vec<usize> {
        self.listed.clear();
        std::mem::take(&mut self.unsafe_sectors)
    }

    fn settle(&mut self, sectors: impl IntoIterator<Item = usize>) {
        for sector in sectors {
            let start = sector * SECTOR;
            let end = (start + SECTOR).min(self.seen.len());
            if self.safe.len() < end {
                self.safe.resize(end, 0);
            }
            self.safe[start..end].copy_from_slice(&self.seen[start..end]);
        }
    }

    /// Nothing of what was not synced survives, or all, or the beginning, or anything.
    fn crash(&mut self, random: &mut Random) {
        let mut sectors = self.unsettled();
        sectors.extend(std::mem::take(&mut self.adrift));
        let count = sectors.len() as u64;
        let kept: BTreeSet<usize> = match random.below(4) {
            0 => BTreeSet::new(),
            1 => sectors.into_iter().collect(),
            2 => sectors.into_iter().take(random.below(count + 1) as usize).collect(),
            _ => sectors.into_iter().filter(|_| random.below(2) == 0).collect(),
        };
        self.settle(kept);
        self.seen.clone_from(&self.safe);
    }
}

impl Disk for MemoryDisk {
    fn list(&self) -> Work<'_, Vec<String>> {
        Box::pin(async {
            let store = self.alive()?;
            Ok(store.files.keys().filter(|name| !name.contains('/')).cloned().collect())
        })
    }

    fn read<'a>(&'a self, name: &'a str) -> Work<'a, Vec<u8>> {
        Box::pin(async move { Ok(self.alive()?.files.get(name).ok_or_else(absent)?.seen.clone()) })
    }

    fn create<'a>(&'a self, name: &'a str, head: &'a [u8], size: u64) -> Work<'a, Arc<dyn DiskFile>> {
        Box::pin(async move {
            let mut content = vec![0; size as usize];
            content[..head.len()].copy_from_slice(head);
            self.put(name, content).await?;
            self.open(name).await
        })
    }

    fn open<'a>(&'a self, name: &'a str) -> Work<'a, Arc<dyn DiskFile>> {
        Box::pin(async move {
            self.alive()?.files.get(name).ok_or_else(absent)?;
            Ok(Arc::new(Open { disk: self.clone(), name: name.to_owned() }) as Arc<dyn DiskFile>)
        })
    }

    fn replace<'a>(&'a self, name: &'a str, content: &'a [u8]) -> Work<'a, ()> {
        Box::pin(self.put(name, content.to_vec()))
    }

    fn remove<'a>(&'a self, name: &'a str) -> Work<'a, ()> {
        Box::pin(async move { self.alive()?.files.remove(name).map(drop).ok_or_else(absent) })
    }

    fn set_aside<'a>(&'a self, name: &'a str, folder: &'a str) -> Work<'a, ()> {
        Box::pin(async move {
            let mut store = self.alive()?;
            let image = store.files.remove(name).ok_or_else(absent)?;
            store.files.insert(format!("{folder}/{name}"), image);
            Ok(())
        })
    }

    fn place(&self, name: &str) -> String {
        name.to_owned()
    }

    fn run(&self, task: BoxFuture<'static, ()>) -> io::Result<()> {
        tokio::spawn(task);
        Ok(())
    }
}

/// An open file.
#[derive(Clone)]
struct Open {
    disk: MemoryDisk,
    name: String,
}

impl DiskFile for Open {
    fn write<'a>(&'a self, at: u64, bytes: &'a [u8]) -> Work<'a, ()> {
        Box::pin(async move {
            self.disk.answers().await?;
            let mut store = self.disk.alive()?;
            let fails = store.faults.writes_fail;
            let image = store.files.get_mut(&self.name).ok_or_else(absent)?;
            let at = at as usize;
            // Whole sectors, as with a system that takes over a page at a time.
            let half = ((at + bytes.len() / 2) / SECTOR * SECTOR).saturating_sub(at);
            image.write(at, if fails { &bytes[..half] } else { bytes });
            if fails { Err(broken("write")) } else { Ok(()) }
        })
    }

    fn sync(&self) -> Work<'_, ()> {
        Box::pin(async {
            let Faults { syncs_lie, sync_lag, .. } = self.disk.alive()?.faults;
            if syncs_lie {
                return Ok(());
            }
            if sync_lag.is_zero() {
                return self.settle().await;
            }
            let late = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(sync_lag).await;
                // Nobody waits for it.
                drop(late.settle().await);
            });
            Ok(())
        })
    }
}

impl Open {
    async fn settle(&self) -> io::Result<()> {
        let settled = self.disk.settle().await;
        let mut store = self.disk.alive()?;
        let image = store.files.get_mut(&self.name).ok_or_else(absent)?;
        let sectors = image.unsettled();
        match &settled {
            Ok(()) => image.settle(sectors),
            Err(_) => image.adrift.extend(sectors),
        }
        settled
    }
}

fn absent() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

fn broken(what: &str) -> io::Error {
    io::Error::other(format!("injected failure of a {what}"))
}

/// SplitMix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
