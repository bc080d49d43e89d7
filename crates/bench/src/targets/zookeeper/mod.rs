//! ZooKeeper as a lock, by the recipe that Curator's `InterProcessMutex` follows.
//!
//! Every client puts an ephemeral node with a growing number under the node of the lock. The lowest number holds; every
//! other one watches the node just before its own and looks again when that is gone, so that a release wakes one.
//! Releasing deletes the node. The number serves as fencing token: it grows as long as the node of the lock stays.
//!
//! A client has one thing on the wire at a time and is never idle for long, so it pings only where it waits, and needs
//! no task in the background.

mod jute;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::timeout;

use self::jute::{Flags, NO_NODE, NODE_EXISTS, NOTIFICATION, Op, PING, Packet};
use super::Endpoints;
use super::frames::Frames;
use crate::target::{Client, Crowd, Role, Target, TargetError, Work};

/// A ZooKeeper ensemble.
#[derive(Debug)]
pub struct Zookeeper {
    endpoints: Endpoints,
    ttl: Duration,
}

impl Zookeeper {
    /// The ensemble at these endpoints.
    pub fn new(endpoints: Endpoints, ttl: Duration) -> Self {
        Self { endpoints, ttl }
    }
}

impl Target for Zookeeper {
    fn client(&self) -> Work<'_, Box<dyn Client>> {
        Box::pin(async {
            let session = Session::open(self.endpoints.next()?, self.ttl).await?;
            Ok(Box::new(Mutex { session, parent: String::new(), node: String::new() }) as Box<dyn Client>)
        })
    }

    fn endpoints(&self) -> &[String] {
        self.endpoints.all()
    }

    fn role(&self, endpoint: usize) -> Work<'_, Role> {
        Box::pin(async move {
            let mut frames = Frames::connect(self.endpoints.at(endpoint)?).await?;
            frames.send(b"srvr").await?;
            // A server without a quorum says so in one line and hangs up.
            match frames.next(take_mode).await {
                Ok(role) => Ok(role),
                Err(TargetError::Lost(_)) => Ok(Role::Lost),
                Err(other) => Err(other),
            }
        })
    }

    fn crowd(&self, _sessions: usize) -> Work<'_, Box<dyn Crowd>> {
        Box::pin(async { Err(TargetError::Unsupported { kind: "zookeeper", what: "wait in a crowd" }) })
    }
}

/// Finds the mode in the answer to `srvr`.
// A reader of messages may fail in general; this one cannot.
#[allow(clippy::unnecessary_wraps)]
fn take_mode(buffer: &mut BytesMut) -> Result<Option<Role>, TargetError> {
    let text = String::from_utf8_lossy(buffer);
    let mode = text.lines().find_map(|line| line.strip_prefix("Mode: "));
    Ok(match mode {
        Some("leader" | "standalone") => Some(Role::Leader),
        Some("follower") => Some(Role::Follower),
        _ => None,
    })
}

/// One client and its lock.
struct Mutex {
    session: Session,
    /// The node of the lock, known to exist.
    parent: String,
    /// Our node under it, while we hold or wait.
    node: String,
}

impl Client for Mutex {
    fn acquire<'a>(&'a mut self, name: &'a str) -> Work<'a, Option<u64>> {
        Box::pin(async move {
            self.settle(name).await?;
            let path = format!("{}/lock-", self.parent);
            self.node = self.session.create(&path, Flags::EphemeralSequential).await?;
            let mine = self.node.rsplit('/').next().unwrap_or_default().to_owned();
            while let Some(before) = self.predecessor(&mine).await? {
                self.session.await_end(&before).await?;
            }
            Ok(mine.trim_start_matches("lock-").parse().ok())
        })
    }

    fn release(&mut self) -> Work<'_, ()> {
        Box::pin(async { self.session.delete(&self.node).await })
    }

    fn close(mut self: Box<Self>) -> Work<'static, ()> {
        Box::pin(async move { Ok(self.session.ask(Op::Close, |packet| packet).await.map(drop)?) })
    }
}

impl Mutex {
    /// Makes sure that the node of the lock exists.
    async fn settle(&mut self, name: &str) -> Result<(), TargetError> {
        let known = self.parent.strip_prefix('/').is_some_and(|parent| parent == name);
        if !known {
            let parent = format!("/{name}");
            match self.session.create(&parent, Flags::Persistent).await {
                Ok(_) | Err(Failure::Server(NODE_EXISTS)) => self.parent = parent,
                Err(other) => return Err(other.into()),
            }
        }
        Ok(())
    }

