//! One node's part in the agreement of all: what is proposed here becomes durable and decided, in one order everywhere.

mod errors;
pub mod presence;
pub(crate) mod watchdog;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use conclave_wire::Connector;
use conclave_wire::peer::peer_server::PeerServer;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::Fatal;
use openraft::impls::ProgressResponder;
use openraft::raft::ClientWriteResult;
use openraft::type_config::alias::OneshotReceiverOf;
use openraft::{Config, SnapshotPolicy};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::barrier::Barrier;
use crate::birth::{Gate, Newborn};
use crate::disk::silence::Silence;
use crate::disk::{Disk, StorageError};
use crate::handover::Handover;
use crate::identity::{Identity, Stage};
use crate::log::{Closed, Log, LogReader, ReadLog, SEGMENT_BYTES};
use crate::machine::{Machine, Shared, Sink};
use crate::network::{MESSAGE_BYTES, Peers, addressee};
use crate::outdated::{self, Memory};
pub use crate::peer::PeerService;
use crate::raft::{LeaderId, LogId, Payload, Raft, Types};
use crate::repair;
pub use errors::{Kept, Refused, Stale, StartError};
use presence::{Ear, Presence, Witness};
use watchdog::Watchdog;

/// How long a node that was elected waits before it asks again whether the others follow it.
const PAUSE: Duration = Duration::from_millis(10);

/// What a node needs.
pub struct Options {
    /// Its number.
    pub id: u64,
    /// All nodes, this one included, and where the others reach each.
    pub members: BTreeMap<u64, String>,
    /// Where it keeps what it must not forget.
    pub disk: Arc<dyn Disk>,
    /// How it reaches the others.
    pub transport: Connector,
    /// How fast it notices that somebody is gone.
    pub timing: Timing,
    /// When it forgets the beginning of its log.
    pub compaction: Compaction,
    /// Who is told what happens.
    pub sink: Arc<dyn Sink>,
}

/// How fast a node notices that somebody is gone.
///
/// After its leader's last word a node waits for `election_max`, in which it would not vote for anybody else either, and
/// then for `election_min`, before it stands for election; the next node stands a little later. If that leads to nothing they
/// stand at random times. A leader whose process has ended is replaced at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How often a leader shows that it is there.
    pub heartbeat: Duration,
    /// See above.
    pub election_min: Duration,
    /// See above.
    pub election_max: Duration,
}

/// What goes wrong with times that do not go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// Heartbeats come too often for any network.
    #[error("a heartbeat every {0:?} is too often: {LEAST_HEARTBEAT:?} at least")]
    Heartbeat(Duration),
    /// A single heartbeat that is late would be an election.
    #[error(
        "an election timeout of {election:?} is too short for a heartbeat every {heartbeat:?}: it is three times as long \
             at least"
    )]
    Short {
        /// The election timeout.
        election: Duration,
        /// The time between heartbeats.
        heartbeat: Duration,
    },
    /// Nobody would be served for minutes.
    #[error("an election timeout of {0:?} is too long: {MOST_ELECTION:?} at most")]
    Long(Duration),
}

/// Shorter than this nothing is heard in time on any network.
const LEAST_HEARTBEAT: Duration = Duration::from_millis(10);
/// The longest election timeout.
const MOST_ELECTION: Duration = Duration::from_secs(60);

impl Timing {
    /// A leader that shows every `heartbeat` that it is there, and is given up after about one and a half times `election`.
    ///
    /// # Errors
    /// If they do not go together.
    pub fn of(heartbeat: Duration, election: Duration) -> Result<Self, TimingError> {
        if heartbeat < LEAST_HEARTBEAT {
            return Err(TimingError::Heartbeat(heartbeat));
        }
        if election < heartbeat * 3 {
            return Err(TimingError::Short { election, heartbeat });
        }
        if election > MOST_ELECTION {
            return Err(TimingError::Long(election));
        }
        Ok(Self { heartbeat, election_min: election * 3 / 8, election_max: election })
    }
}

