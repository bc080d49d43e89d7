//! The command: its arguments, and what is done with them.

use std::fs;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use thiserror::Error;

use crate::cluster::{ClusterError, Plan, sole_leader};
use crate::failover::{self, Failover, Fate};
use crate::load::{Load, Shape};
use crate::rounds::{Named, alternate};
use crate::target::TargetError;
use crate::targets::{Kind, Spec};
use crate::waiters::{self, Waiters, WakeError};

/// Measure locks: this service's, etcd's, ZooKeeper's, Redis's.
#[derive(Clone, Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Clone, Debug, Subcommand)]
enum Workload {
    /// Every client takes and releases a name of its own.
    Uncontended(LoadArgs),
    /// All clients want one name, which goes from one to the next.
    Handoff(LoadArgs),
    /// One client alone: what a cycle takes.
    Latency(LoadArgs),
    /// Thousands wait for one name: what each costs, and whether a release wakes one only.
    Waiters(WaitersArgs),
    /// Kill the leader again and again: how long nobody is served.
    Failover(FailoverArgs),
    /// Print the endpoint of the leader, once all nodes are well.
    Leader(LeaderArgs),
}

#[derive(Clone, Debug, Args)]
struct LoadArgs {
    /// What to measure: KIND=HOST:PORT,... or KIND/LABEL=HOST:PORT,...; several are measured in turn.
    #[arg(long = "target", default_value = "conclave=127.0.0.1:7400", value_name = "KIND=ENDPOINTS")]
    targets: Vec<Spec>,
    /// How many clients, each with a session of its own.
    #[arg(long, default_value = "64")]
    clients: NonZeroUsize,
    /// How many connections the clients share; each has its own when absent. For conclave and etcd.
    #[arg(long)]
    connections: Option<NonZeroUsize>,
    /// How long each run is measured, in seconds.
    #[arg(long, default_value = "5", value_parser = seconds)]
    seconds: Duration,
    /// How long each run goes on before that, in seconds.
    #[arg(long, default_value = "1", value_parser = seconds)]
    warmup: Duration,
    /// How often every target is measured.
    #[arg(long, default_value = "5")]
    rounds: NonZeroUsize,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Clone, Debug, Args)]
struct CommonArgs {
    /// How long a session outlives its client, in milliseconds.
    #[arg(long, default_value = "10000", value_name = "MS")]
    ttl_ms: u32,
    /// Write all figures to this file too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl CommonArgs {
    fn ttl(&self) -> Duration {
        Duration::from_millis(u64::from(self.ttl_ms))
    }
}

#[derive(Clone, Debug, Args)]
struct WaitersArgs {
    /// What to measure.
    #[arg(long, value_name = "KIND=ENDPOINTS")]
    target: Spec,
    /// How many wait.
    #[arg(long, default_value = "10000")]
    waiters: NonZeroUsize,
    /// Over how many sessions they are spread.
    #[arg(long, default_value = "100")]
    sessions: NonZeroUsize,
    /// How many are released one after the other; all when absent.
    #[arg(long)]
    releases: Option<usize>,
    /// The process of the server whose memory counts.
    #[arg(long)]
    pid: Option<u32>,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Clone, Debug, Args)]
struct FailoverArgs {
    /// How to start the nodes: a file of TOML.
    #[arg(long, value_name = "FILE")]
    cluster: PathBuf,
    /// How many clients load it meanwhile.
    #[arg(long, default_value = "4")]
    clients: NonZeroUsize,
    /// How often the leader is killed, or stopped.
    #[arg(long, default_value = "20")]
    kills: NonZeroUsize,
    /// What becomes of the leader: it is killed, or stopped, as if its cable were pulled.
    #[arg(long, value_enum, default_value_t)]
    leader: Fate,
    /// How long the load flows before each kill, in seconds.
    #[arg(long, default_value = "2", value_parser = seconds)]
    calm: Duration,
    /// About how long a client waits for a cycle before it is given up and another one tries the next endpoint, in milliseconds
    /// [default: 200; of conclave, whose clients look for another node by themselves, 3000].
    #[arg(long, value_name = "MS")]
    give_up_after_ms: Option<u32>,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Clone, Debug, Args)]
struct LeaderArgs {
    /// Whose leader.
    #[arg(long, value_name = "KIND=ENDPOINTS")]
    target: Spec,
    /// How long to wait for one, in seconds.
    #[arg(long, default_value = "30", value_parser = seconds)]
    patience: Duration,
}

/// Seconds, whole or not, above zero and up to a day.
fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| format!("\"{text}\" is not a number of seconds"))?;
    if number > 0.0 && number <= 86_400.0 {
        Ok(Duration::from_secs_f64(number))
    } else {
        Err("give more than 0 and at most 86400 seconds".to_owned())
    }
}

