//! What clients and nodes of the service say to each other.
//!
//! [`v1`] is the protocol of clients, [`peer`] the one between nodes; both are generated from `proto/`. [`Transport`] is
//! how bytes get from one to the other: TCP, or a simulated network in tests.

mod transport;

pub use transport::{Connecting, Connection, Connector, Incoming, Listening, Tcp, Transport, channel};

/// The protocol of clients.
#[allow(missing_docs, unused_qualifications, clippy::all, clippy::pedantic)]
pub mod v1 {
    tonic::include_proto!("conclave.v1");
}

/// The protocol between nodes.
#[allow(missing_docs, unused_qualifications, clippy::all, clippy::pedantic)]
pub mod peer {
    tonic::include_proto!("conclave.peer.v1");
}

/// How a node ends a stream when it sends its clients to another node: their sessions live on, also those that end with
/// their connection. A stream that ends in any other way was broken, and those may be over.
pub const SENT_AWAY: tonic::Code = tonic::Code::Aborted;

/// Both protocols, described for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
