//! How fast the checker is, and how much memory it takes per state, beside stateright: Ricart and Agrawala's algorithm,
//! every schedule, on one thread.
//!
//! - *engine*: [`check`], without runs without end and without reduction;
//! - *actors*: stateright's own `ActorModel` of the algorithm, as its users write it;
//! - *plain*: the model of `tests/check/oracle.rs`, whose states are those of the engine, searched by stateright.
//!
//! All three must find the same states and steps. They take turns, each in a process of its own, and of several rounds
//! the fastest counts, so that what else the machine does is the same for all. Memory is what the process had in use at
//! its largest, less what it had before; only Linux tells.
//!
//! ```text
//! cargo bench -p conclave-check --bench speed                  three processes, once and twice
//! cargo bench -p conclave-check --bench speed -- --full        and four, and two threads: minutes, and 2 GB
//! cargo bench -p conclave-check --bench speed -- --reduction   what the reduction saves, by algorithm
//! ```

#[path = "../tests/check/common/mod.rs"]
mod common;
mod ricart_agrawala;

use std::process::Command;
use std::time::{Duration, Instant};

use conclave_algorithms::mutex;
use conclave_algorithms::mutex::RicartAgrawala;
use conclave_check::{AskBudget, Limits, Options, Report, check};
use conclave_trace::Setup;
use stateright::{Checker, Model};

use common::{Applied, Scenario, Use, build_lock};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if let Some(task) = arguments.first().and_then(|word| word.strip_prefix("--search=")) {
        return Task::read(task).search();
    }
    if has("--reduction") {
        return reductions();
    }
    compare(Contest { n: 3, entries: 1, replies: "stamped" }, 7);
    compare(Contest { n: 3, entries: 2, replies: "stamped" }, 3);
    if has("--full") {
        compare(Contest { n: 4, entries: 1, replies: "plain" }, 1);
        threads();
    }
}

/// What is searched.
#[derive(Clone, Copy)]
struct Contest {
    n: u32,
    entries: u8,
    /// With the clock of their sender, or without, as in the paper.
    replies: &'static str,
}

/// Who searches it.
struct Task {
    contestant: String,
    contest: Contest,
}

/// What came of it.
#[derive(Clone, Copy)]
struct Outcome {
    states: usize,
    transitions: usize,
    seconds: f64,
    bytes: Option<usize>,
}

const CONTESTANTS: [&str; 3] = ["engine", "actors", "plain"];

impl Task {
    fn write(&self) -> String {
        let Contest { n, entries, replies } = self.contest;
        format!("--search={},{n},{entries},{replies}", self.contestant)
    }

    fn read(text: &str) -> Self {
        let words: Vec<&str> = text.split(',').collect();
        let [contestant, n, entries, replies] = words[..] else {
            panic!("a task has four parts, not '{text}'")
        };
        let contest = Contest {
            n: n.parse().expect("a number of processes"),
            entries: entries.parse().expect("a number of entries"),
            replies: if replies == "plain" { "plain" } else { "stamped" },
        };
        Self { contestant: contestant.into(), contest }
    }

    /// In a process of its own.
    fn run(&self) -> Outcome {
        let this = std::env::current_exe().expect("this program has a path");
        let output = Command::new(this).arg(self.write()).output().expect("it can be started once more");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Outcome::read(&String::from_utf8_lossy(&output.stdout))
    }

    /// In this process; what comes of it is printed.
    fn search(&self) {
        // What is loaded or set up once does not count.
        self.states_and_transitions(Contest { n: 2, ..self.contest });
        let before = memory::now_and_forget_peak();
        let started = Instant::now();
        let (states, transitions) = self.states_and_transitions(self.contest);
        let seconds = started.elapsed().as_secs_f64();
        let bytes = memory::peak().zip(before).map(|(peak, before)| peak.saturating_sub(before));
        println!("{}", Outcome { states, transitions, seconds, bytes }.write());
    }

    fn states_and_transitions(&self, contest: Contest) -> (usize, usize) {
        let Contest { n, entries, replies } = contest;
        let scenario =
            Scenario::new("ricart-agrawala", n).entries(AskBudget::Times(entries)).set("replies", replies);
        match self.contestant.as_str() {
            "engine" => {
                let report = searched(&scenario.setup, scenario.entries, false, None);
                assert!(report.complete, "it fits into a gibibyte");
                (report.states, report.transitions as usize)
            }
            "actors" => walk(ricart_agrawala::model(n as usize, entries, replies == "stamped")),
            _ => build_lock::<RicartAgrawala, _>(&scenario, Walk),
        }
    }
}

impl Outcome {
    fn write(&self) -> String {
        let Self { states, transitions, seconds, bytes } = self;
        format!("{states} {transitions} {seconds} {}", bytes.unwrap_or(0))
    }

    fn read(line: &str) -> Self {
        let mut words = line.split_whitespace();
        let mut next = || words.next().expect("an outcome has four parts");
        Self {
            states: next().parse().expect("states"),
            transitions: next().parse().expect("transitions"),
            seconds: next().parse().expect("seconds"),
            bytes: next().parse().ok().filter(|bytes| *bytes > 0),
        }
    }

