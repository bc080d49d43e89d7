//! The commands about the replicated service: `serve`, those of its clients, and `bench`.

pub mod args;
mod config;
mod duration;
mod hold;
mod limits;
mod see;
mod serve;
mod status;
mod table;
mod voice;

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_client::{Client, Error, Options};

use crate::failure::{Failure, Verdict};
use args::{EndpointArgs, ServiceCommand};

/// Does what a command asks for.
pub fn run(command: &ServiceCommand) -> Result<Verdict, Failure> {
    match command {
        ServiceCommand::Serve(args) => serve::run(args),
        ServiceCommand::Lock(args) => hold::lock(args),
        ServiceCommand::Elect(args) => hold::elect(args),
        ServiceCommand::Ls(args) => see::ls(args),
        ServiceCommand::Show(args) => see::show(args),
        ServiceCommand::Why(args) => see::why(args),
        ServiceCommand::Observe(args) => see::observe(args),
        ServiceCommand::Release(args) => see::release(args),
        ServiceCommand::Sessions(args) => see::sessions(args),
        ServiceCommand::Token(args) => see::token(args),
        ServiceCommand::Status(args) => status::status(args),
        ServiceCommand::Bench(args) => bench(args),
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

/// Runs a client of the service.
fn run_client<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("no client can be run: {error}")))?;
    runtime.block_on(work)
}

/// The exit code where the service does not answer.
const UNAVAILABLE: u8 = 123;

/// Why the service does not answer, where it was asked, and what to do about it.
async fn unanswered(client: &Client, error: &Error) -> Failure {
    // It has been waited for already.
    status::Survey::make(client, BTreeMap::new(), Duration::from_secs(1)).await.explain(error)
}

/// A client of the service that the options, the environment or a file name.
fn client(args: &EndpointArgs) -> Result<Client, Failure> {
    let mut options = Options::new(config::endpoints(args)?);
    options.patience = args.connect_wait;
    Client::with(options).map_err(Failure::new)
}
