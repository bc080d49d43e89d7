//! Chance, from a seed.

use std::ops::RangeInclusive;
use std::time::Duration;

use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A source of chance. Everything that a world leaves open is decided by one of these, each begun from the world's seed.
pub struct Dice(Xoshiro256PlusPlus);

impl Dice {
    /// Dice for one purpose: those for different purposes of one seed have nothing in common.
    pub fn new(seed: u64, purpose: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    pub fn any(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.any() % (range.end() - range.start() + 1)
    }

    pub fn millis(&mut self, range: RangeInclusive<u64>) -> Duration {
        Duration::from_millis(self.within(range))
    }

    /// Whether something happens that does in so many of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.any() % 100 < percent
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.within(0..=from.len() as u64 - 1) as usize]
    }
}
