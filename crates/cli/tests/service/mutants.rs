//! Runners, keepers and nodes that are broken on purpose fail the tests of this binary. Each runs again in a process of its
//! own, which hands the name of the mutant to everything that it starts.

use crate::cannot_run_without;
use crate::caught::assert_caught;

const RUNNER: &str = "CONCLAVE_RUNNER_MUTANT";
const SERVER: &str = "CONCLAVE_SERVER_MUTANT";

#[test]
fn that_the_runner_does_not_wait_for_its_words_is_tested() {
    let test = "runner_keeper::a_full_standard_error_holds_up_neither_renewals_nor_the_end";
    assert_caught((RUNNER, "SpeaksItself"), test, "it never came about that the runner ends");
}

#[test]
fn that_a_keeper_keeps_its_deadlines_is_tested() {
    let test = "runner_keeper::nothing_outlives_the_lease_of_a_runner_that_was_killed";
    assert_caught((RUNNER, "EndsLate"), test, " us into the next grant");
}

#[test]
fn that_a_keeper_goes_by_the_newest_deadline_is_tested() {
    let test = "runner_keeper::a_keeper_that_was_stopped_goes_by_the_newest_deadline";
    assert_caught((RUNNER, "ActsOnOldNews"), test, "left: 122");
}

#[test]
fn that_a_lock_is_kept_for_what_is_left_behind_is_tested() {
    let test = "runner_keeper::the_lock_is_kept_for_what_the_command_left_behind";
    assert_caught((RUNNER, "ForgetsTheRest"), test, "right: 120");
}

#[test]
fn that_early_signals_are_not_lost_is_tested() {
    let test = "runner_signals::a_signal_is_heard_by_a_command_that_is_about_to_start";
    assert_caught((RUNNER, "ForgetsEarlySignals"), test, "right: 143");
}

#[test]
fn that_a_runner_stops_with_its_command_is_tested() {
    let test = "runner_terminal::ctrl_z_gives_the_prompt_back_and_fg_goes_on";
    assert_caught((RUNNER, "IgnoresStops"), test, "it never came about that prompt is written");
}

#[test]
fn that_a_lock_is_kept_while_something_runs_is_tested() {
    if !rustix::process::getuid().is_root() {
        return cannot_run_without("right to become another user");
    }
    let test = "runner_keeper::a_lock_whose_command_cannot_be_ended_is_not_given_back";
    assert_caught((RUNNER, "ClosesWhatRuns"), test, "it was given back");
}

#[test]
fn that_damage_stops_a_node_is_tested() {
    let test = "damage::an_acknowledged_grant_is_not_forgotten_for_one_bit";
    assert_caught((SERVER, "CutsDamage"), test, "it never came about that the command ends");
}

#[test]
fn that_tokens_do_not_start_over_is_tested() {
    let test = "tokens::an_empty_directory_and_an_old_one_give_no_token_twice";
    assert_caught((SERVER, "ForgetsFloor"), test, "tokens went back: ");
}
