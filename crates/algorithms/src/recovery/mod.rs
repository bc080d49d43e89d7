//! Recovery: a group that is put together again after a failure.
//!
//! The algorithms of the literature assume that nobody fails. [`Assembly`] runs any of them among those who are alive, and
//! replaces the whole of it by a new one, in a new epoch, whenever somebody has died, come back, joined or left, or the
//! token is lost. It is one protocol for all of them: what each algorithm adds is how it is made from a [`Roll`], see
//! [`Mutex::rebuild`].
//!
//! ```text
//!   leader ──●─────────────────────●──────────────────────●──▶  epoch 1
//!             ╲ Gather            ╱ Report                 ╲ Install
//!   p2 ────────●─────────────────●──────────────────────────●──▶  epoch 1
//!               from here on it neither enters nor votes
//!   p3 ✗
//! ```
//!
//! - A leader, elected by the protocol around this one (see [`Led`](crate::Led)), *gathers*: it asks all who are alive how
//!   they stand (idle, waiting since when, inside). Whoever answers a gathering stops to take part in the old epoch, and
//!   answers no earlier one any more. What was in flight is void from then on: grants, votes, tokens.
//! - When all who are alive have answered, the leader writes the roll and *installs* the new epoch. Every member makes its
//!   part of it from the same roll: who was inside is inside, who waited waits in the order of the roll, and there is a
//!   token where there has to be one. Nobody has to ask again.
//! - Epochs are numbered, and carry the name of who began them: two leaders can get in each other's way, but not both
//!   succeed. All fences of an epoch are larger than those before.
//! - A process that comes back has forgotten what it promised, and a newcomer has never promised anything: both *check in*,
//!   and take part from the next roll on. Who wants to leave says so, and is left out of the next roll.
//! - A token may be lost without a crash. Who waits for too long has the leader ask where it is (see `probe.rs`), and a
//!   loss that is proven is a reason for a new epoch.
//!
//! With [`Consent::Living`] all who are not suspected must answer. That is as good as the failure detector: a process that
//! is wrongly taken for dead is left out although it may be inside, and only the fence protects the resource. With
//! [`Consent::Majority`] the roll is agreed on by a ballot among the members of the last one (see `ballot.rs`), and whoever
//! was left out has lost its lease before anyone can enter (see `lease.rs`). Without a majority the group stands still.
//!
//! With [`Consent::Living`] whoever is left goes on, also alone. So if all have crashed, who comes back may have missed an
//! epoch, and waits for those who know: see `Round::is_grounded`. A fence is then never smaller than an earlier one.
//!
//! **Cost**: 2(L − 1) messages among L living and L − 1 to install the roll, plus the election if the leader has died.
//!
//! **Assumes** reliable channels of any order while both ends live, and that a crash is reported to all at last.
//!
//! **Caveats**: everything stands still while a roll is called, about three message delays, and after a crash of all until
//! those are back who may have gone on last. Requests live with those who make them.

pub(crate) mod ballot;
mod key;
mod lease;
mod locks;
mod pieces;
mod probe;
mod recovering;
mod round;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use core::fmt::{Debug, Formatter};
use core::time::Duration;

use conclave_core::{
    Boot, Counter, Effect, Effects, Incarnation, Input, LamportClock, Members, Message, NodeId, Phase,
    Protocol, Reading, Space, Stamp, Through, Timing, erased,
};
use serde::{Deserialize, Serialize};

use crate::led::{Asked, Told};
use crate::mutex::{Epoch, Event, Fence, Mutex, Request, Standing};
use ballot::Acceptor;
use lease::Lease;
use pieces::{Cargo, Pieces};
use probe::Probe;
use round::Round;

pub use key::{GroupRoll, Key, Standings};
pub use recovering::{MUTANTS, Recovering, SETTINGS, is_mutant_of_recovery, recovers};

/// A process of a group that is put together again after a failure, running the algorithm `A` on one lock, or on each of
/// many by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Assembly<A: Mutex, K: Key = ()> {
    id: NodeId,
    config: AssemblyConfig<A::Config>,
    timing: Timing,
    life: Incarnation,
    /// The members of the epoch that we know of, in their order on the ring.
    group: Members,
    epoch: Epoch,
    /// Everyone of whom we know that it belongs to the group, a member of this epoch or not.
    known: BTreeSet<NodeId>,
    /// Who has left it for good.
    left: BTreeSet<NodeId>,
    /// Who may have a part in our epoch or a later one, as far as we know: the roll of ours, and all for whom a roll was
    /// called that we have answered since.
    called: BTreeSet<NodeId>,
    /// Whether we are a member, and have a part in the epoch.
    is_member: bool,
    /// Our part in it, for each lock that somebody has spoken of since it began.
    places: BTreeMap<K, Place<A>>,
    /// How many there were when it began, and the time of its roll: what a lock needs that comes into being later. Both are
    /// zero where there is but one lock.
    opening: Opening,
    /// Nobody has been elected yet, and nothing can be done before.
    unled: bool,
    /// An election was called after a failure, and nobody calls the roll before it is over.
    awaits_election: bool,
    /// What we have promised to those who gather.
    acceptor: Acceptor<GroupRoll<K>>,
    /// Who gathers; until its roll is installed we take no part in the old epoch.
    gathered_by: Option<NodeId>,
    /// For the order of requests, across all epochs.
    clock: LamportClock,
    /// What our application wants.
    standings: Standings<K>,
    /// Who was elected last; before the first election, the highest of the group.
    elected: Option<NodeId>,
    /// Who called the last roll: whom to follow where nobody is elected.
    convener: Option<NodeId>,
    /// Who is suspected, and in which life.
    down: BTreeMap<NodeId, Incarnation>,
    /// In which life everyone is, as far as we know.
    lives: Lives,
    /// Members of this epoch whose life has ended since it began.
    ended: BTreeSet<NodeId>,
    /// Who wants to be in the next roll.
    newcomers: BTreeSet<NodeId>,
    /// Who does not; perhaps ourselves.
    leavers: BTreeSet<NodeId>,
    /// The gathering that we lead.
    round: Option<Round<K>>,
    /// The leases of the locks that we are inside, or about to be.
    leases: BTreeMap<K, Lease>,
    /// The number of the last renewal that we asked for.
    renewals: u64,
    /// What our clock showed when this life began.
    born: Reading,
    /// Messages of epochs that have not reached us yet.
    early: Vec<Early<A::Message, K>>,
    /// What has arrived of messages that came in pieces.
    pieces: Pieces<K>,
}

