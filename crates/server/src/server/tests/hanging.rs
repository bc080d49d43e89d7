//! Disks that do not answer.

use std::sync::{Condvar, Mutex};

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::*;
use crate::consensus::presence::Condition;
use crate::consensus::watchdog::patience;
use crate::disk::{DiskFile, Files, Work};

/// Three nodes and their disks.
struct Trio {
    lines: Lines,
    disks: BTreeMap<u64, MemoryDisk>,
    servers: BTreeMap<u64, Server>,
}

impl Trio {
    async fn start() -> Self {
        let (lines, wall) = (Lines::default(), Hand::default());
        let disks: BTreeMap<u64, MemoryDisk> = (1..=3).map(|id| (id, MemoryDisk::default())).collect();
        let mut servers = BTreeMap::new();
        for (&id, disk) in &disks {
            servers.insert(id, start(&lines, id, 3, disk, &wall).await);
        }
        let trio = Self { lines, disks, servers };
        let take_part = || (1..=3).all(|id| trio.status(id).settled && trio.status(id).leader.is_some());
        eventually("all nodes take part", || take_part().then_some(())).await;
        trio
    }

    fn hang(&self, id: u64, hangs: bool) {
        self.disks[&id].fault(|faults| faults.hangs = hangs);
    }

    fn status(&self, id: u64) -> consensus::Status {
        self.servers[&id].consensus().status()
    }

    async fn come_to(&self, id: u64, condition: Condition) {
        let came = || (self.status(id).presence.condition == condition).then_some(());
        eventually(&format!("{condition:?} at {id}"), came).await;
    }

    /// Locks and unlocks a name through a node, so often.
    async fn use_through(&self, node: u64, times: usize) {
        let mut talker = Talker::new(&self.lines, node).await;
        for _ in 0..times {
            let token = talker.lock("a").await;
            talker.say(vec![Act::Release(v1::Release { token })]);
            assert!(matches!(talker.replies(1).await[0], v1::reply::Reply::Done(_)));
        }
    }