impl Default for Timing {
    /// Without its leader for less than a second, and not troubled by half a second of silence.
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(100),
            election_min: Duration::from_millis(150),
            election_max: Duration::from_millis(400),
        }
    }
}

/// When a node makes a snapshot and forgets the log before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// After so many entries,
    pub entries: u64,
    /// or when the log takes so much memory.
    pub bytes: u64,
    /// How many entries to keep all the same, for nodes that are a little behind.
    pub keep: u64,
    /// How large the files of the log are.
    pub segment_bytes: u64,
}

impl Compaction {
    /// Whenever the log has grown by so many bytes, which take a few files.
    #[must_use]
    pub fn after(bytes: u64) -> Self {
        let keep = (bytes >> 16).min(Self::default().keep);
        Self { bytes, keep, segment_bytes: (bytes / 4).min(SEGMENT_BYTES), ..Self::default() }
    }
}

impl Default for Compaction {
    fn default() -> Self {
        Self { entries: 50_000, bytes: 64 << 20, keep: 1_000, segment_bytes: SEGMENT_BYTES }
    }
}

/// Who leads, as far as this node knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Which node.
    pub id: u64,
    /// Since which election.
    pub term: u64,
    /// Whether that is this node. Then its state has everything that was decided before.
    pub is_me: bool,
}

/// How a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its number.
    pub id: u64,
    /// Who leads, if that node serves.
    pub leader: Option<u64>,
    /// Since which election.
    pub term: u64,
    /// How it stands among the others.
    pub presence: Presence,
    /// The last entry it has.
    pub last_log: u64,
    /// The last entry it has applied.
    pub applied: u64,
    /// The last entry in a snapshot.
    pub snapshot: u64,
    /// The last entry that is in a snapshot only.
    pub purged: u64,
    /// Whether it takes part, rather than finds out first what it missed.
    pub settled: bool,
    /// For how long its disk has not answered, if it hangs.
    pub disk_hangs: Option<Duration>,
    /// Why it has stopped, if it has.
    pub stopped: Option<String>,
    /// All nodes.
    pub members: BTreeMap<u64, String>,
}

/// A batch that was accepted, to be decided. Resolves to its place in the log when it was applied here.
#[derive(Debug)]
pub struct Proposal(OneshotReceiverOf<Types, ClientWriteResult<Types>>);

impl Future for Proposal {
    type Output = Result<u64, Refused>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|answered| match answered {
            Ok(Ok(response)) => Ok(response.log_id.index),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(Refused::Stopped("it was shut down".to_owned())),
        })
    }
}

/// One node's part in the agreement of all.
pub struct Consensus {
    id: u64,
    members: BTreeMap<u64, String>,
    raft: Raft,
    gate: Arc<Gate>,
    barrier: Arc<Barrier>,
    handover: Handover,
    state: Shared,
    leader: watch::Receiver<Option<Leader>>,
    witness: Arc<Witness>,
    watchdog: Arc<Watchdog>,
    memory: Arc<Memory>,
    presence: watch::Receiver<Presence>,
    closed: Mutex<Option<Closed>>,
    /// Stopped with the node.
    tasks: Mutex<JoinSet<()>>,
}

