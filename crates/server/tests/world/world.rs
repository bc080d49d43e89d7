//! One world, from its seed to a verdict.
//!
//! First things go wrong, and safety is demanded. Then nothing goes wrong any more, and progress is demanded too: every
//! request ends, every queue drains, and all nodes come to the same state.

use std::rc::Rc;
use std::time::{Duration, SystemTime};

use conclave_server::consensus::Compaction;
use serde::{Deserialize, Serialize};
use turmoil::{Builder, Sim};

use crate::checks::{self, Violation};
use crate::client::{Actor, Kind};
use crate::dice::Dice;
use crate::faults::{Tally, Troubles, guest};
use crate::history::{End, Micros, Outcome};
use crate::mutants::WorldMutant;
use crate::node::{Drifting, Node, WrongWall, members};
use crate::stage::{Act, Stage};

const TICK: Duration = Duration::from_millis(1);
const HOURS: Duration = Duration::from_secs(3600);
/// How long nothing goes wrong at first, so that there is a leader.
const CALM: Duration = Duration::from_millis(1500);
/// How long clients may take to finish once nothing goes wrong any more.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longer than any session lives without its client.
const LIFETIMES: Duration = Duration::from_secs(4);

/// How long the disks of a mutant that does not wait for them take.
const LAG: Duration = Duration::from_millis(500);

/// Everything that is asked is answered in the end.
pub const PROGRESS: &str = "progress";
/// A node stops only for a reason.
pub const NODES_GO_ON: &str = "nodes go on";

/// What is found out about a world.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verdict {
    pub seed: u64,
    pub digest: String,
    pub violations: Vec<(String, String)>,
    pub tally: Tally,
    pub leaders: u64,
    pub requests: usize,
    pub grants: usize,
    pub lost: usize,
    pub reads: usize,
    pub simulated_ms: u64,
}

/// A world that runs.
pub struct World<'a> {
    seed: u64,
    sim: Sim<'a>,
    stage: Rc<Stage>,
    troubles: Troubles,
    /// How long things go wrong.
    span: Duration,
    found: Vec<Violation>,
    terms: Vec<u64>,
}

