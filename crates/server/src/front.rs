//! What clients meet: the `conclave.v1` service of one node.
//!
//! The leader answers. Another node passes everything on to it and the answers back, so that a client may connect to any
//! of them. When a node stops leading it sends its clients away; they ask the next leader again under the same numbers.

pub mod batcher;
pub mod clock;
pub mod direct;
pub mod hall;
mod mailbox;
mod page;
pub mod queue;
mod reads;
mod talk;
mod words;

use std::collections::BTreeMap;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use conclave_wire::v1::conclave_client::ConclaveClient;
use conclave_wire::v1::conclave_server::Conclave;
use conclave_wire::{Connector, PROTOCOL, SENT_AWAY, is_understood, name_cluster, v1};
use futures_util::stream;
use tokio::sync::watch;
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use crate::clocks::Clocks;
use crate::consensus::{Consensus, Leader};
use clock::ServiceClock;
use hall::Hall;
use queue::Queue;
use talk::Reader;

/// How long a client waits for a leader to be found before it is sent to another node.
const LEADER_PATIENCE: Duration = Duration::from_secs(2);
/// How long it waits for a leader that is known but was not heard of lately. Another node may hear of one.
const SILENCE_PATIENCE: Duration = Duration::from_millis(500);
/// How long a node may take to connect to the leader.
const FORWARD_TIMEOUT: Duration = Duration::from_millis(500);
/// The mark of a request that another node passed on: it is not passed on again.
const FORWARDED: &str = "conclave-forwarded";

/// The service of one node.
#[derive(Clone)]
pub struct Front {
    consensus: Arc<Consensus>,
    members: Arc<BTreeMap<u64, String>>,
    id: u64,
    hall: Arc<Hall>,
    clock: Arc<ServiceClock>,
    clocks: Arc<Clocks>,
    queue: Queue,
    transport: Connector,
    channels: Arc<Mutex<BTreeMap<u64, Channel>>>,
}

/// Where a request is answered.
enum Place {
    Here,
    There(Box<Elsewhere>),
}

/// The node that leads, as far as this one knows.
#[derive(Clone)]
struct Elsewhere {
    node: ConclaveClient<Channel>,
    term: u64,
    leadership: watch::Receiver<Option<Leader>>,
}

