//! The `conclave` command, and the same command line for algorithms of one's own.
//!
//! `args` says what can be asked for, one module per command does it, `output` says it to people, `files` writes what
//! was asked for into files. Exit codes: 0 all held, 1 a property failed or what was asked for did not happen, 2 wrong
//! usage or input.
//!
//! With the feature `laboratory`, `Laboratory` makes the same command line for a program around one's own algorithm.

mod args;
mod child;
mod completion;
mod failure;
#[cfg(feature = "laboratory")]
mod laboratory;
mod manual;
mod output;
mod program;
#[cfg(feature = "service")]
mod service;
mod usage;

use std::process::ExitCode;

use args::{Command, Common, Typed};
use failure::{Failure, Verdict};

#[cfg(feature = "laboratory")]
pub use laboratory::Laboratory;
#[cfg(feature = "laboratory")]
use laboratory::catalogue::Catalogue;

/// What a command may need to know of the program that it belongs to.
struct Context {
    #[cfg(feature = "laboratory")]
    catalogue: Catalogue,
}

/// The `conclave` command.
pub fn main() -> ExitCode {
    start(&Context {
        #[cfg(feature = "laboratory")]
        catalogue: Catalogue::default(),
    })
}

fn start(context: &Context) -> ExitCode {
    if let Some(code) = child::run_hidden() {
        return code;
    }
    if let Some(code) = completion::run(context) {
        return code;
    }
    let (command, typed) = match args::parse() {
        Ok(parsed) => parsed,
        Err(error) => return usage::explain(&error),
    };
    match run(&command, &typed, context) {
        Ok(Verdict::Held) => ExitCode::SUCCESS,
        Ok(Verdict::Failed) => ExitCode::from(1),
        Ok(Verdict::Code(code)) => ExitCode::from(code),
        Err(failure) => {
            failure.print();
            ExitCode::from(2)
        }
    }
}

#[cfg_attr(not(feature = "laboratory"), expect(unused_variables, reason = "only the laboratory asks"))]
fn run(command: &Command, typed: &Typed, context: &Context) -> Result<Verdict, Failure> {
    match command {
        #[cfg(feature = "service")]
        Command::Service(command) => service::run(command),
        #[cfg(feature = "laboratory")]
        Command::Laboratory(command) => laboratory::run(command, typed, &context.catalogue),
        Command::Common(Common::Completions { shell }) => {
            output::show(&completion::script(*shell)?)?;
            Ok(Verdict::Held)
        }
        Command::Common(Common::Man { dir }) => manual::write(dir.as_deref()),
    }
}
