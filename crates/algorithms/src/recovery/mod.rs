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
mod lease;
mod probe;
mod recovering;
mod round;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use core::time::Duration;

use conclave_core::{
    Boot, Counter, Effect, Effects, Incarnation, Input, LamportClock, Members, Message, NodeId, Phase,
    Protocol, Space, Stamp, Through, Timing, erased,
};
use serde::{Deserialize, Serialize};

use crate::led::{Asked, Told};
use crate::mutex::{Epoch, Event, Mutex, Request, Roll, Standing};
use ballot::Acceptor;
use lease::Lease;
use probe::Probe;
use round::Round;

pub use recovering::{MUTANTS, Recovering, SETTINGS, is_mutant_of_recovery, recovers};

/// A process of a group that is put together again after a failure, running the algorithm `A`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Assembly<A: Mutex> {
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
    /// Our part in it; nothing unless we are a member.
    part: Option<A>,
    /// Nobody has been elected yet, and nothing can be done before.
    unled: bool,
    /// An election was called after a failure, and nobody calls the roll before it is over.
    awaits_election: bool,
    /// The timers of our part that are armed.
    armed: BTreeSet<A::Timer>,
    /// What we have promised to those who gather.
    acceptor: Acceptor<Roll>,
    /// Who gathers; until its roll is installed we take no part in the old epoch.
    gathered_by: Option<NodeId>,
    /// For the order of requests, across all epochs.
    clock: LamportClock,
    /// What our application wants.
    standing: Standing,
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
    round: Option<Round>,
    /// The search for the token that we lead.
    probe: Option<Probe>,
    /// Who has asked us for the token since one was last sent to us.
    asked_where: BTreeSet<NodeId>,
    lease: Lease,
    /// Messages of epochs that have not reached us yet.
    early: Vec<Early<A::Message>>,
}

/// A message of an epoch that has not reached us yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Early<M> {
    epoch: Epoch,
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
        /// Only a timer ends a lease.
        LateLease {
            name: "late-lease", breaks: "FENCE", nodes: 5, trigger: Crash,
            change: "a process that stood still does not look at its clock, and enters on a lease that is over",
        }
    }
}

/// What the processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AssemblyMessage<M> {
    /// From part to part, in an epoch.
    Part {
        /// The epoch.
        epoch: Epoch,
        /// The clock of the sender.
        time: u64,
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
        report: Report,
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
        roll: Roll,
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
        roll: Roll,
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
    },
    /// The token is lost.
    Lost {
        /// The epoch in which it was.
        epoch: Epoch,
    },
    /// Have you got the token?
    Where {
        /// The epoch of the token.
        epoch: Epoch,
        /// Whether I ask for the second time.
        again: bool,
    },
    /// The answer to that.
    Here {
        /// The epoch.
        epoch: Epoch,
        /// Whether it was the second question.
        again: bool,
        /// Whether I have it.
        found: Found,
    },
    /// I am inside, and want to stay there.
    Renew {
        /// The epoch.
        epoch: Epoch,
        /// The number of the renewal.
        number: u64,
    },
    /// You may.
    Renewed {
        /// The epoch.
        epoch: Epoch,
        /// The number of the renewal.
        number: u64,
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
}

use AssemblyMessage as Msg;

/// How a process stands, and what it knows of the group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Report {
    /// What its application wants.
    pub standing: Standing,
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
    /// Whether it has been a member of the group ever since it was let in: it has not crashed and was not left out.
    pub member: bool,
    /// The latest gathering that it had answered before this one.
    pub promised: Epoch,
    /// Who may have a part in its epoch or a later one, as far as it knew before this gathering.
    pub called: BTreeSet<NodeId>,
    /// In which life everyone is, as far as it knows; it knows of itself.
    pub lives: BTreeMap<NodeId, Incarnation>,
    /// The roll that it has accepted, but not seen installed.
    pub accepted: Option<(Epoch, Roll)>,
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

