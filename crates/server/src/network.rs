//! Speaking to the other nodes, on behalf of the consensus library.
//!
//! ```text
//!   Append           a stream there and one back: requests follow each other without waiting for answers
//!   Vote, PreVote, TransferLeader, Past
//!   Snapshot         a head, then the state in pieces, over a connection of its own
//! ```
//!
//! A node that was stopped, or cut off, leaves connections behind that look alive. So every question has a time limit,
//! and a connection that owed an answer and was silent is not asked again: the next question opens another.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use conclave_wire::Connector;
use conclave_wire::peer::Frame;
use conclave_wire::peer::peer_client::PeerClient;
use futures_util::{Stream, StreamExt as _, stream};
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::{
    Backoff, NetBackoff, NetSnapshot, NetStreamAppend, NetTransferLeader, NetVote, RPCOption,
};
use openraft::raft::{
    AppendEntriesRequest, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{OptionalSend, RPCTypes, RaftNetworkFactory};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tonic::metadata::{AsciiMetadataValue, BinaryMetadataValue};
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use crate::birth::Gate;
use crate::disk::FORMAT;
use crate::outdated::Acknowledgements;
use crate::raft::{
    LeaderId, LogId, Node, Snapshot, SnapshotMeta, Types, Vote, encode_append, put, weight, whole,
};

/// How large a message between nodes may be. Less in unit tests, which reach it sooner.
pub(crate) const MESSAGE_BYTES: usize = if cfg!(test) { 8 << 20 } else { 64 << 20 };
/// Under which key a request says for whom it is meant.
pub(crate) const ADDRESSEE: &str = "conclave-to";
/// Under which key a request says in which format its sender keeps and sends what it has.
pub(crate) const FORMAT_KEY: &str = "conclave-format";
/// Under which key a leader says what it remembers of the node that it speaks to.
pub(crate) const ACKNOWLEDGED_KEY: &str = "conclave-acknowledged-bin";
/// A snapshot travels in pieces of this size.
const PIECE: usize = 1 << 20;
/// How fast a snapshot must travel at least, in bytes per second, beyond the time it takes to be installed.
const SNAPSHOT_PACE: u64 = 4 << 20;
/// How fast entries must travel at least, in bytes per second, beyond the time that an answer may take.
const APPEND_PACE: u64 = 1 << 20;
/// How long to leave a node alone that could not be reached.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a follower need not know what was decided.
const NEWS_CAN_WAIT: Duration = Duration::from_millis(5);
/// Batches of more bytes come from many clients.
const LARGE: u64 = 512;

pub(crate) type RpcError = RPCError<Types>;

/// What a snapshot begins with on the wire.
#[derive(Serialize, Deserialize)]
pub(crate) struct SnapshotHead {
    pub(crate) vote: Vote,
    pub(crate) meta: SnapshotMeta,
    pub(crate) bytes: u64,
    pub(crate) checksum: u32,
}

/// How a request names a node of a cluster, so that no other takes it for its own. Nodes of the first format know nothing
/// of formats: they refuse this name.
pub(crate) fn addressee(members: &BTreeMap<u64, String>, node: u64) -> String {
    let mut text = format!("format {FORMAT} ");
    for (id, address) in members {
        text.push_str(&format!("{id}={address} "));
    }
    format!("{node}@{:08x}", crc32c::crc32c(text.as_bytes()))
}

/// The other nodes.
pub(crate) struct Peers {
    me: u64,
    members: BTreeMap<u64, String>,
    transport: Connector,
    patience: Duration,
    /// One connection to each, for everything but snapshots.
    links: BTreeMap<u64, Arc<Link>>,
    /// Whether this node may stand for election, if it asks for votes at all.
    gate: Option<Arc<Gate>>,
}

impl Peers {
    pub(crate) fn new(
        me: u64,
        members: &BTreeMap<u64, String>,
        transport: Connector,
        patience: Duration,
    ) -> Self {
        let links = BTreeMap::new();
        let mut peers = Self { me, members: members.clone(), transport, patience, links, gate: None };
        for (&id, address) in members.iter().filter(|&(&id, _)| id != me) {
            let link = Arc::new(peers.link(id, address));
            peers.links.insert(id, link);
        }
        peers
    }

    /// For the consensus library: votes are asked for when the gate is open.
    pub(crate) fn behind(self, gate: Arc<Gate>) -> Self {
        Self { gate: Some(gate), ..self }
    }

    /// Everyone but this node.
    pub(crate) fn all(&self) -> impl Iterator<Item = Peer> + '_ {
        self.links.iter().map(|(&id, link)| self.peer(id, Arc::clone(link)))
    }

    /// Whoever answers at the address of this node.
    pub(crate) fn own(&self) -> Option<Peer> {
        let address = self.members.get(&self.me)?;
        Some(self.peer(self.me, Arc::new(self.link(self.me, address))))
    }

    fn link(&self, target: u64, address: &str) -> Link {
        Link {
            address: address.to_owned(),
            addressee: addressee(&self.members, target),
            transport: Arc::clone(&self.transport),
            patience: self.patience,
            open: Mutex::new(None),
            refusal: Mutex::default(),
            acknowledged: Acknowledgements::default(),
        }
    }

    fn peer(&self, target: u64, link: Arc<Link>) -> Peer {
        Peer { me: self.me, target, link, gate: self.gate.clone() }
    }
}

