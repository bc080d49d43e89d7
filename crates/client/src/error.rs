//! What can go wrong.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use conclave_wire::v1;

use crate::session::Owner;

/// Why something did not happen.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The service refused, and nothing changed.
    Refused(Failure),
    /// The session ended: what it held is lost.
    SessionOver(String),
    /// What was held was lost while the work was done that it was held for.
    Lost(Lost),
    /// No node answered in time. Whether the request took effect is not known; asking again through the same session is
    /// safe.
    Unavailable(Reason),
    /// An address makes no sense.
    Endpoint(String),
    /// A node answered something that this client does not understand, or speaks another version of the protocol. Asking
    /// again does not help.
    Protocol(Reason),
    /// This machine has no thread or no randomness for a client.
    Machine(Reason),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(failure) => failure.fmt(f),
            Self::SessionOver(why) => write!(f, "the session is over: {why}"),
            Self::Lost(lost) => lost.fmt(f),
            Self::Unavailable(why) => write!(f, "no node of the service answers ({why})"),
            Self::Endpoint(text) => f.write_str(text),
            Self::Protocol(why) | Self::Machine(why) => why.fmt(f),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Unavailable(why) | Self::Protocol(why) | Self::Machine(why) => {
                Some(why.source.as_ref()?.as_ref())
            }
            Self::Refused(_) | Self::SessionOver(_) | Self::Lost(_) | Self::Endpoint(_) => None,
        }
    }
}

/// Why, in words, and what lies behind it, if that is an error as well.
#[derive(Clone, Debug)]
pub struct Reason {
    text: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Reason {
    /// In words.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The same reason, with where it arose.
    pub(crate) fn at(self, place: &str) -> Self {
        Self { text: format!("{place}: {}", self.text), ..self }
    }

    pub(crate) fn with(text: impl Into<String>, source: impl StdError + Send + Sync + 'static) -> Self {
        Self { text: text.into(), source: Some(Arc::new(source)) }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<T: Into<String>> From<T> for Reason {
    fn from(text: T) -> Self {
        Self { text: text.into(), source: None }
    }
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

/// What kind of refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// Somebody else has it, and the request does not wait.
    Busy,
    /// It was not granted in the time that the request waits.
    TimedOut,
    /// The request was cancelled.
    Cancelled,
    /// To wait would have closed a cycle of those who wait for each other.
    Deadlock,
    /// There is no such session.
    NoSession,
    /// The session does not hold that.
    NotHeld,
    /// The name is in use in another way: as an election, or with another number of permits.
    Mismatch,
    /// The session does not stand for election.
    NoCandidate,
    /// Nobody holds the name.
    Free,
    /// The service has no room for it.
    Limit,
    /// The request makes no sense.
    Invalid,
    /// There is no session of that number to do something to.
    NoSuchSession,
    /// A kind that this client does not know.
    Other,
}

impl From<v1::failed::Code> for Code {
    fn from(code: v1::failed::Code) -> Self {
        use v1::failed::Code as Wire;
        match code {
            Wire::Unspecified => Self::Other,
            Wire::Busy => Self::Busy,
            Wire::TimedOut => Self::TimedOut,
            Wire::Cancelled => Self::Cancelled,
            Wire::Deadlock => Self::Deadlock,
            Wire::NoSession => Self::NoSession,
            Wire::NotHeld => Self::NotHeld,
            Wire::Mismatch => Self::Mismatch,
            Wire::NoCandidate => Self::NoCandidate,
            Wire::Free => Self::Free,
            Wire::Limit => Self::Limit,
            Wire::Invalid => Self::Invalid,
            Wire::NoSuchSession => Self::NoSuchSession,
        }
    }
}

/// A refusal, as the service put it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// What kind.
    pub code: Code,
    /// In words.
    pub text: String,
    /// Of a deadlock: who waits for whom.
    pub cycle: Vec<Wait>,
}

/// A step of a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Who waits.
    pub session: u64,
    /// The same, in its own words.
    pub owner: Owner,
    /// For what.
    pub name: String,
    /// Behind whom.
    pub behind: u64,
    /// Whether that one holds the name, rather than waits for it too.
    pub holds: bool,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<v1::Failed> for Failure {
    fn from(failed: v1::Failed) -> Self {
        let wait = |wait: v1::Wait| Wait {
            session: wait.session,
            owner: wait.owner.unwrap_or_default().into(),
            name: wait.name,
            behind: wait.behind,
            holds: wait.holds,
        };
        let code = failed.code().into();
        Self { code, text: failed.text, cycle: failed.cycle.into_iter().map(wait).collect() }
    }
}

impl Error {
    /// A node answered something that this client does not understand.
    pub(crate) fn unexpected(answer: impl fmt::Display) -> Self {
        Self::Protocol(format!("unexpected answer: {answer}").into())
    }

    pub(crate) fn of(status: tonic::Status) -> Self {
        match status.code() {
            tonic::Code::Unavailable
            | tonic::Code::Cancelled
            | tonic::Code::Unknown
            | tonic::Code::DeadlineExceeded => {
                Self::Unavailable(Reason::with(status.message().to_owned(), status))
            }
            // It says in a sentence what does not go together.
            tonic::Code::FailedPrecondition => {
                Self::Protocol(Reason::with(status.message().to_owned(), status))
            }
            code => Self::Protocol(Reason::with(
                format!("unexpected answer: {code}: {}", status.message()),
                status,
            )),
        }
    }

    /// What kind of refusal it is, if it is one.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Refused(failure) => Some(failure.code),
            _ => None,
        }
    }

    /// Somebody else has it, and the request does not wait.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.code() == Some(Code::Busy)
    }

    /// It was not granted in the time that the request waits.
    #[must_use]
    pub fn is_timed_out(&self) -> bool {
        self.code() == Some(Code::TimedOut)
    }

    /// To wait would have closed a cycle.
    #[must_use]
    pub fn is_deadlock(&self) -> bool {
        self.code() == Some(Code::Deadlock)
    }

    /// The session is over, and what it held is lost: begin again with a new one.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::SessionOver(_) | Self::Lost(_)) || self.code() == Some(Code::NoSession)
    }

    /// No node answered: to ask again later may help.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_tell_what_lies_behind_them() {
        let status = tonic::Status::unavailable("nobody listens");
        let error = Error::of(status);
        assert!(error.is_unavailable() && !error.is_lost() && error.code().is_none());
        assert_eq!(error.to_string(), "no node of the service answers (nobody listens)");
        let source = error.source().expect("the status");
        assert!(source.is::<tonic::Status>(), "{source}");
        assert!(Error::Endpoint("x".to_owned()).source().is_none());
    }

    #[test]
    fn refusals_are_told_apart() {
        use v1::failed::Code as Wire;
        let refused = |code: Wire| {
            Error::Refused(v1::Failed { code: code.into(), text: String::new(), cycle: vec![] }.into())
        };
        assert!(refused(Wire::Busy).is_busy() && !refused(Wire::Busy).is_timed_out());
        assert!(refused(Wire::TimedOut).is_timed_out());
        assert!(refused(Wire::Deadlock).is_deadlock());
        assert!(refused(Wire::NoSession).is_lost() && !refused(Wire::Limit).is_lost());
        assert_eq!(refused(Wire::Unspecified).code(), Some(Code::Other));
    }
}
