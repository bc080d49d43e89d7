mod hanging;
mod reading;

use std::sync::atomic::{AtomicU64, Ordering};

use conclave_service::Token;
use conclave_wire::v1::command::Act;
use conclave_wire::v1::conclave_client::ConclaveClient;
use conclave_wire::{PROTOCOL, v1};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Streaming};

use super::*;
use crate::disk::MemoryDisk;
use crate::front::clock::Monotonic;
use crate::mutant::tests::assert_caught;
use crate::puppet::{Lines, eventually};

/// A time of day that is set by hand, in milliseconds.
#[derive(Clone, Default)]
struct Hand(Arc<AtomicU64>);

impl Wall for Hand {
    fn since_1970(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

async fn start(lines: &Lines, id: u64, nodes: u64, disk: &MemoryDisk, wall: &Hand) -> Server {
    start_on(lines, id, nodes, Arc::new(disk.clone()), Timing::default(), wall).await
}

async fn start_on(
    lines: &Lines,
    id: u64,
    nodes: u64,
    disk: Arc<dyn Disk>,
    timing: Timing,
    wall: &Hand,
) -> Server {
    let members: BTreeMap<u64, String> = (1..=nodes).map(|id| (id, lines.address(id))).collect();
    let options = Options {
        id,
        listen: members[&id].clone(),
        members,
        disk,
        transport: lines.of(id),
        timing,
        compaction: Compaction::default(),
        clock: Box::new(Monotonic::default()),
        wall: Arc::new(wall.clone()),
    };
    Server::start(options).await.unwrap()
}

/// Whether a node was elected last.
fn leads(server: &&Server) -> bool {
    server.consensus().leader().borrow().is_some_and(|leader| leader.is_me)
}

/// How long a client waits for somebody to lead.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client that says what it likes.
struct Talker {
    say: mpsc::UnboundedSender<v1::ToServer>,
    told: Streaming<v1::ToClient>,
    session: u64,
    request: u64,
}

impl Talker {
    async fn new(lines: &Lines, node: u64) -> Self {
        Self::with_ttl(lines, node, 60_000).await
    }

    async fn with_ttl(lines: &Lines, node: u64, ttl_ms: u32) -> Self {
        let transport = lines.of(99);
        let channel =
            conclave_wire::channel(&transport, &lines.address(node), Duration::from_secs(1)).unwrap();
        let mut node = ConclaveClient::new(channel);
        let began = Instant::now();
        // A lead may have just been handed over, and whoever passes requests on has to hear of it.
        let (say, answers) = loop {
            let (say, said) = mpsc::unbounded_channel();
            match node.talk(UnboundedReceiverStream::new(said)).await {
                Err(status) if status.code() == Code::Unavailable && began.elapsed() < PATIENCE => {
                    sleep(Duration::from_millis(20)).await;
                }
                answers => break (say, answers),
            }
        };
        static SESSIONS: AtomicU64 = AtomicU64::new(1);
        let session = SESSIONS.fetch_add(1, Ordering::Relaxed);
        let mut talker = Self { say, told: answers.unwrap().into_inner(), session, request: 0 };
        talker.say(vec![Act::Open(v1::Open { ttl_ms, protocol: PROTOCOL, ..v1::Open::default() })]);
        assert!(matches!(talker.replies(1).await[0], v1::reply::Reply::Opened(_)));
        talker
    }

    fn say(&mut self, acts: Vec<Act>) {
        let commands = acts.into_iter().map(|act| {
            self.request += 1;
            v1::Command {
                session: self.session,
                life: 1,
                request: self.request,
                acked: self.request,
                settled: Vec::new(),
                act: Some(act),
            }
        });
        self.say.send(v1::ToServer { commands: commands.collect() }).unwrap();
    }

    async fn replies(&mut self, count: usize) -> Vec<v1::reply::Reply> {
        let mut replies = Vec::new();
        while replies.len() < count {
            let message = self.told.message().await.expect("the node goes on").expect("a message");
            for event in message.events {
                if let Some(v1::event::Told::Reply(reply)) = event.told {
                    replies.extend(reply.reply);
                }
            }
        }
        replies
    }

    async fn lock(&mut self, name: &str) -> u64 {
        let wants = vec![v1::Want { name: name.to_owned(), mode: None }];
        self.say(vec![Act::Acquire(v1::Acquire { wants, wait_ms: Some(0), ..v1::Acquire::default() })]);
        match self.replies(1).await.remove(0) {
            v1::reply::Reply::Granted(granted) => granted.token,
            other => panic!("{other:?}"),
        }
    }
}

/// Commands as large as they may be arrive while the disks are slow, so that the next batch could have all of them: more
/// than a message between nodes may have.
#[tokio::test(start_paused = true)]
async fn a_flood_of_large_commands_leaves_the_cluster_deciding() {
    const COMMANDS: usize = 640;
    let (lines, wall) = (Lines::default(), Hand::default());
    let disks: BTreeMap<u64, MemoryDisk> = (1..=3).map(|id| (id, MemoryDisk::default())).collect();
    let mut servers = Vec::new();
    for (&id, disk) in &disks {
        servers.push(start(&lines, id, 3, disk, &wall).await);
    }
    let leader =
        eventually("a leader", || servers.iter().find(leads).map(|server| server.consensus().status().id));
    let mut talker = Talker::new(&lines, leader.await).await;

    let slow = |delay| disks.values().for_each(|disk| disk.fault(|faults| faults.sync_delay = delay));
    slow(Duration::from_millis(300));
    let proclaim = || Act::Proclaim(v1::Proclaim { token: 1, value: vec![7; 16 * 1024].into() });
    for _ in 0..COMMANDS / 8 {
        talker.say((0..8).map(|_| proclaim()).collect());
    }
    sleep(Duration::from_millis(250)).await;
    slow(Duration::ZERO);
    let answered = timeout(Duration::from_millis(400), talker.replies(COMMANDS)).await;
    let answered = answered.expect("the cluster went on deciding");
    assert!(answered.iter().all(|reply| matches!(reply, v1::reply::Reply::Failed(_))), "nothing is led");
    talker.lock("z").await;
    let last = |server: &Server| server.consensus().status().last_log;
    let entries = servers.iter().map(last).max().unwrap();
    assert!(entries > 8, "{COMMANDS} commands of 16 KiB in {entries} entries");
}

#[test]
fn that_batches_are_bounded_by_bytes_is_tested() {
    let test = "server::tests::a_flood_of_large_commands_leaves_the_cluster_deciding";
    assert_caught(test, Mutant::BatchesByCount, "the cluster went on deciding");
}

/// Alone, a node waits for nobody.
#[tokio::test(start_paused = true)]
async fn one_node_serves_within_a_second() {
    let (lines, wall) = (Lines::default(), Hand::default());
    let began = Instant::now();
    let server = start(&lines, 1, 1, &MemoryDisk::default(), &wall).await;
    server.ready().await;
    Talker::new(&lines, 1).await.lock("a").await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_is_too_large_is_refused_before_the_log() {
    let (lines, wall) = (Lines::default(), Hand::default());
    let server = start(&lines, 1, 1, &MemoryDisk::default(), &wall).await;
    let mut talker = Talker::new(&lines, 1).await;
    let last_log = || async {
        // What is shown may be a moment old.
        sleep(Duration::from_millis(100)).await;
        server.consensus().status().last_log
    };
    let before = last_log().await;
    let wants = |count: usize, bytes: usize| {
        let want = |at: usize| v1::Want { name: format!("{at:0bytes$}"), mode: None };
        Act::Acquire(v1::Acquire { wants: (0..count).map(want).collect(), ..v1::Acquire::default() })
    };
    let text = |bytes: usize| "x".repeat(bytes);
    let owner = v1::Owner { host: text(257), ..v1::Owner::default() };
    let mode = v1::Mode { kind: v1::mode::Kind::Permits.into(), count: 3, limit: 2 };
    let wrong = vec![
        wants(65, 8),
        wants(1, 513),
        wants(0, 0),
        Act::Proclaim(v1::Proclaim { token: 1, value: vec![0; 16 * 1024 + 1].into() }),
        Act::Proclaim(v1::Proclaim { token: 1, value: vec![0; 200 * 1024].into() }),
        Act::Open(v1::Open { ttl_ms: 60_000, owner: Some(owner), protocol: PROTOCOL, ..v1::Open::default() }),
        Act::Open(v1::Open { ttl_ms: 1, protocol: PROTOCOL, ..v1::Open::default() }),
        Act::Force(v1::Force { name: text(1), token: None, reason: text(1025) }),
        Act::Convert(v1::Convert { token: 1, name: text(1), mode: Some(mode), wait_ms: None }),
    ];
    let count = wrong.len();
    for act in wrong {
        talker.say(vec![act]);
    }
    for reply in talker.replies(count).await {
        let v1::reply::Reply::Failed(failed) = reply else { panic!("{reply:?}") };
        assert_eq!(failed.code(), v1::failed::Code::Invalid, "{failed:?}");
    }
    assert_eq!(last_log().await, before, "nothing of it is in the log");
    talker.lock("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_command_that_settles_too_much_is_refused_and_the_connection_goes_on() {
    let (lines, wall) = (Lines::default(), Hand::default());
    let server = start(&lines, 1, 1, &MemoryDisk::default(), &wall).await;
    let mut talker = Talker::new(&lines, 1).await;
    talker.lock("a").await;
    talker.request += 5_000;
    let mut tell = async |acked: u64, settled: Vec<u64>| {
        talker.request += 1;
        let (session, request) = (talker.session, talker.request);
        let act = Some(Act::Renew(v1::Renew {}));
        let command = v1::Command { session, life: 1, request, acked, settled, act };
        talker.say.send(v1::ToServer { commands: vec![command] }).unwrap();
        match talker.replies(1).await.remove(0) {
            v1::reply::Reply::Failed(failed) => (failed.code() == v1::failed::Code::Invalid, failed.text),
            other => (false, format!("{other:?}")),
        }
    };
    let said = |text: &str| (true, text.to_owned());
    let last = 5_000;
    let done = || (false, format!("{:?}", v1::reply::Reply::Done(v1::Done {})));
    assert_eq!(tell(last, (1..=1_000).collect()).await, done());
    for count in [1_001, 4_000] {
        let refused = tell(last, (1..=count).collect()).await;
        assert_eq!(refused, said("a command names 1000 settled requests at the most"));
    }
    assert_eq!(tell(last, vec![last + 1]).await, said("a settled request is one below 'acked'"));
    assert_eq!(tell(last, vec![0]).await, said("a settled request is one below 'acked'"));
    assert_eq!(tell(1 << 40, vec![]).await, said("'acked' is at most the number of the request"));
    assert_eq!(tell(last, vec![1]).await, done());
    drop(server);
}

/// Everything that is asked without a session, each as one call.
async fn reads(call: impl Fn() -> conclave_wire::VersionedClient) -> Vec<Result<(), tonic::Status>> {
    vec![
        call().list(v1::ListRequest::default()).await.map(drop),
        call().show(v1::ShowRequest::default()).await.map(drop),
        call().show_session(v1::ShowSessionRequest::default()).await.map(drop),
        call().why(v1::WhyRequest::default()).await.map(drop),
        call().check(v1::CheckRequest::default()).await.map(drop),
        call().observe(v1::ObserveRequest::default()).await.map(drop),
        call().watch(v1::WatchRequest::default()).await.map(drop),
        call().status(v1::StatusRequest {}).await.map(drop),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_read_of_another_version_is_refused() {
    let (lines, wall) = (Lines::default(), Hand::default());
    let disks = [MemoryDisk::default(), MemoryDisk::default(), MemoryDisk::default()];
    let mut servers = Vec::new();
    for (id, disk) in (1..).zip(&disks) {
        servers.push(start(&lines, id, 3, disk, &wall).await);
    }
    for server in &servers {
        server.ready().await;
    }
    let next: tonic::metadata::AsciiMetadataValue = (PROTOCOL + 1).into();
    // Each node is asked, be it the leader or not.
    for node in 1..=3 {
        let address = lines.address(node);
        let channel = conclave_wire::channel(&lines.of(99), &address, Duration::from_secs(1)).unwrap();
        for answer in reads(|| conclave_wire::versioned(channel.clone())).await {
            answer.unwrap();
        }
        let foreign = || {
            ConclaveClient::with_interceptor(
                channel.clone(),
                (|mut call: tonic::Request<()>| {
                    let next = (PROTOCOL + 1).into();
                    call.metadata_mut().insert(conclave_wire::PROTOCOL_KEY, next);
                    Ok(call)
                }) as _,
            )
        };
        for answer in reads(foreign).await {
            let refused = answer.unwrap_err();
            assert_eq!(refused.code(), Code::FailedPrecondition);
            let due = format!(
                "speaks version {} of the protocol and the node version {PROTOCOL}",
                next.to_str().unwrap()
            );
            assert!(refused.message().contains(&due), "{refused}");
        }
        // The first version did not say so.
        let silent = || ConclaveClient::with_interceptor(channel.clone(), (|call| Ok(call)) as _);
        for answer in reads(silent).await {
            assert!(answer.unwrap_err().message().contains("speaks version 1 of"));
        }
    }
}

/// A node that is given an empty directory, then an old copy of one, and whose clock goes back at last.
#[tokio::test(start_paused = true)]
async fn tokens_do_not_start_over() {
    let (lines, wall) = (Lines::default(), Hand::default());
    let set = |millis: u64| wall.0.store(millis, Ordering::Relaxed);
    let day = 1_800_000_000_000;
    let mut disk = MemoryDisk::default();
    let mut copy = MemoryDisk::default();
    let mut tokens = Vec::new();
    let times = [day, day + 5, day + 5000, day + 9000, day - 3_600_000, u64::MAX];
    for (life, time) in times.into_iter().enumerate() {
        set(time);
        match life {
            2 => disk = MemoryDisk::default(),
            // It was made before the second life.
            3 => disk = copy.clone(),
            _ => {}
        }
        let server = start(&lines, 1, 1, &disk, &wall).await;
        let mut talker = Talker::new(&lines, 1).await;
        tokens.push(talker.lock(&format!("a-{life}")).await);
        tokens.push(talker.lock(&format!("b-{life}")).await);
        drop(talker);
        server.shutdown().await;
        if life == 0 {
            copy = copy_of(&disk).await;
        }
    }
    assert!(tokens.is_sorted_by(|one, next| one < next), "tokens went back: {tokens:?}");
    assert!(tokens.chunks(2).all(|pair| pair[1] == pair[0] + 1), "{tokens:?}");
    assert!(tokens[0] > Token::floor_at(Duration::from_millis(day)).unwrap());
    assert!(tokens.iter().all(|token| *token < 1 << 53));
}

async fn copy_of(disk: &MemoryDisk) -> MemoryDisk {
    let copy = MemoryDisk::default();
    for name in disk.list().await.unwrap() {
        copy.replace(&name, &disk.read(&name).await.unwrap()).await.unwrap();
    }
    copy
}

#[test]
fn that_tokens_do_not_start_over_is_tested() {
    assert_caught("server::tests::tokens_do_not_start_over", Mutant::ForgetsFloor, "tokens went back");
}

/// A holder dies, and the leader changes again and again, each time before the lease would have ended.
async fn a_lease_ends(in_good_order: bool) {
    const TTL_MS: u32 = 3_000;
    let (lines, wall) = (Lines::default(), Hand::default());
    let mut disks: BTreeMap<u64, MemoryDisk> = (1..=3).map(|id| (id, MemoryDisk::default())).collect();
    let mut servers = BTreeMap::new();
    for (&id, disk) in &disks {
        servers.insert(id, start(&lines, id, 3, disk, &wall).await);
    }
    let mut holder = Talker::with_ttl(&lines, leader_of(&servers).await, TTL_MS).await;
    holder.lock("a").await;
    drop(holder);
    // It leads for half of the time to live each time.
    for _ in 0..20 {
        let leader = leader_of(&servers).await;
        if holders_of(&lines, leader, "a").await == 0 {
            return;
        }
        sleep(Duration::from_millis((TTL_MS / 2).into())).await;
        let server = servers.remove(&leader).unwrap();
        if in_good_order {
            server.shutdown().await;
        } else {
            let crashed = disks[&leader].crash(7);
            disks.insert(leader, crashed);
            server.stop.cancel();
            server.consensus.shutdown().await;
            server.serving.abort();
        }
        servers.insert(leader, start(&lines, leader, 3, &disks[&leader], &wall).await);
    }
    panic!("the lease starts over with every leader");
}

async fn leader_of(servers: &BTreeMap<u64, Server>) -> u64 {
    let leader = eventually("a leader", || servers.values().find(leads).map(|it| it.consensus().status().id));
    leader.await
}

async fn holders_of(lines: &Lines, node: u64, name: &str) -> usize {
    let channel =
        conclave_wire::channel(&lines.of(99), &lines.address(node), Duration::from_secs(1)).unwrap();
    let asked = v1::ShowRequest { name: name.to_owned(), ..v1::ShowRequest::default() };
    let shown = conclave_wire::versioned(channel).show(asked).await.unwrap().into_inner();
    shown.holders.len()
}

#[tokio::test(start_paused = true)]
async fn a_lease_ends_though_the_lead_is_handed_over_again_and_again() {
    a_lease_ends(true).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_ends_though_leader_after_leader_crashes() {
    a_lease_ends(false).await;
}

#[test]
fn that_leases_do_not_start_over_is_tested() {
    for test in [
        "a_lease_ends_though_the_lead_is_handed_over_again_and_again",
        "a_lease_ends_though_leader_after_leader_crashes",
    ] {
        let says = "the lease starts over with every leader";
        assert_caught(&format!("server::tests::{test}"), Mutant::LeavesTimeUnwritten, says);
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_service_writes_little_and_without_leases_nothing() {
    let (lines, wall) = (Lines::default(), Hand::default());
    let server = start(&lines, 1, 1, &MemoryDisk::default(), &wall).await;
    server.ready().await;
    let written_in = async |time: Duration| {
        let before = server.consensus().status().last_log;
        sleep(time).await;
        server.consensus().status().last_log - before
    };
    sleep(Duration::from_secs(1)).await;
    assert_eq!(written_in(Duration::from_secs(60)).await, 0);
    let mut holder = Talker::new(&lines, 1).await;
    holder.lock("a").await;
    let written = written_in(Duration::from_secs(40)).await;
    assert!((30..=41).contains(&written), "{written} entries in 40 s");
    sleep(Duration::from_secs(30)).await;
    assert_eq!(holders_of(&lines, 1, "a").await, 0);
    assert_eq!(written_in(Duration::from_secs(60)).await, 0);
}

/// What a node says of the clocks of the others: which node, how many milliseconds ahead, how far that can be wrong.
async fn clocks(lines: &Lines, node: u64) -> Vec<(u64, i64, u64)> {
    let channel =
        conclave_wire::channel(&lines.of(99), &lines.address(node), Duration::from_secs(1)).unwrap();
    let answer = conclave_wire::versioned(channel).status(v1::StatusRequest {}).await;
    let clocks = answer.map_or_else(|_| Vec::new(), |answer| answer.into_inner().clocks);
    // Stamps count in quarters of a nanosecond, and offsets are halved.
    let ms = |nanos: i64| (nanos as f64 / 1e6).round() as i64;
    clocks.into_iter().map(|clock| (clock.node, ms(clock.ahead_ns), clock.error_ns / 1_000_000)).collect()
}

async fn until_clocks(lines: &Lines, node: u64, expected: &[(u64, i64, u64)]) {
    let known = async {
        while clocks(lines, node).await != expected {
            sleep(Duration::from_millis(100)).await;
        }
    };
    let came = timeout(Duration::from_secs(60), known).await;
    assert!(came.is_ok(), "node {node} says {:?}, not {expected:?}", clocks(lines, node).await);
}

/// Each node shows how far the clocks of the others are ahead of its own, whether one is set, and that one is gone. They are set by
/// hand, so that what is shown is exact.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_wrong_is_shown_and_changes_nothing() {
    let lines = Lines::default();
    let day: u64 = 1_800_000_000_000;
    let walls = [day, day + 500, day - 3_600_000].map(|now| Hand(Arc::new(AtomicU64::new(now))));
    let mut servers = Vec::new();
    for (id, wall) in (1..).zip(&walls) {
        servers.push(start(&lines, id, 3, &MemoryDisk::default(), wall).await);
    }
    eventually("a leader", || servers.iter().find(leads).map(drop)).await;
    until_clocks(&lines, 1, &[(2, 500, 0), (3, -3_600_000, 0)]).await;
    until_clocks(&lines, 2, &[(1, -500, 0), (3, -3_600_500, 0)]).await;
    until_clocks(&lines, 3, &[(1, 3_600_000, 0), (2, 3_600_500, 0)]).await;
    walls[2].0.store(day, Ordering::Relaxed);
    until_clocks(&lines, 1, &[(2, 500, 0), (3, 0, 0)]).await;
    Talker::new(&lines, 1).await.lock("a").await;
    servers.pop().expect("three of them").shutdown().await;
    until_clocks(&lines, 1, &[(2, 500, 0)]).await;
}
