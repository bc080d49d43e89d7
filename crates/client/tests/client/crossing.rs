//! What crosses in flight, arrives twice or too late: a client knows what it holds, and gives back what it does not want.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use conclave_client::v1::command::Act;
use conclave_client::v1::event::Told;
use conclave_client::v1::failed::Code;
use conclave_client::v1::reply::Reply;
use conclave_client::{Client, Error, Mode, Options, PROTOCOL, Request, Session, SessionOptions, v1};
use tokio::time::timeout;

use crate::fake::{Fake, PATIENCE, answer, event, refusal, well};

async fn open(address: String) -> Session {
    let client = Client::new([address]).expect("the address is right");
    client.session(SessionOptions::default().ttl(Duration::from_secs(60))).await.expect("it opens")
}

fn granted(to: &v1::Command, token: u64) -> v1::Event {
    answer(to, Reply::Granted(v1::Granted { token, depth: 1 }))
}

fn opened(to: &v1::Command, held: Vec<u64>) -> v1::Event {
    answer(to, Reply::Opened(v1::Opened { resumed: true, held }))
}

fn late(to: &v1::Command) -> v1::Event {
    let failed = v1::Failed { code: Code::TimedOut.into(), text: "late".to_owned(), cycle: vec![] };
    answer(to, Reply::Failed(failed))
}

fn is_convert(act: &Act) -> bool {
    matches!(act, Act::Convert(_))
}

/// Which tokens were released.
fn released(node: &Fake) -> Vec<u64> {
    let releases = node.heard().into_iter().filter_map(|command| match command.act {
        Some(Act::Release(release)) => Some(release.token),
        _ => None,
    });
    releases.collect()
}

/// An answer that comes after everything said before shows that all of it was heard.
async fn hear_all(session: &Session) {
    let force = session.force("nothing", None, "to hear an answer");
    timeout(PATIENCE, force).await.expect("it is answered").expect("it is done");
}

#[tokio::test]
async fn a_grant_that_is_gone_is_lost_though_its_conversion_was_decided_before() {
    let asked = AtomicUsize::new(0);
    let (node, address) = Fake::start(move |command| match &command.act {
        Some(Act::Open(open)) if open.reopens => vec![opened(command, vec![])],
        Some(Act::Acquire(_)) => vec![granted(command, 5)],
        // The first answer is lost with the connection.
        Some(Act::Convert(_)) if asked.fetch_add(1, Ordering::SeqCst) == 0 => vec![],
        Some(Act::Convert(_)) => vec![late(command)],
        _ => well(command),
    })
    .await;
    let session = open(address).await;
    let guard = session.acquire(Request::lock("a").mode(Mode::Shared)).await.expect("it is free");
    let (converted, ()) = tokio::join!(guard.convert("a", Mode::Exclusive, None), async {
        node.hears(1, is_convert).await;
        assert!(!guard.is_lost());
        node.send_away();
    });
    assert_eq!(converted.expect_err("it was late").code(), Some(conclave_client::Code::TimedOut));
    assert!(guard.is_lost(), "the service said that it holds nothing");
    assert_eq!(guard.why_lost().as_deref(), Some("it was taken while there was no connection"));
}

#[tokio::test]
async fn a_grant_that_goes_on_under_another_token_is_not_lost() {
    let asked = AtomicUsize::new(0);
    let (node, address) = Fake::start(move |command| match &command.act {
        Some(Act::Open(open)) if open.reopens => vec![opened(command, vec![6])],
        Some(Act::Acquire(_)) => vec![granted(command, 5)],
        Some(Act::Convert(_)) if asked.fetch_add(1, Ordering::SeqCst) < 2 => vec![],
        // Two are under way. One was late, and the other was granted.
        Some(Act::Convert(convert)) if convert.name == "late" => vec![late(command)],
        Some(Act::Convert(_)) => vec![granted(command, 6)],
        _ => well(command),
    })
    .await;
    let session = open(address).await;
    let guard = session.acquire(Request::locks(["late", "a"])).await.expect("it is free");
    let (one, other, ()) = tokio::join!(
        guard.convert("late", Mode::Exclusive, None),
        guard.convert("a", Mode::Exclusive, None),
        async {
            node.hears(2, is_convert).await;
            node.send_away();
        }
    );
    assert_eq!(one.expect_err("it was late").code(), Some(conclave_client::Code::TimedOut));
    other.expect("it was granted");
    assert_eq!(guard.check(), Ok(6));
}