impl Consensus {
    /// Starts a node with what it has on disk, or with nothing. A node that begins with nothing takes part as soon as
    /// it has found out whether the cluster is new; for that the others have to reach its [`Self::peer_service`].
    ///
    /// # Errors
    /// If the disk cannot be used; then nothing on it has been changed.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let Options { id, members, disk, transport, timing, compaction, sink } = options;
        if !members.contains_key(&id) {
            return Err(StartError::NotAMember(id));
        }
        let config = config(timing, compaction).validate()?;
        let life = getrandom::u64()?;
        repair::is_finished(&disk).await?;
        outdated::is_current(&disk).await?;
        let identity = Identity::check(Arc::clone(&disk), id, members.clone()).await?;
        let may_be_new = identity.stage != Stage::Settled;
        let log = Log::read(Arc::clone(&disk), may_be_new).await?;
        let machine = Machine::open(Arc::clone(&disk), log.reader(), sink).await?;
        is_whole(&disk, &identity, &log, machine.applied())?;
        let silence = Arc::new(Silence::new(watchdog::patience(timing)));
        let (log, closed) = log.open(compaction.segment_bytes, Arc::clone(&silence)).await?;
        let identity = claim(&disk, identity).await?;
        let settled = identity.stage == Stage::Settled;
        // A node that is not settled must not stand for election.
        let config = Arc::new(Config { enable_elect: settled, ..config });
        let reader = log.reader();
        let state = machine.shared();
        let peers = || Peers::new(id, &members, Arc::clone(&transport), timing.election_max);
        let gate = Arc::new(Gate::new(settled, life, silence));
        let memory = Arc::new(Memory::new(reader.clone(), Arc::clone(&gate), Arc::clone(&disk)));
        let network = peers().behind(Arc::clone(&gate));
        let raft = Raft::new(id, config, network, log, machine).await.map_err(StartError::Unusable)?;

