//! Times as packets carry them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds from 1900, where NTP begins to count, to 1970.
const TO_1970: u64 = 2_208_988_800;
const SECOND: i128 = 1_000_000_000;

/// A moment: 32 bits of seconds since 1900, and 32 bits of a second. The seconds begin again every 136 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stamp(pub u64);

impl Stamp {
    /// No moment: the stamp of a clock that was never set.
    pub const NONE: Self = Self(0);

    /// This moment, moved by so many nanoseconds.
    #[must_use]
    pub fn of(time: SystemTime, offset: i64) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let nanos = since.as_nanos() as i128 + i128::from(TO_1970) * SECOND + i128::from(offset);
        // The bits of the era are cut off, as they are on the wire.
        Self(((nanos << 32) / SECOND) as u64)
    }

    /// Nanoseconds from another moment to this one, the shorter way round an era.
    #[must_use]
    pub fn since(self, earlier: Self) -> i64 {
        let difference = self.0.wrapping_sub(earlier.0) as i64;
        ((i128::from(difference) * SECOND) >> 32) as i64
    }
}

/// A span: 16 bits of seconds and 16 bits of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Short(pub u32);

impl Short {
    /// So many nanoseconds; the longest span if it is longer.
    #[must_use]
    pub fn of_nanos(nanos: u64) -> Self {
        let units = (u128::from(nanos) << 16).div_ceil(SECOND as u128);
        Self(u32::try_from(units).unwrap_or(u32::MAX))
    }

    /// In nanoseconds.
    #[must_use]
    pub fn nanos(self) -> u64 {
        ((u128::from(self.0) * SECOND as u128) >> 16) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_apart_as_clocks_are() {
        let now = UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789);
        let stamp = Stamp::of(now, 0);
        assert_eq!(stamp.0 >> 32, 1_700_000_000 + TO_1970);
        for offset in [0, 1_000, -500_000_000, 3_600_000_000_000] {
            let apart = Stamp::of(now, offset).since(stamp);
            assert!(apart.abs_diff(offset) <= 1, "{offset} became {apart}");
        }
    }

    /// The seconds run over in 2036.
    #[test]
    fn an_era_may_end_in_between() {
        let last = Stamp(u64::MAX);
        assert_eq!(Stamp(1 << 32).since(last), 1_000_000_000);
        assert_eq!(last.since(Stamp(1 << 32)), -1_000_000_001);
    }

    #[test]
    fn spans_are_rounded_up() {
        assert_eq!(Short::of_nanos(1_000_000_000), Short(1 << 16));
        assert_eq!(Short::of_nanos(1), Short(1));
        assert_eq!(Short::of_nanos(u64::MAX), Short(u32::MAX));
        assert_eq!(Short(1 << 15).nanos(), 500_000_000);
    }
}
