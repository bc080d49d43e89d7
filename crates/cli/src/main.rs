//! The `conclave` command.
//!
//! `args` says what can be asked for, one module per command does it, `output` says it to people, `files` writes what
//! was asked for into files. Exit codes: 0 all held, 1 a property failed or what was asked for did not happen, 2 wrong
//! usage or input.

mod args;
mod check;
mod child;
mod cluster;
mod failure;
mod files;
mod list;
mod node;
mod output;
mod replay;
mod service;
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
        Command::Serve(args) => service::serve::run(args),
        Command::Lock(args) => service::hold::lock(args),
        Command::Elect(args) => service::hold::elect(args),
        Command::Ls(args) => service::see::ls(args),
        Command::Show(args) => service::see::show(args),
        Command::Why(args) => service::see::why(args),
        Command::Observe(args) => service::see::observe(args),
        Command::Release(args) => service::see::release(args),
        Command::Status(args) => service::see::status(args),
        Command::Bench(args) => bench(args),
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

/// Measures; what fails while it is measured is no wrong usage.
fn bench(args: &conclave_bench::BenchArgs) -> Result<Verdict, Failure> {
    match args.clone().run(&mut std::io::stdout(), &mut std::io::stderr()) {
        Ok(()) => Ok(Verdict::Held),
        Err(error) if error.is_wrong_usage() => Err(Failure::new(error)),
        Err(error) => {
            Failure::new(error).print();
            Ok(Verdict::Failed)
        }
    }
}
