//! Durations, counted in buckets that grow with them: exact below 128 ns, then 64 buckets for every doubling, so that a
//! percentile is off by less than one in a hundred and counting costs a shift and an addition.

use std::time::Duration;

/// Buckets for every doubling.
const STEPS: u64 = 64;
/// Everything from here on (18 minutes) counts as this much; the maximum is kept exactly.
const LONGEST_NS: u64 = (1 << 40) - 1;

/// How often durations of each size were seen.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; bucket(LONGEST_NS) + 1], total: 0, max: Duration::ZERO }
    }
}

impl Histogram {
    /// Counts one.
    pub fn record(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).min(LONGEST_NS);
        self.counts[bucket(nanos)] += 1;
        self.total += 1;
        self.max = self.max.max(duration);
    }

    /// How many were counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The longest.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// The duration that the given share of all, from 0 to 1, does not exceed; zero when nothing was counted.
    pub fn quantile(&self, share: f64) -> Duration {
        // The smallest rank that covers the share; a rank is exact in a float far beyond any count reached here.
        let rank = (share * self.total as f64).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= rank {
                return Duration::from_nanos(middle(bucket)).min(self.max);
            }
        }
        Duration::ZERO
    }
}

/// The bucket of a number of nanoseconds.
fn bucket(nanos: u64) -> usize {
    let shift = doublings(nanos);
    (shift * STEPS + (nanos >> shift)) as usize
}

/// How many low bits a bucket ignores: none for the numbers that have a bucket each.
fn doublings(nanos: u64) -> u64 {
    u64::from(nanos.max(1).ilog2()).saturating_sub(u64::from(STEPS.ilog2()))
}

/// The middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket / STEPS).saturating_sub(1);
    let low = (bucket - shift * STEPS) << shift;
    low + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_near_the_middle_of_its_bucket() {
        let mut last = 0;
        for nanos in (0..2000).chain((11..40).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 7]))
        {
            let (found, middle) = (bucket(nanos), middle(bucket(nanos)));
            assert!(found >= last, "buckets are in order: {nanos}");
            assert!(middle.abs_diff(nanos) * 100 <= nanos, "{nanos} counts as {middle}");
            last = found;
        }
    }

    #[test]
    fn quantiles_agree_with_the_sorted_durations() {
        let mut histogram = Histogram::default();
        for micros in 1..=1000 {
            histogram.record(Duration::from_micros(micros));
        }
        for (share, exact) in [(0.5, 500), (0.9, 900), (0.99, 990), (1.0, 1000)] {
            let found = histogram.quantile(share).as_nanos().abs_diff(exact * 1000);
            assert!(found * 100 <= exact * 1000, "{share} is off by {found} ns");
        }
        assert_eq!((histogram.total(), histogram.max()), (1000, Duration::from_millis(1)));
    }

    #[test]
    fn nothing_and_forever_are_harmless() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), Duration::ZERO);
        histogram.record(Duration::MAX);
        assert_eq!(histogram.max(), Duration::MAX);
        assert!(histogram.quantile(0.5) > Duration::from_secs(1000));
    }
}
