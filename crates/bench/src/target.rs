//! What can be measured: anything that hands out named locks to clients that have a session each.
//!
//! A [`Target`] makes [`Client`]s for the loads in which everyone does one thing at a time, and, where the system allows
//! it, a [`Crowd`] for the one load in which thousands wait at once. The futures are boxed: an allocation costs nothing
//! beside a round trip, and one table of targets of different kinds is worth it.

use std::future::Future;
use std::pin::Pin;

use thiserror::Error;

/// Something that a target does and that takes time.
pub type Work<'a, T> = Pin<Box<dyn Future<Output = Result<T, TargetError>> + Send + 'a>>;

/// Why a target did not do what was asked. What was asked may have happened all the same; a client that has seen any of
/// these is to be thrown away.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TargetError {
    /// Nobody answers at that endpoint.
    #[error("cannot reach {endpoint}: {reason}")]
    Unreachable {
        /// Where.
        endpoint: String,
        /// What the system says.
        reason: String,
    },
    /// The connection broke in the middle.
    #[error("the connection was lost: {0}")]
    Lost(String),
    /// The server answered, and said no.
    #[error("the server refused: {0}")]
    Refused(String),
    /// The server answered something that the protocol does not allow here.
    #[error("the server sent what was not expected: {0}")]
    Garbled(String),
    /// No answer came in time.
    #[error("no answer within {0} ms")]
    Late(u128),
    /// This kind of target cannot do that.
    #[error("{kind} cannot {what}")]
    Unsupported {
        /// The kind of target.
        kind: &'static str,
        /// What it cannot do.
        what: &'static str,
    },
}

/// A system under measurement, known by its endpoints.
pub trait Target: Send + Sync {
    /// A client with a connection and a session of its own, at the next endpoint in turn.
    fn client(&self) -> Work<'_, Box<dyn Client>>;

    /// Where its servers listen.
    fn endpoints(&self) -> &[String];

    /// What the server at an endpoint, by its index, says of itself. An error means that it does not serve.
    fn role(&self, endpoint: usize) -> Work<'_, Role>;

    /// So many sessions that will wait for one name together.
    fn crowd(&self, sessions: usize) -> Work<'_, Box<dyn Crowd>>;
}

/// What a server is to its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It leads, or is alone.
    Leader,
    /// It serves and knows its leader.
    Follower,
    /// It runs, but has no leader.
    Lost,
}

/// One client, which does one thing at a time.
pub trait Client: Send {
    /// Takes the lock, however long that takes. The number is the fencing token, where the system has one: it has to
    /// grow from grant to grant of a name.
    fn acquire<'a>(&'a mut self, name: &'a str) -> Work<'a, Option<u64>>;

    /// Gives back what was acquired last.
    fn release(&mut self) -> Work<'_, ()>;

    /// Ends the session in good order.
    fn close(self: Box<Self>) -> Work<'static, ()>;
}

/// Many acquires that wait for one name at once, spread over a few sessions. A system whose clients share a connection
/// between many waiting requests should do so here.
pub trait Crowd: Send {
    /// Sends so many more acquires of a name, to wait as long as it takes. Returns when all of them are in flight;
    /// grants arrive by [`Crowd::wake`]. Waiters are numbered from 0 in the order in which they were sent, over all calls.
    fn join<'a>(&'a mut self, name: &'a str, waiters: usize) -> Work<'a, ()>;

    /// How many hold the name or wait for it, in the server's own view.
    fn present<'a>(&'a mut self, name: &'a str) -> Work<'a, usize>;

    /// The next thing that reaches any of the waiters, whatever it is. Nothing is lost when this is given up halfway.
    fn wake(&mut self) -> Work<'_, Wake>;

    /// Gives back what that waiter was granted.
    fn release(&mut self, waiter: usize) -> Work<'_, ()>;

    /// Ends the sessions in good order.
    fn close(self: Box<Self>) -> Work<'static, ()>;
}

/// What reached a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// Which one.
    pub waiter: usize,
    /// Whether it was the grant, or only a nudge to look again.
    pub granted: bool,
    /// The fencing token, where the system has one.
    pub token: Option<u64>,
}
