//! Which cluster a client speaks to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use conclave_wire::{cluster_mismatch, v1, versioned};
use tokio::task::JoinSet;
use tonic::Status;

use crate::Options;

/// How long the other endpoints may take to say where they belong, when a client speaks to the service for the first time.
const COMPARE_WITHIN: Duration = Duration::from_millis(250);

/// The first cluster that a client has heard of, if any. Another one grants the same names to others, so nothing is said
/// to it.
#[derive(Clone, Debug, Default)]
pub struct Cluster(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    number: OnceLock<u64>,
    /// Whether the other endpoints were asked.
    is_compared: AtomicBool,
}

impl Cluster {
    /// Makes sure that a node belongs to it. The first node that says to which one it belongs decides.
    pub fn is(&self, named: u64) -> Result<(), Status> {
        if named == 0 {
            return Ok(());
        }
        let known = *self.0.number.get_or_init(|| named);
        match cluster_mismatch(known, named) {
            Some(why) => Err(Status::failed_precondition(why)),
            None => Ok(()),
        }
    }

    /// Makes sure, once, that all endpoints that answer belong to it: otherwise it would depend on which of them is up who
    /// grants what, and a client that begins elsewhere could be granted the same.
    pub async fn compare(&self, options: &Options, asked: &str) -> Result<(), Status> {
        if options.endpoints.len() < 2 || self.0.is_compared.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut others = JoinSet::new();
        for endpoint in options.endpoints.iter().filter(|endpoint| *endpoint != asked) {
            let Ok(channel) = conclave_wire::channel(&options.transport, endpoint, COMPARE_WITHIN) else {
                continue;
            };
            let endpoint = endpoint.clone();
            others.spawn(async move {
                let mut node = versioned(channel);
                let answer = tokio::time::timeout(COMPARE_WITHIN, node.status(v1::StatusRequest {})).await;
                // Who does not answer, or speaks another version, grants nothing to this client.
                let status = answer.ok()?.ok()?.into_inner();
                Some((endpoint, status.cluster))
            });
        }
        while let Some(answered) = others.join_next().await {
            if let Ok(Some((endpoint, named))) = answered {
                self.is(named).map_err(|other| at(&endpoint, &other))?;
            }
        }
        self.0.is_compared.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// Says which node a refusal is about.
pub fn at(address: &str, refusal: &Status) -> Status {
    Status::new(refusal.code(), format!("{address}: {}", refusal.message()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_one_stays() {
        let cluster = Cluster::default();
        cluster.is(0).unwrap();
        cluster.is(7).unwrap();
        cluster.is(7).unwrap();
        cluster.is(0).unwrap();
        let refused = cluster.clone().is(8).unwrap_err();
        assert_eq!(
            refused.message(),
            "this node belongs to cluster 0000000000000008, and the client has heard of cluster 0000000000000007 before: \
             check the endpoints, and start the client again if the cluster was made again"
        );
        cluster.is(7).unwrap();
    }
}
