//! Options of the commands about real processes.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use conclave_algorithms::Name;
use conclave_core::{Deviation, NodeId};
use conclave_sim::clocks::ClockSetting;
use conclave_sim::span::parse_time;

use super::{GROUP, Ids, OutputArgs, parse_ids, parse_n, parse_setting};

/// Options of `conclave node`.
#[derive(Debug, Args)]
#[command(after_help = NODE_EXAMPLES)]
pub struct NodeArgs {
    /// The file that says what this process is.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Which of the processes, if the file is that of all of them.
    #[arg(long, value_name = "NODE", value_parser = parse_id)]
    pub id: Option<NodeId>,
    /// Stop when standard input ends: a parent that dies takes this process with it.
    #[arg(long)]
    pub with_parent: bool,
}

/// Options of `conclave cert`.
#[derive(Debug, Args)]
#[command(after_help = CERT_EXAMPLES)]
pub struct CertArgs {
    /// Where the certificates are written; nothing that is there is overwritten.
    pub dir: PathBuf,
    /// The name of the group.
    #[arg(long)]
    pub cluster: String,
    /// The ids of its processes, e.g. 1,2,3.
    #[arg(long, value_parser = parse_ids, allow_hyphen_values = true)]
    pub ids: Ids,
}

/// Options of `conclave cluster`.
#[derive(Debug, Args)]
#[command(after_help = CLUSTER_EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub struct ClusterArgs {
    /// Which cluster, if several are running.
    #[arg(long, value_name = "NAME", global = true)]
    pub cluster: Option<String>,
    /// The file of a cluster whose processes are on any machines.
    #[arg(long, value_name = "FILE", global = true, conflicts_with = "cluster")]
    pub config: Option<PathBuf>,
    #[command(subcommand)]
    pub command: ClusterCommand,
}