    /// Makes sure that all nodes come to the same.
    async fn become_even(&self) {
        let is_even = || {
            let applied: Vec<u64> = (1..=3).map(|id| self.status(id).applied).collect();
            (applied[0] == self.status(1).last_log && applied.iter().all(|at| *at == applied[0]))
                .then_some(())
        };
        eventually("all nodes apply the same", is_even).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_disk_hangs_hands_the_lead_over() {
    let trio = Trio::start().await;
    let former = leader_of(&trio.servers).await;
    trio.use_through(former, 3).await;
    trio.hang(former, true);
    let began = Instant::now();
    trio.use_through(1 + former % 3, 3).await;
    let another = || {
        let leader = *trio.servers[&former].consensus().leader().borrow();
        leader.filter(|leader| !leader.is_me).map(|leader| leader.id)
    };
    let next = eventually("another leader", another).await;
    assert!(began.elapsed() < patience(Timing::default()) * 3, "after {:?}", began.elapsed());
    trio.come_to(former, Condition::Follows(next)).await;
    // It passes on what it is asked, and says what is wrong with it.
    sleep(Duration::from_secs(10)).await;
    trio.use_through(former, 3).await;
    let status = trio.status(former);
    assert!(status.disk_hangs.is_some_and(|silent| silent > Duration::from_secs(10)), "{status:?}");
    assert_eq!(status.presence.condition, Condition::Follows(next));
    assert!(status.presence.disk_hangs);
    assert_eq!(trio.status(next).leader, Some(next), "the lead does not come back to it");
    trio.hang(former, false);
    trio.become_even().await;
    assert_eq!(trio.status(former).disk_hangs, None);
}

#[test]
fn that_a_disk_is_not_waited_for_is_tested() {
    let test = "server::tests::hanging::a_leader_whose_disk_hangs_hands_the_lead_over";
    assert_caught(test, Mutant::WaitsForDisks, "never came: another leader");
}

#[tokio::test(start_paused = true)]
async fn a_follower_whose_disk_hangs_holds_up_nobody_and_promises_nothing() {
    let trio = Trio::start().await;
    let leader = leader_of(&trio.servers).await;
    let (slow, other) = (1 + leader % 3, 1 + (leader + 1) % 3);
    trio.use_through(leader, 1).await;
    trio.hang(slow, true);
    trio.use_through(other, 20).await;
    sleep(Duration::from_secs(5)).await;
    trio.use_through(slow, 3).await;
    let status = trio.status(slow);
    assert!(status.disk_hangs.is_some_and(|silent| silent > Duration::from_secs(4)), "{status:?}");
    assert_eq!(status.presence.condition, Condition::Follows(leader));
    let (last, term) = (status.last_log, status.term);
    trio.use_through(leader, 20).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(trio.status(slow).last_log, last, "it takes in what it could not keep");
    assert_eq!(trio.status(slow).term, term, "it stood for election");
    assert_eq!(leader_of(&trio.servers).await, leader);
    trio.hang(slow, false);
    trio.become_even().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_disk_hangs_does_not_vote() {
    let trio = Trio::start().await;
    let leader = leader_of(&trio.servers).await;
    let (slow, other) = (1 + leader % 3, 1 + (leader + 1) % 3);
    trio.hang(slow, true);
    trio.use_through(leader, 3).await;
    sleep(Duration::from_secs(2)).await;
    // The other one has all it needs to lead, but for a vote that could not be kept.
    let mut servers = trio.servers;
    servers.remove(&leader).expect("it is there").consensus().shutdown().await;
    sleep(Duration::from_secs(20)).await;
    let term = servers[&slow].consensus().status().term;
    assert_eq!(servers[&other].consensus().status().leader, None);
    assert_eq!(servers[&slow].consensus().status().presence.condition, Condition::Elects);
    trio.disks[&slow].fault(|faults| faults.hangs = false);
    assert!(servers[&leader_of(&servers).await].consensus().status().term > term);
}

#[tokio::test(start_paused = true)]
async fn a_single_node_whose_disk_hangs_serves_nobody_and_says_so() {
    let (lines, wall, disk) = (Lines::default(), Hand::default(), MemoryDisk::default());
    let server = start(&lines, 1, 1, &disk, &wall).await;
    server.ready().await;
    let mut talker = Talker::new(&lines, 1).await;
    disk.fault(|faults| faults.hangs = true);
    let wants = vec![v1::Want { name: "a".to_owned(), mode: None }];
    talker.say(vec![Act::Acquire(v1::Acquire { wants, wait_ms: Some(0), ..v1::Acquire::default() })]);
    let condition = || server.consensus().status().presence.condition;
    let is = async |due| eventually(&format!("{due:?}"), || (condition() == due).then_some(())).await;
    is(Condition::LeadsWithoutMajority).await;
    sleep(Duration::from_secs(12)).await;
    let channel = conclave_wire::channel(&lines.of(99), &lines.address(1), Duration::from_secs(1)).unwrap();
    let status = conclave_wire::versioned(channel).status(v1::StatusRequest {}).await.unwrap().into_inner();
    assert!((12_000..14_000).contains(&status.disk_silent_ms), "{status:?}");
    assert_eq!(status.leader, 0);
    disk.fault(|faults| faults.hangs = false);
    is(Condition::Leads).await;
    Talker::new(&lines, 1).await.lock("b").await;
}

/// A directory whose writes can be held up: whoever writes then blocks its thread.
struct Blocking {
    files: Files,
    held: Arc<Held>,
}

#[derive(Default)]
struct Held {
    is_held: Mutex<bool>,
    released: Condvar,
}

/// A write is held up no longer than this, so that a test that is blocked by it ends.
const LONGEST: Duration = Duration::from_secs(60);

impl Held {
    fn set(&self, is_held: bool) {
        *self.is_held.lock().unwrap() = is_held;
        self.released.notify_all();
    }

    fn wait(&self) {
        let held = self.is_held.lock().unwrap();
        drop(self.released.wait_timeout_while(held, LONGEST, |is_held| *is_held).unwrap());
    }
}

struct BlockingFile {
    file: Arc<dyn DiskFile>,
    held: Arc<Held>,
}

impl Blocking {
    fn wrap(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(BlockingFile { file, held: Arc::clone(&self.held) })
    }
}

impl DiskFile for BlockingFile {
    fn write<'a>(&'a self, at: u64, bytes: &'a [u8]) -> Work<'a, ()> {
        self.held.wait();
        self.file.write(at, bytes)
    }

    fn sync(&self) -> Work<'_, ()> {
        self.file.sync()
    }

    fn write_safely<'a>(&'a self, at: u64, bytes: &'a [u8]) -> Work<'a, ()> {
        self.held.wait();
        self.file.write_safely(at, bytes)
    }
}

impl Disk for Blocking {
    fn list(&self) -> Work<'_, Vec<String>> {
        self.files.list()
    }

    fn read<'a>(&'a self, name: &'a str) -> Work<'a, Vec<u8>> {
        self.files.read(name)
    }

    fn create<'a>(&'a self, name: &'a str, head: &'a [u8], size: u64) -> Work<'a, Arc<dyn DiskFile>> {
        Box::pin(async move { Ok(self.wrap(self.files.create(name, head, size).await?)) })
    }

    fn open<'a>(&'a self, name: &'a str) -> Work<'a, Arc<dyn DiskFile>> {
        Box::pin(async move { Ok(self.wrap(self.files.open(name).await?)) })
    }

    fn replace<'a>(&'a self, name: &'a str, content: &'a [u8]) -> Work<'a, ()> {
        self.files.replace(name, content)
    }

    fn remove<'a>(&'a self, name: &'a str) -> Work<'a, ()> {
        self.files.remove(name)
    }

    fn set_aside<'a>(&'a self, name: &'a str, folder: &'a str) -> Work<'a, ()> {
        self.files.set_aside(name, folder)
    }

    fn place(&self, name: &str) -> String {
        self.files.place(name)
    }

    fn run(&self, task: BoxFuture<'static, ()>) -> std::io::Result<()> {
        self.files.run(task)
    }
}