impl Elsewhere {
    /// Asks there. A leader that is gone may never answer: as soon as another one is known, this is over.
    async fn ask<T, F>(mut self, ask: impl FnOnce(ConclaveClient<Channel>) -> F) -> Result<T, Status>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let asking = ask(self.node.clone());
        tokio::select! {
            biased;
            answer = asking => answer,
            () = self.is_replaced() => Err(Status::unavailable("another node leads by now")),
        }
    }

    /// Returns when another leader is known.
    async fn is_replaced(&mut self) {
        let term = self.term;
        let is_later = |leader: &Option<Leader>| leader.is_some_and(|leader| leader.term > term);
        if self.leadership.wait_for(is_later).await.is_err() {
            // This node stops, which its clients notice in another way.
            std::future::pending::<()>().await;
        }
    }
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Front {
    pub fn new(
        consensus: Arc<Consensus>,
        hall: Arc<Hall>,
        clock: Arc<ServiceClock>,
        clocks: Arc<Clocks>,
        queue: Queue,
        transport: Connector,
    ) -> Self {
        let status = consensus.status();
        let (id, members) = (status.id, Arc::new(status.members));
        Self { consensus, members, id, hall, clock, clocks, queue, transport, channels: Arc::default() }
    }

    /// Finds out where a request is answered, and waits a little where nobody leads.
    async fn place<T>(&self, request: &Request<T>) -> Result<Place, Status> {
        match self.leaders_place().await? {
            Place::There(_) if request.metadata().contains_key(FORWARDED) => {
                Err(Status::unavailable("this node does not lead"))
            }
            place => Ok(place),
        }
    }

    /// Where the leader is.
    async fn leaders_place(&self) -> Result<Place, Status> {
        let Leader { id: leader, term, .. } = self.find_leader().await?;
        if leader == self.id {
            return Ok(Place::Here);
        }
        let node = ConclaveClient::new(self.channel(leader)?);
        Ok(Place::There(Box::new(Elsewhere { node, term, leadership: self.consensus.leader() })))
    }

    /// The same for what is asked without a session: sessions say which version they speak when they are opened.
    async fn place_of_read<T>(&self, request: &Request<T>) -> Result<Place, Status> {
        is_understood(request)?;
        self.place(request).await
    }

    /// An answer that says from which cluster it comes.
    fn signed<T>(&self, answer: T) -> Response<T> {
        let mut answer = Response::new(answer);
        name_cluster(answer.metadata_mut(), self.hall.cluster());
        answer
    }

    /// The node that leads, unless nothing is heard of it.
    async fn find_leader(&self) -> Result<Leader, Status> {
        let leader =
            self.elected().await.ok_or_else(|| Status::unavailable("no node leads at the moment"))?;
        if self.consensus.hears(leader) {
            return Ok(leader);
        }
        let mut presence = self.consensus.presence();
        let back = presence.wait_for(|presence| presence.condition.is_served());
        let is_back = matches!(tokio::time::timeout(SILENCE_PATIENCE, back).await, Ok(Ok(_)));
        let leader = (*self.consensus.leader().borrow()).filter(|_| is_back);
        leader.ok_or_else(|| Status::unavailable("no majority of the nodes answers"))
    }

    /// The node that was elected last, as soon as one is known.
    async fn elected(&self) -> Option<Leader> {
        let mut leadership = self.consensus.leader();
        let found = tokio::time::timeout(LEADER_PATIENCE, leadership.wait_for(Option::is_some)).await;
        found.ok().and_then(Result::ok).and_then(|leader| *leader)
    }

    fn channel(&self, node: u64) -> Result<Channel, Status> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = channels.get(&node) {
            return Ok(channel.clone());
        }
        let address =
            self.members.get(&node).ok_or_else(|| Status::unavailable("the leader has no address"))?;
        let channel = conclave_wire::channel(&self.transport, address, FORWARD_TIMEOUT)
            .map_err(|error| Status::unavailable(format!("the leader's address {address}: {error}")))?;
        channels.insert(node, channel.clone());
        Ok(channel)
    }

    fn welcome(&self) -> v1::Welcome {
        let leader_address = self.members.get(&self.id).cloned().unwrap_or_default();
        v1::Welcome {
            node: self.id,
            leader: self.id,
            leader_address,
            protocol: PROTOCOL,
            cluster: self.hall.cluster(),
        }
    }

    /// Lets a client in: what takes what it says, and what it is told.
    async fn enter(
        &self,
    ) -> Result<(Reader, impl Stream<Item = Result<v1::ToClient, Status>> + use<>), Status> {
        // A node that is cut off may still believe that it leads: it must not keep clients waiting.
        let led = self.consensus.read_barrier().await;
        led.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(Reader::enter(Arc::clone(&self.hall), self.queue.clone(), self.welcome()))
    }

    /// Passes what a client says on to the leader and what that says back, until another node leads.
    async fn pass_on(
        &self,
        leader: Elsewhere,
        said: impl Stream<Item = v1::ToServer> + Send + 'static,
    ) -> Result<Answers<v1::ToClient>, Status> {
        let node = self.id;
        let watched = leader.clone();
        let talk = |mut leader: ConclaveClient<Channel>| async move {
            leader.talk(forwarded(Request::new(said))).await
        };
        let answers = leader.ask(talk).await?.into_inner();
        let answers = answers.map(move |answer| {
            let mut answer = answer?;
            if let Some(welcome) = &mut answer.welcome {
                welcome.node = node;
            }
            Ok(answer)
        });
        Ok(until_replaced(watched, answers))
    }
}

/// Passes answers on until another node leads.
fn until_replaced<T: Send + 'static>(
    mut leader: Elsewhere,
    answers: impl Stream<Item = Result<T, Status>> + Send + 'static,
) -> Answers<T> {
    let is_replaced = Arc::new(AtomicBool::new(false));
    let notes = Arc::clone(&is_replaced);
    let replaced = async move {
        leader.is_replaced().await;
        notes.store(true, Ordering::Relaxed);
    };
    let answers = futures_util::StreamExt::take_until(answers, replaced);
    // A stream that ends by itself was broken.
    let last = stream::once(async move {
        let away = || Status::new(SENT_AWAY, "another node leads by now");
        is_replaced.load(Ordering::Relaxed).then(away)
    });
    let last = futures_util::StreamExt::filter_map(last, |away| ready(away.map(Err)));
    Box::pin(answers.chain(last))
}

/// Marks a request as passed on.
fn forwarded<T>(mut request: Request<T>) -> Request<T> {
    request.metadata_mut().insert(FORWARDED, tonic::metadata::MetadataValue::from_static("1"));
    request
}

