//! How long it takes to make a batch of entries safe: with our log, and with an embedded store. `cargo bench -p conclave-server --bench log [-- DIR]`; the directory should be on a real disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_server::disk::Files;
use conclave_server::log::{Closed, Log, SEGMENT_BYTES};
use conclave_server::raft::{Entry, LeaderId, LogId, Payload, Types, Vote};
use openraft::EntryPayload;
use openraft::storage::{IOFlushed, RaftLogStorage as _};
use openraft::type_config::TypeConfigExt as _;
use rustix::time::{ClockId, clock_gettime};

/// Rounds of everybody in turn.
const ROUNDS: usize = 5;
/// Batches in a round.
const BATCHES: u64 = 500;
/// About what 64 clients have under way at once.
const RECORDS: u64 = 64;
const RECORD: [u8; 100] = [7; 100];

const TABLE: redb::TableDefinition<'_, u64, &[u8]> = redb::TableDefinition::new("log");

/// Something that keeps records.
enum Store {
    Ours(Log, Closed),
    Redb(redb::Database),
}

/// What a round took.
#[derive(Clone, Copy)]
struct Cost {
    /// For one batch.
    time: Duration,
    /// Of the processor, for one batch.
    work: Duration,
}

fn main() {
    let directory = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let directory = directory.map_or_else(|| PathBuf::from("."), PathBuf::from);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be built");
    runtime.block_on(compare(&directory));
}

async fn compare(directory: &Path) {
    let names = ["our log", "redb"];
    let places = names.map(|_| tempfile::tempdir_in(directory).expect("the directory can be written to"));
    let [first, second] = &places;
    let mut stores = [Store::ours(first.path()).await, Store::redb(second.path())];
    let mut costs = names.map(|_| Vec::new());
    for round in 0..ROUNDS as u64 {
        for (store, costs) in stores.iter_mut().zip(&mut costs) {
            costs.push(store.round(round * BATCHES).await);
        }
    }
    println!("{RECORDS} records of {} bytes in a batch, each safe before the next", RECORD.len());
    println!("medians of {ROUNDS} rounds of {BATCHES} batches, and the fastest and the slowest");
    for (name, costs) in names.iter().zip(&costs) {
        let [time, work] = [spread(costs, |cost| cost.time), spread(costs, |cost| cost.work)];
        println!("{name:7} {time} a batch, {work} of the processor");
    }
    for store in stores {
        store.close().await;
    }
}

fn spread(costs: &[Cost], of: impl Fn(&Cost) -> Duration) -> String {
    let mut micros: Vec<u128> = costs.iter().map(|cost| of(cost).as_micros()).collect();
    micros.sort_unstable();
    format!("{} µs ({}..{})", micros[micros.len() / 2], micros[0], micros[micros.len() - 1])
}

impl Store {
    async fn ours(directory: &Path) -> Self {
        let files = Files::open(directory).expect("nobody else uses it");
        let (mut log, closed) =
            Log::open(Arc::new(files), SEGMENT_BYTES, true).await.expect("it can be used");
        log.save_vote(&Vote::new_committed(1, 1)).await.expect("there is room");
        Self::Ours(log, closed)
    }

    fn redb(directory: &Path) -> Self {
        Self::Redb(redb::Database::create(directory.join("log.redb")).expect("it can be created"))
    }

    async fn round(&mut self, first: u64) -> Cost {
        let (began, worked) = (Instant::now(), processor());
        for batch in first..first + BATCHES {
            self.append(batch * RECORDS..(batch + 1) * RECORDS).await;
        }
        let each = |all: Duration| all / u32::try_from(BATCHES).expect("there are few");
        Cost { time: each(began.elapsed()), work: each(processor() - worked) }
    }

    /// Returns when the records are safe.
    async fn append(&mut self, indexes: std::ops::Range<u64>) {
        match self {
            Self::Ours(log, _) => {
                let entries: Vec<Entry> = indexes.map(entry).collect();
                let (flushed, safe) = Types::oneshot();
                log.append(entries, IOFlushed::signal(flushed)).await.expect("they are in order");
                safe.await.expect("the writer lives").expect("there is room");
            }
            Self::Redb(database) => {
                let transaction = database.begin_write().expect("nobody else writes");
                let mut table = transaction.open_table(TABLE).expect("there is one");
                for index in indexes {
                    table.insert(index, &RECORD[..]).expect("there is room");
                }
                drop(table);
                transaction.commit().expect("there is room");
            }
        }
    }

    async fn close(self) {
        if let Self::Ours(log, closed) = self {
            drop(log);
            closed.wait().await;
        }
    }
}

fn entry(index: u64) -> Entry {
    let log_id = LogId::new(LeaderId { term: 1, node_id: 1 }, index);
    Entry { log_id, payload: EntryPayload::Normal(Payload(RECORD.to_vec().into())) }
}

/// What this process has used of the processor so far.
fn processor() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