    /// The node just before ours, if there is one.
    async fn predecessor(&mut self, mine: &str) -> Result<Option<String>, TargetError> {
        let mut packet =
            self.session.ask(Op::GetChildren, |packet| packet.text(&self.parent).flag(false)).await?;
        let children = jute::texts(&mut packet)?;
        if !children.iter().any(|child| child == mine) {
            return Err(TargetError::Refused("the session has expired".to_owned()));
        }
        let before = children.into_iter().filter(|child| child.as_str() < mine).max();
        Ok(before.map(|node| format!("{}/{node}", self.parent)))
    }
}

/// Why a request to ZooKeeper failed.
enum Failure {
    /// The server says so, by number.
    Server(i32),
    /// Something else.
    Target(TargetError),
}

impl From<TargetError> for Failure {
    fn from(error: TargetError) -> Self {
        Self::Target(error)
    }
}

impl From<Failure> for TargetError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Server(code) => Self::Refused(format!("error {code}")),
            Failure::Target(error) => error,
        }
    }
}

/// A session and its connection.
struct Session {
    frames: Frames,
    xid: i32,
    ping_every: Duration,
    /// Whether the one node that is watched has changed.
    notified: bool,
}

impl Session {
    async fn open(endpoint: &str, ttl: Duration) -> Result<Self, TargetError> {
        let mut frames = Frames::connect(endpoint).await?;
        let asked = i32::try_from(ttl.as_millis()).unwrap_or(i32::MAX);
        frames.send(&Packet::connect(asked).finish()).await?;
        let mut packet = frames.next(jute::take_packet).await?;
        let _version = jute::int(&mut packet)?;
        let granted = u64::try_from(jute::int(&mut packet)?).unwrap_or(0);
        if granted == 0 {
            return Err(TargetError::Refused("no session".to_owned()));
        }
        Ok(Self { frames, xid: 0, ping_every: Duration::from_millis(granted / 3), notified: false })
    }

    async fn create(&mut self, path: &str, flags: Flags) -> Result<String, Failure> {
        let fill = |packet: Packet| packet.text(path).buffer(&[]).open_to_all().int(flags as i32);
        let mut packet = self.ask(Op::Create, fill).await?;
        Ok(jute::text(&mut packet)?)
    }

    async fn delete(&mut self, path: &str) -> Result<(), TargetError> {
        let any_version = -1;
        self.ask(Op::Delete, |packet| packet.text(path).int(any_version)).await?;
        Ok(())
    }

    /// Waits until a node is gone. Like Curator it reads the node rather than asking whether it exists, since that
    /// would leave a watch behind on one that is gone already.
    async fn await_end(&mut self, path: &str) -> Result<(), TargetError> {
        self.notified = false;
        match self.ask(Op::GetData, |packet| packet.text(path).flag(true)).await {
            Err(Failure::Server(NO_NODE)) => return Ok(()),
            other => other?,
        };
        while !self.notified {
            self.next().await?;
        }
        Ok(())
    }

    /// Sends a request and reads up to its answer.
    async fn ask(&mut self, op: Op, fill: impl FnOnce(Packet) -> Packet) -> Result<Bytes, Failure> {
        self.xid = self.xid.wrapping_add(1).max(1);
        self.frames.send(&fill(Packet::request(self.xid, op)).finish()).await?;
        loop {
            let (head, packet) = self.next().await?;
            if head.xid == self.xid {
                return if head.error == 0 { Ok(packet) } else { Err(Failure::Server(head.error)) };
            }
        }
    }

    /// Waits for whatever arrives next, with a ping now and then; a notification is remembered.
    ///
    /// Pings matter even while an answer is due: a ZooKeeper 3.8.0 that had one client only was seen to leave a read
    /// unanswered until the session expired for want of them.
    async fn next(&mut self) -> Result<(jute::Head, Bytes), TargetError> {
        loop {
            match timeout(self.ping_every, self.frames.next(jute::take_packet)).await {
                Ok(packet) => {
                    let mut packet = packet?;
                    let head = jute::head(&mut packet)?;
                    self.notified |= head.xid == NOTIFICATION;
                    return Ok((head, packet));
                }
                Err(_) => self.frames.send(&Packet::request(PING, Op::Ping).finish()).await?,
            }
        }
    }
}