impl RaftNetworkFactory<Types> for Peers {
    type Network = Peer;

    async fn new_client(&mut self, target: u64, node: &Node) -> Peer {
        let link = match self.links.get(&target) {
            Some(link) => Arc::clone(link),
            None => Arc::new(self.link(target, &node.addr)),
        };
        self.peer(target, link)
    }

    async fn new_snapshot_client(&mut self, target: u64, node: &Node) -> Peer {
        let link = Arc::new(self.link(target, &node.addr));
        self.peer(target, link)
    }
}

/// A connection to a node, opened when it is needed.
struct Link {
    address: String,
    addressee: String,
    transport: Connector,
    /// How long an answer may take.
    patience: Duration,
    /// The connection, and since when.
    open: Mutex<Option<(Channel, Instant)>>,
    /// Why the node said last that it has nothing to do with this one.
    refusal: Mutex<String>,
    /// What it has acknowledged.
    acknowledged: Acknowledgements,
}

impl Link {
    fn client(&self) -> Result<PeerClient<Channel>, RpcError> {
        let mut open = self.lock();
        let channel = match &*open {
            Some((channel, _)) => channel.clone(),
            None => {
                let channel = conclave_wire::channel(&self.transport, &self.address, self.patience)
                    .map_err(|error| Unreachable::new(&error))?;
                open.insert((channel, Instant::now())).0.clone()
            }
        };
        Ok(PeerClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES)
            .max_encoding_message_size(MESSAGE_BYTES))
    }

    /// Takes another connection from now on, unless this one is new: a node that hangs is not helped by many.
    fn distrust(&self) {
        self.lock().take_if(|(_, since)| since.elapsed() >= self.patience);
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Channel, Instant)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Ok(addressee) = AsciiMetadataValue::try_from(&self.addressee) {
            request.metadata_mut().insert(ADDRESSEE, addressee);
        }
        request.metadata_mut().insert(FORMAT_KEY, FORMAT.into());
        request
    }

    /// The same for a stream of entries.
    fn append<T>(&self, messages: T) -> Request<T> {
        let mut request = self.request(messages);
        let mut said = Vec::new();
        if let Some(newest) = self.acknowledged.newest()
            && put(&newest, &mut said).is_ok()
        {
            request.metadata_mut().insert_bin(ACKNOWLEDGED_KEY, BinaryMetadataValue::from_bytes(&said));
        }
        request
    }

    /// A node of another version, or of another cluster, goes on refusing: that is for people to fix, who are told once.
    fn refused(&self, status: &Status) -> RpcError {
        if status.code() == Code::FailedPrecondition {
            let mut told = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
            if *told != status.message() {
                status.message().clone_into(&mut told);
                tracing::error!(address = self.address, why = status.message(), "a node refuses this one");
            }
        }
        Unreachable::from_string(format!("{:?}: {}", status.code(), status.message())).into()
    }
}

