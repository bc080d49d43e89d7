//! The `conclave` command.
//!
//! `args` says what can be asked for, one module per command does it, `output` says it to people, `files` writes what
//! was asked for into files. Exit codes: 0 all held, 1 a property failed or what was asked for did not happen, 2 wrong
//! usage or input.

mod args;
mod check;
mod cluster;
mod failure;
mod files;
mod list;
mod node;
mod output;
mod replay;
mod sim;
mod survival;
mod usage;

use std::process::ExitCode;

use args::Command;
use failure::{Failure, Verdict};

fn main() -> ExitCode {
    let (command, given) = match args::parse() {
        Ok(parsed) => parsed,
        Err(error) => return usage::explain(&error),
    };
    match run(&command, &given) {
        Ok(Verdict::Held) => ExitCode::SUCCESS,
        Ok(Verdict::Failed) => ExitCode::from(1),
        Ok(Verdict::Code(code)) => ExitCode::from(code),
        Err(failure) => {
            failure.print();
            ExitCode::from(2)
        }
    }
}

fn run(command: &Command, given: &args::Given) -> Result<Verdict, Failure> {
    match command {
        Command::List(args) => list::run(args),
        Command::Sim(args) => sim::run(args, given),
        Command::Check(args) => check::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Cluster(args) => cluster::run(args),
        Command::Node(args) => node::run(args),
        Command::Cert(args) => node::certificates(args),
        Command::Completions { shell } => {
            output::show(&args::completions(*shell))?;
            Ok(Verdict::Held)
        }
    }
}
