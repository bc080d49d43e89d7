//! Sessions: how they live, end and are taken up again, and why a request never acts twice.

mod common;

use common::{Desk, play};
use conclave_service::{SessionId, limits};

#[test]
fn a_session_ends_when_nothing_is_heard_of_it_and_what_it_held_is_free() {
    play(
        "
        s1 open ttl=1000 & s2 open & s3 open ttl=2000 | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock x                                     | s1#2 granted 1
        s2 lock x                                     | s1 contended 1 x; s2#2 queued 0
        @999                                          |
        @1000                                         | s1 ended: expired; s2#2 granted 2
        s1 release 1                                  | s1#3 failed: there is no such session (it was closed, taken over or expired)
        ",
    );
}

#[test]
fn every_request_renews_its_session_even_in_the_batch_that_would_end_it() {
    play(
        "
        s1 open ttl=1000  | s1#1 opened
        @900 s1 lock x    | s1#2 granted 1
        @1500             |
        @1900 s1 renew    | s1#3 done
        @2500 s1#3 renew  | s1#3 done
        @3499             |
        @3500             | s1 ended: expired
        ",
    );
}

#[test]
fn time_never_goes_back() {
    let desk = play(
        "
        s1 open ttl=1000 | s1#1 opened
        @900             |
        @100             |
        @999             |
        @1000            | s1 ended: expired
        ",
    );
    assert_eq!(desk.state.now(), 1000);
}

#[test]
fn those_who_end_together_hand_nothing_to_each_other() {
    play(
        "
        s1 open ttl=1000 & s2 open ttl=900 & s3 open | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock x                                    | s1#2 granted 1
        s2 lock x                                    | s1 contended 1 x; s2#2 queued 0
        s3 lock x                                    | s3#2 queued 1
        @1000                                        | s2 ended: expired; s1 ended: expired; s3#2 granted 2
        ",
    );
}

#[test]
fn a_dead_waiter_leaves_the_queue_at_once() {
    play(
        "
        s1 open & s2 open ttl=1000 & s3 open & s4 open | s1#1 opened; s2#1 opened; s3#1 opened; s4#1 opened
        s1 lock x:shared                               | s1#2 granted 1
        s2 lock x                                      | s1 contended 1 x; s2#2 queued 0
        s3 lock x:shared                               | s3#2 queued 1
        @1000                                          | s2 ended: expired; s3#2 granted 2
        ",
    );
}

#[test]
fn close_releases_and_cancels_without_further_words() {
    play(
        "
        s1 open & s2 open  | s1#1 opened; s2#1 opened
        s1 lock x delay=99 | s1#2 granted 1
        s2 lock y          | s2#2 granted 2
        s1 lock y          | s2 contended 2 y; s1#3 queued 0
        s2 lock x strand=1 | s1 contended 1 x; s2#3 queued 0
        s1 close           | s1#4 done; s2#3 granted 3
        s1 close           | s1#5 failed: there is no such session (it was closed, taken over or expired)
        ",
    );
}

#[test]
fn a_connection_that_ends_takes_only_a_session_that_wants_it_so() {
    play(
        "
        s1 open tied & s2 open & s3 open | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock x delay=100              | s1#2 granted 1
        s2 lock y                        | s2#2 granted 2
        s3 lock x                        | s1 contended 1 x; s3#2 queued 0
        // Lost, not released: the lock delay runs.
        s1 gone & s2 gone & s9 gone      | s1 ended: disconnected
        s2 renew                         | s2#3 done
        @100                             | s3#2 granted 3
        ",
    );
}

#[test]
fn the_same_request_again_gets_the_same_reply_and_does_nothing() {
    play(
        "
        s1 open & s2 open | s1#1 opened; s2#1 opened
        s1#1 open         | s1#1 opened
        s1#2 lock x       | s1#2 granted 1
        s1#2 lock x       | s1#2 granted 1
        s2#2 lock x try   | s2#2 failed: x is held by h1 (session s1)
        s1#3 release 1    | s1#3 done
        s1#3 release 1    | s1#3 done
        // It was refused then, and it is now.
        s2#2 lock x try   | s2#2 failed: x is held by h1 (session s1)
        ",
    );
}