impl World<'_> {
    pub fn new(seed: u64, count: u64, mutant: Option<WorldMutant>) -> Self {
        let mut dice = Dice::new(seed, 1);
        let mut walls = Dice::new(seed, 3);
        let mut sim = Builder::new()
            .tick_duration(TICK)
            .min_message_latency(Duration::from_micros(500))
            .max_message_latency(Duration::from_millis(5))
            .tcp_capacity(4096)
            .epoch(SystemTime::UNIX_EPOCH)
            .rng_seed(dice.any())
            .enable_random_order()
            .build();
        let clients = dice.within(4..=6) as usize;
        // How far apart the clocks began: a little, or by anything.
        let apart = *dice.pick(&[2_000, 1_000_000]);
        let nodes: Vec<Rc<Node>> = (1..=count)
            .map(|id| {
                let (clock, compaction) = (clock(&mut dice, apart), compaction(&mut dice));
                Node::new(id, clock, wall(&mut walls), haste(&mut walls), compaction)
            })
            .collect();
        let stage = Stage::new(nodes, clients);
        for node in stage.nodes() {
            if mutant == Some(WorldMutant::AcknowledgesBeforeSync) {
                node.disk.borrow().fault(|faults| faults.sync_lag = LAG);
            }
            let node = Rc::clone(node);
            sim.host(node.name.clone(), move || Rc::clone(&node).live(members(count)));
        }
        for index in 0..clients {
            let (kind, stage) = (kind(index, &mut dice), Rc::clone(&stage));
            sim.host(guest(index), move || enter(index, kind, Rc::clone(&stage), seed, count));
        }
        let span = dice.millis(5_000..=14_000);
        let troubles = Troubles::new(seed, count, clients, CALM);
        stage.history.borrow_mut().calm_until = CALM.as_micros() as Micros;
        Self { seed, sim, stage, troubles, span, found: Vec::new(), terms: Vec::new() }
    }

    /// Runs to the end.
    pub fn run(mut self) -> (Verdict, Rc<Stage>, Vec<Violation>) {
        while self.now() < CALM + self.span {
            let now = self.now();
            self.troubles.go_on(&mut self.sim, &self.stage, now);
            self.step();
        }
        self.stage.note("world", "nothing goes wrong any more");
        self.troubles.end_all(&mut self.sim, &self.stage);
        self.step_for(Duration::from_secs(2));
        self.stage.act.set(Act::Settle);
        let is_settled = self.step_until("every request ends", |stage| stage.all_reached(Act::Settle));
        let index = self.stage.foremost();
        if is_settled && self.step_until("all nodes catch up", |stage| stage.has_come_to(index)) {
            let (quiet, now) = (self.stage.quiet(), self.micros());
            self.found.extend(checks::of_quiet(&self.stage.history.borrow(), &quiet, now));
            self.demand_that_all_is_seen();
            self.stage.act.set(Act::Leave);
            self.step_until("every client leaves", |stage| stage.all_reached(Act::Leave));
            self.step_for(LIFETIMES);
            if self.step_until("the nodes come to the same", Stage::is_even) {
                self.found.extend(checks::of_end(&self.stage.quiet(), self.micros()));
                self.demand_that_all_is_seen();
            }
        }
        self.judge()
    }

    fn now(&self) -> Duration {
        self.sim.elapsed()
    }

    fn micros(&self) -> Micros {
        self.now().as_micros() as Micros
    }

    fn step(&mut self) {
        self.stage.set_now(self.now());
        if let Err(error) = self.sim.step() {
            self.found.push(Violation::new("no panic", self.micros(), error.to_string()));
        }
        self.stage.set_now(self.now());
        if let Some((term, _)) = self.stage.leadership()
            && self.terms.last() != Some(&term)
        {
            self.stage.note("world", format!("term {term}"));
            self.terms.push(term);
        }
    }

    fn step_for(&mut self, time: Duration) {
        let until = self.now() + time;
        while self.now() < until {
            self.troubles.heal(&mut self.sim, &self.stage);
            self.step();
        }
    }

    fn step_until(&mut self, what: &str, is_so: impl Fn(&Stage) -> bool) -> bool {
        let until = self.now() + PATIENCE;
        while !is_so(&self.stage) {
            if self.now() >= until {
                let reached = self.stage.reached.borrow().clone();
                let what = format!("not within {PATIENCE:?}: {what}; clients: {reached:?}");
                self.found.push(Violation::new(PROGRESS, self.micros(), what));
                return false;
            }
            self.troubles.heal(&mut self.sim, &self.stage);
            self.step();
        }
        true
    }

    /// Whoever watches sees what there is, sooner or later.
    fn demand_that_all_is_seen(&mut self) {
        let until = self.now() + PATIENCE;
        while self.now() < until && !self.stage.unseen().is_empty() {
            self.step();
        }
        let (unseen, now) = (self.stage.unseen(), self.micros());
        self.found.extend(checks::watchers::blind(&unseen, now));
    }

    fn judge(mut self) -> (Verdict, Rc<Stage>, Vec<Violation>) {
        let stopped = std::mem::take(&mut *self.stage.blamed.borrow_mut());
        self.found.extend(stopped.into_iter().map(|(at, what)| Violation::new(NODES_GO_ON, at, what)));
        for node in self.stage.nodes() {
            self.stage.note(&node.name, format!("synced {} times", node.disk.borrow().syncs()));
        }
        let history = self.stage.history.borrow();
        self.found.extend(checks::of_history(&history));
        self.found.sort_by_key(|violation| violation.at);
        let is_grant = |outcome: &Option<Outcome>| matches!(outcome, Some(Outcome::Granted(_)));
        let verdict = Verdict {
            seed: self.seed,
            digest: history.digest(),
            violations: self.found.iter().map(|found| (found.check.to_owned(), found.what.clone())).collect(),
            tally: self.troubles.tally.clone(),
            leaders: self.terms.len() as u64,
            requests: history.asked.len(),
            grants: history.asked.iter().filter(|asked| is_grant(&asked.outcome)).count(),
            lost: history.holds.iter().filter(|hold| hold.end == Some(End::Lost)).count(),
            reads: history.reads.len(),
            simulated_ms: self.sim.elapsed().as_millis() as u64,
        };
        drop(history);
        (verdict, self.stage, self.found)
    }
}

/// A clock within half a percent of the right one.
fn clock(dice: &mut Dice, apart: u64) -> Drifting {
    Drifting { zero: dice.millis(0..=apart), rate: dice.within(995_000..=1_005_000) }
}

/// By how much timers are too fast every ten milliseconds: up to one percent.
fn haste(dice: &mut Dice) -> Duration {
    Duration::from_micros(dice.within(0..=100))
}

/// A time of day that is right, hours behind or ahead, or that is set back or forward while the world runs.
fn wall(dice: &mut Dice) -> WrongWall {
    let hours = |dice: &mut Dice| dice.millis(0..=48 * 3600 * 1000);
    let (before, after) = match dice.within(0..=3) {
        0 => (HOURS * 48, HOURS * 48),
        1 => (hours(dice), HOURS * 48),
        2 => (HOURS * 48 + hours(dice), hours(dice)),
        _ => (hours(dice), hours(dice)),
    };
    WrongWall { before, after, set_at: dice.millis(0..=14_000) }
}

/// Small enough that snapshots are made and sent within seconds.
fn compaction(dice: &mut Dice) -> Compaction {
    let entries = *dice.pick(&[40, 200, 1000]);
    let segment_bytes = *dice.pick(&[16 << 10, 256 << 10]);
    Compaction { entries, keep: entries / 10, segment_bytes, ..Compaction::default() }
}

fn kind(index: usize, dice: &mut Dice) -> Kind {
    match index {
        0 | 1 => Kind::Worker,
        2 => *dice.pick(&[Kind::Candidate, Kind::Reader, Kind::Operator]),
        _ => *dice.pick(&[Kind::Worker, Kind::Worker, Kind::Candidate, Kind::Reader, Kind::Operator]),
    }
}

async fn enter(index: usize, kind: Kind, stage: Rc<Stage>, seed: u64, nodes: u64) -> turmoil::Result {
    let endpoints: Vec<String> = members(nodes).into_values().collect();
    Actor::new(index, kind, stage, seed, endpoints)?.run().await
}
