//! `conclave step`: a run by hand, through a pipe.

use super::{Desk, fed, line};

#[test]
fn what_can_happen_is_numbered_and_chosen() {
    let ran = fed("step ricart-agrawala -n 2", "request 1\n1\n1\nrelease 1\n").ends(0);
    for part in [
        "    1  p1 → p2 Request{1}\n",
        "  deliver p1 => p2\n      p2 => p1 Reply{1,1,0}\n",
        "  p1 holding · p2 idle\n",
        "nothing happens by itself; ask with: request P",
        "✓ ME1 ",
    ] {
        assert!(ran.out.contains(part), "{part}\n{}", ran.out);
    }
    assert_eq!(ran.err, "");
}

#[test]
fn timers_and_states_are_shown_and_steps_are_taken_back() {
    let ran = fed("step bully -n 3", "crash 3\nstart 1\nback\nstart 2\nstate 2\nproperties\n").ends(0);
    assert!(ran.out.contains("  timers\n") && ran.out.contains("p2 Answer"), "{}", ran.out);
    assert!(ran.out.contains("p1 idle · p2 electing · p3 down"), "{}", ran.out);
    assert!(ran.out.contains("E1 ") && ran.out.contains("  p2 electing\n"), "{}", ran.out);
}

#[test]
fn too_many_steps_back_change_nothing() {
    let ran = fed("step central -n 2", "request 1\nback 5\nscript\n").ends(0);
    assert!(ran.err.contains("no more than 1 can be taken back"), "{}", ran.err);
    assert!(ran.out.contains("\nrequest 1\n---\n"), "{}", ran.out);
    assert!(fed("step central -n 1", "").ends(0).out.starts_with("Central coordinator · 1 process\n"));
}

#[test]
fn all_of_it_is_a_script_that_plays() {
    let desk = Desk::new();
    let path = desk.path("mine.txt").display().to_string();
    let input = "request 1\nrequest 2\n\n\n\n\n\n\n\n";
    fed(&format!("step lamport -n 2 --save-script {path}"), input).ends(0);
    let again = line(&format!("replay {path}")).ends(0).out;
    assert!(again.contains("it came out as recorded"), "{again}");
    // Going on where it ended, with what it broke said at once.
    let on = fed(&format!("step --script {path}"), "release 1\n").ends(0).out;
    assert!(on.contains("p1 holding -> idle"), "{on}");
    let broken = fed("step ricart-agrawala -n 2 --mutant no-tie-break", "request 1\nrequest 2\n1\n1\n1\n1\n")
        .ends(1)
        .out;
    assert!(broken.contains("✗ ME1 is broken"), "{broken}");
}

#[test]
fn a_wrong_line_is_told_and_changes_nothing() {
    let ran = fed(
        "step central -n 2",
        "back\n7\nfly 1\nrequest 9\nsave /nowhere/x\nstate 9\nhelp\nquit\nrequest 1\n",
    )
    .ends(0);
    for part in [
        "nothing has been done yet",
        "nothing happens by itself",
        "p9 is not one",
        "cannot write",
        "'9' is not one",
    ] {
        assert!(ran.err.contains(part), "{part}\n{}", ran.err);
    }
    assert!(ran.out.contains("take the last K steps back"), "{}", ran.out);
    assert!(!ran.out.contains("waiting"), "nothing is read after the end:\n{}", ran.out);
    line("step").refused("");
    line("step nothing").refused("there is no algorithm 'nothing'");
    line("step central --set x=1").refused("x");
    line("step central --script x").refused("");
    line("step --script /nowhere").refused("cannot read");
}
