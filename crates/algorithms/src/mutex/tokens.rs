//! Counts the tokens of a lock, held and in flight.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::Epoch;

/// The tokens of one lock.
#[derive(Clone, Debug)]
pub(super) struct Tokens {
    /// Who has one, by place.
    held: Vec<Option<Epoch>>,
    /// Those in flight, by the serial number of the message.
    flying: BTreeMap<u64, Epoch>,
    /// Copies that the network made: whichever arrives first is the token.
    copies: BTreeMap<u64, u64>,
    /// How many there are of each epoch.
    counts: BTreeMap<Epoch, u64>,
}

impl Tokens {
    pub fn new(n: usize) -> Self {
        Self {
            held: vec![None; n],
            flying: BTreeMap::new(),
            copies: BTreeMap::new(),
            counts: BTreeMap::new(),
        }
    }

    /// A process has this token after it has moved, or none.
    #[inline]
    pub fn hold(&mut self, place: usize, token: Option<Epoch>) {
        let Some(held) = self.held.get_mut(place).filter(|held| **held != token) else { return };
        let before = core::mem::replace(held, token);
        self.uncount(before);
        if let Some(epoch) = token {
            *self.counts.entry(epoch).or_default() += 1;
        }
    }

    pub fn send(&mut self, serial: u64, epoch: Epoch) {
        self.flying.insert(serial, epoch);
        *self.counts.entry(epoch).or_default() += 1;
    }

    pub fn copy(&mut self, serial: u64, copy: u64) {
        if self.flying.contains_key(&serial) {
            self.copies.insert(copy, serial);
        }
    }

    pub fn arrive(&mut self, serial: u64) {
        let original = self.copies.remove(&serial).unwrap_or(serial);
        let flown = self.flying.remove(&original);
        self.uncount(flown);
    }

    /// One copy is lost; if there is another, the token is not.
    pub fn lose(&mut self, serial: u64) {
        if self.copies.remove(&serial).is_some() {
            return;
        }
        if let Some((copy, _)) = self.copies.iter().find(|(_, original)| **original == serial) {
            let copy = *copy;
            self.copies.remove(&copy);
            if let Some(epoch) = self.flying.remove(&serial) {
                self.flying.insert(copy, epoch);
            }
            return;
        }
        let flown = self.flying.remove(&serial);
        self.uncount(flown);
    }

    fn uncount(&mut self, epoch: Option<Epoch>) {
        let Some(epoch) = epoch else { return };
        if let Some(count) = self.counts.get_mut(&epoch) {
            *count -= 1;
            // The latest epoch is kept: that its token is gone is worth knowing.
            if *count == 0 && self.counts.keys().next_back() != Some(&epoch) {
                self.counts.remove(&epoch);
            }
        }
    }

    /// The latest epoch of which there ever was a token.
    pub fn epoch(&self) -> Option<Epoch> {
        self.counts.keys().next_back().copied()
    }

    /// How many tokens of the latest epoch there are, if there are too many.
    #[inline]
    pub fn surplus(&self) -> Option<(Epoch, u64)> {
        self.counts.last_key_value().map(|(epoch, count)| (*epoch, *count)).filter(|(_, count)| *count > 1)
    }

    /// Whether there is none of the latest epoch.
    pub fn is_lost(&self) -> bool {
        self.counts.last_key_value().is_none_or(|(_, count)| *count == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conclave_core::NodeId;

    #[test]
    fn a_token_is_held_or_on_its_way_but_not_both() {
        let mut tokens = Tokens::new(2);
        tokens.hold(0, Some(Epoch::FIRST));
        assert!(!tokens.is_lost() && tokens.surplus().is_none());
        tokens.send(7, Epoch::FIRST);
        assert_eq!(tokens.surplus(), Some((Epoch::FIRST, 2)));
        tokens.hold(0, None);
        assert!(tokens.surplus().is_none());
        tokens.lose(7);
        assert!(tokens.is_lost());
    }

    #[test]
    fn only_the_latest_epoch_counts() {
        let (mut tokens, next) = (Tokens::new(2), Epoch::FIRST.next(NodeId(2)));
        tokens.hold(0, Some(Epoch::FIRST));
        tokens.hold(1, Some(next));
        assert!(tokens.surplus().is_none() && !tokens.is_lost());
        tokens.hold(1, None);
        assert!(tokens.is_lost(), "an old one does not replace it");
    }

    #[test]
    fn of_two_copies_the_first_to_arrive_is_the_token() {
        let mut tokens = Tokens::new(1);
        tokens.send(1, Epoch::FIRST);
        tokens.copy(1, 2);
        tokens.arrive(2);
        tokens.hold(0, Some(Epoch::FIRST));
        tokens.arrive(1);
        assert!(tokens.surplus().is_none());
        tokens.send(3, Epoch::FIRST);
        tokens.hold(0, None);
        tokens.copy(3, 4);
        tokens.lose(3);
        assert!(!tokens.is_lost());
        tokens.lose(4);
        assert!(tokens.is_lost());
    }
}
