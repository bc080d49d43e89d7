//! The two roles of a ballot: single-decree Paxos, to be embedded.
//!
//! Lamport: *The part-time parliament*, ACM TOCS 16(2), 1998. A value is chosen when a majority of acceptors has accepted it
//! in one ballot. Whoever wants to propose first has a majority promise to take part in no earlier ballot, and learns what
//! they have accepted: the value of the latest such ballot is the only one that it may propose.
//!
//! Here stands what must be remembered and compared; messages, members and time belong to the protocol around it. The
//! acceptor is kept on stable storage before any answer leaves.

use alloc::collections::BTreeSet;

use conclave_core::NodeId;
use serde::{Deserialize, Serialize};

use crate::mutex::Epoch;

/// Ballots are numbered like epochs: by a counter, and by who began them.
pub type Number = Epoch;

/// Who promises and accepts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Acceptor<V> {
    /// The latest ballot that it takes part in.
    pub promised: Number,
    /// What it has accepted last, and in which ballot.
    pub accepted: Option<(Number, V)>,
}

impl<V> Default for Acceptor<V> {
    fn default() -> Self {
        Self { promised: Number::FIRST, accepted: None }
    }
}

impl<V> Acceptor<V> {
    /// Promises to take part in no earlier ballot; says no if it has promised a later one, or this one before.
    pub fn promise(&mut self, ballot: Number) -> bool {
        let later = ballot > self.promised;
        if later {
            self.promised = ballot;
        }
        later
    }

    /// Accepts a value; says no if it has promised a later ballot.
    pub fn accept(&mut self, ballot: Number, value: V) -> bool {
        let current = ballot >= self.promised;
        if current {
            self.promised = ballot;
            self.accepted = Some((ballot, value));
        }
        current
    }
}

/// Who proposes, once enough have promised.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proposal<V> {
    /// What is proposed.
    pub value: V,
    /// Who has accepted it.
    accepted_by: BTreeSet<NodeId>,
}

impl<V> Proposal<V> {
    /// Proposes what was accepted in the latest ballot of which a promise tells, else a value of one's own.
    pub fn new(promises: impl IntoIterator<Item = (Number, V)>, own: impl FnOnce() -> V) -> Self {
        let latest = promises.into_iter().max_by_key(|(ballot, _)| *ballot);
        Self { value: latest.map_or_else(own, |(_, value)| value), accepted_by: BTreeSet::new() }
    }

    /// Somebody has accepted; says whether the value is now chosen by a majority of these acceptors.
    pub fn accepted(&mut self, by: NodeId, acceptors: &BTreeSet<NodeId>) -> bool {
        self.accepted_by.insert(by);
        is_majority(&self.accepted_by, acceptors)
    }

    /// Who of these acceptors has not accepted.
    pub fn missing(&self, acceptors: &BTreeSet<NodeId>) -> BTreeSet<NodeId> {
        acceptors.difference(&self.accepted_by).copied().collect()
    }
}

/// Whether more than half of `all` are among `some`.
pub fn is_majority(some: &BTreeSet<NodeId>, all: &BTreeSet<NodeId>) -> bool {
    2 * some.intersection(all).count() > all.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ballot(number: u64, creator: u32) -> Number {
        Number { number, creator: NodeId(creator) }
    }

    /// One of three has accepted x; a later proposer that hears of it must propose x, one that does not is free.
    #[test]
    fn book_tv_p2_what_may_have_been_chosen_is_proposed_again() {
        let mut acceptors: [Acceptor<&str>; 3] = Default::default();
        assert!(acceptors[0].promise(ballot(1, 1)) && acceptors[0].accept(ballot(1, 1), "x"));
        let later = ballot(2, 2);
        let heard = |acceptor: &mut Acceptor<&'static str>| {
            assert!(acceptor.promise(later));
            acceptor.accepted
        };
        let told: [_; 2] = [heard(&mut acceptors[0]), heard(&mut acceptors[1])];
        assert_eq!(Proposal::new(told.into_iter().flatten(), || "y").value, "x");
        let told = heard(&mut acceptors[2]);
        assert_eq!(Proposal::new(told, || "y").value, "y");
        assert!(!acceptors[0].accept(ballot(1, 1), "z"), "a promise binds");
    }

    #[test]
    fn a_majority_chooses() {
        let all: BTreeSet<_> = (1..=4).map(NodeId).collect();
        let mut proposal = Proposal::new([], || 7);
        assert!(!proposal.accepted(NodeId(1), &all) && !proposal.accepted(NodeId(2), &all));
        assert!(!proposal.accepted(NodeId(2), &all) && !proposal.accepted(NodeId(9), &all));
        assert!(proposal.accepted(NodeId(4), &all));
    }
}
