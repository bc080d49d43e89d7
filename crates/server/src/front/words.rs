//! Between the words of the wire and those of the state machine.

use std::sync::Arc;

use conclave_service::limits::MAX_SETTLED_AT_ONCE;
use conclave_service::{
    Acquire, Act, Command, Failure, Held, HolderView, Leader, Life, Message, Mode, Name, Notice, Owner,
    PastView, Patience, Purpose, Reply, RequestId, SessionId, SessionLine, SessionView, Standing, Step,
    Summary, Token, Told, Wait, WaiterView, Want,
};
use conclave_wire::{PROTOCOL, protocol_mismatch, v1};

/// A command that makes no sense on the wire already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Nonsense {
    /// There is nothing to do in it.
    #[error("the command has no act that this server knows")]
    Act,
    /// Sessions are numbered from 1.
    #[error("0 is not the number of a session")]
    Session,
    /// Requests are numbered from 1.
    #[error("0 is not the number of a request")]
    Request,
    /// The client speaks another version of the protocol.
    #[error("{}", protocol_mismatch(*.0, PROTOCOL).unwrap_or_default())]
    Protocol(u32),
    /// What is settled is below what is acknowledged.
    #[error("a settled request is one below 'acked'")]
    Settled,
    /// More is settled than fits.
    #[error("a command names {MAX_SETTLED_AT_ONCE} settled requests at the most")]
    MuchSettled,
    /// What is acknowledged is no later than the request.
    #[error("'acked' is at most the number of the request")]
    Acked,
}

/// The command that was meant.
pub fn command(command: v1::Command) -> Result<Command, Nonsense> {
    if command.session == 0 {
        return Err(Nonsense::Session);
    }
    if command.request == 0 {
        return Err(Nonsense::Request);
    }
    if let Some(v1::command::Act::Open(open)) = &command.act
        && protocol_mismatch(open.protocol, PROTOCOL).is_some()
    {
        return Err(Nonsense::Protocol(open.protocol));
    }
    if command.acked > command.request {
        return Err(Nonsense::Acked);
    }
    if command.settled.len() > MAX_SETTLED_AT_ONCE {
        return Err(Nonsense::MuchSettled);
    }
    let settled = command.settled.iter().map(|below| match command.acked.checked_sub(*below) {
        Some(request) if *below > 0 => Ok(RequestId(request)),
        _ => Err(Nonsense::Settled),
    });
    Ok(Command {
        session: SessionId(command.session),
        life: Life(command.life),
        request: RequestId(command.request),
        acked: RequestId(command.acked),
        settled: settled.collect::<Result<_, _>>()?,
        act: act(command.act.ok_or(Nonsense::Act)?),
    })
}

fn act(act: v1::command::Act) -> Act {
    use v1::command::Act as Wire;
    match act {
        Wire::Open(open) => Act::Open {
            ttl_ms: open.ttl_ms,
            owner: owner(open.owner.unwrap_or_default()),
            ends_with_connection: open.ends_with_connection,
            reopens: open.reopens,
        },
        Wire::Renew(_) => Act::Renew,
        Wire::Close(_) => Act::Close,
        Wire::Acquire(acquire) => Act::Acquire(acquisition(acquire)),
        Wire::Cancel(cancel) => Act::Cancel(RequestId(cancel.request)),
        Wire::Release(release) => Act::Release(Token(release.token)),
        Wire::Convert(convert) => Act::Convert {
            token: Token(convert.token),
            name: name(&convert.name),
            mode: mode(convert.mode),
            patience: patience(convert.wait_ms),
        },
        Wire::Proclaim(proclaim) => {
            Act::Proclaim { token: Token(proclaim.token), value: Arc::from(proclaim.value.as_ref()) }
        }
        Wire::Transfer(transfer) => {
            Act::Transfer { token: Token(transfer.token), to: SessionId(transfer.to) }
        }
        Wire::Force(force) => Act::Force {
            name: name(&force.name),
            token: force.token.map(Token),
            reason: force.reason.as_str().into(),
        },
        Wire::End(end) => Act::End { session: SessionId(end.session), reason: end.reason.as_str().into() },
    }
}

fn acquisition(acquire: v1::Acquire) -> Acquire {
    Acquire {
        wants: acquire
            .wants
            .iter()
            .map(|want| Want { name: name(&want.name), mode: mode(want.mode) })
            .collect(),
        patience: patience(acquire.wait_ms),
        priority: acquire.priority,
        reentrant: acquire.reentrant,
        strand: acquire.strand,
        purpose: match acquire.campaign {
            None => Purpose::Lock,
            Some(value) => Purpose::Election { value: Arc::from(value.as_ref()) },
        },
        lock_delay_ms: acquire.lock_delay_ms,
    }
}