#[tokio::test]
async fn a_grant_that_was_taken_before_it_was_heard_of_is_lost() {
    let asked = AtomicUsize::new(0);
    let (node, address) = Fake::start(move |command| match &command.act {
        Some(Act::Open(open)) if open.reopens => vec![opened(command, vec![])],
        Some(Act::Acquire(_)) if asked.fetch_add(1, Ordering::SeqCst) == 0 => vec![],
        Some(Act::Acquire(_)) => {
            let lost = Told::Lost(v1::Lost { token: 5, why: "taken".to_owned() });
            vec![granted(command, 5), v1::Event { told: Some(lost), ..granted(command, 5) }]
        }
        _ => well(command),
    })
    .await;
    let session = open(address).await;
    let (guard, ()) = tokio::join!(session.acquire(Request::lock("a")), async {
        node.hears(1, |act| matches!(act, Act::Acquire(_))).await;
        node.send_away();
    });
    let guard = guard.expect("it was granted");
    timeout(PATIENCE, guard.lost()).await.expect("it is told");
    assert_eq!(guard.why_lost().as_deref(), Some("taken"));
}

#[tokio::test]
async fn what_was_refused_and_is_granted_all_the_same_is_given_back() {
    let (node, address) = Fake::start(|command| match &command.act {
        Some(Act::Acquire(acquire)) if acquire.wants[0].name == "held" => vec![granted(command, 5)],
        Some(Act::Acquire(_) | Act::Convert(_)) => vec![refusal(command, Code::Limit)],
        _ => well(command),
    })
    .await;
    let session = open(address).await;
    let held = session.acquire(Request::lock("held").mode(Mode::Shared)).await.expect("it is free");
    for name in ["granted", "queued"] {
        let refused = session.acquire(Request::lock(name)).await.map(|guard| guard.token());
        assert_eq!(refused.expect_err("there is no room").code(), Some(conclave_client::Code::Limit));
    }
    let refused = held.convert("held", Mode::Exclusive, None).await;
    assert_eq!(refused.expect_err("there is no room").code(), Some(conclave_client::Code::Limit));
    // Copies of all of these come to the service by another way.
    for command in node.heard() {
        match &command.act {
            Some(Act::Acquire(acquire)) if acquire.wants[0].name == "granted" => {
                node.tell(&granted(&command, 6));
            }
            Some(Act::Acquire(acquire)) if acquire.wants[0].name == "queued" => {
                node.tell(&answer(&command, Reply::Queued(v1::Queued { ahead: 0 })));
            }
            // And an answer that was heard before comes again.
            Some(Act::Acquire(_)) => node.tell(&granted(&command, 5)),
            Some(Act::Convert(_)) => node.tell(&granted(&command, 7)),
            _ => {}
        }
    }
    node.hears(1, |act| matches!(act, Act::Cancel(_))).await;
    hear_all(&session).await;
    assert_eq!(released(&node), [6]);
    assert_eq!(held.check(), Ok(7), "it is held under the token that it has now");
}

#[tokio::test]
async fn what_was_never_asked_for_is_given_back() {
    let (node, address) = Fake::start(|command| match &command.act {
        Some(Act::Acquire(_)) => vec![granted(command, 50)],
        _ => well(command),
    })
    .await;
    let session = open(address).await;
    let guard = session.acquire(Request::lock("a")).await.expect("it is free");
    let command = node.heard().pop().expect("it asked");
    for (request, token) in [(command.request, 50), (900, 51), (901, 51), (902, 49)] {
        let reply = Some(Reply::Granted(v1::Granted { token, depth: 1 }));
        node.tell(&event(&command, v1::Reply { request, reply, renewed: true, waited: true }));
    }
    hear_all(&session).await;
    hear_all(&session).await;
    assert_eq!(released(&node), [51], "the others are replies that come again");
    assert_eq!(guard.check(), Ok(50));
}

#[tokio::test]
async fn a_node_of_another_version_is_reported_at_once() {
    let (_, address) = Fake::start_speaking(PROTOCOL + 1, well).await;
    let mut options = Options::new([address.clone()]);
    options.patience = PATIENCE * 10;
    let client = Client::with(options).expect("the address is right");
    let session = timeout(PATIENCE, client.session(SessionOptions::default())).await.expect("at once");
    let error = session.map(|session| session.id()).expect_err("it is not understood");
    assert!(matches!(error, Error::Protocol(_)), "{error:?}");
    let due = format!(
        "{address}: the client speaks version {PROTOCOL} of the protocol and the node version {}: use the same version of \
         conclave on both sides",
        PROTOCOL + 1
    );
    assert_eq!(error.to_string(), due);
}

#[tokio::test]
async fn a_node_of_our_version_beside_one_of_another_is_used() {
    let (_, foreign) = Fake::start_speaking(PROTOCOL + 1, well).await;
    let (_, address) = Fake::start(well).await;
    let client = Client::new([foreign, address]).expect("the addresses are right");
    timeout(PATIENCE, client.session(SessionOptions::default())).await.expect("at once").expect("it opens");
}
