//! A client that is broken on purpose fails the tests of this binary. Each runs again in a process of its own, since a mutant
//! is a matter of a whole process.

use std::process::Command;

/// Makes sure that a test fails with a mutant, and says this.
#[track_caller]
fn assert_caught(mutant: &str, test: &str, says: &str) {
    let mut command = Command::new(std::env::current_exe().expect("it has a name"));
    command.args(["--exact", test, "--nocapture"]).env("CONCLAVE_CLIENT_MUTANT", mutant);
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("1 passed") || said.contains("1 failed"), "{test} is no test: {said}");
    assert!(!output.status.success(), "{mutant} is not caught by {test}");
    assert!(said.contains(says), "{mutant} is caught, but not because \"{says}\": {said}");
}

#[test]
fn that_a_lease_is_looked_at_is_tested() {
    let test = "leases::a_runtime_that_was_blocked_finds_out_at_the_first_look";
    assert_caught("TrustsTimers", test, "it is lost");
}

#[test]
fn that_only_renewals_extend_a_lease_is_tested() {
    let test = "leases::only_what_renewed_a_session_extends_it_and_giving_up_closes_nothing";
    assert_caught("RefusalsRenew", test, "a refusal extends nothing");
}

#[test]
fn that_a_lease_is_left_to_run_out_is_tested() {
    let test = "leases::only_what_renewed_a_session_extends_it_and_giving_up_closes_nothing";
    assert_caught("ClosesAtTheEnd", test, "the lease is left to run out");
}

#[test]
fn that_other_lives_are_not_heard_is_tested() {
    let test = "leases::what_is_told_to_a_former_life_is_not_taken_for_ones_own";
    assert_caught("HearsOtherLives", test, "panicked");
}

#[test]
fn that_a_conversion_is_cancelled_is_tested() {
    assert_caught("LeavesWaits", "service::a_conversion_that_is_dropped_is_cancelled", "nobody is before it");
}

#[test]
fn that_what_is_gone_is_lost_is_tested() {
    let test = "crossing::a_grant_that_is_gone_is_lost_though_its_conversion_was_decided_before";
    assert_caught("KeepsWhatIsGone", test, "the service said that it holds nothing");
}

#[test]
fn that_what_was_refused_is_given_back_is_tested() {
    let test = "crossing::what_was_refused_and_is_granted_all_the_same_is_given_back";
    assert_caught("KeepsWhatWasRefused", test, "panicked");
}