/// A name.
pub fn name(text: &str) -> Name {
    Name::from(text)
}

fn patience(wait_ms: Option<u32>) -> Patience {
    match wait_ms {
        None => Patience::Forever,
        Some(0) => Patience::Try,
        Some(limit) => Patience::Millis(limit),
    }
}

fn mode(mode: Option<v1::Mode>) -> Mode {
    let mode = mode.unwrap_or_default();
    match mode.kind() {
        v1::mode::Kind::Exclusive => Mode::Exclusive,
        v1::mode::Kind::Shared => Mode::Shared,
        v1::mode::Kind::Permits => Mode::Permits { count: mode.count, limit: mode.limit },
    }
}

fn owner(owner: v1::Owner) -> Owner {
    Owner { host: owner.host.into(), pid: owner.pid, user: owner.user.into(), label: owner.label.into() }
}

/// What a session is told, for the wire.
pub fn event(message: Message) -> v1::Event {
    use v1::event::Told as Wire;
    let told = match message.told {
        Told::Reply { request, reply: told, renewed, waited } => {
            Wire::Reply(v1::Reply { request: request.0, reply: Some(reply(told)), renewed, waited })
        }
        Told::Notice(Notice::Contended { token, name }) => {
            Wire::Contended(v1::Contended { token: token.0, name: name.to_string() })
        }
        Told::Notice(Notice::Lost { token, why }) => {
            Wire::Lost(v1::Lost { token: token.0, why: why.to_string() })
        }
        Told::Notice(Notice::Ended { why }) => Wire::Ended(v1::Ended { why: why.to_string() }),
    };
    v1::Event { session: message.to.0, life: message.life.0, told: Some(told) }
}

/// Which request of whom.
#[derive(Clone, Copy)]
pub struct Asked {
    pub session: u64,
    pub life: u64,
    pub request: u64,
}

impl From<&v1::Command> for Asked {
    fn from(command: &v1::Command) -> Self {
        Self { session: command.session, life: command.life, request: command.request }
    }
}

/// An answer that the server gives by itself: the service has not seen the request, so no session is renewed.
pub fn refusal(asked: Asked, code: v1::failed::Code, text: String) -> v1::Event {
    let Asked { session, life, request } = asked;
    let failed = v1::Failed { code: code.into(), text, cycle: Vec::new() };
    let reply = Some(v1::reply::Reply::Failed(failed));
    let reply = v1::Reply { request, reply, renewed: false, waited: false };
    v1::Event { session, life, told: Some(v1::event::Told::Reply(reply)) }
}

fn reply(reply: Reply) -> v1::reply::Reply {
    use v1::reply::Reply as Wire;
    match reply {
        Reply::Opened { resumed, held } => {
            Wire::Opened(v1::Opened { resumed, held: held.iter().map(|token| token.0).collect() })
        }
        Reply::Done => Wire::Done(v1::Done {}),
        Reply::Queued { ahead } => Wire::Queued(v1::Queued { ahead }),
        Reply::Granted { token, depth } => Wire::Granted(v1::Granted { token: token.0, depth }),
        Reply::Failed(failure) => Wire::Failed(failed(&failure)),
    }
}

fn failed(failure: &Failure) -> v1::Failed {
    use v1::failed::Code;
    let code = match failure {
        Failure::Busy { .. } => Code::Busy,
        Failure::TimedOut => Code::TimedOut,
        Failure::Cancelled => Code::Cancelled,
        Failure::Deadlock(_) => Code::Deadlock,
        Failure::NoSession => Code::NoSession,
        Failure::NotHeld(_) => Code::NotHeld,
        Failure::Mismatch { .. } => Code::Mismatch,
        Failure::NoCandidate(_) => Code::NoCandidate,
        Failure::Free(_) => Code::Free,
        Failure::Limit(_) => Code::Limit,
        Failure::Invalid(_) => Code::Invalid,
        Failure::NoSuchSession(_) => Code::NoSuchSession,
    };
    let cycle = match failure {
        Failure::Deadlock(cycle) => cycle.iter().map(wait).collect(),
        _ => Vec::new(),
    };
    v1::Failed { code: code.into(), text: failure.to_string(), cycle }
}

/// One step of a chain of waiting, for the wire.
pub fn wait(wait: &Wait) -> v1::Wait {
    v1::Wait {
        session: wait.session.0,
        owner: Some(owner_on_wire(&wait.owner)),
        name: wait.name.to_string(),
        behind: wait.behind.0,
        holds: wait.holds,
    }
}

/// Who is in the way at one step of a chain of waiting, for the wire.
pub fn obstacle(step: &Step) -> v1::Obstacle {
    v1::Obstacle {
        owner: Some(owner_on_wire(&step.behind)),
        since_ms: step.since,
        token: step.token.map_or(0, |token| token.0),
    }
}

