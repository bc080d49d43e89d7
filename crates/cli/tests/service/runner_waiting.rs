//! Commands that wait for their turn, or do not.

use std::net::SocketAddrV4;

use conclave_client::{Client, Code, Request, SessionOptions};

use crate::nodes::Service;
use crate::runs::{Running, ran};
use crate::until;

#[test]
fn who_does_not_get_it_is_told_how() {
    let service = Service::one();
    let holder = service.hold("lock a", "in");
    service.shell("lock a --try", "touch never").explains(120, "error: 'a' is held by ");
    let late = "error: 'a' was not granted within 50ms: held by ";
    service.shell("lock a --wait 50ms", "touch never").explains(121, late);
    // Cron mails every line.
    let skipped = service.shell("lock a --skip-if-held", "touch never").ends(0);
    assert_eq!((skipped.out.as_str(), skipped.err.as_str()), ("", ""));
    service.shell("lock a --skip-if-held -v", "touch never").explains(0, "note: skipped: 'a' is held by ");
    // Exit codes of one's own choosing.
    for line in ["lock a --try -E 9", "lock a --wait 50ms -E 9", "lock a --try --conflict-exit-code 9"] {
        service.shell(line, "touch never").ends(9);
    }
    // What is free gets its turn in all three ways.
    for line in ["lock b --try", "lock b --wait 50ms", "lock b --skip-if-held"] {
        service.shell(line, "exit 3").ends(3);
    }
    assert!(!service.path("never").exists());
    holder.let_go();
}

#[test]
fn what_can_never_be_granted_is_wrong_usage() {
    // Nobody is asked.
    let service = Service::absent(1);
    let (long, label) = ("x".repeat(600), "x".repeat(257));
    for (line, why) in [
        ("lock a --ttl 100ms", "--ttl: 100ms is too short: a TTL is 500ms at least"),
        ("lock a --ttl 2880min", "--ttl: 2880min is too long: a TTL is 24h at most"),
        ("elect a --ttl 100ms", "--ttl: 100ms is too short"),
        ("lock a b a", "'a' is given twice"),
        ("lock a --lock-delay 120min", "--lock-delay: 120min is too long: a lock delay is 1h at most"),
        (&format!("lock {long}"), "NAME: this is 600 bytes long, and 512 at most are possible"),
        (&format!("lock a --label {label}"), "--label: this is 257 bytes long"),
    ] {
        service.shell(line, "touch never").refused(why);
    }
    for command in ["lock", "elect"] {
        for name in ["", "bell\u{7}", "two\nlines"] {
            let ran = ran(&mut service.client(&[command, name, "--", "touch", "never"]));
            assert!(!ran.err.contains('\u{7}'), "{:?}", ran.err);
            ran.refused("NAME: a name must not ");
        }
    }
    for command in ["show", "why", "observe"] {
        ran(&mut service.client(&[command, ""])).refused("a name must not be empty");
    }
    assert!(!service.path("never").exists());
}

#[test]
fn a_lock_in_its_delay_says_so() {
    let service = Service::one();
    // Killed without a warning, it is lost when its lease ends.
    drop(service.hold("lock a --ttl 1s --grace 100ms --lock-delay 50min", "in"));
    until("its holder is lost", || service.show("a")["delayed_for_ms"].is_u64());
    let delay = "in its lock delay for another 49m";
    service.shell("lock a --try", "touch never").explains(120, &format!("error: 'a' is {delay}"));
    let late = format!("error: 'a' was not granted within 50ms: {delay}");
    service.shell("lock a --wait 50ms", "touch never").explains(121, &late);
    let both = service.shell("lock free a --try", "touch never").ends(120);
    assert!(both.err.starts_with(&format!("error: 'a' is {delay}")), "{}", both.err);

    let command = service.client(&["lock", "a", "-v", "--", "touch", "never"]);
    let waiter = Running::with_errors_in(command, &service.path("told"));
    let told = service.written("told");
    assert!(told.starts_with(&format!("note: waiting for 'a': {delay}")), "{told}");
    assert!(told.ends_with("(its last holder was lost); first in the queue\n"), "{told}");
    let session = service.show("a")["queue"][0]["session"].as_str().expect("16 digits").to_owned();
    for line in ["ls", "show a", "why a", &format!("why {session}")] {
        let out = service.conclave(line).ends(0).out;
        assert!(out.contains(delay), "{line}: {out}");
    }
    let listed = service.conclave("ls --json").ends(0).json().remove(0);
    assert!(listed["delayed_for_ms"].as_u64().is_some_and(|ms| ms > 2_900_000), "{listed}");
    waiter.let_go();
    assert!(!service.path("never").exists());
}

#[test]
fn a_candidate_may_be_impatient_too() {
    let service = Service::one();
    let leader = service.hold("elect a", "in");
    service.shell("elect a --try", "touch never").explains(120, "error: 'a' is held by ");
    let late = "error: 'a' was not granted within 50ms: held by ";
    service.shell("elect a --wait 50ms", "touch never").explains(121, late);
    for line in ["elect a --try -E 9", "elect a --wait 50ms -E 9", "elect a --again --try -E 9"] {
        service.shell(line, "touch never").ends(9);
    }
    for line in ["elect b --try", "elect b --wait 50ms"] {
        service.shell(line, "exit 3").ends(3);
    }
    service.conclave("elect a --try --wait 5s -- true").refused("--try and --wait cannot be used together");
    assert!(!service.path("never").exists());
    leader.let_go();
}

