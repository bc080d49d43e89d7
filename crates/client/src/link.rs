//! One connection to one node.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use conclave_wire::{Direct, PROTOCOL, Terms, protocol_mismatch, v1};
use tokio::time::timeout;
use tonic::Status;
use tonic::transport::Channel;

use crate::Options;
use crate::cluster::{Cluster, at};

/// What a client takes from a node, and when it gives up one that says nothing: a machine that is gone does not say goodbye.
const TERMS: Terms =
    Terms { largest: 4 << 20, ask_after: Duration::from_secs(2), answer_within: Duration::from_secs(3) };

/// Where something can be asked that belongs to no session. A connection is made when it first is.
#[derive(Clone, Default)]
pub struct Way(Arc<Mutex<Option<Channel>>>);

impl Way {
    pub fn get(&self) -> Option<Channel> {
        self.lock().clone()
    }

    /// It is this one from now on.
    pub fn set(&self, channel: Channel) {
        *self.lock() = Some(channel);
    }

    /// It is this one, unless there is another.
    pub fn offer(&self, channel: &Channel) {
        self.lock().get_or_insert_with(|| channel.clone());
    }

    /// It led nowhere.
    pub fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Channel>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection over which a node answers.
pub struct Link {
    /// How to ask the same node what belongs to no session.
    pub channel: Channel,
    /// Which node.
    pub address: String,
    /// Which node leads, as far as that one knows.
    pub leader: String,
    /// What goes out, and comes in.
    pub direct: Direct,
}

impl Link {
    /// Opens a connection to a node, and from there to the leader where that is another one and wanted; but not to the one
    /// that was silent. Each may take so long to say who it is, and must belong to the cluster that is known.
    pub async fn open(
        options: &Options,
        cluster: &Cluster,
        address: &str,
        limit: Duration,
        silent: Option<&str>,
    ) -> Result<Self, Status> {
        let link = Self::open_at(options, cluster, address, limit).await?;
        cluster.compare(options, address).await?;
        let leads = link.leader.is_empty() || link.leader == link.address;
        if leads || !options.follow_leader || silent == Some(&link.leader) {
            return Ok(link);
        }
        // The node that was asked serves it too, only with one more step in between.
        Ok(Self::open_at(options, cluster, &link.leader, limit).await.unwrap_or(link))
    }

    async fn open_at(
        options: &Options,
        cluster: &Cluster,
        address: &str,
        limit: Duration,
    ) -> Result<Self, Status> {
        let connecting = async {
            let unavailable = |why: &dyn std::fmt::Display| Status::unavailable(why.to_string());
            let channel = conclave_wire::channel(&options.transport, address, options.connect_timeout)
                .map_err(|error| unavailable(&error))?;
            let connected = timeout(options.connect_timeout, options.transport.connect(address.to_owned()));
            let connected = connected.await.map_err(|late| unavailable(&late))?;
            let mut direct = Direct::greet(connected.map_err(|error| unavailable(&error))?, TERMS);
            let first = direct.next::<v1::ToClient>().await.map_err(|refused| at(address, &refused))?;
            let welcome = first
                .and_then(|message| message.welcome)
                .ok_or_else(|| Status::unavailable(format!("{address} did not say who it is")))?;
            understands(address, &welcome)?;
            cluster.is(welcome.cluster).map_err(|other| at(address, &other))?;
            let leads = welcome.leader == welcome.node;
            let leader = if leads { address.to_owned() } else { welcome.leader_address.clone() };
            Ok(Self { channel, address: address.to_owned(), leader, direct })
        };
        timeout(limit, connecting)
            .await
            .unwrap_or_else(|_| Err(Status::unavailable(format!("{address} does not answer"))))
    }
}

/// Makes sure that a node speaks our version of the protocol.
fn understands(address: &str, welcome: &v1::Welcome) -> Result<(), Status> {
    match protocol_mismatch(PROTOCOL, welcome.protocol) {
        Some(why) => Err(Status::failed_precondition(format!("{address}: {why}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
pub mod tests {
    use std::sync::Arc;

    use conclave_wire::{Connection, Connector, Tcp};

    use super::*;

    /// A connection to a node that follows this leader, on which nobody says anything.
    pub fn link(address: &str, leader: &str) -> Link {
        let transport: Connector = Arc::new(Tcp);
        let channel = conclave_wire::channel(&transport, address, TERMS.ask_after).unwrap();
        let direct = Direct::greet(Connection::new(tokio::io::empty()), TERMS);
        Link { channel, address: address.to_owned(), leader: leader.to_owned(), direct }
    }

    #[test]
    fn a_node_of_another_version_is_not_spoken_to() {
        let welcome = |protocol| v1::Welcome { node: 1, leader: 1, protocol, ..v1::Welcome::default() };
        understands("here:1", &welcome(PROTOCOL)).unwrap();
        // The first version said nothing about it.
        let refused = understands("here:1", &welcome(0)).unwrap_err();
        assert_eq!(
            refused.message(),
            "here:1: the client speaks version 3 of the protocol and the node version 1: use the same version of \
             conclave on both sides"
        );
        understands("here:1", &welcome(PROTOCOL + 1)).unwrap_err();
    }
}
