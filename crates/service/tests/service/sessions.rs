//! Sessions: how they live, end and are taken up again, and why a request never acts twice.

use crate::common::{Desk, catches, play};
use conclave_service::{Fault, Life, SessionId, State, Told, limits};

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
        // Opening is answered again.
        s1#1 open         | s1#1 resumed
        s1#2 lock x       | s1#2 granted 1
        s1#2 lock x       | s1#2 granted 1
        s2#2 lock x try   | s2#2 failed: 'x' is held by h1 (session s1)
        s1#3 release 1    | s1#3 done
        s1#3 release 1    | s1#3 done
        // It was refused then, and it is now.
        s2#2 lock x try   | s2#2 failed: 'x' is held by h1 (session s1)
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
        ",
    );
}

#[test]
fn replies_that_are_never_acknowledged_have_a_limit() {
    let mut desk = Desk::default();
    desk.batch("s1 open & s2 open");
    for request in 2..=limits::MAX_REMEMBERED_REPLIES + 1 {
        desk.batch(&format!("s1#{request} lock y try"));
    }
    desk.play(
        "
        s1#1002 lock x         | s1#1002 failed: limit reached: too many replies to this session are unacknowledged; acknowledge replies
        // What was answered is answered as before, and what gives something up is never refused.
        s1#2 lock y try        | s1#2 granted 1
        s1#1003 renew          | s1#1003 done
        s1#1004 cancel 7       | s1#1004 done
        s1#1005 release 1      | s1#1005 done
        s1#1005 release 1      | s1#1005 done
        s1#1006 open reopens   | s1#1006 resumed
        s1#1007 lock x         | s1#1007 failed: limit reached: too many replies to this session are unacknowledged; acknowledge replies
        // A refusal for this reason is not kept as a reply, but it is final: only another request is a new one.
        s1#1007 lock x ack=900 | s1#1007 failed: limit reached: too many replies to this session are unacknowledged; acknowledge replies
        s1#1008 lock x         | s1#1008 granted 2
        s1#1009 close          | s1#1009 done
        ",
    );
}

/// What the client of the next test sees.
fn cycles_beside_a_wait(mut desk: Desk) -> Result<(), String> {
    desk.batch("s1 open & s2 open & s2 lock x & s1#2 lock x strand=1");
    for cycle in 0..3_000 {
        let (lock, release) = (3 + 2 * cycle, 4 + 2 * cycle);
        let told = desk.batch(&format!("s1#{lock} lock y ack={lock}"));
        let granted = format!("s1#{lock} granted {}", 2 + cycle);
        if told != granted {
            return Err(format!("{told} instead of {granted}"));
        }
        let told = desk.batch(&format!("s1#{release} release {} ack={release}", 2 + cycle));
        if told != format!("s1#{release} done") {
            return Err(told);
        }
        if desk.state.remembered(SessionId(1)) != (1, 0) {
            return Err(format!("{:?} are remembered", desk.state.remembered(SessionId(1))));
        }
    }
    // The wait is still there under its number, and so is its reply until it is settled.
    desk.play(
        "
        s1#2 lock x strand=1            | s1#2 queued 0
        s2 release 1                    | s2#3 done; s1#2 granted 3002
        s1#6003 renew ack=6003          | s1#6003 done
        // Above what is acknowledged nothing can be settled: a late copy would look new.
        s1#6004 lock z strand=2         | s1#6004 granted 3003
        s2 lock z                       | s1 contended 3003 z; s2#4 queued 0
        s1#6005 release 3003            | s1#6005 done; s2#4 granted 3004
        s2#5 renew ack=4 settled=4      | s2#5 done
        s2#4 lock z                     | s2#4 granted 3004
        s2#6 renew ack=5 settled=4      | s2#6 done
        s2#4 lock z                     |
        s1#2 lock x strand=1            | s1#2 granted 3002
        s1#6006 renew ack=6006 settled=2 | s1#6006 done
        s1#2 lock x strand=1            |
        ",
    );
    Ok(())
}

#[test]
fn three_thousand_cycles_go_on_beside_one_long_wait() {
    cycles_beside_a_wait(Desk::default()).expect("no wait jams its session");
}

#[test]
fn a_mutant_that_remembers_everything_behind_a_wait_is_jammed() {
    let desk = Desk::with(State::with_fault(Fault::RememberBehindWaits));
    cycles_beside_a_wait(desk).expect_err("replies pile up");
}

