//! The `conclave` command.
//!
//! `args` says what can be asked for, one module per command does it, `output` says it to people, `files` writes what
//! was asked for into files. Exit codes: 0 all held, 1 a property failed or what was asked for did not happen, 2 wrong
//! usage or input.

mod args;
mod child;
mod failure;
#[cfg(feature = "laboratory")]
mod laboratory;
mod output;
#[cfg(feature = "service")]
mod service;
mod usage;

use std::process::ExitCode;

use args::{Command, Typed};
use failure::{Failure, Verdict};

fn main() -> ExitCode {
    if let Some(code) = child::run_hidden() {
        return code;
    }
    let (command, typed) = match args::parse() {
        Ok(parsed) => parsed,
        Err(error) => return usage::explain(&error),
    };
    match run(&command, &typed) {
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
fn run(command: &Command, typed: &Typed) -> Result<Verdict, Failure> {
    match command {
        #[cfg(feature = "service")]
        Command::Service(command) => service::run(command),
        #[cfg(feature = "laboratory")]
        Command::Laboratory(command) => laboratory::run(command, typed),
        Command::Completions { shell } => {
            output::show(&args::completions(*shell))?;
            Ok(Verdict::Held)
        }
    }
}
