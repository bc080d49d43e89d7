//! A master that hands out work, elected, and replaced when it dies.
//!
//! The application for which textbooks want a leader: a pile of tasks, here ranges of numbers to be added up, and a group
//! of processes of which one hands them out. Run it as [`Led<E, Workers>`](crate::Led) with any election `E`.
//!
//! The master keeps three sets: `todo`, `given` and `done`. Every idle worker gets a task (`Task`), works on it for a
//! while, and answers (`Result`). What a worker has in hand when it is suspected goes back to `todo`. When all is done,
//! the master adds up and tells everyone (`Done`). A group of one works, too: a master without workers does it all itself.
//!
//! ```text
//!   p4, the master        p1                  p2                  p3
//!    │ ── Task 1 ────────▶ │                   │                   │
//!    │ ── Task 2 ────────────────────────────▶ │                   │
//!    │ ◀──────── Result 1 ─│                   │                   │
//!    │ ── Task 3 ────────▶ │                   │                   │
//!    ✗                     │ ◀─────────────────│──────── Collect ──● is elected
//!                          │                   │ ◀────── Collect ──│
//!                          │ ── Report: done 1, in hand 3 ───────▶ │
//!                          │                   │ ── in hand 2 ───▶ │
//!                          │ ── Result 3 ────────────────────────▶ │
//! ```
//!
//! **Reigns.** A new master begins its reign by asking everyone for the results that they know and the tasks that they have
//! in hand (`Collect`, `Report`), so that little work is lost with its predecessor. It goes on when all have answered, or
//! the time for an answer is over; who answers later is welcome. A reign is known by (number, leader), where the number is
//! larger than all that the leader has seen, and no smaller than the term of its election. Everyone serves the latest
//! reign that it knows of, whatever its own election says, and refuses an earlier one (`Refuse`). A master that is
//! refused, or hears of a later reign while its election still says that it leads, begins a later one itself.
//!
//! **Counting once.** Results are kept by task; the first counts, and a second one for the same task changes nothing.
//! So it does no harm if two work on the same task, as they do after a wrong suspicion. It costs time.
//!
//! **Cost**, without crashes: 2(n − 1) to collect, 2 for each task, n − 1 to tell.
//!
//! **Assumes** reliable channels of any order, and a failure detector that reports every crash. Wrong suspicions are
//! survived. How long a message may take is used only to decide how long to wait for reports.
//!
//! **Caveats**: while two processes believe that they lead, each begins a later reign than the other, again and again,
//! until their elections agree. Nothing is saved: a process that comes back has forgotten its results, and if all are down
//! at once the work begins again. A process that comes back is told the sum once more, and tells its application.
//!
//! **Counters**: the numbers of reigns are held against the terms of an election, whose numbers cannot be seen from here.
//! They cannot be moved down on their own, and no visitor is led to them.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use conclave_core::{
    After, Boot, Effects, Incarnation, Input, Members, Message, NodeId, NodeSet, Phase, Protocol, Timing,
};
use serde::{Deserialize, Serialize};

use crate::{Asked, STRANGER, Told};

mod family;
#[cfg(test)]
mod tests;

pub(crate) use family::visit_any;
pub use family::{ElectedWorkers, FAMILY, Of, Sums, Visitor, Work, Working, all, visit};

/// A process that works, and is master when it is elected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Workers {
    id: NodeId,
    members: Members,
    config: WorkersConfig,
    timing: Timing,
    life: Incarnation,
    /// The latest reign that we know of.
    reign: Option<Reign>,
    /// There is one as long as our election says that we lead; then the latest reign is ours.
    office: Option<Office>,
    /// The results that we know: our own, and what we have learnt as master.
    done: BTreeMap<TaskId, u64>,
    /// What we are to work on. We work on the first.
    in_hand: VecDeque<(TaskId, Task)>,
    /// Who is suspected.
    down: NodeSet,
    /// The latest life of each, as far as the failure detector has spoken of it.
    lives: BTreeMap<NodeId, Incarnation>,
    /// The sum of all results; all is over.
    sum: Option<u64>,
}

