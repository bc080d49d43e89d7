//! Acknowledged messages on a ring: the setting `handoff=acked`.
//!
//! Plain, a message is sent to the successor, and that is all: only a failure detector tells that it was lost in a dead
//! process. Acked, no detector is needed. Whoever passes something on keeps a copy until the successor has acknowledged it. No
//! answer within a round trip means that the successor is dead: it is bypassed, and remembered, and the copies go to
//! the next one. The election goes on and is not begun again.
//!
//! ```text
//!   p4 ──●─── no Ack for T ──●────────────        p6 is dead
//!         ╲ Election         │╲ Election
//!   p6 ✗   ✗                 │ ╲
//!   p3 ────────────────────────●──────────        p4 never tries p6 again
//! ```
//!
//! A process acknowledges a message after it has passed it on. What it has acknowledged can be lost only if it dies before its
//! own successor has taken it; so whoever loses a successor that had taken something in this round begins the next round.
//! All others go on. In the same way only the last process before a dead leader calls for the election of another.
//!
//! **Assumes** reliable channels and a bound on delays. A successor that is only slow is bypassed, too; when its answer comes
//! after all, it is taken back. A process that comes back from a crash checks in with everyone (`CheckIn`).
//!
//! **Caveats**: acknowledgements cost as many messages again; they are counted as overhead, and so is `CheckIn`. A message that
//! is lost in a dead successor counts like any other. Without a failure detector nobody notices the death of a process that
//! nobody sends to.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use conclave_core::{After, Boot, Counter, Effects, Members, Message, NodeId, Protocol};
use serde::{Deserialize, Serialize};

use super::ring::Round;
use crate::{Formula, Setting, Values};

use super::Tally;

/// The setting that every ring election has.
pub const HANDOFF: Setting = Setting {
    key: "handoff",
    values: Values::Timed { words: &["plain", "acked"], timed: &["acked"] },
    default: "plain",
    unsafe_values: &[],
    help: "whether a message along the ring is just sent, or acknowledged: a successor that does not answer in time is \
           bypassed, and the election goes on",
};

/// The timer of ring elections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RingTimer {
    /// The successor has had the time to acknowledge what it was sent.
    Handoff,
}

/// What an acknowledgement says has arrived: on one lap and in one round a process is sent nothing twice before it has
/// answered, but for copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Receipt {
    /// Whose message it is.
    pub owner: NodeId,
    /// Its round, as the message had it.
    pub round: Option<u64>,
}

/// A message that is passed along a ring.
pub(super) trait Handed: Message {
    /// What its acknowledgement says; nothing if it is not acknowledged.
    fn receipt(&self) -> Option<Receipt>;
    /// The acknowledgement.
    fn ack(receipt: Receipt) -> Self;
    /// What a process says when it is back from a crash.
    fn check_in() -> Self;
    /// What it says to the hand-off and not to the election, if that is what it is for.
    fn signal(&self) -> Option<Signal>;
}

/// The messages of the hand-off in an enum that has them as `Ack` and `CheckIn`, beside those that are named.
macro_rules! signals {
    ($($election:ident),+) => {
        fn ack(receipt: $crate::election::handoff::Receipt) -> Self {
            Self::Ack(receipt)
        }

        fn check_in() -> Self {
            Self::CheckIn
        }

        fn signal(&self) -> Option<$crate::election::handoff::Signal> {
            match *self {
                Self::Ack(receipt) => Some($crate::election::handoff::Signal::Ack(receipt)),
                Self::CheckIn => Some($crate::election::handoff::Signal::CheckIn),
                $(Self::$election { .. })|+ => None,
            }
        }
    };
}
pub(super) use signals;

/// A message of the hand-off itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// Something has arrived.
    Ack(Receipt),
    /// A process is back from a crash.
    CheckIn,
}

/// What was sent along the ring and is not acknowledged yet; nothing where `handoff=plain`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Handoff<M>(Option<Box<Open<M>>>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Open<M> {
    /// How long the successor may take to answer.
    patience: Duration,
    /// Copies of what is not acknowledged, in the order of sending.
    copies: Vec<(NodeId, M)>,
    /// How many copies are kept.
    most: usize,
    /// The successor has acknowledged something of this round.
    taken: bool,
    /// Who was bypassed because it did not answer.
    silent: Vec<NodeId>,
}

impl<M: Handed> Handoff<M> {
    pub fn new<P: Protocol>(boot: &Boot<'_, P>, is_acked: bool) -> Self {
        let open = || Open {
            patience: boot.timing.answer_timeout(),
            copies: Vec::new(),
            most: 2 * boot.members.len() + 2,
            taken: false,
            silent: Vec::new(),
        };
        Self(is_acked.then(|| Box::new(open())))
    }

    /// Whether messages are acknowledged.
    pub fn is_acked(&self) -> bool {
        self.0.is_some()
    }

