//! Physical clocks: processes whose clocks are wrong agree on the time.
//!
//! A process reads the clock that it has ([`Effects::now`](conclave_core::Effects::now)), which may be wrong and drift, and
//! keeps a correction of it ([`SoftClock`]). Its application asks for the time ([`Request::Read`]) or that the clock be
//! corrected ([`Request::Sync`]), and is told how good the correction is ([`Event::Adjusted`]).
//!
//! All measuring is done with the clock that the process has, never with the corrected one: that one may be slowed down.

use alloc::format;
use alloc::string::String;

use core::time::Duration;

use conclave_core::{After, Members, NodeId, Protocol, Reading, Timing};
use serde::{Deserialize, Serialize};

use crate::demand::Who;
use crate::{Algorithm, Formula};

mod berkeley;
mod cristian;
mod family;
mod ledger;
mod ntp;
mod soft;
#[cfg(test)]
mod tests;

pub use berkeley::{Berkeley, BerkeleyConfig, BerkeleyMessage, BerkeleyTimer, LedBerkeley};
pub use cristian::{Cristian, CristianConfig, CristianMessage, CristianTimer};
pub(crate) use family::visit_any;
pub use family::{FAMILY, Of, Timekeeping, Visitor, all, visit};
pub use ledger::{Accuracy, Reference};
pub use ntp::{Ntp, NtpConfig, NtpMessage, NtpTimer};
pub use soft::{Drift, SoftClock};

/// What an application may ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Request {
    /// Correct the clock.
    #[default]
    Sync,
    /// Tell the time.
    Read,
}

/// What an application is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Event {
    /// The clock was corrected. If it is ahead, it is slowed down until it agrees.
    Adjusted {
        /// By this many nanoseconds.
        by: i64,
        /// The time that it is to agree with.
        to: Reading,
        /// How far this is from the clock that it was corrected by, at most, in nanoseconds.
        bound: i64,
        /// Whose clock that is; nobody's if it is the true time.
        source: Option<NodeId>,
        /// In which round of that process, where there are rounds.
        round: u64,
    },
    /// This is the time.
    Time(Reading),
    /// Nobody could be asked: the clock was not corrected.
    Failed,
}

/// A process that keeps its clock right.
pub trait Timekeeper: Algorithm + Protocol<Request = Request, Event = Event> {
    /// The corrected clock.
    fn clock(&self) -> &SoftClock;

    /// What a corrected clock is compared with.
    const REFERENCE: Reference;

    /// Who asks for a correction if nobody is named.
    const ASKS: Who;

    /// Whether everyone who asks is told also where a process comes back.
    const OUTLIVES_RETURNS: bool = true;

    /// How far clocks may drift so that what it promises holds.
    fn drift(config: &Self::Config) -> Drift;

    /// Whether this process has somebody to be corrected by while only these are alive.
    fn can_sync(
        config: &Self::Config,
        members: &Members,
        place: usize,
        alive: &dyn Fn(usize) -> bool,
    ) -> bool;

    /// Whether what it believes can be right: `is_right` says of a process that it never crashed, and that its clock was
    /// never further from the truth than this.
    fn is_sound(_: &Self::Config, _: &Members, _: usize, _is_right: &dyn Fn(usize, i64) -> bool) -> bool {
        true
    }

    /// How many messages a run without failures must have cost in which these processes asked once each.
    fn formula(config: &Self::Config, members: &Members, asked: &[NodeId]) -> Formula;
}

/// A span of time as people write it: `5ms`, `0.25ms`, `90s`, `185min`.
pub(super) fn show_span(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let size = nanos.unsigned_abs();
    match size {
        0 => "0".into(),
        _ if size.is_multiple_of(60_000_000_000) => format!("{sign}{}min", size / 60_000_000_000),
        _ if size.is_multiple_of(1_000_000_000) => format!("{sign}{}s", size / 1_000_000_000),
        _ => {
            let text = format!("{sign}{}.{:06}", size / 1_000_000, size % 1_000_000);
            format!("{}ms", text.trim_end_matches('0').trim_end_matches('.'))
        }
    }
}

/// A number of microseconds in nanoseconds.
fn nanos(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX).saturating_mul(1_000)
}

/// How long to wait for an answer that must come, by a clock that may be too fast.
fn patience(timing: &Timing, drift: Drift) -> After {
    let span = timing.answer_timeout();
    let drifted = drift.apart(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX));
    // Drivers count microseconds.
    After::exactly(span + Duration::from_nanos(drifted.unsigned_abs()) + Duration::from_micros(1))
}

/// An exchange of two messages: a clock was asked, and answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Exchange {
    /// When it was asked, by our clock.
    asked: Reading,
    /// When the answer came, by our clock.
    answered: Reading,
    /// What the other clock showed in between.
    told: Reading,
}

/// How well a clock was read: half of what the messages and their handling took is taken for the way of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
struct Estimate {
    /// How far the other clock is ahead of ours, in nanoseconds.
    ahead: i64,
    /// By how much this can be wrong.
    bound: i64,
}

/// What is known of a network and of clocks, and makes an estimate better or worse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Terms {
    /// No message travels in less time, in nanoseconds.
    least: i64,
    /// How long the other handles the question, in nanoseconds.
    handling: i64,
    drift: Drift,
}

impl Exchange {
    /// How long it took.
    fn round_trip(&self) -> i64 {
        self.answered.since(self.asked).max(0)
    }

    fn estimate(&self, terms: &Terms) -> Estimate {
        let round_trip = self.round_trip();
        let travelled = round_trip.saturating_sub(terms.handling).max(0);
        let told = self.told.shifted(travelled / 2);
        let bound = (travelled / 2 + travelled % 2).saturating_sub(terms.least).max(0);
        let drifted = terms.drift.apart(round_trip);
        Estimate { ahead: told.since(self.answered), bound: bound.saturating_add(drifted) }
    }
}
