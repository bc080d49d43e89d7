//! What can be seen: tokens and what they are worth, history, queues, and why somebody waits.

use crate::common::{Desk, name, play, short};
use conclave_service::{Mode, Name, RequestId, SessionId, Standing, State, Token, Wait, limits};

fn chain(steps: &[Wait]) -> String {
    let steps = steps.iter().map(|step| {
        let verb = if step.holds { "held by" } else { "queued before it by" };
        format!("{} waits for {}, {verb} {}", step.session, step.name, step.behind)
    });
    short(&steps.collect::<Vec<_>>().join("; "))
}

fn listed(state: &State, prefix: &str, after: Option<&Name>) -> Vec<String> {
    state.names(prefix, after).map(|line| line.name.to_string()).collect()
}

#[test]
fn a_token_is_held_then_released_then_stale() {
    let mut desk = play(
        "
        s1 open & s2 open | s1#1 opened; s2#1 opened
        s1 lock x         | s1#2 granted 1
        s1 lock y         | s1#3 granted 2
        ",
    );
    let x = name("x");
    assert_eq!(desk.state.check(&x, Token(1)), Standing::Held);
    assert_eq!(desk.state.check(&x, Token(0)), Standing::Unknown);
    assert_eq!(desk.state.check(&x, Token(2)), Standing::Unknown, "that one is of another name");
    assert_eq!(desk.state.check(&name("z"), Token(1)), Standing::Unknown);
    desk.batch("s1 release 1");
    assert_eq!(desk.state.check(&x, Token(1)), Standing::Released);
    desk.batch("s2 lock x");
    assert_eq!(desk.state.check(&x, Token(1)), Standing::Stale { newest: Token(3) });
    assert_eq!(desk.state.check(&x, Token(3)), Standing::Held);
}

#[test]
fn a_sharer_holds_on_though_others_came_later() {
    let mut desk = play(
        "
        s1 open & s2 open | s1#1 opened; s2#1 opened
        s1 lock x:shared  | s1#2 granted 1
        s2 lock x:shared  | s2#2 granted 2
        ",
    );
    assert_eq!(desk.state.check(&name("x"), Token(1)), Standing::Held);
    desk.batch("s1 release 1");
    assert_eq!(desk.state.check(&name("x"), Token(1)), Standing::Stale { newest: Token(2) });
}

#[test]
fn the_history_tells_how_each_hold_ended() {
    let desk = play(
        "
        s1 open ttl=1000 & s2 open & s3 open tied & s4 open | s1#1 opened; s2#1 opened; s3#1 opened; s4#1 opened
        s2 lock x             | s2#2 granted 1
        @100 s2 release 1     | s2#3 done
        s2 lock x             | s2#4 granted 2
        @200 s4 force x reason=now | s2 lost 2: released by force by h4: now; s4#2 done
        s3 lock x             | s3#2 granted 3
        s3 gone               | s3 ended: disconnected
        s2 lock x             | s2#5 granted 4
        s2 close              | s2#6 done
        s1 lock x             | s1#2 granted 5
        @1200                 | s1 ended: expired
        @1300                 |
        ",
    );
    let history = desk.state.name(&name("x")).expect("it is remembered").history;
    let told: Vec<(u64, &str, u64, u64, u64)> = history
        .iter()
        .map(|past| (past.session.0, &*past.how, past.token.0, past.held_for, past.ended))
        .collect();
    let wanted = [
        (1, "expired", 5, 1000, 100),
        (2, "closed", 4, 0, 1100),
        (3, "disconnected", 3, 0, 1100),
        (2, "forced: now (by h4)", 2, 100, 1100),
        (2, "released", 1, 100, 1200),
    ];
    assert_eq!(told, wanted);
    assert_eq!(&*history[0].owner.host, "h1", "the owner is remembered beyond its session");
}

#[test]
fn the_history_is_short() {
    let mut desk = Desk::default();
    desk.batch("s1 open");
    for token in 1..=40 {
        desk.batch(&format!("s1 lock x & s1 release {token}"));
    }
    let history = desk.state.name(&name("x")).expect("it is remembered").history;
    assert_eq!(history.len(), limits::MAX_HISTORY);
    assert_eq!((history[0].token, history[15].token), (Token(40), Token(25)));
}

