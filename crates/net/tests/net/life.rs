//! Lives: restarts, goodbyes, panics, and what is refused on disk.

use conclave_core::NodeId;
use conclave_net::{NodeError, Options, Refusal, StartError, Stopped, StoreError, start};

use crate::chat::{Chat, ChatConfig, ChatEvent, ChatRequest};
use crate::group::{Group, down, up};

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
    std::fs::copy(group.config(2).data.join("life"), copy.path().join("life")).unwrap();
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

#[tokio::test]
async fn a_directory_in_use_or_damaged_is_refused() {
    let mut group = Group::new(1);
    let member = group.start(1).await;
    let mut config = group.config(1);
    config.listen = ([127, 0, 0, 1], 0).into();
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
