//! What whoever waits, or does not get a lock, is told.

use crate::nodes::Service;
use crate::runs::{BINARY, Running, ran};

#[test]
fn whoever_waits_and_wants_to_know_is_told_for_whom() {
    let service = Service::one();
    let holder = service.hold("lock a --label nightly", "in");
    let curious = |errors: &str| {
        let command = service.client(&["lock", "a", "-v", "--", "true"]);
        let waiter = Running::with_errors_in(command, &service.path(errors));
        (waiter, service.written(errors))
    };
    let (first, told_first) = curious("first");
    let (second, told_second) = curious("second");
    let (silent, quiet) = (service.begin("lock a", "exit 0"), service.begin("lock a -q", "exit 0"));
    service.has_waiters("a", 4);
    holder.let_go();
    for (waiter, line, place) in
        [(first, told_first, "; first in the queue\n"), (second, told_second, "; 1 before it in the queue\n")]
    {
        assert!(
            line.starts_with("note: waiting for 'a': held by nightly on ") && line.contains(") for "),
            "{line}"
        );
        assert!(line.ends_with(place) && line.lines().count() == 1, "{line}");
        waiter.end().ends(0);
    }
    for mute in [silent, quiet] {
        assert_eq!(mute.end().ends(0).err, "");
    }
}

#[test]
fn names_with_spaces_stay_apart() {
    let service = Service::one();
    let script = "printf '%s\\n' \"$CONCLAVE_LOCKS\" \"$CONCLAVE_LOCK\"";
    let two = ran(&mut service.client(&["lock", "a b", "c", "--", "/bin/sh", "-c", script])).ends(0);
    assert_eq!(two.out, "a b\nc\na b c\n");
    let one = ran(&mut service.client(&["lock", "a b", "--", "/bin/sh", "-c", script])).ends(0);
    assert_eq!(one.out, "a b\na b\n");
    // And of those around it.
    let inner = format!("{BINARY} lock c -- printenv CONCLAVE_HELD");
    let nested = ran(&mut service.client(&["lock", "a b", "--", "/bin/sh", "-c", &inner])).ends(0);
    assert_eq!(nested.out, "a b\nc\n");
}

#[test]
fn a_lock_within_itself_is_pointed_out() {
    let service = Service::one();
    let nested = |options: &str| format!("{BINARY} lock b -- {BINARY} lock a {options} -- touch never");
    let ran = service.shell("lock a", &nested("--wait 50ms")).ends(121);
    assert!(ran.err.contains("note: 'a' is held by a 'conclave lock' around this one"), "{}", ran.err);
    assert!(ran.err.contains("hint: a 'conclave lock' around this one holds 'a'"), "{}", ran.err);
    let ran = service.shell("lock a", &nested("--try")).ends(120);
    assert!(ran.err.contains("hint: a 'conclave lock' around this one holds 'a'"), "{}", ran.err);
    assert!(!service.path("never").exists());
}

#[test]
fn a_refusal_names_what_it_is_about_once() {
    let service = Service::one();
    let leader = service.hold("elect a", "in");
    service.shell("lock a --try", "exit 0").explains(124, "error: refused: 'a' is in use as an election");
    leader.let_go();
    service.conclave("lock s1 echo hi").refused("put -- before the command: conclave lock s1 -- echo hi");
}

#[test]
fn without_a_majority_that_is_what_is_said() {
    let mut service = Service::three();
    service.kill(1);
    service.kill(2);
    let line = "lock a --connect-wait 2s -v";
    let ran = service.shell(line, "touch never").ends(123);
    let lines: Vec<&str> = ran.err.lines().collect();
    let [looking, error, hint] = lines.as_slice() else { panic!("{}", ran.err) };
    assert!(looking.starts_with("note: looking for a node of the service at "), "{}", ran.err);
    assert!(error.starts_with("error: 1 of 3 nodes answers, which is no majority"), "{}", ran.err);
    assert!(hint.starts_with("hint: 'conclave status'"), "{}", ran.err);
    assert!(!service.path("never").exists());
}
