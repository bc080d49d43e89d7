//! `conclave node`: one process of a live cluster. `conclave cert`: certificates for such processes.

use conclave_live::config::ProcessConfig;
use conclave_live::process::{ProcessError, told_to_stop};
use conclave_net::Fingerprint;

use super::args::{CertArgs, Ids, NodeArgs};
use super::catalogue::Catalogue;
use super::no_such_algorithm;
use super::output;
use crate::failure::{Failure, Verdict};

/// Runs a process until it is told to stop.
pub fn run(args: &NodeArgs, catalogue: &Catalogue) -> Result<Verdict, Failure> {
    let config = ProcessConfig::read_as(&args.config, args.id.map(|id| id.0)).map_err(Failure::new)?;
    let entry = catalogue.find(&config.algorithm);
    let entry = entry.ok_or_else(|| no_such_algorithm(&config.algorithm, catalogue))?;
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("no threads can be had: {error}")))?;
    let ready = || tracing::info!("process {} of {} is up", config.id, config.cluster);
    let ended = runtime.block_on((entry.run)(&config, Box::pin(told_to_stop(args.with_parent)), &ready));
    // Standard input may still be waited for; nobody has to.
    runtime.shutdown_background();
    match ended {
        Ok(()) => Ok(Verdict::Held),
        Err(error @ ProcessError::Node(_)) => {
            tracing::error!("{error}");
            Ok(Verdict::Failed)
        }
        Err(error) => Err(Failure::new(error)),
    }
}

/// Makes certificates.
pub fn certificates(args: &CertArgs) -> Result<Verdict, Failure> {
    let Ids(ids) = &args.ids;
    conclave_net::certificate::generate(&args.dir, &args.cluster, ids).map_err(Failure::new)?;
    let dir = args.dir.display();
    let mut text = format!(
        "{dir}/authority.pem goes to every process, {dir}/node-K.pem and node-K.key to process K alone\n\n\
         SHA-256 fingerprints, for the 'refused' list of [tls]:\n"
    );
    for id in ids {
        let certificate = conclave_net::certificate::in_dir(&args.dir, *id).certificate;
        let fingerprint = Fingerprint::of_file(&certificate).map_err(Failure::new)?;
        text += &format!("  node-{:<4} {fingerprint}\n", id.0);
    }
    output::show(&text)?;
    Ok(Verdict::Held)
}
