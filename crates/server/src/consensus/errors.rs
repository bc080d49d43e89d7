//! What can be refused, and why.

use openraft::errors::{ClientWriteError, Fatal, ForwardReason};
use thiserror::Error;

use crate::disk::StorageError;
use crate::raft::Types;

/// Why a node cannot start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// It is not on its own list.
    #[error("node {0} is not among the members")]
    NotAMember(u64),
    /// The times make no sense.
    #[error("the timing makes no sense: {0}")]
    Timing(#[from] openraft::ConfigError),
    /// The system has no random numbers.
    #[error("no random numbers: {0}")]
    Random(#[from] getrandom::Error),
    /// What it has on disk cannot be used.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// What it has on disk makes no sense.
    #[error("the data directory cannot be used: {0}")]
    Unusable(#[source] Fatal<Types>),
}

/// Why a batch was not accepted.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// Another node leads, or none, or this one in a later term. Nothing happened.
    #[error("this node does not lead{}", described(.0))]
    NotLeader(Option<u64>),
    /// This node leads, but has not heard of a majority for too long to accept anything. Nothing happened.
    #[error("no majority of the nodes can be reached")]
    NoMajority,
    /// The leadership changed before it was decided: it may still be, or may be gone.
    #[error("the leader changed before it was decided; it may have happened or not")]
    Unknown,
    /// The node has stopped: it may still be decided, or may be gone.
    #[error("the node has stopped: {0}")]
    Stopped(String),
}

/// Why a read would not be up to date.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stale {
    /// Another node leads, or none.
    #[error("this node does not lead{}", described(.0))]
    NotLeader(Option<u64>),
    /// This node may not lead any more: no majority answers.
    #[error("no majority of the nodes can be reached")]
    NoMajority,
    /// The node has stopped.
    #[error("the node has stopped: {0}")]
    Stopped(String),
}

/// Why the leadership was not handed over.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kept {
    /// There was nothing to hand over.
    #[error("this node does not lead")]
    NotLeader,
    /// There is nobody to take it.
    #[error("no other node is there to lead")]
    Nobody,
    /// The other one did not take it in time.
    #[error("node {0} did not take over in time")]
    Late(u64),
    /// The node has stopped.
    #[error("the node has stopped: {0}")]
    Stopped(String),
}

fn described(leader: &Option<u64>) -> String {
    leader.map_or_else(String::new, |id| format!("; node {id} does"))
}

impl From<ClientWriteError<Types>> for Refused {
    fn from(error: ClientWriteError<Types>) -> Self {
        match error {
            ClientWriteError::ForwardToLeader(forward) => match forward.reason {
                ForwardReason::LeaseExpired => Self::NoMajority,
                ForwardReason::NotLeader | ForwardReason::LeadershipTransfer => {
                    Self::NotLeader(forward.leader_id)
                }
            },
            ClientWriteError::PreconditionFailed(_) => Self::NotLeader(None),
            ClientWriteError::LogEntryDiscarded(_) => Self::Unknown,
            ClientWriteError::ChangeMembershipError(error) => Self::Stopped(error.to_string()),
        }
    }
}
