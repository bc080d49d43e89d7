//! Three nodes, of which one is killed, stopped, told to stop, or all of them are; and one node alone.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use conclave_client::v1::check_response::Standing;
use conclave_client::{Campaign, Client, Guard, Request, SessionOptions};
use rustix::process::Signal;

use crate::fenced::{Load, NAME};
use crate::hostile::runtime;
use crate::nodes::Service;
use crate::until;

/// How often the leader is killed under load.
const KILLS: usize = 5;

/// Whether the service still counts this as held.
async fn is_held(client: &Client, name: &str, guard: &Guard) -> bool {
    let standing = client.check(name, guard.token()).await.expect("it is served");
    !guard.is_lost() && standing.standing() == Standing::Held
}

#[test]
fn nothing_is_lost_when_leaders_are_killed_again_and_again() {
    let mut service = Service::three();
    let load = Load::start(&service, 4);
    let client = load.runtime().block_on(async { service.library() });
    let session = load.runtime().block_on(client.session(SessionOptions::default())).expect("it is served");
    let mut kept = Vec::new();
    for round in 0..KILLS {
        let name = format!("kept-{round}");
        kept.push(load.runtime().block_on(session.acquire(Request::lock(&name))).expect("it is free"));
        let leader = service.leader().expect("it is served");
        service.kill(leader);
        load.everybody_is_served();
        service.run(leader);
        load.everybody_is_served();
        until("it follows", || service.leader().is_some_and(|now| now != leader));
    }
    let all_held = async {
        for (round, guard) in kept.iter().enumerate() {
            assert!(
                is_held(&client, &format!("kept-{round}"), guard).await,
                "what was granted before kill {round}"
            );
        }
    };
    load.runtime().block_on(all_held);
    println!("longest pause {:?}", load.longest_pause());
    let tokens = load.finish(&service);
    // The service remembers what everybody was told.
    let newest =
        service.conclave(&format!("ls {NAME} --all --json")).ends(0).json().remove(0)["newest_token"]
            .as_u64();
    assert_eq!(newest, tokens.last().copied());
}

#[test]
fn a_leader_that_was_stopped_past_a_lease_expires_nothing_and_grants_nothing() {
    let service = Service::three();
    let load = Load::start(&service, 2);
    let client = load.runtime().block_on(async { service.library() });
    let ttl = Duration::from_secs(3);
    let session = load.runtime().block_on(client.session(SessionOptions::default().ttl(ttl)));
    let session = session.expect("it is served");
    let guard = load.runtime().block_on(session.acquire(Request::lock("a"))).expect("it is free");
    let waiter = service.begin("lock a", "echo $CONCLAVE_TOKEN > next");
    service.has_waiters("a", 1);

    let leader = service.leader().expect("it is served");
    service.signal(leader, Signal::STOP);
    let stopped = Instant::now();
    load.everybody_is_served();
    // The lease of before would have run out by the clock of the one that stands still.
    until("more than the lease has passed", || stopped.elapsed() > ttl + Duration::from_millis(500));
    service.signal(leader, Signal::CONT);
    until("it has learnt who leads", || service.log(leader).contains("no longer leads"));
    load.everybody_is_served();
    assert!(load.runtime().block_on(is_held(&client, "a", &guard)), "{:?}", guard.why_lost());
    assert!(!service.path("next").exists());

    let token = guard.token();
    load.runtime().block_on(guard.release()).expect("it is held");
    waiter.end().ends(0);
    let next: u64 = service.written("next").trim().parse().expect("a token");
    assert!(next > token);
    load.finish(&service);
}

/// A node that hangs takes connections, since its kernel does, and never says anything.
#[test]
fn a_node_that_says_nothing_does_not_keep_a_client_from_the_others() {
    let service = Service::one();
    let mute = TcpListener::bind("127.0.0.1:0").expect("there are ports");
    let address = mute.local_addr().expect("it is bound").to_string();
    let opened = Instant::now();
    runtime().block_on(async {
        let client = Client::new([address, service.endpoints()]).expect("the addresses are right");
        let ttl = Duration::from_millis(900);
        client.session(SessionOptions::default().ttl(ttl)).await.expect("it is served by the other");
    });
    // To hear nothing takes a second for the connection and three for the first word.
    let took = opened.elapsed();
    assert!(took < Duration::from_millis(3_500), "{took:?}");
}

#[test]
fn a_leader_that_is_told_to_stop_hands_over_first() {
    let mut service = Service::three();
    let load = Load::start(&service, 2);
    let leader = service.leader().expect("it is served");
    let status = service.stop(leader);
    assert_eq!(status.code(), Some(0));
    load.everybody_is_served();
    // That it takes less than an election is tested where time is not that of a machine.
    assert!(service.log(leader).contains("handed the lead over"), "{}", service.log(leader));
    load.finish(&service);
}

#[test]
fn what_a_dead_client_held_goes_to_the_next_in_time() {
    let service = Service::three();
    let ttl = Duration::from_secs(3);
    let holder = service.hold("lock a --ttl 3s", "in");
    let next = service.begin("lock a", "exit 0");
    service.has_waiters("a", 1);
    let asked = Instant::now();
    let left = service.show("a")["holders"][0]["expires_in_ms"].as_u64().expect("a lease ends");
    let killed = Instant::now();
    drop(holder);
    next.end().ends(0);
    assert!(asked.elapsed() >= Duration::from_millis(left), "it was gone after {:?}", asked.elapsed());
    assert!(killed.elapsed() <= ttl * 2, "it took {:?}", killed.elapsed());
}

#[test]
fn everything_is_still_there_after_all_nodes_have_been_killed() {
    let mut service = Service::three();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("there are threads");
    let client = runtime.block_on(async { service.library() });
    let options = SessionOptions::default().ttl(Duration::from_secs(60)).label("kept");
    let session = runtime.block_on(client.session(options)).expect("it is served");
    let guard = runtime.block_on(session.acquire(Request::lock("a"))).expect("it is free");
    let leads = runtime.block_on(session.campaign(Campaign::new("chief", "here"))).expect("it is free");
    service.shell("lock past --label before", "exit 0").ends(0);
    let waiters = [1, 2].map(|turn| {
        let waiter = service.begin("lock a --ttl 1min --connect-wait 1min", &format!("echo {turn} >> order"));
        service.has_waiters("a", turn);
        waiter
    });

    for id in service.ids() {
        service.kill(id);
    }
    for id in service.ids() {
        service.run(id);
    }
    service.is_served();
    assert!(runtime.block_on(is_held(&client, "a", &guard)), "{:?}", guard.why_lost());
    assert!(runtime.block_on(is_held(&client, "chief", leads.guard())));
    assert_eq!(service.show("chief")["value"], "here");
    assert_eq!(service.show("past")["history"][0]["owner"]["label"], "before");
    let shown = service.show("a");
    let waiting: Vec<u64> = shown["queue"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|waiter| waiter["owner"]["pid"].as_u64())
        .collect();
    assert_eq!(waiting, waiters.each_ref().map(|waiter| u64::from(waiter.pid())));
    runtime.block_on(guard.release()).expect("it is held");
    waiters.into_iter().for_each(|waiter| drop(waiter.end().ends(0)));
    assert_eq!(service.written("order"), "1\n2\n");
    runtime.block_on(leads.resign()).expect("it leads");
}
