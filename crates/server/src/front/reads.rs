//! What can be read without changing anything.

use std::collections::BTreeSet;

use conclave_service::{SessionId, State, Token};
use conclave_wire::v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Status};

use crate::front::hall::BACKLOG;
use crate::front::{Answers, Front, words};

/// Names in one answer to a list, unless less is asked for.
const PAGE: usize = 1000;
/// Answers that may wait for somebody who watches.
const WATCH_BACKLOG: usize = 4;

impl Front {
    /// Reads the state as it is at this moment or later: the other nodes have confirmed that this one still leads.
    pub(super) async fn read<T>(&self, read: impl FnOnce(&State) -> T) -> Result<Response<T>, Status> {
        self.consensus.read_barrier().await.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(Response::new(self.consensus.state().look(read)))
    }

    pub(super) async fn observe_here(
        &self,
        name: &str,
    ) -> Result<Response<Answers<v1::ObserveResponse>>, Status> {
        let (out, answers) = mpsc::channel(BACKLOG);
        let name = words::name(name);
        self.read(|state| self.hall.observe(name.clone(), state.leader(&name).as_ref(), out)).await?;
        Ok(Response::new(Box::pin(ReceiverStream::new(answers))))
    }

    pub(super) async fn watch_here(
        &self,
        prefix: String,
    ) -> Result<Response<Answers<v1::WatchResponse>>, Status> {
        let present =
            |state: &State| state.names(&prefix, None).map(|summary| summary.name).collect::<BTreeSet<_>>();
        let watcher = self.read(|state| self.hall.watch(&prefix, present(state))).await?.into_inner();
        let (out, answers) = mpsc::channel(WATCH_BACKLOG);
        let front = self.clone();
        tokio::spawn(async move {
            while let Some(changed) = tokio::select! {
                biased;
                () = out.closed() => None,
                changed = watcher.changed() => changed,
            } {
                if out.send(Ok(front.describe(&changed))).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(answers))))
    }

    fn describe(&self, changed: &BTreeSet<conclave_service::Name>) -> v1::WatchResponse {
        let mut answer =
            v1::WatchResponse { revision: self.hall.applied_index(), ..v1::WatchResponse::default() };
        self.consensus.state().look(|state| {
            for name in changed {
                match state.name(name) {
                    Some(view) => answer.names.push(words::summary(&view.summary)),
                    None => answer.gone.push(name.to_string()),
                }
            }
        });
        answer
    }

    pub(super) fn status_here(&self) -> v1::StatusResponse {
        let status = self.consensus.status();
        let (totals, now_ms) = self.consensus.state().look(|state| (state.totals(), state.now()));
        v1::StatusResponse {
            node: status.id,
            leader: status.leader.unwrap_or(0),
            term: status.term,
            last_log: status.last_log,
            applied: status.applied,
            members: status.members.into_iter().map(|(node, address)| v1::Member { node, address }).collect(),
            sessions: totals.sessions,
            names: totals.names,
            held: totals.held,
            waiting: totals.waiting,
            grants: totals.grants,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            now_ms,
        }
    }
}

pub fn list(state: &State, request: &v1::ListRequest) -> v1::ListResponse {
    let limit = match usize::try_from(request.limit) {
        Ok(limit) if limit > 0 => limit.min(PAGE),
        _ => PAGE,
    };
    let after = (!request.after.is_empty()).then(|| words::name(&request.after));
    let mut names: Vec<_> = state
        .names(&request.prefix, after.as_ref())
        .take(limit + 1)
        .map(|summary| words::summary(&summary))
        .collect();
    let more = names.len() > limit;
    names.truncate(limit);
    v1::ListResponse { names, more }
}

pub fn show(state: &State, request: &v1::ShowRequest) -> v1::ShowResponse {
    state.name(&words::name(&request.name)).map(|view| words::shown(&view)).unwrap_or_default()
}

pub fn show_session(state: &State, request: &v1::ShowSessionRequest) -> v1::ShowSessionResponse {
    state.session(SessionId(request.session)).map(|view| words::session(&view)).unwrap_or_default()
}

pub fn why(state: &State, request: &v1::WhyRequest) -> v1::WhyResponse {
    let chain = match &request.of {
        Some(v1::why_request::Of::Name(name)) => state.why_name(&words::name(name)),
        Some(v1::why_request::Of::Session(session)) => state.why_session(SessionId(*session)),
        None => Vec::new(),
    };
    v1::WhyResponse { chain: chain.iter().map(words::wait).collect() }
}

pub fn check(state: &State, request: &v1::CheckRequest) -> v1::CheckResponse {
    words::standing(state.check(&words::name(&request.name), Token(request.token)))
}
