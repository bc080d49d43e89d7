//! Options of the commands about the replicated service.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::config::{Members, parse_members};
use super::duration::parse_duration;
use super::limits::{
    parse_label, parse_lock_delay, parse_name, parse_node, parse_reason, parse_session, parse_ttl,
    parse_value,
};

const WAITING: &str = "Waiting";
const HOLDING: &str = "Holding";
const SERVICE: &str = "Service";
const OUTPUT: &str = "Output";

/// The commands of the service.
#[derive(Debug, Subcommand)]
pub enum ServiceCommand {
    /// Run a node of the lock and leader service.
    Serve(ServeArgs),
    /// Run a command while holding a lock of the service.
    Lock(Box<HoldArgs>),
    /// Run a command while leading, as one of several candidates.
    Elect(Box<ElectArgs>),
    /// List the locks and leaderships that are held or waited for.
    Ls(LsArgs),
    /// Show one lock or leadership: holder, queue and history.
    Show(ShowArgs),
    /// Explain a wait: who is in the way, and what that one waits for.
    Why(WhyArgs),
    /// Print the leader of a name, now and whenever it changes.
    Observe(OfArgs),
    /// Force-release a lock or a leadership.
    Release(ReleaseArgs),
    /// List the sessions of the service, or end one.
    Sessions(SessionsArgs),
    /// Check a fencing token.
    Token(TokenArgs),
    /// Show the nodes of the service, and whether requests are served.
    Status(StatusArgs),
    /// Measure the service, or others like it.
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(conclave_bench::BenchArgs),
}

/// Options of `conclave serve`.
#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub struct ServeArgs {
    /// Number of this node in its cluster, from 1.
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_node)]
    pub id: u64,
    /// All nodes of the cluster with their addresses: 1=10.0.0.1:7400,2=10.0.0.2:7400,3=10.0.0.3:7400.
    #[arg(long, value_name = "ID=ADDRESS,...", value_parser = parse_members)]
    pub cluster: Option<Members>,
    /// Address to listen on [default: this node's address in the cluster, else 127.0.0.1:7400].
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Data directory [default: conclave-data, or conclave-data-ID in a cluster].
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Configuration file with the nodes of the cluster and the data directory; see below.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Allow a listening address that other machines can reach. There is no encryption and no access control yet.
    #[arg(long)]
    pub insecure: bool,
    /// Threads that serve clients and other nodes; the disk has its own. One is fastest on a machine with few cores.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// Take a snapshot and drop the log before it after this many MiB of new log.
    #[arg(long, value_name = "MIB", default_value = "64", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub snapshot_every: u16,
    /// Time between two heartbeats of a leader, which must be answered within it; the same on all nodes [default: 100ms].
    #[arg(long, value_name = "T", value_parser = parse_duration)]
    pub heartbeat: Option<Duration>,
    /// How long a leader may be silent before others may be elected; three heartbeats at least, the same on all nodes. For
    /// nodes far from each other, or with slow disks, make both longer [default: 400ms].
    #[arg(long, value_name = "T", value_parser = parse_duration)]
    pub election_timeout: Option<Duration>,
    /// Repair a damaged data directory: move its files into a subdirectory damaged-N, start with an empty log, and fetch
    /// everything from the other nodes. Refused on a single node, and if nothing is damaged.
    #[arg(long)]
    pub repair: bool,
    /// Format of the log on standard error.
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
    /// Nodes to ask; one is enough [default: $CONCLAVE_ENDPOINTS, else the configuration file, else 127.0.0.1:7400].
    #[arg(long, value_name = "ADDRESS,...", value_delimiter = ',', help_heading = SERVICE)]
    pub endpoints: Vec<String>,
    /// Configuration file with the nodes, the one of 'conclave serve' [default: $CONCLAVE_CONFIG].
    #[arg(long, value_name = "FILE", help_heading = SERVICE)]
    pub config: Option<PathBuf>,
    /// How long to try before giving up, if no node answers.
    #[arg(long, value_name = "T", default_value = "10s", value_parser = parse_duration, help_heading = SERVICE)]
    pub connect_wait: Duration,
}

