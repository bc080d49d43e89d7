//! A replicated log: Paxos, once for every slot.
//!
//! Lamport: *Paxos made simple*, ACM SIGACT News 32(4), 2001, section 3. Every slot of the log is decided by a [`Synod`] of its own.
//! Whoever has something to propose proposes it for the first slot that it does not know to be decided. If another value wins
//! that slot, it goes on with the next one. So all proposals get into one order, each once, and the log of one process is the
//! beginning of the log of any other.
//!
//! ```text
//!   p1 proposes 7          p2 proposes 9
//!   slot 1: ballot 1p1     slot 1: ballot 1p2 outbids it and wins
//!   slot 2: ballot 1p1 wins
//!   all: 1 = 9, 2 = 7
//! ```
//!
//! An entry carries who proposed it and its number there, so that equal values are told apart and none is decided twice. What
//! several machines do in the order of the log they do alike: with `replica=counter` every process adds the values up, and tells
//! the total.
//!
//! **Cost**: 5(n − 1) per entry, if one process proposes at a time.
//!
//! **Assumes** what [`Paxos`](super::Paxos) does, for every slot.
//!
//! **Caveats**: nobody is elected to propose for all, and so every entry costs two round trips. The log is never cut, all of it
//! is saved with every step, and whoever comes back is sent all of it. Values that were proposed and not decided are gone with a
//! crash of their process.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;

use conclave_core::{
    Boot, Effects, Incarnation, Input, Members, Message, NodeId, NodeSet, Phase, Protocol, Timing,
};
use serde::{Deserialize, Serialize};

use super::paxos::{PaxosTimer, patience};
use super::synod::{Mutation, Step, Synod, SynodMessage as Msg};
use super::{AnyConfig, Consensus, Event, FAMILY, Needs, PaxosConfig, Propose};
use crate::recovery::ballot::Acceptor;
use crate::{
    About, Algorithm, Channels, Formula, STRANGER, Setting, SettingError, Settings, Synchrony, Topology,
    Values,
};

/// A process: acceptor, proposer and learner of every slot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PaxosLog {
    id: NodeId,
    members: Members,
    config: LogConfig,
    timing: Timing,
    life: Incarnation,
    /// Who is reported down.
    down: NodeSet,
    /// What is decided. There may be gaps.
    log: BTreeMap<u64, Known>,
    /// What is not.
    synods: BTreeMap<u64, Synod<Entry>>,
    /// What our application proposes, the first of it now.
    pending: VecDeque<Entry>,
    /// How many ballots the first took so far.
    ballots: u32,
    /// How many values our application has proposed in this life.
    proposed: u32,
    /// How many slots it was told of, and the sum of their values.
    told: (u64, u64),
}

/// A slot that is decided.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Known {
    entry: Entry,
    /// Who told us. If it dies, it may not have told the others.
    told_by: Option<NodeId>,
}

/// A value and where it comes from: no two entries are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Entry {
    /// What was proposed.
    pub value: u64,
    /// Who proposed it.
    pub by: NodeId,
    /// In which of its lives.
    pub life: Incarnation,
    /// As which of its proposals.
    pub nth: u32,
}

/// Settings of [`PaxosLog`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogConfig {
    /// Those of every slot.
    pub paxos: PaxosConfig,
    /// Whether the values are added up.
    pub counts: bool,
}

/// What processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LogMessage {
    /// About which slot.
    pub slot: u64,
    /// What.
    pub message: Msg<Entry>,
}

impl Message for LogMessage {
    fn kind(&self) -> &'static str {
        self.message.kind()
    }

    fn envelopes(&self) -> u32 {
        1
    }

    fn postmark(&self) -> String {
        format!("@{}", self.slot)
    }
}

/// What a process saves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LogDurable {
    /// What is decided.
    pub log: BTreeMap<u64, Entry>,
    /// What it has promised and accepted for the other slots.
    pub acceptors: BTreeMap<u64, Acceptor<Entry>>,
}

impl Protocol for PaxosLog {
    type Config = LogConfig;
    type Message = LogMessage;
    type Request = Propose;
    type Event = Event;
    type Timer = PaxosTimer;
    type Durable = LogDurable;

