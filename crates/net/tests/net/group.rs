//! Groups of nodes on this machine.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use crate::chat::{Chat, ChatConfig, ChatEvent, ChatRequest};
use conclave_core::{Incarnation, NodeId};
use conclave_net::{Events, Node, NodeConfig, Options, Status, start};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

/// Longer than anything here should take.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Addresses and directories of a group on this machine.
pub struct Group {
    pub addresses: Vec<(NodeId, SocketAddr)>,
    listeners: Vec<Option<TcpListener>>,
    pub dir: TempDir,
    /// Changes the settings of every node.
    pub adjust: fn(&mut NodeConfig),
    pub chat: ChatConfig,
}

/// A node with its events.
pub struct Member {
    pub node: Node<Chat>,
    pub events: Events<Chat>,
}

impl Group {
    /// Nodes 1 to n; nobody runs yet, but their ports are taken.
    pub fn new(n: u32) -> Self {
        let listeners: Vec<TcpListener> = (0..n).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let addresses = (1..).map(NodeId).zip(listeners.iter().map(|l| l.local_addr().unwrap())).collect();
        let listeners = listeners.into_iter().map(Some).collect();
        let dir = tempfile::tempdir().unwrap();
        Self { addresses, listeners, dir, adjust: |_| (), chat: ChatConfig::default() }
    }

    pub fn config(&self, id: u32) -> NodeConfig {
        let data = self.dir.path().join(format!("node-{id}"));
        let mut config = NodeConfig::new(NodeId(id), self.addresses.clone(), "test", "chat", data);
        config.detector.beat = Duration::from_millis(20);
        config.detector.min_deviation = Duration::from_millis(20);
        config.detector.at_least = Duration::from_millis(400);
        config.limits.backoff_max = Duration::from_millis(100);
        (self.adjust)(&mut config);
        config
    }

    /// The socket of a node, the first time.
    pub fn listener(&mut self, id: u32) -> Option<TcpListener> {
        self.listeners[id as usize - 1].take()
    }

    pub fn address(&self, id: u32) -> SocketAddr {
        self.addresses[id as usize - 1].1
    }

    /// Starts a node, for the first time or again.
    pub async fn start(&mut self, id: u32) -> Member {
        let options = Options { listener: self.listener(id), ..Options::default() };
        let (node, events) = start::<Chat>(self.config(id), self.chat.clone(), options).await.unwrap();
        Member { node, events }
    }

    pub async fn start_all(&mut self) -> Vec<Member> {
        let mut members = Vec::new();
        for id in 1..=self.addresses.len() as u32 {
            members.push(self.start(id).await);
        }
        members
    }
}

impl Member {
    pub async fn say(&self, to: u32, number: u64) {
        self.node.request(ChatRequest::Say { to: NodeId(to), number }).await.unwrap();
    }

    /// The next event.
    pub async fn next(&mut self) -> ChatEvent {
        timeout(PATIENCE, self.events.recv()).await.expect("nothing happened").expect("the node has stopped")
    }

    /// The next that becomes known about a peer.
    pub async fn next_about(&mut self, wanted: u32) -> ChatEvent {
        loop {
            match self.next().await {
                ChatEvent::Down { peer, .. } | ChatEvent::Up { peer, .. } if peer != NodeId(wanted) => {}
                event => return event,
            }
        }
    }

    /// The next message that it heard, and nothing else.
    pub async fn heard(&mut self) -> (u32, u64) {
        match self.next().await {
            ChatEvent::Heard { from, number } => (from.0, number),
            other => panic!("{other:?} instead of a message"),
        }
    }

    /// Waits until the status is as wanted.
    pub async fn until(&self, what: &str, wanted: impl Fn(&Status) -> bool) {
        until(what, || wanted(&self.node.status())).await;
    }

    pub async fn until_connected(&self) {
        self.until("connected", |s| s.peers.values().all(|p| p.connected_to && p.connected_from)).await;
    }
}

/// Waits until something holds.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

pub fn down(peer: u32, life: u32) -> ChatEvent {
    ChatEvent::Down { peer: NodeId(peer), life: Incarnation(life) }
}

pub fn up(peer: u32, life: u32) -> ChatEvent {
    ChatEvent::Up { peer: NodeId(peer), life: Incarnation(life) }
}
