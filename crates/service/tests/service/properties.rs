//! What must hold on every walk through the service, whatever clients do.

use crate::model::walk::{Round, Walk, rounds};
use conclave_service::{Act, Batch, Command, Fault, Message, Notice, Outcome, State};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};

fn cases(cases: u32) -> Config {
    Config { cases, failure_persistence: None, max_shrink_iters: 4000, ..Config::default() }
}

fn walk(state: State, rounds: &[Round]) -> Result<Walk, TestCaseError> {
    let mut walk = Walk::new(state);
    rounds.iter().try_for_each(|round| walk.round(round))?;
    Ok(walk)
}

fn replay(state: &mut State, batches: &[Batch]) -> Vec<Outcome> {
    let apply = |batch: &Batch| {
        let mut out = Outcome::default();
        state.apply(batch, &mut out);
        out
    };
    batches.iter().map(apply).collect()
}

/// Sends some commands twice within their batch, while their session is the same.
fn stutter(batch: &Batch, choices: &[u8]) -> Batch {
    let mut commands: Vec<Command> = Vec::new();
    let mut copies: Vec<Command> = Vec::new();
    for (command, choice) in batch.commands.iter().zip(choices.iter().cycle()) {
        // A late copy of an opening brings a session back that has ended meanwhile.
        let ended = match &command.act {
            Act::Open { .. } | Act::Close | Act::Disconnected => Some(command.session),
            Act::End { session, .. } => Some(*session),
            _ => None,
        };
        copies.retain(|copy| Some(copy.session) != ended);
        commands.push(command.clone());
        match (choice % 3, &command.act) {
            (_, Act::Close | Act::Disconnected) | (0, _) => {}
            (1, _) => commands.push(command.clone()),
            _ => copies.push(command.clone()),
        }
    }
    commands.extend(copies);
    Batch { now: batch.now, commands, floor: batch.floor }
}

/// The messages of an outcome without those that only repeat a reply to the same request.
fn told_once(out: &Outcome, batch: &Batch) -> Vec<Message> {
    let mut told: Vec<Message> = Vec::new();
    for message in &out.messages {
        let repeats = match &message.told {
            conclave_service::Told::Reply { request, .. } => {
                let key = (message.to, *request);
                let copies =
                    batch.commands.iter().filter(|command| (command.session, command.request) == key).count();
                copies > 1
            }
            // It comes with a repeated reply, and as often.
            conclave_service::Told::Notice(Notice::Lost { why, .. }) => {
                &**why == "released before this reply was heard"
            }
            conclave_service::Told::Notice(_) => false,
        };
        if !repeats {
            told.push(message.clone());
        }
    }
    told
}

proptest! {
    #![proptest_config(cases(1500))]

    /// Grants, queues and answers are those of the model; tokens grow; nobody waits in a circle; nothing is lost.
    #[test]
    fn the_service_does_what_the_model_does(rounds in rounds()) {
        walk(State::default(), &rounds)?;
    }

    /// The same log gives the same state, also across a snapshot anywhere in it.
    #[test]
    fn a_state_goes_on_from_its_snapshot(rounds in rounds(), cut in any::<prop::sample::Index>()) {
        let straight = walk(State::default(), &rounds)?;
        let (before, after) = straight.batches.split_at(cut.index(straight.batches.len()));
        let mut state = State::default();
        replay(&mut state, before);
        let bytes = postcard::to_stdvec(&state).expect("a state can be written");
        let mut restored: State = postcard::from_bytes(&bytes).expect("and read");
        prop_assert_eq!(&restored, &state);
        prop_assert_eq!(replay(&mut restored, after), replay(&mut state, after));
        prop_assert_eq!(&restored, &straight.state);
        restored.assert_invariants();
    }

    /// A command that arrives twice acts once.
    #[test]
    fn nothing_acts_twice(rounds in rounds(), choices in prop::collection::vec(any::<u8>(), 1..20)) {
        let straight = walk(State::default(), &rounds)?;
        let mut once = State::default();
        let mut twice = State::default();
        for batch in &straight.batches {
            let stuttered = stutter(batch, &choices);
            let out = replay(&mut once, std::slice::from_ref(batch)).remove(0);
            let again = replay(&mut twice, std::slice::from_ref(&stuttered)).remove(0);
            prop_assert_eq!(&once, &twice);
            prop_assert_eq!(told_once(&out, &stuttered), told_once(&again, &stuttered));
            prop_assert_eq!((out.changed, out.leaders), (again.changed, again.leaders));
        }
    }
}

#[track_caller]
fn must_be_noticed(fault: Fault) {
    let mut runner = TestRunner::new_with_rng(
        Config { max_shrink_iters: 0, ..cases(2000) },
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let verdict = runner.run(&rounds(), |rounds| walk(State::with_fault(fault), &rounds).map(|_| ()));
    assert!(matches!(verdict, Err(TestError::Fail(..))), "nobody noticed {fault:?}");
}

#[test]
fn a_mutant_that_forgets_requests_is_noticed() {
    must_be_noticed(Fault::ForgetRequests);
}

#[test]
fn a_mutant_that_grants_twice_is_noticed() {
    must_be_noticed(Fault::GrantTwice);
}

#[test]
fn a_mutant_that_lets_some_overtake_is_noticed() {
    must_be_noticed(Fault::Overtake);
}

#[test]
fn a_mutant_that_lets_waits_close_a_cycle_is_noticed() {
    must_be_noticed(Fault::CloseCycles);
}

#[test]
fn a_mutant_that_remembers_everything_behind_a_wait_is_noticed() {
    must_be_noticed(Fault::RememberBehindWaits);
}

#[test]
fn a_mutant_that_keeps_settled_replies_is_noticed() {
    must_be_noticed(Fault::KeepSettled);
}

#[test]
fn a_mutant_that_revives_sessions_is_noticed() {
    must_be_noticed(Fault::ReviveSessions);
}

#[test]
fn a_mutant_that_keeps_ghosts_is_noticed() {
    must_be_noticed(Fault::KeepGhosts);
}
