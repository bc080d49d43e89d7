//! An elected master hands out work: whoever dies, every task is counted once.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_algorithms::election::{Bully, ChangRoberts, Election};
use conclave_algorithms::measure::PlainReport;
use conclave_algorithms::workers::{Event, Mutation, Request, Task, Workers, WorkersConfig};
use conclave_algorithms::workload::Calls;
use conclave_algorithms::{Arena, Channels, Led, LedConfig, Settings};
use conclave_core::{After, Incarnation, Members, Moment, NodeId, Observer, Process, Timing};
use conclave_sim::faults::{Crash, Faults};
use conclave_sim::rng::{Draw as _, Rng};
use conclave_sim::span::Span;
use conclave_sim::timed::{Limits, Network, Rest, Run, Scene};
use conclave_sim::{Plan, play, simulate_setup};
use conclave_trace::{Script, Setup};

use crate::common::seeds;

type Group<E> = Led<E, Workers>;

/// Who told its application which sums, by process and life.
#[derive(Debug, Default)]
struct Watch {
    lives: BTreeMap<NodeId, Incarnation>,
    sums: BTreeMap<(NodeId, Incarnation), Vec<u64>>,
    rejects: Vec<&'static str>,
    /// Invariants that did not hold.
    broken: Vec<String>,
}

impl<E: Election> Observer<Group<E>> for Watch {
    fn emit(&mut self, _at: &Moment, process: Process, Event::Finished { sum }: &Event) {
        let life = self.lives.get(&process.id).copied().unwrap_or(Incarnation::FIRST);
        self.sums.entry((process.id, life)).or_default().push(*sum);
    }

    fn restart(&mut self, _at: &Moment, process: Process, life: Incarnation, _durable: bool) {
        self.lives.insert(process.id, life);
    }

    fn reject(&mut self, _at: &Moment, _process: Process, _from: NodeId, why: &'static str) {
        self.rejects.push(why);
    }

    fn invariant(&mut self, _at: &Moment, process: Process, why: &str) {
        self.broken.push(format!("{}: {why}", process.id));
    }
}

/// One way to add up the numbers from 1 to 100 in 10 tasks.
#[derive(Clone, Debug)]
struct Trial {
    seed: u64,
    /// Who is asked to begin; it must not crash before it could.
    beginner: u32,
    faults: Faults,
    /// Settings of the election.
    settings: &'static [(&'static str, &'static str)],
    mutation: Option<Mutation>,
}

const N: u32 = 5;
const DELAY: Span = Span::Uniform(1_000, 5_000);
/// About how long it takes without crashes.
const COURSE: u64 = 90_000;

impl Trial {
    fn new(seed: u64, beginner: u32, crashes: Vec<Crash>) -> Self {
        let detector = "late:1..10".parse().expect("a detector");
        let faults = Faults { crashes, detector, until: Some(5 * COURSE), ..Faults::default() };
        Self { seed, beginner, faults, settings: &[], mutation: None }
    }

    /// One worker and the first master crash at any time of the run; in half of the runs both come back.
    fn by_chance(seed: u64) -> Self {
        let mut rng = Rng::new(seed, 99);
        let worker = 1 + rng.below(u64::from(N) - 1) as u32;
        let crashes = [worker, N].map(|id| {
            let at = rng.between(1, COURSE);
            let restart = seed.is_multiple_of(2).then(|| at + rng.between(1, COURSE));
            Crash { process: NodeId(id), at, restart, amnesia: false, inside: None }
        });
        Self::new(seed, 1 + worker % (N - 1), crashes.into())
    }

