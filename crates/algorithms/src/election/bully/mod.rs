//! The bully: whoever hears of no living process above itself takes the office.
//!
//! Garcia-Molina: *Elections in a distributed computing system*, IEEE Transactions on Computers C-31(1), 1982. Stoller:
//! *Leader election in distributed systems with crash failures*, Indiana University TR 481, 1997, drives the same
//! idea by a failure detector; here the detector only says that the leader is gone, the rest is time-outs.
//!
//! A process that misses the leader calls all above it (`Election`). Whoever lives answers (`Answer`), which ends the
//! hopes of the caller, and holds an election of its own. A process that nobody has answered within a round trip leads,
//! and says so to all below it (`Coordinator`). If the announcement does not come, the caller begins again.
//!
//! ```text
//!   p1 ───────────────────────────────────────▶ follows p3      p4 has led and is dead
//!                                           ╱
//!   p2 ──●───────────▶ gives way ──────────╱──▶ follows p3      ● p2 misses it, and calls p3 and p4
//!         ╲ Election  ╱ Answer            ╱ ╱
//!   p3 ────●─────────●── nobody answers ─●─────▶ leads          Coordinator to all below
//!           ╲ Election      for T
//!   p4 ✗     ✗
//! ```
//!
//! A process that comes back after a crash holds an election at once; the highest of all thereby takes the office from
//! a leader that is alive and well, and gives the algorithm its name. A leader that is called answers, and repeats its
//! announcement to the caller alone.
//!
//! **Retirement**: who retires tells all, and ranks below everyone until its next life: it may call an election, and
//! answers one by saying that it has retired, but never wins. When a leader retires, the highest of the others, as far as
//! each can tell, holds an election; the others wait for it as they would after an `Answer`.
//!
//! **Priorities** are (weight, id), see [`Weights`]; "above" and "highest" mean these. With `order=lowest` the smallest of
//! them is the highest in rank, and everything else stays.
//!
//! **Announcements** go to those below, who are the only ones that can have missed the outcome; with `announce=all` to
//! everyone, the dead above included, as some texts have it.
//!
//! **Detection**: a failure detector says that the leader is gone (`watch=detector`). A process can also find out for itself.
//! With `watch=ping` a call (`start`) first puts a request to the leader, `Ping`, and becomes an election only if no `Pong` has
//! come within T. With `watch=heartbeat` the leader says `Alive` every T, and who has missed one holds an election. So that a run
//! comes to an end, a leader stops after `beats` of them, and says in the last one that there are no more.
//!
//! **Cost**, with the highest dead, and m living processes from the lowest caller up: m(m + 1)/2 `Election`,
//! m(m − 1)/2 `Answer`, n − 2 `Coordinator`, together m² + n − 2; at best n − 1, at worst n² − n − 1. A process that
//! comes back costs m² − 1 when the highest is in office, m counted from it up; n − 1 if it is the highest itself.
//!
//! **Assumes** reliable channels of any order, and known bounds on the time of a message and of its handling: T, a round
//! trip, for an answer, and T′, a round trip more, for the announcement. Processes may crash and come back at any time.
//!
//! **Caveats**: where a bound is broken, two lead. `patience=no-processing` breaks one by design: T without the time in which an
//! answer is made is too short as soon as that takes any time. With `skip-known-dead` a wrong suspicion is enough for that. And even
//! where all bounds hold, a process that comes back under its old id while its successor announces itself can leave the
//! group divided (Coulouris and others, *Distributed Systems*, section 15.3): the two announcements overtake each other.
//! With `mode=hardened` announcements are numbered, and a leader acts only with a majority behind it; the rules stand
//! in `hardened.rs`. That costs two round trips more, and without a living majority nobody leads.

mod hardened;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use conclave_core::{
    After, Boot, Counter, Effects, Incarnation, Input, Members, Message, NodeId, NodeSet, Phase, Protocol,
    Timing,
};
use serde::{Deserialize, Serialize};

use super::{Election, Event, Request, TERM, Tally, Weights, phase};
use crate::{
    About, Algorithm, Channels, Formula, STRANGER, Setting, SettingError, Settings, Synchrony, Topology,
    Values,
};