/// Notices a question that is given up: what asked it is dropped before it was answered.
struct Asking<'a> {
    link: &'a Link,
    answered: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.link.distrust();
        }
    }
}

/// One of the other nodes.
pub(crate) struct Peer {
    me: u64,
    target: u64,
    link: Arc<Link>,
    gate: Option<Arc<Gate>>,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peer({} at {})", self.target, self.link.address)
    }
}

impl Peer {
    pub(crate) fn id(&self) -> u64 {
        self.target
    }

    /// Asks one question that has one answer.
    pub(crate) async fn ask<A, F>(
        &self,
        action: RPCTypes,
        question: &impl Serialize,
        limit: Duration,
        call: impl FnOnce(PeerClient<Channel>, Request<Frame>) -> F,
    ) -> Result<A, RpcError>
    where
        A: for<'a> Deserialize<'a>,
        F: Future<Output = Result<Response<Frame>, Status>>,
    {
        let mut payload = Vec::new();
        put(question, &mut payload).map_err(|error| unclear(&error))?;
        let request = self.link.request(Frame { payload: payload.into() });
        let client = self.link.client()?;
        let mut asking = Asking { link: &self.link, answered: false };
        let answer = timeout(limit, call(client, request)).await;
        let answer = answer.map_err(|_| self.late(action, limit))?;
        asking.answered = true;
        let frame = answer.map_err(|status| self.link.refused(&status))?.into_inner();
        whole(&frame.payload).map_err(|error| unclear(&error))
    }

    /// Keeps a stream open on which nothing is said; returns when it breaks.
    pub(crate) async fn pulse(&self, limit: Duration) -> Result<(), RpcError> {
        let mut client = self.link.client()?;
        let mut asking = Asking { link: &self.link, answered: false };
        let opened = timeout(limit, client.pulse(self.link.request(Frame::default()))).await;
        let opened = opened.map_err(|_| self.late(RPCTypes::Vote, limit))?;
        asking.answered = true;
        let mut pulse = opened.map_err(|status| self.link.refused(&status))?.into_inner();
        while let Ok(Some(_)) = pulse.message().await {}
        Ok(())
    }

    /// The vote of a node that is not asked, because this one may not stand for election.
    fn unasked(&self, rpc: &VoteRequest<Types>) -> Option<VoteResponse<Types>> {
        let may_stand = self.gate.as_ref().is_some_and(|gate| gate.may_stand());
        (!may_stand).then(|| VoteResponse::new(rpc.vote, None, false))
    }

    fn late(&self, action: RPCTypes, timeout: Duration) -> RpcError {
        Timeout { action, id: self.me, target: self.target, timeout }.into()
    }
}

fn unclear(error: &io::Error) -> RpcError {
    NetworkError::new(error).into()
}

impl NetBackoff<Types> for Peer {
    fn backoff(&self) -> Option<Backoff> {
        Some(Backoff::new(std::iter::repeat(PAUSE)))
    }
}

