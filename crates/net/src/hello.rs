//! The first words on a connection: who speaks, to whom, of what, and where to go on.
//!
//! ```text
//!   connects                                accepts
//!      │  Hello: cluster, protocol, version,   │
//!      │         from, to, life, terms, gap    │
//!      │ ─────────────────────────────────────▶│
//!      │◀───────────────────────────────────── │  Challenge and Proof: only in a group with a secret
//!      │ ─────────────────────────────────────▶│  judge: refused, or
//!      │                                       │  the older connection of this peer is closed
//!      │◀───────────────────────────────────── │
//!      │  Welcome: life, received              │
//!      │  Data received + 1, ...               │
//!      │ ─────────────────────────────────────▶│
//! ```
//!
//! Where the way to a process is broken and another process hears it, that one is asked to carry the connection: a hello with
//! `onward` is answered by `Onward`, and from then on bytes are carried to that process and back. It is said hello to in
//! its turn, `via` the one that carries, so that both ends know each other as they would on a way of their own.

use conclave_core::{Incarnation, NodeId};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::config::NodeConfig;
use crate::secret::{Nonce, Secret};
use crate::store::Directory;

/// The version of the frames themselves.
pub const WIRE: u16 = 3;

/// Bytes that a frame may have before it is known who speaks.
pub const HELLO_LIMIT: usize = 16 << 10;

/// What all processes of a group must have in common, beside the algorithm.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// A digest of the settings of the algorithm.
    pub settings: u64,
    /// The bounds on time, in microseconds: for a message, and for an answer.
    pub timing: (u64, u64),
    /// The processes, in ring order.
    pub ring: Vec<NodeId>,
}

impl Terms {
    /// Those of a node.
    #[must_use]
    pub fn of(config: &NodeConfig) -> Self {
        let micros = |span: core::time::Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Self {
            settings: crate::store::checksum(config.settings.as_bytes()),
            timing: (micros(config.timing.transmission), micros(config.timing.processing)),
            ring: config.peers.iter().map(|(id, _)| *id).collect(),
        }
    }

    /// Whether two processes can work together. One may know of processes of which the other has not been told yet; those of
    /// which both know stand in the same order.
    fn judge(&self, other: &Self) -> Result<(), Refusal> {
        let common = |ours: &Self, theirs: &Self| -> Vec<NodeId> {
            ours.ring.iter().copied().filter(|id| theirs.ring.contains(id)).collect()
        };
        if self.settings != other.settings {
            Err(Refusal::Settings)
        } else if self.timing != other.timing {
            Err(Refusal::Timing)
        } else if common(self, other) != common(other, self) {
            Err(Refusal::Ring)
        } else {
            Ok(())
        }
    }
}

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
    /// The data directory in which that life was counted.
    pub directory: Directory,
    /// What it takes for granted.
    pub terms: Terms,
    /// Never said before: the proof of whoever answers is about this connection.
    pub nonce: Nonce,
    /// Messages to this life of the receiver were dropped before they arrived.
    pub gap: Option<Incarnation>,
    /// To whom the receiver is to carry this connection.
    pub onward: Option<NodeId>,
    /// Who carries it.
    pub via: Option<NodeId>,
}

/// The answer to a hello that is welcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// Who answers.
    pub from: NodeId,
    /// The life of who answers.
    pub life: Incarnation,
    /// The data directory in which that life was counted.
    pub directory: Directory,
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
    /// It counts its lives in another data directory than before, and from the beginning.
    #[error("its {newest} has been seen, with another data directory")]
    Directory {
        /// The newest life that was seen.
        newest: Incarnation,
    },
    /// It does not know the secret of the group.
    #[error("it does not know the secret of the cluster")]
    Secret,
    /// Its algorithm is set up differently.
    #[error("the algorithm has other settings there")]
    Settings,
    /// It believes in other bounds on time.
    #[error("its transmission_ms or processing_ms is another")]
    Timing,
    /// Its processes stand in another order.
    #[error("its list of processes has another order")]
    Ring,
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
    /// Its certificate is on the list of those that are refused.
    #[error("its certificate is on the list of refused ones")]
    Revoked,
    /// The process to which a connection was to be carried cannot be reached.
    #[error("the process to which it wants to be carried cannot be reached")]
    Unreachable,
}

impl Refusal {
    /// Whether a node to which a peer says so can never take part again as it is, and would only do harm by itself.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::StaleLife | Self::Directory { .. } | Self::Stranger)
    }
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
    /// Where its lives are counted.
    pub directory: Directory,
    /// What it takes for granted.
    pub terms: Terms,
    /// What only members know.
    pub secret: Option<Secret>,
}

impl Identity {
    pub(crate) fn new(config: &NodeConfig, life: Incarnation, directory: Directory) -> Self {
        Self {
            id: config.id,
            life,
            directory,
            terms: Terms::of(config),
            secret: config.secret.clone(),
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
            directory: self.directory,
            terms: self.terms.clone(),
            nonce: Nonce::random(),
            gap,
            onward: None,
            via: None,
        }
    }

