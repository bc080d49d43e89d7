//! How much of everything there may be.
//!
//! The limits are code rather than settings, because every replica must come to the same verdict on the same command.

use std::sync::Arc;

use crate::command::{Acquire, Act, Mode, Name, Owner, Purpose};
use crate::reply::Failure;

/// The shortest life of a session without a word from its client.
pub const MIN_TTL_MS: u32 = 500;
/// The longest.
pub const MAX_TTL_MS: u32 = 24 * 60 * 60 * 1000;
/// The longest time for which a name stays closed after its holder was lost.
pub const MAX_LOCK_DELAY_MS: u32 = 60 * 60 * 1000;
/// Bytes of a name.
pub const MAX_NAME_BYTES: usize = 512;
/// Bytes of the value that a leader shows.
pub const MAX_VALUE_BYTES: usize = 16 * 1024;
/// Bytes of each text that describes an owner.
pub const MAX_OWNER_BYTES: usize = 256;
/// Bytes of the reason for taking a name by force.
pub const MAX_REASON_BYTES: usize = 1024;
/// Names that one request may take together.
pub const MAX_NAMES_AT_ONCE: usize = 64;
/// Sessions.
pub const MAX_SESSIONS: usize = 50_000;
/// Names that somebody holds or waits for.
pub const MAX_NAMES_IN_USE: usize = 1_000_000;
/// Names that are remembered only for their history.
pub const MAX_IDLE_NAMES: usize = 10_000;
/// Requests that wait for one name.
pub const MAX_WAITERS_PER_NAME: usize = 100_000;
/// Grants that one session may hold and still ask for more. One that is held several times counts as often.
pub const MAX_GRANTS_PER_SESSION: usize = 10_000;
/// Requests of one session that wait, or waited and have a reply that the client has not acknowledged.
pub const MAX_WAITS_PER_SESSION: usize = 10_000;
/// Grants in all.
pub const MAX_GRANTS: usize = 1_000_000;
/// Requests that wait in all.
pub const MAX_WAITS: usize = 1_000_000;
/// Unacknowledged replies to requests that did not wait, beyond which a session is refused what needs another one.
/// Nobody is refused a release: only one that gives something back is remembered, so there are at most
/// [`MAX_GRANTS_PER_SESSION`] more of them.
pub const MAX_REMEMBERED_REPLIES: usize = 1_000;
/// Requests that one command may name as settled.
pub const MAX_SETTLED_AT_ONCE: usize = 1_000;
/// Bytes that one session accounts for: its owner, the names and values of what it holds and waits for, and the replies
/// that its client has not acknowledged.
pub const MAX_BYTES_PER_SESSION: usize = 16 << 20;
/// Bytes of its replies: with as many, they are too many.
pub const MAX_REMEMBERED_BYTES: usize = 1 << 20;
/// Bytes that all sessions and names account for together: a snapshot has not much more.
pub const MAX_BYTES: usize = 1 << 30;
/// Past holders that are remembered for each name.
pub const MAX_HISTORY: usize = 16;
/// Steps of a cycle or of a chain of waiting that are told: nobody reads more.
pub const MAX_STEPS_TOLD: usize = 64;

pub(crate) fn invalid(text: impl Into<Arc<str>>) -> Failure {
    Failure::Invalid(text.into())
}

pub(crate) fn limit(text: impl Into<Arc<str>>) -> Failure {
    Failure::Limit(text.into())
}

/// Everything about a request that can be judged without knowing the state. A server that asks this first keeps what would
/// be refused anyway out of its log.
///
/// # Errors
/// With the same words as the refusal of the service would have.
pub fn check(act: &Act) -> Result<(), Failure> {
    match act {
        Act::Open { ttl_ms, owner, .. } => check_ttl(*ttl_ms).and_then(|()| check_owner(owner)),
        Act::Acquire(ask) => check_acquire(ask),
        Act::Convert { name, mode, .. } => check_name(name).and_then(|()| check_mode(*mode)),
        Act::Proclaim { value, .. } => check_value(value),
        Act::Force { name, reason, .. } => check_name(name).and_then(|()| check_reason(reason)),
        Act::End { reason, .. } => check_reason(reason),
        Act::Renew | Act::Close | Act::Cancel(_) => Ok(()),
        Act::Release(_) | Act::Transfer { .. } | Act::Disconnected => Ok(()),
    }
}

