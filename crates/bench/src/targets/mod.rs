//! The systems that can be measured, one file each.

pub mod conclave;
pub mod etcd;
mod frames;
mod pool;
pub mod redis;
pub mod zookeeper;

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::target::{Target, TargetError};
use conclave::Release;

/// A kind of system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Conclave, by its own client; a release is awaited, as with all others.
    Conclave,
    /// The same, but guards are dropped: a release travels together with what the client asks for next.
    ConclaveDropped,
    /// etcd v3, by its lock service.
    Etcd,
    /// ZooKeeper, by the recipe that Curator uses.
    Zookeeper,
    /// Redis, by `SET NX PX` and compare-and-delete.
    Redis,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Conclave, Self::ConclaveDropped, Self::Etcd, Self::Zookeeper, Self::Redis];

    /// Its name, as written on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Conclave => "conclave",
            Self::ConclaveDropped => "conclave-dropped",
            Self::Etcd => "etcd",
            Self::Zookeeper => "zookeeper",
            Self::Redis => "redis",
        }
    }

    /// Whether several of its clients can share a connection.
    pub fn can_share(self) -> bool {
        match self {
            Self::Conclave | Self::ConclaveDropped | Self::Etcd => true,
            // A session of ZooKeeper is a connection, and one of Redis answers one request after the other.
            Self::Zookeeper | Self::Redis => false,
        }
    }

    /// How long a client waits for a cycle before the load gives it up and takes another one at the next endpoint. One that
    /// looks for another node by itself is left the time to do so.
    pub fn patience(self) -> Duration {
        match self {
            Self::Conclave | Self::ConclaveDropped => Duration::from_secs(3),
            Self::Etcd | Self::Zookeeper | Self::Redis => Duration::from_millis(200),
        }
    }

    /// A target of this kind at these endpoints, whose sessions outlive their clients by the given time, and whose
    /// clients share so many connections, where it can do that; otherwise each has its own.
    pub fn open(
        self,
        endpoints: &[String],
        ttl: Duration,
        connections: Option<NonZeroUsize>,
    ) -> Arc<dyn Target> {
        let endpoints = Endpoints::new(endpoints.to_vec());
        let conclave = |endpoints, release| conclave::Conclave::new(endpoints, ttl, release, connections);
        match self {
            Self::Conclave => Arc::new(conclave(endpoints, Release::Awaited)),
            Self::ConclaveDropped => Arc::new(conclave(endpoints, Release::Dropped)),
            Self::Etcd => Arc::new(etcd::Etcd::new(endpoints, ttl, connections)),
            Self::Zookeeper => Arc::new(zookeeper::Zookeeper::new(endpoints, ttl)),
            Self::Redis => Arc::new(redis::Redis::new(endpoints, ttl)),
        }
    }
}

/// One system to measure, as named on the command line: `KIND=HOST:PORT,...`, or `KIND/LABEL=...` where two of a kind
/// are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// What it is.
    pub kind: Kind,
    /// What the report calls it.
    pub label: String,
    /// Where its servers listen; never empty.
    pub endpoints: Vec<String>,
}

impl Spec {
    /// The target itself.
    pub fn open(&self, ttl: Duration, connections: Option<NonZeroUsize>) -> Arc<dyn Target> {
        self.kind.open(&self.endpoints, ttl, connections)
    }
}

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (what, endpoints) = text.split_once('=').ok_or("expected KIND=HOST:PORT,HOST:PORT,...")?;
        let (kind, label) = what.split_once('/').unwrap_or((what, what));
        let kind = Kind::from_str(kind)?;
        if label.is_empty() {
            return Err("the label after the slash is empty".to_owned());
        }
        let endpoints: Vec<String> = endpoints.split(',').map(str::to_owned).collect();
        match endpoints.iter().find(|endpoint| !is_address(endpoint)) {
            Some(bad) => Err(format!("\"{bad}\" is not HOST:PORT")),
            None => Ok(Self { kind, label: label.to_owned(), endpoints }),
        }
    }
}

fn is_address(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.map(Self::name).to_vec();
            format!("unknown kind \"{text}\"; known are {}", known.join(", "))
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Endpoints that are used in turn, so that clients spread over the servers, and one that lost its server tries another.
#[derive(Debug)]
pub struct Endpoints {
    all: Vec<String>,
    next: AtomicUsize,
}

impl Endpoints {
    /// Starts with the first.
    pub fn new(all: Vec<String>) -> Self {
        Self { all, next: AtomicUsize::new(0) }
    }

    /// All of them.
    pub fn all(&self) -> &[String] {
        &self.all
    }

    /// One of them, by index.
    pub fn at(&self, index: usize) -> Result<&str, TargetError> {
        self.all.get(index).map(String::as_str).ok_or_else(|| TargetError::Unreachable {
            endpoint: format!("endpoint {index}"),
            reason: format!("only {} are known", self.all.len()),
        })
    }

    /// The next in turn.
    pub fn next(&self) -> Result<&str, TargetError> {
        self.at(self.next.fetch_add(1, Ordering::Relaxed) % self.all.len().max(1))
    }
}
