//! Waits that would close a cycle, and those that only look like it.

use crate::common::{Desk, play};

#[test]
fn two_who_take_two_locks_in_opposite_order() {
    play(
        "
        s1 open & s2 open | s1#1 opened; s2#1 opened
        s1 lock x         | s1#2 granted 1
        s2 lock y         | s2#2 granted 2
        s1 lock y         | s2 contended 2 y; s1#3 queued 0
        s2 lock x         | s2#3 failed: waiting would close a cycle: s2 waits for 'x', held by s1, s1 waits for 'y', held by s2
        s2 release 2      | s2#4 done; s1#3 granted 3
        ",
    );
}

#[test]
fn a_strand_that_waits_for_itself() {
    play(
        "
        s1 open              | s1#1 opened
        s1 lock x            | s1#2 granted 1
        s1 lock x            | s1#3 failed: waiting would close a cycle: s1 waits for 'x', held by s1
        s1 lock x try        | s1#4 failed: 'x' is held by h1 (session s1)
        // Another strand of the same session is somebody else.
        s1 lock x strand=1   | s1 contended 1 x; s1#5 queued 0
        ",
    );
}

#[test]
fn a_second_exclusive_request_over_a_shared_one_of_the_same_strand() {
    play(
        "
        s1 open                | s1#1 opened
        s1 lock x:shared       | s1#2 granted 1
        s1 lock x again        | s1#3 failed: waiting would close a cycle: s1 waits for 'x', held by s1
        s1 lock x:shared       | s1#4 granted 2
        ",
    );
}

#[test]
fn a_ring_of_four() {
    play(
        "
        s1 open & s2 open & s3 open & s4 open | s1#1 opened; s2#1 opened; s3#1 opened; s4#1 opened
        s1 lock a | s1#2 granted 1
        s2 lock b | s2#2 granted 2
        s3 lock c | s3#2 granted 3
        s4 lock d | s4#2 granted 4
        s1 lock b | s2 contended 2 b; s1#3 queued 0
        s2 lock c | s3 contended 3 c; s2#3 queued 0
        s3 lock d | s4 contended 4 d; s3#3 queued 0
        s4 lock a | s4#3 failed: waiting would close a cycle: s4 waits for 'a', held by s1, s1 waits for 'b', held by s2, s2 waits for 'c', held by s3, s3 waits for 'd', held by s4
        ",
    );
}

#[test]
fn the_queue_is_part_of_a_cycle() {
    // s2 waits behind the writer s3, who waits for s1: so s2 waits for s1 as well.
    play(
        "
        s1 open & s2 open & s3 open | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock x:shared            | s1#2 granted 1
        s2 lock y                   | s2#2 granted 2
        s3 lock x                   | s1 contended 1 x; s3#2 queued 0
        s2 lock x:shared            | s2#3 queued 1
        s1 lock y                   | s1#3 failed: waiting would close a cycle: s1 waits for 'y', held by s2, s2 waits for 'x', queued before it by s3, s3 waits for 'x', held by s1
        ",
    );
}

#[test]
fn one_who_overtakes_can_close_a_cycle_without_holding_anything() {
    // s3 holds y and waits for x and z; it shares x with s1, which waits for y. A writer that goes before s3 at x waits
    // for s1, which waits for s3, which would wait for the writer.
    play(
        "
        s1 open & s2 open & s3 open & s4 open | s1#1 opened; s2#1 opened; s3#1 opened; s4#1 opened
        s1 lock x:shared                      | s1#2 granted 1
        s2 lock z                             | s2#2 granted 2
        s3 lock y                             | s3#2 granted 3
        s3 lock x:shared z                    | s2 contended 2 z; s3#3 queued 0
        s1 lock y                             | s3 contended 3 y; s1#3 queued 0
        s4 lock x priority=1                  | s4#2 failed: waiting would close a cycle: s4 waits for 'x', held by s1, s1 waits for 'y', held by s3, s3 waits for 'x', queued before it by s4
        s4 lock x                             | s1 contended 1 x; s4#3 queued 1
        s2 release 2                          | s2#3 done; s3#3 granted 4; s3 contended 4 x
        ",
    );
}

#[test]
fn several_names_at_once_close_no_cycle() {
    play(
        "
        s1 open & s2 open & s3 open | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock x y                 | s1#2 granted 1
        s2 lock y z                 | s1 contended 1 y; s2#2 queued 0
        s3 lock z x                 | s3#2 queued 1
        s1 lock z x strand=1        | s1#3 queued 2
        s1 release 1                | s1#4 done; s2#2 granted 2; s2 contended 2 z
        s2 release 2                | s2#3 done; s3#2 granted 3; s3 contended 3 x
        s3 release 3                | s3#3 done; s1#3 granted 4
        ",
    );
}