/// Something that is held, for the wire.
pub fn held(held: &Held) -> v1::Held {
    let names = held
        .names
        .iter()
        .map(|(name, mode)| v1::Want { name: name.to_string(), mode: Some(mode_on_wire(*mode)) })
        .collect();
    v1::Held { token: held.token.0, names, depth: held.depth }
}

fn owner_on_wire(owner: &Owner) -> v1::Owner {
    v1::Owner {
        host: owner.host.to_string(),
        pid: owner.pid,
        user: owner.user.to_string(),
        label: owner.label.to_string(),
    }
}

fn mode_on_wire(mode: Mode) -> v1::Mode {
    use v1::mode::Kind;
    let (kind, count, limit) = match mode {
        Mode::Exclusive => (Kind::Exclusive, 0, 0),
        Mode::Shared => (Kind::Shared, 0, 0),
        Mode::Permits { count, limit } => (Kind::Permits, count, limit),
    };
    v1::Mode { kind: kind.into(), count, limit }
}

/// A line of a list, for the wire.
pub fn summary(summary: &Summary) -> v1::Summary {
    v1::Summary {
        name: summary.name.to_string(),
        is_election: summary.is_election,
        holders: summary.holders,
        waiters: summary.waiters,
        first: summary.first.as_ref().map(holder),
        newest: summary.newest.map_or(0, |token| token.0),
        delayed_for_ms: summary.delayed_for,
    }
}

/// One who holds a name, for the wire.
pub fn holder(holder: &HolderView) -> v1::Holder {
    v1::Holder {
        session: holder.session.0,
        owner: Some(owner_on_wire(&holder.owner)),
        token: holder.token.0,
        mode: Some(mode_on_wire(holder.mode)),
        depth: holder.depth,
        held_for_ms: holder.held_for,
        expires_in_ms: holder.expires_in,
    }
}

/// One who waits for a name, for the wire.
pub fn waiter(waiter: &WaiterView) -> v1::Waiter {
    v1::Waiter {
        session: waiter.session.0,
        owner: Some(owner_on_wire(&waiter.owner)),
        request: waiter.request.0,
        mode: Some(mode_on_wire(waiter.mode)),
        priority: waiter.priority,
        waited_for_ms: waiter.waited_for,
        gives_up_in_ms: waiter.gives_up_in,
        names: waiter.names.iter().map(ToString::to_string).collect(),
    }
}

/// One who held a name, for the wire.
pub fn past(past: &PastView) -> v1::Past {
    v1::Past {
        session: past.session.0,
        owner: Some(owner_on_wire(&past.owner)),
        token: past.token.0,
        held_for_ms: past.held_for,
        ended_ms_ago: past.ended,
        how: past.how.to_string(),
    }
}

/// A request that waits, for the wire.
pub fn waiting(request: RequestId, names: &[Name]) -> v1::Waiting {
    v1::Waiting { request: request.0, names: names.iter().map(ToString::to_string).collect() }
}

/// Everything about a session, for the wire.
pub fn session(view: &SessionView) -> v1::ShowSessionResponse {
    v1::ShowSessionResponse {
        session: view.session.0,
        owner: Some(owner_on_wire(&view.owner)),
        generation: view.life.generation(),
        ttl_ms: view.ttl_ms,
        expires_in_ms: view.expires_in,
        held: view.held.iter().map(held).collect(),
        waiting: view.waiting.iter().map(|(request, names)| waiting(*request, names)).collect(),
        next: bytes::Bytes::new(),
    }
}

/// A line of a list of sessions, for the wire.
pub fn session_line(line: &SessionLine) -> v1::SessionLine {
    v1::SessionLine {
        session: line.session.0,
        owner: Some(owner_on_wire(&line.owner)),
        ttl_ms: line.ttl_ms,
        expires_in_ms: line.expires_in,
        held: line.held,
        waiting: line.waiting,
    }
}

/// A leader, for the wire.
pub fn leader(leader: &Leader) -> v1::Leader {
    v1::Leader {
        session: leader.session.0,
        owner: Some(owner_on_wire(&leader.owner)),
        term: leader.term.0,
        value: leader.value.to_vec().into(),
    }
}

/// What a token is worth, for the wire.
pub fn standing(standing: Standing) -> v1::CheckResponse {
    use v1::check_response::Standing as Wire;
    let (standing, newest) = match standing {
        Standing::Held => (Wire::Held, 0),
        Standing::Released => (Wire::Released, 0),
        Standing::Stale { newest } => (Wire::Stale, newest.0),
        Standing::Unknown => (Wire::Unknown, 0),
    };
    v1::CheckResponse { standing: standing.into(), newest }
}