/// What a master knows beside the results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Office {
    /// Who has not reported yet. While there are any, nothing is handed out.
    missing: NodeSet,
    /// Who has reported, and works for us.
    present: NodeSet,
    /// What nobody works on, and nobody has done.
    todo: BTreeSet<TaskId>,
    /// Who works on what that nobody has done. Two may work on the same.
    given: BTreeSet<(NodeId, TaskId)>,
}

/// The number of a task: its place in the list of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(pub u32);

/// A task: add up these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Task {
    /// The first number.
    pub from: u64,
    /// The last number.
    pub to: u64,
}

impl Task {
    /// Cuts a range into so many tasks of about the same size; into fewer if it has fewer numbers.
    ///
    /// # Panics
    /// If there are to be none.
    #[must_use]
    pub fn split(numbers: RangeInclusive<u64>, tasks: u32) -> Vec<Self> {
        assert!(tasks > 0, "work is cut into at least one task");
        let (first, end) = (u128::from(*numbers.start()), u128::from(*numbers.end()) + 1);
        let cut = |k: u32| first + end.saturating_sub(first) * u128::from(k) / u128::from(tasks);
        let cuts = (0..tasks).map(|k| (cut(k), cut(k + 1))).filter(|(from, end)| from < end);
        cuts.map(|(from, end)| Self { from: from as u64, to: (end - 1) as u64 }).collect()
    }

    /// Does the work.
    fn sum(self) -> u64 {
        let (from, to) = (u128::from(self.from), u128::from(self.to));
        let numbers = (to + 1).saturating_sub(from);
        u64::try_from(numbers.saturating_mul(from + to) / 2).unwrap_or(u64::MAX)
    }
}

/// The time of a master. Of two, the one with the larger number is later; the leader breaks the tie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Reign {
    /// Its number.
    pub number: u64,
    /// The master.
    pub leader: NodeId,
}

/// Settings of [`Workers`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkersConfig {
    tasks: Arc<[Task]>,
    work: After,
    mutation: Option<Mutation>,
}

impl WorkersConfig {
    /// These tasks; working on one takes this long.
    #[must_use]
    pub fn new(tasks: impl Into<Arc<[Task]>>, work: After) -> Self {
        Self { tasks: tasks.into(), work, mutation: None }
    }

    /// The same, broken on purpose, to see whether it is caught.
    #[must_use]
    pub fn with_mutation(self, mutation: Mutation) -> Self {
        Self { mutation: Some(mutation), ..self }
    }

    /// The sum of all numbers.
    #[must_use]
    pub fn right_sum(&self) -> u64 {
        self.tasks.iter().fold(0, |sum, task| sum.saturating_add(task.sum()))
    }

    /// How many tasks there are.
    #[must_use]
    pub fn tasks(&self) -> u64 {
        self.tasks.len() as u64
    }

    fn task(&self, id: TaskId) -> Option<Task> {
        self.tasks.get(id.0 as usize).copied()
    }

    fn ids(&self) -> impl Iterator<Item = TaskId> + use<> {
        (0..self.tasks.len() as u32).map(TaskId)
    }
}

mutants! {
    pub enum Mutation {
        /// The tasks of a worker that is suspected are not handed out again.
        ForgetSuspected {
            name: "forget-suspected", breaks: "W3", nodes: 5, trigger: Crash,
            change: "the tasks of a worker that is suspected are not handed out again",
        }
        /// A second result for a task is added to the first.
        CountTwice {
            name: "count-twice", breaks: "W1", nodes: 5, trigger: Suspicion,
            change: "a second result for a task is added to the first",
        }
    }
}

/// What the outside may ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Request {
    /// Elect a master and begin. Nothing happens if there has been one already.
    #[default]
    Begin,
}

/// What the outside is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Event {
    /// All work is done; told once in every life.
    Finished {
        /// The sum of all results.
        sum: u64,
    },
}

