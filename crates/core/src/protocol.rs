//! [`Protocol`], what goes into it, and how it is brought to life.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{Debug, Display, Formatter};
use core::hash::Hash;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Counter, Effects, Lease, Members, NodeId, Phase};

/// One process of a distributed algorithm: a plain value that turns inputs into effects.
///
/// # The contract
///
/// The driver
/// - calls [`boot`](Protocol::boot) once per life of the process, then hands it [`Input::Start`] before any other
///   input, then inputs one at a time;
/// - carries out the effects of one input in the order in which they were pushed; a [`Save`](crate::Effect::Save) is
///   durable before any later effect can be seen outside;
/// - delivers each message at most once unless told to duplicate, in the channel order that the algorithm declares;
/// - tells a process [`Input::PeerDown`] of a peer's old life before it hands it anything of the new one.
///
/// The algorithm
/// - never fails: bytes are decoded before they get here, a stale or duplicate message is ordinary input, and a peer
///   that breaks the protocol is an effect ([`Reject`](crate::Effect::Reject));
/// - never sends to itself;
/// - panics only when its own invariant is broken, which no input can bring about; see
///   [`assert_invariants`](Protocol::assert_invariants);
/// - keeps everything that it knows in `self`: equal values behave equally, so that the checker can compare them.
pub trait Protocol: Clone + Eq + Hash + Debug + Send + Sync + 'static {
    /// What belongs to this algorithm alone: variants, quorums, the shape of a tree.
    type Config: Clone + Eq + Hash + Debug + Send + Sync + 'static;
    /// What the processes say to each other.
    type Message: Message;
    /// What the local application may ask.
    type Request: Clone + Eq + Hash + Debug + Send + Sync + 'static;
    /// What the local application is told.
    type Event: Clone + Eq + Hash + Debug + Send + Sync + 'static;
    /// The names of the timers; at most one is armed per name.
    type Timer: Clone + Ord + Hash + Debug + Send + Sync + 'static;
    /// What survives a crash; `()` for most.
    type Durable: Clone + Eq + Hash + Debug + Serialize + Send + Sync + 'static;

    /// Makes a process that has handled nothing yet.
    fn boot(boot: Boot<'_, Self>) -> Self;

    /// Handles one input.
    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>);

    /// What the process is doing, in the words of its family.
    fn phase(&self) -> Phase;

    /// Whether this process reads its clock ([`Effects::now`]): then what the clock shows belongs to the record of a run.
    fn reads_clock(&self) -> bool {
        false
    }

    /// Visits what this process is inside of, by name, with the time until which it may stay there. False if nothing that it
    /// holds runs out: then nothing is visited.
    fn visit_leases(&self, _visit: &mut dyn FnMut(&str, Lease)) -> bool {
        false
    }

    /// How this process sees the group that it belongs to; nothing if its algorithm keeps no roll.
    fn group(&self) -> Option<Group> {
        None
    }

    /// Visits every number of the state that only grows, so that the checker can shift it back.
    fn visit_counters(&mut self, _visit: &mut dyn FnMut(Counter<'_>)) {}

    /// Asserts what must be true of this process between two inputs.
    ///
    /// Each assertion is a sentence about the state of one process; what must be true of several is for the properties.
    /// No input can make one fail, whoever sent it. Mutants are exempt: they are for the properties to catch.
    ///
    /// Simulator and checker call it after every step in tests and on request, and report a failure as the violation
    /// `INV`.
    ///
    /// # Panics
    /// If an assertion does not hold.
    fn assert_invariants(&self) {}
}

/// How a process sees the group that it belongs to, for whoever operates it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The epoch that it is in, as it is written in fences.
    pub epoch: String,
    /// Who belongs to that, in ring order.
    pub roll: Vec<NodeId>,
    /// Whether it takes part itself: who was left out, or has come back just now, does not.
    pub member: bool,
    /// Who leads, if it knows of anybody alive.
    pub leader: Option<NodeId>,
    /// Who calls the next roll, while that is called: nobody is let in meanwhile.
    pub called_by: Option<NodeId>,
}

/// What one process says to another.
///
/// Whoever reads it back must know of which algorithm it is: that a type can do so by itself is asked by families.
pub trait Message: Clone + Ord + Hash + Debug + Serialize + Send + Sync + 'static {
    /// The name under which it is counted and drawn.
    fn kind(&self) -> &'static str;

    /// Whether it is counted apart from the algorithm's own: probes, acknowledgements, keep-alives.
    fn is_overhead(&self) -> bool {
        false
    }

    /// How many layers only carry what it says, as an envelope does: texts and drawings leave them out. A layer is a
    /// variant of an enum, a field called `message`, or both.
    fn envelopes(&self) -> u32 {
        0
    }

    /// What these layers add, such as an epoch; texts put it behind the message.
    fn postmark(&self) -> String {
        String::new()
    }

    /// Visits every number of the message that only grows; see [`Protocol::visit_counters`].
    ///
    /// Where each process counts for itself, the sender tells whose number it is, and the members tell whose number
    /// stands at which place of an array.
    fn visit_counters(&mut self, _from: NodeId, _members: &Members, _visit: &mut dyn FnMut(Counter<'_>)) {}
}

/// What happens to a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input<P: Protocol> {
    /// The process is up: first input of every life.
    Start,
    /// A message arrived.
    Receive {
        /// Who sent it.
        from: NodeId,
        /// What it says.
        message: P::Message,
    },
    /// A timer that was armed expired; it is no longer armed.
    Expire(P::Timer),
    /// The local application asks for something.
    Request(P::Request),
    /// The failure detector believes that a life of a peer has ended.
    PeerDown {
        /// The peer.
        peer: NodeId,
        /// Which of its lives.
        life: Incarnation,
    },
    /// The failure detector believes that a peer is alive: it was suspected wrongly, or started again.
    PeerUp {
        /// The peer.
        peer: NodeId,
        /// Which of its lives.
        life: Incarnation,
    },
}

/// What a process is given when it is brought to life.
#[derive(Clone, Debug)]
pub struct Boot<'a, P: Protocol> {
    /// Its own name.
    pub id: NodeId,
    /// All processes, itself among them; a process that is not among them is a newcomer, and has to be let in.
    pub members: &'a Members,
    /// The settings of the algorithm.
    pub config: &'a P::Config,
    /// What is known of the network's speed.
    pub timing: Timing,
    /// Which life this is.
    pub life: Incarnation,
    /// What the last life saved, if it saved anything and the disk survived.
    pub saved: Option<P::Durable>,
}

/// What is known of the speed of network and processes; only synchronous algorithms may rely on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    /// The longest time a message travels (`T_trans`).
    pub transmission: Duration,
    /// The longest time a process needs to answer (`T_process`).
    pub processing: Duration,
}

impl Timing {
    /// How long to wait for an answer that must come: a round trip and the work between, a little more, so that
    /// an answer that arrives at the very last moment still counts.
    #[must_use]
    pub fn answer_timeout(&self) -> Duration {
        self.transmission * 2 + self.processing + Duration::from_micros(1)
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self { transmission: Duration::from_millis(1), processing: Duration::ZERO }
    }
}

/// The number of a life of a process: 1 for the first, one more after every restart.
///
/// The driver keeps it on stable storage; a process replaced under the same id is told apart by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(pub u32);

impl Incarnation {
    /// The first life.
    pub const FIRST: Self = Self(1);

    /// The life after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.checked_add(1).expect("a process does not restart four thousand million times"))
    }
}

impl Display for Incarnation {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        write!(f, "life {}", self.0)
    }
}
