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
#[derive(Clone, Default)]
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
    /// Begins with the newest snapshot, or with nothing.
    ///
    /// # Errors
    /// If that snapshot is damaged or cannot be read.
    pub async fn open(disk: Arc<dyn Disk>, sink: Arc<dyn Sink>) -> Result<Self, StorageError> {
        let snapshots = Snapshots::new(disk);
        let applied = match snapshots.newest().await? {
            Some(Snapshot { meta, snapshot }) => Applied::decode(&meta, &snapshot)
                .map_err(|error| StorageError::Io { place: "the newest snapshot".to_owned(), error })?,
            None => Applied { state: blank(), ..Applied::default() },
        };
        if let Some(last) = applied.last {
            sink.replaced(last.index, &applied.state);
        }
        let shared = Shared(Arc::new(RwLock::new(applied)));
        Ok(Self { shared, snapshots, sink, outcome: Outcome::default() })
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
        let id = entry.log_id;
        // Decoded before the lock is taken: that is most of the work.
        let batch = match &entry.payload {
            EntryPayload::Normal(payload) => Some(decode_batch(id, payload)?),
            EntryPayload::Blank | EntryPayload::Membership(_) => None,
        };
        let mut applied = self.shared.write();
        applied.last = Some(id);
        if let EntryPayload::Membership(membership) = entry.payload {
            applied.membership = StoredMembership::new(Some(id), membership);
        }
        if let Some(batch) = batch {
            applied.state.apply(&batch, &mut self.outcome);
            self.sink.applied(id.index, &mut self.outcome, &applied.state);
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

fn decode_batch(id: LogId, payload: &Payload) -> io::Result<Batch> {
    postcard::from_bytes(&payload.0).map_err(|error| {
        let text = format!("entry {id} is no batch of commands that this version can read: {error}");
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}

impl Applied {
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
        Builder { shared: self.shared.clone(), snapshots: self.snapshots.clone() }
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
        *applied = fresh;
        if let Some(last) = applied.last {
            self.sink.replaced(last.index, &applied.state);
        }
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        Ok(self.snapshots.newest().await?)
    }
}

/// Makes a snapshot while the machine goes on.
///
/// The state is copied with the machine stopped, which takes about a millisecond per few thousand sessions; encoding and
/// writing, which take longer, happen elsewhere.
#[derive(Clone)]
pub struct Builder {
    shared: Shared,
    snapshots: Snapshots,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl RaftSnapshotBuilder<Types> for Builder {
    type SnapshotData = Bytes;

    async fn build_snapshot(&mut self) -> Result<Snapshot, io::Error> {
        let applied = self.shared.read().clone();
        self.snapshots.keep(move || applied.encode()).await
    }
}
