//! The whole service in a simulated world where things go wrong: real servers, real clients, simulated network, disks,
//! clocks and chance.
//!
//! With `CONCLAVE_WORLD_SEED` set, this is one world: it prints its verdict as JSON, and if something is wrong, what
//! happened around it. Everything in a world follows from its seed, which needs a process of its own: randomness and
//! clocks are replaced for the process as a whole. Without it, this is a test harness whose trials start such processes.

mod checks;
mod client;
mod dice;
mod faults;
mod history;
mod mutants;
mod net;
mod node;
mod stage;
mod trials;
mod world;

use std::process::ExitCode;

use mad_turmoil::time::SimClocksGuard;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::checks::Violation;
use crate::mutants::WorldMutant;
use crate::stage::Stage;
use crate::world::World;

/// Which world this process is.
pub const SEED: &str = "CONCLAVE_WORLD_SEED";
/// How many nodes it has, 3 unless told otherwise.
pub const NODES: &str = "CONCLAVE_WORLD_NODES";
/// Which mutant runs in it.
pub const MUTANT: &str = "CONCLAVE_WORLD_MUTANT";
/// Whether to print the whole history.
pub const TRACE: &str = "CONCLAVE_WORLD_TRACE";
/// What is shown before and after something wrong, in microseconds.
const AROUND: u64 = 1_500_000;

fn main() -> ExitCode {
    match std::env::var(SEED).map(|seed| seed.parse()) {
        Err(_) => trials::run(),
        Ok(Ok(seed)) => match std::env::var(NODES).map_or(Ok(3), |nodes| nodes.parse()) {
            Ok(nodes @ 1..) => one_world(seed, nodes),
            _ => {
                eprintln!("{NODES} is a number from 1");
                ExitCode::from(2)
            }
        },
        Ok(Err(_)) => {
            eprintln!("{SEED} is a number");
            ExitCode::from(2)
        }
    }
}

fn one_world(seed: u64, nodes: u64) -> ExitCode {
    let mutant = match std::env::var(MUTANT).ok().map(|name| WorldMutant::named(&name)) {
        Some(None) => {
            eprintln!(
                "{MUTANT} is one of {:?}",
                WorldMutant::ALL.iter().map(|(name, ..)| name).collect::<Vec<_>>()
            );
            return ExitCode::from(2);
        }
        Some(Some(mutant)) => {
            mutant.choose();
            Some(mutant)
        }
        None => None,
    };
    mad_turmoil::rand::set_rng(StdRng::seed_from_u64(seed));
    let clocks = SimClocksGuard::init();
    let _ = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .try_init();
    let (verdict, stage, found) = World::new(seed, nodes, mutant).run();
    drop(clocks);
    if std::env::var(TRACE).is_ok() {
        stage.history.borrow().lines.iter().for_each(|line| eprintln!("{line}"));
    }
    explain(&stage, &found);
    println!("{}", serde_json::to_string(&verdict).unwrap_or_else(|error| error.to_string()));
    if found.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("run it again: {SEED}={seed} {NODES}={nodes} cargo test -p conclave-server --test world");
    ExitCode::FAILURE
}

/// Shows the first thing that is wrong, and what happened around it.
fn explain(stage: &Stage, found: &[Violation]) {
    let Some(first) = found.first() else { return };
    for line in stage.history.borrow().around(first.at, AROUND) {
        eprintln!("{line}");
    }
    for violation in found.iter().take(10) {
        eprintln!("VIOLATION at {} us, {}: {}", violation.at, violation.check, violation.what);
    }
}