/// What the processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum WorkersMessage {
    /// I am the master now. What do you know, and what are you working on?
    Collect {
        /// The number of the reign.
        number: u64,
    },
    /// All that I know, to the master of a reign.
    Report {
        /// The number of the reign.
        number: u64,
        /// Which life of mine this is: one that is over works on nothing.
        life: Incarnation,
        /// The results that I know.
        done: BTreeMap<TaskId, u64>,
        /// The tasks that I am to work on.
        in_hand: Vec<TaskId>,
    },
    /// Work on this.
    Task {
        /// The number of the reign.
        number: u64,
        /// The number of the task.
        id: TaskId,
        /// The task.
        task: Task,
    },
    /// I have worked on this.
    Result {
        /// The number of the reign.
        number: u64,
        /// The number of the task.
        id: TaskId,
        /// What came of it.
        value: u64,
    },
    /// I know of a later reign than yours.
    Refuse {
        /// The later reign.
        reign: Reign,
    },
    /// All work is done. This holds in any reign.
    Done {
        /// The sum of all results.
        sum: u64,
    },
}

use WorkersMessage as Msg;

impl Message for WorkersMessage {
    fn kind(&self) -> &'static str {
        kinds!(self, Collect, Report, Task, Result, Refuse, Done)
    }
}

/// The timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkersTimer {
    /// All who are alive have had the time to report.
    Collect,
    /// The task that we work on is done.
    Work,
}

impl Protocol for Workers {
    type Config = WorkersConfig;
    type Message = WorkersMessage;
    type Request = Asked<Request>;
    type Event = Told<Event>;
    type Timer = WorkersTimer;
    type Durable = ();

    fn boot(boot: Boot<'_, Self>) -> Self {
        Self {
            id: boot.id,
            members: boot.members.clone(),
            config: boot.config.clone(),
            timing: boot.timing,
            life: boot.life,
            reign: None,
            office: None,
            done: BTreeMap::new(),
            in_hand: VecDeque::new(),
            down: NodeSet::new(),
            lives: BTreeMap::new(),
            sum: None,
        }
    }

    fn handle(&mut self, input: Input<Self>, out: &mut impl Effects<Self>) {
        match input {
            Input::Receive { from, .. } if !self.members.has_other(self.id, from) => {
                out.reject(from, STRANGER);
            }
            Input::Receive { from, message } => self.receive(from, message, out),
            Input::Request(Asked::App(Request::Begin)) => {
                if self.reign.is_none() && self.sum.is_none() {
                    out.emit(Told::Elect);
                }
            }
            Input::Request(Asked::Elected { leaders, term }) => {
                if leaders.first() == Some(&self.id) {
                    self.become_master(term, out);
                } else {
                    self.become_worker(out);
                }
            }
            Input::Expire(WorkersTimer::Work) => self.on_worked(out),
            Input::Expire(WorkersTimer::Collect) => {
                if let Some(office) = &mut self.office {
                    office.missing.clear();
                    self.hand_out(out);
                }
            }
            Input::PeerDown { peer, life } => self.on_peer_down(peer, life, out),
            Input::PeerUp { peer, life } => self.on_peer_up(peer, life, out),
            // Whether a process that comes back is needed as a master, its election decides.
            Input::Start => {}
        }
    }

    fn phase(&self) -> Phase {
        match (&self.office, self.reign) {
            (Some(_), _) => Phase::LEADING,
            (None, Some(_)) => Phase::FOLLOWING,
            (None, None) => Phase::IDLE,
        }
    }

    fn assert_invariants(&self) {
        assert!(self.sum.is_none() || self.in_hand.is_empty(), "when all is done nobody works");
        let in_hand: BTreeSet<_> = self.in_hand.iter().map(|(id, _)| *id).collect();
        assert!(in_hand.len() == self.in_hand.len(), "a task is in hand once");
        assert!(self.done.keys().all(|id| self.config.task(*id).is_some()), "only tasks have results");
        let Some(office) = &self.office else { return };
        assert!(
            self.reign.is_some_and(|reign| reign.leader == self.id),
            "a master rules in a reign of its own"
        );
        assert!(!office.present.intersects(&office.missing), "who has reported is not missing");
        assert!(!office.present.intersects(&self.down), "who is suspected gets no task");
        if self.sum.is_none() {
            office.assert_invariants(&self.done, self.config.tasks.len());
        }
    }
}