    fn boot(boot: Boot<'_, Self>) -> Self {
        let (log, acceptors) = boot.saved.map_or_else(Default::default, |saved| (saved.log, saved.acceptors));
        let known = |(slot, entry)| (slot, Known { entry, told_by: None });
        Self {
            id: boot.id,
            members: boot.members.clone(),
            config: *boot.config,
            timing: boot.timing,
            life: boot.life,
            down: NodeSet::new(),
            log: log.into_iter().map(known).collect(),
            synods: acceptors.into_iter().map(|(slot, acceptor)| (slot, Synod::new(acceptor))).collect(),
            pending: VecDeque::new(),
            ballots: 0,
            proposed: 0,
            told: (0, 0),
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Receive { from, .. } if !self.members.has_other(self.id, from) => {
                out.reject(from, STRANGER);
            }
            Input::Receive { from, message: LogMessage { slot, message } } => {
                match message.breach(&self.members) {
                    Some(why) => out.reject(from, why),
                    None if slot == 0 => out.reject(from, "slots are counted from 1"),
                    None => self.receive(from, slot, message, out),
                }
            }
            Input::Request(propose) => self.on_propose(propose.value(self.id), out),
            Input::Expire(PaxosTimer::Retry) => self.begin(out),
            Input::PeerDown { peer, .. } => {
                self.down.insert(peer);
                self.maybe_relay(out);
            }
            // Whoever comes back may have missed decisions.
            Input::PeerUp { peer, .. } => {
                self.down.remove(peer);
                for (slot, Known { entry, .. }) in &self.log {
                    out.send(peer, decided(*slot, *entry));
                }
            }
            // Our last life may have crashed before it told anybody.
            Input::Start => {
                self.tell_application(out);
                for (slot, Known { entry, .. }) in &self.log {
                    out.send_all(self.members.others(self.id), &decided(*slot, *entry));
                }
            }
        }
    }

    fn phase(&self) -> Phase {
        if self.pending.is_empty() { Phase::IDLE } else { Phase::WAITING }
    }

    fn assert_invariants(&self) {
        assert!(self.log.keys().all(|slot| !self.synods.contains_key(slot)), "what is decided is not open");
        let is_proposing = |synod: &&Synod<Entry>| synod.is_proposing();
        let proposing = self.synods.values().filter(is_proposing).count();
        assert!(proposing <= 1, "a process proposes for one slot at a time");
        assert!(proposing == 0 || !self.pending.is_empty(), "a ballot is for a proposal");
        self.synods.values().for_each(Synod::assert_invariants);
    }
}

fn decided(slot: u64, entry: Entry) -> LogMessage {
    LogMessage { slot, message: Msg::Decide { value: entry } }
}

impl PaxosLog {
    fn on_propose(&mut self, value: u64, out: &mut impl Effects<Self>) {
        self.proposed = self.proposed.saturating_add(1);
        self.pending.push_back(Entry { value, by: self.id, life: self.life, nth: self.proposed });
        if self.pending.len() == 1 {
            self.begin(out);
        }
    }

    fn receive(&mut self, from: NodeId, slot: u64, message: Msg<Entry>, out: &mut impl Effects<Self>) {
        let Some(Known { entry, .. }) = self.log.get(&slot) else {
            let synod = self.synods.entry(slot).or_insert_with(|| Synod::new(Acceptor::default()));
            let step = synod.receive(from, message, self.config.paxos.group(self.id, &self.members));
            return self.carry_out(from, slot, step, out);
        };
        // Whoever still asks is told; nothing else can be of interest.
        match message {
            Msg::Prepare { .. } | Msg::Accept { .. } => out.send(from, decided(slot, *entry)),
            Msg::Promise { .. } | Msg::Accepted { .. } | Msg::Nack { .. } | Msg::Decide { .. } => {}
        }
    }

    /// The first slot that is not known to be decided.
    fn first_open(&self) -> u64 {
        (1..)
            .zip(self.log.keys())
            .find(|(slot, known)| slot != *known)
            .map_or(self.log.len() as u64 + 1, |(slot, _)| slot)
    }

    /// Begins the next ballot for the first proposal, or gives it up.
    fn begin(&mut self, out: &mut impl Effects<Self>) {
        let Some(entry) = self.pending.front() else { return };
        let slot = self.first_open();
        let synod = self.synods.entry(slot).or_insert_with(|| Synod::new(Acceptor::default()));
        let is_over = self.ballots == self.config.paxos.ballots;
        let group = self.config.paxos.group(self.id, &self.members);
        let step = if is_over { Step::Nothing } else { synod.begin(*entry, group) };
        if step == Step::Nothing {
            synod.abandon();
            out.emit(Event::GaveUp);
            return self.go_on(out);
        }
        self.ballots += 1;
        out.arm(PaxosTimer::Retry, patience(self.timing, self.ballots));
        self.carry_out(self.id, slot, step, out);
    }

    /// The first proposal is decided or given up.
    fn go_on(&mut self, out: &mut impl Effects<Self>) {
        self.pending.pop_front();
        self.ballots = 0;
        out.disarm(PaxosTimer::Retry);
        self.begin(out);
    }

