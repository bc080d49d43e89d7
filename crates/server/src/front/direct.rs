//! Clients that exchange frames with a node instead of calling it.
//!
//! A task for each connection reads what arrives, and sends what is to be told as soon as there is something.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use conclave_wire::{Arrival, Connection, Direct, Incoming, Terms, v1};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::front::queue::Closed;
use crate::front::talk::Reader;
use crate::front::{Answers, Front, Place};

/// Connections that wait for the server of HTTP/2.
const WAITING: usize = 64;
/// Messages that are on their way to the node that leads.
const PASSED_ON: usize = 16;

/// Who takes what a client says.
enum Ear {
    Here(Reader),
    There(mpsc::Sender<v1::ToServer>),
}

impl Ear {
    async fn take(&mut self, message: v1::ToServer) -> Result<(), Closed> {
        match self {
            Self::Here(reader) => reader.take(message).await,
            Self::There(leader) => leader.send(message).await.map_err(|_| Closed),
        }
    }

    async fn leave(self) {
        if let Self::Here(reader) = self {
            reader.leave().await;
        }
    }
}

/// Serves connections that begin with our greeting, and gives all others, for as long as the node runs. Those who are
/// served when it stops have a moment to be sent away; then the task ends.
pub fn sort(
    incoming: Incoming,
    front: Front,
    terms: Terms,
    stop: CancellationToken,
    moment: Duration,
) -> (impl Stream<Item = io::Result<Connection>> + use<>, JoinHandle<()>) {
    let (others, rest) = mpsc::channel(WAITING);
    let serving = tokio::spawn(async move {
        let mut served = JoinSet::new();
        let serve = |connection| serve(connection, front.clone(), terms, others.clone());
        take_in(incoming, &stop, &mut served, serve).await;
        let all_left = async { while served.join_next().await.is_some() {} };
        // The others are cut off.
        drop(timeout(moment, all_left).await);
    });
    (ReceiverStream::new(rest), serving)
}

/// Has every connection served that arrives, until the node stops: from then on nobody listens.
async fn take_in<F>(
    mut incoming: Incoming,
    stop: &CancellationToken,
    served: &mut JoinSet<()>,
    serve: impl Fn(Connection) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some(arrived) = incoming.next() => {
                // Whoever left at once is nobody's.
                if let Ok(connection) = arrived {
                    served.spawn(serve(connection));
                }
            }
            Some(_) = served.join_next() => {}
        }
    }
}

async fn serve(
    connection: Connection,
    front: Front,
    terms: Terms,
    others: mpsc::Sender<io::Result<Connection>>,
) {
    match Direct::meet(connection, terms).await {
        Ok(Arrival::Direct(direct)) => front.talk_directly(direct).await,
        // A server that stops takes nobody in.
        Ok(Arrival::Other(connection)) => drop(others.send(Ok(connection)).await),
        // It left before it had said anything.
        Err(_) => {}
    }
}

impl Front {
    async fn talk_directly(&self, mut direct: Direct) {
        match self.receive().await {
            Err(status) => direct.put_end(&status),
            Ok((mut ear, mut answers)) => {
                if let Err(status) = converse(&mut direct, &mut ear, &mut answers).await {
                    direct.put_end(&status);
                }
                ear.leave().await;
            }
        }
        direct.close().await;
    }

    /// Finds out who answers a client. It has said nothing yet, so another node that is elected meanwhile may do so.
    async fn receive(&self) -> Result<(Ear, Answers<v1::ToClient>), Status> {
        loop {
            let leader = match self.leaders_place().await? {
                Place::Here => {
                    let (reader, answers) = self.enter().await?;
                    return Ok((Ear::Here(reader), Box::pin(answers)));
                }
                Place::There(leader) => *leader,
            };
            let term = leader.term;
            let (ear, said) = mpsc::channel(PASSED_ON);
            match self.pass_on(leader, ReceiverStream::new(said)).await {
                Ok(answers) => return Ok((Ear::There(ear), answers)),
                Err(_) if self.consensus.leader().borrow().is_some_and(|now| now.term > term) => {}
                Err(status) => return Err(status),
            }
        }
    }
}

/// Carries what is said there and back, until either side ends it; fails if the client is to be told why.
async fn converse(
    direct: &mut Direct,
    ear: &mut Ear,
    answers: &mut Answers<v1::ToClient>,
) -> Result<(), Status> {
    loop {
        let message = tokio::select! {
            biased;
            answer = answers.next(), if direct.has_room() => match answer {
                Some(answer) => {
                    direct.put(&answer?);
                    continue;
                }
                None => return Ok(()),
            },
            message = direct.next() => match message? {
                Some(message) => message,
                None => return Ok(()),
            },
        };
        // Where there is no room for it, the client waits; what it is told does not.
        let mut taking = pin!(ear.take(message));
        loop {
            tokio::select! {
                biased;
                taken = &mut taking => match taken {
                    Ok(()) => break,
                    Err(Closed) => return Ok(()),
                },
                answer = answers.next(), if direct.has_room() => match answer {
                    Some(answer) => direct.put(&answer?),
                    None => return Ok(()),
                },
                sent = direct.send(), if !direct.is_sent() => sent?,
            }
        }
    }
}
