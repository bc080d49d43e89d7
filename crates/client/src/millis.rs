//! Spans of time as the service counts them: whole milliseconds, and not more than 32 bits of them.

use std::time::Duration;

/// Rounded up, so that nothing short becomes nothing; the most there can be for what is longer, which the service refuses
/// where it has a limit.
pub fn at_least(span: Duration) -> u32 {
    u32::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX)
}

/// How long to wait: rounded up. A limit of more than the service can count (49 days) is none.
pub fn wait(limit: Duration) -> Option<u32> {
    u32::try_from(limit.as_nanos().div_ceil(1_000_000)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_rounded_up_and_never_cut() {
        for (span, millis) in [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_micros(900), 1),
            (Duration::from_millis(1), 1),
            (Duration::from_micros(1_001), 2),
            (Duration::from_secs(10), 10_000),
            (Duration::from_millis(u64::from(u32::MAX)), u32::MAX),
        ] {
            assert_eq!((at_least(span), wait(span)), (millis, Some(millis)), "{span:?}");
        }
        for span in [Duration::from_millis(1 << 32), Duration::from_secs(5_000_000), Duration::MAX] {
            assert_eq!((at_least(span), wait(span)), (u32::MAX, None), "{span:?}");
        }
    }
}