#[test]
fn what_was_asked_for_at_the_same_time_is_no_hold_and_wait() {
    // A strand that asks for x and y at once does not need the one to go on with the other.
    play(
        "
        s1 open & s2 open & s3 open | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock x y                 | s1#2 granted 1
        s2 lock x                   | s1 contended 1 x; s2#2 queued 0
        s3 lock y                   | s3#2 queued 0
        s2 lock y                   | s2#3 queued 1
        s3 lock x                   | s3#3 queued 1
        s1 release 1                | s1#3 done; s2#2 granted 2; s3#2 granted 3; s2 contended 2 x; s3 contended 3 y
        s2 release 2                | s2#4 done; s3#3 granted 4
        s3 release 3                | s3#4 done; s2#3 granted 5
        ",
    );
}

#[test]
fn a_holder_of_permits_outside_the_cycle_can_break_it() {
    // s2 waits for one of two permits. s1 holds one and waits for s2, but s3 can give back the other.
    let open = "s1 open & s2 open & s3 open | s1#1 opened; s2#1 opened; s3#1 opened";
    let mut desk = Desk::default();
    desk.play(open);
    desk.play(
        "
        s1 lock p:1/2 | s1#2 granted 1
        s3 lock p:1/2 | s3#2 granted 2
        s2 lock x     | s2#2 granted 3
        s1 lock x     | s2 contended 3 x; s1#3 queued 0
        s2 lock p:1/2 | s1 contended 1 p; s3 contended 2 p; s2#3 queued 0
        // With this, it is a deadlock: both permits are held by those who wait for s2.
        s3 lock x     | s3#3 failed: waiting would close a cycle: s3 waits for 'x', held by s2, s2 waits for 'p', held by s3
        s3 release 2  | s3#4 done; s2#3 granted 4
        ",
    );
}

#[test]
fn a_conversion_is_part_of_a_cycle() {
    play(
        "
        s1 open & s2 open | s1#1 opened; s2#1 opened
        s1 lock x:shared  | s1#2 granted 1
        s2 lock x:shared  | s2#2 granted 2
        s2 lock y         | s2#3 granted 3
        s1 lock y strand=1 | s2 contended 3 y; s1#3 queued 0
        s1 convert 1 x    | s2 contended 2 x; s1#4 queued 0
        s1 cancel 4       | s1#4 failed: cancelled; s1#5 done
        s1 cancel 3       | s1#3 failed: cancelled; s1#6 done
        s1 lock y         | s1#7 queued 0
        s2 convert 2 x    | s2#4 failed: waiting would close a cycle: s2 waits for 'x', held by s1, s1 waits for 'y', held by s2
        ",
    );
}

#[test]
fn a_long_cycle_is_told_in_part() {
    let mut desk = Desk::default();
    for id in 1..=100 {
        desk.batch(&format!("s{id} open & s{id} lock n{id}"));
    }
    for id in 1..100 {
        desk.batch(&format!("s{id} lock n{}", id + 1));
    }
    let told = desk.batch("s100 lock n1");
    assert!(
        told.starts_with("s100#3 failed: waiting would close a cycle: s100 waits for 'n1', held by s1"),
        "{told}"
    );
    assert_eq!(told.matches("waits for").count(), 64);
}

#[test]
fn what_was_asked_for_last_before_a_grant_is_not_needed_to_give_it_back() {
    play(
        "
        s1 open & s2 open & s3 open | s1#1 opened; s2#1 opened; s3#1 opened
        s3 lock x                   | s3#2 granted 1
        s1 lock y                   | s1#2 granted 2
        s2 lock x                   | s3 contended 1 x; s2#2 queued 0
        s2 lock y                   | s1 contended 2 y; s2#3 queued 0
        s3 release 1                | s3#3 done; s2#2 granted 3
        s1 lock x                   | s2 contended 3 x; s1#3 queued 0
        ",
    );
}

#[test]
fn one_who_can_go_on_in_one_way_is_stuck_in_the_other() {
    play(
        "
        s1 open & s2 open & s3 open | s1#1 opened; s2#1 opened; s3#1 opened
        s3 lock z:1/1               | s3#2 granted 1
        s1 lock y                   | s1#2 granted 2
        s2 lock x                   | s2#2 granted 3
        s1 lock z:1/1               | s3 contended 1 z; s1#3 queued 0
        s1 lock x                   | s2 contended 3 x; s1#4 queued 0
        s2 lock y                   | s2#3 failed: waiting would close a cycle: s2 waits for 'y', held by s1, s1 waits for 'x', held by s2
        s3 release 1                | s3#3 done; s1#3 granted 4
        ",
    );
}
