//! Binaries that are broken on purpose fail the tests of this binary. Each test runs again in a process of its own, which hands
//! the name of the mutant to everything that it starts.

use std::process::Command;

/// How long such a test waits for what will not come about.
const PATIENCE_SECONDS: &str = "10";

/// Makes sure that a test fails with a mutant, named by this variable, and says this.
#[track_caller]
pub fn assert_caught((kind, mutant): (&str, &str), test: &str, says: &str) {
    let mut command = Command::new(std::env::current_exe().expect("it has a name"));
    command.args(["--exact", test, "--nocapture"]).env(kind, mutant);
    let output = command.env("CONCLAVE_TEST_PATIENCE", PATIENCE_SECONDS).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("1 passed") || said.contains("1 failed"), "{test} is no test: {said}");
    assert!(!output.status.success(), "{mutant} is not caught by {test}");
    assert!(said.contains(says), "{mutant} is caught, but not because \"{says}\": {said}");
}