/// Why nothing, or nothing good, was measured.
#[derive(Debug, Error)]
pub enum BenchError {
    /// A target failed before or while it was measured.
    #[error("{target}: {error}")]
    Target {
        /// Its label.
        target: String,
        /// How.
        error: TargetError,
    },
    /// The figures are worthless, since the lock did not do its work.
    #[error("{target} is broken: {violation}")]
    Broken {
        /// Its label.
        target: String,
        /// How.
        violation: String,
    },
    /// A crowd was not treated as it should be.
    #[error(transparent)]
    Waiters(#[from] WakeError),
    /// The servers do not run as they should.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Two targets would be one line in the report.
    #[error("two targets are called \"{0}\"; give one of them another name, as KIND/LABEL=ENDPOINTS")]
    SameLabel(String),
    /// Its clients cannot do what was asked for.
    #[error("clients of {0} cannot share connections; leave --connections away, or the target")]
    OwnConnections(Kind),
    /// A file or a stream failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl BenchError {
    /// Whether the command asked for what cannot be, rather than something failed.
    #[must_use]
    pub fn is_wrong_usage(&self) -> bool {
        matches!(self, Self::SameLabel(_) | Self::OwnConnections(_))
    }
}

impl BenchArgs {
    /// Does what the arguments ask for: figures to `out`, progress to `progress`. Everything happens on the calling
    /// thread, so that the generator never takes more than one core from the servers.
    pub fn run(self, out: &mut dyn Write, progress: &mut dyn Write) -> Result<(), BenchError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            match self.workload {
                Workload::Uncontended(args) => rounds(Shape::Uncontended, &args, out, progress).await,
                Workload::Handoff(args) => rounds(Shape::Handoff, &args, out, progress).await,
                Workload::Latency(mut args) => {
                    args.clients = NonZeroUsize::MIN;
                    rounds(Shape::Uncontended, &args, out, progress).await
                }
                Workload::Waiters(args) => crowd(&args, out, progress).await,
                Workload::Failover(args) => kills(&args, out, progress).await,
                Workload::Leader(args) => leader(&args, out).await,
            }
        })
    }
}

async fn rounds(
    shape: Shape,
    args: &LoadArgs,
    out: &mut dyn Write,
    progress: &mut dyn Write,
) -> Result<(), BenchError> {
    distinct(&args.targets)?;
    can_share(args)?;
    let load = Load { shape, clients: args.clients.get(), warmup: args.warmup, measured: args.seconds };
    let targets: Vec<Named> =
        args.targets.iter().map(|spec| Named::open(spec, args.common.ttl(), args.connections)).collect();
    let report = alternate(&targets, load, args.rounds.get(), progress).await?;
    report.print(out)?;
    write_json(args.common.json.as_deref(), &report)?;
    match report.violation() {
        None => Ok(()),
        Some((target, violation)) => {
            Err(BenchError::Broken { target: target.to_owned(), violation: violation.to_owned() })
        }
    }
}

fn can_share(args: &LoadArgs) -> Result<(), BenchError> {
    let cannot = |spec: &&Spec| args.connections.is_some() && !spec.kind.can_share();
    match args.targets.iter().find(cannot) {
        None => Ok(()),
        Some(spec) => Err(BenchError::OwnConnections(spec.kind)),
    }
}

fn distinct(targets: &[Spec]) -> Result<(), BenchError> {
    for (at, spec) in targets.iter().enumerate() {
        if targets[..at].iter().any(|earlier| earlier.label == spec.label) {
            return Err(BenchError::SameLabel(spec.label.clone()));
        }
    }
    Ok(())
}

async fn crowd(args: &WaitersArgs, out: &mut dyn Write, progress: &mut dyn Write) -> Result<(), BenchError> {
    let waiters = args.waiters.get();
    let how = Waiters {
        waiters,
        sessions: args.sessions.get(),
        releases: args.releases.unwrap_or(waiters),
        pid: args.pid,
    };
    let wakeups = waiters::run(args.target.open(args.common.ttl(), None).as_ref(), how, progress).await?;
    writeln!(
        out,
        "{}: {} waiters, {} releases woke exactly one each, {:.0} per second",
        args.target.label, wakeups.waiters, wakeups.releases, wakeups.per_second
    )?;
    if let Some(bytes) = wakeups.bytes_per_waiter {
        writeln!(out, "{}: {bytes:.0} bytes of resident memory per waiter", args.target.label)?;
    }
    write_json(args.common.json.as_deref(), &wakeups)
}

async fn kills(args: &FailoverArgs, out: &mut dyn Write, progress: &mut dyn Write) -> Result<(), BenchError> {
    let plan = Plan::read(&args.cluster)?;
    let kind = plan.kind;
    let how = Failover {
        clients: args.clients.get(),
        kills: args.kills.get(),
        calm: args.calm,
        give_up_after: args.give_up_after_ms.map_or(kind.patience(), |ms| Duration::from_millis(ms.into())),
        ttl: args.common.ttl(),
        fate: args.leader,
    };
    let outages = failover::run(plan, how, progress).await?;
    writeln!(
        out,
        "{kind}: {} times the leader was {}, time without service: median {:.0} ms, p90 {:.0} ms, max {:.0} ms",
        outages.each_ms.len(),
        if args.leader == Fate::Killed { "killed" } else { "silent" },
        outages.median_ms,
        outages.p90_ms,
        outages.max_ms
    )?;
    write_json(args.common.json.as_deref(), &outages)
}

async fn leader(args: &LeaderArgs, out: &mut dyn Write) -> Result<(), BenchError> {
    let target = args.target.open(Duration::from_secs(10), None);
    let found = async {
        loop {
            if let Some(leader) = sole_leader(target.as_ref()).await {
                return leader;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let leader = tokio::time::timeout(args.patience, found)
        .await
        .map_err(|_| ClusterError::NotReady(args.patience.as_secs()))?;
    writeln!(out, "{}", target.endpoints()[leader])?;
    Ok(())
}

fn write_json(path: Option<&Path>, figures: &impl Serialize) -> Result<(), BenchError> {
    if let Some(path) = path {
        let mut text = serde_json::to_string_pretty(figures).map_err(io::Error::from)?;
        text.push('\n');
        fs::write(path, text)?;
    }
    Ok(())
}
