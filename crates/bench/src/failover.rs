//! How long nobody is served after the leader was killed, or fell silent.
//!
//! A few clients take and release names of their own without pause. The leader is killed without warning, or stopped: then its
//! connections stay, and nobody says anything on them, as if its cable had been pulled. The time that counts ends with the
//! first cycle that began after that and was completed, whoever's it was. Then the node starts again, and the next time waits
//! until all nodes are well and the load flows.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::BenchError;
use crate::cluster::{Cluster, ClusterError, Plan};
use crate::histogram::Histogram;
use crate::target::{Client, Target, TargetError};

/// How long a client that failed waits before it tries the next endpoint.
const RETRY: Duration = Duration::from_millis(20);
/// How long a cluster may take to be well, or to serve again.
const PATIENCE: Duration = Duration::from_secs(60);

/// What becomes of a leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Fate {
    /// Its process is killed: connections break, and nobody listens any more.
    #[default]
    Killed,
    /// Its process is stopped: connections stay, and nothing is heard of it.
    Silent,
}

/// How to go about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failover {
    /// How many clients load the cluster.
    pub clients: usize,
    /// How often the leader is killed.
    pub kills: usize,
    /// How long the load flows undisturbed before each kill.
    pub calm: Duration,
    /// How long a client waits for a cycle before it tries another endpoint, more or less: clients differ, so that they do not all give up at once.
    pub give_up_after: Duration,
    /// How long sessions outlive their clients.
    pub ttl: Duration,
    /// What becomes of the leader.
    pub fate: Fate,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outages {
    /// Each of them, in order, in milliseconds.
    pub each_ms: Vec<f64>,
    /// Half of them were not longer.
    pub median_ms: f64,
    /// Nine in ten were not longer.
    pub p90_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

impl Outages {
    /// The figures of some outages.
    pub fn of(outages: &[Duration]) -> Self {
        let mut histogram = Histogram::default();
        outages.iter().for_each(|outage| histogram.record(*outage));
        let ms = |duration: Duration| duration.as_secs_f64() * 1000.0;
        Self {
            each_ms: outages.iter().copied().map(ms).collect(),
            median_ms: ms(histogram.quantile(0.5)),
            p90_ms: ms(histogram.quantile(0.9)),
            max_ms: ms(histogram.max()),
        }
    }
}

/// Starts the cluster, kills its leader again and again, and measures each outage.
pub async fn run(plan: Plan, how: Failover, progress: &mut dyn Write) -> Result<Outages, BenchError> {
    let target = plan.target(how.ttl);
    let mut cluster = Cluster::start(plan.nodes)?;
    cluster.leader(target.as_ref(), PATIENCE).await?;
    let pulse = Arc::new(Pulse::default());
    let mut load = JoinSet::new();
    for number in 0..how.clients {
        load.spawn(work(Arc::clone(&target), Arc::clone(&pulse), number, how.give_up_after));
    }
    let mut outages = Vec::with_capacity(how.kills);
    for kill in 1..=how.kills {
        let leader = cluster.leader(target.as_ref(), PATIENCE).await?;
        flow(&pulse, how.calm).await?;
        let outage = outage(&mut cluster, leader, how.fate, &pulse).await?;
        writeln!(progress, "{kill} of {}: node {}, {:.0} ms", how.kills, leader + 1, outage.as_millis())?;
        outages.push(outage);
        cluster.restart(leader)?;
    }
    Ok(Outages::of(&outages))
}

/// Lets the load flow for a while, and makes sure that it does.
async fn flow(pulse: &Pulse, calm: Duration) -> Result<(), ClusterError> {
    tokio::time::sleep(calm).await;
    pulse.served_since(Instant::now()).await.map(drop)
}

async fn outage(
    cluster: &mut Cluster,
    leader: usize,
    fate: Fate,
    pulse: &Pulse,
) -> Result<Duration, BenchError> {
    let gone = match fate {
        Fate::Killed => cluster.kill(leader).await?,
        Fate::Silent => cluster.stop(leader)?,
    };
    let served = pulse.served_since(gone).await?;
    if fate == Fate::Silent {
        cluster.kill(leader).await?;
    }
    Ok(served.duration_since(gone))
}

/// Where the load shows that it is served.
#[derive(Default)]
struct Pulse {
    wanted: Mutex<Wanted>,
    found: Notify,
}

/// The first cycle that began after a moment.
#[derive(Clone, Copy, Default)]
struct Wanted {
    since: Option<Instant>,
    served: Option<Instant>,
}

impl Pulse {
    /// A cycle was completed.
    fn beat(&self, begun: Instant) {
        let mut wanted = self.wanted();
        if wanted.served.is_none() && wanted.since.is_some_and(|since| begun >= since) {
            wanted.served = Some(Instant::now());
            self.found.notify_one();
        }
    }

    /// Waits for the end of the first cycle that begins after the moment.
    async fn served_since(&self, moment: Instant) -> Result<Instant, ClusterError> {
        *self.wanted() = Wanted { since: Some(moment), served: None };
        let found = async {
            loop {
                if let Some(served) = self.wanted().served {
                    return served;
                }
                self.found.notified().await;
            }
        };
        timeout(PATIENCE, found).await.map_err(|_| ClusterError::NotReady(PATIENCE.as_secs()))
    }

    fn wanted(&self) -> std::sync::MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a client waits in one of its lives: from half of the given time to one and a half of it. What was asked of a
/// leader that is gone may never be answered, and clients that all gave up at once would find the new one only in steps
/// of their patience.
fn patience(give_up_after: Duration, number: usize, life: u64) -> Duration {
    let eighths = (3 * number as u64 + 5 * life) % 8;
    give_up_after / 2 + give_up_after.mul_f64(eighths as f64 / 8.0)
}

/// Cycles without end; after a failure with a new client and a new name, at the next endpoint.
async fn work(target: Arc<dyn Target>, pulse: Arc<Pulse>, number: usize, give_up_after: Duration) {
    for life in 0.. {
        let name = format!("failover-{}-{number}-{life}", std::process::id());
        // Only the end of the load ends the cycles in good order; every other end is a failure that is met by trying
        // again, and shows as time without service.
        let _failure = cycles(target.as_ref(), &pulse, &name, patience(give_up_after, number, life)).await;
        tokio::time::sleep(RETRY).await;
    }
}

async fn cycles(
    target: &dyn Target,
    pulse: &Pulse,
    name: &str,
    patience: Duration,
) -> Result<(), TargetError> {
    let late = |_| TargetError::Late(patience.as_millis());
    let mut begun = Instant::now();
    let mut client = timeout(patience, target.client()).await.map_err(late)??;
    loop {
        timeout(patience, cycle(client.as_mut(), name)).await.map_err(late)??;
        pulse.beat(begun);
        begun = Instant::now();
    }
}

async fn cycle(client: &mut dyn Client, name: &str) -> Result<(), TargetError> {
    client.acquire(name).await?;
    client.release().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_clients_never_give_up_all_at_once() {
        let given = Duration::from_millis(200);
        for life in 0..16 {
            let mut all: Vec<Duration> = (0..4).map(|number| patience(given, number, life)).collect();
            all.sort();
            assert!(all.windows(2).all(|two| two[1] - two[0] >= given / 8), "{all:?}");
            assert!(all[0] >= given / 2 && all[3] <= given * 3 / 2, "{all:?}");
        }
    }
}