impl<M: Message> Message for AssemblyMessage<M> {
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

    /// The epoch in which it is said.
    fn postmark(&self) -> String {
        match self {
            Msg::Part { epoch, message, .. } => format!("{}@{epoch}", message.postmark()),
            _ => String::new(),
        }
    }

    fn visit_counters(&mut self, from: NodeId, members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            Msg::Part { time, message, .. } => {
                visit(Counter::exact(SINCE, time));
                message.visit_counters(from, members, visit);
            }
            Msg::Report { report, .. } => {
                visit(Counter::exact(SINCE, &mut report.time));
                visit_standing(&mut report.standing, visit);
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

fn visit_standing(standing: &mut Standing, visit: &mut dyn FnMut(Counter<'_>)) {
    match standing {
        Standing::Idle => {}
        Standing::Waiting { since, .. } => visit(Counter::exact(SINCE, &mut since.time)),
        Standing::Inside { fence } => visit(fence.counter()),
    }
}

fn visit_roll(roll: &mut Roll, visit: &mut dyn FnMut(Counter<'_>)) {
    visit(Counter::exact(SINCE, roll.clock.value_mut()));
    for (_, standing) in &mut roll.standings {
        visit_standing(standing, visit);
    }
}

/// The timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AssemblyTimer<T> {
    /// One of the algorithm's.
    Part(T),
    /// We have been waiting for the token for long.
    Patience,
    /// Who has not said whether it has the token does not answer.
    Probe,
    /// Who has not said how it stands does not answer.
    Gather,
    /// Nobody has let us in yet.
    CheckIn,
    /// Whoever was left out has lost its lease.
    Quarantine,
    /// It is time to renew the lease.
    Renew,
    /// The lease has run out.
    Lease,
    /// It is time to ask who is down whether it is up again.
    Poll,
}

use AssemblyTimer as Timer;

/// What a process keeps on stable storage.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AssemblyDurable {
    acceptor: Acceptor<Roll>,
    epoch: Epoch,
    group: Vec<NodeId>,
    known: BTreeSet<NodeId>,
    left: BTreeSet<NodeId>,
    called: BTreeSet<NodeId>,
}

impl<A: Mutex> Protocol for Assembly<A> {
    type Config = AssemblyConfig<A::Config>;
    type Message = AssemblyMessage<A::Message>;
    type Request = Asked<Request>;
    type Event = Told<Event>;
    type Timer = AssemblyTimer<A::Timer>;
    type Durable = AssemblyDurable;

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
        // Who comes back has forgotten what it was in the middle of, and who is new has yet to be let in.
        let belongs = life == Incarnation::FIRST && members.contains(id);
        let unled = belongs && A::begins_unled(&config.algorithm);
        let part = (belongs && !unled)
            .then(|| A::boot(Boot { id, members, config: &config.algorithm, timing, life, saved: None }));
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
            known: members.iter().chain(group.iter()).chain(saved.known).chain([id]).collect(),
            left: saved.left,
            called: saved.called,
            group,
            epoch: saved.epoch,
            part,
            unled,
            awaits_election: false,
            armed: BTreeSet::new(),
            acceptor: saved.acceptor,
            gathered_by: None,
            clock: LamportClock::default(),
            standing: Standing::Idle,
            down: BTreeMap::new(),
            lives: Lives::from_iter((life > Incarnation::FIRST).then_some((id, life))),
            ended: BTreeSet::new(),
            newcomers: BTreeSet::new(),
            leavers: BTreeSet::new(),
            round: None,
            probe: None,
            asked_where: BTreeSet::new(),
            lease: Lease::default(),
            early: Vec::new(),
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        let out = &mut erased(out);
        // What the application asks for was asked before it could hear that its lease is over.
        if !matches!(input, Input::Request(Asked::App(_))) {
            self.maybe_overdue(out);
        }
        match input {
            Input::Start if self.part.is_some() => self.play(Input::Start, out),
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
            Input::Request(Asked::App(request)) => self.ask(request, out),
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

    /// Of our part, as far as our application knows of it.
    fn phase(&self) -> Phase {
        match self.standing {
            Standing::Idle => Phase::IDLE,
            Standing::Waiting { .. } => Phase::WAITING,
            Standing::Inside { .. } => Phase::HOLDING,
        }
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        visit(Counter::exact(SINCE, self.clock.value_mut()));
        visit_standing(&mut self.standing, visit);
        if let Some((_, roll)) = &mut self.acceptor.accepted {
            visit_roll(roll, visit);
        }
        if let Some(round) = &mut self.round {
            round.visit_counters(visit);
        }
        if let Some(part) = &mut self.part {
            part.visit_counters(visit);
        }
        for early in &mut self.early {
            early.message.visit_counters(early.from, &self.group, visit);
        }
    }

    /// Leases and polls go by the clock.
    fn reads_clock(&self) -> bool {
        self.config.consent == Consent::Majority || self.config.poll.is_some()
    }

    fn assert_invariants(&self) {
        if let Some(part) = &self.part {
            part.assert_invariants();
        }
        if self.config.mutation.is_some() {
            return;
        }

        assert!(self.known.contains(&self.id), "we know of ourselves");
        assert!(self.part.is_none() || self.group.contains(self.id), "only a member has a part in the epoch");
        if let Some((ballot, roll)) = &self.acceptor.accepted {
            assert!(*ballot <= self.acceptor.promised, "what was accepted was promised");
            assert!(roll.epoch > self.epoch, "a roll that waits to be installed is later than our epoch");
        }
        if let Some(round) = &self.round {
            assert!(self.gathered_by == Some(self.id), "who calls the roll waits for its own roll");
            round.assert_invariants(self.id, self.acceptor.promised);
        }
        assert!(
            self.probe.is_none() || A::moves_token(&self.config.algorithm),
            "a token is looked for only where there is one"
        );
        assert!(self.early.len() <= MOST_EARLY, "few messages wait for their epoch");
        if let Standing::Waiting { since, .. } = self.standing {
            assert!(since.process == self.id, "we wait with a request of our own");
            assert!(since.time <= self.clock.time(), "a request is no later than the clock");
        }
        if let (Standing::Inside { .. }, Some(part), true) = (self.standing, &self.part, self.is_active()) {
            assert!(part.phase() == Phase::HOLDING, "who is inside is inside in its epoch, too");
        }
        assert!(
            self.config.consent == Consent::Majority || !self.lease.is_pending(),
            "without leases a grant needs no confirmation"
        );
    }
}

/// Whether these can be the members of a group.
fn is_listed(group: &[NodeId]) -> bool {
    let distinct: BTreeSet<_> = group.iter().collect();
    !group.is_empty() && distinct.len() == group.len()
}

impl<A: Mutex> Assembly<A> {
    /// The algorithm, if this process takes part in it.
    #[must_use]
    pub fn part(&self) -> Option<&A> {
        self.part.as_ref()
    }

    /// The epoch that this process is in.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether the algorithm goes on: we are a member, and nobody is calling a roll.
    fn is_active(&self) -> bool {
        self.part.is_some() && self.gathered_by.is_none()
    }

    /// Who leads, as far as we know.
    fn leader(&self) -> Option<NodeId> {
        self.elected.or(self.convener).filter(|leader| !self.down.contains_key(leader))
    }

    fn leads(&self) -> bool {
        self.leader() == Some(self.id)
    }

    fn receive(&mut self, from: NodeId, message: AssemblyMessage<A::Message>, out: &mut impl Effects<Self>) {
        match message {
            Msg::Part { epoch, time, message } => self.on_part(from, epoch, time, message, out),
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
                if self.part.is_none() && !self.leavers.contains(&self.id) {
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
            Msg::Leave => {
                self.leavers.insert(from);
                self.maybe_gather(out);
            }
            Msg::Expelled { group, .. } if !is_listed(&group) => {
                out.reject(from, "a roll names each member once");
            }
            Msg::Expelled { epoch, group } => self.on_expelled(from, epoch, group, out),
            Msg::Missing { epoch } => {
                self.set_right(from, epoch, out);
                if self.leads() {
                    self.search(out);
                }
            }
            Msg::Lost { epoch } => self.on_lost(epoch, out),
            Msg::Where { epoch, again } => self.on_where(from, epoch, again, out),
            Msg::Here { epoch, again, found } => self.on_here(from, epoch, again, found, out),
            Msg::Renew { epoch, number } => {
                if epoch == self.epoch && self.is_active() {
                    out.send(from, Msg::Renewed { epoch, number });
                }
            }
            Msg::Renewed { epoch, number } => self.on_renewed(from, epoch, number, out),
        }
    }

    fn expire(&mut self, timer: AssemblyTimer<A::Timer>, out: &mut impl Effects<Self>) {
        match timer {
            Timer::Part(timer) => {
                // Where a roll is being called, it is as good as over: the next epoch arms its own.
                if self.armed.remove(&timer) && self.is_active() {
                    self.play(Input::Expire(timer), out);
                }
            }
            Timer::Patience => self.on_patience(out),
            Timer::Probe => self.on_probe_timeout(out),
            Timer::Gather => self.on_gather_timeout(out),
            Timer::CheckIn => self.on_check_in_timeout(out),
            Timer::Poll => self.on_poll(out),
            Timer::Quarantine => self.on_quarantine_over(out),
            Timer::Renew => self.on_renew(out),
            Timer::Lease => self.on_lease_over(out),
        }
    }
}

/// The application.
impl<A: Mutex> Assembly<A> {
    fn ask(&mut self, request: Request, out: &mut impl Effects<Self>) {
        match (request, self.standing) {
            (Request::Acquire, Standing::Idle) if !self.leavers.contains(&self.id) => {
                let since = Stamp { time: self.clock.tick(), process: self.id };
                self.standing = Standing::Waiting { since, queued: false };
                self.arm_patience(out);
                self.pass_on(Request::Acquire, out);
                self.maybe_queued(since.time);
                if self.unled {
                    out.emit(Told::Elect);
                }
            }
            (Request::Release, Standing::Inside { .. }) => {
                self.standing = Standing::Idle;
                self.end_lease(out);
                self.pass_on(Request::Release, out);
            }
            (Request::Cancel, Standing::Waiting { .. }) => {
                self.standing = Standing::Idle;
                out.disarm(Timer::Patience);
                self.withdraw(out);
            }
            (Request::Leave, Standing::Idle) if self.part.is_some() => {
                self.leavers.insert(self.id);
                self.follow(out);
            }
            _ => out.emit(Told::App(Event::Refused(request))),
        }
    }

    /// Hands our part what the application wants. While a roll is called it learns of it with the next epoch.
    fn pass_on(&mut self, request: Request, out: &mut impl Effects<Self>) {
        if self.is_active() {
            self.play(Input::Request(request), out);
        }
    }

    /// Our application no longer wants what our part waits for, or has got without its knowledge.
    fn withdraw(&mut self, out: &mut impl Effects<Self>) {
        self.end_lease(out);
        let holds = self.part.as_ref().is_some_and(|part| part.phase() == Phase::HOLDING);
        self.pass_on(if holds { Request::Release } else { Request::Cancel }, out);
    }

    /// Hands our part an input.
    fn play(&mut self, input: Input<A>, out: &mut impl Effects<Self>) {
        let Some(mut part) = self.part.take() else { return };
        let mut events = Vec::new();
        part.handle(input, &mut erased(&mut self.lifted(&mut events, out)));
        let suspected = part.suspected().filter(|peer| !self.down.contains_key(peer));
        self.part = Some(part);
        self.hear(events, out);
        if let Some(peer) = suspected {
            self.on_peer_down(peer, self.life_of(peer), out);
        }
    }

    /// Puts the epoch on what our part sends; what it tells the application is kept for [`hear`](Self::hear).
    fn lifted<'a>(
        &'a mut self,
        events: &'a mut Vec<Event>,
        out: &'a mut impl Effects<Self>,
    ) -> impl Effects<A> + 'a {
        let (epoch, time, armed) = (self.epoch, self.clock.time(), &mut self.armed);
        let now = out.now();
        Through::new(now, move |effect: Effect<A>| match effect {
            // What a part saves would be void in the next epoch.
            Effect::Save(_) => {}
            Effect::Send { to, message } => out.send(to, Msg::Part { epoch, time, message }),
            Effect::Arm { timer, after } => {
                armed.insert(timer.clone());
                out.arm(Timer::Part(timer), after);
            }
            Effect::Disarm(timer) => {
                armed.remove(&timer);
                out.disarm(Timer::Part(timer));
            }
            Effect::Emit(event) => events.push(event),
            Effect::Reject { from, why } => out.reject(from, why),
        })
    }

    /// Passes on what our part has to say, as far as our application wants to hear it.
    fn hear(&mut self, events: Vec<Event>, out: &mut impl Effects<Self>) {
        for event in events {
            match (event, self.standing) {
                (Event::Granted { fence }, Standing::Waiting { .. }) => match self.config.consent {
                    Consent::Living => self.enter(fence, out),
                    Consent::Majority => self.confirm(fence, out),
                },
                // It was given up while the roll was called that brought this.
                (Event::Granted { .. }, Standing::Idle | Standing::Inside { .. }) => {}
                // The algorithm itself has found out that somebody else may be inside.
                (Event::Lost { .. }, _) => self.lose(out),
                (Event::Refused(_) | Event::Left, _) => {}
            }
        }
    }

    fn enter(&mut self, fence: crate::mutex::Fence, out: &mut impl Effects<Self>) {
        debug_assert!(matches!(self.standing, Standing::Waiting { .. }), "only who waits enters");
        self.standing = Standing::Inside { fence };
        out.disarm(Timer::Patience);
        out.emit(Told::App(Event::Granted { fence }));
    }

    /// We are, or may be, no longer inside.
    fn lose(&mut self, out: &mut impl Effects<Self>) {
        if let Standing::Inside { fence } = self.standing {
            self.standing = Standing::Idle;
            self.end_lease(out);
            out.emit(Told::App(Event::Lost { fence }));
        }
    }

    fn on_part(
        &mut self,
        from: NodeId,
        epoch: Epoch,
        time: u64,
        message: A::Message,
        out: &mut impl Effects<Self>,
    ) {
        match self.keeps_queue() {
            // Whoever asks is told when by our clock: later than everyone before it.
            true => self.clock.receive(time),
            false => {
                self.clock.witness(time);
                time
            }
        };
        if epoch > self.epoch || (epoch == self.epoch && self.unled) {
            if self.early.len() < MOST_EARLY {
                self.early.push(Early { epoch, from, message });
            } else {
                out.reject(from, "more messages wait for their epoch than there is room for");
            }
        } else if !self.group.contains(from) {
            self.set_right(from, epoch, out);
        } else if epoch == self.epoch && self.is_active() {
            if A::token_in(&message).is_some() {
                self.asked_where.clear();
            }
            self.play(Input::Receive { from, message }, out);
            self.maybe_queued(time);
        }
    }

    fn keeps_queue(&self) -> bool {
        self.part.as_ref().is_some_and(A::keeps_queue)
    }

    /// Our request is in the queue of a coordinator: from now on it stands where it stands there.
    fn maybe_queued(&mut self, time: u64) {
        let is_queued = self.part.as_ref().is_some_and(A::is_queued);
        if let Standing::Waiting { since, queued } = &mut self.standing
            && is_queued
            && !*queued
        {
            (since.time, *queued) = (time, true);
        }
    }
}
