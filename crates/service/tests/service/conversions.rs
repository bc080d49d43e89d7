//! Holding a name in another mode.

use crate::common::{catches, name, play};
use conclave_service::{Fault, Standing, Token};

#[test]
fn a_weaker_mode_is_held_at_once_under_the_same_token() {
    let desk = play(
        "
        s1 open & s2 open & s3 open | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock x y                 | s1#2 granted 1
        s2 lock x:shared            | s1 contended 1 x; s2#2 queued 0
        s3 lock x                   | s3#2 queued 1
        s1 convert 1 x:shared       | s1#3 done; s2#2 granted 2; s2 contended 2 x
        ",
    );
    assert_eq!(desk.state.check(&name("x"), Token(1)), Standing::Held);
    assert_eq!(desk.state.check(&name("y"), Token(1)), Standing::Held);
}

#[test]
fn a_stronger_mode_takes_a_new_token_on_all_names_of_the_grant() {
    let desk = play(
        "
        s1 open & s2 open   | s1#1 opened; s2#1 opened
        s1 lock x:shared y  | s1#2 granted 1
        s1 lock y again     | s1#3 granted 1 x2
        s1 convert 1 x      | s1#4 granted 2 x2
        s2 lock x try       | s2#2 failed: 'x' is held by h1 (session s1)
        s2 release 1        | s2#3 failed: nothing is held under token 1
        ",
    );
    for held in ["x", "y"] {
        assert_eq!(desk.state.check(&name(held), Token(1)), Standing::Stale { newest: Token(2) });
        assert_eq!(desk.state.check(&name(held), Token(2)), Standing::Held);
    }
    let history = desk.state.name(&name("y")).expect("it is held").history;
    assert_eq!((&*history[0].how, history[0].token), ("converted", Token(1)));
}

#[test]
fn a_release_that_crosses_a_conversion_gives_back_what_it_meant() {
    let script = "
        s1 open & s2 open   | s1#1 opened; s2#1 opened
        s1 lock x:shared    | s1#2 granted 1
        s1 lock x:shared again | s1#3 granted 1 x2
        s1 convert 1 x      | s1#4 granted 2 x2
        // It was sent before the reply to the conversion was heard.
        s1 release 1        | s1#5 done
        s1#5 release 1      | s1#5 done
        s2 lock x try       | s2#2 failed: 'x' is held by h1 (session s1)
        // For everything else the former token is old.
        s1 convert 1 x:shared  | s1#6 failed: nothing is held under token 1
        s1 release 2        | s1#7 done
        s1 release 1        | s1#8 failed: nothing is held under token 1
        s2 lock x try       | s2#3 granted 3
        s2 release 3        | s2#4 done
        // A conversion that waited, and one more after it: only the last token before the present one counts.
        s1 lock x:1/9       | s1#9 granted 4
        s1 lock x:1/9 again | s1#10 granted 4 x2
        s1 convert 4 x:2/9  | s1#11 granted 5 x2
        s1 convert 5 x:3/9  | s1#12 granted 6 x2
        s1 release 4        | s1#13 failed: nothing is held under token 4
        s1 release 5        | s1#14 done
        s1 release 5        | s1#15 done
        s1 release 5        | s1#16 failed: nothing is held under token 5
        ";
    let desk = play(script);
    catches(script, Fault::ForgetExchanged);
    assert_eq!(desk.state.name(&name("x")).expect("it is remembered").summary.holders, 0);
}

#[test]
fn a_stronger_mode_waits_ahead_of_all_who_have_nothing() {
    play(
        "
        s1 open & s2 open & s3 open | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock x:shared            | s1#2 granted 1
        s2 lock x:shared            | s2#2 granted 2
        s3 lock x priority=100      | s1 contended 1 x; s2 contended 2 x; s3#2 queued 0
        s1 convert 1 x              | s1#3 queued 0
        s2 release 2                | s2#3 done; s1#3 granted 3; s1 contended 3 x
        s1 release 3                | s1#4 done; s3#2 granted 4
        ",
    );
}

#[test]
fn while_it_waits_the_name_is_held_as_before_and_nobody_else_gets_in() {
    play(
        "
        s1 open & s2 open & s3 open | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock x:shared            | s1#2 granted 1
        s2 lock x:shared            | s2#2 granted 2
        s1 convert 1 x wait=100     | s2 contended 2 x; s1#3 queued 0
        s3 lock x:shared            | s3#2 queued 1
        // The one who converts was not in anybody's way before; now it is.
        s3 lock x strand=1          | s1 contended 1 x; s3#3 queued 2
        @100                        | s1#3 failed: not granted in the time allowed; s3#2 granted 3; s3 contended 3 x
        s1 convert 1 x try          | s1#4 failed: 'x' is held by h2 (session s2)
        s1 release 1                | s1#5 done
        ",
    );
}

