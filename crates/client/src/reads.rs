//! What can be asked without a session.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use conclave_wire::{VersionedClient, named_cluster, v1, versioned};
use prost::bytes::Bytes;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Response, Status, Streaming};

use crate::Client;
use crate::error::Error;
use crate::mutant::{self, Mutant};
use crate::session::Owner;

const PAUSE: Duration = Duration::from_millis(50);

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The session that leads.
    pub session: u64,
    /// The same, in its own words.
    pub owner: Owner,
    /// Since which grant: the fencing token.
    pub term: u64,
    /// What it shows.
    pub value: Vec<u8>,
}

impl From<v1::Leader> for Leader {
    fn from(leader: v1::Leader) -> Self {
        let v1::Leader { session, owner, term, value } = leader;
        Self { session, owner: owner.unwrap_or_default().into(), term, value: value.to_vec() }
    }
}

impl Client {
    /// Asks one node after the other until one answers.
    async fn ask_any<T, F>(&self, ask: impl Fn(VersionedClient) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.ask_along(ask).await
    }

    /// The same, over the connection that is in use, as long as it leads somewhere.
    async fn ask_along<T, F>(&self, ask: impl Fn(VersionedClient) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        if let Some(channel) = self.way.get() {
            match self.ask_through(channel, &ask).await {
                Ok(answer) => return Ok(answer),
                Err(_) => self.way.forget(),
            }
        }
        let give_up = Instant::now() + self.options.patience;
        loop {
            let (mut last, mut refusal) = (None, None);
            for endpoint in &self.options.endpoints {
                let channel = self.channel(endpoint)?;
                match self.ask_through(channel.clone(), &ask).await {
                    Ok(answer) => {
                        self.way.offer(&channel);
                        return Ok(answer);
                    }
                    Err(Error::Unavailable(why)) => last = Some(Error::Unavailable(why.at(endpoint))),
                    // It would refuse that again, but others may be of another version.
                    Err(Error::Protocol(why)) => {
                        refusal.get_or_insert_with(|| Error::Protocol(why.at(endpoint)));
                    }
                    Err(error) => return Err(error),
                }
            }
            if let Some(refusal) = refusal {
                return Err(refusal);
            }
            if Instant::now() + PAUSE >= give_up {
                return Err(last.unwrap_or_else(|| Error::Unavailable("no endpoint".into())));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn channel(&self, endpoint: &str) -> Result<Channel, Error> {
        // Its task belongs to the client, not to whoever asks.
        let _entered = self.runtime.enter();
        conclave_wire::channel(&self.options.transport, endpoint, self.options.connect_timeout)
            .map_err(|error| Error::Endpoint(error.to_string()))
    }

    /// Asks one node of the cluster that is known.
    async fn ask_through<T, F>(
        &self,
        channel: Channel,
        ask: impl Fn(VersionedClient) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let limit = self.options.connect_timeout * 3;
        match tokio::time::timeout(limit, ask(versioned(channel))).await {
            Ok(answer) => {
                let answer = answer.map_err(Error::of)?;
                self.cluster.is(named_cluster(answer.metadata())).map_err(Error::of)?;
                Ok(answer.into_inner())
            }
            Err(_) => Err(Error::Unavailable("it does not answer".into())),
        }
    }

    /// The names that begin with a prefix and that somebody holds or waits for, in order.
    pub async fn list(&self, prefix: &str) -> Result<Vec<v1::Summary>, Error> {
        self.list_pages(prefix, false).await
    }

    /// The same, with names that are remembered only for their history.
    pub async fn list_all(&self, prefix: &str) -> Result<Vec<v1::Summary>, Error> {
        self.list_pages(prefix, true).await
    }

    async fn list_pages(&self, prefix: &str, with_idle: bool) -> Result<Vec<v1::Summary>, Error> {
        let mut names = Vec::new();
        loop {
            let after = names.last().map(|last: &v1::Summary| last.name.clone()).unwrap_or_default();
            let request = v1::ListRequest { prefix: prefix.to_owned(), after, limit: 0, with_idle };
            let page = self.ask_along(|mut client| {
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

    /// Everything about a name; nothing if the service does not know it. A long queue comes in pages, each as of its own
    /// moment, which are put together here.
    pub async fn show(&self, name: &str) -> Result<Option<v1::ShowResponse>, Error> {
        let Some(mut shown) = self.show_page(name, 0, Bytes::new()).await? else { return Ok(None) };
        while !shown.next.is_empty() {
            let from = std::mem::take(&mut shown.next);
            let Some(page) = self.show_page(name, 0, from).await? else { break };
            shown.holders.extend(page.holders);
            shown.queue.extend(page.queue);
            shown.next = page.next;
        }
        Ok(Some(shown))
    }

    /// The beginning of the same: no more than so many holders and waiters, which are counted in the summary.
    pub async fn show_first(&self, name: &str, limit: u32) -> Result<Option<v1::ShowResponse>, Error> {
        self.show_page(name, limit, Bytes::new()).await
    }

    async fn show_page(
        &self,
        name: &str,
        limit: u32,
        from: Bytes,
    ) -> Result<Option<v1::ShowResponse>, Error> {
        let request = v1::ShowRequest { name: name.to_owned(), from, limit };
        let shown = self.ask_along(|mut client| {
            let request = request.clone();
            async move { client.show(request).await }
        });
        Ok(Some(shown.await?).filter(|shown| shown.summary.is_some()))
    }

    /// Everything about a session; nothing if there is none.
    pub async fn show_session(&self, session: u64) -> Result<Option<v1::ShowSessionResponse>, Error> {
        let Some(mut shown) = self.session_page(session, Bytes::new()).await? else {
            return Ok(None);
        };
        while !shown.next.is_empty() {
            let from = std::mem::take(&mut shown.next);
            let Some(page) = self.session_page(session, from).await? else { break };
            shown.held.extend(page.held);
            shown.waiting.extend(page.waiting);
            shown.next = page.next;
        }
        Ok(Some(shown))
    }

    async fn session_page(
        &self,
        session: u64,
        from: Bytes,
    ) -> Result<Option<v1::ShowSessionResponse>, Error> {
        let shown = self.ask_along(|mut client| {
            let request = v1::ShowSessionRequest { session, from: from.clone() };
            async move { client.show_session(request).await }
        });
        Ok(Some(shown.await?).filter(|shown| shown.session != 0))
    }

    /// All sessions, in the order of their numbers.
    pub async fn sessions(&self) -> Result<Vec<v1::SessionLine>, Error> {
        let mut sessions = Vec::new();
        loop {
            let after = sessions.last().map_or(0, |last: &v1::SessionLine| last.session);
            let request = v1::ListSessionsRequest { after, limit: 0 };
            let page =
                self.ask_along(|mut client| async move { client.list_sessions(request).await }).await?;
            sessions.extend(page.sessions);
            if !page.more {
                return Ok(sessions);
            }
        }
    }

    /// Which run of its client uses a session, counted from 1; 0 if there is none.
    pub(crate) async fn generation(&self, session: u64) -> Result<u32, Error> {
        let shown = self.session_page(session, Bytes::new()).await?;
        Ok(shown.map_or(0, |shown| shown.generation))
    }

    /// What a name's first waiter, or a session, waits for, and through whom: a chain of waits, and who is in the way at
    /// each of them.
    pub async fn why(&self, of: v1::why_request::Of) -> Result<v1::WhyResponse, Error> {
        self.ask_any(|mut client| {
            let request = v1::WhyRequest { of: Some(of.clone()) };
            async move { client.why(request).await }
        })
        .await
    }

    /// What a fencing token is worth.
    pub async fn check(&self, name: &str, token: u64) -> Result<v1::CheckResponse, Error> {
        self.ask_any(|mut client| {
            let request = v1::CheckRequest { name: name.to_owned(), token };
            async move { client.check(request).await }
        })
        .await
    }

    /// How one node is, as it sees it, whichever cluster it belongs to.
    pub async fn status(&self, endpoint: &str) -> Result<v1::StatusResponse, Error> {
        let channel = self.channel(endpoint)?;
        self.ask_through(channel, |mut client| async move { client.status(v1::StatusRequest {}).await }).await
    }

    /// Where the client asks.
    #[must_use]
    pub fn endpoints(&self) -> &[String] {
        &self.options.endpoints
    }

    /// Follows the leader of a name.
    #[must_use]
    pub fn observe(&self, name: impl Into<String>) -> Observer {
        Observer {
            client: self.clone(),
            name: name.into(),
            following: Following::default(),
            last: None,
            revision: 0,
        }
    }

    /// Follows the names that begin with a prefix, beginning with those that somebody holds or waits for.
    #[must_use]
    pub fn watch(&self, prefix: impl Into<String>) -> Watcher {
        let request = v1::WatchRequest { prefix: prefix.into(), with_idle: false };
        Watcher { client: self.clone(), request, following: Following::default() }
    }

    /// The same, beginning with all that are remembered.
    #[must_use]
    pub fn watch_all(&self, prefix: impl Into<String>) -> Watcher {
        let request = v1::WatchRequest { prefix: prefix.into(), with_idle: true };
        Watcher { client: self.clone(), request, following: Following::default() }
    }
}

/// A stream that is opened again when it breaks: soon at first, then less and less often. What will not go away by itself
/// is an error.
struct Following<T> {
    stage: Stage<T>,
    /// How often in a row it broke before anything was heard.
    failures: u32,
}

/// How far a stream has come.
enum Stage<T> {
    Closed,
    /// It is kept while nobody listens: whoever looks for news now and then would begin again each time otherwise, and never
    /// get past a node that does not answer.
    Opening(Opening<T>),
    Open(Box<Open<T>>),
}

/// A stream, and the way to the node that it comes from. That is kept, although nobody asks anything more: a connection
/// over which no request can come any more is not asked whether it lives, whatever streams are open on it, so that
/// nobody would ever notice the loss of the node.
struct Open<T> {
    answers: Streaming<T>,
    _way: Option<VersionedClient>,
}

impl<T> Open<T> {
    fn new(answers: Streaming<T>, way: VersionedClient) -> Self {
        Self { answers, _way: (!mutant::is(Mutant::LetsGoOfConnections)).then_some(way) }
    }
}

/// A stream that is being opened.
type Opening<T> = Pin<Box<dyn Future<Output = Result<Open<T>, Error>> + Send>>;

impl<T> Default for Following<T> {
    fn default() -> Self {
        Self { stage: Stage::Closed, failures: 0 }
    }
}

/// What came of listening.
enum Heard<T> {
    /// The stream was opened, for the first time or again.
    Opened,
    /// Something was said.
    News(T),
}

/// Streams that break at once so often in a row will go on doing so.
const HOPELESS: u32 = 7;
/// The longest pause before a stream is opened again.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

impl<T> Following<T> {
    /// Listens; whoever stops listening in between misses nothing.
    async fn next<F>(&mut self, open: impl Fn() -> F) -> Result<Heard<T>, Error>
    where
        F: Future<Output = Result<Open<T>, Error>> + Send + 'static,
    {
        loop {
            let stream = match &mut self.stage {
                Stage::Open(stream) => &mut stream.answers,
                Stage::Opening(opening) => {
                    let opened = opening.await;
                    self.stage = Stage::Closed;
                    self.stage = Stage::Open(Box::new(opened?));
                    return Ok(Heard::Opened);
                }
                Stage::Closed => {
                    let (opening, failures) = (open(), self.failures);
                    self.stage = Stage::Opening(Box::pin(async move {
                        if failures > 0 {
                            tokio::time::sleep(pause(failures)).await;
                        }
                        opening.await
                    }));
                    continue;
                }
            };
            let ended = match stream.message().await {
                Ok(Some(answer)) => {
                    self.failures = 0;
                    return Ok(Heard::News(answer));
                }
                Ok(None) => None,
                Err(status) => Some(status),
            };
            self.stage = Stage::Closed;
            self.failures = (self.failures + 1).min(HOPELESS);
            match ended {
                Some(status) if is_lasting(status.code()) => return Err(Error::of(status)),
                ended if self.failures == HOPELESS => {
                    let why =
                        ended.map_or_else(|| "it ended".to_owned(), |status| status.message().to_owned());
                    return Err(Error::Unavailable(format!("a stream breaks again and again: {why}").into()));
                }
                _ => {}
            }
        }
    }
}

/// How long to wait after so many failures.
fn pause(failures: u32) -> Duration {
    (PAUSE * (1 << failures.saturating_sub(1).min(16))).min(LONGEST_PAUSE)
}

/// Whether asking again would end in the same way.
fn is_lasting(code: tonic::Code) -> bool {
    use tonic::Code;
    matches!(
        code,
        Code::InvalidArgument
            | Code::NotFound
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::DataLoss
    )
}

/// What an observer sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Grows.
    pub revision: u64,
    /// Who leads; nobody is a vacancy.
    pub leader: Option<Leader>,
}

/// Follows the leader of a name, through broken connections and changes of node. While a connection is broken, a term that
/// begins and ends is not seen; the terms before and after it are.
pub struct Observer {
    client: Client,
    name: String,
    following: Following<v1::ObserveResponse>,
    last: Option<Option<Leader>>,
    revision: u64,
}

impl Observer {
    /// What is new: at first the present state, then every change. Whoever drops the future misses nothing. Fails when no node answers for as long as the
    /// client's patience lasts, and may be asked again.
    pub async fn next(&mut self) -> Result<Observed, Error> {
        loop {
            let request = v1::ObserveRequest { name: self.name.clone(), after_revision: self.revision };
            let client = &self.client;
            let open = || {
                let (client, request) = (client.clone(), request.clone());
                async move {
                    let ask = |mut node: VersionedClient| {
                        let request = request.clone();
                        async move {
                            let answer = node.observe(request).await?;
                            Ok(answer.map(|answers| Open::new(answers, node)))
                        }
                    };
                    client.ask_any(ask).await
                }
            };
            let Heard::News(answer) = self.following.next(open).await? else { continue };
            let leader = answer.leader.map(Leader::from);
            if answer.revision < self.revision || self.last.as_ref() == Some(&leader) {
                continue;
            }
            self.revision = answer.revision;
            self.last = Some(leader.clone());
            return Ok(Observed { revision: answer.revision, leader });
        }
    }
}

/// Follows names, through broken connections and changes of node.
pub struct Watcher {
    client: Client,
    request: v1::WatchRequest,
    following: Following<v1::WatchResponse>,
}

impl Watcher {
    /// What is new: at first every name, in pages of which all but the last say that there is more, then those that
    /// changed. `None` says that everything comes again. Fails when no node answers for as long as the client's patience
    /// lasts, or when the stream breaks in a way that will not go away, and may be asked again.
    pub async fn next(&mut self) -> Result<Option<v1::WatchResponse>, Error> {
        let (client, request) = (&self.client, &self.request);
        let open = || {
            let (client, request) = (client.clone(), request.clone());
            async move {
                let ask = |mut node: VersionedClient| {
                    let request = request.clone();
                    async move {
                        let answer = node.watch(request).await?;
                        Ok(answer.map(|answers| Open::new(answers, node)))
                    }
                };
                client.ask_any(ask).await
            }
        };
        match self.following.next(open).await? {
            Heard::Opened => Ok(None),
            Heard::News(answer) => Ok(Some(answer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit() {
        let pauses: Vec<u64> = (1..=HOPELESS).map(|failures| pause(failures).as_millis() as u64).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1_600, 2_000]);
        assert_eq!(pause(u32::MAX), LONGEST_PAUSE);
    }
}
