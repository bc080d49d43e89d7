//! More names, holders and waiters than one message can carry, and ages on a service where nothing happens.

use std::time::{Duration, Instant};

use conclave_client::v1::command::Act;
use conclave_client::v1::event::Told;
use conclave_client::v1::reply::Reply;
use conclave_client::{Client, Request, SessionOptions, v1};
use serde_json::Value;

use crate::hostile::runtime;
use crate::nodes::Service;
use crate::talker::{Talker, command, open};
use crate::until;

/// Names that are held.
const NAMES: u64 = 40_000;
/// Requests that wait for one of them.
const WAITERS: u64 = 50_000;
/// What one session may hold or wait for.
const PER_SESSION: u64 = 10_000;
/// Commands in one message.
const AT_ONCE: u64 = 500;

fn acquire(name: &str, strand: u32) -> Act {
    let wants = vec![v1::Want { name: name.to_owned(), mode: None }];
    Act::Acquire(v1::Acquire { wants, strand, ..v1::Acquire::default() })
}

/// A session that lives through the test, and says at length whose it is.
fn open_long() -> Act {
    let Act::Open(open) = open(600_000) else { unreachable!("it is one") };
    let owner = Some(v1::Owner { label: "l".repeat(60), ..v1::Owner::default() });
    Act::Open(v1::Open { owner, ..open })
}

/// Asks for many things, and waits until so many requests were answered with a reply of this kind.
async fn ask_all(
    talker: &mut Talker,
    count: u64,
    what: impl Fn(u64) -> v1::Command,
    is_answer: impl Fn(&Reply) -> bool,
) {
    let (mut asked, mut answered) = (0, 0);
    while answered < count {
        // Never more under way than the service lets a session leave unacknowledged.
        if asked == answered {
            let next = (asked + AT_ONCE).min(count);
            talker.say((asked..next).map(&what).collect());
            asked = next;
        }
        let message = talker.hear().await.expect("it goes on").expect("it goes on");
        for event in message.events {
            if let Some(Told::Reply(v1::Reply { reply: Some(reply), .. })) = event.told {
                assert!(is_answer(&reply), "{reply:?}");
                answered += 1;
            }
        }
    }
}

#[test]
fn what_one_message_cannot_carry_comes_in_pages() {
    let service = Service::one();
    let runtime = runtime();
    let _talker = runtime.block_on(async {
        let mut talker = Talker::meet(service.address(1)).await;
        let sessions = NAMES / PER_SESSION + WAITERS / PER_SESSION;
        for session in 1..=sessions {
            let opened = talker.ask(session, 1, open_long()).await;
            assert!(matches!(opened, Reply::Opened(_)), "{opened:?}");
        }
        let numbered = |first: u64, index: u64, act: Act| {
            let (session, request) = (first + index / PER_SESSION, 2 + index % PER_SESSION);
            let acked = request.saturating_sub(AT_ONCE);
            v1::Command { acked, ..command(session, request, act) }
        };
        let hold = |index| numbered(1, index, acquire(&format!("{index:05}-{}", "n".repeat(60)), 1));
        ask_all(&mut talker, NAMES, hold, |reply| matches!(reply, Reply::Granted(_))).await;
        let name = format!("{:05}-{}", 0, "n".repeat(60));
        let wait = |index| numbered(first_waiting(), index, acquire(&name, index as u32));
        ask_all(&mut talker, WAITERS, wait, |reply| matches!(reply, Reply::Queued(_))).await;
        talker
    });

    // The binary would spend its time on printing: the library asks as it does.
    let name = format!("00000-{}", "n".repeat(60));
    runtime.block_on(async {
        let client = service.library();
        let listed = client.list("").await.expect("it is served");
        assert_eq!(listed.len() as u64, NAMES);
        assert!(listed.is_sorted_by(|one, other| one.name < other.name), "in order, and none twice");
        let bytes: usize = listed.iter().map(prost::Message::encoded_len).sum();
        assert!(bytes > 4 << 20, "one message would carry {bytes} bytes");

        let shown = client.show(&name).await.expect("it is served").expect("it is held");
        assert_eq!((shown.holders.len(), shown.queue.len() as u64), (1, WAITERS));
        let order = |waiter: &v1::Waiter| (waiter.session, waiter.request);
        assert!(shown.queue.is_sorted_by(|one, other| order(one) < order(other)), "in the order of arrival");
        let bytes: usize = shown.queue.iter().map(prost::Message::encoded_len).sum();
        assert!(bytes > 4 << 20, "one message would carry {bytes} bytes");

        let session = client.show_session(first_waiting()).await.expect("it is served").expect("it is open");
        assert_eq!((session.held.len(), session.waiting.len() as u64), (0, PER_SESSION));
        let session = client.show_session(1).await.expect("it is served").expect("it is open");
        assert_eq!((session.held.len() as u64, session.waiting.len()), (PER_SESSION, 0));
        watch_all(&client).await;
    });

    let shown = service.conclave(&format!("show {name}")).ends(0).out;
    assert!(shown.lines().count() < 30, "{shown}");
    assert!(shown.contains(&format!("and {} more wait: --all shows them", WAITERS - 19)), "{shown}");
    let listed = service.conclave("ls 000").ends(0).out;
    assert_eq!(listed.lines().count(), 101, "{listed}");
}

