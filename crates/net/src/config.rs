//! What a node is told when it is started, and whether that makes sense.

use core::time::Duration;
use std::path::PathBuf;

use conclave_core::{Incarnation, Members, NodeId, Timing};
use thiserror::Error;

use crate::address::Address;
use crate::detector::DetectorConfig;
use crate::secret::Secret;
use crate::tls::TlsConfig;

/// Everything that a node must know besides the settings of its algorithm.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Its own name.
    pub id: NodeId,
    /// All processes with their addresses, itself among them, in ring order.
    pub peers: Vec<(NodeId, Address)>,
    /// Where it listens; not always what its peers call it by.
    pub listen: Address,
    /// The name of the group: letters, digits and `-`. A node of another group is refused.
    pub cluster: String,
    /// The name of the algorithm. Two nodes that run different ones do not talk.
    pub protocol: String,
    /// The version of what the algorithm says on the wire.
    pub version: u32,
    /// Where what must survive is kept; it belongs to this node alone.
    pub data: PathBuf,
    /// What the algorithm may believe about the network's speed.
    pub timing: Timing,
    /// When a peer is suspected.
    pub detector: DetectorConfig,
    /// How much of everything there may be.
    pub limits: Limits,
    /// Certificates; without them everybody on the network can pretend to be anybody.
    pub tls: Option<TlsConfig>,
    /// Whether to listen beyond this machine without certificates.
    pub insecure: bool,
    /// What every connection has to show knowledge of, with certificates or without.
    pub secret: Option<Secret>,
    /// The settings of the algorithm as a text: two nodes with different ones do not talk.
    pub settings: String,
    /// The life to begin with, if the data directory knows of none as late: for a process that lost its directory.
    pub least_life: Incarnation,
    /// Whether a process in its first life takes no requests before it has met another one, or has waited for all others for
    /// as long as they are given to come up.
    pub looks_around: bool,
}

impl NodeConfig {
    /// The node `id` of a group on this machine or a trusted network, everything else as usual.
    #[must_use]
    pub fn new(
        id: NodeId,
        peers: Vec<(NodeId, impl Into<Address>)>,
        cluster: &str,
        protocol: &str,
        data: PathBuf,
    ) -> Self {
        let peers: Vec<(NodeId, Address)> =
            peers.into_iter().map(|(peer, address)| (peer, address.into())).collect();
        let own = peers.iter().find(|(peer, _)| *peer == id).map(|(_, address)| address.clone());
        let listen = own.unwrap_or(Address::Fixed(([127, 0, 0, 1], 0).into()));
        Self {
            id,
            peers,
            listen,
            cluster: cluster.to_owned(),
            protocol: protocol.to_owned(),
            version: 1,
            data,
            timing: Timing { transmission: Duration::from_millis(50), processing: Duration::from_millis(10) },
            detector: DetectorConfig::default(),
            limits: Limits::default(),
            tls: None,
            insecure: false,
            secret: None,
            settings: String::new(),
            least_life: Incarnation::FIRST,
            looks_around: false,
        }
    }

    /// The group, if everything fits together.
    pub(crate) fn validate(&self) -> Result<Members, ConfigError> {
        let mut ids: Vec<NodeId> = self.peers.iter().map(|(id, _)| *id).collect();
        let members = ids.clone();
        ids.sort_unstable();
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(ConfigError::Twice(pair[0]));
        }
        if !ids.contains(&self.id) {
            return Err(ConfigError::NotAMember(self.id));
        }
        if !is_dns_label(&self.cluster) {
            return Err(ConfigError::Cluster(self.cluster.clone()));
        }
        if self.protocol.is_empty() || self.protocol.len() > 255 {
            return Err(ConfigError::Protocol);
        }
        if self.tls.is_none() && !self.insecure && !self.listen.is_loopback() {
            return Err(ConfigError::Insecure(self.listen.clone()));
        }
        self.limits.validate()?;
        self.detector.validate()?;
        Ok(Members::listed(members))
    }
}

/// A certificate names a node as `node-3.cluster`, so the name of a cluster is part of a host name.
fn is_dns_label(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=63).contains(&name.len()) && name.bytes().all(fits) && !name.starts_with('-') && !name.ends_with('-')
}

