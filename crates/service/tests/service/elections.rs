//! Elections, rule by rule.

use crate::common::{name, play};
use conclave_service::SessionId;

#[test]
fn a_successor_follows_without_a_vacancy_between() {
    play(
        "
        s1 open & s2 open     | s1#1 opened; s2#1 opened
        s1 lead e value=one   | s1#2 granted 1; e led by s1 in 1 with 'one'
        s2 lead e value=two   | s1 contended 1 e; s2#2 queued 0
        s1 release 1          | s1#3 done; s2#2 granted 2; e led by s2 in 2 with 'two'
        s2 release 2          | s2#3 done; e vacant
        ",
    );
}

#[test]
fn a_lost_leader_leaves_a_vacancy_while_its_delay_runs() {
    play(
        "
        s1 open ttl=1000 & s2 open | s1#1 opened; s2#1 opened
        s1 lead e delay=100        | s1#2 granted 1; e led by s1 in 1 with ''
        s2 lead e                  | s1 contended 1 e; s2#2 queued 0
        @1000                      | s1 ended: expired; e vacant
        @1100                      | s2#2 granted 2; e led by s2 in 2 with ''
        ",
    );
}

#[test]
fn a_leader_shows_another_value_in_the_same_term() {
    let desk = play(
        "
        s1 open & s2 open    | s1#1 opened; s2#1 opened
        s1 lead e value=one  | s1#2 granted 1; e led by s1 in 1 with 'one'
        s1 proclaim 1 two    | s1#3 done; e led by s1 in 1 with 'two'
        s2 proclaim 1 three  | s2#2 failed: nothing is held under token 1
        s2 lock x            | s2#3 granted 2
        s2 proclaim 2 four   | s2#4 failed: token 2 is that of a lock, not of a leader
        ",
    );
    let leader = desk.state.leader(&name("e")).expect("s1 leads");
    assert_eq!((leader.session, &*leader.value), (SessionId(1), b"two".as_slice()));
    assert_eq!(desk.state.leader(&name("x")), None, "a lock has no leader");
}

#[test]
fn a_leader_resigns_in_favour_of_a_candidate_whatever_its_place() {
    let desk = play(
        "
        s1 open & s2 open & s3 open & s4 open | s1#1 opened; s2#1 opened; s3#1 opened; s4#1 opened
        s1 lead e                             | s1#2 granted 1; e led by s1 in 1 with ''
        s2 lead e priority=9                  | s1 contended 1 e; s2#2 queued 0
        s3 lead e                             | s3#2 queued 1
        s1 transfer 1 s4                      | s1#3 failed: session s4 is no candidate
        s1 transfer 1 s1                      | s1#4 failed: session s1 is no candidate
        s2 transfer 1 s3                      | s2#3 failed: nothing is held under token 1
        s1 transfer 1 s3                      | s3#2 granted 2; s1#5 done; s3 contended 2 e; e led by s3 in 2 with ''
        s3 release 2                          | s3#3 done; s2#2 granted 3; e led by s2 in 3 with ''
        ",
    );
    let history = desk.state.name(&name("e")).expect("it is led").history;
    let how: Vec<&str> = history.iter().map(|past| &*past.how).collect();
    assert_eq!(how, ["released", "transferred"]);
}

#[test]
fn a_session_is_a_candidate_once() {
    play(
        "
        s1 open & s2 open    | s1#1 opened; s2#1 opened
        s1 lead e            | s1#2 granted 1; e led by s1 in 1 with ''
        s1 lead e strand=1   | s1#3 failed: this session is already a candidate for e
        s2 lead e            | s1 contended 1 e; s2#2 queued 0
        s2 lead e            | s2#3 failed: this session is already a candidate for e
        s1 lead e again      | s1#4 granted 1 x2
        s1 release 1         | s1#5 done
        s1 release 1         | s1#6 done; s2#2 granted 2; e led by s2 in 2 with ''
        ",
    );
}

#[test]
fn an_election_is_about_one_name_alone() {
    play(
        "
        s1 open          | s1#1 opened
        s1 lead e f      | s1#2 failed: an election has exactly one name
        s1 lead e:shared | s1#3 failed: one leads alone: an election takes its name exclusively
        s1 lead e:1/2    | s1#4 failed: one leads alone: an election takes its name exclusively
        ",
    );
}

#[test]
fn a_leader_that_is_deposed_leaves_a_vacancy_or_a_successor() {
    play(
        "
        s1 open & s2 open      | s1#1 opened; s2#1 opened
        s1 lead e              | s1#2 granted 1; e led by s1 in 1 with ''
        s2 force e reason=hung | s1 lost 1: released by force by h2: hung; s2#2 done; e vacant
        s1 lead e              | s1#3 granted 2; e led by s1 in 2 with ''
        s2 lead e              | s1 contended 2 e; s2#3 queued 0
        s2 force e reason=hung | s1 lost 2: released by force by h2: hung; s2#4 done; s2#3 granted 3; e led by s2 in 3 with ''
        ",
    );
}