#[test]
fn everything_that_is_held_can_be_released_without_an_acknowledgement() {
    let released = |state: State| {
        // Tokens begin where the clock of a leader says, far above the number of grants.
        let floor = 1_u64 << 50;
        let mut desk = Desk::with(state);
        desk.floor = floor;
        desk.batch("s1 open");
        let grants = 3_000;
        let mut batch = |text: String| {
            let command = desk.command(&text);
            crate::common::describe(&desk.apply_unchecked(vec![command]))
        };
        for request in 2..2 + grants {
            batch(format!("s1#{request} lock n{request} ack={request}"));
        }
        let release =
            |token| batch(format!("s1#{} release {} ack=3002", 3_001 + token, floor + token as u64));
        let done = (1..=grants).map(release).filter(|told| told.ends_with("done")).count();
        desk.state.assert_invariants();
        (grants - done, desk.state.remembered(SessionId(1)))
    };
    assert_eq!(released(State::default()), (0, (3_000, 0)));
    assert_ne!(
        released(State::with_fault(Fault::RefuseReleases)).0,
        0,
        "a mutant that refuses them is noticed"
    );
}

#[test]
fn releases_that_give_nothing_back_are_not_remembered() {
    let mut desk = Desk::default();
    desk.batch("s1 open & s2 open & s2 lock x");
    for request in 2..5_000 {
        assert!(desk.batch(&format!("s1#{request} release 1")).ends_with("nothing is held under token 1"));
    }
    assert_eq!(desk.state.remembered(SessionId(1)), (0, 0));
    // Only one that was guessed is: it must not release what is granted later.
    desk.play(
        "
        s1#5000 release 2 | s1#5000 failed: nothing is held under token 2
        s1#5001 lock y    | s1#5001 granted 2
        s1#5000 release 2 | s1#5000 failed: nothing is held under token 2
        ",
    );
}

/// Opens a session again and again while it waits.
fn reopened(mut desk: Desk) -> Result<(), String> {
    desk.batch("s1 open & s1 lock x & s2 open life=7 & s2 lock x & s2 lock y & s3 open & s3 lock x");
    for request in 4..104 {
        // Nothing is acknowledged: the connection broke each time before the reply came.
        desk.compare(&format!(
            "
            s2#{request} open reopens | s2#{request} resumed 2
            s2#2 lock x               | s2#2 queued 0
            "
        ))?;
    }
    desk.compare("s1 release 1 | s1#3 done; s2#2 granted 3; s2 contended 3 x")
}

#[test]
fn a_session_reopens_as_often_as_it_likes_and_keeps_its_place() {
    reopened(Desk::default()).expect("it keeps its place");
    let mutant = Desk::with(State::with_fault(Fault::LosePlaces));
    reopened(mutant).expect_err("a mutant that loses it is noticed");
}

#[test]
fn a_session_that_is_gone_is_not_opened_again_empty() {
    let script = "
        s1 open ttl=500 life=7 | s1#1 opened
        s1#2 lock x            | s1#2 granted 1
        @500                   | s1 ended: expired
        // Whatever it sends with the opening does not act.
        s1#3 open reopens & s1#4 lock x | s1#3 failed: there is no such session (it was closed, taken over or expired); s1#4 failed: there is no such session (it was closed, taken over or expired)
        // Another run may begin it again.
        s1#1 open life=8       | s1#1 opened
        s1#5 open reopens life=7 | s1#5 failed: there is no such session (it was closed, taken over or expired)
        ";
    let desk = play(script);
    assert_eq!(desk.state.totals().sessions, 1);
}

#[test]
fn what_acknowledges_replies_that_are_still_to_come_is_refused() {
    let script = "
        s1#1 open                | s1#1 opened
        s1#2 lock x ack=2        | s1#2 granted 1
        s1#3 renew ack=4         | s1#3 failed: request 3 cannot acknowledge up to 4: it has no reply yet
        s1#1 open ack=9 life=2   | s1#1 failed: request 1 cannot acknowledge up to 9: it has no reply yet
        // Nothing was acknowledged by that.
        s1#2 lock x life=1       | s1#2 granted 1
        s1#3 release 1 life=1 ack=3 | s1#3 done
        ";
    play(script);
    catches(script, Fault::BelieveAcknowledgements);
}