    fn scene<E: Election>(&self) -> Scene<Group<E>> {
        let members = Members::numbered(N);
        let settings = Settings::new(&E::ABOUT, Arena::Laboratory, self.settings.iter().copied(), None);
        let settings = settings.expect("declared settings");
        let work = After::between(Duration::from_millis(5), Duration::from_millis(15));
        let application = WorkersConfig::new(Task::split(1..=100, 10), work);
        let transmission = Duration::from_micros(DELAY.max().expect("it is bounded"));
        Scene {
            config: LedConfig {
                election: E::configure(&settings, &members).expect("they fit"),
                application: self.mutation.into_iter().fold(application, WorkersConfig::with_mutation),
            },
            members,
            newcomers: Vec::new(),
            restless: false,
            carries_token: |_| false,
            timing: Timing { transmission, ..Timing::default() },
            network: Network {
                delay: DELAY,
                links: Vec::new(),
                fifo: E::ABOUT.channels == Channels::Fifo,
                processing: Span::Constant(0),
            },
            faults: self.faults.clone(),
            clocks: Vec::new(),
            limits: Limits { patience: 100 * COURSE, events: 100_000 },
            seed: self.seed,
        }
    }

    /// Everyone who is up at the end was told 5050, once in this life, and nobody was ever told anything else.
    /// Gives how many lives were told, or what went wrong.
    fn run<E: Election>(&self) -> Result<usize, String> {
        let begin = (0, self.beginner as usize - 1, Request::Begin);
        let mut run = Run::new(self.scene::<E>(), Calls::new(vec![begin]));
        let mut watch = Watch::default();
        let rest = run.go(&mut watch, |_| false);
        if rest != Rest::Done || !watch.rejects.is_empty() || !watch.broken.is_empty() {
            return Err(format!("{rest:?}, rejected: {:?}, broken: {:?}", watch.rejects, watch.broken));
        }
        let world = run.world();
        let up = (0..N as usize).filter(|place| world.is_up(*place));
        let left: Vec<_> = up.map(|place| (world.process(place).id, world.life(place))).collect();
        if let Some((id, life)) = left.into_iter().find(|of| !watch.sums.contains_key(of)) {
            return Err(format!("{id} was told nothing in {life}"));
        }
        match watch.sums.iter().find(|(_, sums)| sums[..] != [5050]) {
            Some(((id, life), sums)) => Err(format!("{id} was told {sums:?} in {life}")),
            None => Ok(watch.sums.len()),
        }
    }

    fn run_well<E: Election>(&self) -> usize {
        self.run::<E>().unwrap_or_else(|why| panic!("{}, {self:?}: {why}", E::ABOUT.name))
    }
}

/// The worked example TV-X1: a worker is killed, and once the master, at the beginning, in the middle, at the end.
fn tv_x1<E: Election>() {
    let crash = |text: &str| text.parse::<Crash>().expect("a crash");
    for seed in 1..=20 {
        assert_eq!(Trial::new(seed, 1, Vec::new()).run_well::<E>(), 5);
        for at in ["30", "40", "50", "60"] {
            let (worker, master) = (crash(&format!("2@{at}")), crash(&format!("5@{at}")));
            assert!(Trial::new(seed, 1, vec![worker]).run_well::<E>() >= 4);
            assert!(Trial::new(seed, 1, vec![master.clone()]).run_well::<E>() >= 4);
            assert!(Trial::new(seed, 1, vec![crash("2@45"), master]).run_well::<E>() >= 3);
        }
    }
}

#[test]
fn book_tv_x1_every_task_is_counted_once_bully() {
    tv_x1::<Bully>();
}

#[test]
fn book_tv_x1_every_task_is_counted_once_chang_roberts() {
    tv_x1::<ChangRoberts>();
}

#[test]
fn three_hundred_seeds_with_crashes_at_any_time() {
    for trial in (1..=300).map(Trial::by_chance) {
        trial.run_well::<Bully>();
        trial.run_well::<ChangRoberts>();
    }
}

/// An election that numbers its terms, which the reigns then follow.
#[test]
fn three_hundred_seeds_with_numbered_terms() {
    for mut trial in (1..=300).map(Trial::by_chance) {
        trial.settings = &[("mode", "hardened")];
        trial.run_well::<Bully>();
    }
}