#[test]
fn a_name_shows_who_holds_it_and_who_waits() {
    let mut desk = play(
        "
        s1 open & s2 open & s3 open       | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock x:2/3 delay=50            | s1#2 granted 1
        @100 s2 lock y x:2/3 wait=500     | s1 contended 1 x; s2#2 queued 0
        s3 lock x:1/3 priority=4          | s3#2 granted 2; s3 contended 2 x
        @150                              |
        ",
    );
    let view = desk.state.name(&name("x")).expect("it is held");
    assert_eq!((view.summary.holders, view.summary.waiters), (2, 1));
    assert_eq!((view.summary.newest, view.summary.is_election), (Some(Token(2)), false));
    let first = view.summary.first.as_ref().expect("s1 holds it");
    assert_eq!((first.session, first.held_for, first.expires_in), (SessionId(1), 150, 59_850));
    assert_eq!(view.holders[1].mode, Mode::Permits { count: 1, limit: 3 });
    let waiter = &view.queue[0];
    assert_eq!((waiter.session, waiter.request, waiter.waited_for), (SessionId(2), RequestId(2), 50));
    assert_eq!((waiter.mode, waiter.gives_up_in), (Mode::Permits { count: 2, limit: 3 }, Some(450)));
    assert_eq!(waiter.names, [name("y"), name("x")]);
    assert_eq!((view.delayed_for, view.value), (None, None));
    let session = desk.state.session(SessionId(2)).expect("it is open");
    assert_eq!(session.waiting, [(RequestId(2), vec![name("y"), name("x")])]);
    assert_eq!((session.ttl_ms, session.expires_in, session.held.len()), (60_000, 59_950, 0));
    assert_eq!(desk.state.session(SessionId(9)), None);
    let totals = desk.state.totals();
    assert_eq!((totals.sessions, totals.names, totals.held, totals.waiting, totals.grants), (3, 2, 2, 1, 2));
    desk.batch("@100000");
    assert_eq!(desk.state.totals().sessions, 0);
}

#[test]
fn a_lost_holder_shows_in_the_delay() {
    let desk = play(
        "
        s1 open ttl=500    | s1#1 opened
        s1 lock x delay=90 | s1#2 granted 1
        @500               | s1 ended: expired
        @520               |
        ",
    );
    let view = desk.state.name(&name("x")).expect("it is closed");
    assert_eq!((view.delayed_for, view.summary.delayed_for), (Some(70), Some(70)));
    assert_eq!(desk.state.why_name(&name("x")), []);
}

#[test]
fn names_are_listed_in_order_page_by_page() {
    let mut desk = Desk::default();
    desk.batch("s1 open");
    for text in ["b/2", "a", "b/1", "b", "c", "b/3"] {
        desk.batch(&format!("s1 lock {text}"));
    }
    assert_eq!(listed(&desk.state, "", None), ["a", "b", "b/1", "b/2", "b/3", "c"]);
    assert_eq!(listed(&desk.state, "b/", None), ["b/1", "b/2", "b/3"]);
    assert_eq!(listed(&desk.state, "b/", Some(&name("b/1"))), ["b/2", "b/3"]);
    assert_eq!(listed(&desk.state, "b/", Some(&name("a"))), ["b/1", "b/2", "b/3"]);
    assert_eq!(listed(&desk.state, "b/", Some(&name("c"))), Vec::<String>::new());
}

#[test]
fn why_follows_the_chain_to_one_who_waits_for_nothing() {
    let desk = play(
        "
        s1 open & s2 open & s3 open & s4 open | s1#1 opened; s2#1 opened; s3#1 opened; s4#1 opened
        s1 lock x      | s1#2 granted 1
        s2 lock y      | s2#2 granted 2
        s3 lock z      | s3#2 granted 3
        s2 lock x      | s1 contended 1 x; s2#3 queued 0
        s3 lock y      | s2 contended 2 y; s3#3 queued 0
        s4 lock y      | s4#2 queued 1
        s4 lock z strand=1 | s3 contended 3 z; s4#3 queued 0
        ",
    );
    let from_y = "s3 waits for y, held by s2; s2 waits for x, held by s1";
    assert_eq!(chain(&desk.state.why_name(&name("y"))), from_y);
    assert_eq!(chain(&desk.state.why_name(&name("z"))), format!("s4 waits for z, held by s3; {from_y}"));
    let from_s4 = desk.state.why_session(SessionId(4));
    assert_eq!(chain(&from_s4), format!("s4 waits for y, queued before it by s3; {from_y}"));
    assert_eq!(&*from_s4[0].owner.host, "h4");
    assert_eq!(chain(&desk.state.why_session(SessionId(1))), "");
    assert_eq!(chain(&desk.state.why_name(&name("nothing"))), "");
}

