//! What can be asked for on the command line.

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;

/// A replicated lock and leader service, and a laboratory for the classic algorithms of distributed coordination.
#[derive(Debug, Parser)]
#[command(name = "conclave", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    #[cfg(feature = "service")]
    #[command(flatten)]
    Service(crate::service::args::ServiceCommand),
    #[cfg(feature = "laboratory")]
    #[command(flatten)]
    Laboratory(crate::laboratory::args::LaboratoryCommand),
    /// Print a script that lets a shell complete commands and options.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// Everything that the command line knows.
pub fn command() -> clap::Command {
    Cli::command()
}

/// A command as it was typed, for those who want to know what was and what was not.
#[cfg_attr(not(feature = "laboratory"), expect(dead_code, reason = "only the laboratory asks"))]
pub struct Typed {
    /// Everything that the command line knows.
    pub command: clap::Command,
    /// What was typed of it.
    pub matches: ArgMatches,
}

/// Reads the command line.
pub fn parse() -> Result<(Command, Typed), clap::Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    Ok((cli.command, Typed { command, matches }))
}

/// The completion script for a shell.
pub fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "conclave", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(all(feature = "service", feature = "laboratory"))]
const EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave serve
  conclave lock nightly-backup -- ./backup.sh
  conclave list
  conclave sim ricart-agrawala -n 3 --entries 1
  conclave check ricart-agrawala -n 3
  conclave cluster start ricart-agrawala -n 3

Exit codes: 0 all held, 1 a property failed or what was asked for did not happen, 2 wrong usage or input; 'conclave lock --help' \
has those of the service.";

#[cfg(not(feature = "laboratory"))]
const EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave serve
  conclave lock nightly-backup -- ./backup.sh
  conclave status

Exit codes: 0 it was done, 1 it was not, 2 wrong usage, 123 the service does not answer; 'conclave lock --help' has the others.";

#[cfg(not(feature = "service"))]
const EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave list
  conclave sim ricart-agrawala -n 3 --entries 1
  conclave check ricart-agrawala -n 3
  conclave cluster start ricart-agrawala -n 3

Exit codes: 0 all held, 1 a property failed or what was asked for did not happen, 2 wrong usage or input.";

const COMPLETIONS_EXAMPLES: &str = "\x1b[1;4mExample:\x1b[0m
  conclave completions bash > ~/.local/share/bash-completion/completions/conclave";