/// How a command is run while something is held.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Session TTL, 500ms to 24h: the lock or leadership is freed after this long without a heartbeat.
    #[arg(long, value_name = "T", default_value = "10s", value_parser = parse_ttl, help_heading = HOLDING)]
    pub ttl: Duration,
    /// Time between SIGTERM and SIGKILL if the lock is lost; a third of the TTL at most.
    #[arg(long, value_name = "T", default_value = "5s", value_parser = parse_duration, help_heading = HOLDING)]
    pub grace: Duration,
    /// Release as soon as the command itself ends, even if processes that it started still run.
    #[arg(long, help_heading = HOLDING)]
    pub release_on_exit: bool,
    /// Description of this holder, shown to others [default: the command].
    #[arg(long, value_name = "TEXT", value_parser = parse_label, help_heading = HOLDING)]
    pub label: Option<String>,
    /// Health check: a shell command that runs again and again while the lock is held. While it fails, the lock is not
    /// renewed, and so is lost after the TTL. A check that takes longer than the TTL has failed, and is killed.
    #[arg(long, value_name = "CMD", help_heading = HOLDING)]
    pub probe: Option<String>,
    /// Time between two runs of the --probe command.
    #[arg(long, value_name = "T", default_value = "1s", value_parser = parse_duration, help_heading = HOLDING)]
    pub probe_every: Duration,
    /// Higher priority is served first; the usual one is 0.
    #[arg(long, value_name = "N", default_value_t = 0, allow_hyphen_values = true, help_heading = WAITING)]
    pub priority: i32,
    /// Print errors only, no notes.
    #[arg(short, long, conflicts_with = "verbose", help_heading = OUTPUT)]
    pub quiet: bool,
    /// Print notes also where standard error is not a terminal, and more of them: who holds the lock, what is waited for.
    #[arg(short, long, help_heading = OUTPUT)]
    pub verbose: bool,
    #[command(flatten)]
    pub endpoints: EndpointArgs,
    /// The command to run, and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// How long to wait for something that somebody else holds.
#[derive(Debug, Args)]
pub struct PatienceArgs {
    /// Do not wait: exit with 120 if somebody else holds it.
    #[arg(long = "try", conflicts_with = "wait", help_heading = WAITING)]
    pub try_once: bool,
    /// Wait no longer than this (5s, 1m), then exit with 121 [default: wait as long as it takes].
    #[arg(long, value_name = "T", value_parser = parse_duration, help_heading = WAITING)]
    pub wait: Option<Duration>,
    /// Exit code of --try and --wait if it is not granted [default: 120, 121].
    #[arg(short = 'E', long, value_name = "N", help_heading = WAITING)]
    pub conflict_exit_code: Option<u8>,
}

/// Options of `conclave lock`.
#[derive(Debug, Args)]
#[command(after_help = LOCK_EXAMPLES)]
pub struct HoldArgs {
    /// What to lock; several names are granted together or not at all.
    #[arg(required = true, value_name = "NAME", value_parser = parse_name)]
    pub names: Vec<String>,
    #[command(flatten)]
    pub patience: PatienceArgs,
    /// If somebody holds it, exit 0 without running the command and without a word (for cron).
    #[arg(long, conflicts_with_all = ["try_once", "wait", "conflict_exit_code"], help_heading = WAITING)]
    pub skip_if_held: bool,
    /// Hold it together with others who use --shared, but with nobody else.
    #[arg(long, help_heading = HOLDING)]
    pub shared: bool,
    /// Allow N holders at once, a semaphore; all holders must use the same N.
    #[arg(long, value_name = "N", conflicts_with = "shared", value_parser = clap::value_parser!(u32).range(1..), help_heading = HOLDING)]
    pub permits: Option<u32>,
    /// If this holder is lost, grant the lock to nobody for this long.
    #[arg(long, value_name = "T", value_parser = parse_lock_delay, help_heading = HOLDING)]
    pub lock_delay: Option<Duration>,
    #[command(flatten)]
    pub run: RunArgs,
}

