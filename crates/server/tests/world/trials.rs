//! The trials of the harness. Each world is a process of its own, started from here.

use std::ops::RangeInclusive;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::checks;
use crate::mutants::WorldMutant;
use crate::world::{NODES_GO_ON, PROGRESS, Verdict};
use crate::{MUTANT, NODES, SEED};

/// Worlds of the ordinary suite: seeds, and how many nodes each has.
const WORLDS: &[(RangeInclusive<u64>, u64)] = &[(1..=8, 3), (8..=9, 1), (9..=9, 5), (12..=12, 7)];
/// Nodes of a world where nothing else is said.
const USUAL: u64 = 3;
/// Worlds of a soak run, if not told otherwise.
const SOAK: &[(RangeInclusive<u64>, u64)] = &[(1..=500, 3), (1..=100, 1), (1..=100, 5), (1..=100, 7)];
/// Worlds of one size, if it is not told which.
const SOAK_ONE: u64 = 100;
/// Worlds in which a mutant must be caught.
const WORLDS_PER_MUTANT: u64 = 200;
/// A world that takes longer hangs, in real time.
const LONGEST: Duration = Duration::from_secs(240);

pub fn run() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials: Vec<Trial> = Vec::new();
    for (name, case) in checks::cases() {
        trials.push(Trial::test(format!("check::{name}"), move || {
            case();
            Ok(())
        }));
    }
    for (seeds, nodes) in WORLDS {
        for seed in seeds.clone() {
            let name = format!("world::seed_{seed:02}_with_{nodes}");
            trials.push(Trial::test(name, move || is_good(seed, *nodes)));
        }
    }
    trials.push(Trial::test("one_seed_twice_in_two_processes_gives_the_same_history", || same_twice(5)));
    for (name, _, first) in WorldMutant::ALL {
        trials.push(Trial::test(format!("mutant::{name}"), move || is_caught(name, *first)));
    }
    if std::env::var("CONCLAVE_SOAK").is_ok() {
        trials.push(Trial::test("soak", soak));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// What a world said, and what it explained.
struct Said {
    verdict: Verdict,
    explained: String,
}

fn world(seed: u64, nodes: u64, mutant: Option<&str>) -> Result<Said, Failed> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .env(SEED, seed.to_string())
        .env(NODES, nodes.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    match mutant {
        Some(mutant) => command.env(MUTANT, mutant),
        None => command.env_remove(MUTANT),
    };
    let mut child = command.spawn()?;
    let out = child.stdout.take();
    let err = child.stderr.take();
    let out = thread::spawn(move || read_all(out));
    let err = thread::spawn(move || read_all(err));
    let is_over = wait(&mut child)?;
    let out = out.join().map_err(|_| "its output could not be read")?;
    let explained = err.join().map_err(|_| "its errors could not be read")?;
    if !is_over {
        return Err(format!("seed {seed} hangs; {explained}").into());
    }
    let verdict = serde_json::from_str(&out)
        .map_err(|error| format!("seed {seed} said nothing clear ({error}): {out}{explained}"))?;
    Ok(Said { verdict, explained })
}

fn read_all(from: Option<impl std::io::Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        drop(from.read_to_end(&mut bytes));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits for a process, and ends it if it takes too long. Clocks are replaced here as well, so sleeps are counted.
fn wait(child: &mut Child) -> Result<bool, Failed> {
    let nap = Duration::from_millis(5);
    for _ in 0..LONGEST.as_millis() / nap.as_millis() {
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        thread::sleep(nap);
    }
    child.kill()?;
    child.wait()?;
    Ok(false)
}

fn is_good(seed: u64, nodes: u64) -> Result<(), Failed> {
    let said = world(seed, nodes, None)?;
    if said.verdict.violations.is_empty() { Ok(()) } else { Err(said.explained.into()) }
}

fn same_twice(seed: u64) -> Result<(), Failed> {
    let (one, two) = (world(seed, USUAL, None)?.verdict, world(seed, USUAL, None)?.verdict);
    if one.digest == two.digest && one.requests > 0 {
        return Ok(());
    }
    Err(format!("{one:?}\n{two:?}").into())
}

/// A mutant is caught in one of some worlds, by a check and not by accident.
fn is_caught(mutant: &str, first: u64) -> Result<(), Failed> {
    for seed in first..first + WORLDS_PER_MUTANT {
        let said = world(seed, USUAL, Some(mutant))?;
        // That it comes to a stop is not enough.
        let wrong =
            said.verdict.violations.iter().find(|(check, _)| check != PROGRESS && check != NODES_GO_ON);
        if let Some((check, what)) = wrong {
            eprintln!("{mutant} is caught by \"{check}\" in world {seed}: {what}");
            return Ok(());
        }
    }
    Err(format!("{mutant} is not caught in {WORLDS_PER_MUTANT} worlds").into())
}

/// Many worlds of all sizes, or `CONCLAVE_SEEDS=1..100` (both included) with `CONCLAVE_NODES=5`.
fn soak() -> Result<(), Failed> {
    let mut bad = Vec::new();
    for (seeds, nodes) in soaked()? {
        let wrong = soak_with(seeds, nodes)?;
        bad.extend(wrong.into_iter().map(|seed| format!("{seed} with {nodes} nodes")));
    }
    if bad.is_empty() { Ok(()) } else { Err(format!("worlds went wrong: {}", bad.join(", ")).into()) }
}

/// Which seeds, with how many nodes.
fn soaked() -> Result<Vec<(RangeInclusive<u64>, u64)>, Failed> {
    let (nodes, seeds) = (std::env::var("CONCLAVE_NODES"), std::env::var("CONCLAVE_SEEDS"));
    if nodes.is_err() && seeds.is_err() {
        return Ok(SOAK.to_vec());
    }
    let nodes = nodes.map_or(Ok(USUAL), |text| text.parse())?;
    let Ok(seeds) = seeds else { return Ok(vec![(1..=SOAK_ONE, nodes)]) };
    let (first, last) = seeds.split_once("..").ok_or("CONCLAVE_SEEDS is a range like 1..100")?;
    Ok(vec![(first.parse()?..=last.parse()?, nodes)])
}

/// Runs the worlds of one size; gives the seeds of those that went wrong.
fn soak_with(seeds: RangeInclusive<u64>, nodes: u64) -> Result<Vec<u64>, Failed> {
    let (first, last) = (*seeds.start(), *seeds.end());
    let mut bad = Vec::new();
    let mut sum = Sum::default();
    for seed in seeds {
        let said = world(seed, nodes, None)?;
        sum.add(&said.verdict);
        if !said.verdict.violations.is_empty() {
            eprintln!("{}", said.explained);
            bad.push(seed);
        }
        if seed % 10 == 0 || seed == last {
            eprintln!("worlds {first} to {seed} of {last} with {nodes} nodes: {sum:?}, wrong: {bad:?}");
        }
    }
    Ok(bad)
}

/// All worlds of a soak run together.
#[derive(Debug, Default)]
struct Sum {
    crashes: u64,
    blackouts: u64,
    partitions: u64,
    delays: u64,
    stops: u64,
    disk_faults: u64,
    disks_lost: u64,
    rotten: u64,
    departures: u64,
    vanished: u64,
    rumours: u64,
    leaders: u64,
    requests: usize,
    grants: usize,
    lost: usize,
    reads: usize,
    simulated_ms: u64,
}

impl Sum {
    fn add(&mut self, verdict: &Verdict) {
        self.crashes += verdict.tally.crashes;
        self.blackouts += verdict.tally.blackouts;
        self.partitions += verdict.tally.partitions;
        self.delays += verdict.tally.delays;
        self.stops += verdict.tally.stops;
        self.disk_faults += verdict.tally.disk_faults;
        self.disks_lost += verdict.tally.disks_lost;
        self.rotten += verdict.tally.rotten;
        self.departures += verdict.tally.departures;
        self.vanished += verdict.tally.vanished;
        self.rumours += verdict.tally.rumours;
        self.leaders += verdict.leaders;
        self.requests += verdict.requests;
        self.grants += verdict.grants;
        self.lost += verdict.lost;
        self.reads += verdict.reads;
        self.simulated_ms += verdict.simulated_ms;
    }
}
