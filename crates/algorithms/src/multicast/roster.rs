//! Who is in the group, as one process knows it.
//!
//! A process that joins tells all others, and each answers how much it has sent so far. When all have answered, everyone
//! sends to the newcomer, and the newcomer knows which posts will never reach it: those that were sent before.
//!
//! ```text
//!   p3 ── Join ──▶ all        p3 holds back what it receives
//!   p3 ◀─ Welcome{sent} ──    from now on p3 gets what this process sends
//!   p3 has all answers: it is a member
//!   p3 ── Leave ─▶ all        p3 delivers nothing more
//! ```
//!
//! **Caveats**: who joins waits for the answer of everyone who is up, so a failure detector has to tell of those who are
//! not. Nobody is removed for being dead: what is sent to it is lost. A process that comes back knows nothing of the group, is
//! not in it, and sends to all; who is no member does not deliver.

use alloc::collections::BTreeMap;

use conclave_core::{Boot, Counter, Incarnation, Members, NodeId, NodeSet, Protocol};
use serde::{Deserialize, Serialize};

use super::{Id, Source};

/// What processes say about the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Word {
    /// I want to be a member.
    Join {
        /// Which life of mine this is, and how often I have changed my mind in it.
        turn: Turn,
    },
    /// I am a member no longer.
    Leave {
        /// The same.
        turn: Turn,
    },
    /// From now on you get what I send.
    Welcome {
        /// The turn that is answered.
        turn: Turn,
        /// Which life of mine this is.
        life: Incarnation,
        /// How much I have sent before.
        sent: u64,
    },
}

impl Word {
    /// The name under which it is counted.
    pub fn kind(&self) -> &'static str {
        kinds!(self, Join, Leave, Welcome)
    }
}

/// Later words of a process replace earlier ones, in whatever order they arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Turn(Incarnation, u64);

/// What one process knows of the group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Roster {
    id: NodeId,
    life: Incarnation,
    members: Members,
    seat: Seat,
    /// How often we joined or left.
    turns: u64,
    /// What each other said last, unless that is nothing.
    heard: BTreeMap<NodeId, (Turn, bool)>,
    /// Whether those who said nothing are in the group.
    is_open: bool,
    /// How much we have sent.
    sent: u64,
    /// For each process, ourselves too, the life from which on we get what it sends; the first, unless we joined.
    since: BTreeMap<NodeId, Incarnation>,
    down: NodeSet,
}

/// Where a process stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Seat {
    Outside,
    /// Who has not answered yet.
    Joining(NodeSet),
    Inside,
}

impl Roster {
    /// A roster with everyone in it, or nobody.
    pub fn new<P: Protocol>(boot: &Boot<'_, P>, everyone: bool) -> Self {
        let first = boot.life == Incarnation::FIRST;
        Self {
            id: boot.id,
            life: boot.life,
            members: boot.members.clone(),
            seat: if everyone && first { Seat::Inside } else { Seat::Outside },
            turns: 0,
            heard: BTreeMap::new(),
            is_open: everyone || !first,
            sent: 0,
            since: BTreeMap::new(),
            down: NodeSet::new(),
        }
    }

    /// Whether this process delivers.
    pub fn is_inside(&self) -> bool {
        self.seat == Seat::Inside
    }

    /// Whether this process is about to become a member.
    pub fn is_joining(&self) -> bool {
        matches!(self.seat, Seat::Joining(_))
    }

