//! What clients and nodes of the service say to each other.
//!
//! [`v1`] is the protocol of clients, [`peer`] the one between nodes; both are generated from `proto/` (`tests/generated.rs` does it). [`Transport`] is
//! how bytes get from one to the other: TCP, or a simulated network in tests. [`Direct`] is how our own clients say what
//! the call `Talk` says, without gRPC.

mod direct;
mod door;
mod transport;

use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status};

pub use direct::{Arrival, Direct, GREETING, Terms};
pub use transport::{Connecting, Connection, Connector, Incoming, Listening, Tcp, Transport, channel};

use v1::conclave_client::ConclaveClient;

/// The protocol of clients.
#[allow(missing_docs, unused_qualifications, clippy::all, clippy::pedantic)]
pub mod v1 {
    include!("generated/conclave.v1.rs");
}

/// The protocol between nodes.
#[allow(missing_docs, unused_qualifications, clippy::all, clippy::pedantic)]
pub mod peer {
    include!("generated/conclave.peer.v1.rs");
}

/// The version of the protocol of clients. To be raised whenever a message changes its meaning; new fields and calls that
/// others may ignore do not count.
pub const PROTOCOL: u32 = 3;

/// Where a call without a session says which version its client speaks: the key of its metadata.
pub const PROTOCOL_KEY: &str = "conclave-protocol";

/// Where the answer to a call without a session says which cluster it comes from: the key of its metadata.
pub const CLUSTER_KEY: &str = "conclave-cluster";

/// Says that a node belongs to another cluster than the one that a client has spoken to, and what to do; nothing if it
/// does not, or if either is not known (0).
#[must_use]
pub fn cluster_mismatch(known: u64, node: u64) -> Option<String> {
    (known != 0 && node != 0 && known != node).then(|| {
        format!(
            "this node belongs to cluster {node:016x}, and the client has heard of cluster {known:016x} before: check the \
             endpoints, and start the client again if the cluster was made again"
        )
    })
}

/// The cluster that an answer names; 0 if none.
#[must_use]
pub fn named_cluster(metadata: &tonic::metadata::MetadataMap) -> u64 {
    let named = metadata.get(CLUSTER_KEY).and_then(|named| named.to_str().ok());
    named.and_then(|named| u64::from_str_radix(named, 16).ok()).unwrap_or(0)
}

/// Names a cluster in an answer.
pub fn name_cluster(metadata: &mut tonic::metadata::MetadataMap, cluster: u64) {
    if cluster != 0
        && let Ok(named) = format!("{cluster:016x}").parse()
    {
        metadata.insert(CLUSTER_KEY, named);
    }
}

/// A client whose calls say which version of the protocol it speaks.
pub type VersionedClient = ConclaveClient<InterceptedService<Channel, Saying>>;
type Saying = fn(Request<()>) -> Result<Request<()>, Status>;

/// A client whose calls say which version of the protocol it speaks.
#[must_use]
pub fn versioned(channel: Channel) -> VersionedClient {
    ConclaveClient::with_interceptor(channel, |mut call| {
        call.metadata_mut().insert(PROTOCOL_KEY, PROTOCOL.into());
        Ok(call)
    })
}

/// Makes sure that whoever calls speaks our version of the protocol.
///
/// # Errors
/// If it speaks another one. The first version did not say so.
pub fn is_understood<T>(call: &Request<T>) -> Result<(), Status> {
    let said = call.metadata().get(PROTOCOL_KEY).and_then(|said| said.to_str().ok()?.parse().ok());
    match protocol_mismatch(said.unwrap_or(0), PROTOCOL) {
        Some(why) => Err(Status::failed_precondition(why)),
        None => Ok(()),
    }
}

/// Says that two ends speak different versions of the protocol of clients, and what to do; nothing if they do not. The
/// first version did not say so, which reads as zero.
#[must_use]
pub fn protocol_mismatch(client: u32, node: u32) -> Option<String> {
    let [client, node] = [client, node].map(|version| version.max(1));
    (client != node).then(|| {
        format!(
            "the client speaks version {client} of the protocol and the node version {node}: use the same version of \
             conclave on both sides"
        )
    })
}

/// How a node ends a stream when it sends its clients to another node: their sessions live on, also those that end with
/// their connection. A stream that ends in any other way was broken, and those may be over.
pub const SENT_AWAY: tonic::Code = tonic::Code::Aborted;

/// Both protocols, described for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_must_be_the_same() {
        assert_eq!(protocol_mismatch(PROTOCOL, PROTOCOL), None);
        for (client, node, said) in
            [(0, PROTOCOL, "version 1 of"), (PROTOCOL, 0, "node version 1:"), (9, 8, "version 9 of")]
        {
            let sentence = protocol_mismatch(client, node).expect("they differ");
            assert!(sentence.contains(said), "{sentence}");
        }
    }

    #[test]
    fn a_cluster_is_named_in_metadata_and_told_from_others() {
        let mut call = Request::new(());
        assert_eq!(named_cluster(call.metadata()), 0);
        name_cluster(call.metadata_mut(), 0);
        assert!(call.metadata().is_empty());
        name_cluster(call.metadata_mut(), u64::MAX - 1);
        assert_eq!(named_cluster(call.metadata()), u64::MAX - 1);
        for (known, node) in [(0, 0), (0, 5), (5, 0), (5, 5)] {
            assert_eq!(cluster_mismatch(known, node), None);
        }
        assert!(cluster_mismatch(5, 6).is_some_and(|why| why.contains("check the endpoints")));
    }
}
