//! Options of `conclave step`.

use std::path::PathBuf;

use clap::Args;
use conclave_core::NodeId;

use super::{ChannelsArg, Ids, parse_ids, parse_locks, parse_n, parse_setting, parse_stamp};

/// Options of `conclave step`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct StepArgs {
    /// The algorithm; `conclave list` shows all.
    #[arg(required_unless_present = "script", conflicts_with = "script")]
    pub algo: Option<String>,
    /// Play this script first, and go on from its end.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["n", "ids", "set", "stamp", "mutant", "channels", "locks"])]
    pub script: Option<PathBuf>,
    /// How many processes [default: 3].
    #[arg(short, value_name = "N", value_parser = parse_n, allow_hyphen_values = true)]
    pub n: Option<u32>,
    /// The ids of the processes, in ring order, e.g. 3,17,4 [default: 1,2,...,n].
    #[arg(long, value_parser = parse_ids, allow_hyphen_values = true)]
    pub ids: Option<Ids>,
    /// A setting of the algorithm; `conclave list ALGO` shows them.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_setting)]
    pub set: Vec<(String, String)>,
    /// What the logical clock of a process shows at the start, e.g. '4=1020' (repeatable).
    #[arg(long, value_name = "P=N", value_parser = parse_stamp, allow_hyphen_values = true)]
    pub stamp: Vec<(NodeId, u64)>,
    /// Run a mutant instead; `conclave list --mutants` shows them.
    #[arg(long, value_name = "NAME")]
    pub mutant: Option<String>,
    /// The order in which messages may arrive [default: what the algorithm asks for].
    #[arg(long, value_enum)]
    pub channels: Option<ChannelsArg>,
    /// How many locks there are.
    #[arg(long, value_name = "K", default_value = "1", value_parser = parse_locks, allow_hyphen_values = true)]
    pub locks: usize,
    /// Write all of it as a script at the end.
    #[arg(long, value_name = "FILE")]
    pub save_script: Option<PathBuf>,
}

const EXAMPLES: &str =
    "Lines are read from standard input: the number of what shall happen next, a command of a script such
as 'request 1' or 'crash 2', or 'back', 'state', 'properties', 'save FILE', 'help', 'quit'.

\x1b[1;4mExamples:\x1b[0m
  conclave step ricart-agrawala -n 3
  conclave step bully --ids 0,1,3,4,5,6 --save-script mine.txt
  conclave step --script mine.txt
  printf 'request 1\\n1\\n2\\n' | conclave step central

Exit codes: 0 nothing is broken, 1 a promise is broken, 2 wrong usage.";
