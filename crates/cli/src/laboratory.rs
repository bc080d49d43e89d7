//! The commands about the algorithms: `list`, `sim`, `check`, `replay`, and real processes.

pub mod args;
mod check;
mod cluster;
mod files;
mod list;
mod node;
mod output;
mod replay;
mod sim;
mod survival;

use crate::args::Typed;
use crate::failure::{Failure, Verdict, nearest};
use args::{Given, LaboratoryCommand};

/// Does what a command asks for.
pub fn run(command: &LaboratoryCommand, typed: &Typed) -> Result<Verdict, Failure> {
    match command {
        LaboratoryCommand::List(args) => list::run(args),
        LaboratoryCommand::Sim(args) => sim::run(args, &Given::of(typed)),
        LaboratoryCommand::Check(args) => check::run(args),
        LaboratoryCommand::Replay(args) => replay::run(args),
        LaboratoryCommand::Cluster(args) => cluster::run(args),
        LaboratoryCommand::Node(args) => node::run(args),
        LaboratoryCommand::Cert(args) => node::certificates(args),
    }
}

/// The sentence about an algorithm that does not exist.
pub fn no_such_algorithm(name: &str) -> Failure {
    let known = conclave_algorithms::registry::all();
    let meant = nearest(name, known.iter().map(|about| about.name));
    let guess = meant.map_or_else(String::new, |meant| format!("; did you mean '{meant}'?"));
    Failure::new(format!("there is no algorithm '{name}'{guess}")).hint("'conclave list' shows all of them")
}