    /// Sends something along the ring.
    pub fn send<P>(&mut self, to: NodeId, message: M, out: &mut impl Effects<P>)
    where
        P: Protocol<Message = M, Timer = RingTimer>,
    {
        if let Some(open) = &mut self.0 {
            // Everyone has two messages on their way at most. Only a peer that breaks the protocol makes it more.
            if open.copies.len() == open.most {
                open.copies.remove(0);
            }
            if open.copies.is_empty() {
                out.arm(RingTimer::Handoff, After::exactly(open.patience));
            }
            open.copies.push((to, message.clone()));
        }
        out.send(to, message);
    }

    /// Acknowledges what was received, last of all: who crashes before that has perhaps not passed it on.
    pub fn acknowledge<P>(&self, to: NodeId, receipt: Option<Receipt>, out: &mut impl Effects<P>)
    where
        P: Protocol<Message = M, Timer = RingTimer>,
    {
        if let (Some(_), Some(receipt)) = (&self.0, receipt) {
            out.send(to, M::ack(receipt));
        }
    }

    /// Something has arrived. Says whether a process that was bypassed has shown that it is only slow.
    pub fn on_ack<P>(&mut self, from: NodeId, receipt: Receipt, out: &mut impl Effects<P>) -> bool
    where
        P: Protocol<Message = M, Timer = RingTimer>,
    {
        let Some(open) = &mut self.0 else { return false };
        let acknowledged =
            open.copies.iter().position(|(to, copy)| *to == from && copy.receipt() == Some(receipt));
        if let Some(place) = acknowledged {
            open.copies.remove(place);
            open.taken = true;
            open.wait(out);
        }
        acknowledged.is_none() && open.readmit(from)
    }

    /// No answer in time: who is silent, and what it was sent in this round.
    pub fn silence<P>(&mut self, round: Round, out: &mut impl Effects<P>) -> Option<(NodeId, Vec<M>)>
    where
        P: Protocol<Message = M, Timer = RingTimer>,
    {
        let open = self.0.as_mut()?;
        let (peer, _) = *open.copies.first()?;
        open.silent.push(peer);
        let unsent = open.take(peer, round);
        open.wait(out);
        Some((peer, unsent))
    }

    /// A process is known to be dead: what it was sent in this round and has not acknowledged.
    pub fn give_up<P>(&mut self, peer: NodeId, round: Round, out: &mut impl Effects<P>) -> Vec<M>
    where
        P: Protocol<Message = M, Timer = RingTimer>,
    {
        let Some(open) = &mut self.0 else { return Vec::new() };
        open.readmit(peer);
        let waited = open.copies.len();
        let unsent = open.take(peer, round);
        if open.copies.len() < waited {
            open.wait(out);
        }
        unsent
    }

    /// Whether the successor has taken something of this round, which may have died with it.
    pub fn has_taken(&self) -> bool {
        self.0.as_ref().is_some_and(|open| open.taken)
    }

    /// There is another successor, or another round.
    pub fn forget_taken(&mut self) {
        if let Some(open) = &mut self.0 {
            open.taken = false;
        }
    }

    pub fn visit_counters(&mut self, from: NodeId, members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        for (_, copy) in self.0.iter_mut().flat_map(|open| &mut open.copies) {
            copy.visit_counters(from, members, visit);
        }
    }

    pub fn assert_invariants(&self, id: NodeId) {
        if let Some(open) = &self.0 {
            assert!(open.copies.iter().all(|(to, _)| *to != id), "nobody sends to itself");
            assert!(
                open.copies.iter().all(|(_, copy)| copy.receipt().is_some()),
                "a copy is kept of what is acknowledged"
            );
        }
    }
}

impl<M: Handed> Open<M> {
    /// The rest has all the time again, since the last answer.
    fn wait<P>(&self, out: &mut impl Effects<P>)
    where
        P: Protocol<Message = M, Timer = RingTimer>,
    {
        if self.copies.is_empty() {
            out.disarm(RingTimer::Handoff);
        } else {
            out.arm(RingTimer::Handoff, After::exactly(self.patience));
        }
    }

    /// Takes out all that was sent to a process; what belongs to another round than ours is of no use any more.
    fn take(&mut self, peer: NodeId, round: Round) -> Vec<M> {
        let taken = self.copies.extract_if(.., |(to, _)| *to == peer);
        let ours = |copy: &M| copy.receipt().is_some_and(|receipt| receipt.round == round.known());
        taken.map(|(_, copy)| copy).filter(ours).collect()
    }

    fn readmit(&mut self, peer: NodeId) -> bool {
        let before = self.silent.len();
        self.silent.retain(|silent| *silent != peer);
        self.silent.len() < before
    }
}

/// The formula of an election in which the dead are found by trying them: each of them costs a message at most for each
/// that is under way.
pub(super) fn with_lost_tries(
    formula: Formula,
    is_acked: bool,
    tally: &Tally<'_>,
    under_way: u64,
) -> Formula {
    let lost = tally.absent.len() as u64 * under_way;
    if !is_acked || lost == 0 {
        return formula;
    }
    Formula { high: formula.high.map(|high| high + lost), ..formula }
}
