//! What can be asked without a session.

use std::future::Future;
use std::time::Duration;

use conclave_wire::v1;
use conclave_wire::v1::conclave_client::ConclaveClient;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Response, Status, Streaming};

use crate::Client;
use crate::error::Error;

const PAUSE: Duration = Duration::from_millis(50);

/// Who leads.
pub type Leader = v1::Leader;

impl Client {
    /// Asks one node after the other until one answers.
    async fn ask_any<T, F>(&self, ask: impl Fn(ConclaveClient<Channel>) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let give_up = Instant::now() + self.options.patience;
        loop {
            let mut last = None;
            for endpoint in &self.options.endpoints {
                match self.ask_at(endpoint, &ask).await {
                    Ok(answer) => return Ok(answer),
                    Err(Error::Unavailable(why)) => {
                        last = Some(Error::Unavailable(format!("{endpoint}: {why}")));
                    }
                    Err(error) => return Err(error),
                }
            }
            if Instant::now() + PAUSE >= give_up {
                return Err(last.unwrap_or_else(|| Error::Unavailable("no endpoint".to_owned())));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Asks one node.
    async fn ask_at<T, F>(
        &self,
        endpoint: &str,
        ask: impl Fn(ConclaveClient<Channel>) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let limit = self.options.connect_timeout;
        let channel = conclave_wire::channel(&self.options.transport, endpoint, limit)
            .map_err(|error| Error::Endpoint(error.to_string()))?;
        match tokio::time::timeout(limit * 3, ask(ConclaveClient::new(channel))).await {
            Ok(answer) => Ok(answer?.into_inner()),
            Err(_) => Err(Error::Unavailable("it does not answer".to_owned())),
        }
    }

    /// The names in use that begin with a prefix, in order.
    pub async fn list(&self, prefix: &str) -> Result<Vec<v1::Summary>, Error> {
        let mut names = Vec::new();
        loop {
            let after = names.last().map(|last: &v1::Summary| last.name.clone()).unwrap_or_default();
            let request = v1::ListRequest { prefix: prefix.to_owned(), after, limit: 0 };
            let page = self.ask_any(|mut client| {
                let request = request.clone();
                async move { client.list(request).await }
            });
            let page = page.await?;
            names.extend(page.names);
            if !page.more {
                return Ok(names);
            }
        }
    }

    /// Everything about a name; nothing if the service does not know it.
    pub async fn show(&self, name: &str) -> Result<Option<v1::ShowResponse>, Error> {
        let shown = self.ask_any(|mut client| {
            let request = v1::ShowRequest { name: name.to_owned() };
            async move { client.show(request).await }
        });
        Ok(Some(shown.await?).filter(|shown| shown.summary.is_some()))
    }

    /// Everything about a session; nothing if there is none.
    pub async fn show_session(&self, session: u64) -> Result<Option<v1::ShowSessionResponse>, Error> {
        let shown = self.ask_any(|mut client| async move {
            client.show_session(v1::ShowSessionRequest { session }).await
        });
        Ok(Some(shown.await?).filter(|shown| shown.session != 0))
    }

    /// What a name's first waiter, or a session, waits for, and through whom.
    pub async fn why(&self, of: v1::why_request::Of) -> Result<Vec<v1::Wait>, Error> {
        let why = self.ask_any(|mut client| {
            let request = v1::WhyRequest { of: Some(of.clone()) };
            async move { client.why(request).await }
        });
        Ok(why.await?.chain)
    }

    /// What a fencing token is worth.
    pub async fn check(&self, name: &str, token: u64) -> Result<v1::CheckResponse, Error> {
        self.ask_any(|mut client| {
            let request = v1::CheckRequest { name: name.to_owned(), token };
            async move { client.check(request).await }
        })
        .await
    }

    /// How one node is, as it sees it.
    pub async fn status(&self, endpoint: &str) -> Result<v1::StatusResponse, Error> {
        self.ask_at(endpoint, |mut client| async move { client.status(v1::StatusRequest {}).await }).await
    }

    /// Where the client asks.
    #[must_use]
    pub fn endpoints(&self) -> &[String] {
        &self.options.endpoints
    }

    /// Follows the leader of a name.
    #[must_use]
    pub fn observe(&self, name: impl Into<String>) -> Observer {
        Observer { client: self.clone(), name: name.into(), stream: None, last: None, revision: 0 }
    }

    /// Follows the names that begin with a prefix.
    #[must_use]
    pub fn watch(&self, prefix: impl Into<String>) -> Watcher {
        Watcher { client: self.clone(), prefix: prefix.into(), stream: None }
    }
}

/// What an observer sees.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// Grows.
    pub revision: u64,
    /// Who leads; nobody is a vacancy.
    pub leader: Option<Leader>,
}

/// Follows the leader of a name, through broken connections and changes of node.
pub struct Observer {
    client: Client,
    name: String,
    stream: Option<Streaming<v1::ObserveResponse>>,
    last: Option<Option<Leader>>,
    revision: u64,
}

impl Observer {
    /// What is new: at first the present state, then every change. Fails when no node answers for as long as the
    /// client's patience lasts, and may be asked again.
    pub async fn next(&mut self) -> Result<Observed, Error> {
        loop {
            let mut stream = match self.stream.take() {
                Some(stream) => stream,
                None => self.open().await?,
            };
            let Ok(Some(answer)) = stream.message().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            self.stream = Some(stream);
            if answer.revision < self.revision || self.last.as_ref() == Some(&answer.leader) {
                continue;
            }
            self.revision = answer.revision;
            self.last = Some(answer.leader.clone());
            return Ok(Observed { revision: answer.revision, leader: answer.leader });
        }
    }

    async fn open(&self) -> Result<Streaming<v1::ObserveResponse>, Error> {
        let request = v1::ObserveRequest { name: self.name.clone(), after_revision: self.revision };
        self.client
            .ask_any(|mut client| {
                let request = request.clone();
                async move { client.observe(request).await }
            })
            .await
    }
}

/// Follows names, through broken connections and changes of node.
pub struct Watcher {
    client: Client,
    prefix: String,
    stream: Option<Streaming<v1::WatchResponse>>,
}

impl Watcher {
    /// What is new: at first every name, then those that changed. `None` says that everything comes anew.
    pub async fn next(&mut self) -> Result<Option<v1::WatchResponse>, Error> {
        if self.stream.is_none() {
            let request = v1::WatchRequest { prefix: self.prefix.clone() };
            let opened = self.client.ask_any(|mut client| {
                let request = request.clone();
                async move { client.watch(request).await }
            });
            self.stream = Some(opened.await?);
            return Ok(None);
        }
        let Some(stream) = &mut self.stream else { return Ok(None) };
        if let Ok(Some(answer)) = stream.message().await {
            return Ok(Some(answer));
        }
        self.stream = None;
        tokio::time::sleep(PAUSE).await;
        Box::pin(self.next()).await
    }
}