/// A process of the bully algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bully {
    id: NodeId,
    members: Members,
    config: BullyConfig,
    timing: Timing,
    life: Incarnation,
    stage: Stage,
    /// Who leads; nobody while we do not know.
    elected: Option<NodeId>,
    /// What the application was last told.
    told: Option<Claim>,
    /// The latest claim that we know of, of term 0 if there was none; it never gives way to another of the same term.
    /// In plain mode nothing is ever numbered, and the term stays what it is.
    known: Claim,
    /// Who is suspected.
    down: NodeSet,
    /// Who has retired, perhaps ourselves.
    retired: NodeSet,
    /// We have put a request to the leader, and it has not answered yet. `watch=ping` only.
    asked: bool,
    /// How often we still say that we are alive, as the leader. `watch=heartbeat` only.
    beats: u64,
}

/// How far the election is that this process takes part in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// There is none.
    Normal,
    /// Asked all for the latest claim. Hardened mode only.
    Syncing,
    /// Called all above us.
    AwaitingAnswers,
    /// Somebody above us is alive and will announce itself.
    AwaitingCoordinator,
    /// Announced ourselves; these have acknowledged it. Hardened mode only.
    Announcing { acks: NodeSet },
}

/// Somebody leads in a term, or wants to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// The number of the announcement.
    pub term: u64,
    /// Who announced itself.
    pub leader: NodeId,
}

/// Settings of [`Bully`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BullyConfig {
    mode: Mode,
    skip_known_dead: bool,
    weights: Weights,
    /// Whether the lowest leads.
    lowest: bool,
    /// Whether an announcement goes to those above, too.
    announces_to_all: bool,
    watch: Watch,
    /// How often a leader says that it is alive.
    beats: u64,
    /// Whether T leaves out the time in which an answer is made.
    is_hasty: bool,
    mutation: Option<Mutation>,
}

/// What makes a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mode {
    /// Its announcement.
    Plain,
    /// The acknowledgement of a majority.
    Hardened,
}

/// How it is noticed that the leader is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Watch {
    /// A failure detector says so.
    Detector,
    /// A request to it is not answered.
    Ping,
    /// It no longer says that it is alive.
    Heartbeat,
}

/// What the processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BullyMessage {
    /// The leader is missing; are you, who are above me, alive?
    Election,
    /// I am alive, and shall see to it.
    Answer,
    /// I lead.
    Coordinator {
        /// The number of the announcement; 0 in plain mode.
        term: u64,
    },
    /// I no longer stand for election in this life.
    Retire,
    /// What is the latest claim that you know of?
    Sync,
    /// This is the latest claim that I know of.
    Synced(Claim),
    /// I have acknowledged you, and nobody else, in this term.
    Ack {
        /// The term.
        term: u64,
    },
    /// I refuse your claim, because I know of this one.
    Nack(Claim),
    /// A request to the leader; is it there?
    Ping,
    /// It is.
    Pong,
    /// I lead, and am alive.
    Alive {
        /// How often I shall say so again.
        left: u64,
    },
}

use BullyMessage as Msg;

impl Message for BullyMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Election, Answer, Coordinator, Retire, Sync, Synced, Ack, Nack, Ping, Pong, Alive)
    }

    fn is_overhead(&self) -> bool {
        match self {
            Msg::Election | Msg::Answer | Msg::Coordinator { .. } | Msg::Retire => false,
            Msg::Sync | Msg::Synced(_) | Msg::Ack { .. } | Msg::Nack(_) => true,
            Msg::Ping | Msg::Pong | Msg::Alive { .. } => true,
        }
    }

    fn visit_counters(&mut self, _from: NodeId, _members: &Members, visit: &mut dyn FnMut(Counter<'_>)) {
        match self {
            Msg::Election | Msg::Answer | Msg::Retire | Msg::Sync => {}
            Msg::Ping | Msg::Pong | Msg::Alive { .. } => {}
            Msg::Coordinator { term } | Msg::Ack { term } => visit(Counter::exact(TERM, term)),
            Msg::Synced(claim) | Msg::Nack(claim) => visit(Counter::exact(TERM, &mut claim.term)),
        }
    }
}