/// Our part in an epoch of one lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place<A: Mutex> {
    part: A,
    /// The timers of our part that are armed.
    armed: BTreeSet<A::Timer>,
    /// The search for the token that we lead.
    probe: Option<Probe>,
    /// Who has asked us for the token since one was last sent to us.
    asked_where: BTreeSet<NodeId>,
}

impl<A: Mutex> Place<A> {
    fn of(part: A) -> Self {
        Self { part, armed: BTreeSet::new(), probe: None, asked_where: BTreeSet::new() }
    }
}

/// What a lock needs to come into being in an epoch that began without it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Opening {
    /// How many locks there were.
    locks: usize,
    /// The logical time of the roll.
    clock: LamportClock,
}

/// A message of an epoch that has not reached us yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Early<M, K> {
    epoch: Epoch,
    lock: K,
    from: NodeId,
    message: M,
}

/// In which life processes are, where it is not their first.
type Lives = BTreeMap<NodeId, Incarnation>;

/// More messages than this do not wait for their epoch.
const MOST_EARLY: usize = 4096;

/// Settings of [`Assembly`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AssemblyConfig<C> {
    /// Those of the algorithm.
    pub algorithm: C,
    /// Whose answers make a roll.
    pub consent: Consent,
    /// Who looks for a lost token.
    pub monitor: Monitor,
    /// Whether who does not answer in time is dead: then no failure detector is needed, but bounds on time are.
    pub silence_is_death: bool,
    /// How often the leader asks who is down whether it is up again. Without it, who comes back says so.
    pub poll: Option<Duration>,
    /// Whether every failure is a reason for an election, and not only that of the leader.
    pub elects_always: bool,
    /// How many locks there may be.
    pub limits: Limits,
    /// What is broken on purpose, if anything.
    pub mutation: Option<Mutation>,
}

impl<C> AssemblyConfig<C> {
    /// Who leads before the first election.
    fn first_leader(&self, group: &Members) -> Option<NodeId> {
        match self.monitor {
            Monitor::Node(node) if group.contains(node) => Some(node),
            Monitor::Node(_) | Monitor::Elected | Monitor::All => group.max(),
        }
    }
}

/// How many locks there may be, where they have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Of so many locks at a time the application of one process may want something. What it asks beyond is refused.
    pub in_use: usize,
    /// When a process knows of more locks than this, and of twice as many as when the epoch began, a roll is called: those
    /// that nobody wants are forgotten with it.
    pub known: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { in_use: 16_384, known: 32_768 }
    }
}

/// Whose answers make a roll.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Consent {
    /// All who are not suspected.
    Living,
    /// A majority of the last roll, and all who are to be in the next.
    Majority,
}

/// Who looks for a lost token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Monitor {
    /// The leader, when somebody waits for too long.
    Elected,
    /// Whoever waits for too long.
    All,
    /// This process, which leads from the beginning, until it dies. Its peers tell it who has died.
    Node(NodeId),
}

