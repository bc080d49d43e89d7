//! Messages that are too long for one.
//!
//! What a report or a roll says grows with the locks of which somebody wants something, and a message has to fit a frame. One
//! that lists more than a few thousand travels in pieces. Each piece is such a message by itself, with all that does not grow
//! and a part of the list; whoever has all of them puts the lists together. Pieces may come in any order.

use alloc::collections::BTreeMap;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use conclave_core::{Effects, NodeId};
use serde::{Deserialize, Serialize};

use super::{Assembly, AssemblyMessage, GroupRoll, Key, Msg, Report, Standings};
use crate::mutex::{Epoch, Mutex};

/// So many locks are listed in one message: with the longest of names, half of what fits a frame.
pub(super) const IN_ONE: usize = 1_536;
/// No honest message has more pieces.
const MOST_PIECES: u32 = 4_096;
/// So many messages of one sender may be incomplete: one of each kind, and those of the call after it.
const MOST_INCOMPLETE: usize = 6;

/// A message that lists locks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Cargo<K: Key> {
    /// [`AssemblyMessage::Report`].
    Report {
        /// The gathering that this answers.
        ballot: Epoch,
        /// How the sender stands.
        report: Report<K>,
    },
    /// [`AssemblyMessage::Accept`].
    Accept {
        /// The gathering that it comes from.
        ballot: Epoch,
        /// The roll.
        roll: GroupRoll<K>,
    },
    /// [`AssemblyMessage::Install`].
    Install {
        /// The gathering that it comes from.
        ballot: Epoch,
        /// The roll.
        roll: GroupRoll<K>,
        /// Who has left the group.
        left: BTreeSet<NodeId>,
    },
}

impl<K: Key> Cargo<K> {
    /// The message.
    pub(super) fn whole<M>(self) -> AssemblyMessage<M, K> {
        match self {
            Self::Report { ballot, report } => Msg::Report { ballot, report },
            Self::Accept { ballot, roll } => Msg::Accept { ballot, roll },
            Self::Install { ballot, roll, left } => Msg::Install { ballot, roll, left },
        }
    }

    /// Which of the messages of its sender it is a part of.
    fn kind(&self) -> (Epoch, u8) {
        match self {
            Self::Report { ballot, .. } => (*ballot, 0),
            Self::Accept { ballot, .. } => (*ballot, 1),
            Self::Install { ballot, .. } => (*ballot, 2),
        }
    }

    /// Its lists, always in the same order.
    fn lists(&mut self) -> Vec<&mut Standings<K>> {
        fn of_roll<K: Key>(roll: &mut GroupRoll<K>) -> impl Iterator<Item = &mut Standings<K>> {
            roll.standings.iter_mut().map(|(_, standings)| standings)
        }
        match self {
            Self::Report { report, .. } => {
                let accepted = report.accepted.iter_mut().flat_map(|(_, roll)| of_roll(roll));
                core::iter::once(&mut report.standings).chain(accepted).collect()
            }
            Self::Accept { roll, .. } | Self::Install { roll, .. } => of_roll(roll).collect(),
        }
    }

    /// In pieces that list no more than so many locks each; one piece if that is enough.
    fn cut(mut self, in_one: usize) -> Vec<Self> {
        if self.lists().iter().map(|list| list.len()).sum::<usize>() <= in_one {
            return vec![self];
        }
        let mut rest: Vec<_> = self.lists().into_iter().map(core::mem::take).collect();
        let (empty, mut pieces) = (self, Vec::new());
        while rest.iter().any(|list| !list.is_empty()) {
            let mut piece = empty.clone();
            let mut room = in_one;
            for (list, rest) in piece.lists().into_iter().zip(&mut rest) {
                let later = rest.split_off(room);
                *list = core::mem::replace(rest, later);
                room -= list.len();
            }
            pieces.push(piece);
        }
        pieces
    }

    /// Puts the lists of another piece of the same message to one's own.
    fn join(&mut self, mut other: Self) {
        for (list, more) in self.lists().into_iter().zip(other.lists()) {
            list.extend(core::mem::take(more));
        }
    }
}

/// The pieces that have arrived of one message, by their place.
type Arrived<K> = BTreeMap<u32, Cargo<K>>;

/// What has arrived of messages that came in pieces: by sender, and by epoch and kind of the message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pieces<K: Key>(BTreeMap<NodeId, BTreeMap<(Epoch, u8), Arrived<K>>>);

impl<K: Key> Default for Pieces<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Key> Pieces<K> {
    /// One more piece; gives the message if it was the last.
    pub fn add(
        &mut self,
        from: NodeId,
        place: u32,
        of: u32,
        cargo: Cargo<K>,
    ) -> Result<Option<Cargo<K>>, &'static str> {
        if place >= of || of > MOST_PIECES {
            return Err("a message has no more pieces than there are, and not too many");
        }
        let kind = cargo.kind();
        let incomplete = self.0.entry(from).or_default();
        let pieces = incomplete.entry(kind).or_default();
        pieces.insert(place, cargo);
        if pieces.len() < of as usize {
            // Of a call that was given up, some pieces never come.
            if incomplete.len() > MOST_INCOMPLETE {
                incomplete.pop_first();
            }
            return Ok(None);
        }
        let pieces = incomplete.remove(&kind).unwrap_or_default();
        if incomplete.is_empty() {
            self.0.remove(&from);
        }
        let mut pieces = pieces.into_values();
        let mut whole = pieces.next();
        if let Some(whole) = &mut whole {
            pieces.for_each(|piece| whole.join(piece));
        }
        Ok(whole)
    }

    /// A life of a peer has ended: the rest of what it was saying does not come.
    pub fn forget(&mut self, from: NodeId) {
        self.0.remove(&from);
    }
}

