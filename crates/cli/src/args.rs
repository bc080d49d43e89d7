//! What can be asked for on the command line.

use clap::builder::StyledStr;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;

#[cfg(feature = "laboratory")]
use crate::program;

/// A replicated lock and leader service, and a laboratory for the classic algorithms of distributed coordination.
#[derive(Debug, Parser)]
#[command(name = "conclave", version, arg_required_else_help = true, after_help = EXAMPLES)]
#[cfg_attr(
    not(feature = "laboratory"),
    command(about = "A replicated lock and leader service", long_about = None)
)]
#[cfg_attr(
    not(feature = "service"),
    command(about = "A laboratory for the classic algorithms of distributed coordination", long_about = None)
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The laboratory alone, in a program around algorithms of one's own.
#[cfg(feature = "laboratory")]
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
struct OwnCli {
    #[command(subcommand)]
    command: OwnCommand,
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
    #[command(flatten)]
    Common(Common),
}

/// The commands of a program around algorithms of one's own.
#[cfg(feature = "laboratory")]
#[derive(Debug, Subcommand)]
enum OwnCommand {
    #[command(flatten)]
    Laboratory(crate::laboratory::args::LaboratoryCommand),
    #[command(flatten)]
    Common(Common),
}

#[cfg(feature = "laboratory")]
impl From<OwnCommand> for Command {
    fn from(command: OwnCommand) -> Self {
        match command {
            OwnCommand::Laboratory(command) => Self::Laboratory(command),
            OwnCommand::Common(command) => Self::Common(command),
        }
    }
}

/// The commands about the command line itself.
#[derive(Debug, Subcommand)]
pub enum Common {
    /// Print a script that lets a shell complete what is typed.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write manual pages, one for each command.
    #[command(after_help = MAN_EXAMPLES)]
    Man {
        /// The directory to write them into [default: print the first page].
        dir: Option<std::path::PathBuf>,
    },
}

/// Everything that the command line knows.
pub fn command() -> clap::Command {
    #[cfg(feature = "laboratory")]
    if let Some(own) = program::own() {
        return own_command(own);
    }
    grouped(Cli::command())
}

#[cfg(feature = "laboratory")]
fn own_command(own: &'static program::Own) -> clap::Command {
    let (name, first) = (&own.name, own.algorithms.first().unwrap_or(&"ricart-agrawala"));
    let about = match own.algorithms.as_slice() {
        [] => "A laboratory for the classic algorithms of distributed coordination".to_owned(),
        names => format!("A laboratory for {} and the classic algorithms", names.join(", ")),
    };
    let examples = format!(
        "\x1b[1;4mExamples:\x1b[0m
  {name} list {first}
  {name} sim {first} -n 3
  {name} check {first} -n 3
  {name} cluster start {first} -n 3

{EXIT_CODES}"
    );
    // Only clap's own type for names takes one that is not known before the program runs, and it must live as long.
    let command = OwnCli::command().name(name.as_str()).bin_name(name).about(about).after_help(examples);
    grouped(renamed(command))
}

/// Texts that tell what to type, for this program.
#[cfg(feature = "laboratory")]
fn renamed(command: clap::Command) -> clap::Command {
    let text = |text: Option<&StyledStr>| text.map(|text| program::renamed(&text.ansi().to_string()));
    let after = text(command.get_after_help());
    let command = match after {
        Some(after) => command.after_help(after),
        None => command,
    };
    command
        .mut_args(|arg| match text(arg.get_help()) {
            Some(help) => arg.help(help.replace("`conclave ", &format!("`{} ", program::name()))),
            None => arg,
        })
        .mut_subcommands(renamed)
}

/// The commands under the names of what they are about, in place of one long list.
fn grouped(command: clap::Command) -> clap::Command {
    #[cfg(feature = "service")]
    let service = names(&crate::service::args::ServiceCommand::augment_subcommands(clap::Command::new("")));
    #[cfg(not(feature = "service"))]
    let service = Vec::<String>::new();
    let common = names(&Common::augment_subcommands(clap::Command::new("")));
    let heading = |name: &str| match name {
        name if service.iter().any(|other| other == name) => "Service",
        name if common.iter().any(|other| other == name) => "Command line",
        _ => "Laboratory",
    };
    let width = command.get_subcommands().map(|sub| sub.get_name().len()).max().unwrap_or(0);
    let mut text = String::new();
    for group in ["Service", "Laboratory", "Command line"] {
        let members = command.get_subcommands().filter(|sub| heading(sub.get_name()) == group);
        let lines: String = members
            .filter(|sub| !sub.is_hide_set())
            .map(|sub| {
                let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
                format!("  \x1b[1m{:<width$}\x1b[0m  {about}\n", sub.get_name())
            })
            .collect();
        if !lines.is_empty() {
            text += &format!("\x1b[1;4m{group}:\x1b[0m\n{lines}\n");
        }
    }
    command.help_template(StyledStr::from(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}\x1b[1;4mOptions:\x1b[0m\n{{options}}{{after-help}}"
    )))
}

fn names(command: &clap::Command) -> Vec<String> {
    command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect()
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
    let parsed = read(&matches).map_err(|error| error.format(&mut command))?;
    Ok((parsed, Typed { command, matches }))
}

fn read(matches: &ArgMatches) -> Result<Command, clap::Error> {
    #[cfg(feature = "laboratory")]
    if program::own().is_some() {
        return Ok(OwnCli::from_arg_matches(matches)?.command.into());
    }
    Ok(Cli::from_arg_matches(matches)?.command)
}

#[cfg(feature = "laboratory")]
const EXIT_CODES: &str = "Exit codes: 0 all held, 1 a property failed or what was asked for did not happen, 2 wrong usage or input.";

#[cfg(all(feature = "service", feature = "laboratory"))]
const EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave serve
  conclave lock nightly-backup -- ./backup.sh
  conclave list
  conclave sim ricart-agrawala -n 3 --entries 1
  conclave check ricart-agrawala -n 3
  conclave cluster start ricart-agrawala -n 3

Exit codes: 0 all held, 1 a property failed or what was asked for did not happen, 2 wrong usage or input; \
'conclave lock --help' has those of the service.";

#[cfg(not(feature = "laboratory"))]
const EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave serve
  conclave lock nightly-backup -- ./backup.sh
  conclave status

Exit codes: 0 it was done, 1 it was not, 2 wrong usage, 123 the service does not answer; \
'conclave lock --help' has the others.";

#[cfg(not(feature = "service"))]
const EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave list
  conclave sim ricart-agrawala -n 3 --entries 1
  conclave check ricart-agrawala -n 3
  conclave cluster start ricart-agrawala -n 3

Exit codes: 0 all held, 1 a property failed or what was asked for did not happen, 2 wrong usage or input.";

const COMPLETIONS_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave completions bash > ~/.local/share/bash-completion/completions/conclave
  conclave completions zsh  > ~/.zfunc/_conclave
  conclave completions fish > ~/.config/fish/completions/conclave.fish

The script asks the program, which must be in the PATH, at every Tab: so it knows algorithms, their mutants and their settings.";

const MAN_EXAMPLES: &str = "\x1b[1;4mExamples:\x1b[0m
  conclave man | man -l -
  conclave man ~/.local/share/man/man1 && man conclave-sim";
