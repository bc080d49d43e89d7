//! What must be durable is durable before anything that rests on it leaves.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use conclave_core::NodeId;
use conclave_net::{Events, Node, NodeError, Options, Stable, start};

use crate::chat::{Chat, ChatRequest};
use crate::group::Group;

/// A disk that waits for a word before every write.
struct Gate {
    open: mpsc::Receiver<io::Result<()>>,
    saves: Arc<AtomicU64>,
}

impl Stable for Gate {
    fn save(&mut self, _bytes: &[u8]) -> io::Result<()> {
        self.open.recv().unwrap_or_else(|_| Err(io::Error::other("the disk is gone")))?;
        self.saves.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// Says that it saved, and did not.
struct Liar(Arc<AtomicU64>);

impl Stable for Liar {
    fn save(&mut self, _bytes: &[u8]) -> io::Result<()> {
        let saves = Arc::clone(&self.0);
        std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(300));
            saves.fetch_add(1, Ordering::SeqCst);
        });
        Ok(())
    }
}

async fn start_with(group: &mut Group, store: Box<dyn Stable>) -> (Node<Chat>, Events<Chat>) {
    group.chat.saves = true;
    let options = Options { listener: group.listener(1), store: Some(store), ..Options::default() };
    start::<Chat>(group.config(1), group.chat.clone(), options).await.unwrap()
}

/// How many saves were complete when the peer heard the first message.
async fn saves_when_heard(store: impl FnOnce(Arc<AtomicU64>) -> Box<dyn Stable>) -> u64 {
    let mut group = Group::new(2);
    let saves = Arc::new(AtomicU64::new(0));
    let (node, _events) = start_with(&mut group, store(Arc::clone(&saves))).await;
    let mut peer = group.start(2).await;
    peer.until_connected().await;
    node.request(ChatRequest::Say { to: NodeId(2), number: 1 }).await.unwrap();
    assert_eq!(peer.heard().await, (1, 1));
    saves.load(Ordering::SeqCst)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_leaves_before_it_is_saved() {
    let saved = saves_when_heard(|saves| {
        let (word, open) = mpsc::channel();
        std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(300));
            let _ = word.send(Ok(()));
        });
        Box::new(Gate { open, saves })
    });
    assert_eq!(saved.await, 1);
}

/// The test above can fail: with a store that does not wait for the disk, the message is heard first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_lies_is_seen_through() {
    assert_eq!(saves_when_heard(|saves| Box::new(Liar(saves))).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_save_that_fails_stops_the_node_and_nothing_leaves() {
    let mut group = Group::new(2);
    let (word, open) = mpsc::channel();
    let store = Gate { open, saves: Arc::default() };
    let (node, _events) = start_with(&mut group, Box::new(store)).await;
    let mut peer = group.start(2).await;
    peer.until_connected().await;
    node.request(ChatRequest::Say { to: NodeId(2), number: 1 }).await.unwrap();
    word.send(Err(io::Error::other("the disk is full"))).unwrap();
    let ended = node.ended().await;
    assert!(matches!(&ended, Err(NodeError::Save(error)) if error.to_string().contains("full")), "{ended:?}");
    assert_eq!(peer.next().await, crate::group::down(1, 1));
    assert_eq!(peer.node.status().peers[&NodeId(1)].received, 0);
}

/// A disk that takes longer for each write than makes a suspect.
struct Slow;

impl Stable for Slow {
    fn save(&mut self, _bytes: &[u8]) -> io::Result<()> {
        std::thread::sleep(std::time::Duration::from_millis(600));
        Ok(())
    }
}

/// Who writes all the time still hears others, and notices that one has died.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_disk_hides_no_death() {
    let mut group = Group::new(3);
    let (node, mut events) = start_with(&mut group, Box::new(Slow)).await;
    let node = Arc::new(node);
    group.chat.saves = false;
    let (second, third) = (group.start(2).await, group.start(3).await);
    third.until_connected().await;
    let asks = Arc::clone(&node);
    let asking = tokio::spawn(async move {
        for number in 1.. {
            asks.request(ChatRequest::Say { to: NodeId(2), number }).await.unwrap();
        }
    });
    // Nobody hears it any more.
    assert!(node.cut(NodeId(3)) && second.node.cut(NodeId(3)));
    let noticed = tokio::time::timeout(crate::group::PATIENCE, events.recv()).await;
    assert_eq!(noticed.expect("it was not noticed"), Some(crate::group::down(3, 1)));
    asking.abort();
}
