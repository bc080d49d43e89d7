//! One stream to one node.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use conclave_wire::v1::conclave_client::ConclaveClient;
use conclave_wire::{PROTOCOL, protocol_mismatch, v1};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::Options;
use crate::cluster::{Cluster, at};

/// The connection that is in use, for whoever wants to ask something over it.
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

/// A stream over which a node answers.
pub struct Link {
    /// Over which connection.
    pub channel: Channel,
    /// Which node.
    pub address: String,
    /// What goes out.
    pub out: mpsc::UnboundedSender<v1::ToServer>,
    /// What comes in.
    pub events: Streaming<v1::ToClient>,
}

impl Link {
    /// Opens a stream to a node, and from there to the leader where that is another one and wanted; but not to the one
    /// that was silent. Each may take so long to say who it is, and must belong to the cluster that is known.
    pub async fn open(
        options: &Options,
        cluster: &Cluster,
        address: &str,
        limit: Duration,
        silent: Option<&str>,
    ) -> Result<Self, Status> {
        let (link, welcome) = Self::open_at(options, cluster, address, limit).await?;
        cluster.compare(options, address).await?;
        let leader = welcome.leader_address;
        if !options.follow_leader
            || welcome.leader == welcome.node
            || leader.is_empty()
            || silent == Some(&leader)
        {
            return Ok(link);
        }
        // The node that was asked serves it too, only with one more step in between.
        match Self::open_at(options, cluster, &leader, limit).await {
            Ok((direct, _)) => Ok(direct),
            Err(_) => Ok(link),
        }
    }

    async fn open_at(
        options: &Options,
        cluster: &Cluster,
        address: &str,
        limit: Duration,
    ) -> Result<(Self, v1::Welcome), Status> {
        let connecting = async {
            let channel = conclave_wire::channel(&options.transport, address, options.connect_timeout)
                .map_err(|error| Status::unavailable(error.to_string()))?;
            let (out, outbox) = mpsc::unbounded_channel();
            let mut client = ConclaveClient::new(channel.clone());
            let mut events = client.talk(UnboundedReceiverStream::new(outbox)).await?.into_inner();
            let first = events.message().await?;
            let welcome = first
                .and_then(|message| message.welcome)
                .ok_or_else(|| Status::unavailable(format!("{address} did not say who it is")))?;
            understands(address, &welcome)?;
            cluster.is(welcome.cluster).map_err(|other| at(address, &other))?;
            Ok((Self { channel, address: address.to_owned(), out, events }, welcome))
        };
        tokio::time::timeout(limit, connecting)
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
mod tests {
    use super::*;

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
