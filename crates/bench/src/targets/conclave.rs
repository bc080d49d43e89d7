//! Conclave itself, through its own client library: one session per client.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use conclave_client::{Error, Guard, Options, Request, Session, SessionOptions};
use tokio::sync::mpsc;

use super::Endpoints;
use super::pool::Pool;
use crate::target::{Client, Crowd, Role, Target, TargetError, Wake, Work};

/// How clients give back what they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// By asking, and waiting for the answer.
    Awaited,
    /// By dropping the guard.
    Dropped,
}

/// A conclave cluster.
pub struct Conclave {
    endpoints: Endpoints,
    ttl: Duration,
    release: Release,
    connections: Pool<conclave_client::Client>,
}

impl Conclave {
    /// The nodes at these endpoints.
    pub fn new(
        endpoints: Endpoints,
        ttl: Duration,
        release: Release,
        connections: Option<NonZeroUsize>,
    ) -> Self {
        Self { endpoints, ttl, release, connections: Pool::new(connections) }
    }

    /// A connection that prefers the next endpoint in turn, and knows the others.
    fn connect(&self) -> Result<conclave_client::Client, TargetError> {
        let first = self.endpoints.next()?.to_owned();
        let others = self.endpoints.all().iter().filter(|endpoint| **endpoint != first).cloned();
        let endpoints: Vec<String> = std::iter::once(first.clone()).chain(others).collect();
        // The generator takes one thread for everything.
        conclave_client::Client::with(Options::new(endpoints).in_this_runtime()).map_err(told)
    }

    fn session(&self) -> SessionOptions {
        SessionOptions::default().ttl(self.ttl).label("bench")
    }
}

fn told(error: Error) -> TargetError {
    match error {
        Error::Unavailable(why) => TargetError::Lost(why.to_string()),
        Error::SessionOver(why) => TargetError::Lost(why),
        other => TargetError::Refused(other.to_string()),
    }
}

impl Target for Conclave {
    fn client(&self) -> Work<'_, Box<dyn Client>> {
        Box::pin(async {
            let connection = self.connections.take(async { self.connect() }).await?;
            let session = connection.session(self.session()).await.map_err(told)?;
            Ok(Box::new(ConclaveClient { session, held: None, release: self.release }) as Box<dyn Client>)
        })
    }

    fn endpoints(&self) -> &[String] {
        self.endpoints.all()
    }

    fn role(&self, endpoint: usize) -> Work<'_, Role> {
        Box::pin(async move {
            let status = self.connect()?.status(self.endpoints.at(endpoint)?).await.map_err(told)?;
            Ok(match status.leader {
                0 => Role::Lost,
                leader if leader == status.node => Role::Leader,
                _ => Role::Follower,
            })
        })
    }

    fn crowd(&self, sessions: usize) -> Work<'_, Box<dyn Crowd>> {
        Box::pin(async move {
            let client = self.connect()?;
            let mut opened = Vec::with_capacity(sessions);
            for _ in 0..sessions {
                opened.push(client.session(self.session()).await.map_err(told)?);
            }
            let (out, grants) = mpsc::unbounded_channel();
            let crowd = ConclaveCrowd { client, sessions: opened, held: Vec::new(), out, grants };
            Ok(Box::new(crowd) as Box<dyn Crowd>)
        })
    }
}

struct ConclaveClient {
    session: Session,
    held: Option<Guard>,
    release: Release,
}

impl Client for ConclaveClient {
    fn acquire<'a>(&'a mut self, name: &'a str) -> Work<'a, Option<u64>> {
        Box::pin(async move {
            let guard = self.session.acquire(Request::lock(name)).await.map_err(told)?;
            let token = guard.token();
            self.held = Some(guard);
            Ok(Some(token))
        })
    }

    fn release(&mut self) -> Work<'_, ()> {
        Box::pin(async {
            let nothing = || TargetError::Refused("nothing is held".to_owned());
            let guard = self.held.take().ok_or_else(nothing)?;
            if self.release == Release::Awaited {
                guard.release().await.map_err(told)?;
            }
            Ok(())
        })
    }

    fn close(self: Box<Self>) -> Work<'static, ()> {
        Box::pin(async { self.session.close().await.map_err(told) })
    }
}

/// Waiters that share one connection and a few sessions.
struct ConclaveCrowd {
    client: conclave_client::Client,
    sessions: Vec<Session>,
    held: Vec<Option<Guard>>,
    out: mpsc::UnboundedSender<(usize, Result<Guard, Error>)>,
    grants: mpsc::UnboundedReceiver<(usize, Result<Guard, Error>)>,
}

impl Crowd for ConclaveCrowd {
    fn join<'a>(&'a mut self, name: &'a str, waiters: usize) -> Work<'a, ()> {
        Box::pin(async move {
            let name: Arc<str> = name.into();
            let (queued, mut standing) = mpsc::unbounded_channel();
            for waiter in self.held.len()..self.held.len() + waiters {
                let session = self.sessions[waiter % self.sessions.len()].clone();
                // Waiters of one session are independent of each other.
                let strand = u32::try_from(waiter).unwrap_or(u32::MAX);
                let request = Request::lock(&*name).strand(strand).tell_queued(queued.clone());
                let out = self.out.clone();
                tokio::spawn(async move {
                    let granted = session.acquire(request).await;
                    let _ = out.send((waiter, granted));
                });
                self.held.push(None);
                // In order, and without more under way than one message holds.
                if waiter % 256 == 255 {
                    standing.recv().await;
                }
            }
            Ok(())
        })
    }

    fn present<'a>(&'a mut self, name: &'a str) -> Work<'a, usize> {
        Box::pin(async move {
            let listed = self.client.list(name).await.map_err(told)?;
            let named = listed.iter().find(|summary| summary.name == name);
            Ok(named.map_or(0, |summary| (summary.holders + summary.waiters) as usize))
        })
    }

    fn wake(&mut self) -> Work<'_, Wake> {
        Box::pin(async {
            let lost = || TargetError::Lost("the crowd is gone".to_owned());
            let (waiter, granted) = self.grants.recv().await.ok_or_else(lost)?;
            let guard = granted.map_err(told)?;
            let token = Some(guard.token());
            self.held[waiter] = Some(guard);
            Ok(Wake { waiter, granted: true, token })
        })
    }

    fn release(&mut self, waiter: usize) -> Work<'_, ()> {
        Box::pin(async move {
            match self.held.get_mut(waiter).and_then(Option::take) {
                Some(guard) => guard.release().await.map_err(told),
                None => Err(TargetError::Refused("nothing is held".to_owned())),
            }
        })
    }

    fn close(self: Box<Self>) -> Work<'static, ()> {
        Box::pin(async {
            for session in self.sessions {
                session.close().await.map_err(told)?;
            }
            Ok(())
        })
    }
}
