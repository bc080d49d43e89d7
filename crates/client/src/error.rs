//! What can go wrong.

use conclave_wire::v1;
use conclave_wire::v1::failed::Code;

/// Why something did not happen.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The service refused, and nothing changed.
    #[error("{0}")]
    Refused(Failure),
    /// The session ended: what it held is lost.
    #[error("the session is over: {0}")]
    SessionOver(String),
    /// No node answered in time. Whether the request took effect is not known; asking again through the same session is
    /// safe.
    #[error("no node of the service answers ({0})")]
    Unavailable(String),
    /// An address makes no sense.
    #[error("{0}")]
    Endpoint(String),
    /// A node answered something that this client does not understand, or speaks another version of the protocol. Asking
    /// again does not help.
    #[error("{0}")]
    Protocol(String),
}

/// What a guard stands for may be somebody else's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what was held under token {token} is lost: {why}")]
pub struct Lost {
    /// The token under which it was held.
    pub token: u64,
    /// How it was lost.
    pub why: String,
}

/// A refusal, as the service put it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What kind.
    pub code: Code,
    /// In words.
    pub text: String,
    /// Of a deadlock: who waits for whom.
    pub cycle: Vec<v1::Wait>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<v1::Failed> for Failure {
    fn from(failed: v1::Failed) -> Self {
        Self { code: failed.code(), text: failed.text, cycle: failed.cycle }
    }
}

impl Error {
    /// A node answered something that this client does not understand.
    pub(crate) fn unexpected(answer: impl std::fmt::Display) -> Self {
        Self::Protocol(format!("unexpected answer: {answer}"))
    }

    /// What kind of refusal it is, if it is one.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Refused(failure) => Some(failure.code),
            _ => None,
        }
    }
}

impl From<tonic::Status> for Error {
    fn from(status: tonic::Status) -> Self {
        match status.code() {
            tonic::Code::Unavailable
            | tonic::Code::Cancelled
            | tonic::Code::Unknown
            | tonic::Code::DeadlineExceeded => Self::Unavailable(status.message().to_owned()),
            // It says in a sentence what does not go together.
            tonic::Code::FailedPrecondition => Self::Protocol(status.message().to_owned()),
            _ => Self::unexpected(format!("{}: {}", status.code(), status.message())),
        }
    }
}