/// Options of `conclave elect`.
#[derive(Debug, Args)]
#[command(after_help = ELECT_EXAMPLES)]
pub struct ElectArgs {
    /// Name of the leadership: all candidates for it use the same.
    #[arg(value_parser = parse_name)]
    pub name: String,
    /// What others see of the leader, an address for instance [default: host:pid].
    #[arg(long, value_name = "TEXT", value_parser = parse_value)]
    pub value: Option<String>,
    /// Campaign again whenever the leadership is lost or the service does not answer, and run the command again.
    #[arg(long)]
    pub again: bool,
    #[command(flatten)]
    pub patience: PatienceArgs,
    #[command(flatten)]
    pub run: RunArgs,
}

/// Options of `conclave ls`.
#[derive(Debug, Args)]
#[command(after_help = LS_EXAMPLES)]
pub struct LsArgs {
    /// Only names with this prefix.
    #[arg(default_value = "")]
    pub prefix: String,
    /// Keep running, and print changes as they happen; what is in use already is not listed.
    #[arg(long)]
    pub watch: bool,
    /// List names that are free too, if the service still remembers them.
    #[arg(long)]
    pub all: bool,
    /// Print JSON, one line per name or change.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub endpoints: EndpointArgs,
}

/// Options of `conclave show`.
#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub struct ShowArgs {
    /// Name of the lock or leadership.
    #[arg(value_parser = parse_name)]
    pub name: String,
    /// Show all holders and waiters, not only the first 20.
    #[arg(long)]
    pub all: bool,
    /// Print JSON, with all holders and waiters.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub endpoints: EndpointArgs,
}

/// Options of `conclave observe`.
#[derive(Debug, Args)]
#[command(after_help = OBSERVE_EXAMPLES)]
pub struct OfArgs {
    /// Name of the leadership.
    #[arg(value_parser = parse_name)]
    pub name: String,
    /// Print JSON, one line per change.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub endpoints: EndpointArgs,
}

/// Options of `conclave why`.
#[derive(Debug, Args)]
#[command(after_help = WHY_EXAMPLES)]
pub struct WhyArgs {
    /// Name of a lock or leadership, or the 16 hexadecimal digits of a session.
    #[arg(value_name = "NAME|SESSION", value_parser = parse_name)]
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
    /// Name of the lock or leadership.
    #[arg(value_parser = parse_name)]
    pub name: String,
    /// Required, because it is not safe by itself: the holder may still be working when the next one is granted the name.
    #[arg(long, required = true)]
    pub force: bool,
    /// Reason, shown to the holder and kept in the history.
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    pub reason: String,
    /// Release it only from the holder with this fencing token.
    #[arg(long, value_name = "N")]
    pub token: Option<u64>,
    #[command(flatten)]
    pub endpoints: EndpointArgs,
}

/// Options of `conclave sessions`.
#[derive(Debug, Args)]
#[command(after_help = SESSIONS_EXAMPLES)]
pub struct SessionsArgs {
    /// End this session, given by its 16 hexadecimal digits: what it holds is taken from it. Not safe by itself, since its
    /// client may still be working when the next one is granted the same.
    #[arg(long, value_name = "SESSION", value_parser = parse_session, requires = "reason")]
    pub end: Option<u64>,
    /// Reason, shown to its client and kept in the history.
    #[arg(long, value_name = "TEXT", value_parser = parse_reason, requires = "end")]
    pub reason: Option<String>,
    /// Print JSON, one line per session.
    #[arg(long, conflicts_with = "end")]
    pub json: bool,
    #[command(flatten)]
    pub endpoints: EndpointArgs,
}

/// Options of `conclave token`.
#[derive(Debug, Args)]
#[command(after_help = TOKEN_EXAMPLES)]
pub struct TokenArgs {
    /// What to do with it.
    #[command(subcommand)]
    pub action: TokenAction,
}