/// All nodes share one thread here: a node that waited for its disk on it would stop all others, too.
#[tokio::test]
async fn a_follower_answers_while_a_thread_is_blocked_by_its_disk() {
    let (lines, wall) = (Lines::default(), Hand::default());
    let directories: Vec<_> = (1..=3).map(|_| tempfile::tempdir().unwrap()).collect();
    let (mut held, mut servers) = (BTreeMap::new(), BTreeMap::new());
    for (id, directory) in (1..=3).zip(&directories) {
        let files = Files::open(directory.path()).unwrap();
        let disk = Blocking { files, held: Arc::default() };
        held.insert(id, Arc::clone(&disk.held));
        // On a busy machine a moment of silence must not be an election.
        let timing = Timing::of(Duration::from_millis(200), Duration::from_millis(1500)).unwrap();
        servers.insert(id, start_on(&lines, id, 3, Arc::new(disk), timing, &wall).await);
    }
    let take_part = || {
        let mut all = servers.values().map(|server| server.consensus().status());
        all.all(|status| status.settled && status.leader.is_some()).then_some(())
    };
    eventually("all nodes take part", take_part).await;
    let leader = leader_of(&servers).await;
    let slow = 1 + leader % 3;
    let mut talker = Talker::new(&lines, leader).await;
    let silent = || servers[&slow].consensus().status().disk_hangs;
    held[&slow].set(true);
    let began = Instant::now();
    talker.lock("a").await;
    eventually("a disk that hangs", silent).await;
    talker.lock("b").await;
    Talker::new(&lines, slow).await.lock("c").await;
    assert!(began.elapsed() < LONGEST / 2, "after {:?}", began.elapsed());
    held[&slow].set(false);
    eventually("a disk that answers", || silent().is_none().then_some(())).await;
    for server in servers.into_values() {
        server.shutdown().await;
    }
}
