//! Randomness that is the same on every machine.
//!
//! Integers only: the floating-point functions of different platforms need not agree to the last bit.

pub use conclave_algorithms::span::Draw;
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The numbers of the streams that a run draws from. No two are the same.
pub(crate) mod stream {
    /// Delays, losses and other faults by chance.
    pub const NETWORK: u64 = 1;
    /// When applications ask, and for how long they hold.
    pub const WORKLOAD: u64 = 2;
    /// The order of a ring.
    pub const RING: u64 = 3;
    /// The failures that provoke a mutant.
    pub const PROVOCATION: u64 = 4;
    /// How long processes take to handle a message.
    pub const PROCESSING: u64 = 5;
}

/// A stream of random numbers, fixed by its seed.
#[derive(Clone, Debug)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// The stream of a seed. Streams with different numbers under one seed are different, but for some seeds they begin in states
    /// that have words in common.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed ^ stream.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
    }
}

impl Draw for Rng {
    #[inline(always)]
    fn any(&mut self) -> u64 {
        self.0.next_u64()
    }
}

/// A probability, kept as a whole number so that it means the same everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chance {
    /// Out of 2^64; `u64::MAX` stands for "always".
    threshold: u64,
}

impl Chance {
    /// This many times in a million.
    ///
    /// # Panics
    /// If it is more than a million.
    #[must_use]
    pub fn per_million(millionths: u64) -> Self {
        assert!(millionths <= 1_000_000, "a probability is at most 1");
        if millionths == 1_000_000 {
            return Self { threshold: u64::MAX };
        }
        Self { threshold: ((u128::from(millionths) << 64) / 1_000_000) as u64 }
    }

    /// Whether it can happen at all.
    #[inline]
    #[must_use]
    pub fn is_possible(self) -> bool {
        self.threshold > 0
    }

    /// Whether it happens this time; draws nothing if it cannot.
    #[inline]
    pub fn happens(self, rng: &mut Rng) -> bool {
        self.is_possible() && (self.threshold == u64::MAX || rng.any() < self.threshold)
    }
}

/// `0.05`, `5%`.
impl core::str::FromStr for Chance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a probability; write 0.05 or 5%");
        let (digits, scale) = match text.strip_suffix('%') {
            Some(percent) => (percent, 10_000),
            None => (text, 1_000_000),
        };
        let value: f64 = digits.trim().parse().map_err(|_| wrong())?;
        let millionths = value * f64::from(scale);
        if !(0.0..=1_000_000.0).contains(&millionths) {
            return Err(format!("{text} is not a probability: it must lie between 0 and 1"));
        }
        Ok(Self::per_million((millionths + 0.5) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_numbers_have_the_right_mean_and_tail() {
        let mut rng = Rng::new(1, 0);
        let draws: Vec<u64> = (0..200_000).map(|_| rng.exponential(10_000)).collect();
        let mean = draws.iter().sum::<u64>() / draws.len() as u64;
        assert!((9_900..10_100).contains(&mean), "mean {mean}");
        // A share of e^-2 = 0.1353 lies above twice the mean.
        let tail = draws.iter().filter(|d| **d > 20_000).count();
        assert!((26_400..27_800).contains(&tail), "tail {tail}");
    }

    #[test]
    fn numbers_stay_in_their_range() {
        let mut rng = Rng::new(2, 0);
        assert!((0..10_000).all(|_| (5..=7).contains(&rng.between(5, 7))));
        assert!((0..10_000).all(|_| rng.below(3) < 3));
        assert_eq!(rng.between(9, 9), 9);
    }

    #[test]
    fn chances() {
        let mut rng = Rng::new(3, 0);
        let mut count = |text: &str| {
            let chance: Chance = text.parse().unwrap();
            (0..100_000).filter(|_| chance.happens(&mut rng)).count()
        };
        assert_eq!((count("0"), count("1"), count("100%")), (0, 100_000, 100_000));
        assert!((4_700..5_300).contains(&count("5%")));
        assert!((4_700..5_300).contains(&count("0.05")));
        for wrong in ["", "-1", "1.5", "101%", "x", "NaN", "inf"] {
            assert!(wrong.parse::<Chance>().is_err(), "{wrong}");
        }
    }
}
