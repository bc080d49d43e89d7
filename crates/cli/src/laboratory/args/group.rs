//! Options of `conclave group`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use conclave_core::NodeId;

use super::live::{parse_id, parse_span};
use super::{GROUP, parse_n, parse_setting};

/// Options of `conclave group`.
#[derive(Debug, Args)]
#[command(after_help = GROUP_EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub struct GroupArgs {
    #[command(subcommand)]
    pub command: GroupCommand,
}

/// What can be done with a group.
#[derive(Debug, Subcommand)]
pub enum GroupCommand {
    /// Run one member in this terminal and print what it delivers, until Ctrl-C.
    #[command(after_help = JOIN_EXAMPLES)]
    Join(Box<JoinArgs>),
    /// Send a text to the group, or every line of standard input.
    #[command(after_help = SEND_EXAMPLES)]
    Send(SendArgs),
    /// Print what a member delivers, in its order, until Ctrl-C.
    #[command(after_help = TAIL_EXAMPLES)]
    Tail(TailArgs),
}

/// Which group.
#[derive(Debug, Args)]
pub struct GroupName {
    /// The name of the group.
    #[arg(index = 1)]
    pub name: String,
    /// The file of a group whose members are on any machines; see `conclave node`.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Options of `conclave group join`.
#[derive(Debug, Args)]
pub struct JoinArgs {
    #[command(flatten)]
    pub group: GroupName,
    /// Which member this is [default: the first that does not run].
    #[arg(long, value_name = "NODE", value_parser = parse_id)]
    pub id: Option<NodeId>,
    /// The order of delivery: basic, reliable, fifo, causal, total, or the name of a multicast algorithm [default: total].
    #[arg(long, value_name = "ORDER", conflicts_with = "config", help_heading = GROUP)]
    pub order: Option<String>,
    /// How many members there can be [default: 3].
    #[arg(short, value_name = "N", value_parser = parse_n, allow_hyphen_values = true, conflicts_with = "config", help_heading = GROUP)]
    pub n: Option<u32>,
    /// A setting of the algorithm; `conclave list ALGO` shows them.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_setting, conflicts_with = "config", help_heading = GROUP)]
    pub set: Vec<(String, String)>,
    /// Where this member listens, an address of this machine [default: a free port].
    #[arg(long, value_name = "ADDRESS", requires = "peers", conflicts_with_all = ["config", "n", "id"], help_heading = GROUP)]
    pub listen: Option<SocketAddr>,
    /// Where the others listen.
    #[arg(long, value_name = "ADDRESS,...", value_delimiter = ',', requires = "listen", help_heading = GROUP)]
    pub peers: Vec<SocketAddr>,
    /// The longest time that a message travels; time-outs of the algorithm follow from it [default: 50ms].
    #[arg(long, value_name = "T", value_parser = parse_span, conflicts_with = "config", help_heading = GROUP)]
    pub transmission: Option<Duration>,
    /// The shortest silence that makes a member a suspect [default: 500ms].
    #[arg(long, value_name = "T", value_parser = parse_span, conflicts_with = "config", help_heading = GROUP)]
    pub suspect_after: Option<Duration>,
    /// Write nothing down; there is no trace then, and `tail --all` has nothing to show.
    #[arg(long, conflicts_with = "config", help_heading = GROUP)]
    pub no_record: bool,
    /// Begin anew: forget an earlier group of this name, of which no member runs.
    #[arg(long, conflicts_with = "config", help_heading = GROUP)]
    pub new: bool,
    /// Print nothing that is delivered.
    #[arg(long, conflicts_with = "json")]
    pub quiet: bool,
    /// Print a line of JSON for each event.
    #[arg(long)]
    pub json: bool,
}

/// Options of `conclave group send`.
#[derive(Debug, Args)]
pub struct SendArgs {
    #[command(flatten)]
    pub group: GroupName,
    /// The member to send through [default: the first that runs].
    #[arg(long, value_name = "NODE", value_parser = parse_id)]
    pub via: Option<NodeId>,
    /// The text; without one, every line of standard input is sent.
    #[arg(index = 2, trailing_var_arg = true, allow_hyphen_values = true)]
    pub text: Vec<String>,
}

/// Options of `conclave group tail`.
#[derive(Debug, Args)]
pub struct TailArgs {
    #[command(flatten)]
    pub group: GroupName,
    /// The member to listen at [default: the first that runs].
    #[arg(long, value_name = "NODE", value_parser = parse_id)]
    pub via: Option<NodeId>,
    /// Begin with what the member delivered since it was started.
    #[arg(long)]
    pub all: bool,
    /// Print this many events, then end.
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Print a line of JSON for each event.
    #[arg(long)]
    pub json: bool,
}

const GROUP_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave group join chat           in each of three terminals
  conclave group send chat hello     in another one
  conclave group tail chat --all

Ctrl-C leaves the group. docs/groups.md tells more.

Exit codes: 0 done, 1 it did not happen, 2 wrong usage.";

const JOIN_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave group join chat
  conclave group join chat --order causal -n 5
  conclave group join chat --listen 127.0.0.1:7001 --peers 127.0.0.1:7002,127.0.0.1:7003
  conclave group join lab --config lab.toml --id 2

The first member decides what the group is; the others are started without these options, or with the same. \
A member that leaves by Ctrl-C can be started again.";

const SEND_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave group send chat hello everybody
  conclave group send chat --via 2 'two  blanks and a \"quote\"'
  seq 10 | conclave group send chat

'sent' means that the member has taken the text over. Others that run deliver it as the order promises.";

const TAIL_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave group tail chat
  conclave group tail chat --via 2 --all --count 10
  conclave group tail chat --json | jq -r 'select(.event == \"delivered\") | .text'

It ends with 1 when the member does.";
