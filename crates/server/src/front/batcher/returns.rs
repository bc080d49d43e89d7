//! Who is about to speak: clients that ask for one thing after the other ask again as soon as they are answered.
//!
//! A batch that left with the first of them would make all others wait for the one after, and that one would make the
//! first wait: two batches of half the size, each with its own write to disk and round to the other nodes.

use super::FEW;

/// After so many disappointments in a row the rests do not become longer.
const MOST_VAIN: u32 = 6;

/// Remembers how many were answered last, and whether such clients came back.
#[derive(Debug, Default)]
pub struct Returns {
    last: usize,
    vain: u32,
    rest: u32,
}

impl Returns {
    /// How many commands the next batch may have if all who were answered last come back, beside those that wait
    /// already; nothing if it is not worth a wait. A few need not wait for the batch before theirs anyway.
    pub fn expected(&mut self, waiting: usize) -> Option<usize> {
        if self.last < FEW {
            return None;
        }
        if self.rest > 0 {
            self.rest -= 1;
            return None;
        }
        Some(waiting + self.last)
    }

    /// How many had come when a wait was over, of so many who were expected. Where fewer than half of those who were
    /// answered come back there is no circle, and waiting only costs time: then it is left off for a while.
    pub fn came(&mut self, expected: usize, came: usize) {
        if expected.saturating_sub(came) <= self.last / 2 {
            self.vain = 0;
        } else {
            self.vain = (self.vain + 1).min(MOST_VAIN);
            self.rest = 1 << self.vain;
        }
    }

    /// So many left in one batch.
    pub fn left(&mut self, count: usize) {
        self.last = count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(count: usize) -> Returns {
        let mut returns = Returns::default();
        returns.left(count);
        returns
    }

    #[test]
    fn those_who_were_answered_are_expected_beside_those_who_wait() {
        assert_eq!(after(32).expected(0), Some(32));
        assert_eq!(after(32).expected(30), Some(62));
    }

    #[test]
    fn nobody_waits_for_a_few() {
        assert_eq!(Returns::default().expected(5), None);
        assert_eq!(after(FEW - 1).expected(5), None);
        assert_eq!(after(FEW).expected(5), Some(FEW + 5));
    }

    #[test]
    fn who_is_disappointed_rests_and_longer_each_time() {
        let mut returns = after(32);
        let mut rests = Vec::new();
        for _ in 0..8 {
            let expected = returns.expected(4).expect("it has rested");
            returns.came(expected, 10);
            rests.push((0..1000).take_while(|_| returns.expected(4).is_none()).count());
        }
        assert_eq!(rests, [2, 4, 8, 16, 32, 64, 64, 64]);
    }

    #[test]
    fn half_of_them_are_enough_to_wait_again() {
        let mut returns = after(32);
        returns.came(36, 10);
        while returns.expected(4).is_none() {}
        returns.came(36, 20);
        assert_eq!(returns.expected(4), Some(36));
        returns.came(36, 10);
        let rests = (0..1000).take_while(|_| returns.expected(4).is_none()).count();
        assert_eq!(rests, 2, "what was before is forgotten");
    }
}