mutants! {
    /// They show only in a group that recovers. The algorithms whose tables list them refer to these.
    pub enum Mutation {
        /// A new epoch begins without asking anybody how it stands.
        RegenerateUnasked {
            name: "regenerate-unasked", breaks: "ME1", nodes: 4, trigger: Crash,
            change: "after a failure a new token is made without asking who is inside",
        }
        /// One round of questions proves that the token is lost.
        SingleProbe {
            name: "single-probe", breaks: "ME1", nodes: 3, trigger: Schedule,
            change: "a token that nobody has in one round of questions is taken for lost, and replaced at once",
        }
        /// In the algorithm itself: a coordinator is rebuilt without the requests that wait.
        ForgetQueue {
            name: "failover-forgets-queue", breaks: "ME3", nodes: 3, trigger: Crash,
            change: "a new coordinator does not take over who waits",
        }
        /// Whoever goes on, goes on at once.
        GoOnAlone {
            name: "go-on-alone", breaks: "FENCE", nodes: 2, trigger: Crash,
            change: "who comes back alone does not wait for those who may have gone on without it",
        }
        /// Who came back while a roll was called is not asked.
        CallOnce {
            name: "call-once", breaks: "ME1", nodes: 3, trigger: Crash,
            change: "who comes back while a roll is called is left out of it, although it may have a part in another",
        }
        /// Nobody waits for the lease of whoever is left out.
        NoQuarantine {
            name: "no-quarantine", breaks: "ME1", nodes: 2, trigger: Crash,
            change: "a majority leaves somebody out and does not wait until its lease is over",
        }
        /// A grant to a former request is confirmed.
        KeepGrant {
            name: "keep-grant", breaks: "ME1", nodes: 3, trigger: Crash,
            change: "what a roll grants to a request of a former life is given back, and confirmed all the same",
        }
        /// A roll is put to the vote only once.
        VoteOnce {
            name: "vote-once", breaks: "ME3", nodes: 3, trigger: Crash,
            change: "nobody asks again who has crashed and come back since it was asked",
        }
        /// Who wants to leave says so once.
        LeaveOnce {
            name: "leave-once", breaks: "ME2", nodes: 4, trigger: Crash,
            change: "who wants to leave tells whom it takes for the leader, and nobody else if nothing comes of it",
        }
        /// Whoever has answered a call takes part in its old epoch all the same.
        KeepGoing {
            name: "keep-going", breaks: "ME1", nodes: 3, trigger: Crash,
            change: "who has answered a call goes on in the old epoch, so that what it said of itself is soon wrong",
        }
        /// Messages of an old epoch count in the new one.
        OldMessages {
            name: "old-messages", breaks: "PROTOCOL", nodes: 3, trigger: Crash,
            change: "a message that was sent in an old epoch is taken for one of the new epoch",
        }
        /// Messages of an epoch that has not arrived yet are thrown away.
        DropEarly {
            name: "drop-early", breaks: "ME3", nodes: 3, trigger: Crash,
            change: "a message of an epoch that has not reached its receiver yet is thrown away",
        }
        /// A roll is installed although a later one was called.
        LateInstall {
            name: "late-install", breaks: "ME1", nodes: 3, trigger: Crash,
            change: "who has answered a later call installs the roll of an earlier one all the same",
        }
        /// What an application did while the roll was called is forgotten.
        NoCatchUp {
            name: "no-catch-up", breaks: "ME3", nodes: 3, trigger: Crash,
            change: "what an application does between its report and the new epoch is not made up for",
        }
        /// Whoever comes back says so once.
        CheckInOnce {
            name: "check-in-once", breaks: "ME3", nodes: 3, trigger: Restart,
            change: "who is not in a roll for long does not ask again to be let in",
        }
        /// Nobody is told that it was left out.
        TellNobody {
            name: "tell-nobody", breaks: "ME3", nodes: 3, trigger: Suspicion,
            change: "nobody tells a process that lives that it is in the roll no more",
        }
        /// The death of a member is no reason for a new roll.
        IgnoreDeath {
            name: "ignore-death", breaks: "ME3", nodes: 3, trigger: Crash,
            change: "the roll is not called when a member has died",
        }
        /// Stamps of the old epoch can be later than the roll.
        ClockBehind {
            name: "clock-behind", breaks: "ME3", nodes: 3, trigger: Crash,
            change: "the time of a roll is not later than the requests in it",
        }
        /// Only the last roll and those who have checked in are called.
        MembersOnly {
            name: "members-only", breaks: "ME3", nodes: 3, trigger: Crash,
            change: "who is known and is not in the last roll is not called, though it may have a part in another",
        }
        /// A leader that leaves convenes the epoch of the others.
        AbsentConvener {
            name: "absent-convener", breaks: "PROTOCOL", nodes: 3, trigger: Schedule,
            change: "a leader that leaves names itself as the convener of the roll in which it is not",
        }
        /// Nobody asks who is up again.
        NoPoll {
            name: "no-poll", breaks: "ME3", nodes: 3, trigger: Restart,
            change: "the leader does not ask those who are missing whether they are up again",
        }
        /// Nobody looks for a token.
        NoSearch {
            name: "no-search", breaks: "ME3", nodes: 3, trigger: Schedule,
            change: "a token that is missed for long is not looked for",
        }
        /// Who does not say where the token is holds up the search.
        ProbeSilent {
            name: "probe-silent", breaks: "ME3", nodes: 3, trigger: Crash,
            change: "where silence means death, the search for the token waits for the silent all the same",
        }
        /// Epochs that the algorithm has begun by itself are not looked at.
        OwnEpochs {
            name: "own-epochs", breaks: "FENCE", nodes: 3, trigger: Crash,
            change: "a new epoch may be earlier than one that the algorithm has begun by itself",
        }
        /// A part of an old epoch is forgotten with the locks that nobody wants, and so is how far it has come.
        OpenAfresh {
            name: "open-afresh", breaks: "FENCE", nodes: 3, trigger: Crash,
            change: "a lock that comes into being in a later epoch begins as in the first",
        }
        /// Nobody waits for a majority to confirm a grant.
        Unconfirmed {
            name: "unconfirmed", breaks: "ME1", nodes: 3, trigger: Suspicion,
            change: "who is granted the lock enters before a majority has confirmed it",
        }
        /// What was granted in an old epoch can be confirmed in the new one.
        KeepOldGrant {
            name: "keep-old-grant", breaks: "ME1", nodes: 3, trigger: Suspicion,
            change: "what was granted in an old epoch is confirmed in the new one",
        }
        /// The lease of a request that was given up goes on.
        KeepLease {
            name: "keep-lease", breaks: "ME1", nodes: 2, trigger: Schedule,
            change: "what was granted to a request that was given up is confirmed for the next one",
        }
        /// Who has answered needs no quarantine.
        TrustAnswer {
            name: "trust-answer", breaks: "ME1", nodes: 2, trigger: Suspicion,
            change: "nobody waits for the lease of a process that has answered and is left out all the same",
        }
        /// An acceptor forgets what it has promised.
        AcceptAny {
            name: "accept-any", breaks: "ME1", nodes: 5, trigger: Suspicion,
            change: "a member accepts a roll although it has answered a later call",
        }
        /// What may have been chosen is not proposed again.
        ProposeAnew {
            name: "propose-anew", breaks: "ME1", nodes: 5, trigger: Suspicion,
            change: "a roll of one's own is proposed although another may have been chosen",
        }
        /// The election does not know newcomers.
        NarrowElectorate {
            name: "narrow-electorate", breaks: "ME3", nodes: 3, trigger: Crash,
            change: "the election is not told who belongs to the group now",
        }
        /// Only a timer ends a lease.
        LateLease {
            name: "late-lease", breaks: "FENCE", nodes: 5, trigger: Crash,
            change: "a process that stood still does not look at its clock, and enters on a lease that is over",
        }
    }
}