impl Workers {
    /// The sum of all results, once all work is done.
    #[must_use]
    pub fn sum(&self) -> Option<u64> {
        self.sum
    }

    /// The latest reign that this process knows of.
    #[must_use]
    pub fn reign(&self) -> Option<Reign> {
        self.reign
    }

    /// Whether its election says that this process leads.
    #[must_use]
    pub fn is_master(&self) -> bool {
        self.office.is_some()
    }

    /// What comes too late is passed over: everyone keeps its results, and reports them when a reign begins.
    fn receive(&mut self, from: NodeId, message: WorkersMessage, out: &mut impl Effects<Self>) {
        if let Some(why) = self.breach(&message) {
            return out.reject(from, why);
        }
        match message {
            Msg::Collect { number } => {
                if self.serves(Reign { number, leader: from }, out) {
                    self.report(from, number, out);
                }
            }
            Msg::Task { number, id, task } => {
                if self.serves(Reign { number, leader: from }, out) {
                    self.take(id, task, out);
                }
            }
            Msg::Report { number, life, done, in_hand } => {
                if self.rules(number) {
                    self.on_report(from, life, done, &in_hand, out);
                }
            }
            Msg::Result { number, id, value } => {
                if self.rules(number) {
                    self.learn(id, value);
                    self.hand_out(out);
                }
            }
            Msg::Refuse { reign } => {
                if self.sum.is_none() && self.reign < Some(reign) {
                    self.witness(reign, out);
                }
            }
            // Whoever told us may have died before it could tell the others.
            Msg::Done { sum } => {
                if self.sum.is_none() {
                    self.finish(sum, out);
                }
            }
        }
    }