/// The timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BullyTimer {
    /// All who are alive have had the time to answer.
    Answer,
    /// Whoever is above us has had the time to announce itself.
    Coordinator,
    /// The leader has had the time to answer us, or to say that it is alive.
    Watch,
    /// Time to say that we are alive.
    Beat,
}

impl Protocol for Bully {
    type Config = BullyConfig;
    type Message = BullyMessage;
    type Request = Request;
    type Event = Event;
    type Timer = BullyTimer;
    type Durable = Claim;

    fn boot(boot: Boot<'_, Self>) -> Self {
        Self {
            id: boot.id,
            members: boot.members.clone(),
            config: boot.config.clone(),
            timing: boot.timing,
            life: boot.life,
            stage: Stage::Normal,
            elected: None,
            told: None,
            known: boot.saved.unwrap_or(Claim { term: 0, leader: boot.id }),
            down: NodeSet::new(),
            retired: NodeSet::new(),
            asked: false,
            beats: 0,
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            // A first life waits to be asked. A process that comes back may be the highest of all.
            Input::Start => {
                if self.life > Incarnation::FIRST {
                    self.start(out);
                }
            }
            Input::Receive { from, .. } if !self.members.has_other(self.id, from) => {
                out.reject(from, STRANGER);
            }
            Input::Receive { from, message } => self.receive(from, &message, out),
            Input::Expire(BullyTimer::Answer) => self.on_answer_timeout(out),
            Input::Expire(BullyTimer::Coordinator) => self.on_coordinator_timeout(out),
            Input::Expire(BullyTimer::Watch) => self.on_watch_timeout(out),
            Input::Expire(BullyTimer::Beat) => self.on_beat(out),
            Input::Request(Request::Start) => match self.config.watch {
                Watch::Ping => self.ask(out),
                Watch::Detector | Watch::Heartbeat => self.start(out),
            },
            Input::Request(Request::Retire) => self.retire(out),
            // The group is fixed.
            Input::Request(Request::Leave | Request::Reweigh(_)) => {}
            Input::PeerDown { peer, .. } => {
                self.down.insert(peer);
                if self.elected == Some(peer) {
                    self.start(out);
                }
            }
            // A new life stands for election again. One that was suspected wrongly and has retired before says so
            // when it is called.
            Input::PeerUp { peer, .. } => {
                self.down.remove(peer);
                self.retired.remove(peer);
            }
        }
    }

    fn phase(&self) -> Phase {
        phase(self.id, self.leaders(), self.is_participant())
    }

