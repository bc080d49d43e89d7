//! What to ask for.

use std::time::Duration;

use conclave_wire::v1;
use tokio::sync::mpsc;

use crate::millis;

/// How a name is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Alone.
    Exclusive,
    /// With others who share.
    Shared,
    /// So many permits of so many.
    Permits {
        /// How many.
        count: u32,
        /// Of how many.
        limit: u32,
    },
}

impl From<Mode> for v1::Mode {
    fn from(mode: Mode) -> Self {
        use v1::mode::Kind;
        let (kind, count, limit) = match mode {
            Mode::Exclusive => (Kind::Exclusive, 0, 0),
            Mode::Shared => (Kind::Shared, 0, 0),
            Mode::Permits { count, limit } => (Kind::Permits, count, limit),
        };
        Self { kind: kind.into(), count, limit }
    }
}

/// An acquisition: built step by step, then given to [`crate::Session::acquire`].
#[derive(Clone, Debug)]
#[must_use = "it asks for nothing until a session is given it"]
pub struct Request {
    pub(crate) acquire: v1::Acquire,
    pub(crate) queued: Option<mpsc::UnboundedSender<u32>>,
}

impl Request {
    /// One name, alone, for as long a wait as it takes.
    pub fn lock(name: impl Into<String>) -> Self {
        Self::locks([name])
    }

    /// Several names, all or none.
    pub fn locks<T: Into<String>>(names: impl IntoIterator<Item = T>) -> Self {
        let wants = names.into_iter().map(|name| v1::Want { name: name.into(), mode: None }).collect();
        Self { acquire: v1::Acquire { wants, ..v1::Acquire::default() }, queued: None }
    }

    /// Holds all of the names in this mode.
    pub fn mode(mut self, mode: Mode) -> Self {
        for want in &mut self.acquire.wants {
            want.mode = Some(mode.into());
        }
        self
    }

    /// Does not wait: it is refused as [`Code::Busy`](crate::Code::Busy) if it cannot be granted at once. See also
    /// [`Session::try_acquire`](crate::Session::try_acquire).
    pub fn try_once(self) -> Self {
        self.wait(Duration::ZERO)
    }

    /// Waits no longer than this, in whole milliseconds, rounded up; not at all for a limit of zero. The service counts up
    /// to 49 days: a longer limit is none.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.acquire.wait_ms = millis::wait(limit);
        self
    }

    /// Goes before all of lower priority; the usual one is 0.
    pub fn priority(mut self, priority: i32) -> Self {
        self.acquire.priority = priority;
        self
    }

    /// Counts what the same strand of the session holds already as granted once more.
    pub fn reentrant(mut self) -> Self {
        self.acquire.reentrant = true;
        self
    }

    /// Which of the session's independent owners asks: tasks that do not wait for each other use different ones, so that
    /// what one holds and another waits for is not taken for a deadlock.
    pub fn strand(mut self, strand: u32) -> Self {
        self.acquire.strand = strand;
        self
    }

    /// Tells how many go before it, once it stands in the queue of the service.
    pub fn tell_queued(mut self, to: mpsc::UnboundedSender<u32>) -> Self {
        self.queued = Some(to);
        self
    }

    /// Keeps the names from everybody for so long after their holder was lost; in whole milliseconds, rounded up.
    pub fn lock_delay(mut self, delay: Duration) -> Self {
        self.acquire.lock_delay_ms = millis::at_least(delay);
        self
    }
}

impl From<&str> for Request {
    /// One name, alone, for as long a wait as it takes.
    fn from(name: &str) -> Self {
        Self::lock(name)
    }
}

impl From<String> for Request {
    /// One name, alone, for as long a wait as it takes.
    fn from(name: String) -> Self {
        Self::lock(name)
    }
}

/// A campaign to lead a name: built step by step, then given to [`crate::Session::campaign`].
#[derive(Clone, Debug)]
#[must_use = "it asks for nothing until a session is given it"]
pub struct Campaign(pub(crate) Request);

impl Campaign {
    /// Leadership of a name, and the value to show as its leader.
    pub fn new(name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        let mut request = Request::lock(name);
        request.acquire.campaign = Some(value.into().into());
        Self(request)
    }

    /// Waits no longer than this; see [`Request::wait`].
    pub fn wait(self, limit: Duration) -> Self {
        Self(self.0.wait(limit))
    }

    /// Goes before all of lower priority; the usual one is 0.
    pub fn priority(self, priority: i32) -> Self {
        Self(self.0.priority(priority))
    }

    /// Which of the session's independent owners asks; see [`Request::strand`].
    pub fn strand(self, strand: u32) -> Self {
        Self(self.0.strand(strand))
    }

    /// Tells how many go before it, once it stands in the queue of the service.
    pub fn tell_queued(self, to: mpsc::UnboundedSender<u32>) -> Self {
        Self(self.0.tell_queued(to))
    }

    /// Keeps the leadership from everybody for so long after the leader was lost; see [`Request::lock_delay`].
    pub fn lock_delay(self, delay: Duration) -> Self {
        Self(self.0.lock_delay(delay))
    }
}

impl From<Campaign> for Request {
    /// For whoever treats campaigns and locks alike: what is granted is leadership, as a [`Guard`](crate::Guard).
    fn from(campaign: Campaign) -> Self {
        campaign.0
    }
}
