//! Options of the commands about the replicated service.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::config::{Members, parse_members};
use super::duration::parse_duration;

const WAITING: &str = "Waiting";
const HOLDING: &str = "Holding";
const SERVICE: &str = "Service";
const OUTPUT: &str = "Output";

/// The commands of the service.
#[derive(Debug, Subcommand)]
pub enum ServiceCommand {
    /// Be a node of the replicated lock and leader service.
    Serve(ServeArgs),
    /// Run a command while holding a lock of the service.
    Lock(Box<HoldArgs>),
    /// Run a command while leading.
    Elect(Box<ElectArgs>),
    /// Show the names in use.
    Ls(LsArgs),
    /// Show who holds a name, who waits for it, and who held it.
    Show(OfArgs),
    /// Show what somebody waits for, and through whom.
    Why(WhyArgs),
    /// Follow the leader of a name.
    Observe(OfArgs),
    /// Take a name from whoever holds it.
    Release(ReleaseArgs),
    /// Show how the nodes of the service are.
    Status(StatusArgs),
    /// Measure the service, or others like it: cycles, hand-offs, latency, waiters, failover.
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(conclave_bench::BenchArgs),
}

/// Options of `conclave serve`.
#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub struct ServeArgs {
    /// The number of this node in its cluster.
    #[arg(long, default_value_t = 1)]
    pub id: u64,
    /// All nodes and where they listen: 1=10.0.0.1:7400,2=10.0.0.2:7400,3=10.0.0.3:7400.
    #[arg(long, value_name = "ID=ADDRESS,...", value_parser = parse_members)]
    pub cluster: Option<Members>,
    /// Where to listen [default: this node's address in the cluster, or 127.0.0.1:7400].
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Where to keep what must not be lost [default: conclave-data, or conclave-data-ID in a cluster].
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// A file that says the same, for all nodes of a cluster.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Listen beyond this machine, though nothing is encrypted and everybody may do everything.
    #[arg(long)]
    pub insecure: bool,
    /// Threads that serve clients and other nodes. One answers soonest where cores are few; the disk has its own.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// Make a snapshot, and forget the log before it, whenever the log has grown by so many MiB.
    #[arg(long, value_name = "MIB", default_value = "64", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub snapshot_every: u16,
    /// Repair a damaged data directory: move its files into a subdirectory damaged-N, start as a node that lost its disk,
    /// and fetch everything from the other nodes. Refused on a single node, and if nothing is damaged.
    #[arg(long)]
    pub repair: bool,
    /// How to write what happens to standard error.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log: LogFormat,
}

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// Lines of JSON.
    Json,
}

/// Where the service is.
#[derive(Debug, Args)]
pub struct EndpointArgs {
    /// Nodes of the service, any of them: 127.0.0.1:7400 [default: $CONCLAVE_ENDPOINTS, the config file, 127.0.0.1:7400].
    #[arg(long, value_name = "ADDRESS,...", value_delimiter = ',', help_heading = SERVICE)]
    pub endpoints: Vec<String>,
    /// A file with the endpoints, or with the nodes [default: $CONCLAVE_CONFIG].
    #[arg(long, value_name = "FILE", help_heading = SERVICE)]
    pub config: Option<PathBuf>,
    /// How long to look for a node that answers.
    #[arg(long, value_name = "T", default_value = "10s", value_parser = parse_duration, help_heading = SERVICE)]
    pub connect_wait: Duration,
}

