//! The commands about the algorithms: `list`, `example`, `sim`, `step`, `check`, `compare`, `replay`, `order`, and real
//! processes.

pub mod args;
pub mod catalogue;
mod check;
mod clock;
mod cluster;
mod compare;
pub mod completion;
mod errors;
mod example;
mod explain;
mod files;
mod group;
mod lab;
mod list;
mod names;
mod node;
mod order;
mod output;
mod replay;
mod sim;
mod step;
mod survival;
mod sweep;

use std::process::ExitCode;

use conclave_algorithms::family::Registered;

use crate::args::Typed;
use crate::failure::{Failure, Verdict, nearest};
use args::{Given, LaboratoryCommand};
use catalogue::Catalogue;

/// The laboratory's command line, with algorithms of one's own beside those of the registry.
///
/// ```no_run
/// # use conclave_algorithms::mutex::{Central, Of};
/// # type MyLock = Central;
/// fn main() -> std::process::ExitCode {
///     conclave_cli::Laboratory::new().with::<Of<MyLock>>().main()
/// }
/// ```
#[derive(Default)]
#[must_use = "`main` runs the command line"]
pub struct Laboratory {
    catalogue: Catalogue,
    /// Why an algorithm could not be added.
    wrong: Option<String>,
}

impl Laboratory {
    /// With the algorithms of the registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// With this one, too: `mutex::Of<MyLock>`, or whatever implements [`Registered`] in a family of one's own.
    ///
    /// A name that is taken already is an error, which [`main`](Self::main) tells.
    pub fn with<R: Registered + 'static>(mut self) -> Self {
        let added = self.catalogue.add::<R>();
        self.wrong = self.wrong.or(added.err());
        self
    }

    /// Does what the command line asks for.
    #[must_use]
    pub fn main(self) -> ExitCode {
        if let Some(wrong) = &self.wrong {
            Failure::new(wrong).print();
            return ExitCode::from(2);
        }
        crate::program::become_own(self.catalogue.own_names());
        crate::start(&crate::Context { catalogue: self.catalogue })
    }
}

/// Does what a command asks for.
pub fn run(command: &LaboratoryCommand, typed: &Typed, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    match command {
        LaboratoryCommand::List(args) => list::run(args, catalogue),
        LaboratoryCommand::Explain(args) => explain::run(args, catalogue),
        LaboratoryCommand::Example(args) => example::run(args, catalogue),
        LaboratoryCommand::Sim(args) => sim::run(args, &Given::of(typed), catalogue),
        LaboratoryCommand::Lab(args) => lab::run(args, catalogue),
        LaboratoryCommand::Step(args) => step::run(args, catalogue),
        LaboratoryCommand::Check(args) => check::run(args, catalogue),
        LaboratoryCommand::Compare(args) => compare::run(args, catalogue),
        LaboratoryCommand::Replay(args) => replay::run(args, catalogue),
        LaboratoryCommand::Order(args) => order::run(args, catalogue),
        LaboratoryCommand::Cluster(args) => cluster::run(args, catalogue),
        LaboratoryCommand::Group(args) => group::run(args, catalogue),
        LaboratoryCommand::Node(args) => node::run(args, catalogue),
        LaboratoryCommand::Cert(args) => node::certificates(args),
        LaboratoryCommand::Clock(args) => clock::run(args),
    }
}

/// The sentence about an algorithm that does not exist.
pub fn no_such_algorithm(name: &str, catalogue: &Catalogue) -> Failure {
    let known = catalogue.all();
    let meant = nearest(name, known.iter().map(|about| about.name));
    let guess = meant.map_or_else(String::new, |meant| format!("; did you mean '{meant}'?"));
    Failure::new(format!("there is no algorithm '{name}'{guess}")).hint("'conclave list' shows all of them")
}
