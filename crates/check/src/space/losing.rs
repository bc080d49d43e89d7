//! What a crash may lose of a channel.
//!
//! A process has an outbox per peer. On a channel that keeps its order, a crash loses a suffix of what is in flight. Where
//! messages overtake each other nobody knows which of them left first, and any of them may be lost.
//!
//! The ways to lose something are numbered; number 0 loses nothing. They are counted with what was in flight before the
//! step in which the process crashes, and how many messages it sent in that step.

use crate::model::Letter;

/// What is left of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// Of what was in flight before.
    pub old: Vec<Letter>,
    /// Of each message that was sent in the last step, whether it is left.
    pub new: Vec<bool>,
}

/// In how many ways a channel may lose something, nothing included.
pub(super) fn ways(fifo: bool, old: &[Letter], new: usize) -> usize {
    if fifo {
        return old.len() + new + 1;
    }
    let equals = old.chunk_by(|a, b| a == b).map(|equal| equal.len() + 1);
    let choices = equals.chain(core::iter::repeat_n(2, new));
    choices.fold(1, usize::saturating_mul)
}

/// What is left of a channel if it loses something in this way.
pub(super) fn keep(fifo: bool, old: &[Letter], new: usize, mut way: usize) -> Kept {
    if fifo {
        let lost_new = way.min(new);
        let left = old.len() - (way - lost_new);
        return Kept { old: old[..left].to_vec(), new: (0..new).map(|nth| nth < new - lost_new).collect() };
    }
    let mut digit = |base: usize| {
        let digit = way % base;
        way /= base;
        digit
    };
    let mut kept = Vec::new();
    for equal in old.chunk_by(|a, b| a == b) {
        let lost = digit(equal.len() + 1);
        kept.extend_from_slice(&equal[lost..]);
    }
    Kept { old: kept, new: (0..new).map(|_| digit(2) == 0).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(fifo: bool, old: &[u64], new: usize) -> Vec<(Vec<u64>, Vec<bool>)> {
        let old: Vec<_> = old.iter().map(|number| Letter(*number)).collect();
        let ways = 0..ways(fifo, &old, new);
        let kept = ways.map(|way| keep(fifo, &old, new, way));
        kept.map(|kept| (kept.old.iter().map(|letter| letter.0).collect(), kept.new)).collect()
    }

    #[test]
    fn a_channel_that_keeps_its_order_loses_a_suffix() {
        let found = all(true, &[7, 7, 5], 2);
        let expected: [(&[u64], &[bool]); 6] = [
            (&[7, 7, 5], &[true, true]),
            (&[7, 7, 5], &[true, false]),
            (&[7, 7, 5], &[false, false]),
            (&[7, 7], &[false, false]),
            (&[7], &[false, false]),
            (&[], &[false, false]),
        ];
        let expected = expected.map(|(old, new)| (old.to_vec(), new.to_vec()));
        assert_eq!(found, expected);
    }

    #[test]
    fn one_that_does_not_loses_any_of_its_messages() {
        let mut found = all(false, &[5, 7, 7], 1);
        assert_eq!(found[0], (vec![5, 7, 7], vec![true]));
        found.sort();
        found.dedup();
        assert_eq!(found.len(), 2 * 3 * 2);
        assert!(found.contains(&(vec![7], vec![false])) && found.contains(&(vec![], vec![true])));
    }
}
