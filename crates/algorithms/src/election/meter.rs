//! What a run of elections is measured by, and what is reported of it.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use conclave_core::{Incarnation, Input, Members, Message as _, Moment, NodeId, Observer, Process, Transit};

use super::family::Electing;
use super::{Election, Event, Properties, Request, Tally, names};
use crate::Formula;
use crate::family::Meter;
use crate::measure::{Figure, List, Measured, Outcome, Part, Piece, Ran, Row, Unit, Value};

type FormulaOf = Box<dyn Fn(&Tally<'_>) -> Formula + Send + Sync>;

/// Follows the elections of a run one by one: who started them, what each cost and how long it took.
///
/// An election begins when somebody starts one while none is open, and is over when nobody takes part any more and all
/// who are alive were told of the same leaders. So elections that overlap are one. A late message of an election can make
/// somebody take part in it again: that is the same election, not the next one.
pub struct ElectionMeter {
    formula: FormulaOf,
    course: Course,
    /// Messages sent since the last election began.
    messages: u64,
    /// How many they were before the input that is being handled: what it makes a process send may begin another.
    at_input: u64,
    /// The longest chain since then.
    hops: u32,
    /// The input that is being handled is no message.
    own: bool,
    /// It may have ended an election.
    touched: bool,
}

/// How the elections of a run went so far.
struct Course {
    elections: Vec<One>,
    /// The last of them is not over.
    open: bool,
    /// By place.
    participating: Vec<bool>,
    participants: usize,
    /// What each was last told, by place.
    told: Vec<Vec<NodeId>>,
    /// How many of the living were last told of these leaders.
    camps: BTreeMap<Vec<NodeId>, usize>,
    /// The inputs that led to somebody taking part.
    calls: BTreeSet<u64>,
    term: u64,
    /// Down now.
    down: BTreeSet<NodeId>,
    /// Came back, and no election has begun since.
    returned: BTreeSet<NodeId>,
    /// Somebody retired or was suspected wrongly, or a message was lost: no formula holds from now on.
    disturbed: bool,
}

/// One election.
struct One {
    began: u64,
    last_told: u64,
    messages: u64,
    hops: u32,
    starters: BTreeSet<NodeId>,
    /// The inputs that led to somebody taking part in it.
    calls: BTreeSet<u64>,
    /// Down when it began.
    absent: BTreeSet<NodeId>,
    /// Began it because it had come back.
    recovered: Option<NodeId>,
    leaders: Vec<NodeId>,
    /// Something happened in the middle.
    disturbed: bool,
}

impl ElectionMeter {
    pub(super) fn new(members: &Members, formula: FormulaOf) -> Self {
        let n = members.len();
        let course = Course {
            elections: Vec::new(),
            open: false,
            participating: vec![false; n],
            participants: 0,
            told: vec![Vec::new(); n],
            camps: BTreeMap::new(),
            calls: BTreeSet::new(),
            term: 0,
            down: BTreeSet::new(),
            returned: BTreeSet::new(),
            disturbed: false,
        };
        Self { formula, course, messages: 0, at_input: 0, hops: 0, own: false, touched: false }
    }

    /// A process starts an election, or takes part in one that is open; `at_once` if no message made it do so.
    fn begin(&mut self, at: &Moment, process: NodeId, at_once: bool) {
        if !self.course.open && (at_once || !self.course.reopen(at.chain.root)) {
            if let Some(last) = self.course.elections.last_mut() {
                (last.messages, last.hops) = (self.at_input, self.hops);
            }
            (self.messages, self.at_input, self.hops) = (self.messages - self.at_input, 0, at.chain.hops);
            self.course.open(at.time, process);
        }
        if let Some(one) = self.course.elections.last_mut().filter(|_| at_once) {
            one.starters.insert(process);
        }
    }

    /// How an election came out; the messages and hops of the last are still being counted.
    fn outcome(&self, place: usize, ran: &Ran<'_>) -> ElectionOutcome {
        let one = &self.course.elections[place];
        let is_last = place + 1 == self.course.elections.len();
        let (messages, hops) = if is_last { (self.messages, self.hops) } else { (one.messages, one.hops) };
        let starters: Vec<NodeId> = one.starters.iter().copied().collect();
        let absent: Vec<NodeId> = one.absent.iter().copied().collect();
        let tally = Tally {
            starters: &starters,
            absent: &absent,
            recovered: one.recovered,
            disturbed: one.disturbed || ran.duplicated > 0,
        };
        let formula = (self.formula)(&tally);
        let is_comparable = !(tally.disturbed || is_last && self.course.open);
        ElectionOutcome {
            at: one.began as f64 / 1e3,
            leaders: one.leaders.clone(),
            messages,
            formula,
            agrees: is_comparable.then(|| formula.admits(messages)),
            turnaround_hops: hops,
            turnaround: one.last_told.saturating_sub(one.began) as f64 / 1e3,
            starters,
        }
    }

    /// What all elections should have cost.
    fn total(&self, each: &[ElectionOutcome]) -> Formula {
        match each {
            [] => {
                let absent: Vec<NodeId> = self.course.down.iter().copied().collect();
                let disturbed = self.course.disturbed;
                (self.formula)(&Tally { starters: &[], absent: &absent, recovered: None, disturbed })
            }
            [one] => one.formula,
            each => Formula {
                text: "the sum of its elections",
                low: each.iter().map(|one| one.formula.low).sum(),
                high: each.iter().map(|one| one.formula.high).sum(),
            },
        }
    }
}

impl Course {
    fn open(&mut self, time: u64, process: NodeId) {
        self.open = true;
        let returned = core::mem::take(&mut self.returned);
        self.elections.push(One {
            began: time,
            last_told: time,
            messages: 0,
            hops: 0,
            starters: BTreeSet::new(),
            calls: BTreeSet::new(),
            absent: self.down.clone(),
            recovered: returned.contains(&process).then_some(process),
            leaders: Vec::new(),
            disturbed: self.disturbed,
        });
    }

    /// Goes on with the last election, if this call was made while an election was held; false if it was not.
    fn reopen(&mut self, call: u64) -> bool {
        self.open = self.calls.contains(&call);
        if self.open && !self.elections.last().is_some_and(|one| one.calls.contains(&call)) {
            // It belongs to an earlier election, whose late messages no formula of the last one counts.
            self.interfere();
        }
        self.open
    }

    /// An input that led to somebody taking part.
    fn call(&mut self, call: u64) {
        self.calls.insert(call);
        if let Some(one) = self.elections.last_mut() {
            one.calls.insert(call);
        }
    }

    /// Ends the election that is open if it is over.
    fn close(&mut self) {
        let living = self.told.len() - self.down.len();
        let agree = self.camps.len() <= 1 && self.camps.values().sum::<usize>() == living;
        self.open &= self.participants > 0 || !agree;
    }

    /// Something happened that no formula knows of, in the middle of an election if one is open.
    fn interfere(&mut self) {
        if let Some(one) = self.elections.last_mut().filter(|_| self.open) {
            one.disturbed = true;
        }
    }

    /// The same, and whatever follows is another story, too.
    fn disturb(&mut self) {
        self.disturbed = true;
        self.interfere();
    }

    fn participate(&mut self, place: usize, participates: bool) -> bool {
        let before = core::mem::replace(&mut self.participating[place], participates);
        self.participants = self.participants + usize::from(participates) - usize::from(before);
        before != participates
    }

    /// A process gives up one belief and takes on another.
    fn tell(&mut self, place: usize, leaders: &[NodeId]) {
        let before = core::mem::replace(&mut self.told[place], leaders.to_vec());
        if let Some(count) = self.camps.get_mut(&before) {
            *count -= 1;
            if *count == 0 {
                self.camps.remove(&before);
            }
        }
        if !leaders.is_empty() {
            *self.camps.entry(leaders.to_vec()).or_default() += 1;
        }
    }
}

impl<A: Election> Observer<A> for ElectionMeter {
    #[inline]
    fn input(&mut self, at: &Moment, process: Process, input: &Input<A>) {
        self.at_input = self.messages;
        self.hops = self.hops.max(at.chain.hops);
        self.own = !matches!(input, Input::Receive { .. });
        match input {
            Input::Request(Request::Start) => {
                self.begin(at, process.id, true);
                self.course.call(at.chain.root);
                self.touched = true;
            }
            Input::Request(Request::Retire | Request::Leave | Request::Reweigh(_)) => self.course.disturb(),
            Input::PeerDown { peer, .. } if !self.course.down.contains(peer) => self.course.disturb(),
            // A report that comes late may make it begin again.
            Input::PeerDown { .. } if self.course.participating[process.index()] => self.course.interfere(),
            Input::Start
            | Input::Receive { .. }
            | Input::Expire(_)
            | Input::PeerDown { .. }
            | Input::PeerUp { .. } => {}
        }
    }

    #[inline]
    fn send(&mut self, _at: &Moment, _transit: &Transit, message: &A::Message) {
        self.messages += u64::from(!message.is_overhead());
    }

    fn emit(&mut self, at: &Moment, process: Process, event: &Event) {
        let Event::Elected { leaders, term } = event;
        // Who comes late is told of an election that is over.
        let is_known = !self.own && self.course.camps.len() == 1 && self.course.camps.contains_key(leaders);
        if !is_known || self.course.open {
            let calls = self.own && !self.course.participating[process.index()];
            self.begin(at, process.id, calls);
        }
        self.course.term = self.course.term.max(*term);
        self.course.tell(process.index(), leaders);
        if let Some(one) = self.course.elections.last_mut() {
            one.last_told = at.time;
            one.leaders.clone_from(leaders);
        }
        self.touched = true;
    }

    #[inline]
    fn handled(&mut self, at: &Moment, process: Process, state: &A) {
        let participates = state.is_participant();
        if participates != self.course.participating[process.index()] {
            self.course.participate(process.index(), participates);
            if participates {
                self.begin(at, process.id, self.own);
                self.course.call(at.chain.root);
            }
            self.touched = true;
        }
        if core::mem::take(&mut self.touched) {
            self.course.close();
        }
    }

    fn drop(&mut self, _at: &Moment, transit: &Transit, _message: &A::Message) {
        if !self.course.down.contains(&transit.to.id) {
            self.course.disturb();
        }
    }

    fn crash(&mut self, _at: &Moment, process: Process) {
        self.course.interfere();
        self.course.down.insert(process.id);
        self.course.returned.remove(&process.id);
        self.course.participate(process.index(), false);
        self.course.tell(process.index(), &[]);
        self.course.close();
    }

    fn restart(&mut self, _at: &Moment, process: Process, _life: Incarnation, _durable: bool) {
        self.course.interfere();
        self.course.down.remove(&process.id);
        self.course.returned.insert(process.id);
    }
}

impl<A: Election> Meter<Electing<A>> for ElectionMeter {
    fn measured(&self, judge: &Properties<A>, ran: &Ran<'_>) -> Measured {
        let each: Vec<_> = (0..self.course.elections.len()).map(|place| self.outcome(place, ran)).collect();
        let agrees = each.iter().try_fold(true, |all, one| one.agrees.map(|agrees| all && agrees));
        let formula = self.total(&each);
        let leaders = judge.agreed().unwrap_or_default().to_vec();
        let report = ElectionReport {
            elections: each.len() as u64,
            calls: self.course.calls.len() as u64,
            leader: leaders.first().copied(),
            leaders,
            term: self.course.term,
            turnaround_hops: each.iter().map(|one| one.turnaround_hops).max().unwrap_or_default(),
            turnaround: each.iter().map(|one| one.turnaround).fold(0.0, f64::max),
            disagreement: judge.disagreement() as f64 / 1e3,
            each,
        };
        Measured { unit: Unit::RUN, formula, mean: None, agrees, part: Box::new(report) }
    }
}

/// What is reported of elections.
#[derive(Clone, Debug)]
pub struct ElectionReport {
    /// How many elections there were; those that overlap are one.
    pub elections: u64,
    /// How many calls, time-outs and suspicions made somebody take part.
    pub calls: u64,
    /// Who leads in the end, if all who are alive agree.
    pub leader: Option<NodeId>,
    /// The same where several lead, the highest first.
    pub leaders: Vec<NodeId>,
    /// The largest term that anybody was told of; 0 if the algorithm has none.
    pub term: u64,
    /// The longest chain of messages in one election, each sent because of the one before; time-outs do not break a chain.
    pub turnaround_hops: u32,
    /// From the first call of an election to the last process that learnt of the leader, in milliseconds; the longest.
    pub turnaround: f64,
    /// How long two living processes believed in different leaders, in milliseconds.
    pub disagreement: f64,
    /// The elections one by one.
    pub each: Vec<ElectionOutcome>,
}

/// What is reported of one election.
#[derive(Clone, Debug)]
pub struct ElectionOutcome {
    /// When it began, in milliseconds.
    pub at: f64,
    /// Who started it without being sent a message: by a call, a time-out, a suspicion or a return.
    pub starters: Vec<NodeId>,
    /// Whom somebody was told of last.
    pub leaders: Vec<NodeId>,
    /// The messages sent until the next election began.
    pub messages: u64,
    /// How many the literature gives.
    pub formula: Formula,
    /// Whether that agrees; nothing if it cannot be compared.
    pub agrees: Option<bool>,
    /// The longest chain of messages.
    pub turnaround_hops: u32,
    /// From the first call to the last process that learnt of the leader, in milliseconds.
    pub turnaround: f64,
}

impl ElectionOutcome {
    fn row(&self) -> (Vec<Piece>, Outcome) {
        let what =
            vec!["at ".into(), Piece::Number(self.at), format!(" ms by {}", names(&self.starters)).into()];
        let mut came = vec![Piece::Count(self.messages), " messages".into()];
        match (self.formula.exact(), self.formula.high) {
            (Some(exact), _) => came.extend([" = ".into(), Piece::Count(exact)]),
            (None, Some(high)) => {
                came.extend([", ".into(), Piece::Count(self.formula.low), " to ".into(), Piece::Count(high)]);
            }
            (None, None) if self.formula.low == 0 => {}
            (None, None) => came.extend([", at least ".into(), Piece::Count(self.formula.low)]),
        }
        came.push(match self.agrees {
            Some(true) => " ✓".into(),
            Some(false) => " ✗ does not agree".into(),
            None => " – not comparable".into(),
        });
        came.extend([", ".into(), Piece::Number(self.turnaround), " ms, ".into()]);
        came.push(match self.leaders.is_empty() {
            true => "nobody leads".into(),
            false => format!("{} leads", names(&self.leaders)).into(),
        });
        let outcome = if self.agrees == Some(false) { Outcome::Bad(came) } else { Outcome::Good(came) };
        (what, outcome)
    }

    fn value(&self) -> Value {
        Value::Map(vec![
            ("at", self.at.into()),
            ("starters", self.starters.clone().into()),
            ("leaders", self.leaders.clone().into()),
            ("messages", self.messages.into()),
            ("formula", self.formula.text.into()),
            ("low", self.formula.low.into()),
            ("high", self.formula.high.into()),
            ("agrees", self.agrees.into()),
            ("turnaround_hops", u64::from(self.turnaround_hops).into()),
            ("turnaround", self.turnaround.into()),
        ])
    }
}

impl Part for ElectionReport {
    fn rows(&self) -> Vec<Row> {
        let who = if self.leaders.is_empty() { "not agreed upon".into() } else { names(&self.leaders) };
        let label = if self.leaders.len() > 1 { "leaders" } else { "leader" };
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

    fn list(&self) -> Option<List> {
        let rows = self.each.iter().map(ElectionOutcome::row);
        (self.each.len() > 1).then(|| List { title: "elections one by one", rows: rows.collect() })
    }

    fn figures(&self) -> Vec<Figure> {
        vec![
            Figure::new("turnaround", "turnaround", "ms", Some(self.turnaround)),
            Figure::new("turnaround_hops", "turnaround", "hops", Some(f64::from(self.turnaround_hops))),
        ]
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("elections", self.elections.into()),
            ("calls", self.calls.into()),
            ("leader", self.leader.into()),
            ("leaders", self.leaders.clone().into()),
            ("term", self.term.into()),
            ("turnaround_hops", u64::from(self.turnaround_hops).into()),
            ("turnaround", self.turnaround.into()),
            ("disagreement", self.disagreement.into()),
            ("each", Value::List(self.each.iter().map(ElectionOutcome::value).collect())),
        ]
    }

    fn boxed(&self) -> Box<dyn Part> {
        Box::new(self.clone())
    }
}