#[test]
fn two_who_both_want_more_would_wait_for_each_other() {
    play(
        "
        s1 open & s2 open | s1#1 opened; s2#1 opened
        s1 lock x:shared  | s1#2 granted 1
        s2 lock x:shared  | s2#2 granted 2
        s1 convert 1 x    | s2 contended 2 x; s1#3 queued 0
        s2 convert 2 x    | s2#3 failed: waiting would close a cycle: s2 waits for 'x', held by s1, s1 waits for 'x', held by s2
        s2 convert 2 x try | s2#4 failed: 'x' is held by h1 (session s1)
        s2 release 2      | s2#5 done; s1#3 granted 3
        ",
    );
}

#[test]
fn two_who_both_want_more_permits_wait_for_a_third_who_can_help_both() {
    play(
        "
        s1 open & s2 open & s3 open | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock x:1/4               | s1#2 granted 1
        s2 lock x:1/4               | s2#2 granted 2
        s3 lock x:2/4               | s3#2 granted 3
        s1 convert 1 x:2/4          | s2 contended 2 x; s3 contended 3 x; s1#3 queued 0
        s2 convert 2 x:2/4          | s1 contended 1 x; s2#3 queued 1
        s3 release 3                | s3#3 done; s1#3 granted 4; s2#3 granted 5
        // With nobody else there, they would wait for each other.
        s1 convert 4 x:3/4          | s2 contended 5 x; s1#4 queued 0
        s2 convert 5 x:3/4          | s2#4 failed: waiting would close a cycle: s2 waits for 'x', held by s1, s1 waits for 'x', held by s2
        ",
    );
}

#[test]
fn a_conversion_ends_with_its_grant_or_when_it_is_cancelled() {
    play(
        "
        s1 open & s2 open | s1#1 opened; s2#1 opened
        s1 lock x:shared  | s1#2 granted 1
        s2 lock x:shared  | s2#2 granted 2
        s1 convert 1 x    | s2 contended 2 x; s1#3 queued 0
        s1 convert 1 x    | s1#4 failed: a conversion of token 1 waits already
        s1 cancel 3       | s1#3 failed: cancelled; s1#5 done
        s1 convert 1 x    | s1#6 queued 0
        s1 release 1      | s1#6 failed: nothing is held under token 1; s1#7 done
        ",
    );
}

#[test]
fn permits_can_be_added_and_given_back() {
    play(
        "
        s1 open & s2 open & s3 open | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock x:1/4               | s1#2 granted 1
        s2 lock x:2/4               | s2#2 granted 2
        s1 convert 1 x:2/4          | s1#3 granted 3
        s3 lock x:1/4               | s2 contended 2 x; s1 contended 3 x; s3#2 queued 0
        s1 convert 3 x:3/4          | s1#4 queued 0
        s2 convert 2 x:1/4          | s2#3 done; s1#4 granted 4; s1 contended 4 x
        s1 convert 4 x:1/4          | s1#5 done; s3#2 granted 5
        s1 convert 4 x:1/5          | s1#6 failed: 'x' is in use as 4 permits
        s1 convert 4 x:0/4          | s1#7 failed: it takes one permit at least
        s1 convert 4 x:9/4          | s1#8 failed: 9 permits of 4 can never be granted
        ",
    );
}

#[test]
fn only_what_one_holds_and_does_not_lead_can_be_converted() {
    play(
        "
        s1 open & s2 open     | s1#1 opened; s2#1 opened
        s1 lock x             | s1#2 granted 1
        s2 convert 1 x:shared | s2#2 failed: nothing is held under token 1
        s1 convert 1 y        | s1#3 failed: y is not among the names of token 1
        s1 convert 1 x        | s1#4 done
        s1 lead e             | s1#5 granted 2; e led by s1 in 2 with ''
        s1 convert 2 e:shared | s1#6 failed: one leads alone: an election is not held in another mode
        ",
    );
}

#[test]
fn a_lock_delay_holds_up_a_stronger_mode_too() {
    play(
        "
        s1 open & s2 open ttl=1000  | s1#1 opened; s2#1 opened
        s1 lock x:shared            | s1#2 granted 1
        s2 lock x:shared delay=100  | s2#2 granted 2
        s1 convert 1 x              | s2 contended 2 x; s1#3 queued 0
        @1000                       | s2 ended: expired
        @1100                       | s1#3 granted 3
        ",
    );
}