/// How much of everything there may be: memory is bounded by these, whatever peers do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest frame in bytes, in either direction.
    pub frame: usize,
    /// Messages to one peer that are not acknowledged; beyond it the queue is dropped and the peer is told of the gap.
    pub queue_messages: usize,
    /// The same in bytes.
    pub queue_bytes: usize,
    /// Messages to one peer beyond which the application has to wait.
    pub high_water: usize,
    /// Batches of messages that wait for the state machine; then nothing is read from the network any more.
    pub inbox: usize,
    /// Requests of the application that wait for the state machine.
    pub requests: usize,
    /// Events that wait for the application; then the state machine waits.
    pub events: usize,
    /// Connections that have not said yet who they are; beyond it the oldest from where most come from is closed.
    pub strangers: usize,
    /// How long a connection may take to be made and to say who it is.
    pub handshake: Duration,
    /// How long a peer may read nothing, or say nothing, before its connection is closed.
    pub stall: Duration,
    /// The shortest wait before connecting again.
    pub backoff_min: Duration,
    /// The longest.
    pub backoff_max: Duration,
    /// How long a shutdown waits for messages to be acknowledged.
    pub shutdown: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame: 1 << 20,
            queue_messages: 65_536,
            queue_bytes: 64 << 20,
            high_water: 16_384,
            inbox: 64,
            requests: 256,
            events: 4_096,
            strangers: 64,
            handshake: Duration::from_secs(5),
            stall: Duration::from_secs(5),
            backoff_min: Duration::from_millis(20),
            backoff_max: Duration::from_secs(2),
            shutdown: Duration::from_secs(5),
        }
    }
}

impl Limits {
    fn validate(&self) -> Result<(), ConfigError> {
        let why = if !(1_024..=1 << 30).contains(&self.frame) {
            "a frame has between 1 KiB and 1 GiB"
        } else if self.queue_messages == 0 || self.queue_bytes < self.frame {
            "a queue must hold a message of the largest size"
        } else if self.high_water > self.queue_messages {
            "the application would wait only after the queue is dropped"
        } else if [self.inbox, self.requests, self.events, self.strangers].contains(&0) {
            "nothing would ever get through"
        } else if [self.handshake, self.stall, self.backoff_min].contains(&Duration::ZERO) {
            "a wait must not be empty"
        } else if self.backoff_min > self.backoff_max {
            "the shortest wait is longer than the longest"
        } else {
            return Ok(());
        };
        Err(ConfigError::Limits(why))
    }
}

/// Why a node cannot be started like this. Nothing has happened yet.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A process is listed twice.
    #[error("{0} is listed twice among the peers")]
    Twice(NodeId),
    /// The node itself is missing among the processes.
    #[error("{0} is not among the peers; the list must contain the node itself")]
    NotAMember(NodeId),
    /// The name of the cluster cannot be part of a host name.
    #[error("'{0}' cannot name a cluster: 1 to 63 letters, digits and '-', which neither begins nor ends it")]
    Cluster(String),
    /// The name of the protocol is empty or too long.
    #[error("the name of the protocol must have 1 to 255 bytes")]
    Protocol,
    /// Everybody on the network could pretend to be a node.
    #[error(
        "{0} can be reached from other machines: give certificates, or say `insecure` if the network is trusted"
    )]
    Insecure(Address),
    /// A limit makes no sense.
    #[error("the limits do not fit: {0}")]
    Limits(&'static str),
    /// A setting of the failure detector makes no sense.
    #[error("the failure detector cannot work so: {0}")]
    Detector(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> NodeConfig {
        let address: Address = "127.0.0.1:7000".parse().unwrap();
        let peers = (1..=3).map(|id| (NodeId(id), address.clone())).collect();
        NodeConfig::new(NodeId(1), peers, "test", "echo", PathBuf::from("nowhere"))
    }

    #[test]
    fn what_fits_together_is_accepted() {
        assert_eq!(config().validate().map(|members| members.len()), Ok(3));
    }

    #[test]
    fn what_does_not_is_refused_with_a_reason() {
        type Change = fn(&mut NodeConfig);
        let outside = |text: &str| ConfigError::Insecure(text.parse().unwrap());
        let cases: Vec<(Change, ConfigError)> = vec![
            (|c| c.peers[2].0 = NodeId(1), ConfigError::Twice(NodeId(1))),
            (|c| c.id = NodeId(9), ConfigError::NotAMember(NodeId(9))),
            (|c| c.cluster = "a b".into(), ConfigError::Cluster("a b".into())),
            (|c| c.cluster = "-a".into(), ConfigError::Cluster("-a".into())),
            (|c| c.protocol.clear(), ConfigError::Protocol),
            (|c| c.listen = "0.0.0.0:7000".parse().unwrap(), outside("0.0.0.0:7000")),
            (|c| c.listen = "node-1.lab:7000".parse().unwrap(), outside("node-1.lab:7000")),
            (|c| c.limits.inbox = 0, ConfigError::Limits("nothing would ever get through")),
        ];
        for (change, expected) in cases {
            let mut config = config();
            change(&mut config);
            assert_eq!(config.validate().map(|_| ()), Err(expected));
        }
    }

    #[test]
    fn beyond_this_machine_needs_a_word_or_certificates() {
        let mut config = config();
        config.listen = "0.0.0.0:7000".parse().unwrap();
        config.insecure = true;
        assert!(config.validate().is_ok());
    }
}
