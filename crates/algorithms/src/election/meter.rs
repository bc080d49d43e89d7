//! What a run of elections is measured by, and what is reported of it.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use conclave_core::{Incarnation, Input, Members, Moment, NodeId, Observer, Process, Transit};

use super::family::Electing;
use super::{Election, Event, Properties, Request, Tally};
use crate::Formula;
use crate::family::Meter;
use crate::measure::{Measured, Part, Piece, Ran, Row, Unit, Value};

type FormulaOf = Box<dyn Fn(&Tally<'_>) -> Formula + Send + Sync>;

/// Follows the course of an election: who started it, how long it took.
pub struct ElectionMeter {
    formula: FormulaOf,
    participating: Vec<bool>,
    /// The inputs that led to somebody taking part: each is one election.
    roots: BTreeSet<u64>,
    starters: BTreeSet<NodeId>,
    began: Option<u64>,
    last_told: u64,
    term: u64,
    hops: u32,
    /// Down now.
    down: BTreeSet<NodeId>,
    /// Down since before the beginning.
    absent: BTreeSet<NodeId>,
    /// Crashed when all was over, and perhaps came back.
    crashed: Option<NodeId>,
    recovered: Option<NodeId>,
    disturbed: bool,
}

impl ElectionMeter {
    pub(super) fn new(members: &Members, formula: FormulaOf) -> Self {
        Self {
            formula,
            participating: vec![false; members.len()],
            roots: BTreeSet::new(),
            starters: BTreeSet::new(),
            began: None,
            last_told: 0,
            term: 0,
            hops: 0,
            down: BTreeSet::new(),
            absent: BTreeSet::new(),
            crashed: None,
            recovered: None,
            disturbed: false,
        }
    }

    /// From the first call to the last process that learnt of the leader.
    fn turnaround(&self) -> u64 {
        self.began.map_or(0, |began| self.last_told.saturating_sub(began))
    }
}

impl<A: Election> Observer<A> for ElectionMeter {
    #[inline]
    fn input(&mut self, at: &Moment, process: Process, input: &Input<A>) {
        self.hops = self.hops.max(at.chain.hops);
        match input {
            Input::Request(Request::Start) => {
                self.began.get_or_insert(at.time);
                self.starters.insert(process.id);
                self.roots.insert(at.chain.root);
            }
            Input::Request(Request::Retire) => self.disturbed = true,
            Input::PeerDown { peer, .. } => self.disturbed |= !self.down.contains(peer),
            Input::Start | Input::Receive { .. } | Input::Expire(_) | Input::PeerUp { .. } => {}
        }
    }

    fn emit(&mut self, at: &Moment, _process: Process, event: &Event) {
        let Event::Elected { term, .. } = event;
        self.term = self.term.max(*term);
        self.last_told = at.time;
    }

    #[inline]
    fn handled(&mut self, at: &Moment, process: Process, state: &A) {
        let participates = state.is_participant();
        let before = core::mem::replace(&mut self.participating[process.index()], participates);
        if participates && !before {
            self.began.get_or_insert(at.time);
            self.roots.insert(at.chain.root);
        }
    }

    fn drop(&mut self, _at: &Moment, transit: &Transit, _message: &A::Message) {
        self.disturbed |= !self.down.contains(&transit.to.id);
    }

    fn crash(&mut self, _at: &Moment, process: Process) {
        self.down.insert(process.id);
        let quiet = !self.participating.iter().any(|participates| *participates);
        self.participating[process.index()] = false;
        match (self.began, self.crashed) {
            (None, _) => {
                self.absent.insert(process.id);
            }
            (Some(_), None) if quiet => self.crashed = Some(process.id),
            (Some(_), _) => self.disturbed = true,
        }
    }

    fn restart(&mut self, _at: &Moment, process: Process, _life: Incarnation, _durable: bool) {
        self.down.remove(&process.id);
        if self.crashed == Some(process.id) && self.recovered.is_none() {
            self.recovered = Some(process.id);
        } else {
            self.absent.remove(&process.id);
            self.disturbed = true;
        }
    }
}

impl<A: Election> Meter<Electing<A>> for ElectionMeter {
    fn measured(&self, judge: &Properties<A>, ran: &Ran<'_>) -> Measured {
        let down: Vec<NodeId> = self.absent.iter().copied().collect();
        let starters: Vec<NodeId> = self.starters.iter().copied().collect();
        let tally = Tally {
            starters: &starters,
            absent: &down,
            recovered: self.recovered,
            disturbed: self.disturbed || ran.duplicated > 0,
        };
        let leaders = judge.agreed().unwrap_or_default().to_vec();
        let report = ElectionReport {
            elections: self.roots.len() as u64,
            leader: leaders.first().copied(),
            leaders,
            term: self.term,
            turnaround_hops: self.hops,
            turnaround: self.turnaround() as f64 / 1e3,
            disagreement: judge.disagreement() as f64 / 1e3,
        };
        Measured {
            unit: Unit::RUN,
            formula: (self.formula)(&tally),
            mean: None,
            comparable: !tally.disturbed,
            part: Box::new(report),
        }
    }
}

/// What is reported of elections.
#[derive(Clone, Debug)]
pub struct ElectionReport {
    /// How many elections were begun: calls, time-outs and suspicions that made somebody take part.
    pub elections: u64,
    /// Who leads in the end, if all who are alive agree.
    pub leader: Option<NodeId>,
    /// The same where several lead, the highest first.
    pub leaders: Vec<NodeId>,
    /// The largest term that anybody was told of; 0 if the algorithm has none.
    pub term: u64,
    /// The longest chain of messages, each sent because of the one before; time-outs do not break a chain.
    pub turnaround_hops: u32,
    /// From the first call to the last process that learnt of the leader, in milliseconds.
    pub turnaround: f64,
    /// How long two living processes believed in different leaders, in milliseconds.
    pub disagreement: f64,
}

impl Part for ElectionReport {
    fn rows(&self) -> Vec<Row> {
        let leaders: Vec<_> = self.leaders.iter().map(ToString::to_string).collect();
        let who = if leaders.is_empty() { "not agreed upon".into() } else { leaders.join(", ") };
        let label = if leaders.len() > 1 { "leaders" } else { "leader" };
        let mut rows = vec![Row::new(label, [Piece::Text(who)])];
        if self.term > 0 {
            rows.push(Row::new("term", [Piece::Count(self.term)]));
        }
        rows.push(Row::new("elections", [Piece::Count(self.elections)]));
        let hops = Piece::Count(self.turnaround_hops.into());
        let turnaround = [hops, " messages in a row, ".into(), Piece::Number(self.turnaround), " ms".into()];
        rows.push(Row::new("turnaround", turnaround));
        rows.push(Row::new("disagreement", [Piece::Number(self.disagreement), " ms".into()]));
        rows
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("elections", self.elections.into()),
            ("leader", self.leader.into()),
            ("leaders", self.leaders.clone().into()),
            ("term", self.term.into()),
            ("turnaround_hops", u64::from(self.turnaround_hops).into()),
            ("turnaround", self.turnaround.into()),
            ("disagreement", self.disagreement.into()),
        ]
    }

    fn boxed(&self) -> Box<dyn Part> {
        Box::new(self.clone())
    }
}
