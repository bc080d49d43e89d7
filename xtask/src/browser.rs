//! The lab in a real browser: the tests of `crates/lab/tests/browser`, on Node and Chromium.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What the tests run on. Debian has packages of these names, but for `npm`, which may come with `node`.
const PROGRAMS: [&str; 3] = ["node", "npm", "chromium"];

/// Longer is a fault of the tests.
const MOST: Duration = Duration::from_secs(600);

/// Runs the tests; where their programs are missing it says so, and fails if it is CI that asks.
pub fn test() -> Result<(), String> {
    let missing: Vec<&str> = PROGRAMS.into_iter().filter(|name| !is_installed(name)).collect();
    if !missing.is_empty() {
        let sentence = format!("{} missing, so the lab was not tested in a browser", missing.join(", "));
        if env::var_os("CONCLAVE_CI").is_some() {
            return Err(sentence);
        }
        println!("    skipped: {sentence}");
        return Ok(());
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/lab/tests/browser");
    // What npm writes last: an installation that was interrupted is made again.
    if !folder.join("node_modules/.package-lock.json").is_file() {
        // Its versions are pinned in package.json; a lock file would name the registry of whoever wrote it.
        run("npm", &["install", "--no-package-lock", "--no-audit", "--no-fund"], &folder)?;
    }
    run("node", &["--test", "--test-concurrency=1"], &folder)
}

fn is_installed(name: &str) -> bool {
    let paths = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&paths).map(|folder: PathBuf| folder.join(name)).any(|program| program.is_file())
}

fn run(program: &str, arguments: &[&str], folder: &Path) -> Result<(), String> {
    let line = format!("{program} {}", arguments.join(" "));
    println!("    {line}");
    let child = Command::new(program).args(arguments).current_dir(folder).stdin(Stdio::null()).spawn();
    let mut child = child.map_err(|error| format!("`{line}` did not start: {error}"))?;
    match wait(&mut child) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("`{line}` failed")),
        Err(why) => Err(format!("`{line}`: {why}")),
    }
}

/// Whether it has succeeded in time.
fn wait(child: &mut Child) -> Result<bool, String> {
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status.success()),
            Ok(None) if begin.elapsed() < MOST => std::thread::sleep(Duration::from_millis(100)),
            Ok(None) => {
                // Nobody is left to be told if it cannot be ended.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it took longer than {} s", MOST.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}