/// What the processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(bound(serialize = "M: Serialize", deserialize = "M: Deserialize<'de>"))]
pub enum AssemblyMessage<M, K: Key = ()> {
    /// From part to part, in an epoch.
    Part {
        /// The epoch.
        epoch: Epoch,
        /// The clock of the sender.
        time: u64,
        /// The lock.
        #[serde(skip_serializing_if = "Key::is_only")]
        lock: K,
        /// What is said.
        message: M,
    },
    /// How do you stand? Take no further part in your epoch.
    Gather {
        /// The number of this gathering.
        ballot: Epoch,
        /// Who shall be in the roll.
        called: BTreeSet<NodeId>,
        /// In which life everyone is, as far as I know.
        lives: Lives,
    },
    /// This is how I stand.
    Report {
        /// The gathering that this answers.
        ballot: Epoch,
        /// How I stand.
        report: Report<K>,
    },
    /// I have answered a later gathering.
    Outranked {
        /// The gathering that this answers.
        ballot: Epoch,
        /// The one that I have answered.
        promised: Epoch,
    },
    /// Let this be the next roll.
    Accept {
        /// The gathering that it comes from.
        ballot: Epoch,
        /// The roll.
        roll: GroupRoll<K>,
    },
    /// As far as I am concerned, it is.
    Accepted {
        /// The gathering.
        ballot: Epoch,
    },
    /// A new epoch begins.
    Install {
        /// The gathering that it comes from.
        ballot: Epoch,
        /// The roll.
        roll: GroupRoll<K>,
        /// Who has left the group.
        left: BTreeSet<NodeId>,
    },
    /// I want to be in the next roll.
    CheckIn {
        /// Which of my lives this is.
        life: Incarnation,
    },
    /// I do not want to be in the next roll.
    Leave,
    /// You are not in our roll.
    Expelled {
        /// The epoch of the roll.
        epoch: Epoch,
        /// Who is in it.
        group: Vec<NodeId>,
    },
    /// I have been waiting for long: is the token lost, or am I?
    Missing {
        /// The epoch of my roll.
        epoch: Epoch,
        /// The lock.
        #[serde(skip_serializing_if = "Key::is_only")]
        lock: K,
    },
    /// The token is lost.
    Lost {
        /// The epoch in which it was.
        epoch: Epoch,
        /// The lock.
        #[serde(skip_serializing_if = "Key::is_only")]
        lock: K,
    },
    /// Have you got the token?
    Where {
        /// The epoch of the token.
        epoch: Epoch,
        /// Whether I ask for the second time.
        again: bool,
        /// The lock.
        #[serde(skip_serializing_if = "Key::is_only")]
        lock: K,
    },
    /// The answer to that.
    Here {
        /// The epoch.
        epoch: Epoch,
        /// Whether it was the second question.
        again: bool,
        /// Whether I have it.
        found: Found,
        /// The lock.
        #[serde(skip_serializing_if = "Key::is_only")]
        lock: K,
    },
    /// I am inside, and want to stay there.
    Renew {
        /// The epoch.
        epoch: Epoch,
        /// The number of the renewal.
        number: u64,
        /// The lock.
        #[serde(skip_serializing_if = "Key::is_only")]
        lock: K,
    },
    /// You may.
    Renewed {
        /// The epoch.
        epoch: Epoch,
        /// The number of the renewal.
        number: u64,
        /// The lock.
        #[serde(skip_serializing_if = "Key::is_only")]
        lock: K,
    },
    /// Are you up again?
    AreYouUp,
    /// This life of a process has ended.
    Dead {
        /// The process.
        peer: NodeId,
        /// Its life.
        life: Incarnation,
    },
    /// A part of a message that is too long for one.
    Piece {
        /// Which part this is.
        place: u32,
        /// How many there are.
        of: u32,
        /// As much of the message as there was room for.
        cargo: Cargo<K>,
    },
    /// I know of too many locks: forget those that nobody wants.
    Crowded {
        /// The epoch.
        epoch: Epoch,
    },
}