#[tonic::async_trait]
impl Conclave for Front {
    type TalkStream = Answers<v1::ToClient>;
    type ObserveStream = Answers<v1::ObserveResponse>;
    type WatchStream = Answers<v1::WatchResponse>;

    async fn talk(
        &self,
        request: Request<Streaming<v1::ToServer>>,
    ) -> Result<Response<Self::TalkStream>, Status> {
        match self.place(&request).await? {
            Place::There(leader) => {
                let said = request.into_inner().map_while(Result::ok);
                Ok(Response::new(self.pass_on(*leader, said).await?))
            }
            Place::Here => {
                let (reader, answers) = self.enter().await?;
                tokio::spawn(reader.run(request.into_inner()));
                Ok(Response::new(Box::pin(answers)))
            }
        }
    }

    async fn list(&self, request: Request<v1::ListRequest>) -> Result<Response<v1::ListResponse>, Status> {
        match self.place_of_read(&request).await? {
            Place::Here => self.read(|picture| reads::list(picture, request.get_ref())).await,
            Place::There(leader) => {
                leader.ask(|mut leader| async move { leader.list(forwarded(request)).await }).await
            }
        }
    }

    async fn show(&self, request: Request<v1::ShowRequest>) -> Result<Response<v1::ShowResponse>, Status> {
        match self.place_of_read(&request).await? {
            Place::Here => self.try_read(|picture| reads::show(picture, request.get_ref())).await,
            Place::There(leader) => {
                leader.ask(|mut leader| async move { leader.show(forwarded(request)).await }).await
            }
        }
    }

    async fn show_session(
        &self,
        request: Request<v1::ShowSessionRequest>,
    ) -> Result<Response<v1::ShowSessionResponse>, Status> {
        match self.place_of_read(&request).await? {
            Place::Here => self.try_read(|picture| reads::show_session(picture, request.get_ref())).await,
            Place::There(leader) => {
                leader.ask(|mut leader| async move { leader.show_session(forwarded(request)).await }).await
            }
        }
    }

    async fn list_sessions(
        &self,
        request: Request<v1::ListSessionsRequest>,
    ) -> Result<Response<v1::ListSessionsResponse>, Status> {
        match self.place_of_read(&request).await? {
            Place::Here => self.read(|picture| reads::list_sessions(picture, request.get_ref())).await,
            Place::There(leader) => {
                leader.ask(|mut leader| async move { leader.list_sessions(forwarded(request)).await }).await
            }
        }
    }

    async fn why(&self, request: Request<v1::WhyRequest>) -> Result<Response<v1::WhyResponse>, Status> {
        match self.place_of_read(&request).await? {
            Place::Here => self.read(|picture| reads::why(picture, request.get_ref())).await,
            Place::There(leader) => {
                leader.ask(|mut leader| async move { leader.why(forwarded(request)).await }).await
            }
        }
    }

    async fn check(&self, request: Request<v1::CheckRequest>) -> Result<Response<v1::CheckResponse>, Status> {
        match self.place_of_read(&request).await? {
            Place::Here => self.read(|picture| reads::check(picture, request.get_ref())).await,
            Place::There(leader) => {
                leader.ask(|mut leader| async move { leader.check(forwarded(request)).await }).await
            }
        }
    }

    async fn observe(
        &self,
        request: Request<v1::ObserveRequest>,
    ) -> Result<Response<Self::ObserveStream>, Status> {
        match self.place_of_read(&request).await? {
            Place::Here => self.observe_here(&request.into_inner().name).await,
            Place::There(leader) => {
                let ask = |mut leader: ConclaveClient<Channel>| async move {
                    leader.observe(forwarded(request)).await
                };
                let watched = (*leader).clone();
                let answers = leader.ask(ask).await?;
                Ok(answers.map(|answers| until_replaced(watched, answers)))
            }
        }
    }

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        match self.place_of_read(&request).await? {
            Place::Here => self.watch_here(request.into_inner()).await,
            Place::There(leader) => {
                let ask = |mut leader: ConclaveClient<Channel>| async move {
                    leader.watch(forwarded(request)).await
                };
                let watched = (*leader).clone();
                let answers = leader.ask(ask).await?;
                Ok(answers.map(|answers| until_replaced(watched, answers)))
            }
        }
    }

    async fn status(&self, call: Request<v1::StatusRequest>) -> Result<Response<v1::StatusResponse>, Status> {
        is_understood(&call)?;
        Ok(Response::new(self.status_here()))
    }
}