#[test]
fn replies_say_whether_they_renewed_the_session_and_whether_they_waited() {
    let mut desk = Desk::default();
    let mut flags = |batch: &str| -> Vec<(u64, bool, bool)> {
        let commands = batch.split('&').map(|text| desk.command(text.trim())).collect();
        let messages = desk.apply(commands).messages;
        let flags = messages.into_iter().filter_map(|message| match message.told {
            Told::Reply { request, renewed, waited, .. } => Some((request.0, renewed, waited)),
            Told::Notice(_) => None,
        });
        flags.collect()
    };
    assert_eq!(
        flags("s1 open & s2 open & s1 lock x"),
        [(1, true, false), (1, true, false), (2, true, false)]
    );
    assert_eq!(flags("s2 lock x"), [(2, true, false)], "it waits");
    assert_eq!(flags("s1 release 1"), [(3, true, false), (2, true, true)], "and waited");
    assert_eq!(flags("s2#2 lock x"), [(2, true, true)]);
    // A refusal of the state machine renews, unless there was nothing to renew.
    assert_eq!(flags("s1 release 77"), [(4, true, false)]);
    assert_eq!(flags("s3 renew"), [(1, false, false)]);
    assert_eq!(flags("s1 renew life=9"), [(5, false, false)]);
    assert_eq!(flags("s1#6 renew ack=7"), [(6, false, false)]);
    assert_eq!(flags("s1#7 open ttl=1"), [(7, false, false)]);
}

#[test]
fn requests_go_on_beyond_thirty_two_bits() {
    let last = u64::from(u32::MAX);
    play(&format!(
        "
        s1#1 open               | s1#1 opened
        s1#{last} lock x        | s1#{last} granted 1
        s1#{0} lock y ack={last} | s1#{0} granted 2
        s1#{1} release 1 ack={1} | s1#{1} done
        s1#{last} lock x        |
        s1#{0} lock y           |
        ",
        last + 1,
        last + 2,
    ));
}

#[test]
fn the_same_run_of_a_client_opens_again_without_losing_its_place() {
    play(
        "
        s1 open & s2 open life=7    | s1#1 opened; s2#1 opened
        s1 lock x                   | s1#2 granted 1
        s2#2 lock x                 | s1 contended 1 x; s2#2 queued 0
        s2#3 lock y                 | s2#3 granted 2
        s2#1 open                   | s2#1 resumed 2
        s2#4 open reopens ttl=500   | s2#4 resumed 2
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
        s2#1 open life=8             | s2#1 resumed 2 3
        s2#1 open life=8             | s2#1 resumed 2 3
        // The former run's request no longer waits.
        s1#3 release 1               | s1#3 done
        s2#2 lock x                  | s2#2 granted 4
        // A copy of the former run's first request, late: it must not take over again.
        s2#1 open life=7             | s2#1 failed: there is no such session (it was closed, taken over or expired)
        s2#2 lock x life=8           | s2#2 granted 4
        // Nor must one of a run before that, or of one that never came to anything.
        s2#1 open life=9             | s2#1 resumed 2 3 4
        s2#1 open life=7             | s2#1 failed: there is no such session (it was closed, taken over or expired)
        s2#1 open life=8             | s2#1 failed: there is no such session (it was closed, taken over or expired)
        s2#1 open life=3             | s2#1 failed: there is no such session (it was closed, taken over or expired)
        s2#2 release 4 life=9        | s2#2 done
        ",
    );
}

#[test]
fn a_grant_that_was_taken_before_its_reply_was_heard_is_told_to_be_lost() {
    let script = "
        s1 open & s2 open           | s1#1 opened; s2#1 opened
        s1#2 lock x                 | s1#2 granted 1
        s1#3 lock x strand=1        | s1 contended 1 x; s1#3 queued 0
        s1#4 lock y:shared          | s1#4 granted 2
        s1#5 convert 2 y            | s1#5 granted 3
        s1#6 lock y again           | s1#6 granted 3 x2
        // As long as it is held, a reply is repeated as it was. The former token of one that goes on is not lost either.
        s1#2 lock x & s1#4 lock y:shared | s1#2 granted 1; s1#4 granted 2
        s2 force x reason=a         | s1 lost 1: released by force by h2: a; s2#2 done; s1#3 granted 4
        s2 force x reason=b         | s1 lost 4: released by force by h2: b; s2#3 done
        s2 force y reason=c         | s1 lost 3: released by force by h2: c; s2#4 done
        // The client was away, and asks again for what it has not heard.
        s1#2 lock x                 | s1#2 granted 1; s1 lost 1: released before this reply was heard
        s1#3 lock x strand=1        | s1#3 granted 4; s1 lost 4: released before this reply was heard
        s1#5 convert 2 y            | s1#5 granted 3; s1 lost 3: released before this reply was heard
        s1#6 lock y again           | s1#6 granted 3 x2; s1 lost 3: released before this reply was heard
        s1#7 open reopens           | s1#7 resumed
        ";
    play(script);
    catches(script, Fault::HideLosses);
}

