//! A whole node: consensus, storage and front, on one address.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use conclave_wire::peer::clock_server::ClockServer;
use conclave_wire::v1::conclave_server::ConclaveServer;
use conclave_wire::{Connector, DESCRIPTORS, Terms};
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::server::NamedService as _;
use tonic::transport::server::Router;
use tonic_health::ServingStatus;

use crate::clocks::{ClockService, Clocks, PATIENCE};
use crate::consensus::presence::Presence;
use crate::consensus::{self, Compaction, Consensus, Kept, Timing};
use crate::disk::Disk;
use crate::front::Front;
use crate::front::batcher::{Batcher, note_time};
use crate::front::clock::{Clock, ServiceClock, Wall};
use crate::front::direct;
use crate::front::hall::Hall;
use crate::front::queue::queue;
use crate::mutant::{self, Mutant};

/// The largest message of a client.
const LARGEST_MESSAGE: usize = 1 << 20;
/// Streams that one connection may have open.
const STREAMS_PER_CONNECTION: u32 = 1024;
/// A connection that is silent for so long is asked whether it lives, and must say so in as much time again.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// How long clients that do not leave by themselves may stay when the node stops.
const FAREWELL: Duration = Duration::from_millis(200);

/// What a node is made of.
pub struct Options {
    /// Its number in the cluster, from 1.
    pub id: u64,
    /// All nodes and where they listen, this one included.
    pub members: BTreeMap<u64, String>,
    /// Where to listen, if not where the others reach it.
    pub listen: String,
    /// Where it keeps what must not be lost.
    pub disk: Arc<dyn Disk>,
    /// How bytes travel.
    pub transport: Connector,
    /// How long things may take.
    pub timing: Timing,
    /// When it forgets the beginning of its log.
    pub compaction: Compaction,
    /// By which clock leases run while it leads.
    pub clock: Box<dyn Clock>,
    /// The time of day, which decides where tokens begin.
    pub wall: Arc<dyn Wall>,
}

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It cannot listen there.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: String,
        /// Why not.
        source: std::io::Error,
    },
    /// Consensus or storage refuse.
    #[error(transparent)]
    Consensus(#[from] consensus::StartError),
    /// The wire cannot be described, which is a mistake of the build.
    #[error("reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// A node that runs.
pub struct Server {
    address: String,
    consensus: Arc<Consensus>,
    hall: Arc<Hall>,
    clock: Arc<ServiceClock>,
    stop: CancellationToken,
    /// With clients that need no gRPC.
    talking: JoinHandle<()>,
    serving: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl Server {
    /// Starts a node: it listens when this returns, and serves as soon as there is a leader; see [`Self::ready`].
    ///
    /// # Errors
    /// If it cannot listen, or cannot read what it has stored.
    pub fn start(options: Options) -> BoxFuture<'static, Result<Self, StartError>> {
        // An async function would be compiled again, with all of the node, in every program that starts one.
        Box::pin(Self::started(options))
    }

    async fn started(options: Options) -> Result<Self, StartError> {
        let (incoming, address) = options
            .transport
            .listen(options.listen.clone())
            .await
            .map_err(|source| StartError::Listen { address: options.listen.clone(), source })?;
        let hall = Arc::new(Hall::default());
        let clocks = Arc::new(Clocks::new(Arc::clone(&options.wall)));
        let others: Vec<(u64, String)> = options
            .members
            .iter()
            .filter(|(id, _)| **id != options.id)
            .map(|(id, at)| (*id, at.clone()))
            .collect();
        let starting = Consensus::start(consensus::Options {
            id: options.id,
            members: options.members,
            disk: options.disk,
            transport: Arc::clone(&options.transport),
            timing: options.timing,
            compaction: options.compaction,
            sink: Arc::clone(&hall) as _,
        });
        let consensus = Arc::new(starting.await?);
        let (queue, gathered) = queue();
        let clock = Arc::new(ServiceClock::new(options.clock));
        let stop = CancellationToken::new();
        for (other, address) in others {
            // An address that leads nowhere is found by those who have to reach it.
            if let Ok(channel) = conclave_wire::channel(&options.transport, &address, PATIENCE) {
                let asking = Arc::clone(&clocks).ask_often(other, channel);
                tokio::spawn(stop.clone().run_until_cancelled_owned(asking));
            }
        }
        let front = Front::new(
            consensus.clone(),
            Arc::clone(&hall),
            Arc::clone(&clock),
            Arc::clone(&clocks),
            queue,
            options.transport,
        );
        let (health, health_service) = tonic_health::server::health_reporter();
        let follow = follow_leadership(consensus.clone(), Arc::clone(&hall));
        let part = part_with_readers(consensus.presence(), Arc::clone(&hall));
        let report = report_health(consensus.presence(), health);
        let terms = Terms { largest: LARGEST_MESSAGE, ask_after: KEEPALIVE, answer_within: KEEPALIVE };
        let (incoming, talking) = direct::sort(incoming, front.clone(), terms, stop.clone(), FAREWELL);
        let router = routes(front, &consensus, clocks.service(), health_service)?;
        let leader = consensus.leader();
        let wall = options.wall;
        let batcher = Batcher {
            queue: gathered,
            consensus: consensus.clone(),
            hall: Arc::clone(&hall),
            clock: Arc::clone(&clock),
            wall,
            leader,
        };
        tokio::spawn(batcher.run());
        tokio::spawn(stop.clone().run_until_cancelled_owned(follow));
        tokio::spawn(stop.clone().run_until_cancelled_owned(part));
        tokio::spawn(stop.clone().run_until_cancelled_owned(report));
        let serving =
            tokio::spawn(router.serve_with_incoming_shutdown(incoming, stop.clone().cancelled_owned()));
        Ok(Self { address, consensus, hall, clock, stop, talking, serving })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its part in the consensus.
    #[must_use]
    pub fn consensus(&self) -> &Consensus {
        &self.consensus
    }

    /// Returns when requests can be answered here.
    pub async fn ready(&self) {
        let mut presence = self.consensus.presence();
        if presence.wait_for(|presence| presence.condition.is_served()).await.is_err() {
            // It has stopped, and never will.
            std::future::pending::<()>().await;
        }
    }

    /// Hands the lead over, sends clients away and stops.
    pub fn shutdown(self) -> BoxFuture<'static, ()> {
        Box::pin(self.stopped())
    }

    async fn stopped(self) {
        note_time(&self.consensus, &self.hall, &self.clock).await;
        match self.consensus.hand_over().await {
            Ok(node) => tracing::info!(node, "handed the lead over"),
            Err(Kept::NotLeader | Kept::Nobody) => {}
            Err(error) => tracing::warn!(%error, "the lead was not handed over"),
        }
        self.stop.cancel();
        self.consensus.shutdown().await;
        if let Err(error) = self.talking.await {
            tracing::error!(%error, "clients were not sent away");
        }
        let abort = self.serving.abort_handle();
        // Streams of clients that do not leave by themselves are cut.
        if tokio::time::timeout(FAREWELL, self.serving).await.is_err() {
            abort.abort();
        }
    }

    /// Returns when the node cannot go on, with the reason.
    pub async fn failed(&self) -> String {
        self.consensus.failure().await
    }
}

fn routes(
    front: Front,
    consensus: &Consensus,
    clock: ClockServer<ClockService>,
    health: impl tonic::codegen::Service<
        tonic::codegen::http::Request<tonic::body::Body>,
        Response = tonic::codegen::http::Response<tonic::body::Body>,
        Error = std::convert::Infallible,
        Future: Send,
    > + tonic::server::NamedService
    + Clone
    + Send
    + Sync
    + 'static,
) -> Result<Router, StartError> {
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()?;
    Ok(tonic::transport::Server::builder()
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .tcp_nodelay(true)
        .add_service(ConclaveServer::new(front).max_decoding_message_size(LARGEST_MESSAGE))
        .add_service(consensus.peer_service())
        .add_service(clock)
        .add_service(health)
        .add_service(reflection))
}

/// Keeps the answers to health checks true: nobody is served where no majority answers.
async fn report_health(
    mut presence: watch::Receiver<Presence>,
    health: tonic_health::server::HealthReporter,
) {
    loop {
        let is_served = presence.borrow_and_update().condition.is_served();
        let status = if is_served { ServingStatus::Serving } else { ServingStatus::NotServing };
        // The whole node, and its only service.
        for name in ["", ConclaveServer::<Front>::NAME] {
            health.set_service_status(name, status).await;
        }
        if presence.changed().await.is_err() {
            return;
        }
    }
}

/// Sends those who follow changes away while no majority answers this node: another one may lead by now, and nothing that it
/// decides is heard of here. Sessions notice that by themselves, since they ask for something now and then.
async fn part_with_readers(mut presence: watch::Receiver<Presence>, hall: Arc<Hall>) {
    loop {
        let is_served = presence.borrow_and_update().condition.is_served();
        if !is_served && !mutant::is(Mutant::KeepsReaders) {
            hall.send_readers_away("no majority answers this node");
        }
        if presence.changed().await.is_err() {
            return;
        }
    }
}

/// Keeps guests in step with who leads.
async fn follow_leadership(consensus: Arc<Consensus>, hall: Arc<Hall>) {
    let mut leadership = consensus.leader();
    let mut led = None;
    loop {
        let leader = *leadership.borrow_and_update();
        let leading = leader.filter(|leader| leader.is_me).map(|leader| leader.term);
        if led.is_some() && led != leading {
            hall.send_all_away("this node no longer leads");
            tracing::info!(term = led, "this node no longer leads");
        }
        if let Some(term) = leading
            && led != leading
        {
            tracing::info!(term, "this node leads");
        }
        led = leading;
        if leadership.changed().await.is_err() {
            hall.send_all_away("this node stops");
            return;
        }
    }
}

/// Whether an address can be reached from this machine only.
#[must_use]
pub fn is_loopback(address: &str) -> bool {
    if let Ok(address) = address.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests;