    fn carry_out(&mut self, from: NodeId, slot: u64, step: Step<Entry>, out: &mut impl Effects<Self>) {
        match step {
            // When our time is over, the next ballot begins.
            Step::Nothing | Step::Outbid => {}
            Step::Refuse(message) => out.send(from, LogMessage { slot, message }),
            Step::Yield(message) => {
                self.save(out);
                out.send(from, LogMessage { slot, message });
            }
            Step::Broadcast(message) => {
                self.save(out);
                out.send_all(self.members.others(self.id), &LogMessage { slot, message });
            }
            Step::Chosen(entry) => {
                let was_first = self.learn(slot, entry, None, out);
                out.send_all(self.members.others(self.id), &decided(slot, entry));
                self.maybe_go_on(entry, was_first, out);
            }
            Step::Told(entry) => {
                let was_first = self.learn(slot, entry, Some(from), out);
                self.maybe_relay(out);
                self.maybe_go_on(entry, was_first, out);
            }
        }
    }

    /// A slot is decided; says whether it was the first that was not.
    fn learn(
        &mut self,
        slot: u64,
        entry: Entry,
        told_by: Option<NodeId>,
        out: &mut impl Effects<Self>,
    ) -> bool {
        let was_first = slot == self.first_open();
        self.synods.remove(&slot);
        self.log.insert(slot, Known { entry, told_by });
        self.save(out);
        self.tell_application(out);
        was_first
    }

    /// Tells the application what follows without a gap.
    fn tell_application(&mut self, out: &mut impl Effects<Self>) {
        while let Some(Known { entry, .. }) = self.log.get(&(self.told.0 + 1)) {
            let (slot, total) = (self.told.0 + 1, self.told.1.saturating_add(entry.value));
            self.told = (slot, total);
            out.emit(Event::Logged { slot, value: entry.value, total: self.config.counts.then_some(total) });
        }
    }

    /// If our first proposal is decided, the next one follows. If another value has won the slot for which we proposed it, we
    /// go on with the next slot.
    fn maybe_go_on(&mut self, entry: Entry, was_first: bool, out: &mut impl Effects<Self>) {
        if self.pending.front() == Some(&entry) {
            self.go_on(out);
        } else if was_first && !self.pending.is_empty() {
            self.ballots = 0;
            self.begin(out);
        }
    }

    /// Tells all others in place of somebody who may have died before it could.
    fn maybe_relay(&mut self, out: &mut impl Effects<Self>) {
        for (slot, Known { entry, told_by }) in &mut self.log {
            if told_by.is_some_and(|peer| self.down.contains(peer)) {
                *told_by = None;
                out.send_all(self.members.others(self.id), &decided(*slot, *entry));
            }
        }
    }

    fn save(&self, out: &mut impl Effects<Self>) {
        if self.config.paxos.mutation != Some(Mutation::NoStableStorage) {
            out.save(LogDurable {
                log: self.log.iter().map(|(slot, known)| (*slot, known.entry)).collect(),
                acceptors: self.synods.iter().map(|(slot, synod)| (*slot, synod.acceptor.clone())).collect(),
            });
        }
    }
}

impl Algorithm for PaxosLog {
    const ABOUT: About = About {
        name: "paxos-log",
        title: "Replicated log",
        paper: "Lamport, Paxos made simple, ACM SIGACT News 32(4), 2001",
        idea: "Paxos for every slot: one order for all proposals",
        family: FAMILY,
        channels: Channels::Any,
        synchrony: Synchrony::Asynchronous,
        topology: Topology::Complete,
        cost: "5(n − 1) per entry with one proposer",
        faults: "crashes and restarts while a majority is up; loss and wrong suspicions never break agreement",
        settings: &[
            PaxosConfig::BALLOTS,
            Setting {
                key: "replica",
                values: Values::OneOf(&["log", "counter"]),
                default: "log",
                unsafe_values: &[],
                help: "what is kept in the order of the log: nothing else, or the sum of all values",
            },
        ],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<LogConfig, SettingError> {
        Ok(LogConfig { paxos: PaxosConfig::read(settings), counts: settings.get("replica") == "counter" })
    }
}

impl Consensus for PaxosLog {
    fn any(config: LogConfig) -> AnyConfig {
        AnyConfig::PaxosLog(config)
    }

    fn needs(_config: &LogConfig) -> Needs {
        Needs { most_crashes: None, majority: true, returns: true, is_log: true }
    }

    fn formula(_config: &LogConfig, members: &Members, proposals: u64) -> Formula {
        let one = 5 * (members.len() as u64 - 1);
        match proposals {
            0 => Formula::exactly("nothing is proposed", 0),
            1 => Formula::exactly("5(n − 1) per entry", one),
            _ => Formula { text: "5(n − 1) per entry", low: 0, high: None },
        }
    }
}
