//! `conclave serve`: a node of the replicated service.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use conclave_client::DEFAULT_ENDPOINT;
use conclave_server::consensus::{self, Compaction, Timing};
use conclave_server::disk::{Disk, Files, StorageError};
use conclave_server::repair::{self, RepairError};
use conclave_server::server::{Options, Server, StartError, is_loopback};
use conclave_server::{Monotonic, SystemWall, Tcp};
use conclave_wire::{Connecting, Incoming, Listening, Transport};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use super::args::{LogFormat, ServeArgs};
use super::config::{ClusterFile, Members, check_address};
use super::duration::parse_duration;
use crate::failure::{Failure, Verdict};

/// Runs a node until it is told to stop.
pub fn run(args: &ServeArgs) -> Result<Verdict, Failure> {
    let plan = Plan::of(args)?;
    start_log(args.log);
    allow_many_files();
    let mut builder = match args.threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.worker_threads(args.threads.into()).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("no threads can be had: {error}")))?;
    let ended = runtime.block_on(serve(plan));
    runtime.shutdown_background();
    ended
}

/// What a node is to be.
struct Plan {
    id: u64,
    members: BTreeMap<u64, String>,
    listen: String,
    data: PathBuf,
    timing: Timing,
    compaction: Compaction,
    repair: bool,
}

impl Plan {
    fn of(args: &ServeArgs) -> Result<Self, Failure> {
        let file = args.config.as_deref().map(ClusterFile::read).transpose()?.unwrap_or_default();
        let members = match &args.cluster {
            Some(Members(members)) => members.clone(),
            None if file.nodes.is_empty() => BTreeMap::new(),
            None => file.members()?.0,
        };
        let own = members.get(&args.id).cloned();
        if !members.is_empty() && own.is_none() {
            let known: Vec<String> = members.keys().map(ToString::to_string).collect();
            return Err(Failure::new(format!(
                "node {} is not in the cluster, which has {}",
                args.id,
                known.join(", ")
            )));
        }
        let listen = args.listen.clone().or(own).unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        check_address(&listen).map_err(Failure::new)?;
        if !is_loopback(&listen) && !args.insecure {
            return Err(Failure::new(format!(
                "{listen} can be reached from other machines, and nothing is encrypted yet"
            ))
            .hint("say --insecure if the network is to be trusted"));
        }
        let data = data_of(args, &file, &members);
        let members = if members.is_empty() { BTreeMap::from([(args.id, listen.clone())]) } else { members };
        let compaction = Compaction::after(u64::from(args.snapshot_every) << 20);
        let timing = timing_of(args, &file)?;
        Ok(Self { id: args.id, members, listen, data, timing, compaction, repair: args.repair })
    }
}

/// What the command line says, else the file, else the usual times.
fn timing_of(args: &ServeArgs, file: &ClusterFile) -> Result<Timing, Failure> {
    let choose = |given: Option<Duration>, key: &str, text: &Option<String>, usual| match (given, text) {
        (Some(given), _) => Ok(given),
        (None, Some(text)) => parse_duration(text).map_err(|why| Failure::new(format!("{key}: {why}"))),
        (None, None) => Ok(usual),
    };
    let usual = Timing::default();
    let heartbeat = choose(args.heartbeat, "heartbeat", &file.heartbeat, usual.heartbeat)?;
    let election =
        choose(args.election_timeout, "election_timeout", &file.election_timeout, usual.election_max)?;
    Timing::of(heartbeat, election).map_err(|error| {
        Failure::new(error).hint("see --heartbeat and --election-timeout; both are the same on all nodes")
    })
}

fn data_of(args: &ServeArgs, file: &ClusterFile, members: &BTreeMap<u64, String>) -> PathBuf {
    match (&args.data, &file.data) {
        (Some(data), _) => data.clone(),
        (None, Some(data)) => data.join(args.id.to_string()),
        (None, None) if members.len() > 1 => PathBuf::from(format!("conclave-data-{}", args.id)),
        (None, None) => Path::new("conclave-data").to_owned(),
    }
}

/// What is logged unless CONCLAVE_LOG says otherwise. The consensus library warns of a node that is down many times a
/// second; this node says once that it is, and once that it is back.
const LOG_FILTER: &str = "info,openraft=error";

fn start_log(format: LogFormat) {
    let asked = std::env::var("CONCLAVE_LOG").ok().filter(|asked| !asked.is_empty());
    let parsed = asked.as_deref().map(EnvFilter::try_new).transpose();
    let wrong = parsed.as_ref().err().map(ToString::to_string);
    let filter = parsed.ok().flatten().unwrap_or_else(|| EnvFilter::new(LOG_FILTER));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    if let Some(wrong) = wrong {
        tracing::warn!("CONCLAVE_LOG is not a filter ({wrong}): using '{LOG_FILTER}'");
    }
}

