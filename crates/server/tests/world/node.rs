//! The nodes of a world: the real server, on a simulated host with a simulated disk.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use conclave_server::consensus::{Compaction, Timing};
use conclave_server::disk::{Disk, MemoryDisk};
use conclave_server::repair;
use conclave_server::server::{Options, Server};
use conclave_server::{Clock, Wall};
use tokio::time::{advance, sleep};

use crate::dice::Dice;
use crate::net::{Gossiping, Rumours};

/// The port of every node.
const PORT: u16 = 7400;

/// Why a node stopped that was asked to.
pub const LEFT: &str = "it was asked to";

/// A clock that runs a little too fast or too slow, and began who knows when.
#[derive(Clone, Copy, Debug)]
pub struct Drifting {
    pub zero: Duration,
    /// In millionths, 1,000,000 being right.
    pub rate: u64,
}

impl Clock for Drifting {
    fn now(&self) -> Duration {
        let real = turmoil::sim_elapsed().unwrap_or_default();
        self.zero + Duration::from_nanos((real.as_nanos() * u128::from(self.rate) / 1_000_000) as u64)
    }
}

/// The same while the machine is stopped: it stands still, and is right again at once when the machine goes on.
struct Stopping {
    clock: Drifting,
    stopped_at: Arc<Mutex<Option<Duration>>>,
}

impl Clock for Stopping {
    fn now(&self) -> Duration {
        let stopped_at = *self.stopped_at.lock().unwrap_or_else(PoisonError::into_inner);
        stopped_at.unwrap_or_else(|| self.clock.now())
    }
}

/// How often the clock of a machine gets ahead of the right one.
const GETS_AHEAD: Duration = Duration::from_millis(10);

/// Makes the timers of this host go off too early, all of them.
async fn hurry(by: Duration) {
    loop {
        sleep(GETS_AHEAD).await;
        advance(by).await;
    }
}

/// A day like any other.
const DAY: Duration = Duration::from_secs(1_800_000_000);

/// A time of day that is wrong, and is set to another wrong one at some time.
#[derive(Clone, Copy, Debug)]
pub struct WrongWall {
    /// How far after the beginning of that day the world begins.
    pub before: Duration,
    /// The same once it is set.
    pub after: Duration,
    pub set_at: Duration,
}

impl Wall for WrongWall {
    fn since_1970(&self) -> Duration {
        let now = turmoil::sim_elapsed().unwrap_or_default();
        DAY + now + if now < self.set_at { self.before } else { self.after }
    }
}

/// Bits of a byte that are not as they were written.
#[derive(Clone, Debug)]
pub struct Rot {
    file: String,
    at: usize,
    bits: u8,
}

/// What of a file that is open in the end is looked at first by chance: what was written last.
const LATEST: u64 = 1024;
/// A segment of the log with no more bytes than this has nothing in it yet.
const EMPTY: usize = 512;

/// A node, through its lives.
pub struct Node {
    pub id: u64,
    pub name: String,
    pub disk: RefCell<MemoryDisk>,
    pub clock: Drifting,
    pub wall: WrongWall,
    /// By how much its timers are too fast every ten milliseconds.
    haste: Duration,
    /// What the clock of its machine shows while that is stopped.
    stopped_at: Arc<Mutex<Option<Duration>>>,
    pub compaction: Compaction,
    /// What it is told that is not true.
    pub rumours: Arc<Rumours>,
    /// The server that runs now.
    pub server: RefCell<Option<Rc<Server>>>,
    /// Why it stopped by itself, if it did.
    pub stopped: RefCell<Option<String>>,
    pub is_up: Cell<bool>,
    /// It stopped without a reason, and stays down.
    pub is_broken: Cell<bool>,
    /// It lost its disk, and has not found out yet what it missed.
    pub is_robbed: Cell<bool>,
    /// What is wrong on its disk, if anything is.
    pub rotten: RefCell<Option<Rot>>,
    /// It is to be repaired before it starts.
    pub is_to_be_repaired: Cell<bool>,
    /// Asked to stop in good order.
    pub leave: tokio::sync::Notify,
}

/// Where the nodes of a world are.
pub fn members(count: u64) -> BTreeMap<u64, String> {
    (1..=count).map(|id| (id, format!("node{id}:{PORT}"))).collect()
}