#[test]
fn a_request_that_waits_keeps_its_place_when_it_is_sent_again() {
    play(
        "
        s1 open & s2 open & s3 open & s4 open | s1#1 opened; s2#1 opened; s3#1 opened; s4#1 opened
        s1#2 lock x    | s1#2 granted 1
        s2#2 lock x    | s1 contended 1 x; s2#2 queued 0
        s3#2 lock x    | s3#2 queued 1
        s4#2 lock x    | s4#2 queued 2
        s2#2 lock x    | s2#2 queued 0
        s2#3 cancel 2  | s2#2 failed: cancelled; s2#3 done
        s4#2 lock x    | s4#2 queued 1
        s3#2 lock x    | s3#2 queued 0
        s1#3 release 1 | s1#3 done; s3#2 granted 2; s3 contended 2 x
        s3#2 lock x    | s3#2 granted 2
        ",
    );
}

#[test]
fn a_late_copy_of_an_acknowledged_request_is_ignored() {
    play(
        "
        s1#1 open            | s1#1 opened
        s1#2 lock x          | s1#2 granted 1
        s1#3 release 1 ack=3 | s1#3 done
        s1#2 lock x          |
        s1#3 release 1       | s1#3 done
        // Nor does a claim to have all replies that there will ever be do any harm.
        s1#4 renew ack=18446744073709551615 |
        ",
    );
}

#[test]
fn replies_that_are_never_acknowledged_have_a_limit() {
    let mut desk = Desk::default();
    desk.batch("s1 open & s2 open");
    for request in 2..=limits::MAX_REMEMBERED_REPLIES {
        desk.batch(&format!("s1#{request} renew"));
    }
    desk.play(
        "
        s1#1001 lock x         | s1#1001 failed: limit reached: too many replies to this session are unacknowledged; acknowledge replies
        s1#1000 renew          | s1#1000 done
        // A refusal for this reason is not remembered, and so can be tried again.
        s1#1001 lock x ack=999 | s1#1001 granted 1
        ",
    );
}

#[test]
fn openings_that_are_never_acknowledged_have_a_lower_one() {
    play(
        "
        s1#1 open       | s1#1 opened
        s1#2 open       | s1#2 resumed
        s1#3 open       | s1#3 resumed
        s1#4 open       | s1#4 resumed
        s1#5 open       | s1#5 failed: limit reached: too many replies to this session are unacknowledged; acknowledge replies
        s1#5 open ack=4 | s1#5 resumed
        s1#1 open life=2 | s1#1 resumed
        ",
    );
}

#[test]
fn a_full_memory_keeps_nobody_from_closing() {
    let mut desk = Desk::default();
    desk.batch("s1 open");
    for request in 2..=limits::MAX_REMEMBERED_REPLIES {
        desk.batch(&format!("s1#{request} renew"));
    }
    desk.play("s1#1001 close | s1#1001 done");
}

#[test]
fn the_same_run_of_a_client_opens_again_without_losing_its_place() {
    play(
        "
        s1 open & s2 open life=7    | s1#1 opened; s2#1 opened
        s1 lock x                   | s1#2 granted 1
        s2#2 lock x                 | s1 contended 1 x; s2#2 queued 0
        s2#3 lock y                 | s2#3 granted 2
        s2#1 open life=7            | s2#1 opened
        s2#4 open life=7 ttl=500    | s2#4 resumed 2 y
        s2#2 lock x                 | s2#2 queued 0
        // The shorter life counts from now on.
        @500                        | s2 ended: expired
        ",
    );
}

#[test]
fn another_run_of_a_client_takes_over_what_it_holds_and_numbers_anew() {
    play(
        "
        s1 open & s2 open life=7     | s1#1 opened; s2#1 opened
        s1#2 lock x                  | s1#2 granted 1
        s2#2 lock x                  | s1 contended 1 x; s2#2 queued 0
        s2#3 lock y z:shared         | s2#3 granted 2
        s2#4 lock v again strand=9   | s2#4 granted 3
        s2#5 lock v again strand=9   | s2#5 granted 3 x2
        s2#1 open life=8             | s2#1 resumed 2 y z:shared, 3 v
        s2#1 open life=8             | s2#1 resumed 2 y z:shared, 3 v
        // The former run's request no longer waits.
        s1#3 release 1               | s1#3 done
        s2#2 lock x                  | s2#2 granted 4
        // A copy of the former run's first request, late: it must not take over again.
        s2#1 open life=7             |
        s2#2 lock x                  | s2#2 granted 4
        ",
    );
}

