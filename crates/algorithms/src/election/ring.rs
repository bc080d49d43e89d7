//! What all elections on a ring share: who comes next, where a lap ends, and which round it is.
//!
//! The ring is a list that everyone knows, so that a process can reach past a dead successor. It is the same list for
//! everyone, forever; only the opinions on who is down differ from process to process and from moment to moment.
//!
//! ```text
//!   p1 ──▶ p2 ──▶ p3 ─ ─ ✝p4 ─ ─ ▶ p5 ──▶ p1      p3 knows that p4 is down and sends to p5
//! ```
//!
//! **Laps.** Every message of these elections belongs to somebody and goes round once. It moves forward from place to
//! place and never past the place of its owner: if the owner is down, the lap ends at the last process before it. So
//! nothing circulates forever, whoever dies, and no process has to remember what it has seen.
//!
//! **Rounds.** An election that lost a message in a dead process is not repaired but replaced by one of the next round;
//! what is left of lower rounds counts for nothing. A process that comes back from a crash does not know the round. Its
//! first message carries none, and the first that knows one fills it in.
//!
//! **New successors.** Whoever gets a new successor, because the old one is down or because one came back between the
//! two, tells it who leads: the news may have died in the old one, or may never have come by. A process that hears of a
//! leader whom it would have beaten holds an election of its own.

use alloc::vec::Vec;

use conclave_core::{Boot, Counter, Incarnation, Members, NodeId, Protocol, Space};

/// The place of one process on the ring, and what it thinks of the others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ring {
    id: NodeId,
    place: u32,
    members: Members,
    /// Who is believed to be down, in ascending order: as long as they are many, not as the largest id is large.
    down: Vec<NodeId>,
    retired: bool,
}

impl Ring {
    pub fn new<P: Protocol>(boot: &Boot<'_, P>) -> Self {
        let place = boot.members.position(boot.id).expect("a process is one of the members");
        Self {
            id: boot.id,
            place: place as u32,
            members: boot.members.clone(),
            down: Vec::new(),
            retired: false,
        }
    }

    pub fn id(&self) -> NodeId {
        self.id
    }

    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Whether a message may come from there at all.
    pub fn is_peer(&self, id: NodeId) -> bool {
        id != self.id && self.members.contains(id)
    }

    /// Whether these are members, each once.
    pub fn is_list(&self, ids: impl IntoIterator<Item = NodeId>) -> bool {
        self.members.has_each_once(ids)
    }

    pub fn is_down(&self, id: NodeId) -> bool {
        self.down.binary_search(&id).is_ok()
    }

    /// Whether this process may be elected.
    pub fn is_eligible(&self) -> bool {
        !self.retired
    }

    /// From now on this process passes on what it gets and never wins.
    pub fn retire(&mut self) {
        self.retired = true;
    }

    /// The next process that is not down; nobody if this one is alone.
    pub fn successor(&self) -> Option<NodeId> {
        let n = self.members.len();
        let places = (self.place as usize + 1..n).chain(0..self.place as usize);
        places.map(|place| self.members.at(place)).find(|id| !self.is_down(*id))
    }

    /// To whom a message of this owner goes next: to the successor, unless its lap ends here because the owner is
    /// down and would be next.
    pub fn onward(&self, owner: NodeId) -> Option<NodeId> {
        self.successor().filter(|next| self.distance(*next) <= self.distance(owner))
    }

    /// Whether a process is down and this one is the last before it.
    pub fn is_before_dead(&self, id: NodeId) -> bool {
        id != self.id && self.is_down(id) && self.onward(id).is_none()
    }

    /// How many places from here to there, all the way round to itself.
    fn distance(&self, to: NodeId) -> usize {
        let (n, here) = (self.members.len(), self.place as usize);
        let there = self.members.position(to).unwrap_or(here);
        (there + n - here - 1) % n + 1
    }

    /// Passes over a process; says whether the successor is another one now.
    pub fn bypass(&mut self, peer: NodeId) -> bool {
        let before = self.successor();
        if let Err(place) = self.down.binary_search(&peer)
            && self.is_peer(peer)
        {
            self.down.insert(place, peer);
        }
        self.successor() != before
    }

    pub fn assert_invariants(&self) {
        assert!(self.members.position(self.id) == Some(self.place as usize), "we stand at our place");
        assert!(self.down.is_sorted_by(|one, next| one < next), "each of the dead is listed once, in order");
        assert!(self.down.iter().all(|peer| self.is_peer(*peer)), "only other members are taken for dead");
    }

    /// Takes a process back; says whether the successor is another one now.
    pub fn readmit(&mut self, peer: NodeId) -> bool {
        let before = self.successor();
        if let Ok(place) = self.down.binary_search(&peer) {
            self.down.remove(place);
        }
        self.successor() != before
    }
}

/// The number of the election that a process is in, or was in last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Round {
    number: u64,
    /// Not known: the process is back from a crash and has heard of no round yet.
    unknown: bool,
}

