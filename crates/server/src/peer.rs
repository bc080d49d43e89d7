//! Answering the other nodes.

use std::future::ready;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use conclave_wire::peer::Frame;
use conclave_wire::peer::peer_server::Peer;
use futures_util::{Stream, StreamExt, stream};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::raft::AppendEntriesRequest;
use serde::{Deserialize, Serialize};
use tonic::{Request, Response, Status, Streaming};

use crate::birth::{Gate, Question, past};
use crate::consensus::presence::Ear;
use crate::consensus::watchdog::{Sighting, Watchdog};
use crate::disk::FORMAT;
use crate::handover::Handover;
use crate::mutant::{self, Mutant};
use crate::network::{ACKNOWLEDGED_KEY, ADDRESSEE, FORMAT_KEY, SnapshotHead};
use crate::outdated::{Acknowledged, Memory};
use crate::raft::{Raft, Snapshot, Types, decode_append, put, whole};

/// No state is as large as this: whoever announces one is mistaken.
const SNAPSHOT_BYTES: u64 = 4 << 30;

/// What other nodes may ask of this one.
#[derive(Clone)]
pub struct PeerService {
    pub(crate) raft: Raft,
    pub(crate) gate: Arc<Gate>,
    pub(crate) handover: Handover,
    pub(crate) ear: Arc<Ear>,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) memory: Arc<Memory>,
    /// How requests to this node begin.
    pub(crate) addressee: String,
}

type Answers = Pin<Box<dyn Stream<Item = Result<Frame, Status>> + Send>>;

impl PeerService {
    fn is_meant<T>(&self, request: &Request<T>) -> Result<(), Status> {
        has_our_format(request)?;
        let named = request.metadata().get(ADDRESSEE).and_then(|value| value.to_str().ok());
        if named == Some(self.addressee.as_str()) {
            return Ok(());
        }
        let named = named.unwrap_or("nobody");
        Err(Status::failed_precondition(format!(
            "this is node {}, and the request is for {named}: the nodes were given different lists of members",
            self.addressee
        )))
    }

    fn question<T: for<'a> Deserialize<'a>>(&self, request: &Request<Frame>) -> Result<T, Status> {
        self.is_meant(request)?;
        whole(&request.get_ref().payload).map_err(|error| unreadable(&error))
    }

    /// A request of a stream, if it makes sense and comes from a leader that counts.
    fn accept(&self, frame: Frame) -> Result<AppendEntriesRequest<Types>, Status> {
        let request = decode_append(frame.payload).map_err(|error| unreadable(&error))?;
        self.gate.may_follow(&request.vote)?;
        self.ear.heard(&request.vote);
        self.gate.may_promise()?;
        Ok(request)
    }

    /// Refuses what would stop the library with a panic: no leader sends it.
    fn is_possible(&self, head: &SnapshotHead) -> Result<(), Status> {
        let committed = self.raft.metrics().borrow_watched().local_committed;
        let last = head.meta.last_log_id;
        let is_later = last > committed;
        let is_longer = last.map(|id| id.index) > committed.map(|id| id.index);
        let is_the_leaders = last.is_none_or(|id| id.leader_id <= *head.vote.leader_id());
        if is_the_leaders && (!is_later || is_longer) {
            return Ok(());
        }
        Err(Status::invalid_argument("a snapshot that contradicts what was decided"))
    }
}

/// Entries and snapshots of another format would be misread. The first one did not say so.
fn has_our_format<T>(request: &Request<T>) -> Result<(), Status> {
    let said = request.metadata().get(FORMAT_KEY).map_or(Some("1"), |said| said.to_str().ok());
    if said == Some(FORMAT.to_string().as_str()) || mutant::is(Mutant::TakesAnyFormat) {
        return Ok(());
    }
    let said = said.unwrap_or("unknown");
    Err(Status::failed_precondition(format!(
        "this node has format {FORMAT}, and the one that asks has format {said}: run the same version of conclave on \
         all nodes"
    )))
}

/// What this node has acknowledged, as the leader remembers it.
fn acknowledged<T>(request: &Request<T>) -> Option<Acknowledged> {
    let said = request.metadata().get_bin(ACKNOWLEDGED_KEY)?.to_bytes().ok()?;
    whole(&said).ok()
}

fn answer(value: &impl Serialize) -> Result<Frame, Status> {
    let mut payload = Vec::new();
    put(value, &mut payload).map_err(|error| Status::internal(error.to_string()))?;
    Ok(Frame { payload: payload.into() })
}

fn unreadable(error: &std::io::Error) -> Status {
    Status::invalid_argument(format!("no message of this protocol: {error}"))
}

fn stopped(error: impl std::fmt::Display) -> Status {
    Status::unavailable(error.to_string())
}

#[tonic::async_trait]
impl Peer for PeerService {
    type AppendStream = Answers;
    type PulseStream = Answers;

    async fn append(&self, request: Request<Streaming<Frame>>) -> Result<Response<Answers>, Status> {
        self.is_meant(&request)?;
        if let Some(acknowledged) = acknowledged(&request) {
            self.memory.check(acknowledged).await?;
        }
        let service = self.clone();
        let refusal = Arc::new(Mutex::new(None));
        let refused = Arc::clone(&refusal);
        let requests = tokio_stream::StreamExt::map_while(request.into_inner(), move |frame| {
            // A leader that has gone away needs no answer.
            let accepted = service.accept(frame.ok()?);
            accepted
                .map_err(|status| *refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(status))
                .ok()
        });
        let answers = self.raft.stream_append(requests).map(|result| match result {
            Ok(result) => answer(&result),
            Err(fatal) => Err(stopped(fatal)),
        });
        let last = stream::once(async move { refusal.lock().unwrap_or_else(PoisonError::into_inner).take() });
        let answers = answers.chain(last.filter_map(|status| ready(status.map(Err))));
        Ok(Response::new(Box::pin(answers)))
    }