/// What can be done with a cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Start real processes on this machine, and stay as a small console.
    Start(StartArgs),
    /// Say who is who, and how everybody stands.
    Status {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run a command while holding a lock.
    #[command(after_help = LOCK_EXAMPLES)]
    Lock(LockArgs),
    /// Hold an election, and say who won.
    Elect {
        /// The process that starts it [default: the first that is up].
        #[arg(long, value_name = "NODE", value_parser = parse_id)]
        via: Option<NodeId>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Ask a process for something, in the words of its algorithm's family: `start`, `begin`.
    Ask {
        /// Which process.
        #[arg(value_parser = parse_id)]
        process: NodeId,
        /// For what.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Take a global snapshot: what each process was doing, and what was in flight between them. The cluster must have been
    /// started with --set snapshots=on.
    Snapshot {
        /// The process that begins it [default: the first that is up].
        #[arg(long, value_name = "NODE", value_parser = parse_id)]
        via: Option<NodeId>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print what the algorithm tells at a process, as it happens, until Ctrl-C.
    Tail {
        /// Which process.
        #[arg(value_parser = parse_id)]
        process: NodeId,
        /// Print this many events, then end.
        #[arg(long, value_name = "N")]
        count: Option<u64>,
    },
    /// End a process without a word (SIGKILL).
    Kill {
        /// Which.
        #[arg(value_parser = parse_id)]
        process: NodeId,
    },
    /// Start a process again; if it is up, it is shut down first.
    Restart {
        /// Which.
        #[arg(value_parser = parse_id)]
        process: NodeId,
    },
    /// Make a process stand still (SIGSTOP).
    Pause {
        /// Which.
        #[arg(value_parser = parse_id)]
        process: NodeId,
    },
    /// Let it go on (SIGCONT).
    Resume {
        /// Which.
        #[arg(value_parser = parse_id)]
        process: NodeId,
    },
    /// Cut the links between groups of processes: 1,2/3,4,5.
    Cut {
        /// The groups.
        #[arg(value_parser = parse_groups)]
        groups: Groups,
    },
    /// Heal what was cut.
    Heal {
        /// Between these groups [default: everywhere].
        #[arg(value_parser = parse_groups)]
        groups: Option<Groups>,
    },
    /// Put together what all processes have written down, and judge it.
    Trace {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show all clusters.
    List,
    /// End all processes.
    Stop,
}

/// Options of `conclave cluster start`.
#[derive(Debug, Args)]
pub struct StartArgs {
    /// The algorithm; `conclave list` shows all.
    pub algo: String,
    /// How many processes [default: 3].
    #[arg(short, value_name = "N", value_parser = parse_n, allow_hyphen_values = true, help_heading = GROUP)]
    pub n: Option<u32>,
    /// The ids of the processes, in ring order, e.g. 3,17,4 [default: 1,2,...,n].
    #[arg(long, value_parser = parse_ids, allow_hyphen_values = true, help_heading = GROUP)]
    pub ids: Option<Ids>,
    /// A setting of the algorithm; `conclave list ALGO` shows them.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_setting, help_heading = GROUP)]
    pub set: Vec<(String, String)>,
    /// The longest time that a message travels; time-outs of the algorithm follow from it.
    #[arg(long, value_name = "T", default_value = "50ms", value_parser = parse_span, help_heading = GROUP)]
    pub transmission: Duration,
    /// The shortest silence that makes a process a suspect.
    #[arg(long, value_name = "T", default_value = "500ms", value_parser = parse_span, help_heading = GROUP)]
    pub suspect_after: Duration,
    /// Make the clock of a process wrong, e.g. 3=+20ms,50ppm (repeatable).
    #[arg(long, value_name = "P=DEVIATION", value_parser = parse_clock, help_heading = GROUP)]
    pub clock: Vec<(NodeId, Deviation)>,
    /// Write nothing down; `conclave cluster trace` has nothing to show then.
    #[arg(long)]
    pub no_record: bool,
    /// Go to the background once all are up; `conclave cluster stop` ends it.
    #[arg(long)]
    pub detach: bool,
}

/// Options of `conclave cluster lock`.
#[derive(Debug, Args)]
pub struct LockArgs {
    /// The lock; it is made when it is first asked for.
    #[arg(value_parser = parse_name)]
    pub name: Name,
    /// The process to go through [default: the first that is up].
    #[arg(long, value_name = "NODE", value_parser = parse_id)]
    pub via: Option<NodeId>,
    /// Give up after so long: 5s [default: never].
    #[arg(long, value_name = "T", value_parser = parse_span)]
    pub wait: Option<Duration>,
    /// The command.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,
}

/// `3=+20ms,50ppm`: from the start on.
fn parse_clock(text: &str) -> Result<(NodeId, Deviation), String> {
    let ClockSetting { process, at, deviation } = text.parse()?;
    if at > 0 {
        return Err("the clock of a real process is wrong from its start on".into());
    }
    Ok((process, deviation))
}

/// Groups that are parted from each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups(pub Vec<Vec<NodeId>>);

pub(super) fn parse_id(text: &str) -> Result<NodeId, String> {
    let digits = text.strip_prefix('p').unwrap_or(text);
    digits.parse().map(NodeId).map_err(|_| format!("'{text}' is not the id of a process"))
}

fn parse_name(text: &str) -> Result<Name, String> {
    Name::new(text).map_err(|error| error.to_string())
}

pub fn parse_span(text: &str) -> Result<Duration, String> {
    match parse_time(text)? {
        0 => Err("this must take some time".into()),
        micros => Ok(Duration::from_micros(micros)),
    }
}

fn parse_groups(text: &str) -> Result<Groups, String> {
    let group = |text: &str| text.split(',').map(parse_id).collect::<Result<Vec<_>, _>>();
    let groups = text.split('/').map(group).collect::<Result<Vec<_>, _>>()?;
    let mut seen = std::collections::BTreeSet::new();
    if let Some(twice) = groups.iter().flatten().find(|id| !seen.insert(**id)) {
        return Err(format!("{twice} cannot be on both sides"));
    }
    if groups.len() < 2 { Err("name two groups, as in 1,2/3".into()) } else { Ok(Groups(groups)) }
}

const NODE_EXAMPLES: &str = "\x1b[1;4mExample:\x1b[0m
  conclave node --config node-1.toml

The file, for process 1 of 3 (docs/live.md tells the rest):
  cluster = \"lab\"
  algorithm = \"ricart-agrawala\"
  id = 1
  data = \"node-1\"
  peers = [
    { id = 1, address = \"127.0.0.1:7001\" },
    { id = 2, address = \"127.0.0.1:7002\" },
    { id = 3, address = \"127.0.0.1:7003\" },
  ]

It stops at Ctrl-C and SIGTERM. Exit codes: 0 it was told to stop, 1 it stopped by itself, 2 it could not start.";

const CERT_EXAMPLES: &str = "\x1b[1;4mExample:\x1b[0m
  conclave cert certs --cluster lab --ids 1,2,3

Writes certs/authority.pem for everybody, and node-1.pem and node-1.key for process 1 alone.";

const CLUSTER_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave cluster start ricart-agrawala -n 5
  conclave cluster lock backup --via 3 -- ./backup.sh
  conclave cluster kill 2 && conclave cluster status
  conclave cluster cut 1,2/3,4,5
  conclave cluster trace --svg run.svg
  conclave cluster stop

Exit codes: 0 done, 1 it did not happen or a property failed, 2 wrong usage; `lock` has its own.";

const LOCK_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave cluster lock backup -- ./backup.sh
  conclave cluster lock backup --via 3 --wait 5s -- sh -c 'echo $CONCLAVE_FENCE'

The command finds in its environment CONCLAVE_LOCK, the name; CONCLAVE_FENCE, the proof of this entry; and CONCLAVE_FENCE_ORDER, \
the same so that later ones sort after earlier ones as texts. If the lock is lost it and what it started are told to end (SIGTERM), and killed \
after 2 seconds.

Exit codes: that of the command (128 + n if signal n ended it), 1 not granted in time, 2 wrong usage, 3 the lock was lost, \
126 the command cannot be run, 127 there is no such command.";
