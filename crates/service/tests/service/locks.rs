//! Locks, rule by rule.

use crate::common::{Desk, play};
use conclave_service::{Message, Reply, SessionId, Told};

#[test]
fn an_exclusive_lock_goes_to_one_after_the_other_in_the_order_of_arrival() {
    play(
        "
        s1 open & s2 open & s3 open | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock x                   | s1#2 granted 1
        s2 lock x                   | s1 contended 1 x; s2#2 queued 0
        s3 lock x                   | s3#2 queued 1
        s1 release 1                | s1#3 done; s2#2 granted 2; s2 contended 2 x
        s2 release 2                | s2#3 done; s3#2 granted 3
        s3 release 3                | s3#3 done
        ",
    );
}

#[test]
fn greater_priority_goes_first_and_equals_in_the_order_of_arrival() {
    play(
        "
        s1 open & s2 open & s3 open & s4 open | s1#1 opened; s2#1 opened; s3#1 opened; s4#1 opened
        s1 lock x                             | s1#2 granted 1
        s2 lock x                             | s1 contended 1 x; s2#2 queued 0
        s3 lock x priority=1                  | s3#2 queued 0
        s4 lock x priority=1                  | s4#2 queued 1
        s1 release 1                          | s1#3 done; s3#2 granted 2; s3 contended 2 x
        s3 release 2                          | s3#3 done; s4#2 granted 3; s4 contended 3 x
        s4 release 3                          | s4#3 done; s2#2 granted 4
        ",
    );
}

#[test]
fn sharers_are_granted_together_and_do_not_overtake_a_writer() {
    play(
        "
        s1 open & s2 open & s3 open & s4 open | s1#1 opened; s2#1 opened; s3#1 opened; s4#1 opened
        s1 lock x:shared                      | s1#2 granted 1
        s2 lock x:shared                      | s2#2 granted 2
        s3 lock x                             | s1 contended 1 x; s2 contended 2 x; s3#2 queued 0
        s1 lock x:shared strand=1             | s1#3 queued 1
        s2 lock x:shared strand=1             | s2#3 queued 2
        s4 lock x                             | s4#2 queued 3
        s1 release 1                          | s1#4 done
        s2 release 2                          | s2#4 done; s3#2 granted 3; s3 contended 3 x
        s3 release 3                          | s3#3 done; s1#3 granted 4; s2#3 granted 5; s1 contended 4 x; s2 contended 5 x
        ",
    );
}

#[test]
fn permits_are_granted_up_to_their_limit() {
    play(
        "
        s1 open & s2 open & s3 open | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock x:2/3               | s1#2 granted 1
        s2 lock x:1/3               | s2#2 granted 2
        s3 lock x:2/3               | s1 contended 1 x; s2 contended 2 x; s3#2 queued 0
        // One permit is free, but the first in the queue needs two.
        s2 release 2                | s2#3 done
        s2 lock x:1/3               | s2#4 queued 1
        s1 release 1                | s1#3 done; s3#2 granted 3; s2#4 granted 4
        ",
    );
}

#[test]
fn permits_do_not_go_with_sharing_nor_with_exclusion_but_wait_for_them() {
    play(
        "
        s1 open & s2 open & s3 open | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock x:1/3               | s1#2 granted 1
        s2 lock x:shared            | s1 contended 1 x; s2#2 queued 0
        s3 lock x                   | s3#2 queued 1
        s1 release 1                | s1#3 done; s2#2 granted 2; s2 contended 2 x
        s2 release 2                | s2#3 done; s3#2 granted 3
        ",
    );
}

#[test]
fn several_names_are_granted_together_or_not_at_all() {
    play(
        "
        s1 open & s2 open & s3 open | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock y                   | s1#2 granted 1
        s2 lock x y z               | s1 contended 1 y; s2#2 queued 0
        // x is free, but whoever came first for it waits for y.
        s3 lock x                   | s3#2 queued 1
        s3 lock z:shared strand=1   | s3#3 queued 1
        s1 release 1                | s1#3 done; s2#2 granted 2; s2 contended 2 x
        s2 release 2                | s2#3 done; s3#2 granted 3; s3#3 granted 4
        ",
    );
}