    /// The other members, as far as is known here.
    pub fn others(&self) -> impl Iterator<Item = NodeId> + '_ {
        let is_in = |id: &NodeId| self.heard.get(id).map_or(self.is_open, |(_, is_in)| *is_in);
        self.members.others(self.id).filter(is_in)
    }

    /// Whether a process is known to be dead.
    pub fn is_down(&self, id: NodeId) -> bool {
        self.down.contains(id)
    }

    /// The present life of this process.
    pub fn source(&self) -> Source {
        Source { process: self.id, life: self.life }
    }

    /// The name of the next post of this process.
    pub fn name(&mut self) -> Id {
        self.sent += 1;
        self.source().post(self.sent)
    }

    /// How many posts this process has named, for the visitor of counters.
    pub fn counter(&mut self) -> Counter<'_> {
        self.source().counter(&mut self.sent)
    }

    /// The last post of this process; number 0 if there is none.
    pub fn last(&self) -> Id {
        self.source().post(self.sent)
    }

    /// Whether all of this life was sent before we joined.
    pub fn is_past(&self, source: Source) -> bool {
        self.since.get(&source.process).is_some_and(|life| source.life < *life)
    }

    /// Begins to join. Nothing happens if we are in.
    pub fn join(&mut self, mut say: impl FnMut(NodeId, Word)) {
        if self.seat != Seat::Outside {
            return;
        }
        let turn = self.turn();
        let missing: NodeSet =
            self.members.others(self.id).filter(|other| !self.down.contains(*other)).collect();
        for down in self.down.iter() {
            self.since.insert(down, Incarnation(u32::MAX));
        }
        // Nor does anybody send us what an earlier life of ours has sent.
        self.since.insert(self.id, self.life);
        self.members.others(self.id).for_each(|other| say(other, Word::Join { turn }));
        self.seat = Seat::Joining(missing);
    }

    /// Leaves. Nothing happens if we are out.
    pub fn leave(&mut self, mut say: impl FnMut(NodeId, Word)) {
        if self.seat == Seat::Outside {
            return;
        }
        let turn = self.turn();
        self.members.others(self.id).for_each(|other| say(other, Word::Leave { turn }));
        self.seat = Seat::Outside;
    }

    /// Somebody speaks of the group. Of an answer to our joining, gives what its sender has sent before.
    pub fn hear(&mut self, from: NodeId, word: Word, mut say: impl FnMut(NodeId, Word)) -> Option<Id> {
        match word {
            Word::Join { turn } => {
                self.note(from, turn, true);
                say(from, Word::Welcome { turn, life: self.life, sent: self.sent });
                None
            }
            Word::Leave { turn } => {
                self.note(from, turn, false);
                None
            }
            Word::Welcome { turn, life, sent } => {
                let expected = Turn(self.life, self.turns);
                let Seat::Joining(missing) = &mut self.seat else { return None };
                if turn != expected || !missing.remove(from) {
                    return None;
                }
                self.since.insert(from, life);
                Some(Source { process: from, life }.post(sent))
            }
        }
    }

    /// Becomes a member if everybody has answered; says whether that has happened just now.
    pub fn maybe_enter(&mut self) -> bool {
        let is_ready = matches!(&self.seat, Seat::Joining(missing) if missing.is_empty());
        if is_ready {
            self.seat = Seat::Inside;
        }
        is_ready
    }

    /// Somebody is dead: it will not answer, and of this life nothing more is for us.
    pub fn on_peer_down(&mut self, peer: NodeId, life: Incarnation) {
        self.down.insert(peer);
        if let Seat::Joining(missing) = &mut self.seat
            && missing.remove(peer)
        {
            self.since.insert(peer, Incarnation(life.0.saturating_add(1)));
        }
    }

    /// Somebody is back, or was never gone.
    pub fn on_peer_up(&mut self, peer: NodeId, life: Incarnation) {
        self.down.remove(peer);
        if self.since.get(&peer) == Some(&Incarnation(u32::MAX)) {
            self.since.insert(peer, life);
        }
    }

    fn turn(&mut self) -> Turn {
        self.turns += 1;
        Turn(self.life, self.turns)
    }

    fn note(&mut self, from: NodeId, turn: Turn, is_in: bool) {
        if self.heard.get(&from).is_none_or(|(known, _)| *known < turn) {
            self.heard.insert(from, (turn, is_in));
        }
    }
}