        let mut tasks = JoinSet::new();
        if !settled {
            let (raft, gate) = (raft.clone(), Arc::clone(&gate));
            let newborn = Newborn { raft, gate, identity, peers: peers(), patience: timing.election_max };
            tasks.spawn(newborn.settle());
        }
        let barrier = Arc::new(Barrier::new(raft.clone(), &peers(), timing.election_max, &mut tasks));
        let (announce, leader) = watch::channel(None);
        let ear = Arc::new(Ear::default());
        tasks.spawn(announce_leader(raft.clone(), Arc::clone(&barrier), ear.followed(), announce));
        let witness = Arc::new(Witness {
            me: id,
            members: members.clone(),
            timing,
            raft: raft.clone(),
            gate: Arc::clone(&gate),
            ear,
            elected: leader.clone(),
            answers: presence::Answers::default(),
        });
        let (tell, presence) = watch::channel(witness.presence());
        tasks.spawn(Arc::clone(&witness).tell(tell));
        for other in members.keys().filter(|other| **other != id) {
            tasks.spawn(Arc::clone(&witness).ask_often(*other, Arc::clone(&transport)));
        }
        let watchdog = Arc::new(Watchdog {
            me: id,
            members: members.clone(),
            timing,
            raft: raft.clone(),
            gate: Arc::clone(&gate),
            ear: Arc::clone(&witness.ear),
            elected: leader.clone(),
            transport: Arc::clone(&transport),
            peers: peers(),
        });
        if members.len() > 1 {
            tasks.spawn(Arc::clone(&watchdog).watch());
            tasks.spawn(Arc::clone(&watchdog).stand_when_silent());
        }
        tasks.spawn(compact(raft.clone(), reader, compaction.bytes));
        let handover = Handover {
            id,
            raft: raft.clone(),
            leader: leader.clone(),
            timing,
            peers: Arc::new(peers()),
            under_way: Arc::default(),
        };
        if members.len() > 1 {
            tasks.spawn(handover.clone().when_the_disk_hangs(Arc::clone(&gate)));
        }
        let (closed, tasks) = (Mutex::new(Some(closed)), Mutex::new(tasks));
        Ok(Self {
            id,
            members,
            raft,
            gate,
            barrier,
            handover,
            state,
            leader,
            witness,
            watchdog,
            memory,
            presence,
            closed,
            tasks,
        })
    }

    /// Proposes a batch, encoded, as the leader of a term. Returns as soon as its place behind the batches proposed
    /// before is certain; more can be proposed while it is being decided.
    ///
    /// # Errors
    /// If the node has stopped. Every other reason arrives through the proposal.
    pub async fn propose(&self, term: u64, batch: Bytes) -> Result<Proposal, Refused> {
        let (responder, answer) = ProgressResponder::complete_only();
        let leader = LeaderId { term, node_id: self.id };
        let write = self.raft.write(Payload(batch)).with_leader(leader).responder(responder);
        write.await.map_err(|fatal| Refused::Stopped(fatal.to_string()))?;
        Ok(Proposal(answer))
    }

    /// Who leads, now and whenever that changes.
    #[must_use]
    pub fn leader(&self) -> watch::Receiver<Option<Leader>> {
        self.leader.clone()
    }

    /// How this node stands among the others, now and whenever that changes. Unlike [`Self::leader`], which is about the
    /// last election, this is about who has been heard lately.
    #[must_use]
    pub fn presence(&self) -> watch::Receiver<Presence> {
        self.presence.clone()
    }

    /// Whether a leader was heard lately: this node by a majority, another one by this node.
    #[must_use]
    pub fn hears(&self, leader: Leader) -> bool {
        self.witness.hears(leader)
    }

    /// The state of the service here.
    #[must_use]
    pub fn state(&self) -> &Shared {
        &self.state
    }

    /// Returns when the state here contains everything that was decided before the call.
    ///
    /// # Errors
    /// If this node does not lead, or cannot make sure that it still does.
    pub async fn read_barrier(&self) -> Result<(), Stale> {
        self.barrier.pass().await
    }

    /// What answers the other nodes.
    #[must_use]
    pub fn peer_service(&self) -> PeerServer<PeerService> {
        let service = PeerService {
            raft: self.raft.clone(),
            gate: Arc::clone(&self.gate),
            handover: self.handover.clone(),
            ear: Arc::clone(&self.witness.ear),
            watchdog: Arc::clone(&self.watchdog),
            memory: Arc::clone(&self.memory),
            addressee: addressee(&self.members, self.id),
        };
        PeerServer::new(service)
            .max_decoding_message_size(MESSAGE_BYTES)
            .max_encoding_message_size(MESSAGE_BYTES)
    }

    /// How this node is.
    #[must_use]
    pub fn status(&self) -> Status {
        // Before the metrics are borrowed: it borrows them, too.
        let presence = self.witness.presence();
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        Status {
            id: self.id,
            leader: presence.condition.leader(self.id),
            term: metrics.current_term,
            presence,
            last_log: metrics.last_log_index.unwrap_or(0),
            applied: metrics.last_applied.map_or(0, |id| id.index),
            snapshot: metrics.snapshot.map_or(0, |id| id.index),
            purged: metrics.purged.map_or(0, |id| id.index),
            settled: self.gate.is_open(),
            disk_hangs: self.gate.disk_hangs(),
            stopped: metrics.running_state.as_ref().err().map(ToString::to_string),
            members: self.members.clone(),
        }
    }

    /// Returns when the node cannot go on, and says why: its disk failed or is too old, or it was shut down.
    pub async fn failure(&self) -> String {
        tokio::select! {
            biased;
            why = self.stopped() => why,
            why = self.memory.forgotten() => why,
        }
    }

    async fn stopped(&self) -> String {
        let mut metrics = self.raft.metrics();
        loop {
            let state = metrics.borrow_watched().running_state.clone();
            match state {
                Err(fatal) => return fatal.to_string(),
                Ok(()) if metrics.changed().await.is_err() => return "it was shut down".to_owned(),
                Ok(()) => {}
            }
        }
    }

    /// Makes another node the leader: the one that has most, of those that answer and take part.
    ///
    /// # Errors
    /// If this node does not lead, or no other takes over. Then it goes on leading.
    pub async fn hand_over(&self) -> Result<u64, Kept> {
        self.handover.to_settled().await
    }

    #[cfg(test)]
    pub(crate) fn handover(&self) -> &Handover {
        &self.handover
    }

    /// Makes a snapshot now.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn compact(&self) -> Result<(), Fatal<Types>> {
        self.raft.trigger().snapshot().await
    }

    /// Stops the node; returns when nothing uses the disk any more.
    pub async fn shutdown(&self) {
        self.tasks.lock().await.shutdown().await;
        if let Err(error) = self.raft.shutdown().await {
            tracing::warn!(%error, "the node did not stop as it should");
        }
        if let Some(closed) = self.closed.lock().await.take() {
            closed.wait().await;
        }
    }
}