#[test]
fn try_names_who_is_in_the_way() {
    play(
        "
        s1 open & s2 open & s3 open | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock x                   | s1#2 granted 1
        s2 lock y x try             | s2#2 failed: 'x' is held by h1 (session s1)
        s2 lock x y                 | s1 contended 1 x; s2#3 queued 0
        s3 lock y try               | s3#2 failed: 'y' is held by h2 (session s2)
        ",
    );
}

#[test]
fn a_limited_wait_ends_in_time_and_those_behind_move_up() {
    play(
        "
        s1 open & s2 open & s3 open | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock x:shared            | s1#2 granted 1
        s2 lock x wait=100          | s1 contended 1 x; s2#2 queued 0
        s3 lock x:shared            | s3#2 queued 1
        @99                         |
        @100                        | s2#2 failed: not granted in the time allowed; s3#2 granted 2
        ",
    );
}

#[test]
fn a_wait_that_is_cancelled_is_answered_and_leaves_the_queue() {
    play(
        "
        s1 open & s2 open & s3 open | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock x:shared            | s1#2 granted 1
        s2 lock x                   | s1 contended 1 x; s2#2 queued 0
        s3 lock x:shared            | s3#2 queued 1
        s2 cancel 2                 | s2#2 failed: cancelled; s2#3 done; s3#2 granted 2
        // Too late, or never asked: nothing happens.
        s3 cancel 2                 | s3#3 done
        s3 cancel 77                | s3#4 done
        ",
    );
}

#[test]
fn what_a_strand_holds_is_granted_again_where_asked_for() {
    play(
        "
        s1 open & s2 open  | s1#1 opened; s2#1 opened
        s1 lock x y        | s1#2 granted 1
        s2 lock x          | s1 contended 1 x; s2#2 queued 0
        s1 lock x again    | s1#3 granted 1 x2
        s1 lock y:shared again | s1#4 granted 1 x3
        // Another strand holds nothing.
        s1 lock y try again strand=1 | s1#5 failed: 'y' is held by h1 (session s1)
        s1 release 1       | s1#6 done
        s1 release 1       | s1#7 done
        s1 release 1       | s1#8 done; s2#2 granted 2
        s1 release 1       | s1#9 failed: nothing is held under token 1
        ",
    );
}

#[test]
fn only_the_session_that_holds_a_grant_can_release_it() {
    play(
        "
        s1 open & s2 open | s1#1 opened; s2#1 opened
        s1 lock x         | s1#2 granted 1
        s2 release 1      | s2#2 failed: nothing is held under token 1
        s2 release 99     | s2#3 failed: nothing is held under token 99
        ",
    );
}

#[test]
fn a_name_is_used_in_one_way_at_a_time() {
    play(
        "
        s1 open & s2 open | s1#1 opened; s2#1 opened
        s1 lock x         | s1#2 granted 1
        s2 lead x         | s2#2 failed: 'x' is in use as a lock
        s1 lead y         | s1#3 granted 2; y led by s1 in 2 with ''
        s2 lock y         | s2#3 failed: 'y' is in use as an election
        s1 lock z:1/3     | s1#4 granted 3
        s2 lock z:1/4     | s2#4 failed: 'z' is in use as 3 permits
        s2 lead z         | s2#5 failed: 'z' is in use as 3 permits
        s1 release 3      | s1#5 done
        s2 lock z:1/4     | s2#6 granted 4
        ",
    );
}

