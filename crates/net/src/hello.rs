//! The first words on a connection: who speaks, to whom, of what, and where to go on.
//!
//! ```text
//!   connects                                accepts
//!      │  Hello: cluster, protocol, version,   │
//!      │         from, to, life, gap           │
//!      │ ─────────────────────────────────────▶│  judge: refused, or
//!      │                                       │  the older connection of this peer is closed
//!      │◀───────────────────────────────────── │
//!      │  Welcome: life, received              │
//!      │  Data received + 1, ...               │
//!      │ ─────────────────────────────────────▶│
//! ```

use conclave_core::{Incarnation, NodeId};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::config::NodeConfig;

/// The version of the frames themselves.
pub const WIRE: u16 = 1;

/// Bytes that a frame may have before it is known who speaks.
pub const HELLO_LIMIT: usize = 4_096;

/// Who connects, and what for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version of the frames.
    pub wire: u16,
    /// The group.
    pub cluster: String,
    /// The algorithm.
    pub protocol: String,
    /// The version of its messages.
    pub version: u32,
    /// Who speaks.
    pub from: NodeId,
    /// To whom it wants to speak.
    pub to: NodeId,
    /// The life of who speaks.
    pub life: Incarnation,
    /// Messages to this life of the receiver were dropped before they arrived.
    pub gap: Option<Incarnation>,
}

/// The answer to a hello that is welcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// Who answers.
    pub from: NodeId,
    /// The life of who answers.
    pub life: Incarnation,
    /// How many messages of the sender's life it has.
    pub received: u64,
}

/// Why one node does not talk to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The frames are of another version.
    #[error("the frames are of another version")]
    Wire,
    /// It belongs to another group.
    #[error("it belongs to another cluster")]
    Cluster,
    /// It runs another algorithm.
    #[error("it runs another protocol")]
    Protocol,
    /// Its messages are of another version.
    #[error("it runs another version of the protocol")]
    Version,
    /// It is not one of the processes.
    #[error("it is not a member of the cluster")]
    Stranger,
    /// It calls itself what we are called.
    #[error("it claims to be the node that it is talking to")]
    Myself,
    /// It wants to talk to somebody else.
    #[error("it wanted to reach another node")]
    Destination,
    /// A later life of it has been seen.
    #[error("a later life of it has been seen")]
    StaleLife,
    /// Its certificate is for another node.
    #[error("its certificate does not name the node that it claims to be")]
    Certificate,
    /// Links with it are cut for now.
    #[error("links with it are cut")]
    Cut,
    /// The first frame was not a hello, or came too late.
    #[error("it did not say who it is")]
    NoHello,
    /// A message is missing before the one that it sent.
    #[error("a message is missing in what it sends")]
    Missing,
    /// It acknowledged what was never sent, or forgot what it had acknowledged.
    #[error("it acknowledged what was not sent")]
    FalseAck,
    /// What it sends means nothing.
    #[error("what it sends means nothing")]
    Garbage,
    /// The node is about to stop.
    #[error("the node is stopping")]
    Stopping,
}

/// What a node says of itself, and expects of others.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its name.
    pub id: NodeId,
    /// Its life.
    pub life: Incarnation,
    /// Its group.
    pub cluster: String,
    /// Its algorithm.
    pub protocol: String,
    /// The version of the messages.
    pub version: u32,
}

impl Identity {
    pub(crate) fn new(config: &NodeConfig, life: Incarnation) -> Self {
        Self {
            id: config.id,
            life,
            cluster: config.cluster.clone(),
            protocol: config.protocol.clone(),
            version: config.version,
        }
    }

    /// The hello to a peer.
    #[must_use]
    pub fn hello(&self, to: NodeId, gap: Option<Incarnation>) -> Hello {
        Hello {
            wire: WIRE,
            cluster: self.cluster.clone(),
            protocol: self.protocol.clone(),
            version: self.version,
            from: self.id,
            to,
            life: self.life,
            gap,
        }
    }

    /// Whether this node talks to who says so. `newest` is the newest life that was seen of a peer; outer `None`
    /// for who is no peer.
    ///
    /// # Errors
    /// The reason why not.
    pub fn judge(&self, hello: &Hello, newest: Option<Option<Incarnation>>) -> Result<(), Refusal> {
        if hello.wire != WIRE {
            Err(Refusal::Wire)
        } else if hello.cluster != self.cluster {
            Err(Refusal::Cluster)
        } else if hello.protocol != self.protocol {
            Err(Refusal::Protocol)
        } else if hello.version != self.version {
            Err(Refusal::Version)
        } else if hello.from == self.id {
            Err(Refusal::Myself)
        } else if hello.to != self.id {
            Err(Refusal::Destination)
        } else {
            match newest {
                None => Err(Refusal::Stranger),
                Some(Some(newest)) if hello.life < newest => Err(Refusal::StaleLife),
                // Lives are counted from 1.
                Some(_) if hello.life.0 == 0 => Err(Refusal::StaleLife),
                Some(_) => Ok(()),
            }
        }
    }

    /// Whether who answered is who was called.
    ///
    /// # Errors
    /// The reason why not.
    pub fn judge_welcome(
        &self,
        welcome: &Welcome,
        called: NodeId,
        newest: Option<Incarnation>,
    ) -> Result<(), Refusal> {
        if welcome.from != called {
            Err(Refusal::Destination)
        } else if welcome.life.0 == 0 || newest.is_some_and(|newest| welcome.life < newest) {
            Err(Refusal::StaleLife)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(id: u32) -> Identity {
        let cluster = "test".to_owned();
        Identity { id: NodeId(id), life: Incarnation(2), cluster, protocol: "echo".into(), version: 1 }
    }

    #[test]
    fn every_mismatch_has_its_reason() {
        type Change = fn(&mut Hello);
        let cases: &[(Change, Refusal)] = &[
            (|h| h.wire = 9, Refusal::Wire),
            (|h| h.cluster = "other".into(), Refusal::Cluster),
            (|h| h.protocol = "other".into(), Refusal::Protocol),
            (|h| h.version = 2, Refusal::Version),
            (|h| h.from = NodeId(1), Refusal::Myself),
            (|h| h.to = NodeId(3), Refusal::Destination),
            (|h| h.life = Incarnation(1), Refusal::StaleLife),
            (|h| h.life = Incarnation(0), Refusal::StaleLife),
        ];
        let newest = Some(Some(Incarnation(2)));
        let good = identity(2).hello(NodeId(1), None);
        assert_eq!(identity(1).judge(&good, newest), Ok(()));
        assert_eq!(identity(1).judge(&good, Some(None)), Ok(()));
        assert_eq!(identity(1).judge(&good, None), Err(Refusal::Stranger));
        for (change, reason) in cases {
            let mut hello = good.clone();
            change(&mut hello);
            assert_eq!(identity(1).judge(&hello, newest), Err(*reason));
        }
    }

    #[test]
    fn a_welcome_is_judged_too() {
        let welcome = |from, life| Welcome { from: NodeId(from), life: Incarnation(life), received: 0 };
        let judge = |welcome| identity(1).judge_welcome(&welcome, NodeId(2), Some(Incarnation(3)));
        assert_eq!(judge(welcome(2, 3)), Ok(()));
        assert_eq!(judge(welcome(2, 4)), Ok(()));
        assert_eq!(judge(welcome(3, 3)), Err(Refusal::Destination));
        assert_eq!(judge(welcome(2, 2)), Err(Refusal::StaleLife));
    }
}
