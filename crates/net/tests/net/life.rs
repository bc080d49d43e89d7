//! Lives: restarts, goodbyes, panics, and what is refused on disk.

use conclave_core::NodeId;
use conclave_net::{NodeError, Options, Refusal, StartError, Stopped, StoreError, start};

use crate::chat::{Chat, ChatConfig, ChatEvent, ChatRequest};
use conclave_net::frame::Frame;

use crate::group::{Group, down, up};
use crate::hostile::Raw;

#[tokio::test]
async fn a_killed_peer_is_suspected_and_trusted_in_its_next_life() {
    let mut group = Group::new(2);
    group.chat.saves = true;
    let mut first = group.start(1).await;
    let second = group.start(2).await;
    second.say(1, 5).await;
    assert_eq!(first.heard().await, (2, 5));
    second.node.kill().await.unwrap();
    assert_eq!(first.next().await, down(2, 1));
    // What is said to the dead life must not reach the next one.
    first.say(2, 66).await;
    let mut second = group.start(2).await;
    assert_eq!(second.next().await, ChatEvent::Remembered(5));
    assert_eq!(first.next().await, up(2, 2));
    first.say(2, 67).await;
    assert_eq!(second.heard().await, (1, 67));
}

/// The end of the old life is handed in before anything of the new one, though nobody had noticed it.
#[tokio::test]
async fn a_restart_beats_the_detector() {
    let mut group = Group::new(2);
    group.adjust = |config| config.detector.at_least = std::time::Duration::from_secs(20);
    let mut first = group.start(1).await;
    let second = group.start(2).await;
    second.say(1, 5).await;
    assert_eq!(first.heard().await, (2, 5));
    second.node.kill().await.unwrap();
    let second = group.start(2).await;
    second.say(1, 6).await;
    assert_eq!(first.next().await, down(2, 1));
    assert_eq!(first.next().await, up(2, 2));
    assert_eq!(first.heard().await, (2, 6));
    assert_eq!(first.node.status().peers[&NodeId(2)].life.map(|life| life.0), Some(2));
}

/// A goodbye is believed at once, and nothing that was sent before it is lost.
#[tokio::test]
async fn a_goodbye_needs_no_detector() {
    let mut group = Group::new(2);
    group.adjust = |config| config.detector.at_least = std::time::Duration::from_secs(20);
    let mut first = group.start(1).await;
    let second = group.start(2).await;
    second.until_connected().await;
    for number in 1..=50 {
        second.say(1, number).await;
    }
    second.until("it took the requests", |s| s.sent.get("Note").is_some_and(|sent| sent.count == 50)).await;
    second.node.shutdown().await.unwrap();
    for number in 1..=50 {
        assert_eq!(first.heard().await, (2, number));
    }
    assert_eq!(first.next().await, down(2, 1));
}

#[tokio::test]
async fn a_life_that_was_followed_by_another_is_refused() {
    let mut group = Group::new(2);
    let first = group.start(1).await;
    let copy = tempfile::tempdir().unwrap();
    let second = group.start(2).await;
    second.until_connected().await;
    // The directory as it was before the next life began.
    for file in ["life", "id"] {
        std::fs::copy(group.config(2).data.join(file), copy.path().join(file)).unwrap();
    }
    second.node.kill().await.unwrap();
    for _ in 0..2 {
        let second = group.start(2).await;
        second.until_connected().await;
        second.node.kill().await.unwrap();
    }
    let mut config = group.config(2);
    config.data = copy.path().to_owned();
    let (stale, _events) = start::<Chat>(config, ChatConfig::default(), Options::default()).await.unwrap();
    assert_eq!(stale.life().0, 2);
    crate::group::until("refused on both sides", || {
        stale.status().peers[&NodeId(1)].refused_by_it == Some(Refusal::StaleLife)
            && first.node.status().peers[&NodeId(2)].refused_by_us == Some(Refusal::StaleLife)
    })
    .await;
}

/// A directory that was lost counts its lives from the beginning. It is not taken for the life that it repeats, and the
/// node that has it does not go on by itself. With a life that nobody has seen it is let in.
#[tokio::test]
async fn a_lost_directory_is_told_apart() {
    let mut group = Group::new(2);
    let mut first = group.start(1).await;
    let second = group.start(2).await;
    second.say(1, 5).await;
    assert_eq!(first.heard().await, (2, 5));
    second.node.kill().await.unwrap();
    assert_eq!(first.next().await, down(2, 1));
    std::fs::remove_dir_all(group.config(2).data).unwrap();
    let second = group.start(2).await;
    let ended =
        tokio::time::timeout(crate::group::PATIENCE, second.node.ended()).await.expect("it goes on alone");
    let why = Refusal::Directory { newest: conclave_core::Incarnation(1) };
    assert!(matches!(&ended, Err(NodeError::Disowned { why: said, .. }) if *said == why), "{ended:?}");
    assert!(ended.unwrap_err().to_string().contains("'life = 2'"), "it says what to do");
    group.adjust = |config| config.least_life = conclave_core::Incarnation(2);
    let second = group.start(2).await;
    second.say(1, 6).await;
    assert_eq!(first.next().await, up(2, 2), "nothing was heard of the life that was refused");
    assert_eq!(first.heard().await, (2, 6));
}