    fn rate(&self) -> f64 {
        self.states as f64 / self.seconds
    }

    fn bytes_per_state(&self) -> f64 {
        self.bytes.map_or(f64::NAN, |bytes| bytes as f64 / self.states as f64)
    }
}

fn compare(contest: Contest, rounds: usize) {
    let task = |name: &str| Task { contestant: name.into(), contest };
    let mut best = CONTESTANTS.map(|name| task(name).run());
    for _ in 1..rounds {
        for (best, name) in best.iter_mut().zip(CONTESTANTS) {
            let again = task(name).run();
            best.seconds = best.seconds.min(again.seconds);
        }
    }
    let Contest { n, entries, replies } = contest;
    println!("\nRicart-Agrawala, n = {n}, entries {entries}, replies={replies}");
    println!("            states  transitions   seconds   states/s  bytes/state");
    for (name, outcome) in CONTESTANTS.iter().zip(&best) {
        let Outcome { states, transitions, seconds, .. } = outcome;
        let (rate, bytes) = (outcome.rate(), outcome.bytes_per_state());
        println!("{name:8} {states:9} {transitions:12} {seconds:9.3} {rate:10.0} {bytes:12.0}");
    }
    let [engine, others @ ..] = best;
    for (name, other) in CONTESTANTS[1..].iter().zip(others) {
        let faster = engine.rate() / other.rate();
        let smaller = engine.bytes_per_state() / other.bytes_per_state();
        println!(
            "engine : {name}   {faster:.1} times the states per second, {smaller:.2} times the bytes per state"
        );
        let same = (engine.states, engine.transitions) == (other.states, other.transitions);
        assert!(same, "{name} does not search the same states");
    }
}

fn walk<M>(model: M) -> (usize, usize)
where
    M: Model<State: Clone + PartialEq + std::hash::Hash + Send + Sync + 'static> + Send + Sync + 'static,
    M::Action: Clone + PartialEq,
{
    let checker = model.checker().spawn_bfs().join();
    (checker.unique_state_count(), checker.state_count() - 1)
}

struct Walk;

impl Use for Walk {
    type Output = (usize, usize);

    fn with<F: Applied>(self, system: common::System<F>) -> (usize, usize) {
        walk(system)
    }
}

fn searched(setup: &Setup, entries: AskBudget, reduce: bool, time: Option<Duration>) -> Report {
    let limits = Limits { memory: 1 << 30, time, ..Limits::default() };
    let options =
        Options { entries, liveness: false, reduce, by_effect: reduce, limits, ..Options::default() };
    check(setup, &options, &mut |_| {}).expect("it can be searched")
}

/// What a second thread gains where there are millions of states: rounds that take turns, the fastest of each.
fn threads() {
    let mut setup = Setup::numbered("ricart-agrawala", 4);
    setup.settings.insert("replies".into(), "plain".into());
    let mut best = [f64::MAX; 2];
    for _ in 0..3 {
        for (threads, best) in (1..).zip(&mut best) {
            let limits = Limits { memory: 1 << 30, ..Limits::default() };
            let options = Options { liveness: false, threads, limits, ..Options::default() };
            let started = Instant::now();
            let report = check(&setup, &options, &mut |_| {}).expect("it can be searched");
            assert!(report.complete, "it fits into a gibibyte");
            *best = best.min(started.elapsed().as_secs_f64());
        }
    }
    let [one, two] = best;
    println!("\none thread {one:.2} s, two threads {two:.2} s: {:.2} times as fast", one / two);
}

/// How many states are left of those of each algorithm.
fn reductions() {
    println!(
        "{:24} {:>2} {:>12} {:>12} {:>8} {:>8}",
        "one entry each", "n", "states", "reduced", "factor", "in time"
    );
    for about in mutex::all() {
        for n in [3, 4] {
            let setup = Setup::numbered(about.name, n);
            let within =
                |reduce| searched(&setup, AskBudget::Times(1), reduce, Some(Duration::from_secs(60)));
            let (all, few) = (within(false), within(true));
            let count = |report: &Report| match report.complete {
                true => report.states.to_string(),
                false => format!("> {}", report.states),
            };
            let factor = |all_of_it: f64, few_of_it: f64| match all.complete && few.complete {
                true => format!("{:.1}", all_of_it / few_of_it),
                false => "-".into(),
            };
            let in_states = factor(all.states as f64, few.states as f64);
            let in_time = factor(all.wall_seconds, few.wall_seconds);
            println!(
                "{:24} {n:2} {:>12} {:>12} {in_states:>8} {in_time:>8}",
                about.name,
                count(&all),
                count(&few)
            );
        }
    }
}

/// Memory in use by this process, as Linux counts it.
mod memory {
    use std::fs;

    /// Bytes now. From here on a new peak is kept.
    pub fn now_and_forget_peak() -> Option<usize> {
        fs::write("/proc/self/clear_refs", "5").ok()?;
        status("VmRSS:")
    }

    /// The most bytes since.
    pub fn peak() -> Option<usize> {
        status("VmHWM:")
    }

    fn status(key: &str) -> Option<usize> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        let kibibytes: usize = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
        Some(kibibytes * 1024)
    }
}