/// How a command is run while something is held.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Session TTL: the lock is freed after this long without a heartbeat.
    #[arg(long, value_name = "T", default_value = "10s", value_parser = parse_duration, help_heading = HOLDING)]
    pub ttl: Duration,
    /// Time between SIGTERM and SIGKILL when the lock is lost; a third of the TTL at most.
    #[arg(long, value_name = "T", default_value = "5s", value_parser = parse_duration, help_heading = HOLDING)]
    pub grace: Duration,
    /// Release when the command itself ends, although processes that it started still run.
    #[arg(long, help_heading = HOLDING)]
    pub release_on_exit: bool,
    /// Description of this holder, shown to others [default: the command].
    #[arg(long, value_name = "TEXT", help_heading = HOLDING)]
    pub label: Option<String>,
    /// Renew only while this shell command succeeds. One that takes longer than the TTL has failed, and is killed.
    #[arg(long, value_name = "CMD", help_heading = HOLDING)]
    pub probe: Option<String>,
    /// Time between two probes.
    #[arg(long, value_name = "T", default_value = "1s", value_parser = parse_duration, help_heading = HOLDING)]
    pub probe_every: Duration,
    /// Higher priority is served first.
    #[arg(long, value_name = "N", default_value_t = 0, allow_hyphen_values = true, help_heading = WAITING)]
    pub priority: i32,
    /// Print errors only, no notes.
    #[arg(short, long, conflicts_with = "verbose", help_heading = OUTPUT)]
    pub quiet: bool,
    /// Print notes as on a terminal: who holds the lock, what is waited for.
    #[arg(short, long, help_heading = OUTPUT)]
    pub verbose: bool,
    #[command(flatten)]
    pub endpoints: EndpointArgs,
    /// The command.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Options of `conclave lock`.
#[derive(Debug, Args)]
#[command(after_help = LOCK_EXAMPLES)]
pub struct HoldArgs {
    /// What to lock; several names are granted together or not at all.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Do not wait.
    #[arg(long = "try", conflicts_with = "wait", help_heading = WAITING)]
    pub try_once: bool,
    /// If somebody holds it, exit 0 without running the command and without a word (for cron).
    #[arg(long, conflicts_with_all = ["try_once", "wait"], help_heading = WAITING)]
    pub skip_if_held: bool,
    /// Wait no longer than this: 5s [default: as long as it takes].
    #[arg(long, value_name = "T", value_parser = parse_duration, help_heading = WAITING)]
    pub wait: Option<Duration>,
    /// Exit code if somebody else holds it (--try) or it is not granted in time (--wait) [default: 120, 121].
    #[arg(short = 'E', long, value_name = "N", conflicts_with = "skip_if_held", help_heading = WAITING)]
    pub conflict_exit_code: Option<u8>,
    /// Share it with others who share it.
    #[arg(long, help_heading = HOLDING)]
    pub shared: bool,
    /// Allow N holders at once (a semaphore).
    #[arg(long, value_name = "N", conflicts_with = "shared", value_parser = clap::value_parser!(u32).range(1..), help_heading = HOLDING)]
    pub permits: Option<u32>,
    /// After this holder is lost, grant to nobody for this long.
    #[arg(long, value_name = "T", value_parser = parse_duration, help_heading = HOLDING)]
    pub lock_delay: Option<Duration>,
    #[command(flatten)]
    pub run: RunArgs,
}

/// Options of `conclave elect`.
#[derive(Debug, Args)]
#[command(after_help = ELECT_EXAMPLES)]
pub struct ElectArgs {
    /// What to lead.
    pub name: String,
    /// What others see of the leader [default: host:pid].
    #[arg(long, value_name = "TEXT")]
    pub value: Option<String>,
    /// Campaign again when the leadership is lost, and run the command anew.
    #[arg(long)]
    pub again: bool,
    #[command(flatten)]
    pub run: RunArgs,
}

/// Options of `conclave ls`.
#[derive(Debug, Args)]
#[command(after_help = LS_EXAMPLES)]
pub struct LsArgs {
    /// Only names that begin like this.
    #[arg(default_value = "")]
    pub prefix: String,
    /// Stay, and show what changes.
    #[arg(long)]
    pub watch: bool,
    /// Print JSON, one line per name.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub endpoints: EndpointArgs,
}

/// Options of commands about one thing.
#[derive(Debug, Args)]
pub struct OfArgs {
    /// A name.
    pub name: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub endpoints: EndpointArgs,
}

/// Options of `conclave why`.
#[derive(Debug, Args)]
#[command(after_help = WHY_EXAMPLES)]
pub struct WhyArgs {
    /// A name, or the 16 digits of a session.
    #[arg(value_name = "NAME|SESSION")]
    pub of: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub endpoints: EndpointArgs,
}

