//! A clock that goes on while the machine sleeps, as the lease does at the service.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// A moment on CLOCK_BOOTTIME, which all processes of a machine share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Boot(Duration);

impl Boot {
    /// Later than anything.
    #[cfg_attr(not(feature = "laboratory"), expect(dead_code, reason = "leases of the service end"))]
    pub const NEVER: Self = Self(Duration::from_nanos(u64::MAX));

    /// Now. A machine without this clock is at the end of time, where every deadline has passed.
    pub fn now() -> Self {
        clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Self(Duration::MAX), |now| Self(now.into()))
    }

    /// So much later.
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }

    /// So much earlier.
    pub fn before(self, lead: Duration) -> Self {
        Self(self.0.saturating_sub(lead))
    }

    /// How long it is from an earlier moment to this one.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Since the machine was started.
    pub fn elapsed_since_boot(self) -> Duration {
        self.0
    }

    /// For a frame.
    pub fn to_nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    /// From a frame.
    pub fn from_nanos(nanos: u64) -> Self {
        Self(Duration::from_nanos(nanos))
    }
}