/// What comes of a request that was refused for lack of room, when it arrives again.
fn refused_and_again(mut desk: Desk) -> Result<(), String> {
    desk.play("s1 open | s1#1 opened");
    let asked = limits::MAX_REMEMBERED_REPLIES as u64 + 2;
    for request in 2..asked {
        desk.batch(&format!("s1#{request} lock n{request}"));
    }
    let refused =
        "failed: limit reached: too many replies to this session are unacknowledged; acknowledge replies";
    assert_eq!(desk.batch(&format!("s1#{asked} lock x")), format!("s1#{asked} {refused}"));
    // What gives something up is taken all the same.
    let release = asked + 1;
    assert_eq!(desk.batch(&format!("s1#{release} release 1")), format!("s1#{release} done"));
    // The client acknowledges, but for one reply: there is room, and what was refused could act.
    let renew = asked + 2;
    assert_eq!(desk.batch(&format!("s1#{renew} renew ack={}", asked - 1)), format!("s1#{renew} done"));
    let again = desk.batch(&format!("s1#{asked} lock x"));
    if again != format!("s1#{asked} {refused}") {
        return Err(again);
    }
    assert!(desk.state.name(&"x".into()).is_none(), "nobody holds it");
    // A new request is none of those.
    let next = asked + 3;
    let granted = limits::MAX_REMEMBERED_REPLIES + 1;
    assert_eq!(desk.batch(&format!("s1#{next} lock x")), format!("s1#{next} granted {granted}"));
    Ok(())
}

#[test]
fn what_was_refused_for_lack_of_room_does_not_act_later() {
    refused_and_again(Desk::default()).expect("it is refused for good");
    let forgetful = Desk::with(State::with_fault(Fault::ForgetRefusals));
    refused_and_again(forgetful).expect_err("a mutant that forgets it is noticed");
}

#[test]
fn a_former_run_that_still_speaks_is_not_heard() {
    let script = "
        s1#1 open life=7           | s1#1 opened
        s1#2 lock x                | s1#2 granted 1
        s1#1 open life=8           | s1#1 resumed 1
        // It neither gets, nor releases, nor acknowledges anything, and is told so.
        s1#3 lock y life=7         | s1#3 failed: there is no such session (it was closed, taken over or expired)
        s1#4 release 1 life=7      | s1#4 failed: there is no such session (it was closed, taken over or expired)
        s1#5 open reopens life=7   | s1#5 failed: there is no such session (it was closed, taken over or expired)
        s1#2 lock z life=8         | s1#2 granted 2
        s1#3 release 1 life=8      | s1#3 done
        // Nor can a later number of the former run make the present one's look old.
        s1#99 renew ack=99 life=7  | s1#99 failed: there is no such session (it was closed, taken over or expired)
        s1#4 release 2 life=8      | s1#4 done
        ";
    play(script);
    catches(script, Fault::HearFormerRuns);
}

#[test]
fn the_end_of_a_former_runs_connection_or_session_is_not_taken_for_the_present_ones() {
    let mut desk = Desk::default();
    desk.play(
        "
        s1#1 open tied life=7   | s1#1 opened
        s1#1 open tied life=8   | s1#1 resumed
        s1 gone life=7          |
        s1#2 lock x life=8      | s1#2 granted 1
        ",
    );
    let gone = desk.command("s1 gone life=8");
    let ended = desk.apply(vec![gone]).messages;
    assert_eq!(ended.iter().map(|message| message.life).collect::<Vec<_>>(), [Life(8)]);
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
    assert!(crate::common::describe(&out).ends_with("limit reached: there are 50000 sessions already"));
    let again = desk.command("s1 open life=2");
    let out = desk.apply_unchecked(vec![again]);
    assert!(crate::common::describe(&out).ends_with("resumed"), "one that exists can still be taken up");
}

#[test]
fn a_session_that_is_ended_by_another_one_leaves_nothing_behind() {
    play(
        "
        s1 open & s2 open & s3 open | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock x delay=5000        | s1#2 granted 1
        s1 lock y strand=1          | s1#3 granted 2
        s2 lock x                   | s1 contended 1 x; s2#2 queued 0
        s3 lock y                   | s1 contended 2 y; s3#2 queued 0
        s1 lock z                   | s1#4 granted 3
        s2 end s1 reason=gone       | s1 ended: ended by force: gone (by h2); s2#3 done; s2#2 granted 4; s3#2 granted 5
        s1 renew                    | s1#5 failed: there is no such session (it was closed, taken over or expired)
        s2 end s1 reason=gone       | s2#4 failed: there is no session s1
        s2 end s2 reason=tired      | s2 ended: ended by force: tired (by h2); s2#5 done
        ",
    );
}