/// Somebody who connects, is welcome, and then finds that it cannot go on is not alive because of that.
#[tokio::test]
async fn a_handshake_that_fails_is_no_sign_of_life() {
    let mut group = Group::new(3);
    group.adjust = |config| config.detector.grace = config.detector.at_least;
    let mut first = group.start(1).await;
    assert_eq!(first.next_about(3).await, down(3, 1), "nobody has heard of it");
    for _ in 0..5 {
        let mut raw = Raw::introduce(group.address(1)).await;
        raw.send(&Frame::Refusal(Refusal::FalseAck)).await;
        assert!(raw.receive().await.is_none(), "it is let go");
    }
    let mut raw = Raw::introduce_in(group.address(1), 2).await;
    raw.send(&Frame::Beat).await;
    assert_eq!(first.next_about(3).await, up(3, 2));
}

/// Who stands still for long finds that everybody else did; but those who were dead before are still dead.
#[tokio::test]
async fn standing_still_does_not_bring_back_the_dead() {
    let mut group = Group::new(2);
    let mut first = group.start(1).await;
    let second = group.start(2).await;
    second.say(1, 5).await;
    assert_eq!(first.heard().await, (2, 5));
    second.node.kill().await.unwrap();
    assert_eq!(first.next().await, down(2, 1));
    // The runtime has one thread: this is what SIGSTOP does to a process.
    std::thread::sleep(std::time::Duration::from_millis(900));
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let _second = group.start(2).await;
    assert_eq!(first.next().await, up(2, 2), "its first life is over");
}

/// A first life may be where it does not belong. It takes no requests before it has met somebody, or knows that nobody comes.
#[tokio::test]
async fn a_first_life_looks_around_before_it_acts() {
    let mut group = Group::new(2);
    group.adjust = |config| config.looks_around = true;
    let mut first = group.start(1).await;
    first.node.request(ChatRequest::Wake { name: 1, after_ms: 0 }).await.unwrap();
    let early = tokio::time::timeout(std::time::Duration::from_millis(300), first.events.recv()).await;
    assert!(early.is_err(), "{early:?}");
    let _second = group.start(2).await;
    assert_eq!(first.next().await, ChatEvent::Woken(1));

    let mut group = Group::new(2);
    group.adjust = |config| {
        config.looks_around = true;
        config.detector.grace = config.detector.at_least;
    };
    let mut alone = group.start(1).await;
    alone.node.request(ChatRequest::Wake { name: 1, after_ms: 0 }).await.unwrap();
    assert_eq!(alone.next().await, down(2, 1));
    assert_eq!(alone.next().await, ChatEvent::Woken(1));
}

#[tokio::test]
async fn a_directory_in_use_or_damaged_is_refused() {
    let mut group = Group::new(1);
    let member = group.start(1).await;
    let mut config = group.config(1);
    config.listen = std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into();
    let second = start::<Chat>(config.clone(), ChatConfig::default(), Options::default()).await;
    assert!(matches!(second, Err(StartError::Store(StoreError::InUse(_)))));
    member.node.shutdown().await.unwrap();
    for file in ["life", "state"] {
        let path = config.data.join(file);
        std::fs::write(&path, b"rubbish").unwrap();
        let refused =
            start::<Chat>(config.clone(), ChatConfig::default(), Options::default()).await.err().unwrap();
        assert!(refused.to_string().contains(path.to_str().unwrap()), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), b"rubbish");
        std::fs::remove_file(&path).unwrap();
    }
}

#[tokio::test]
async fn a_panic_stops_the_node_with_an_error() {
    let mut group = Group::new(2);
    let mut first = group.start(1).await;
    let second = group.start(2).await;
    second.until_connected().await;
    second.node.request(ChatRequest::Panic).await.unwrap();
    let ended = second.node.ended().await;
    assert!(matches!(&ended, Err(NodeError::Panic(why)) if why.contains("asked to")), "{ended:?}");
    let late = second.node.request(ChatRequest::Panic).await;
    assert_eq!(late, Err(Stopped));
    // It is over for the others as well.
    assert_eq!(first.next().await, down(2, 1));
}