/// Options of `conclave release`.
#[derive(Debug, Args)]
#[command(after_help = RELEASE_EXAMPLES)]
pub struct ReleaseArgs {
    /// What to take from whoever holds it.
    pub name: String,
    /// Yes, by force: whoever holds it is told, but may not have stopped yet.
    #[arg(long, required = true)]
    pub force: bool,
    /// Why, for the one who loses it and for the history.
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// Only from the holder with this token.
    #[arg(long, value_name = "N")]
    pub token: Option<u64>,
    #[command(flatten)]
    pub endpoints: EndpointArgs,
}

/// Options of `conclave status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub endpoints: EndpointArgs,
}

const SERVE_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave serve                                    one durable node on 127.0.0.1:7400
  conclave serve --id 1 --cluster 1=127.0.0.1:7401,2=127.0.0.1:7402,3=127.0.0.1:7403
  conclave serve --config cluster.toml --id 1

The file, for all nodes and all clients of a cluster:
  [nodes]
  1 = \"10.0.0.1:7400\"
  2 = \"10.0.0.2:7400\"
  3 = \"10.0.0.3:7400\"

It stops at Ctrl-C and SIGTERM, and hands the lead over before. Exit codes: 0 it was told to stop, 1 it stopped by itself, \
2 it could not start.";

const LOCK_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave lock nightly-backup -- ./backup.sh
  conclave lock nightly-backup --skip-if-held -- ./backup.sh
  conclave lock db/users db/orders --wait 5s -- ./migrate.sh
  conclave lock gpu --permits 4 -- ./train.sh

The environment of the command has CONCLAVE_TOKEN, the fencing token: pass it to whatever the command writes to, and let that \
refuse smaller ones. CONCLAVE_LOCK is the name; of several names, which may contain spaces, CONCLAVE_LOCKS has one in each line.

If the lock is lost, the command and everything it started gets SIGTERM, and SIGKILL in time: before anybody else can get the \
lock. This also holds if 'conclave lock' itself is killed or stopped. A job that Ctrl-Z stops for longer than the TTL loses its \
lock and its command.

The lock is held until the command and everything it started has ended; --release-on-exit gives it back when the command \
itself ends. Nested 'conclave lock' commands are separate holders: take several locks at once ('conclave lock A B'), so that two \
scripts cannot wait for each other.

Exit codes: that of the command (128 + n if signal n ended it), 120 somebody else has it (--try), 121 not granted in time \
(--wait), 122 lost while the command ran, 123 the service does not answer, 124 refused, 126 the command cannot be run, 127 \
there is no such command, 2 wrong usage. A command may use these codes as well; -E chooses another for 120 and 121.";

const ELECT_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave elect scheduler -- ./scheduler
  conclave elect scheduler --value 10.0.0.7:8080 --again --probe 'curl -fs localhost:8080/health' -- ./scheduler
  conclave observe scheduler

The environment of the command has CONCLAVE_LEADER, the name, and CONCLAVE_TERM, the term, which is a fencing token as well \
(CONCLAVE_TOKEN). How the command ends when the leadership is lost, and exit codes, are as with 'conclave lock'.";

const LS_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave ls
  conclave ls db/ --watch";

const WHY_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave why nightly-backup           what the first who waits for it waits for
  conclave why 5f3a9c0e12d4b687         what this session waits for";

const RELEASE_EXAMPLES: &str = "\x1b[1;4mExample:\x1b[0m
  conclave release nightly-backup --force --reason 'host is gone for good'

The holder is told and its token is stale from then on, but it may not have stopped yet: only a resource that checks tokens is \
safe from it.";

const BENCH_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave bench uncontended --clients 64 --seconds 5
  conclave bench handoff --clients 8 --target conclave=127.0.0.1:7401,127.0.0.1:7402 --target etcd=127.0.0.1:2379

benches/compare.sh starts a cluster of each kind and compares them all.";
