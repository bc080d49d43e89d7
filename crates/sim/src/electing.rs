//! Runs of elections.

use std::collections::BTreeSet;

use conclave_algorithms::election::{self, Election, Properties, RING, Request, Tally};
use conclave_algorithms::family::Electing;
use conclave_algorithms::{Channels, Judge, Settings};
use conclave_core::{Incarnation, Input, Members, Moment, NodeId, Observer, Process, Transit};
use conclave_trace::Header;

use crate::family::Cast;
use crate::plan::{Plan, Starter};
use crate::report::{ElectionReport, Facts, Part, PerUnit};
use crate::rng::Rng;
use crate::run::{Outcome, drive};
use crate::workload::Calls;

/// The plan with its members in the order that the settings ask for, and with an end to faults by chance.
pub(crate) fn completed(plan: &Plan, settings: &Settings) -> Plan {
    let mut plan = plan.clone();
    // Applications of an election ask once; if chance never stopped, neither would the elections.
    plan.faults.until = plan.faults.until.or(Some(100 * plan.longest_delay()));
    if settings.iter().any(|(key, value)| key == RING.key && value == "random") {
        let mut ring: Vec<NodeId> = plan.members.iter().collect();
        let mut rng = Rng::new(plan.seed, stream::RING);
        for place in (1..ring.len()).rev() {
            ring.swap(place, rng.below(place as u64 + 1) as usize);
        }
        plan.members = Members::listed(ring);
    }
    plan
}

mod stream {
    pub const RING: u64 = 3;
}

/// Simulates a run of an election.
#[must_use]
pub fn simulate<A: Election>(config: &A::Config, plan: &Plan, mut header: Header, record: bool) -> Outcome {
    let fifo = plan.channels.unwrap_or(A::ABOUT.channels) == Channels::Fifo;
    header.channels = if fifo { Channels::Fifo } else { Channels::Any }.name().into();
    header.nodes = plan.members.iter().collect();
    let judge = Properties::<A>::new(config, &plan.members);
    let cast = Cast::<Electing<A>> {
        members: plan.members.clone(),
        newcomers: Vec::new(),
        restless: false,
        config: config.clone(),
        fifo,
        judge,
        header: header.clone(),
    };
    let course = Course::new(&plan.members);
    let finished = drive(cast, plan, Calls::new(calls(plan)), course, record);

    let (judge, course) = (&finished.judge, &finished.metrics);
    let down: Vec<NodeId> = course.absent.iter().copied().collect();
    let starters: Vec<NodeId> = course.starters.iter().copied().collect();
    let tally = Tally {
        starters: &starters,
        absent: &down,
        recovered: course.recovered,
        disturbed: course.disturbed || finished.traffic.duplicated > 0,
    };
    let formula = A::formula(config, &plan.members, &tally);
    let leaders = judge.agreed().unwrap_or_default().to_vec();
    let part = ElectionReport {
        elections: course.roots.len() as u64,
        leader: leaders.first().copied(),
        leaders,
        term: course.term,
        turnaround_hops: course.hops,
        turnaround: course.turnaround() as f64 / 1e3,
        disagreement: judge.disagreement() as f64 / 1e3,
    };
    let judgements = judge.judgements();
    let facts = Facts {
        header: &header,
        plan,
        formula,
        mean: None,
        unit: PerUnit(1),
        comparable: !tally.disturbed,
        judgements,
    };
    let report = facts.report(&finished, Part::Election(part));
    Outcome { report, violation: finished.judge.violation().cloned(), trace: finished.trace }
}

/// About how many messages a run takes.
pub(crate) fn expected_messages<A: Election>(config: &A::Config, plan: &Plan) -> u64 {
    let starters: Vec<_> = calls(plan).into_iter().map(|(_, place, _)| plan.members.at(place)).collect();
    let tally = Tally { starters: &starters, absent: &[], recovered: None, disturbed: false };
    A::formula(config, &plan.members, &tally).low
}

/// Who asks for what, and when.
fn calls(plan: &Plan) -> Vec<(u64, usize, Request)> {
    let place = |id| plan.members.position(id).expect("names are held against the members");
    let mut calls = Vec::new();
    for (time, starter) in &plan.starts {
        match starter {
            Starter::One(id) => calls.push((*time, place(*id), Request::Start)),
            Starter::Lowest => {
                calls.extend(plan.members.min().map(|id| (*time, place(id), Request::Start)));
            }
            Starter::All => calls.extend((0..plan.members.len()).map(|place| (*time, place, Request::Start))),
        }
    }
    calls.extend(plan.retires.iter().map(|(time, id)| (*time, place(*id), Request::Retire)));
    calls
}

/// Follows the course of an election: who started it, how long it took.
struct Course {
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

impl Course {
    fn new(members: &Members) -> Self {
        Self {
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

impl<A: Election> Observer<A> for Course {
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

    fn emit(&mut self, at: &Moment, _process: Process, event: &election::Event) {
        let election::Event::Elected { term, .. } = event;
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