/// Makes sure that what belongs together is there: a log is written only when the disk says whose it is, and its
/// beginning is forgotten only when there is a snapshot of it.
pub(crate) fn is_whole(
    disk: &Arc<dyn Disk>,
    identity: &Identity,
    log: &ReadLog,
    applied: Option<LogId>,
) -> Result<(), StorageError> {
    if !identity.is_noted && !log.is_pristine() {
        return Err(StorageError::Missing { place: disk.place("identity") });
    }
    if log.purged().map(|id| id.index) > applied.map(|id| id.index) {
        return Err(StorageError::Missing { place: disk.place("snapshot-*") });
    }
    Ok(())
}

/// Makes the disk say whose it is.
async fn claim(disk: &Arc<dyn Disk>, identity: Identity) -> Result<Identity, StorageError> {
    // A node with a full disk must be able to start.
    if !identity.is_noted {
        let noted = identity.note(identity.stage).await;
        noted.map_err(|error| StorageError::Io { place: disk.place("identity"), error })?;
    }
    Ok(identity)
}

fn config(timing: Timing, compaction: Compaction) -> Config {
    let millis = |time: Duration| time.as_millis() as u64;
    Config {
        cluster_name: "conclave".to_owned(),
        heartbeat_interval: millis(timing.heartbeat),
        election_timeout_min: millis(timing.election_min),
        election_timeout_max: millis(timing.election_max),
        enable_pre_vote: Some(true),
        // The state is in memory, so that a leader that starts again has first to learn what was decided.
        enable_leader_restore: Some(false),
        broadcast_submitted_on_append: Some(true),
        snapshot_policy: SnapshotPolicy::LogsSinceLast(compaction.entries),
        max_in_snapshot_log_to_keep: compaction.keep,
        replication_lag_threshold: compaction.entries.saturating_mul(2),
        install_snapshot_timeout: 10_000,
        ..Config::default()
    }
}

/// Says who leads. This node does so only once its state is complete and others follow: before that it could neither
/// answer nor accept anything.
///
/// While its disk hangs the library follows nobody new. Who speaks as a leader of a later election leads all the same, and
/// clients are passed on to that one.
async fn announce_leader(
    raft: Raft,
    barrier: Arc<Barrier>,
    mut followed: watch::Receiver<Option<LeaderId>>,
    announce: watch::Sender<Option<Leader>>,
) {
    let mut metrics = raft.server_metrics();
    let me = *raft.node_id();
    let say = |leader| announce.send_if_modified(|known| std::mem::replace(known, leader) != leader);
    loop {
        let leader = {
            let metrics = metrics.borrow_and_update();
            let known = metrics.vote.leader_id;
            match *followed.borrow_and_update() {
                Some(later) if later > known => Some(later),
                _ => metrics.current_leader.map(|node_id| LeaderId { node_id, ..known }),
            }
        };
        let leader = leader.map(|id| Leader { id: id.node_id, term: id.term, is_me: id.node_id == me });
        let is_known = *announce.borrow() == leader;
        let is_ready = is_known || leader.is_none_or(|leader| !leader.is_me);
        say(if is_ready { leader } else { None });
        let goes_on = tokio::select! {
            biased;
            changed = metrics.changed() => changed.is_ok(),
            changed = followed.changed() => changed.is_ok(),
            fresh = barrier.pass(), if !is_ready => {
                if fresh.is_err() {
                    sleep(PAUSE).await;
                    continue;
                }
                say(leader);
                true
            }
        };
        if !goes_on {
            return;
        }
    }
}

/// Keeps the log from taking more memory than it may. The library counts entries, but they can be large.
async fn compact(raft: Raft, log: LogReader, most: u64) {
    let mut ticks = interval(Duration::from_millis(250));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut newest, mut covered, mut asked) = (None, 0, false);
    loop {
        ticks.tick().await;
        let snapshot = raft.metrics().borrow_watched().snapshot;
        if snapshot != newest {
            (newest, covered, asked) = (snapshot, log.appended(), false);
        }
        if !asked && log.appended() - covered > most {
            asked = true;
            if raft.trigger().snapshot().await.is_err() {
                return;
            }
        }
    }
}