pub(crate) fn check_ttl(ttl_ms: u32) -> Result<(), Failure> {
    if (MIN_TTL_MS..=MAX_TTL_MS).contains(&ttl_ms) {
        return Ok(());
    }
    Err(invalid(format!(
        "a session lives for {MIN_TTL_MS} ms at least and {MAX_TTL_MS} ms at most without a word, not {ttl_ms} ms"
    )))
}

pub(crate) fn check_owner(owner: &Owner) -> Result<(), Failure> {
    for (what, text) in [("host", &owner.host), ("user", &owner.user), ("label", &owner.label)] {
        if text.len() > MAX_OWNER_BYTES {
            return Err(invalid(format!(
                "the {what} of an owner has {MAX_OWNER_BYTES} bytes at most, not {}",
                text.len()
            )));
        }
    }
    Ok(())
}

pub(crate) fn check_name(name: &Name) -> Result<(), Failure> {
    let bytes = name.0.len();
    if bytes == 0 || bytes > MAX_NAME_BYTES {
        return Err(invalid(format!("a name has 1 to {MAX_NAME_BYTES} bytes, not {bytes}")));
    }
    if name.0.chars().any(char::is_control) {
        return Err(invalid("a name has no control characters"));
    }
    Ok(())
}

pub(crate) fn check_mode(mode: Mode) -> Result<(), Failure> {
    match mode {
        Mode::Permits { count: 0, .. } => Err(invalid("it takes one permit at least")),
        Mode::Permits { count, limit } if count > limit => {
            Err(invalid(format!("{count} permits of {limit} can never be granted")))
        }
        Mode::Exclusive | Mode::Shared | Mode::Permits { .. } => Ok(()),
    }
}

pub(crate) fn check_value(value: &[u8]) -> Result<(), Failure> {
    if value.len() > MAX_VALUE_BYTES {
        return Err(invalid(format!("a value has {MAX_VALUE_BYTES} bytes at most, not {}", value.len())));
    }
    Ok(())
}

pub(crate) fn check_reason(reason: &str) -> Result<(), Failure> {
    if reason.len() > MAX_REASON_BYTES {
        return Err(invalid(format!("a reason has {MAX_REASON_BYTES} bytes at most, not {}", reason.len())));
    }
    Ok(())
}

/// Everything about an acquisition that can be judged without knowing the state.
pub(crate) fn check_acquire(ask: &Acquire) -> Result<(), Failure> {
    let names = ask.wants.len();
    if names == 0 || names > MAX_NAMES_AT_ONCE {
        return Err(invalid(format!("it takes 1 to {MAX_NAMES_AT_ONCE} names at once, not {names}")));
    }
    for (index, want) in ask.wants.iter().enumerate() {
        check_name(&want.name)?;
        check_mode(want.mode)?;
        if ask.wants[..index].iter().any(|other| other.name == want.name) {
            return Err(invalid(format!("'{}' is asked for twice", want.name)));
        }
    }
    if ask.lock_delay_ms > MAX_LOCK_DELAY_MS {
        return Err(invalid(format!(
            "a lock delay is {MAX_LOCK_DELAY_MS} ms at most, not {} ms",
            ask.lock_delay_ms
        )));
    }
    match &ask.purpose {
        Purpose::Lock => Ok(()),
        Purpose::Election { value } => check_campaign(ask, value),
    }
}

fn check_campaign(ask: &Acquire, value: &[u8]) -> Result<(), Failure> {
    match ask.wants.as_slice() {
        [want] if want.mode == Mode::Exclusive => check_value(value),
        [_] => Err(invalid("one leads alone: an election takes its name exclusively")),
        _ => Err(invalid("an election has exactly one name")),
    }
}