/// What can be done with a token.
#[derive(Debug, Subcommand)]
pub enum TokenAction {
    /// Tell whether a fencing token is still held, and exit with 0 only then.
    #[command(after_help = TOKEN_EXAMPLES)]
    Check(TokenCheckArgs),
}

/// Options of `conclave token check`.
#[derive(Debug, Args)]
pub struct TokenCheckArgs {
    /// Name of the lock or leadership.
    #[arg(value_parser = parse_name)]
    pub name: String,
    /// The fencing token: CONCLAVE_TOKEN of a command that runs under 'conclave lock'.
    #[arg(value_name = "TOKEN")]
    pub token: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub endpoints: EndpointArgs,
}

/// Options of `conclave status`.
#[derive(Debug, Args)]
#[command(after_help = STATUS_EXAMPLES)]
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

The file, for all nodes and all clients of a cluster; each node takes the subdirectory of its number in 'data':
  data = \"/var/lib/conclave\"
  [nodes]
  1 = \"10.0.0.1:7400\"
  2 = \"10.0.0.2:7400\"
  3 = \"10.0.0.3:7400\"

Ctrl-C and SIGTERM stop it; a leader hands over first. CONCLAVE_LOG sets what is logged (default: info,openraft=error). \
Exit codes: 0 stopped on request, 1 stopped because of an error, 2 could not start.";

const LOCK_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave lock nightly-backup -- ./backup.sh
  conclave lock nightly-backup --skip-if-held -- ./backup.sh
  conclave lock db/users db/orders --wait 5s -- ./migrate.sh
  conclave lock gpu --permits 4 -- ./train.sh

The environment of the command has CONCLAVE_TOKEN, the fencing token: pass it to whatever the command writes to, and let that \
refuse smaller ones. CONCLAVE_LOCK is the name; of several names, which may contain spaces, CONCLAVE_LOCKS has one in each line.

If the lock is lost, the command and everything it started gets SIGTERM, and SIGKILL in time: before anybody else can get the \
lock. This also holds if 'conclave lock' itself is killed or stopped. Counted from the last renewal, SIGKILL is sent after the TTL \
less 1 % and 10 ms and less a twentieth of it (at most 2 s), SIGTERM the grace before that: with the defaults after 9.39 s and \
6.06 s. A job that Ctrl-Z stops until SIGTERM is due loses its lock and its command.

The lock is held until the command and everything it started has ended; --release-on-exit gives it back when the command \
itself ends. Nested 'conclave lock' commands are separate holders: take several locks at once ('conclave lock A B'), so that two \
scripts cannot wait for each other.

Exit codes: that of the command (128 + n if signal n ended it), 120 somebody else has it (--try), 121 not granted in time \
(--wait), 122 lost while the command ran, 123 the service does not answer, 124 refused, 126 the command cannot be run, 127 \
there is no such command, 2 wrong usage. A command may use these codes as well; -E chooses another for 120 and 121.";

const ELECT_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave elect scheduler -- ./scheduler
  conclave elect scheduler --value 10.0.0.7:8080 --again --probe 'mountpoint -q /data' -- ./scheduler
  conclave observe scheduler

The environment of the command has CONCLAVE_LEADER, the name, and CONCLAVE_TERM, the term, which is a fencing token as well \
(CONCLAVE_TOKEN). How the command ends when the leadership is lost is as with 'conclave lock'.

With --again, it campaigns until the command ends by itself or a signal ends it. After a loss it pauses first: 0.2 to 0.4 s, twice \
as long after each short term, up to 30 s; a term of a minute (and three TTLs) starts this over. --try and --wait are for each \
campaign by itself. The --probe command also runs before each campaign, which begins when it succeeds; then CONCLAVE_TERM is \
empty. A check of something that only the command provides passes until there is a term: \
--probe 'test -z \"$CONCLAVE_TERM\" || curl -fs localhost:8080/health'.