/// Every connection is an open file: as many as the system allows, not as few as a shell begins with.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
}

/// A node that listens already when it starts.
struct Listener(Mutex<Option<(Incoming, String)>>);

impl Listener {
    async fn open(address: &str) -> Result<Self, Failure> {
        let listening = Tcp.listen(address.to_owned()).await;
        let failed = |source| StartError::Listen { address: address.to_owned(), source };
        listening.map(|open| Self(Mutex::new(Some(open)))).map_err(|error| Failure::new(failed(error)))
    }
}

impl Transport for Listener {
    fn connect(&self, address: String) -> Connecting {
        Tcp.connect(address)
    }

    fn listen(&self, _: String) -> Listening {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        Box::pin(async move { open.ok_or_else(|| io::ErrorKind::AddrInUse.into()) })
    }
}

/// Takes the data directory and the address. A directory is made only when everything else is as it must be: a start that
/// fails leaves nothing behind.
async fn take(plan: &Plan) -> Result<(Files, Listener), Failure> {
    let existing = match plan.data.is_dir() {
        true => Some(Files::open(&plan.data).map_err(Failure::new)?),
        false if plan.repair => {
            let place = plan.data.display();
            return Err(Failure::new(format!("nothing to repair: there is no directory '{place}'"))
                .hint("start the node without --repair"));
        }
        false => None,
    };
    let listener = Listener::open(&plan.listen).await?;
    let files = existing.map_or_else(|| Files::open(&plan.data).map_err(Failure::new), Ok)?;
    Ok((files, listener))
}

async fn serve(plan: Plan) -> Result<Verdict, Failure> {
    let (files, listener) = take(&plan).await?;
    let disk: Arc<dyn Disk> = Arc::new(files);
    if plan.repair {
        set_aside(&plan, &disk).await?;
    }
    let node = plan.id;
    let (nodes, data) = (plan.members.len(), plan.data.display().to_string());
    let server = Server::start(Options {
        id: plan.id,
        members: plan.members,
        listen: plan.listen,
        disk,
        transport: Arc::new(listener),
        timing: plan.timing,
        compaction: plan.compaction,
        clock: Box::new(Monotonic::default()),
        wall: Arc::new(SystemWall),
    })
    .await
    .map_err(|error| not_started(&error, nodes))?;
    tracing::info!(node, nodes, data, address = server.address(), "listening");
    let failed = |error: io::Error| Failure::new(format!("signals cannot be heard: {error}"));
    let mut interrupts = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminations = signal(SignalKind::terminate()).map_err(failed)?;
    let ready = async {
        server.ready().await;
        tracing::info!(node, "ready");
        std::future::pending::<()>().await;
    };
    tokio::select! {
        why = server.failed() => {
            tracing::error!(why, "this node cannot go on");
            return Ok(Verdict::Failed);
        }
        _ = interrupts.recv() => {}
        _ = terminations.recv() => {}
        () = ready => {}
    }
    tracing::info!("told to stop");
    server.shutdown().await;
    tracing::info!("stopped");
    Ok(Verdict::Held)
}

/// Sets a damaged directory aside.
async fn set_aside(plan: &Plan, disk: &Arc<dyn Disk>) -> Result<(), Failure> {
    let repaired = repair::set_aside(plan.id, &plan.members, disk).await.map_err(|error| match &error {
        RepairError::Alone => Failure::new(&error).hint("restore the data directory from a backup"),
        RepairError::NotDamaged { .. } => Failure::new(&error).hint("start the node without --repair"),
        _ => Failure::new(&error),
    })?;
    let folder = plan.data.join(&repaired.folder).display().to_string();
    tracing::warn!(
        folder,
        why = repaired.why,
        "moved all files of this node aside, because some are damaged; everything is fetched from the other nodes"
    );
    Ok(())
}

fn not_started(error: &StartError, nodes: usize) -> Failure {
    let failure = Failure::new(error);
    match error {
        StartError::Consensus(consensus::StartError::Storage(damage)) if damage.is_damage() => {
            failure.hint(way_out(damage, nodes))
        }
        _ => failure,
    }
}

/// What to do about damage.
fn way_out(damage: &StorageError, nodes: usize) -> &'static str {
    match damage {
        StorageError::Unfinished { .. } => "start the node with --repair to finish it",
        _ if nodes > 1 => {
            "start the node with --repair to set its files aside and fetch everything from the other nodes, which \
             counts as losing its disk"
        }
        _ => "restore the data directory from a backup",
    }
}