use AssemblyMessage as Msg;

/// How a process stands, and what it knows of the group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Report<K: Key = ()> {
    /// What its application wants.
    pub standings: Standings<K>,
    /// Its clock.
    pub time: u64,
    /// The epoch of its roll.
    pub epoch: Epoch,
    /// The latest epoch that it has heard of.
    pub heard: Epoch,
    /// Who is in its roll.
    pub group: Vec<NodeId>,
    /// Who has left the group.
    pub left: BTreeSet<NodeId>,
    /// Whether it has been a member of the group ever since it was let in: it has not crashed and was not left out. With
    /// leases also whether that was so long ago that none of them lasts.
    pub member: bool,
    /// The latest gathering that it had answered before this one.
    pub promised: Epoch,
    /// Who may have a part in its epoch or a later one, as far as it knew before this gathering.
    pub called: BTreeSet<NodeId>,
    /// In which life everyone is, as far as it knows; it knows of itself.
    pub lives: BTreeMap<NodeId, Incarnation>,
    /// The roll that it has accepted, but not seen installed.
    pub accepted: Option<(Epoch, GroupRoll<K>)>,
}

/// Where a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Found {
    /// Here.
    Here,
    /// Not here now, but it was here since the first question.
    PassedBy,
    /// Not here, and it has not been since the first question.
    Nowhere,
}

impl<M: Message, K: Key> Message for AssemblyMessage<M, K> {
    fn kind(&self) -> &'static str {
        match self {
            Msg::Part { message, .. } => message.kind(),
            Msg::Gather { .. } => "Gather",
            Msg::Report { .. } => "Report",
            Msg::Outranked { .. } => "Outranked",
            Msg::Accept { .. } => "Accept",
            Msg::Accepted { .. } => "Accepted",
            Msg::Install { .. } => "Install",
            Msg::CheckIn { .. } => "CheckIn",
            Msg::Leave => "Leave",
            Msg::AreYouUp => "AreYouUp",
            Msg::Dead { .. } => "Dead",
            Msg::Expelled { .. } => "Expelled",
            Msg::Missing { .. } => "Missing",
            Msg::Lost { .. } => "Lost",
            Msg::Where { .. } => "Where",
            Msg::Here { .. } => "Here",
            Msg::Renew { .. } => "Renew",
            Msg::Renewed { .. } => "Renewed",
            Msg::Piece { .. } => "Piece",
            Msg::Crowded { .. } => "Crowded",
        }
    }

    fn is_overhead(&self) -> bool {
        match self {
            Msg::Part { message, .. } => message.is_overhead(),
            _ => true,
        }
    }

    fn envelopes(&self) -> u32 {
        match self {
            Msg::Part { message, .. } => 1 + message.envelopes(),
            _ => 0,
        }
    }

    /// The epoch in which it is said, and of which lock.
    fn postmark(&self) -> String {
        match self {
            Msg::Part { epoch, lock, message, .. } => {
                format!("{}@{epoch}{}", message.postmark(), lock.mark())
            }
            _ => String::new(),
        }
    }

    /// A lock that a process has not heard of yet begins at zero there, however far the others have come: where locks come
    /// into being one by one, their numbers cannot be moved down together.
    fn visit_counters(&mut self, from: NodeId, members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            _ if K::ONLY.is_none() => {}
            Msg::Part { time, message, .. } => {
                visit(Counter::exact(SINCE, time));
                message.visit_counters(from, members, visit);
            }
            Msg::Report { report, .. } => {
                visit(Counter::exact(SINCE, &mut report.time));
                visit_standings(&mut report.standings, visit);
                if let Some((_, roll)) = &mut report.accepted {
                    visit_roll(roll, visit);
                }
            }
            Msg::Accept { roll, .. } | Msg::Install { roll, .. } => visit_roll(roll, visit),
            _ => {}
        }
    }
}

/// What the order of requests across epochs is counted in.
const SINCE: Space = Space::shared("since");