    /// The answer to a hello that is welcome.
    #[must_use]
    pub fn welcome(&self, received: u64) -> Welcome {
        Welcome { from: self.id, life: self.life, directory: self.directory, received }
    }

    /// Whether this node talks to who says so. `known` is what was seen of a peer; none for who is no peer.
    ///
    /// # Errors
    /// The reason why not.
    pub fn judge(&self, hello: &Hello, known: Option<Known>) -> Result<(), Refusal> {
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
            let Some(known) = known else { return Err(Refusal::Stranger) };
            known.judge(hello.life, hello.directory)?;
            self.terms.judge(&hello.terms)
        }
    }

    /// Whether who answered is who was called.
    ///
    /// # Errors
    /// The reason why not.
    pub fn judge_welcome(&self, welcome: &Welcome, called: NodeId, known: Known) -> Result<(), Refusal> {
        if welcome.from == called {
            known.judge(welcome.life, welcome.directory)
        } else {
            Err(Refusal::Destination)
        }
    }
}

/// What was seen of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Its newest life.
    pub newest: Option<Incarnation>,
    /// Where that was counted, if it said so.
    pub directory: Option<Directory>,
}

impl Known {
    /// Whether a life may be the present one.
    fn judge(self, life: Incarnation, directory: Directory) -> Result<(), Refusal> {
        let is_elsewhere = self.directory.is_some_and(|known| known != directory);
        match self.newest {
            Some(newest) if life <= newest && is_elsewhere => Err(Refusal::Directory { newest }),
            Some(newest) if life < newest => Err(Refusal::StaleLife),
            // Lives are counted from 1.
            _ if life.0 == 0 => Err(Refusal::StaleLife),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(id: u32) -> Identity {
        Identity {
            id: NodeId(id),
            life: Incarnation(2),
            cluster: "test".to_owned(),
            protocol: "echo".into(),
            version: 1,
            directory: Directory(7),
            terms: Terms { settings: 1, timing: (50, 10), ring: [1, 2, 3].map(NodeId).to_vec() },
            secret: None,
        }
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
            (|h| h.directory = Directory(8), Refusal::Directory { newest: Incarnation(2) }),
            (|h| h.terms.settings = 2, Refusal::Settings),
            (|h| h.terms.timing.1 = 20, Refusal::Timing),
            (|h| h.terms.ring.swap(0, 2), Refusal::Ring),
        ];
        let known = Some(Known { newest: Some(Incarnation(2)), directory: Some(Directory(7)) });
        let good = identity(2).hello(NodeId(1), None);
        assert_eq!(identity(1).judge(&good, known), Ok(()));
        assert_eq!(identity(1).judge(&good, Some(Known::default())), Ok(()));
        assert_eq!(identity(1).judge(&good, None), Err(Refusal::Stranger));
        for (change, reason) in cases {
            let mut hello = good.clone();
            change(&mut hello);
            assert_eq!(identity(1).judge(&hello, known), Err(*reason));
        }
    }

    /// Processes are added and taken out one file after the other; a data directory that is new has a life to match.
    #[test]
    fn what_may_differ_is_no_mismatch() {
        let known = Some(Known { newest: Some(Incarnation(2)), directory: Some(Directory(7)) });
        let mut hello = identity(2).hello(NodeId(1), None);
        hello.terms.ring = [1, 2, 3, 4].map(NodeId).to_vec();
        assert_eq!(identity(1).judge(&hello, known), Ok(()));
        hello.terms.ring = [1, 2].map(NodeId).to_vec();
        assert_eq!(identity(1).judge(&hello, known), Ok(()));
        (hello.directory, hello.life) = (Directory(8), Incarnation(3));
        assert_eq!(identity(1).judge(&hello, known), Ok(()));
    }

    #[test]
    fn a_welcome_is_judged_too() {
        let welcome = |from, life| Welcome {
            from: NodeId(from),
            life: Incarnation(life),
            directory: Directory(7),
            received: 0,
        };
        let known = Known { newest: Some(Incarnation(3)), directory: Some(Directory(7)) };
        let judge = |welcome| identity(1).judge_welcome(&welcome, NodeId(2), known);
        assert_eq!(judge(welcome(2, 3)), Ok(()));
        assert_eq!(judge(welcome(2, 4)), Ok(()));
        assert_eq!(judge(welcome(3, 3)), Err(Refusal::Destination));
        assert_eq!(judge(welcome(2, 2)), Err(Refusal::StaleLife));
        let elsewhere = Welcome { directory: Directory(8), ..welcome(2, 3) };
        assert_eq!(judge(elsewhere), Err(Refusal::Directory { newest: Incarnation(3) }));
    }
}