#[test]
fn a_lost_holder_delays_the_next_one_and_a_release_does_not() {
    play(
        "
        s1 open ttl=1000 & s2 open | s1#1 opened; s2#1 opened
        s1 lock x delay=500        | s1#2 granted 1
        s1 release 1               | s1#3 done
        s1 lock x delay=500        | s1#4 granted 2
        s2 lock x                  | s1 contended 2 x; s2#2 queued 0
        @1000                      | s1 ended: expired
        s2 lock x strand=1 try     | s2#3 failed: 'x' is held by h2 (session s2)
        s2 cancel 2                | s2#2 failed: cancelled; s2#4 done
        s2 lock x try              | s2#5 failed: 'x' is held by nobody yet (its lock delay runs)
        s2 lock x                  | s2#6 queued 0
        @1499                      |
        @1500                      | s2#6 granted 3
        // The delay that was given last counts: none.
        s2 close                   | s2#7 done
        ",
    );
}

#[test]
fn force_takes_all_names_of_a_grant_and_says_why() {
    play(
        "
        s1 open & s2 open & s3 open     | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock x y                     | s1#2 granted 1
        s2 lock y                       | s1 contended 1 y; s2#2 queued 0
        s3 force x reason=stuck         | s1 lost 1: released by force by h3: stuck; s3#2 done; s2#2 granted 2
        s3 force x                      | s3#3 failed: 'x' is held by nobody
        s3 force nothing                | s3#4 failed: 'nothing' is held by nobody
        s3 force y token=1              | s3#5 failed: nothing is held under token 1
        s3 force y token=2 reason=again | s2 lost 2: released by force by h3: again; s3#6 done
        s1 release 1                    | s1#3 failed: nothing is held under token 1
        ",
    );
}

#[test]
fn force_takes_a_shared_name_from_all_or_from_one() {
    play(
        "
        s1 open & s2 open & s3 open | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock x:shared            | s1#2 granted 1
        s2 lock x:shared            | s2#2 granted 2
        s3 lock x:shared            | s3#2 granted 3
        s3 force x token=2 reason=a | s2 lost 2: released by force by h3: a; s3#3 done
        s3 force x reason=b         | s1 lost 1: released by force by h3: b; s3 lost 3: released by force by h3: b; s3#4 done
        ",
    );
}

#[test]
fn ten_thousand_waiters_are_woken_one_by_one() {
    let mut desk = Desk::default();
    desk.play("s1 open | s1#1 opened\n s1 lock x | s1#2 granted 1");
    let mut commands = Vec::new();
    for session in 2..102 {
        commands.push(desk.command(&format!("s{session} open")));
        commands.extend((0..100).map(|strand| desk.command(&format!("s{session} lock x strand={strand}"))));
    }
    let out = desk.apply_unchecked(commands);
    let queued = out
        .messages
        .iter()
        .filter(|message| matches!(message.told, Told::Reply { reply: Reply::Queued { .. }, .. }));
    assert_eq!(queued.count(), 10_000);
    assert_eq!(desk.state.totals().waiting, 10_000);
    let mut holder = (SessionId(1), 1);
    for released in 1..=10_000 {
        let command = desk.command(&format!("s{} release {}", holder.0.0, holder.1));
        let out = desk.apply_unchecked(vec![command]);
        let grants: Vec<(SessionId, u64)> = out.messages.iter().filter_map(granted).collect();
        assert_eq!(grants.len(), 1, "release {released} wakes exactly one");
        holder = grants[0];
    }
    assert_eq!(desk.state.totals().waiting, 0);
    desk.state.assert_invariants();
}

fn granted(message: &Message) -> Option<(SessionId, u64)> {
    match &message.told {
        Told::Reply { reply: Reply::Granted { token, .. }, .. } => Some((message.to, token.0)),
        Told::Reply { .. } | Told::Notice(_) => None,
    }
}

#[test]
fn a_sharer_without_a_lock_delay_takes_that_of_another_one_not_away() {
    play(
        "
        s1 open ttl=1000 & s2 open & s3 open | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock x:shared delay=500           | s1#2 granted 1
        s2 lock x:shared                     | s2#2 granted 2
        @1000                                | s1 ended: expired
        s3 lock x:shared try                 | s3#2 failed: 'x' is held by nobody yet (its lock delay runs)
        s2 release 2                         | s2#3 done
        s3 lock x                            | s3#3 queued 0
        @1500                                | s3#3 granted 3
        ",
    );
}