fn visit_standings<K: Key>(standings: &mut Standings<K>, visit: &mut dyn FnMut(Counter<'_>)) {
    for standing in standings.values_mut() {
        match standing {
            Standing::Idle => {}
            Standing::Waiting { since, .. } => visit(Counter::exact(SINCE, &mut since.time)),
            Standing::Inside { fence } => visit(fence.counter()),
        }
    }
}

fn visit_roll<K: Key>(roll: &mut GroupRoll<K>, visit: &mut dyn FnMut(Counter<'_>)) {
    visit(Counter::exact(SINCE, roll.clock.value_mut()));
    for (_, standings) in &mut roll.standings {
        visit_standings(standings, visit);
    }
}

/// The timers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AssemblyTimer<T, K = ()> {
    /// One of the algorithm's.
    Part(K, T),
    /// We have been waiting for the token for long.
    Patience(K),
    /// Who has not said whether it has the token does not answer.
    Probe(K),
    /// Who has not said how it stands does not answer.
    Gather,
    /// Nobody has let us in yet.
    CheckIn,
    /// Whoever was left out has lost its lease.
    Quarantine,
    /// It is time to renew the lease.
    Renew(K),
    /// The lease has run out.
    Lease(K),
    /// It is time to ask who is down whether it is up again.
    Poll,
}

/// `Patience`, and where locks have names `("backup", Patience)`.
impl<T: Debug, K: Key> Debug for AssemblyTimer<T, K> {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        let lock = match self {
            Self::Part(lock, _)
            | Self::Patience(lock)
            | Self::Probe(lock)
            | Self::Renew(lock)
            | Self::Lease(lock) => Some(lock).filter(|lock| !lock.is_only()),
            Self::Gather | Self::CheckIn | Self::Quarantine | Self::Poll => None,
        };
        if let Some(lock) = lock {
            write!(f, "({lock:?}, ")?;
        }
        match self {
            Self::Part(_, timer) => f.debug_tuple("Part").field(timer).finish()?,
            Self::Patience(_) => f.write_str("Patience")?,
            Self::Probe(_) => f.write_str("Probe")?,
            Self::Gather => f.write_str("Gather")?,
            Self::CheckIn => f.write_str("CheckIn")?,
            Self::Quarantine => f.write_str("Quarantine")?,
            Self::Renew(_) => f.write_str("Renew")?,
            Self::Lease(_) => f.write_str("Lease")?,
            Self::Poll => f.write_str("Poll")?,
        }
        if lock.is_some() { f.write_str(")") } else { Ok(()) }
    }
}

use AssemblyTimer as Timer;

/// What a process keeps on stable storage.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct AssemblyDurable<K: Key = ()> {
    acceptor: Acceptor<GroupRoll<K>>,
    epoch: Epoch,
    group: Vec<NodeId>,
    known: BTreeSet<NodeId>,
    left: BTreeSet<NodeId>,
    called: BTreeSet<NodeId>,
}

impl<A: Mutex, K: Key> Protocol for Assembly<A, K> {
    type Config = AssemblyConfig<A::Config>;
    type Message = AssemblyMessage<A::Message, K>;
    type Request = Asked<K::Request>;
    type Event = Told<K::Event>;
    type Timer = AssemblyTimer<A::Timer, K>;
    type Durable = AssemblyDurable<K>;

