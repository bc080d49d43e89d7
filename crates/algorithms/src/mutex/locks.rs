//! One lock or several, seen alike.

use alloc::vec;
use alloc::vec::Vec;

use conclave_core::{NodeId, Protocol, Stamp};
use serde::de::DeserializeOwned;

use super::{Epoch, Event, Mutex, Request};
use crate::Name;
use crate::recorded::Token;

/// A protocol that runs one or more locks, each by an algorithm for mutual exclusion.
///
/// Every [`Mutex`] is one lock; [`Named`](crate::Named) is any number of them.
pub trait Locks: Protocol<Message: DeserializeOwned, Durable: DeserializeOwned> {
    /// The request for one of the locks.
    fn ask(lock: usize, request: Request) -> Self::Request;
    /// The request for the lock of this name; a single lock has none.
    fn ask_named(name: &Name, request: Request) -> Self::Request;
    /// Which lock a request is for, and what it asks.
    fn asked(request: &Self::Request) -> (usize, Request);
    /// Which lock an event is about, and what it says.
    fn told(event: &Self::Event) -> (usize, &Event);
    /// The name of the lock that a request is for, where locks have names.
    fn name_asked(_request: &Self::Request) -> Option<&Name> {
        None
    }
    /// The name of the lock that an event is about, where locks have names.
    fn name_told(_event: &Self::Event) -> Option<&Name> {
        None
    }
    /// Reads a message as postcard writes it; nothing if it is none.
    fn read(config: &Self::Config, bytes: &[u8]) -> Option<Self::Message>;
    /// The stamp of the request that a message announces, and for which lock.
    fn announced(from: NodeId, message: &Self::Message) -> Option<(usize, Stamp)>;

    /// Whether the right to enter may be a token that moves.
    const MOVES_TOKEN: bool;
    /// Whether it is, set up so.
    fn moves_token(config: &Self::Config) -> bool;
    /// The token of one of the locks that this process has.
    fn token(&self, lock: usize) -> Option<Epoch>;
    /// The token that a message carries, and of which lock.
    fn token_in(message: &Self::Message) -> Option<(usize, Epoch)>;
    /// The token of each lock that this process knows of, or that it does not have it.
    fn tokens(&self) -> Vec<Token> {
        vec![Token::only(self.token(0))]
    }
    /// The token that a message carries, and of which lock by its name.
    fn named_token_in(message: &Self::Message) -> Option<Token> {
        Self::token_in(message).map(|(_, epoch)| Token::only(Some(epoch)))
    }
}

impl<P: Mutex> Locks for P {
    const MOVES_TOKEN: bool = <P as Mutex>::MOVES_TOKEN;

    fn moves_token(config: &P::Config) -> bool {
        <P as Mutex>::moves_token(config)
    }

    fn token(&self, _lock: usize) -> Option<Epoch> {
        Mutex::token(self)
    }
    fn token_in(message: &P::Message) -> Option<(usize, Epoch)> {
        <P as Mutex>::token_in(message).map(|epoch| (0, epoch))
    }
    fn read(config: &P::Config, bytes: &[u8]) -> Option<P::Message> {
        <P as Mutex>::read(config, bytes)
    }
    fn ask(_lock: usize, request: Request) -> Request {
        request
    }
    fn ask_named(_name: &Name, request: Request) -> Request {
        request
    }
    fn asked(request: &Request) -> (usize, Request) {
        (0, *request)
    }
    fn told(event: &Event) -> (usize, &Event) {
        (0, event)
    }
    fn announced(from: NodeId, message: &P::Message) -> Option<(usize, Stamp)> {
        <P as Mutex>::announced(from, message).map(|stamp| (0, stamp))
    }
}