Exit codes: that of the command (128 + n if signal n ended it), 120 somebody else leads (--try), 121 not elected in time (--wait), \
122 lost while the command ran, 123 the service does not answer, 124 refused, 126 the command cannot be run, 127 there is no \
such command, 2 wrong usage. With --again, 122 and 123 lead to another campaign instead.";

const LS_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave ls
  conclave ls db/ --watch

Exit codes: 0 listed, even if there is nothing to list, 123 the service does not answer, 124 it refuses, 2 wrong usage. --watch goes \
on until it is ended, or nobody reads its output (0).";

const SHOW_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave show nightly-backup
  conclave show nightly-backup --json

Exit codes: 0 shown, also if it is free but remembered, 1 the service knows nothing of this name (--json prints null), 123 the service \
does not answer, 124 it refuses, 2 wrong usage. Whether somebody holds it is in the output, not in the exit code.";

const OBSERVE_EXAMPLES: &str = "\x1b[1;4mExample:\x1b[0m
  conclave observe scheduler --json

It goes on until it is ended. Exit codes: 0 nobody reads its output any more, 123 the service does not answer, 124 it refuses, 2 wrong \
usage.";

const WHY_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave why nightly-backup           why its first waiter waits
  conclave why 5f3a9c0e12d4b687         why this session waits

Exit codes: 0 explained, 1 nothing waits, 123 the service does not answer, 124 it refuses, 2 wrong usage.";

const RELEASE_EXAMPLES: &str = "\x1b[1;4mExample:\x1b[0m
  conclave release nightly-backup --force --reason 'host is gone for good'

The holder is told and its token is stale from then on, but it may not have stopped yet: only a resource that checks tokens is \
safe from it. Exit codes: 0 released, 1 nobody holds it (or not with this --token), 123 the service does not answer, \
124 it refuses, 2 wrong usage.";

const SESSIONS_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave sessions
  conclave sessions --end 5f3a9c0e12d4b687 --reason 'host is gone for good'

Every 'conclave lock' and every client has a session; what it holds is freed when it ends, or when it was silent for its TTL. \
Exit codes: 0 listed or ended, 1 there is no such session, 123 the service does not answer, 124 it refuses, 2 wrong usage.";

const TOKEN_EXAMPLES: &str = "\x1b[1;4mExample:\x1b[0m
  conclave token check nightly-backup \"$CONCLAVE_TOKEN\" && upload

The answer is as of now: the token may be worth nothing a moment later. What must be sure passes the token on, to a resource that \
refuses older ones. Exit codes: 0 it is held, 1 it is not (released, stale or unknown), 123 the service does not answer, 124 it \
refuses, 2 wrong usage.";

const STATUS_EXAMPLES: &str = "\x1b[1;4mExample:\x1b[0m
  conclave status --endpoints 127.0.0.1:7401

One node is enough to find the others. Exit codes: 0 requests are served, 1 they are not: no node answers, or no majority of \
them does, 2 wrong usage.";

const BENCH_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave bench uncontended --clients 64 --seconds 5
  conclave bench handoff --clients 8 --target conclave=127.0.0.1:7401,127.0.0.1:7402 --target etcd=127.0.0.1:2379

benches/compare.sh starts a cluster of each kind and compares them all.";

#[cfg(test)]
mod tests {
    /// All but `bench`, which measures.
    #[test]
    fn every_command_tells_its_exit_codes() {
        let mut command = crate::args::command();
        for name in [
            "serve", "lock", "elect", "ls", "show", "why", "observe", "release", "sessions", "token",
            "status",
        ] {
            let command = command.find_subcommand_mut(name).expect("it is a command");
            // However the lines are wrapped.
            let help = command.render_long_help().to_string();
            let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(help.contains("Exit codes: ") && help.contains(" 2 "), "{name}:\n{help}");
            if !["serve", "status"].contains(&name) {
                assert!(help.contains(" 123 ") && help.contains(" 124 "), "{name}:\n{help}");
            }
        }
    }
}