    fn boot(boot: Boot<'_, Self>) -> Self {
        let Boot { id, members, config, timing, life, saved } = boot;
        let saved = saved.unwrap_or_else(|| AssemblyDurable {
            acceptor: Acceptor::default(),
            epoch: Epoch::FIRST,
            group: members.iter().collect(),
            known: BTreeSet::new(),
            left: BTreeSet::new(),
            called: members.iter().collect(),
        });
        let group = if is_listed(&saved.group) { Members::listed(saved.group) } else { members.clone() };
        let known: BTreeSet<_> = members.iter().chain(group.iter()).chain(saved.known).chain([id]).collect();
        let mut left = saved.left;
        if K::ONLY.is_none() {
            // Nobody joins or leaves such a group: whoever is no longer among its processes was taken out of it.
            left = known.iter().copied().filter(|peer| !members.contains(*peer)).collect();
        }
        // Who comes back has forgotten what it was in the middle of, and who is new has yet to be let in.
        let belongs = life == Incarnation::FIRST && members.contains(id);
        let unled = belongs && A::begins_unled(&config.algorithm);
        let is_member = belongs && !unled;
        let part = || A::boot(Boot { id, members, config: &config.algorithm, timing, life, saved: None });
        let places = K::ONLY.filter(|_| is_member).map(|lock| (lock, Place::of(part())));
        Self {
            id,
            config: config.clone(),
            timing,
            life,
            // Who is new or comes back knows of a leader only if one was named.
            elected: config.first_leader(&group).filter(|leader| {
                !unled && (belongs || config.monitor == Monitor::Node(*leader) && *leader != id)
            }),
            convener: None,
            known,
            left,
            called: saved.called,
            group,
            epoch: saved.epoch,
            is_member,
            places: places.into_iter().collect(),
            opening: Opening::default(),
            unled,
            awaits_election: false,
            acceptor: saved.acceptor,
            gathered_by: None,
            clock: LamportClock::default(),
            standings: Standings::default(),
            down: BTreeMap::new(),
            lives: Lives::from_iter((life > Incarnation::FIRST).then_some((id, life))),
            ended: BTreeSet::new(),
            newcomers: BTreeSet::new(),
            leavers: BTreeSet::new(),
            round: None,
            leases: BTreeMap::new(),
            renewals: 0,
            born: Reading::ZERO,
            early: Vec::new(),
            pieces: Pieces::default(),
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        let out = &mut erased(out);
        // What the application asks for was asked before it could hear that its lease is over.
        if !matches!(input, Input::Request(Asked::App(_))) {
            self.maybe_overdue(out);
        }
        if let Input::Start = input {
            self.born = out.now();
        }
        match input {
            Input::Start if self.is_member => {
                for lock in self.locks() {
                    self.play(&lock, Input::Start, out);
                }
            }
            Input::Start if self.unled || self.awaits_poll() => {}
            Input::Start => self.check_in(out),
            Input::Receive { from, .. } if from == self.id => {
                out.reject(from, "nobody sends messages to itself");
            }
            Input::Receive { from, message } => self.receive(from, message, out),
            Input::Expire(timer) => self.expire(timer, out),
            Input::Request(Asked::Elected { leaders, .. }) => {
                self.elected = leaders.first().copied();
                self.awaits_election = false;
                self.maybe_begin(out);
                self.follow(out);
                self.arm_poll(out);
            }
            Input::Request(Asked::App(request)) => {
                let (lock, request) = K::asked(request);
                self.ask(&lock, request, out);
            }
            // A failure detector that speaks of ourselves is wrong.
            Input::PeerDown { peer, .. } | Input::PeerUp { peer, .. } if peer == self.id => {}
            Input::PeerDown { peer, life } => self.on_peer_down(peer, life, out),
            Input::PeerUp { peer, life } => {
                self.meet(peer, life);
                self.down.remove(&peer);
                if self.config.poll.is_none() {
                    self.newcomers.insert(peer);
                    self.set_right(peer, Epoch::FIRST, out);
                }
                if self.config.poll.is_none() || self.is_alone() {
                    self.maybe_gather(out);
                }
            }
        }
    }

    /// The most demanding of our parts, as far as our application knows of them.
    fn phase(&self) -> Phase {
        let phase = |standing| match standing {
            Standing::Idle => Phase::IDLE,
            Standing::Waiting { .. } => Phase::WAITING,
            Standing::Inside { .. } => Phase::HOLDING,
        };
        let phases = self.standings.iter().map(|(_, standing)| phase(standing));
        phases.max_by_key(|phase| phase.band).unwrap_or(Phase::IDLE)
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        if K::ONLY.is_none() {
            return;
        }
        visit(Counter::exact(SINCE, self.clock.value_mut()));
        visit_standings(&mut self.standings, visit);
        if let Some((_, roll)) = &mut self.acceptor.accepted {
            visit_roll(roll, visit);
        }
        if let Some(round) = &mut self.round {
            round.visit_counters(visit);
        }
        for place in self.places.values_mut() {
            place.part.visit_counters(visit);
        }
        for early in &mut self.early {
            early.message.visit_counters(early.from, &self.group, visit);
        }
    }

    /// Leases and polls go by the clock.
    fn reads_clock(&self) -> bool {
        self.config.consent == Consent::Majority || self.config.poll.is_some()
    }

    fn visit_leases(&self, visit: &mut dyn FnMut(&str, conclave_core::Lease)) -> bool {
        self.tell_leases(visit);
        self.config.consent == Consent::Majority
    }

    fn group(&self) -> Option<conclave_core::Group> {
        Some(conclave_core::Group {
            epoch: format!("{}", self.epoch),
            roll: self.group.iter().collect(),
            member: self.is_member,
            leader: self.leader(),
            called_by: self.gathered_by,
        })
    }

    fn assert_invariants(&self) {
        for place in self.places.values() {
            place.part.assert_invariants();
        }
        if self.config.mutation.is_some() {
            return;
        }

        assert!(self.known.contains(&self.id), "we know of ourselves");
        assert!(!self.is_member || self.group.contains(self.id), "only a member has a part in the epoch");
        assert!(self.is_member || self.places.is_empty(), "who is no member has no part in any lock");
        assert!(
            K::ONLY.is_none_or(|lock| self.is_member == self.places.contains_key(&lock)),
            "a member has a part in the only lock"
        );
        if let Some((ballot, roll)) = &self.acceptor.accepted {
            assert!(*ballot <= self.acceptor.promised, "what was accepted was promised");
            assert!(roll.epoch > self.epoch, "a roll that waits to be installed is later than our epoch");
        }
        if let Some(round) = &self.round {
            assert!(self.gathered_by == Some(self.id), "who calls the roll waits for its own roll");
            round.assert_invariants(self.id, self.acceptor.promised);
        }
        assert!(
            A::moves_token(&self.config.algorithm) || self.places.values().all(|place| place.probe.is_none()),
            "a token is looked for only where there is one"
        );
        assert!(self.early.len() <= MOST_EARLY, "few messages wait for their epoch");
        for (lock, standing) in self.standings.iter() {
            if let Standing::Waiting { since, .. } = standing {
                assert!(since.process == self.id, "we wait with a request of our own");
                assert!(since.time <= self.clock.time(), "a request is no later than the clock");
            }
            if matches!(standing, Standing::Inside { .. }) && self.is_active() {
                let holds = self.places.get(lock).map(|place| place.part.phase());
                assert!(holds == Some(Phase::HOLDING), "who is inside is inside in its epoch, too");
            }
        }
        assert!(
            self.config.consent == Consent::Majority || self.leases.is_empty(),
            "without leases a grant needs no confirmation"
        );
    }
}

/// Whether these can be the members of a group.
fn is_listed(group: &[NodeId]) -> bool {
    let distinct: BTreeSet<_> = group.iter().collect();
    !group.is_empty() && distinct.len() == group.len()
}

impl<A: Mutex, K: Key> Assembly<A, K> {
    /// The algorithm of a lock, if this process takes part in it.
    #[must_use]
    pub fn part(&self, lock: &K) -> Option<&A> {
        self.places.get(lock).map(|place| &place.part)
    }

    /// The locks that this process knows of in this epoch.
    pub fn lock_keys(&self) -> impl Iterator<Item = &K> {
        self.places.keys()
    }

