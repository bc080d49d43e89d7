//! The commands about the replicated service: `serve`, and those of its clients.

pub mod config;
pub mod hold;
pub mod see;
pub mod serve;

use conclave_client::{Client, Options};

use crate::args::EndpointArgs;
use crate::failure::Failure;

/// Runs a client of the service.
fn run_client<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("no client can be run: {error}")))?;
    runtime.block_on(work)
}

/// A client of the service that the options, the environment or a file name.
fn client(args: &EndpointArgs) -> Result<Client, Failure> {
    let mut options = Options::new(config::endpoints(args)?);
    options.patience = args.connect_wait;
    Client::with(options).map_err(Failure::new)
}