impl Round {
    pub fn new(life: Incarnation) -> Self {
        // Should all have forgotten the round, the next life still begins beyond what earlier lives can have reached.
        let lives = u64::from(life.0.saturating_sub(Incarnation::FIRST.0));
        Self { number: lives << 32, unknown: lives > 0 }
    }

    pub fn number(self) -> u64 {
        self.number
    }

    /// The round as a message carries it.
    pub fn known(self) -> Option<u64> {
        (!self.unknown).then_some(self.number)
    }

    /// An election of this process's own is the next one, if it knows which that is.
    pub fn advance(&mut self) {
        if !self.unknown {
            self.number = self.number.saturating_add(1);
        }
    }

    /// The election is won. If nobody knew the round, it has a number from now on.
    pub fn settle(&mut self) {
        if self.unknown {
            self.unknown = false;
            self.advance();
        }
    }

    /// Which round a message belongs to. One without a round asks for the next election after all that the receiver
    /// knows of; if that knows of none either, it stays without.
    pub fn of(self, message: Option<u64>) -> Option<u64> {
        message.or_else(|| self.known().map(|number| number.saturating_add(1)))
    }

    /// How a message of this round relates to ours.
    pub fn compare(self, message: Option<u64>) -> Age {
        match (message, self.known()) {
            (None, None) => Age::Current,
            (None, Some(_)) => Age::Old,
            (Some(_), None) => Age::New,
            (Some(theirs), Some(ours)) => match theirs.cmp(&ours) {
                core::cmp::Ordering::Less => Age::Old,
                core::cmp::Ordering::Equal => Age::Current,
                core::cmp::Ordering::Greater => Age::New,
            },
        }
    }

    /// Goes on to a later round.
    pub fn enter(&mut self, message: Option<u64>) {
        if let Some(number) = message {
            *self = Self { number, unknown: false };
        }
    }

    pub fn counter(&mut self) -> Counter<'_> {
        Counter::exact(ROUND, &mut self.number)
    }
}

/// A message's round against our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    /// Of an election that has been replaced.
    Old,
    Current,
    /// Of an election that replaces ours.
    New,
}

/// What rounds are counted in.
pub(super) const ROUND: Space = Space::shared("round");

/// The round of a message, for the visitor of counters.
pub(super) fn visit_round(round: &mut Option<u64>, visit: &mut dyn FnMut(Counter<'_>)) {
    if let Some(number) = round {
        visit(Counter::exact(ROUND, number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::ChangRoberts;
    use crate::election::trials::{config, ring};
    use conclave_core::Timing;

    fn at(id: u32, members: &Members) -> Ring {
        let config = config::<ChangRoberts>(&[], None, members);
        let (timing, life) = (Timing::default(), Incarnation::FIRST);
        Ring::new::<ChangRoberts>(&Boot {
            id: NodeId(id),
            members,
            config: &config,
            timing,
            life,
            saved: None,
        })
    }

    #[test]
    fn the_successor_is_the_next_who_is_not_down() {
        let mut ring = at(4, &ring(&[3, 5, 0, 1, 4, 6]));
        assert_eq!(ring.successor(), Some(NodeId(6)));
        assert!(ring.bypass(NodeId(6)));
        assert_eq!(ring.successor(), Some(NodeId(3)));
        assert!(!ring.bypass(NodeId(5)), "somebody else's successor");
        assert!(!ring.bypass(NodeId(9)), "a stranger");
        for id in [0, 1, 3] {
            ring.bypass(NodeId(id));
        }
        assert_eq!(ring.successor(), None);
        assert!(ring.readmit(NodeId(0)));
        assert_eq!(ring.successor(), Some(NodeId(0)));
    }

    /// A lap ends at its owner, or before the place of an owner who is down.
    #[test]
    fn a_lap_never_passes_its_owner() {
        let mut ring = at(2, &Members::numbered(5));
        ring.bypass(NodeId(3));
        let onward = [1, 2, 3, 4, 5].map(|owner| ring.onward(NodeId(owner)));
        let next = Some(NodeId(4));
        assert_eq!(onward, [next, next, None, next, next]);
        assert!(ring.is_before_dead(NodeId(3)));
        assert!(!ring.is_before_dead(NodeId(4)));
    }

    #[test]
    fn a_newcomer_is_told_the_round() {
        let mut newcomer = Round::new(Incarnation::FIRST.next());
        newcomer.advance();
        assert_eq!(newcomer.known(), None);
        let mut veteran = Round::new(Incarnation::FIRST);
        veteran.advance();
        assert_eq!(veteran.of(newcomer.known()), Some(2));
        assert_eq!(newcomer.compare(Some(2)), Age::New);
        newcomer.enter(Some(2));
        assert_eq!(newcomer.compare(Some(1)), Age::Old);
        assert_eq!(newcomer.compare(Some(2)), Age::Current);
    }

    /// A million of them fit into memory.
    #[test]
    fn a_process_is_small() {
        assert!(size_of::<ChangRoberts>() <= 128);
        assert_eq!(at(1, &Members::numbered(1_000_000)).down.capacity(), 0);
    }
}