/// Wrong suspicions depose masters, and make two work on the same task.
#[test]
fn a_detector_that_errs_costs_time_only() {
    for mut trial in (1..=300).map(Trial::by_chance) {
        trial.faults.detector = "wrong:20".parse().expect("a detector");
        trial.run_well::<Bully>();
        trial.run_well::<ChangRoberts>();
    }
}

/// What a mutant makes of the three hundred seeds: how each run that fails does so.
fn failures<E: Election>(mutation: Mutation) -> Vec<String> {
    let trials = (1..=300).map(|seed| Trial { mutation: Some(mutation), ..Trial::by_chance(seed) });
    trials.filter_map(|trial| trial.run::<E>().err()).collect()
}

#[test]
fn every_mutant_breaks_what_it_says() {
    for mutation in Mutation::ALL {
        let symptom = match mutation {
            Mutation::ForgetSuspected => "was told nothing",
            Mutation::CountTwice => "was told [",
        };
        for failures in [failures::<Bully>(*mutation), failures::<ChangRoberts>(*mutation)] {
            assert!(!failures.is_empty(), "{mutation:?} is not caught");
            assert!(failures.iter().all(|why| why.contains(symptom)), "{mutation:?}: {failures:?}");
        }
    }
}

fn registered(mutant: Option<&str>) -> Setup {
    Setup { mutant: mutant.map(Into::into), ..Setup::numbered("workers", N) }
}

fn with_crashes(seed: u64, crashes: &[&str]) -> Plan {
    let mut plan = Plan { seed, ..Plan::new(Members::numbered(N)) };
    plan.faults.crashes = crashes.iter().map(|crash| crash.parse().expect("a crash")).collect();
    plan.faults.detector = "late:1..10".parse().expect("a detector");
    plan
}

/// The family is in the registry: it runs, is measured and judged like all others.
#[test]
fn the_family_runs_by_name() {
    let outcome = simulate_setup(&registered(None), &Plan::new(Members::numbered(N)), false).unwrap();
    assert_eq!(outcome.report.formula.agrees, Some(true), "{:?}", outcome.report.formula);
    for seed in seeds(100) {
        for crashes in [&[][..], &["5@40"], &["2@20", "5@40..90"]] {
            let outcome = simulate_setup(&registered(None), &with_crashes(seed, crashes), false).unwrap();
            let report = &outcome.report;
            assert!(report.all_held() && report.ending == "done", "seed {seed} {crashes:?}: {report:?}");
            let told = report.part::<PlainReport>().unwrap();
            assert_eq!(told.last.as_deref(), Some("finished 5050"), "seed {seed} {crashes:?}");
        }
    }
}

/// And so are its mutants, under the failures that it takes to see them.
#[test]
fn mutants_of_the_family_are_caught_by_name() {
    for (mutant, property) in [("forget-suspected", "W3"), ("count-twice", "W1")] {
        let caught = (1..=300).find_map(|seed| {
            let plan = Plan { seed, ..Plan::new(Members::numbered(N)) };
            simulate_setup(&registered(Some(mutant)), &plan, false).unwrap().violation
        });
        assert_eq!(caught.map(|violation| violation.property), Some(property), "{mutant}");
    }
}

/// A script asks in the words of the family.
#[test]
fn a_script_begins_the_work() {
    let text = "run workers -n 1 --set tasks=2\n---\n\nbegin 1\n---\n\ntimer 1 Application(Work)\ntimer 1 Application(Work)\n---\n";
    let played = play(&Script::parse(text).expect("a script")).expect("it can be played");
    assert_eq!(played.violation, None);
    assert!(played.script.to_string().contains("p1 finished 5050"), "{}", played.script);
    let wrong = Script::parse("run workers -n 1\n---\n\nrequest 1\n---\n").expect("a script");
    let why = play(&wrong).unwrap_err().to_string();
    assert!(why.contains("'acquire' is not a request of this algorithm; it has: begin"), "{why}");
}