#[test]
fn a_former_run_that_still_speaks_is_not_heard() {
    // Lives that begin with 1 and 2; their requests are numbered from 2^32 and from 2 * 2^32.
    play(
        "
        s1#4294967297 open life=4294967303 | s1#4294967297 opened
        s1#4294967298 lock x               | s1#4294967298 granted 1
        s1#8589934593 open life=8589934600 | s1#8589934593 resumed 1 x
        // It neither gets, nor releases, nor acknowledges anything.
        s1#4294967299 lock y               | s1#4294967299 failed: there is no such session (it was closed, taken over or expired)
        s1#4294967300 release 1            | s1#4294967300 failed: there is no such session (it was closed, taken over or expired)
        s1#8589934594 lock z               | s1#8589934594 granted 2
        s1#8589934595 release 1            | s1#8589934595 done
        // Nor can a later number of the former run make the present one's look old.
        s1#4294967400 renew ack=4294967399 | s1#4294967400 failed: there is no such session (it was closed, taken over or expired)
        s1#8589934596 release 2            | s1#8589934596 done
        ",
    );
}

#[test]
fn openings_that_make_no_sense_are_refused() {
    let long = "h".repeat(257);
    let mut desk = Desk::default();
    desk.play(
        "
        s0 open              | s0#1 failed: a session has a number other than 0
        s1 open ttl=499      | s1#1 failed: a session lives for 500 ms at least and 86400000 ms at most without a word, not 499 ms
        s1 open ttl=86400001 | s1#2 failed: a session lives for 500 ms at least and 86400000 ms at most without a word, not 86400001 ms
        s1#0 open            | s1#0 failed: the requests of a session are numbered from 1
        s1#0 renew           | s1#0 failed: the requests of a session are numbered from 1
        s1#3 renew           | s1#3 failed: there is no such session (it was closed, taken over or expired)
        s1 open ttl=500      | s1#4 opened
        s2 open ttl=86400000 | s2#1 opened
        ",
    );
    for field in ["host", "user", "label"] {
        let told = desk.batch(&format!("s3 open {field}={long}"));
        assert!(told.ends_with(&format!("the {field} of an owner has 256 bytes at most, not 257")), "{told}");
    }
    assert!(!desk.state.has_session(SessionId(3)));
}

#[test]
fn the_next_deadline_is_never_late() {
    let mut desk = Desk::default();
    assert_eq!(desk.state.next_deadline(), None);
    desk.batch("s1 open ttl=1000");
    assert_eq!(desk.state.next_deadline(), Some(1000));
    desk.batch("@400 s1 renew & s2 open");
    assert_eq!(desk.state.next_deadline(), Some(1400), "a renewal moves it");
    desk.batch("s1 lock x delay=5 & s2 lock x wait=100");
    assert_eq!(desk.state.next_deadline(), Some(500), "a limited wait comes before");
    desk.batch("@500");
    desk.batch("@1400");
    assert_eq!(desk.state.next_deadline(), Some(1405), "then the lock delay of the lost holder");
    desk.batch("@1405");
    assert_eq!(desk.state.next_deadline(), Some(60_400), "then the other session");
}

#[test]
fn there_is_a_limit_to_sessions() {
    let mut desk = Desk::default();
    let opens = (1..=limits::MAX_SESSIONS).map(|id| desk.command(&format!("s{id} open"))).collect();
    desk.apply_unchecked(opens);
    assert_eq!(desk.state.totals().sessions, limits::MAX_SESSIONS as u64);
    let more = desk.command("s77000 open");
    let out = desk.apply_unchecked(vec![more]);
    assert!(common::describe(&out).ends_with("limit reached: there are 50000 sessions already"));
    let again = desk.command("s1 open life=2");
    let out = desk.apply_unchecked(vec![again]);
    assert!(common::describe(&out).ends_with("resumed"), "one that exists can still be taken up");
}