/// The first session that waits for something.
fn first_waiting() -> u64 {
    1 + NAMES / PER_SESSION
}

/// Follows all names: each is told once, and then what changes.
async fn watch_all(client: &Client) {
    let mut watcher = client.watch("");
    assert_eq!(watcher.next().await.expect("it is served"), None, "everything comes");
    let (mut told, mut pages) = (Vec::new(), 0);
    loop {
        let page = watcher.next().await.expect("no page is too large").expect("the stream lasts");
        told.extend(page.names.into_iter().map(|summary| summary.name));
        pages += 1;
        if !page.more {
            break;
        }
    }
    assert_eq!(told.len() as u64, NAMES);
    assert!(pages > 1 && told.is_sorted_by(|one, other| one < other), "in order, and none twice");
    let session = client.session(SessionOptions::default()).await.expect("it is served");
    let guard = session.acquire(Request::lock("one-more")).await.expect("it is free");
    let news = watcher.next().await.expect("it is served").expect("the stream lasts");
    assert_eq!((news.names.len(), news.names[0].name.as_str(), news.more), (1, "one-more", false));
    drop(guard);
}

#[test]
fn ages_grow_though_nothing_happens() {
    let service = Service::one();
    let holder = service.hold("lock a --ttl 10min", "in");
    let waiter = service.begin("lock a --ttl 10min --wait 10min", "exit 0");
    service.has_waiters("a", 1);
    service.shell("lock b", "exit 0").ends(0);
    let ages = |service: &Service| {
        let (a, b) = (service.show("a"), service.show("b"));
        let listed = service.conclave("ls --json").ends(0).json().remove(0);
        let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value}"));
        [
            number(&a["holders"][0]["held_for_ms"]),
            number(&listed["first"]["held_for_ms"]),
            number(&a["queue"][0]["waited_for_ms"]),
            number(&b["history"][0]["ended_ms_ago"]),
        ]
    };
    let left = |service: &Service| {
        let shown = service.show("a");
        [&shown["holders"][0]["expires_in_ms"], &shown["queue"][0]["gives_up_in_ms"]]
            .map(|value| value.as_u64().unwrap_or_else(|| panic!("{value}")))
    };
    let log = |service: &Service| {
        service.conclave("status --json").ends(0).json()[0]["nodes"][0]["last_log"].clone()
    };
    let begun = Instant::now();
    let (entries, first, first_left) = (log(&service), ages(&service), left(&service));
    let looked = Instant::now();
    until("some time has passed", || looked.elapsed() > Duration::from_millis(1_500));
    let (later, later_left) = (ages(&service), left(&service));
    // A leader notes the time once a second while such a lease runs, and nothing else happened.
    let written = log(&service).as_u64().zip(entries.as_u64()).map(|(after, before)| after - before);
    let seconds = begun.elapsed().as_secs();
    assert!(written.is_some_and(|written| written < 5 + seconds), "{written:?} entries in {seconds} s");
    for (before, after) in first.iter().zip(later) {
        assert!(after >= before + 1_000, "{first:?} {later:?}");
        assert!(after < before + 60_000, "{first:?} {later:?}");
    }
    for (before, after) in first_left.iter().zip(later_left) {
        assert!(after + 1_000 <= *before, "{first_left:?} {later_left:?}");
    }
    holder.let_go();
    waiter.end().ends(0);
}