impl NetVote<Types> for Peer {
    async fn vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RpcError> {
        if let Some(response) = self.unasked(&rpc) {
            return Ok(response);
        }
        let call = |mut client: PeerClient<Channel>, request| async move { client.vote(request).await };
        self.ask(RPCTypes::Vote, &rpc, option.hard_ttl(), call).await
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RpcError> {
        if let Some(response) = self.unasked(&rpc) {
            return Ok(response);
        }
        let call = |mut client: PeerClient<Channel>, request| async move { client.pre_vote(request).await };
        self.ask(RPCTypes::Vote, &rpc, option.hard_ttl(), call).await
    }
}

impl NetTransferLeader<Types> for Peer {
    async fn transfer_leader(
        &mut self,
        rpc: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RpcError> {
        let call =
            |mut client: PeerClient<Channel>, request| async move { client.transfer_leader(request).await };
        self.ask(RPCTypes::TransferLeader, &rpc, option.hard_ttl(), call).await
    }
}

impl NetSnapshot<Types> for Peer {
    type SnapshotData = Bytes;

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let limit = option.hard_ttl() + Duration::from_secs(snapshot.snapshot.len() as u64 / SNAPSHOT_PACE);
        let pieces = pieces(vote, snapshot).map_err(|error| NetworkError::new(&error))?;
        let mut client = self.link.client()?;
        let request = self.link.request(pieces);
        tokio::select! {
            biased;
            closed = cancel => Err(closed.into()),
            answer = timeout(limit, client.snapshot(request)) => {
                let answer = answer.map_err(|_| self.late(RPCTypes::InstallSnapshot, limit))?;
                let frame = answer.map_err(|status| self.link.refused(&status))?.into_inner();
                Ok(whole(&frame.payload).map_err(|error| unclear(&error))?)
            }
        }
    }
}

fn pieces(vote: Vote, snapshot: Snapshot) -> io::Result<impl Stream<Item = Frame> + Send + 'static> {
    let mut state = snapshot.snapshot;
    let checksum = crc32c::crc32c(&state);
    let head = SnapshotHead { vote, meta: snapshot.meta, bytes: state.len() as u64, checksum };
    let mut payload = Vec::new();
    put(&head, &mut payload)?;
    let rest = std::iter::from_fn(move || {
        let piece = state.split_to(state.len().min(PIECE));
        (!piece.is_empty()).then_some(piece)
    });
    let payloads = std::iter::once(Bytes::from(payload)).chain(rest);
    Ok(stream::iter(payloads.map(|payload| Frame { payload })))
}

impl NetStreamAppend<Types> for Peer {
    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        _option: RPCOption,
    ) -> BoxFuture<'s, Result<BoxStream<'s, Result<StreamAppendResult<Types>, RpcError>>, RpcError>>
    where
        S: Stream<Item = AppendEntriesRequest<Types>> + OptionalSend + Unpin + 'static,
    {
        Box::pin(async move {
            let limit = self.link.patience;
            let flight = Arc::new(Flight::default());
            let mut client = self.link.client()?;
            let mut asking = Asking { link: &self.link, answered: false };
            let call = client.append(self.link.append(requests(input, Arc::clone(&flight))));
            let answers = timeout(limit, call).await;
            let answers = answers.map_err(|_| self.late(RPCTypes::AppendEntries, limit))?;
            asking.answered = true;
            let answers = match answers {
                Ok(answers) => answers.into_inner(),
                Err(status) => {
                    // The library takes its pause while it makes the next request, and none was taken from it here.
                    sleep(PAUSE).await;
                    return Err(self.link.refused(&status));
                }
            };
            let open = Answers { peer: self, answers, flight };
            let answers = stream::unfold(Some(open), |open| async move { open?.next().await });
            Ok(Box::pin(answers) as BoxStream<'s, _>)
        })
    }
}

/// Requests as frames, and a note of when each was sent.
fn requests<S>(input: S, flight: Arc<Flight>) -> impl Stream<Item = Frame> + Send + 'static
where
    S: Stream<Item = AppendEntriesRequest<Types>> + Unpin + Send + 'static,
{
    tokio_stream::StreamExt::map_while(thrifty(input), move |request| match encode_append(&request) {
        Ok(payload) => {
            flight.sent(payload.len(), request.vote.leader_id);
            Some(Frame { payload })
        }
        Err(error) => {
            tracing::error!(%error, "entries that cannot be sent");
            None
        }
    })
}