#[test]
fn the_names_that_changed_are_told_in_order_and_once() {
    let mut desk = play("s1 open & s2 open | s1#1 opened; s2#1 opened");
    let changed = |desk: &mut Desk, text: &str| {
        let commands = text.split('&').map(|text| desk.command(text)).collect();
        desk.apply(commands).changed.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(changed(&mut desk, "s1 lock z b & s1 lock a"), ["a", "b", "z"]);
    assert_eq!(changed(&mut desk, "s2 lock b y"), ["b", "y"]);
    assert_eq!(changed(&mut desk, "s2 lock z try"), Vec::<String>::new());
    assert_eq!(changed(&mut desk, "s1 release 1"), ["b", "y", "z"]);
    assert_eq!(changed(&mut desk, "s1 renew"), Vec::<String>::new());
    assert_eq!(changed(&mut desk, "s1 lead e & s1 proclaim 4 v"), ["e"]);
    assert_eq!(changed(&mut desk, "s1 proclaim 4 w"), ["e"]);
}

#[test]
fn the_longest_idle_names_are_forgotten_and_their_tokens_are_not_given_again() {
    let mut desk = Desk::default();
    desk.batch("s1 open");
    let mut commands = Vec::new();
    for token in 1..=limits::MAX_IDLE_NAMES + 1 {
        commands.push(desk.command(&format!("s1 lock n{token} ack={}", 2 * token)));
        commands.push(desk.command(&format!("s1 release {token} ack={}", 2 * token)));
    }
    desk.apply(commands);
    assert_eq!(desk.state.totals().names, limits::MAX_IDLE_NAMES as u64);
    assert_eq!(desk.state.check(&name("n1"), Token(1)), Standing::Unknown);
    assert_eq!(desk.state.check(&name("n2"), Token(2)), Standing::Released);
    let told = desk.batch("s1 lock n1");
    assert!(told.ends_with("granted 10002"), "{told}");
}

#[test]
fn a_name_that_was_only_asked_for_leaves_nothing_behind() {
    let desk = play(
        "
        s1 open & s2 open | s1#1 opened; s2#1 opened
        s1 lock x         | s1#2 granted 1
        s2 lock a x try   | s2#2 failed: 'x' is held by h1 (session s1)
        s2 lock b x       | s1 contended 1 x; s2#3 queued 0
        s2 cancel 3       | s2#3 failed: cancelled; s2#4 done
        s2 lock c c       | s2#5 failed: 'c' is asked for twice
        ",
    );
    assert_eq!(listed(&desk.state, "", None), ["x"]);
}

#[test]
fn ages_count_to_the_moment_of_the_look() {
    let mut desk = play(
        "
        s1 open ttl=9000 & s2 open ttl=9000 & s3 open | s1#1 opened; s2#1 opened; s3#1 opened
        s1 lock x         | s1#2 granted 1
        s2 lock x wait=5000 | s1 contended 1 x; s2#2 queued 0
        s3 lock y         | s3#2 granted 2
        ",
    );
    desk.batch("s3 release 2");
    let then = desk.state.now();
    let (early, late) = (desk.state.at(then), desk.state.at(then + 700));
    let x = name("x");
    let held = |picture: conclave_service::Picture<'_>| picture.summary(&x).and_then(|line| line.first);
    let (before, after) = (held(early).expect("it is held"), held(late).expect("it is held"));
    assert_eq!((after.held_for, after.expires_in), (before.held_for + 700, before.expires_in - 700));
    let waits = |picture: conclave_service::Picture<'_>| picture.queue(&x, None).next().expect("s2 waits").1;
    let (before, after) = (waits(early), waits(late));
    assert_eq!(after.waited_for, before.waited_for + 700);
    assert_eq!(after.gives_up_in, before.gives_up_in.map(|left| left - 700));
    let ended =
        |picture: conclave_service::Picture<'_>| picture.history(&name("y")).next().expect("s3").ended;
    assert_eq!(ended(late), ended(early) + 700);
    let chain = |picture: conclave_service::Picture<'_>| picture.why_name(&x).remove(0);
    assert_eq!(chain(late).since, chain(early).since + 700);
    assert_eq!(chain(late).token, Some(Token(1)));
    // A moment long after everything should have ended, and one before the last batch.
    assert_eq!(held(desk.state.at(then + 60_000)).map(|first| first.expires_in), Some(0));
    assert_eq!(held(desk.state.at(0)), held(early));
}

#[test]
fn what_is_long_can_be_read_in_pieces() {
    let mut desk = play(
        "
        s1 open & s2 open & s3 open & s4 open | s1#1 opened; s2#1 opened; s3#1 opened; s4#1 opened
        s1 lock x:shared  | s1#2 granted 1
        s2 lock x:shared  | s2#2 granted 2
        s3 lock x         | s1 contended 1 x; s2 contended 2 x; s3#2 queued 0
        s4 lock x         | s4#2 queued 1
        ",
    );
    let x = name("x");
    let picture = desk.state.at(0);
    let whole = picture.name(&x).expect("it is held");
    let second = picture.holders(&x, Some(whole.holders[0].token)).collect::<Vec<_>>();
    assert_eq!(second, whole.holders[1..]);
    let (place, first) = picture.queue(&x, None).next().expect("s3 waits");
    assert_eq!(first, whole.queue[0]);
    let rest: Vec<_> = picture.queue(&x, Some(place)).map(|(_, waiter)| waiter).collect();
    assert_eq!(rest, whole.queue[1..]);
    assert_eq!(picture.holders(&name("nothing"), None).count(), 0);
    assert_eq!(picture.queue(&name("nothing"), None).count(), 0);

    let lines = |state: &State, all| state.at(0).names("", None, all).count();
    desk.batch("s1 lock idle & s1 release 3");
    assert_eq!((lines(&desk.state, false), lines(&desk.state, true)), (1, 2));
}