    /// The epoch that this process is in.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether the algorithm goes on: we are a member, and nobody is calling a roll.
    fn is_active(&self) -> bool {
        self.is_member && (self.gathered_by.is_none() || self.is_mutant(Mutation::KeepGoing))
    }

    /// Whether this rule is the one that is broken on purpose.
    fn is_mutant(&self, mutation: Mutation) -> bool {
        self.config.mutation == Some(mutation)
    }

    /// Who leads, as far as we know.
    fn leader(&self) -> Option<NodeId> {
        self.elected.or(self.convener).filter(|leader| !self.down.contains_key(leader))
    }

    fn leads(&self) -> bool {
        self.leader() == Some(self.id)
    }

    fn receive(
        &mut self,
        from: NodeId,
        message: AssemblyMessage<A::Message, K>,
        out: &mut impl Effects<Self>,
    ) {
        match message {
            Msg::Part { epoch, time, lock, message } => self.on_part(from, epoch, time, lock, message, out),
            Msg::Gather { ballot, .. } | Msg::Accept { ballot, .. } | Msg::Install { ballot, .. }
                if ballot.creator != from || ballot.number == u64::MAX =>
            {
                out.reject(from, "who calls a roll numbers it with its own name");
            }
            Msg::Accept { roll, .. } | Msg::Install { roll, .. } if roll.epoch.number == u64::MAX => {
                out.reject(from, "no honest group has had so many epochs");
            }
            Msg::Accept { roll, .. } | Msg::Install { roll, .. } if !roll.is_sound() => {
                out.reject(from, "a roll names each member once, and at most one of them inside");
            }
            Msg::Gather { ballot, called, lives } => {
                self.learn(&lives);
                self.on_gather(from, ballot, called, out);
            }
            Msg::Report { ballot, report } => self.on_report(from, ballot, report, out),
            Msg::Outranked { ballot, promised } => self.on_outranked(ballot, promised, out),
            Msg::Accept { ballot, roll } => self.on_accept(from, ballot, roll, out),
            Msg::Accepted { ballot } => self.on_accepted(from, ballot, out),
            Msg::Install { ballot, roll, left } => {
                self.left.extend(left);
                self.on_install(ballot, &roll, out);
            }
            Msg::CheckIn { life } => {
                self.meet(from, life);
                self.on_check_in(from, out);
            }
            Msg::AreYouUp => {
                if !self.is_member && !self.leavers.contains(&self.id) {
                    out.send(from, Msg::CheckIn { life: self.life });
                }
            }
            Msg::Dead { peer, .. } if peer == self.id || peer == from => {
                out.reject(from, "who is dead is reported by others, to others");
            }
            Msg::Dead { peer, life } => {
                if !self.down.contains_key(&peer) {
                    self.on_peer_down(peer, life, out);
                }
            }
            Msg::Leave => self.on_leave(from, out),
            Msg::Expelled { group, .. } if !is_listed(&group) => {
                out.reject(from, "a roll names each member once");
            }
            Msg::Expelled { epoch, group } => self.on_expelled(from, epoch, group, out),
            Msg::Missing { epoch, lock } => {
                self.set_right(from, epoch, out);
                if self.leads() {
                    self.search(&lock, out);
                }
            }
            Msg::Lost { epoch, .. } => self.on_lost(epoch, out),
            Msg::Where { epoch, again, lock } => self.on_where(from, epoch, again, lock, out),
            Msg::Here { epoch, again, found, lock } => self.on_here(from, epoch, again, found, &lock, out),
            Msg::Renew { epoch, number, lock } => {
                if epoch == self.epoch && self.is_active() {
                    out.send(from, Msg::Renewed { epoch, number, lock });
                }
            }
            Msg::Renewed { epoch, number, lock } => self.on_renewed(from, epoch, number, &lock, out),
            Msg::Piece { place, of, cargo } => match self.pieces.add(from, place, of, cargo) {
                Ok(whole) => {
                    if let Some(cargo) = whole {
                        self.receive(from, cargo.whole(), out);
                    }
                }
                Err(why) => out.reject(from, why),
            },
            Msg::Crowded { epoch } => {
                if epoch == self.epoch {
                    self.make_room(out);
                }
            }
        }
    }

    fn expire(&mut self, timer: AssemblyTimer<A::Timer, K>, out: &mut impl Effects<Self>) {
        match timer {
            Timer::Part(lock, timer) => {
                // Where a roll is being called, it is as good as over: the next epoch arms its own.
                let was_armed = self.places.get_mut(&lock).is_some_and(|place| place.armed.remove(&timer));
                if was_armed && self.is_active() {
                    self.play(&lock, Input::Expire(timer), out);
                }
            }
            Timer::Patience(lock) => self.on_patience(&lock, out),
            Timer::Probe(lock) => self.on_probe_timeout(&lock, out),
            Timer::Gather => self.on_gather_timeout(out),
            Timer::CheckIn => self.on_check_in_timeout(out),
            Timer::Poll => self.on_poll(out),
            Timer::Quarantine => self.on_quarantine_over(out),
            Timer::Renew(lock) => self.on_renew(&lock, out),
            Timer::Lease(lock) => self.on_lease_over(&lock, out),
        }
    }
}