    fn visit_counters(&mut self, visit: &mut dyn FnMut(Counter<'_>)) {
        visit(Counter::exact(TERM, &mut self.known.term));
        if let Some(told) = &mut self.told {
            visit(Counter::exact(TERM, &mut told.term));
        }
    }

    fn assert_invariants(&self) {
        if self.config.mutation.is_some() {
            return;
        }

        assert!(!self.asked || self.config.watch == Watch::Ping, "who pings has asked the leader");
        assert!(self.beats == 0 || self.config.watch == Watch::Heartbeat, "who beats is listened to");
        let is_hardened = self.config.mode == Mode::Hardened;
        if let Some(leader) = self.elected {
            assert!(self.stage == Stage::Normal, "who knows who leads takes part in no election");
            assert!(self.members.contains(leader), "a member leads");
            assert!(
                self.told.is_some_and(|told| told.leader == leader),
                "the application was told who leads"
            );
        }
        let leads = self.elected == Some(self.id);
        match &self.stage {
            Stage::Normal => {
                assert!(!(leads && self.retired.contains(self.id)), "who has retired does not lead");
            }
            Stage::Syncing => assert!(is_hardened, "claims belong to the hardened mode"),
            Stage::AwaitingAnswers | Stage::AwaitingCoordinator => {}
            Stage::Announcing { acks } => {
                assert!(is_hardened, "claims belong to the hardened mode");
                assert!(self.known.leader == self.id, "who announces itself knows of no later claim");
                assert!(!self.retired.contains(self.id), "who has retired does not stand for election");
                assert!(
                    acks.contains(self.id) && acks.iter().all(|id| self.members.contains(id)),
                    "members acknowledge a claim, its maker first"
                );
                assert!(acks.len() <= self.members.len() / 2, "who has a majority behind it leads");
            }
        }
    }
}

impl Bully {
    /// No order of messages is impossible once processes restart and retire: each is taken as it comes.
    fn receive(&mut self, from: NodeId, message: &BullyMessage, out: &mut impl Effects<Self>) {
        match *message {
            Msg::Coordinator { term: u64::MAX }
            | Msg::Synced(Claim { term: u64::MAX, .. })
            | Msg::Ack { term: u64::MAX }
            | Msg::Nack(Claim { term: u64::MAX, .. }) => {
                out.reject(from, "no honest group has held so many elections");
            }
            Msg::Election => self.on_election(from, out),
            // Our hopes are over; whoever answered holds an election of its own.
            Msg::Answer => {
                if self.stage == Stage::AwaitingAnswers {
                    self.become_awaiting_coordinator(out);
                }
            }
            Msg::Coordinator { term } => match self.config.mode {
                Mode::Plain => self.on_coordinator(from, out),
                Mode::Hardened => self.on_claim(Claim { term, leader: from }, out),
            },
            Msg::Retire => self.on_retire(from, out),
            Msg::Sync | Msg::Synced(_) | Msg::Ack { .. } | Msg::Nack(_)
                if self.config.mode == Mode::Plain =>
            {
                out.reject(from, "terms belong to the hardened mode");
            }
            Msg::Sync => out.send(from, Msg::Synced(self.known)),
            Msg::Synced(claim) => self.on_synced(claim),
            Msg::Ack { term } => self.on_ack(from, term, out),
            Msg::Nack(claim) => self.on_nack(claim, out),
            Msg::Ping | Msg::Pong if self.config.watch != Watch::Ping => {
                out.reject(from, "nobody pings here");
            }
            // Only a leader answers: one that has come back since is no longer the one that was asked.
            Msg::Ping => {
                if self.claims_office() {
                    out.send(from, Msg::Pong);
                }
            }
            Msg::Pong => {
                if self.elected == Some(from) {
                    self.stop_watching(out);
                }
            }
            Msg::Alive { .. } if self.config.watch != Watch::Heartbeat => {
                out.reject(from, "no heart beats here");
            }
            Msg::Alive { left } => {
                if self.elected == Some(from) {
                    self.listen(left, out);
                }
            }
        }
    }

    /// Puts a request to the leader; if there is none, holds an election at once.
    fn ask(&mut self, out: &mut impl Effects<Self>) {
        match self.elected {
            Some(leader) if leader != self.id => {
                if !self.asked {
                    self.asked = true;
                    out.send(leader, Msg::Ping);
                    out.arm(BullyTimer::Watch, After::exactly(self.answer_timeout()));
                }
            }
            Some(_) | None => self.start(out),
        }
    }

    fn stop_watching(&mut self, out: &mut impl Effects<Self>) {
        if core::mem::take(&mut self.asked) {
            out.disarm(BullyTimer::Watch);
        }
    }

    /// Waits for the next heartbeat of the leader, if there is one to come. It leaves no later than T after the last sign of
    /// life was handled here, and travels no longer than any message.
    fn listen(&self, left: u64, out: &mut impl Effects<Self>) {
        if left > 0 {
            let one_way = self.timing.transmission + self.timing.processing;
            out.arm(BullyTimer::Watch, After::exactly(self.answer_timeout() + one_way));
        } else {
            out.disarm(BullyTimer::Watch);
        }
    }

    /// The leader has not answered, or has missed a beat.
    fn on_watch_timeout(&mut self, out: &mut impl Effects<Self>) {
        self.asked = false;
        if self.elected.is_some_and(|leader| leader != self.id) {
            self.start(out);
        }
    }

    /// We lead, or repeat that we do: whoever hears of it expects the next beat.
    fn begin_to_beat(&mut self, out: &mut impl Effects<Self>) {
        if self.config.watch != Watch::Heartbeat {
            return;
        }
        // A beat that is due comes when it is due: those who listen already do not wait longer.
        if core::mem::replace(&mut self.beats, self.config.beats) == 0 {
            out.arm(BullyTimer::Beat, After::exactly(self.answer_timeout()));
        }
    }

