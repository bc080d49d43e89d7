//! The steps of `test`, `soak` and `fix`, in order: what is quick to tell comes first.

use core::fmt;
use core::time::Duration;
use std::time::Instant;

use crate::browser;
use crate::licences;
use crate::shell::cargo;
use crate::tidy;

/// One thing that passes or fails, with a sentence about why.
pub struct Step {
    name: &'static str,
    run: fn() -> Result<(), String>,
}

/// Checks all and writes nothing.
pub const TEST: &[Step] = &[
    Step { name: "format", run: || cargo("fmt --all --check").run() },
    TEXT,
    Step { name: "lints", run: lints },
    Step { name: "tests", run: all_tests },
    // With the binary that the tests have built.
    Step { name: "browser", run: browser::test },
    // The digests that the tests above found must come out of an optimised build too.
    Step {
        name: "digests, optimised",
        run: || {
            cargo("test --locked --profile digests --package conclave-sim --test determinism")
                .env_remove(UPDATE)
                .run()
        },
    },
    Step {
        name: "docs",
        run: || cargo("doc --locked --workspace --no-deps").env("RUSTDOCFLAGS", "-D warnings").run(),
    },
    Step { name: "licences", run: licences::check_all },
];

/// What needs no build.
pub const TIDY: &[Step] = &[TEXT];

const TEXT: Step = Step { name: "tidy", run: tidy::check_all };

/// Something that takes minutes or gigabytes, by name.
pub struct Soak {
    pub name: &'static str,
    /// In one line, for `--help`.
    pub about: &'static str,
    steps: &'static [Step],
}

/// All of them, in the order in which `cargo xtask soak` runs them.
pub const SOAKS: &[Soak] = &[
    Soak {
        name: "worlds",
        about: "the service in simulated worlds of 1 to 7 nodes (CONCLAVE_NODES, CONCLAVE_SEEDS=1..100)",
        steps: &[Step {
            name: "the service in worlds where things go wrong",
            run: || {
                soaking("test --locked --profile optimised --package conclave-server --test world -- soak")
            },
        }],
    },
    Soak {
        name: "processes",
        about: "real nodes and clients, killed, stopped, cut off, short of files (CONCLAVE_MINUTES=10)",
        steps: &[Step {
            name: "real processes of the service to which things are done",
            run: || {
                soaking(
                    "test --locked --profile optimised --package conclave-cli --test service -- soak:: --nocapture",
                )
            },
        }],
    },
    Soak {
        name: "seeds",
        about: "a thousand simulated runs of every algorithm of every family, with crashes",
        steps: &[Step {
            name: "a thousand seeds of every algorithm",
            run: || {
                soaking(
                    "test --locked --profile optimised --package conclave-sim --test sim -- \
                     seeds:: elections:: recovery:: multicast:: consensus:: timekeeping:: shared_memory:: workers::",
                )
            },
        }],
    },
    Soak {
        name: "storms",
        about: "every lock in crashes inside steps, restarts, cuts and wrong suspicions (CONCLAVE_RUNS=10000)",
        steps: &[Step {
            name: "every lock in storms",
            run: || {
                soaking(
                    "test --locked --profile optimised --package conclave-sim --test sim storms:: -- --nocapture",
                )
            },
        }],
    },
    Soak {
        name: "live",
        about: "real groups of every lock, killed, stopped, cut off, without their files (CONCLAVE_MINUTES=10)",
        steps: &[
            Step {
                name: "a crash among ten thousand idle names",
                run: || {
                    soaking(
                        "test --locked --profile optimised --package conclave-cli --test failures -- names:: --nocapture",
                    )
                },
            },
            Step {
                name: "programs inside the locks of groups to which things are done",
                run: || {
                    soaking(
                        "test --locked --profile optimised --package conclave-cli --test failures -- soak:: --nocapture",
                    )
                },
            },
        ],
    },
    Soak {
        name: "searches",
        about: "the long searches of docs/verified.md (CONCLAVE_UPDATE=1 writes it), the second opinion",
        steps: &[
            Step {
                name: "the long searches of the table",
                run: || {
                    soaking(
                        "test --locked --profile optimised --package conclave-check --test check -- verified:: parts::",
                    )
                },
            },
            Step {
                name: "two posts each, in causal and in total order",
                run: || {
                    soaking(
                        "test --locked --profile optimised --package conclave-check --test check two_posts_each",
                    )
                },
            },
            Step {
                name: "the second opinion, to the end",
                run: || {
                    soaking(
                        "test --locked --profile optimised --package conclave-check --test check oracle::",
                    )
                },
            },
        ],
    },
];

