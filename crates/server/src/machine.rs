//! The replicated state machine: applies what was decided, and keeps snapshots of what came out.
//!
//! It lives in memory; on disk there are snapshots, and the log since the last one.

use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use conclave_service::{Batch, Outcome, State};
use futures_util::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};

use crate::disk::{Disk, StorageError};
use crate::log::LogReader;
use crate::raft::{Entry, LogId, Payload, Snapshot, SnapshotMeta, StoredMembership, Types};
use crate::snapshots::Snapshots;

/// Who is told what each batch caused. Called on every node, in the order of the log, and with the state locked: so
/// whatever is done here must be cheap.
pub trait Sink: Send + Sync + 'static {
    /// A batch was applied. The outcome may be emptied; it is used again for the next one.
    fn applied(&self, index: u64, outcome: &mut Outcome, state: &State);
    /// The state was replaced by a newer one, and nobody knows what happened in between.
    fn replaced(&self, index: u64, state: &State);
}

/// The state, to be read by many.
#[derive(Clone)]
pub struct Shared(Arc<RwLock<Applied>>);

/// The state, and how it came about.
#[derive(Default)]
struct Applied {
    state: State,
    last: Option<LogId>,
    membership: StoredMembership,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shared").field(&self.read().last).finish()
    }
}

impl Shared {
    /// Looks at the state. Whoever looks long keeps the node from going on.
    pub fn look<T>(&self, at: impl FnOnce(&State) -> T) -> T {
        at(&self.read().state)
    }