    fn on_beat(&mut self, out: &mut impl Effects<Self>) {
        if !self.claims_office() || self.beats == 0 {
            self.beats = 0;
            return;
        }
        self.beats -= 1;
        out.send_all(self.members.others(self.id), &Msg::Alive { left: self.beats });
        if self.beats > 0 {
            out.arm(BullyTimer::Beat, After::exactly(self.answer_timeout()));
        }
    }

    fn start(&mut self, out: &mut impl Effects<Self>) {
        if self.stage != Stage::Normal {
            return;
        }
        self.elected = None;
        match self.config.mode {
            Mode::Plain => self.call(out),
            Mode::Hardened => self.become_syncing(out),
        }
    }

    /// Calls all above us.
    fn call(&mut self, out: &mut impl Effects<Self>) {
        let above = |peer: &NodeId| {
            self.is_above(*peer) && !(self.config.skip_known_dead && self.down.contains(*peer))
        };
        let called: Vec<_> = self.members.others(self.id).filter(above).collect();
        out.send_all(called.iter().copied(), &Msg::Election);
        let wait = match self.config.mutation {
            Some(Mutation::NoAnswerWait) => None,
            Some(Mutation::OneWayWait) => Some(self.timing.transmission),
            Some(Mutation::SilentLeader) | None => Some(self.answer_timeout()),
        };
        match wait {
            Some(wait) if !called.is_empty() => {
                self.stage = Stage::AwaitingAnswers;
                out.arm(BullyTimer::Answer, After::exactly(wait));
            }
            _ => self.win(out),
        }
    }

    /// Nobody above us is alive.
    fn win(&mut self, out: &mut impl Effects<Self>) {
        self.stage = Stage::Normal;
        // Everyone else is above one who has retired: there is nobody left who could lead.
        if self.retired.contains(self.id) {
            return;
        }
        match self.config.mode {
            Mode::Plain => {
                self.announce(out);
                self.adopt(Claim { leader: self.id, ..self.known }, out);
            }
            Mode::Hardened => self.become_announcing(out),
        }
    }

    fn announce(&self, out: &mut impl Effects<Self>) {
        // Those above have not answered. Hardened, we tell them all the same: if their answer was lost, they take over.
        let everyone = self.config.mode == Mode::Hardened || self.config.announces_to_all;
        let told = self.members.others(self.id).filter(|peer| everyone || !self.is_above(*peer));
        out.send_all(told, &Msg::Coordinator { term: self.known.term });
    }

    fn on_election(&mut self, from: NodeId, out: &mut impl Effects<Self>) {
        // The caller cannot know, or it would not have called us; it has to tell us who wins.
        if self.retired.contains(self.id) {
            return out.send(from, Msg::Retire);
        }
        out.send(from, Msg::Answer);
        if !self.claims_office() {
            self.start(out);
        } else if self.config.mutation != Some(Mutation::SilentLeader) {
            out.send(from, Msg::Coordinator { term: self.known.term });
            self.begin_to_beat(out);
        }
    }

    /// Whether we lead, or have announced that we shall.
    fn claims_office(&self) -> bool {
        let claims = match self.stage {
            Stage::Normal => self.elected == Some(self.id),
            Stage::Announcing { .. } => true,
            Stage::Syncing | Stage::AwaitingAnswers | Stage::AwaitingCoordinator => false,
        };
        debug_assert!(
            !claims || self.config.mode == Mode::Plain || self.known.leader == self.id,
            "whoever claims the office knows of no later claim than its own"
        );
        claims
    }

    fn on_coordinator(&mut self, from: NodeId, out: &mut impl Effects<Self>) {
        if self.gives_way_to(from) {
            self.adopt(Claim { leader: from, ..self.known }, out);
        } else {
            // Somebody below us does not know that we are alive.
            self.start(out);
        }
    }

    /// The number that stands for a claim outside: two processes may claim the same term, but never the same number.
    fn number(&self, claim: Claim) -> u64 {
        if self.config.mode == Mode::Plain {
            return 0;
        }
        let place = self.members.position(claim.leader).unwrap_or(0) as u64;
        claim.term.saturating_sub(1).saturating_mul(self.members.len() as u64).saturating_add(place + 1)
    }