/// Runs tests to the end that stop early otherwise, optimised.
fn soaking(tests: &'static str) -> Result<(), String> {
    cargo(tests).env(SOAKING, "1").run()
}

/// Runs the soaks with these names, or all.
pub fn soak(names: &[&str]) -> Result<(), Failed> {
    let wanted = SOAKS.iter().filter(|soak| names.is_empty() || names.contains(&soak.name));
    run_each("soak", &wanted.flat_map(|soak| soak.steps).collect::<Vec<_>>())
}

/// Writes what can be written. Formatting follows the lints, whose suggestions come unformatted.
pub const FIX: &[Step] = &[
    Step {
        name: "lints",
        run: || cargo("clippy --fix --workspace --all-targets --allow-dirty --allow-staged").run(),
    },
    Step { name: "format", run: || cargo("fmt --all").run() },
    Step {
        name: "golden scripts, digests and the table of survival",
        run: || {
            cargo("test --package conclave-sim --test sim --test determinism -- golden:: survival:: digest")
                .env(UPDATE, "1")
                .run()
        },
    },
    Step {
        name: "the table of what was verified",
        run: || {
            cargo("test --profile optimised --package conclave-check --test check verified::")
                .env(UPDATE, "1")
                .run()
        },
    },
];

/// Makes the golden tests write what they would compare with.
const UPDATE: &str = "CONCLAVE_UPDATE";
/// Makes tests go to the end where they would stop early.
const SOAKING: &str = "CONCLAVE_SOAK";

/// Everything together, and each half of the binary by itself: what one of them lacks, the other one hides.
fn lints() -> Result<(), String> {
    cargo("clippy --locked --workspace --all-targets -- -D warnings").run()?;
    for half in HALVES {
        cargo(half).run()?;
    }
    Ok(())
}

/// The two features of the binary, alone.
const HALVES: [&str; 2] = [
    "clippy --locked --package conclave-cli --all-targets --no-default-features --features service -- -D warnings",
    "clippy --locked --package conclave-cli --all-targets --no-default-features --features laboratory -- -D warnings",
];

fn all_tests() -> Result<(), String> {
    // The caller's shell may still have it set from an update; here a golden script that differs has to fail.
    let run = |arguments| cargo(arguments).env_remove(UPDATE).run();
    if !cargo("nextest --version").succeeds() {
        return run("test --locked --workspace --no-fail-fast");
    }
    run("nextest run --locked --workspace --no-fail-fast")?;
    // nextest knows no doc tests.
    run("test --locked --workspace --doc")
}

/// Runs the steps up to the first that fails, each announced, each with its duration.
pub fn run_all(task: &'static str, steps: &[Step]) -> Result<(), Failed> {
    run_each(task, &steps.iter().collect::<Vec<_>>())
}

fn run_each(task: &'static str, steps: &[&Step]) -> Result<(), Failed> {
    let count = steps.len();
    let start = Instant::now();
    for (index, step) in steps.iter().enumerate() {
        let (number, name) = (index + 1, step.name);
        println!("xtask {task}: step {number} of {count}, {name}");
        let step_start = Instant::now();
        let result = (step.run)();
        let after = step_start.elapsed();
        result.map_err(|why| Failed { task, number, count, name, after, why })?;
        println!("xtask {task}: step {number} of {count}, {name}, passed in {:.1} s", after.as_secs_f64());
    }
    println!("xtask {task}: all {count} steps passed in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Which step failed, and why.
#[derive(Debug)]
pub struct Failed {
    task: &'static str,
    number: usize,
    count: usize,
    name: &'static str,
    after: Duration,
    why: String,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, number, count, name, after, why } = self;
        write!(
            f,
            "xtask {task}: step {number} of {count}, {name}, failed after {:.1} s: {why}.",
            after.as_secs_f64()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soaks_have_names_of_their_own() {
        for (at, soak) in SOAKS.iter().enumerate() {
            assert!(SOAKS[..at].iter().all(|other| other.name != soak.name), "{} twice", soak.name);
            assert!(
                !soak.steps.is_empty() && soak.name.len() <= 10 && soak.about.len() <= 100,
                "{}",
                soak.name
            );
        }
    }

    #[test]
    fn the_first_failure_ends_the_run() {
        let steps = [
            Step { name: "good", run: || Ok(()) },
            Step { name: "bad", run: || Err("it broke".into()) },
            Step { name: "late", run: || panic!("a step after the failed one has run") },
        ];
        let sentence = run_all("test", &steps).unwrap_err().to_string();
        assert!(sentence.starts_with("xtask test: step 2 of 3, bad, failed after "), "{sentence}");
        assert!(sentence.ends_with(": it broke."), "{sentence}");
    }
}
