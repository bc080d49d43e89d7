//! Options of `conclave example`.

use clap::Args;

use super::OutputArgs;

/// Options of `conclave example`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExampleArgs {
    /// The example [default: list all of them].
    pub name: Option<String>,
    /// List those of one algorithm or family only.
    #[arg(long, value_name = "ALGO", conflicts_with = "name")]
    pub of: Option<String>,
    /// Print the script, to be saved and changed, instead of playing it.
    #[arg(long, requires = "name")]
    pub print: bool,
    /// Tell what is sent and told only, and not what changes inside the processes.
    #[arg(long, requires = "name")]
    pub brief: bool,
    /// Ask the same of real processes on this machine, and judge what they do. Messages and time-outs are left to the
    /// network; only where processes are asked and crash, as in elections.
    #[arg(long, requires = "name")]
    pub live: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

const EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave example                              every example, a line each
  conclave example lock-manager                 one of them, step by step
  conclave example bully-4-notices --svg run.svg
  conclave example bully-4-notices --live       with real processes
  conclave example ricart-agrawala-tie --print > mine.txt

Exit codes: 0 it came out as recorded, also where it shows a broken property; 1 it did not; 2 wrong usage.";