    /// Accepts a leader, ourselves perhaps; the election is over.
    fn adopt(&mut self, claim: Claim, out: &mut impl Effects<Self>) {
        let Claim { leader, .. } = claim;
        if self.stage != Stage::Normal {
            self.stage = Stage::Normal;
            out.disarm(BullyTimer::Answer);
            out.disarm(BullyTimer::Coordinator);
        }
        self.elected = Some(leader);
        self.stop_watching(out);
        if leader == self.id {
            self.begin_to_beat(out);
        } else if self.config.watch == Watch::Heartbeat {
            self.beats = 0;
            self.listen(self.config.beats, out);
        }
        // An announcement can outlive its sender, or be overtaken by its retirement. It may as well be that of a new
        // life; then the failure detector says so before long.
        if self.is_doubtful(leader) {
            out.arm(BullyTimer::Coordinator, After::exactly(self.coordinator_timeout()));
        }
        if self.told != Some(claim) {
            self.told = Some(claim);
            out.emit(Event::Elected { leaders: alloc::vec![leader], term: self.number(claim) });
        }
    }

    fn on_answer_timeout(&mut self, out: &mut impl Effects<Self>) {
        match self.stage {
            Stage::Syncing => self.call(out),
            Stage::AwaitingAnswers => self.win(out),
            Stage::Announcing { .. } => self.become_announcing(out),
            Stage::Normal | Stage::AwaitingCoordinator => {}
        }
    }

    fn on_coordinator_timeout(&mut self, out: &mut impl Effects<Self>) {
        match self.stage {
            // Whoever answered has crashed or retired since.
            Stage::AwaitingCoordinator => self.start_over(out),
            Stage::Normal => {
                if self.elected.is_some_and(|leader| self.is_doubtful(leader)) {
                    self.start(out);
                }
            }
            Stage::Syncing | Stage::AwaitingAnswers | Stage::Announcing { .. } => {}
        }
    }

    fn start_over(&mut self, out: &mut impl Effects<Self>) {
        self.stage = Stage::Normal;
        out.disarm(BullyTimer::Answer);
        self.start(out);
    }

    fn become_awaiting_coordinator(&mut self, out: &mut impl Effects<Self>) {
        self.stage = Stage::AwaitingCoordinator;
        out.disarm(BullyTimer::Answer);
        out.arm(BullyTimer::Coordinator, After::exactly(self.coordinator_timeout()));
    }

    fn retire(&mut self, out: &mut impl Effects<Self>) {
        if !self.retired.insert(self.id) {
            return;
        }
        out.send_all(self.members.others(self.id), &Msg::Retire);
        // Whoever follows us, or waits for us, goes on without us; we want to hear how it ends.
        if self.is_participant() || self.elected == Some(self.id) {
            self.elected = None;
            self.become_awaiting_coordinator(out);
        }
    }

    fn on_retire(&mut self, from: NodeId, out: &mut impl Effects<Self>) {
        self.retired.insert(from);
        if self.elected != Some(from) {
            return;
        }
        self.elected = None;
        let left = self.members.iter().filter(|peer| !self.is_doubtful(*peer));
        if self.config.highest(left) == Some(self.id) {
            self.start(out);
        } else {
            self.become_awaiting_coordinator(out);
        }
    }

    /// Whether an election is held with this process before us.
    fn is_above(&self, peer: NodeId) -> bool {
        !self.retired.contains(peer) && self.gives_way_to(peer)
    }

    /// Whether we may be led by this process. It has not retired, since it says that it leads.
    fn gives_way_to(&self, peer: NodeId) -> bool {
        self.retired.contains(self.id) || self.config.rank(peer) > self.config.rank(self.id)
    }

    /// Whether, as far as we know, this process cannot lead.
    fn is_doubtful(&self, peer: NodeId) -> bool {
        self.down.contains(peer) || self.retired.contains(peer)
    }

    /// T: a call travels there, is answered, and the answer travels back.
    fn answer_timeout(&self) -> Duration {
        let answer = self.timing.answer_timeout();
        if self.config.is_hasty { answer.saturating_sub(self.timing.processing) } else { answer }
    }

