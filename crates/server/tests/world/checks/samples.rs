//! Small histories, written by hand.

use conclave_client::Mode;
use conclave_service::{Acquire, Act, Batch, Command, Life, Outcome as Told, Owner, Patience, Purpose};
use conclave_service::{RequestId, SessionId, State, Want};

use crate::history::{Asked, End, Force, Found, History, Hold, Micros, Outcome, Read};

/// A hold of `a`, by a session, asked for a little before it was given, and released at its end.
pub fn hold(session: u64, token: u64, mode: Mode, since: Micros, until: Micros) -> Hold {
    Hold {
        request: 0,
        client: session as usize,
        session,
        name: "a".to_owned(),
        together: vec!["a".to_owned()],
        mode,
        token,
        is_fragile: false,
        asked: since.saturating_sub(5),
        since,
        until: Some(until),
        end: Some(End::Released),
        why_lost: None,
        gone: Some(until + 5),
    }
}

pub fn exclusive(session: u64, token: u64, since: Micros, until: Micros) -> Hold {
    hold(session, token, Mode::Exclusive, since, until)
}

pub fn held(holds: Vec<Hold>) -> History {
    History { holds, ..History::default() }
}

pub fn force(began: Micros, ended: Micros) -> Force {
    Force { name: "a".to_owned(), began, ended: Some(ended), is_refused: false }
}

/// A request for `a`.
pub fn asked(session: u64, began: Micros, queued: Option<Micros>, outcome: Outcome) -> Asked {
    Asked {
        client: session as usize,
        session,
        wants: vec![("a".to_owned(), Mode::Exclusive)],
        priority: 0,
        is_reentrant: false,
        limit: None,
        lock_delay: 0,
        began,
        queued,
        ended: Some(began + 50),
        outcome: Some(outcome),
    }
}

pub fn shown(began: Micros, ended: Micros, tokens: Vec<u64>, newest: u64) -> Read {
    Read { name: "a".to_owned(), began, ended, found: Found::Holders { tokens, newest } }
}

/// A state in which each of these sessions asked for `a`.
pub fn state(sessions: &[u64]) -> State {
    let mut state = State::default();
    for session in sessions {
        let owner = Owner::default();
        let open = Act::Open { ttl_ms: 1000, owner, ends_with_connection: false, reopens: false };
        let want = Want { name: "a".into(), mode: conclave_service::Mode::Exclusive };
        let acquire = Acquire {
            wants: vec![want],
            patience: Patience::Forever,
            priority: 0,
            reentrant: false,
            strand: 0,
            purpose: Purpose::Lock,
            lock_delay_ms: 0,
        };
        let command = |request, act| Command {
            session: SessionId(*session),
            life: Life(1),
            request: RequestId(request),
            acked: RequestId(1),
            settled: Vec::new(),
            act,
        };
        let commands = vec![command(1, open), command(2, Act::Acquire(acquire))];
        state.apply(&Batch { now: 1, commands, floor: 0 }, &mut Told::default());
    }
    state
}