/// Leaves out what the next request says as well. As soon as entries are decided the library tells every follower so, in a
/// request of its own. Nobody waits for that, and under load, when entries are large, the next ones are about to leave and
/// tell it too. With little to do it is told at once: a node that has just been spoken to answers sooner.
fn thrifty<S>(input: S) -> impl Stream<Item = AppendEntriesRequest<Types>> + Send + 'static
where
    S: Stream<Item = AppendEntriesRequest<Types>> + Unpin + Send + 'static,
{
    stream::unfold((input, None), |(mut input, sent): (S, Option<Sent>)| async move {
        // Until when something may still be said by another request.
        let mut held: Option<(AppendEntriesRequest<Types>, Instant)> = None;
        let request = loop {
            let next = match &held {
                None => input.next().await,
                Some((_, until)) => match timeout_at(*until, input.next()).await {
                    Ok(next) => next,
                    Err(_) => break held?.0,
                },
            };
            let request = next?;
            let is_news_only = request.entries.is_empty()
                && sent.as_ref().is_some_and(|sent| sent.is_large && sent.last == request.prev_log_id);
            if !is_news_only {
                break request;
            }
            let until = held.map_or_else(|| Instant::now() + NEWS_CAN_WAIT, |(_, until)| until);
            held = Some((request, until));
        };
        let last = request.entries.last().map(|entry| entry.log_id).or(request.prev_log_id);
        let is_large = request.entries.iter().map(weight).sum::<u64>() > LARGE;
        Some((request, (input, Some(Sent { last, is_large }))))
    })
}

/// The request that was sent last: up to which entry, and whether with much in it.
struct Sent {
    last: Option<LogId>,
    is_large: bool,
}

/// Answers to a stream of requests.
struct Answers<'s> {
    peer: &'s Peer,
    answers: tonic::Streaming<Frame>,
    flight: Arc<Flight>,
}

type Answer<'s> = Option<(Result<StreamAppendResult<Types>, RpcError>, Option<Answers<'s>>)>;

impl<'s> Answers<'s> {
    async fn next(mut self) -> Answer<'s> {
        let limit = self.peer.link.patience;
        // A heartbeat is dropped when its time is over, not told.
        let mut asking = Asking { link: &self.peer.link, answered: self.flight.is_empty() };
        let answer = tokio::select! {
            biased;
            answer = self.answers.message() => answer,
            () = self.flight.overdue(limit) => {
                return Some((Err(self.peer.late(RPCTypes::AppendEntries, limit)), None));
            }
        };
        asking.answered = true;
        drop(asking);
        match answer {
            Ok(Some(frame)) => {
                let leader = self.flight.landed();
                match whole::<StreamAppendResult<Types>>(&frame.payload) {
                    Ok(result) => {
                        if let (Some(leader), Ok(Some(last))) = (leader, &result) {
                            self.peer.link.acknowledged.note(leader, *last);
                        }
                        Some((Ok(result), Some(self)))
                    }
                    Err(error) => Some((Err(unclear(&error)), None)),
                }
            }
            Ok(None) => None,
            Err(status) => Some((Err(self.peer.link.refused(&status)), None)),
        }
    }
}

/// How long so many bytes may take beyond what a short question may.
fn travel_time(bytes: u64) -> Duration {
    Duration::from_millis(bytes * 1000 / APPEND_PACE)
}

/// The requests that have not been answered, oldest first.
#[derive(Default)]
struct Flight {
    sent: Mutex<VecDeque<InFlight>>,
    another: Notify,
}

/// A request that has not been answered.
#[derive(Clone, Copy)]
struct InFlight {
    since: Instant,
    /// By whom.
    leader: LeaderId,
    bytes: u64,
    /// Bytes that have to travel before it has arrived: its own, and those of all before it.
    ahead: u64,
}

impl Flight {
    fn lock(&self) -> MutexGuard<'_, VecDeque<InFlight>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn sent(&self, bytes: usize, leader: LeaderId) {
        let mut sent = self.lock();
        let bytes = bytes as u64;
        let ahead = bytes + sent.iter().map(|request| request.bytes).sum::<u64>();
        sent.push_back(InFlight { since: Instant::now(), leader, bytes, ahead });
        drop(sent);
        self.another.notify_one();
    }

    /// Takes the oldest one out, and says who sent it.
    fn landed(&self) -> Option<LeaderId> {
        self.lock().pop_front().map(|request| request.leader)
    }

    /// Returns when a request has waited too long.
    async fn overdue(&self, limit: Duration) {
        loop {
            let oldest = self.lock().front().copied();
            let due = oldest.map(|request| request.since + limit + travel_time(request.ahead));
            match due {
                Some(due) if due <= Instant::now() => return,
                Some(due) => sleep_until(due).await,
                None => self.another.notified().await,
            }
        }
    }
}