impl Node {
    pub fn new(
        id: u64,
        clock: Drifting,
        wall: WrongWall,
        haste: Duration,
        compaction: Compaction,
    ) -> Rc<Self> {
        Rc::new(Self {
            id,
            name: format!("node{id}"),
            disk: RefCell::default(),
            clock,
            wall,
            haste,
            stopped_at: Arc::default(),
            compaction,
            rumours: Arc::default(),
            server: RefCell::default(),
            stopped: RefCell::default(),
            is_up: Cell::new(true),
            is_broken: Cell::new(false),
            is_robbed: Cell::new(false),
            rotten: RefCell::default(),
            is_to_be_repaired: Cell::new(false),
            leave: tokio::sync::Notify::new(),
        })
    }

    /// Stops the clock of its machine, or lets it go on.
    pub fn stop_clock(&self, is_stopped: bool) {
        let at = is_stopped.then(|| self.clock.now());
        *self.stopped_at.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    /// Turns bits of its disk around, in the log or in the newest snapshot: as often as not in what was written last.
    pub fn rot(&self, seed: u64) {
        let mut dice = Dice::new(seed, 1);
        let disk = self.disk.borrow();
        let (mut logs, mut snapshots): (Vec<_>, Vec<_>) = disk
            .extents()
            .into_iter()
            .filter(|(file, extent)| {
                file.starts_with("snapshot-") || file.starts_with("log-") && *extent > EMPTY
            })
            .partition(|(file, _)| file.starts_with("log-"));
        let last = logs.pop();
        let older = snapshots.pop().into_iter().chain(logs).collect::<Vec<_>>();
        let (file, extent, from) = match last {
            Some((file, extent)) if older.is_empty() || dice.chance(60) => {
                let from = if dice.chance(80) { (extent as u64).saturating_sub(LATEST) } else { 0 };
                (file, extent, from)
            }
            _ if older.is_empty() => return,
            _ => {
                let (file, extent) = dice.pick(&older).clone();
                (file, extent, 0)
            }
        };
        let at = dice.within(from..=extent as u64 - 1) as usize;
        let rot = Rot { file, at, bits: 1 << dice.within(0..=7) };
        disk.rot(&rot.file, rot.at, rot.bits);
        *self.rotten.borrow_mut() = Some(rot);
    }

    /// Undoes that, or has it repaired from the other nodes, if there are any.
    pub fn mend(&self, nodes: u64) {
        let Some(rot) = self.rotten.take() else { return };
        if nodes > 1 {
            self.is_to_be_repaired.set(true);
        } else {
            self.disk.borrow().rot(&rot.file, rot.at, rot.bits);
        }
    }

    /// Sets its disk aside, if it is to be repaired.
    async fn repair(&self, members: &BTreeMap<u64, String>) -> Result<(), String> {
        if self.is_to_be_repaired.get() {
            let disk: Arc<dyn Disk> = Arc::new(self.disk.borrow().clone());
            repair::set_aside(self.id, members, &disk).await.map_err(|error| error.to_string())?;
            self.is_to_be_repaired.set(false);
        }
        Ok(())
    }

    /// One life of the node: until its host crashes, or the server stops by itself.
    pub async fn live(self: Rc<Self>, members: BTreeMap<u64, String>) -> turmoil::Result {
        if let Err(error) = self.repair(&members).await {
            *self.stopped.borrow_mut() = Some(format!("it cannot be repaired: {error}"));
            return std::future::pending().await;
        }
        tokio::task::spawn_local(hurry(self.haste));
        let options = Options {
            id: self.id,
            listen: members[&self.id].clone(),
            members,
            disk: Arc::new(self.disk.borrow().clone()),
            transport: Arc::new(Gossiping { node: self.id, rumours: Arc::clone(&self.rumours) }),
            timing: Timing::default(),
            compaction: self.compaction,
            clock: Box::new(Stopping { clock: self.clock, stopped_at: Arc::clone(&self.stopped_at) }),
            wall: Arc::new(self.wall),
        };
        let why = match Server::start(options).await {
            Err(error) => format!("it does not start: {error}"),
            Ok(server) => {
                let server = Rc::new(server);
                *self.server.borrow_mut() = Some(Rc::clone(&server));
                tokio::select! {
                    biased;
                    why = server.failed() => why,
                    () = self.leave.notified() => {
                        self.server.borrow_mut().take();
                        if let Ok(server) = Rc::try_unwrap(server) {
                            server.shutdown().await;
                        }
                        LEFT.to_owned()
                    }
                }
            }
        };
        *self.stopped.borrow_mut() = Some(why);
        // The world ends the process, and so closes its connections.
        std::future::pending().await
    }
}