#[test]
fn several_names_are_granted_together_or_not_at_all() {
    let service = Service::one();
    let holder = service.hold("lock b", "in");
    service.shell("lock a b c --try", "touch never").explains(120, "b");
    service.shell("lock a b c --wait 50ms", "touch never").ends(121);
    // Whoever waits for all of them keeps none of them meanwhile.
    let waiter = service.begin("lock a b c", "echo $CONCLAVE_LOCK > all");
    service.has_waiters("b", 1);
    assert!(service.show("a")["holders"].as_array().is_none_or(Vec::is_empty));
    holder.let_go();
    waiter.end().ends(0);
    assert_eq!(service.written("all"), "a b c\n");
    assert!(!service.path("never").exists());
}

#[test]
fn shared_holders_keep_writers_out_and_permits_are_counted() {
    let service = Service::one();
    let readers = [service.hold("lock a --shared", "r1"), service.hold("lock a --shared", "r2")];
    service.shell("lock a --try", "exit 0").ends(120);
    let writer = service.begin("lock a", "exit 5");
    service.has_waiters("a", 1);
    // A reader that comes after a writer stands behind it.
    service.shell("lock a --shared --try", "exit 0").ends(120);
    readers.into_iter().for_each(Running::let_go);
    writer.end().ends(5);

    let first = service.hold("lock gpu --permits 2", "p1");
    let second = service.hold("lock gpu --permits 2", "p2");
    service.shell("lock gpu --permits 2 --try", "exit 0").ends(120);
    let third = service.begin("lock gpu --permits 2", "exit 6");
    service.has_waiters("gpu", 1);
    first.let_go();
    third.end().ends(6);
    service.shell("lock gpu --permits 3 --try", "exit 0").explains(124, "gpu");
    second.let_go();
}

#[test]
fn whoever_waits_is_served_in_order_and_by_priority() {
    let service = Service::one();
    let holder = service.hold("lock a", "in");
    let mut waiters = Vec::new();
    for (count, line) in
        ["lock a", "lock a --priority -1", "lock a --priority 5", "lock a"].iter().enumerate()
    {
        waiters.push(service.begin(line, &format!("echo {count} >> order")));
        service.has_waiters("a", count + 1);
    }
    holder.let_go();
    waiters.into_iter().for_each(|waiter| drop(waiter.end().ends(0)));
    let order = std::fs::read_to_string(service.path("order")).expect("it was written");
    assert_eq!(order, "2\n0\n3\n1\n");
}

#[test]
fn clients_of_two_nodes_meet_in_one_queue() {
    let service = Service::three();
    let followers = service.followers();
    let [one, other] = followers.as_slice() else { panic!("{followers:?}") };
    let via = |id: &u64, line: &str| format!("{line} --endpoints {}", service.address(*id));
    let holder = service.hold(&via(one, "lock a"), "in");
    service.shell(&via(other, "lock a --try"), "exit 0").ends(120);
    let waiter = service.begin(&via(other, "lock a"), "echo $CONCLAVE_TOKEN > next");
    service.has_waiters("a", 1);
    holder.let_go();
    waiter.end().ends(0);
    let token = |name| service.written(name).trim().parse::<u64>().expect("a token is a number");
    assert!(token("next") > token("in"));
}

/// A command holds all its names from the start, so only clients that come back for more can close a cycle.
#[test]
fn a_wait_that_would_never_end_is_refused() {
    let service = Service::one();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("there are threads");
    runtime.block_on(async {
        let client = Client::new([service.address(1)]).expect("the address is right");
        let one = client.session(SessionOptions::default().label("one")).await.expect("it is served");
        let other = client.session(SessionOptions::default().label("other")).await.expect("it is served");
        let _a = one.acquire(Request::lock("a")).await.expect("it is free");
        let _b = other.acquire(Request::lock("b")).await.expect("it is free");
        let waiting = tokio::spawn({
            let one = one.clone();
            async move { one.acquire(Request::lock("b")).await.map(drop) }
        });
        tokio::task::block_in_place(|| service.has_waiters("b", 1));
        let refused = other.acquire(Request::lock("a")).await.map(drop).expect_err("it would never end");
        assert_eq!(refused.code(), Some(Code::Deadlock), "{refused}");
        assert!(refused.to_string().contains('a') && refused.to_string().contains('b'), "{refused}");
        waiting.abort();
    });
    until("nobody waits", || service.show("b")["queue"].as_array().is_none_or(Vec::is_empty));
}

/// How many clients are connected to a node.
fn connections(service: &Service) -> usize {
    let address: SocketAddrV4 = service.address(1).parse().expect("it is an address");
    let (ip, port) = (u32::from_ne_bytes(address.ip().octets()), address.port());
    let address = format!("{ip:08X}:{port:04X}");
    let table = std::fs::read_to_string("/proc/net/tcp").expect("it is there");
    // Number, local address, remote address, state; 01 is an established connection.
    let is_one = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        matches!(words[..], [_, local, _, "01", ..] if local == address)
    };
    table.lines().filter(is_one).count()
}

#[test]
fn who_waits_keeps_the_place_however_often_the_node_is_killed() {
    let mut service = Service::one();
    let holder = service.hold("lock a --ttl 1min --connect-wait 1min", "in");
    let waiter = service.begin("lock a --ttl 1min --connect-wait 1min", "echo first >> turns");
    service.has_waiters("a", 1);
    let next = service.begin("lock a --ttl 1min --connect-wait 1min", "echo next >> turns");
    service.has_waiters("a", 2);
    for _ in 0..7 {
        service.kill(1);
        service.run(1);
        until("all are connected again", || connections(&service) == 3);
        service.has_waiters("a", 2);
    }
    holder.let_go();
    waiter.end().ends(0);
    next.end().ends(0);
    assert_eq!(service.written("turns"), "first\nnext\n");
}