impl<A: Mutex, K: Key> Assembly<A, K> {
    /// Sends a message, in pieces if it is too long.
    pub(super) fn send_whole(
        &self,
        to: impl IntoIterator<Item = NodeId>,
        cargo: Cargo<K>,
        out: &mut impl Effects<Self>,
    ) {
        let mut pieces = cargo.cut(IN_ONE);
        let of = u32::try_from(pieces.len()).unwrap_or(u32::MAX);
        let messages: Vec<_> = match pieces.pop() {
            Some(only) if of == 1 => vec![only.whole()],
            last => {
                let places = pieces.into_iter().chain(last).zip(0..);
                places.map(|(cargo, place)| Msg::Piece { place, of, cargo }).collect()
            }
        };
        for to in to {
            messages.iter().for_each(|message| out.send(to, message.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Name;
    use crate::mutex::Standing;
    use alloc::collections::BTreeSet;
    use conclave_core::{LamportClock, Stamp};

    fn install(lists: &[usize]) -> Cargo<Name> {
        let standings = lists.iter().zip(1..).map(|(len, id)| {
            let mut standings = Standings::default();
            for lock in 0..*len {
                let since = Stamp { time: lock as u64, process: NodeId(id) };
                standings.set(&Name::numbered(lock), Standing::Waiting { since, queued: false });
            }
            (NodeId(id), standings)
        });
        let ballot = Epoch::FIRST.next(NodeId(1));
        let (clock, standings) = (LamportClock::default(), standings.collect());
        let roll = GroupRoll { epoch: ballot, convener: NodeId(1), standings, clock };
        Cargo::Install { ballot, roll, left: BTreeSet::new() }
    }

    /// However the lists are long, and in whichever order the pieces come: they make the message that was cut.
    #[test]
    fn pieces_make_the_whole_in_any_order() {
        for (lists, expected) in [
            (&[0, 0, 0][..], 1),
            (&[5, 0, 5], 1),
            (&[11, 0, 0], 2),
            (&[4, 7, 9], 2),
            (&[0, 30, 1], 4),
            (&[25, 25, 25], 8),
        ] {
            let message = install(lists);
            let cut = message.clone().cut(10);
            assert_eq!(cut.len(), expected, "{lists:?}");
            assert!(
                cut.iter()
                    .all(|piece| piece.clone().lists().iter().map(|list| list.len()).sum::<usize>() <= 10)
            );
            if expected == 1 {
                continue;
            }
            for start in 0..cut.len() {
                let mut pieces = Pieces::default();
                let of = cut.len() as u32;
                for step in 0..cut.len() {
                    let place = (start + cut.len() - step) % cut.len();
                    let whole = pieces.add(NodeId(2), place as u32, of, cut[place].clone());
                    assert_eq!(whole, Ok((step + 1 == cut.len()).then(|| message.clone())));
                }
                assert_eq!(pieces, Pieces::default(), "nothing is kept of what is complete");
            }
        }
    }

    #[test]
    fn what_never_becomes_whole_is_let_go() {
        let mut pieces = Pieces::<Name>::default();
        for number in 0..100 {
            let ballot = Epoch { number, creator: NodeId(2) };
            let Cargo::Install { roll, left, .. } = install(&[1]) else { unreachable!("it is one") };
            assert_eq!(pieces.add(NodeId(2), 0, 2, Cargo::Install { ballot, roll, left }), Ok(None));
        }
        assert_eq!(pieces.0[&NodeId(2)].len(), MOST_INCOMPLETE);
        pieces.forget(NodeId(2));
        assert_eq!(pieces, Pieces::default());
        assert!(pieces.add(NodeId(2), 2, 2, install(&[1])).is_err());
        assert!(pieces.add(NodeId(2), 0, MOST_PIECES + 1, install(&[1])).is_err());
    }

    /// With the longest names there are, a piece fits the frame that the network allows.
    #[test]
    fn a_piece_fits_a_frame() {
        let mut standings = Standings::default();
        for lock in 0..IN_ONE {
            let name = alloc::format!("{lock:0>255}");
            let since = Stamp { time: u64::MAX, process: NodeId(u32::MAX) };
            let name = Name::new(&name).expect("a good name");
            standings.set(&name, Standing::Waiting { since, queued: true });
        }
        let bytes = postcard::to_allocvec(&standings).expect("plain data");
        assert!(bytes.len() < 512 << 10, "{}", bytes.len());
    }
}