    /// The rule that a message breaks, if it breaks one.
    fn breach(&self, message: &WorkersMessage) -> Option<&'static str> {
        let is_task = |id: &TaskId| self.config.task(*id).is_some();
        let (number, are_known) = match message {
            Msg::Collect { number } => (*number, true),
            Msg::Report { number, done, in_hand, .. } => (*number, done.keys().chain(in_hand).all(is_task)),
            Msg::Task { number, id, .. } | Msg::Result { number, id, .. } => (*number, is_task(id)),
            Msg::Refuse { reign } => (reign.number, self.members.contains(reign.leader)),
            Msg::Done { .. } => return None,
        };
        if number == u64::MAX {
            return Some("no honest group has had so many masters");
        }
        (!are_known).then_some("there is no such task or master")
    }

    /// Whether to do as the master of this reign says; if not, it is told why.
    fn serves(&mut self, reign: Reign, out: &mut impl Effects<Self>) -> bool {
        match (self.sum, self.reign) {
            (Some(sum), _) => {
                out.send(reign.leader, Msg::Done { sum });
                false
            }
            (None, Some(known)) if reign < known => {
                out.send(reign.leader, Msg::Refuse { reign: known });
                false
            }
            (None, _) => self.witness(reign, out),
        }
    }

    /// Takes note of a reign that is no earlier than the latest; says whether it still is the latest afterwards.
    fn witness(&mut self, reign: Reign, out: &mut impl Effects<Self>) -> bool {
        debug_assert!(Some(reign) >= self.reign, "an earlier reign is of no interest");
        self.reign = Some(reign);
        // Somebody was elected without our knowing, or before we came back. Our election says that we lead, and may
        // not say so again: if we gave way and it was right, there would be no master.
        if self.office.is_some() {
            self.become_master(0, out);
        }
        self.reign == Some(reign)
    }

    /// Whether we are master, of this very reign, with work left to do.
    fn rules(&self, number: u64) -> bool {
        let ours = Reign { number, leader: self.id };
        self.office.is_some() && self.sum.is_none() && self.reign == Some(ours)
    }

    /// Begins a reign.
    fn become_master(&mut self, term: u64, out: &mut impl Effects<Self>) {
        let seen = self.reign.map_or(0, |reign| reign.number);
        let number = seen.saturating_add(1).max(term);
        self.reign = Some(Reign { number, leader: self.id });
        // Whoever led before us may have died before it could tell everyone.
        if let Some(sum) = self.sum {
            self.office = Some(Office::default());
            return out.send_all(self.members.others(self.id), &Msg::Done { sum });
        }
        let is_open = |id: &TaskId| !self.done.contains_key(id);
        let ours: BTreeSet<_> = self.in_hand.iter().map(|(id, _)| *id).filter(is_open).collect();
        let missing: NodeSet =
            self.members.others(self.id).filter(|peer| !self.down.contains(*peer)).collect();
        if !missing.is_empty() {
            out.arm(WorkersTimer::Collect, After::exactly(self.timing.answer_timeout()));
        }
        self.office = Some(Office {
            missing,
            present: NodeSet::new(),
            todo: self.config.ids().filter(|id| is_open(id) && !ours.contains(id)).collect(),
            given: ours.into_iter().map(|id| (self.id, id)).collect(),
        });
        // To those who are suspected, too: a master that is suspected wrongly must hear that its reign is over.
        out.send_all(self.members.others(self.id), &Msg::Collect { number });
        self.hand_out(out);
    }

    /// Somebody else leads, and will ask us for what we know.
    fn become_worker(&mut self, out: &mut impl Effects<Self>) {
        if self.office.take().is_some() {
            out.disarm(WorkersTimer::Collect);
        }
    }

    fn report(&self, master: NodeId, number: u64, out: &mut impl Effects<Self>) {
        let in_hand = self.in_hand.iter().map(|(id, _)| *id).collect();
        out.send(master, Msg::Report { number, life: self.life, done: self.done.clone(), in_hand });
    }

    fn take(&mut self, id: TaskId, task: Task, out: &mut impl Effects<Self>) {
        if self.in_hand.iter().any(|(other, _)| *other == id) {
            return;
        }
        self.in_hand.push_back((id, task));
        if self.in_hand.len() == 1 {
            out.arm(WorkersTimer::Work, self.config.work);
        }
    }

    /// The first task in hand is done.
    fn on_worked(&mut self, out: &mut impl Effects<Self>) {
        let Some((id, task)) = self.in_hand.pop_front() else { return };
        if !self.in_hand.is_empty() {
            out.arm(WorkersTimer::Work, self.config.work);
        }
        let value = task.sum();
        self.learn(id, value);
        match (&self.office, self.reign) {
            (Some(_), _) => self.hand_out(out),
            // If the master is dead, the next one will ask for it.
            (None, Some(Reign { number, leader })) if leader != self.id => {
                out.send(leader, Msg::Result { number, id, value });
            }
            // Our own reign is over, and the next one has not begun.
            (None, _) => {}
        }
    }

    /// Keeps a result; the first for a task counts.
    fn learn(&mut self, id: TaskId, value: u64) {
        let result = self.done.entry(id);
        match self.config.mutation {
            Some(Mutation::CountTwice) => result.and_modify(|sum| *sum = sum.saturating_add(value)),
            Some(Mutation::ForgetSuspected) | None => result,
        }
        .or_insert(value);
        if let Some(office) = &mut self.office {
            office.todo.remove(&id);
            office.given.retain(|(_, given)| *given != id);
        }
    }

    fn on_report(
        &mut self,
        from: NodeId,
        life: Incarnation,
        done: BTreeMap<TaskId, u64>,
        in_hand: &[TaskId],
        out: &mut impl Effects<Self>,
    ) {
        for (id, value) in done {
            self.learn(id, value);
        }
        // A report can outlive its sender. Its results are as good as any, but nobody is there to work.
        let is_over = self.down.contains(from) || self.lives.get(&from).is_some_and(|latest| life < *latest);
        if let (Some(office), false) = (&mut self.office, is_over) {
            office.present.insert(from);
            office.take_back(from);
            // The result of what it had in hand may have overtaken its report.
            for id in in_hand.iter().filter(|id| !self.done.contains_key(id)) {
                office.todo.remove(id);
                office.given.insert((from, *id));
            }
            self.stop_waiting_for(from, out);
        }
        self.hand_out(out);
    }

    fn stop_waiting_for(&mut self, peer: NodeId, out: &mut impl Effects<Self>) {
        if let Some(office) = &mut self.office
            && office.missing.remove(peer)
            && office.missing.is_empty()
        {
            out.disarm(WorkersTimer::Collect);
        }
    }

    fn on_peer_down(&mut self, peer: NodeId, life: Incarnation, out: &mut impl Effects<Self>) {
        self.down.insert(peer);
        self.lives.insert(peer, life);
        if let Some(office) = &mut self.office {
            office.present.remove(peer);
            if self.config.mutation != Some(Mutation::ForgetSuspected) {
                office.take_back(peer);
            }
            self.stop_waiting_for(peer, out);
            self.hand_out(out);
        }
    }

    /// A master takes in whoever comes back.
    fn on_peer_up(&mut self, peer: NodeId, life: Incarnation, out: &mut impl Effects<Self>) {
        self.down.remove(peer);
        self.lives.insert(peer, life);
        match (&self.office, self.sum, self.reign) {
            (Some(_), Some(sum), _) => out.send(peer, Msg::Done { sum }),
            (Some(_), None, Some(Reign { number, .. })) => out.send(peer, Msg::Collect { number }),
            (Some(_), None, None) | (None, ..) => {}
        }
    }

    /// As master: finishes if all is done, else gives every idle worker a task.
    fn hand_out(&mut self, out: &mut impl Effects<Self>) {
        let (Some(office), Some(Reign { number, leader }), None) = (&mut self.office, self.reign, self.sum)
        else {
            return;
        };
        debug_assert!(leader == self.id, "a master rules in a reign of its own");
        if self.done.len() == self.config.tasks.len() {
            return self.finish(self.done.values().fold(0, |sum, value| sum.saturating_add(*value)), out);
        }
        if !office.missing.is_empty() {
            return;
        }
        let Office { present, todo, given, .. } = office;
        for worker in present.iter() {
            let is_idle = given.range((worker, TaskId(0))..=(worker, TaskId(u32::MAX))).next().is_none();
            if is_idle && let Some(id) = todo.pop_first() {
                given.insert((worker, id));
                out.send(worker, Msg::Task { number, id, task: self.config.tasks[id.0 as usize] });
            }
        }
        if present.is_empty()
            && self.in_hand.is_empty()
            && let Some(id) = todo.pop_first()
        {
            given.insert((self.id, id));
            self.take(id, self.config.tasks[id.0 as usize], out);
        }
    }

    fn finish(&mut self, sum: u64, out: &mut impl Effects<Self>) {
        debug_assert!(self.sum.is_none(), "work is finished once");
        self.sum = Some(sum);
        self.in_hand.clear();
        out.disarm(WorkersTimer::Work);
        out.disarm(WorkersTimer::Collect);
        if self.office.is_some() {
            out.send_all(self.members.others(self.id), &Msg::Done { sum });
        }
        out.emit(Told::App(Event::Finished { sum }));
    }
}

impl Office {
    /// What a worker was given goes back, unless somebody else works on it, too.
    fn take_back(&mut self, worker: NodeId) {
        let theirs: Vec<_> = self.given.extract_if(.., |(of, _)| *of == worker).collect();
        let is_given = |id: &TaskId| self.given.iter().any(|(_, other)| other == id);
        self.todo.extend(theirs.into_iter().map(|(_, id)| id).filter(|id| !is_given(id)));
    }

    /// Every task is in one of the three sets.
    fn assert_invariants(&self, done: &BTreeMap<TaskId, u64>, tasks: usize) {
        let given: BTreeSet<_> = self.given.iter().map(|(_, id)| *id).collect();
        let all: BTreeSet<_> = self.todo.iter().chain(&given).chain(done.keys()).collect();
        assert!(
            all.len() == tasks && self.todo.len() + given.len() + done.len() == tasks,
            "every task is to be done, given or done, and only one of these"
        );
    }
}
