//! What can be read without changing anything.

use conclave_service::{Millis, Name, Picture, QueuePlace, RequestId, SessionId, State, Token};
use conclave_wire::v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Status};

use crate::front::hall::Watcher;
use crate::front::page::{Room, Start};
use crate::front::{Answers, Front, SILENCE_PATIENCE, words};

/// Answers that may wait for somebody who watches.
const WATCH_BACKLOG: usize = 4;

impl Front {
    /// Reads the state as it is at this moment or later: the other nodes have confirmed that this one still leads.
    pub(super) async fn read<T>(&self, read: impl FnOnce(Picture<'_>) -> T) -> Result<Response<T>, Status> {
        self.consensus.read_barrier().await.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(self.signed(self.look(read)))
    }

    /// The same for what may be refused.
    pub(super) async fn try_read<T>(
        &self,
        read: impl FnOnce(Picture<'_>) -> Result<T, Status>,
    ) -> Result<Response<T>, Status> {
        self.read(read).await?.into_inner().map(|answer| self.signed(answer))
    }

    /// Looks at the state as it is here, with ages that count to now.
    fn look<T>(&self, look: impl FnOnce(Picture<'_>) -> T) -> T {
        let now = self.service_time();
        self.consensus.state().look(|state| look(state.at(now)))
    }

    /// The present service time: on a node that does not lead, that of the last batch.
    fn service_time(&self) -> Millis {
        let leader = *self.consensus.leader().borrow();
        let applied = self.hall.now();
        match leader {
            Some(leader) if leader.is_me => self.clock.now(leader.term, applied),
            _ => applied,
        }
    }

    pub(super) async fn observe_here(
        &self,
        name: &str,
    ) -> Result<Response<Answers<v1::ObserveResponse>>, Status> {
        let (out, answers) = self.hall.post.open();
        let name = words::name(name);
        self.read(|picture| self.hall.observe(name.clone(), picture.leader(&name).as_ref(), out)).await?;
        self.hears_of_changes().await?;
        Ok(self.signed(Box::pin(answers) as _))
    }

    /// Shows all names, page by page, and then what changes. The watcher is there before the first page is made, so that
    /// no change falls between.
    pub(super) async fn watch_here(
        &self,
        request: v1::WatchRequest,
    ) -> Result<Response<Answers<v1::WatchResponse>>, Status> {
        let watcher = self.read(|_| self.hall.watch(&request.prefix)).await?.into_inner();
        self.hears_of_changes().await?;
        let (out, answers) = mpsc::channel(WATCH_BACKLOG);
        let front = self.clone();
        tokio::spawn(async move {
            if front.show_present(&request, &out).await.is_ok() {
                // Whoever is gone needs no more.
                let _ = front.show_changes(&watcher, &out).await;
            }
        });
        Ok(self.signed(Box::pin(ReceiverStream::new(answers)) as _))
    }

    /// Makes sure that this node still leads: whoever has begun to follow changes here is sent away as soon as it does not any
    /// more, but not if that was before.
    async fn hears_of_changes(&self) -> Result<(), Status> {
        let mut presence = self.consensus.presence();
        let is_served = presence.wait_for(|presence| presence.condition.is_served());
        let is_served = matches!(tokio::time::timeout(SILENCE_PATIENCE, is_served).await, Ok(Ok(_)));
        if is_served && self.consensus.leader().borrow().is_some_and(|leader| leader.is_me) {
            return Ok(());
        }
        Err(Status::unavailable("this node has just stopped leading"))
    }

    async fn show_present(&self, request: &v1::WatchRequest, out: &Watching) -> Result<(), Gone> {
        let mut page = v1::ListRequest {
            prefix: request.prefix.clone(),
            with_idle: request.with_idle,
            ..v1::ListRequest::default()
        };
        loop {
            let revision = self.hall.applied_index();
            let v1::ListResponse { names, more } = self.look(|picture| list(picture, &page));
            page.after = names.last().map(|last| last.name.clone()).unwrap_or_default();
            out.send(Ok(v1::WatchResponse { revision, names, gone: Vec::new(), more })).await?;
            if !more {
                return Ok(());
            }
        }
    }

    async fn show_changes(&self, watcher: &Watcher, out: &Watching) -> Result<(), Gone> {
        while let Some(changed) = tokio::select! {
            biased;
            () = out.closed() => None,
            changed = watcher.changed() => changed,
        } {
            let mut changed = changed.into_iter().peekable();
            while changed.peek().is_some() {
                let revision = self.hall.applied_index();
                let page = self.look(|picture| describe(picture, &mut changed));
                out.send(Ok(v1::WatchResponse { revision, ..page })).await?;
            }
        }
        Ok(())
    }

    pub(super) fn status_here(&self) -> v1::StatusResponse {
        let status = self.consensus.status();
        let totals = self.consensus.state().look(State::totals);
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
            now_ms: self.service_time(),
            condition: status.presence.condition.on_wire().into(),
            silent: status.presence.silent.into_iter().collect(),
            cluster: self.hall.cluster(),
            clocks: self.clocks.known(),
            disk_silent_ms: status.disk_hangs.map_or(0, |silent| silent.as_millis() as u64),
        }
    }
}

/// To somebody who watches.
type Watching = mpsc::Sender<Result<v1::WatchResponse, Status>>;
/// Whoever watched has gone.
type Gone = mpsc::error::SendError<Result<v1::WatchResponse, Status>>;

/// As many of these names as fit into a page.
fn describe(
    picture: Picture<'_>,
    names: &mut std::iter::Peekable<std::collections::btree_set::IntoIter<Name>>,
) -> v1::WatchResponse {
    let (mut page, mut room) = (v1::WatchResponse::default(), Room::new(0));
    while let Some(name) = names.next_if(|_| !room.is_full()) {
        match picture.summary(&name) {
            Some(summary) => room.put(words::summary(&summary), &mut page.names),
            None => room.put(name.to_string(), &mut page.gone),
        }
    }
    page
}

pub fn list(picture: Picture<'_>, request: &v1::ListRequest) -> v1::ListResponse {
    let after = (!request.after.is_empty()).then(|| words::name(&request.after));
    let (mut page, mut room) = (v1::ListResponse::default(), Room::new(request.limit));
    for summary in picture.names(&request.prefix, after.as_ref(), request.with_idle) {
        if room.is_full() {
            page.more = true;
            break;
        }
        room.put(words::summary(&summary), &mut page.names);
    }
    page
}

pub fn list_sessions(picture: Picture<'_>, request: &v1::ListSessionsRequest) -> v1::ListSessionsResponse {
    let after = (request.after != 0).then_some(SessionId(request.after));
    let (mut page, mut room) = (v1::ListSessionsResponse::default(), Room::new(request.limit));
    for line in picture.sessions(after) {
        if room.is_full() {
            page.more = true;
            break;
        }
        room.put(words::session_line(&line), &mut page.sessions);
    }
    page
}

pub fn show(picture: Picture<'_>, request: &v1::ShowRequest) -> Result<v1::ShowResponse, Status> {
    let name = words::name(&request.name);
    let start = Start::read(&request.from)?;
    let Some(summary) = picture.summary(&name) else { return Ok(v1::ShowResponse::default()) };
    let mut page =
        v1::ShowResponse { summary: Some(words::summary(&summary)), ..v1::ShowResponse::default() };
    if request.from.is_empty() {
        page.history = picture.history(&name).map(|past| words::past(&past)).collect();
        page.value = picture.value(&name).map(|value| value.to_vec().into());
        page.delayed_for_ms = picture.delayed_for(&name);
    }
    page.next = fill(picture, &name, start, &mut page, Room::new(request.limit))
        .map_or_else(bytes::Bytes::new, Start::write);
    Ok(page)
}

/// Puts holders and then those who wait onto a page; says where the next one begins.
fn fill(
    picture: Picture<'_>,
    name: &Name,
    start: Start<Token, QueuePlace>,
    page: &mut v1::ShowResponse,
    mut room: Room,
) -> Option<Start<Token, QueuePlace>> {
    let mut place = match start {
        Start::First(mut last) => {
            for holder in picture.holders(name, last) {
                if room.is_full() {
                    return Some(Start::First(last));
                }
                last = Some(holder.token);
                room.put(words::holder(&holder), &mut page.holders);
            }
            None
        }
        Start::Second(place) => place,
    };
    for (at, waiter) in picture.queue(name, place) {
        if room.is_full() {
            return Some(Start::Second(place));
        }
        place = Some(at);
        room.put(words::waiter(&waiter), &mut page.queue);
    }
    None
}

pub fn show_session(
    picture: Picture<'_>,
    request: &v1::ShowSessionRequest,
) -> Result<v1::ShowSessionResponse, Status> {
    let session = SessionId(request.session);
    let start = Start::read(&request.from)?;
    let Some(head) = picture.session_head(session) else { return Ok(v1::ShowSessionResponse::default()) };
    let mut page = words::session(&head);
    page.next = fill_session(picture, session, start, &mut page).map_or_else(bytes::Bytes::new, Start::write);
    Ok(page)
}

/// Puts what a session holds and then what it waits for onto a page; says where the next one begins.
fn fill_session(
    picture: Picture<'_>,
    session: SessionId,
    start: Start<Token, RequestId>,
    page: &mut v1::ShowSessionResponse,
) -> Option<Start<Token, RequestId>> {
    let mut room = Room::new(0);
    let mut request = match start {
        Start::First(mut last) => {
            for held in picture.held(session, last) {
                if room.is_full() {
                    return Some(Start::First(last));
                }
                last = Some(held.token);
                room.put(words::held(&held), &mut page.held);
            }
            None
        }
        Start::Second(request) => request,
    };
    for (of, names) in picture.waiting(session, request) {
        if room.is_full() {
            return Some(Start::Second(request));
        }
        request = Some(of);
        room.put(words::waiting(of, &names), &mut page.waiting);
    }
    None
}

pub fn why(picture: Picture<'_>, request: &v1::WhyRequest) -> v1::WhyResponse {
    let chain = match &request.of {
        Some(v1::why_request::Of::Name(name)) => picture.why_name(&words::name(name)),
        Some(v1::why_request::Of::Session(session)) => picture.why_session(SessionId(*session)),
        None => Vec::new(),
    };
    v1::WhyResponse {
        chain: chain.iter().map(|step| words::wait(&step.wait)).collect(),
        obstacles: chain.iter().map(words::obstacle).collect(),
    }
}

pub fn check(picture: Picture<'_>, request: &v1::CheckRequest) -> v1::CheckResponse {
    words::standing(picture.check(&words::name(&request.name), Token(request.token)))
}
