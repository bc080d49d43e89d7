//! Clients that lock names again and again, and what can be asked of their processes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use conclave_algorithms::Name;
use conclave_algorithms::mutex::Fence;
use conclave_core::NodeId;
use conclave_live::control::{Answer, Ask, Control, Status};
use conclave_live::desk::{Wish, Word};

use crate::group::Place;
use crate::resource::{NAMES, Resource};
use crate::{PATIENCE, until};

/// How long a client stays inside, and how long it then stays outside.
const INSIDE: Duration = Duration::from_millis(3);
const OUTSIDE: Duration = Duration::from_millis(15);
/// How long a client waits before it looks whether it is still wanted.
const GLANCE: Duration = Duration::from_millis(100);

fn lock(name: &str) -> Ask {
    Ask::Wish(Wish::Lock { name: Name::new(name).expect("it is a name") })
}

fn unlock(name: &str) -> Ask {
    Ask::Wish(Wish::Unlock { name: Name::new(name).expect("it is a name") })
}

/// How a process stands, if it answers.
pub fn status(place: &Place) -> Option<Status> {
    let mut control = Control::connect(&place.1).ok()?;
    control.ask(&Ask::Status).ok()?;
    match control.answer(Some(Duration::from_secs(2))) {
        Ok(Some(Answer::Status(status))) => Some(*status),
        _ => None,
    }
}

/// Whether a process has links with all others, and believes none of them dead.
pub fn trusts_all(place: &Place) -> bool {
    let sound = |status: Status| status.peers.values().all(|peer| peer.connected && !peer.suspected);
    status(place).is_some_and(sound)
}

/// Waits until each of these processes believes all of those dead.
#[track_caller]
pub fn suspect(places: &[Place], suspects: &[u32]) {
    let suspects_all = |status: Status| {
        let is_suspected = |peer: &NodeId| status.peers.get(peer).is_some_and(|peer| peer.suspected);
        suspects.iter().all(|id| is_suspected(&NodeId(*id)))
    };
    until("they are suspected", || places.iter().all(|place| status(place).is_some_and(suspects_all)));
}

/// Locks a name through a process, and gives it back at once.
#[track_caller]
pub fn lock_once(place: &Place, name: &str) -> Fence {
    let mut control = Control::connect(&place.1).expect("the process is up");
    control.ask(&lock(name)).expect("it listens");
    let answer = control.answer(Some(PATIENCE)).expect("it stays up");
    let Some(Answer::Word(Word::Granted { fence, .. })) = answer else {
        panic!("{name} through p{}: {answer:?}", place.0)
    };
    assert!(matches!(control.call(&unlock(name)), Ok(Answer::Word(Word::Released { .. }))));
    fence
}

/// One client who is inside, until the test lets it go.
pub struct Holder {
    resource: Arc<Resource>,
    control: Control,
    name: &'static str,
    pub fence: Fence,
}

impl Holder {
    /// Gets in through a process.
    #[track_caller]
    pub fn new(load: &Load, place: &Place, name: &'static str) -> Self {
        let mut control = Control::connect(&place.1).expect("the process is up");
        control.ask(&lock(name)).expect("it listens");
        let answer = control.answer(Some(PATIENCE)).expect("it stays up");
        let Some(Answer::Word(Word::Granted { fence, .. })) = answer else { panic!("{answer:?}") };
        load.resource.enter(name, place.0, fence);
        Self { resource: Arc::clone(&load.resource), control, name, fence }
    }

    /// Writes once more; says whether that was accepted.
    pub fn write(&self) -> bool {
        self.resource.write(self.name, self.fence)
    }

    /// Whether it is told that it is no longer inside.
    pub fn is_told_lost(&mut self) -> bool {
        let answer = self.control.answer(Some(PATIENCE));
        matches!(answer, Ok(Some(Answer::Word(Word::Lost { fence, .. }))) if fence == self.fence)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.resource.leave(self.name, self.fence);
        let _ = self.control.ask(&unlock(self.name));
    }
}

/// One client who waits.
pub struct Waiter {
    _control: Control,
}

impl Waiter {
    /// Stands in line at a process, alone or behind others.
    pub fn new(place: &Place, name: &'static str) -> Self {
        let mut control = Control::connect(&place.1).expect("the process is up");
        control.ask(&lock(name)).expect("it listens");
        let waits = |status: Status| {
            status.desk.locks.iter().any(|lock| lock.name.as_str() == name && lock.waiting > 0)
        };
        until("it waits", || status(place).is_some_and(waits));
        Self { _control: control }
    }
}