    async fn vote(&self, request: Request<Frame>) -> Result<Response<Frame>, Status> {
        let question = self.question(&request)?;
        self.gate.may_vote()?;
        let result = self.raft.vote(question).await.map_err(stopped)?;
        Ok(Response::new(answer(&result)?))
    }

    async fn pre_vote(&self, request: Request<Frame>) -> Result<Response<Frame>, Status> {
        let question = self.question(&request)?;
        self.gate.may_vote()?;
        let result = self.raft.pre_vote(question).await.map_err(stopped)?;
        Ok(Response::new(answer(&result)?))
    }

    async fn snapshot(&self, request: Request<Streaming<Frame>>) -> Result<Response<Frame>, Status> {
        self.is_meant(&request)?;
        let mut frames = request.into_inner();
        let first = frames.message().await?.ok_or_else(|| Status::invalid_argument("no snapshot"))?;
        let head: SnapshotHead = whole(&first.payload).map_err(|error| unreadable(&error))?;
        self.gate.may_follow(&head.vote)?;
        self.gate.may_promise()?;
        let state = state(&mut frames, &head).await?;
        self.is_possible(&head)?;
        let snapshot = Snapshot { meta: head.meta, snapshot: state };
        let result = self.raft.install_full_snapshot(head.vote, snapshot).await.map_err(stopped)?;
        Ok(Response::new(answer(&result)?))
    }

    async fn transfer_leader(&self, request: Request<Frame>) -> Result<Response<Frame>, Status> {
        let question = self.question(&request)?;
        self.gate.may_vote()?;
        let result = self.raft.handle_transfer_leader(question).await.map_err(stopped)?;
        Ok(Response::new(answer(&result)?))
    }

    async fn past(&self, request: Request<Frame>) -> Result<Response<Frame>, Status> {
        let question: Question = self.question(&request)?;
        let past = past(&self.raft, &self.gate).await.map_err(stopped)?;
        if let Some(plea) = question.plea.filter(|_| past.leads) {
            tokio::spawn(self.handover.clone().grant(plea));
        }
        Ok(Response::new(answer(&past)?))
    }

    async fn pulse(&self, request: Request<Frame>) -> Result<Response<Answers>, Status> {
        self.is_meant(&request)?;
        let mut elected = self.watchdog.elected.clone();
        // It ends with this node, too: then nobody is left to say who was elected.
        let follows = async move {
            elected.wait_for(|leader| leader.is_some_and(|leader| !leader.is_me)).await.is_ok()
        };
        let nothing = stream::once(follows).filter_map(|_| ready(None));
        Ok(Response::new(Box::pin(nothing)))
    }

    async fn gone(&self, request: Request<Frame>) -> Result<Response<Frame>, Status> {
        let sighting: Sighting = self.question(&request)?;
        let finding = self.watchdog.on_sighting(sighting).await.map_err(stopped)?;
        Ok(Response::new(answer(&finding)?))
    }
}

/// Puts the pieces of a snapshot together, as long as there are no more than announced.
async fn state(frames: &mut Streaming<Frame>, head: &SnapshotHead) -> Result<Bytes, Status> {
    if head.bytes > SNAPSHOT_BYTES {
        return Err(Status::out_of_range("a snapshot of this size cannot be"));
    }
    let mut state = BytesMut::new();
    while let Some(frame) = frames.message().await? {
        state.extend_from_slice(&frame.payload);
        if state.len() as u64 > head.bytes {
            return Err(Status::invalid_argument("more of a snapshot than was announced"));
        }
    }
    if state.len() as u64 != head.bytes || crc32c::crc32c(&state) != head.checksum {
        return Err(Status::data_loss("the snapshot did not arrive whole"));
    }
    Ok(state.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutant::tests::assert_caught;

    fn refusal(format: Option<&str>) -> Option<String> {
        let mut request = Request::new(());
        if let Some(format) = format {
            request.metadata_mut().insert(FORMAT_KEY, format.parse().unwrap());
        }
        has_our_format(&request).err().map(|status| status.message().to_owned())
    }

    #[test]
    fn nodes_of_another_format_are_refused() {
        assert_eq!(refusal(Some(&FORMAT.to_string())), None);
        let sentence = |said: &str| {
            Some(format!(
                "this node has format {FORMAT}, and the one that asks has format {said}: run the same version of conclave on all nodes"
            ))
        };
        assert_eq!(refusal(None), sentence("1"));
        let next = (FORMAT + 1).to_string();
        assert_eq!(refusal(Some(&next)), sentence(&next));
        assert_eq!(refusal(Some("")), sentence(""));
    }

    #[test]
    fn that_another_format_is_refused_is_tested() {
        for test in [
            "peer::tests::nodes_of_another_format_are_refused",
            "log::tests::damage::another_format_is_not_guessed_at",
            "identity::tests::another_format_is_not_guessed_at_and_any_changed_byte_is_damage",
            "snapshots::tests::another_format_is_not_guessed_at",
        ] {
            assert_caught(test, Mutant::TakesAnyFormat, "panicked");
        }
    }
}