    /// T′: whoever answered us called those above it no later than its answer came, waited for them, and announced
    /// itself. In hardened mode it asked for the latest claim before.
    fn coordinator_timeout(&self) -> Duration {
        let answer = self.answer_timeout();
        let rounds = match self.config.mode {
            Mode::Plain => answer,
            Mode::Hardened => answer * 2,
        };
        rounds + (self.timing.transmission + self.timing.processing) * 2 + Duration::from_micros(1)
    }
}

impl BullyConfig {
    /// The larger, the higher in rank.
    fn rank(&self, id: NodeId) -> Rank {
        let key = self.weights.key(id);
        if self.lowest { Rank::Lowest(Reverse(key)) } else { Rank::Highest(key) }
    }

    fn highest(&self, ids: impl IntoIterator<Item = NodeId>) -> Option<NodeId> {
        ids.into_iter().max_by_key(|id| self.rank(*id))
    }
}

/// A priority in either order; all ranks of a group are of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Highest((u64, NodeId)),
    Lowest(Reverse<(u64, NodeId)>),
}

mutants! {
    enum Mutation {
        NoAnswerWait {
            name: "no-answer-wait", breaks: "E1", nodes: 3, trigger: Schedule,
            change: "a caller announces itself without waiting for answers",
        }
        OneWayWait {
            name: "one-way-wait", breaks: "E1", nodes: 3, trigger: Schedule,
            change: "a caller waits for the time of one message, not for a round trip",
        }
        SilentLeader {
            name: "silent-leader", breaks: "END", nodes: 3, trigger: Schedule,
            change: "a leader that is called answers, but does not repeat its announcement: the caller calls forever",
        }
    }
}

impl Algorithm for Bully {
    const ABOUT: About = About {
        name: "bully",
        title: "Bully",
        paper: "Garcia-Molina: Elections in a distributed computing system, IEEE Trans. Computers C-31(1), 1982",
        idea: "call everyone above; if nobody answers in time, lead",
        family: crate::election::FAMILY,
        channels: Channels::Any,
        synchrony: Synchrony::Synchronous,
        topology: Topology::Complete,
        cost: "m^2+n-2, m living processes from the caller up; n-1 at best, n^2-n-1 at worst",
        faults: "crashes and restarts at any time; an id that returns in the middle of an election \
                 and wrong suspicions only with mode=hardened and a living majority; no lost messages",
        settings: &[
            Setting {
                key: "mode",
                values: Values::OneOf(&["plain", "hardened"]),
                default: "plain",
                unsafe_values: &[],
                help: "whether an announcement makes a leader, or its acknowledgement by a majority",
            },
            Setting {
                key: "skip-known-dead",
                values: Values::OneOf(&["no", "yes"]),
                default: "no",
                unsafe_values: &[],
                help: "whether suspected processes are left out when those above are called",
            },
            Weights::SETTING,
            Setting {
                key: "order",
                values: Values::OneOf(&["highest", "lowest"]),
                default: "highest",
                unsafe_values: &[],
                help: "whether the highest priority leads or the lowest",
            },
            Setting {
                key: "announce",
                values: Values::OneOf(&["lower", "all"]),
                default: "lower",
                unsafe_values: &[],
                help: "whether a new leader announces itself to those below it, or to all",
            },
            Setting {
                key: "watch",
                values: Values::OneOf(&["detector", "ping", "heartbeat"]),
                default: "detector",
                unsafe_values: &[],
                help: "how the loss of the leader is noticed: a failure detector says so, a request to it is not answered \
                       in time ('start' asks it first), or its heartbeat stops",
            },
            Setting {
                key: "beats",
                values: Values::Number(1, 1_000),
                default: "3",
                unsafe_values: &[],
                help: "watch heartbeat: how many heartbeats a leader sends, so that a run comes to an end",
            },
            Setting {
                key: "patience",
                values: Values::OneOf(&["round-trip", "no-processing"]),
                default: "round-trip",
                unsafe_values: &["no-processing"],
                help: "how long a caller waits for answers: two transmissions and the processing between, or (unsafe) \
                       without the processing",
            },
        ],
        mutants: Mutation::TABLE,
    };

    fn configure(settings: &Settings, _members: &Members) -> Result<Self::Config, SettingError> {
        Ok(BullyConfig {
            mode: match settings.get("mode") {
                "hardened" => Mode::Hardened,
                _ => Mode::Plain,
            },
            skip_known_dead: settings.get("skip-known-dead") == "yes",
            weights: Weights::read(settings),
            lowest: settings.get("order") == "lowest",
            announces_to_all: settings.get("announce") == "all",
            watch: match settings.get("watch") {
                "ping" => Watch::Ping,
                "heartbeat" => Watch::Heartbeat,
                _ => Watch::Detector,
            },
            beats: settings.number("beats"),
            is_hasty: settings.get("patience") == "no-processing",
            mutation: Mutation::of(settings),
        })
    }
}