    fn read(&self) -> RwLockReadGuard<'_, Applied> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Applied> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state machine, as the consensus library sees it.
pub struct Machine {
    shared: Shared,
    snapshots: Snapshots,
    log: LogReader,
    sink: Arc<dyn Sink>,
    /// Used again and again.
    outcome: Outcome,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl Machine {
    /// Begins with the newest snapshot, or with nothing. What is applied later stands in the log until a snapshot has it.
    ///
    /// # Errors
    /// If that snapshot is damaged or cannot be read.
    pub async fn open(
        disk: Arc<dyn Disk>,
        log: LogReader,
        sink: Arc<dyn Sink>,
    ) -> Result<Self, StorageError> {
        let snapshots = Snapshots::new(disk);
        let applied = match snapshots.newest().await? {
            Some(Snapshot { meta, snapshot }) => Applied::decode(&meta, &snapshot)
                .map_err(|error| StorageError::Io { place: "the newest snapshot".to_owned(), error })?,
            None => Applied::blank(),
        };
        if let Some(last) = applied.last {
            sink.replaced(last.index, &applied.state);
        }
        let shared = Shared(Arc::new(RwLock::new(applied)));
        Ok(Self { shared, snapshots, log, sink, outcome: Outcome::default() })
    }

    /// The last entry that is in the state.
    pub(crate) fn applied(&self) -> Option<LogId> {
        self.shared.read().last
    }

    /// The state, to be read.
    #[must_use]
    pub fn shared(&self) -> Shared {
        self.shared.clone()
    }

    fn apply_one(&mut self, entry: Entry) -> io::Result<()> {
        let index = entry.log_id.index;
        // Decoded before the lock is taken: that is most of the work.
        let batch = batch_of(&entry)?;
        let mut applied = self.shared.write();
        applied.take(entry, batch.as_ref(), &mut self.outcome);
        if batch.is_some() {
            self.sink.applied(index, &mut self.outcome, &applied.state);
        }
        Ok(())
    }
}

/// The state before the first batch.
fn blank() -> State {
    #[cfg(feature = "mutants")]
    if let Some(crate::mutant::Mutant::Faulty(fault)) = crate::mutant::chosen() {
        return State::with_fault(fault);
    }
    State::default()
}

fn batch_of(entry: &Entry) -> io::Result<Option<Batch>> {
    match &entry.payload {
        EntryPayload::Normal(payload) => decode_batch(entry.log_id, payload).map(Some),
        EntryPayload::Blank | EntryPayload::Membership(_) => Ok(None),
    }
}

fn decode_batch(id: LogId, payload: &Payload) -> io::Result<Batch> {
    postcard::from_bytes(&payload.0).map_err(|error| {
        let text = format!("entry {id} is no batch of commands that this version can read: {error}");
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}

impl Applied {
    /// Before the first entry.
    fn blank() -> Self {
        Self { state: blank(), ..Self::default() }
    }

    /// Takes an entry in, and the batch that is in it.
    fn take(&mut self, entry: Entry, batch: Option<&Batch>, outcome: &mut Outcome) {
        let id = entry.log_id;
        self.last = Some(id);
        if let EntryPayload::Membership(membership) = entry.payload {
            self.membership = StoredMembership::new(Some(id), membership);
        }
        if let Some(batch) = batch {
            self.state.apply(batch, outcome);
        }
    }

    fn next(&self) -> u64 {
        self.last.map_or(0, |id| id.index + 1)
    }

    /// Takes in what the log says, up to an entry.
    fn read_on(&mut self, log: &LogReader, upto: LogId) -> io::Result<()> {
        let mut outcome = Outcome::default();
        while self.next() <= upto.index {
            let some = log.some_entries(self.next()..=upto.index);
            if some.first().is_none_or(|first| first.log_id.index != self.next()) {
                return Err(io::ErrorKind::NotFound.into());
            }
            for entry in some {
                let batch = batch_of(&entry)?;
                self.take(entry, batch.as_ref(), &mut outcome);
            }
        }
        Ok(())
    }

    fn decode(meta: &SnapshotMeta, state: &[u8]) -> io::Result<Self> {
        let state = postcard::from_bytes(state).map_err(|error| {
            let text = format!("the snapshot is no state that this version can read: {error}");
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        Ok(Self { state, last: meta.last_log_id, membership: meta.last_membership.clone() })
    }

    fn encode(self) -> io::Result<Snapshot> {
        let state = postcard::to_stdvec(&self.state).map_err(io::Error::other)?;
        let meta = SnapshotMeta { last_log_id: self.last, last_membership: self.membership };
        Ok(Snapshot { meta, snapshot: state.into() })
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = Bytes;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        let applied = self.shared.read();
        Ok((applied.last, applied.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> Result<(), io::Error>
    where
        Strm: Stream<Item = Result<EntryResponder<Types>, io::Error>> + Unpin + OptionalSend,
    {
        while let Some(entry) = entries.next().await {
            let (entry, responder) = entry?;
            self.apply_one(entry)?;
            if let Some(responder) = responder {
                responder.send(());
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        Builder { shared: self.shared.clone(), snapshots: self.snapshots.clone(), log: self.log.clone() }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, state: Bytes) -> Result<(), io::Error> {
        let meta = meta.clone();
        let (sender, decoded) = tokio::sync::oneshot::channel();
        self.snapshots
            .keep(move || {
                // The receiver waits below.
                let _ = sender.send(Applied::decode(&meta, &state)?);
                Ok(Snapshot { meta, snapshot: state })
            })
            .await?;
        let fresh = decoded.await.map_err(io::Error::other)?;
        let mut applied = self.shared.write();
        let former = std::mem::replace(&mut *applied, fresh);
        if let Some(last) = applied.last {
            self.sink.replaced(last.index, &applied.state);
        }
        drop(applied);
        // To take a large state apart takes its time, too.
        self.snapshots.discard(former)
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        Ok(self.snapshots.newest().await?)
    }
}

/// Makes a snapshot while the machine goes on.
///
/// The state of the machine is not copied: that would stop the node for as long as it is large. The last snapshot is read
/// again instead, and what the log says since is applied to it, all of it where work on the disk is done.
#[derive(Clone)]
pub struct Builder {
    shared: Shared,
    snapshots: Snapshots,
    log: LogReader,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl Builder {
    /// Goes on from the last snapshot up to an entry, unless that snapshot has it.
    async fn build(&self, upto: Option<LogId>) -> io::Result<Snapshot> {
        let log = self.log.clone();
        let make = move |newest: Option<Snapshot>| {
            let mut applied = match &newest {
                Some(Snapshot { meta, snapshot }) => Applied::decode(meta, snapshot)?,
                None => Applied::blank(),
            };
            match (upto, newest) {
                (Some(upto), _) if applied.next() <= upto.index => applied.read_on(&log, upto)?,
                (_, Some(newest)) => return Ok(newest),
                (_, None) => {}
            }
            applied.encode()
        };
        self.snapshots.go_on(make).await
    }
}

impl RaftSnapshotBuilder<Types> for Builder {
    type SnapshotData = Bytes;

    async fn build_snapshot(&mut self) -> Result<Snapshot, io::Error> {
        let upto = self.shared.read().last;
        match self.build(upto).await {
            // While it was being made, a newer one arrived from the leader, and the log before that one went.
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.build(upto).await,
            built => built,
        }
    }
}

#[cfg(test)]
mod tests {
    use conclave_service::{Act, Command, Life, Owner, RequestId, SessionId};

    use super::*;
    use crate::disk::MemoryDisk;
    use crate::raft::LeaderId;

    struct Deaf;

    impl Sink for Deaf {
        fn applied(&self, _index: u64, _outcome: &mut Outcome, _state: &State) {}

        fn replaced(&self, _index: u64, _state: &State) {}
    }

    /// An entry that opens a session.
    fn entry(index: u64) -> Entry {
        let act = Act::Open {
            ttl_ms: 60_000,
            owner: Owner::default(),
            ends_with_connection: false,
            reopens: false,
        };
        let (session, life, request) = (SessionId(index + 1), Life(1), RequestId(1));
        let command = Command { session, life, request, acked: request, settled: Vec::new(), act };
        let batch = Batch { now: index, commands: vec![command], floor: 0 };
        let payload = EntryPayload::Normal(Payload(postcard::to_stdvec(&batch).unwrap().into()));
        Entry { log_id: LogId::new(LeaderId { term: 1, node_id: 1 }, index), payload }
    }

    /// A machine that has applied so many entries, and the log that they are in.
    async fn machine(count: u64) -> (MemoryDisk, Machine, LogReader) {
        let (disk, log) = (MemoryDisk::default(), LogReader::default());
        let mut machine = Machine::open(Arc::new(disk.clone()), log.clone(), Arc::new(Deaf)).await.unwrap();
        for index in 0..count {
            log.learn(entry(index));
            machine.apply_one(entry(index)).unwrap();
        }
        (disk, machine, log)
    }

    async fn built(machine: &mut Machine) -> io::Result<Snapshot> {
        machine.get_snapshot_builder().await.build_snapshot().await
    }

    fn sessions(snapshot: &Snapshot) -> u64 {
        Applied::decode(&snapshot.meta, &snapshot.snapshot).unwrap().state.totals().sessions
    }

    #[tokio::test]
    async fn a_snapshot_goes_on_from_the_last_one_with_what_the_log_says() {
        let (disk, mut machine, log) = machine(700).await;
        let first = built(&mut machine).await.unwrap();
        assert_eq!(Applied::decode(&first.meta, &first.snapshot).unwrap().state, machine.shared.read().state);
        log.forget(first.meta.last_log_id.unwrap());
        for index in 700..705 {
            log.learn(entry(index));
            machine.apply_one(entry(index)).unwrap();
        }
        let second = built(&mut machine).await.unwrap();
        assert_eq!((sessions(&first), sessions(&second)), (700, 705));
        assert_eq!(second.meta.last_log_id, machine.applied());
        let again = Machine::open(Arc::new(disk), log, Arc::new(Deaf)).await.unwrap();
        assert_eq!(again.shared.read().state, machine.shared.read().state);
    }

    /// A copy of the state would stop the node for as long as it takes.
    #[tokio::test]
    async fn a_snapshot_is_made_of_the_log_and_not_of_the_state_in_use() {
        let (_disk, mut machine, _log) = machine(10).await;
        machine.shared.write().state = State::default();
        assert_eq!(sessions(&built(&mut machine).await.unwrap()), 10);
    }

    #[tokio::test]
    async fn a_log_that_does_not_reach_back_makes_no_snapshot_and_a_newer_one_is_enough() {
        let (disk, mut machine, log) = machine(20).await;
        log.forget(entry(9).log_id);
        let error = built(&mut machine).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        // A newer one has come from the leader.
        let (_, mut leader, _) = self::machine(30).await;
        let newer = built(&mut leader).await.unwrap();
        let kept = newer.clone();
        Snapshots::new(Arc::new(disk)).keep(move || Ok(kept)).await.unwrap();
        assert_eq!(built(&mut machine).await.unwrap().meta, newer.meta);
    }
}