/// A client per process. They connect again when their process has died.
pub struct Load {
    pub resource: Arc<Resource>,
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    pub fn on(places: Vec<Place>) -> Self {
        let resource = Arc::new(Resource::default());
        let stop = Arc::new(AtomicBool::new(false));
        let client = |(process, data): Place| {
            let client = Client {
                process,
                data,
                // Half of them begin with either name.
                next: process as usize,
                resource: Arc::clone(&resource),
                stop: Arc::clone(&stop),
            };
            std::thread::spawn(move || client.run())
        };
        let clients = places.into_iter().map(client).collect();
        Self { resource, stop, clients }
    }

    /// Waits until all of these have been let in once more, for every name; says how long that took.
    #[track_caller]
    pub fn serves(&self, processes: &[u32]) -> Duration {
        let since = Instant::now();
        let deadline = since + PATIENCE;
        let left = || -> Vec<(u32, &str)> {
            let pairs = processes.iter().flat_map(|process| NAMES.map(|name| (*process, name)));
            pairs.filter(|(process, name)| self.resource.served(name, *process, since) == 0).collect()
        };
        while !left().is_empty() {
            assert!(Instant::now() < deadline, "not served any more: {:?}", left());
            std::thread::sleep(Duration::from_millis(5));
        }
        since.elapsed()
    }

    /// How often these were let in since then.
    pub fn entries(&self, processes: &[u32], since: Instant) -> usize {
        let pairs = processes.iter().flat_map(|process| NAMES.map(|name| (*process, name)));
        pairs.map(|(process, name)| self.resource.served(name, process, since)).sum()
    }

    /// Waits until all are let in by the same group, and nobody suspects anybody.
    #[track_caller]
    pub fn finds_one_group(&self, places: &[Place]) {
        let ids: Vec<u32> = places.iter().map(|(id, _)| *id).collect();
        until("all trust each other", || places.iter().all(trusts_all));
        let in_one_epoch = |name: &&'static str| {
            let epochs = self.resource.epochs(name);
            let first = epochs.values().next().copied();
            ids.iter().all(|id| epochs.get(id).copied() == first)
        };
        until("all are one group", || {
            self.serves(&ids);
            NAMES.iter().all(in_one_epoch)
        });
    }

    /// Ends the clients, and hands over what they found. One that has panicked takes the test with it.
    pub fn end(mut self) -> Arc<Resource> {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            client.join().expect("a client found nothing wrong");
        }
        Arc::clone(&self.resource)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

struct Client {
    process: u32,
    data: PathBuf,
    next: usize,
    resource: Arc<Resource>,
    stop: Arc<AtomicBool>,
}

impl Client {
    fn run(mut self) {
        while !self.is_over() {
            match connect(&self.data) {
                // It ends when the process is gone.
                Some(mut control) => while self.enter_and_leave(&mut control).is_some() {},
                None => std::thread::sleep(OUTSIDE),
            }
        }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn enter_and_leave(&mut self, control: &mut Control) -> Option<()> {
        let name = NAMES[self.next % NAMES.len()];
        self.next += 1;
        control.ask(&lock(name)).ok()?;
        let fence = self.granted(control)?;
        self.resource.enter(name, self.process, fence);
        std::thread::sleep(INSIDE);
        self.resource.write(name, fence);
        self.resource.leave(name, fence);
        control.ask(&unlock(name)).ok()?;
        // Released; or lost before, and then there is nothing to release.
        loop {
            match self.answer(control)? {
                Word::Released { .. } | Word::Refused { .. } => break,
                Word::Granted { .. }
                | Word::Lost { .. }
                | Word::Elected { .. }
                | Word::Asked
                | Word::Event { .. } => {}
            }
        }
        std::thread::sleep(OUTSIDE);
        Some(())
    }

    fn granted(&self, control: &mut Control) -> Option<Fence> {
        loop {
            match self.answer(control)? {
                Word::Granted { fence, .. } => return Some(fence),
                Word::Refused { why } => panic!("p{} refused a lock: {why}", self.process),
                Word::Lost { .. }
                | Word::Released { .. }
                | Word::Elected { .. }
                | Word::Asked
                | Word::Event { .. } => {}
            }
        }
    }

    /// What the process says next; nothing if it is gone, or we are no longer wanted.
    fn answer(&self, control: &mut Control) -> Option<Word> {
        while !self.is_over() {
            match control.answer(Some(GLANCE)).ok()? {
                Some(Answer::Word(word)) => return Some(word),
                Some(other) => panic!("p{} answered {other:?}", self.process),
                None => {}
            }
        }
        None
    }
}

fn connect(data: &Path) -> Option<Control> {
    Control::connect(data).ok()
}