impl Election for Bully {
    const NEWCOMERS_CALL: bool = true;

    fn leaders(&self) -> &[NodeId] {
        self.elected.as_slice()
    }

    fn is_participant(&self) -> bool {
        self.stage != Stage::Normal
    }

    fn term(&self) -> u64 {
        if self.known.term == 0 { 0 } else { self.number(self.known) }
    }

    fn reweigh(config: &mut Self::Config, id: NodeId, weight: u64) {
        config.weights.set(id, weight);
    }

    fn winners(config: &Self::Config, _members: &Members, eligible: &[NodeId]) -> Vec<NodeId> {
        config.highest(eligible.iter().copied()).into_iter().collect()
    }

    /// Holds for starters that are asked at the same moment, before anyone leads.
    fn formula(config: &Self::Config, members: &Members, tally: &Tally<'_>) -> Formula {
        let unknown = Formula { text: "no formula", low: 0, high: None };
        if config.mode == Mode::Hardened || tally.disturbed {
            return unknown;
        }
        let mut ranking: Vec<_> = members.iter().collect();
        ranking.sort_unstable_by_key(|id| config.rank(*id));
        if let Some(recovered) = tally.recovered {
            return recovery(&ranking, tally, recovered).unwrap_or(unknown);
        }
        election(&ranking, tally, config).unwrap_or(unknown)
    }
}

/// The cost of one election, if there is one: processes from the lowest to the highest, nobody leads yet.
fn election(ranking: &[NodeId], tally: &Tally<'_>, config: &BullyConfig) -> Option<Formula> {
    let absent: NodeSet = tally.absent.iter().copied().collect();
    let starters: NodeSet = tally.starters.iter().copied().collect();
    let caller = ranking.iter().position(|id| starters.contains(*id) && !absent.contains(*id))?;
    let leader = ranking.iter().rposition(|id| !absent.contains(*id))?;
    let callers: Vec<_> = (caller..=leader).filter(|place| !absent.contains(ranking[*place])).collect();
    let m = callers.len() as u64;
    // Each of the living, from the caller up, calls all above it once, and all of these that live answer.
    let called = |from: usize| (ranking.len() - 1 - from) as u64;
    let elections: u64 = callers.iter().map(|place| called(*place)).sum();
    let answers = m * (m - 1) / 2;
    let announcements = if config.announces_to_all { ranking.len() - 1 } else { leader } as u64;
    if leader + 1 < ranking.len() && !config.skip_known_dead {
        // The leader waits for the dead until all calls have arrived.
        let text = match config.announces_to_all {
            false => "m^2+n-2 with the highest dead, m live processes from the starter up",
            true => "m^2+n-1 with the highest dead, m live processes from the starter up",
        };
        return Some(Formula::exactly(text, elections + answers + announcements));
    }
    // The leader waits for nobody. It has announced itself when the later calls arrive, and repeats that to each
    // caller; and who hears of it before it is called holds an election all the same, perhaps not its last.
    let low = 2 * answers + announcements + m.saturating_sub(2);
    let text = "at least m^2-2 and an announcement to all below, m live processes from the starter up";
    let high = (m == 1 && starters.len() == 1).then_some(elections + announcements);
    Some(Formula { text, low, high })
}

/// The cost of a recovery while the highest is in office and everyone is up; what came before is not known.
fn recovery(ranking: &[NodeId], tally: &Tally<'_>, recovered: NodeId) -> Option<Formula> {
    let place = ranking.iter().position(|id| *id == recovered)?;
    if !tally.absent.is_empty() {
        return None;
    }
    let (n, m) = (ranking.len() as u64, (ranking.len() - place) as u64);
    let low = if m == 1 { n - 1 } else { m * m - 1 };
    let text = "at least m^2-1, m processes from the recovered one up; n-1 if it is the highest";
    Some(Formula { text, low, high: None })
}
